/* The table of formats, and what they share. */
#include "output/export/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct opgap_export_format opgap_export_formats[] = {
    {"kineto", ".pt.trace.json.gz", "torch.profiler's JSON: HTA, TensorBoard, Perfetto", export_kineto, true, true,
     "other processes than the trainers, ranges that need not nest, calls of which only the time is known, and CUPTI's "
     "overhead"},
    {"perfetto", ".pftrace", "Perfetto's protobuf: all processes, overlaps, flows, counters", export_perfetto, true,
     false, NULL},
    {"chrome", ".json.gz", "chrome://tracing's JSON: all processes", export_chrome, true, false, NULL},
    {"speedscope", ".speedscope.json", "flame charts of each thread for speedscope", export_speedscope, true, false,
     "work on the GPU, ranges that need not nest, and calls of which only the time is known"},
    {"collapsed", ".folded", "collapsed stacks for any flame graph tool", export_collapsed, true, false,
     "CUDA calls that CUPTI saw, synchronisations, ranges that need not nest, and calls of which only the time is "
     "known"},
    {"csv", ".csv", "a table of all spans", export_csv, true, false, NULL},
    {"sqlite", ".sqlite", "a database: all spans, the report's tables, views", export_sqlite, false, false, NULL},
};
const size_t opgap_export_format_count = sizeof opgap_export_formats / sizeof *opgap_export_formats;

const struct opgap_export_format *opgap_export_find(const char *name)
{
  for (size_t i = 0; i < opgap_export_format_count; i++)
    if (strcmp(opgap_export_formats[i].name, name) == 0)
      return &opgap_export_formats[i];
  return NULL;
}

#define PROGRESS_EVERY 65536u

static bool is_point(const struct opgap_span *span)
{
  return span->kind == OPGAP_SPAN_MARK || span->kind == OPGAP_SPAN_SAMPLE || span->kind == OPGAP_SPAN_LOST;
}

const struct opgap_span *export_next(struct opgap_export_job *job)
{
  const struct opgap_span *span = opgap_spans_next(job->spans);
  if (span == NULL)
    return NULL;
  ++*(is_point(span) ? &job->point_count : &job->span_count);
  if ((job->span_count + job->point_count) % PROGRESS_EVERY == 1 && job->progress != NULL) {
    uint64_t done, total;
    opgap_spans_progress(job->spans, &done, &total);
    job->progress(job->progress_context, done, total);
  }
  return span;
}

void export_leave_out(struct opgap_export_job *job, const struct opgap_span *span)
{
  job->left_out += !is_point(span);
}

void export_leave_out_all(struct opgap_export_job *job)
{
  const struct opgap_span *span;
  while ((span = export_next(job)) != NULL)
    export_leave_out(job, span);
}

static void say(struct opgap_export_job *job, const char *path, int error)
{
  snprintf(job->error, sizeof job->error, "cannot write %s: %s", strcmp(path, "-") == 0 ? "to stdout" : path,
           strerror(error));
}

struct sink *export_open(struct opgap_export_job *job, const char *path)
{
  struct sink *sink = sink_open(path);
  if (sink == NULL)
    say(job, path, errno);
  return sink;
}

bool export_finish(struct opgap_export_job *job, struct sink *sink, const char *path)
{
  int error = sink_finish(sink);
  if (error != 0)
    say(job, path, error);
  job->files_written += error == 0;
  return error == 0;
}

const char *export_process_name(const struct opgap_export_job *job, uint32_t process)
{
  const struct opgap_sum_process *row = opgap_spans_process(job->spans, process);
  return row != NULL ? row->role_label : "";
}

int64_t export_base_ns(const struct opgap_export_job *job)
{
  return job->summary->start_realtime_ns;
}
