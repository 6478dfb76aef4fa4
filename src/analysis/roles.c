/* What each process was for, told from what it did.
 *
 * A trainer ran an optimizer, a backward pass, or fetched batches from a DataLoader.  A DataLoader worker wrote to a
 * pipe that a trainer's __next__ read from, or was forked by the DataLoader's code while only forks were recorded (what
 * it sends may lie outside of all windows); workers of one loader are numbered by their start, as PyTorch does.  A
 * launcher (a shell, a version manager's shim, env) made way for the program that it executed in its place; what it ran
 * before, to find that, are its helpers. */
#include "analysis/internal.h"
#include "analysis/order.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *opgap_role_name(enum opgap_role role)
{
  static const char *const names[OPGAP_ROLE_COUNT] = {"trainer", "DataLoader worker", "other", "program"};
  return names[role];
}

static bool trains(const struct process *p)
{
  return p->steps_seen > 0 || p->backwards > 0 || p->steps[STEPS_DATALOADER].first_start > 0;
}

/* Does trainer t fetch batches through this pipe?  With pinned memory another thread of the trainer reads it. */
static bool fetches(const struct analysis *a, uint64_t pipe, unsigned t, unsigned writer)
{
  const struct process *trainer = &a->processes[t];
  if (t == writer || !trains(trainer) || !analysis_same_host(trainer, &a->processes[writer]))
    return false;
  return opgap_map_get(&a->next_pipes, pipe, t) != 0 ||
         (trainer->info->pid == a->processes[writer].info->ppid && trainer->steps[STEPS_DATALOADER].first_start > 0 &&
          opgap_map_get(&a->pipe_readers, pipe, t) != 0);
}

/* The pipe that a process wrote to and a trainer fetched batches from: gid, or 0. */
static uint32_t result_pipe(const struct analysis *a, unsigned process)
{
  for (size_t i = 0; i < a->pipe_writers.size; i++) {
    const struct opgap_map_cell *writer = &a->pipe_writers.cells[i];
    if (writer->value == 0 || writer->b != process)
      continue;
    for (unsigned t = 0; t < a->process_count; t++)
      if (fetches(a, writer->a, t, process))
        return (uint32_t)writer->a;
  }
  return 0;
}

/* A fork server tells the trainer how the workers ended that it forked, and one of its __next__ calls reads that, too:
 * who forked one that sends batches sends none himself. */
static bool serves_forks(const struct analysis *a, const struct process *p)
{
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *child = &a->processes[i];
    if (child->result_pipe != 0 && child->info->ppid == p->info->pid && analysis_same_host(child, p))
      return true;
  }
  return false;
}

static bool descends_from_trainer(const struct analysis *a, const struct process *p)
{
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].role == OPGAP_ROLE_TRAINER && a->processes[i].info->pid == p->info->ppid &&
        analysis_same_host(&a->processes[i], p))
      return true;
  return false;
}

static bool has_worker_thread_name(const struct analysis *a, unsigned process)
{
  for (unsigned i = 0; i < a->thread_count; i++)
    if (a->threads[i].process == process && a->threads[i].main &&
        strcmp(analysis_text(a, a->threads[i].name), "pt_data_worker") == 0)
      return true;
  return false;
}

/* The process that forked this one in the code of a DataLoader; UINT32_MAX: it is not known to be so. */
static unsigned forked_by_loader(const struct analysis *a, const struct process *p)
{
  for (size_t i = 0; i < a->loader_forks.count; i++) {
    const struct loader_fork *fork = &a->loader_forks.at[i];
    const struct process *parent = &a->processes[fork->parent];
    if (p->info->forked && fork->pid == p->info->pid && parent->info->pid == p->info->ppid &&
        analysis_same_host(parent, p))
      return fork->parent;
  }
  return UINT32_MAX;
}

/* The pipe of the workers that this trainer made when it made p, or that it reads from at all; 0: not known. */
static uint32_t pipe_of_siblings(const struct analysis *a, unsigned trainer, const struct process *p)
{
  uint32_t pipe = 0;
  uint64_t nearest = UINT64_MAX;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *other = &a->processes[i];
    uint64_t one = other->info->start_ns, two = p->info->start_ns, apart = one < two ? two - one : one - two;
    if (other->result_pipe != 0 && forked_by_loader(a, other) == trainer && apart < nearest) {
      pipe = other->result_pipe;
      nearest = apart;
    }
  }
  for (size_t i = 0; pipe == 0 && i < a->next_pipes.size; i++)
    if (a->next_pipes.cells[i].value != 0 && a->next_pipes.cells[i].b == trainer)
      pipe = (uint32_t)a->next_pipes.cells[i].a;
  return pipe;
}

/* The image that a process executed in its place: its file follows the process's own; NULL: none. */
static const struct process *next_image(const struct analysis *a, const struct process *p)
{
  const struct process *next = NULL;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *other = &a->processes[i];
    if (other != p && other->info->pid == p->info->pid && other->info->start_ns >= p->info->end_ns &&
        analysis_same_host(other, p) && (next == NULL || other->info->start_ns < next->info->start_ns))
      next = other;
  }
  return next;
}

static uint64_t life_ns(const struct process *p)
{
  return p->info->end_ns > p->info->start_ns ? p->info->end_ns - p->info->start_ns : 0;
}

/* What a shell or a shim takes to find its program, at most; most of it they wait for commands. */
#define LAUNCH_NS 2000000000u

/* Did this image only lead to `last`, which its process executed in its place in the end? */
static bool launches(const struct analysis *a, const struct process *p, const struct process *last)
{
  uint64_t waits = p->main_thread == UINT32_MAX ? 0 : a->threads[p->main_thread].waits.all;
  return life_ns(p) < life_ns(last) || (life_ns(p) < LAUNCH_NS && waits > life_ns(p) / 2);
}

static const struct process *last_image(const struct analysis *a, const struct process *p)
{
  const struct process *next = p;
  while (next->info->ended == OPGAP_ENDED_EXEC && (next = next_image(a, next)) != NULL)
    p = next;
  return p;
}

/* Was this process there only for a launcher that made way? */
static bool helped_to_launch(const struct analysis *a, const struct process *p)
{
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *parent = &a->processes[i];
    if ((parent->launcher || parent->launch_helper) && parent->made_way_ns >= p->info->end_ns &&
        parent->info->pid == p->info->ppid && parent->info->start_ns <= p->info->start_ns &&
        analysis_same_host(parent, p))
      return true;
  }
  return false;
}

static void find_launchers(struct analysis *a)
{
  bool any = false;
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    const struct process *last = last_image(a, p);
    p->launcher = last != p && launches(a, p, last);
    p->made_way_ns = last->info->start_ns;
    any |= p->launcher;
  }
  while (any) { /* once for each generation */
    any = false;
    for (unsigned i = 0; i < a->process_count; i++) {
      struct process *p = &a->processes[i];
      if (p->launch_helper || !helped_to_launch(a, p))
        continue;
      if (!p->launcher) /* else it was a subshell, which made way for a command */
        p->made_way_ns = p->info->end_ns;
      p->launcher = false;
      p->launch_helper = any = true;
    }
  }
}

struct worker {
  uint32_t pipe;    /* 0: not known; its loader's others are then those that the same trainer forked */
  unsigned trainer; /* that forked it, where the pipe is not known */
  unsigned process;
  uint64_t start;
};

static int by_pipe_and_start(const void *left, const void *right)
{
  const struct worker *l = left, *r = right;
  if (l->pipe != r->pipe)
    return l->pipe < r->pipe ? -1 : 1;
  if (l->trainer != r->trainer)
    return l->trainer < r->trainer ? -1 : 1;
  return l->start < r->start ? -1 : l->start > r->start;
}

static void number_workers(struct analysis *a, struct worker *workers, size_t count)
{
  qsort(workers, count, sizeof *workers, by_pipe_and_start);
  for (size_t i = 0, first = 0; i < count; i++) {
    if (workers[i].pipe != workers[first].pipe || workers[i].trainer != workers[first].trainer)
      first = i;
    a->processes[workers[i].process].worker = (int32_t)(i - first);
  }
}

static const char *helper_label(const struct process *p, bool forked)
{
  if (strstr(p->info->command, "resource_tracker") != NULL)
    return "resource tracker";
  if (strstr(p->info->command, "forkserver") != NULL)
    return "fork server";
  return forked ? "child" : "other";
}

static const char *label_of(struct analysis *a, struct process *p, unsigned trainers)
{
  switch (p->role) {
  case OPGAP_ROLE_TRAINER:
    if (p->info->rank >= 0 && (trainers > 1 || p->info->world_size > 1))
      return opgap_pool_printf(a->pool, "trainer rank %d", p->info->rank);
    return "trainer";
  case OPGAP_ROLE_WORKER:
    return p->worker >= 0 ? opgap_pool_printf(a->pool, "DataLoader worker %d", p->worker) : "DataLoader worker";
  case OPGAP_ROLE_OTHER:
    return p->launcher        ? OPGAP_LABEL_LAUNCHER
           : p->launch_helper ? OPGAP_LABEL_LAUNCH_HELPER
                              : helper_label(p, p->info->forked);
  default:
    return p->info->forked ? "child" : "program";
  }
}

void roles_assign(struct analysis *a)
{
  unsigned trainers = 0, workers = 0;
  struct worker *list = opgap_xcalloc(a->process_count, sizeof *list);
  find_launchers(a);
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    p->worker = -1;
    p->role = trains(p) && result_pipe(a, i) == 0 ? OPGAP_ROLE_TRAINER
              : p->launcher || p->launch_helper   ? OPGAP_ROLE_OTHER
                                                  : OPGAP_ROLE_PROGRAM;
    trainers += p->role == OPGAP_ROLE_TRAINER;
  }
  for (unsigned i = 0; trainers > 0 && i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    if (p->role != OPGAP_ROLE_TRAINER)
      p->result_pipe = result_pipe(a, i);
  }
  for (unsigned i = 0; trainers > 0 && i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    if (p->role == OPGAP_ROLE_TRAINER)
      continue;
    bool worker = (p->result_pipe != 0 && !serves_forks(a, p)) || forked_by_loader(a, p) != UINT32_MAX ||
                  (descends_from_trainer(a, p) && has_worker_thread_name(a, i));
    p->role = worker ? OPGAP_ROLE_WORKER : OPGAP_ROLE_OTHER;
  }
  for (unsigned i = 0; trainers > 0 && i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    unsigned trainer = forked_by_loader(a, p);
    if (p->role == OPGAP_ROLE_WORKER && p->result_pipe == 0 && trainer != UINT32_MAX)
      p->result_pipe = pipe_of_siblings(a, trainer, p);
    if (p->role == OPGAP_ROLE_WORKER && (p->result_pipe != 0 || trainer != UINT32_MAX))
      list[workers++] = (struct worker){p->result_pipe, p->result_pipe ? 0 : trainer, i, p->info->start_ns};
  }
  number_workers(a, list, workers);
  for (unsigned i = 0; i < a->process_count; i++)
    a->processes[i].label = label_of(a, &a->processes[i], trainers);
  free(list);
}

/* Is `wanted` a part of the label?  Whole numbers only: "rank 1" is no part of "trainer rank 12". */
static bool in_label(const char *label, const char *wanted)
{
  size_t length = strlen(wanted);
  bool begins = isdigit((unsigned char)wanted[0]), ends = length > 0 && isdigit((unsigned char)wanted[length - 1]);
  for (const char *at = label; (at = strcasestr(at, wanted)) != NULL; at++) {
    bool cut_before = begins && at > label && isdigit((unsigned char)at[-1]);
    bool cut_after = ends && isdigit((unsigned char)at[length]);
    if (!cut_before && !cut_after)
      return true;
  }
  return false;
}

static bool matches(const struct process *p, const char *wanted)
{
  char *end;
  long pid = strtol(wanted, &end, 10);
  if (*end == '\0' && end != wanted)
    return p->info->pid == pid;
  return in_label(p->label, wanted);
}

bool roles_include(struct analysis *a, char *error, size_t size)
{
  unsigned included = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    p->included = a->options.process == NULL || matches(p, a->options.process);
    included += p->included;
  }
  if (included == 0)
    snprintf(error, size, "no process of this trace is \"%s\": give a pid or a role such as trainer or worker",
             a->options.process ? a->options.process : "");
  return included > 0;
}

static uint64_t allocations_of(const struct analysis *a, unsigned process)
{
  uint64_t sum = 0;
  for (unsigned i = 0; i < a->thread_count; i++) {
    const struct thread *t = &a->threads[i];
    for (size_t k = 0; t->process == process && k < t->hooks.count; k++) {
      const struct thread_hook *h = &t->hooks.at[k];
      if (a->processes[process].hooks[h->event].verb == VERB_ALLOC)
        sum += h->counted ? h->last[0] - (h->base[0] < h->last[0] ? h->base[0] : h->last[0]) : h->calls;
    }
  }
  return sum;
}

static void fill(struct analysis *a, unsigned process, struct opgap_sum_process *row)
{
  struct process *p = &a->processes[process];
  const struct opgap_process_info *info = p->info;
  *row = (struct opgap_sum_process){.index = process,
                                    .pid = info->pid,
                                    .ppid = info->ppid,
                                    .rank = info->rank,
                                    .role = p->role,
                                    .worker = p->worker,
                                    .role_label = p->label,
                                    .host = opgap_pool_string(a->pool, info->host),
                                    .command = opgap_pool_string(a->pool, info->command),
                                    .start_ns = info->start_ns - a->start_ns,
                                    .end_ns = p->end_ns > a->start_ns ? p->end_ns - a->start_ns : 0,
                                    .ended = opgap_ended_name(info->ended),
                                    .exit_status = info->ended == OPGAP_ENDED_CLEAN ? info->exit_status : -1,
                                    .complete = info->complete,
                                    .kill_safe = info->kill_safe,
                                    .records = info->records,
                                    .lost_records = info->lost_records,
                                    .invalid_records = info->invalid_records,
                                    .threads = p->thread_count ? p->thread_count : 1, /* nothing is recorded of it */
                                    .read_bytes = p->read_bytes,
                                    .written_bytes = p->written_bytes,
                                    .file_ns = p->file_ns,
                                    .allocations = allocations_of(a, process),
                                    .rss_bytes = p->rss,
                                    .open_op = analysis_text(a, p->open_op),
                                    .open_call = analysis_text(a, p->open_call),
                                    .open_ns = p->open_ns};
  for (unsigned i = 0; i < a->thread_count; i++)
    if (a->threads[i].process == process)
      row->op_ns += a->threads[i].op_ns;
  if (p->main_thread != UINT32_MAX)
    row->blocked_ns = a->threads[p->main_thread].blocked_ns;
}

static bool is_traced(const struct analysis *a, int32_t pid)
{
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].info->pid == pid)
      return true;
  return false;
}

static bool trainers_left_out(const struct analysis *a)
{
  unsigned trainers = 0, included = 0;
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].role == OPGAP_ROLE_TRAINER) {
      trainers++;
      included += a->processes[i].included;
    }
  return trainers > 0 && included == 0;
}

static void list_untraced(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  s->untraced = opgap_pool_alloc(a->pool, (a->children.count + a->process_count) * sizeof *s->untraced);
  for (size_t i = 0; i < a->children.count; i++) {
    if (is_traced(a, a->children.at[i].pid))
      continue;
    s->untraced[s->untraced_count++] = a->children.at[i];
  }
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (p->info->ended == OPGAP_ENDED_EXEC && next_image(a, p) == NULL)
      s->untraced[s->untraced_count++] = (struct opgap_sum_untraced){
          .pid = p->info->pid,
          .command = analysis_text(a, p->executed),
          .reason = "executed by a traced process, but no trace of it was written: not loaded there (static, setuid, "
                    "another environment), ended at once, or excluded by OPGAP_CHILDREN"};
  }
}

void roles_finish(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  s->process_filter = opgap_pool_string(a->pool, a->options.process ? a->options.process : "");
  s->trainers_left_out = trainers_left_out(a);
  s->processes = opgap_pool_alloc(a->pool, a->process_count * sizeof *s->processes);
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].included)
      fill(a, i, &s->processes[s->process_count++]);
  order_rows(s->processes, s->process_count, sizeof *s->processes, order_processes);
  list_untraced(a);
}
