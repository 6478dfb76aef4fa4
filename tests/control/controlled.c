/* A program that does what it is told, so that a test knows exactly what ran while recording was on.
 *
 * Commands, one a line, from the named pipe argv[1]; each is answered by a line on standard output:
 *   m N     N pairs of malloc(10) and free
 *   t       creates a thread that sleeps for ever
 *   s N     N times opgap_step
 *   r N     N times read of one byte
 *   f PIPE  forks; the child takes commands from PIPE
 *   d PIPE  the same, and this process ends
 *   x PIPE  starts this program anew with PIPE
 *   n PIPE  the same as the first process of a pid namespace of its own; the answer is -1 where that is not allowed
 *   c KIND  makes a child of this kind (below) and waits for its end
 *   b PIPE  forks a child that makes 50 short children of some kinds for each byte that it reads from PIPE
 *   q       ends
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../raw_clone.h"

#include <opgap/opgap.h>

static void *volatile block; /* keeps the pairs from being optimised away */

static void allocate(long count)
{
  for (long i = 0; i < count; i++) {
    block = malloc(10);
    free(block);
  }
}

static void *sleep_for_ever(void *unused)
{
  for (;;)
    pause();
  return unused;
}

static void read_bytes(long count)
{
  char byte;
  int fd = open("/dev/zero", O_RDONLY);
  for (long i = 0; i < count; i++)
    if (read(fd, &byte, 1) != 1)
      _exit(8);
  close(fd);
}

static void take_line(int fd, char *line, size_t size)
{
  size_t n = 0;
  while (n + 1 < size && read(fd, line + n, 1) == 1 && line[n] != '\n')
    n++;
  line[n] = '\0';
}

/* A number, or ok for 0; without allocations of its own. */
static void answer(int number)
{
  char line[32];
  int n = number ? snprintf(line, sizeof line, "%d\n", number) : snprintf(line, sizeof line, "ok\n");
  if (write(1, line, (size_t)n) != n)
    _exit(7);
}

static int open_pipe(const char *path)
{
  int fd = open(path, O_RDWR); /* never at its end */
  if (fd < 0)
    _exit(3);
  return fd;
}

/* ---- children of every kind ---- */

#define CHILD_ALLOCATES 7
static char *program;

static void give_up_counter(void)
{
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
}

static void execute(void)
{
  execl(program, program, (char *)NULL); /* ends with 2: it has no pipe */
}

static void execute_nothing(void)
{
  execl("/nonexistent", "nonexistent", (char *)NULL);
}

/* Nobody sees the call that makes this child. */
static pid_t unseen_fork(void)
{
  return (pid_t)raw_clone_child();
}

/* A child that has no memory for an opgap_active of its own. */
static pid_t poor_fork(void)
{
  struct rlimit before, none;
  getrlimit(RLIMIT_DATA, &before);
  none = (struct rlimit){4096, before.rlim_max};
  setrlimit(RLIMIT_DATA, &none);
  pid_t child = fork();
  if (child != 0)
    setrlimit(RLIMIT_DATA, &before);
  return child;
}

static void end_unseen(int status)
{
  syscall(SYS_exit_group, status);
}

static void end_killed(int status)
{
  kill(getpid(), SIGKILL);
  _exit(status);
}

static void be_child(long allocations, void (*act)(void), void (*end)(int))
{
  if (allocations > 0)
    allocate(allocations);
  if (act)
    act();
  end(2);
}

static const struct kind {
  const char *name;
  pid_t (*make)(void);
  long allocations;
  void (*act)(void);
  void (*end)(int);
} kinds[] = {
    {"exit", fork, CHILD_ALLOCATES, NULL, exit},
    {"_exit", fork, CHILD_ALLOCATES, NULL, _exit},
    {"_exit_at_once", fork, 0, NULL, _exit},
    {"quick_exit", fork, CHILD_ALLOCATES, NULL, quick_exit},
    {"killed", fork, CHILD_ALLOCATES, NULL, end_killed},
    {"unseen_end", fork, CHILD_ALLOCATES, NULL, end_unseen},
    {"exec", fork, CHILD_ALLOCATES, execute, _exit},
    {"failed_exec", fork, CHILD_ALLOCATES, execute_nothing, _exit},
    {"counter", fork, CHILD_ALLOCATES, give_up_counter, end_unseen},
    {"poor", poor_fork, CHILD_ALLOCATES, NULL, exit},
    {"poor_counter", poor_fork, 0, give_up_counter, _exit},
    {"unseen", unseen_fork, CHILD_ALLOCATES, NULL, _exit},
    {"unseen_exit", unseen_fork, 0, NULL, exit},
    {"unseen_exec", unseen_fork, 0, execute, _exit},
    {"unseen_counter", unseen_fork, 0, give_up_counter, _exit},
    {"unseen_killed", unseen_fork, 0, NULL, end_killed},
};

static void make_child(const char *name)
{
  int status = 0;
  bool vfork_executes = strcmp(name, "vfork_exec") == 0, vfork_counter = strcmp(name, "vfork_counter") == 0;
  if (strcmp(name, "spawn") == 0) {
    pid_t child;
    if (posix_spawn(&child, program, NULL, NULL, (char *[]){program, NULL}, environ) != 0 ||
        waitpid(child, &status, 0) != child)
      _exit(10);
  } else if (strcmp(name, "system") == 0) {
    status = system("exit 2");
  } else if (strncmp(name, "vfork", 5) == 0) {
    pid_t child = vfork();
    if (child == 0) {
      if (vfork_executes)
        execute();
      if (vfork_counter)
        give_up_counter();
      _exit(2);
    }
    if (waitpid(child, &status, 0) != child)
      _exit(11);
  } else {
    const struct kind *kind = kinds;
    while (strcmp(kind->name, name) != 0)
      if (++kind == kinds + sizeof kinds / sizeof *kinds)
        _exit(12);
    pid_t child = kind->make();
    if (child == 0)
      be_child(kind->allocations, kind->act, kind->end);
    if (waitpid(child, &status, 0) != child)
      _exit(13);
    if (kind->end == end_killed)
      status = WTERMSIG(status) == SIGKILL ? 2 << 8 : 0;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 2)
    _exit(14);
}

/* As many as the test asks for: if they came as fast as they can, a command that looks at all of them, on a machine
 * where it is late, would be later each time. */
static void make_children(int orders)
{
  static const char *const some[] = {"_exit", "exec", "failed_exec", "killed", "exit"};
  for (char order; read(orders, &order, 1) == 1;)
    for (unsigned i = 0; i < 50; i++)
      make_child(some[i % (sizeof some / sizeof *some)]);
}

/* Process 1 of a new pid namespace runs this program with PIPE; nobody waits for it.  False: not allowed. */
static bool start_in_namespace(const char *pipe)
{
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID) != 0)
      _exit(1);
    if (fork() == 0) {
      execl(program, program, pipe, (char *)NULL);
      _exit(6);
    }
    _exit(0);
  }
  return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
  char line[512];
  if (argc < 2)
    return 2;
  program = argv[0];
  for (int fd = open_pipe(argv[1]);;) {
    take_line(fd, line, sizeof line);
    const char *rest = line[0] ? line + 2 : line;
    pthread_t thread;
    if (line[0] == 'm')
      allocate(strtol(rest, NULL, 10));
    else if (line[0] == 'r')
      read_bytes(strtol(rest, NULL, 10));
    else if (line[0] == 'c')
      make_child(rest);
    else if (line[0] == 's')
      for (long i = strtol(rest, NULL, 10); i > 0; i--)
        opgap_step();
    else if (line[0] == 'b') {
      pid_t child = fork();
      if (child < 0)
        return 5;
      if (child == 0)
        make_children(open_pipe(rest));
      answer((int)child);
      continue;
    } else if (line[0] == 'n') {
      answer(start_in_namespace(rest) ? 0 : -1);
      continue;
    } else if (line[0] == 't' && pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0)
      return 4;
    else if (line[0] == 'f' || line[0] == 'd' || line[0] == 'x') {
      pid_t child = fork();
      if (child < 0)
        return 5;
      if (child > 0 && line[0] == 'd')
        _exit(0);
      if (child == 0 && line[0] == 'x') {
        execl(argv[0], argv[0], rest, (char *)NULL);
        _exit(6);
      }
      if (child == 0) {
        close(fd);
        fd = open_pipe(rest);
      }
      if (child > 0 || line[0] == 'd')
        answer(child > 0 ? (int)child : (int)getpid());
      continue;
    }
    answer(0);
    if (line[0] == 'q')
      return 0;
  }
}
