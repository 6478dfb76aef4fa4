/* Put before the sources under test: what they get from libraries and the kernel, as the model provides it. */
#ifndef OPGAP_TESTS_MODEL_SHIM_H
#define OPGAP_TESTS_MODEL_SHIM_H

#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "format/encode.h"
#include "record/raw.h"

void *model_memcpy(void *to, const void *from, size_t bytes);
void *model_memset(void *at, int byte, size_t bytes);
int model_gettid(void);
/* The words as they are: encoding and compression are pure functions of the consumer's own buffers. */
void model_encode_begin(struct opgap_encoder *encoder, const struct opgap_time_line *line);
size_t model_encode_add(struct opgap_encoder *encoder, const uint64_t *words, size_t count, uint32_t ticks_high,
                        size_t limit);
struct opgap_encoded model_encode_end(struct opgap_encoder *encoder, uint8_t *out);
size_t model_store(ZSTD_CCtx *context, void *to, size_t room, const void *from, size_t bytes);

#define memcpy model_memcpy
#define memset model_memset
#define opgap_encode_begin model_encode_begin
#define opgap_encode_add model_encode_add
#define opgap_encode_end model_encode_end
#define ZSTD_compress2 model_store
#define opgap_raw_gettid model_gettid
#define opgap_raw_futex_wake(word) ((void)(word)) /* nobody waits: the threads try the drain lock without patience */

#endif
