/* Charts of text, the use of main threads over time, the window of a followed trace, and what opgap top prints. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "fake_source.h"
#include "output/chart.h"
#include "output/live.h"
#include "output/output.h"
#include "suite.h"

static char *text;
static size_t size;
static FILE *file;

static void setup(void)
{
  fake_reset();
  file = open_memstream(&text, &size);
}

static void teardown(void)
{
  fclose(file);
  free(text);
}

static const char *printed(void)
{
  fflush(file);
  return text;
}

/* ---- charts ---- */

static struct chart example(bool utf8)
{
  return (struct chart){.columns = {{0, 0}, {1, 0}, {50, 0}, {75, 90}, {100, 0}, {-1, 0}, {130, 130}, {0.1, 0}},
                        .count = 8,
                        .lines = 2,
                        .top = 100,
                        .high = "100 %",
                        .low = "0",
                        .first = "a",
                        .last = "b",
                        .utf8 = utf8};
}

START_TEST(test_chart_utf8)
{
  struct chart chart = example(true);
  chart_print(&chart, file);
  ck_assert_str_eq(printed(), "  100 % │   ▄█ ^ \n"
                              "      0 │ ▁███ █▁\n"
                              "        └────────\n"
                              "         a      b\n");
}
END_TEST

START_TEST(test_chart_ascii)
{
  struct chart chart = example(false);
  chart_print(&chart, file);
  ck_assert_str_eq(printed(), "  100 % |   :# ^ \n"
                              "      0 | .### #.\n"
                              "        +--------\n"
                              "         a      b\n");
}
END_TEST

START_TEST(test_chart_marks)
{
  struct chart chart = {.columns = {{10, 90}, {10, 10}, {10, 101}},
                        .count = 3,
                        .lines = 2,
                        .top = 100,
                        .high = "1",
                        .low = "0",
                        .first = "a",
                        .last = "b",
                        .utf8 = true,
                        .colour = true};
  chart_print(&chart, file);
  ck_assert_str_eq(printed(), "  1 │\033[31m·\033[0m \033[31m^\033[0m\n"
                              "  0 │▂▂▂\n"
                              "    └───\n"
                              "     a b\n");
}
END_TEST

START_TEST(test_chart_room)
{
  ck_assert_uint_eq(chart_room(80, 5), 71);
  ck_assert_uint_eq(chart_room(0, 5), 91);
  ck_assert_uint_eq(chart_room(10, 5), 20);
  ck_assert_uint_eq(chart_room(1000, 5), CHART_COLUMNS);
  ck_assert(chart_utf8(NULL, NULL, "en_GB.UTF-8"));
  ck_assert(chart_utf8("", "C.utf8", "C"));
  ck_assert(!chart_utf8("C", "C.UTF-8", "C.UTF-8"));
  ck_assert(!chart_utf8(NULL, NULL, NULL));
}
END_TEST

/* ---- a run of 10 ms: steps of 1 ms, but one of 3 ms in which the main thread reads for 2.4 ms ---- */

static const uint64_t ends[] = {1001, 2001, 3001, 4001, 7001, 8001, 9001, 10001};

static void make_run(void)
{
  unsigned p = fake_process(7, 1, "job");
  fake_thread(p, 7, "main");
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    if (i == 4)
      fake_call(p, 0, 0, FAKE_READ, 4001, 6401, 3, 100, 0);
    fake_range(p, 0, 0, ends[i] - 900, ends[i] - 100, "work");
    fake_step(p, 0, ends[i]);
  }
}

static uint64_t sum(const uint64_t *buckets)
{
  uint64_t all = 0;
  for (size_t i = 0; i < OPGAP_OVER_TIME_BUCKETS; i++)
    all += buckets[i];
  return all;
}

START_TEST(test_use_over_time)
{
  make_run();
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){0});
  const struct opgap_sum_over_time *t = &s->over_time;
  ck_assert_uint_eq(t->start_ns, 0);
  ck_assert_uint_eq(t->bucket_ns, 10000000 / OPGAP_OVER_TIME_BUCKETS + 1);
  ck_assert_uint_eq(t->process_count, 1);
  ck_assert_int_eq(t->processes[0].pid, 7);
  ck_assert_uint_eq(sum(t->processes[0].blocked_ns), 2400000);
  ck_assert_uint_eq(sum(t->processes[0].next_ns), 0);
  ck_assert_uint_eq(t->processes[0].blocked_ns[94], 0);
  ck_assert_uint_eq(t->processes[0].blocked_ns[95], 96 * 41667 - 4000000); /* blocked from 4.0 ms of the trace */
  ck_assert_uint_eq(t->processes[0].blocked_ns[96], 41667);
  ck_assert_uint_eq(t->processes[0].blocked_ns[153], 6400000 - 153 * 41667); /* to 6.4 ms */
  ck_assert_uint_eq(t->processes[0].blocked_ns[154], 0);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_window)
{
  make_run();
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){.from_ns = 6001000});
  const struct opgap_sum_over_time *t = &s->over_time;
  ck_assert_uint_eq(t->start_ns, 6000000);
  ck_assert_uint_eq(t->bucket_ns, 4000000 / OPGAP_OVER_TIME_BUCKETS + 1);
  ck_assert_uint_eq(sum(t->processes[0].blocked_ns), 400000); /* only what lies in the window */
  ck_assert_uint_eq(s->steps.count, 4);
  ck_assert_uint_eq(s->op_count, 2); /* work, read */
  for (size_t i = 0; i < s->op_count; i++)
    ck_assert_uint_eq(s->ops[i].calls, strcmp(s->ops[i].name, "work") == 0 ? 4 : 1);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_report_plot)
{
  make_run();
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){0});
  struct opgap_output_options options = {.width = 49, .plot = true, .utf8 = true};
  opgap_output_text(s, &options, file);
  ck_assert_ptr_nonnull(strstr(printed(), "\nStep times\n"
                                          "  one bar a step (^ above the chart)\n"
                                          "  3.000ms │    █   \n"
                                          "          │    █   \n"
                                          "          │    █   \n"
                                          "          │    █   \n"
                                          "          │    █   \n"
                                          "          │▅▅▅▅█▅▅▅\n"
                                          "          │████████\n"
                                          "        0 │████████\n"
                                          "          └────────\n"
                                          "           step 0 7\n"
                                          "\nUse over time\n"
                                          "  program, main thread not blocked: 76.0 % of its time\n"));
  /* 40 columns of 0.25 ms: the 17th to the 25th are blocked, the 26th for 0.15 ms of it */
  ck_assert_ptr_nonnull(strstr(text, "  100 % │████████████████          ██████████████\n"
                                     "        │████████████████          ██████████████\n"
                                     "        │████████████████         ▅██████████████\n"
                                     "    0 % │████████████████         ███████████████\n"
                                     "        └────────────────────────────────────────\n"
                                     "         0.000 s                          0.010 s\n"));
  opgap_summary_free(s);
}
END_TEST

/* A wrapper (nice, env, a shell) that executes the program in its place has the same pid. */
START_TEST(test_plot_behind_wrapper)
{
  for (int steps = 0; steps < 2; steps++) {
    fake_reset();
    unsigned wrapper = fake_process(7, 1, "nice job");
    fake_thread(wrapper, 7, "nice");
    fake_call(wrapper, 0, 0, FAKE_READ, 1, 501, 3, 100, 0);
    fake_info(wrapper)->ended = OPGAP_ENDED_EXEC;
    fake_info(wrapper)->end_ns = 501000;
    unsigned job = fake_process(7, 1, "job");
    fake_thread(job, 7, "main");
    fake_info(job)->start_ns = 1001000;
    fake_call(job, 0, 0, FAKE_READ, 1501, 2501, 3, 100, 0);
    fake_range(job, 0, 0, 2601, 4901, "work");
    for (uint64_t at = 3001; steps && at <= 5001; at += 1000)
      fake_step(job, 0, at);
    struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){0});
    ck_assert_uint_eq(s->steps.count > 0, steps);
    ck_assert_str_eq(opgap_step_process(s)->command, "job");
    rewind(file);
    opgap_output_text(s, &(struct opgap_output_options){.width = 49, .plot = true}, file);
    fputc('\0', file);
    /* 1 ms of the job's own 4 ms (3.9 ms without the last step), not all of the wrapper's */
    ck_assert_ptr_nonnull(strstr(printed(), steps ? "main thread not blocked: 75.0 % of its time\n"
                                                  : "main thread not blocked: 74.4 % of its time\n"));
    opgap_summary_free(s);
  }
}
END_TEST

START_TEST(test_plot_of_many_steps)
{
  unsigned p = fake_process(7, 1, "job");
  fake_thread(p, 7, "main");
  uint64_t end = 1;
  for (unsigned i = 0; i < 100; i++)
    fake_step(p, 0, end += i == 55 ? 1400 : i == 0 ? 9000 : 1000);
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){0});
  struct opgap_output_options options = {.width = 31, .plot = true};
  opgap_output_text(s, &options, file);
  /* 20 columns of 5 steps; the first step stands out of the chart, the slow one is a mark above its column's median */
  ck_assert_ptr_nonnull(strstr(printed(), "\nStep times\n"
                                          "  bar: median of 5 steps; ' the slowest of them (^ above the chart)\n"
                                          "  1.500ms |^          '        \n"
                                          "          |                    \n"
                                          "          |....................\n"
                                          "          |####################\n"
                                          "          |####################\n"
                                          "          |####################\n"
                                          "          |####################\n"
                                          "        0 |####################\n"
                                          "          +--------------------\n"
                                          "           step 0            99\n"));
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_report_without_plot)
{
  make_run();
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){0});
  struct opgap_output_options options = {0};
  opgap_output_text(s, &options, file);
  ck_assert_ptr_null(strstr(printed(), "Use over time"));
  opgap_summary_free(s);
}
END_TEST

/* ---- opgap top ---- */

START_TEST(test_live)
{
  make_run();
  fake_info(0)->ended = OPGAP_ENDED_RUNNING;
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){.from_ns = 6001000});
  struct opgap_live live = {.interval_ns = 4000000,
                            .running = true,
                            .steps = 4,
                            .all_steps = 8,
                            .median_ns = 1000000,
                            .last_step_ns = 1000000,
                            .since_step_ns = 0,
                            .new_records = 9,
                            .new_lost = 0};
  struct opgap_output_options options = {.limit = 1, .width = 80};
  opgap_output_live(s, &live, &options, file);
  ck_assert_str_eq(printed(), "opgap top  fake.opgap, the last 0.0 s\n"
                              "  job       running, 0.0 s: 1 process running with 1 thread, 0 ended\n"
                              "  steps     1000.00 a second by opgap_step, median 1.000ms; 8 seen\n"
                              "  GPU       no activity\n"
                              "  records   17, 0 lost (new: 9, 0 lost); 0 B on disk\n"
                              "\n"
                              "Hot ops: program\n"
                              "  Name  Self CPU %  Self CPU  CPU total  CPU time avg  Blocked  # of Calls\n"
                              "  ------------------------------------------------------------------------\n"
                              "  work     100.00%   3.200ms    3.200ms     800.000us  0.000us           4\n"
                              "\n"
                              "Processes\n"
                              "  Process  Pid  Blocked  Data wait  Resident  Main thread is in\n"
                              "  -------------------------------------------------------------\n"
                              "  program    7    10.0%       0.0%         -  \n");
  opgap_summary_free(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("plot");
  TCase *tests = new_case("plot");
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_test(tests, test_chart_utf8);
  tcase_add_test(tests, test_chart_ascii);
  tcase_add_test(tests, test_chart_marks);
  tcase_add_test(tests, test_chart_room);
  tcase_add_test(tests, test_use_over_time);
  tcase_add_test(tests, test_window);
  tcase_add_test(tests, test_report_plot);
  tcase_add_test(tests, test_plot_behind_wrapper);
  tcase_add_test(tests, test_plot_of_many_steps);
  tcase_add_test(tests, test_report_without_plot);
  tcase_add_test(tests, test_live);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
