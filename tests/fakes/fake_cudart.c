/* libcudart.so.12 and .13: the CUDA runtime's ABI (cuda_runtime_api.h, crt/host_runtime.h) over the simulation.
 *
 * Binary compatible with programs that nvcc compiled: registration, launch configuration, and symbol versions
 * (libcudart.so.12 or .13) are those of the real library.  Like the real one it loads libcuda.so.1 at its first use.
 * Copies are done when they are submitted; only their time is simulated.  Speeds: 25 GB/s pinned, 6 GB/s pageable,
 * 500 GB/s on the device, plus 2 us; a pageable copy to the device holds the caller until it is staged, one to the host
 * until it is done (CUDA Runtime API, "API synchronization behavior").
 */
#include "fake_gpu.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  MEMORY_ALLOCATION = 2,
  INVALID_DEVICE_FUNCTION = 98,
  NO_DEVICE = 100,
  NOT_READY = 600,
};
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, COPY_DEFAULT };
enum { CUPTI_HTOD = 1, CUPTI_DTOH = 2, CUPTI_DTOD = 8, CUPTI_HTOH = 9, CUPTI_PTOP = 10 };
enum { SYNC_EVENT = 1, SYNC_WAIT_EVENT = 2, SYNC_STREAM = 3, SYNC_CONTEXT = 4 };

struct dim3 {
  unsigned x, y, z;
};

static _Thread_local int current_device, last_error;
static _Atomic int ready; /* 0 not yet, 1 works, -1 no device */

/* The real library finds the driver by dlopen, too; the fake's own symbols come with it. */
int cuInit(unsigned flags);
uint64_t fake_kernel_duration(const char *name, void **arguments);

static bool start(void)
{
  if (atomic_load(&ready) == 0)
    atomic_store(&ready, cuInit(0) == 0 ? 1 : -1);
  if (atomic_load(&ready) == 1)
    fake_make_context(current_device);
  return atomic_load(&ready) == 1;
}

static int keep_error(int result)
{
  if (result != SUCCESS && result != NOT_READY)
    last_error = result;
  return result;
}

/* A runtime call: `body` sets `result`. */
#define CALL(cbid, ...)                                                                                                \
  if (!start())                                                                                                        \
    return keep_error(NO_DEVICE);                                                                                      \
  struct fake_call call = fake_call_begin();                                                                           \
  int result = SUCCESS;                                                                                                \
  __VA_ARGS__;                                                                                                         \
  return keep_error(fake_call_end(&call, 2, cbid, result))

#define API FAKE_EXPORT

/* ---- kernels ---- */

/* By address, a hash table: PyTorch registers some ten thousands.  Registered before main, by one thread. */
#define KERNELS 262144u
static struct {
  const void *host;
  const char *name;
} kernels[KERNELS];

static size_t kernel_place(const void *host)
{
  size_t i = (uintptr_t)host / 16 % KERNELS;
  for (unsigned tries = 0; tries < KERNELS && kernels[i].host != NULL && kernels[i].host != host; tries++)
    i = (i + 1) % KERNELS;
  return i;
}

static const char *kernel_name(const void *host)
{
  size_t i = kernel_place(host);
  return kernels[i].host == host ? kernels[i].name : NULL;
}

API void **__cudaRegisterFatBinary(void *binary);
void **__cudaRegisterFatBinary(void *binary)
{
  static void *handle;
  handle = binary;
  return &handle;
}
API void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFatBinaryEnd(void **handle)
{
  (void)handle;
}
API void __cudaUnregisterFatBinary(void **handle);
void __cudaUnregisterFatBinary(void **handle)
{
  (void)handle;
}
API char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle)
{
  (void)handle;
  return 1;
}
API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                                void *bid, void *block, void *grid, int *warp);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp)
{
  (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
  size_t i = kernel_place(host);
  kernels[i].host = host;
  kernels[i].name = name;
}
API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                           int constant, int global);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
                       int global)
{
  (void)handle, (void)host, (void)device, (void)name, (void)ext, (void)size, (void)constant, (void)global;
}

static _Thread_local struct {
  struct dim3 grid, block;
  size_t shared;
  void *stream;
} configuration;

API unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream)
{
  configuration.grid = grid;
  configuration.block = block;
  configuration.shared = shared;
  configuration.stream = stream;
  return 0;
}
API cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *(void **)stream = configuration.stream;
  return SUCCESS;
}

static int launch(const struct fake_call *call, const char *name, struct dim3 grid, struct dim3 block, void **arguments,
                  size_t shared, void *stream)
{
  if (name == NULL)
    return INVALID_DEVICE_FUNCTION;
  struct fake_work work = {.kind = FAKE_KERNEL,
                           .name = name,
                           .grid = {grid.x, grid.y, grid.z},
                           .block = {block.x, block.y, block.z},
                           .shared = (uint32_t)shared,
                           .duration = fake_kernel_duration(name, arguments)};
  fake_submit(fake_stream_of(stream, current_device), &work, call->correlation);
  return SUCCESS;
}

API cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments,
                                 size_t shared, void *stream);
cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                             void *stream)
{
  CALL(211, result = launch(&call, kernel_name(function), grid, block, arguments, shared, stream));
}
API cudaError_t cudaLaunchKernel_ptsz(const void *function, struct dim3 grid, struct dim3 block, void **arguments,
                                      size_t shared, void *stream);
cudaError_t cudaLaunchKernel_ptsz(const void *function, struct dim3 grid, struct dim3 block, void **arguments,
                                  size_t shared, void *stream)
{
  CALL(214, result = launch(&call, kernel_name(function), grid, block, arguments, shared, stream));
}
/* Programs of CUDA 13 ask for a handle once (crt/device_functions.h). */
API cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaGetKernel(void **kernel, const void *function)
{
  *kernel = (void *)(uintptr_t)kernel_name(function);
  return *kernel ? SUCCESS : INVALID_DEVICE_FUNCTION;
}
API cudaError_t __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                                   void *stream);
cudaError_t __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                               void *stream)
{
  CALL(211, result = launch(&call, kernel, grid, block, arguments, shared, stream));
}

/* ---- memory ---- */

static void report_memory(const struct fake_call *call, int operation, void *at, size_t bytes, int kind,
                          uint32_t stream)
{
  struct fake_memory memory = {.operation = (uint32_t)operation,
                               .kind = (uint32_t)kind,
                               .correlation = call->correlation,
                               .device = (uint32_t)current_device,
                               .context = (uint32_t)current_device + 1,
                               .stream = stream,
                               .address = (uint64_t)(uintptr_t)at,
                               .bytes = bytes,
                               .at = fake_now()};
  fake_report_memory(&memory);
}

static int allocate(const struct fake_call *call, void **at, size_t bytes, bool pinned)
{
  fake_sleep_until(fake_now() + fake_setting("FAKE_MALLOC_NS", 0));
  *at = fake_memory_new(bytes, pinned);
  if (*at == NULL)
    return MEMORY_ALLOCATION;
  report_memory(call, 1, *at, bytes, pinned ? 2 : 3, 0);
  return SUCCESS;
}

/* cudaFree waits for the device (implicit synchronisation). */
static int release(const struct fake_call *call, void *at, bool pinned)
{
  if (at == NULL)
    return SUCCESS;
  fake_sleep_until(fake_device_idle_at(current_device));
  size_t bytes = fake_memory_free(at);
  if (bytes == 0)
    return INVALID_VALUE;
  report_memory(call, 2, at, bytes, pinned ? 2 : 3, 0);
  return SUCCESS;
}

API cudaError_t cudaMalloc(void **at, size_t bytes);
cudaError_t cudaMalloc(void **at, size_t bytes)
{
  CALL(20, result = allocate(&call, at, bytes, false));
}
API cudaError_t cudaFree(void *at);
cudaError_t cudaFree(void *at)
{
  CALL(22, result = release(&call, at, false));
}
API cudaError_t cudaMallocHost(void **at, size_t bytes);
cudaError_t cudaMallocHost(void **at, size_t bytes)
{
  CALL(25, result = allocate(&call, at, bytes, true));
}
API cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags);
cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags)
{
  (void)flags;
  CALL(27, result = allocate(&call, at, bytes, true));
}
API cudaError_t cudaFreeHost(void *at);
cudaError_t cudaFreeHost(void *at)
{
  CALL(26, result = release(&call, at, true));
}
API cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags);
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
  (void)flags;
  CALL(152, fake_memory_pin(at, bytes, true));
}
API cudaError_t cudaHostUnregister(void *at);
cudaError_t cudaHostUnregister(void *at)
{
  CALL(153, fake_memory_pin(at, 0, false));
}
/* Stream-ordered allocation never waits. */
API cudaError_t cudaMallocAsync(void **at, size_t bytes, void *stream);
cudaError_t cudaMallocAsync(void **at, size_t bytes, void *stream)
{
  CALL(373, {
    *at = fake_memory_new(bytes, false);
    result = *at ? SUCCESS : MEMORY_ALLOCATION;
    report_memory(&call, 1, *at, bytes, 3, fake_stream_of(stream, current_device)->id);
  });
}
API cudaError_t cudaFreeAsync(void *at, void *stream);
cudaError_t cudaFreeAsync(void *at, void *stream)
{
  CALL(375, {
    size_t bytes = fake_memory_free(at);
    result = bytes ? SUCCESS : INVALID_VALUE;
    report_memory(&call, 2, at, bytes, 3, fake_stream_of(stream, current_device)->id);
  });
}

/* A pool of the device, whatever its properties say.  What a pool keeps is not simulated. */
struct memory_pool {
  uint32_t device;
  uint64_t used, threshold;
};
static void report_pool(const struct fake_call *call, uint32_t operation, const struct memory_pool *pool, uint64_t keep)
{
  struct fake_pool event = {.operation = operation,
                            .correlation = call->correlation,
                            .device = pool->device,
                            .address = (uint64_t)(uintptr_t)pool,
                            .size = pool->used,
                            .keep = keep,
                            .threshold = pool->threshold,
                            .used = pool->used,
                            .at = fake_now()};
  fake_report_pool(&event);
}
API cudaError_t cudaMemPoolCreate(struct memory_pool **pool, const void *properties);
cudaError_t cudaMemPoolCreate(struct memory_pool **pool, const void *properties)
{
  (void)properties;
  CALL(383, {
    *pool = fake_memory_new(sizeof **pool, true);
    (*pool)->device = (uint32_t)current_device;
    report_pool(&call, 1, *pool, 0);
  });
}
API cudaError_t cudaMemPoolDestroy(struct memory_pool *pool);
cudaError_t cudaMemPoolDestroy(struct memory_pool *pool)
{
  CALL(384, {
    report_pool(&call, 2, pool, 0);
    fake_memory_free(pool);
  });
}
API cudaError_t cudaMemPoolTrimTo(struct memory_pool *pool, size_t keep);
cudaError_t cudaMemPoolTrimTo(struct memory_pool *pool, size_t keep)
{
  CALL(377, report_pool(&call, 3, pool, keep));
}
API cudaError_t cudaMallocFromPoolAsync(void **at, size_t bytes, struct memory_pool *pool, void *stream);
cudaError_t cudaMallocFromPoolAsync(void **at, size_t bytes, struct memory_pool *pool, void *stream)
{
  CALL(391, {
    *at = fake_memory_new(bytes, false);
    result = *at ? SUCCESS : MEMORY_ALLOCATION;
    pool->used += bytes;
    report_memory(&call, 1, *at, bytes, 3, fake_stream_of(stream, current_device)->id);
  });
}

/* ---- copies ---- */

static int cupti_kind_of(const void *at)
{
  static const int kinds[] = {1, 2, 3}; /* pageable, pinned, device */
  return kinds[fake_memory_kind(at)];
}

static int copy(const struct fake_call *call, void *to, const void *from, size_t bytes, int kind, void *stream,
                bool async)
{
  struct fake_stream *s = fake_stream_of(stream, current_device);
  struct fake_work work = {.kind = FAKE_MEMCPY, .bytes = bytes, .flags = async};
  work.src_kind = (uint8_t)cupti_kind_of(from);
  work.dst_kind = (uint8_t)cupti_kind_of(to);
  if (kind == COPY_DEFAULT)
    kind = (work.src_kind == 3 ? 2 : 0) + (work.dst_kind == 3 ? 1 : 0);
  static const uint8_t copy_kinds[] = {CUPTI_HTOH, CUPTI_HTOD, CUPTI_DTOH, CUPTI_DTOD};
  if (kind < 0 || kind > 3)
    return 21; /* cudaErrorInvalidMemcpyDirection */
  work.copy_kind = copy_kinds[kind];
  bool pageable = work.src_kind == 1 || work.dst_kind == 1;
  uint64_t per_second = kind == DEVICE_TO_DEVICE ? 500000000000u : pageable ? 6000000000u : 25000000000u;
  work.duration = 2000 + (uint64_t)((__int128)bytes * 1000000000 / per_second);
  fake_copy_bytes(to, from, bytes);
  uint64_t end = fake_submit(s, &work, call->correlation);
  if (kind != DEVICE_TO_DEVICE && (!async || pageable))
    fake_sleep_until(end);
  return SUCCESS;
}

API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
  CALL(31, result = copy(&call, to, from, bytes, kind, NULL, false));
}
API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
  CALL(41, result = copy(&call, to, from, bytes, kind, stream, true));
}
API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                    void *stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream)
{
  (void)from_device;
  CALL(161, {
    struct fake_work work = {.kind = FAKE_MEMCPY_PEER,
                             .bytes = bytes,
                             .flags = 1,
                             .copy_kind = CUPTI_PTOP,
                             .src_kind = 3,
                             .dst_kind = 3,
                             .peer_device = (uint32_t)to_device,
                             .duration = 2000 + bytes / 50};
    fake_copy_bytes(to, from, bytes);
    fake_submit(fake_stream_of(stream, current_device), &work, call.correlation);
  });
}

static void set(const struct fake_call *call, void *at, int value, size_t bytes, void *stream, bool async)
{
  struct fake_work work = {.kind = FAKE_MEMSET,
                           .bytes = bytes,
                           .value = (uint32_t)value,
                           .flags = async,
                           .dst_kind = (uint8_t)cupti_kind_of(at),
                           .duration = 2000 + bytes / 500};
  for (size_t i = 0; i < bytes; i++)
    ((volatile char *)at)[i] = (char)value;
  uint64_t end = fake_submit(fake_stream_of(stream, current_device), &work, call->correlation);
  if (!async && fake_memory_kind(at) == 1) /* "asynchronous except when the target is pinned host memory" */
    fake_sleep_until(end);
}
API cudaError_t cudaMemset(void *at, int value, size_t bytes);
cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
  CALL(49, set(&call, at, value, bytes, NULL, false));
}
API cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, void *stream);
cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, void *stream)
{
  CALL(51, set(&call, at, value, bytes, stream, true));
}

/* ---- streams, events, synchronisation ---- */

API cudaError_t cudaStreamCreate(void **stream);
cudaError_t cudaStreamCreate(void **stream)
{
  CALL(129, *stream = fake_stream_new(current_device, false));
}
API cudaError_t cudaStreamCreateWithFlags(void **stream, unsigned flags);
cudaError_t cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
  CALL(198, *stream = fake_stream_new(current_device, (flags & 1) != 0));
}
API cudaError_t cudaStreamDestroy(void *stream);
cudaError_t cudaStreamDestroy(void *stream)
{
  CALL(201, fake_stream_free(stream));
}

static void wait_reported(const struct fake_call *call, uint64_t until, uint32_t type, uint32_t stream, uint32_t event)
{
  struct fake_sync sync = {.type = type,
                           .correlation = call->correlation,
                           .stream = stream,
                           .event = event,
                           .context = (uint32_t)current_device + 1,
                           .start = fake_now()};
  fake_sleep_until(until);
  sync.end = fake_now();
  fake_report_sync(&sync);
}

API cudaError_t cudaStreamSynchronize(void *stream);
cudaError_t cudaStreamSynchronize(void *stream)
{
  CALL(131, {
    struct fake_stream *s = fake_stream_of(stream, current_device);
    wait_reported(&call, stream ? s->busy_until : fake_device_idle_at(current_device), SYNC_STREAM, s->id, UINT32_MAX);
  });
}
API cudaError_t cudaStreamQuery(void *stream);
cudaError_t cudaStreamQuery(void *stream)
{
  CALL(132, result = fake_stream_of(stream, current_device)->busy_until > fake_now() ? NOT_READY : SUCCESS);
}
API cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceSynchronize(void)
{
  CALL(165, wait_reported(&call, fake_device_idle_at(current_device), SYNC_CONTEXT, UINT32_MAX, UINT32_MAX));
}

#define EVENTS 4096
static struct fake_event events[EVENTS];
static _Atomic uint32_t event_count;
static int create_event(void **event)
{
  uint32_t i = atomic_fetch_add(&event_count, 1);
  if (i >= EVENTS)
    return MEMORY_ALLOCATION;
  events[i].id = i + 1;
  *event = &events[i];
  return SUCCESS;
}
API cudaError_t cudaEventCreate(void **event);
cudaError_t cudaEventCreate(void **event)
{
  CALL(133, result = create_event(event));
}
API cudaError_t cudaEventCreateWithFlags(void **event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(void **event, unsigned flags)
{
  (void)flags;
  CALL(134, result = create_event(event));
}
API cudaError_t cudaEventDestroy(void *event);
cudaError_t cudaEventDestroy(void *event)
{
  (void)event;
  CALL(136, );
}
API cudaError_t cudaEventRecord(void *event, void *stream);
cudaError_t cudaEventRecord(void *event, void *stream)
{
  CALL(135, {
    uint64_t busy_until = fake_stream_of(stream, current_device)->busy_until;
    ((struct fake_event *)event)->done_at = busy_until > call.start ? busy_until : call.start;
  });
}
API cudaError_t cudaEventQuery(void *event);
cudaError_t cudaEventQuery(void *event)
{
  CALL(138, result = ((struct fake_event *)event)->done_at > fake_now() ? NOT_READY : SUCCESS);
}
API cudaError_t cudaEventSynchronize(void *event);
cudaError_t cudaEventSynchronize(void *event)
{
  CALL(137, {
    struct fake_event *e = event;
    wait_reported(&call, e->done_at, SYNC_EVENT, UINT32_MAX, e->id);
  });
}
API cudaError_t cudaEventElapsedTime(float *ms, void *from, void *to);
cudaError_t cudaEventElapsedTime(float *ms, void *from, void *to)
{
  CALL(139, *ms = (float)((double)(((struct fake_event *)to)->done_at - ((struct fake_event *)from)->done_at) / 1e6));
}
API cudaError_t cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
cudaError_t cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
  (void)flags;
  CALL(147, {
    struct fake_stream *s = fake_stream_of(stream, current_device);
    struct fake_event *e = event;
    fake_stream_wait(s, e->done_at);
    wait_reported(&call, 0, SYNC_WAIT_EVENT, s->id, e->id);
  });
}

/* ---- graphs ---- */

static _Atomic uint32_t next_graph = 1;
static struct fake_graph *new_graph(void)
{
  struct fake_graph *graph = fake_memory_new(sizeof *graph, true);
  if (graph != NULL)
    graph->id = atomic_fetch_add(&next_graph, 1);
  return graph;
}

API cudaError_t cudaStreamBeginCapture(void *stream, int mode);
cudaError_t cudaStreamBeginCapture(void *stream, int mode)
{
  (void)mode;
  CALL(315, fake_stream_of(stream, current_device)->capture = new_graph());
}
API cudaError_t cudaStreamEndCapture(void *stream, void **graph);
cudaError_t cudaStreamEndCapture(void *stream, void **graph)
{
  CALL(319, {
    struct fake_stream *s = fake_stream_of(stream, current_device);
    *graph = s->capture;
    s->capture = NULL;
  });
}
/* An executable graph is its graph here; destroying the template must leave it alive. */
API cudaError_t cudaGraphInstantiate(void **executable, void *graph, unsigned long long flags);
cudaError_t cudaGraphInstantiate(void **executable, void *graph, unsigned long long flags)
{
  (void)flags;
  CALL(443, {
    struct fake_graph *mine = new_graph();
    uint32_t id = mine->id;
    *mine = *(struct fake_graph *)graph;
    mine->id = id;
    *executable = mine;
  });
}
API cudaError_t cudaGraphLaunch(void *executable, void *stream);
cudaError_t cudaGraphLaunch(void *executable, void *stream)
{
  CALL(311, fake_submit_graph(fake_stream_of(stream, current_device), executable, call.correlation));
}
API cudaError_t cudaGraphDestroy(void *graph);
cudaError_t cudaGraphDestroy(void *graph)
{
  CALL(314, fake_memory_free(graph));
}
API cudaError_t cudaGraphExecDestroy(void *executable);
cudaError_t cudaGraphExecDestroy(void *executable)
{
  CALL(313, fake_memory_free(executable));
}

/* ---- device and errors ---- */

API cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceCount(int *count)
{
  CALL(3, *count = fake_device_count());
}
API cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDevice(int *device)
{
  CALL(17, *device = current_device);
}
API cudaError_t cudaSetDevice(int device);
cudaError_t cudaSetDevice(int device)
{
  CALL(16, {
    if (device < 0 || device >= fake_device_count())
      result = 101; /* cudaErrorInvalidDevice */
    else
      current_device = device;
  });
}
API cudaError_t cudaGetLastError(void);
cudaError_t cudaGetLastError(void)
{
  int error = last_error;
  last_error = SUCCESS;
  return error;
}
API const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error)
{
  return error == SUCCESS ? "no error" : "an error of the fake runtime";
}
API cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = 12040;
  return SUCCESS;
}
API cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceReset(void)
{
  CALL(164, fake_sleep_until(fake_device_idle_at(current_device)));
}
