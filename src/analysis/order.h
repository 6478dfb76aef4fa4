/* The orders of a summary's tables, for qsort: one each, whether the rows are of one trace or of merged parts.
 *
 * What costs most comes first; an unknown figure counts as 0; rows with equal figures are ordered by what names them,
 * so that a report does not depend on the order in which parts were read.
 */
#ifndef OPGAP_ANALYSIS_ORDER_H
#define OPGAP_ANALYSIS_ORDER_H

#include <stddef.h>
#include <stdlib.h>

/* qsort, also of no rows at all, where the pointer may be NULL. */
static inline void order_rows(void *rows, size_t count, size_t size, int (*order)(const void *left, const void *right))
{
  if (count > 1)
    qsort(rows, count, size, order);
}

int order_processes(const void *left, const void *right);   /* by start */
int order_threads(const void *left, const void *right);     /* by CPU wanted: run and queue */
int order_ops(const void *left, const void *right);         /* by self CPU, then self GPU */
int order_calls(const void *left, const void *right);       /* by time */
int order_files(const void *left, const void *right);       /* by time */
int order_locks(const void *left, const void *right);       /* by wait */
int order_kernels(const void *left, const void *right);     /* by total time */
int order_copies(const void *left, const void *right);      /* by bytes, then time */
int order_findings(const void *left, const void *right);    /* by kind, then time */
int order_lived(const void *left, const void *right);       /* by bytes at the peak */
int order_failures(const void *left, const void *right);    /* by time */
int order_causes(const void *left, const void *right);      /* by time */
int order_thread_gaps(const void *left, const void *right); /* by duration, then start */
int order_gpu_gaps(const void *left, const void *right);    /* by duration, then start */

#endif
