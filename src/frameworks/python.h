/* Where in the Python program an op comes from: the innermost frame that is the user's own code.
 *
 * Purpose   For OPGAP_STACKS=python.  Gives "FILE:LINE FUNCTION" as an interned name.
 * Threads   any thread, with or without the GIL: a thread's frames change only by that thread, and a frame keeps its
 *           code object alive.  The cache belongs to the calling thread.
 * Context   hot path: plain loads; no lock, no call into Python but PyGILState_GetThisThreadState, no reference counts.
 *           The first call in a process finds and checks the interpreter's layout, which takes some system calls.
 */
#ifndef OPGAP_FRAMEWORKS_PYTHON_H
#define OPGAP_FRAMEWORKS_PYTHON_H

#include <stdint.h>

#define OPGAP_PYTHON_CODES 512u /* powers of two */
#define OPGAP_PYTHON_SITES 1024u

/* A code object as it was when first seen.  Addresses are used again; the rest tells when one was. */
struct opgap_python_code {
  const char *address;
  const void *line_table, *qualified_name;
  int32_t first_line;
  uint32_t users; /* the user's code, not a library's */
};
struct opgap_python_site {
  struct opgap_python_code code;
  uint32_t offset; /* of the instruction, in bytes */
  uint32_t name;   /* interned; 0: empty */
};
/* One thread's; zeroed memory is an empty one. */
struct opgap_python_cache {
  struct opgap_python_code codes[OPGAP_PYTHON_CODES];
  struct opgap_python_site sites[OPGAP_PYTHON_SITES];
};

/* The interned name of the site, or 0: no Python frame, or an interpreter that is not understood (said once). */
uint32_t opgap_python_where(struct opgap_python_cache *cache);

#endif
