/* Where an export goes: a file that appears under its name only when it is whole, or stdout.
 *
 * A file is written under a temporary name beside the final one and renamed at the end; a name that is no regular file
 * (/dev/full, a pipe) is written to as it is.  Names ending in .gz and .zst are compressed.
 *
 * Threads   one at a time.
 * Errors    The first error stays (sink_error); after it all writing does nothing.
 */
#ifndef OPGAP_OUTPUT_EXPORT_SINK_H
#define OPGAP_OUTPUT_EXPORT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SINK_BUFFER 262144u
#define SINK_NUMBER 24u /* the most bytes that a number takes */

struct sink {
  size_t used;
  uint64_t flushed; /* bytes before compression that left the buffer */
  int error;        /* errno */
  int fd;
  char *path, *temporary; /* temporary NULL: written in place */
  void *deflate, *zstd;   /* NULL: not this compression */
  uint8_t *packed;        /* compressed bytes on their way */
  uint8_t buffer[SINK_BUFFER];
};

/* By the end of its name. */
bool sink_compresses(const char *path);
/* "-": stdout.  NULL on failure, errno says why. */
struct sink *sink_open(const char *path);
/* Writes the rest and gives the file its name.  Returns 0 or an errno; frees the sink either way. */
int sink_finish(struct sink *sink);
/* Leaves nothing behind. */
void sink_abandon(struct sink *sink);
void sink_flush(struct sink *sink);
void sink_long(struct sink *sink, const void *bytes, size_t size);

/* Bytes before compression. */
static inline uint64_t sink_written(const struct sink *sink)
{
  return sink->flushed + sink->used;
}

static inline void sink_bytes(struct sink *sink, const void *bytes, size_t size)
{
  if (size > SINK_BUFFER - sink->used) {
    sink_long(sink, bytes, size);
    return;
  }
  memcpy(sink->buffer + sink->used, bytes, size);
  sink->used += size;
}

static inline void sink_text(struct sink *sink, const char *text)
{
  sink_bytes(sink, text, strlen(text));
}

static inline void sink_char(struct sink *sink, char c)
{
  if (sink->used == SINK_BUFFER)
    sink_flush(sink);
  sink->buffer[sink->used++] = (uint8_t)c;
}

void sink_number(struct sink *sink, uint64_t value);
void sink_signed(struct sink *sink, int64_t value);
/* ns as microseconds with three decimals: 1234 -> 1.234 */
void sink_us(struct sink *sink, uint64_t ns);
/* A JSON string with its quotes, as in the report's JSON: bytes that are not UTF-8 become \xNN (four characters). */
char *sink_quoted(const char *text); /* to be freed; NULL: no memory */
void sink_json_string(struct sink *sink, const char *text);

#endif
