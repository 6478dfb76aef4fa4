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

#include "record/control.h"
#include "record/raw.h"

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int pthread_setname_np(pthread_t thread, const char *name);
int prctl(int option, ...);

bool opgap_threads;

/* ---- launch records: a free list in pages that are never given back ---- */

struct launch {
  union {
    void *(*start)(void *);
    thrd_start_t start_thrd;
  };
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

/* As pthread_self. */
static pthread_t own_thread(void)
{
#if defined(__x86_64__)
  return (pthread_t)__builtin_thread_pointer();
#else
  return pthread_self();
#endif
}

/* The first thing on the new thread: takes the launch record over and announces the thread. */
static struct launch begin(struct launch *from)
{
  struct launch launch = {.start = from->start, .argument = from->argument, .creator_tid = from->creator_tid};
  give_launch(from);
  if (end_key_made)
    opgap_real.pthread_setspecific(end_key, (void *)1);
  if (opgap_active) {
    const uint64_t fields[] = {(uint64_t)own_thread(), launch.creator_tid};
    opgap_emit(OPGAP_EV_THREAD_START, 0, opgap_ticks(), 0, fields, 2);
  }
  return launch;
}

static void *begin_thread(void *context)
{
  struct launch launch = begin(context);
  return launch.start(launch.argument);
}

static int begin_thrd(void *context)
{
  struct launch launch = begin(context);
  return launch.start_thrd(launch.argument);
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

/* Before a thread is created: the launch record, or NULL to leave the call alone. */
static struct launch *prepare_launch(void *argument)
{
  opgap_threads = true;
  struct opgap_thread *self = opgap_active ? opgap_self() : NULL;
  if (self == NULL)
    return NULL;
  opgap_session_threads();
  if (opgap_unlikely(!end_key_made) && OPGAP_BOUND(pthread_key_create) && OPGAP_BOUND(pthread_setspecific))
    opgap_thread_prepare(); /* an older glibc whose libpthread was loaded after us */
  struct launch *launch = take_launch();
  if (launch) {
    launch->argument = argument;
    launch->creator_tid = (uint64_t)self->tid;
  }
  return launch;
}

/* After it.  The pthread_t is not looked at: the new thread may have freed the place where it stood. */
static void note_created(struct launch *launch, uint64_t start, uint32_t error)
{
  if (error)
    give_launch(launch);
  struct opgap_thread *self = opgap_known_thread();
  if (self == NULL)
    return;
  if (opgap_active & OPGAP_GROUP_thread)
    opgap_hook_end(self, OPGAP_HOOK_ID_pthread_create, start, 0, 0, error);
}

OPGAP_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                void *argument)
{
  if (!OPGAP_BOUND(pthread_create))
    return EAGAIN;
  struct launch *launch = prepare_launch(argument);
  if (launch == NULL)
    return opgap_real.pthread_create(thread, attributes, start, argument);
  launch->start = start;
  uint64_t begun = opgap_ticks();
  int result = opgap_real.pthread_create(thread, attributes, begin_thread, launch);
  note_created(launch, begun, (uint32_t)result);
  return result;
}

int thrd_create(thrd_t *thread, thrd_start_t start, void *argument);
OPGAP_EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *argument)
{
  if (!OPGAP_BOUND(thrd_create))
    return thrd_error;
  struct launch *launch = prepare_launch(argument);
  if (launch == NULL)
    return opgap_real.thrd_create(thread, start, argument);
  launch->start_thrd = start;
  uint64_t begun = opgap_ticks();
  int result = opgap_real.thrd_create(thread, begin_thrd, launch);
  note_created(launch, begun, result == thrd_success ? 0 : EAGAIN);
  return result;
}

/* ---- names ---- */

static void note_name(const char *name)
{
  size_t length = 0;
  while (length < 15 && name[length]) /* the kernel keeps 15 */
    length++;
  uint64_t id = opgap_intern(name, length);
  opgap_emit(OPGAP_EV_THREAD_NAME, 0, opgap_ticks(), 0, &id, 1);
}

OPGAP_EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
  if (!OPGAP_BOUND(pthread_key_create))
    return EAGAIN;
  if (opgap_unlikely(opgap_cell == &opgap_unwind_cell))
    destructor = opgap_stacks_destructor(destructor);
  return opgap_real.pthread_key_create(key, destructor);
}

OPGAP_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
  if (!OPGAP_BOUND(pthread_setname_np))
    return ENOSYS;
  int result = opgap_real.pthread_setname_np(thread, name);
  if (result == 0 && opgap_active && own_thread() == thread && opgap_self())
    note_name(name);
  return result;
}

bool opgap_strict;

/* The thread is about to lose the time stamp counter, in seccomp's strict mode nearly all system calls with it: nothing
 * can be recorded, and the flusher could not be ended later. */
static uint32_t stop_recording(bool strict)
{
  static bool said;
  if (opgap_in_vfork) /* the child's counter, the parent's memory */
    return 0;
  if (opgap_active)
    opgap_notice(&said, "the program gives up its time stamp counter: tracing of it ends here");
  uint32_t active = opgap_active_halt();
  if (strict)
    opgap_flusher_stop();
  opgap_strict |= strict;
  return active;
}

/* It was refused. */
static void resume_recording(uint32_t active)
{
  if (opgap_strict && opgap_threads)
    opgap_session_threads();
  opgap_strict = false;
  if (active)
    opgap_active_resume();
}

/* The program gives itself a filter, which may kill it for what the tracer asks of the kernel. */
long opgap_seccomp(long operation, long flags, long argument)
{
  const bool filter = operation == SECCOMP_SET_MODE_FILTER, strict = operation == SECCOMP_SET_MODE_STRICT;
  bool confined = filter && !opgap_in_vfork && opgap_session_confine(flags & SECCOMP_FILTER_FLAG_TSYNC);
  opgap_sandboxed |= filter || strict;
  uint32_t active = strict ? stop_recording(true) : 0;
  long result = opgap_real.syscall(SYS_seccomp, operation, flags, argument);
  if (result != 0 && confined) {
    opgap_session_unconfine();
    if (opgap_threads) /* for all threads the flusher was ended */
      opgap_session_threads();
  }
  if (result != 0 && strict && !opgap_in_vfork)
    resume_recording(active);
  return result;
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
  if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) { /* the latter comes before seccomp(2) */
    if (opgap_active)
      opgap_self(); /* the session begins while it may */
    opgap_sandboxed = true;
  }
  bool stops = (option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT) || (option == PR_SET_TSC && a == PR_TSC_SIGSEGV);
  bool confined =
      option == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER && !opgap_in_vfork && opgap_session_confine(false);
  uint32_t active = stops ? stop_recording(option == PR_SET_SECCOMP) : 0;
  int result = opgap_real.prctl(option, a, b, c, d);
  if (confined && result != 0)
    opgap_session_unconfine();
  if (stops && result != 0 && !opgap_in_vfork)
    resume_recording(active);
  else if (stops && option == PR_SET_TSC && result == 0 && !opgap_in_vfork)
    opgap_session_counter_gone();
  if (option == PR_SET_NAME && result == 0 && opgap_active && opgap_self())
    note_name((const char *)a);
  return result;
}
