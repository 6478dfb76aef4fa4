#include "record/guest.h"

#include <string.h>

#include "format/reader.h"
#include "record/internal.h"
#include "record/raw.h"

/* The arena of this process's session, or of that of the ancestor it was forked from; NULL: none that takes guests.
 * Inherited by fork, as the mapping is. */
static struct opgap_arena *host;

void opgap_guest_host(struct opgap_arena *arena)
{
  bool takes_guests =
      arena->ring_file[0] && opgap_session_can_wait() && opgap_config.settings.children != OPGAP_CHILDREN_NONE;
  host = takes_guests ? arena : NULL;
}

void opgap_guest_refuse(void)
{
  host = NULL;
}

/* A child whose parent's session goes on.  Only a child: what its parent calls it, in the same pid namespace, is then
 * what getpid says. */
static bool is_welcome(void)
{
  return host != NULL && atomic_load(&opgap_state->phase) == OPGAP_PHASE_NONE &&
         atomic_load(&host->end) == OPGAP_ARENA_RUNNING && opgap_raw3(SYS_getppid, 0, 0, 0) == host->pid;
}

struct opgap_thread *opgap_guest_begin(void)
{
  struct opgap_guest *guest = &opgap_state->guest;
  if (guest->slot != NULL || guest->from != NULL || !is_welcome())
    return guest->slot;
  uint32_t index;
  struct opgap_thread *slot = opgap_slot_claim(host, &index);
  if (slot == NULL)
    return NULL;
  int pid = opgap_raw_getpid();
  slot->kind = OPGAP_STREAM_THREAD;
  atomic_store_explicit(&slot->tid, pid, memory_order_relaxed);
  opgap_state->pid = pid;
  guest->arena = host;
  guest->anchor = opgap_clock_anchor();
  guest->from = guest->slot = slot;
  atomic_store(&slot->state, OPGAP_SLOT_GUEST_OF(pid)); /* D, M */
  if (atomic_load(&host->end) != OPGAP_ARENA_RUNNING) { /* meanwhile it has looked for guests, or may have */
    host = NULL;
    opgap_guest_leave();
  }
  return guest->slot;
}

struct opgap_thread *opgap_guest_slot(void)
{
  return opgap_state->guest.slot;
}

bool opgap_guest_is(void)
{
  const struct opgap_guest *guest = &opgap_state->guest;
  return guest->slot != NULL ? opgap_state->pid == opgap_raw_getpid() : guest->from == NULL && is_welcome();
}

uint32_t opgap_guest_intern(const char *bytes, size_t length)
{
  const struct opgap_guest *guest = &opgap_state->guest;
  return guest->slot != NULL ? opgap_intern_in(guest->arena, bytes, length) : 0;
}

/* One segment is all that a guest gets. */
bool opgap_guest_has_room(void)
{
  struct opgap_guest *guest = &opgap_state->guest;
  if (guest->slot == NULL)
    return false;
  if (guest->cell.limit == NULL) {
    uint32_t place = opgap_segment_take(guest->arena, false);
    if (place == 0)
      return false;
    struct opgap_segment *segment = opgap_arena_segment(guest->arena, place);
    atomic_store_explicit(&segment->next, 0, memory_order_relaxed);
    segment->serial = 0;
    segment->base = 0;
    atomic_store_explicit(&guest->slot->first_segment, place, memory_order_release); /* B */
    guest->cell.thread = guest->slot;
    opgap_cell_enter(&guest->cell, segment);
  }
  return guest->cell.write + 5 <= guest->cell.limit;
}

void opgap_guest_span(unsigned event, uint64_t start, uint64_t end, uint64_t object, uint32_t status)
{
  opgap_span(&opgap_state->guest.cell, event, start, end, object, 0, status);
}

/* ---- the ends ---- */

void opgap_guest_begins(uint64_t start_time)
{
  struct opgap_guest *guest = &opgap_state->guest;
  if (guest->slot == NULL)
    return;
  guest->slot->guest_start_time = start_time;
  atomic_signal_fence(memory_order_seq_cst); /* the file is made behind this */
}

struct opgap_thread *opgap_guest_moved_to(int tid, uint32_t *index)
{
  struct opgap_guest *guest = &opgap_state->guest;
  struct opgap_thread *slot = guest->moved;
  if (slot == NULL || atomic_load_explicit(&slot->tid, memory_order_relaxed) != tid)
    return NULL;
  guest->moved = NULL;
  *index = guest->moved_index;
  return slot;
}

static uint64_t words_written(const struct opgap_thread *from)
{
  return atomic_load_explicit(&from->write_pos, memory_order_relaxed) / 8;
}

/* What a guest takes along when it executes, in case that fails. */
#define KEPT_WORDS 512u
static struct opgap_thread kept;
static uint64_t kept_words[KEPT_WORDS];

static const uint64_t *words_of(const struct opgap_guest *guest)
{
  return guest->from == &kept ? kept_words : guest->cell.write - words_written(guest->from);
}

/* An object is a name of the parent's. */
static uint32_t own_name(struct opgap_arena *arena, uint64_t id)
{
  if (id == 0)
    return 0;
  const struct opgap_name *name = opgap_arena_name(arena, (uint32_t)id);
  return opgap_intern(name->bytes, name->length);
}

void opgap_guest_move(struct opgap_thread *slot, struct opgap_cell *cell)
{
  const struct opgap_guest *guest = &opgap_state->guest;
  const struct opgap_thread *from = guest->from;
  memcpy(slot->counters, from->counters, sizeof slot->counters);
  memcpy(slot->details, from->details, sizeof slot->details);
  atomic_store_explicit(&slot->nested, atomic_load_explicit(&from->nested, memory_order_relaxed), memory_order_relaxed);
  cell->thread = slot;
  const uint64_t *words = words_of(guest), *end = words + words_written(from);
  for (; words != end; words += 5) {
    uint64_t *to = opgap_reserve(cell, 5);
    if (to == NULL)
      continue;
    memcpy(to, words, 5 * sizeof *words);
    to[3] = own_name(guest->arena, words[3]);
    opgap_commit(cell, to + 5);
  }
}

static void give_back(struct opgap_guest *guest)
{
  struct opgap_arena *arena = guest->arena;
  opgap_slot_give_back(arena, guest->slot);
  guest->slot = NULL;
  guest->cell = (struct opgap_cell){0};
  atomic_thread_fence(memory_order_seq_cst); /* M */
  if (opgap_arena_take_over(arena, opgap_raw_getpid()))
    opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)arena->ring_file, 0);
}

void opgap_guest_leave(void)
{
  struct opgap_guest *guest = &opgap_state->guest;
  if (guest->slot != NULL)
    give_back(guest);
  guest->from = NULL;
}

bool opgap_guest_depart(void)
{
  struct opgap_guest *guest = &opgap_state->guest;
  if (guest->slot == NULL)
    return true;
  uint64_t words = words_written(guest->slot);
  if (words > KEPT_WORDS)
    return false;
  if (words > 0)
    memcpy(kept_words, words_of(guest), words * sizeof *kept_words);
  memcpy(&kept, guest->slot, offsetof(struct opgap_thread, ops));
  guest->from = &kept;
  give_back(guest);
  return true;
}

static bool has_counted(const struct opgap_thread *slot)
{
  uint64_t sum = words_written(slot) + atomic_load_explicit(&slot->nested, memory_order_relaxed);
  for (unsigned i = 0; i < opgap_config.counter_count; i++)
    sum += slot->counters[i].calls;
  return sum > 0;
}

void opgap_guest_end(void)
{
  struct opgap_guest *guest = &opgap_state->guest;
  if (guest->from == NULL || opgap_state->pid != opgap_raw_getpid())
    return;
  if (has_counted(guest->from))
    opgap_self();
  else
    opgap_guest_leave();
}
