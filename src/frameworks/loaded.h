/* Loaded objects and their symbols, without the loader: no lock beyond dl_iterate_phdr's, no reference count, no
 * load, no hook of our own on the way.
 *
 * Threads: any; nothing is kept.  Ownership: the object belongs to the program and must stay loaded while its symbols
 * are used.
 */
#ifndef OPGAP_FRAMEWORKS_LOADED_H
#define OPGAP_FRAMEWORKS_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opgap_loaded {
  uintptr_t base;             /* load bias */
  const void *symbols;        /* ElfW(Sym)[] */
  const char *strings;        /* string table */
  const uint32_t *gnu_hash;   /* DT_GNU_HASH */
  const ElfW(Phdr) * headers; /* program headers */
  unsigned header_count;
  char path[1024];
};

/* Number of objects loaded since the program began; it only grows. */
uint64_t opgap_loaded_count(void);
/* Finds the first loaded object whose file name begins with `prefix` ("libtorch_cpu.so"). */
bool opgap_loaded_find(const char *prefix, struct opgap_loaded *found);
/* Finds the first loaded object that defines this symbol. */
bool opgap_loaded_with(const char *symbol, struct opgap_loaded *found);
/* Address of a defined function or object, or NULL. */
void *opgap_loaded_symbol(const struct opgap_loaded *object, const char *name);

#endif
