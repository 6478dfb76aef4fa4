/* The verdict: what holds the run back, which figures say so, and the cheapest remedy.
 *
 * The figures are shares of step time (breakdown.c) and the causes of idle gaps.  Rules, first match wins:
 *   with a GPU     collectives not hidden by computation >= 20 % of the time: communication
 *                  kernels >= 70 %: kernels; copies >= 20 %: memory
 *                  else the largest cause of GPU idle time: data loading (files too), communication, or CPU dispatch;
 *                  undecided when sleep, locks and child processes are more
 *   without        the largest of these that is >= 20 %: __next__ and calls on files: data loading; collectives and
 *                  waits for the network: communication; other waits of the main thread outside ops (sleep, locks,
 *                  child processes, other threads), if more than ops: undecided, as the trace cannot say what for
 *                  else page faults that read from a disk, if the largest bottleneck: memory
 *                  else ops: CPU dispatch if an op takes less than 20 us on average, or Python between ops is more than
 *                  the ops themselves; CPU compute otherwise
 *
 * Confidence: high from 50 % of the time on, medium from 30 %, low below. */
#include "analysis/internal.h"
#include "analysis/ranks.h"

#include <stdio.h>
#include <string.h>

#define SENTENCES 12u

struct draft {
  struct analysis *a;
  struct opgap_sum_verdict *v;
};

const char *opgap_bound_name(enum opgap_bound bound)
{
  static const char *const names[OPGAP_BOUND_COUNT] = {"undecided", "data loading", "communication", "kernels",
                                                       "memory",    "CPU dispatch", "CPU compute"};
  return names[bound];
}

static double share(uint64_t part, uint64_t whole)
{
  return whole ? (double)part / (double)whole : 0;
}

static void evidence(struct draft *d, const char *text)
{
  if (d->v->evidence_count < SENTENCES)
    d->v->evidence[d->v->evidence_count++] = text;
}

/* Once: nor what an earlier one says among other things. */
static void remedy(struct draft *d, const char *text)
{
  for (size_t i = 0; i < d->v->remedy_count; i++)
    if (strstr(d->v->remedies[i], text) != NULL)
      return;
  if (d->v->remedy_count < SENTENCES)
    d->v->remedies[d->v->remedy_count++] = text;
}

static void decide(struct draft *d, enum opgap_bound bound, double strength)
{
  d->v->bound_by = bound;
  d->v->confidence = strength >= 0.5 ? "high" : strength >= 0.3 ? "medium" : "low";
}

static uint64_t class_total(const struct opgap_summary *s)
{
  uint64_t sum = 0;
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    sum += s->breakdown.class_ns[c];
  return sum;
}

static uint64_t cause_total(const struct opgap_sum_cause *causes, size_t count, enum opgap_cause cause)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    if (causes[i].cause == cause)
      sum += causes[i].ns;
  return sum;
}

static unsigned workers_at_once(const struct opgap_summary *s)
{
  int32_t most = -1;
  for (size_t i = 0; i < s->process_count; i++)
    if (s->processes[i].worker > most)
      most = s->processes[i].worker;
  return (unsigned)(most + 1);
}

/* A wait of the main thread outside ops that is neither data loading nor communication.  Ops of other threads that it
 * waited for are work, not a wait. */
static bool is_wait(int cause)
{
  return cause != OPGAP_CAUSE_DATA_LOADING && cause != OPGAP_CAUSE_COMMUNICATION && cause != OPGAP_CAUSE_FILE_IO &&
         cause != OPGAP_CAUSE_DISPATCH;
}

static uint64_t wait_total(const struct analysis *a, enum opgap_cause *largest)
{
  uint64_t sum = 0, most = 0;
  *largest = OPGAP_CAUSE_UNKNOWN;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    uint64_t ns = is_wait(c) ? a->summary->breakdown.other_wait_ns[c] : 0;
    sum += ns;
    if (ns > most) {
      most = ns;
      *largest = (enum opgap_cause)c;
    }
  }
  return sum;
}

/* As evidence: a wait's cause is the name of what another thread did meanwhile. */
static const char *wait_name(const struct analysis *a, int cause)
{
  if (cause == OPGAP_CAUSE_SLEEP && a->others_sleep >= 0.5)
    return "waiting for a thread that sleeps";
  return cause == OPGAP_CAUSE_PYTHON      ? "waiting for code of another thread"
         : cause == OPGAP_CAUSE_DISPATCH  ? "waiting for ops of another thread"
         : cause == OPGAP_CAUSE_RUN_QUEUE ? "waiting for threads without a CPU"
         : cause == OPGAP_CAUSE_UNKNOWN   ? "waiting, cause unknown"
                                          : opgap_cause_name((enum opgap_cause)cause);
}

/* What workers did while they were waited for: reading or computing. */
static uint64_t detail_total(const struct opgap_summary *s, const char *word)
{
  const struct opgap_sum_gaps *gaps = &s->gaps;
  uint64_t sum = 0;
  for (size_t i = 0; i < gaps->thread_cause_count; i++)
    if (gaps->thread_by_cause[i].cause == OPGAP_CAUSE_DATA_LOADING && strstr(gaps->thread_by_cause[i].detail, word))
      sum += gaps->thread_by_cause[i].ns;
  return sum;
}

/* More threads of work: only while CPUs are free for them. */
static void remedy_workers(struct draft *d, unsigned workers)
{
  unsigned left = d->a->cpus_free;
  if (left == CPUS_UNKNOWN)
    remedy(d, opgap_pool_printf(d->a->pool, "Raise DataLoader(num_workers) above %u if CPU cores are free.", workers));
  else if (left > 0)
    remedy(d, opgap_pool_printf(d->a->pool, "Raise DataLoader(num_workers) above %u: ~%u of %u CPUs %s free.", workers,
                                left, d->a->cpus_have, left == 1 ? "is" : "are"));
}

/* What the bottlenecks say of the workers is told from their own busy time: no second opinion from the causes of gaps.
 * More workers may hide what takes them long, but not what they do to each other. */
static void remedies_workers(struct draft *d, unsigned workers)
{
  const char *kind = d->a->loader_kind;
  if (d->a->loader_cpus != NULL)
    remedy(d, d->a->loader_cpus);
  remedy(d, d->a->loader_remedy);
  if (d->a->loader_cpus != NULL)
    return;
  if (strcmp(kind, "worker_sleep") == 0 || strcmp(kind, "slow_read") == 0 || strcmp(kind, "slow_network") == 0 ||
      strcmp(kind, "slow_decode") == 0)
    remedy_workers(d, workers);
}

/* Without such a bottleneck: from what the main thread waited for. */
static void remedies_loading(struct draft *d, unsigned workers)
{
  const struct opgap_summary *s = d->a->summary;
  uint64_t lookups = detail_total(s, "opening") + detail_total(s, "closing") + detail_total(s, "looking up") +
                     detail_total(s, "mapping");
  uint64_t reading = detail_total(s, "reading") + lookups;
  uint64_t decoding = detail_total(s, "decoding or augmenting") + detail_total(s, "in framework ops");
  uint64_t inside = s->breakdown.class_ns[OPGAP_CLASS_DATALOADER];
  if (workers == 0) /* the training process decodes: that is no gap, and waits for CPUs in between are none */
    decoding = inside > reading ? (uint64_t)((double)(inside - reading) * d->a->on_cpu) : 0;
  bool mostly = workers > 0 || 2 * decoding >= inside;
  if (d->a->loader_sleeps)
    remedy(d, SLEEP_OUT);
  if (workers > 0)
    remedy_workers(d, workers);
  else
    remedy(d, d->a->own_batches_remedy);
  if (reading > decoding && 2 * lookups > reading)
    remedy(d, opgap_open_less);
  else if (reading > decoding && reading > 0)
    remedy(d,
           "Most of that time goes to files: read fewer, larger files (packed shards), or keep them on a faster disk "
           "or in memory.");
  else if (decoding > 0 && mostly)
    remedy(d, s->has_gpu
                  ? "Most of that time goes to decoding and augmenting: prepare the data once ahead of training, "
                    "use a faster decoder, or augment on the GPU."
                  : "Most of that time goes to decoding and augmenting: prepare the data once ahead of training, "
                    "or use a faster decoder.");
}

static void remedies_data_loading(struct draft *d)
{
  const struct opgap_summary *s = d->a->summary;
  unsigned workers = workers_at_once(s);
  uint64_t inside = s->breakdown.class_ns[OPGAP_CLASS_DATALOADER];
  uint64_t files = s->breakdown.other_wait_ns[OPGAP_CAUSE_FILE_IO]; /* outside of the DataLoader */
  if (files > inside) {
    remedy(d, "Read ahead of the step: let a DataLoader with workers do it, or write in the background.");
    struct file_times times = files_times(d->a, FILES_STEPS);
    remedy(d, files_mostly_looked_up(&times)
                  ? opgap_open_less
                  : "Use fewer, larger files (packed shards) on a faster disk or in memory; sync less often.");
    return;
  }
  if (d->a->loader_kind != NULL)
    remedies_workers(d, workers);
  else
    remedies_loading(d, workers);
  if (workers > 0 && d->a->workers_made > d->a->workers_kept)
    remedy(d, "Let workers run further ahead and live on between epochs: prefetch_factor=4, persistent_workers=True.");
  else if (workers > 0)
    remedy(d, "Let workers run further ahead: prefetch_factor=4.");
  if (s->has_gpu)
    remedy(d, "Use pin_memory=True and non_blocking=True copies.");
}

static void remedies_communication(struct draft *d)
{
  if (!ranks_any(d->a)) { /* the network, or sockets to other processes: no training over ranks */
    remedy(d,
           "Receive ahead of the step, in another thread or process; the longest idle gaps name what was waited for.");
    return;
  }
  remedy(d, "Overlap gradients with the backward pass: larger DDP buckets (bucket_cap_mb), gradient_as_bucket_view.");
  remedy(d, "Send less often: accumulate gradients over several batches with no_sync().");
  remedy(d, "Send less: half-precision or compressed gradients (DDP communication hooks).");
}

static void remedies_kernels(struct draft *d)
{
  remedy(d, "Use lower precision where it is safe: torch.autocast with bfloat16, TF32 for matrix products.");
  remedy(d, bottlenecks_unless_compiled(d->a->summary,
                                        "Fuse elementwise work: torch.compile(model), channels_last for convolutions.",
                                        "Convolutions are faster in channels_last."));
}

static void remedies_memory(struct draft *d)
{
  remedy(d, "Copy less and ahead: pin_memory=True, non_blocking=True, keep data on the GPU between steps.");
  remedy(d, "Smaller batches with gradient accumulation, recomputation (checkpointing), lower precision.");
}

/* python: code between ops takes more than the ops themselves. */
static void remedies_dispatch(struct draft *d, bool python)
{
  if (python)
    remedy(d, bottlenecks_python_remedy(d->a));
  remedy(d, "Give each op more to do: a larger batch.");
  remedy(d,
         bottlenecks_unless_compiled(
             d->a->summary, "Fewer, larger ops: torch.compile(model), fused optimizers (fused=True or foreach=True).",
             "Fewer, larger ops: fused optimizers (fused=True or foreach=True)."));
  if (d->a->summary->has_gpu)
    remedy(d, "Replay the launches: CUDA graphs (torch.compile(mode=\"reduce-overhead\")).");
  if (!python)
    remedy(d, "Move Python work and .item() calls out of the step.");
}

static void remedies_compute(struct draft *d)
{
  unsigned left = d->a->cpus_free;
  if (left == CPUS_UNKNOWN)
    remedy(d, "Use all CPU cores for ops: check OMP_NUM_THREADS and torch.set_num_threads.");
  else if (left > 0)
    remedy(d, opgap_pool_printf(d->a->pool,
                                "Use for ops the CPUs that are free, ~%u of %u: OMP_NUM_THREADS, "
                                "torch.set_num_threads.",
                                left, d->a->cpus_have));
  remedy(d, bottlenecks_unless_compiled(d->a->summary,
                                        "Lower precision (bfloat16 on CPUs that have it) and torch.compile(model).",
                                        "Lower precision (bfloat16 on CPUs that have it)."));
  remedy(d, "The ops are the work itself: a faster device, or a smaller model, is the next step.");
}

static bool is_among(const char *text, const char *const *texts, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(text, texts[i]) == 0)
      return true;
  return false;
}

/* The largest bottleneck of these kinds; NULL: there is none. */
static const struct opgap_sum_bottleneck *largest_of(const struct opgap_sum_verdict *v, const char *const *kinds,
                                                     size_t count)
{
  for (size_t i = 0; i < v->bottleneck_count; i++) /* the largest comes first */
    if (is_among(v->bottlenecks[i].kind, kinds, count))
      return &v->bottlenecks[i];
  return NULL;
}

/* That of the bottleneck, so that remedies_besides does not say it again.  What other causes wait for, the gaps tell.
 */
static void remedies_wait(struct draft *d, enum opgap_cause cause)
{
  static const char *const no_cpu[] = {"run_queue", "oversubscription", "cgroup_limit"};
  static const char *const unread[] = {"file_metadata"};
  const struct opgap_sum_bottleneck *told = NULL;
  if (cause == OPGAP_CAUSE_RUN_QUEUE || cause == OPGAP_CAUSE_THROTTLED)
    told = largest_of(d->v, no_cpu, sizeof no_cpu / sizeof *no_cpu);
  else if (cause == OPGAP_CAUSE_FILE_IO)
    told = largest_of(d->v, unread, sizeof unread / sizeof *unread);
  bool plain = cause == OPGAP_CAUSE_SLEEP || cause == OPGAP_CAUSE_CHILD || cause == OPGAP_CAUSE_LOCK ||
               cause == OPGAP_CAUSE_FILE_IO || cause == OPGAP_CAUSE_GIL;
  remedy(d, told ? told->remedy : bottlenecks_wait_remedy(d->a, plain ? cause : OPGAP_CAUSE_SYNCHRONISATION));
}

/* How to call the largest part of a whole. */
static const char *most_words(uint64_t part, uint64_t whole)
{
  return 2 * part >= whole ? "most of it" : "the largest part";
}

static void evidence_wait(struct draft *d, enum opgap_cause cause, uint64_t waits, uint64_t total)
{
  const char *path = cause == OPGAP_CAUSE_LOCK ? locks_file(d->a, false).path : NULL;
  uint64_t ns = d->a->summary->breakdown.other_wait_ns[cause];
  evidence(d, opgap_pool_printf(d->a->pool,
                                "The main thread waited outside ops for %.1f %% of step time, %s (%.1f %%): %s%s%s.",
                                100 * share(waits, total), most_words(ns, waits), 100 * share(ns, total),
                                wait_name(d->a, cause), path ? " on " : "", path ? path : ""));
}

/* One part of a list of shares; parts that would read 0.0 % are left out. */
static int list_share(char *text, size_t size, int at, uint64_t ns, uint64_t total, const char *before,
                      const char *name)
{
  if (share(ns, total) < 0.0005 || (size_t)at >= size)
    return at;
  return at + snprintf(text + at, size - (size_t)at, "%s %.1f %% %s", before, 100 * share(ns, total), name);
}

static void evidence_classes(struct draft *d, uint64_t total)
{
  static const char *const names[OPGAP_CLASS_OTHER] = {"GPU kernels", "GPU copies", "GPU memset",   "communication",
                                                       "CUDA calls",  "DataLoader", "framework ops"};
  const struct opgap_summary *s = d->a->summary;
  char text[1024];
  uint64_t waits = 0;
  int head = snprintf(text, sizeof text, "Of the time of %zu steps:", s->breakdown.steps), at = head;
  for (int c = 0; c < OPGAP_CLASS_OTHER; c++)
    at = list_share(text, sizeof text, at, s->breakdown.class_ns[c], total, at > head ? "," : "", names[c]);
  int classes = at;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    waits += s->breakdown.other_wait_ns[c];
    const char *before = at == head ? "" : at == classes ? "; outside of these" : ",";
    at = list_share(text, sizeof text, at, s->breakdown.other_wait_ns[c], total, before, wait_name(d->a, c));
  }
  list_share(text, sizeof text, at, s->breakdown.class_ns[OPGAP_CLASS_OTHER] - waits, total, at > head ? "," : "",
             verdict_mean_op(s) > 0 ? "other (Python)" : "the program's own code");
  double no_cpu = opgap_no_cpu_share(&s->breakdown);
  const char *within = no_cpu < 0.01
                           ? ""
                           : opgap_pool_printf(d->a->pool,
                                               "; within all of these the main thread, or a thread that it waits for, "
                                               "had no free CPU for ~%.1f %% of step time",
                                               100 * no_cpu);
  evidence(d, opgap_pool_printf(d->a->pool, "%s%s.", text, within));
}

/* The subject of a sentence about gaps, which are those of all processes that do the work. */
static const char *gaps_subject(const struct draft *d)
{
  uint64_t lived;
  size_t count = opgap_gap_processes(d->a->summary, &lived);
  return count > 1 ? opgap_pool_printf(d->a->pool, "The main threads of %zu processes were", count)
                   : "The main thread was";
}

/* The cause with the most time, and what most of that was. */
static void evidence_gaps(struct draft *d)
{
  const struct opgap_sum_gaps *gaps = &d->a->summary->gaps;
  const struct opgap_sum_cause *causes = gaps->thread_by_cause, *top = NULL;
  size_t count = gaps->thread_cause_count;
  uint64_t ns = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t sum = cause_total(causes, count, causes[i].cause);
    if (top == NULL || sum > ns) { /* the first of a cause is its largest */
      top = &causes[i];
      ns = sum;
    }
  }
  if (top == NULL)
    return;
  const char *detail = "";
  if (top->detail[0] != '\0' && top->ns == ns)
    detail = opgap_pool_printf(d->a->pool, ", %s", top->detail);
  else if (top->detail[0] != '\0')
    detail =
        opgap_pool_printf(d->a->pool, ", %s of that: %s", 2 * top->ns >= ns ? "most" : "the largest part", top->detail);
  evidence(d, opgap_pool_printf(d->a->pool, "%s idle %zu time%s, %.3f s in all; %s (%.1f %%): %s%s.", gaps_subject(d),
                                gaps->thread_count, gaps->thread_count == 1 ? "" : "s", (double)gaps->thread_ns / 1e9,
                                most_words(ns, gaps->thread_ns), 100 * share(ns, gaps->thread_ns),
                                opgap_cause_name(top->cause), detail));
}

/* Self time as the table of hot ops shows it: of ops and ranges on the CPU, or of all work on the GPU. */
static uint64_t self_time(const struct opgap_sum_op *op, bool gpu)
{
  bool on_cpu = op->kind == OPGAP_OP_TORCH || op->kind == OPGAP_OP_RANGE;
  bool on_gpu = op->kind == OPGAP_OP_KERNEL || op->kind == OPGAP_OP_MEMCPY || op->kind == OPGAP_OP_MEMSET;
  return gpu ? (on_gpu ? op->self_gpu_ns : 0) : on_cpu ? op->self_cpu_ns : 0;
}

static bool is_next(const struct opgap_sum_op *op)
{
  return strncmp(op->name, "enumerate(DataLoader)#", 22) == 0;
}

static enum opgap_role shown_role(const struct opgap_summary *s)
{
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].role == OPGAP_ROLE_TRAINER)
      return OPGAP_ROLE_TRAINER;
  return OPGAP_ROLE_PROGRAM;
}

/* The top row of the table of hot ops and its Self CPU %; waiting for the DataLoader is no op to make faster. */
static void evidence_top_op(struct draft *d, enum opgap_op_kind kind)
{
  const struct opgap_summary *s = d->a->summary;
  const struct opgap_sum_op *top = NULL;
  bool gpu = kind == OPGAP_OP_KERNEL;
  enum opgap_role role = shown_role(s);
  uint64_t sum = 0, next = 0;
  for (size_t i = 0; i < s->op_count; i++) {
    const struct opgap_sum_op *op = &s->ops[i];
    uint64_t ns = op->role == role ? self_time(op, gpu) : 0;
    sum += ns;
    if (is_next(op))
      next = ns > next ? ns : next;
    else if (ns > (top ? self_time(top, gpu) : 0) && (!gpu || op->kind == OPGAP_OP_KERNEL))
      top = op;
  }
  if (top == NULL)
    return;
  evidence(d, opgap_pool_printf(d->a->pool, "%s costliest %s is %s: %.2f %% of self %s time, %llu calls.",
                                next > self_time(top, gpu) ? "Besides waiting for the DataLoader, the" : "The",
                                gpu ? "kernel" : "op", top->name, 100 * share(self_time(top, gpu), sum),
                                gpu ? "CUDA" : "CPU", (unsigned long long)top->calls));
}

uint64_t verdict_mean_op(const struct opgap_summary *s)
{
  uint64_t ns = 0, calls = 0;
  for (size_t i = 0; i < s->op_count; i++) {
    const struct opgap_sum_op *op = &s->ops[i];
    if (op->kind != OPGAP_OP_TORCH || op->role == OPGAP_ROLE_WORKER || is_next(op))
      continue;
    ns += op->self_cpu_ns;
    calls += op->calls;
  }
  return calls ? ns / calls : 0;
}

/* Ops, code between them, and batches made in the main thread hold time in which it had no CPU.  When that is the
 * largest bottleneck, or most of what is said of them (`mostly`), it stands before that. */
static void put_cpu_first(struct draft *d, bool mostly)
{
  static const char *const kinds[] = {"run_queue", "oversubscription", "cgroup_limit", "blocked_outside",
                                      "team_imbalance"};
  const struct opgap_sum_bottleneck *b = largest_of(d->v, kinds, sizeof kinds / sizeof *kinds);
  if (b == NULL || (!mostly && b != d->v->bottlenecks))
    return;
  evidence(d, opgap_pool_printf(d->a->pool, "%s.", b->text));
  remedy(d, b->remedy);
}

/* A large bottleneck of another class than the verdict's gets its word, too. */
static void remedies_besides(struct draft *d)
{
  static const char *const kinds[] = {
      "file_write", "file_metadata", "run_queue", "oversubscription", "cgroup_limit",
      "sleep",      "lock",          "gil",       "child_process",    "other_thread_sleep"};
  for (size_t i = 0; i < d->v->bottleneck_count; i++) {
    const struct opgap_sum_bottleneck *b = &d->v->bottlenecks[i];
    bool large = share(b->ns, d->v->step_ns) >= 0.2;
    if (large && is_among(b->kind, kinds, sizeof kinds / sizeof *kinds))
      remedy(d, b->remedy);
  }
}

/* What the main thread's time in files is for where that is not data: checkpoints and logs, or files that nobody
 * reads; NULL: data. */
static const char *no_data(const struct opgap_sum_verdict *v)
{
  static const char *const kinds[] = {"file_write", "file_metadata"};
  const struct opgap_sum_bottleneck *b = largest_of(v, kinds, sizeof kinds / sizeof *kinds);
  return b == NULL ? NULL : strcmp(b->kind, "file_write") == 0 ? "writing files" : "looking up files";
}

/* Of the time in __next__ of a main thread that makes its batches itself, what is not for want of a CPU. */
static uint64_t loading_with_cpu(const struct analysis *a)
{
  const struct opgap_sum_breakdown *b = &a->summary->breakdown;
  uint64_t inside = 0, all = b->class_ns[OPGAP_CLASS_DATALOADER];
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    inside += b->wait_ns[c] - b->other_wait_ns[c];
  uint64_t running = all > inside ? all - inside : 0;
  return all - (uint64_t)((double)running * (1 - a->on_cpu));
}

/* Pages of mapped files that are read from a disk, where they are the largest bottleneck and 20 % of the time. */
static const struct opgap_sum_bottleneck *paging(const struct opgap_sum_verdict *v, uint64_t total)
{
  const struct opgap_sum_bottleneck *first = v->bottlenecks;
  return v->bottleneck_count > 0 && strcmp(first->kind, "mapped_file") == 0 && share(first->ns, total) >= 0.2 ? first
                                                                                                              : NULL;
}

/* What data loading is more than the class DataLoader, where its share reads as another one. */
static const char *loading_includes(const struct analysis *a, uint64_t files, double loading, double fetches)
{
  bool making = a->loader_making_ns > 0;
  char all[32], alone[32];
  snprintf(all, sizeof all, "%.1f", 100 * loading);
  snprintf(alone, sizeof alone, "%.1f", 100 * fetches);
  return strcmp(all, alone) == 0 ? ""
         : files > 0 && making   ? ", file I/O and the start of workers included"
         : files > 0             ? ", file I/O included"
         : making                ? ", the start of workers included"
                                 : "";
}

static void judge_cpu(struct draft *d, uint64_t total)
{
  const struct opgap_summary *s = d->a->summary;
  enum opgap_cause cause;
  uint64_t waits = wait_total(d->a, &cause), files = s->breakdown.other_wait_ns[OPGAP_CAUSE_FILE_IO];
  if (no_data(d->v) != NULL) {
    waits += files;
    cause = files > s->breakdown.other_wait_ns[cause] ? OPGAP_CAUSE_FILE_IO : cause;
    files = 0;
  }
  uint64_t threads = s->breakdown.other_wait_ns[OPGAP_CAUSE_DISPATCH],
           others = s->breakdown.class_ns[OPGAP_CLASS_OTHER];
  double wait = share(waits, total), largest_wait = share(s->breakdown.other_wait_ns[cause], total);
  double loading = share(s->breakdown.class_ns[OPGAP_CLASS_DATALOADER] + files + d->a->loader_making_ns, total);
  if (cause == OPGAP_CAUSE_STARTUP)
    largest_wait -= share(d->a->loader_making_ns, total);
  double communication = share(s->breakdown.class_ns[OPGAP_CLASS_COMMUNICATION], total);
  double ops = share(s->breakdown.class_ns[OPGAP_CLASS_CPU_EXEC] + threads, total);
  double other = share(others - waits - files - threads, total);
  uint64_t mean = verdict_mean_op(s);
  bool own = d->a->loader_kind == NULL; /* the main thread makes its batches itself */
  const struct opgap_sum_bottleneck *mapped = paging(d->v, total);
  if (wait >= 0.05)
    evidence_wait(d, cause, waits, total);
  if (loading >= 0.2 && loading >= communication && loading >= largest_wait) {
    decide(d, OPGAP_BOUND_DATA_LOADING,
           own ? share(loading_with_cpu(d->a) + files, total) : loading * (1 - d->a->loader_starved));
    if (own)
      put_cpu_first(d, 2 * loading_with_cpu(d->a) < s->breakdown.class_ns[OPGAP_CLASS_DATALOADER]);
    evidence_gaps(d);
    remedies_data_loading(d);
  } else if (communication >= 0.2 && communication >= wait) {
    decide(d, OPGAP_BOUND_COMMUNICATION, communication);
    if (!ranks_any(d->a))
      evidence_gaps(d);
    remedies_communication(d);
  } else if (wait >= 0.2 && wait >= ops) {
    remedies_wait(d, cause);
  } else if (mapped != NULL) {
    decide(d, OPGAP_BOUND_MEMORY, share(mapped->ns, total));
    evidence(d, opgap_pool_printf(d->a->pool, "%s.", mapped->text));
    remedy(d, mapped->remedy);
  } else if (mean > 0 && (mean < 20000 || other > ops)) {
    decide(d, OPGAP_BOUND_CPU_DISPATCH, (ops + other) * d->a->on_cpu);
    put_cpu_first(d, d->a->on_cpu < 0.5);
    if (other > ops)
      evidence(d, opgap_pool_printf(d->a->pool,
                                    "The host's time is Python code between ops (%.1f %% of step time), not the "
                                    "ops themselves (%.1f %%).",
                                    100 * other, 100 * ops));
    evidence(d, opgap_pool_printf(d->a->pool, "A framework op takes %.1f us on average.", (double)mean / 1e3));
    remedies_dispatch(d, other > ops);
  } else if (mean > 0) {
    decide(d, OPGAP_BOUND_CPU_COMPUTE, ops * d->a->on_cpu);
    put_cpu_first(d, d->a->on_cpu < 0.5);
    remedies_compute(d);
  } else {
    put_cpu_first(d, d->a->on_cpu < 0.5);
  }
  remedies_besides(d);
  evidence_top_op(d, OPGAP_OP_TORCH);
  if (loading >= 0.05 && loading < 0.2)
    evidence(d,
             opgap_pool_printf(
                 d->a->pool, "Data loading is the next thing to look at: %.1f %% of step time%s.", 100 * loading,
                 loading_includes(d->a, files, loading, share(s->breakdown.class_ns[OPGAP_CLASS_DATALOADER], total))));
}

/* What the host did instead of launching work, that is no work of its own. */
static uint64_t gpu_wait_total(const struct opgap_sum_gaps *gaps, enum opgap_cause *largest)
{
  static const enum opgap_cause waits[] = {OPGAP_CAUSE_SLEEP, OPGAP_CAUSE_LOCK, OPGAP_CAUSE_CHILD};
  uint64_t sum = 0, most = 0;
  *largest = waits[0];
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    uint64_t ns = cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, waits[i]);
    sum += ns;
    if (ns > most) {
      most = ns;
      *largest = waits[i];
    }
  }
  return sum;
}

static void judge_gpu_idle(struct draft *d, double idle)
{
  const struct opgap_sum_gaps *gaps = &d->a->summary->gaps;
  uint64_t files = cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, OPGAP_CAUSE_FILE_IO);
  uint64_t loading = cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, OPGAP_CAUSE_DATA_LOADING);
  enum opgap_cause cause;
  uint64_t wait = gpu_wait_total(gaps, &cause);
  const char *instead = no_data(d->v);
  if (instead != NULL && files > cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, cause))
    cause = OPGAP_CAUSE_FILE_IO;
  *(instead != NULL ? &wait : &loading) += files;
  uint64_t communication = cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, OPGAP_CAUSE_COMMUNICATION);
  uint64_t ops = cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, OPGAP_CAUSE_DISPATCH),
           python = cause_total(gaps->gpu_by_cause, gaps->gpu_cause_count, OPGAP_CAUSE_PYTHON), dispatch = ops + python;
  evidence(d, opgap_pool_printf(
                  d->a->pool,
                  "GPU idle %.1f %% of the time; of its idle gaps %.1f %% data loading, %.1f %% communication, "
                  "%.1f %% ops and Python on the host, %.1f %% %s%ssleep, locks and child processes.",
                  100 * idle, 100 * share(loading, gaps->gpu_ns), 100 * share(communication, gaps->gpu_ns),
                  100 * share(dispatch, gaps->gpu_ns), 100 * share(wait, gaps->gpu_ns), instead ? instead : "",
                  instead ? ", " : ""));
  if (wait > loading && wait > communication && wait > dispatch) {
    remedies_wait(d, cause);
  } else if (loading >= dispatch && loading >= communication && loading > 0) {
    decide(d, OPGAP_BOUND_DATA_LOADING, idle * share(loading, gaps->gpu_ns) * (1 - d->a->loader_starved));
    remedies_data_loading(d);
  } else if (communication > dispatch) {
    decide(d, OPGAP_BOUND_COMMUNICATION, idle * share(communication, gaps->gpu_ns));
    remedies_communication(d);
  } else if (dispatch > 0) {
    decide(d, OPGAP_BOUND_CPU_DISPATCH, idle * share(dispatch, gaps->gpu_ns));
    if (python > ops)
      evidence(d, opgap_pool_printf(d->a->pool,
                                    "The host's time is Python code between ops (%.1f %% of these gaps), not the "
                                    "ops themselves (%.1f %%).",
                                    100 * share(python, gaps->gpu_ns), 100 * share(ops, gaps->gpu_ns)));
    remedies_dispatch(d, python > ops);
  }
}

/* A device whose clocks are held down is slower at the same work. */
static void evidence_brakes(struct draft *d)
{
  const struct opgap_summary *s = d->a->summary;
  for (size_t i = 0; i < s->gpu_count; i++) {
    const struct opgap_sum_gpu_state *state = &s->gpus[i].state;
    int most = 0;
    if (state->samples == 0 || state->braked == OPGAP_UNKNOWN || share(state->braked, state->samples) < 0.1)
      continue;
    for (int b = 1; b < OPGAP_BRAKE_COUNT; b++)
      if (state->brakes[b] > state->brakes[most])
        most = b;
    const char *clocks = "";
    if (state->sm_mhz != OPGAP_UNKNOWN && state->sm_mhz_most != OPGAP_UNKNOWN)
      clocks = opgap_pool_printf(d->a->pool, ": %llu of %llu MHz on average", (unsigned long long)state->sm_mhz,
                                 (unsigned long long)state->sm_mhz_most);
    evidence(d,
             opgap_pool_printf(d->a->pool, "GPU %u had its clocks held down in %llu of %llu samples (%s)%s.",
                               s->gpus[i].device, (unsigned long long)state->braked, (unsigned long long)state->samples,
                               opgap_gpu_brake_name((enum opgap_gpu_brake)most), clocks));
    remedy(d, "Let the GPU run at its clocks: check cooling and power limit (nvidia-smi -q -d PERFORMANCE,POWER).");
  }
}

static void judge_gpu(struct draft *d)
{
  const struct opgap_summary *s = d->a->summary;
  uint64_t span = 0, busy = 0, kernels = 0, copies = 0, exposed = 0;
  for (size_t i = 0; i < s->gpu_count; i++) {
    span += s->gpus[i].span_ns;
    busy += s->gpus[i].busy_ns;
    kernels += s->gpus[i].kernel_ns;
    copies += s->gpus[i].memcpy_ns;
    exposed += s->gpus[i].exposed_communication_ns;
  }
  evidence(d, opgap_pool_printf(d->a->pool, "GPU busy %.1f %% of the time between its first and last work.",
                                100 * share(busy, span)));
  if (share(exposed, span) >= 0.2) {
    decide(d, OPGAP_BOUND_COMMUNICATION, share(exposed, span));
    evidence(d, opgap_pool_printf(d->a->pool, "Collectives not hidden by computation: %.1f %%.",
                                  100 * share(exposed, span)));
    remedies_communication(d);
  } else if (share(kernels, span) >= 0.7) {
    decide(d, OPGAP_BOUND_KERNELS, share(kernels, span));
    remedies_kernels(d);
  } else if (share(copies, span) >= 0.2) {
    decide(d, OPGAP_BOUND_MEMORY, share(copies, span));
    evidence(d, opgap_pool_printf(d->a->pool, "Copies to and from the GPU: %.1f %%.", 100 * share(copies, span)));
    remedies_memory(d);
  } else {
    judge_gpu_idle(d, 1 - share(busy, span));
  }
  evidence_top_op(d, OPGAP_OP_KERNEL);
  evidence_brakes(d);
}

/* The steps counted say little about a run that is mostly start-up: imports, compilation in the first steps. */
static void evidence_start_up(struct draft *d)
{
  const struct opgap_summary *s = d->a->summary;
  const struct opgap_sum_steps *steps = &s->steps;
  if (d->a->options.steps_given || steps->count <= steps->skipped)
    return;
  uint64_t until = steps->start_ns[steps->skipped];
  if (share(until, s->duration_ns) < 0.5)
    return;
  evidence(d, opgap_pool_printf(
                  d->a->pool,
                  "%.1f %% of the run passed before the steps counted begin: %.3f s until the first step, "
                  "%.3f s in %zu %s of warm-up.",
                  100 * share(until, s->duration_ns), (double)steps->start_ns[0] / 1e9,
                  (double)(until - steps->start_ns[0]) / 1e9, steps->skipped, steps->skipped == 1 ? "step" : "steps"));
}

/* Without steps: a main thread that waits much for files, or for threads that use them, waits for data, unless most of
 * that time goes to writing. */
static void judge_waits(struct draft *d)
{
  const struct opgap_summary *s = d->a->summary;
  uint64_t lived;
  size_t processes = opgap_gap_processes(s, &lived);
  double idle = share(s->gaps.thread_ns, processes > 1 ? lived : s->duration_ns);
  uint64_t files = cause_total(s->gaps.thread_by_cause, s->gaps.thread_cause_count, OPGAP_CAUSE_FILE_IO);
  uint64_t code = cause_total(s->gaps.thread_by_cause, s->gaps.thread_cause_count, OPGAP_CAUSE_PYTHON);
  if (idle < 0.2 || share(files, s->gaps.thread_ns) < 0.05 || share(files + code, s->gaps.thread_ns) < 0.5)
    return;
  struct file_times times = gaps_files(d->a, UINT32_MAX, false);
  struct file_lookups lookups = files_lookups(d->a, FILES_ALL);
  bool writes = files_mostly_written(&times), looks_up = files_mostly_looked_up(&times),
       no_data = looks_up && files_only_metadata(&lookups);
  evidence(d, opgap_pool_printf(d->a->pool,
                                "%s idle %.1f %% of %s; %.1f %% of that went to files%s, %.1f %% to the "
                                "code of the threads that %s waited for.",
                                gaps_subject(d), 100 * idle, processes > 1 ? "their time" : "the run",
                                100 * share(files, s->gaps.thread_ns),
                                writes     ? ", mostly to write them"
                                : looks_up ? opgap_pool_printf(d->a->pool,
                                                               ", mostly opening, closing and looking them up (%s%s)",
                                                               lookups.words, no_data ? "; nobody reads them" : "")
                                           : "",
                                100 * share(code, s->gaps.thread_ns), processes > 1 ? "they" : "it"));
  if (writes) {
    remedy(d, opgap_write_less);
    return;
  }
  if (no_data) {
    remedy(d, opgap_look_up_less);
    return;
  }
  d->v->bound_by = OPGAP_BOUND_DATA_LOADING;
  d->v->confidence = "low";
  remedy(d, "Prepare data further ahead: a longer queue, or more loader threads or processes if CPUs are free.");
  remedy(d, looks_up ? opgap_open_less : "Read fewer, larger files, or keep them on a faster disk or in memory.");
}

void verdict_finish(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  struct draft d = {a, &s->verdict};
  s->verdict.evidence = opgap_pool_alloc(a->pool, SENTENCES * sizeof *s->verdict.evidence);
  s->verdict.remedies = opgap_pool_alloc(a->pool, SENTENCES * sizeof *s->verdict.remedies);
  s->verdict.confidence = "low";
  uint64_t total = class_total(s);
  if (total > 0)
    evidence_classes(&d, total);
  evidence_start_up(&d);
  if (s->has_gpu && s->gpu_count > 0)
    judge_gpu(&d);
  else if (total > 0)
    judge_cpu(&d, total);
  if (s->verdict.bound_by == OPGAP_BOUND_UNDECIDED) {
    if (total == 0)
      evidence(&d,
               s->trainers_left_out
                   ? "The steps are those of the trainer, which this view leaves out: there is no step time to divide."
                   : "No training steps were found, so there is no step time to divide.");
    if (total == 0)
      judge_waits(&d);
    evidence_gaps(&d);
  }
}

static const char **put_first(struct opgap_pool *pool, const char *const *texts, size_t *count, const char *text)
{
  const char **longer = opgap_pool_alloc(pool, (*count + 1) * sizeof *longer);
  longer[0] = text;
  for (size_t i = 0; i < *count; i++)
    longer[i + 1] = texts[i];
  ++*count;
  return longer;
}

void opgap_verdict_straggler(struct opgap_summary *s)
{
  const struct opgap_sum_ranks *ranks = &s->ranks;
  struct opgap_sum_verdict *v = &s->verdict;
  uint64_t waited = 0, collective = 0;
  if (s->ranks.told) { /* about fewer ranks: these parts were merged since */
    v->evidence++;
    v->remedies++;
    v->evidence_count--;
    v->remedy_count--;
    s->ranks.told = false;
  }
  for (size_t r = 0; r < ranks->count; r++) {
    waited += ranks->rows[r].waited_ns;
    collective += ranks->rows[r].collective_ns;
  }
  if (v->bound_by != OPGAP_BOUND_COMMUNICATION || ranks->count < 2 || ranks->straggler == SIZE_MAX ||
      share(waited, collective) < 0.5)
    return;
  s->ranks.told = true;
  const struct opgap_sum_rank *late = &ranks->rows[ranks->straggler];
  char name[32];
  opgap_rank_name(name, sizeof name, late);
  v->evidence = put_first(
      s->pool, v->evidence, &v->evidence_count,
      opgap_pool_printf(s->pool,
                        "%.1f %% of the time in collectives is waiting for the last rank; %s is the last in %llu "
                        "of %llu%s%s.",
                        100 * share(waited, collective), name, (unsigned long long)late->last,
                        (unsigned long long)ranks->collectives,
                        ranks->straggler_part[0] ? ", and has more than the others of: " : "", ranks->straggler_part));
  v->remedies =
      put_first(s->pool, v->remedies, &v->remedy_count,
                opgap_pool_printf(s->pool, "Make %s as fast as the others (it is late by %.3f ms a step: %s).", name,
                                  (double)ranks->straggler_extra_ns / 1e6,
                                  ranks->straggler_part[0] ? ranks->straggler_part : "cause unknown"));
}
