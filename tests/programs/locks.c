/* Locks of every type: results as without the tracer, contended ones seen. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int bad;

static void check(int ok, int line)
{
  if (!ok) {
    dprintf(1, "line %d: errno %d\n", line, errno);
    bad = 1;
  }
}
#define CHECK(x) check(x, __LINE__)

static pthread_mutex_t make(int type, int robust, int protocol)
{
  pthread_mutexattr_t a;
  pthread_mutex_t m;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, type);
  if (robust)
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setprotocol(&a, protocol);
  memset(&m, 0, sizeof m);
  pthread_mutex_init(&m, &a);
  return m;
}

static struct timespec in_ms(clockid_t clock, long ms)
{
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_nsec += ms * 1000000;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

/* Waits until the kernel shows that a thread sleeps: it is in the call that it was about to make.  By system calls of
 * its own, which are no hook's. */
static void until_asleep(pid_t tid)
{
  char path[64], text[256];
  const struct timespec pause = {0, 1000000};
  for (;;) {
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
      syscall(SYS_close, fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    if (name_end && strncmp(name_end, ") S", 3) == 0)
      return;
    syscall(SYS_nanosleep, &pause, NULL);
  }
}

/* lock 7 (1 fails: EDEADLK, contended by itself, a span), unlock 9 (2 fail); timedlock 2 (1 times out: a span) */
static void types(void)
{
  pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
  CHECK(pthread_mutex_lock(&normal) == 0);
  struct timespec until = in_ms(CLOCK_REALTIME, 5), invalid = {0, -1};
  CHECK(pthread_mutex_timedlock(&normal, &until) == ETIMEDOUT);
  CHECK(pthread_mutex_unlock(&normal) == 0);
  CHECK(pthread_mutex_timedlock(&normal, &invalid) == 0); /* glibc looks at the time only if it must wait */
  CHECK(pthread_mutex_unlock(&normal) == 0);
  pthread_mutex_t recursive = make(PTHREAD_MUTEX_RECURSIVE, 0, PTHREAD_PRIO_NONE);
  CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == EPERM);
  pthread_mutex_t checking = make(PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_PRIO_NONE);
  CHECK(pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&checking) == EDEADLK);
  CHECK(pthread_mutex_unlock(&checking) == 0 && pthread_mutex_unlock(&checking) == EPERM);
  pthread_mutex_t adaptive = make(PTHREAD_MUTEX_ADAPTIVE_NP, 0, PTHREAD_PRIO_NONE);
  CHECK(pthread_mutex_lock(&adaptive) == 0 && pthread_mutex_unlock(&adaptive) == 0);
  pthread_mutex_t inherit = make(PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT);
  CHECK(pthread_mutex_lock(&inherit) == 0 && pthread_mutex_unlock(&inherit) == 0);
}

static void *die_with_lock(void *mutex)
{
  pthread_mutex_lock(mutex);
  return NULL;
}

/* lock 5 (2 by threads that die), 1 fails: ENOTRECOVERABLE; unlock 2 */
static void robust(void)
{
  pthread_mutex_t m = make(PTHREAD_MUTEX_NORMAL, 1, PTHREAD_PRIO_NONE);
  pthread_t t;
  pthread_create(&t, NULL, die_with_lock, &m);
  pthread_join(t, NULL);
  CHECK(pthread_mutex_lock(&m) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(&m) == 0);
  CHECK(pthread_mutex_unlock(&m) == 0);
  pthread_create(&t, NULL, die_with_lock, &m);
  pthread_join(t, NULL);
  CHECK(pthread_mutex_lock(&m) == EOWNERDEAD);
  CHECK(pthread_mutex_unlock(&m) == 0); /* not made consistent */
  CHECK(pthread_mutex_lock(&m) == ENOTRECOVERABLE);
}

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem, ready;
static int turn;
static pid_t waiting; /* of the thread that waits for the lock */

static void *wait_for_lock(void *unused)
{
  pid_t main_thread = getpid();
  (void)unused;
  waiting = (pid_t)syscall(SYS_gettid);
  usleep(20000);
  until_asleep(main_thread); /* in sem_wait */
  sem_post(&ready);
  pthread_mutex_lock(&shared); /* contended */
  pthread_mutex_unlock(&shared);
  return NULL;
}

/* lock 2, 1 contended: a span; unlock 2, 1 with a waiter: an edge; sem_post 1, sem_wait 1 */
static void contended(void)
{
  pthread_t t;
  sem_init(&ready, 0, 0);
  pthread_mutex_lock(&shared);
  pthread_create(&t, NULL, wait_for_lock, NULL);
  while (sem_wait(&ready) != 0)
    ;
  usleep(50000);
  until_asleep(waiting);
  pthread_mutex_unlock(&shared);
  pthread_join(t, NULL);
}

static void *signal_it(void *unused)
{
  pid_t main_thread = getpid();
  (void)unused;
  usleep(20000);
  until_asleep(main_thread); /* in pthread_cond_wait */
  pthread_mutex_lock(&shared);
  turn = 1;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&shared);
  usleep(20000);
  until_asleep(main_thread); /* in sem_wait */
  sem_post(&sem);
  return NULL;
}

/* lock 3, unlock 3, cond_signal 1, cond_timedwait 1 (ETIMEDOUT), cond_wait at least 1, cond_broadcast 1,
 * sem: trywait not hooked, wait 1 contended, timedwait 2 (1 times out, 1 invalid) */
static void conditions(void)
{
  pthread_t t;
  sem_init(&sem, 0, 0);
  pthread_mutex_lock(&shared);
  struct timespec until = in_ms(CLOCK_REALTIME, 5), invalid = {0, 2000000000};
  CHECK(pthread_cond_timedwait(&cond, &shared, &until) == ETIMEDOUT);
  pthread_create(&t, NULL, signal_it, NULL);
  while (!turn)
    CHECK(pthread_cond_wait(&cond, &shared) == 0);
  pthread_mutex_unlock(&shared);
  errno = 99;
  CHECK(sem_wait(&sem) == 0 && errno == 99);
  pthread_join(t, NULL);
  pthread_cond_broadcast(&cond);
  until = in_ms(CLOCK_REALTIME, 5);
  CHECK(sem_timedwait(&sem, &until) == -1 && errno == ETIMEDOUT);
  CHECK(sem_timedwait(&sem, &invalid) == -1 && errno == EINVAL);
  struct timespec mono = in_ms(CLOCK_MONOTONIC, 5);
  pthread_mutex_lock(&shared);
  CHECK(pthread_cond_clockwait(&cond, &shared, CLOCK_MONOTONIC, &mono) == ETIMEDOUT);
  pthread_mutex_unlock(&shared);
}

/* rdlock 2, wrlock 2 (1 fails: EDEADLK), timedrdlock 2 (1 EDEADLK, 1 EINVAL), unlock 3 */
static void readers_writers(void)
{
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  CHECK(pthread_rwlock_rdlock(&lock) == 0 && pthread_rwlock_rdlock(&lock) == 0);
  CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
  CHECK(pthread_rwlock_wrlock(&lock) == 0 && pthread_rwlock_wrlock(&lock) == EDEADLK);
  struct timespec until = in_ms(CLOCK_REALTIME, 5), invalid = {0, -1};
  CHECK(pthread_rwlock_timedrdlock(&lock, &until) == EDEADLK);
  CHECK(pthread_rwlock_unlock(&lock) == 0);
  CHECK(pthread_rwlock_timedrdlock(&lock, &invalid) == EINVAL);
}

static void *cross(void *barrier)
{
  pthread_barrier_wait(barrier);
  return NULL;
}

/* barrier_wait 2, no error although one gets PTHREAD_BARRIER_SERIAL_THREAD (-1); sleeps 1 each */
static void barriers(void)
{
  pthread_barrier_t barrier;
  pthread_t t;
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&t, NULL, cross, &barrier);
  pthread_barrier_wait(&barrier);
  pthread_join(t, NULL);
  struct timespec ms = {0, 1000000}, invalid = {0, -1};
  CHECK(nanosleep(&ms, NULL) == 0 && nanosleep(&invalid, NULL) == -1 && errno == EINVAL);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL) == 0);
}

int __sched_yield(void);

/* sched_yield 3000 */
static void yields(void)
{
  for (int i = 0; i < 1000; i++) {
    errno = 77;
    CHECK(sched_yield() == 0 && __sched_yield() == 0 && errno == 77);
    thrd_yield();
  }
}

int main(void)
{
  types();
  robust();
  contended();
  conditions();
  readers_writers();
  barriers();
  yields();
  return bad;
}
