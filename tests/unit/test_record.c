/* The line from a thread's ring to the reader, without hooks: sessions in child processes, traces read back. */
#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "folder.h"
#include "format/drain.h"
#include "format/reader.h"
#include "format/recover.h"
#include "format/trace_format.h"
#include "record/control.h"
#include "record/guest.h"
#include "record/faults.h"
#include "record/internal.h"
#include "record/op.h"
#include "record/record.h"
#include "record/schedule.h"
#include "record/session.h"
#include "record/stacks.h"
#include "suite.h"

enum { EV_CALL = OPGAP_FIRST_HOOK, EV_COUNTED, EV_FREED, EV_COUNTED_TOO };
enum { COUNTED, COUNTED_TOO, FREED }; /* counters: allocations come first */

static const struct opgap_event hooks[] = {
    {.id = EV_CALL,
     .kind = OPGAP_SPAN,
     .field_count = 2,
     .flags = OPGAP_EVENT_HOOK,
     .name = "call",
     .category = "io",
     .status = "errno",
     .fields = {{"object", OPGAP_DELTA}, {"value", OPGAP_PLAIN}}},
    {.id = EV_COUNTED,
     .kind = OPGAP_INSTANT,
     .field_count = 2,
     .flags = OPGAP_EVENT_HOOK | OPGAP_EVENT_COUNTED | OPGAP_EVENT_ALLOC,
     .name = "counted",
     .category = "alloc",
     .status = "errno",
     .fields = {{"object", OPGAP_DELTA}, {"value", OPGAP_PLAIN}}},
    {.id = EV_FREED,
     .kind = OPGAP_INSTANT,
     .field_count = 2,
     .flags = OPGAP_EVENT_HOOK | OPGAP_EVENT_COUNTED | OPGAP_EVENT_FREE,
     .name = "freed",
     .category = "alloc",
     .status = "errno",
     .fields = {{"object", OPGAP_DELTA}, {"value", OPGAP_PLAIN}}},
    {.id = EV_COUNTED_TOO,
     .kind = OPGAP_INSTANT,
     .field_count = 2,
     .flags = OPGAP_EVENT_HOOK | OPGAP_EVENT_COUNTED | OPGAP_EVENT_ALLOC,
     .name = "counted too",
     .category = "alloc",
     .status = "errno",
     .fields = {{"object", OPGAP_DELTA}, {"value", OPGAP_PLAIN}}},
};
static const uint16_t counters[] = {EV_COUNTED, EV_COUNTED_TOO, EV_FREED};

/* How far a time may be from the clock's: as often as an anchor was read, others had the CPU in between.  That it is
 * what it should be is told by far larger distances: the time since the boot, or a turn of the counter's lower half. */
#define ANCHOR_ERROR_NS 100000u

static char error[512];

/* The folder of a trace, which is told to its first process. */
static void make_trace_folder(void)
{
  char session[sizeof folder + 1];
  make_folder();
  snprintf(session, sizeof session, "%s/", folder); /* the slash: the trace's first process, so it begins at once */
  setenv("OPGAP_SESSION", session, 1);
}

static const struct opgap_event *hook_events(unsigned *count)
{
  *count = sizeof hooks / sizeof *hooks;
  return hooks;
}

static void start(void)
{
  opgap_session_start("test_record", hook_events, counters, 3);
  if (opgap_active == 0)
    _exit(99);
}

/* One call span whose object and value tell which it is. */
static void call(uint64_t number)
{
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL)
    return;
  uint64_t begin = opgap_call_begin(thread, EV_CALL, number);
  opgap_call_end(thread, EV_CALL, begin, number, number * 3, (uint32_t)(number % 7));
}

static int run_child(void (*body)(void))
{
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(98);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  return status;
}

/* A child that ends by itself; the status of one that a signal ends would be 0, too. */
static void run_to_end(void (*body)(void), int exit_status)
{
  int status = run_child(body);
  ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
  ck_assert_int_eq(WEXITSTATUS(status), exit_status);
}

static void close_pipe(const int ends[2])
{
  close(ends[0]);
  close(ends[1]);
}

/* Keeps the calling thread on the CPU that it is on: how far the counters of two CPUs are apart is promised nowhere. */
static void stay_on_cpu(void)
{
  cpu_set_t set;
  int cpu = sched_getcpu();
  CPU_ZERO(&set);
  if (cpu >= 0 && cpu < CPU_SETSIZE)
    CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    _exit(97);
}

/* Do the times go with the order?  Not to the nanosecond where another thread drains: a call that was stamped, and
 * written only after that one had looked, lies on the line between other anchors than the call before it. */
enum order { TIMES_IN_ORDER, TIMES_OF_ANCHORS };

/* Checks that a stream holds the calls 0..count-1 in order, each with its values; returns their number. */
static uint64_t check_calls(const struct opgap_trace *trace, unsigned process, unsigned stream, enum order order)
{
  struct opgap_cursor *cursor = opgap_cursor_open(trace, process, stream);
  const struct opgap_record *record;
  uint64_t count = 0, last_end = 0;
  while ((record = opgap_cursor_next(cursor)) != NULL) {
    if (record->event != EV_CALL)
      continue;
    EACH_ASSERT_UINT(record->field[0], ==, count);
    EACH_ASSERT_UINT(record->field[1], ==, count * 3);
    EACH_ASSERT_UINT(record->status, ==, count % 7);
    EACH_ASSERT_UINT(record->start_ns, <=, record->end_ns);
    if (order == TIMES_IN_ORDER)
      EACH_ASSERT_UINT(record->end_ns, >=, last_end);
    last_end = record->end_ns;
    count++;
  }
  opgap_cursor_close(cursor);
  return count;
}

/* As many lines of damage; the last one, NULL: none. */
static const char *check_damage(const struct opgap_trace *trace, unsigned lines)
{
  const char *last = NULL;
  unsigned at = 0, count = 0;
  for (const char *line; (line = opgap_trace_damage(trace, &at)) != NULL; count++)
    last = line;
  ck_assert_uint_eq(count, lines);
  return last;
}

static struct opgap_trace *open_trace(void)
{
  struct opgap_trace *trace = opgap_trace_open(folder, error, sizeof error);
  ck_assert_msg(trace != NULL, "%s", error);
  return trace;
}

/* Of one child in a folder of its own. */
static struct opgap_trace *trace_of(void (*body)(void), int exit_status)
{
  make_trace_folder();
  run_to_end(body, exit_status);
  return open_trace();
}

static void forget(struct opgap_trace *trace)
{
  opgap_trace_close(trace);
  remove_folder();
}

/* All records of the first process, stream by stream. */
struct records {
  const struct opgap_trace *trace;
  unsigned stream; /* of the last one */
  struct opgap_cursor *cursor;
};

static const struct opgap_record *next_record(struct records *all)
{
  for (; all->stream < opgap_trace_process(all->trace, 0)->stream_count; all->stream++) {
    if (all->cursor == NULL)
      all->cursor = opgap_cursor_open(all->trace, 0, all->stream);
    const struct opgap_record *record = opgap_cursor_next(all->cursor);
    if (record != NULL)
      return record;
    opgap_cursor_close(all->cursor);
    all->cursor = NULL;
  }
  return NULL;
}

static uint64_t all_calls(const struct opgap_trace *trace, unsigned process, enum order order)
{
  uint64_t sum = 0;
  const struct opgap_process_info *info = opgap_trace_process(trace, process);
  for (unsigned s = 0; s < info->stream_count; s++)
    sum += check_calls(trace, process, s, order);
  return sum;
}

/* ---- clean end ---- */

#define MANY_CALLS 100000u /* several drains by the only thread */

static _Noreturn void make_calls_and_end(int exit_status)
{
  stay_on_cpu();
  for (uint64_t i = 0; i < MANY_CALLS; i++)
    call(i);
  opgap_session_end(exit_status);
  _exit(exit_status);
}

/* The trace has all of that. */
static void check_whole(const struct opgap_trace *trace, int exit_status)
{
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_int_eq(info->ended, OPGAP_ENDED_CLEAN);
  ck_assert_int_eq(info->exit_status, exit_status);
  ck_assert(info->complete);
  ck_assert_uint_eq(info->lost_records, 0);
  ck_assert_uint_eq(info->invalid_records, 0);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_IN_ORDER), MANY_CALLS);
}

static void body_clean(void)
{
  start();
  make_calls_and_end(5);
}

START_TEST(clean_end)
{
  struct opgap_trace *trace = trace_of(body_clean, 5);
  ck_assert_uint_eq(opgap_trace_process_count(trace), 1);
  check_whole(trace, 5);
  ck_assert_str_eq(opgap_trace_event(trace, 0, EV_CALL)->name, "call");
  ck_assert_ptr_null(opgap_trace_event(trace, 0, 900));
  opgap_trace_close(trace);
  ck_assert_int_eq(opgap_trace_recover(folder), 0); /* no ring is left behind */
  remove_folder();
}
END_TEST

/* ---- pages larger than this machine's ---- */

#define LARGE_PAGE 65536u
#define ODD_BUFFER (33u * LARGE_PAGE / 2) /* whole segments, but half a page at the end */

static bool resident(const struct opgap_arena *arena, uint64_t offset, uint64_t bytes)
{
  unsigned char pages[LARGE_PAGE / 4096];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (mincore((char *)arena + offset, bytes, pages) != 0)
    return false;
  for (size_t i = 0; i < (bytes + page - 1) / page; i++)
    if ((pages[i] & 1) == 0)
      return false;
  return true;
}

static void body_large_pages(void)
{
  char buffer[16];
  snprintf(buffer, sizeof buffer, "%u", ODD_BUFFER);
  setenv("OPGAP_BUFFER", buffer, 1);
  opgap_config.page_bytes = LARGE_PAGE;
  start();
  struct opgap_arena *arena = opgap_state->arena;
  uint64_t page = arena->size / LARGE_PAGE * LARGE_PAGE - LARGE_PAGE;
  if (arena->size != ODD_BUFFER)
    _exit(1);
  if (!opgap_arena_grow(arena, page + LARGE_PAGE / 2, 100) || !resident(arena, page, LARGE_PAGE))
    _exit(2);
  if (!opgap_arena_grow(arena, arena->size - 100, 100) ||
      !resident(arena, page + LARGE_PAGE, arena->size - page - LARGE_PAGE))
    _exit(3);
  if (opgap_arena_grow(arena, arena->size - 100, 101))
    _exit(4);
  make_calls_and_end(0);
}

START_TEST(large_pages)
{
  struct opgap_trace *trace = trace_of(body_large_pages, 0);
  check_whole(trace, 0);
  forget(trace);
}
END_TEST

/* ---- the budget of ops' lines ---- */

static unsigned stack_slots[16], stack_count;

unsigned opgap_python_frames(unsigned slot, uint32_t *frames, unsigned room)
{
  stack_slots[stack_count++] = slot;
  (void)frames;
  (void)room;
  return 0;
}

static void body_budget(void)
{
  setenv("OPGAP_STACKS", "python", 1);
  start();
  struct opgap_stack_budget budget = {0};
  /* the clock's rate by the threshold of stacks, which is rounded: figures that follow from it are right to a tick a us
   */
  const uint64_t ms = opgap_stack_ticks * 1000000 / OPGAP_STACK_THRESHOLD_NS, us = ms / 1000, begin = 1000 * ms;
  unsigned afforded = 0;
  while (afforded < 1000 && opgap_stack_afford(&budget, begin, us, 69))
    afforded++;
  if (afforded != 72) /* the first 5 ms are free: 71 times 70 us are less */
    _exit(1);
  uint64_t spent = 72 * 70 * us + us; /* one look more, after which nothing was done */
  if (budget.spent != spent || opgap_stack_counts().lines_skipped != 69)
    _exit(2);
  uint64_t enough = begin + (spent - 5 * ms) * OPGAP_STACK_SHARE, slack = 5000 * OPGAP_STACK_SHARE;
  if (opgap_stack_afford(&budget, enough - slack, 0, 69) || !opgap_stack_afford(&budget, enough + slack, 0, 69))
    _exit(3);
  if (opgap_stack_counts().lines_skipped != 2 * 69 || budget.spent != spent)
    _exit(4);
  opgap_stack_afford(&budget, enough + 1000000 * ms, 7 * ms, 69); /* not running in between: 4 us count */
  if (budget.spent < spent + 70 * 4 * us || budget.spent > spent + 70 * 4 * (us + 1))
    _exit(5);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(budget_of_lines)
{
  make_trace_folder();
  run_to_end(body_budget, 0);
  remove_folder();
}
END_TEST

/* ---- what a thread keeps for its stacks ---- */

#define LATE_THREADS 10u

static void *takes_a_stack(void *nothing)
{
  if (opgap_self() != NULL)
    opgap_stack_note(EV_CALL, opgap_stack_ticks, 0);
  return nothing;
}

/* Threads that come when the ring has grown have the next slots, wherever these lie. */
static void body_late_stacks(void)
{
  pthread_t threads[LATE_THREADS];
  setenv("OPGAP_STACKS", "python", 1);
  start();
  atomic_store(&opgap_state->flusher, 1); /* nobody drains */
  for (unsigned i = 0; i < 240000; i++)   /* 9.6 MB: more than 1024 slots' */
    call(i);
  for (unsigned i = 0; i < LATE_THREADS; i++)
    if (pthread_create(&threads[i], NULL, takes_a_stack, NULL) != 0 || pthread_join(threads[i], NULL) != 0)
      _exit(1);
  if (stack_count != LATE_THREADS)
    _exit(2);
  for (unsigned i = 1; i < LATE_THREADS; i++)
    if (stack_slots[i] != stack_slots[i - 1] + 1)
      _exit(3);
  if (stack_slots[0] >= 8) /* the process's, the main thread's, and few others */
    _exit(4);
  atomic_store(&opgap_state->flusher, 0);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(stacks_of_late_threads)
{
  make_trace_folder();
  run_to_end(body_late_stacks, 0);
  remove_folder();
}
END_TEST

/* ---- page faults of ops ---- */

static void spin(uint64_t ticks)
{
  for (uint64_t begin = opgap_ticks(); opgap_ticks() - begin < ticks;)
    ;
}

static void touch(char **fresh, unsigned pages)
{
  for (; pages > 0; pages--, *fresh += sysconf(_SC_PAGESIZE))
    **(volatile char *volatile *)fresh = 1;
}

/* When an op began and ended, at the earliest and at the latest: others may have had the CPU in between. */
struct lasted {
  uint64_t began[2], ended[2];
};

static struct lasted lasting_op(uint32_t name, uint64_t tag, char **fresh, unsigned pages)
{
  struct lasted times;
  times.began[0] = opgap_ticks();
  opgap_op_begin(name, 0, tag, 0);
  times.began[1] = opgap_ticks();
  touch(fresh, pages);
  spin(2 * OPGAP_FAULT_TICKS);
  times.ended[0] = opgap_ticks();
  opgap_op_end(OPGAP_EV_OP, tag, 0);
  times.ended[1] = opgap_ticks();
  return times;
}

/* No more time lies between the two than the second took, or certainly more. */
static bool is_next(const struct lasted *first, const struct lasted *second)
{
  return second->ended[1] - first->ended[0] <= 2 * (second->ended[0] - second->began[1]);
}
static bool is_apart(const struct lasted *first, const struct lasted *second)
{
  return second->ended[0] - first->ended[1] > 2 * (second->ended[1] - second->began[0]);
}

struct process_faults {
  /* The child's own count after its session has begun, and before that ends; its first thread's (a sanitizer has one
   * of its own). */
  uint64_t after, last, thread_after, thread_last;
};

static struct process_faults *shared_faults;

static uint64_t own_faults(int who)
{
  struct rusage usage;
  getrusage(who, &usage);
  return (uint64_t)usage.ru_minflt;
}

/* Each is done again until others have not had the CPU meanwhile; the last try counts. */
static void body_faults(void)
{
  struct process_faults *count = shared_faults;
  start();
  count->after = own_faults(RUSAGE_SELF);
  count->thread_after = own_faults(RUSAGE_THREAD);
  size_t size = (size_t)sysconf(_SC_PAGESIZE) << 16;
  char *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  madvise(fresh, size, MADV_NOHUGEPAGE);
  uint32_t many = opgap_intern("many", 4), inner = opgap_intern("inner", 5), last = opgap_intern("last", 4);
  struct lasted before, now = lasting_op(opgap_intern("first", 5), 1, &fresh, 200);
  bool next;
  do {
    before = now;
    now = lasting_op(many, 2, &fresh, 300);
  } while (!is_next(&before, &now));
  do {
    before = now;
    opgap_op_begin(opgap_intern("outer", 5), 0, 3, 0);
    now = lasting_op(inner, 4, &fresh, 100);
    next = is_next(&before, &now);
    spin(OPGAP_FAULT_TICKS);
    touch(&fresh, 1);
    opgap_op_end(OPGAP_EV_OP, 3, 0);
    now.ended[1] = opgap_ticks();
  } while (!next);
  do {
    before = now;
    touch(&fresh, 50);
    spin(20 * OPGAP_FAULT_TICKS);
    now = lasting_op(last, 5, &fresh, 0);
  } while (!is_apart(&before, &now));
  touch(&fresh, 40);
  count->last = own_faults(RUSAGE_SELF);
  count->thread_last = own_faults(RUSAGE_THREAD);
  opgap_session_end(0);
  _exit(0);
}

/* Two windows of a schedule: 100 and 200 pages in ops, 400 between the windows, by one thread and by another one, which
 * does not see the windows begin. */
static void windows_of(char **fresh, uint64_t tag, pthread_barrier_t *barrier)
{
  uint32_t name = opgap_intern("op", 2);
  lasting_op(name, tag, fresh, 100);
  pthread_barrier_wait(barrier);
  if (tag == 1)
    opgap_schedule_step(); /* off */
  pthread_barrier_wait(barrier);
  touch(fresh, 400);
  pthread_barrier_wait(barrier);
  if (tag == 1)
    opgap_schedule_step(); /* on */
  pthread_barrier_wait(barrier);
  lasting_op(name, tag, fresh, 200);
  pthread_barrier_wait(barrier);
}

static pthread_barrier_t windows_barrier;

static void *other_windows(void *fresh)
{
  opgap_cell = &opgap_no_cell;
  windows_of((char **)fresh, 2, &windows_barrier);
  return NULL;
}

static void body_windows(void)
{
  setenv("OPGAP_SCHEDULE", "wait=1,active=1", 1);
  opgap_session_start("test_record", hook_events, counters, 3);
  size_t size = (size_t)sysconf(_SC_PAGESIZE) << 11;
  char *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char *other = fresh + size / 2;
  madvise(fresh, size, MADV_NOHUGEPAGE);
  opgap_schedule_step();
  pthread_barrier_init(&windows_barrier, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, other_windows, &other);
  windows_of(&fresh, 1, &windows_barrier);
  pthread_join(thread, NULL);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(faults_of_windows)
{
  struct opgap_trace *trace = trace_of(body_windows, 0);
  struct records all = {.trace = trace};
  uint64_t of_thread[8] = {0}, opened = 0, closed = 0, process = 0;
  for (const struct opgap_record *r; (r = next_record(&all)) != NULL;) {
    if (r->event == OPGAP_EV_FAULTS)
      of_thread[all.stream] += r->field[0];
    if (r->event == OPGAP_EV_PROCESS_FAULTS) {
      process += r->status == 1 ? r->field[0] : 0 - r->field[0];
      opened += r->status == 0;
      closed += r->status == 1;
    }
  }
  ck_assert_uint_eq(opened, 2);
  ck_assert_uint_eq(closed, 2);
  unsigned threads = 0;
  for (unsigned i = 0; i < 8; i++)
    if (of_thread[i] != 0) {
      ck_assert_uint_ge(of_thread[i], 300);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
      ck_assert_uint_lt(of_thread[i], 500);
#endif
      threads++;
    }
  ck_assert_uint_eq(threads, 2);
  ck_assert_uint_ge(process, 600);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  ck_assert_uint_lt(process, 1000);
#endif
  forget(trace);
}
END_TEST

START_TEST(faults_of_ops)
{
  static const struct {
    const char *op;
    bool own;
    uint64_t least, below; /* what is touched; with some of the stack's, the ring's, and what is paged out */
  } expected[] = {
      {"many", true, 300, 400}, {"inner", true, 100, 200}, {"outer", true, 1, 90}, {"last", false, 50, 150}};
  uint64_t children = own_faults(RUSAGE_CHILDREN);
  shared_faults = mmap(NULL, sizeof *shared_faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct opgap_trace *trace = trace_of(body_faults, 0);
  children = own_faults(RUSAGE_CHILDREN) - children;
  struct records all = {.trace = trace};
  const char *op = "";
  struct opgap_record of[4] = {{0}}, last = {0};
  uint64_t first = 0, sum = 0, process[2] = {0};
  for (const struct opgap_record *r; (r = next_record(&all)) != NULL;) {
    if (r->event == OPGAP_EV_OP)
      op = opgap_trace_name(trace, 0, (uint32_t)r->field[0], NULL);
    for (unsigned i = 0; r->event == OPGAP_EV_FAULTS && last.event == OPGAP_EV_OP && i < 4; i++)
      if (strcmp(op, expected[i].op) == 0)
        of[i] = *r;
    if (r->event == OPGAP_EV_FAULTS) {
      sum += r->field[0];
      ck_assert(op[0] != 0 || r->status == OPGAP_EV_THREAD_START);
      if (strcmp(op, "first") == 0)
        first += r->field[0]; /* its own, unless others had the CPU between the reading before it and its begin */
    }
    if (r->event == OPGAP_EV_PROCESS_FAULTS) {
      ck_assert_uint_le(r->status, 1);
      ck_assert_uint_eq(process[r->status], 0);
      process[r->status] = r->field[0];
    }
    if (r->event == OPGAP_EV_OP || r->event == OPGAP_EV_FAULTS)
      last = *r;
  }
  ck_assert_uint_ge(first, 200);
  /* what is touched behind the last op is of none */
  ck_assert_uint_eq(last.status, 0);
  ck_assert_uint_ge(last.field[0], 40);
  /* The process's count, where its session begins (none of it: a forked child's began with it) and ends, and no fault
   * of its only thread is missing in the rows but those that the end itself makes. */
  ck_assert_uint_le(process[0], shared_faults->after);
  ck_assert_uint_ge(process[1], shared_faults->last);
  ck_assert_uint_le(process[1], children);
  ck_assert_uint_ge(sum, shared_faults->thread_last - shared_faults->thread_after);
  ck_assert_uint_le(sum, process[1] - process[0]);
  munmap(shared_faults, sizeof *shared_faults);
  for (unsigned i = 0; i < 4; i++) {
    ck_assert_uint_eq(of[i].event, OPGAP_EV_FAULTS);
    ck_assert_uint_eq(of[i].status, expected[i].own ? OPGAP_EV_OP : 0);
    ck_assert_uint_ge(of[i].field[0], expected[i].least);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* they touch memory of their own */
    ck_assert_uint_lt(of[i].field[0], expected[i].below);
#endif
  }
  opgap_trace_close(trace);
  remove_folder();
}
END_TEST

/* ---- without an invariant counter: ticks are CLOCK_MONOTONIC ns, and stay what they are ---- */

static uint64_t monotonic_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define SLEEPS 3
static uint64_t (*brackets)[4]; /* shared: before the call, at its start, at its end, after it */

static void body_monotonic(void)
{
  setenv("OPGAP_TEST_CLOCK", "monotonic", 1);
  start();
  struct opgap_thread *thread = opgap_self();
  for (uint64_t i = 0; i < SLEEPS; i++) {
    brackets[i][0] = monotonic_ns();
    uint64_t begin = opgap_call_begin(thread, EV_CALL, i);
    brackets[i][1] = monotonic_ns();
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    brackets[i][2] = monotonic_ns();
    opgap_call_end(thread, EV_CALL, begin, i, i * 3, (uint32_t)i);
    brackets[i][3] = monotonic_ns();
  }
  opgap_session_end(0);
  _exit(opgap_clock_tsc ? 1 : 0);
}

START_TEST(clock_without_counter)
{
  brackets = mmap(NULL, SLEEPS * sizeof *brackets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(brackets, MAP_FAILED);
  struct opgap_trace *trace = trace_of(body_monotonic, 0);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_IN_ORDER), SLEEPS);
  unsigned i = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event != EV_CALL)
      continue;
    ck_assert_uint_ge(record->start_ns, brackets[i][0]);
    ck_assert_uint_le(record->start_ns, brackets[i][1]);
    ck_assert_uint_ge(record->end_ns, brackets[i][2]);
    ck_assert_uint_le(record->end_ns, brackets[i][3]);
    ck_assert_uint_ge(record->end_ns - record->start_ns, 20000000);
    i++;
  }
  ck_assert_uint_eq(i, SLEEPS);
  opgap_trace_close(trace);
  munmap(brackets, SLEEPS * sizeof *brackets);
  remove_folder();
}
END_TEST

/* ---- times on the line between anchors ---- */

#define M UINT64_C(1000000)

static struct opgap_anchor next_anchor;

static struct opgap_anchor told_anchor(const struct opgap_arena *unused)
{
  (void)unused;
  return next_anchor;
}

/* All in ticks and ns since the first anchor.  A call's value is what it is to begin at, its object where it is to end.
 */
static const struct line_call {
  uint64_t ticks[2], ns[2];
} line_calls[] = {
    {{1 * M, 9 * M}, {1 * M, 9 * M}},      /* a tick is a ns */
    {{8 * M, 9500000}, {8 * M, 9500000}},  /* stamped before the anchor that they are drained after */
    {{12 * M, 20 * M}, {11 * M, 15 * M}},  /* two ticks are one */
    {{4 * M, 14 * M}, {4 * M, 12 * M}},    /* two intervals ago, and one */
    {{16 * M, 25 * M}, {13 * M, 25 * M}},  /* a tick is two */
    {{10 * M, 30 * M}, {7500000, 35 * M}}, /* before the interval before: on the line from the first anchor there */
    {{30 * M, 40 * M}, {35 * M, 40 * M}},
};
static const struct line_drain {
  unsigned calls; /* that wait by then */
  struct opgap_anchor anchor;
} line_drains[] = {{1, {10 * M, 10 * M}}, {3, {20 * M, 15 * M}}, {5, {30 * M, 35 * M}}, {7, {40 * M, 40 * M}}};

static void body_time_line(void)
{
  start();
  opgap_self();
  struct opgap_arena *arena = opgap_state->arena;
  struct opgap_anchor first = arena->last_anchor = arena->first_anchor;
  arena->ticks_are_tsc = true;
  atomic_store(&opgap_state->flusher, 1); /* nobody else drains */
  for (unsigned d = 0, c = 0; d < sizeof line_drains / sizeof *line_drains; d++) {
    for (; c < line_drains[d].calls; c++)
      opgap_span(opgap_cell, EV_CALL, first.ticks + line_calls[c].ticks[0], first.ticks + line_calls[c].ticks[1],
                 first.ns + line_calls[c].ns[1], first.ns + line_calls[c].ns[0], 0);
    next_anchor = (struct opgap_anchor){first.ticks + line_drains[d].anchor.ticks, first.ns + line_drains[d].anchor.ns};
    if (opgap_consumer_drain(opgap_state->consumer, told_anchor, OPGAP_DRAIN_READY) < 0)
      _exit(1);
  }
  atomic_store(&opgap_state->flusher, 0);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(time_line)
{
  struct opgap_trace *trace = trace_of(body_time_line, 0);
  unsigned calls = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event != EV_CALL)
      continue;
    ck_assert_uint_eq(record->start_ns, record->field[1]);
    ck_assert_uint_eq(record->end_ns, record->field[0]);
    calls++;
  }
  ck_assert_uint_eq(calls, sizeof line_calls / sizeof *line_calls);
  forget(trace);
}
END_TEST

/* ---- SIGKILL ---- */

static void body_killed(void)
{
  stay_on_cpu();
  start();
  uint32_t outer = opgap_intern("outer", 5), inner = opgap_intern("inner", 5);
  opgap_op_begin(outer, 0, 1, 0);
  opgap_op_begin(inner, 7, 2, 0);
  for (uint64_t i = 0; i < 12345; i++)
    call(i);
  opgap_call_begin(opgap_self(), EV_CALL, 777);
  kill(getpid(), SIGKILL);
}

static void check_killed(void)
{
  struct opgap_trace *trace = open_trace();
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_int_eq(info->ended, OPGAP_ENDED_KILLED);
  ck_assert(info->complete);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_IN_ORDER), 12345);
  bool seen_call = false;
  unsigned open_ops = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event == OPGAP_EV_OPEN_CALL) {
      seen_call = true;
      ck_assert_uint_eq(record->field[0], EV_CALL);
      ck_assert_uint_eq(record->field[1], 777);
    } else if (record->event == OPGAP_EV_OPEN_OP) {
      ck_assert_str_eq(opgap_trace_name(trace, 0, record->field[0], NULL), open_ops ? "outer" : "inner");
      ck_assert_uint_eq(record->depth, open_ops ? 0 : 1);
      open_ops++;
    }
  }
  ck_assert(seen_call);
  ck_assert_uint_eq(open_ops, 2);
  opgap_trace_close(trace);
}

START_TEST(killed)
{
  make_trace_folder();
  ck_assert_int_eq(WTERMSIG(run_child(body_killed)), SIGKILL);
  check_killed(); /* from the ring, read in memory */
  ck_assert_int_eq(opgap_trace_recover(folder), 1);
  check_killed(); /* from the file, into which the ring was folded */
  ck_assert_int_eq(opgap_trace_recover(folder), 0);
  remove_folder();
}
END_TEST

/* What a process has said of its end counts, not when somebody looks. */
START_TEST(end_of_life)
{
  static struct opgap_arena arena;
  struct timespec now;
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
  ck_assert_int_eq(read(fd, arena.boot_id, 36), 36);
  close(fd);
  clock_gettime(CLOCK_MONOTONIC, &now);
  ck_assert_uint_ge(opgap_recover_anchor(&arena).ns, (uint64_t)now.tv_sec * 1000000000u);
  arena.last_anchor = (struct opgap_anchor){1000, 1000};
  arena.end_ticks = 5000;
  ck_assert_uint_eq(opgap_recover_anchor(&arena).ns, 5000);
  ck_assert_uint_eq(opgap_recover_anchor(&arena).ticks, 5000);
  arena.death_anchor = (struct opgap_anchor){7000, 7000};
  ck_assert_uint_eq(opgap_recover_anchor(&arena).ns, 7000); /* what was told once stays */
}
END_TEST

/* ---- threads and the flusher, killed at any moment ---- */

#define THREADS 3
static int report_fd;

static void *killed_worker(void *argument)
{
  (void)argument;
  for (uint64_t i = 0;; i++) {
    call(i);
    if (i % 64 == 0) { /* what is told here was committed before */
      uint64_t told[2] = {(uint64_t)opgap_self()->tid, i + 1};
      if (write(report_fd, told, sizeof told) != sizeof told)
        return NULL;
      struct timespec pause = {0, 20000}; /* some million records a second, as busy programs make */
      nanosleep(&pause, NULL);
    }
  }
}

static void body_threads(void)
{
  start();
  opgap_session_threads();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, killed_worker, NULL);
  pause();
}

START_TEST(killed_at_random)
{
  for (int round = 0; round < 20; round++) {
    make_trace_folder();
    int pipe_fd[2], status;
    ck_assert_int_eq(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
      close(pipe_fd[0]);
      report_fd = pipe_fd[1];
      body_threads();
    }
    close(pipe_fd[1]);
    struct {
      uint64_t tid, count;
    } told, last[THREADS] = {0};
    uint64_t messages = 0, stop_after = 1 + (uint64_t)(round * 37 % 400);
    while (read(pipe_fd[0], &told, sizeof told) == sizeof told) {
      for (int t = 0; t < THREADS; t++)
        if (last[t].tid == told.tid || last[t].tid == 0) {
          last[t].tid = told.tid;
          last[t].count = told.count;
          break;
        }
      if (++messages == stop_after)
        kill(pid, SIGKILL);
    }
    close(pipe_fd[0]);
    waitpid(pid, &status, 0);
    if (round % 2)
      ck_assert_int_eq(opgap_trace_recover(folder), 1);
    struct opgap_trace *trace = open_trace();
    const struct opgap_process_info *info = opgap_trace_process(trace, 0);
    ck_assert_int_eq(info->ended, OPGAP_ENDED_KILLED);
    ck_assert_uint_eq(info->lost_records, 0);
    for (unsigned s = 0; s < info->stream_count; s++) {
      uint64_t count = check_calls(trace, 0, s, TIMES_OF_ANCHORS); /* nothing twice, nothing missing in between */
      for (int t = 0; t < THREADS; t++)
        if (last[t].tid == (uint64_t)info->streams[s].tid)
          ck_assert_uint_ge(count, last[t].count);
    }
    opgap_trace_close(trace);
    opgap_trace_recover(folder);
    remove_folder();
  }
}
END_TEST

/* ---- fork ---- */

static void body_fork(void)
{
  stay_on_cpu();
  start();
  for (uint64_t i = 0; i < 10; i++)
    call(i);
  pid_t pid = fork();
  if (pid == 0) {
    for (uint64_t i = 0; i < 20; i++)
      call(i);
    opgap_session_end(3);
    _exit(3);
  }
  int status;
  waitpid(pid, &status, 0);
  for (uint64_t i = 10; i < 30; i++)
    call(i);
  opgap_session_end(WEXITSTATUS(status));
  _exit(WEXITSTATUS(status));
}

START_TEST(fork_child)
{
  struct opgap_trace *trace = trace_of(body_fork, 3);
  ck_assert_uint_eq(opgap_trace_process_count(trace), 2);
  ck_assert(!opgap_trace_process(trace, 0)->forked);
  ck_assert(opgap_trace_process(trace, 1)->forked);
  ck_assert_int_eq(opgap_trace_process(trace, 1)->ppid, opgap_trace_process(trace, 0)->pid);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_IN_ORDER), 30);
  ck_assert_uint_eq(all_calls(trace, 1, TIMES_IN_ORDER), 20);
  forget(trace);
}
END_TEST

/* ---- killed before it has a trace ---- */

static int told[2], killed_when[2]; /* pipes */

static void body_without_trace(void)
{
  char byte;
  start();
  struct opgap_arena *arena = opgap_state->arena;
  arena->trace_file[0] = '\0';
  if (write(told[1], arena->ring_file, sizeof arena->ring_file) != sizeof arena->ring_file ||
      read(killed_when[0], &byte, 1) != 1)
    _exit(1);
  raise(SIGKILL);
}

START_TEST(killed_before_it_has_a_trace)
{
  char ring[sizeof opgap_state->arena->ring_file] = "";
  int status;
  make_trace_folder();
  ck_assert(pipe(told) == 0 && pipe(killed_when) == 0);
  pid_t pid = fork();
  if (pid == 0)
    body_without_trace();
  close(told[1]); /* a child that ends early is told by that */
  ck_assert_int_eq(read(told[0], ring, sizeof ring), sizeof ring);
  ck_assert_int_eq(opgap_trace_recover(folder), 0);
  ck_assert_int_eq(access(ring, F_OK), 0); /* its process lives */
  ck_assert_int_eq(write(killed_when[1], "k", 1), 1);
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ck_assert_int_eq(opgap_trace_recover(folder), 0);
  ck_assert_int_eq(access(ring, F_OK), -1);
  close(told[0]);
  close_pipe(killed_when);
  remove_folder();
}
END_TEST

/* ---- guests: forked children before their session ---- */

/* Counts as a guest and tells of it; from the call `begins` on with a session of its own. */
static void count_and_tell(uint64_t begins)
{
  for (uint64_t i = 0;; i++) {
    if (i == begins)
      call(0);
    struct opgap_thread *slot = opgap_self_counting();
    opgap_count(slot, COUNTED, 10);
    if (slot == opgap_guest_slot() && opgap_guest_has_room())
      opgap_guest_span(EV_CALL, opgap_ticks(), opgap_ticks(), 0, 0);
    uint64_t said[2] = {(uint64_t)getpid(), i + 1};
    if (write(told[1], said, sizeof said) != sizeof said)
      _exit(1);
  }
}

static uint64_t guest_begins;
static_assert(OPGAP_GUEST_CALLS < OPGAP_SEGMENT_DATA / 40, "a guest has room for all of them");

static void body_guest_killed(void)
{
  start();
  call(0);
  pid_t pid = fork();
  if (pid == 0)
    count_and_tell(guest_begins);
  int status;
  waitpid(pid, &status, 0);
  opgap_session_end(WIFSIGNALED(status) ? 0 : 1);
  _exit(0);
}

struct counted {
  uint64_t counted, bytes, calls; /* of all streams */
};

static struct counted count_all(const struct opgap_trace *trace)
{
  struct counted sum = {0};
  for (unsigned p = 0; p < opgap_trace_process_count(trace); p++)
    for (unsigned s = 0; s < opgap_trace_process(trace, p)->stream_count; s++) {
      struct opgap_cursor *cursor = opgap_cursor_open(trace, p, s);
      const struct opgap_record *record;
      uint64_t counted = 0, bytes = 0;
      while ((record = opgap_cursor_next(cursor)) != NULL) {
        sum.calls += record->event == EV_CALL;
        if (record->event == OPGAP_EV_COUNTER && record->status == EV_COUNTED) {
          counted = record->field[0]; /* so far, on this thread */
          bytes = record->field[1];
        }
      }
      sum.counted += counted;
      sum.bytes += bytes;
      opgap_cursor_close(cursor);
    }
  return sum;
}

START_TEST(guest_killed_at_random)
{
  for (unsigned round = 0; round < 100; round++) {
    make_trace_folder();
    uint64_t stop_after = 1 + round * 37 % 90, said[2] = {0}, last = 0;
    guest_begins = round % 3 == 0 ? UINT64_MAX : round * 17 % 61; /* never; 0: at once */
    ck_assert_int_eq(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
      close(told[0]);
      body_guest_killed();
    }
    close(told[1]);
    while (read(told[0], said, sizeof said) == sizeof said) {
      last = said[1];
      if (last == stop_after)
        kill((pid_t)said[0], SIGKILL);
    }
    close(told[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    if (round % 2)
      opgap_trace_recover(folder);
    struct opgap_trace *trace = open_trace();
    struct counted sum = count_all(trace);
    bool has_session = opgap_trace_process_count(trace) == 2;
    uint64_t as_guest = guest_begins < OPGAP_GUEST_CALLS ? guest_begins : OPGAP_GUEST_CALLS;
    if (last < as_guest)
      ck_assert(!has_session);
    if (last > as_guest)
      ck_assert(has_session);
    ck_assert_uint_ge(sum.counted, last); /* nothing is missing, nothing twice */
    ck_assert_uint_le(sum.counted, last + 1);
    ck_assert_uint_ge(sum.bytes, sum.counted * 10);
    ck_assert_uint_le(sum.bytes, sum.counted * 10 + 10); /* killed between the two additions: the bytes come first */
    if (last < as_guest)
      as_guest = last;
    ck_assert_uint_ge(sum.calls, 1 + as_guest + (last > guest_begins));
    ck_assert_uint_le(sum.calls, 1 + as_guest + 1 + (last == guest_begins));
    for (unsigned p = 0; p < opgap_trace_process_count(trace); p++)
      ck_assert_uint_eq(opgap_trace_process(trace, p)->lost_records + opgap_trace_process(trace, p)->invalid_records,
                        0);
    opgap_trace_close(trace);
    opgap_trace_recover(folder);
    remove_folder();
  }
}
END_TEST

/* The parent's end finds a guest: 'k' the guest is killed, 'e' it ends, 'n' it ends without having counted. */
static char guest_fate;

static void body_guest_stays(void)
{
  start();
  call(0);
  if (fork() == 0) {
    char byte = 0;
    struct opgap_thread *slot = opgap_self_counting();
    for (int i = 0; i < 5 && guest_fate != 'n'; i++)
      opgap_count(slot, COUNTED, 10);
    pid_t self = getpid();
    if (write(told[1], &self, sizeof self) != sizeof self || read(killed_when[0], &byte, 1) != 1)
      _exit(1);
    opgap_session_end(0);
    _exit(0);
  }
  pid_t guest = 0;
  if (read(told[0], &guest, sizeof guest) != sizeof guest || write(told[1], &guest, sizeof guest) != sizeof guest)
    _exit(1);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(guest_outlives_its_parent)
{
  ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* no waiting for init to take the guest */
  for (const char *fate = "ken"; *fate; fate++) {
    guest_fate = *fate;
    make_trace_folder();
    ck_assert(pipe(told) == 0 && pipe(killed_when) == 0);
    ck_assert_int_eq(run_child(body_guest_stays), 0);
    pid_t guest = 0;
    ck_assert_int_eq(read(told[0], &guest, sizeof guest), sizeof guest);
    ck_assert_int_eq(opgap_trace_recover(folder), 0); /* the parent's ring is there, and left alone */
    close(told[1]);
    if (*fate == 'k')
      kill(guest, SIGKILL);
    else
      ck_assert_int_eq(write(killed_when[1], "e", 1), 1);
    ck_assert_int_eq(read(told[0], &guest, sizeof guest), 0); /* it has gone */
    int status;
    ck_assert_int_eq(waitpid(guest, &status, 0), guest);
    ck_assert_int_eq(WIFSIGNALED(status), *fate == 'k');
    ck_assert_int_eq(opgap_trace_recover(folder), *fate == 'k' ? 1 : 0);
    struct opgap_trace *trace = open_trace();
    ck_assert_uint_eq(opgap_trace_process_count(trace), *fate == 'e' ? 2 : 1);
    ck_assert_int_eq(opgap_trace_process(trace, 0)->ended, OPGAP_ENDED_CLEAN);
    ck_assert(opgap_trace_process(trace, 0)->complete);
    struct counted sum = count_all(trace);
    ck_assert_uint_eq(sum.counted, *fate == 'n' ? 0 : 5);
    ck_assert_uint_eq(sum.calls, 1);
    opgap_trace_close(trace);
    close_pipe(killed_when);
    close(told[0]);
    remove_folder();
  }
}
END_TEST

/* A guest that comes while its parent ends: it has seen the parent run, and is stopped before it takes a slot. */
static char *guarded;
static size_t guarded_bytes;

static void stopped_at_slot(int signal)
{
  char byte;
  (void)signal;
  if (mprotect(guarded, guarded_bytes, PROT_READ | PROT_WRITE) != 0 || write(told[1], "s", 1) != 1 ||
      read(killed_when[0], &byte, 1) != 1)
    _exit(1);
}

static void body_guest_comes_late(void)
{
  char byte;
  start();
  call(0);
  struct opgap_arena *host = opgap_state->arena;
  pid_t pid = fork();
  if (pid == 0) {
    guarded = (char *)opgap_arena_slot(host, 0);
    guarded_bytes = atomic_load(&host->slots_ready) * OPGAP_SLOT_BYTES;
    signal(SIGSEGV, stopped_at_slot);
    if (mprotect(guarded, guarded_bytes, PROT_NONE) != 0)
      _exit(1);
    struct opgap_thread *slot = opgap_self_counting();
    for (int i = 0; i < 5; i++)
      opgap_count(slot, COUNTED, 10);
    raise(SIGKILL);
  }
  int status;
  if (read(told[0], &byte, 1) != 1)
    _exit(2);
  opgap_session_end(0);
  if (write(killed_when[1], "e", 1) != 1 || waitpid(pid, &status, 0) != pid)
    _exit(3);
  _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 4);
}

START_TEST(guest_comes_while_its_parent_ends)
{
  make_trace_folder();
  ck_assert(pipe(told) == 0 && pipe(killed_when) == 0);
  ck_assert_int_eq(run_child(body_guest_comes_late), 0);
  opgap_trace_recover(folder);
  struct opgap_trace *trace = open_trace();
  ck_assert_uint_eq(opgap_trace_process_count(trace), 2); /* a session of its own: the parent's ring has gone */
  ck_assert_uint_eq(count_all(trace).counted, 5);
  opgap_trace_close(trace);
  close_pipe(told);
  close_pipe(killed_when);
  remove_folder();
}
END_TEST

/* The parent executes while it has a guest that has counted nothing yet: 'b' the guest ends before the next image
 * looks, 'e' after that, 'k' it is killed after that. */
#define NEXT_IMAGE "TEST_NEXT_IMAGE" /* "the guest's fate, the descriptor that it reads" */

static void body_guest_stays_over_exec(void)
{
  char next[16], session[sizeof folder + 2 * sizeof OPGAP_SESSION_EXECUTED], byte = 0;
  start();
  call(0);
  pid_t pid = fork();
  if (pid == 0) {
    if (opgap_guest_begin() == NULL || write(told[1], "g", 1) != 1 || read(killed_when[0], &byte, 1) != 1)
      _exit(1);
    struct opgap_thread *slot = opgap_self_counting();
    for (int i = 0; i < 5; i++)
      opgap_count(slot, COUNTED, 10);
    if (guest_fate == 'k')
      raise(SIGKILL);
    opgap_session_end(0);
    _exit(0);
  }
  if (read(told[0], &byte, 1) != 1)
    _exit(2);
  opgap_session_flush_exec();
  if (guest_fate == 'b' && (write(killed_when[1], "b", 1) != 1 || waitpid(pid, NULL, 0) != pid))
    _exit(3);
  snprintf(next, sizeof next, "%c%d", guest_fate, killed_when[1]);
  setenv(NEXT_IMAGE, next, 1);
  snprintf(session, sizeof session, "%s" OPGAP_SESSION_EXECUTED OPGAP_SESSION_EXECUTED,
           folder); /* one untraced in between */
  setenv("OPGAP_SESSION", session, 1);
  execl("/proc/self/exe", "next image", (char *)NULL);
  _exit(4);
}

/* This program as the next image, which records nothing.  Its status is whether the former image's ring is left. */
__attribute__((constructor)) static void next_image(void)
{
  const char *next = getenv(NEXT_IMAGE);
  char ring[64];
  if (next == NULL)
    return;
  opgap_session_start("test_record", hook_events, counters, 3);
  if (next[0] != 'b' && (write(atoi(next + 1), "n", 1) != 1 || wait(NULL) < 0))
    _exit(5);
  snprintf(ring, sizeof ring, "/dev/shm/opgap-%u-%d-exec.ring", getuid(), getpid());
  _exit(access(ring, F_OK) == 0);
}

START_TEST(guest_outlives_its_parents_program)
{
  for (const char *fate = "bek"; *fate; fate++) {
    guest_fate = *fate;
    make_trace_folder();
    ck_assert(pipe(told) == 0 && pipe(killed_when) == 0);
    int status = run_child(body_guest_stays_over_exec);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), *fate == 'k');
    ck_assert_int_eq(opgap_trace_recover(folder), *fate == 'k');
    struct opgap_trace *trace = open_trace();
    ck_assert_uint_eq(opgap_trace_process_count(trace), *fate == 'k' ? 1 : 2);
    ck_assert_int_eq(opgap_trace_process(trace, 0)->ended, OPGAP_ENDED_EXEC);
    struct counted sum = count_all(trace);
    ck_assert_uint_eq(sum.counted, 5);
    ck_assert_uint_eq(sum.calls, 1);
    opgap_trace_close(trace);
    close_pipe(told);
    close_pipe(killed_when);
    remove_folder();
  }
}
END_TEST

/* A guest is killed at each of its system calls while its session begins.  Its host ends, or is killed as well and
 * folded into its file, or read by the reader. */
static unsigned calls_before_kill;
static enum { HOST_ENDS, HOST_FOLDED, HOST_READ, HOSTS } host_fate;
enum { STOP_KILLED, STOP_ENDED, STOP_NO_PTRACE };

static void body_guest_killed_at_stop(void)
{
  int status;
  start();
  call(0);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 5; i++) {
      opgap_count(opgap_self_counting(), COUNTED, 10);
      if (opgap_guest_has_room())
        opgap_guest_span(EV_CALL, opgap_ticks(), opgap_ticks(), 0, 0);
    }
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
      _exit(STOP_NO_PTRACE);
    raise(SIGSTOP);
    call(0);
    _exit(STOP_ENDED);
  }
  waitpid(pid, &status, 0);
  for (unsigned i = 0; i <= 2 * calls_before_kill && WIFSTOPPED(status); i++) { /* it enters and leaves */
    ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
    waitpid(pid, &status, 0);
  }
  if (WIFSTOPPED(status)) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  if (calls_before_kill % 2) /* what it made of a file is ended before its host looks */
    opgap_trace_recover(folder);
  if (WIFEXITED(status))
    _exit(WEXITSTATUS(status));
  if (host_fate != HOST_ENDS)
    raise(SIGKILL);
  opgap_session_end(0);
  _exit(STOP_KILLED);
}

/* The part of the guest in the trace must be whole; is it the host's? */
static bool host_has_guest(void)
{
  bool adopted = false;
  struct opgap_trace *trace = open_trace();
  const struct opgap_process_info *host = opgap_trace_process(trace, 0);
  struct counted sum = count_all(trace);
  ck_assert_uint_eq(sum.counted, 5);
  ck_assert_uint_eq(sum.bytes, 50);
  ck_assert(sum.calls == 1 + 5 || sum.calls == 1 + 5 + 1);
  for (unsigned i = 0; i < host->stream_count; i++)
    adopted |= strcmp(host->streams[i].name, "forked child") == 0;
  opgap_trace_close(trace);
  return adopted;
}

/* A run with a host of this fate; false: the guest ended before it could be killed. */
static bool killed_at_call(unsigned fate, int *status)
{
  host_fate = fate;
  make_trace_folder();
  *status = run_child(body_guest_killed_at_stop);
  if (WIFEXITED(*status) && WEXITSTATUS(*status) != STOP_KILLED)
    return false;
  ck_assert_int_eq(WIFSIGNALED(*status), host_fate != HOST_ENDS);
  if (host_fate == HOST_FOLDED)
    opgap_trace_recover(folder);
  return true;
}

static void forget_run(void)
{
  opgap_trace_recover(folder);
  remove_folder();
}

START_TEST(guest_killed_while_its_session_begins)
{
  unsigned at_host = 0, at_home = 0;
  int status;
  bool adopted = true;
  /* to where the session takes over, in larger steps; from there on, and some calls before it, all */
  for (calls_before_kill = 0; adopted && killed_at_call(calls_before_kill % HOSTS, &status); calls_before_kill += 4) {
    adopted = host_has_guest();
    forget_run();
  }
  bool takes_over = !adopted;
  if (!takes_over)
    forget_run();
  if (!takes_over && WEXITSTATUS(status) == STOP_NO_PTRACE) {
    leave_out("guests killed while their sessions begin", "no ptrace");
    return;
  }
  ck_assert(takes_over);
  ck_assert_uint_gt(calls_before_kill, 12);
  for (calls_before_kill -= 12;; calls_before_kill++) {
    unsigned fate = 0;
    for (; fate < HOSTS && killed_at_call(fate, &status); fate++) {
      adopted = host_has_guest();
      at_host += adopted;
      at_home += !adopted;
      forget_run();
    }
    if (fate < HOSTS)
      break;
  }
  forget_run();
  ck_assert_int_eq(WEXITSTATUS(status), STOP_ENDED);
  ck_assert_uint_ge(at_host, HOSTS);
  ck_assert_uint_ge(at_home, HOSTS);
}
END_TEST

/* ---- exec ---- */

/* Until the exec is done other threads record, and the flusher may write that behind the end that was told. */
static void body_executes(void)
{
  stay_on_cpu();
  start();
  for (uint64_t i = 0; i < 10; i++)
    call(i);
  opgap_session_flush_exec();
  struct opgap_arena *arena = opgap_state->arena;
  if (!opgap_arena_is_drained(arena))
    _exit(1);
  for (uint64_t i = 10; i < 15; i++)
    call(i);
  if (opgap_arena_is_drained(arena))
    _exit(2);
  if (opgap_drain_now(OPGAP_DRAIN_ALL) != 5 || opgap_arena_is_drained(arena))
    _exit(3);
  if (opgap_recover_former_image(arena->ring_file) != 0) /* as the next image does */
    _exit(4);
  _exit(0);
}

START_TEST(written_behind_the_end_of_exec)
{
  struct opgap_trace *trace = trace_of(body_executes, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_int_eq(info->ended, OPGAP_ENDED_EXEC);
  ck_assert(info->complete);
  ck_assert_uint_eq(info->lost_records, 0);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_IN_ORDER), 15);
  opgap_trace_close(trace);
  ck_assert_int_eq(opgap_trace_recover(folder), 0);
  remove_folder();
}
END_TEST

/* ---- ops and counters ---- */

static void body_ops(void)
{
  start();
  struct opgap_thread *thread = opgap_self();
  uint32_t outer = opgap_intern("outer", 5), inner = opgap_intern("in\0er", 5);
  for (int i = 0; i < 3; i++) {
    opgap_op_begin(outer, 1, 10, 0);
    opgap_count(thread, 0, 100);
    opgap_op_begin(inner, 2, 11, 0);
    opgap_count(thread, COUNTED, 1000);
    opgap_count(thread, COUNTED_TOO, 1000);
    opgap_count(thread, FREED, 0);
    opgap_op_end(OPGAP_EV_OP, 11, 42);
    opgap_op_end(OPGAP_EV_OP, 10, 43);
  }
  opgap_op_begin(outer, 1, 20, 0);
  opgap_op_begin(inner, 1, 21, 0); /* never ended by itself: stale */
  opgap_op_end(OPGAP_EV_OP, 20, 44);
  opgap_op_end(OPGAP_EV_OP, 999, 0); /* never began */
  opgap_session_end(0);
  _exit(0);
}

START_TEST(ops_and_counters)
{
  struct opgap_trace *trace = trace_of(body_ops, 0);
  uint64_t ops = 0, calls = 0, bytes = 0, frees = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event == OPGAP_EV_COUNTER) {
      calls += record->field[0];
      bytes += record->field[1];
      frees += record->status == EV_FREED ? record->field[0] : 0;
    }
    if (record->event != OPGAP_EV_OP)
      continue;
    bool is_inner = ops < 6 && ops % 2 == 0; /* post-order */
    size_t length;
    const char *name = opgap_trace_name(trace, 0, record->field[0], &length);
    ck_assert_uint_eq(length, 5);
    ck_assert_int_eq(memcmp(name, is_inner ? "in\0er" : "outer", 5), 0);
    ck_assert_uint_eq(record->depth, is_inner ? 1 : 0);
    ck_assert_uint_eq(record->status, is_inner ? 2 : 1);
    ck_assert_uint_eq(record->field[1], ops == 6 ? 44 : is_inner ? 42 : 43);
    ck_assert_uint_eq(record->field[2], ops == 6 ? 0 : is_inner ? 2 : 3);
    ck_assert_uint_eq(record->field[3], ops == 6 ? 0 : is_inner ? 2000 : 2100);
    ck_assert_uint_eq(record->field[4], ops == 6 ? 0 : 1);
    ops++;
  }
  ck_assert_uint_eq(ops, 7);
  ck_assert_uint_eq(calls, 12);
  ck_assert_uint_eq(frees, 3);
  ck_assert_uint_eq(bytes, 6300);
  forget(trace);
}
END_TEST

/* What is learned of a call after it was counted and written: that it failed, so its bytes are void, and its time. */
static void body_counted_then_failed(void)
{
  start();
  struct opgap_thread *thread = opgap_self();
  call(0);
  opgap_count(thread, COUNTED, 10);
  opgap_count(thread, COUNTED_TOO, 20);
  if (opgap_drain_now(OPGAP_DRAIN_ALL) != 3)
    _exit(1);
  opgap_add(&thread->counters[COUNTED].bytes, 0 - UINT64_C(10));
  opgap_count_failed(thread, COUNTED);
  opgap_count_time(thread, COUNTED_TOO, 1000);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(counted_then_failed)
{
  struct opgap_trace *trace = trace_of(body_counted_then_failed, 0);
  uint64_t last[2][5] = {{0}};
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;)
    if (record->event == OPGAP_EV_COUNTER)
      memcpy(last[record->status == EV_COUNTED_TOO], record->field, sizeof *last);
  const uint64_t failed[4] = {1, 0, 1, 0}, timed[4] = {1, 20, 0, 1};
  ck_assert_mem_eq(last[0], failed, sizeof failed);
  ck_assert_mem_eq(last[1], timed, sizeof timed);
  ck_assert_uint_gt(last[1][4], 0);
  forget(trace);
}
END_TEST

#define COUNTS 20000u

static atomic_bool counts_made;

static void *make_counts(void *unused)
{
  struct opgap_thread *thread = opgap_self();
  for (uint64_t i = 0; i < COUNTS; i++) {
    call(i);
    opgap_count(thread, COUNTED, 10);
    opgap_count_failed(thread, COUNTED);
    opgap_count_time(thread, COUNTED, 0);
  }
  opgap_thread_dying();
  atomic_store(&counts_made, true);
  return unused;
}

static void body_counts_read_meanwhile(void)
{
  start();
  opgap_self();
  pthread_t thread;
  if (pthread_create(&thread, NULL, make_counts, NULL) != 0)
    _exit(1);
  while (!atomic_load(&counts_made))
    if (opgap_drain_enter(UINT64_C(1000000000))) {
      opgap_drain_now(OPGAP_DRAIN_READY);
      opgap_drain_leave();
    }
  pthread_join(thread, NULL);
  opgap_session_end(0);
  _exit(0);
}

/* A thread counts while the consumer writes its counts: each is read as it was at some moment (ThreadSanitizer runs
 * this test, too), and the last ones are all. */
START_TEST(counts_read_meanwhile)
{
  struct opgap_trace *trace = trace_of(body_counts_read_meanwhile, 0);
  uint64_t calls = 0, bytes = 0, failed = 0, timed = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event != OPGAP_EV_COUNTER || record->status != EV_COUNTED)
      continue;
    EACH_ASSERT_UINT(record->field[0], >=, calls);
    calls = record->field[0];
    bytes = record->field[1];
    failed = record->field[2];
    timed = record->field[3];
  }
  ck_assert_uint_eq(calls, COUNTS);
  ck_assert_uint_eq(bytes, COUNTS * 10);
  ck_assert_uint_eq(failed, COUNTS);
  ck_assert_uint_eq(timed, COUNTS);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_OF_ANCHORS), COUNTS);
  forget(trace);
}
END_TEST

/* ---- a full ring loses and says so ---- */

static void body_loss(void)
{
  stay_on_cpu();
  setenv("OPGAP_BUFFER", "1M", 1);
  start();
  atomic_store(&opgap_state->flusher, 1); /* nobody drains */
  uint64_t committed = 0;
  for (uint64_t i = 0; i < 100000; i++) {
    uint64_t before = atomic_load(&opgap_self()->write_pos);
    call(committed);
    committed += atomic_load(&opgap_self()->write_pos) != before;
  }
  atomic_store(&opgap_state->flusher, 0);
  opgap_session_end(0);
  _exit(committed < 100000 && committed > 5000 ? 0 : 1);
}

START_TEST(loss_is_counted)
{
  struct opgap_trace *trace = trace_of(body_loss, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_uint_gt(info->lost_records, 0);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_IN_ORDER) + info->lost_records, 100000);
  forget(trace);
}
END_TEST

/* ---- and why ---- */

#define HANDLED 3u /* calls of a signal handler */
#define TOO_DEEP 2u

static void body_reasons_of_loss(void)
{
  setenv("OPGAP_BUFFER", "1M", 1);
  start();
  struct opgap_cell *cell = (call(0), opgap_cell);
  uint32_t name = opgap_intern("deep", 4);
  cell->busy = UINTPTR_MAX; /* whatever lies below that on the stack interrupts it */
  for (unsigned i = 0; i < HANDLED; i++)
    call(1);
  cell->busy = 0;
  for (unsigned i = 0; i < OPGAP_MAX_DEPTH + TOO_DEEP; i++)
    opgap_op_begin(name, 0, i + 1, 0);
  atomic_store(&opgap_state->flusher, 1); /* nobody drains */
  for (uint64_t n = 1; atomic_load(&opgap_self()->lost) < 5; n++)
    call(n);
  atomic_store(&opgap_state->flusher, 0);
  opgap_session_end(0);
  _exit(0);
}

static void check_reasons(const struct opgap_process_info *info)
{
  ck_assert_uint_eq(info->lost_records, HANDLED + TOO_DEEP + 5);
  for (unsigned loss = 0; loss < OPGAP_LOSS_COUNT; loss++)
    ck_assert_uint_eq(info->lost_by[loss], loss == OPGAP_LOSS_NO_ROOM     ? 5
                                           : loss == OPGAP_LOSS_INTERRUPT ? HANDLED
                                           : loss == OPGAP_LOSS_TOO_DEEP  ? TOO_DEEP
                                                                          : 0);
}

START_TEST(losses_have_reasons)
{
  struct opgap_trace *trace = trace_of(body_reasons_of_loss, 0);
  check_reasons(opgap_trace_process(trace, 0));
  forget(trace);
}
END_TEST

/* As it stands while it runs, and when it was killed: the streams' chunks alone tell. */
static void body_killed_with_losses(void)
{
  start();
  struct opgap_cell *cell = (call(0), opgap_cell);
  cell->busy = UINTPTR_MAX;
  for (unsigned i = 0; i < HANDLED; i++)
    call(1);
  cell->busy = 0;
  call(1);
  raise(SIGKILL);
}

START_TEST(losses_of_the_killed_have_reasons)
{
  make_trace_folder();
  int status = run_child(body_killed_with_losses);
  ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  struct opgap_trace *trace = open_trace();
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_uint_eq(info->lost_records, HANDLED);
  ck_assert_uint_eq(info->lost_by[OPGAP_LOSS_INTERRUPT], HANDLED);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_OF_ANCHORS), 2);
  forget(trace);
}
END_TEST

/* A file without the feature does not tell why, whatever else is in it. */
START_TEST(older_files_have_losses_without_reasons)
{
  struct opgap_trace *trace = trace_of(body_reasons_of_loss, 0);
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", opgap_trace_process(trace, 0)->path);
  opgap_trace_close(trace);
  struct opgap_file_header header;
  int fd = open(path, O_RDWR);
  ck_assert_int_eq(pread(fd, &header, sizeof header, 0), sizeof header);
  ck_assert_uint_eq(header.features, OPGAP_FILE_HAS_CRC | OPGAP_FILE_TELLS_LOSS);
  header.features = OPGAP_FILE_HAS_CRC;
  header.header_crc = opgap_crc32(0, &header, offsetof(struct opgap_file_header, header_crc));
  ck_assert_int_eq(pwrite(fd, &header, sizeof header, 0), sizeof header);
  close(fd);
  trace = open_trace();
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert(info->complete);
  ck_assert_uint_eq(info->lost_by[OPGAP_LOSS_NO_ROOM], 0);
  ck_assert_uint_eq(info->lost_by[OPGAP_LOSS_UNKNOWN], 5);
  forget(trace);
}
END_TEST

/* ---- an op's two ways ---- */

struct op_case {
  uint32_t status;
  uint64_t sequence, allocs, bytes, frees;
  bool fits;
};
static const struct op_case op_cases[] = {
    {0, 7, 3, 100, 2, true},
    {15, OPGAP_NO_SEQUENCE, 0, 0, 0, true},
    {16, 0, 0, 0, 0, false},
    {1, INT32_MAX, (1u << OPGAP_SHORT_COUNT_BITS) - 1, UINT32_MAX, (1u << OPGAP_SHORT_COUNT_BITS) - 1, true},
    {1, (uint64_t)INT32_MAX + 1, 0, 0, 0, false},
    {1, 1, 1u << OPGAP_SHORT_COUNT_BITS, 0, 0, false},
    {1, 1, 1, (uint64_t)UINT32_MAX + 1, 0, false},
    {1, 1, 1, 0, 1u << OPGAP_SHORT_COUNT_BITS, false},
    {2, 9, 1, 1, 1, true},
};
#define OP_CASES (sizeof op_cases / sizeof *op_cases)

/* As torch's callbacks do it: begin and end of an op on this thread.  False: the record has the wrong size. */
static bool op_of_case(struct opgap_thread *thread, uint32_t name, unsigned n)
{
  const struct op_case *one = &op_cases[n];
  struct opgap_cell *cell = opgap_cell;
  opgap_op_begin_on(thread, name, one->status, n + 1, 0);
  opgap_add(&thread->counters[n % OPGAP_ALLOC_COUNTERS].calls, one->allocs);
  opgap_add(&thread->counters[(n + 4) % OPGAP_ALLOC_COUNTERS].bytes, one->bytes);
  opgap_add(&thread->counters[OPGAP_ALLOC_COUNTERS].calls, one->frees);
  const uint64_t *before = cell->write, *limit = cell->limit;
  opgap_op_end_on(cell, thread, OPGAP_EV_OP, n + 1, one->sequence);
  /* a segment that ends there, or whose upper half of the time does, has the record in full */
  return cell->limit != limit || cell->ticks_high != opgap_ticks() >> 32 ||
         cell->write - before == (one->fits ? OPGAP_SHORT_OP_WORDS : 9);
}

/* Every case inside an op that is open, once in each way. */
static void body_op_ways(void)
{
  start();
  struct opgap_thread *thread = opgap_self();
  opgap_config.alloc_end = OPGAP_ALLOC_COUNTERS;
  opgap_config.free_end = OPGAP_ALLOC_COUNTERS + 1;
  uint32_t name = opgap_intern("op", 2);
  opgap_op_begin(name, 0, 1000, 0);
  opgap_op_end(OPGAP_EV_OP, 1000, 0); /* there is a segment now */
  for (unsigned way = 0; way < 2; way++) {
    opgap_ops_usual = way == 1 && opgap_clock_tsc;
    opgap_op_begin_on(thread, name, 0, 100, 0);
    for (unsigned n = 0; n < OP_CASES; n++)
      if (!op_of_case(thread, name, n) || thread->depth != 1)
        _exit(10 + (int)n);
    opgap_op_begin_on(thread, name, 0, 101, 0);               /* never ended by itself: stale */
    opgap_op_end_on(opgap_cell, thread, OPGAP_EV_OP, 999, 0); /* never began */
    opgap_op_end_on(opgap_cell, thread, OPGAP_EV_OP, 100, 5);
    if (thread->depth != 0)
      _exit(2);
    for (unsigned n = 0; n <= OPGAP_MAX_DEPTH; n++)
      opgap_op_begin_on(thread, name, 0, 200 + n, 0);
    for (unsigned n = OPGAP_MAX_DEPTH + 1; n-- > 0;)
      opgap_op_end_on(opgap_cell, thread, OPGAP_EV_OP, 200 + n, 0);
  }
  opgap_ops_usual = false;
  _exit(atomic_load(&thread->too_deep) == 2 && thread->depth == 0 ? (opgap_session_end(0), 0) : 3);
}

START_TEST(op_ways)
{
  struct opgap_trace *trace = trace_of(body_op_ways, 0);
  const unsigned a_way = OP_CASES + 1 + OPGAP_MAX_DEPTH;
  unsigned ops = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event != OPGAP_EV_OP || ops++ == 0)
      continue;
    unsigned n = (ops - 2) % a_way;
    if (n < OP_CASES) {
      const struct op_case *one = &op_cases[n];
      const uint64_t want[] = {one->sequence, one->allocs, one->bytes, one->frees};
      ck_assert_uint_eq(record->depth, 1);
      ck_assert_uint_eq(record->status, one->status);
      for (unsigned f = 0; f < 4; f++)
        ck_assert_uint_eq(record->field[1 + f], want[f]);
    } else if (n == OP_CASES) {
      ck_assert_uint_eq(record->depth, 0);
      ck_assert_uint_eq(record->field[1], 5);
    } else {
      ck_assert_uint_eq(record->depth, OPGAP_MAX_DEPTH - (n - OP_CASES));
    }
    ck_assert_uint_le(record->start_ns, record->end_ns);
  }
  ck_assert_uint_eq(ops, 1 + 2 * a_way);
  forget(trace);
}
END_TEST

/* ---- the times of a loss, in each stream's own unit ---- */

static uint64_t *loss_brackets; /* shared: around the first loss of the process's stream, and around its announcement */

static bool write_sample(struct opgap_cell *cell)
{
  uint64_t *w = opgap_reserve(cell, 7);
  if (w == NULL)
    return false;
  memset(w, 0, 7 * sizeof *w);
  w[0] = OPGAP_WORD0(OPGAP_EV_MEMORY, 7, 0, 0);
  w[1] = opgap_clock_ns();
  opgap_commit(cell, w + 7);
  return true;
}

static void body_times_of_loss(void)
{
  setenv("OPGAP_BUFFER", "1M", 1);
  start();
  atomic_store(&opgap_state->flusher, 1); /* nobody drains */
  while (atomic_load(&opgap_self()->lost) < 3)
    call(1);
  struct opgap_cell *cell = opgap_cells;
  while (cell->thread != opgap_state->process_stream)
    cell++;
  loss_brackets[0] = opgap_clock_ns();
  while (write_sample(cell))
    ;
  loss_brackets[1] = opgap_clock_ns();
  if (!opgap_drain_enter(0))
    _exit(2);
  opgap_drain_now(OPGAP_DRAIN_READY);
  opgap_drain_leave();
  loss_brackets[2] = opgap_clock_ns();
  if (!write_sample(cell))
    _exit(3);
  loss_brackets[3] = opgap_clock_ns();
  call(1);
  atomic_store(&opgap_state->flusher, 0);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(times_of_a_loss)
{
  loss_brackets = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(loss_brackets, MAP_FAILED);
  const uint64_t *at = loss_brackets;
  struct opgap_trace *trace = trace_of(body_times_of_loss, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  uint64_t announced[4] = {0}; /* by the kind of stream */
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event != OPGAP_EV_LOST)
      continue;
    bool thread = info->streams[all.stream].kind == OPGAP_STREAM_THREAD;
    announced[info->streams[all.stream].kind] += record->field[0];
    ck_assert_uint_ge(record->start_ns, thread ? info->start_ns : at[0]);
    ck_assert_uint_le(record->start_ns, at[thread ? 0 : 1] + (thread ? ANCHOR_ERROR_NS : 0));
    ck_assert_uint_ge(record->end_ns, at[thread ? 3 : 2] - (thread ? ANCHOR_ERROR_NS : 0));
    if (!thread)
      ck_assert_uint_le(record->end_ns, at[3]);
  }
  ck_assert_uint_eq(announced[OPGAP_STREAM_THREAD], 3);
  ck_assert_uint_eq(announced[OPGAP_STREAM_PROCESS], 1);
  ck_assert_uint_eq(info->lost_records, 3);
  ck_assert_str_eq(opgap_trace_info(trace, 0, "lost_samples"), "1");
  opgap_trace_close(trace);
  munmap(loss_brackets, 4096);
  remove_folder();
}
END_TEST

/* ---- switched while it was about to execute ---- */

static void body_switched_in_a_failed_exec(void)
{
  char path[PATH_MAX];
  setenv("OPGAP_CONTROL", "idle", 1);
  start();
  if (opgap_active != OPGAP_GROUP_process || !opgap_session_flush_exec())
    _exit(1);
  snprintf(path, sizeof path, "%s/" OPGAP_CONTROL_FILE, opgap_session_folder());
  int fd = open(path, O_WRONLY | O_CREAT, 0600); /* `opgap start` finds no running process here */
  if (fd < 0 || write(fd, "1\n", 2) != 2)
    _exit(2);
  opgap_session_goes_on();
  bool on = opgap_active & OPGAP_GROUP_io;
  opgap_session_end(0);
  _exit(on ? 0 : 3);
}

START_TEST(switched_in_a_failed_exec)
{
  opgap_trace_close(trace_of(body_switched_in_a_failed_exec, 0));
  remove_folder();
}
END_TEST

/* ---- coroutines ---- */

#define COROUTINE_CALLS 1000u
#define COROUTINE_STACK (256u * 1024u)
static ucontext_t thread_context, maker, caller;

static void call_often(void)
{
  for (uint64_t i = 0; i < COROUTINE_CALLS; i++)
    call(i);
  setcontext(&maker);
}

static void make_a_record(void)
{
  uint64_t *w = opgap_reserve(opgap_cell, 5), now = opgap_ticks();
  swapcontext(&maker, &caller);
  const uint64_t words[5] = {OPGAP_WORD0(EV_CALL, 5, 0, 1), now, now, 1, 3};
  memcpy(w, words, sizeof words);
  opgap_commit(opgap_cell, w + 5);
  setcontext(&thread_context);
}

/* What a signal handler does that switches coroutines while one makes a record: the other, on the stack above, calls as
 * well, and the first one goes on with its record. */
static void *switch_in_a_record(void *unused)
{
  char *stacks = malloc(2 * COROUTINE_STACK);
  if (stacks == NULL || opgap_self() == NULL || getcontext(&maker) != 0 || getcontext(&caller) != 0)
    _exit(1);
  maker.uc_stack.ss_sp = stacks;
  caller.uc_stack.ss_sp = stacks + COROUTINE_STACK;
  maker.uc_stack.ss_size = caller.uc_stack.ss_size = COROUTINE_STACK;
  makecontext(&maker, make_a_record, 0);
  makecontext(&caller, call_often, 0);
  call(0);
  swapcontext(&thread_context, &maker);
  call(2);
  return unused;
}

static void body_coroutines(void)
{
  start();
  switch_in_a_record(NULL);
  opgap_session_end(0);
  _exit(0);
}

static void body_coroutines_of_a_thread(void)
{
  pthread_t thread;
  pthread_attr_t attributes;
  start();
  opgap_self();
  opgap_session_threads();
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16 << 20); /* the coroutines' stacks lie below it */
  if (pthread_create(&thread, &attributes, switch_in_a_record, NULL) != 0 || pthread_join(thread, NULL) != 0)
    _exit(1);
  opgap_session_end(0);
  _exit(0);
}

/* All calls of the second are counted as lost, and the record of the first is whole. */
static void check_coroutines(void (*body)(void))
{
  struct opgap_trace *trace = trace_of(body, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  uint64_t next = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;)
    if (record->event == EV_CALL) {
      ck_assert_uint_eq(record->field[0], next);
      ck_assert_uint_eq(record->field[1], next * 3);
      next++;
    }
  ck_assert_uint_eq(next, 3);
  ck_assert_uint_eq(info->lost_by[OPGAP_LOSS_INTERRUPT], COROUTINE_CALLS);
  ck_assert_uint_eq(info->lost_records, COROUTINE_CALLS);
  ck_assert_uint_eq(info->invalid_records, 0);
  ck_assert(info->complete);
  opgap_trace_close(trace);
  remove_folder();
}

START_TEST(coroutines_in_a_record)
{
  check_coroutines(body_coroutines);
}
END_TEST

START_TEST(coroutines_in_a_record_of_a_thread)
{
  check_coroutines(body_coroutines_of_a_thread);
}
END_TEST

/* ---- forked amid a record ---- */

/* A handler came between a segment's end and the drain, and forked without libc: its child goes on with memory that was
 * wiped, in which as much seems to wait as wants a drain, and has nothing to drain with. */
static void body_forked_before_a_drain(void)
{
  struct opgap_fork fork_of;
  int status = -1;
  start();
  call(0);
  struct opgap_cell *cell = opgap_cell;
  cell->busy = (uintptr_t)&fork_of;
  opgap_fork_begin(&fork_of);
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  opgap_fork_end(&fork_of);
  if (child == 0) {
    if (opgap_state->arena != fork_of.arena || atomic_load(&opgap_state->phase) != OPGAP_PHASE_NONE)
      _exit(1);
    atomic_store(&fork_of.thread->write_pos, UINT64_C(1) << 40);
    opgap_segment_filled(fork_of.thread, 1);
    _exit(atomic_load(&opgap_state->drain_lock) == 0 && atomic_load(&fork_of.thread->read_pos) == 0 ? 0 : 2);
  }
  cell->busy = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    _exit(1);
  call(1);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(forked_before_a_drain)
{
  struct opgap_trace *trace = trace_of(body_forked_before_a_drain, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_uint_eq(info->lost_records, 0);
  ck_assert_uint_eq(info->invalid_records, 0);
  uint64_t next = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;)
    if (record->event == EV_CALL)
      ck_assert_uint_eq(record->field[0], next++);
  ck_assert_uint_eq(next, 2);
  opgap_trace_close(trace);
  remove_folder();
}
END_TEST

/* ---- short records ---- */

#define SHORT_ROUNDS 20000u /* chunks end inside a segment: what a chunk holds in full, it holds short in less */
#define OBJECT_LIMIT (UINT64_C(1) << 48)
#define VALUE_LIMIT (UINT64_C(1) << 16)

struct short_case {
  unsigned event;
  uint64_t object, value;
  bool fits;
};
static const struct short_case short_cases[] = {
    {EV_CALL, OBJECT_LIMIT - 1, VALUE_LIMIT - 1, true},
    {EV_FREED, OBJECT_LIMIT - 16, 0, true},
    {EV_CALL, OBJECT_LIMIT, 1, false},
    {EV_CALL, 16, VALUE_LIMIT, false},
    {EV_FREED, UINT64_MAX, 0, false},
    {EV_FREED, 16, UINT64_MAX, false},
    {EV_COUNTED, 0, 0, true},
};
#define SHORT_CASES (sizeof short_cases / sizeof *short_cases)

/* As a hook does it: short if it fits, else in full.  Says whether it was what it should be; a segment's first record
 * is in full, and so are all without the processor's counter. */
static bool record_case(const struct short_case *one)
{
  struct opgap_thread *thread = opgap_self();
  struct opgap_cell *cell = opgap_cell;
  uint64_t before = thread->write_pos;
  bool fits = one->fits && opgap_clock_tsc && cell->limit != NULL && cell->write + OPGAP_SHORT_WORDS <= cell->limit &&
              cell->ticks_high == opgap_ticks() >> 32;
  if (opgap_short_record(cell, thread, one->event, one->object, one->value))
    return fits && thread->write_pos == before + 16 && cell->busy == 0;
  if (thread->write_pos != before || cell->busy != 0)
    return false;
  uint64_t now = opgap_ticks();
  if (one->event == EV_CALL)
    opgap_span(cell, one->event, now, now, one->object, one->value, 0);
  else
    opgap_point(thread, one->event, one->object, one->value, 0);
  return !fits || cell->ticks_high != now >> 32; /* that half may have turned over since it was asked */
}

static void body_short(void)
{
  stay_on_cpu();
  start();
  brackets[0][0] = monotonic_ns();
  for (unsigned i = 0; i < SHORT_ROUNDS; i++) {
    opgap_self()->depth = i % 200;
    for (unsigned k = 0; k < SHORT_CASES; k++)
      if (!record_case(&short_cases[k]))
        _exit(1);
  }
  /* another upper half of the time than the segment's: in full; busy: counted as nested, not recorded */
  struct opgap_thread *thread = opgap_self();
  struct opgap_cell *cell = opgap_cell;
  thread->depth = 0;
  uint64_t before = thread->write_pos;
  cell->ticks_high ^= UINT32_C(1) << 31; /* which no turn of the clock meanwhile makes the present one */
  if (opgap_short_record(cell, thread, EV_CALL, 1, 1) || cell->busy)
    _exit(2);
  uint32_t earlier = (uint32_t)(opgap_ticks() >> 32);
  opgap_segment_turn(cell); /* another segment, with the present half */
  uint32_t half = cell->ticks_high, later = (uint32_t)(opgap_ticks() >> 32);
  if (opgap_clock_tsc && (cell->busy || thread->write_pos == before || half - earlier > later - earlier))
    _exit(4);
  before = thread->write_pos;
  opgap_segment_turn(cell);
  if (thread->write_pos != before && cell->ticks_high == half)
    _exit(5);
  before = thread->write_pos;
  cell->busy = 1;
  if (opgap_short_record(cell, thread, EV_CALL, 1, 1) || cell->busy != 1 || thread->write_pos != before)
    _exit(3);
  cell->busy = 0;
  brackets[0][1] = monotonic_ns();
  opgap_session_end(0);
  _exit(0);
}

START_TEST(short_records)
{
  brackets = mmap(NULL, sizeof *brackets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(brackets, MAP_FAILED);
  struct opgap_trace *trace = trace_of(body_short, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_uint_eq(info->lost_records, 0);
  ck_assert_uint_eq(info->invalid_records, 0);
  uint64_t count = 0, last = brackets[0][0];
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    if (record->event < OPGAP_FIRST_HOOK)
      continue;
    const struct short_case *one = &short_cases[count % SHORT_CASES];
    EACH_ASSERT_UINT(record->event, ==, one->event);
    EACH_ASSERT_UINT(record->field[0], ==, one->object);
    EACH_ASSERT_UINT(record->field[1], ==, one->value);
    EACH_ASSERT_UINT(record->status, ==, 0);
    EACH_ASSERT_UINT(record->depth, ==, count / SHORT_CASES % 200);
    EACH_ASSERT_UINT(record->start_ns, ==, record->end_ns);
    EACH_ASSERT_UINT(record->end_ns + (count == 0 ? ANCHOR_ERROR_NS : 0), >=, last);
    last = record->end_ns;
    count++;
  }
  ck_assert_uint_le(last, brackets[0][1] + ANCHOR_ERROR_NS);
  ck_assert_uint_eq(count, SHORT_ROUNDS * SHORT_CASES);
  opgap_trace_close(trace);
  munmap(brackets, sizeof *brackets);
  remove_folder();
}
END_TEST

/* What is in a ring is checked: an event of no such size is invalid, and what comes behind it is not. */
START_TEST(record_sizes)
{
  static struct opgap_encoder encoder;
  static uint8_t out[OPGAP_ENCODE_BUFFER];
  const uint64_t words[] = {OPGAP_WORD0(EV_CALL, 2, 0, 7),
                            1 | UINT64_C(2) << 48,
                            OPGAP_WORD0(OPGAP_EV_OP, 2, 0, 0),
                            0, /* no hook: never short */
                            OPGAP_WORD0(EV_CALL, 3, 0, 0),
                            0,
                            0,
                            OPGAP_WORD0(900, 2, 0, 0),
                            0, /* unknown */
                            OPGAP_WORD0(0, 0, 0, 2),
                            0, /* padding */
                            OPGAP_WORD0(EV_FREED, 4, 0, 0),
                            9,
                            1,
                            2,
                            OPGAP_WORD0(EV_FREED, 4, 0, 0),
                            9,
                            1};
  const size_t count = sizeof words / sizeof *words;
  opgap_encoder_init(&encoder, hooks, sizeof hooks / sizeof *hooks);
  opgap_encode_begin(&encoder, NULL);
  ck_assert_uint_eq(opgap_encode_add(&encoder, words, count, 3, OPGAP_ENCODE_MAX_WORDS), count);
  struct opgap_encoded encoded = opgap_encode_end(&encoder, out);
  ck_assert_uint_eq(encoded.records, 2);
  ck_assert_uint_eq(encoded.invalid, 4);
  ck_assert_uint_eq(encoded.first_ns, 9);
  ck_assert_uint_eq(encoded.last_ns, (UINT64_C(3) << 32) + 7);
  /* room for the first one in full and for no other */
  opgap_encode_begin(&encoder, NULL);
  ck_assert_uint_eq(opgap_encode_add(&encoder, words, count, 3, 5), count - 7);
  encoded = opgap_encode_end(&encoder, out);
  ck_assert_uint_eq(encoded.records, 1);
  ck_assert_uint_eq(encoded.invalid, 3);
  ck_assert_uint_eq(encoded.first_ns, encoded.last_ns);
}
END_TEST

/* ---- many short threads: slots and segments are used again ---- */

#define SHORT_THREADS 3000
#define BATCH 16u /* of threads that end */

static void *short_thread(void *argument)
{
  (void)argument;
  for (uint64_t i = 0; i < 5; i++)
    call(i);
  opgap_count(opgap_self(), 0, 10);
  opgap_thread_dying();
  return NULL;
}

static void run_short_thread(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, short_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
    _exit(1);
}

/* Slots of threads that are gone, which the flusher has not given back yet. */
static unsigned slots_of_the_gone(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  unsigned count = 0;
  for (uint32_t i = 0; i < atomic_load(&arena->slots_high); i++) {
    uint32_t state = atomic_load(&opgap_arena_slot(arena, i)->state);
    count += state == OPGAP_SLOT_DYING || state == OPGAP_SLOT_ENDED;
  }
  return count;
}

/* However late the flusher runs: no more threads come than it may leave for a round. */
static void body_short_threads(void)
{
  start();
  opgap_self(); /* as pthread_create's hook does: the main thread is alive, so the flusher stays */
  opgap_session_threads();
  for (unsigned i = 0; i < SHORT_THREADS; i++) {
    run_short_thread();
    while (i % BATCH == 0 && slots_of_the_gone() >= BATCH) {
      opgap_session_wake();
      sched_yield();
    }
  }
  uint32_t slots = atomic_load(&opgap_state->arena->slots_high);
  opgap_session_end(0);
  _exit(slots <= 2 + 2 * BATCH ? 0 : 2); /* the process's and the main thread's; those left, and those that came */
}

/* A sleeping flusher is woken when as many have gone: until then their slots would not be used again. */
static void body_gone_threads_wake(void)
{
  start();
  opgap_self();
  struct opgap_arena *arena = opgap_state->arena;
  atomic_store(&opgap_state->flusher, 1); /* nobody drains */
  for (unsigned round = 0; round < 2; round++) {
    atomic_store(&arena->flusher_sleeps, OPGAP_FLUSHER_ASLEEP);
    for (unsigned i = 1; i < BATCH; i++)
      run_short_thread();
    if (atomic_load(&arena->flusher_sleeps) != OPGAP_FLUSHER_ASLEEP)
      _exit(2);
    run_short_thread();
    if (atomic_load(&arena->flusher_sleeps) != OPGAP_FLUSHER_AWAKE)
      _exit(3);
  }
  atomic_store(&opgap_state->flusher, 0);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(gone_threads_wake_the_flusher)
{
  forget(trace_of(body_gone_threads_wake, 0));
}
END_TEST

START_TEST(short_threads)
{
  struct opgap_trace *trace = trace_of(body_short_threads, 0);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  uint64_t calls = 0, counted = 0;
  struct records all = {.trace = trace};
  for (const struct opgap_record *record; (record = next_record(&all)) != NULL;) {
    calls += record->event == EV_CALL;
    if (record->event == OPGAP_EV_COUNTER)
      counted += record->field[0];
  }
  ck_assert_uint_eq(info->lost_records, 0);
  ck_assert_uint_eq(calls, 5 * SHORT_THREADS);
  ck_assert_uint_eq(counted, SHORT_THREADS);
  forget(trace);
}
END_TEST

/* ---- schedule ---- */

START_TEST(schedule_windows)
{
  struct opgap_schedule every = {0}, two = {.wait = 1, .warmup = 2, .active = 3, .repeat = 2};
  for (uint64_t step = 0; step < 20; step++) {
    ck_assert(opgap_schedule_has(&every, step));
    ck_assert_int_eq(opgap_schedule_has(&two, step), (step >= 3 && step < 6) || (step >= 9 && step < 12));
  }
  two.repeat = 0;
  ck_assert(opgap_schedule_has(&two, 6 * 1000 + 5));
  ck_assert(!opgap_schedule_has(&two, 6 * 1000 + 2));
}
END_TEST

static void body_schedule(void)
{
  setenv("OPGAP_SCHEDULE", "wait=1,warmup=0,active=2,repeat=1", 1);
  opgap_session_start("test_record", hook_events, counters, 3);
  for (uint64_t step = 0, number = 0; step < 6; step++) {
    if (opgap_active & OPGAP_GROUP_io)
      call(number++);
    opgap_schedule_step();
  }
  opgap_session_end(0);
  _exit(0);
}

START_TEST(schedule_records_active_steps)
{
  struct opgap_trace *trace = trace_of(body_schedule, 0);
  ck_assert_uint_eq(all_calls(trace, 0, TIMES_OF_ANCHORS), 2);
  forget(trace);
}
END_TEST

/* ---- the last segments ---- */

/* A thread that has no need of a short segment takes one where nothing else is left. */
static void body_last_segments(void)
{
  setenv("OPGAP_BUFFER", "1M", 1);
  start();
  opgap_self();
  struct opgap_arena *arena = opgap_state->arena;
  uint32_t crowd = arena->crowd, first;
  arena->crowd = 0; /* as if many lived */
  if ((first = opgap_segment_take(arena, true)) == 0 ||
      opgap_arena_segment(arena, first)->bytes != OPGAP_SHORT_SEGMENT_BYTES)
    _exit(1);
  arena->crowd = crowd;
  for (uint32_t place; (place = opgap_segment_take(arena, false)) != 0;)
    if (opgap_arena_segment(arena, place)->bytes != OPGAP_SEGMENT_BYTES) { /* the first that is short */
      if (place != first + 1)
        _exit(2);
      for (unsigned i = 2; (place = opgap_segment_take(arena, i % 2)) != 0; i++)
        if (opgap_arena_segment(arena, place)->bytes != OPGAP_SHORT_SEGMENT_BYTES ||
            (i < OPGAP_SHORTS_IN_BLOCK && place != first + i))
          _exit(3);
      opgap_session_end(0);
      _exit(0);
    }
  _exit(5);
}

START_TEST(last_segments)
{
  forget(trace_of(body_last_segments, 0));
}
END_TEST

/* ---- confinement ---- */

/* The flusher may run on where one thread alone gets a filter of system calls, and must not where all do. */
static void body_confined(void)
{
  start();
  opgap_self();
  opgap_session_threads();
  bool all = guest_fate == 'a';
  call(0);
  if (!opgap_session_confine(all) || opgap_session_confine(all))
    _exit(1);
  if (atomic_load(&opgap_state->flusher) != (all ? OPGAP_FLUSHER_NONE : OPGAP_FLUSHER_RUNS))
    _exit(2);
  call(1);
  raise(SIGKILL);
}

START_TEST(confined)
{
  for (const char *who = "ao"; *who; who++) {
    guest_fate = *who; /* all, or one */
    make_trace_folder();
    int status = run_child(body_confined);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%x", (unsigned)status);
    struct opgap_trace *trace = open_trace();
    ck_assert_uint_eq(all_calls(trace, 0, TIMES_OF_ANCHORS), 2);
    opgap_trace_close(trace);
    ck_assert_int_eq(opgap_trace_recover(folder), 1);
    remove_folder();
  }
}
END_TEST

/* ---- parts of the flight recorder outside of a schedule's windows ---- */

static void drain_all(void)
{
  if (!opgap_drain_enter(UINT64_C(60000000000)))
    _exit(1);
  opgap_drain_now(OPGAP_DRAIN_ALL);
  opgap_drain_leave();
}

/* Each drain begins a part; two of them come after the window was closed. */
static void body_parts_of_a_schedule(void)
{
  setenv("OPGAP_SCHEDULE", "wait=0,warmup=0,active=1,repeat=1", 1);
  setenv("OPGAP_KEEP", "0.000001", 1);
  start();
  call(0);
  drain_all();
  if (guest_fate == 'c')
    opgap_schedule_step();
  drain_all();
  drain_all();
  drain_all();
  opgap_session_end(0);
  _exit(0);
}

START_TEST(parts_of_a_schedule)
{
  for (const char *window = "co"; *window; window++) {
    guest_fate = *window; /* closed, or open */
    struct opgap_trace *trace = trace_of(body_parts_of_a_schedule, 0);
    unsigned off = 0, on = 0;
    struct records all = {.trace = trace};
    for (const struct opgap_record *record; (record = next_record(&all)) != NULL;)
      if (record->event == OPGAP_EV_RECORDING)
        *(record->status == 0 ? &off : &on) += 1;
    ck_assert_uint_gt(opgap_trace_process(trace, 0)->kept_from_ns, 0);
    ck_assert_uint_eq(on, 0);
    ck_assert_uint_eq(off > 0, *window == 'c');
    forget(trace);
  }
}
END_TEST

/* ---- whose opgap_active is ---- */

static bool by_vfork;
#ifdef __SANITIZE_THREAD__
enum { COPIES = 1 }; /* ThreadSanitizer makes a fork of every vfork */
#else
enum { COPIES = 2 };
#endif

/* With a control page over it, opgap_active is also what a copy of the process finds before it has a session, and what
 * the child of a vfork runs with: neither's schedule is the parent's. */
static void body_copy_opens(void)
{
  int status;
  setenv("OPGAP_CONTROL", "on", 1);
  start();
  uint32_t before = opgap_active;
  if (!opgap_control_mapped())
    _exit(1);
  pid_t pid = by_vfork ? vfork() : fork();
  if (pid == 0) {
    opgap_active_open(0);
    _exit(opgap_active == (by_vfork ? before : 0) ? 0 : 1);
  }
  if (waitpid(pid, &status, 0) != pid || status != 0)
    _exit(2);
  if (opgap_active != before)
    _exit(3);
  opgap_session_end(0);
  _exit(0);
}

START_TEST(copies_leave_it_alone)
{
  for (int i = 0; i < COPIES; i++) {
    by_vfork = i == 1;
    make_trace_folder();
    run_to_end(body_copy_opens, 0);
    remove_folder();
  }
}
END_TEST

/* ---- damage costs only itself ---- */

static void flip(const char *path, long at)
{
  FILE *file = fopen(path, "r+b");
  ck_assert_ptr_nonnull(file);
  fseek(file, at, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 0x55, file);
  fclose(file);
}

START_TEST(damaged_file)
{
  struct opgap_trace *trace = trace_of(body_clean, 5);
  char path[512];
  snprintf(path, sizeof path, "%s", opgap_trace_process(trace, 0)->path);
  opgap_trace_close(trace);
  struct stat status;
  ck_assert_int_eq(stat(path, &status), 0);
  flip(path, status.st_size / 2);
  trace = open_trace();
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert(!info->complete);
  ck_assert_uint_gt(info->damaged_bytes, 0);
  ck_assert_uint_gt(info->records, 50000);
  ck_assert_uint_lt(info->records, MANY_CALLS);
  check_damage(trace, 1);
  ck_assert_int_eq(info->ended, OPGAP_ENDED_CLEAN);
  opgap_trace_close(trace);
  ck_assert_int_eq(truncate(path, status.st_size - 10), 0);
  trace = open_trace();
  ck_assert_int_eq(opgap_trace_process(trace, 0)->ended, OPGAP_ENDED_UNKNOWN);
  opgap_trace_close(trace);
  ck_assert_int_eq(truncate(path, 0), 0);
  ck_assert_ptr_null(opgap_trace_open(path, error, sizeof error));
  ck_assert_ptr_nonnull(strstr(error, "empty"));
  remove_folder();
}
END_TEST

/* One line of each damaged file, in the files' order. */
START_TEST(damaged_files)
{
  struct opgap_trace *trace = trace_of(body_clean, 5);
  char paths[5][512];
  for (unsigned i = 1; i < 5; i++)
    run_to_end(body_clean, 5);
  opgap_trace_close(trace);
  trace = open_trace();
  ck_assert_uint_eq(opgap_trace_process_count(trace), 5);
  for (unsigned i = 0; i < 5; i++)
    snprintf(paths[i], sizeof paths[i], "%s", opgap_trace_process(trace, i)->path);
  opgap_trace_close(trace);
  flip(paths[1], 8);
  flip(paths[4], 8);
  trace = open_trace();
  unsigned at = 0;
  for (unsigned i = 1; i < 5; i += 3) {
    const char *line = opgap_trace_damage(trace, &at);
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(strncmp(line, paths[i], strlen(paths[i])), 0);
  }
  ck_assert_ptr_null(opgap_trace_damage(trace, &at));
  ck_assert_ptr_null(opgap_trace_damage(trace, &at));
  forget(trace);
}
END_TEST

/* Each byte of the file's header behind what says how to read it: told, and nothing else is lost. */
START_TEST(damaged_header)
{
  struct opgap_trace *trace = trace_of(body_clean, 5);
  char path[512];
  struct opgap_process_info before = *opgap_trace_process(trace, 0);
  snprintf(path, sizeof path, "%s", before.path);
  opgap_trace_close(trace);
  for (long at = 8; at < 64; at++) {
    if (at >= 12 && at < 16) /* who may read it: a newer opgap */
      continue;
    flip(path, at);
    trace = open_trace();
    const struct opgap_process_info *info = opgap_trace_process(trace, 0);
    ck_assert(!info->complete);
    ck_assert_uint_eq(info->damaged_bytes, 64);
    check_damage(trace, 1);
    ck_assert_uint_eq(info->records, before.records);
    ck_assert_uint_eq(info->start_ns, before.start_ns);
    ck_assert_int_eq(info->pid, before.pid);
    ck_assert_uint_eq(info->kept_from_ns, 0);
    opgap_trace_close(trace);
    flip(path, at);
  }
  trace = open_trace();
  ck_assert(opgap_trace_process(trace, 0)->complete);
  forget(trace);
}
END_TEST

/* Whether it tells reasons is in the header, and not to be believed where that is damaged. */
START_TEST(damaged_header_has_losses_without_reasons)
{
  struct opgap_trace *trace = trace_of(body_reasons_of_loss, 0);
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", opgap_trace_process(trace, 0)->path);
  check_reasons(opgap_trace_process(trace, 0));
  opgap_trace_close(trace);
  flip(path, 24);
  trace = open_trace();
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert(!info->complete);
  ck_assert_uint_eq(info->lost_by[OPGAP_LOSS_NO_ROOM], 0);
  ck_assert_uint_eq(info->lost_by[OPGAP_LOSS_UNKNOWN], 5);
  forget(trace);
}
END_TEST

/* Without its description nobody knows a process's time of day: it keeps its place on the clock of the others. */
START_TEST(damaged_description)
{
  struct opgap_trace *trace = trace_of(body_clean, 5);
  char path[512];
  struct opgap_process_info before = *opgap_trace_process(trace, 0);
  snprintf(path, sizeof path, "%s", before.path);
  opgap_trace_close(trace);
  run_to_end(body_clean, 5);
  flip(path, (long)(sizeof(struct opgap_file_header) + sizeof(struct opgap_chunk_header)) + 5);
  trace = open_trace();
  ck_assert_uint_eq(opgap_trace_process_count(trace), 2);
  const struct opgap_process_info *first = opgap_trace_process(trace, 0), *second = opgap_trace_process(trace, 1);
  if (second->pid == before.pid) {
    const struct opgap_process_info *other = first;
    first = second;
    second = other;
  }
  ck_assert(!first->complete);
  ck_assert_str_eq(first->boot_id, "");
  ck_assert(second->complete);
  ck_assert_str_ne(second->boot_id, "");
  ck_assert_uint_eq(first->start_ns, before.start_ns);
  ck_assert_uint_eq(first->end_ns, before.end_ns);
  ck_assert_int_eq(first->realtime_offset_ns, second->realtime_offset_ns);
  ck_assert_uint_gt(second->start_ns, before.start_ns);
  forget(trace);
}
END_TEST

/* The part before a file: without a sound header nobody knows whose it is. */
START_TEST(damaged_older_part)
{
  struct opgap_trace *trace = trace_of(body_clean, 5);
  char path[512], older[520];
  struct opgap_process_info before = *opgap_trace_process(trace, 0);
  snprintf(path, sizeof path, "%s", before.path);
  snprintf(older, sizeof older, "%s" OPGAP_OLDER_PART, path);
  opgap_trace_close(trace);
  struct opgap_file_header header;
  FILE *file = fopen(path, "rb");
  ck_assert_uint_eq(fread(&header, sizeof header, 1, file), 1);
  fclose(file);
  file = fopen(older, "wb");
  ck_assert_uint_eq(fwrite(&header, sizeof header, 1, file), 1);
  fclose(file);
  trace = open_trace(); /* as if the process had died while it began a part */
  ck_assert(opgap_trace_process(trace, 0)->complete);
  opgap_trace_close(trace);
  for (int cut = 0; cut < 2; cut++) {
    if (cut)
      ck_assert_int_eq(truncate(older, 10), 0);
    else
      flip(older, 24);
    trace = open_trace();
    const struct opgap_process_info *info = opgap_trace_process(trace, 0);
    ck_assert(!info->complete);
    ck_assert_uint_eq(info->damaged_bytes, cut ? 10 : 64);
    ck_assert_ptr_nonnull(strstr(check_damage(trace, 1), OPGAP_OLDER_PART ": its header"));
    ck_assert_uint_eq(info->records, before.records);
    opgap_trace_close(trace);
  }
  remove_folder();
}
END_TEST

/* ---- following a running process ---- */

#define PHASE 100000u /* calls: several chunks */
static int go[2], done[2];

static void body_followed(void)
{
  char byte;
  start();
  for (uint64_t i = 0; read(go[0], &byte, 1) == 1 && byte == 'g';) {
    for (uint64_t end = i + PHASE; i < end; i++)
      call(i);
    if (write(done[1], "d", 1) != 1)
      _exit(97);
  }
  opgap_session_end(3);
  _exit(3);
}

static void run_phase(void)
{
  char byte;
  ck_assert_int_eq(write(go[1], "g", 1), 1);
  ck_assert_int_eq(read(done[0], &byte, 1), 1);
}

static void refresh(struct opgap_trace *trace, uint64_t from_ns)
{
  ck_assert_msg(opgap_trace_refresh(trace, from_ns, error, sizeof error), "%s", error);
}

/* Number of the first call that the trace still has; all up to `end` must follow. */
static uint64_t first_call(const struct opgap_trace *trace, uint64_t end)
{
  struct opgap_cursor *cursor = opgap_cursor_open(trace, 0, 0);
  const struct opgap_record *record;
  uint64_t first = UINT64_MAX, next = 0;
  while ((record = opgap_cursor_next(cursor)) != NULL) {
    if (record->event != EV_CALL)
      continue;
    if (first == UINT64_MAX)
      first = next = record->field[0];
    EACH_ASSERT_UINT(record->field[0], ==, next);
    next++;
  }
  opgap_cursor_close(cursor);
  ck_assert_uint_eq(next, end);
  return first;
}

START_TEST(followed)
{
  make_trace_folder();
  ck_assert(pipe(go) == 0 && pipe(done) == 0);
  pid_t pid = fork();
  if (pid == 0)
    body_followed();
  run_phase();
  struct opgap_trace *trace = open_trace();
  ck_assert_int_eq(opgap_trace_process(trace, 0)->ended, OPGAP_ENDED_RUNNING);
  ck_assert_uint_eq(first_call(trace, PHASE), 0);
  refresh(trace, 0); /* nothing new */
  ck_assert_uint_eq(first_call(trace, PHASE), 0);
  run_phase();
  refresh(trace, 0); /* what the ring had comes from the file now, and nothing is there twice */
  ck_assert_uint_eq(first_call(trace, 2 * PHASE), 0);
  ck_assert_uint_eq(opgap_trace_process_count(trace), 1);
  uint64_t second_ended = monotonic_ns(), records = opgap_trace_process(trace, 0)->records;
  run_phase();
  refresh(trace, second_ended); /* only chunks with calls of the third phase are kept */
  uint64_t first = first_call(trace, 3 * PHASE);
  ck_assert_uint_gt(first, PHASE);
  ck_assert_uint_le(first, 2 * PHASE);
  ck_assert_uint_ge(opgap_trace_process(trace, 0)->records, records + PHASE); /* of the whole run */
  refresh(trace, monotonic_ns());
  ck_assert_uint_gt(first_call(trace, 3 * PHASE), first);
  /* another process joins, and the first one ends */
  run_to_end(body_clean, 5);
  ck_assert_int_eq(write(go[1], "e", 1), 1);
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(WEXITSTATUS(status), 3);
  refresh(trace, 0);
  ck_assert_uint_eq(opgap_trace_process_count(trace), 2);
  const struct opgap_process_info *info = opgap_trace_process(trace, 0);
  ck_assert_int_eq(info->pid, pid);
  ck_assert_int_eq(info->ended, OPGAP_ENDED_CLEAN);
  ck_assert_int_eq(info->exit_status, 3);
  ck_assert(info->complete);
  ck_assert_uint_eq(info->lost_records, 0);
  ck_assert_uint_eq(all_calls(trace, 1, TIMES_OF_ANCHORS), 100000);
  check_damage(trace, 0);
  /* the figures are those of the trace read at once */
  struct opgap_trace *whole = open_trace();
  ck_assert_uint_eq(info->records, opgap_trace_process(whole, 0)->records);
  ck_assert_uint_eq(info->end_ns, opgap_trace_process(whole, 0)->end_ns);
  ck_assert_uint_eq(info->stored_bytes, opgap_trace_process(whole, 0)->stored_bytes);
  opgap_trace_close(whole);
  remove_folder();
  ck_assert(!opgap_trace_refresh(trace, 0, error, sizeof error));
  ck_assert_ptr_nonnull(strstr(error, "No such file"));
  opgap_trace_close(trace);
  close_pipe(go);
  close_pipe(done);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("record");
  TCase *tests = new_case("line");
  tcase_add_test(tests, clean_end);
  tcase_add_test(tests, large_pages);
  tcase_add_test(tests, budget_of_lines);
  tcase_add_test(tests, stacks_of_late_threads);
  tcase_add_test(tests, faults_of_ops);
  tcase_add_test(tests, faults_of_windows);
  tcase_add_test(tests, clock_without_counter);
  tcase_add_test(tests, time_line);
  tcase_add_test(tests, killed);
  tcase_add_test(tests, killed_before_it_has_a_trace);
  tcase_add_test(tests, end_of_life);
  tcase_add_test(tests, killed_at_random);
  tcase_add_test(tests, fork_child);
  tcase_add_test(tests, written_behind_the_end_of_exec);
  tcase_add_test(tests, ops_and_counters);
  tcase_add_test(tests, op_ways);
  tcase_add_test(tests, counted_then_failed);
  tcase_add_test(tests, counts_read_meanwhile);
  tcase_add_test(tests, loss_is_counted);
  tcase_add_test(tests, losses_have_reasons);
  tcase_add_test(tests, losses_of_the_killed_have_reasons);
  tcase_add_test(tests, older_files_have_losses_without_reasons);
  tcase_add_test(tests, times_of_a_loss);
  tcase_add_test(tests, coroutines_in_a_record);
  tcase_add_test(tests, switched_in_a_failed_exec);
  tcase_add_test(tests, coroutines_in_a_record_of_a_thread);
  tcase_add_test(tests, forked_before_a_drain);
  tcase_add_test(tests, short_records);
  tcase_add_test(tests, record_sizes);
  tcase_add_test(tests, damaged_file);
  tcase_add_test(tests, damaged_files);
  tcase_add_test(tests, damaged_header);
  tcase_add_test(tests, damaged_header_has_losses_without_reasons);
  tcase_add_test(tests, damaged_description);
  tcase_add_test(tests, damaged_older_part);
  tcase_add_test(tests, followed);
  tcase_add_test(tests, short_threads);
  tcase_add_test(tests, gone_threads_wake_the_flusher);
  tcase_add_test(tests, schedule_windows);
  tcase_add_test(tests, schedule_records_active_steps);
  tcase_add_test(tests, copies_leave_it_alone);
  tcase_add_test(tests, last_segments);
  tcase_add_test(tests, confined);
  tcase_add_test(tests, parts_of_a_schedule);
  suite_add_tcase(suite, tests);
  TCase *guests = new_case("guests");
  tcase_add_test(guests, guest_killed_at_random);
  tcase_add_test(guests, guest_outlives_its_parent);
  tcase_add_test(guests, guest_comes_while_its_parent_ends);
  tcase_add_test(guests, guest_outlives_its_parents_program);
  tcase_add_test(guests, guest_killed_while_its_session_begins);
  suite_add_tcase(suite, guests);
  return run_suite(suite);
}
