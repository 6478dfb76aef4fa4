/* Where the time of each step went, on the trainer's main thread and its GPU: every instant belongs to the first class
 * that matches (Kernel > Memcpy > Memset > Communication > Runtime > DataLoader > CPU exec > Other).
 *
 * Intervals of each class are kept until the step that they lie in is summed, SETTLE_NS after its end; a process
 * without steps keeps the last INTERVAL_LIMIT. */
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL_LIMIT 262144u

struct step_classes {
  uint64_t ns[OPGAP_CLASS_COUNT];
};

struct breakdown_process {
  struct intervals class_[OPGAP_CLASS_OTHER];
  enum step_source source;
  VEC(struct step_classes) steps; /* one a step of the source, in order */
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

static void add(struct analysis *a, unsigned process, enum opgap_class class_, uint64_t start, uint64_t end)
{
  struct intervals *iv = &process_of(a, process)->class_[class_];
  if (iv->v.count >= INTERVAL_LIMIT)
    intervals_drop_before(iv, iv->v.at[iv->v.count / 2].start);
  intervals_append(iv, start, end);
}

void breakdown_op(struct analysis *a, struct thread *t, uint32_t flags, bool framework, const struct opgap_record *r)
{
  if (a->processes[t->process].main_thread != (unsigned)(t - a->threads))
    return;
  if (flags & NAME_COMM)
    add(a, t->process, OPGAP_CLASS_COMMUNICATION, r->start_ns, r->end_ns);
  else if (flags & NAME_NEXT)
    add(a, t->process, OPGAP_CLASS_DATALOADER, r->start_ns, r->end_ns);
  else if (framework || flags & NAME_STEP)
    add(a, t->process, OPGAP_CLASS_CPU_EXEC, r->start_ns, r->end_ns);
}

void breakdown_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  if (hook->verb == VERB_CUDA && a->processes[t->process].main_thread == (unsigned)(t - a->threads))
    add(a, t->process, OPGAP_CLASS_RUNTIME, r->start_ns, r->end_ns);
}

void breakdown_gpu(struct analysis *a, unsigned process, enum opgap_class class_, uint64_t start, uint64_t end)
{
  add(a, process, class_, start, end);
}

/* cover becomes the union of cover and the part of iv in [start, end]; returns its length. */
static uint64_t unite(struct intervals *cover, const struct intervals *iv, uint64_t start, uint64_t end)
{
  struct intervals merged = {0};
  uint64_t length = 0;
  size_t i = 0, k = 0;
  while (i < cover->v.count || k < iv->v.count) {
    const struct interval *c = i < cover->v.count ? &cover->v.at[i] : NULL;
    const struct interval *n = k < iv->v.count ? &iv->v.at[k] : NULL;
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

static void sum_step(struct breakdown_process *b, uint64_t start, uint64_t end)
{
  struct step_classes *step = VEC_PUSH(&b->steps);
  struct intervals cover = {0};
  uint64_t covered = 0;
  for (int c = 0; c < OPGAP_CLASS_OTHER; c++) {
    uint64_t now = unite(&cover, &b->class_[c], start, end);
    step->ns[c] = now - covered;
    covered = now;
    intervals_drop_before(&b->class_[c], start);
  }
  step->ns[OPGAP_CLASS_OTHER] = end - start - covered;
  VEC_FREE(&cover.v);
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
    b->steps.count = 0;
  }
  const struct step_list *list = &p->steps[source];
  while (b->steps.count < list->end.count && list->end.at[b->steps.count] <= until) {
    size_t i = b->steps.count;
    uint64_t start = list->start.at[i];
    uint64_t end = list->end.at[i] > start ? list->end.at[i] : start;
    sum_step(b, start, end);
  }
}

void breakdown_step(struct analysis *a, unsigned process)
{
  sum_steps(a, process, a->now > SETTLE_NS ? a->now - SETTLE_NS : 0);
}

void breakdown_finish(struct analysis *a)
{
  unsigned process = steps_process(a);
  if (process == UINT32_MAX)
    return;
  sum_steps(a, process, UINT64_MAX);
  struct opgap_sum_breakdown *sum = &a->summary->breakdown;
  const struct breakdown_process *b = process_of(a, process);
  const struct step_list *list = &a->processes[process].steps[b->source];
  size_t skip = a->summary->steps.skipped;
  for (size_t i = 0; i < b->steps.count; i++) {
    if (!analysis_in_window(a, list->end.at[i]))
      continue;
    if (skip > 0) {
      skip--;
      continue;
    }
    sum->steps++;
    for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
      sum->class_ns[c] += b->steps.at[i].ns[c];
  }
}

void breakdown_close(struct analysis *a)
{
  if (a->breakdown == NULL)
    return;
  for (unsigned i = 0; i < a->process_count; i++) {
    struct breakdown_process *b = &a->breakdown->at[i];
    for (int c = 0; c < OPGAP_CLASS_OTHER; c++)
      VEC_FREE(&b->class_[c].v);
    VEC_FREE(&b->steps);
  }
  free(a->breakdown->at);
  free(a->breakdown);
}
