/* Waits for locks in static data: static_locks COUNT, that often for one of its own and one of a library.  Its last
 * thread ends by pthread_exit, before which the tracer's thread ends: it has seen to all by then. */
#include <pthread.h>
#include <stdlib.h>

#include "wait_once.h"

extern pthread_mutex_t *library_lock_of(void);
pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;

static void *lock_once(void *mutex)
{
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

int main(int argc, char **argv)
{
  int failed = argc != 2;
  for (int i = failed ? 0 : atoi(argv[1]); i > 0 && !failed; i--)
    failed = wait_once(lock_once, &big_lock) || wait_once(lock_once, library_lock_of());
  if (failed)
    return 1;
  pthread_exit(NULL);
}
