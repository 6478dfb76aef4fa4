#include "record/stacks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "record/build_id.h"
#include "record/early.h"
#include "record/faults.h"
#include "record/internal.h"
#include "record/raw.h"

#define CACHE_ENTRIES 256u /* a power of two, a thread */
#define THREADS 1024u      /* cells that can have a state */
#define MODULES 1024u
#define FRAMES 8192u
#define MOST_US 200u
#define LINE_MOST_US 4u
#define ALLOWANCE_NS 5000000u /* a thread's first stacks, which fill libunwind's caches */

uint64_t opgap_stack_ticks = UINT64_MAX, opgap_long_op_ticks = OPGAP_FAULT_TICKS;

/* What one thread keeps; zeroed by fork, like its slot. */
struct stack_thread {
  uint32_t serial; /* of the slot that it belongs to */
  struct opgap_stack_budget budget;
  struct {
    uint64_t hash;
    uint32_t name;
  } seen[CACHE_ENTRIES];
};

struct module {
  uintptr_t start, end, bias;
  uint32_t path, build_id; /* names */
};

static int (*backtrace)(void **frames, int count);
static bool want_native, want_python;
static struct stack_thread *threads;
static uint64_t ticks_a_ms;
static _Atomic uint32_t unwinding; /* threads in libunwind */
static _Atomic uint64_t taken, skipped, failed, lines_skipped, cost_ticks;

static struct module modules[MODULES];
static _Atomic uint32_t module_count; /* release after the entry, acquire before it is read */
static _Atomic uint32_t modules_busy;
static unsigned long long modules_added; /* the loader's count when we looked last */
static uintptr_t own_start, own_end;     /* this library */
#define PLACES 256u                      /* a power of two */
#define PLACE_TRIES 8u
static _Atomic uint64_t places[PLACES]; /* whose modules are wanted; 0: none; relaxed, each stands for itself */
static bool place_looked[PLACES];       /* the flusher's */
static _Atomic bool places_new;         /* set behind a place (seq_cst, with the flusher's sleep), then it is woken */
static uint32_t frames_told[FRAMES];    /* names of Python frames that have a FRAME record */
static _Atomic uint32_t frame_count;

/* ---- a stack to work on ---- */

/* The program's own may be a signal stack or a coroutine's of a few KiB; libunwind needs about 12. */
#define STACKS 8u
#define STACK_BYTES 65536u
static char *stacks;
static _Atomic uint32_t stacks_busy; /* a bit each; a bit's owner alone touches the stack: acquire, release */

static int stack_take(void)
{
  uint32_t busy = atomic_load_explicit(&stacks_busy, memory_order_relaxed);
  for (;;) {
    if (busy == (1u << STACKS) - 1)
      return -1;
    int i = __builtin_ctz(~busy);
    if (atomic_compare_exchange_weak_explicit(&stacks_busy, &busy, busy | 1u << i, memory_order_acquire,
                                              memory_order_relaxed))
      return i;
  }
}

static void stack_give(int i)
{
  atomic_fetch_and_explicit(&stacks_busy, ~(1u << i), memory_order_release);
}

/* Calls function(argument) on the stack that ends at `top`.  Its frame keeps the caller's stack pointer in a register
 * that unwinding restores, so a walk goes on where the program was. */
void opgap_call_on_stack(void (*function)(void *), void *argument, void *top);
#if defined(__x86_64__)
__asm__(".text\n"
        ".hidden opgap_call_on_stack\n"
        ".globl opgap_call_on_stack\n"
        ".type opgap_call_on_stack, @function\n"
        "opgap_call_on_stack:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "movq %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "movq %rdx, %rsp\n"
        "movq %rdi, %rax\n"
        "movq %rsi, %rdi\n"
        "call *%rax\n"
        "movq %rbp, %rsp\n"
        "popq %rbp\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size opgap_call_on_stack, . - opgap_call_on_stack\n");
#else
void opgap_call_on_stack(void (*function)(void *), void *argument, void *top)
{
  (void)top;
  function(argument);
}
#endif

/* ---- start ---- */

static void measure_ticks(void)
{
  struct opgap_anchor first = opgap_clock_anchor(), now;
  do
    now = opgap_clock_anchor();
  while (now.ns - first.ns < 100000);
  ticks_a_ms = (now.ticks - first.ticks) * 1000000 / (now.ns - first.ns);
}

/* libunwind's own test of an address writes it to a pipe, whose descriptors would be among the program's.  Ours asks
 * the kernel to read it as a signal set for an operation that does not exist: -EFAULT when it cannot.  Pages are asked
 * about once each walk. */
#define PAGES 16u
struct readable {
  uintptr_t pages[PAGES];
  unsigned next;
};
static __thread struct readable *readable __attribute__((tls_model("initial-exec")));

static bool can_read(uintptr_t address)
{
  struct readable *r = readable;
  uintptr_t page = address >> 12;
  if (r == NULL || (address & 7) != 0)
    return false;
  for (unsigned i = 0; i < PAGES; i++)
    if (r->pages[i] == page)
      return true;
  if (opgap_raw6(SYS_rt_sigprocmask, -1, (long)address, 0, 8, 0, 0) == -EFAULT)
    return false;
  r->pages[r->next++ % PAGES] = page;
  return true;
}

static int access_mem(void *space, uintptr_t address, uintptr_t *value, int write, void *argument)
{
  (void)space;
  (void)argument;
  if (write || !can_read(address))
    return -1;
  *value = *(const uintptr_t *)address;
  return 0;
}

/* unw_accessors_t of libunwind 1.x: the fourth function reads and writes memory. */
struct accessors {
  void *find_proc_info, *put_unwind_info, *get_dyn_info_list_addr;
  int (*access_mem)(void *space, uintptr_t address, uintptr_t *value, int write, void *argument);
};

static bool load_unwinder(void)
{
  static bool said;
  void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  struct accessors *(*get_accessors)(void *space) = NULL;
  void **space = NULL;
  if (library != NULL) {
    *(void **)&backtrace = dlsym(library, "unw_backtrace");
    *(void **)&get_accessors = dlsym(library, "_Ux86_64_get_accessors");
    space = dlsym(library, "_ULx86_64_local_addr_space");
  }
  if (backtrace == NULL || get_accessors == NULL || space == NULL) {
    opgap_notice(&said, "libunwind.so.8 cannot be loaded, or is not as expected: no native stacks");
    return false;
  }
  struct opgap_cell *cell = opgap_cell;
  opgap_cell = &opgap_unwind_cell; /* this initialises it */
  get_accessors(*space)->access_mem = access_mem;
  opgap_cell = cell;
  return true;
}

OPGAP_EARLY_CODE void opgap_stacks_start(void)
{
  uint32_t wanted = opgap_config.settings.stacks;
  if (wanted == OPGAP_STACKS_OFF)
    return;
  want_python = (wanted == OPGAP_STACKS_PYTHON || wanted == OPGAP_STACKS_BOTH) && opgap_python_frames != NULL;
  want_native = (wanted == OPGAP_STACKS_NATIVE || wanted == OPGAP_STACKS_BOTH) && load_unwinder();
  if (!want_native && !want_python)
    return;
  size_t size = THREADS * sizeof *threads;
  threads = opgap_raw_mmap(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (threads == NULL || opgap_raw3(SYS_madvise, (long)threads, (long)size, 18 /* MADV_WIPEONFORK */) < 0)
    return;
  stacks =
      opgap_raw_mmap(STACKS * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (stacks == NULL)
    return;
  measure_ticks();
  opgap_stack_ticks = ticks_a_ms * (OPGAP_STACK_THRESHOLD_NS / 1000) / 1000;
  if (opgap_stack_ticks < opgap_long_op_ticks)
    opgap_long_op_ticks = opgap_stack_ticks;
}

void opgap_stacks_forked(void)
{
  if (atomic_load(&unwinding) > 0 || atomic_load(&modules_busy))
    opgap_stack_ticks = UINT64_MAX;
  /* names are of the parent's arena */
  atomic_store(&module_count, 0);
  atomic_store(&frame_count, 0);
  atomic_store(&stacks_busy, 0);
  memset(places, 0, sizeof places);
  memset(place_looked, 0, sizeof place_looked);
  atomic_store(&places_new, false);
  atomic_store(&modules_busy, 0);
  modules_added = 0;
  taken = skipped = failed = lines_skipped = cost_ticks = 0;
}

struct opgap_stack_counts opgap_stack_counts(void)
{
  return (struct opgap_stack_counts){atomic_load(&taken), atomic_load(&skipped), atomic_load(&failed),
                                     atomic_load(&lines_skipped),
                                     ticks_a_ms ? atomic_load(&cost_ticks) * 1000000 / ticks_a_ms : 0};
}

/* ---- modules ---- */

static uint32_t build_id_of(const struct dl_phdr_info *info)
{
  char text[OPGAP_BUILD_ID_TEXT];
  size_t length = opgap_build_id(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, text);
  return length > 0 ? opgap_intern(text, length) : 0;
}

static uint32_t path_of(const struct dl_phdr_info *info)
{
  char path[OPGAP_NAME_MAX];
  if (info->dlpi_name && info->dlpi_name[0])
    return opgap_intern(info->dlpi_name, strlen(info->dlpi_name));
  long length = opgap_raw6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof path, 0, 0);
  return length > 0 ? opgap_intern(path, (size_t)length) : 0;
}

static bool known(uintptr_t start, uintptr_t bias)
{
  uint32_t count = atomic_load_explicit(&module_count, memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++)
    if (modules[i].start == start && modules[i].bias == bias)
      return true;
  return false;
}

static void add_module(struct dl_phdr_info *info)
{
  uintptr_t start = UINTPTR_MAX, end = 0;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
      continue;
    if (info->dlpi_addr + header->p_vaddr < start)
      start = info->dlpi_addr + header->p_vaddr;
    if (info->dlpi_addr + header->p_vaddr + header->p_memsz > end)
      end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
  }
  uint32_t count = atomic_load_explicit(&module_count, memory_order_relaxed);
  if (start >= end || count >= MODULES || known(start, info->dlpi_addr))
    return;
  modules[count] = (struct module){start, end, info->dlpi_addr, path_of(info), build_id_of(info)};
  if ((uintptr_t)&add_module >= start && (uintptr_t)&add_module < end) {
    own_start = start;
    own_end = end;
  }
  atomic_store_explicit(&module_count, count + 1, memory_order_release);
}

static int see_module(struct dl_phdr_info *info, size_t size, void *unused)
{
  (void)size;
  (void)unused;
  modules_added = info->dlpi_adds;
  add_module(info);
  return 0;
}

/* Adds the module that has the address in one of its segments. */
static int see_place(struct dl_phdr_info *info, size_t size, void *address)
{
  (void)size;
  uintptr_t offset = (uintptr_t)(*(uint64_t *)address - info->dlpi_addr);
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && offset - header->p_vaddr < header->p_memsz) {
      add_module(info);
      return 1;
    }
  }
  return 0;
}

void opgap_module_want(uint64_t address)
{
  for (unsigned i = 0; i < PLACE_TRIES; i++) {
    _Atomic uint64_t *place = &places[(address / 8 + i) & (PLACES - 1)];
    uint64_t seen = atomic_load_explicit(place, memory_order_relaxed);
    if (seen == 0 && atomic_compare_exchange_strong(place, &seen, address)) {
      atomic_store(&places_new, true);
      opgap_session_wake();
      return;
    }
    if (seen == address)
      return;
  }
}

bool opgap_modules_wanted(void)
{
  return atomic_load(&places_new);
}

void opgap_modules_look(void)
{
  if (!atomic_exchange(&places_new, false))
    return;
  for (unsigned i = 0; i < PLACES; i++) {
    uint64_t address = atomic_load(&places[i]);
    uint32_t free_now = 0;
    if (address == 0 || place_looked[i])
      continue;
    if (!atomic_compare_exchange_strong(&modules_busy, &free_now, 1)) {
      atomic_store(&places_new, true); /* a thread looks for one of its stack: the next time */
      return;
    }
    place_looked[i] = true;
    dl_iterate_phdr(see_place, &address);
    atomic_store(&modules_busy, 0);
  }
}

static int count_added(struct dl_phdr_info *info, size_t size, void *added)
{
  (void)size;
  *(unsigned long long *)added = info->dlpi_adds;
  return 1;
}

/* Index of the module of an address; -1: none, such as code made at run time. */
static int find_module(uintptr_t address)
{
  /* the newest first: what was unloaded may have left its place to another */
  for (uint32_t i = atomic_load_explicit(&module_count, memory_order_acquire); i-- > 0;)
    if (address >= modules[i].start && address < modules[i].end)
      return (int)i;
  return -1;
}

static int module_of(uintptr_t address)
{
  int index = find_module(address);
  unsigned long long added = 0;
  uint32_t free_now = 0;
  if (index >= 0)
    return index;
  dl_iterate_phdr(count_added, &added);
  if (added == modules_added || !atomic_compare_exchange_strong(&modules_busy, &free_now, 1))
    return -1;
  dl_iterate_phdr(see_module, NULL);
  atomic_store(&modules_busy, 0);
  return find_module(address);
}

/* ---- encoding ---- */

struct stack_text {
  uint8_t bytes[OPGAP_NAME_MAX];
  size_t length;
};

static bool put(struct stack_text *text, uint64_t value)
{
  if (text->length + 10 > sizeof text->bytes)
    return false;
  while (value >= 128) {
    text->bytes[text->length++] = (uint8_t)(value | 128);
    value >>= 7;
  }
  text->bytes[text->length++] = (uint8_t)value;
  return true;
}

static uint32_t encode(void *const *native, unsigned native_count, const uint32_t *python, unsigned python_count)
{
  struct stack_text text = {.length = 1};
  bool room = true;
  text.bytes[0] = 1;
  for (unsigned i = 0; i < native_count && room; i++) {
    uintptr_t address = (uintptr_t)native[i];
    int module = module_of(address);
    room = module < 0 ? put(&text, 1) && put(&text, address)
                      : put(&text, (uint64_t)module + 2) && put(&text, address - modules[module].bias);
  }
  for (unsigned i = 0; i < python_count && room; i++)
    room = put(&text, 0) && put(&text, python[i]);
  return opgap_intern((const char *)text.bytes, text.length);
}

static uint64_t hash_of(void *const *native, unsigned native_count, const uint32_t *python, unsigned python_count)
{
  uint64_t hash = native_count;
  for (unsigned i = 0; i < native_count; i++)
    hash = (hash ^ (uintptr_t)native[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
  for (unsigned i = 0; i < python_count; i++)
    hash = (hash ^ python[i]) * UINT64_C(0xbf58476d1ce4e5b9) ^ hash >> 31;
  return hash | 1;
}

/* ---- taking one ---- */

static struct stack_thread *state_of(unsigned slot, uint32_t serial)
{
  struct stack_thread *state = &threads[slot];
  if (state->serial != serial) {
    memset(state, 0, sizeof *state);
    state->serial = serial;
    state->budget.began = opgap_ticks();
  }
  return state;
}

static bool has_left(const struct opgap_stack_budget *budget, uint64_t now)
{
  uint64_t allowance = ticks_a_ms * (ALLOWANCE_NS / 1000000);
  return budget->spent <= allowance || (budget->spent - allowance) * OPGAP_STACK_SHARE <= now - budget->began;
}

/* Takes what something took from the budget; more than `most_us` at a time the thread was not running. */
static void spend(struct opgap_stack_budget *budget, uint64_t ticks, unsigned most_us, unsigned times)
{
  uint64_t most = ticks_a_ms * most_us / 1000, cost = (ticks < most ? ticks : most) * times;
  budget->spent += cost;
  atomic_fetch_add_explicit(&cost_ticks, cost, memory_order_relaxed);
}

bool opgap_stack_afford(struct opgap_stack_budget *budget, uint64_t now, uint64_t ticks, unsigned times)
{
  if (budget->began == 0)
    budget->began = now;
  bool left = has_left(budget, now);
  spend(budget, ticks, LINE_MOST_US, left ? times + 1 : 1);
  if (!left)
    atomic_fetch_add_explicit(&lines_skipped, times, memory_order_relaxed);
  return left;
}

/* Frames of the program, from the caller of the hook outwards.  Our own are also behind a signal that came in a hooked
 * call, and where we start a thread.  What called them stood at a call: its address is made one within that
 * instruction, as the frame that a signal interrupts has its own address and not that of a return. */
static unsigned take_native(void **frames)
{
  atomic_fetch_add(&unwinding, 1);
  int count = backtrace(frames, OPGAP_STACK_FRAMES);
  atomic_fetch_sub(&unwinding, 1);
  unsigned kept = 0;
  if (own_end == 0)
    module_of((uintptr_t)&take_native);
  for (int i = 0; i < count; i++) {
    if ((uintptr_t)frames[i] >= own_start && (uintptr_t)frames[i] < own_end)
      continue;
    bool behind_own = kept > 0 && (uintptr_t)frames[i - 1] >= own_start && (uintptr_t)frames[i - 1] < own_end;
    frames[kept++] = (void *)((uintptr_t)frames[i] - behind_own);
  }
  return kept;
}

bool opgap_stacks_python(void)
{
  return want_python;
}

#define LOADER_FRAMES 16u /* from the fork in multiprocessing up to the DataLoader that starts its worker: five */

uint32_t opgap_stack_of_loader(void)
{
  static const char file[] = "torch/utils/data/dataloader.py:";
  uint32_t frames[LOADER_FRAMES];
  const struct opgap_cell *cell = opgap_cell;
  if (opgap_python_frames == NULL || cell->thread == NULL)
    return 0;
  unsigned count = opgap_python_frames((unsigned)(cell - opgap_cells), frames, LOADER_FRAMES);
  for (unsigned i = 0; i < count; i++) {
    const struct opgap_name *name = opgap_arena_name(opgap_state->arena, frames[i] >> 1);
    for (uint32_t at = 0; at + sizeof file - 1 <= name->length; at++)
      if (memcmp(name->bytes + at, file, sizeof file - 1) == 0)
        return frames[i] >> 1;
  }
  return 0;
}

static uint32_t take_here(struct stack_thread *state, unsigned slot, uint32_t *python, unsigned *python_count)
{
  void *native[OPGAP_STACK_FRAMES];
  unsigned native_count = want_native ? take_native(native) : 0;
  *python_count = want_python ? opgap_python_frames(slot, python, OPGAP_STACK_FRAMES) : 0;
  if (native_count + *python_count == 0)
    return 0;
  uint64_t hash = hash_of(native, native_count, python, *python_count);
  uint32_t at = (uint32_t)(hash >> 32) & (CACHE_ENTRIES - 1);
  if (state->seen[at].hash == hash)
    return state->seen[at].name;
  uint32_t name = encode(native, native_count, python, *python_count);
  state->seen[at].hash = name ? hash : 0;
  state->seen[at].name = name;
  return name;
}

/* Calls function(argument) as libunwind: the thread's hooks pass through.  No signal handler runs meanwhile: it would
 * run on the borrowed stack, leave by longjmp, or go unrecorded. */
static void as_unwinder(void (*function)(void *), void *argument)
{
  uint64_t signals = opgap_raw_block_signals();
  struct opgap_cell *cell = opgap_cell;
  opgap_cell = &opgap_unwind_cell;
  function(argument);
  opgap_cell = cell;
  opgap_raw_restore_signals(signals);
}

static void (*destructor)(void *); /* libunwind's, of the one key that it makes */

static void destroy(void *value)
{
  as_unwinder(destructor, value);
}

void (*opgap_stacks_destructor(void (*of_libunwind)(void *)))(void *)
{
  if (destructor != NULL || of_libunwind == NULL)
    return of_libunwind;
  destructor = of_libunwind;
  return destroy;
}

struct taking {
  struct stack_thread *state;
  unsigned slot;
  uint32_t *python;
  unsigned *python_count;
  uint32_t name;
  void *stack; /* its top */
};

static void take_on_stack(void *context)
{
  struct taking *t = context;
  struct readable pages = {.next = 0};
  readable = &pages;
  t->name = take_here(t->state, t->slot, t->python, t->python_count);
  readable = NULL;
}

static void switch_stack(void *context)
{
  opgap_call_on_stack(take_on_stack, context, ((struct taking *)context)->stack);
}

static uint32_t take(struct stack_thread *state, unsigned slot, uint32_t *python, unsigned *python_count)
{
  int stack = stack_take();
  if (stack < 0)
    return 0;
  struct taking taking = {state, slot, python, python_count, 0, stacks + (size_t)(stack + 1) * STACK_BYTES};
  as_unwinder(switch_stack, &taking);
  stack_give(stack);
  return taking.name;
}

uint32_t opgap_module_count(void)
{
  return atomic_load_explicit(&module_count, memory_order_acquire);
}

void opgap_module_fields(uint32_t index, uint64_t fields[5])
{
  const struct module *m = &modules[index];
  const uint64_t values[5] = {m->path, m->build_id, m->bias, m->start, m->end - m->start};
  memcpy(fields, values, sizeof values);
}

static void tell_module(uint32_t index)
{
  uint64_t fields[5];
  opgap_module_fields(index, fields);
  opgap_emit(OPGAP_EV_MODULE, index, opgap_ticks(), 0, fields, 5);
}

static void tell_frame(uint32_t name)
{
  uint32_t count = atomic_load(&frame_count);
  for (uint32_t i = 0; i < count; i++)
    if (frames_told[i] == name)
      return;
  while (count < FRAMES && !atomic_compare_exchange_weak(&frame_count, &count, count + 1))
    ;
  if (count >= FRAMES)
    return;
  frames_told[count] = name;
  const uint64_t field = name;
  opgap_emit(OPGAP_EV_FRAME, 0, opgap_ticks(), 0, &field, 1);
}

void opgap_stack_note(unsigned event, uint64_t ticks, uint64_t bytes)
{
  struct opgap_cell *cell = opgap_cell;
  if (cell->thread == NULL || cell->busy || opgap_stack_ticks == UINT64_MAX || opgap_confined)
    return;
  int error = errno; /* libunwind asks the kernel whether memory is there */
  unsigned slot = (unsigned)(cell - opgap_cells);
  if (slot >= THREADS) {
    atomic_fetch_add_explicit(&skipped, 1, memory_order_relaxed);
    return;
  }
  struct stack_thread *state = state_of(slot, cell->thread->serial);
  uint64_t start = opgap_ticks();
  if (!has_left(&state->budget, start)) {
    atomic_fetch_add_explicit(&skipped, 1, memory_order_relaxed);
    return; /* nothing has touched errno */
  }
  uint32_t before = atomic_load(&module_count), python[OPGAP_STACK_FRAMES];
  unsigned python_count = 0;
  uint32_t name = take(state, slot, python, &python_count);
  for (uint32_t i = before; i < atomic_load(&module_count); i++)
    tell_module(i);
  for (unsigned i = 0; i < python_count; i++)
    tell_frame(python[i] >> 1);
  const uint64_t fields[] = {name, ticks * 1000000 / ticks_a_ms, bytes};
  if (name)
    opgap_emit(OPGAP_EV_STACK, event, opgap_ticks(), 0, fields, 3);
  if (name || want_native) /* without Python frames there is nothing to take, and nothing failed */
    atomic_fetch_add_explicit(name ? &taken : &failed, 1, memory_order_relaxed);
  spend(&state->budget, opgap_ticks() - start, MOST_US, 1);
  errno = error;
}

size_t opgap_stack_tables(uint64_t *words, size_t room, uint64_t ns)
{
  size_t n = 0;
  for (uint32_t i = 0; i < atomic_load_explicit(&module_count, memory_order_acquire) && n + 7 <= room; i++, n += 7) {
    const struct module *m = &modules[i];
    const uint64_t record[7] = {
        OPGAP_WORD0(OPGAP_EV_MODULE, 7, 0, i), ns, m->path, m->build_id, m->bias, m->start, m->end - m->start};
    memcpy(words + n, record, sizeof record);
  }
  for (uint32_t i = 0; i < atomic_load(&frame_count) && i < FRAMES && n + 3 <= room; i++, n += 3) {
    words[n] = OPGAP_WORD0(OPGAP_EV_FRAME, 3, 0, 0);
    words[n + 1] = ns;
    words[n + 2] = frames_told[i];
  }
  return n;
}
