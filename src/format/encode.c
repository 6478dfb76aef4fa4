#include "format/encode.h"

#include <stdatomic.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Eight tables for eight bytes a step (slicing-by-8): table[k][b] is the checksum of byte b followed by k zero bytes.
 * Made at the first use; two threads that make it at once write the same values. */
static uint32_t crc_table[8][256];
static _Atomic bool crc_ready;
#ifdef __x86_64__
static bool crc_folds; /* the CPU multiplies without carries; set with the tables */
#endif

static void make_crc_table(void)
{
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0); /* the reflected IEEE polynomial */
    crc_table[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; b++)
    for (int k = 1; k < 8; k++)
      crc_table[k][b] = crc_table[k - 1][b] >> 8 ^ crc_table[0][crc_table[k - 1][b] & 255];
#ifdef __x86_64__
  __builtin_cpu_init(); /* the tracer may be here before any constructor has run */
  crc_folds = __builtin_cpu_supports("pclmul");
#endif
  atomic_store_explicit(&crc_ready, true, memory_order_release);
}

#ifdef __x86_64__
#define CLMUL __attribute__((target("pclmul")))

/* One step of folding: `bits` moved on by the distance that belongs to `constants`. */
static inline CLMUL __m128i fold(__m128i bits, __m128i constants)
{
  return _mm_xor_si128(_mm_clmulepi64_si128(bits, constants, 0x00), _mm_clmulepi64_si128(bits, constants, 0x11));
}

static inline CLMUL __m128i fold_in(__m128i bits, __m128i constants, const uint8_t *p)
{
  return _mm_xor_si128(fold(bits, constants), _mm_loadu_si128((const __m128i *)p));
}

/* Turns *size bytes, at least 64, into 16 and a rest that together have the same CRC when it begins with 0: "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with its constants for CRC-32. */
static CLMUL const uint8_t *fold_crc(uint32_t crc, const uint8_t *p, size_t *size, uint8_t folded[16])
{
  const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  __m128i lanes[4];
  for (int i = 0; i < 4; i++)
    lanes[i] = _mm_loadu_si128((const __m128i *)(p + 16 * i));
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
  for (p += 64, *size -= 64; *size >= 64; p += 64, *size -= 64)
    for (int i = 0; i < 4; i++)
      lanes[i] = fold_in(lanes[i], by_64, p + 16 * i);
  for (int i = 1; i < 4; i++)
    lanes[i] = _mm_xor_si128(fold(lanes[i - 1], by_16), lanes[i]);
  _mm_storeu_si128((__m128i *)folded, lanes[3]);
  return p;
}
#endif

static uint32_t table_crc(uint32_t crc, const uint8_t *p, size_t size)
{
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t w;
    memcpy(&w, p, 8);
    w ^= crc;
    crc = crc_table[7][w & 255] ^ crc_table[6][w >> 8 & 255] ^ crc_table[5][w >> 16 & 255] ^
          crc_table[4][w >> 24 & 255] ^ crc_table[3][w >> 32 & 255] ^ crc_table[2][w >> 40 & 255] ^
          crc_table[1][w >> 48 & 255] ^ crc_table[0][w >> 56];
  }
  for (; size > 0; size--, p++)
    crc = crc >> 8 ^ crc_table[0][(crc ^ *p) & 255];
  return crc;
}

uint32_t opgap_crc32(uint32_t crc, const void *data, size_t size)
{
  const uint8_t *p = data;
  if (!atomic_load_explicit(&crc_ready, memory_order_acquire))
    make_crc_table();
#ifdef __x86_64__
  uint8_t folded[16];
  if (size >= 64 && crc_folds) {
    p = fold_crc(~crc, p, &size, folded);
    return ~table_crc(table_crc(0, folded, sizeof folded), p, size);
  }
#endif
  return ~table_crc(~crc, p, size);
}

void opgap_encoder_init(struct opgap_encoder *encoder, const struct opgap_event *hooks, unsigned hook_count)
{
  unsigned count;
  const struct opgap_event *builtin = opgap_schema_builtin(&count);
  for (unsigned i = 0; i < count; i++)
    encoder->events[builtin[i].id] = &builtin[i];
  for (unsigned i = 0; i < hook_count; i++)
    if (hooks[i].id < OPGAP_MAX_EVENTS)
      encoder->events[hooks[i].id] = &hooks[i];
}

/* Index of a name in this chunk, from 1; 0: none.  The table forgets the last chunk by its epoch. */
static uint32_t name_index(struct opgap_encoder *encoder, uint64_t id)
{
  if (id == 0 || id > UINT32_MAX)
    return 0;
  uint32_t mask = sizeof encoder->name_keys / sizeof *encoder->name_keys - 1;
  uint32_t h = (uint32_t)id * 2654435761u >> 18;
  for (;; h++) {
    h &= mask;
    if (encoder->name_epoch[h] != encoder->epoch)
      break;
    if (encoder->name_keys[h] == id)
      return encoder->name_index[h];
  }
  if (encoder->name_count == sizeof encoder->names / sizeof *encoder->names)
    return 0;
  encoder->names[encoder->name_count++] = (uint32_t)id;
  encoder->name_epoch[h] = encoder->epoch;
  encoder->name_keys[h] = (uint32_t)id;
  return encoder->name_index[h] = encoder->name_count;
}

static unsigned record_words(const struct opgap_event *event)
{
  return (event->kind == OPGAP_SPAN ? 3u : 2u) + event->field_count;
}

/* Sorts the records by event and checks them.  Returns how many are valid. */
static uint32_t index_records(struct opgap_encoder *encoder, const uint64_t *words, size_t count, uint32_t *invalid,
                              unsigned *present)
{
  uint32_t records = 0;
  *present = 0;
  for (size_t i = 0; i < count;) {
    uint32_t event = words[i] & 0xffff, size = words[i] >> 16 & 0xff;
    if (event == 0) { /* padding up to the end of a segment; its status says how much */
      i += words[i] >> 32 ? words[i] >> 32 : 1;
      continue;
    }
    if (size == 0 || i + size > count) {
      ++*invalid; /* the rest cannot be told apart any more */
      break;
    }
    const struct opgap_event *row = event < OPGAP_MAX_EVENTS ? encoder->events[event] : NULL;
    if (row == NULL || size != record_words(row)) {
      ++*invalid;
    } else {
      encoder->at[records] = (uint32_t)i;
      encoder->next[records] = UINT32_MAX;
      if (encoder->head[event] == UINT32_MAX) {
        encoder->head[event] = records;
        encoder->present[(*present)++] = (uint16_t)event;
      } else {
        encoder->next[encoder->tail[event]] = records;
      }
      encoder->tail[event] = records++;
    }
    i += size;
  }
  return records;
}

static uint64_t time_of(const struct opgap_tick_scale *scale, uint64_t time)
{
  return scale ? opgap_scale(scale, time) : time;
}

static uint64_t end_of(const struct opgap_encoder *encoder, const uint64_t *w, const struct opgap_tick_scale *scale)
{
  bool span = encoder->events[w[0] & 0xffff]->kind == OPGAP_SPAN;
  return time_of(scale, span ? w[2] : w[1]);
}

/* One column of an event's records: `value` of each, with its words at w.  What kind of column it is, is asked once and
 * not for each record. */
#define EACH_RECORD(value)                                                                                             \
  for (uint32_t r = encoder->head[event]; r != UINT32_MAX; r = encoder->next[r]) {                                     \
    const uint64_t *w = words + encoder->at[r];                                                                        \
    out = opgap_put_varint(out, value);                                                                                \
  }

static uint8_t *put_event_column(struct opgap_encoder *encoder, const uint64_t *words, unsigned event, unsigned column,
                                 const struct opgap_tick_scale *scale, uint8_t *out)
{
  const struct opgap_event *row = encoder->events[event];
  if (column == OPGAP_COLUMN_DURATION) {
    EACH_RECORD(opgap_zigzag(time_of(scale, w[2]) - time_of(scale, w[1])))
    return out;
  }
  if (column == OPGAP_COLUMN_STATUS) {
    EACH_RECORD(w[0] >> 32)
    return out;
  }
  unsigned field = column - OPGAP_COLUMN_FIELD, word = (row->kind == OPGAP_SPAN ? 3 : 2) + field;
  uint64_t previous = 0, delta;
  switch (row->fields[field].coding) {
  case OPGAP_NAME:
    EACH_RECORD(name_index(encoder, w[word]))
    return out;
  case OPGAP_DELTA:
    EACH_RECORD((delta = w[word] - previous, previous = w[word], opgap_zigzag(delta)))
    return out;
  default:
    EACH_RECORD(w[word])
    return out;
  }
}

static uint8_t *put_common_columns(struct opgap_encoder *encoder, const uint64_t *words, uint32_t records,
                                   const struct opgap_tick_scale *scale, struct opgap_column_entry *entry, uint8_t *out,
                                   struct opgap_encoded *result)
{
  uint8_t *begin = out;
  for (uint32_t r = 0; r < records; r++)
    out = opgap_put_varint(out, words[encoder->at[r]] & 0xffff);
  entry[0] = (struct opgap_column_entry){0, OPGAP_COLUMN_EVENT, (uint32_t)(out - begin)};
  begin = out;
  for (uint32_t r = 0; r < records; r++)
    out = opgap_put_varint(out, words[encoder->at[r]] >> 24 & 0xff);
  entry[1] = (struct opgap_column_entry){0, OPGAP_COLUMN_DEPTH, (uint32_t)(out - begin)};
  begin = out;
  uint64_t previous = 0;
  result->first_ns = UINT64_MAX;
  for (uint32_t r = 0; r < records; r++) {
    const uint64_t *w = words + encoder->at[r];
    uint64_t end = end_of(encoder, w, scale), start = time_of(scale, w[1]);
    out = opgap_put_varint(out, opgap_zigzag(end - previous));
    previous = end;
    if (start < result->first_ns)
      result->first_ns = start;
    if (end > result->last_ns)
      result->last_ns = end;
  }
  entry[2] = (struct opgap_column_entry){0, OPGAP_COLUMN_END, (uint32_t)(out - begin)};
  return out;
}

/* Names go last, because only the columns tell which are used. */
static uint8_t *put_names(const struct opgap_encoder *encoder, uint8_t *out)
{
  uint8_t *limit = out + OPGAP_ENCODE_NAMES;
  out = opgap_put_varint(out, encoder->name_count);
  for (uint32_t i = 0; i < encoder->name_count; i++) {
    uint32_t length = 0;
    const char *bytes = encoder->name(encoder->name_context, encoder->names[i], &length);
    if (bytes == NULL || out + length + 16 > limit)
      length = 0;
    out = opgap_put_varint(out, encoder->names[i]);
    out = opgap_put_varint(out, length);
    if (length)
      memcpy(out, bytes, length);
    out += length;
  }
  return out;
}

struct opgap_encoded opgap_encode_records(struct opgap_encoder *encoder, const uint64_t *words, size_t count,
                                          const struct opgap_tick_scale *scale, uint8_t *out)
{
  struct opgap_encoded result = {0};
  unsigned present, columns = 3, column = 3;
  memset(encoder->head, 0xff, sizeof encoder->head);
  encoder->epoch++;
  encoder->name_count = 0;
  result.records = index_records(encoder, words, count, &result.invalid, &present);
  for (unsigned i = 0; i < present; i++) {
    const struct opgap_event *row = encoder->events[encoder->present[i]];
    columns += (row->kind == OPGAP_SPAN) + 1u + row->field_count;
  }
  uint8_t *at = opgap_put_varint(out, result.records);
  at = opgap_put_varint(at, columns);
  struct opgap_column_entry entry, common[3];
  uint8_t *directory = at;
  at += columns * sizeof entry;
  at = put_common_columns(encoder, words, result.records, scale, common, at, &result);
  memcpy(directory, common, sizeof common);
  for (unsigned i = 0; i < present; i++) {
    unsigned event = encoder->present[i];
    const struct opgap_event *row = encoder->events[event];
    for (unsigned c = row->kind == OPGAP_SPAN ? 0 : 1; c < 2u + row->field_count; c++) {
      uint8_t *begin = at;
      at = put_event_column(encoder, words, event, c, scale, at);
      entry = (struct opgap_column_entry){(uint16_t)event, (uint16_t)c, (uint32_t)(at - begin)};
      memcpy(directory + column++ * sizeof entry, &entry, sizeof entry);
    }
  }
  at = put_names(encoder, at);
  result.bytes = (size_t)(at - out);
  if (result.records == 0)
    result.first_ns = 0;
  return result;
}

uint8_t *opgap_encode_pair(uint8_t *at, const uint8_t *end, const char *key, const char *value, size_t length)
{
  size_t key_length = strlen(key);
  if (at + key_length + length + 20 > end)
    return at;
  at = opgap_put_varint(at, key_length);
  memcpy(at, key, key_length);
  at = opgap_put_varint(at + key_length, length);
  memcpy(at, value, length);
  return at + length;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
  size_t length = strlen(text);
  at = opgap_put_varint(at, length);
  memcpy(at, text, length);
  return at + length;
}

size_t opgap_encode_schema(const struct opgap_encoder *encoder, uint8_t *out, size_t size)
{
  uint8_t *at = out;
  for (unsigned id = 1; id < OPGAP_MAX_EVENTS; id++) {
    const struct opgap_event *row = encoder->events[id];
    if (row == NULL)
      continue;
    if ((size_t)(at - out) + 1024 > size)
      break; /* cannot happen with the buffer the tracer gives; a cut table would only lose names */
    at = opgap_put_varint(at, row->id);
    *at++ = row->kind;
    *at++ = row->flags;
    at = put_text(at, row->name);
    at = put_text(at, row->category);
    at = put_text(at, row->status);
    *at++ = row->field_count;
    for (unsigned f = 0; f < row->field_count; f++) {
      *at++ = row->fields[f].coding;
      at = put_text(at, row->fields[f].name);
    }
  }
  return (size_t)(at - out);
}
