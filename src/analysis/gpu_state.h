/* What NVML told of a device, over the samples of a trace.  Threads: one at a time; plain data. */
#ifndef OPGAP_ANALYSIS_GPU_STATE_H
#define OPGAP_ANALYSIS_GPU_STATE_H

#include "analysis/summary.h"
#include "format/reader.h"

struct gpu_state_sum { /* zeroed at first */
  uint64_t samples;
  uint64_t sum[3], count[3]; /* of the figures that are averaged */
  uint64_t sm_mhz_most, milliwatts_most, celsius, used_bytes, total_bytes;
  bool knows_brakes, knows_celsius, knows_used;
  uint64_t braked, brakes[OPGAP_BRAKE_COUNT];
  uint64_t use_samples, use_percent; /* of the "gpu use" records */
};

/* Adds a "gpu state" record. */
void gpu_state_add(struct gpu_state_sum *sum, const struct opgap_record *r);
/* Adds a "gpu use" record. */
void gpu_use_add(struct gpu_state_sum *sum, const struct opgap_record *r);
/* NVML's mean share of time with a kernel running, 0..1; negative: not sampled, since CUPTI told what ran. */
double gpu_use_of(const struct gpu_state_sum *sum);
/* All but the driver's version, which is "". */
struct opgap_sum_gpu_state gpu_state_of(const struct gpu_state_sum *sum);

#endif
