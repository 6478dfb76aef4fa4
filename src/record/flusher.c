/* Who drains, when, and into which file.  See session.h for the rules.
 *
 * Ordering
 *   F  flusher_sleeps: the flusher stores how it will sleep (seq_cst), then looks at what waits once more, then waits
 *      on the futex; a producer adds to filled (seq_cst), `opgap start` stores its switch, then looks at
 *      flusher_sleeps (seq_cst), exchanges it with 0 and wakes the flusher if it slept.  One of the two sees the
 *      other, as both ask for the same number of segments (enough).  A round begins by taking that number (acquire):
 *      so it drains all of them.
 *   G  drain_lock: acquire on entry, release on leaving; the consumer's fields of the arena lie under it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/recover.h"
#include "format/trace_format.h"
#include "record/cgroup.h"
#include "record/control.h"
#include "record/internal.h"
#include "record/keep.h"
#include "record/raw.h"
#include "record/reach.h"
#include "record/schedule.h"
#include "record/stacks.h"

/* Waiting before they are drained.  Each round costs a wake-up, and what it leaves of the program's caches where a CPU
 * is shared: with a round a segment an op of PyTorch cost its thread 70 ns more. */
#define DRAIN_SEGMENTS 8u
#define LAST_WORDS_BYTES 2048u /* kept free below every limit, so that the trace can say that it was cut */
#define PERIOD_NS 100000000u   /* of samples and polls, and the longest wait while there is work */
#define TICK_NS 10000000u      /* of /proc/PID/stat: USER_HZ is 100 on every architecture that we know */
#define IDLE_PERIODS 3u
#define SPARE_SEGMENTS 32u
#define SPARE_SLOTS 8u
#define FLUSHER_STACK (256u * 1024u)

/* Provided by other parts when they are built in. */
__attribute__((weak)) void opgap_frameworks_poll(void);
__attribute__((weak)) void opgap_gpu_poll(void);
__attribute__((weak)) void opgap_gpu_drain(void);

/* Numbers of the flusher's own descriptor table: meaningless, and dangerous, on any other thread. */
static int flusher_trace_fd = -1, flusher_ring_fd = -1;
static uint32_t modules_told; /* of opgap_module_count() */
static uint32_t flusher_part; /* that flusher_trace_fd belongs to */

int opgap_flusher_ring_fd(void)
{
  return opgap_cell == &opgap_flusher_cell ? flusher_ring_fd : -1;
}

static void open_own_trace(void)
{
  flusher_part = opgap_state->part;
  flusher_trace_fd =
      (int)opgap_raw_open(opgap_state->arena->trace_file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0);
}

static int own_trace_fd(void)
{
  if (opgap_cell != &opgap_flusher_cell)
    return -1;
  if (flusher_trace_fd >= 0 && flusher_part != opgap_state->part) {
    opgap_raw_close(flusher_trace_fd);
    open_own_trace();
  }
  return flusher_trace_fd;
}

/* ---- the trace file ---- */

/* why: in words. */
static void stop_writing(const char *why)
{
  opgap_active_halt();
  opgap_state->write_failed = true;
  struct opgap_arena *arena = opgap_state->arena;
  struct opgap_text text = {arena->stopped, arena->stopped + sizeof arena->stopped - 1};
  opgap_text_string(&text, why);
}

/* error: of a system call, 0 for a limit that was set. */
static void give_up(const char *why, long error)
{
  static bool said;
  stop_writing(why);
  if (error == 0)
    opgap_notice(&said, "cannot write to %s any more (%s): tracing stops, the program goes on", opgap_config.folder,
                 why);
  else
    opgap_notice(&said, "cannot write to %s any more (%s, error %d): tracing stops, the program goes on",
                 opgap_config.folder, why, (int)-error);
}

/* As large as it was to become. */
static void size_reached(void)
{
  static bool said;
  stop_writing(OPGAP_SIZE_REACHED);
  if (atomic_load(&opgap_state->phase) == OPGAP_PHASE_STARTING)
    opgap_notice(&said, "OPGAP_MAX_SIZE leaves no room for what a trace begins with: this process is not traced");
  opgap_notice(&said, "recording to %s ends here (" OPGAP_SIZE_REACHED "), the program goes on", opgap_config.folder);
}

static bool write_all(int fd, const char *bytes, size_t size, long *error)
{
  while (size > 0) {
    long n = opgap_raw_write(fd, bytes, size);
    if (n == -4 /* EINTR */)
      continue;
    if (n <= 0) {
      *error = n ? n : -28 /* ENOSPC */;
      return false;
    }
    bytes += n;
    size -= (size_t)n;
  }
  return true;
}

static int open_trace(void)
{
  int own = opgap_state->first_fd ? opgap_state->first_fd - 1 : own_trace_fd();
  return own >= 0
             ? own
             : (int)opgap_raw_open(opgap_state->arena->trace_file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0);
}

static void close_trace(int fd)
{
  if (fd != own_trace_fd() && fd != opgap_state->first_fd - 1)
    opgap_raw_close(fd);
}

static void cannot_open(long error)
{
  const char *folder = opgap_config.folder;
  if (opgap_reach_lost(error)) /* what is recorded stays in the ring, for a program outside */
    return;
  if (error != -ENOENT)
    give_up(opgap_error_words(error), error);
  else if (opgap_raw6(SYS_faccessat, AT_FDCWD, (long)folder, F_OK, 0, 0, 0) == 0)
    give_up("its file there was removed", 0);
  else if (opgap_config.made_folder && opgap_state->pid == opgap_config.loader_pid)
    give_up("it was removed", 0);
  else
    stop_writing("the trace was removed"); /* whoever made the folder tells */
}

bool opgap_trace_cut(uint64_t bytes)
{
  int fd = open_trace();
  if (fd < 0)
    return false;
  bool cut = opgap_raw3(SYS_ftruncate, fd, (long)bytes, 0) == 0;
  if (cut) {
    opgap_state->file_bytes = bytes;
    opgap_state->last_chunk_bytes = 0;
  }
  close_trace(fd);
  return cut;
}

static void chunk_written(struct opgap_state *state, const void *bytes, size_t size)
{
  struct opgap_chunk_header header = {0};
  if (size >= sizeof header)
    memcpy(&header, bytes, sizeof header);
  bool records = header.magic == OPGAP_CHUNK_MAGIC && header.type == OPGAP_CHUNK_RECORDS;
  state->file_bytes += size;
  state->last_chunk_bytes = records ? (uint32_t)size : 0;
  state->last_chunk_records = header.records;
}

int opgap_trace_append(void *context, const void *bytes, size_t size)
{
  struct opgap_state *state = context;
  uint64_t max = opgap_config.settings.max_size;
  if (state->discard)
    return 0;
  if (state->write_failed && !state->last_words)
    return -5;
  if (state->part_file) {
    long error = opgap_within_file_limit(state->file_bytes + size) ? 0 : -27;
    if (error == 0 && write_all(state->part_file - 1, bytes, size, &error))
      state->file_bytes += size;
    return (int)error;
  }
  uint64_t end = state->file_bytes + size + (state->last_words ? 0 : LAST_WORDS_BYTES);
  if (max && end > max) {
    size_reached();
    return -27;
  }
  if (!opgap_within_file_limit(end)) {
    give_up("the limit of file sizes, ulimit -f, is reached", 0);
    return -27;
  }
  int fd = open_trace();
  if (fd < 0) {
    cannot_open(fd);
    return fd;
  }
  long error = 0;
  bool ok = write_all(fd, bytes, size, &error);
  if (ok)
    chunk_written(state, bytes, size);
  else
    opgap_raw3(SYS_ftruncate, fd, (long)state->file_bytes, 0); /* no half chunk */
  close_trace(fd);
  if (!ok)
    give_up(opgap_error_words(error), error);
  return ok ? 0 : (int)error;
}

/* ---- the drain lock ---- */

bool opgap_drain_enter(uint64_t patience_ns)
{
  uint32_t tid = (uint32_t)opgap_raw_gettid();
  uint64_t deadline = opgap_clock_ns() + patience_ns;
  for (;;) {
    uint32_t owner = 0;
    if (atomic_compare_exchange_strong_explicit(&opgap_state->drain_lock, &owner, tid, memory_order_acquire,
                                                memory_order_relaxed)) /* G */
      return true;
    uint64_t now = opgap_clock_ns();
    if (owner == tid || now >= deadline)
      return false;
    opgap_raw_futex_wait(&opgap_state->drain_lock, owner, 1000000);
  }
}

void opgap_drain_leave(void)
{
  atomic_store_explicit(&opgap_state->drain_lock, 0, memory_order_release); /* G */
  opgap_raw_futex_wake(&opgap_state->drain_lock);
}

static uint64_t own_cpu_ns(void)
{
  struct timespec t;
  if (opgap_raw3(SYS_clock_gettime, 3 /* CLOCK_THREAD_CPUTIME_ID */, (long)&t, 0) < 0)
    return 0;
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

long opgap_drain_now(enum opgap_drain_mode mode)
{
  if (opgap_state->write_failed || (opgap_state->out_of_reach && mode != OPGAP_DRAIN_ALL))
    return -1;
  uint64_t before = own_cpu_ns();
  if (opgap_gpu_drain)
    opgap_gpu_drain();
  long records = opgap_consumer_drain(opgap_state->consumer, opgap_clock_anchor_for, mode);
  if (records >= 0)
    opgap_keep_turn();
  opgap_state->arena->flusher_cpu_ns += own_cpu_ns() - before;
  return records;
}

/* ---- producers ---- */

void opgap_session_wake(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  if (arena && atomic_load_explicit(&opgap_state->flusher, memory_order_acquire) &&
      atomic_exchange(&arena->flusher_sleeps, 0)) /* F */
    opgap_raw_futex_wake_shared(&arena->flusher_sleeps);
}

/* zstd needs some KiB of stack: not on a signal stack, not on a small thread stack. */
static bool on_main_stack(void)
{
  char here;
  char *top = opgap_config.stack_top;
  return &here < top && top - &here < 4 * 1024 * 1024;
}

/* How many filled segments, counted as short ones, wake a flusher that sleeps so: one without a timer, else fewer where
 * there are few. */
static uint32_t enough(const struct opgap_arena *arena, uint32_t sleeps)
{
  uint32_t quarter = arena->block_limit / 4;
  if (sleeps == OPGAP_FLUSHER_ASLEEP)
    return 1;
  return (quarter < DRAIN_SEGMENTS ? quarter : DRAIN_SEGMENTS) * OPGAP_SHORTS_IN_BLOCK;
}

void opgap_segment_filled(struct opgap_thread *thread, uint32_t shorts)
{
  struct opgap_state *state = opgap_state;
  if (atomic_load_explicit(&state->flusher, memory_order_acquire)) {
    uint32_t filled = atomic_fetch_add(&state->filled, shorts) + shorts; /* F */
    uint32_t sleeps = atomic_load(&state->arena->flusher_sleeps);
    if (sleeps != OPGAP_FLUSHER_AWAKE && (shorts == 0 || filled >= enough(state->arena, sleeps)))
      opgap_session_wake();
    return;
  }
  uint64_t waiting = atomic_load_explicit(&thread->write_pos, memory_order_relaxed) -
                     atomic_load_explicit(&thread->read_pos, memory_order_relaxed);
  if (waiting < DRAIN_SEGMENTS * OPGAP_SEGMENT_BYTES || !on_main_stack() || opgap_confined)
    return;
  /* a handler's calls would go unrecorded, and it may leave by siglongjmp, with the lock */
  uint64_t signals = opgap_raw_block_signals();
  struct opgap_cell *cell = opgap_cell;
  opgap_cell = &opgap_tool_cell;
  /* a handler that came in the meantime may have forked, and this is the child: it has no session */
  if (atomic_load_explicit(&state->phase, memory_order_acquire) == OPGAP_PHASE_RUNNING && opgap_drain_enter(0)) {
    opgap_drain_now(OPGAP_DRAIN_READY);
    opgap_drain_leave();
  }
  opgap_cell = cell;
  opgap_raw_restore_signals(signals);
}

/* ---- the flusher thread ---- */

/* A descriptor table of its own: the program cannot see, close or inherit what the flusher opens. */
static void take_own_descriptors(void)
{
  struct opgap_state *state = opgap_state;
  if (opgap_raw3(SYS_unshare, 0x400 /* CLONE_FILES */, 0, 0) < 0)
    return; /* files are then opened for each write */
#ifdef SYS_close_range
  if (opgap_raw3(SYS_close_range, 0, 0x7fffffff, 0) < 0)
#endif
    for (int fd = 0; fd < 4096; fd++)
      opgap_raw_close(fd);
  open_own_trace();
  if (state->arena->ring_file[0])
    flusher_ring_fd = (int)opgap_raw_open(state->arena->ring_file, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
}

/* Keeps spare segments and slots ready, and twice as many whenever a burst has used them up. */
static void prepare_memory(void)
{
  static uint32_t step; /* consumer only */
  struct opgap_arena *arena = opgap_state->arena;
  uint32_t ready = atomic_load(&arena->blocks_ready), used = atomic_load(&arena->blocks_used);
  bool none_free = (uint32_t)atomic_load(&arena->free_blocks) == 0;
  if (none_free && ready - used < SPARE_SEGMENTS && ready < arena->block_limit) {
    step = step < SPARE_SEGMENTS ? SPARE_SEGMENTS : step < 512 ? step * 2 : 512;
    opgap_grow_blocks(arena, step);
  }
  while (atomic_load(&arena->slots_ready) - atomic_load(&arena->slots_high) < SPARE_SLOTS && opgap_grow_slots(arena))
    ;
}

/* Writes a record of the process stream.  The consumer is its only writer, so a plain ring write will do. */
static void sample(struct opgap_cell *cell, unsigned event, uint32_t status, const uint64_t *fields, unsigned count)
{
  uint64_t *w = opgap_reserve(cell, 2 + count);
  if (w == NULL)
    return;
  w[0] = OPGAP_WORD0(event, 2 + count, 0, status);
  w[1] = opgap_clock_ns();
  memcpy(w + 2, fields, count * sizeof *fields);
  opgap_commit(cell, w + 2 + count);
}

static void sample_memory(struct opgap_cell *cell)
{
  char text[512];
  if (opgap_raw_slurp("/proc/self/statm", text, sizeof text) == 0)
    return;
  const char *at = text;
  opgap_take_number(&at);
  uint64_t fields[5] = {opgap_take_number(&at) * opgap_config.page_bytes};
  if (opgap_raw_slurp("/proc/self/stat", text, sizeof text)) {
    at = text + strlen(text);
    while (at > text && *at != ')')
      at--;
    if (*at == ')' && at[1] && at[2]) {
      at += 3; /* behind the state letter */
      for (int field = 4; field <= 15; field++) {
        if (*at == ' ')
          at++;
        if (*at == '-')
          at++;
        uint64_t value = opgap_take_number(&at);
        if (field == 10)
          fields[1] = value;
        if (field == 12)
          fields[2] = value;
        if (field == 14 || field == 15)
          fields[field - 11] = value * TICK_NS;
      }
    }
  }
  sample(cell, OPGAP_EV_MEMORY, 0, fields, 5);
}

static void sample_cgroup(struct opgap_cell *cell)
{
  uint64_t fields[4];
  if (opgap_cgroup_sample(fields))
    sample(cell, OPGAP_EV_CGROUP, 0, fields, 4);
}

static void sample_scheduler(struct opgap_cell *cell)
{
  struct opgap_arena *arena = opgap_state->arena;
  uint32_t high = atomic_load(&arena->slots_high);
  for (uint32_t i = 0; i < high; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    if (atomic_load(&slot->state) != OPGAP_SLOT_LIVE || slot->kind != OPGAP_STREAM_THREAD)
      continue;
    char path[64], numbers[128];
    struct opgap_text text = {path, path + sizeof path - 1};
    opgap_text_string(&text, "/proc/self/task/");
    opgap_text_number(&text, (uint64_t)slot->tid, 10);
    opgap_text_string(&text, "/schedstat");
    if (opgap_raw_slurp(path, numbers, sizeof numbers) == 0)
      continue;
    const char *at = numbers;
    uint64_t fields[3];
    for (int f = 0; f < 3; f++)
      fields[f] = opgap_take_number(&at);
    sample(cell, OPGAP_EV_SCHED, (uint32_t)slot->tid, fields, 3);
  }
}

static bool switches_waiting(void)
{
  struct opgap_control *control = opgap_arena_control(opgap_state->arena);
  return atomic_load(&control->switches) != control->switches_written;
}

/* How much the program's threads have written so far: as long as it grows, samples are worth taking. */
static uint64_t written(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  uint32_t high = atomic_load(&arena->slots_high);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < high; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire); /* D */
    if (state != OPGAP_SLOT_FREE && state != OPGAP_SLOT_TAKEN && slot->kind == OPGAP_STREAM_THREAD)
      sum += atomic_load_explicit(&slot->write_pos, memory_order_relaxed);
  }
  return sum;
}

static struct opgap_cell *process_cell(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  for (uint32_t i = 0; i < atomic_load(&arena->slots_high); i++)
    if (opgap_arena_slot(arena, i) == opgap_state->process_stream)
      return &opgap_cells[i];
  return NULL;
}

static void poll_others(void)
{
  if (opgap_frameworks_poll)
    opgap_frameworks_poll();
  if (opgap_gpu_poll)
    opgap_gpu_poll();
}

/* Those that threads found for their stacks are told by these, too. */
static void tell_modules(struct opgap_cell *cell)
{
  uint64_t fields[5];
  for (; modules_told < opgap_module_count(); modules_told++) {
    opgap_module_fields(modules_told, fields);
    sample(cell, OPGAP_EV_MODULE, modules_told, fields, 5);
  }
}

static void sample_all(struct opgap_cell *cell)
{
  sample_memory(cell);
  sample_cgroup(cell); /* first: the reader takes it as the state of the threads' samples that follow */
  sample_scheduler(cell);
}

/* One round; the number of records it wrote. */
static long flush_round(struct opgap_cell *cell, uint64_t *next_sample)
{
  if (!opgap_drain_enter(0))
    return 0;
  uint64_t now = opgap_clock_ns();
  if (now >= *next_sample && cell && cell->thread) {
    *next_sample = now + PERIOD_NS;
    sample_all(cell);
  }
  if (cell && cell->thread)
    tell_modules(cell);
  uint64_t before = opgap_state->arena->records;
  atomic_exchange(&opgap_state->filled, 0); /* F: those are drained now */
  prepare_memory(); /* first: draining takes long when much is waiting, and that is when room is short */
  opgap_drain_now(OPGAP_DRAIN_READY);
  long records = (long)(opgap_state->arena->records - before);
  opgap_drain_leave();
  return records;
}

/* ---- the end of the others ----
 *
 * A thread may leave by a system call that no hook sees; if it was the last one, the flusher alone keeps the process.
 * The kernel clears a word of each thread when it ends, for pthread_join, and wakes one who waits there.  So the
 * flusher sleeps on its own futex and on that of one thread, the process's first one as long as it is there; and when
 * that has left, on another's. */

#define GET_TID_ADDRESS 40 /* PR_GET_TID_ADDRESS */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

struct futex_waiter { /* struct futex_waitv of linux/futex.h, since 5.16 */
  uint64_t value, address;
  uint32_t flags, reserved;
};
#define FUTEX_WORD 2u /* of 32 bits, not private */

static struct {
  uint64_t offset; /* of that word in a thread's control block; 0: unknown */
  bool unusable;   /* no such system call, or no such word */
  int tid;         /* who is waited for; 0: nobody */
  uint32_t *word;
} others;

/* By a thread of the program: all of them are laid out alike. */
static void find_tid_word(void)
{
  uintptr_t word = 0;
  if (opgap_raw6(SYS_prctl, GET_TID_ADDRESS, (long)&word, 0, 0, 0, 0) == 0 && word != 0)
    others.offset = word - (uintptr_t)__builtin_thread_pointer();
}

static void wait_for_none(void)
{
  others.unusable = others.offset == 0;
  others.tid = 0;
}

static void choose_other(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  uint32_t high = atomic_load(&arena->slots_high);
  for (uint32_t i = 0; i < high; i++) {
    struct opgap_thread *slot = opgap_arena_slot(arena, i);
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire); /* D */
    int tid = atomic_load_explicit(&slot->tid, memory_order_relaxed);
    if ((state != OPGAP_SLOT_LIVE && state != OPGAP_SLOT_DYING) || slot->kind != OPGAP_STREAM_THREAD ||
        (others.tid != 0 && tid != opgap_state->pid) || opgap_thread_is_leaving(tid))
      continue;
    others.tid = tid;
    others.word = (uint32_t *)(uintptr_t)(slot->pthread + others.offset);
  }
}

/* Sleeps until somebody wakes it, for patience_ns at most (0: for ever).  True: no other thread is left. */
static bool sleep_beside_others(struct opgap_arena *arena, uint32_t sleeps, uint64_t patience_ns)
{
  if (!others.unusable && others.tid == 0) {
    choose_other();
    if (others.tid == 0 && opgap_thread_is_alone()) /* the last one has left since it was looked for */
      return true;
  }
  if (others.unusable || others.tid == 0) {
    opgap_raw_futex_wait_shared(&arena->flusher_sleeps, sleeps, patience_ns);
    return false;
  }
  struct futex_waiter waiters[] = {{sleeps, (uint64_t)(uintptr_t)&arena->flusher_sleeps, FUTEX_WORD, 0},
                                   {(uint32_t)others.tid, (uint64_t)(uintptr_t)others.word, FUTEX_WORD, 0}};
  uint64_t until = opgap_clock_ns() + patience_ns;
  struct timespec deadline = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
  long woken = opgap_raw6(SYS_futex_waitv, (long)waiters, 2, 0, patience_ns ? (long)&deadline : 0, CLOCK_MONOTONIC, 0);
  if (woken == -ENOSYS || woken == -EPERM || woken == -EINVAL) {
    others.unusable = true;
    return false;
  }
  if (woken != 1 && woken != -EFAULT && (woken != -EAGAIN || atomic_load(&arena->flusher_sleeps) != sleeps))
    return false;
  if (woken == 1)
    opgap_raw_futex_wake_shared(others.word);             /* it wakes one: who joins that thread waits as well */
  others.unusable = !opgap_thread_is_leaving(others.tid); /* it lives, and its word is elsewhere */
  others.tid = 0;
  return opgap_thread_is_alone();
}

/* As the process ends without the tracer: at once, and with the status of its first thread. */
static _Noreturn void end_process(void)
{
  char stat[1024];
  size_t length = opgap_raw_slurp("/proc/self/stat", stat, sizeof stat);
  const char *at = stat + length;
  while (at > stat && at[-1] != ' ') /* the last field, as wait gives it */
    at--;
  int status = (int)(opgap_take_number(&at) >> 8) & 0xff;
  opgap_session_end(status);
  for (;;)
    opgap_raw3(SYS_exit, status, 0, 0);
}

static void *flusher_main(void *unused)
{
  (void)unused;
  opgap_cell = &opgap_flusher_cell;
  modules_told = 0;
  flusher_trace_fd = flusher_ring_fd = -1; /* a forked child inherits the numbers, not the files */
  opgap_raw6(SYS_prctl, 15 /* PR_SET_NAME */, (long)"opgap", 0, 0, 0, 0);
  if (opgap_drain_enter(UINT64_C(1000000000))) {
    take_own_descriptors();
    opgap_drain_leave();
  }
  struct opgap_arena *arena = opgap_state->arena;
  struct opgap_cell *cell = process_cell();
  uint64_t next_sample = 0, next_poll = 0, last_written = 0;
  unsigned idle = 0;
  bool alone = false;
  wait_for_none();
  while (!alone && atomic_load_explicit(&opgap_state->phase, memory_order_acquire) == OPGAP_PHASE_RUNNING &&
         atomic_load_explicit(&opgap_state->flusher, memory_order_acquire) == OPGAP_FLUSHER_RUNS) {
    uint64_t now = opgap_clock_ns();
    bool switched = switches_waiting(); /* the GPU's half attaches and lets go when it is polled */
    opgap_modules_look();
    if (now >= next_poll || switched) {
      next_poll = now + PERIOD_NS;
      poll_others();
    }
    /* samples alone do not count as work, or an idle program would never let us sleep */
    uint64_t now_written = written();
    idle = now_written != last_written || switched ? 0 : idle + 1;
    last_written = now_written;
    flush_round(cell, &next_sample);
    uint32_t sleeps = idle <= IDLE_PERIODS ? OPGAP_FLUSHER_DOZES : OPGAP_FLUSHER_ASLEEP;
    atomic_store(&arena->flusher_sleeps, sleeps); /* F */
    bool more =
        !opgap_state->write_failed && !opgap_state->out_of_reach &&
        (atomic_load(&opgap_state->filled) >= enough(arena, sleeps) || switches_waiting() || opgap_modules_wanted());
    if ((more || atomic_load(&opgap_state->flusher) != OPGAP_FLUSHER_RUNS) &&
        atomic_exchange(&arena->flusher_sleeps, 0))
      continue;
    uint64_t patience = opgap_schedule_tick(opgap_clock_ns());
    if (sleeps == OPGAP_FLUSHER_DOZES && (patience == 0 || patience > PERIOD_NS))
      patience = PERIOD_NS;
    alone = sleep_beside_others(arena, sleeps, patience);
    atomic_store(&arena->flusher_sleeps, 0);
  }
  opgap_modules_look();
  if (cell && cell->thread && opgap_drain_enter(0)) { /* the last state; whoever ends the session drains it */
    tell_modules(cell);
    sample_all(cell);
    opgap_drain_leave();
  }
  if (alone)
    end_process();
  return NULL;
}

static pthread_t flusher_thread;

void opgap_session_threads(void)
{
  struct opgap_state *state = opgap_state;
  uint32_t none = OPGAP_FLUSHER_NONE;
  if (atomic_load_explicit(&state->phase, memory_order_acquire) != OPGAP_PHASE_RUNNING || opgap_confined ||
      !atomic_compare_exchange_strong(&state->flusher, &none, OPGAP_FLUSHER_RUNS))
    return;
  struct opgap_cell *cell = opgap_cell;
  opgap_cell = &opgap_tool_cell;
  find_tid_word();
  opgap_grow_blocks(state->arena, SPARE_SEGMENTS); /* still by the only thread, which may open the ring file */
  sigset_t all, before;
  pthread_attr_t attributes;
  sigfillset(&all);
  bool started = false;
  if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
    if (pthread_attr_init(&attributes) == 0) {
      pthread_attr_setstacksize(&attributes, FLUSHER_STACK);
      started = pthread_create(&flusher_thread, &attributes, flusher_main, NULL) == 0;
      pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  opgap_cell = cell;
  if (!started) {
    static bool said;
    atomic_store(&state->flusher, OPGAP_FLUSHER_NONE);
    opgap_notice(&said, "cannot start the flusher thread: records are kept until the rings are full");
  }
}

#define LEAVES_WITHIN_NS UINT64_C(100000000)

/* Are there other threads, also ones that only have to be taken off the kernel's list? */
static bool has_others(void)
{
  struct stat tasks;
  return opgap_raw6(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0, 0, 0) == 0 &&
         tasks.st_nlink > 3; /* ".", "..", and a folder for each */
}

bool opgap_flusher_step_aside(void)
{
  struct opgap_state *state = opgap_state;
  if (state->pid != opgap_raw_getpid() || atomic_load(&state->live) > 1 ||
      atomic_load(&state->flusher) != OPGAP_FLUSHER_RUNS)
    return false;
  opgap_flusher_stop();
  for (uint64_t until = opgap_clock_ns() + LEAVES_WITHIN_NS; has_others() && opgap_clock_ns() < until;)
    opgap_raw3(SYS_sched_yield, 0, 0, 0); /* joined is before that: its last word is to the joiner */
  return true;
}

void opgap_flusher_stop(void)
{
  struct opgap_state *state = opgap_state;
  uint32_t runs = OPGAP_FLUSHER_RUNS;
  if (!atomic_compare_exchange_strong(&state->flusher, &runs, OPGAP_FLUSHER_STOPS))
    return;
  struct opgap_cell *cell = opgap_cell;
  opgap_cell = &opgap_tool_cell;
  if (atomic_exchange(&state->arena->flusher_sleeps, 0)) /* F */
    opgap_raw_futex_wake_shared(&state->arena->flusher_sleeps);
  pthread_join(flusher_thread, NULL);
  atomic_store(&state->flusher, OPGAP_FLUSHER_NONE);
  opgap_cell = cell;
}
