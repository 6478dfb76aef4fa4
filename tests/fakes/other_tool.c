/* A program that uses CUPTI itself, as torch.profiler does: kernels before, during and after its own session.  Prints
 * how many kernels its session saw. */
#include "cuda_subset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int cuptiSubscribe(void **subscriber, void (*callback)(void *, int, uint32_t, const void *), void *user);
int cuptiUnsubscribe(void *subscriber);
int cuptiActivityEnable(int kind);
int cuptiActivityDisable(int kind);
int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
                                   void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t));
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiFinalize(void);

static unsigned seen;

static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
  *size = 1 << 16;
  *buffer = aligned_alloc(8, *size);
  *max_records = 0;
}
static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
  void *record = NULL;
  (void)context, (void)stream, (void)size;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    seen += kind == 10;
  }
  free(buffer);
}
static void callback(void *user, int domain, uint32_t cbid, const void *data)
{
  (void)user, (void)domain, (void)cbid, (void)data;
}

static void kernels(unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    launch_spin(200000, NULL);
  cudaDeviceSynchronize();
}

int main(int argc, char **argv)
{
  struct timespec pause = {1, 500000000}; /* longer than opgap waits before it takes CUPTI back */
  void *subscriber = NULL;
  int finalize = argc > 1 && strcmp(argv[1], "finalize") == 0;
  int keep = argc > 1 && strcmp(argv[1], "keep") == 0; /* stays subscribed, as torch.profiler does */
  kernels(10);
  int result = cuptiSubscribe(&subscriber, callback, NULL);
  if (result == 0) {
    cuptiActivityRegisterCallbacks(request, complete);
    cuptiActivityEnable(10);
    kernels(7);
    cuptiActivityFlushAll(1);
    cuptiActivityDisable(10);
    if (finalize)
      cuptiFinalize();
    else if (!keep)
      cuptiUnsubscribe(subscriber);
  }
  nanosleep(&pause, NULL);
  kernels(5);
  printf("subscribe %d\nseen %u\n", result, seen);
  return 0;
}
