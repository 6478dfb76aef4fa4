/* The ring under every schedule of small cases, and under every death.
 *
 *   test_ring              all cases hold; prints the number of runs of each
 *   test_ring --mutations  a case fails with each order forgotten and each rule broken; prints which, and how
 *
 * Under test, unmodified: opgap_reserve, opgap_commit (record.h), slots, segments, hand-over and loss (thread.c), the
 * drain lock (flusher.c), the consumer (drain.c).  The recovery of a dead ring is its consumer in the mode DEAD and
 * opgap_walk_chunks; the files around it (recover.c) are not in the model, nor are names and op stacks, the
 * flusher's sleep, growing, and signal handlers.  checker.h has what the model is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "format/drain.h"
#include "format/recover.h"
#include "record/internal.h"
#include "shim.h"
#include "threads.h"

#undef memcpy
#undef memset

#define SLOTS 3u
#define SEGMENTS 3u
#define SLOT_BLOCKS_OFFSET (OPGAP_ARENA_HEADER_BYTES + OPGAP_CONTROL_BYTES)
#define BLOCKS_OFFSET (SLOT_BLOCKS_OFFSET + OPGAP_SLOT_BLOCKS_BYTES)
#define ARENA_BYTES (BLOCKS_OFFSET + (SEGMENTS + 1) * OPGAP_SEGMENT_BYTES) /* the last block is that of the slots */
#define FILE_BYTES (1u << 20)

struct model_account account[MODEL_THREADS];

static struct opgap_arena *arena;
static struct opgap_consumer *consumer, *recoverer;
static struct opgap_state state;
static struct opgap_cell cells[SLOTS];
static uint8_t file[FILE_BYTES];
static size_t file_bytes;
static size_t unwritten; /* at the file's end, of a sink that says "written" too early */
static uint32_t tids[MODEL_THREADS];
static struct {
  struct opgap_cell *cell;
} locals[MODEL_THREADS], locals_at_start[MODEL_THREADS];
static int on_fiber = -1, setup_tid;
static bool early_read_pos, forget_file;

/* What the cases are there for: each must have happened in some run, or the model shows nothing. */
enum occasion {
  LOSS,
  ROOM_IN_TIME,
  LOCKED_OUT,
  SLOT_REUSED,
  CHUNK_TORN,
  CHUNK_WITHOUT_READ_POS,
  SEGMENT_BEHIND,
  HALF_WIPED
};
static const char *const occasions[] = {
    [LOSS] = "a record found no room",
    [ROOM_IN_TIME] = "a freed segment came in time",
    [LOCKED_OUT] = "a consumer found the drain lock taken",
    [SLOT_REUSED] = "a new thread took the slot of an ended one",
    [CHUNK_TORN] = "death in the middle of a chunk",
    [CHUNK_WITHOUT_READ_POS] = "death between a chunk and its read_pos",
    [SEGMENT_BEHIND] = "death between read_pos and the segment that it lies in",
    [HALF_WIPED] = "death before all of an ended thread's slot was wiped",
};
#define OCCASIONS (sizeof occasions / sizeof *occasions)
static uint64_t happened[OCCASIONS];

static const struct opgap_event hooks[] = {
    {.id = EV_POINT, .kind = OPGAP_INSTANT, .field_count = 2, .name = "point"},
    {.id = EV_FILL, .kind = OPGAP_INSTANT, .field_count = 2, .name = "fill"},
    {.id = EV_COUNTED, .kind = OPGAP_INSTANT, .field_count = 2, .name = "counted"}};
#define HOOKS (sizeof hooks / sizeof *hooks)

/* ---- what the sources under test get ---- */

int model_gettid(void)
{
  return model_self() < 0 ? setup_tid : (int)tids[model_self()];
}

void model_encode_begin(struct opgap_encoder *encoder, const struct opgap_time_line *line)
{
  (void)line;
  encoder->count = 0;
}

size_t model_encode_add(struct opgap_encoder *encoder, const uint64_t *words, size_t count, uint32_t ticks_high,
                        size_t limit)
{
  (void)ticks_high;
  if (encoder->count + count > limit)
    abort(); /* three segments always fit */
  model_memcpy(encoder->words + encoder->count, words, count * sizeof *words);
  encoder->count += (uint32_t)count;
  return count;
}

struct opgap_encoded model_encode_end(struct opgap_encoder *encoder, uint8_t *out)
{
  const uint64_t *words = encoder->words;
  memcpy(out, words, encoder->count * sizeof *words);
  struct opgap_encoded encoded = {.bytes = encoder->count * sizeof *words};
  for (size_t i = 0; i < encoder->count; encoded.records++) {
    size_t length = words[i] & 0xffff ? words[i] >> 16 & 0xff : words[i] >> 32;
    if (length == 0)
      model_fail("a record of no words was read");
    encoded.records -= (words[i] & 0xffff) == 0;
    i += length;
  }
  return encoded;
}

size_t model_store(ZSTD_CCtx *context, void *to, size_t room, const void *from, size_t bytes)
{
  (void)context;
  if (bytes > room)
    abort();
  memcpy(to, from, bytes);
  return bytes;
}

/* The trace file.  A chunk comes in two halves, between which the process may be killed. */
static int append(void *context, const void *bytes, size_t size)
{
  (void)context;
  if (file_bytes + size > sizeof file)
    model_fail("the file is full");
  model_point();
  memcpy(file + file_bytes, bytes, size / 2);
  file_bytes += size / 2;
  model_point();
  memcpy(file + file_bytes, (const char *)bytes + size / 2, size - size / 2);
  file_bytes += size - size / 2;
  unwritten = early_read_pos ? size : 0;
  model_point();
  return 0;
}

static bool gone(int tid)
{
  for (int i = 0; i < MODEL_THREADS; i++)
    if ((int)tids[i] == tid && locals_at_start[i].cell != &opgap_tool_cell)
      return model_self() < 0 || model_ended(i);
  return true;
}

static void release(uint32_t slot)
{
  opgap_slot_release(slot);
}

static void switched(int to)
{
  if (on_fiber >= 0)
    locals[on_fiber].cell = opgap_cell;
  on_fiber = to;
  opgap_cell = locals[to].cell;
}

/* ---- checks ---- */

struct seen {
  uint64_t next[16], lost[16], position[16], calls[16]; /* by serial */
  uint32_t sequence;
};

static void see_chunk(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct seen *seen = context;
  uint32_t serial = header->serial;
  if (header->sequence <= seen->sequence)
    model_fail("chunk %u after chunk %u", header->sequence, seen->sequence);
  seen->sequence = header->sequence;
  if (header->type != OPGAP_CHUNK_RECORDS)
    return;
  if (serial == 0 || serial >= 16)
    model_fail("a chunk of stream %u", serial);
  if (header->position < seen->position[serial])
    model_fail("stream %u goes back", serial);
  seen->position[serial] = header->position;
  for (size_t at = 0; at < header->stored_bytes;) {
    uint64_t w[4];
    memcpy(w, payload + at, 8);
    size_t words = w[0] & 0xffff ? w[0] >> 16 & 0xff : w[0] >> 32;
    if (words == 0 || at + words * 8 > header->stored_bytes)
      model_fail("stream %u: half a record", serial);
    if ((w[0] & 0xffff) == EV_POINT || (w[0] & 0xffff) == OPGAP_EV_LOST || (w[0] & 0xffff) == OPGAP_EV_COUNTER)
      memcpy(w, payload + at, sizeof w);
    if ((w[0] & 0xffff) == OPGAP_EV_LOST) {
      seen->lost[serial] += w[3];
    } else if ((w[0] & 0xffff) == OPGAP_EV_COUNTER) {
      if (w[0] >> 32 != EV_COUNTED || w[2] < seen->calls[serial] || (w[3] != 10 * w[2] && w[3] != 10 * w[2] + 10))
        model_fail("stream %u: %llu calls after %llu", serial, (unsigned long long)w[2],
                   (unsigned long long)seen->calls[serial]);
      seen->calls[serial] = w[2];
    } else if ((w[0] & 0xffff) == EV_POINT) {
      if (w[2] != seen->next[serial] || w[3] != w[2] * 3)
        model_fail("stream %u: record %llu instead of %llu", serial, (unsigned long long)w[2],
                   (unsigned long long)seen->next[serial]);
      seen->next[serial]++;
    } else if ((w[0] & 0xffff) != 0 && (w[0] & 0xffff) != EV_FILL) {
      model_fail("stream %u: event %u was never written", serial, (unsigned)(w[0] & 0xffff));
    }
    at += words * 8;
  }
}

static uint32_t place_of(uint32_t block)
{
  return block * OPGAP_SHORTS_IN_BLOCK + 1;
}

/* Counts a list's segments by the short ones in them. */
static void see_list(unsigned *where, uint32_t place, const char *what)
{
  for (; place; place = atomic_load(&opgap_arena_segment(arena, place)->next)) {
    uint32_t shorts = opgap_arena_segment(arena, place)->bytes / OPGAP_SHORT_SEGMENT_BYTES;
    for (uint32_t i = 0; i < (shorts ? shorts : 1); i++)
      if (place + i >= place_of(SEGMENTS) || where[place + i]++)
        model_fail("%s is broken at segment %u", what, place);
  }
}

/* Every segment is in one chain or in a free list or was never used. */
static void check_segments(void)
{
  unsigned where[SEGMENTS * OPGAP_SHORTS_IN_BLOCK + 1] = {0};
  see_list(where, (uint32_t)atomic_load(&arena->free_blocks), "the free list of blocks");
  see_list(where, (uint32_t)atomic_load(&arena->free_shorts), "the free list of short segments");
  for (unsigned i = 0; i < SLOTS; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    see_list(where, slot->consumer_segment ? slot->consumer_segment : atomic_load(&slot->first_segment),
             "the chain of a slot");
  }
  for (uint32_t place = 1; place < place_of(SEGMENTS); place++)
    if (where[place] != (place < place_of(atomic_load(&arena->blocks_used))))
      model_fail("segment %u is in %u lists", place, where[place]);
}

static struct opgap_anchor no_clock(const struct opgap_arena *unused)
{
  (void)unused;
  return (struct opgap_anchor){1, 1};
}

static void skip_chunk(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  (void)payload;
  if (header->type == OPGAP_CHUNK_RECORDS && !forget_file)
    opgap_consumer_skip(recoverer, header->serial, header->position);
  for (unsigned i = 0; i < SLOTS; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    happened[CHUNK_WITHOUT_READ_POS] +=
        slot->serial == header->serial && header->position > atomic_load(&slot->read_pos);
  }
  *(uint32_t *)context = header->sequence;
}

static uint64_t end_of_segment(const struct opgap_thread *slot)
{
  const struct opgap_segment *segment = opgap_arena_segment(arena, slot->consumer_segment);
  return segment->base + segment->bytes - OPGAP_SEGMENT_HEADER;
}

/* As recover.c folds a ring: cut the file to its last whole chunk, skip what it holds, drain. */
static void recover(void)
{
  uint32_t sequence = (uint32_t)arena->chunk_sequence;
  recoverer = opgap_consumer_init(recoverer, arena, hooks, HOOKS, append, NULL);
  for (unsigned i = 0; i < SLOTS; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    happened[SEGMENT_BEHIND] += slot->consumer_segment && atomic_load(&slot->read_pos) > end_of_segment(slot);
    happened[HALF_WIPED] += slot->serial == 0 && slot->counters[0].calls > 0;
  }
  uint64_t whole = opgap_walk_chunks(file, file_bytes, 0, skip_chunk, NULL, NULL, &sequence);
  happened[CHUNK_TORN] += whole < file_bytes;
  file_bytes = whole;
  arena->chunk_sequence = sequence;
  if (opgap_consumer_drain(recoverer, no_clock, OPGAP_DRAIN_DEAD) < 0)
    model_fail("the recovery failed");
}

static void finish(bool killed)
{
  uint64_t end[16] = {0}, lost[16] = {0};
  struct seen seen = {0};
  opgap_cell = &opgap_tool_cell;
  on_fiber = -1;
  for (unsigned i = 0; i < SLOTS; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    end[slot->serial] = atomic_load(&slot->write_pos);
    lost[slot->serial] = atomic_load(&slot->lost);
  }
  if (killed) {
    file_bytes -= unwritten;
    recover();
  } else if (opgap_consumer_drain(consumer, no_clock, OPGAP_DRAIN_ALL) < 0) {
    model_fail("the last drain failed");
  }
  uint64_t sound = opgap_walk_chunks(file, file_bytes, 0, see_chunk, NULL, NULL, &seen);
  if (sound != file_bytes)
    model_fail("the file is damaged at %llu", (unsigned long long)sound);
  for (unsigned i = 0; i < SLOTS; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    uint32_t is = atomic_load(&slot->state);
    if (is != OPGAP_SLOT_FREE && is != OPGAP_SLOT_TAKEN &&
        atomic_load(&slot->read_pos) != atomic_load(&slot->write_pos))
      model_fail("slot %u is read up to %llu of %llu", i, (unsigned long long)atomic_load(&slot->read_pos),
                 (unsigned long long)atomic_load(&slot->write_pos));
  }
  for (unsigned i = 0; i < MODEL_THREADS; i++) {
    const struct model_account *a = &account[i];
    if (a->serial == 0)
      continue;
    uint64_t written = seen.next[a->serial];
    if (written < a->committed || written > a->committed + killed)
      model_fail("stream %u: %llu records in the file, %llu committed", a->serial, (unsigned long long)written,
                 (unsigned long long)a->committed);
    if (end[a->serial] && seen.position[a->serial] && seen.position[a->serial] != end[a->serial])
      model_fail("stream %u ends at %llu in the file, at %llu in the ring", a->serial,
                 (unsigned long long)seen.position[a->serial], (unsigned long long)end[a->serial]);
    uint64_t tries = a->committed + a->lost, calls = seen.calls[a->serial];
    if (calls < tries || calls > tries + killed)
      model_fail("stream %u: %llu calls counted in the file, %llu made", a->serial, (unsigned long long)calls,
                 (unsigned long long)tries);
    if (killed)
      continue;
    uint64_t announced = seen.lost[a->serial], waiting = 0;
    for (unsigned s = 0; s < SLOTS; s++)
      if (cells[s].thread && cells[s].thread->serial == a->serial)
        waiting = cells[s].lost_since;
    happened[LOSS] += a->lost > 0;
    happened[ROOM_IN_TIME] += a->lost == 0 && arena->block_limit == 2;
    happened[SLOT_REUSED] += opgap_arena_slot(arena, 0)->serial == a->serial && a->serial > 1;
    if (announced + waiting != a->lost || (end[a->serial] && lost[a->serial] != a->lost))
      model_fail("stream %u lost %llu, announced %llu, to be announced %llu", a->serial, (unsigned long long)a->lost,
                 (unsigned long long)announced, (unsigned long long)waiting);
  }
  if (!killed)
    check_segments();
  happened[LOCKED_OUT] += locked_out > 0;
}

static void start(void)
{
  memset(account, 0, sizeof account);
  memcpy(locals, locals_at_start, sizeof locals);
  file_bytes = unwritten = locked_out = 0;
  on_fiber = -1;
}

/* ---- cases ---- */

static void lay_out(void)
{
  memset(arena, 0, ARENA_BYTES);
  memset(&state, 0, sizeof state);
  memset(cells, 0, sizeof cells);
  arena->magic = OPGAP_ARENA_MAGIC;
  arena->version = OPGAP_ARENA_VERSION;
  arena->header_bytes = OPGAP_ARENA_HEADER_BYTES;
  arena->buckets_offset = arena->names_offset = arena->slot_blocks_offset = SLOT_BLOCKS_OFFSET; /* no names */
  arena->slot_limit = SLOTS;
  arena->crowd = SLOTS + 1;
  arena->blocks_offset = BLOCKS_OFFSET;
  arena->block_limit = SEGMENTS;
  arena->size = ARENA_BYTES;
  atomic_store(opgap_arena_slot_block(arena, 0), place_of(SEGMENTS));
  atomic_store(&arena->slots_ready, SLOTS);
  atomic_store(&arena->blocks_ready, SEGMENTS);
  arena->counter_count = 1;
  arena->counter_events[0] = EV_COUNTED;
  state.arena = arena;
  atomic_store(&state.phase, OPGAP_PHASE_RUNNING);
  atomic_store(&state.flusher, OPGAP_FLUSHER_RUNS);
  atomic_store(&state.live, 2); /* one more than the model has: nobody is the last */
  state.consumer = opgap_consumer_init(consumer, arena, hooks, HOOKS, append, NULL);
  opgap_consumer_set_gone(consumer, gone);
  opgap_consumer_set_release(consumer, release);
}

/* A thread that has begun before the model does: its cell. */
static struct opgap_cell *begin_thread(int tid)
{
  setup_tid = tid;
  opgap_cell = &opgap_no_cell;
  if (opgap_self() == NULL)
    abort();
  setup_tid = 0;
  return opgap_cell;
}

static void drain_all(void)
{
  opgap_cell = &opgap_tool_cell;
  if (opgap_consumer_drain(consumer, no_clock, OPGAP_DRAIN_READY) < 0)
    abort();
}

static void producer_near_end(unsigned left)
{
  locals_at_start[0].cell = begin_thread((int)tids[0]);
  fill_segment(left);
  drain_all();
}

/* One record fits, two words are skipped, the next segment was never used. */
static void setup_boundary(void)
{
  producer_near_end(6);
}

/* No segment is left but that of a thread that has ended, with a record that nobody has read. */
static void setup_full(void)
{
  struct model_account dead = {0};
  producer_near_end(4);
  begin_thread(50);
  put_points(&dead, 1);
  opgap_thread_dying();
  arena->block_limit = 2;
  atomic_store(&arena->blocks_ready, 2);
}

/* Thread 0 is new, and so is its slot. */
static void setup_new(void)
{
  locals_at_start[0].cell = &opgap_no_cell;
}

/* Thread 0 is new and has the tid of one that ended. */
static void setup_same_tid(void)
{
  struct model_account dead = {0};
  begin_thread((int)tids[0]);
  put_points(&dead, 1);
  opgap_thread_dying();
  setup_new();
}

/* The segment that thread 0 leaves goes to thread 2, which is new. */
static void setup_passed_on(void)
{
  producer_near_end(4);
  locals_at_start[2].cell = &opgap_no_cell;
  arena->block_limit = 2;
  atomic_store(&arena->blocks_ready, 2);
}

/* Thread 0 is at the end of its segment, thread 2 is new, and both need short ones. */
static void setup_crowd(void)
{
  producer_near_end(4);
  locals_at_start[2].cell = &opgap_no_cell;
  arena->crowd = 0;
}

/* Thread 0 is at the end of its short segment, and the others of that block are free. */
static void setup_crowded(void)
{
  arena->crowd = 0;
  producer_near_end(4);
  locals_at_start[2].cell = &opgap_no_cell;
}

enum which {
  SEGMENT_END,
  NO_ROOM,
  BEGINS,
  SAME_TID,
  TWO_CONSUMERS,
  PASSED_ON,
  SPLIT,
  CROWDED,
  KILLED_SEGMENT_END,
  KILLED_NO_ROOM,
  KILLED_BEGINS,
  KILLED_SAME_TID,
  KILLED_FREEING,
  KILLED_CROWDED
};

enum death { LIVES, DIES, DIES_IN_WIPES };
#define CASE(what, begin, switches, old, death, ...)                                                                   \
  {                                                                                                                    \
    .setup = begin, .model = {                                                                                         \
      .name = what,                                                                                                    \
      .threads = {__VA_ARGS__},                                                                                        \
      .preemptions = switches,                                                                                         \
      .stale = old,                                                                                                    \
      .kill = (death) != LIVES,                                                                                        \
      .torn = (death) == DIES_IN_WIPES,                                                                                \
      .start = start,                                                                                                  \
      .finish = finish,                                                                                                \
      .switched = switched                                                                                             \
    }                                                                                                                  \
  }
static const struct ring_case {
  void (*setup)(void);
  struct model_case model;
} cases[] = {
    [SEGMENT_END] = CASE("a segment's end", setup_boundary, 3, 2, LIVES, produce_3, drain_twice),
    [NO_ROOM] = CASE("no room until a segment is freed", setup_full, 3, 1, LIVES, produce_3, drain_twice),
    [BEGINS] = CASE("a thread begins and ends", setup_new, 3, 2, LIVES, produce_1_and_end, drain_twice),
    [SAME_TID] = CASE("a tid comes again", setup_same_tid, 3, 1, LIVES, produce_2, drain_twice),
    [TWO_CONSUMERS] = CASE("two consumers", setup_boundary, 2, 1, LIVES, produce_2, drain_once, drain_once),
    [PASSED_ON] = CASE("a segment passed on", setup_passed_on, 2, 1, LIVES, produce_2, drain_twice, produce_2),
    [SPLIT] = CASE("a block is split", setup_crowd, 2, 1, LIVES, produce_2, drain_twice, produce_2),
    [CROWDED] = CASE("short segments", setup_crowded, 2, 1, LIVES, produce_2, drain_twice, produce_2),
    [KILLED_SEGMENT_END] = CASE("killed at a segment's end", setup_boundary, 2, 0, DIES, produce_3, drain_twice),
    [KILLED_NO_ROOM] = CASE("killed without room", setup_full, 2, 0, DIES, produce_3, drain_twice),
    [KILLED_BEGINS] = CASE("killed as a thread begins", setup_new, 2, 0, DIES, produce_1_and_end, drain_twice),
    [KILLED_SAME_TID] = CASE("killed as a tid comes again", setup_same_tid, 1, 0, DIES, produce_2, drain_twice),
    [KILLED_FREEING] =
        CASE("killed as a slot is wiped", setup_full, 2, 0, DIES_IN_WIPES, produce_1_and_end, drain_twice),
    [KILLED_CROWDED] = CASE("killed with short segments", setup_crowded, 2, 0, DIES, produce_3, drain_twice),
};
#define CASES (sizeof cases / sizeof *cases)

static struct model_result run_case(const struct ring_case *ring, struct model_mutation mutation)
{
  lay_out();
  for (int i = 0; i < MODEL_THREADS; i++) {
    tids[i] = 60 + (uint32_t)i;
    locals_at_start[i].cell = &opgap_tool_cell;
  }
  ring->setup();
  model_watch(arena, arena->size);
  model_watch(consumer, opgap_consumer_bytes());
  model_watch(&state, sizeof state);
  model_watch(cells, sizeof cells);
  return model_explore(&ring->model, mutation);
}

static int run_all(void)
{
  int failures = 0;
  for (size_t i = 0; i < CASES; i++) {
    const struct model_case *model = &cases[i].model;
    struct model_result result = run_case(&cases[i], (struct model_mutation){0});
    printf("%-42s preemptions %u, stale loads %u: %llu runs", model->name, model->preemptions, model->stale,
           (unsigned long long)result.runs);
    if (model->kill)
      printf(", %llu of them killed", (unsigned long long)result.kills);
    printf("%s%s\n", result.failed ? "\n  FAILED: " : "", result.what);
    fflush(stdout);
    failures += result.failed;
  }
  for (size_t i = 0; i < OCCASIONS; i++) {
    printf("%-56s %llu times\n", occasions[i], (unsigned long long)happened[i]);
    failures += happened[i] == 0;
  }
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The case that must fail. */
static bool found(const char *name, enum which which, struct model_mutation mutation)
{
  struct model_result result = run_case(&cases[which], mutation);
  printf("%-42s %s \"%s\", %llu runs\n", name, result.failed ? "found by" : "NOT FOUND by", cases[which].model.name,
         (unsigned long long)result.runs);
  if (result.failed)
    printf("  %s\n", result.what);
  return result.failed;
}

static int run_mutations(void)
{
  struct opgap_thread *slot = opgap_arena_slot(arena, 0);
#define ORDER(what, which, member)                                                                                     \
  {what ", no release", which, {&(member), (const char *)&(member) + sizeof(member), .stores = true}},                 \
  {                                                                                                                    \
    what ", no acquire", which,                                                                                        \
    {                                                                                                                  \
      &(member), (const char *)&(member) + sizeof(member), .loads = true                                               \
    }                                                                                                                  \
  }
  const struct {
    const char *name;
    enum which which;
    struct model_mutation mutation;
  } orders[] = {
      ORDER("A: write_pos", SEGMENT_END, slot->write_pos),     ORDER("C: free_blocks", NO_ROOM, arena->free_blocks),
      ORDER("C: free_shorts", SPLIT, arena->free_shorts),      ORDER("D: slot.state", BEGINS, slot->state),
      ORDER("G: drain_lock", TWO_CONSUMERS, state.drain_lock),
  };
  int missed = 0;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    missed += !found(orders[i].name, orders[i].which, orders[i].mutation);
  early_read_pos = true;
  missed += !found("read_pos moves before the chunk is written", KILLED_SEGMENT_END, (struct model_mutation){0});
  early_read_pos = false;
  forget_file = true;
  missed += !found("recovery does not skip what the file has", KILLED_SEGMENT_END, (struct model_mutation){0});
  return missed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void *memory(size_t bytes)
{
  void *at = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
  if (at == NULL)
    abort();
  memset(at, 0, bytes);
  return at;
}

int main(int argc, char **argv)
{
  arena = memory(ARENA_BYTES);
  consumer = memory(opgap_consumer_bytes());
  recoverer = memory(opgap_consumer_bytes());
  opgap_state = &state;
  opgap_cells = cells;
  lay_out();
  for (unsigned i = 0; i < SLOTS; i++) {
    model_relaxed(opgap_arena_slot(arena, i)->counters, sizeof opgap_arena_slot(arena, i)->counters);
    model_relaxed(opgap_arena_slot(arena, i)->details, sizeof opgap_arena_slot(arena, i)->details);
  }
  return argc == 2 && strcmp(argv[1], "--mutations") == 0 ? run_mutations() : run_all();
}
