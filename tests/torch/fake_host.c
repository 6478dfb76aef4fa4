/* fake_host LIBRARY MODE: a program that loads the stand-in for torch as Python loads torch, and runs ops.  Built with
 * FAKE_LINKED it is linked with the stand-in, as a C++ program is with libtorch, and loads nothing.
 *
 *   load     nothing more
 *   ops      three ops inside a user range; the second is nested in the first; then one with sequence number 7
 *   threads  ranges that end on another thread, flagged as asynchronous or not, and what runs after them
 *   crowd    250 threads at the same time, each with a range that the main thread ends, and an op after it
 *   fork     a user range that is open across a fork
 *   late     no PyInit_* look-up: the tracer must find the library by itself; then as ops
 *
 * Checks that the tracer leaves no child and no SIGCHLD to the program.  Prints "callbacks N"; exit status 0 when the
 * program itself saw nothing wrong.
 */
#include "fake_torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTION = 0, TORCHSCRIPT = 2, USER = 7 };

static struct fake_function *(*begin)(unsigned char, const char *, long, int);
static void (*end)(struct fake_function *);
static int (*callback_count)(void);
static volatile sig_atomic_t child_signals;

static void count_child(int number)
{
  (void)number;
  child_signals++;
}

static void run_op(const char *name, long sequence)
{
  end(begin(FUNCTION, name, sequence, 0));
}

static void run_ops(void)
{
  struct fake_function *range = begin(USER, "range", -1, 0);
  struct fake_function *outer = begin(FUNCTION, "outer", -1, 0);
  run_op("inner", -1);
  end(outer);
  run_op("last", 7);
  end(range);
}

static void *end_elsewhere(void *function)
{
  end(function);
  return NULL;
}

static void end_on_other_thread(struct fake_function *function)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, end_elsewhere, function) != 0)
    abort();
  pthread_join(thread, NULL);
}

static void run_threads(void)
{
  struct fake_function *script = begin(TORCHSCRIPT, "script", -1, 0);
  run_op("inside script", -1);
  end_on_other_thread(script);
  run_op("after script", -1);
  struct fake_function *collective = begin(USER, "collective", -1, 1);
  run_op("beside collective", -1);
  end_on_other_thread(collective);
  collective = begin(USER, "collective", -1, 1);
  end(collective);
  run_op("after collective", -1);
}

/* More threads than lie within the distance at which the addresses of their slots begin to look alike. */
enum { CROWD = 250 };
static struct fake_function *begun[CROWD];
static pthread_barrier_t turn;

static void *one_of_crowd(void *mine)
{
  *(struct fake_function **)mine = begin(TORCHSCRIPT, "script", -1, 0);
  pthread_barrier_wait(&turn); /* all have begun */
  pthread_barrier_wait(&turn); /* all are ended */
  run_op("after script", -1);
  return NULL;
}

static void run_crowd(void)
{
  pthread_t threads[CROWD];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_barrier_init(&turn, NULL, CROWD + 1);
  for (int i = 0; i < CROWD; i++)
    if (pthread_create(&threads[i], &attributes, one_of_crowd, &begun[i]) != 0)
      abort();
  pthread_barrier_wait(&turn);
  for (int i = 0; i < CROWD; i++)
    end(begun[i]);
  pthread_barrier_wait(&turn);
  for (int i = 0; i < CROWD; i++)
    pthread_join(threads[i], NULL);
}

static int run_fork(void)
{
  struct fake_function *range = begin(USER, "across", -1, 0);
  pid_t pid = fork();
  if (pid == 0) {
    end(range);
    run_op("in child", -1);
    exit(0);
  }
  end(range);
  int status = 1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

#ifndef FAKE_LINKED
static void *idle(void *stop)
{
  while (!*(volatile int *)stop)
    usleep(1000);
  return NULL;
}

/* The tracer polls only while the program has something to record. */
static void wait_for_callbacks(void)
{
  static int stop;
  pthread_t thread;
  if (pthread_create(&thread, NULL, idle, &stop) != 0)
    abort();
  time_t limit = time(NULL) + 20;
  while (callback_count() == 0 && time(NULL) < limit) {
    free(malloc(100));
    usleep(1000);
  }
  stop = 1;
  pthread_join(thread, NULL);
}
#endif

int main(int argc, char **argv)
{
  if (argc != 3)
    return 2;
  const char *mode = argv[2];
  signal(SIGCHLD, count_child);
#ifdef FAKE_LINKED
  begin = fake_begin;
  end = fake_end;
  callback_count = fake_callback_count;
#else
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  *(void **)&begin = dlsym(library, "fake_begin");
  *(void **)&end = dlsym(library, "fake_end");
  *(void **)&callback_count = dlsym(library, "fake_callback_count");
  errno = 77;
  if (strcmp(mode, "late") == 0)
    wait_for_callbacks();
  else if (dlsym(library, "PyInit__fake") == NULL || errno != 77)
    return 3;
#endif
  if (child_signals != 0 || waitpid(-1, NULL, __WALL | WNOHANG) != -1 || errno != ECHILD)
    return 4;
  if (strcmp(mode, "threads") == 0)
    run_threads();
  else if (strcmp(mode, "crowd") == 0)
    run_crowd();
  else if (strcmp(mode, "fork") == 0) {
    if (run_fork() != 0)
      return 5;
  } else if (strcmp(mode, "load") != 0)
    run_ops();
  printf("callbacks %d\n", callback_count());
  return 0;
}
