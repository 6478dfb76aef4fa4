/* Comparison of two sets of runs: what changed, by how much, how sure that is, and which rows did it.
 *
 * Threads   one at a time.  Ownership: a comparison owns what it points to, except texts of the two sets, which must
 *           outlive it.
 *
 * Rules (docs/GATE.md gives the reasons):
 *   1. An exact counter (no spread over all steps and repeats of the baseline) is compared exactly.  A step that
 *      differs counts only when the baseline would have shown such a step as well: k differing steps of m, none of n,
 *      must have less than `alpha` probability when all n + m are alike.
 *   2. Samples changed when the relative threshold and the absolute threshold are passed, the rank test (effective
 *      sample sizes, Holm over the metrics judged) is below `alpha`, and the interval of the ratio leaves out 1.  Times
 *      must pass the test between runs as well (stats_between_runs), and the fastest tenth of the steps must have moved
 *      by half of the relative threshold (a disturbance of a part of a run does not move them); counters must have
 *      changed by more than the baseline's repeats differ.  Times that are 0 in some run have no ratio: the test
 *      between runs then compares the times themselves, with a floor of noise of 10 us.  Times are judged by the
 *      median, and where it tells little about the whole time (steps of two kinds, those that wait for data and those
 *      that do not) by the mean, with parts of the runs in place of the fastest steps.
 *   3. Figures of whole runs are judged only when asked for: they hold the start-up, which depends on things as small
 * as the length of a path.  Totals need two repeats of the baseline and equal numbers of steps; the change must exceed
 * half a unit a step and twice the spread of the baseline.
 *   4. What cannot be compared is never a pass: OPGAP_INCOMPARABLE with a reason.
 */
#ifndef OPGAP_ANALYSIS_COMPARE_H
#define OPGAP_ANALYSIS_COMPARE_H

#include "analysis/baseline.h"

enum opgap_change_verdict {
  OPGAP_SAME,
  OPGAP_IMPROVED,
  OPGAP_REGRESSED,
  OPGAP_INCOMPARABLE,
  OPGAP_NOT_JUDGED,
  OPGAP_VERDICT_COUNT
};
/* "pass", "improved", "regressed", "not comparable", "not judged" */
const char *opgap_change_verdict_name(enum opgap_change_verdict verdict);

/* What the user said about one metric or figure. */
struct opgap_rule {
  const char *name;
  bool off; /* not to be judged */
  bool has_relative, has_absolute;
  double relative, absolute; /* 0.05 is 5 %; absolute in ns, bytes or a count */
};
/* Parses "step=5%", "step=5%,100us", "read_bytes=1M", "launches=0", "ops=off".  The name is kept as a pointer into
 * text's copy in the pool.  False with one line in error[size]. */
bool opgap_rule_parse(struct opgap_pool *pool, const char *text, struct opgap_rule *rule, char *error, size_t size);

struct opgap_compare_options {
  const struct opgap_rule *rules; /* later ones win */
  size_t rule_count;
  bool judge; /* gate; else only measure (diff) */
  bool allow_other_machine, allow_other_command;
  size_t min_steps;   /* 0: 20 */
  double alpha;       /* 0: 0.01 */
  unsigned resamples; /* 0: 1000 */
};

struct opgap_explanation {
  const char *kind, *name;
  double before, now; /* per step */
  double share;       /* of the metric's change */
};
#define OPGAP_EXPLANATIONS 5u

struct opgap_change {
  const char *name, *text;
  enum opgap_unit unit;
  bool per_step;       /* else a figure of the whole run */
  bool counter, exact; /* exact: compared exactly */
  double before, now;  /* NAN: unknown */
  double relative;     /* now / before - 1; NAN when unknown or the baseline is 0 */
  double low, high;    /* interval of `relative`; NAN when there is none */
  double p;            /* of the direction seen, Holm-adjusted when judged; NAN when there is none */
  /* Times of steps: the means; where `before` and `now` are medians that tell little about the whole time (rule 2) also
   * the interval of their change and its p, not adjusted, else NAN. */
  bool blind;
  double mean_before, mean_now, mean_low, mean_high, mean_p;
  double relative_limit, absolute_limit;
  enum opgap_change_verdict verdict;
  const char *reason; /* why, "" when plain */
  size_t explanation_count;
  struct opgap_explanation explanations[OPGAP_EXPLANATIONS];
};

struct opgap_comparison {
  enum opgap_change_verdict verdict; /* SAME, IMPROVED, REGRESSED or INCOMPARABLE */
  size_t reason_count, note_count, change_count;
  const char **reasons; /* why the runs as a whole cannot be compared */
  const char **notes;
  struct opgap_change *changes; /* metrics first, in the order of enum opgap_metric; then figures */
  const struct opgap_runs *before, *now;
  struct opgap_pool *pool;
};

struct opgap_comparison *opgap_compare(const struct opgap_runs *before, const struct opgap_runs *now,
                                       const struct opgap_compare_options *options);
void opgap_comparison_free(struct opgap_comparison *comparison);

/* 95th percentiles of the steps, ns, and the interval of now / before - 1 as for a metric's times, with the default
 * options.  NAN: unknown. */
struct opgap_p95_change {
  double before, now, low, high;
};
void opgap_compare_p95(const struct opgap_runs *before, const struct opgap_runs *now, struct opgap_p95_change *change);

/* A row of both sets, per step; rows that changed most by self time first.  The caller frees the array. */
struct opgap_row_change {
  const char *kind, *name;
  const struct opgap_row *before, *now; /* NULL: not there */
};
struct opgap_row_change *opgap_compare_rows(const struct opgap_runs *before, const struct opgap_runs *now,
                                            size_t *count);
/* Sum of a metric of a row per step; 0 for NULL. */
double opgap_row_per_step(const struct opgap_runs *runs, const struct opgap_row *row, enum opgap_metric metric);

/* A value with its unit: "12.345ms", "1.50 MB", "12", "12.5". */
void opgap_unit_text(char *text, size_t size, enum opgap_unit unit, double value);

#endif
