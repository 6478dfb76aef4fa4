/* Where the time of each step went, on the trainer's main thread and its GPU: every instant belongs to the first class
 * that matches (Kernel > Memcpy > Memset > Communication > Runtime > DataLoader > CPU exec > Other).
 *
 * What the main thread waited for the network outside of all classes, or inside a framework op, is communication too.
 * Its other waits outside of all classes stay in Other, and are also summed by their causes for the verdict.  The
 * causes of one wait are laid one after the other, so where a step or an op cuts a wait of several causes the split is
 * approximate; sums are not.
 *
 * Intervals of each class are kept until the step that they lie in is summed, SETTLE_NS after its end; a process
 * without steps keeps its share of SHARED_LIMIT, the last ones.  Of a step that was summed only what is not 0 is kept:
 * a few dozen bytes. */
#include "analysis/internal.h"
#include "format/recover.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL_LIMIT 262144u
#define REFILL_NS 1000000u /* 16 MiB of cache at 16 GiB/s */

struct step_classes {
  uint64_t ns[OPGAP_CLASS_COUNT];
  uint64_t wait_ns[OPGAP_CAUSE_COUNT]; /* parts of ns[OPGAP_CLASS_OTHER] */
  uint64_t all_wait_ns[OPGAP_CAUSE_COUNT];
  uint64_t exposed_collective_ns, collective_ns;
  uint64_t copy_calls_ns; /* part of ns[OPGAP_CLASS_RUNTIME]: in calls that copy */
  struct around around;
  struct off_cpu off;
  uint64_t sampled; /* 1: yes */
};

/* Sums of steps, in order: of each number that is not 0 how many come since the last one (a byte), and itself (a
 * varint); then STEP_ENDS. */
struct step_sums {
  VEC(uint8_t) bytes;
  size_t count;
};
#define STEP_NUMBERS (sizeof(struct step_classes) / sizeof(uint64_t))
#define STEP_ENDS 255u
_Static_assert(STEP_NUMBERS < STEP_ENDS, "a byte tells which number of a step comes");

struct wait {
  uint64_t start, end;
  enum opgap_cause cause;
  bool others;        /* another thread's that was waited for */
  uint32_t causes;    /* of the whole wait that this is a piece of, bit (1 << cause) each */
  uint32_t refill_ns; /* of the cause, behind the whole wait; in its last piece of the cause */
};

struct step_reader {
  size_t at, step; /* offset; of the next one */
};

struct breakdown_process {
  struct intervals class_[OPGAP_CLASS_OTHER];
  struct intervals copy_calls;
  struct intervals collectives; /* on a GPU; class_[OPGAP_CLASS_KERNEL]: all other kernels */
  VEC(struct wait) waits;       /* by start; those before first_wait were dropped */
  size_t first_wait;
  enum step_source source;
  struct step_sums steps; /* one a step of the source */
  struct step_sums joined;
  struct step_reader joining; /* of `steps` */
};

struct breakdown_state {
  struct breakdown_process *at; /* by process */
};

const char *opgap_class_name(enum opgap_class class_)
{
  static const char *const names[OPGAP_CLASS_COUNT] = {"kernel",  "memcpy",     "memset",   "communication",
                                                       "runtime", "dataloader", "cpu_exec", "other"};
  return names[class_];
}

static struct breakdown_process *process_of(struct analysis *a, unsigned process)
{
  if (a->breakdown == NULL) {
    a->breakdown = opgap_xcalloc(1, sizeof *a->breakdown);
    a->breakdown->at = opgap_xcalloc(a->process_count, sizeof *a->breakdown->at);
    for (unsigned i = 0; i < a->process_count; i++)
      a->breakdown->at[i].source = STEPS_SOURCES;
  }
  return &a->breakdown->at[process];
}

static void put_step(struct step_sums *sums, const struct step_classes *step)
{
  uint8_t bytes[STEP_NUMBERS * 11 + 1], *at = bytes; /* a varint has up to 10 */
  uint64_t numbers[STEP_NUMBERS];
  memcpy(numbers, step, sizeof numbers);
  for (size_t i = 0, next = 0; i < STEP_NUMBERS; i++) {
    if (numbers[i] == 0)
      continue;
    *at++ = (uint8_t)(i - next);
    at = opgap_put_varint(at, numbers[i]);
    next = i + 1;
  }
  *at++ = STEP_ENDS;
  for (const uint8_t *byte = bytes; byte < at; byte++)
    *VEC_PUSH(&sums->bytes) = *byte;
  sums->count++;
}

static struct step_classes next_step(const struct step_sums *sums, struct step_reader *reader)
{
  struct step_classes step;
  uint64_t numbers[STEP_NUMBERS] = {0};
  const uint8_t *at = sums->bytes.at + reader->at, *end = sums->bytes.at + sums->bytes.count;
  for (size_t i = 0; *at != STEP_ENDS; i++) {
    i += *at++;
    opgap_get_varint(&at, end, &numbers[i]);
  }
  reader->at = (size_t)(at + 1 - sums->bytes.at);
  reader->step++;
  memcpy(&step, numbers, sizeof step);
  return step;
}

/* How many intervals or waits of a process may wait for the end of their step. */
static size_t most_waiting(const struct analysis *a, unsigned process)
{
  const struct process *p = &a->processes[process];
  enum step_source source = steps_source(p);
  if (source == STEPS_SOURCES)
    return analysis_share(a, SHARED_LIMIT, INTERVAL_LIMIT);
  bool done = source == STEPS_PERIOD && !steps_period_room(a, p) &&
              a->breakdown->at[process].steps.count == p->steps[source].end.count;
  return done ? SHARED_LEAST : INTERVAL_LIMIT;
}

/* Most ops add an interval: only every so often the limit is looked at, which is then passed by fewer than that. */
static bool asks_for_limit(size_t count)
{
  return count > 0 && count % SHARED_LEAST == 0;
}

static void append(const struct analysis *a, unsigned process, struct intervals *iv, uint64_t start, uint64_t end)
{
  size_t count = iv->v.count - iv->first;
  if (asks_for_limit(count) && count >= most_waiting(a, process))
    intervals_drop_before(iv, iv->v.at[iv->first + count / 2].start);
  intervals_append(iv, start, end);
}

static void add(struct analysis *a, unsigned process, enum opgap_class class_, uint64_t start, uint64_t end)
{
  append(a, process, &process_of(a, process)->class_[class_], start, end);
}

void breakdown_op(struct analysis *a, struct thread *t, uint32_t flags, bool framework, const struct opgap_record *r)
{
  if (!t->watched)
    return;
  if (!framework && !(flags & (NAME_COMM | NAME_NEXT | NAME_STEP)))
    return;
  add(a, t->process,
      flags & NAME_COMM   ? OPGAP_CLASS_COMMUNICATION
      : flags & NAME_NEXT ? OPGAP_CLASS_DATALOADER
                          : OPGAP_CLASS_CPU_EXEC,
      r->start_ns, r->end_ns);
}

void breakdown_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  if (hook->verb == VERB_CUDA && t->watched)
    breakdown_cuda_call(a, t->process, hook->name, r->start_ns, r->end_ns);
}

void breakdown_cuda_call(struct analysis *a, unsigned process, uint32_t name, uint64_t start, uint64_t end)
{
  add(a, process, OPGAP_CLASS_RUNTIME, start, end);
  if (strstr(analysis_text(a, name), "Memcpy") != NULL)
    append(a, process, &process_of(a, process)->copy_calls, start, end);
}

void breakdown_gpu(struct analysis *a, unsigned process, enum opgap_class class_, uint64_t start, uint64_t end)
{
  if (class_ == OPGAP_CLASS_COMMUNICATION)
    append(a, process, &process_of(a, process)->collectives, start, end);
  else
    add(a, process, class_, start, end);
}

static void drop_waits(struct breakdown_process *b, size_t count)
{
  b->first_wait += count;
  if (b->first_wait <= b->waits.count / 2)
    return;
  memmove(b->waits.at, b->waits.at + b->first_wait, (b->waits.count - b->first_wait) * sizeof *b->waits.at);
  b->waits.count -= b->first_wait;
  b->first_wait = 0;
}

static void insert_wait(const struct analysis *a, unsigned process, struct wait wait)
{
  struct breakdown_process *b = &a->breakdown->at[process];
  size_t count = b->waits.count - b->first_wait;
  if (asks_for_limit(count) && count >= most_waiting(a, process))
    drop_waits(b, count / 2);
  VEC_PUSH(&b->waits);
  size_t at = b->waits.count - 1;
  for (; at > b->first_wait && b->waits.at[at - 1].start > wait.start; at--)
    b->waits.at[at] = b->waits.at[at - 1];
  b->waits.at[at] = wait;
}

static uint32_t refill(uint64_t ns)
{
  return (uint32_t)(ns < REFILL_NS ? ns : REFILL_NS);
}

void breakdown_wait(struct analysis *a, unsigned process, uint64_t start, const struct causes *causes)
{
  uint64_t ns[OPGAP_CAUSE_COUNT] = {0};
  unsigned last[OPGAP_CAUSE_COUNT] = {0};
  uint32_t all = 0;
  process_of(a, process);
  for (unsigned i = 0; i < causes->count; i++) {
    unsigned cause = causes->at[i].key.cause;
    all |= 1u << cause;
    ns[cause] += causes->at[i].ns;
    last[cause] = i;
  }
  /* what lies in a __next__ has its refill with that (sum_around) */
  ns[OPGAP_CAUSE_DATA_LOADING] = 0;
  for (unsigned i = 0; i < causes->count; i++) {
    const struct cause_row *row = &causes->at[i];
    unsigned cause = row->key.cause;
    insert_wait(a, process,
                (struct wait){.start = start,
                              .end = start + row->ns,
                              .cause = (enum opgap_cause)cause,
                              .others = cause_of_others(&row->key),
                              .causes = all,
                              .refill_ns = last[cause] == i ? refill(ns[cause]) : 0});
    start += row->ns;
  }
}

void breakdown_take_back(struct analysis *a, unsigned process, uint64_t start, uint64_t end)
{
  struct breakdown_process *b = process_of(a, process);
  size_t kept = b->first_wait;
  for (size_t i = kept; i < b->waits.count; i++)
    if (b->waits.at[i].start < start || b->waits.at[i].end > end)
      b->waits.at[kept++] = b->waits.at[i];
  b->waits.count = kept;
}

/* cover becomes the union of cover and the part of iv in [start, end]; returns its length. */
static uint64_t unite(struct intervals *cover, const struct intervals *iv, uint64_t start, uint64_t end)
{
  struct intervals merged = {0};
  uint64_t length = 0;
  size_t i = 0, k = intervals_from(iv, start), last_k = intervals_from(iv, end);
  if (last_k < iv->v.count && iv->v.at[last_k].start < end)
    last_k++;
  while (i < cover->v.count || k < last_k) {
    const struct interval *c = i < cover->v.count ? &cover->v.at[i] : NULL;
    const struct interval *n = k < last_k ? &iv->v.at[k] : NULL;
    bool old = n == NULL || (c != NULL && c->start <= n->start);
    const struct interval *next = old ? c : n;
    i += old;
    k += !old;
    if (next->start >= end)
      continue;
    uint64_t from = next->start > start ? next->start : start, to = next->end < end ? next->end : end;
    if (to <= from)
      continue;
    struct interval *last = merged.v.count ? &merged.v.at[merged.v.count - 1] : NULL;
    if (last != NULL && last->end >= from) {
      last->end = to > last->end ? to : last->end;
    } else {
      struct interval *added = VEC_PUSH(&merged.v);
      added->start = from;
      added->end = to;
    }
  }
  for (i = 0; i < merged.v.count; i++)
    length += merged.v.at[i].end - merged.v.at[i].start;
  VEC_FREE(&cover->v);
  *cover = merged;
  return length;
}

/* How much of iv in [start, end) lies outside of `cover`. */
static uint64_t length_outside(const struct intervals *iv, const struct intervals *cover, uint64_t start, uint64_t end)
{
  uint64_t length = 0;
  for (size_t i = intervals_from(iv, start), k = 0; i < iv->v.count && iv->v.at[i].start < end; i++) {
    uint64_t at = iv->v.at[i].start > start ? iv->v.at[i].start : start;
    uint64_t until = iv->v.at[i].end < end ? iv->v.at[i].end : end;
    while (at < until) {
      while (k < cover->v.count && cover->v.at[k].end <= at)
        k++;
      const struct interval *next = k < cover->v.count && cover->v.at[k].start < until ? &cover->v.at[k] : NULL;
      uint64_t open = next == NULL ? until : next->start;
      length += open > at ? open - at : 0;
      at = next == NULL ? until : next->end;
    }
  }
  return length;
}

/* Adds by cause the time of waits in [start, end) that lies outside `cover`. */
static void waits_outside(const struct breakdown_process *b, const struct intervals *cover, uint64_t start,
                          uint64_t end, uint64_t ns[OPGAP_CAUSE_COUNT])
{
  uint64_t at = start; /* time before it is done */
  size_t k = 0;
  for (size_t i = b->first_wait; i < b->waits.count && b->waits.at[i].start < end; i++) {
    const struct wait *wait = &b->waits.at[i];
    uint64_t until = wait->end < end ? wait->end : end;
    at = wait->start > at ? wait->start : at;
    while (at < until) {
      while (k < cover->v.count && cover->v.at[k].end <= at)
        k++;
      const struct interval *next = k < cover->v.count && cover->v.at[k].start < until ? &cover->v.at[k] : NULL;
      uint64_t open = next == NULL ? until : next->start;
      if (open > at)
        ns[wait->cause] += open - at;
      at = next == NULL ? until : next->end;
    }
  }
}

/* Own code of the stretch [start, end) between classes, for each cause that the thread waited for there.  `first`:
 * waits before it ended before the stretch. */
static void add_code_around(const struct breakdown_process *b, size_t first, uint64_t start, uint64_t end,
                            struct around *around)
{
  uint64_t waited = 0;
  bool seen[OPGAP_CAUSE_COUNT] = {false};
  for (size_t i = first; i < b->waits.count && b->waits.at[i].start < end; i++) {
    const struct wait *wait = &b->waits.at[i];
    uint64_t from = wait->start > start ? wait->start : start, to = wait->end < end ? wait->end : end;
    if (to <= from)
      continue;
    seen[wait->cause] = true;
    waited += to - from;
  }
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    if (seen[c] && end - start > waited)
      around->code_ns[c] += end - start - waited;
}

/* Tails, refills, and what other threads did.  A refill belongs to the step that its wait, or __next__, ended in. */
static void sum_behind(const struct breakdown_process *b, uint64_t start, uint64_t end, struct around *around)
{
  uint64_t at = start; /* time before it is done */
  for (size_t i = b->first_wait; i < b->waits.count && b->waits.at[i].start < end; i++) {
    const struct wait *wait = &b->waits.at[i];
    if (wait->end > start && wait->end <= end)
      around->refill_ns[wait->cause] += wait->refill_ns;
    uint64_t from = wait->start > at ? wait->start : at, to = wait->end < end ? wait->end : end;
    if (to <= from)
      continue;
    around->others_ns[wait->cause] += wait->others ? to - from : 0;
    for (unsigned c = 0; wait->cause == OPGAP_CAUSE_RUN_QUEUE && c < OPGAP_CAUSE_COUNT; c++)
      if (wait->causes & 1u << c)
        around->tail_ns[c] += to - from;
    at = to;
  }
  const struct intervals *fetches = &b->class_[OPGAP_CLASS_DATALOADER];
  for (size_t i = intervals_from(fetches, start); i < fetches->v.count && fetches->v.at[i].end <= end; i++) {
    const struct interval *fetch = &fetches->v.at[i];
    around->refill_ns[OPGAP_CAUSE_DATA_LOADING] += refill(fetch->end - fetch->start);
  }
}

/* `cover`: all classes. */
static void sum_around(const struct breakdown_process *b, const struct intervals *cover, uint64_t start, uint64_t end,
                       struct around *around)
{
  uint64_t at = start;
  size_t first = b->first_wait;
  for (size_t i = 0; i <= cover->v.count; i++) {
    uint64_t until = i < cover->v.count ? cover->v.at[i].start : end;
    while (first < b->waits.count && b->waits.at[first].end <= at)
      first++;
    if (until > at)
      around->own_refill_ns += refill(until - at);
    if (until > at && first < b->waits.count && b->waits.at[first].start < until)
      add_code_around(b, first, at, until, around);
    at = i < cover->v.count ? cover->v.at[i].end : end;
  }
}

static void forget_waits(struct breakdown_process *b, uint64_t end)
{
  size_t gone = 0;
  while (b->first_wait + gone < b->waits.count && b->waits.at[b->first_wait + gone].end <= end)
    gone++;
  drop_waits(b, gone);
}

/* Communication inside framework ops and outside of all classes becomes communication. */
static void move_communication(struct step_classes *step, uint64_t all)
{
  uint64_t outside = step->wait_ns[OPGAP_CAUSE_COMMUNICATION];
  step->ns[OPGAP_CLASS_COMMUNICATION] += all;
  step->ns[OPGAP_CLASS_CPU_EXEC] -= all - outside;
  step->ns[OPGAP_CLASS_OTHER] -= outside;
  step->wait_ns[OPGAP_CAUSE_COMMUNICATION] = 0;
}

static void sum_step(struct analysis *a, unsigned process, uint64_t start, uint64_t end)
{
  struct breakdown_process *b = process_of(a, process);
  unsigned main_thread = a->processes[process].main_thread;
  uint64_t outside_gpu[OPGAP_CAUSE_COUNT] = {0}; /* outside of all classes before CPU_EXEC */
  struct step_classes sums = {0}, *step = &sums;
  struct intervals cover = {0}, collectives = {0};
  uint64_t covered = 0;
  waits_outside(b, &cover, start, end, step->all_wait_ns);
  if (main_thread != UINT32_MAX)
    step->sampled = threads_off_cpu(a, &a->threads[main_thread], start, end, &step->off);
  step->collective_ns = unite(&collectives, &b->collectives, start, end);
  for (int c = 0; c < OPGAP_CLASS_OTHER; c++) {
    if (c == OPGAP_CLASS_RUNTIME)
      step->copy_calls_ns = length_outside(&b->copy_calls, &cover, start, end);
    if (c == OPGAP_CLASS_CPU_EXEC)
      waits_outside(b, &cover, start, end, outside_gpu);
    uint64_t now = unite(&cover, &b->class_[c], start, end);
    if (c == OPGAP_CLASS_KERNEL) { /* a collective is a kernel to TensorBoard's classes */
      uint64_t others = now;
      now = unite(&cover, &b->collectives, start, end);
      step->exposed_collective_ns = now - others;
    }
    step->ns[c] = now - covered;
    covered = now;
    intervals_drop_before(&b->class_[c], start);
  }
  intervals_drop_before(&b->copy_calls, start);
  intervals_drop_before(&b->collectives, start);
  step->ns[OPGAP_CLASS_OTHER] = end - start - covered;
  waits_outside(b, &cover, start, end, step->wait_ns);
  sum_behind(b, start, end, &step->around);
  sum_around(b, &cover, start, end, &step->around);
  move_communication(step, outside_gpu[OPGAP_CAUSE_COMMUNICATION]);
  put_step(&b->steps, step);
  forget_waits(b, end);
  VEC_FREE(&cover.v);
  VEC_FREE(&collectives.v);
}

static void sum_steps(struct analysis *a, unsigned process, uint64_t until)
{
  struct process *p = &a->processes[process];
  struct breakdown_process *b = process_of(a, process);
  enum step_source source = steps_source(p);
  if (source == STEPS_SOURCES)
    return;
  if (b->source != source) { /* a better kind of mark was found: start again */
    b->source = source;
    b->steps.count = b->steps.bytes.count = 0;
  }
  const struct step_list *list = &p->steps[source];
  while (b->steps.count < list->end.count && list->end.at[b->steps.count] <= until) {
    size_t i = b->steps.count;
    uint64_t start = list->start.at[i];
    uint64_t end = list->end.at[i] > start ? list->end.at[i] : start;
    sum_step(a, process, start, end);
  }
}

void breakdown_step(struct analysis *a, unsigned process)
{
  uint64_t until = a->now > SETTLE_NS ? a->now - SETTLE_NS : 0;
  if (a->steps_only)
    return;
  gaps_settle(a, until); /* the step's waits are explained */
  sum_steps(a, process, until);
}

/* The course of the steps in the window, in at most OPGAP_BREAKDOWN_BUCKETS sums. */
static void finish_buckets(struct analysis *a, unsigned process)
{
  struct opgap_sum_breakdown *sum = &a->summary->breakdown;
  const struct breakdown_process *b = process_of(a, process);
  const struct step_list *list = &a->processes[process].steps[b->source];
  struct step_reader reader = {0};
  size_t steps = 0, done = 0;
  for (size_t i = 0; i < b->steps.count; i++)
    steps += analysis_in_window(a, list->end.at[i]);
  sum->bucket_steps = (steps + OPGAP_BREAKDOWN_BUCKETS - 1) / OPGAP_BREAKDOWN_BUCKETS;
  sum->bucket_count = steps ? (steps + sum->bucket_steps - 1) / sum->bucket_steps : 0;
  sum->buckets = opgap_pool_alloc(a->pool, sum->bucket_count * sizeof *sum->buckets);
  for (size_t i = 0; i < b->steps.count; i++) {
    struct step_classes step = next_step(&b->steps, &reader);
    if (!analysis_in_window(a, list->end.at[i]))
      continue;
    uint64_t *bucket = sum->buckets[done++ / sum->bucket_steps];
    for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
      bucket[c] += step.ns[c];
  }
}

static void add_step(struct step_classes *sum, const struct step_classes *step)
{
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    sum->ns[c] += step->ns[c];
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    sum->wait_ns[c] += step->wait_ns[c];
    sum->all_wait_ns[c] += step->all_wait_ns[c];
    sum->around.code_ns[c] += step->around.code_ns[c];
    sum->around.refill_ns[c] += step->around.refill_ns[c];
    sum->around.tail_ns[c] += step->around.tail_ns[c];
    sum->around.others_ns[c] += step->around.others_ns[c];
  }
  sum->around.own_refill_ns += step->around.own_refill_ns;
  sum->exposed_collective_ns += step->exposed_collective_ns;
  sum->collective_ns += step->collective_ns;
  sum->copy_calls_ns += step->copy_calls_ns;
  sum->sampled |= step->sampled;
  sum->off.queue += step->off.queue;
  sum->off.throttled += step->off.throttled;
  sum->off.outside += step->off.outside;
  sum->off.faults += step->off.faults;
}

void breakdown_all(struct analysis *a, unsigned process)
{
  sum_steps(a, process, UINT64_MAX);
}

void breakdown_join(struct analysis *a, unsigned process, size_t from, size_t to)
{
  struct breakdown_process *b = process_of(a, process);
  struct step_classes sum = {0};
  while (b->joining.step < to) {
    bool joins = b->joining.step >= from;
    struct step_classes step = next_step(&b->steps, &b->joining);
    if (joins)
      add_step(&sum, &step);
  }
  put_step(&b->joined, &sum);
}

void breakdown_joined(struct analysis *a, unsigned process)
{
  struct breakdown_process *b = process_of(a, process);
  VEC_FREE(&b->steps.bytes);
  b->steps = b->joined;
  b->joined = (struct step_sums){0};
}

/* Adds the steps in the window but the first `skip` to *sum; returns how many. */
static uint64_t add_counted(struct analysis *a, unsigned process, size_t skip, struct step_classes *sum)
{
  const struct breakdown_process *b = process_of(a, process);
  const struct step_list *list = &a->processes[process].steps[b->source];
  struct step_reader reader = {0};
  uint64_t count = 0;
  for (size_t i = 0; i < b->steps.count; i++) {
    struct step_classes step = next_step(&b->steps, &reader);
    if (!analysis_in_window(a, list->end.at[i]))
      continue;
    if (skip > 0) {
      skip--;
      continue;
    }
    add_step(sum, &step);
    count++;
  }
  return count;
}

void breakdown_sums(struct analysis *a, unsigned process, size_t skip, struct opgap_sum_breakdown *sum)
{
  struct step_classes all = {0};
  sum_steps(a, process, UINT64_MAX);
  sum->steps += add_counted(a, process, skip, &all);
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    sum->class_ns[c] += all.ns[c];
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    sum->other_wait_ns[c] += all.wait_ns[c];
    sum->wait_ns[c] += all.all_wait_ns[c];
  }
  sum->exposed_collective_ns += all.exposed_collective_ns;
  sum->collective_ns += all.collective_ns;
  sum->copy_calls_ns += all.copy_calls_ns;
  sum->sampled = sum->sampled || all.sampled;
  sum->queue_ns += all.off.queue;
  sum->throttled_ns += all.off.throttled;
  sum->outside_ns += all.off.outside;
  sum->fault_ns += all.off.faults;
}

struct around breakdown_around(struct analysis *a, unsigned process, size_t skip)
{
  struct step_classes all = {0};
  add_counted(a, process, skip, &all);
  return all.around;
}

void breakdown_finish(struct analysis *a)
{
  unsigned process = steps_process(a);
  if (process == UINT32_MAX)
    return;
  breakdown_sums(a, process, a->summary->steps.skipped, &a->summary->breakdown);
  finish_buckets(a, process);
}

void breakdown_close(struct analysis *a)
{
  if (a->breakdown == NULL)
    return;
  for (unsigned i = 0; i < a->process_count; i++) {
    struct breakdown_process *b = &a->breakdown->at[i];
    for (int c = 0; c < OPGAP_CLASS_OTHER; c++)
      VEC_FREE(&b->class_[c].v);
    VEC_FREE(&b->copy_calls.v);
    VEC_FREE(&b->collectives.v);
    VEC_FREE(&b->waits);
    VEC_FREE(&b->steps.bytes);
  }
  free(a->breakdown->at);
  free(a->breakdown);
}

double opgap_no_cpu_share(const struct opgap_sum_breakdown *breakdown)
{
  uint64_t total = 0;
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    total += breakdown->class_ns[c];
  return total ? (double)breakdown->no_cpu_ns / (double)total : 0;
}
