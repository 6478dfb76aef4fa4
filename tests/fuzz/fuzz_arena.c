/* Fuzz target: the ring of a dead process, in any state, is refused or drained without a fault and in bounded time, and
 * what it gives is a sound file.  Input: changes to a sound arena, each {offset (32 bits), length (8 bits), bytes}. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"
#include "format/drain.h"
#include "format/reader.h"

enum { ARENA_BYTES = 1 << 20, SLOTS = 4, BLOCKS = 8, NAMES_BYTES = 64 * 1024, FILE_BYTES = 8 << 20 };

static uint8_t file[FILE_BYTES];
static size_t file_size;

static int keep(void *context, const void *bytes, size_t size)
{
  (void)context;
  if (size > sizeof file - file_size)
    return -28; /* ENOSPC */
  memcpy(file + file_size, bytes, size);
  file_size += size;
  return 0;
}

static struct opgap_anchor now(const struct opgap_arena *arena)
{
  (void)arena;
  return (struct opgap_anchor){2000000, 2000000};
}

#define PLACE(block) ((block)*OPGAP_SHORTS_IN_BLOCK + 1)

/* A name, and two threads with records of it in chains of segments. */
static void lay_out(struct opgap_arena *arena)
{
  memset(arena, 0, ARENA_BYTES);
  arena->magic = OPGAP_ARENA_MAGIC;
  arena->version = OPGAP_ARENA_VERSION;
  arena->header_bytes = OPGAP_ARENA_HEADER_BYTES;
  arena->size = ARENA_BYTES;
  arena->slot_blocks_offset = OPGAP_ARENA_HEADER_BYTES + OPGAP_CONTROL_BYTES;
  arena->buckets_offset = arena->slot_blocks_offset + OPGAP_SLOT_BLOCKS_BYTES;
  arena->names_offset = arena->buckets_offset + OPGAP_NAME_BUCKETS * 4;
  arena->names_size = NAMES_BYTES;
  arena->slot_limit = SLOTS;
  arena->blocks_offset = arena->names_offset + arena->names_size;
  arena->block_limit = BLOCKS;
  arena->pid = 1;
  arena->first_anchor = arena->last_anchor = (struct opgap_anchor){1000, 1000};
  arena->slots_ready = arena->slots_high = 2;
  arena->blocks_ready = arena->blocks_used = 7;
  *opgap_arena_slot_block(arena, 0) = PLACE(6);
  arena->names_ready = NAMES_BYTES;
  arena->names_used = 64;
  struct opgap_name *name = opgap_arena_name(arena, 1);
  name->length = 5;
  memcpy(name->bytes, "alpha", 6);
  for (uint32_t t = 0; t < 2; t++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, t);
    slot->state = OPGAP_SLOT_LIVE;
    slot->serial = t + 1;
    slot->tid = (int32_t)t + 1;
    slot->kind = OPGAP_STREAM_THREAD;
    slot->first_segment = PLACE(t * 3);
    slot->depth = 1;
    slot->ops[0].name = 1;
    uint64_t position = 0;
    for (uint32_t s = 0; s < 3; s++) {
      struct opgap_segment *segment = opgap_arena_segment(arena, PLACE(t * 3 + s));
      segment->next = s < 2 ? PLACE(t * 3 + s + 1) : 0;
      segment->bytes = OPGAP_SEGMENT_BYTES;
      segment->serial = t + 1;
      segment->base = s * (uint64_t)OPGAP_SEGMENT_DATA;
      for (size_t w = 0; w + 9 <= OPGAP_SEGMENT_DATA / 8; w += 9) {
        uint64_t record[9] = {OPGAP_WORD0(OPGAP_EV_OP, 9, w % 3, 0), 1000 + w, 1001 + w, 1, w, 0, 0, 0, 0};
        memcpy(segment->data + w, record, sizeof record);
        position = segment->base + (w + 9) * 8;
      }
      size_t rest = OPGAP_SEGMENT_DATA / 8 % 9;
      if (rest)
        segment->data[OPGAP_SEGMENT_DATA / 8 - rest] = OPGAP_WORD0(0, 0, 0, rest);
    }
    slot->write_pos = position;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static uint8_t *memory, *scratch, *sound;
  if (memory == NULL) {
    memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sound = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    scratch = aligned_alloc(64, (opgap_consumer_bytes() + 63) / 64 * 64);
    if (memory == MAP_FAILED || sound == MAP_FAILED || scratch == NULL)
      abort();
    memset(scratch, 0, opgap_consumer_bytes());
    lay_out((struct opgap_arena *)sound);
  }
  memcpy(memory, sound, ARENA_BYTES);
  for (size_t at = 0; at + 5 <= size;) {
    uint32_t offset;
    memcpy(&offset, data + at, sizeof offset);
    size_t length = data[at + 4], room = size - at - 5;
    offset %= ARENA_BYTES - 256;
    if (length > room)
      length = room;
    memcpy(memory + offset, data + at + 5, length);
    at += 5 + length;
  }
  struct opgap_arena *arena = (struct opgap_arena *)memory;
  if (opgap_arena_check(arena, ARENA_BYTES) != NULL)
    return 0;
  file_size = 0;
  struct opgap_consumer *consumer = opgap_consumer_init(scratch, arena, NULL, 0, keep, NULL);
  if (opgap_consumer_begin(consumer, (const uint8_t *)"", 0) < 0)
    return 0;
  opgap_consumer_drain(consumer, now, OPGAP_DRAIN_DEAD);
  opgap_consumer_end(consumer, "killed", 0);
  fuzz_read(file, file_size);
  return 0;
}
