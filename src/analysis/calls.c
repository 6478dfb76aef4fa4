/* Hooked calls: exact numbers, time exact or estimated.
 *
 * A hook that is counted has COUNTER records with its totals so far on that thread; these contain the calls that also
 * have a record of their own.  Its time is what the recorded spans took, plus, for the rest, the average of the calls
 * that were timed, where these are enough and it fits into the time that the threads had.  A hook without COUNTER
 * records is what its spans and points say. */
#include "analysis/internal.h"
#include "analysis/order.h"

#include <stdlib.h>
#include <string.h>

static struct thread_hook *hook_of(struct thread *t, unsigned event)
{
  if (t->hook_index[event] == 0) {
    struct thread_hook *added = VEC_PUSH(&t->hooks);
    added->event = (uint16_t)event;
    t->hook_index[event] = (uint16_t)t->hooks.count;
  }
  return &t->hooks.at[t->hook_index[event] - 1];
}

/* Bytes that a record moved or asked for: value of a call that succeeded. */
static uint64_t bytes_of(const struct hook *hook, const struct opgap_record *r)
{
  switch (hook->verb) {
  case VERB_READ:
  case VERB_WRITE:
  case VERB_ALLOC:
  case VERB_COPY:
    return r->status == 0 ? r->field[1] : 0;
  default:
    return 0;
  }
}

void calls_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  struct thread_hook *h = hook_of(t, r->event);
  uint64_t ns = r->end_ns - r->start_ns;
  if (!analysis_in_window(a, r->end_ns))
    return;
  h->calls++;
  h->bytes += bytes_of(hook, r);
  h->failed += r->status != 0;
  h->time_ns += ns;
  if (hook->span && ns > 0) {
    h->spans++;
    h->span_ns += ns;
  }
}

void calls_counter(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  if (r->status >= OPGAP_MAX_EVENTS)
    return;
  struct thread_hook *h = hook_of(t, r->status);
  h->counted = true;
  if (a->processes[t->process].hooks[r->status].verb == VERB_YIELD)
    threads_yields(a, t, r);
  if (r->end_ns <= a->window_start || r->end_ns <= a->processes[t->process].info->kept_from_ns)
    memcpy(h->base, r->field, sizeof h->base);
  else if (r->end_ns <= a->window_end)
    memcpy(h->last, r->field, sizeof h->last);
}

struct call_sum {
  uint32_t name, category;
  enum opgap_role role;
  uint8_t flags;
  uint64_t calls, bytes, failed, time_ns;
  uint64_t events;
  uint64_t untimed, timed, timed_ns; /* untimed: calls without a time of their own */
  uint64_t ran_ns;                   /* the threads that made these were on a CPU, at most */
};
struct call_merge {
  struct opgap_map index;
  VEC(struct call_sum) rows;
};

static struct call_sum *merged_row(struct call_merge *m, const struct hook *hook, enum opgap_role role)
{
  uint32_t *index = opgap_map_put(&m->index, role, hook->name);
  if (*index == 0) {
    struct call_sum *row = VEC_PUSH(&m->rows);
    row->name = hook->name;
    row->category = hook->category;
    row->role = role;
    row->flags = hook->flags;
    *index = (uint32_t)m->rows.count;
  }
  return &m->rows.at[*index - 1];
}

static uint64_t difference(const struct thread_hook *h, unsigned field)
{
  return h->last[field] > h->base[field] ? h->last[field] - h->base[field] : 0;
}

static void add_thread_hook(const struct analysis *a, struct call_sum *row, const struct thread *t,
                            const struct thread_hook *h)
{
  if (!h->counted) {
    row->calls += h->calls;
    row->bytes += h->bytes;
    row->failed += h->failed;
    row->time_ns += h->time_ns;
    return;
  }
  uint64_t calls = difference(h, 0);
  row->events += h->calls > h->spans ? h->calls - h->spans : 0;
  row->calls += calls;
  row->bytes += difference(h, 1);
  row->failed += difference(h, 2);
  row->time_ns += h->span_ns;
  row->untimed += calls > h->spans ? calls - h->spans : 0;
  row->timed += difference(h, 3);
  row->timed_ns += difference(h, 4);
  row->ran_ns += threads_ran_at_most(a, t, a->window_start, a->window_end);
}

/* Calls that were only counted took what the timed ones among them took on average.  One in 1024 is timed, but few of
 * those that are events (OPGAP_ALLOC=events): too few to speak for them.  Nor do fewer than LEAST_SAMPLES: one of them
 * that waited for a CPU, or took a page fault, would stand for thousands that did not.  And calls that did
 * not wait, as none does that is only counted, cannot have taken longer than their threads were on a CPU. */
#define LEAST_TIMED 4096u
#define LEAST_SAMPLES 16u
static uint64_t time_of(const struct call_sum *row)
{
  if (row->untimed == 0)
    return row->time_ns;
  if (row->timed < LEAST_SAMPLES || row->untimed / row->timed >= LEAST_TIMED)
    return OPGAP_UNKNOWN;
  double estimate = (double)row->timed_ns / (double)row->timed * (double)row->untimed;
  if (estimate > (double)row->ran_ns)
    return OPGAP_UNKNOWN;
  return row->time_ns + (uint64_t)estimate;
}

void calls_finish(struct analysis *a)
{
  struct call_merge m = {0};
  for (unsigned i = 0; i < a->thread_count; i++) {
    struct thread *t = &a->threads[i];
    struct process *p = &a->processes[t->process];
    for (size_t k = 0; p->included && k < t->hooks.count; k++) {
      const struct hook *hook = &p->hooks[t->hooks.at[k].event];
      if (hook->name != 0)
        add_thread_hook(a, merged_row(&m, hook, p->role), t, &t->hooks.at[k]);
    }
  }
  struct opgap_summary *s = a->summary;
  s->calls = opgap_pool_alloc(a->pool, m.rows.count * sizeof *s->calls);
  for (size_t i = 0; i < m.rows.count; i++) {
    const struct call_sum *row = &m.rows.at[i];
    a->hooked_calls += row->calls;
    a->events += row->events;
    if (row->calls == 0)
      continue;
    s->calls[s->call_count++] =
        (struct opgap_sum_call){.name = analysis_text(a, row->name),
                                .category = analysis_text(a, row->category),
                                .role = row->role,
                                .blocking = row->flags & OPGAP_EVENT_BLOCKING,
                                .calls = row->calls,
                                .bytes = row->bytes,
                                .failed = row->failed,
                                .time_ns = time_of(row),
                                .estimated = row->untimed > 0,
                                .measured = row->calls > row->untimed ? row->calls - row->untimed : 0,
                                .measured_ns = row->time_ns};
  }
  order_rows(s->calls, s->call_count, sizeof *s->calls, order_calls);
  VEC_FREE(&m.rows);
  opgap_map_free(&m.index);
}
