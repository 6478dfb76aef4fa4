#include "output/export/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <zlib.h>
#include <zstd.h>

#include "analysis/pool.h"
#include "analysis/text.h"
#include "output/replace.h"

#define GZIP_LEVEL 4
#define ZSTD_LEVEL 3
#define PACKED 131072u

/* ---- opening ---- */

static bool ends_in(const char *text, const char *end)
{
  size_t n = strlen(text), m = strlen(end);
  return n > m && strcmp(text + n - m, end) == 0;
}

bool sink_compresses(const char *path)
{
  return ends_in(path, ".gz") || ends_in(path, ".zst");
}

static bool open_compression(struct sink *sink, const char *path)
{
  if (ends_in(path, ".gz")) {
    z_stream *stream = opgap_xcalloc(1, sizeof *stream);
    sink->deflate = stream;
    if (deflateInit2(stream, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      return false;
  } else if (ends_in(path, ".zst")) {
    sink->zstd = ZSTD_createCCtx();
    if (sink->zstd == NULL)
      return false;
    ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_checksumFlag, 1);
  }
  if (sink->deflate != NULL || sink->zstd != NULL)
    sink->packed = opgap_xcalloc(PACKED, 1);
  return true;
}

static bool open_file(struct sink *sink, const char *path)
{
  struct stat status;
  if (strcmp(path, "-") == 0) {
    sink->fd = dup(STDOUT_FILENO);
    return sink->fd >= 0;
  }
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
    sink->fd = open(path, O_WRONLY | O_CLOEXEC); /* a folder gives EISDIR */
    return sink->fd >= 0;
  }
  sink->temporary = replace_begin(path);
  if (sink->temporary == NULL)
    return false;
  sink->fd = open(sink->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return sink->fd >= 0;
}

static void release(struct sink *sink)
{
  if (sink->deflate != NULL)
    deflateEnd(sink->deflate);
  free(sink->deflate);
  ZSTD_freeCCtx(sink->zstd);
  free(sink->packed);
  free(sink->path);
  free(sink);
}

struct sink *sink_open(const char *path)
{
  struct sink *sink = opgap_xcalloc(1, sizeof *sink);
  sink->fd = -1;
  sink->path = strdup(path);
  errno = ENOMEM;
  if (sink->path != NULL && open_compression(sink, path) && open_file(sink, path))
    return sink;
  int error = errno;
  if (sink->temporary != NULL)
    replace_end(sink->temporary, path, false);
  release(sink);
  errno = error;
  return NULL;
}

/* ---- writing ---- */

static void write_all(struct sink *sink, const uint8_t *bytes, size_t size)
{
  while (size > 0 && sink->error == 0) {
    ssize_t done = write(sink->fd, bytes, size);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0) {
      sink->error = errno;
      return;
    }
    bytes += done;
    size -= (size_t)done;
  }
}

static void pack_gzip(struct sink *sink, const uint8_t *bytes, size_t size, bool end)
{
  z_stream *stream = sink->deflate;
  int result;
  stream->next_in = (Bytef *)(uintptr_t)bytes;
  stream->avail_in = (uInt)size;
  do {
    stream->next_out = sink->packed;
    stream->avail_out = PACKED;
    result = deflate(stream, end ? Z_FINISH : Z_NO_FLUSH);
    write_all(sink, sink->packed, PACKED - stream->avail_out);
  } while (sink->error == 0 && (stream->avail_out == 0 || (end && result == Z_OK)));
}

static void pack_zstd(struct sink *sink, const uint8_t *bytes, size_t size, bool end)
{
  ZSTD_inBuffer in = {bytes, size, 0};
  size_t left;
  do {
    ZSTD_outBuffer out = {sink->packed, PACKED, 0};
    left = ZSTD_compressStream2(sink->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) {
      sink->error = ENOMEM;
      return;
    }
    write_all(sink, sink->packed, out.pos);
  } while (sink->error == 0 && (end ? left > 0 : in.pos < in.size));
}

static void put(struct sink *sink, const uint8_t *bytes, size_t size, bool end)
{
  sink->flushed += size;
  if (sink->error != 0)
    return;
  if (sink->deflate != NULL)
    pack_gzip(sink, bytes, size, end);
  else if (sink->zstd != NULL)
    pack_zstd(sink, bytes, size, end);
  else
    write_all(sink, bytes, size);
}

void sink_flush(struct sink *sink)
{
  put(sink, sink->buffer, sink->used, false);
  sink->used = 0;
}

void sink_long(struct sink *sink, const void *bytes, size_t size)
{
  sink_flush(sink);
  if (size <= SINK_BUFFER) {
    memcpy(sink->buffer, bytes, size);
    sink->used = size;
    return;
  }
  const uint8_t *at = bytes;
  for (size_t piece; size > 0; at += piece, size -= piece) {
    piece = size < SINK_BUFFER ? size : SINK_BUFFER;
    put(sink, at, piece, false);
  }
}

int sink_finish(struct sink *sink)
{
  put(sink, sink->buffer, sink->used, true);
  int error = sink->error;
  if (close(sink->fd) != 0 && error == 0)
    error = errno;
  if (sink->temporary != NULL) {
    int renamed = replace_end(sink->temporary, sink->path, error == 0);
    error = error ? error : renamed;
  }
  release(sink);
  return error;
}

void sink_abandon(struct sink *sink)
{
  close(sink->fd);
  if (sink->temporary != NULL)
    replace_end(sink->temporary, sink->path, false);
  release(sink);
}

/* ---- figures and texts ---- */

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                            "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

/* The digits of a value, right before `end`. */
static char *digits(char *end, uint64_t value)
{
  for (; value >= 100; value /= 100) {
    end -= 2;
    memcpy(end, pairs + value % 100 * 2, 2);
  }
  if (value >= 10) {
    end -= 2;
    memcpy(end, pairs + value * 2, 2);
  } else {
    *--end = (char)('0' + value);
  }
  return end;
}

void sink_number(struct sink *sink, uint64_t value)
{
  char text[SINK_NUMBER], *end = text + sizeof text, *at = digits(end, value);
  sink_bytes(sink, at, (size_t)(end - at));
}

void sink_signed(struct sink *sink, int64_t value)
{
  if (value < 0)
    sink_char(sink, '-');
  sink_number(sink, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void sink_us(struct sink *sink, uint64_t ns)
{
  unsigned rest = (unsigned)(ns % 1000);
  char fraction[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10)};
  sink_number(sink, ns / 1000);
  if (rest != 0)
    sink_bytes(sink, fraction, sizeof fraction);
}

char *sink_quoted(const char *text)
{
  json_t *string = json_string(text);
  if (string == NULL) { /* not UTF-8 */
    char *clean = text_clean(text);
    string = json_string(clean);
    free(clean);
  }
  char *quoted = json_dumps(string, JSON_ENCODE_ANY);
  json_decref(string);
  return quoted;
}

void sink_json_string(struct sink *sink, const char *text)
{
  char *quoted = sink_quoted(text);
  if (quoted == NULL)
    sink->error = ENOMEM;
  else
    sink_text(sink, quoted);
  free(quoted);
}
