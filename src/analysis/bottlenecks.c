/* Bottlenecks: what takes the time of the steps counted, one row a kind, and an upper bound of what removing it gains.
 *
 * The bound replays the steps without the cause.  Steps are a graph of waits and work: a wait ends when the work ends
 * that it waited for.  Taking x ns out of the work of one thread moves every later event by at most x (longest paths in
 * a graph change by at most what is taken from their edges), so a step cannot become shorter by more than the time that
 * the main thread spent in the cause, or, where a worker spent it, by more than the main thread waited for data.  With
 * a GPU it cannot become shorter by more than the time that the GPU had nothing to do either.
 *
 * To the main thread's time in a cause belongs what is there for its sake alone and what it makes slower: the code that
 * prepares and follows it, work on CPUs that threads of the cause used, refilled caches, and the kernel's copies of
 * pages after a fork.  None of these can be told from the step's own work, so each is taken whole (struct around,
 * others_ns, kernel_ns): the bound is loose there.  DataLoader workers are the exception: what they may slow by running
 * at the same time is not in their bound, as it would be nearly all work wherever there are many of them.
 *
 * docs/VERDICT.md has the kinds, their rules, and how the bounds compare with what removing the causes really won. */
#include "analysis/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
  struct analysis *a;
  const struct opgap_summary *s;
  uint64_t total; /* step time */
  uint64_t work;  /* the main thread's time in no wait */
  struct around around;
  struct cpu_use use;
  unsigned free; /* cpus_free */
  VEC(struct opgap_sum_bottleneck) rows;
};

static double percent(const struct list *l, uint64_t ns)
{
  return l->total ? 100.0 * (double)ns / (double)l->total : 0;
}

static double share(uint64_t part, uint64_t whole)
{
  return whole ? (double)part / (double)whole : 0;
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
  return value < limit ? value : limit;
}

static uint64_t less(uint64_t from, uint64_t what)
{
  return from > what ? from - what : 0;
}

/* Rows below 1 % of step time say nothing. */
static void add(struct list *l, const char *kind, uint64_t ns, uint64_t bound, const char *remedy, const char *format,
                ...) __attribute__((format(printf, 6, 7)));
static void add(struct list *l, const char *kind, uint64_t ns, uint64_t bound, const char *remedy, const char *format,
                ...)
{
  char text[2048];
  va_list args;
  if (percent(l, ns) < 1)
    return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  struct opgap_sum_bottleneck *row = VEC_PUSH(&l->rows);
  row->kind = kind;
  row->text = opgap_pool_string(l->a->pool, text);
  row->remedy = remedy;
  row->ns = ns;
  row->at_most_ns = bound == OPGAP_UNKNOWN ? bound : at_most(bound, l->total);
}

/* "" where it was not noted. */
static const char *setting(const struct opgap_summary *s, const char *key)
{
  const char *value = opgap_summary_info(s, key);
  return value ? value : "";
}

/* DataLoader(in_order=False) is there from PyTorch 2.6 on; of some builds the version is not known. */
static const char *out_of_order(const struct list *l)
{
  const char *torch = setting(l->s, "torch");
  unsigned major = 0, minor = 0;
  if (sscanf(torch, "%u.%u", &major, &minor) != 2)
    return ", or, with PyTorch 2.6 or newer, fetch out of order (in_order=False).";
  return major > 2 || (major == 2 && minor >= 6) ? ", or fetch out of order (in_order=False)." : ".";
}

/* Work of the main thread (its waits for a CPU are part of it) that other threads of the run may have slowed: by
 * running at the same time, and by having the CPU that it waited for.  Where other programs wait for CPUs, too, a
 * thread keeps it waiting for longer than it runs itself, so all waits count. */
static uint64_t others_ns(const struct list *l)
{
  return at_most(l->use.others_ns + l->use.queued_ns, l->work);
}

/* CPU time of the kernel for the process of the steps, in its whole run; all work when it was sampled for less than a
 * second. */
static uint64_t kernel_ns(const struct list *l)
{
  const struct process *p = &l->a->processes[steps_process(l->a)];
  if (p->last_usage.at < p->first_usage.at + 1000000000u)
    return l->work;
  return at_most(p->last_usage.system_ns - p->first_usage.system_ns, l->work);
}

/* The least that the steps take whoever else runs: what they need of CPUs, spread over all of them.  Threads that run
 * at the same time may slow one another (cores, caches, memory), but so much of what the CPUs do together was theirs.
 * Workers may have made more batches than were used. */
static uint64_t needed_ns(const struct list *l)
{
  uint64_t batches = 0, fetches = l->s->loader.fetches, workers = l->use.workers_ns;
  for (size_t i = 0; i < l->s->loader.worker_count; i++)
    batches += l->s->loader.worker[i].batches;
  if (batches > fetches)
    workers = (uint64_t)((double)workers * share(fetches, batches));
  uint64_t between = less(l->use.span_ns, l->total); /* steps: these CPUs may have been used there */
  return l->use.cpus ? at_most(less((l->use.main_ns + workers) / l->use.cpus, between), l->total) : 0;
}

/* Names the file that explains at least half of `whole`, if there is one. */
static const char *file_words(struct list *l, enum file_part part, uint64_t whole)
{
  struct file_use file = files_most(l->a, part);
  if (file.ns == 0 || share(file.ns, whole) < 0.5)
    return "";
  if (file.bytes == 0)
    return opgap_pool_printf(l->a->pool, ", most of it on %s", file.path);
  return opgap_pool_printf(l->a->pool, ", most of it on %s (%llu bytes, %.1f MB/s)", file.path,
                           (unsigned long long)file.bytes, (double)file.bytes / 1e6 / ((double)file.all_ns / 1e9));
}

typedef bool cause_choice(const struct analysis *a, const struct cause_key *key);

/* Of the main thread's waits of a cause in steps, those that are chosen: as large a part of them as of its gaps. */
static uint64_t chosen_waits(const struct list *l, enum opgap_cause cause, cause_choice *chosen)
{
  const struct gap_table *table = &l->a->thread_gaps[steps_process(l->a)];
  uint64_t all = 0, part = 0;
  for (size_t i = 0; i < table->rows.count; i++) {
    const struct cause_row *row = &table->rows.at[i];
    if (row->key.cause != cause)
      continue;
    all += row->ns;
    part += chosen(l->a, &row->key) ? row->ns : 0;
  }
  return (uint64_t)((double)l->s->breakdown.wait_ns[cause] * share(part, all));
}

/* The main thread's waits in hooked calls for threads without a CPU: for another one, or for itself once it was woken
 * (not after a lock or condition: it may be held then).  Its own outside of waits is left out: samples tell it, too. */
static bool awaits_queued(const struct analysis *a, const struct cause_key *key)
{
  (void)a;
  return key->doing == DOING_WAKING || (key->doing == DOING_QUEUE && cause_of_others(key));
}

/* And from a signal to its running again behind a lock or a condition: its own, and those of all. */
static bool takes_lock(const struct analysis *a, const struct cause_key *key)
{
  (void)a;
  return key->doing == DOING_HANDOVER;
}

static bool takes_lock_itself(const struct analysis *a, const struct cause_key *key)
{
  return takes_lock(a, key) && !cause_of_others(key);
}

/* ---- the DataLoader ---- */

struct workers {
  const struct opgap_sum_loader *loader;
  uint64_t busy, file, lock, sleep, network, child, queue, startup, started, awaited, batches, read_bytes;
  const struct opgap_sum_worker *slowest; /* by time a batch */
  double slowest_batch, other_batch;      /* its time a batch in ns, and the median of the others; 0: unknown */
};

static uint64_t known(uint64_t ns)
{
  return ns == OPGAP_UNKNOWN ? 0 : ns;
}

/* Without its waits for a CPU: they are not its work's. */
static double batch_ns(const struct opgap_sum_worker *w)
{
  return w->batches ? (double)less(known(w->busy_ns), known(w->queue_ns)) / (double)w->batches : 0;
}

/* Workers of one number share their name in all epochs: compares the time a batch of each number. */
static void find_slowest(struct workers *w)
{
  for (size_t i = 0; i < w->loader->worker_count; i++) {
    const struct opgap_sum_worker *worker = &w->loader->worker[i];
    if (batch_ns(worker) > w->slowest_batch) {
      w->slowest = worker;
      w->slowest_batch = batch_ns(worker);
    }
  }
  uint64_t *others = opgap_xcalloc(w->loader->worker_count, sizeof *others);
  size_t count = 0;
  for (size_t i = 0; w->slowest != NULL && i < w->loader->worker_count; i++)
    if (w->loader->worker[i].worker != w->slowest->worker && w->loader->worker[i].batches > 0)
      others[count++] = (uint64_t)batch_ns(&w->loader->worker[i]);
  stats_sort(others, count);
  w->other_batch = count ? (double)stats_percentile(others, count, 0.5) : 0;
  free(others);
}

static struct workers sum_workers(const struct opgap_summary *s)
{
  struct workers w = {.loader = &s->loader};
  for (size_t i = 0; i < s->loader.worker_count; i++) {
    const struct opgap_sum_worker *worker = &s->loader.worker[i];
    w.startup += known(worker->startup_ns);
    w.started += worker->startup_ns != OPGAP_UNKNOWN;
    if (worker->busy_ns != OPGAP_UNKNOWN) {
      w.busy += worker->busy_ns;
      w.file += worker->file_ns;
      w.lock += worker->lock_ns;
      w.sleep += worker->sleep_ns;
      w.network += worker->network_ns;
      w.child += worker->child_ns;
      w.queue += known(worker->queue_ns);
    }
    w.batches += worker->batches;
    w.awaited += worker->awaited_ns;
    w.read_bytes += worker->read_bytes;
  }
  find_slowest(&w);
  return w;
}

/* The waits for one number of worker, of all waits for workers. */
static double awaited_share(const struct workers *w, int32_t number)
{
  uint64_t ns = 0;
  for (size_t i = 0; i < w->loader->worker_count; i++)
    if (w->loader->worker[i].worker == number)
      ns += w->loader->worker[i].awaited_ns;
  return share(ns, w->awaited);
}

/* Of all workers the Python code with the most time, in words; "" without stacks. */
static const char *called_from(const struct list *l, const struct opgap_sum_loader *loader)
{
  const struct opgap_sum_worker *most = NULL;
  for (size_t i = 0; i < loader->worker_count; i++)
    if (loader->worker[i].source_location[0] && (most == NULL || loader->worker[i].source_ns > most->source_ns))
      most = &loader->worker[i];
  return most == NULL
             ? ""
             : opgap_pool_printf(l->a->pool, "; most of what takes long is called from %s", most->source_location);
}

#define FREE_CPUS "Stop other programs on this machine, or reserve CPUs for this one."

#define CROWDED 0.3 /* of the workers' busy time, waiting for a CPU; chosen on tests/scenarios (docs/VERDICT.md) */

/* What the workers' busy time went to: waits that need no CPU, and computing. */
static uint64_t latency_of(const struct workers *w)
{
  return w->file + w->lock + w->sleep + w->network;
}

static uint64_t computing_of(const struct workers *w)
{
  return less(w->busy, latency_of(w) + w->queue);
}

static bool wait_for_cpus(const struct workers *w)
{
  return w->queue > latency_of(w) && share(w->queue, w->busy) >= CROWDED;
}

/* How many workers may be advised instead of `n`: of such as mostly wait, but not for a CPU, four times the CPUs; of
 * such as compute none more while no CPU is free, else one for each CPU but the training process's. */
static unsigned most_workers(const struct list *l, const struct workers *w, unsigned n)
{
  unsigned have = l->use.have, left = l->free;
  if (latency_of(w) > computing_of(w) && !wait_for_cpus(w))
    return 4 * have;
  if (left == 0)
    return n;
  unsigned most = have > 0 ? have - 1 : 0;
  return left != CPUS_UNKNOWN && n + left < most ? n + left : most;
}

/* Batches that take too long to make, where more CPUs are no way out. */
static const char *cheaper_batches(const struct opgap_summary *s)
{
  return s->has_gpu ? "Prepare the data once ahead of training, use a faster decoder, or augment on the GPU."
                    : "Prepare the data once ahead of training, or use a faster decoder.";
}

/* The main thread's waits, outside of __next__, for DataLoader workers to start. */
static bool awaits_worker(const struct analysis *a, const struct cause_key *key)
{
  return key->process != UINT32_MAX && a->processes[key->process].role == OPGAP_ROLE_WORKER;
}

static const char share_no_file[] = "Hold the lock on the file for less time, or let nobody wait for it in the step: "
                                    "fill the cache that it guards once, "
                                    "before the ranks or workers start, or give each its own.";

/* Of a lock on a file: its path, and who has it. */
static const char *lock_words(const struct list *l, const struct lock_use *use)
{
  return use->path == NULL ? ""
                           : opgap_pool_printf(l->a->pool, "; most of it for the lock on %s%s%s", use->path,
                                               use->holder[0] ? ", held by " : "", use->holder);
}

static void add_workers(struct list *l, uint64_t fetch_ns)
{
  const struct opgap_sum_loader *loader = &l->s->loader;
  struct workers w = sum_workers(l->s);
  uint64_t bound = fetch_ns + l->around.refill_ns[OPGAP_CAUSE_DATA_LOADING] + l->s->breakdown.queue_ns;
  unsigned n = loader->workers;
  uint64_t making = l->s->has_gpu ? 0 : chosen_waits(l, OPGAP_CAUSE_STARTUP, awaits_worker);
  double part = percent(l, fetch_ns), startup = share(loader->startup_wait_ns + making, loader->await_ns + making);
  uint64_t compute = computing_of(&w);
  bool waits_for_cpu = wait_for_cpus(&w), own = cpus_oversubscribed(&l->use);
  l->a->loader_starved = waits_for_cpu && !own ? share(w.queue, w.busy) : 0;
  /* more workers do not get the CPUs that others have: how many there must be is told by what a batch takes with one */
  double batch = share(w.busy, w.batches),
         with_cpu = l->a->loader_starved > 0 ? batch * (1 - l->a->loader_starved) : batch;
  double step = share(less(l->total, fetch_ns), l->s->breakdown.steps);
  unsigned needed = step > 0 ? (unsigned)(with_cpu / step) + 1 : 0;
  const char *ready = called_from(l, loader);
  if (loader->depth >= 0)
    ready = opgap_pool_printf(l->a->pool, "; %llu of %llu batches were not ready, ~%.1f were ready on average%s",
                              (unsigned long long)loader->waited, (unsigned long long)loader->fetches, loader->depth,
                              ready);
  if (l->a->loader_starved > 0)
    ready = opgap_pool_printf(
        l->a->pool, "; for %.1f %% of their busy time the workers wait for a CPU: other programs use the CPUs%s",
        100 * l->a->loader_starved, ready);
  if (l->a->workers_made > l->a->workers_kept && startup >= 0.5) {
    l->a->loader_making_ns = making;
    add(l, "worker_restart", fetch_ns + making, bound + l->s->breakdown.class_ns[OPGAP_CLASS_OTHER],
        "Keep the workers between epochs: persistent_workers=True.",
        "Waiting for the DataLoader%s takes %.1f %% of step time, and %.1f %% of that wait is for workers that are "
        "being "
        "started: %u processes for %u workers, %.3f s each until they ask for their first index",
        making > 0 ? ", and for its workers outside of it," : "", percent(l, fetch_ns + making), 100 * startup,
        l->a->workers_made, l->a->workers_kept, share(w.startup, w.started) / 1e9);
  } else if (n > 1 && w.slowest != NULL && w.other_batch > 0 && w.slowest_batch >= 2 * w.other_batch &&
             awaited_share(&w, w.slowest->worker) >= 0.5) {
    double slow = awaited_share(&w, w.slowest->worker);
    add(l, "slow_worker", fetch_ns, bound,
        opgap_pool_printf(l->a->pool,
                          "Give every worker the same work: spread what is slow over all of them (files, mounts, sizes "
                          "by shard)%s",
                          out_of_order(l)),
        "Waiting for the DataLoader takes %.1f %% of step time; %.1f %% of that wait is for %s, which needs %.1f ms a "
        "batch where the others need %.1f ms%s",
        part, 100 * slow, w.slowest->label, w.slowest_batch / 1e6, w.other_batch / 1e6, ready);
  } else if (w.lock > w.file && w.lock > w.sleep && w.lock > w.network && w.lock > compute) {
    struct lock_use file = locks_file(l->a, true);
    add(l, "dataset_lock", fetch_ns, bound,
        file.path ? share_no_file
                  : "Take the lock out of the dataset: give each worker its own file handle or connection.",
        "Waiting for the DataLoader takes %.1f %% of step time; its workers spend %.1f %% of their busy time waiting "
        "for "
        "locks and semaphores%s%s",
        part, 100 * share(w.lock, w.busy), lock_words(l, &file), ready);
  } else if (waits_for_cpu && own) {
    add(l, "oversubscription", fetch_ns, at_most(bound, less(l->total, needed_ns(l))),
        "Run fewer threads: torch.set_num_threads(1) or OMP_NUM_THREADS=1 in workers, or fewer workers.",
        "Waiting for the DataLoader takes %.1f %% of step time; its workers spend %.1f %% of their busy time waiting "
        "for "
        "a CPU%s",
        part, 100 * share(w.queue, w.busy), ready);
  } else if (needed > n && needed <= most_workers(l, &w, n)) {
    add(l, "too_few_workers", fetch_ns, bound,
        opgap_pool_printf(l->a->pool, "Use %u workers: num_workers=%u%s.", needed, needed,
                          l->free == 0 ? "; they mostly wait, which takes no CPU" : ""),
        "Waiting for the DataLoader takes %.1f %% of step time: a batch takes a worker %.1f ms, a step without the "
        "wait "
        "%.1f ms, so %u worker%s cannot keep up and %u can%s",
        part, with_cpu / 1e6, step / 1e6, n, n == 1 ? "" : "s", needed, ready);
  } else if (w.network > w.file && w.network > w.sleep && w.network > compute) {
    add(l, "slow_network", fetch_ns, bound,
        "Keep the data on a local disk, or ask for more at a time: larger objects, several requests at once.",
        "Waiting for the DataLoader takes %.1f %% of step time; its %u worker%s for the network for %.1f %% of "
        "the busy time%s",
        part, n, n == 1 ? " waits" : "s wait", 100 * share(w.network, w.busy), ready);
  } else if (w.file > 0 && w.file >= w.sleep && w.file >= compute) {
    struct file_times times = files_times(l->a, FILES_WORKERS);
    bool lookups = files_mostly_looked_up(&times);
    add(l, "slow_read", fetch_ns, bound,
        lookups ? opgap_open_less : "Read fewer, larger files (shards), or keep them on a faster disk or in memory.",
        "Waiting for the DataLoader takes %.1f %% of step time; its %u worker%s %.1f %% of the busy time in calls "
        "on files%s%s%s",
        part, n, n == 1 ? " spends" : "s spend", 100 * share(w.file, w.busy),
        lookups ? ", mostly opening, closing and looking them up" : "", file_words(l, FILES_OF_WORKERS, w.file), ready);
  } else if (w.sleep > compute) {
    add(l, "worker_sleep", fetch_ns, bound, SLEEP_OUT,
        "Waiting for the DataLoader takes %.1f %% of step time; its workers sleep for %.1f %% of their busy time%s",
        part, 100 * share(w.sleep, w.busy), ready);
  } else {
    add(l, "slow_decode", fetch_ns, bound, cheaper_batches(l->s),
        "Waiting for the DataLoader takes %.1f %% of step time; its %u worker%s (decode, augment, collate%s) "
        "for %.1f %% of the busy time, %.1f ms a batch%s",
        part, n, n == 1 ? " computes" : "s compute", 2 * w.child > compute ? "; mostly in child processes" : "",
        100 * share(compute, w.busy), share(compute, w.batches) / 1e6, ready);
  }
}

/* Did a worker send batches that were recorded? */
static bool worker_seen(const struct analysis *a)
{
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].role == OPGAP_ROLE_WORKER && a->processes[i].result_pipe != 0)
      return true;
  return false;
}

/* The setting that left the workers out, where there is one. */
static const char *record_workers(const struct list *l)
{
  static const struct {
    const char *key, *value, *remedy; /* value: NULL: any */
  } reasons[] = {
      {"OPGAP_CHILDREN", "none",
       "Record the workers as well to see what they do: OPGAP_CHILDREN=none (--children none) leaves them out."},
      {"OPGAP_CHILDREN", "fork",
       "Record the workers as well to see what they do: OPGAP_CHILDREN=fork (--children fork) leaves those out that "
       "are "
       "programs of their own (spawn, forkserver)."},
      {"OPGAP_SCHEDULE", NULL,
       "Record the workers as well to see what they do: a --schedule leaves out what they do outside of its windows, "
       "make these longer (active=N)."},
      {"OPGAP_DELAY", NULL,
       "Record the workers as well to see what they do: OPGAP_DELAY (--delay) leaves out what a process does before."},
      {"OPGAP_DURATION", NULL,
       "Record the workers as well to see what they do: OPGAP_DURATION (--duration) leaves out what a process does "
       "later."},
      {"OPGAP_CONTROL", NULL,
       "Record the workers as well to see what they do: recording was off (OPGAP_CONTROL), begin it before they send a "
       "batch."},
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    const char *value = setting(l->s, reasons[i].key);
    if (value[0] && (reasons[i].value == NULL || strcmp(value, reasons[i].value) == 0))
      return reasons[i].remedy;
  }
  return "Record the workers as well to see what they do: the head of the report names processes that were not traced.";
}

static void add_unseen_workers(struct list *l, uint64_t fetch_ns)
{
  add(l, "unseen_workers", fetch_ns,
      fetch_ns + l->around.refill_ns[OPGAP_CAUSE_DATA_LOADING] + l->s->breakdown.queue_ns, record_workers(l),
      "Waiting for the DataLoader takes %.1f %% of step time; no batch of its workers was recorded",
      percent(l, fetch_ns));
}

static bool sleeps(const struct analysis *a, const struct cause_key *key)
{
  (void)a;
  return key->doing == DOING_SLEEP && !cause_of_others(key);
}

static const char let_workers[] = "Let worker processes make the batches: num_workers=2 or more.";

/* Workers for a training process that makes its batches itself: two, or as many as the CPUs that are free and the one
 * that it uses for its batches now are enough for. */
static const char *own_batches_remedy(const struct list *l, uint64_t fetch_ns, bool mostly_waits)
{
  if (l->free == 0)
    return mostly_waits
               ? "Let worker processes make the batches (num_workers): these mostly wait, which takes no CPU."
               : opgap_pool_printf(l->a->pool, "No CPU is free for worker processes, so make a batch cheaper: %s",
                                   cheaper_batches(l->s));
  unsigned n = l->free == CPUS_UNKNOWN ? 2 : (unsigned)(l->free + share(fetch_ns, l->total) + 0.5);
  return n >= 2 ? let_workers : "Let a worker process make the batches: num_workers=1.";
}

/* The training process makes its batches itself. */
static void add_no_workers(struct list *l, uint64_t fetch_ns)
{
  const struct process *p = &l->a->processes[steps_process(l->a)];
  uint64_t bound = fetch_ns + l->around.refill_ns[OPGAP_CAUSE_DATA_LOADING],
           making = l->s->has_gpu ? p->step_next_ns : fetch_ns, /* with a GPU fetch_ns is what of it that idles */
      asleep = at_most(chosen_waits(l, OPGAP_CAUSE_DATA_LOADING, sleeps), making);
  l->a->loader_sleeps = share(asleep, making) >= 0.5;
  struct file_use file = files_most(l->a, FILES_OF_FETCHES);
  bool mostly_waits = share(asleep + at_most(file.ns, making), making) >= 0.5;
  l->a->own_batches_remedy = own_batches_remedy(l, fetch_ns, mostly_waits);
  const char *of_it = l->a->loader_sleeps ? opgap_pool_printf(l->a->pool, "; for %.1f %% of that its dataset sleeps",
                                                              100 * share(asleep, making))
                                          : file_words(l, FILES_OF_FETCHES, p->step_next_ns);
  add(l, "no_workers", fetch_ns, bound,
      l->a->loader_sleeps ? opgap_pool_printf(l->a->pool, SLEEP_OUT " Then: %s", l->a->own_batches_remedy)
                          : l->a->own_batches_remedy,
      "The training process makes its batches itself (num_workers=0) for %.1f %% of step time; nothing else happens "
      "meanwhile%s",
      percent(l, fetch_ns), of_it);
}

/* By workers, or by the training process itself. */
static void add_loading(struct list *l, uint64_t fetch_ns)
{
  bool seen = worker_seen(l->a);
  if (seen || l->s->loader.fetches > 0) { /* of a DataLoader with workers */
    size_t before = l->rows.count;
    if (seen)
      add_workers(l, fetch_ns);
    else
      add_unseen_workers(l, fetch_ns);
    if (l->rows.count > before) {
      struct opgap_sum_bottleneck *row = &l->rows.at[before];
      l->a->loader_kind = row->kind;
      l->a->loader_remedy = row->remedy;
      if (l->a->loader_starved > 0) {
        l->a->loader_cpus = FREE_CPUS " Until then, more workers only wait for a CPU, too.";
        row->remedy = opgap_pool_printf(l->a->pool, "%s Then: %s", l->a->loader_cpus, row->remedy);
      }
    }
    return;
  }
  add_no_workers(l, fetch_ns);
}

/* ---- waits of the main thread ---- */

static const struct wait_kind {
  uint8_t cause;
  const char *kind, *what, *remedy;
} waits[] = {
    {OPGAP_CAUSE_SLEEP, "sleep", "sleeps",
     "Take the sleep out of the step, or wait for the event itself instead of polling with sleep."},
    {OPGAP_CAUSE_LOCK, "lock", "waits for a lock",
     "Hold the lock for less time, or prepare what it protects outside of the step: see the table of locks."},
    {OPGAP_CAUSE_GIL, "gil", "waits for Python's global lock (GIL)",
     "Move the Python work of other threads into processes: they hold the GIL that the step waits for."},
    {OPGAP_CAUSE_ALLOCATION, "allocation", "allocates and frees memory",
     "Reuse buffers instead of allocating them in each step."},
    {OPGAP_CAUSE_CHILD, "child_process", "waits for a child process",
     "Start child processes ahead or outside of the step, and collect their results later."},
    {OPGAP_CAUSE_SYNCHRONISATION, "synchronisation", "waits for a condition, semaphore, barrier or pipe",
     "See the longest idle gaps: they name the call that waited and what it waited for."},
    {OPGAP_CAUSE_PYTHON, "other_thread", "waits for the code of another thread",
     "Give that thread less to do in the step, or its result earlier."},
    {OPGAP_CAUSE_DISPATCH, "other_thread_ops", "waits for framework ops of another thread",
     "Give that thread less to do in the step, or its result earlier."},
    {OPGAP_CAUSE_STARTUP, "start_up", "waits for a process or thread to start",
     "Start processes and threads once, ahead of the steps."},
    {OPGAP_CAUSE_UNKNOWN, "unknown_wait", "waits for something unknown",
     "See the longest idle gaps: they name the call that waited."},
};

const char opgap_write_less[] =
    "Write less often (checkpoints, logs that are synced), or from another thread or process.";
const char opgap_open_less[] = "Open fewer files: pack small ones (WebDataset, LMDB, HDF5 or an archive), keep them "
                               "open, or copy them to a local disk.";
const char opgap_look_up_less[] =
    "Ask the file system less often: keep what was found out, list a folder once instead of "
    "looking up each of its files, spread files over folders, or use a local disk.";
/* A lock of CPython's is a semaphore or a condition: who lets it go is seen, not that it was held. */
static const char shorten_others_sleep[] =
    "Take the sleep out of what that thread does before it lets go of what is waited for: of a lock (CPython's locks "
    "are semaphores or conditions) shorten the locked part, of a queue or event give the result earlier.";

const char *bottlenecks_wait_remedy(struct analysis *a, enum opgap_cause cause)
{
  if (cause == OPGAP_CAUSE_SLEEP && a->others_sleep >= 0.5)
    return shorten_others_sleep;
  if (cause == OPGAP_CAUSE_LOCK && locks_file(a, false).path != NULL)
    return share_no_file;
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
    if (waits[i].cause == cause)
      return waits[i].remedy;
  return cause == OPGAP_CAUSE_FILE_IO ? opgap_write_less : NULL;
}

/* Of the main thread's waits of a cause, which part is what another thread did that it waited for. */
static double others_share(const struct list *l, enum opgap_cause cause)
{
  return share(l->around.others_ns[cause], l->s->breakdown.wait_ns[cause]);
}

/* Who is in calls of this cause. */
static const char *subject(const struct list *l, enum opgap_cause cause)
{
  double others = others_share(l, cause);
  return others < 0.05   ? "The main thread"
         : others < 0.95 ? "The main thread, or a thread that it waits for,"
                         : "A thread that the main thread waits for";
}

/* Opening, closing and looking up: of files that are read, or of such as are only made, counted, or tested for. */
static void add_lookups(struct list *l, uint64_t ns, uint64_t bound, const char *who, bool others, uint64_t in_lookups)
{
  struct file_lookups lookups = files_lookups(l->a, others ? FILES_ALL : FILES_STEPS);
  const char *of_it = others ? "" : file_words(l, FILES_LOOKED_UP, in_lookups);
  bool only = files_only_metadata(&lookups);
  add(l, only ? "file_metadata" : "file_read", ns, bound, only ? opgap_look_up_less : opgap_open_less,
      "%s is in calls on files for %.1f %% of step time, mostly opening, closing and looking up files%s%s (in the "
      "whole "
      "run %s)",
      who, percent(l, ns), only ? " that nobody reads" : "", of_it, lookups.words);
}

/* The files of the steps are the main thread's; those of other threads are told by what was waited for. */
static void add_files(struct list *l, uint64_t ns, uint64_t bound)
{
  const char *who = subject(l, OPGAP_CAUSE_FILE_IO);
  bool others = others_share(l, OPGAP_CAUSE_FILE_IO) >= 0.5;
  struct file_times times = others ? gaps_files(l->a, steps_process(l->a), true) : files_times(l->a, FILES_STEPS);
  if (files_mostly_written(&times))
    add(l, "file_write", ns, bound, opgap_write_less, "%s is in calls on files for %.1f %% of step time, mostly %s%s",
        who, percent(l, ns),
        times.write_lookups > times.written ? "opening and closing those that are written"
        : 2 * times.changed > times.written ? "making, renaming and removing them"
                                            : "writing and syncing",
        others || times.write_lookups > times.written ? "" : file_words(l, FILES_WRITTEN, times.written));
  else if (files_mostly_looked_up(&times))
    add_lookups(l, ns, bound, who, others, times.read_lookups);
  else
    add(l, "file_read", ns, bound, "Read ahead of the step: a DataLoader with workers, or another thread.",
        "%s is in calls on files for %.1f %% of step time, mostly reading%s", who, percent(l, ns),
        others ? "" : file_words(l, FILES_READ, times.read));
}

/* Another thread of this run held what was waited for, and used a CPU meanwhile. */
static bool uses_cpu(enum opgap_cause cause)
{
  return cause == OPGAP_CAUSE_LOCK || cause == OPGAP_CAUSE_GIL || cause == OPGAP_CAUSE_PYTHON ||
         cause == OPGAP_CAUSE_DISPATCH;
}

/* Calls that code prepares and follows which has no other purpose: data is made to be written, and decoded when it was
 * read or received; processes are made to be waited for. */
static bool has_code_around(enum opgap_cause cause)
{
  return cause == OPGAP_CAUSE_FILE_IO || cause == OPGAP_CAUSE_COMMUNICATION || cause == OPGAP_CAUSE_CHILD ||
         cause == OPGAP_CAUSE_STARTUP;
}

/* What the main thread spends for a cause that it waits for, at most. */
static uint64_t wait_bound(const struct list *l, enum opgap_cause cause)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  /* the tail of a wait is from the wake-up to running again */
  uint64_t ns = b->wait_ns[cause] + l->around.tail_ns[cause] + l->around.refill_ns[cause];
  if (uses_cpu(cause))
    ns += others_ns(l);
  if (has_code_around(cause))
    ns += l->around.code_ns[cause];
  if (cause == OPGAP_CAUSE_CHILD)
    ns += kernel_ns(l); /* after a fork each page that is written to is copied, whoever writes */
  return ns;
}

static void add_waits(struct list *l, const uint64_t ns[OPGAP_CAUSE_COUNT], const uint64_t bound[OPGAP_CAUSE_COUNT])
{
  uint64_t sleep = (uint64_t)((double)ns[OPGAP_CAUSE_SLEEP] * others_share(l, OPGAP_CAUSE_SLEEP));
  struct lock_use file = locks_file(l->a, false);
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    const struct wait_kind *w = &waits[i];
    uint64_t told = w->cause == OPGAP_CAUSE_STARTUP ? l->a->loader_making_ns
                    : w->cause == OPGAP_CAUSE_SLEEP ? sleep
                                                    : 0;
    /* what of the bound the rest of the waits can win */
    uint64_t most = w->cause == OPGAP_CAUSE_SLEEP ? less(bound[w->cause], sleep) : bound[w->cause];
    bool on_file = w->cause == OPGAP_CAUSE_LOCK && file.path != NULL;
    add(l, w->kind, less(ns[w->cause], told), most, on_file ? share_no_file : w->remedy,
        "%s %s for %.1f %% of step time%s",
        w->cause == OPGAP_CAUSE_ALLOCATION ? subject(l, OPGAP_CAUSE_ALLOCATION) : "The main thread", w->what,
        percent(l, less(ns[w->cause], told)), on_file ? lock_words(l, &file) : "");
  }
  add(l, "other_thread_sleep", sleep, less(bound[OPGAP_CAUSE_SLEEP], less(ns[OPGAP_CAUSE_SLEEP], sleep)),
      shorten_others_sleep,
      "The main thread waits for a lock, or for something else, of a thread that sleeps meanwhile, for %.1f %% of step "
      "time",
      percent(l, sleep));
  add_files(l, ns[OPGAP_CAUSE_FILE_IO], bound[OPGAP_CAUSE_FILE_IO]);
}

static void add_communication(struct list *l, uint64_t ns, uint64_t bound)
{
  add(l, "communication", ns, bound,
      ranks_any(l->a)
          ? "Overlap gradients with the backward pass (DDP buckets), send less often (no_sync()) or less "
            "(compression); "
            "if one rank makes the others wait, look at that one first."
          : "Receive ahead of the step, in another thread or process; the longest idle gaps name what was waited for.",
      "The main thread waits for the network or for other ranks for %.1f %% of step time", percent(l, ns));
}

/* ---- without a GPU: the work itself ---- */

/* The file that pages of mapped files come from, if most of all that the process mapped is of one. */
static const char *mapped_words(const struct list *l)
{
  const struct process *p = &l->a->processes[steps_process(l->a)];
  return p->mapped == 0 || p->mapped_bytes * 2 <= p->mapped_all_bytes
             ? ""
             : opgap_pool_printf(l->a->pool, ", of which most is %s (%llu bytes)", analysis_text(l->a, p->mapped),
                                 (unsigned long long)p->mapped_bytes);
}

/* Below it a figure would be printed as 0.0: of steps in which the scheduler was hardly sampled. */
#define LEAST_WANTED 0.05

/* Without a CPU, its own or that of a thread that it waits for: because its cgroup's time is used up, the run has too
 * many threads, or others use them. */
static void add_no_cpu(struct list *l, uint64_t queue, uint64_t throttled, uint64_t bound)
{
  double cpus = cpus_wanted(&l->use);
  unsigned have = l->use.have;
  uint64_t needed = needed_ns(l);
  const char *least =
      percent(l, needed) < 1
          ? ""
          : opgap_pool_printf(l->a->pool, "; what the steps compute takes %u CPUs ~%.1f %% of step time at least",
                              l->use.cpus, percent(l, needed));
  add(l, "cgroup_limit", throttled, bound, "Raise the CPU limit of the container (cpu.max), or run fewer threads.",
      "The CPU limit of its cgroup stops the main thread, or threads that it waits for, for ~%.1f %% of step time",
      percent(l, throttled));
  bound = at_most(bound, less(l->total, needed));
  if (cpus_oversubscribed(&l->use))
    add(l, "oversubscription", queue, bound,
        verdict_mean_op(l->s) > 0
            ? "Run fewer threads: torch.set_num_threads or OMP_NUM_THREADS, in workers 1; or fewer workers."
            : "Run fewer threads (of OpenMP: OMP_NUM_THREADS).",
        "The main thread, or a thread that it waits for, has no free CPU for ~%.1f %% of step time: all threads "
        "together "
        "want ~%.1f CPUs, there are %u%s",
        percent(l, queue), cpus, have, least);
  else
    add(l, "run_queue", queue, bound, FREE_CPUS,
        "The main thread, or a thread that it waits for, has no free CPU for ~%.1f %% of step time%s%s",
        percent(l, queue),
        cpus < LEAST_WANTED
            ? "; how many this run wants is not known, its steps hold too few of the scheduler's samples"
        : cpus > have
            ? opgap_pool_printf(l->a->pool,
                                ", though this run would hardly use more than the %u CPUs if they were free: other "
                                "programs use them",
                                have)
            : opgap_pool_printf(l->a->pool,
                                ", though this run would use only ~%.1f of %u CPUs if they were free: "
                                "other programs use them",
                                cpus, have),
        least);
}

/* What the main thread's waits for a CPU were that the scheduler counted, and that lie in none of its other time
 * without one: `told`. */
static uint64_t queue_left(const struct list *l, unsigned main_thread, uint64_t told)
{
  const struct past_sample *from, *to;
  uint64_t start, end;
  if (main_thread == UINT32_MAX || !steps_counted(l->a, &start, &end) ||
      !timeline_samples_around(&l->a->threads[main_thread], start, end, &from, &to))
    return 0;
  return less(to->queue - from->queue, told);
}

/* Time without a CPU, and off the CPU in no hooked call; returns what of it is the main thread's own outside of hooked
 * calls.  Removing it may free what ran in its place as well, so all that the main thread does bounds it: its work in
 * __next__, collectives and CUDA calls, too, and what workers are waited for there, which have no CPU either; and its
 * waits in hooked calls for threads that had none. */
static uint64_t add_off_cpu(struct list *l, uint64_t bound)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  uint64_t awaited = chosen_waits(l, OPGAP_CAUSE_RUN_QUEUE, awaits_queued),
           awaited_throttled = b->wait_ns[OPGAP_CAUSE_THROTTLED], start, end;
  unsigned main_thread = l->a->processes[steps_process(l->a)].main_thread;
  struct team_wait team = {0};
  if (main_thread != UINT32_MAX && steps_counted(l->a, &start, &end))
    team = threads_team_wait(l->a, &l->a->threads[main_thread], start, end, less(b->outside_ns, b->fault_ns));
  uint64_t locking = chosen_waits(l, OPGAP_CAUSE_RUN_QUEUE, takes_lock),
           queued = at_most(chosen_waits(l, OPGAP_CAUSE_RUN_QUEUE, takes_lock_itself),
                            queue_left(l, main_thread, b->queue_ns + b->throttled_ns + awaited));
  awaited += queued;
  l->a->summary->breakdown.no_cpu_ns = b->queue_ns + team.queue + awaited;
  add_no_cpu(l, b->no_cpu_ns, b->throttled_ns + awaited_throttled, bound + awaited + awaited_throttled);
  add(l, "team_imbalance", team.run, bound,
      "Give the threads of a team equal parts (OpenMP: schedule(dynamic)), or use fewer.",
      "The main thread waits for ~%.1f %% of step time for other threads of its team that still compute (raw futexes, "
      "as "
      "OpenMP's barriers): the load is not balanced",
      percent(l, team.run));
  add(l, "wake_up", less(locking, queued), less(locking, queued) + others_ns(l),
      "Signal a condition behind its locked part, not inside it, and hold the lock for less time.",
      "The main thread, or a thread that it waits for, is woken and does not run yet for %.1f %% of step time: the "
      "lock "
      "that it takes then is still held, or it has no CPU",
      percent(l, less(locking, queued)));
  uint64_t rest = less(b->outside_ns, b->fault_ns + team.queue + team.run) + b->wait_ns[OPGAP_CAUSE_OUTSIDE_HOOKS];
  add(l, "blocked_outside", rest, bound + b->wait_ns[OPGAP_CAUSE_OUTSIDE_HOOKS],
      "See with perf sched or strace -f what its threads wait for: raw futexes, system calls that are not hooked.",
      "The main thread, or a thread that it waits for, is off the CPU in no hooked call for ~%.1f %% of step time",
      percent(l, rest));
  return b->queue_ns + b->throttled_ns + b->outside_ns;
}

/* The kernel's share of the CPU time of the process with the steps, since its first one where that is known, and its
 * page faults a second; 0: not sampled. */
struct faults {
  double kernel, rate, major_rate;
};

static struct faults faults_of(const struct analysis *a)
{
  const struct process *p = &a->processes[steps_process(a)];
  const struct usage *last = &p->last_usage, *first = p->steps_usage.at != 0 && p->steps_usage.at < last->at
                                                          ? &p->steps_usage
                                                          : &p->first_usage;
  uint64_t system = last->system_ns - first->system_ns, user = last->user_ns - first->user_ns;
  return (struct faults){share(system, system + user), 1e9 * share(last->faults - first->faults, last->at - first->at),
                         1e9 * share(last->majors - first->majors, last->at - first->at)};
}

/* The op with half of the page faults of the process with the steps or more, in words; "" where none has. */
static const char *faulting_op(const struct list *l)
{
  const struct analysis *a = l->a;
  unsigned process = steps_process(a);
  const struct op_row *most = NULL;
  uint64_t all = a->processes[process].faults.other.minor;
  for (size_t i = 0; i < a->ops.count; i++) {
    const struct op_row *row = &a->ops.at[i];
    if (row->process != process)
      continue;
    all += row->minor_faults;
    if (most == NULL || row->minor_faults > most->minor_faults)
      most = row;
  }
  double part = most != NULL ? share(most->minor_faults, all) : 0;
  return part < 0.5
             ? ""
             : opgap_pool_printf(a->pool, "; ~%.0f %% of the faults in %s", 100 * part, analysis_text(a, most->name));
}

/* Page faults: of the main thread's `on_cpu` ns what is the kernel's, where faults are many enough to take it, and its
 * waits for the disk.  Returns the kernel's share.  A fault costs about 0.5 us, one that reads from a disk 25 us (it
 * queues the read and sleeps): fewer of them take less than 1 % of a CPU, whatever else the kernel does. */
static double add_faults(struct list *l, double on_cpu, uint64_t work)
{
  struct faults faults = faults_of(l->a);
  uint64_t disk = l->s->breakdown.fault_ns;
  bool many = faults.rate >= 20000 || faults.major_rate >= 400, mapped = faults.major_rate * 50 >= faults.rate;
  double kernel = many && faults.kernel >= 0.2 ? faults.kernel : 0;
  uint64_t faulting = (uint64_t)(on_cpu * kernel);
  const char *rate = faults.major_rate < 0.05 ? "" /* they came before the samples, or hardly any did */
                                              : opgap_pool_printf(l->a->pool, ", at ~%.*f a second",
                                                                  faults.major_rate < 10, faults.major_rate);
  add(l, "mapped_file", disk + (mapped ? faulting : 0), work,
      "Read ahead of the step what is mapped (MADV_WILLNEED, a thread or a DataLoader worker that touches it), or keep "
      "it "
      "in memory.",
      "The main thread is in page faults that read from a disk for ~%.1f %% of step time%s: mapped files%s",
      percent(l, disk + (mapped ? faulting : 0)), rate, mapped_words(l));
  if (!mapped && kernel > 0)
    add(l, "page_faults", faulting, work,
        "Reuse buffers instead of allocating and touching new ones in each step; huge pages (GLIBC_TUNABLES="
        "glibc.malloc.hugetlb=1), or another malloc that keeps freed memory (jemalloc, tcmalloc).",
        "~%.1f %% of the CPU time of this process is the kernel's, at ~%.0f page faults a second: fresh memory is "
        "touched all the time%s",
        100 * kernel, faults.rate, faulting_op(l));
  return kernel;
}

const char *bottlenecks_unless_compiled(const struct opgap_summary *s, const char *remedy, const char *compiled)
{
  for (size_t i = 0; i < s->op_count; i++)
    if (strncmp(s->ops[i].name, "CompiledFunction", strlen("CompiledFunction")) == 0 ||
        strncmp(s->ops[i].name, "Torch-Compiled Region", strlen("Torch-Compiled Region")) == 0)
      return compiled;
  return remedy;
}

#define PYTHON_OUT "Move Python work, logging and .item() calls out of the step"

const char *bottlenecks_python_remedy(const struct analysis *a)
{
  const char *stacks = setting(a->summary, "OPGAP_STACKS");
  return strcmp(stacks, "python") == 0 || strcmp(stacks, "both") == 0
             ? PYTHON_OUT ": it lies between the lines that the table of hot ops has."
             : PYTHON_OUT ": with OPGAP_STACKS=python the table of hot ops has the lines that it lies between.";
}

/* Of the time of work, which part of step time it is on a CPU for, where that is less. */
static const char *on_cpu_words(const struct list *l, uint64_t ns, double on_cpu)
{
  double part = percent(l, ns);
  if (part - part * on_cpu < 0.05)
    return "";
  return opgap_pool_printf(l->a->pool, " (on a CPU for ~%.1f %% of step time)", part * on_cpu);
}

static void add_cpu_work(struct list *l)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  uint64_t waited = 0;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    waited += b->other_wait_ns[c];
  uint64_t in_ops = b->class_ns[OPGAP_CLASS_CPU_EXEC], code = less(b->class_ns[OPGAP_CLASS_OTHER], waited);
  uint64_t work = in_ops + code, off = add_off_cpu(l, less(l->total, waited)), mean = verdict_mean_op(l->s);
  double on_cpu = l->a->on_cpu = 1 - share(at_most(off, l->work), l->work),
         kernel = add_faults(l, (double)work * on_cpu, work);
  const char *ops_on_cpu = on_cpu_words(l, in_ops, on_cpu * (1 - kernel)),
             *code_on_cpu = on_cpu_words(l, code, on_cpu * (1 - kernel));
  double ops_part = percent(l, in_ops), code_part = percent(l, code);
  in_ops = (uint64_t)((double)in_ops * on_cpu * (1 - kernel));
  /* with its waits for a CPU; the caches that it used are refilled behind each stretch of it, and a thread that runs
   * less waits for less in ops, too: both take no longer than it did */
  uint64_t code_bound = at_most(code + at_most(code, l->around.own_refill_ns + b->queue_ns), work);
  code = (uint64_t)((double)code * on_cpu * (1 - kernel));
  if (mean > 0 && mean < 20000)
    add(l, "dispatch", in_ops, work,
        bottlenecks_unless_compiled(
            l->s,
            "Fewer, larger ops: a larger batch, torch.compile(model), fused optimizers (fused=True or foreach=True).",
            "Fewer, larger ops: a larger batch, fused optimizers (fused=True or foreach=True)."),
        "Framework ops take %.1f %% of step time%s and only %.1f us each: most of it is dispatch", ops_part, ops_on_cpu,
        (double)mean / 1e3);
  else
    add(l, "compute", in_ops, OPGAP_UNKNOWN,
        opgap_pool_printf(l->a->pool, "The ops are the work itself: lower precision, %s%sa faster device.",
                          bottlenecks_unless_compiled(l->s, "torch.compile(model), ", ""),
                          l->free == 0 ? "" : "all CPU cores, "),
        "Framework ops take %.1f %% of step time, %.1f us each%s", ops_part, (double)mean / 1e3, ops_on_cpu);
  add(l, mean > 0 ? "python" : "own_code", code, mean > 0 ? code_bound : OPGAP_UNKNOWN,
      mean > 0 ? (code_part > ops_part ? bottlenecks_python_remedy(l->a) : PYTHON_OUT ".")
               : "Look at the code of the step with a sampling profiler (perf).",
      "The program's own code takes %.1f %% of step time%s%s", code_part, mean > 0 ? ", between framework ops" : "",
      code_on_cpu);
}

/* ---- with a GPU ---- */

static uint64_t gap_cause(const struct opgap_summary *s, enum opgap_cause cause)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < s->gaps.gpu_cause_count; i++)
    if (s->gaps.gpu_by_cause[i].cause == cause)
      sum += s->gaps.gpu_by_cause[i].ns;
  return sum;
}

/* The step's part of the copies to or from pageable memory. */
static double pageable(const struct opgap_summary *s)
{
  uint64_t all = 0, slow = 0;
  for (size_t i = 0; i < s->gpu_tables.copy_count; i++) {
    const struct opgap_sum_copy *copy = &s->gpu_tables.copies[i];
    all += copy->total_ns;
    if (strcmp(copy->source, "pageable") == 0 || strcmp(copy->target, "pageable") == 0)
      slow += copy->total_ns;
  }
  return share(slow, all);
}

static uint64_t sync_ns(const struct opgap_summary *s)
{
  uint64_t ns = 0;
  for (size_t i = 0; i < s->gpu_tables.finding_count; i++)
    if (s->gpu_tables.findings[i].finding == OPGAP_FINDING_API_SYNC)
      ns += s->gpu_tables.findings[i].ns;
  return ns;
}

/* in_copies: of the host's time beside an idle GPU, what it was in calls that copy. */
static void add_gpu_idle(struct list *l, uint64_t idle, uint64_t in_copies)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  const struct opgap_sum_launches *launches = &l->s->gpu_tables.launches;
  uint64_t ns[OPGAP_CAUSE_COUNT], bound[OPGAP_CAUSE_COUNT], all = l->s->gaps.gpu_ns;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    ns[c] = (uint64_t)((double)idle * share(gap_cause(l->s, (enum opgap_cause)c), all));
    bound[c] = wait_bound(l, (enum opgap_cause)c);
    bound[c] = bound[c] > ns[c] ? bound[c] : ns[c];
    bound[c] = at_most(idle, bound[c] + b->queue_ns); /* the host gets back to work late after a wait */
  }
  uint64_t loading = ns[OPGAP_CAUSE_DATA_LOADING];
  uint64_t host =
      ns[OPGAP_CAUSE_DISPATCH] + ns[OPGAP_CAUSE_PYTHON] + ns[OPGAP_CAUSE_DEVICE] + ns[OPGAP_CAUSE_ALLOCATION];
  host = less(host, in_copies);
  uint64_t sync = at_most((uint64_t)((double)l->total * share(sync_ns(l->s), l->s->gpus[0].span_ns)), l->total);
  bool waits_for_gpu = share(sync, l->total) >= 0.2;
  if (waits_for_gpu) { /* the rest of a synchronising call after the work it waited for: the host wakes up */
    host += ns[OPGAP_CAUSE_SYNCHRONISATION];
    ns[OPGAP_CAUSE_SYNCHRONISATION] = 0;
  }
  ns[OPGAP_CAUSE_DISPATCH] = ns[OPGAP_CAUSE_PYTHON] = ns[OPGAP_CAUSE_ALLOCATION] = 0;
  if (loading > 0)
    add_loading(l, loading);
  add_waits(l, ns, bound);
  add_communication(l, ns[OPGAP_CAUSE_COMMUNICATION], bound[OPGAP_CAUSE_COMMUNICATION]);
  add(l, "run_queue", ns[OPGAP_CAUSE_RUN_QUEUE], idle,
      "Run fewer threads, or leave CPUs free for the training process.",
      "The GPU idles for %.1f %% of step time while the host waits for a free CPU",
      percent(l, ns[OPGAP_CAUSE_RUN_QUEUE]));
  if (waits_for_gpu)
    add(l, "gpu_sync", host, idle,
        "Do not wait for the GPU in the step: drop .item(), .cpu() and synchronize(), or do them every N steps.",
        "The GPU idles for %.1f %% of step time after the host waited for it (%.1f %% of step time in synchronising "
        "calls): nothing is queued when it has finished",
        percent(l, host), percent(l, sync));
  else
    add(l, "launch_bound", host, idle,
        "Replay the launches: CUDA graphs (torch.compile(mode=\"reduce-overhead\")); fewer, larger kernels.",
        "The GPU idles for %.1f %% of step time while the host dispatches: %llu launches of %.1f us each, %.1f %% of "
        "the "
        "kernels shorter than their launch",
        percent(l, host), (unsigned long long)launches->calls, share(launches->call_ns, launches->calls) / 1e3,
        100 * share(launches->short_kernels, launches->kernels));
}

static void add_gpu(struct list *l)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  uint64_t exposed = 0, span = 0, kernels = b->class_ns[OPGAP_CLASS_KERNEL], copies = b->class_ns[OPGAP_CLASS_MEMCPY];
  for (size_t i = 0; i < l->s->gpu_count; i++) {
    exposed += l->s->gpus[i].exposed_communication_ns;
    span += l->s->gpus[i].span_ns;
  }
  exposed = (uint64_t)((double)l->total * share(exposed, span));
  kernels = less(kernels, exposed); /* a collective is a kernel to the step's classes */
  uint64_t idle = less(l->total, kernels + exposed + copies + b->class_ns[OPGAP_CLASS_MEMSET]);
  add(l, "exposed_communication", exposed, exposed + b->wait_ns[OPGAP_CAUSE_COMMUNICATION],
      "Overlap gradients with the backward pass: larger DDP buckets (bucket_cap_mb), gradient_as_bucket_view.",
      "Collectives that no computation hides take %.1f %% of step time on the GPU", percent(l, exposed));
  bool slow = pageable(l->s) >= 0.5;
  /* Calls that copy while the GPU has nothing to do: the driver copies pageable memory to a buffer of its own first. */
  uint64_t in_copies = at_most(b->copy_calls_ns, idle);
  add(l, slow ? "pageable_copies" : "gpu_copies", copies + in_copies, copies + idle,
      slow ? "Copy from pinned memory: pin_memory=True and non_blocking=True."
           : "Copy less and ahead: keep data on the GPU between steps, overlap copies with kernels.",
      "Copies take %.1f %% of step time on the GPU%s, and %.1f %% more in CUDA calls that copy beside an idle GPU",
      percent(l, copies), slow ? ", most of it from or to pageable memory" : "", percent(l, in_copies));
  add(l, "kernels", kernels, OPGAP_UNKNOWN,
      bottlenecks_unless_compiled(
          l->s,
          "Use lower precision where it is safe: torch.autocast with bfloat16, TF32 for matrix products; "
          "torch.compile(model).",
          "Use lower precision where it is safe: torch.autocast with bfloat16, TF32 for matrix products."),
      "Kernels take %.1f %% of step time on the GPU", percent(l, kernels));
  if (l->s->gaps.gpu_ns > 0)
    add_gpu_idle(l, idle, in_copies);
}

/* ---- all ---- */

static void add_cpu(struct list *l)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  uint64_t bound[OPGAP_CAUSE_COUNT];
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    bound[c] = wait_bound(l, (enum opgap_cause)c);
  /* collectives that are ops, and waits inside ops, are in the class */
  uint64_t communication = b->class_ns[OPGAP_CLASS_COMMUNICATION],
           waited = at_most(b->wait_ns[OPGAP_CAUSE_COMMUNICATION], communication);
  if (b->class_ns[OPGAP_CLASS_DATALOADER] > 0)
    add_loading(l, b->class_ns[OPGAP_CLASS_DATALOADER]);
  add_waits(l, b->wait_ns, bound);
  add_communication(l, communication, bound[OPGAP_CAUSE_COMMUNICATION] + communication - waited);
  add_cpu_work(l);
}

#define STARVED 0.1 /* of step time without a CPU: then all of them are taken for as much of it */

/* Are threads of the run kept waiting for CPUs, so that more of them would be, too? */
static bool starved(const struct list *l)
{
  const struct opgap_sum_breakdown *b = &l->s->breakdown;
  struct workers w = sum_workers(l->s);
  uint64_t without = b->queue_ns + b->throttled_ns + b->wait_ns[OPGAP_CAUSE_THROTTLED] +
                     chosen_waits(l, OPGAP_CAUSE_RUN_QUEUE, awaits_queued);
  return share(without, l->total) >= STARVED || wait_for_cpus(&w);
}

static int largest_first(const void *left, const void *right)
{
  const struct opgap_sum_bottleneck *l = left, *r = right;
  return l->ns != r->ns ? (l->ns < r->ns ? 1 : -1) : strcmp(l->kind, r->kind);
}

void bottlenecks_finish(struct analysis *a)
{
  struct opgap_sum_verdict *v = &a->summary->verdict;
  struct list l = {.a = a, .s = a->summary};
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    l.total += l.s->breakdown.class_ns[c];
  v->step_ns = l.total;
  a->cpus_free = CPUS_UNKNOWN;
  a->own_batches_remedy = let_workers;
  if (l.total == 0)
    return;
  l.work = l.total;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    l.work = less(l.work, l.s->breakdown.wait_ns[c]);
  l.use = cpus_used(a);
  l.around = breakdown_around(a, steps_process(a), l.s->steps.skipped);
  l.free = a->cpus_free = cpus_free(&l.use, starved(&l));
  a->cpus_have = l.use.have;
  a->others_sleep = others_share(&l, OPGAP_CAUSE_SLEEP);
  if (l.s->has_gpu && l.s->gpu_count > 0)
    add_gpu(&l);
  else
    add_cpu(&l);
  v->bottleneck_count = l.rows.count;
  v->bottlenecks = opgap_pool_alloc(a->pool, l.rows.count * sizeof *l.rows.at);
  if (l.rows.count) {
    qsort(l.rows.at, l.rows.count, sizeof *l.rows.at, largest_first);
    memcpy(v->bottlenecks, l.rows.at, l.rows.count * sizeof *l.rows.at);
  }
  VEC_FREE(&l.rows);
}
