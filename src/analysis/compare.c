#include "analysis/compare.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/stats_test.h"
#include "analysis/text.h"

#define DEFAULT_MIN_STEPS 20u
#define DEFAULT_ALPHA 0.01
#define DEFAULT_RESAMPLES 1000u
#define MIN_EXACT_STEPS 3u
#define SEED 20240229u
#define PART_STEPS 10u /* of a part of a run, at least: holds a bunch of batches from as many workers */
#define MOST_PARTS 10u
#define TWO_KINDS 1.5 /* mean / median, in every part of a run */
/* ns: what times differ by that mean nothing (clock, one interrupt), for which 4 % say nothing */
#define TIME_FLOOR 10e3
#define LARGE_CHANGE 1.0 /* twice the time: a median or a mean that cannot exclude it tells nothing */

const char *opgap_change_verdict_name(enum opgap_change_verdict verdict)
{
  static const char *const names[OPGAP_VERDICT_COUNT] = {"pass", "improved", "regressed", "not comparable",
                                                         "not judged"};
  return names[verdict];
}

/* The nearest integer; a baseline file may hold any number. */
static uint64_t whole(double value)
{
  return value < 0 ? 0 : value < 0x1p63 ? (uint64_t)(value + 0.5) : UINT64_C(1) << 63;
}

void opgap_unit_text(char *text, size_t size, enum opgap_unit unit, double value)
{
  if (!isfinite(value))
    snprintf(text, size, "-");
  else if (unit == OPGAP_UNIT_NS)
    text_time(text, size, whole(value));
  else if (unit == OPGAP_UNIT_BYTES)
    text_bytes(text, size, whole(value));
  else if (unit == OPGAP_UNIT_SHARE)
    snprintf(text, size, "%.1f%%", value * 100);
  else if (value == floor(value))
    snprintf(text, size, "%.0f", value);
  else
    snprintf(text, size, "%.2f", value);
}

/* ---- rules ---- */

/* A number with a unit that fits any of the kinds of metric. */
static bool parse_amount(const char *text, double *value)
{
  static const struct {
    const char *unit;
    double factor;
  } units[] = {{"", 1},     {"ns", 1},    {"us", 1e3},    {"ms", 1e6},     {"s", 1e9},        {"B", 1},
               {"K", 1024}, {"KB", 1024}, {"M", 1048576}, {"MB", 1048576}, {"G", 1073741824}, {"GB", 1073741824}};
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  if (end == text || errno != 0 || !isfinite(*value) || *value < 0)
    return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].unit) == 0) {
      *value *= units[i].factor;
      return true;
    }
  return false;
}

static bool parse_limit(const char *text, struct opgap_rule *rule)
{
  size_t length = strlen(text);
  if (length > 0 && text[length - 1] == '%') {
    char *end;
    rule->relative = strtod(text, &end) / 100;
    rule->has_relative = true;
    return end != text && strcmp(end, "%") == 0 && isfinite(rule->relative) && rule->relative >= 0;
  }
  rule->has_absolute = true;
  return parse_amount(text, &rule->absolute);
}

bool opgap_rule_parse(struct opgap_pool *pool, const char *text, struct opgap_rule *rule, char *error, size_t size)
{
  char *copy = strdup(text), *equals = copy ? strchr(copy, '=') : NULL;
  bool good = equals != NULL && equals != copy;
  *rule = (struct opgap_rule){.name = ""};
  if (good) {
    *equals = '\0';
    rule->name = opgap_pool_string(pool, copy);
    rule->off = strcmp(equals + 1, "off") == 0;
    char *next = equals + 1, *limit;
    while (good && !rule->off && (limit = strsep(&next, ",")) != NULL)
      good = parse_limit(limit, rule);
  }
  free(copy);
  if (!good)
    snprintf(error, size,
             "%s: must be NAME=LIMIT, for example step=5%%, step=5%%,100us, read_bytes=1M, launches=0 or "
             "ops=off",
             text);
  return good;
}

static const struct opgap_rule *rule_of(const struct opgap_compare_options *o, const char *name)
{
  for (size_t i = o->rule_count; i-- > 0;)
    if (strcmp(o->rules[i].name, name) == 0)
      return &o->rules[i];
  return NULL;
}

/* ---- one side's samples of one metric ---- */

struct side {
  struct stats_sample sample;
  double **values;
  size_t *counts;
  bool known, constant;
  uint64_t first;
  size_t total;
};

static struct side side_open(const struct opgap_runs *runs, enum opgap_metric metric)
{
  struct side side = {.known = runs->run_count > 0, .constant = true};
  side.values = opgap_xcalloc(runs->run_count + 1, sizeof *side.values);
  side.counts = opgap_xcalloc(runs->run_count + 1, sizeof *side.counts);
  for (size_t r = 0; r < runs->run_count; r++) {
    const struct opgap_run *run = &runs->runs[r];
    side.values[r] = opgap_xcalloc(run->steps + 1, sizeof **side.values);
    if (run->samples[metric] == NULL) {
      side.known = false;
      continue;
    }
    side.counts[r] = run->steps;
    for (size_t i = 0; i < run->steps; i++) {
      uint64_t value = run->samples[metric][i];
      if (side.total++ == 0)
        side.first = value;
      side.constant = side.constant && value == side.first;
      side.values[r][i] = (double)value;
    }
  }
  side.known = side.known && side.total > 0;
  side.sample = (struct stats_sample){(const double *const *)side.values, side.counts, runs->run_count};
  return side;
}

static void side_close(struct side *side)
{
  for (size_t r = 0; r < side->sample.runs; r++)
    free(side->values[r]);
  free(side->values);
  free(side->counts);
}

static double lower_tenth(const struct side *side)
{
  double *all = opgap_xcalloc(side->total + 1, sizeof *all);
  size_t next = 0;
  for (size_t r = 0; r < side->sample.runs; r++)
    for (size_t i = 0; i < side->counts[r]; i++)
      all[next++] = side->values[r][i];
  double result = stats_quantile_of(all, next, 0.1);
  free(all);
  return result;
}

/* As lower_tenth, of the means of consecutive parts of the runs. */
static double lower_tenth_of_parts(const struct side *side)
{
  double *means = opgap_xcalloc(side->sample.runs * MOST_PARTS + 1, sizeof *means);
  size_t next = 0;
  for (size_t r = 0; r < side->sample.runs; r++) {
    size_t count = side->counts[r], parts = count / PART_STEPS;
    parts = parts > MOST_PARTS ? MOST_PARTS : parts < 1 ? 1 : parts;
    for (size_t i = 0; count > 0 && i < parts; i++) {
      size_t from = i * count / parts, to = (i + 1) * count / parts;
      means[next++] = stats_mean(side->values[r] + from, to - from);
    }
  }
  double result = stats_quantile_of(means, next, 0.1);
  free(means);
  return result;
}

/* How much the centres of the repeats differ: largest / smallest - 1; 0 for one repeat. */
static double repeat_spread(const struct side *side, enum stats_centre centre)
{
  double low = INFINITY, high = 0;
  for (size_t r = 0; r < side->sample.runs; r++) {
    if (side->counts[r] == 0)
      continue;
    double value = centre == STATS_MEDIAN ? stats_median(side->values[r], side->counts[r])
                                          : stats_mean(side->values[r], side->counts[r]);
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  return low > 0 && isfinite(low) ? high / low - 1 : 0;
}

/* ---- building a comparison ---- */

struct comparing {
  struct opgap_comparison *c;
  struct opgap_compare_options o;
  bool times; /* times can be compared: the same machine */
  VEC(const char *) reasons;
  VEC(const char *) notes;
  VEC(struct opgap_change) changes;
};

static void reason(struct comparing *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void reason(struct comparing *k, const char *format, ...)
{
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  *VEC_PUSH(&k->reasons) = opgap_pool_string(k->c->pool, text);
}

static void note(struct comparing *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct comparing *k, const char *format, ...)
{
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  *VEC_PUSH(&k->notes) = opgap_pool_string(k->c->pool, text);
}

static void set_values(struct opgap_change *change, double before, double now)
{
  change->before = before;
  change->now = now;
  change->relative = before > 0 ? now / before - 1 : before == now ? 0 : NAN;
}

static void decide(struct opgap_change *change, enum opgap_change_verdict verdict, const char *why)
{
  change->verdict = verdict;
  change->reason = why;
}

/* Beyond both thresholds, in either direction. */
static bool beyond_limits(const struct opgap_change *change)
{
  double difference = fabs(change->now - change->before);
  return difference > change->absolute_limit && difference > change->relative_limit * change->before;
}

static enum opgap_change_verdict direction(const struct opgap_change *change)
{
  return change->now > change->before ? OPGAP_REGRESSED : OPGAP_IMPROVED;
}

/* Probability that all `k` steps that differ are among the m new ones, if any of the n + m could have been it. */
static double all_among(size_t k, size_t n, size_t m)
{
  double p = 1;
  for (size_t i = 0; i < k && p > 1e-300; i++)
    p *= (double)(m - i) / (double)(n + m - i);
  return p;
}

static void compare_exact(struct comparing *k, struct opgap_change *change, const struct side *before,
                          const struct side *now)
{
  size_t differing = 0;
  double was = (double)before->first;
  for (size_t r = 0; r < now->sample.runs; r++)
    for (size_t i = 0; i < now->counts[r]; i++)
      differing += now->values[r][i] != was;
  change->exact = true;
  set_values(change, was, stats_centre_of(&now->sample, STATS_MEAN));
  change->p = differing ? all_among(differing, before->total, now->total) : 1;
  if (before->total < MIN_EXACT_STEPS || now->total < MIN_EXACT_STEPS)
    decide(change, OPGAP_INCOMPARABLE, "too few steps");
  else if (differing == 0)
    decide(change, OPGAP_SAME, "");
  else if (!beyond_limits(change))
    decide(change, OPGAP_SAME, "within the threshold");
  else if (change->p >= k->o.alpha)
    decide(change, OPGAP_SAME,
           opgap_pool_printf(k->c->pool, "%zu of %zu steps differ: too few to tell from a rare event", differing,
                             now->total));
  else
    decide(change, direction(change),
           differing == now->total ? "in every step"
                                   : opgap_pool_printf(k->c->pool, "in %zu of %zu steps", differing, now->total));
}

static double confidence_of(const struct opgap_compare_options *o)
{
  return 1 - 2 * o->alpha;
}

static struct stats_run_test between_runs(const struct side *before, const struct side *now, enum stats_centre centre,
                                          const struct opgap_compare_options *o)
{
  const struct stats_sample *a = &before->sample, *b = &now->sample;
  if (stats_least_centre(a, centre) > 0 && stats_least_centre(b, centre) > 0)
    return stats_between_runs(a, b, centre, confidence_of(o));
  return stats_between_runs_at_zero(a, b, centre, confidence_of(o), TIME_FLOOR);
}

/* Of centre(now) / centre(before).  Times differ from run to run as well as from step to step: `runs`, NULL for
 * counters. */
static struct stats_interval ratio_interval(const struct side *before, const struct side *now, enum stats_centre centre,
                                            const struct stats_run_test *runs, const struct opgap_compare_options *o)
{
  struct stats_interval ratio =
      stats_bootstrap_ratio(&before->sample, &now->sample, centre, confidence_of(o), o->resamples, SEED);
  if (runs != NULL && !isnan(ratio.low)) {
    ratio.low = fmin(ratio.low, runs->ratio.low);
    ratio.high = fmax(ratio.high, runs->ratio.high);
  }
  return ratio;
}

/* Did what a disturbance of a part of a run leaves alone move in the direction of the change?  From 0 there is no
 * relative change: by more than half of what times differ by. */
static bool moved_along(const struct opgap_change *change, double was, double is)
{
  bool up = change->now > change->before;
  if (!(was > 0) || !(change->before > 0))
    return (up ? is - was : was - is) > TIME_FLOOR / 2;
  return (up ? is / was - 1 : 1 - is / was) >= change->relative_limit / 2;
}

/* From 0 there is no ratio: the test between runs, in p, is all there is. */
static bool interval_excludes_none(const struct opgap_change *change)
{
  return !(change->before > 0) || change->low > 0 || change->high < 0;
}

/* Why a change beyond the thresholds is no finding, NULL when it is one.  p is final. */
static const char *doubt(struct comparing *k, const struct opgap_change *change, const struct side *before,
                         const struct side *now)
{
  enum stats_centre centre = change->counter ? STATS_MEAN : STATS_MEDIAN;
  if (!(change->p < k->o.alpha))
    return change->counter ? "could be chance (rank test)"
                           : opgap_pool_printf(k->c->pool, "could be chance: %zu and %zu runs may differ by as much",
                                               before->sample.runs, now->sample.runs);
  if (!interval_excludes_none(change))
    return "could be chance (the interval holds 0)";
  double spread = change->counter ? repeat_spread(before, centre) : 0; /* times: in p already */
  if (isfinite(change->relative) && fabs(change->relative) <= spread)
    return opgap_pool_printf(k->c->pool, "the baseline's own repeats differ by %.1f %%", spread * 100);
  if (change->counter)
    return NULL;
  if (!moved_along(change, lower_tenth(before), lower_tenth(now)))
    return "the fastest tenth of the steps is as before: a part of the run was disturbed";
  return NULL;
}

/* Are long steps in every part of a run? */
static bool has_two_kinds(const struct side *side, double median)
{
  return lower_tenth_of_parts(side) > TWO_KINDS * median;
}

static double mean_data_wait(const struct opgap_runs *runs)
{
  struct side wait = side_open(runs, OPGAP_METRIC_DATA_WAIT);
  double mean = wait.known ? stats_centre_of(&wait.sample, STATS_MEAN) : 0;
  side_close(&wait);
  return mean;
}

/* Does the median tell little about the whole time?  Of steps of two kinds (DataLoader workers deliver batches in
 * bunches) it is the time of one, and falls now on this kind, now on that.  A program that shares its core with another
 * has two kinds of steps as well; those waits are not for data. */
static bool median_is_blind(const struct comparing *k, const struct opgap_change *change, const struct side *before,
                            const struct side *now)
{
  if (change->high > LARGE_CHANGE)
    return true;
  if (!has_two_kinds(before, change->before) && !has_two_kinds(now, change->now))
    return false;
  double rise = change->mean_now - change->mean_before;
  double waits = mean_data_wait(k->c->now) - mean_data_wait(k->c->before);
  return rise > 0 ? waits > rise / 2 : waits < rise / 2;
}

static void measure_means(struct comparing *k, struct opgap_change *change, const struct side *before,
                          const struct side *now)
{
  change->mean_before = stats_centre_of(&before->sample, STATS_MEAN);
  change->mean_now = stats_centre_of(&now->sample, STATS_MEAN);
  change->blind = median_is_blind(k, change, before, now);
  if (!change->blind)
    return;
  struct stats_run_test runs = between_runs(before, now, STATS_MEAN, &k->o);
  struct stats_interval ratio = ratio_interval(before, now, STATS_MEAN, &runs, &k->o);
  change->mean_p = change->mean_now >= change->mean_before ? runs.p_greater : runs.p_less;
  change->mean_low = ratio.low - 1;
  change->mean_high = ratio.high - 1;
}

/* All but the rank test's threshold, which waits for the other metrics' p. */
static void measure_samples(struct comparing *k, struct opgap_change *change, const struct side *before,
                            const struct side *now)
{
  enum stats_centre centre = change->counter ? STATS_MEAN : STATS_MEDIAN;
  set_values(change, stats_centre_of(&before->sample, centre), stats_centre_of(&now->sample, centre));
  struct stats_rank_test test = stats_mann_whitney(&before->sample, &now->sample);
  change->p = change->now >= change->before ? test.p_greater : test.p_less;
  struct stats_run_test runs;
  if (!change->counter) {
    runs = between_runs(before, now, centre, &k->o);
    change->p = fmax(change->p, change->now >= change->before ? runs.p_greater : runs.p_less);
  }
  struct stats_interval ratio = ratio_interval(before, now, centre, change->counter ? NULL : &runs, &k->o);
  change->low = ratio.low - 1;
  change->high = ratio.high - 1;
  if (!change->counter)
    measure_means(k, change, before, now);
}

/* Replaces a verdict on the median, which is blind, by that on the mean.  A finding needs what one of the median needs;
 * in place of the fastest steps, which are of one kind, the fastest parts of the runs.  `tests`: metrics judged. */
static void judge_mean(struct comparing *k, struct opgap_change *change, const struct side *before,
                       const struct side *now, size_t tests)
{
  struct opgap_change mean = *change;
  char was[32], is[32];
  opgap_unit_text(was, sizeof was, change->unit, change->before);
  opgap_unit_text(is, sizeof is, change->unit, change->now);
  set_values(&mean, change->mean_before, change->mean_now);
  mean.p = fmin(1, (double)tests * change->mean_p);
  mean.low = change->mean_low;
  mean.high = change->mean_high;
  bool moved = beyond_limits(&mean) && moved_along(&mean, lower_tenth_of_parts(before), lower_tenth_of_parts(now));
  bool sure = mean.p < k->o.alpha && interval_excludes_none(&mean);
  if (moved && sure && direction(&mean) != change->verdict) {
    *change = mean;
    decide(change, direction(&mean), opgap_pool_printf(k->c->pool, "the mean; the median: %s -> %s", was, is));
  } else if (change->verdict == OPGAP_IMPROVED && beyond_limits(&mean) && mean.now > mean.before) {
    decide(change, OPGAP_SAME, "the median is lower, the mean higher");
  } else if (change->verdict == OPGAP_SAME) {
    *change = mean;
    decide(change, OPGAP_SAME, opgap_pool_printf(k->c->pool, "the mean; the median: %s -> %s", was, is));
    if (moved && mean.now > mean.before && mean.high > LARGE_CHANGE)
      note(k, "%s: the rise may be chance and may be %.0f %%: record more runs or more steps", mean.name,
           mean.high * 100);
  }
}

static void judge_samples(struct comparing *k, struct opgap_change *change, const struct side *before,
                          const struct side *now, size_t tests)
{
  if (before->total < k->o.min_steps || now->total < k->o.min_steps) {
    decide(change, OPGAP_INCOMPARABLE,
           opgap_pool_printf(k->c->pool, "too few steps: %zu and %zu, %zu are needed", before->total, now->total,
                             k->o.min_steps));
    return;
  }
  if (!isfinite(change->before) || !isfinite(change->now)) {
    decide(change, OPGAP_INCOMPARABLE, "not a number");
    return;
  }
  const char *why = beyond_limits(change) ? doubt(k, change, before, now) : "";
  if (why != NULL)
    decide(change, OPGAP_SAME, why);
  else
    decide(change, direction(change), "");
  if (change->blind)
    judge_mean(k, change, before, now, tests);
}

/* ---- metrics ---- */

static void set_limits(struct opgap_change *change, const struct opgap_rule *rule, double relative, double absolute)
{
  bool given = rule != NULL && (rule->has_relative || rule->has_absolute);
  change->relative_limit = given ? (rule->has_relative ? rule->relative : 0) : relative;
  change->absolute_limit = given ? (rule->has_absolute ? rule->absolute : 0) : absolute;
}

static struct opgap_change *new_change(struct comparing *k, const char *name, const char *text, enum opgap_unit unit,
                                       bool counter, bool per_step)
{
  struct opgap_change *change = VEC_PUSH(&k->changes);
  *change = (struct opgap_change){.name = name,
                                  .text = text,
                                  .unit = unit,
                                  .counter = counter,
                                  .per_step = per_step,
                                  .before = NAN,
                                  .now = NAN,
                                  .relative = NAN,
                                  .low = NAN,
                                  .high = NAN,
                                  .p = NAN,
                                  .mean_before = NAN,
                                  .mean_now = NAN,
                                  .mean_low = NAN,
                                  .mean_high = NAN,
                                  .mean_p = NAN,
                                  .verdict = OPGAP_NOT_JUDGED,
                                  .reason = ""};
  return change;
}

struct metric_state {
  struct side before, now;
  size_t change; /* index; SIZE_MAX: none */
  bool judged, samples;
};

static void missing(struct comparing *k, struct opgap_change *change, const struct side *before, const struct side *now)
{
  if (!before->known && !now->known)
    decide(change, OPGAP_INCOMPARABLE, "neither side has it");
  else if (!now->known)
    decide(change, OPGAP_INCOMPARABLE, "missing now, the baseline has it");
  else
    decide(change, OPGAP_INCOMPARABLE, "missing in the baseline: make a new one");
  if (before->known)
    change->before = stats_centre_of(&before->sample, change->counter ? STATS_MEAN : STATS_MEDIAN);
  if (now->known)
    change->now = stats_centre_of(&now->sample, change->counter ? STATS_MEAN : STATS_MEDIAN);
  (void)k;
}

static void compare_metric(struct comparing *k, enum opgap_metric metric, struct metric_state *state)
{
  const struct opgap_metric_info *info = opgap_metric_info(metric);
  const struct opgap_rule *rule = rule_of(&k->o, info->name);
  struct side *before = &state->before, *now = &state->now;
  *before = side_open(k->c->before, metric);
  *now = side_open(k->c->now, metric);
  state->change = SIZE_MAX;
  state->judged = k->o.judge && (rule ? !rule->off : info->judged);
  if (!before->known && !now->known && (rule == NULL || rule->off || !k->o.judge))
    return;
  struct opgap_change *change = new_change(k, info->name, info->text, info->unit, info->counter, true);
  state->change = k->changes.count - 1;
  bool exact = info->counter && before->constant;
  set_limits(change, rule, exact ? 0 : info->counter ? 0.02 : 0.05, info->counter ? 0 : TIME_FLOOR);
  if (!before->known || !now->known) {
    missing(k, change, before, now);
    if (!state->judged)
      decide(change, OPGAP_NOT_JUDGED, change->reason);
    state->judged = false;
    return;
  }
  if (state->judged && !info->counter && !k->times) {
    state->judged = false;
    change->reason = "times of another machine";
  }
  if (exact) {
    compare_exact(k, change, before, now);
    if (!state->judged)
      decide(change, OPGAP_NOT_JUDGED, change->reason);
    return;
  }
  state->samples = true;
  measure_samples(k, change, before, now);
}

static void compare_metrics(struct comparing *k)
{
  struct metric_state *states = opgap_xcalloc(OPGAP_METRIC_COUNT, sizeof *states);
  double p[OPGAP_METRIC_COUNT];
  size_t count = 0;
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++) {
    compare_metric(k, (enum opgap_metric)m, &states[m]);
    if (states[m].judged && states[m].samples)
      p[count++] = k->changes.at[states[m].change].p;
  }
  size_t tests = count;
  stats_holm(p, count, p);
  count = 0;
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++) {
    if (states[m].judged && states[m].samples) {
      struct opgap_change *change = &k->changes.at[states[m].change];
      change->p = p[count++];
      judge_samples(k, change, &states[m].before, &states[m].now, tests);
    }
    side_close(&states[m].before);
    side_close(&states[m].now);
  }
  free(states);
}

/* ---- figures of whole runs ---- */

struct figure_range {
  double low, high, sum;
  size_t count;
};

static struct figure_range range_of(const struct opgap_runs *runs, const char *name)
{
  struct figure_range range = {INFINITY, -INFINITY, 0, 0};
  for (size_t r = 0; r < runs->run_count; r++) {
    const struct opgap_figure *figure = opgap_run_figure(&runs->runs[r], name);
    if (figure == NULL)
      continue;
    range.low = figure->value < range.low ? figure->value : range.low;
    range.high = figure->value > range.high ? figure->value : range.high;
    range.sum += figure->value;
    range.count++;
  }
  return range;
}

/* The number of steps of every run of both sides; 0 when they differ. */
static size_t common_steps(const struct opgap_comparison *c)
{
  size_t steps = c->before->runs[0].steps_found;
  for (int side = 0; side < 2; side++) {
    const struct opgap_runs *runs = side ? c->now : c->before;
    for (size_t r = 0; r < runs->run_count; r++)
      if (runs->runs[r].steps_found != steps)
        return 0;
  }
  return steps;
}

static void judge_figure(struct comparing *k, struct opgap_change *change, const struct figure_range *before,
                         const struct figure_range *now)
{
  size_t steps = common_steps(k->c);
  double apart = change->now > change->before ? now->low - before->high : before->low - now->high;
  double spread = before->high - before->low;
  if (change->unit == OPGAP_UNIT_NS && !k->times) {
    change->reason = "times of another machine";
  } else if (change->counter && (steps == 0 || before->count < 2)) {
    decide(change, OPGAP_INCOMPARABLE,
           steps == 0 ? "other number of steps" : "a total of the run: the baseline needs two repeats");
  } else if (!beyond_limits(change)) {
    decide(change, OPGAP_SAME, "");
  } else if (change->unit == OPGAP_UNIT_NS && !(change->before > 0) && apart <= TIME_FLOOR) {
    decide(change, OPGAP_SAME, "from 0, by no more than times differ by");
  } else if (change->counter && apart <= 0.5 * (double)steps) {
    decide(change, OPGAP_SAME, "less than one a step");
  } else if (apart <= 2 * spread) {
    decide(change, OPGAP_SAME, "the baseline's own repeats differ by as much");
  } else {
    decide(change, direction(change), before->count < 2 ? "one value a run, one repeat: thresholds only" : "");
  }
}

/* The mean of a figure over a side's runs.  Where no run has it, nothing is known of it; but a cause of idle time is a
 * part of all idle time, and 0 where that is known. */
static double figure_of(const struct opgap_runs *runs, const char *name, const struct figure_range *range)
{
  const char *idle = opgap_figure_idle(name);
  if (range->count > 0)
    return range->sum / (double)range->count;
  return idle != NULL && range_of(runs, idle).count > 0 ? 0 : NAN;
}

static void compare_figure(struct comparing *k, const struct opgap_figure *figure)
{
  const struct opgap_rule *rule = rule_of(&k->o, figure->name);
  struct figure_range before = range_of(k->c->before, figure->name), now = range_of(k->c->now, figure->name);
  bool asked = k->o.judge && rule != NULL && !rule->off;
  struct opgap_change *change = new_change(k, figure->name, "", figure->unit, figure->counter, false);
  set_limits(change, rule, figure->counter ? 0 : 0.05, 0);
  set_values(change, figure_of(k->c->before, figure->name, &before), figure_of(k->c->now, figure->name, &now));
  if (asked && (before.count == 0 || now.count == 0))
    decide(change, OPGAP_INCOMPARABLE, before.count ? "missing now" : "missing in the baseline: make a new one");
  else if (asked)
    judge_figure(k, change, &before, &now);
}

static bool have_change(const struct comparing *k, const char *name)
{
  for (size_t i = 0; i < k->changes.count; i++)
    if (strcmp(k->changes.at[i].name, name) == 0)
      return true;
  return false;
}

static void compare_figures(struct comparing *k)
{
  for (int side = 0; side < 2; side++) {
    const struct opgap_runs *runs = side ? k->c->now : k->c->before;
    for (size_t r = 0; r < runs->run_count; r++)
      for (size_t i = 0; i < runs->runs[r].figure_count && k->changes.count < 4096; i++)
        if (!have_change(k, runs->runs[r].figures[i].name))
          compare_figure(k, &runs->runs[r].figures[i]);
  }
  for (size_t i = 0; k->o.judge && i < k->o.rule_count; i++)
    if (!k->o.rules[i].off && !have_change(k, k->o.rules[i].name)) {
      struct opgap_change *change = new_change(k, k->o.rules[i].name, "", OPGAP_UNIT_COUNT, false, false);
      decide(change, OPGAP_INCOMPARABLE, "neither side has it");
    }
}

/* ---- rows ---- */

double opgap_row_per_step(const struct opgap_runs *runs, const struct opgap_row *row, enum opgap_metric metric)
{
  uint64_t steps = opgap_metric_info(metric)->unit == OPGAP_UNIT_NS ? runs->typical_steps : runs->steps;
  return row && steps ? (double)row->sum[metric] / (double)steps : 0;
}

struct ordered_row {
  struct opgap_row_change row;
  double change;
};

static int by_change(const void *left, const void *right)
{
  double l = ((const struct ordered_row *)left)->change, r = ((const struct ordered_row *)right)->change;
  return (l < r) - (l > r);
}

static void order_rows(const struct opgap_runs *before, const struct opgap_runs *now, struct opgap_row_change *rows,
                       size_t count)
{
  struct ordered_row *ordered = opgap_xcalloc(count + 1, sizeof *ordered);
  for (size_t i = 0; i < count; i++)
    ordered[i] = (struct ordered_row){rows[i], fabs(opgap_row_per_step(now, rows[i].now, OPGAP_METRIC_STEP) -
                                                    opgap_row_per_step(before, rows[i].before, OPGAP_METRIC_STEP))};
  qsort(ordered, count, sizeof *ordered, by_change);
  for (size_t i = 0; i < count; i++)
    rows[i] = ordered[i].row;
  free(ordered);
}

struct opgap_row_change *opgap_compare_rows(const struct opgap_runs *before, const struct opgap_runs *now,
                                            size_t *count)
{
  struct opgap_pool *pool = opgap_pool_new();
  struct opgap_strings ids = {0};
  struct opgap_row_change *rows = opgap_xcalloc(before->row_count + now->row_count + 1, sizeof *rows);
  opgap_strings_init(&ids, pool);
  opgap_strings_id(&ids, "", 0);
  *count = 0;
  for (int side = 0; side < 2; side++) {
    const struct opgap_runs *runs = side ? now : before;
    for (size_t i = 0; i < runs->row_count; i++) {
      const struct opgap_row *row = &runs->rows[i];
      const char *key = opgap_pool_printf(pool, "%s %s", row->kind, row->name);
      size_t id = opgap_strings_id(&ids, key, strlen(key)) - 1;
      *count = id >= *count ? id + 1 : *count;
      rows[id].kind = row->kind;
      rows[id].name = row->name;
      *(side ? &rows[id].now : &rows[id].before) = row;
    }
  }
  opgap_strings_free(&ids);
  opgap_pool_free(pool);
  if (*count > 0)
    order_rows(before, now, rows, *count);
  return rows;
}

/* A row explains a metric by its own sum of it; some kinds of rows by a related one. */
static enum opgap_metric explaining(const char *kind, enum opgap_metric metric)
{
  bool file = strcmp(kind, "file") == 0, kernel = strcmp(kind, "kernel") == 0;
  if (file && metric == OPGAP_METRIC_STEP)
    return OPGAP_METRIC_FILE_TIME;
  if (kernel && metric == OPGAP_METRIC_LAUNCHES)
    return OPGAP_METRIC_KERNELS;
  return metric;
}

static void offer(struct opgap_change *change, struct opgap_explanation offered)
{
  double whole = change->now - change->before, size = (offered.now - offered.before) / whole;
  if (!(size > 0.02))
    return;
  offered.share = size;
  size_t at = change->explanation_count;
  while (at > 0 && change->explanations[at - 1].share < size)
    at--;
  if (at >= OPGAP_EXPLANATIONS)
    return;
  if (change->explanation_count < OPGAP_EXPLANATIONS)
    change->explanation_count++;
  for (size_t i = change->explanation_count - 1; i > at; i--)
    change->explanations[i] = change->explanations[i - 1];
  change->explanations[at] = offered;
}

/* Idle time by cause explains step time.  It is a mean over the run: when it changed by much more than the median step
 * did, it is about the steps that were disturbed. */
static void offer_gaps(const struct comparing *k, struct opgap_change *change)
{
  for (size_t i = 0; i < k->changes.count; i++) {
    const struct opgap_change *gap = &k->changes.at[i];
    const char *cause = strchr(gap->name, '.');
    if (cause != NULL && opgap_figure_idle(gap->name) != NULL &&
        fabs(gap->now - gap->before) <= 1.5 * fabs(change->now - change->before))
      offer(change, (struct opgap_explanation){.kind = gap->name[0] == 'g' ? "GPU gap" : "gap",
                                               .name = cause + 1,
                                               .before = gap->before,
                                               .now = gap->now});
  }
}

static void explain(struct comparing *k, struct opgap_change *change, const struct opgap_row_change *rows, size_t count)
{
  enum opgap_metric metric = opgap_metric_find(change->name);
  if (metric == OPGAP_METRIC_COUNT && strncmp(change->name, "run.", 4) == 0)
    metric = opgap_metric_find(change->name + 4);
  if (metric == OPGAP_METRIC_COUNT)
    return;
  double whole_steps = change->per_step ? 1 : (double)k->c->now->runs[0].steps_found;
  for (size_t i = 0; i < count; i++) {
    enum opgap_metric by = explaining(rows[i].kind, metric);
    offer(change,
          (struct opgap_explanation){.kind = rows[i].kind,
                                     .name = rows[i].name,
                                     .before = opgap_row_per_step(k->c->before, rows[i].before, by) * whole_steps,
                                     .now = opgap_row_per_step(k->c->now, rows[i].now, by) * whole_steps});
  }
  if (metric == OPGAP_METRIC_STEP)
    offer_gaps(k, change);
}

static void explain_all(struct comparing *k)
{
  size_t count = 0;
  struct opgap_row_change *rows = opgap_compare_rows(k->c->before, k->c->now, &count);
  for (size_t i = 0; i < k->changes.count; i++) {
    struct opgap_change *change = &k->changes.at[i];
    bool found = change->verdict == OPGAP_REGRESSED || change->verdict == OPGAP_IMPROVED;
    if (found || (!k->o.judge && change->per_step && change->now != change->before))
      explain(k, change, rows, count);
  }
  free(rows);
}

/* ---- can they be compared at all ---- */

static void check_side(struct comparing *k, const char *side, const struct opgap_runs *runs)
{
  for (size_t r = 0; r < runs->run_count; r++) {
    const struct opgap_run *run = &runs->runs[r];
    if (run->lost_records > 0)
      reason(k, "%s: %s lost %llu records: its counts are not exact%s%s%s", side, run->path,
             (unsigned long long)run->lost_records, run->lost_why ? " (" : "", run->lost_why ? run->lost_why : "",
             run->lost_why ? ")" : "");
    if (run->lost_threads > 0)
      reason(k, "%s: %s lost %llu threads: its counts are not exact (record with a larger --buffer)", side, run->path,
             (unsigned long long)run->lost_threads);
    if (run->size_reached)
      reason(k, "%s: %s was recorded only up to the size that OPGAP_MAX_SIZE allows: its counts are of a part", side,
             run->path);
    if (run->invalid_records > 0)
      reason(k, "%s: %s has %llu invalid records", side, run->path, (unsigned long long)run->invalid_records);
    if (run->damage != NULL)
      reason(k, "%s: %s is damaged: %s", side, run->path, run->damage);
    if (run->steps_found == 0)
      reason(k, "%s: %s has no steps (mark them with opgap_step(), an optimizer, or NVTX ranges)", side, run->path);
    else if (run->steps < MIN_EXACT_STEPS)
      reason(k, "%s: %s has too few steps after warm-up: %zu", side, run->path, run->steps);
  }
}

static const char *info_or_unknown(const struct opgap_runs *runs, const char *key)
{
  const char *value = opgap_runs_info(runs, key);
  return value && value[0] ? value : "unset";
}

static bool info_differs(const struct comparing *k, const char *key)
{
  return strcmp(info_or_unknown(k->c->before, key), info_or_unknown(k->c->now, key)) != 0;
}

static void check_machine(struct comparing *k)
{
  static const char *const machine[] = {"cpu", "cores", "gpu", "gpu_driver", "gpu_power_limit"};
  for (size_t i = 0; i < sizeof machine / sizeof *machine; i++) {
    bool sampled = i >= 2; /* by CUPTI or NVML, which not every machine has: unknown is no difference */
    if (!info_differs(k, machine[i]) || (sampled && (opgap_runs_info(k->c->before, machine[i]) == NULL ||
                                                     opgap_runs_info(k->c->now, machine[i]) == NULL)))
      continue;
    k->times = false;
    if (k->o.allow_other_machine)
      note(k, "another machine: %s was \"%s\", is \"%s\"; only counters are compared", machine[i],
           info_or_unknown(k->c->before, machine[i]), info_or_unknown(k->c->now, machine[i]));
    else
      reason(k, "another machine: %s was \"%s\", is \"%s\"%s", machine[i], info_or_unknown(k->c->before, machine[i]),
             info_or_unknown(k->c->now, machine[i]),
             k->o.judge ? " (--allow-other-machine compares counters only)" : "");
  }
}

/* Of the new side: a regression there may be the GPU's. */
static void note_held_down(struct comparing *k)
{
  for (size_t r = 0; r < k->c->now->run_count; r++) {
    const struct opgap_figure *share = opgap_run_figure(&k->c->now->runs[r], "gpu_held_down");
    if (share != NULL && share->value >= 0.1)
      note(k, "%s: the GPU's clocks were held down in %.0f %% of the samples (opgap report says by what)",
           k->c->now->runs[r].path, 100 * share->value);
  }
}

static void check_settings(struct comparing *k)
{
  static const char *const settings[] = {"OPGAP_HOOKS",  "OPGAP_ALLOC",    "OPGAP_MIN_ALLOC", "OPGAP_MIN_COPY",
                                         "OPGAP_STACKS", "OPGAP_SCHEDULE", "OPGAP_CHILDREN"};
  static const char *const versions[] = {"opgap_version", "kernel", "torch"};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (info_differs(k, settings[i]))
      reason(k, "recorded with other settings: %s was \"%s\", is \"%s\"", settings[i],
             info_or_unknown(k->c->before, settings[i]), info_or_unknown(k->c->now, settings[i]));
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
    if (info_differs(k, versions[i]))
      note(k, "%s was \"%s\", is \"%s\"", versions[i], info_or_unknown(k->c->before, versions[i]),
           info_or_unknown(k->c->now, versions[i]));
}

static void check_all(struct comparing *k)
{
  const struct opgap_runs *before = k->c->before, *now = k->c->now;
  check_side(k, "baseline", before);
  check_side(k, "now", now);
  check_machine(k);
  check_settings(k);
  note_held_down(k);
  if (strcmp(before->step_source, now->step_source) != 0)
    reason(k, "other step definition: was %s, is %s", before->step_source, now->step_source);
  if (text_same_command(before->command, now->command))
    return;
  if (k->o.allow_other_command)
    note(k, "another command: was \"%.200s\", is \"%.200s\"", before->command, now->command);
  else
    reason(k, "another command: was \"%.200s\", is \"%.200s\"%s", before->command, now->command,
           k->o.judge ? " (--allow-other-command)" : "");
}

static enum opgap_change_verdict overall(const struct comparing *k)
{
  bool seen[OPGAP_VERDICT_COUNT] = {false};
  for (size_t i = 0; i < k->changes.count; i++)
    seen[k->changes.at[i].verdict] = true;
  if (k->reasons.count > 0 && k->o.judge)
    return OPGAP_INCOMPARABLE;
  if (seen[OPGAP_REGRESSED])
    return OPGAP_REGRESSED;
  if (seen[OPGAP_INCOMPARABLE])
    return OPGAP_INCOMPARABLE;
  if (k->o.judge && !seen[OPGAP_SAME] && !seen[OPGAP_IMPROVED])
    return OPGAP_INCOMPARABLE; /* nothing was judged: that is no pass */
  return seen[OPGAP_IMPROVED] ? OPGAP_IMPROVED : OPGAP_SAME;
}

static void *kept(struct opgap_pool *pool, const void *at, size_t count, size_t size)
{
  void *copy = opgap_pool_alloc(pool, count * size);
  if (count > 0)
    memcpy(copy, at, count * size);
  return copy;
}

static void set_defaults(struct opgap_compare_options *o)
{
  o->alpha = o->alpha > 0 ? o->alpha : DEFAULT_ALPHA;
  o->resamples = o->resamples ? o->resamples : DEFAULT_RESAMPLES;
}

void opgap_compare_p95(const struct opgap_runs *before, const struct opgap_runs *now, struct opgap_p95_change *change)
{
  struct opgap_compare_options o = {.alpha = 0};
  struct side was = side_open(before, OPGAP_METRIC_STEP), is = side_open(now, OPGAP_METRIC_STEP);
  *change = (struct opgap_p95_change){NAN, NAN, NAN, NAN};
  set_defaults(&o);
  if (was.total > 0)
    change->before = stats_centre_of(&was.sample, STATS_P95);
  if (is.total > 0)
    change->now = stats_centre_of(&is.sample, STATS_P95);
  if (was.known && is.known) {
    struct stats_run_test runs = between_runs(&was, &is, STATS_P95, &o);
    struct stats_interval ratio = ratio_interval(&was, &is, STATS_P95, &runs, &o);
    change->low = ratio.low - 1;
    change->high = ratio.high - 1;
  }
  side_close(&was);
  side_close(&is);
}

struct opgap_comparison *opgap_compare(const struct opgap_runs *before, const struct opgap_runs *now,
                                       const struct opgap_compare_options *options)
{
  struct opgap_pool *pool = opgap_pool_new();
  struct opgap_comparison *c = opgap_pool_alloc(pool, sizeof *c);
  struct comparing k = {.c = c, .o = *options, .times = true};
  *c = (struct opgap_comparison){.before = before, .now = now, .pool = pool};
  k.o.min_steps = k.o.min_steps ? k.o.min_steps : DEFAULT_MIN_STEPS;
  set_defaults(&k.o);
  check_all(&k);
  if (k.reasons.count == 0 || !k.o.judge) {
    compare_metrics(&k);
    compare_figures(&k);
    explain_all(&k);
  }
  c->verdict = overall(&k);
  if (c->verdict == OPGAP_INCOMPARABLE && k.reasons.count == 0 && k.changes.count > 0) {
    for (size_t i = 0; i < k.changes.count; i++)
      if (k.changes.at[i].verdict == OPGAP_INCOMPARABLE)
        reason(&k, "%s: %s", k.changes.at[i].name, k.changes.at[i].reason);
    if (k.reasons.count == 0)
      reason(&k, "no metric was judged");
  }
  c->reason_count = k.reasons.count;
  c->reasons = kept(pool, k.reasons.at, k.reasons.count, sizeof *c->reasons);
  c->note_count = k.notes.count;
  c->notes = kept(pool, k.notes.at, k.notes.count, sizeof *c->notes);
  c->change_count = k.changes.count;
  c->changes = kept(pool, k.changes.at, k.changes.count, sizeof *c->changes);
  VEC_FREE(&k.reasons);
  VEC_FREE(&k.notes);
  VEC_FREE(&k.changes);
  return c;
}

void opgap_comparison_free(struct opgap_comparison *comparison)
{
  if (comparison != NULL)
    opgap_pool_free(comparison->pool);
}
