/* Exports: a trace in other programs' formats, span by span.
 *
 * One row of the table (formats.c) and one file a format.  A format reads spans (analysis/spans.h) and writes them as
 * they come, so memory does not grow with the trace.
 *
 * Threads   one at a time.
 * Errors    A format returns false with one line in job->error; nothing is left under the final name then.
 */
#ifndef OPGAP_OUTPUT_EXPORT_EXPORT_H
#define OPGAP_OUTPUT_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "analysis/spans.h"
#include "output/export/sink.h"

struct opgap_export_job {
  const struct opgap_source *source;
  const struct opgap_summary *summary;
  struct opgap_spans *spans;
  const char *path;     /* "-": stdout; Kineto: may be a folder */
  uint64_t max_bytes;   /* JSON formats begin a new file above this, before compression; 0: never */
  uint64_t first_step;  /* number of the summary's first step: --steps A:B begins with A */
  bool for_tensorboard; /* Kineto: runtime calls in the category that torch_tb_profiler reads */
  void (*progress)(void *context, uint64_t done, uint64_t total); /* records */
  void *progress_context;
  /* results */
  uint64_t span_count;  /* of the trace, as far as they were asked for: what has a duration, or is a call */
  uint64_t point_count; /* marks, samples and losses */
  uint64_t left_out;    /* of spans: this format has no place for them */
  unsigned files_written;
  char error[1024];
};

struct opgap_export_format {
  const char *name, *suffix, *what;
  bool (*write)(struct opgap_export_job *job);
  bool to_stdout;         /* can be written to a pipe */
  bool into_folder;       /* a path may be that of a folder, which is made where it ends with a slash */
  const char *leaves_out; /* what it has no place for, in words; NULL: nothing */
};

extern const struct opgap_export_format opgap_export_formats[];
extern const size_t opgap_export_format_count;
/* NULL: no such format */
const struct opgap_export_format *opgap_export_find(const char *name);

/* For the formats: the next span with progress shown, counted; counting one, or all that are selected, as left out
 * (points are not); opening and finishing files with the error said. */
const struct opgap_span *export_next(struct opgap_export_job *job);
void export_leave_out(struct opgap_export_job *job, const struct opgap_span *span);
void export_leave_out_all(struct opgap_export_job *job);
struct sink *export_open(struct opgap_export_job *job, const char *path);
bool export_finish(struct opgap_export_job *job, struct sink *sink, const char *path);
/* What a process is called in a timeline: "trainer rank 1", "DataLoader worker 0", ... */
const char *export_process_name(const struct opgap_export_job *job, uint32_t process);
/* CLOCK_REALTIME of time 0. */
int64_t export_base_ns(const struct opgap_export_job *job);

bool export_kineto(struct opgap_export_job *job);
bool export_perfetto(struct opgap_export_job *job);
bool export_chrome(struct opgap_export_job *job);
bool export_speedscope(struct opgap_export_job *job);
bool export_collapsed(struct opgap_export_job *job);
bool export_csv(struct opgap_export_job *job);
bool export_sqlite(struct opgap_export_job *job);

#endif
