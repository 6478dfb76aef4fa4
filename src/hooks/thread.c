/* The life of threads: their start, names and end.
 *
 * Context   any, see hooks.h.
 * A thread made by pthread_create begins in begin_thread, which records who made it and arms a key whose destructor
 * gives the thread's slot back.  The destructor re-arms itself until the last round, so that the program's own
 * destructors, which may still allocate or lock, run before it; what comes later still finds the thread, until the
 * kernel thread is gone.  Threads made by a raw clone are found by their first hook instead.
 * Ownership A launch record belongs to pthread_create until the new thread has copied it. */
#include "hooks/hooks.h"

#include <limits.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "record/raw.h"

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int pthread_setname_np(pthread_t thread, const char *name);
int prctl(int option, ...);

bool opgap_threads;

/* ---- launch records: a free list in pages that are never given back ---- */

struct launch {
  void *(*start)(void *);
  void *argument;
  uint64_t creator_tid;
  _Atomic(struct launch *) next;
};

/* A lock of a few instructions; a signal handler that finds it taken by its own thread must not spin, so it goes
 * without a record. */
static _Atomic uint32_t launch_lock;
static struct launch *launch_free;

static bool lock_launches(void)
{
  for (int spin = 0; spin < 100000; spin++)
    if (!atomic_exchange_explicit(&launch_lock, 1, memory_order_acquire))
      return true;
  return false;
}

static struct launch *take_launch(void)
{
  if (!lock_launches())
    return NULL;
  if (launch_free == NULL) {
    enum { PAGE = 4096, COUNT = PAGE / sizeof(struct launch) };
    struct launch *fresh = opgap_raw_mmap(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (unsigned i = 0; fresh && i < COUNT; i++) {
      fresh[i].next = launch_free;
      launch_free = &fresh[i];
    }
  }
  struct launch *launch = launch_free;
  if (launch)
    launch_free = launch->next;
  atomic_store_explicit(&launch_lock, 0, memory_order_release);
  return launch;
}

static void give_launch(struct launch *launch)
{
  if (!lock_launches())
    return; /* 32 bytes are lost */
  launch->next = launch_free;
  launch_free = launch;
  atomic_store_explicit(&launch_lock, 0, memory_order_release);
}

/* ---- the thread's own side ---- */

static pthread_key_t end_key;
static bool end_key_made;

static void end_thread(void *round)
{
  uintptr_t rounds = (uintptr_t)round;
  if (rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
    opgap_real.pthread_setspecific(end_key, (void *)(rounds + 1));
  else
    opgap_thread_dying();
}

static void *begin_thread(void *context)
{
  struct launch launch;
  launch.start = ((struct launch *)context)->start;
  launch.argument = ((struct launch *)context)->argument;
  launch.creator_tid = ((struct launch *)context)->creator_tid;
  give_launch(context);
  if (end_key_made)
    opgap_real.pthread_setspecific(end_key, (void *)1);
  if (opgap_active) {
    const uint64_t fields[] = {(uint64_t)pthread_self(), launch.creator_tid};
    opgap_emit(OPGAP_EV_THREAD_START, 0, opgap_ticks(), 0, fields, 2);
  }
  return launch.start(launch.argument);
}

void opgap_thread_prepare(void)
{
  if (end_key_made || !opgap_real.pthread_key_create || !opgap_real.pthread_setspecific)
    return;
  end_key_made = opgap_real.pthread_key_create(&end_key, end_thread) == 0;
  if (end_key_made) /* the thread that runs the constructor may end by pthread_exit, before others */
    opgap_real.pthread_setspecific(end_key, (void *)1);
}

/* ---- the creator's side ---- */

OPGAP_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                void *argument)
{
  if (!OPGAP_BOUND(pthread_create))
    return EAGAIN;
  opgap_threads = true;
  struct opgap_thread *self = opgap_active ? opgap_self() : NULL;
  if (self == NULL)
    return opgap_real.pthread_create(thread, attributes, start, argument);
  opgap_session_threads();
  if (opgap_unlikely(!end_key_made) && OPGAP_BOUND(pthread_key_create) && OPGAP_BOUND(pthread_setspecific))
    opgap_thread_prepare(); /* an older glibc whose libpthread was loaded after us */
  struct launch *launch = take_launch();
  if (launch == NULL)
    return opgap_real.pthread_create(thread, attributes, start, argument);
  launch->start = start;
  launch->argument = argument;
  launch->creator_tid = (uint64_t)self->tid;
  uint64_t begin = opgap_call_begin(self, OPGAP_HOOK_ID_pthread_create, 0);
  int result = opgap_real.pthread_create(thread, attributes, begin_thread, launch);
  if (result != 0)
    give_launch(launch);
  if (opgap_active & OPGAP_GROUP_thread) /* *thread may be gone: the new thread may have freed it */
    opgap_hook_end(self, OPGAP_HOOK_ID_pthread_create, begin, 0, 0, (uint32_t)result);
  else
    self->call_event = 0;
  return result;
}

/* ---- names ---- */

static void note_name(const char *name)
{
  uint64_t id = opgap_intern(name, strnlen(name, 15)); /* the kernel keeps 15 */
  opgap_emit(OPGAP_EV_THREAD_NAME, 0, opgap_ticks(), 0, &id, 1);
}

OPGAP_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
  if (!OPGAP_BOUND(pthread_setname_np))
    return ENOSYS;
  int result = opgap_real.pthread_setname_np(thread, name);
  if (result == 0 && opgap_active && pthread_self() == thread && opgap_self())
    note_name(name);
  return result;
}

/* The thread is about to lose the time stamp counter (seccomp's strict mode takes it, too): nothing can be recorded. */
static uint32_t stop_recording(void)
{
  static bool said;
  if (opgap_active)
    opgap_notice(&said, "the program gives up its time stamp counter: tracing of it ends here");
  return __atomic_exchange_n(&opgap_active, 0, __ATOMIC_RELAXED);
}

OPGAP_EXPORT int prctl(int option, ...)
{
  va_list list;
  va_start(list, option);
  unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long), c = va_arg(list, unsigned long),
                d = va_arg(list, unsigned long);
  va_end(list);
  if (!OPGAP_BOUND(prctl))
    return OPGAP_MISSING(int);
  if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) /* the latter comes before seccomp(2) */
    opgap_sandboxed = true;
  bool stops = (option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT) || (option == PR_SET_TSC && a == PR_TSC_SIGSEGV);
  uint32_t active = stops ? stop_recording() : 0;
  int result = opgap_real.prctl(option, a, b, c, d);
  if (stops && result != 0)
    opgap_active = active;
  if (option == PR_SET_NAME && result == 0 && opgap_active && opgap_self())
    note_name((const char *)a);
  return result;
}
