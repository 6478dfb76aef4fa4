/* Compares gpu_occupancy with CUDA's calculator (cuda_occupancy.h) over devices, block sizes, registers and shared
 * memory. Built where the CUDA toolkit's headers are. */
#include <cuda_runtime_api.h>
#include <cuda_occupancy.h>
#include <math.h>
#include <stdio.h>

#include "analysis/gpu_occupancy.h"

static const struct {
  const char *name;
  struct gpu_limits limits;
} devices[] = {
    {"V100", {70, 2048, 32, 65536, 98304, 65536}},   {"T4", {75, 1024, 16, 65536, 65536, 65536}},
    {"A100", {80, 2048, 32, 65536, 167936, 65536}},  {"RTX 3090", {86, 1536, 16, 65536, 102400, 65536}},
    {"L40", {89, 1536, 24, 65536, 102400, 65536}},   {"H200", {90, 2048, 32, 65536, 233472, 65536}},
    {"B200", {100, 2048, 32, 65536, 233472, 65536}},
};

static double theirs(const struct gpu_limits *l, int threads, int registers, size_t shared)
{
  cudaOccDeviceProp device = {.computeMajor = (int)l->capability / 10,
                              .computeMinor = (int)l->capability % 10,
                              .maxThreadsPerBlock = 1024,
                              .maxThreadsPerMultiprocessor = (int)l->threads_sm,
                              .regsPerBlock = (int)l->registers_block,
                              .regsPerMultiprocessor = (int)l->registers_sm,
                              .warpSize = 32,
                              .sharedMemPerBlock = 49152,
                              .sharedMemPerMultiprocessor = (size_t)l->shared_sm,
                              .numSms = 108,
                              .sharedMemPerBlockOptin = (size_t)l->shared_sm - (l->capability >= 80 ? 1024 : 0),
                              .reservedSharedMemPerBlock = l->capability >= 80 ? 1024 : 0};
  cudaOccFuncAttributes function = {.maxThreadsPerBlock = 1024,
                                    .numRegs = registers,
                                    .sharedSizeBytes = shared,
                                    .partitionedGCConfig = PARTITIONED_GC_OFF,
                                    .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                                    .maxDynamicSharedSizeBytes = 0,
                                    .numBlockBarriers = 1};
  cudaOccDeviceState state = {.cacheConfig = CACHE_PREFER_SHARED, .carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED};
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, 0) != CUDA_OCC_SUCCESS)
    return -1;
  return (double)result.activeBlocksPerMultiprocessor * ((threads + 31) / 32) / ((double)l->threads_sm / 32);
}

int main(void)
{
  unsigned compared = 0, differing = 0;
  for (unsigned d = 0; d < sizeof devices / sizeof *devices; d++)
    for (int threads = 1; threads <= 1024; threads += threads < 64 ? 21 : 32)
      for (int registers = 8; registers <= 255; registers += 13)
        for (size_t shared = 0; shared <= 49152; shared += shared < 2048 ? 200 : 4000) {
          double wanted = theirs(&devices[d].limits, threads, registers, shared);
          double seen = gpu_occupancy(&devices[d].limits, (uint64_t)threads, (uint64_t)registers, shared);
          compared++;
          if (fabs(wanted - seen) < 1e-9)
            continue;
          if (differing++ < 10)
            printf("%s, %d threads, %d registers, %zu bytes: %.4f, CUDA says %.4f\n", devices[d].name, threads,
                   registers, shared, seen, wanted);
        }
  printf("%u compared, %u differ\n", compared, differing);
  return compared == 0 || differing > 0;
}
