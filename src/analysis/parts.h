/* Summaries of parts of a run - a rank, a host, a job - that can be written, read back and merged.
 *
 * A summary file holds the summaries of one or more parts.  Merging is done over all parts at once, so it does not
 * matter how they were gathered: report on several traces is the merge of their summaries.
 *
 *   counts, sums    exact; a time that is an estimate is estimated for each part
 *   steps, their percentiles, the breakdown and the verdict: of the part with the lowest rank, as within one trace
 *   ranks           compared over all parts
 *   peaks           the largest of the parts
 *   GPU             a device that several parts used: its times are added up
 *
 * Threads   one at a time.  Ownership: the caller frees what it gets.
 */
#ifndef OPGAP_ANALYSIS_PARTS_H
#define OPGAP_ANALYSIS_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analysis/pool.h"
#include "analysis/summary.h"

#define OPGAP_PARTS_SCHEMA 1

struct opgap_parts {
  VEC(struct opgap_summary *) v;
};
void opgap_parts_free(struct opgap_parts *parts);

/* False when it cannot be written (errno). */
bool opgap_parts_write(const struct opgap_parts *parts, FILE *file);
/* Does this regular file begin as one that opgap_parts_write wrote? */
bool opgap_parts_is_file(const char *path);
/* Adds the parts of a file; false with one line in error[size].  Nothing in the file is trusted. */
bool opgap_parts_read(struct opgap_parts *parts, const char *path, char *error, size_t size);
bool opgap_parts_parse(struct opgap_parts *parts, const char *text, size_t length, const char *path, char *error,
                       size_t size);
/* One process, whichever file it is read from: host, boot, pid, start.  Parts of one boot keep the exact start; a
 * part without a boot has the time of day.  The text belongs to the pool. */
const char *opgap_parts_process_key(struct opgap_pool *pool, const struct opgap_summary *part,
                                    const struct opgap_sum_process *process);
/* Nothing is counted twice: a part whose processes are all in other parts is freed and left out, with a notice in the
 * one that is used instead: of two with the same processes the one with more records, such as a trace beside an earlier
 * snapshot of it.  False with one line in error[size] when only some of them are; then parts is unchanged. */
bool opgap_parts_leave_out_repeats(struct opgap_parts *parts, char *error, size_t size);
/* One summary of at least one part; the parts are not needed any more after it.  It lists the longest gaps of those
 * that the parts list, at most gaps_listed for each table (0: 50). */
struct opgap_summary *opgap_parts_merge(const struct opgap_parts *parts, size_t gaps_listed);

#endif
