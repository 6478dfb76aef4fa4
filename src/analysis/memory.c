/* Host memory: exact numbers from the allocation hooks' counts; live and peak bytes only when every allocation was
 * recorded with its address and size (then memory here is bounded by the blocks alive at a time). */
#include "analysis/internal.h"

#include <string.h>

/* A block's size in the table of live blocks: its low bits + 1 under key 1 (0 is "not there"); blocks of 1 GiB and more
 * have the rest under key 2. */
#define LOW_BITS 30
#define HAS_HIGH (UINT32_C(1) << 31)

static uint64_t size_of(const struct process *p, uint64_t address, uint32_t code)
{
  if (code == 0)
    return 0;
  uint64_t high = code & HAS_HIGH ? opgap_map_get(&p->live, address, 2) : 0;
  return (high << LOW_BITS) + (code & ~HAS_HIGH) - 1;
}

/* Gives a block of the table another size; returns the one it had.  `code` is its entry under key 1. */
static uint64_t replace_size(struct process *p, uint64_t address, uint32_t *code, uint64_t bytes)
{
  uint64_t before = size_of(p, address, *code);
  *code = (uint32_t)(bytes & ((UINT64_C(1) << LOW_BITS) - 1)) + 1;
  if (bytes >> LOW_BITS) {
    *code |= HAS_HIGH; /* before the table may grow */
    *opgap_map_put(&p->live, address, 2) = (uint32_t)(bytes >> LOW_BITS);
  }
  return before;
}

/* A block that was given back stays in the table as one of 0 bytes: its address will come again. */
static void forget(struct process *p, uint64_t address)
{
  uint32_t *code = opgap_map_find(&p->live, address, 1);
  if (code != NULL)
    p->live_bytes -= replace_size(p, address, code, 0);
}

void memory_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                 bool point)
{
  struct process *p = &a->processes[t->process];
  if (!p->alloc_events || r->status != 0 || r->field[0] == 0)
    return;
  p->points += point;
  if (hook->verb == VERB_FREE || r->field[1] == OPGAP_ALLOC_RELEASED) {
    forget(p, r->field[0]);
    return;
  }
  p->live_bytes -= replace_size(p, r->field[0], opgap_map_put(&p->live, r->field[0], 1), r->field[1]);
  p->live_bytes += r->field[1];
  if (p->live_bytes > p->peak_bytes)
    p->peak_bytes = p->live_bytes;
}

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
  p->last_usage = (struct usage){r->end_ns, r->field[1], r->field[3], r->field[4]};
  if (p->first_usage.at == 0)
    p->first_usage = p->last_usage;
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

/* ---- growth ---- */

/* A least-squares line through points, in one pass about the first. */
struct line {
  double n, x0, y0, x, y, xx, xy, yy;
};

static void line_add(struct line *l, double x, double y)
{
  if (l->n == 0) {
    l->x0 = x;
    l->y0 = y;
  }
  x -= l->x0;
  y -= l->y0;
  l->n++;
  l->x += x;
  l->y += y;
  l->xx += x * x;
  l->xy += x * y;
  l->yy += y * y;
}

#define GROWTH_LEAST_POINTS 8

static bool line_fit(const struct line *l, double *slope, double *explained)
{
  double xx = l->xx - l->x * l->x / l->n, xy = l->xy - l->x * l->y / l->n, yy = l->yy - l->y * l->y / l->n;
  if (l->n < GROWTH_LEAST_POINTS || xx <= 0)
    return false;
  *slope = xy / xx;
  *explained = yy > 0 ? xy * xy / (xx * yy) : 0;
  return true;
}

static void finish_growth(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  const struct opgap_sum_steps *steps = &a->summary->steps;
  unsigned process = steps_process(a);
  memory->growth_of = "";
  if (process == UINT32_MAX || steps->count <= steps->skipped || steps->mean_ns == 0)
    return;
  const struct process *p = &a->processes[process];
  const struct step_list *list = &p->steps[steps_source(p)];
  uint64_t start = a->start_ns + steps->start_ns[steps->skipped], end = start;
  end += steps->start_ns[steps->count - 1] + steps->durations_ns[steps->count - 1] - steps->start_ns[steps->skipped];
  struct line line = {0};
  bool exact = p->alloc_events && p->points > 0 && list->live.count == list->end.count;
  for (size_t i = 0; exact && i < list->live.count; i++)
    if (list->end.at[i] > start && list->end.at[i] <= end)
      line_add(&line, (double)i, (double)list->live.at[i]);
  for (size_t i = 0; !exact && i < p->samples.count; i++)
    if (p->samples.at[i].time > start && p->samples.at[i].time <= end)
      line_add(&line, (double)(p->samples.at[i].time - start) / (double)steps->mean_ns, (double)p->samples.at[i].rss);
  if (!line_fit(&line, &memory->growth_bytes, &memory->growth_fit))
    return;
  memory->growth_of = exact ? "live bytes" : "resident memory";
  memory->growth_points = (uint64_t)line.n;
}

void memory_finish(struct analysis *a)
{
  struct opgap_sum_memory *memory = &a->summary->memory;
  memory->peak_bytes = memory->live_bytes = OPGAP_UNKNOWN;
  memory->peak_rss_bytes = peak_rss(a);
  add_hooks(a, memory);
  finish_growth(a);
  finish_courses(a);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->included)
      continue;
    if (p->alloc_events && p->points > 0) {
      memory->live_bytes = (memory->live_bytes == OPGAP_UNKNOWN ? 0 : memory->live_bytes) + p->live_bytes;
      memory->peak_bytes = (memory->peak_bytes == OPGAP_UNKNOWN ? 0 : memory->peak_bytes) + p->peak_bytes;
    }
  }
}
