#include "analysis/order.h"

#include <stdint.h>
#include <string.h>

#include "analysis/summary.h"

static uint64_t known(uint64_t figure)
{
  return figure == OPGAP_UNKNOWN ? 0 : figure;
}

static int smaller_first(uint64_t left, uint64_t right)
{
  return left < right ? -1 : left > right;
}

static int larger_first(uint64_t left, uint64_t right)
{
  return smaller_first(known(right), known(left));
}

static int by_number(int64_t left, int64_t right)
{
  return left < right ? -1 : left > right;
}

int order_processes(const void *left, const void *right)
{
  const struct opgap_sum_process *l = left, *r = right;
  int order = smaller_first(l->start_ns, r->start_ns);
  return order ? order : by_number(l->pid, r->pid);
}

static uint64_t cpu_wanted(const struct opgap_sum_thread *thread)
{
  return thread->run_ns == OPGAP_UNKNOWN ? 0 : thread->run_ns + thread->queue_ns;
}

int order_threads(const void *left, const void *right)
{
  const struct opgap_sum_thread *l = left, *r = right;
  int order = larger_first(cpu_wanted(l), cpu_wanted(r));
  order = order ? order : by_number(l->pid, r->pid);
  return order ? order : by_number(l->tid, r->tid);
}

int order_ops(const void *left, const void *right)
{
  const struct opgap_sum_op *l = left, *r = right;
  int order = larger_first(l->self_cpu_ns, r->self_cpu_ns);
  order = order ? order : larger_first(l->self_gpu_ns, r->self_gpu_ns);
  order = order ? order : strcmp(l->name, r->name);
  order = order ? order : (int)l->role - (int)r->role;
  return order ? order : (int)l->kind - (int)r->kind;
}

int order_calls(const void *left, const void *right)
{
  const struct opgap_sum_call *l = left, *r = right;
  int order = larger_first(l->time_ns, r->time_ns);
  order = order ? order : strcmp(l->name, r->name);
  return order ? order : (int)l->role - (int)r->role;
}

int order_files(const void *left, const void *right)
{
  const struct opgap_sum_file *l = left, *r = right;
  int order = larger_first(l->time_ns, r->time_ns);
  order = order ? order : strcmp(l->path, r->path);
  return order ? order : strcmp(l->operation, r->operation);
}

int order_locks(const void *left, const void *right)
{
  const struct opgap_sum_lock *l = left, *r = right;
  int order = larger_first(l->wait_ns, r->wait_ns);
  order = order ? order : by_number(l->pid, r->pid);
  order = order ? order : smaller_first(l->object, r->object);
  return order ? order : strcmp(l->symbol, r->symbol); /* locks on files have no address */
}

int order_kernels(const void *left, const void *right)
{
  const struct opgap_sum_kernel *l = left, *r = right;
  int order = larger_first(l->total_ns, r->total_ns);
  return order ? order : strcmp(l->name, r->name);
}

int order_copies(const void *left, const void *right)
{
  const struct opgap_sum_copy *l = left, *r = right;
  int order = larger_first(l->bytes, r->bytes);
  order = order ? order : larger_first(l->total_ns, r->total_ns);
  return order ? order : strcmp(l->direction, r->direction);
}

int order_findings(const void *left, const void *right)
{
  const struct opgap_sum_finding *l = left, *r = right;
  int order = (int)l->finding - (int)r->finding;
  order = order ? order : larger_first(l->ns, r->ns);
  order = order ? order : strcmp(l->op, r->op);
  return order ? order : strcmp(l->source_location, r->source_location);
}

int order_lived(const void *left, const void *right)
{
  const struct opgap_sum_lived *l = left, *r = right;
  int order = larger_first(l->bytes, r->bytes);
  order = order ? order : by_number(l->pid, r->pid);
  order = order ? order : by_number(l->tid, r->tid);
  order = order ? order : strcmp(l->op, r->op);
  return order ? order : strcmp(l->source_location, r->source_location);
}

int order_failures(const void *left, const void *right)
{
  const struct opgap_sum_failure *l = left, *r = right;
  int order = smaller_first(l->at_ns, r->at_ns);
  order = order ? order : by_number(l->pid, r->pid);
  return order ? order : by_number(l->tid, r->tid);
}

int order_causes(const void *left, const void *right)
{
  const struct opgap_sum_cause *l = left, *r = right;
  int order = larger_first(l->ns, r->ns);
  order = order ? order : (int)l->cause - (int)r->cause;
  return order ? order : strcmp(l->detail, r->detail);
}

int order_thread_gaps(const void *left, const void *right)
{
  const struct opgap_sum_thread_gap *l = left, *r = right;
  int order = larger_first(l->duration_ns, r->duration_ns);
  order = order ? order : smaller_first(l->start_ns, r->start_ns);
  order = order ? order : by_number(l->pid, r->pid);
  return order ? order : by_number(l->tid, r->tid);
}

int order_gpu_gaps(const void *left, const void *right)
{
  const struct opgap_sum_gpu_gap *l = left, *r = right;
  int order = larger_first(l->duration_ns, r->duration_ns);
  order = order ? order : smaller_first(l->start_ns, r->start_ns);
  order = order ? order : by_number(l->pid, r->pid);
  return order ? order : smaller_first(l->device, r->device);
}
