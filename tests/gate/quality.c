/* How good is the gate?  Compares runs in pairs and counts how often it says that a step got slower, and how often
 * three simpler methods do on the same samples.
 *
 *   gate-quality REPEATS BASELINES RUNS [OP]
 *
 * BASELINES and RUNS: files that list baseline files (opgap baseline) of one run each, one path a line.  REPEATS lines
 * in a row make one side; every line is used once, so comparisons are independent.  With OP: how often the gate names
 * it first.  Output, one line: comparisons, not comparable, gate, op named, plain, means, Welch.
 *
 *   gate   opgap gate at its default settings, the metric "step"
 *   plain  median more than 5 % above
 *   means  ratio of means above 1 by more than its propagated standard deviation, as hyperfine prints "1.10 +- 0.05"
 *   Welch  Welch's t test, one-sided, p < 0.01
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare.h"
#include "analysis/stats_test.h"

#define FILES_MOST 100000u

struct list {
  char **paths;
  size_t count;
};

static struct list list_of(const char *path)
{
  struct list list = {opgap_xcalloc(FILES_MOST, sizeof *list.paths), 0};
  char line[4096];
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  while (list.count < FILES_MOST && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    list.paths[list.count++] = strdup(line);
  }
  fclose(file);
  return list;
}

/* REPEATS files as one set: the runs of all of them.  Sets are kept in `parts` until the comparison is done. */
static struct opgap_runs *side_of(char **paths, size_t repeats, struct opgap_runs **parts)
{
  char error[512] = "";
  for (size_t i = 0; i < repeats; i++) {
    parts[i] = opgap_baseline_read(paths[i], error, sizeof error);
    if (parts[i] == NULL) {
      fprintf(stderr, "%s\n", error);
      exit(2);
    }
    if (i > 0) { /* the first run's rows and identity stand for all: only its samples differ */
      parts[0]->runs[i] = parts[i]->runs[0];
      parts[0]->run_count++;
      parts[0]->steps += parts[i]->steps;
    }
  }
  parts[0]->steps = 0;
  for (size_t i = 0; i < repeats; i++)
    parts[0]->steps += parts[0]->runs[i].steps;
  return parts[0];
}

static double *joined(const struct opgap_runs *runs, size_t *count)
{
  double *all = opgap_xcalloc((size_t)runs->steps + 1, sizeof *all);
  *count = 0;
  for (size_t r = 0; r < runs->run_count; r++)
    for (size_t i = 0; i < runs->runs[r].steps; i++)
      all[(*count)++] = (double)runs->runs[r].samples[OPGAP_METRIC_STEP][i];
  return all;
}

static double deviation(const double *values, size_t count, double mean)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (values[i] - mean) * (values[i] - mean);
  return sqrt(sum / (double)(count - 1));
}

struct counts {
  size_t comparisons, incomparable, gate, named, plain, means, welch;
};

static void simple_methods(const struct opgap_runs *before, const struct opgap_runs *now, struct counts *counts)
{
  size_t n, m;
  double *a = joined(before, &n), *b = joined(now, &m);
  double a_mean = stats_mean(a, n), b_mean = stats_mean(b, m), ratio = b_mean / a_mean;
  double a_share = deviation(a, n, a_mean) / a_mean, b_share = deviation(b, m, b_mean) / b_mean;
  counts->plain += stats_median(b, m) > 1.05 * stats_median(a, n);
  counts->means += ratio - 1 > ratio * sqrt(a_share * a_share + b_share * b_share);
  counts->welch += stats_welch_greater(a, n, b, m) < 0.01;
  free(a);
  free(b);
}

static void compare_pair(const struct opgap_runs *before, const struct opgap_runs *now, const char *op,
                         struct counts *counts)
{
  const struct opgap_compare_options options = {.judge = true};
  struct opgap_comparison *c = opgap_compare(before, now, &options);
  counts->comparisons++;
  counts->incomparable += c->verdict == OPGAP_INCOMPARABLE;
  for (size_t i = 0; i < c->change_count; i++) {
    const struct opgap_change *change = &c->changes[i];
    if (change->verdict != OPGAP_REGRESSED)
      continue;
    if (strcmp(change->name, "step") != 0) {
      printf("# %s regressed too\n", change->name);
      continue;
    }
    counts->gate++;
    counts->named += op && change->explanation_count && strcmp(change->explanations[0].name, op) == 0;
  }
  opgap_comparison_free(c);
  simple_methods(before, now, counts);
}

int main(int argc, char **argv)
{
  size_t repeats = argc >= 4 ? strtoul(argv[1], NULL, 10) : 0;
  if (repeats == 0 || repeats > 100) {
    fprintf(stderr, "usage: gate-quality REPEATS BASELINES RUNS [OP]\n");
    return 2;
  }
  struct list before = list_of(argv[2]), now = list_of(argv[3]);
  struct counts counts = {0};
  struct opgap_runs *left[100], *right[100];
  for (size_t i = 0; i + repeats <= before.count && i + repeats <= now.count; i += repeats) {
    compare_pair(side_of(before.paths + i, repeats, left), side_of(now.paths + i, repeats, right),
                 argc > 4 ? argv[4] : NULL, &counts);
    for (size_t k = 0; k < repeats; k++) {
      opgap_runs_free(left[k]);
      opgap_runs_free(right[k]);
    }
  }
  printf("%zu %zu %zu %zu %zu %zu %zu\n", counts.comparisons, counts.incomparable, counts.gate, counts.named,
         counts.plain, counts.means, counts.welch);
  return 0;
}
