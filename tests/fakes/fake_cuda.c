/* libcuda.so.1: the simulation and the little of the driver interface that programs here use.  See fake_gpu.h.
 *
 * Settings (environment): FAKE_GPU_DEVICES (1), FAKE_LAUNCH_NS (5000, launch latency), FAKE_MALLOC_NS (0, how long
 * cudaMalloc holds its caller), FAKE_START_NS (0, how long cuInit goes on after it has loaded the injection),
 * FAKE_HOLD_NS (0, how long the first call goes on after it was reported), FAKE_GPU_MEMORY (0: no limit; bytes that can
 * be allocated on the devices: beyond, cudaMalloc returns cudaErrorMemoryAllocation, 2: driver_types.h).
 */
#include "fake_gpu.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STREAMS 256
#define BLOCKS 4096
#define DEVICES 8
#define SPIN_NS 100000u

static atomic_flag lock = ATOMIC_FLAG_INIT;
static struct fake_stream streams[STREAMS];
static struct fake_stream default_streams[DEVICES];
static struct {
  char *at;
  size_t bytes;
  int kind;
} blocks[BLOCKS];
static const struct fake_tool *_Atomic the_tool;
static _Atomic uint32_t next_correlation = 1, next_stream_id = 13;
static _Thread_local uint32_t open_call;
static _Atomic int initialised; /* 1: under way, 2: done */
static _Atomic bool torn_down, held;

static void take_lock(void)
{
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
    syscall(SYS_sched_yield);
}
static void drop_lock(void)
{
  atomic_flag_clear_explicit(&lock, memory_order_release);
}

uint64_t fake_setting(const char *name, uint64_t otherwise)
{
  const char *value = getenv(name);
  return value && *value ? strtoull(value, NULL, 10) : otherwise;
}

/* A planned time line; planned_ns 0: there is none. */
static _Atomic uint64_t planned_base_ns, planned_ns, planned_call_ns;

void fake_plan_begin(void)
{
  uint64_t now = fake_now() / 1000 * 1000;
  atomic_store(&planned_base_ns, now);
  atomic_store(&planned_ns, now);
}
void fake_plan_at(uint64_t ns)
{
  atomic_store(&planned_ns, atomic_load(&planned_base_ns) + ns);
}
void fake_plan_calls(uint64_t ns)
{
  atomic_store(&planned_call_ns, ns);
}

uint64_t fake_now(void)
{
  struct timespec t;
  uint64_t planned = atomic_load(&planned_ns);
  if (planned != 0)
    return planned;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void fake_sleep_until(uint64_t ns)
{
  if (atomic_load(&planned_ns) != 0) {
    if (ns > atomic_load(&planned_ns))
      atomic_store(&planned_ns, ns);
    return;
  }
  if (ns > fake_now() + SPIN_NS) {
    uint64_t wake = ns - SPIN_NS;
    struct timespec t = {(time_t)(wake / 1000000000u), (long)(wake % 1000000000u)};
    while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
      ;
  }
  while (fake_now() < ns)
    ;
}

void fake_set_tool(const struct fake_tool *tool)
{
  atomic_store(&the_tool, tool);
}

int fake_device_count(void)
{
  return (int)fake_setting("FAKE_GPU_DEVICES", 1);
}
const char *fake_device_name(void)
{
  return "Fake GPU 80GB";
}

struct fake_call fake_call_begin(void)
{
  struct fake_call call = {fake_now(), open_call, open_call == 0};
  if (call.outer)
    call.correlation = open_call = atomic_fetch_add(&next_correlation, 1);
  return call;
}

int fake_call_end(struct fake_call *call, int domain, uint32_t cbid, int result)
{
  const struct fake_tool *tool = atomic_load(&the_tool);
  if (!call->outer)
    return result;
  open_call = 0;
  if (atomic_load(&planned_ns) != 0)
    atomic_fetch_add(&planned_ns, atomic_load(&planned_call_ns));
  struct fake_api api = {domain,      cbid,      (uint32_t)syscall(SYS_gettid), call->correlation, (uint32_t)result,
                         call->start, fake_now()};
  if (tool != NULL)
    tool->api(&api);
  if (!atomic_exchange(&held, true))
    fake_sleep_until(fake_now() + fake_setting("FAKE_HOLD_NS", 0));
  return result;
}

/* ---- streams ---- */

struct fake_stream *fake_stream_of(void *handle, int device)
{
  if (handle == NULL || handle == (void *)1 || handle == (void *)2) { /* default, cudaStreamLegacy, PerThread */
    default_streams[device].id = 7;
    default_streams[device].device = device;
    return &default_streams[device];
  }
  return handle;
}

struct fake_stream *fake_stream_new(int device, bool non_blocking)
{
  take_lock();
  struct fake_stream *found = NULL;
  for (int i = 0; i < STREAMS && found == NULL; i++)
    if (!streams[i].used)
      found = &streams[i];
  if (found != NULL)
    *found = (struct fake_stream){.id = next_stream_id++, .device = device, .non_blocking = non_blocking, .used = true};
  drop_lock();
  return found;
}

void fake_stream_free(struct fake_stream *stream)
{
  stream->used = false;
}

/* The default stream waits for all blocking streams of its device, and they for it. */
static uint64_t free_at(const struct fake_stream *stream)
{
  uint64_t at = stream->busy_until;
  if (stream >= default_streams && stream < default_streams + DEVICES) {
    for (int i = 0; i < STREAMS; i++)
      if (streams[i].used && !streams[i].non_blocking && streams[i].device == stream->device &&
          streams[i].busy_until > at)
        at = streams[i].busy_until;
  } else if (!stream->non_blocking && default_streams[stream->device].busy_until > at) {
    at = default_streams[stream->device].busy_until;
  }
  return at;
}

static void run(struct fake_stream *stream, struct fake_work *work, uint32_t correlation, uint64_t not_before)
{
  uint64_t free = free_at(stream);
  work->start = free > not_before ? free : not_before;
  work->end = work->start + work->duration;
  work->device = (uint32_t)stream->device;
  work->context = (uint32_t)stream->device + 1;
  work->stream = stream->id;
  work->correlation = correlation;
  stream->busy_until = work->end;
}

uint64_t fake_submit(struct fake_stream *stream, struct fake_work *work, uint32_t correlation)
{
  const struct fake_tool *tool = atomic_load(&the_tool);
  if (stream->capture != NULL) {
    if (stream->capture->count < FAKE_GRAPH_NODES)
      stream->capture->nodes[stream->capture->count++] = *work;
    return 0;
  }
  take_lock();
  run(stream, work, correlation, fake_now() + fake_setting("FAKE_LAUNCH_NS", 5000));
  drop_lock();
  if (tool != NULL)
    tool->work(work);
  return work->end;
}

uint64_t fake_submit_graph(struct fake_stream *stream, const struct fake_graph *graph, uint32_t correlation)
{
  const struct fake_tool *tool = atomic_load(&the_tool);
  uint64_t not_before = fake_now() + fake_setting("FAKE_LAUNCH_NS", 5000);
  struct fake_work whole = {.kind = FAKE_GRAPH, .graph = graph->id};
  bool as_whole = tool != NULL && tool->whole_graphs();
  for (unsigned i = 0; i < graph->count; i++) {
    struct fake_work node = graph->nodes[i];
    node.graph = graph->id;
    node.graph_node = (uint64_t)graph->id << 32 | (i + 1);
    take_lock();
    run(stream, &node, correlation, not_before);
    drop_lock();
    if (i == 0)
      whole.start = node.start;
    whole.end = node.end;
    whole.device = node.device;
    whole.context = node.context;
    whole.stream = node.stream;
    whole.correlation = correlation;
    if (tool != NULL && !as_whole)
      tool->work(&node);
  }
  if (as_whole && graph->count > 0)
    tool->work(&whole);
  return stream->busy_until;
}

void fake_stream_wait(struct fake_stream *stream, uint64_t until)
{
  take_lock();
  if (stream->busy_until < until)
    stream->busy_until = until;
  drop_lock();
}

uint64_t fake_device_idle_at(int device)
{
  take_lock();
  uint64_t at = default_streams[device].busy_until;
  for (int i = 0; i < STREAMS; i++)
    if (streams[i].used && streams[i].device == device && streams[i].busy_until > at)
      at = streams[i].busy_until;
  drop_lock();
  return at;
}

void fake_report_sync(const struct fake_sync *sync)
{
  const struct fake_tool *tool = atomic_load(&the_tool);
  if (tool != NULL)
    tool->sync(sync);
}
void fake_report_memory(const struct fake_memory *memory)
{
  const struct fake_tool *tool = atomic_load(&the_tool);
  if (tool != NULL)
    tool->memory(memory);
}

void fake_report_pool(const struct fake_pool *pool)
{
  const struct fake_tool *tool = atomic_load(&the_tool);
  if (tool != NULL)
    tool->pool(pool);
}

void fake_make_context(int device)
{
  static atomic_flag made[DEVICES];
  const struct fake_tool *tool = atomic_load(&the_tool);
  if (!atomic_flag_test_and_set(&made[device]) && tool != NULL)
    tool->context();
}

/* ---- memory ---- */

static void note_block(char *at, size_t bytes, int kind)
{
  take_lock();
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].at == NULL) {
      blocks[i].at = at;
      blocks[i].bytes = bytes;
      blocks[i].kind = kind;
      break;
    }
  drop_lock();
}

static bool fits(size_t bytes)
{
  uint64_t most = fake_setting("FAKE_GPU_MEMORY", 0), used = 0;
  take_lock();
  for (int i = 0; i < BLOCKS; i++)
    used += blocks[i].at != NULL && blocks[i].kind == 2 ? blocks[i].bytes : 0;
  drop_lock();
  return most == 0 || used + bytes <= most;
}

void *fake_memory_new(size_t bytes, bool pinned_host)
{
  if (!pinned_host && !fits(bytes))
    return NULL;
  long at = syscall(SYS_mmap, NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == -1)
    return NULL;
  note_block((char *)at, bytes ? bytes : 1, pinned_host ? 1 : 2);
  return (void *)at;
}

size_t fake_memory_free(void *at)
{
  size_t bytes = 0;
  take_lock();
  for (int i = 0; i < BLOCKS && bytes == 0; i++)
    if (blocks[i].at == at && at != NULL) {
      bytes = blocks[i].bytes;
      blocks[i].at = NULL;
    }
  drop_lock();
  if (bytes > 0)
    syscall(SYS_munmap, at, bytes);
  return bytes;
}

int fake_memory_kind(const void *at)
{
  int kind = 0;
  take_lock();
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].at != NULL && (const char *)at >= blocks[i].at && (const char *)at < blocks[i].at + blocks[i].bytes)
      kind = blocks[i].kind;
  drop_lock();
  return kind;
}

void fake_memory_pin(void *at, size_t bytes, bool pinned)
{
  if (pinned) {
    note_block(at, bytes, 1);
    return;
  }
  take_lock();
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].at == at)
      blocks[i].at = NULL;
  drop_lock();
}

void fake_copy_bytes(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (size_t i = 0; i < bytes; i++)
    ((volatile char *)to)[i] = ((const char *)from)[i];
#endif
}

/* ---- teardown ---- */

bool fake_is_torn_down(void)
{
  return atomic_load(&torn_down);
}
static void tear_down(void)
{
  atomic_store(&torn_down, true);
}

/* ---- driver interface (cuda.h) ---- */

enum { SUCCESS = 0, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
typedef int (*injection_fn)(void);

/* The driver loads CUDA_INJECTION64_PATH and calls InitializeInjection while it initialises (CUPTI's documentation of
 * injection, samples/cupti_trace_injection). */
static void load_injection(void)
{
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *handle = path && *path ? dlopen(path, RTLD_NOW) : NULL;
  injection_fn start = handle ? (injection_fn)dlsym(handle, "InitializeInjection") : NULL;
  if (start != NULL)
    start();
}

FAKE_EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
  int fresh = 0;
  (void)flags;
  if (atomic_compare_exchange_strong(&initialised, &fresh, 1)) {
    load_injection();
    fake_sleep_until(fake_now() + fake_setting("FAKE_START_NS", 0));
    atexit(tear_down);
    atomic_store(&initialised, 2);
  }
  while (atomic_load(&initialised) != 2) /* another thread is at it */
    syscall(SYS_sched_yield);
  return fake_device_count() > 0 ? SUCCESS : NO_DEVICE;
}

FAKE_EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
  *version = 13000;
  return SUCCESS;
}
FAKE_EXPORT int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
  if (atomic_load(&initialised) != 2)
    return NOT_INITIALIZED;
  *count = fake_device_count();
  return SUCCESS;
}
FAKE_EXPORT int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
  *device = ordinal;
  return ordinal >= 0 && ordinal < fake_device_count() ? SUCCESS : INVALID_DEVICE;
}
/* The same as the fake CUPTI and NVML give. */
FAKE_EXPORT int cuDeviceGetUuid(uint8_t *uuid, int device);
int cuDeviceGetUuid(uint8_t *uuid, int device)
{
  for (unsigned i = 0; i < 16; i++)
    uuid[i] = (uint8_t)(i == 0 ? (unsigned)device : i);
  return device >= 0 && device < fake_device_count() ? SUCCESS : INVALID_DEVICE;
}

/* How long a kernel runs: one named spin takes the ns of its first argument, as it would on a real device; others take
 * FAKE_KERNEL_NS. */
FAKE_EXPORT uint64_t fake_kernel_duration(const char *name, void **arguments);
uint64_t fake_kernel_duration(const char *name, void **arguments)
{
  if (name != NULL && strstr(name, "spin") != NULL && arguments != NULL)
    return *(uint64_t *)arguments[0];
  return fake_setting("FAKE_KERNEL_NS", 20000);
}

/* A CUfunction of the fake is the kernel's name. */
FAKE_EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void *stream, void **arguments, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
  (void)extra;
  struct fake_call call = fake_call_begin();
  struct fake_work work = {.kind = FAKE_KERNEL,
                           .name = function,
                           .grid = {gx, gy, gz},
                           .block = {bx, by, bz},
                           .shared = shared,
                           .duration = fake_kernel_duration(function, arguments)};
  fake_submit(fake_stream_of(stream, 0), &work, call.correlation);
  return fake_call_end(&call, 1, 307, SUCCESS);
}

FAKE_EXPORT int cuCtxSynchronize(void);
int cuCtxSynchronize(void)
{
  struct fake_call call = fake_call_begin();
  fake_sleep_until(fake_device_idle_at(0));
  return fake_call_end(&call, 1, 17, SUCCESS);
}
