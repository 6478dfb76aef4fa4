/* libcupti.so: the activity interface (cupti_activity.h, cupti_callbacks.h) over the simulation.
 *
 * Records are written by byte offset, not through opgap's declarations, so that an error there does not cancel out;
 * tests/gpu/abi_check.c compares both with the real headers.  FAKE_CUPTI_11 (compile time) gives CUPTI 11's record
 * sizes and leaves out what came later; its clock is then CLOCK_REALTIME with an offset and a drift, as without a
 * timestamp callback.
 *
 * Delivery (cupti_activity.h, cuptiActivityFlushAll): an unforced flush returns finished records, a forced one also the
 * unfinished, with end 0.  A buffer is asked for when a record needs one, on the thread at hand.
 *
 * FAKE_CUPTI: words separated by commas
 *   subscribe=N, enable=N   result of cuptiSubscribe, of enabling the kernel kind
 *   drop=N                  every Nth record is dropped and counted
 *   bad=N                   every Nth kernel has end 0, every 2Nth start > end
 *   unknown=N               before every Nth record one of a kind nobody knows (200)
 *   late=MS                 records appear so much after their end
 *   reorder                 each flush gives its records in reverse
 */
#include "fake_gpu.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_PARAMETER = 1, MAX_LIMIT_REACHED = 12, NOT_INITIALIZED = 15, INVALID_KIND = 21, MULTIPLE = 39 };
enum { UNKNOWN = 999 };
enum {
  KIND_MEMCPY = 1,
  KIND_MEMSET = 2,
  KIND_DRIVER = 4,
  KIND_RUNTIME = 5,
  KIND_DEVICE = 8,
  KIND_KERNEL = 10,
  KIND_MEMCPY2 = 22,
  KIND_SYNC = 38,
  KIND_MEMORY2 = 49,
  KIND_GRAPH = 51,
  KIND_NOBODY_KNOWS = 200,
  KINDS = 256
};

/* Record sizes of CUDA 11.0, and of 12.4 and later. */
#ifdef FAKE_CUPTI_11
enum { SIZE_KERNEL = 160, SIZE_MEMCPY = 72, SIZE_PEER = 80, SIZE_MEMSET = 72, SIZE_DEVICE = 152, SIZE_SYNC = 40 };
enum { VERSION = 13 };
#else
enum { SIZE_KERNEL = 208, SIZE_MEMCPY = 88, SIZE_PEER = 88, SIZE_MEMSET = 80, SIZE_DEVICE = 176, SIZE_SYNC = 40 };
enum { VERSION = 22 };
#endif
enum { SIZE_API = 40, SIZE_MEMORY2 = 128, SIZE_GRAPH = 48, SIZE_UNKNOWN = 64 };

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

/* A record that waits for its time. */
#define PENDING 65536
struct pending {
  uint64_t ready_at, end;
  uint16_t size;
  uint8_t end_offset; /* where `end` stands; 0: none */
  uint8_t bytes[SIZE_KERNEL];
};
static struct pending *queue; /* PENDING of them */
static unsigned queued;

static atomic_flag lock = ATOMIC_FLAG_INIT;
static bool kinds[KINDS];
static request_fn request;
static complete_fn complete;
static void *subscriber;
static void (*callback)(void *, int, uint32_t, const void *);
static void *callback_user;
static bool context_callback;
static uint64_t (*own_clock)(void);
static uint8_t *buffer;
static size_t buffer_size, buffer_used;
static size_t dropped;
static uint64_t record_number, kernel_number;

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

/* The simulation's time as this CUPTI shows it. */
static uint64_t shown(uint64_t ns)
{
#ifdef FAKE_CUPTI_11
  return ns == 0 ? 0 : 1700000000000000000u + ns + ns / 20000; /* 50 ppm fast */
#else
  struct timespec t;
  if (own_clock != NULL || ns == 0)
    return ns; /* the client's clock is the simulation's */
  clock_gettime(CLOCK_REALTIME, &t);
  return ns + (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - fake_now();
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

/* ---- delivery; lock held ---- */

static bool have_buffer(void)
{
  size_t max_records = 0;
  if (buffer != NULL || request == NULL)
    return buffer != NULL;
  buffer_used = 0;
  request(&buffer, &buffer_size, &max_records);
  return buffer != NULL;
}

static void give_buffer(void)
{
  uint8_t *full = buffer;
  size_t used = buffer_used, size = buffer_size;
  buffer = NULL;
  buffer_used = 0;
  if (full != NULL && complete != NULL)
    complete(NULL, 0, full, size, used);
}

static void write_out(const struct pending *p)
{
  if (buffer != NULL && buffer_used + p->size > buffer_size)
    give_buffer();
  if (!have_buffer()) {
    dropped++;
    return;
  }
  memcpy(buffer + buffer_used, p->bytes, p->size);
  buffer_used += p->size;
}

/* Moves what is ready (or everything) to the buffer. */
static void move_ready(bool everything)
{
  uint64_t now = fake_now();
  unsigned kept = 0, count = queued;
  bool reorder = option("reorder") != 0;
  for (unsigned n = 0; n < count; n++) {
    struct pending *p = &queue[reorder ? count - 1 - n : n];
    bool ready = p->ready_at <= now;
    if (!ready && !everything) {
      kept++;
      continue;
    }
    if (!ready && p->end_offset != 0 && p->end > now)
      put64(p->bytes, p->end_offset, 0); /* forced out before its end is known */
    write_out(p);
    p->size = 0;
  }
  unsigned out = 0;
  for (unsigned n = 0; n < count; n++)
    if (queue[n].size != 0) {
      if (out != n)
        queue[out] = queue[n];
      out++;
    }
  queued = kept;
}

static void enqueue(const uint8_t *bytes, unsigned size, uint64_t end, unsigned end_offset)
{
  uint64_t every = option("drop");
  record_number++;
  if (every != 0 && record_number % every == 0) {
    dropped++;
    return;
  }
  if (queue == NULL)
    queue = (struct pending *)fake_memory_new(sizeof(struct pending) * PENDING, true);
  if (queued == PENDING)
    move_ready(false);
  if (queue == NULL || queued == PENDING) {
    dropped++;
    return;
  }
  struct pending *p = &queue[queued++];
  p->ready_at = end + option("late") * 1000000u;
  p->end = end;
  p->size = (uint16_t)size;
  p->end_offset = (uint8_t)end_offset;
  memcpy(p->bytes, bytes, size);
}

static void add(uint8_t *bytes, unsigned size, uint64_t end, unsigned end_offset)
{
  uint64_t unknown = option("unknown");
  take_lock();
  if (have_buffer() || request != NULL) {
    if (unknown != 0 && (record_number + 1) % unknown == 0) {
      uint8_t nobody[SIZE_UNKNOWN] = {KIND_NOBODY_KNOWS};
      record_number++;
      enqueue(nobody, sizeof nobody, end, 0);
    }
    enqueue(bytes, size, end, end_offset);
  }
  drop_lock();
}

/* ---- what the simulation reports ---- */

static void on_api(const struct fake_api *api)
{
  int kind = api->domain == 1 ? KIND_DRIVER : KIND_RUNTIME;
  bool launch = api->domain == 1 && (kinds[KIND_DRIVER] || api->cbid == 307 || api->cbid == 652);
  uint8_t r[SIZE_API] = {0};
  if (!kinds[kind] && !(launch && kinds[0]))
    return;
  put32(r, 0, (uint32_t)kind);
  put32(r, 4, api->cbid);
  put64(r, 8, shown(api->start));
  put64(r, 16, shown(api->end));
  put32(r, 24, (uint32_t)getpid());
  put32(r, 28, api->thread);
  put32(r, 32, api->correlation);
  put32(r, 36, api->result);
  add(r, sizeof r, api->end, 0);
}

static void put_graph(uint8_t *r, unsigned size, unsigned node_offset, const struct fake_work *w)
{
  if (size >= node_offset + 8)
    put64(r, node_offset, w->graph_node);
  if (size >= node_offset + 16)
    put32(r, node_offset + 8, w->graph);
}

static void on_kernel(const struct fake_work *w)
{
  uint8_t r[SIZE_KERNEL] = {0};
  uint64_t bad = option("bad");
  kernel_number++;
  put32(r, 0, KIND_KERNEL);
  put16(r, 6, 32);
  put64(r, 16, shown(w->start));
  put64(r, 24, shown(w->end));
  if (bad != 0 && kernel_number % (2 * bad) == 0)
    put64(r, 16, shown(w->end) + 1000);
  else if (bad != 0 && kernel_number % bad == 0)
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
  add(r, sizeof r, w->end, 24);
}

static void on_copy(const struct fake_work *w)
{
  bool peer = w->kind == FAKE_MEMCPY_PEER;
  uint8_t r[SIZE_PEER > SIZE_MEMCPY ? SIZE_PEER : SIZE_MEMCPY] = {0};
  put32(r, 0, peer ? KIND_MEMCPY2 : KIND_MEMCPY);
  r[4] = w->copy_kind;
  r[5] = w->src_kind;
  r[6] = w->dst_kind;
  r[7] = w->flags;
  put64(r, 8, w->bytes);
  put64(r, 16, shown(w->start));
  put64(r, 24, shown(w->end));
  put32(r, 32, w->device);
  put32(r, 36, w->context);
  put32(r, 40, w->stream);
  put32(r, peer ? 60 : 44, w->correlation);
  if (peer)
    put32(r, 52, w->peer_device);
  put_graph(r, peer ? SIZE_PEER : SIZE_MEMCPY, peer ? 72 : 64, w);
  add(r, peer ? SIZE_PEER : SIZE_MEMCPY, w->end, 24);
}

static void on_set(const struct fake_work *w)
{
  uint8_t r[SIZE_MEMSET] = {0};
  put32(r, 0, KIND_MEMSET);
  put32(r, 4, w->value);
  put64(r, 8, w->bytes);
  put64(r, 16, shown(w->start));
  put64(r, 24, shown(w->end));
  put32(r, 32, w->device);
  put32(r, 36, w->context);
  put32(r, 40, w->stream);
  put32(r, 44, w->correlation);
  put16(r, 48, w->flags);
  put16(r, 50, w->dst_kind);
  put_graph(r, SIZE_MEMSET, 64, w);
  add(r, sizeof r, w->end, 24);
}

static void on_graph(const struct fake_work *w)
{
  uint8_t r[SIZE_GRAPH] = {0};
  put32(r, 0, KIND_GRAPH);
  put32(r, 4, w->correlation);
  put64(r, 8, shown(w->start));
  put64(r, 16, shown(w->end));
  put32(r, 24, w->device);
  put32(r, 28, w->graph);
  put32(r, 32, w->context);
  put32(r, 36, w->stream);
  add(r, sizeof r, w->end, 16);
}

static void on_work(const struct fake_work *w)
{
  static const int kind_of[] = {KIND_KERNEL, KIND_MEMCPY, KIND_MEMCPY2, KIND_MEMSET, KIND_GRAPH};
  if (!kinds[kind_of[w->kind]])
    return;
  switch (w->kind) {
  case FAKE_KERNEL:
    on_kernel(w);
    break;
  case FAKE_MEMCPY:
  case FAKE_MEMCPY_PEER:
    on_copy(w);
    break;
  case FAKE_MEMSET:
    on_set(w);
    break;
  case FAKE_GRAPH:
    on_graph(w);
    break;
  }
}

static void on_sync(const struct fake_sync *s)
{
  uint8_t r[SIZE_SYNC] = {0};
  if (!kinds[KIND_SYNC])
    return;
  put32(r, 0, KIND_SYNC);
  put32(r, 4, s->type);
  put64(r, 8, shown(s->start));
  put64(r, 16, shown(s->end));
  put32(r, 24, s->correlation);
  put32(r, 28, s->context);
  put32(r, 32, s->stream);
  put32(r, 36, s->event);
  add(r, sizeof r, s->end, 0);
}

static void on_memory(const struct fake_memory *m)
{
  uint8_t r[SIZE_MEMORY2] = {0};
  if (!kinds[KIND_MEMORY2])
    return;
  put32(r, 0, KIND_MEMORY2);
  put32(r, 4, m->operation);
  put32(r, 8, m->kind);
  put32(r, 12, m->correlation);
  put64(r, 16, m->address);
  put64(r, 24, m->bytes);
  put64(r, 32, shown(m->at));
  put32(r, 48, (uint32_t)getpid());
  put32(r, 52, m->device);
  put32(r, 56, m->context);
  put32(r, 60, m->stream);
  add(r, sizeof r, m->at, 0);
}

/* CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED (cupti_callbacks.h) */
static void on_context(void)
{
  if (callback != NULL && context_callback)
    callback(callback_user, 3, 1, NULL);
}

static bool whole_graphs(void)
{
  return kinds[KIND_GRAPH];
}

static void report_devices(void)
{
  for (int device = 0; device < fake_device_count(); device++) {
    uint8_t r[SIZE_DEVICE] = {0};
    put32(r, 0, KIND_DEVICE);
    put64(r, 16, 80ull << 30);
    put32(r, 32, 32);      /* threads of a warp */
    put32(r, 36, 1410000); /* kHz */
    put32(r, 44, 108);     /* multiprocessors */
    put32(r, 52, 64);      /* warps of one */
    put32(r, 104, 8);
    put32(r, 108, 0);
    put32(r, 112, (uint32_t)device);
    put64(r, 136, (uint64_t)(uintptr_t)fake_device_name());
    add(r, sizeof r, fake_now(), 0);
  }
}

static const struct fake_tool tool = {on_api, on_work, on_sync, on_memory, whole_graphs, on_context};

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
  *version = VERSION;
  return OK;
}
API int cuptiGetTimestamp(uint64_t *now);
int cuptiGetTimestamp(uint64_t *now)
{
  *now = own_clock ? own_clock() : shown(fake_now());
  return OK;
}
API int cuptiSubscribe(void **handle, void (*function)(void *, int, uint32_t, const void *), void *user);
int cuptiSubscribe(void **handle, void (*function)(void *, int, uint32_t, const void *), void *user)
{
  check_teardown("cuptiSubscribe");
  if (!driver())
    return UNKNOWN;
  if (option("subscribe") != 0)
    return (int)option("subscribe");
  if (subscriber != NULL)
    return MULTIPLE;
  *handle = subscriber = &subscriber;
  callback = function;
  callback_user = user;
  context_callback = false;
  fake_set_tool(&tool);
  return OK;
}
API int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t cbid);
int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t cbid)
{
  if (handle == NULL || handle != subscriber)
    return INVALID_PARAMETER;
  if (domain == 3 && cbid == 1)
    context_callback = enable != 0;
  return OK;
}
API int cuptiUnsubscribe(void *handle);
int cuptiUnsubscribe(void *handle)
{
  check_teardown("cuptiUnsubscribe");
  if (handle == NULL || handle != subscriber)
    return INVALID_PARAMETER;
  subscriber = NULL;
  callback = NULL;
  return OK;
}
API int cuptiActivityEnable(int kind);
int cuptiActivityEnable(int kind)
{
  check_teardown("cuptiActivityEnable");
  if (!driver())
    return UNKNOWN;
  if (kind <= 0 || kind >= KINDS)
    return INVALID_KIND;
  if (kind == KIND_KERNEL && option("enable") != 0)
    return (int)option("enable");
#ifdef FAKE_CUPTI_11
  if (kind > KIND_MEMORY2)
    return INVALID_KIND;
#endif
  fake_set_tool(&tool); /* the activity interface works without a subscriber, too */
  kinds[kind] = true;
  if (kind == KIND_DEVICE)
    report_devices();
  return OK;
}
API int cuptiActivityDisable(int kind);
int cuptiActivityDisable(int kind)
{
  check_teardown("cuptiActivityDisable");
  if (kind <= 0 || kind >= KINDS)
    return INVALID_KIND;
  kinds[kind] = false;
  return OK;
}
API int cuptiActivityRegisterCallbacks(request_fn new_request, complete_fn new_complete);
int cuptiActivityRegisterCallbacks(request_fn new_request, complete_fn new_complete)
{
  check_teardown("cuptiActivityRegisterCallbacks");
  if (new_request == NULL || new_complete == NULL)
    return INVALID_PARAMETER;
  take_lock();
  request = new_request;
  complete = new_complete;
  drop_lock();
  return OK;
}
API int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityFlushAll(uint32_t flag)
{
  check_teardown("cuptiActivityFlushAll");
  if (complete == NULL)
    return 7; /* CUPTI_ERROR_INVALID_OPERATION: callbacks not registered */
  take_lock();
  move_ready((flag & 1) != 0);
  /* An unforced flush keeps a buffer while one of its records is unfinished; there is one buffer here. */
  if ((flag & 1) != 0 || queued == 0)
    give_buffer();
  drop_lock();
  return OK;
}
API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
  (void)context, (void)stream;
  *count = dropped;
  dropped = 0;
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
  case KIND_MEMCPY2:
    return SIZE_PEER;
  case KIND_SYNC:
    return SIZE_SYNC;
  case KIND_MEMORY2:
    return SIZE_MEMORY2;
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

API int cuptiFinalize(void);
int cuptiFinalize(void)
{
  check_teardown("cuptiFinalize");
  fake_set_tool(NULL);
  take_lock();
  memset(kinds, 0, sizeof kinds);
  subscriber = NULL;
  request = NULL;
  complete = NULL;
  buffer = NULL;
  queued = 0;
  own_clock = NULL;
  drop_lock();
  return OK;
}

#ifndef FAKE_CUPTI_11
API int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void));
int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
  if (now == NULL)
    return INVALID_PARAMETER;
  own_clock = now;
  return OK;
}
API int cuptiSetThreadIdType(int type);
int cuptiSetThreadIdType(int type)
{
  return type == 1 ? OK : 27; /* the fake knows tids only */
}
/* kinds[0] stands for "the driver's launches". */
API int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable);
int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable)
{
  if (cbid == 307 || cbid == 652)
    kinds[0] = enable != 0;
  return OK;
}
API int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable);
int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable)
{
  (void)cbid, (void)enable; /* the simulation reports what is left anyway: the decoder leaves it out, too */
  return OK;
}
#endif
