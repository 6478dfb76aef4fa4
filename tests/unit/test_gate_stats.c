/* Statistics against reference values of scipy 1.17.1, numpy 2.4.6 and statsmodels, computed by
 * tests/gate/reference.py; the data come from the same generator here and there. */
#include "analysis/stats_test.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#define NEAR(a, b, tolerance)                                                                                          \
  do {                                                                                                                 \
    double near_a = (a), near_b = (b);                                                                                 \
    ck_assert_msg(fabs(near_a - near_b) <= (tolerance), "%s: %.17g, expected %.17g", #a, near_a, near_b);              \
  } while (0)

static void generate(uint64_t seed, double *values, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = (double)(seed >> 40);
  }
}

START_TEST(test_generator_is_that_of_the_reference)
{
  double values[3];
  generate(1, values, 3);
  NEAR(values[0], 7100271, 0);
  NEAR(values[1], 8546438, 0);
  NEAR(values[2], 10877665, 0);
}
END_TEST

START_TEST(test_mann_whitney_with_ties)
{
  const double a[] = {1.1, 2.2, 3.3, 4.4, 5.5, 2.2}, b[] = {2.2, 3.1, 4.9, 6.0, 7.7, 8.1, 2.2};
  struct stats_rank_test test = stats_mann_whitney_plain(a, 6, b, 7);
  NEAR(test.u, 30, 0);
  NEAR(test.p_greater, 0.109102125453369, 1e-12);
  NEAR(test.p_less, 0.915616741743546, 1e-12);
  NEAR(stats_welch_greater(a, 6, b, 7), 0.0768253403008035, 1e-12);
  NEAR(stats_median(a, 6), 2.75, 1e-15);
  NEAR(stats_quantile_of(b, 7, 0.95), 7.98, 1e-12);
}
END_TEST

START_TEST(test_mann_whitney_without_ties)
{
  double a[50], b[60];
  generate(1, a, 50);
  generate(2, b, 60);
  for (size_t i = 0; i < 60; i++)
    b[i] *= 1.2;
  struct stats_rank_test test = stats_mann_whitney_plain(a, 50, b, 60);
  NEAR(test.u, 1617, 0);
  NEAR(test.p_greater, 0.242166737689919, 1e-12);
  NEAR(test.p_less, 0.759704634169802, 1e-12);
  NEAR(stats_welch_greater(a, 50, b, 60), 0.170364664289424, 1e-12);
  NEAR(stats_median(a, 50), 9019153, 0);
  NEAR(stats_quantile_of(b, 60, 0.95), 19151380.86, 1e-6);
}
END_TEST

START_TEST(test_mann_whitney_of_many_ties)
{
  double a[40], b[30];
  generate(3, a, 40);
  generate(4, b, 30);
  for (size_t i = 0; i < 40; i++)
    a[i] = fmod(a[i], 7);
  for (size_t i = 0; i < 30; i++)
    b[i] = fmod(b[i], 9);
  struct stats_rank_test test = stats_mann_whitney_plain(a, 40, b, 30);
  NEAR(test.u, 599.5, 0);
  NEAR(test.p_greater, 0.504782821813165, 1e-12);
  NEAR(test.p_less, 0.5, 1e-12);
  NEAR(stats_welch_greater(a, 40, b, 30), 0.429157768589284, 1e-12);
}
END_TEST

START_TEST(test_equal_values_are_no_change)
{
  const double a[] = {5, 5, 5, 5}, b[] = {5, 5, 5};
  struct stats_rank_test test = stats_mann_whitney_plain(a, 4, b, 3);
  NEAR(test.p_greater, 1, 0);
  NEAR(test.p_less, 1, 0);
  test = stats_mann_whitney_plain(a, 4, b, 0);
  NEAR(test.p_greater, 1, 0);
  ck_assert(isnan(stats_median(a, 0)));
}
END_TEST

/* x[i] = 0.7 x[i-1] + u[i]: the true factor is (1 - 0.7) / (1 + 0.7) = 0.18. */
static void correlated(double *values, size_t count)
{
  double before = 0;
  generate(5, values, count);
  for (size_t i = 0; i < count; i++) {
    double u = values[i] / 16777216.0 - 0.5;
    before = values[i] = i ? 0.7 * before + u : u;
  }
}

START_TEST(test_effective_size)
{
  double x[500], white[500];
  correlated(x, 500);
  generate(6, white, 500);
  NEAR(stats_effective_size(x, 500), 77.7872438174751, 1e-8);
  NEAR(stats_effective_size(white, 500), 398.170285940612, 1e-8);
  const double equal[] = {3, 3, 3, 3, 3, 3, 3, 3};
  NEAR(stats_effective_size(equal, 8), 8, 0);
}
END_TEST

/* With autocorrelation the test must be slower to believe: z shrinks by sqrt of the effective share. */
START_TEST(test_rank_test_takes_autocorrelation_into_account)
{
  double a[500], b[500];
  correlated(a, 500);
  for (size_t i = 0; i < 500; i++)
    b[i] = a[i] + 0.1;
  const double *left = a, *right = b;
  size_t count = 500;
  const struct stats_sample sa = {&left, &count, 1}, sb = {&right, &count, 1};
  struct stats_rank_test plain = stats_mann_whitney_plain(a, 500, b, 500), with = stats_mann_whitney(&sa, &sb);
  NEAR(with.u, plain.u, 0);
  NEAR(with.z, plain.z * sqrt(77.7872438174751 / 500), 1e-9);
}
END_TEST

START_TEST(test_bootstrap_of_independent_values)
{
  /* scipy.stats.bootstrap, percentile, 99 %: 1.0418 .. 1.0596 around 1.05152 */
  double a[400], b[400];
  generate(7, a, 400);
  generate(8, b, 400);
  for (size_t i = 0; i < 400; i++) {
    a[i] = a[i] / 16777216.0 + 10;
    b[i] = (b[i] / 16777216.0 + 10) * 1.05;
  }
  const double *left = a, *right = b;
  size_t count = 400;
  const struct stats_sample sa = {&left, &count, 1}, sb = {&right, &count, 1};
  NEAR(stats_centre_of(&sb, STATS_MEDIAN) / stats_centre_of(&sa, STATS_MEDIAN), 1.0515166983896993, 1e-12);
  struct stats_interval ratio = stats_bootstrap_ratio(&sa, &sb, STATS_MEDIAN, 0.99, 4000, 1);
  NEAR(ratio.low, 1.0418, 0.003);
  NEAR(ratio.high, 1.0596, 0.003);
  struct stats_interval again = stats_bootstrap_ratio(&sa, &sb, STATS_MEDIAN, 0.99, 4000, 1);
  NEAR(again.low, ratio.low, 0);
  NEAR(again.high, ratio.high, 0);
}
END_TEST

/* Blocks of one step would give an interval as narrow as if all 500 steps were independent. */
START_TEST(test_bootstrap_of_correlated_values_is_wider)
{
  double a[500], shuffled[500];
  correlated(a, 500);
  for (size_t i = 0; i < 500; i++)
    a[i] += 10;
  for (size_t i = 0; i < 500; i++)
    shuffled[i] = a[i * 7919 % 500];
  const double *x = a, *y = shuffled;
  size_t count = 500;
  const struct stats_sample sx = {&x, &count, 1}, sy = {&y, &count, 1};
  struct stats_interval wide = stats_bootstrap_ratio(&sx, &sx, STATS_MEAN, 0.99, 2000, 1);
  struct stats_interval narrow = stats_bootstrap_ratio(&sy, &sy, STATS_MEAN, 0.99, 2000, 1);
  ck_assert(wide.high - wide.low > 1.5 * (narrow.high - narrow.low));
}
END_TEST

/* Two repeats that differ: the interval must span what runs differ by, not only steps. */
START_TEST(test_bootstrap_draws_runs)
{
  double one[100], two[100];
  generate(9, one, 100);
  for (size_t i = 0; i < 100; i++) {
    one[i] = one[i] / 16777216.0 + 100;
    two[i] = one[i] * 1.10;
  }
  const double *repeats[] = {one, two};
  size_t counts[] = {100, 100};
  const struct stats_sample sample = {repeats, counts, 2};
  struct stats_interval ratio = stats_bootstrap_ratio(&sample, &sample, STATS_MEDIAN, 0.99, 2000, 1);
  ck_assert(ratio.low < 0.92 && ratio.high > 1.09);
}
END_TEST

START_TEST(test_bootstrap_of_zero_is_unknown)
{
  const double zero[] = {0, 0, 0, 0}, some[] = {1, 2, 3, 4};
  const double *a = zero, *b = some;
  size_t count = 4;
  const struct stats_sample sa = {&a, &count, 1}, sb = {&b, &count, 1};
  ck_assert(isnan(stats_bootstrap_ratio(&sa, &sb, STATS_MEDIAN, 0.99, 100, 1).low));
}
END_TEST

/* scipy.stats.t.sf and isf with the variance pooled by hand: see reference.py. */
START_TEST(test_between_runs)
{
  NEAR(stats_t_above(2.5, 7), 0.020496109292876444, 1e-14);
  NEAR(stats_t_above(-1.2, 3.5), 0.8474927573110678, 1e-14);
  const double values[] = {10, 10.2, 9.9, 11, 10.8, 11.3};
  const double *a[] = {values, values + 1, values + 2}, *b[] = {values + 3, values + 4, values + 5};
  const size_t counts[] = {1, 1, 1};
  const struct stats_sample left = {a, counts, 3}, right = {b, counts, 3};
  struct stats_run_test test = stats_between_runs(&left, &right, STATS_MEDIAN, 0.99);
  NEAR(test.p_greater, 0.00304425151301547, 1e-12);
  NEAR(test.p_less, 1 - 0.00304425151301547, 1e-12);
  NEAR(test.ratio.low, 1.00925061865335, 1e-10);
  NEAR(test.ratio.high, 1.1979554129319, 1e-10);
}
END_TEST

/* By scipy as well, see reference.py: a side that touches 0, and each side's own variance. */
START_TEST(test_between_runs_at_zero)
{
  const double values[] = {0, 0, 30, 500, 560};
  const double *a[] = {values, values + 1, values + 2}, *b[] = {values + 3, values + 4};
  const size_t counts[] = {1, 1, 1};
  const struct stats_sample left = {a, counts, 3}, right = {b, counts, 2}, zero = {a, counts, 2};
  struct stats_run_test test = stats_between_runs_at_zero(&left, &right, STATS_MEDIAN, 0.99, 10);
  NEAR(test.p_greater, 1.05157171242738e-06, 1e-16);
  NEAR(test.p_less, 1, 0);
  NEAR(test.ratio.low, 44.1649973256332, 1e-9);
  NEAR(test.ratio.high, 61.8350026743668, 1e-9);
  NEAR(stats_least_centre(&left, STATS_MEDIAN), 0, 0);
  NEAR(stats_least_centre(&right, STATS_MEDIAN), 500, 0);
  test = stats_between_runs_at_zero(&zero, &right, STATS_MEDIAN, 0.99, 10);
  ck_assert(isnan(test.ratio.low) && isnan(test.ratio.high) && test.p_greater < 1e-4);
  test = stats_between_runs_at_zero(&zero, &zero, STATS_MEDIAN, 0.99, 10);
  ck_assert(test.p_greater == 1 && test.p_less == 1);
  const double *both[] = {values, values + 3, values + 4}; /* one as before: not apart */
  const struct stats_sample mixed = {both, counts, 3};
  test = stats_between_runs_at_zero(&zero, &mixed, STATS_MEDIAN, 0.99, 10);
  ck_assert(test.p_greater == 1 && test.p_less == 1);
  test = stats_between_runs_at_zero(&right, &zero, STATS_MEDIAN, 0.99, 10);
  ck_assert(test.p_greater == 1 && test.p_less < 1e-4);
}
END_TEST

START_TEST(test_holm)
{
  const double p[] = {0.01, 0.04, 0.03, 0.005, 0.6}, expected[] = {0.04, 0.09, 0.09, 0.025, 0.6};
  double adjusted[5];
  stats_holm(p, 5, adjusted);
  for (int i = 0; i < 5; i++)
    NEAR(adjusted[i], expected[i], 1e-15);
  double one = 0.7;
  stats_holm(&one, 1, &one);
  NEAR(one, 0.7, 0);
  stats_holm(&one, 0, &one);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("gate statistics");
  TCase *tests = new_case("all");
  suite_add_tcase(suite, tests);
  tcase_add_test(tests, test_generator_is_that_of_the_reference);
  tcase_add_test(tests, test_mann_whitney_with_ties);
  tcase_add_test(tests, test_mann_whitney_without_ties);
  tcase_add_test(tests, test_mann_whitney_of_many_ties);
  tcase_add_test(tests, test_equal_values_are_no_change);
  tcase_add_test(tests, test_effective_size);
  tcase_add_test(tests, test_rank_test_takes_autocorrelation_into_account);
  tcase_add_test(tests, test_bootstrap_of_independent_values);
  tcase_add_test(tests, test_bootstrap_of_correlated_values_is_wider);
  tcase_add_test(tests, test_bootstrap_draws_runs);
  tcase_add_test(tests, test_bootstrap_of_zero_is_unknown);
  tcase_add_test(tests, test_between_runs);
  tcase_add_test(tests, test_between_runs_at_zero);
  tcase_add_test(tests, test_holm);
  return run_suite(suite);
}
