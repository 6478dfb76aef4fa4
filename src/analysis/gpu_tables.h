/* Kernels, copies, launches, use over time and findings: the tables of the GPU part of a summary.
 *
 * gpu.c feeds it; it keeps sums only, so that its memory does not grow with the trace.  Findings are the checks that
 * Nsight Systems calls expert systems rules, by its names: cuda_memcpy_async (asynchronous copies from or to pageable
 * memory), cuda_memcpy_sync, cuda_memset_sync (copies and sets that block the host: not a copy to the device of 64 KiB
 * or less, not one within devices, not a set of device memory), cuda_api_sync (waits for a stream or for all work, not
 * for an event), gpu_gaps (nothing on the device for 500 ms), gpu_time_util (thirtieths of the time that are used less
 * than half). */
#ifndef OPGAP_ANALYSIS_GPU_TABLES_H
#define OPGAP_ANALYSIS_GPU_TABLES_H

#include "analysis/gpu_occupancy.h"
#include "analysis/internal.h"

struct gpu_tables;

/* A CUDA call that nothing more will be learnt about. */
struct gpu_call {
  uint64_t start, end;
  uint64_t first_start; /* of what it started on a device; 0: nothing */
  uint64_t kernels, short_kernels;
  uint64_t copy_ns, copy_bytes; /* of its copies and sets */
  uint64_t gap_ns;              /* of the long gaps that it ended */
  uint32_t name, op;            /* gids; op: the innermost op or range around it, 0: none */
  uint32_t source;              /* gid: "FILE:LINE FUNCTION", 0: not recorded */
  bool pageable_async;          /* an asynchronous copy from or to pageable memory */
  bool holds_host;              /* a copy or set that the host waits for, unless the call is asynchronous */
};

struct gpu_tables *gpu_tables_new(void);
void gpu_tables_kernel(struct gpu_tables *t, uint32_t name, const struct opgap_record *r,
                       const struct gpu_limits *limits);
void gpu_tables_copy(struct gpu_tables *t, const struct opgap_record *r);
void gpu_tables_call(struct analysis *a, struct gpu_tables *t, const struct gpu_call *call);
/* The device was busy in [start, end): disjoint, ascending. */
void gpu_tables_busy(struct gpu_tables *t, size_t device, uint64_t start, uint64_t end);
/* A gap of the length that nsys reports; one that no known call ended. */
bool gpu_tables_is_long(uint64_t ns);
void gpu_tables_gap(struct gpu_tables *t, uint64_t ns);
/* device_ids: by index. */
void gpu_tables_finish(struct analysis *a, struct gpu_tables *t, const uint32_t *device_ids);
void gpu_tables_free(struct gpu_tables *t);

#endif
