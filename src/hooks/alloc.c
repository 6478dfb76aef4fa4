/* The heap's hooks.
 *
 * Context   any, see hooks.h.  The hot ones add a test, a look at the thread's slot and two additions to the real call.
 * Rules     Pointers are passed on as they are, no headers: blocks may come from or go to code that bypasses us.
 *           Only the bootstrap arena below is ours; free, realloc and malloc_usable_size know its blocks.
 * What is counted and recorded: hook_table.h. */
#include "hooks/hooks.h"

#include <malloc.h>

size_t opgap_alloc_threshold;

/* ---- before the real functions can be found ---- */

/* A call that comes before this library is relocated (an IFUNC resolver that allocates) is served from here.  Blocks
 * are never reused.  The word before a block holds its size. */
#define BOOTSTRAP_BYTES 65536u
static _Alignas(16) char bootstrap[BOOTSTRAP_BYTES];
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
  if (at + size > base + sizeof bootstrap)
    return NULL;
  bootstrap_used = at + size - base;
  ((size_t *)at)[-1] = size;
  return (void *)at; /* fresh, so zeroed */
}

/* ---- the slow ways ---- */

/* A record of no length: OPGAP_ALLOC=events. */
static void note_event(struct opgap_thread *thread, unsigned id, uint64_t at, const void *block, uint64_t value,
                       uint32_t status)
{
  opgap_hook_end_at(thread, id, at, at, OPGAP_ADDRESS(block), value, status);
}

/* Failures, one timed call in OPGAP_TIME_EVERY, spans of large blocks.  `id` and `counter` are the hook's; the call
 * itself has been counted, without its bytes. */
static void note_alloc(struct opgap_thread *thread, unsigned id, unsigned counter, uint64_t start, const void *block,
                       size_t size, bool failed)
{
  uint64_t end = opgap_ticks();
  struct opgap_cell *cell = opgap_cell;
  if (opgap_unlikely(cell == NULL || cell->thread != thread))
    return;
  opgap_count_time(thread, counter, end - start);
  if (failed)
    opgap_count_failed(thread, counter);
  else
    thread->counters[counter].bytes += size;
  if (size >= opgap_settings->min_alloc)
    opgap_hook_end_at(thread, id, start, end, OPGAP_ADDRESS(block), failed ? 0 : size, failed ? ENOMEM : 0);
  else if (opgap_alloc_threshold == 0)
    note_event(thread, id, end, block, failed ? 0 : size, failed ? ENOMEM : 0);
}

/* The shape of every allocating hook.  `call` is the real call, a pointer; `size` what was asked for.  The common way
 * knows only afterwards whether the call failed, so bytes are added when it did not. */
#define ALLOC_HOOK(name, alignment, size, call)                                                                        \
  struct opgap_thread *thread = OPGAP_ENTER(alloc);                                                                    \
  if (opgap_unlikely(thread == NULL))                                                                                  \
    return OPGAP_BOUND(name) ? call : bootstrap_alloc(alignment, size);                                                \
  uint64_t calls = opgap_count(thread, OPGAP_COUNTER_##name, 0);                                                       \
  if (opgap_unlikely((size) >= opgap_alloc_threshold || calls % OPGAP_TIME_EVERY == 0)) {                              \
    uint64_t start = opgap_ticks();                                                                                    \
    void *block = call;                                                                                                \
    int error = errno;                                                                                                 \
    note_alloc(thread, OPGAP_HOOK_ID_##name, OPGAP_COUNTER_##name, start, block, size, block == NULL);                 \
    errno = error;                                                                                                     \
    return block;                                                                                                      \
  }                                                                                                                    \
  void *block = call;                                                                                                  \
  if (opgap_unlikely(block == NULL))                                                                                   \
    opgap_count_failed(thread, OPGAP_COUNTER_##name);                                                                  \
  else                                                                                                                 \
    thread->counters[OPGAP_COUNTER_##name].bytes += (size);                                                            \
  return block;

OPGAP_EXPORT void *malloc(size_t size)
{
  ALLOC_HOOK(malloc, 16, size, opgap_real.malloc(size))
}

/* The product of two sizes, or SIZE_MAX, which no allocator grants. */
static inline size_t product(size_t count, size_t size)
{
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

OPGAP_EXPORT void *calloc(size_t count, size_t size)
{
  size_t bytes = product(count, size);
  ALLOC_HOOK(calloc, 16, bytes, opgap_real.calloc(count, size))
}

OPGAP_EXPORT void *aligned_alloc(size_t alignment, size_t size){
    ALLOC_HOOK(aligned_alloc, alignment, size, opgap_real.aligned_alloc(alignment, size))}

OPGAP_EXPORT void *memalign(size_t alignment,
                            size_t size){ALLOC_HOOK(memalign, alignment, size, opgap_real.memalign(alignment, size))}

OPGAP_EXPORT void *valloc(size_t size){ALLOC_HOOK(valloc, 4096, size, opgap_real.valloc(size))}

OPGAP_EXPORT void *pvalloc(size_t size){ALLOC_HOOK(pvalloc, 4096, size, opgap_real.pvalloc(size))}

OPGAP_EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER(alloc);
  if (opgap_unlikely(thread == NULL)) {
    if (OPGAP_BOUND(posix_memalign))
      return opgap_real.posix_memalign(block, alignment, size);
    void *early = bootstrap_alloc(alignment, size);
    if (early == NULL)
      return ENOMEM;
    *block = early;
    return 0;
  }
  opgap_count(thread, OPGAP_COUNTER_posix_memalign, 0);
  uint64_t start = opgap_ticks();
  int result = opgap_real.posix_memalign(block, alignment, size);
  int error = errno;
  note_alloc(thread, OPGAP_HOOK_ID_posix_memalign, OPGAP_COUNTER_posix_memalign, start, result ? NULL : *block, size,
             result != 0);
  errno = error;
  return result;
}

/* ---- giving back ---- */

static __attribute__((noinline)) void free_event(struct opgap_thread *thread, void *block)
{
  opgap_point(thread, OPGAP_HOOK_ID_free, OPGAP_ADDRESS(block), 0, 0); /* before another thread can get the block */
  opgap_real.free(block);
}

static __attribute__((noinline)) void free_inactive(void *block)
{
  if (!is_bootstrap(block) && OPGAP_BOUND(free))
    opgap_real.free(block);
}

OPGAP_EXPORT void free(void *block)
{
  struct opgap_thread *thread = OPGAP_ENTER(alloc);
  if (opgap_unlikely(thread == NULL || block == NULL || is_bootstrap(block))) {
    free_inactive(block);
    return;
  }
  opgap_count(thread, OPGAP_COUNTER_free, 0);
  if (opgap_unlikely(opgap_alloc_threshold == 0)) {
    free_event(thread, block);
    return;
  }
  opgap_real.free(block);
}

/* ---- resizing ---- */

static void *bootstrap_realloc(void *block, size_t size)
{
  size_t old = block ? bootstrap_size(block) : 0;
  void *fresh = opgap_bind_slot(OPGAP_SLOT_malloc) ? opgap_real.malloc(size) : bootstrap_alloc(16, size);
  if (fresh && old)
    opgap_real_memmove(fresh, block, old < size ? old : size);
  return fresh;
}

/* The second record of a resize with OPGAP_ALLOC=events: what became of the block. */
static void note_moved(struct opgap_thread *thread, unsigned id, unsigned counter, const void *old, const void *fresh,
                       size_t size, bool failed)
{
  struct opgap_cell *cell = opgap_cell;
  if (opgap_unlikely(cell == NULL || cell->thread != thread))
    return;
  if (failed) {
    opgap_count_failed(thread, counter);
    note_event(thread, id, opgap_ticks(), old, 0, ENOMEM);
    return;
  }
  thread->counters[counter].bytes += size;
  if (fresh)
    note_event(thread, id, opgap_ticks(), fresh, size, 0);
}

/* One resize.  realloc(block, 0) frees (glibc) and returns NULL without failing. */
static void *resize(struct opgap_thread *thread, unsigned id, unsigned counter, void *block, size_t size)
{
  opgap_count(thread, counter, 0);
  bool events = opgap_alloc_threshold == 0 && block != NULL;
  uint64_t start = opgap_ticks();
  if (events)
    note_event(thread, id, start, block, OPGAP_ALLOC_RELEASED, 0);
  void *fresh = opgap_real.realloc(block, size);
  int error = errno;
  bool failed = fresh == NULL && !(size == 0 && block != NULL);
  if (events)
    note_moved(thread, id, counter, block, fresh, size, failed);
  else
    note_alloc(thread, id, counter, start, fresh, size, failed);
  errno = error;
  return fresh;
}

OPGAP_EXPORT void *realloc(void *block, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER(alloc);
  if (opgap_unlikely(is_bootstrap(block)))
    return bootstrap_realloc(block, size);
  if (opgap_unlikely(thread == NULL))
    return OPGAP_BOUND(realloc) ? opgap_real.realloc(block, size) : bootstrap_realloc(block, size);
  return resize(thread, OPGAP_HOOK_ID_realloc, OPGAP_COUNTER_realloc, block, size);
}

/* glibc's reallocarray calls realloc through the PLT, that is our hook: the real realloc is called with the product
 * instead, after the same test for overflow, so that it is counted once and under its own name. */
OPGAP_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
  struct opgap_thread *thread = OPGAP_ENTER(alloc);
  size_t bytes;
  bool overflow = __builtin_mul_overflow(count, size, &bytes);
  if (opgap_unlikely(is_bootstrap(block)))
    return overflow ? (errno = ENOMEM, NULL) : bootstrap_realloc(block, bytes);
  if (opgap_unlikely(thread == NULL))
    return overflow ? (errno = ENOMEM, NULL) : OPGAP_BOUND(realloc) ? opgap_real.realloc(block, bytes) : NULL;
  if (opgap_unlikely(overflow)) {
    opgap_count(thread, OPGAP_COUNTER_reallocarray, 0);
    opgap_count_failed(thread, OPGAP_COUNTER_reallocarray);
    return errno = ENOMEM, NULL;
  }
  return resize(thread, OPGAP_HOOK_ID_reallocarray, OPGAP_COUNTER_reallocarray, block, bytes);
}

OPGAP_EXPORT size_t malloc_usable_size(void *block)
{
  if (is_bootstrap(block))
    return bootstrap_size(block);
  return OPGAP_BOUND(malloc_usable_size) ? opgap_real.malloc_usable_size(block) : 0;
}
