/* Ranks: who waits for whom at collectives, why, and what collectives say about the clocks of hosts. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ranks.h"
#include "fake_source.h"
#include "output/sections.h"
#include "suite.h"

#define STEPS 10u
#define COUNTED (STEPS - 1) /* the first step is warm-up */
#define STEP_US 10000u

static unsigned rank_process(int rank, const char *boot_id)
{
  unsigned p = fake_process(100 + rank, 1, "python train.py");
  fake_thread(p, 100 + rank, "python");
  fake_thread(p, 200 + rank, "pt_gloo_runloop");
  fake_info(p)->rank = rank;
  fake_info(p)->boot_id = boot_id;
  fake_info(p)->host = boot_id;
  return p;
}

/* Steps of 10 ms: `sleep_us` of sleep, an all-reduce from `arrival_us` to `end_us`, a mark at the end. */
static void train(unsigned p, uint64_t clock_us, uint64_t sleep_us, uint64_t arrival_us, uint64_t end_us)
{
  for (uint64_t i = 0; i < STEPS; i++) {
    uint64_t at = clock_us + i * STEP_US;
    if (sleep_us > 0)
      fake_call(p, 0, 0, FAKE_SLEEP, at + 100, at + 100 + sleep_us, 0, 0, 0);
    fake_range(p, 1, 0, at + arrival_us, at + end_us, "gloo:all_reduce");
    fake_step(p, 0, at + STEP_US);
  }
}

static struct opgap_summary *analyse(void)
{
  return fake_analyse(&(struct opgap_analysis_options){0});
}

START_TEST(test_waits_and_straggler)
{
  fake_reset();
  train(rank_process(0, "a"), 1000, 0, 2000, 9000);
  train(rank_process(1, "a"), 1000, 4000, 8000, 9000);
  train(rank_process(2, "a"), 1000, 0, 3000, 9000);
  struct opgap_summary *s = analyse();
  const struct opgap_sum_ranks *r = &s->ranks;
  ck_assert_uint_eq(r->count, 3);
  ck_assert_uint_eq(r->collectives, COUNTED);
  ck_assert_uint_eq(r->unmatched, 0);
  const uint64_t waits[3] = {6000, 0, 5000}, inside[3] = {7000, 1000, 6000};
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(r->rows[i].rank, i);
    ck_assert_uint_eq(r->rows[i].waited_ns, waits[i] * 1000 * COUNTED);
    ck_assert_uint_eq(r->rows[i].collective_ns, inside[i] * 1000 * COUNTED);
    ck_assert_uint_eq(r->rows[i].last, i == 1 ? COUNTED : 0);
    ck_assert_uint_eq(r->rows[i].caused_ns, i == 1 ? 11000 * 1000 * COUNTED : 0);
    ck_assert_uint_eq(r->rows[i].step_median_ns, STEP_US * 1000);
    ck_assert_int_eq(r->rows[i].clock_offset_ns, 0);
    ck_assert_uint_eq(r->rows[i].clock_error_ns, 0);
  }
  ck_assert_uint_eq(r->straggler, 1);
  ck_assert_str_eq(r->straggler_part, "sleep");
  ck_assert_uint_eq(r->straggler_extra_ns, 4000000);
  ck_assert_ptr_nonnull(strstr(r->straggler_detail, "nanosleep"));
  opgap_summary_free(s);
}
END_TEST

/* A program that gives ranks by itself, without RANK in its environment: which process has which is not known, and the
 * sentences name processes. */
START_TEST(test_straggler_of_unknown_rank)
{
  char text[512];
  fake_reset();
  unsigned early = rank_process(0, "a"), late = rank_process(1, "a");
  fake_info(late)->rank = fake_info(early)->rank = -1;
  train(late, 1000, 1000, 8000, 9900);
  train(early, 1000, 0, 1000, 9900);
  struct opgap_summary *s = analyse();
  section_straggler(text, sizeof text, &s->ranks);
  ck_assert_str_eq(text, "pid 101 came last to 9 of 9 collectives; the others waited 63.000ms for it; a step of it has "
                         "1.000ms more of: sleep (nanosleep)");
  s->verdict.bound_by = OPGAP_BOUND_COMMUNICATION; /* here the main thread waits for no collective */
  opgap_verdict_straggler(s);
  ck_assert_str_eq(s->verdict.remedies[0],
                   "Make pid 101 as fast as the others (it is late by 1.000 ms a step: sleep).");
  ck_assert_ptr_nonnull(strstr(s->verdict.evidence[0], "; pid 101 is the last in 9 of 9"));
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_no_straggler_when_they_take_turns)
{
  fake_reset();
  unsigned a = rank_process(0, "a"), b = rank_process(1, "a");
  for (uint64_t i = 0; i < STEPS; i++) {
    uint64_t at = 1000 + i * STEP_US, early = at + 2000, late = at + 6000, end = at + 7000;
    fake_range(a, 1, 0, i % 2 ? early : late, end, "gloo:all_reduce");
    fake_range(b, 1, 0, i % 2 ? late : early, end, "gloo:all_reduce");
  }
  struct opgap_summary *s = analyse();
  ck_assert_uint_eq(s->ranks.count, 2);
  ck_assert_uint_eq(s->ranks.straggler, SIZE_MAX);
  for (int i = 0; i < 2; i++)
    ck_assert_uint_eq(s->ranks.rows[i].last, STEPS / 2);
  opgap_summary_free(s);
}
END_TEST

/* Host b's clock is 300 us ahead of host a's.  One rank comes last by 100 us, then the other by 200 us; all leave 50 us
 * after the last arrival.  Then d <= end on b - start on a = 300 + 50, when a is last, and d >= start on b - end on a =
 * 300 - 50, when b is last: 300 +- 50. */
START_TEST(test_clocks_of_hosts)
{
  fake_reset();
  unsigned a = rank_process(0, "a"), b = rank_process(1, "b");
  for (uint64_t i = 0; i < STEPS; i++) {
    uint64_t at = 1000 + i * STEP_US, a_starts = i % 2 ? at + 1000 : at + 1100,
             b_starts = i % 2 ? at + 1200 : at + 1000;
    uint64_t end = (a_starts > b_starts ? a_starts : b_starts) + 50;
    fake_range(a, 1, 0, a_starts, end, "gloo:all_reduce");
    fake_range(b, 1, 0, b_starts + 300, end + 300, "gloo:all_reduce");
  }
  struct opgap_summary *s = analyse();
  const struct opgap_sum_rank *row = &s->ranks.rows[1];
  ck_assert_int_eq(row->clock_offset_ns, 300000);
  ck_assert_uint_eq(row->clock_error_ns, 50000);
  ck_assert_uint_eq(s->ranks.collectives, STEPS);
  ck_assert_uint_eq(row->waited_ns, 100000 * (STEPS / 2));
  ck_assert_uint_eq(s->ranks.rows[0].waited_ns, 200000 * (STEPS / 2));
  opgap_summary_free(s);
}
END_TEST

/* Two groups of two ranks each run all-reduces of their own: nothing may be matched over all four. */
START_TEST(test_groups_do_not_match)
{
  fake_reset();
  for (int rank = 0; rank < 4; rank++) {
    unsigned p = rank_process(rank, "a");
    for (uint64_t i = 0; i < STEPS; i++) {
      uint64_t at = 1000 + i * STEP_US + (rank < 2 ? 0 : STEP_US / 2);
      fake_range(p, 1, 0, at, at + 1000, "gloo:all_reduce");
    }
  }
  struct opgap_summary *s = analyse();
  ck_assert_uint_eq(s->ranks.count, 4);
  ck_assert_uint_eq(s->ranks.collectives, 0);
  ck_assert_uint_eq(s->ranks.unmatched, STEPS);
  ck_assert_uint_eq(s->ranks.straggler, SIZE_MAX);
  opgap_summary_free(s);
}
END_TEST

/* One rank starts half a second late: the first collective takes long, but nobody is slow. */
START_TEST(test_start_is_left_out)
{
  fake_reset();
  unsigned a = rank_process(0, "a"), b = rank_process(1, "a");
  fake_range(a, 1, 0, 1000, 501000, "gloo:all_gather");
  fake_range(b, 1, 0, 500000, 501000, "gloo:all_gather");
  train(a, 510000, 2000, 5000, 9000);
  train(b, 510000, 0, 2000, 9000);
  struct opgap_summary *s = analyse();
  ck_assert_uint_eq(s->ranks.collectives, COUNTED);
  ck_assert_uint_eq(s->ranks.straggler, 0);
  ck_assert_uint_eq(s->ranks.rows[1].waited_ns, 3000 * 1000 * COUNTED);
  ck_assert_uint_eq(s->ranks.rows[0].waited_ns, 0);
  opgap_summary_free(s);
}
END_TEST

/* A broadcast's sender leaves before the others come: it says nothing about waiting or clocks. */
START_TEST(test_broadcast_is_left_out)
{
  fake_reset();
  unsigned a = rank_process(0, "a"), b = rank_process(1, "a");
  fake_range(a, 1, 0, 1000, 1100, "gloo:broadcast");
  fake_range(b, 1, 0, 5000, 5100, "gloo:broadcast");
  train(a, 10000, 0, 2000, 9000);
  train(b, 10000, 0, 2000, 9000);
  struct opgap_summary *s = analyse();
  ck_assert_uint_eq(s->ranks.collectives, COUNTED);
  ck_assert_uint_eq(s->ranks.unmatched, 0);
  ck_assert_uint_eq(s->ranks.rows[0].waited_ns + s->ranks.rows[1].waited_ns, 0);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_one_rank_is_no_table)
{
  fake_reset();
  train(rank_process(0, "a"), 1000, 0, 2000, 9000);
  struct opgap_summary *s = analyse();
  ck_assert_uint_eq(s->ranks.count, 1);
  ck_assert_uint_eq(s->ranks.straggler, SIZE_MAX);
  opgap_summary_free(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("ranks");
  TCase *cases = new_case("ranks");
  tcase_add_test(cases, test_waits_and_straggler);
  tcase_add_test(cases, test_straggler_of_unknown_rank);
  tcase_add_test(cases, test_no_straggler_when_they_take_turns);
  tcase_add_test(cases, test_clocks_of_hosts);
  tcase_add_test(cases, test_groups_do_not_match);
  tcase_add_test(cases, test_start_is_left_out);
  tcase_add_test(cases, test_broadcast_is_left_out);
  tcase_add_test(cases, test_one_rank_is_no_table);
  suite_add_tcase(suite, cases);
  return run_suite(suite);
}
