/* When a process was not recorded: outside of the windows of OPGAP_SCHEDULE where it follows those of an ancestor
 * (record/schedule.h), between `opgap stop` and `opgap start`, or before the first start (OPGAP_CONTROL),
 * before OPGAP_DELAY and after OPGAP_DURATION, and what the flight recorder dropped (OPGAP_KEEP).
 *
 * Read before the analysis begins, because GPU activity is looked at ahead of the records that tell of it. */
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

/* Reads the switches in the trace of a process, once: all that it started ask for them.  False: there is none. */
static bool read_switches(struct analysis *a, unsigned process)
{
  struct switches *switches = &a->processes[process].switches;
  if (switches->read)
    return switches->any;
  const struct opgap_process_info *info = a->source->process(a->source->context, process);
  unsigned stream = 0;
  while (stream < info->stream_count && info->streams[stream].kind != OPGAP_STREAM_PROCESS)
    stream++;
  void *cursor = stream < info->stream_count ? a->source->cursor_open(a->source->context, process, stream) : NULL;
  const struct opgap_record *records;
  bool off = false;
  for (size_t n; cursor != NULL && (n = a->source->cursor_batch(cursor, &records)) > 0;)
    for (size_t i = 0; i < n; i++) {
      if (records[i].event != OPGAP_EV_RECORDING)
        continue;
      if (!switches->any)
        switches->first_ns = records[i].start_ns;
      switches->any = true;
      if ((records[i].status == 0) == off)
        continue;
      off = !off;
      if (off)
        *VEC_PUSH(&switches->off) = (struct interval){records[i].start_ns, UINT64_MAX};
      else
        switches->off.at[switches->off.count - 1].end = records[i].start_ns;
    }
  if (cursor != NULL)
    a->source->cursor_close(cursor);
  switches->read = true;
  return switches->any;
}

/* Those of a process's trace, its own or an ancestor's, are when p was off, up to `until`. */
static void follow_switches(struct process *p, const struct switches *switches, uint64_t until)
{
  for (size_t i = 0; i < switches->off.count && switches->off.at[i].start < until; i++) {
    struct interval off = switches->off.at[i];
    *VEC_PUSH(&p->off) = (struct interval){off.start, off.end < until ? off.end : until};
  }
}

/* A setting in seconds, in ns; 0: not set. */
static uint64_t seconds(const struct analysis *a, unsigned process, const char *key)
{
  const char *text = a->source->info(a->source->context, process, key);
  double value = text ? strtod(text, NULL) : 0;
  return value > 0 && value < 1e9 ? (uint64_t)(value * 1e9) : 0;
}

static bool may_be_parent(const struct opgap_process_info *parent, const struct opgap_process_info *child)
{
  return parent->pid == child->ppid && parent->start_ns <= child->start_ns &&
         strcmp(parent->boot_id, child->boot_id) == 0 && strcmp(parent->host, child->host) == 0;
}

/* The process that started this one; UINT32_MAX: not known. */
static unsigned parent_of(const struct analysis *a, const struct opgap_process_info *info)
{
  unsigned parent = UINT32_MAX;
  uint64_t start = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct opgap_process_info *other = a->source->process(a->source->context, i);
    if (other == info || !may_be_parent(other, info) || (parent != UINT32_MAX && other->start_ns <= start))
      continue;
    parent = i;
    start = other->start_ns;
  }
  return parent != UINT32_MAX && start < info->start_ns ? parent : UINT32_MAX; /* else damaged: no way to the top */
}

/* Where the program that a process runs began, before it was forked; 0: not known. */
static uint64_t program_start(const struct analysis *a, const struct opgap_process_info *info)
{
  while (info->forked) {
    unsigned parent = parent_of(a, info);
    if (parent == UINT32_MAX)
      return 0;
    info = a->source->process(a->source->context, parent);
  }
  return info->start_ns;
}

static int order_intervals(const void *left, const void *right)
{
  const struct interval *l = left, *r = right;
  return (l->start > r->start) - (l->start < r->start);
}

/* Who goes by its own steps has switches in its own trace, and its steps tell what was recorded, from where a window
 * opened.  Others have the windows of the nearest ancestor that does, from its first step on, and up to there those of
 * who is above that one.  False: it has none of an ancestor's. */
static bool follow_schedule(struct analysis *a, struct process *p, unsigned process)
{
  if (read_switches(a, process)) {
    for (size_t i = 0; i < p->switches.off.count; i++)
      if (p->switches.off.at[i].end != UINT64_MAX)
        *VEC_PUSH(&p->opened) = p->switches.off.at[i].end;
    return false;
  }
  uint64_t until = UINT64_MAX;
  for (unsigned at = parent_of(a, p->info); at != UINT32_MAX && until > p->info->start_ns;
       at = parent_of(a, a->source->process(a->source->context, at)))
    if (read_switches(a, at)) {
      follow_switches(p, &a->processes[at].switches, until);
      until = a->processes[at].switches.first_ns;
    }
  if (p->off.count > 0) /* those of who is above come behind */
    qsort(p->off.at, p->off.count, sizeof *p->off.at, order_intervals);
  return until != UINT64_MAX;
}

void windows_open(struct analysis *a, unsigned process)
{
  struct process *p = &a->processes[process];
  const struct opgap_process_info *info = p->info;
  uint64_t delay = seconds(a, process, "OPGAP_DELAY"), duration = seconds(a, process, "OPGAP_DURATION");
  uint64_t start = delay || duration ? program_start(a, info) : 0;
  p->opens_ns = start ? start + delay : 0;
  p->closes_ns = start && duration ? p->opens_ns + duration : UINT64_MAX;
  if (a->source->info(a->source->context, process, "OPGAP_CONTROL") != NULL) {
    read_switches(a, process);
    follow_switches(p, &p->switches, UINT64_MAX);
  } else if (a->source->info(a->source->context, process, "OPGAP_SCHEDULE") != NULL && follow_schedule(a, p, process)) {
    p->opens_ns = 0; /* the ancestor's limits of time are in its windows */
    p->closes_ns = UINT64_MAX;
  }
}

uint64_t windows_opened(const struct process *p, uint64_t start, uint64_t end)
{
  size_t low = 0, high = p->opened.count; /* those before `low` are not after `end`, those from `high` on are */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (p->opened.at[middle] <= end)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && p->opened.at[low - 1] >= start ? p->opened.at[low - 1] : 0;
}

/* The first interval that ends after `start`, of those in which it was off, which come one after the other. */
static size_t first_off(const struct process *p, uint64_t start)
{
  size_t low = 0, high = p->off.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (p->off.at[middle].end <= start)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool windows_off_within(const struct process *p, uint64_t start, uint64_t end)
{
  size_t i = first_off(p, start);
  return i < p->off.count && p->off.at[i].start < end;
}

uint64_t windows_off_between(const struct process *p, uint64_t start, uint64_t end)
{
  uint64_t ns = 0;
  for (size_t i = first_off(p, start); i < p->off.count && p->off.at[i].start < end; i++) {
    uint64_t from = p->off.at[i].start > start ? p->off.at[i].start : start;
    uint64_t to = p->off.at[i].end < end ? p->off.at[i].end : end;
    ns += to > from ? to - from : 0;
  }
  return ns;
}

uint64_t windows_on_between(const struct process *p, uint64_t start, uint64_t end)
{
  start = start > p->opens_ns ? start : p->opens_ns;
  end = end < p->closes_ns ? end : p->closes_ns;
  return end > start ? end - start - windows_off_between(p, start, end) : 0;
}

uint64_t windows_off_ns(const struct process *p)
{
  return windows_off_between(p, 0, p->end_ns);
}
