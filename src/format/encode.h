/* Encoding: records in ring form -> the payload of a RECORDS chunk; keys, values and the schema -> their payloads.
 *
 * A chunk   begin; add, as often as there are pieces of ring; end.  add checks each record and finds its pattern.  Ops,
 *           of which a training has a hundred different ones, have fixed patterns: two times remain, which add codes.
 *           Other records it writes out in full with their times in ns (`words`, which fit the second-level cache);
 *           end puts them in the order of their events and codes each event's columns, one after the other.
 *
 * Context   The consumer of the rings (flusher, leaving thread, recovery).  Pure functions over buffers: no allocation,
 *           no system call, no errno.
 * Ownership The caller's.  One encoder serves one consumer at a time.
 */
#ifndef OPGAP_FORMAT_ENCODE_H
#define OPGAP_FORMAT_ENCODE_H

#include <assert.h>
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

/* The time line: what was stamped before the last anchor, and is written only now, has its time from the interval in
 * which it was stamped, as what was written then, and not from this one, whose slope would be drawn out backwards: by
 * 50 us of a second, where anchors are a millisecond apart and 50 ns inexact. */
struct opgap_time_line {
  struct opgap_tick_scale now, before, older; /* each from its ticks0 on; the last one from the first anchor on */
};
uint64_t opgap_line_ns_before(const struct opgap_time_line *line, uint64_t ticks);
static inline uint64_t opgap_line_ns(const struct opgap_time_line *line, uint64_t ticks)
{
  if (__builtin_expect((int64_t)(ticks - line->now.ticks0) >= 0, 1))
    return opgap_scale(&line->now, ticks);
  return opgap_line_ns_before(line, ticks);
}

#define OPGAP_ENCODE_MAX_RECORDS (OPGAP_ENCODE_MAX_WORDS / 2)

#define OPGAP_FIXED_WORDS 2u    /* that a record of a fixed pattern counts as */
#define OPGAP_FIXED_SLOTS 2048u /* a power of two */
#define OPGAP_FIXED_MAX (OPGAP_FIXED_SLOTS / 2)
/* The longest row of a fixed pattern: event, form, depth, status; name, sequence, allocs, alloc_bytes, frees, stack. */
#define OPGAP_FIXED_ROW (2u + 1u + 2u + 1u + 3u + 5u + 2u + 5u + 2u + 3u)
#define OPGAP_LOOSE_ROW (2u + 1u)
#define OPGAP_PATTERN_BYTES (OPGAP_FIXED_MAX * OPGAP_FIXED_ROW + OPGAP_MAX_EVENTS * OPGAP_LOOSE_ROW)
static_assert(OPGAP_FIXED_MAX + OPGAP_MAX_EVENTS <= OPGAP_PATTERNS_MAX, "patterns");

/* The size of an event's records in words: 0: unknown, its records are invalid. */
struct opgap_record_shape {
  uint8_t words, head; /* head: before the fields, 3 for a span */
  uint8_t short_words; /* arena.h; 0: never short */
  bool op;             /* has the fields of an op */
};

/* A fixed pattern of the chunk in the making, and the times of the last record that had it. */
struct opgap_fixed {
  uint64_t key[3];
  uint64_t lead, tail;
  uint32_t epoch, index;
};

/* What an encoder needs to know of events and names. */
struct opgap_encoder {
  const struct opgap_event *events[OPGAP_MAX_EVENTS]; /* by id; NULL: unknown */
  struct opgap_record_shape shapes[OPGAP_MAX_EVENTS];
  const char *(*name)(void *context, uint32_t id, uint32_t *length); /* NULL: lost */
  void *name_context;
  /* the chunk in the making */
  struct opgap_time_line line;
  uint64_t first_ns, last_ns; /* of all records */
  struct opgap_tree tree;
  struct opgap_leads leads;
  uint64_t sequence; /* the last one of a fixed pattern */
  /* count: of words, OPGAP_FIXED_WORDS for a record of a fixed pattern, which has none; loose: records of loose ones */
  uint32_t count, records, loose, invalid;
  uint32_t fixed_count, present_count;      /* patterns: fixed ones; loose ones, one an event */
  uint16_t present[OPGAP_MAX_EVENTS];       /* events, in the order in which they came */
  uint32_t of_event[OPGAP_MAX_EVENTS];      /* records */
  uint32_t statuses[OPGAP_MAX_EVENTS];      /* all statuses, or-ed: 0: the column is 0 */
  uint64_t lengths[OPGAP_MAX_EVENTS];       /* likewise of durations */
  uint16_t loose_pattern[OPGAP_MAX_EVENTS]; /* valid for those in `present` */
  uint16_t at[OPGAP_ENCODE_MAX_RECORDS];    /* word offset of each loose record */
  uint16_t order[OPGAP_ENCODE_MAX_RECORDS]; /* the same, event by event */
  uint64_t words[OPGAP_ENCODE_MAX_WORDS];
  uint8_t pattern_column[2 * OPGAP_ENCODE_MAX_RECORDS], depth_column[2 * OPGAP_ENCODE_MAX_RECORDS];
  uint8_t end_column[OPGAP_VARINT_MOST * OPGAP_ENCODE_MAX_RECORDS];
  uint8_t lead_column[OPGAP_VARINT_MOST * OPGAP_ENCODE_MAX_RECORDS];
  uint8_t tail_column[OPGAP_VARINT_MOST * OPGAP_ENCODE_MAX_RECORDS];
  uint8_t pattern_rows[OPGAP_PATTERN_BYTES];
  uint8_t *pattern_end, *depth_end, *end_end, *lead_end, *tail_end, *rows_end;
  struct opgap_fixed fixed[OPGAP_FIXED_SLOTS];
  uint16_t followed_by[OPGAP_PATTERNS_MAX]; /* slot of the fixed pattern that came last behind each; a guess */
  uint32_t name_keys[16384], name_index[16384], name_epoch[16384], epoch; /* epoch: of names and fixed patterns */
  uint32_t names[8192], name_count;
};
static_assert(OPGAP_ENCODE_MAX_WORDS <= UINT16_MAX + 1, "a word's offset");
static_assert(OPGAP_MAX_EVENTS <= 1 << 14 && OPGAP_PATTERNS_MAX <= 1 << 14, "a varint of two bytes");
/* a record of a fixed pattern has 22 bytes for two words; a loose one at most ten a word: two, status and fields, come
 * with pattern, depth and end */
static_assert(OPGAP_ENCODE_MAX_WORDS / OPGAP_FIXED_WORDS * (2u + 2u * OPGAP_VARINT_MOST) + OPGAP_PATTERN_BYTES +
                      OPGAP_ENCODE_NAMES <=
                  OPGAP_ENCODE_BUFFER,
              "the payload");

struct opgap_encoded {
  size_t bytes;     /* of the payload */
  uint32_t records; /* valid ones */
  uint32_t invalid; /* unknown events, wrong sizes */
  uint64_t first_ns, last_ns;
};

void opgap_encoder_init(struct opgap_encoder *encoder, const struct opgap_event *hooks, unsigned hook_count);

/* Begins a chunk.  line: NULL when times are ns. */
void opgap_encode_begin(struct opgap_encoder *encoder, const struct opgap_time_line *line);
/* Adds the records of `count` words.  ticks_high: of the segment that they lie in, for short records.  Returns how many
 * words it took: fewer than `count` when the chunk has `limit` words (OPGAP_ENCODE_MAX_WORDS at most). */
size_t opgap_encode_add(struct opgap_encoder *encoder, const uint64_t *words, size_t count, uint32_t ticks_high,
                        size_t limit);
/* Writes the chunk's payload to out (OPGAP_ENCODE_BUFFER bytes). */
struct opgap_encoded opgap_encode_end(struct opgap_encoder *encoder, uint8_t *out);

/* Keys and values: appends one pair; returns the new end, or `at` unchanged when it does not fit before `end`. */
uint8_t *opgap_encode_pair(uint8_t *at, const uint8_t *end, const char *key, const char *value, size_t length);
/* The event table. */
size_t opgap_encode_schema(const struct opgap_encoder *encoder, uint8_t *out, size_t size);

#endif
