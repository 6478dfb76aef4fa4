/* The DataLoader: what its workers did, and how many batches were ready when the trainer asked for one.
 *
 * A batch is one message of a worker to its result pipe.  Ready batches are messages sent less batches fetched; where
 * batches come out of order, or a pipe serves several epochs, this is an estimate, set right at each fetch that had to
 * wait.
 *
 * With pinned memory a thread of the trainer takes the messages from the pipe and hands them on: it is the thread that
 * reads the workers' pipe and is not the main one. */
#include "analysis/internal.h"
#include "analysis/stacks.h"

#include <stdlib.h>
#include <string.h>

static uint64_t less(uint64_t from, uint64_t what)
{
  return from > what ? from - what : 0;
}

static size_t epoch_of(struct fetches *f, uint32_t pipe)
{
  for (size_t i = f->epochs.count; i-- > 0;)
    if (f->epochs.at[i].pipe == pipe)
      return i;
  VEC_PUSH(&f->epochs)->pipe = pipe;
  return f->epochs.count - 1;
}

static void add_to_epoch(struct analysis *a, struct fetches *f, uint64_t end_ns, uint64_t waited_ns)
{
  size_t place = epoch_of(f, f->pipe);
  struct epoch *epoch = &f->epochs.at[place];
  epoch->last_end_ns = end_ns;
  if (epoch->first_end_ns == 0) {
    epoch->first_end_ns = end_ns;
    epoch->first_wait_ns = waited_ns;
  }
  if (!analysis_in_window(a, end_ns))
    return;
  epoch->count++;
  epoch->waited_ns += waited_ns;
}

/* How many batches the pin-memory thread had done that the trainer had not fetched. */
static void add_pinned(const struct analysis *a, struct process *p, uint64_t waited_ns)
{
  struct fetches *f = &p->fetches;
  const struct thread *t = p->pin_thread ? &a->threads[p->pin_thread - 1] : NULL;
  if (t == NULL || t->work_pipe != f->pipe + 1)
    return;
  f->pinned_fetches++;
  f->pinned += waited_ns > 0 || t->messages <= f->taken ? 0 : t->messages - f->taken;
}

/* Workers that stay tell the start of each epoch but the first with a message each. */
static uint64_t writers_of(const struct analysis *a, uint32_t pipe)
{
  uint64_t count = 0;
  for (unsigned i = 0; i < a->process_count; i++)
    count += opgap_map_get(&a->pipe_writers, pipe, i) != 0;
  return count;
}

/* What came through the pipe by the time of a fetch, since the one before. */
struct arrived {
  uint64_t messages, ends; /* without those that tell the start of an epoch; ends: of these, as long as an end */
  bool pinned;             /* by the pin-memory thread */
  bool outside;            /* the main thread read before the fetch began: starts, or what is left of a broken epoch */
};

static struct arrived arrived(const struct analysis *a, const struct process *p, struct fetches *f,
                              struct next_calls calls)
{
  const struct thread *pin = p->pin_thread ? &a->threads[p->pin_thread - 1] : NULL;
  struct arrived arrived = {calls.messages, calls.ends, false, f->read > f->seen + calls.messages};
  uint64_t starts = f->ended ? writers_of(a, f->pipe) : 0;
  f->seen = f->read;
  f->taken += starts;
  if (pin == NULL || pin->work_pipe != f->pipe + 1)
    return arrived;
  arrived.pinned = true;
  arrived.messages += less(pin->messages, f->pin_messages + starts);
  arrived.ends += pin->ends - f->pin_ends;
  f->pin_messages = pin->messages;
  f->pin_ends = pin->ends;
  return arrived;
}

static void count_batch(struct analysis *a, struct process *p, const struct doubtful_fetch *fetch)
{
  struct fetches *f = &p->fetches;
  if (f->pipe)
    add_to_epoch(a, f, fetch->end, fetch->waited_ns);
  if (analysis_in_window(a, fetch->end)) {
    f->count++;
    f->waited += fetch->waited_ns > 0;
    f->waited_ns += fetch->waited_ns;
    if (f->pipe) {
      struct depth *depth = VEC_PUSH(&f->depths);
      depth->at = fetch->at;
      depth->epoch = (uint32_t)epoch_of(f, f->pipe);
      depth->ready = fetch->waited_ns > 0 || fetch->sent <= f->taken ? 0 : (uint32_t)(fetch->sent - f->taken);
      add_pinned(a, p, fetch->waited_ns);
    }
  }
  f->taken = fetch->waited_ns > 0 || f->taken + 1 > fetch->sent ? fetch->sent : f->taken + 1;
}

/* The last fetch gave a batch nevertheless, if this one is of the same epoch.  Where windows hide what lies between
 * them a step must have followed, which only a batch can have begun. */
static void settle_doubt(struct analysis *a, struct process *p, bool same_epoch)
{
  struct fetches *f = &p->fetches;
  if (f->doubtful.at != 0 && same_epoch && (p->opened.count == 0 || p->steps_seen > f->doubtful.steps)) {
    f->ended = false;
    count_batch(a, p, &f->doubtful);
  }
  f->doubtful = (struct doubtful_fetch){0};
}

/* Did this fetch give a batch?  The last one of an epoch finds no message left but the ends of an IterableDataset, or
 * ends the workers, and raises StopIteration. */
static bool gave_batch(struct fetches *f, struct next_calls calls, struct arrived arrived)
{
  if (arrived.outside)
    f->left = 0;
  f->left += arrived.messages - (f->alike ? 0 : arrived.ends);
  f->ended = f->pipe != 0 && (calls.reaped || f->left == 0);
  f->left = f->ended ? 0 : less(f->left, 1);
  return !f->ended;
}

void loader_fetch(struct analysis *a, struct thread *t, const struct opgap_record *r, struct next_calls calls,
                  uint64_t waited_ns)
{
  struct process *p = &a->processes[t->process];
  struct fetches *f = &p->fetches;
  uint32_t pipe = calls.pipe;
  if (pipe == 0 && p->pin_thread != 0)
    pipe = a->threads[p->pin_thread - 1].work_pipe - 1;
  if (pipe != 0 && pipe != f->pipe) {
    f->doubtful = (struct doubtful_fetch){0};
    f->pipe = pipe;
    f->taken = f->left = f->pin_messages = f->pin_ends = 0;
    f->ended = f->alike = false;
  }
  bool same_epoch = f->read <= f->seen + calls.messages;
  f->alike |= f->doubtful.ends && same_epoch && calls.messages > 0;
  settle_doubt(a, p, same_epoch);
  struct arrived came = arrived(a, p, f, calls);
  struct doubtful_fetch fetch = {
      .at = r->start_ns, .end = r->end_ns, .waited_ns = waited_ns, .steps = p->steps_seen, .ends = came.ends > 0};
  fetch.sent = f->pipe ? timeline_writes(a, f->pipe) : 0;
  bool gave = gave_batch(f, calls, came);
  if (analysis_in_window(a, r->end_ns))
    f->ns += r->end_ns - r->start_ns;
  if (gave) {
    count_batch(a, p, &fetch);
    return;
  }
  if (f->epochs.count > 0 && f->epochs.at[f->epochs.count - 1].pipe == f->pipe)
    f->epochs.at[f->epochs.count - 1].last_end_ns = r->end_ns;
  if (!calls.reaped && !came.pinned)
    f->doubtful = fetch;
}

static int by_start(const void *left, const void *right)
{
  const struct opgap_sum_worker *l = left, *r = right;
  return l->start_ns != r->start_ns ? (l->start_ns < r->start_ns ? -1 : 1) : l->pid - r->pid;
}

static struct thread *main_thread(const struct analysis *a, const struct process *p)
{
  return p->main_thread == UINT32_MAX ? NULL : &a->threads[p->main_thread];
}

/* When a process asked for its first index, as far as is known: else it is taken to be ready at once. */
static uint64_t ready_at(const struct analysis *a, const struct process *p)
{
  const struct thread *t = main_thread(a, p);
  if (t == NULL || (t->first_poll_ns == 0 && t->first_op_ns == 0))
    return p->info->start_ns;
  return t->first_poll_ns ? t->first_poll_ns : t->first_op_ns;
}

/* OPGAP_UNKNOWN where not all of it was recorded: then that it asked for an index before may not have been seen. */
static uint64_t startup_of(const struct analysis *a, const struct process *p)
{
  uint64_t start = p->info->start_ns, ready = ready_at(a, p), ns = less(ready, start);
  bool all = p->info->kept_from_ns == 0 && start >= a->window_start && windows_on_between(p, start, ready) == ns;
  return all && ns > 0 ? ns : OPGAP_UNKNOWN;
}

/* Was anything recorded of this thread?  A schedule may leave out all of it. */
static bool was_recorded(const struct thread *t)
{
  return t->calls.count > 0 || t->first_op_ns != 0 || t->first_poll_ns != 0;
}

/* What the scheduler's samples add to a worker's times. */
static void add_off_cpu(struct analysis *a, struct thread *t, uint64_t begin, uint64_t end,
                        struct opgap_sum_worker *row)
{
  const struct past_sample *from, *to;
  struct off_cpu off;
  if (!timeline_samples_around(t, begin, end, &from, &to))
    return;
  row->queue_ns = to->queue - from->queue;
  if (!threads_off_cpu(a, t, begin, end, &off))
    return;
  row->file_ns += off.faults; /* of mapped files */
  row->queue_ns += threads_team_wait(a, t, begin, end, off.outside - off.faults).queue;
}

/* The same where only parts of that time were recorded: the samples go on between them, and their calls are unknown. */
static void add_parts_off_cpu(struct analysis *a, const struct process *p, struct thread *t, uint64_t begin,
                              uint64_t end, struct opgap_sum_worker *row)
{
  uint64_t at = begin;
  for (size_t i = 0; i <= p->off.count && at < end; i++) {
    uint64_t until = i < p->off.count && p->off.at[i].start < end ? p->off.at[i].start : end;
    struct off_cpu off;
    if (until > at && threads_off_cpu(a, t, at, until, &off)) {
      uint64_t queue = off.queue + off.throttled + threads_team_wait(a, t, at, until, off.outside - off.faults).queue;
      row->file_ns += off.faults;
      row->queue_ns = queue + (row->queue_ns == OPGAP_UNKNOWN ? 0 : row->queue_ns);
    }
    at = i < p->off.count && p->off.at[i].end > at ? p->off.at[i].end : at;
  }
}

static void fill(struct analysis *a, unsigned process, struct opgap_sum_worker *row)
{
  const struct process *p = &a->processes[process];
  struct thread *t = main_thread(a, p);
  uint64_t ready = ready_at(a, p);
  *row = (struct opgap_sum_worker){.pid = p->info->pid,
                                   .worker = p->worker,
                                   .label = p->label,
                                   .source_location = "",
                                   .start_ns = p->info->start_ns - a->start_ns,
                                   .startup_ns = startup_of(a, p),
                                   .busy_ns = OPGAP_UNKNOWN,
                                   .idle_ns = OPGAP_UNKNOWN,
                                   .file_ns = OPGAP_UNKNOWN,
                                   .lock_ns = OPGAP_UNKNOWN,
                                   .sleep_ns = OPGAP_UNKNOWN,
                                   .network_ns = OPGAP_UNKNOWN,
                                   .child_ns = OPGAP_UNKNOWN,
                                   .batches = opgap_map_get(&a->window_writes, p->result_pipe, process),
                                   .queue_ns = OPGAP_UNKNOWN};
  if (t == NULL || !was_recorded(t))
    return;
  const struct thread_waits *all = &t->waits, *before = &t->waits_before_poll; /* before: start-up */
  row->idle_ns = all->idle - before->idle;
  uint64_t begin = ready > a->window_start ? ready : a->window_start;
  uint64_t end = p->end_ns < a->window_end ? p->end_ns : a->window_end;
  row->busy_ns = less(windows_on_between(p, begin, end), row->idle_ns);
  row->file_ns = all->file - before->file;
  row->read_bytes = all->read_bytes - before->read_bytes;
  row->lock_ns = all->lock - before->lock;
  row->sleep_ns = all->sleep - before->sleep;
  row->network_ns = all->network - before->network;
  row->child_ns = all->child - before->child;
  if (windows_off_within(p, begin, end))
    add_parts_off_cpu(a, p, t, begin, end, row);
  else
    add_off_cpu(a, t, begin, end, row);
  if (row->queue_ns != OPGAP_UNKNOWN && row->queue_ns > row->busy_ns)
    row->queue_ns = row->busy_ns; /* it also waits for a CPU when it has been given an index: that is idle time */
}

/* Not what a worker does while it waits for its next index. */
static bool is_idle(struct analysis *a, const struct thread *t, uint32_t event)
{
  const struct process *p = &a->processes[t->process];
  const struct past_call *last = t->calls.count ? RING_AT(&t->calls, t->calls.count - 1) : NULL;
  if (event >= OPGAP_MAX_EVENTS || p->hooks[event].name == 0)
    return false;
  return p->hooks[event].verb == VERB_POLL || (last != NULL && last->event == event && last->named &&
                                               analysis_name_flags(a, (uint32_t)last->object) & NAME_PIPE);
}

/* Of Python's own library, or of an installed package. */
static bool is_library(const char *frame)
{
  return frame[0] == '<' || strstr(frame, "/lib/python") != NULL || strstr(frame, "/site-packages/") != NULL ||
         strstr(frame, "/dist-packages/") != NULL;
}

/* The innermost frame of the program's own code in a worker's loop, else the innermost of all; 0: none.  Outside of the
 * loop a forked worker's stack is its parent's. */
#define PLACE_FRAMES 64u
static uint32_t own_frame(struct analysis *a, unsigned process, const char *stack, size_t length)
{
  uint64_t frames[PLACE_FRAMES];
  unsigned count = opgap_stack_python(stack, length, frames, PLACE_FRAMES);
  for (unsigned i = 0; i < count; i++) {
    uint32_t frame = analysis_gid(a, process, frames[i]);
    const char *text = analysis_text(a, frame);
    if (strstr(text, "/torch/utils/data/_utils/worker.py:") != NULL)
      break;
    if (!is_library(text))
      return frame;
  }
  return count ? analysis_gid(a, process, frames[0]) : 0;
}

void loader_stack(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  size_t length = 0;
  if (!t->main || r->depth > 0 || !analysis_in_window(a, r->end_ns) || is_idle(a, t, r->status))
    return;
  const char *stack = a->source->name(a->source->context, t->process, r->field[0], &length);
  uint32_t frame = own_frame(a, t->process, stack, length);
  if (frame != 0)
    ops_place_add(&a->called_from, t->process, frame, r->field[1]);
}

/* Where a worker's ops and calls came from, most of all. */
static void fill_place(struct analysis *a, unsigned process, struct opgap_sum_worker *row)
{
  for (size_t i = 0; i < a->called_from.rows.count; i++) {
    const struct op_place *place = &a->called_from.rows.at[i];
    if (place->row != process || place->ns <= row->source_ns)
      continue;
    row->source_ns = place->ns;
    row->source_location = analysis_text(a, place->text);
  }
}

/* What the trainers' waits were charged to: the worker, and whether it was still starting. */
static void charge(struct analysis *a, const struct gap_table *table)
{
  struct opgap_sum_loader *loader = &a->summary->loader;
  for (size_t i = 0; i < table->rows.count; i++) {
    const struct cause_row *row = &table->rows.at[i];
    if (row->key.cause != OPGAP_CAUSE_DATA_LOADING)
      continue;
    if (row->key.doing == DOING_START)
      loader->startup_wait_ns += row->ns;
    for (size_t k = 0; row->key.process != UINT32_MAX && k < loader->worker_count; k++)
      if (loader->worker[k].pid == a->processes[row->key.process].info->pid)
        loader->worker[k].awaited_ns += row->ns;
  }
}

static void depths(struct opgap_sum_loader *loader, const struct fetches *f)
{
  uint64_t sum = 0, counts[OPGAP_DEPTH_CHUNKS] = {0};
  double sums[OPGAP_DEPTH_CHUNKS] = {0};
  if (f->depths.count == 0)
    return;
  uint64_t first = f->depths.at[0].at, span = f->depths.at[f->depths.count - 1].at - first + 1;
  loader->depth_start_ns = first;
  loader->depth_chunk_ns = span / OPGAP_DEPTH_CHUNKS + 1;
  for (size_t i = 0; i < f->depths.count; i++) {
    uint64_t chunk = (f->depths.at[i].at - first) / loader->depth_chunk_ns;
    sum += f->depths.at[i].ready;
    sums[chunk] += f->depths.at[i].ready;
    counts[chunk]++;
  }
  loader->depth = (double)sum / (double)f->depths.count;
  for (unsigned i = 0; i < OPGAP_DEPTH_CHUNKS; i++)
    loader->depths[i] = counts[i] ? sums[i] / (double)counts[i] : -1;
}

/* Messages of workers in this pipe. */
static uint64_t sent_by_workers(const struct analysis *a, uint32_t pipe)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].role == OPGAP_ROLE_WORKER)
      sum += opgap_map_get(&a->pipe_writers, pipe, i);
  return sum;
}

/* The threads of the trainer that read from its workers' pipes, one for each time that workers were made. */
static void fill_pin_threads(const struct analysis *a, unsigned trainer, struct opgap_sum_loader *loader)
{
  for (unsigned i = 0; i < a->thread_count; i++) {
    const struct thread *t = &a->threads[i];
    const struct process *p = &a->processes[t->process];
    bool pins = false;
    for (size_t k = 0; t->process == trainer && !t->main && t->messages > 0 && k < p->fetches.epochs.count; k++)
      pins = pins || p->fetches.epochs.at[k].pipe + 1 == t->work_pipe;
    if (!pins)
      continue;
    uint64_t end = t->end_ns ? t->end_ns : t->last_ns;
    loader->pin_threads++;
    uint64_t sent = sent_by_workers(a, t->work_pipe - 1); /* the last message may be the trainer's: the end */
    loader->pin_batches += t->messages < sent ? t->messages : sent;
    loader->pin_wait_ns += t->waits.idle;
    loader->pin_busy_ns += less(end, t->born_ns + t->waits.all);
  }
}

/* Is the first fetch that was seen of workers made at `start` their first one, and in the window? */
static bool first_was_recorded(const struct analysis *a, const struct process *trainer, uint64_t start, uint64_t end)
{
  return analysis_in_window(a, end) && trainer->window_steps == 0 && trainer->info->kept_from_ns == 0 &&
         windows_on_between(trainer, start, end) == less(end, start);
}

static void fill_epochs(struct analysis *a, unsigned trainer, struct opgap_sum_loader *loader)
{
  const struct fetches *f = &a->processes[trainer].fetches;
  loader->epochs = opgap_pool_alloc(a->pool, f->epochs.count * sizeof *loader->epochs);
  for (size_t i = 0; i < f->epochs.count; i++) {
    const struct epoch *from = &f->epochs.at[i];
    struct opgap_sum_epoch *row = &loader->epochs[loader->epoch_count];
    uint64_t start = UINT64_MAX;
    *row = (struct opgap_sum_epoch){.startup_ns = OPGAP_UNKNOWN, .fetches = from->count, .await_ns = from->waited_ns};
    for (unsigned k = 0; k < a->process_count; k++) {
      const struct process *p = &a->processes[k];
      if (p->role != OPGAP_ROLE_WORKER || p->result_pipe != from->pipe)
        continue;
      uint64_t startup = startup_of(a, p);
      row->workers++;
      if (startup != OPGAP_UNKNOWN && (row->startup_ns == OPGAP_UNKNOWN || startup > row->startup_ns))
        row->startup_ns = startup;
      start = p->info->start_ns < start ? p->info->start_ns : start;
    }
    if (row->workers == 0 || row->fetches == 0)
      continue;
    row->start_ns = less(start, a->start_ns);
    bool first = first_was_recorded(a, &a->processes[trainer], start, from->first_end_ns);
    row->first_batch_ns = first ? less(from->first_end_ns, start) : OPGAP_UNKNOWN;
    row->first_wait_ns = first ? from->first_wait_ns : OPGAP_UNKNOWN;
    loader->epoch_count++;
  }
}

/* Workers that were made at one time, as far as that tells whose they are. */
struct made {
  const struct epoch *epoch;
  unsigned workers;
  uint64_t end_ns; /* of the last of them */
  bool trained;    /* a step ended after one of its batches and before another loader's */
};

static void mark_trained(const struct analysis *a, const struct fetches *f, struct made *made)
{
  const struct opgap_sum_steps *steps = &a->summary->steps;
  size_t next = 0;
  for (size_t i = 0; i < steps->count; i++) {
    uint64_t end = a->start_ns + steps->start_ns[i] + steps->durations_ns[i];
    while (next < f->depths.count && f->depths.at[next].at < end)
      next++;
    if (next > 0)
      made[f->depths.at[next - 1].epoch].trained = true;
  }
}

/* Are the later ones a loader's that had the earlier ones?  A loader for training and one for validation have workers
 * one after the other as well, and make them each time; but none of them trains with the batches of both, and as a rule
 * they have different numbers of batches. */
static bool made_again(const struct made *earlier, const struct made *later)
{
  return earlier->workers == later->workers && earlier->trained == later->trained &&
         (earlier->trained || earlier->epoch->count == later->epoch->count) &&
         earlier->epoch->last_end_ns <= later->epoch->first_end_ns && earlier->end_ns <= later->epoch->last_end_ns;
}

static void count_made(struct analysis *a, unsigned trainer)
{
  const struct fetches *f = &a->processes[trainer].fetches;
  struct made *made = opgap_xcalloc(f->epochs.count + 1, sizeof *made);
  for (size_t i = 0; i < f->epochs.count; i++) {
    made[i].epoch = &f->epochs.at[i];
    for (unsigned k = 0; k < a->process_count; k++) {
      const struct process *p = &a->processes[k];
      if (p->role != OPGAP_ROLE_WORKER || p->result_pipe != made[i].epoch->pipe)
        continue;
      made[i].workers++;
      made[i].end_ns = p->end_ns > made[i].end_ns ? p->end_ns : made[i].end_ns;
    }
  }
  if (trainer == steps_process(a))
    mark_trained(a, f, made);
  for (size_t i = 0; i < f->epochs.count; i++) {
    bool again = false;
    if (made[i].epoch->count == 0)
      continue;
    for (size_t k = 0; k < i && !again; k++)
      again = made[k].epoch->count > 0 && made_again(&made[k], &made[i]);
    a->workers_made += made[i].workers;
    a->workers_kept += again ? 0 : made[i].workers;
  }
  free(made);
}

void loader_finish(struct analysis *a)
{
  struct opgap_sum_loader *loader = &a->summary->loader;
  loader->depth = loader->pinned_depth = -1;
  loader->worker = opgap_pool_alloc(a->pool, a->process_count * sizeof *loader->worker);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->included)
      continue;
    if (p->role == OPGAP_ROLE_WORKER) {
      fill(a, i, &loader->worker[loader->worker_count]);
      fill_place(a, i, &loader->worker[loader->worker_count++]);
    }
    if (p->role == OPGAP_ROLE_WORKER && p->worker + 1 > (int32_t)loader->workers)
      loader->workers = (unsigned)p->worker + 1;
  }
  if (loader->worker_count)
    qsort(loader->worker, loader->worker_count, sizeof *loader->worker, by_start);
  unsigned shown = steps_process(a);
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    if (!p->included || p->role != OPGAP_ROLE_TRAINER)
      continue;
    settle_doubt(a, p, p->opened.count > 0 && !p->fetches.doubtful.ends);
    loader->fetches += p->fetches.count;
    loader->fetch_ns += p->fetches.ns;
    loader->waited += p->fetches.waited;
    loader->await_ns += p->fetches.waited_ns;
    charge(a, &a->thread_gaps[i]);
    count_made(a, i);
    if (i != shown)
      continue;
    depths(loader, &p->fetches);
    fill_pin_threads(a, i, loader);
    fill_epochs(a, i, loader);
    if (p->fetches.pinned_fetches > 0)
      loader->pinned_depth = (double)p->fetches.pinned / (double)p->fetches.pinned_fetches;
  }
  if (loader->depth_chunk_ns)
    loader->depth_start_ns -= a->start_ns;
}
