/* What the main functions of the unit tests share. */
#ifndef OPGAP_TESTS_SUITE_H
#define OPGAP_TESTS_SUITE_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A set of tests without Check's limit of 4 s each, which a busy machine with sanitizers takes: CTest's holds for all.
 */
static inline TCase *new_case(const char *name)
{
  TCase *tests = tcase_create(name);
  tcase_set_timeout(tests, 0);
  return tests;
}

/* A part of a passing test that cannot be tried here: tools/test.sh tells of such lines. */
static inline void leave_out(const char *part, const char *why)
{
  printf("left out: %s (%s)\n", part, why);
  fflush(stdout);
}

/* Assertions about each of very many things.  Check writes to a file whenever one of its own is passed, a system call
 * for each; these tell it of what failed alone. */
#define EACH_ASSERT(condition)                                                                                         \
  do {                                                                                                                 \
    if (!(condition))                                                                                                  \
      ck_abort_msg("not so: %s", #condition);                                                                          \
  } while (0)
#define EACH_ASSERT_UINT(x, op, y)                                                                                     \
  do {                                                                                                                 \
    uintmax_t each_x = (x), each_y = (y);                                                                              \
    if (!(each_x op each_y))                                                                                           \
      ck_abort_msg("not so: %s %s %s, which are %ju and %ju", #x, #op, #y, each_x, each_y);                            \
  } while (0)

/* Runs a suite and frees it; what main returns. */
static inline int run_suite(Suite *suite)
{
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV); /* CK_VERBOSITY; normal where it is not set */
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
