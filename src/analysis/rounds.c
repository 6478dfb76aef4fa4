/* Steps of several updates: a GAN updates its discriminator and its generator, by an optimizer each, in one round of
 * the loop.
 *
 * steps.c ends a step with each optimizer update that has a backward pass or a fetched batch of its own.  When all
 * records are read, updates are joined into rounds where they come in a regular pattern of 2 to 8:
 *   - where batches are fetched, a round begins with the update behind a fetch, if nine of ten rounds are equally long;
 *   - else the updates are told apart by their optimizer's name and the number of ops in their backward passes (what a
 *     step does besides, such as logging in every tenth one, does not count), and a round is the smallest period that
 *     nineteen of twenty updates follow.
 * With OPGAP_SCHEDULE, whose windows the tracer counts in updates, nothing is joined. */
#include "analysis/internal.h"

#include <stdlib.h>

#define LONGEST_ROUND 8u
#define LEAST_UPDATES 8u

void rounds_update(struct process *p, uint32_t name)
{
  *VEC_PUSH(&p->updates) =
      (struct update){.signature = (uint64_t)name << 32 | (uint32_t)(p->backwards - p->told), .fetched = p->fetched};
  p->told = p->backwards;
  p->fetched = false;
}

/* The usual number of updates from one fetch to the next; 0: none is usual. */
static size_t updates_a_fetch(const struct process *p)
{
  size_t lengths[LONGEST_ROUND + 1] = {0}, rounds = 0, length = 0;
  for (size_t i = 0; i < p->updates.count; i++) {
    if (p->updates.at[i].fetched && i > 0) {
      lengths[length <= LONGEST_ROUND ? length : 0]++;
      rounds++;
      length = 0;
    }
    length++;
  }
  for (size_t n = 1; n <= LONGEST_ROUND && rounds > 1; n++)
    if (lengths[n] * 10 >= rounds * 9)
      return n;
  return 0;
}

static size_t period(const struct process *p)
{
  for (size_t n = 1; n <= LONGEST_ROUND && p->updates.count >= 3 * n; n++) {
    size_t equal = 0;
    for (size_t i = n; i < p->updates.count; i++)
      equal += p->updates.at[i].signature == p->updates.at[i - n].signature;
    if (equal * 20 >= (p->updates.count - n) * 19)
      return n;
  }
  return 1;
}

/* Joins the updates [from, to) to one step behind the `count` that are there; they must follow each other. */
static bool join(struct step_list *list, size_t count, size_t from, size_t to)
{
  for (size_t i = from + 1; i < to; i++)
    if (list->start.at[i] != list->end.at[i - 1])
      return false;
  list->start.at[count] = list->start.at[from];
  list->end.at[count] = list->end.at[to - 1];
  list->churn.at[count] = list->churn.at[to - 1];
  if (list->live.count > 0)
    list->live.at[count] = list->live.at[to - 1];
  return true;
}

static void join_all(struct analysis *a, unsigned process, size_t length, bool by_fetch)
{
  struct process *p = &a->processes[process];
  struct step_list *list = &p->steps[STEPS_OPTIMIZER];
  size_t count = 0, from = 0, updates = p->updates.count;
  if (!a->steps_only)
    breakdown_all(a, process);
  for (size_t to = 1; to <= updates; to++) {
    bool ends = by_fetch ? to == updates || p->updates.at[to].fetched : to - from == length;
    if (!ends)
      continue;
    if (to - from >= length || to < updates) { /* the last one may be cut */
      bool joined = join(list, count, from, to);
      if (joined && !a->steps_only)
        breakdown_join(a, process, from, to);
      count += joined;
    }
    from = to;
  }
  p->updates_a_step = (double)updates / (double)(count ? count : 1);
  list->start.count = list->end.count = list->churn.count = count;
  list->live.count = list->live.count > 0 ? count : 0;
  if (!a->steps_only)
    breakdown_joined(a, process);
}

void rounds_find(struct analysis *a)
{
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    if (steps_source(p) != STEPS_OPTIMIZER || p->scheduled || p->updates.count < LEAST_UPDATES)
      continue;
    size_t by_fetch = updates_a_fetch(p), length = by_fetch ? by_fetch : period(p);
    if (length > 1)
      join_all(a, i, length, by_fetch > 1);
  }
}
