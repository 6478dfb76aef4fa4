/* opdump TRACE: the op records of a trace, summed, for tests to compare with torch.profiler.
 *
 * Tab-separated lines:
 *   op PID NAME SCOPE CALLS SELF_NS TOTAL_NS SEQUENCES ALLOCS STACKS TWINS DEPTH    for each process, name and scope
 *   range ..., step ...                                                              the same, of markers
 *   thread PID TID NAME RECORDS / notice PID TEXT / process PID ENDED LOST INVALID RANK WORLD
 *   stack PID NAME TEXT                                      with -s: for each op record
 * SEQUENCES and STACKS: records that have one.  TWINS: records whose only child has the same name (torch.profiler's
 * key_averages drops the child).  DEPTH: the largest depth.
 *
 * Self time: the duration less that of the records directly inside it.  Nesting follows from record order and depth, as
 * reader.h says: a record adopts all earlier records of its stream with a larger depth that nobody has adopted; but not
 * those that began before it: their parent ended on another thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/reader.h"

struct total {
  unsigned process;
  uint64_t name, calls, self_ns, total_ns, sequences, allocs, stacks, twins, depth;
  uint32_t event, scope;
};

static struct total *totals;
static size_t total_count, total_room;
static bool print_stacks; /* -s */

static struct total *find_total(unsigned process, uint64_t name, uint32_t event, uint32_t scope)
{
  for (size_t i = 0; i < total_count; i++)
    if (totals[i].process == process && totals[i].name == name && totals[i].scope == scope && totals[i].event == event)
      return &totals[i];
  if (total_count == total_room) {
    total_room = total_room ? total_room * 2 : 256;
    totals = realloc(totals, total_room * sizeof *totals);
    if (totals == NULL)
      abort();
  }
  totals[total_count] = (struct total){.process = process, .name = name, .event = event, .scope = scope};
  return &totals[total_count++];
}

/* A record that nobody has adopted yet. */
struct orphan {
  uint64_t start_ns, duration_ns, name;
  unsigned depth;
};
struct children {
  uint64_t duration_ns, count, last_name;
};
static struct orphan *orphans;
static size_t orphan_count, orphan_room;

static struct children adopt(unsigned depth, uint64_t start_ns)
{
  struct children children = {0, 0, 0};
  while (orphan_count > 0 && orphans[orphan_count - 1].depth > depth) {
    const struct orphan *child = &orphans[--orphan_count];
    if (child->start_ns < start_ns)
      continue;
    children.duration_ns += child->duration_ns;
    children.last_name = child->name;
    children.count++;
  }
  return children;
}

static void leave_orphan(struct orphan orphan)
{
  if (orphan_count == orphan_room) {
    orphan_room = orphan_room ? orphan_room * 2 : 256;
    orphans = realloc(orphans, orphan_room * sizeof *orphans);
    if (orphans == NULL)
      abort();
  }
  orphans[orphan_count++] = orphan;
}

static void take_op(const struct opgap_trace *trace, unsigned process, const struct opgap_record *record)
{
  uint64_t duration = record->end_ns - record->start_ns, name = record->field[0];
  struct children inside = adopt(record->depth, record->start_ns);
  struct total *total = find_total(process, name, record->event, record->status);
  total->calls++;
  total->total_ns += duration;
  total->self_ns += duration > inside.duration_ns ? duration - inside.duration_ns : 0;
  total->sequences += record->field[1] != UINT64_MAX;
  total->allocs += record->field[2];
  total->stacks += record->field[5] != 0;
  total->twins += inside.count == 1 && inside.last_name == name;
  if (record->depth > total->depth)
    total->depth = record->depth;
  leave_orphan((struct orphan){record->start_ns, duration, name, record->depth});
  if (print_stacks)
    printf("stack\t%d\t%s\t%s\n", opgap_trace_process(trace, process)->pid,
           opgap_trace_name(trace, process, name, NULL), opgap_trace_name(trace, process, record->field[5], NULL));
}

static void take_stream(const struct opgap_trace *trace, unsigned process, unsigned stream)
{
  struct opgap_cursor *cursor = opgap_cursor_open(trace, process, stream);
  const struct opgap_record *record;
  int pid = opgap_trace_process(trace, process)->pid;
  orphan_count = 0;
  while (cursor && (record = opgap_cursor_next(cursor)) != NULL) {
    if (record->event == OPGAP_EV_OP || record->event == OPGAP_EV_RANGE)
      take_op(trace, process, record);
    else if (record->event == OPGAP_EV_STEP)
      find_total(process, 0, record->event, 0)->calls++;
    else if (record->event == OPGAP_EV_PROBE)
      printf("notice\t%d\t%s\n", pid, opgap_trace_name(trace, process, record->field[0], NULL));
  }
  opgap_cursor_close(cursor);
}

static const char *event_word(uint32_t event)
{
  return event == OPGAP_EV_OP ? "op" : event == OPGAP_EV_RANGE ? "range" : "step";
}

static void print_totals(const struct opgap_trace *trace)
{
  for (size_t i = 0; i < total_count; i++) {
    const struct total *t = &totals[i];
    printf("%s\t%d\t%s\t%" PRIu32, event_word(t->event), opgap_trace_process(trace, t->process)->pid,
           opgap_trace_name(trace, t->process, t->name, NULL), t->scope);
    const uint64_t columns[] = {t->calls,  t->self_ns, t->total_ns, t->sequences,
                                t->allocs, t->stacks,  t->twins,    t->depth};
    for (unsigned c = 0; c < sizeof columns / sizeof *columns; c++)
      printf("\t%" PRIu64, columns[c]);
    printf("\n");
  }
}

static void take_process(const struct opgap_trace *trace, unsigned process)
{
  const struct opgap_process_info *info = opgap_trace_process(trace, process);
  for (unsigned stream = 0; stream < info->stream_count; stream++) {
    const struct opgap_stream_info *about = &info->streams[stream];
    printf("thread\t%d\t%d\t%s\t%" PRIu64 "\n", info->pid, about->tid, about->name, about->records);
    take_stream(trace, process, stream);
  }
  printf("process\t%d\t%d\t%" PRIu64 "\t%" PRIu64 "\t%d\t%d\n", info->pid, info->ended, info->lost_records,
         info->invalid_records, info->rank, info->world_size);
}

int main(int argc, char **argv)
{
  char error[512];
  if (argc == 3 && strcmp(argv[1], "-s") == 0) {
    print_stacks = true;
    argv++;
    argc--;
  }
  if (argc != 2) {
    fprintf(stderr, "usage: opdump [-s] TRACE\n");
    return 2;
  }
  struct opgap_trace *trace = opgap_trace_open(argv[1], error, sizeof error);
  if (trace == NULL) {
    fprintf(stderr, "opdump: %s\n", error);
    return 2;
  }
  for (unsigned process = 0; process < opgap_trace_process_count(trace); process++)
    take_process(trace, process);
  print_totals(trace);
  opgap_trace_close(trace);
  free(totals);
  free(orphans);
  return 0;
}
