/* Reading several traces and summaries, for commands that take more than one. */
#ifndef OPGAP_TOOLS_PARTS_H
#define OPGAP_TOOLS_PARTS_H

#include "analysis/analysis.h"
#include "analysis/parts.h"

/* Reads each path, a trace or a summary file, on all CPUs and adds its parts in the order of the paths.  With --process
 * a trace without such a process is left out; so is, with a notice, what is there twice.  False with one line in
 * error[size]; then parts is empty. options->progress must be NULL when there are several paths. */
bool opgap_read_parts(const char *const *paths, size_t count, const struct opgap_analysis_options *options,
                      struct opgap_parts *parts, char *error, size_t size);

#endif
