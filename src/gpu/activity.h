/* From CUPTI's sealed records to the trace's.
 *
 * Threads: the consumer.  Ownership: reads the buffer, keeps nothing.
 */
#ifndef OPGAP_GPU_ACTIVITY_H
#define OPGAP_GPU_ACTIVITY_H

#include "gpu/buffers.h"
#include "record/cuda_calls.h"

/* Writes each record of the buffer to the trace.  Records with impossible times are left out and counted, unknown kinds
 * are counted; both counts go to the trace as "gpu lost" with the end of the buffer. */
void opgap_gpu_decode(const struct opgap_gpu_buffer *buffer);
/* Writes a CUDA call that a hook saw, as one that CUPTI reported without an activity. */
void opgap_gpu_emit_call(const struct opgap_cuda_call *call);
/* Writes a "gpu lost" record when count > 0; reason as in events.def. */
void opgap_gpu_emit_lost(uint32_t reason, uint64_t count);
/* In a forked child: names interned by the parent are not ours. */
void opgap_gpu_decode_reset(void);

#endif
