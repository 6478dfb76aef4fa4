/* One look at a running job, for opgap top: what happened since the look before.
 *
 * Threads: one at a time.  Ownership: the strings are the caller's; nothing is kept. */
#ifndef OPGAP_OUTPUT_LIVE_H
#define OPGAP_OUTPUT_LIVE_H

#include "output/output.h"

/* What the summary of the last interval alone does not know. */
struct opgap_live {
  uint64_t interval_ns; /* that the summary covers */
  bool running;
  uint64_t steps;                 /* that ended in the interval */
  uint64_t all_steps;             /* since the job is watched */
  uint64_t median_ns;             /* of the steps of the interval; OPGAP_UNKNOWN */
  uint64_t last_step_ns;          /* duration of the last step seen; OPGAP_UNKNOWN */
  uint64_t since_step_ns;         /* how long ago it ended; OPGAP_UNKNOWN before the first */
  uint64_t new_records, new_lost; /* in the interval; OPGAP_UNKNOWN at the first look */
};

/* o->limit: rows of ops and of processes; o->width as for the report. */
void opgap_output_live(const struct opgap_summary *s, const struct opgap_live *live,
                       const struct opgap_output_options *o, FILE *file);

#endif
