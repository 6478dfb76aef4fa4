/* All streams of a source as one sequence of records, by the time they ended.
 *
 * Order     Within a group of streams it is exact.  Of different groups, such as the ranks of a job, it is exact to
 *           MERGE_SLICE_NS: the records of a group that end in one slice of time come one after the other.  So what
 *           belongs to a group is in the caches while its records are looked at, however many groups there are.
 * Threads   merge_begin, merge_next and merge_end belong to one thread.  With two threads another one reads and merges
 *           ahead: it owns the cursors, and hands over batches of copied records in a queue of fixed size.  Cursors are
 *           read in the same order either way, so the sequence is the same to the last bit.
 * Memory    what the cursors of streams hold that run at the same time, and the queue: two megabytes, however many
 *           streams there are.
 */
#ifndef OPGAP_ANALYSIS_MERGE_H
#define OPGAP_ANALYSIS_MERGE_H

#include "analysis/source.h"

struct merge;

#define MERGE_SLICE_NS 20000000u

struct merge_input {
  unsigned process, stream;
  unsigned group;    /* any number */
  uint64_t first_ns; /* none of its records ends earlier: its cursor is opened when this is next; 0: not known */
};

/* threads: 1 or 2; where a second one cannot be started, one does all. */
struct merge *merge_begin(const struct opgap_source *source, const struct merge_input *inputs, size_t count,
                          unsigned threads);
/* The next records, which lie side by side and are of one input, whose index is stored.  They live until the next call.
 * Returns how many; 0 at the end. */
size_t merge_next(struct merge *merge, size_t *input, const struct opgap_record **records);
/* Only after merge_next returned 0. */
void merge_end(struct merge *merge);

#endif
