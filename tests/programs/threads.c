/* Life of threads: names, exits of every kind, destructors that allocate, tiny stacks, many threads. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int bad;
static pthread_key_t key;

static void check(int ok, int line)
{
  if (!ok) {
    dprintf(1, "line %d: errno %d\n", line, errno);
    bad = 1;
  }
}
#define CHECK(x) check(x, __LINE__)

/* Runs in the last rounds of destructors as well: re-arms itself. */
static void destructor(void *rounds)
{
  free(malloc(100000));
  uintptr_t n = (uintptr_t)rounds;
  if (n < 10)
    pthread_setspecific(key, (void *)(n + 1));
}

static void *with_key(void *argument)
{
  pthread_setspecific(key, (void *)1);
  free(malloc(100000));
  return argument;
}

static void *named(void *argument)
{
  pthread_setname_np(pthread_self(), "loader");
  return argument;
}

static void *leaves(void *argument)
{
  pthread_exit(argument);
}

static void *cancelled(void *argument)
{
  for (;;)
    sleep(10);
  return argument;
}

static void *tiny(void *argument)
{
  return argument;
}

static void *many(void *argument)
{
  for (int i = 0; i < 100; i++)
    free(malloc(100000));
  return argument;
}

static void run(void *(*start)(void *), const pthread_attr_t *attributes, int cancel)
{
  pthread_t t;
  void *result = NULL;
  CHECK(pthread_create(&t, attributes, start, &result) == 0);
  if (cancel)
    CHECK(pthread_cancel(t) == 0);
  CHECK(pthread_join(t, &result) == 0);
  CHECK(result == (cancel ? PTHREAD_CANCELED : (void *)&result));
}

static int c11(void *argument)
{
  return *(int *)argument;
}

/* a C11 thread; a wait that times out */
static void c11_threads(void)
{
  thrd_t t;
  int value = 17, result = 0;
  CHECK(thrd_create(&t, c11, &value) == thrd_success && thrd_join(t, &result) == thrd_success && result == 17);
  mtx_t mutex;
  cnd_t cond;
  struct timespec past = {1, 0};
  CHECK(mtx_init(&mutex, mtx_plain) == thrd_success && cnd_init(&cond) == thrd_success);
  CHECK(mtx_lock(&mutex) == thrd_success && cnd_timedwait(&cond, &mutex, &past) == thrd_timedout);
  CHECK(mtx_unlock(&mutex) == thrd_success);
}

/* 4 destructor rounds and the thread itself: 5 x malloc(100000); with 200 x 100 more: 20005 */
int main(void)
{
  pthread_key_create(&key, destructor);
  run(with_key, NULL, 0);
  run(named, NULL, 0);
  run(leaves, NULL, 0);
  run(cancelled, NULL, 1);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
  run(tiny, &attributes, 0);
  pthread_t t[200];
  for (int i = 0; i < 200; i += 20) {
    for (int j = 0; j < 20; j++)
      CHECK(pthread_create(&t[i + j], NULL, many, NULL) == 0);
    for (int j = 0; j < 20; j++)
      CHECK(pthread_join(t[i + j], NULL) == 0);
  }
  /* an error: no stack of that size */
  CHECK(pthread_attr_setstacksize(&attributes, (size_t)1 << 46) == 0);
  CHECK(pthread_create(&t[0], &attributes, tiny, NULL) == EAGAIN);
  c11_threads();
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  for (int s = 1; s < 32; s++)
    CHECK(sigismember(&set, s) == 0); /* nobody touched the mask */
  return bad;
}
