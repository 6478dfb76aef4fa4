/* One wait for a lock, as long as it takes. */
#ifndef OPGAP_TESTS_WAIT_ONCE_H
#define OPGAP_TESTS_WAIT_ONCE_H

#include <pthread.h>
#include <time.h>

/* Holds the lock until another thread, which runs `lock_once` with it, sleeps in its wait: glibc's word is 2 then. */
static int wait_once(void *(*lock_once)(void *mutex), pthread_mutex_t *mutex)
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

#endif
