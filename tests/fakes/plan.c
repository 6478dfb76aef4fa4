/* A time line of two devices that is known to the microsecond before it runs (fake_plan_begin): gpu_plan_12 [STEPS]
 *
 * A call takes 4 us, work starts 5 us after its submission (FAKE_LAUNCH_NS) or when its stream is free.  Each line has
 * what becomes of it, [start, end) in us: the call, then the work and its stream (A, B and the default stream 0 of
 * device 0, C of device 1).  STEPS: so many steps are marked before, for "launches a step".  tests/gpu/test_fake.py
 * (case_plan) and tests/export/export_test.py (case_hta_plan) have the figures that follow from it.
 */
#include "cuda_subset.h"
#include "fake_gpu.h"
#include "opgap/opgap.h"

#include <stdio.h>
#include <stdlib.h>

#define US 1000u

static cudaStream_t a, b, c;
static cudaEvent_t event, later, last;
static void *device, *other, *pinned, *pageable;
static ncclComm_t communicator;

static void at(uint64_t us)
{
  fake_plan_at(us * US);
}

static void kernel(uint64_t us, cudaStream_t stream)
{
  launch_spin(us * US, stream);
}

/* 200,000 bytes: 30 us. */
static void all_reduce(cudaStream_t stream)
{
  ncclAllReduce(device, device, 50000, 7 /* ncclFloat32 */, 0 /* ncclSum */, communicator, stream);
}

static void prepare(void)
{
  int first = 0;
  cudaSetDevice(1);
  cudaMalloc(&other, 1 << 20);
  cudaStreamCreateWithFlags(&c, 1);
  cudaSetDevice(0);
  cudaMalloc(&device, 2 << 20);
  cudaHostAlloc(&pinned, 1 << 20, 0);
  pageable = calloc(1, 1 << 20);
  cudaStreamCreateWithFlags(&a, 1);
  cudaStreamCreateWithFlags(&b, 1);
  cudaEventCreate(&event);
  cudaEventCreate(&later);
  cudaEventCreate(&last);
  ncclCommInitAll(&communicator, 1, &first);
}

/* Kernels that overlap, communication behind them, and gaps that are the device's. */
static void launches(void)
{
  at(0);
  kernel(100, a); /* [0, 4)      A [5, 105) */
  at(10);
  kernel(60, b); /* [10, 14)    B [15, 75) */
  at(20);
  all_reduce(b); /* [20, 24)    B [75, 105), hidden behind A */
  at(30);
  kernel(3, a); /* [30, 34)    A [105, 108), shorter than its call */
  at(40);
  cudaSetDevice(1);
  kernel(71, c); /* [44, 48)    C [49, 120) */
  at(50);
  cudaEventRecord(event, c); /* [50, 54)    at 120 */
  cudaSetDevice(0);
  cudaStreamWaitEvent(b, event, 0); /* [58, 62)    B waits till 120 */
  kernel(10, b);                    /* [62, 66)    B [120, 130), 12 us after A: HTA's kernel_wait */
  cudaSetDevice(1);
  kernel(80, c);             /* [70, 74)    C [120, 200) */
  cudaEventRecord(later, c); /* [74, 78)    at 200 */
  cudaSetDevice(0);
  cudaStreamWaitEvent(a, later, 0); /* [82, 86)    A waits till 200 */
  kernel(20, a); /* [86, 90)    A [200, 220), 70 us after B: HTA's other; starts 110 us after its call */
  at(116);
  kernel(4, a); /* [116, 120)  A [220, 224), 100 us after its call, as long as it: no outlier, not short */
  at(290);
  cudaSetDevice(1);
  kernel(99, c); /* [294, 298)  C [299, 398) */
  cudaSetDevice(0);
}

/* Copies and sets of each kind, each with 10 us or more between: HTA's host_wait. */
static void moves(void)
{
  at(310);
  cudaMemcpyAsync(device, pinned, 200000, cudaMemcpyHostToDevice, a); /* [310, 314)  A [315, 325) */
  at(320);
  cudaMemcpyAsync(device, pageable, 96000, cudaMemcpyHostToDevice, b); /* [320, 347)  B [325, 343): waits for it */
  at(350);
  cudaMemcpy(pageable, device, 120000, cudaMemcpyDeviceToHost); /* [350, 381)  0 [355, 377) */
  at(390);
  cudaMemcpy(device, pinned, 50000, cudaMemcpyHostToDevice); /* [390, 403)  0 [395, 399): 64 KiB or less */
  at(410);
  cudaMemcpy(device, pinned, 75000, cudaMemcpyHostToDevice); /* [410, 424)  0 [415, 420) */
  at(430);
  cudaMemcpy(device, (char *)device + (1 << 20), 1000000, cudaMemcpyDeviceToDevice); /* [430, 434)  0 [435, 439) */
  at(440);
  cudaSetDevice(1);
  kernel(2600, c); /* [444, 448)  C [449, 3049) */
  cudaSetDevice(0);
  at(455);
  cudaMemsetAsync(device, 0, 500000, a); /* [455, 459)  A [460, 463) */
  at(470);
  cudaMemset(device, 0, 500000); /* [470, 474)  0 [475, 478): of the device's memory, so nobody waits */
  at(490);
  cudaMemset(pinned, 0, 500000); /* [490, 502)  0 [495, 498) */
}

static void waits(void)
{
  at(510);
  kernel(40, a); /* [510, 514)  A [515, 555) */
  at(520);
  cudaStreamSynchronize(a); /* [520, 559) */
  at(570);
  cudaEventRecord(last, a);
  cudaEventSynchronize(last); /* [574, 578) */
  cudaDeviceSynchronize();    /* [578, 582) */
  at(590);
  all_reduce(b); /* [590, 594)  B [595, 625) */
  at(610);
  kernel(20, a); /* [610, 614)  A [615, 635): hides 10 us of it */
  at(650);
  cudaMemcpyPeerAsync(other, 1, device, 0, 100000, a); /* [650, 654)  A [655, 659) */
  at(670);
  cudaMemcpyAsync(pinned, device, 200000, cudaMemcpyDeviceToHost, a); /* [670, 674)  A [675, 685) */
}

/* Gaps of 499.999 ms and 500 ms, calls of 50 us and 51 us. */
static void gaps(void)
{
  at(500679);
  fake_plan_calls(50 * US);
  kernel(100, a); /* [500679, 500729)  A [500684, 500784) */
  at(1000779);
  fake_plan_calls(51 * US);
  kernel(100, a); /* [1000779, 1000830)  A [1000784, 1000884) */
  fake_plan_calls(4 * US);
  at(1000840);
  cudaDeviceSynchronize(); /* [1000840, 1000888) */
}

int main(int argc, char **argv)
{
  for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
    opgap_step();
  prepare();
  fake_plan_begin();
  fake_plan_calls(4 * US);
  launches();
  moves();
  waits();
  gaps();
  free(pageable);
  return 0;
}
