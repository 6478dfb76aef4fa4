/* Turns the records of a trace into a summary.
 *
 * Threads   one at a time per source.  With two, one of them reads cursors while the other asks for names and reads
 *           other cursors: a trace allows that (format/reader.h).
 * Memory    bounded by the number of processes, threads, names, files, locks and steps, plus fixed windows (see
 *           internal.h and merge.h), never by the number of records.
 */
#ifndef OPGAP_ANALYSIS_ANALYSIS_H
#define OPGAP_ANALYSIS_ANALYSIS_H

#include "analysis/source.h"
#include "analysis/summary.h"

#define OPGAP_GAPS_LISTED 50u

struct opgap_analysis_options {
  uint64_t gpu_min_gap_ns, thread_min_gap_ns; /* 0: the defaults, 20 us and 1 ms */
  const char *process;                        /* only these: a pid or a part of a role label; NULL: all */
  bool steps_given;
  uint64_t first_step, last_step; /* --steps A:B, counted from 0, both included */
  uint64_t from_ns;   /* CLOCK_MONOTONIC: only what ended later is summed, for a trace that is followed; 0: all */
  bool flame;         /* make the call tree */
  size_t gaps_listed; /* longest gaps kept for each table; 0: OPGAP_GAPS_LISTED */
  unsigned threads;   /* that read and analyse: 1 or 2; 0: 2 where that is worth it.  The summary is the same */
  void (*progress)(void *context, uint64_t done, uint64_t total); /* records; may be NULL */
  void *progress_context;
};

/* Returns a summary, or NULL with one line in error[size] (no such process, no such steps). */
struct opgap_summary *opgap_analyse(const struct opgap_source *source, const struct opgap_analysis_options *options,
                                    char *error, size_t size);

#endif
