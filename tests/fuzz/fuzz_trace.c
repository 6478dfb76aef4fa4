/* Fuzz target: a process file of a trace, whatever its bytes, must be opened or refused, and read to its end, without a
 * fault and in bounded memory.  The first byte chooses whether checksums are mended first: with broken checksums the
 * fuzzer would never get behind them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/trace_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes every chunk header in the buffer sound, so that the payload decoders are reached. */
static void mend(uint8_t *bytes, size_t size)
{
  for (size_t at = sizeof(struct opgap_file_header); at + sizeof(struct opgap_chunk_header) <= size;) {
    struct opgap_chunk_header header;
    memcpy(&header, bytes + at, sizeof header);
    size_t room = size - at - sizeof header;
    header.magic = OPGAP_CHUNK_MAGIC;
    header.header_bytes = sizeof header;
    if (header.stored_bytes > room)
      header.stored_bytes = (uint32_t)room;
    header.payload_crc = opgap_crc32(0, bytes + at + sizeof header, header.stored_bytes);
    header.header_crc = opgap_crc32(0, &header, offsetof(struct opgap_chunk_header, header_crc));
    memcpy(bytes + at, &header, sizeof header);
    at += sizeof header + header.stored_bytes;
  }
}

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
  for (unsigned i = 0; opgap_trace_damage(trace, i); i++)
    if (opgap_trace_damage(trace, i)[0] == 0)
      abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1)
    return 0;
  int fd = memfd_create("trace", MFD_CLOEXEC);
  uint8_t *copy = malloc(size);
  if (fd < 0 || copy == NULL)
    abort();
  memcpy(copy, data + 1, size - 1);
  if (data[0] & 1)
    mend(copy, size - 1);
  if (write(fd, copy, size - 1) == (ssize_t)(size - 1)) {
    char path[64] = "/proc/self/fd/", digits[12], error[512];
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
  free(copy);
  close(fd);
  return 0;
}
