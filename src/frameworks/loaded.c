/* See loaded.h.  Symbols are found through the object's own DT_GNU_HASH table, which every library that GNU ld, gold
 * or lld built in the last fifteen years has. */
#include "frameworks/loaded.h"

#include <elf.h>
#include <string.h>

#include "record/early.h"

OPGAP_EARLY_CODE static int read_count(struct dl_phdr_info *info, size_t size, void *count)
{
  (void)size;
  *(uint64_t *)count = info->dlpi_adds;
  return 1; /* the same in every entry */
}

OPGAP_EARLY_CODE uint64_t opgap_loaded_count(void)
{
  uint64_t count = 0;
  dl_iterate_phdr(read_count, &count);
  return count;
}

/* The loader of glibc relocates most pointers of the dynamic section, other loaders leave them relative. */
static const void *dynamic_pointer(uintptr_t base, ElfW(Addr) value)
{
  return (const void *)(value < base ? base + value : value);
}

static bool read_dynamic(struct opgap_loaded *object, const ElfW(Dyn) * entry)
{
  for (; entry->d_tag != DT_NULL; entry++) {
    const void *at = dynamic_pointer(object->base, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB)
      object->symbols = at;
    else if (entry->d_tag == DT_STRTAB)
      object->strings = at;
    else if (entry->d_tag == DT_GNU_HASH)
      object->gnu_hash = at;
  }
  return object->symbols && object->strings && object->gnu_hash;
}

/* Describes an entry of dl_iterate_phdr; false when it has no usable symbol table. */
static bool describe(const struct dl_phdr_info *info, struct opgap_loaded *object)
{
  *object =
      (struct opgap_loaded){.base = info->dlpi_addr, .headers = info->dlpi_phdr, .header_count = info->dlpi_phnum};
  strncat(object->path, info->dlpi_name, sizeof object->path - 1);
  for (unsigned i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      return read_dynamic(object, (const void *)(object->base + info->dlpi_phdr[i].p_vaddr));
  return false;
}

struct search {
  const char *wanted; /* prefix of a file name, or a symbol */
  struct opgap_loaded *found;
};

/* Without functions of libc: every program that starts asks, and to bind one takes 700 instructions. */
OPGAP_EARLY_CODE static bool file_begins_with(const char *path, const char *prefix)
{
  const char *file = path;
  for (const char *at = path; *at; at++)
    if (*at == '/')
      file = at + 1;
  while (*prefix && *file == *prefix)
    file++, prefix++;
  return *prefix == 0;
}

OPGAP_EARLY_CODE static int match_file(struct dl_phdr_info *info, size_t size, void *argument)
{
  (void)size;
  const struct search *search = argument;
  return file_begins_with(info->dlpi_name, search->wanted) && describe(info, search->found);
}

static int match_symbol(struct dl_phdr_info *info, size_t size, void *argument)
{
  (void)size;
  const struct search *search = argument;
  return describe(info, search->found) && opgap_loaded_symbol(search->found, search->wanted) != NULL;
}

OPGAP_EARLY_CODE bool opgap_loaded_find(const char *prefix, struct opgap_loaded *found)
{
  struct search search = {prefix, found};
  return dl_iterate_phdr(match_file, &search) == 1;
}

bool opgap_loaded_with(const char *symbol, struct opgap_loaded *found)
{
  struct search search = {symbol, found};
  return dl_iterate_phdr(match_symbol, &search) == 1;
}

static uint32_t gnu_hash(const char *name)
{
  uint32_t hash = 5381;
  for (; *name; name++)
    hash = hash * 33 + (unsigned char)*name;
  return hash;
}

void *opgap_loaded_symbol(const struct opgap_loaded *object, const char *name)
{
  uint32_t bucket_count = object->gnu_hash[0], first_symbol = object->gnu_hash[1], bloom_words = object->gnu_hash[2];
  const uint32_t *buckets = object->gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t *chain = buckets + bucket_count;
  const ElfW(Sym) *symbols = object->symbols;
  uint32_t hash = gnu_hash(name);
  uint32_t index = bucket_count ? buckets[hash % bucket_count] : 0;
  if (index < first_symbol)
    return NULL;
  for (;; index++) {
    uint32_t entry = chain[index - first_symbol];
    const ElfW(Sym) *symbol = &symbols[index];
    if ((entry | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
        strcmp(object->strings + symbol->st_name, name) == 0)
      return (void *)(object->base + symbol->st_value);
    if (entry & 1) /* the last of its bucket */
      return NULL;
  }
}
