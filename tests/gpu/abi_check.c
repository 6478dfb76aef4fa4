/* Compares opgap's declarations of CUPTI and NVTX, and the byte offsets that the fake CUPTI writes, with the real
 * headers, of CUDA 11.8 to 13.5.  Compiled where the CUDA toolkit is installed, and by abi_versions.sh against the
 * headers of every version; there is nothing to run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cupti.h>
#pragma GCC diagnostic pop
#include <assert.h>
#include <stddef.h>

/* opgap's enumerators bear CUPTI's names with other spellings; the headers' macros must not reach them. */
#include "gpu/cupti_api.h"

#define SAME(ours, our_field, theirs, their_field)                                                                     \
  static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field), #theirs "." #their_field);          \
  static_assert(sizeof(((struct ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                "size of " #theirs "." #their_field)
/* the field begins there in the fake's records */
#define FAKE(offset, theirs, their_field)                                                                              \
  static_assert(offsetof(theirs, their_field) == (offset), "fake: " #theirs "." #their_field)
/* what came with which CUDA; cupti.h includes cuda.h */
#if CUDA_VERSION >= 12000
#define SINCE_12_0(x) x
#else
#define SINCE_12_0(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 12040
#define SINCE_12_4(x) x
#else
#define SINCE_12_4(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 12060
#define SINCE_12_6(x) x
#else
#define SINCE_12_6(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 12080
#define SINCE_12_8(x) x
#else
#define SINCE_12_8(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 13000
#define SINCE_13_0(x) x
#else
#define SINCE_13_0(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 13010
#define SINCE_13_1(x) x
#else
#define SINCE_13_1(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 13020
#define SINCE_13_2(x) x
#else
#define SINCE_13_2(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 13030
#define SINCE_13_3(x) x
#else
#define SINCE_13_3(x) static_assert(1, "later")
#endif
#if CUDA_VERSION >= 13040
#define SINCE_13_4(x) x
#else
#define SINCE_13_4(x) static_assert(1, "later")
#endif
#define VALUE(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

#define KERNEL(theirs)                                                                                                 \
  SAME(cupti_kernel, kind, theirs, kind);                                                                              \
  SAME(cupti_kernel, registers, theirs, registersPerThread);                                                           \
  SAME(cupti_kernel, start, theirs, start);                                                                            \
  SAME(cupti_kernel, end, theirs, end);                                                                                \
  SAME(cupti_kernel, device, theirs, deviceId);                                                                        \
  SAME(cupti_kernel, context, theirs, contextId);                                                                      \
  SAME(cupti_kernel, stream, theirs, streamId);                                                                        \
  SAME(cupti_kernel, grid[0], theirs, gridX);                                                                          \
  SAME(cupti_kernel, grid[2], theirs, gridZ);                                                                          \
  SAME(cupti_kernel, block[0], theirs, blockX);                                                                        \
  SAME(cupti_kernel, block[2], theirs, blockZ);                                                                        \
  SAME(cupti_kernel, static_shared, theirs, staticSharedMemory);                                                       \
  SAME(cupti_kernel, dynamic_shared, theirs, dynamicSharedMemory);                                                     \
  SAME(cupti_kernel, correlation, theirs, correlationId);                                                              \
  SAME(cupti_kernel, name, theirs, name);                                                                              \
  static_assert(sizeof(theirs) >= CUPTI_KERNEL_MIN, #theirs)
KERNEL(CUpti_ActivityKernel4);
KERNEL(CUpti_ActivityKernel5);
KERNEL(CUpti_ActivityKernel6);
KERNEL(CUpti_ActivityKernel7);
KERNEL(CUpti_ActivityKernel8);
SINCE_12_0(KERNEL(CUpti_ActivityKernel9));
SINCE_13_0(KERNEL(CUpti_ActivityKernel10));
SINCE_13_1(KERNEL(CUpti_ActivityKernel11));
SINCE_13_3(KERNEL(CUpti_ActivityKernel12));
SINCE_13_4(KERNEL(CUpti_ActivityKernel13));
SAME(cupti_kernel, graph_node, CUpti_ActivityKernel5, graphNodeId);
SAME(cupti_kernel, graph, CUpti_ActivityKernel5, graphId);
SINCE_13_0(SAME(cupti_kernel, graph_node, CUpti_ActivityKernel10, graphNodeId));
SINCE_13_0(SAME(cupti_kernel, graph, CUpti_ActivityKernel10, graphId));
SINCE_13_4(SAME(cupti_kernel, graph_node, CUpti_ActivityKernel13, graphNodeId));
SINCE_13_4(SAME(cupti_kernel, graph, CUpti_ActivityKernel13, graphId));
static_assert(sizeof(CUpti_ActivityKernel5) == 160, "the fake's kernels, 11");
SINCE_12_0(static_assert(sizeof(CUpti_ActivityKernel9) == 208, "the fake's kernels, 12"));
SINCE_13_4(static_assert(sizeof(CUpti_ActivityKernel13) == 248, "the fake's kernels, 13"));
SINCE_12_0(FAKE(80, CUpti_ActivityKernel9, dynamicSharedMemory));
SINCE_12_0(FAKE(92, CUpti_ActivityKernel9, correlationId));
SINCE_12_0(FAKE(104, CUpti_ActivityKernel9, name));
SINCE_12_0(FAKE(144, CUpti_ActivityKernel9, graphNodeId));
SINCE_12_0(FAKE(156, CUpti_ActivityKernel9, graphId));

#define MEMCPY(theirs)                                                                                                 \
  SAME(cupti_memcpy, copy_kind, theirs, copyKind);                                                                     \
  SAME(cupti_memcpy, src_kind, theirs, srcKind);                                                                       \
  SAME(cupti_memcpy, dst_kind, theirs, dstKind);                                                                       \
  SAME(cupti_memcpy, flags, theirs, flags);                                                                            \
  SAME(cupti_memcpy, bytes, theirs, bytes);                                                                            \
  SAME(cupti_memcpy, start, theirs, start);                                                                            \
  SAME(cupti_memcpy, end, theirs, end);                                                                                \
  SAME(cupti_memcpy, device, theirs, deviceId);                                                                        \
  SAME(cupti_memcpy, context, theirs, contextId);                                                                      \
  SAME(cupti_memcpy, stream, theirs, streamId);                                                                        \
  SAME(cupti_memcpy, correlation, theirs, correlationId);                                                              \
  static_assert(sizeof(theirs) >= CUPTI_MEMCPY_MIN, #theirs)
MEMCPY(CUpti_ActivityMemcpy);
MEMCPY(CUpti_ActivityMemcpy3);
MEMCPY(CUpti_ActivityMemcpy4);
MEMCPY(CUpti_ActivityMemcpy5);
SINCE_12_8(MEMCPY(CUpti_ActivityMemcpy6));
SINCE_13_4(MEMCPY(CUpti_ActivityMemcpy7));
SAME(cupti_memcpy, graph_node, CUpti_ActivityMemcpy3, graphNodeId);
SAME(cupti_memcpy, graph, CUpti_ActivityMemcpy4, graphId);
SINCE_13_4(SAME(cupti_memcpy, graph, CUpti_ActivityMemcpy7, graphId));
SINCE_13_4(static_assert(sizeof(CUpti_ActivityMemcpy7) == 112, "the fake's copies, 13"));
static_assert(sizeof(CUpti_ActivityMemcpy3) == 72 && sizeof(CUpti_ActivityMemcpy5) == 88, "the fake's copies");
FAKE(44, CUpti_ActivityMemcpy5, correlationId);
FAKE(64, CUpti_ActivityMemcpy5, graphNodeId);
FAKE(72, CUpti_ActivityMemcpy5, graphId);

#define PEER(theirs)                                                                                                   \
  SAME(cupti_memcpy_peer, copy_kind, theirs, copyKind);                                                                \
  SAME(cupti_memcpy_peer, bytes, theirs, bytes);                                                                       \
  SAME(cupti_memcpy_peer, start, theirs, start);                                                                       \
  SAME(cupti_memcpy_peer, end, theirs, end);                                                                           \
  SAME(cupti_memcpy_peer, stream, theirs, streamId);                                                                   \
  SAME(cupti_memcpy_peer, dst_device, theirs, dstDeviceId);                                                            \
  SAME(cupti_memcpy_peer, correlation, theirs, correlationId);                                                         \
  static_assert(sizeof(theirs) >= CUPTI_MEMCPY_PEER_MIN, #theirs)
PEER(CUpti_ActivityMemcpyPtoP);
PEER(CUpti_ActivityMemcpyPtoP2);
PEER(CUpti_ActivityMemcpyPtoP3);
PEER(CUpti_ActivityMemcpyPtoP4);
SAME(cupti_memcpy_peer, graph_node, CUpti_ActivityMemcpyPtoP2, graphNodeId);
SAME(cupti_memcpy_peer, graph, CUpti_ActivityMemcpyPtoP3, graphId);
FAKE(52, CUpti_ActivityMemcpyPtoP3, dstDeviceId);
FAKE(60, CUpti_ActivityMemcpyPtoP3, correlationId);
FAKE(72, CUpti_ActivityMemcpyPtoP3, graphNodeId);
static_assert(sizeof(CUpti_ActivityMemcpyPtoP2) == 80 && sizeof(CUpti_ActivityMemcpyPtoP3) == 88, "the fake's peers");

#define MEMSET(theirs)                                                                                                 \
  SAME(cupti_memset, value, theirs, value);                                                                            \
  SAME(cupti_memset, bytes, theirs, bytes);                                                                            \
  SAME(cupti_memset, start, theirs, start);                                                                            \
  SAME(cupti_memset, end, theirs, end);                                                                                \
  SAME(cupti_memset, stream, theirs, streamId);                                                                        \
  SAME(cupti_memset, correlation, theirs, correlationId);                                                              \
  SAME(cupti_memset, memory_kind, theirs, memoryKind);                                                                 \
  static_assert(sizeof(theirs) >= CUPTI_MEMSET_MIN, #theirs)
MEMSET(CUpti_ActivityMemset);
MEMSET(CUpti_ActivityMemset2);
MEMSET(CUpti_ActivityMemset3);
MEMSET(CUpti_ActivityMemset4);
SINCE_13_4(MEMSET(CUpti_ActivityMemset5));
SAME(cupti_memset, graph_node, CUpti_ActivityMemset2, graphNodeId);
SAME(cupti_memset, graph, CUpti_ActivityMemset3, graphId);
SINCE_13_4(SAME(cupti_memset, graph, CUpti_ActivityMemset5, graphId));
SINCE_13_4(static_assert(sizeof(CUpti_ActivityMemset5) == 104, "the fake's sets, 13"));
static_assert(sizeof(CUpti_ActivityMemset2) == 72 && sizeof(CUpti_ActivityMemset3) == 80, "the fake's sets");

#define MEMORY(theirs)                                                                                                 \
  SAME(cupti_memory, operation, theirs, memoryOperationType);                                                          \
  SAME(cupti_memory, memory_kind, theirs, memoryKind);                                                                 \
  SAME(cupti_memory, correlation, theirs, correlationId);                                                              \
  SAME(cupti_memory, address, theirs, address);                                                                        \
  SAME(cupti_memory, bytes, theirs, bytes);                                                                            \
  SAME(cupti_memory, timestamp, theirs, timestamp);                                                                    \
  SAME(cupti_memory, device, theirs, deviceId);                                                                        \
  SAME(cupti_memory, context, theirs, contextId);                                                                      \
  SAME(cupti_memory, stream, theirs, streamId);                                                                        \
  static_assert(sizeof(theirs) >= CUPTI_MEMORY_MIN, #theirs)
MEMORY(CUpti_ActivityMemory2);
MEMORY(CUpti_ActivityMemory3);
SINCE_12_6(MEMORY(CUpti_ActivityMemory4));
static_assert(sizeof(CUpti_ActivityMemory2) == 112, "the fake's memory records, 11");
static_assert(sizeof(CUpti_ActivityMemory3) == 120, "the fake's memory records, 12");
SINCE_12_6(static_assert(sizeof(CUpti_ActivityMemory4) == 128, "the fake's memory records, 13"));

SAME(cupti_api, cbid, CUpti_ActivityAPI, cbid);
SAME(cupti_api, start, CUpti_ActivityAPI, start);
SAME(cupti_api, end, CUpti_ActivityAPI, end);
SAME(cupti_api, thread, CUpti_ActivityAPI, threadId);
SAME(cupti_api, correlation, CUpti_ActivityAPI, correlationId);
SAME(cupti_api, result, CUpti_ActivityAPI, returnValue);
static_assert(sizeof(CUpti_ActivityAPI) == CUPTI_API_MIN, "CUpti_ActivityAPI");

SAME(cupti_external, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
SAME(cupti_external, id, CUpti_ActivityExternalCorrelation, externalId);
SAME(cupti_external, correlation, CUpti_ActivityExternalCorrelation, correlationId);
static_assert(sizeof(CUpti_ActivityExternalCorrelation) == CUPTI_EXTERNAL_MIN, "CUpti_ActivityExternalCorrelation");
FAKE(4, CUpti_ActivityExternalCorrelation, externalKind);
FAKE(8, CUpti_ActivityExternalCorrelation, externalId);
FAKE(16, CUpti_ActivityExternalCorrelation, correlationId);
static_assert(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 == 3 && CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 == 5 &&
                  CUPTI_EXTERNAL_CORRELATION_KIND_SIZE == 6,
              "kinds of external ids");

#define SYNC(theirs)                                                                                                   \
  SAME(cupti_sync, type, theirs, type);                                                                                \
  SAME(cupti_sync, start, theirs, start);                                                                              \
  SAME(cupti_sync, end, theirs, end);                                                                                  \
  SAME(cupti_sync, correlation, theirs, correlationId);                                                                \
  SAME(cupti_sync, context, theirs, contextId);                                                                        \
  SAME(cupti_sync, stream, theirs, streamId);                                                                          \
  SAME(cupti_sync, event, theirs, cudaEventId)
SYNC(CUpti_ActivitySynchronization);
SINCE_12_8(SYNC(CUpti_ActivitySynchronization2));
SINCE_12_8(static_assert(sizeof(CUpti_ActivitySynchronization2) == 56, "the fake's synchronisations, 13"));

#define OVERHEAD(theirs)                                                                                               \
  SAME(cupti_overhead, overhead_kind, theirs, overheadKind);                                                           \
  SAME(cupti_overhead, object_kind, theirs, objectKind);                                                               \
  SAME(cupti_overhead, start, theirs, start);                                                                          \
  SAME(cupti_overhead, end, theirs, end)
OVERHEAD(CUpti_ActivityOverhead);
SINCE_12_4(OVERHEAD(CUpti_ActivityOverhead2));
SINCE_12_4(OVERHEAD(CUpti_ActivityOverhead3));
FAKE(12, CUpti_ActivityOverhead, objectId);
SINCE_12_4(static_assert(sizeof(CUpti_ActivityOverhead3) == 56, "the fake's overheads"));

#define GRAPH(theirs)                                                                                                  \
  SAME(cupti_graph, correlation, theirs, correlationId);                                                               \
  SAME(cupti_graph, start, theirs, start);                                                                             \
  SAME(cupti_graph, end, theirs, end);                                                                                 \
  SAME(cupti_graph, device, theirs, deviceId);                                                                         \
  SAME(cupti_graph, graph, theirs, graphId);                                                                           \
  SAME(cupti_graph, context, theirs, contextId);                                                                       \
  SAME(cupti_graph, stream, theirs, streamId)
GRAPH(CUpti_ActivityGraphTrace);
SINCE_12_4(GRAPH(CUpti_ActivityGraphTrace2));
static_assert(sizeof(CUpti_ActivityGraphTrace) == 48, "the fake's graphs, 11");
SINCE_12_4(static_assert(sizeof(CUpti_ActivityGraphTrace2) == 56, "the fake's graphs"));

#define DEVICE(theirs)                                                                                                 \
  SAME(cupti_device, memory_bytes, theirs, globalMemorySize);                                                          \
  SAME(cupti_device, warp_threads, theirs, numThreadsPerWarp);                                                         \
  SAME(cupti_device, clock_khz, theirs, coreClockRate);                                                                \
  SAME(cupti_device, sm_count, theirs, numMultiprocessors);                                                            \
  SAME(cupti_device, max_warps_sm, theirs, maxWarpsPerMultiprocessor);                                                 \
  SAME(cupti_device, max_blocks_sm, theirs, maxBlocksPerMultiprocessor);                                               \
  SAME(cupti_device, max_shared_sm, theirs, maxSharedMemoryPerMultiprocessor);                                         \
  SAME(cupti_device, max_registers_sm, theirs, maxRegistersPerMultiprocessor);                                         \
  SAME(cupti_device, max_registers_block, theirs, maxRegistersPerBlock);                                               \
  SAME(cupti_device, max_shared_block, theirs, maxSharedMemoryPerBlock);                                               \
  SAME(cupti_device, max_threads_block, theirs, maxThreadsPerBlock);                                                   \
  SAME(cupti_device, major, theirs, computeCapabilityMajor);                                                           \
  SAME(cupti_device, minor, theirs, computeCapabilityMinor);                                                           \
  SAME(cupti_device, id, theirs, id);                                                                                  \
  SAME(cupti_device, uuid, theirs, uuid);                                                                              \
  SAME(cupti_device, name, theirs, name);                                                                              \
  static_assert(sizeof(theirs) >= CUPTI_DEVICE_MIN, #theirs)
DEVICE(CUpti_ActivityDevice2);
DEVICE(CUpti_ActivityDevice3);
DEVICE(CUpti_ActivityDevice4);
SINCE_12_4(DEVICE(CUpti_ActivityDevice5));
SINCE_13_2(DEVICE(CUpti_ActivityDevice6));
SINCE_13_2(static_assert(sizeof(CUpti_ActivityDevice6) == 192, "the fake's devices, 13"));
static_assert(sizeof(CUpti_ActivityDevice3) == 152 && sizeof(CUpti_ActivityDevice4) == 176, "the fake's devices");
FAKE(32, CUpti_ActivityDevice4, numThreadsPerWarp);
FAKE(104, CUpti_ActivityDevice4, computeCapabilityMajor);
FAKE(56, CUpti_ActivityDevice4, maxBlocksPerMultiprocessor);
FAKE(60, CUpti_ActivityDevice4, maxSharedMemoryPerMultiprocessor);
FAKE(64, CUpti_ActivityDevice4, maxRegistersPerMultiprocessor);
FAKE(68, CUpti_ActivityDevice4, maxRegistersPerBlock);
FAKE(120, CUpti_ActivityDevice4, uuid);

#define POOL(theirs)                                                                                                   \
  SAME(cupti_pool, operation, theirs, memoryPoolOperationType);                                                        \
  SAME(cupti_pool, type, theirs, memoryPoolType);                                                                      \
  SAME(cupti_pool, correlation, theirs, correlationId);                                                                \
  SAME(cupti_pool, device, theirs, deviceId);                                                                          \
  SAME(cupti_pool, keep, theirs, minBytesToKeep);                                                                      \
  SAME(cupti_pool, address, theirs, address);                                                                          \
  SAME(cupti_pool, bytes, theirs, size);                                                                               \
  SAME(cupti_pool, threshold, theirs, releaseThreshold);                                                               \
  SAME(cupti_pool, timestamp, theirs, timestamp);                                                                      \
  static_assert(sizeof(theirs) >= CUPTI_POOL_MIN, #theirs)
POOL(CUpti_ActivityMemoryPool);
POOL(CUpti_ActivityMemoryPool2);
SINCE_13_0(POOL(CUpti_ActivityMemoryPool3));
SAME(cupti_pool, used, CUpti_ActivityMemoryPool2, utilizedSize);
static_assert(sizeof(CUpti_ActivityMemoryPool2) == 72, "the fake's pools");
SINCE_13_0(static_assert(sizeof(CUpti_ActivityMemoryPool3) == 80, "the fake's pools, 13"));

VALUE(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
VALUE(CUPTI_NO_PRIVILEGE, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
VALUE(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
VALUE(CUPTI_VIRTUALIZED_NO_PRIVILEGE, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
VALUE(CUPTI_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
VALUE(CUPTI_CONFIDENTIAL_COMPUTING, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
SINCE_12_8(VALUE(CUPTI_MIG_DEVICE, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED));
VALUE(CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
VALUE(CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
VALUE(CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
VALUE(CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
VALUE(CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
VALUE(CUPTI_KIND_DEVICE, CUPTI_ACTIVITY_KIND_DEVICE);
VALUE(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
VALUE(CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
VALUE(CUPTI_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
VALUE(CUPTI_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
VALUE(CUPTI_KIND_EXTERNAL, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
VALUE(CUPTI_KIND_MEMORY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
VALUE(CUPTI_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY2);
VALUE(CUPTI_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
VALUE(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
VALUE(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
VALUE(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
VALUE(CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
VALUE(CUPTI_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
VALUE(CUPTI_THREAD_ID_DEFAULT, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
VALUE(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
#define X(id, name) VALUE(id, CUPTI_RUNTIME_TRACE_CBID_##name);
CUPTI_QUIET_RUNTIME_CALLS(X)
#undef X
#define X(id, name) VALUE(id, CUPTI_DRIVER_TRACE_CBID_##name);
CUPTI_DRIVER_LAUNCHES(X)
#undef X
/* the names and numbers that the fake gives out */
#if CUDA_VERSION < 12000
#define CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000 443 /* the fake has one table for all */
#endif
#define NUMBER_1(id, name) VALUE(id, CUPTI_DRIVER_TRACE_CBID_##name);
#define NUMBER_2(id, name) VALUE(id, CUPTI_RUNTIME_TRACE_CBID_##name);
#define FAKE_CBID(domain, id, name) NUMBER_##domain(id, name)
#include "../fakes/fake_cbids.h"

/* The functions: a call with as many arguments, pointers (P) and numbers (N) in the same places, is one of ours and one
 * of the headers'. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic error "-Wint-conversion"
int opgap_check_functions(void *P, int N);
int opgap_check_functions(void *P, int N)
{
  size_t sum = 0;
#define FUNCTION(name, ...)                                                                                            \
  sum += sizeof(opgap_cupti.name(__VA_ARGS__)) == sizeof(int) && sizeof(name(__VA_ARGS__)) == sizeof(int)
  FUNCTION(cuptiGetVersion, P);
  FUNCTION(cuptiSubscribe, P, P, P);
  FUNCTION(cuptiUnsubscribe, P);
  FUNCTION(cuptiActivityEnable, N);
  FUNCTION(cuptiActivityDisable, N);
  FUNCTION(cuptiActivityRegisterCallbacks, P, P);
  FUNCTION(cuptiActivityGetNextRecord, P, N, P);
  FUNCTION(cuptiActivityGetNumDroppedRecords, P, N, P);
  FUNCTION(cuptiActivityFlushAll, N);
  FUNCTION(cuptiGetTimestamp, P);
  FUNCTION(cuptiGetCallbackName, N, N, P);
  FUNCTION(cuptiEnableCallback, N, P, N, N);
  FUNCTION(cuptiActivityRegisterTimestampCallback, P);
  FUNCTION(cuptiSetThreadIdType, N);
  FUNCTION(cuptiGetThreadIdType, P);
#if CUDA_VERSION >= 12060
  FUNCTION(cuptiActivityEnableDriverApi, N, N);
  FUNCTION(cuptiActivityEnableRuntimeApi, N, N);
#endif
#if CUDA_VERSION >= 13000
  FUNCTION(cuptiSubscribe_v2, P, P, P, P);
#endif
#if CUDA_VERSION >= 13030
  FUNCTION(cuptiActivityEnable_v2, P, N, P);
  FUNCTION(cuptiActivityDisable_v2, P, N, P);
  FUNCTION(cuptiActivityRegisterCallbacks_v2, P, P, P);
  FUNCTION(cuptiActivityGetNextRecord_v2, P, P, N, P);
  FUNCTION(cuptiActivityGetNumDroppedRecords_v2, P, P, N, P);
  FUNCTION(cuptiActivityEnableDriverApi_v2, P, N, N);
  FUNCTION(cuptiActivityEnableRuntimeApi_v2, P, N, N);
  FUNCTION(cuptiActivityGetAttribute_v2, P, N, P, P);
  FUNCTION(cuptiActivitySetAttribute_v2, P, N, P, P);
  FUNCTION(cuptiActivityGetEnabledKinds, P, P, P, P);
  FUNCTION(cuptiGetTimestamp_v2, P, P);
#endif
  return (int)sum;
}
#pragma GCC diagnostic pop

#if CUDA_VERSION >= 13030
SAME(cupti_subscriber_params, size, CUpti_SubscriberParams, structSize);
SAME(cupti_subscriber_params, name, CUpti_SubscriberParams, subscriberName);
SAME(cupti_subscriber_params, old_name, CUpti_SubscriberParams, oldSubscriberName);
SAME(cupti_subscriber_params, old_name_size, CUpti_SubscriberParams, oldSubscriberSize);
SAME(cupti_subscriber_params, allow_several, CUpti_SubscriberParams, allowMultipleSubscribers);
static_assert(sizeof(struct cupti_subscriber_params) == CUpti_SubscriberParams_STRUCT_SIZE, "CUpti_SubscriberParams");
VALUE(CUPTI_ATTRIBUTE_SUBSCRIBERS, CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE);
VALUE(CUPTI_ATTRIBUTE_GRAPH_TRACE, CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE);
VALUE(CUPTI_ATTRIBUTE_THREAD_ID_TYPE, CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE);
VALUE(CUPTI_ATTRIBUTE_TIMESTAMP, CUPTI_ACTIVITY_ATTR_TIMESTAMP_CALLBACK);
#endif

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_NO_IMPL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <nvtx3/nvToolsExt.h>
#pragma GCC diagnostic pop
#include "gpu/nvtx_abi.h"
SAME(nvtx_attributes, version, nvtxEventAttributes_t, version);
SAME(nvtx_attributes, size, nvtxEventAttributes_t, size);
SAME(nvtx_attributes, category, nvtxEventAttributes_t, category);
SAME(nvtx_attributes, payload, nvtxEventAttributes_t, payload);
SAME(nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
SAME(nvtx_attributes, message, nvtxEventAttributes_t, message);
SAME(nvtx_callbacks, get_module, NvtxExportTableCallbacks, GetModuleFunctionTable);
VALUE(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
VALUE(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
VALUE(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
VALUE(NVTX_MARK_EX, NVTX_CBID_CORE_MarkEx);
VALUE(NVTX_RANGE_END, NVTX_CBID_CORE_RangeEnd);
VALUE(NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
VALUE(NVTX_NAME_THREAD_W, NVTX_CBID_CORE_NameOsThreadW);
VALUE(NVTX_DOMAIN_MARK_EX, NVTX_CBID_CORE2_DomainMarkEx);
VALUE(NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
VALUE(NVTX_DOMAIN_REGISTER_STRING_W, NVTX_CBID_CORE2_DomainRegisterStringW);
VALUE(NVTX_INITIALIZE, NVTX_CBID_CORE2_Initialize);
VALUE(NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
VALUE(NVTX_MESSAGE_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
VALUE(NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
VALUE(NVTX_NOT_TRACKED, NVTX_NO_PUSH_POP_TRACKING);
#endif

#if __has_include(<nvml.h>)
#include <nvml.h>
#include "gpu/nvml_abi.h"
static_assert(sizeof(struct nvml_memory) == sizeof(nvmlMemory_t), "nvmlMemory_t");
SAME(nvml_memory, total, nvmlMemory_t, total);
SAME(nvml_memory, used, nvmlMemory_t, used);
static_assert(sizeof(struct nvml_utilization) == sizeof(nvmlUtilization_t), "nvmlUtilization_t");
SAME(nvml_utilization, gpu, nvmlUtilization_t, gpu);
SAME(nvml_utilization, memory, nvmlUtilization_t, memory);
VALUE(NVML_NAME_BYTES, NVML_DEVICE_NAME_V2_BUFFER_SIZE);
VALUE(NVML_OK, NVML_SUCCESS);
VALUE(NVML_CLOCK_OF_SM, NVML_CLOCK_SM);
VALUE(NVML_CLOCK_OF_MEMORY, NVML_CLOCK_MEM);
VALUE(NVML_SENSOR_OF_GPU, NVML_TEMPERATURE_GPU);
VALUE(NVML_DRIVER_VERSION_BYTES, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
struct check_nvml {
#define X(name, parameters) int(*name) parameters;
  NVML_FUNCTIONS(X)
#undef X
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic error "-Wint-conversion"
int opgap_check_nvml(const struct check_nvml *ours, void *P, int N);
int opgap_check_nvml(const struct check_nvml *ours, void *P, int N)
{
  size_t sum = 0;
#undef FUNCTION
#define FUNCTION(name, ...)                                                                                            \
  sum += sizeof(ours->name(__VA_ARGS__)) == sizeof(int) && sizeof(name(__VA_ARGS__)) == sizeof(int)
  FUNCTION(nvmlInit_v2, );
  FUNCTION(nvmlDeviceGetHandleByUUID, P, P);
  FUNCTION(nvmlSystemGetDriverVersion, P, N);
  FUNCTION(nvmlDeviceGetClockInfo, P, N, P);
  FUNCTION(nvmlDeviceGetMaxClockInfo, P, N, P);
  FUNCTION(nvmlDeviceGetPowerUsage, P, P);
  FUNCTION(nvmlDeviceGetEnforcedPowerLimit, P, P);
  FUNCTION(nvmlDeviceGetTemperature, P, N, P);
  FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons, P, P);
  FUNCTION(nvmlDeviceGetMemoryInfo, P, P);
  FUNCTION(nvmlDeviceGetUtilizationRates, P, P);
  FUNCTION(nvmlDeviceGetName, P, P, N);
  return (int)sum;
}
#pragma GCC diagnostic pop
#endif
