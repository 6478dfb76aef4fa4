/* The CPUs of the run during the steps counted: what its threads used of them and wanted, and what was left.
 *
 * Whoever advises to use more of them asks here, so that no sentence of a report offers what another one says is
 * taken (docs/VERDICT.md).  All figures are from the scheduler's samples. */
#include "analysis/internal.h"

#include <stdlib.h>

static double share(uint64_t part, uint64_t whole)
{
  return whole ? (double)part / (double)whole : 0;
}

static uint64_t less(uint64_t from, uint64_t what)
{
  return from > what ? from - what : 0;
}

/* That a process may run on (its affinity), as noted; 0: it was not. */
static unsigned cores_of(const struct analysis *a, unsigned process)
{
  const char *text = a->source->info(a->source->context, process, "cores");
  return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* Of all processes: each may be held to some of the CPUs. */
static unsigned most_cores(const struct analysis *a)
{
  unsigned most = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    unsigned n = cores_of(a, i);
    most = n > most ? n : most;
  }
  return most;
}

/* That the process of the steps may use: its affinity, and its cgroup's limit, a part of a CPU taken as a whole one. */
static unsigned had(const struct analysis *a)
{
  unsigned cores = cores_of(a, steps_process(a));
  uint64_t limit = (a->processes[steps_process(a)].cpu_limit + 999) / 1000;
  return limit > 0 && limit < cores ? (unsigned)limit : cores;
}

static void add_needed(struct analysis *a, unsigned thread, uint64_t start, uint64_t end, struct cpu_use *use)
{
  const struct thread *t = &a->threads[thread];
  const struct process *p = &a->processes[t->process];
  bool trainer = thread == a->processes[steps_process(a)].main_thread;
  if ((trainer || (p->role == OPGAP_ROLE_WORKER && thread == p->main_thread)) && !threads_has_team(a, t, start, end))
    *(trainer ? &use->main_ns : &use->workers_ns) += threads_ran_at_least(t, start, end);
}

struct cpu_use cpus_used(struct analysis *a)
{
  struct cpu_use use = {.have = had(a)};
  uint64_t start, end;
  if (!steps_counted(a, &start, &end))
    return use;
  unsigned main_thread = a->processes[steps_process(a)].main_thread;
  use.span_ns = end - start;
  for (unsigned i = 0; i < a->thread_count; i++) {
    struct thread *t = &a->threads[i];
    const struct past_sample *from, *to;
    struct off_cpu off;
    const struct process *p = &a->processes[t->process];
    if (!p->included || p->info->streams[t->stream].kind != OPGAP_STREAM_THREAD)
      continue;
    if (i == main_thread)
      use.queued_ns = threads_queued_at_most(a, t, start, end);
    else
      use.others_ns += threads_ran_at_most(a, t, start, end);
    add_needed(a, i, start, end, &use);
    if (!timeline_samples_around(t, start, end, &from, &to))
      continue;
    /* Samples that lie much farther apart than the steps took, as the first that are kept do (--keep), tell of other
     * times. */
    if (to->end - from->end > 2 * use.span_ns)
      continue;
    /* what it runs for between its waits for CPUs, and for others of its team that wait for one, whoever had these
     * meanwhile */
    struct team_wait team = {0};
    if (threads_off_cpu(a, t, from->end, to->end, &off))
      team = threads_team_wait(a, t, from->end, to->end, less(off.outside, off.faults));
    use.ran_ns += to->run - from->run;
    use.runnable_ns += to->run - from->run + to->queue - from->queue;
    use.alone_ns += share(to->run - from->run, less(to->end - from->end, to->queue - from->queue + team.queue)) *
                    (double)(to->end - from->end);
  }
  unsigned used = (unsigned)((use.ran_ns + use.span_ns - 1) / use.span_ns);
  use.cpus = most_cores(a);
  use.cpus = use.cpus > 0 && used > use.cpus ? used : use.cpus;
  return use;
}

double cpus_wanted(const struct cpu_use *use)
{
  double alone = use->span_ns ? use->alone_ns / (double)use->span_ns : 0;
  double runnable = share(use->runnable_ns, use->span_ns);
  return share(use->ran_ns, use->span_ns) >= 0.5 * use->have && runnable > alone ? runnable : alone;
}

bool cpus_oversubscribed(const struct cpu_use *use)
{
  return use->have > 0 && cpus_wanted(use) > 1.2 * use->have;
}

unsigned cpus_free(const struct cpu_use *use, bool starved)
{
  if (starved || cpus_oversubscribed(use) || use->have == 1)
    return 0;
  if (use->have == 0 || use->ran_ns == 0)
    return CPUS_UNKNOWN;
  double left = use->have - share(use->ran_ns, use->span_ns);
  return left > 0 ? (unsigned)(left + 0.5) : 0;
}
