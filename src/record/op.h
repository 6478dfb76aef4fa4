/* Begin and end of an op, inline: for callbacks that do little else.  opgap_op_begin and opgap_op_end (record.h) are
 * these for everybody else.
 *
 * Context   as record.h: hot path, any thread, also in signal handlers.
 * Method    The inline functions do what is usual and call nothing for it, so their caller needs no room on its stack.
 *           The rest they leave to a function of thread.c that can do everything, in the place of a return.
 * Order     An op leaves the stack of open ops after its record is made of it, and before that is committed: the ops of
 *           a signal handler in between cannot take its place while it is needed, and do not stand under it later.
 */
#ifndef OPGAP_RECORD_OP_H
#define OPGAP_RECORD_OP_H

#include <stdatomic.h>

#include "record/record.h"
#include "record/session.h"
#include "record/stacks.h"

/* Ticks are the counter's, and what makes up an op's allocations stands where opgap_op_sums takes it to be.  Set when
 * the session begins.  A window's number is at least 1 by then. */
extern bool opgap_ops_usual __attribute__((visibility("hidden")));

/* The other ways of an op: of whatever the table of counters and the clock are, and however deep it stands. */
void opgap_op_begin_rarely(uint32_t name, uint32_t status, uint64_t tag, uint32_t stack) __attribute__((cold));
void opgap_op_end_rarely(unsigned event, uint64_t tag, uint64_t sequence, uint64_t end) __attribute__((cold));
void opgap_op_end_now(unsigned event, uint64_t tag, uint64_t sequence) __attribute__((cold));

/* A counter's calls and bytes, added as one vector: an op asks for the sum of all allocating hooks twice. */
typedef uint64_t opgap_pair_sum __attribute__((vector_size(16)));
static_assert(sizeof(struct opgap_counter) == sizeof(opgap_pair_sum), "calls, bytes");
struct opgap_op_sums {
  opgap_pair_sum allocations;
  uint64_t frees;
};

/* Of the usual table; unrolled: an addition a counter instead of four instructions. */
static inline struct opgap_op_sums opgap_op_sums(const struct opgap_thread *thread)
{
  const opgap_pair_sum *at = (const opgap_pair_sum *)thread->counters;
  static_assert(OPGAP_ALLOC_COUNTERS == 9, "as many as are added here");
  return (struct opgap_op_sums){at[0] + at[1] + at[2] + at[3] + at[4] + at[5] + at[6] + at[7] + at[8],
                                thread->counters[OPGAP_ALLOC_COUNTERS].calls};
}

struct opgap_op_sums opgap_op_sums_of_any(const struct opgap_thread *thread) __attribute__((cold));

/* Opens the op at `depth`, which is below OPGAP_MAX_DEPTH.  usual: as opgap_ops_usual. */
static inline __attribute__((always_inline)) void opgap_op_open(struct opgap_thread *thread, uint32_t depth,
                                                                uint32_t name, uint32_t status, uint64_t tag,
                                                                uint32_t stack, bool usual)
{
  struct opgap_open_op *op = &thread->ops[depth];
  op->tag = tag;
  op->name = name;
  op->status = status;
  op->stack = stack;
  struct opgap_op_sums sums = usual ? opgap_op_sums(thread) : opgap_op_sums_of_any(thread);
  op->allocs = sums.allocations[0];
  op->alloc_bytes = sums.allocations[1];
  op->frees = sums.frees;
  op->start = usual ? opgap_ticks_of_counter() : opgap_ticks();
  atomic_signal_fence(memory_order_release);
  thread->depth = depth + 1;
}

/* Takes the op at `depth`, which ended at `end`, off the thread's stack and records it in short.  False: the record
 * does not fit, or there is no room for it at once, or, if `usual`, it took long; nothing has changed then. */
static inline __attribute__((always_inline)) bool opgap_op_close(struct opgap_cell *cell, struct opgap_thread *thread,
                                                                 uint32_t depth, unsigned event, uint64_t end,
                                                                 uint64_t sequence, bool usual)
{
  const struct opgap_open_op *op = &thread->ops[depth];
  if (opgap_unlikely(cell->busy))
    return false;
  opgap_set_busy(cell);
  uint64_t *w = cell->write;
  uint64_t length = end - op->start;
  if (opgap_unlikely(w + OPGAP_SHORT_OP_WORDS > cell->limit || end >> 32 != cell->ticks_high ||
                     opgap_op_excess(length, 0, 0, 0, 0, sequence) || (usual && length >= opgap_long_op_ticks))) {
    cell->busy = 0;
    return false;
  }
  /* Its times first; the rest is written before it is known to fit, and committed only then.  So few values wait for
   * others, and they find registers that need not be saved. */
  struct opgap_short_op *record = (struct opgap_short_op *)w;
  record->head = (uint32_t)OPGAP_WORD0(event, OPGAP_SHORT_OP_WORDS, depth, 0);
  record->end = (uint32_t)end;
  record->length = (uint32_t)length;
  record->name = op->name;
  record->sequence = (int32_t)sequence;
  record->stack = op->stack;
  atomic_signal_fence(memory_order_seq_cst);
  struct opgap_op_sums sums = usual ? opgap_op_sums(thread) : opgap_op_sums_of_any(thread);
  uint64_t allocs = sums.allocations[0] - op->allocs, bytes = sums.allocations[1] - op->alloc_bytes,
           frees = sums.frees - op->frees;
  record->alloc_bytes = (uint32_t)bytes;
  record->counts = opgap_short_counts(allocs, frees, op->status);
  if (opgap_unlikely(opgap_op_excess(0, bytes, allocs, frees, op->status, 0))) {
    cell->busy = 0;
    return false;
  }
  atomic_signal_fence(memory_order_seq_cst);
  thread->depth = depth;
  opgap_commit(cell, w + OPGAP_SHORT_OP_WORDS);
  return true;
}

/* opgap_op_begin of the calling thread, whose slot this is. */
static inline __attribute__((always_inline)) void opgap_op_begin_on(struct opgap_thread *thread, uint32_t name,
                                                                    uint32_t status, uint64_t tag, uint32_t stack)
{
  uint32_t depth = thread->depth;
  /* The same window as of the thread's last op: so it has one, and all is usual (op_window is set only then). */
  if (opgap_likely(thread->op_window == opgap_window() && depth < OPGAP_MAX_DEPTH))
    opgap_op_open(thread, depth, name, status, tag, stack, true);
  else
    opgap_op_begin_rarely(name, status, tag, stack);
}

/* opgap_op_end of the calling thread, whose cell this is. */
static inline __attribute__((always_inline)) void opgap_op_end_on(struct opgap_cell *cell, struct opgap_thread *thread,
                                                                  unsigned event, uint64_t tag, uint64_t sequence)
{
  if (opgap_unlikely(!opgap_ops_usual)) {
    opgap_op_end_now(event, tag, sequence);
    return;
  }
  uint64_t end = opgap_ticks_of_counter();
  uint32_t depth = thread->depth - 1;
  if (opgap_unlikely(depth >= OPGAP_MAX_DEPTH || thread->ops[depth].tag != tag ||
                     !opgap_op_close(cell, thread, depth, event, end, sequence, true)))
    opgap_op_end_rarely(event, tag, sequence, end);
}

#endif
