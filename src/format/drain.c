#include "format/drain.h"

#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "format/reader.h"

#define CHUNK_WORDS (7u * (OPGAP_SEGMENT_DATA / 8)) /* leaves room for counter records behind the ring's own */
#define CHUNK_SEGMENTS 14u                          /* as many as have so many words: a short op, of four, takes two */
static_assert(CHUNK_SEGMENTS * (OPGAP_SEGMENT_DATA / 8) / OPGAP_SHORT_OP_WORDS * OPGAP_FIXED_WORDS <= CHUNK_WORDS,
              "segments of short ops");
#define ZSTD_LEVEL 1
/* Description and schema are short, and every process writes them once: a third of the time, and 0.7 KB more. */
#define ZSTD_ONCE_LEVEL (-1)
#define ZSTD_ONCE_HASH_LOG 9
#define SKIP_MAX 4096u
#define MAX_SLOTS 4096u
#define SHORT_INTERVAL_TICKS 1000000u /* some 300 us: the error of an anchor is below 1e-4 of it */

struct opgap_consumer {
  struct opgap_arena *arena;
  opgap_sink sink;
  void *sink_context;
  bool (*gone)(int tid), (*process_gone)(int pid);
  bool (*guest_moved)(const struct opgap_arena *host, int pid, uint64_t start_time);
  void (*release)(uint32_t slot);
  ZSTD_CCtx *zstd;
  bool compressing;
  struct opgap_time_line line;
  uint64_t last_ns;
  struct {
    uint32_t serial;
    uint64_t position;
  } skip[SKIP_MAX];
  uint32_t skip_count;
  struct {
    uint64_t write_pos;
    uint32_t state;
  } seen[MAX_SLOTS]; /* at the beginning of a drain */
  struct opgap_encoder encoder;
  uint64_t words[OPGAP_ENCODE_MAX_WORDS]; /* records that are not in a ring */
  uint8_t raw[OPGAP_ENCODE_BUFFER];
  uint8_t stored[sizeof(struct opgap_chunk_header) + OPGAP_ENCODE_BUFFER + OPGAP_ENCODE_BUFFER / 64];
  _Alignas(64) uint8_t workspace[];
};

size_t opgap_consumer_bytes(void)
{
  return sizeof(struct opgap_consumer) + ZSTD_estimateCCtxSize(ZSTD_LEVEL);
}

/* A name of the arena, checked: a dead process's arena may hold anything. */
static const char *arena_name(void *context, uint32_t id, uint32_t *length)
{
  struct opgap_arena *arena = context;
  uint64_t used = atomic_load_explicit(&arena->names_used, memory_order_relaxed);
  uint64_t offset = (uint64_t)id * 8;
  if (used > arena->names_size || offset + sizeof(struct opgap_name) > used)
    return NULL;
  const struct opgap_name *name = opgap_arena_name(arena, id);
  uint32_t n = name->length;
  if (n > OPGAP_NAME_MAX || offset + sizeof *name + n > used)
    return NULL;
  *length = n;
  return name->bytes;
}

struct opgap_consumer *opgap_consumer_init(void *memory, struct opgap_arena *arena, const struct opgap_event *hooks,
                                           unsigned hook_count, opgap_sink sink, void *sink_context)
{
  struct opgap_consumer *consumer = memory;
  consumer->skip_count = 0;
  consumer->last_ns = 0;
  consumer->line = (struct opgap_time_line){0};
  consumer->gone = NULL;
  consumer->process_gone = NULL;
  consumer->guest_moved = NULL;
  consumer->release = NULL;
  consumer->arena = arena;
  consumer->sink = sink;
  consumer->sink_context = sink_context;
  /* A forked child takes over its copy, unless another thread was at it: zstd asks for CPUID, three times, which in a
   * virtual machine takes as long as to compress the schema. */
  if (consumer->zstd == NULL || consumer->compressing)
    consumer->zstd = ZSTD_initStaticCCtx(consumer->workspace, ZSTD_estimateCCtxSize(ZSTD_LEVEL));
  consumer->compressing = false;
  consumer->encoder.name = arena_name;
  consumer->encoder.name_context = arena;
  opgap_encoder_init(&consumer->encoder, hooks, hook_count);
  return consumer;
}

void opgap_consumer_set_gone(struct opgap_consumer *consumer, bool (*gone)(int tid))
{
  consumer->gone = gone;
}

void opgap_consumer_set_process_gone(struct opgap_consumer *consumer, bool (*gone)(int pid))
{
  consumer->process_gone = gone;
}

void opgap_consumer_set_guest_moved(struct opgap_consumer *consumer,
                                    bool (*moved)(const struct opgap_arena *host, int pid, uint64_t start_time))
{
  consumer->guest_moved = moved;
}

void opgap_consumer_set_release(struct opgap_consumer *consumer, void (*release)(uint32_t slot))
{
  consumer->release = release;
}

void opgap_consumer_skip(struct opgap_consumer *consumer, uint32_t serial, uint64_t position)
{
  for (uint32_t i = 0; i < consumer->skip_count; i++) {
    if (consumer->skip[i].serial == serial) {
      if (consumer->skip[i].position < position)
        consumer->skip[i].position = position;
      return;
    }
  }
  if (consumer->skip_count < SKIP_MAX) {
    consumer->skip[consumer->skip_count].serial = serial;
    consumer->skip[consumer->skip_count++].position = position;
  }
}

/* Compresses consumer->raw and appends the chunk. */
static int write_chunk(struct opgap_consumer *consumer, struct opgap_chunk_header *header, size_t raw_bytes)
{
  struct opgap_arena *arena = consumer->arena;
  uint8_t *payload = consumer->stored + sizeof *header;
  consumer->compressing = true; /* as a forked child would find it */
  bool once = header->type != OPGAP_CHUNK_RECORDS;
  ZSTD_CCtx_setParameter(consumer->zstd, ZSTD_c_compressionLevel, once ? ZSTD_ONCE_LEVEL : ZSTD_LEVEL);
  ZSTD_CCtx_setParameter(consumer->zstd, ZSTD_c_hashLog, once ? ZSTD_ONCE_HASH_LOG : 0);
  size_t stored =
      ZSTD_compress2(consumer->zstd, payload, sizeof consumer->stored - sizeof *header, consumer->raw, raw_bytes);
  consumer->compressing = false;
  if (ZSTD_isError(stored))
    return -5;
  header->magic = OPGAP_CHUNK_MAGIC;
  header->header_bytes = sizeof *header;
  header->sequence = (uint32_t)(arena->chunk_sequence + 1);
  header->stored_bytes = (uint32_t)stored;
  header->raw_bytes = (uint32_t)raw_bytes;
  header->payload_crc = opgap_crc32(0, payload, stored);
  header->header_crc = opgap_crc32(0, header, offsetof(struct opgap_chunk_header, header_crc));
  memcpy(consumer->stored, header, sizeof *header);
  int error = consumer->sink(consumer->sink_context, consumer->stored, sizeof *header + stored);
  if (error)
    return error;
  arena->chunk_sequence++;
  arena->records += header->records;
  arena->raw_bytes += raw_bytes;
  arena->stored_bytes += sizeof *header + stored;
  return 0;
}

int opgap_consumer_info(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes)
{
  uint64_t now = consumer->arena->last_anchor.ns;
  struct opgap_chunk_header info = {.type = OPGAP_CHUNK_INFO, .first_ns = now, .last_ns = now};
  if (pairs_bytes > sizeof consumer->raw)
    return -7; /* E2BIG */
  memcpy(consumer->raw, pairs, pairs_bytes);
  return write_chunk(consumer, &info, pairs_bytes);
}

struct opgap_account opgap_consumer_account(const struct opgap_arena *arena)
{
  return (struct opgap_account){arena->records, arena->raw_bytes, arena->stored_bytes, arena->chunk_sequence};
}

void opgap_consumer_restore(struct opgap_arena *arena, struct opgap_account account)
{
  arena->records = account.records;
  arena->raw_bytes = account.raw_bytes;
  arena->stored_bytes = account.stored_bytes;
  arena->chunk_sequence = account.chunk_sequence;
}

int opgap_consumer_schema(struct opgap_consumer *consumer)
{
  uint64_t now = consumer->arena->first_anchor.ns;
  struct opgap_chunk_header schema = {.type = OPGAP_CHUNK_SCHEMA, .first_ns = now, .last_ns = now};
  return write_chunk(consumer, &schema, opgap_encode_schema(&consumer->encoder, consumer->raw, sizeof consumer->raw));
}

static int write_head(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes, uint64_t kept_from_ns)
{
  struct opgap_file_header file = {.start_ns = consumer->arena->first_anchor.ns,
                                   .pid = consumer->arena->pid,
                                   .first_sequence = (uint32_t)(consumer->arena->chunk_sequence + 1),
                                   .kept_from_ns = kept_from_ns};
  opgap_seal_file_header(&file);
  int error = consumer->sink(consumer->sink_context, &file, sizeof file);
  if (error)
    return error;
  error = opgap_consumer_info(consumer, pairs, pairs_bytes);
  return error ? error : opgap_consumer_schema(consumer);
}

int opgap_consumer_begin(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes)
{
  return write_head(consumer, pairs, pairs_bytes, 0);
}

static uint64_t slope(struct opgap_anchor from, struct opgap_anchor to)
{
  return (uint64_t)(((unsigned __int128)(to.ns - from.ns) << 32) / (to.ticks - from.ticks));
}

/* Where the line from the last anchor to this one runs.  An interval that is too short for a ratio borrows the one of
 * the whole session, and ends where that line ends, not at `now`: the next interval begins there. */
static struct opgap_anchor line_to(const struct opgap_arena *arena, struct opgap_anchor now,
                                   struct opgap_tick_scale *scale)
{
  struct opgap_anchor first = arena->first_anchor, last = arena->last_anchor;
  *scale = (struct opgap_tick_scale){.ticks0 = last.ticks, .ns0 = last.ns, .mult = 1ull << 32};
  if (!arena->ticks_are_tsc || (int64_t)(now.ticks - last.ticks) <= 0)
    return now;
  if (now.ticks - last.ticks >= SHORT_INTERVAL_TICKS && now.ns > last.ns) {
    scale->mult = slope(last, now);
    return now;
  }
  if (now.ns > first.ns && now.ticks > first.ticks)
    scale->mult = slope(first, now);
  return (struct opgap_anchor){now.ticks, opgap_scale(scale, now.ticks)};
}

/* The interval that was drained last is the one before the present one, of which nothing may have been drained yet. */
static void pass_anchor(struct opgap_time_line *line, struct opgap_anchor first, const struct opgap_tick_scale *now)
{
  if (line->now.mult == 0)
    line->before = *now;
  else if (line->now.ticks0 != now->ticks0)
    line->before = line->now;
  line->now = *now;
  line->older = line->before;
  if (line->before.ns0 > first.ns && line->before.ticks0 > first.ticks)
    line->older.mult = slope(first, (struct opgap_anchor){line->before.ticks0, line->before.ns0});
}

static void push_free_segment(struct opgap_arena *arena, uint32_t place)
{
  bool is_short = opgap_arena_segment(arena, place)->bytes == OPGAP_SHORT_SEGMENT_BYTES;
  opgap_arena_push(arena, is_short ? &arena->free_shorts : &arena->free_blocks, place, place);
}

static bool is_block(const struct opgap_arena *arena, uint32_t place)
{
  return place % OPGAP_SHORTS_IN_BLOCK == 1 &&
         place / OPGAP_SHORTS_IN_BLOCK < atomic_load_explicit(&arena->blocks_ready, memory_order_relaxed);
}

/* Bytes of a segment without its header; 0: there is none at this place. */
static uint64_t segment_data(struct opgap_arena *arena, uint32_t place)
{
  if (place == 0 ||
      (place - 1) / OPGAP_SHORTS_IN_BLOCK >= atomic_load_explicit(&arena->blocks_ready, memory_order_relaxed))
    return 0;
  uint32_t bytes = opgap_arena_segment(arena, place)->bytes;
  if (bytes != OPGAP_SHORT_SEGMENT_BYTES && (bytes != OPGAP_SEGMENT_BYTES || !is_block(arena, place)))
    return 0;
  return bytes - OPGAP_SEGMENT_HEADER;
}

/* Where a thread's reading stands; moved into the slot once the chunk is safe. */
struct place {
  uint64_t position, data; /* data: of the segment */
  uint32_t segment;
  uint32_t passed[CHUNK_SEGMENTS + 1], passed_count;
};

/* Finds the segment that holds at->position, from at->segment on: more than one further if the consumer before died in
 * place_reached.  Nothing of the arena is trusted: a dead process's may hold anything. */
static bool next_segment(struct opgap_arena *arena, struct opgap_thread *slot, struct place *at)
{
  if (at->segment == 0)
    at->segment = atomic_load_explicit(&slot->first_segment, memory_order_acquire); /* B */
  at->data = segment_data(arena, at->segment);
  while (at->data > 0) {
    struct opgap_segment *segment = opgap_arena_segment(arena, at->segment);
    if (at->position - segment->base < at->data)
      return true;
    uint32_t next = atomic_load_explicit(&segment->next, memory_order_acquire); /* B */
    uint64_t next_data = segment_data(arena, next);
    if (at->position < segment->base || next_data == 0 || at->passed_count > CHUNK_SEGMENTS ||
        opgap_arena_segment(arena, next)->base != segment->base + at->data)
      return false;
    at->passed[at->passed_count++] = at->segment;
    at->segment = next;
    at->data = next_data;
  }
  return false;
}

/* Gives committed records, up to a chunk's worth, to the encoder.  Pieces end where records end: at write_pos or at a
 * segment's end.  False: there are none. */
static bool collect(struct opgap_consumer *consumer, struct opgap_thread *slot, struct place *at, uint64_t limit)
{
  uint64_t before = at->position;
  while (at->position < limit && at->passed_count < CHUNK_SEGMENTS && next_segment(consumer->arena, slot, at)) {
    const struct opgap_segment *segment = opgap_arena_segment(consumer->arena, at->segment);
    uint64_t offset = at->position - segment->base, bytes = limit - at->position;
    if (bytes > at->data - offset)
      bytes = at->data - offset;
    if ((offset | bytes) % 8)
      break;
    size_t taken =
        opgap_encode_add(&consumer->encoder, segment->data + offset / 8, bytes / 8, segment->ticks_high, CHUNK_WORDS);
    at->position += taken * 8;
    if (taken * 8 < bytes)
      break;
  }
  return at->position != before;
}

/* Grows with every change of a counter: failures and times are added after the call was counted. */
static uint64_t counter_changes(const struct opgap_thread *slot, unsigned counter)
{
  return __atomic_load_n(&slot->counters[counter].calls, __ATOMIC_RELAXED) +
         __atomic_load_n(&slot->details[counter].failed, __ATOMIC_RELAXED) +
         __atomic_load_n(&slot->details[counter].timed, __ATOMIC_RELAXED);
}

static size_t add_counters(struct opgap_consumer *consumer, struct opgap_thread *slot, size_t count, uint64_t now_ticks)
{
  struct opgap_arena *arena = consumer->arena;
  unsigned counters = arena->counter_count < OPGAP_MAX_COUNTERS ? arena->counter_count : OPGAP_MAX_COUNTERS;
  for (unsigned i = 0; i < counters; i++) {
    if (counter_changes(slot, i) == slot->written_changes[i])
      continue;
    const struct opgap_counter_detail *detail = &slot->details[i];
    uint64_t *w = consumer->words + count;
    w[0] = OPGAP_WORD0(OPGAP_EV_COUNTER, 7, 0, arena->counter_events[i]);
    w[1] = now_ticks;
    w[2] = __atomic_load_n(&slot->counters[i].calls, __ATOMIC_RELAXED);
    w[4] = __atomic_load_n(&detail->failed, __ATOMIC_RELAXED);
    w[5] = __atomic_load_n(&detail->timed, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst); /* what is added first is read last */
    w[3] = __atomic_load_n(&slot->counters[i].bytes, __ATOMIC_RELAXED);
    uint64_t time_ticks = __atomic_load_n(&detail->time_ticks, __ATOMIC_RELAXED);
    w[6] = (uint64_t)(((unsigned __int128)time_ticks * consumer->line.now.mult) >> 32);
    count += 7;
  }
  return count;
}

/* Start and stop from outside, in the process stream. */
static size_t add_switches(struct opgap_consumer *consumer, size_t count, uint32_t made)
{
  struct opgap_control *control = opgap_arena_control(consumer->arena);
  for (uint32_t n = control->switches_written; n != made; n++) {
    const struct opgap_switch *entry = &control->log[n % OPGAP_SWITCHES];
    consumer->words[count++] = OPGAP_WORD0(OPGAP_EV_RECORDING, 2, 0, entry->on);
    consumer->words[count++] = entry->ns;
  }
  return count;
}

/* Entries of the log up to which a drain writes; a dead process's page may hold anything. */
static uint32_t switches_made(const struct opgap_consumer *consumer, const struct opgap_thread *slot)
{
  struct opgap_control *control = opgap_arena_control(consumer->arena);
  uint32_t made = atomic_load_explicit(&control->switches, memory_order_acquire); /* L */
  if (slot->kind != OPGAP_STREAM_PROCESS || made - control->switches_written > OPGAP_SWITCHES)
    return control->switches_written;
  return made;
}

static void counters_written(struct opgap_consumer *consumer, struct opgap_thread *slot, size_t end)
{
  struct opgap_arena *arena = consumer->arena;
  for (size_t i = 0; i + 7 <= end; i += 7)
    for (unsigned k = 0; k < arena->counter_count && k < OPGAP_MAX_COUNTERS; k++)
      if (arena->counter_events[k] == consumer->words[i] >> 32)
        slot->written_changes[k] = consumer->words[i + 2] + consumer->words[i + 4] + consumer->words[i + 5];
}

/* What a dead thread was in the middle of (words of OPEN_OP and OPEN_CALL). */
static size_t add_open(struct opgap_consumer *consumer, struct opgap_thread *slot, size_t count, uint64_t end)
{
  uint32_t depth = slot->depth < OPGAP_MAX_DEPTH ? slot->depth : OPGAP_MAX_DEPTH;
  if (slot->call_event) {
    uint64_t w[5] = {OPGAP_WORD0(OPGAP_EV_OPEN_CALL, 5, depth, 0), slot->call_start,
                     end > slot->call_start ? end : slot->call_start, slot->call_event, slot->call_object};
    memcpy(consumer->words + count, w, sizeof w);
    count += 5;
  }
  for (uint32_t i = depth; i-- > 0;) {
    uint64_t start = slot->ops[i].start;
    uint64_t w[4] = {OPGAP_WORD0(OPGAP_EV_OPEN_OP, 4, i, 0), start, end > start ? end : start, slot->ops[i].name};
    memcpy(consumer->words + count, w, sizeof w);
    count += 4;
  }
  return count;
}

static uint64_t slot_too_deep(const struct opgap_thread *slot)
{
  return atomic_load_explicit(&slot->too_deep, memory_order_relaxed);
}

static uint64_t slot_nested(const struct opgap_thread *slot)
{
  return atomic_load_explicit(&slot->nested, memory_order_relaxed);
}

static uint64_t slot_lost(const struct opgap_thread *slot)
{
  return atomic_load_explicit(&slot->lost, memory_order_relaxed) + slot_nested(slot) + slot_too_deep(slot);
}

static uint32_t at_most_32_bits(uint64_t value)
{
  return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void begin_records(struct opgap_consumer *consumer, const struct opgap_thread *slot)
{
  opgap_encode_begin(&consumer->encoder, slot->kind == OPGAP_STREAM_THREAD ? &consumer->line : NULL);
}

/* Writes what was collected since begin_records, and `count` words of consumer->words behind it. */
static int write_records(struct opgap_consumer *consumer, struct opgap_thread *slot, size_t count, uint64_t position)
{
  opgap_encode_add(&consumer->encoder, consumer->words, count, 0, OPGAP_ENCODE_MAX_WORDS);
  struct opgap_encoded encoded = opgap_encode_end(&consumer->encoder, consumer->raw);
  consumer->arena->invalid_records += encoded.invalid;
  if (encoded.last_ns > consumer->last_ns)
    consumer->last_ns = encoded.last_ns;
  struct opgap_chunk_header header = {.type = OPGAP_CHUNK_RECORDS,
                                      .serial = slot->serial,
                                      .kind = slot->kind,
                                      .tid = slot->tid,
                                      .lost = slot_lost(slot),
                                      .interrupts = at_most_32_bits(slot_nested(slot)),
                                      .too_deep = at_most_32_bits(slot_too_deep(slot)),
                                      .records = encoded.records,
                                      .first_ns = encoded.first_ns,
                                      .last_ns = encoded.last_ns,
                                      .position = position};
  memcpy(header.name, slot->name, sizeof header.name);
  return write_chunk(consumer, &header, encoded.bytes);
}

/* Killed between any two of these stores, the consumer leaves a segment from which the chain still leads to read_pos. A
 * process's death shows its stores in the program's order: only the compiler must be held to it. */
static void place_reached(struct opgap_consumer *consumer, struct opgap_thread *slot, const struct place *at)
{
  atomic_store_explicit(&slot->read_pos, at->position, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  slot->consumer_segment = at->segment;
  atomic_signal_fence(memory_order_seq_cst);
  for (uint32_t i = 0; i < at->passed_count; i++)
    push_free_segment(consumer->arena, at->passed[i]);
}

/* One stream's chunk at the beginning of a part. */
static int write_base(struct opgap_consumer *consumer, struct opgap_thread *slot, struct opgap_anchor now,
                      size_t (*more)(const struct opgap_thread *slot, uint64_t *words, size_t room))
{
  uint64_t written[OPGAP_MAX_COUNTERS]; /* all totals, not only those that changed since the last chunk */
  size_t count = 0;
  memcpy(written, slot->written_changes, sizeof written);
  memset(slot->written_changes, 0, sizeof slot->written_changes);
  if (slot->kind == OPGAP_STREAM_THREAD) {
    uint64_t start[4] = {OPGAP_WORD0(OPGAP_EV_THREAD_START, 4, 0, 0), now.ticks, slot->pthread,
                         (uint64_t)(int64_t)slot->creator_tid};
    memcpy(consumer->words, start, sizeof start);
    count = 4;
  }
  count = add_counters(consumer, slot, count, slot->kind == OPGAP_STREAM_THREAD ? now.ticks : now.ns);
  memcpy(slot->written_changes, written, sizeof written);
  count += more(slot, consumer->words + count, OPGAP_ENCODE_MAX_WORDS - count);
  begin_records(consumer, slot);
  return write_records(consumer, slot, count, atomic_load_explicit(&slot->read_pos, memory_order_relaxed));
}

int opgap_consumer_part(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes,
                        size_t (*more)(const struct opgap_thread *slot, uint64_t *words, size_t room))
{
  struct opgap_arena *arena = consumer->arena;
  int error = write_head(consumer, pairs, pairs_bytes, arena->last_anchor.ns);
  uint32_t slots = atomic_load_explicit(&arena->slots_high, memory_order_acquire);
  pass_anchor(&consumer->line, arena->first_anchor,
              &(struct opgap_tick_scale){arena->last_anchor.ticks, arena->last_anchor.ns, consumer->line.now.mult});
  for (uint32_t i = 0; i < slots && error == 0; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire); /* D */
    if (state == OPGAP_SLOT_LIVE || state == OPGAP_SLOT_DYING || state == OPGAP_SLOT_ENDED)
      error = write_base(consumer, slot, arena->last_anchor, more);
  }
  return error;
}

/* Moves to a position that the file already holds. */
static void skip_written(struct opgap_consumer *consumer, struct opgap_thread *slot)
{
  for (uint32_t i = 0; i < consumer->skip_count; i++) {
    if (consumer->skip[i].serial != slot->serial)
      continue;
    while (atomic_load_explicit(&slot->read_pos, memory_order_relaxed) < consumer->skip[i].position) {
      struct place at = {.position = atomic_load_explicit(&slot->read_pos, memory_order_relaxed),
                         .segment = slot->consumer_segment};
      begin_records(consumer, slot); /* to be forgotten */
      if (!collect(consumer, slot, &at, consumer->skip[i].position))
        break;
      place_reached(consumer, slot, &at);
    }
  }
}

static long drain_slot(struct opgap_consumer *consumer, struct opgap_thread *slot, struct opgap_anchor now,
                       enum opgap_drain_mode mode, bool ended, uint64_t limit)
{
  uint64_t before = consumer->arena->records;
  bool counters_due = mode != OPGAP_DRAIN_READY || ended;
  struct opgap_control *control = opgap_arena_control(consumer->arena);
  for (bool more = true; more;) {
    struct place at = {.position = atomic_load_explicit(&slot->read_pos, memory_order_relaxed),
                       .segment = slot->consumer_segment};
    begin_records(consumer, slot);
    bool moved = collect(consumer, slot, &at, limit);
    more = moved && at.position < limit;
    size_t count = 0;
    if (!more && (moved || counters_due))
      count = add_counters(consumer, slot, count, slot->kind == OPGAP_STREAM_THREAD ? now.ticks : now.ns);
    size_t counters_end = count;
    uint32_t switches = more ? control->switches_written : switches_made(consumer, slot);
    count = add_switches(consumer, count, switches);
    if (!more && mode == OPGAP_DRAIN_DEAD)
      count = add_open(consumer, slot, count, now.ticks);
    if (!moved && count == 0)
      break;
    int error = write_records(consumer, slot, count, at.position);
    if (error)
      return error;
    counters_written(consumer, slot, counters_end);
    control->switches_written = switches;
    place_reached(consumer, slot, &at);
  }
  return (long)(consumer->arena->records - before);
}

/* TAKEN while it is wiped: its counters would look as if nobody had written them, to the recovery after a death here.
 * Ordering D: release, so that the next owner sees an empty slot. */
void opgap_slot_give_back(struct opgap_arena *arena, struct opgap_thread *slot)
{
  atomic_store_explicit(&slot->state, OPGAP_SLOT_TAKEN, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
  if (slot->consumer_segment == 0)
    slot->consumer_segment = atomic_load_explicit(&slot->first_segment, memory_order_acquire);
  if (segment_data(arena, slot->consumer_segment) > 0)
    push_free_segment(arena, slot->consumer_segment);
  slot->serial = 0;
  atomic_store_explicit(&slot->tid, 0, memory_order_relaxed); /* new threads look at it meanwhile */
  memset(&slot->creator_tid, 0, sizeof *slot - offsetof(struct opgap_thread, creator_tid));
  atomic_store_explicit(&slot->state, OPGAP_SLOT_FREE, memory_order_release); /* D */
}

static void free_slot(struct opgap_consumer *consumer, struct opgap_thread *slot, uint32_t index)
{
  atomic_store_explicit(&slot->state, OPGAP_SLOT_TAKEN, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
  consumer->arena->ended_lost += slot_lost(slot);
  consumer->arena->ended_nested += slot_nested(slot);
  consumer->arena->ended_too_deep += slot_too_deep(slot);
  if (consumer->release)
    consumer->release(index);
  opgap_slot_give_back(consumer->arena, slot);
}

static uint32_t slots_used(struct opgap_arena *arena)
{
  uint32_t slots = atomic_load_explicit(&arena->slots_high, memory_order_acquire);
  if (slots > arena->slot_limit)
    slots = arena->slot_limit;
  return slots > MAX_SLOTS ? MAX_SLOTS : slots;
}

bool opgap_arena_has_guest(struct opgap_arena *arena, bool (*alive)(int pid))
{
  uint32_t slots = slots_used(arena);
  for (uint32_t i = 0; i < slots; i++) {
    uint32_t state = atomic_load(&opgap_arena_slot(arena, i)->state);
    if (OPGAP_SLOT_IS_GUEST(state) && (alive == NULL || alive(OPGAP_SLOT_GUEST_PID(state))))
      return true;
  }
  return false;
}

bool opgap_arena_is_drained(struct opgap_arena *arena)
{
  const struct opgap_control *control = opgap_arena_control(arena);
  uint32_t slots = slots_used(arena);
  bool drained = arena->end_sequence == arena->chunk_sequence &&
                 atomic_load(&control->switches) == atomic_load(&control->switches_written);
  for (uint32_t i = 0; i < slots && drained; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    drained = atomic_load(&slot->write_pos) == atomic_load(&slot->read_pos);
    for (unsigned k = 0; k < arena->counter_count; k++)
      drained &= counter_changes(slot, k) == slot->written_changes[k];
  }
  return drained;
}

bool opgap_arena_take_over(struct opgap_arena *arena, int pid)
{
  uint32_t nobody = 0, end = atomic_load(&arena->end);
  return (end == OPGAP_ARENA_CLEAN || end == OPGAP_ARENA_REPLACED) && !opgap_arena_has_guest(arena, NULL) &&
         opgap_arena_is_drained(arena) && atomic_compare_exchange_strong(&arena->recovery_lock, &nobody, (uint32_t)pid);
}

const char *opgap_arena_ended(struct opgap_arena *arena)
{
  switch ((enum opgap_arena_end)atomic_load(&arena->end)) {
  case OPGAP_ARENA_CLEAN:
    return "clean";
  case OPGAP_ARENA_EXEC:
  case OPGAP_ARENA_REPLACED:
    return "exec";
  case OPGAP_ARENA_RUNNING:
  default: /* a dead process's arena may hold anything */
    return "killed";
  }
}

/* A guest that was killed before its session began: what it left is a stream of this process; after that, it is in the
 * session's file and ring.  The fields come first, so that a death in between leaves a guest; a guest itself does not
 * use them. */
static uint32_t adopt_guest(struct opgap_consumer *consumer, struct opgap_thread *slot, uint32_t state,
                            enum opgap_drain_mode mode)
{
  int pid = OPGAP_SLOT_GUEST_PID(state);
  if (mode != OPGAP_DRAIN_DEAD && (!consumer->process_gone || !consumer->process_gone(pid)))
    return state;
  if (slot->guest_start_time != 0 && consumer->guest_moved &&
      consumer->guest_moved(consumer->arena, pid, slot->guest_start_time)) {
    opgap_slot_give_back(consumer->arena, slot);
    return OPGAP_SLOT_FREE;
  }
  slot->pthread = 0;
  slot->serial = atomic_fetch_add_explicit(&consumer->arena->next_serial, 1, memory_order_relaxed) + 1;
  memcpy(slot->name, "forked child", sizeof "forked child");
  atomic_compare_exchange_strong_explicit(&slot->state, &state, OPGAP_SLOT_ENDED, memory_order_acq_rel,
                                          memory_order_acquire); /* D */
  return atomic_load_explicit(&slot->state, memory_order_acquire);
}

/* Notes what each slot has committed.  Its state comes first: a slot that has ended commits nothing more. */
static uint32_t look_at_slots(struct opgap_consumer *consumer, enum opgap_drain_mode mode)
{
  struct opgap_arena *arena = consumer->arena;
  uint32_t slots = slots_used(arena);
  for (uint32_t i = 0; i < slots; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire); /* D */
    if (state == OPGAP_SLOT_DYING && consumer->gone && consumer->gone(slot->tid))
      state = OPGAP_SLOT_ENDED;
    if (OPGAP_SLOT_IS_GUEST(state))
      state = adopt_guest(consumer, slot, state, mode);
    consumer->seen[i].state = state;
    consumer->seen[i].write_pos = atomic_load_explicit(&slot->write_pos, memory_order_acquire); /* A */
  }
  return slots;
}

long opgap_consumer_drain(struct opgap_consumer *consumer, struct opgap_anchor (*clock)(const struct opgap_arena *),
                          enum opgap_drain_mode mode)
{
  struct opgap_arena *arena = consumer->arena;
  long records = 0;
  uint32_t slots = look_at_slots(consumer, mode);
  struct opgap_tick_scale scale;
  struct opgap_anchor now = line_to(arena, clock(arena), &scale);
  pass_anchor(&consumer->line, arena->first_anchor, &scale);
  for (uint32_t i = 0; i < slots; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    if (consumer->seen[i].state == OPGAP_SLOT_FREE || consumer->seen[i].state == OPGAP_SLOT_TAKEN ||
        OPGAP_SLOT_IS_GUEST(consumer->seen[i].state))
      continue;
    bool ended = consumer->seen[i].state == OPGAP_SLOT_ENDED;
    if (mode == OPGAP_DRAIN_DEAD)
      skip_written(consumer, slot);
    long n = drain_slot(consumer, slot, now, mode, ended, consumer->seen[i].write_pos);
    if (n < 0)
      return n;
    records += n;
    if (ended)
      free_slot(consumer, slot, i);
  }
  arena->last_anchor = now;
  return records;
}

int opgap_consumer_end(struct opgap_consumer *consumer, const char *how, int exit_status)
{
  struct opgap_arena *arena = consumer->arena;
  uint8_t *at = consumer->raw, *end = at + sizeof consumer->raw;
  uint64_t lost = arena->ended_lost + arena->unwritten, nested = arena->ended_nested, deep = arena->ended_too_deep;
  uint64_t samples = 0; /* the consumer's own records, which are not the program's */
  for (uint32_t i = 0; i < atomic_load(&arena->slots_high) && i < arena->slot_limit; i++) {
    const struct opgap_thread *slot = opgap_arena_slot(arena, i);
    if (OPGAP_SLOT_IS_GUEST(atomic_load(&slot->state)))
      continue;
    if (slot->kind == OPGAP_STREAM_PROCESS) {
      samples += slot_lost(slot);
      continue;
    }
    lost += slot_lost(slot);
    nested += slot_nested(slot);
    deep += slot_too_deep(slot);
  }
  struct {
    const char *key;
    int64_t value;
  } values[] = {{"exit_status", exit_status},
                {"records", (int64_t)arena->records},
                {"invalid_records", (int64_t)arena->invalid_records},
                {"lost_records", (int64_t)lost},
                {"lost_interrupts", (int64_t)nested},
                {"lost_too_deep", (int64_t)deep},
                {"lost_unwritten", (int64_t)arena->unwritten},
                {"lost_samples", (int64_t)samples},
                {"lost_names", (int64_t)atomic_load(&arena->names_lost)},
                {"lost_threads", (int64_t)atomic_load(&arena->threads_lost)},
                {"flusher_cpu_ns", (int64_t)arena->flusher_cpu_ns},
                {"raw_bytes", (int64_t)arena->raw_bytes},
                {"stored_bytes", (int64_t)arena->stored_bytes},
                /* seldom, and then not worth their bytes: */
                {"lost_threads_confined", (int64_t)atomic_load(&arena->threads_confined)},
                {"untraced_children", (int64_t)atomic_load(&arena->untraced_children)}};
  const unsigned count = sizeof values / sizeof *values, seldom = count - 2;
  at = opgap_encode_pair(at, end, "ended", how, strlen(how));
  if (arena->stopped[0])
    at = opgap_encode_pair(at, end, "stopped", arena->stopped, strnlen(arena->stopped, sizeof arena->stopped));
  for (unsigned i = 0; i < count; i++) {
    if (values[i].value == 0 && i >= seldom)
      continue;
    char digits[24];
    char *p = digits + sizeof digits;
    uint64_t v = values[i].value < 0 ? 0 - (uint64_t)values[i].value : (uint64_t)values[i].value;
    do
      *--p = (char)('0' + v % 10);
    while (v /= 10);
    if (values[i].value < 0)
      *--p = '-';
    at = opgap_encode_pair(at, end, values[i].key, p, (size_t)(digits + sizeof digits - p));
  }
  uint64_t now = arena->last_anchor.ns > consumer->last_ns ? arena->last_anchor.ns : consumer->last_ns;
  struct opgap_chunk_header header = {.type = OPGAP_CHUNK_END, .first_ns = now, .last_ns = now};
  int error = write_chunk(consumer, &header, (size_t)(at - consumer->raw));
  if (error == 0)
    arena->end_sequence = arena->chunk_sequence;
  return error;
}

static bool slots_sound(struct opgap_arena *arena)
{
  uint32_t ready = atomic_load(&arena->slots_ready);
  if (atomic_load(&arena->slots_high) > ready || ready > arena->slot_limit || arena->slot_limit > OPGAP_SLOT_LIMIT)
    return false;
  for (uint32_t n = 0; n * OPGAP_SLOTS_IN_BLOCK < ready; n++)
    if (!is_block(arena, atomic_load_explicit(opgap_arena_slot_block(arena, n), memory_order_relaxed)))
      return false;
  return true;
}

const char *opgap_arena_check(const struct opgap_arena *checked, uint64_t file_size)
{
  struct opgap_arena *arena = (struct opgap_arena *)(uintptr_t)checked; /* atomics of a const object cannot be read */
  if (file_size < sizeof *arena || arena->magic != OPGAP_ARENA_MAGIC)
    return "not an opgap ring file";
  if (arena->version != OPGAP_ARENA_VERSION)
    return "a ring file of another opgap version";
  uint64_t limit = arena->size < file_size ? arena->size : file_size;
  uint64_t blocks_end = arena->blocks_offset + (uint64_t)atomic_load(&arena->blocks_ready) * OPGAP_SEGMENT_BYTES;
  uint64_t names_end = (uint64_t)arena->names_offset + atomic_load(&arena->names_ready);
  uint64_t slot_blocks_end = (uint64_t)arena->slot_blocks_offset + OPGAP_SLOT_BLOCKS_BYTES;
  if (arena->size > 1ull << 40 || blocks_end > limit || names_end > limit || slot_blocks_end > limit ||
      arena->blocks_offset % 64 || arena->slot_blocks_offset % 4 || arena->names_offset % 8 ||
      atomic_load(&arena->blocks_ready) > arena->block_limit || arena->counter_count > OPGAP_MAX_COUNTERS ||
      atomic_load(&arena->names_used) > arena->names_size || !slots_sound(arena))
    return "a damaged ring file";
  return NULL;
}
