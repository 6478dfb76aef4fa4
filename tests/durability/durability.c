/* Kills victim.c in every way and place, and compares the trace with what the victim had told.
 *
 *   durability TRACER VICTIM CASE [ROUNDS]
 *
 * A case is a death and where it happens; `durability` alone lists them.  ROUNDS (default: 3, of random deaths 20)
 * differ in when it happens.  In each the trace must hold, for each thread, the calls 1, 2, ..., n without a gap, twice
 * or invented, with told <= n <= told + 1: the last call may have ended without being told.  Half of the rounds read
 * the rings in memory, the other half after they were folded into the file.
 *
 * Exit status: 0, 1 with what is wrong, 77 with the reason if this machine does not allow the case. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/recover.h"

enum { MAX_THREADS = 64, SKIPPED = 77, START_CALLS = 8 };

struct told {
  int32_t tid, pid;
  uint64_t number;
};

struct round {
  int number;
  char folder[64], trace[80];
  pid_t pid;       /* of the victim */
  int status;      /* of waitpid */
  char said[4096]; /* on stderr */
  struct told last[MAX_THREADS];
  unsigned threads;
  uint64_t messages;
};

enum ends { KILLED, CLEAN };

/* Where: what is arranged before the victim starts. */
enum place {
  ANYWHERE,
  SMALL_SHM,    /* /dev/shm of 1 MB */
  SMALL_DISK,   /* a trace folder with 64 KB of room */
  FILE_LIMIT,   /* RLIMIT_FSIZE of 20 KB, which no ring file fits either */
  READ_ONLY,    /* a trace folder on a read-only file system */
  DELETED,      /* the trace folder is deleted once the victim runs */
  LITTLE_MEMORY /* RLIMIT_AS and RLIMIT_DATA leave no room for rings */
};

/* What the trace holds of each thread. */
enum holds {
  ALL,        /* everything told */
  BEGINNINGS, /* a beginning of it: tracing stopped, or others went on while one ended */
  NOTHING     /* there is no trace */
};

/* When the signal comes. */
enum moment {
  AT_RANDOM,
  IN_WRITE, /* in the middle of a chunk's write */
  AT_START  /* at one of the first system calls after the trace file was made, a later one each round */
};

struct test {
  const char *name, *death;
  int signal; /* sent by us at a random moment; 0: none */
  enum place place;
  enum ends ends;
  int wait_status; /* of the victim: exit status << 8 or signal */
  enum holds holds;
  unsigned notices; /* lines on stderr */
  enum moment moment;
};

#define EXIT(status) ((status) << 8)

static const struct test tests[] = {
    {"sigkill", "wait", SIGKILL, ANYWHERE, KILLED, SIGKILL, ALL, 0, 0},
    {"start", "wait", SIGKILL, ANYWHERE, KILLED, SIGKILL, ALL, 0, AT_START},
    {"sigterm", "wait", SIGTERM, ANYWHERE, KILLED, SIGTERM, ALL, 0, 0},
    {"sigsegv", "segv", 0, ANYWHERE, KILLED, SIGSEGV, ALL, 0, 0},
    {"abort", "abort", 0, ANYWHERE, KILLED, SIGABRT, ALL, 0, 0},
    {"memory", "memory", 0, ANYWHERE, KILLED, SIGABRT, ALL, 0, 0},
    {"return", "return", 0, ANYWHERE, CLEAN, EXIT(21), ALL, 0, 0},
    {"thread_exit", "thread_exit", 0, ANYWHERE, CLEAN, EXIT(0), ALL, 0, 0},
    {"exit", "exit", 0, ANYWHERE, CLEAN, EXIT(21), BEGINNINGS, 0, 0},
    {"_exit", "_exit", 0, ANYWHERE, CLEAN, EXIT(21), BEGINNINGS, 0, 0},
    {"quick_exit", "quick_exit", 0, ANYWHERE, CLEAN, EXIT(21), BEGINNINGS, 0, 0},
    {"exec", "exec", 0, ANYWHERE, CLEAN, EXIT(21), BEGINNINGS, 0, 0},
    {"write", "wait", SIGKILL, ANYWHERE, KILLED, SIGKILL, ALL, 0, IN_WRITE},
    {"worker_write", "worker", SIGKILL, ANYWHERE, KILLED, EXIT(SIGKILL), ALL, 0, IN_WRITE},
    {"small_shm", "return", 0, SMALL_SHM, CLEAN, EXIT(21), ALL, 0, 0},
    {"small_shm_sigkill", "wait", SIGKILL, SMALL_SHM, KILLED, SIGKILL, ALL, 0, 0},
    {"small_disk", "return", 0, SMALL_DISK, CLEAN, EXIT(21), BEGINNINGS, 1, 0},
    {"file_limit", "return", 0, FILE_LIMIT, CLEAN, EXIT(21), BEGINNINGS, 2, 0},
    {"read_only", "return", 0, READ_ONLY, CLEAN, EXIT(21), NOTHING, 1, 0},
    {"deleted", "return", 0, DELETED, CLEAN, EXIT(21), NOTHING, 1, 0},
    {"closes", "closes", 0, ANYWHERE, CLEAN, EXIT(21), ALL, 0, 0},
    {"little_memory", "return", 0, LITTLE_MEMORY, CLEAN, EXIT(21), NOTHING, 1, 0},
};

static const struct test *test;
static const char *tracer, *victim;
static int failures;

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
  va_list arguments;
  failures++;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
}

static void die(const char *what)
{
  printf("%s: %s\n", what, strerror(errno));
  exit(2);
}

static void skip(const char *why)
{
  printf("skipped: %s: %s\n", why, strerror(errno));
  exit(SKIPPED);
}

/* ---- places ---- */

static void write_file(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY);
  if (fd < 0 || write(fd, text, strlen(text)) < 0)
    skip(path);
  close(fd);
}

/* Mounts of our own, as root or in a user namespace. */
static void own_mounts(void)
{
  if (unshare(CLONE_NEWNS) != 0) {
    char map[64];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      skip("no mount namespace");
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid);
    write_file("/proc/self/gid_map", map);
  }
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    skip("mounts cannot be made private");
}

static void mount_small(const char *where, const char *options)
{
  if (mount("opgap-test", where, "tmpfs", 0, options) != 0)
    skip("no tmpfs can be mounted");
}

static void arrange(struct round *round)
{
  if (test->place == SMALL_SHM)
    mount_small("/dev/shm", "size=1m");
  if (test->place == SMALL_DISK)
    mount_small(round->folder, "size=64k");
  if (test->place == READ_ONLY) {
    mount_small(round->folder, "size=1m");
    if (mount(NULL, round->folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
      skip("no read-only mount");
  }
}

static void clean_up(struct round *round)
{
  char command[128];
  if (test->place == SMALL_SHM)
    umount("/dev/shm");
  if (test->place == SMALL_DISK || test->place == READ_ONLY)
    umount(round->folder);
  snprintf(command, sizeof command, "rm -rf %s", round->folder);
  if (system(command) != 0)
    die(command);
}

/* In the victim, before it is executed. */
static void limit(void)
{
  struct rlimit bytes = {20000, 20000};
  if (test->place == FILE_LIMIT)
    setrlimit(RLIMIT_FSIZE, &bytes);
  if (test->place == LITTLE_MEMORY) {
    bytes.rlim_cur = bytes.rlim_max = 40 << 20; /* for libc, the tracer's code and the victim's stacks */
    setrlimit(RLIMIT_AS, &bytes);
    setrlimit(RLIMIT_DATA, &bytes);
  }
}

/* ---- running ---- */

static void start(struct round *round, unsigned threads, uint64_t count, int report, int errors)
{
  round->pid = fork();
  if (round->pid != 0)
    return;
  char thread_text[16], count_text[32], report_text[16];
  snprintf(thread_text, sizeof thread_text, "%u", threads);
  snprintf(count_text, sizeof count_text, "%llu", (unsigned long long)count);
  snprintf(report_text, sizeof report_text, "%d", report);
  fcntl(report, F_SETFD, 0);
  dup2(errors, 2);
  limit();
  if (test->moment == AT_START && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
    _exit(97);
  setenv("LD_PRELOAD", tracer, 1);
  setenv("OPGAP_OUT", round->trace, 1);
  execl(victim, victim, test->death, thread_text, count_text, report_text, (char *)NULL);
  _exit(98);
}

static void take(struct round *round, const struct told *told)
{
  round->messages++;
  for (unsigned i = 0; i < round->threads; i++)
    if (round->last[i].tid == told->tid && round->last[i].pid == told->pid) {
      if (told->number != round->last[i].number + 1)
        die("the victim miscounts");
      round->last[i] = *told;
      return;
    }
  if (round->threads == MAX_THREADS)
    die("too many threads");
  round->last[round->threads++] = *told;
}

/* The thread that writes the trace of a process, found by its name. */
static pid_t find_flusher(pid_t pid)
{
  char path[300], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  pid_t found = 0;
  for (struct dirent *entry; tasks && found == 0 && (entry = readdir(tasks)) != NULL;) {
    snprintf(path, sizeof path, "/proc/%d/task/%s/comm", pid, entry->d_name);
    FILE *file = fopen(path, "r");
    if (file && fgets(name, sizeof name, file) && strcmp(name, "opgap\n") == 0)
      found = atoi(entry->d_name);
    if (file)
      fclose(file);
  }
  if (tasks)
    closedir(tasks);
  return found;
}

/* Waits until the flusher stops, and lets the victim talk meanwhile. */
static int next_stop(struct round *round, int report, pid_t flusher)
{
  int status;
  struct told told;
  pid_t stopped;
  while ((stopped = waitpid(flusher, &status, __WALL | WNOHANG)) == 0) {
    struct pollfd waits = {.fd = report, .events = POLLIN};
    if (poll(&waits, 1, 1) > 0 && read(report, &told, sizeof told) == sizeof told)
      take(round, &told);
  }
  if (stopped != flusher || !WIFSTOPPED(status))
    die("waiting for the flusher");
  return WSTOPSIG(status);
}

/* Lets the flusher write half of a chunk, then kills its process: the write call is shortened as it begins, and when it
 * ends the half is in the file. */
static void kill_in_write(struct round *round, int report, pid_t pid, unsigned chunks)
{
#if defined(__x86_64__)
  pid_t flusher = find_flusher(pid);
  for (int wait = 0; flusher == 0 && wait < 5000; wait++) { /* it is about to start */
    usleep(1000);
    flusher = find_flusher(pid);
  }
  if (flusher == 0)
    die("no flusher");
  if (ptrace(PTRACE_SEIZE, flusher, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0)
    skip("no ptrace");
  ptrace(PTRACE_INTERRUPT, flusher, NULL, NULL);
  int halved = 0;
  for (;;) {
    struct user_regs_struct registers;
    if (next_stop(round, report, flusher) == (SIGTRAP | 0x80) &&
        ptrace(PTRACE_GETREGS, flusher, NULL, &registers) == 0) {
      int enters = (long long)registers.rax == -ENOSYS;
      if (halved && registers.rax != registers.rdx)
        die("no half of a chunk could be written");
      if (halved)
        break;
      if (enters && registers.orig_rax == SYS_write && registers.rdx > 64 && --chunks == 0) {
        registers.rdx /= 2;
        halved = ptrace(PTRACE_SETREGS, flusher, NULL, &registers) == 0;
      }
    }
    ptrace(PTRACE_SYSCALL, flusher, NULL, NULL);
  }
  kill(pid, SIGKILL);
  waitpid(flusher, NULL, __WALL); /* a traced thread is a child of ours as well */
#else
  (void)round, (void)report, (void)pid, (void)chunks;
  errno = ENOSYS;
  skip("system calls can be shortened on x86-64 only");
#endif
}

/* Kills the victim, which is stopped by its execve, at the system call with this number after it made its trace file.
 */
static void kill_at_start(const struct round *round, int number)
{
#if defined(__x86_64__)
  int status, after = -1;
  if (waitpid(round->pid, &status, 0) != round->pid || !WIFSTOPPED(status))
    skip("no ptrace");
  ptrace(PTRACE_SETOPTIONS, round->pid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
  for (;;) {
    struct user_regs_struct registers;
    ptrace(PTRACE_SYSCALL, round->pid, NULL, NULL);
    if (waitpid(round->pid, &status, 0) != round->pid || !WIFSTOPPED(status))
      die("the victim ended before it made a trace file");
    if (WSTOPSIG(status) != (SIGTRAP | 0x80) || ptrace(PTRACE_GETREGS, round->pid, NULL, &registers) != 0)
      continue;
    bool entered = (long long)registers.rax == -ENOSYS;
    if (entered && after == number)
      break;
    after += entered && after >= 0;
    if (!entered && after < 0 && registers.orig_rax == SYS_openat && (long long)registers.rax >= 0 &&
        (registers.rdx & (O_CREAT | O_EXCL | O_APPEND)) == (O_CREAT | O_EXCL | O_APPEND))
      after = 0;
  }
  kill(round->pid, SIGKILL);
#else
  (void)round, (void)number;
  errno = ENOSYS;
  skip("system calls are counted on x86-64 only");
#endif
}

/* Reads what the victim tells until it is dead; kills it where the test says so. */
static void listen_to(struct round *round, int report, uint64_t kill_after)
{
  struct told told;
  while (read(report, &told, sizeof told) == sizeof told) {
    take(round, &told);
    if (test->place == DELETED && round->messages == 100) {
      char command[128];
      snprintf(command, sizeof command, "rm -rf %s", round->trace);
      if (system(command) != 0)
        die(command);
    }
    if (test->signal && round->messages == kill_after) {
      if (test->moment == IN_WRITE)
        kill_in_write(round, report, told.pid, 1 + (unsigned)round->number % 3);
      else
        kill(round->pid, test->signal);
    }
  }
}

static void run(struct round *round)
{
  int report[2], errors[2];
  if (pipe2(report, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0)
    die("pipe");
  uint64_t moment = 1 + (uint64_t)random() % 6000;
  unsigned threads = 1 + (unsigned)round->number % 4;
  if (test->moment == IN_WRITE && threads == 1)
    threads = 2; /* there is no flusher without threads */
  uint64_t count = test->signal ? 0 : test->place == ANYWHERE ? moment : test->place == SMALL_DISK ? 100000 : 20000;
  start(round, threads, count, report[1], errors[1]);
  close(report[1]);
  close(errors[1]);
  if (test->moment == AT_START)
    kill_at_start(round, round->number);
  listen_to(round, report[0], moment);
  close(report[0]);
  if (waitpid(round->pid, &round->status, 0) != round->pid)
    die("waitpid");
  ssize_t n = read(errors[0], round->said, sizeof round->said - 1);
  round->said[n > 0 ? n : 0] = 0;
  close(errors[0]);
  if (round->status != test->wait_status)
    fail("wait status %#x, not %#x", round->status, test->wait_status);
  unsigned lines = 0;
  for (const char *at = round->said; *at; at++)
    lines += *at == '\n';
  if (lines != test->notices)
    fail("%u lines on stderr, not %u: %s", lines, test->notices, round->said);
}

/* ---- comparing ---- */

static uint64_t told_by(const struct round *round, int pid, int tid)
{
  for (unsigned i = 0; i < round->threads; i++)
    if (round->last[i].pid == pid && round->last[i].tid == tid)
      return round->last[i].number;
  return 0;
}

/* The number of calls 1, 2, 3, ... that a stream holds. */
static uint64_t calls_of(const struct opgap_trace *trace, unsigned process, unsigned stream)
{
  struct opgap_cursor *cursor = opgap_cursor_open(trace, process, stream);
  const struct opgap_record *record;
  uint64_t calls = 0;
  while ((record = opgap_cursor_next(cursor)) != NULL) {
    const struct opgap_event *event = opgap_trace_event(trace, process, record->event);
    if (event == NULL || strcmp(event->name, "pwrite") != 0)
      continue;
    calls++;
    if (record->field[1] != calls || record->status != 0 ||
        strcmp(opgap_trace_name(trace, process, record->field[0], NULL), "/dev/null") != 0) {
      fail("call %llu of the trace is number %llu, status %u", (unsigned long long)calls,
           (unsigned long long)record->field[1], record->status);
      break;
    }
  }
  opgap_cursor_close(cursor);
  return calls;
}

static void compare_process(struct round *round, const struct opgap_trace *trace, unsigned process)
{
  const struct opgap_process_info *info = opgap_trace_process(trace, process);
  bool ended_by_exec = process > 0 && opgap_trace_process(trace, process - 1)->ended == OPGAP_ENDED_EXEC;
  if (info->lost_records || info->invalid_records || info->damaged_bytes || !info->complete)
    if (test->holds == ALL)
      fail("%slost %llu, invalid %llu, damaged bytes %llu", info->complete ? "" : "incomplete, ",
           (unsigned long long)info->lost_records, (unsigned long long)info->invalid_records,
           (unsigned long long)info->damaged_bytes);
  bool stopped = opgap_trace_info(trace, process, "stopped") != NULL;
  if (stopped != (test->place == SMALL_DISK || test->place == FILE_LIMIT))
    fail("the trace says that tracing %s", stopped ? "stopped" : "did not stop");
  for (unsigned s = 0; s < info->stream_count; s++) {
    const struct opgap_stream_info *stream = &info->streams[s];
    bool left = stream->tid == info->pid && test->place == ANYWHERE; /* the thread that ended the process */
    uint64_t calls = calls_of(trace, process, s), told = told_by(round, info->pid, stream->tid);
    if (ended_by_exec && stream->kind == OPGAP_STREAM_THREAD)
      told = 5; /* the second program tells nothing */
    if (calls > told + 1)
      fail("thread %d told of %llu calls, the trace holds %llu", stream->tid, (unsigned long long)told,
           (unsigned long long)calls);
    if (calls < told && (test->holds == ALL || left))
      fail("thread %d told of %llu calls, the trace holds only %llu", stream->tid, (unsigned long long)told,
           (unsigned long long)calls);
    for (unsigned i = 0; i < round->threads; i++)
      if (round->last[i].pid == info->pid && round->last[i].tid == stream->tid)
        round->last[i].number = 0; /* accounted for */
  }
}

static void compare(struct round *round)
{
  char error[512];
  struct opgap_trace *trace = opgap_trace_open(round->trace, error, sizeof error);
  if (test->holds == NOTHING) {
    if (trace != NULL)
      fail("there is a trace");
    opgap_trace_close(trace);
    return;
  }
  if (trace == NULL) {
    fail("%s", error);
    return;
  }
  unsigned killed = 0, clean = 0, exec = 0;
  for (unsigned p = 0; p < opgap_trace_process_count(trace); p++) {
    enum opgap_ended ended = opgap_trace_process(trace, p)->ended;
    killed += ended == OPGAP_ENDED_KILLED;
    clean += ended == OPGAP_ENDED_CLEAN;
    exec += ended == OPGAP_ENDED_EXEC;
    compare_process(round, trace, p);
  }
  unsigned executes = strcmp(test->death, "exec") == 0, parent = strcmp(test->death, "worker") == 0;
  if (killed != (test->ends == KILLED) || clean != (test->ends == CLEAN) + parent || exec != executes)
    fail("processes: %u killed, %u clean, %u executed another program", killed, clean, exec);
  for (unsigned i = 0; i < round->threads; i++)
    if (round->last[i].number > 0 && test->holds == ALL)
      fail("thread %d is not in the trace", round->last[i].tid);
  opgap_trace_close(trace);
}

static void one_round(int number)
{
  struct round round = {.number = number};
  strcpy(round.folder, "/tmp/opgap-durability-XXXXXX");
  if (mkdtemp(round.folder) == NULL)
    die("mkdtemp");
  snprintf(round.trace, sizeof round.trace, "%s/t.opgap", round.folder);
  arrange(&round);
  run(&round);
  if ((number % 2 || test->moment == AT_START) && test->ends == KILLED && opgap_trace_recover(round.trace) != 1)
    fail("not one ring to fold into the trace");
  int before = failures;
  compare(&round);
  if (failures > before)
    printf("in round %d of %s, %llu messages, stderr: %s\n", number, test->name, (unsigned long long)round.messages,
           round.said);
  opgap_trace_recover(round.trace);
  clean_up(&round);
}

int main(int argc, char **arguments)
{
  if (argc < 4) {
    for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
      printf("%s\n", tests[i].name);
    return argc == 1 ? 0 : 2;
  }
  tracer = arguments[1];
  victim = arguments[2];
  for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
    if (strcmp(tests[i].name, arguments[3]) == 0)
      test = &tests[i];
  if (test == NULL)
    die(arguments[3]);
  int rounds = argc > 4                                    ? atoi(arguments[4])
               : test->moment == AT_START                  ? START_CALLS
               : test->signal && test->moment == AT_RANDOM ? 20
                                                           : 3;
  srandom((unsigned)time(NULL));
  if (test->place == SMALL_SHM || test->place == SMALL_DISK || test->place == READ_ONLY)
    own_mounts();
  for (int round = 0; round < rounds; round++)
    one_round(round);
  printf("%d rounds of %s, %d failures\n", rounds, test->name, failures);
  return failures != 0;
}
