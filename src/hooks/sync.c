/* The hooks of locks: counted when they are free, a span when the thread has to wait.
 *
 * Context   any, see hooks.h.
 * Method    The try function first: if it takes the lock, the call is over.  If it reports that the lock is busy, the
 *           real call is made and timed.  Any other result, and all errors, are left to the real call, so what comes
 *           back is what the plain call would have given for every type of lock.  EOWNERDEAD takes the lock. */
#include "hooks/hooks.h"

static void note_wait(struct opgap_thread *thread, unsigned id, unsigned counter, uint64_t start, uint64_t lock,
                      uint64_t holder, uint32_t status)
{
  uint64_t end = opgap_ticks();
  struct opgap_cell *cell = opgap_cell;
  if (opgap_unlikely(cell == NULL || cell->thread != thread))
    return;
  if (status && status != EOWNERDEAD)
    opgap_count_failed(thread, counter);
  opgap_hook_end_at(thread, id, start, end, lock, holder, status);
}

static inline bool is_time(const struct timespec *until)
{
  return until->tv_nsec >= 0 && until->tv_nsec < 1000000000;
}

static inline bool is_clock(clockid_t clock)
{
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/* valid: false leaves the call to the real function, which has something to say about its arguments.
 * taken: the try function's result; busy: that it reports a busy lock; owner: who holds it; status: of `result`. */
#define LOCK_HOOK(name, params, args, lock, valid, taken, busy, owner, status)                                         \
  OPGAP_EXPORT int name params                                                                                         \
  {                                                                                                                    \
    struct opgap_thread *thread = OPGAP_ENTER(sync);                                                                   \
    if (opgap_unlikely(thread == NULL || opgap_real.name == NULL))                                                     \
      return OPGAP_BOUND(name) ? opgap_real.name args : OPGAP_MISSING(int);                                            \
    uint64_t calls = opgap_count(thread, OPGAP_COUNTER_##name, 0);                                                     \
    uint64_t timed = opgap_unlikely(calls % OPGAP_TIME_EVERY == 0) ? opgap_ticks() : 0;                                \
    int result = (valid) ? (taken) : EINVAL;                                                                           \
    if (opgap_likely(result == 0 || result == EOWNERDEAD)) {                                                           \
      if (opgap_unlikely(timed))                                                                                       \
        opgap_count_time(thread, OPGAP_COUNTER_##name, opgap_ticks() - timed);                                         \
      return result;                                                                                                   \
    }                                                                                                                  \
    if (result != (busy)) { /* not tried, or an error */                                                               \
      result = opgap_real.name args;                                                                                   \
      if (result != 0 && result != EOWNERDEAD)                                                                         \
        opgap_count_failed(thread, OPGAP_COUNTER_##name);                                                              \
      return result;                                                                                                   \
    }                                                                                                                  \
    uint64_t holder = owner;                                                                                           \
    uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_##name, OPGAP_ADDRESS(lock));                              \
    result = opgap_real.name args;                                                                                     \
    note_wait(thread, OPGAP_HOOK_ID_##name, OPGAP_COUNTER_##name, start, OPGAP_ADDRESS(lock), holder,                  \
              (uint32_t)(status));                                                                                     \
    return result;                                                                                                     \
  }

/* The owner's thread id, as glibc keeps it; a hint: it may have changed. */
static inline uint64_t mutex_owner(const pthread_mutex_t *mutex)
{
  return (uint64_t)(unsigned)__atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
}

/* glibc's trylock of a robust mutex that is not recoverable leaves it locked (lock does not), so a robust one is only
 * looked at: EBUSY if a living thread seems to hold it, else EINVAL, which means not tried. */
static inline int try_mutex(pthread_mutex_t *mutex)
{
  enum { ROBUST = 16, OWNER_DIED = 0x40000000, OWNER = 0x3fffffff };
  if (opgap_likely(!(__atomic_load_n(&mutex->__data.__kind, __ATOMIC_RELAXED) & ROBUST)))
    return opgap_real.pthread_mutex_trylock(mutex);
  int word = __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED);
  return (word & OWNER) && !(word & OWNER_DIED) ? EBUSY : EINVAL;
}

#define MUTEX_HOOK(name, params, args, valid)                                                                          \
  LOCK_HOOK(name, params, args, mutex, valid, try_mutex(mutex), EBUSY, mutex_owner(mutex), result)
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

OPGAP_EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
  struct opgap_thread *thread = OPGAP_ENTER(sync);
  if (opgap_unlikely(thread == NULL))
    return OPGAP_BOUND(pthread_mutex_unlock) ? opgap_real.pthread_mutex_unlock(mutex) : OPGAP_MISSING(int);
  opgap_count(thread, OPGAP_COUNTER_pthread_mutex_unlock, 0);
  if (opgap_unlikely(has_waiters(mutex))) /* stamped before, so that it precedes the wake-up */
    opgap_point(thread, OPGAP_HOOK_ID_pthread_mutex_unlock, OPGAP_ADDRESS(mutex), 0, 0);
  return opgap_real.pthread_mutex_unlock(mutex);
}

#define RWLOCK_HOOK(name, try, params, args, valid)                                                                    \
  LOCK_HOOK(name, params, args, lock, valid, opgap_real.try(lock), EBUSY, rwlock_owner(lock), result)

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

OPGAP_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
  struct opgap_thread *thread = OPGAP_ENTER(sync);
  if (opgap_unlikely(thread == NULL))
    return OPGAP_BOUND(pthread_rwlock_unlock) ? opgap_real.pthread_rwlock_unlock(lock) : OPGAP_MISSING(int);
  opgap_count(thread, OPGAP_COUNTER_pthread_rwlock_unlock, 0);
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
  LOCK_HOOK(name, params, args, sem, valid, try_semaphore(sem), EAGAIN, 0, result == 0 ? 0 : errno)
SEM_HOOK(sem_wait, (sem_t * sem), (sem), true)
SEM_HOOK(sem_timedwait, (sem_t * sem, const struct timespec *until), (sem, until), is_time(until))
SEM_HOOK(sem_clockwait, (sem_t * sem, clockid_t clock, const struct timespec *until), (sem, clock, until),
         is_clock(clock) && is_time(until))
