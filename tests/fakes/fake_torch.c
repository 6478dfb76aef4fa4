/* What a CUDA build of PyTorch asks of the CUDA runtime besides fake_cudart.c, enough for elementwise work on the fake
 * GPU.
 *
 * Loaded before libcudart by tests/gpu/test_torch.py, which adds a function for every other symbol that torch's
 * libraries ask for; those return "not supported" and are never reached here.  Declared by the toolkit's own headers,
 * as cudaDeviceProp is too large to be declared by hand.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
  (void)device;
  memset(p, 0, sizeof *p);
  strcpy(p->name, "Fake GPU 80GB");
  p->totalGlobalMem = (size_t)80 << 30;
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = 8;
  p->multiProcessorCount = 108;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->sharedMemPerMultiprocessor = 167936;
  p->l2CacheSize = 40 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
  (void)device;
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor:
    *value = 8;
    break;
  case cudaDevAttrMultiProcessorCount:
    *value = 108;
    break;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = 2048;
    break;
  case cudaDevAttrWarpSize:
    *value = 32;
    break;
  case cudaDevAttrMaxThreadsPerBlock:
    *value = 1024;
    break;
  case cudaDevAttrMaxGridDimX:
    *value = 0x7fffffff;
    break;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *value = 49152;
    break;
  default:
    *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
  *unused = (size_t)70 << 30;
  *total = (size_t)80 << 30;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
  *version = 13020;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
  (void)priority;
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
  (void)stream;
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
#undef cudaStreamGetCaptureInfo
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count)
{
  (void)id, (void)graph, (void)dependencies, (void)edges, (void)count;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
  (void)mode;
  return cudaSuccess;
}
cudaError_t cudaPeekAtLastError(void)
{
  return cudaSuccess;
}
const char *cudaGetErrorName(cudaError_t error)
{
  (void)error;
  return "an error of the fake runtime";
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
  (void)function;
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 80;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
  (void)function, (void)attribute, (void)value;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads, size_t shared)
{
  (void)function, (void)threads, (void)shared;
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads,
                                                                   size_t shared, unsigned flags)
{
  (void)flags;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                          config->stream);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *at)
{
  (void)at;
  memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
  (void)flags;
  return cudaEventRecord(event, stream);
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int from, int to)
{
  (void)from, (void)to;
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result)
{
  (void)version, (void)flags;
  *function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (result != NULL)
    *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

/* Of the driver: no context stands yet. */
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
  (void)device;
  *flags = 0;
  *active = 1;
  return 0;
}

/* Of CUPTI: what Kineto calls and the fake has no use for. */
int cuptiEnableDomain(unsigned enable, void *subscriber, int domain);
int cuptiEnableDomain(unsigned enable, void *subscriber, int domain)
{
  (void)enable, (void)subscriber, (void)domain;
  return 0;
}
int cuptiActivityEnableCudaEventDeviceTimestamps(unsigned char enable);
int cuptiActivityEnableCudaEventDeviceTimestamps(unsigned char enable)
{
  (void)enable;
  return 0;
}
int cuptiActivitySetAttribute(int attribute, size_t *size, void *value);
int cuptiActivitySetAttribute(int attribute, size_t *size, void *value)
{
  (void)attribute, (void)size, (void)value;
  return 0;
}
int cuptiGetResultString(int result, const char **text);
int cuptiGetResultString(int result, const char **text)
{
  (void)result;
  *text = "an error of the fake CUPTI";
  return 0;
}
