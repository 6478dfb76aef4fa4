/* Spans of a trace in order of their start: trees of known shape, GPU activity, filters, names. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ordered.h"
#include "analysis/spans.h"
#include "fake_source.h"
#include "suite.h"

/* ---- trees ---- */

/* A random tree: `post` as a trace holds it, `pre` as it must come out. */
static VEC(struct opgap_record) post, pre;
static uint64_t clock_ns;
static unsigned seed;

static unsigned draw(unsigned below)
{
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % below;
}

static struct opgap_record record_of(unsigned event, unsigned depth)
{
  return (struct opgap_record){
      .event = (uint16_t)event, .depth = (uint8_t)depth, .start_ns = clock_ns, .end_ns = clock_ns};
}

static void grow(unsigned depth, unsigned children)
{
  size_t at = pre.count;
  struct opgap_record op = record_of(OPGAP_EV_OP, depth);
  op.field[1] = at; /* sequence: its place in `pre` */
  *VEC_PUSH(&pre) = op;
  clock_ns += draw(2); /* often the first child begins in the same nanosecond */
  for (unsigned i = 0; i < children; i++) {
    if (depth < 200 && draw(3) == 0) {
      grow(depth + 1, draw(4));
    } else {
      struct opgap_record call = record_of(OPGAP_FIRST_HOOK, depth + 1);
      call.field[1] = pre.count;
      *VEC_PUSH(&pre) = call;
      *VEC_PUSH(&post) = call;
    }
    clock_ns += 1 + draw(3);
  }
  pre.at[at].end_ns = clock_ns;
  *VEC_PUSH(&post) = pre.at[at];
}

static size_t cursor_at;
static void *tree_open(void *context, unsigned process, unsigned stream)
{
  (void)context, (void)process, (void)stream;
  cursor_at = 0;
  return &cursor_at;
}
static size_t tree_batch(void *cursor, const struct opgap_record **records)
{
  (void)cursor;
  size_t count = post.count - cursor_at < 1000 ? post.count - cursor_at : 1000;
  *records = post.at + cursor_at;
  cursor_at += count;
  return count;
}
static void tree_close(void *cursor)
{
  (void)cursor;
}

static void see_nothing(void *context, const struct opgap_record *record)
{
  (void)context, (void)record;
}

/* Reads `post` and compares with `pre`; returns how many large records there were. */
static size_t check_tree(void)
{
  struct opgap_source source = {.cursor_open = tree_open, .cursor_batch = tree_batch, .cursor_close = tree_close};
  struct ordered_stream stream;
  struct opgap_record record;
  size_t count = 0, most = 0;
  ordered_scan(&stream, &source, 0, 0, false, see_nothing, NULL);
  ordered_begin(&stream, 0, 0);
  for (; ordered_next(&stream, &record); count++) {
    if (count >= pre.count || record.field[1] != pre.at[count].field[1] || record.end_ns != pre.at[count].end_ns)
      ck_abort_msg("record %zu of %zu: seed %u", count, pre.count, seed);
    most = stream.held > most ? stream.held : most;
  }
  ck_assert_uint_eq(count, pre.count);
  ck_assert_uint_le(most, ORDERED_WINDOW);
  size_t large = stream.large.count;
  ordered_free(&stream);
  VEC_FREE(&post);
  VEC_FREE(&pre);
  return large;
}

/* The consumer writes counters with depth 0 wherever it is. */
START_TEST(test_counters_adopt_nothing)
{
  struct opgap_record inner = record_of(OPGAP_EV_OP, 1), counter = record_of(OPGAP_EV_COUNTER, 0);
  struct opgap_record outer = record_of(OPGAP_EV_OP, 0);
  inner.field[1] = 2, counter.field[1] = 0, outer.field[1] = 1;
  *VEC_PUSH(&post) = inner, *VEC_PUSH(&post) = counter, *VEC_PUSH(&post) = outer;
  *VEC_PUSH(&pre) = counter, *VEC_PUSH(&pre) = outer, *VEC_PUSH(&pre) = inner;
  ck_assert_uint_eq(check_tree(), 0);
}
END_TEST

START_TEST(test_small_trees)
{
  for (unsigned start = 1; start < 300; start += 7) {
    seed = start;
    for (unsigned root = 0; root < 20; root++)
      grow(0, draw(30));
    ck_assert_uint_eq(check_tree(), 0);
  }
}
END_TEST

/* Roots and inner ops around more records than are ever held back. */
START_TEST(test_large_trees)
{
  seed = 99;
  grow(0, 3);
  grow(0, 200000);
  grow(0, 5);
  ck_assert_uint_eq(check_tree(), 1);
  clock_ns = 0;
  struct opgap_record outer = record_of(OPGAP_EV_OP, 0);
  *VEC_PUSH(&pre) = outer;
  for (unsigned i = 0; i < 40; i++)
    grow(1, i == 20 ? 50000 : 3000);
  pre.at[0].end_ns = clock_ns;
  *VEC_PUSH(&post) = pre.at[0];
  ck_assert_uint_eq(check_tree(), 2);
}
END_TEST

/* ---- spans ---- */

#define NEXT(spans)                                                                                                    \
  ({                                                                                                                   \
    const struct opgap_span *next_ = opgap_spans_next(spans);                                                          \
    ck_assert_ptr_nonnull(next_);                                                                                      \
    next_;                                                                                                             \
  })

static struct opgap_summary *summary;
static struct opgap_source source;

static struct opgap_spans *spans_of(const struct opgap_analysis_options *options,
                                    const struct opgap_spans_filter *filter)
{
  summary = fake_analyse(options);
  source = fake_source();
  return opgap_spans_open(&source, summary, filter);
}

static void done_with(struct opgap_spans *spans)
{
  ck_assert_ptr_null(opgap_spans_next(spans));
  opgap_spans_close(spans);
  opgap_summary_free(summary);
}

static unsigned training(void)
{
  fake_reset();
  unsigned p = fake_process(100, 1, "train");
  unsigned t = fake_thread(p, 100, "train"), g = fake_stream(p, OPGAP_STREAM_GPU);
  fake_file_call(p, t, 2, FAKE_READ, 120, 130, "/data/1", 4096);
  fake_op(p, t, 1, 110, 140, "aten::inner", 0, 0);
  fake_op(p, t, 0, 100, 200, "aten::outer", 0, 0);
  fake_call(p, t, 0, FAKE_MUTEX_LOCK, 210, 260, 0xbeef, 0, 0);
  fake_op(p, t, 0, 300, 301, "aten::short", 0, 0);
  uint64_t kernel = fake_name(p, "_Z4spiny"), launch = fake_name(p, "cudaLaunchKernel");
  fake_record(
      p, g,
      (struct opgap_record){
          .event = OPGAP_EV_KERNEL, .status = 7, .start_ns = 150000, .end_ns = 400000, .field = {kernel, 1, 2, 3}});
  fake_record(
      p, g,
      (struct opgap_record){
          .event = OPGAP_EV_GPU_API, .status = 7, .start_ns = 115000, .end_ns = 118000, .field = {launch, 100, 0}});
  fake_record(p, g,
              (struct opgap_record){.event = OPGAP_EV_GPU_MEMCPY,
                                    .status = 8,
                                    .start_ns = 500000,
                                    .end_ns = 600000,
                                    .field = {1 << 20, 1, 2, 3, 1, 1, 3, 0}});
  return p;
}

START_TEST(test_spans)
{
  training();
  struct opgap_analysis_options options = {0};
  struct opgap_spans *spans = spans_of(&options, NULL);
  const struct opgap_span *s = NEXT(spans);
  uint64_t base = summary->start_ns, value;
  ck_assert_str_eq(s->text, "aten::outer");
  ck_assert_int_eq(s->kind, OPGAP_SPAN_OP);
  ck_assert_uint_eq(s->start_ns, 100000 - base);
  ck_assert_uint_eq(s->end_ns, 200000 - base);
  ck_assert_uint_eq(s->device, OPGAP_NO_DEVICE);
  ck_assert(s->nests && !s->unfinished && s->path == NULL && s->bytes == OPGAP_UNKNOWN);
  s = NEXT(spans);
  ck_assert_str_eq(s->text, "aten::inner");
  ck_assert_uint_eq(s->depth, 1);
  s = NEXT(spans); /* the launch: on its thread though a GPU stream recorded it */
  ck_assert_str_eq(s->text, "cudaLaunchKernel");
  ck_assert_int_eq(s->kind, OPGAP_SPAN_CUDA);
  ck_assert_uint_eq(s->stream, 0);
  ck_assert_int_eq(s->tid, 100);
  ck_assert_uint_eq(s->correlation, 7);
  s = NEXT(spans);
  ck_assert_str_eq(s->text, "read");
  ck_assert_str_eq(s->path, "/data/1");
  ck_assert_uint_eq(s->bytes, 4096);
  s = NEXT(spans);
  ck_assert_str_eq(s->text, "spin(unsigned long long)");
  ck_assert_int_eq(s->kind, OPGAP_SPAN_KERNEL);
  ck_assert_uint_eq(s->device, 1);
  ck_assert_uint_eq(s->context, 2);
  ck_assert_uint_eq(s->gpu_stream, 3);
  ck_assert_uint_eq(s->correlation, 7);
  s = NEXT(spans);
  ck_assert_str_eq(s->text, "pthread_mutex_lock");
  ck_assert_uint_eq(s->address, 0xbeef);
  ck_assert_uint_eq(s->bytes, OPGAP_UNKNOWN);
  ck_assert_str_eq(NEXT(spans)->text, "aten::short");
  s = NEXT(spans);
  ck_assert_str_eq(s->text, "Memcpy HtoD (Pageable -> Device)");
  ck_assert_uint_eq(s->bytes, 1 << 20);
  ck_assert(opgap_span_field(s, "stream", &value) && value == 3);
  ck_assert(!opgap_span_field(s, "no such", &value));
  done_with(spans);
}
END_TEST

START_TEST(test_filters)
{
  unsigned p = training();
  unsigned other = fake_process(200, 1, "other");
  unsigned t = fake_thread(other, 200, "other");
  fake_op(other, t, 0, 100, 200, "aten::elsewhere", 0, 0);
  struct opgap_analysis_options options = {.process = "100"};
  ck_assert_uint_eq(p, 0);
  uint64_t base = fake_info(0)->start_ns;
  struct opgap_spans_filter filter = {.from_ns = 200000 - base, .to_ns = 500000 - base, .min_duration_ns = 2000};
  struct opgap_spans *spans = spans_of(&options, &filter);
  ck_assert_uint_eq(summary->start_ns, base);
  ck_assert_str_eq(NEXT(spans)->text, "spin(unsigned long long)"); /* began before, ends inside */
  ck_assert_str_eq(NEXT(spans)->text, "pthread_mutex_lock");
  done_with(spans);
}
END_TEST

/* One stream alone, and all again. */
START_TEST(test_select)
{
  training();
  struct opgap_analysis_options options = {0};
  struct opgap_spans *spans = spans_of(&options, NULL);
  ck_assert_str_eq(NEXT(spans)->text, "aten::outer");
  opgap_spans_select(spans, 0, 1);
  ck_assert_str_eq(NEXT(spans)->text, "cudaLaunchKernel");
  ck_assert_str_eq(NEXT(spans)->text, "spin(unsigned long long)");
  ck_assert_str_eq(NEXT(spans)->text, "Memcpy HtoD (Pageable -> Device)");
  ck_assert_ptr_null(opgap_spans_next(spans));
  opgap_spans_select(spans, OPGAP_ALL, OPGAP_ALL);
  for (unsigned i = 0; i < 8; i++)
    (void)NEXT(spans);
  done_with(spans);
}
END_TEST

/* What was open when the process died contains what came after it. */
START_TEST(test_unfinished)
{
  fake_reset();
  unsigned p = fake_process(100, 1, "train");
  unsigned t = fake_thread(p, 100, "train");
  fake_op(p, t, 1, 110, 140, "aten::done", 0, 0);
  fake_record(
      p, t,
      (struct opgap_record){
          .event = OPGAP_EV_OPEN_CALL, .depth = 1, .start_ns = 150000, .end_ns = 190000, .field = {FAKE_POLL, 0}});
  fake_record(
      p, t,
      (struct opgap_record){
          .event = OPGAP_EV_OPEN_OP, .start_ns = 100000, .end_ns = 190000, .field = {fake_name(p, "aten::hung")}});
  struct opgap_analysis_options options = {0};
  struct opgap_spans *spans = spans_of(&options, NULL);
  const struct opgap_span *s = NEXT(spans);
  ck_assert_str_eq(s->text, "aten::hung");
  ck_assert(s->unfinished && s->kind == OPGAP_SPAN_OP);
  ck_assert_str_eq(NEXT(spans)->text, "aten::done");
  s = NEXT(spans);
  ck_assert_str_eq(s->text, "poll");
  ck_assert(s->unfinished && s->kind == OPGAP_SPAN_CALL);
  done_with(spans);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("spans");
  TCase *tests = new_case("spans");
  tcase_add_test(tests, test_small_trees);
  tcase_add_test(tests, test_counters_adopt_nothing);
  tcase_add_test(tests, test_large_trees);
  tcase_add_test(tests, test_spans);
  tcase_add_test(tests, test_filters);
  tcase_add_test(tests, test_select);
  tcase_add_test(tests, test_unfinished);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
