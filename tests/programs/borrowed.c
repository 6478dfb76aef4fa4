/* What native stacks must not touch: descriptor numbers, from the beginning and after closefrom, a signal stack of
 * 8 KiB, a coroutine's stack of 4 KiB, the stack of signal handlers, the mask of blocked signals. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      printf("line %d: %s\n", __LINE__, #condition);                                                                   \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

static int failures;
static ucontext_t home, routine;
static volatile sig_atomic_t handled;

static void *naps(void *unused)
{
  for (int i = 0; i < 3; i++)
    usleep(1000);
  return unused;
}

static void handler(int signal)
{
  usleep(1000);
  free(malloc(2 << 20));
  handled += signal == SIGUSR1;
}

static void coroutine(void)
{
  usleep(1000);
}

static void closed_descriptors(void)
{
  pthread_t threads[5];
  int pair[2], file;
  char text[9] = "";
  usleep(1000); /* a stack has been taken before */
  CHECK((file = dup(0)) >= 0 && close(file) == 0);
  printf("the first that is free: %d\n", file); /* as without the tracer */
  closefrom(3);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pair[0] == 3 && pair[1] == 4);
  CHECK((file = open("/dev/null", O_WRONLY)) == 5);
  CHECK(write(pair[0], "ABCDEFGH", 8) == 8);
  for (int i = 0; i < 5; i++)
    CHECK(pthread_create(&threads[i], NULL, naps, NULL) == 0);
  for (int i = 0; i < 5; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(read(pair[1], text, 8) == 8 && strcmp(text, "ABCDEFGH") == 0);
  CHECK(dup(0) == 6);
}

static void small_stacks(void)
{
  stack_t small = {.ss_sp = malloc(8192), .ss_size = 8192};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  CHECK(sigaltstack(&small, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  CHECK(raise(SIGUSR1) == 0 && handled == 1);
  CHECK(getcontext(&routine) == 0);
  routine.uc_stack.ss_sp = malloc(4096);
  routine.uc_stack.ss_size = 4096;
  routine.uc_link = &home;
  makecontext(&routine, coroutine, 0);
  CHECK(swapcontext(&home, &routine) == 0);
}

static void masks(void)
{
  sigset_t wanted, now;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR2);
  CHECK(sigprocmask(SIG_SETMASK, &wanted, NULL) == 0);
  usleep(1000);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
  for (int s = 1; s < 32; s++)
    CHECK(sigismember(&now, s) == (s == SIGUSR2));
}

static char *stack_start, *stack_end;
#define ROUNDS 300
static volatile sig_atomic_t strays;
static _Atomic int reads;
static int bell[2];

static void on_own_stack(int signal)
{
  char here;
  strays += signal != SIGUSR2 || &here < stack_start || &here >= stack_end;
}

/* Ends a long read of the main thread's, which takes a stack then, and sends it signals meanwhile. */
static void *pester(void *main_thread)
{
  const struct timespec pause = {0, 1000000};
  for (int i = 0; i < ROUNDS; i++) {
    nanosleep(&pause, NULL);
    CHECK(write(bell[1], "", 1) == 1);
    while (reads == i)
      CHECK(pthread_kill(*(pthread_t *)main_thread, SIGUSR2) == 0);
  }
  return NULL;
}

static void handlers(void)
{
  pthread_t self = pthread_self(), other;
  pthread_attr_t attributes;
  size_t size = 0;
  void *start = NULL;
  char byte;
  struct sigaction action = {.sa_handler = on_own_stack, .sa_flags = SA_RESTART};
  CHECK(pthread_getattr_np(self, &attributes) == 0 && pthread_attr_getstack(&attributes, &start, &size) == 0);
  pthread_attr_destroy(&attributes);
  stack_start = start;
  stack_end = stack_start + size;
  CHECK(pipe(bell) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
  CHECK(pthread_create(&other, NULL, pester, &self) == 0);
  for (; reads < ROUNDS; reads++)
    CHECK(read(bell[0], &byte, 1) == 1);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(strays == 0);
}

int main(void)
{
  closed_descriptors();
  small_stacks();
  handlers();
  masks();
  return failures;
}
