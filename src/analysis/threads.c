/* Threads: on a CPU, runnable without one, blocked.
 *
 * The flusher samples the scheduler's totals of each thread some ten times a second.  Between two samples the hooked
 * blocking calls say for how long the thread was blocked; what is left of the interval was spent on a CPU, in the run
 * queue (schedstat's wait time, of it what the cgroup's limit took), or off the CPU in something that is not hooked.  A
 * shorter stretch of the interval gets its share of each, so these parts are estimates. */
#include "analysis/internal.h"
#include "analysis/order.h"

#include <stdlib.h>
#include <string.h>

struct thread *threads_of_tid(struct analysis *a, unsigned process, uint64_t tid)
{
  uint32_t index = opgap_map_get(&a->processes[process].tids, tid, 0);
  return index ? &a->threads[index - 1] : NULL;
}

static void follow_messages(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t pipe)
{
  if (t->work_pipe == 0 && t->first_poll_ns != 0)
    t->work_pipe = pipe + 1;
  if (t->work_pipe != pipe + 1)
    return;
  t->ends += t->header && message_is_end(r->field[1]);
  t->header = r->field[1] == MESSAGE_HEADER;
  if (!t->header)
    return;
  t->messages++;
  if (!t->main)
    a->processes[t->process].pin_thread = (uint32_t)(t - a->threads) + 1;
}

/* Time in a call on a pipe or socket, and in the polls before it: of the work that is given to the thread, of the
 * network, or of a child process whose output it reads. */
static void add_pipe(struct thread *t, const struct hook *hook, uint64_t ns, uint32_t name, uint32_t flags)
{
  bool network = flags & NAME_SOCKET;
  bool other = network || (hook->verb != VERB_WRITE && t->work_pipe != 0 && t->work_pipe != name + 1);
  uint64_t polled = other && hook->verb == VERB_READ ? t->polled_ns : 0;
  uint64_t *waits = network ? &t->waits.network : other ? &t->waits.child : &t->waits.idle;
  t->waits.idle -= polled;
  *waits += ns + polled;
}

void threads_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                  uint64_t ns, uint32_t name, uint32_t flags)
{
  if (hook->verb == VERB_POLL && t->first_poll_ns == 0 && !(flags & NAME_SOCKET)) {
    t->first_poll_ns = r->start_ns;
    t->waits_before_poll = t->waits;
  }
  if (hook->verb == VERB_READ && (flags & (NAME_PIPE | NAME_SOCKET)) == NAME_PIPE)
    follow_messages(a, t, r, name);
  if (!analysis_in_window(a, r->end_ns)) {
    t->polled_ns = 0;
    return;
  }
  if (r->start_ns < a->window_start) /* what of it lies in the window, at most */
    ns = ns < r->end_ns - a->window_start ? ns : r->end_ns - a->window_start;
  t->waits.all += ns;
  switch (hook->verb) {
  case VERB_SEM: {
    const struct past_call *call = RING_AT(&t->calls, t->calls.count - 1); /* timeline_call put it there */
    bool slept = call->timed_out && call->waker == 0;
    *(slept ? &t->waits.sleep : &t->waits.lock) += ns;
    break;
  }
  case VERB_MUTEX:
  case VERB_RWLOCK:
  case VERB_FILE_LOCK:
    t->waits.lock += ns;
    break;
  case VERB_SLEEP:
    t->waits.sleep += ns;
    break;
  case VERB_POLL:
    if (flags & NAME_PIPE) {
      add_pipe(t, hook, ns, name, flags);
      break;
    }
    t->waits.idle += ns;
    t->polled_ns += ns;
    return;
  case VERB_CONNECT:
    t->waits.network += ns;
    break;
  case VERB_CHILD:
    t->waits.child += ns;
    break;
  case VERB_READ:
  case VERB_WRITE:
  case VERB_OPEN:
  case VERB_CLOSE:
  case VERB_FLUSH:
  case VERB_SYNC:
  case VERB_STAT:
  case VERB_MAP:
  case VERB_CHANGE:
    if (flags & NAME_PIPE) {
      add_pipe(t, hook, ns, name, flags);
      break;
    }
    t->waits.file += ns;
    t->waits.read_bytes += hook->verb == VERB_READ && r->status == 0 ? r->field[1] : 0;
    break;
  default:
    break;
  }
  t->polled_ns = 0;
}

void threads_pause_for_lock(struct thread *t, enum verb verb, uint64_t ns)
{
  uint64_t *told = verb == VERB_SLEEP ? &t->waits.sleep : &t->waits.idle;
  ns = ns < *told ? ns : *told; /* without calls inside it */
  *told -= ns;
  t->waits.lock += ns;
}

/* How many samples behind an interval may show that what it lacked was only counted later. */
#define LATER 3u

void threads_begin(struct analysis *a, struct thread *t, uint64_t at)
{
  if (t->samples.count == 0)
    timeline_sample(a, t,
                    (struct past_sample){.end = at,
                                         .throttled = a->processes[t->process].throttled_ns,
                                         .majors = a->processes[t->process].last_usage.majors,
                                         .blocked = OPGAP_UNKNOWN,
                                         .outside = OPGAP_UNKNOWN});
}

static void find_outside(const struct analysis *a, struct thread *t, size_t i);

void threads_sample(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct thread *t = threads_of_tid(a, process, r->status);
  const struct process *p = &a->processes[process];
  struct past_sample sample = {.end = r->end_ns,
                               .run = r->field[0],
                               .queue = r->field[1],
                               .throttled = p->throttled_ns,
                               .majors = p->last_usage.majors,
                               .blocked = OPGAP_UNKNOWN,
                               .outside = OPGAP_UNKNOWN};
  if (t == NULL)
    return;
  if (t->samples.count > 0) {
    const struct past_sample *last = RING_AT(&t->samples, t->samples.count - 1);
    if (sample.end <= last->end || sample.run < last->run || sample.queue < last->queue ||
        sample.throttled < last->throttled || sample.majors < last->majors)
      return; /* another thread with the same number */
  }
  timeline_sample(a, t, sample);
  if (t->samples.count > LATER + 1) /* while its calls are remembered */
    find_outside(a, t, t->samples.count - 1 - LATER);
}

/* Time of t in hooked blocking calls; calls must not be forgotten there. */
static uint64_t blocked_in(const struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t sum = 0, at = start;
  for (size_t i = timeline_calls_from(t, start); i < t->calls.count; i++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (call->start >= end)
      break;
    if (!call->blocks)
      continue;
    uint64_t from = call->start > at ? call->start : at, to = call->end < end ? call->end : end;
    if (to > from) {
      sum += to - from;
      at = to;
    }
  }
  return sum;
}

/* The totals of a running thread are as old as the scheduler's last tick: up to 10 ms (HZ=100).  What they lack in one
 * interval they have in a later one, so of many intervals they are wrong by this much once. */
#define TICK_ERROR_NS 10000000u
/* A page that is read from a disk takes no longer: a seek of a rotating disk and some before it in its queue. */
#define MAJOR_FAULT_NS 20000000u

/* The parts of the time outside blocking calls between two samples, as shares. */
struct shares {
  double queue, throttled, outside, faults;
};

/* A thread that runs for so long is not in a call that it makes no record of. */
#define RUNS_NS 1000000u

/* Are all hooked calls between sample i - 1 and sample i known?  A call that the thread is still in has no record yet,
 * unless all records are read and it ran behind sample i: a thread of a team may not make one for all its life.  Calls
 * that wait for a GPU are not on the thread's own stream; and between two windows none is recorded. */
static bool calls_known(const struct analysis *a, const struct thread *t, size_t i)
{
  const struct process *p = &a->processes[t->process];
  const struct past_sample *to = RING_AT(&t->samples, i), *last = RING_AT(&t->samples, t->samples.count - 1);
  bool ended = t->last_ns >= to->end || (p->end_ns != 0 && last->run >= to->run + RUNS_NS);
  uint64_t from = RING_AT(&t->samples, i - 1)->end;
  return !p->uses_gpu && ended && t->calls.forgotten <= from && !windows_off_within(p, from, to->end);
}

/* Of interval i the time outside of hooked blocking calls; its calls are known. */
static uint64_t open_ns(const struct thread *t, size_t i)
{
  const struct past_sample *from = RING_AT(&t->samples, i - 1);
  struct past_sample *to = RING_AT(&t->samples, i);
  if (to->blocked == OPGAP_UNKNOWN)
    to->blocked = blocked_in(t, from->end, to->end);
  return to->end - from->end - to->blocked;
}

/* What of that the scheduler's totals do not say; less than 0: they say more, as they caught up. */
static int64_t untold_ns(const struct thread *t, size_t i)
{
  const struct past_sample *from = RING_AT(&t->samples, i - 1), *to = RING_AT(&t->samples, i);
  return (int64_t)open_ns(t, i) - (int64_t)(to->run - from->run) - (int64_t)(to->queue - from->queue);
}

/* A wait for a CPU is counted when it ends, so what the totals lack now they may have at one of the next samples; and
 * what is left may be the age of a running thread's.  The rest is time off the CPU, no more of it than there was. */
static void outside_of(const struct analysis *a, const struct thread *t, size_t i)
{
  const struct past_sample *from = RING_AT(&t->samples, i - 1);
  struct past_sample *to = RING_AT(&t->samples, i);
  int64_t untold = untold_ns(t, i), sum = 0, least = 0;
  for (size_t k = i + 1; k <= i + LATER && k < t->samples.count && calls_known(a, t, k); k++) {
    sum += untold_ns(t, k);
    least = sum < least ? sum : least;
  }
  uint64_t slack = from->outside == OPGAP_UNKNOWN ? TICK_ERROR_NS : from->slack;
  uint64_t told_later = untold > 0 ? (uint64_t)-least : 0;
  uint64_t missing = untold > 0 && (uint64_t)untold > told_later ? (uint64_t)untold - told_later : 0;
  uint64_t caught_up = untold < 0 ? (uint64_t)-untold : 0;
  to->outside = missing > slack ? missing - slack : 0;
  slack = slack - (missing - to->outside) + caught_up;
  to->slack = slack < TICK_ERROR_NS ? slack : TICK_ERROR_NS;
}

/* Sets `outside` of sample i and, in their order, of those before it that have none yet, where that can be known. */
static void find_outside(const struct analysis *a, struct thread *t, size_t i)
{
  size_t first = i + 1;
  while (first > 1 && RING_AT(&t->samples, first - 1)->outside == OPGAP_UNKNOWN && calls_known(a, t, first - 1))
    first--;
  for (size_t k = first; k <= i; k++)
    outside_of(a, t, k);
}

/* Of the waiting for a CPU in interval i, what the cgroup's limit did.  The kernel counts both when the wait ends, but
 * not in the same order as it is sampled, so the neighbours on both sides are taken together. */
#define NEIGHBOURS 3u
static double throttled_share(const struct thread *t, size_t i)
{
  size_t first = i > NEIGHBOURS ? i - 1 - NEIGHBOURS : 0;
  size_t last = i + NEIGHBOURS < t->samples.count ? i + NEIGHBOURS : t->samples.count - 1;
  const struct past_sample *from = RING_AT(&t->samples, first), *to = RING_AT(&t->samples, last);
  uint64_t queue = to->queue - from->queue, throttled = to->throttled - from->throttled;
  return queue == 0 ? 0 : throttled >= queue ? 1 : (double)throttled / (double)queue;
}

/* Where the calls are not known, the time open to them is not divided: only the ratio of running to waiting counts. */
static bool interval_shares(const struct analysis *a, struct thread *t, size_t i, struct shares *shares)
{
  const struct past_sample *from = RING_AT(&t->samples, i - 1), *to = RING_AT(&t->samples, i);
  uint64_t run = to->run - from->run, queue = to->queue - from->queue, open = run + queue, outside = 0;
  if (to->outside == OPGAP_UNKNOWN)
    find_outside(a, t, i);
  if (to->outside != OPGAP_UNKNOWN) {
    open = to->end - from->end - to->blocked;
    outside = to->outside;
  }
  if (open == 0)
    return false;
  uint64_t faults = (to->majors - from->majors) * MAJOR_FAULT_NS;
  queue = queue < open ? queue : open;
  double throttled = throttled_share(t, i);
  shares->queue = (double)queue * (1 - throttled) / (double)open;
  shares->throttled = (double)queue * throttled / (double)open;
  shares->outside = (double)outside / (double)open;
  shares->faults = (double)(faults < outside ? faults : outside) / (double)open;
  return true;
}

bool threads_off_cpu(const struct analysis *a, struct thread *t, uint64_t start, uint64_t end, struct off_cpu *off)
{
  double queue = 0, throttled = 0, outside = 0, faults = 0;
  bool any = false;
  for (size_t i = timeline_samples_from(t, start); i < t->samples.count; i++) {
    if (i == 0)
      continue;
    const struct past_sample *from = RING_AT(&t->samples, i - 1), *to = RING_AT(&t->samples, i);
    struct shares shares;
    if (from->end >= end)
      break;
    uint64_t begin = from->end > start ? from->end : start, until = to->end < end ? to->end : end;
    if (until <= begin || !interval_shares(a, t, i, &shares))
      continue;
    double open = (double)(until - begin - blocked_in(t, begin, until));
    queue += shares.queue * open;
    throttled += shares.throttled * open;
    outside += shares.outside * open;
    faults += shares.faults * open;
    any = true;
  }
  *off = (struct off_cpu){(uint64_t)queue, (uint64_t)throttled, (uint64_t)outside, (uint64_t)faults};
  return any;
}

/* ---- waiting in a loop ---- */

void threads_yields(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  uint64_t calls = r->field[0], timed = r->field[3], time_ns = r->field[4];
  /* a count is written where it has changed since the flusher's round before, as of a thread that runs a sample is */
  uint64_t round = t->samples.count > 1 ? RING_AT(&t->samples, t->samples.count - 2)->end : t->born_ns;
  uint64_t start = t->yielded.at > round ? t->yielded.at : round;
  if (timed > 0 && calls > t->yielded.calls && r->end_ns > start) {
    double ns = (double)(calls - t->yielded.calls) * ((double)time_ns / (double)timed);
    uint64_t most = r->end_ns - start;
    timeline_yields(a, t, (struct past_yields){start, r->end_ns, ns < (double)most ? (uint64_t)ns : most});
  }
  t->yielded.calls = calls;
  t->yielded.at = r->end_ns;
}

uint64_t threads_yield_ns(const struct thread *t, uint64_t start, uint64_t end)
{
  double sum = 0;
  for (size_t i = t->yields.count; i-- > 0;) {
    const struct past_yields *yields = RING_AT(&t->yields, i);
    if (yields->end <= start)
      break;
    uint64_t from = yields->start > start ? yields->start : start, to = yields->end < end ? yields->end : end;
    if (to <= from)
      continue;
    uint64_t open = yields->end - yields->start - blocked_in(t, yields->start, yields->end);
    double share = open > 0 ? (double)yields->ns / (double)open : 0;
    sum += (share < 1 ? share : 1) * (double)(to - from - blocked_in(t, from, to));
  }
  return (uint64_t)sum;
}

/* Hardly ever in hooked blocking calls: what it waits for it waits for elsewhere. */
static bool may_be_of_team(const struct analysis *a, const struct thread *t)
{
  uint64_t end = t->end_ns ? t->end_ns : a->processes[t->process].end_ns;
  return 2 * t->waits.all < (end > t->born_ns ? end - t->born_ns : 0);
}

/* Another thread of the process of t, which is one of a team by what it does. */
static bool is_teammate(const struct analysis *a, const struct thread *t, const struct thread *other)
{
  return other != t && other->process == t->process &&
         a->processes[t->process].info->streams[other->stream].kind == OPGAP_STREAM_THREAD && may_be_of_team(a, other);
}

struct team_wait threads_team_wait(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end,
                                   uint64_t outside)
{
  uint64_t all_run = 0, all_queue = 0;
  for (unsigned i = 0; outside > 0 && i < a->thread_count; i++) {
    const struct thread *other = &a->threads[i];
    const struct past_sample *from, *to;
    if (!is_teammate(a, t, other) || !timeline_samples_around(other, start, end, &from, &to))
      continue;
    all_run += to->run - from->run;
    all_queue += to->queue - from->queue;
  }
  uint64_t all = all_run + all_queue, told = outside < all ? outside : all;
  if (all == 0)
    return (struct team_wait){0};
  uint64_t for_cpu = (uint64_t)((double)told * (double)all_queue / (double)all);
  return (struct team_wait){for_cpu, told - for_cpu};
}

/* Time of t in [start, end) outside of hooked blocking calls, as far as these are remembered. */
static uint64_t not_blocked(const struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t known = t->calls.forgotten > start ? t->calls.forgotten : start;
  return end <= start ? 0 : end - start - (known < end ? blocked_in(t, known, end) : 0);
}

/* The growth of a total from the last sample before `start` to the first behind `end`, and what may lie outside of the
 * samples. */
static uint64_t grown_at_most(const struct thread *t, uint64_t start, uint64_t end, bool queue)
{
  size_t first = timeline_samples_from(t, start), last = timeline_samples_from(t, end - 1);
  uint64_t all = not_blocked(t, start, end);
  if (t->samples.count == 0)
    return all;
  first = first > 0 ? first - 1 : 0;
  last = last < t->samples.count ? last : t->samples.count - 1;
  const struct past_sample *from = RING_AT(&t->samples, first), *to = RING_AT(&t->samples, last);
  uint64_t sum = (queue ? to->queue - from->queue : to->run - from->run) + TICK_ERROR_NS;
  sum += not_blocked(t, start, from->end < end ? from->end : end);
  sum += not_blocked(t, to->end > start ? to->end : start, end);
  return sum < all ? sum : all;
}

static uint64_t in_life(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end, bool queue)
{
  const struct process *p = &a->processes[t->process];
  uint64_t last = t->end_ns ? t->end_ns : p->end_ns;
  uint64_t born = t->pthread ? t->born_ns : p->info->start_ns; /* one that did not tell its start was there before */
  start = born > start ? born : start;
  end = last != 0 && last < end ? last : end;
  return end <= start ? 0 : grown_at_most(t, start, end, queue);
}

uint64_t threads_ran_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  return in_life(a, t, start, end, false);
}

uint64_t threads_queued_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  return in_life(a, t, start, end, true);
}

uint64_t threads_ran_at_least(const struct thread *t, uint64_t start, uint64_t end)
{
  size_t first = timeline_samples_from(t, start), behind = timeline_samples_from(t, end);
  if (behind <= first + 1)
    return 0;
  const struct past_sample *from = RING_AT(&t->samples, first), *to = RING_AT(&t->samples, behind - 1);
  uint64_t run = to->run - from->run;
  return run > TICK_ERROR_NS ? run - TICK_ERROR_NS : 0; /* of what `from` lacks some was before it */
}

/* One that runs for a hundredth of the time is no reason for the others to wait. */
bool threads_has_team(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  for (unsigned i = 0; i < a->thread_count; i++) {
    const struct past_sample *from, *to;
    if (is_teammate(a, t, &a->threads[i]) && timeline_samples_around(&a->threads[i], start, end, &from, &to) &&
        100 * (to->run - from->run) >= end - start)
      return true;
  }
  return false;
}

static void fill(struct analysis *a, const struct thread *t, struct opgap_sum_thread *row)
{
  const struct process *p = &a->processes[t->process];
  uint64_t end = t->end_ns ? t->end_ns : p->end_ns;
  *row = (struct opgap_sum_thread){.pid = p->info->pid,
                                   .tid = t->tid,
                                   .name = analysis_text(a, t->name),
                                   .process = p->label,
                                   .life_ns = end > t->born_ns ? end - t->born_ns : 0,
                                   .run_ns = OPGAP_UNKNOWN,
                                   .queue_ns = OPGAP_UNKNOWN,
                                   .sampled_ns = OPGAP_UNKNOWN,
                                   .blocked_ns = t->waits.all,
                                   .file_ns = t->waits.file,
                                   .lock_ns = t->waits.lock,
                                   .sleep_ns = t->waits.sleep};
  if (t->samples.count < 2)
    return;
  const struct past_sample *first = RING_AT(&t->samples, 0), *last = RING_AT(&t->samples, t->samples.count - 1);
  row->run_ns = last->run - first->run;
  row->queue_ns = last->queue - first->queue;
  row->sampled_ns = last->end - first->end;
}

void threads_finish(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  s->threads = opgap_pool_alloc(a->pool, a->thread_count * sizeof *s->threads);
  for (unsigned i = 0; i < a->thread_count; i++) {
    const struct thread *t = &a->threads[i];
    const struct process *p = &a->processes[t->process];
    if (p->included && p->info->streams[t->stream].kind == OPGAP_STREAM_THREAD)
      fill(a, t, &s->threads[s->thread_count++]);
  }
  order_rows(s->threads, s->thread_count, sizeof *s->threads, order_threads);
}
