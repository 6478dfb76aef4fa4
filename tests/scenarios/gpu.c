/* Trainings on the fake GPU (tests/fakes) with steps (opgap_step), each with one planted bottleneck.
 *
 *   gpu SCENARIO with|without */
#include "cuda_subset.h"
#include "opgap/opgap.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS 40
#define MS 1000000u

static bool planted;
static void *on_device, *pageable, *pinned;
static ncclComm_t communicator;
static cudaStream_t first, second; /* unlike the default stream, they do not wait for each other */

static void host_work(uint64_t ns)
{
  struct timespec t, start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do
    clock_gettime(CLOCK_MONOTONIC, &t);
  while ((uint64_t)(t.tv_sec - start.tv_sec) * 1000000000u + (uint64_t)t.tv_nsec - (uint64_t)start.tv_nsec < ns);
}

/* Host and GPU in turns, or the host ahead of the GPU.  The host has more to do, so that which of them comes first is
 * no matter of chance. */
static void step_sync(void)
{
  for (int i = 0; i < 10; i++) {
    host_work(600000);
    launch_spin(400000, NULL);
    if (planted)
      cudaDeviceSynchronize();
  }
}

static void step_pageable(void)
{
  launch_spin(1 * MS, first);
  cudaMemcpyAsync(on_device, planted ? pageable : pinned, 64u << 20, cudaMemcpyHostToDevice, planted ? first : second);
}

/* The collective after the backward pass, or beside it. */
static void step_allreduce(void)
{
  launch_spin(3 * MS, first);
  ncclAllReduce(on_device, on_device, 16u << 20, 7 /* ncclFloat32 */, 0 /* ncclSum */, communicator,
                planted ? first : second);
}

/* Held out: copies from pinned memory between the kernels, where there should be none. */
static void step_copies(void)
{
  for (int i = 0; i < 3; i++) {
    launch_spin(MS / 2, first);
    if (planted)
      cudaMemcpyAsync(on_device, pinned, 48u << 20, cudaMemcpyHostToDevice, first);
  }
}

static void step_launches(void)
{
  for (int i = 0; i < 200; i++) {
    host_work(planted ? 40000 : 0); /* a framework op around each launch */
    launch_spin(5000, NULL);
  }
}

static void step_sleep(void)
{
  struct timespec t = {0, 5 * MS};
  launch_spin(1 * MS, NULL);
  cudaDeviceSynchronize();
  if (planted)
    nanosleep(&t, NULL);
}

static void step_kernels(void)
{
  launch_spin(3 * MS, NULL);
}

int main(int count, char **arguments)
{
  static const struct {
    const char *name;
    void (*step)(void);
  } scenarios[] = {{"sync", step_sync},         {"pageable", step_pageable}, {"allreduce", step_allreduce},
                   {"launches", step_launches}, {"sleep", step_sleep},       {"kernels", step_kernels},
                   {"copies", step_copies}};
  size_t at = 0;
  while (count == 3 && at < sizeof scenarios / sizeof *scenarios && strcmp(scenarios[at].name, arguments[1]) != 0)
    at++;
  if (count != 3 || at == sizeof scenarios / sizeof *scenarios) {
    fprintf(stderr, "usage: gpu SCENARIO with|without\n");
    return 2;
  }
  planted = strcmp(arguments[2], "with") == 0;
  int device = 0;
  cudaMalloc(&on_device, 64u << 20);
  cudaHostAlloc(&pinned, 64u << 20, 0);
  pageable = calloc(1, 64u << 20);
  ncclCommInitAll(&communicator, 1, &device);
  cudaStreamCreate(&first);
  cudaStreamCreate(&second);
  for (unsigned i = 0; i < STEPS; i++) {
    scenarios[at].step();
    cudaDeviceSynchronize();
    opgap_step();
  }
  free(pageable);
  return 0;
}
