/* The producer's side: cells, slots, ring segments, ops.  See record.h for the contract, arena.h for the orderings. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "format/reader.h"
#include "record/control.h"
#include "record/early.h"
#include "record/faults.h"
#include "record/guest.h"
#include "record/internal.h"
#include "record/op.h"
#include "record/raw.h"
#include "record/stacks.h"

struct opgap_cell opgap_tool_cell, opgap_flusher_cell, opgap_unwind_cell;
struct opgap_cell *opgap_cells;
OPGAP_READ_EARLY struct opgap_cell opgap_no_cell;
__thread struct opgap_cell *opgap_cell __attribute__((tls_model("initial-exec"))) = &opgap_no_cell;
static __thread struct opgap_cell *vfork_cell __attribute__((tls_model("initial-exec")));
static __thread const struct opgap_fork *fork_amid __attribute__((tls_model("initial-exec"))); /* a record */

#define DYING_BATCH 16u

/* A new thread with the tid of a dying one proves that the old one is gone. */
static void end_predecessor(struct opgap_arena *arena, int tid)
{
  uint32_t high = atomic_load_explicit(&arena->slots_high, memory_order_acquire);
  for (uint32_t i = 0; i < high; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    uint32_t dying = OPGAP_SLOT_DYING;
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) == OPGAP_SLOT_DYING &&
        atomic_load_explicit(&slot->tid, memory_order_relaxed) == tid)
      atomic_compare_exchange_strong_explicit(&slot->state, &dying, OPGAP_SLOT_ENDED, memory_order_release,
                                              memory_order_relaxed); /* D */
  }
}

static bool take_free(struct opgap_arena *arena, uint32_t index)
{
  uint32_t free_state = OPGAP_SLOT_FREE;
  if (atomic_load_explicit(&opgap_arena_slot(arena, index)->state, memory_order_relaxed) != free_state)
    return false; /* a program with many threads looks at many */
  return atomic_compare_exchange_strong_explicit(&opgap_arena_slot(arena, index)->state, &free_state, OPGAP_SLOT_TAKEN,
                                                 memory_order_acquire, memory_order_relaxed); /* D */
}

struct opgap_thread *opgap_slot_claim(struct opgap_arena *arena, uint32_t *index)
{
  uint32_t high = atomic_load_explicit(&arena->slots_high, memory_order_acquire), i;
  for (i = 0; i < high && !take_free(arena, i); i++)
    ;
  while (i >= high) {
    uint32_t ready = atomic_load_explicit(&arena->slots_ready, memory_order_acquire);
    if (high >= ready && !opgap_grow_slots(arena))
      return NULL;
    if (atomic_compare_exchange_weak_explicit(&arena->slots_high, &high, high + 1, memory_order_acq_rel,
                                              memory_order_relaxed)) {
      i = high;
      if (take_free(arena, i))
        break;
      high++;
      i = high; /* another thread's scan took it first: go on behind it */
    } else {
      i = high;
    }
  }
  *index = i;
  return opgap_arena_slot(arena, i);
}

struct opgap_thread *opgap_slot_take(uint32_t kind, int tid, uint32_t *index)
{
  struct opgap_arena *arena = opgap_state->arena;
  struct opgap_thread *slot = opgap_slot_claim(arena, index);
  if (slot == NULL)
    return NULL;
  slot->kind = kind;
  slot->serial = atomic_fetch_add_explicit(&arena->next_serial, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&slot->tid, tid, memory_order_relaxed);
  if (kind == OPGAP_STREAM_THREAD) {
    slot->pthread = (uint64_t)(uintptr_t)__builtin_thread_pointer();
    opgap_raw6(SYS_prctl, PR_GET_NAME, (long)slot->name, 0, 0, 0, 0);
  }
  if (kind == OPGAP_STREAM_THREAD && opgap_state->guest.from != NULL)
    opgap_guest_move(slot, &opgap_cells[*index]);
  atomic_store_explicit(&slot->state, OPGAP_SLOT_LIVE, memory_order_release); /* D */
  return slot;
}

void opgap_slot_release(uint32_t index)
{
  memset(&opgap_cells[index], 0, sizeof opgap_cells[index]);
}

bool opgap_thread_is_gone(int tid)
{
  return opgap_raw3(SYS_tgkill, opgap_state->pid, tid, 0) == -3 /* ESRCH */;
}

bool opgap_thread_is_leaving(int tid)
{
  char path[64], stat[512];
  struct opgap_text to = {path, path + sizeof path - 1};
  opgap_text_string(&to, "/proc/self/task/");
  opgap_text_number(&to, (uint64_t)tid, 10);
  opgap_text_string(&to, "/stat");
  size_t length = opgap_raw_slurp(path, stat, sizeof stat);
  const char *at;
  if (length == 0)
    return opgap_thread_is_gone(tid);
  for (at = stat + length; at > stat && *at != ')'; at--)
    ;
  for (unsigned blanks = 0; *at && blanks < 7; at++) /* the ninth field; the second one ends at the bracket */
    blanks += *at == ' ';
  return opgap_take_number(&at) & 4 /* PF_EXITING */;
}

bool opgap_thread_is_alone(void)
{
  _Alignas(struct dirent64) char entries[1024];
  int self = opgap_raw_gettid(), tid;
  bool alone = true;
  long length = 0;
  int fd = (int)opgap_raw_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0)
    return false;
  while (alone && (length = opgap_raw3(SYS_getdents64, fd, (long)entries, sizeof entries)) > 0)
    for (long next = 0; next < length && alone;) {
      const struct dirent64 *entry = (const void *)(entries + next);
      const char *at = entry->d_name;
      next += entry->d_reclen;
      if (*at != '.' && (tid = (int)opgap_take_number(&at)) != self)
        alone = opgap_thread_is_leaving(tid);
    }
  opgap_raw_close(fd);
  return alone && length == 0;
}

static struct opgap_thread *attach(void)
{
  uint32_t index;
  int tid = opgap_raw_gettid();
  end_predecessor(opgap_state->arena, tid);
  struct opgap_thread *slot = opgap_guest_moved_to(tid, &index);
  if (slot == NULL)
    slot = opgap_slot_take(OPGAP_STREAM_THREAD, tid, &index);
  if (slot == NULL) {
    atomic_fetch_add_explicit(&opgap_state->arena->threads_lost, 1, memory_order_relaxed);
    return NULL; /* opgap_cell stays the tool's: this thread is not traced */
  }
  struct opgap_cell *cell = &opgap_cells[index];
  cell->thread = slot;
  atomic_fetch_add(&opgap_state->live, 1);
  atomic_signal_fence(memory_order_seq_cst);
  opgap_cell = cell;
  return slot;
}

/* In the child: whoever makes the record goes on with the cell of the parent's, in memory that fork has wiped. */
static void leave_record(const struct opgap_fork *fork)
{
  fork_amid = NULL;
  opgap_control_detach();
  opgap_guest_refuse();
  opgap_raw6(SYS_mmap, (long)fork->arena, (long)fork->arena->size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  fork->cell->thread = fork->thread;
  opgap_state_leave(fork->arena);
  opgap_cell = &opgap_no_cell;
}

static inline void leave_record_if_forked(void)
{
  if (opgap_unlikely(fork_amid != NULL) && fork_amid->pid != opgap_raw_getpid())
    leave_record(fork_amid);
}

void opgap_fork_begin(struct opgap_fork *fork)
{
  struct opgap_cell *guest = &opgap_state->guest.cell, *cell = opgap_cell->busy ? opgap_cell : guest;
  *fork = (struct opgap_fork){.thread = cell->thread, .outer = fork_amid};
  if (cell->busy == 0 || cell->thread == NULL)
    return;
  fork->cell = cell;
  fork->arena = cell == guest ? opgap_state->guest.arena : opgap_state->arena;
  fork->pid = opgap_raw_getpid();
  atomic_signal_fence(memory_order_seq_cst);
  fork_amid = fork;
}

void opgap_fork_end(struct opgap_fork *fork)
{
  leave_record_if_forked();
  if (fork->cell != NULL && fork->pid == opgap_raw_getpid())
    fork_amid = fork->outer;
}

struct opgap_thread *opgap_self_slow(void)
{
  leave_record_if_forked();
  struct opgap_cell *before = opgap_cell;
  if (before == &opgap_unwind_cell) /* libunwind's own calls; no signal handler runs */
    return NULL;
  if (before == &opgap_tool_cell || before == &opgap_flusher_cell)
    return NULL;
  opgap_cell = &opgap_tool_cell; /* a signal handler that comes now passes through */
  uint32_t phase = atomic_load_explicit(&opgap_state->phase, memory_order_acquire);
  if (opgap_unlikely(opgap_confined)) { /* a slot cannot be had without system calls */
    if (phase == OPGAP_PHASE_RUNNING) {
      atomic_fetch_add_explicit(&opgap_state->arena->threads_lost, 1, memory_order_relaxed);
      atomic_fetch_add_explicit(&opgap_state->arena->threads_confined, 1, memory_order_relaxed);
    } else {
      opgap_cell = before;
    }
    return NULL;
  }
  if (phase == OPGAP_PHASE_NONE && opgap_session_begin()) {
    if (opgap_cell != &opgap_tool_cell) /* the start-up callbacks have attached us already */
      return opgap_cell->thread;
    phase = OPGAP_PHASE_RUNNING;
  }
  if (phase == OPGAP_PHASE_RUNNING)
    return attach();
  opgap_cell = before;
  return NULL;
}

struct opgap_thread *opgap_self_counting_slow(void)
{
  leave_record_if_forked();
  struct opgap_cell *before = opgap_cell;
  if (before != &opgap_unwind_cell && before != &opgap_tool_cell && before != &opgap_flusher_cell) {
    opgap_cell = &opgap_tool_cell; /* a signal handler that comes now passes through */
    struct opgap_thread *guest = opgap_guest_begin();
    opgap_cell = before;
    if (guest != NULL && opgap_state->guest.calls++ < OPGAP_GUEST_CALLS)
      return guest;
  }
  return opgap_self_slow();
}

bool opgap_thread_dying(void)
{
  struct opgap_cell *cell = opgap_cell;
  if (cell->thread == NULL)
    return false;
  opgap_faults_leave();
  uint32_t live = OPGAP_SLOT_LIVE;
  if (!atomic_compare_exchange_strong_explicit(&cell->thread->state, &live, OPGAP_SLOT_DYING, memory_order_release,
                                               memory_order_relaxed)) /* D */
    return false;
  if (atomic_fetch_sub(&opgap_state->live, 1) == 1) {
    opgap_flusher_stop();
    return true;
  }
  if (atomic_fetch_add_explicit(&opgap_state->arena->dying, 1, memory_order_relaxed) % DYING_BATCH == DYING_BATCH - 1)
    opgap_session_wake(); /* the others of the batch are gone by now: their slots can be used again */
  return false;
}

void opgap_vfork_enter(void)
{
  vfork_cell = opgap_cell;
  opgap_cell = &opgap_tool_cell;
}

void opgap_vfork_leave(void)
{
  opgap_cell = vfork_cell;
}

/* ---- ring segments ---- */

static uint32_t pop_free(struct opgap_arena *arena, _Atomic uint64_t *list)
{
  uint64_t old = atomic_load_explicit(list, memory_order_acquire); /* C */
  for (;;) {
    uint32_t place = (uint32_t)old;
    if (place == 0)
      return 0;
    uint32_t next = atomic_load_explicit(&opgap_arena_segment(arena, place)->next, memory_order_relaxed);
    uint64_t replacement = ((old >> 32) + 1) << 32 | next;
    if (atomic_compare_exchange_weak_explicit(list, &old, replacement, memory_order_acquire,
                                              memory_order_acquire)) /* C */
      return place;
  }
}

static uint32_t take_new(struct opgap_arena *arena)
{
  uint32_t used = atomic_load_explicit(&arena->blocks_used, memory_order_relaxed);
  for (;;) {
    if (used >= atomic_load_explicit(&arena->blocks_ready, memory_order_acquire) && !opgap_grow_blocks(arena, 8))
      return 0;
    if (atomic_compare_exchange_weak_explicit(&arena->blocks_used, &used, used + 1, memory_order_relaxed,
                                              memory_order_relaxed))
      return used * OPGAP_SHORTS_IN_BLOCK + 1;
  }
}

uint32_t opgap_block_take(struct opgap_arena *arena)
{
  uint32_t place = pop_free(arena, &arena->free_blocks);
  return place ? place : take_new(arena);
}

/* A free one, or the first of a block whose others are free from now on. */
static uint32_t take_short(struct opgap_arena *arena)
{
  uint32_t place = pop_free(arena, &arena->free_shorts);
  if (place)
    return place;
  place = opgap_block_take(arena);
  if (place == 0)
    return 0;
  uint32_t last = place + OPGAP_SHORTS_IN_BLOCK - 1;
  for (uint32_t at = place + 1; at < last; at++)
    atomic_store_explicit(&opgap_arena_segment(arena, at)->next, at + 1, memory_order_relaxed);
  opgap_arena_push(arena, &arena->free_shorts, place + 1, last);
  return place;
}

/* Where many threads live, each begins with a short segment, and goes on with short ones unless there is room: a
 * quarter of it may go to whoever is busy, before the others come. */
static bool takes_short(const struct opgap_arena *arena, bool first)
{
  if (atomic_load_explicit(&arena->slots_high, memory_order_relaxed) < arena->crowd)
    return false;
  return first || atomic_load_explicit(&arena->blocks_used, memory_order_relaxed) >= arena->block_limit / 4;
}

uint32_t opgap_segment_take(struct opgap_arena *arena, bool first)
{
  bool is_short = takes_short(arena, first);
  uint32_t place = is_short ? take_short(arena) : opgap_block_take(arena);
  if (place == 0 && !is_short) {
    place = pop_free(arena, &arena->free_shorts);
    is_short = true;
  }
  if (place)
    opgap_arena_segment(arena, place)->bytes = is_short ? OPGAP_SHORT_SEGMENT_BYTES : OPGAP_SEGMENT_BYTES;
  return place;
}

/* In the unit of the stream's records: those of the process and of a GPU are in nanoseconds. */
static uint64_t now_of(const struct opgap_thread *stream)
{
  return stream->kind == OPGAP_STREAM_THREAD ? opgap_ticks() : opgap_clock_ns();
}

static void announce_loss(struct opgap_cell *cell)
{
  uint64_t *w = cell->write;
  w[0] = OPGAP_WORD0(OPGAP_EV_LOST, 4, 0, 0);
  w[1] = cell->thread->lost_start;
  w[2] = now_of(cell->thread);
  w[3] = cell->lost_since;
  cell->lost_since = 0;
  cell->write += 4;
}

uint64_t *opgap_reserve_slow(struct opgap_cell *cell, unsigned words)
{
  struct opgap_thread *thread = cell->thread;
  if (thread == NULL) /* forked between the hook's test and now */
    return NULL;
  struct opgap_arena *arena = opgap_state->arena;
  uint32_t place = opgap_segment_take(arena, cell->segment == NULL);
  if (place == 0 && words == 0)
    return NULL;
  if (place == 0) {
    if (cell->lost_since++ == 0)
      thread->lost_start = now_of(thread);
    atomic_store_explicit(&thread->lost, atomic_load_explicit(&thread->lost, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    opgap_segment_filled(thread, 0);
    return NULL;
  }
  struct opgap_segment *segment = opgap_arena_segment(arena, place), *last = cell->segment;
  atomic_store_explicit(&segment->next, 0, memory_order_relaxed);
  segment->serial = thread->serial;
  segment->ticks_high = cell->ticks_high = (uint32_t)(opgap_ticks() >> 32);
  if (last == NULL) {
    segment->base = 0;
    atomic_store_explicit(&thread->first_segment, place, memory_order_release); /* B */
  } else {
    if (cell->write < cell->limit)
      *cell->write = OPGAP_WORD0(0, 0, 0, cell->limit - cell->write);
    segment->base = last->base + (last->bytes - OPGAP_SEGMENT_HEADER);
    atomic_store_explicit(&last->next, place, memory_order_release); /* B */
  }
  opgap_cell_enter(cell, segment);
  if (cell->lost_since)
    announce_loss(cell);
  atomic_store_explicit(&thread->write_pos, (uint64_t)(uintptr_t)cell->write + cell->bias,
                        memory_order_release); /* A */
  if (last != NULL)
    opgap_segment_filled(thread, last->bytes / OPGAP_SHORT_SEGMENT_BYTES);
  return cell->write + words <= cell->limit ? cell->write : NULL;
}

static void turn(struct opgap_cell *cell)
{
  if (cell->busy || cell->segment == NULL || cell->ticks_high == (uint32_t)(opgap_ticks() >> 32))
    return;
  opgap_set_busy(cell);
  opgap_reserve_slow(cell, 0); /* without another segment this one goes on, with records in full */
  atomic_signal_fence(memory_order_seq_cst);
  cell->busy = 0;
}

#define FAR_ON_A_STACK (UINT64_C(8) << 20) /* from its top on: here it is another one, a coroutine's */
#define BEHIND_STACK_TOP 65536u            /* that main's own frames are at most, as seen from the constructor's */
#define SIGNAL_FRAME 1024u                 /* at least, with all registers, between a handler and what it interrupted */

/* Both lie on the stack that this thread began with, or may: a coroutine's is elsewhere.  Of a thread of a process libc
 * puts the control block at that stack's top. */
static bool on_own_stack(uintptr_t one, uintptr_t other)
{
  bool main_thread = opgap_raw_gettid() == opgap_state->pid;
  uintptr_t top =
      main_thread ? (uintptr_t)opgap_config.stack_top + BEHIND_STACK_TOP : (uintptr_t)__builtin_thread_pointer();
  return top - one < FAR_ON_A_STACK && top - other < FAR_ON_A_STACK;
}

bool opgap_interrupts_record(struct opgap_cell *cell)
{
  uintptr_t here = (uintptr_t)__builtin_dwarf_cfa(); /* of the hook, as it called us */
  stack_t stack;
  /* in one instruction: a handler may be here between any two */
  atomic_fetch_add_explicit(&cell->thread->nested, 1, memory_order_relaxed);
  uintptr_t nearest = cell->busy - SIGNAL_FRAME; /* that a handler's frame on the same stack can lie */
  if (opgap_confined || here <= nearest || !on_own_stack(here, nearest) ||
      opgap_raw3(SYS_sigaltstack, 0, (long)&stack, 0) < 0 || (stack.ss_flags & SS_ONSTACK))
    return true;
  cell->busy = 0;
  return false;
}

void opgap_segment_turn(struct opgap_cell *cell)
{
  if (opgap_clock_tsc)
    turn(cell);
}

/* ---- records of any event ---- */

void opgap_emit(unsigned event, uint32_t status, uint64_t start, uint64_t end, const uint64_t *fields, unsigned count)
{
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL)
    return;
  bool span = event < OPGAP_FIRST_HOOK ? opgap_schema_is_span(event)
                                       : event - OPGAP_FIRST_HOOK < opgap_config.hook_count &&
                                             opgap_config.hooks[event - OPGAP_FIRST_HOOK].kind == OPGAP_SPAN;
  unsigned words = (span ? 3 : 2) + count;
  struct opgap_cell *cell = opgap_cell;
  uint64_t *w = opgap_reserve(cell, words);
  if (w == NULL)
    return;
  w[0] = OPGAP_WORD0(event, words, thread->depth, status);
  w[1] = start;
  if (span)
    w[2] = end;
  memcpy(w + (span ? 3 : 2), fields, count * sizeof *fields);
  opgap_commit(cell, w + words);
  if (event == OPGAP_EV_THREAD_START && count == 2)
    thread->creator_tid = (int32_t)fields[1];
  if (event == OPGAP_EV_THREAD_NAME && count == 1 && fields[0]) {
    const struct opgap_name *name = opgap_arena_name(opgap_state->arena, (uint32_t)fields[0]);
    size_t length = name->length < sizeof thread->name - 1 ? name->length : sizeof thread->name - 1;
    memcpy(thread->name, name->bytes, length);
    thread->name[length] = 0;
  }
}

/* ---- ops ---- */

bool opgap_ops_usual;

static opgap_pair_sum sum_counters(const struct opgap_thread *thread, unsigned first, unsigned end)
{
  const opgap_pair_sum *at = (const opgap_pair_sum *)thread->counters;
  opgap_pair_sum sum = {0, 0};
  for (unsigned i = first; i < end; i++)
    sum += at[i];
  return sum;
}

struct opgap_op_sums opgap_op_sums_of_any(const struct opgap_thread *thread)
{
  const struct opgap_config *config = &opgap_config;
  return (struct opgap_op_sums){sum_counters(thread, 0, config->alloc_end),
                                sum_counters(thread, config->alloc_end, config->free_end)[0]};
}

void opgap_op_begin_rarely(uint32_t name, uint32_t status, uint64_t tag, uint32_t stack)
{
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL) /* forked meanwhile */
    return;
  uint32_t depth = thread->depth, window = opgap_window();
  opgap_faults_begin(window);
  if (opgap_ops_usual && opgap_cell->busy == 0) /* it has been read */
    thread->op_window = window;
  if (depth < OPGAP_MAX_DEPTH)
    opgap_op_open(thread, depth, name, status, tag, stack, false);
  else
    atomic_store_explicit(&thread->too_deep, atomic_load_explicit(&thread->too_deep, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Takes the op at `depth` off the stack; its record is not short.  It ends a segment whose upper half of the time is
 * not the present one, which happens every second or two. */
static void close_in_full(struct opgap_cell *cell, struct opgap_thread *thread, uint32_t depth, unsigned event,
                          uint64_t end, uint64_t sequence)
{
  const struct opgap_open_op *op = &thread->ops[depth];
  if (end >> 32 != cell->ticks_high)
    turn(cell);
  uint64_t *w = opgap_reserve(cell, 9);
  if (w == NULL) {
    thread->depth = depth;
    return;
  }
  struct opgap_op_sums sums = opgap_op_sums_of_any(thread);
  w[0] = OPGAP_WORD0(event, 9, depth, op->status);
  w[1] = op->start;
  w[2] = end;
  w[3] = op->name;
  w[4] = sequence;
  w[5] = sums.allocations[0] - op->allocs;
  w[6] = sums.allocations[1] - op->alloc_bytes;
  w[7] = sums.frees - op->frees;
  w[8] = op->stack;
  atomic_signal_fence(memory_order_seq_cst);
  thread->depth = depth;
  opgap_commit(cell, w + 9);
}

void opgap_op_end_rarely(unsigned event, uint64_t tag, uint64_t sequence, uint64_t end)
{
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL) /* forked meanwhile */
    return;
  uint32_t depth = thread->depth;
  while (depth > 0 && thread->ops[depth - 1].tag != tag)
    depth--;
  if (depth-- == 0)
    return; /* began before tracing, in another process, or too deep */
  struct opgap_cell *cell = opgap_cell;
  uint64_t length = end - thread->ops[depth].start;
  if (!opgap_op_close(cell, thread, depth, event, end, sequence, false))
    close_in_full(cell, thread, depth, event, end, sequence);
  if (length >= OPGAP_FAULT_TICKS)
    opgap_faults_note(event, length, end);
  if (length >= opgap_stack_ticks)
    opgap_stack_note(event, length, 0);
}

void opgap_op_end_now(unsigned event, uint64_t tag, uint64_t sequence)
{
  opgap_op_end_rarely(event, tag, sequence, opgap_ticks());
}

void opgap_op_begin(uint32_t name, uint32_t status, uint64_t tag, uint32_t stack)
{
  struct opgap_thread *thread = opgap_self();
  if (thread != NULL)
    opgap_op_begin_on(thread, name, status, tag, stack);
}

void opgap_op_end(unsigned event, uint64_t tag, uint64_t sequence)
{
  struct opgap_thread *thread = opgap_self();
  if (thread != NULL)
    opgap_op_end_on(opgap_cell, thread, event, tag, sequence);
}
