/* Host memory: who made what lived at the peak, growth with its interval, churn, failed allocations. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/line.h"
#include "analysis/live.h"
#include "fake_source.h"
#include "suite.h"

#define US 1000ull

static unsigned p, t;

static void setup(void)
{
  fake_reset();
  p = fake_process(100, 1, "python train.py");
  t = fake_thread(p, 100, "python");
}

static void with_events(void)
{
  fake_setting(p, "OPGAP_ALLOC", "events");
}

static void allocate(unsigned thread, unsigned depth, uint64_t at, uint64_t address, uint64_t bytes)
{
  fake_call(p, thread, depth, FAKE_MALLOC, at, at, address, bytes, 0);
}

static void release(unsigned thread, unsigned depth, uint64_t at, uint64_t address)
{
  fake_call(p, thread, depth, FAKE_FREE, at, at, address, 0, 0);
}

static const struct opgap_sum_lived *lived(const struct opgap_summary *s, int tid, const char *op)
{
  for (size_t i = 0; i < s->memory.lived_count; i++)
    if (s->memory.lived[i].tid == tid && strcmp(s->memory.lived[i].op, op) == 0)
      return &s->memory.lived[i];
  ck_abort_msg("nothing of %s on thread %d", op, tid);
}

static void assert_lived(const struct opgap_summary *s, int tid, const char *op, uint64_t bytes, uint64_t blocks)
{
  ck_assert_uint_eq(lived(s, tid, op)->bytes, bytes);
  ck_assert_uint_eq(lived(s, tid, op)->blocks, blocks);
}

/* The peak is at 50 us: 1000 bytes outside of ops, 200 of the inner op, 300 of the outer one, 40 of a second thread
 * whose op has not ended then.  Before that more blocks were alive, but fewer bytes; what comes later is smaller. */
START_TEST(test_alive_at_the_peak)
{
  unsigned second = fake_thread(p, 101, "loader");
  with_events();
  allocate(t, 0, 10, 0x1000, 1000);
  allocate(t, 1, 15, 0x1800, 7);
  release(t, 1, 16, 0x1800);
  allocate(t, 2, 20, 0x2000, 200);
  fake_op(p, t, 1, 18, 30, "aten::empty", 0, 0);
  allocate(second, 1, 40, 0x4000, 40);
  allocate(t, 1, 50, 0x3000, 300);
  fake_op(p, t, 0, 12, 60, "aten::add", 0, 0);
  fake_op(p, second, 0, 35, 70, "aten::stack", 0, 0);
  release(t, 0, 80, 0x2000);
  release(t, 0, 90, 0x1000);
  allocate(t, 0, 95, 0x1000, 900);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.peak_bytes, 1540);
  ck_assert_uint_eq(s->memory.live_bytes, 1240);
  ck_assert_uint_eq(s->memory.peak_count, 1);
  ck_assert_uint_eq(s->memory.peaks[0].bytes, 1540);
  ck_assert_uint_eq(s->memory.peaks[0].at_ns, 50 * US - s->start_ns);
  ck_assert_uint_eq(s->memory.lived_count, 4);
  assert_lived(s, 100, "", 1000, 1);
  assert_lived(s, 100, "aten::empty", 200, 1);
  assert_lived(s, 100, "aten::add", 300, 1);
  assert_lived(s, 101, "aten::stack", 40, 1);
  ck_assert_str_eq(s->memory.lived[0].op, ""); /* largest first */
  opgap_summary_free(s);
}
END_TEST

/* Large blocks whose place is known apart: what an op's own place does not replace stays with each, the peak too. */
START_TEST(test_places_of_large_blocks)
{
  struct live live = {0};
  struct live_waiting waiting = {0};
  enum { THREAD = 7, OP = 20, OTHER = 21, LINE = 30, SECOND = 31, OF_OP = 32 };
  live_add(&live, &waiting, THREAD, 1, 0x1000, 1000, 10);
  live_placed(&live, &waiting, THREAD, 1, 1000, LINE);
  live_add(&live, &waiting, THREAD, 1, 0x2000, 10, 20); /* a small one */
  live_add(&live, &waiting, THREAD, 1, 0x3000, 2000, 30);
  live_placed(&live, &waiting, THREAD, 1, 2000, SECOND);
  live_add(&live, &waiting, THREAD, 1, 0x4000, 500, 40);
  live_placed(&live, &waiting, THREAD, 1, 500, LINE); /* the peak: 3510 */
  live_release(&live, 0x3000);
  live_add(&live, &waiting, THREAD, 1, 0x5000, 40, 50); /* no peak */
  live_placed(&live, &waiting, THREAD, 1, 40, SECOND);
  live_placed(&live, &waiting, THREAD, 1, 41, LINE); /* of another size: not the block made last */
  live_op_ended(&live, &waiting, THREAD, 0, OP, 0);
  live_add(&live, &waiting, THREAD, 1, 0x6000, 5000, 60); /* the peak: 6550 */
  live_placed(&live, &waiting, THREAD, 1, 5000, LINE);
  live_op_ended(&live, &waiting, THREAD, 0, OTHER, OF_OP);
  live_add(&live, &waiting, THREAD, 0, 0x7000, 100, 70); /* outside of ops; the peak: 6650 */
  live_placed(&live, &waiting, THREAD, 0, 100, SECOND);
  live_finish(&live);
  static const struct {
    uint32_t op, place;
    uint64_t bytes, count;
  } expected[] = {
      {OP, LINE, 1500, 2}, {OP, 0, 10, 1}, {OP, SECOND, 40, 1}, {OTHER, OF_OP, 5000, 1}, {0, SECOND, 100, 1},
  };
  ck_assert_uint_eq(live.peak_bytes, 6650);
  uint64_t seen = 0;
  for (size_t i = 0; i < live.owners.count; i++) {
    const struct live_owner *o = &live.owners.at[i];
    if (o->site != 0 || (o->bytes == 0 && o->peak_bytes == 0))
      continue;
    unsigned k = 0;
    while (k < 5 && (expected[k].op != o->op || expected[k].place != o->place))
      k++;
    ck_assert_uint_lt(k, 5);
    ck_assert_uint_eq(o->thread, THREAD);
    ck_assert_uint_eq(o->bytes, expected[k].bytes);
    ck_assert_uint_eq(o->count, expected[k].count);
    ck_assert_uint_eq(o->peak_bytes, expected[k].bytes); /* the last peak is what is alive now */
    ck_assert_uint_eq(o->peak_count, expected[k].count);
    seen += o->peak_bytes;
  }
  ck_assert_uint_eq(seen, 6650);
  live_free(&live);
  free(waiting.at);
}
END_TEST

/* A block that is placed after the peak was it, and one after a peak of before. */
START_TEST(test_places_and_peaks)
{
  struct live live = {0};
  struct live_waiting waiting = {0}, other = {0};
  live_add(&live, &waiting, 1, 0, 0x1000, 1000, 10);
  live_add(&live, &other, 2, 0, 0x2000, 500, 11); /* a peak of another thread before the stack is recorded */
  live_placed(&live, &waiting, 1, 0, 1000, 30);
  live_release(&live, 0x2000);
  live_add(&live, &waiting, 1, 0, 0x3000, 200, 20); /* 1200: no peak */
  live_placed(&live, &waiting, 1, 0, 200, 31);
  live_finish(&live);
  ck_assert_uint_eq(live.peak_bytes, 1500);
  for (size_t i = 0; i < live.owners.count; i++) {
    const struct live_owner *o = &live.owners.at[i];
    if (o->site == 0)
      ck_assert_uint_eq(o->peak_bytes, o->thread == 2 ? 500 : o->place == 30 ? 1000 : 0);
  }
  live_free(&live);
}
END_TEST

/* Blocks of an op that never ended are its thread's. */
START_TEST(test_alive_inside_an_op_that_never_ended)
{
  with_events();
  allocate(t, 3, 20, 0x2000, 200);
  allocate(t, 0, 30, 0x1000, 100);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.lived_count, 1);
  assert_lived(s, 100, "", 300, 2);
  opgap_summary_free(s);
}
END_TEST

/* A lock is named by what made the block around it when it was first waited for; the op is known later. */
START_TEST(test_locks_in_blocks)
{
  static const struct {
    uint64_t object;
    const char *block;
  } expected[] = {
      {0x1050, "96 bytes by thread 100 (python) in aten::empty"}, /* its last 16 bytes */
      {0x1060, ""},                                               /* behind its end */
      {0x2000, "40 bytes by thread 100 (python)"},                /* outside of ops */
      {0x3000, ""},                                               /* in a block that was given back */
      {0x10000 + LIVE_REACH, "65536 bytes by thread 100 (python)"},
      {0x10010 + LIVE_REACH, ""}, /* too far behind its start to be looked for */
  };
  with_events();
  allocate(t, 0, 1, 0x2000, 40);
  allocate(t, 0, 2, 0x3000, 40);
  release(t, 0, 3, 0x3000);
  allocate(t, 0, 4, 0x10000, 65536);
  allocate(t, 1, 10, 0x1000, 96);
  for (unsigned i = 0; i < 6; i++)
    fake_call(p, t, 1, FAKE_MUTEX_LOCK, 20 + 100 * i, 110 + 100 * i - i, expected[i].object, 0, 0);
  release(t, 1, 700, 0x1000); /* its owner has no block left, and a new one comes in its place */
  allocate(t, 1, 710, 0x1000, 8);
  fake_call(p, t, 1, FAKE_MUTEX_LOCK, 720, 721, 0x1050, 0, 0);
  fake_op(p, t, 0, 5, 800, "aten::empty", 0, 0);
  release(t, 0, 810, 0x1000);
  allocate(t, 1, 820, 0x1000, 96);
  fake_op(p, t, 0, 815, 900, "aten::add", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->lock_count, 6);
  for (unsigned i = 0; i < 6; i++) { /* by wait, largest first */
    ck_assert_uint_eq(s->locks[i].object, expected[i].object);
    ck_assert_str_eq(s->locks[i].block, expected[i].block);
  }
  opgap_summary_free(s);
}
END_TEST

/* A realloc that fails leaves the block as it was. */
START_TEST(test_failed_realloc_keeps_the_block)
{
  with_events();
  allocate(t, 0, 10, 0x1000, 1000);
  fake_call(p, t, 0, FAKE_MALLOC, 20, 20, 0x1000, OPGAP_ALLOC_RELEASED, 0);
  fake_call(p, t, 0, FAKE_MALLOC, 21, 21, 0x1000, 1ull << 60, 12);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.live_bytes, 1000);
  ck_assert_uint_eq(s->memory.peak_bytes, 1000);
  ck_assert_uint_eq(s->memory.failure_count, 1);
  ck_assert_uint_eq(s->memory.failures[0].bytes, 1ull << 60);
  opgap_summary_free(s);
}
END_TEST

/* Each of 40 steps keeps 100 bytes of one op; another's 5000 bytes live from the first step on and a third's for one
 * step each. */
START_TEST(test_growth_by_op)
{
  with_events();
  for (uint64_t i = 0; i < 40; i++) {
    uint64_t at = 1000 + 1000 * i;
    allocate(t, 1, at + 10, 0x100000 + i * 256, 100);
    fake_op(p, t, 0, at, at + 20, "aten::cat", 0, 0);
    if (i == 0)
      allocate(t, 1, at + 30, 0x1000, 5000);
    fake_op(p, t, 0, at + 25, at + 40, "aten::empty", 0, 0);
    if (i > 0)
      release(t, 0, at + 50, 0x2000 + (i - 1) % 2 * 4096);
    allocate(t, 1, at + 60, 0x2000 + i % 2 * 4096, 3000);
    fake_op(p, t, 0, at + 55, at + 70, "aten::mul", 0, 0);
    fake_step(p, t, at + 900);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_lived *leak = lived(s, 100, "aten::cat");
  ck_assert_uint_eq(leak->growth_points, 30); /* steps 11 to 40 */
  ck_assert_double_eq_tol(leak->growth_bytes, 100, 1e-9);
  ck_assert_double_eq_tol(leak->growth_low, 100, 1e-6);
  ck_assert_double_eq_tol(leak->growth_high, 100, 1e-6);
  ck_assert_uint_eq(lived(s, 100, "aten::empty")->growth_points, 30);
  ck_assert_double_eq_tol(lived(s, 100, "aten::empty")->growth_bytes, 0, 1e-9);
  ck_assert_double_eq_tol(lived(s, 100, "aten::mul")->growth_bytes, 0, 1e-9);
  ck_assert_str_eq(s->memory.growth_of, "live bytes");
  ck_assert_double_eq_tol(s->memory.growth_bytes, 100, 1e-9);
  ck_assert_double_eq_tol(s->memory.growth_low, 100, 1e-6);
  ck_assert_str_eq(s->memory.churn_of, "all allocations");
  ck_assert_uint_eq(s->memory.churn_count, 2);
  ck_assert_uint_eq(s->memory.churn_bytes, 3100);
  opgap_summary_free(s);
}
END_TEST

/* Two updates a step, each keeps 100 bytes: figures are of the step. */
START_TEST(test_growth_of_rounds)
{
  with_events();
  for (uint64_t i = 0; i < 40; i++) {
    uint64_t at = 1000 + 1000 * i;
    allocate(t, 1, at + 10, 0x100000 + i * 256, 100);
    fake_op(p, t, 0, at, at + 20, "aten::cat", 0, 0);
    for (uint64_t k = 0; k < 1 + i % 2; k++)
      fake_op(p, t, 0, at + 30 + 10 * k, at + 40 + 10 * k, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 800, at + 900, "Optimizer.step#Adam.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 20);
  ck_assert_uint_eq(lived(s, 100, "aten::cat")->growth_points, 15); /* updates 11 to 40 */
  ck_assert_double_eq_tol(lived(s, 100, "aten::cat")->growth_bytes, 200, 1e-9);
  ck_assert_double_eq_tol(s->memory.growth_bytes, 200, 1e-9);
  ck_assert_uint_eq(s->memory.churn_count, 2);
  ck_assert_uint_eq(s->memory.churn_bytes, 200);
  opgap_summary_free(s);
}
END_TEST

/* Marks that count more come after many that count less, as those of a thread that was started before: the line goes
 * through the steps of the report alone. */
START_TEST(test_growth_by_better_marks)
{
  with_events();
  for (uint64_t i = 0; i < 60; i++)
    fake_user_op(p, t, 0, 10 + 10 * i, 15 + 10 * i, "ProfilerStep#7");
  for (uint64_t i = 0; i < 40; i++) {
    uint64_t at = 1000 + 1000 * i;
    allocate(t, 1, at + 10, 0x100000 + i * 256, 100);
    fake_op(p, t, 0, at, at + 20, "aten::cat", 0, 0);
    fake_step(p, t, at + 900);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 40);
  ck_assert_uint_eq(lived(s, 100, "aten::cat")->growth_points, 30);
  ck_assert_double_eq_tol(lived(s, 100, "aten::cat")->growth_bytes, 100, 1e-9);
  opgap_summary_free(s);
}
END_TEST

/* Steps inside the op that makes the blocks: its name comes when all of them are done. */
START_TEST(test_growth_inside_an_op)
{
  with_events();
  for (uint64_t i = 0; i < 40; i++) {
    allocate(t, 1, 1010 + 1000 * i, 0x100000 + i * 256, 100);
    fake_step(p, t, 1900 + 1000 * i);
  }
  fake_op(p, t, 0, 1000, 50000, "aten::train", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(lived(s, 100, "aten::train")->growth_points, 30);
  ck_assert_double_eq_tol(lived(s, 100, "aten::train")->growth_bytes, 100, 1e-9);
  opgap_summary_free(s);
}
END_TEST

/* More blocks than the first table of them holds, given back in the order of their sizes. */
START_TEST(test_many_blocks)
{
  enum { BLOCKS = 5000 };
  with_events();
  for (uint64_t i = 0; i < BLOCKS; i++)
    allocate(t, 0, 10 + i, 0x100000 + i * 4096, 1 + i);
  for (uint64_t i = 0; i < BLOCKS / 2; i++)
    release(t, 0, 10 + BLOCKS + i, 0x100000 + i * 4096);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.peak_bytes, BLOCKS * (BLOCKS + 1) / 2);
  ck_assert_uint_eq(s->memory.live_bytes, BLOCKS * (BLOCKS + 1) / 2 - BLOCKS / 2 * (BLOCKS / 2 + 1) / 2);
  opgap_summary_free(s);
}
END_TEST

/* An address that comes again was given back, though that was not recorded. */
START_TEST(test_address_comes_again)
{
  with_events();
  allocate(t, 0, 10, 0x1000, 1000);
  allocate(t, 0, 20, 0x1000, 400);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.live_bytes, 400);
  ck_assert_uint_eq(s->memory.peak_bytes, 1000);
  opgap_summary_free(s);
}
END_TEST

/* 10 points on y = 10 x, off by 1 in turn: slope and interval by the textbook (t of 8 degrees: 2.306). */
START_TEST(test_interval_of_a_slope)
{
  struct line line = {0};
  struct line_fit fit;
  for (int i = 0; i < 10; i++)
    line_add(&line, i, 10 * i + (i % 2 ? 1 : -1));
  ck_assert(line_fit(&line, &fit));
  ck_assert_double_eq_tol(fit.slope, 10.060606, 1e-6);
  ck_assert_double_eq_tol(fit.error, 0.121212, 1e-6);
  ck_assert_double_eq_tol(line_half_width(&line, &fit), 0.279516, 0.0001);
  ck_assert_double_eq_tol(line_half_width(&line, &fit), 0.2794656, 1e-7); /* the expansion by its four terms */
  struct line run = {0}, single = {0};
  line_add_run(&run, 7, 5, 3);
  line_add_run(&run, 12, 4, 9);
  for (int i = 7; i < 16; i++)
    line_add(&single, i, i < 12 ? 3 : 9);
  ck_assert(line_fit(&single, &fit));
  double slope = fit.slope, error = fit.error;
  ck_assert(line_fit(&run, &fit));
  ck_assert_double_eq_tol(fit.slope, slope, 1e-12);
  ck_assert_double_eq_tol(fit.error, error, 1e-12);
}
END_TEST

/* Memory that wanders: a wave of one period over the steps.  Neighbours deviate alike, so the interval holds 0, which
 * that of independent deviations (0.33 to 1.18 MiB a step) would not. */
START_TEST(test_a_wave_is_no_growth)
{
  static const int wave[] = {6, 4, 2, 0, 0, 0, 2, 4, 6, 9, 12, 15, 18, 20, 22, 24, 24, 24, 22, 20, 18, 15, 12, 9, 6};
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (uint64_t i = 0; i < 25; i++) {
    fake_record(p, stream,
                (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                      .start_ns = (5000 + 10000 * i) * US,
                                      .end_ns = (5000 + 10000 * i) * US,
                                      .field = {(uint64_t)(100 + wave[i]) << 20}});
    fake_step(p, t, 10000 * (i + 1));
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->memory.growth_of, "resident memory");
  ck_assert_double_gt(s->memory.growth_bytes, 0);
  ck_assert_double_lt(s->memory.growth_low, 0);
  opgap_summary_free(s);
}
END_TEST

/* Without events: what ops of all threads say, children not twice. */
START_TEST(test_churn_inside_ops)
{
  unsigned second = fake_thread(p, 101, "autograd");
  for (uint64_t i = 0; i < 20; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_op(p, t, 1, at, at + 100, "aten::empty", 2, 200);
    fake_op(p, t, 0, at, at + 200, "aten::add", 3, 350);
    fake_op(p, second, 0, at + 300, at + 400, "autograd::engine::evaluate_function: AddBackward0", 4, 1000 + i);
    fake_step(p, t, at + 900);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->memory.churn_of, "inside ops");
  ck_assert_uint_eq(s->memory.churn_steps, 19);
  ck_assert_uint_eq(s->memory.churn_count, 7);
  ck_assert_uint_eq(s->memory.churn_bytes, 1360); /* of 1351 to 1369 */
  ck_assert_uint_eq(s->memory.peak_bytes, OPGAP_UNKNOWN);
  ck_assert_uint_eq(s->memory.lived_count, 0);
  opgap_summary_free(s);
}
END_TEST

/* Two steps are recorded, two are not: from the second of a window to the first of the next is no step, and what was
 * allocated there is no step's. */
START_TEST(test_churn_of_windows)
{
  fake_setting(p, "OPGAP_SCHEDULE", "wait=2,active=2");
  for (uint64_t i = 0; i < 20; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_op(p, t, 0, at, at + 200, "aten::add", i % 2 ? 3 : 500, i % 2 ? 350 : 90000);
    fake_step(p, t, at + 900);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 10); /* the second mark of each window */
  ck_assert_uint_eq(s->memory.churn_steps, 0);
  ck_assert_str_eq(s->memory.churn_of, "");
  ck_assert_uint_eq(s->memory.churn_count, OPGAP_UNKNOWN);
  opgap_summary_free(s);
}
END_TEST

/* The first steps are warm-up: what they allocate does not count. */
START_TEST(test_churn_without_warm_up)
{
  for (uint64_t i = 0, at = 1000; i < 20; i++) {
    uint64_t length = i < 4 ? 3000 : 1000; /* a fifth of all, and slow */
    fake_op(p, t, 0, at, at + 200, "aten::add", i < 4 ? 900 : 3 + i % 2, i < 4 ? 90000 : 350 + i % 2);
    at += length;
    fake_step(p, t, at);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.skipped, 4);
  ck_assert_uint_eq(s->memory.churn_steps, 16);
  ck_assert_uint_eq(s->memory.churn_count, 3);
  ck_assert_uint_eq(s->memory.churn_bytes, 350);
  opgap_summary_free(s);
}
END_TEST

/* A loop without marks has no counts at its ends; a program without ops and events has nothing to count. */
START_TEST(test_churn_unknown)
{
  for (int ops = 0; ops < 2; ops++) {
    setup();
    for (uint64_t i = 0; i < 30; i++) {
      uint64_t at = 1000 + 1000 * i;
      if (ops) {
        fake_op(p, t, 0, at, at + 200, "aten::add", 3, 350);
        fake_op(p, t, 0, at + 200, at + 300, "aten::mul", 3, 350);
      } else {
        fake_step(p, t, at);
      }
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_str_eq(s->steps.source, ops ? "periodicity" : "opgap_step");
    ck_assert_str_eq(s->memory.churn_of, "");
    ck_assert_uint_eq(s->memory.churn_count, OPGAP_UNKNOWN);
    ck_assert_uint_eq(s->memory.churn_bytes, OPGAP_UNKNOWN);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_failed_allocation)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  fake_record(
      p, stream,
      (struct opgap_record){.event = OPGAP_EV_MEMORY, .start_ns = 5 * US, .end_ns = 5 * US, .field = {7 << 20}});
  fake_op(p, t, 0, 10, 1000, "aten::mul", 0, 0);
  fake_file_call(p, t, 0, FAKE_READ, 1200, 1500, "/d/x", 9);
  fake_call(p, t, 2, FAKE_MALLOC, 3500, 3500, 0, 1 << 30, 12);
  fake_op(p, t, 1, 3000, 4000, "aten::empty", 0, 0);
  fake_op(p, t, 0, 2000, 5000, "aten::zeros", 0, 0);
  fake_call(p, t, 0, FAKE_CUDA_MALLOC, 6000, 6100, 0, 1 << 20, 2);
  fake_call(p, t, 0, FAKE_CUDA_MALLOC, 6200, 6300, 0, 1 << 20, 1); /* an invalid value is no want of memory */
  fake_call(p, t, 0, FAKE_SLEEP, 7000, 8000, 0, 0, 4);             /* nor is this */
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.failure_count, 2);
  const struct opgap_sum_failure *f = s->memory.failures;
  ck_assert_str_eq(f->call, "malloc");
  ck_assert_str_eq(f->op, "aten::empty");
  ck_assert_str_eq(f->thread, "python");
  ck_assert_uint_eq(f->bytes, 1 << 30);
  ck_assert_uint_eq(f->at_ns, 3500 * US - s->start_ns);
  ck_assert_int_eq(f->error, 12);
  ck_assert_uint_eq(f->live_bytes, OPGAP_UNKNOWN);
  ck_assert_uint_eq(f->rss_bytes, 7 << 20);
  ck_assert_uint_eq(f->last_count, 2);
  ck_assert_str_eq(f->last[0], "read, ended 2.000 ms before");
  ck_assert_str_eq(f->last[1], "aten::mul, ended 2.500 ms before");
  ck_assert_str_eq(f[1].call, "cudaMalloc");
  ck_assert_str_eq(f[1].op, "");
  ck_assert_int_eq(f[1].error, 2);
  opgap_summary_free(s);
}
END_TEST

static void cuda_malloc(unsigned stream, uint32_t correlation, uint64_t at_us, const char *name, uint64_t result)
{
  fake_record(p, stream,
              (struct opgap_record){.event = OPGAP_EV_GPU_API,
                                    .status = correlation,
                                    .start_ns = at_us * US,
                                    .end_ns = (at_us + 10) * US,
                                    .field = {fake_name(p, name), 100, result}});
}

/* CUPTI tells of CUDA calls on a stream of its own: the thread, the op around and what was before are found by time. */
START_TEST(test_failures_by_cupti)
{
  unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU);
  fake_op(p, t, 1, 3000, 4000, "aten::empty", 0, 0);
  fake_op(p, t, 0, 2000, 5000, "aten::zeros", 0, 0);
  fake_op(p, t, 0, 6000, 7000, "aten::mul", 0, 0);
  fake_op(p, t, 0, 8000, 9000, "aten::cat", 0, 0);
  cuda_malloc(gpu, 1, 4500, "cudaMalloc", 2); /* asked again, and had */
  cuda_malloc(gpu, 2, 4600, "cudaMalloc", 0);
  cuda_malloc(gpu, 3, 6500, "cudaMalloc", 2);
  cuda_malloc(gpu, 3, 6501, "cuMemAlloc", 2); /* the driver's call inside it */
  cuda_malloc(gpu, 4, 6600, "cudaMallocHost", 0);
  cuda_malloc(gpu, 5, 8100, "cudaMalloc", 1); /* an invalid value */
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.device_retries, 1);
  ck_assert_uint_eq(s->memory.failure_count, 1);
  const struct opgap_sum_failure *f = s->memory.failures;
  ck_assert_str_eq(f->call, "cudaMalloc");
  ck_assert_str_eq(f->op, "aten::mul");
  ck_assert_int_eq(f->tid, 100);
  ck_assert_int_eq(f->error, 2);
  ck_assert_uint_eq(f->bytes, OPGAP_UNKNOWN);
  ck_assert_uint_eq(f->last_count, 1); /* of ops inside ops the outer ones are remembered */
  ck_assert_str_eq(f->last[0], "aten::zeros, ended 1.510 ms before");
  opgap_summary_free(s);
}
END_TEST

static void left_open(unsigned thread, uint8_t depth, uint64_t start, const char *name)
{
  fake_record(p, thread,
              (struct opgap_record){.event = OPGAP_EV_OPEN_OP,
                                    .depth = depth,
                                    .start_ns = start * US,
                                    .end_ns = 9000 * US,
                                    .field = {fake_name(p, name)}});
}

/* The process was killed inside ops: what failed in them has their names, what failed before or on another thread has
 * not. */
START_TEST(test_failures_in_ops_that_never_ended)
{
  unsigned second = fake_thread(p, 101, "loader");
  fake_call(p, t, 0, FAKE_MALLOC, 100, 100, 0, 1, 12);
  fake_call(p, t, 1, FAKE_MALLOC, 300, 300, 0, 2, 12);
  fake_call(p, second, 0, FAKE_MALLOC, 400, 400, 0, 3, 12);
  fake_call(p, second, 1, FAKE_MALLOC, 600, 600, 0, 4, 12);
  fake_call(p, t, 2, FAKE_MALLOC, 700, 700, 0, 5, 12);
  left_open(t, 1, 350, "aten::empty");
  left_open(t, 0, 200, "aten::zeros");
  left_open(second, 0, 500, "aten::stack");
  struct opgap_summary *s = fake_analyse(NULL);
  static const char *const ops[] = {"", "aten::zeros", "", "aten::stack", "aten::empty"};
  ck_assert_uint_eq(s->memory.failure_count, 5);
  for (size_t i = 0; i < 5; i++)
    ck_assert_str_eq(s->memory.failures[i].op, ops[i]);
  opgap_summary_free(s);
}
END_TEST

/* Of many failures the first 8 and the last 8 stay. */
START_TEST(test_many_failures)
{
  for (uint64_t i = 0; i < 100; i++)
    fake_call(p, t, 0, FAKE_MALLOC, 10 + i, 10 + i, 0, 1000 + i, 12);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.failure_count, 16);
  for (uint64_t i = 0; i < 16; i++)
    ck_assert_uint_eq(s->memory.failures[i].bytes, 1000 + (i < 8 ? i : 84 + i));
  opgap_summary_free(s);
}
END_TEST

/* Owners of blocks that did not outlive their op are used again. */
START_TEST(test_owners_are_reused)
{
  struct live l = {0};
  struct live_waiting w = {0};
  for (uint64_t i = 0; i < 10000; i++) {
    live_add(&l, &w, 0, 1, 0x1000, 64, i);
    ck_assert_uint_eq(live_release(&l, 0x1000), 64);
    live_add(&l, &w, 0, 2, 0x2000, 8, i);
    live_op_ended(&l, &w, 0, 1, 5, 0);
    live_op_ended(&l, &w, 0, 0, 6, 0);
    live_release(&l, 0x2000);
  }
  ck_assert_uint_le(l.owners.count, 4);
  ck_assert_uint_eq(l.peak_bytes, 64);
  live_free(&l);
  free(w.at);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("memory");
  TCase *tests = new_case("memory");
  tcase_add_checked_fixture(tests, setup, NULL);
  tcase_add_test(tests, test_alive_at_the_peak);
  tcase_add_test(tests, test_alive_inside_an_op_that_never_ended);
  tcase_add_test(tests, test_places_of_large_blocks);
  tcase_add_test(tests, test_places_and_peaks);
  tcase_add_test(tests, test_locks_in_blocks);
  tcase_add_test(tests, test_failed_realloc_keeps_the_block);
  tcase_add_test(tests, test_growth_by_op);
  tcase_add_test(tests, test_growth_of_rounds);
  tcase_add_test(tests, test_growth_by_better_marks);
  tcase_add_test(tests, test_growth_inside_an_op);
  tcase_add_test(tests, test_many_blocks);
  tcase_add_test(tests, test_address_comes_again);
  tcase_add_test(tests, test_interval_of_a_slope);
  tcase_add_test(tests, test_a_wave_is_no_growth);
  tcase_add_test(tests, test_churn_inside_ops);
  tcase_add_test(tests, test_churn_of_windows);
  tcase_add_test(tests, test_churn_without_warm_up);
  tcase_add_test(tests, test_churn_unknown);
  tcase_add_test(tests, test_failed_allocation);
  tcase_add_test(tests, test_failures_by_cupti);
  tcase_add_test(tests, test_failures_in_ops_that_never_ended);
  tcase_add_test(tests, test_many_failures);
  tcase_add_test(tests, test_owners_are_reused);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
