/* The part of CUPTI's binary interface that opgap uses, in its own words.
 *
 * Purpose   A build without the CUDA toolkit has the same features, and one binary reads CUPTI 11 to 13: NVIDIA only
 *           appends to records, so each structure here is the common prefix, and fields behind it are read when the
 *           record, whose size comes from the library, is long enough.  tests/gpu/abi_check.c compiles static asserts
 *           of every line here against the real headers where these are installed.
 * Threads, ownership: declarations only.
 *
 * Only files in src/gpu include this.
 */
#ifndef OPGAP_GPU_CUPTI_ABI_H
#define OPGAP_GPU_CUPTI_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum opgap_cupti_result {
  CUPTI_OK = 0,
  CUPTI_NOT_READY = 13,
  CUPTI_NOT_INITIALIZED = 15,
  CUPTI_NOT_SUPPORTED = 27,
  CUPTI_VIRTUALIZED = 33,
  CUPTI_NO_PRIVILEGE = 35,
  CUPTI_MULTIPLE_SUBSCRIBERS = 39,
  CUPTI_VIRTUALIZED_NO_PRIVILEGE = 40,
  CUPTI_CONFIDENTIAL_COMPUTING = 41,
  CUPTI_MIG_DEVICE = 43,
  CUPTI_UNKNOWN = 999,
};

enum opgap_cupti_kind {
  CUPTI_KIND_MEMCPY = 1,
  CUPTI_KIND_MEMSET = 2,
  CUPTI_KIND_KERNEL = 3,
  CUPTI_KIND_DRIVER = 4,
  CUPTI_KIND_RUNTIME = 5,
  CUPTI_KIND_DEVICE = 8,
  CUPTI_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_KIND_OVERHEAD = 17,
  CUPTI_KIND_MEMCPY2 = 22, /* peer to peer */
  CUPTI_KIND_SYNCHRONIZATION = 38,
  CUPTI_KIND_EXTERNAL = 39,
  CUPTI_KIND_MEMORY2 = 49,
  CUPTI_KIND_MEMORY_POOL = 50,
  CUPTI_KIND_GRAPH_TRACE = 51,
};

#define CUPTI_FLUSH_FORCED 1u
#define CUPTI_DOMAIN_DRIVER 1
#define CUPTI_DOMAIN_RUNTIME 2
#define CUPTI_DOMAIN_RESOURCE 3
#define CUPTI_RESOURCE_CONTEXT_CREATED 1
#define CUPTI_THREAD_ID_DEFAULT 0
#define CUPTI_THREAD_ID_SYSTEM 1 /* gettid instead of pthread_self */

/* Runtime calls that only ask, and that frameworks make by the thousand; they are not recorded. */
#define CUPTI_QUIET_RUNTIME_CALLS(X)                                                                                   \
  X(10, cudaGetLastError_v3020)                                                                                        \
  X(11, cudaPeekAtLastError_v3020)                                                                                     \
  X(16, cudaSetDevice_v3020)                                                                                           \
  X(17, cudaGetDevice_v3020)                                                                                           \
  X(200, cudaDeviceGetAttribute_v5000)                                                                                 \
  X(317, cudaStreamIsCapturing_v10000)                                                                                 \
  X(409, cudaStreamGetCaptureInfo_v2_v11030)                                                                           \
  X(410, cudaStreamGetCaptureInfo_v2_ptsz_v11030)

/* The driver's launch calls: Triton and NCCL launch by them, and without a record of the call a kernel has no launch.
 */
#define CUPTI_DRIVER_LAUNCHES(X)                                                                                       \
  X(307, cuLaunchKernel)                                                                                               \
  X(442, cuLaunchKernel_ptsz)                                                                                          \
  X(477, cuLaunchCooperativeKernel)                                                                                    \
  X(652, cuLaunchKernelEx)                                                                                             \
  X(653, cuLaunchKernelEx_ptsz)

/* CUpti_ActivityKernel4 (CUDA 9) to Kernel10 (CUDA 13). */
struct cupti_kernel {
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t partitioned_requested, partitioned_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char *name;
  void *reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_requested, carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node; /* from Kernel5 on: 160 bytes */
  uint32_t shared_limit, graph;
};
#define CUPTI_KERNEL_MIN 144u

/* CUpti_ActivityMemcpy to Memcpy6. */
struct cupti_memcpy {
  uint32_t kind;
  uint8_t copy_kind, src_kind, dst_kind, flags; /* flags bit 0: asynchronous */
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void *reserved;
  uint64_t graph_node; /* Memcpy3: 72 bytes */
  uint32_t graph;      /* Memcpy4: 80 bytes */
};
#define CUPTI_MEMCPY_MIN 64u

/* CUpti_ActivityMemcpyPtoP to PtoP4. */
struct cupti_memcpy_peer {
  uint32_t kind;
  uint8_t copy_kind, src_kind, dst_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, src_device, src_context, dst_device, dst_context, correlation;
  void *reserved;
  uint64_t graph_node; /* PtoP2: 80 bytes */
  uint32_t graph;      /* PtoP3: 88 bytes */
};
#define CUPTI_MEMCPY_PEER_MIN 72u

/* CUpti_ActivityMemset to Memset4. */
struct cupti_memset {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void *reserved;
  uint64_t graph_node; /* Memset2: 72 bytes */
  uint32_t graph;      /* Memset3: 80 bytes */
};
#define CUPTI_MEMSET_MIN 64u

/* CUpti_ActivityMemory2 to Memory4. */
struct cupti_memory {
  uint32_t kind, operation, memory_kind, correlation;
  uint64_t address, bytes, timestamp, pc;
  uint32_t process, device, context, stream;
};
#define CUPTI_MEMORY_MIN 112u

/* CUpti_ActivityMemoryPool to MemoryPool3. */
struct cupti_pool {
  uint32_t kind, operation, type, correlation, process, device;
  uint64_t keep, address, bytes, threshold, timestamp;
  uint64_t used; /* MemoryPool2: 72 bytes */
};
#define CUPTI_POOL_MIN 64u

/* CUpti_ActivityAPI. */
struct cupti_api {
  uint32_t kind, cbid;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};
#define CUPTI_API_MIN 40u

/* CUpti_ActivitySynchronization, Synchronization2. */
struct cupti_sync {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};
#define CUPTI_SYNC_MIN 40u

/* CUpti_ActivityExternalCorrelation: before the record of a call that was made inside of a
 * cuptiActivityPushExternalCorrelationId, one for each kind. */
struct cupti_external {
  uint32_t kind, external_kind;
  uint64_t id;
  uint32_t correlation, reserved;
};
#define CUPTI_EXTERNAL_MIN 24u

/* CUpti_ActivityOverhead to Overhead3; packed: the 12-byte object id ends at 24. */
struct cupti_overhead {
  uint32_t kind, overhead_kind, object_kind, object[3];
  uint64_t start, end;
};
#define CUPTI_OVERHEAD_MIN 40u

/* CUpti_ActivityGraphTrace, GraphTrace2. */
struct cupti_graph {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
};
#define CUPTI_GRAPH_MIN 40u

/* CUpti_ActivityDevice2 (CUDA 7) to Device5; the pointer sits at 136. */
struct cupti_device {
  uint32_t kind, flags;
  uint64_t bandwidth, memory_bytes;
  uint32_t constant_bytes, l2_bytes, warp_threads, clock_khz, copy_engines, sm_count, max_ipc, max_warps_sm,
      max_blocks_sm, max_shared_sm, max_registers_sm, max_registers_block, max_shared_block, max_threads_block,
      max_block[3], max_grid[3], major, minor, id, ecc;
  uint8_t uuid[16];
  const char *name;
};
#define CUPTI_DEVICE_MIN 144u

static_assert(offsetof(struct cupti_kernel, grid_id) == 96 && offsetof(struct cupti_kernel, graph) == 156, "kernel");
static_assert(offsetof(struct cupti_memcpy, graph_node) == 64, "memcpy");
static_assert(offsetof(struct cupti_memcpy_peer, graph_node) == 72, "peer memcpy");
static_assert(offsetof(struct cupti_memset, graph_node) == 64, "memset");
static_assert(offsetof(struct cupti_memory, stream) == 60, "memory");
static_assert(offsetof(struct cupti_pool, used) == CUPTI_POOL_MIN, "pool");
static_assert(sizeof(struct cupti_api) == CUPTI_API_MIN, "api");
static_assert(sizeof(struct cupti_sync) == CUPTI_SYNC_MIN, "sync");
static_assert(sizeof(struct cupti_external) == CUPTI_EXTERNAL_MIN, "external correlation");
static_assert(sizeof(struct cupti_overhead) == CUPTI_OVERHEAD_MIN, "overhead");
static_assert(sizeof(struct cupti_graph) == CUPTI_GRAPH_MIN, "graph");
static_assert(offsetof(struct cupti_device, name) == 136, "device");

typedef void (*cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void (*cupti_callback_fn)(void *user, int domain, uint32_t cbid, const void *data);
typedef uint64_t (*cupti_timestamp_fn)(void);
/* Of the second interface: no context and stream, and a structure of CUPTI's that opgap does not read. */
typedef void (*cupti_request_v2_fn)(uint8_t **buffer, size_t *size, size_t *max_records, void *info);
typedef void (*cupti_complete_v2_fn)(uint8_t *buffer, size_t size, size_t valid, void *info);

/* CUpti_SubscriberParams. */
struct cupti_subscriber_params {
  size_t size;
  const char *name;
  char *old_name;
  size_t old_name_size;
  uint8_t allow_several, padding[7];
};

static_assert(offsetof(struct cupti_subscriber_params, allow_several) == 32, "subscriber parameters");

/* CUpti_ActivityAttribute. */
#define CUPTI_ATTRIBUTE_SUBSCRIBERS 12    /* uint8_t: 0 one, 1 several, 2 nobody has said yet */
#define CUPTI_ATTRIBUTE_GRAPH_TRACE 20    /* uint8_t: graphs whole, for all subscribers */
#define CUPTI_ATTRIBUTE_THREAD_ID_TYPE 21 /* enum */
#define CUPTI_ATTRIBUTE_TIMESTAMP 22      /* cupti_timestamp_fn */

#define CUPTI_VERSION_SHARED 130300 /* the second interface works from CUDA 13.3 on */

/* The functions: X(required, result, name, parameters).  Those not required came with later CUPTIs. */
#define CUPTI_FUNCTIONS(X)                                                                                             \
  X(1, cuptiGetVersion, (uint32_t * version))                                                                          \
  X(1, cuptiSubscribe, (void **subscriber, cupti_callback_fn callback, void *user))                                    \
  X(1, cuptiUnsubscribe, (void *subscriber))                                                                           \
  X(1, cuptiActivityEnable, (int kind))                                                                                \
  X(1, cuptiActivityDisable, (int kind))                                                                               \
  X(1, cuptiActivityRegisterCallbacks, (cupti_request_fn request, cupti_complete_fn complete))                         \
  X(1, cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record))                                    \
  X(1, cuptiActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *dropped))                           \
  X(1, cuptiActivityFlushAll, (uint32_t flag))                                                                         \
  X(1, cuptiGetTimestamp, (uint64_t * timestamp))                                                                      \
  X(1, cuptiGetCallbackName, (int domain, uint32_t cbid, const char **name))                                           \
  X(1, cuptiEnableCallback, (uint32_t enable, void *subscriber, int domain, uint32_t cbid))                            \
  X(0, cuptiActivityEnableDriverApi, (uint32_t cbid, uint8_t enable))                                                  \
  X(0, cuptiActivityRegisterTimestampCallback, (cupti_timestamp_fn now))                                               \
  X(0, cuptiActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable))                                                 \
  X(0, cuptiSetThreadIdType, (int type))                                                                               \
  X(0, cuptiGetThreadIdType, (int *type))

/* The second interface, all of it or none: each subscriber has kinds, buffers and a clock of its own. */
#define CUPTI_SHARED_FUNCTIONS(X)                                                                                      \
  X(0, cuptiSubscribe_v2,                                                                                              \
    (void **subscriber, cupti_callback_fn callback, void *user, struct cupti_subscriber_params *params))               \
  X(0, cuptiActivityEnable_v2, (void *subscriber, int kind, void *config))                                             \
  X(0, cuptiActivityDisable_v2, (void *subscriber, int kind, void *config))                                            \
  X(0, cuptiActivityRegisterCallbacks_v2,                                                                              \
    (void *subscriber, cupti_request_v2_fn request, cupti_complete_v2_fn complete))                                    \
  X(0, cuptiActivityGetNextRecord_v2, (void *subscriber, uint8_t *buffer, size_t valid, void **record))                \
  X(0, cuptiActivityGetNumDroppedRecords_v2, (void *subscriber, void *context, uint32_t stream, size_t *dropped))      \
  X(0, cuptiActivityEnableDriverApi_v2, (void *subscriber, uint32_t cbid, uint8_t enable))                             \
  X(0, cuptiActivityEnableRuntimeApi_v2, (void *subscriber, uint32_t cbid, uint8_t enable))                            \
  X(0, cuptiActivityGetAttribute_v2, (void *subscriber, int attribute, size_t *size, void *value))                     \
  X(0, cuptiActivitySetAttribute_v2, (void *subscriber, int attribute, size_t *size, void *value))                     \
  X(0, cuptiActivityGetEnabledKinds, (void *subscriber, int *kinds, uint32_t *size, uint32_t *count))                  \
  X(0, cuptiGetTimestamp_v2, (void *subscriber, uint64_t *timestamp))

#endif
