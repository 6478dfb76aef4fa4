/* Comparison of ranks, whether they come from one trace or from the summaries of several. */
#ifndef OPGAP_ANALYSIS_RANKS_H
#define OPGAP_ANALYSIS_RANKS_H

#include "analysis/summary.h"

/* Sorts the rows, matches their collectives and fills in the result.  Times of all rows count from one moment. */
void opgap_ranks_compare(struct opgap_sum_ranks *ranks);

/* "rank 3", or, where that is not known, "pid 4711" */
void opgap_rank_name(char *text, size_t size, const struct opgap_sum_rank *rank);
/* Communication that is mostly waiting for one rank is no matter of the network: the verdict says so (verdict.c). */
void opgap_verdict_straggler(struct opgap_summary *summary);

#endif
