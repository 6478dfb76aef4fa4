/* Calls of libc made by the rest of this library, zstd included.
 *
 * The linker sends them here (--wrap in wrap.opts), for two reasons: a call by name would enter our own hook and be
 * counted as the program's; and some functions carry a symbol version newer than the glibc floor, so they are bound at
 * run time like the hooks.  tests/elf finds what is missing in the list.
 *
 * Context: as the callers'; all functions are bound before the rest of the library runs. */
#include "hooks/hooks.h"

#include <stdarg.h>

#define WRAP(type, name, params, args)                                                                                 \
  type __wrap_##name params OPGAP_HIDDEN;                                                                              \
  type __wrap_##name params                                                                                            \
  {                                                                                                                    \
    return OPGAP_BOUND(name) ? opgap_real.name args : OPGAP_MISSING(type);                                             \
  }

/* A structure copy may come before binding. */
void *__wrap_memcpy(void *to, const void *from, size_t size) OPGAP_HIDDEN;
void *__wrap_memcpy(void *to, const void *from, size_t size)
{
  return opgap_real_memmove(to, from, size);
}
void *__wrap_memmove(void *to, const void *from, size_t size) OPGAP_HIDDEN;
void *__wrap_memmove(void *to, const void *from, size_t size)
{
  return opgap_real_memmove(to, from, size);
}
void *__wrap_memset(void *to, int byte, size_t size) OPGAP_HIDDEN;
void *__wrap_memset(void *to, int byte, size_t size)
{
  return opgap_real_memset(to, byte, size);
}

WRAP(void *, malloc, (size_t size), (size))
WRAP(void *, calloc, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, (void *block, size_t size), (block, size))
void __wrap_free(void *block) OPGAP_HIDDEN;
void __wrap_free(void *block)
{
  if (OPGAP_BOUND(free))
    opgap_real.free(block);
}

int __wrap_open(const char *path, int flags, ...) OPGAP_HIDDEN;
int __wrap_open(const char *path, int flags, ...)
{
  va_list list;
  va_start(list, flags);
  mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return OPGAP_BOUND(open) ? opgap_real.open(path, flags, mode) : OPGAP_MISSING(int);
}
WRAP(int, close, (int fd), (fd))
WRAP(ssize_t, read, (int fd, void *buffer, size_t size), (fd, buffer, size))
WRAP(ssize_t, write, (int fd, const void *buffer, size_t size), (fd, buffer, size))
WRAP(ssize_t, pread, (int fd, void *buffer, size_t size, off_t offset), (fd, buffer, size, offset))
WRAP(ssize_t, pwrite, (int fd, const void *buffer, size_t size, off_t offset), (fd, buffer, size, offset))
WRAP(int, fstat, (int fd, struct stat *st), (fd, st))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, ftruncate, (int fd, off_t length), (fd, length))
WRAP(int, unlink, (const char *path), (path))
WRAP(void *, mmap, (void *address, size_t length, int protection, int flags, int fd, off_t offset),
     (address, length, protection, flags, fd, offset))
WRAP(DIR *, opendir, (const char *path), (path))
WRAP(struct dirent *, readdir, (DIR * folder), (folder))
WRAP(int, closedir, (DIR * folder), (folder))
WRAP(int, fflush, (FILE * stream), (stream))
WRAP(size_t, fwrite, (const void *buffer, size_t size, size_t count, FILE *stream), (buffer, size, count, stream))

WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
     (thread, attributes, start, argument))
WRAP(int, pthread_join, (pthread_t thread, void **result), (thread, result))
WRAP(int, pthread_attr_setstacksize, (pthread_attr_t * attributes, size_t size), (attributes, size))
WRAP(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
WRAP(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
WRAP(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
WRAP(void *, dlopen, (const char *file, int mode), (file, mode))
WRAP(int, dlclose, (void *handle), (handle))
WRAP(void *, dlsym, (void *handle, const char *name), (handle, name))
int __wrap_dladdr(const void *address, Dl_info *info) OPGAP_HIDDEN;
int __wrap_dladdr(const void *address, Dl_info *info)
{
  return OPGAP_BOUND(dladdr) ? opgap_real.dladdr(address, info) : 0; /* not -1: anything but 0 means found */
}

/* zstd's own trace points are weak references, which the loader would look for in vain in every process. */
unsigned long long ZSTD_trace_compress_begin(const void *context) OPGAP_HIDDEN;
unsigned long long ZSTD_trace_compress_begin(const void *context)
{
  (void)context;
  return 0; /* not traced: the end is not called either */
}
void ZSTD_trace_compress_end(unsigned long long context, const void *trace) OPGAP_HIDDEN;
void ZSTD_trace_compress_end(unsigned long long context, const void *trace)
{
  (void)context;
  (void)trace;
}
unsigned long long ZSTD_trace_decompress_begin(const void *context) OPGAP_HIDDEN;
unsigned long long ZSTD_trace_decompress_begin(const void *context)
{
  (void)context;
  return 0;
}
void ZSTD_trace_decompress_end(unsigned long long context, const void *trace) OPGAP_HIDDEN;
void ZSTD_trace_decompress_end(unsigned long long context, const void *trace)
{
  (void)context;
  (void)trace;
}
