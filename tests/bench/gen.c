/* Writes a trace of any size, for measuring the reader: what a process with two threads would leave, or each rank of a
 * job.
 *
 *     gen --records N [--mix ops|alloc] [--ranks N] FOLDER
 *
 * ops: steps of 40 ops with 3 children each, wake-ups and reads in between, as a training records by default.
 * alloc: the same with six allocations or frees around each op, as OPGAP_ALLOC=events records them.
 * Content depends on the arguments alone, so that two readers can be compared on the same bytes.  Chunks are encoded
 * and compressed by the tracer's own encoder; FOLDER gets one file of two streams for each rank, which divide the
 * records among them and run at the same time.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zstd.h>

#include "format/arena.h"
#include "format/encode.h"
#include "format/reader.h"
#include "hooks/hook_table.h"

#define THREADS 2u
#define CHUNK_WORDS 24000u /* leaves room for the longest burst */
#define NAMES 100u         /* ops of a training */
#define RANKS_MOST 4096u
#define LIVE 64u /* blocks that a thread holds at a time */

struct stream {
  uint32_t serial;
  uint64_t now, position, records;
  uint64_t words[OPGAP_ENCODE_MAX_WORDS];
  size_t count; /* words */
  uint64_t live[LIVE];
  uint32_t oldest;
  uint64_t random;
};

static struct opgap_encoder encoder;
static struct stream streams[THREADS];
static uint16_t ev_malloc, ev_free, ev_read, ev_signal, ev_wait;
static int32_t tid;       /* of its first thread: its pid */
static uint32_t sequence; /* of the file */
static uint64_t total;    /* records of the file */
static FILE *file;
static ZSTD_CCtx *zstd;
static uint8_t raw[OPGAP_ENCODE_BUFFER], stored[OPGAP_ENCODE_BUFFER + (1u << 16)];

static _Noreturn void die(const char *what)
{
  fprintf(stderr, "gen: %s: %s\n", what, strerror(errno));
  exit(2);
}

/* ids 1 to NAMES are ops, NAMES + 1 is a file */
static const char *name_of(void *context, uint32_t id, uint32_t *length)
{
  static char text[32];
  (void)context;
  *length = (uint32_t)snprintf(text, sizeof text, id <= NAMES ? "aten::op_%u" : "/data/file_%u", id);
  return text;
}

static uint16_t event_of(const char *name)
{
  unsigned count;
  const struct opgap_event *rows = opgap_hook_events(&count);
  for (unsigned i = 0; i < count; i++)
    if (strcmp(rows[i].name, name) == 0)
      return rows[i].id;
  die(name);
}

static void write_chunk(struct opgap_chunk_header header, const uint8_t *bytes, size_t size)
{
  size_t n = ZSTD_compressCCtx(zstd, stored, sizeof stored, bytes, size, 1);
  if (ZSTD_isError(n))
    die("zstd");
  header.magic = OPGAP_CHUNK_MAGIC;
  header.header_bytes = sizeof header;
  header.sequence = ++sequence;
  header.stored_bytes = (uint32_t)n;
  header.raw_bytes = (uint32_t)size;
  header.payload_crc = opgap_crc32(0, stored, n);
  header.header_crc = opgap_crc32(0, &header, offsetof(struct opgap_chunk_header, header_crc));
  if (fwrite(&header, sizeof header, 1, file) != 1 || fwrite(stored, n, 1, file) != 1)
    die("writing");
}

static void flush_stream(struct stream *s)
{
  if (s->count == 0)
    return;
  opgap_encode_begin(&encoder, NULL);
  opgap_encode_add(&encoder, s->words, s->count, 0, OPGAP_ENCODE_MAX_WORDS);
  struct opgap_encoded encoded = opgap_encode_end(&encoder, raw);
  struct opgap_chunk_header header = {.type = OPGAP_CHUNK_RECORDS,
                                      .serial = s->serial,
                                      .kind = OPGAP_STREAM_THREAD,
                                      .tid = tid + (int32_t)s->serial - 1,
                                      .records = encoded.records,
                                      .first_ns = encoded.first_ns,
                                      .last_ns = encoded.last_ns,
                                      .position = s->position += s->count * 8};
  snprintf(header.name, sizeof header.name, "thread-%u", s->serial);
  write_chunk(header, raw, encoded.bytes);
  s->count = 0;
}

static uint64_t *add(struct stream *s, unsigned event, unsigned words, unsigned depth, uint32_t status)
{
  uint64_t *w = s->words + s->count;
  w[0] = OPGAP_WORD0(event, words, depth, status);
  s->count += words;
  s->records++;
  total++;
  return w;
}

static uint64_t random_below(struct stream *s, uint64_t limit)
{
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (s->random >> 33) % limit;
}

static void add_span(struct stream *s, unsigned event, unsigned depth, uint64_t object, uint64_t value, uint64_t ns)
{
  uint64_t *w = add(s, event, 5, depth, 0);
  w[1] = s->now;
  w[2] = s->now += ns;
  w[3] = object;
  w[4] = value;
}

static void add_point(struct stream *s, unsigned event, unsigned depth, uint64_t object)
{
  uint64_t *w = add(s, event, 4, depth, 0);
  w[1] = s->now += 100;
  w[2] = object;
  w[3] = 0;
}

static void add_op(struct stream *s, uint32_t name, unsigned depth, uint64_t start)
{
  uint64_t *w = add(s, OPGAP_EV_OP, 9, depth, 0);
  w[1] = start;
  w[2] = s->now;
  w[3] = name;
  w[4] = UINT64_MAX;
  w[5] = 2;
  w[6] = 512;
  w[7] = 2;
  w[8] = 0;
}

static void add_allocations(struct stream *s, unsigned depth)
{
  for (int i = 0; i < 3; i++) {
    uint64_t size = 16 + 8 * random_below(s, 60);
    uint64_t *block = &s->live[s->oldest++ % LIVE];
    if (*block)
      add_point(s, ev_free, depth, *block);
    *block = 0x7f0000000000u + ((uint64_t)s->serial << 32) + (s->oldest % 4096) * 512;
    s->now += 60;
    add_span(s, ev_malloc, depth, *block, size, 0);
  }
}

static void add_step(struct stream *s, bool allocations)
{
  for (int i = 0; i < 40; i++) {
    uint64_t start = s->now;
    for (unsigned k = 0; k < 3; k++) {
      uint64_t inner = s->now += 300;
      if (allocations)
        add_allocations(s, 2);
      s->now += 800 + random_below(s, 2000);
      add_op(s, 1 + (uint32_t)random_below(s, NAMES), 1, inner);
    }
    s->now += 200;
    add_op(s, 1 + (uint32_t)(i % NAMES), 0, start);
    s->now += 400;
    if (i % 8 == 0)
      add_point(s, ev_signal, 0, 0x7f1234560000u);
    if (i % 8 == 4)
      add_span(s, ev_read, 0, NAMES + 1, 4096, 2500 + random_below(s, 500));
  }
  add_span(s, ev_wait, 0, 0x7f1234560000u, 0, 50000 + random_below(s, 10000));
}

static void describe(uint16_t type, const char *const pairs[][2])
{
  uint8_t bytes[4096], *at = bytes;
  for (; (*pairs)[0]; pairs++)
    at = opgap_encode_pair(at, bytes + sizeof bytes, (*pairs)[0], (*pairs)[1], strlen((*pairs)[1]));
  struct opgap_chunk_header header = {.type = type, .first_ns = streams[0].now, .last_ns = streams[0].now};
  write_chunk(header, bytes, (size_t)(at - bytes));
}

/* ranks 1: no rank. */
static void begin_file(const char *folder, bool allocations, unsigned rank, unsigned ranks)
{
  char path[4096], pid[16], rank_text[16], size_text[16];
  snprintf(path, sizeof path, "%s/gen-%d-1.opgt", folder, tid);
  snprintf(pid, sizeof pid, "%d", tid);
  snprintf(rank_text, sizeof rank_text, "%u", rank);
  snprintf(size_text, sizeof size_text, "%u", ranks);
  sequence = 0;
  total = 0;
  if ((file = fopen(path, "w")) == NULL)
    die(path);
  struct opgap_file_header header = {.start_ns = streams[0].now, .pid = tid};
  opgap_seal_file_header(&header);
  if (fwrite(&header, sizeof header, 1, file) != 1)
    die("writing");
  describe(OPGAP_CHUNK_INFO, (const char *const[][2]){{"opgap_version", OPGAP_VERSION},
                                                      {"pid", pid},
                                                      {"host", "gen"},
                                                      {"boot_id", "gen"},
                                                      {"command", "gen"},
                                                      {"cores", "2"},
                                                      {"OPGAP_ALLOC", allocations ? "events" : "count"},
                                                      {ranks > 1 ? "rank" : NULL, rank_text},
                                                      {"world_size", size_text},
                                                      {NULL, NULL}});
  struct opgap_chunk_header schema = {.type = OPGAP_CHUNK_SCHEMA};
  write_chunk(schema, raw, opgap_encode_schema(&encoder, raw, sizeof raw));
}

static void write_file(const char *folder, uint64_t wanted, bool allocations, unsigned rank, unsigned ranks)
{
  for (unsigned t = 0; t < THREADS; t++)
    streams[t] = (struct stream){
        .serial = t + 1, .now = 1000000000u + rank * 13u + t * 777u, .random = (uint64_t)rank * THREADS + t + 1};
  tid = (int32_t)(1000 + rank * THREADS);
  begin_file(folder, allocations, rank, ranks);
  while (total < wanted) {
    struct stream *s = streams[0].now <= streams[1].now ? &streams[0] : &streams[1];
    add_step(s, allocations);
    if (s->count > CHUNK_WORDS - 10000)
      flush_stream(s);
  }
  for (unsigned t = 0; t < THREADS; t++)
    flush_stream(&streams[t]);
  describe(OPGAP_CHUNK_END, (const char *const[][2]){{"ended", "clean"}, {"exit_status", "0"}, {NULL, NULL}});
  if (fclose(file) != 0)
    die("writing");
}

int main(int argc, char **argv)
{
  uint64_t wanted = 0, written = 0;
  unsigned long ranks = 1;
  bool allocations = false;
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    if (strcmp(argv[i], "--records") == 0)
      wanted = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--mix") == 0)
      allocations = strcmp(argv[i + 1], "alloc") == 0;
    else if (strcmp(argv[i], "--ranks") == 0)
      ranks = strtoul(argv[i + 1], NULL, 10);
  }
  if (i + 1 != argc || wanted == 0 || ranks == 0 || ranks > RANKS_MOST) {
    fputs("usage: gen --records N [--mix ops|alloc] [--ranks N] FOLDER\n", stderr);
    return 2;
  }
  unsigned count;
  const struct opgap_event *rows = opgap_hook_events(&count);
  zstd = ZSTD_createCCtx();
  encoder.name = name_of;
  opgap_encoder_init(&encoder, rows, count);
  ev_malloc = event_of("malloc");
  ev_free = event_of("free");
  ev_read = event_of("read");
  ev_signal = event_of("pthread_cond_signal");
  ev_wait = event_of("pthread_cond_wait");
  if (mkdir(argv[i], 0700) != 0 && errno != EEXIST)
    die(argv[i]);
  for (unsigned rank = 0; rank < ranks; rank++) {
    write_file(argv[i], wanted / ranks + (wanted % ranks != 0), allocations, rank, (unsigned)ranks);
    written += total;
  }
  printf("%llu records\n", (unsigned long long)written);
  return 0;
}
