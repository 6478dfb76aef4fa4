/* The GPU stream of a process: activity records that the consumer writes while it drains.
 *
 * Context   The consumer only (opgap_gpu_drain, opgap_gpu_end): one thread at a time, under the drain lock.
 */
#ifndef OPGAP_RECORD_GPU_STREAM_H
#define OPGAP_RECORD_GPU_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* Writes a record of an event of events.def.  Times: CLOCK_MONOTONIC ns; end is ignored for instants.  `count` must be
 * the event's number of fields.  A full ring is drained at once, so that only a full disk loses records (counted). */
void opgap_gpu_emit(unsigned event, uint32_t status, uint64_t start_ns, uint64_t end_ns, const uint64_t *fields,
                    unsigned count);

/* The GPU_DEVICE records so far, as ring words into words[room]; returns the number of words.  For a trace whose
 * beginning is dropped. */
size_t opgap_gpu_devices(uint64_t *words, size_t room);

#endif
