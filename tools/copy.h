/* Copies of traces: of a running job (opgap snapshot), or to be read on another machine (opgap info --archive).
 *
 * Errors   errno.  Threads: none.
 */
#ifndef OPGAP_TOOLS_COPY_H
#define OPGAP_TOOLS_COPY_H

#include <stdbool.h>

#include "analysis/source.h"
#include "format/reader.h"

/* Writes every process of a trace into a folder, with what its ring held when the trace was opened.  *running: how many
 * of the processes still run. */
bool opgap_copy_trace(const struct opgap_trace *trace, const char *folder, unsigned *running);
/* Puts what names and lines of the recorded stacks are looked up in beside a copy (analysis/symbols.h): the modules
 * that they go through, and debug information that lies apart.  What is not there any more, or is another build, is
 * named on stderr and counted.  False with errno: the folder cannot be written. */
struct opgap_copied {
  unsigned modules, debug_files, left_out;
};
bool opgap_copy_modules(const struct opgap_source *source, const char *folder, struct opgap_copied *copied);
/* Removes a copy that is not whole, lest it be taken for one. */
void opgap_copy_remove(const char *folder);

#endif
