/* libcupti.so: the activity interface (cupti_activity.h, cupti_callbacks.h) over the simulation.
 *
 * Records are written by byte offset, not through opgap's declarations, so that an error there does not cancel out;
 * tests/gpu/abi_check.c compares both with the real headers.  FAKE_CUPTI_11 and FAKE_CUPTI_13 (compile time) give the
 * record sizes and functions of CUDA 11.8 and of CUDA 13.5, otherwise those of CUDA 12.4.  CUPTI 11 has neither
 * timestamp callback nor whole graphs; its clock is CLOCK_REALTIME with an offset and a drift, and its threads are
 * pthread_self() cut to 32 bits.
 *
 * Delivery (cupti_activity.h, cuptiActivityFlushAll): an unforced flush returns finished records, a forced one also the
 * unfinished, with end 0.  A buffer is asked for when a record needs one, on the thread at hand.
 *
 * Several subscribers (CUPTI's guide, "Multiple Subscribers", CUDA 13.3): the "_v2" functions give each its kinds,
 * buffers, clock and thread ids; they and the others exclude each other with error 39; whoever enables a kind first
 * fixes for all whether graphs come whole; a flush is everybody's.
 *
 * FAKE_CUPTI: words separated by commas
 *   subscribe=N, enable=N   result of cuptiSubscribe, of enabling the kernel kind
 *   crash                   the first call of all crashes, as CUPTI 13.2's does without a driver that it knows
 *   drop=N                  every Nth record is dropped and counted
 *   bad=N                   every Nth kernel has end 0, every 2Nth start > end
 *   unknown=N               before every Nth record one of a kind nobody knows (200)
 *   overhead=N              every Nth kernel is preceded by 10 us of lazy loading
 *   deaf=N                  the first N API calls are not reported
 *   nested                  the driver's call inside a runtime's is reported, too, before it (its end comes first)
 *   late=MS                 records appear so much after their end
 *   reorder                 each flush gives its records in reverse
 *   statistics              says at the end how many records were made
 */
#include "fake_gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_PARAMETER = 1, MAX_LIMIT_REACHED = 12, NOT_INITIALIZED = 15, INVALID_KIND = 21, MULTIPLE = 39 };
enum { UNKNOWN = 999, QUEUE_EMPTY = 19 };
enum {
  KIND_MEMCPY = 1,
  KIND_MEMSET = 2,
  KIND_DRIVER = 4,
  KIND_RUNTIME = 5,
  KIND_DEVICE = 8,
  KIND_KERNEL = 10,
  KIND_OVERHEAD = 17,
  KIND_MEMCPY2 = 22,
  KIND_SYNC = 38,
  KIND_EXTERNAL = 39,
  KIND_MEMORY2 = 49,
  KIND_POOL = 50,
  KIND_GRAPH = 51,
  KIND_NOBODY_KNOWS = 200,
  KINDS = 256
};

/* Record sizes of CUDA 11.0, 13.5 and 12.4. */
#if defined(FAKE_CUPTI_11)
enum { SIZE_KERNEL = 160, SIZE_MEMCPY = 72, SIZE_PEER = 80, SIZE_MEMSET = 72, SIZE_DEVICE = 152, SIZE_SYNC = 40 };
enum { SIZE_MEMORY2 = 112, SIZE_GRAPH = 48, SIZE_OVERHEAD = 40, SIZE_POOL = 64, VERSION = 13 };
#elif defined(FAKE_CUPTI_13)
enum { SIZE_KERNEL = 248, SIZE_MEMCPY = 112, SIZE_PEER = 96, SIZE_MEMSET = 104, SIZE_DEVICE = 192, SIZE_SYNC = 56 };
enum { SIZE_MEMORY2 = 128, SIZE_GRAPH = 56, SIZE_OVERHEAD = 56, SIZE_POOL = 80, VERSION = 130500 };
#else
enum { SIZE_KERNEL = 208, SIZE_MEMCPY = 88, SIZE_PEER = 88, SIZE_MEMSET = 80, SIZE_DEVICE = 176, SIZE_SYNC = 40 };
enum { SIZE_MEMORY2 = 120, SIZE_GRAPH = 56, SIZE_OVERHEAD = 56, SIZE_POOL = 72, VERSION = 22 };
#endif
enum { SIZE_API = 40, SIZE_EXTERNAL = 24, SIZE_UNKNOWN = 64, SIZE_LARGEST = SIZE_KERNEL };

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef void (*request_v2_fn)(uint8_t **, size_t *, size_t *, void *);
typedef void (*complete_v2_fn)(uint8_t *, size_t, size_t, void *);
typedef void (*callback_fn)(void *, int, uint32_t, const void *);

/* A record that waits for its time. */
#define PENDING 65536
struct pending {
  uint64_t ready_at, end;
  uint16_t size;
  uint8_t end_offset; /* where `end` stands; 0: none */
  uint8_t bytes[SIZE_LARGEST];
};

/* What a subscriber of the second interface has of its own; sessions[0] is the first interface's. */
#define SESSIONS 5
static struct session {
  bool used; /* subscribed */
  bool kinds[KINDS];
  bool driver_launches, context_callback;
  request_fn request;
  complete_fn complete;
  request_v2_fn request_v2;
  complete_v2_fn complete_v2;
  callback_fn callback;
  void *user;
  uint64_t (*own_clock)(void);
  int64_t clock_lead;
  int thread_ids;        /* 0 pthread_self(), 1 gettid */
  struct pending *queue; /* PENDING of them */
  unsigned queued;
  uint8_t *buffer;
  size_t buffer_size, buffer_used, dropped;
  uint64_t record_number, kernel_number;
  _Atomic uint64_t calls;
} sessions[SESSIONS];
/* Ids that this thread has pushed, by kind (1 to 5). */
#define EXTERNAL_KINDS 6
#define EXTERNAL_DEPTH 16
static _Thread_local struct external_stack {
  unsigned depth;
  uint64_t ids[EXTERNAL_DEPTH];
} external_ids[SESSIONS][EXTERNAL_KINDS];

static int whole_graphs_for_all = -1; /* second interface; -1: not decided */
static atomic_flag lock = ATOMIC_FLAG_INIT;

static uint64_t option(const char *word)
{
  const char *all = getenv("FAKE_CUPTI");
  size_t length = strlen(word);
  for (const char *at = all; at != NULL && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, word, length) == 0)
      return at[length] == '=' ? strtoull(at + length + 1, NULL, 10) : 1;
  return 0;
}

static void take_lock(void)
{
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
    syscall(SYS_sched_yield);
}
static void drop_lock(void)
{
  atomic_flag_clear_explicit(&lock, memory_order_release);
}

#ifndef FAKE_CUPTI_11
/* How far a clock is ahead of the simulation's (CLOCK_MONOTONIC); the closest of some readings, in whole milliseconds.
 */
static int64_t clock_lead(uint64_t (*clock)(void))
{
  int64_t lead = 0;
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 10; i++) {
    uint64_t before = fake_now(), theirs = clock(), width = fake_now() - before;
    if (width < best) {
      best = width;
      lead = (int64_t)(theirs - before - width / 2);
    }
  }
  return lead > -1000000 && lead < 1000000 ? 0 : lead;
}

static uint64_t real_time(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void set_clock(struct session *s, uint64_t (*clock)(void))
{
  s->own_clock = clock;
  s->clock_lead = clock_lead(clock ? clock : real_time);
}
#endif

/* The simulation's time as this session shows it. */
static uint64_t shown(const struct session *s, uint64_t ns)
{
  if (ns == 0)
    return 0;
#ifdef FAKE_CUPTI_11
  (void)s;
  return 1700000000000000000u + ns + ns / 20000; /* 50 ppm fast */
#else
  return ns + (uint64_t)s->clock_lead;
#endif
}

static void put16(uint8_t *at, unsigned offset, uint16_t value)
{
  memcpy(at + offset, &value, sizeof value);
}
static void put32(uint8_t *at, unsigned offset, uint32_t value)
{
  memcpy(at + offset, &value, sizeof value);
}
static void put64(uint8_t *at, unsigned offset, uint64_t value)
{
  memcpy(at + offset, &value, sizeof value);
}

__attribute__((destructor)) static void say_statistics(void)
{
  uint64_t records = 0;
  for (int i = 0; i < SESSIONS; i++)
    records += sessions[i].record_number;
  if (option("statistics") != 0)
    dprintf(2, "fake CUPTI: %llu records\n", (unsigned long long)records);
}

/* ---- delivery; lock held ---- */

static bool registered(const struct session *s)
{
  return s->request != NULL || s->request_v2 != NULL;
}

static bool have_buffer(struct session *s)
{
  size_t max_records = 0;
  if (s->buffer != NULL || !registered(s))
    return s->buffer != NULL;
  s->buffer_used = 0;
  if (s->request_v2 != NULL)
    s->request_v2(&s->buffer, &s->buffer_size, &max_records, &(size_t){sizeof(size_t)});
  else
    s->request(&s->buffer, &s->buffer_size, &max_records);
  return s->buffer != NULL;
}

static void give_buffer(struct session *s)
{
  uint8_t *full = s->buffer;
  size_t used = s->buffer_used, size = s->buffer_size;
  s->buffer = NULL;
  s->buffer_used = 0;
  if (full != NULL && s->complete_v2 != NULL)
    s->complete_v2(full, size, used, &(size_t){sizeof(size_t)});
  else if (full != NULL && s->complete != NULL)
    s->complete(NULL, 0, full, size, used);
}

static void write_out(struct session *s, const struct pending *p)
{
  if (s->buffer != NULL && s->buffer_used + p->size > s->buffer_size)
    give_buffer(s);
  if (!have_buffer(s)) {
    s->dropped++;
    return;
  }
  memcpy(s->buffer + s->buffer_used, p->bytes, p->size);
  s->buffer_used += p->size;
}

/* Moves what is ready (or everything) to the buffer. */
static void move_ready(struct session *s, bool everything)
{
  uint64_t now = fake_now();
  unsigned kept = 0, count = s->queued;
  bool reorder = option("reorder") != 0;
  for (unsigned n = 0; n < count; n++) {
    struct pending *p = &s->queue[reorder ? count - 1 - n : n];
    bool ready = p->ready_at <= now;
    if (!ready && !everything) {
      kept++;
      continue;
    }
    if (!ready && p->end_offset != 0 && p->end > now)
      put64(p->bytes, p->end_offset, 0); /* forced out before its end is known */
    write_out(s, p);
    p->size = 0;
  }
  unsigned out = 0;
  for (unsigned n = 0; n < count; n++)
    if (s->queue[n].size != 0) {
      if (out != n)
        s->queue[out] = s->queue[n];
      out++;
    }
  s->queued = kept;
}

static void enqueue(struct session *s, const uint8_t *bytes, unsigned size, uint64_t end, unsigned end_offset)
{
  uint64_t every = option("drop");
  s->record_number++;
  if (every != 0 && s->record_number % every == 0) {
    s->dropped++;
    return;
  }
  if (s->queue == NULL)
    s->queue = (struct pending *)fake_memory_new(sizeof(struct pending) * PENDING, true);
  if (s->queued == PENDING)
    move_ready(s, false);
  if (s->queue == NULL || s->queued == PENDING) {
    s->dropped++;
    return;
  }
  struct pending *p = &s->queue[s->queued++];
  p->ready_at = end + option("late") * 1000000u;
  p->end = end;
  p->size = (uint16_t)size;
  p->end_offset = (uint8_t)end_offset;
  memcpy(p->bytes, bytes, size);
}

static void add(struct session *s, uint8_t *bytes, unsigned size, uint64_t end, unsigned end_offset)
{
  uint64_t unknown = option("unknown");
  take_lock();
  if (have_buffer(s) || registered(s)) {
    if (unknown != 0 && (s->record_number + 1) % unknown == 0) {
      uint8_t nobody[SIZE_UNKNOWN] = {KIND_NOBODY_KNOWS};
      s->record_number++;
      enqueue(s, nobody, sizeof nobody, end, 0);
    }
    enqueue(s, bytes, size, end, end_offset);
  }
  drop_lock();
}

/* ---- what the simulation reports ---- */

/* The API record is preceded by one record for each kind (cuptiActivityPushExternalCorrelationId). */
static void on_external(struct session *s, const struct fake_api *api)
{
  for (uint32_t kind = 1; kind < EXTERNAL_KINDS && s->kinds[KIND_EXTERNAL]; kind++) {
    const struct external_stack *stack = &external_ids[s - sessions][kind];
    uint8_t r[SIZE_EXTERNAL] = {0};
    if (stack->depth == 0)
      continue;
    put32(r, 0, KIND_EXTERNAL);
    put32(r, 4, kind);
    put64(r, 8, stack->ids[stack->depth - 1]);
    put32(r, 16, api->correlation);
    add(s, r, sizeof r, api->end, 0);
  }
}

static void on_api(struct session *s, const struct fake_api *api);
static void on_nested(struct session *s, const struct fake_api *api)
{
  static const struct {
    uint32_t runtime, driver;
  } inside[] = {{211, 307}, {214, 307}, {165, 17}, {131, 126}}; /* launches, synchronisations of device and stream */
  for (unsigned i = 0; i < sizeof inside / sizeof *inside && api->domain == 2; i++)
    if (inside[i].runtime == api->cbid) {
      struct fake_api inner = *api;
      inner.domain = 1;
      inner.cbid = inside[i].driver;
      inner.start += (api->end - api->start) / 4;
      inner.end -= (api->end - api->start) / 4;
      on_api(s, &inner);
    }
}

static void on_api(struct session *s, const struct fake_api *api)
{
  if (option("nested") != 0)
    on_nested(s, api);
  int kind = api->domain == 1 ? KIND_DRIVER : KIND_RUNTIME;
  bool launch = api->domain == 1 && (s->kinds[KIND_DRIVER] || api->cbid == 307 || api->cbid == 652);
  uint8_t r[SIZE_API] = {0};
  if (!s->kinds[kind] && !(launch && s->driver_launches))
    return;
  if (atomic_fetch_add(&s->calls, 1) < option("deaf"))
    return;
  on_external(s, api);
  put32(r, 0, (uint32_t)kind);
  put32(r, 4, api->cbid);
  put64(r, 8, shown(s, api->start));
  put64(r, 16, shown(s, api->end));
  put32(r, 24, (uint32_t)getpid());
  put32(r, 28, s->thread_ids == 1 ? api->thread : (uint32_t)(uintptr_t)pthread_self());
  put32(r, 32, api->correlation);
  put32(r, 36, api->result);
  add(s, r, sizeof r, api->end, 0);
}

static void put_graph(uint8_t *r, unsigned size, unsigned node_offset, const struct fake_work *w)
{
  if (size >= node_offset + 8)
    put64(r, node_offset, w->graph_node);
  if (size >= node_offset + 16)
    put32(r, node_offset + 8, w->graph);
}

/* CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING of the process, 10 us before the work. */
static void on_overhead(struct session *s, const struct fake_work *w)
{
  uint8_t r[SIZE_OVERHEAD] = {0};
  if (!s->kinds[KIND_OVERHEAD])
    return;
  put32(r, 0, KIND_OVERHEAD);
  put32(r, 4, 5 << 16);
  put32(r, 8, 1);
  put32(r, 12, (uint32_t)getpid());
  put64(r, 24, shown(s, w->start - 10000));
  put64(r, 32, shown(s, w->start));
  add(s, r, sizeof r, w->start, 0);
}

static void on_kernel(struct session *s, const struct fake_work *w)
{
  uint8_t r[SIZE_KERNEL] = {0};
  uint64_t bad = option("bad");
  s->kernel_number++;
  if (option("overhead") != 0 && s->kernel_number % option("overhead") == 0)
    on_overhead(s, w);
  put32(r, 0, KIND_KERNEL);
  put16(r, 6, 32);
  put64(r, 16, shown(s, w->start));
  put64(r, 24, shown(s, w->end));
  if (bad != 0 && s->kernel_number % (2 * bad) == 0)
    put64(r, 16, shown(s, w->end) + 1000);
  else if (bad != 0 && s->kernel_number % bad == 0)
    put64(r, 24, 0);
  put32(r, 40, w->device);
  put32(r, 44, w->context);
  put32(r, 48, w->stream);
  for (int i = 0; i < 3; i++) {
    put32(r, 52 + 4 * (unsigned)i, w->grid[i]);
    put32(r, 64 + 4 * (unsigned)i, w->block[i]);
  }
  put32(r, 80, w->shared);
  put32(r, 92, w->correlation);
  put64(r, 104, (uint64_t)(uintptr_t)w->name);
  put64(r, 144, w->graph_node);
  put32(r, 156, w->graph);
  add(s, r, sizeof r, w->end, 24);
}

static void on_copy(struct session *s, const struct fake_work *w)
{
  bool peer = w->kind == FAKE_MEMCPY_PEER;
  uint8_t r[SIZE_PEER > SIZE_MEMCPY ? SIZE_PEER : SIZE_MEMCPY] = {0};
  put32(r, 0, peer ? KIND_MEMCPY2 : KIND_MEMCPY);
  r[4] = w->copy_kind;
  r[5] = w->src_kind;
  r[6] = w->dst_kind;
  r[7] = w->flags;
  put64(r, 8, w->bytes);
  put64(r, 16, shown(s, w->start));
  put64(r, 24, shown(s, w->end));
  put32(r, 32, w->device);
  put32(r, 36, w->context);
  put32(r, 40, w->stream);
  put32(r, peer ? 60 : 44, w->correlation);
  if (peer)
    put32(r, 52, w->peer_device);
  put_graph(r, peer ? SIZE_PEER : SIZE_MEMCPY, peer ? 72 : 64, w);
  add(s, r, peer ? SIZE_PEER : SIZE_MEMCPY, w->end, 24);
}

static void on_set(struct session *s, const struct fake_work *w)
{
  uint8_t r[SIZE_MEMSET] = {0};
  put32(r, 0, KIND_MEMSET);
  put32(r, 4, w->value);
  put64(r, 8, w->bytes);
  put64(r, 16, shown(s, w->start));
  put64(r, 24, shown(s, w->end));
  put32(r, 32, w->device);
  put32(r, 36, w->context);
  put32(r, 40, w->stream);
  put32(r, 44, w->correlation);
  put16(r, 48, w->flags);
  put16(r, 50, w->dst_kind);
  put_graph(r, SIZE_MEMSET, 64, w);
  add(s, r, sizeof r, w->end, 24);
}

static void on_graph(struct session *s, const struct fake_work *w)
{
  uint8_t r[SIZE_GRAPH] = {0};
  put32(r, 0, KIND_GRAPH);
  put32(r, 4, w->correlation);
  put64(r, 8, shown(s, w->start));
  put64(r, 16, shown(s, w->end));
  put32(r, 24, w->device);
  put32(r, 28, w->graph);
  put32(r, 32, w->context);
  put32(r, 36, w->stream);
  add(s, r, sizeof r, w->end, 16);
}

static void on_work(struct session *s, const struct fake_work *w)
{
  static const int kind_of[] = {KIND_KERNEL, KIND_MEMCPY, KIND_MEMCPY2, KIND_MEMSET, KIND_GRAPH};
  if (!s->kinds[kind_of[w->kind]])
    return;
  switch (w->kind) {
  case FAKE_KERNEL:
    on_kernel(s, w);
    break;
  case FAKE_MEMCPY:
  case FAKE_MEMCPY_PEER:
    on_copy(s, w);
    break;
  case FAKE_MEMSET:
    on_set(s, w);
    break;
  case FAKE_GRAPH:
    on_graph(s, w);
    break;
  }
}

static void on_sync(struct session *s, const struct fake_sync *y)
{
  uint8_t r[SIZE_SYNC] = {0};
  if (!s->kinds[KIND_SYNC])
    return;
  put32(r, 0, KIND_SYNC);
  put32(r, 4, y->type);
  put64(r, 8, shown(s, y->start));
  put64(r, 16, shown(s, y->end));
  put32(r, 24, y->correlation);
  put32(r, 28, y->context);
  put32(r, 32, y->stream);
  put32(r, 36, y->event);
  add(s, r, sizeof r, y->end, 0);
}

static void on_memory(struct session *s, const struct fake_memory *m)
{
  uint8_t r[SIZE_MEMORY2] = {0};
  if (!s->kinds[KIND_MEMORY2])
    return;
  put32(r, 0, KIND_MEMORY2);
  put32(r, 4, m->operation);
  put32(r, 8, m->kind);
  put32(r, 12, m->correlation);
  put64(r, 16, m->address);
  put64(r, 24, m->bytes);
  put64(r, 32, shown(s, m->at));
  put32(r, 48, (uint32_t)getpid());
  put32(r, 52, m->device);
  put32(r, 56, m->context);
  put32(r, 60, m->stream);
  add(s, r, sizeof r, m->at, 0);
}

/* Pools (cudaMemPoolCreate, Destroy, TrimTo). */
static void on_pool(struct session *s, const struct fake_pool *p)
{
  uint8_t r[SIZE_POOL] = {0};
  if (!s->kinds[KIND_POOL])
    return;
  put32(r, 0, KIND_POOL);
  put32(r, 4, p->operation);
  put32(r, 8, 1); /* local */
  put32(r, 12, p->correlation);
  put32(r, 16, (uint32_t)getpid());
  put32(r, 20, p->device);
  put64(r, 24, p->keep);
  put64(r, 32, p->address);
  put64(r, 40, p->size);
  put64(r, 48, p->threshold);
  put64(r, 56, shown(s, p->at));
  if (SIZE_POOL >= 72)
    put64(r, 64, p->used);
  add(s, r, sizeof r, p->at, 0);
}

/* CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED (cupti_callbacks.h) */
static void on_context(struct session *s)
{
  if (s->callback != NULL && s->context_callback)
    s->callback(s->user, 3, 1, NULL);
}

static bool whole_graphs(void)
{
  return sessions[0].kinds[KIND_GRAPH] || whole_graphs_for_all == 1;
}

static void report_devices(struct session *s)
{
  for (int device = 0; device < fake_device_count(); device++) {
    uint8_t r[SIZE_DEVICE] = {0};
    put32(r, 0, KIND_DEVICE);
    put64(r, 16, 80ull << 30);
    put32(r, 32, 32);      /* threads of a warp */
    put32(r, 36, 1410000); /* kHz */
    put32(r, 44, 108);     /* multiprocessors */
    put32(r, 52, 64);      /* of one: warps, blocks, bytes of shared memory, registers */
    put32(r, 56, 32);
    put32(r, 60, 167936);
    put32(r, 64, 65536);
    put32(r, 68, 65536); /* of a block: registers, bytes of shared memory, threads */
    put32(r, 72, 49152);
    put32(r, 76, 1024);
    put32(r, 104, 8);
    put32(r, 108, 0);
    put32(r, 112, (uint32_t)device);
    for (unsigned i = 0; i < 16; i++) /* UUID: the fake NVML knows the device by it */
      r[120 + i] = (uint8_t)(i == 0 ? (unsigned)device : i);
    put64(r, 136, (uint64_t)(uintptr_t)fake_device_name());
    add(s, r, sizeof r, fake_now(), 0);
  }
}

#define EACH(report, type)                                                                                             \
  static void all_##report(const struct type *what)                                                                    \
  {                                                                                                                    \
    for (int i = 0; i < SESSIONS; i++)                                                                                 \
      on_##report(&sessions[i], what);                                                                                 \
  }
EACH(api, fake_api)
EACH(work, fake_work)
EACH(sync, fake_sync)
EACH(memory, fake_memory)
EACH(pool, fake_pool)

static void all_context(void)
{
  for (int i = 0; i < SESSIONS; i++)
    on_context(&sessions[i]);
}

static const struct fake_tool tool = {all_api, all_work, all_sync, all_memory, all_pool, whole_graphs, all_context};

/* ---- the interface ---- */

#define API FAKE_EXPORT

/* Without a driver only the version and the time work (tried on CUPTI 13.0). */
static bool driver(void)
{
  static bool found;
  if (!found) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    found = handle != NULL;
  }
  return found;
}

/* Whoever comes after the exit handlers would crash the real library now and then. */
static void check_teardown(const char *function)
{
  if (fake_is_torn_down()) {
    static const char text[] = "fake CUPTI: called after teardown: ";
    if (write(2, text, sizeof text - 1) < 0 || write(2, function, strlen(function)) < 0 || write(2, "\n", 1) < 0)
      return;
  }
}

API int cuptiGetVersion(uint32_t *version);
int cuptiGetVersion(uint32_t *version)
{
  if (option("crash") != 0)
    __builtin_trap();
  *version = VERSION;
  return OK;
}
API int cuptiGetTimestamp(uint64_t *now);
int cuptiGetTimestamp(uint64_t *now)
{
  *now = shown(&sessions[0], fake_now());
  return OK;
}

/* The two interfaces exclude each other. */
static bool second_in_use(void)
{
  for (int i = 1; i < SESSIONS; i++)
    if (sessions[i].used)
      return true;
  return false;
}

API int cuptiSubscribe(void **handle, callback_fn function, void *user);
int cuptiSubscribe(void **handle, callback_fn function, void *user)
{
  struct session *s = &sessions[0];
  check_teardown("cuptiSubscribe");
  if (!driver())
    return UNKNOWN;
  if (option("subscribe") != 0)
    return (int)option("subscribe");
  if (s->used || second_in_use())
    return MULTIPLE;
  *handle = s;
  s->used = true;
  s->callback = function;
  s->user = user;
  s->context_callback = false;
  fake_set_tool(&tool);
  return OK;
}
static struct session *session_of(void *handle)
{
  struct session *s = handle;
  return s >= sessions && s < sessions + SESSIONS && s->used ? s : NULL;
}
API int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t cbid);
int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t cbid)
{
  struct session *s = session_of(handle);
  if (s == NULL)
    return INVALID_PARAMETER;
  if (domain == 3 && cbid == 1)
    s->context_callback = enable != 0;
  return OK;
}
API int cuptiUnsubscribe(void *handle);
int cuptiUnsubscribe(void *handle)
{
  struct session *s = session_of(handle);
  check_teardown("cuptiUnsubscribe");
  if (s == NULL)
    return INVALID_PARAMETER;
  s->used = false;
  s->callback = NULL;
  if (s != &sessions[0])
    memset(s, 0, offsetof(struct session, queue)); /* kinds and buffers are its own */
  return OK;
}
static int enable(struct session *s, int kind)
{
  if (!driver())
    return UNKNOWN;
  if (kind <= 0 || kind >= KINDS)
    return INVALID_KIND;
  if (kind == KIND_KERNEL && option("enable") != 0)
    return (int)option("enable");
#ifdef FAKE_CUPTI_11
  if (kind > KIND_POOL)
    return INVALID_KIND;
#endif
  fake_set_tool(&tool); /* the activity interface works without a subscriber, too */
#ifndef FAKE_CUPTI_11
  if (s->own_clock == NULL)
    set_clock(s, NULL);
#endif
  s->kinds[kind] = true;
  if (kind == KIND_DEVICE)
    report_devices(s);
  return OK;
}
API int cuptiActivityEnable(int kind);
int cuptiActivityEnable(int kind)
{
  check_teardown("cuptiActivityEnable");
  return second_in_use() ? MULTIPLE : enable(&sessions[0], kind);
}
API int cuptiActivityDisable(int kind);
int cuptiActivityDisable(int kind)
{
  check_teardown("cuptiActivityDisable");
  if (kind <= 0 || kind >= KINDS)
    return INVALID_KIND;
  sessions[0].kinds[kind] = false;
  return OK;
}
API int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete);
int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete)
{
  check_teardown("cuptiActivityRegisterCallbacks");
  if (request == NULL || complete == NULL)
    return INVALID_PARAMETER;
  if (second_in_use())
    return MULTIPLE;
  take_lock();
  sessions[0].request = request;
  sessions[0].complete = complete;
  drop_lock();
  return OK;
}
API int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityFlushAll(uint32_t flag)
{
  int result = 7; /* CUPTI_ERROR_INVALID_OPERATION: callbacks not registered */
  check_teardown("cuptiActivityFlushAll");
  take_lock();
  for (struct session *s = sessions; s < sessions + SESSIONS; s++) {
    if (s->complete == NULL && s->complete_v2 == NULL)
      continue;
    result = OK;
    move_ready(s, (flag & 1) != 0);
    /* An unforced flush keeps a buffer while one of its records is unfinished; there is one buffer here. */
    if ((flag & 1) != 0 || s->queued == 0)
      give_buffer(s);
  }
  drop_lock();
  return result;
}
API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
  (void)context, (void)stream;
  *count = sessions[0].dropped;
  sessions[0].dropped = 0;
  return OK;
}

static size_t record_size(uint32_t kind)
{
  switch (kind) {
  case KIND_MEMCPY:
    return SIZE_MEMCPY;
  case KIND_MEMSET:
    return SIZE_MEMSET;
  case KIND_DRIVER:
  case KIND_RUNTIME:
    return SIZE_API;
  case KIND_DEVICE:
    return SIZE_DEVICE;
  case KIND_KERNEL:
    return SIZE_KERNEL;
  case KIND_OVERHEAD:
    return SIZE_OVERHEAD;
  case KIND_MEMCPY2:
    return SIZE_PEER;
  case KIND_SYNC:
    return SIZE_SYNC;
  case KIND_EXTERNAL:
    return SIZE_EXTERNAL;
  case KIND_MEMORY2:
    return SIZE_MEMORY2;
  case KIND_POOL:
    return SIZE_POOL;
  case KIND_GRAPH:
    return SIZE_GRAPH;
  case KIND_NOBODY_KNOWS:
    return SIZE_UNKNOWN;
  default:
    return 0;
  }
}

/* As the real one, it reads the previous record's kind to find the next. */
API int cuptiActivityGetNextRecord(uint8_t *bytes, size_t valid, void **record);
int cuptiActivityGetNextRecord(uint8_t *bytes, size_t valid, void **record)
{
  uint8_t *at = bytes;
  uint32_t kind;
  if (bytes == NULL)
    return INVALID_PARAMETER;
  if (*record != NULL) {
    memcpy(&kind, *record, sizeof kind);
    size_t size = record_size(kind);
    if (size == 0)
      return INVALID_KIND;
    at = (uint8_t *)*record + size;
  }
  if (at >= bytes + valid)
    return MAX_LIMIT_REACHED;
  *record = at;
  return OK;
}

API int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name);
int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name)
{
  static const struct {
    int domain;
    uint32_t cbid;
    const char *name;
  } names[] = {
#include "fake_cbids.h"
  };
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].domain == domain && names[i].cbid == cbid) {
      *name = names[i].name;
      return OK;
    }
  return INVALID_PARAMETER;
}

static int push_external(const struct session *s, int kind, uint64_t id)
{
  if (kind <= 0 || kind >= EXTERNAL_KINDS)
    return INVALID_PARAMETER;
  struct external_stack *stack = &external_ids[s - sessions][kind];
  if (stack->depth == EXTERNAL_DEPTH)
    return UNKNOWN;
  stack->ids[stack->depth++] = id;
  return OK;
}
static int pop_external(const struct session *s, int kind, uint64_t *last)
{
  if (kind <= 0 || kind >= EXTERNAL_KINDS)
    return INVALID_PARAMETER;
  struct external_stack *stack = &external_ids[s - sessions][kind];
  if (stack->depth == 0)
    return QUEUE_EMPTY;
  stack->depth--;
  if (last != NULL)
    *last = stack->ids[stack->depth];
  return OK;
}
API int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
  return push_external(&sessions[0], kind, id);
}
API int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last);
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
  return pop_external(&sessions[0], kind, last);
}

/* Returns early while several subscribe. */
API int cuptiFinalize(void);
int cuptiFinalize(void)
{
  int subscribers = 0;
  check_teardown("cuptiFinalize");
  for (int i = 0; i < SESSIONS; i++)
    subscribers += sessions[i].used;
  if (subscribers > 1)
    return OK;
  fake_set_tool(NULL);
  take_lock();
  memset(sessions, 0, sizeof sessions);
  drop_lock();
  return OK;
}

#ifndef FAKE_CUPTI_11
API int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void));
int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
  if (now == NULL)
    return INVALID_PARAMETER;
  set_clock(&sessions[0], now);
  return OK;
}
API int cuptiSetThreadIdType(int type);
int cuptiSetThreadIdType(int type)
{
  if (type != 0 && type != 1)
    return 27; /* CUPTI_ERROR_NOT_SUPPORTED */
  sessions[0].thread_ids = type;
  return OK;
}
API int cuptiGetThreadIdType(int *type);
int cuptiGetThreadIdType(int *type)
{
  *type = sessions[0].thread_ids;
  return OK;
}
API int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on);
int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on)
{
  if (cbid == 307 || cbid == 652)
    sessions[0].driver_launches = on != 0;
  return OK;
}
API int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on);
int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on)
{
  (void)cbid, (void)on; /* the simulation reports what is left anyway: the decoder leaves it out, too */
  return OK;
}
#endif

#ifdef FAKE_CUPTI_13
static int several = 2; /* CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE */

struct parameters { /* CUpti_SubscriberParams */
  size_t size;
  const char *name;
  char *old_name;
  size_t old_size;
  uint8_t allow_several;
};
API int cuptiSubscribe_v2(void **handle, callback_fn function, void *user, struct parameters *parameters);
int cuptiSubscribe_v2(void **handle, callback_fn function, void *user, struct parameters *parameters)
{
  bool allows = parameters != NULL && parameters->size >= 40 && parameters->allow_several == 1;
  check_teardown("cuptiSubscribe_v2");
  if (!driver())
    return UNKNOWN;
  if (sessions[0].used || (several != 2 && several != allows) || (second_in_use() && !allows))
    return MULTIPLE;
  for (int kind = 0; kind < KINDS; kind++)
    if (sessions[0].kinds[kind])
      return MULTIPLE;
  for (int i = 1; i < SESSIONS; i++)
    if (!sessions[i].used) {
      sessions[i].used = true;
      sessions[i].callback = function;
      sessions[i].user = user;
      *handle = &sessions[i];
      several = allows;
      fake_set_tool(&tool);
      return OK;
    }
  return MULTIPLE;
}
#define SESSION(handle)                                                                                                \
  struct session *s = session_of(handle);                                                                              \
  if (s == NULL)                                                                                                       \
  return INVALID_PARAMETER

API int cuptiActivityEnable_v2(void *handle, int kind, void *config);
int cuptiActivityEnable_v2(void *handle, int kind, void *config)
{
  SESSION(handle);
  (void)config;
  check_teardown("cuptiActivityEnable_v2");
  if (kind == KIND_GRAPH && whole_graphs_for_all != 1)
    return 25; /* CUPTI_ERROR_NOT_COMPATIBLE */
  if (whole_graphs_for_all == -1)
    whole_graphs_for_all = 0; /* the first one decides */
  return enable(s, kind);
}
API int cuptiActivityDisable_v2(void *handle, int kind, void *config);
int cuptiActivityDisable_v2(void *handle, int kind, void *config)
{
  SESSION(handle);
  (void)config;
  if (kind <= 0 || kind >= KINDS)
    return INVALID_KIND;
  s->kinds[kind] = false;
  return OK;
}
API int cuptiActivityRegisterCallbacks_v2(void *handle, request_v2_fn request, complete_v2_fn complete);
int cuptiActivityRegisterCallbacks_v2(void *handle, request_v2_fn request, complete_v2_fn complete)
{
  SESSION(handle);
  if (request == NULL || complete == NULL)
    return INVALID_PARAMETER;
  take_lock();
  s->request_v2 = request;
  s->complete_v2 = complete;
  drop_lock();
  return OK;
}
API int cuptiActivityGetNextRecord_v2(void *handle, uint8_t *bytes, size_t valid, void **record);
int cuptiActivityGetNextRecord_v2(void *handle, uint8_t *bytes, size_t valid, void **record)
{
  return session_of(handle) ? cuptiActivityGetNextRecord(bytes, valid, record) : INVALID_PARAMETER;
}
API int cuptiActivityGetNumDroppedRecords_v2(void *handle, void *context, uint32_t stream, size_t *count);
int cuptiActivityGetNumDroppedRecords_v2(void *handle, void *context, uint32_t stream, size_t *count)
{
  SESSION(handle);
  (void)context, (void)stream;
  *count = s->dropped;
  s->dropped = 0;
  return OK;
}
API int cuptiActivityEnableDriverApi_v2(void *handle, uint32_t cbid, uint8_t on);
int cuptiActivityEnableDriverApi_v2(void *handle, uint32_t cbid, uint8_t on)
{
  SESSION(handle);
  if (cbid == 307 || cbid == 652)
    s->driver_launches = on != 0;
  return OK;
}
API int cuptiActivityEnableRuntimeApi_v2(void *handle, uint32_t cbid, uint8_t on);
int cuptiActivityEnableRuntimeApi_v2(void *handle, uint32_t cbid, uint8_t on)
{
  (void)cbid, (void)on;
  return session_of(handle) ? OK : INVALID_PARAMETER;
}
API int cuptiActivityGetAttribute_v2(void *handle, int attribute, size_t *size, void *value);
int cuptiActivityGetAttribute_v2(void *handle, int attribute, size_t *size, void *value)
{
  (void)handle; /* these two are everybody's */
  if (attribute != 12 && attribute != 20)
    return INVALID_PARAMETER;
  if (*size < 1)
    return 6; /* CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT */
  *(uint8_t *)value = attribute == 12 ? (uint8_t)several : whole_graphs_for_all == 1;
  return OK;
}
API int cuptiActivitySetAttribute_v2(void *handle, int attribute, size_t *size, void *value);
int cuptiActivitySetAttribute_v2(void *handle, int attribute, size_t *size, void *value)
{
  SESSION(handle);
  if (attribute == 20 && *size >= 1) {
    if (whole_graphs_for_all != -1 && whole_graphs_for_all != *(uint8_t *)value)
      return 25;
    whole_graphs_for_all = *(uint8_t *)value;
  } else if (attribute == 21 && *size >= sizeof(int)) {
    memcpy(&s->thread_ids, value, sizeof(int));
  } else if (attribute == 22 && *size >= sizeof(void *)) {
    uint64_t (*clock)(void);
    memcpy(&clock, value, sizeof clock);
    set_clock(s, clock);
  } else {
    return INVALID_PARAMETER;
  }
  return OK;
}
API int cuptiActivityGetEnabledKinds(void *handle, int *kinds, uint32_t *size, uint32_t *count);
int cuptiActivityGetEnabledKinds(void *handle, int *kinds, uint32_t *size, uint32_t *count)
{
  (void)kinds, (void)size;
  *count = 0;
  for (int kind = 0; kind < KINDS; kind++)
    for (int i = 1; i < SESSIONS; i++)
      if ((handle == NULL || handle == &sessions[i]) && sessions[i].kinds[kind]) {
        ++*count;
        break;
      }
  return OK;
}
API int cuptiGetTimestamp_v2(void *handle, uint64_t *now);
int cuptiGetTimestamp_v2(void *handle, uint64_t *now)
{
  SESSION(handle);
  *now = shown(s, fake_now());
  return OK;
}
#endif
