/* account TRACE: for each thread of a trace of OPGAP_HOOKS=alloc, OPGAP_ALLOC=events, what became of its calls.
 *
 * Prints "TID calls C records R lost L" a thread: calls by its counters, its records but the COUNTER and LOST ones, and
 * the records that it found no room for. */
#include <stdio.h>

#include "format/reader.h"

static void account(const struct opgap_trace *trace, unsigned process, unsigned index)
{
  const struct opgap_stream_info *info = &opgap_trace_process(trace, process)->streams[index];
  if (info->kind != OPGAP_STREAM_THREAD)
    return;
  uint64_t calls[OPGAP_MAX_EVENTS] = {0}, all = 0, records = 0;
  struct opgap_cursor *cursor = opgap_cursor_open(trace, process, index);
  for (const struct opgap_record *r; cursor && (r = opgap_cursor_next(cursor)) != NULL;) {
    if (r->event == OPGAP_EV_COUNTER && r->status < OPGAP_MAX_EVENTS)
      calls[r->status] = r->field[0]; /* totals: the last one counts */
    else if (r->event != OPGAP_EV_COUNTER && r->event != OPGAP_EV_LOST)
      records++;
  }
  for (unsigned i = 0; i < OPGAP_MAX_EVENTS; i++)
    all += calls[i];
  printf("%d calls %llu records %llu lost %llu\n", info->tid, (unsigned long long)all, (unsigned long long)records,
         (unsigned long long)info->lost);
  opgap_cursor_close(cursor);
}

int main(int argc, char **argv)
{
  char error[512];
  struct opgap_trace *trace = argc == 2 ? opgap_trace_open(argv[1], error, sizeof error) : NULL;
  if (trace == NULL) {
    fprintf(stderr, "account: %s\n", argc == 2 ? error : "usage: account TRACE");
    return 2;
  }
  for (unsigned p = 0; p < opgap_trace_process_count(trace); p++)
    for (unsigned i = 0; i < opgap_trace_process(trace, p)->stream_count; i++)
      account(trace, p, i);
  opgap_trace_close(trace);
  return 0;
}
