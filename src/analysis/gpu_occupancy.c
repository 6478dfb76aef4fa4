#include "analysis/gpu_occupancy.h"

#include <stdbool.h>

#define WARP 32u
#define REGISTER_UNIT 256u /* registers are given to a warp in such units */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
  return (value + unit - 1) / unit * unit;
}

static uint64_t least(uint64_t left, uint64_t right)
{
  return left < right ? left : right;
}

/* Registers and warps are bound to one of the multiprocessor's partitions. */
static uint64_t blocks_by_registers(const struct gpu_limits *l, uint64_t warps, uint64_t registers)
{
  uint64_t partitions = 4, of_warp = round_up(registers * WARP, REGISTER_UNIT);
  if (of_warp == 0)
    return UINT64_MAX;
  if (of_warp * round_up(warps, partitions) > l->registers_block)
    return 0;
  return l->registers_sm / partitions / of_warp * partitions / warps;
}

/* From compute capability 8.0 on the system takes 1 KiB of each block's. */
static uint64_t blocks_by_shared(const struct gpu_limits *l, uint64_t shared)
{
  bool newer = l->capability >= 80;
  uint64_t of_block = round_up(shared + (newer ? 1024 : 0), newer ? 128 : 256);
  return of_block ? l->shared_sm / of_block : UINT64_MAX;
}

double gpu_occupancy(const struct gpu_limits *l, uint64_t threads, uint64_t registers, uint64_t shared)
{
  uint64_t warps = (threads + WARP - 1) / WARP, most = l->threads_sm / WARP;
  if (l->capability < 70 || l->capability >= 130 || most == 0 || l->blocks_sm == 0 || l->registers_sm == 0 ||
      l->registers_block == 0 || l->shared_sm == 0 || warps == 0)
    return -1;
  uint64_t blocks = least(l->blocks_sm, most / warps);
  blocks = least(blocks, blocks_by_registers(l, warps, registers));
  blocks = least(blocks, blocks_by_shared(l, shared));
  return (double)(blocks * warps) / (double)most;
}
