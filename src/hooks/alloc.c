/* The heap's hooks.
 *
 * Context   any, see hooks.h.  The hot ones add a test, a look at the thread's slot and two additions to the real call.
 * Rules     Pointers are passed on as they are, no headers: blocks may come from or go to code that bypasses us.
 *           Only the bootstrap arena below is ours; free, realloc and malloc_usable_size know its blocks.
 * What is counted and recorded: hook_table.h. */
#include "hooks/hooks.h"

#include <malloc.h>

size_t opgap_alloc_threshold, opgap_alloc_large, opgap_alloc_events;

/* ---- before the real functions can be found ---- */

/* A call that comes before this library is relocated (an IFUNC resolver that allocates) is served from here.  Blocks
 * are never reused.  The word before a block holds its size. */
#define BOOTSTRAP_BYTES 65536u
/* Behind it: blocks of what is allocated while the tracer unwinds (stacks.h).  That is libunwind's thread-local data,
 * which libc frees when it uses the thread's stack again, inside a pthread_create of the program's: a free that the
 * program's counts must not have.  Each is 16 bytes, which end with the size, and the block. */
#define LENT_BLOCKS 1024u
#define LENT_BYTES 128u
/* What its pages are aligned to: nobody can be asked yet, so the largest that a kernel of the architecture uses. */
#ifdef __x86_64__
#define MOST_PAGE_BYTES 4096u
#else
#define MOST_PAGE_BYTES 65536u
#endif
static _Alignas(16) char bootstrap[BOOTSTRAP_BYTES + LENT_BLOCKS * LENT_BYTES];
static size_t bootstrap_used;

static bool is_bootstrap(const void *block)
{
  return (uintptr_t)block - (uintptr_t)bootstrap < sizeof bootstrap;
}

static size_t bootstrap_size(const void *block)
{
  return ((const size_t *)block)[-1];
}

static void *bootstrap_alloc(size_t alignment, size_t size)
{
  if (alignment < 16)
    alignment = 16;
  if (size > BOOTSTRAP_BYTES || alignment > BOOTSTRAP_BYTES)
    return NULL;
  uintptr_t base = (uintptr_t)bootstrap;
  uintptr_t at = (base + bootstrap_used + sizeof(size_t) + alignment - 1) & ~(uintptr_t)(alignment - 1);
  if (at + size > base + BOOTSTRAP_BYTES)
    return NULL;
  bootstrap_used = at + size - base;
  ((size_t *)at)[-1] = size;
  return (void *)at; /* fresh, so zeroed */
}

static _Atomic uint64_t lent[LENT_BLOCKS / 64]; /* a bit each; its owner alone touches the block: acquire, release */

/* The tracer is unwinding on this thread. */
static inline bool lends(void)
{
  return opgap_unlikely(opgap_cell == &opgap_unwind_cell);
}

/* A zeroed block; NULL: the tracer is not unwinding, or there is none of that size. */
static void *lent_take(size_t alignment, size_t size)
{
  if (!lends() || alignment > 16 || size > LENT_BYTES - 16)
    return NULL;
  for (unsigned w = 0; w < LENT_BLOCKS / 64; w++) {
    uint64_t taken = atomic_load_explicit(&lent[w], memory_order_relaxed);
    while (taken != UINT64_MAX) {
      unsigned bit = (unsigned)__builtin_ctzll(~taken);
      if (atomic_compare_exchange_weak_explicit(&lent[w], &taken, taken | UINT64_C(1) << bit, memory_order_acquire,
                                                memory_order_relaxed)) {
        char *block = bootstrap + BOOTSTRAP_BYTES + (size_t)(w * 64 + bit) * LENT_BYTES + 16;
        ((size_t *)(uintptr_t)block)[-1] = size;
        for (size_t i = 0; i < LENT_BYTES - 16; i++)
          block[i] = 0;
        return block;
      }
    }
  }
  return NULL;
}

/* A block of the bootstrap arena or a lent one. */
static void bootstrap_free(const void *block)
{
  size_t at = (uintptr_t)block - (uintptr_t)bootstrap;
  if (at < BOOTSTRAP_BYTES)
    return;
  size_t i = (at - BOOTSTRAP_BYTES) / LENT_BYTES;
  atomic_fetch_and_explicit(&lent[i / 64], ~(UINT64_C(1) << i % 64), memory_order_release);
}

/* ---- the slow ways ---- */

/* What a record says was asked for; 0 where the product of two sizes was no size. */
static inline __attribute__((always_inline)) uint64_t asked(const void *block, size_t size)
{
  return block == NULL && size == SIZE_MAX ? 0 : size;
}

/* A record of no length: OPGAP_ALLOC=events.  As opgap_hook_end_at, but that no call was published as open, and that
 * none is long enough for its stack. */
static inline __attribute__((always_inline)) void note_event(struct opgap_thread *thread, unsigned id, uint64_t at,
                                                             const void *block, uint64_t value, uint32_t status)
{
  struct opgap_cell *cell = opgap_cell;
  if (opgap_unlikely(cell->thread != thread))
    return;
  opgap_span(cell, id, at, at, OPGAP_ADDRESS(block), value, status);
}

/* The counted call gave no block: its bytes, counted before it, are taken back. */
OPGAP_COLD void *note_failed(unsigned counter, size_t size)
{
  struct opgap_thread *thread = opgap_known_thread();
  if (thread == NULL)
    thread = opgap_guest_slot();
  if (thread) {
    opgap_add(&thread->counters[counter].bytes, 0 - (uint64_t)size);
    opgap_count_failed(thread, counter);
  }
  return NULL;
}

/* Timed calls: one in OPGAP_TIME_EVERY, large blocks, and with OPGAP_ALLOC=events all of the rarer hooks' but
 * the first.  `id` and
 * `counter` are the hook's; the call and its bytes have been counted.  Keeps errno. */
OPGAP_COLD void *note_alloc(unsigned id, unsigned counter, uint64_t start, void *block, size_t size)
{
  uint64_t end = opgap_ticks();
  struct opgap_thread *thread = opgap_known_thread();
  if (thread == NULL) /* a guest counts, and no more */
    return block ? block : note_failed(counter, size);
  if (block == NULL)
    note_failed(counter, size);
  if (size >= opgap_alloc_large || end - start > OPGAP_OUTLIER_TICKS) {
    opgap_hook_record(thread, id, start, end, OPGAP_ADDRESS(block), asked(block, size), block ? 0 : ENOMEM);
    if (opgap_stack_ticks != UINT64_MAX)
      opgap_stack_note(id, end - start, block ? size : 0);
    return block;
  }
  if (opgap_alloc_threshold == 0 ? thread->counters[counter].calls > 1 : opgap_is_sample(thread, counter))
    opgap_count_time(thread, counter, end - start);
  if (opgap_alloc_threshold == 0)
    note_event(thread, id, end, block, asked(block, size), block ? 0 : ENOMEM);
  return block;
}

/* What an allocation with OPGAP_ALLOC=events became, if it failed or its record is not short.  Keeps errno. */
OPGAP_COLD void *note_long_event(struct opgap_thread *thread, unsigned id, unsigned counter, void *block, size_t size)
{
  if (block == NULL)
    note_failed(counter, size);
  if (opgap_known_thread() == thread)
    opgap_segment_turn(opgap_cell);
  note_event(thread, id, opgap_ticks(), block, asked(block, size), block ? 0 : ENOMEM);
  return block;
}

/* A small allocation with OPGAP_ALLOC=events was counted and made: it is recorded, with one stamp. */
static inline __attribute__((always_inline)) void *note_short_event(struct opgap_thread *thread, unsigned id,
                                                                    unsigned counter, void *block, size_t size)
{
  struct opgap_cell *cell = opgap_cell; /* as in opgap_hook_record */
  if (opgap_unlikely(block == NULL || cell->thread != thread ||
                     !opgap_short_record(cell, thread, id, OPGAP_ADDRESS(block), size)))
    return note_long_event(thread, id, counter, block, size);
  return block;
}

/* The call is to be timed or recorded. */
static inline bool is_special(const struct opgap_thread *thread, unsigned counter, size_t size)
{
  return size >= opgap_alloc_threshold || opgap_sample_is_next(thread, counter);
}

/* The shape of every allocating hook, from `params` with `args`.  `size`: what is asked for.  The common way counts,
 * calls, and tests the result; everything else is out of line.  `event` has the thread from it: looking it up again
 * would cost as much as the record. */
#define JUST(...) __VA_ARGS__
#define ALLOC_HOOK(name, params, args, alignment, size)                                                                \
  OPGAP_COLD void *name##_slow params                                                                                  \
  {                                                                                                                    \
    struct opgap_thread *thread = OPGAP_ENTER_COUNTING(alloc, (size) < opgap_alloc_threshold);                         \
    if (thread == NULL) {                                                                                              \
      void *lent_block = lent_take(alignment, size);                                                                   \
      if (lent_block != NULL)                                                                                          \
        return lent_block;                                                                                             \
      return OPGAP_BOUND(name) ? opgap_real.name args : bootstrap_alloc(alignment, size);                              \
    }                                                                                                                  \
    opgap_count(thread, OPGAP_COUNTER_##name, size);                                                                   \
    uint64_t start = opgap_ticks();                                                                                    \
    void *block = opgap_real.name args;                                                                                \
    return note_alloc(OPGAP_HOOK_ID_##name, OPGAP_COUNTER_##name, start, block, size);                                 \
  }                                                                                                                    \
  static __attribute__((noinline)) void *name##_event(JUST params, struct opgap_thread *thread)                        \
  {                                                                                                                    \
    if (opgap_unlikely(thread == NULL || (size) >= opgap_alloc_events))                                                \
      return name##_slow args;                                                                                         \
    opgap_count(thread, OPGAP_COUNTER_##name, size);                                                                   \
    void *block = opgap_real.name args;                                                                                \
    return note_short_event(thread, OPGAP_HOOK_ID_##name, OPGAP_COUNTER_##name, block, size);                          \
  }                                                                                                                    \
  OPGAP_HOT void *name params                                                                                          \
  {                                                                                                                    \
    if (OPGAP_IS_OFF(alloc))                                                                                           \
      return lends() ? name##_slow args : OPGAP_PASS(name, args);                                                      \
    struct opgap_thread *thread = opgap_known_thread();                                                                \
    if (opgap_unlikely(thread == NULL || is_special(thread, OPGAP_COUNTER_##name, size)))                              \
      return name##_event(JUST args, thread);                                                                          \
    opgap_count(thread, OPGAP_COUNTER_##name, size);                                                                   \
    void *block = opgap_real.name args;                                                                                \
    return opgap_likely(block != NULL) ? block : note_failed(OPGAP_COUNTER_##name, size);                              \
  }

ALLOC_HOOK(malloc, (size_t size), (size), 16, size)

/* The product of two sizes, or SIZE_MAX, which no allocator grants. */
static inline size_t product(size_t count, size_t size)
{
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

ALLOC_HOOK(calloc, (size_t count, size_t size), (count, size), 16, product(count, size))
ALLOC_HOOK(aligned_alloc, (size_t alignment, size_t size), (alignment, size), alignment, size)
ALLOC_HOOK(memalign, (size_t alignment, size_t size), (alignment, size), alignment, size)
ALLOC_HOOK(valloc, (size_t size), (size), MOST_PAGE_BYTES, size)
ALLOC_HOOK(pvalloc, (size_t size), (size), MOST_PAGE_BYTES, size)

OPGAP_COLD int posix_memalign_slow(void **block, size_t alignment, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER_COUNTING(alloc, size < opgap_alloc_threshold);
  if (thread == NULL) {
    if (OPGAP_BOUND(posix_memalign))
      return opgap_real.posix_memalign(block, alignment, size);
    void *early = bootstrap_alloc(alignment, size);
    if (early == NULL)
      return ENOMEM;
    *block = early;
    return 0;
  }
  opgap_count(thread, OPGAP_COUNTER_posix_memalign, size);
  uint64_t start = opgap_ticks();
  int result = opgap_real.posix_memalign(block, alignment, size);
  note_alloc(OPGAP_HOOK_ID_posix_memalign, OPGAP_COUNTER_posix_memalign, start, result ? NULL : *block, size);
  return result;
}

OPGAP_EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER_FAST(alloc);
  if (opgap_unlikely(thread == NULL || is_special(thread, OPGAP_COUNTER_posix_memalign, size)))
    return posix_memalign_slow(block, alignment, size);
  opgap_count(thread, OPGAP_COUNTER_posix_memalign, size);
  int result = opgap_real.posix_memalign(block, alignment, size);
  if (opgap_unlikely(result != 0))
    note_failed(OPGAP_COUNTER_posix_memalign, size);
  return result;
}

/* ---- giving back ---- */

OPGAP_COLD void free_slow(void *block)
{
  if (block == NULL)
    return;
  if (is_bootstrap(block)) {
    bootstrap_free(block);
    return;
  }
  struct opgap_thread *thread = OPGAP_ENTER_COUNTING(alloc, opgap_alloc_threshold != 0);
  if (thread == NULL) {
    if (OPGAP_BOUND(free))
      opgap_real.free(block);
    return;
  }
  opgap_count_call(thread, OPGAP_COUNTER_free);
  if (opgap_alloc_threshold == 0)
    opgap_point(thread, OPGAP_HOOK_ID_free, OPGAP_ADDRESS(block), 0, 0);
  opgap_real.free(block);
}

OPGAP_COLD void note_long_free(struct opgap_thread *thread, const void *block)
{
  opgap_segment_turn(opgap_cell);
  opgap_point(thread, OPGAP_HOOK_ID_free, OPGAP_ADDRESS(block), 0, 0);
}

static __attribute__((noinline)) void free_event(void *block, struct opgap_thread *thread)
{
  opgap_count_call(thread, OPGAP_COUNTER_free);
  /* before the call: afterwards another thread can get the block */
  if (opgap_unlikely(!opgap_short_record(opgap_cell, thread, OPGAP_HOOK_ID_free, OPGAP_ADDRESS(block), 0)))
    note_long_free(thread, block);
  opgap_real.free(block);
}

OPGAP_HOT void free(void *block)
{
  if (OPGAP_IS_OFF(alloc)) {
    if (opgap_unlikely(is_bootstrap(block)))
      free_slow(block);
    else
      OPGAP_PASS(free, (block));
    return;
  }
  struct opgap_thread *thread = opgap_known_thread();
  if (opgap_unlikely(thread == NULL || block == NULL || is_bootstrap(block))) {
    free_slow(block);
    return;
  }
  if (opgap_unlikely(opgap_alloc_threshold == 0)) {
    free_event(block, thread);
    return;
  }
  opgap_count_call(thread, OPGAP_COUNTER_free);
  opgap_real.free(block);
}

/* ---- resizing ---- */

static void *bootstrap_realloc(void *block, size_t size)
{
  size_t old = block ? bootstrap_size(block) : 0;
  void *fresh = opgap_bind_slot(OPGAP_SLOT_malloc) ? opgap_real.malloc(size) : bootstrap_alloc(16, size);
  if (fresh && old)
    opgap_real_memmove(fresh, block, old < size ? old : size);
  if (fresh && block)
    bootstrap_free(block);
  return fresh;
}

/* The second record of a resize with OPGAP_ALLOC=events: what became of the block; a span where note_alloc makes one.
 */
static void note_moved(unsigned id, unsigned counter, uint64_t start, const void *old, const void *fresh, size_t size,
                       bool failed)
{
  struct opgap_thread *thread = opgap_known_thread();
  if (thread == NULL)
    return;
  if (failed)
    note_failed(counter, size);
  if (!failed && fresh == NULL)
    return;
  uint64_t end = opgap_ticks();
  bool span = size >= opgap_alloc_large || end - start > OPGAP_OUTLIER_TICKS;
  if (!span)
    opgap_count_time(thread, counter, end - start);
  opgap_hook_record(thread, id, span ? start : end, end, OPGAP_ADDRESS(failed ? old : fresh), size,
                    failed ? ENOMEM : 0);
  if (span && opgap_stack_ticks != UINT64_MAX)
    opgap_stack_note(id, end - start, failed ? 0 : size);
}

/* One resize.  realloc(block, 0) frees (glibc) and returns NULL without failing.  Keeps errno. */
static void *resize(struct opgap_thread *thread, unsigned id, unsigned counter, void *block, size_t size)
{
  bool events = opgap_alloc_threshold == 0 && block != NULL;
  opgap_count(thread, counter, size);
  uint64_t start = opgap_ticks();
  if (events)
    note_event(thread, id, start, block, OPGAP_ALLOC_RELEASED, 0);
  void *fresh = opgap_real.realloc(block, size);
  bool freed = fresh == NULL && size == 0 && block != NULL;
  if (events)
    note_moved(id, counter, start, block, fresh, size, fresh == NULL && !freed);
  else if (!freed)
    note_alloc(id, counter, start, fresh, size);
  return fresh;
}

OPGAP_COLD void *realloc_slow(void *block, size_t size)
{
  if (is_bootstrap(block))
    return bootstrap_realloc(block, size);
  struct opgap_thread *thread = OPGAP_ENTER_COUNTING(alloc, size < opgap_alloc_threshold);
  if (thread == NULL)
    return OPGAP_BOUND(realloc) ? opgap_real.realloc(block, size) : bootstrap_realloc(block, size);
  return resize(thread, OPGAP_HOOK_ID_realloc, OPGAP_COUNTER_realloc, block, size);
}

OPGAP_HOT void *realloc(void *block, size_t size)
{
  if (OPGAP_IS_OFF(alloc))
    return is_bootstrap(block) ? realloc_slow(block, size) : OPGAP_PASS(realloc, (block, size));
  struct opgap_thread *thread = opgap_known_thread();
  if (opgap_unlikely(thread == NULL || size == 0 || is_bootstrap(block) ||
                     is_special(thread, OPGAP_COUNTER_realloc, size)))
    return realloc_slow(block, size);
  opgap_count(thread, OPGAP_COUNTER_realloc, size);
  void *fresh = opgap_real.realloc(block, size);
  return opgap_likely(fresh != NULL) ? fresh : note_failed(OPGAP_COUNTER_realloc, size);
}

static void *out_of_memory(void)
{
  errno = ENOMEM;
  return NULL;
}

/* The block belongs to an allocator that was loaded before us and that libc's reallocarray will call. */
OPGAP_COLD void *foreign_reallocarray(struct opgap_thread *thread, void *block, size_t count, size_t size)
{
  if (thread)
    opgap_count(thread, OPGAP_COUNTER_reallocarray, product(count, size));
  void *fresh = opgap_real.reallocarray(block, count, size);
  if (fresh == NULL && count && size)
    note_failed(OPGAP_COUNTER_reallocarray, product(count, size));
  return fresh;
}

/* glibc's reallocarray calls realloc through the PLT, that is our hook: the real realloc is called with the product
 * instead, after the same test for overflow, so that it is counted once and under its own name. */
OPGAP_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER_COUNTING(alloc, product(count, size) < opgap_alloc_threshold);
  size_t bytes;
  if (opgap_unlikely(!opgap_realloc_is_ours && OPGAP_BOUND(reallocarray)))
    return foreign_reallocarray(thread, block, count, size);
  if (opgap_unlikely(__builtin_mul_overflow(count, size, &bytes))) {
    if (thread) {
      opgap_count_call(thread, OPGAP_COUNTER_reallocarray);
      opgap_count_failed(thread, OPGAP_COUNTER_reallocarray);
    }
    return out_of_memory();
  }
  if (opgap_unlikely(is_bootstrap(block)))
    return bootstrap_realloc(block, bytes);
  if (opgap_unlikely(thread == NULL))
    return OPGAP_BOUND(realloc) ? opgap_real.realloc(block, bytes) : bootstrap_realloc(block, bytes);
  return resize(thread, OPGAP_HOOK_ID_reallocarray, OPGAP_COUNTER_reallocarray, block, bytes);
}

OPGAP_EXPORT size_t malloc_usable_size(void *block)
{
  if (is_bootstrap(block))
    return bootstrap_size(block);
  return OPGAP_BOUND(malloc_usable_size) ? opgap_real.malloc_usable_size(block) : 0;
}
