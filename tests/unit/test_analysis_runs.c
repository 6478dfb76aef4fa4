/* A run as the gate compares it, from a trace: each metric of each step, each row's own part, the figures of the run.
 */
#include <check.h>
#include <string.h>

#include "analysis/baseline.h"
#include "fake_source.h"
#include "suite.h"

#define US 1000u
#define STEPS 26u /* the first is warm-up */

static unsigned p, main_thread, other_thread, gpu, calls_made;

static void setup(void)
{
  fake_reset();
  calls_made = 0;
  p = fake_process(100, 1, "python train.py");
  main_thread = fake_thread(p, 100, "python");
  other_thread = fake_thread(p, 101, "loader");
  gpu = fake_stream(p, OPGAP_STREAM_GPU);
}

/* The last of each four lasts three times as long as the others, and is no typical one. */
static uint64_t step_start(unsigned i)
{
  return 10000 + 1000 * (uint64_t)(i + 2 * (i / 4));
}

/* A CUDA call that CUPTI reported, and, 2 ms later, in another step, what it started. */
static void gpu_call(const char *name, uint32_t thread, uint64_t at_us, unsigned work, uint64_t kind, uint64_t bytes)
{
  struct opgap_record call = {.event = OPGAP_EV_GPU_API,
                              .status = ++calls_made,
                              .start_ns = at_us * US,
                              .end_ns = (at_us + 5) * US,
                              .field = {fake_name(p, name), thread}};
  fake_record(p, gpu, call);
  if (work == 0)
    return;
  struct opgap_record done = {.event = (uint16_t)work,
                              .status = calls_made,
                              .start_ns = (at_us + 2000) * US,
                              .end_ns = (at_us + 2007) * US,
                              .field = {work == OPGAP_EV_KERNEL ? fake_name(p, "gemm") : bytes, 0, 0, 0, kind}};
  fake_record(p, gpu, done);
}

static void make_step(unsigned i)
{
  uint64_t at = step_start(i);
  fake_op(p, other_thread, 0, at + 50, at + 150, "aten::cat", 1, 10);
  fake_file_call(p, other_thread, 0, FAKE_READ, at + 160, at + 190, "/d/x", 1000);
  fake_file_call(p, main_thread, 2, FAKE_WRITE, at + 210, at + 220, "/d/y", 32);
  fake_op(p, main_thread, 1, at + 200, at + 300, "aten::mm", 2, 200);
  fake_file_call(p, main_thread, 1, FAKE_READ, at + 310, at + 330, "/d/x", 64);
  fake_call(p, main_thread, 1, FAKE_READ, at + 340, at + 345, fake_name(p, "/d/x"), 7, 5); /* fails */
  fake_op(p, main_thread, 0, at + 100, at + 500, "aten::linear", 5, 500);
  fake_file_call(p, main_thread, 0, FAKE_OPEN, at + 600, at + 610, "/d/x", 3);
  fake_file_call(p, main_thread, 0, FAKE_POLL, at + 620, at + 720, "socket:[5]", 1);
  fake_file_call(p, other_thread, 0, FAKE_POLL, at + 620, at + 720, "socket:[6]", 1);
  fake_op(p, main_thread, 0, at + 730, at + 780, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 0);
  fake_call(p, main_thread, 0, FAKE_CUDA_MALLOC, at + 800, at + 810, 0, 4096, 0);
  fake_call(p, main_thread, 0, FAKE_CUDA_SYNC, at + 820, at + 840, 0, 0, 0);
  fake_range(p, main_thread, 0, at + 850, at + 860, i % 2 ? "ProfilerStep#1" : "ProfilerStep#2");
  gpu_call("cudaLaunchKernel", 100, at + 250, OPGAP_EV_KERNEL, 0, 0);
  gpu_call("cudaMemcpyAsync", 100, at + 400, OPGAP_EV_GPU_MEMCPY, 1, 111);
  gpu_call("cudaMemcpyAsync", 100, at + 410, OPGAP_EV_GPU_MEMCPY, 2, 222);
  gpu_call("cudaMemcpyAsync", 100, at + 900, OPGAP_EV_GPU_MEMCPY, 8, 888);
  gpu_call("cudaStreamSynchronize", 100, at + 910, 0, 0, 0);
  gpu_call("cudaLaunchHostFunc", 100, at + 920, 0, 0, 0);
  fake_step(p, main_thread, step_start(i + 1));
}

static struct opgap_summary *summary;
static struct opgap_runs *runs;

static void read_run(void)
{
  char error[256] = "";
  struct opgap_source source = fake_source();
  summary = fake_analyse(NULL);
  runs = opgap_runs_new();
  ck_assert_msg(opgap_runs_add_trace(runs, &source, summary, error, sizeof error), "%s", error);
}

static void forget(void)
{
  opgap_runs_free(runs);
  opgap_summary_free(summary);
}

static const struct opgap_row *row(const char *kind, const char *name)
{
  for (size_t i = 0; i < runs->row_count; i++)
    if (strcmp(runs->rows[i].kind, kind) == 0 && strcmp(runs->rows[i].name, name) == 0)
      return &runs->rows[i];
  return NULL;
}

/* Each step of a run has the same. */
static const struct {
  enum opgap_metric metric;
  uint64_t value;
} each_step[] = {
    {OPGAP_METRIC_DATA_WAIT, 50 * US},
    {OPGAP_METRIC_BLOCKED, (10 + 20 + 5 + 10 + 100 + 20) * US}, /* of the main thread */
    {OPGAP_METRIC_FILE_TIME, (30 + 10 + 20 + 5 + 10) * US},
    {OPGAP_METRIC_OPS, 5},
    {OPGAP_METRIC_LAUNCHES, 1},
    {OPGAP_METRIC_KERNELS, 1},
    {OPGAP_METRIC_SYNCS, 2},
    {OPGAP_METRIC_GPU_COPIES, 3},
    {OPGAP_METRIC_GPU_COPY_BYTES, 111 + 222 + 888},
    {OPGAP_METRIC_H2D_BYTES, 111},
    {OPGAP_METRIC_D2H_BYTES, 222},
    {OPGAP_METRIC_D2D_BYTES, 888},
    {OPGAP_METRIC_GPU_ALLOCATIONS, 1},
    {OPGAP_METRIC_ALLOCATIONS, 5 + 1},
    {OPGAP_METRIC_ALLOC_BYTES, 500 + 10},
    {OPGAP_METRIC_OPENS, 1},
    {OPGAP_METRIC_READS, 3},
    {OPGAP_METRIC_READ_BYTES, 1000 + 64},
    {OPGAP_METRIC_WRITES, 1},
    {OPGAP_METRIC_WRITTEN_BYTES, 32},
};

static void make_run(void)
{
  setup();
  for (unsigned i = 0; i < STEPS; i++)
    make_step(i);
}

#define KEPT (STEPS - 1u)
#define TYPICAL 19u

START_TEST(test_metrics_of_steps)
{
  make_run();
  read_run();
  const struct opgap_run *run = &runs->runs[0];
  ck_assert_uint_eq(run->steps_found, STEPS);
  ck_assert_uint_eq(run->skipped, 1);
  ck_assert_uint_eq(run->steps, KEPT);
  ck_assert_uint_eq(run->typical_steps, TYPICAL);
  for (unsigned i = 0; i < KEPT; i++) {
    unsigned works = 0; /* that the device ended in this step */
    uint64_t start = step_start(i + 1), end = step_start(i + 2);
    for (unsigned from = 0; from < STEPS; from++)
      works += step_start(from) + 2257 > start && step_start(from) + 2257 <= end;
    ck_assert_uint_eq(run->samples[OPGAP_METRIC_STEP][i], (end - start) * US);
    ck_assert_uint_eq(run->samples[OPGAP_METRIC_GPU_BUSY][i], works * 4u * 7 * US);
    for (size_t m = 0; m < sizeof each_step / sizeof *each_step; m++)
      ck_assert_msg(run->samples[each_step[m].metric][i] == each_step[m].value, "step %u: %s is %lu, not %lu", i,
                    opgap_metric_info(each_step[m].metric)->name, run->samples[each_step[m].metric][i],
                    each_step[m].value);
  }
  forget();
}
END_TEST

/* A step's part of a row, by metric. */
struct part {
  enum opgap_metric metric;
  uint64_t a_step;
};
static const struct {
  const char *kind, *name;
  uint64_t calls;
  struct part parts[9];
} each_row[] = {
    {"op",
     "aten::mm",
     1,
     {{OPGAP_METRIC_STEP, 100 * US},
      {OPGAP_METRIC_BLOCKED, 10 * US},
      {OPGAP_METRIC_OPS, 1},
      {OPGAP_METRIC_LAUNCHES, 1},
      {OPGAP_METRIC_KERNELS, 1},
      {OPGAP_METRIC_ALLOCATIONS, 2},
      {OPGAP_METRIC_ALLOC_BYTES, 200},
      {OPGAP_METRIC_WRITES, 1},
      {OPGAP_METRIC_WRITTEN_BYTES, 32}}},
    {"op",
     "aten::linear",
     1,
     {{OPGAP_METRIC_STEP, 300 * US},
      {OPGAP_METRIC_BLOCKED, 25 * US},
      {OPGAP_METRIC_OPS, 1},
      {OPGAP_METRIC_GPU_COPIES, 2},
      {OPGAP_METRIC_GPU_COPY_BYTES, 333},
      {OPGAP_METRIC_ALLOCATIONS, 3},
      {OPGAP_METRIC_ALLOC_BYTES, 300},
      {OPGAP_METRIC_READS, 2},
      {OPGAP_METRIC_READ_BYTES, 64}}},
    {"op",
     "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
     1,
     {{OPGAP_METRIC_STEP, 50 * US}, {OPGAP_METRIC_DATA_WAIT, 50 * US}, {OPGAP_METRIC_OPS, 1}}},
    {"op",
     "aten::cat",
     1,
     {{OPGAP_METRIC_STEP, 100 * US}, {OPGAP_METRIC_ALLOCATIONS, 1}, {OPGAP_METRIC_ALLOC_BYTES, 10}}},
    {"range", "ProfilerStep*", 1, {{OPGAP_METRIC_STEP, 10 * US}, {OPGAP_METRIC_OPS, 1}}},
    {"file",
     "/d/x",
     4,
     {{OPGAP_METRIC_FILE_TIME, 65 * US},
      {OPGAP_METRIC_OPENS, 1},
      {OPGAP_METRIC_READS, 3},
      {OPGAP_METRIC_READ_BYTES, 1064}}},
    {"file",
     "/d/y",
     1,
     {{OPGAP_METRIC_FILE_TIME, 10 * US}, {OPGAP_METRIC_WRITES, 1}, {OPGAP_METRIC_WRITTEN_BYTES, 32}}},
    {"code",
     "outside ops",
     0,
     {{OPGAP_METRIC_STEP, (1000 - 100 - 300 - 50 - 10) * US},
      {OPGAP_METRIC_BLOCKED, 130 * US},
      {OPGAP_METRIC_SYNCS, 2},
      {OPGAP_METRIC_GPU_COPY_BYTES, 888},
      {OPGAP_METRIC_D2D_BYTES, 888},
      {OPGAP_METRIC_GPU_ALLOCATIONS, 1},
      {OPGAP_METRIC_OPENS, 1},
      {OPGAP_METRIC_READS, 1},
      {OPGAP_METRIC_READ_BYTES, 1000}}},
    {"kernel", "gemm", 1, {{OPGAP_METRIC_KERNELS, 1}}},
    {"copy",
     "Memcpy HtoD",
     1,
     {{OPGAP_METRIC_GPU_COPIES, 1}, {OPGAP_METRIC_GPU_COPY_BYTES, 111}, {OPGAP_METRIC_H2D_BYTES, 111}}},
    {"copy", "Memcpy DtoH", 1, {{OPGAP_METRIC_D2H_BYTES, 222}}},
    {"copy", "Memcpy DtoD", 1, {{OPGAP_METRIC_D2D_BYTES, 888}}},
};
#define ROWS (sizeof each_row / sizeof *each_row)

/* Of so many runs. */
static void check_rows(unsigned count)
{
  ck_assert_uint_eq(runs->row_count, ROWS);
  for (size_t i = 0; i < ROWS; i++) {
    const struct opgap_row *found = row(each_row[i].kind, each_row[i].name);
    ck_assert_msg(found != NULL, "no row %s %s", each_row[i].kind, each_row[i].name);
    ck_assert_uint_eq(found->calls, each_row[i].calls * KEPT * count);
    for (const struct part *part = each_row[i].parts; part < each_row[i].parts + 9 && part->a_step > 0; part++) {
      bool time = opgap_metric_info(part->metric)->unit == OPGAP_UNIT_NS;
      ck_assert_msg(found->sum[part->metric] == part->a_step * (time ? TYPICAL : KEPT) * count, "%s: %s is %lu",
                    found->name, opgap_metric_info(part->metric)->name, found->sum[part->metric]);
    }
  }
  /* the device's time: of the works that ended in typical steps, six of those of each kind */
  ck_assert_uint_eq(row("kernel", "gemm")->sum[OPGAP_METRIC_GPU_BUSY], 6 * 7 * US * count);
  ck_assert_uint_eq(row("copy", "Memcpy DtoD")->sum[OPGAP_METRIC_GPU_BUSY], 6 * 7 * US * count);
}

START_TEST(test_rows_and_repeats)
{
  char error[256] = "";
  make_run();
  read_run();
  check_rows(1);
  struct opgap_source source = fake_source();
  ck_assert(opgap_runs_add_trace(runs, &source, summary, error, sizeof error));
  check_rows(2);
  ck_assert_uint_eq(runs->run_count, 2);
  ck_assert_uint_eq(runs->steps, 2 * KEPT);
  ck_assert_uint_eq(runs->typical_steps, 2 * TYPICAL);
  runs->command = "python other.py";
  ck_assert(!opgap_runs_add_trace(runs, &source, summary, error, sizeof error));
  ck_assert_str_eq(error,
                   "fake.opgap: not a repeat: its command is \"python train.py\", the first run's \"python other.py\"");
  ck_assert_uint_eq(runs->run_count, 2);
  forget();
}
END_TEST

START_TEST(test_figures_of_a_run)
{
  static const struct {
    const char *name;
    enum opgap_unit unit;
    double value;
  } totals[] = {{"run.allocations", OPGAP_UNIT_COUNT, 0},   {"run.alloc_bytes", OPGAP_UNIT_BYTES, 0},
                {"run.copies", OPGAP_UNIT_COUNT, 0},        {"run.copy_bytes", OPGAP_UNIT_BYTES, 0},
                {"run.reads", OPGAP_UNIT_COUNT, 3 * STEPS}, {"run.read_bytes", OPGAP_UNIT_BYTES, 1064 * STEPS},
                {"run.writes", OPGAP_UNIT_COUNT, STEPS},    {"run.written_bytes", OPGAP_UNIT_BYTES, 32 * STEPS}};
  make_run();
  read_run();
  const struct opgap_run *run = &runs->runs[0];
  double gaps = 0;
  for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
    const struct opgap_figure *figure = opgap_run_figure(run, totals[i].name);
    ck_assert_msg(figure != NULL, "%s", totals[i].name);
    ck_assert_int_eq(figure->unit, totals[i].unit);
    ck_assert(figure->counter);
    ck_assert_msg(figure->value == totals[i].value, "%s: %g", figure->name, figure->value);
  }
  const struct opgap_figure *duration = opgap_run_figure(run, "duration");
  ck_assert(duration->value == (double)summary->duration_ns && !duration->counter);
  ck_assert_ptr_null(opgap_run_figure(run, "peak_rss")); /* no sample tells */
  for (size_t i = 0; i < run->figure_count; i++) {
    ck_assert_msg(opgap_figure_exists(run->figures[i].name), "%s", run->figures[i].name);
    if (strncmp(run->figures[i].name, "gpu_idle.", 9) == 0)
      gaps += run->figures[i].value;
  }
  ck_assert_double_eq_tol(opgap_run_figure(run, "gpu_idle")->value, (double)summary->gaps.gpu_ns / STEPS, 0.01);
  ck_assert_double_eq_tol(gaps, opgap_run_figure(run, "gpu_idle")->value, 0.01);
  ck_assert(opgap_run_figure(run, "thread_idle")->value == 0);
  ck_assert(opgap_run_figure(run, "breakdown.kernel")->value ==
            (double)summary->breakdown.class_ns[OPGAP_CLASS_KERNEL] / (double)summary->breakdown.steps);
  ck_assert(!opgap_run_figure(run, "breakdown.kernel")->counter);
  forget();
}
END_TEST

START_TEST(test_names_of_figures)
{
  static const char *const none[] = {
      "",        "run",       "run.read",           "breakdown", "breakdown.lock", "breakdow.kernel", "gpu_idle.kernel",
      "gpu_idl", "gpu_idle.", "gpu_held_down.lock", "idle.lock"};
  static const char *const some[] = {"peak_rss",      "gpu_idle",         "thread_idle",  "thread_idle.lock",
                                     "gpu_idle.lock", "breakdown.kernel", "gpu_held_down"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    ck_assert_msg(!opgap_figure_exists(none[i]), "%s", none[i]);
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    ck_assert_msg(opgap_figure_exists(some[i]), "%s", some[i]);
  size_t listed = 0;
  for (; opgap_figure_listed(listed) != NULL; listed++)
    ck_assert(opgap_figure_exists(opgap_figure_listed(listed)));
  ck_assert_uint_eq(listed, 11);
  ck_assert_str_eq(opgap_figure_idle("gpu_idle.lock"), "gpu_idle");
  ck_assert_ptr_null(opgap_figure_idle("breakdown.kernel"));
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    ck_assert_int_eq(opgap_metric_find(opgap_metric_info((enum opgap_metric)m)->name), m);
  ck_assert_int_eq(opgap_metric_find("steps"), OPGAP_METRIC_COUNT);
}
END_TEST

/* What ends with a step belongs to it, what began before it has no time or allocations of its own there; a kernel that
 * nobody is known to have asked for belongs to the step in which it ended. */
START_TEST(test_edges_of_steps)
{
  setup();
  for (unsigned i = 0; i < 10; i++) {
    uint64_t at = 10000 + 1000 * i;
    if (i == 4)
      fake_op(p, main_thread, 0, at - 400, at + 100, "spans", 7, 70);
    if (i == 5)
      fake_op(p, main_thread, 0, at, at + 1000, "fills", 3, 30);
    if (i == 6)
      fake_record(p, gpu,
                  (struct opgap_record){.event = OPGAP_EV_KERNEL,
                                        .status = 77,
                                        .start_ns = (at + 990) * US,
                                        .end_ns = (at + 1000) * US,
                                        .field = {fake_name(p, "alone")}});
    fake_step(p, main_thread, at + 1000);
  }
  read_run();
  const struct opgap_run *run = &runs->runs[0];
  ck_assert_uint_eq(run->skipped, 1);
  for (unsigned i = 0; i < run->steps; i++) {
    ck_assert_uint_eq(run->samples[OPGAP_METRIC_OPS][i], i + 1 == 4 || i + 1 == 5);
    ck_assert_uint_eq(run->samples[OPGAP_METRIC_ALLOCATIONS][i], i + 1 == 5 ? 3 : 0);
    ck_assert_uint_eq(run->samples[OPGAP_METRIC_KERNELS][i], i + 1 == 6);
    ck_assert_uint_eq(run->samples[OPGAP_METRIC_GPU_BUSY][i], i + 1 == 6 ? 10 * US : 0);
  }
  ck_assert_uint_eq(row("op", "spans")->calls, 1);
  ck_assert_uint_eq(row("op", "spans")->sum[OPGAP_METRIC_STEP], 0);
  ck_assert_uint_eq(row("op", "spans")->sum[OPGAP_METRIC_ALLOC_BYTES], 0);
  ck_assert_uint_eq(row("op", "fills")->sum[OPGAP_METRIC_STEP], 1000 * US);
  ck_assert_uint_eq(row("code", "outside ops")->sum[OPGAP_METRIC_STEP], (run->steps - 1) * 1000 * US);
  ck_assert_uint_eq(row("kernel", "alone")->calls, 1);
  forget();
}
END_TEST

/* What nothing in the trace can tell is unknown, and the rest is known to be 0. */
START_TEST(test_unknown_metrics)
{
  setup();
  fake_info(p)->stream_count = 1; /* no GPU */
  for (unsigned i = 0; i < 6; i++) {
    fake_file_call(p, main_thread, 0, FAKE_READ, 10100 + 1000 * i, 10110 + 1000 * i, "/d/x", 8);
    fake_step(p, main_thread, 11000 + 1000 * i);
  }
  read_run();
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++) {
    bool known = m == OPGAP_METRIC_STEP || m == OPGAP_METRIC_BLOCKED || m == OPGAP_METRIC_FILE_TIME ||
                 (m >= OPGAP_METRIC_OPENS && m <= OPGAP_METRIC_WRITTEN_BYTES);
    ck_assert_msg((runs->runs[0].samples[m] != NULL) == known, "%s", opgap_metric_info((enum opgap_metric)m)->name);
  }
  ck_assert_uint_eq(runs->runs[0].samples[OPGAP_METRIC_READS][0], 1);
  ck_assert_uint_eq(runs->runs[0].samples[OPGAP_METRIC_WRITES][0], 0);
  ck_assert_ptr_null(opgap_runs_info(runs, "gpu")); /* nobody looked for one */
  ck_assert_ptr_null(opgap_runs_info(runs, "gpu_driver"));
  forget();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("analysis_runs");
  TCase *tests = new_case("runs");
  tcase_add_test(tests, test_metrics_of_steps);
  tcase_add_test(tests, test_rows_and_repeats);
  tcase_add_test(tests, test_figures_of_a_run);
  tcase_add_test(tests, test_names_of_figures);
  tcase_add_test(tests, test_edges_of_steps);
  tcase_add_test(tests, test_unknown_metrics);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
