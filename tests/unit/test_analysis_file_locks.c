/* Locks on files: who had one, and what a thread that tries again and again waits for. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "fake_source.h"
#include "suite.h"

#define US 1000ull
#define LOCK "/c/x.lock"
#define TAKES 2u /* LOCK_EX */
#define SHARES 1u
#define TRIES 6u
#define LETS_GO 8u
#define AGAIN 11u /* EAGAIN */

static unsigned p, t, q, u; /* who waits, and who has the lock */

static void setup(void)
{
  fake_reset();
  p = fake_process(100, 1, "python train.py");
  t = fake_thread(p, 100, "python");
  q = fake_process(101, 1, "python train.py");
  u = fake_thread(q, 101, "python");
}

static void lock_call(unsigned process, unsigned thread, uint64_t start_us, uint64_t end_us, uint64_t operation,
                      uint32_t status)
{
  fake_call(process, thread, 0, FAKE_FLOCK, start_us, end_us, fake_name(process, LOCK), operation, status);
}

static uint64_t causes_ns(const struct opgap_sum_cause *causes, size_t count, enum opgap_cause cause,
                          const char *detail)
{
  uint64_t ns = 0;
  for (size_t i = 0; i < count; i++)
    if (causes[i].cause == cause && strcmp(causes[i].detail, detail) == 0)
      ns += causes[i].ns;
  return ns;
}

/* Of all gaps; details go without the names of files. */
static uint64_t sum_ns(const struct opgap_summary *s, enum opgap_cause cause, const char *detail)
{
  return causes_ns(s->gaps.thread_by_cause, s->gaps.thread_cause_count, cause, detail);
}

/* Of the gaps of who waits. */
static uint64_t gap_ns(const struct opgap_summary *s, enum opgap_cause cause, const char *detail)
{
  uint64_t ns = 0;
  for (size_t i = 0; i < s->gaps.thread_listed; i++)
    if (s->gaps.threads[i].pid == 100)
      ns += causes_ns(s->gaps.threads[i].causes, s->gaps.threads[i].cause_count, cause, detail);
  return ns;
}

static const struct opgap_sum_thread *thread_of(const struct opgap_summary *s, int32_t pid)
{
  for (size_t i = 0; i < s->thread_count; i++)
    if (s->threads[i].pid == pid)
      return &s->threads[i];
  ck_abort_msg("no thread of %d", pid);
}

/* The holder reads for 3 of the 7 ms until it lets the lock go, which ends 1 ms before the wait: by a call, by closing
 * the file, or by its end; or nobody was seen to have it. */
START_TEST(test_who_had_the_lock)
{
  enum { UNLOCKS, CLOSES, ENDS, UNSEEN, ELSEWHERE, CASES };
  for (int how = 0; how < CASES; how++) {
    setup();
    if (how == ELSEWHERE)
      fake_info(q)->boot_id = "another";
    if (how != UNSEEN)
      lock_call(q, u, 100, 110, TAKES, 0);
    fake_file_call(q, u, 0, FAKE_READ, 2000, 5000, "/c/x", 10);
    if (how == UNLOCKS || how == ELSEWHERE)
      lock_call(q, u, 8000, 8001, LETS_GO, 0);
    if (how == CLOSES)
      fake_file_call(q, u, 0, FAKE_CLOSE, 8000, 8001, LOCK, 0);
    if (how == ENDS)
      fake_info(q)->end_ns = 8000 * US;
    lock_call(p, t, 1000, 9000, TAKES, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    bool seen = how != UNSEEN && how != ELSEWHERE;
    ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", held by program (python): reading /c/x"),
                      seen ? 3000 * US : 0);
    ck_assert_uint_eq(
        gap_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", held by program (python): own code after calls on /c/x"),
        seen ? 4000 * US : 0);
    ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_RUN_QUEUE, "woken, not yet running (no free CPU, or its lock still held)"),
                      seen ? 1000 * US : 0);
    ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", who held it was not seen"),
                      seen ? 0 : 8000 * US);
    ck_assert_uint_eq(sum_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", held by program (python): own code, no call"),
                      seen ? 4000 * US : 0);
    ck_assert_uint_eq(s->lock_count, 1);
    ck_assert_str_eq(s->locks[0].symbol, LOCK);
    ck_assert_uint_eq(s->locks[0].object, 0);
    ck_assert_str_eq(s->locks[0].call, "flock");
    ck_assert_uint_eq(s->locks[0].waits, 1);
    ck_assert_uint_eq(s->locks[0].wait_ns, 8000 * US);
    ck_assert_uint_eq(s->locks[0].longest_ns, 8000 * US);
    ck_assert_str_eq(s->locks[0].held_by, seen ? "program (pid 101), thread 101 (python)" : "");
    ck_assert_uint_eq(thread_of(s, 100)->lock_ns, 8000 * US);
    ck_assert_uint_eq(thread_of(s, 100)->file_ns, 0);
    for (size_t i = 0; i < s->file_count; i++)
      ck_assert_str_ne(s->files[i].operation, "other");
    opgap_summary_free(s);
  }
}
END_TEST

/* One process has it up to 4 ms, another one, which waited, too, from then on: each has its part of the wait. */
START_TEST(test_one_holder_after_the_other)
{
  setup();
  unsigned r = fake_process(102, 1, "python other.py"), v = fake_thread(r, 102, "python");
  lock_call(q, u, 100, 110, TAKES, 0);
  lock_call(q, u, 4000, 4001, LETS_GO, 0);
  lock_call(r, v, 500, 4010, TAKES, 0);
  lock_call(r, v, 8000, 8001, LETS_GO, 0);
  lock_call(p, t, 1000, 9000, TAKES, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  /* both are called so */
  ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", held by program (python): own code, no call"),
                    (3000 + 3990) * US);
  ck_assert_str_eq(s->locks[0].held_by, "program (pid 102), thread 102 (python)");
  ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_RUN_QUEUE, "woken, not yet running (no free CPU, or its lock still held)"),
                    1010 * US);
  opgap_summary_free(s);
}
END_TEST

/* A thread that is waited for waits for two of them, one after the other, of one holder: each is told. */
START_TEST(test_two_locks_in_one_wait)
{
  static const char *const files[] = {"/c/a.lock", "/c/b.lock"};
  setup();
  unsigned other = fake_thread(p, 102, "other");
  for (uint64_t i = 0; i < 2; i++) {
    uint64_t from = 1000 + 4000 * i, until = 4000 + 4000 * i;
    fake_call(q, u, 0, FAKE_FLOCK, from - 500, from - 490, fake_name(q, files[i]), TAKES, 0);
    fake_call(q, u, 0, FAKE_FLOCK, until, until + 1, fake_name(q, files[i]), LETS_GO, 0);
    fake_call(p, other, 0, FAKE_FLOCK, from, until + 10, fake_name(p, files[i]), TAKES, 0);
  }
  fake_call(p, other, 0, FAKE_SEM_POST, 9000, 9000, 0x5e, 0, 0);
  fake_call(p, t, 0, FAKE_SEM_WAIT, 1000, 9010, 0x5e, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  for (size_t i = 0; i < 2; i++) {
    char held[128];
    snprintf(held, sizeof held, "the lock on %s, held by program (python): own code, no call", files[i]);
    ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_LOCK, held), 3000 * US);
    ck_assert_uint_eq(sum_ns(s, OPGAP_CAUSE_LOCK, held), 3000 * US);
  }
  opgap_summary_free(s);
}
END_TEST

/* The holder is in one call for longer than gaps wait to be explained, and lets the lock go afterwards, or ends in it:
 * each pause is explained by that call, not by code of its own. */
START_TEST(test_holder_in_a_long_call)
{
  for (int ends = 0; ends < 2; ends++) {
    setup();
    unsigned pauses = 40, spread = 50000;
    lock_call(q, u, 100, 110, TAKES, 0);
    fake_file_call(q, u, 0, FAKE_READ, 500, 600, "/c/x", 10); /* what it did before is not what it does */
    for (uint64_t i = 0; i < pauses; i++) {
      lock_call(p, t, 1000 + spread * i, 1001 + spread * i, TRIES, AGAIN);
      fake_call(p, t, 0, FAKE_SLEEP, 1010 + spread * i, 1000 + spread * (i + 1), 0, 0, 0);
    }
    uint64_t over = 1000 + (uint64_t)spread * pauses;
    if (ends) {
      fake_record(q, u,
                  (struct opgap_record){.event = OPGAP_EV_OPEN_CALL,
                                        .start_ns = 700 * US,
                                        .end_ns = (over - 5) * US,
                                        .field = {FAKE_READ, fake_name(q, "/d/large")}});
      fake_info(q)->end_ns = (over - 5) * US;
    } else {
      fake_file_call(q, u, 0, FAKE_READ, 700, over - 10, "/d/large", 10);
      lock_call(q, u, over - 5, over - 4, LETS_GO, 0);
    }
    lock_call(p, t, over, over + 1, TRIES, 0);
    fake_file_call(p, t, 0, FAKE_READ, over + 400000, over + 400001, "/c/x", 10);
    struct opgap_summary *s = fake_analyse(NULL);
    uint64_t reads = 0, all = 0;
    for (size_t i = 0; i < s->gaps.thread_cause_count; i++) {
      const struct opgap_sum_cause *cause = &s->gaps.thread_by_cause[i];
      bool waits = strstr(cause->detail, "the lock on " LOCK) != NULL || cause->cause == OPGAP_CAUSE_RUN_QUEUE;
      all += waits ? cause->ns : 0;
      reads += strstr(cause->detail, "held by program (python): reading files") != NULL ? cause->ns : 0;
    }
    ck_assert_uint_eq(all, pauses * (spread - 10) * US);
    ck_assert_uint_eq(reads, all - (ends ? 5 : 10) * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* As filelock does it: open, LOCK_NB, close, sleep.  The pauses are waits for the lock, while the holder has it and up
 * to the next try; the pause of a thread that does not try again is a sleep. */
START_TEST(test_tries_with_pauses)
{
  for (int again = 0; again < 2; again++) {
    setup();
    lock_call(q, u, 100, 110, TAKES, 0);
    lock_call(q, u, 60000, 60001, LETS_GO, 0);
    for (uint64_t i = 0; i < 2; i++) {
      lock_call(p, t, 1000 + 50000 * i, 1001 + 50000 * i, TRIES, AGAIN);
      fake_file_call(p, t, 0, FAKE_CLOSE, 1002 + 50000 * i, 1003 + 50000 * i, LOCK, 0);
      fake_call(p, t, 0, FAKE_SLEEP, 1010 + 50000 * i, 50990 + 50000 * i, 0, 0, 0);
    }
    if (again)
      lock_call(p, t, 101000, 101001, TRIES, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    /* up to 60 ms, but for 20 us between the pauses; the second one is a wait only when a third try follows */
    uint64_t first = 49980 * US, second = again ? 49980 * US : 0;
    ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", held by program (python): own code, no call"),
                      first + (again ? (60000 - 51010) * US : 0));
    ck_assert_uint_eq(
        gap_ns(s, OPGAP_CAUSE_LOCK, "the lock on " LOCK ", which nobody was seen to hold until the next try"),
        again ? (100990 - 60000) * US : 0);
    ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_SLEEP, "nanosleep"), again ? 0 : 49980 * US);
    ck_assert_uint_eq(s->lock_count, 1);
    ck_assert_str_eq(s->locks[0].symbol, LOCK);
    ck_assert_uint_eq(s->locks[0].waits, 1);
    ck_assert_uint_eq(s->locks[0].wait_ns, first + second);
    ck_assert_uint_eq(s->locks[0].longest_ns, first + second);
    ck_assert_str_eq(s->locks[0].held_by, "program (pid 101), thread 101 (python)");
    uint64_t tries = (again ? 3 : 2) * US;
    ck_assert_uint_eq(thread_of(s, 100)->lock_ns, first + second + tries);
    ck_assert_uint_eq(thread_of(s, 100)->sleep_ns, again ? 0 : 49980 * US);
    opgap_summary_free(s);
  }
}
END_TEST

/* A lock that was free is no row, however long the call took while nobody had it, up to a gap; nor one that others
 * share.  What a try or an unlock takes is no wait for it. */
START_TEST(test_free_locks)
{
  setup();
  lock_call(q, u, 100, 110, SHARES, 0);
  lock_call(p, t, 1000, 1900, SHARES, 0);
  lock_call(q, u, 2000, 2001, LETS_GO, 0);
  lock_call(p, t, 2100, 2101, LETS_GO, 0);
  lock_call(p, t, 3000, 3900, TAKES, 0);
  lock_call(p, t, 4000, 6000, LETS_GO, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->lock_count, 0);
  ck_assert_uint_eq(gap_ns(s, OPGAP_CAUSE_FILE_IO, "other calls on " LOCK), 2000 * US);
  opgap_summary_free(s);
}
END_TEST

/* In the steps: the verdict has the path, and who had the lock. */
START_TEST(test_verdict_names_the_file)
{
  setup();
  fake_setting(p, "cores", "2");
  for (uint64_t i = 0; i < 20; i++) {
    uint64_t at = 1000 + 10000 * i;
    fake_op(p, t, 0, at, at + 2000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    lock_call(q, u, at + 100, at + 110, TAKES, 0);
    lock_call(q, u, at + 9000, at + 9001, LETS_GO, 0);
    lock_call(p, t, at + 2100, at + 9100, TAKES, 0);
    lock_call(p, t, at + 9200, at + 9201, LETS_GO, 0);
    fake_user_op(p, t, 0, at + 9300, at + 9800, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  const struct opgap_sum_verdict *v = &s->verdict;
  ck_assert_uint_gt(v->bottleneck_count, 0);
  ck_assert_str_eq(v->bottlenecks[0].kind, "lock");
  ck_assert_uint_eq(v->bottlenecks[0].ns, 19 * 6900 * US);
  ck_assert_str_eq(v->bottlenecks[0].text, "The main thread waits for a lock for 69.0 % of step time; most of it for "
                                           "the lock on " LOCK ", held by other (pid 101), thread 101 (python)");
  ck_assert_uint_gt(v->remedy_count, 0);
  ck_assert_str_eq(v->remedies[0], v->bottlenecks[0].remedy);
  bool told = false;
  for (size_t i = 0; i < v->evidence_count; i++)
    told = told || strstr(v->evidence[i], "most of it (69.0 %): lock on " LOCK ".") != NULL;
  ck_assert(told);
  opgap_summary_free(s);
}
END_TEST

/* No file is named where the main thread waits for longer for a lock in memory. */
START_TEST(test_verdict_names_no_file)
{
  setup();
  for (uint64_t i = 0; i < 20; i++) {
    uint64_t at = 1000 + 10000 * i;
    fake_op(p, t, 0, at, at + 2000, "autograd::engine::evaluate_function: AddBackward0", 0, 0);
    lock_call(q, u, at + 100, at + 110, TAKES, 0);
    lock_call(q, u, at + 5000, at + 5001, LETS_GO, 0);
    lock_call(p, t, at + 2100, at + 5010, TAKES, 0);
    lock_call(p, t, at + 5020, at + 5021, LETS_GO, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, at + 5100, at + 9100, 0xabc, 0, 0);
    fake_user_op(p, t, 0, at + 9300, at + 9800, "Optimizer.step#SGD.step");
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_str_eq(s->verdict.bottlenecks[0].kind, "lock");
  ck_assert_str_eq(s->verdict.bottlenecks[0].text, "The main thread waits for a lock for 69.0 % of step time");
  opgap_summary_free(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("locks on files");
  TCase *tests = new_case("locks on files");
  tcase_add_test(tests, test_who_had_the_lock);
  tcase_add_test(tests, test_one_holder_after_the_other);
  tcase_add_test(tests, test_two_locks_in_one_wait);
  tcase_add_test(tests, test_holder_in_a_long_call);
  tcase_add_test(tests, test_tries_with_pauses);
  tcase_add_test(tests, test_free_locks);
  tcase_add_test(tests, test_verdict_names_the_file);
  tcase_add_test(tests, test_verdict_names_no_file);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
