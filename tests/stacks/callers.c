/* Calls whose stacks a test knows: COUNT sleeps and COUNT large allocations, each from a place of its own.
 * callers COUNT [signals | threads | locks | blocks | resizes | peaks]: COUNT sleeps in a handler of signals, or in as
 * many threads; COUNT waits for each of three locks; as many blocks of 70000 bytes; as many of 4 MiB by realloc, each
 * with a malloc that fails; as many that are kept from each of three lines. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wait_once.h"

static void *volatile block;

static inline __attribute__((always_inline)) void inlined(void)
{
  struct timespec pause = {0, 2000000};
  nanosleep(&pause, NULL); /* LINE inlined */
}

/* Names as compilers of C++ and Rust make them. */
void sleeper(int deep) __asm__("_ZN5outer7sleeperEi");
void allocator(int deep) __asm__("_RNvC7mycrate9allocator");

__attribute__((noinline)) void sleeper(int deep)
{
  if (deep > 0)
    sleeper(deep - 1); /* LINE recursion */
  else
    inlined(); /* LINE sleeper */
  __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void allocator(int deep)
{
  block = malloc((size_t)4 << 20); /* LINE allocator */
  free(block);
  __asm__ volatile("" ::"r"(deep) : "memory");
}

static void handler(int signal)
{
  struct timespec pause = {0, 2000000};
  (void)signal;
  nanosleep(&pause, NULL); /* LINE handler */
}

/* The signal comes in a hooked call: a write to a pipe that nobody reads. */
__attribute__((noinline)) static void interrupted(int fd)
{
  if (write(fd, "", 1) == 0) /* LINE interrupted */
    abort();
  __asm__ volatile("" ::: "memory");
}

static int with_signals(int count)
{
  int fds[2];
  if (pipe(fds) != 0 || close(fds[0]) != 0 || signal(SIGPIPE, handler) == SIG_ERR)
    return 1;
  for (int i = 0; i < count; i++)
    interrupted(fds[1]);
  return 0;
}

static void *sleep_once(void *unused)
{
  sleeper(0);
  return unused;
}

static int with_threads(int count)
{
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_once, NULL) != 0 || pthread_join(thread, NULL) != 0)
      return 1;
  }
  return 0;
}

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static struct {
  long first;
  pthread_mutex_t mutex;
} guarded = {1, PTHREAD_MUTEX_INITIALIZER};

static void *lock_once(void *mutex)
{
  pthread_mutex_lock(mutex); /* LINE waiter */
  pthread_mutex_unlock(mutex);
  return NULL;
}

static int with_locks(int count)
{
  pthread_mutex_t *on_heap = malloc(sizeof *on_heap);
  int failed = on_heap == NULL || pthread_mutex_init(on_heap, NULL) != 0;
  for (int i = 0; i < count && !failed; i++)
    failed = wait_once(lock_once, &plain) || wait_once(lock_once, &guarded.mutex) || wait_once(lock_once, on_heap);
  free(on_heap);
  return failed;
}

static int with_blocks(int count)
{
  for (int i = 0; i < count; i++) {
    block = malloc(70000);
    free(block);
  }
  return 0;
}

/* Each round: a large block by realloc, and one that no system has. */
static int with_resizes(int count)
{
  volatile size_t impossible = (size_t)1 << 60;
  int failed = 0;
  for (int i = 0; i < count && !failed; i++) {
    block = malloc(10);
    block = realloc(block, (size_t)4 << 20);
    failed = block == NULL;
    free(block);
    block = malloc(impossible); /* through a volatile: compilers leave out a block that is only compared */
    failed = failed || block != NULL;
  }
  return failed;
}

/* Keeps in each round a block of 1 MiB, one of 2 MiB, and a small one. */
static int keep_blocks(int count)
{
  for (int i = 0; i < count; i++) {
    block = malloc((size_t)1 << 20); /* LINE first kept */
    block = malloc((size_t)2 << 20); /* LINE second kept */
    block = malloc(100);
  }
  return 0;
}

int main(int argc, char **argv)
{
  int count = argc > 1 ? atoi(argv[1]) : 1;
  if (argc > 2 && strcmp(argv[2], "locks") == 0)
    return with_locks(count);
  if (argc > 2 && strcmp(argv[2], "blocks") == 0)
    return with_blocks(count);
  if (argc > 2 && strcmp(argv[2], "resizes") == 0)
    return with_resizes(count);
  if (argc > 2 && strcmp(argv[2], "peaks") == 0)
    return keep_blocks(count);
  if (argc > 2)
    return strcmp(argv[2], "signals") == 0 ? with_signals(count) : with_threads(count);
  for (int i = 0; i < count; i++) {
    sleeper(2);
    allocator(2);
  }
  return 0;
}
