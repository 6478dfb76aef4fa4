/* The recent past of each thread: which calls and ops, and who woke whom.  See internal.h for the bounds. */
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more entry at the back; gives up the oldest at the limit. */
#define RING_PUSH(r)                                                                                                   \
  ({                                                                                                                   \
    if ((r)->count == (r)->room && (r)->room < RING_LIMIT)                                                             \
      ring_grow(&(r)->at, &(r)->first, &(r)->room, sizeof *(r)->at);                                                   \
    if ((r)->count == (r)->room) {                                                                                     \
      (r)->forgotten = RING_AT(r, 0)->end;                                                                             \
      (r)->first++;                                                                                                    \
      (r)->count--;                                                                                                    \
    }                                                                                                                  \
    RING_AT(r, (r)->count++);                                                                                          \
  })

static void ring_grow(void *at_pointer, size_t *first, size_t *room, size_t size)
{
  void **at = at_pointer;
  size_t old = *room, larger = old ? old * 2 : 64;
  char *entries = opgap_xcalloc(larger, size);
  for (size_t i = 0; i < old; i++)
    memcpy(entries + i * size, (char *)*at + ((*first + i) & (old - 1)) * size, size);
  free(*at);
  *at = entries;
  *first = 0;
  *room = larger;
}

static struct edges *edges_make(struct edge_table *table, uint64_t object)
{
  if (table->rows.count >= OBJECT_LIMIT && opgap_map_get(&table->index, object, 0) == 0) {
    opgap_map_clear(&table->index);
    table->rows.count = 0;
  }
  uint32_t *index = opgap_map_put(&table->index, object, 0);
  if (*index == 0) {
    (void)VEC_PUSH(&table->rows);
    *index = (uint32_t)table->rows.count;
  }
  return &table->rows.at[*index - 1];
}

static const struct edges *edges_find(const struct edge_table *table, uint64_t object)
{
  uint32_t index = object ? opgap_map_get(&table->index, object, 0) : 0;
  return index ? &table->rows.at[index - 1] : NULL;
}

static void add_edge(struct analysis *a, struct edges *edges, const struct thread *t, const struct opgap_record *r)
{
  struct edge *edge = &edges->at[edges->next++ % EDGES];
  *edge = (struct edge){r->start_ns, r->end_ns, (uint32_t)(t - a->threads)};
}

void timeline_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                   uint64_t object, bool named)
{
  struct process *p = &a->processes[t->process];
  if (hook->flags & OPGAP_EVENT_EDGE && !named)
    add_edge(a, edges_make(&p->objects, object), t, r);
  if (named && hook->verb == VERB_WRITE && analysis_name_flags(a, (uint32_t)object) & NAME_PIPE) {
    add_edge(a, edges_make(&a->pipes, object), t, r);
    *opgap_map_put(&a->pipe_writers, object, t->process) = 1;
  }
  if (named && hook->verb == VERB_READ && analysis_name_flags(a, (uint32_t)object) & NAME_PIPE)
    *opgap_map_put(&a->pipe_readers, object, t->process) = 1;
  if (r->start_ns == r->end_ns)
    return;
  struct past_call *past = RING_PUSH(&t->calls);
  *past = (struct past_call){r->start_ns, r->end_ns, object, r->event, r->depth, named};
}

/* Keeps outermost ops only: an op takes the place of those inside it. */
void timeline_op(struct thread *t, uint32_t name, uint32_t flags, bool framework, const struct opgap_record *r)
{
  if (flags & NAME_NEXT) {
    struct past_op *next = RING_PUSH(&t->nexts);
    *next = (struct past_op){r->start_ns, r->end_ns, name};
  }
  if (!framework)
    return;
  while (t->ops.count > 0 && RING_AT(&t->ops, t->ops.count - 1)->start >= r->start_ns)
    t->ops.count--;
  struct past_op *op = RING_PUSH(&t->ops);
  *op = (struct past_op){r->start_ns, r->end_ns, name};
}

#define RING_FROM(r, time)                                                                                             \
  ({                                                                                                                   \
    size_t low = 0, high = (r)->count;                                                                                 \
    while (low < high) {                                                                                               \
      size_t middle = low + (high - low) / 2;                                                                          \
      if (RING_AT(r, middle)->end > (time))                                                                            \
        high = middle;                                                                                                 \
      else                                                                                                             \
        low = middle + 1;                                                                                              \
    }                                                                                                                  \
    low;                                                                                                               \
  })

size_t timeline_calls_from(const struct thread *t, uint64_t time)
{
  return RING_FROM(&t->calls, time);
}

size_t timeline_ops_from(const struct thread *t, uint64_t time)
{
  return RING_FROM(&t->ops, time);
}

/* The wake-up is stamped before it takes effect, a little later at most when its thread was preempted there. */
#define EDGE_SLACK_NS 200000ull

static bool latest_edge(const struct edges *edges, uint32_t self, uint64_t start, uint64_t end, struct edge *found)
{
  bool any = false;
  for (unsigned i = 0; i < EDGES; i++) {
    const struct edge *e = &edges->at[i];
    if (e->end == 0 || e->thread == self || e->end < start || e->start > end)
      continue;
    if (!any || e->start > found->start)
      *found = *e;
    any = true;
  }
  return any;
}

/* The read that follows a poll on the same thread tells what was polled. */
static uint32_t polled_pipe(struct analysis *a, const struct thread *t, const struct past_call *call)
{
  size_t i = timeline_calls_from(t, call->end);
  for (unsigned tries = 0; i < t->calls.count && tries < 4; i++, tries++) {
    const struct past_call *next = RING_AT(&t->calls, i);
    if (next->start < call->end || next->start > call->end + 1000000)
      continue;
    if (next->named && a->processes[t->process].hooks[next->event].verb == VERB_READ &&
        analysis_name_flags(a, (uint32_t)next->object) & NAME_PIPE)
      return (uint32_t)next->object;
  }
  return 0;
}

static bool joined_thread(struct analysis *a, const struct thread *t, const struct past_call *call, struct edge *edge)
{
  const struct thread *other = analysis_pthread(a, t->process, call->object);
  if (other == NULL)
    return false;
  uint64_t end = other->end_ns ? other->end_ns : call->end;
  *edge = (struct edge){end < call->end ? end : call->end, end, (uint32_t)(other - a->threads)};
  return true;
}

bool timeline_waker(struct analysis *a, const struct thread *t, const struct past_call *call, struct edge *edge)
{
  const struct process *p = &a->processes[t->process];
  enum verb verb = (enum verb)p->hooks[call->event].verb;
  uint32_t self = (uint32_t)(t - a->threads);
  if (verb == VERB_JOIN)
    return joined_thread(a, t, call, edge);
  const struct edges *edges;
  uint64_t slack = EDGE_SLACK_NS;
  if (call->named || verb == VERB_POLL) {
    bool pipe = call->named && analysis_name_flags(a, (uint32_t)call->object) & NAME_PIPE;
    edges = edges_find(&a->pipes, pipe ? call->object : verb == VERB_POLL ? polled_pipe(a, t, call) : 0);
    slack = 0; /* a write begins before its bytes arrive */
  } else {
    edges = edges_find(&p->objects, call->object);
  }
  return edges != NULL && (latest_edge(edges, self, call->start, call->end, edge) ||
                           (slack && latest_edge(edges, self, call->end, call->end + slack, edge)));
}

void timeline_free(struct thread *t)
{
  free(t->calls.at);
  free(t->ops.at);
  free(t->nexts.at);
}
