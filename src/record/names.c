/* The name table of the arena: append-only entries in hash chains.  Lock-free: a thread writes its entry, then
 * publishes it at the head of its bucket with a compare-and-swap (ordering E).  Two threads that intern the same new
 * name at once may waste one entry's room, never give out two ids: the loser finds the winner's entry and takes it. */
#include <string.h>

#include "record/internal.h"

#define GROW_BYTES (64u * 1024u)

static inline uint64_t load_word(const char *bytes)
{
  uint64_t word;
  __builtin_memcpy(&word, bytes, sizeof word); /* one load: the library has no other built-ins */
  return word;
}

/* Word by word: the names of a training's backward ops have 50 bytes, and one in ten ops has its name looked up. */
static uint32_t hash_bytes(const char *bytes, size_t length)
{
  const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t h = length, last = 0;
  for (size_t i = 0; i + 8 <= length; i += 8)
    h = (h ^ load_word(bytes + i)) * factor;
  if (length >= 8) /* the rest, with bytes that were in already */
    last = load_word(bytes + length - 8);
  else
    for (size_t i = 0; i < length; i++)
      last = last << 8 | (uint8_t)bytes[i];
  h = (h ^ last) * factor;
  h = (h ^ h >> 32) * factor; /* what only the upper bits have */
  return (uint32_t)(h >> 32);
}

static uint32_t find(struct opgap_arena *arena, uint32_t id, uint32_t stop, uint32_t hash, const char *bytes,
                     size_t length)
{
  while (id != stop && id != 0) {
    const struct opgap_name *name = opgap_arena_name(arena, id);
    if (name->hash == hash && name->length == length && memcmp(name->bytes, bytes, length) == 0)
      return id;
    id = name->next;
  }
  return 0;
}

static bool make_ready(struct opgap_arena *arena, uint32_t end)
{
  uint32_t ready = atomic_load_explicit(&arena->names_ready, memory_order_acquire);
  while (end > ready) {
    if (ready + GROW_BYTES > arena->names_size ||
        !opgap_arena_grow(arena, (uint64_t)arena->names_offset + ready, GROW_BYTES))
      return false;
    /* another thread may have allocated the same memory: one of us raises the counter */
    if (atomic_compare_exchange_strong_explicit(&arena->names_ready, &ready, ready + GROW_BYTES, memory_order_acq_rel,
                                                memory_order_acquire))
      ready += GROW_BYTES;
  }
  return true;
}

/* Room for one entry; 0 when the table is full. */
static uint32_t take_room(struct opgap_arena *arena, size_t length)
{
  uint32_t bytes = (uint32_t)(sizeof(struct opgap_name) + length + 1 + 7) & ~7u;
  uint32_t used = atomic_load_explicit(&arena->names_used, memory_order_relaxed);
  do {
    if (used + bytes > arena->names_size || !make_ready(arena, used + bytes))
      return 0;
  } while (!atomic_compare_exchange_weak_explicit(&arena->names_used, &used, used + bytes, memory_order_relaxed,
                                                  memory_order_relaxed));
  return used / 8;
}

uint32_t opgap_intern_in(struct opgap_arena *arena, const char *bytes, size_t length)
{
  if (length > OPGAP_NAME_MAX)
    length = OPGAP_NAME_MAX;
  uint32_t hash = hash_bytes(bytes, length);
  _Atomic uint32_t *bucket =
      (_Atomic uint32_t *)((char *)arena + arena->buckets_offset) + (hash & (OPGAP_NAME_BUCKETS - 1));
  uint32_t head = atomic_load_explicit(bucket, memory_order_acquire); /* E */
  uint32_t id = find(arena, head, 0, hash, bytes, length);
  if (id)
    return id;
  id = take_room(arena, length);
  if (id == 0) {
    atomic_fetch_add_explicit(&arena->names_lost, 1, memory_order_relaxed);
    return 0;
  }
  struct opgap_name *name = opgap_arena_name(arena, id);
  name->hash = hash;
  name->length = (uint32_t)length;
  memcpy(name->bytes, bytes, length);
  name->bytes[length] = 0;
  uint32_t seen = head;
  for (;;) {
    name->next = head;
    if (atomic_compare_exchange_weak_explicit(bucket, &head, id, memory_order_acq_rel, memory_order_acquire)) /* E */
      return id;
    uint32_t other = find(arena, head, seen, hash, bytes, length);
    if (other)
      return other;
    seen = head;
  }
}

uint32_t opgap_intern(const char *bytes, size_t length)
{
  struct opgap_arena *arena = opgap_state->arena;
  return arena != NULL ? opgap_intern_in(arena, bytes, length) : 0;
}
