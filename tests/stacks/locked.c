/* A shared library with a lock in static data. */
#include <pthread.h>

pthread_mutex_t *library_lock_of(void);

pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

pthread_mutex_t *library_lock_of(void)
{
  return &library_lock;
}
