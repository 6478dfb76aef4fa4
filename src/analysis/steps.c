/* Steps: where one training step ends and the next begins.
 *
 * Several kinds of marks are followed at once; the first of enum step_source that a process has counts.  For
 * Optimizer.step a step ends with the outermost range of that name; a further optimizer is of the same step unless a
 * batch was fetched or a backward pass ran in between (several optimizers, one step); rounds.c joins updates with
 * backward passes of their own.
 *
 * With OPGAP_SCHEDULE only windows of `active` steps are recorded.  A window opens as a step ends, so its first step
 * begins there; where that was not recorded (a ring was full), the time from the last mark before the gap to the first
 * one after it is no step; likewise where `opgap stop` and `opgap start` left a part out. */
#include "analysis/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/text.h"

/* The number behind "KEY=" in a list "wait=N,warmup=N,active=N"; 0 when it is not there. */
static uint64_t schedule_part(const char *schedule, const char *key)
{
  size_t length = strlen(key);
  for (const char *at = schedule; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, key, length) == 0 && at[length] == '=')
      return strtoull(at + length + 1, NULL, 10);
  }
  return 0;
}

void steps_open(struct analysis *a, unsigned process)
{
  const char *schedule = a->source->info(a->source->context, process, "OPGAP_SCHEDULE");
  uint64_t active = schedule ? schedule_part(schedule, "active") : 0;
  a->processes[process].scheduled = active > 0;
  if (active > 0 && schedule_part(schedule, "wait") + schedule_part(schedule, "warmup") > 0)
    a->processes[process].window_steps = active;
}

/* Whether the recording was off somewhere between the mark before this one (of a list) and this one.  Marks at the
 * end of a step are `active` a window, and the first one of a window ends an interval that began in the gap.  Marks
 * at the start of a step are as many, so the first one of a window closes the step that began last before the gap. */
static bool spans_gap(const struct process *p, enum step_source source, uint64_t mark)
{
  if (p->window_steps == 0)
    return false;
  if (source >= STEPS_BACKWARD) /* the first mark of all closed nothing and was not counted */
    return (mark + 1) % p->window_steps == 0;
  return mark % p->window_steps == 0 && (mark > 0 || source == STEPS_API);
}

/* Does a schedule count steps by these marks?  Then each of them ends where one ended for the tracer. */
static bool counted_by_schedule(enum step_source source)
{
  return source == STEPS_API || source == STEPS_PROFILER || source == STEPS_OPTIMIZER;
}

static void push(struct analysis *a, unsigned process, enum step_source source, uint64_t start, uint64_t end)
{
  struct process *p = &a->processes[process];
  struct step_list *list = &p->steps[source];
  bool gap = spans_gap(p, source, list->marks);
  uint64_t opened = counted_by_schedule(source) ? windows_opened(p, list->marks > 0 ? list->last_end : 0, end) : 0;
  if (list->marks++ == 0)
    list->first_start = start;
  else
    start = list->last_end;
  list->last_end = end;
  if (opened > 0) {
    start = opened;
    gap = false;
  }
  if (gap || windows_off_within(p, start, end))
    return;
  *VEC_PUSH(&list->start) = start;
  *VEC_PUSH(&list->end) = end;
  if (p->alloc_events)
    *VEC_PUSH(&list->live) = p->live.bytes;
  *VEC_PUSH(&list->churn) = p->churn;
  if (steps_source(p) != source)
    return;
  live_step_ended(&p->live, source);
  breakdown_step(a, process);
}

/* The same step went on: moves its end. */
static void extend(struct step_list *list, uint64_t end)
{
  if (list->end.count > 0 && list->end.at[list->end.count - 1] == list->last_end)
    list->end.at[list->end.count - 1] = end;
  list->last_end = end;
}

static void optimizer_ended(struct analysis *a, struct thread *t, uint32_t name, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  struct step_list *list = &p->steps[STEPS_OPTIMIZER];
  if (list->marks > 0 && p->last_split_ns < list->last_end) {
    if (windows_opened(p, list->last_end, r->end_ns) > 0)
      return; /* a further optimizer of the step before the window */
    extend(list, r->end_ns);
    return;
  }
  size_t steps = list->end.count;
  push(a, t->process, STEPS_OPTIMIZER, p->first_op_ns, r->end_ns);
  if (list->end.count > steps)
    rounds_update(p, name);
}

/* A step began with this fetch, so the one before it ended here. */
static void fetch_began(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  struct step_list *list = &p->steps[STEPS_DATALOADER];
  if (list->first_start == 0)
    list->first_start = r->start_ns;
  else
    push(a, t->process, STEPS_DATALOADER, list->first_start, r->start_ns);
}

/* Without an optimizer of PyTorch's, each burst of backward ops after forward ops is a step. */
static void follow_bursts(struct analysis *a, struct thread *t, uint32_t flags, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  struct step_list *list = &p->steps[STEPS_BACKWARD];
  if (!(flags & NAME_BACKWARD)) {
    p->last_forward_ns = r->end_ns;
    return;
  }
  bool begins = p->last_forward_ns > p->last_backward_ns;
  p->last_backward_ns = r->end_ns;
  if (!begins)
    return;
  if (list->first_start == 0)
    list->first_start = r->start_ns;
  else
    push(a, t->process, STEPS_BACKWARD, list->first_start, r->start_ns);
}

/* ---- a loop without any mark ----
 *
 * The outermost ops and ranges of the main thread make a sequence of names.  A name that comes again after the same
 * number of others nearly every time marks the rounds of a loop; the longest such period is the loop around all.  It is
 * looked for in the first PERIOD_LIMIT ops (fewer where there are more than 16 processes), or when all records are
 * read. Later rounds are followed as they come, up to PERIOD_LIMIT (fewer where there are more than 4 processes). */

#define PERIOD_LEAST_ROUNDS 10u

struct recurring {
  uint32_t name, count, last; /* last: position + 1 */
  uint32_t period, votes;     /* majority of the distances, by Boyer and Moore */
  uint32_t equal;             /* distances that are the period */
};
struct recurrings {
  struct opgap_map index; /* (name, 0) -> rows + 1 */
  VEC(struct recurring) rows;
};

static struct recurring *recurring_of(struct recurrings *all, uint32_t name)
{
  uint32_t *index = opgap_map_put(&all->index, name, 0);
  if (*index == 0) {
    VEC_PUSH(&all->rows)->name = name;
    *index = (uint32_t)all->rows.count;
  }
  return &all->rows.at[*index - 1];
}

static void count_distances(struct recurrings *all, const struct process *p)
{
  for (uint32_t i = 0; i < p->outermost.count; i++) {
    struct recurring *r = recurring_of(all, p->outermost.at[i].name);
    uint32_t distance = i + 1 - r->last;
    if (r->count++ > 0) {
      if (r->votes == 0)
        r->period = distance;
      r->votes += distance == r->period ? 1 : -1u;
    }
    r->last = i + 1;
  }
  for (size_t k = 0; k < all->rows.count; k++)
    all->rows.at[k].last = 0;
  for (uint32_t i = 0; i < p->outermost.count; i++) {
    struct recurring *r = recurring_of(all, p->outermost.at[i].name);
    r->equal += r->last > 0 && i + 1 - r->last == r->period;
    r->last = i + 1;
  }
}

/* At least nine of ten distances are the period, and the rounds make up four fifths of the sequence. */
static bool is_regular(const struct recurring *r, size_t sequence)
{
  return r->count > PERIOD_LEAST_ROUNDS && r->equal * 10ull >= (r->count - 1) * 9ull &&
         (uint64_t)r->equal * r->period * 5 >= (uint64_t)sequence * 4;
}

/* The next outermost op: a round ends where the op of the period comes again after as many. */
static void follow_period(const struct analysis *a, struct process *p, uint32_t name, uint64_t start)
{
  struct period *period = &p->period;
  uint64_t position = ++period->position; /* + 1 */
  if (name != period->name)
    return;
  struct step_list *list = &p->steps[STEPS_PERIOD];
  if (period->last > 0 && position - period->last == period->length && steps_period_room(a, p)) {
    list->marks++;
    *VEC_PUSH(&list->start) = period->last_start;
    *VEC_PUSH(&list->end) = start;
  }
  period->last = position;
  period->last_start = start;
}

static void find_period(const struct analysis *a, struct process *p)
{
  struct recurrings all = {0};
  const struct recurring *best = NULL; /* rows are by first position, so that is the first op of a round */
  count_distances(&all, p);
  for (size_t k = 0; k < all.rows.count; k++)
    if (is_regular(&all.rows.at[k], p->outermost.count) && (best == NULL || all.rows.at[k].period > best->period))
      best = &all.rows.at[k];
  p->period = (struct period){.sought = true};
  if (best != NULL) {
    p->period.name = best->name;
    p->period.length = best->period;
    for (uint32_t i = 0; i < p->outermost.count; i++)
      follow_period(a, p, p->outermost.at[i].name, p->outermost.at[i].start);
  }
  VEC_FREE(&p->outermost);
  opgap_map_free(&all.index);
  VEC_FREE(&all.rows);
}

void steps_find_period(struct analysis *a)
{
  for (unsigned i = 0; i < a->process_count; i++)
    if (steps_source(&a->processes[i]) == STEPS_SOURCES && a->processes[i].outermost.count > PERIOD_LEAST_ROUNDS)
      find_period(a, &a->processes[i]);
}

static void follow_outermost(struct analysis *a, struct thread *t, uint32_t name, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  if (!t->watched || (p->period.sought && p->period.length == 0))
    return;
  if (p->period.sought && name != p->period.name) { /* most are */
    p->period.position++;
    return;
  }
  if (steps_source(p) < STEPS_PERIOD) {
    VEC_FREE(&p->outermost);
    return;
  }
  uint64_t last = p->period.last;
  if (!p->period.sought) {
    *VEC_PUSH(&p->outermost) = (struct past_op){r->start_ns, r->end_ns, name};
    if (p->outermost.count >= analysis_share(a, SHARED_LIMIT, PERIOD_LIMIT))
      find_period(a, p);
  } else {
    follow_period(a, p, name, r->start_ns);
  }
  if (p->period.last != last) /* also behind the last round that is a step: it is summed later */
    breakdown_step(a, t->process);
}

void steps_marking_op(struct analysis *a, struct thread *t, uint32_t name, uint32_t flags, bool framework,
                      const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  if (r->depth == 0) {
    follow_outermost(a, t, name, r);
    if (framework)
      follow_bursts(a, t, flags, r);
  }
  if (p->first_op_ns == 0 || r->start_ns < p->first_op_ns)
    p->first_op_ns = r->start_ns;
  if (flags & (NAME_NEXT | NAME_BACKWARD) && r->end_ns > p->last_split_ns)
    p->last_split_ns = r->end_ns;
  if (flags & NAME_BACKWARD)
    p->backwards++;
  if (flags & NAME_STEP) {
    p->steps_seen++;
    optimizer_ended(a, t, name, r);
  }
  if (flags & NAME_PROFILER)
    push(a, t->process, STEPS_PROFILER, r->start_ns, r->end_ns);
  if (flags & NAME_NVTX_STEP)
    push(a, t->process, STEPS_NVTX, r->start_ns, r->end_ns);
  if (flags & NAME_NEXT) {
    p->fetched = true;
    fetch_began(a, t, r);
  }
}

void steps_mark(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  push(a, t->process, STEPS_API, a->processes[t->process].info->start_ns, r->end_ns);
}

enum step_source steps_source(const struct process *p)
{
  for (int s = 0; s < STEPS_SOURCES; s++)
    if (p->steps[s].end.count > (s >= STEPS_BACKWARD && s != STEPS_PERIOD ? 1 : 0))
      return (enum step_source)s;
  return STEPS_SOURCES;
}

/* Marks before periods, then the lowest rank, then the most steps. */
static bool better_steps(const struct process *p, const struct process *best)
{
  enum step_source own = steps_source(p), other = steps_source(best);
  if ((own == STEPS_PERIOD) != (other == STEPS_PERIOD))
    return other == STEPS_PERIOD;
  if (p->info->rank != best->info->rank)
    return p->info->rank < best->info->rank;
  return p->steps[own].end.count > best->steps[other].end.count;
}

unsigned steps_process(const struct analysis *a)
{
  unsigned best = UINT32_MAX;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (steps_source(p) == STEPS_SOURCES || !p->included || p->role == OPGAP_ROLE_WORKER)
      continue;
    if (best == UINT32_MAX || better_steps(p, &a->processes[best]))
      best = i;
  }
  return best;
}

bool steps_window(struct analysis *a, char *error, size_t size)
{
  unsigned process = steps_process(a);
  if (process == UINT32_MAX) {
    snprintf(error, size, "no steps were found in this trace, so --steps cannot be used");
    return false;
  }
  const struct process *p = &a->processes[process];
  const struct step_list *list = &p->steps[steps_source(p)];
  if (a->options.first_step >= list->end.count || a->options.first_step > a->options.last_step) {
    snprintf(error, size, "--steps %llu:%llu: this trace has steps 0 to %zu", (unsigned long long)a->options.first_step,
             (unsigned long long)a->options.last_step, list->end.count - 1);
    return false;
  }
  size_t last = a->options.last_step < list->end.count ? a->options.last_step : list->end.count - 1;
  a->window_start = list->start.at[a->options.first_step];
  a->window_end = list->end.at[last];
  return true;
}

/* Warm-up: at most the first 10 steps or a fifth of all; those that come before the first step that is no slower than
 * 1.5 times the median of the second half.  At least one step, if there are several. */
static size_t warm_up(const uint64_t *durations, size_t count)
{
  if (count < 3)
    return 0;
  size_t half = count - count / 2, most = count / 5 < 10 ? count / 5 : 10, skipped = 1;
  uint64_t *later = opgap_xcalloc(half, sizeof *later);
  memcpy(later, durations + count / 2, half * sizeof *later);
  stats_sort(later, half);
  uint64_t median = stats_percentile(later, half, 0.5);
  while (skipped < most && durations[skipped] > median + median / 2)
    skipped++;
  free(later);
  return skipped;
}

static void step_statistics(struct opgap_sum_steps *steps)
{
  steps->median_ns = steps->p95_ns = steps->min_ns = steps->max_ns = steps->mean_ns = OPGAP_UNKNOWN;
  size_t count = steps->count - steps->skipped;
  if (count == 0)
    return;
  uint64_t *sorted = opgap_xcalloc(count, sizeof *sorted), sum = 0;
  memcpy(sorted, steps->durations_ns + steps->skipped, count * sizeof *sorted);
  stats_sort(sorted, count);
  for (size_t i = 0; i < count; i++)
    sum += sorted[i];
  steps->median_ns = stats_percentile(sorted, count, 0.5);
  steps->p95_ns = stats_percentile(sorted, count, 0.95);
  steps->min_ns = sorted[0];
  steps->max_ns = sorted[count - 1];
  steps->mean_ns = sum / count;
  free(sorted);
}

void steps_list(struct analysis *a, unsigned process, struct opgap_sum_steps *steps)
{
  static const char *const names[] = {"opgap_step", "ProfilerStep", "Optimizer.step", "NVTX",
                                      "backward",   "DataLoader",   "periodicity",    "none"};
  steps->source = names[STEPS_SOURCES];
  if (process != UINT32_MAX) {
    const struct process *p = &a->processes[process];
    const struct step_list *list = &p->steps[steps_source(p)];
    steps->source = names[steps_source(p)];
    steps->pid = p->info->pid;
    steps->start_ns = opgap_pool_alloc(a->pool, list->end.count * sizeof(uint64_t));
    steps->durations_ns = opgap_pool_alloc(a->pool, list->end.count * sizeof(uint64_t));
    for (size_t i = 0; i < list->end.count; i++) {
      uint64_t start = list->start.at[i], end = list->end.at[i];
      if (!analysis_in_window(a, end))
        continue;
      steps->start_ns[steps->count] = start > a->start_ns ? start - a->start_ns : 0;
      steps->durations_ns[steps->count++] = end > start ? end - start : 0;
    }
    steps->skipped = a->options.steps_given ? 0 : warm_up(steps->durations_ns, steps->count);
  }
  step_statistics(steps);
}

void steps_finish(struct analysis *a)
{
  steps_list(a, steps_process(a), &a->summary->steps);
}

bool steps_counted(const struct analysis *a, uint64_t *start, uint64_t *end)
{
  const struct opgap_sum_steps *steps = &a->summary->steps;
  if (steps->count <= steps->skipped)
    return false;
  *start = a->start_ns + steps->start_ns[steps->skipped];
  *end = a->start_ns + steps->start_ns[steps->count - 1] + steps->durations_ns[steps->count - 1];
  return true;
}

/* The image that follows an image which ended by exec; NULL: none was traced. */
static const struct opgap_sum_process *next_image(const struct opgap_summary *s, const struct opgap_sum_process *p)
{
  for (size_t i = 0; strcmp(p->ended, "exec") == 0 && i < s->process_count; i++) {
    const struct opgap_sum_process *next = &s->processes[i];
    if (next != p && next->pid == p->pid && next->start_ns >= p->end_ns && strcmp(next->host, p->host) == 0)
      return next;
  }
  return NULL;
}

const struct opgap_sum_process *opgap_step_process(const struct opgap_summary *s)
{
  const struct opgap_sum_steps *steps = &s->steps;
  const struct opgap_sum_process *found = NULL;
  for (size_t i = 0; steps->count > 0 && i < s->process_count; i++) {
    const struct opgap_sum_process *p = &s->processes[i];
    if (p->pid == steps->pid &&
        (found == NULL || (p->start_ns <= steps->start_ns[0] && p->start_ns >= found->start_ns)))
      found = p;
  }
  if (found == NULL && s->process_count > 0) {
    found = &s->processes[0];
    for (const struct opgap_sum_process *next; (next = next_image(s, found)) != NULL && next > found;)
      found = next; /* processes are in the order of their starts: this ends */
  }
  return found;
}

static const struct opgap_sum_process *parent_of(const struct opgap_summary *s, const struct opgap_sum_process *child)
{
  const struct opgap_sum_process *parent = NULL;
  for (size_t i = 0; i < s->process_count; i++) { /* a pid may be used again, and exec keeps it: the last before */
    const struct opgap_sum_process *p = &s->processes[i];
    if (p != child && p->pid == child->ppid && p->start_ns <= child->start_ns && strcmp(p->host, child->host) == 0 &&
        (parent == NULL || p->start_ns >= parent->start_ns))
      parent = p;
  }
  return parent;
}

const struct opgap_sum_process *opgap_spawner(const struct opgap_summary *s, const struct opgap_sum_process *process)
{
  const struct opgap_sum_process *at = process;
  for (size_t i = 0; i < s->process_count && at != NULL && text_is_spawned(at->command); i++)
    at = parent_of(s, at);
  return at != NULL && !text_is_spawned(at->command) ? at : process;
}

const char *opgap_process_command(struct opgap_pool *pool, const struct opgap_summary *s,
                                  const struct opgap_sum_process *process)
{
  const struct opgap_sum_process *spawner = opgap_spawner(s, process);
  return spawner == process ? process->command : opgap_pool_printf(pool, "%s" TEXT_SPAWNED, spawner->command);
}
