/* Explains an interval of a thread: what it did, and where it waited, what the thread that woke it did meanwhile.
 *
 * A thread's time is cut into calls (timeline.c) and the time between them.  A call that waited and was ended by
 * another thread's wake-up is explained by what that thread did up to the wake-up, and so on, MAX_CHAIN deep.  The
 * pieces always add up to the interval. */
#include "analysis/internal.h"

#include <stdio.h>
#include <string.h>

#include "analysis/text.h"

#define MAX_CHAIN 8u

struct walk {
  struct analysis *a;
  struct causes *causes;
  uint32_t own_process, own_thread;
  const struct past_call *call; /* of the own thread, known even where its ring gave it up; NULL: none */
  unsigned chain;
  uint32_t file; /* gid of the file that the thread being walked used last; 0: none, or its own thread */
};

static void walk_thread(struct walk *w, struct thread *t, uint64_t start, uint64_t end);

static bool same_key(const struct cause_key *l, const struct cause_key *r)
{
  return l->cause == r->cause && l->doing == r->doing && l->process == r->process && l->thread == r->thread &&
         l->name == r->name && l->file_lock == r->file_lock;
}

/* At the limit the piece joins the last row of its cause, or the last row. */
static struct cause_row *fallback_row(struct causes *causes, enum opgap_cause cause)
{
  for (unsigned i = causes->count; i-- > 0;)
    if (causes->at[i].key.cause == cause)
      return &causes->at[i];
  return &causes->at[causes->count - 1];
}

static void add_example(struct cause_row *row, uint32_t example, uint64_t ns)
{
  if (example == 0)
    return;
  if (row->latest != example) {
    row->latest = example;
    row->latest_ns = 0;
    row->examples++;
  }
  row->latest_ns += ns;
  if (row->latest_ns > row->example_ns) {
    row->example = example;
    row->example_ns = row->latest_ns;
  }
}

static void add_piece(struct causes *causes, struct cause_key key, uint32_t example, uint64_t ns)
{
  struct cause_row *row = NULL;
  if (ns == 0)
    return;
  if (causes->data_loading && key.cause != OPGAP_CAUSE_UNKNOWN)
    key.cause = OPGAP_CAUSE_DATA_LOADING;
  else if (causes->lock_depth > 0 && key.cause != OPGAP_CAUSE_UNKNOWN)
    key.cause = OPGAP_CAUSE_LOCK;
  if (causes->lock_depth > 0)
    key.file_lock = causes->file_lock;
  for (unsigned i = 0; i < causes->count && row == NULL; i++)
    if (same_key(&causes->at[i].key, &key))
      row = &causes->at[i];
  if (row == NULL && causes->count < GAP_CAUSES) {
    row = &causes->at[causes->count++];
    *row = (struct cause_row){.key = key, .count = 1};
  }
  if (row == NULL)
    row = fallback_row(causes, (enum opgap_cause)key.cause);
  row->ns += ns;
  add_example(row, example, ns);
}

void blame_add(struct causes *causes, struct cause_key key, uint64_t ns)
{
  add_piece(causes, key, 0, ns);
}

static void add(struct walk *w, const struct thread *t, enum opgap_cause cause, enum doing doing, uint32_t name,
                uint32_t example, uint64_t ns)
{
  uint32_t thread = (uint32_t)(t - w->a->threads);
  struct cause_key key = {.cause = (uint8_t)cause, .doing = (uint8_t)doing, .name = name};
  key.process = t->process == w->own_process ? UINT32_MAX : t->process;
  key.thread = t->main || thread == w->own_thread ? 0 : t->namesake + 1;
  add_piece(w->causes, key, example, ns);
}

/* A worker of a DataLoader starts until it polls for its first index (of its own making, spawn, it imports its modules
 * then), or, where no poll was seen, until its first op.  Returns when; 0: t is no such worker. */
static uint64_t ready_at(const struct walk *w, const struct thread *t)
{
  const struct process *p = &w->a->processes[t->process];
  if (!t->main || t->process == w->own_process)
    return 0;
  /* who makes it by spawn waits for it outside of __next__, too, while its dataset goes through a pipe */
  if (!w->causes->data_loading)
    return strstr(p->info->command, "--multiprocessing-fork") ? t->first_poll_ns : 0;
  if (t->first_poll_ns != 0 && windows_off_within(p, p->info->start_ns, t->first_poll_ns))
    return 0; /* it may have polled before, when it was not recorded */
  if (t->first_poll_ns != 0)
    return t->first_poll_ns;
  if (p->info->forked)
    return 0;
  return t->first_op_ns ? t->first_op_ns : UINT64_MAX;
}

/* Adds what of a stretch outside blocking calls was not spent on a CPU; returns the rest. */
static uint64_t add_off_cpu(struct walk *w, struct thread *t, uint64_t start, uint64_t end)
{
  struct off_cpu off;
  if (!threads_off_cpu(w->a, t, start, end, &off))
    return end - start;
  add(w, t, OPGAP_CAUSE_RUN_QUEUE, DOING_QUEUE, 0, 0, off.queue);
  add(w, t, OPGAP_CAUSE_THROTTLED, DOING_THROTTLED, 0, 0, off.throttled);
  add(w, t, OPGAP_CAUSE_OUTSIDE_HOOKS, DOING_OUTSIDE, 0, 0, off.outside - off.faults);
  add(w, t, OPGAP_CAUSE_OUTSIDE_HOOKS, DOING_FAULT, 0, 0, off.faults);
  return end - start - off.queue - off.throttled - off.outside;
}

static void add_code(struct walk *w, struct thread *t, uint64_t start, uint64_t end)
{
  if (end <= start)
    return;
  uint64_t code = add_off_cpu(w, t, start, end);
  uint64_t yields = t->yields.count > 0 ? threads_yield_ns(t, start, end) : 0;
  yields = yields < code ? yields : code;
  add(w, t, OPGAP_CAUSE_PYTHON, DOING_SPIN, 0, 0, yields);
  add(w, t, OPGAP_CAUSE_PYTHON, DOING_CODE, 0, w->file, code - yields);
}

/* Time outside calls: in framework ops, or between them. */
static void walk_cpu(struct walk *w, struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t at = start;
  for (size_t i = timeline_ops_from(t, start); i < t->ops.count && at < end; i++) {
    const struct past_op *op = RING_AT(&t->ops, i);
    if (op->start >= end)
      break;
    uint64_t from = op->start > at ? op->start : at, to = op->end < end ? op->end : end;
    if (to <= from)
      continue;
    add_code(w, t, at, from);
    add(w, t, OPGAP_CAUSE_DISPATCH, DOING_OP, op->name, 0, add_off_cpu(w, t, from, to));
    at = to;
  }
  add_code(w, t, at, end);
}

static enum doing file_doing(enum verb verb)
{
  switch (verb) {
  case VERB_READ:
    return DOING_READ;
  case VERB_WRITE:
  case VERB_FLUSH:
    return DOING_WRITE;
  case VERB_OPEN:
    return DOING_OPEN;
  case VERB_SYNC:
    return DOING_FSYNC;
  case VERB_CLOSE:
    return DOING_CLOSE;
  case VERB_STAT:
    return DOING_STAT;
  case VERB_MAP:
    return DOING_MAP;
  case VERB_CHANGE:
    return DOING_CHANGE;
  default:
    return DOING_FILE;
  }
}

static bool is_gil(const struct process *p, uint64_t object)
{
  for (unsigned i = 0; i < p->gil_count; i++)
    if (p->gil[i] == object)
      return true;
  return false;
}

/* Not what waits for many descriptors (anon_inode:[eventpoll]): where nobody was seen to end that, it is the network.
 */
static bool is_pipe(const struct analysis *a, const struct past_call *call)
{
  return call->named && strncmp(analysis_text(a, (uint32_t)call->object), "pipe:", 5) == 0;
}

/* Not what pipes, eventfds, timers and other descriptors are waited for.  An epoll instance of which one descriptor was
 * ready does not tell which, so of a process that uses sockets it is one.  In traces of older versions a poll waits for
 * the network unless it names a pipe. */
static bool waits_for_socket(const struct analysis *a, const struct process *p, const struct hook *hook,
                             const struct past_call *call)
{
  const char *name = call->named ? analysis_text(a, (uint32_t)call->object) : "";
  if (hook->verb == VERB_POLL && !(hook->flags & OPGAP_EVENT_WAITED))
    return !is_pipe(a, call);
  if (strcmp(name, EVENTPOLL) == 0 || (name[0] == '\0' && hook->verb != VERB_POLL))
    return p->networks;
  return call->named && analysis_name_flags(a, (uint32_t)call->object) & NAME_SOCKET;
}

/* A wait that nobody was seen to end. */
static void walk_unexplained(struct walk *w, struct thread *t, const struct hook *hook, const struct past_call *call,
                             uint64_t ns)
{
  if (call->timed_out && !is_pipe(w->a, call)) {
    add(w, t, OPGAP_CAUSE_SLEEP, DOING_SLEEP, hook->name, 0, ns);
    return;
  }
  switch (hook->verb) {
  case VERB_MUTEX:
  case VERB_RWLOCK:
    add(w, t, OPGAP_CAUSE_LOCK, DOING_WAIT, hook->name, 0, ns);
    break;
  case VERB_COND:
    add(w, t, is_gil(&w->a->processes[t->process], call->object) ? OPGAP_CAUSE_GIL : OPGAP_CAUSE_SYNCHRONISATION,
        DOING_WAIT, hook->name, 0, ns);
    break;
  case VERB_BARRIER:
    if (timeline_came_last(w->a, t, call)) { /* those that it woke have its CPU */
      add(w, t, OPGAP_CAUSE_RUN_QUEUE, DOING_WAKING, 0, 0, ns);
      break;
    }
    /* fall through */
  case VERB_SEM:
  case VERB_JOIN:
    add(w, t, OPGAP_CAUSE_SYNCHRONISATION, DOING_WAIT, hook->name, 0, ns);
    break;
  case VERB_SLEEP:
    add(w, t, OPGAP_CAUSE_SLEEP, DOING_SLEEP, hook->name, 0, ns);
    break;
  case VERB_CHILD:
    add(w, t, OPGAP_CAUSE_CHILD, DOING_WAIT, hook->name, 0, ns);
    break;
  case VERB_CUDA:
    add(w, t, OPGAP_CAUSE_DEVICE, DOING_GPU, hook->name, 0, ns);
    break;
  case VERB_CONNECT:
    add(w, t, OPGAP_CAUSE_COMMUNICATION, DOING_SOCKET, hook->name, 0, ns);
    break;
  case VERB_READ:
  case VERB_WRITE:
  case VERB_POLL:
    if (waits_for_socket(w->a, &w->a->processes[t->process], hook, call))
      add(w, t, OPGAP_CAUSE_COMMUNICATION, DOING_SOCKET, hook->name, 0, ns);
    else
      add(w, t, OPGAP_CAUSE_SYNCHRONISATION, DOING_WAIT, hook->name, 0, ns);
    break;
  default:
    add(w, t, OPGAP_CAUSE_UNKNOWN, DOING_WAIT, hook->name, 0, ns);
  }
}

/* What the holder of a lock did; path: of the file that it is on, 0: in memory, perhaps while one on a file was held.
 */
static void walk_holder(struct walk *w, uint32_t path, struct thread *holder, uint64_t start, uint64_t end)
{
  uint32_t outer = w->causes->file_lock;
  w->chain++;
  w->causes->lock_depth++;
  w->causes->file_lock = path ? path : outer;
  walk_thread(w, holder, start, end);
  w->causes->file_lock = outer;
  w->causes->lock_depth--;
  w->chain--;
}

/* A wait, clipped to [start, end), ended by another thread. */
static void walk_woken(struct walk *w, struct thread *t, const struct hook *hook, const struct past_call *call,
                       const struct edge *edge, uint64_t start, uint64_t end)
{
  struct thread *waker = &w->a->threads[edge->thread];
  uint64_t woken = edge->start < start ? start : edge->start > end ? end : edge->start;
  bool gil = hook->verb == VERB_COND && is_gil(&w->a->processes[t->process], call->object);
  if (gil) {
    add(w, waker, OPGAP_CAUSE_GIL, DOING_CODE, 0, 0, woken - start);
  } else {
    /* what the holder did is the detail; the cause is that it held the lock */
    if (hook->verb == VERB_MUTEX || hook->verb == VERB_RWLOCK) {
      walk_holder(w, 0, waker, start, woken);
    } else {
      w->chain++;
      walk_thread(w, waker, start, woken);
      w->chain--;
    }
  }
  bool locks = hook->verb == VERB_MUTEX || hook->verb == VERB_RWLOCK || hook->verb == VERB_COND;
  add(w, t, gil ? OPGAP_CAUSE_GIL : OPGAP_CAUSE_RUN_QUEUE, locks ? DOING_HANDOVER : DOING_WAKING, 0, 0, end - woken);
}

static void add_file_lock(struct walk *w, struct thread *t, uint32_t path, enum doing doing, uint64_t ns)
{
  uint32_t outer = w->causes->file_lock;
  w->causes->lock_depth++;
  w->causes->file_lock = path;
  add(w, t, OPGAP_CAUSE_LOCK, doing, 0, 0, ns);
  w->causes->file_lock = outer;
  w->causes->lock_depth--;
}

/* A wait for the lock on a file, clipped to [start, end): who had it, from the last holder back. */
static void walk_file_lock(struct walk *w, struct thread *t, const struct past_call *call, bool pause, uint64_t start,
                           uint64_t end)
{
  uint32_t path = call->file_lock;
  uint64_t at = end;
  struct tenure tenure;
  while (at > start && w->chain < MAX_CHAIN && timeline_file_holder(w->a, t, call, start, at, &tenure)) {
    if (pause)
      add_file_lock(w, t, path, DOING_RETRY, at - tenure.released);
    else
      add(w, t, OPGAP_CAUSE_RUN_QUEUE, DOING_HANDOVER, 0, 0, at - tenure.released);
    at = tenure.taken > start ? tenure.taken : start;
    walk_holder(w, path, &w->a->threads[tenure.thread], at, tenure.released);
  }
  add_file_lock(w, t, path, at < end && pause ? DOING_RETRY : DOING_HELD, at - start);
}

static bool near(uint64_t left, uint64_t right)
{
  const uint64_t slack = 50000000;
  return left <= right + slack && right <= left + slack;
}

/* The child of t's process that this wait was for: it ended with the wait (that closes the pipe which is polled or
 * read, or is what waitpid waits for), or it was started as a wait for a pipe began, which then is its output.
 * UINT32_MAX: none. */
static uint32_t awaited_child(const struct analysis *a, const struct thread *t, const struct hook *hook,
                              const struct past_call *call, enum doing *doing)
{
  bool read = hook->verb == VERB_READ && is_pipe(a, call);
  uint32_t started = UINT32_MAX;
  if (!read && hook->verb != VERB_POLL && hook->verb != VERB_CHILD)
    return UINT32_MAX;
  *doing = DOING_END;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct opgap_process_info *info = a->processes[i].info;
    if (info->ppid != a->processes[t->process].info->pid || info->start_ns >= call->end ||
        a->processes[i].main_thread == UINT32_MAX || !analysis_same_host(&a->processes[i], &a->processes[t->process]))
      continue;
    if (near(info->end_ns, call->end))
      return i;
    if (read && near(info->start_ns, call->start) && info->end_ns >= call->end)
      started = i;
  }
  *doing = DOING_OUTPUT;
  return started;
}

/* The main thread of another process that reads from the pipe which is written to: a writer goes on when it has read,
 * or, if it runs on the writer's CPU meanwhile, when it waits.  NULL: none is known, or it is the waiting process
 * itself. */
static struct thread *pipe_reader(const struct walk *w, const struct thread *t, const struct hook *hook,
                                  const struct past_call *call)
{
  if (hook->verb != VERB_WRITE || !call->named || w->chain >= MAX_CHAIN ||
      (analysis_name_flags(w->a, (uint32_t)call->object) & (NAME_PIPE | NAME_SOCKET)) != NAME_PIPE)
    return NULL;
  for (unsigned i = 0; i < w->a->process_count; i++)
    if (i != t->process && i != w->own_process && w->a->processes[i].main_thread != UINT32_MAX &&
        opgap_map_get(&w->a->pipe_readers, call->object, i) != 0)
      return &w->a->threads[w->a->processes[i].main_thread];
  return NULL;
}

static void walk_call(struct walk *w, struct thread *t, const struct past_call *call, uint64_t start, uint64_t end)
{
  const struct hook *hook = &w->a->processes[t->process].hooks[call->event];
  struct edge edge;
  struct thread *reader;
  enum doing doing;
  uint32_t child;
  if (call->file_lock != 0)
    walk_file_lock(w, t, call, hook->verb != VERB_FILE_LOCK, start, end);
  else if (call->named && analysis_name_flags(w->a, (uint32_t)call->object) & NAME_FILE)
    add(w, t, OPGAP_CAUSE_FILE_IO, file_doing((enum verb)hook->verb), hook->verb == VERB_CHANGE ? hook->name : 0,
        (uint32_t)call->object, end - start);
  else if (!call->named && hook->verb == VERB_SYNC) /* msync is given no name */
    add(w, t, OPGAP_CAUSE_FILE_IO, DOING_FSYNC, 0, 0, end - start);
  else if (hook->verb == VERB_ALLOC || hook->verb == VERB_FREE)
    add(w, t, OPGAP_CAUSE_ALLOCATION, DOING_ALLOC, hook->name, 0, end - start);
  else if (!call->blocks && hook->verb != VERB_CUDA)
    walk_cpu(w, t, start, end);
  else if (w->chain < MAX_CHAIN && timeline_waker(w->a, t, call, &edge))
    walk_woken(w, t, hook, call, &edge, start, end);
  else if ((child = awaited_child(w->a, t, hook, call, &doing)) != UINT32_MAX)
    add(w, &w->a->threads[w->a->processes[child].main_thread], OPGAP_CAUSE_CHILD, doing, 0, 0, end - start);
  else if ((reader = pipe_reader(w, t, hook, call)) != NULL) {
    w->chain++;
    walk_thread(w, reader, start, end);
    w->chain--;
  } else {
    walk_unexplained(w, t, hook, call, end - start);
  }
}

/* What is known of a thread begins with the oldest call still remembered. */
static uint64_t forgotten_until(const struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t until = t->calls.forgotten;
  return until <= start ? start : until < end ? until : end;
}

/* A call on a file that is worked with: not one that only locks it. */
static bool uses_file(const struct analysis *a, const struct thread *t, const struct past_call *call)
{
  return call->named && analysis_name_flags(a, (uint32_t)call->object) & NAME_FILE &&
         a->processes[t->process].hooks[call->event].verb != VERB_FILE_LOCK;
}

/* The file of the newest of the few calls before entry `i`. */
static uint32_t file_before(struct analysis *a, const struct thread *t, size_t i)
{
  for (unsigned tries = 0; i-- > 0 && tries < 32; tries++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (uses_file(a, t, call))
      return (uint32_t)call->object;
  }
  return 0;
}

/* The thread that made t: its creator, or the main thread of its process. */
static struct thread *creator_of(struct analysis *a, const struct thread *t)
{
  const struct process *p = &a->processes[t->process];
  for (unsigned i = 0; t->creator_tid != 0 && i < a->thread_count; i++)
    if (a->threads[i].process == t->process && a->threads[i].tid == t->creator_tid && &a->threads[i] != t)
      return &a->threads[i];
  return p->main_thread == UINT32_MAX || &a->threads[p->main_thread] == t ? NULL : &a->threads[p->main_thread];
}

/* Explains what came before the thread was there; returns where its own time begins. */
static uint64_t walk_before_birth(struct walk *w, struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t born = t->born_ns < end ? t->born_ns : end;
  if (t->main && w->a->processes[t->process].info->start_ns < born)
    born = w->a->processes[t->process].info->start_ns;
  if (born <= start)
    return start;
  struct thread *creator = creator_of(w->a, t);
  if (creator != NULL && w->chain < MAX_CHAIN) {
    w->chain++;
    walk_thread(w, creator, start, born);
    w->chain--;
  } else if (t->main && t->process != w->own_process && !w->causes->data_loading) {
    add(w, t, OPGAP_CAUSE_CHILD, DOING_BEGIN, 0, 0, born - start);
  } else {
    add(w, t, OPGAP_CAUSE_STARTUP, DOING_START, 0, 0, born - start);
  }
  return born;
}

/* Does call i lie inside another one, which a signal handler interrupted?  That ended later, a few calls behind. */
#define NEST_LIMIT 64u
static bool is_nested(const struct thread *t, size_t i)
{
  uint64_t start = RING_AT(&t->calls, i)->start;
  for (size_t k = i + 1; t->nests && k < t->calls.count && k <= i + NEST_LIMIT; k++)
    if (RING_AT(&t->calls, k)->start < start)
      return true;
  return false;
}

/* What the ring gave up: all that is left of it is the call asked about, which was kept. */
static void walk_forgotten(struct walk *w, struct thread *t, uint64_t start, uint64_t end)
{
  const struct past_call *call = w->call;
  bool kept =
      call != NULL && (uint32_t)(t - w->a->threads) == w->own_thread && call->start <= start && call->end >= end;
  if (kept && end > start)
    walk_call(w, t, call, start, end);
  else
    add(w, t, OPGAP_CAUSE_UNKNOWN, DOING_FORGOTTEN, 0, 0, end - start);
}

static void walk_thread(struct walk *w, struct thread *t, uint64_t start, uint64_t end)
{
  bool own = (uint32_t)(t - w->a->threads) == w->own_thread;
  uint32_t outer = w->file;
  if (end <= start)
    return;
  start = walk_before_birth(w, t, start, end);
  uint64_t ready = ready_at(w, t);
  if (start < ready) {
    uint64_t until = ready < end ? ready : end;
    add(w, t, OPGAP_CAUSE_STARTUP, DOING_START, 0, 0, until - start);
    start = until;
  }
  uint64_t at = forgotten_until(t, start, end);
  walk_forgotten(w, t, start, at);
  size_t first = timeline_calls_from(t, at);
  w->file = own ? 0 : file_before(w->a, t, first);
  for (size_t i = first; i < t->calls.count && at < end; i++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (is_nested(t, i))
      continue;
    if (call->start >= end)
      break;
    uint64_t from = call->start > at ? call->start : at, to = call->end < end ? call->end : end;
    if (to <= from)
      continue;
    walk_cpu(w, t, at, from);
    if (!own && uses_file(w->a, t, call))
      w->file = (uint32_t)call->object;
    walk_call(w, t, call, from, to);
    at = to;
  }
  walk_cpu(w, t, at, end);
  w->file = outer;
}

void blame_thread(struct analysis *a, const struct thread *own, struct thread *t, uint64_t start, uint64_t end,
                  struct causes *causes)
{
  struct walk w = {.a = a, .causes = causes, .own_process = own->process, .own_thread = (uint32_t)(own - a->threads)};
  walk_thread(&w, t, start, end);
}

void blame_call(struct analysis *a, struct thread *t, const struct past_call *call, struct causes *causes)
{
  struct walk w = {
      .a = a, .causes = causes, .own_process = t->process, .own_thread = (uint32_t)(t - a->threads), .call = call};
  walk_thread(&w, t, call->start, call->end);
}

/* "reading /data/1.png and other files", "reading files" */
static void phrase_files(struct analysis *a, const struct cause_row *row, const char *verb, const char *none,
                         char *text, size_t size)
{
  if (row->example == 0)
    snprintf(text, size, "%s%s", verb, none);
  else if (row->examples > 1)
    snprintf(text, size, "%s %s and other files", verb, analysis_text(a, row->example));
  else
    snprintf(text, size, "%s %s", verb, analysis_text(a, row->example));
}

static void phrase(struct analysis *a, const struct cause_row *row, char *text, size_t size)
{
  static const char *const on_files[] = {
      [DOING_READ] = "reading",  [DOING_WRITE] = "writing",   [DOING_OPEN] = "opening", [DOING_FSYNC] = "syncing",
      [DOING_CLOSE] = "closing", [DOING_STAT] = "looking up", [DOING_MAP] = "mapping",  [DOING_FILE] = "other calls on",
  };
  const char *name = analysis_text(a, row->key.name);
  switch ((enum doing)row->key.doing) {
  case DOING_READ:
  case DOING_WRITE:
  case DOING_OPEN:
  case DOING_FSYNC:
  case DOING_CLOSE:
  case DOING_STAT:
  case DOING_MAP:
  case DOING_FILE:
    phrase_files(a, row, on_files[row->key.doing], " files", text, size);
    break;
  case DOING_CHANGE: {
    char call[80];
    snprintf(call, sizeof call, "%s of", name);
    phrase_files(a, row, call, " files", text, size);
    break;
  }
  case DOING_OP:
    if (name[0])
      snprintf(text, size, "in op %s", name);
    else
      snprintf(text, size, "in framework ops");
    break;
  case DOING_CODE:
    if (row->key.cause == OPGAP_CAUSE_DATA_LOADING && row->key.process != UINT32_MAX && row->key.thread == 0)
      phrase_files(a, row, "decoding or augmenting", " data", text, size);
    else if (row->example != 0)
      phrase_files(a, row, "own code after calls on", "", text, size);
    else
      snprintf(text, size, "own code, no call");
    break;
  case DOING_WAIT:
    snprintf(text, size, "in %s, waker not seen", name);
    break;
  case DOING_HELD:
    snprintf(text, size, "who held it was not seen");
    break;
  case DOING_RETRY:
    snprintf(text, size, "which nobody was seen to hold until the next try");
    break;
  case DOING_HANDOVER:
    snprintf(text, size, "woken, not yet running (no free CPU, or its lock still held)");
    break;
  case DOING_WAKING:
    snprintf(text, size, "woken, not yet running (no free CPU)");
    break;
  case DOING_SLEEP:
    snprintf(text, size, "%s", name);
    break;
  case DOING_SOCKET:
    snprintf(text, size, "in %s on a socket", name);
    break;
  case DOING_ALLOC:
  case DOING_GPU:
    snprintf(text, size, "in %s", name);
    break;
  case DOING_LATENCY:
    snprintf(text, size, "from launch to start");
    break;
  case DOING_QUEUE:
    snprintf(text, size, "runnable, no CPU free");
    break;
  case DOING_THROTTLED:
    snprintf(text, size, "stopped by the CPU limit of its cgroup");
    break;
  case DOING_OUTSIDE:
    snprintf(text, size, "off the CPU, in no hooked call (a raw futex of OpenMP, a page fault from disk)");
    break;
  case DOING_SPIN:
    snprintf(text, size, "~spinning (sched_yield)");
    break;
  case DOING_FAULT:
    snprintf(text, size, "in page faults that read from a disk");
    break;
  case DOING_START:
    snprintf(text, size, "starting, importing modules");
    break;
  case DOING_BEGIN:
    snprintf(text, size, "waited for until it began");
    break;
  case DOING_END:
    snprintf(text, size, "waited for until it ended");
    break;
  case DOING_OUTPUT:
    snprintf(text, size, "its output was waited for");
    break;
  case DOING_FORGOTTEN:
    snprintf(text, size, "longer ago than the history kept");
    break;
  default:
    text[0] = '\0';
  }
}

/* The thread of a cause in words: its name, unless that is just the process's. */
static void thread_words(struct analysis *a, const struct thread *t, char *text, size_t size)
{
  const struct process *p = &a->processes[t->process];
  const char *name = analysis_text(a, t->name);
  bool same = p->main_thread != UINT32_MAX && a->threads[p->main_thread].name == t->name;
  if (name[0] && !same)
    snprintf(text, size, "thread %s", name);
  else
    snprintf(text, size, "another thread");
}

/* A process in words: its role, and its program where the role says nothing. */
static void process_words(const struct process *p, char *text, size_t size)
{
  char program[128] = "";
  if (!p->info->forked && (p->role == OPGAP_ROLE_OTHER || p->role == OPGAP_ROLE_PROGRAM))
    text_program(program, sizeof program, p->info->command);
  snprintf(text, size, "%s%s%s%s", p->label, program[0] ? " (" : "", program, program[0] ? ")" : "");
}

static void who(struct analysis *a, const struct cause_key *key, char *text, size_t size)
{
  char label[256] = "", thread[128] = "";
  if (key->process != UINT32_MAX)
    process_words(&a->processes[key->process], label, sizeof label);
  if (key->thread != 0)
    thread_words(a, &a->threads[key->thread - 1], thread, sizeof thread);
  snprintf(text, size, "%s%s%s", label, label[0] && thread[0] ? ", " : "", thread);
}

const char *blame_text(struct analysis *a, const struct cause_row *row, uint32_t own_process)
{
  char doing[4096], actor[512];
  struct cause_key shown = row->key;
  if (shown.process == own_process)
    shown.process = UINT32_MAX;
  phrase(a, row, doing, sizeof doing);
  who(a, &shown, actor, sizeof actor);
  const char *path = analysis_text(a, row->key.file_lock);
  if (row->key.doing == DOING_HELD || row->key.doing == DOING_RETRY)
    return opgap_pool_printf(a->pool, "%s%sthe lock on %s, %s", actor, actor[0] ? ": " : "", path, doing);
  if (row->key.file_lock != 0)
    return opgap_pool_printf(a->pool, "the lock on %s%s%s: %s", path, actor[0] ? ", held by " : "", actor, doing);
  return opgap_pool_printf(a->pool, "%s%s%s", actor, actor[0] && doing[0] ? ": " : "", doing);
}
