/* Runs in the form in which they are compared: per-step samples, exact counters, and the rows that explain a change.
 *
 * The same form comes from traces (opgap_runs_add_trace) and from a baseline file (opgap_baseline_read), so that a
 * baseline can stand wherever a trace can.
 *
 * Threads   plain data; one thread at a time.
 * Ownership a set of runs owns all it points to; opgap_runs_free releases it.
 * Memory    bounded by OPGAP_RUNS_STEPS steps a run, OPGAP_RUNS_ROWS rows, OPGAP_RUNS_MOST runs.
 *
 * Invariants
 *   1. Everything per step is about the steps after warm-up, at most the first OPGAP_RUNS_STEPS of them, of one process
 *      (the first trainer).
 *   2. A step's value of a metric is the sum of what ended in it; a row's sum is its own part, without the ops inside.
 *   3. Times of rows are summed over typical steps only, those between the quartiles of their run's step times: so they
 *      add up to about the median step, and explain a change of it, whatever a few disturbed steps did.
 *   4. Figures are about the whole run and all its processes.
 */
#ifndef OPGAP_ANALYSIS_BASELINE_H
#define OPGAP_ANALYSIS_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/pool.h"
#include "analysis/source.h"
#include "analysis/summary.h"

#define OPGAP_BASELINE_FORMAT "opgap-baseline" /* "format" of the file */
#define OPGAP_BASELINE_SCHEMA 1
#define OPGAP_RUNS_STEPS 4096u
#define OPGAP_RUNS_ROWS 20000u
#define OPGAP_RUNS_MOST 1000u

enum opgap_unit { OPGAP_UNIT_NS, OPGAP_UNIT_BYTES, OPGAP_UNIT_COUNT, OPGAP_UNIT_SHARE };

enum opgap_metric {
  OPGAP_METRIC_STEP,
  OPGAP_METRIC_DATA_WAIT,
  OPGAP_METRIC_BLOCKED,
  OPGAP_METRIC_FILE_TIME,
  OPGAP_METRIC_GPU_BUSY,
  OPGAP_METRIC_OPS,
  OPGAP_METRIC_LAUNCHES,
  OPGAP_METRIC_KERNELS,
  OPGAP_METRIC_SYNCS,
  OPGAP_METRIC_GPU_COPIES,
  OPGAP_METRIC_GPU_COPY_BYTES,
  OPGAP_METRIC_H2D_BYTES,
  OPGAP_METRIC_D2H_BYTES,
  OPGAP_METRIC_D2D_BYTES,
  OPGAP_METRIC_GPU_ALLOCATIONS,
  OPGAP_METRIC_ALLOCATIONS,
  OPGAP_METRIC_ALLOC_BYTES,
  OPGAP_METRIC_OPENS,
  OPGAP_METRIC_READS,
  OPGAP_METRIC_READ_BYTES,
  OPGAP_METRIC_WRITES,
  OPGAP_METRIC_WRITTEN_BYTES,
  OPGAP_METRIC_COUNT
};

/* What is known about a metric.  A counter is a fact about the program, a time also about the machine. */
struct opgap_metric_info {
  const char *name, *text; /* text: what one step of it is */
  enum opgap_unit unit;
  bool counter;
  bool judged; /* by the gate unless told otherwise */
};
const struct opgap_metric_info *opgap_metric_info(enum opgap_metric metric);
enum opgap_metric opgap_metric_find(const char *name); /* OPGAP_METRIC_COUNT: none of that name */

/* One value about a whole run.  Names: "peak_rss", "breakdown.kernel", "gpu_idle.data loading", "run.allocations". */
struct opgap_figure {
  const char *name;
  enum opgap_unit unit;
  bool counter; /* an exact total of the run, not divided by its steps */
  double value;
};

struct opgap_run {
  const char *path;
  size_t steps_found, skipped, steps; /* all; warm-up; those that samples are about */
  size_t typical_steps;
  uint64_t lost_records, invalid_records;
  bool size_reached;                     /* recorded only up to OPGAP_MAX_SIZE; otherwise as the next */
  uint64_t lost_threads;                 /* of a trace; no file of a baseline has it, which is not made of such a run */
  const char *lost_why;                  /* for which reasons, and what prevents them; NULL: not known */
  const char *damage;                    /* NULL: complete */
  uint64_t *samples[OPGAP_METRIC_COUNT]; /* [steps]; NULL: the metric is not known */
  size_t figure_count;
  struct opgap_figure *figures;
};

/* Key: kind, name.  Summed over the runs. */
struct opgap_row {
  const char *kind; /* "op", "range", "file", "kernel", "copy", "code" */
  const char *name;
  uint64_t calls;
  uint64_t sum[OPGAP_METRIC_COUNT]; /* [OPGAP_METRIC_STEP]: self time; times: of typical steps only */
};

struct opgap_runs {
  const char *label;       /* path of a baseline, or the paths of the traces */
  const char *command;     /* of the process whose steps these are */
  const char *step_source; /* "Optimizer.step", ..., "none" */
  size_t info_count;       /* the machine and the settings: "cpu", "cores", "gpu", "OPGAP_HOOKS", ... */
  const char **info_keys, **info_values;
  size_t run_count;
  struct opgap_run *runs;
  size_t row_count;
  struct opgap_row *rows;
  bool rows_left_out;     /* there were more than OPGAP_RUNS_ROWS */
  uint64_t steps;         /* of all runs */
  uint64_t typical_steps; /* those of which the times of rows are summed */
  struct opgap_pool *pool;
};

struct opgap_runs *opgap_runs_new(void);
void opgap_runs_free(struct opgap_runs *runs);
/* NULL when absent. */
const char *opgap_runs_info(const struct opgap_runs *runs, const char *key);
/* Adds one run.  The first run gives command, step source and machine; false with one line in error[size] when a later
 * one differs in command, step source, settings or machine. */
bool opgap_runs_add_trace(struct opgap_runs *runs, const struct opgap_source *source,
                          const struct opgap_summary *summary, char *error, size_t size);
/* May a run have a figure of this name?  (Which ones it has depends on what it did.) */
bool opgap_figure_exists(const char *name);
/* The figure that a cause of idle time is a part of ("gpu_idle" of "gpu_idle.lock" and of itself); NULL: it is none. */
const char *opgap_figure_idle(const char *name);
/* Figures that are not about causes or classes, one by one; NULL after the last. */
const char *opgap_figure_listed(size_t index);
/* The figure of this name of a run, NULL when absent. */
const struct opgap_figure *opgap_run_figure(const struct opgap_run *run, const char *name);

/* ---- the file ---- */

/* Writes the file's text: one metric, figure or row a line, so that a change of it can be read in a review. */
bool opgap_baseline_write(const struct opgap_runs *runs, FILE *file);
/* Reads a file that opgap_baseline_write wrote; NULL with one line in error[size].  Never trusts a size or a number. */
struct opgap_runs *opgap_baseline_parse(const char *text, size_t length, const char *path, char *error, size_t size);
struct opgap_runs *opgap_baseline_read(const char *path, char *error, size_t size);

/* Opens `paths` ("a,b,c": repeats), each a trace or a baseline file, as one set.  NULL with one line in error[size].
 * threads: that read a trace; 0: as many as help.  The set is the same. */
struct opgap_runs *opgap_runs_open(const char *const *paths, size_t count, unsigned threads, char *error, size_t size);

#endif
