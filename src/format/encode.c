#include "format/encode.h"

#include <stdatomic.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "format/arena.h"

/* Eight tables for eight bytes a step (slicing-by-8): table[k][b] is the checksum of byte b followed by k zero bytes.
 * Made at the first use; two threads that make it at once write the same values. */
static uint32_t crc_table[8][256];
static _Atomic bool crc_ready;
#ifdef __x86_64__
/* Does the CPU multiply without carries?  Asked by one cpuid, which in a virtual machine costs 20 us, once so much has
 * been summed that it pays.  libgcc's __builtin_cpu_supports would ask several times in a constructor of every process
 * that loads the tracer. */
#define CRC_ASK_BYTES (256u * 1024u)
enum { CRC_UNKNOWN, CRC_TABLES, CRC_FOLDS };
static _Atomic uint32_t crc_way, crc_bytes;

static bool crc_folds(size_t size)
{
  uint32_t way = atomic_load_explicit(&crc_way, memory_order_relaxed);
  if (way == CRC_UNKNOWN &&
      atomic_fetch_add_explicit(&crc_bytes, (uint32_t)size, memory_order_relaxed) >= CRC_ASK_BYTES) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    way = c & bit_PCLMUL ? CRC_FOLDS : CRC_TABLES;
    atomic_store_explicit(&crc_way, way, memory_order_relaxed);
  }
  return way == CRC_FOLDS;
}
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
  if (size >= 64 && crc_folds(size)) {
    p = fold_crc(~crc, p, &size, folded);
    return ~table_crc(table_crc(0, folded, sizeof folded), p, size);
  }
#endif
  return ~table_crc(~crc, p, size);
}

void opgap_seal_file_header(struct opgap_file_header *header)
{
  memcpy(header->magic, OPGAP_TRACE_MAGIC, sizeof header->magic);
  header->version = header->min_version = OPGAP_TRACE_VERSION;
  header->header_bytes = sizeof *header;
  header->features = OPGAP_FILE_HAS_CRC | OPGAP_FILE_TELLS_LOSS;
  header->header_crc = opgap_crc32(0, header, offsetof(struct opgap_file_header, header_crc));
}

static void set_event(struct opgap_encoder *encoder, const struct opgap_event *row)
{
  unsigned head = row->kind == OPGAP_SPAN ? 3 : 2;
  bool op = row->id == OPGAP_EV_OP || row->id == OPGAP_EV_RANGE;
  bool call = (row->flags & OPGAP_EVENT_HOOK) && row->field_count == 2;
  encoder->events[row->id] = row;
  encoder->shapes[row->id] = (struct opgap_record_shape){.words = (uint8_t)(head + row->field_count),
                                                         .head = (uint8_t)head,
                                                         .short_words = op     ? OPGAP_SHORT_OP_WORDS
                                                                        : call ? OPGAP_SHORT_WORDS
                                                                               : 0,
                                                         .op = op};
}

void opgap_encoder_init(struct opgap_encoder *encoder, const struct opgap_event *hooks, unsigned hook_count)
{
  unsigned count;
  const struct opgap_event *builtin = opgap_schema_builtin(&count);
  for (unsigned i = 0; i < count; i++)
    set_event(encoder, &builtin[i]);
  for (unsigned i = 0; i < hook_count; i++)
    if (hooks[i].id < OPGAP_MAX_EVENTS)
      set_event(encoder, &hooks[i]);
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

__attribute__((cold)) uint64_t opgap_line_ns_before(const struct opgap_time_line *line, uint64_t ticks)
{
  bool before = (int64_t)(ticks - line->before.ticks0) >= 0;
  return opgap_scale(before ? &line->before : &line->older, ticks);
}

void opgap_encode_begin(struct opgap_encoder *encoder, const struct opgap_time_line *line)
{
  static const struct opgap_time_line identity = {
      .now.mult = UINT64_C(1) << 32, .before.mult = UINT64_C(1) << 32, .older.mult = UINT64_C(1) << 32};
  for (unsigned i = 0; i < encoder->present_count; i++) {
    unsigned event = encoder->present[i];
    encoder->of_event[event] = encoder->statuses[event] = 0;
    encoder->lengths[event] = 0;
  }
  atomic_signal_fence(memory_order_seq_cst); /* as in add_event */
  encoder->line = line ? *line : identity;
  encoder->present_count = encoder->count = encoder->records = encoder->loose = encoder->invalid = 0;
  encoder->name_count = encoder->fixed_count = 0;
  encoder->first_ns = UINT64_MAX;
  encoder->last_ns = encoder->tree.end = encoder->tree.depth = 0;
  encoder->sequence = 0;
  memset(&encoder->leads, 0, sizeof encoder->leads);
  encoder->pattern_end = encoder->pattern_column;
  encoder->depth_end = encoder->depth_column;
  encoder->end_end = encoder->end_column;
  encoder->lead_end = encoder->lead_column;
  encoder->tail_end = encoder->tail_column;
  encoder->rows_end = encoder->pattern_rows;
  encoder->epoch++;
}

static void note_times(struct opgap_encoder *encoder, uint64_t start, uint64_t end)
{
  if (start < encoder->first_ns)
    encoder->first_ns = start;
  if (end > encoder->last_ns)
    encoder->last_ns = end;
}

/* The index of a new pattern: that many are there. */
static uint32_t next_pattern(const struct opgap_encoder *encoder)
{
  return encoder->fixed_count + encoder->present_count;
}

/* ---- fixed patterns ---- */

/* An op's record: its pattern is all but its times. */
struct op {
  uint64_t key[3]; /* event, depth | name; alloc_bytes | counts; sequence, as in a row | stack */
  uint64_t start, end, sequence;
};
#define KEY_WORD0 UINT64_C(0xff00ffff)
#define WORD0_KIND UINT64_C(0x00ffffff) /* event, words */
#define LOW(x) ((x)&UINT32_MAX)

struct counts {
  uint32_t allocs, frees, status;
};
static inline struct counts get_counts(uint32_t counts)
{
  uint32_t most = (1u << OPGAP_SHORT_COUNT_BITS) - 1;
  return (struct counts){counts & most, counts >> OPGAP_SHORT_COUNT_BITS & most, counts >> OPGAP_SHORT_STATUS_SHIFT};
}

/* False: a value is too large for a pattern. */
static inline bool get_op(const struct opgap_encoder *encoder, uint64_t word0, const uint64_t *w, bool is_short,
                          uint32_t ticks_high, struct op *op)
{
  uint64_t name, stack, sequence;
  if (is_short) {
    const struct opgap_short_op *record = (const struct opgap_short_op *)w;
    uint64_t end = (uint64_t)ticks_high << 32 | word0 >> 32;
    op->end = opgap_line_ns(&encoder->line, end);
    op->start = opgap_line_ns(&encoder->line, end - record->length);
    name = record->name;
    stack = record->stack;
    sequence = (uint64_t)record->sequence;
    op->key[1] = w[3];
  } else {
    uint32_t status = (uint32_t)(word0 >> 32);
    name = w[3];
    sequence = w[4];
    stack = w[8];
    if ((name | stack) >> 32 || opgap_op_excess(0, w[6], w[5], w[7], status, sequence))
      return false;
    op->key[1] = w[6] | (uint64_t)opgap_short_counts(w[5], w[7], status) << 32;
    op->start = opgap_line_ns(&encoder->line, w[1]);
    op->end = opgap_line_ns(&encoder->line, w[2]);
  }
  uint64_t code = sequence == OPGAP_NO_SEQUENCE ? 0 : 1 + opgap_zigzag(sequence - encoder->sequence);
  op->key[0] = (word0 & KEY_WORD0) | name << 32;
  op->key[2] = code | stack << 32;
  op->sequence = sequence;
  return code <= UINT32_MAX;
}

static void put_row(struct opgap_encoder *encoder, const uint64_t key[3])
{
  struct counts counts = get_counts((uint32_t)(key[1] >> 32));
  const uint64_t values[] = {
      key[0] & 0xffff, OPGAP_PATTERN_FIXED, key[0] >> 24 & 0xff, counts.status, name_index(encoder, key[0] >> 32),
      LOW(key[2]),     counts.allocs,       LOW(key[1]),         counts.frees,  name_index(encoder, key[2] >> 32)};
  for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
    encoder->rows_end = opgap_put_varint(encoder->rows_end, values[i]);
}

static inline bool is_fixed(const struct opgap_encoder *encoder, const struct opgap_fixed *fixed, uint64_t key0,
                            uint64_t key1, uint64_t key2)
{
  return fixed->epoch == encoder->epoch && fixed->key[0] == key0 && fixed->key[1] == key1 && fixed->key[2] == key2;
}

/* The pattern with this key by its hash, a new one if need be; NULL: there are too many. */
static __attribute__((noinline)) struct opgap_fixed *look_up(struct opgap_encoder *encoder, uint64_t key0,
                                                             uint64_t key1, uint64_t key2)
{
  uint64_t h = (key0 * UINT64_C(0x9e3779b97f4a7c15)) ^ (key1 * UINT64_C(0xc2b2ae3d27d4eb4f)) ^
               (key2 * UINT64_C(0xd6e8feb86659fd93));
  uint64_t slot = h >> 53;
  struct opgap_fixed *fixed;
  while (fixed = &encoder->fixed[slot], fixed->epoch == encoder->epoch) {
    if (is_fixed(encoder, fixed, key0, key1, key2)) {
      encoder->followed_by[encoder->leads.pattern] = (uint16_t)slot;
      return fixed;
    }
    slot = (slot + 1) % OPGAP_FIXED_SLOTS;
  }
  if (encoder->fixed_count == OPGAP_FIXED_MAX)
    return NULL;
  *fixed = (struct opgap_fixed){.key = {key0, key1, key2}, .index = next_pattern(encoder), .epoch = encoder->epoch};
  encoder->fixed_count++;
  encoder->followed_by[encoder->leads.pattern] = (uint16_t)slot;
  put_row(encoder, fixed->key);
  return fixed;
}
static_assert(OPGAP_FIXED_SLOTS == 1u << (64 - 53), "hash of a pattern");

/* The same; as a rule it is the one that came last behind the pattern before. */
static inline struct opgap_fixed *find_fixed(struct opgap_encoder *encoder, uint64_t key0, uint64_t key1, uint64_t key2)
{
  struct opgap_fixed *fixed = &encoder->fixed[encoder->followed_by[encoder->leads.pattern]];
  return is_fixed(encoder, fixed, key0, key1, key2) ? fixed : look_up(encoder, key0, key1, key2);
}

/* Codes an op; false: it has no fixed pattern. */
static inline __attribute__((always_inline)) bool add_op(struct opgap_encoder *encoder, uint64_t word0,
                                                         const uint64_t *w, bool is_short, uint32_t ticks_high)
{
  struct op op;
  if (!get_op(encoder, word0, w, is_short, ticks_high, &op))
    return false;
  struct opgap_fixed *fixed = find_fixed(encoder, op.key[0], op.key[1], op.key[2]);
  if (fixed == NULL)
    return false;
  struct opgap_tree *tree = &encoder->tree;
  uint8_t depth = (uint8_t)(word0 >> 24);
  bool parent = opgap_tree_is_parent(tree, depth);
  uint64_t lead = parent ? tree->first[depth + 1] - op.start : op.start - tree->end;
  uint64_t tail = op.end - (parent ? tree->end : op.start);
  encoder->pattern_end = opgap_put_varint(encoder->pattern_end, fixed->index);
  uint64_t *of_pair = opgap_lead_next(&encoder->leads, fixed->index);
  encoder->lead_end = opgap_put_varint(encoder->lead_end, opgap_zigzag(lead - (*of_pair ? *of_pair : fixed->lead)));
  encoder->tail_end = opgap_put_varint(encoder->tail_end, opgap_zigzag(tail - fixed->tail));
  *of_pair = fixed->lead = lead;
  fixed->tail = tail;
  if (op.sequence != OPGAP_NO_SEQUENCE)
    encoder->sequence = op.sequence;
  encoder->count += OPGAP_FIXED_WORDS;
  encoder->records++;
  opgap_tree_add(tree, depth, op.start, op.end);
  note_times(encoder, op.start, op.end);
  return true;
}

/* ---- loose ones ---- */

/* Writes a short record out in full. */
static inline void unfold_short(const struct opgap_encoder *encoder, const struct opgap_record_shape *shape,
                                uint64_t *to, uint64_t word0, const uint64_t *w, uint32_t ticks_high)
{
  uint64_t ticks = (uint64_t)ticks_high << 32 | word0 >> 32, end = opgap_line_ns(&encoder->line, ticks);
  to[0] = LOW(word0);
  to[1] = to[2] = end;
  if (shape->op) {
    const struct opgap_short_op *op = (const struct opgap_short_op *)w;
    struct counts counts = get_counts(op->counts);
    to[0] |= (uint64_t)counts.status << 32;
    to[1] = opgap_line_ns(&encoder->line, ticks - op->length);
    to[3] = op->name;
    to[4] = (uint64_t)op->sequence;
    to[5] = counts.allocs;
    to[6] = op->alloc_bytes;
    to[7] = counts.frees;
    to[8] = op->stack;
  } else {
    to[shape->head] = w[1] & ((UINT64_C(1) << OPGAP_SHORT_OBJECT_BITS) - 1);
    to[shape->head + 1] = w[1] >> OPGAP_SHORT_OBJECT_BITS;
  }
}

/* Writes a record out in full, times in ns. */
static inline void unfold(const struct opgap_encoder *encoder, const struct opgap_record_shape *shape, uint64_t *to,
                          uint64_t word0, const uint64_t *w, uint32_t ticks_high)
{
  if ((word0 >> 16 & 0xff) != shape->words) {
    unfold_short(encoder, shape, to, word0, w, ticks_high);
    return;
  }
  to[0] = word0;
  to[1] = opgap_line_ns(&encoder->line, w[1]);
  unsigned i = 2;
  if (shape->head == 3)
    to[i++] = opgap_line_ns(&encoder->line, w[2]);
  for (; i < shape->words; i++)
    to[i] = w[i];
}

static void add_event(struct opgap_encoder *encoder, unsigned event)
{
  encoder->loose_pattern[event] = (uint16_t)next_pattern(encoder);
  encoder->present[encoder->present_count++] = (uint16_t)event;
  encoder->rows_end = opgap_put_varint(encoder->rows_end, event);
  encoder->rows_end = opgap_put_varint(encoder->rows_end, OPGAP_PATTERN_LOOSE);
  /* A forked child begins with a copy of this, from any moment: an event that is counted must be in `present`, by
   * which the next chunk forgets it. */
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void add_loose(struct opgap_encoder *encoder, const struct opgap_record_shape *shape, uint64_t word0,
                             const uint64_t *w, uint32_t ticks_high)
{
  unsigned event = word0 & 0xffff;
  uint8_t depth = (uint8_t)(word0 >> 24);
  uint64_t *to = encoder->words + encoder->count;
  unfold(encoder, shape, to, word0, w, ticks_high);
  if (encoder->of_event[event] == 0)
    add_event(encoder, event);
  encoder->of_event[event]++;
  encoder->at[encoder->loose++] = (uint16_t)encoder->count;
  encoder->count += shape->words;
  encoder->records++;
  uint64_t start = to[1], end = shape->head == 3 ? to[2] : start;
  encoder->statuses[event] |= (uint32_t)(to[0] >> 32);
  encoder->lengths[event] |= end - start;
  encoder->leads.pattern = encoder->loose_pattern[event];
  encoder->pattern_end = opgap_put_varint(encoder->pattern_end, encoder->leads.pattern);
  encoder->depth_end = opgap_put_varint(encoder->depth_end, depth);
  encoder->end_end = opgap_put_varint(encoder->end_end, opgap_zigzag(end - encoder->tree.end));
  opgap_tree_add(&encoder->tree, depth, start, end);
  note_times(encoder, start, end);
}

size_t opgap_encode_add(struct opgap_encoder *encoder, const uint64_t *words, size_t count, uint32_t ticks_high,
                        size_t limit)
{
  size_t i = 0;
  while (i < count) {
    /* once: a living program's ring, read from outside, may change meanwhile */
    uint64_t word0 = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
    /* what a training has most of, first */
    if ((word0 & WORD0_KIND) == OPGAP_WORD0(OPGAP_EV_OP, OPGAP_SHORT_OP_WORDS, 0, 0) &&
        i + OPGAP_SHORT_OP_WORDS <= count && encoder->count + OPGAP_FIXED_WORDS <= limit &&
        add_op(encoder, word0, words + i, true, ticks_high)) {
      i += OPGAP_SHORT_OP_WORDS;
      continue;
    }
    uint32_t event = word0 & 0xffff, size = word0 >> 16 & 0xff;
    if (event == 0) { /* padding up to the end of a segment; its status says how much */
      i += word0 >> 32 ? word0 >> 32 : 1;
      continue;
    }
    if (size == 0 || i + size > count) {
      encoder->invalid++; /* the rest cannot be told apart any more */
      return count;
    }
    const struct opgap_record_shape *shape = event < OPGAP_MAX_EVENTS ? &encoder->shapes[event] : encoder->shapes;
    if (shape->words == 0 || (size != shape->words && size != shape->short_words)) {
      encoder->invalid++;
      i += size;
      continue;
    }
    if (encoder->count + shape->words > limit)
      return i;
    if (!shape->op || !add_op(encoder, word0, words + i, size == OPGAP_SHORT_OP_WORDS, ticks_high))
      add_loose(encoder, shape, word0, words + i, ticks_high);
    i += size;
  }
  return count;
}

/* Puts the loose records in the order of their events, and each event's in theirs. */
static void sort_by_event(struct opgap_encoder *encoder)
{
  uint32_t next[OPGAP_MAX_EVENTS], place = 0; /* only those of `present` are used */
  for (unsigned i = 0; i < encoder->present_count; i++) {
    next[encoder->present[i]] = place;
    place += encoder->of_event[encoder->present[i]];
  }
  for (uint32_t r = 0; r < encoder->loose; r++)
    encoder->order[next[encoder->words[encoder->at[r]] & 0xffff]++] = encoder->at[r];
}

/* One column of an event's records: `value` of each, with its words at w.  What kind of column it is, is asked once and
 * not for each record. */
#define EACH_RECORD(value)                                                                                             \
  for (uint32_t r = 0; r < count; r++) {                                                                               \
    const uint64_t *w = encoder->words + order[r];                                                                     \
    out = opgap_put_varint(out, value);                                                                                \
  }

static uint8_t *put_event_column(struct opgap_encoder *encoder, unsigned event, const uint16_t *order, unsigned column,
                                 uint8_t *out)
{
  uint32_t count = encoder->of_event[event];
  if ((column == OPGAP_COLUMN_DURATION && encoder->lengths[event] == 0) ||
      (column == OPGAP_COLUMN_STATUS && encoder->statuses[event] == 0)) {
    memset(out, 0, count);
    return out + count;
  }
  if (column == OPGAP_COLUMN_DURATION) {
    EACH_RECORD(opgap_zigzag(w[2] - w[1]))
    return out;
  }
  if (column == OPGAP_COLUMN_STATUS) {
    EACH_RECORD(w[0] >> 32)
    return out;
  }
  unsigned field = column - OPGAP_COLUMN_FIELD, word = encoder->shapes[event].head + field;
  uint64_t previous = 0, delta;
  switch (encoder->events[event]->fields[field].coding) {
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

/* The columns that add has coded. */
#define COMMON_COLUMNS 6u
static uint8_t *put_common_columns(const struct opgap_encoder *encoder, struct opgap_column_entry *entry, uint8_t *out)
{
  const struct {
    unsigned column;
    const uint8_t *begin, *end;
  } columns[COMMON_COLUMNS] = {{OPGAP_COLUMN_PATTERNS, encoder->pattern_rows, encoder->rows_end},
                               {OPGAP_COLUMN_PATTERN, encoder->pattern_column, encoder->pattern_end},
                               {OPGAP_COLUMN_DEPTH, encoder->depth_column, encoder->depth_end},
                               {OPGAP_COLUMN_END, encoder->end_column, encoder->end_end},
                               {OPGAP_COLUMN_LEAD, encoder->lead_column, encoder->lead_end},
                               {OPGAP_COLUMN_TAIL, encoder->tail_column, encoder->tail_end}};
  for (unsigned i = 0; i < COMMON_COLUMNS; i++) {
    size_t bytes = (size_t)(columns[i].end - columns[i].begin);
    memcpy(out, columns[i].begin, bytes);
    out += bytes;
    entry[i] = (struct opgap_column_entry){0, (uint16_t)columns[i].column, (uint32_t)bytes};
  }
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

struct opgap_encoded opgap_encode_end(struct opgap_encoder *encoder, uint8_t *out)
{
  struct opgap_encoded result = {.records = encoder->records,
                                 .invalid = encoder->invalid,
                                 .first_ns = encoder->records ? encoder->first_ns : 0,
                                 .last_ns = encoder->last_ns};
  unsigned columns = COMMON_COLUMNS, column = COMMON_COLUMNS;
  for (unsigned i = 0; i < encoder->present_count; i++) {
    const struct opgap_event *row = encoder->events[encoder->present[i]];
    columns += (row->kind == OPGAP_SPAN) + 1u + row->field_count;
  }
  uint8_t *at = opgap_put_varint(out, encoder->records);
  at = opgap_put_varint(at, columns);
  struct opgap_column_entry entry, common[COMMON_COLUMNS];
  uint8_t *directory = at;
  at += columns * sizeof entry;
  at = put_common_columns(encoder, common, at);
  memcpy(directory, common, sizeof common);
  sort_by_event(encoder);
  const uint16_t *order = encoder->order;
  for (unsigned i = 0; i < encoder->present_count; i++) {
    unsigned event = encoder->present[i];
    const struct opgap_event *row = encoder->events[event];
    for (unsigned c = row->kind == OPGAP_SPAN ? 0 : 1; c < 2u + row->field_count; c++) {
      uint8_t *begin = at;
      at = put_event_column(encoder, event, order, c, at);
      entry = (struct opgap_column_entry){(uint16_t)event, (uint16_t)c, (uint32_t)(at - begin)};
      memcpy(directory + column++ * sizeof entry, &entry, sizeof entry);
    }
    order += encoder->of_event[event];
  }
  at = put_names(encoder, at);
  result.bytes = (size_t)(at - out);
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
