/* GPU activity: busy time, idle gaps, kernels as rows, and kernels joined to the ops that launched them.
 *
 * GPU streams are read AHEAD_NS ahead of the threads, so that an op that ends finds the GPU time of its launches.
 * A launch is known by (process, correlation id).  Its thread is a kernel thread id, or with older CUPTIs the low half
 * of a pthread_t.  Activities are put in order of their start by a heap of HEAP_LIMIT entries a device; what comes
 * later than that is still summed, but finds no gap.
 *
 * A GPU gap ends with a piece of work.  If that was launched before the gap began, the device was the reason
 * (dependency or launch latency); else the host was, up to the launch: CUDA calls of its thread by what they are, the
 * rest by blame.c.  A thread that waited for the device when it went idle could not launch ahead, so the launch latency
 * that then shows is that synchronisation's. */
#include "analysis/demangle.h"
#include "analysis/gpu_calls.h"
#include "analysis/gpu_occupancy.h"
#include "analysis/gpu_state.h"
#include "analysis/gpu_tables.h"
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

#define AHEAD_NS 1000000000ull
#define HEAP_LIMIT 65536u
#define HTA_THRESHOLD_NS 30000ull
#define EXPOSED_BATCH 4096u

/* What a CUDA call does to its caller. */
enum api_kind { API_OTHER, API_SYNCHRONISES, API_ALLOCATES };

struct launch {
  uint64_t start, end, correlation, gpu_ns;
  uint64_t first_start, copy_ns, copy_bytes; /* of what it started on a device */
  uint64_t gap_ns;                           /* of the gaps of devices that it ended */
  uint32_t kernels, longest_ns;
  uint32_t process, thread; /* thread: as CUPTI names it */
  uint32_t name, op;        /* of the call; the innermost op around it */
  uint32_t source;          /* where the innermost op with a source line was called: gid, 0 none */
  uint8_t kind;             /* enum api_kind */
  bool taken;               /* an op has it as its own */
  bool pageable_async;
  bool holds_host; /* of what it started: a copy or set that a call without "Async" in its name waits for */
};

struct launch_queue { /* launches of one thread, by start: serials into gpu_state.launches */
  VEC(uint32_t) v;
  size_t first;
};

struct activity {
  uint64_t start, end, correlation;
  uint32_t process, name;
  uint8_t class_;
};

struct device {
  uint32_t id, host;
  uint32_t name;
  uint64_t memory_bytes, sm_count;
  struct gpu_limits limits;
  struct gpu_state_sum state;
  uint32_t driver; /* gid of its version */
  struct activity *heap;
  size_t heap_count;
  uint64_t busy_end, busy_ns;
  struct activity latest; /* what ran until busy_end */
  uint64_t first, last;   /* start and end of what is in the window */
  uint64_t off_ns;        /* between the two, idle as far as is known, while recording was off */
  uint64_t class_end[OPGAP_CLASS_COUNT], class_ns[OPGAP_CLASS_COUNT], class_count[OPGAP_CLASS_COUNT];
  uint64_t bytes[GPU_DIRECTIONS];
  struct intervals communication, computation;
  uint64_t exposed_ns;
  uint64_t host_wait, kernel_wait, other_wait;
  struct gap_table gaps;
  uint64_t *busy_over_time; /* [OPGAP_OVER_TIME_BUCKETS]; NULL before the first activity */
};

struct gpu_stream {
  unsigned process;
  void *cursor;
  const struct opgap_record *records;
  size_t left;
  uint64_t reached;
};

struct gpu_state {
  VEC(struct gpu_stream) streams;
  struct launch *launches; /* a ring of GPU_WINDOW, by serial */
  uint32_t next_serial;
  struct opgap_map by_correlation; /* (correlation, process) -> serial + 1 */
  VEC(struct launch_queue) queues;
  struct opgap_map queue_index; /* (thread, process) -> queue + 1 */
  VEC(struct device) devices;
  struct gpu_tables *tables;
  struct opgap_map by_tid;    /* (tid, process) -> thread + 1 */
  struct opgap_map demangled; /* gid of a kernel's symbol -> gid of its name + 1 */
  opgap_demangler demangler;
  uint64_t lost, invalid;
  uint64_t unlaunched, unlaunched_ns; /* kernels in the window without a launch */
};

void gpu_open(struct analysis *a)
{
  a->gpu = opgap_xcalloc(1, sizeof *a->gpu);
  a->gpu->tables = gpu_tables_new();
  for (unsigned t = 0; t < a->thread_count; t++)
    *opgap_map_put(&a->gpu->by_tid, (uint32_t)a->threads[t].tid, a->threads[t].process) = t + 1;
  for (unsigned p = 0; p < a->process_count; p++)
    for (unsigned s = 0; s < a->processes[p].info->stream_count; s++)
      if (a->processes[p].info->streams[s].kind == OPGAP_STREAM_GPU) {
        struct gpu_stream *stream = VEC_PUSH(&a->gpu->streams);
        stream->process = p;
        stream->cursor = a->source->cursor_open(a->source->context, p, s);
      }
  if (a->gpu->streams.count > 0)
    a->gpu->demangler = opgap_demangler_find();
}

/* The thread that CUPTI names so; NULL: none is known by that name. */
static struct thread *thread_of(struct analysis *a, unsigned process, uint32_t named)
{
  uint32_t index = opgap_map_get(&a->gpu->by_tid, named, process);
  return index ? &a->threads[index - 1] : analysis_pthread(a, process, named);
}

/* ---- launches ---- */

static struct launch *launch_at(struct gpu_state *g, uint32_t serial)
{
  return &g->launches[serial & (GPU_WINDOW - 1)];
}

static bool launch_kept(const struct gpu_state *g, uint32_t serial)
{
  return g->next_serial - serial <= GPU_WINDOW;
}

/* Forgets correlation ids whose launches the ring has lost. */
static void renew_index(struct gpu_state *g)
{
  opgap_map_clear(&g->by_correlation);
  uint32_t count = g->next_serial < GPU_WINDOW ? g->next_serial : GPU_WINDOW;
  for (uint32_t serial = g->next_serial - count; serial != g->next_serial; serial++) {
    const struct launch *l = launch_at(g, serial);
    *opgap_map_put(&g->by_correlation, l->correlation, l->process) = serial + 1;
  }
}

static struct launch *launch_find(struct gpu_state *g, unsigned process, uint64_t correlation, uint32_t *serial)
{
  uint32_t value = opgap_map_get(&g->by_correlation, correlation, process);
  if (value == 0 || !launch_kept(g, value - 1))
    return NULL;
  *serial = value - 1;
  return launch_at(g, *serial);
}

/* A call leaves the ring, or the trace is at its end: into the tables. */
static void launch_settle(struct analysis *a, const struct launch *l)
{
  if (l->start == 0 || !analysis_in_window(a, l->end))
    return;
  struct gpu_call call = {.start = l->start,
                          .end = l->end,
                          .first_start = l->first_start,
                          .kernels = l->kernels,
                          .short_kernels = l->kernels == 1 && l->longest_ns < l->end - l->start,
                          .copy_ns = l->copy_ns,
                          .copy_bytes = l->copy_bytes,
                          .name = l->name,
                          .op = l->op,
                          .source = l->source,
                          .gap_ns = l->gap_ns,
                          .pageable_async = l->pageable_async,
                          .holds_host = l->holds_host};
  gpu_tables_call(a, a->gpu->tables, &call);
}

static struct launch *launch_make(struct analysis *a, unsigned process, uint64_t correlation, uint32_t *serial)
{
  struct gpu_state *g = a->gpu;
  struct launch *found = launch_find(g, process, correlation, serial);
  if (found != NULL)
    return found;
  if (g->launches == NULL)
    g->launches = opgap_xcalloc(GPU_WINDOW, sizeof *g->launches);
  if (g->by_correlation.count >= 2 * GPU_WINDOW)
    renew_index(g);
  *serial = g->next_serial++;
  struct launch *l = launch_at(g, *serial);
  if (*serial >= GPU_WINDOW)
    launch_settle(a, l);
  *l = (struct launch){.correlation = correlation, .process = process};
  *opgap_map_put(&g->by_correlation, correlation, process) = *serial + 1;
  return l;
}

static struct launch_queue *queue_of(struct gpu_state *g, unsigned process, uint32_t thread, bool make)
{
  if (!make) {
    uint32_t index = opgap_map_get(&g->queue_index, thread, process);
    return index ? &g->queues.at[index - 1] : NULL;
  }
  uint32_t *index = opgap_map_put(&g->queue_index, thread, process);
  if (*index == 0) {
    (void)VEC_PUSH(&g->queues);
    *index = (uint32_t)g->queues.count;
  }
  return &g->queues.at[*index - 1];
}

static void queue_add(struct gpu_state *g, struct launch_queue *q, uint32_t serial)
{
  if (q->first > 4096 && q->first * 2 > q->v.count) {
    memmove(q->v.at, q->v.at + q->first, (q->v.count - q->first) * sizeof *q->v.at);
    q->v.count -= q->first;
    q->first = 0;
  }
  while (q->first < q->v.count && !launch_kept(g, q->v.at[q->first]))
    q->first++;
  (void)VEC_PUSH(&q->v);
  size_t i = q->v.count - 1;
  uint64_t start = launch_at(g, serial)->start;
  for (; i > q->first && launch_at(g, q->v.at[i - 1])->start > start; i--)
    q->v.at[i] = q->v.at[i - 1];
  q->v.at[i] = serial;
}

static enum api_kind kind_of(const char *name)
{
  static const char *const allocating[] = {"Malloc", "MemAlloc", "HostAlloc", "Free", "HostRegister", "HostUnregister"};
  for (size_t i = 0; i < sizeof allocating / sizeof *allocating; i++)
    if (strstr(name, allocating[i]) != NULL && strstr(name, "Async") == NULL)
      return API_ALLOCATES;
  if (strstr(name, "Synchronize") != NULL)
    return API_SYNCHRONISES;
  bool moves = strstr(name, "Memcpy") != NULL || strstr(name, "Memset") != NULL;
  return moves && strstr(name, "Async") == NULL ? API_SYNCHRONISES : API_OTHER;
}

static void add_api(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct gpu_state *g = a->gpu;
  uint32_t serial;
  struct launch *l = launch_make(a, process, r->status, &serial);
  bool known =
      l->start != 0; /* the driver's call inside the runtime's, or that around it: CUPTI tells of either first */
  if (known && l->start <= r->start_ns)
    return;
  l->start = r->start_ns; /* the outer one is what the program made */
  l->end = r->end_ns;
  l->thread = (uint32_t)r->field[1];
  l->name = analysis_gid(a, process, r->field[0]);
  l->kind = (uint8_t)kind_of(analysis_text(a, l->name));
  if (!known) /* its place stays: no other call of the thread begins between the two */
    queue_add(g, queue_of(g, process, l->thread, true), serial);
  a->launches = true;
  const struct process *p = &a->processes[process];
  struct thread *t = thread_of(a, process, l->thread);
  if (t != NULL)
    memory_cuda_call(a, t, l->name, r);
  if (p->main_thread != UINT32_MAX && t == &a->threads[p->main_thread])
    breakdown_cuda_call(a, process, l->name, r->start_ns, r->end_ns);
}

/* The first launch of the queue that may end after `time`: calls of one thread do not overlap, but for one inside
 * another. */
static size_t queue_from(struct gpu_state *g, const struct launch_queue *q, uint64_t time)
{
  size_t low = 0, high = q->v.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (launch_at(g, q->v.at[middle])->start < time)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 ? low - 1 : 0;
}

/* The launches of a thread, whichever way CUPTI names it; NULL: none. */
static struct launch_queue *queue_of_thread(struct gpu_state *g, const struct thread *t)
{
  struct launch_queue *q = queue_of(g, t->process, (uint32_t)t->tid, false);
  return q != NULL ? q : queue_of(g, t->process, (uint32_t)t->pthread, false);
}

struct gpu_time gpu_op(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  struct gpu_time sum = {0};
  struct gpu_state *g = a->gpu;
  struct launch_queue *q = queue_of_thread(g, t);
  if (q == NULL)
    return sum;
  while (q->first < q->v.count && !launch_kept(g, q->v.at[q->first]))
    q->first++;
  size_t low = q->first, high = q->v.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (launch_at(g, q->v.at[middle])->start < r->start_ns)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < q->v.count; low++) {
    struct launch *l = launch_at(g, q->v.at[low]);
    if (l->start > r->end_ns)
      break;
    sum.total_ns += l->gpu_ns;
    if (!l->taken) {
      sum.self_ns += l->gpu_ns;
      l->op = analysis_gid(a, t->process, r->field[0]);
    }
    if (l->source == 0 && r->field[5] != 0) /* inner ops end first */
      l->source = analysis_gid(a, t->process, r->field[5]);
    l->taken = true;
  }
  if (r->depth == 0) /* no later op can contain these */
    q->first = low;
  return sum;
}

uint64_t gpu_launched(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  struct gpu_state *g = a->gpu;
  struct launch_queue *q = g->queues.count ? queue_of_thread(g, t) : NULL;
  uint64_t ns = 0;
  for (size_t i = q != NULL ? queue_from(g, q, start) : 0; q != NULL && i < q->v.count; i++) {
    const struct launch *l = launch_at(g, q->v.at[i]);
    if (l->start > end)
      break;
    if (l->start >= start && launch_kept(g, q->v.at[i]))
      ns += l->gpu_ns;
  }
  return ns;
}

/* ---- devices ---- */

static struct device *device_of(struct analysis *a, unsigned process, uint32_t id)
{
  struct gpu_state *g = a->gpu;
  uint32_t host = analysis_string(a, a->processes[process].info->host);
  for (size_t i = 0; i < g->devices.count; i++)
    if (g->devices.at[i].id == id && g->devices.at[i].host == host)
      return &g->devices.at[i];
  struct device *d = VEC_PUSH(&g->devices);
  d->id = id;
  d->host = host;
  d->memory_bytes = d->sm_count = OPGAP_UNKNOWN;
  d->heap = opgap_xcalloc(HEAP_LIMIT, sizeof *d->heap);
  return d;
}

static void heap_push(struct device *d, struct activity activity)
{
  size_t i = d->heap_count++;
  for (; i > 0 && d->heap[(i - 1) / 2].start > activity.start; i = (i - 1) / 2)
    d->heap[i] = d->heap[(i - 1) / 2];
  d->heap[i] = activity;
}

static struct activity heap_pop(struct device *d)
{
  struct activity first = d->heap[0], last = d->heap[--d->heap_count];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= d->heap_count)
      break;
    if (child + 1 < d->heap_count && d->heap[child + 1].start < d->heap[child].start)
      child++;
    if (d->heap[child].start >= last.start)
      break;
    d->heap[i] = d->heap[child];
    i = child;
  }
  d->heap[i] = last;
  return first;
}

static void sum_exposed(struct device *d)
{
  size_t k = 0;
  for (size_t i = 0; i < d->communication.v.count; i++) {
    uint64_t start = d->communication.v.at[i].start, end = d->communication.v.at[i].end, hidden = 0;
    for (; k < d->computation.v.count && d->computation.v.at[k].end <= start; k++)
      ;
    for (size_t j = k; j < d->computation.v.count && d->computation.v.at[j].start < end; j++) {
      uint64_t from = d->computation.v.at[j].start > start ? d->computation.v.at[j].start : start;
      uint64_t to = d->computation.v.at[j].end < end ? d->computation.v.at[j].end : end;
      hidden += to > from ? to - from : 0;
    }
    d->exposed_ns += end - start - hidden;
  }
  d->communication.v.count = d->computation.v.count = 0;
}

static void add_gap(struct analysis *a, struct device *d, const struct activity *activity)
{
  uint32_t serial;
  struct launch *l = launch_find(a->gpu, activity->process, activity->correlation, &serial);
  uint64_t ns = activity->start - d->busy_end;
  bool launched = l != NULL && l->start != 0;
  if (!analysis_in_window(a, activity->start))
    return;
  if (launched && l->start > d->busy_end)
    d->host_wait += ns;
  else if (ns < HTA_THRESHOLD_NS)
    d->kernel_wait += ns;
  else
    d->other_wait += ns;
  if (launched && gpu_tables_is_long(ns))
    l->gap_ns += ns;
  else
    gpu_tables_gap(a->gpu->tables, ns);
  if (ns < a->options.gpu_min_gap_ns)
    return;
  struct gap gap = {.start = d->busy_end,
                    .end = activity->start,
                    .process = activity->process,
                    .device = (uint32_t)(d - a->gpu->devices.at),
                    .previous = d->latest.name,
                    .next = activity->name,
                    .gpu = true};
  if (launch_find(a->gpu, d->latest.process, d->latest.correlation, &gap.before) != NULL)
    gap.before++;
  if (launched) {
    gap.after = serial + 1;
    struct thread *t = thread_of(a, activity->process, l->thread);
    gap.launch_start = l->start;
    gap.launch_end = l->end;
    gap.thread = t ? (uint32_t)(t - a->threads) : a->processes[activity->process].main_thread;
  }
  gaps_push(a, gap);
}

static uint64_t beyond(uint64_t *last_end, uint64_t start, uint64_t end)
{
  uint64_t from = start > *last_end ? start : *last_end;
  if (end > *last_end)
    *last_end = end;
  return end > from ? end - from : 0;
}

static void count_unlaunched(struct analysis *a, const struct activity *activity)
{
  uint32_t serial;
  const struct launch *l = launch_find(a->gpu, activity->process, activity->correlation, &serial);
  if (l != NULL && l->start != 0)
    return;
  a->gpu->unlaunched++;
  a->gpu->unlaunched_ns += activity->end - activity->start;
}

static void run_activity(struct analysis *a, struct device *d, const struct activity *activity)
{
  bool counted = analysis_in_window(a, activity->end);
  if (d->busy_end != 0 && activity->start > d->busy_end) {
    uint64_t off_ns = windows_off_between(&a->processes[activity->process], d->busy_end, activity->start);
    d->off_ns += counted && d->first != 0 ? off_ns : 0;
    if (off_ns == 0)
      add_gap(a, d, activity);
  }
  breakdown_gpu(a, activity->process, (enum opgap_class)activity->class_, activity->start, activity->end);
  if (activity->end >= d->busy_end)
    d->latest = *activity;
  uint64_t busy = beyond(&d->busy_end, activity->start, activity->end);
  uint64_t own = beyond(&d->class_end[activity->class_], activity->start, activity->end);
  if (!counted)
    return;
  if (d->first == 0)
    d->first = activity->start;
  d->last = activity->end > d->last ? activity->end : d->last;
  d->busy_ns += busy;
  if (d->busy_over_time == NULL)
    d->busy_over_time = opgap_xcalloc(OPGAP_OVER_TIME_BUCKETS, sizeof *d->busy_over_time);
  over_time_add(a, d->busy_over_time, 1, activity->end - busy, activity->end);
  gpu_tables_busy(a->gpu->tables, (size_t)(d - a->gpu->devices.at), activity->end - busy, activity->end);
  d->class_ns[activity->class_] += own;
  d->class_count[activity->class_]++;
  if (activity->class_ == OPGAP_CLASS_KERNEL || activity->class_ == OPGAP_CLASS_COMMUNICATION)
    count_unlaunched(a, activity);
  if (activity->class_ == OPGAP_CLASS_COMMUNICATION)
    ranks_collective(a, activity->process, activity->name, true, activity->start, activity->end);
  if (activity->class_ == OPGAP_CLASS_COMMUNICATION)
    intervals_append(&d->communication, activity->start, activity->end);
  else if (activity->class_ == OPGAP_CLASS_KERNEL)
    intervals_append(&d->computation, activity->start, activity->end);
  if (d->computation.v.count + d->communication.v.count > EXPOSED_BATCH)
    sum_exposed(d);
}

static void pop_until(struct analysis *a, uint64_t time)
{
  for (size_t i = 0; i < a->gpu->devices.count; i++) {
    struct device *d = &a->gpu->devices.at[i];
    while (d->heap_count > 0 && (d->heap[0].start <= time || d->heap_count >= HEAP_LIMIT)) {
      struct activity activity = heap_pop(d);
      run_activity(a, d, &activity);
    }
  }
}

/* ---- records ---- */

static bool is_collective(const char *name)
{
  return strcasestr(name, "nccl") != NULL || strcasestr(name, "rccl") != NULL;
}

/* A kernel's name as its source has it. */
static uint32_t kernel_name(struct analysis *a, uint32_t symbol)
{
  const char *text = analysis_text(a, symbol);
  if (a->gpu->demangler == NULL || strncmp(text, "_Z", 2) != 0)
    return symbol;
  uint32_t *known = opgap_map_put(&a->gpu->demangled, symbol, 0);
  if (*known == 0) {
    char *name = opgap_demangle(a->gpu->demangler, text);
    *known = (name != NULL ? analysis_string(a, name) : symbol) + 1;
    free(name);
  }
  return *known - 1;
}

static void add_row(struct analysis *a, unsigned process, enum opgap_op_kind kind, uint32_t name, uint64_t ns)
{
  struct op_row *row = ops_row(a, process, kind, name);
  row->calls++;
  row->self_gpu_ns += ns;
  row->total_gpu_ns += ns;
}

static void add_copy_bytes(struct device *d, const struct opgap_record *r)
{
  d->bytes[gpu_direction(r->field[4])] += r->field[0];
}

static bool is_pageable(uint64_t memory_kind)
{
  return memory_kind == 1;
}

/* What a synchronous call waits for (CUDA Runtime API, "API synchronization behavior"): copies from and to the host,
 * but for 64 KiB or less to the device; sets of pinned or managed memory.  Others are asynchronous under any name. */
static bool holds_host(const struct opgap_record *r)
{
  enum { PINNED = 2, MANAGED = 5, MANAGED_STATIC = 7, HOST_TO_HOST = 9 }; /* as CUPTI numbers them */
  if (r->event == OPGAP_EV_GPU_MEMSET)
    return r->field[5] == PINNED || r->field[5] == MANAGED || r->field[5] == MANAGED_STATIC;
  switch (gpu_direction(r->field[4])) {
  case GPU_H2D:
    return r->field[0] > 65536;
  case GPU_D2H:
    return true;
  default:
    return r->field[4] == HOST_TO_HOST;
  }
}

static void add_to_launch(struct launch *l, const struct opgap_record *r, bool kernel, bool copy)
{
  uint64_t ns = r->end_ns - r->start_ns;
  l->gpu_ns += ns;
  if (l->first_start == 0 || r->start_ns < l->first_start)
    l->first_start = r->start_ns;
  l->kernels += kernel;
  if (kernel && ns > l->longest_ns)
    l->longest_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
  if (kernel)
    return;
  l->holds_host = l->holds_host || holds_host(r);
  l->copy_ns += ns;
  l->copy_bytes += r->field[0];
  if (copy && (r->field[7] & 1) != 0 && (is_pageable(r->field[5]) || is_pageable(r->field[6])))
    l->pageable_async = true;
}

static void add_activity(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  bool kernel = r->event == OPGAP_EV_KERNEL, copy = r->event == OPGAP_EV_GPU_MEMCPY;
  if (r->start_ns == 0 || r->end_ns < r->start_ns) {
    a->gpu->invalid++;
    return;
  }
  struct device *d = device_of(a, process, (uint32_t)r->field[1]);
  uint32_t name = kernel ? kernel_name(a, analysis_gid(a, process, r->field[0]))
                         : analysis_string(a, copy ? gpu_copy_name(r->field[4]) : "Memset (Device)");
  enum opgap_class class_ = copy ? OPGAP_CLASS_MEMCPY : kernel ? OPGAP_CLASS_KERNEL : OPGAP_CLASS_MEMSET;
  if (kernel && is_collective(analysis_text(a, name)))
    class_ = OPGAP_CLASS_COMMUNICATION;
  uint64_t ns = r->end_ns - r->start_ns;
  uint32_t serial;
  add_to_launch(launch_make(a, process, r->status, &serial), r, kernel, copy);
  if (d->heap_count >= HEAP_LIMIT)
    pop_until(a, 0);
  heap_push(d, (struct activity){r->start_ns, r->end_ns, r->status, process, name, (uint8_t)class_});
  if (!analysis_in_window(a, r->end_ns))
    return;
  add_row(a, process, kernel ? OPGAP_OP_KERNEL : copy ? OPGAP_OP_MEMCPY : OPGAP_OP_MEMSET, name, ns);
  if (kernel)
    gpu_tables_kernel(a->gpu->tables, name, r, &d->limits);
  if (copy) {
    add_copy_bytes(d, r);
    gpu_tables_copy(a->gpu->tables, r);
  }
}

static void add_device(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct device *d = device_of(a, process, r->status);
  d->name = analysis_gid(a, process, r->field[0]);
  d->sm_count = r->field[1];
  d->memory_bytes = r->field[3];
  const struct opgap_event *event = a->source->event(a->source->context, process, r->event);
  if (event != NULL && event->field_count >= 10) /* traces of older versions do not have the limits */
    d->limits = (struct gpu_limits){.capability = r->field[2],
                                    .threads_sm = r->field[5],
                                    .blocks_sm = r->field[6],
                                    .registers_sm = r->field[7],
                                    .shared_sm = r->field[8],
                                    .registers_block = r->field[9]};
}

static void add_state(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct device *d = device_of(a, process, r->status);
  if (!analysis_in_window(a, r->end_ns))
    return;
  gpu_state_add(&d->state, r);
  d->driver = analysis_gid(a, process, r->field[9]);
}

static void add_use(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct device *d = device_of(a, process, r->status);
  if (!analysis_in_window(a, r->end_ns))
    return;
  gpu_use_add(&d->state, r);
  d->name = analysis_gid(a, process, r->field[0]);
}

void gpu_record(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  a->processes[process].uses_gpu |= r->event == OPGAP_EV_GPU_API || r->event == OPGAP_EV_KERNEL;
  switch (r->event) {
  case OPGAP_EV_KERNEL:
  case OPGAP_EV_GPU_MEMCPY:
  case OPGAP_EV_GPU_MEMSET:
    add_activity(a, process, r);
    break;
  case OPGAP_EV_GPU_API:
    add_api(a, process, r);
    break;
  case OPGAP_EV_GPU_DEVICE:
    add_device(a, process, r);
    break;
  case OPGAP_EV_GPU_STATE:
    add_state(a, process, r);
    break;
  case OPGAP_EV_GPU_USE:
    add_use(a, process, r);
    break;
  case OPGAP_EV_GPU_LOST:
    if (r->status == 1)
      a->gpu->lost += r->field[0];
    else
      a->gpu->invalid += r->field[0];
    break;
  default:
    break;
  }
}

static void read_stream(struct analysis *a, struct gpu_stream *stream, uint64_t until)
{
  while (stream->cursor != NULL && stream->reached <= until) {
    if (stream->left == 0) {
      stream->left = a->source->cursor_batch(stream->cursor, &stream->records);
      a->done += stream->left;
    }
    if (stream->left == 0) {
      a->source->cursor_close(stream->cursor);
      stream->cursor = NULL;
      return;
    }
    const struct opgap_record *r = stream->records++;
    stream->left--;
    if (r->start_ns > stream->reached)
      stream->reached = r->start_ns;
    gpu_record(a, stream->process, r);
  }
}

void gpu_advance(struct analysis *a, uint64_t now)
{
  uint64_t until = now == UINT64_MAX ? now : now + AHEAD_NS;
  for (size_t i = 0; i < a->gpu->streams.count; i++)
    read_stream(a, &a->gpu->streams.at[i], until);
  pop_until(a, now);
}

/* ---- gaps ---- */

/* Explains the host's part, with what lies inside a __next__ as data loading. */
static void explain_host(struct analysis *a, struct thread *t, uint64_t start, uint64_t end, struct causes *causes)
{
  uint64_t at = start;
  for (size_t i = 0; i < t->nexts.count && at < end; i++) {
    const struct past_op *next = RING_AT(&t->nexts, i);
    uint64_t from = next->start > at ? next->start : at, to = next->end < end ? next->end : end;
    if (to <= from)
      continue;
    blame_thread(a, t, t, at, from, causes);
    causes->data_loading = true;
    blame_thread(a, t, t, from, to, causes);
    causes->data_loading = false;
    at = to;
  }
  blame_thread(a, t, t, at, end, causes);
}

static void blame_api(const struct launch *l, uint64_t ns, struct causes *causes)
{
  static const struct {
    uint8_t cause, doing;
  } of_kind[] = {[API_OTHER] = {OPGAP_CAUSE_DISPATCH, DOING_GPU},
                 [API_SYNCHRONISES] = {OPGAP_CAUSE_SYNCHRONISATION, DOING_GPU},
                 [API_ALLOCATES] = {OPGAP_CAUSE_ALLOCATION, DOING_ALLOC}};
  blame_add(
      causes,
      (struct cause_key){
          .cause = of_kind[l->kind].cause, .doing = of_kind[l->kind].doing, .process = UINT32_MAX, .name = l->name},
      ns);
}

/* The host's part: CUDA calls of the thread are causes of their own, the rest is explained.  Returns the call that
 * synchronised with the device when the interval began, or NULL. */
static const struct launch *explain_thread(struct analysis *a, struct thread *t, uint64_t start, uint64_t end,
                                           struct causes *causes)
{
  struct launch_queue *q = queue_of_thread(a->gpu, t);
  const struct launch *waited = NULL;
  uint64_t at = start;
  for (size_t i = q != NULL ? queue_from(a->gpu, q, start) : 0; q != NULL && i < q->v.count && at < end; i++) {
    const struct launch *l = launch_at(a->gpu, q->v.at[i]);
    uint64_t from = l->start > at ? l->start : at, to = l->end < end ? l->end : end;
    if (l->start >= end)
      break;
    if (!launch_kept(a->gpu, q->v.at[i]) || to <= from)
      continue;
    if (l->kind == API_SYNCHRONISES && l->start <= start)
      waited = l;
    explain_host(a, t, at, from, causes);
    blame_api(l, to - from, causes);
    at = to;
  }
  explain_host(a, t, at, end, causes);
  return waited;
}

static uint32_t op_of(struct gpu_state *g, uint32_t launch)
{
  return launch != 0 && launch_kept(g, launch - 1) ? launch_at(g, launch - 1)->op : 0;
}

void gpu_explain(struct analysis *a, struct gap *gap)
{
  struct causes causes = {0};
  gap->op_before = op_of(a->gpu, gap->before);
  gap->op = op_of(a->gpu, gap->after);
  struct cause_key latency = {.cause = OPGAP_CAUSE_DEVICE, .doing = DOING_LATENCY, .process = UINT32_MAX};
  if (gap->launch_start == 0 || gap->thread == UINT32_MAX) {
    blame_add(&causes, (struct cause_key){.cause = OPGAP_CAUSE_UNKNOWN, .process = UINT32_MAX}, gap->end - gap->start);
  } else if (gap->launch_start <= gap->start) {
    blame_add(&causes, latency, gap->end - gap->start);
  } else {
    uint64_t launched = gap->launch_start < gap->end ? gap->launch_start : gap->end;
    const struct launch *waited = explain_thread(a, &a->threads[gap->thread], gap->start, launched, &causes);
    if (waited != NULL)
      blame_api(waited, gap->end - launched, &causes);
    else
      blame_add(&causes, latency, gap->end - launched);
  }
  gaps_table_add(a, &a->gpu->devices.at[gap->device].gaps, gap, &causes);
}

/* ---- into the summary ---- */

static void fill(struct analysis *a, struct device *d, struct opgap_sum_gpu *row)
{
  sum_exposed(d);
  uint64_t span = d->last - d->first - d->off_ns;
  *row = (struct opgap_sum_gpu){
      .device = d->id,
      .name = analysis_text(a, d->name),
      .host = analysis_text(a, d->host),
      .busy_ns = d->busy_ns,
      .kernel_ns = d->class_ns[OPGAP_CLASS_KERNEL],
      .memcpy_ns = d->class_ns[OPGAP_CLASS_MEMCPY],
      .memset_ns = d->class_ns[OPGAP_CLASS_MEMSET],
      .communication_ns = d->class_ns[OPGAP_CLASS_COMMUNICATION],
      .exposed_communication_ns = d->exposed_ns,
      .span_ns = span,
      .kernels = d->class_count[OPGAP_CLASS_KERNEL] + d->class_count[OPGAP_CLASS_COMMUNICATION],
      .memcpys = d->class_count[OPGAP_CLASS_MEMCPY],
      .memsets = d->class_count[OPGAP_CLASS_MEMSET],
      .h2d_bytes = d->bytes[GPU_H2D],
      .d2h_bytes = d->bytes[GPU_D2H],
      .d2d_bytes = d->bytes[GPU_D2D],
      .memory_bytes = d->memory_bytes,
      .sm_count = d->sm_count,
      .utilisation = span ? (double)d->busy_ns / (double)span : -1,
      .sampled_utilisation = gpu_use_of(&d->state),
      .state = gpu_state_of(&d->state),
  };
  row->state.driver = analysis_text(a, d->driver);
}

static void finish_tables(struct analysis *a)
{
  struct gpu_state *g = a->gpu;
  uint32_t count = g->next_serial < GPU_WINDOW ? g->next_serial : GPU_WINDOW;
  uint32_t *ids = opgap_xcalloc(g->devices.count, sizeof *ids);
  for (uint32_t serial = g->next_serial - count; serial != g->next_serial; serial++)
    launch_settle(a, launch_at(g, serial));
  for (size_t i = 0; i < g->devices.count; i++)
    ids[i] = g->devices.at[i].id;
  gpu_tables_finish(a, g->tables, ids);
  free(ids);
}

void gpu_finish(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  s->gpus = opgap_pool_alloc(a->pool, a->gpu->devices.count * sizeof *s->gpus);
  for (size_t i = 0; i < a->gpu->devices.count; i++) {
    struct device *d = &a->gpu->devices.at[i];
    fill(a, d, &s->gpus[s->gpu_count++]);
    s->has_gpu = s->has_gpu || d->busy_end > 0;
    s->gaps.host_wait_ns += d->host_wait;
    s->gaps.kernel_wait_ns += d->kernel_wait;
    s->gaps.other_wait_ns += d->other_wait;
  }
  finish_tables(a);
  s->gpu_tables.launches.unlaunched = a->gpu->unlaunched;
  s->gpu_tables.launches.unlaunched_ns = a->gpu->unlaunched_ns;
  s->lost_records += a->gpu->lost;
  s->lost_by[OPGAP_LOSS_GPU] += a->gpu->lost;
  s->invalid_records += a->gpu->invalid;
}

size_t gpu_device_count(const struct analysis *a)
{
  return a->gpu->devices.count;
}

struct gap_table *gpu_gap_table(struct analysis *a, size_t device, uint32_t *id)
{
  *id = a->gpu->devices.at[device].id;
  return &a->gpu->devices.at[device].gaps;
}

const uint64_t *gpu_busy_over_time(const struct analysis *a, size_t device)
{
  return a->gpu->devices.at[device].busy_over_time;
}

void gpu_close(struct analysis *a)
{
  struct gpu_state *g = a->gpu;
  for (size_t i = 0; i < g->streams.count; i++)
    if (g->streams.at[i].cursor != NULL)
      a->source->cursor_close(g->streams.at[i].cursor);
  for (size_t i = 0; i < g->queues.count; i++)
    VEC_FREE(&g->queues.at[i].v);
  for (size_t i = 0; i < g->devices.count; i++) {
    struct device *d = &g->devices.at[i];
    free(d->heap);
    VEC_FREE(&d->communication.v);
    VEC_FREE(&d->computation.v);
    gaps_table_free(&d->gaps);
    free(d->busy_over_time);
  }
  VEC_FREE(&g->streams);
  VEC_FREE(&g->queues);
  VEC_FREE(&g->devices);
  opgap_map_free(&g->by_correlation);
  opgap_map_free(&g->queue_index);
  gpu_tables_free(g->tables);
  opgap_map_free(&g->by_tid);
  opgap_map_free(&g->demangled);
  free(g->launches);
  free(g);
}
