/* A library that a user preloads beside the tracer: asks the next one through RTLD_NEXT, answers read of fd -7, and
 * takes 2 ms for those locks that the tracer times, as ones do that lose their CPU meanwhile. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

ssize_t read(int fd, void *buffer, size_t size)
{
  static ssize_t (*next)(int, void *, size_t);
  if (next == NULL)
    next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
  if (fd == -7)
    return 1234;
  return next(fd, buffer, size);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
  static int (*next)(pthread_mutex_t *);
  static unsigned calls;
  if (next == NULL)
    next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  if (++calls % 1024 == 0)
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  return next(mutex);
}
