/* The hooks of locks: counted when they are free, a span when the thread has to wait.
 *
 * Context   any, see hooks.h.
 * Method    The try function first: if it takes the lock, the call is over.  If it reports that the lock is busy, the
 *           real call is made and timed.  Any other result is left to the real call, so what comes back is what the
 *           plain call would have given for every type of lock. */
#include "hooks/hooks.h"
#include "record/stacks.h"

#define OPGAP_COUNTED(group, flags, type, name, params, ...) type name params;
#define OPGAP_CUSTOM_ALIAS(base, group, type, name, params) type name params;
#include "hooks/hooks.def"

OPGAP_COLD void note_failed(unsigned counter)
{
  struct opgap_thread *thread = opgap_known_thread();
  if (thread)
    opgap_count_failed(thread, counter);
}

OPGAP_COLD void note_wait(unsigned id, unsigned counter, uint64_t start, uint64_t lock, uint64_t holder,
                          uint32_t status)
{
  uint64_t end = opgap_ticks();
  struct opgap_thread *thread = opgap_known_thread();
  if (thread == NULL)
    return;
  if (status && status != EOWNERDEAD)
    opgap_count_failed(thread, counter);
  opgap_hook_end_at(thread, id, start, end, lock, holder, status);
  if (!opgap_sandboxed) /* to name the program's file the kernel is asked */
    opgap_module_want(lock);
}

static inline bool is_time(const struct timespec *until)
{
  return until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

static inline bool is_clock(clockid_t clock)
{
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/* Three functions a lock.  The hook itself takes the common way: a free lock.  name_slow is for the first call on a
 * thread, the one of many that is timed, and what is not recorded.  name_rest is the real call, after counting.
 *
 * valid: false leaves the call to the real function, which has something to say about its arguments.
 * tries: the real try function; taken: its result; busy: the one that means the lock is busy; owner: who holds it;
 * status: the error in `result`. */
#define LOCK_HOOK(name, params, args, lock, valid, tries, taken, busy, owner, status)                                  \
  OPGAP_COLD int name##_rest params                                                                                    \
  {                                                                                                                    \
    struct opgap_thread *thread = opgap_known_thread();                                                                \
    int result = (valid) ? (taken) : EINVAL;                                                                           \
    if (result == 0)                                                                                                   \
      return 0;                                                                                                        \
    if (result != (busy) || thread == NULL) { /* not tried, or an error */                                             \
      result = opgap_real.name args;                                                                                   \
      if (result != 0 && result != EOWNERDEAD)                                                                         \
        note_failed(OPGAP_COUNTER_##name);                                                                             \
      return result;                                                                                                   \
    }                                                                                                                  \
    uint64_t holder = owner;                                                                                           \
    uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_##name, OPGAP_ADDRESS(lock));                              \
    result = opgap_real.name args;                                                                                     \
    note_wait(OPGAP_HOOK_ID_##name, OPGAP_COUNTER_##name, start, OPGAP_ADDRESS(lock), holder, (uint32_t)(status));     \
    return result;                                                                                                     \
  }                                                                                                                    \
  OPGAP_COLD int name##_slow params                                                                                    \
  {                                                                                                                    \
    struct opgap_thread *thread = OPGAP_ENTER(sync);                                                                   \
    if (!OPGAP_BOUND(name))                                                                                            \
      return OPGAP_MISSING(int);                                                                                       \
    if (thread == NULL || !OPGAP_BOUND(tries) || !OPGAP_BOUND(pthread_testcancel))                                     \
      return opgap_real.name args;                                                                                     \
    opgap_count_call(thread, OPGAP_COUNTER_##name);                                                                    \
    uint64_t start = opgap_ticks();                                                                                    \
    if (!(valid) || (taken) != 0)                                                                                      \
      return name##_rest args;                                                                                         \
    uint64_t ticks = opgap_ticks() - start; /* an outlier is no wait: the thread lost its CPU amid it */               \
    if (opgap_is_sample(thread, OPGAP_COUNTER_##name) && ticks <= OPGAP_OUTLIER_TICKS)                                 \
      opgap_count_time(thread, OPGAP_COUNTER_##name, ticks);                                                           \
    return 0;                                                                                                          \
  }                                                                                                                    \
  OPGAP_HOT int name params                                                                                            \
  {                                                                                                                    \
    if (OPGAP_IS_OFF(sync))                                                                                            \
      return OPGAP_PASS(name, args);                                                                                   \
    struct opgap_thread *thread = opgap_known_thread();                                                                \
    if (opgap_unlikely(thread == NULL || opgap_real.tries == NULL || opgap_real.name == NULL || !(valid) ||            \
                       opgap_sample_is_next(thread, OPGAP_COUNTER_##name)))                                            \
      return name##_slow args;                                                                                         \
    int result = taken; /* counted after it: an atomic operation waits for the stores before it */                     \
    opgap_count_call(thread, OPGAP_COUNTER_##name);                                                                    \
    return opgap_likely(result == 0) ? 0 : name##_rest args;                                                           \
  }

/* The owner's thread id, as glibc keeps it; a hint: it may have changed. */
static inline uint64_t mutex_owner(const pthread_mutex_t *mutex)
{
  return (uint64_t)(unsigned)__atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
}

/* glibc's trylock of a robust mutex that is not recoverable leaves it locked (lock does not), so a robust one is only
 * looked at: EBUSY if a living thread seems to hold it, else EINVAL, which means not tried.
 * glibc's lock, not its trylock, does without an atomic operation while there is one thread: a free mutex of this
 * process alone can then be locked straight away. */
static inline int try_mutex(pthread_mutex_t *mutex)
{
  enum { ROBUST = 16, SHARED = 128, OWNER_DIED = 0x40000000, OWNER = 0x3fffffff };
  int kind = __atomic_load_n(&mutex->__data.__kind, __ATOMIC_RELAXED);
  int word = __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED);
  if (opgap_unlikely(kind & ROBUST))
    return (word & OWNER) && !(word & OWNER_DIED) ? EBUSY : EINVAL;
  if (!opgap_threads && word == 0 && !(kind & SHARED))
    return opgap_real.pthread_mutex_lock(mutex);
  return opgap_real.pthread_mutex_trylock(mutex);
}

#define MUTEX_HOOK(name, params, args, valid)                                                                          \
  LOCK_HOOK(name, params, args, mutex, valid, pthread_mutex_trylock, try_mutex(mutex), EBUSY, mutex_owner(mutex),      \
            result)
MUTEX_HOOK(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex), true)
MUTEX_HOOK(pthread_mutex_timedlock, (pthread_mutex_t * mutex, const struct timespec *until), (mutex, until),
           is_time(until))
MUTEX_HOOK(pthread_mutex_clocklock, (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *until),
           (mutex, clock, until), is_clock(clock) && is_time(until))

/* glibc's low bits of __lock: 1 taken, 2 taken and somebody waits; robust and priority-inheriting mutexes keep the
 * owner there and the waiters' bit on top. */
static inline bool has_waiters(const pthread_mutex_t *mutex)
{
  unsigned word = (unsigned)__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED);
  return word == 2 || (word & 0x80000000u);
}

OPGAP_COLD int pthread_mutex_unlock_slow(pthread_mutex_t *mutex)
{
  if (!OPGAP_BOUND(pthread_mutex_unlock))
    return OPGAP_MISSING(int);
  struct opgap_thread *thread = OPGAP_ENTER(sync);
  if (thread == NULL)
    return opgap_real.pthread_mutex_unlock(mutex);
  opgap_count_call(thread, OPGAP_COUNTER_pthread_mutex_unlock);
  if (has_waiters(mutex)) /* stamped before, so that it precedes the wake-up */
    opgap_point(thread, OPGAP_HOOK_ID_pthread_mutex_unlock, OPGAP_ADDRESS(mutex), 0, 0);
  return opgap_real.pthread_mutex_unlock(mutex);
}

OPGAP_HOT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
  if (OPGAP_IS_OFF(sync))
    return OPGAP_PASS(pthread_mutex_unlock, (mutex));
  struct opgap_thread *thread = opgap_known_thread();
  if (opgap_unlikely(thread == NULL || has_waiters(mutex)))
    return pthread_mutex_unlock_slow(mutex);
  opgap_count_call(thread, OPGAP_COUNTER_pthread_mutex_unlock);
  return opgap_real.pthread_mutex_unlock(mutex);
}

#define RWLOCK_HOOK(name, try, params, args, valid)                                                                    \
  LOCK_HOOK(name, params, args, lock, valid, try, opgap_real.try(lock), EBUSY, rwlock_owner(lock), result)

/* The writer's thread id, 0 while readers hold it. */
static inline uint64_t rwlock_owner(const pthread_rwlock_t *lock)
{
  return (uint64_t)(unsigned)__atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED);
}

RWLOCK_HOOK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock), true)
RWLOCK_HOOK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock), true)
RWLOCK_HOOK(pthread_rwlock_timedrdlock, pthread_rwlock_tryrdlock,
            (pthread_rwlock_t * lock, const struct timespec *until), (lock, until), is_time(until))
RWLOCK_HOOK(pthread_rwlock_timedwrlock, pthread_rwlock_trywrlock,
            (pthread_rwlock_t * lock, const struct timespec *until), (lock, until), is_time(until))
RWLOCK_HOOK(pthread_rwlock_clockrdlock, pthread_rwlock_tryrdlock,
            (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until),
            is_clock(clock) && is_time(until))
RWLOCK_HOOK(pthread_rwlock_clockwrlock, pthread_rwlock_trywrlock,
            (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until),
            is_clock(clock) && is_time(until))

OPGAP_HOT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
  struct opgap_thread *thread = OPGAP_ENTER(sync);
  if (opgap_unlikely(thread == NULL))
    return OPGAP_BOUND(pthread_rwlock_unlock) ? opgap_real.pthread_rwlock_unlock(lock) : OPGAP_MISSING(int);
  opgap_count_call(thread, OPGAP_COUNTER_pthread_rwlock_unlock);
  return opgap_real.pthread_rwlock_unlock(lock);
}

/* sem_trywait's result as an error number.  The semaphore waits are cancellation points even if they need not wait. */
static inline int try_semaphore(sem_t *sem)
{
  opgap_real.pthread_testcancel();
  int saved = errno;
  if (opgap_real.sem_trywait(sem) == 0)
    return 0;
  int result = errno;
  errno = saved;
  return result;
}

#define SEM_HOOK(name, params, args, valid)                                                                            \
  LOCK_HOOK(name, params, args, sem, valid, sem_trywait, try_semaphore(sem), EAGAIN, 0, result == 0 ? 0 : errno)
SEM_HOOK(sem_wait, (sem_t * sem), (sem), true)
SEM_HOOK(sem_timedwait, (sem_t * sem, const struct timespec *until), (sem, until), is_time(until))
SEM_HOOK(sem_clockwait, (sem_t * sem, clockid_t clock, const struct timespec *until), (sem, clock, until),
         is_clock(clock) && is_time(until))

/* ---- wake-ups ---- */

/* A wake-up is counted; if somebody waits it is an edge as well, stamped before the call, so that it precedes the
 * waking.  Programs signal far more often than somebody waits (Python's GIL). */
#define WAKE_HOOK(name, params, object, waits)                                                                         \
  OPGAP_COLD int name##_slow params                                                                                    \
  {                                                                                                                    \
    if (!OPGAP_BOUND(name))                                                                                            \
      return OPGAP_MISSING(int);                                                                                       \
    struct opgap_thread *thread = OPGAP_ENTER(sync);                                                                   \
    if (thread) {                                                                                                      \
      opgap_count_call(thread, OPGAP_COUNTER_##name);                                                                  \
      if (waits)                                                                                                       \
        opgap_point(thread, OPGAP_HOOK_ID_##name, OPGAP_ADDRESS(object), 0, 0);                                        \
    }                                                                                                                  \
    return opgap_real.name(object);                                                                                    \
  }                                                                                                                    \
  OPGAP_HOT int name params                                                                                            \
  {                                                                                                                    \
    if (OPGAP_IS_OFF(sync))                                                                                            \
      return OPGAP_PASS(name, (object));                                                                               \
    struct opgap_thread *thread = opgap_known_thread();                                                                \
    if (opgap_unlikely(thread == NULL || opgap_real.name == NULL || (waits)))                                          \
      return name##_slow(object);                                                                                      \
    opgap_count_call(thread, OPGAP_COUNTER_##name);                                                                    \
    return opgap_real.name(object);                                                                                    \
  }

/* glibc's count of waiters, since 2.25: above the three flag bits of __wrefs. */
static inline bool cond_waited(pthread_cond_t *cond)
{
  return __atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED) >> 3 != 0;
}

/* glibc's semaphore, since 2.21: the value, then the number of waiters. */
static inline bool sem_waited(sem_t *sem)
{
  return __atomic_load_n((unsigned *)sem + 1, __ATOMIC_RELAXED) != 0;
}

WAKE_HOOK(pthread_cond_signal, (pthread_cond_t * cond), cond, cond_waited(cond))
WAKE_HOOK(pthread_cond_broadcast, (pthread_cond_t * cond), cond, cond_waited(cond))
WAKE_HOOK(sem_post, (sem_t * sem), sem, sem_waited(sem))

/* ---- giving up the CPU ---- */

/* The one of many that is timed, and what is not recorded. */
OPGAP_COLD int yield_slow(void)
{
  struct opgap_thread *thread = OPGAP_ENTER(sync);
  if (!OPGAP_BOUND(sched_yield))
    return OPGAP_MISSING(int);
  if (thread == NULL)
    return opgap_real.sched_yield();
  opgap_count_call(thread, OPGAP_COUNTER_sched_yield);
  uint64_t start = opgap_ticks();
  int result = opgap_real.sched_yield();
  uint64_t end = opgap_ticks();
  if (end - start > OPGAP_OUTLIER_TICKS) /* others had the CPU: it speaks for itself alone */
    opgap_hook_record(thread, OPGAP_HOOK_ID_sched_yield, start, end, 0, 0, 0);
  else if (opgap_is_sample(thread, OPGAP_COUNTER_sched_yield))
    opgap_count_time(thread, OPGAP_COUNTER_sched_yield, end - start);
  return result;
}

static inline __attribute__((always_inline)) int hooked_yield(void)
{
  struct opgap_thread *thread = OPGAP_ENTER_FAST(sync);
  if (opgap_unlikely(thread == NULL || opgap_real.sched_yield == NULL ||
                     opgap_sample_is_next(thread, OPGAP_COUNTER_sched_yield)))
    return yield_slow();
  opgap_count_call(thread, OPGAP_COUNTER_sched_yield);
  return opgap_real.sched_yield();
}

OPGAP_HOT int sched_yield(void)
{
  return hooked_yield();
}

OPGAP_EXPORT int __sched_yield(void)
{
  return hooked_yield();
}

OPGAP_EXPORT void thrd_yield(void)
{
  hooked_yield();
}

/* ---- condition variables of before glibc 2.3.2: a pointer to the real one, made by the first call ---- */

#ifdef OPGAP_OLD_VERSIONS
#include "hooks/bind.h"

#define OLD_COND(name, params)                                                                                         \
  static void *_Atomic old_##name;                                                                                     \
  int opgap_##name##_2_2_5 params;                                                                                     \
  OPGAP_OLD_VERSION(opgap_##name##_2_2_5, name, "GLIBC_2.2.5");                                                        \
  OPGAP_EXPORT int opgap_##name##_2_2_5 params

#define OLD_WAIT(name, params, args)                                                                                   \
  OLD_COND(name, params)                                                                                               \
  {                                                                                                                    \
    int(*real) params = opgap_find_version(&old_##name, #name, "GLIBC_2.2.5");                                         \
    struct opgap_thread *thread = OPGAP_ENTER(sync);                                                                   \
    if (real == NULL)                                                                                                  \
      return ENOSYS;                                                                                                   \
    if (thread == NULL)                                                                                                \
      return real args;                                                                                                \
    uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_##name, OPGAP_ADDRESS(cond));                              \
    int result = real args;                                                                                            \
    opgap_hook_end(thread, OPGAP_HOOK_ID_##name, start, OPGAP_ADDRESS(cond), OPGAP_ADDRESS(mutex), (uint32_t)result);  \
    return result;                                                                                                     \
  }
OLD_WAIT(pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex), (cond, mutex))
OLD_WAIT(pthread_cond_timedwait, (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct timespec *until),
         (cond, mutex, until))

/* Whether somebody waits is not looked up: each is an edge. */
#define OLD_WAKE(name)                                                                                                 \
  OLD_COND(name, (pthread_cond_t * cond))                                                                              \
  {                                                                                                                    \
    int (*real)(pthread_cond_t *) = opgap_find_version(&old_##name, #name, "GLIBC_2.2.5");                             \
    struct opgap_thread *thread = OPGAP_ENTER(sync);                                                                   \
    if (real == NULL)                                                                                                  \
      return ENOSYS;                                                                                                   \
    if (thread) {                                                                                                      \
      opgap_count_call(thread, OPGAP_COUNTER_##name);                                                                  \
      opgap_point(thread, OPGAP_HOOK_ID_##name, OPGAP_ADDRESS(cond), 0, 0);                                            \
    }                                                                                                                  \
    return real(cond);                                                                                                 \
  }
OLD_WAKE(pthread_cond_signal)
OLD_WAKE(pthread_cond_broadcast)
#endif
