/* Waits for locks in static data: static_locks COUNT, that often for one of its own and one of a library.  Its last
 * thread ends by pthread_exit, before which the tracer's thread ends: it has seen to all by then. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

extern pthread_mutex_t *library_lock_of(void);
pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;

static void *lock_once(void *mutex)
{
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

/* Holds the lock until the other thread sleeps in its wait for it: glibc's word is 2 then. */
static int wait_once(pthread_mutex_t *mutex)
{
  struct timespec pause = {0, 1000000};
  pthread_t thread;
  pthread_mutex_lock(mutex);
  if (pthread_create(&thread, NULL, lock_once, mutex) != 0)
    return 1;
  do
    nanosleep(&pause, NULL);
  while (__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) != 2);
  pthread_mutex_unlock(mutex);
  return pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
  int failed = argc != 2;
  for (int i = failed ? 0 : atoi(argv[1]); i > 0 && !failed; i--)
    failed = wait_once(&big_lock) || wait_once(library_lock_of());
  if (failed)
    return 1;
  pthread_exit(NULL);
}
