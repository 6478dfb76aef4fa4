/* Records through the encoder and back through a cursor, field by field: those of fixed patterns, whose times are
 * predicted and whose ring form is short, beside those that have none. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "format/arena.h"
#include "format/encode.h"
#include "format/reader.h"
#include "suite.h"

#define RECORDS 7000u
#define TICKS_HIGH 5u

static struct opgap_encoder encoder;
static uint64_t words[OPGAP_ENCODE_MAX_WORDS];
static size_t word_count;
static struct opgap_record wanted[RECORDS];
static unsigned wanted_count;
static uint64_t seed;
static FILE *file;
static uint32_t sequence;
static char path[] = "/tmp/opgap-patterns-XXXXXX";

static uint64_t draw(uint64_t limit)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % limit;
}

static const char *name_of(void *context, uint32_t id, uint32_t *length)
{
  static char text[16];
  (void)context;
  *length = (uint32_t)snprintf(text, sizeof text, "name %u", id);
  return text;
}

static void write_chunk(uint16_t type, const uint8_t *bytes, size_t size, uint32_t records)
{
  static uint8_t stored[OPGAP_ENCODE_BUFFER + OPGAP_ENCODE_BUFFER / 64];
  size_t n = ZSTD_compress(stored, sizeof stored, bytes, size, 1);
  ck_assert(!ZSTD_isError(n));
  struct opgap_chunk_header header = {.magic = OPGAP_CHUNK_MAGIC,
                                      .type = type,
                                      .header_bytes = sizeof header,
                                      .serial = type == OPGAP_CHUNK_RECORDS,
                                      .sequence = ++sequence,
                                      .stored_bytes = (uint32_t)n,
                                      .raw_bytes = (uint32_t)size,
                                      .records = records,
                                      .payload_crc = opgap_crc32(0, stored, n),
                                      .tid = 1,
                                      .kind = OPGAP_STREAM_THREAD};
  header.header_crc = opgap_crc32(0, &header, offsetof(struct opgap_chunk_header, header_crc));
  ck_assert_uint_eq(fwrite(&header, sizeof header, 1, file), 1);
  ck_assert_uint_eq(fwrite(stored, n, 1, file), 1);
}

static void begin_file(void)
{
  static uint8_t schema[64 * 1024];
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  file = fdopen(fd, "w");
  struct opgap_file_header header = {.start_ns = 1, .pid = 1};
  opgap_seal_file_header(&header);
  ck_assert_uint_eq(fwrite(&header, sizeof header, 1, file), 1);
  encoder.name = name_of;
  opgap_encoder_init(&encoder, NULL, 0);
  write_chunk(OPGAP_CHUNK_SCHEMA, schema, opgap_encode_schema(&encoder, schema, sizeof schema), 0);
}

/* What was added since the last chunk. */
static void end_chunk(void)
{
  static uint8_t raw[OPGAP_ENCODE_BUFFER];
  opgap_encode_begin(&encoder, NULL);
  ck_assert_uint_eq(opgap_encode_add(&encoder, words, word_count, TICKS_HIGH, OPGAP_ENCODE_MAX_WORDS), word_count);
  struct opgap_encoded encoded = opgap_encode_end(&encoder, raw);
  ck_assert_uint_eq(encoded.invalid, 0);
  write_chunk(OPGAP_CHUNK_RECORDS, raw, encoded.bytes, encoded.records);
  word_count = 0;
}

static void compare(void)
{
  char error[512];
  ck_assert_int_eq(fclose(file), 0);
  struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
  ck_assert_msg(trace != NULL, "%s", error);
  struct opgap_cursor *cursor = opgap_cursor_open(trace, 0, 0);
  for (unsigned i = 0; i < wanted_count; i++) {
    const struct opgap_record *record = opgap_cursor_next(cursor), *want = &wanted[i];
    ck_assert_msg(record != NULL, "record %u is missing", i);
    ck_assert_uint_eq(record->event, want->event);
    ck_assert_uint_eq(record->depth, want->depth);
    ck_assert_uint_eq(record->status, want->status);
    ck_assert_uint_eq(record->start_ns, want->start_ns);
    ck_assert_uint_eq(record->end_ns, want->end_ns);
    for (unsigned f = 0; f < OPGAP_MAX_FIELDS; f++)
      ck_assert_uint_eq(record->field[f], want->field[f]);
  }
  ck_assert_ptr_null(opgap_cursor_next(cursor));
  ck_assert_uint_eq(opgap_trace_process(trace, 0)->invalid_records, 0);
  opgap_cursor_close(cursor);
  opgap_trace_close(trace);
  unlink(path);
}

/* An op or range as the tracer would write it: short if it fits. */
static void add_op(struct opgap_record r)
{
  uint64_t *w = words + word_count;
  uint64_t length = r.end_ns - r.start_ns;
  if (r.end_ns >> 32 == TICKS_HIGH &&
      opgap_op_excess(length, r.field[3], r.field[2], r.field[4], r.status, r.field[1]) == 0) {
    struct opgap_short_op *op = (struct opgap_short_op *)w;
    *op = (struct opgap_short_op){.head = (uint32_t)OPGAP_WORD0(r.event, OPGAP_SHORT_OP_WORDS, r.depth, 0),
                                  .end = (uint32_t)r.end_ns,
                                  .length = (uint32_t)length,
                                  .name = (uint32_t)r.field[0],
                                  .sequence = (int32_t)r.field[1],
                                  .stack = (uint32_t)r.field[5],
                                  .alloc_bytes = (uint32_t)r.field[3],
                                  .counts = opgap_short_counts(r.field[2], r.field[4], r.status)};
    word_count += OPGAP_SHORT_OP_WORDS;
  } else {
    w[0] = OPGAP_WORD0(r.event, 9, r.depth, r.status);
    w[1] = r.start_ns;
    w[2] = r.end_ns;
    memcpy(w + 3, r.field, 6 * sizeof *w);
    word_count += 9;
  }
  wanted[wanted_count++] = r;
}

static void add_instant(uint8_t depth, uint64_t time, uint64_t name)
{
  uint64_t *w = words + word_count;
  w[0] = OPGAP_WORD0(OPGAP_EV_MARK, 3, depth, 0);
  w[1] = time;
  w[2] = name;
  word_count += 3;
  wanted[wanted_count++] =
      (struct opgap_record){.event = OPGAP_EV_MARK, .depth = depth, .start_ns = time, .end_ns = time, .field = {name}};
}

#define BASE ((uint64_t)TICKS_HIGH << 32)

/* The tree of a training's steps: children before their parents, sequences that go on, fall and are missing. */
START_TEST(steps)
{
  uint64_t now = BASE, number = 100;
  begin_file();
  for (unsigned step = 0; step < 300; step++) {
    uint64_t starts[4];
    for (unsigned d = 0; d < 4; d++)
      starts[d] = now += 10 + draw(50);
    for (unsigned d = 4; d-- > 0;) {
      for (unsigned i = 0; d > 0 && i < draw(3); i++) {
        uint64_t start = now += draw(40);
        now += 200 + draw(100);
        add_op((struct opgap_record){.event = OPGAP_EV_OP,
                                     .depth = (uint8_t)(d + 1),
                                     .status = i,
                                     .start_ns = start,
                                     .end_ns = now,
                                     .field = {8 * (d + 1), OPGAP_NO_SEQUENCE, 3, 1u << d, 1, 0}});
        if (draw(10) == 0)
          add_instant((uint8_t)(d + 1), now += 5, 999);
      }
      now += draw(30);
      number += d == 2 ? 1 : d == 1 ? (uint64_t)-2 : 0;
      add_op((struct opgap_record){.event = d == 0 ? OPGAP_EV_RANGE : OPGAP_EV_OP,
                                   .depth = (uint8_t)d,
                                   .status = 1,
                                   .start_ns = starts[d],
                                   .end_ns = now,
                                   .field = {8 * (d + 100), d == 3 ? OPGAP_NO_SEQUENCE : number, 0, 0, 16383, 8}});
    }
    if (step % 100 == 99)
      end_chunk();
  }
  compare();
}
END_TEST

/* Values at the edges of what a short record and a pattern hold, in any order, with times that no program has. */
START_TEST(edges)
{
  static const uint64_t values[] = {0,          1,          127,        128,        16383,      16384,
                                    0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, 1ull << 63, UINT64_MAX};
  static const uint32_t statuses[] = {0, 1, 15, 16, UINT32_MAX};
  static const uint64_t times[] = {0, 1, BASE, BASE + 1, BASE + 0xffffffff, BASE - 1, 1ull << 63, UINT64_MAX};
  enum { VALUES = sizeof values / sizeof *values, TIMES = sizeof times / sizeof *times };
  begin_file();
  for (unsigned i = 0; i < 3000; i++) {
    if (draw(8) == 0)
      add_instant((uint8_t)draw(256), times[draw(TIMES)], draw(50));
    else
      add_op((struct opgap_record){.event = draw(2) ? OPGAP_EV_OP : OPGAP_EV_RANGE,
                                   .depth = (uint8_t)draw(256),
                                   .status = statuses[draw(5)],
                                   .start_ns = times[draw(TIMES)],
                                   .end_ns = times[draw(TIMES)],
                                   .field = {draw(4) ? 8 : 0, values[draw(VALUES)], values[draw(VALUES)],
                                             values[draw(VALUES)], values[draw(VALUES)], draw(3)}});
    if (i % 1000 == 999)
      end_chunk();
  }
  compare();
}
END_TEST

/* More different ops than a chunk has fixed patterns for: the others are loose, and those that repeat stay fixed. */
START_TEST(too_many)
{
  begin_file();
  for (unsigned i = 0; i < 3 * OPGAP_FIXED_MAX; i++) {
    uint64_t start = BASE + 1000 * i;
    add_op((struct opgap_record){.event = OPGAP_EV_OP,
                                 .depth = 1,
                                 .start_ns = start,
                                 .end_ns = start + 500,
                                 .field = {8, i, 1, i % 3 ? i : 5, 1, 0}});
  }
  end_chunk();
  ck_assert_uint_eq(encoder.fixed_count, OPGAP_FIXED_MAX);
  ck_assert_uint_gt(encoder.loose, 0);
  ck_assert_uint_lt(encoder.loose, encoder.records);
  compare();
}
END_TEST

/* A chunk for no file. */
static void begin_alone(void)
{
  encoder.name = name_of;
  opgap_encoder_init(&encoder, NULL, 0);
  opgap_encode_begin(&encoder, NULL);
}

/* What a step costs: its ops repeat, and their times nearly. */
START_TEST(bytes)
{
  static uint8_t raw[OPGAP_ENCODE_BUFFER];
  uint64_t now = BASE;
  begin_alone();
  for (unsigned i = 0; i < 5000; i++) {
    uint64_t start = now += 100 + draw(20);
    now += 300 + draw(20);
    add_op((struct opgap_record){.event = OPGAP_EV_OP,
                                 .start_ns = start,
                                 .end_ns = now,
                                 .field = {8 * (1 + i % 50), OPGAP_NO_SEQUENCE, i % 50, 100 * (i % 50), 1, 0}});
  }
  opgap_encode_add(&encoder, words, word_count, TICKS_HIGH, OPGAP_ENCODE_MAX_WORDS);
  struct opgap_encoded encoded = opgap_encode_end(&encoder, raw);
  ck_assert_uint_eq(encoded.records, 5000);
  ck_assert_uint_eq(encoder.loose, 0);
  ck_assert_uint_eq(encoder.fixed_count, 50);
  ck_assert_uint_le(encoded.bytes, 3 * 5000 + 50 * (OPGAP_FIXED_ROW + 20)); /* pattern, lead and tail: a byte each */
}
END_TEST

/* A lead follows from the op and the one before: the same ops in two orders, by turns, with other times. */
START_TEST(pairs)
{
  static uint8_t raw[OPGAP_ENCODE_BUFFER];
  uint64_t now = BASE;
  begin_alone();
  for (unsigned i = 0; i < 4000; i++) {
    bool other = i / 10 % 2;
    uint64_t start = now += (other ? 9000 : 100) + draw(20);
    now += 300 + draw(20);
    add_op((struct opgap_record){.event = OPGAP_EV_OP,
                                 .start_ns = start,
                                 .end_ns = now,
                                 .field = {8 * (1 + i * (other ? 3 : 1) % 10), OPGAP_NO_SEQUENCE, 1, 100, 1, 0}});
  }
  opgap_encode_add(&encoder, words, word_count, TICKS_HIGH, OPGAP_ENCODE_MAX_WORDS);
  ck_assert_uint_eq(opgap_encode_end(&encoder, raw).records, 4000);
  ck_assert_uint_le(encoder.lead_end - encoder.lead_column, 4000 + 50); /* a byte each, but for the first of a pair */
}
END_TEST

static void reset(void)
{
  seed = 1;
  sequence = wanted_count = 0;
  word_count = 0;
  memcpy(path + sizeof path - 7, "XXXXXX", 6);
}

int main(void)
{
  Suite *suite = suite_create("patterns");
  TCase *tests = new_case("patterns");
  tcase_add_checked_fixture(tests, reset, NULL);
  tcase_add_test(tests, steps);
  tcase_add_test(tests, edges);
  tcase_add_test(tests, too_many);
  tcase_add_test(tests, bytes);
  tcase_add_test(tests, pairs);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
