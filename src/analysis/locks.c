/* Contended locks: every recorded wait for a mutex or rwlock, by object, and who held it.  A lock in static data has
 * the name of its symbol, where the modules were recorded (OPGAP_STACKS=native). */
#include "analysis/internal.h"
#include "analysis/order.h"
#include "analysis/symbols.h"

#include <stdlib.h>

static struct lock_row *row_of(struct analysis *a, unsigned process, uint64_t object)
{
  uint32_t *index = opgap_map_put(&a->lock_index, object, process);
  if (*index == 0) {
    struct lock_row *added = VEC_PUSH(&a->locks);
    added->process = process;
    added->object = object;
    *index = (uint32_t)a->locks.count;
  }
  return &a->locks.at[*index - 1];
}

/* Majority vote weighted by time: the holder kept at the end is the right one if one holder has most of the wait. */
static void vote(struct lock_row *row, uint32_t holder, uint64_t ns)
{
  if (row->holder == holder) {
    row->holder_ns += ns;
  } else if (row->holder_ns >= ns) {
    row->holder_ns -= ns;
  } else {
    row->holder = holder;
    row->holder_ns = ns - row->holder_ns;
  }
}

/* Who held the lock: the owner when the wait began, else who let it go (the timeline has just seen this wait). */
static uint32_t holder_of(struct analysis *a, const struct thread *t, const struct hook *hook,
                          const struct opgap_record *r)
{
  const struct past_call *last = t->calls.count ? RING_AT(&t->calls, t->calls.count - 1) : NULL;
  const struct thread *owner = hook->verb == VERB_MUTEX ? threads_of_tid(a, t->process, r->field[1]) : NULL;
  if (owner != NULL)
    return (uint32_t)(owner - a->threads) + 1;
  return last != NULL && last->end == r->end_ns && last->object == r->field[0] ? last->waker : 0;
}

void locks_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  if (a->locks.count >= LOCK_LIMIT && opgap_map_get(&a->lock_index, r->field[0], t->process) == 0)
    return;
  struct lock_row *row = row_of(a, t->process, r->field[0]);
  uint64_t ns = r->end_ns - r->start_ns;
  row->call = hook->name;
  row->waits++;
  row->ns += ns;
  if (ns > row->longest)
    row->longest = ns;
  uint32_t thread_index = (uint32_t)(t - a->threads);
  uint32_t *seen = opgap_map_put(&a->lock_threads, (uint64_t)(row - a->locks.at), thread_index);
  if (*seen == 0) {
    *seen = 1;
    row->threads++;
  }
  uint32_t holder = holder_of(a, t, hook, r);
  if (holder != 0)
    vote(row, holder, ns);
}

static const char *holder_text(struct analysis *a, const struct lock_row *row)
{
  if (row->holder == 0)
    return "";
  const struct thread *t = &a->threads[row->holder - 1];
  const char *name = analysis_text(a, t->name);
  return opgap_pool_printf(a->pool, "thread %d%s%s%s", t->tid, name[0] ? " (" : "", name, name[0] ? ")" : "");
}

void locks_module(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  *VEC_PUSH(&a->processes[process].modules) = (struct mapped_module){.path = analysis_gid(a, process, r->field[0]),
                                                                     .build_id = analysis_gid(a, process, r->field[1]),
                                                                     .bias = r->field[2]};
}

/* The newest module first, as what was unloaded may have left its place to another. */
static const char *symbol_of(struct analysis *a, struct opgap_symbols *symbols, const struct lock_row *row)
{
  const struct process *p = &a->processes[row->process];
  for (size_t i = p->modules.count; i-- > 0;) {
    const struct mapped_module *m = &p->modules.at[i];
    if (m->bias > row->object)
      continue;
    const char *name =
        opgap_symbols_data(symbols, analysis_text(a, m->path), analysis_text(a, m->build_id), row->object - m->bias);
    if (name != NULL)
      return name;
  }
  return "";
}

void locks_finish(struct analysis *a)
{
  struct opgap_symbols *symbols = opgap_symbols_new(a->pool, a->source->path);
  struct opgap_summary *s = a->summary;
  s->locks = opgap_pool_alloc(a->pool, a->locks.count * sizeof *s->locks);
  for (size_t i = 0; i < a->locks.count; i++) {
    const struct lock_row *row = &a->locks.at[i];
    const struct process *p = &a->processes[row->process];
    if (!p->included)
      continue;
    s->locks[s->lock_count++] = (struct opgap_sum_lock){.pid = p->info->pid,
                                                        .call = analysis_text(a, row->call),
                                                        .object = row->object,
                                                        .symbol = symbol_of(a, symbols, row),
                                                        .waits = row->waits,
                                                        .wait_ns = row->ns,
                                                        .longest_ns = row->longest,
                                                        .threads = row->threads,
                                                        .held_by = holder_text(a, row)};
  }
  opgap_symbols_free(symbols);
  order_rows(s->locks, s->lock_count, sizeof *s->locks, order_locks);
}
