#include "checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define LOCATIONS 192
#define STORES 96
#define CHOICES 8192
#define REGIONS 4
#define STACK_BYTES (512u * 1024u)
#define LINE 64u

enum { RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST }; /* memory orders, as the compilers pass them */

/* What a thread knows: the clocks of all, and the newest store of each location. */
struct knowledge {
  uint32_t clock[MODEL_THREADS];
  uint8_t newest[LOCATIONS];
};

struct store {
  uint64_t value;
  bool releases;
  struct knowledge released;
};

struct location {
  char *at;
  size_t bytes;
  unsigned count;
  struct store stores[STORES];
};

/* Last accesses of four bytes; thread t's access counts as known to u when u's clock of t has reached it. */
struct shadow {
  uint32_t run;
  uint32_t written[MODEL_THREADS], read[MODEL_THREADS], atomic_written[MODEL_THREADS], atomic_read[MODEL_THREADS];
};

struct region {
  char *at, *pristine;
  size_t bytes;
  struct shadow *shadow;
  uint8_t *dirty;
  uint32_t *dirty_lines, dirty_count;
};

static struct region regions[REGIONS];
static unsigned region_count;

static struct {
  const char *at, *end;
} relaxed[2 * MODEL_THREADS];
static unsigned relaxed_count;

static const struct model_case *model;
static struct model_mutation mutation;
static struct model_result result;

static struct {
  ucontext_t context;
  char *stack;
  bool alive;
  struct knowledge known;
} threads[MODEL_THREADS];
static unsigned thread_count;
static int self = -1; /* -1: outside the model */
static ucontext_t outside;
static jmp_buf finishing;
static uint32_t run_number;
static unsigned preemptions, stale;
static bool killed;
static struct knowledge total_order; /* of seq_cst accesses */

static struct location locations[LOCATIONS];
static unsigned location_count;

static struct {
  uint8_t options, taken;
} choices[CHOICES];
static unsigned choice_count, choice_at;

/* ---- choices ---- */

static unsigned choose(unsigned options)
{
  if (options == 1)
    return 0;
  if (choice_at == choice_count) {
    if (choice_count == CHOICES)
      model_fail("too many choices in a run");
    choices[choice_count].options = (uint8_t)options;
    choices[choice_count++].taken = 0;
  }
  if (choices[choice_at].options != options)
    model_fail("a run is not repeatable: choice %u has %u options, had %u", choice_at, options,
               choices[choice_at].options);
  return choices[choice_at++].taken;
}

static bool next_run(void)
{
  while (choice_count > 0 && choices[choice_count - 1].taken + 1 == choices[choice_count - 1].options)
    choice_count--;
  if (choice_count == 0)
    return false;
  choices[choice_count - 1].taken++;
  return true;
}

/* ---- threads ---- */

int model_self(void)
{
  return self;
}

static void leave(void)
{
  int from = self;
  self = -1;
  swapcontext(&threads[from].context, &outside);
}

void model_fail(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (!result.failed)
    vsnprintf(result.what, sizeof result.what, format, arguments);
  va_end(arguments);
  result.failed = true;
  if (self >= 0)
    leave();
  longjmp(finishing, 1);
}

static void go_to(int to)
{
  int from = self;
  self = to;
  model->switched(to);
  if (from < 0)
    swapcontext(&outside, &threads[to].context);
  else
    swapcontext(&threads[from].context, &threads[to].context);
}

static unsigned others_alive(int *list)
{
  unsigned count = 0;
  for (unsigned i = 0; i < thread_count; i++)
    if (threads[i].alive && (int)i != self)
      list[count++] = (int)i;
  return count;
}

static void fiber(int index)
{
  int list[MODEL_THREADS] = {0};
  model->threads[index]();
  threads[index].alive = false;
  unsigned count = others_alive(list);
  if (count > 0)
    go_to(list[choose(count)]);
  else
    leave();
}

static void kill_all(void)
{
  killed = true;
  leave();
}

/* The running thread is about to make an access that others can see. */
static void point(bool may_switch)
{
  int list[MODEL_THREADS] = {0};
  unsigned count = may_switch && preemptions > 0 ? others_alive(list) : 0;
  unsigned taken = choose(1 + count + model->kill);
  if (taken == 0)
    return;
  if (taken > count)
    kill_all();
  preemptions--;
  go_to(list[taken - 1]);
}

void model_point(void)
{
  if (self >= 0)
    point(false);
}

/* ---- memory ---- */

static struct region *region_of(const char *at)
{
  for (unsigned i = 0; i < region_count; i++)
    if (at >= regions[i].at && at < regions[i].at + regions[i].bytes)
      return &regions[i];
  return NULL;
}

void model_watch(void *at, size_t bytes)
{
  struct region *region = region_of(at);
  if (region) {
    memcpy(region->pristine, at, region->bytes); /* marks that are left are harmless */
    return;
  }
  if (region_count == REGIONS)
    abort();
  region = &regions[region_count++];
  region->at = at;
  region->bytes = bytes;
  region->pristine = malloc(bytes);
  region->dirty = calloc(bytes / LINE + 1, 1);
  region->dirty_lines = malloc((bytes / LINE + 1) * sizeof *region->dirty_lines);
  region->shadow = mmap(NULL, (bytes / 4 + 1) * sizeof *region->shadow, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!region->pristine || !region->dirty || !region->dirty_lines || region->shadow == MAP_FAILED)
    abort();
  memcpy(region->pristine, at, bytes);
}

void model_relaxed(const void *at, size_t bytes)
{
  if (relaxed_count == 2 * MODEL_THREADS)
    abort();
  relaxed[relaxed_count].at = at;
  relaxed[relaxed_count++].end = (const char *)at + bytes;
}

static bool is_relaxed(const char *at)
{
  for (unsigned i = 0; i < relaxed_count; i++)
    if (at >= relaxed[i].at && at < relaxed[i].end)
      return true;
  return false;
}

static void mark_dirty(struct region *region, const char *at, size_t bytes)
{
  size_t first = (size_t)(at - region->at) / LINE, last = (size_t)(at - region->at + (long)bytes - 1) / LINE;
  for (size_t line = first; line <= last; line++) {
    if (region->dirty[line])
      continue;
    region->dirty[line] = 1;
    region->dirty_lines[region->dirty_count++] = (uint32_t)line;
  }
}

static void restore(void)
{
  for (unsigned i = 0; i < region_count; i++) {
    struct region *region = &regions[i];
    while (region->dirty_count > 0) {
      size_t line = region->dirty_lines[--region->dirty_count], offset = line * LINE;
      region->dirty[line] = 0;
      memcpy(region->at + offset, region->pristine + offset,
             region->bytes - offset < LINE ? region->bytes - offset : LINE);
    }
  }
}

static void learn(struct knowledge *into, const struct knowledge *from)
{
  for (unsigned t = 0; t < MODEL_THREADS; t++)
    if (into->clock[t] < from->clock[t])
      into->clock[t] = from->clock[t];
  for (unsigned l = 0; l < location_count; l++)
    if (into->newest[l] < from->newest[l])
      into->newest[l] = from->newest[l];
}

bool model_ended(int thread)
{
  if (threads[thread].alive)
    return false;
  learn(&threads[self].known, &threads[thread].known);
  return true;
}

static void race(const struct region *region, const char *at, const char *what, unsigned other)
{
  model_fail("data race: thread %d %s thread %u, at byte %zu of region %zu", self, what, other,
             (size_t)(at - region->at), (size_t)(region - regions));
}

static void check_known(const struct region *region, const char *at, const uint32_t *clocks, const char *what)
{
  const struct knowledge *known = &threads[self].known;
  for (unsigned t = 0; t < thread_count; t++)
    if ((int)t != self && clocks[t] > known->clock[t])
      race(region, at, what, t);
}

static void check_access(struct region *region, const char *at, size_t bytes, bool writes, bool is_atomic)
{
  uint32_t now = threads[self].known.clock[self];
  size_t first = (size_t)(at - region->at) / 4, last = (size_t)(at - region->at + (long)bytes - 1) / 4;
  for (size_t i = first; i <= last; i++) {
    struct shadow *s = &region->shadow[i];
    if (s->run != run_number)
      *s = (struct shadow){.run = run_number};
    check_known(region, at, s->written, writes ? "overwrites a store of" : "reads a store of");
    if (writes)
      check_known(region, at, s->read, "overwrites what is read by");
    if (!is_atomic) {
      check_known(region, at, s->atomic_written, "meets an atomic store of");
      if (writes)
        check_known(region, at, s->atomic_read, "overwrites what is loaded by");
    }
    uint32_t *mine = is_atomic ? (writes ? s->atomic_written : s->atomic_read) : (writes ? s->written : s->read);
    mine[self] = now;
  }
}

static uint64_t value_at(const void *at, size_t bytes)
{
  uint64_t value = 0;
  memcpy(&value, at, bytes);
  return value;
}

static void append(struct location *location, uint64_t value, const struct knowledge *released)
{
  if (location->count == STORES)
    model_fail("too many stores to a location");
  struct store *store = &location->stores[location->count++];
  store->value = value;
  store->releases = released != NULL;
  if (released)
    store->released = *released;
}

static struct location *location_of(void *at, size_t bytes)
{
  for (unsigned i = 0; i < location_count; i++)
    if (locations[i].at == at)
      return &locations[i];
  if (location_count == LOCATIONS)
    model_fail("too many locations");
  struct location *location = &locations[location_count++];
  location->at = at;
  location->bytes = bytes;
  location->count = 0;
  append(location, value_at(at, bytes), NULL);
  return location;
}

/* A plain access of the code under test. */
static void plain(void *address, size_t bytes, bool writes)
{
  char *at = address;
  struct region *region = bytes ? region_of(at) : NULL;
  if (region == NULL)
    return;
  if (self >= 0) {
    if (writes && model->kill)
      point(false);
    if (!is_relaxed(at))
      check_access(region, at, bytes, writes, false);
  }
  if (writes)
    mark_dirty(region, at, bytes);
}

/* After a plain store over atomic locations: the race check has shown that nobody else is at them. */
static void plain_stored(void *address, size_t bytes)
{
  char *at = address;
  for (unsigned i = 0; self >= 0 && i < location_count; i++) {
    struct location *l = &locations[i];
    if (l->at + l->bytes <= at || l->at >= at + bytes)
      continue;
    threads[self].known.newest[i] = (uint8_t)l->count;
    append(l, value_at(l->at, l->bytes), NULL);
  }
}

static bool mutated(const void *at, bool store)
{
  return at >= mutation.at && at < mutation.end && (store ? mutation.stores : mutation.loads);
}

static bool acquires(const void *at, int order)
{
  return order != RELAXED && order != RELEASE && !mutated(at, false);
}

static bool is_release(const void *at, int order)
{
  return order >= RELEASE && !mutated(at, true);
}

static void begin_atomic(void *at, size_t bytes, int order, bool writes)
{
  struct region *region = region_of(at);
  point(true);
  if (region) {
    check_access(region, at, bytes, writes, true);
    if (writes)
      mark_dirty(region, at, bytes);
  }
  if (order == SEQ_CST)
    learn(&threads[self].known, &total_order);
}

static void end_atomic(int order)
{
  if (order == SEQ_CST)
    learn(&total_order, &threads[self].known);
  threads[self].known.clock[self]++;
}

/* Which store a load takes: 0 the newest. */
static unsigned take(struct location *location)
{
  unsigned index = (unsigned)(location - locations), newest = location->count - 1;
  unsigned options = stale > 0 ? newest - threads[self].known.newest[index] + 1 : 1, back = choose(options);
  stale -= back > 0;
  return newest - back;
}

static void taken(struct location *location, unsigned which, int order)
{
  unsigned index = (unsigned)(location - locations);
  threads[self].known.newest[index] = (uint8_t)which;
  if (acquires(location->at, order) && location->stores[which].releases)
    learn(&threads[self].known, &location->stores[which].released);
}

static uint64_t load(void *at, size_t bytes, int order)
{
  if (self < 0)
    return value_at(at, bytes);
  if (is_relaxed(at))
    return value_at(at, bytes);
  begin_atomic(at, bytes, order, false);
  struct location *location = location_of(at, bytes);
  unsigned which = take(location);
  taken(location, which, order);
  end_atomic(order);
  return location->stores[which].value;
}

static void put(void *at, uint64_t value, size_t bytes)
{
  struct region *region = self < 0 ? region_of(at) : NULL;
  if (region)
    mark_dirty(region, at, bytes);
  memcpy(at, &value, bytes);
}

static void store(void *at, uint64_t value, size_t bytes, int order)
{
  if (self >= 0) {
    begin_atomic(at, bytes, order, true);
    struct location *location = location_of(at, bytes);
    struct knowledge *known = &threads[self].known;
    known->newest[location - locations] = (uint8_t)location->count;
    append(location, value, is_release(at, order) ? known : NULL);
    end_atomic(order);
  }
  put(at, value, bytes);
}

/* The newest store is replaced; `before` has been read from it. */
static void replace(struct location *location, uint64_t value, int order)
{
  unsigned which = location->count - 1;
  taken(location, which, order);
  struct knowledge *known = &threads[self].known, released = {0};
  bool releases = is_release(location->at, order), continues = location->stores[which].releases;
  known->newest[location - locations] = (uint8_t)location->count;
  if (releases)
    released = *known;
  if (continues)
    learn(&released, &location->stores[which].released);
  append(location, value, releases || continues ? &released : NULL);
}

static bool exchange_if(void *at, uint64_t *expected, uint64_t value, size_t bytes, int order, int failure)
{
  if (self < 0) {
    uint64_t now = value_at(at, bytes);
    bool same = now == *expected;
    *expected = now;
    if (same)
      put(at, value, bytes);
    return same;
  }
  begin_atomic(at, bytes, order, true);
  struct location *location = location_of(at, bytes);
  unsigned which = take(location), newest = location->count - 1;
  if (location->stores[which].value == *expected)
    which = newest; /* an older store can only be what it fails on */
  bool same = location->stores[which].value == *expected;
  if (same)
    replace(location, value, order);
  else
    taken(location, which, failure);
  *expected = location->stores[which].value;
  end_atomic(order);
  if (same)
    put(at, value, bytes);
  return same;
}

static uint64_t modify(void *at, uint64_t operand, size_t bytes, int order, uint64_t (*with)(uint64_t, uint64_t))
{
  uint64_t before = value_at(at, bytes), value = with(before, operand);
  if (self >= 0) {
    begin_atomic(at, bytes, order, true);
    before = value_at(at, bytes); /* others may have run */
    value = with(before, operand);
    value = bytes == 4 ? (uint32_t)value : value;
    replace(location_of(at, bytes), value, order);
    end_atomic(order);
  }
  put(at, value, bytes);
  return before;
}

static uint64_t add(uint64_t a, uint64_t b)
{
  return a + b;
}
static uint64_t subtract(uint64_t a, uint64_t b)
{
  return a - b;
}
static uint64_t second(uint64_t a, uint64_t b)
{
  (void)a;
  return b;
}

/* ---- exploring ---- */

static void begin_run(void)
{
  restore();
  run_number++;
  location_count = 0;
  choice_at = 0;
  preemptions = model->preemptions;
  stale = model->stale;
  killed = false;
  memset(&total_order, 0, sizeof total_order);
  for (unsigned i = 0; i < thread_count; i++) {
    memset(&threads[i].known, 0, sizeof threads[i].known);
    threads[i].known.clock[i] = 1;
    threads[i].alive = true;
    getcontext(&threads[i].context);
    threads[i].context.uc_stack.ss_sp = threads[i].stack;
    threads[i].context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&threads[i].context, (void (*)(void))fiber, 1, (int)i);
  }
}

struct model_result model_explore(const struct model_case *explored, struct model_mutation wanted)
{
  model = explored;
  mutation = wanted;
  result = (struct model_result){0};
  choice_count = 0;
  for (thread_count = 0; thread_count < MODEL_THREADS && model->threads[thread_count]; thread_count++)
    if (threads[thread_count].stack == NULL && (threads[thread_count].stack = malloc(STACK_BYTES)) == NULL)
      abort();
  do {
    if (setjmp(finishing) == 0) {
      begin_run();
      model->start();
      go_to((int)choose(thread_count));
      result.runs++;
      result.kills += killed;
      if (!result.failed)
        model->finish(killed);
    }
  } while (!result.failed && next_run());
  self = -1;
  restore();
  return result;
}

/* ---- what the compilers call ---- */

void *model_memcpy(void *to, const void *from, size_t bytes);
void *model_memset(void *at, int byte, size_t bytes);

void *model_memcpy(void *to, const void *from, size_t bytes)
{
  plain((void *)(uintptr_t)from, bytes, false);
  plain(to, bytes, true);
  memcpy(to, from, bytes);
  plain_stored(to, bytes);
  return to;
}

void *model_memset(void *at, int byte, size_t bytes)
{
  size_t step = self >= 0 && model->kill && model->torn ? LINE : bytes;
  for (size_t done = 0; done < bytes; done += step) {
    char *piece = (char *)at + done;
    size_t size = bytes - done < step ? bytes - done : step;
    plain(piece, size, true);
    memset(piece, byte, size);
    plain_stored(piece, size);
  }
  return at;
}

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wincompatible-library-redeclaration"
#else
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
#endif

void __tsan_init(void)
{
}
void __tsan_func_entry(void *pc)
{
  (void)pc;
}
void __tsan_func_exit(void)
{
}
void __tsan_atomic_signal_fence(int order)
{
  (void)order;
}
void __tsan_read_range(void *at, unsigned long bytes)
{
  plain(at, bytes, false);
}
void __tsan_write_range(void *at, unsigned long bytes)
{
  plain(at, bytes, true);
}
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes)
{
  return model_memcpy(to, from, bytes);
}
void *__tsan_memset(void *at, int byte, unsigned long bytes)
{
  return model_memset(at, byte, bytes);
}

#define PLAIN(bytes)                                                                                                   \
  void __tsan_read##bytes(void *at)                                                                                    \
  {                                                                                                                    \
    plain(at, bytes, false);                                                                                           \
  }                                                                                                                    \
  void __tsan_unaligned_read##bytes(void *at)                                                                          \
  {                                                                                                                    \
    plain(at, bytes, false);                                                                                           \
  }                                                                                                                    \
  void __tsan_write##bytes(void *at)                                                                                   \
  {                                                                                                                    \
    plain(at, bytes, true);                                                                                            \
  }                                                                                                                    \
  void __tsan_unaligned_write##bytes(void *at)                                                                         \
  {                                                                                                                    \
    plain(at, bytes, true);                                                                                            \
  }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define ATOMIC(bits)                                                                                                   \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order)                                        \
  {                                                                                                                    \
    return (uint##bits##_t)load((void *)(uintptr_t)at, bits / 8, order);                                               \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t value, int order)                                 \
  {                                                                                                                    \
    store((void *)(uintptr_t)at, value, bits / 8, order);                                                              \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile void *at, void *expected, uint##bits##_t value,           \
                                                    int order, int failure)                                            \
  {                                                                                                                    \
    uint64_t before = value_at(expected, bits / 8);                                                                    \
    bool done = exchange_if((void *)(uintptr_t)at, &before, value, bits / 8, order, failure);                          \
    memcpy(expected, &before, bits / 8);                                                                               \
    return done;                                                                                                       \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile void *at, void *expected, uint##bits##_t value, int order,  \
                                                  int failure)                                                         \
  {                                                                                                                    \
    return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, order, failure);                         \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile void *at, uint##bits##_t expected,                \
                                                            uint##bits##_t value, int order, int failure)              \
  {                                                                                                                    \
    uint64_t before = expected;                                                                                        \
    exchange_if((void *)(uintptr_t)at, &before, value, bits / 8, order, failure);                                      \
    return (uint##bits##_t)before;                                                                                     \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile void *at, uint##bits##_t value, int order)                   \
  {                                                                                                                    \
    return (uint##bits##_t)modify((void *)(uintptr_t)at, value, bits / 8, order, add);                                 \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile void *at, uint##bits##_t value, int order)                   \
  {                                                                                                                    \
    return (uint##bits##_t)modify((void *)(uintptr_t)at, value, bits / 8, order, subtract);                            \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile void *at, uint##bits##_t value, int order)                    \
  {                                                                                                                    \
    return (uint##bits##_t)modify((void *)(uintptr_t)at, value, bits / 8, order, second);                              \
  }
ATOMIC(32)
ATOMIC(64)
