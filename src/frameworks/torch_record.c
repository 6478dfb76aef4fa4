/* See torch_record.h.
 *
 * A callback a scope       The start function that runs tells the scope; no field of RecordFunction is read for it.
 * Names                    RecordFunction::name() is a pointer: stable for operators, reused for ranges and autograd
 *                          nodes.  A cache for each thread slot maps (pointer, text) to the interned id.
 * Two ways                 An operator whose name is in the cache is begun and ended by code that calls nothing but
 *                          name(), since a small training has a million a second; all else by one that can do
 *                          everything, in the place of a return.
 * Begin and end            Operators are objects on the stack: they end where they began, and their address is the tag.
 *                          They have no context, which torch would have to destroy, unless their begin was not
 *                          recorded.
 * Ranges                   TorchScript functions and user ranges may end on another thread (a suspended interpreter, a
 *                          completed collective).  Each has a `struct range` as its context, which keeps what a
 *                          record needs.  Ended elsewhere, it is recorded there, and its owner is told that its open
 *                          op is stale.  One that torch marks as asynchronous never enters a thread's stack of ops.
 * Schedule                 Outside its window nothing is recorded, but ranges that tell steps are followed to their end
 *                          (steps.h).
 *
 * Threads   block: its slot's thread, except `stale`.  range: who began it; then who ends it; then who takes it again.
 * Memory    blocks: one private mapping, zeroed by fork, pages touched as used.  ranges: static and kept by fork,
 *           because objects of torch in the child still point to them.
 * Ordering  S  block.stale: release by the thread that ended a range of another; acquire by the owner, which then sees
 *              that range's tag cleared.
 *           F  free_ranges: release by the thread that gives a range back; acquire by the one that takes it.
 */
#include "frameworks/torch_record.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "frameworks/python.h"
#include "frameworks/steps.h"
#include "record/op.h"
#include "record/raw.h"
#include "record/record.h"
#include "record/session.h"
#include "record/settings.h"
#include "record/stacks.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define NAME_SLOTS 512u  /* a power of two; a training uses about a hundred names */
#define NAME_TEXT 112u   /* longer names are interned each time */
#define BLOCK_COUNT 256u /* thread slots that can have a cache at the same time */

/* A name is found by the pointer itself if it is aligned, as those of torch's strings are: its text is compared without
 * a call then.  Others have a bit more, which no address has.  NO_KEY is nobody's, not even of NULL. */
#define NO_KEY 1u
static inline uintptr_t key_of(const char *pointer)
{
  uintptr_t key = (uintptr_t)pointer;
  return key % 8 ? key | (uintptr_t)1 << 63 : key;
}

struct cached_name {
  uintptr_t key; /* of the pointer to it; 0: empty */
  uint32_t id;
  uint16_t last_word, last_shift; /* of words, and how far a word is shifted for what is behind the text's end to go */
  union {
    char text[NAME_TEXT];
    uint64_t words[NAME_TEXT / 8];
  };
};

struct block {
  _Atomic uint32_t stale; /* ranges of this thread that ended elsewhere; ordering S */
  uint32_t stale_seen;    /* `stale` when the owner last looked */
  uint32_t lines_left;    /* ops until it is seen again what their lines cost */
  bool lines_off;         /* these get none */
  struct opgap_stack_budget lines;
  _Alignas(64) struct cached_name names[NAME_SLOTS];
  struct opgap_python_cache python; /* touched only with OPGAP_STACKS=python */
};

/* A slot keeps the block that it has taken first, from where its address tells; so it is found without gaps from there.
 */
struct blocks {
  _Atomic(struct opgap_thread *) owner[BLOCK_COUNT]; /* together: a look at all of them is 32 cache lines */
  struct block at[BLOCK_COUNT];
};

#define RANGE_COUNT 4096u
#define RANGE_TAG (UINT64_C(1) << 63) /* no address has this bit */
#define RANGE_GENERATION 12           /* shift; below it the index */

struct range {
  struct opgap_torch_context context; /* first: this is what torch holds */
  _Atomic uint64_t tag;               /* 0: not open */
  uint64_t generation, start;
  struct opgap_thread *thread; /* that began it; NULL: asynchronous, in no thread's stack */
  struct block *block;         /* of that thread, or NULL */
  int32_t tid, pid;
  uint32_t name, scope, stack;
  uint32_t step_source; /* enum opgap_step_source: its end may be a step's */
  bool recorded;        /* false: watched for its end only */
  uint32_t next_free;   /* index + 1 */
};
static_assert(RANGE_COUNT == 1u << RANGE_GENERATION, "index of a range");

static struct {
  const char *(*name)(opgap_torch_function *);
  uint8_t (*is_async)(opgap_torch_function *);
  unsigned sequence_offset;
  bool python_stacks, scheduled, plain; /* plain: neither of them */
  struct blocks *blocks;                /* or NULL */
} torch;
static _Atomic bool announce_late;

static struct range ranges[RANGE_COUNT];
static _Atomic uint64_t free_ranges; /* count of pushes << 32 | index + 1; ordering F */
static _Atomic uint32_t ranges_used;

/* ---- contexts ---- */

static void destroy_context(void *context)
{
  (void)context;
}

static void release_range(void *context)
{
  struct range *range = context;
  uint32_t index = (uint32_t)(range - ranges) + 1;
  uint64_t old = atomic_load_explicit(&free_ranges, memory_order_relaxed), new;
  do {
    range->next_free = (uint32_t)old;
    new = ((old >> 32) + 1) << 32 | index;
  } while (!atomic_compare_exchange_weak_explicit(&free_ranges, &old, new, memory_order_release, /* F */
                                                  memory_order_relaxed));
}

static const struct opgap_torch_vtable range_vtable = {NULL, NULL, destroy_context, release_range};
static const struct opgap_torch_vtable unrecorded_vtable = {NULL, NULL, destroy_context, destroy_context};
/* of what was not recorded when it began; a recorded operator has none */
static struct opgap_torch_context unrecorded = {&unrecorded_vtable.destroy};

/* A range that belongs to the caller, or NULL when all are open. */
static struct range *take_range(void)
{
  uint64_t old = atomic_load_explicit(&free_ranges, memory_order_acquire); /* F */
  while ((uint32_t)old != 0) {
    struct range *range = &ranges[(uint32_t)old - 1];
    uint64_t new = ((old >> 32) + 1) << 32 | range->next_free;
    if (atomic_compare_exchange_weak_explicit(&free_ranges, &old, new, memory_order_acquire, memory_order_acquire))
      return range;
  }
  uint32_t used = atomic_load_explicit(&ranges_used, memory_order_relaxed);
  while (used < RANGE_COUNT)
    if (atomic_compare_exchange_weak_explicit(&ranges_used, &used, used + 1, memory_order_relaxed,
                                              memory_order_relaxed))
      return &ranges[used];
  return NULL;
}

static bool range_is_open(uint64_t tag)
{
  return atomic_load_explicit(&ranges[tag & (RANGE_COUNT - 1)].tag, memory_order_relaxed) == tag;
}

/* ---- a thread's block ---- */

/* The number of a slot's block; BLOCK_COUNT when other slots have taken all. */
static unsigned find_block(struct opgap_thread *thread)
{
  unsigned home = (unsigned)((uintptr_t)thread / OPGAP_SLOT_BYTES % BLOCK_COUNT);
  for (unsigned i = 0; i < BLOCK_COUNT; i++) {
    unsigned at = (home + i) % BLOCK_COUNT;
    struct opgap_thread *owner = atomic_load_explicit(&torch.blocks->owner[at], memory_order_relaxed);
    if (owner == thread ||
        (owner == NULL && atomic_compare_exchange_strong_explicit(&torch.blocks->owner[at], &owner, thread,
                                                                  memory_order_relaxed, memory_order_relaxed)))
      return at;
  }
  return BLOCK_COUNT;
}

/* The block of the calling thread, or NULL where there is none. */
static struct block *block_of(struct opgap_thread *thread)
{
  struct opgap_cell *cell = opgap_cell;
  if (cell->framework != NULL)
    return cell->framework;
  if (torch.blocks == NULL)
    return NULL;
  unsigned found = find_block(thread);
  if (found == BLOCK_COUNT)
    return NULL;
  struct block *block = &torch.blocks->at[found];
  if (block->names[0].key == 0) /* where NULL would be looked for */
    block->names[0].key = NO_KEY;
  cell->framework = block;
  return block;
}

/* Takes ranges that ended on other threads out of this thread's stack of open ops. */
static void drop_stale_ops(struct opgap_thread *thread)
{
  uint32_t depth = thread->depth < OPGAP_MAX_DEPTH ? thread->depth : OPGAP_MAX_DEPTH, kept = 0;
  for (uint32_t i = 0; i < depth; i++) {
    uint64_t tag = thread->ops[i].tag;
    if ((tag & RANGE_TAG) && !range_is_open(tag))
      continue;
    if (kept != i)
      thread->ops[kept] = thread->ops[i];
    kept++;
  }
  thread->depth = kept;
}

static inline bool has_stale_ops(struct block *block)
{
  return atomic_load_explicit(&block->stale, memory_order_acquire) /* S */ != block->stale_seen;
}

static void look_for_stale_ops(struct opgap_thread *thread, struct block *block)
{
  if (block == NULL || !has_stale_ops(block))
    return;
  block->stale_seen = atomic_load_explicit(&block->stale, memory_order_acquire); /* S */
  drop_stale_ops(thread);
}

/* ---- names ---- */

static void say_late(void)
{
  if (!atomic_load_explicit(&announce_late, memory_order_relaxed) || !atomic_exchange(&announce_late, false))
    return;
  static const char message[] = "torch was noticed late: ops before this moment are missing";
  uint64_t name = opgap_intern(message, sizeof message - 1);
  opgap_emit(OPGAP_EV_PROBE, 0, opgap_ticks(), 0, &name, 1);
}

static uint32_t intern_slow(struct cached_name *cached, const char *pointer)
{
  say_late();
  size_t length = strlen(pointer);
  uint32_t id = opgap_intern(pointer, length);
  if (cached == NULL || id == 0 || length >= NAME_TEXT)
    return id;
  cached->key = NO_KEY; /* a signal handler that runs an op meets an empty entry, not half of one */
  atomic_signal_fence(memory_order_seq_cst);
  memcpy(cached->text, pointer, length + 1);
  cached->id = id;
  cached->last_word = (uint16_t)(length / 8);
  cached->last_shift = (uint16_t)(8 * (7 - length % 8));
  atomic_signal_fence(memory_order_seq_cst);
  cached->key = key_of(pointer);
  return id;
}

/* Where a name is in the cache, if it is. */
static inline struct cached_name *cached_at(struct block *block, const char *pointer)
{
  uint64_t hash = (uint64_t)(uintptr_t)pointer * UINT64_C(0x9e3779b97f4a7c15);
  return &block->names[hash >> 55];
}
static_assert(NAME_SLOTS == 1u << (64 - 55), "hash of a name");

typedef uint64_t __attribute__((may_alias)) text_word;

/* Does the entry have this name, which is aligned?  An aligned word does not reach into another page, and the first one
 * in which a shorter text ends differs, so nothing is read that is not mapped. */
static inline bool is_cached(const struct cached_name *cached, const char *pointer)
{
  if (cached->key != (uintptr_t)pointer)
    return false;
  const text_word *words = (const text_word *)(uintptr_t)pointer;
  unsigned i = 0, last = cached->last_word;
#pragma GCC unroll 1 /* names have a few words */
  for (; i < last; i++)
    if (words[i] != cached->words[i])
      return false;
  return (words[i] ^ cached->words[i]) << cached->last_shift == 0;
}

static uint32_t intern(struct block *block, const char *pointer)
{
  if (pointer == NULL)
    return 0;
  if (block == NULL)
    return intern_slow(NULL, pointer);
  struct cached_name *cached = cached_at(block, pointer);
  return cached->key == key_of(pointer) && strcmp(cached->text, pointer) == 0 ? cached->id
                                                                              : intern_slow(cached, pointer);
}

/* ---- begin ---- */

static inline bool recording(void)
{
  return opgap_active & OPGAP_GROUP_torch;
}

/* With a schedule, also outside its window: what tells steps. */
static enum opgap_step_source watch_steps(opgap_torch_function *function, unsigned scope)
{
  if (scope == OPGAP_SCOPE_BACKWARD)
    opgap_step_fresh();
  if (scope != OPGAP_SCOPE_USER || opgap_active == 0)
    return OPGAP_STEP_NONE;
  const char *name = torch.name(function);
  return name ? opgap_step_source_of(name) : OPGAP_STEP_NONE;
}

/* Outside the window: a range that is not recorded, but whose end is a step's. */
static struct range *begin_step_range(enum opgap_step_source source)
{
  struct range *range = source == OPGAP_STEP_NONE ? NULL : take_range();
  if (range == NULL)
    return NULL;
  range->context.vtable = &range_vtable.destroy;
  range->recorded = false;
  range->step_source = source;
  range->pid = opgap_session_pid();
  return range;
}

/* NULL: too many are open. */
static struct range *begin_range(opgap_torch_function *function, unsigned scope, struct opgap_thread *thread,
                                 struct block *block, uint32_t name, uint32_t stack)
{
  struct range *range = take_range();
  if (range == NULL)
    return NULL;
  bool asynchronous = torch.is_async(function) & 1;
  uint64_t tag = RANGE_TAG | ++range->generation << RANGE_GENERATION | (uint64_t)(range - ranges);
  range->context.vtable = &range_vtable.destroy;
  range->thread = asynchronous ? NULL : thread;
  range->block = block;
  range->tid = thread->tid;
  range->pid = opgap_session_pid();
  range->name = name;
  range->scope = scope;
  range->stack = stack;
  range->recorded = true;
  range->step_source = OPGAP_STEP_NONE;
  range->start = opgap_ticks();
  atomic_store_explicit(&range->tag, tag, memory_order_relaxed);
  if (!asynchronous)
    opgap_op_begin(name, scope, tag, stack);
  return range;
}

/* Ops between two looks at what their lines cost; a prime, so that the rounds of no loop are as long. */
#define LINES_A_LOOK 61u

static __attribute__((noinline, cold)) uint32_t timed_line(struct block *block)
{
  uint64_t start = opgap_ticks();
  uint32_t line = opgap_python_where(&block->python);
  block->lines_left = LINES_A_LOOK - 1;
  block->lines_off = !opgap_stack_afford(&block->lines, start, opgap_ticks() - start, LINES_A_LOOK - 1);
  return line;
}

/* The line of Python that runs an op; 0: none, or it would cost too much. */
static inline uint32_t line_of_op(struct block *block)
{
  if (opgap_unlikely(block->lines_left == 0))
    return timed_line(block);
  block->lines_left--;
  return block->lines_off ? 0 : opgap_python_where(&block->python);
}

/* Whatever begins, however it is to be recorded. */
static __attribute__((noinline)) void **begin_any(void **context, opgap_torch_function *function, unsigned scope)
{
  enum opgap_step_source source = OPGAP_STEP_NONE;
  *context = &unrecorded;
  if (torch.scheduled)
    source = watch_steps(function, scope);
  if (!recording()) {
    struct range *range = begin_step_range(source);
    if (range != NULL)
      *context = range;
    return context;
  }
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL)
    return context;
  struct block *block = block_of(thread);
  look_for_stale_ops(thread, block);
  uint32_t name = intern(block, torch.name(function));
  uint32_t stack = torch.python_stacks && block ? line_of_op(block) : 0;
  struct range *range = NULL;
  if (scope == OPGAP_SCOPE_USER || scope == OPGAP_SCOPE_TORCHSCRIPT)
    range = begin_range(function, scope, thread, block, name, stack);
  if (range != NULL)
    range->step_source = source;
  else /* of a range, too: right as long as it ends where it began */
    opgap_op_begin_on(thread, name, scope, (uint64_t)(uintptr_t)function, stack);
  *context = range;
  return context;
}

/* An operator, as a rule. */
static inline __attribute__((always_inline)) void **begin(void **context, opgap_torch_function *function,
                                                          unsigned scope)
{
  if (opgap_unlikely(!torch.plain || !recording()))
    return begin_any(context, function, scope);
  const char *name = torch.name(function);
  struct opgap_cell *cell = opgap_cell;
  struct opgap_thread *thread = cell->thread;
  atomic_signal_fence(memory_order_seq_cst); /* a handler may fork, which wipes the cell: `framework` tells */
  struct block *block = cell->framework;
  if (opgap_unlikely(block == NULL || has_stale_ops(block)))
    return begin_any(context, function, scope);
  const struct cached_name *cached = cached_at(block, name);
  uint32_t id = cached->id;
  atomic_signal_fence(memory_order_seq_cst); /* a handler may run ops with names of its own: the key tells */
  if (opgap_unlikely(!is_cached(cached, name)))
    return begin_any(context, function, scope);
  opgap_op_begin_on(thread, id, scope, (uint64_t)(uintptr_t)function, 0);
  *context = NULL;
  return context;
}

#define START(scope)                                                                                                   \
  static void **start_##scope(void **context, opgap_torch_function *function)                                          \
  {                                                                                                                    \
    return scope == OPGAP_SCOPE_USER || scope == OPGAP_SCOPE_TORCHSCRIPT ? begin_any(context, function, scope)         \
                                                                         : begin(context, function, scope);            \
  }
START(0)
START(1)
START(2)
START(3)
START(4)
START(5)
START(6)
START(7)
START(8)
START(9)
static opgap_torch_start *const starts[OPGAP_SCOPE_COUNT] = {start_0, start_1, start_2, start_3, start_4,
                                                             start_5, start_6, start_7, start_8, start_9};

/* ---- end ---- */

static inline uint64_t sequence_of(opgap_torch_function *function)
{
  if (torch.sequence_offset == 0)
    return OPGAP_NO_SEQUENCE;
  return *(const uint64_t *)((const char *)function + torch.sequence_offset);
}

/* Records a range whose begin is in no stack that this thread may touch. */
static void emit_range(const struct range *range, uint64_t sequence)
{
  const uint64_t fields[6] = {range->name, sequence, 0, 0, 0, range->stack};
  opgap_emit(OPGAP_EV_OP, range->scope, range->start, opgap_ticks(), fields, 6);
}

static void record_range(opgap_torch_function *function, struct range *range)
{
  uint64_t tag = atomic_load_explicit(&range->tag, memory_order_relaxed);
  atomic_store_explicit(&range->tag, 0, memory_order_relaxed);
  struct opgap_thread *thread = opgap_self();
  if (thread != NULL && thread == range->thread && thread->tid == range->tid) {
    opgap_op_end(OPGAP_EV_OP, tag, sequence_of(function));
    return;
  }
  if (thread != NULL)
    emit_range(range, sequence_of(function));
  if (range->thread != NULL && range->block != NULL)
    atomic_fetch_add_explicit(&range->block->stale, 1, memory_order_release); /* S */
}

static __attribute__((noinline)) void end_range(opgap_torch_function *function, struct range *range)
{
  if (range->pid != opgap_session_pid())
    return; /* begun before a fork: the parent's */
  if (range->recorded)
    record_range(function, range);
  if (range->step_source != OPGAP_STEP_NONE)
    opgap_step_ended(range->step_source);
}

static void end(opgap_torch_function *function, void *context)
{
  if (opgap_unlikely(context != NULL)) {
    if (context != &unrecorded)
      end_range(function, context);
    return;
  }
  struct opgap_cell *cell = opgap_cell;
  struct opgap_thread *thread = cell->thread;
  if (opgap_likely(thread != NULL))
    opgap_op_end_on(cell, thread, OPGAP_EV_OP, (uint64_t)(uintptr_t)function, sequence_of(function));
}

/* ---- start-up ---- */

static void map_blocks(void)
{
  size_t size = sizeof(struct blocks);
  void *at = opgap_raw_mmap(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (at == NULL)
    return;
  if (opgap_raw3(SYS_madvise, (long)at, (long)size, MADV_WIPEONFORK) == 0)
    torch.blocks = at;
  else /* a child would take its parent's name ids for its own */
    opgap_raw_munmap(at, size);
}

void opgap_torch_record_start(const struct opgap_torch_api *api, unsigned sequence_offset, bool late)
{
  torch.name = api->name;
  torch.is_async = api->is_async;
  torch.sequence_offset = sequence_offset;
  torch.scheduled = opgap_settings->schedule.active > 0;
  torch.python_stacks = opgap_settings->stacks == OPGAP_STACKS_PYTHON || opgap_settings->stacks == OPGAP_STACKS_BOTH;
  torch.plain = !torch.scheduled && !torch.python_stacks;
  map_blocks();
  atomic_store(&announce_late, late);
  for (unsigned scope = 0; scope < OPGAP_SCOPE_COUNT; scope++) {
    struct opgap_torch_callback callback = {.start = starts[scope], .end = end, .sampling_probability = 1.0};
    callback.scopes[scope] = 1;
    api->add_global_callback(callback);
  }
}
