/* Step times and use over time as charts of text, for opgap report --plot. */
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "output/chart.h"
#include "output/sections.h"

#define STEP_LINES 8u
#define USE_LINES 4u

static int by_value(const void *left, const void *right)
{
  uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
  return l < r ? -1 : l > r;
}

/* One column for steps [from, to): their median, and the slowest as a mark. */
static struct chart_column step_column(const uint64_t *durations, size_t from, size_t to)
{
  uint64_t *sorted = opgap_xcalloc(to - from, sizeof *sorted);
  memcpy(sorted, durations + from, (to - from) * sizeof *sorted);
  qsort(sorted, to - from, sizeof *sorted, by_value);
  struct chart_column column = {.bar = (double)sorted[(to - from - 1) / 2], .mark = (double)sorted[to - from - 1]};
  free(sorted);
  return column;
}

void section_plot_steps(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  const struct opgap_sum_steps *steps = &s->steps;
  struct chart chart = {.lines = STEP_LINES, .low = "0", .first = "step 0", .utf8 = o->utf8, .colour = o->colour};
  char high[32], last[32];
  uint64_t longest = 0;
  for (size_t i = 0; i < steps->count; i++)
    longest = steps->durations_ns[i] > longest ? steps->durations_ns[i] : longest;
  /* warm-up and single outliers must not flatten the rest */
  chart.top = (double)longest;
  if (steps->p95_ns != OPGAP_UNKNOWN && 1.5 * (double)steps->p95_ns < chart.top)
    chart.top = 1.5 * (double)steps->p95_ns;
  if (!(chart.top > 0))
    return;
  text_time(high, sizeof high, (uint64_t)chart.top);
  snprintf(last, sizeof last, "%zu", steps->count - 1);
  chart.high = high;
  chart.last = last;
  size_t room = chart_room(o->width, strlen(high));
  chart.count = steps->count < room ? steps->count : room;
  for (size_t i = 0; i < chart.count; i++)
    chart.columns[i] =
        step_column(steps->durations_ns, i * steps->count / chart.count, (i + 1) * steps->count / chart.count);
  size_t least = steps->count / chart.count, most = (steps->count + chart.count - 1) / chart.count;
  if (most > least)
    fprintf(file, "  bar: median of %zu or %zu steps; %s the slowest of them (^ above the chart)\n", least, most,
            o->utf8 ? "·" : "'");
  else if (most > 1)
    fprintf(file, "  bar: median of %zu steps; %s the slowest of them (^ above the chart)\n", most,
            o->utf8 ? "·" : "'");
  else
    fprintf(file, "  one bar a step (^ above the chart)\n");
  chart_print(&chart, file);
}

/* Shares of time of `count` equal columns out of the parts' sums; [from, to): parts that have a value. */
static void use_columns(struct chart *chart, const uint64_t *parts, uint64_t part_ns, double from, double to, bool rest)
{
  double each = (double)OPGAP_OVER_TIME_BUCKETS / (double)chart->count;
  for (size_t c = 0; c < chart->count; c++) {
    double sum = 0, covered = 0;
    for (size_t b = (size_t)((double)c * each); b < OPGAP_OVER_TIME_BUCKETS && (double)b < (double)(c + 1) * each;
         b++) {
      double left = (double)b > (double)c * each ? (double)b : (double)c * each;
      double right = (double)(b + 1) < (double)(c + 1) * each ? (double)(b + 1) : (double)(c + 1) * each;
      left = left > from ? left : from;
      right = right < to ? right : to;
      if (right <= left)
        continue;
      sum += (double)parts[b] / (double)part_ns * (right - left);
      covered += right - left;
    }
    double share = covered > 0 ? sum / covered : -1;
    share = share > 1 ? 1 : share;
    chart->columns[c] = (struct chart_column){.bar = rest && share >= 0 ? 1 - share : share};
  }
}

/* from_ns, to_ns: of the trace, where the parts have values; rest: show what the parts leave. */
static void plot_use(const struct opgap_summary *s, const struct opgap_output_options *o, const uint64_t *parts,
                     uint64_t from_ns, uint64_t to_ns, bool rest, FILE *file)
{
  const struct opgap_sum_over_time *t = &s->over_time;
  struct chart chart = {.lines = USE_LINES,
                        .top = 1,
                        .high = "100 %",
                        .low = "0 %",
                        .utf8 = o->utf8,
                        .colour = o->colour,
                        .count = chart_room(o->width, 5)};
  char first[32], last[32];
  double start = (double)t->start_ns, part = (double)t->bucket_ns;
  snprintf(first, sizeof first, "%.3f s", start / 1e9);
  snprintf(last, sizeof last, "%.3f s", (start + part * OPGAP_OVER_TIME_BUCKETS) / 1e9);
  chart.first = first;
  chart.last = last;
  use_columns(&chart, parts, t->bucket_ns, ((double)from_ns - start) / part, ((double)to_ns - start) / part, rest);
  chart_print(&chart, file);
}

static double share_of(const uint64_t *parts, uint64_t whole)
{
  uint64_t sum = 0;
  for (size_t b = 0; b < OPGAP_OVER_TIME_BUCKETS; b++)
    sum += parts[b];
  double share = whole > 0 ? 100.0 * (double)sum / (double)whole : 0;
  return share < 100 ? share : 100; /* the last part may reach beyond the end */
}

void section_plot_use(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  const struct opgap_sum_over_time *t = &s->over_time;
  uint64_t all = t->bucket_ns * OPGAP_OVER_TIME_BUCKETS;
  if (t->bucket_ns == 0) { /* a summary of parts, each of which had its own time */
    fputs("  not known of summaries: give the traces themselves\n", file);
    return;
  }
  for (size_t d = 0; d < t->device_count; d++) {
    fprintf(file, "  GPU %u busy: %.1f %% of the time\n", t->devices[d].device, share_of(t->devices[d].busy_ns, all));
    plot_use(s, o, t->devices[d].busy_ns, 0, UINT64_MAX, false, file);
  }
  const struct opgap_sum_process *process = opgap_step_process(s);
  for (size_t i = 0; process != NULL && i < t->process_count; i++) {
    const struct opgap_sum_process_over_time *row = &t->processes[i];
    if (row->index != process->index)
      continue;
    uint64_t life = process->end_ns - process->start_ns;
    fprintf(file, "  %s, main thread not blocked: %.1f %% of its time\n", process->role_label,
            100 - share_of(row->blocked_ns, life));
    plot_use(s, o, row->blocked_ns, process->start_ns, process->end_ns, true, file);
    if (share_of(row->next_ns, life) > 0) {
      fprintf(file, "  %s, main thread in the DataLoader: %.1f %% of its time\n", process->role_label,
              share_of(row->next_ns, life));
      plot_use(s, o, row->next_ns, process->start_ns, process->end_ns, false, file);
    }
    break;
  }
}
