/* The CUDA calls of one process that CUPTI reported, each with what it started on a device.
 *
 * The calls stand in the GPU stream, apart from the records of their threads; gpu_calls_inside gives an op of a thread
 * the calls made in it.  What a call started is its own wherever and whenever it ran, so that the figures of a step do
 * not depend on how far the device was behind.
 *
 * Threads   one at a time.  Ownership: gpu_calls_free releases all; names belong to the source.
 * Memory    64 bytes a call between `from` and `to`.
 */
#ifndef OPGAP_ANALYSIS_GPU_CALLS_H
#define OPGAP_ANALYSIS_GPU_CALLS_H

#include <stdbool.h>

#include "analysis/source.h"

enum gpu_direction { GPU_H2D, GPU_D2H, GPU_D2D, GPU_DIRECTIONS };
/* Of CUPTI's copy kinds: from the host, to it, neither. */
enum gpu_direction gpu_direction(uint64_t copy_kind);
/* "Memcpy HtoD", ... as torch.profiler has them */
const char *gpu_copy_name(uint64_t copy_kind);

struct gpu_traced_call {
  uint64_t start_ns, end_ns;
  const char *name; /* NULL: the record of the call itself is not there */
  uint32_t thread;  /* kernel thread id, or the low half of pthread_self() */
  uint32_t kernels; /* started by it; of a graph that was recorded whole: 1 */
  uint64_t copies_bytes[GPU_DIRECTIONS];
  bool taken;
};

struct gpu_calls;

/* The calls that ended in (from, to], and some before, and what they started. */
struct gpu_calls *gpu_calls_read(const struct opgap_source *source, unsigned process, uint64_t from, uint64_t to);
void gpu_calls_free(struct gpu_calls *calls);
size_t gpu_calls_count(const struct gpu_calls *calls);
struct gpu_traced_call *gpu_calls_at(struct gpu_calls *calls, size_t index); /* by thread, then start */
/* Of a correlation id; NULL: CUPTI did not report the call (a driver's launch, with CUPTI before CUDA 12.6), or it is
 * far from the window. */
const struct gpu_traced_call *gpu_calls_find(const struct gpu_calls *calls, uint64_t correlation);
/* The calls of a thread, by either of its names, that began in [start, end]: indices first to the result. */
size_t gpu_calls_inside(const struct gpu_calls *calls, uint32_t tid, uint32_t pthread, uint64_t start, uint64_t end,
                        size_t *first);

#endif
