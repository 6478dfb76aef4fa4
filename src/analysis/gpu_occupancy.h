/* Theoretical occupancy: how many of the warps that a multiprocessor can hold a kernel lets it hold.
 *
 * As CUDA's own calculator (cuda_occupancy.h) for a device that gives shared memory all the room it can;
 * tests/gpu/occupancy_check.c compares the two.  Threads: pure.
 */
#ifndef OPGAP_ANALYSIS_GPU_OCCUPANCY_H
#define OPGAP_ANALYSIS_GPU_OCCUPANCY_H

#include <stdint.h>

struct gpu_limits {    /* of a device; 0: unknown */
  uint64_t capability; /* 10 x major + minor */
  uint64_t threads_sm, blocks_sm, registers_sm, shared_sm, registers_block;
};

/* Between 0 and 1; negative: unknown (limits, or a compute capability outside of 7.0 to 12.x).  threads: of a block;
 * registers: of a thread; shared: bytes of a block, static and dynamic. */
double gpu_occupancy(const struct gpu_limits *limits, uint64_t threads, uint64_t registers, uint64_t shared);

#endif
