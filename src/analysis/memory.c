/* Host memory: exact numbers from the allocation hooks' counts; live and peak bytes, and who made them, only when every
 * allocation was recorded with its address and size (live.h).  Failed allocations are kept with what came before. */
#include "analysis/internal.h"
#include "analysis/order.h"
#include "analysis/stacks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void memory_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                 bool point)
{
  struct process *p = &a->processes[t->process];
  uint64_t bytes = r->field[1];
  if (!p->alloc_events || r->field[0] == 0)
    return;
  p->points += point;
  if (hook->verb == VERB_FREE || bytes == OPGAP_ALLOC_RELEASED) {
    uint64_t had = live_release(&p->live, r->field[0]);
    t->resized.address = hook->verb == VERB_FREE ? 0 : r->field[0];
    t->resized.bytes = had;
    return;
  }
  if (r->status != 0 && r->field[0] != t->resized.address)
    return;
  if (r->status != 0) {
    bytes = t->resized.bytes;
  } else {
    p->churn.count++;
    p->churn.bytes += bytes;
  }
  live_add(&p->live, &t->waiting, (uint32_t)(t - a->threads), r->depth, r->field[0], bytes, r->end_ns);
}

void memory_stack(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  bool made = r->status < OPGAP_MAX_EVENTS && p->hooks[r->status].name != 0 && p->hooks[r->status].verb == VERB_ALLOC;
  if (!p->alloc_events || !made || ops_stack_places(a) == NULL)
    return;
  uint32_t *place = opgap_map_put(&p->stack_places, r->field[0], 0);
  if (*place == 0)
    *place = analysis_string(a, opgap_stack_place(ops_stack_places(a), t->process, r->field[0])) + 1;
  live_placed(&p->live, &t->waiting, (uint32_t)(t - a->threads), r->depth, r->field[2], *place - 1);
}

void memory_blocks_of(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t name)
{
  live_op_ended(&a->processes[t->process].live, &t->waiting, (uint32_t)(t - a->threads), r->depth, name,
                analysis_gid(a, t->process, r->field[5]));
}

/* ---- failed allocations ---- */

#define CUDA_OUT_OF_MEMORY 2u /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY: cuda.h */
#define LAST_OPERATIONS 8u

static void tell(struct analysis *a, struct failure *failure, uint32_t name, uint64_t end)
{
  *VEC_PUSH(&failure->last) =
      opgap_pool_printf(a->pool, "%s, ended %.3f ms before", analysis_text(a, name), (double)(failure->at - end) / 1e6);
}

/* The last ops and calls of the thread, from both rings, once: when its records are read until `reached` and all that
 * ended before the failure has come. */
static void last_operations(struct analysis *a, const struct thread *t, struct failure *failure, uint64_t reached)
{
  if (failure->told || reached < failure->at)
    return;
  failure->told = true;
  size_t op = t->ops.count, call = t->calls.count;
  while (failure->last.count < LAST_OPERATIONS && (op > 0 || call > 0)) {
    const struct past_op *o = op > 0 ? RING_AT(&t->ops, op - 1) : NULL;
    const struct past_call *c = call > 0 ? RING_AT(&t->calls, call - 1) : NULL;
    bool op_next = c == NULL || (o != NULL && o->end >= c->end);
    op -= op_next;
    call -= !op_next;
    if (op_next && o->end <= failure->at)
      tell(a, failure, o->name, o->end);
    else if (!op_next && c->end < failure->at)
      tell(a, failure, a->processes[t->process].hooks[c->event].name, c->end);
  }
}

void memory_op_around(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t name)
{
  struct process *p = &a->processes[t->process];
  for (size_t i = 0; i < p->failures.count; i++) {
    struct failure *failure = &p->failures.at[i];
    if (failure->thread == (uint32_t)(t - a->threads))
      last_operations(a, t, failure, r->end_ns);
    bool around = failure->depth == FAILURE_BY_TIME ? failure->at <= r->end_ns : failure->depth == r->depth + 1u;
    if (failure->op == 0 && failure->thread == (uint32_t)(t - a->threads) && around && failure->at >= r->start_ns)
      failure->op = name;
  }
}

static struct failure *add_failure(struct analysis *a, struct thread *t, uint32_t call, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  if (p->failures.count == FAILURE_LIMIT) { /* one of the later half makes room */
    struct failure *gone = &p->failures.at[FAILURE_LIMIT / 2];
    VEC_FREE(&gone->last);
    memmove(gone, gone + 1, (FAILURE_LIMIT / 2 - 1) * sizeof *gone);
    p->failures.count--;
  }
  struct failure *failure = VEC_PUSH(&p->failures);
  failure->thread = (uint32_t)(t - a->threads);
  failure->call = call;
  failure->at = r->end_ns;
  failure->live = p->alloc_events ? p->live.bytes : OPGAP_UNKNOWN;
  failure->rss = p->samples.count ? p->samples.at[p->samples.count - 1].rss : OPGAP_UNKNOWN;
  return failure;
}

void memory_failed(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  bool cuda = hook->verb == VERB_CUDA && r->status == CUDA_OUT_OF_MEMORY;
  if (hook->verb != VERB_ALLOC && !cuda)
    return;
  struct failure *failure = add_failure(a, t, hook->name, r);
  failure->depth = r->depth;
  failure->error = (int32_t)r->status;
  failure->bytes = r->field[1] ? r->field[1] : OPGAP_UNKNOWN;
  last_operations(a, t, failure, r->end_ns);
}

/* The same call of the same thread, that failed last, has memory now: it was asked again after something was freed, as
 * PyTorch's allocator frees the blocks that it has cached.  That is no failure.  bytes: OPGAP_UNKNOWN: not recorded. */
static void had(struct process *p, uint32_t thread, uint32_t call, uint64_t bytes)
{
  for (size_t i = p->failures.count; i-- > 0;) {
    struct failure *failure = &p->failures.at[i];
    if (failure->thread != thread || failure->call != call)
      continue;
    if (failure->bytes != bytes)
      return;
    VEC_FREE(&failure->last);
    memmove(failure, failure + 1, (p->failures.count - i - 1) * sizeof *failure);
    p->failures.count--;
    p->device_retries++;
    return;
  }
}

void memory_had(struct analysis *a, const struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  if (hook->verb == VERB_CUDA && p->failures.count > 0)
    had(p, (uint32_t)(t - a->threads), hook->name, r->field[1] ? r->field[1] : OPGAP_UNKNOWN);
}

/* GPU streams are read before or behind the records of the thread: the op around the call has ended, or will. */
void memory_cuda_call(struct analysis *a, struct thread *t, uint32_t call, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  uint32_t thread = (uint32_t)(t - a->threads), result = (uint32_t)r->field[2];
  if (result == 0 && p->failures.count > 0)
    had(p, thread, call, OPGAP_UNKNOWN);
  if (result != CUDA_OUT_OF_MEMORY)
    return;
  for (size_t i = p->failures.count; i-- > 0;)
    if (p->failures.at[i].correlation == r->status) /* the driver's call inside the runtime's, or that around it */
      return;
  struct failure *failure = add_failure(a, t, call, r);
  failure->depth = FAILURE_BY_TIME;
  failure->correlation = r->status;
  failure->error = (int32_t)result;
  failure->bytes = OPGAP_UNKNOWN;
  last_operations(a, t, failure, t->last_ns);
  for (size_t i = 0; i < t->ops.count && failure->op == 0;
       i++) { /* of those that have ended the outer one is remembered */
    const struct past_op *op = RING_AT(&t->ops, i);
    if (op->start <= failure->at && failure->at <= op->end)
      failure->op = op->name;
  }
}

static void finish_failures(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  size_t count = 0;
  for (unsigned i = 0; i < a->process_count; i++)
    count += a->processes[i].included ? a->processes[i].failures.count : 0;
  memory->failures = opgap_pool_alloc(a->pool, count * sizeof *memory->failures);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    memory->device_retries += p->included ? p->device_retries : 0;
    for (size_t k = 0; p->included && k < p->failures.count; k++) {
      struct failure *failure = &p->failures.at[k];
      const struct thread *t = &a->threads[failure->thread];
      last_operations(a, t, failure, UINT64_MAX);
      struct opgap_sum_failure *row = &memory->failures[memory->failure_count++];
      *row = (struct opgap_sum_failure){.pid = p->info->pid,
                                        .tid = t->tid,
                                        .thread = analysis_text(a, t->name),
                                        .process = p->label,
                                        .at_ns = failure->at > a->start_ns ? failure->at - a->start_ns : 0,
                                        .call = analysis_text(a, failure->call),
                                        .bytes = failure->bytes,
                                        .error = failure->error,
                                        .live_bytes = failure->live,
                                        .rss_bytes = failure->rss,
                                        .op = analysis_text(a, failure->op),
                                        .last_count = failure->last.count};
      row->last = opgap_pool_alloc(a->pool, row->last_count * sizeof *row->last);
      for (size_t n = 0; n < row->last_count; n++)
        row->last[n] = failure->last.at[n];
    }
  }
  order_rows(memory->failures, count, sizeof *memory->failures, order_failures);
}

/* ---- samples ---- */

/* Of two neighbours the higher one stays. */
static void halve_samples(struct process *p)
{
  for (size_t i = 0; i < SAMPLE_LIMIT / 2; i++) {
    const struct memory_sample *pair = &p->samples.at[2 * i];
    p->samples.at[i] = pair[0].rss >= pair[1].rss ? pair[0] : pair[1];
  }
  p->samples.count = SAMPLE_LIMIT / 2;
}

void memory_sample(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  struct process *p = &a->processes[process];
  if (p->rss == OPGAP_UNKNOWN || r->field[0] > p->rss)
    p->rss = r->field[0];
  p->last_usage = (struct usage){r->end_ns, r->field[1], r->field[2], r->field[3], r->field[4]};
  if (p->first_usage.at == 0)
    p->first_usage = p->last_usage;
  if (p->steps_usage.at == 0 && steps_source(p) != STEPS_SOURCES)
    p->steps_usage = p->last_usage;
  if (p->samples.count == SAMPLE_LIMIT)
    halve_samples(p);
  *VEC_PUSH(&p->samples) = (struct memory_sample){r->end_ns, r->field[0]};
}

static void finish_courses(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  s->memory_courses = opgap_pool_alloc(a->pool, a->process_count * sizeof *s->memory_courses);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->included || p->samples.count == 0)
      continue;
    struct opgap_sum_memory_course *course = &s->memory_courses[s->memory_course_count++];
    course->pid = p->info->pid;
    course->count = p->samples.count;
    course->time_ns = opgap_pool_alloc(a->pool, course->count * sizeof *course->time_ns);
    course->rss_bytes = opgap_pool_alloc(a->pool, course->count * sizeof *course->rss_bytes);
    for (size_t k = 0; k < course->count; k++) {
      uint64_t time = p->samples.at[k].time;
      course->time_ns[k] = time > a->start_ns ? time - a->start_ns : 0;
      course->rss_bytes[k] = p->samples.at[k].rss;
    }
  }
}

static void add_hooks(struct analysis *a, struct opgap_sum_memory *memory)
{
  for (size_t i = 0; i < a->summary->call_count; i++) {
    const struct opgap_sum_call *call = &a->summary->calls[i];
    if (strcmp(call->category, "alloc") != 0)
      continue;
    if (strstr(call->name, "free") != NULL) {
      memory->frees += call->calls;
      continue;
    }
    memory->allocations += call->calls;
    memory->failed += call->failed;
    memory->bytes_allocated += call->bytes;
  }
}

/* The most that processes alive at one time had together, by their highest samples: highest at some process's start. */
static uint64_t peak_rss(const struct analysis *a)
{
  uint64_t peak = OPGAP_UNKNOWN;
  for (unsigned i = 0; i < a->process_count; i++) {
    uint64_t at = a->processes[i].info->start_ns, sum = 0;
    for (unsigned k = 0; k < a->process_count; k++) {
      const struct process *p = &a->processes[k];
      if (p->included && p->rss != OPGAP_UNKNOWN && p->info->start_ns <= at && p->end_ns >= at)
        sum += p->rss;
    }
    if (sum > 0 && (peak == OPGAP_UNKNOWN || sum > peak))
      peak = sum;
  }
  return peak;
}

/* ---- growth and churn ---- */

/* Neighbours that deviate alike tell less than their number: the variance of the slope grows by (1 + r) / (1 - r), r
 * the correlation of neighbours (first-order autoregression). */
static double widening(const double *x, const double *y, size_t count, const struct line_fit *fit)
{
  double squares = 0, products = 0, before = 0;
  for (size_t i = 0; i < count; i++) {
    double left = y[i] - fit->intercept - fit->slope * x[i];
    squares += left * left;
    products += i > 0 ? left * before : 0;
    before = left;
  }
  double r = squares > 0 ? products / squares : 0;
  r = r < 0 ? 0 : r > 0.95 ? 0.95 : r;
  return sqrt((1 + r) / (1 - r));
}

static void finish_growth(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  unsigned process = steps_process(a);
  uint64_t start, end;
  memory->growth_of = "";
  if (process == UINT32_MAX || !steps_counted(a, &start, &end) || a->summary->steps.mean_ns == 0)
    return;
  const struct process *p = &a->processes[process];
  const struct step_list *list = &p->steps[steps_source(p)];
  bool exact = p->alloc_events && p->points > 0 && list->live.count == list->end.count;
  size_t room = exact ? list->live.count : p->samples.count, count = 0;
  double *x = opgap_xcalloc(room, sizeof *x), *y = opgap_xcalloc(room, sizeof *y);
  for (size_t i = 0; i < room; i++) {
    uint64_t at = exact ? list->end.at[i] : p->samples.at[i].time;
    if (at <= start || at > end)
      continue;
    x[count] = exact ? (double)i : (double)(at - start) / (double)a->summary->steps.mean_ns;
    y[count++] = exact ? (double)list->live.at[i] : (double)p->samples.at[i].rss;
  }
  struct line line = {0};
  struct line_fit fit;
  for (size_t i = 0; i < count; i++)
    line_add(&line, x[i], y[i]);
  if (line_fit(&line, &fit)) {
    double half = line_half_width(&line, &fit) * widening(x, y, count, &fit);
    memory->growth_of = exact ? "live bytes" : "resident memory";
    memory->growth_bytes = fit.slope;
    memory->growth_low = fit.slope - half;
    memory->growth_high = fit.slope + half;
    memory->growth_fit = fit.explained;
    memory->growth_points = count;
  }
  free(x);
  free(y);
}

static uint64_t median(uint64_t *values, size_t count)
{
  stats_sort(values, count);
  return stats_percentile(values, count, 0.5);
}

static void finish_churn(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  unsigned process = steps_process(a);
  uint64_t start, end;
  memory->churn_of = "";
  memory->churn_count = memory->churn_bytes = OPGAP_UNKNOWN;
  if (process == UINT32_MAX || !steps_counted(a, &start, &end) || a->summary->steps.mean_ns == 0)
    return;
  const struct process *p = &a->processes[process];
  const struct step_list *list = &p->steps[steps_source(p)];
  bool exact = p->alloc_events && p->points > 0;
  if ((!exact && p->ops == 0) || list->churn.count != list->end.count)
    return;
  uint64_t *counts = opgap_xcalloc(list->end.count, sizeof *counts);
  uint64_t *bytes = opgap_xcalloc(list->end.count, sizeof *bytes);
  size_t steps = 0;
  for (size_t i = 1; i < list->end.count; i++) {
    if (list->end.at[i - 1] < start || list->end.at[i] > end || list->start.at[i] != list->end.at[i - 1])
      continue;
    counts[steps] = list->churn.at[i].count - list->churn.at[i - 1].count;
    bytes[steps++] = list->churn.at[i].bytes - list->churn.at[i - 1].bytes;
  }
  if (steps > 0) {
    memory->churn_of = exact ? "all allocations" : "inside ops";
    memory->churn_count = median(counts, steps);
    memory->churn_bytes = median(bytes, steps);
    memory->churn_steps = steps;
  }
  free(counts);
  free(bytes);
}

/* ---- what lived at the peak ---- */

static void fill_lived(struct analysis *a, const struct process *p, const struct live_owner *o,
                       struct opgap_sum_lived *row)
{
  const struct thread *t = &a->threads[o->thread];
  struct line_fit fit;
  *row = (struct opgap_sum_lived){.pid = p->info->pid,
                                  .tid = t->tid,
                                  .thread = analysis_text(a, t->name),
                                  .op = analysis_text(a, o->op),
                                  .source_location = analysis_text(a, o->place),
                                  .bytes = o->peak_bytes,
                                  .blocks = o->peak_count};
  if (!line_fit(&o->growth, &fit))
    return;
  double half = line_half_width(&o->growth, &fit), updates = p->updates_a_step > 0 ? p->updates_a_step : 1;
  row->growth_points = (uint64_t)(o->growth.n / updates);
  row->growth_bytes = fit.slope * updates;
  row->growth_low = (fit.slope - half) * updates;
  row->growth_high = (fit.slope + half) * updates;
}

static void finish_lived(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  size_t room = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    live_finish(&a->processes[i].live);
    room += a->processes[i].live.owners.count;
  }
  memory->lived = opgap_pool_alloc(a->pool, room * sizeof *memory->lived);
  memory->peaks = opgap_pool_alloc(a->pool, a->process_count * sizeof *memory->peaks);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->included || p->points == 0)
      continue;
    memory->peaks[memory->peak_count++] =
        (struct opgap_sum_peak){.pid = p->info->pid,
                                .at_ns = p->live.peak_ns > a->start_ns ? p->live.peak_ns - a->start_ns : 0,
                                .bytes = p->live.peak_bytes};
    for (size_t k = 0; k < p->live.owners.count; k++) {
      const struct live_owner *o = &p->live.owners.at[k];
      if (o->site == 0 && (o->peak_bytes > 0 || o->bytes > 0))
        fill_lived(a, p, o, &memory->lived[memory->lived_count++]);
    }
  }
  order_rows(memory->lived, memory->lived_count, sizeof *memory->lived, order_lived);
}

void memory_finish(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  memory->peak_bytes = memory->live_bytes = OPGAP_UNKNOWN;
  memory->peak_rss_bytes = peak_rss(a);
  add_hooks(a, memory);
  finish_growth(a);
  finish_churn(a);
  finish_courses(a);
  finish_lived(a);
  finish_failures(a);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->included || !p->alloc_events || p->points == 0)
      continue;
    memory->live_bytes = (memory->live_bytes == OPGAP_UNKNOWN ? 0 : memory->live_bytes) + p->live.bytes;
    memory->peak_bytes = (memory->peak_bytes == OPGAP_UNKNOWN ? 0 : memory->peak_bytes) + p->live.peak_bytes;
  }
}
