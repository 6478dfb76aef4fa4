/* Recording from inside the traced program: what hooks, framework bindings and GPU bindings call.
 *
 * Context   Hot path, on any thread of the traced program, also inside signal handlers and before main.
 *           Nothing here locks, allocates from the program's heap, changes errno or blocks.
 * Ownership Each thread owns its cell and its slot of the arena.
 *
 * How a hook asks "may I record?":  opgap_active has a bit per hook group and is 0 before start-up, outside a
 * schedule's window and after the end; so one test covers "not bound yet", "group off" and "tracing off".  Then
 * opgap_self() gives the thread's slot, or NULL: this is the tracer's own thread, a hook is being recorded already
 * (a signal handler interrupted it), or the child of a vfork.  In all these cases the hook passes straight through.
 *
 * Cells lie in memory that fork wipes (MADV_WIPEONFORK), so the first hook of a child, however it was cloned, finds
 * NULL and takes the slow path, which starts a session of the child's own; those that only count ask by
 * opgap_self_counting, which makes it a guest of its parent's session first (guest.h).
 */
#ifndef OPGAP_RECORD_RECORD_H
#define OPGAP_RECORD_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/arena.h"
#include "format/schema.h"
#include "record/clock.h"

#define opgap_likely(x) __builtin_expect(!!(x), 1)
#define opgap_unlikely(x) __builtin_expect(!!(x), 0)

/* Hook groups; names as in OPGAP_HOOKS. */
enum opgap_group {
  OPGAP_GROUP_alloc = 1 << 0,
  OPGAP_GROUP_copy = 1 << 1,
  OPGAP_GROUP_io = 1 << 2,
  OPGAP_GROUP_net = 1 << 3,
  OPGAP_GROUP_sync = 1 << 4,
  OPGAP_GROUP_thread = 1 << 5,
  OPGAP_GROUP_process = 1 << 6, /* fork, exec, exit: always on */
  OPGAP_GROUP_cuda = 1 << 7,
  OPGAP_GROUP_torch = 1 << 8,
  OPGAP_GROUP_nvtx = 1 << 9,
  OPGAP_GROUP_cudart = OPGAP_GROUP_cuda, /* CUDA calls, which CUPTI may record instead: cuda_calls.h */
};
extern uint32_t opgap_active __attribute__((visibility("hidden")));
/* The page that opgap_active is the first word of; of the rest only the number of the window is kept where the page is
 * not that of a ring (control.h). */
extern struct opgap_control opgap_active_page __attribute__((visibility("hidden")));
static inline uint32_t opgap_window(void)
{
  return atomic_load_explicit(&opgap_active_page.window, memory_order_relaxed);
}

struct opgap_cell {
  struct opgap_thread *thread;   /* NULL: slow path */
  uint64_t *write, *limit;       /* free part of the current segment */
  uint64_t bias;                 /* position of an address: (uint64_t)address + bias */
  uintptr_t busy;                /* stack pointer of who is writing a record on this thread, 0: nobody */
  uint32_t lost_since;           /* not yet announced by a LOST record */
  uint32_t ticks_high;           /* of the current segment */
  void *framework;               /* what the framework's binding keeps for the thread; NULL: nothing yet */
  struct opgap_segment *segment; /* the current one, NULL: none yet */
};
static_assert(sizeof(struct opgap_cell) == 64, "a cell is one cache line");
/* The cell of a thread that has none yet, in the place of NULL: a hook has one test less.  Nobody writes it. */
extern struct opgap_cell opgap_no_cell __attribute__((visibility("hidden")));
extern __thread struct opgap_cell *opgap_cell __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Slow path of opgap_self: first call on a thread or in a forked child. */
struct opgap_thread *opgap_self_slow(void);
/* The calling thread's slot, or NULL: pass through. */
static inline struct opgap_thread *opgap_self(void)
{
  struct opgap_thread *thread = opgap_cell->thread;
  return opgap_likely(thread != NULL) ? thread : opgap_self_slow();
}

/* For hooks that only count, or whose record a guest can write (guest.h): the slot of the calling thread or, in a
 * forked child whose session has not begun, one of its parent's.  That one is not opgap_cell's: the hook must not
 * record. */
struct opgap_thread *opgap_self_counting_slow(void);
static inline struct opgap_thread *opgap_self_counting(void)
{
  struct opgap_thread *thread = opgap_cell->thread;
  return opgap_likely(thread != NULL) ? thread : opgap_self_counting_slow();
}

/* Adds to a count of the calling thread's slot, which the consumer reads meanwhile (relaxed: a count orders nothing).
 * There is one writer, and compilers make three instructions of a relaxed load and store; ThreadSanitizer, and the
 * model checker with it, see only those. */
static inline __attribute__((always_inline)) void opgap_add(uint64_t *count, uint64_t more)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  __asm__ volatile inline("addq %1, %0" : "+m"(*count) : "er"(more) : "cc");
#else
  __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
#endif
}

/* Counts a call of a counted hook; `counter` is the hook's counter index.  One call in OPGAP_TIME_EVERY is timed. */
#define OPGAP_TIME_EVERY 1024u
static inline void opgap_count(struct opgap_thread *thread, unsigned counter, uint64_t bytes)
{
  struct opgap_counter *c = &thread->counters[counter];
  opgap_add(&c->bytes, bytes);
  /* a store: who asks whether this is the call to be timed has loaded the count already */
  __atomic_store_n(&c->calls, c->calls + 1, __ATOMIC_RELAXED);
}
/* The same of a hook without bytes. */
static inline void opgap_count_call(struct opgap_thread *thread, unsigned counter)
{
  opgap_add(&thread->counters[counter].calls, 1);
}
static inline void opgap_count_failed(struct opgap_thread *thread, unsigned counter)
{
  opgap_add(&thread->details[counter].failed, 1);
}
/* Is the call that was counted last the one of many that is to be timed?  Others come the slow way as well: a thread's
 * first one is cold and speaks for no other. */
static inline bool opgap_is_sample(const struct opgap_thread *thread, unsigned counter)
{
  return thread->counters[counter].calls % OPGAP_TIME_EVERY == 0;
}
/* Will the call that is counted next be it? */
static inline __attribute__((always_inline)) bool opgap_sample_is_next(const struct opgap_thread *thread,
                                                                       unsigned counter)
{
  return (thread->counters[counter].calls + 1) % OPGAP_TIME_EVERY == 0;
}
/* A timed call that stands for the others like it.  One that took longer than OPGAP_OUTLIER_TICKS (about 0.1 ms: it was
 * preempted, or met page faults), and one that is recorded anyway, stands for itself alone: it becomes a record. */
#define OPGAP_OUTLIER_TICKS (UINT64_C(1) << 18)
static inline void opgap_count_time(struct opgap_thread *thread, unsigned counter, uint64_t ticks)
{
  opgap_add(&thread->details[counter].time_ticks, ticks); /* first: the consumer looks whether the others changed */
  opgap_add(&thread->details[counter].timed, 1);
}

/* Room for a record of `words` words, or NULL (counted as lost).  Between reserve and commit the thread is busy.  The
 * slow one takes another segment; 0 words: if there is one. */
uint64_t *opgap_reserve_slow(struct opgap_cell *cell, unsigned words);
static inline __attribute__((always_inline)) void opgap_set_busy(struct opgap_cell *cell)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  __asm__ volatile inline("movq %%rsp, %0" : "=m"(cell->busy)); /* costs what a constant does, and needs no frame */
#else
  cell->busy = (uintptr_t)__builtin_frame_address(0);
#endif
  atomic_signal_fence(memory_order_seq_cst);
}
/* A busy thread wants to write a record.  True: a signal handler interrupted the making of one, and this is lost.
 * False: it left that for good, by siglongjmp, and that one is lost; the thread is busy no more. */
bool opgap_interrupts_record(struct opgap_cell *cell) __attribute__((cold));
static inline uint64_t *opgap_reserve(struct opgap_cell *cell, unsigned words)
{
  if (opgap_unlikely(cell->busy) && opgap_interrupts_record(cell))
    return NULL;
  opgap_set_busy(cell);
  uint64_t *at = cell->write;
  if (opgap_unlikely(at + words > cell->limit)) {
    at = opgap_reserve_slow(cell, words);
    if (at == NULL)
      cell->busy = 0;
  }
  return at;
}
static inline void opgap_commit(struct opgap_cell *cell, uint64_t *end)
{
  cell->write = end;
  atomic_store_explicit(&cell->thread->write_pos, (uint64_t)(uintptr_t)end + cell->bias, memory_order_release); /* A */
  atomic_signal_fence(memory_order_seq_cst);
  cell->busy = 0;
}

/* The record of a span of a hook.  Fields: object, value. */
static inline __attribute__((always_inline)) void opgap_span(struct opgap_cell *cell, unsigned event, uint64_t start,
                                                             uint64_t end, uint64_t object, uint64_t value,
                                                             uint32_t status)
{
  uint64_t *w = opgap_reserve(cell, 5);
  if (opgap_unlikely(w == NULL))
    return;
  w[0] = OPGAP_WORD0(event, 5, cell->thread->depth, status);
  w[1] = start;
  w[2] = end;
  w[3] = object;
  w[4] = value;
  opgap_commit(cell, w + 5);
}

/* A span of a hooked call.  begin publishes the call as "open" (seen if the process dies inside) and returns its start.
 * No state is kept across the real call: leaving it by longjmp, an exception or cancellation loses only that span. */
static inline uint64_t opgap_call_begin(struct opgap_thread *thread, unsigned event, uint64_t object)
{
  uint64_t start = opgap_ticks();
  thread->call_object = object;
  thread->call_start = start;
  thread->call_event = event;
  return start;
}
/* status: 0 or errno.  Must not be used across fork. */
static inline void opgap_call_end(struct opgap_thread *thread, unsigned event, uint64_t start, uint64_t object,
                                  uint64_t value, uint32_t status)
{
  uint64_t end = opgap_ticks();
  thread->call_event = 0;
  opgap_span(opgap_cell, event, start, end, object, value, status);
}
/* A point in time of a hook: a wake-up edge, an allocation event.  Fields: object, value. */
static inline void opgap_point(struct opgap_thread *thread, unsigned event, uint64_t object, uint64_t value,
                               uint32_t status)
{
  struct opgap_cell *cell = opgap_cell;
  uint64_t *w = opgap_reserve(cell, 4);
  if (opgap_unlikely(w == NULL))
    return;
  w[0] = OPGAP_WORD0(event, 4, thread->depth, status);
  w[1] = opgap_ticks();
  w[2] = object;
  w[3] = value;
  opgap_commit(cell, w + 4);
}

/* After a short record was refused: the thread goes on in another segment if the upper half of the time is no longer
 * the present one's, which happens every second or two. */
void opgap_segment_turn(struct opgap_cell *cell);

/* The same, now, of a hook whose status is 0, in two words (arena.h).  False: it does not fit, or there is no room at
 * once; nothing is recorded then. */
static inline __attribute__((always_inline)) bool opgap_short_record(struct opgap_cell *cell,
                                                                     const struct opgap_thread *thread, unsigned event,
                                                                     uint64_t object, uint64_t value)
{
#if defined(__x86_64__)
  if (opgap_unlikely(cell->busy || !opgap_clock_tsc || object >> OPGAP_SHORT_OBJECT_BITS ||
                     value >> (64 - OPGAP_SHORT_OBJECT_BITS)))
    return false;
  opgap_set_busy(cell);
  uint64_t *w = cell->write;
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)); /* the built-in puts both halves together */
  if (opgap_unlikely(w + OPGAP_SHORT_WORDS > cell->limit || high != cell->ticks_high)) {
    cell->busy = 0;
    return false;
  }
  w[0] = OPGAP_WORD0(event, OPGAP_SHORT_WORDS, thread->depth, low);
  w[1] = object | value << OPGAP_SHORT_OBJECT_BITS;
  opgap_commit(cell, w + OPGAP_SHORT_WORDS);
  return true;
#else
  (void)cell, (void)thread, (void)event, (void)object, (void)value;
  return false;
#endif
}

/* Any event by its schema row (not for the hottest): ticks are converted by the flusher.  `end` is ignored for
 * instants.  At most OPGAP_MAX_FIELDS fields; their number must be the schema's. */
void opgap_emit(unsigned event, uint32_t status, uint64_t start, uint64_t end, const uint64_t *fields, unsigned count);

/* Ops and ranges: a stack per thread, inline in op.h.  `tag` finds the op again at its end when ops end out of order
 * (async scopes): frames above it are dropped as stale.  name: from opgap_intern.  event: OPGAP_EV_OP or
 * OPGAP_EV_RANGE.  Ends with no matching begin are ignored and counted as invalid.  Both are cheap (hot path). */
void opgap_op_begin(uint32_t name, uint32_t status, uint64_t tag, uint32_t stack);
void opgap_op_end(unsigned event, uint64_t tag, uint64_t sequence);

/* Interns bytes and returns their id, which is valid in the whole process and in its trace; 0 when the name table is
 * full (counted).  Lock-free; tens of ns for a known name.  Any bytes; cut at OPGAP_NAME_MAX. */
uint32_t opgap_intern(const char *bytes, size_t length);

/* In words, what a system call's result -errno says; strerror may allocate and translate.  Any thread, any context. */
const char *opgap_error_words(long error);

/* One line on stderr that names the process, once per call site's flag, cut at 1000 bytes, errno kept; also recorded in
 * the trace.  Works with stdio closed and in any context.  fmt: %s %d %u %lu %x only. */
void opgap_notice(bool *said, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
