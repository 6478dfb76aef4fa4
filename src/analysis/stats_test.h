/* Statistics of comparisons: is B larger than A, by how much, and how sure is that?
 *
 * Threads   pure functions, no state.  Ownership: nothing is kept; arrays are the caller's.
 * Memory    scratch of the size of the samples; running out of it ends the program (pool.h).
 *
 * Samples of neighbouring steps are not independent: a busy machine slows many steps in a row.  So the rank test counts
 * with the effective sample size, and the bootstrap draws blocks of neighbours, and whole runs when there are several.
 */
#ifndef OPGAP_ANALYSIS_STATS_TEST_H
#define OPGAP_ANALYSIS_STATS_TEST_H

#include <stddef.h>
#include <stdint.h>

/* Repeats of one side: run i has its samples at at[i][0 .. counts[i]), in the order in which they were taken. */
struct stats_sample {
  const double *const *at;
  const size_t *counts;
  size_t runs;
};
size_t stats_sample_total(const struct stats_sample *sample);

/* NAN for no values. */
double stats_mean(const double *values, size_t count);
double stats_quantile_of(const double *values, size_t count, double share); /* linear interpolation (type 7) */
double stats_median(const double *values, size_t count);

/* How many independent values `count` neighbours are worth: count / (1 + 2 sum of autocorrelations), Geyer's initial
 * positive sequence; between 1 and count.  Equal values: count. */
double stats_effective_size(const double *values, size_t count);

struct stats_rank_test {
  double u;         /* of B: pairs with b > a, ties count a half */
  double z;         /* normal deviate, tie and continuity corrected; 0 when all values are equal */
  double p_greater; /* B is larger */
  double p_less;    /* B is smaller */
};
/* Mann-Whitney U, normal approximation.  The variance is raised by count / effective size of both sides.  Needs values
 * on both sides, else p = 1. */
struct stats_rank_test stats_mann_whitney(const struct stats_sample *a, const struct stats_sample *b);

/* The same without the effective size: the textbook test. */
struct stats_rank_test stats_mann_whitney_plain(const double *a, size_t a_count, const double *b, size_t b_count);

/* p of Welch's t test that B's mean is larger; for comparison of methods. */
double stats_welch_greater(const double *a, size_t a_count, const double *b, size_t b_count);

enum stats_centre { STATS_MEDIAN, STATS_MEAN, STATS_P95 };
double stats_centre_of(const struct stats_sample *sample, enum stats_centre centre);

struct stats_interval {
  double low, high;
};
/* Percentile bootstrap of centre(B) / centre(A): runs are drawn with replacement, then blocks of neighbouring steps
 * inside them.  Deterministic for a seed.  NAN when A's centre is 0 or a side is empty. */
struct stats_interval stats_bootstrap_ratio(const struct stats_sample *a, const struct stats_sample *b,
                                            enum stats_centre centre, double confidence, unsigned resamples,
                                            uint64_t seed);

/* Are runs as wholes apart?  The centre of each run is one value; t test of their logarithms with the variance pooled
 * over both sides and with what is expected of any program before it has been repeated: a spread of STATS_RUN_SPREAD
 * between runs, worth STATS_RUN_WORTH degrees of freedom.  So one run on each side can show only a large change, and
 * repeats replace the expectation by what was measured.  Centres of 0, which have no logarithm: p = 1 and no interval.
 */
#define STATS_RUN_SPREAD 0.04
#define STATS_RUN_WORTH 3.0
struct stats_run_test {
  double p_greater, p_less;
  struct stats_interval ratio;
};
struct stats_run_test stats_between_runs(const struct stats_sample *a, const struct stats_sample *b,
                                         enum stats_centre centre, double confidence);

/* The same for sides that touch 0: t test of the centres themselves.  A side at 0 tells nothing about the spread of the
 * other, so each has its own variance (Welch), again with an expectation worth STATS_RUN_WORTH degrees of freedom: a
 * spread of STATS_RUN_SPREAD of its mean, and of `floor` (> 0, in the unit of the samples) however small that is.  A
 * program that waits in some runs and not in others has centres of two kinds, for which no t test is made: p is 1
 * unless every run of one side is beyond every run of the other.  The ratio is NAN when A's centres are all 0. */
struct stats_run_test stats_between_runs_at_zero(const struct stats_sample *a, const struct stats_sample *b,
                                                 enum stats_centre centre, double confidence, double floor);

/* The smallest centre of a run; INFINITY without values. */
double stats_least_centre(const struct stats_sample *sample, enum stats_centre centre);

/* P(T > t) of Student's t with df degrees of freedom. */
double stats_t_above(double t, double df);

/* Holm's step-down correction: adjusted[i] for p[i], never above 1.  adjusted may be p. */
void stats_holm(const double *p, size_t count, double *adjusted);

#endif
