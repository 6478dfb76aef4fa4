/* Runs from traces: reads the streams of the process whose steps count a second time, now that its steps are known, and
 * adds each record to the step in which it ended. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ahead.h"
#include "analysis/baseline.h"
#include "analysis/gpu_calls.h"
#include "analysis/internal.h"
#include "analysis/text.h"
#include "format/losses.h"

static const struct opgap_metric_info metrics[OPGAP_METRIC_COUNT] = {
    [OPGAP_METRIC_STEP] = {"step", "time of a step", OPGAP_UNIT_NS, false, true},
    [OPGAP_METRIC_DATA_WAIT] = {"data_wait", "waiting for the DataLoader", OPGAP_UNIT_NS, false, false},
    [OPGAP_METRIC_BLOCKED] = {"blocked", "main thread in blocking calls", OPGAP_UNIT_NS, false, false},
    [OPGAP_METRIC_FILE_TIME] = {"file_time", "in calls on files", OPGAP_UNIT_NS, false, false},
    [OPGAP_METRIC_GPU_BUSY] = {"gpu_busy", "kernels and copies", OPGAP_UNIT_NS, false, false},
    [OPGAP_METRIC_OPS] = {"ops", "framework ops and ranges", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_LAUNCHES] = {"launches", "kernels and graphs launched", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_KERNELS] = {"kernels", "kernels of these", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_SYNCS] = {"syncs", "waits for the GPU", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_GPU_COPIES] = {"gpu_copies", "copies asked of the GPU", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_GPU_COPY_BYTES] = {"gpu_copy_bytes", "bytes of these", OPGAP_UNIT_BYTES, true, true},
    [OPGAP_METRIC_H2D_BYTES] = {"h2d_bytes", "of these from the host", OPGAP_UNIT_BYTES, true, true},
    [OPGAP_METRIC_D2H_BYTES] = {"d2h_bytes", "of these to the host", OPGAP_UNIT_BYTES, true, true},
    [OPGAP_METRIC_D2D_BYTES] = {"d2d_bytes", "of these between devices or inside one", OPGAP_UNIT_BYTES, true, true},
    [OPGAP_METRIC_GPU_ALLOCATIONS] = {"gpu_allocations", "device memory asked of CUDA", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_ALLOCATIONS] = {"allocations", "host allocations inside ops", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_ALLOC_BYTES] = {"alloc_bytes", "bytes of these", OPGAP_UNIT_BYTES, true, true},
    [OPGAP_METRIC_OPENS] = {"opens", "files opened", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_READS] = {"reads", "reads of files", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_READ_BYTES] = {"read_bytes", "bytes of these", OPGAP_UNIT_BYTES, true, true},
    [OPGAP_METRIC_WRITES] = {"writes", "writes to files", OPGAP_UNIT_COUNT, true, true},
    [OPGAP_METRIC_WRITTEN_BYTES] = {"written_bytes", "bytes of these", OPGAP_UNIT_BYTES, true, true},
};

const struct opgap_metric_info *opgap_metric_info(enum opgap_metric metric)
{
  return &metrics[metric];
}

enum opgap_metric opgap_metric_find(const char *name)
{
  int m = 0;
  while (m < OPGAP_METRIC_COUNT && strcmp(metrics[m].name, name) != 0)
    m++;
  return (enum opgap_metric)m;
}

struct opgap_runs *opgap_runs_new(void)
{
  struct opgap_pool *pool = opgap_pool_new();
  struct opgap_runs *runs = opgap_pool_alloc(pool, sizeof *runs);
  runs->pool = pool;
  runs->label = runs->command = "";
  runs->step_source = "none";
  runs->runs = opgap_pool_alloc(pool, OPGAP_RUNS_MOST * sizeof *runs->runs);
  return runs;
}

void opgap_runs_free(struct opgap_runs *runs)
{
  if (runs != NULL)
    opgap_pool_free(runs->pool);
}

const char *opgap_runs_info(const struct opgap_runs *runs, const char *key)
{
  for (size_t i = 0; i < runs->info_count; i++)
    if (strcmp(runs->info_keys[i], key) == 0)
      return runs->info_values[i];
  return NULL;
}

const struct opgap_figure *opgap_run_figure(const struct opgap_run *run, const char *name)
{
  for (size_t i = 0; i < run->figure_count; i++)
    if (strcmp(run->figures[i].name, name) == 0)
      return &run->figures[i];
  return NULL;
}

/* ---- reading one run ---- */

/* What stands directly inside the op that will end next at the level above, and has been given to no op yet. */
struct inside {
  uint64_t child_ns, allocs, alloc_bytes;
  uint64_t sum[OPGAP_METRIC_COUNT]; /* of hooked calls */
};

enum row_kind { ROW_OP, ROW_RANGE, ROW_FILE, ROW_KERNEL, ROW_COPY, ROW_OUTSIDE, ROW_KINDS };
static const char *const row_kinds[ROW_KINDS] = {"op", "range", "file", "kernel", "copy", "code"};

struct reading {
  const struct opgap_source *source;
  const struct opgap_summary *summary;
  struct opgap_runs *runs;
  struct opgap_run *run;
  unsigned process;
  uint64_t *starts, *ends;            /* of the steps kept, CLOCK_MONOTONIC */
  uint64_t typical_low, typical_high; /* step times between which a step is typical */
  uint8_t verbs[OPGAP_MAX_EVENTS];
  bool main_thread;
  uint32_t tid, pthread; /* of the stream being read; pthread: the low half of pthread_self() */
  struct gpu_calls *calls;
  struct inside levels[257];
  unsigned deepest;
  struct opgap_strings names;
  struct opgap_map index; /* (kind, name) -> row + 1 */
  VEC(struct opgap_row) rows;
  uint64_t main_self_ns; /* of ops of the main thread inside typical steps */
};

static struct opgap_row *row_by_name(struct reading *g, enum row_kind kind, const char *name, size_t length)
{
  static const char other[] = "(others)";
  uint32_t id = opgap_strings_id(&g->names, name, length);
  if (opgap_map_get(&g->index, kind, id) == 0 && g->rows.count >= OPGAP_RUNS_ROWS - ROW_KINDS) {
    g->runs->rows_left_out = true;
    id = opgap_strings_id(&g->names, other, sizeof other - 1);
  }
  uint32_t *index = opgap_map_put(&g->index, kind, id);
  if (*index == 0) {
    struct opgap_row *row = VEC_PUSH(&g->rows);
    row->kind = row_kinds[kind];
    row->name = opgap_strings_text(&g->names, id);
    *index = (uint32_t)g->rows.count;
  }
  return &g->rows.at[*index - 1];
}

/* ProfilerStep#1, ProfilerStep#2, ... are one op, as in the report. */
static struct opgap_row *row_of(struct reading *g, enum row_kind kind, uint64_t name_id)
{
  size_t length = 0;
  const char *name = g->source->name(g->source->context, g->process, name_id, &length);
  if (strncmp(name, "ProfilerStep#", 13) == 0)
    return row_by_name(g, kind, "ProfilerStep*", 13);
  return row_by_name(g, kind, name, length);
}

/* Index of the step in which a time lies, or steps when in none. */
static size_t step_of(const struct reading *g, uint64_t end)
{
  size_t low = 0, high = g->run->steps;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (g->ends[middle] < end)
      low = middle + 1;
    else
      high = middle;
  }
  return low < g->run->steps && end > g->starts[low] ? low : g->run->steps;
}

static bool is_typical(const struct reading *g, size_t step)
{
  uint64_t ns = g->run->samples[OPGAP_METRIC_STEP][step];
  return ns >= g->typical_low && ns <= g->typical_high;
}

/* Adds to a row; times of typical steps only (invariant 3 of baseline.h). */
static void add_to(const struct reading *g, uint64_t *sums, size_t step, enum opgap_metric metric, uint64_t value)
{
  if (metrics[metric].unit != OPGAP_UNIT_NS || is_typical(g, step))
    sums[metric] += value;
}

static void count(struct reading *g, size_t step, enum opgap_metric metric, uint64_t value)
{
  g->run->samples[metric][step] += value;
}

static struct inside take_inside(struct reading *g, unsigned depth)
{
  struct inside all = {0};
  for (unsigned d = depth + 1; d <= g->deepest; d++) {
    struct inside *level = &g->levels[d];
    all.child_ns += level->child_ns;
    all.allocs += level->allocs;
    all.alloc_bytes += level->alloc_bytes;
    for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
      all.sum[m] += level->sum[m];
    *level = (struct inside){0};
  }
  if (g->deepest > depth)
    g->deepest = depth;
  return all;
}

static struct inside *level_at(struct reading *g, unsigned depth)
{
  if (depth > g->deepest)
    g->deepest = depth;
  return &g->levels[depth];
}

static uint64_t less(uint64_t all, uint64_t part)
{
  return all > part ? all - part : 0;
}

static bool is_fetch(struct reading *g, uint64_t name_id)
{
  size_t length = 0;
  const char *name = g->source->name(g->source->context, g->process, name_id, &length);
  return strncmp(name, "enumerate(DataLoader)#", 22) == 0;
}

static bool has(const char *text, const char *part)
{
  return strstr(text, part) != NULL;
}

/* What a CUDA call is counted as; `bytes` of a copy. */
static void cuda_amounts(const char *name, uint64_t bytes, uint64_t amounts[OPGAP_METRIC_COUNT])
{
  if (has(name, "Launch") && !has(name, "HostFunc"))
    amounts[OPGAP_METRIC_LAUNCHES] = 1;
  else if (has(name, "Synchronize"))
    amounts[OPGAP_METRIC_SYNCS] = 1;
  else if (has(name, "Memcpy")) {
    amounts[OPGAP_METRIC_GPU_COPIES] = 1;
    amounts[OPGAP_METRIC_GPU_COPY_BYTES] = bytes;
  } else if (has(name, "Malloc") || has(name, "MemAlloc") || has(name, "HostAlloc"))
    amounts[OPGAP_METRIC_GPU_ALLOCATIONS] = 1;
}

/* A call that CUPTI reported, with what it started: into its step, and into the row of the op around it. */
static void count_gpu_call(struct reading *g, struct gpu_traced_call *call, struct opgap_row *row)
{
  uint64_t amounts[OPGAP_METRIC_COUNT] = {0};
  size_t step = step_of(g, call->end_ns);
  call->taken = true;
  if (step == g->run->steps)
    return;
  cuda_amounts(call->name, call->copies_bytes[GPU_H2D] + call->copies_bytes[GPU_D2H] + call->copies_bytes[GPU_D2D],
               amounts);
  amounts[OPGAP_METRIC_KERNELS] = call->kernels;
  amounts[OPGAP_METRIC_H2D_BYTES] = call->copies_bytes[GPU_H2D];
  amounts[OPGAP_METRIC_D2H_BYTES] = call->copies_bytes[GPU_D2H];
  amounts[OPGAP_METRIC_D2D_BYTES] = call->copies_bytes[GPU_D2D];
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    if (amounts[m] > 0) {
      row->sum[m] += amounts[m];
      count(g, step, (enum opgap_metric)m, amounts[m]);
    }
}

/* The calls made inside an op and not inside an op in it: those ended before it. */
static void take_gpu_calls(struct reading *g, const struct opgap_record *r, struct opgap_row *row)
{
  size_t first, last = gpu_calls_inside(g->calls, g->tid, g->pthread, r->start_ns, r->end_ns, &first);
  for (; first < last; first++)
    if (!gpu_calls_at(g->calls, first)->taken)
      count_gpu_call(g, gpu_calls_at(g->calls, first), row);
}

static void add_op(struct reading *g, const struct opgap_record *r)
{
  uint64_t ns = less(r->end_ns, r->start_ns);
  struct inside inside = take_inside(g, r->depth);
  struct inside *level = level_at(g, r->depth);
  level->child_ns += ns;
  level->allocs += r->field[2];
  level->alloc_bytes += r->field[3];
  size_t step = step_of(g, r->end_ns);
  struct opgap_row *row = row_of(g, r->event == OPGAP_EV_RANGE ? ROW_RANGE : ROW_OP, r->field[0]);
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    row->sum[m] += inside.sum[m];
  take_gpu_calls(g, r, row);
  if (step == g->run->steps)
    return;
  row->calls++;
  row->sum[OPGAP_METRIC_OPS]++;
  count(g, step, OPGAP_METRIC_OPS, 1);
  if (r->start_ns < g->starts[step]) /* it spans steps: its own time and allocations belong to no single one */
    return;
  uint64_t self = less(ns, inside.child_ns), allocs = less(r->field[2], inside.allocs);
  uint64_t bytes = less(r->field[3], inside.alloc_bytes);
  add_to(g, row->sum, step, OPGAP_METRIC_STEP, self);
  row->sum[OPGAP_METRIC_ALLOCATIONS] += allocs;
  row->sum[OPGAP_METRIC_ALLOC_BYTES] += bytes;
  count(g, step, OPGAP_METRIC_ALLOCATIONS, allocs);
  count(g, step, OPGAP_METRIC_ALLOC_BYTES, bytes);
  if (!g->main_thread)
    return;
  g->main_self_ns += is_typical(g, step) ? self : 0;
  if (is_fetch(g, r->field[0])) {
    add_to(g, row->sum, step, OPGAP_METRIC_DATA_WAIT, ns);
    count(g, step, OPGAP_METRIC_DATA_WAIT, ns);
  }
}

/* Adds to the step, and to the op that the call is directly inside. */
static void count_call(struct reading *g, const struct opgap_record *r, size_t step, enum opgap_metric metric,
                       uint64_t value)
{
  count(g, step, metric, value);
  add_to(g, level_at(g, r->depth)->sum, step, metric, value);
}

static void add_cuda(struct reading *g, const char *name, const struct opgap_record *r, size_t step, uint64_t bytes)
{
  uint64_t amounts[OPGAP_METRIC_COUNT] = {0};
  cuda_amounts(name, bytes, amounts);
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    if (amounts[m] > 0)
      count_call(g, r, step, (enum opgap_metric)m, amounts[m]);
}

static void add_file_call(struct reading *g, enum verb verb, const struct opgap_record *r, size_t step,
                          const char *path, size_t length)
{
  static const struct {
    enum verb verb;
    enum opgap_metric calls, bytes; /* bytes: OPGAP_METRIC_COUNT when the call moves none */
  } kinds[] = {{VERB_READ, OPGAP_METRIC_READS, OPGAP_METRIC_READ_BYTES},
               {VERB_WRITE, OPGAP_METRIC_WRITES, OPGAP_METRIC_WRITTEN_BYTES},
               {VERB_OPEN, OPGAP_METRIC_OPENS, OPGAP_METRIC_COUNT}};
  struct opgap_row *row = row_by_name(g, ROW_FILE, path, length);
  uint64_t ns = r->end_ns - r->start_ns;
  row->calls++;
  add_to(g, row->sum, step, OPGAP_METRIC_FILE_TIME, ns);
  count(g, step, OPGAP_METRIC_FILE_TIME, ns);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (kinds[i].verb != verb)
      continue;
    row->sum[kinds[i].calls]++;
    count_call(g, r, step, kinds[i].calls, 1);
    if (kinds[i].bytes != OPGAP_METRIC_COUNT && r->status == 0) {
      row->sum[kinds[i].bytes] += r->field[1];
      count_call(g, r, step, kinds[i].bytes, r->field[1]);
    }
  }
}

static void add_call(struct reading *g, const struct opgap_event *event, const struct opgap_record *r)
{
  size_t step = step_of(g, r->end_ns);
  if (step == g->run->steps || r->end_ns < r->start_ns)
    return;
  enum verb verb = (enum verb)g->verbs[event->id];
  size_t length = 0;
  const char *object = event->flags & OPGAP_EVENT_OBJECT_NAME
                           ? g->source->name(g->source->context, g->process, r->field[0], &length)
                           : "";
  if (g->main_thread && hooks_block(event->flags, verb, object[0] == '/'))
    count_call(g, r, step, OPGAP_METRIC_BLOCKED, r->end_ns - r->start_ns);
  if (strncmp(event->category, "cuda", 4) == 0)
    add_cuda(g, event->name, r, step, r->field[1]);
  else if (object[0] == '/')
    add_file_call(g, verb, r, step, object, length);
}

/* The device's time belongs to the step in which it was spent, the work to the step that asked for it, where that is
 * known. */
static void add_activity(struct reading *g, const struct opgap_record *r)
{
  bool kernel = r->event == OPGAP_EV_KERNEL;
  const struct gpu_traced_call *call = gpu_calls_find(g->calls, r->status);
  size_t step = step_of(g, r->end_ns), asked = call ? step_of(g, call->end_ns) : step;
  if (step == g->run->steps && asked == g->run->steps)
    return;
  const char *copy = kernel ? "" : gpu_copy_name(r->field[4]);
  struct opgap_row *row = kernel ? row_of(g, ROW_KERNEL, r->field[0]) : row_by_name(g, ROW_COPY, copy, strlen(copy));
  if (step < g->run->steps) {
    uint64_t ns = less(r->end_ns, r->start_ns);
    add_to(g, row->sum, step, OPGAP_METRIC_GPU_BUSY, ns);
    count(g, step, OPGAP_METRIC_GPU_BUSY, ns);
  }
  if (asked == g->run->steps)
    return;
  row->calls++;
  if (kernel) {
    row->sum[OPGAP_METRIC_KERNELS]++;
    if (call == NULL)
      count(g, asked, OPGAP_METRIC_KERNELS, 1);
  } else {
    static const enum opgap_metric of_direction[GPU_DIRECTIONS] = {
        [GPU_H2D] = OPGAP_METRIC_H2D_BYTES, [GPU_D2H] = OPGAP_METRIC_D2H_BYTES, [GPU_D2D] = OPGAP_METRIC_D2D_BYTES};
    row->sum[OPGAP_METRIC_GPU_COPIES]++;
    row->sum[OPGAP_METRIC_GPU_COPY_BYTES] += r->field[0];
    row->sum[of_direction[gpu_direction(r->field[4])]] += r->field[0];
  }
}

static void add_record(struct reading *g, const struct opgap_record *r)
{
  if (r->event == OPGAP_EV_OP || r->event == OPGAP_EV_RANGE) {
    add_op(g, r);
  } else if (r->event == OPGAP_EV_KERNEL || r->event == OPGAP_EV_GPU_MEMCPY) {
    add_activity(g, r);
  } else if (r->event == OPGAP_EV_THREAD_START) {
    g->pthread = (uint32_t)r->field[0];
  } else if (r->event >= OPGAP_FIRST_HOOK) {
    const struct opgap_event *event = g->source->event(g->source->context, g->process, r->event);
    if (event != NULL && event->kind == OPGAP_SPAN && event->flags & OPGAP_EVENT_HOOK)
      add_call(g, event, r);
  }
}

static struct opgap_row *outside_row(struct reading *g)
{
  return row_by_name(g, ROW_OUTSIDE, "outside ops", 11);
}

static void begin_stream(struct reading *g, const struct opgap_stream_info *stream, int32_t pid)
{
  g->tid = (uint32_t)stream->tid;
  g->pthread = 0;
  g->main_thread = stream->kind == OPGAP_STREAM_THREAD && stream->tid == pid;
}

/* What is in no op. */
static void end_stream(struct reading *g)
{
  struct inside rest = take_inside(g, 0);
  struct opgap_row *row = outside_row(g);
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    row->sum[m] += rest.sum[m] + g->levels[0].sum[m];
  g->levels[0] = (struct inside){0};
}

static void read_streams(struct reading *g)
{
  const struct opgap_process_info *info = g->source->process(g->source->context, g->process);
  for (unsigned id = 0; id < OPGAP_MAX_EVENTS; id++) {
    const struct opgap_event *event = g->source->event(g->source->context, g->process, id);
    if (event != NULL && event->flags & OPGAP_EVENT_HOOK)
      g->verbs[id] = (uint8_t)hooks_verb(event);
  }
  g->calls = gpu_calls_read(g->source, g->process, g->starts[0], g->ends[g->run->steps - 1]);
  struct ahead_streams *streams = ahead_streams_begin(g->source, g->process);
  const struct opgap_record *records;
  size_t now = SIZE_MAX, stream;
  for (size_t count; (count = ahead_streams_next(streams, &stream, &records)) > 0; now = stream) {
    if (stream != now && now != SIZE_MAX)
      end_stream(g);
    if (stream != now)
      begin_stream(g, &info->streams[stream], info->pid);
    for (size_t i = 0; i < count; i++)
      add_record(g, &records[i]);
  }
  end_stream(g);
  ahead_streams_end(streams);
  for (size_t i = 0; i < gpu_calls_count(g->calls); i++)
    if (!gpu_calls_at(g->calls, i)->taken)
      count_gpu_call(g, gpu_calls_at(g->calls, i), outside_row(g));
  gpu_calls_free(g->calls);
}

/* ---- the run as a whole ---- */

static void set_steps(struct reading *g)
{
  const struct opgap_sum_steps *steps = &g->summary->steps;
  struct opgap_run *run = g->run;
  size_t kept = steps->count - steps->skipped;
  run->steps_found = steps->count;
  run->skipped = steps->skipped;
  run->steps = kept < OPGAP_RUNS_STEPS ? kept : OPGAP_RUNS_STEPS;
  g->starts = opgap_xcalloc(run->steps + 1, sizeof *g->starts);
  g->ends = opgap_xcalloc(run->steps + 1, sizeof *g->ends);
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    run->samples[m] = opgap_pool_alloc(g->runs->pool, (run->steps + 1) * sizeof(uint64_t));
  for (size_t i = 0; i < run->steps; i++) {
    g->starts[i] = g->summary->start_ns + steps->start_ns[steps->skipped + i];
    g->ends[i] = g->starts[i] + steps->durations_ns[steps->skipped + i];
    run->samples[OPGAP_METRIC_STEP][i] = steps->durations_ns[steps->skipped + i];
  }
}

static void find_typical(struct reading *g)
{
  struct opgap_run *run = g->run;
  uint64_t *sorted = opgap_xcalloc(run->steps + 1, sizeof *sorted);
  memcpy(sorted, run->samples[OPGAP_METRIC_STEP], run->steps * sizeof *sorted);
  stats_sort(sorted, run->steps);
  g->typical_low = run->steps ? stats_percentile(sorted, run->steps, 0.25) : 0;
  g->typical_high = run->steps ? stats_percentile(sorted, run->steps, 0.75) : 0;
  free(sorted);
  for (size_t i = 0; i < run->steps; i++)
    run->typical_steps += is_typical(g, i);
}

/* A metric that no kind of record in this trace can feed is unknown, not 0. */
static void drop_unknown(struct reading *g)
{
  const struct opgap_summary *s = g->summary;
  bool cuda = s->has_gpu, ops = false;
  for (size_t i = 0; i < s->call_count; i++)
    cuda = cuda || strncmp(s->calls[i].category, "cuda", 4) == 0;
  for (size_t i = 0; i < s->op_count; i++)
    ops = ops || s->ops[i].kind == OPGAP_OP_TORCH || s->ops[i].kind == OPGAP_OP_RANGE;
  static const enum opgap_metric of_cuda[] = {OPGAP_METRIC_LAUNCHES, OPGAP_METRIC_SYNCS, OPGAP_METRIC_GPU_COPIES,
                                              OPGAP_METRIC_GPU_COPY_BYTES, OPGAP_METRIC_GPU_ALLOCATIONS};
  static const enum opgap_metric of_gpu[] = {OPGAP_METRIC_GPU_BUSY, OPGAP_METRIC_KERNELS, OPGAP_METRIC_H2D_BYTES,
                                             OPGAP_METRIC_D2H_BYTES, OPGAP_METRIC_D2D_BYTES};
  static const enum opgap_metric of_ops[] = {OPGAP_METRIC_OPS, OPGAP_METRIC_ALLOCATIONS, OPGAP_METRIC_ALLOC_BYTES,
                                             OPGAP_METRIC_DATA_WAIT};
  for (size_t i = 0; !cuda && i < sizeof of_cuda / sizeof *of_cuda; i++)
    g->run->samples[of_cuda[i]] = NULL;
  for (size_t i = 0; !s->has_gpu && i < sizeof of_gpu / sizeof *of_gpu; i++)
    g->run->samples[of_gpu[i]] = NULL;
  for (size_t i = 0; !ops && i < sizeof of_ops / sizeof *of_ops; i++)
    g->run->samples[of_ops[i]] = NULL;
}

static void figure(struct reading *g, enum opgap_unit unit, bool counter, double value, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void figure(struct reading *g, enum opgap_unit unit, bool counter, double value, const char *format, ...)
{
  struct opgap_run *run = g->run;
  char name[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  run->figures[run->figure_count++] =
      (struct opgap_figure){opgap_pool_string(g->runs->pool, name), unit, counter, value};
}

static void add_causes(struct reading *g, const char *prefix, const struct opgap_sum_cause *causes, size_t count_,
                       double steps)
{
  double by_cause[OPGAP_CAUSE_COUNT] = {0}, all = 0;
  for (size_t i = 0; i < count_; i++) {
    by_cause[causes[i].cause] += (double)causes[i].ns;
    all += (double)causes[i].ns;
  }
  figure(g, OPGAP_UNIT_NS, false, all / steps, "%s", prefix);
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    if (by_cause[c] > 0)
      figure(g, OPGAP_UNIT_NS, false, by_cause[c] / steps, "%s.%s", prefix, opgap_cause_name((enum opgap_cause)c));
}

/* Figures of a run by name; add_figures gives their values in this order.  Besides: PREFIX and PREFIX.CAUSE of the idle
 * time by cause, breakdown.CLASS. */
enum whole_run {
  RUN_ALLOCATIONS,
  RUN_ALLOC_BYTES,
  RUN_COPIES,
  RUN_COPY_BYTES,
  RUN_READS,
  RUN_READ_BYTES,
  RUN_WRITES,
  RUN_WRITTEN_BYTES,
  RUN_PEAK_RSS,
  RUN_PEAK_BYTES,
  RUN_DURATION,
  RUN_COUNT
};
static const struct {
  const char *name;
  enum opgap_unit unit;
  bool counter;
} whole_run[RUN_COUNT] = {
    [RUN_ALLOCATIONS] = {"run.allocations", OPGAP_UNIT_COUNT, true},
    [RUN_ALLOC_BYTES] = {"run.alloc_bytes", OPGAP_UNIT_BYTES, true},
    [RUN_COPIES] = {"run.copies", OPGAP_UNIT_COUNT, true},
    [RUN_COPY_BYTES] = {"run.copy_bytes", OPGAP_UNIT_BYTES, true},
    [RUN_READS] = {"run.reads", OPGAP_UNIT_COUNT, true},
    [RUN_READ_BYTES] = {"run.read_bytes", OPGAP_UNIT_BYTES, true},
    [RUN_WRITES] = {"run.writes", OPGAP_UNIT_COUNT, true},
    [RUN_WRITTEN_BYTES] = {"run.written_bytes", OPGAP_UNIT_BYTES, true},
    [RUN_PEAK_RSS] = {"peak_rss", OPGAP_UNIT_BYTES, false},
    [RUN_PEAK_BYTES] = {"peak_bytes", OPGAP_UNIT_BYTES, false},
    [RUN_DURATION] = {"duration", OPGAP_UNIT_NS, false},
};
#define IDLE_GPU "gpu_idle"
#define IDLE_THREAD "thread_idle"
#define BREAKDOWN "breakdown"
#define GPU_HELD_DOWN "gpu_held_down" /* share of the samples in which something held a GPU's clocks down */

const char *opgap_figure_idle(const char *name)
{
  static const char *const wholes[] = {IDLE_GPU, IDLE_THREAD};
  size_t length = strcspn(name, ".");
  for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
    if (length == strlen(wholes[i]) && strncmp(name, wholes[i], length) == 0)
      return wholes[i];
  return NULL;
}

bool opgap_figure_exists(const char *name)
{
  for (int f = 0; f < RUN_COUNT; f++)
    if (strcmp(whole_run[f].name, name) == 0)
      return true;
  if (strcmp(name, GPU_HELD_DOWN) == 0)
    return true;
  const char *part = strchr(name, '.');
  size_t length = part ? (size_t)(part++ - name) : strlen(name);
  bool idle = opgap_figure_idle(name) != NULL;
  if (part == NULL)
    return idle;
  for (int c = 0; idle && c < OPGAP_CAUSE_COUNT; c++)
    if (strcmp(part, opgap_cause_name((enum opgap_cause)c)) == 0)
      return true;
  for (int c = 0; length == strlen(BREAKDOWN) && strncmp(name, BREAKDOWN, length) == 0 && c < OPGAP_CLASS_COUNT; c++)
    if (strcmp(part, opgap_class_name((enum opgap_class)c)) == 0)
      return true;
  return false;
}

const char *opgap_figure_listed(size_t index)
{
  return index < RUN_COUNT ? whole_run[index].name : NULL;
}

/* UINT64_MAX stands for unknown, as in the summary. */
static void whole_run_values(const struct opgap_summary *s, uint64_t value[RUN_COUNT])
{
  memset(value, 0, RUN_COUNT * sizeof *value);
  for (size_t i = 0; i < s->call_count; i++)
    if (strcmp(s->calls[i].category, "copy") == 0) {
      value[RUN_COPIES] += s->calls[i].calls;
      value[RUN_COPY_BYTES] += s->calls[i].bytes;
    }
  for (size_t i = 0; i < s->file_count; i++) {
    bool read = strcmp(s->files[i].operation, "read") == 0, write = strcmp(s->files[i].operation, "write") == 0;
    if (read || write) {
      value[read ? RUN_READS : RUN_WRITES] += s->files[i].calls;
      value[read ? RUN_READ_BYTES : RUN_WRITTEN_BYTES] += s->files[i].bytes;
    }
  }
  value[RUN_ALLOCATIONS] = s->memory.allocations;
  value[RUN_ALLOC_BYTES] = s->memory.bytes_allocated;
  value[RUN_PEAK_RSS] = s->memory.peak_rss_bytes;
  value[RUN_PEAK_BYTES] = s->memory.peak_bytes;
  value[RUN_DURATION] = s->duration_ns;
}

#define FIGURES_MOST (1 + RUN_COUNT + 2 * (OPGAP_CAUSE_COUNT + 1) + OPGAP_CLASS_COUNT)

static void add_held_down(struct reading *g)
{
  const struct opgap_summary *s = g->summary;
  uint64_t samples = 0, held_down = 0;
  for (size_t i = 0; i < s->gpu_count; i++)
    if (s->gpus[i].state.samples > 0 && s->gpus[i].state.braked != OPGAP_UNKNOWN) {
      samples += s->gpus[i].state.samples;
      held_down += s->gpus[i].state.braked;
    }
  if (samples > 0)
    figure(g, OPGAP_UNIT_SHARE, false, (double)held_down / (double)samples, GPU_HELD_DOWN);
}

static void add_figures(struct reading *g)
{
  const struct opgap_summary *s = g->summary;
  double steps = s->steps.count ? (double)s->steps.count : 1;
  uint64_t value[RUN_COUNT];
  g->run->figures = opgap_pool_alloc(g->runs->pool, FIGURES_MOST * sizeof *g->run->figures);
  whole_run_values(s, value);
  for (int f = 0; f < RUN_COUNT; f++)
    if (value[f] != OPGAP_UNKNOWN)
      figure(g, whole_run[f].unit, whole_run[f].counter, (double)value[f], "%s", whole_run[f].name);
  for (int c = 0; s->breakdown.steps > 0 && c < OPGAP_CLASS_COUNT; c++)
    figure(g, OPGAP_UNIT_NS, false, (double)s->breakdown.class_ns[c] / (double)s->breakdown.steps, BREAKDOWN ".%s",
           opgap_class_name((enum opgap_class)c));
  add_held_down(g);
  if (s->has_gpu)
    add_causes(g, IDLE_GPU, s->gaps.gpu_by_cause, s->gaps.gpu_cause_count, steps);
  add_causes(g, IDLE_THREAD, s->gaps.thread_by_cause, s->gaps.thread_cause_count, steps);
}

/* NULL: unknown, since without CUPTI a device is named by NVML alone, whose first sample a short run does not see. */
static const char *gpu_names(struct opgap_pool *pool, const struct opgap_summary *s)
{
  bool hidden = s->gpu_status != NULL && strncmp(s->gpu_status, "unavailable", strlen("unavailable")) == 0;
  const char *names = s->gpu_count ? s->gpus[0].name : hidden ? NULL : "none";
  for (size_t i = 1; i < s->gpu_count; i++)
    names = opgap_pool_printf(pool, "%s, %s", names, s->gpus[i].name);
  return names;
}

/* Of the first device that tells: the version of its driver, and its power limit. */
static const char *gpu_driver(const struct opgap_summary *s)
{
  for (size_t i = 0; i < s->gpu_count; i++)
    if (s->gpus[i].state.driver[0] != '\0')
      return s->gpus[i].state.driver;
  return NULL;
}

static const char *gpu_power_limit(struct opgap_pool *pool, const struct opgap_summary *s)
{
  for (size_t i = 0; i < s->gpu_count; i++)
    if (s->gpus[i].state.samples > 0 && s->gpus[i].state.milliwatts_most != OPGAP_UNKNOWN)
      return opgap_pool_printf(pool, "%llu W", (unsigned long long)s->gpus[i].state.milliwatts_most / 1000);
  return NULL;
}

static void add_info(struct opgap_runs *runs, const char *key, const char *value)
{
  if (value == NULL || value[0] == '\0')
    return;
  runs->info_keys[runs->info_count] = key;
  runs->info_values[runs->info_count++] = opgap_pool_string(runs->pool, value);
}

/* These decide whether runs can be compared; the rest is for people. */
static const char *const kept_info[] = {"opgap_version",   "cpu",
                                        "cores",           "kernel",
                                        "OPGAP_HOOKS",     "OPGAP_ALLOC",
                                        "OPGAP_MIN_ALLOC", "OPGAP_MIN_COPY",
                                        "OPGAP_STACKS",    "OPGAP_SCHEDULE",
                                        "OPGAP_CHILDREN",  "torch"};

static void set_identity(struct opgap_runs *runs, const struct opgap_summary *s, const char *command)
{
  size_t kept = sizeof kept_info / sizeof *kept_info;
  runs->command = opgap_pool_string(runs->pool, command);
  runs->step_source = opgap_pool_string(runs->pool, s->steps.source);
  runs->info_keys = opgap_pool_alloc(runs->pool, (kept + 3) * sizeof *runs->info_keys);
  runs->info_values = opgap_pool_alloc(runs->pool, (kept + 3) * sizeof *runs->info_values);
  for (size_t i = 0; i < kept; i++)
    add_info(runs, kept_info[i], opgap_summary_info(s, kept_info[i]));
  add_info(runs, "gpu", gpu_names(runs->pool, s));
  add_info(runs, "gpu_driver", gpu_driver(s));
  add_info(runs, "gpu_power_limit", gpu_power_limit(runs->pool, s));
}

static bool same_identity(const struct opgap_runs *runs, const struct opgap_summary *s, const char *command,
                          char *error, size_t size)
{
  if (!text_same_command(runs->command, command))
    return snprintf(error, size, "%s: not a repeat: its command is \"%s\", the first run's \"%s\"", s->path, command,
                    runs->command) < 0;
  if (strcmp(runs->step_source, s->steps.source) != 0)
    return snprintf(error, size, "%s: not a repeat: its steps come from %s, the first run's from %s", s->path,
                    s->steps.source, runs->step_source) < 0;
  for (size_t i = 0; i < sizeof kept_info / sizeof *kept_info; i++) {
    const char *first = opgap_runs_info(runs, kept_info[i]), *now = opgap_summary_info(s, kept_info[i]);
    first = first ? first : "";
    now = now ? now : "";
    if (strcmp(first, now) != 0)
      return snprintf(error, size, "%s: not a repeat: its %s is \"%s\", the first run's \"%s\"", s->path, kept_info[i],
                      now, first) < 0;
  }
  return true;
}

static void outside_time(struct reading *g)
{
  uint64_t all = 0;
  for (size_t i = 0; i < g->run->steps; i++)
    all += is_typical(g, i) ? g->run->samples[OPGAP_METRIC_STEP][i] : 0;
  outside_row(g)->sum[OPGAP_METRIC_STEP] += less(all, g->main_self_ns);
}

static bool row_is_empty(const struct opgap_row *row)
{
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    if (row->sum[m] > 0)
      return false;
  return row->calls == 0;
}

/* Ids of rows, by kind and name. */
struct row_ids {
  struct opgap_pool *pool;
  struct opgap_strings strings;
};

static uint32_t row_id(struct row_ids *ids, const struct opgap_row *row)
{
  const char *key = opgap_pool_printf(ids->pool, "%s %s", row->kind, row->name);
  return opgap_strings_id(&ids->strings, key, strlen(key));
}

/* Adds the run's rows to those of the runs before it.  The ids of the set's rows are 1, 2, ... in their order. */
static void merge_rows(struct opgap_runs *runs, struct reading *g)
{
  struct row_ids ids = {.pool = opgap_pool_new()};
  struct opgap_row *rows = opgap_pool_alloc(runs->pool, (runs->row_count + g->rows.count + 1) * sizeof *rows);
  opgap_strings_init(&ids.strings, ids.pool);
  opgap_strings_id(&ids.strings, "", 0);
  for (size_t i = 0; i < runs->row_count; i++) {
    row_id(&ids, &runs->rows[i]);
    rows[i] = runs->rows[i];
  }
  runs->rows = rows;
  for (size_t i = 0; i < g->rows.count; i++) {
    const struct opgap_row *row = &g->rows.at[i];
    if (row_is_empty(row))
      continue;
    struct opgap_row *sum = &rows[row_id(&ids, row) - 1];
    if (sum == &rows[runs->row_count]) {
      *sum = *row;
      sum->name = opgap_pool_string(runs->pool, row->name);
      runs->row_count++;
      continue;
    }
    sum->calls += row->calls;
    for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
      sum->sum[m] += row->sum[m];
  }
  opgap_strings_free(&ids.strings);
  opgap_pool_free(ids.pool);
}

static unsigned step_process_index(const struct opgap_source *source, const struct opgap_summary *s)
{
  const struct opgap_sum_process *found = opgap_step_process(s);
  for (unsigned i = 0; found != NULL && i < source->process_count; i++) {
    const struct opgap_process_info *info = source->process(source->context, i);
    if (info->pid == found->pid && info->start_ns - s->start_ns == found->start_ns)
      return i;
  }
  return 0;
}

static void read_run(struct opgap_runs *runs, struct opgap_run *run, const struct opgap_source *source,
                     const struct opgap_summary *summary)
{
  struct reading *g = opgap_xcalloc(1, sizeof *g);
  *g = (struct reading){.source = source, .summary = summary, .runs = runs, .run = run};
  struct opgap_pool *scratch = opgap_pool_new();
  opgap_strings_init(&g->names, scratch);
  opgap_strings_id(&g->names, "", 0);
  set_steps(g);
  find_typical(g);
  g->process = step_process_index(source, summary);
  if (run->steps > 0)
    read_streams(g);
  outside_time(g);
  drop_unknown(g);
  add_figures(g);
  merge_rows(runs, g);
  free(g->starts);
  free(g->ends);
  VEC_FREE(&g->rows);
  opgap_map_free(&g->index);
  opgap_strings_free(&g->names);
  opgap_pool_free(scratch);
  free(g);
}

/* "868 found no room in the rings: record with a larger --buffer; 3 ..." */
static const char *lost_why(struct opgap_pool *pool, const struct opgap_source *source,
                            const struct opgap_summary *summary)
{
  const char *why = NULL;
  struct loss_part parts[LOSS_PARTS];
  unsigned count = analysis_losses(source, summary, parts);
  for (unsigned i = 0; i < count; i++)
    why = opgap_pool_printf(pool, "%s%s%llu %s: %s", why ? why : "", why ? "; " : "",
                            (unsigned long long)parts[i].count, parts[i].words->what, parts[i].words->remedy);
  return why;
}

bool opgap_runs_add_trace(struct opgap_runs *runs, const struct opgap_source *source,
                          const struct opgap_summary *summary, char *error, size_t size)
{
  const struct opgap_sum_process *process = opgap_step_process(summary);
  const char *command = process ? opgap_process_command(runs->pool, summary, process) : "";
  if (runs->run_count >= OPGAP_RUNS_MOST) {
    snprintf(error, size, "more than %u repeats", OPGAP_RUNS_MOST);
    return false;
  }
  if (runs->run_count == 0)
    set_identity(runs, summary, command);
  else if (!same_identity(runs, summary, command, error, size))
    return false;
  struct opgap_run *run = &runs->runs[runs->run_count++];
  run->path = opgap_pool_string(runs->pool, summary->path);
  run->lost_records = summary->lost_records;
  run->lost_why = lost_why(runs->pool, source, summary);
  run->lost_threads = summary->lost_threads;
  run->invalid_records = summary->invalid_records;
  for (unsigned i = 0; i < source->process_count; i++)
    run->size_reached |= source->process(source->context, i)->size_reached;
  if (!summary->complete)
    run->damage = opgap_pool_string(runs->pool, summary->damage_count ? summary->damage[0] : "bytes are missing");
  read_run(runs, run, source, summary);
  runs->steps += run->steps;
  runs->typical_steps += run->typical_steps;
  return true;
}
