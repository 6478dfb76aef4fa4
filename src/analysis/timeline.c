/* The recent past of each thread: which calls and ops, and who woke whom.  See internal.h for the bounds. */
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

/* Whether a full ring grows.  The threads of many ranks share HISTORY_BYTES, of which the first ones to ask for their
 * last doubling leave a half to the others. */
static bool may_grow(const struct analysis *a, size_t room, size_t size)
{
  uint64_t most = room * 2 < RING_LIMIT ? HISTORY_BYTES : HISTORY_BYTES / 2;
  return room < RING_LEAST || (room < RING_LIMIT && a->history_bytes + room * size <= most);
}

/* Room for one more entry at the back; gives up the oldest where the ring may not grow. */
#define RING_PUSH(a, r)                                                                                                \
  ({                                                                                                                   \
    if ((r)->count == (r)->room && may_grow(a, (r)->room, sizeof *(r)->at))                                            \
      ring_grow(a, &(r)->at, &(r)->first, &(r)->room, sizeof *(r)->at);                                                \
    if ((r)->count == (r)->room) {                                                                                     \
      (r)->forgotten = RING_AT(r, 0)->end;                                                                             \
      (r)->first++;                                                                                                    \
      (r)->count--;                                                                                                    \
    }                                                                                                                  \
    RING_AT(r, (r)->count++);                                                                                          \
  })

static __attribute__((noinline, cold)) void ring_grow(struct analysis *a, void *at_pointer, size_t *first, size_t *room,
                                                      size_t size)
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
  a->history_bytes += (larger - old) * size;
}

static void edges_clear(struct edge_table *table)
{
  opgap_map_clear(&table->index);
  for (size_t i = 0; i < table->rows.count; i++)
    free(table->rows.at[i].at);
  table->rows.count = 0;
}

void timeline_free_edges(struct edge_table *table)
{
  edges_clear(table);
  opgap_map_free(&table->index);
  VEC_FREE(&table->rows);
}

static struct edges *edges_make(struct edge_table *table, uint64_t object, uint32_t room)
{
  if (table->rows.count >= OBJECT_LIMIT && opgap_map_get(&table->index, object, 0) == 0)
    edges_clear(table);
  uint32_t *index = opgap_map_put(&table->index, object, 0);
  if (*index == 0) {
    struct edges *edges = VEC_PUSH(&table->rows);
    edges->room = room;
    edges->at = opgap_xcalloc(room, sizeof *edges->at);
    *index = (uint32_t)table->rows.count;
  }
  return &table->rows.at[*index - 1];
}

static const struct edges *edges_find(const struct edge_table *table, uint64_t object)
{
  uint32_t index = object ? opgap_map_get(&table->index, object, 0) : 0;
  return index ? &table->rows.at[index - 1] : NULL;
}

/* ---- pipes and sockets ---- */

void timeline_pair(struct analysis *a, uint32_t gid)
{
  const char *name = analysis_text(a, gid), *prefix = PAIR_NAME;
  char *rest;
  if (strncmp(name, prefix, strlen(prefix)) != 0 || opgap_map_get(&a->plain_sockets, gid, 0) != 0)
    return;
  unsigned long long own = strtoull(name + strlen(prefix), &rest, 10);
  unsigned long long other = *rest == ',' ? strtoull(rest + 1, &rest, 10) : 0;
  if (other == 0 || *rest != ']')
    return;
  uint32_t plain = analysis_string(a, opgap_pool_printf(a->pool, "socket:[%llu%s", own, rest)); /* with its host */
  uint32_t others = analysis_string(a, opgap_pool_printf(a->pool, "socket:[%llu%s", other, rest));
  *opgap_map_put(&a->plain_sockets, gid, 0) = plain + 1;
  *opgap_map_put(&a->socket_others, plain, 0) = others + 1;
  *opgap_map_put(&a->socket_others, others, 0) = plain + 1;
}

/* What writes to an object are kept by. */
static uint32_t written_end(const struct analysis *a, uint32_t object)
{
  uint32_t plain = opgap_map_get(&a->plain_sockets, object, 0);
  return plain ? plain - 1 : object;
}

/* Where what is read from an object is written to. */
static uint32_t awaited_end(const struct analysis *a, uint32_t object)
{
  uint32_t own = written_end(a, object), other = opgap_map_get(&a->socket_others, own, 0);
  return other ? other - 1 : own;
}

uint64_t timeline_writes(const struct analysis *a, uint32_t pipe)
{
  const struct edges *edges = edges_find(&a->pipes, awaited_end(a, pipe));
  return edges ? edges->next : 0;
}

static void add_edge(struct analysis *a, struct edges *edges, const struct thread *t, const struct opgap_record *r)
{
  struct edge *edge = &edges->at[edges->next++ % edges->room];
  *edge = (struct edge){r->start_ns, r->end_ns, (uint32_t)(t - a->threads)};
}

static bool latest_edge(const struct edges *edges, uint32_t self, uint64_t start, uint64_t end, struct edge *found)
{
  bool any = false;
  for (unsigned i = 0; i < edges->room; i++) {
    const struct edge *e = &edges->at[i];
    if (e->end == 0 || e->thread == self || e->end < start || e->start > end)
      continue;
    if (!any || e->start > found->start)
      *found = *e;
    any = true;
  }
  return any;
}

/* Wake-ups are stamped before they take effect, so the edge is there when the wait's record comes. */
static bool object_waker(struct analysis *a, const struct thread *t, const struct past_call *call, struct edge *edge)
{
  const struct edges *edges = edges_find(&a->processes[t->process].objects, call->object);
  return edges != NULL && latest_edge(edges, (uint32_t)(t - a->threads), call->start, call->end, edge);
}

/* ---- locks on files ---- */

static struct file_lock *file_lock_of(const struct analysis *a, uint32_t path)
{
  uint32_t index = opgap_map_get(&a->file_lock_index, path, 0);
  return index ? &a->file_locks.at[index - 1] : NULL;
}

static void add_tenure(struct analysis *a, uint32_t path, struct tenure tenure)
{
  struct file_lock *lock = file_lock_of(a, path);
  if (lock == NULL && a->file_locks.count >= FILE_LOCK_LIMIT) {
    opgap_map_clear(&a->file_lock_index);
    a->file_locks.count = 0;
  }
  if (lock == NULL) {
    lock = VEC_PUSH(&a->file_locks);
    *opgap_map_put(&a->file_lock_index, path, 0) = (uint32_t)a->file_locks.count;
  }
  lock->at[lock->next++ % FILE_TENURES] = tenure;
}

/* The latest lock that thread t has, or, as another thread may let it go, its process. */
static struct tenure *held_by(const struct analysis *a, const struct thread *t, uint32_t path)
{
  struct file_lock *lock = file_lock_of(a, path);
  struct tenure *found = NULL;
  for (unsigned i = 0; lock != NULL && i < FILE_TENURES; i++) {
    struct tenure *tenure = &lock->at[(lock->next + i) % FILE_TENURES];
    const struct thread *other = &a->threads[tenure->thread];
    if (tenure->released != UINT64_MAX || other->process != t->process)
      continue;
    if (found == NULL || found->thread != t - a->threads || other == t)
      found = tenure;
  }
  return found;
}

bool timeline_file_holder(const struct analysis *a, const struct thread *t, const struct past_call *call,
                          uint64_t start, uint64_t end, struct tenure *found)
{
  const struct file_lock *lock = file_lock_of(a, call->file_lock);
  bool any = false;
  for (unsigned i = 0; lock != NULL && i < FILE_TENURES; i++) {
    struct tenure tenure = lock->at[i];
    const struct thread *other = &a->threads[tenure.thread];
    const struct process *p = &a->processes[other->process];
    if (tenure.released == 0 || other == t || (tenure.shared && call->shared) ||
        !analysis_same_host(p, &a->processes[t->process]))
      continue;
    if (tenure.released == UINT64_MAX) /* the kernel lets it go when its process ends */
      tenure.released = p->info->end_ns;
    if (tenure.taken >= end || tenure.released <= start)
      continue;
    if (tenure.released > end)
      tenure.released = end;
    if (!any || tenure.released > found->released ||
        (tenure.released == found->released && tenure.taken > found->taken))
      *found = tenure;
    any = true;
  }
  return any;
}

/* A pause of a thread that tries again behind it (filelock: LOCK_NB, close, sleep) is a wait for the lock. */
static void mark_pauses(struct analysis *a, struct thread *t, const struct hook *hook)
{
  const struct process *p = &a->processes[t->process];
  for (size_t i = t->calls.count; i-- > 0 && RING_AT(&t->calls, i)->end > t->refused.since;) {
    struct past_call *call = RING_AT(&t->calls, i);
    uint8_t verb = p->hooks[call->event].verb;
    /* select(0, NULL, NULL, NULL, &time), as Python slept before 3.11 */
    bool pause = verb == VERB_SLEEP || (verb == VERB_POLL && (call->timed_out || call->object == 0));
    if (!pause || call->start < t->refused.since || call->file_lock != 0)
      continue;
    bool more = t->refused.waited_ns > 0;
    call->file_lock = t->refused.path;
    call->shared = t->refused.shared;
    t->refused.waited_ns += call->end - call->start;
    if (!analysis_in_window(a, call->end))
      continue;
    threads_pause_for_lock(t, (enum verb)verb, call->end - call->start);
    locks_add_pause(a, t, hook, call, more, t->refused.waited_ns);
  }
}

static void file_lock_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                           uint32_t path)
{
  bool unlocks = r->field[1] & FILE_LOCK_UNLOCKS, tries = r->field[1] & FILE_LOCK_TRIES;
  bool again = t->refused.path == path && !unlocks;
  if (again)
    mark_pauses(a, t, hook);
  if (tries && (r->status == HELD_AGAIN || r->status == HELD_ACCESS)) {
    t->refused.waited_ns = again ? t->refused.waited_ns : 0;
    t->refused.path = path;
    t->refused.shared = r->field[1] & FILE_LOCK_SHARES;
    t->refused.since = r->end_ns;
  } else {
    t->refused.path = 0;
  }
  if (r->status != 0 || r->field[1] == 0)
    return;
  struct tenure *held = held_by(a, t, path);
  if (unlocks && held != NULL)
    held->released = r->start_ns;
  else if (unlocks)
    add_tenure(a, path, (struct tenure){.released = r->start_ns, .thread = (uint32_t)(t - a->threads)});
  else if (held == NULL || held->thread != t - a->threads)
    add_tenure(a, path,
               (struct tenure){r->end_ns, UINT64_MAX, (uint32_t)(t - a->threads), r->field[1] & FILE_LOCK_SHARES});
}

/* A lock goes with its descriptor. */
static void file_closed(const struct analysis *a, const struct thread *t, const struct opgap_record *r, uint32_t path)
{
  struct tenure *held = held_by(a, t, path);
  if (held != NULL)
    held->released = r->start_ns;
}

/* ---- calls ---- */

/* Whether what was polled holds sockets.  Traces of older versions do not tell, nor do epoll instances that came from
 * elsewhere: there a process that uses sockets is taken to poll them. */
bool timeline_polls_sockets(const struct analysis *a, const struct process *p, const struct hook *hook, uint64_t object)
{
  bool tells = hook->flags & OPGAP_EVENT_WAITED && strcmp(analysis_text(a, (uint32_t)object), EVENTPOLL) != 0;
  return tells ? analysis_name_flags(a, (uint32_t)object) & NAME_SOCKET : p->networks;
}

/* A poll for a socket waits for others; and a condition of Python's may be its GIL, which is taken by timed
 * waits one after the other (gaps.c), of a length that sys.setswitchinterval sets.  A lock whose time was over was
 * held. */
static bool timed_out(const struct analysis *a, const struct process *p, const struct hook *hook,
                      const struct opgap_record *r, uint64_t object)
{
  switch (hook->verb) {
  case VERB_POLL:
    return r->status == 0 && r->field[1] == 0 && !timeline_polls_sockets(a, p, hook, object);
  case VERB_SEM:
    return r->status == TIMED_OUT;
  case VERB_COND:
    return r->status == TIMED_OUT && !p->python && p->ops == 0;
  default:
    return false;
  }
}

static struct past_call *push_call(struct analysis *a, struct thread *t, const struct hook *hook,
                                   const struct opgap_record *r, uint64_t object, bool named, uint32_t flags)
{
  struct past_call *past = RING_PUSH(a, &t->calls);
  *past = (struct past_call){.start = r->start_ns,
                             .end = r->end_ns,
                             .object = object,
                             .event = r->event,
                             .depth = r->depth,
                             .named = named,
                             .blocks = hooks_block(hook->flags, (enum verb)hook->verb, flags & NAME_FILE)};
  return past;
}

void timeline_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                   uint64_t object, bool named, uint32_t flags)
{
  struct process *p = &a->processes[t->process];
  p->networks |= hook->verb == VERB_CONNECT || (flags & NAME_SOCKET && hook->verb != VERB_CLOSE);
  if (hook->flags & OPGAP_EVENT_EDGE && !named)
    add_edge(a, edges_make(&p->objects, object, OBJECT_EDGES), t, r);
  if (flags & NAME_PIPE && hook->verb == VERB_WRITE) {
    add_edge(a, edges_make(&a->pipes, written_end(a, (uint32_t)object), PIPE_EDGES), t, r);
    ++*opgap_map_put(&a->pipe_writers, object, t->process);
    if (analysis_in_window(a, r->end_ns))
      ++*opgap_map_put(&a->window_writes, object, t->process);
  }
  if (flags & NAME_PIPE && hook->verb == VERB_READ)
    *opgap_map_put(&a->pipe_readers, object, t->process) = 1;
  if (named && hook->verb == VERB_FILE_LOCK)
    file_lock_call(a, t, hook, r, (uint32_t)object);
  else if (flags & NAME_FILE && hook->verb == VERB_CLOSE && a->file_locks.count > 0)
    file_closed(a, t, r, (uint32_t)object);
  if (r->start_ns == r->end_ns)
    return;
  const struct past_call *before = t->calls.count > 0 ? RING_AT(&t->calls, t->calls.count - 1) : NULL;
  bool body = before != NULL && before->message && named && before->object == object;
  struct past_call *past = push_call(a, t, hook, r, object, named, flags);
  past->timed_out = timed_out(a, p, hook, r, object);
  past->message = hook->verb == VERB_READ && r->field[1] == MESSAGE_HEADER;
  past->reaped = (hook->verb == VERB_CHILD && r->field[1] != 0) ||
                 (hook->verb == VERB_READ && flags & NAME_PIPE && !body && r->field[1] == FORK_SERVER_STATUS);
  past->no_more = hook->verb == VERB_READ && body && message_is_end(r->field[1]);
  p->fetches.read += past->message && named && t->main && object == p->fetches.pipe;
  if (named && hook->verb == VERB_FILE_LOCK && r->field[1] != 0 &&
      !(r->field[1] & (FILE_LOCK_TRIES | FILE_LOCK_UNLOCKS))) {
    past->file_lock = (uint32_t)object;
    past->shared = r->field[1] & FILE_LOCK_SHARES;
  }
  struct edge edge = {0};
  if (!named && hook->flags & OPGAP_EVENT_BLOCKING && object_waker(a, t, past, &edge)) {
    past->waker = edge.thread + 1;
    past->woken = edge.start;
  }
}

void timeline_open_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  bool named = hook->flags & OPGAP_EVENT_OBJECT_NAME;
  const struct opgap_record call = {
      .event = (uint16_t)r->field[0], .depth = r->depth, .start_ns = r->start_ns, .end_ns = r->end_ns};
  const struct name_cache *name = named ? analysis_name(a, t->process, r->field[1]) : NULL;
  push_call(a, t, hook, &call, name ? name->gid - 1 : r->field[1], named, name ? name->flags : 0);
}

/* Keeps outermost ops only: an op takes the place of those inside it. */
void timeline_op(struct analysis *a, struct thread *t, uint32_t name, uint32_t flags, bool framework,
                 const struct opgap_record *r)
{
  if (flags & NAME_NEXT) {
    struct past_op *next = RING_PUSH(a, &t->nexts);
    *next = (struct past_op){r->start_ns, r->end_ns, name};
  }
  if (!framework)
    return;
  size_t outside = t->ops.count;
  while (outside > 0 && RING_AT(&t->ops, outside - 1)->start >= r->start_ns)
    outside--;
  struct past_op *op;
  if (outside < t->ops.count) { /* it holds some, and takes their place */
    op = RING_AT(&t->ops, outside);
    t->ops.count = outside + 1;
  } else {
    op = RING_PUSH(a, &t->ops);
  }
  *op = (struct past_op){r->start_ns, r->end_ns, name};
}

/* Looks from the back in growing steps first: most askers want what happened just now. */
#define RING_FROM(r, time)                                                                                             \
  ({                                                                                                                   \
    size_t high = (r)->count, step = 1;                                                                                \
    while (step < high && RING_AT(r, high - step)->end > (time)) {                                                     \
      high -= step;                                                                                                    \
      step *= 2;                                                                                                       \
    }                                                                                                                  \
    size_t low = step < high ? high - step : 0;                                                                        \
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

void timeline_sample(struct analysis *a, struct thread *t, struct past_sample sample)
{
  *RING_PUSH(a, &t->samples) = sample;
}

void timeline_yields(struct analysis *a, struct thread *t, struct past_yields yields)
{
  *RING_PUSH(a, &t->yields) = yields;
}

size_t timeline_samples_from(const struct thread *t, uint64_t time)
{
  return RING_FROM(&t->samples, time);
}

bool timeline_samples_around(const struct thread *t, uint64_t start, uint64_t end, const struct past_sample **from,
                             const struct past_sample **to)
{
  size_t first = timeline_samples_from(t, start), last = timeline_samples_from(t, end);
  last = last < t->samples.count ? last : t->samples.count - 1;
  if (t->samples.count == 0 || last <= first)
    return false;
  *from = RING_AT(&t->samples, first);
  *to = RING_AT(&t->samples, last);
  return true;
}

uint64_t timeline_inside(struct thread *t, const struct opgap_record *r)
{
  uint64_t sum = 0, at = r->end_ns;
  for (size_t i = t->calls.count; i-- > 0;) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (i == t->calls.count - 1 && call->start == r->start_ns && call->end == r->end_ns)
      continue; /* itself */
    if (call->end <= r->start_ns)
      break;
    if (call->start < r->start_ns || call->end > at || !call->blocks)
      continue;
    sum += call->end - call->start;
    at = call->start; /* what lies in this one came before it */
  }
  t->nests |= sum > 0;
  return sum;
}

#define POLL_TO_READ_NS 1000000000u /* a thread that was woken may have to wait for a CPU */

/* The read that follows a poll on the same thread tells what was polled. */
static uint32_t polled_pipe(struct analysis *a, const struct thread *t, const struct past_call *call)
{
  size_t i = timeline_calls_from(t, call->end);
  for (unsigned tries = 0; i < t->calls.count && tries < 4; i++, tries++) {
    const struct past_call *next = RING_AT(&t->calls, i);
    if (next->start < call->end || next->start > call->end + POLL_TO_READ_NS)
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

/* Is `its` a wait at the same barrier of the same process? */
static bool same_barrier(const struct process *p, const struct past_call *its, const struct past_call *call)
{
  return its->object == call->object && !its->named && p->hooks[its->event].verb == VERB_BARRIER;
}

/* The thread that came last to a barrier lets the others go on. */
static bool last_to_come(const struct analysis *a, const struct thread *t, const struct past_call *call,
                         struct edge *edge)
{
  bool any = false;
  for (unsigned k = 0; k < a->thread_count; k++) {
    const struct thread *other = &a->threads[k];
    if (other == t || other->process != t->process)
      continue;
    for (size_t i = timeline_calls_from(other, call->start); i < other->calls.count; i++) {
      const struct past_call *its = RING_AT(&other->calls, i);
      if (its->start > call->end)
        break;
      if (its->start < call->start || (any && its->start < edge->start) ||
          !same_barrier(&a->processes[t->process], its, call))
        continue;
      *edge = (struct edge){its->start, its->end, k};
      any = true;
    }
  }
  return any;
}

bool timeline_came_last(const struct analysis *a, const struct thread *t, const struct past_call *call)
{
  for (unsigned k = 0; k < a->thread_count; k++) {
    const struct thread *other = &a->threads[k];
    if (other == t || other->process != t->process)
      continue;
    for (size_t i = timeline_calls_from(other, call->start); i < other->calls.count; i++) {
      const struct past_call *its = RING_AT(&other->calls, i);
      if (its->start > call->start)
        break;
      if (same_barrier(&a->processes[t->process], its, call))
        return true;
    }
  }
  return false;
}

bool timeline_waker(struct analysis *a, const struct thread *t, const struct past_call *call, struct edge *edge)
{
  const struct process *p = &a->processes[t->process];
  enum verb verb = (enum verb)p->hooks[call->event].verb;
  if (verb == VERB_JOIN)
    return joined_thread(a, t, call, edge);
  if (verb == VERB_BARRIER)
    return last_to_come(a, t, call, edge);
  if (call->waker != 0) {
    *edge = (struct edge){call->woken, call->woken, call->waker - 1};
    return true;
  }
  if (!call->named && verb != VERB_POLL)
    return false;
  bool pipe = call->named && analysis_name_flags(a, (uint32_t)call->object) & NAME_PIPE;
  uint32_t object = pipe ? (uint32_t)call->object : verb == VERB_POLL ? polled_pipe(a, t, call) : 0;
  const struct edges *edges = object ? edges_find(&a->pipes, awaited_end(a, object)) : NULL;
  return edges != NULL && latest_edge(edges, (uint32_t)(t - a->threads), call->start, call->end, edge);
}

void timeline_free(struct thread *t)
{
  free(t->calls.at);
  free(t->ops.at);
  free(t->nexts.at);
  free(t->samples.at);
  free(t->yields.at);
}
