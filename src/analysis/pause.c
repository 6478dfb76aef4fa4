/* Time in which no process of a trace ran. */
#include "analysis/internal.h"

#include <stdlib.h>

#define LEAST_PAUSE_NS                                                                                                 \
  60000000000u /* programs of one job may follow one another by this; with half of all time, too                       \
                */

static int by_start(const void *left, const void *right)
{
  const struct opgap_sum_process *l = *(const struct opgap_sum_process *const *)left,
                                 *r = *(const struct opgap_sum_process *const *)right;
  return l->start_ns != r->start_ns ? (l->start_ns < r->start_ns ? -1 : 1)
                                    : (l->index > r->index) - (l->index < r->index);
}

const char *opgap_longest_pause(struct opgap_pool *pool, const struct opgap_summary *s)
{
  const struct opgap_sum_process **order = opgap_xcalloc(s->process_count + 1, sizeof *order), *before = NULL,
                                 *after = NULL, *latest = NULL;
  uint64_t pause = 0;
  for (size_t i = 0; i < s->process_count; i++)
    order[i] = &s->processes[i];
  qsort(order, s->process_count, sizeof *order, by_start);
  for (size_t i = 0; i < s->process_count; i++) {
    if (latest != NULL && order[i]->start_ns > latest->end_ns && order[i]->start_ns - latest->end_ns > pause) {
      pause = order[i]->start_ns - latest->end_ns;
      before = latest;
      after = order[i];
    }
    if (latest == NULL || order[i]->end_ns > latest->end_ns)
      latest = order[i];
  }
  free(order);
  if (pause < LEAST_PAUSE_NS || pause < s->duration_ns / 2)
    return NULL;
  return opgap_pool_printf(
      pool,
      "nothing ran for %.3f s of these %.3f s, between the end of process %d on %s and the start of "
      "process %d on %s: several runs in one folder, or hosts with different times of day; report "
      "them one by one (opgap report FILE.opgt)",
      (double)pause / 1e9, (double)s->duration_ns / 1e9, before->pid, before->host, after->pid, after->host);
}
