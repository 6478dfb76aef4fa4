/* Compares opgap's declarations of CUPTI and NVTX, and the byte offsets that the fake CUPTI writes, with the real
 * headers. Compiled where the CUDA toolkit is installed; there is nothing to run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cupti.h>
#pragma GCC diagnostic pop
#include <assert.h>
#include <stddef.h>

/* opgap's enumerators bear CUPTI's names with other spellings; the headers' macros must not reach them. */
#include "gpu/cupti_abi.h"

#define SAME(ours, our_field, theirs, their_field)                                                                     \
  static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field), #theirs "." #their_field);          \
  static_assert(sizeof(((struct ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                "size of " #theirs "." #their_field)
/* the field begins there in the fake's records */
#define FAKE(offset, theirs, their_field)                                                                              \
  static_assert(offsetof(theirs, their_field) == (offset), "fake: " #theirs "." #their_field)
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
KERNEL(CUpti_ActivityKernel9);
KERNEL(CUpti_ActivityKernel10);
SAME(cupti_kernel, graph_node, CUpti_ActivityKernel5, graphNodeId);
SAME(cupti_kernel, graph, CUpti_ActivityKernel5, graphId);
SAME(cupti_kernel, graph_node, CUpti_ActivityKernel10, graphNodeId);
SAME(cupti_kernel, graph, CUpti_ActivityKernel10, graphId);
static_assert(sizeof(CUpti_ActivityKernel5) == 160 && sizeof(CUpti_ActivityKernel9) == 208, "the fake's kernels");
FAKE(80, CUpti_ActivityKernel9, dynamicSharedMemory);
FAKE(92, CUpti_ActivityKernel9, correlationId);
FAKE(104, CUpti_ActivityKernel9, name);
FAKE(144, CUpti_ActivityKernel9, graphNodeId);
FAKE(156, CUpti_ActivityKernel9, graphId);

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
MEMCPY(CUpti_ActivityMemcpy6);
SAME(cupti_memcpy, graph_node, CUpti_ActivityMemcpy3, graphNodeId);
SAME(cupti_memcpy, graph, CUpti_ActivityMemcpy4, graphId);
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
SAME(cupti_memset, graph_node, CUpti_ActivityMemset2, graphNodeId);
SAME(cupti_memset, graph, CUpti_ActivityMemset3, graphId);
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
MEMORY(CUpti_ActivityMemory4);
static_assert(sizeof(CUpti_ActivityMemory4) == 128, "the fake's memory records");

SAME(cupti_api, cbid, CUpti_ActivityAPI, cbid);
SAME(cupti_api, start, CUpti_ActivityAPI, start);
SAME(cupti_api, end, CUpti_ActivityAPI, end);
SAME(cupti_api, thread, CUpti_ActivityAPI, threadId);
SAME(cupti_api, correlation, CUpti_ActivityAPI, correlationId);
SAME(cupti_api, result, CUpti_ActivityAPI, returnValue);
static_assert(sizeof(CUpti_ActivityAPI) == CUPTI_API_MIN, "CUpti_ActivityAPI");

#define SYNC(theirs)                                                                                                   \
  SAME(cupti_sync, type, theirs, type);                                                                                \
  SAME(cupti_sync, start, theirs, start);                                                                              \
  SAME(cupti_sync, end, theirs, end);                                                                                  \
  SAME(cupti_sync, correlation, theirs, correlationId);                                                                \
  SAME(cupti_sync, context, theirs, contextId);                                                                        \
  SAME(cupti_sync, stream, theirs, streamId);                                                                          \
  SAME(cupti_sync, event, theirs, cudaEventId)
SYNC(CUpti_ActivitySynchronization);
SYNC(CUpti_ActivitySynchronization2);

#define OVERHEAD(theirs)                                                                                               \
  SAME(cupti_overhead, overhead_kind, theirs, overheadKind);                                                           \
  SAME(cupti_overhead, object_kind, theirs, objectKind);                                                               \
  SAME(cupti_overhead, start, theirs, start);                                                                          \
  SAME(cupti_overhead, end, theirs, end)
OVERHEAD(CUpti_ActivityOverhead);
OVERHEAD(CUpti_ActivityOverhead2);
OVERHEAD(CUpti_ActivityOverhead3);

#define GRAPH(theirs)                                                                                                  \
  SAME(cupti_graph, correlation, theirs, correlationId);                                                               \
  SAME(cupti_graph, start, theirs, start);                                                                             \
  SAME(cupti_graph, end, theirs, end);                                                                                 \
  SAME(cupti_graph, device, theirs, deviceId);                                                                         \
  SAME(cupti_graph, graph, theirs, graphId);                                                                           \
  SAME(cupti_graph, context, theirs, contextId);                                                                       \
  SAME(cupti_graph, stream, theirs, streamId)
GRAPH(CUpti_ActivityGraphTrace);
GRAPH(CUpti_ActivityGraphTrace2);
static_assert(sizeof(CUpti_ActivityGraphTrace) == 48, "the fake's graphs");

#define DEVICE(theirs)                                                                                                 \
  SAME(cupti_device, memory_bytes, theirs, globalMemorySize);                                                          \
  SAME(cupti_device, warp_threads, theirs, numThreadsPerWarp);                                                         \
  SAME(cupti_device, clock_khz, theirs, coreClockRate);                                                                \
  SAME(cupti_device, sm_count, theirs, numMultiprocessors);                                                            \
  SAME(cupti_device, max_warps_sm, theirs, maxWarpsPerMultiprocessor);                                                 \
  SAME(cupti_device, major, theirs, computeCapabilityMajor);                                                           \
  SAME(cupti_device, minor, theirs, computeCapabilityMinor);                                                           \
  SAME(cupti_device, id, theirs, id);                                                                                  \
  SAME(cupti_device, name, theirs, name);                                                                              \
  static_assert(sizeof(theirs) >= CUPTI_DEVICE_MIN, #theirs)
DEVICE(CUpti_ActivityDevice2);
DEVICE(CUpti_ActivityDevice3);
DEVICE(CUpti_ActivityDevice4);
DEVICE(CUpti_ActivityDevice5);
static_assert(sizeof(CUpti_ActivityDevice3) == 152 && sizeof(CUpti_ActivityDevice4) == 176, "the fake's devices");
FAKE(32, CUpti_ActivityDevice4, numThreadsPerWarp);
FAKE(104, CUpti_ActivityDevice4, computeCapabilityMajor);

VALUE(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
VALUE(CUPTI_NO_PRIVILEGE, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
VALUE(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
VALUE(CUPTI_VIRTUALIZED_NO_PRIVILEGE, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
VALUE(CUPTI_VIRTUALIZED, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
VALUE(CUPTI_CONFIDENTIAL_COMPUTING, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
VALUE(CUPTI_MIG_DEVICE, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
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
VALUE(CUPTI_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY2);
VALUE(CUPTI_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
VALUE(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
VALUE(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
VALUE(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
VALUE(CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
VALUE(CUPTI_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
VALUE(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
#define X(id, name) VALUE(id, CUPTI_RUNTIME_TRACE_CBID_##name);
CUPTI_QUIET_RUNTIME_CALLS(X)
#undef X
#define X(id, name) VALUE(id, CUPTI_DRIVER_TRACE_CBID_##name);
CUPTI_DRIVER_LAUNCHES(X)
#undef X
/* the names and numbers that the fake gives out */
#define NUMBER_1(id, name) VALUE(id, CUPTI_DRIVER_TRACE_CBID_##name);
#define NUMBER_2(id, name) VALUE(id, CUPTI_RUNTIME_TRACE_CBID_##name);
#define FAKE_CBID(domain, id, name) NUMBER_##domain(id, name)
#include "../fakes/fake_cbids.h"

/* the functions' types */
#define X(required, name, parameters)                                                                                  \
  static_assert(sizeof(&(name)) == sizeof(int(*) parameters), "the real library declares " #name);
CUPTI_FUNCTIONS(X)
#undef X

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
