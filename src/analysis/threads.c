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

/* A message of Python's multiprocessing is its length in 4 bytes, then as many. */
#define MESSAGE_HEADER 4u

static void follow_messages(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t pipe)
{
  if (t->work_pipe == 0 && t->first_poll_ns != 0)
    t->work_pipe = pipe + 1;
  if (t->work_pipe != pipe + 1 || r->field[1] != MESSAGE_HEADER)
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
                  uint32_t name, uint32_t flags)
{
  uint64_t ns = r->end_ns - r->start_ns;
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
  t->waits.all += ns;
  switch (hook->verb) {
  case VERB_MUTEX:
  case VERB_RWLOCK:
  case VERB_SEM:
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
  case VERB_SYNC:
  case VERB_STAT:
    if (flags & NAME_PIPE)
      add_pipe(t, hook, ns, name, flags);
    else
      t->waits.file += ns;
    break;
  default:
    break;
  }
  t->polled_ns = 0;
}

void threads_begin(struct analysis *a, struct thread *t, uint64_t at)
{
  if (t->samples.count == 0)
    timeline_sample(
        a, t,
        (struct past_sample){.end = at, .throttled = a->processes[t->process].throttled_ns, .blocked = OPGAP_UNKNOWN});
}

void threads_sample(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct thread *t = threads_of_tid(a, process, r->status);
  struct past_sample sample = {r->end_ns, r->field[0], r->field[1], a->processes[process].throttled_ns, OPGAP_UNKNOWN};
  if (t == NULL)
    return;
  if (t->samples.count > 0) {
    const struct past_sample *last = RING_AT(&t->samples, t->samples.count - 1);
    if (sample.end <= last->end || sample.run < last->run || sample.queue < last->queue ||
        sample.throttled < last->throttled)
      return; /* another thread with the same number */
  }
  timeline_sample(a, t, sample);
}

/* Time of t in hooked blocking calls; calls must not be forgotten there. */
static uint64_t blocked_in(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t sum = 0, at = start;
  for (size_t i = timeline_calls_from(t, start); i < t->calls.count; i++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (call->start >= end)
      break;
    if (!(a->processes[t->process].hooks[call->event].flags & OPGAP_EVENT_BLOCKING))
      continue;
    uint64_t from = call->start > at ? call->start : at, to = call->end < end ? call->end : end;
    if (to > from) {
      sum += to - from;
      at = to;
    }
  }
  return sum;
}

/* The totals of a running thread are as old as the scheduler's last tick: up to 10 ms (HZ=100). */
#define TICK_ERROR_NS 10000000u

/* The parts of the time outside blocking calls between two samples, as shares. */
struct shares {
  double queue, throttled, outside;
};

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

/* A call that the thread is still in has no record yet, and calls that wait for a GPU are not on the thread's own
 * stream: what is not known to be open time is then not divided, and only the ratio of running to waiting counts. */
static bool interval_shares(const struct analysis *a, const struct thread *t, size_t i, struct shares *shares)
{
  const struct past_sample *from = RING_AT(&t->samples, i - 1);
  struct past_sample *to = RING_AT(&t->samples, i);
  uint64_t run = to->run - from->run, queue = to->queue - from->queue, open = run + queue;
  bool all_known = !a->processes[t->process].uses_gpu && t->last_ns >= to->end && t->calls.forgotten <= from->end;
  if (all_known) {
    if (to->blocked == OPGAP_UNKNOWN)
      to->blocked = blocked_in(a, t, from->end, to->end);
    open = to->end - from->end - to->blocked;
  }
  if (open == 0)
    return false;
  queue = queue < open ? queue : open;
  uint64_t known = run + queue + TICK_ERROR_NS;
  double throttled = throttled_share(t, i);
  shares->queue = (double)queue * (1 - throttled) / (double)open;
  shares->throttled = (double)queue * throttled / (double)open;
  shares->outside = open > known ? (double)(open - known) / (double)open : 0;
  return true;
}

bool threads_off_cpu(const struct analysis *a, struct thread *t, uint64_t start, uint64_t end, struct off_cpu *off)
{
  double queue = 0, throttled = 0, outside = 0;
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
    double open = (double)(until - begin - blocked_in(a, t, begin, until));
    queue += shares.queue * open;
    throttled += shares.throttled * open;
    outside += shares.outside * open;
    any = true;
  }
  *off = (struct off_cpu){(uint64_t)queue, (uint64_t)throttled, (uint64_t)outside};
  return any;
}

/* Time of t in [start, end) outside of hooked blocking calls, as far as these are remembered. */
static uint64_t not_blocked(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  uint64_t known = t->calls.forgotten > start ? t->calls.forgotten : start;
  return end <= start ? 0 : end - start - (known < end ? blocked_in(a, t, known, end) : 0);
}

/* The growth of a total from the last sample before `start` to the first behind `end`, and what may lie outside of the
 * samples. */
static uint64_t grown_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end,
                              bool queue)
{
  size_t first = timeline_samples_from(t, start), last = timeline_samples_from(t, end - 1);
  uint64_t all = not_blocked(a, t, start, end);
  if (t->samples.count == 0)
    return all;
  first = first > 0 ? first - 1 : 0;
  last = last < t->samples.count ? last : t->samples.count - 1;
  const struct past_sample *from = RING_AT(&t->samples, first), *to = RING_AT(&t->samples, last);
  uint64_t sum = (queue ? to->queue - from->queue : to->run - from->run) + TICK_ERROR_NS;
  sum += not_blocked(a, t, start, from->end < end ? from->end : end);
  sum += not_blocked(a, t, to->end > start ? to->end : start, end);
  return sum < all ? sum : all;
}

static uint64_t in_life(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end, bool queue)
{
  uint64_t last = t->end_ns ? t->end_ns : a->processes[t->process].end_ns;
  start = t->born_ns > start ? t->born_ns : start;
  end = last != 0 && last < end ? last : end;
  return end <= start ? 0 : grown_at_most(a, t, start, end, queue);
}

uint64_t threads_ran_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  return in_life(a, t, start, end, false);
}

uint64_t threads_queued_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  return in_life(a, t, start, end, true);
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
