/* Prints a trace's records as lines of tab-separated values, for tests: process index, stream kind (thread, process,
 * gpu), thread id, event, depth, status, start, end, then field=value with names resolved.
 *
 *   trace_dump TRACE [CATEGORY...]     only these categories of events
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/reader.h"

static int chosen(const struct opgap_event *event, char **categories, int count)
{
  if (count == 0)
    return 1;
  for (int i = 0; i < count; i++)
    if (strcmp(event->category, categories[i]) == 0)
      return 1;
  return 0;
}

static void print_record(const struct opgap_trace *trace, unsigned process, const struct opgap_stream_info *stream,
                         const struct opgap_event *event, const struct opgap_record *r)
{
  static const char *const kinds[] = {"?", "thread", "process", "gpu"};
  printf("%u\t%s\t%d\t%s\t%u\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64, process, kinds[stream->kind & 3], stream->tid,
         event->name, r->depth, r->status, r->start_ns, r->end_ns);
  for (unsigned f = 0; f < event->field_count; f++)
    if (event->fields[f].coding == OPGAP_NAME)
      printf("\t%s=%s", event->fields[f].name, opgap_trace_name(trace, process, r->field[f], NULL));
    else
      printf("\t%s=%" PRIu64, event->fields[f].name, r->field[f]);
  putchar('\n');
}

int main(int argc, char **argv)
{
  char error[512] = "";
  struct opgap_trace *trace = argc > 1 ? opgap_trace_open(argv[1], error, sizeof error) : NULL;
  if (trace == NULL) {
    fprintf(stderr, "trace_dump: %s\n", argc > 1 ? error : "usage: trace_dump TRACE [CATEGORY...]");
    return 2;
  }
  for (unsigned p = 0; p < opgap_trace_process_count(trace); p++) {
    const struct opgap_process_info *info = opgap_trace_process(trace, p);
    const char *status = opgap_trace_info(trace, p, "gpu");
    printf("#\t%u\tpid=%d\tgpu_status=%s\n", p, info->pid, status ? status : "");
    for (unsigned s = 0; s < info->stream_count; s++) {
      struct opgap_cursor *cursor = opgap_cursor_open(trace, p, s);
      const struct opgap_record *r;
      while (cursor != NULL && (r = opgap_cursor_next(cursor)) != NULL) {
        const struct opgap_event *event = opgap_trace_event(trace, p, r->event);
        if (event != NULL && chosen(event, argv + 2, argc - 2))
          print_record(trace, p, &info->streams[s], event, r);
      }
      opgap_cursor_close(cursor);
    }
  }
  opgap_trace_close(trace);
  return 0;
}
