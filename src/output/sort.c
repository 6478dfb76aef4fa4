/* The columns by which ops can be ordered. */
#include <stdlib.h>
#include <string.h>

#include "output/output.h"

static const struct sort_name {
  const char *name;
  enum opgap_sort sort;
} names[] = {
    {"self_cpu", OPGAP_SORT_SELF_CPU},
    {"self_cpu_ns", OPGAP_SORT_SELF_CPU},
    {"self_cpu_time_total", OPGAP_SORT_SELF_CPU},
    {"self cpu", OPGAP_SORT_SELF_CPU},
    {"total_cpu", OPGAP_SORT_TOTAL_CPU},
    {"total_cpu_ns", OPGAP_SORT_TOTAL_CPU},
    {"cpu_time_total", OPGAP_SORT_TOTAL_CPU},
    {"cpu total", OPGAP_SORT_TOTAL_CPU},
    {"avg", OPGAP_SORT_AVERAGE},
    {"cpu_time", OPGAP_SORT_AVERAGE},
    {"cpu time avg", OPGAP_SORT_AVERAGE},
    {"calls", OPGAP_SORT_CALLS},
    {"count", OPGAP_SORT_CALLS},
    {"# of calls", OPGAP_SORT_CALLS},
    {"blocked", OPGAP_SORT_BLOCKED},
    {"blocked_ns", OPGAP_SORT_BLOCKED},
    {"allocs", OPGAP_SORT_ALLOCS},
    {"alloc_count", OPGAP_SORT_ALLOCS},
    {"alloc_bytes", OPGAP_SORT_ALLOC_BYTES},
    {"alloc bytes", OPGAP_SORT_ALLOC_BYTES},
    {"self_gpu", OPGAP_SORT_SELF_GPU},
    {"self_gpu_ns", OPGAP_SORT_SELF_GPU},
    {"self_cuda_time_total", OPGAP_SORT_SELF_GPU},
    {"self cuda", OPGAP_SORT_SELF_GPU},
    {"total_gpu", OPGAP_SORT_TOTAL_GPU},
    {"total_gpu_ns", OPGAP_SORT_TOTAL_GPU},
    {"cuda_time_total", OPGAP_SORT_TOTAL_GPU},
    {"cuda total", OPGAP_SORT_TOTAL_GPU},
    {"name", OPGAP_SORT_NAME},
};

enum opgap_sort opgap_sort_parse(const char *name)
{
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcasecmp(names[i].name, name) == 0)
      return names[i].sort;
  return OPGAP_SORT_COUNT;
}

const char *opgap_sort_names(void)
{
  return "self_cpu, total_cpu, avg, calls, blocked, allocs, alloc_bytes, self_gpu, total_gpu, name";
}

static uint64_t known(uint64_t figure)
{
  return figure == OPGAP_UNKNOWN ? 0 : figure;
}

static uint64_t key(const struct opgap_sum_op *op, enum opgap_sort sort)
{
  switch (sort) {
  case OPGAP_SORT_TOTAL_CPU:
    return known(op->total_cpu_ns);
  case OPGAP_SORT_AVERAGE:
    return op->calls ? known(op->total_cpu_ns) / op->calls : 0;
  case OPGAP_SORT_CALLS:
    return op->calls;
  case OPGAP_SORT_BLOCKED:
    return known(op->blocked_ns);
  case OPGAP_SORT_ALLOCS:
    return known(op->alloc_count);
  case OPGAP_SORT_ALLOC_BYTES:
    return known(op->alloc_bytes);
  case OPGAP_SORT_SELF_GPU:
    return known(op->self_gpu_ns);
  case OPGAP_SORT_TOTAL_GPU:
    return known(op->total_gpu_ns);
  default:
    return known(op->self_cpu_ns);
  }
}

static int compare(const void *left, const void *right, void *sort)
{
  const struct opgap_sum_op *l = left, *r = right;
  enum opgap_sort by = *(const enum opgap_sort *)sort;
  uint64_t lk = by == OPGAP_SORT_NAME ? 0 : key(l, by), rk = by == OPGAP_SORT_NAME ? 0 : key(r, by);
  if (lk != rk)
    return lk < rk ? 1 : -1;
  int order = strcmp(l->name, r->name);
  return order ? order : l->kind != r->kind ? (int)l->kind - (int)r->kind : (int)l->role - (int)r->role;
}

void opgap_sort_ops(struct opgap_sum_op *ops, size_t count, enum opgap_sort sort)
{
  if (count > 1)
    qsort_r(ops, count, sizeof *ops, compare, &sort);
}
