/* A program that tells what it has done, until it dies in the way it is told.
 *
 *   victim DEATH THREADS COUNT PIPE
 *
 * Each thread makes traced calls number 1, 2, 3, ...: pwrite of that many bytes to /dev/null.  After each it tells
 * {tid, pid, number} to the pipe by a system call of its own, which the tracer does not see.  The first thread dies
 * behind its call COUNT (0: never), in the way DEATH says:
 *
 *   wait          by somebody else
 *   return exit _exit quick_exit thread_exit   by itself; with return and thread_exit all threads end at COUNT
 *   segv abort exec memory                     by itself (memory: allocates until it may no more, then aborts)
 *   worker        all of this happens in a forked child, by somebody else; the parent returns the child's number of
 *                 the signal
 *   closes        closes every descriptor before, and opens others in their place; then returns as return does
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *death;
static uint64_t count;
static int null, report;
static char *self;

static int death_is(const char *name)
{
  return strcmp(death, name) == 0;
}

static void exhaust_memory(void)
{
  struct rlimit limit = {0, 0}; /* nothing more than there is now */
  setrlimit(RLIMIT_AS, &limit);
  while (malloc(1 << 20))
    ;
  abort();
}

static void die(void)
{
  if (death_is("exit"))
    exit(21);
  if (death_is("_exit"))
    _exit(21);
  if (death_is("quick_exit"))
    quick_exit(21);
  if (death_is("segv"))
    *(volatile int *)(uintptr_t)(count & 1) = 0;
  if (death_is("abort"))
    abort();
  if (death_is("exec"))
    execl(self, self, "return", "1", "5", "-1", (char *)NULL);
  if (death_is("memory"))
    exhaust_memory();
}

static void *work(void *first)
{
  struct {
    int32_t tid, pid;
    uint64_t number;
  } told = {(int32_t)syscall(SYS_gettid), (int32_t)syscall(SYS_getpid), 0};
  int all_end = death_is("return") || death_is("thread_exit") || death_is("closes");
  static const char byte[1] = "";
  for (;;) {
    told.number++;
    if (pwrite(null, byte, told.number, 0) != (ssize_t)told.number)
      _exit(90);
    if (report >= 0 && syscall(SYS_write, report, &told, sizeof told) != sizeof told)
      _exit(91);
    if (told.number == count && (first || all_end)) {
      die();
      return NULL;
    }
    if (told.number % 64 == 0) { /* not faster than one thread can write */
      struct timespec pause = {0, 100000};
      syscall(SYS_nanosleep, &pause, NULL);
    }
  }
}

/* Nothing of the tracer's may stand in the program's table, so this must not hurt it. */
static void close_everything(void)
{
  for (int fd = 3; fd < 1000; fd++)
    if (fd != report)
      close(fd);
  closefrom(report + 1);
  for (int i = 0; i < 20; i++)
    if (dup2(open("/dev/zero", O_RDONLY), 200 + i) != 200 + i)
      _exit(92);
  null = open("/dev/null", O_WRONLY);
}

static int run(int threads)
{
  pthread_t thread[64];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 * 1024); /* for a run with little memory */
  for (int i = 1; i < threads; i++)
    if (pthread_create(&thread[i], &attributes, work, NULL) != 0)
      _exit(93);
  work(&thread);
  if (death_is("thread_exit"))
    pthread_exit(NULL);
  for (int i = 1; i < threads; i++)
    pthread_join(thread[i], NULL);
  return 21;
}

int main(int argc, char **arguments)
{
  if (argc != 5)
    return 99;
  self = arguments[0];
  death = arguments[1];
  count = strtoull(arguments[3], NULL, 10);
  report = atoi(arguments[4]);
  null = open("/dev/null", O_WRONLY);
  if (death_is("closes"))
    close_everything();
  if (death_is("worker")) {
    int status;
    pid_t pid = fork();
    if (pid != 0)
      return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 94;
  }
  return run(atoi(arguments[2]));
}
