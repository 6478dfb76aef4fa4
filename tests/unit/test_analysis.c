/* The analysis on traces made up in memory: every figure is known beforehand. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "fake_source.h"
#include "suite.h"

#define US 1000ull

static unsigned p, t; /* the process and thread that most tests use */

static void setup(void)
{
  fake_reset();
  p = fake_process(100, 1, "python train.py");
  t = fake_thread(p, 100, "python");
}

static const struct opgap_sum_op *op_named(const struct opgap_summary *s, const char *name, enum opgap_op_kind kind)
{
  for (size_t i = 0; i < s->op_count; i++)
    if (strcmp(s->ops[i].name, name) == 0 && s->ops[i].kind == kind)
      return &s->ops[i];
  ck_abort_msg("no op %s", name);
}

static const struct opgap_sum_call *call_named(const struct opgap_summary *s, const char *name)
{
  for (size_t i = 0; i < s->call_count; i++)
    if (strcmp(s->calls[i].name, name) == 0)
      return &s->calls[i];
  ck_abort_msg("no call %s", name);
}

static uint64_t causes_sum(const struct opgap_sum_cause *causes, size_t count)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += causes[i].ns;
  return sum;
}

static uint64_t cause_ns(const struct opgap_sum_cause *causes, size_t count, enum opgap_cause cause, const char *detail)
{
  for (size_t i = 0; i < count; i++)
    if (causes[i].cause == cause && strcmp(causes[i].detail, detail) == 0)
      return causes[i].ns;
  return 0;
}

/* ---- ops ---- */

START_TEST(test_self_total_blocked)
{
  /* outer [0,100] holds inner [10,40] and a read [50,70]; inner holds a read [15,20] */
  fake_file_call(p, t, 2, FAKE_READ, 1015, 1020, "/a", 5);
  fake_op(p, t, 1, 1010, 1040, "aten::inner", 2, 20);
  fake_file_call(p, t, 1, FAKE_READ, 1050, 1070, "/a", 7);
  fake_op(p, t, 0, 1000, 1100, "aten::outer", 5, 50);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_op *outer = op_named(s, "aten::outer", OPGAP_OP_TORCH);
  const struct opgap_sum_op *inner = op_named(s, "aten::inner", OPGAP_OP_TORCH);
  ck_assert_uint_eq(outer->calls, 1);
  ck_assert_uint_eq(outer->self_cpu_ns, 70 * US);
  ck_assert_uint_eq(outer->total_cpu_ns, 100 * US);
  ck_assert_uint_eq(outer->blocked_ns, 25 * US);
  ck_assert_uint_eq(outer->alloc_count, 5);
  ck_assert_uint_eq(outer->alloc_bytes, 50);
  ck_assert_uint_eq(outer->self_gpu_ns, OPGAP_UNKNOWN);
  ck_assert_uint_eq(inner->self_cpu_ns, 30 * US);
  ck_assert_uint_eq(inner->blocked_ns, 5 * US);
  const struct opgap_sum_op *read = op_named(s, "read", OPGAP_OP_CALL);
  ck_assert_uint_eq(read->calls, 2);
  ck_assert_uint_eq(read->self_cpu_ns, 25 * US);
  opgap_summary_free(s);
}
END_TEST

static void fake_process_faults(uint64_t at_us, unsigned stream, unsigned closes, uint64_t minor, uint64_t major)
{
  fake_record(p, stream,
              (struct opgap_record){.event = OPGAP_EV_PROCESS_FAULTS,
                                    .status = closes,
                                    .start_ns = at_us * US,
                                    .end_ns = at_us * US,
                                    .field = {minor, major}});
}

static void fake_faults(uint64_t at_us, uint32_t event, uint64_t minor, uint64_t major)
{
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_FAULTS,
                                    .status = event,
                                    .start_ns = at_us * US,
                                    .end_ns = at_us * US,
                                    .field = {minor, major}});
}

/* They are of the op whose record came before, also where its Python line is known; of no op with status 0. */
START_TEST(test_page_faults_of_ops)
{
  fake_op(p, t, 1, 1010, 1400, "aten::inner", 0, 0);
  fake_faults(1400, OPGAP_EV_OP, 300, 2);
  fake_op(p, t, 0, 1000, 1900, "aten::outer", 0, 0);
  fake_faults(1900, OPGAP_EV_OP, 5, 0);
  fake_op(p, t, 0, 5000, 5400, "aten::inner", 0, 0);
  fake_faults(5400, 0, 70, 1);
  fake_op(p, t, 0, 6000, 6400, "aten::inner", 0, 0);
  fake_faults(6400, OPGAP_EV_OP, 30, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_op *outer = op_named(s, "aten::outer", OPGAP_OP_TORCH);
  const struct opgap_sum_op *inner = op_named(s, "aten::inner", OPGAP_OP_TORCH);
  ck_assert_uint_eq(outer->minor_faults, 5);
  ck_assert_uint_eq(outer->major_faults, 0);
  ck_assert_uint_eq(inner->minor_faults, 330);
  ck_assert_uint_eq(inner->major_faults, 2);
  ck_assert_uint_eq(s->other_minor_faults, 70);
  ck_assert_uint_eq(s->other_major_faults, 1);
  ck_assert_uint_eq(s->start_minor_faults + s->start_major_faults, 0);
  ck_assert_uint_eq(s->rest_minor_faults + s->rest_major_faults, 0); /* not known without the process's count */
  opgap_summary_free(s);
}
END_TEST

/* All that the process counted while it was recorded is in one row: of an op, of none, before the first op, or of the
 * threads that run none.  Samples stand in for the end that a killed process did not see; none counts outside. */
START_TEST(test_page_faults_of_a_process)
{
  for (unsigned killed = 0; killed < 2; killed++) {
    if (killed)
      setup();
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    fake_process_faults(900, t, 0, 1000, 10);
    fake_faults(950, OPGAP_EV_THREAD_START, 40, 3);
    fake_op(p, t, 0, 1000, 1400, "aten::fill_", 0, 0);
    fake_faults(1400, OPGAP_EV_OP, 300, 2);
    fake_faults(1500, 0, 70, 1);
    fake_process_faults(1600, t, 1, 1500, 20); /* the window closes */
    struct opgap_record sample = {.event = OPGAP_EV_MEMORY, .start_ns = 1700 * US, .end_ns = 1700 * US};
    sample.field[1] = 9000;
    sample.field[2] = 900;
    fake_record(p, stream, sample);
    fake_process_faults(1800, t, 0, 9500, 950);
    sample.start_ns = sample.end_ns = 1900 * US;
    sample.field[1] = 9600;
    sample.field[2] = 951;
    fake_record(p, stream, sample);
    if (!killed)
      fake_process_faults(2000, t, 1, 9700, 955);
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(op_named(s, "aten::fill_", OPGAP_OP_TORCH)->minor_faults, 300);
    ck_assert_uint_eq(s->other_minor_faults, 70);
    ck_assert_uint_eq(s->other_major_faults, 1);
    ck_assert_uint_eq(s->start_minor_faults, 40);
    ck_assert_uint_eq(s->start_major_faults, 3);
    ck_assert_uint_eq(s->rest_minor_faults, 500 + (killed ? 100 : 200) - 410);
    ck_assert_uint_eq(s->rest_major_faults, 10 + (killed ? 1 : 5) - 6);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_only_child_of_same_name_is_no_row)
{
  /* as torch.profiler: to > to > copy counts `to` once, with the outer's time */
  fake_op(p, t, 2, 1020, 1030, "aten::copy_", 0, 0);
  fake_op(p, t, 1, 1010, 1040, "aten::to", 3, 30);
  fake_op(p, t, 0, 1000, 1050, "aten::to", 4, 40);
  /* two children of the same name stay */
  fake_op(p, t, 1, 2010, 2020, "aten::to", 0, 0);
  fake_op(p, t, 1, 2020, 2030, "aten::to", 0, 0);
  fake_op(p, t, 0, 2000, 2040, "aten::to", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_op *to = op_named(s, "aten::to", OPGAP_OP_TORCH);
  ck_assert_uint_eq(to->calls, 1 + 3);
  ck_assert_uint_eq(to->self_cpu_ns, (40 + 40) * US);
  ck_assert_uint_eq(to->total_cpu_ns, (50 + 60) * US);
  ck_assert_uint_eq(to->alloc_count, 4);
  ck_assert_uint_eq(to->alloc_bytes, 40);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_profiler_steps_are_one_row)
{
  fake_user_op(p, t, 0, 1000, 1100, "ProfilerStep#1");
  fake_user_op(p, t, 0, 1100, 1300, "ProfilerStep#2");
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(op_named(s, "ProfilerStep*", OPGAP_OP_TORCH)->calls, 2);
  ck_assert_str_eq(s->steps.source, "ProfilerStep");
  ck_assert_uint_eq(s->steps.count, 2);
  ck_assert_uint_eq(s->steps.durations_ns[1], 200 * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_orphans_go_to_the_next_op)
{
  /* the record of the op at depth 1 was lost: its child counts for the op above */
  fake_op(p, t, 2, 1010, 1020, "aten::leaf", 0, 0);
  fake_op(p, t, 0, 1000, 1100, "aten::root", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(op_named(s, "aten::root", OPGAP_OP_TORCH)->self_cpu_ns, 90 * US);
  opgap_summary_free(s);
}
END_TEST

/* ---- calls, memory, files ---- */

/* Where nearly all calls are events, the few that were timed do not speak for them.  Those that have a time of their
 * own are told apart: two of 7 us together. */
START_TEST(test_few_timed_calls)
{
  fake_call(p, t, 0, FAKE_MUTEX_UNLOCK, 1, 1, 0, 0, 0);
  fake_counter(p, t, FAKE_MALLOC, 1000000, 16 * 4096 - 1, 0, 0, 16, 16 * 3000);
  fake_call(p, t, 0, FAKE_FREE, 5, 9, 0, 0, 0);
  fake_call(p, t, 0, FAKE_FREE, 10, 13, 0, 0, 0);
  fake_counter(p, t, FAKE_FREE, 1000000, 16 * 4096 + 2, 0, 0, 16, 16 * 3000);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(call_named(s, "malloc")->time_ns, (16 * 4096 - 1) * 3000);
  ck_assert_uint_eq(call_named(s, "malloc")->measured, 0);
  const struct opgap_sum_call *call = call_named(s, "free");
  ck_assert_uint_eq(call->time_ns, OPGAP_UNKNOWN);
  ck_assert_uint_eq(call->measured, 2);
  ck_assert_uint_eq(call->measured_ns, 7 * US);
  opgap_summary_free(s);
}
END_TEST

/* 15 timed calls speak for none, however many of the others there are; and what 16 say is not told where it is more
 * than the thread was there for: 19 calls of 1 ms in its 20 ms may be, 21 not; nor of locks, whose waits are no
 * part of it. */
START_TEST(test_estimates_that_cannot_be)
{
  for (uint64_t timed = 15; timed <= 16; timed++)
    for (uint64_t calls = 19; calls <= 21; calls += 2) {
      setup();
      fake_call(p, t, 0, FAKE_MUTEX_UNLOCK, 1, 1, 0, 0, 0);
      fake_counter(p, t, FAKE_MALLOC, 20001, calls, 0, 0, timed, timed * 1000 * US);
      fake_counter(p, t, FAKE_MUTEX_LOCK, 20001, calls, 0, 0, timed, timed * 1000 * US);
      struct opgap_summary *s = fake_analyse(NULL);
      ck_assert_uint_eq(call_named(s, "malloc")->calls, calls);
      uint64_t told = timed == 16 && calls == 19 ? 19 * 1000 * US : OPGAP_UNKNOWN;
      ck_assert_uint_eq(call_named(s, "malloc")->time_ns, told);
      ck_assert_uint_eq(call_named(s, "pthread_mutex_lock")->time_ns, told);
      opgap_summary_free(s);
    }
}
END_TEST

/* A thread that says nothing before its counters, at its end, was there all the time: since its process began, which is
 * 19 ms before.  One that told its start was not. */
START_TEST(test_estimate_of_a_silent_thread)
{
  for (unsigned calls = 18; calls <= 20; calls += 2)
    for (unsigned told = 0; told <= 1; told++) {
      setup();
      if (told)
        fake_record(
            p, t,
            (struct opgap_record){
                .event = OPGAP_EV_THREAD_START, .start_ns = 2002 * US, .end_ns = 2002 * US, .field = {0x7000, 100}});
      fake_info(p)->start_ns = 1001 * US;
      fake_counter(p, t, FAKE_MALLOC, 20001, calls, 0, 0, 16, 16 * 1000 * US);
      struct opgap_summary *s = fake_analyse(NULL);
      ck_assert_uint_eq(call_named(s, "malloc")->time_ns, calls == 18 && !told ? 18 * 1000 * US : OPGAP_UNKNOWN);
      opgap_summary_free(s);
    }
}
END_TEST

/* An allocation that is an event costs less to record than a call with a duration. */
START_TEST(test_cost_of_events)
{
  for (unsigned i = 0; i < 10; i++)
    fake_call(p, t, 0, FAKE_MALLOC, 1000 + i, 1000 + i, 0x1000 + 64 * i, 64, 0);
  fake_call(p, t, 0, FAKE_SLEEP, 2000, 3000, 0, 0, 0);
  fake_counter(p, t, FAKE_MALLOC, 4000, 10, 640, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->records, 12);
  ck_assert_uint_eq(s->overhead.hook_ns, 10 * 10 + 2 * 60);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_counters_count_all_calls)
{
  /* 30 calls, of which one has a span of 50 us; 20 of the others were timed with 4 us together */
  fake_call(p, t, 0, FAKE_MALLOC, 1000, 1050, 0x1000, 4096, 0);
  fake_counter(p, t, FAKE_MALLOC, 1100, 6, 600, 0, 1, 100);
  fake_counter(p, t, FAKE_MALLOC, 1200, 30, 5000, 1, 20, 4000);
  fake_counter(p, t, FAKE_FREE, 1200, 8, 0, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_call *malloc_ = call_named(s, "malloc");
  ck_assert_uint_eq(malloc_->calls, 30);
  ck_assert_uint_eq(malloc_->bytes, 5000);
  ck_assert_uint_eq(malloc_->failed, 1);
  ck_assert_uint_eq(malloc_->time_ns, 50 * US + 29 * 200);
  ck_assert(malloc_->estimated);
  ck_assert_uint_eq(call_named(s, "free")->time_ns, OPGAP_UNKNOWN); /* never timed: not 0 */
  ck_assert_uint_eq(s->memory.allocations, 30);
  ck_assert_uint_eq(s->memory.frees, 8);
  ck_assert_uint_eq(s->memory.failed, 1);
  ck_assert_uint_eq(s->memory.bytes_allocated, 5000);
  ck_assert_uint_eq(s->memory.live_bytes, OPGAP_UNKNOWN);
  ck_assert_uint_eq(s->memory.peak_bytes, OPGAP_UNKNOWN);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_counters_of_threads_add_up)
{
  unsigned second = fake_thread(p, 101, "other");
  fake_counter(p, t, FAKE_MALLOC, 1100, 6, 60, 0, 0, 0);
  fake_counter(p, second, FAKE_MALLOC, 1200, 4, 40, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(call_named(s, "malloc")->calls, 10);
  ck_assert_uint_eq(s->processes[0].allocations, 10);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_live_and_peak_with_every_allocation)
{
  fake_setting(p, "OPGAP_ALLOC", "events");
  fake_call(p, t, 0, FAKE_MALLOC, 1000, 1000, 0x1000, 1600, 0);
  fake_call(p, t, 0, FAKE_MALLOC, 1010, 1010, 0x2000, 3200, 0);
  fake_call(p, t, 0, FAKE_FREE, 1020, 1020, 0x1000, 0, 0);
  fake_call(p, t, 0, FAKE_FREE, 1030, 1030, 0x9000, 0, 0); /* a block from before the trace */
  fake_call(p, t, 0, FAKE_MALLOC, 1040, 1040, 0x1000, 160, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.peak_bytes, 4800);
  ck_assert_uint_eq(s->memory.live_bytes, 3360);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_live_bytes_are_exact)
{
  const uint64_t huge = (UINT64_C(5) << 30) + 7;
  fake_setting(p, "OPGAP_ALLOC", "events");
  fake_call(p, t, 0, FAKE_MALLOC, 1000, 1000, 0x1000, 1, 0);
  fake_call(p, t, 0, FAKE_MALLOC, 1010, 1010, 0x2000, huge, 0);
  fake_call(p, t, 0, FAKE_MALLOC, 1020, 1020, 0x3000, 4999, 0);
  fake_call(p, t, 0, FAKE_FREE, 1030, 1030, 0x2000, 0, 0);
  fake_call(p, t, 0, FAKE_MALLOC, 1040, 1040, 0x2000, 3, 0);                    /* the address comes again, small */
  fake_call(p, t, 0, FAKE_MALLOC, 1050, 1050, 0x3000, OPGAP_ALLOC_RELEASED, 0); /* realloc: the old block ... */
  fake_call(p, t, 0, FAKE_MALLOC, 1050, 1060, 0x4000, 6001, 0);                 /* ... and the new one */
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.peak_bytes, 1 + huge + 4999);
  ck_assert_uint_eq(s->memory.live_bytes, 1 + 3 + 6001);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_files_by_operation)
{
  fake_file_call(p, t, 0, FAKE_OPEN, 1000, 1010, "/data/a", 3);
  fake_file_call(p, t, 0, FAKE_READ, 1010, 1040, "/data/a", 100);
  fake_file_call(p, t, 0, FAKE_READ, 1040, 1050, "/data/a", 50);
  fake_call(p, t, 0, FAKE_READ, 1050, 1060, fake_name(p, "/data/a"), 0, 5);
  fake_file_call(p, t, 0, FAKE_READ, 1060, 1070, "pipe:[7]", 9); /* no file */
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->file_count, 2);
  ck_assert_str_eq(s->files[0].operation, "read");
  ck_assert_uint_eq(s->files[0].calls, 3);
  ck_assert_uint_eq(s->files[0].bytes, 150);
  ck_assert_uint_eq(s->files[0].time_ns, 50 * US);
  ck_assert_uint_eq(s->files[0].failed, 1);
  ck_assert_str_eq(s->files[1].operation, "open");
  ck_assert_uint_eq(s->processes[0].read_bytes, 150);
  opgap_summary_free(s);
}
END_TEST

/* All calls on files may wait: a FIFO, a file server.  Closing a pipe does not.  Threads, processes and the table of
 * files have the same time. */
START_TEST(test_calls_on_files_block)
{
  unsigned second = fake_thread(p, 101, "other");
  fake_file_call(p, t, 0, FAKE_OPEN, 1000, 4000, "/d/fifo", 3);
  fake_file_call(p, t, 0, FAKE_STAT, 5000, 7000, "/d/a", 0);
  fake_file_call(p, t, 0, FAKE_MMAP, 8000, 9500, "/d/a", 10);
  fake_file_call(p, t, 0, FAKE_CLOSE, 10000, 11000, "/d/fifo", 0);
  fake_file_call(p, t, 0, FAKE_CLOSE, 12000, 14000, "pipe:[7]", 0);
  fake_file_call(p, second, 0, FAKE_OPEN, 1000, 1700, "/d/b", 4);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_gaps *g = &s->gaps;
  ck_assert_uint_eq(g->thread_count, 4);
  ck_assert_uint_eq(g->thread_ns, 7500 * US);
  static const struct {
    const char *call, *detail;
    uint64_t ns;
  } longest[] = {{"open", "opening /d/fifo", 3000 * US},
                 {"stat", "looking up /d/a", 2000 * US},
                 {"mmap", "mapping /d/a", 1500 * US},
                 {"close", "closing /d/fifo", 1000 * US}};
  for (size_t i = 0; i < 4; i++) {
    ck_assert_str_eq(g->threads[i].call, longest[i].call);
    ck_assert_uint_eq(g->threads[i].cause_count, 1);
    ck_assert_int_eq(g->threads[i].causes[0].cause, OPGAP_CAUSE_FILE_IO);
    ck_assert_str_eq(g->threads[i].causes[0].detail, longest[i].detail);
    ck_assert_uint_eq(g->threads[i].causes[0].ns, longest[i].ns);
  }
  ck_assert_uint_eq(s->processes[0].blocked_ns, 7500 * US);
  ck_assert_uint_eq(s->processes[0].file_ns, 8200 * US);
  uint64_t threads = 0, files = 0;
  for (size_t i = 0; i < s->thread_count; i++) {
    ck_assert_uint_eq(s->threads[i].blocked_ns, s->threads[i].file_ns);
    threads += s->threads[i].file_ns;
  }
  for (size_t i = 0; i < s->file_count; i++)
    files += s->files[i].time_ns;
  ck_assert_uint_eq(s->thread_count, 2);
  ck_assert_uint_eq(threads, 8200 * US);
  ck_assert_uint_eq(files, 8200 * US);
  ck_assert(call_named(s, "open")->blocking);
  opgap_summary_free(s);
}
END_TEST

/* Calls on names are on files, too; msync is on one that is not known. */
START_TEST(test_calls_that_change_files)
{
  fake_file_call(p, t, 0, FAKE_RENAME, 1000, 4000, "/d/model", 0);
  fake_file_call(p, t, 0, FAKE_UNLINK, 5000, 7000, "/d/old", 0);
  fake_call(p, t, 0, FAKE_MSYNC, 8000, 9500, 0x7000, 4096, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  static const char *const details[] = {"rename of /d/model", "unlink of /d/old", "syncing files"};
  static const char *const sums[] = {"rename of files", "unlink of files", "syncing files"};
  for (size_t i = 0; i < 3; i++) {
    uint64_t ns = (3000 - 1000 * i + (i == 2 ? 500 : 0)) * US;
    ck_assert_uint_eq(s->gaps.threads[i].cause_count, 1);
    ck_assert_int_eq(s->gaps.threads[i].causes[0].cause, OPGAP_CAUSE_FILE_IO);
    ck_assert_str_eq(s->gaps.threads[i].causes[0].detail, details[i]);
    ck_assert_uint_eq(s->gaps.threads[i].causes[0].ns, ns);
    ck_assert_uint_eq(cause_ns(s->gaps.thread_by_cause, s->gaps.thread_cause_count, OPGAP_CAUSE_FILE_IO, sums[i]), ns);
  }
  ck_assert_uint_eq(s->threads[0].file_ns, 6500 * US);
  ck_assert_uint_eq(s->file_count, 2);
  ck_assert_str_eq(s->files[0].path, "/d/model");
  ck_assert_str_eq(s->files[0].operation, "change");
  ck_assert_uint_eq(s->files[0].calls, 1);
  ck_assert_uint_eq(s->files[0].time_ns, 3000 * US);
  opgap_summary_free(s);
}
END_TEST

/* Without steps: waits for files are those for data, unless they are for writing, or open and look up what nobody
 * reads; what opening is for is told by whether the file is written. */
START_TEST(test_files_without_steps)
{
  enum { READ, LOOKED_UP, UNREAD, WRITTEN, WRITTEN_SMALL };
  for (int what = READ; what <= WRITTEN_SMALL; what++) {
    setup();
    enum fake_hook hook = what == READ ? FAKE_READ : what == WRITTEN ? FAKE_WRITE : FAKE_OPEN;
    fake_file_call(p, t, 0, hook, 1000, 9000, "/d/a", 7);
    if (what == WRITTEN_SMALL || what == LOOKED_UP)
      fake_file_call(p, t, 0, what == LOOKED_UP ? FAKE_READ : FAKE_WRITE, 9000, 9010, "/d/a", 7);
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_verdict *v = &s->verdict;
    bool written = what >= WRITTEN;
    ck_assert_int_eq(v->bound_by, what >= UNREAD ? OPGAP_BOUND_UNDECIDED : OPGAP_BOUND_DATA_LOADING);
    ck_assert_uint_eq(v->remedy_count, what >= UNREAD ? 1 : 2);
    ck_assert_str_eq(v->remedies[v->remedy_count - 1],
                     written             ? opgap_write_less
                     : what == UNREAD    ? opgap_look_up_less
                     : what == LOOKED_UP ? opgap_open_less
                                         : "Read fewer, larger files, or keep them on a faster disk or in memory.");
    const char *words = written             ? "went to files, mostly to write them, "
                        : what == LOOKED_UP ? "went to files, mostly opening, closing and looking them up (1 call of "
                                              "open, most of it in /d), "
                        : what == UNREAD    ? "went to files, mostly opening, closing and looking them up (1 call of "
                                              "open, most of it in /d; nobody reads them), "
                                            : "went to files, 0.0 %";
    ck_assert_ptr_nonnull(strstr(v->evidence[1], words));
    opgap_summary_free(s);
  }
}
END_TEST

/* What is mapped is read, without a call. */
START_TEST(test_mapped_files_without_steps)
{
  fake_file_call(p, t, 0, FAKE_OPEN, 1000, 9000, "/d/a", 7);
  fake_file_call(p, t, 0, FAKE_MMAP, 9000, 9010, "/d/a", 4096);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_str_eq(s->verdict.remedies[s->verdict.remedy_count - 1], opgap_open_less);
  opgap_summary_free(s);
}
END_TEST

/* The largest cause of idle time is told, not the largest detail of all, and "most" only where it is half. */
START_TEST(test_largest_cause_of_idle_time)
{
  for (int more = 0; more < 2; more++) {
    setup();
    fake_call(p, t, 0, FAKE_SLEEP, 1000, 4000, 0, 0, 0);
    fake_file_call(p, t, 0, FAKE_POLL, 5000, 7000, "", 0);
    fake_file_call(p, t, 0, FAKE_READ, 8000, 12000, "/d/a", 7);
    if (more)
      fake_call(p, t, 0, FAKE_MUTEX_LOCK, 13000, 17000, 0xabc, 0, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_verdict *v = &s->verdict;
    ck_assert_str_eq(
        v->evidence[v->evidence_count - 1],
        more ? "The main thread was idle 4 times, 0.013 s in all; the largest part (38.5 %): sleep, most of "
               "that: nanosleep."
             : "The main thread was idle 3 times, 0.009 s in all; most of it (55.6 %): sleep, most of that: "
               "nanosleep.");
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_lock_and_holder)
{
  unsigned second = fake_thread(p, 101, "holder");
  fake_call(p, second, 0, FAKE_MUTEX_UNLOCK, 3990, 3990, 0xabc, 0, 0);
  fake_call(p, t, 0, FAKE_MUTEX_LOCK, 1000, 4000, 0xabc, 0, 0);
  fake_counter(p, t, FAKE_MUTEX_LOCK, 5000, 8, 0, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->lock_count, 1);
  ck_assert_uint_eq(s->locks[0].waits, 1);
  ck_assert_uint_eq(s->locks[0].wait_ns, 3000 * US);
  ck_assert_str_eq(s->locks[0].held_by, "thread 101 (holder)");
  ck_assert_uint_eq(call_named(s, "pthread_mutex_lock")->calls, 8);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_threads_that_wait_for_a_lock)
{
  unsigned second = fake_thread(p, 101, "second");
  fake_call(p, t, 0, FAKE_MUTEX_LOCK, 1000, 4000, 0xabc, 0, 0);
  fake_call(p, second, 0, FAKE_MUTEX_LOCK, 5000, 9000, 0xabc, 0, 0);
  fake_call(p, t, 0, FAKE_MUTEX_LOCK, 10000, 15000, 0xabc, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->lock_count, 1);
  ck_assert_uint_eq(s->locks[0].waits, 3);
  ck_assert_uint_eq(s->locks[0].threads, 2);
  ck_assert_uint_eq(s->locks[0].longest_ns, 5000 * US);
  opgap_summary_free(s);
}
END_TEST

/* Three threads called as the main thread is have a mutex in turn, each asleep for 1.99 of its 2.5 ms, and the last one
 * sleeps for 4 ms more; another one has a name. */
START_TEST(test_parts_that_read_the_same_are_one)
{
#define WOKEN "woken, not yet running (no free CPU, or its lock still held)"
  static const struct {
    enum opgap_cause cause;
    const char *detail;
    uint64_t us;
  } parts[] = {{OPGAP_CAUSE_LOCK, "another thread: nanosleep", 5970},
               {OPGAP_CAUSE_LOCK, "another thread: own code, no call", 1500},
               {OPGAP_CAUSE_LOCK, "another thread: " WOKEN, 20},
               {OPGAP_CAUSE_SLEEP, "thread other: nanosleep", 5990},
               {OPGAP_CAUSE_PYTHON, "thread other: own code, no call", 510},
               {OPGAP_CAUSE_RUN_QUEUE, "thread other: " WOKEN, 10}};
  const char *const names[] = {"python", "python", "python", "other"};
  unsigned threads[4];
  for (unsigned i = 0; i < 4; i++)
    threads[i] = fake_thread(p, 101 + (int)i, names[i]);
  fake_call(p, threads[0], 0, FAKE_MUTEX_UNLOCK, 500, 500, 0xdef, 0, 0); /* it was there before the first gap */
  for (uint64_t gap = 0; gap < 2; gap++) {
    uint64_t at = 1000 + 20000 * gap;
    for (unsigned i = 0; i < 4; i++) {
      uint64_t turn = at + 2500 * i;
      if (i > 0)
        fake_call(p, threads[i], 0, FAKE_MUTEX_LOCK, at, turn, 0xabc, 0, 0);
      fake_call(p, threads[i], 0, FAKE_SLEEP, turn + 500, turn + 2490, 0, 0, 0);
      fake_call(p, threads[i], 0, FAKE_MUTEX_UNLOCK, turn + 2490, turn + 2490, 0xabc, 0, 0);
    }
    fake_call(p, threads[3], 0, FAKE_SLEEP, at + 10000, at + 14000, 0, 0, 0);
    fake_call(p, threads[3], 0, FAKE_SEM_POST, at + 14000, at + 14000, 0x55, 0, 0);
    fake_call(p, t, 0, FAKE_SEM_WAIT, at, at + 14000, 0x55, 0, 0);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_cause *rows = s->gaps.thread_by_cause;
  ck_assert_uint_eq(s->gaps.thread_count, 2);
  for (size_t i = 0; i < s->gaps.thread_cause_count; i++)
    ck_assert_uint_eq(rows[i].count, 2);
  for (size_t gap = 0; gap < 2; gap++) {
    const struct opgap_sum_cause *causes = s->gaps.threads[gap].causes;
    ck_assert_uint_eq(s->gaps.threads[gap].cause_count, 6);
    for (size_t i = 0; i < 6; i++) {
      ck_assert_int_eq(causes[i].cause, parts[i].cause);
      ck_assert_str_eq(causes[i].detail, parts[i].detail);
      ck_assert_uint_eq(causes[i].ns, parts[i].us * US);
    }
  }
  opgap_summary_free(s);
}
END_TEST

/* ---- steps ---- */

static void training_steps(unsigned count)
{
  for (unsigned i = 0; i < count; i++) {
    uint64_t at = 1000 + 1000 * (uint64_t)i;
    fake_user_op(p, t, 0, at, at + 100, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_op(p, t, 0, at + 100, at + 600, "aten::conv2d", 0, 0);
    fake_user_op(p, t, 0, at + 700, at + 900, "Optimizer.step#SGD.step");
  }
}

START_TEST(test_optimizer_steps)
{
  training_steps(20);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "Optimizer.step");
  ck_assert_uint_eq(s->steps.count, 20);
  ck_assert_uint_eq(s->steps.durations_ns[0], 900 * US); /* from the first op on */
  ck_assert_uint_eq(s->steps.durations_ns[1], 1000 * US);
  ck_assert_uint_eq(s->steps.skipped, 1);
  ck_assert_uint_eq(s->steps.median_ns, 1000 * US);
  ck_assert_uint_eq(s->steps.p95_ns, 1000 * US);
  ck_assert_uint_eq(s->breakdown.steps, 19);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_DATALOADER], 19 * 100 * US);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_CPU_EXEC], 19 * 700 * US);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_OTHER], 19 * 200 * US);
  ck_assert_int_eq(s->processes[0].role, OPGAP_ROLE_TRAINER);
  opgap_summary_free(s);
}
END_TEST

/* Steps of 10 ms: an op of 2 ms, 7 ms free for a wait from 2100 us on, an optimizer of 500 us. */
#define WAITING_STEPS 20

static uint64_t waiting_step(uint64_t i)
{
  return 1000 + 10000 * i;
}

static void waiting_step_ops(uint64_t i)
{
  fake_op(p, t, 0, waiting_step(i), waiting_step(i) + 2000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
}

static void waiting_step_ends(uint64_t i)
{
  fake_user_op(p, t, 0, waiting_step(i) + 9300, waiting_step(i) + 9800, "Optimizer.step#SGD.step");
}

static bool has_sentence(const char **sentences, size_t count, const char *text)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(sentences[i], text) == 0)
      return true;
  return false;
}

/* 20 steps with 500 us of conv2d, 200 us of optimizer, and __next__ of 100 or 900 us: 8 or 16 ms in all. */
START_TEST(test_costliest_op_is_that_of_the_table)
{
  training_steps(20);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert(has_sentence(s->verdict.evidence, s->verdict.evidence_count,
                         "The costliest op is aten::conv2d: 62.50 % of self CPU time, 20 calls."));
  opgap_summary_free(s);
  setup();
  for (uint64_t i = 0; i < 20; i++) {
    uint64_t at = 1000 + 2000 * i;
    fake_user_op(p, t, 0, at, at + 900, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_op(p, t, 0, at + 900, at + 1400, "aten::conv2d", 0, 0);
    fake_user_op(p, t, 0, at + 1500, at + 1700, "Optimizer.step#SGD.step");
  }
  s = fake_analyse(NULL);
  ck_assert(has_sentence(s->verdict.evidence, s->verdict.evidence_count,
                         "Besides waiting for the DataLoader, the costliest op is aten::conv2d: 31.25 % of self CPU "
                         "time, 20 calls."));
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_sleep_in_steps_is_no_dispatch)
{
  for (uint64_t i = 0; i < WAITING_STEPS; i++) {
    waiting_step_ops(i);
    fake_call(p, t, 0, FAKE_SLEEP, waiting_step(i) + 2100, waiting_step(i) + 9100, 0, 0, 0);
    waiting_step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.steps, 19);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_CPU_EXEC], 19 * 2500 * US);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_UNDECIDED);
  ck_assert(has_sentence(
      s->verdict.evidence, s->verdict.evidence_count,
      "Of the time of 19 steps: 25.0 % framework ops; outside of these 70.0 % sleep, 5.0 % other (Python)."));
  ck_assert(has_sentence(s->verdict.evidence, s->verdict.evidence_count,
                         "The main thread waited outside ops for 70.0 % of step time, most of it (70.0 %): sleep."));
  ck_assert_uint_eq(s->verdict.remedy_count, 1);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "sleep"));
  opgap_summary_free(s);
}
END_TEST

/* A kernel of 400 us a step, launched after 7 ms of `sleep`, or of code: the GPU is idle for 9.6 ms between kernels. */
static struct opgap_summary *late_launches(bool sleep)
{
  unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU);
  for (uint64_t i = 0; i < WAITING_STEPS; i++) {
    uint64_t at = waiting_step(i) * US;
    waiting_step_ops(i);
    if (sleep)
      fake_call(p, t, 0, FAKE_SLEEP, waiting_step(i) + 2100, waiting_step(i) + 9100, 0, 0, 0);
    fake_record(p, gpu,
                (struct opgap_record){.event = OPGAP_EV_GPU_API,
                                      .status = (uint32_t)i + 1,
                                      .start_ns = at + 9150 * US,
                                      .end_ns = at + 9200 * US,
                                      .field = {fake_name(p, "cudaLaunchKernel"), 100}});
    fake_record(p, gpu,
                (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                      .status = (uint32_t)i + 1,
                                      .start_ns = at + 9200 * US,
                                      .end_ns = at + 9600 * US,
                                      .field = {fake_name(p, "gemm")}});
    waiting_step_ends(i);
  }
  return fake_analyse(NULL);
}

START_TEST(test_sleep_of_the_host_is_no_dispatch)
{
  struct opgap_summary *s = late_launches(true);
  ck_assert_uint_eq(s->gaps.gpu_ns, 19 * 9600 * US);
  uint64_t sleep = 0;
  for (size_t i = 0; i < s->gaps.gpu_cause_count; i++)
    sleep += s->gaps.gpu_by_cause[i].cause == OPGAP_CAUSE_SLEEP ? s->gaps.gpu_by_cause[i].ns : 0;
  ck_assert_uint_eq(sleep, 19 * 7000 * US);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_UNDECIDED);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "sleep"));
  ck_assert_uint_eq(s->gpus[0].span_ns, (19 * 10000 + 400) * US);
  ck_assert_uint_eq(s->gaps.host_wait_ns, 19 * 9600 * US);
  opgap_summary_free(s);
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 5, .last_step = 9};
  s = fake_analyse(&options);
  ck_assert_uint_eq(s->gpus[0].busy_ns, 5 * 400 * US);
  ck_assert_uint_eq(s->gpus[0].span_ns, (4 * 10000 + 400) * US);
  ck_assert_double_eq_tol(s->gpus[0].utilisation, 2000.0 / 40400, 1e-12);
  ck_assert_uint_eq(s->gaps.gpu_ns, 5 * 9600 * US); /* the gap that the first of them ends, too */
  ck_assert_uint_eq(s->gaps.host_wait_ns, 5 * 9600 * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_python_of_the_host)
{
  struct opgap_summary *s = late_launches(false);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_CPU_DISPATCH);
  /* of 9.6 ms the op of 2 ms, and all else but 50 us from launch to start */
  ck_assert(has_sentence(s->verdict.evidence, s->verdict.evidence_count,
                         "The host's time is Python code between ops (78.6 % of these gaps), not the ops themselves "
                         "(20.8 %)."));
  ck_assert_str_eq(s->verdict.remedies[0],
                   "Move Python work, logging and .item() calls out of the step: with OPGAP_STACKS=python the table of "
                   "hot ops has the lines that it lies between.");
  opgap_summary_free(s);
}
END_TEST

/* Ten kernels of 400 us, one each ms; recording is off for 3.6 ms in the middle of a pause. */
START_TEST(test_time_off_is_not_idle)
{
  unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU), process = fake_stream(p, OPGAP_STREAM_PROCESS);
  fake_setting(p, "OPGAP_CONTROL", "on");
  for (uint64_t i = 0; i < 10; i++) {
    uint64_t at = 1000 + 1000 * i + (i >= 5 ? 4000 : 0);
    fake_record(p, gpu,
                (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                      .status = (uint32_t)i + 1,
                                      .start_ns = at * US,
                                      .end_ns = (at + 400) * US,
                                      .field = {fake_name(p, "gemm")}});
  }
  for (uint32_t on = 0; on < 2; on++) {
    uint64_t at = (on ? 9500 : 5900) * US;
    fake_record(p, process,
                (struct opgap_record){.event = OPGAP_EV_RECORDING, .status = on, .start_ns = at, .end_ns = at});
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gpu_count, 1);
  ck_assert_uint_eq(s->gpus[0].busy_ns, 10 * 400 * US);
  ck_assert_uint_eq(s->gpus[0].span_ns, (13400 - 3600) * US);
  ck_assert_double_eq_tol(s->gpus[0].utilisation, 4000.0 / 9800, 1e-12);
  ck_assert_uint_eq(s->gaps.gpu_count, 8); /* the pause is none: what happened in it is not known */
  ck_assert_uint_eq(s->gaps.gpu_ns, 8 * 600 * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_lock_in_steps_is_no_dispatch)
{
  unsigned second = fake_thread(p, 101, "holder");
  for (uint64_t i = 0; i < WAITING_STEPS; i++) {
    waiting_step_ops(i);
    fake_call(p, second, 0, FAKE_MUTEX_UNLOCK, waiting_step(i) + 9100, waiting_step(i) + 9100, 0xabc, 0, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, waiting_step(i) + 2100, waiting_step(i) + 9100, 0xabc, 0, 0);
    waiting_step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_UNDECIDED);
  ck_assert(has_sentence(s->verdict.evidence, s->verdict.evidence_count,
                         "The main thread waited outside ops for 70.0 % of step time, most of it (70.0 %): lock."));
  opgap_summary_free(s);
}
END_TEST

/* Many reads, each too short to be a gap, are file I/O as one long read is. */
START_TEST(test_reads_in_steps_are_data_loading)
{
  for (uint64_t i = 0; i < WAITING_STEPS; i++) {
    waiting_step_ops(i);
    for (uint64_t k = 0; k < 10; k++)
      fake_file_call(p, t, 0, FAKE_READ, waiting_step(i) + 2100 + k * 500, waiting_step(i) + 2500 + k * 500, "/d/x", 9);
    fake_file_call(p, t, 0, FAKE_READ, waiting_step(i) + 7100, waiting_step(i) + 9100, "/d/x", 9);
    waiting_step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_str_eq(s->verdict.confidence, "high");
  ck_assert(has_sentence(
      s->verdict.evidence, s->verdict.evidence_count,
      "Of the time of 19 steps: 25.0 % framework ops; outside of these 60.0 % file I/O, 15.0 % other (Python)."));
  opgap_summary_free(s);
}
END_TEST

/* A socket, or many by epoll, outside ops for 6 ms, and inside an op for 1.5 of its 2 ms. */
START_TEST(test_network_in_steps_is_communication)
{
  for (uint64_t i = 0; i < WAITING_STEPS; i++) {
    fake_file_call(p, t, 1, FAKE_POLL, waiting_step(i) + 200, waiting_step(i) + 1700, "socket:[5]", 1);
    waiting_step_ops(i);
    fake_file_call(p, t, 0, FAKE_POLL, waiting_step(i) + 3000, waiting_step(i) + 9000,
                   i % 2 ? "socket:[5]" : "anon_inode:[eventpoll]", 1);
    waiting_step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_COMMUNICATION], 19 * 7500 * US);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_CPU_EXEC], 19 * 1000 * US);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_OTHER], 19 * 1500 * US);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_COMMUNICATION);
  ck_assert_str_eq(s->verdict.confidence, "high");
  ck_assert_uint_eq(s->verdict.remedy_count, 1); /* without collectives none is about gradients */
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "Receive ahead"));
  bool told = false; /* what was waited for */
  for (size_t i = 0; i < s->verdict.evidence_count; i++)
    told = told || strstr(s->verdict.evidence[i], "The main thread was idle") != NULL;
  ck_assert(told);
  opgap_summary_free(s);
}
END_TEST

/* A wait for descriptors whose time is over is communication if a socket was among them, else a sleep, whatever else
 * the process uses.  An epoll instance that came from elsewhere may hold any. */
START_TEST(test_poll_that_times_out_waits_for_what_it_names)
{
  static const struct {
    const char *object;
    bool network;
  } waits[] = {{"", false},
               {"socket:[5]", true},
               {"pipe:[6]", false},
               {"anon_inode:[eventfd]", false},
               {"socket:[epoll]", true},
               {"anon_inode:[eventpoll]", true}};
  for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
    fake_reset();
    setup();
    fake_file_call(p, t, 0, FAKE_READ, 100, 200, "socket:[5]", 8);
    for (uint64_t i = 0; i < WAITING_STEPS; i++) {
      waiting_step_ops(i);
      fake_file_call(p, t, 0, FAKE_EPOLL, waiting_step(i) + 3000, waiting_step(i) + 8000, waits[k].object, 0);
      waiting_step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    bool pipe = strncmp(waits[k].object, "pipe", 4) == 0; /* its writer was not seen */
    enum opgap_cause cause = pipe ? OPGAP_CAUSE_SYNCHRONISATION : OPGAP_CAUSE_SLEEP;
    ck_assert_uint_eq(s->breakdown.wait_ns[cause], waits[k].network ? 0 : 19 * 5000 * US);
    ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_COMMUNICATION], waits[k].network ? 19 * 5000 * US : 0);
    opgap_summary_free(s);
  }
}
END_TEST

/* Of older traces a wait for descriptors until its time is over is a sleep, where the process uses no sockets: which
 * descriptors it waited for is not told when none was ready. */
START_TEST(test_poll_that_times_out_is_sleep)
{
  for (int networks = 0; networks < 2; networks++) {
    fake_reset();
    setup();
    if (networks)
      fake_file_call(p, t, 0, FAKE_READ, 100, 200, "socket:[5]", 8);
    for (uint64_t i = 0; i < WAITING_STEPS; i++) {
      waiting_step_ops(i);
      fake_file_call(p, t, 0, FAKE_POLL, waiting_step(i) + 3000, waiting_step(i) + 5000, "", 0);
      fake_file_call(p, t, 0, FAKE_POLL, waiting_step(i) + 5000, waiting_step(i) + 8000, "anon_inode:[eventpoll]", 0);
      waiting_step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->breakdown.wait_ns[OPGAP_CAUSE_SLEEP], networks ? 0 : 19 * 5000 * US);
    ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_COMMUNICATION], networks ? 19 * 5000 * US : 0);
    ck_assert_str_eq(s->verdict.bottlenecks[0].kind, networks ? "communication" : "sleep");
    opgap_summary_free(s);
  }
}
END_TEST

/* A semaphore whose time was over was a sleep, unless another thread was seen to give it back meanwhile, or it came in
 * time.  The same of a condition, where it cannot be the GIL: not in Python, whatever its program's name, nor beside
 * ops.  A lock whose time was over was held. */
START_TEST(test_waits_that_time_out)
{
  static const struct {
    const char *command, *exe;
    bool ops, conditions_sleep;
  } programs[] = {{"./server --port 1", NULL, false, true},
                  {"./server --port 1", "/opt/my python/server", false, true},
                  {"./server --port 1", NULL, true, false},
                  {"/usr/bin/python3 serve.py", NULL, false, false},
                  {"serve 1", "/usr/bin/python3.11", false, false}};
  for (unsigned i = 0; i < sizeof programs / sizeof *programs; i++) {
    fake_reset();
    p = fake_process(100, 1, programs[i].command);
    t = fake_thread(p, 100, "main");
    unsigned other = fake_thread(p, 101, "other");
    if (programs[i].exe != NULL)
      fake_setting(p, "exe", programs[i].exe);
    if (programs[i].ops)
      fake_op(p, t, 0, 100, 200, "aten::mm", 0, 0);
    fake_call(p, t, 0, FAKE_SEM_WAIT, 1000, 21000, 0x10, 0, 110);
    fake_call(p, t, 0, FAKE_SEM_WAIT, 30000, 33000, 0x10, 0, 0);
    fake_call(p, t, 0, FAKE_SEM_WAIT, 40000, 44000, 0x11, 0, 110);
    fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, 50000, 57000, 0x20, 0x21, 110);
    fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, 60000, 69000, 0x20, 0x21, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, 70000, 71000, 0x21, 0, 110);
    fake_call(p, other, 0, FAKE_SLEEP, 500, 600, 0, 0, 0);
    fake_call(p, other, 0, FAKE_SEM_POST, 43995, 43995, 0x11, 0, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_cause *rows = s->gaps.thread_by_cause;
    size_t count = s->gaps.thread_cause_count;
    uint64_t condition = programs[i].conditions_sleep ? 7000 * US : 0;
    ck_assert_uint_eq(s->gaps.thread_ns, 44000 * US);
    ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_SLEEP, "sem_wait"), 20000 * US);
    ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_SYNCHRONISATION, "in sem_wait, waker not seen"), 3000 * US);
    ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_PYTHON, "thread other: own code, no call"), 3995 * US);
    ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_SLEEP, "pthread_cond_timedwait"), condition);
    ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_SYNCHRONISATION, "in pthread_cond_timedwait, waker not seen"),
                      16000 * US - condition);
    ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_LOCK, "in pthread_mutex_lock, waker not seen"), 1000 * US);
    const struct opgap_sum_thread *row = &s->threads[s->threads[0].tid == 100 ? 0 : 1];
    ck_assert_uint_eq(row->sleep_ns, 20000 * US); /* the semaphore that nobody gave back */
    ck_assert_uint_eq(row->lock_ns, (3000 + 4000 + 1000) * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* Python without a framework takes its GIL by waits of 5 ms that time out, too. */
START_TEST(test_gil_of_plain_python)
{
  fake_reset();
  p = fake_process(100, 1, "python3 serve.py");
  t = fake_thread(p, 100, "python3");
  for (uint64_t i = 0; i < 4; i++)
    fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, 1000 + 5100 * i, 6050 + 5100 * i, 0x61, 0x62, 110);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gaps.thread_count, 4);
  ck_assert_uint_eq(s->gaps.thread_cause_count, 1);
  ck_assert_int_eq(s->gaps.thread_by_cause[0].cause, OPGAP_CAUSE_GIL);
  ck_assert_uint_eq(s->gaps.thread_by_cause[0].ns, 4 * 5050 * US);
  opgap_summary_free(s);
}
END_TEST

/* The main thread waits for a thread that runs a collective as an op. */
START_TEST(test_wait_for_collective_is_communication)
{
  unsigned gloo = fake_thread(p, 101, "pt_gloo");
  for (uint64_t i = 0; i < WAITING_STEPS; i++) {
    waiting_step_ops(i);
    fake_op(p, gloo, 0, waiting_step(i) + 2000, waiting_step(i) + 9000, "gloo:all_reduce", 0, 0);
    fake_call(p, gloo, 0, FAKE_COND_SIGNAL, waiting_step(i) + 9000, waiting_step(i) + 9000, 0x77, 0, 0);
    fake_call(p, t, 0, FAKE_COND_WAIT, waiting_step(i) + 2500, waiting_step(i) + 9010, 0x77, 0, 0);
    waiting_step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_COMMUNICATION], 19 * 6500 * US);
  ck_assert_int_eq(s->gaps.thread_by_cause[0].cause, OPGAP_CAUSE_COMMUNICATION);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_COMMUNICATION);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "Overlap gradients"));
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_two_optimizers_are_one_step)
{
  for (uint64_t i = 0; i < 4; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_op(p, t, 0, at, at + 500, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 600, at + 700, "Optimizer.step#Adam.step");
    fake_user_op(p, t, 0, at + 700, at + 800, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 4);
  ck_assert_uint_eq(s->steps.durations_ns[3], 1000 * US);
  opgap_summary_free(s);
}
END_TEST

/* ---- rounds of several updates ---- */

static uint64_t clock_us;

static void backward(unsigned ops)
{
  for (unsigned k = 0; k < ops; k++, clock_us += 10)
    fake_op(p, t, 0, clock_us, clock_us + 10, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
}

/* Forward pass, backward pass of so many ops, optimizer: 100 us. */
static void update(unsigned backward_ops)
{
  uint64_t start = clock_us;
  fake_op(p, t, 0, start, start + 10, "aten::linear", 0, 0);
  clock_us = start + 10;
  backward(backward_ops);
  fake_user_op(p, t, 0, start + 90, start + 100, "Optimizer.step#Adam.step");
  clock_us = start + 100;
}

static void load_batch(void)
{
  fake_user_op(p, t, 0, clock_us, clock_us + 10, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  clock_us += 10;
}

static void begin_rounds(void)
{
  fake_reset();
  p = fake_process(100, 1, "python train.py");
  t = fake_thread(p, 100, "python");
  clock_us = 1000;
}

/* Checks number and length of the steps, their classes, and releases the summary. */
static void assert_rounds(struct opgap_summary *s, size_t count, uint64_t us)
{
  uint64_t sum = 0;
  ck_assert_str_eq(s->steps.source, "Optimizer.step");
  ck_assert_uint_eq(s->steps.count, count);
  for (size_t i = 1; i < count; i++)
    ck_assert_uint_eq(s->steps.durations_ns[i], us * US);
  ck_assert_uint_eq(s->breakdown.steps, count - s->steps.skipped);
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    sum += s->breakdown.class_ns[c];
  ck_assert_uint_eq(sum, s->breakdown.steps * us * US);
  ck_assert_uint_eq(s->breakdown.bucket_count, count);
  for (size_t i = 0; i < count; i++) {
    sum = 0;
    for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
      sum += s->breakdown.buckets[i][c];
    ck_assert_uint_eq(sum, s->steps.durations_ns[i]);
  }
  opgap_summary_free(s);
}

/* Discriminator (6 backward ops) and generator (4) in either order, by optimizers of one name, data in memory; then a
 * discriminator that is updated three times a round, and what is cut from the last round is no step. */
START_TEST(test_gan_without_loader)
{
  for (int order = 0; order < 2; order++) {
    begin_rounds();
    for (unsigned i = 0; i < 20; i++) {
      update(order ? 4 : 6);
      update(order ? 6 : 4);
    }
    assert_rounds(fake_analyse(NULL), 20, 200);
  }
  begin_rounds();
  for (unsigned i = 0; i < 82; i++)
    update(i % 4 == 3 ? 4 : 6);
  assert_rounds(fake_analyse(NULL), 20, 400);
}
END_TEST

/* Here even the backward passes are alike: a fetched batch begins a round. */
START_TEST(test_gan_with_loader)
{
  begin_rounds();
  for (unsigned i = 0; i < 20; i++) {
    load_batch();
    update(5);
    update(5);
  }
  load_batch(); /* of a round that was cut */
  update(5);
  assert_rounds(fake_analyse(NULL), 20, 210);
}
END_TEST

/* A round or an update that is not like the others leaves the pattern as it is. */
START_TEST(test_gan_with_an_exception)
{
  for (int loader = 0; loader < 2; loader++) {
    begin_rounds();
    for (unsigned i = 0; i < 60; i++) {
      if (loader)
        load_batch();
      update(6);
      update(i == 30 && !loader ? 5 : 4);
      if (i == 30 && loader)
        update(6);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->steps.count, 60);
    ck_assert_uint_eq(s->steps.durations_ns[29], (loader ? 210 : 200) * US);
    ck_assert_uint_eq(s->steps.durations_ns[30], (loader ? 310 : 200) * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* Two and three updates in turn behind a fetch are no usual number. */
START_TEST(test_irregular_fetches)
{
  begin_rounds();
  for (unsigned i = 0; i < 20; i++) {
    load_batch();
    for (unsigned k = 0; k < 2 + i % 2; k++)
      update(5);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 50);
  opgap_summary_free(s);
}
END_TEST

/* OPGAP_SCHEDULE counts updates. */
START_TEST(test_gan_with_a_schedule)
{
  begin_rounds();
  fake_setting(p, "OPGAP_SCHEDULE", "wait=0,warmup=0,active=4,repeat=0");
  for (unsigned i = 0; i < 20; i++) {
    update(6);
    update(4);
  }
  assert_rounds(fake_analyse(NULL), 40, 100);
}
END_TEST

/* The second update of round 10 was not recorded: the first and what comes next are no round. */
START_TEST(test_gan_with_a_part_left_out)
{
  begin_rounds();
  fake_setting(p, "OPGAP_CONTROL", "1");
  unsigned control = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (unsigned i = 0; i < 40; i++) {
    update(6);
    for (uint32_t on = 0; i == 10 && on < 2; on++)
      fake_record(p, control,
                  (struct opgap_record){.event = OPGAP_EV_RECORDING,
                                        .status = on,
                                        .start_ns = (clock_us + 50 + on) * US,
                                        .end_ns = (clock_us + 50 + on) * US});
    update(4);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 38);
  for (size_t i = 1; i < s->steps.count; i++)
    ck_assert_uint_eq(s->steps.durations_ns[i], 200 * US);
  ck_assert_uint_eq(s->steps.start_ns[10], (1000 + 22 * 100 + 100) * US - s->start_ns);
  opgap_summary_free(s);
}
END_TEST

/* Images of one process: the last one that was executed, on its host, after the one before ended by exec. */
START_TEST(test_process_without_steps)
{
  struct opgap_sum_process rows[] = {
      {.pid = 7, .host = "a", .ended = "exec", .start_ns = 0, .end_ns = 50},
      {.pid = 7, .host = "a", .ended = "clean", .start_ns = 40, .end_ns = 90}, /* another one, begun before its end */
      {.pid = 7, .host = "b", .ended = "clean", .start_ns = 60, .end_ns = 90},
      {.pid = 8, .host = "a", .ended = "clean", .start_ns = 60, .end_ns = 90},
      {.pid = 7, .host = "a", .ended = "exec", .start_ns = 60, .end_ns = 80},
      {.pid = 7, .host = "a", .ended = "clean", .start_ns = 80, .end_ns = 90},
  };
  struct opgap_summary s = {.processes = rows, .process_count = sizeof rows / sizeof *rows};
  ck_assert_ptr_eq(opgap_step_process(&s), &rows[5]);
  rows[4].ended = "clean";
  ck_assert_ptr_eq(opgap_step_process(&s), &rows[4]);
  rows[0].ended = "killed";
  ck_assert_ptr_eq(opgap_step_process(&s), &rows[0]);
  /* damaged: both seem to follow each other */
  struct opgap_sum_process both[] = {{.pid = 7, .host = "a", .ended = "exec"},
                                     {.pid = 7, .host = "a", .ended = "exec"}};
  s.processes = both;
  s.process_count = 2;
  ck_assert_ptr_eq(opgap_step_process(&s), &both[1]);
  s.process_count = 0;
  ck_assert_ptr_null(opgap_step_process(&s));
}
END_TEST

START_TEST(test_gan_in_a_window_of_steps)
{
  begin_rounds();
  for (unsigned i = 0; i < 20; i++) {
    update(6);
    update(4);
  }
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 5, .last_step = 9};
  struct opgap_summary *s = fake_analyse(&options);
  ck_assert_uint_eq(s->steps.count, 5);
  ck_assert_uint_eq(s->steps.start_ns[0], (1000 + 5 * 200) * US - s->start_ns);
  ck_assert_uint_eq(s->steps.durations_ns[0], 200 * US);
  opgap_summary_free(s);
}
END_TEST

/* A step every 4 batches; the last batches of an epoch are fewer. */
START_TEST(test_gradient_accumulation)
{
  begin_rounds();
  for (unsigned i = 0; i < 20; i++) {
    for (unsigned k = 0; k < 3; k++) {
      load_batch();
      backward(3);
    }
    load_batch();
    update(3);
  }
  assert_rounds(fake_analyse(NULL), 20, 230);
}
END_TEST

/* Logging in every second step, and an evaluation after every tenth, make no rounds; the evaluation is in the step that
 * comes after it. */
START_TEST(test_other_work_makes_no_rounds)
{
  for (int loader = 0; loader < 2; loader++) {
    begin_rounds();
    for (unsigned i = 0; i < 40; i++) {
      if (loader)
        load_batch();
      update(5);
      if (i % 2) {
        fake_op(p, t, 0, clock_us, clock_us + 5, "aten::item", 0, 0);
        clock_us += 5;
      }
      for (unsigned k = 0; i % 10 == 9 && k < 3; k++) {
        if (loader)
          load_batch();
        fake_op(p, t, 0, clock_us, clock_us + 10, "aten::linear", 0, 0);
        clock_us += 10;
      }
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->steps.count, 40);
    ck_assert_uint_eq(s->steps.durations_ns[2], (loader ? 115 : 105) * US);
    ck_assert_uint_eq(s->steps.durations_ns[10], (loader ? 175 : 135) * US);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_nvtx_steps)
{
  for (uint64_t i = 0; i < 5; i++)
    fake_range(p, t, 0, 1000 + 100 * i, 1090 + 100 * i, "step 7");
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "NVTX");
  ck_assert_uint_eq(s->steps.count, 5);
  ck_assert_uint_eq(s->steps.durations_ns[0], 90 * US);
  ck_assert_uint_eq(s->steps.durations_ns[4], 100 * US); /* from the end of the one before */
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_opgap_step_is_first_choice)
{
  training_steps(5);
  for (uint64_t i = 0; i < 3; i++)
    fake_step(p, t, 10000 + i * 50);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "opgap_step");
  ck_assert_uint_eq(s->steps.count, 3);
  ck_assert_uint_eq(s->steps.durations_ns[2], 50 * US);
  opgap_summary_free(s);
}
END_TEST

/* 3 windows of 4 steps of 1 ms, 50 ms apart: 4 steps in the first, 3 in each later one, whose first began unseen. */
START_TEST(test_schedule_gap_is_no_step)
{
  fake_setting(p, "OPGAP_SCHEDULE", "wait=5,warmup=1,active=4");
  for (uint64_t i = 0; i < 12; i++) {
    uint64_t at = 1000 + 1000 * i + i / 4 * 50000;
    fake_op(p, t, 0, at, at + 600, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 700, at + 800, "Optimizer.step#Adam.step");
    fake_user_op(p, t, 0, at + 850, at + 900, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 10);
  ck_assert_uint_eq(s->steps.durations_ns[0], 900 * US);
  for (int i = 1; i < 10; i++)
    ck_assert_uint_eq(s->steps.durations_ns[i], 1000 * US);
  ck_assert_uint_eq(s->steps.start_ns[4] - s->steps.start_ns[3], 52000 * US);
  uint64_t sum = 0;
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    sum += s->breakdown.class_ns[c];
  ck_assert_uint_eq(sum, s->breakdown.steps * 1000 * US);
  opgap_summary_free(s);
}
END_TEST

/* All steps take the same time. */
static void assert_steps(const struct opgap_summary *s, size_t count, uint64_t us)
{
  ck_assert_uint_eq(s->steps.count, count);
  for (size_t i = 0; i < count; i++)
    ck_assert_uint_eq(s->steps.durations_ns[i], us * US);
}

/* The start of the first step of the first window was not recorded either, as opgap_step marks ends alone. */
START_TEST(test_schedule_gap_between_marks)
{
  fake_setting(p, "OPGAP_SCHEDULE", "active=2,wait=3");
  for (uint64_t i = 0; i < 6; i++)
    fake_step(p, t, 10000 + i * 50 + i / 2 * 1000);
  struct opgap_summary *s = fake_analyse(NULL);
  assert_steps(s, 3, 50);
  opgap_summary_free(s);
}
END_TEST

static void window_edge(unsigned stream, bool on, uint64_t at_us)
{
  fake_record(
      p, stream,
      (struct opgap_record){.event = OPGAP_EV_RECORDING, .status = on, .start_ns = at_us * US, .end_ns = at_us * US});
}

/* The trace tells when windows opened: each has as many steps as the schedule says, also where that is one. */
START_TEST(test_window_begins_a_step)
{
  static const char *const schedules[] = {NULL, "active=1,wait=3", "wait=1,warmup=2,active=2"};
  for (uint64_t active = 1; active <= 2; active++) {
    setup();
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    fake_setting(p, "OPGAP_SCHEDULE", schedules[active]);
    window_edge(stream, false, 100);
    for (uint64_t window = 0; window < 6; window++) {
      uint64_t at = 10000 + window * 1000;
      window_edge(stream, true, at);
      for (uint64_t i = 1; i <= active; i++)
        fake_step(p, t, at + 50 * i);
      window_edge(stream, false, at + 50 * active);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    assert_steps(s, 6 * active, 50);
    for (size_t i = 0; i < 6 * active; i++)
      ck_assert_uint_eq(s->steps.start_ns[i] - s->steps.start_ns[0], (i / active * 1000 + i % active * 50) * US);
    opgap_summary_free(s);
  }
}
END_TEST

#define PAUSES 100000u

/* Every second step was left out in part, or from its beginning to its end; those beside it are whole. */
START_TEST(test_many_pauses)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  fake_setting(p, "OPGAP_CONTROL", "1");
  for (uint64_t i = 0; i < PAUSES; i++) {
    uint64_t at = 1000 + 100 * i, inset = i % 3 * 10;
    window_edge(stream, false, at + inset);
    window_edge(stream, true, at + 50 - inset);
    fake_step(p, t, at + 50);
    fake_step(p, t, at + 100);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_steps(s, PAUSES, 50);
  ck_assert_uint_eq(s->steps.start_ns[PAUSES - 1] - s->steps.start_ns[0], (PAUSES - 1) * 100 * US);
  opgap_summary_free(s);
}
END_TEST

/* The window opens as the first optimizer's update ends, and the second one's is its first record. */
START_TEST(test_window_opens_between_optimizers)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  fake_setting(p, "OPGAP_SCHEDULE", "wait=5,warmup=1,active=4");
  window_edge(stream, false, 10);
  for (uint64_t window = 0; window < 3; window++) {
    uint64_t at = 1000 + 50000 * window;
    window_edge(stream, true, at);
    if (window > 0)
      fake_user_op(p, t, 0, at + 50, at + 100, "Optimizer.step#SGD.step");
    for (uint64_t i = 0; i < 4; i++) {
      fake_op(p, t, 0, at + 1000 * i + 150, at + 1000 * i + 900, "autograd::engine::evaluate_function: AddBackward0", 0,
              0);
      fake_user_op(p, t, 0, at + 1000 * i + 950, at + 1000 * i + 1000, "Optimizer.step#Adam.step");
    }
    window_edge(stream, false, at + 4000);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_steps(s, 12, 1000);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_schedule_without_gap)
{
  fake_setting(p, "OPGAP_SCHEDULE", "active=2,repeat=9");
  for (uint64_t i = 0; i < 6; i++)
    fake_step(p, t, 10000 + i * 50);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->steps.count, 6);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_limits_of_the_recording_are_said)
{
  fake_setting(p, "OPGAP_DELAY", "2.5");
  fake_setting(p, "OPGAP_DURATION", "10");
  fake_setting(p, "OPGAP_SCHEDULE", "wait=5,active=2");
  fake_op(p, t, 0, 1000, 1100, "aten::add", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->notice_count, 3);
  ck_assert_str_eq(s->notices[0], "recorded only from 2.5 s after each program's start (OPGAP_DELAY=2.5)");
  ck_assert_str_eq(s->notices[1], "recorded only 10 s of each program (OPGAP_DURATION=10)");
  ck_assert_str_eq(s->notices[2], "recorded only the steps of OPGAP_SCHEDULE=wait=5,active=2; sums are of these steps");
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_runs_far_apart_are_told)
{
  unsigned later = fake_process(200, 1, "python train.py");
  unsigned thread = fake_thread(later, 200, "python");
  fake_info(p)->end_ns = 1000 + 10000000000u;
  fake_info(later)->host = "other";
  fake_op(p, t, 0, 1000, 1100, "aten::add", 0, 0);
  fake_op(later, thread, 0, 86400000000, 86400000100, "aten::add", 0, 0);
  fake_info(later)->start_ns = 86400000000000;
  fake_info(later)->end_ns = 86410000000000;
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->notice_count, 1);
  char expected[400];
  snprintf(expected, sizeof expected,
           "nothing ran for 86390.000 s of these 86410.000 s, between the end of process %d on host and the start of "
           "process 200 on other: several runs in one folder, or hosts with different times of day; report them one by "
           "one (opgap report FILE.opgt)",
           fake_info(p)->pid);
  ck_assert_str_eq(s->notices[0], expected);
  opgap_summary_free(s);
  /* a third of the time, or less than a minute, is no pause; nor is it one while any process runs */
  const struct {
    uint64_t first_end_s, start_s;
  } usual[] = {{200, 300}, {1, 60}, {310, 300}};
  for (unsigned i = 0; i < sizeof usual / sizeof *usual; i++) {
    fake_info(p)->end_ns = usual[i].first_end_s * 1000000000;
    fake_info(later)->start_ns = usual[i].start_s * 1000000000;
    fake_info(later)->end_ns = fake_info(later)->start_ns + 1000000000;
    s = fake_analyse(NULL);
    ck_assert_uint_eq(s->notice_count, 0);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_losses_name_their_cure)
{
  fake_op(p, t, 0, 1000, 1100, "aten::add", 0, 0);
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_LOST, .start_ns = 1100000, .end_ns = 1200000, .field = {5}});
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_LOST, .start_ns = 1300000, .end_ns = 1400000, .field = {7}});
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->notice_count, 0); /* none is missing by the process's account */
  opgap_summary_free(s);
  struct opgap_process_info *info = fake_info(p);
  info->lost_records = 27;
  info->lost_by[OPGAP_LOSS_INTERRUPT] = 8;
  info->lost_by[OPGAP_LOSS_UNKNOWN] = 19; /* of these the LOST records tell of 12 */
  info->lost_threads = 7;
  fake_setting(p, "lost_samples", "4");
  s = fake_analyse(NULL);
  ck_assert_uint_eq(s->notice_count, 5);
  ck_assert_str_eq(s->notices[3], "samples of memory and scheduler lost: 4 found no room in the rings");
  ck_assert_str_eq(s->notices[4],
                   "threads lost: 7 found no room, and nothing of them was recorded (of each process at most 4095 at a "
                   "time are, fewer where --buffer is small)");
  ck_assert(s->complete);
  ck_assert_uint_eq(s->lost_threads, 7);
  ck_assert_str_eq(s->notices[0], "records lost: 12 found no room in the rings (record with a larger --buffer)");
  ck_assert_str_eq(s->notices[1], "records lost: 8 calls of signal handlers that interrupted the making of a record "
                                  "(do less in the handlers (set a flag, or signalfd); a larger --buffer does not "
                                  "help)");
  ck_assert_str_eq(s->notices[2], "records lost: 7 lost for a reason that the trace does not tell (record it with this "
                                  "version of opgap, which tells)");
  ck_assert_uint_eq(s->lost_records, 27);
  ck_assert_uint_eq(s->lost_by[OPGAP_LOSS_NO_ROOM], 12);
  ck_assert_uint_eq(s->lost_by[OPGAP_LOSS_UNKNOWN], 7);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_recording_that_never_started)
{
  fake_setting(p, "OPGAP_DELAY", "60");
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->notice_count, 1);
  ck_assert_ptr_nonnull(strstr(s->notices[0], "recording never started"));
  ck_assert_ptr_nonnull(strstr(s->notices[0], "(delay=60, schedule=none)"));
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_no_limits_no_notice)
{
  fake_setting(p, "OPGAP_DELAY", "0");
  fake_setting(p, "OPGAP_SCHEDULE", "");
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->notice_count, 0);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_window_of_steps)
{
  training_steps(20);
  fake_counter(p, t, FAKE_MALLOC, 30000, 7, 0, 0, 0, 0);
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 5, .last_step = 9};
  struct opgap_summary *s = fake_analyse(&options);
  ck_assert_uint_eq(s->steps.count, 5);
  ck_assert_uint_eq(s->steps.skipped, 0);
  ck_assert_uint_eq(op_named(s, "aten::conv2d", OPGAP_OP_TORCH)->calls, 5);
  ck_assert_uint_eq(op_named(s, "Optimizer.step#SGD.step", OPGAP_OP_TORCH)->calls, 5);
  ck_assert_uint_eq(s->breakdown.steps, 5);
  ck_assert_uint_eq(s->memory.allocations, 0); /* counted after the window */
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_window_that_is_not_there)
{
  training_steps(3);
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 3, .last_step = 4};
  struct opgap_source source = fake_source();
  char error[256] = "";
  ck_assert_ptr_null(opgap_analyse(&source, &options, error, sizeof error));
  ck_assert_str_eq(error, "--steps 3:4: this trace has steps 0 to 2");
}
END_TEST

START_TEST(test_no_steps)
{
  fake_op(p, t, 0, 1000, 1100, "aten::add", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "none");
  ck_assert_uint_eq(s->steps.median_ns, OPGAP_UNKNOWN);
  ck_assert_uint_eq(s->breakdown.steps, 0);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_UNDECIDED);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_percentiles)
{
  const uint64_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  ck_assert_uint_eq(stats_percentile(values, 10, 0.95), 10);
  ck_assert_uint_eq(stats_percentile(values, 10, 0.9), 9);
  ck_assert_uint_eq(stats_percentile(values, 9, 0.5), 5);
  ck_assert_uint_eq(stats_percentile(values, 2, 0.5), 1);
  ck_assert_uint_eq(stats_percentile(values, 0, 0.5), OPGAP_UNKNOWN);
}
END_TEST

/* ---- gaps ---- */

START_TEST(test_sleep_and_file_gaps)
{
  fake_call(p, t, 0, FAKE_SLEEP, 1000, 4000, 0, 0, 0);
  fake_file_call(p, t, 0, FAKE_READ, 5000, 7000, "/data/big", 10);
  fake_file_call(p, t, 0, FAKE_READ, 8000, 8999, "/data/big", 10); /* below 1 ms */
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_gaps *g = &s->gaps;
  ck_assert_uint_eq(g->thread_count, 2);
  ck_assert_uint_eq(g->thread_ns, 5000 * US);
  ck_assert_uint_eq(g->threads[0].duration_ns, 3000 * US);
  ck_assert_str_eq(g->threads[0].call, "nanosleep");
  ck_assert_int_eq(g->threads[0].causes[0].cause, OPGAP_CAUSE_SLEEP);
  ck_assert_str_eq(g->threads[1].causes[0].detail, "reading /data/big");
  ck_assert_uint_eq(cause_ns(g->thread_by_cause, g->thread_cause_count, OPGAP_CAUSE_FILE_IO, "reading files"),
                    2000 * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_wait_for_a_thread_that_reads)
{
  /* loader: reads [1000,3000], computes to 5000, signals; main waits [1500,5200] */
  unsigned loader = fake_thread(p, 101, "loader");
  fake_file_call(p, loader, 0, FAKE_READ, 1000, 3000, "/data/x", 10);
  fake_call(p, loader, 0, FAKE_COND_SIGNAL, 5000, 5000, 0x77, 0, 0);
  fake_call(p, t, 0, FAKE_COND_WAIT, 1500, 5200, 0x77, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_thread_gap *gap = &s->gaps.threads[0];
  ck_assert_uint_eq(s->gaps.thread_count, 1);
  ck_assert_uint_eq(gap->duration_ns, 3700 * US);
  ck_assert_uint_eq(causes_sum(gap->causes, gap->cause_count), gap->duration_ns);
  ck_assert_uint_eq(cause_ns(gap->causes, gap->cause_count, OPGAP_CAUSE_FILE_IO, "thread loader: reading /data/x"),
                    1500 * US);
  ck_assert_uint_eq(
      cause_ns(gap->causes, gap->cause_count, OPGAP_CAUSE_PYTHON, "thread loader: own code after calls on /data/x"),
      2000 * US);
  ck_assert_uint_eq(causes_sum(s->gaps.thread_by_cause, s->gaps.thread_cause_count), s->gaps.thread_ns);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_wait_without_waker)
{
  fake_call(p, t, 0, FAKE_SEM_WAIT, 1000, 3000, 0x55, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gaps.threads[0].cause_count, 1);
  ck_assert_int_eq(s->gaps.threads[0].causes[0].cause, OPGAP_CAUSE_SYNCHRONISATION);
  ck_assert_str_eq(s->gaps.threads[0].causes[0].detail, "in sem_wait, waker not seen");
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_join_is_explained_by_the_thread)
{
  unsigned worker = fake_thread(p, 101, "crunch");
  fake_record(
      p, worker,
      (struct opgap_record){
          .event = OPGAP_EV_THREAD_START, .start_ns = 1000 * US, .end_ns = 1000 * US, .field = {0x7f0000001000, 100}});
  fake_call(p, worker, 0, FAKE_SLEEP, 2000, 5000, 0, 0, 0);
  fake_record(p, worker,
              (struct opgap_record){.event = OPGAP_EV_THREAD_END, .start_ns = 6000 * US, .end_ns = 6000 * US});
  fake_call(p, t, 0, FAKE_JOIN, 2000, 6000, 0x7f0000001000, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_thread_gap *gap = &s->gaps.threads[0];
  ck_assert_uint_eq(cause_ns(gap->causes, gap->cause_count, OPGAP_CAUSE_SLEEP, "thread crunch: nanosleep"), 3000 * US);
  ck_assert_uint_eq(cause_ns(gap->causes, gap->cause_count, OPGAP_CAUSE_PYTHON, "thread crunch: own code, no call"),
                    1000 * US);
  opgap_summary_free(s);
}
END_TEST

#define NEXT "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

/* Worker main reads /d/1.png and decodes, posts to its feeder, which writes to the pipe that the trainer polls. */
static void worker_batch(unsigned worker, uint64_t at, uint64_t sem)
{
  fake_file_call(worker, 0, 0, FAKE_READ, at, at + 2000, "/d/1.png", 100);
  fake_call(worker, 0, 0, FAKE_SEM_POST, at + 8000, at + 8000, sem, 0, 0);
  fake_call(worker, 1, 0, FAKE_SEM_WAIT, at, at + 8050, sem, 0, 0);
  fake_file_call(worker, 1, 0, FAKE_WRITE, at + 8100, at + 8200, "pipe:[42]", 64);
}

START_TEST(test_dataloader_wait_is_charged_to_its_worker)
{
  unsigned workers[2];
  for (int i = 0; i < 2; i++) {
    workers[i] = fake_process(201 + i, 100, "python train.py");
    fake_info(workers[i])->forked = true;
    fake_info(workers[i])->start_ns = (100 + (uint64_t)i) * US;
    fake_thread(workers[i], 201 + i, "pt_data_worker");
    fake_thread(workers[i], 301 + i, "feeder");
  }
  worker_batch(workers[0], 10000, 0xa0);
  worker_batch(workers[1], 20000, 0xa0);
  /* batch of worker 0, then of worker 1 */
  fake_file_call(p, t, 1, FAKE_POLL, 10500, 18110, "pipe:[42]", 1);
  fake_file_call(p, t, 1, FAKE_READ, 18120, 18150, "pipe:[42]", 64);
  fake_user_op(p, t, 0, 10400, 18200, NEXT);
  fake_user_op(p, t, 0, 18300, 19000, "Optimizer.step#SGD.step");
  fake_file_call(p, t, 1, FAKE_POLL, 20000, 28110, "pipe:[42]", 1);
  fake_file_call(p, t, 1, FAKE_READ, 28120, 28150, "pipe:[42]", 64);
  fake_user_op(p, t, 0, 19900, 28200, NEXT);
  fake_user_op(p, t, 0, 28300, 29000, "Optimizer.step#SGD.step");
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_gaps *g = &s->gaps;
  ck_assert_uint_eq(s->process_count, 3);
  ck_assert_str_eq(s->processes[0].role_label, "trainer"); /* by start */
  ck_assert_str_eq(s->processes[1].role_label, "DataLoader worker 0");
  ck_assert_str_eq(s->processes[2].role_label, "DataLoader worker 1");
  ck_assert_uint_eq(g->thread_count, 2);
  /* the second: [20000, 28150], worker 1 read 2000, decoded 6000, the rest is hand-over */
  ck_assert_uint_eq(g->threads[0].duration_ns, 8150 * US);
  ck_assert_str_eq(g->threads[0].call, "poll");
  ck_assert_str_eq(g->threads[0].op, NEXT);
  const struct opgap_sum_cause *c = g->threads[0].causes;
  size_t n = g->threads[0].cause_count;
  ck_assert_int_eq(c[0].cause, OPGAP_CAUSE_DATA_LOADING);
  ck_assert_str_eq(c[0].detail, "DataLoader worker 1: decoding or augmenting /d/1.png");
  ck_assert_uint_eq(c[0].ns, 6000 * US);
  ck_assert_uint_eq(cause_ns(c, n, OPGAP_CAUSE_DATA_LOADING, "DataLoader worker 1: reading /d/1.png"), 2000 * US);
  ck_assert_uint_eq(causes_sum(c, n), 8150 * US);
  /* the first: [10500, 18150]: worker 0 read to 12000 */
  ck_assert_uint_eq(cause_ns(g->threads[1].causes, g->threads[1].cause_count, OPGAP_CAUSE_DATA_LOADING,
                             "DataLoader worker 0: reading /d/1.png"),
                    1500 * US);
  ck_assert_uint_eq(causes_sum(g->thread_by_cause, g->thread_cause_count), g->thread_ns);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_spawned_worker_starts_and_is_waited_for)
{
  /* the worker is there from 5 ms on, runs its first op at 12 ms, writes at 20 ms and ends at 40 ms */
  unsigned worker = fake_process(201, 100, "python -c spawn_main");
  fake_info(worker)->start_ns = 5000 * US;
  fake_thread(worker, 201, "python");
  fake_op(worker, 0, 0, 12000, 13000, "aten::ones", 0, 0);
  fake_file_call(worker, 0, 0, FAKE_WRITE, 20000, 20100, "pipe:[42]", 64);
  fake_call(worker, 0, 0, FAKE_SEM_POST, 40000, 40000, 0x1, 0, 0);
  fake_file_call(p, t, 1, FAKE_POLL, 2000, 20050, "pipe:[42]", 1);
  fake_file_call(p, t, 1, FAKE_READ, 20060, 20070, "pipe:[42]", 64);
  fake_user_op(p, t, 0, 1900, 20100, NEXT);
  fake_file_call(p, t, 1, FAKE_POLL, 30000, 40010, "pipe:[99]", 1); /* its sentinel */
  fake_user_op(p, t, 0, 29900, 40100, NEXT);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_gaps *g = &s->gaps;
  ck_assert_uint_eq(g->thread_count, 2);
  ck_assert_uint_eq(g->threads[0].duration_ns, 18070 * US);
  const struct opgap_sum_cause *c = g->threads[0].causes;
  size_t n = g->threads[0].cause_count;
  ck_assert_uint_eq(cause_ns(c, n, OPGAP_CAUSE_DATA_LOADING, "DataLoader worker 0: starting, importing modules"),
                    10000 * US);
  ck_assert_uint_eq(cause_ns(c, n, OPGAP_CAUSE_DATA_LOADING, "DataLoader worker 0: in op aten::ones"), 1000 * US);
  ck_assert_uint_eq(cause_ns(c, n, OPGAP_CAUSE_DATA_LOADING, "DataLoader worker 0: decoding or augmenting data"),
                    7000 * US);
  ck_assert_uint_eq(causes_sum(c, n), 18070 * US);
  ck_assert_str_eq(g->threads[1].causes[0].detail, "DataLoader worker 0: waited for until it ended");
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_resident_memory_of_processes_that_live_together)
{
  const uint64_t lives[3][3] = {{1000, 9000, 100}, {2000, 4000, 50}, {5000, 8000, 30}};
  for (int i = 0; i < 3; i++) {
    unsigned process = i == 0 ? p : fake_process(200 + i, 100, "worker");
    unsigned stream = fake_stream(process, OPGAP_STREAM_PROCESS);
    fake_info(process)->start_ns = lives[i][0] * US;
    fake_record(process, stream,
                (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                      .start_ns = lives[i][1] * US,
                                      .end_ns = lives[i][1] * US,
                                      .field = {lives[i][2]}});
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->memory.peak_rss_bytes, 150);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_pipes_of_two_hosts_are_two)
{
  /* pipe:[42] is written on another host: that is not what ended this wait */
  unsigned other = fake_process(300, 1, "elsewhere");
  fake_info(other)->host = "far";
  fake_info(other)->boot_id = "far-boot";
  fake_thread(other, 300, "elsewhere");
  fake_file_call(other, 0, 0, FAKE_WRITE, 4000, 4100, "pipe:[42]", 8);
  fake_file_call(p, t, 0, FAKE_READ, 1000, 4050, "pipe:[42]", 8);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gaps.thread_count, 1);
  ck_assert_str_eq(s->gaps.threads[0].causes[0].detail, "in read, waker not seen");
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_gil)
{
  /* a timed wait of 5 ms that ran out on this condition variable gives it away as the GIL's */
  unsigned second = fake_thread(p, 101, "loader");
  fake_op(p, t, 0, 500, 600, "aten::add", 0, 0);
  fake_call(p, second, 0, FAKE_COND_SIGNAL, 9000, 9000, 0x61, 0, 0);
  fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, 1000, 6050, 0x61, 0, 110);
  fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, 6060, 9010, 0x61, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gaps.thread_count, 2);
  for (size_t i = 0; i < s->gaps.thread_cause_count; i++)
    ck_assert_int_eq(s->gaps.thread_by_cause[i].cause, OPGAP_CAUSE_GIL);
  ck_assert_uint_eq(causes_sum(s->gaps.thread_by_cause, s->gaps.thread_cause_count), (5050 + 2950) * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_steps_by_bursts_of_backward)
{
  for (uint64_t i = 0; i < 4; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_op(p, t, 0, at, at + 300, "aten::linear", 0, 0);
    fake_op(p, t, 0, at + 400, at + 500, "autograd::engine::evaluate_function: AddmmBackward0", 0, 0);
    fake_op(p, t, 0, at + 500, at + 600, "autograd::engine::evaluate_function: TBackward0", 0, 0);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "backward");
  assert_steps(s, 3, 1000);
  opgap_summary_free(s);
}
END_TEST

/* subprocess.run(..., capture_output=True): the trainer reads what the child writes, and on until the child ends */
START_TEST(test_reading_from_a_child)
{
  unsigned child = fake_process(201, 100, "/usr/bin/cc -c a.c");
  fake_info(child)->start_ns = 3000 * US;
  fake_info(child)->end_ns = 240000 * US;
  fake_thread(child, 201, "cc");
  static const uint64_t lives[][2] = {{1500, 50000}, {120000, 130000}}; /* of others: none is waited for */
  for (unsigned i = 0; i < 2; i++) {
    unsigned other = fake_process(202 + (int)i, 100, "/usr/bin/ls");
    fake_info(other)->start_ns = lives[i][0] * US;
    fake_info(other)->end_ns = lives[i][1] * US;
    fake_thread(other, 202 + i, "ls");
  }
  fake_op(p, t, 0, 1000, 1100, "aten::add", 0, 0);
  fake_file_call(p, t, 0, FAKE_READ, 2000, 102000, "pipe:[42]", 8);
  fake_file_call(p, t, 0, FAKE_READ, 103000, 113000, "pipe:[43]", 8); /* the child neither starts nor ends then */
  fake_file_call(p, t, 0, FAKE_READ, 114000, 240010, "pipe:[42]", 0);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_gaps *g = &s->gaps;
  ck_assert_uint_eq(g->thread_count, 3);
  const struct opgap_sum_cause *end = g->threads[0].causes, *output = g->threads[1].causes,
                               *self = g->threads[2].causes;
  ck_assert_str_eq(end->detail, "program (cc): waited for until it ended");
  ck_assert_int_eq(end->cause, OPGAP_CAUSE_CHILD);
  ck_assert_uint_eq(end->ns, 126010 * US);
  ck_assert_str_eq(output->detail, "program (cc): its output was waited for");
  ck_assert_int_eq(output->cause, OPGAP_CAUSE_CHILD);
  ck_assert_uint_eq(output->ns, 100000 * US);
  ck_assert_str_eq(self->detail, "in read, waker not seen");
  ck_assert_int_eq(self->cause, OPGAP_CAUSE_SYNCHRONISATION);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_process_filter)
{
  unsigned other = fake_process(200, 100, "helper");
  unsigned thread = fake_thread(other, 200, "helper");
  fake_op(p, t, 0, 1000, 1100, "aten::add", 0, 0);
  fake_op(other, thread, 0, 1000, 1100, "aten::mul", 0, 0);
  struct opgap_analysis_options options = {.process = "200"};
  struct opgap_summary *s = fake_analyse(&options);
  ck_assert_uint_eq(s->process_count, 1);
  ck_assert_uint_eq(s->op_count, 1);
  ck_assert_str_eq(s->ops[0].name, "aten::mul");
  opgap_summary_free(s);
  options.process = "nobody";
  struct opgap_source source = fake_source();
  char error[256] = "";
  ck_assert_ptr_null(opgap_analyse(&source, &options, error, sizeof error));
  ck_assert_ptr_nonnull(strstr(error, "\"nobody\""));
}
END_TEST

START_TEST(test_killed_process_shows_where_it_stood)
{
  fake_info(p)->ended = OPGAP_ENDED_KILLED;
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_OPEN_OP,
                                    .start_ns = 1000 * US,
                                    .end_ns = 9000 * US,
                                    .field = {fake_name(p, "aten::conv2d")}});
  fake_record(
      p, t,
      (struct opgap_record){
          .event = OPGAP_EV_OPEN_CALL, .start_ns = 2000 * US, .end_ns = 9000 * US, .field = {FAKE_SEM_WAIT, 0x10}});
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->processes[0].ended, "killed");
  ck_assert_str_eq(s->processes[0].open_op, "aten::conv2d");
  ck_assert_str_eq(s->processes[0].open_call, "sem_wait");
  ck_assert_uint_eq(s->processes[0].open_ns, 7000 * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_untraced_children)
{
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_CHILD,
                                    .status = 3,
                                    .start_ns = 2000 * US,
                                    .end_ns = 2000 * US,
                                    .field = {777, fake_name(p, "/bin/static")}});
  fake_record(p, t, /* a system(): no pid is known, nothing can be said about it */
              (struct opgap_record){.event = OPGAP_EV_CHILD,
                                    .status = 4,
                                    .start_ns = 3000 * US,
                                    .end_ns = 3000 * US,
                                    .field = {0, fake_name(p, "true")}});
  fake_record(p, t, /* of a vfork: a program that could not be executed, and one that was */
              (struct opgap_record){
                  .event = OPGAP_EV_CHILD, .status = 6, .start_ns = 4000 * US, .end_ns = 4000 * US, .field = {778, 0}});
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_CHILD,
                                    .status = 2,
                                    .start_ns = 5000 * US,
                                    .end_ns = 5000 * US,
                                    .field = {779, fake_name(p, "/sbin/ldconfig")}});
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->untraced_count, 2);
  ck_assert_int_eq(s->untraced[1].pid, 779);
  ck_assert_str_eq(s->untraced[1].command, "/sbin/ldconfig");
  ck_assert_int_eq(s->untraced[0].pid, 777);
  ck_assert_str_eq(s->untraced[0].command, "/bin/static");
  opgap_summary_free(s);
}
END_TEST

/* One __next__ of a loader with one worker; messages: their lengths, up to a 0. */
static void fake_next(unsigned worker, uint64_t at_us, const unsigned *messages)
{
  uint64_t at = at_us;
  for (unsigned i = 0; i < 4 && messages[i] != 0; i++, at += 10) {
    fake_file_call(p, worker, 0, FAKE_WRITE, at - 5, at - 4, "pipe:[7]", messages[i] + 4);
    fake_file_call(p, t, 1, FAKE_READ, at + 1, at + 2, "pipe:[7]", 4);
    fake_file_call(p, t, 1, FAKE_READ, at + 3, at + 4, "pipe:[7]", messages[i]);
  }
  fake_user_op(p, t, 0, at_us, at_us + 50, NEXT);
}

/* Fetches of two epochs, the workers stay: which ones gave a batch follows from the messages' lengths and from what was
 * read between the epochs.  340: a tensor; 104 to 109: as long as an end; 84: a start, read outside of __next__. */
START_TEST(test_fetches_that_end)
{
  static const struct {
    unsigned messages[4][4]; /* of an epoch's fetches */
    bool starts;             /* one is read between the epochs */
    unsigned batches;        /* in both */
  } cases[] = {
      {{{340}, {340}, {340}, {0}}, true, 6},          /* of a map: the last one finds nothing */
      {{{340}, {340}, {340}, {104}}, true, 6},        /* of an iterable: the last one finds its end */
      {{{340}, {340}, {109, 340}, {0}}, true, 6},     /* one worker of two had fewer */
      {{{340, 340}, {0}, {340, 340}, {0}}, false, 8}, /* read out of their turn; one epoch of eight */
      {{{340}, {340, 109}, {340}, {109}}, true, 6},   /* two ends, at two fetches */
      {{{105}, {105}, {105}, {105}}, false, 8},       /* batches that are as long as an end */
      {{{103}, {110}, {103}, {110}}, false, 8},       /* and some that are not */
      {{{340}, {0}, {340}, {340}}, false, 8},         /* the second one's was read before the recording began */
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (i > 0)
      setup();
    unsigned worker = fake_thread(p, 101, "writer");
    for (unsigned epoch = 0; epoch < 2; epoch++) {
      uint64_t at = 10000 + epoch * 10000;
      if (epoch > 0 && cases[i].starts) {
        fake_file_call(p, t, 0, FAKE_READ, at - 100, at - 99, "pipe:[7]", 4);
        fake_file_call(p, t, 0, FAKE_READ, at - 98, at - 97, "pipe:[7]", 84);
      }
      for (unsigned k = 0; k < 4; k++) {
        fake_next(worker, at + k * 1000, cases[i].messages[k]);
        if (k < 3)
          fake_user_op(p, t, 0, at + k * 1000 + 100, at + k * 1000 + 200, "Optimizer.step#SGD.step");
      }
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_msg(s->loader.fetches == cases[i].batches, "case %u: %llu batches", i,
                  (unsigned long long)s->loader.fetches);
    opgap_summary_free(s);
  }
}
END_TEST

/* Outside of windows only forks are recorded: who was forked in the code of a DataLoader is a worker of its trainer,
 * numbered by its start, though nothing that it sends is known; another child is none, nor one of a process that only
 * has the same number as the trainer's child. */
START_TEST(test_workers_by_their_fork)
{
  static const struct {
    int pid, ppid;
    bool forked;
    const char *label;
  } children[] = {{203, 100, true, "DataLoader worker 1"},
                  {202, 100, true, "DataLoader worker 0"},
                  {204, 100, true, "child"},
                  {205, 100, false, "other"},
                  {206, 300, true, "child"}};
  fake_user_op(p, t, 0, 9000, 9100, "Optimizer.step#SGD.step");
  for (unsigned i = 0; i < 5; i++) {
    unsigned child = fake_process(children[i].pid, children[i].ppid, "python train.py");
    fake_info(child)->forked = children[i].forked;
    fake_info(child)->start_ns = (uint64_t)children[i].pid * 10 * US;
    const char *line = "/x/torch/utils/data/dataloader.py:1034 _MultiProcessingDataLoaderIter.__init__";
    fake_record(
        p, t,
        (struct opgap_record){.event = OPGAP_EV_CHILD,
                              .status = 1,
                              .start_ns = (3000 + i) * US,
                              .end_ns = (3000 + i) * US,
                              .field = {(uint64_t)children[i].pid, children[i].pid == 204 ? 0 : fake_name(p, line)}});
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->untraced_count, 0);
  for (unsigned i = 0; i < 5; i++)
    for (size_t k = 0; k < s->process_count; k++)
      if (s->processes[k].pid == children[i].pid)
        ck_assert_str_eq(s->processes[k].role_label, children[i].label);
  ck_assert_uint_eq(s->process_count, 6);
  ck_assert_uint_eq(s->loader.workers, 2);
  opgap_summary_free(s);
}
END_TEST

/* A program that a process executed in its place has a file of its own, or was not traced. */
START_TEST(test_untraced_program)
{
  fake_record(
      p, t,
      (struct opgap_record){
          .event = OPGAP_EV_EXEC, .start_ns = 2000 * US, .end_ns = 2000 * US, .field = {fake_name(p, "/bin/static")}});
  fake_info(p)->ended = OPGAP_ENDED_EXEC;
  fake_info(p)->end_ns = 2000 * US;
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->untraced_count, 1);
  ck_assert_int_eq(s->untraced[0].pid, fake_info(p)->pid);
  ck_assert_str_eq(s->untraced[0].command, "/bin/static");
  opgap_summary_free(s);
  unsigned next = fake_process(fake_info(p)->pid, 1, "/bin/static");
  fake_thread(next, fake_info(p)->pid, "static");
  fake_info(next)->start_ns = fake_info(next)->end_ns = 3000 * US;
  s = fake_analyse(NULL);
  ck_assert_uint_eq(s->untraced_count, 0);
  opgap_summary_free(s);
}
END_TEST

static unsigned fake_image(int pid, int ppid, uint64_t start_us, uint64_t end_us, bool forked, enum opgap_ended ended)
{
  unsigned image = fake_process(pid, ppid, "bash");
  fake_thread(image, pid, "bash");
  struct opgap_process_info *info = fake_info(image);
  info->start_ns = start_us * US;
  info->end_ns = end_us * US;
  info->forked = forked;
  info->ended = ended;
  return image;
}

static const char *role_of(const struct opgap_summary *s, int pid, uint64_t start_us)
{
  for (size_t i = 0; i < s->process_count; i++)
    if (s->processes[i].pid == pid && s->processes[i].start_ns == (start_us - 1) * US)
      return s->processes[i].role_label;
  ck_abort_msg("no process %d of %d us", pid, (int)start_us);
}

/* A shim waits for a command that finds the program, then executes that in its place: neither's waits are the
 * program's. A command that goes on beside the program, and a program that worked for long before it executed another,
 * are none. */
START_TEST(test_launcher)
{
  for (int longer = 0; longer < 2; longer++) {
    fake_reset();
    uint64_t work = longer ? 3000000 : 0;
    unsigned shim = fake_image(10, 1, 1, 500000 + work, false, OPGAP_ENDED_EXEC);
    unsigned finder = fake_image(11, 10, 50000, 450000, true, OPGAP_ENDED_CLEAN);
    unsigned deeper = fake_image(12, 11, 60000, 440000, true, OPGAP_ENDED_CLEAN);
    fake_image(13, 10, 60000, 9000000, true, OPGAP_ENDED_CLEAN);
    fake_image(14, 10, 61000, 65000, true, OPGAP_ENDED_EXEC); /* a subshell, and its command */
    fake_image(14, 10, 71000, 80000, false, OPGAP_ENDED_CLEAN);
    unsigned program = fake_image(10, 1, 510000 + work, 700000 + work, false, OPGAP_ENDED_CLEAN);
    fake_call(shim, 0, 0, FAKE_READ, 50000, 450000 + work, 3, 100, 0);
    fake_call(finder, 0, 0, FAKE_WAITPID, 60000, 440000, 12, 0, 0);
    fake_call(deeper, 0, 0, FAKE_SLEEP, 70000, 430000, 0, 0, 0);
    fake_call(program, 0, 0, FAKE_SLEEP, 520000 + work, 620000 + work, 0, 0, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->process_count, 7);
    ck_assert_str_eq(role_of(s, 14, 61000), longer ? "launcher" : "launch helper");
    ck_assert_str_eq(role_of(s, 14, 71000), longer ? "program" : "launch helper");
    ck_assert_str_eq(role_of(s, 10, 1), longer ? "program" : "launcher");
    ck_assert_str_eq(role_of(s, 11, 50000), longer ? "child" : "launch helper");
    ck_assert_str_eq(role_of(s, 12, 60000), longer ? "child" : "launch helper");
    ck_assert_str_eq(role_of(s, 13, 60000), "child");
    ck_assert_str_eq(role_of(s, 10, 510000 + work), "program");
    ck_assert_uint_eq(s->gaps.thread_count, longer ? 4 : 1);
    if (!longer)
      ck_assert_uint_eq(s->gaps.thread_ns, 100000 * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* More waits than a table lists, and more records than a ring of history: sums stay exact. */
START_TEST(test_many_gaps)
{
  for (uint64_t i = 0; i < 2000; i++)
    fake_call(p, t, 0, FAKE_SLEEP, 1000 + i * 10000, 1000 + i * 10000 + 1000 + i, 0, 0, 0);
  struct opgap_analysis_options options = {.gaps_listed = 3};
  struct opgap_summary *s = fake_analyse(&options);
  ck_assert_uint_eq(s->gaps.thread_count, 2000);
  ck_assert_uint_eq(s->gaps.thread_ns, (2000 * 1000 + 1999 * 2000 / 2) * US);
  ck_assert_uint_eq(s->gaps.thread_listed, 3);
  ck_assert_uint_eq(s->gaps.threads[0].duration_ns, 2999 * US);
  ck_assert_uint_eq(s->gaps.threads[2].duration_ns, 2997 * US);
  ck_assert_uint_eq(s->gaps.thread_cause_count, 1);
  ck_assert_uint_eq(s->gaps.thread_by_cause[0].count, 2000);
  opgap_summary_free(s);
}
END_TEST

/* So many calls behind a wait that its thread's history no longer has it when it is explained, 200 ms later: what it
 * was, and who ended it, is known all the same. */
START_TEST(test_gaps_that_history_gave_up)
{
  unsigned other = fake_thread(p, 101, "other");
  fake_file_call(p, t, 0, FAKE_WRITE, 1000, 4000, "/data/log", 6);
  fake_call(p, t, 0, FAKE_SEM_WAIT, 5000, 10000, 0x5000, 0, 0);
  fake_call(p, t, 0, FAKE_SEM_WAIT, 11000, 13000, 0x6000, 0, 0);
  for (uint64_t i = 0; i < 20000; i++)
    fake_file_call(p, t, 0, FAKE_WRITE, 20000 + 5 * i, 20001 + 5 * i, "/data/log", 6);
  fake_call(p, other, 0, FAKE_SLEEP, 4500, 9000, 0, 0, 0);
  fake_call(p, other, 0, FAKE_SEM_POST, 9990, 9995, 0x5000, 0, 0);
  struct opgap_analysis_options options = {.gaps_listed = 10};
  struct opgap_summary *s = fake_analyse(&options);
  const struct opgap_sum_gaps *gaps = &s->gaps;
  const struct opgap_sum_cause *rows = gaps->thread_by_cause;
  size_t count = gaps->thread_cause_count;
  ck_assert_uint_eq(gaps->thread_count, 3);
  ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_FILE_IO, "writing files"), 3000 * US);
  ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_SLEEP, "thread other: nanosleep"), 4000 * US);
  ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_PYTHON, "thread other: own code, no call"), 990 * US);
  ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_RUN_QUEUE, "woken, not yet running (no free CPU)"), 10 * US);
  ck_assert_uint_eq(cause_ns(rows, count, OPGAP_CAUSE_SYNCHRONISATION, "in sem_wait, waker not seen"), 2000 * US);
  ck_assert_uint_eq(count, 5);
  ck_assert_str_eq(gaps->threads[1].causes[0].detail, "writing /data/log");
  opgap_summary_free(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("analysis");
  TCase *tests = new_case("analysis");
  tcase_add_checked_fixture(tests, setup, NULL);
  tcase_add_test(tests, test_self_total_blocked);
  tcase_add_test(tests, test_page_faults_of_ops);
  tcase_add_test(tests, test_page_faults_of_a_process);
  tcase_add_test(tests, test_only_child_of_same_name_is_no_row);
  tcase_add_test(tests, test_profiler_steps_are_one_row);
  tcase_add_test(tests, test_orphans_go_to_the_next_op);
  tcase_add_test(tests, test_few_timed_calls);
  tcase_add_test(tests, test_estimates_that_cannot_be);
  tcase_add_test(tests, test_estimate_of_a_silent_thread);
  tcase_add_test(tests, test_cost_of_events);
  tcase_add_test(tests, test_counters_count_all_calls);
  tcase_add_test(tests, test_counters_of_threads_add_up);
  tcase_add_test(tests, test_live_and_peak_with_every_allocation);
  tcase_add_test(tests, test_live_bytes_are_exact);
  tcase_add_test(tests, test_files_by_operation);
  tcase_add_test(tests, test_calls_on_files_block);
  tcase_add_test(tests, test_calls_that_change_files);
  tcase_add_test(tests, test_files_without_steps);
  tcase_add_test(tests, test_mapped_files_without_steps);
  tcase_add_test(tests, test_largest_cause_of_idle_time);
  tcase_add_test(tests, test_lock_and_holder);
  tcase_add_test(tests, test_threads_that_wait_for_a_lock);
  tcase_add_test(tests, test_parts_that_read_the_same_are_one);
  tcase_add_test(tests, test_optimizer_steps);
  tcase_add_test(tests, test_costliest_op_is_that_of_the_table);
  tcase_add_test(tests, test_sleep_in_steps_is_no_dispatch);
  tcase_add_test(tests, test_sleep_of_the_host_is_no_dispatch);
  tcase_add_test(tests, test_python_of_the_host);
  tcase_add_test(tests, test_time_off_is_not_idle);
  tcase_add_test(tests, test_lock_in_steps_is_no_dispatch);
  tcase_add_test(tests, test_reads_in_steps_are_data_loading);
  tcase_add_test(tests, test_network_in_steps_is_communication);
  tcase_add_test(tests, test_poll_that_times_out_is_sleep);
  tcase_add_test(tests, test_poll_that_times_out_waits_for_what_it_names);
  tcase_add_test(tests, test_waits_that_time_out);
  tcase_add_test(tests, test_gil_of_plain_python);
  tcase_add_test(tests, test_wait_for_collective_is_communication);
  tcase_add_test(tests, test_two_optimizers_are_one_step);
  tcase_add_test(tests, test_gan_without_loader);
  tcase_add_test(tests, test_gan_with_loader);
  tcase_add_test(tests, test_gan_with_an_exception);
  tcase_add_test(tests, test_irregular_fetches);
  tcase_add_test(tests, test_gan_in_a_window_of_steps);
  tcase_add_test(tests, test_gan_with_a_schedule);
  tcase_add_test(tests, test_gan_with_a_part_left_out);
  tcase_add_test(tests, test_process_without_steps);
  tcase_add_test(tests, test_gradient_accumulation);
  tcase_add_test(tests, test_other_work_makes_no_rounds);
  tcase_add_test(tests, test_nvtx_steps);
  tcase_add_test(tests, test_opgap_step_is_first_choice);
  tcase_add_test(tests, test_schedule_gap_is_no_step);
  tcase_add_test(tests, test_schedule_gap_between_marks);
  tcase_add_test(tests, test_window_begins_a_step);
  tcase_add_test(tests, test_many_pauses);
  tcase_add_test(tests, test_window_opens_between_optimizers);
  tcase_add_test(tests, test_schedule_without_gap);
  tcase_add_test(tests, test_limits_of_the_recording_are_said);
  tcase_add_test(tests, test_losses_name_their_cure);
  tcase_add_test(tests, test_runs_far_apart_are_told);
  tcase_add_test(tests, test_recording_that_never_started);
  tcase_add_test(tests, test_no_limits_no_notice);
  tcase_add_test(tests, test_window_of_steps);
  tcase_add_test(tests, test_window_that_is_not_there);
  tcase_add_test(tests, test_no_steps);
  tcase_add_test(tests, test_percentiles);
  tcase_add_test(tests, test_sleep_and_file_gaps);
  tcase_add_test(tests, test_wait_for_a_thread_that_reads);
  tcase_add_test(tests, test_wait_without_waker);
  tcase_add_test(tests, test_join_is_explained_by_the_thread);
  tcase_add_test(tests, test_dataloader_wait_is_charged_to_its_worker);
  tcase_add_test(tests, test_spawned_worker_starts_and_is_waited_for);
  tcase_add_test(tests, test_gil);
  tcase_add_test(tests, test_resident_memory_of_processes_that_live_together);
  tcase_add_test(tests, test_pipes_of_two_hosts_are_two);
  tcase_add_test(tests, test_steps_by_bursts_of_backward);
  tcase_add_test(tests, test_reading_from_a_child);
  tcase_add_test(tests, test_process_filter);
  tcase_add_test(tests, test_killed_process_shows_where_it_stood);
  tcase_add_test(tests, test_untraced_children);
  tcase_add_test(tests, test_untraced_program);
  tcase_add_test(tests, test_workers_by_their_fork);
  tcase_add_test(tests, test_fetches_that_end);
  tcase_add_test(tests, test_launcher);
  tcase_add_test(tests, test_many_gaps);
  tcase_add_test(tests, test_gaps_that_history_gave_up);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
