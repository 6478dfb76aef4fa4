/* Signal handlers that interrupt hooks, jumps out of them, errno. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICKS = 500, JUMPS = 300, AFTER = 20000, STACK = 64 * 1024, FORKS = 150, WRITES = 20 };
static volatile sig_atomic_t ticks;
static int null, zero;
static jmp_buf back;

static void on_tick(int signal)
{
  (void)signal;
  int saved = errno;
  char byte;
  if (ticks == TICKS) /* one that was pending when the timer was stopped */
    return;
  if (++ticks == TICKS) {
    struct itimerval stop = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &stop, NULL);
  }
  if (read(zero, &byte, 1) != 1 || write(null, "x", 1) != 1)
    _exit(9);
  errno = saved;
}

static void on_alarm(int signal)
{
  (void)signal;
  longjmp(back, 1);
}

/* Handlers during hooks: every read and write of the TICKS handlers is either recorded or, when it comes in the middle
 * of a record, counted as lost; none damages another. */
static int storm(void)
{
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &timer, NULL);
  char byte;
  for (int i = 0; ticks < TICKS; i++) {
    errno = i;
    if (pread(zero, &byte, 1, 0) != 1 || errno != i)
      return 1;
    free(malloc(10));
  }
  return 0;
}

/* A jump out of a blocking read: that span is not there, the next ones are. */
static int jump(void)
{
  int ends[2];
  char byte = 0;
  if (pipe(ends) < 0)
    return 3;
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
  sigaction(SIGALRM, &action, NULL);
  if (setjmp(back) == 0) {
    ualarm(20000, 0);
    if (read(ends[0], &byte, 1) != 99)
      return 4;
  }
  return pwrite(null, "abc", 3, 0) == 3 ? 0 : 5;
}

static void *blocks(void *fd)
{
  char byte;
  return (void *)read(*(int *)fd, &byte, 1);
}

/* A cancelled read. */
static int cancel(void)
{
  int ends[2];
  pthread_t t;
  void *result;
  if (pipe(ends) < 0 || pthread_create(&t, NULL, blocks, &ends[0]) != 0)
    return 6;
  usleep(20000);
  pthread_cancel(t);
  return pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED ? 0 : 7;
}

/* The storm on a thread whose handlers have a stack of their own, at higher addresses than the thread's. */
static void *storm_beside(void *stack)
{
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  stack_t other = {.ss_sp = stack, .ss_size = STACK};
  if (sigaltstack(&other, NULL) != 0 || pthread_sigmask(SIG_UNBLOCK, &alarms, NULL) != 0)
    return stack;
  return storm() == 0 ? NULL : stack;
}

static int other_stack(void)
{
  sigset_t alarms;
  pthread_t t;
  pthread_attr_t attributes;
  void *result;
  char *stacks = mmap(NULL, 5 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  if (stacks == MAP_FAILED || pthread_sigmask(SIG_BLOCK, &alarms, NULL) != 0 || pthread_attr_init(&attributes) != 0 ||
      pthread_attr_setstack(&attributes, stacks, 4 * STACK) != 0 ||
      pthread_create(&t, &attributes, storm_beside, stacks + 4 * STACK) != 0 || pthread_join(t, &result) != 0)
    return 8;
  return result == NULL ? 0 : 10;
}

static sigjmp_buf out;
static volatile sig_atomic_t jumps;

static void on_jump(int signal)
{
  (void)signal;
  jumps++;
  siglongjmp(out, 1);
}

/* Handlers that leave hooks, and the tracer's work inside of them, for good, wherever they are. */
static int jump_out(void)
{
  struct sigaction action = {.sa_handler = on_jump};
  struct itimerval timer = {{0, 500}, {0, 500}}, stop = {{0, 0}, {0, 0}};
  char byte;
  sigaction(SIGALRM, &action, NULL);
  if (sigsetjmp(out, 1) == 0)
    setitimer(ITIMER_REAL, &timer, NULL);
  while (jumps < JUMPS)
    if (read(zero, &byte, 1) != 1 || write(null, "x", 1) != 1)
      return 11;
  setitimer(ITIMER_REAL, &stop, NULL);
  signal(SIGALRM, SIG_IGN);
  for (int i = 0; i < AFTER; i++)
    if (pread(zero, &byte, 1, 0) != 1)
      return 12;
  return 0;
}

static volatile sig_atomic_t forks, in_child, failed_children, raw;

/* Every other child makes its first record in here, the others where the handler returns to. */
static void on_fork(int signal)
{
  (void)signal;
  int status = -1;
  if (forks == FORKS) /* one that was pending when the timer was stopped */
    return;
  pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  if (pid == 0) {
    in_child = 1;
    if (!raw && forks % 2 == 0 && write(null, "x", 1) != 1)
      _exit(13);
    return;
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
    failed_children++;
  if (++forks == FORKS) {
    struct itimerval stop = {{0, 0}, {0, 0}};
    setitimer(ITIMER_VIRTUAL, &stop, NULL);
  }
}

/* Handlers that fork, often amid the making of a record, which is then made in the child as well. */
static int fork_amid(void)
{
  struct sigaction action = {.sa_handler = on_fork, .sa_flags = SA_RESTART};
  struct itimerval timer = {{0, 200}, {0, 200}};
  sigaction(SIGVTALRM, &action, NULL);
  setitimer(ITIMER_VIRTUAL, &timer, NULL);
  while (forks < FORKS && !in_child)
    free(malloc(8));
  if (in_child && raw) /* without any call that the tracer sees */
    syscall(SYS_exit_group, 0);
  for (int i = 0; in_child && i < WRITES; i++)
    if (write(null, "x", 1) != 1)
      return 14;
  return in_child || failed_children == 0 ? 0 : 15;
}

int main(int argc, char **argv)
{
  null = open("/dev/null", O_WRONLY);
  zero = open("/dev/zero", O_RDONLY);
  raw = argc == 2 && strcmp(argv[1], "fork_raw") == 0;
  if (raw || (argc == 2 && strcmp(argv[1], "fork") == 0))
    return fork_amid();
  if (argc == 2)
    return strcmp(argv[1], "out") == 0 ? jump_out() : other_stack();
  int bad = storm();
  if (!bad)
    bad = jump();
  return bad ? bad : cancel();
}
