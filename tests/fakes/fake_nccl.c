/* libnccl.so.2: collectives of one rank (nccl.h).  Each launches one device kernel, named as NCCL 2.18 and later name
 * theirs, through the driver's launch call, as NCCL does.  FAKE_NCCL_NS (0): duration; 0: bytes at 10 GB/s. */
#include "fake_gpu.h"

#include <string.h>

typedef int ncclResult_t;
struct communicator {
  int rank, ranks;
};

static size_t type_bytes(int type)
{
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; /* ncclDataType_t in order */
  return type >= 0 && type < 12 ? bytes[type] : 1;
}

/* One kernel on the stream. */
static int collective(const char *name, uint64_t bytes, void *stream)
{
  struct fake_call call = fake_call_begin();
  struct fake_work work = {.kind = FAKE_KERNEL, .name = name, .grid = {8, 1, 1}, .block = {544, 1, 1}};
  work.duration = fake_setting("FAKE_NCCL_NS", 0);
  if (work.duration == 0)
    work.duration = 10000 + bytes / 10;
  fake_submit(fake_stream_of(stream, 0), &work, call.correlation);
  return fake_call_end(&call, 1, 652 /* cuLaunchKernelEx */, 0);
}

FAKE_EXPORT ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetVersion(int *version)
{
  *version = 22203;
  return 0;
}
FAKE_EXPORT ncclResult_t ncclCommInitAll(struct communicator **communicators, int count, const int *devices);
ncclResult_t ncclCommInitAll(struct communicator **communicators, int count, const int *devices)
{
  (void)devices;
  for (int i = 0; i < count; i++) {
    communicators[i] = fake_memory_new(sizeof **communicators, true);
    communicators[i]->rank = i;
    communicators[i]->ranks = count;
  }
  return 0;
}
FAKE_EXPORT ncclResult_t ncclCommDestroy(struct communicator *communicator);
ncclResult_t ncclCommDestroy(struct communicator *communicator)
{
  fake_memory_free(communicator);
  return 0;
}
FAKE_EXPORT ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupStart(void)
{
  return 0;
}
FAKE_EXPORT ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupEnd(void)
{
  return 0;
}
FAKE_EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                                       struct communicator *communicator, void *stream);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                           struct communicator *communicator, void *stream)
{
  (void)operation, (void)communicator;
  uint64_t bytes = count * type_bytes(type);
  if (from != to)
    fake_copy_bytes(to, from, bytes);
  return collective("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE", bytes, stream);
}
FAKE_EXPORT ncclResult_t ncclAllGather(const void *from, void *to, size_t count, int type,
                                       struct communicator *communicator, void *stream);
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, int type, struct communicator *communicator,
                           void *stream)
{
  (void)communicator;
  uint64_t bytes = count * type_bytes(type);
  if (from != to)
    fake_copy_bytes(to, from, bytes);
  return collective("_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE", bytes, stream);
}
FAKE_EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                                       struct communicator *communicator, void *stream);
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                           struct communicator *communicator, void *stream)
{
  (void)root, (void)communicator;
  uint64_t bytes = count * type_bytes(type);
  if (from != to)
    fake_copy_bytes(to, from, bytes);
  return collective("_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE", bytes, stream);
}
