/* The merged sequence of streams: complete, in order, by groups, and the same with one and with two threads. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/merge.h"
#include "analysis/pool.h"
#include "suite.h"

#define STREAMS_MOST 40u

struct made_stream {
  VEC(struct opgap_record) records;
  size_t batch; /* records handed out at a time */
};

struct made_cursor {
  struct made_stream *stream;
  size_t next;
  struct opgap_record *batch; /* only valid until the next call, as a trace's */
};

static struct made_stream streams[STREAMS_MOST];
static size_t stream_count, open_cursors, most_open;
static unsigned group_count;
static bool all_tell;     /* when they begin; else every other one does */
static VEC(size_t) reads; /* streams, in the order in which their cursors were read */
static uint64_t seed;

static uint64_t below(uint64_t limit)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % limit;
}

static void *made_open(void *context, unsigned process, unsigned stream)
{
  (void)context, (void)process;
  struct made_cursor *cursor = opgap_xcalloc(1, sizeof *cursor);
  cursor->stream = &streams[stream];
  open_cursors++;
  if (open_cursors > most_open)
    most_open = open_cursors;
  return cursor;
}

static size_t made_batch(void *opaque, const struct opgap_record **records)
{
  struct made_cursor *cursor = opaque;
  size_t left = cursor->stream->records.count - cursor->next;
  size_t count = left < cursor->stream->batch ? left : cursor->stream->batch;
  *VEC_PUSH(&reads) = (size_t)(cursor->stream - streams);
  free(cursor->batch);
  cursor->batch = opgap_xcalloc(count, sizeof *cursor->batch);
  if (count > 0)
    memcpy(cursor->batch, cursor->stream->records.at + cursor->next, count * sizeof *cursor->batch);
  cursor->next += count;
  *records = cursor->batch;
  return count;
}

static void made_close(void *opaque)
{
  struct made_cursor *cursor = opaque;
  free(cursor->batch);
  free(cursor);
  open_cursors--;
}

static const struct opgap_source source = {
    .cursor_open = made_open, .cursor_batch = made_batch, .cursor_close = made_close};

static unsigned group_of(size_t stream)
{
  return (unsigned)stream % group_count;
}

struct wanted {
  size_t streams, records_most;
  uint64_t disorder; /* times may go back by up to this */
  unsigned groups;
  uint64_t unit_ns; /* of times */
};

/* Streams of records whose `status` is their number. */
static void make_streams(struct wanted wanted)
{
  stream_count = wanted.streams;
  group_count = wanted.groups;
  for (size_t i = 0; i < stream_count; i++) {
    size_t records = below(4) ? below(wanted.records_most + 1) : 0; /* one in four is empty */
    uint64_t now = 1000 + below(1000), step = 1 + below(20);
    streams[i].batch = 1 + below(300);
    for (size_t k = 0; k < records; k++) {
      now += below(step); /* equal times are frequent */
      struct opgap_record *r = VEC_PUSH(&streams[i].records);
      r->status = (uint32_t)k;
      r->event = (uint16_t)i;
      r->start_ns = r->end_ns = (now - (wanted.disorder ? below(wanted.disorder) : 0)) * wanted.unit_ns;
    }
  }
}

static void free_streams(void)
{
  for (size_t i = 0; i < stream_count; i++)
    VEC_FREE(&streams[i].records);
}

struct seen {
  VEC(struct opgap_record) records;
  VEC(size_t) reads;
};

static uint64_t earliest(const struct made_stream *stream)
{
  uint64_t end = UINT64_MAX;
  for (size_t i = 0; i < stream->records.count; i++)
    if (stream->records.at[i].end_ns < end)
      end = stream->records.at[i].end_ns;
  return end;
}

static void merge_all(unsigned threads, struct seen *seen)
{
  struct merge_input inputs[STREAMS_MOST];
  const struct opgap_record *records;
  size_t input;
  for (size_t i = 0; i < stream_count; i++)
    inputs[i] = (struct merge_input){0, (unsigned)i, group_of(i), i % 2 || all_tell ? earliest(&streams[i]) : 0};
  struct merge *merge = merge_begin(&source, inputs, stream_count, threads);
  for (size_t count; (count = merge_next(merge, &input, &records)) > 0;)
    for (size_t i = 0; i < count; i++) {
      EACH_ASSERT_UINT(records[i].event, ==, input);
      *VEC_PUSH(&seen->records) = records[i];
    }
  merge_end(merge);
  ck_assert_uint_eq(open_cursors, 0);
  for (size_t i = 0; i < reads.count; i++)
    *VEC_PUSH(&seen->reads) = reads.at[i];
  reads.count = 0;
}

struct key {
  uint64_t slice;
  unsigned group;
  uint64_t latest; /* end that the stream had so far */
};

static bool before(struct key left, struct key right)
{
  if (left.slice != right.slice)
    return left.slice < right.slice;
  return left.group != right.group ? left.group < right.group : left.latest < right.latest;
}

/* Each record once, those of a stream in their order, and by slice, group and time. */
static void check_order(const struct seen *seen)
{
  size_t next[STREAMS_MOST] = {0}, total = 0;
  uint64_t latest[STREAMS_MOST] = {0};
  struct key last = {0};
  for (size_t i = 0; i < seen->records.count; i++) {
    const struct opgap_record *r = &seen->records.at[i];
    EACH_ASSERT_UINT(r->status, ==, next[r->event]++);
    if (r->end_ns > latest[r->event])
      latest[r->event] = r->end_ns;
    struct key key = {group_count > 1 ? latest[r->event] / MERGE_SLICE_NS : 0, group_of(r->event), latest[r->event]};
    EACH_ASSERT(!before(key, last));
    last = key;
  }
  for (size_t i = 0; i < stream_count; i++) {
    ck_assert_uint_eq(next[i], streams[i].records.count);
    total += streams[i].records.count;
  }
  ck_assert_uint_eq(seen->records.count, total);
}

static void check_both(struct wanted wanted)
{
  struct seen one = {0}, two = {0};
  make_streams(wanted);
  merge_all(1, &one);
  merge_all(2, &two);
  check_order(&one);
  ck_assert_uint_eq(one.records.count, two.records.count);
  ck_assert_uint_eq(one.reads.count, two.reads.count);
  for (size_t i = 0; i < one.records.count; i++)
    EACH_ASSERT(memcmp(&one.records.at[i], &two.records.at[i], sizeof one.records.at[i]) == 0);
  for (size_t i = 0; i < one.reads.count; i++)
    EACH_ASSERT_UINT(one.reads.at[i], ==, two.reads.at[i]);
  VEC_FREE(&one.records);
  VEC_FREE(&one.reads);
  VEC_FREE(&two.records);
  VEC_FREE(&two.reads);
  free_streams();
}

START_TEST(test_in_order)
{
  seed = (uint64_t)_i;
  check_both((struct wanted){.streams = 1 + below(STREAMS_MOST), .records_most = 600, .groups = 1, .unit_ns = 1});
}
END_TEST

START_TEST(test_times_go_back)
{
  seed = (uint64_t)_i + 1000;
  check_both(
      (struct wanted){.streams = 1 + below(8), .records_most = 2000, .disorder = 500, .groups = 1, .unit_ns = 1});
}
END_TEST

/* From a few thousand records a slice down to less than one, in and out of order. */
START_TEST(test_groups)
{
  seed = (uint64_t)_i + 2000;
  uint64_t unit_ns = 1;
  for (int i = 0; i < _i % 9; i++)
    unit_ns *= 10;
  check_both((struct wanted){.streams = 1 + below(STREAMS_MOST),
                             .records_most = 600,
                             .disorder = _i % 2 ? 500 : 0,
                             .groups = 2 + (unsigned)below(12),
                             .unit_ns = unit_ns});
}
END_TEST

/* More than the queue holds, so that the reading thread has to wait. */
START_TEST(test_long)
{
  seed = 7;
  check_both((struct wanted){.streams = 3, .records_most = 100000, .groups = 1, .unit_ns = 1});
}
END_TEST

/* Threads one after the other: one cursor at a time. */
START_TEST(test_one_after_the_other)
{
  seed = 11;
  stream_count = STREAMS_MOST;
  group_count = 1;
  for (size_t i = 0; i < stream_count; i++)
    for (size_t k = 0; k < 50; k++) {
      struct opgap_record *r = VEC_PUSH(&streams[i].records);
      r->status = (uint32_t)k;
      r->event = (uint16_t)i;
      r->start_ns = r->end_ns = 1000 + i * 100 + k;
    }
  for (size_t i = 0; i < stream_count; i++)
    streams[i].batch = 7;
  most_open = 0;
  all_tell = true;
  struct seen seen = {0};
  merge_all(1, &seen);
  check_order(&seen);
  ck_assert_uint_eq(most_open, 1);
  VEC_FREE(&seen.records);
  VEC_FREE(&seen.reads);
  free_streams();
}
END_TEST

START_TEST(test_nothing)
{
  check_both((struct wanted){.groups = 1, .unit_ns = 1});
  check_both((struct wanted){.streams = 3, .groups = 2, .unit_ns = 1});
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("merge");
  TCase *tests = new_case("merge");
  tcase_add_loop_test(tests, test_in_order, 0, 30);
  tcase_add_loop_test(tests, test_times_go_back, 0, 30);
  tcase_add_loop_test(tests, test_groups, 0, 18);
  tcase_add_test(tests, test_long);
  tcase_add_test(tests, test_one_after_the_other);
  tcase_add_test(tests, test_nothing);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
