/* What the main functions of the unit tests share. */
#ifndef OPGAP_TESTS_SUITE_H
#define OPGAP_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* A set of tests without Check's limit of 4 s each, which a busy machine with sanitizers takes: CTest's holds for all.
 */
static inline TCase *new_case(const char *name)
{
  TCase *tests = tcase_create(name);
  tcase_set_timeout(tests, 0);
  return tests;
}

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
