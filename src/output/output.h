/* A summary as text, markdown, JSON or CSV.  Everything printed comes from the summary and from nothing else.
 *
 * Threads: one at a time.  Ownership: nothing is kept.  Errors of the stream are the caller's to see (ferror). */
#ifndef OPGAP_OUTPUT_OUTPUT_H
#define OPGAP_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "analysis/summary.h"

enum opgap_sort {
  OPGAP_SORT_SELF_CPU,
  OPGAP_SORT_TOTAL_CPU,
  OPGAP_SORT_AVERAGE,
  OPGAP_SORT_CALLS,
  OPGAP_SORT_BLOCKED,
  OPGAP_SORT_ALLOCS,
  OPGAP_SORT_ALLOC_BYTES,
  OPGAP_SORT_SELF_GPU,
  OPGAP_SORT_TOTAL_GPU,
  OPGAP_SORT_NAME,
  OPGAP_SORT_COUNT
};
/* Accepts the column's name as printed, in the JSON contract and in torch.profiler; OPGAP_SORT_COUNT when unknown. */
enum opgap_sort opgap_sort_parse(const char *name);
/* "self_cpu, total_cpu, ...": for messages. */
const char *opgap_sort_names(void);
/* Orders the rows of `ops`; the largest first, names from A. */
void opgap_sort_ops(struct opgap_sum_op *ops, size_t count, enum opgap_sort sort);

/* Bytes a step that a leak grows by at least, in all outputs: less is no matter in a million steps. */
#define OPGAP_LEAK_LEAST 64.0

struct opgap_output_options {
  size_t limit;   /* rows of a table; 0: all */
  unsigned width; /* columns of the terminal; 0: no limit; tables fit from 60 on */
  bool colour;
  bool plot; /* text: charts of step times and of use over time */
  bool utf8; /* may charts be drawn with more than ASCII? */
  enum opgap_sort sort;
};

/* The number of the step that holds this time of the run; the number of steps when none does. */
static inline size_t opgap_step_at(const struct opgap_summary *summary, uint64_t ns)
{
  const struct opgap_sum_steps *steps = &summary->steps;
  size_t low = 0, high = steps->count; /* the first that begins later */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (steps->start_ns[middle] > ns)
      high = middle;
    else
      low = middle + 1;
  }
  return low > 0 && ns - steps->start_ns[low - 1] < steps->durations_ns[low - 1] ? low - 1 : steps->count;
}

/* Rows of `count` that a table shows. */
static inline size_t opgap_shown(size_t count, const struct opgap_output_options *options)
{
  return options->limit > 0 && count > options->limit ? options->limit : count;
}

/* Width of the output: `columns` (the variable COLUMNS) when it is a number above 0, else `terminal`. */
unsigned opgap_output_width(const char *columns, unsigned terminal);
void opgap_output_text(const struct opgap_summary *summary, const struct opgap_output_options *options, FILE *file);
void opgap_output_markdown(const struct opgap_summary *summary, const struct opgap_output_options *options, FILE *file);
/* docs/REPORT_JSON.md.  The caller frees it with free(); NULL when out of memory. */
char *opgap_output_json(const struct opgap_summary *summary, const struct opgap_output_options *options);

enum opgap_csv_table {
  OPGAP_CSV_OPS,
  OPGAP_CSV_CALLS,
  OPGAP_CSV_FILES,
  OPGAP_CSV_GAPS,
  OPGAP_CSV_STEPS,
  OPGAP_CSV_PROCESSES,
  OPGAP_CSV_LOCKS,
  OPGAP_CSV_COUNT
};
enum opgap_csv_table opgap_csv_parse(const char *name); /* "ops", "calls", ...; OPGAP_CSV_COUNT when unknown */
/* A value of a CSV row: quoted where it must be, always UTF-8. */
void opgap_csv_text(const char *bytes, FILE *file);
void opgap_output_csv(const struct opgap_summary *summary, const struct opgap_output_options *options,
                      enum opgap_csv_table table, FILE *file);

#endif
