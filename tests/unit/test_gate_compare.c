/* What the gate decides, on runs with known samples; and the baseline file: what is written is read, what is wrong is
 * refused. */
#include "analysis/compare.h"
#include "analysis/summary.h"
#include "analysis/text.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 60u

/* Run times around 10 ms with a spread of 1 %, by a fixed generator. */
static void times(uint64_t *samples, size_t count, uint64_t seed, double factor)
{
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    samples[i] = (uint64_t)((1e7 + (double)(seed >> 40) / 16777216.0 * 2e5) * factor);
  }
}

static struct opgap_runs *runs_new(void)
{
  struct opgap_runs *runs = opgap_runs_new();
  static const char *keys[] = {"cpu", "cores", "gpu"}, *values[] = {"test", "2", "none"};
  runs->label = "test";
  runs->command = "python3 train.py";
  runs->step_source = "Optimizer.step";
  runs->info_count = 3;
  runs->info_keys = opgap_pool_alloc(runs->pool, sizeof keys);
  runs->info_values = opgap_pool_alloc(runs->pool, sizeof values);
  memcpy(runs->info_keys, keys, sizeof keys);
  memcpy(runs->info_values, values, sizeof values);
  runs->rows = opgap_pool_alloc(runs->pool, 4 * sizeof *runs->rows);
  return runs;
}

static void figure(struct opgap_runs *runs, struct opgap_run *run, const char *name, double value, bool counter)
{
  if (run->figures == NULL)
    run->figures = opgap_pool_alloc(runs->pool, 8 * sizeof *run->figures);
  run->figures[run->figure_count++] = (struct opgap_figure){name, OPGAP_UNIT_COUNT, counter, value};
}

/* A run of `steps` steps: times by seed and factor, `launches` in every step. */
static struct opgap_run *add_run(struct opgap_runs *runs, size_t steps, uint64_t seed, double factor, uint64_t launches)
{
  struct opgap_run *run = &runs->runs[runs->run_count++];
  run->path = "run.opgap";
  run->steps = run->steps_found = run->typical_steps = steps;
  run->samples[OPGAP_METRIC_STEP] = opgap_pool_alloc(runs->pool, steps * 8);
  run->samples[OPGAP_METRIC_LAUNCHES] = opgap_pool_alloc(runs->pool, steps * 8);
  times(run->samples[OPGAP_METRIC_STEP], steps, seed, factor);
  for (size_t i = 0; i < steps; i++)
    run->samples[OPGAP_METRIC_LAUNCHES][i] = launches;
  runs->steps += steps;
  runs->typical_steps += steps;
  return run;
}

static void add_repeats(struct opgap_runs *runs, uint64_t seed, double factor, uint64_t launches)
{
  for (uint64_t i = 0; i < 3; i++)
    add_run(runs, STEPS, seed + 10 * i, factor, launches);
}

static void add_row(struct opgap_runs *runs, const char *kind, const char *name, enum opgap_metric metric,
                    uint64_t per_step)
{
  struct opgap_row *row = &runs->rows[runs->row_count++];
  *row = (struct opgap_row){.kind = kind, .name = name, .calls = runs->steps};
  row->sum[metric] = per_step * runs->steps;
}

static struct opgap_runs *before, *now;
static struct opgap_comparison *c;
static struct opgap_compare_options options;

static void start(void)
{
  before = runs_new();
  now = runs_new();
  c = NULL;
  options = (struct opgap_compare_options){.judge = true};
}

static void stop(void)
{
  opgap_comparison_free(c);
  opgap_runs_free(before);
  opgap_runs_free(now);
}

static const struct opgap_change *compare(const char *name)
{
  opgap_comparison_free(c);
  c = opgap_compare(before, now, &options);
  for (size_t i = 0; i < c->change_count; i++)
    if (strcmp(c->changes[i].name, name) == 0)
      return &c->changes[i];
  return NULL;
}

START_TEST(test_same_program_passes)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 5);
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_SAME);
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert(step->low < 0.001 && step->high > -0.001);
}
END_TEST

START_TEST(test_slower_step_regresses_and_names_the_op)
{
  add_repeats(before, 1, 1, 5);
  add_repeats(now, 2, 1.10, 5);
  add_row(before, "op", "aten::mm", OPGAP_METRIC_STEP, 6000000);
  add_row(before, "op", "aten::add", OPGAP_METRIC_STEP, 4000000);
  add_row(now, "op", "aten::add", OPGAP_METRIC_STEP, 4000000);
  add_row(now, "op", "aten::mm", OPGAP_METRIC_STEP, 7000000);
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_REGRESSED);
  ck_assert_int_eq(step->verdict, OPGAP_REGRESSED);
  ck_assert(fabs(step->relative - 0.10) < 0.01);
  ck_assert(step->low > 0 && step->low < 0.09 && step->high > 0.11 && step->p < 0.005);
  ck_assert_uint_eq(step->explanation_count, 1);
  ck_assert_str_eq(step->explanations[0].name, "aten::mm");
  ck_assert(fabs(step->explanations[0].share - 1) < 0.05);
}
END_TEST

START_TEST(test_change_below_a_threshold_passes)
{
  add_repeats(before, 1, 1, 5);
  add_repeats(now, 2, 1.09, 5);
  struct opgap_rule rule = {.name = "step", .has_relative = true, .relative = 0.10};
  options.rules = &rule;
  options.rule_count = 1;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
  rule.relative = 0.05;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_REGRESSED);
  rule.has_absolute = true; /* 9 % of 10 ms is 0.9 ms */
  rule.absolute = 1e6;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
  rule.off = true;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_NOT_JUDGED);
}
END_TEST

/* One run a side says nothing about how much runs differ: only a large change is a finding. */
START_TEST(test_single_runs_show_only_large_changes)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1.15, 5);
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert_str_eq(step->reason, "could be chance: 1 and 1 runs may differ by as much");
  times(now->runs[0].samples[OPGAP_METRIC_STEP], STEPS, 2, 1.5);
  ck_assert_int_eq(compare("step")->verdict, OPGAP_REGRESSED);
}
END_TEST

START_TEST(test_improvement_is_named)
{
  add_repeats(before, 1, 1, 5);
  add_repeats(now, 2, 0.8, 4);
  ck_assert_int_eq(compare("step")->verdict, OPGAP_IMPROVED);
  ck_assert_int_eq(compare("launches")->verdict, OPGAP_IMPROVED);
  ck_assert_int_eq(c->verdict, OPGAP_IMPROVED);
}
END_TEST

START_TEST(test_one_more_launch_a_step_is_exact)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 6);
  add_row(before, "op", "aten::mm", OPGAP_METRIC_LAUNCHES, 5);
  add_row(now, "op", "aten::mm", OPGAP_METRIC_LAUNCHES, 5);
  add_row(now, "op", "aten::relu", OPGAP_METRIC_LAUNCHES, 1);
  const struct opgap_change *launches = compare("launches");
  ck_assert_int_eq(launches->verdict, OPGAP_REGRESSED);
  ck_assert(launches->exact);
  ck_assert_str_eq(launches->reason, "in every step");
  ck_assert(launches->before == 5 && launches->now == 6);
  ck_assert_uint_eq(launches->explanation_count, 1);
  ck_assert_str_eq(launches->explanations[0].name, "aten::relu");
  ck_assert(launches->explanations[0].share == 1);
}
END_TEST

/* A kernel's row has kernels, each of which was launched. */
START_TEST(test_launches_are_explained_by_kernels)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 6);
  add_row(before, "kernel", "relu", OPGAP_METRIC_KERNELS, 1);
  add_row(now, "kernel", "relu", OPGAP_METRIC_KERNELS, 2);
  const struct opgap_change *launches = compare("launches");
  ck_assert_uint_eq(launches->explanation_count, 1);
  ck_assert_str_eq(launches->explanations[0].name, "relu");
  ck_assert(launches->explanations[0].share == 1);
}
END_TEST

START_TEST(test_texts_of_figures)
{
  static const struct {
    enum opgap_unit unit;
    double value;
    const char *text;
  } cases[] = {{OPGAP_UNIT_NS, NAN, "-"},
               {OPGAP_UNIT_NS, INFINITY, "-"},
               {OPGAP_UNIT_SHARE, 0.125, "12.5%"},
               {OPGAP_UNIT_COUNT, 3, "3"},
               {OPGAP_UNIT_COUNT, 2.5, "2.50"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    opgap_unit_text(text, sizeof text, cases[i].unit, cases[i].value);
    ck_assert_str_eq(text, cases[i].text);
  }
}
END_TEST

START_TEST(test_counter_from_zero_regresses)
{
  add_run(before, STEPS, 1, 1, 0);
  add_run(now, STEPS, 2, 1, 1);
  const struct opgap_change *launches = compare("launches");
  ck_assert_int_eq(launches->verdict, OPGAP_REGRESSED);
  ck_assert(isnan(launches->relative));
}
END_TEST

/* `runs` runs a side that were blocked for `was` and `is` ns in every step. */
static const struct opgap_change *blocked(size_t count, uint64_t was, uint64_t is)
{
  static const struct opgap_rule rules[] = {{.name = "step", .off = true},
                                            {.name = "blocked", .has_relative = true, .relative = 0.05}};
  stop();
  start();
  options.rules = rules;
  options.rule_count = 2;
  for (int side = 0; side < 2; side++)
    for (size_t r = 0; r < count; r++) {
      struct opgap_run *run = add_run(side ? now : before, STEPS, 1, 1, 5);
      struct opgap_runs *runs = side ? now : before;
      run->samples[OPGAP_METRIC_BLOCKED] = opgap_pool_alloc(runs->pool, STEPS * 8);
      for (size_t i = 0; i < STEPS; i++)
        run->samples[OPGAP_METRIC_BLOCKED][i] = side ? is : was;
    }
  return compare("blocked");
}

START_TEST(test_time_from_zero_regresses)
{
  for (size_t count = 1; count <= 5; count += 2) {
    const struct opgap_change *change = blocked(count, 0, 20000000);
    ck_assert_int_eq(change->verdict, OPGAP_REGRESSED);
    ck_assert(change->before == 0 && change->now == 20e6);
    ck_assert(isnan(change->relative) && isnan(change->low) && isnan(change->high));
    ck_assert(change->p < 1e-3);
  }
}
END_TEST

/* What times differ by is 10 us: with three equal runs a side 3/5 of its square is left, so 17 us are chance and 18 us
 * are not (t of 1 % with 10 degrees of freedom: 2.764, times 10 us * sqrt(2/5), and 4 % of the time). */
START_TEST(test_time_from_zero_below_the_floor_passes)
{
  static const struct {
    size_t runs;
    uint64_t is;
    enum opgap_change_verdict verdict;
  } cases[] = {{3, 1, OPGAP_SAME},
               {3, 17000, OPGAP_SAME},
               {3, 18000, OPGAP_REGRESSED},
               {1, 44000, OPGAP_SAME},
               {1, 46000, OPGAP_REGRESSED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct opgap_change *change = blocked(cases[i].runs, 0, cases[i].is);
    ck_assert_msg(change->verdict == cases[i].verdict, "case %zu: %s, p %g", i, change->reason, change->p);
    if (cases[i].verdict == OPGAP_SAME)
      ck_assert_str_eq(change->reason, cases[i].runs == 3 ? "could be chance: 3 and 3 runs may differ by as much"
                                                          : "could be chance: 1 and 1 runs may differ by as much");
  }
}
END_TEST

START_TEST(test_time_to_zero_improves)
{
  const struct opgap_change *change = blocked(3, 20000000, 0);
  ck_assert_int_eq(change->verdict, OPGAP_IMPROVED);
  ck_assert(change->relative == -1 && change->low == -1 && change->high < -0.8);
  ck_assert_int_eq(blocked(3, 17000, 0)->verdict, OPGAP_SAME);
  ck_assert_int_eq(blocked(3, 18000, 0)->verdict, OPGAP_IMPROVED);
}
END_TEST

START_TEST(test_time_of_zero_stays)
{
  const struct opgap_change *change = blocked(3, 0, 0);
  ck_assert_int_eq(change->verdict, OPGAP_SAME);
  ck_assert_str_eq(change->reason, "");
  ck_assert(change->relative == 0 && change->p == 1);
}
END_TEST

/* One run of three waited: the runs of the new side differ among themselves by as much as from the baseline.  And a
 * part of each run that waited leaves the fastest tenth of the steps at 0. */
START_TEST(test_zero_in_some_runs_or_steps_passes)
{
  blocked(3, 0, 20000000);
  memset(now->runs[0].samples[OPGAP_METRIC_BLOCKED], 0, STEPS * 8);
  const struct opgap_change *change = compare("blocked");
  ck_assert(change->now == 20e6);
  ck_assert_int_eq(change->verdict, OPGAP_SAME);
  ck_assert_str_eq(change->reason, "could be chance: 3 and 3 runs may differ by as much");
  blocked(3, 0, 20000000);
  for (size_t r = 0; r < 3; r++)
    memset(now->runs[r].samples[OPGAP_METRIC_BLOCKED], 0, STEPS / 3 * 8);
  change = compare("blocked");
  ck_assert(change->now == 20e6);
  ck_assert_int_eq(change->verdict, OPGAP_SAME);
  ck_assert_str_eq(change->reason, "the fastest tenth of the steps is as before: a part of the run was disturbed");
}
END_TEST

/* 1 of 60 steps has one more: with 60 steps of the baseline without it, chance is 1/2. */
START_TEST(test_rare_event_does_not_flake)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 5)->samples[OPGAP_METRIC_LAUNCHES][30] = 6;
  const struct opgap_change *launches = compare("launches");
  ck_assert_int_eq(launches->verdict, OPGAP_SAME);
  ck_assert(fabs(launches->p - 0.5) < 1e-12);
  for (size_t i = 0; i < 10; i++) /* 10 of 60 are not chance: about 2^-10 */
    now->runs[0].samples[OPGAP_METRIC_LAUNCHES][i * 6] = 6;
  now->runs[0].samples[OPGAP_METRIC_LAUNCHES][30] = 6;
  launches = compare("launches");
  ck_assert_int_eq(launches->verdict, OPGAP_REGRESSED);
  ck_assert_str_eq(launches->reason, "in 10 of 60 steps");
}
END_TEST

START_TEST(test_counter_with_spread_is_a_sample)
{
  uint64_t *counts = add_run(before, STEPS, 1, 1, 5)->samples[OPGAP_METRIC_LAUNCHES];
  uint64_t *later = add_run(now, STEPS, 2, 1, 5)->samples[OPGAP_METRIC_LAUNCHES];
  for (size_t i = 0; i < STEPS; i++) {
    counts[i] += i % 3;
    later[i] += (i + 1) % 3;
  }
  ck_assert(!compare("launches")->exact);
  ck_assert_int_eq(compare("launches")->verdict, OPGAP_SAME);
  for (size_t i = 0; i < STEPS; i++)
    later[i] += 2;
  ck_assert_int_eq(compare("launches")->verdict, OPGAP_REGRESSED);
}
END_TEST

/* The second half of the run was disturbed: the median may move, the fastest steps do not. */
START_TEST(test_disturbed_run_passes)
{
  add_run(before, STEPS, 1, 1, 5);
  uint64_t *samples = add_run(now, STEPS, 2, 1, 5)->samples[OPGAP_METRIC_STEP];
  for (size_t i = STEPS / 3; i < STEPS; i++)
    samples[i] = samples[i] * 3 / 2;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
  ck_assert(compare("step")->relative > 0.4);
}
END_TEST

/* DataLoader workers deliver their batches in bunches: of as many steps as there are workers, one waits for data and
 * the others do not.  Of 8 bunches the first `early` hold none that waits. */
static struct opgap_run *add_bunched_run(struct opgap_runs *runs, uint64_t seed, uint64_t workers, uint64_t wait_ms,
                                         uint64_t ready_us, uint64_t early)
{
  struct opgap_run *run = add_run(runs, STEPS, seed, 1, 5);
  uint64_t *samples = run->samples[OPGAP_METRIC_STEP];
  run->samples[OPGAP_METRIC_DATA_WAIT] = opgap_pool_alloc(runs->pool, STEPS * 8);
  for (uint64_t i = 0; i < STEPS; i++) {
    bool waits = i % workers == 0 && i / workers % 8 >= early;
    samples[i] = samples[i] / 10000 * (waits ? wait_ms * 1000 : ready_us); /* 10 to 10.2 ms, from times() */
    run->samples[OPGAP_METRIC_DATA_WAIT][i] = waits ? samples[i] - ready_us * 1000 : 0;
  }
  return run;
}

/* Three times as long, while the median, a step that does not wait, is shorter than before. */
START_TEST(test_bunched_steps_are_judged_by_their_mean)
{
  add_bunched_run(before, 1, 2, 40, 4000, 0);
  add_bunched_run(now, 2, 2, 120, 1700, 1);
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_REGRESSED);
  ck_assert_int_eq(step->verdict, OPGAP_REGRESSED);
  ck_assert(step->before > 20e6 && step->before < 24e6 && step->now > 50e6 && step->now < 62e6);
  ck_assert(step->low > 0 && step->low < step->relative && step->high > step->relative);
  ck_assert(strncmp(step->reason, "the mean; the median: ", 22) == 0);
  struct opgap_runs *other = before; /* and back: not "slower", though the median is higher */
  before = now;
  now = other;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_IMPROVED);
}
END_TEST

START_TEST(test_bunched_steps_against_themselves_pass)
{
  add_bunched_run(before, 1, 2, 40, 4000, 0);
  add_bunched_run(now, 2, 2, 40, 4000, 1); /* the median tells one kind of step from the other */
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert(step->high < 1);
}
END_TEST

/* Most steps do not wait, so the median is theirs, and sure.  The same step times without waits for data are those of a
 * program that shares its core. */
START_TEST(test_a_rise_that_the_median_cannot_see)
{
  add_bunched_run(before, 1, 8, 40, 2000, 0);
  struct opgap_run *run = add_bunched_run(now, 2, 8, 120, 2000, 0);
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(step->verdict, OPGAP_REGRESSED);
  ck_assert(step->relative > 1.3 && step->relative < 1.7 && step->low > 0);
  memset(run->samples[OPGAP_METRIC_DATA_WAIT], 0, STEPS * 8);
  step = compare("step");
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert(fabs(step->relative) < 0.05);
}
END_TEST

static double mean_of(const struct opgap_run *run, enum opgap_metric metric)
{
  double sum = 0;
  for (size_t i = 0; i < STEPS; i++)
    sum += (double)run->samples[metric][i];
  return sum / STEPS;
}

/* Without a judgement, too, the means stand beside medians that tell little; where the median is sure, no test of the
 * means is made. */
START_TEST(test_means_where_the_median_is_blind)
{
  for (int bunched = 0; bunched < 2; bunched++) {
    stop();
    start();
    struct opgap_run *was = add_bunched_run(before, 1, 8, bunched ? 40 : 4, 4000, 0);
    struct opgap_run *is = add_bunched_run(now, 2, 8, bunched ? 120 : 4, 4000, 0);
    options.judge = false;
    const struct opgap_change *step = compare("step");
    ck_assert_int_eq(step->blind, bunched);
    ck_assert_int_eq(step->verdict, OPGAP_NOT_JUDGED);
    ck_assert_double_eq_tol(step->mean_before, mean_of(was, OPGAP_METRIC_STEP), 1e-3);
    ck_assert_double_eq_tol(step->mean_now, mean_of(is, OPGAP_METRIC_STEP), 1e-3);
    ck_assert(bunched ? step->mean_low > 0 && step->mean_high > step->mean_low && step->mean_p < 0.01
                      : isnan(step->mean_low) && isnan(step->mean_high) && isnan(step->mean_p));
    ck_assert(fabs(step->relative) < 0.05);
  }
}
END_TEST

/* Steps that do not wait became shorter and waits longer: on the whole the run is slower by a fifth, which may be
 * chance. That is no improvement; a rise of the mean below the threshold is no objection to one. */
START_TEST(test_a_median_that_falls_while_the_mean_rises)
{
  for (int small = 0; small < 2; small++) {
    stop();
    start();
    add_bunched_run(before, 1, 8, 40, 4000, 0);
    add_bunched_run(now, 2, 8, small ? 58 : 70, 1700, 0);
    const struct opgap_change *step = compare("step");
    ck_assert_int_eq(step->verdict, small ? OPGAP_IMPROVED : OPGAP_SAME);
    ck_assert_str_eq(step->reason, small ? "" : "the median is lower, the mean higher");
  }
}
END_TEST

/* One step of eight waits: too few of 60 to exclude twice the time.  That is no finding, but it is said. */
START_TEST(test_a_rise_that_may_be_large_is_noted)
{
  add_bunched_run(before, 1, 8, 40, 2000, 0);
  uint64_t *samples = add_bunched_run(now, 2, 8, 40, 2000, 0)->samples[OPGAP_METRIC_STEP];
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
  ck_assert_uint_eq(c->note_count, 0);
  const struct opgap_change *step;
  for (uint64_t ms = 1; ms < 10;
       ms += 8) { /* 1 and 10 ms in all: of a mean of 7, an eighth of it is below the limits */
    for (size_t i = 0; i < STEPS; i += 8) {
      samples[i] += ms * 1000000;
      now->runs[0].samples[OPGAP_METRIC_DATA_WAIT][i] += ms * 1000000;
    }
    step = compare("step");
    ck_assert_uint_eq(c->note_count, ms > 1);
  }
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert(step->relative > 0.15 && step->relative < 0.25 && step->high > 1);
  ck_assert_uint_eq(c->note_count, 1);
  ck_assert(strncmp(c->notes[0], "step: the rise may be chance and may be ", 40) == 0);
}
END_TEST

/* Only one of the sides has steps of two kinds. */
START_TEST(test_waits_that_come_or_go)
{
  add_bunched_run(before, 1, 8, 2, 2000, 0);
  add_bunched_run(now, 2, 8, 120, 2000, 0);
  ck_assert_int_eq(compare("step")->verdict, OPGAP_REGRESSED);
  struct opgap_runs *other = before;
  before = now;
  now = other;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_IMPROVED);
  ck_assert(strncmp(compare("step")->reason, "the mean; the median: ", 22) == 0);
}
END_TEST

/* Where median and mean say the same, it is said of the median. */
START_TEST(test_median_and_mean_agree)
{
  for (int falls = 0; falls < 2; falls++) {
    stop();
    start();
    add_bunched_run(before, 1, 8, 40, falls ? 4000 : 2000, 0);
    add_bunched_run(now, 2, 8, falls ? 10 : 160, falls ? 1700 : 6000, 0);
    const struct opgap_change *step = compare("step");
    ck_assert_int_eq(step->blind, 1);
    ck_assert_int_eq(step->verdict, falls ? OPGAP_IMPROVED : OPGAP_REGRESSED);
    ck_assert_str_eq(step->reason, "");
    ck_assert(step->before < 4.5e6);
  }
}
END_TEST

/* A mean that rises surely, but not beyond the threshold; and one whose rise may be chance but is not large. */
START_TEST(test_means_within_the_limits)
{
  struct opgap_rule rule = {.name = "step", .has_relative = true, .relative = 2};
  add_bunched_run(before, 1, 8, 40, 2000, 0);
  add_bunched_run(now, 2, 8, 120, 2000, 0);
  ck_assert_int_eq(compare("step")->verdict, OPGAP_REGRESSED);
  options.rules = &rule;
  options.rule_count = 1;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
  stop();
  start();
  add_bunched_run(before, 1, 2, 40, 4000, 0);
  add_bunched_run(now, 2, 2, 48, 4000, 0);
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(step->blind, 1);
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert(step->mean_now > 1.1 * step->mean_before && step->mean_high < 1);
  ck_assert_uint_eq(c->note_count, 0);
}
END_TEST

/* Single steps that were held up long raise the mean of a run, not that of each of its parts. */
START_TEST(test_held_up_steps_pass)
{
  add_run(before, STEPS, 1, 1, 5);
  uint64_t *samples = add_run(now, STEPS, 2, 1, 5)->samples[OPGAP_METRIC_STEP];
  for (size_t i = 0; i < STEPS / 2; i += 3)
    samples[i] *= 20;
  const struct opgap_change *step = compare("step");
  ck_assert_int_eq(step->verdict, OPGAP_SAME);
  ck_assert_str_eq(step->reason, "");
}
END_TEST

/* Waits that became long in a part of the run raise the mean surely, but not the fastest parts of the run. */
START_TEST(test_waits_of_a_disturbed_part_pass)
{
  for (int whole = 0; whole < 2; whole++) {
    stop();
    start();
    add_bunched_run(before, 1, 5, 40, 2000, 0);
    struct opgap_run *run = add_bunched_run(now, 2, 5, 40, 2000, 0);
    for (size_t i = 0; i < (whole ? STEPS : STEPS / 3 * 2); i += 5) {
      run->samples[OPGAP_METRIC_STEP][i] *= 6;
      run->samples[OPGAP_METRIC_DATA_WAIT][i] *= 6;
    }
    const struct opgap_change *step = compare("step");
    ck_assert_int_eq(step->blind, 1);
    ck_assert(step->mean_low > 0 && step->mean_p < 1e-3);
    ck_assert_int_eq(step->verdict, whole ? OPGAP_REGRESSED : OPGAP_SAME);
  }
}
END_TEST

START_TEST(test_spread_of_the_repeats_is_a_threshold)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(before, STEPS, 3, 1.2, 5);
  add_run(now, STEPS, 2, 1.2, 5);
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
}
END_TEST

START_TEST(test_missing_metric_is_no_pass)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 5)->samples[OPGAP_METRIC_LAUNCHES] = NULL;
  ck_assert_int_eq(compare("launches")->verdict, OPGAP_INCOMPARABLE);
  ck_assert_int_eq(c->verdict, OPGAP_INCOMPARABLE);
  ck_assert_uint_eq(c->reason_count, 1);
  before->runs[0].samples[OPGAP_METRIC_LAUNCHES] = NULL; /* neither has it: it is no metric of this program */
  ck_assert_ptr_null(compare("launches"));
  ck_assert_int_eq(c->verdict, OPGAP_SAME);
  struct opgap_rule rule = {.name = "launches", .has_absolute = true}; /* but it was asked for */
  options.rules = &rule;
  options.rule_count = 1;
  ck_assert_int_eq(compare("launches")->verdict, OPGAP_INCOMPARABLE);
  rule.name = "nonsense";
  ck_assert_int_eq(compare("nonsense")->verdict, OPGAP_INCOMPARABLE);
}
END_TEST

START_TEST(test_absent_figure_is_unknown_and_an_absent_cause_is_0)
{
  struct opgap_run *was = add_run(before, STEPS, 1, 1, 5), *is = add_run(now, STEPS, 2, 1, 5);
  options.judge = false; /* as diff */
  figure(before, was, "thread_idle", 100, false);
  figure(before, was, "thread_idle.lock", 100, false);
  figure(now, is, "thread_idle", 50, false);
  figure(now, is, "thread_idle.sleep", 50, false);
  figure(now, is, "gpu_idle", 30, false); /* before, no GPU was seen */
  figure(now, is, "gpu_idle.lock", 30, false);
  figure(now, is, "peak_bytes", 1000, false);
  const struct opgap_change *peak = compare("peak_bytes");
  ck_assert(isnan(peak->before) && isnan(peak->relative));
  ck_assert(peak->now == 1000);
  ck_assert(isnan(compare("gpu_idle.lock")->before));
  const struct opgap_change *lock = compare("thread_idle.lock");
  ck_assert(lock->before == 100 && lock->now == 0 && lock->relative == -1);
  ck_assert(compare("thread_idle.sleep")->before == 0);
  struct opgap_runs *swapped = before;
  before = now;
  now = swapped;
  peak = compare("peak_bytes");
  ck_assert(peak->before == 1000 && isnan(peak->now) && isnan(peak->relative));
}
END_TEST

#define SPAWNED(numbers)                                                                                               \
  "/usr/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main(" numbers ") --multiprocessing-fork"

/* Numbers of descriptors are no other command; the parent's script is. */
START_TEST(test_spawned_workers_are_one_command)
{
  static const struct {
    const char *was, *is;
    enum opgap_change_verdict verdict;
  } cases[] = {
      {SPAWNED("tracker_fd=4, pipe_handle=8"), SPAWNED("tracker_fd=5, pipe_handle=11"), OPGAP_SAME},
      {SPAWNED("tracker_fd=4, pipe_handle=8"), "python3 ddp.py" TEXT_SPAWNED, OPGAP_SAME}, /* of an older baseline */
      {"python3 ddp.py" TEXT_SPAWNED, "python3 ddp.py" TEXT_SPAWNED, OPGAP_SAME},
      {"python3 ddp.py" TEXT_SPAWNED, "python3 other.py" TEXT_SPAWNED, OPGAP_INCOMPARABLE},
      {"python3 ddp.py" TEXT_SPAWNED, "python3 ddp.py", OPGAP_INCOMPARABLE},
      {SPAWNED("tracker_fd=4, pipe_handle=8"), "python3 ddp.py", OPGAP_INCOMPARABLE},
  };
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    before->command = cases[i].was;
    now->command = cases[i].is;
    compare("step");
    ck_assert_msg(c->verdict == cases[i].verdict, "%s, %s", cases[i].was, cases[i].is);
  }
}
END_TEST

/* A worker's command is its parent's, over a fork server too; pids are those of the host and of the time. */
START_TEST(test_command_of_a_spawned_worker)
{
  struct opgap_sum_process processes[] = {
      {.pid = 10, .ppid = 1, .host = "a", .command = "python3 old.py", .start_ns = 0},
      {.pid = 10, .ppid = 1, .host = "a", .command = "python3 ddp.py --lr 1", .start_ns = 5},
      {.pid = 10, .ppid = 1, .host = "b", .command = "python3 elsewhere.py", .start_ns = 6},
      {.pid = 11, .ppid = 10, .host = "a", .command = SPAWNED("pipe_handle=8"), .start_ns = 10},
      {.pid = 12,
       .ppid = 10,
       .host = "a",
       .command = "python3 -c from multiprocessing.forkserver import main; main(3, 4)",
       .start_ns = 11},
      {.pid = 13,
       .ppid = 12,
       .host = "a",
       .command = "python3 -c from multiprocessing.forkserver import main; main(3, 4)",
       .start_ns = 12},
      {.pid = 14, .ppid = 99, .host = "a", .command = SPAWNED("pipe_handle=8"), .start_ns = 13},
      {.pid = 10, .ppid = 1, .host = "a", .command = "python3 later.py", .start_ns = 20},
  };
  static const char *const expected[] = {NULL,
                                         "python3 ddp.py --lr 1",
                                         NULL,
                                         "python3 ddp.py --lr 1" TEXT_SPAWNED,
                                         NULL,
                                         "python3 ddp.py --lr 1" TEXT_SPAWNED,
                                         SPAWNED("pipe_handle=8"),
                                         NULL};
  struct opgap_summary summary = {.processes = processes, .process_count = sizeof processes / sizeof *processes};
  for (size_t i = 0; i < summary.process_count; i++)
    if (expected[i] != NULL)
      ck_assert_str_eq(opgap_process_command(before->pool, &summary, &processes[i]), expected[i]);
}
END_TEST

START_TEST(test_script_of_a_command)
{
  static const char *const cases[][2] = {{"/usr/bin/python3 -u /a/ddp.py --lr 1", "ddp.py"},
                                         {"python3.12 -X dev -W ignore ddp.py", "ddp.py"},
                                         {"python3 -m torch.distributed.run a.py", "-m torch.distributed.run"},
                                         {"python3 -c import a; a.run()", "-c"},
                                         {"python3", "python3"},
                                         {"python3 -u", "python3"},
                                         {"/opt/app/train --lr 1", "train"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    text_script(text, sizeof text, cases[i][0]);
    ck_assert_str_eq(text, cases[i][1]);
  }
}
END_TEST

START_TEST(test_too_few_steps_is_no_pass)
{
  add_run(before, 19, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 5);
  ck_assert_int_eq(compare("step")->verdict, OPGAP_INCOMPARABLE);
  options.min_steps = 10;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_SAME);
}
END_TEST

START_TEST(test_no_steps_is_no_pass)
{
  add_run(before, 0, 1, 1, 5);
  add_run(now, STEPS, 2, 1, 5);
  compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_INCOMPARABLE);
  ck_assert_ptr_nonnull(strstr(c->reasons[0], "no steps"));
}
END_TEST

static void expect_incomparable(const char *because)
{
  compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_INCOMPARABLE);
  ck_assert_uint_eq(c->reason_count, 1);
  ck_assert_msg(strstr(c->reasons[0], because) != NULL, "%s", c->reasons[0]);
}

START_TEST(test_runs_that_cannot_be_compared)
{
  add_run(before, STEPS, 1, 1, 5);
  struct opgap_run *run = add_run(now, STEPS, 2, 1, 5);
  run->lost_records = 3;
  expect_incomparable("lost 3 records: its counts are not exact");
  ck_assert_ptr_null(strstr(c->reasons[0], "--buffer")); /* why is not known */
  run->lost_why = "3 ops inside too many others: mark fewer";
  expect_incomparable("lost 3 records: its counts are not exact (3 ops inside too many others: mark fewer)");
  run->lost_records = 0;
  run->lost_threads = 2;
  expect_incomparable("lost 2 threads");
  run->lost_threads = 0;
  run->damage = "12 bytes missing";
  expect_incomparable("12 bytes missing");
  run->damage = NULL;
  now->step_source = "opgap_step";
  expect_incomparable("step definition");
  now->step_source = "Optimizer.step";
  now->command = "python3 other.py";
  expect_incomparable("another command: was \"python3 train.py\", is \"python3 other.py\" (--allow-other-command)");
  options.judge = false; /* opgap diff, which has no such option */
  compare("step");
  ck_assert_str_eq(c->reasons[0], "another command: was \"python3 train.py\", is \"python3 other.py\"");
  options.judge = true;
  options.allow_other_command = true;
  compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_SAME);
}
END_TEST

START_TEST(test_other_machine_compares_counters_only)
{
  add_run(before, STEPS, 1, 1, 5);
  add_run(now, STEPS, 2, 2, 5);
  now->info_values[0] = "faster";
  expect_incomparable("another machine: cpu was \"test\", is \"faster\" (--allow-other-machine compares counters");
  options.judge = false;
  compare("step");
  ck_assert_str_eq(c->reasons[0], "another machine: cpu was \"test\", is \"faster\"");
  options.judge = true;
  options.allow_other_machine = true;
  ck_assert_int_eq(compare("step")->verdict, OPGAP_NOT_JUDGED);
  ck_assert_int_eq(compare("launches")->verdict, OPGAP_SAME);
  ck_assert_int_eq(c->verdict, OPGAP_SAME);
  now->runs[0].samples[OPGAP_METRIC_LAUNCHES] = before->runs[0].samples[OPGAP_METRIC_LAUNCHES] = NULL;
  compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_INCOMPARABLE); /* nothing was judged */
}
END_TEST

/* Without CUPTI a device has a name only if NVML's sampling was in time. */
START_TEST(test_unnamed_gpu_is_no_other_machine)
{
  add_repeats(before, 1, 1, 5);
  add_repeats(now, 2, 1, 5);
  now->info_count = 2;
  compare("step");
  ck_assert_int_eq(c->verdict, OPGAP_SAME);
  ck_assert_uint_eq(c->reason_count, 0);
  now->info_count = 3;
  now->info_values[2] = "H100";
  expect_incomparable("another machine: gpu was \"none\", is \"H100\"");
}
END_TEST

/* Steps of 1000, 1001, ..., 1100 ns in an order that is not theirs, and twice as long. */
START_TEST(test_p95_of_steps)
{
  struct opgap_p95_change change;
  add_run(before, 101, 1, 1, 5);
  add_run(now, 101, 1, 1, 5);
  for (uint64_t i = 0; i < 101; i++) {
    before->runs[0].samples[OPGAP_METRIC_STEP][i] = 1000 + i * 37 % 101;
    now->runs[0].samples[OPGAP_METRIC_STEP][i] = 2 * (1000 + i * 37 % 101);
  }
  opgap_compare_p95(before, now, &change);
  ck_assert_double_eq_tol(change.before, 1095, 1e-9);
  ck_assert_double_eq_tol(change.now, 2190, 1e-9);
  ck_assert(change.low < 1 && change.high > 1 && change.low > 0.5 && change.high < 2);
  now->runs[0].samples[OPGAP_METRIC_STEP] = NULL;
  opgap_compare_p95(before, now, &change);
  ck_assert_double_eq_tol(change.before, 1095, 1e-9);
  ck_assert(isnan(change.now) && isnan(change.low) && isnan(change.high));
}
END_TEST

START_TEST(test_totals_need_two_repeats_and_a_change_in_every_step)
{
  figure(before, add_run(before, STEPS, 1, 1, 5), "run.allocations", 1000, true);
  struct opgap_run *run = add_run(now, STEPS, 2, 1, 5);
  figure(now, run, "run.allocations", 1060, true);
  ck_assert_int_eq(compare("run.allocations")->verdict, OPGAP_NOT_JUDGED); /* not asked for */
  struct opgap_rule rule = {.name = "run.allocations", .has_absolute = true};
  options.rules = &rule;
  options.rule_count = 1;
  ck_assert_int_eq(compare("run.allocations")->verdict, OPGAP_INCOMPARABLE); /* one repeat */
  figure(before, add_run(before, STEPS, 3, 1, 5), "run.allocations", 1002, true);
  ck_assert_int_eq(compare("run.allocations")->verdict, OPGAP_REGRESSED);
  run->figures[0].value = 1032; /* 30 more than the highest: half of a step */
  ck_assert_int_eq(compare("run.allocations")->verdict, OPGAP_SAME);
  run->figures[0].value = 1033;
  ck_assert_int_eq(compare("run.allocations")->verdict, OPGAP_REGRESSED);
  run->steps_found = STEPS + 1;
  ck_assert_int_eq(compare("run.allocations")->verdict, OPGAP_INCOMPARABLE);
}
END_TEST

/* What times differ by is no finding from 0 either, whatever the threshold. */
START_TEST(test_a_time_of_the_run_from_zero)
{
  struct opgap_run *was = add_run(before, STEPS, 1, 1, 5), *is = add_run(now, STEPS, 2, 1, 5);
  figure(before, was, "run.idle", 0, false);
  figure(now, is, "run.idle", 10000, false);
  was->figures[0].unit = is->figures[0].unit = OPGAP_UNIT_NS;
  struct opgap_rule rule = {.name = "run.idle", .has_absolute = true};
  options.rules = &rule;
  options.rule_count = 1;
  ck_assert_int_eq(compare("run.idle")->verdict, OPGAP_SAME);
  ck_assert_str_eq(compare("run.idle")->reason, "from 0, by no more than times differ by");
  is->figures[0].value = 10001;
  ck_assert_int_eq(compare("run.idle")->verdict, OPGAP_REGRESSED);
}
END_TEST

START_TEST(test_rules)
{
  static const struct {
    const char *text;
    bool good;
    double relative, absolute;
  } cases[] = {{"step=5%", true, 0.05, 0},     {"step=5%,100us", true, 0.05, 1e5},
               {"step=1.5ms", true, 0, 1.5e6}, {"read_bytes=1M", true, 0, 1048576},
               {"launches=0", true, 0, 0},     {"step", false, 0, 0},
               {"=5%", false, 0, 0},           {"step=", false, 0, 0},
               {"step=-1", false, 0, 0},       {"step=nan", false, 0, 0},
               {"step=1e999", false, 0, 0},    {"step=5 parsecs", false, 0, 0},
               {"step=inf%", false, 0, 0},     {"step=5%%", false, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct opgap_rule rule;
    char error[512] = "";
    bool good = opgap_rule_parse(before->pool, cases[i].text, &rule, error, sizeof error);
    ck_assert_msg(good == cases[i].good, "%s", cases[i].text);
    if (good) {
      ck_assert(fabs(rule.relative - cases[i].relative) < 1e-12);
      ck_assert(fabs(rule.absolute - cases[i].absolute) < 1e-6);
    } else {
      ck_assert(strlen(error) > 0);
    }
  }
}
END_TEST

/* ---- the file ---- */

__attribute__((noinline)) static char *written(const struct opgap_runs *runs)
{
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  ck_assert(opgap_baseline_write(runs, file));
  fclose(file);
  return text;
}

START_TEST(test_file_reads_as_written)
{
  char error[512] = "";
  struct opgap_run *run = add_run(before, STEPS, 1, 1, 5);
  figure(before, run, "peak_rss", 123456, false);
  figure(before, run, "run.reads", 7, true);
  add_row(before, "op", "aten::\"mm\"", OPGAP_METRIC_LAUNCHES, 2);
  char *text = written(before);
  struct opgap_runs *read = opgap_baseline_parse(text, strlen(text), "perf.json", error, sizeof error);
  ck_assert_msg(read != NULL, "%s", error);
  ck_assert_str_eq(read->command, "python3 train.py");
  ck_assert_str_eq(opgap_runs_info(read, "cpu"), "test");
  ck_assert_uint_eq(read->run_count, 1);
  ck_assert_uint_eq(read->steps, STEPS);
  ck_assert_mem_eq(read->runs[0].samples[OPGAP_METRIC_STEP], run->samples[OPGAP_METRIC_STEP], STEPS * 8);
  ck_assert_mem_eq(read->runs[0].samples[OPGAP_METRIC_LAUNCHES], run->samples[OPGAP_METRIC_LAUNCHES], STEPS * 8);
  ck_assert_ptr_null(read->runs[0].samples[OPGAP_METRIC_READS]);
  ck_assert(opgap_run_figure(&read->runs[0], "peak_rss")->value == 123456);
  ck_assert(opgap_run_figure(&read->runs[0], "run.reads")->counter);
  ck_assert_str_eq(read->rows[0].name, "aten::\"mm\"");
  ck_assert_uint_eq(read->rows[0].sum[OPGAP_METRIC_LAUNCHES], 2 * STEPS);
  char *again = written(read);
  ck_assert_str_eq(again, text);
  free(again);
  free(text);
  opgap_runs_free(read);
}
END_TEST

static void refuse(const char *text, const char *because)
{
  char error[512] = "";
  struct opgap_runs *read = opgap_baseline_parse(text, strlen(text), "perf.json", error, sizeof error);
  ck_assert_msg(read == NULL, "accepted: %s", because);
  ck_assert_msg(strstr(error, because) != NULL, "\"%s\" does not hold \"%s\"", error, because);
  ck_assert_msg(strncmp(error, "perf.json: ", 11) == 0 && strchr(error, '\n') == NULL, "%s", error);
}

/* The text with one part replaced, allocated. */
static char *edited(const char *text, const char *part, const char *by)
{
  const char *at = strstr(text, part);
  ck_assert_msg(at != NULL, "no %s", part);
  char *result = malloc(strlen(text) + strlen(by) + 1);
  sprintf(result, "%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
  return result;
}

START_TEST(test_wrong_files_are_refused)
{
  static const struct {
    const char *part, *by, *because;
  } edits[] = {
      {"\"schema\": 1", "\"schema\": 2", "its schema is 2, this opgap reads 1"},
      {"\"schema\": 1", "\"schema\": \"1\"", "schema"},
      {"opgap-baseline", "other", "not a baseline"},
      {"\"launches\": 5", "\"launches\": -5", "\"launches\" must be one number"},
      {"\"launches\": 5", "\"launches\": 5.5", "\"launches\" must be one number"},
      {"\"launches\": 5", "\"launches\": [5,5]", "a list of as many"},
      {"\"launches\": 5", "\"launches\": 99999999999999999999999", "not JSON"},
      {"\"launches\": 5", "\"launches\": 9007199254740993", "\"launches\" must be one number"},
      {"\"launches\": 5", "\"launches\": NaN", "not JSON"},
      {"\"launches\": 5", "\"lunches\": 5", "no metric \"lunches\""},
      {"\"steps\": 60", "\"steps\": 61", "as many as \"steps\" (61)"},
      {"\"steps\": 60", "\"steps\": 4000000000", "at most 4096"},
      {"\"steps\": 60", "\"steps\": null", "\"steps\" must be a whole number"},
      {"\"typical_steps\": 60", "\"typical_steps\": 61", "more typical steps"},
      {"\"value\":7", "\"value\":-7", "at least 0"},
      {"\"value\":7", "\"value\":1e999", "not JSON"},
      {"\"unit\":\"count\"", "\"unit\":\"miles\"", "no unit \"miles\""},
      {"\"runs\": [", "\"runs\": [], \"old\": [", "1 to 1000 runs"},
      {"\"rows\": [", "\"rows\": 5, \"old\": [", "\"rows\" must be a list"},
      {"\"damage\": null", "\"damage\": 7", "\"damage\" must be"},
      {"\"cpu\":\"test\"", "\"cpu\":5", "\"cpu\" must be a text"},
      {"\"skipped\": 0", "\"steps_found\": 1", "not JSON"}, /* a name twice */
  };
  figure(before, add_run(before, STEPS, 1, 1, 5), "run.reads", 7, true);
  char *text = written(before);
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    char *wrong = edited(text, edits[i].part, edits[i].by);
    refuse(wrong, edits[i].because);
    free(wrong);
  }
  refuse("", "not JSON");
  refuse("[]", "not a baseline");
  refuse("{}", "not a baseline");
  free(text);
}
END_TEST

START_TEST(test_every_cut_is_refused)
{
  figure(before, add_run(before, 5, 1, 1, 5), "run.reads", 7, true);
  char *text = written(before);
  size_t length = strlen(text) - 2; /* without the last brace and newline */
  for (size_t cut = 0; cut <= length; cut++) {
    char error[512] = "";
    struct opgap_runs *read = opgap_baseline_parse(text, cut, "perf.json", error, sizeof error);
    ck_assert_msg(read == NULL && error[0], "cut at %zu of %zu", cut, length);
  }
  free(text);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("gate");
  TCase *tests = new_case("all");
  tcase_add_checked_fixture(tests, start, stop);
  suite_add_tcase(suite, tests);
  tcase_add_test(tests, test_same_program_passes);
  tcase_add_test(tests, test_slower_step_regresses_and_names_the_op);
  tcase_add_test(tests, test_change_below_a_threshold_passes);
  tcase_add_test(tests, test_single_runs_show_only_large_changes);
  tcase_add_test(tests, test_improvement_is_named);
  tcase_add_test(tests, test_one_more_launch_a_step_is_exact);
  tcase_add_test(tests, test_launches_are_explained_by_kernels);
  tcase_add_test(tests, test_texts_of_figures);
  tcase_add_test(tests, test_counter_from_zero_regresses);
  tcase_add_test(tests, test_time_from_zero_regresses);
  tcase_add_test(tests, test_time_from_zero_below_the_floor_passes);
  tcase_add_test(tests, test_time_to_zero_improves);
  tcase_add_test(tests, test_time_of_zero_stays);
  tcase_add_test(tests, test_zero_in_some_runs_or_steps_passes);
  tcase_add_test(tests, test_rare_event_does_not_flake);
  tcase_add_test(tests, test_counter_with_spread_is_a_sample);
  tcase_add_test(tests, test_disturbed_run_passes);
  tcase_add_test(tests, test_bunched_steps_are_judged_by_their_mean);
  tcase_add_test(tests, test_bunched_steps_against_themselves_pass);
  tcase_add_test(tests, test_a_rise_that_the_median_cannot_see);
  tcase_add_test(tests, test_a_median_that_falls_while_the_mean_rises);
  tcase_add_test(tests, test_means_where_the_median_is_blind);
  tcase_add_test(tests, test_a_rise_that_may_be_large_is_noted);
  tcase_add_test(tests, test_waits_that_come_or_go);
  tcase_add_test(tests, test_median_and_mean_agree);
  tcase_add_test(tests, test_means_within_the_limits);
  tcase_add_test(tests, test_held_up_steps_pass);
  tcase_add_test(tests, test_waits_of_a_disturbed_part_pass);
  tcase_add_test(tests, test_spread_of_the_repeats_is_a_threshold);
  tcase_add_test(tests, test_missing_metric_is_no_pass);
  tcase_add_test(tests, test_absent_figure_is_unknown_and_an_absent_cause_is_0);
  tcase_add_test(tests, test_spawned_workers_are_one_command);
  tcase_add_test(tests, test_command_of_a_spawned_worker);
  tcase_add_test(tests, test_script_of_a_command);
  tcase_add_test(tests, test_too_few_steps_is_no_pass);
  tcase_add_test(tests, test_no_steps_is_no_pass);
  tcase_add_test(tests, test_runs_that_cannot_be_compared);
  tcase_add_test(tests, test_other_machine_compares_counters_only);
  tcase_add_test(tests, test_unnamed_gpu_is_no_other_machine);
  tcase_add_test(tests, test_p95_of_steps);
  tcase_add_test(tests, test_totals_need_two_repeats_and_a_change_in_every_step);
  tcase_add_test(tests, test_a_time_of_the_run_from_zero);
  tcase_add_test(tests, test_rules);
  tcase_add_test(tests, test_file_reads_as_written);
  tcase_add_test(tests, test_wrong_files_are_refused);
  tcase_add_test(tests, test_every_cut_is_refused);
  return run_suite(suite);
}
