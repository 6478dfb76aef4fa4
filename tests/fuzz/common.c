#include "common.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/reader.h"

static void read_all(const struct opgap_trace *trace)
{
  for (unsigned p = 0; p < opgap_trace_process_count(trace); p++) {
    const struct opgap_process_info *info = opgap_trace_process(trace, p);
    for (unsigned s = 0; s < info->stream_count; s++) {
      struct opgap_cursor *cursor = opgap_cursor_open(trace, p, s);
      const struct opgap_record *record;
      size_t length;
      while (cursor && (record = opgap_cursor_next(cursor)) != NULL) {
        const struct opgap_event *event = opgap_trace_event(trace, p, record->event);
        if (event == NULL)
          abort();
        for (unsigned f = 0; f < event->field_count; f++)
          if (event->fields[f].coding == OPGAP_NAME)
            if (strlen(opgap_trace_name(trace, p, record->field[f], &length)) > length)
              abort();
      }
      opgap_cursor_close(cursor);
    }
  }
  unsigned at = 0;
  for (const char *damage; (damage = opgap_trace_damage(trace, &at)) != NULL;)
    if (damage[0] == 0)
      abort();
}

void fuzz_read(const uint8_t *bytes, size_t size)
{
  int fd = memfd_create("trace", MFD_CLOEXEC);
  if (fd < 0)
    abort();
  if (write(fd, bytes, size) == (ssize_t)size) {
    char path[64] = "/proc/self/fd/", digits[12], error[512] = "";
    int n = 0;
    for (int rest = fd; rest || n == 0; rest /= 10)
      digits[n++] = (char)('0' + rest % 10);
    for (char *at = path + strlen(path); n > 0;)
      *at++ = digits[--n];
    struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
    if (trace)
      read_all(trace);
    else if (error[0] == 0)
      abort();
    opgap_trace_close(trace);
  }
  close(fd);
}
