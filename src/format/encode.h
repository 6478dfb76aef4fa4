/* Encoding: records in ring form -> the payload of a RECORDS chunk; keys, values and the schema -> their payloads.
 *
 * Context   The consumer of the rings (flusher, leaving thread, recovery).  Pure functions over buffers: no allocation,
 *           no system call, no errno.
 * Ownership The caller's.  One encoder serves one consumer at a time.
 */
#ifndef OPGAP_FORMAT_ENCODE_H
#define OPGAP_FORMAT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/schema.h"
#include "format/trace_format.h"

#define OPGAP_ENCODE_MAX_WORDS (32u * 1024u) /* of ring records in one chunk */
/* a record of w words becomes at most 10 bytes a word and a few common ones; names come on top */
#define OPGAP_ENCODE_BUFFER (2u << 20)
/* names are cut off beyond this: 230 bytes for each of the most records that a chunk can hold */
#define OPGAP_ENCODE_NAMES (1536u * 1024u)

/* Ticks -> CLOCK_MONOTONIC ns: ns = ns0 + (ticks - ticks0) * mult / 2^32. */
struct opgap_tick_scale {
  uint64_t ticks0, ns0, mult;
};
static inline uint64_t opgap_scale(const struct opgap_tick_scale *scale, uint64_t ticks)
{
  return scale->ns0 + (uint64_t)(((__int128)(int64_t)(ticks - scale->ticks0) * (__int128)scale->mult) >> 32);
}

/* What an encoder needs to know of events and names. */
struct opgap_encoder {
  const struct opgap_event *events[OPGAP_MAX_EVENTS];                /* by id; NULL: unknown, its records are invalid */
  const char *(*name)(void *context, uint32_t id, uint32_t *length); /* NULL: lost */
  void *name_context;
  /* scratch */
  uint32_t name_keys[16384], name_index[16384], name_epoch[16384], epoch;
  uint32_t names[8192], name_count;
  uint32_t at[OPGAP_ENCODE_MAX_WORDS / 2]; /* word offset of each valid record */
  uint32_t next[OPGAP_ENCODE_MAX_WORDS / 2], head[OPGAP_MAX_EVENTS], tail[OPGAP_MAX_EVENTS];
  uint16_t present[OPGAP_MAX_EVENTS];
};

struct opgap_encoded {
  size_t bytes;     /* of the payload */
  uint32_t records; /* valid ones */
  uint32_t invalid; /* unknown events, wrong sizes */
  uint64_t first_ns, last_ns;
};

void opgap_encoder_init(struct opgap_encoder *encoder, const struct opgap_event *hooks, unsigned hook_count);

/* Encodes `count` words of ring records into out (OPGAP_ENCODE_BUFFER bytes).  scale: NULL when times are ns. */
struct opgap_encoded opgap_encode_records(struct opgap_encoder *encoder, const uint64_t *words, size_t count,
                                          const struct opgap_tick_scale *scale, uint8_t *out);

/* Keys and values: appends one pair; returns the new end, or `at` unchanged when it does not fit before `end`. */
uint8_t *opgap_encode_pair(uint8_t *at, const uint8_t *end, const char *key, const char *value, size_t length);
/* The event table. */
size_t opgap_encode_schema(const struct opgap_encoder *encoder, uint8_t *out, size_t size);

#endif
