/* Records that another thread reads ahead, and work that several threads divide.
 *
 * Threads   ahead_begin, ahead_next and ahead_end belong to one thread.  With two threads the other one alone calls
 *           `next`, from ahead_begin to ahead_end: it copies what that gives into a queue of fixed size (two
 *           megabytes), in the same order as with one thread, where ahead_next calls it itself.
 */
#ifndef OPGAP_ANALYSIS_AHEAD_H
#define OPGAP_ANALYSIS_AHEAD_H

#include "analysis/source.h"

/* CPUs that this process may use. */
unsigned opgap_cpus(void);
/* How many threads are worth having for so many records: `asked`, or, where that is 0, as many as there are CPUs. */
unsigned opgap_threads_for(unsigned asked, uint64_t records);

/* The next records, which lie side by side and are of one input, whose number is stored; they live until the next call.
 * Returns how many; 0 at the end. */
typedef size_t ahead_source(void *context, size_t *input, const struct opgap_record **records);

struct ahead;
/* threads: more than 1: another one reads; where it cannot be started, this one does. */
struct ahead *ahead_begin(ahead_source *next, void *context, unsigned threads);
size_t ahead_next(struct ahead *ahead, size_t *input, const struct opgap_record **records);
/* At any time; then `next` is not being called any more. */
void ahead_end(struct ahead *ahead);

/* All streams of a process, one after the other; the input is the stream.  With threads as for opgap_threads_for. */
struct ahead_streams;
struct ahead_streams *ahead_streams_begin(const struct opgap_source *source, unsigned process);
size_t ahead_streams_next(struct ahead_streams *streams, size_t *stream, const struct opgap_record **records);
void ahead_streams_end(struct ahead_streams *streams);

/* Calls work(context, i) once for each i below count, on up to `threads` threads of which the caller is one. */
void ahead_divide(unsigned threads, size_t count, void (*work)(void *context, size_t i), void *context);

#endif
