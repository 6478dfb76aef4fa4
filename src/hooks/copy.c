/* The hooks of memory copies.
 *
 * Context   Any, and earlier than all others: IFUNC resolvers of other libraries may copy before this library is
 *           relocated.  So the first thing tested is opgap_active, by a PC-relative access, and then the real pointer;
 *           neither the GOT nor thread-local storage is touched before both are set.
 * Also here: the copies that the rest of this library makes (the compiler emits calls of memcpy), see real.c. */
#include "hooks/hooks.h"

size_t opgap_copy_threshold, opgap_copy_spans;

#define OPGAP_COUNTED(group, flags, type, name, params, ...) type name params;
#define OPGAP_CUSTOM_ALIAS(base, group, type, name, params) type name params;
#include "hooks/hooks.def"

/* Byte loops for the time before binding.  The barrier keeps the compiler from making a call of memcpy out of them. */
static void *plain_move(void *to, const void *from, size_t size)
{
  char *t = to;
  const char *f = from;
  if ((uintptr_t)t - (uintptr_t)f >= size) {
    for (size_t i = 0; i < size; i++) {
      t[i] = f[i];
      __asm__ volatile("" ::: "memory");
    }
  } else {
    for (size_t i = size; i > 0; i--) {
      t[i - 1] = f[i - 1];
      __asm__ volatile("" ::: "memory");
    }
  }
  return to;
}

static void *plain_set(void *to, int byte, size_t size)
{
  char *t = to;
  for (size_t i = 0; i < size; i++) {
    t[i] = (char)byte;
    __asm__ volatile("" ::: "memory");
  }
  return to;
}

/* Out of line: the hooks would need a register more. */
__attribute__((noinline)) void *opgap_real_memmove(void *to, const void *from, size_t size)
{
  return opgap_likely(opgap_real.memmove != NULL) ? opgap_real.memmove(to, from, size) : plain_move(to, from, size);
}

__attribute__((noinline)) void *opgap_real_memset(void *to, int byte, size_t size)
{
  return opgap_likely(opgap_real.memset != NULL) ? opgap_real.memset(to, byte, size) : plain_set(to, byte, size);
}

/* A copy that was counted and made: a span if it took long, else what OPGAP_MIN_COPY asks for. */
static void note_made(struct opgap_thread *thread, unsigned id, unsigned counter, uint64_t start, const void *to,
                      size_t size)
{
  uint64_t end = opgap_ticks();
  if (size >= opgap_copy_spans || end - start > OPGAP_OUTLIER_TICKS) {
    opgap_hook_end_at(thread, id, start, end, OPGAP_ADDRESS(to), size, 0);
    return;
  }
  if (opgap_is_sample(thread, counter))
    opgap_count_time(thread, counter, end - start);
  if (size >= opgap_copy_threshold)
    opgap_hook_record(thread, id, end, end, OPGAP_ADDRESS(to), size, 0);
}

/* A copy that is large, or the one of many that is timed, or the first on its thread, or not recorded. */
OPGAP_COLD void *slow_move(unsigned id, unsigned counter, void *to, const void *from, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER_COUNTING(copy, size < opgap_copy_threshold);
  if (thread == NULL)
    return opgap_real_memmove(to, from, size);
  opgap_count(thread, counter, size);
  if (opgap_unlikely(opgap_known_thread() == NULL)) /* a guest counts, and no more */
    return opgap_real.memmove(to, from, size);
  uint64_t start = opgap_ticks();
  opgap_real.memmove(to, from, size);
  note_made(thread, id, counter, start, to, size);
  return to;
}

OPGAP_COLD void *slow_set(void *to, int byte, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER_COUNTING(copy, size < opgap_copy_threshold);
  if (thread == NULL)
    return opgap_real_memset(to, byte, size);
  opgap_count(thread, OPGAP_COUNTER_memset, size);
  if (opgap_unlikely(opgap_known_thread() == NULL))
    return opgap_real.memset(to, byte, size);
  uint64_t start = opgap_ticks();
  opgap_real.memset(to, byte, size);
  note_made(thread, OPGAP_HOOK_ID_memset, OPGAP_COUNTER_memset, start, to, size);
  return to;
}

OPGAP_COLD void note_long_event(struct opgap_thread *thread, unsigned id, const void *to, size_t size)
{
  opgap_segment_turn(opgap_cell);
  uint64_t at = opgap_ticks();
  opgap_hook_record(thread, id, at, at, OPGAP_ADDRESS(to), size, 0);
}

/* Records a copy that was counted and is to be made, without a duration. */
static inline __attribute__((always_inline)) void note_event(struct opgap_thread *thread, unsigned id, const void *to,
                                                             size_t size)
{
  if (opgap_unlikely(!opgap_short_record(opgap_cell, thread, id, OPGAP_ADDRESS(to), size)))
    note_long_event(thread, id, to, size);
}

/* One that is recorded so: a small one, and not the one of many that is timed. */
static inline __attribute__((always_inline)) bool is_event(const struct opgap_thread *thread, unsigned counter,
                                                           size_t size)
{
  return thread != NULL && size < opgap_copy_spans && size >= opgap_copy_threshold &&
         !opgap_sample_is_next(thread, counter);
}

/* These have the hook's own arguments first: they stay in their registers. */
static __attribute__((noinline)) void *move_event(void *to, const void *from, size_t size, unsigned id,
                                                  unsigned counter, struct opgap_thread *thread)
{
  if (opgap_unlikely(!is_event(thread, counter, size)))
    return slow_move(id, counter, to, from, size);
  opgap_count(thread, counter, size);
  note_event(thread, id, to, size);
  return opgap_real.memmove(to, from, size);
}

static __attribute__((noinline)) void *set_event(void *to, int byte, size_t size, struct opgap_thread *thread)
{
  if (opgap_unlikely(!is_event(thread, OPGAP_COUNTER_memset, size)))
    return slow_set(to, byte, size);
  opgap_count(thread, OPGAP_COUNTER_memset, size);
  note_event(thread, OPGAP_HOOK_ID_memset, to, size);
  return opgap_real.memset(to, byte, size);
}

/* The call is to be timed or recorded, or the thread is not known. */
static inline __attribute__((always_inline)) bool is_special(const struct opgap_thread *thread, unsigned counter,
                                                             size_t size)
{
  return thread == NULL || size >= opgap_copy_threshold || opgap_sample_is_next(thread, counter);
}

static inline __attribute__((always_inline)) void *move(unsigned id, unsigned counter, void *to, const void *from,
                                                        size_t size)
{
  if (OPGAP_IS_OFF(copy))
    return opgap_real_memmove(to, from, size);
  struct opgap_thread *thread = opgap_known_thread();
  if (opgap_unlikely(is_special(thread, counter, size)))
    return move_event(to, from, size, id, counter, thread);
  opgap_count(thread, counter, size);
  return opgap_real.memmove(to, from, size);
}

#define MOVE(name, to, from, size) move(OPGAP_HOOK_ID_##name, OPGAP_COUNTER_##name, to, from, size)

OPGAP_HOT void *memcpy(void *to, const void *from, size_t size)
{
  return MOVE(memcpy, to, from, size);
}

OPGAP_HOT void *memmove(void *to, const void *from, size_t size)
{
  return MOVE(memmove, to, from, size);
}

OPGAP_EXPORT void *mempcpy(void *to, const void *from, size_t size)
{
  return (char *)MOVE(mempcpy, to, from, size) + size;
}

OPGAP_EXPORT void *__mempcpy(void *to, const void *from, size_t size)
{
  return (char *)MOVE(mempcpy, to, from, size) + size;
}

OPGAP_HOT void *memset(void *to, int byte, size_t size)
{
  if (OPGAP_IS_OFF(copy))
    return opgap_real_memset(to, byte, size);
  struct opgap_thread *thread = opgap_known_thread();
  if (opgap_unlikely(is_special(thread, OPGAP_COUNTER_memset, size)))
    return set_event(to, byte, size, thread);
  opgap_count(thread, OPGAP_COUNTER_memset, size);
  return opgap_real.memset(to, byte, size);
}

/* ---- fortified: the real one reports an overflow and ends the program ---- */

OPGAP_EXPORT void *__memcpy_chk(void *to, const void *from, size_t size, size_t room)
{
  if (opgap_unlikely(size > room) && OPGAP_BOUND(__memcpy_chk))
    return opgap_real.__memcpy_chk(to, from, size, room);
  return MOVE(memcpy, to, from, size);
}

OPGAP_EXPORT void *__memmove_chk(void *to, const void *from, size_t size, size_t room)
{
  if (opgap_unlikely(size > room) && OPGAP_BOUND(__memmove_chk))
    return opgap_real.__memmove_chk(to, from, size, room);
  return MOVE(memmove, to, from, size);
}

OPGAP_EXPORT void *__mempcpy_chk(void *to, const void *from, size_t size, size_t room)
{
  if (opgap_unlikely(size > room) && OPGAP_BOUND(__mempcpy_chk))
    return opgap_real.__mempcpy_chk(to, from, size, room);
  return (char *)MOVE(mempcpy, to, from, size) + size;
}

OPGAP_EXPORT void *__memset_chk(void *to, int byte, size_t size, size_t room)
{
  if (opgap_unlikely(size > room) && OPGAP_BOUND(__memset_chk))
    return opgap_real.__memset_chk(to, byte, size, room);
  return memset(to, byte, size);
}
