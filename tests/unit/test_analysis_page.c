/* What a page is drawn from: levels of detail, sets of spans, the call tree, and what happened over time. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/levels.h"
#include "fake_source.h"
#include "suite.h"

#define US 1000ull

static unsigned p, t;
static struct opgap_source source;
static struct opgap_summary *summary;
static struct opgap_spans *spans;
static struct opgap_levels *levels;

static void begin(void)
{
  fake_reset();
  p = fake_process(100, 1, "train");
  t = fake_thread(p, 100, "train");
}

static void make(const struct opgap_window *windows, size_t count, size_t limit)
{
  struct opgap_analysis_options options = {.flame = true};
  summary = fake_analyse(&options);
  source = fake_source();
  spans = opgap_spans_open(&source, summary, NULL);
  levels = opgap_levels_make(spans, summary, windows, count, limit, NULL, NULL);
}

static void end(void)
{
  opgap_levels_free(levels);
  opgap_spans_close(spans);
  opgap_summary_free(summary);
}

static const struct opgap_level_track *track_of(enum opgap_track_kind kind)
{
  for (size_t i = 0; i < levels->track_count; i++)
    if (levels->tracks[i].kind == kind)
      return &levels->tracks[i];
  ck_abort_msg("no such track");
}

static uint64_t covered(const struct opgap_level_track *track, unsigned lane)
{
  uint64_t ns = 0;
  for (uint32_t i = 0; i < levels->bin_count; i++)
    ns += track->bins[lane][i].ns;
  return ns;
}

static const struct opgap_level_span *span_named(const struct opgap_level_set *set, const char *name)
{
  for (size_t i = 0; i < set->count; i++)
    if (strcmp(levels->entries[set->spans[i].entry].text, name) == 0)
      return &set->spans[i];
  return NULL;
}

#define NAMES 200
static char names[NAMES][8]; /* the fake source keeps no copies */

static void name_all(void)
{
  for (unsigned i = 0; i < NAMES; i++)
    snprintf(names[i], sizeof names[i], "op %u", i);
}

/* ---- levels ---- */

/* A bin has the exact time, and the entry with most of it, also of three; three levels deep. */
START_TEST(test_bins)
{
  begin();
  for (uint64_t i = 0; i < 4096; i++) { /* a bin is about 1000 us */
    fake_op(p, t, 1, 1000 * i + 100, 1000 * i + 400, "small", 0, 0);
    fake_op(p, t, 1, 1000 * i + 400, 1000 * i + 850, i % 2 ? "odd" : "even", 0, 0);
    fake_op(p, t, 0, 1000 * i + 100, 1000 * i + 900, "outer", 0, 0);
  }
  make(NULL, 0, 1000000);
  const struct opgap_level_track *track = track_of(OPGAP_TRACK_THREAD);
  ck_assert_uint_eq(levels->track_count, 1);
  ck_assert_uint_eq(levels->bin_count, 4096);
  ck_assert_uint_eq(levels->spans, 3 * 4096);
  ck_assert_uint_eq(track->spans, 3 * 4096);
  ck_assert_uint_eq(track->lanes, 2);
  ck_assert_uint_eq(track->ns, 4096 * 800 * US);
  ck_assert_uint_eq(covered(track, 0), 4096 * 800 * US);
  ck_assert_uint_eq(covered(track, 1), 4096 * 750 * US);
  ck_assert_ptr_null(track->bins[2]);
  struct opgap_level_bin four = {0};
  for (unsigned i = 0; i < 4; i++) {
    const struct opgap_level_bin *bin = &track->bins[1][2000 + i];
    unsigned best = 0;
    for (unsigned k = 1; k < OPGAP_BIN_ENTRIES; k++)
      if (bin->weight[k] > bin->weight[best])
        best = k;
    ck_assert_uint_ge(bin->ns, 740 * US); /* the bins are a little wider than the pattern */
    ck_assert_uint_le(bin->ns, 760 * US);
    ck_assert_str_ne(levels->entries[bin->entry[best]].text, "small");
    opgap_level_bin_merge(&four, bin);
  }
  unsigned best = 0;
  for (unsigned k = 1; k < OPGAP_BIN_ENTRIES; k++)
    if (four.weight[k] > four.weight[best])
      best = k;
  ck_assert_str_eq(levels->entries[four.entry[best]].text, "small"); /* 4 x 300 us against 2 x 450 us of each other */
  ck_assert_uint_ge(four.ns, 2990 * US);
  end();
}
END_TEST

/* Entries that share a bin with many others still win when they have more than a quarter. */
START_TEST(test_crowded_bin)
{
  begin();
  name_all();
  for (unsigned i = 0; i < 1000; i++) {
    fake_op(p, t, 0, 1000 + 10 * i, 1000 + 10 * i + 6, names[i % NAMES], 0, 0);
    fake_op(p, t, 0, 1000 + 10 * i + 6, 1000 + 10 * i + 10, "often", 0, 0); /* 40 % */
  }
  fake_op(p, t, 0, 100000000, 100000001, "late", 0, 0); /* 100 s: all of the above is in one bin */
  make(NULL, 0, 1000000);
  const struct opgap_level_bin *bin = &track_of(OPGAP_TRACK_THREAD)->bins[0][0];
  unsigned best = 0;
  for (unsigned k = 1; k < OPGAP_BIN_ENTRIES; k++)
    if (bin->weight[k] > bin->weight[best])
      best = k;
  ck_assert_uint_eq(bin->ns, 10000 * US);
  ck_assert_str_eq(levels->entries[bin->entry[best]].text, "often");
  end();
}
END_TEST

/* Set 0 keeps the longest; a window keeps all that touches it, up to its own limit. */
START_TEST(test_sets)
{
  begin();
  for (unsigned i = 0; i < 10000; i++)
    fake_op(p, t, 0, 100 * (uint64_t)i, 100 * (uint64_t)i + 1 + i % 90, i % 90 == 89 ? "long" : "op", 0, 0);
  uint64_t base = fake_info(p)->start_ns;
  struct opgap_window windows[] = {{500000 * US - base, 501000 * US - base, "window", 1000},
                                   {0, 1000000 * US, "small", 50}};
  make(windows, 2, 1000);
  ck_assert_uint_eq(levels->set_count, 3);
  const struct opgap_level_set *all = &levels->sets[0], *window = &levels->sets[1], *small = &levels->sets[2];
  ck_assert_uint_le(all->count, 1000);
  ck_assert_uint_ge(all->count, 300);
  ck_assert_uint_eq(all->count + all->left_out, 10000);
  size_t longest = 0;
  for (size_t i = 0; i < all->count; i++) {
    ck_assert_uint_ge(all->spans[i].end_ns - all->spans[i].start_ns, all->min_ns);
    ck_assert(i == 0 || all->spans[i].start_ns >= all->spans[i - 1].end_ns);
    longest += strcmp(levels->entries[all->spans[i].entry].text, "long") == 0;
  }
  ck_assert_uint_eq(longest, 111); /* all of them */
  ck_assert_uint_eq(window->min_ns, 0);
  ck_assert_uint_eq(window->left_out, 0);
  ck_assert_uint_eq(window->count, 10);
  for (size_t i = 0; i < window->count; i++)
    ck_assert_uint_eq(window->spans[i].start_ns, (500000 + 100 * i) * US - summary->start_ns);
  ck_assert_uint_le(small->count, 50);
  ck_assert_uint_gt(small->min_ns, 0);
  ck_assert_str_eq(window->label, "window");
  end();
}
END_TEST

/* CUDA calls stand inside the op that made them; kernels that overlap on one stream have lanes of their own. */
START_TEST(test_lanes)
{
  begin();
  unsigned g = fake_stream(p, OPGAP_STREAM_GPU);
  uint64_t kernel = fake_name(p, "_Z4spiny"), launch = fake_name(p, "cudaLaunchKernel");
  fake_call(p, t, 2, FAKE_MALLOC, 112, 113, 0x1000, 64, 0);
  fake_op(p, t, 1, 105, 150, "aten::mm", 0, 0);
  fake_op(p, t, 0, 100, 200, "aten::linear", 0, 0);
  fake_record(
      p, g,
      (struct opgap_record){
          .event = OPGAP_EV_GPU_API, .status = 7, .start_ns = 111000, .end_ns = 118000, .field = {launch, 100, 0}});
  for (uint64_t i = 0; i < 3; i++)
    fake_record(p, g,
                (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                      .status = 7,
                                      .start_ns = 120000 + 10000 * i,
                                      .end_ns = 145000 + 10000 * i,
                                      .field = {kernel, 1, 2, 3}});
  make(NULL, 0, 1000);
  const struct opgap_level_set *all = &levels->sets[0];
  ck_assert_uint_eq(levels->track_count, 2);
  ck_assert_uint_eq(span_named(all, "aten::linear")->lane, 0);
  ck_assert_uint_eq(span_named(all, "aten::mm")->lane, 1);
  ck_assert_uint_eq(span_named(all, "cudaLaunchKernel")->lane, 2);
  ck_assert_uint_eq(span_named(all, "malloc")->lane, 3); /* during the launch */
  const struct opgap_level_track *gpu = track_of(OPGAP_TRACK_GPU);
  ck_assert_uint_eq(gpu->device, 1);
  ck_assert_uint_eq(gpu->context, 2);
  ck_assert_uint_eq(gpu->gpu_stream, 3);
  ck_assert_uint_eq(gpu->lanes, 3);
  ck_assert_uint_eq(gpu->spans, 3);
  end();
}
END_TEST

/* ---- call tree ---- */

static const struct opgap_sum_flame_node *node_named(const char *name, uint32_t parent)
{
  for (size_t i = 0; i < summary->flame.count; i++)
    if (strcmp(summary->flame.nodes[i].name, name) == 0 && summary->flame.nodes[i].parent == parent)
      return &summary->flame.nodes[i];
  return NULL;
}

START_TEST(test_flame)
{
  begin();
  for (uint64_t i = 0; i < 3; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_op(p, t, 2, at + 10, at + 20, "copy", 0, 0);
    fake_op(p, t, 1, at + 5, at + 40, "mm", 0, 0);
    fake_op(p, t, 1, at + 50, at + 60, "copy", 0, 0);
    fake_op(p, t, 0, at, at + 100, "linear", 0, 0);
    fake_op(p, t, 0, at + 200, at + 230, "copy", 0, 0);
  }
  fake_op(p, t, 1, 9000, 9010, "orphan", 0, 0); /* what is around it never ended */
  make(NULL, 0, 1000);
  ck_assert_uint_eq(summary->flame.count, 6);
  ck_assert_uint_eq(summary->flame.left_out, 0);
  const struct opgap_sum_flame_node *nodes = summary->flame.nodes, *linear = node_named("linear", UINT32_MAX);
  uint32_t outer = (uint32_t)(linear - nodes), mm = (uint32_t)(node_named("mm", outer) - nodes);
  ck_assert_uint_eq(outer, 0); /* the largest first */
  ck_assert_uint_eq(linear->calls, 3);
  ck_assert_uint_eq(linear->total_cpu_ns, 300 * US);
  ck_assert_uint_eq(linear->self_cpu_ns, 3 * 55 * US);
  ck_assert_uint_eq(nodes[mm].self_cpu_ns, 3 * 25 * US);
  ck_assert_uint_eq(node_named("copy", mm)->total_cpu_ns, 30 * US);
  ck_assert_uint_eq(node_named("copy", outer)->total_cpu_ns, 30 * US);
  ck_assert_uint_eq(node_named("copy", UINT32_MAX)->calls, 3);
  ck_assert_uint_eq(node_named("orphan", UINT32_MAX)->total_cpu_ns, 10 * US);
  end();
}
END_TEST

/* More distinct stacks than are kept: counted, and what is kept stays right. */
START_TEST(test_flame_limit)
{
  begin();
  name_all();
  for (unsigned i = 0; i < NAMES; i++) {
    for (unsigned k = 0; k < NAMES; k++)
      fake_op(p, t, 1, 10 * (uint64_t)(NAMES * i + k), 10 * (uint64_t)(NAMES * i + k) + 5, names[k], 0, 0);
    fake_op(p, t, 0, 10 * (uint64_t)NAMES * i, 10 * (uint64_t)NAMES * (i + 1), names[i], 0, 0);
  }
  make(NULL, 0, 10);
  unsigned kept = OPGAP_FLAME_NODES / (NAMES + 1); /* outer ops with all that is inside them */
  ck_assert_uint_eq(summary->flame.count, kept * (NAMES + 1));
  ck_assert_uint_eq(summary->flame.left_out, (NAMES - kept) * (NAMES + 1));
  uint64_t sum = 0;
  for (size_t i = 0; i < summary->flame.count; i++)
    sum += summary->flame.nodes[i].self_cpu_ns;
  ck_assert_uint_eq(sum, kept * NAMES * 10 * US);
  end();
}
END_TEST

/* ---- over time ---- */

START_TEST(test_over_time)
{
  begin();
  fake_call(p, t, 0, FAKE_SLEEP, 10000, 50000, 0, 0, 0);
  fake_call(p, t, 0, FAKE_SLEEP, 60000, 62000, 0, 0, 0);
  fake_op(p, t, 0, 90000, 100000, "last", 0, 0);
  make(NULL, 0, 10);
  const struct opgap_sum_over_time *o = &summary->over_time;
  uint64_t sum = 0, at = 20000 * US - summary->start_ns; /* inside the first sleep */
  ck_assert_ptr_nonnull(o->thread_cause_ns);
  for (size_t i = 0; i < OPGAP_OVER_TIME_BUCKETS; i++)
    sum += o->thread_cause_ns[i][OPGAP_CAUSE_SLEEP];
  ck_assert_uint_eq(sum, 42000 * US);
  ck_assert_uint_eq(o->thread_cause_ns[at / o->bucket_ns][OPGAP_CAUSE_SLEEP], o->bucket_ns);
  ck_assert_uint_eq(o->device_count, 0);
  end();
}
END_TEST

START_TEST(test_gpu_over_time)
{
  begin();
  unsigned g = fake_stream(p, OPGAP_STREAM_GPU);
  uint64_t kernel = fake_name(p, "spin");
  fake_op(p, t, 0, 0, 100000, "all", 0, 0);
  for (uint64_t i = 0; i < 10; i++)
    fake_record(p, g,
                (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                      .status = (uint32_t)i + 1,
                                      .start_ns = 10000000 * i + 1000000,
                                      .end_ns = 10000000 * i + 5000000,
                                      .field = {kernel, 0, 1, 7}});
  make(NULL, 0, 100);
  const struct opgap_sum_over_time *o = &summary->over_time;
  uint64_t busy = 0, idle = 0;
  ck_assert_uint_eq(o->device_count, 1);
  for (size_t i = 0; i < OPGAP_OVER_TIME_BUCKETS; i++) {
    uint64_t here = o->devices[0].busy_ns[i];
    for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
      idle += o->devices[0].cause_ns[i][c], here += o->devices[0].cause_ns[i][c];
    ck_assert_uint_le(here, o->bucket_ns);
    busy += o->devices[0].busy_ns[i];
  }
  ck_assert_uint_eq(busy, 10 * 4000 * US);
  ck_assert_uint_eq(busy, summary->gpus[0].busy_ns);
  ck_assert_uint_eq(idle, 9 * 6000 * US);
  ck_assert_uint_eq(idle, summary->gaps.gpu_ns);
  end();
}
END_TEST

/* 2,500 steps: sums of two each, which add up to the table's, warm-up apart. */
START_TEST(test_course)
{
  begin();
  for (uint64_t i = 0; i < 2500; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_user_op(p, t, 0, at, at + 100, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_op(p, t, 0, at + 100, at + 600, "aten::conv2d", 0, 0);
    fake_user_op(p, t, 0, at + 700, at + 900, "Optimizer.step#SGD.step");
  }
  make(NULL, 0, 10);
  const struct opgap_sum_breakdown *b = &summary->breakdown;
  ck_assert_uint_eq(b->bucket_steps, 2);
  ck_assert_uint_eq(b->bucket_count, 1250);
  ck_assert_uint_eq(b->buckets[1][OPGAP_CLASS_CPU_EXEC], 2 * 700 * US);
  ck_assert_uint_eq(b->buckets[1][OPGAP_CLASS_OTHER], 2 * 200 * US);
  uint64_t sum = 0;
  for (size_t i = 0; i < b->bucket_count; i++)
    sum += b->buckets[i][OPGAP_CLASS_CPU_EXEC];
  ck_assert_uint_eq(sum, 2500 * 700 * US);
  ck_assert_uint_eq(b->class_ns[OPGAP_CLASS_CPU_EXEC], (2500 - summary->steps.skipped) * 700 * US);
  end();
}
END_TEST

/* At most 512 samples, and the highest is among them. */
START_TEST(test_memory_course)
{
  begin();
  unsigned s = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (uint64_t i = 0; i < 5000; i++)
    fake_record(p, s,
                (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                      .start_ns = 1000000 * (i + 1),
                                      .end_ns = 1000000 * (i + 1),
                                      .field = {i == 3333 ? 1 << 30 : 1 << 20}});
  fake_op(p, t, 0, 0, 5000, "op", 0, 0);
  make(NULL, 0, 10);
  ck_assert_uint_eq(summary->memory_course_count, 1);
  const struct opgap_sum_memory_course *course = &summary->memory_courses[0];
  ck_assert_int_eq(course->pid, 100);
  ck_assert_uint_le(course->count, 512);
  ck_assert_uint_ge(course->count, 256);
  size_t high = 0;
  for (size_t i = 0; i < course->count; i++) {
    ck_assert(i == 0 || course->time_ns[i] > course->time_ns[i - 1]);
    if (course->rss_bytes[i] == 1 << 30) {
      high++;
      ck_assert_uint_eq(course->time_ns[i], 3334000000u - summary->start_ns);
    }
  }
  ck_assert_uint_eq(high, 1);
  end();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("page");
  TCase *tests = new_case("page");
  tcase_add_test(tests, test_bins);
  tcase_add_test(tests, test_crowded_bin);
  tcase_add_test(tests, test_sets);
  tcase_add_test(tests, test_lanes);
  tcase_add_test(tests, test_flame);
  tcase_add_test(tests, test_flame_limit);
  tcase_add_test(tests, test_over_time);
  tcase_add_test(tests, test_gpu_over_time);
  tcase_add_test(tests, test_course);
  tcase_add_test(tests, test_memory_course);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
