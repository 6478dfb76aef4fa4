/* What happened when: busy time and causes of gaps in equal parts of the trace, whose length is known before the first
 * record (what comes after that is in the last part). */
#include "analysis/internal.h"

#include <string.h>

static void add(const struct analysis *a, uint64_t *buckets, size_t stride, uint64_t start, uint64_t end, int sign)
{
  uint64_t at = start > a->origin_ns ? start : a->origin_ns;
  while (at < end) {
    uint64_t index = (at - a->origin_ns) / a->bucket_ns, until = end;
    if (index >= OPGAP_OVER_TIME_BUCKETS - 1)
      index = OPGAP_OVER_TIME_BUCKETS - 1;
    else if (a->origin_ns + (index + 1) * a->bucket_ns < end)
      until = a->origin_ns + (index + 1) * a->bucket_ns;
    buckets[index * stride] += (uint64_t)sign * (until - at);
    at = until;
  }
}

void over_time_add(const struct analysis *a, uint64_t *buckets, size_t stride, uint64_t start, uint64_t end)
{
  add(a, buckets, stride, start, end, 1);
}

/* The causes are laid one after the other, as breakdown.c does. */
void over_time_gap(const struct analysis *a, struct gap_table *table, uint64_t start, const struct causes *causes,
                   int sign)
{
  if (table->over_time == NULL)
    table->over_time = opgap_xcalloc(OPGAP_OVER_TIME_BUCKETS, sizeof *table->over_time);
  for (unsigned i = 0; i < causes->count; i++) {
    const struct cause_row *row = &causes->at[i];
    add(a, &table->over_time[0][row->key.cause], OPGAP_CAUSE_COUNT, start, start + row->ns, sign);
    start += row->ns;
  }
}

static void add_main(const struct analysis *a, const struct thread *t, uint64_t **buckets, uint64_t start, uint64_t end)
{
  if (!t->watched)
    return;
  if (*buckets == NULL)
    *buckets = opgap_xcalloc(OPGAP_OVER_TIME_BUCKETS, sizeof **buckets);
  over_time_add(a, *buckets, 1, start, end);
}

void over_time_blocked(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  add_main(a, t, &a->processes[t->process].blocked_over_time, start, end);
}

void over_time_next(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  add_main(a, t, &a->processes[t->process].next_over_time, start, end);
}

static void finish_processes(struct analysis *a, struct opgap_sum_over_time *sum)
{
  sum->processes = opgap_pool_alloc(a->pool, a->process_count * sizeof *sum->processes);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct process *p = &a->processes[i];
    if (!p->included)
      continue;
    struct opgap_sum_process_over_time *row = &sum->processes[sum->process_count++];
    row->index = i;
    row->pid = p->info->pid;
    for (size_t b = 0; b < OPGAP_OVER_TIME_BUCKETS; b++) {
      /* a call inside a call of the same thread must not count twice */
      uint64_t blocked = p->blocked_over_time ? p->blocked_over_time[b] : 0;
      row->blocked_ns[b] = blocked < a->bucket_ns ? blocked : a->bucket_ns;
      row->next_ns[b] = p->next_over_time ? p->next_over_time[b] : 0;
    }
  }
}

static void finish_threads(struct analysis *a, struct opgap_sum_over_time *sum)
{
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct gap_table *table = &a->thread_gaps[i];
    if (table->over_time == NULL || !gaps_of(a, i))
      continue;
    if (sum->thread_cause_ns == NULL)
      sum->thread_cause_ns = opgap_pool_alloc(a->pool, OPGAP_OVER_TIME_BUCKETS * sizeof *sum->thread_cause_ns);
    for (size_t b = 0; b < OPGAP_OVER_TIME_BUCKETS; b++)
      for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
        sum->thread_cause_ns[b][c] += table->over_time[b][c];
  }
}

void over_time_finish(struct analysis *a)
{
  struct opgap_sum_over_time *sum = &a->summary->over_time;
  sum->start_ns = a->origin_ns - a->start_ns;
  sum->bucket_ns = a->bucket_ns;
  sum->device_count = gpu_device_count(a);
  sum->devices = opgap_pool_alloc(a->pool, sum->device_count * sizeof *sum->devices);
  for (size_t i = 0; i < sum->device_count; i++) {
    struct opgap_sum_device_over_time *device = &sum->devices[i];
    const struct gap_table *table = gpu_gap_table(a, i, &device->device);
    const uint64_t *busy = gpu_busy_over_time(a, i);
    if (busy != NULL)
      memcpy(device->busy_ns, busy, sizeof device->busy_ns);
    if (table->over_time != NULL)
      memcpy(device->cause_ns, table->over_time, sizeof device->cause_ns);
  }
  finish_threads(a, sum);
  finish_processes(a, sum);
}
