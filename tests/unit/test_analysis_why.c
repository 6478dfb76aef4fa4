/* Why a step takes its time: bottlenecks and their bounds, DataLoader workers, the scheduler's samples. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "analysis/pool.h"
#include "fake_source.h"
#include "output/output.h"
#include "suite.h"

#define US 1000ull
#define MS 1000000ull
#define STEPS 20u
#define COUNTED 19u /* the first step is warm-up */
#define NEXT "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

static unsigned p, t; /* the trainer and its main thread */

static void setup(void)
{
  fake_reset();
  p = fake_process(100, 1, "python train.py");
  t = fake_thread(p, 100, "python");
  fake_setting(p, "cores", "2");
}

static const struct opgap_sum_bottleneck *bottleneck(const struct opgap_summary *s, const char *kind)
{
  for (size_t i = 0; i < s->verdict.bottleneck_count; i++)
    if (strcmp(s->verdict.bottlenecks[i].kind, kind) == 0)
      return &s->verdict.bottlenecks[i];
  ck_abort_msg("no bottleneck %s", kind);
}

static void assert_first(const struct opgap_summary *s, const char *kind)
{
  ck_assert_uint_gt(s->verdict.bottleneck_count, 0);
  ck_assert_str_eq(s->verdict.bottlenecks[0].kind, kind);
}

/* ---- samples of the scheduler, every 100 ms from 50 ms on ---- */

struct rates { /* ms in 100 ms */
  uint64_t run, queue, throttled;
};

static void sample(unsigned stream, uint32_t tid, uint64_t count, const struct rates *r)
{
  uint64_t at = (50 + 100 * count) * MS;
  if (r->throttled > 0)
    fake_record(p, stream,
                (struct opgap_record){.event = OPGAP_EV_CGROUP,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .field = {count, count, r->throttled * MS * count}});
  fake_record(p, stream,
              (struct opgap_record){.event = OPGAP_EV_SCHED,
                                    .status = tid,
                                    .start_ns = at,
                                    .end_ns = at,
                                    .field = {r->run * MS * count, r->queue * MS * count, count}});
}

/* ---- waits of the main thread: steps of 10 ms, an op of 2 ms, what the test adds from 2.1 ms to 9.1 ms ---- */

static uint64_t step_us(uint64_t i)
{
  return 1000 + 10000 * i;
}

static void step_begins(uint64_t i)
{
  fake_op(p, t, 0, step_us(i), step_us(i) + 2000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
}

static void step_ends(uint64_t i)
{
  fake_user_op(p, t, 0, step_us(i) + 9300, step_us(i) + 9800, "Optimizer.step#SGD.step");
}

/* Itself, and 1 ms of caches refilled after it. */
START_TEST(test_sleep_is_bounded_by_itself)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 2100, step_us(i) + 9100, 0, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "sleep");
  ck_assert_uint_eq(s->verdict.step_ns, COUNTED * 10 * MS);
  ck_assert_uint_eq(bottleneck(s, "sleep")->ns, COUNTED * 7 * MS);
  ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, COUNTED * 8 * MS);
  ck_assert_uint_eq(s->breakdown.other_wait_ns[OPGAP_CAUSE_SLEEP], COUNTED * 7 * MS);
  /* ops of 2.5 ms a step, two of them, 1.25 ms each: no dispatch */
  ck_assert_uint_eq(bottleneck(s, "compute")->ns, COUNTED * 2500 * US);
  ck_assert_uint_eq(bottleneck(s, "compute")->at_most_ns, OPGAP_UNKNOWN);
  ck_assert_uint_eq(bottleneck(s, "python")->ns, COUNTED * 500 * US);
  ck_assert_uint_eq(bottleneck(s, "python")->at_most_ns, COUNTED * 1000 * US);
  opgap_summary_free(s);
}
END_TEST

/* Ops of 2.5 of 10 ms, and nothing known of the rest: it is dispatch, but what to take out is not ops. */
START_TEST(test_python_between_ops)
{
  static const char *const stacks[] = {NULL, "native", "python", "both"};
  for (unsigned k = 0; k < sizeof stacks / sizeof *stacks; k++) {
    setup();
    if (stacks[k] != NULL)
      fake_setting(p, "OPGAP_STACKS", stacks[k]);
    const char *remedy = k < 2
                             ? "Move Python work, logging and .item() calls out of the step: with OPGAP_STACKS=python "
                               "the table of hot ops has the lines that it lies between."
                             : "Move Python work, logging and .item() calls out of the step: it lies between the lines "
                               "that the table of hot ops has.";
    for (uint64_t i = 0; i < STEPS; i++) {
      step_begins(i);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    assert_first(s, "python");
    ck_assert_str_eq(bottleneck(s, "python")->remedy, remedy);
    /* stretches of 7.3 and 0.2 ms, behind which caches are refilled for at most 1 and 0.2 ms */
    ck_assert_uint_eq(bottleneck(s, "python")->ns, COUNTED * 7500 * US);
    ck_assert_uint_eq(bottleneck(s, "python")->at_most_ns, COUNTED * 8700 * US);
    ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_CPU_DISPATCH);
    ck_assert_str_eq(
        s->verdict.evidence[1],
        "The host's time is Python code between ops (75.0 % of step time), not the ops themselves (25.0 %).");
    ck_assert_uint_eq(s->verdict.remedy_count, 3);
    ck_assert_str_eq(s->verdict.remedies[0], remedy);
    ck_assert_str_eq(s->verdict.remedies[1], "Give each op more to do: a larger batch.");
    opgap_summary_free(s);
  }
}
END_TEST

/* Small ops that take most of the step: what Python does between them comes last. */
START_TEST(test_small_ops)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    for (uint64_t k = 0; k < 400; k++)
      fake_op(p, t, 0, step_us(i) + 2000 + 15 * k, step_us(i) + 2010 + 15 * k, "aten::add", 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_CPU_DISPATCH);
  ck_assert_str_eq(s->verdict.evidence[1], "A framework op takes 16.2 us on average.");
  ck_assert_uint_eq(s->verdict.remedy_count, 3);
  ck_assert_str_eq(s->verdict.remedies[0], "Give each op more to do: a larger batch.");
  ck_assert_str_eq(s->verdict.remedies[2], "Move Python work and .item() calls out of the step.");
  ck_assert_str_eq(bottleneck(s, "python")->remedy, "Move Python work, logging and .item() calls out of the step.");
  opgap_summary_free(s);
}
END_TEST

/* CPython's lock is a semaphore: who gives it up has slept, from before the main thread waits until 1 ms before it goes
 * on.  It is the holder's sleep, not the main thread's, which itself sleeps for 0.5 ms.  What the wait is for is known
 * where another thread reads files, too. */
START_TEST(test_sleep_and_files_of_another_thread)
{
  unsigned holder = fake_thread(p, 101, "holder");
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, holder, 0, FAKE_SLEEP, step_us(i) + 1000, step_us(i) + 6100, 0, 0, 0);
    fake_file_call(p, holder, 0, FAKE_WRITE, step_us(i) + 6100, step_us(i) + 7600, "/d/log", 7000);
    fake_call(p, holder, 0, FAKE_SEM_POST, step_us(i) + 7600, step_us(i) + 7600, 0xabc, 0, 0);
    fake_call(p, t, 0, FAKE_SEM_WAIT, step_us(i) + 2100, step_us(i) + 8600, 0xabc, 0, 0);
    fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 8700, step_us(i) + 9200, 0, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_bottleneck *other = bottleneck(s, "other_thread_sleep"), *own = bottleneck(s, "sleep");
  assert_first(s, "other_thread_sleep");
  ck_assert_uint_eq(other->ns, COUNTED * 4 * MS);
  ck_assert_uint_eq(own->ns, COUNTED * 500 * US);
  /* with the tail of 1 ms, and caches refilled behind each of the two waits */
  ck_assert_uint_eq(other->at_most_ns, COUNTED * (4000 + 1000 + 1000 + 500) * US);
  ck_assert_uint_eq(own->at_most_ns, COUNTED * (500 + 1000 + 1000 + 500) * US);
  ck_assert_str_eq(other->text, "The main thread waits for a lock, or for something else, of a thread that sleeps "
                                "meanwhile, for 40.0 % of step time");
  ck_assert_str_eq(own->text, "The main thread sleeps for 5.0 % of step time");
  ck_assert_str_eq(bottleneck(s, "file_write")->text,
                   "A thread that the main thread waits for is in calls on files for "
                   "15.0 % of step time, mostly writing and syncing");
  ck_assert_str_eq(s->verdict.remedies[0], other->remedy);
  ck_assert_ptr_nonnull(strstr(s->verdict.evidence[1], "(45.0 %): waiting for a thread that sleeps."));
  opgap_summary_free(s);
}
END_TEST

/* The time from the unlock until the waiter runs goes with the lock.  Nobody knows what its holder ran meanwhile, so
 * all work may have been slower for it. */
START_TEST(test_lock_bound_without_samples)
{
  unsigned holder = fake_thread(p, 101, "holder");
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, holder, 0, FAKE_MUTEX_UNLOCK, step_us(i) + 8100, step_us(i) + 8100, 0xabc, 0, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, step_us(i) + 2100, step_us(i) + 9100, 0xabc, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "lock");
  ck_assert_uint_eq(bottleneck(s, "lock")->ns, COUNTED * 6 * MS);
  ck_assert_uint_eq(bottleneck(s, "lock")->at_most_ns, s->verdict.step_ns);
  opgap_summary_free(s);
}
END_TEST

/* A wait inside an op counts, too: it is not part of "other", but removing it shortens the step. */
START_TEST(test_sleep_inside_an_op)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    fake_call(p, t, 1, FAKE_SLEEP, step_us(i) + 100, step_us(i) + 1900, 0, 0, 0);
    step_begins(i);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, COUNTED * 2800 * US);
  ck_assert_uint_eq(s->breakdown.other_wait_ns[OPGAP_CAUSE_SLEEP], 0);
  opgap_summary_free(s);
}
END_TEST

/* Refilling the caches after a wait takes no longer than the wait did, in which they were used. */
START_TEST(test_short_sleeps)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    for (uint64_t k = 0; k < 10; k++)
      fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 2100 + 500 * k, step_us(i) + 2400 + 500 * k, 0, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(bottleneck(s, "sleep")->ns, COUNTED * 3 * MS);
  ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, COUNTED * 6 * MS);
  opgap_summary_free(s);
}
END_TEST

/* Half of the steps end inside a __next__: behind it the caches are refilled once. */
START_TEST(test_fetch_over_two_steps)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    if (i % 2 == 1)
      fake_user_op(p, t, 0, 10000 * i - 2000, 10000 * i + 2000,
                   "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_step(p, t, 10000 * (i + 1));
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "opgap_step");
  ck_assert_uint_eq(bottleneck(s, "no_workers")->ns, (9 * 4 + 2) * MS);
  ck_assert_uint_eq(bottleneck(s, "no_workers")->at_most_ns, (9 * 4 + 2 + 10) * MS);
  opgap_summary_free(s);
}
END_TEST

/* A request to another process that keeps the writer waiting: it has read all, and computes.  What is behind a socket
 * may as well be the network. */
START_TEST(test_write_waits_for_the_reader)
{
  for (int socket = 0; socket < 2; socket++) {
    setup();
    unsigned bystander = fake_process(190, 100, "python train.py"), idle = fake_thread(bystander, 190, "bystander");
    unsigned decoder = fake_process(200, 100, "python train.py"), its = fake_thread(decoder, 200, "decoder");
    const char *object = socket ? "socket:[5]" : "pipe:[5]", *kind = socket ? "communication" : "other_thread";
    fake_file_call(bystander, idle, 0, FAKE_READ, 0, step_us(0), "pipe:[6]", 1);
    fake_call(bystander, idle, 0, FAKE_SLEEP, step_us(0), step_us(STEPS), 0, 0, 0);
    for (uint64_t i = 0; i < STEPS; i++) {
      step_begins(i);
      fake_file_call(decoder, its, 0, FAKE_READ, step_us(i) + 1000, step_us(i) + 2100, object, 1);
      fake_file_call(p, t, 0, FAKE_WRITE, step_us(i) + 2100, step_us(i) + 9100, object, 1);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    assert_first(s, kind);
    ck_assert_uint_eq(bottleneck(s, kind)->ns, COUNTED * 7 * MS);
    opgap_summary_free(s);
  }
}
END_TEST

/* What a process that is waited for writes to the waiting one keeps nobody waiting that could be blamed. */
START_TEST(test_write_to_who_waits)
{
  unsigned other = fake_process(200, 100, "python train.py"), its = fake_thread(other, 200, "other");
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_file_call(other, its, 0, FAKE_WRITE, step_us(i) + 2100, step_us(i) + 5100, "pipe:[6]", 1);
    fake_file_call(other, its, 0, FAKE_WRITE, step_us(i) + 8100, step_us(i) + 8110, "pipe:[5]", 1);
    fake_file_call(p, t, 0, FAKE_READ, step_us(i) + 2100, step_us(i) + 8100, "pipe:[5]", 1);
    fake_file_call(p, t, 0, FAKE_READ, step_us(i) + 8150, step_us(i) + 8160, "pipe:[6]", 1);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  uint64_t written = 0;
  for (size_t i = 0; i < s->gaps.thread_cause_count; i++)
    if (strstr(s->gaps.thread_by_cause[i].detail, ": in write, waker not seen") != NULL)
      written += s->gaps.thread_by_cause[i].ns;
  ck_assert_uint_eq(written, STEPS * 3 * MS);
  ck_assert_uint_eq(bottleneck(s, "other_thread")->ns, COUNTED * 3 * MS);
  opgap_summary_free(s);
}
END_TEST

/* What ends a wait on one end of a socketpair is written to the other one: not the last write of another thread to the
 * end that is read.  Who executed a program knows its end as any socket, and may come first. */
START_TEST(test_ends_of_a_pair)
{
  static const char *const reads[] = {"socketpair:[5,6]", "socketpair:[5,6]", "socket:[5]"};
  static const char *const writes[] = {"socketpair:[6,5]", "socket:[6]", "socketpair:[6,5]"};
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
    for (int polls = 0; polls < 2; polls++) {
      setup();
      unsigned server = fake_process(200, 100, "/usr/bin/server"), its = fake_thread(server, 200, "server");
      unsigned writer = fake_thread(p, 101, "writer");
      fake_file_call(server, its, 0, FAKE_WRITE, 10, 20, writes[i], 1);
      fake_call(server, its, 0, FAKE_SLEEP, 1500, 10900, 0, 0, 0);
      fake_file_call(server, its, 0, FAKE_WRITE, 10900, 10910, writes[i], 1);
      fake_file_call(p, writer, 0, FAKE_WRITE, 10950, 10960, reads[i], 1);
      fake_file_call(p, t, 0, polls ? FAKE_POLL : FAKE_READ, 1000, 11000, reads[i], 1);
      fake_file_call(p, t, 0, FAKE_READ, 11001, 11002, reads[i], 1);
      struct opgap_summary *s = fake_analyse(NULL);
      uint64_t sleeps = 0, communication = 0;
      for (size_t k = 0; k < s->gaps.thread_cause_count; k++) {
        const struct opgap_sum_cause *cause = &s->gaps.thread_by_cause[k];
        sleeps += cause->cause == OPGAP_CAUSE_SLEEP && strstr(cause->detail, "server") != NULL ? cause->ns : 0;
        communication += cause->cause == OPGAP_CAUSE_COMMUNICATION ? cause->ns : 0;
      }
      ck_assert_uint_eq(sleeps, 9400 * US);
      ck_assert_uint_eq(communication, 0);
      opgap_summary_free(s);
    }
}
END_TEST

/* The thread that is waited for for 100 ms yields 100,000 times in 200 ms, of which it sleeps for 40 before; 100 that
 * were timed took 800 ns each, so half of the time that it does not sleep is in there.  Where none was timed nothing is
 * known, nor of what it did before the flusher last looked, which a sample tells. */
START_TEST(test_spinning_thread)
{
  enum { KNOWN, UNTIMED, LATE, CASES };
  for (int how = 0; how < CASES; how++) {
    setup();
    unsigned worker = fake_thread(p, 101, "worker"), samples = fake_stream(p, OPGAP_STREAM_PROCESS);
    for (uint64_t at = 160; how == LATE && at <= 209; at += 49)
      fake_record(p, samples,
                  (struct opgap_record){.event = OPGAP_EV_SCHED,
                                        .status = 101,
                                        .start_ns = at * MS,
                                        .end_ns = at * MS,
                                        .field = {(at - 160) * MS, 0, 0}});
    uint64_t times[2][5] = {{1}, {100001, 0, 0, how == UNTIMED ? 0 : 100, how == UNTIMED ? 0 : 80000}};
    for (uint64_t i = 0; i < 2; i++) {
      struct opgap_record counter = {.event = OPGAP_EV_COUNTER, .status = FAKE_YIELD};
      counter.start_ns = counter.end_ns = (10 + 200 * i) * MS;
      memcpy(counter.field, times[i], sizeof times[i]);
      fake_record(p, worker, counter);
      if (i == 0) {
        fake_call(p, worker, 0, FAKE_SLEEP, 10000, 50000, 0, 0, 0);
        fake_call(p, worker, 0, FAKE_SEM_POST, 150000, 150000, 0x5e, 0, 0);
      }
    }
    fake_call(p, t, 0, FAKE_SEM_WAIT, 50000, 150010, 0x5e, 0, 0);
    fake_call(p, t, 0, FAKE_SLEEP, 500000, 600000, 0, 0, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    uint64_t spins = 0, all = 0;
    for (size_t k = 0; k < s->gaps.thread_cause_count; k++) {
      const struct opgap_sum_cause *cause = &s->gaps.thread_by_cause[k];
      if (cause->cause == OPGAP_CAUSE_SLEEP)
        continue;
      all += cause->ns;
      spins += strcmp(cause->detail, "thread worker: ~spinning (sched_yield)") == 0 ? cause->ns : 0;
    }
    ck_assert_uint_eq(all, 100 * MS + 10 * US);
    ck_assert_uint_eq(spins, how == KNOWN ? 50 * MS : 0);
    opgap_summary_free(s);
  }
}
END_TEST

/* A child that starts as a wait for the network begins, and lives on, is not what was waited for. */
START_TEST(test_poll_beside_a_child_that_starts)
{
  unsigned child = fake_process(200, 100, "/usr/bin/helper"), its = fake_thread(child, 200, "helper");
  fake_info(child)->start_ns = 100 * MS;
  fake_file_call(p, t, 0, FAKE_POLL, 100000, 300000, "", 1);
  fake_call(child, its, 0, FAKE_SLEEP, 100000, 2000000, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  uint64_t network = 0;
  for (size_t i = 0; i < s->gaps.thread_cause_count; i++) {
    ck_assert_int_ne(s->gaps.thread_by_cause[i].cause, OPGAP_CAUSE_CHILD);
    network += s->gaps.thread_by_cause[i].cause == OPGAP_CAUSE_COMMUNICATION ? s->gaps.thread_by_cause[i].ns : 0;
  }
  ck_assert_uint_eq(network, 200 * MS);
  opgap_summary_free(s);
}
END_TEST

/* Idle time is a sum over main threads: two programs that read for 600 of 1000 ms each are not idle for 1200 of them.
 */
START_TEST(test_main_threads_of_two_programs)
{
  unsigned second = fake_process(200, 1, "/usr/bin/second"), its = fake_thread(second, 200, "second");
  fake_info(second)->end_ns = fake_info(p)->end_ns;
  fake_file_call(p, t, 0, FAKE_READ, 100000, 700000, "/d/x", 1);
  fake_file_call(second, its, 0, FAKE_READ, 100000, 700000, "/d/y", 1);
  struct opgap_summary *s = fake_analyse(NULL);
  uint64_t lived, each = fake_info(p)->end_ns - fake_info(p)->start_ns;
  char text[128];
  ck_assert_uint_eq(opgap_gap_processes(s, &lived), 2);
  ck_assert_uint_eq(lived, 2 * each);
  ck_assert_uint_eq(s->verdict.evidence_count, 3);
  snprintf(text, sizeof text, "The main threads of 2 processes were idle %.1f %% of their time; ",
           100 * 600e6 / (double)each);
  ck_assert_ptr_nonnull(strstr(s->verdict.evidence[1], text));
  ck_assert_str_eq(s->verdict.evidence[2], "The main threads of 2 processes were idle 2 times, 1.200 s in all; most of "
                                           "it (100.0 %): file I/O, reading files.");
  opgap_summary_free(s);
}
END_TEST

/* The program that will read what is written is started by a shell 6 of 7 ms later: that is a wait for a child process,
 * which is named.  What it does before it reads is its own. */
START_TEST(test_write_waits_for_a_program_to_begin)
{
  for (uint64_t i = 0; i < 6; i++)
    step_begins(i), step_ends(i);
  unsigned reader = fake_process(300, 250, "/usr/bin/cat"), its = fake_thread(reader, 300, "cat");
  fake_info(reader)->start_ns = (step_us(6) + 8100) * US;
  step_begins(6);
  fake_file_call(reader, its, 0, FAKE_READ, step_us(6) + 9000, step_us(6) + 9100, "pipe:[5]", 65536);
  fake_file_call(p, t, 0, FAKE_WRITE, step_us(6) + 2100, step_us(6) + 9100, "pipe:[5]", 1 << 20);
  step_ends(6);
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_gaps *gaps = &s->gaps;
  ck_assert_uint_eq(gaps->thread_count, 1);
  ck_assert_int_eq(gaps->thread_by_cause[0].cause, OPGAP_CAUSE_CHILD);
  ck_assert_str_eq(gaps->thread_by_cause[0].detail, "other (cat): waited for until it began");
  ck_assert_uint_eq(gaps->thread_by_cause[0].ns, 6 * MS);
  ck_assert_uint_eq(bottleneck(s, "child_process")->ns, 6 * MS);
  for (size_t i = 0; i < gaps->thread_cause_count; i++)
    ck_assert_int_ne(gaps->thread_by_cause[i].cause, OPGAP_CAUSE_STARTUP);
  opgap_summary_free(s);
}
END_TEST

/* Others come to the barrier before the main thread, 3 and 6 ms after it: it waits for the code of the last, and goes
 * on 0.2 ms later; meanwhile somebody comes to another barrier.  To the next one the main thread comes last. */
START_TEST(test_barrier_waits_for_the_last)
{
  unsigned early = fake_thread(p, 101, "early"), late = fake_thread(p, 102, "late");
  unsigned middle = fake_thread(p, 103, "middle"), other = fake_thread(p, 104, "other");
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, late, 0, FAKE_BARRIER, step_us(i) + 3000, step_us(i) + 3100, 0xdd, 0, 0);
    fake_call(p, late, 0, FAKE_BARRIER, step_us(i) + 8100, step_us(i) + 8150, 0xba, 0, 0);
    fake_call(p, other, 0, FAKE_BARRIER, step_us(i) + 8200, step_us(i) + 8250, 0xdd, 0, 0);
    fake_call(p, early, 0, FAKE_BARRIER, step_us(i) + 1000, step_us(i) + 8350, 0xba, 0, 0);
    fake_call(p, middle, 0, FAKE_BARRIER, step_us(i) + 5000, step_us(i) + 8320, 0xba, 0, 0);
    fake_call(p, t, 0, FAKE_BARRIER, step_us(i) + 2100, step_us(i) + 8300, 0xba, 0, 0);
    fake_call(p, early, 0, FAKE_BARRIER, step_us(i) + 8400, step_us(i) + 9190, 0xbb, 0, 0);
    fake_call(p, t, 0, FAKE_BARRIER, step_us(i) + 9100, step_us(i) + 9200, 0xbb, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  /* what the last one waited for at its other barrier is that: 0.1 ms of the 6; and 0.1 ms of the next barrier */
  assert_first(s, "other_thread");
  ck_assert_uint_eq(bottleneck(s, "other_thread")->ns, COUNTED * 5900 * US);
  /* that one it came last to: those that it woke had the CPU */
  ck_assert_uint_eq(s->breakdown.other_wait_ns[OPGAP_CAUSE_SYNCHRONISATION], COUNTED * 100 * US);
  ck_assert_uint_eq(s->breakdown.other_wait_ns[OPGAP_CAUSE_RUN_QUEUE], COUNTED * 300 * US);
  opgap_summary_free(s);
}
END_TEST

/* A read of 600 ms that a signal's handler interrupts with a write of 100 ms, which an inner handler interrupts with
 * one of 40: one wait, for what is read, in which the thread spends 500 ms for it, and no more than it lives. */
START_TEST(test_calls_of_a_signal_handler)
{
  fake_file_call(p, t, 2, FAKE_WRITE, 230000, 270000, "/d/inner", 10);
  fake_file_call(p, t, 1, FAKE_WRITE, 200000, 300000, "/d/log", 10);
  fake_file_call(p, t, 0, FAKE_READ, 100000, 700000, "/d/fifo", 1);
  fake_call(p, t, 0, FAKE_SLEEP, 700000, 720000, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gaps.thread_count, 2);
  ck_assert_uint_eq(s->gaps.thread_listed, 2);
  ck_assert_uint_eq(s->gaps.thread_ns, 620 * MS);
  ck_assert_uint_eq(s->gaps.thread_cause_count, 2);
  ck_assert_str_eq(s->gaps.thread_by_cause[0].detail, "reading files");
  ck_assert_uint_eq(s->gaps.thread_by_cause[0].ns, 600 * MS);
  ck_assert_uint_eq(s->threads[0].file_ns, 600 * MS);
  ck_assert_uint_eq(s->threads[0].blocked_ns, 620 * MS);
  ck_assert_uint_eq(s->processes[0].file_ns, 600 * MS);
  ck_assert_uint_eq(s->processes[0].blocked_ns, 620 * MS);
  ck_assert_uint_eq(s->file_count, 3);
  for (size_t i = 0; i < s->file_count; i++)
    ck_assert_uint_eq(s->files[i].time_ns, strcmp(s->files[i].path, "/d/fifo") == 0  ? 500 * MS
                                           : strcmp(s->files[i].path, "/d/log") == 0 ? 60 * MS
                                                                                     : 40 * MS);
  opgap_summary_free(s);
}
END_TEST

/* Half of the steps end inside a sleep: behind it the caches are refilled once. */
START_TEST(test_sleep_over_two_steps)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    if (i % 2 == 1)
      fake_call(p, t, 0, FAKE_SLEEP, 10000 * i - 2000, 10000 * i + 2000, 0, 0, 0);
    fake_step(p, t, 10000 * (i + 1));
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.steps, COUNTED);
  ck_assert_uint_eq(bottleneck(s, "sleep")->ns, (9 * 4 + 2) * MS); /* the first one began in the warm-up */
  ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, (9 * 4 + 2 + 10) * MS);
  opgap_summary_free(s);
}
END_TEST

/* Waits for a lock from 2.1 to 8.1 ms, whose holder sleeps, and reads; 1 ms until it runs again.  Its parts have one
 * refill.  A sleep of 0.1 ms behind it has no tail.  The holder is never on a CPU, and the main thread waits for none:
 * its samples may be 10 ms old, and before the first, at 50 ms, it is in no call for 11 ms. */
START_TEST(test_tails_are_of_their_own_waits)
{
  struct rates never = {10, 0, 0};
  unsigned holder = fake_thread(p, 101, "holder"), samples = fake_stream(p, OPGAP_STREAM_PROCESS);
  uint64_t idle = step_us(0);
  for (uint64_t i = 0; i < 4; i++)
    sample(samples, 100, i, &never);
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, holder, 0, FAKE_SLEEP, idle, step_us(i) + 5100, 0, 0, 0);
    fake_file_call(p, holder, 0, FAKE_READ, step_us(i) + 5100, step_us(i) + 8100, "/d/x", 7000);
    fake_call(p, holder, 0, FAKE_MUTEX_UNLOCK, step_us(i) + 8100, step_us(i) + 8100, 0xabc, 0, 0);
    idle = step_us(i) + 8100;
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, step_us(i) + 2100, step_us(i) + 9100, 0xabc, 0, 0);
    fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 9150, step_us(i) + 9250, 0, 0, 0);
    step_ends(i);
  }
  fake_call(p, holder, 0, FAKE_SLEEP, idle, step_us(STEPS), 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(bottleneck(s, "lock")->ns, COUNTED * 6 * MS);
  ck_assert_uint_eq(bottleneck(s, "lock")->at_most_ns, COUNTED * (6 + 1 + 1) * MS + (10 + 11) * MS);
  ck_assert_uint_eq(bottleneck(s, "sleep")->ns, COUNTED * 100 * US);
  ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, COUNTED * 200 * US);
  opgap_summary_free(s);
}
END_TEST

/* 3 ms of a collective that is an op, 2 ms of waiting for a socket between ops, 1 ms inside an op: with 1 ms of
 * refilled caches behind each wait, and 0.2 ms of own code around the one between ops. */
START_TEST(test_communication_bound)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_range(p, t, 0, step_us(i) + 2100, step_us(i) + 5100, "gloo:all_reduce");
    fake_file_call(p, t, 0, FAKE_READ, step_us(i) + 5200, step_us(i) + 7200, "socket:[7]", 100);
    fake_file_call(p, t, 1, FAKE_READ, step_us(i) + 7500, step_us(i) + 8500, "socket:[7]", 100);
    fake_op(p, t, 0, step_us(i) + 7300, step_us(i) + 9000, "aten::copy_", 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "communication");
  ck_assert_uint_eq(bottleneck(s, "communication")->ns, COUNTED * (3 + 2 + 1) * MS);
  ck_assert_uint_eq(bottleneck(s, "communication")->at_most_ns, COUNTED * (3000 + 3000 + 2000 + 200) * US);
  opgap_summary_free(s);
}
END_TEST

/* 2.9 ms in files are more than any other wait (2.2 ms of sleep, 1.5 ms for a lock), though not more than all of them.
 * The sleep is large, too, and has its word. */
START_TEST(test_files_before_other_waits)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_file_call(p, t, 0, FAKE_READ, step_us(i) + 2100, step_us(i) + 5000, "/d/x", 7000);
    fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 5100, step_us(i) + 7300, 0, 0, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, step_us(i) + 7400, step_us(i) + 8900, 0xabc, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "file_read");
  ck_assert_uint_eq(bottleneck(s, "lock")->ns, COUNTED * 1500 * US);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_uint_eq(s->verdict.remedy_count, 3);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "Read ahead"));
  ck_assert_str_eq(s->verdict.remedies[2], bottleneck(s, "sleep")->remedy);
  opgap_summary_free(s);
}
END_TEST

/* A timed wait of 5 ms that ran out gives the condition variable away as the GIL's.  Its remedy is told once. */
START_TEST(test_gil_in_steps)
{
  unsigned other = fake_thread(p, 101, "json");
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, step_us(i) + 2100, step_us(i) + 7150, 0x61, 0, 110);
    fake_call(p, other, 0, FAKE_COND_SIGNAL, step_us(i) + 9000, step_us(i) + 9000, 0x61, 0, 0);
    fake_call(p, t, 0, FAKE_COND_TIMEDWAIT, step_us(i) + 7150, step_us(i) + 9100, 0x61, 0, 0);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "gil");
  ck_assert_uint_eq(bottleneck(s, "gil")->ns, COUNTED * 7 * MS);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_UNDECIDED);
  ck_assert_uint_eq(s->verdict.remedy_count, 1);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "they hold the GIL"));
  opgap_summary_free(s);
}
END_TEST

static void kernel_sample(unsigned stream, uint64_t at_us, uint64_t system_ns)
{
  fake_record(p, stream,
              (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                    .start_ns = at_us * US,
                                    .end_ns = at_us * US,
                                    .field = {1 << 20, 0, 0, 0, system_ns}});
}

/* Waiting for a child from 2.1 to 7.1 ms of each step: 5 ms, 2.3 ms of code around, 1 ms of refilled caches, and what
 * the kernel did: all work when that is not known, 9.5 ms in the run when it was sampled for a second. */
START_TEST(test_child_bound_holds_fork_and_copies)
{
  for (int sampled = 0; sampled < 2; sampled++) {
    setup();
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    for (uint64_t i = 0; i < STEPS; i++) {
      step_begins(i);
      fake_call(p, t, 0, FAKE_WAITPID, step_us(i) + 2100, step_us(i) + 7100, 0, 0, 0);
      step_ends(i);
    }
    kernel_sample(stream, 1000, 0);
    if (sampled)
      kernel_sample(stream, 1001000, 9500 * US);
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_bottleneck *b = bottleneck(s, "child_process");
    ck_assert_uint_eq(b->ns, COUNTED * 5 * MS);
    ck_assert_uint_eq(b->at_most_ns, sampled ? COUNTED * 8300 * US + 9500 * US : s->verdict.step_ns);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_files_read_or_written)
{
  for (int writes = 0; writes < 2; writes++) {
    setup();
    for (uint64_t i = 0; i < STEPS; i++) {
      step_begins(i);
      fake_file_call(p, t, 0, writes ? FAKE_WRITE : FAKE_READ, step_us(i) + 2100, step_us(i) + 9100, "/d/x", 7000);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_bottleneck *b = bottleneck(s, writes ? "file_write" : "file_read");
    assert_first(s, b->kind);
    ck_assert_uint_eq(b->ns, COUNTED * 7 * MS);
    /* and 0.3 ms of own code around it, between the same ops, and 1 ms of refilled caches */
    ck_assert_uint_eq(b->at_most_ns, COUNTED * 8300 * US);
    ck_assert_ptr_nonnull(strstr(b->text, "for 70.0 % of step time"));
    ck_assert_ptr_nonnull(strstr(b->text, "/d/x (133000 bytes, 1.0 MB/s)"));
    ck_assert_int_eq(s->verdict.bound_by, writes ? OPGAP_BOUND_UNDECIDED : OPGAP_BOUND_DATA_LOADING);
    ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], writes ? "Write less often" : "Read ahead"));
    if (writes) /* told once */
      ck_assert_uint_eq(s->verdict.remedy_count, 1);
    opgap_summary_free(s);
  }
}
END_TEST

/* What opening and looking up is for is told by whether the file is written, even if only for 10 us. */
START_TEST(test_files_opened_or_looked_up)
{
  enum { OPENED, LOOKED_UP, OPENED_TO_WRITE }; /* what is looked up is not read */
  for (int what = OPENED; what <= OPENED_TO_WRITE; what++) {
    setup();
    for (uint64_t i = 0; i < STEPS; i++) {
      uint64_t at = step_us(i) + 2100;
      step_begins(i);
      fake_file_call(p, t, 0, what == LOOKED_UP ? FAKE_STAT : FAKE_OPEN, at, at + 6990, "/d/x", 0);
      if (what == OPENED_TO_WRITE)
        fake_file_call(p, t, 0, FAKE_WRITE, at + 6990, at + 7000, "/d/x", 7);
      else if (what == OPENED)
        fake_file_call(p, t, 0, FAKE_READ, at + 6990, at + 7000, "/d/x", 7);
      else /* a log beside it */
        fake_file_call(p, t, 0, FAKE_WRITE, at + 6990, at + 7000, "/d/log", 7);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    bool writes = what == OPENED_TO_WRITE;
    const struct opgap_sum_bottleneck *b = bottleneck(s, writes           ? "file_write"
                                                         : what == OPENED ? "file_read"
                                                                          : "file_metadata");
    static const char *const texts[] = {
        "The main thread is in calls on files for 70.0 % of step time, mostly opening, closing and looking up files, "
        "most of it on /d/x (in the whole run 20 calls of open, most of it in /d)",
        "The main thread is in calls on files for 70.0 % of step time, mostly opening, closing and looking up files "
        "that "
        "nobody reads, most of it on /d/x (in the whole run 20 calls of stat, most of it in /d)",
        "The main thread is in calls on files for 70.0 % of step time, mostly opening and closing those that are "
        "written"};
    static const char *const remedies[] = {opgap_open_less, opgap_look_up_less, opgap_write_less};
    assert_first(s, b->kind);
    ck_assert_uint_eq(b->ns, COUNTED * 7 * MS);
    ck_assert_str_eq(b->text, texts[what]);
    ck_assert_str_eq(b->remedy, remedies[what]);
    ck_assert_int_eq(s->verdict.bound_by, what == OPENED ? OPGAP_BOUND_DATA_LOADING : OPGAP_BOUND_UNDECIDED);
    ck_assert_uint_eq(s->verdict.remedy_count, what == OPENED ? 2 : 1);
    ck_assert_str_eq(s->verdict.remedies[s->verdict.remedy_count - 1], b->remedy);
    ck_assert_uint_eq(s->breakdown.other_wait_ns[OPGAP_CAUSE_FILE_IO], COUNTED * 7 * MS);
    opgap_summary_free(s);
  }
}
END_TEST

/* A checkpoint is written under another name and renamed, which is writing; or most of the time goes to that. */
START_TEST(test_files_renamed)
{
  for (uint64_t rename_us = 2000; rename_us <= 4000; rename_us += 2000) {
    setup();
    for (uint64_t i = 0; i < STEPS; i++) {
      uint64_t at = step_us(i) + 2100, renamed = at + 7000 - rename_us;
      step_begins(i);
      fake_file_call(p, t, 0, FAKE_OPEN, at, at + 500, "/d/x.tmp", 5);
      fake_file_call(p, t, 0, FAKE_WRITE, at + 500, renamed, "/d/x.tmp", 7000);
      fake_file_call(p, t, 0, FAKE_RENAME, renamed, at + 7000, "/d/x", 0);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_bottleneck *b = bottleneck(s, "file_write");
    assert_first(s, b->kind);
    ck_assert_uint_eq(b->ns, COUNTED * 7 * MS);
    ck_assert_ptr_nonnull(strstr(b->text, rename_us == 2000 ? "mostly writing and syncing, most of it on /d/x.tmp"
                                                            : "mostly making, renaming and removing them, most of it "
                                                              "on /d/x"));
    ck_assert_str_eq(b->remedy, opgap_write_less);
    opgap_summary_free(s);
  }
}
END_TEST

/* A kernel of `busy` us, `start` us into step i. */
static void kernel_of_step(unsigned gpu, uint64_t i, uint64_t start, uint64_t busy)
{
  fake_record(p, gpu,
              (struct opgap_record){.event = OPGAP_EV_GPU_API,
                                    .status = (uint32_t)i + 1,
                                    .start_ns = (step_us(i) + start - 50) * US,
                                    .end_ns = (step_us(i) + start) * US,
                                    .field = {fake_name(p, "cudaLaunchKernel"), 100}});
  fake_record(p, gpu,
              (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                    .status = (uint32_t)i + 1,
                                    .start_ns = (step_us(i) + start) * US,
                                    .end_ns = (step_us(i) + start + busy) * US,
                                    .field = {fake_name(p, "gemm")}});
}

/* The host sleeps for 7 ms of a step in which the GPU is busy for 0.4 ms: it idles for 9.6 ms, 7 of them for the sleep,
 * whose bound is that and 1 ms of refilled caches; where the GPU is busy for 2.6 ms beside the sleep, the 7.4 ms that
 * it idles. */
START_TEST(test_gpu_bound_is_no_more_than_idle_and_host_time)
{
  for (int beside = 0; beside < 2; beside++) {
    setup();
    unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU);
    uint64_t start = beside ? 2000 : 9200, busy = beside ? 2600 : 400;
    for (uint64_t i = 0; i < STEPS; i++) {
      step_begins(i);
      fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 2100, step_us(i) + 9100, 0, 0, 0);
      kernel_of_step(gpu, i, start, busy);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    uint64_t idle = COUNTED * (10000 - busy) * US;
    ck_assert_uint_eq(s->verdict.step_ns - s->breakdown.class_ns[OPGAP_CLASS_KERNEL], idle);
    ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, beside ? idle : COUNTED * 8 * MS);
    ck_assert_uint_eq(bottleneck(s, "kernels")->ns, COUNTED * busy * US);
    ck_assert_uint_eq(bottleneck(s, "kernels")->at_most_ns, OPGAP_UNKNOWN);
    if (!beside) {
      assert_first(s, "sleep");
      ck_assert_uint_eq(bottleneck(s, "sleep")->ns, COUNTED * 7 * MS);
    }
    opgap_summary_free(s);
  }
}
END_TEST

/* A GPU that waits for a checkpoint does not wait for data. */
START_TEST(test_gpu_waits_for_writing)
{
  for (int writes = 0; writes < 2; writes++) {
    setup();
    unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU);
    for (uint64_t i = 0; i < STEPS; i++) {
      step_begins(i);
      fake_file_call(p, t, 0, writes ? FAKE_WRITE : FAKE_READ, step_us(i) + 2100, step_us(i) + 9100, "/d/x", 7000);
      kernel_of_step(gpu, i, 9200, 400);
      step_ends(i);
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_int_eq(s->verdict.bound_by, writes ? OPGAP_BOUND_UNDECIDED : OPGAP_BOUND_DATA_LOADING);
    if (writes) {
      ck_assert_uint_eq(s->verdict.remedy_count, 1);
      ck_assert_str_eq(s->verdict.remedies[0], opgap_write_less);
    }
    opgap_summary_free(s);
  }
}
END_TEST

/* A kernel and a collective of 3 ms each, of which 1 ms is at the same time; the collective's launch was not recorded.
 */
START_TEST(test_collectives_in_steps)
{
  unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU);
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    kernel_of_step(gpu, i, 3000, 3000);
    fake_record(p, gpu,
                (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                      .status = 1000 + (uint32_t)i,
                                      .start_ns = (step_us(i) + 5000) * US,
                                      .end_ns = (step_us(i) + 8000) * US,
                                      .field = {fake_name(p, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")}});
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_KERNEL], COUNTED * 5 * MS); /* as TensorBoard has it */
  ck_assert_uint_eq(s->breakdown.collective_ns, COUNTED * 3 * MS);
  ck_assert_uint_eq(s->breakdown.exposed_collective_ns, COUNTED * 2 * MS);
  ck_assert_uint_eq(s->gpu_tables.launches.unlaunched, STEPS);
  ck_assert_uint_eq(s->gpu_tables.launches.unlaunched_ns, STEPS * 3 * MS);
  ck_assert_uint_eq(s->gpu_tables.launches.kernels, STEPS);
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  opgap_output_text(s, &(struct opgap_output_options){.width = 400}, file);
  fclose(file);
  ck_assert_ptr_nonnull(strstr(text,
                               "20 of 40 kernels, 50.0 % of their time, have no launch, so no op: their calls were not "
                               "recorded. Where they went through the driver's interface (Triton, NCCL), "
                               "OPGAP_GPU=driver records them"));
  ck_assert_ptr_nonnull(strstr(text, "Collectives on the GPU beside other kernels, not in the table: 1.000ms a step"));
  const char *row = strstr(text, "GPU collectives");
  ck_assert_ptr_nonnull(row);
  ck_assert_ptr_nonnull(strstr(row, "2.000ms  20.00%"));
  row = strstr(text, "GPU kernels");
  ck_assert_ptr_nonnull(row);
  ck_assert_ptr_nonnull(strstr(row, "3.000ms  30.00%"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

/* The host that slept gets back to work late when it has to wait for a CPU: for 1 ms of each 3 in which it does not
 * sleep. */
START_TEST(test_gpu_bound_holds_waits_for_a_cpu)
{
  unsigned gpu = fake_stream(p, OPGAP_STREAM_GPU), samples = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (uint64_t i = 0; i <= 2 * STEPS; i++)
    fake_record(p, samples,
                (struct opgap_record){.event = OPGAP_EV_SCHED,
                                      .status = 100,
                                      .start_ns = (step_us(0) + 5000 * i) * US,
                                      .end_ns = (step_us(0) + 5000 * i) * US,
                                      .field = {1 * MS * i, MS / 2 * i, i}});
  for (uint64_t i = 0; i < STEPS; i++) {
    step_begins(i);
    fake_call(p, t, 0, FAKE_SLEEP, step_us(i) + 2100, step_us(i) + 9100, 0, 0, 0);
    kernel_of_step(gpu, i, 9200, 400);
    step_ends(i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_gt(s->breakdown.queue_ns, COUNTED * 900 * US);
  ck_assert_uint_le(s->breakdown.queue_ns, COUNTED * 1000 * US);
  ck_assert_uint_eq(bottleneck(s, "sleep")->at_most_ns, COUNTED * 8 * MS + s->breakdown.queue_ns);
  opgap_summary_free(s);
}
END_TEST

/* ---- the DataLoader: steps of 100 ms, 9 ms of them without waiting ---- */

static const char *result_pipe = "pipe:[42]";

static uint64_t batch_us(uint64_t i)
{
  return 200000 + 100000 * i;
}

/* A worker that made the batches first, first + every, ...: `work` of `busy_us` before it sends each at 90 ms of its
 * step.  It asks for its first index `startup_us` after its start. */
struct worker_plan {
  unsigned first, every, until;
  uint64_t start_us, startup_us, busy_us;
  enum {
    COMPUTES,
    READS,
    OPENS,
    SLEEPS,
    WAITS_FOR_A_LOCK,
    ASKS_FOR_A_LOCK,
    LOCKS_A_FILE,
    ASKS_A_SERVER,
    RUNS_A_CHILD
  } work;
  uint64_t wait_us; /* of busy_us for a lock; 0: all */
};

static void make_worker(int pid, const struct worker_plan *plan)
{
  unsigned w = fake_process(pid, 100, "python train.py");
  unsigned main_thread = fake_thread(w, pid, "pt_data_worker");
  fake_info(w)->forked = true;
  fake_info(w)->start_ns = plan->start_us * US;
  uint64_t idle = plan->start_us + plan->startup_us;
  fake_file_call(w, main_thread, 0, FAKE_READ, plan->start_us, plan->start_us + 1000, "/lib/module.py", 777);
  fake_call(w, main_thread, 0, FAKE_SLEEP, plan->start_us + 1000, idle - 1000, 0, 0, 0); /* start-up, no work */
  for (unsigned i = plan->first; i < plan->until; i += plan->every) {
    uint64_t done = batch_us(i) + 90000, start = done - plan->busy_us;
    fake_file_call(w, main_thread, 0, FAKE_POLL, idle, start - 20, "pipe:[9]", 1);
    fake_file_call(w, main_thread, 0, FAKE_READ, start - 20, start - 10, "pipe:[9]", 4);
    fake_file_call(w, main_thread, 0, FAKE_READ, start - 10, start, "pipe:[9]", 40);
    if (plan->work == READS)
      fake_file_call(w, main_thread, 0, FAKE_READ, start, done - 100, "/d/slow", 1000);
    if (plan->work == OPENS)
      fake_file_call(w, main_thread, 0, FAKE_OPEN, start, done - 100, "/d/slow", 5);
    if (plan->work == SLEEPS)
      fake_call(w, main_thread, 0, FAKE_SLEEP, start, done - 100, 0, 0, 0);
    if (plan->work == WAITS_FOR_A_LOCK)
      fake_call(w, main_thread, 0, FAKE_SEM_WAIT, start, plan->wait_us ? start + plan->wait_us : done - 100, 0x5e, 0,
                0);
    if (plan->work == ASKS_FOR_A_LOCK) /* Event.wait(0.01) again and again */
      for (uint64_t at = start; at < done - 10000; at += 10000)
        fake_call(w, main_thread, 0, FAKE_SEM_WAIT, at, at + 9990, 0x5e, 0, 110);
    if (plan->work == LOCKS_A_FILE) {
      fake_file_call(w, main_thread, 0, FAKE_FLOCK, start, done - 100, "/d/cache.lock", 2);
      fake_file_call(w, main_thread, 0, FAKE_FLOCK, done - 50, done - 49, "/d/cache.lock", 8);
    }
    if (plan->work == ASKS_A_SERVER) { /* by an event loop, then by a poll and a read that waits, too */
      fake_file_call(w, main_thread, 0, FAKE_POLL, start, start + 4000, "", 1);
      fake_file_call(w, main_thread, 0, FAKE_READ, start + 4000, start + 4010, "socket:[77]", 4);
      fake_file_call(w, main_thread, 0, FAKE_POLL, start + 4010, start + 5000, "socket:[77]", 1);
      fake_file_call(w, main_thread, 0, FAKE_READ, start + 5000, done - 100, "socket:[77]", 64);
      fake_call(w, main_thread, 0, FAKE_SEM_WAIT, done - 100, done - 10, 0x5e, 0, 0);
    }
    if (plan->work == RUNS_A_CHILD) { /* its output, then its end */
      fake_file_call(w, main_thread, 0, FAKE_POLL, start, start + 9000, "pipe:[88]", 1);
      fake_file_call(w, main_thread, 0, FAKE_READ, start + 9000, start + 9010, "pipe:[88]", 4);
      fake_call(w, main_thread, 0, FAKE_WAITPID, start + 9010, done - 100, 0, 0, 0);
    }
    fake_file_call(w, main_thread, 0, FAKE_WRITE, done, done + 10, result_pipe, 64);
    idle = done + 20;
  }
}

/* The trainer waits for batch i, or finds it there. */
static void fetch(unsigned i, bool waits)
{
  uint64_t at = batch_us(i);
  if (waits)
    fake_file_call(p, t, 1, FAKE_POLL, at + 1000, at + 90020, result_pipe, 1);
  uint64_t read = waits ? at + 90030 : at + 100;
  fake_file_call(p, t, 1, FAKE_READ, read, read + 10, result_pipe, 64);
  /* the descriptor of shared memory, through a socket of its own */
  fake_file_call(p, t, 1, FAKE_READ, read + 20, read + 21, i % 2 ? "socket:[501]" : "socket:[500]", 1);
  fake_user_op(p, t, 0, at, waits ? at + 91000 : at + 1000, NEXT);
  fake_op(p, t, 0, at + 92000, at + 97000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
  fake_user_op(p, t, 0, at + 97500, at + 100000, "Optimizer.step#SGD.step");
}

static void fetch_all(void)
{
  for (unsigned i = 0; i < STEPS; i++)
    fetch(i, true);
}

/* And 1 ms of refilled caches behind each __next__, however many parts its poll has: it is split where its worker
 * begins the work, has done it, begins to write and has written. */
static void assert_loader(const struct opgap_summary *s, const char *kind)
{
  assert_first(s, kind);
  ck_assert_uint_eq(bottleneck(s, kind)->ns, COUNTED * 91 * MS);
  ck_assert_uint_eq(bottleneck(s, kind)->at_most_ns, COUNTED * 92 * MS);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, kind)->text, "takes 91.0 % of step time"));
}

/* The remedies are of what the workers do, not of what loaders commonly do. */
static void assert_remedies(const struct opgap_summary *s, const char *first, bool more_workers)
{
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_uint_eq(s->verdict.remedy_count, more_workers ? 3 : 2);
  ck_assert_str_eq(s->verdict.remedies[0], first);
  if (more_workers) {
    char text[128];
    snprintf(text, sizeof text, "Raise DataLoader(num_workers) above %u if CPU cores are free.", s->loader.workers);
    ck_assert_str_eq(s->verdict.remedies[1], text);
  }
  ck_assert_str_eq(s->verdict.remedies[s->verdict.remedy_count - 1],
                   "Let workers run further ahead: prefetch_factor=4.");
}

static void read_message(uint64_t at, unsigned depth)
{
  fake_file_call(p, t, depth, FAKE_READ, at, at + 10, result_pipe, 4);
  fake_file_call(p, t, depth, FAKE_READ, at + 10, at + 20, result_pipe, 64);
}

/* The last __next__ of an epoch only finds its end: it reads no message, or waits for its workers' ends behind the last
 * one (an IterableDataset's), and no batch that came early, out of order, is left.  One that looks whether its workers
 * live, and then reads, is none. */
START_TEST(test_end_of_an_epoch_is_no_batch)
{
  for (int reaps = 0; reaps < 2; reaps++) {
    setup();
    struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, READS, 0};
    make_worker(200, &plan);
    fetch_all();
    uint64_t at = batch_us(STEPS);
    fake_call(p, t, 1, FAKE_WAITPID, at + 900, at + 910, 200, 0, 0);
    read_message(at + 1000, 1); /* two that the next fetch found, the second for the one behind it */
    read_message(at + 1020, 1);
    fake_user_op(p, t, 0, at, at + 2000, NEXT);
    fake_user_op(p, t, 0, at + 3000, at + 3100, NEXT);
    if (reaps) {
      read_message(at + 4000, 1);
      fake_call(p, t, 1, FAKE_WAITPID, at + 4030, at + 9000, 200, 200, 0);
    }
    fake_user_op(p, t, 0, at + 4000, at + 9500, NEXT);
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->loader.fetches, STEPS + 2);
    ck_assert_uint_eq(s->loader.waited, STEPS);
    ck_assert_uint_eq(s->loader.epoch_count, 1);
    ck_assert_uint_eq(s->loader.epochs[0].fetches, STEPS + 2);
    /* its time is that of __next__ all the same */
    ck_assert_uint_eq(s->loader.fetch_ns, (STEPS * 91000 + 2000 + 100 + 5500) * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* Workers that stay: what an epoch that is broken off has left is read and thrown away before the next one begins, so a
 * batch that came early in the one is none of the other's. */
START_TEST(test_epoch_that_is_broken_off)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, READS, 0};
  make_worker(200, &plan);
  fetch_all();
  uint64_t at = batch_us(STEPS);
  read_message(at + 1000, 1); /* two, of which one is left */
  read_message(at + 1020, 1);
  fake_user_op(p, t, 0, at, at + 2000, NEXT);
  read_message(at + 3000, 0);
  read_message(at + 4010, 1);
  fake_user_op(p, t, 0, at + 4000, at + 5000, NEXT);
  fake_user_op(p, t, 0, at + 6000, at + 6010, NEXT); /* the end */
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->loader.fetches, STEPS + 2);
  opgap_summary_free(s);
}
END_TEST

/* multiprocessing's fork server made the workers: it is none, though it tells the trainer how they ended, in the
 * __next__ that finds the end, by 8 bytes in a pipe each; and that __next__ is no batch. */
START_TEST(test_fork_server_is_no_worker)
{
  unsigned server = fake_process(150, 100, "python -c from multiprocessing.forkserver import main");
  unsigned server_thread = fake_thread(server, 150, "python");
  for (unsigned i = 0; i < 2; i++) {
    struct worker_plan plan = {i, 2, STEPS, 100000, 10000, 150000, READS, 0};
    make_worker(200 + (int)i, &plan);
    fake_info(server + 1 + i)->ppid = 150;
  }
  fetch_all();
  uint64_t at = batch_us(STEPS);
  for (unsigned i = 0; i < 2; i++) {
    const char *pipe = i ? "pipe:[32]" : "pipe:[31]";
    fake_file_call(server, server_thread, 0, FAKE_WRITE, at + 1000 * i, at + 1000 * i + 10, pipe, 8);
    fake_file_call(p, t, 1, FAKE_READ, at + 1000 * i + 20, at + 1000 * i + 30, pipe, 8);
  }
  fake_user_op(p, t, 0, at, at + 3000, NEXT);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->loader.workers, 2);
  ck_assert_uint_eq(s->loader.worker_count, 2);
  ck_assert_uint_eq(s->loader.fetches, STEPS);
  ck_assert_int_eq(s->processes[server].role, OPGAP_ROLE_OTHER);
  ck_assert_str_eq(s->processes[server].role_label, "fork server");
  for (unsigned i = 0; i < 2; i++) {
    ck_assert_int_eq(s->loader.worker[i].pid, 200 + (int)i);
    ck_assert_int_eq(s->loader.worker[i].worker, (int)i);
    ck_assert_uint_eq(s->loader.worker[i].batches, STEPS / 2);
  }
  assert_first(s, "slow_read");
  opgap_summary_free(s);
}
END_TEST

/* 150 ms a batch beside steps of 9 ms would need 17 workers: no number of workers helps, the disk is slow. */
START_TEST(test_slow_read)
{
  struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 150000, READS, 0};
  make_worker(200, &plan);
  plan.first = 1;
  make_worker(201, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "slow_read");
  assert_remedies(s, "Read fewer, larger files (shards), or keep them on a faster disk or in memory.", true);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "slow_read")->text, "/d/slow (20000 bytes, 0.0 MB/s)"));
  const struct opgap_sum_loader *l = &s->loader;
  ck_assert_uint_eq(l->workers, 2);
  ck_assert_uint_eq(l->worker_count, 2);
  ck_assert_uint_eq(l->fetches, STEPS);
  ck_assert_uint_eq(l->waited, STEPS);
  ck_assert_uint_eq(l->worker[0].batches, 10);
  ck_assert_uint_eq(l->worker[0].startup_ns, 10 * MS);
  ck_assert_uint_eq(l->worker[0].file_ns, 10 * 149900 * US);
  ck_assert_uint_eq(l->worker[0].sleep_ns, 0);
  ck_assert_uint_eq(l->worker[0].read_bytes, 10000); /* without its start-up's */
  /* each wait ends with a batch of the worker that it is charged to, up to the write that ended it */
  ck_assert_uint_eq(l->worker[0].awaited_ns, 10 * 89 * MS);
  ck_assert_uint_eq(l->worker[1].awaited_ns, 10 * 89 * MS);
  opgap_summary_free(s);
}
END_TEST

/* As on a file server that takes long to open a file. */
START_TEST(test_slow_to_open)
{
  struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 150000, OPENS, 0};
  make_worker(200, &plan);
  plan.first = 1;
  make_worker(201, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "slow_read");
  assert_remedies(s, opgap_open_less, true);
  ck_assert_ptr_nonnull(
      strstr(bottleneck(s, "slow_read")->text,
             "in calls on files, mostly opening, closing and looking them up, most of it on /d/slow"));
  ck_assert_uint_eq(s->loader.worker[0].file_ns, 10 * 149900 * US);
  opgap_summary_free(s);
}
END_TEST

/* What a worker waits for in a poll is told by what it polled, or reads next: not its next index here. */
START_TEST(test_slow_network)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, ASKS_A_SERVER, 0};
  make_worker(200, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "slow_network");
  assert_remedies(
      s, "Keep the data on a local disk, or ask for more at a time: larger objects, several requests at once.", true);
  ck_assert_uint_eq(s->loader.worker[0].network_ns, STEPS * 79900 * US);
  ck_assert_uint_eq(s->loader.worker[0].child_ns, 0);
  ck_assert_uint_eq(s->loader.worker[0].file_ns, 0);
  /* from the poll for an index to the read of it, and 10 us in each write of a batch */
  ck_assert_uint_eq(s->loader.worker[0].idle_ns,
                    ((90000 - 80000 + 90000) + (STEPS - 1) * (20000 - 20) + STEPS * 10) * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_decode_in_child_processes)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, RUNS_A_CHILD, 0};
  make_worker(200, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "slow_decode");
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "slow_decode")->text, "mostly in child processes) for 100.0 % of"));
  ck_assert_uint_eq(s->loader.worker[0].child_ns, STEPS * 79900 * US);
  ck_assert_uint_eq(s->loader.worker[0].network_ns, 0);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_too_few_workers)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 20000, READS, 0};
  make_worker(200, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "too_few_workers");
  assert_remedies(s, "Use 3 workers: num_workers=3.", false);
  ck_assert_str_eq(bottleneck(s, "too_few_workers")->remedy, "Use 3 workers: num_workers=3.");
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_slow_decode)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, COMPUTES, 0};
  make_worker(200, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "slow_decode");
  assert_remedies(s, "Prepare the data once ahead of training, or use a faster decoder.", true);
  opgap_summary_free(s);
}
END_TEST

/* Two epochs, each with a worker of its own; or two loaders, whose workers of one number live at one time. */
START_TEST(test_workers_that_are_made_again)
{
  for (int again = 0; again < 2; again++) {
    setup();
    struct worker_plan plan = {0, 1, again ? 10 : STEPS, 100000, 10000, 80000, COMPUTES, 0};
    make_worker(200, &plan);
    for (unsigned i = 0; i < (again ? 10 : STEPS); i++)
      fetch(i, true);
    result_pipe = "pipe:[43]"; /* of the second iterator */
    plan = (struct worker_plan){again ? 10 : 0, 1,     again ? STEPS : 1, again ? batch_us(9) + 90100 : 100000,
                                5000,           80000, COMPUTES,          0};
    make_worker(201, &plan);
    for (unsigned i = 10; again && i < STEPS; i++)
      fetch(i, true);
    result_pipe = "pipe:[42]";
    struct opgap_summary *s = fake_analyse(NULL);
    assert_first(s, "slow_decode");
    ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
    ck_assert_str_eq(s->verdict.remedies[s->verdict.remedy_count - 1],
                     again ? "Let workers run further ahead and live on between epochs: prefetch_factor=4, "
                             "persistent_workers=True."
                           : "Let workers run further ahead: prefetch_factor=4.");
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_worker_sleep)
{
  struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 150000, SLEEPS, 0};
  make_worker(200, &plan);
  plan.first = 1;
  make_worker(201, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "worker_sleep");
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "worker_sleep")->text, "sleep for 99.9 % of their busy time"));
  assert_remedies(s, "Take the sleep out of the dataset.", true);
  opgap_summary_free(s);
  /* a sleep that began before the window counts from there: no worker sleeps for more than it is busy */
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 7, .last_step = 7};
  s = fake_analyse(&options);
  uint64_t busy = 0, sleep = 0;
  for (size_t i = 0; i < s->loader.worker_count; i++) {
    ck_assert_uint_le(s->loader.worker[i].sleep_ns, s->loader.worker[i].busy_ns);
    busy += s->loader.worker[i].busy_ns;
    sleep += s->loader.worker[i].sleep_ns;
  }
  ck_assert_uint_gt(10 * sleep, 4 * busy); /* what it is in at the end of the window has no record there */
  opgap_summary_free(s);
}
END_TEST

/* Semaphores whose time is over are sleeps, of workers as elsewhere. */
START_TEST(test_worker_that_asks_again_and_again)
{
  struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 150000, ASKS_FOR_A_LOCK, 0};
  make_worker(200, &plan);
  plan.first = 1;
  make_worker(201, &plan);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "worker_sleep");
  for (size_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(s->loader.worker[i].lock_ns, 0);
    ck_assert_uint_eq(s->loader.worker[i].sleep_ns, s->loader.worker[i].batches * 14 * 9990 * US);
  }
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_dataset_lock)
{
  for (int file = 0; file < 2; file++) {
    setup();
    struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 150000, file ? LOCKS_A_FILE : WAITS_FOR_A_LOCK, 0};
    make_worker(200, &plan);
    plan.first = 1;
    make_worker(201, &plan);
    fetch_all();
    struct opgap_summary *s = fake_analyse(NULL);
    assert_loader(s, "dataset_lock");
    bool named = strstr(bottleneck(s, "dataset_lock")->text, "; most of it for the lock on /d/cache.lock, held by ");
    ck_assert_int_eq(named, file);
    assert_remedies(s,
                    file ? "Hold the lock on the file for less time, or let nobody wait for it in the step: fill the "
                           "cache that it guards once, before the ranks or workers start, or give each its own."
                         : "Take the lock out of the dataset: give each worker its own file handle or connection.",
                    false);
    opgap_summary_free(s);
  }
}
END_TEST

/* Of 150 ms a batch 60 for a lock, 60 runnable without a CPU, which is no computing, and 30 computing. */
START_TEST(test_dataset_lock_on_a_busy_machine)
{
  struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 150000, WAITS_FOR_A_LOCK, 60000};
  for (int i = 0; i < 2; i++) {
    plan.first = (unsigned)i;
    make_worker(200 + i, &plan);
    unsigned samples = fake_stream((unsigned)i + 1, OPGAP_STREAM_PROCESS);
    for (uint64_t k = 0; k <= STEPS / 2; k++)
      fake_record((unsigned)i + 1, samples,
                  (struct opgap_record){.event = OPGAP_EV_SCHED,
                                        .status = 200 + (uint32_t)i,
                                        .start_ns = (120000 + 200000 * k) * US,
                                        .end_ns = (120000 + 200000 * k) * US,
                                        .field = {30 * MS * k, 60 * MS * k, k}});
  }
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  assert_loader(s, "dataset_lock");
  ck_assert_uint_eq(s->loader.worker[0].lock_ns, STEPS / 2 * 60 * MS);
  ck_assert_uint_eq(s->loader.worker[0].queue_ns, STEPS / 2 * 60 * MS);
  opgap_summary_free(s);
}
END_TEST

/* Worker 1 needs 150 ms a batch, worker 0 10 ms: only its batches are waited for. */
static void check_slow_worker(const char *torch, const char *more)
{
  setup();
  struct worker_plan plan = {0, 2, STEPS, 100000, 10000, 10000, COMPUTES, 0};
  make_worker(200, &plan);
  plan.first = 1;
  plan.busy_us = 150000;
  plan.work = READS;
  make_worker(201, &plan);
  for (unsigned i = 0; i < STEPS; i++)
    fetch(i, i % 2 == 1);
  if (torch != NULL)
    fake_setting(p, "torch", torch);
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "slow_worker");
  ck_assert_str_eq(bottleneck(s, "slow_worker")->remedy,
                   opgap_pool_printf(s->pool,
                                     "Give every worker the same work: spread what is slow over all of them "
                                     "(files, mounts, sizes by shard)%s",
                                     more));
  ck_assert_uint_eq(bottleneck(s, "slow_worker")->ns, (10 * 91 + 9 * 1) * MS);
  ck_assert_uint_eq(bottleneck(s, "slow_worker")->at_most_ns, (10 * 91 + 9 * 1) * MS + COUNTED * MS);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "slow_worker")->text, "100.0 % of that wait is for DataLoader worker 1"));
  ck_assert_uint_eq(s->loader.waited, 10);
  opgap_summary_free(s);
}

START_TEST(test_slow_worker)
{
  check_slow_worker(NULL, ", or, with PyTorch 2.6 or newer, fetch out of order (in_order=False).");
  check_slow_worker("1.13.1", ".");
  check_slow_worker("2.5.1+cu121", ".");
  check_slow_worker("2.6.0", ", or fetch out of order (in_order=False).");
  check_slow_worker("3.0.0a0+git1", ", or fetch out of order (in_order=False).");
}
END_TEST

/* Every 5 batches a new worker, that is waited for while it starts. */
START_TEST(test_worker_restart)
{
  static const char *const pipes[] = {"pipe:[42]", "pipe:[43]", "pipe:[44]", "pipe:[45]"};
  for (unsigned epoch = 0; epoch < 4; epoch++) {
    unsigned first = 5 * epoch;
    struct worker_plan plan = {first, 1, first + 5, batch_us(first), 85000, 3000, COMPUTES, 0};
    result_pipe = pipes[epoch];
    make_worker(200 + (int)epoch, &plan);
    for (unsigned i = first; i < first + 5; i++)
      fetch(i, i == first);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(bottleneck(s, "worker_restart")->ns, (3 * 91 + 16 * 1) * MS); /* the first wait is warm-up */
  uint64_t outside_us = 3 * 1500 + 16 * 91500; /* of all classes: what makes processes may be there */
  uint64_t refill_us = COUNTED * 1000;
  ck_assert_uint_eq(bottleneck(s, "worker_restart")->at_most_ns,
                    (3 * 91 + 16 * 1) * MS + (outside_us + refill_us) * US);
  ck_assert_uint_eq(s->loader.workers, 1);
  ck_assert_uint_eq(s->loader.worker_count, 4);
  ck_assert_uint_eq(s->loader.startup_wait_ns, 4 * 84 * MS); /* from 1 ms to 85 ms of its step */
  ck_assert_uint_eq(s->loader.epoch_count, 4);
  for (unsigned epoch = 0; epoch < 4; epoch++) {
    const struct opgap_sum_epoch *e = &s->loader.epochs[epoch];
    ck_assert_uint_eq(e->start_ns, batch_us(5 * epoch) * US - s->start_ns);
    ck_assert_uint_eq(e->workers, 1);
    ck_assert_uint_eq(e->startup_ns, 85 * MS);
    ck_assert_uint_eq(e->first_batch_ns, 91 * MS);
    ck_assert_uint_eq(e->first_wait_ns, 89051 * US); /* from the start of its poll to the end of its last read */
    ck_assert_uint_eq(e->fetches, 5);
    ck_assert_uint_eq(e->await_ns, 89051 * US);
  }
  ck_assert_uint_eq(s->loader.pin_threads, 0);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "worker_restart")->text, "4 processes for 1 workers, 0.085 s each"));
  opgap_summary_free(s);
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 7, .last_step = 9};
  s = fake_analyse(&options); /* epochs without a fetch in these are none of them */
  ck_assert_uint_eq(s->loader.epoch_count, 1);
  ck_assert_uint_eq(s->loader.epochs[0].start_ns, batch_us(5) * US - s->start_ns);
  ck_assert_uint_eq(s->loader.epochs[0].fetches, 3);
  opgap_summary_free(s);
}
END_TEST

/* A loader for training and one for validation have each its own worker, one after the other: none was made again.
 * In the second run each does so twice. */
START_TEST(test_two_loaders_one_after_the_other)
{
  static const char *const pipes[] = {"pipe:[42]", "pipe:[43]", "pipe:[44]", "pipe:[45]"};
  for (unsigned again = 0; again < 2; again++) {
    setup();
    for (unsigned i = 0; !again && i < 10; i++) /* without a loader */
      fake_user_op(p, t, 0, batch_us(i) + 97500, batch_us(i) + 100000, "Optimizer.step#SGD.step");
    for (unsigned epoch = 0; epoch < (again ? 4 : 2); epoch++) {
      unsigned first = 5 * epoch + (again ? 0 : 10), batches = epoch % 2 ? 4 : 5;
      struct worker_plan plan = {first, 1, first + batches, batch_us(first), 85000, 3000, COMPUTES, 0};
      result_pipe = pipes[epoch];
      make_worker(200 + (int)epoch, &plan);
      fake_info(epoch + 1)->end_ns = batch_us(first + batches) * US;
      for (unsigned i = first; i < first + batches; i++) {
        uint64_t at = batch_us(i);
        bool waits = i == first;
        fake_file_call(p, t, 1, FAKE_POLL, at + 1000, at + (waits ? 90050 : 1001), result_pipe, 1);
        fake_file_call(p, t, 1, FAKE_READ, at + (waits ? 90050 : 1001), at + (waits ? 90051 : 1002), result_pipe, 64);
        fake_user_op(p, t, 0, at, at + (waits ? 91000 : 1500), NEXT);
        fake_op(p, t, 0, at + 92000, at + 97000, "aten::mm", 0, 0);
        if (epoch % 2 == 0)
          fake_user_op(p, t, 0, at + 97500, at + 100000, "Optimizer.step#SGD.step");
      }
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->loader.epoch_count, again ? 4 : 2);
    const struct opgap_sum_bottleneck *restart = NULL;
    for (size_t i = 0; i < s->verdict.bottleneck_count; i++)
      if (strcmp(s->verdict.bottlenecks[i].kind, "worker_restart") == 0)
        restart = &s->verdict.bottlenecks[i];
    ck_assert_int_eq(restart != NULL, again);
    if (again)
      ck_assert_ptr_nonnull(strstr(restart->text, "4 processes for 2 workers, 0.085 s each"));
    for (size_t i = 0; i < s->verdict.remedy_count; i++)
      ck_assert_int_eq(strstr(s->verdict.remedies[i], "persistent_workers") != NULL && !again, 0);
    opgap_summary_free(s);
  }
}
END_TEST

/* Every 5 batches a worker by spawn, to which the trainer writes its dataset for 80 ms, in which it starts. */
START_TEST(test_large_dataset_by_pickle)
{
  static const char *const pipes[] = {"pipe:[42]", "pipe:[43]", "pipe:[44]", "pipe:[45]"};
  static const char *const datasets[] = {"pipe:[70]", "pipe:[71]", "pipe:[72]", "pipe:[73]"};
  for (unsigned epoch = 0; epoch < 4; epoch++) {
    unsigned first = 5 * epoch, w = epoch + 1;
    struct worker_plan plan = {first, 1, first + 5, batch_us(first), 85000, 3000, COMPUTES, 0};
    result_pipe = pipes[epoch];
    make_worker(200 + (int)epoch, &plan);
    fake_info(w)->forked = false;
    fake_info(w)->command = "python -c from multiprocessing.spawn import spawn_main; --multiprocessing-fork";
    unsigned reader = fake_thread(w, 300 + (int)epoch, "reader");
    fake_file_call(w, reader, 0, FAKE_READ, batch_us(first) + 1500, batch_us(first) + 1510, datasets[epoch], 4);
    for (unsigned i = first; i < first + 5; i++) {
      uint64_t at = batch_us(i);
      fake_file_call(p, t, 1, FAKE_READ, at + 100, at + 110, result_pipe, 64);
      fake_user_op(p, t, 0, at, at + 1000, NEXT);
      if (i == first)
        fake_file_call(p, t, 0, FAKE_WRITE, at + 2000, at + 82000, datasets[epoch], 100);
      fake_op(p, t, 0, at + 92000, at + 97000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
      fake_user_op(p, t, 0, at + 97500, at + 100000, "Optimizer.step#SGD.step");
    }
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.wait_ns[OPGAP_CAUSE_STARTUP], 3 * 80 * MS); /* the first is warm-up */
  ck_assert_uint_eq(bottleneck(s, "worker_restart")->ns, (COUNTED * 1 + 3 * 80) * MS);
  for (size_t i = 0; i < s->verdict.bottleneck_count; i++)
    ck_assert_str_ne(s->verdict.bottlenecks[i].kind, "start_up"); /* told once */
  double least = 100.0 * (COUNTED + 240) / (COUNTED * 100);
  char sentence[80];
  snprintf(sentence, sizeof sentence, "the DataLoader, and for its workers outside of it, takes %.1f %% of step",
           least);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "worker_restart")->text, sentence));
  opgap_summary_free(s);
}
END_TEST

/* Of some steps: batches and busy time are of these as well. */
START_TEST(test_workers_in_some_steps)
{
  struct worker_plan plan = {
      .every = 1, .until = STEPS, .start_us = 1000, .startup_us = 5000, .busy_us = 80000, .work = SLEEPS};
  make_worker(200, &plan);
  fetch_all();
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 5, .last_step = 9};
  struct opgap_summary *s = fake_analyse(&options);
  ck_assert_uint_eq(s->loader.worker_count, 1);
  ck_assert_uint_eq(s->loader.worker[0].batches, 5);
  ck_assert_uint_eq(s->loader.worker[0].sleep_ns, 5 * 79900 * US);
  ck_assert_uint_eq(s->loader.worker[0].busy_ns + s->loader.worker[0].idle_ns, 5 * 100 * MS);
  ck_assert_uint_eq(s->loader.epoch_count, 1);
  ck_assert_uint_eq(s->loader.epochs[0].fetches, 5);
  assert_first(s, "worker_sleep");
  opgap_summary_free(s);
}
END_TEST

/* A worker that works for 80 of 100 ms from 270 ms on.  Recording begins 150 ms after the start of its program: of its
 * own at 100 ms, or of the trainer's, when it was forked; or when `opgap start` comes at 250 ms. */
START_TEST(test_worker_recorded_late)
{
  enum { OWN_PROGRAM, FORKED, STARTED, CASES };
  for (int how = 0; how < CASES; how++) {
    setup();
    struct worker_plan plan = {1,     1,      STEPS, how == FORKED ? 200000 : 100000, how == FORKED ? 70000 : 170000,
                               80000, SLEEPS, 0};
    make_worker(200, &plan);
    fake_info(1)->forked = how == FORKED;
    if (how == STARTED) {
      unsigned stream = fake_stream(1, OPGAP_STREAM_PROCESS);
      fake_setting(1, "OPGAP_CONTROL", "idle");
      for (uint32_t on = 0; on < 2; on++)
        fake_record(1, stream,
                    (struct opgap_record){.event = OPGAP_EV_RECORDING,
                                          .status = on,
                                          .start_ns = (on ? 250 : 100) * MS,
                                          .end_ns = (on ? 250 : 100) * MS});
    } else {
      fake_setting(0, "OPGAP_DELAY", "0.15");
      fake_setting(1, "OPGAP_DELAY", "0.15");
    }
    fetch_all();
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_worker *w = &s->loader.worker[0];
    ck_assert_uint_eq(w->startup_ns, how == FORKED ? 70 * MS : OPGAP_UNKNOWN);
    ck_assert_uint_eq(s->loader.epochs[0].startup_ns, how == FORKED ? 70 * MS : OPGAP_UNKNOWN);
    /* the trainer was recorded from 150 ms, or all the time, so its first fetch of a worker made before is not known */
    bool seen = how != OWN_PROGRAM;
    ck_assert_uint_eq(s->loader.epochs[0].first_wait_ns, seen ? 89051 * US : OPGAP_UNKNOWN);
    ck_assert_uint_eq(s->loader.epochs[0].first_batch_ns, how == FORKED ? 91 * MS : seen ? 191 * MS : OPGAP_UNKNOWN);
    ck_assert_uint_eq(w->batches, STEPS - 1);
    ck_assert_uint_eq(w->sleep_ns, (STEPS - 1) * 79900 * US);
    /* from its first poll, at 270 ms, to the end of its last record */
    ck_assert_uint_eq(w->busy_ns + w->idle_ns, (200 + 100 * (STEPS - 1) + 90 - 270) * MS + 10 * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* A worker follows the schedule of the trainer that forked or executed it: it is recorded from 700 to 1200 ms, as the
 * trainer's trace says; below a launcher that says so up to the trainer's first step.  Its first poll there, at 750 ms,
 * need not be its first one: the trainer's wait up to it is for no start-up.  A process that has windows of its own
 * goes by its steps. */
START_TEST(test_worker_follows_a_schedule)
{
  for (int how = 0; how < 4; how++) {
    bool leads = how == 1, executed = how >= 2, launched = how == 3;
    setup();
    struct worker_plan plan = {5, 1, 10, 100000, 650000, 30000, SLEEPS, 0};
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    make_worker(200, &plan);
    unsigned own = fake_stream(1, OPGAP_STREAM_PROCESS);
    static const uint64_t at_ms[] = {1, 700, 1200};
    fake_setting(p, "OPGAP_SCHEDULE", "wait=5,active=5,repeat=1");
    fake_setting(1, "OPGAP_SCHEDULE", "wait=5,active=5,repeat=1");
    fake_info(1)->forked = !executed;
    if (launched) {
      unsigned launcher = fake_process(50, 1, "torchrun train.py");
      fake_info(p)->ppid = 50;
      fake_info(launcher)->start_ns = 500;
      fake_setting(launcher, "OPGAP_SCHEDULE", "wait=5,active=5,repeat=1");
      fake_record(
          launcher, fake_stream(launcher, OPGAP_STREAM_PROCESS),
          (struct opgap_record){.event = OPGAP_EV_RECORDING, .status = 0, .start_ns = 1 * MS, .end_ns = 1 * MS});
    }
    for (uint32_t i = launched; i < 3; i++)
      fake_record(
          p, stream,
          (struct opgap_record){
              .event = OPGAP_EV_RECORDING, .status = i == 1, .start_ns = at_ms[i] * MS, .end_ns = at_ms[i] * MS});
    if (leads)
      fake_record(
          1, own,
          (struct opgap_record){.event = OPGAP_EV_RECORDING, .status = 1, .start_ns = 100 * MS, .end_ns = 100 * MS});
    fake_record(
        1, own,
        (struct opgap_record){.event = OPGAP_EV_MEMORY, .start_ns = 2000 * MS, .end_ns = 2000 * MS, .field = {1}});
    for (unsigned i = 5; i < 10; i++)
      fetch(i, true);
    struct opgap_summary *s = fake_analyse(NULL);
    const struct opgap_sum_worker *w = &s->loader.worker[0];
    ck_assert_uint_eq(w->startup_ns, leads ? 650 * MS : OPGAP_UNKNOWN);
    ck_assert_uint_eq(w->batches, 5);
    ck_assert_uint_eq(w->sleep_ns, 5 * 29900 * US);
    ck_assert_uint_eq(w->busy_ns + w->idle_ns, (leads ? 2000 - 750 : 1200 - 750) * MS);
    ck_assert_uint_eq(s->loader.startup_wait_ns, leads ? (750 - 701) * MS : 0);
    for (size_t i = 0; i < s->notice_count; i++)
      ck_assert_ptr_null(strstr(s->notices[i], "recording was off"));
    opgap_summary_free(s);
  }
}
END_TEST

/* It is recorded for half of a second after its start at 100 ms: behind that it may do anything. */
START_TEST(test_worker_recorded_for_a_while)
{
  struct worker_plan plan = {0, 1, 4, 100000, 10000, 80000, SLEEPS, 0};
  unsigned samples;
  make_worker(200, &plan);
  fake_setting(1, "OPGAP_DURATION", "0.5");
  fake_info(1)->forked = false;
  samples = fake_stream(1, OPGAP_STREAM_PROCESS);
  fake_record(
      1, samples,
      (struct opgap_record){.event = OPGAP_EV_MEMORY, .start_ns = 2000 * MS, .end_ns = 2000 * MS, .field = {1}});
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->loader.worker[0].busy_ns + s->loader.worker[0].idle_ns, (500 - 10) * MS);
  opgap_summary_free(s);
}
END_TEST

/* Of a worker of which nothing was recorded nothing is known, not even that it was busy. */
START_TEST(test_worker_not_recorded)
{
  unsigned w = fake_process(200, 100, "python train.py");
  fake_thread(w, 200, "pt_data_worker");
  fake_info(w)->start_ns = 100 * MS;
  fake_info(w)->end_ns = 2000 * MS;
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->loader.worker_count, 1);
  const struct opgap_sum_worker *row = &s->loader.worker[0];
  const uint64_t times[] = {row->startup_ns, row->busy_ns,    row->idle_ns,  row->file_ns, row->lock_ns,
                            row->sleep_ns,   row->network_ns, row->child_ns, row->queue_ns};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    ck_assert_uint_eq(times[i], OPGAP_UNKNOWN);
  ck_assert_uint_eq(row->batches, 0);
  assert_first(s, "unseen_workers");
  opgap_summary_free(s);
}
END_TEST

/* A setting left the workers out: they are there all the same, and the remedy names it. */
START_TEST(test_workers_not_recorded)
{
  static const struct {
    const char *key, *value, *reason;
  } cases[] = {{"OPGAP_SCHEDULE", "wait=5,active=4",
                "a --schedule leaves out what they do outside of its windows, make these longer (active=N)."},
               {"OPGAP_CHILDREN", "none", "OPGAP_CHILDREN=none (--children none) leaves them out."},
               {"OPGAP_CHILDREN", "fork",
                "OPGAP_CHILDREN=fork (--children fork) leaves those out that are programs of their own (spawn, "
                "forkserver)."},
               {"OPGAP_CHILDREN", "all", "the head of the report names processes that were not traced."}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    setup();
    fake_setting(p, cases[i].key, cases[i].value);
    fetch_all();
    struct opgap_summary *s = fake_analyse(NULL);
    assert_first(s, "unseen_workers");
    snprintf(text, sizeof text, "Record the workers as well to see what they do: %s", cases[i].reason);
    ck_assert_str_eq(bottleneck(s, "unseen_workers")->remedy, text);
    ck_assert_str_eq(s->verdict.remedies[0], text);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_no_workers)
{
  for (unsigned i = 0; i < STEPS; i++) {
    uint64_t at = batch_us(i);
    fake_user_op(p, t, 0, at, at + 60000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_op(p, t, 0, at + 60000, at + 99000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 99000, at + 100000, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "no_workers");
  ck_assert_uint_eq(bottleneck(s, "no_workers")->at_most_ns, COUNTED * 61 * MS); /* and refilled caches */
  opgap_summary_free(s);
}
END_TEST

/* Samples of a thread every 100 ms, with what it got in each. */
static void sample_all(unsigned process, uint32_t tid, uint64_t from_ms, const struct rates *r)
{
  unsigned stream = fake_stream(process, OPGAP_STREAM_PROCESS);
  for (uint64_t k = 0; k <= STEPS; k++) {
    uint64_t at = (from_ms + 100 * k) * MS;
    fake_record(process, stream,
                (struct opgap_record){.event = OPGAP_EV_SCHED,
                                      .status = tid,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .field = {r->run * MS * k, r->queue * MS * k, k}});
  }
}

/* What it lacked a CPU for is told between two samples in one window alone, though the samples go on behind it: for 10
 * of 100 ms, from 750 to 1150 ms. */
START_TEST(test_worker_without_a_cpu_in_a_window)
{
  struct worker_plan plan = {5, 1, 10, 100000, 650000, 30000, COMPUTES, 0};
  struct rates worker = {20, 10, 0};
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  make_worker(200, &plan);
  static const uint64_t at_ms[] = {1, 700, 1150};
  fake_setting(p, "OPGAP_SCHEDULE", "wait=5,active=5,repeat=1");
  fake_setting(1, "OPGAP_SCHEDULE", "wait=5,active=5,repeat=1");
  for (uint32_t i = 0; i < 3; i++)
    fake_record(p, stream,
                (struct opgap_record){
                    .event = OPGAP_EV_RECORDING, .status = i == 1, .start_ns = at_ms[i] * MS, .end_ns = at_ms[i] * MS});
  sample_all(1, 200, 50, &worker);
  for (unsigned i = 5; i < 10; i++)
    fetch(i, true);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_le(s->loader.worker[0].queue_ns, 40 * MS);
  ck_assert_uint_ge(s->loader.worker[0].queue_ns, 39 * MS);
  opgap_summary_free(s);
}
END_TEST

/* Three workers would keep up with the steps, of four CPUs: such as compute only while a CPU is free, which none is
 * where the main thread is kept waiting for 20 of 100 ms, or where the cgroup may use one; such as mostly wait need
 * none. */
START_TEST(test_no_more_workers_than_cpus)
{
  static const struct {
    struct rates main_thread;
    uint64_t limit; /* of the cgroup, in thousandths of a CPU */
    bool free;
  } runs[] = {{{10, 2, 0}, 0, true}, {{10, 20, 0}, 0, false}, {{10, 2, 0}, 1000, false}, {{10, 2, 0}, 3001, true}};
  for (size_t k = 0; k < 2 * sizeof runs / sizeof *runs; k++) {
    const struct rates *main_thread = &runs[k / 2].main_thread;
    bool computes = k % 2, free = runs[k / 2].free;
    fake_reset();
    p = fake_process(100, 1, "python train.py");
    t = fake_thread(p, 100, "python");
    fake_setting(p, "cores", "4");
    struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 20000, computes ? COMPUTES : READS, 0};
    make_worker(200, &plan);
    sample_all(p, 100, 100, main_thread);
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    fake_record(
        p, stream,
        (struct opgap_record){
            .event = OPGAP_EV_CGROUP, .start_ns = 100 * MS, .end_ns = 100 * MS, .field = {1, 0, 0, runs[k / 2].limit}});
    fetch_all();
    struct opgap_summary *s = fake_analyse(NULL);
    assert_first(s, computes && !free ? "slow_decode" : "too_few_workers");
    ck_assert_str_eq(s->verdict.bottlenecks[0].remedy,
                     free       ? "Use 3 workers: num_workers=3."
                     : computes ? "Prepare the data once ahead of training, or use a faster decoder."
                                : "Use 3 workers: num_workers=3; they mostly wait, which takes no CPU.");
    for (size_t i = 0; computes && !free && i < s->verdict.remedy_count; i++)
      ck_assert_ptr_null(strstr(s->verdict.remedies[i], "num_workers"));
    opgap_summary_free(s);
  }
}
END_TEST

/* The first of two CPUs is used for ops: the second is offered, unless it is taken. */
START_TEST(test_cpus_for_ops)
{
  static const struct {
    struct rates main_thread;
    const char *remedy, *last;
  } runs[] = {{{98, 1, 0},
               "Use for ops the CPUs that are free, ~1 of 2: OMP_NUM_THREADS, torch.set_num_threads.",
               "The ops are the work itself: lower precision, torch.compile(model), all CPU cores, a faster device."},
              {{88, 11, 0},
               "Lower precision (bfloat16 on CPUs that have it) and torch.compile(model).",
               "The ops are the work itself: lower precision, torch.compile(model), a faster device."}};
  for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
    setup();
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    for (uint64_t i = 0; i <= STEPS + 1; i++)
      sample(stream, 100, i, &runs[k].main_thread);
    for (uint64_t i = 0; i <= STEPS; i++) {
      fake_op(p, t, 0, 100000 * i + 1000, 100000 * i + 99000, "aten::mm", 0, 0);
      fake_step(p, t, 100000 * (i + 1));
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_CPU_COMPUTE);
    ck_assert_str_eq(s->verdict.remedies[0], runs[k].remedy);
    ck_assert_str_eq(bottleneck(s, "compute")->remedy, runs[k].last);
    opgap_summary_free(s);
  }
}
END_TEST

/* torch.compile is advised to nobody who uses it. */
START_TEST(test_compiled)
{
  static const struct {
    const char *op, *bottleneck, *remedy;
    unsigned ops; /* in 90 ms of a step */
  } runs[] = {{"aten::mm", "compute", "The ops are the work itself: lower precision, torch.compile(model), ", 1},
              {"CompiledFunction", "compute", "The ops are the work itself: lower precision, all CPU cores, ", 1},
              {"Torch-Compiled Region: 0/0", "compute", "The ops are the work itself: lower precision, all CPU", 1},
              {"aten::add", "dispatch", "Fewer, larger ops: a larger batch, torch.compile(model), fused", 9000},
              {"CompiledFunctionBackward", "dispatch", "Fewer, larger ops: a larger batch, fused optimizers", 9000}};
  for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
    setup();
    for (uint64_t i = 0; i < STEPS; i++) {
      for (unsigned n = 0; n < runs[k].ops; n++) {
        uint64_t at = 100000 * i + 90000 / runs[k].ops * n;
        fake_op(p, t, 0, at, at + 90000 / runs[k].ops, runs[k].op, 0, 0);
      }
      fake_step(p, t, 100000 * (i + 1));
    }
    struct opgap_summary *s = fake_analyse(NULL);
    assert_first(s, runs[k].bottleneck);
    ck_assert_ptr_eq(strstr(s->verdict.bottlenecks[0].remedy, runs[k].remedy), s->verdict.bottlenecks[0].remedy);
    for (size_t i = 0; i < s->verdict.remedy_count; i++)
      if (strchr(runs[k].op, 'C') != NULL)
        ck_assert_ptr_null(strstr(s->verdict.remedies[i], "torch.compile"));
    opgap_summary_free(s);
  }
}
END_TEST

/* Makes its batches itself for 90 of 100 ms, and has the CPU for a quarter of the time: that is told first, and a wait
 * for a CPU in __next__ may go away as well. */
START_TEST(test_no_workers_on_a_busy_machine)
{
  struct rates main_thread = {25, 75, 0};
  sample_all(p, 100, 200, &main_thread);
  for (unsigned i = 0; i < STEPS; i++) {
    uint64_t at = batch_us(i);
    fake_user_op(p, t, 0, at, at + 90000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_op(p, t, 0, at + 90000, at + 99000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 99000, at + 100000, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "no_workers");
  ck_assert_uint_eq(bottleneck(s, "no_workers")->ns, COUNTED * 90 * MS);
  ck_assert_uint_ge(bottleneck(s, "run_queue")->ns + 100000, COUNTED * 75 * MS);
  /* two CPUs have to do what it ran for, between 19 samples; of that 10 ms may have been before */
  ck_assert_uint_eq(bottleneck(s, "run_queue")->at_most_ns,
                    COUNTED * 100 * MS - ((COUNTED - 1) * 25 * MS - 10 * MS) / 2);
  /* of the ops of 10 ms a step a quarter is theirs */
  ck_assert_uint_le(bottleneck(s, "compute")->ns, COUNTED * 2501 * US);
  ck_assert_uint_ge(bottleneck(s, "compute")->ns, COUNTED * 2500 * US);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_str_eq(s->verdict.confidence, "low"); /* 22.5 % of the step */
  ck_assert_str_eq(s->verdict.remedies[0], "Stop other programs on this machine, or reserve CPUs for this one.");
  ck_assert_str_eq(s->verdict.remedies[1], "No CPU is free for worker processes, so make a batch cheaper: Prepare the "
                                           "data once ahead of training, or use a faster decoder.");
  ck_assert_str_eq(bottleneck(s, "no_workers")->remedy, s->verdict.remedies[1]);
  opgap_summary_free(s);
}
END_TEST

/* Makes its batches itself for 90 of 100 ms, of which its dataset is in a call for `inside_ms`.  It has a CPU for 5 ms
 * and waits for one for 12 ms, so that it mostly has none where it does not sleep, but that is not what takes its
 * batches long. */
static struct opgap_summary *waiting_dataset(enum fake_hook hook, uint64_t inside_ms)
{
  struct rates main_thread = {5, 12, 0};
  sample_all(p, 100, 200, &main_thread);
  for (unsigned i = 0; i < STEPS; i++) {
    uint64_t at = batch_us(i);
    if (hook == FAKE_SLEEP)
      fake_call(p, t, 1, hook, at + 1000, at + 1000 + inside_ms * 1000, 0, 0, 0);
    else
      fake_file_call(p, t, 1, hook, at + 1000, at + 1000 + inside_ms * 1000, "/d/data", 1000);
    fake_user_op(p, t, 0, at, at + 90000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_op(p, t, 0, at + 90000, at + 99000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 99000, at + 100000, "Optimizer.step#SGD.step");
  }
  return fake_analyse(NULL);
}

START_TEST(test_no_workers_and_a_dataset_that_sleeps)
{
  struct opgap_summary *s = waiting_dataset(FAKE_SLEEP, 85);
  assert_first(s, "no_workers");
  ck_assert_uint_eq(bottleneck(s, "no_workers")->ns, COUNTED * 90 * MS);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "no_workers")->text, "; for 94.4 % of that its dataset sleeps"));
  ck_assert_str_eq(
      bottleneck(s, "no_workers")->remedy,
      "Take the sleep out of the dataset. Then: Let worker processes make the batches (num_workers): these "
      "mostly wait, which takes no CPU.");
  ck_assert_uint_gt(bottleneck(s, "run_queue")->ns, COUNTED * 9 * MS);
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_str_eq(s->verdict.remedies[0], "Take the sleep out of the dataset.");
  ck_assert_str_eq(s->verdict.remedies[1],
                   "Let worker processes make the batches (num_workers): these mostly wait, which takes no CPU.");
  ck_assert_uint_eq(s->verdict.remedy_count, 2);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_no_workers_and_a_dataset_that_hardly_sleeps)
{
  struct opgap_summary *s = waiting_dataset(FAKE_SLEEP, 44);
  ck_assert_ptr_null(strstr(bottleneck(s, "no_workers")->text, "sleeps"));
  ck_assert_str_eq(bottleneck(s, "no_workers")->remedy,
                   "No CPU is free for worker processes, so make a batch cheaper: Prepare the data once ahead of "
                   "training, or use a faster decoder.");
  opgap_summary_free(s);
}
END_TEST

/* Workers that mostly wait for files, or for these to open, take no CPU either. */
START_TEST(test_no_workers_and_a_dataset_in_files)
{
  for (int opens = 0; opens < 2; opens++) {
    setup();
    struct opgap_summary *s = waiting_dataset(opens ? FAKE_OPEN : FAKE_READ, 85);
    const char *workers = "Let worker processes make the batches (num_workers): these mostly wait, which takes no CPU.";
    ck_assert_str_eq(bottleneck(s, "no_workers")->remedy, workers);
    ck_assert_uint_eq(s->verdict.remedy_count, 2);
    ck_assert_str_eq(s->verdict.remedies[0], workers);
    ck_assert_str_eq(s->verdict.remedies[1],
                     opens
                         ? opgap_open_less
                         : "Most of that time goes to files: read fewer, larger files (packed shards), or keep them on "
                           "a faster disk or in memory.");
    opgap_summary_free(s);
  }
}
END_TEST

/* Three threads keep each other from two CPUs for a while, but what they compute needs these CPUs for 77.5 of 100 ms
 * anyway, so that no fewer of them can win more than the rest. */
START_TEST(test_oversubscription_by_needed_work)
{
  struct worker_plan even = {0, 2, STEPS, 100000, 10000, 80000, COMPUTES, 0}, odd = even;
  struct rates main_thread = {35, 65, 0}, worker = {60, 30, 0};
  odd.first = 1;
  make_worker(200, &even);
  make_worker(201, &odd);
  sample_all(p, 100, 150, &main_thread);
  sample_all(1, 200, 150, &worker);
  sample_all(2, 201, 150, &worker);
  fetch_all();
  struct opgap_summary *s = fake_analyse(NULL);
  uint64_t needed = ((COUNTED - 1) * (35 + 60 + 60) * MS - 3 * 10 * MS) / 2;
  const struct opgap_sum_bottleneck *row =
      s->verdict.bottlenecks; /* the loader's workers have a row of this kind, too */
  while (strncmp(row->text, "The main thread", 15) != 0 || strcmp(row->kind, "oversubscription") != 0)
    ck_assert(++row < s->verdict.bottlenecks + s->verdict.bottleneck_count);
  ck_assert_uint_eq(bottleneck(s, "oversubscription")->at_most_ns, row->at_most_ns);
  ck_assert_uint_eq(row->at_most_ns, COUNTED * 100 * MS - needed);
  char least[128];
  snprintf(least, sizeof least, "there are 2; what the steps compute takes 2 CPUs ~%.1f %% of step time at least",
           100.0 * (double)needed / (double)(COUNTED * 100 * MS));
  ck_assert_ptr_nonnull(strstr(row->text, least));
  /* one figure for the time without a CPU, wherever it is told */
  ck_assert_uint_eq(s->breakdown.no_cpu_ns, row->ns);
  char within[160];
  snprintf(within, sizeof within,
           "; within all of these the main thread, or a thread that it waits for, had no free CPU for ~%.1f %% of step "
           "time.",
           100.0 * (double)row->ns / (double)(COUNTED * 100 * MS));
  ck_assert_ptr_nonnull(strstr(s->verdict.evidence[0], within));
  opgap_summary_free(s);
}
END_TEST

/* With a team in the trainer, whose threads may spin while they wait for one another, only what workers ran is sure to
 * be needed, and of the CPUs of whoever may use most of them. */
START_TEST(test_oversubscription_with_a_team)
{
  for (unsigned cpus = 2; cpus <= 4; cpus += 2) {
    setup();
    struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, COMPUTES, 0};
    struct rates main_thread = {35, 60, 0}, worker = {60, 30, 0}, team = {70, 30, 0};
    make_worker(200, &plan);
    if (cpus == 4)
      fake_setting(1, "cores", "4");
    fake_thread(p, 101, "team");
    sample_all(p, 100, 150, &main_thread);
    sample_all(p, 101, 150, &team);
    sample_all(1, 200, 150, &worker);
    fetch_all();
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(bottleneck(s, "oversubscription")->at_most_ns,
                      COUNTED * 100 * MS - ((COUNTED - 1) * 60 * MS - 10 * MS) / cpus);
    opgap_summary_free(s);
  }
}
END_TEST

/* All batches are of one worker, which takes 80 ms for each. */
static struct opgap_summary *sampled_worker(const struct rates *worker)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 80000, COMPUTES, 0};
  make_worker(200, &plan);
  sample_all(1, 200, 120, worker);
  fetch_all();
  return fake_analyse(NULL);
}

/* It waits for a CPU for 90 of 100 ms, so also while it waits for an index; of the 80 ms a batch these are all. */
START_TEST(test_no_cpu_while_idle)
{
  struct rates worker = {10, 90, 0};
  struct opgap_summary *s = sampled_worker(&worker);
  ck_assert_uint_gt(s->loader.worker[0].busy_ns, STEPS * 80 * MS); /* its reads of pipes, too: 20 us a batch */
  ck_assert_uint_lt(s->loader.worker[0].busy_ns, STEPS * (80 * MS + 20 * US));
  ck_assert_uint_eq(s->loader.worker[0].queue_ns, s->loader.worker[0].busy_ns);
  assert_loader(s, "slow_decode");
  ck_assert_ptr_nonnull(
      strstr(bottleneck(s, "slow_decode")->text, "; for 100.0 % of their busy time the workers wait for a CPU: other"));
  opgap_summary_free(s);
}
END_TEST

/* A worker that computes for 18 of 80 ms a batch, and for 62 waits for a CPU that other programs have: with a CPU it
 * would need less than a second worker and more than one. */
START_TEST(test_slow_decode_on_a_busy_machine)
{
  struct rates worker = {18, 62, 0};
  struct opgap_summary *s = sampled_worker(&worker);
  assert_loader(s, "slow_decode");
  ck_assert_uint_eq(s->loader.worker[0].queue_ns, STEPS * 62 * MS);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "slow_decode")->text,
                               " for 22.5 % of the busy time, 18.0 ms a batch; for 77.5 % of their "
                               "busy time the workers wait for a CPU: other"));
  ck_assert_str_eq(bottleneck(s, "slow_decode")->remedy,
                   "Stop other programs on this machine, or reserve CPUs for this one. Until then, more workers only "
                   "wait for a CPU, too. Then: Prepare the data once ahead of training, or use a faster decoder.");
  ck_assert_str_eq(s->verdict.confidence, "low"); /* 91 % of step time, 22.5 % of it with a CPU */
  ck_assert_uint_eq(s->verdict.remedy_count, 3);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "Stop other programs on this machine"));
  ck_assert_str_eq(s->verdict.remedies[1], "Prepare the data once ahead of training, or use a faster decoder.");
  opgap_summary_free(s);
}
END_TEST

/* The main thread has no CPU either: of two rows with one remedy the verdict says it once, with what the first adds. */
START_TEST(test_remedies_are_told_once)
{
  struct worker_plan plan = {0, 1, STEPS, 100000, 10000, 50000, COMPUTES, 0};
  struct rates worker = {18, 62, 0}, main_thread = {10, 50, 0};
  make_worker(200, &plan);
  sample_all(1, 200, 120, &worker);
  sample_all(p, 100, 120, &main_thread);
  for (unsigned i = 0; i < STEPS; i++) {
    uint64_t at = batch_us(i);
    fake_user_op(p, t, 0, at, at + 50000, NEXT);
    fake_file_call(p, t, 1, FAKE_READ, at + 100, at + 110, result_pipe, 64);
    fake_op(p, t, 0, at + 50000, at + 99000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    fake_user_op(p, t, 0, at + 99000, at + 100000, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  unsigned told = 0;
  ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_DATA_LOADING);
  ck_assert_uint_ge(bottleneck(s, "run_queue")->ns, s->verdict.step_ns / 5);
  ck_assert_str_eq(bottleneck(s, "run_queue")->remedy,
                   "Stop other programs on this machine, or reserve CPUs for this one.");
  for (size_t i = 0; i < s->verdict.remedy_count; i++)
    told += strstr(s->verdict.remedies[i], bottleneck(s, "run_queue")->remedy) != NULL;
  ck_assert_uint_eq(told, 1);
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "Until then, more workers only wait for a CPU, too."));
  opgap_summary_free(s);
}
END_TEST

/* In the steps 40 of 60 ms of each __next__ are reads of one file, or 20 of them; one that was read for longer before
 * the first step ended, or outside of __next__, is not named.  What was read before does not count, even behind a
 * poll, nor do other steps than those that are asked for. */
START_TEST(test_no_workers_names_the_file_of_its_batches)
{
  for (int most = 0; most < 2; most++) {
    setup();
    fake_file_call(p, t, 0, FAKE_POLL, 500, 600, "pipe:[9]", 1);
    fake_file_call(p, t, 0, FAKE_READ, 1000, 90000, "/lib/torch.so", 5000);
    fake_file_call(p, t, 0, FAKE_READ, 90000, 95000, "/d/data", 5000);
    for (unsigned i = 0; i < STEPS; i++) {
      uint64_t at = batch_us(i);
      if (i == 0)
        fake_file_call(p, t, 1, FAKE_READ, at + 1000, at + 59000, "/d/first", 1000);
      else
        fake_file_call(p, t, 1, FAKE_READ, at + 1000, at + (most ? 41000 : 21000), "/d/data", 80000);
      fake_user_op(p, t, 0, at, at + 60000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
      fake_file_call(p, t, 0, FAKE_READ, at + 60000, at + 98000, "/d/log", 1000);
      fake_user_op(p, t, 0, at + 99000, at + 100000, "Optimizer.step#SGD.step");
    }
    struct opgap_summary *s = fake_analyse(NULL);
    const char *text = bottleneck(s, "no_workers")->text, *reads = bottleneck(s, "file_read")->text;
    ck_assert_ptr_eq(strstr(text, "/lib/torch.so"), NULL);
    ck_assert_ptr_eq(strstr(text, "/d/first"), NULL);
    ck_assert_ptr_eq(strstr(text, "/d/log"), NULL);
    if (most)
      ck_assert_ptr_nonnull(strstr(text, ", most of it on /d/data (1520000 bytes, 2.0 MB/s)"));
    else
      ck_assert_ptr_eq(strstr(text, "most of it"), NULL);
    /* of all reads in the steps the log is 38 of 78 ms, or of 58 */
    ck_assert_ptr_nonnull(
        strstr(reads, most ? "most of it on /d/data" : "most of it on /d/log (19000 bytes, 0.0 MB/s)"));
    opgap_summary_free(s);
    struct opgap_analysis_options options = {.steps_given = true, .first_step = 10, .last_step = 12};
    s = fake_analyse(&options);
    text = bottleneck(s, "no_workers")->text;
    ck_assert_int_eq(strstr(text, ", most of it on /d/data (240000 bytes, 2.0 MB/s)") != NULL, most);
    opgap_summary_free(s);
  }
}
END_TEST

/* ---- what holds of every row, in runs made up by chance ---- */

static uint64_t random_state;

static uint64_t chance(uint64_t below)
{
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (random_state >> 33) % below;
}

/* Steps of any parts, one after the other; times in us. */
static uint64_t random_part(uint64_t at, unsigned other)
{
  uint64_t length = 100 + chance(20000), end = at + length;
  switch (chance(10)) {
  case 0:
    fake_call(p, t, 0, FAKE_SLEEP, at, end, 0, 0, 0);
    break;
  case 1:
    fake_call(p, other, 0, FAKE_MUTEX_UNLOCK, end - chance(length), end, 0xabc, 0, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, at, end, 0xabc, 0, 0);
    break;
  case 2:
    fake_file_call(p, t, 0, chance(2) ? FAKE_READ : FAKE_WRITE, at, end, "/d/x", 1000);
    break;
  case 3:
    fake_file_call(p, t, 0, FAKE_READ, at, end, chance(2) ? "socket:[7]" : "pipe:[7]", 100);
    break;
  case 4:
    fake_call(p, t, 1, FAKE_WAITPID, at + 10, end - 10, 0, 0, 0);
    fake_op(p, t, 0, at, end, "aten::mm", 0, 0);
    break;
  case 5:
    fake_file_call(p, t, 1, FAKE_READ, at + 10, at + 50, "/d/batch", 10);
    fake_user_op(p, t, 0, at, end, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    break;
  case 6:
    fake_range(p, t, 0, at, end, "gloo:all_reduce");
    break;
  case 7:
    for (uint64_t from = at; from + 15 <= end; from += 15)
      fake_op(p, t, 0, from, from + 14, "aten::add", 0, 0);
    break;
  default: /* its own code */
    break;
  }
  return end;
}

static void random_samples(uint64_t end_us)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  uint64_t run = 0, queue = 0, throttled = 0, faults = 0;
  uint64_t busy = chance(101), waits = chance(101 - busy), limit = chance(3) == 0 ? waits : 0;
  for (uint64_t at = 0; at < end_us; at += 100000) {
    struct opgap_record r = {.event = OPGAP_EV_CGROUP, .start_ns = at * US, .end_ns = at * US};
    r.field[2] = throttled;
    fake_record(p, stream, r);
    r = (struct opgap_record){.event = OPGAP_EV_SCHED, .status = 100, .start_ns = at * US, .end_ns = at * US};
    r.field[0] = run;
    r.field[1] = queue;
    fake_record(p, stream, r);
    r = (struct opgap_record){.event = OPGAP_EV_MEMORY, .start_ns = at * US, .end_ns = at * US};
    r.field[1] = faults;
    r.field[3] = run / 2;
    r.field[4] = run / 2;
    fake_record(p, stream, r);
    run += busy * MS;
    queue += waits * MS;
    throttled += limit * MS;
    faults += chance(2) * 10000;
  }
}

/* Whatever a run is made of: no row is more than its bound, and no bound more than the steps. */
START_TEST(test_share_bound_and_steps)
{
  uint64_t seen = 0, off_cpu = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    random_state = seed;
    setup();
    unsigned other = fake_thread(p, 101, "other");
    bool gpu = chance(4) == 0, loads = chance(4) == 0;
    unsigned stream = gpu ? fake_stream(p, OPGAP_STREAM_GPU) : 0;
    uint64_t at = 1000;
    for (uint64_t i = 0; i < STEPS; i++) {
      uint64_t begin = at;
      for (uint64_t parts = 1 + chance(6); parts > 0; parts--)
        at = random_part(at, other);
      if (gpu)
        fake_record(p, stream,
                    (struct opgap_record){.event = chance(2) ? OPGAP_EV_KERNEL : OPGAP_EV_GPU_MEMCPY,
                                          .status = (uint32_t)i + 1,
                                          .start_ns = begin * US,
                                          .end_ns = (begin + chance(at - begin)) * US,
                                          .field = {fake_name(p, "gemm")}});
      if (loads) {
        fake_user_op(p, t, 0, at, at + 30000, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
        at += 30000;
      }
      fake_step(p, t, at);
    }
    random_samples(at + 200000);
    struct opgap_summary *s = fake_analyse(NULL);
    for (size_t i = 0; i < s->verdict.bottleneck_count; i++) {
      const struct opgap_sum_bottleneck *b = &s->verdict.bottlenecks[i];
      ck_assert_msg(b->ns <= s->verdict.step_ns, "seed %d: %s is more than the steps", (int)seed, b->kind);
      ck_assert_msg(b->at_most_ns == OPGAP_UNKNOWN || (b->ns <= b->at_most_ns && b->at_most_ns <= s->verdict.step_ns),
                    "seed %d: %s takes %llu ns, its bound is %llu of %llu", (int)seed, b->kind,
                    (unsigned long long)b->ns, (unsigned long long)b->at_most_ns,
                    (unsigned long long)s->verdict.step_ns);
      seen++;
      off_cpu += strcmp(b->kind, "run_queue") == 0 || strcmp(b->kind, "cgroup_limit") == 0 ||
                 strcmp(b->kind, "blocked_outside") == 0;
    }
    opgap_summary_free(s);
  }
  ck_assert_uint_gt(seen, 1500);
  ck_assert_uint_gt(off_cpu, 200);
}
END_TEST

/* Batches 0 to 9 are sent before batch 0 is fetched; none is waited for. */
START_TEST(test_ready_batches)
{
  unsigned w = fake_process(200, 100, "python train.py");
  unsigned main_thread = fake_thread(w, 200, "pt_data_worker");
  for (unsigned i = 0; i < 10; i++)
    fake_file_call(w, main_thread, 0, FAKE_WRITE, 100000 + i, 100000 + i + 1, "pipe:[42]", 64);
  for (unsigned i = 0; i < 10; i++)
    fetch(i, false);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->loader.waited, 0);
  ck_assert_double_eq(s->loader.depth, 5.5); /* 10, 9, ..., 1 */
  ck_assert_double_eq(s->loader.depths[0], 10);
  ck_assert_double_eq(s->loader.depths[OPGAP_DEPTH_CHUNKS - 1], 1);
  opgap_summary_free(s);
}
END_TEST

/* As before, with a thread that pins: it takes each message 1.5 ms before it is fetched, needs 0.5 ms for it, and then
 * waits for the next.  Or it takes all at once; then all that are ready are pinned.  At the end the trainer itself
 * sends it a message. */
START_TEST(test_pin_memory_thread)
{
  for (int at_once = 0; at_once < 2; at_once++) {
    setup();
    unsigned w = fake_process(200, 100, "python train.py"), worker = fake_thread(w, 200, "pt_data_worker");
    unsigned pin = fake_thread(p, 102, "pt_data_pin"), feeder = fake_thread(p, 103, "QueueFeederThre");
    fake_file_call(p, feeder, 0, FAKE_WRITE, batch_us(10), batch_us(10) + 5, "pipe:[42]", 12);
    fake_file_call(w, worker, 0, FAKE_POLL, 90000, 90010, "pipe:[9]", 1);
    for (unsigned i = 0; i < 10; i++)
      fake_file_call(w, worker, 0, FAKE_WRITE, 100000 + i, 100000 + i + 1, "pipe:[42]", 64);
    uint64_t idle = 101000, waited = 0;
    for (unsigned i = 0; i < 11; i++) {
      uint64_t at = at_once && i < 10 ? 102000 + 1000 * i : batch_us(i) - 1500 + 2000 * (i / 10);
      fake_file_call(p, pin, 0, FAKE_POLL, idle, at, "pipe:[42]", 1);
      fake_file_call(p, pin, 0, FAKE_READ, at, at + 10, "pipe:[42]", 4);
      fake_file_call(p, pin, 0, FAKE_READ, at + 10, at + 20, "pipe:[42]", 60);
      waited += at + 20 - idle;
      idle = at + 520;
    }
    for (unsigned i = 0; i < 10; i++) {
      uint64_t at = batch_us(i);
      fake_user_op(p, t, 0, at, at + 1000, NEXT);
      fake_op(p, t, 0, at + 92000, at + 97000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
      fake_user_op(p, t, 0, at + 97500, at + 100000, "Optimizer.step#SGD.step");
    }
    struct opgap_summary *s = fake_analyse(NULL);
    ck_assert_uint_eq(s->loader.pin_threads, 1);
    ck_assert_uint_eq(s->loader.pin_batches, 10);
    ck_assert_uint_eq(s->loader.pin_wait_ns, waited * US);
    ck_assert_uint_eq(s->loader.pin_busy_ns, 10 * 500 * US); /* behind its last record it may do anything */
    ck_assert_double_eq(s->loader.depth, 5.5);
    ck_assert_double_eq(s->loader.pinned_depth, at_once ? 5.5 : 1);
    ck_assert_uint_eq(s->loader.epoch_count, 1);
    ck_assert_uint_eq(s->loader.epochs[0].fetches, 10);
    ck_assert_uint_eq(s->loader.epochs[0].first_wait_ns, 0);
    opgap_summary_free(s);
  }
}
END_TEST

/* One loader with a thread that pins, of which all 10 batches are there at once, then one without, whose 4 are: what
 * was taken from the one is not taken from the other, and the thread has done none of the other's. */
START_TEST(test_two_loaders_one_that_pins)
{
  unsigned first = fake_process(200, 100, "python train.py"), its = fake_thread(first, 200, "pt_data_worker");
  unsigned second = fake_process(201, 100, "python train.py"), other = fake_thread(second, 201, "pt_data_worker");
  unsigned pin = fake_thread(p, 102, "pt_data_pin");
  fake_file_call(p, pin, 0, FAKE_POLL, 90000, 101000, "pipe:[42]", 1);
  for (unsigned i = 0; i < 10; i++) {
    fake_file_call(first, its, 0, FAKE_WRITE, 100000 + i, 100000 + i + 1, "pipe:[42]", 64);
    fake_file_call(p, pin, 0, FAKE_READ, 101000 + 20 * i, 101010 + 20 * i, "pipe:[42]", 4);
    fake_file_call(p, pin, 0, FAKE_READ, 101010 + 20 * i, 101020 + 20 * i, "pipe:[42]", 60);
  }
  for (unsigned i = 0; i < 4; i++)
    fake_file_call(second, other, 0, FAKE_WRITE, 100000 + i, 100000 + i + 1, "pipe:[43]", 64);
  for (unsigned i = 0; i < 14; i++) {
    uint64_t at = batch_us(i);
    if (i >= 10)
      fake_file_call(p, t, 1, FAKE_READ, at + 100, at + 110, "pipe:[43]", 64);
    fake_user_op(p, t, 0, at, at + 1000, NEXT);
    fake_user_op(p, t, 0, at + 97500, at + 100000, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_double_eq(s->loader.depth, (55 + 10) / 14.0);
  ck_assert_double_eq(s->loader.pinned_depth, 5.5);
  opgap_summary_free(s);
}
END_TEST

/* The thread that pins is seen from the sixth batch on: it has done fewer than were taken, which is none too many. */
START_TEST(test_pin_memory_thread_seen_late)
{
  unsigned w = fake_process(200, 100, "python train.py"), its = fake_thread(w, 200, "pt_data_worker");
  unsigned pin = fake_thread(p, 102, "pt_data_pin");
  for (unsigned i = 0; i < 10; i++)
    fake_file_call(w, its, 0, FAKE_WRITE, 100000 + i, 100000 + i + 1, "pipe:[42]", 64);
  fake_file_call(p, pin, 0, FAKE_POLL, batch_us(5) - 3000, batch_us(5) - 2000, "pipe:[42]", 1);
  for (unsigned i = 0; i < 10; i++) {
    uint64_t at = batch_us(i);
    if (i < 5)
      fake_file_call(p, t, 1, FAKE_READ, at + 100, at + 110, "pipe:[42]", 64);
    else
      fake_file_call(p, pin, 0, FAKE_READ, at - 1500, at - 1490, "pipe:[42]", 4);
    fake_user_op(p, t, 0, at, at + 1000, NEXT);
    fake_user_op(p, t, 0, at + 97500, at + 100000, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_double_eq(s->loader.depth, 5.5);
  ck_assert_double_eq(s->loader.pinned_depth, 0);
  opgap_summary_free(s);
}
END_TEST

/* A __next__ of 3 s whose calls of a second each are explained before it ends: still one gap. */
START_TEST(test_long_next_is_one_gap)
{
  unsigned w = fake_process(200, 100, "python train.py");
  unsigned main_thread = fake_thread(w, 200, "pt_data_worker");
  fake_file_call(w, main_thread, 0, FAKE_WRITE, 2900000, 2900010, "pipe:[42]", 64);
  for (uint64_t second = 0; second < 3; second++)
    fake_file_call(p, t, 1, FAKE_POLL, 1000000 * second + 100000, 1000000 * (second + 1) - 50000, "pipe:[42]", 1);
  fake_file_call(p, t, 1, FAKE_READ, 2950010, 2950020, "pipe:[42]", 64);
  fake_user_op(p, t, 0, 50000, 3000000, NEXT);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->gaps.thread_count, 1);
  ck_assert_uint_eq(s->gaps.thread_listed, 1);
  ck_assert_uint_eq(s->gaps.thread_ns, 2850020 * US);
  uint64_t sum = 0;
  for (size_t i = 0; i < s->gaps.thread_cause_count; i++) {
    ck_assert_int_eq(s->gaps.thread_by_cause[i].cause, OPGAP_CAUSE_DATA_LOADING);
    sum += s->gaps.thread_by_cause[i].ns;
  }
  ck_assert_uint_eq(sum, s->gaps.thread_ns);
  opgap_summary_free(s);
}
END_TEST

/* ---- steps without a mark, orphans ---- */

/* Rounds of 10 ms: load, three layers, and in every seventh round a report that does not belong to the loop. */
START_TEST(test_steps_by_period)
{
  for (uint64_t i = 0; i < 30; i++) {
    uint64_t at = 1000 + 10000 * i;
    fake_range(p, t, 0, at, at + 1000, "load");
    for (uint64_t layer = 0; layer < 3; layer++) {
      fake_op(p, t, 0, at + 2000 + 2000 * layer, at + 3000 + 2000 * layer, "aten::linear", 0, 0);
      fake_op(p, t, 0, at + 3000 + 2000 * layer, at + 3500 + 2000 * layer, "aten::relu", 0, 0);
    }
    if (i == 15)
      fake_op(p, t, 0, at + 9000, at + 9500, "aten::item", 0, 0);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "periodicity");
  ck_assert_uint_eq(s->steps.count, 28); /* 29 rounds are followed by another; one of them is longer */
  ck_assert_uint_eq(s->steps.start_ns[0], 1000 * US - s->start_ns);
  for (size_t i = 0; i < s->steps.count; i++)
    ck_assert_uint_eq(s->steps.durations_ns[i], 10 * MS);
  ck_assert_uint_eq(s->breakdown.class_ns[OPGAP_CLASS_CPU_EXEC], s->breakdown.steps * 4500 * US);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_no_period)
{
  for (uint64_t i = 0; i < 200; i++) {
    uint64_t at = 1000 + 1000 * i;
    fake_op(p, t, 0, at, at + 500, i * i % 7 < 3 ? "aten::add" : i * i % 11 < 4 ? "aten::mul" : "aten::cat", 0, 0);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->steps.source, "none");
  ck_assert_uint_eq(s->steps.count, 0);
  opgap_summary_free(s);
}
END_TEST

/* A range that began here ended on another thread: what was in it is not in the op that comes later. */
START_TEST(test_children_of_a_range_that_ended_elsewhere)
{
  fake_op(p, t, 1, 1000, 1400, "aten::orphan", 0, 0);
  fake_op(p, t, 1, 1400, 1500, "aten::orphan", 0, 0);
  fake_op(p, t, 1, 2010, 2040, "aten::child", 0, 0);
  fake_op(p, t, 0, 2000, 2100, "aten::outer", 0, 0);
  fake_op(p, t, 1, 3000, 3400, "aten::orphan", 0, 0);
  fake_op(p, t, 0, 4000, 4100, "aten::alone", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  uint64_t found = 0;
  for (size_t i = 0; i < s->op_count; i++) {
    bool outer = strcmp(s->ops[i].name, "aten::outer") == 0, alone = strcmp(s->ops[i].name, "aten::alone") == 0;
    found += outer || alone;
    if (outer || alone)
      ck_assert_uint_eq(s->ops[i].self_cpu_ns, outer ? 70 * US : 100 * US);
  }
  ck_assert_uint_eq(found, 2);
  opgap_summary_free(s);
}
END_TEST

/* ---- memory ---- */

/* Each step keeps 1000 bytes of the 6000 that it allocates. */
START_TEST(test_growth_of_live_bytes)
{
  fake_setting(p, "OPGAP_ALLOC", "events");
  for (uint64_t i = 0; i < STEPS; i++) {
    uint64_t at = step_us(i);
    fake_call(p, t, 0, FAKE_MALLOC, at, at, 0x100000 + i * 0x1000, 1000, 0);
    fake_call(p, t, 0, FAKE_MALLOC, at + 10, at + 10, 0x8000, 5000, 0);
    fake_call(p, t, 0, FAKE_FREE, at + 20, at + 20, 0x8000, 0, 0);
    fake_step(p, t, at + 9000);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->memory.growth_of, "live bytes");
  ck_assert_uint_eq(s->memory.growth_points, COUNTED);
  ck_assert_double_eq_tol(s->memory.growth_bytes, 1000, 1e-6);
  ck_assert_double_eq_tol(s->memory.growth_fit, 1, 1e-9);
  opgap_summary_free(s);
}
END_TEST

/* Resident memory that goes up and down: the line through it explains nothing. */
START_TEST(test_no_growth)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (uint64_t i = 0; i < STEPS; i++) {
    uint64_t at = (step_us(i) + 5000) * US;
    fake_step(p, t, step_us(i + 1));
    fake_record(p, stream,
                (struct opgap_record){
                    .event = OPGAP_EV_MEMORY, .start_ns = at, .end_ns = at, .field = {10000000 + i % 2 * 1000000}});
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->memory.growth_of, "resident memory");
  ck_assert_uint_eq(s->memory.growth_points, COUNTED);
  ck_assert_double_lt(s->memory.growth_fit, 0.1);
  opgap_summary_free(s);
}
END_TEST

/* ---- the scheduler: steps of 100 ms, samples every 100 ms, in the middle of the steps ---- */

/* sleep_ms: for so long each thread sleeps, from 10 ms of each step on. */
static struct opgap_summary *sampled_run(const struct rates *main_thread, const struct rates *others, unsigned sleep_ms)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  unsigned threads[5] = {t}, count = 1;
  for (; others != NULL && count < 5; count++)
    threads[count] = fake_thread(p, 100 + (int)count, "spinner");
  for (uint64_t i = 0; i <= STEPS + 1; i++) {
    sample(stream, 100, i, main_thread);
    for (uint32_t k = 0; others != NULL && k < 4; k++)
      sample(stream, 101 + k, i, others);
  }
  for (uint64_t i = 0; i <= STEPS; i++) {
    for (unsigned k = 0; sleep_ms > 0 && k < count; k++)
      fake_call(p, threads[k], 0, FAKE_SLEEP, 100000 * i + 10000, 100000 * i + 10000 + 1000 * sleep_ms, 0, 0, 0);
    fake_step(p, t, 100000 * (i + 1));
  }
  return fake_analyse(NULL);
}

static void assert_about(uint64_t seen, uint64_t expected)
{
  ck_assert_uint_le(seen, expected);
  ck_assert_uint_ge(seen + 1000, expected); /* shares are rounded down, two pieces a step */
}

/* The condition is signalled after 30 ms; the main thread runs again 40 ms later, of which the scheduler counts
 * `queued` of each step as a wait for a CPU. */
static struct opgap_summary *woken_run(const struct rates *rates)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS), other = fake_thread(p, 101, "producer");
  for (uint64_t i = 0; rates != NULL && i <= STEPS + 1; i++)
    sample(stream, 100, i, rates);
  for (uint64_t i = 0; i <= STEPS; i++) {
    uint64_t at = 100000 * i;
    fake_call(p, other, 0, FAKE_SLEEP, at + 5000, at + 39000, 0, 0, 0);
    fake_call(p, other, 0, FAKE_COND_SIGNAL, at + 40000, at + 40000, 0xc0, 0, 0);
    fake_call(p, t, 0, FAKE_COND_WAIT, at + 10000, at + 80000, 0xc0, 0, 0);
    fake_step(p, t, at + 100000);
  }
  return fake_analyse(NULL);
}

START_TEST(test_wake_up)
{
  struct opgap_summary *s = woken_run(NULL);
  uint64_t woken = s->breakdown.steps * 40 * MS;
  ck_assert_uint_eq(bottleneck(s, "wake_up")->ns, woken);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "wake_up")->text, "does not run yet for 40.0 % of step time"));
  ck_assert_uint_eq(s->breakdown.no_cpu_ns, 0);
  ck_assert_str_eq(s->verdict.evidence[0],
                   "Of the time of 20 steps: 1.0 % waiting for code of another thread, 40.0 % waiting for threads "
                   "without a CPU, 29.0 % waiting for a thread that sleeps, 30.0 % the program's own code.");
  ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "See the longest idle gaps"));
  opgap_summary_free(s);
  setup();
  struct rates rates = {30, 25, 0};
  s = woken_run(&rates); /* each interval between two samples counts 25 ms, as many as there are steps */
  uint64_t no_cpu = s->breakdown.no_cpu_ns, counted = s->breakdown.steps * 25 * MS;
  ck_assert_uint_eq(no_cpu, counted);
  ck_assert_uint_eq(bottleneck(s, "run_queue")->ns, no_cpu);
  ck_assert_uint_eq(bottleneck(s, "wake_up")->ns, woken + s->breakdown.queue_ns - no_cpu);
  ck_assert_str_eq(s->verdict.remedies[0], bottleneck(s, "run_queue")->remedy);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_run_queue)
{
  struct rates main_thread = {25, 75, 0};
  struct opgap_summary *s = sampled_run(&main_thread, NULL, 0);
  uint64_t steps = s->breakdown.steps;
  ck_assert(s->breakdown.sampled);
  assert_about(s->breakdown.queue_ns, steps * 75 * MS);
  ck_assert_uint_eq(s->breakdown.outside_ns, 0);
  assert_first(s, "run_queue");
  assert_about(bottleneck(s, "own_code")->ns, steps * 25 * MS + 1000);
  ck_assert_uint_eq(s->verdict.remedy_count, 1);
  ck_assert_ptr_nonnull(strstr(s->verdict.evidence[1], "has no free CPU for ~75.0 % of step time"));
  ck_assert_uint_eq(s->thread_count, 1);
  ck_assert_uint_eq(s->threads[0].run_ns, (STEPS + 1) * 25 * MS);
  ck_assert_uint_eq(s->threads[0].queue_ns, (STEPS + 1) * 75 * MS);
  opgap_summary_free(s);
}
END_TEST

/* All steps lie between two samples: that the main thread had no CPU is known, what the run wants is not. */
START_TEST(test_steps_between_two_samples)
{
  struct rates rates = {25, 75, 0};
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (uint64_t i = 0; i < 3; i++)
    sample(stream, 100, i, &rates);
  for (uint64_t i = 0; i < STEPS; i++)
    fake_step(p, t, 60000 + 2000 * i);
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "run_queue");
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "run_queue")->text,
                               " % of step time; how many this run wants is not known, its steps hold too few of the "
                               "scheduler's samples"));
  ck_assert_ptr_null(strstr(bottleneck(s, "run_queue")->text, "0.0"));
  opgap_summary_free(s);
}
END_TEST

/* Nor do samples tell it that lie 5.9 s apart where the steps took 38 ms: half of a CPU in 5.9 s is not 78 in 38 ms. */
START_TEST(test_steps_beside_samples_far_apart)
{
  static const uint64_t at[] = {0, 1, 60};
  struct rates rates = {50, 10, 0};
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    sample(stream, 100, at[i], &rates);
  for (uint64_t i = 0; i < STEPS; i++)
    fake_step(p, t, 130000 + 2000 * i);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->verdict.step_ns, COUNTED * 2 * MS);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "run_queue")->text, "; how many this run wants is not known"));
  opgap_summary_free(s);
}
END_TEST

/* Ops that had the CPU for a quarter of their time do not hold the run back: the wait for the CPU is told first. */
START_TEST(test_ops_without_a_cpu)
{
  struct rates main_thread = {25, 75, 0};
  for (int small = 0; small < 2; small++) {
    setup();
    for (uint64_t i = 0; i <= STEPS; i++)
      fake_op(p, t, 0, 100000 * i + 1000, 100000 * i + (small ? 1010 : 99000), "aten::mm", 0, 0);
    struct opgap_summary *s = sampled_run(&main_thread, NULL, 0);
    assert_first(s, "run_queue");
    ck_assert_int_eq(s->verdict.bound_by, small ? OPGAP_BOUND_CPU_DISPATCH : OPGAP_BOUND_CPU_COMPUTE);
    ck_assert_str_eq(s->verdict.confidence, "low"); /* 98 % or all of the step, a quarter of it on a CPU */
    ck_assert_ptr_nonnull(strstr(s->verdict.evidence[1], "has no free CPU for ~75.0 % of step time"));
    ck_assert_ptr_nonnull(strstr(s->verdict.remedies[0], "Stop other programs"));
    if (!small) { /* the share that the table of a step's time has, with the time of a call, which waits for a CPU, too
                   */
      const char *text = bottleneck(s, "compute")->text;
      ck_assert_ptr_nonnull(strstr(text,
                                   "Framework ops take 98.0 % of step time, 98000.0 us each (on a CPU for ~24.5 % "
                                   "of step time)"));
    }
    opgap_summary_free(s);
  }
}
END_TEST

/* 3 s until the first step, steps of 10 ms behind it. */
START_TEST(test_mostly_start_up)
{
  fake_op(p, t, 0, 0, 100, "aten::ones", 0, 0);
  fake_step(p, t, 3000000);
  for (uint64_t i = 0; i < STEPS; i++)
    fake_step(p, t, 3000000 + 10000 * (i + 1));
  struct opgap_summary *s = fake_analyse(NULL);
  uint64_t until = s->steps.start_ns[s->steps.skipped];
  char sentence[64];
  snprintf(sentence, sizeof sentence, "%.1f %% of the run passed before",
           100.0 * (double)until / (double)s->duration_ns);
  ck_assert_uint_ge(until, 2999 * MS);
  ck_assert_ptr_nonnull(strstr(s->verdict.evidence[1], sentence));
  opgap_summary_free(s);
  struct opgap_analysis_options options = {.steps_given = true, .first_step = 5, .last_step = 9};
  s = fake_analyse(&options); /* who asks for some steps knows what he left out */
  for (size_t i = 0; i < s->verdict.evidence_count; i++)
    ck_assert_ptr_null(strstr(s->verdict.evidence[i], "of the run passed before"));
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_oversubscription)
{
  struct rates all = {40, 60, 0};
  struct opgap_summary *s = sampled_run(&all, &all, 0);
  assert_first(s, "oversubscription");
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "oversubscription")->text, "there are 2"));
  ck_assert_uint_eq(bottleneck(s, "oversubscription")->at_most_ns, s->verdict.step_ns);
  opgap_summary_free(s);
}
END_TEST

/* Five threads run for 10 ms between sleeps of 20 ms: alone they would use 1.7 CPUs.  That they are runnable for 80 of
 * 100 ms is for others, which have the CPUs. */
START_TEST(test_others_have_the_cpus)
{
  struct rates all = {10, 70, 0};
  struct opgap_summary *s = sampled_run(&all, &all, 20);
  assert_first(s, "run_queue");
  ck_assert_ptr_nonnull(
      strstr(bottleneck(s, "run_queue")->text,
             "though this run would use only ~1.7 of 2 CPUs if they were free: other programs use them"));
  opgap_summary_free(s);
}
END_TEST

/* They have half of the CPUs, and each is blocked for 40 of 100 ms, as threads of OpenMP are that wait for one without
 * a CPU: it is they that keep each other waiting. */
START_TEST(test_oversubscription_by_a_team)
{
  struct rates all = {20, 40, 0};
  struct opgap_summary *s = sampled_run(&all, &all, 0);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "oversubscription")->text, "all threads together want ~3.0 CPUs"));
  opgap_summary_free(s);
}
END_TEST

/* The same, but blocked in nothing that is hooked: what they wait for are the others of the team, and these wait for
 * CPUs for 7/8 of their time.  So each would run for 10 of 13 ms.  What the last interval before the end is, nobody
 * knows: 0.75 CPUs each. */
START_TEST(test_team_beside_other_programs)
{
  struct rates all = {10, 70, 0};
  struct opgap_summary *s = sampled_run(&all, &all, 0);
  uint64_t outside = s->breakdown.outside_ns;
  assert_first(s, "oversubscription");
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "oversubscription")->text, "all threads together want ~3.7 CPUs"));
  assert_about(outside, s->breakdown.steps * 20 * MS - 15 * MS);
  uint64_t team = bottleneck(s, "oversubscription")->ns - s->breakdown.queue_ns;
  ck_assert_uint_le(team, outside / 8 * 7 + 1);
  ck_assert_uint_ge(team + 8, outside / 8 * 7);
  ck_assert_uint_eq(bottleneck(s, "team_imbalance")->ns, outside - team);
  opgap_summary_free(s);
}
END_TEST

/* Waiting in nothing that is hooked while the others of the process run: they have more to do.  Threads that are in
 * hooked calls for more than half of their time are no team. */
START_TEST(test_team_imbalance)
{
  struct rates main_thread = {20, 0, 0}, others = {25, 0, 0};
  for (int team = 0; team < 2; team++) {
    const char *kind = team ? "team_imbalance" : "blocked_outside",
               *other = team ? "blocked_outside" : "team_imbalance";
    setup();
    struct opgap_summary *s = sampled_run(&main_thread, &others, team ? 0 : 60);
    if (team)
      assert_first(s, kind);
    ck_assert_uint_eq(bottleneck(s, kind)->ns, s->breakdown.outside_ns);
    for (size_t i = 0; i < s->verdict.bottleneck_count; i++)
      ck_assert_str_ne(s->verdict.bottlenecks[i].kind, other);
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_cgroup_limit)
{
  struct rates main_thread = {20, 80, 80};
  struct opgap_summary *s = sampled_run(&main_thread, NULL, 0);
  assert_first(s, "cgroup_limit");
  assert_about(s->breakdown.throttled_ns, s->breakdown.steps * 80 * MS);
  ck_assert_uint_eq(s->breakdown.queue_ns, 0);
  opgap_summary_free(s);
}
END_TEST

/* On a CPU for 20 of 100 ms, and in no hooked call: once 10 ms may be the age of the scheduler's figures. */
START_TEST(test_blocked_outside_hooks)
{
  struct rates main_thread = {20, 0, 0};
  struct opgap_summary *s = sampled_run(&main_thread, NULL, 0);
  assert_first(s, "blocked_outside");
  /* half of the first interval's 10 ms are in the warm-up step; behind the last record of the thread nobody knows what
   * it is in: the last half step is not divided */
  assert_about(s->breakdown.outside_ns, s->breakdown.steps * 80 * MS - 5 * MS - 40 * MS);
  ck_assert_uint_eq(s->breakdown.fault_ns, 0);
  opgap_summary_free(s);
}
END_TEST

/* A wait for a CPU is counted when it ends: what one sample lacks the next one has, so it was never blocked.  In the
 * other run it was, for as long as the next sample does not make up for: 20 of 200 ms. */
START_TEST(test_late_run_queue)
{
  for (int blocked = 0; blocked < 2; blocked++) {
    setup();
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
    uint64_t each = blocked ? 70 : 80;
    for (uint64_t i = 0; i <= STEPS + 1; i++) {
      struct rates now = {20 * i, each * (i - i % 2), 0}; /* in each second interval */
      uint64_t at = (50 + 100 * i) * MS;
      fake_record(p, stream,
                  (struct opgap_record){.event = OPGAP_EV_SCHED,
                                        .status = 100,
                                        .start_ns = at,
                                        .end_ns = at,
                                        .field = {now.run * MS, now.queue * MS, i}});
    }
    for (uint64_t i = 0; i <= STEPS; i++)
      fake_step(p, t, 100000 * (i + 1));
    struct opgap_summary *s = fake_analyse(NULL);
    /* of each 20 ms 10 may be the age of the figures */
    ck_assert_uint_ge(s->breakdown.outside_ns, blocked ? (s->breakdown.steps - 2) * 5 * MS : 0);
    ck_assert_uint_le(s->breakdown.outside_ns, blocked ? s->breakdown.steps * 5 * MS : 0);
    opgap_summary_free(s);
  }
}
END_TEST

/* A page fault that reads from a disk may take 20 ms: four of them explain all 80 ms off the CPU, two of them half. */
START_TEST(test_mapped_file)
{
  struct rates main_thread = {20, 0, 0};
  static const uint64_t majors[] = {2, 4, 60};
  for (size_t k = 0; k < sizeof majors / sizeof *majors; k++) {
    setup();
    unsigned memory = fake_stream(p, OPGAP_STREAM_PROCESS);
    fake_file_call(p, t, 0, FAKE_MMAP, 10, 20, "/data/small", 1000);
    fake_file_call(p, t, 0, FAKE_MMAP, 30, 40, "/data/samples", 1000000);
    for (uint64_t i = 0; i <= STEPS + 1; i++) {
      uint64_t at = (50 + 100 * i) * MS - 1; /* before the scheduler's, as they are taken */
      fake_record(p, memory,
                  (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                        .start_ns = at,
                                        .end_ns = at,
                                        .field = {1 << 20, 0, majors[k] * i, 10 * MS * i, 10 * MS * i}});
    }
    struct opgap_summary *s = sampled_run(&main_thread, NULL, 0);
    uint64_t outside = s->breakdown.outside_ns, faults = s->breakdown.fault_ns, on_cpu = s->verdict.step_ns - outside;
    assert_about(outside, s->breakdown.steps * 80 * MS - 5 * MS - 40 * MS);
    assert_about(faults, k == 0 ? s->breakdown.steps * 40 * MS - 20 * MS : outside);
    /* 600 a second cost the kernel CPU time: of the process's, half is the kernel's */
    uint64_t expected = faults + (k == 2 ? on_cpu / 2 : 0);
    ck_assert_uint_eq(bottleneck(s, "mapped_file")->ns, expected);
    if (k == 0) {
      ck_assert_uint_eq(bottleneck(s, "blocked_outside")->ns, outside - faults);
    } else {
      assert_first(s, "mapped_file");
      ck_assert_int_eq(s->verdict.bound_by, OPGAP_BOUND_MEMORY);
      ck_assert_str_eq(s->verdict.confidence, "high");
      ck_assert_str_eq(s->verdict.remedies[0], bottleneck(s, "mapped_file")->remedy);
    }
    ck_assert_ptr_nonnull(
        strstr(bottleneck(s, "mapped_file")->text, "mapped files, of which most is /data/samples (1000000 bytes)"));
    static const char *const rates[] = {", at ~20 a second: mapped", ", at ~40 a second: mapped",
                                        ", at ~600 a second: mapped"};
    ck_assert_ptr_nonnull(strstr(bottleneck(s, "mapped_file")->text, rates[k]));
    opgap_summary_free(s);
  }
}
END_TEST

/* Three in the 2 s from the first step on, of 20 ms each: that is 1.5 a second, not 2 and not 0. */
START_TEST(test_few_faults)
{
  struct rates main_thread = {20, 0, 0};
  unsigned memory = fake_stream(p, OPGAP_STREAM_PROCESS);
  for (uint64_t i = 0; i <= STEPS + 1; i++) {
    uint64_t at = (50 + 100 * i) * MS - 1;
    fake_record(p, memory,
                (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .field = {1 << 20, 0, i >= 5 ? 3 : 0, 10 * MS * i, 10 * MS * i}});
  }
  struct opgap_summary *s = sampled_run(&main_thread, NULL, 0);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "mapped_file")->text, ", at ~1.5 a second: mapped"));
  opgap_summary_free(s);
}
END_TEST

/* What a blocking call took is not looked for elsewhere: 70 of 100 ms asleep, 20 on a CPU. */
START_TEST(test_blocked_in_hooks_is_not_outside)
{
  struct rates main_thread = {20, 10, 0};
  struct opgap_summary *s = sampled_run(&main_thread, NULL, 70);
  ck_assert_uint_eq(s->breakdown.outside_ns, 0);
  assert_about(s->breakdown.queue_ns, s->breakdown.steps * 10 * MS);
  assert_first(s, "sleep");
  opgap_summary_free(s);
}
END_TEST

/* A lock of 70 of 100 ms whose holders run for 5 ms each, four of them: they may have slowed 20 ms of work.  The
 * samples that lie around the steps are 100 ms more than these, and each thread's may be 10 ms old, also those that say
 * that the main thread never waited for a CPU.  No more than all work, which it is with few steps. */
START_TEST(test_lock_bound_holds_what_others_ran)
{
  struct rates main_thread = {30, 0, 0}, others = {5, 0, 0};
  for (int few = 0; few < 2; few++) {
    setup();
    unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS), most = few ? 5 : STEPS;
    for (unsigned i = 0; i < 4; i++)
      fake_thread(p, 101 + (int)i, "holder");
    for (uint64_t i = 0; i <= most + 1; i++) {
      sample(stream, 100, i, &main_thread);
      for (uint32_t k = 0; k < 4; k++)
        sample(stream, 101 + k, i, &others);
    }
    for (uint64_t i = 0; i <= most; i++) {
      fake_call(p, t, 0, FAKE_MUTEX_LOCK, 100000 * i + 10000, 100000 * i + 80000, 0xabc, 0, 0);
      fake_step(p, t, 100000 * (i + 1));
    }
    struct opgap_summary *s = fake_analyse(NULL);
    uint64_t steps = s->breakdown.steps;
    ck_assert_uint_eq(bottleneck(s, "lock")->ns, steps * 70 * MS);
    ck_assert_uint_eq(bottleneck(s, "lock")->at_most_ns,
                      few ? s->verdict.step_ns : steps * 71 * MS + ((steps + 1) * 20 + 50) * MS);
    opgap_summary_free(s);
  }
}
END_TEST

/* A holder that ran for 5 of 100 ms is first sampled 50 ms after the steps counted began, and last 50 ms before they
 * ended: in these it may have run all the time. */
START_TEST(test_lock_bound_outside_of_samples)
{
  struct rates main_thread = {30, 0, 0}, other = {5, 0, 0};
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  fake_thread(p, 101, "holder");
  for (uint64_t i = 0; i <= STEPS + 1; i++) {
    sample(stream, 100, i, &main_thread);
    if (i > 0 && i <= STEPS)
      sample(stream, 101, i, &other);
  }
  for (uint64_t i = 0; i <= STEPS; i++) {
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, 100000 * i + 10000, 100000 * i + 80000, 0xabc, 0, 0);
    fake_step(p, t, 100000 * (i + 1));
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.steps, STEPS);
  ck_assert_uint_eq(bottleneck(s, "lock")->at_most_ns, (STEPS * 71 + (STEPS - 1) * 5 + 10 + 50 + 50 + 10) * MS);
  opgap_summary_free(s);
}
END_TEST

/* The faults of another process, of which there are more, are not those of this one. */
START_TEST(test_page_faults)
{
  unsigned stream = fake_stream(p, OPGAP_STREAM_PROCESS);
  unsigned q = fake_process(200, 100, "python train.py"), other = fake_thread(q, 200, "python");
  fake_op(q, other, 0, 1000, 2000, "aten::stack", 0, 0);
  fake_record(q, other,
              (struct opgap_record){.event = OPGAP_EV_FAULTS,
                                    .status = OPGAP_EV_OP,
                                    .start_ns = 2 * MS,
                                    .end_ns = 2 * MS,
                                    .field = {1000000, 0}});
  for (uint64_t i = 0; i <= STEPS; i++) {
    uint64_t at = (100 + 100 * i) * MS;
    fake_op(p, t, 0, at / US - 50000, at / US, "aten::copy_", 0, 0);
    fake_record(p, t,
                (struct opgap_record){
                    .event = OPGAP_EV_FAULTS, .status = OPGAP_EV_OP, .start_ns = at, .end_ns = at, .field = {3000, 0}});
    fake_record(p, t,
                (struct opgap_record){.event = OPGAP_EV_FAULTS, .start_ns = at, .end_ns = at, .field = {2000, 0}});
    fake_step(p, t, at / US);
    fake_record(p, stream,
                (struct opgap_record){.event = OPGAP_EV_MEMORY,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .field = {1 << 20, 5000 * i, 0, 40 * MS * i, 60 * MS * i}});
  }
  struct opgap_summary *s = fake_analyse(NULL);
  assert_first(s, "page_faults");
  ck_assert_uint_eq(bottleneck(s, "page_faults")->ns, s->verdict.step_ns / 10 * 6);
  ck_assert_uint_eq(bottleneck(s, "page_faults")->at_most_ns, s->verdict.step_ns);
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "page_faults")->text, "~60.0 % of the CPU time"));
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "page_faults")->text, "~50000 page faults a second"));
  ck_assert_ptr_nonnull(strstr(bottleneck(s, "page_faults")->text, "; ~60 % of the faults in aten::copy_"));
  opgap_summary_free(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("why");
  TCase *tests = new_case("why");
  tcase_add_checked_fixture(tests, setup, NULL);
  tcase_add_test(tests, test_sleep_is_bounded_by_itself);
  tcase_add_test(tests, test_python_between_ops);
  tcase_add_test(tests, test_small_ops);
  tcase_add_test(tests, test_sleep_and_files_of_another_thread);
  tcase_add_test(tests, test_main_threads_of_two_programs);
  tcase_add_test(tests, test_lock_bound_without_samples);
  tcase_add_test(tests, test_lock_bound_holds_what_others_ran);
  tcase_add_test(tests, test_lock_bound_outside_of_samples);
  tcase_add_test(tests, test_short_sleeps);
  tcase_add_test(tests, test_child_bound_holds_fork_and_copies);
  tcase_add_test(tests, test_sleep_over_two_steps);
  tcase_add_test(tests, test_calls_of_a_signal_handler);
  tcase_add_test(tests, test_fetch_over_two_steps);
  tcase_add_test(tests, test_write_waits_for_the_reader);
  tcase_add_test(tests, test_write_to_who_waits);
  tcase_add_test(tests, test_ends_of_a_pair);
  tcase_add_test(tests, test_spinning_thread);
  tcase_add_test(tests, test_poll_beside_a_child_that_starts);
  tcase_add_test(tests, test_write_waits_for_a_program_to_begin);
  tcase_add_test(tests, test_barrier_waits_for_the_last);
  tcase_add_test(tests, test_tails_are_of_their_own_waits);
  tcase_add_test(tests, test_communication_bound);
  tcase_add_test(tests, test_gpu_bound_holds_waits_for_a_cpu);
  tcase_add_test(tests, test_sleep_inside_an_op);
  tcase_add_test(tests, test_files_read_or_written);
  tcase_add_test(tests, test_files_opened_or_looked_up);
  tcase_add_test(tests, test_files_renamed);
  tcase_add_test(tests, test_gpu_bound_is_no_more_than_idle_and_host_time);
  tcase_add_test(tests, test_gpu_waits_for_writing);
  tcase_add_test(tests, test_end_of_an_epoch_is_no_batch);
  tcase_add_test(tests, test_epoch_that_is_broken_off);
  tcase_add_test(tests, test_fork_server_is_no_worker);
  tcase_add_test(tests, test_slow_read);
  tcase_add_test(tests, test_slow_to_open);
  tcase_add_test(tests, test_slow_network);
  tcase_add_test(tests, test_decode_in_child_processes);
  tcase_add_test(tests, test_too_few_workers);
  tcase_add_test(tests, test_slow_decode);
  tcase_add_test(tests, test_workers_that_are_made_again);
  tcase_add_test(tests, test_worker_sleep);
  tcase_add_test(tests, test_worker_that_asks_again_and_again);
  tcase_add_test(tests, test_dataset_lock);
  tcase_add_test(tests, test_dataset_lock_on_a_busy_machine);
  tcase_add_test(tests, test_slow_worker);
  tcase_add_test(tests, test_worker_restart);
  tcase_add_test(tests, test_two_loaders_one_after_the_other);
  tcase_add_test(tests, test_large_dataset_by_pickle);
  tcase_add_test(tests, test_workers_in_some_steps);
  tcase_add_test(tests, test_workers_not_recorded);
  tcase_add_test(tests, test_worker_recorded_late);
  tcase_add_test(tests, test_worker_follows_a_schedule);
  tcase_add_test(tests, test_worker_without_a_cpu_in_a_window);
  tcase_add_test(tests, test_worker_recorded_for_a_while);
  tcase_add_test(tests, test_worker_not_recorded);
  tcase_add_test(tests, test_no_workers);
  tcase_add_test(tests, test_no_workers_on_a_busy_machine);
  tcase_add_test(tests, test_no_workers_and_a_dataset_that_sleeps);
  tcase_add_test(tests, test_no_workers_and_a_dataset_that_hardly_sleeps);
  tcase_add_test(tests, test_no_workers_and_a_dataset_in_files);
  tcase_add_test(tests, test_oversubscription_by_needed_work);
  tcase_add_test(tests, test_oversubscription_with_a_team);
  tcase_add_test(tests, test_slow_decode_on_a_busy_machine);
  tcase_add_test(tests, test_no_cpu_while_idle);
  tcase_add_test(tests, test_remedies_are_told_once);
  tcase_add_test(tests, test_no_workers_names_the_file_of_its_batches);
  tcase_add_test(tests, test_share_bound_and_steps);
  tcase_add_test(tests, test_ready_batches);
  tcase_add_test(tests, test_pin_memory_thread);
  tcase_add_test(tests, test_two_loaders_one_that_pins);
  tcase_add_test(tests, test_pin_memory_thread_seen_late);
  tcase_add_test(tests, test_long_next_is_one_gap);
  tcase_add_test(tests, test_steps_by_period);
  tcase_add_test(tests, test_no_period);
  tcase_add_test(tests, test_children_of_a_range_that_ended_elsewhere);
  tcase_add_test(tests, test_growth_of_live_bytes);
  tcase_add_test(tests, test_no_growth);
  tcase_add_test(tests, test_files_before_other_waits);
  tcase_add_test(tests, test_gil_in_steps);
  tcase_add_test(tests, test_collectives_in_steps);
  tcase_add_test(tests, test_wake_up);
  tcase_add_test(tests, test_run_queue);
  tcase_add_test(tests, test_steps_between_two_samples);
  tcase_add_test(tests, test_steps_beside_samples_far_apart);
  tcase_add_test(tests, test_ops_without_a_cpu);
  tcase_add_test(tests, test_mostly_start_up);
  tcase_add_test(tests, test_oversubscription);
  tcase_add_test(tests, test_others_have_the_cpus);
  tcase_add_test(tests, test_oversubscription_by_a_team);
  tcase_add_test(tests, test_team_beside_other_programs);
  tcase_add_test(tests, test_team_imbalance);
  tcase_add_test(tests, test_cgroup_limit);
  tcase_add_test(tests, test_no_more_workers_than_cpus);
  tcase_add_test(tests, test_cpus_for_ops);
  tcase_add_test(tests, test_compiled);
  tcase_add_test(tests, test_blocked_outside_hooks);
  tcase_add_test(tests, test_late_run_queue);
  tcase_add_test(tests, test_few_faults);
  tcase_add_test(tests, test_mapped_file);
  tcase_add_test(tests, test_blocked_in_hooks_is_not_outside);
  tcase_add_test(tests, test_page_faults);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
