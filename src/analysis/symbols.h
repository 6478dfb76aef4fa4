/* Names and source lines of code addresses, offline: ELF symbols and DWARF by elfutils' libdw.
 *
 * Debug information is looked for in the file itself, by .gnu_debuglink and by build-id (/usr/lib/debug).  A file whose
 * build-id is not the recorded one is another build: its names would be wrong, and are not used.  An archived trace
 * (opgap info --archive) has the files with it, under <trace>/.build-id/ as in /usr/lib/debug: ab/cdef for the module
 * of build-id abcdef, ab/cdef.debug for its debug information.
 *
 * Threads   one at a time.  Ownership: strings belong to the pool.  Built without libdw every look-up finds nothing.
 */
#ifndef OPGAP_ANALYSIS_SYMBOLS_H
#define OPGAP_ANALYSIS_SYMBOLS_H

#include "analysis/pool.h"

#define OPGAP_ARCHIVE_FOLDER ".build-id"

struct opgap_symbols;

/* A function that holds an address; inlined ones come before the one that they were inlined into. */
struct opgap_symbol {
  const char *function; /* demangled */
  const char *file;     /* "": unknown */
  unsigned line;        /* 0: unknown */
};

/* trace: a trace folder or a file in it; what an archive of it holds (OPGAP_ARCHIVE_FOLDER) is used before the files of
 * this machine's /usr/lib/debug. */
struct opgap_symbols *opgap_symbols_new(struct opgap_pool *pool, const char *trace);
void opgap_symbols_free(struct opgap_symbols *symbols);
/* The functions at an address of a module as it is in the file (not relocated); innermost first.  build_id: as hex
 * digits, "" to trust the file.  Returns their number, 0: no name is known. */
unsigned opgap_symbols_find(struct opgap_symbols *symbols, const char *module, const char *build_id, uint64_t address,
                            struct opgap_symbol *found, unsigned room);
/* What static data of a module is at an address as it is in the file: "NAME in FILE", "NAME+OFFSET in FILE",
 * "FILE+0xOFFSET" where no symbol says; NULL: the address is not the module's. */
const char *opgap_symbols_data(struct opgap_symbols *symbols, const char *module, const char *build_id,
                               uint64_t address);
/* Whether it is the code through which the kernel calls signal handlers. */
bool opgap_symbols_is_signal(struct opgap_symbols *symbols, const char *module, const char *build_id, uint64_t address);
/* The files that names and lines of a module come from: itself and, where debug information lies apart, that file (""
 * else).  False: the module is not there, or is another build. */
bool opgap_symbols_files(struct opgap_symbols *symbols, const char *module, const char *build_id, const char **file,
                         const char **debug);
/* Modules whose file is another build than the recorded one. */
unsigned opgap_symbols_changed(const struct opgap_symbols *symbols);

#endif
