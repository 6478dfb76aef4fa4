/* The buffers that CUPTI fills, on their way from CUPTI to the consumer.
 *
 * Purpose   A fixed pool: CUPTI takes a free buffer, gives it back full ("sealed"), the consumer decodes and frees it.
 *           Nothing is copied and nobody waits.  No free buffer: CUPTI gets none, drops records and counts them.
 * Threads   request and complete: CUPTI's callbacks, on threads of the program, of CUPTI, or our helper; lock-free.
 *           take and release: the consumer, one at a time.
 * Ownership The pool; each buffer belongs to whoever its state names.
 *
 * A sealed buffer describes itself: each record's `kind` word holds kind | size << 16, and names are interned ids
 * instead of pointers.  So it can be decoded after CUPTI has been finalised and modules have been unloaded.
 *
 * Ordering  state: release by the side that hands the buffer over, acquire by the side that takes it.
 */
#ifndef OPGAP_GPU_BUFFERS_H
#define OPGAP_GPU_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu_clock.h"

#define OPGAP_GPU_BUFFERS 64u
#define OPGAP_GPU_BUFFER_BYTES (256u * 1024u)

#define OPGAP_GPU_SEALED_KIND(word) ((word)&0xffffu)
#define OPGAP_GPU_SEALED_SIZE(word) ((word) >> 16)

enum opgap_gpu_buffer_state { OPGAP_GPU_BUFFER_FREE, OPGAP_GPU_BUFFER_FILLING, OPGAP_GPU_BUFFER_SEALED };

struct opgap_gpu_buffer {
  _Atomic uint32_t state; /* enum opgap_gpu_buffer_state */
  uint32_t serial;        /* order of completion */
  uint8_t *bytes;         /* NULL until first used; then kept */
  size_t valid;           /* bytes of sealed records */
  struct opgap_gpu_time time;
};

/* CUPTI's callbacks. */
void opgap_gpu_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records);
void opgap_gpu_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* The oldest sealed buffer, or NULL. */
struct opgap_gpu_buffer *opgap_gpu_buffer_take(void);
void opgap_gpu_buffer_release(struct opgap_gpu_buffer *buffer);

/* How many buffers CUPTI holds. */
unsigned opgap_gpu_buffers_filling(void);
/* Gives no more buffers out (true), or does again. */
void opgap_gpu_buffers_close(bool closed);
/* In a forked child: forget the parent's. */
void opgap_gpu_buffers_reset(void);
/* Records that CUPTI dropped, and bytes of buffers that could not be walked, since the last call. */
uint64_t opgap_gpu_buffers_dropped(void);
/* Asks CUPTI for its count of dropped records; on threads that may call CUPTI. */
void opgap_gpu_buffers_ask_dropped(void);

#endif
