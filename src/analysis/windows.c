/* When a process was not recorded: between `opgap stop` and `opgap start`, or before the first start (OPGAP_CONTROL).
 *
 * Read before the analysis begins, because GPU activity is looked at ahead of the records that tell of it. */
#include "analysis/internal.h"

static void read_switches(struct analysis *a, unsigned process, unsigned stream)
{
  struct process *p = &a->processes[process];
  void *cursor = a->source->cursor_open(a->source->context, process, stream);
  const struct opgap_record *records;
  bool off = false;
  for (size_t n; cursor != NULL && (n = a->source->cursor_batch(cursor, &records)) > 0;)
    for (size_t i = 0; i < n; i++) {
      if (records[i].event != OPGAP_EV_RECORDING || (records[i].status == 0) == off)
        continue;
      off = !off;
      if (off)
        *VEC_PUSH(&p->off) = (struct interval){records[i].start_ns, UINT64_MAX};
      else
        p->off.at[p->off.count - 1].end = records[i].start_ns;
    }
  if (cursor != NULL)
    a->source->cursor_close(cursor);
}

void windows_open(struct analysis *a, unsigned process)
{
  const struct opgap_process_info *info = a->processes[process].info;
  if (a->source->info(a->source->context, process, "OPGAP_CONTROL") == NULL)
    return;
  for (unsigned s = 0; s < info->stream_count; s++)
    if (info->streams[s].kind == OPGAP_STREAM_PROCESS)
      read_switches(a, process, s);
}

bool windows_off_within(const struct process *p, uint64_t start, uint64_t end)
{
  for (size_t i = 0; i < p->off.count; i++)
    if (p->off.at[i].start < end && p->off.at[i].end > start)
      return true;
  return false;
}

uint64_t windows_off_between(const struct process *p, uint64_t start, uint64_t end)
{
  uint64_t ns = 0;
  for (size_t i = 0; i < p->off.count; i++) {
    uint64_t from = p->off.at[i].start > start ? p->off.at[i].start : start;
    uint64_t to = p->off.at[i].end < end ? p->off.at[i].end : end;
    ns += to > from ? to - from : 0;
  }
  return ns;
}

uint64_t windows_off_ns(const struct process *p)
{
  return windows_off_between(p, 0, p->end_ns);
}
