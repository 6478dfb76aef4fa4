/* Symbol binding without dlsym, which allocates and locks: a look-up of our own in the objects that the loader has
 * mapped, so that it works before main, in the middle of an allocator's initialisation, and on any thread.
 *
 * When      All functions at once: before the session begins, in the first hook that needs one, whichever comes first.
 *           Most short programs (/bin/true) never come to either.
 * Threads   Any.  One binds all; whoever comes meanwhile (another thread, a signal handler or an IFUNC resolver that
 *           interrupts the binding) binds the one function that it needs.  Both write the same value.
 * Order     As RTLD_NEXT: the objects after this library in the loader's list, so that another preloaded library or an
 *           allocator behind us gets its turn.  A function found nowhere there is looked for in all objects, because
 *           libraries loaded later, also those with RTLD_LOCAL, may lie anywhere.
 * Versions  The default version of a symbol; a hidden one (kept for old programs) only if there is no other.  Programs
 *           that ask for the old version of a function whose versions differ get hooks of their own
 * (OPGAP_OLD_VERSION).
 */
#include "hooks/bind.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "record/raw.h"

union opgap_reals opgap_real;

/* ld.so's list of objects.  Weak: its address is NULL until this library is relocated. */
extern struct r_debug _r_debug __attribute__((weak));
extern ElfW(Dyn) _DYNAMIC[] OPGAP_HIDDEN;

/* The parts of an object's dynamic section that a look-up needs. */
struct object {
  uintptr_t base;
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint16_t *versions; /* may be NULL */
  const uint32_t *gnu_hash, *sysv_hash;
};

static bool object_open(struct object *o, uintptr_t base, const ElfW(Dyn) * dynamic)
{
  *o = (struct object){.base = base};
  if (dynamic == NULL)
    return false;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    uintptr_t at = dynamic->d_un.d_ptr;
    if (at < base) /* the loader relocates these in place, except in a read-only section (vDSO) */
      at += base;
    switch (dynamic->d_tag) {
    case DT_SYMTAB:
      o->symbols = (const ElfW(Sym) *)at;
      break;
    case DT_STRTAB:
      o->strings = (const char *)at;
      break;
    case DT_VERSYM:
      o->versions = (const uint16_t *)at;
      break;
    case DT_GNU_HASH:
      o->gnu_hash = (const uint32_t *)at;
      break;
    case DT_HASH:
      o->sysv_hash = (const uint32_t *)at;
      break;
    default:
      break;
    }
  }
  return o->symbols && o->strings && (o->gnu_hash || o->sysv_hash);
}

static bool same(const char *a, const char *b)
{
  while (*a && *a == *b) {
    a++;
    b++;
  }
  return *a == *b;
}

static uint32_t gnu_hash_of(const char *name)
{
  uint32_t h = 5381;
  for (; *name; name++)
    h = h * 33 + (uint8_t)*name;
  return h;
}

static uint32_t sysv_hash_of(const char *name)
{
  uint32_t h = 0;
  for (; *name; name++) {
    h = (h << 4) + (uint8_t)*name;
    uint32_t top = h & 0xf0000000;
    h = (h ^ top >> 24) & ~top;
  }
  return h;
}

/* A definition of `name` that callers of the wanted version would get. */
static bool acceptable(const struct object *o, uint32_t index, const char *name, bool hidden_too)
{
  const ElfW(Sym) *s = &o->symbols[index];
  unsigned type = s->st_info & 15, binding = s->st_info >> 4;
  if (s->st_shndx == SHN_UNDEF || s->st_value == 0 || binding == STB_LOCAL)
    return false;
  if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
    return false;
  if (o->versions && (o->versions[index] & 0x8000) && !hidden_too)
    return false;
  return same(o->strings + s->st_name, name);
}

static uint32_t find_gnu(const struct object *o, const char *name, uint32_t hash, bool hidden_too)
{
  const uint32_t *table = o->gnu_hash;
  uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
  const ElfW(Addr) *bloom = (const ElfW(Addr) *)(table + 4);
  const unsigned bits = 8 * sizeof *bloom;
  ElfW(Addr) word = bloom[hash / bits & (words - 1)];
  if (!(word >> hash % bits & word >> (hash >> shift) % bits & 1) || buckets == 0)
    return 0;
  const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first)
    return 0;
  for (;; index++) {
    uint32_t entry = chain[index - first];
    if ((entry | 1) == (hash | 1) && acceptable(o, index, name, hidden_too))
      return index;
    if (entry & 1)
      return 0;
  }
}

static uint32_t find_sysv(const struct object *o, const char *name, bool hidden_too)
{
  const uint32_t *table = o->sysv_hash, *bucket = table + 2, *chain = bucket + table[0];
  for (uint32_t index = bucket[sysv_hash_of(name) % table[0]]; index; index = chain[index])
    if (acceptable(o, index, name, hidden_too))
      return index;
  return 0;
}

static void *address_of(const struct object *o, uint32_t index)
{
  const ElfW(Sym) *s = &o->symbols[index];
  void *at = (void *)(o->base + s->st_value);
  if ((s->st_info & 15) != STT_GNU_IFUNC)
    return at;
#if defined(__aarch64__)
  const struct {
    unsigned long size, hwcap, hwcap2;
  } argument = {sizeof argument, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  const uint64_t has_argument = UINT64_C(1) << 62; /* _IFUNC_ARG_HWCAP of sys/ifunc.h */
  return ((void *(*)(uint64_t, const void *))(uintptr_t)at)(argument.hwcap | has_argument, &argument);
#else
  return ((void *(*)(void))(uintptr_t)at)();
#endif
}

static void *object_find(const struct object *o, const char *name, uint32_t hash, bool hidden_too)
{
  uint32_t index = o->gnu_hash ? find_gnu(o, name, hash, hidden_too) : find_sysv(o, name, hidden_too);
  return index ? address_of(o, index) : NULL;
}

static bool is_ours(const struct link_map *map)
{
  return map->l_ld == _DYNAMIC;
}

/* What a slot is bound to: memcpy's is memmove. */
static const char *name_bound(unsigned slot)
{
  return opgap_slot_name(slot == OPGAP_SLOT_memcpy ? OPGAP_SLOT_memmove : slot);
}

/* Binds the unbound ones of slots [first, end) from the objects after this library. */
static void bind_next(unsigned first, unsigned end, const uint32_t *hashes, bool hidden_too)
{
  bool after = false;
  for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
    struct object o;
    if (is_ours(map))
      after = true;
    else if (after && object_open(&o, map->l_addr, map->l_ld))
      for (unsigned i = first; i < end; i++)
        if (opgap_real.slot[i] == NULL)
          opgap_real.slot[i] = object_find(&o, name_bound(i), hashes[i - first], hidden_too);
  }
}

bool opgap_realloc_is_ours;

/* Does an object before this library, the program itself among them, define realloc? */
static bool realloc_precedes(void)
{
  uint32_t hash = gnu_hash_of("realloc");
  for (const struct link_map *map = _r_debug.r_map; map && !is_ours(map); map = map->l_next) {
    struct object o;
    if (object_open(&o, map->l_addr, map->l_ld) && object_find(&o, "realloc", hash, false))
      return true;
  }
  return false;
}

static bool is_relocated(void)
{
  return &_r_debug != NULL && _r_debug.r_map != NULL;
}

static void bind_range(unsigned first, unsigned end)
{
  uint32_t hashes[OPGAP_SLOT_COUNT];
  for (unsigned i = first; i < end; i++)
    hashes[i - first] = gnu_hash_of(name_bound(i));
  bind_next(first, end, hashes, false);
  bind_next(first, end, hashes, true);
}

bool opgap_bind_all(void)
{
  enum { NOT_YET, RUNNING, DONE };
  static _Atomic int state;
  int before = atomic_load_explicit(&state, memory_order_acquire);
  if (before != NOT_YET || !is_relocated())
    return before == DONE;
  if (!atomic_compare_exchange_strong_explicit(&state, &before, RUNNING, memory_order_acquire, memory_order_acquire))
    return before == DONE;
  bind_range(0, OPGAP_SLOT_COUNT);
  opgap_realloc_is_ours = !realloc_precedes();
  atomic_store_explicit(&state, DONE, memory_order_release);
  return true;
}

/* ---- after start-up: objects come and go, so the loader's own walk, which locks them ---- */

struct late {
  const char *name;
  uint32_t hash;
  bool hidden_too;
  void *found;
  const char *file; /* of the object that has it */
};

static int late_object(struct dl_phdr_info *info, size_t size, void *context)
{
  (void)size;
  struct late *late = context;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
      continue;
    const ElfW(Dyn) *dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    struct object o;
    if (dynamic != _DYNAMIC && object_open(&o, info->dlpi_addr, dynamic))
      late->found = object_find(&o, late->name, late->hash, late->hidden_too);
  }
  late->file = info->dlpi_name;
  return late->found != NULL;
}

void *opgap_find_symbol(const char *name)
{
  struct late late = {.name = name, .hash = gnu_hash_of(name)};
  dl_iterate_phdr(late_object, &late);
  if (late.found == NULL) {
    late.hidden_too = true;
    dl_iterate_phdr(late_object, &late);
  }
  /* The pointer is kept for ever, so must be the object, even if the program closes it. */
  if (late.found && late.file && late.file[0] && opgap_real.dlopen)
    opgap_real.dlopen(late.file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return late.found;
}

bool opgap_bind_slot(unsigned slot)
{
  if (!opgap_bind_all()) {
    if (!is_relocated())
      return false;
    bind_range(slot, slot + 1);
  }
  if (opgap_real.slot[slot] == NULL) {
    int error = errno;
    opgap_real.slot[slot] = opgap_find_symbol(opgap_slot_name(slot));
    errno = error;
  }
  return opgap_real.slot[slot] != NULL;
}

void *opgap_find_version(void *_Atomic *slot, const char *name, const char *version)
{
  void *found = atomic_load_explicit(slot, memory_order_relaxed);
  if (opgap_likely(found != NULL) || !OPGAP_BOUND(dlvsym))
    return found;
  int error = errno;
  found = opgap_real.dlvsym(RTLD_NEXT, name, version);
  atomic_store_explicit(slot, found, memory_order_relaxed);
  errno = error;
  return found;
}

int opgap_slot_of(const char *name)
{
  for (unsigned i = 0; i < OPGAP_SLOT_COUNT; i++)
    if (same(opgap_slot_name(i), name))
      return (int)i;
  return -1;
}

bool opgap_is_global_handle(const void *handle)
{
  return handle == NULL || handle == (void *)-1 || handle == _r_debug.r_map;
}

void *opgap_libc_handle(void)
{
  static void *libc; /* a link map that was not opened has no scope to search */
  if (libc == NULL && opgap_real.dlopen)
    libc = opgap_real.dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return libc;
}

void *opgap_own_handle(void)
{
  static void *own;
  if (own == NULL && opgap_real.dlopen)
    own = opgap_real.dlopen(opgap_own_path(), RTLD_LAZY | RTLD_NOLOAD);
  return own;
}

const char *opgap_own_path(void)
{
  for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next)
    if (is_ours(map))
      return map->l_name;
  return "";
}
