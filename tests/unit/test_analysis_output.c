/* What is printed: tables that fit, names with any bytes, JSON and CSV that parse. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fake_source.h"
#include "output/output.h"
#include "output/table.h"
#include "suite.h"

static void setup(void)
{
  fake_reset();
}

static void assert_clean(const char *bytes, const char *expected)
{
  char *clean = text_clean(bytes);
  ck_assert_str_eq(clean, expected);
  free(clean);
}

START_TEST(test_clean)
{
  assert_clean("plain", "plain");
  assert_clean("tab\there\x1b[31m", "tab\\x09here\\x1b[31m");
  assert_clean("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80");
  assert_clean("\xff\xc3(\xe4\xb8", "\\xff\\xc3(\\xe4\\xb8");
  assert_clean("\xc0\xaf\xed\xa0\x80", "\\xc0\\xaf\\xed\\xa0\\x80"); /* overlong, surrogate */
  assert_clean("\xc2\x9b", "\\xc2\\x9b");                            /* CSI in 8 bits */
  assert_clean("a\xe2\x80\xae"
               "gpj.exe",
               "a\\xe2\\x80\\xaegpj.exe"); /* U+202E: from right to left */
  assert_clean("\xe2\x80\x8b|\xe2\x80\x8a|\xe2\x80\x90", "\\xe2\\x80\\x8b|\xe2\x80\x8a|\xe2\x80\x90"); /* U+200B */
  assert_clean("\xe2\x81\xa5|\xe2\x81\xa9|\xe2\x81\xb0", "\xe2\x81\xa5|\\xe2\\x81\\xa9|\xe2\x81\xb0"); /* U+2069 */
  assert_clean("\xef\xbb\xbf\xc2\xad\xc2\xae", "\\xef\\xbb\\xbf\\xc2\\xad\xc2\xae");        /* U+FEFF, U+00AD */
  assert_clean("\xf3\xa0\x81\x81\xf0\x9f\x98\x80", "\\xf3\\xa0\\x81\\x81\xf0\x9f\x98\x80"); /* a tag, a face */
}
END_TEST

static void assert_time(uint64_t ns, const char *expected)
{
  char text[32];
  text_time(text, sizeof text, ns);
  ck_assert_str_eq(text, expected);
}

START_TEST(test_units)
{
  char text[32];
  assert_time(0, "0.000us");
  assert_time(999999, "999.999us");
  assert_time(1000000, "1.000ms");
  assert_time(1500000000, "1.500s");
  assert_time(OPGAP_UNKNOWN, "-");
  text_bytes(text, sizeof text, 1023);
  ck_assert_str_eq(text, "1023 B");
  text_bytes(text, sizeof text, 1536 * 1024);
  ck_assert_str_eq(text, "1.50 MB");
}
END_TEST

static const struct table_column columns[] = {{"Name", true, 28, 0}, {"Little", false, 0, 1}, {"Time", false, 0, 0}};

static char *printed(unsigned width)
{
  struct table table;
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  table_begin(&table, columns, 3);
  table_cell(&table, "a_rather_long_name_of_an_op");
  table_count(&table, 12);
  table_time(&table, 2500, false);
  table_print(&table, width, "", false, file);
  table_end(&table);
  fclose(file);
  return text;
}

START_TEST(test_table_widths)
{
  char *text = printed(0);
  ck_assert_str_eq(text, "Name                         Little     Time\n"
                         "--------------------------------------------\n"
                         "a_rather_long_name_of_an_op      12  2.500us\n");
  free(text);
  text = printed(36); /* the name is cut in its middle */
  ck_assert_str_eq(text, "Name                 Little     Time\n"
                         "------------------------------------\n"
                         "a_rather...of_an_op      12  2.500us\n");
  free(text);
  text = printed(26); /* then a column goes */
  ck_assert_str_eq(text, "Name                  Time\n"
                         "--------------------------\n"
                         "a_rathe...f_an_op  2.500us\n");
  free(text);
}
END_TEST

static struct opgap_summary *awkward_summary(void)
{
  unsigned p = fake_process(100, 1, "python \"x\"\n\xff");
  unsigned t = fake_thread(p, 100, "python");
  fake_op(p, t, 0, 1000, 1100, "bad \xff\"name\"\\\n,", 1, 2);
  fake_op(p, t, 0, 1200, 1500, "aten::add", 3, 4);
  fake_file_call(p, t, 0, FAKE_READ, 2000, 4000, "/tmp/\x01 a,b", 10);
  return fake_analyse(NULL);
}

START_TEST(test_json_parses)
{
  struct opgap_summary *s = awkward_summary();
  struct opgap_output_options options = {0};
  char *text = opgap_output_json(s, &options);
  json_error_t error;
  json_t *root = json_loads(text, 0, &error);
  ck_assert_msg(root != NULL, "%s", error.text);
  ck_assert_int_eq(json_integer_value(json_object_get(root, "schema")), 1);
  json_t *ops = json_object_get(root, "hot_ops");
  ck_assert_uint_eq(json_array_size(ops), 3);
  json_t *read = json_array_get(ops, 0), *add = json_array_get(ops, 1), *bad = json_array_get(ops, 2);
  ck_assert_str_eq(json_string_value(json_object_get(read, "kind")), "call");
  ck_assert_str_eq(json_string_value(json_object_get(add, "name")), "aten::add");
  ck_assert_int_eq(json_integer_value(json_object_get(add, "self_cpu_ns")), 300000);
  ck_assert(json_is_null(json_object_get(add, "self_gpu_ns")));
  ck_assert_str_eq(json_string_value(json_object_get(bad, "name")), "bad \\xff\"name\"\\\\x0a,");
  json_t *memory = json_object_get(root, "memory");
  ck_assert(json_is_null(json_object_get(memory, "live_bytes")));
  ck_assert(json_is_null(json_object_get(json_object_get(root, "steps"), "median_ns")));
  json_t *gaps = json_object_get(root, "idle_gaps");
  ck_assert_int_eq(json_integer_value(json_object_get(gaps, "thread_ns")), 2000000);
  json_decref(root);
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_csv_quotes)
{
  struct opgap_summary *s = awkward_summary();
  struct opgap_output_options options = {.limit = 1};
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  opgap_output_csv(s, &options, OPGAP_CSV_FILES, file);
  fclose(file);
  ck_assert_str_eq(text, "path,operation,calls,bytes,time_ns,failed,processes\r\n"
                         "\"/tmp/\\x01 a,b\",read,1,10,2000000,0,1\r\n");
  free(text);
  file = open_memstream(&text, &size);
  options = (struct opgap_output_options){.sort = OPGAP_SORT_NAME};
  opgap_output_csv(s, &options, OPGAP_CSV_OPS, file);
  fclose(file);
  ck_assert_ptr_nonnull(strstr(text, "\r\naten::add,torch,program,1,300000,300000,0,,,3,4,0,\r\n"
                                     "\"bad \\xff\"\"name\"\"\\\\x0a,\",torch,program,1,100000,100000,0,,,1,2,0,\r\n"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

typedef void printer(const struct opgap_summary *, const struct opgap_output_options *, FILE *);

/* Not inlined: gcc 12 takes what is found in its text for a pointer to the variable here. */
static __attribute__((noinline)) char *print_with(printer *print, const struct opgap_summary *s, unsigned width)
{
  struct opgap_output_options options = {.width = width};
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  print(s, &options, file);
  fclose(file);
  return text;
}

static char *printed_csv(const struct opgap_summary *s, enum opgap_csv_table table)
{
  struct opgap_output_options options = {0};
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  opgap_output_csv(s, &options, table, file);
  fclose(file);
  return text;
}

/* A row for each cause, with what ran around the gap. */
START_TEST(test_csv_of_gaps)
{
  struct opgap_sum_cause causes[] = {{OPGAP_CAUSE_DEVICE, "from launch to start", 30, 1},
                                     {OPGAP_CAUSE_PYTHON, "own code, no call", 20, 1}};
  struct opgap_sum_thread_gap thread = {.pid = 9,
                                        .tid = 11,
                                        .start_ns = 1000,
                                        .duration_ns = 50,
                                        .call = "poll",
                                        .op = "aten::item",
                                        .cause_count = 2,
                                        .causes = causes};
  struct opgap_sum_gpu_gap gpu = {.device = 1,
                                  .start_ns = 2000,
                                  .duration_ns = 30,
                                  .previous = "sgemm",
                                  .next = "Memcpy HtoD",
                                  .op_before = "aten::mm",
                                  .op_after = "aten::copy_",
                                  .cause_count = 1,
                                  .causes = causes};
  struct opgap_summary s = {.gaps = {.thread_listed = 1, .gpu_listed = 1, .threads = &thread, .gpus = &gpu}};
  char *text = printed_csv(&s, OPGAP_CSV_GAPS);
  ck_assert_str_eq(
      text, "kind,tid_or_device,start_ns,duration_ns,call,cause,detail,cause_ns,op,previous,op_before,"
            "op_after\r\n"
            "thread,11,1000,50,poll,device dependency or launch latency,from launch to start,30,aten::item,,,\r\n"
            "thread,11,1000,50,poll,code between ops,\"own code, no call\",20,aten::item,,,\r\n"
            "gpu,1,2000,30,Memcpy HtoD,device dependency or launch latency,from launch to "
            "start,30,,sgemm,aten::mm,aten::copy_\r\n");
  free(text);
}
END_TEST

/* An op of `us` us that Python code at `place` called. */
static void op_at(unsigned p, unsigned t, uint64_t start_us, uint64_t us, const char *name, const char *place)
{
  fake_record(p, t,
              (struct opgap_record){.event = OPGAP_EV_OP,
                                    .start_ns = start_us * 1000,
                                    .end_ns = (start_us + us) * 1000,
                                    .field = {fake_name(p, name), 0, 0, 0, 0, fake_name(p, place)}});
}

static const char *location_in_json(json_t *root, const char *name)
{
  size_t i;
  json_t *op;
  json_array_foreach(json_object_get(root, "hot_ops"), i, op)
  {
    if (strcmp(json_string_value(json_object_get(op, "name")), name) == 0)
      return json_string_value(json_object_get(op, "source_location"));
  }
  ck_abort_msg("no op %s", name);
}

START_TEST(test_source_locations)
{
  unsigned p = fake_process(100, 1, "python");
  unsigned t = fake_thread(p, 100, "python");
  op_at(p, t, 1000, 100, "aten::mm", "a.py:1 one");
  op_at(p, t, 2000, 300, "aten::mm", "b.py:22 two"); /* the longest call, but not the most time */
  op_at(p, t, 3000, 250, "aten::mm", "a.py:1 one");
  op_at(p, t, 4000, 100, "aten::relu", "c.py:3 three");
  op_at(p, t, 5000, 50, "aten::add", "");
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "  # of Calls  Source Location\n"));
  ck_assert_ptr_nonnull(strstr(text, "           3  a.py:1 one +1 more\n"));
  ck_assert_ptr_nonnull(strstr(text, "           1  c.py:3 three\n"));
  free(text);
  text = printed_csv(s, OPGAP_CSV_OPS);
  ck_assert_str_eq(text, "name,kind,role,calls,self_cpu_ns,total_cpu_ns,blocked_ns,self_gpu_ns,total_gpu_ns,"
                         "alloc_count,alloc_bytes,estimated,source_location\r\n"
                         "aten::mm,torch,program,3,650000,650000,0,,,0,0,0,a.py:1 one\r\n"
                         "aten::relu,torch,program,1,100000,100000,0,,,0,0,0,c.py:3 three\r\n"
                         "aten::add,torch,program,1,50000,50000,0,,,0,0,0,\r\n");
  free(text);
  struct opgap_output_options options = {0};
  text = opgap_output_json(s, &options);
  json_t *root = json_loads(text, 0, NULL);
  ck_assert_str_eq(location_in_json(root, "aten::mm"), "a.py:1 one");
  ck_assert_str_eq(location_in_json(root, "aten::relu"), "c.py:3 three");
  ck_assert_ptr_null(location_in_json(root, "aten::add"));
  json_decref(root);
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_no_source_locations)
{
  struct opgap_summary *s = awkward_summary();
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_null(strstr(text, "Source Location"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_text_has_no_control_bytes)
{
  struct opgap_summary *s = awkward_summary();
  struct opgap_output_options options = {0};
  void (*const printers[])(const struct opgap_summary *, const struct opgap_output_options *,
                           FILE *) = {opgap_output_text, opgap_output_markdown};
  for (int i = 0; i < 2; i++) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    printers[i](s, &options, file);
    fclose(file);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
      ck_assert_msg(*at == '\n' || (*at >= 0x20 && *at < 0x7f), "byte %02x", *at);
    ck_assert_ptr_nonnull(strstr(text, "aten::add"));
    ck_assert_ptr_nonnull(strstr(text, "none found"));
    free(text);
  }
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_csv_is_clean)
{
  struct opgap_summary *s = awkward_summary();
  for (int table = 0; table < OPGAP_CSV_COUNT; table++) {
    char *text = printed_csv(s, (enum opgap_csv_table)table);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
      ck_assert_msg(*at == '\n' || *at == '\r' || (*at >= 0x20 && *at < 0x7f), "table %d, byte %02x", table, *at);
    free(text);
  }
  char *text = printed_csv(s, OPGAP_CSV_PROCESSES);
  ck_assert_ptr_nonnull(strstr(text, "\r\nprogram,\"python \"\"x\"\"\\x0a\\xff\",host,clean,100,"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_markdown_lines)
{
  unsigned p = fake_process(100, 1, "python");
  unsigned t = fake_thread(p, 100, "python");
  for (uint64_t i = 0; i < 3; i++)
    fake_call(p, t, 0, FAKE_SLEEP, 1000 + i * 9000, 5000 + i * 9000, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  for (unsigned limit = 1; limit <= 2; limit++) {
    struct opgap_output_options options = {.limit = limit};
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    opgap_output_markdown(s, &options, file);
    fclose(file);
    ck_assert_ptr_null(strstr(text, "\\x0a"));
    ck_assert_ptr_nonnull(strstr(text, "\n3 gaps, 12.000ms in all, by cause:\n\n| Cause | Time | Share |  |\n"
                                       "|:---|---:|---:|:---|\n| sleep | 12.000ms | 100.00% | "));
    ck_assert_ptr_nonnull(strstr(text, limit == 1 ? "|\n\n... and 2 more gaps (--limit 0 shows all)\n"
                                                  : "|\n\n... and 1 more (--limit 0 shows all)\n"));
    free(text);
  }
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_markdown_escapes)
{
  unsigned p = fake_process(100, 1, "python <b>`x` a*b*");
  unsigned t = fake_thread(p, 100, "python");
  fake_op(p, t, 0, 1000, 2000, "<img src=x>|`[a](b)", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_markdown, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "- **command**: python \\<b\\>\\`x\\` a\\*b\\*\n"));
  ck_assert_ptr_nonnull(strstr(text, "\n| \\<img src=x\\>\\|\\`\\[a\\](b) | "));
  free(text);
  opgap_summary_free(s);
}
END_TEST

static void assert_tables_end(const char *text)
{
  for (const char *line = text, *next; (next = strchr(line, '\n')) != NULL; line = next + 1)
    ck_assert_msg(*line != '|' || next[1] == '|' || next[1] == '\n', "after a table: %.40s", next + 1);
}

START_TEST(test_markdown_ends_tables)
{
  unsigned p = fake_process(100, 1, "python");
  unsigned t = fake_thread(p, 100, "python");
  for (uint64_t i = 0; i < 5; i++) { /* warm-up gives the breakdown a sentence after its table */
    fake_op(p, t, 0, 1000 + i * 9000, 2000 + i * 9000, "aten::add", 0, 0);
    fake_step(p, t, 3000 + i * 9000);
    fake_file_call(p, t, 0, FAKE_READ, 4000 + i * 9000, 6000 + i * 9000, "/tmp/file", 10);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_markdown, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "|\n\nSelf CPU time total: 5.000ms\n"));
  ck_assert_ptr_nonnull(strstr(text, "(warm-up)"));
  assert_tables_end(text);
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_output_width)
{
  ck_assert_uint_eq(opgap_output_width(NULL, 100), 100);
  ck_assert_uint_eq(opgap_output_width("", 100), 100);
  ck_assert_uint_eq(opgap_output_width("60", 100), 60);
  ck_assert_uint_eq(opgap_output_width("60", 0), 60); /* a pipe */
  ck_assert_uint_eq(opgap_output_width("0", 100), 100);
  ck_assert_uint_eq(opgap_output_width("-5", 100), 100);
  ck_assert_uint_eq(opgap_output_width("60x", 100), 100);
}
END_TEST

static void assert_lines_fit(const char *text, unsigned width)
{
  for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
    ck_assert_msg((unsigned)(end - line) <= width, "%d columns: %.*s", (int)(end - line), (int)(end - line), line);
}

/* Rows of every table, each as wide as real ones get. */
static struct opgap_summary wide_summary(void)
{
  static struct opgap_sum_op op = {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                                   OPGAP_OP_TORCH,
                                   OPGAP_ROLE_WORKER,
                                   123456789,
                                   123456789012,
                                   123456789012,
                                   123456789012,
                                   123456789012,
                                   123456789012,
                                   123456789,
                                   123456789012,
                                   123456789,
                                   1234567,
                                   false,
                                   "/home/someone/project/models/attention.py:1234 forward",
                                   12};
  static struct opgap_sum_call call = {"pthread_cond_timedwait",
                                       "sync",
                                       OPGAP_ROLE_WORKER,
                                       true,
                                       123456789,
                                       123456789012,
                                       123456,
                                       123456789012,
                                       true,
                                       123456789,
                                       123456789012};
  static struct opgap_sum_cause cause = {OPGAP_CAUSE_DEVICE, "DataLoader worker 12: reading /data/train/images/12.png",
                                         123456789012, 123456};
  static struct opgap_sum_thread_gap gap = {.thread = "pt_data_worker",
                                            .process = "DataLoader worker 12",
                                            .start_ns = 123456789012,
                                            .duration_ns = 123456789012,
                                            .call = "pthread_cond_timedwait",
                                            .op = "enumerate(DataLoader)#_Multi.__next__",
                                            .cause_count = 1,
                                            .causes = &cause};
  static struct opgap_sum_gpu_gap gpu_gap = {.start_ns = 123456789012,
                                             .duration_ns = 123456789012,
                                             .previous = "ampere_sgemm_128x64_tn_of_some_library_kernel",
                                             .next = "ampere_sgemm_128x64_tn_of_some_library_kernel",
                                             .op_before = "aten::linear_of_some_module",
                                             .op_after = "aten::linear_of_some_module",
                                             .cause_count = 1,
                                             .causes = &cause};
  static struct opgap_sum_file file = {"/home/someone/data/imagenet/train/n01440764/n01440764_10026.JPEG",
                                       "write",
                                       123456789,
                                       123456789012,
                                       123456789012,
                                       1234,
                                       128};
  static struct opgap_sum_lock lock = {
      1234567,
      "pthread_rwlock_timedwrlock",
      0x7fffdeadbeef,
      "at::native::(anonymous namespace)::pool_mutex+40 in libtorch_cpu.so",
      123456789,
      123456789012,
      123456789012,
      128,
      "DataLoader worker 12, thread pt_data_pin",
      "96 bytes by thread 1234567 (pt_data_worker_9) in aten::empty, train.py:100 main",
      "/home/someone/project/training/loader.py:1234 Loader.fetch_from_queue"};
  static struct opgap_sum_process process = {
      .pid = 1234567,
      .role = OPGAP_ROLE_WORKER,
      .role_label = "DataLoader worker 123",
      .host = "a-host-with-a-name",
      .command = "python train.py --epochs 100 --batch-size 256 --workers 16 --learning-rate 0.1",
      .threads = 128,
      .end_ns = 12345678901234,
      .ended = "killed",
      .open_call = "pthread_cond_timedwait",
      .open_op = "",
      .kill_safe = true,
      .complete = true,
      .records = 123456789012,
      .lost_records = 123456,
      .rss_bytes = 123456789012};
  static struct opgap_sum_gpu device = {.device = 12,
                                        .name = "NVIDIA H200 NVL 141GB HBM3e in a long name",
                                        .host = "h",
                                        .busy_ns = 123456789012,
                                        .kernel_ns = 123456789012,
                                        .memcpy_ns = 123456789012,
                                        .memset_ns = 123456789012,
                                        .span_ns = 123456789012,
                                        .kernels = 123456789};
  static struct opgap_sum_kernel kernel = {.name = "void at::native::vectorized_elementwise_kernel<4, add>(int)",
                                           .calls = 123456789,
                                           .total_ns = 123456789012,
                                           .min_ns = 123456789012,
                                           .max_ns = 123456789012,
                                           .grid = {65535, 1024, 64},
                                           .block = {1024, 1, 1}};
  static struct opgap_sum_copy copy = {"HtoD", "pageable", "device array", true, 123456789, 123456789012, 123456789012};
  static struct opgap_sum_finding finding = {
      OPGAP_FINDING_MEMCPY_ASYNC, "Optimizer.step#SomeOptimizer.step", "", 123456789, 123456789012, 123456789012};
  static struct opgap_sum_lived lived = {.pid = 1234567,
                                         .tid = 1234567,
                                         .thread = "pt_data_worker_9",
                                         .op = "autograd::engine::evaluate_function: ConvolutionBackward0",
                                         .source_location =
                                             "/usr/lib/python3/dist-packages/torch/optim/adam.py:123 step",
                                         .bytes = 123456789012,
                                         .blocks = 123456789,
                                         .growth_points = 123456,
                                         .growth_bytes = 123456789,
                                         .growth_low = 123456788,
                                         .growth_high = 123456790};
  static const char *last =
      "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad, ended 0.217 ms before";
  static struct opgap_sum_failure failure = {.pid = 1234567,
                                             .tid = 1234567,
                                             .thread = "python",
                                             .process = "trainer rank 1234",
                                             .at_ns = 123456789012,
                                             .call = "posix_memalign",
                                             .bytes = 123456789012,
                                             .error = 12,
                                             .live_bytes = 123456789012,
                                             .rss_bytes = 123456789012,
                                             .op = "aten::empty",
                                             .last_count = 1,
                                             .last = &last};
  return (struct opgap_summary){.path = "trace.opgap",
                                .process_filter = "",
                                .complete = true,
                                .has_gpu = true,
                                .gpu_status = "ok",
                                .memory = {.growth_of = "",
                                           .churn_of = "",
                                           .peak_bytes = 123456789012,
                                           .lived = &lived,
                                           .lived_count = 1,
                                           .failures = &failure,
                                           .failure_count = 1},
                                .window_end_ns = OPGAP_UNKNOWN,
                                .processes = &process,
                                .process_count = 1,
                                .ops = &op,
                                .op_count = 1,
                                .calls = &call,
                                .call_count = 1,
                                .files = &file,
                                .file_count = 1,
                                .locks = &lock,
                                .lock_count = 1,
                                .gpus = &device,
                                .gpu_count = 1,
                                .gpu_tables = {.kernel_count = 1,
                                               .copy_count = 1,
                                               .finding_count = 1,
                                               .kernels = &kernel,
                                               .copies = &copy,
                                               .findings = &finding},
                                .steps = {.source = "none"},
                                .breakdown = {.steps = 3, .class_ns = {123456789012}},
                                .gaps = {.thread_count = 1,
                                         .gpu_count = 1,
                                         .thread_ns = 123456789012,
                                         .gpu_ns = 123456789012,
                                         .thread_listed = 1,
                                         .gpu_listed = 1,
                                         .threads = &gap,
                                         .gpus = &gpu_gap,
                                         .thread_cause_count = 1,
                                         .gpu_cause_count = 1,
                                         .thread_by_cause = &cause,
                                         .gpu_by_cause = &cause}};
}

static void assert_report_fits(const struct opgap_summary *s, unsigned width)
{
  char *text = print_with(opgap_output_text, s, width);
  assert_lines_fit(text, width);
  ck_assert_ptr_nonnull(strstr(text, "  Source Location\n"));
  free(text);
}

START_TEST(test_report_fits_terminals)
{
  struct opgap_summary s = wide_summary();
  for (unsigned width = 60; width <= 200; width++) {
    s.has_gpu = false;
    assert_report_fits(&s, width);
    s.has_gpu = true;
    assert_report_fits(&s, width);
  }
  char *text = print_with(opgap_output_text, &s, 100); /* wide enough for the bars */
  ck_assert_ptr_nonnull(strstr(text, "  GPU kernels   41.152s  100.00%  ########################################\n"));
  free(text);
  text = print_with(opgap_output_text, &s, 60);
  ck_assert_ptr_nonnull(strstr(text, "\n  Part         Per step    Share\n"));
  free(text);
}
END_TEST

START_TEST(test_pin_memory_thread)
{
  struct opgap_summary s = wide_summary();
  struct opgap_sum_worker worker = {.label = "DataLoader worker 0", .source_location = ""};
  s.loader = (struct opgap_sum_loader){
      .worker = &worker, .worker_count = 1, .pin_threads = 1, .pin_batches = 7, .depth = -1, .pinned_depth = -1};
  char *text = print_with(opgap_output_text, &s, 0);
  ck_assert_ptr_nonnull(strstr(text, "7 batches, waited 0.000us for workers, 0.000us in no blocking call\n"));
  free(text);
  s.loader.pinned_depth = 1.5;
  text = print_with(opgap_output_text, &s, 0);
  ck_assert_ptr_nonnull(strstr(text, "in no blocking call; of the ready ones ~1.5 were pinned\n"));
  free(text);
}
END_TEST

START_TEST(test_why_peak_is_unknown)
{
  struct opgap_summary *s = awkward_summary();
  s->memory.peak_bytes = OPGAP_UNKNOWN;
  for (uint64_t allocations = 0; allocations < 2; allocations++) {
    s->memory.allocations = allocations;
    char *text = print_with(opgap_output_text, s, 0);
    ck_assert_int_eq(
        strstr(text,
               "\n  no allocation reached the tracer: none was made, or another allocator was loaded before it\n") !=
            NULL,
        allocations == 0);
    ck_assert_int_eq(strstr(text, "\n  peak and live bytes are not known without OPGAP_ALLOC=events\n") != NULL,
                     allocations > 0);
    free(text);
  }
  opgap_summary_free(s);
}
END_TEST

/* Where records are missing, what lived is no exact figure. */
START_TEST(test_peak_where_records_are_missing)
{
  for (int missing = 0; missing < 3; missing++) {
    struct opgap_summary *s = awkward_summary();
    s->memory.peak_bytes = 2048;
    s->memory.live_bytes = 1024;
    s->complete = missing != 1;
    s->lost_records = missing == 2 ? 868 : 0;
    char *text = print_with(opgap_output_text, s, 0);
    ck_assert_ptr_nonnull(strstr(text, missing == 0   ? "\n  peak 2.00 KB, alive at the end 1.00 KB\n"
                                       : missing == 1 ? "\n  peak ~2.00 KB, alive at the end ~1.00 KB: records are "
                                                        "missing (0 lost), so these do not add up with"
                                                      : "~1.00 KB: records are missing (868 lost), so"));
    free(text);
    opgap_summary_free(s);
  }
}
END_TEST

/* Only what may be the reason is named: the hooks when they are off, the window when there is one. */
START_TEST(test_why_no_allocation_was_seen)
{
  static const struct {
    const char *key, *value, *said;
  } cases[] = {
      {"OPGAP_HOOKS", "io,net", "no allocation reached the tracer: alloc is not in OPGAP_HOOKS"},
      {"OPGAP_HOOKS", "alloc,io",
       "no allocation reached the tracer: none was made, or another allocator was loaded before it"},
      {"OPGAP_DELAY", "2",
       "no allocation was made while it was recorded, or another allocator was loaded before the tracer"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct opgap_summary *s = awkward_summary();
    const char *key = cases[i].key, *value = cases[i].value;
    char line[128];
    s->memory.peak_bytes = OPGAP_UNKNOWN;
    s->memory.allocations = 0;
    s->info_keys = &key;
    s->info_values = &value;
    s->info_count = 1;
    char *text = print_with(opgap_output_text, s, 0);
    snprintf(line, sizeof line, "\n  %s\n", cases[i].said);
    ck_assert_ptr_nonnull(strstr(text, line));
    free(text);
    opgap_summary_free(s);
  }
}
END_TEST

/* Nothing ended by itself, so nothing told of a GPU: where none was used that is no news. */
START_TEST(test_head_without_a_gpu)
{
  for (int used = 0; used < 2; used++) {
    fake_reset();
    unsigned p = fake_process(100, 1, "crash"), t = fake_thread(p, 100, "crash");
    fake_info(p)->ended = OPGAP_ENDED_KILLED;
    if (used)
      fake_call(p, t, 0, FAKE_CUDA_SYNC, 1000, 1010, 0, 0, 0);
    struct opgap_summary *s = fake_analyse(NULL);
    char *text = print_with(opgap_output_text, s, 0);
    ck_assert_int_eq(strstr(text, "\n  GPU        ") != NULL, used);
    ck_assert_int_eq(strstr(text, "\n  Nothing was recorded of this run, so there is nothing to judge.\n") != NULL,
                     !used);
    ck_assert_str_eq(s->gpu_status, used ? "unavailable: no process ended by itself, so none could say"
                                         : "unavailable: no use of CUDA was seen");
    free(text);
    opgap_summary_free(s);
  }
}
END_TEST

/* A wrapper, a command that it ran, and the program that took its place, of which nothing is recorded. */
START_TEST(test_head_counts_launchers)
{
  static const struct {
    int pid;
    enum opgap_ended ended;
    uint64_t start_ns, end_ns;
  } images[] = {{10, OPGAP_ENDED_EXEC, 1000, 2000},
                {11, OPGAP_ENDED_CLEAN, 1100, 1900},
                {12, OPGAP_ENDED_CLEAN, 1100, 1900},
                {10, OPGAP_ENDED_CLEAN, 2000, 9000}};
  for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
    unsigned image = fake_process(images[i].pid, images[i].pid == 10 ? 1 : 10, "sh");
    fake_info(image)->ended = images[i].ended;
    fake_info(image)->start_ns = images[i].start_ns;
    fake_info(image)->end_ns = images[i].end_ns;
  }
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "\n  processes  4 (1 program, 1 launcher, 2 launch helpers), 4 threads\n"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

/* What only waits for other processes comes last, whatever it takes. */
START_TEST(test_calls_that_wait_for_processes)
{
  unsigned p = fake_process(100, 1, "make"), t = fake_thread(p, 100, "make");
  fake_call(p, t, 0, FAKE_WAITPID, 1000, 9000, 0, 101, 0);
  fake_file_call(p, t, 0, FAKE_READ, 9000, 9010, "/d/a", 7);
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_text, s, 0);
  const char *work = strstr(text, "\nHooked calls (time of all threads; ~ estimated from samples)\n");
  ck_assert_ptr_nonnull(work);
  const char *waits = strstr(work, "\nCalls that only waited for other processes (their time is these processes')\n");
  ck_assert_ptr_nonnull(waits);
  ck_assert_ptr_nonnull(strstr(work, "\n  read "));
  ck_assert_ptr_null(strstr(waits, "\n  read "));
  ck_assert_ptr_eq(strstr(work, "\n  waitpid "), strstr(waits, "\n  waitpid "));
  ck_assert_ptr_nonnull(strstr(waits, "\n  waitpid "));
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_workers_and_epochs)
{
  struct opgap_summary *s = awkward_summary();
  struct opgap_sum_worker worker = {
      .label = "DataLoader worker 0", .source_location = "", .network_ns = 3000000, .child_ns = 5000000};
  struct opgap_sum_epoch epoch = {.start_ns = 1500000000,
                                  .workers = 2,
                                  .startup_ns = 7000000,
                                  .first_batch_ns = 11000000,
                                  .first_wait_ns = 9000000,
                                  .fetches = 13,
                                  .await_ns = 17000000};
  s->loader = (struct opgap_sum_loader){
      .worker = &worker, .worker_count = 1, .epochs = &epoch, .epoch_count = 1, .depth = -1, .pinned_depth = -1};
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(strstr(text, " 0.000us  3.000ms   5.000ms  ~0.000us "));
  ck_assert_ptr_nonnull(
      strstr(text, "\n  1.500 s                2   7.000ms     11.000ms        9.000ms       13   17.000ms\n"));
  free(text);
  text = opgap_output_json(s, &(struct opgap_output_options){.limit = 15});
  json_t *root = json_loads(text, 0, NULL), *loader = json_object_get(root, "data_loader");
  json_t *row = json_array_get(json_object_get(loader, "processes"), 0);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "network_ns")), 3000000);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "child_ns")), 5000000);
  row = json_array_get(json_object_get(loader, "epochs"), 0);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "startup_ns")), 7000000);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "first_batch_ns")), 11000000);
  ck_assert_int_eq(json_integer_value(json_object_get(row, "wait_ns")), 17000000);
  json_decref(root);
  free(text);
  opgap_summary_free(s);
}
END_TEST

/* Ranks 0, 1 and 12, so that whole numbers matter, and a helper. */
static void three_ranks(void)
{
  static const int ranks[3] = {0, 1, 12};
  for (unsigned i = 0; i < 3; i++) {
    unsigned p = fake_process(100 + (int)i, 1, "python train.py");
    unsigned t = fake_thread(p, 100 + (int)i, "python");
    fake_info(p)->rank = ranks[i];
    for (uint64_t step = 0; step < 3; step++)
      fake_user_op(p, t, 0, 1000 + step * 1000, 1500 + step * 1000, "Optimizer.step#SGD.step");
  }
  unsigned helper = fake_process(200, 100, "python -c from multiprocessing.resource_tracker import main");
  fake_call(helper, fake_thread(helper, 200, "python"), 0, FAKE_SLEEP, 1000, 5000, 0, 0, 0);
}

static int32_t only_pid(const char *who)
{
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){.process = who});
  ck_assert_msg(s->process_count == 1, "%s: %zu processes", who, s->process_count);
  int32_t pid = s->processes[0].pid;
  opgap_summary_free(s);
  return pid;
}

START_TEST(test_process_by_part_of_role)
{
  three_ranks();
  ck_assert_int_eq(only_pid("rank 1"), 101);
  ck_assert_int_eq(only_pid("RANK 12"), 102);
  ck_assert_int_eq(only_pid("trainer rank 0"), 100);
  ck_assert_int_eq(only_pid("tracker"), 200);
  ck_assert_int_eq(only_pid("102"), 102);
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){.process = "trainer"});
  ck_assert_uint_eq(s->process_count, 3);
  opgap_summary_free(s);
  char error[256] = "";
  struct opgap_source source = fake_source();
  ck_assert_ptr_null(
      opgap_analyse(&source, &(struct opgap_analysis_options){.process = "rank 2"}, error, sizeof error));
  ck_assert_ptr_nonnull(strstr(error, "no process of this trace is \"rank 2\""));
}
END_TEST

START_TEST(test_steps_outside_of_the_schedule)
{
  unsigned p = fake_process(100, 1, "python");
  unsigned t = fake_thread(p, 100, "python");
  fake_setting(p, "OPGAP_SCHEDULE", "wait=5,active=1");
  fake_op(p, t, 0, 1000, 2000, "aten::add", 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "none found in what OPGAP_SCHEDULE let be recorded: see the notice\n"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

static const char *only_line(const char *text, const char *begins, char *line, size_t size)
{
  const char *at = strstr(text, begins);
  ck_assert_ptr_nonnull(at);
  ck_assert_ptr_null(strstr(at + 1, begins));
  snprintf(line, size, "%.*s", (int)strcspn(at, "\n"), at);
  return line;
}

/* Steps of 100 ms: 60 in an op, 8.54 in __next__, 0.06 in a read, 0.003 asleep; the rest is own code.  What is too
 * small for a row, or for the sentence, is in no other part. */
START_TEST(test_parts_of_a_step_are_the_same_everywhere)
{
  unsigned p = fake_process(100, 1, "python");
  unsigned t = fake_thread(p, 100, "python");
  for (uint64_t i = 0; i < 11; i++) {
    uint64_t at = 100000 * i;
    fake_op(p, t, 0, at, at + 60000, "aten::add", 0, 0);
    fake_user_op(p, t, 0, at + 60000, at + 68540, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    fake_file_call(p, t, 0, FAKE_READ, at + 70000, at + 70060, "/data/x", 10);
    fake_call(p, t, 0, FAKE_SLEEP, at + 80000, at + 80003, 0, 0, 0);
    fake_step(p, t, at + 100000);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->breakdown.steps, 10);
  char *text = print_with(opgap_output_text, s, 0), line[256];
  ck_assert_str_eq(only_line(text, "  Other: waiting", line, sizeof line),
                   "  Other: waiting, file I/O  60.000us   0.06%  ");
  ck_assert_str_eq(only_line(text, "  Other: own code", line, sizeof line),
                   "  Other: own code (Python)  31.397ms  31.40%  #############");
  ck_assert_str_eq(s->verdict.evidence[0],
                   "Of the time of 10 steps: 8.5 % DataLoader, 60.0 % framework ops; outside of these 0.1 % file I/O, "
                   "31.4 % other (Python).");
  ck_assert_str_eq(s->verdict.evidence[s->verdict.evidence_count - 1],
                   "Data loading is the next thing to look at: 8.6 % of step time, file I/O included.");
  free(text);
  opgap_summary_free(s);
}
END_TEST

/* Steps of 10 ms: 7 ms of sleep, 2 ms of an op; 1 ms of refilled caches goes with each sleep. */
START_TEST(test_bounds_are_printed)
{
  unsigned p = fake_process(100, 1, "python");
  unsigned t = fake_thread(p, 100, "python");
  for (uint64_t i = 0; i < 10; i++) {
    fake_op(p, t, 0, 1000 + 10000 * i, 3000 + 10000 * i, "aten::add", 0, 0);
    fake_call(p, t, 0, FAKE_SLEEP, 3000 + 10000 * i, 10000 + 10000 * i, 0, 0, 0);
    fake_step(p, t, 11000 + 10000 * i);
  }
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(
      strstr(text, "- sleep (at most 80 % shorter). The main thread sleeps for 70.0 % of step time. "));
  ck_assert_ptr_nonnull(
      strstr(text, "- compute (the work itself). Framework ops take 20.0 % of step time, 2000.0 us each. "));
  ck_assert_ptr_nonnull(strstr(text, "No class of work holds this run back; most of its step time goes to \"sleep\""));
  ck_assert_ptr_nonnull(strstr(text, "Other: waiting, sleep"));
  free(text);
  s->verdict.bottlenecks[0].ns = s->verdict.step_ns / 2 - 1;
  text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(
      strstr(text, "No class of work holds this run back; the largest part of its step time goes to \"sleep\""));
  free(text);
  text = opgap_output_json(s, &(struct opgap_output_options){0});
  json_t *root = json_loads(text, 0, NULL);
  json_t *verdict = json_object_get(root, "verdict");
  json_t *first = json_array_get(json_object_get(verdict, "bottlenecks"), 0);
  ck_assert_str_eq(json_string_value(json_object_get(first, "kind")), "sleep");
  ck_assert_int_eq(json_integer_value(json_object_get(first, "at_most_ns")), 9 * 8000000);
  ck_assert_double_eq_tol(json_real_value(json_object_get(first, "at_most_share")), 0.8, 1e-9);
  ck_assert_int_eq(json_integer_value(json_object_get(verdict, "step_ns")), 9 * 10000000);
  json_t *breakdown = json_object_get(root, "step_breakdown"), *part;
  json_int_t sum = 0;
  size_t index;
  json_array_foreach(json_object_get(breakdown, "other"), index, part)
  {
    sum += json_integer_value(json_object_get(part, "ns"));
  }
  ck_assert_int_eq(sum, json_integer_value(json_object_get(breakdown, "other_ns")));
  json_decref(root);
  free(text);
  opgap_summary_free(s);
}
END_TEST

static char *report_text(const struct opgap_summary *s, size_t limit)
{
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  opgap_output_text(s, &(struct opgap_output_options){.limit = limit}, file);
  fclose(file);
  return text;
}

static size_t count_of(const char *text, const char *part)
{
  size_t count = 0;
  for (; (text = strstr(text, part)) != NULL; text++)
    count++;
  return count;
}

/* Two of five copies were recorded, each with its time; of the others none is known. */
START_TEST(test_time_of_some_calls)
{
  unsigned p = fake_process(100, 1, "copies"), t = fake_thread(p, 100, "main");
  fake_call(p, t, 0, FAKE_FREE, 5000, 9000, 0, 0, 0);
  fake_call(p, t, 0, FAKE_FREE, 10000, 13000, 0, 0, 0);
  fake_counter(p, t, FAKE_FREE, 1000000, 5, 0, 0, 0, 0);
  struct opgap_summary *s = fake_analyse(NULL);
  char *text = report_text(s, 0), line[512];
  ck_assert_ptr_nonnull(strstr(only_line(text, "  free ", line, sizeof line), " 7.000ms of 2 "));
  ck_assert_ptr_nonnull(strstr(line, " 3.500ms "));
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_untraced_beyond_limit)
{
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                      "j", "k", "l", "m", "n", "o", "p", "q"};
  unsigned p = fake_process(100, 1, "make"), t = fake_thread(p, 100, "main");
  for (uint64_t i = 0; i < 17; i++)
    fake_record(p, t,
                (struct opgap_record){.event = OPGAP_EV_CHILD,
                                      .status = 1,
                                      .start_ns = 2000000 + i,
                                      .end_ns = 2000000 + i,
                                      .field = {200 + i, fake_name(p, names[i])}});
  struct opgap_summary *s = fake_analyse(NULL);
  char *some = report_text(s, 15), *all = report_text(s, 0);
  ck_assert_uint_eq(count_of(some, "  untraced   pid "), 15);
  ck_assert_ptr_nonnull(strstr(some, "... and 2 more lines (--limit 0 shows all)"));
  ck_assert_uint_eq(count_of(all, "): no trace"), 17);
  ck_assert_ptr_null(strstr(all, "... and"));
  free(some);
  free(all);
  opgap_summary_free(s);
}
END_TEST

/* One line for each program and reason, with a count; every pid stands in the JSON. */
START_TEST(test_untraced_grouped)
{
  static const char *const not_loaded =
      "no trace of it was written: not loaded there (static, setuid, another environment)";
  unsigned p = fake_process(100, 1, "/usr/bin/bash loop.sh"), t = fake_thread(p, 100, "main");
  for (uint64_t i = 0; i < 21; i++)
    fake_record(p, t,
                (struct opgap_record){.event = OPGAP_EV_CHILD,
                                      .status = i < 18 ? 1 : 3,
                                      .start_ns = 2000000 + i,
                                      .end_ns = 2000000 + i,
                                      .field = {200 + i, fake_name(p, i < 18   ? ""
                                                                      : i < 20 ? "/bin/static"
                                                                               : "/bin/other")}});
  struct opgap_summary *s = fake_analyse(NULL);
  ck_assert_uint_eq(s->untraced_count, 21);
  char *text = report_text(s, 15), *json = opgap_output_json(s, &(struct opgap_output_options){0});
  ck_assert_uint_eq(count_of(text, "  untraced   "), 3);
  static const char *const rest = ", ended at once, or excluded by OPGAP_CHILDREN\n";
  char lines[1000];
  snprintf(
      lines, sizeof lines,
      "  untraced   18 processes (bash), the first pid 200: forked, but no trace of it was written: it ended before "
      "it called anything that is recorded, or is excluded by OPGAP_CHILDREN\n"
      "  untraced   2 processes (/bin/static), the first pid 218: %s%s  untraced   pid 220 (/bin/other): %s%s",
      not_loaded, rest, not_loaded, rest);
  ck_assert_ptr_nonnull(strstr(text, lines));
  json_t *root = json_loads(json, 0, NULL);
  ck_assert_uint_eq(json_array_size(json_object_get(root, "untraced")), 21);
  json_decref(root);
  free(json);
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_view_without_trainer)
{
  three_ranks();
  struct opgap_summary *s = fake_analyse(&(struct opgap_analysis_options){.process = "tracker"});
  char *text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "  steps      are those of the trainer; this view is of resource tracker\n"));
  ck_assert_ptr_nonnull(strstr(text, "  records    10, 0 lost, 0 invalid (of the whole trace)\n"));
  ck_assert_ptr_null(strstr(text, "none found"));
  ck_assert_ptr_null(strstr(text, "No training steps were found"));
  ck_assert_ptr_nonnull(
      strstr(text, "The steps are those of the trainer, which this view leaves out: there is no step time to divide."));
  free(text);
  opgap_summary_free(s);
  s = fake_analyse(NULL);
  text = print_with(opgap_output_text, s, 0);
  ck_assert_ptr_nonnull(strstr(text, "  records    10, 0 lost, 0 invalid\n"));
  ck_assert_ptr_null(strstr(text, "this view is of"));
  free(text);
  opgap_summary_free(s);
}
END_TEST

START_TEST(test_sort_names)
{
  ck_assert_int_eq(opgap_sort_parse("self_cpu_time_total"), OPGAP_SORT_SELF_CPU);
  ck_assert_int_eq(opgap_sort_parse("CPU total"), OPGAP_SORT_TOTAL_CPU);
  ck_assert_int_eq(opgap_sort_parse("calls"), OPGAP_SORT_CALLS);
  ck_assert_int_eq(opgap_sort_parse("colour"), OPGAP_SORT_COUNT);
  struct opgap_sum_op ops[] = {{.name = "b", .calls = 3}, {.name = "a", .calls = 3}, {.name = "c", .calls = 9}};
  opgap_sort_ops(ops, 3, OPGAP_SORT_CALLS);
  ck_assert_str_eq(ops[0].name, "c");
  ck_assert_str_eq(ops[1].name, "a");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("output");
  TCase *tests = new_case("output");
  tcase_add_checked_fixture(tests, setup, NULL);
  tcase_add_test(tests, test_clean);
  tcase_add_test(tests, test_units);
  tcase_add_test(tests, test_table_widths);
  tcase_add_test(tests, test_json_parses);
  tcase_add_test(tests, test_csv_quotes);
  tcase_add_test(tests, test_csv_is_clean);
  tcase_add_test(tests, test_csv_of_gaps);
  tcase_add_test(tests, test_text_has_no_control_bytes);
  tcase_add_test(tests, test_markdown_lines);
  tcase_add_test(tests, test_markdown_escapes);
  tcase_add_test(tests, test_markdown_ends_tables);
  tcase_add_test(tests, test_output_width);
  tcase_add_test(tests, test_report_fits_terminals);
  tcase_add_test(tests, test_pin_memory_thread);
  tcase_add_test(tests, test_head_without_a_gpu);
  tcase_add_test(tests, test_head_counts_launchers);
  tcase_add_test(tests, test_calls_that_wait_for_processes);
  tcase_add_test(tests, test_workers_and_epochs);
  tcase_add_test(tests, test_why_peak_is_unknown);
  tcase_add_test(tests, test_peak_where_records_are_missing);
  tcase_add_test(tests, test_why_no_allocation_was_seen);
  tcase_add_test(tests, test_process_by_part_of_role);
  tcase_add_test(tests, test_steps_outside_of_the_schedule);
  tcase_add_test(tests, test_parts_of_a_step_are_the_same_everywhere);
  tcase_add_test(tests, test_bounds_are_printed);
  tcase_add_test(tests, test_untraced_beyond_limit);
  tcase_add_test(tests, test_time_of_some_calls);
  tcase_add_test(tests, test_untraced_grouped);
  tcase_add_test(tests, test_view_without_trainer);
  tcase_add_test(tests, test_sort_names);
  tcase_add_test(tests, test_source_locations);
  tcase_add_test(tests, test_no_source_locations);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
