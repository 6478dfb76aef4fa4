/* The limit that a hook can reach: wrappers around the calls of loops.c that do next to nothing.  Preloaded instead of
 * the tracer.  TWIN says what each call costs beside the real one:
 *
 *   0   nothing: the call is forwarded
 *   1   a count and a sum in thread-local storage
 *   2   one time stamp and a record of 32 bytes in a private buffer that nobody reads
 *
 * Real functions are found once, in the constructor; calls before it take the slow way round.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define STAMP() __builtin_ia32_rdtsc()
#elif defined(__aarch64__)
static inline uint64_t stamp(void)
{
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
#define STAMP() stamp()
#endif

#define RECORDS 8192u
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))

#if TWIN == 1
static __thread struct {
  uint64_t calls, sum;
} counter INITIAL_EXEC;
#define NOTE(object, value) (counter.calls++, counter.sum += (uint64_t)(value))
#elif TWIN == 2
/* static: thread-local storage of this size would not fit, and both threads of a loop may share a place by chance */
static uint64_t records[64][RECORDS][4];
static __thread uint64_t (*own)[4] INITIAL_EXEC;
static __thread uint32_t position INITIAL_EXEC;
static _Atomic uint32_t threads;
static inline void note(uint64_t object, uint64_t value)
{
  if (__builtin_expect(own == NULL, 0))
    own = records[threads++ % 64];
  uint64_t *r = own[position++ % RECORDS];
  r[0] = STAMP();
  r[1] = object;
  r[2] = value;
  r[3] = position;
}
#define NOTE(object, value) note((uint64_t)(uintptr_t)(object), (uint64_t)(value))
#else
#define NOTE(object, value) ((void)(object), (void)(value))
#endif

void *__libc_malloc(size_t);
void __libc_free(void *);
void *__libc_realloc(void *, size_t);
static void *(*real_malloc)(size_t) = __libc_malloc;
static void (*real_free)(void *) = __libc_free;
static void *(*real_realloc)(void *, size_t) = __libc_realloc;

#define REAL(name) static __typeof__(name) *real_##name
REAL(memmove);
REAL(read);
REAL(pthread_mutex_lock);
REAL(pthread_mutex_unlock);
REAL(pthread_rwlock_rdlock);
REAL(pthread_rwlock_unlock);
REAL(pthread_cond_signal);
REAL(pthread_cond_wait);

static void bind(void)
{
  *(void **)&real_memmove = dlsym(RTLD_NEXT, "memmove");
  *(void **)&real_read = dlsym(RTLD_NEXT, "read");
  *(void **)&real_pthread_mutex_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  *(void **)&real_pthread_mutex_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
  *(void **)&real_pthread_rwlock_rdlock = dlsym(RTLD_NEXT, "pthread_rwlock_rdlock");
  *(void **)&real_pthread_rwlock_unlock = dlsym(RTLD_NEXT, "pthread_rwlock_unlock");
  *(void **)&real_pthread_cond_signal = dlsym(RTLD_NEXT, "pthread_cond_signal");
  *(void **)&real_pthread_cond_wait = dlsym(RTLD_NEXT, "pthread_cond_wait");
}

static __attribute__((constructor)) void start(void)
{
  if (real_memmove == NULL)
    bind();
}

void *malloc(size_t size)
{
  void *block = real_malloc(size);
  NOTE(block, size);
  return block;
}

void free(void *block)
{
  NOTE(block, 0);
  real_free(block);
}

void *realloc(void *block, size_t size)
{
  void *moved = real_realloc(block, size);
  NOTE(moved, size);
  return moved;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
  if (__builtin_expect(real_memmove == NULL, 0)) {
    for (size_t i = 0; i < size; i++) {
      ((char *)to)[i] = ((const char *)from)[i];
      __asm__ volatile("" ::: "memory"); /* no call of memcpy out of this loop */
    }
    return to;
  }
  NOTE(to, size);
  return real_memmove(to, from, size);
}

#define BOUND(name) (__builtin_expect(real_##name != NULL, 1) ? (void)0 : bind())
#define WRAP(type, name, params, args, object, value)                                                                  \
  type name params                                                                                                     \
  {                                                                                                                    \
    BOUND(name);                                                                                                       \
    type result = real_##name args;                                                                                    \
    NOTE(object, value);                                                                                               \
    return result;                                                                                                     \
  }
WRAP(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), (uintptr_t)fd, result)
WRAP(int, pthread_mutex_lock, (pthread_mutex_t * lock), (lock), lock, result)
WRAP(int, pthread_mutex_unlock, (pthread_mutex_t * lock), (lock), lock, result)
WRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock), lock, result)
WRAP(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock), lock, result)
WRAP(int, pthread_cond_signal, (pthread_cond_t * condition), (condition), condition, result)
WRAP(int, pthread_cond_wait, (pthread_cond_t *restrict condition, pthread_mutex_t *restrict lock), (condition, lock),
     condition, result)
