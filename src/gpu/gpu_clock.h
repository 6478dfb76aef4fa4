/* CUPTI's time on the tracer's clock.
 *
 * Purpose   Where CUPTI lets a client provide the clock (cuptiActivityRegisterTimestampCallback), it gets ours and
 *           nothing is to be converted.  Else both clocks are read together whenever a buffer is sealed, and times are
 *           interpolated between the pairs around them: drift, slewing and steps of CUPTI's clock (CLOCK_REALTIME on
 *           Linux) stay within one such interval.
 * Threads   pair: threads that may call CUPTI.  note and convert: the consumer.
 */
#ifndef OPGAP_GPU_GPU_CLOCK_H
#define OPGAP_GPU_GPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "record/clock.h"

/* Hands CUPTI our clock if it takes one; else takes the first pair.  Before any kind is enabled. */
void opgap_gpu_clock_start(void);
/* CUPTI's clock (as ticks) and CLOCK_MONOTONIC, read together; {0, 0} when CUPTI uses our clock. */
struct opgap_anchor opgap_gpu_clock_pair(void);
/* Adds a pair (ignored when {0, 0} or not newer than the last). */
void opgap_gpu_clock_note(struct opgap_anchor pair);
/* CLOCK_MONOTONIC ns of a CUPTI time. */
uint64_t opgap_gpu_clock_convert(uint64_t cupti_ns);
void opgap_gpu_clock_reset(void);

#endif
