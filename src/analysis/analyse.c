/* Drives an analysis: hands each record of the merged streams to the parts, and lets these write the summary. */
#include "analysis/ahead.h"
#include "analysis/internal.h"
#include "analysis/merge.h"
#include "analysis/ranks.h"
#include "analysis/text.h"
#include "format/arena.h"
#include "format/losses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_EVERY_NS 10000000ull

void opgap_summary_free(struct opgap_summary *summary)
{
  if (summary != NULL)
    opgap_pool_free(summary->pool);
}

const char *opgap_summary_info(const struct opgap_summary *summary, const char *key)
{
  for (size_t i = 0; i < summary->info_count; i++)
    if (strcmp(summary->info_keys[i], key) == 0)
      return summary->info_values[i];
  return NULL;
}

const char *opgap_op_kind_name(enum opgap_op_kind kind)
{
  static const char *const names[] = {"torch", "range", "call", "kernel", "memcpy", "memset"};
  return names[kind];
}

/* ---- names ---- */

static bool begins(const char *text, const char *with)
{
  return strncmp(text, with, strlen(with)) == 0;
}

static bool is_step_range(const char *text)
{
  if (strncasecmp(text, "step", 4) != 0)
    return false;
  for (text += 4; *text; text++)
    if (strchr(" #:_0123456789", *text) == NULL)
      return false;
  return true;
}

static uint32_t flags_of(const char *text)
{
  uint32_t flags = 0;
  if (text[0] == '/')
    return NAME_FILE;
  if (begins(text, "socket:[") || begins(text, PAIR_NAME))
    return NAME_PIPE | NAME_SOCKET;
  if (begins(text, "pipe:[") || begins(text, "anon_inode:"))
    return NAME_PIPE;
  if (begins(text, "Optimizer.step#"))
    flags |= NAME_STEP;
  if (begins(text, "enumerate(DataLoader)#"))
    flags |= NAME_NEXT | (strstr(text, "MultiProcessing") != NULL ? NAME_MULTI : 0);
  if (begins(text, "ProfilerStep"))
    flags |= NAME_PROFILER;
  if (begins(text, "autograd::engine::evaluate_function"))
    flags |= NAME_BACKWARD;
  if (begins(text, "nccl:") || begins(text, "gloo:") || begins(text, "mpi:") || begins(text, "ucc:") ||
      begins(text, "c10d::"))
    flags |= NAME_COMM;
  if (is_step_range(text))
    flags |= NAME_NVTX_STEP;
  return flags;
}

static uint32_t intern(struct analysis *a, const char *text, size_t length)
{
  uint32_t id = opgap_strings_id(&a->strings, text, length);
  while (a->name_flags_room <= id) {
    a->name_flags_room = a->name_flags_room ? a->name_flags_room * 2 : 1024;
    a->name_flags = opgap_xrealloc(a->name_flags, a->name_flags_room, sizeof *a->name_flags);
  }
  a->name_flags[id] = flags_of(analysis_text(a, id));
  return id;
}

uint32_t analysis_string(struct analysis *a, const char *text)
{
  return intern(a, text, strlen(text));
}

bool analysis_same_host(const struct process *left, const struct process *right)
{
  return strcmp(left->info->boot_id, right->info->boot_id) == 0 && strcmp(left->info->host, right->info->host) == 0;
}

/* Pipes and sockets are numbered by host, so those of other hosts than the first process's carry its name.
 * ProfilerStep#1, ProfilerStep#2, ... are one op, as in torch.profiler's table. */
static uint32_t intern_name(struct analysis *a, unsigned process, uint64_t name_id)
{
  size_t length = 0;
  const char *text = a->source->name(a->source->context, process, name_id, &length);
  if (begins(text, "ProfilerStep#"))
    return analysis_string(a, "ProfilerStep*");
  if (flags_of(text) & NAME_PIPE && !analysis_same_host(&a->processes[0], &a->processes[process]))
    return analysis_string(a, opgap_pool_printf(a->pool, "%s on %s", text, a->processes[process].info->host));
  return intern(a, text, length);
}

static struct name_cache *name_place(struct process *p, uint64_t name_id)
{
  if (name_id >= NAME_LIMIT)
    return &p->uncached;
  if (name_id >= p->name_room) {
    uint32_t room = p->name_room ? p->name_room : 1024;
    while (room <= name_id)
      room *= 2;
    p->names = opgap_xrealloc(p->names, room, sizeof *p->names);
    memset(p->names + p->name_room, 0, (room - p->name_room) * sizeof *p->names);
    p->name_room = room;
  }
  return &p->names[name_id];
}

struct name_cache *analysis_new_name(struct analysis *a, unsigned process, uint64_t name_id)
{
  uint32_t gid = name_id != 0 ? intern_name(a, process, name_id) : 0;
  struct name_cache *name = name_place(&a->processes[process], name_id);
  if (analysis_name_flags(a, gid) & NAME_SOCKET)
    timeline_pair(a, gid);
  *name = (struct name_cache){.gid = gid + 1, .flags = analysis_name_flags(a, gid)};
  return name;
}

struct thread *analysis_pthread(struct analysis *a, unsigned process, uint64_t pthread)
{
  uint32_t index = opgap_map_get(&a->processes[process].pthreads, (uint32_t)pthread, 0);
  return index ? &a->threads[index - 1] : NULL;
}

/* ---- records ---- */

static void add_hook(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  bool named = hook->flags & OPGAP_EVENT_OBJECT_NAME;
  uint64_t object = r->field[0];
  uint32_t flags = 0; /* of the name */
  if (named) {
    const struct name_cache *name = analysis_name(a, t->process, object);
    object = name->gid - 1;
    flags = name->flags;
  }
  bool blocking = hooks_block(hook->flags, (enum verb)hook->verb, flags & NAME_FILE) && r->end_ns > r->start_ns;
  calls_add(a, t, hook, r);
  if (hook->verb == VERB_ALLOC || hook->verb == VERB_FREE)
    memory_call(a, t, hook, r, !hook->span || r->start_ns == r->end_ns);
  timeline_call(a, t, hook, r, object, named, flags);
  breakdown_call(a, t, hook, r);
  gaps_late_call(a, t, r->start_ns, r->end_ns);
  if (r->status != 0)
    memory_failed(a, t, hook, r);
  else
    memory_had(a, t, hook, r);
  uint64_t ns = r->end_ns - r->start_ns;
  if (blocking) {
    uint64_t inside = timeline_inside(t, r);
    ns -= inside;
    threads_call(a, t, hook, r, ns, named ? (uint32_t)object : 0, flags);
    ops_add_blocked(t, r->depth, ns);
    over_time_blocked(a, t, r->start_ns, r->end_ns);
    gaps_call(a, t, hook, r, inside);
  }
  if (!analysis_in_window(a, r->end_ns))
    return;
  if (flags & NAME_FILE && hook->verb != VERB_FILE_LOCK)
    files_add(a, t, hook, r, ns, (uint32_t)object);
  if (blocking && (hook->verb == VERB_MUTEX || hook->verb == VERB_RWLOCK))
    locks_add(a, t, hook, r);
  else if (blocking && hook->verb == VERB_FILE_LOCK)
    locks_add_file(a, t, hook);
}

#define USER_SCOPE 7u /* at::RecordScope: record_function, Optimizer.step, enumerate(DataLoader) */

/* What few ops are: a part of a collective, or a DataLoader's __next__. */
static __attribute__((noinline, cold)) void add_marked_op(struct analysis *a, struct thread *t, uint32_t name,
                                                          uint32_t flags, const struct opgap_record *r)
{
  if (flags & NAME_COMM)
    ranks_collective(a, t->process, name, false, r->start_ns, r->end_ns);
  if (flags & NAME_NEXT) {
    over_time_next(a, t, r->start_ns, r->end_ns);
    files_next(a, t, r);
    gaps_next(a, t, r, name);
  }
}

static void add_op(struct analysis *a, struct process *p, struct thread *t, const struct opgap_record *r)
{
  struct name_cache *cached = analysis_name(a, t->process, r->field[0]);
  uint32_t name = cached->gid - 1, flags = cached->flags;
  uint32_t row = a->steps_only ? 0 : ops_row_of(a, t->process, r->event == OPGAP_EV_RANGE, cached);
  bool framework = r->event == OPGAP_EV_OP && r->status != USER_SCOPE;
  p->ops++;
  if (t->first_op_ns == 0) {
    t->first_op = name;
    t->first_op_ns = r->start_ns;
    if (t->first_poll_ns == 0) /* of a worker that is never seen to ask for an index: start-up ends here */
      t->waits_before_poll = t->waits;
  }
  memory_op(a, p, t, r, name);
  steps_op(a, p, t, name, flags, framework, r);
  if (a->steps_only)
    return;
  ops_add(a, t, row, r);
  timeline_op(a, t, name, flags, framework, r);
  breakdown_op(a, t, flags, framework, r);
  if (flags & (NAME_COMM | NAME_NEXT))
    add_marked_op(a, t, name, flags, r);
}

static void add_child(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  static const char *const how[] = {"", "fork", "vfork", "posix_spawn", "system", "popen"};
  const char *program = analysis_text(a, analysis_gid(a, t->process, r->field[1]));
  if (r->field[0] == 0) /* of system and popen, which tell no pid: not to be told from a traced child */
    return;
  unsigned made = r->status & OPGAP_CHILD_HOW;
  if (made == 6) /* of a vfork, and executed nothing: it ran as its parent until it ended */
    return;
  static const char *const not_loaded =
      "no trace of it was written: not loaded there (static, setuid, another environment), ended at once, or excluded "
      "by OPGAP_CHILDREN";
  static const char *const nothing_done =
      "forked, but no trace of it was written: it ended before it called anything that is recorded, or is excluded by "
      "OPGAP_CHILDREN";
  static const char *const out_of_reach =
      "left out: its parent had given up what it takes to write to the trace (rights, root folder)";
  static const char *const confined = "left out: its parent had given itself a filter of system calls (seccomp)";
  bool loader = made == 1 && strstr(program, "torch/utils/data/dataloader.py:") != NULL; /* its line, that forked it */
  bool forked = made == 1 && (loader || program[0] == '\0'); /* its program is its parent's */
  if (loader) {
    *VEC_PUSH(&a->loader_forks) = (struct loader_fork){t->process, (int32_t)r->field[0]};
    program = "";
  }
  struct opgap_sum_untraced *child = VEC_PUSH(&a->children);
  child->pid = (int32_t)r->field[0];
  child->reason = r->status & OPGAP_CHILD_CONFINED       ? confined
                  : r->status & OPGAP_CHILD_OUT_OF_REACH ? out_of_reach
                  : forked                               ? nothing_done
                                                         : not_loaded;
  child->command = program[0] ? program : made < sizeof how / sizeof *how ? how[made] : "";
  if (forked) {
    char name[256];
    text_program(name, sizeof name, a->processes[t->process].info->command);
    child->command = analysis_text(a, analysis_string(a, name[0] ? name : "fork"));
  }
}

static void add_open(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  bool call = r->event == OPGAP_EV_OPEN_CALL && r->field[0] < OPGAP_MAX_EVENTS;
  if (call && p->hooks[r->field[0]].flags & OPGAP_EVENT_BLOCKING)
    over_time_blocked(a, t, r->start_ns, r->end_ns);
  if (call && p->hooks[r->field[0]].name != 0) {
    timeline_open_call(a, t, &p->hooks[r->field[0]], r);
    gaps_late_call(a, t, r->start_ns, r->end_ns);
  }
  uint32_t op = r->event == OPGAP_EV_OPEN_OP ? analysis_gid(a, t->process, r->field[0]) : 0;
  if (op != 0)
    memory_op_around(a, t, r, op);
  if (analysis_name_flags(a, op) & NAME_NEXT)
    over_time_next(a, t, r->start_ns, r->end_ns);
  if (!t->main && p->main_thread != UINT32_MAX)
    return;
  if (r->event == OPGAP_EV_OPEN_OP) {
    if (p->open_op == 0) /* the innermost comes first */
      p->open_op = op;
    return;
  }
  if (r->field[0] < OPGAP_MAX_EVENTS) {
    p->open_call = p->hooks[r->field[0]].name;
    p->open_ns = r->end_ns - r->start_ns;
  }
}

static void add_notice(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  uint32_t text = analysis_gid(a, t->process, r->field[0]);
  for (size_t i = 0; i < a->notices.count; i++)
    if (a->notices.at[i] == text)
      return;
  *VEC_PUSH(&a->notices) = text;
}

static void add_life(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  switch (r->event) {
  case OPGAP_EV_THREAD_START:
    t->pthread = r->field[0];
    t->creator_tid = (int32_t)r->field[1];
    *opgap_map_put(&p->pthreads, (uint32_t)t->pthread, 0) = (uint32_t)(t - a->threads) + 1;
    *opgap_map_put(&p->tids, (uint64_t)t->tid, 0) = (uint32_t)(t - a->threads) + 1;
    threads_begin(a, t, r->end_ns);
    break;
  case OPGAP_EV_THREAD_END:
    t->end_ns = r->end_ns;
    break;
  case OPGAP_EV_CHILD:
    add_child(a, t, r);
    break;
  case OPGAP_EV_EXEC:
    if (r->status == 0)
      p->executed = analysis_gid(a, t->process, r->field[0]);
    break;
  case OPGAP_EV_OPEN_OP:
  case OPGAP_EV_OPEN_CALL:
    add_open(a, t, r);
    break;
  case OPGAP_EV_LOST:
    p->no_room += r->field[0];
    break;
  case OPGAP_EV_PROBE:
    add_notice(a, t, r);
    break;
  case OPGAP_EV_MEMORY:
    memory_sample(a, t->process, r);
    if (p->faults.counting)
      ops_process_faults(p, (struct fault_count){r->field[1], r->field[2]}, false);
    break;
  case OPGAP_EV_RECORDING:
    p->faults.counting &= r->status != 0;
    break;
  case OPGAP_EV_SCHED:
    threads_sample(a, t->process, r);
    break;
  case OPGAP_EV_CGROUP:
    p->throttled_ns = r->field[2];
    p->cpu_limit = r->field[3];
    break;
  case OPGAP_EV_OVERHEAD:
    memcpy(p->overhead, r->field, sizeof p->overhead);
    p->has_overhead = true;
    break;
  default:
    gpu_record(a, t->process, r);
  }
}

static void add_stack(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  if (a->steps_only)
    return;
  ops_stack(a, t, r);
  locks_stack(a, t, r);
  memory_stack(a, t, r);
  loader_stack(a, t, r);
}

static void add_module(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  if (a->steps_only)
    return;
  ops_module(a, t, r);
  locks_module(a, t->process, r);
}

/* All but ops, ranges and hooked calls. */
static __attribute__((noinline)) void add_other(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  switch (r->event) {
  case OPGAP_EV_FREE_RANGE:
    if (!a->steps_only)
      ops_add_free(a, t, r);
    break;
  case OPGAP_EV_STEP:
    steps_mark(a, t, r);
    break;
  case OPGAP_EV_COUNTER:
    if (!a->steps_only)
      calls_counter(a, t, r);
    break;
  case OPGAP_EV_STACK:
    add_stack(a, t, r);
    break;
  case OPGAP_EV_FAULTS:
    ops_faults(a, t, r);
    break;
  case OPGAP_EV_PROCESS_FAULTS:
    a->processes[t->process].faults.counting = r->status == 0;
    ops_process_faults(&a->processes[t->process], (struct fault_count){r->field[0], r->field[1]}, r->status == 0);
    break;
  case OPGAP_EV_MODULE:
    add_module(a, t, r);
    break;
  default:
    if (!a->steps_only)
      add_life(a, t, r);
  }
}

static inline void add_record(struct analysis *a, struct process *p, struct thread *t, const struct opgap_record *r)
{
  a->now = t->last_ns = r->end_ns;
  if (r->event == OPGAP_EV_OP || r->event == OPGAP_EV_RANGE) { /* most are */
    p->last_ns = r->end_ns;
    add_op(a, p, t, r);
    return;
  }
  if (r->event != OPGAP_EV_COUNTER && r->event != OPGAP_EV_OPEN_OP && r->event != OPGAP_EV_OPEN_CALL)
    p->last_ns = r->end_ns;
  if (r->event < OPGAP_MAX_EVENTS && p->hooks[r->event].name != 0) {
    if (!a->steps_only)
      add_hook(a, t, &p->hooks[r->event], r);
    return;
  }
  add_other(a, t, r);
}

/* ---- reading ---- */

static void settle(struct analysis *a, uint64_t *next)
{
  if (a->now < *next)
    return;
  *next = a->now + SETTLE_EVERY_NS;
  gpu_advance(a, a->now);
  uint64_t behind = SETTLE_NS + (a->ranks_apart ? MERGE_SLICE_NS : 0);
  if (a->now > behind)
    gaps_settle(a, a->now - behind);
}

/* A rank and its DataLoader workers, which have its environment, hand each other things; ranks do not, and an order
 * that is exact to well below SETTLE_NS does for them. */
static unsigned group_of(const struct analysis *a, unsigned process)
{
  int32_t rank = a->processes[process].info->rank;
  return rank < 0 ? 0 : (unsigned)rank + 1;
}
_Static_assert(MERGE_SLICE_NS * 4ull <= SETTLE_NS, "what others did is known when a gap is explained");

#define PROGRESS_EVERY 4096u

static void read_records(struct analysis *a)
{
  struct merge_input *inputs = opgap_xcalloc(a->thread_count, sizeof *inputs);
  struct thread **threads = opgap_xcalloc(a->thread_count, sizeof(struct thread *));
  size_t input_count = 0, input = 0;
  for (unsigned i = 0; i < a->thread_count; i++) {
    struct thread *t = &a->threads[i];
    if (!t->used)
      continue;
    inputs[input_count] = (struct merge_input){t->process, t->stream, group_of(a, t->process), t->born_ns};
    threads[input_count++] = t;
    a->ranks_apart = a->ranks_apart || inputs[input_count - 1].group != inputs[0].group;
  }
  struct merge *merge = merge_begin(a->source, inputs, input_count, opgap_threads_for(a->options.threads, a->total));
  const struct opgap_record *records;
  uint64_t next_settle = a->steps_only ? UINT64_MAX : 0, next_progress = 0;
  for (size_t count; (count = merge_next(merge, &input, &records)) > 0; a->done += count) {
    struct thread *t = threads[input];
    struct process *p = &a->processes[t->process];
    if (a->options.progress != NULL && a->done >= next_progress) {
      next_progress = a->done + PROGRESS_EVERY;
      a->options.progress(a->options.progress_context, a->done, a->total);
    }
    for (const struct opgap_record *r = records; r < records + count; r++) {
      if (r->end_ns > t->latest_end_ns)
        t->latest_end_ns = r->end_ns;
      if (t->latest_end_ns >= next_settle) {
        a->now = t->latest_end_ns;
        settle(a, &next_settle);
      }
      add_record(a, p, t, r);
    }
  }
  merge_end(merge);
  free(threads);
  free(inputs);
  if (!a->steps_only) {
    gpu_advance(a, UINT64_MAX);
    gaps_settle(a, UINT64_MAX);
  }
}

/* ---- life ---- */

/* exe: NULL where it is not known. */
static bool runs_python(const char *exe, const char *command)
{
  char program[64];
  text_program(program, sizeof program, command);
  const char *name = exe != NULL ? strrchr(exe, '/') : NULL;
  name = name != NULL ? name + 1 : exe;
  return strncmp(program, "python", 6) == 0 || (name != NULL && strncmp(name, "python", 6) == 0);
}

static void open_process(struct analysis *a, unsigned index)
{
  struct process *p = &a->processes[index];
  p->info = a->source->process(a->source->context, index);
  p->main_thread = UINT32_MAX;
  p->worker = -1;
  p->role = OPGAP_ROLE_PROGRAM;
  p->included = true;
  p->label = "";
  p->rss = OPGAP_UNKNOWN;
  const char *alloc = a->source->info(a->source->context, index, "OPGAP_ALLOC");
  p->alloc_events = alloc != NULL && strcmp(alloc, "events") == 0;
  p->python = runs_python(a->source->info(a->source->context, index, "exe"), p->info->command);
  hooks_classify(a, index);
  windows_open(a, index);
  steps_open(a, index);
}

/* Threads [from, to), those of p.  A thread called as its main thread is has no name to show. */
static void find_namesakes(struct analysis *a, const struct process *p, unsigned from, unsigned to)
{
  struct opgap_map first = {0}; /* (name, 0) -> thread + 1 */
  for (unsigned i = from; i < to; i++) {
    struct thread *t = &a->threads[i];
    bool same = p->main_thread != UINT32_MAX && a->threads[p->main_thread].name == t->name;
    if (t->main)
      continue;
    uint32_t *place = opgap_map_put(&first, same ? analysis_string(a, "") : t->name, 0);
    if (*place == 0)
      *place = i + 1;
    t->namesake = *place - 1;
  }
  opgap_map_free(&first);
}

static void open_threads(struct analysis *a)
{
  for (unsigned i = 0; i < a->process_count; i++)
    a->thread_count += a->processes[i].info->stream_count;
  a->threads = opgap_xcalloc(a->thread_count, sizeof *a->threads);
  unsigned next = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    for (unsigned s = 0; s < p->info->stream_count; s++, next++) {
      const struct opgap_stream_info *info = &p->info->streams[s];
      struct thread *t = &a->threads[next];
      t->process = i;
      t->stream = s;
      t->tid = info->tid;
      t->born_ns = info->first_ns;
      t->used = info->kind != OPGAP_STREAM_GPU;
      t->name = analysis_string(a, info->name ? info->name : "");
      t->main = info->kind == OPGAP_STREAM_THREAD && info->tid == p->info->pid;
      t->watched = t->main && p->main_thread == UINT32_MAX;
      if (t->watched)
        p->main_thread = next;
      p->thread_count += info->kind == OPGAP_STREAM_THREAD;
      if (info->kind == OPGAP_STREAM_THREAD)
        *opgap_map_put(&p->tids, (uint64_t)t->tid, 0) = next + 1;
      if (t->main && p->info->forked)
        threads_begin(a, t, p->info->start_ns);
    }
    find_namesakes(a, p, next - p->info->stream_count, next);
  }
}

static void find_times(struct analysis *a)
{
  a->start_ns = UINT64_MAX;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct opgap_process_info *info = a->processes[i].info;
    if (info->start_ns < a->start_ns)
      a->start_ns = info->start_ns;
    if (info->end_ns > a->end_ns)
      a->end_ns = info->end_ns;
    a->total += info->records;
  }
  if (a->start_ns > a->end_ns)
    a->start_ns = a->end_ns;
  a->window_end = UINT64_MAX;
  a->origin_ns = a->options.from_ns > a->start_ns ? a->options.from_ns : a->start_ns;
  a->bucket_ns = (a->end_ns > a->origin_ns ? a->end_ns - a->origin_ns : 0) / OPGAP_OVER_TIME_BUCKETS + 1;
  a->window_start = a->options.from_ns;
}

static struct analysis *analysis_new(const struct opgap_source *source, const struct opgap_analysis_options *options)
{
  struct analysis *a = opgap_xcalloc(1, sizeof *a);
  a->source = source;
  a->options = *options;
  if (a->options.gpu_min_gap_ns == 0)
    a->options.gpu_min_gap_ns = 20000;
  if (a->options.thread_min_gap_ns == 0)
    a->options.thread_min_gap_ns = 1000000;
  if (a->options.gaps_listed == 0)
    a->options.gaps_listed = OPGAP_GAPS_LISTED;
  a->pool = opgap_pool_new();
  opgap_strings_init(&a->strings, a->pool);
  intern(a, "", 0);
  a->process_count = source->process_count;
  a->processes = opgap_xcalloc(a->process_count, sizeof *a->processes);
  a->thread_gaps = opgap_xcalloc(a->process_count, sizeof *a->thread_gaps);
  for (unsigned i = 0; i < a->process_count; i++)
    open_process(a, i);
  open_threads(a);
  find_times(a);
  gpu_open(a);
  if (options->flame)
    flame_open(a);
  return a;
}

static void free_process(struct process *p)
{
  free(p->names);
  timeline_free_edges(&p->objects);
  VEC_FREE(&p->switches.off);
  VEC_FREE(&p->off);
  VEC_FREE(&p->opened);
  opgap_map_free(&p->pthreads);
  opgap_map_free(&p->tids);
  live_free(&p->live);
  opgap_map_free(&p->stack_places);
  for (size_t i = 0; i < p->failures.count; i++)
    VEC_FREE(&p->failures.at[i].last);
  VEC_FREE(&p->failures);
  free(p->blocked_over_time);
  free(p->next_over_time);
  VEC_FREE(&p->samples);
  VEC_FREE(&p->fetches.depths);
  VEC_FREE(&p->fetches.epochs);
  for (int s = 0; s < STEPS_SOURCES; s++) {
    VEC_FREE(&p->steps[s].start);
    VEC_FREE(&p->steps[s].end);
    VEC_FREE(&p->steps[s].live);
    VEC_FREE(&p->steps[s].churn);
  }
  VEC_FREE(&p->outermost);
  VEC_FREE(&p->updates);
  VEC_FREE(&p->modules);
}

/* Releases all but the pool, which is the summary's. */
static void analysis_free(struct analysis *a)
{
  for (unsigned i = 0; i < a->process_count; i++) {
    free_process(&a->processes[i]);
    gaps_table_free(&a->thread_gaps[i]);
  }
  for (unsigned i = 0; i < a->thread_count; i++) {
    timeline_free(&a->threads[i]);
    VEC_FREE(&a->threads[i].hooks);
    free(a->threads[i].waiting.at);
  }
  gpu_close(a);
  breakdown_close(a);
  ranks_close(a);
  flame_close(a);
  ops_free(a);
  ops_places_free(&a->called_from);
  opgap_map_free(&a->file_index);
  opgap_map_free(&a->lock_index);
  opgap_map_free(&a->lock_threads);
  opgap_map_free(&a->file_lock_index);
  VEC_FREE(&a->file_locks);
  opgap_map_free(&a->pipe_writers);
  opgap_map_free(&a->window_writes);
  opgap_map_free(&a->pipe_readers);
  opgap_map_free(&a->plain_sockets);
  opgap_map_free(&a->socket_others);
  opgap_map_free(&a->next_pipes);
  VEC_FREE(&a->loader_forks);
  timeline_free_edges(&a->pipes);
  opgap_strings_free(&a->strings);
  VEC_FREE(&a->files);
  VEC_FREE(&a->locks);
  ops_stacks_free(&a->lock_stacks);
  VEC_FREE(&a->pending);
  free(a->settled.at);
  VEC_FREE(&a->children);
  VEC_FREE(&a->notices);
  free(a->name_flags);
  free(a->processes);
  free(a->threads);
  free(a->thread_gaps);
  free(a);
}

/* ---- the head of the summary ---- */

/* Nominal cost of a record and of a counted call, as tests/bench measures them; the estimate is for orientation. */
#define RECORD_COST_NS 60u
#define EVENT_COST_NS 10u /* one without a duration: an allocation, a wake-up */
#define COUNT_COST_NS 3u

static bool info_number(struct analysis *a, unsigned process, const char *key, uint64_t *value)
{
  const char *text = a->source->info(a->source->context, process, key);
  char *end;
  if (text == NULL || text[0] == '\0')
    return false;
  *value = strtoull(text, &end, 10);
  return *end == '\0';
}

static void sum_overhead(struct analysis *a)
{
  struct opgap_sum_overhead *o = &a->summary->overhead;
  bool any = false;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    uint64_t cpu = p->overhead[0], raw = p->overhead[2], stored = p->overhead[3];
    bool known = info_number(a, i, "flusher_cpu_ns", &cpu);
    known = info_number(a, i, "raw_bytes", &raw) || known || p->has_overhead;
    info_number(a, i, "stored_bytes", &stored);
    any = any || known;
    o->flusher_cpu_ns += cpu;
    o->raw_bytes += raw;
    o->stored_bytes += stored;
  }
  if (!any)
    o->flusher_cpu_ns = o->raw_bytes = o->stored_bytes = OPGAP_UNKNOWN;
  o->hooked_calls = a->hooked_calls;
  uint64_t counted = a->hooked_calls > a->summary->records ? a->hooked_calls - a->summary->records : 0;
  uint64_t events = a->events < a->summary->records ? a->events : a->summary->records;
  o->hook_ns = (a->summary->records - events) * RECORD_COST_NS + events * EVENT_COST_NS + counted * COUNT_COST_NS;
}

static void list_damage(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  VEC(const char *) lines = {0};
  unsigned at = 0;
  for (const char *line; (line = a->source->damage(a->source->context, &at)) != NULL;)
    *VEC_PUSH(&lines) = opgap_pool_string(a->pool, line);
  s->damage_count = lines.count;
  s->damage = opgap_pool_alloc(a->pool, lines.count * sizeof *s->damage);
  for (size_t i = 0; i < lines.count; i++)
    s->damage[i] = lines.at[i];
  VEC_FREE(&lines);
}

/* The setting's value where it is set and bounds what is recorded; NULL otherwise. */
static const char *limit_of(struct analysis *a, const char *key)
{
  for (unsigned i = 0; i < a->process_count; i++) {
    const char *value = a->source->info(a->source->context, i, key);
    if (value == NULL || value[0] == '\0')
      continue;
    bool schedule = strchr(value, '=') != NULL;
    if (schedule ? a->processes[i].scheduled : strtod(value, NULL) > 0)
      return value;
  }
  return NULL;
}

/* Whether anything was recorded but the life of processes, which always is. */
static bool recorded(const struct analysis *a)
{
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].ops > 0 || a->processes[i].steps[STEPS_API].marks > 0)
      return true;
  for (size_t i = 0; i < a->summary->call_count; i++)
    if (strcmp(a->summary->calls[i].category, "process") != 0)
      return true;
  return a->summary->has_gpu;
}

/* Settings that leave parts of the run out explain what is missing from the report. */
static void add_limits(struct analysis *a)
{
  const char *delay = limit_of(a, "OPGAP_DELAY"), *duration = limit_of(a, "OPGAP_DURATION");
  const char *schedule = limit_of(a, "OPGAP_SCHEDULE");
  struct opgap_summary *s = a->summary;
  if (!recorded(a) && (delay != NULL || schedule != NULL)) {
    s->notices[s->notice_count++] =
        opgap_pool_printf(a->pool,
                          "recording never started: the run ended before OPGAP_DELAY or OPGAP_SCHEDULE let it "
                          "(delay=%s, schedule=%s); a schedule counts Optimizer.step, ProfilerStep or "
                          "opgap_step",
                          delay ? delay : "none", schedule ? schedule : "none");
    return;
  }
  if (delay != NULL)
    s->notices[s->notice_count++] =
        opgap_pool_printf(a->pool, "recorded only from %s s after each program's start (OPGAP_DELAY=%s)", delay, delay);
  if (duration != NULL)
    s->notices[s->notice_count++] =
        opgap_pool_printf(a->pool, "recorded only %s s of each program (OPGAP_DURATION=%s)", duration, duration);
  if (schedule != NULL)
    s->notices[s->notice_count++] =
        opgap_pool_printf(a->pool, "recorded only the steps of OPGAP_SCHEDULE=%s; sums are of these steps", schedule);
}

/* What `opgap stop` and OPGAP_CONTROL=idle left out: the process with the longest time off speaks for the others. */
static void add_stopped(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  const struct process *longest = NULL;
  unsigned stopped = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (p->off.count == 0 || a->source->info(a->source->context, i, "OPGAP_CONTROL") == NULL)
      continue; /* else by a schedule, which has a notice of its own */
    stopped++;
    if (longest == NULL || windows_off_ns(p) > windows_off_ns(longest))
      longest = p;
  }
  if (longest != NULL)
    s->notices[s->notice_count++] = opgap_pool_printf(
        a->pool,
        "recording was off for %.3f s of the %.3f s of process %d (opgap start and stop, OPGAP_CONTROL)%s; figures are "
        "of the rest",
        (double)windows_off_ns(longest) / 1e9, (double)(longest->end_ns - longest->info->start_ns) / 1e9,
        longest->info->pid, stopped > 1 ? ", and for a part of others" : "");
}

/* Children that could not write to the trace: the process with most of them is named. */
static void add_untraced_children(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  uint64_t sum = 0, most = 0;
  unsigned parent = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    uint64_t count = 0;
    if (!info_number(a, i, "untraced_children", &count))
      continue;
    sum += count;
    if (count > most)
      parent = i;
    most = count > most ? count : most;
  }
  if (sum > 0)
    s->notices[s->notice_count++] =
        sum == 1
            ? opgap_pool_printf(a->pool, "a child of process %d could not write to the trace and is not in it",
                                a->processes[parent].info->pid)
            : opgap_pool_printf(a->pool,
                                "%llu children, most of process %d, could not write to the trace and are not in it",
                                (unsigned long long)sum, a->processes[parent].info->pid);
}

/* What OPGAP_MAX_SIZE left out: the process whose recording ended first speaks for the others. */
static void add_size_reached(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  const struct process *first = NULL;
  unsigned count = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->info->size_reached)
      continue;
    count++;
    if (first == NULL || p->last_ns < first->last_ns)
      first = p;
  }
  if (first == NULL)
    return;
  const char *limit = limit_of(a, "OPGAP_MAX_SIZE");
  s->notices[s->notice_count++] =
      opgap_pool_printf(a->pool,
                        "recording of process %d ended after %.3f s of its %.3f s, at the size that was set "
                        "(OPGAP_MAX_SIZE=%s)%s; figures "
                        "are of what came before",
                        first->info->pid, (double)(first->last_ns - first->info->start_ns) / 1e9,
                        (double)(first->end_ns - first->info->start_ns) / 1e9, limit ? limit : "?",
                        count > 1 ? opgap_pool_printf(a->pool, ", and of %u others later", count - 1) : "");
}

/* What the flight recorder dropped: the process that was traced longest speaks for the others. */
static void add_dropped(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  const struct process *longest = NULL;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (p->info->kept_from_ns != 0 && (longest == NULL || p->end_ns > longest->end_ns))
      longest = p;
  }
  if (longest == NULL)
    return;
  const char *keep = limit_of(a, "OPGAP_KEEP");
  s->notices[s->notice_count++] =
      opgap_pool_printf(a->pool, "flight recorder: only the last %.3f s before the end are kept (OPGAP_KEEP=%s)",
                        (double)(longest->end_ns - longest->info->kept_from_ns) / 1e9, keep ? keep : "?");
}

/* What the budget of OPGAP_STACKS=python left out. */
static void add_lines_skipped(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  uint64_t sum = 0, ops = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    uint64_t skipped = 0;
    sum += info_number(a, i, "lines_skipped", &skipped) ? skipped : 0;
    ops += a->processes[i].ops;
  }
  if (sum > 0)
    s->notices[s->notice_count++] = opgap_pool_printf(
        a->pool, "%llu of %llu ops have no source line, to keep what lines cost below 2 %% of each thread's time",
        (unsigned long long)sum, (unsigned long long)ops);
}

unsigned analysis_losses(const struct opgap_source *source, const struct opgap_summary *summary,
                         struct loss_part parts[LOSS_PARTS])
{
  const struct opgap_process_info *reached = NULL;
  uint64_t beyond = 0;
  unsigned count = 0;
  for (unsigned i = 0; i < source->process_count; i++) {
    const struct opgap_process_info *info = source->process(source->context, i);
    if (!info->size_reached)
      continue;
    reached = info;
    beyond += info->lost_by[OPGAP_LOSS_UNWRITTEN];
  }
  for (unsigned loss = 0; loss < OPGAP_LOSS_COUNT; loss++) {
    uint64_t lost = summary->lost_by[loss] - (loss == OPGAP_LOSS_UNWRITTEN ? beyond : 0);
    if (lost > 0)
      parts[count++] = (struct loss_part){lost, opgap_loss_words((enum opgap_loss)loss)};
  }
  if (beyond > 0)
    parts[count++] = (struct loss_part){beyond, opgap_loss_words_of(reached, OPGAP_LOSS_UNWRITTEN)};
  return count;
}

/* Which records were lost why, and what prevents it. */
static void add_losses(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  struct loss_part parts[LOSS_PARTS];
  unsigned count = analysis_losses(a->source, s, parts);
  for (unsigned i = 0; i < count; i++)
    s->notices[s->notice_count++] =
        opgap_pool_printf(a->pool, "records lost: %llu %s (%s)", (unsigned long long)parts[i].count,
                          parts[i].words->what, parts[i].words->remedy);
  uint64_t samples = 0, confined = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    uint64_t lost = 0;
    samples += info_number(a, i, "lost_samples", &lost) ? lost : 0;
    confined += info_number(a, i, "lost_threads_confined", &lost) ? lost : 0;
  }
  if (samples > 0)
    s->notices[s->notice_count++] = opgap_pool_printf(
        a->pool, "samples of memory and scheduler lost: %llu found no room in the rings", (unsigned long long)samples);
  if (confined > 0)
    s->notices[s->notice_count++] = opgap_pool_printf(
        a->pool,
        "threads lost: %llu began after the program had given itself a filter of system calls (seccomp), and nothing "
        "of them was recorded",
        (unsigned long long)confined);
  if (s->lost_threads > confined)
    s->notices[s->notice_count++] = opgap_pool_printf(
        a->pool,
        "threads lost: %llu found no room, and nothing of them was recorded (of each process at most %u at a time are, "
        "fewer where --buffer is small)",
        (unsigned long long)(s->lost_threads - confined), OPGAP_SLOT_LIMIT - 1);
}

/* Was it started by, or executed in the place of, a process of the trace that began before it? */
static bool has_origin(const struct analysis *a, unsigned process)
{
  const struct opgap_process_info *info = a->processes[process].info;
  for (unsigned i = 0; i < process; i++) {
    const struct opgap_process_info *other = a->processes[i].info;
    if ((other->pid == info->ppid || other->pid == info->pid) && strcmp(other->host, info->host) == 0)
      return true;
  }
  return false;
}

/* A trace that was written into the folder of another run of the same program.  Ranks, and the commands of a shell that
 * is not traced, share one on purpose. */
static void add_runs(struct analysis *a)
{
  const struct opgap_process_info *first = a->processes[0].info;
  unsigned runs = 1;
  for (unsigned i = 1; i < a->process_count; i++) {
    const struct opgap_process_info *info = a->processes[i].info;
    runs += info->start_ns > first->end_ns && info->rank < 0 && strcmp(info->command, first->command) == 0 &&
            strcmp(info->host, first->host) == 0 && !has_origin(a, i);
  }
  if (runs > 1 && first->rank < 0)
    a->summary->notices[a->summary->notice_count++] =
        opgap_pool_printf(a->pool,
                          "the same program was recorded %u times into this folder, one run after the other: figures "
                          "are of all of them, the time is from the start of the first to the end of the last (another "
                          "OPGAP_OUT for each keeps them apart)",
                          runs);
}

static void add_pause(struct analysis *a)
{
  const char *pause = opgap_longest_pause(a->pool, a->summary);
  if (pause != NULL)
    a->summary->notices[a->summary->notice_count++] = pause;
  else
    add_runs(a);
}

/* The most that add_limits, add_stopped, add_size_reached, add_untraced_children, add_dropped, add_lines_skipped,
 * add_losses and add_pause add. */
#define LIMITS (12 + LOSS_PARTS)

static void list_notices(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  VEC(const char *) notes = {0};
  unsigned at = 0;
  for (const char *note; (note = a->source->note(a->source->context, &at)) != NULL;)
    *VEC_PUSH(&notes) = opgap_pool_string(a->pool, note);
  s->notices = opgap_pool_alloc(a->pool, (notes.count + a->notices.count + LIMITS) * sizeof *s->notices);
  for (size_t i = 0; i < notes.count; i++)
    s->notices[s->notice_count++] = notes.at[i];
  VEC_FREE(&notes);
  add_limits(a);
  add_stopped(a);
  add_size_reached(a);
  add_untraced_children(a);
  add_dropped(a);
  add_lines_skipped(a);
  add_losses(a);
  add_pause(a);
  for (size_t i = 0; i < a->notices.count; i++)
    s->notices[s->notice_count++] = analysis_text(a, a->notices.at[i]);
}

static const char *const info_keys[] = {"opgap_version",
                                        "cpu",
                                        "cores",
                                        "kernel",
                                        "clock",
                                        "torch",
                                        "exe",
                                        "cwd",
                                        "OPGAP_HOOKS",
                                        "OPGAP_ALLOC",
                                        "OPGAP_MIN_ALLOC",
                                        "OPGAP_MIN_COPY",
                                        "OPGAP_STACKS",
                                        "OPGAP_SCHEDULE",
                                        "OPGAP_DELAY",
                                        "OPGAP_DURATION",
                                        "OPGAP_CONTROL",
                                        "OPGAP_KEEP",
                                        "OPGAP_CHILDREN"};

static void list_info(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  size_t count = sizeof info_keys / sizeof *info_keys;
  s->info_keys = opgap_pool_alloc(a->pool, count * sizeof *s->info_keys);
  s->info_values = opgap_pool_alloc(a->pool, count * sizeof *s->info_values);
  for (size_t i = 0; i < count && a->process_count > 0; i++) {
    const char *value = a->source->info(a->source->context, 0, info_keys[i]);
    if (value == NULL)
      continue;
    s->info_keys[s->info_count] = info_keys[i];
    s->info_values[s->info_count++] = opgap_pool_string(a->pool, value);
  }
}

static const char *gpu_status(struct analysis *a)
{
  if (a->summary->has_gpu)
    return "ok";
  for (unsigned i = 0; i < a->process_count; i++) {
    const char *value = a->source->info(a->source->context, i, "gpu");
    if (value != NULL && value[0])
      return opgap_pool_string(a->pool, value);
  }
  bool used = false;
  for (unsigned i = 0; i < a->process_count; i++)
    used = used || a->processes[i].uses_gpu;
  for (size_t i = 0; i < a->summary->call_count; i++)
    used = used || strcmp(a->summary->calls[i].category, "cuda") == 0;
  return used ? "unavailable: no process ended by itself, so none could say" : OPGAP_GPU_UNSEEN;
}

/* What recovery found after a kill is stamped with the time of recovery; the process ended with its last record. */
static uint64_t end_of(const struct process *p)
{
  bool killed = p->info->ended == OPGAP_ENDED_KILLED && p->last_ns > p->info->start_ns;
  return killed && p->last_ns < p->info->end_ns ? p->last_ns : p->info->end_ns;
}

static void find_end(struct analysis *a)
{
  a->end_ns = a->start_ns;
  for (unsigned i = 0; i < a->process_count; i++) {
    struct process *p = &a->processes[i];
    p->end_ns = end_of(p);
    if (p->end_ns > a->end_ns)
      a->end_ns = p->end_ns;
  }
}

static void finish_head(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  s->path = opgap_pool_string(a->pool, a->source->path);
  s->boot_id = opgap_pool_string(a->pool, a->processes[0].info->boot_id);
  unsigned at = 0;
  s->complete = a->source->damage(a->source->context, &at) == NULL; /* a file that cannot be read at all, too */
  for (unsigned i = 0; i < a->process_count; i++) {
    /* asked again: now with the records that could not be decoded */
    const struct opgap_process_info *info = a->processes[i].info = a->source->process(a->source->context, i);
    s->complete = s->complete && info->complete;
    s->records += info->records;
    s->lost_records += info->lost_records;
    s->lost_threads += info->lost_threads;
    for (unsigned loss = 0; loss < OPGAP_LOSS_COUNT; loss++)
      s->lost_by[loss] += info->lost_by[loss];
    /* of a trace that does not tell why its LOST records do */
    uint64_t announced = a->processes[i].no_room, unknown = info->lost_by[OPGAP_LOSS_UNKNOWN];
    uint64_t no_room = announced < unknown ? announced : unknown;
    s->lost_by[OPGAP_LOSS_NO_ROOM] += no_room;
    s->lost_by[OPGAP_LOSS_UNKNOWN] -= no_room;
    s->invalid_records += info->invalid_records;
    s->stored_bytes += info->stored_bytes;
    if (info->start_ns == a->start_ns)
      s->start_realtime_ns = (int64_t)a->start_ns + info->realtime_offset_ns;
  }
  s->start_ns = a->start_ns;
  s->duration_ns = a->end_ns - a->start_ns;
  s->window_start_ns = a->window_start > a->start_ns ? a->window_start - a->start_ns : 0;
  s->window_end_ns = a->window_end < a->end_ns ? a->window_end - a->start_ns : s->duration_ns;
  list_damage(a);
  list_info(a);
}

static void finish(struct analysis *a)
{
  find_end(a);
  finish_head(a);
  roles_finish(a);
  gpu_finish(a);
  calls_finish(a);
  a->summary->gpu_status = gpu_status(a);
  list_notices(a);
  ops_finish(a);
  files_finish(a);
  locks_finish(a);
  steps_finish(a);
  memory_finish(a);
  breakdown_finish(a);
  gaps_finish(a);
  ranks_finish(a);
  over_time_finish(a);
  flame_finish(a);
  threads_finish(a);
  loader_finish(a);
  sum_overhead(a);
  bottlenecks_finish(a);
  verdict_finish(a); /* its remedies are those of the bottlenecks where these say more */
  opgap_verdict_straggler(a->summary);
}

/* First reading, for --steps: where the steps are. */
static bool find_window(const struct opgap_source *source, const struct opgap_analysis_options *options,
                        uint64_t window[2], char *error, size_t size)
{
  struct analysis *a = analysis_new(source, options);
  a->steps_only = true;
  read_records(a);
  steps_find_period(a);
  rounds_find(a);
  roles_assign(a);
  bool found = steps_window(a, error, size);
  window[0] = a->window_start;
  window[1] = a->window_end;
  opgap_pool_free(a->pool);
  analysis_free(a);
  return found;
}

struct opgap_summary *opgap_analyse(const struct opgap_source *source, const struct opgap_analysis_options *options,
                                    char *error, size_t size)
{
  uint64_t window[2] = {0, UINT64_MAX};
  if (options->steps_given && !find_window(source, options, window, error, size))
    return NULL;
  struct analysis *a = analysis_new(source, options);
  if (options->steps_given) {
    a->window_start = window[0];
    a->window_end = window[1];
  }
  read_records(a);
  steps_find_period(a);
  rounds_find(a);
  roles_assign(a);
  struct opgap_summary *summary = NULL;
  if (roles_include(a, error, size)) {
    summary = a->summary = opgap_pool_alloc(a->pool, sizeof *summary);
    summary->pool = a->pool;
    finish(a);
  } else {
    opgap_pool_free(a->pool);
  }
  analysis_free(a);
  return summary;
}
