/* A folder of its own for a test. */
#ifndef OPGAP_TESTS_FOLDER_H
#define OPGAP_TESTS_FOLDER_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static inline int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
  (void)status;
  (void)kind;
  (void)place;
  return remove(path);
}

/* In this process: a program started for it takes longer than many a test's work. */
static inline void remove_folder(void)
{
  ck_assert_int_eq(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void make_folder(void)
{
  strcpy(folder, "/tmp/opgap-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

#endif
