/* A library that a user preloads beside the tracer: counts getters through RTLD_NEXT, and answers read of fd -7. */
#include <dlfcn.h>
#include <stddef.h>
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
