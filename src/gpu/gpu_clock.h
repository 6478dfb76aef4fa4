/* CUPTI's time on the tracer's clock.
 *
 * Purpose   Where CUPTI lets a client provide the clock (cuptiActivityRegisterTimestampCallback), it gets ours and
 *           nothing is to be converted.  Else both clocks are read together whenever a buffer is sealed, and times are
 *           interpolated between the pairs around them: drift, slewing and steps of CUPTI's clock (CLOCK_REALTIME on
 *           Linux) stay within one such interval.
 * Threads   start, read: threads that may call CUPTI.  note and convert: the consumer.
 */
#ifndef OPGAP_GPU_GPU_CLOCK_H
#define OPGAP_GPU_GPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "record/clock.h"

/* What a buffer's times are converted by.  Pairs: CUPTI's clock (as ticks) and CLOCK_MONOTONIC. */
struct opgap_gpu_time {
  bool converts;             /* CUPTI stamped with a clock of its own */
  struct opgap_anchor first; /* when opgap connected to CUPTI; {0, 0}: not read */
  struct opgap_anchor now;   /* when the buffer was sealed; {0, 0}: not read */
};

/* Hands CUPTI our clock if it takes one; else takes the first pair.  Before any kind is enabled. */
void opgap_gpu_clock_start(void);
/* The state of the clocks now. */
struct opgap_gpu_time opgap_gpu_clock_read(void);
/* Before a buffer's records are converted, in the order in which buffers were sealed. */
void opgap_gpu_clock_note(const struct opgap_gpu_time *time);
/* CLOCK_MONOTONIC ns of a CUPTI time in a buffer with this `time`. */
uint64_t opgap_gpu_clock_convert(const struct opgap_gpu_time *time, uint64_t cupti_ns);
void opgap_gpu_clock_reset(void);

#endif
