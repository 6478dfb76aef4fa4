/* Kineto JSON, as torch.profiler writes it: one file a training process (rank), for Holistic Trace Analysis,
 * torch_tb_profiler and every viewer of such files.
 *
 * What the readers ask for (tests/export runs them):
 *   - HTA finds the rank by the text `"rank": N`, rounds fractional times up and down, which can make them negative,
 *     and counts every row with a stream as work on the device.  So points in time are whole microseconds; durations of
 *     device work keep their nanoseconds, those of the host are differences of whole points, so that nesting holds;
 *     synchronisations have stream -1.
 *   - torch_tb_profiler joins a runtime call to its op by "External id" and to device work by "correlation", wants ops
 *     of a thread to nest, steps as ProfilerStep#N, and knows runtime calls as category "Runtime" alone
 *     (job->for_tensorboard; times are then exact).
 * A step that the trace knows by another mark becomes a ProfilerStep#N of the main thread. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "output/export/json_events.h"

#define USER_SCOPE 7u         /* at::RecordScope: record_function and the like */
#define CORRELATIONS 1048576u /* launches whose op is remembered; a power of two */

struct open_op {
  uint64_t end_ns, id;
  double end_us; /* as a reader adds it up */
};

struct thread_state {
  VEC(struct open_op) stack;
  bool named; /* in this file */
};

struct correlation {
  uint64_t correlation, id;
};

#define EXTERNALS 65536u  /* CUDA calls whose external ids are remembered; a power of two */
#define EXTERNAL_KINDS 6u /* CUpti_ExternalCorrelationKind */

struct external {
  uint64_t correlation, ids[EXTERNAL_KINDS];
  uint8_t kinds; /* bits */
};

struct kineto {
  struct json_events out;
  struct opgap_export_job *job;
  const struct opgap_sum_process *process;
  const struct opgap_process_info *info;
  struct opgap_summary *own;           /* of this process alone; NULL: the job's is */
  const struct opgap_sum_steps *steps; /* NULL: none to write */
  size_t next_step;
  uint64_t first_step;  /* number of steps[0] */
  uint64_t step_end_ns; /* of the step written last, */
  double step_end_us;   /* and as a reader adds it up */
  uint32_t main_stream;
  uint64_t ops;
  VEC(struct thread_state) threads; /* by stream */
  struct correlation *correlations;
  struct external *externals; /* NULL: none so far */
  struct opgap_map streams;   /* (device, stream) announced */
  struct opgap_map devices;   /* announced */
};

/* ---- times ---- */

static void put_time(struct kineto *k, const char *key, uint64_t ns)
{
  PUT(k->out.sink, ", \"");
  sink_text(k->out.sink, key);
  PUT(k->out.sink, "\": ");
  if (k->job->for_tensorboard)
    sink_us(k->out.sink, ns);
  else
    sink_number(k->out.sink, ns / 1000);
}

/* Readers add start and duration in double precision.  The sum must not lie behind the end of the op around it, nor
 * behind the next one's start, so a duration may be a nanosecond shorter. */
static uint64_t added_up(uint64_t start_ns, uint64_t end_ns, double limit_us)
{
  double start = (double)start_ns / 1e3, end = (double)end_ns / 1e3;
  uint64_t ns = end_ns > start_ns ? end_ns - start_ns : 0;
  limit_us = end < limit_us ? end : limit_us;
  while (ns > 0 && start + (double)ns / 1e3 > limit_us)
    ns--;
  return ns;
}

/* Returns the end, in microseconds as a reader adds it up. */
static double put_times(struct kineto *k, const struct opgap_span *span, double limit_us)
{
  uint64_t ns = added_up(span->start_ns, span->end_ns, limit_us);
  put_time(k, "ts", span->start_ns);
  PUT(k->out.sink, ", \"dur\": ");
  if (opgap_span_on_device(span->kind))
    sink_us(k->out.sink, span->end_ns - span->start_ns);
  else if (k->job->for_tensorboard)
    sink_us(k->out.sink, ns);
  else
    sink_number(k->out.sink, span->end_ns / 1000 - span->start_ns / 1000);
  return (double)span->start_ns / 1e3 + (double)ns / 1e3;
}

/* ---- files ---- */

static void put_devices(struct kineto *k)
{
  size_t count, listed = 0;
  const struct opgap_gpu_device *devices = opgap_spans_devices(k->job->spans, &count);
  struct sink *sink = k->out.sink;
  PUT(sink, "  \"deviceProperties\": [");
  for (size_t i = 0; i < count; i++) {
    const struct opgap_gpu_device *d = &devices[i];
    if (d->process != k->process->index)
      continue;
    sink_text(sink, listed++ ? ",\n    {\"id\": " : "\n    {\"id\": ");
    sink_number(sink, d->device);
    json_key_text(sink, "name", d->name);
    json_key_number(sink, "totalGlobalMem", d->memory_bytes);
    json_key_number(sink, "computeMajor", d->capability / 10);
    json_key_number(sink, "computeMinor", d->capability % 10);
    json_key_number(sink, "maxThreadsPerMultiprocessor", d->max_threads_sm);
    json_key_number(sink, "numSms", d->sm_count);
    PUT(sink, ", \"warpSize\": 32}");
  }
  PUT(sink, "\n  ],\n");
}

static void put_head(struct kineto *k)
{
  const struct opgap_process_info *info = k->info;
  struct sink *sink = k->out.sink;
  PUT(sink, "{\n  \"schemaVersion\": 1,\n");
  put_devices(k);
  PUT(sink, "  \"distributedInfo\": {\"rank\": ");
  sink_number(sink, info->rank > 0 ? (uint64_t)info->rank : 0);
  PUT(sink, ", \"world_size\": ");
  sink_number(sink, info->world_size > 0 ? (uint64_t)info->world_size : 1);
  PUT(sink, "},\n  \"opgap\": {\"version\": \"" OPGAP_VERSION "\"");
  json_key_text(sink, "host", info->host);
  json_key_signed(sink, "pid", info->pid);
  PUT(sink, "},\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": ");
  sink_signed(sink, export_base_ns(k->job));
  PUT(sink, ",\n  \"traceEvents\": [");
  k->out.first = true;
  json_metadata(&k->out, "process_name", info->pid, 0, "name", info->command, 0);
  json_metadata(&k->out, "process_labels", info->pid, 0, "labels", "CPU", 0);
  json_metadata(&k->out, "process_sort_index", info->pid, 0, "sort_index", NULL, info->pid);
  for (size_t i = 0; i < k->threads.count; i++)
    k->threads.at[i].named = false;
  opgap_map_clear(&k->streams);
  opgap_map_clear(&k->devices);
}

static bool is_folder(const char *path)
{
  struct stat status;
  size_t length = strlen(path);
  return (length > 0 && path[length - 1] == '/') || (stat(path, &status) == 0 && S_ISDIR(status.st_mode));
}

/* Of several processes in one folder each has its rank in its file's name; without ranks, its pid. */
static char *name_of_process(const struct kineto *k, unsigned ranks)
{
  if (ranks <= 1)
    return strdup(k->job->path);
  bool ranked = k->info->rank >= 0;
  return json_part_name(k->job->path, ranked ? "rank" : "pid", (unsigned)(ranked ? k->info->rank : k->info->pid));
}

/* In a folder: the name that torch.profiler's handler gives. */
static char *name_of_file(struct kineto *k, uint64_t start_ns, unsigned ranks)
{
  const char *path = k->job->path;
  char *name = NULL;
  if (is_folder(path)) {
    uint64_t began = start_ns > k->process->start_ns ? start_ns : k->process->start_ns;
    if (asprintf(&name, "%s/%s_%d.%lld.pt.trace.json.gz", path, k->info->host, k->info->pid,
                 (long long)(export_base_ns(k->job) + (int64_t)began)) < 0)
      return NULL;
    return name;
  }
  char *whole = name_of_process(k, ranks);
  if (whole == NULL || k->out.part == 1)
    return whole;
  name = json_part_name(whole, "", k->out.part);
  free(whole);
  return name;
}

static bool begin_file(struct kineto *k, uint64_t start_ns, unsigned ranks)
{
  k->out.part++;
  free(k->out.path);
  k->out.path = name_of_file(k, start_ns, ranks);
  k->out.sink = k->out.path ? export_open(k->job, k->out.path) : NULL;
  if (k->out.sink == NULL)
    return false;
  put_head(k);
  return true;
}

static bool end_file(struct kineto *k)
{
  struct sink *sink = k->out.sink;
  k->out.sink = NULL;
  PUT(sink, "\n  ],\n  \"traceName\": ");
  sink_json_string(sink, k->out.path);
  PUT(sink, "\n}\n");
  return export_finish(k->job, sink, k->out.path);
}

/* ---- rows ---- */

static void name_thread(struct kineto *k, uint32_t stream)
{
  while (k->threads.count <= stream)
    (void)VEC_PUSH(&k->threads);
  if (k->threads.at[stream].named)
    return;
  k->threads.at[stream].named = true;
  int32_t tid = k->info->streams[stream].tid;
  char name[64];
  snprintf(name, sizeof name, "thread %d (%s)", tid, k->info->streams[stream].name);
  json_metadata(&k->out, "thread_name", k->info->pid, tid, "name", name, 0);
  json_metadata(&k->out, "thread_sort_index", k->info->pid, tid, "sort_index", NULL,
                stream == k->main_stream ? 0 : (int64_t)stream + 1);
}

static void name_stream(struct kineto *k, const struct opgap_span *span)
{
  uint32_t *device = opgap_map_put(&k->devices, span->device, 0);
  if (*device == 0) {
    char label[32];
    snprintf(label, sizeof label, "GPU %u", span->device);
    json_metadata(&k->out, "process_name", span->device, 0, "name", k->info->command, 0);
    json_metadata(&k->out, "process_labels", span->device, 0, "labels", label, 0);
    json_metadata(&k->out, "process_sort_index", span->device, 0, "sort_index", NULL, 5000000 + (int64_t)span->device);
  }
  *device = 1;
  uint32_t *stream = opgap_map_put(&k->streams, span->device, span->gpu_stream);
  if (*stream == 0) {
    char name[32];
    snprintf(name, sizeof name, "stream %u", span->gpu_stream);
    json_metadata(&k->out, "thread_name", span->device, span->gpu_stream, "name", name, 0);
    json_metadata(&k->out, "thread_sort_index", span->device, span->gpu_stream, "sort_index", NULL, span->gpu_stream);
  }
  *stream = 1;
}

/* The innermost op open on a thread at `time`; NULL: none. */
static const struct open_op *op_at(struct kineto *k, uint32_t stream, uint64_t time)
{
  while (k->threads.count <= stream)
    (void)VEC_PUSH(&k->threads);
  while (k->threads.at[stream].stack.count > 0 &&
         k->threads.at[stream].stack.at[k->threads.at[stream].stack.count - 1].end_ns <= time)
    k->threads.at[stream].stack.count--;
  size_t open = k->threads.at[stream].stack.count;
  return open > 0 ? &k->threads.at[stream].stack.at[open - 1] : NULL;
}

static struct correlation *correlation_of(struct kineto *k, uint64_t correlation)
{
  if (k->correlations == NULL)
    k->correlations = opgap_xcalloc(CORRELATIONS, sizeof *k->correlations);
  return &k->correlations[correlation & (CORRELATIONS - 1)];
}

/* A row up to its arguments; returns its end as put_times does. */
static double row(struct kineto *k, const struct opgap_span *span, const char *category, int64_t pid, int64_t tid,
                  double limit_us)
{
  json_event(&k->out, "X");
  PUT(k->out.sink, ", \"cat\": \"");
  sink_text(k->out.sink, category);
  sink_char(k->out.sink, '"');
  json_span_name(&k->out, span);
  json_key_signed(k->out.sink, "pid", pid);
  json_key_signed(k->out.sink, "tid", tid);
  double end_us = put_times(k, span, limit_us);
  PUT(k->out.sink, ", \"args\": {");
  return end_us;
}

static void flow(struct kineto *k, const char *phase, const struct opgap_span *span, int64_t pid, int64_t tid)
{
  json_event(&k->out, phase);
  PUT(k->out.sink, ", \"id\": ");
  sink_number(k->out.sink, span->correlation);
  json_key_signed(k->out.sink, "pid", pid);
  json_key_signed(k->out.sink, "tid", tid);
  put_time(k, "ts", span->start_ns);
  if (phase[0] == 'f')
    PUT(k->out.sink, ", \"bp\": \"e\"");
  PUT(k->out.sink, ", \"cat\": \"ac2g\", \"name\": \"ac2g\"}");
}

/* torch_tb_profiler knows DataLoader, optimizer and collectives by their names, as ops, and no other annotation. */
static bool is_op(const struct kineto *k, const struct opgap_span *span)
{
  static const char *const known[] = {"enumerate(DataLoader)#", "enumerate(DataPipe)#", "Optimizer.", "nccl:", "gloo:"};
  if (span->kind == OPGAP_SPAN_OP && span->record->status != USER_SCOPE)
    return true;
  for (size_t i = 0; k->job->for_tensorboard && i < sizeof known / sizeof *known; i++)
    if (strncmp(span->text, known[i], strlen(known[i])) == 0)
      return true;
  return false;
}

/* The end of what is around an op: another op, or a step. */
static double outer_end(struct kineto *k, const struct opgap_span *span)
{
  const struct open_op *outer = op_at(k, span->stream, span->start_ns);
  if (outer != NULL)
    return outer->end_us;
  return span->stream == k->main_stream && span->end_ns <= k->step_end_ns ? k->step_end_us : INFINITY;
}

/* The ids that the program pushed to CUPTI come before the call that they belong to. */
static void note_external(struct kineto *k, const struct opgap_span *span)
{
  uint64_t correlation = 0, id = 0;
  uint32_t kind = span->record->status;
  if (!opgap_span_field(span, "correlation", &correlation) || !opgap_span_field(span, "external_id", &id) ||
      kind >= EXTERNAL_KINDS)
    return;
  if (k->externals == NULL)
    k->externals = opgap_xcalloc(EXTERNALS, sizeof *k->externals);
  struct external *e = &k->externals[correlation & (EXTERNALS - 1)];
  if (e->correlation != correlation)
    *e = (struct external){.correlation = correlation};
  e->kinds |= (uint8_t)(1u << kind);
  e->ids[kind] = id;
}

/* "External id" is the op's number, by which readers join; the program's own ids have keys of their own. */
static void put_external(struct kineto *k, uint64_t correlation)
{
  static const char *const keys[EXTERNAL_KINDS] = {"External id (invalid)", "External id (unknown)",
                                                   "External id (OpenACC)", "External id (custom0)",
                                                   "External id (custom1)", "External id (custom2)"};
  const struct external *e = k->externals ? &k->externals[correlation & (EXTERNALS - 1)] : NULL;
  for (unsigned kind = 0; e != NULL && e->correlation == correlation && kind < EXTERNAL_KINDS; kind++)
    if (e->kinds & 1u << kind)
      json_key_number(k->out.sink, keys[kind], e->ids[kind]);
}

static void put_op(struct kineto *k, const struct opgap_span *span)
{
  static const char *const skip[] = {"name", "sequence", NULL};
  bool op = is_op(k, span), counts = op || !k->job->for_tensorboard;
  name_thread(k, span->stream);
  double end_us =
      row(k, span, op ? "cpu_op" : "user_annotation", k->info->pid, span->tid, counts ? outer_end(k, span) : INFINITY);
  PUT(k->out.sink, "\"External id\": ");
  sink_number(k->out.sink, ++k->ops);
  if (counts)
    *VEC_PUSH(&k->threads.at[span->stream].stack) = (struct open_op){span->end_ns, k->ops, end_us};
  uint64_t sequence;
  if (opgap_span_field(span, "sequence", &sequence) && sequence != 0 && sequence != UINT64_MAX)
    json_key_number(k->out.sink, "Sequence number", sequence);
  if (span->unfinished)
    PUT(k->out.sink, ", \"unfinished\": 1");
  json_fields(&k->out, span, skip);
  PUT(k->out.sink, "}}");
}

static void put_runtime(struct kineto *k, const struct opgap_span *span)
{
  static const char *const skip[] = {"name", "thread", "event", NULL};
  const struct open_op *op = op_at(k, span->stream, span->start_ns);
  uint64_t id = op != NULL ? op->id : 0;
  const char *category = k->job->for_tensorboard               ? "Runtime"
                         : strncmp(span->text, "cuda", 4) != 0 ? "cuda_driver"
                                                               : "cuda_runtime";
  name_thread(k, span->stream);
  row(k, span, category, k->info->pid, span->tid, INFINITY);
  PUT(k->out.sink, "\"External id\": ");
  sink_number(k->out.sink, id);
  if (span->correlation != 0) {
    json_key_number(k->out.sink, "correlation", span->correlation);
    *correlation_of(k, span->correlation) = (struct correlation){span->correlation, id};
    put_external(k, span->correlation);
  }
  json_fields(&k->out, span, skip);
  PUT(k->out.sink, "}}");
  if (span->correlation != 0)
    flow(k, "s", span, k->info->pid, span->tid);
}

static void put_call(struct kineto *k, const struct opgap_span *span)
{
  static const char *const skip[] = {"event", NULL};
  if (strcmp(span->event->category, "cuda") == 0 && span->end_ns > span->start_ns) {
    put_runtime(k, span);
    return;
  }
  if (span->end_ns == span->start_ns) { /* the time of a wake-up or of a call that is counted */
    export_leave_out(k->job, span);
    return;
  }
  name_thread(k, span->stream);
  row(k, span, "os_call", k->info->pid, span->tid, INFINITY);
  PUT(k->out.sink, "\"group\": \"");
  sink_text(k->out.sink, span->event->category);
  sink_char(k->out.sink, '"');
  json_fields(&k->out, span, skip);
  PUT(k->out.sink, "}}");
}

static void put_shape(struct sink *sink, const char *key, const uint32_t extent[3])
{
  PUT(sink, ", \"");
  sink_text(sink, key);
  PUT(sink, "\": [");
  sink_number(sink, extent[0]);
  PUT(sink, ", ");
  sink_number(sink, extent[1]);
  PUT(sink, ", ");
  sink_number(sink, extent[2]);
  sink_char(sink, ']');
}

static void put_kernel(struct kineto *k, const struct opgap_span *span)
{
  const uint64_t *f = span->record->field;
  struct sink *sink = k->out.sink;
  uint32_t grid[3], block[3];
  size_t count;
  const struct opgap_gpu_device *devices = opgap_spans_devices(k->job->spans, &count);
  opgap_extents(f[4], grid);
  opgap_extents(f[5], block);
  if (grid[0] > 0) {
    put_shape(sink, "grid", grid);
    put_shape(sink, "block", block);
  }
  json_key_number(sink, "registers per thread", f[6]);
  json_key_number(sink, "shared memory", f[7]);
  if (f[8] != 0)
    json_key_number(sink, "graph id", f[8]);
  if (f[9] != 0)
    json_key_number(sink, "graph node id", f[9]);
  for (size_t i = 0; i < count; i++)
    if (grid[0] > 0 && devices[i].process == span->process && devices[i].device == span->device &&
        devices[i].sm_count > 0) {
      double blocks = (double)grid[0] * grid[1] * grid[2];
      char figure[48];
      snprintf(figure, sizeof figure, ", \"blocks per SM\": %.6g", blocks / (double)devices[i].sm_count);
      sink_text(sink, figure);
    }
}

static void put_device(struct kineto *k, const struct opgap_span *span)
{
  static const char *const categories[] = {
      [OPGAP_SPAN_KERNEL] = "kernel", [OPGAP_SPAN_MEMCPY] = "gpu_memcpy", [OPGAP_SPAN_MEMSET] = "gpu_memset"};
  const struct correlation *launch = correlation_of(k, span->correlation);
  struct sink *sink = k->out.sink;
  name_stream(k, span);
  row(k, span, categories[span->kind], span->device, span->gpu_stream, INFINITY);
  PUT(sink, "\"External id\": ");
  sink_number(sink, launch->correlation == span->correlation ? launch->id : 0);
  put_external(k, span->correlation);
  json_key_number(sink, "device", span->device);
  json_key_number(sink, "context", span->context);
  json_key_number(sink, "stream", span->gpu_stream);
  json_key_number(sink, "correlation", span->correlation);
  if (span->kind == OPGAP_SPAN_KERNEL) {
    put_kernel(k, span);
  } else {
    char figure[64];
    uint64_t ns = span->end_ns - span->start_ns;
    json_key_number(sink, "bytes", span->bytes);
    if (ns > 0) {
      snprintf(figure, sizeof figure, ", \"memory bandwidth (GB/s)\": %.6g", (double)span->bytes / (double)ns);
      sink_text(sink, figure);
    }
  }
  PUT(sink, "}}");
  flow(k, "f", span, span->device, span->gpu_stream);
}

/* Stream -1: readers that take every row with a stream for work on the device must not take this. */
static void put_sync(struct kineto *k, const struct opgap_span *span)
{
  const struct opgap_process_info *info = k->info;
  row(k, span, "cuda_sync", info->pid, -1, INFINITY);
  PUT(k->out.sink, "\"stream\": -1");
  json_key_number(k->out.sink, "context", span->context);
  json_key_signed(k->out.sink, "waited for stream", (int32_t)span->gpu_stream);
  json_key_number(k->out.sink, "correlation", span->correlation);
  PUT(k->out.sink, "}}");
}

static void put_mark(struct kineto *k, const struct opgap_span *span)
{
  static const char *const skip[] = {NULL};
  json_event(&k->out, "i");
  PUT(k->out.sink, ", \"cat\": \"cpu_instant_event\", \"s\": \"t\"");
  json_span_name(&k->out, span);
  json_key_signed(k->out.sink, "pid", k->info->pid);
  json_key_signed(k->out.sink, "tid", span->tid);
  put_time(k, "ts", span->start_ns);
  PUT(k->out.sink, ", \"args\": {\"depth\": ");
  sink_number(k->out.sink, span->depth);
  json_fields(&k->out, span, skip);
  PUT(k->out.sink, "}}");
}

static void put_memory(struct kineto *k, const struct opgap_span *span)
{
  uint64_t rss;
  if (!opgap_span_field(span, "rss_bytes", &rss))
    return;
  json_event(&k->out, "C");
  PUT(k->out.sink, ", \"name\": \"RSS\"");
  json_key_signed(k->out.sink, "pid", k->info->pid);
  PUT(k->out.sink, ", \"tid\": 0");
  put_time(k, "ts", span->start_ns);
  PUT(k->out.sink, ", \"args\": {\"bytes\": ");
  sink_number(k->out.sink, rss);
  PUT(k->out.sink, "}}");
}

static void put_span(struct kineto *k, const struct opgap_span *span)
{
  switch (span->kind) {
  case OPGAP_SPAN_OP:
  case OPGAP_SPAN_RANGE:
    put_op(k, span);
    break;
  case OPGAP_SPAN_CUDA:
    put_runtime(k, span);
    break;
  case OPGAP_SPAN_CALL:
    put_call(k, span);
    break;
  case OPGAP_SPAN_KERNEL:
  case OPGAP_SPAN_MEMCPY:
  case OPGAP_SPAN_MEMSET:
    put_device(k, span);
    break;
  case OPGAP_SPAN_SYNC:
    put_sync(k, span);
    break;
  case OPGAP_SPAN_MARK:
    if (span->event->id == OPGAP_EV_GPU_EXTERNAL)
      note_external(k, span);
    else
      put_mark(k, span);
    break;
  case OPGAP_SPAN_SAMPLE:
    put_memory(k, span);
    break;
  default: /* overhead, losses, and ranges that do not nest: Kineto has no place for them */
    export_leave_out(k->job, span);
    break;
  }
}

static void put_step(struct kineto *k, size_t step)
{
  static const struct opgap_event event = {.name = "step", .category = "range", .status = ""};
  const struct opgap_sum_steps *steps = k->steps;
  uint64_t end = steps->start_ns[step] + steps->durations_ns[step], from, to;
  opgap_spans_window(k->job->spans, &from, &to);
  if (end <= from || steps->start_ns[step] >= to)
    return;
  struct opgap_record record = {0};
  struct opgap_span span = {.kind = OPGAP_SPAN_RANGE,
                            .stream = k->main_stream,
                            .tid = k->info->pid,
                            .start_ns = steps->start_ns[step],
                            .end_ns = end,
                            .event = &event,
                            .record = &record};
  name_thread(k, k->main_stream);
  json_event(&k->out, "X");
  PUT(k->out.sink, ", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#");
  sink_number(k->out.sink, k->first_step + step);
  sink_char(k->out.sink, '"');
  json_key_signed(k->out.sink, "pid", k->info->pid);
  json_key_signed(k->out.sink, "tid", span.tid);
  k->step_end_ns = span.end_ns;
  k->step_end_us = put_times(k, &span, INFINITY);
  PUT(k->out.sink, ", \"args\": {\"External id\": ");
  sink_number(k->out.sink, ++k->ops);
  PUT(k->out.sink, "}}");
}

/* Steps that began by `time`. */
static void put_steps(struct kineto *k, uint64_t time)
{
  while (k->steps != NULL && k->next_step < k->steps->count && k->steps->start_ns[k->next_step] <= time)
    put_step(k, k->next_step++);
}

/* ---- a process ---- */

static uint32_t main_stream(const struct opgap_process_info *info)
{
  for (unsigned i = 0; i < info->stream_count; i++)
    if (info->streams[i].kind == OPGAP_STREAM_THREAD && info->streams[i].tid == info->pid)
      return i;
  return 0;
}

static bool find_steps(struct kineto *k, unsigned ranks)
{
  const struct opgap_summary *summary = k->job->summary;
  k->first_step = ranks > 1 ? 0 : k->job->first_step;
  if (ranks > 1) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", k->info->pid);
    struct opgap_analysis_options options = {.process = pid};
    k->own = opgap_analyse(k->job->source, &options, k->job->error, sizeof k->job->error);
    if (k->own == NULL)
      return false;
    summary = k->own;
  }
  const struct opgap_sum_steps *steps = &summary->steps;
  if (steps->count > 0 && steps->pid == k->info->pid && strcmp(steps->source, "ProfilerStep") != 0)
    k->steps = steps;
  return true;
}

static bool write_spans(struct kineto *k, unsigned ranks)
{
  const struct opgap_span *span;
  if (!begin_file(k, 0, ranks))
    return false;
  while ((span = export_next(k->job)) != NULL && k->out.sink->error == 0) {
    bool in_order = opgap_span_in_order(span->kind);
    if (in_order && json_full(&k->out) && (!end_file(k) || !begin_file(k, span->start_ns, ranks)))
      return false;
    if (in_order)
      put_steps(k, span->start_ns);
    put_span(k, span);
  }
  put_steps(k, UINT64_MAX);
  return end_file(k);
}

static void close_process(struct kineto *k)
{
  if (k->out.sink != NULL)
    sink_abandon(k->out.sink);
  for (size_t i = 0; i < k->threads.count; i++)
    VEC_FREE(&k->threads.at[i].stack);
  VEC_FREE(&k->threads);
  opgap_map_free(&k->streams);
  opgap_map_free(&k->devices);
  opgap_summary_free(k->own);
  free(k->correlations);
  free(k->externals);
  json_close(&k->out);
}

static bool write_process(struct opgap_export_job *job, const struct opgap_sum_process *process, unsigned ranks)
{
  struct kineto k = {.out = {.job = job}, .job = job, .process = process};
  k.info = opgap_spans_process_info(job->spans, process->index);
  k.main_stream = main_stream(k.info);
  opgap_spans_select(job->spans, process->index, OPGAP_ALL);
  bool done = find_steps(&k, ranks) && write_spans(&k, ranks);
  close_process(&k);
  return done;
}

/* Trainers; where nothing trains, all that is kept. */
static bool is_wanted(const struct opgap_summary *s, const struct opgap_sum_process *process)
{
  bool trainers = false;
  for (size_t i = 0; i < s->process_count; i++)
    trainers = trainers || s->processes[i].role == OPGAP_ROLE_TRAINER;
  return !trainers || process->role == OPGAP_ROLE_TRAINER;
}

bool export_kineto(struct opgap_export_job *job)
{
  const struct opgap_summary *s = job->summary;
  unsigned count = 0;
  for (size_t i = 0; i < s->process_count; i++)
    count += is_wanted(s, &s->processes[i]);
  if (count > 1 && strcmp(job->path, "-") == 0) {
    snprintf(job->error, sizeof job->error,
             "Kineto has one file a training process and this trace has %u: give a folder (-o FOLDER/), or choose one "
             "by --process",
             count);
    return false;
  }
  size_t length = strlen(job->path);
  if (job->path[length - 1] == '/' && mkdir(job->path, 0777) != 0 && errno != EEXIST) {
    snprintf(job->error, sizeof job->error, "cannot make %s: %s", job->path, strerror(errno));
    return false;
  }
  for (size_t i = 0; i < s->process_count; i++) {
    if (is_wanted(s, &s->processes[i])) {
      if (!write_process(job, &s->processes[i], count))
        return false;
      continue;
    }
    opgap_spans_select(job->spans, s->processes[i].index, OPGAP_ALL);
    export_leave_out_all(job);
  }
  return true;
}
