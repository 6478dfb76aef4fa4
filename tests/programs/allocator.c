/* A user's allocator, preloaded beside the tracer.  Its initialisation does what those of real ones do: reads a
 * setting file, maps memory, asks dlsym, under a lock that its own functions take. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *arena;
static size_t used;
enum { ARENA = 64 << 20 };

static void initialise(void)
{
  char text[64], link[64];
  int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY);
  if (fd >= 0) {
    if (read(fd, text, sizeof text) < 0)
      text[0] = 0;
    close(fd);
  }
  if (readlink("/etc/malloc.conf", link, sizeof link) < 0)
    link[0] = 0;
  dlsym(RTLD_NEXT, "pthread_create");
  arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *take(size_t alignment, size_t size)
{
  pthread_mutex_lock(&lock);
  if (arena == NULL)
    initialise();
  if (alignment < 16)
    alignment = 16;
  size_t at = (used + 16 + alignment - 1) & ~(alignment - 1);
  void *block = NULL;
  if (size < ARENA && at + size <= ARENA) {
    used = at + size;
    block = arena + at;
    ((size_t *)block)[-1] = size;
  } else {
    errno = ENOMEM;
  }
  pthread_mutex_unlock(&lock);
  return block;
}

void *malloc(size_t size)
{
  return take(16, size);
}
void free(void *block)
{
  (void)block;
}
void *calloc(size_t count, size_t size)
{
  return take(16, count * size); /* fresh memory is zero */
}
void *realloc(void *block, size_t size)
{
  void *fresh = take(16, size);
  if (block && fresh) {
    size_t old = ((size_t *)block)[-1];
    memcpy(fresh, block, old < size ? old : size);
  }
  return fresh;
}
void *memalign(size_t alignment, size_t size)
{
  return take(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size)
{
  return take(alignment, size);
}
int posix_memalign(void **block, size_t alignment, size_t size)
{
  *block = take(alignment, size);
  return *block ? 0 : ENOMEM;
}
size_t malloc_usable_size(void *block)
{
  return block ? ((size_t *)block)[-1] : 0;
}
