/* Tables of stacks, from records alone: modules that are not there, whose frames are addresses, and Python's frames. */
#include <check.h>
#include <string.h>

#include "analysis/stacks.h"
#include "fake_source.h"
#include "suite.h"

/* As a name: 1, then pairs of what a frame is (0: Python's, 1: in no module, n: module n - 2) and where. */
static const uint8_t in_read[] = {1, 2, 0x81, 2, 3, 0x81, 0x40, 3, 0x81, 0x40, 3, 0x81, 0x60},
                     in_nothing[] = {1, 1, 0x81, 0xa0, 1}, cut[] = {1, 2, 0x81};
static uint8_t in_python[5], in_both[6];

static unsigned p, main_thread;

static void stack(unsigned process, unsigned stream, unsigned depth, unsigned of, const void *bytes, size_t length,
                  uint64_t ns, uint64_t size)
{
  fake_record(process, stream,
              (struct opgap_record){.event = OPGAP_EV_STACK,
                                    .depth = (uint8_t)depth,
                                    .status = of,
                                    .field = {fake_bytes(process, bytes, length), ns, size}});
}

static void module(unsigned process, unsigned stream, unsigned number, const char *path, const char *build_id)
{
  fake_record(process, stream,
              (struct opgap_record){.event = OPGAP_EV_MODULE,
                                    .status = number,
                                    .field = {fake_name(process, path), fake_name(process, build_id)}});
}

static void setup(void)
{
  fake_reset();
  p = fake_process(100, 1, "python train.py");
  main_thread = fake_thread(p, 100, "python");
  unsigned other = fake_thread(p, 101, "other");
  module(p, main_thread, 0, "/none/libx.so", "ab");
  module(p, main_thread, 2, "/none/unused.so", "cd");
  module(p, main_thread, 1, "/none/p;g", "ef");
  uint8_t forward = (uint8_t)(fake_name(p, "a dir/train.py:10 forward") << 1);
  uint8_t outer = (uint8_t)(fake_name(p, "train.py:20 main") << 1);
  memcpy(in_python, (uint8_t[]){1, 0, forward, 0, outer | 1}, sizeof in_python);
  memcpy(in_both, (uint8_t[]){1, 2, 0x81, 2, 0, outer}, sizeof in_both); /* without its end's mark */
  stack(p, main_thread, 2, FAKE_READ, in_read, sizeof in_read, 100, 7);
  fake_op(p, main_thread, 1, 10, 20, "inner", 0, 0);
  stack(p, main_thread, 1, OPGAP_EV_OP, in_python, sizeof in_python, 500, 0); /* 400 without the read */
  fake_op(p, main_thread, 0, 10, 20, "outer", 0, 0);
  stack(p, main_thread, 0, OPGAP_EV_OP, in_both, sizeof in_both, 1000, 0); /* 500 without the inner op */
  stack(p, main_thread, 0, FAKE_WRITE, in_nothing, sizeof in_nothing, 50, 0);
  stack(p, main_thread, 1, FAKE_POLL, in_nothing, sizeof in_nothing, 20, 0);
  fake_op(p, other, 0, 10, 20, "outer", 0, 0); /* on another thread: the poll is not inside it */
  stack(p, other, 0, OPGAP_EV_OP, in_python, sizeof in_python, 5, 0);
  fake_setting(p, "stacks_skipped", "3");
  fake_setting(p, "stacks_failed", "2");
  fake_setting(p, "stacks_ns", "99");
  unsigned second = fake_process(200, 1, "python worker.py"), thread = fake_thread(second, 200, "python");
  module(second, thread, 0, "/none/libx.so", "ab");
  module(second, thread, 1, "/none/p;g", "01");
  stack(second, thread, 0, FAKE_READ, in_read, sizeof in_read, 1000, 1);
  stack(second, thread, 0, FAKE_READ, cut, sizeof cut, 3, 0);
}

static void check_table(enum opgap_stack_by by, int process, const struct opgap_stack_row *rows, size_t count)
{
  struct opgap_source source = fake_source();
  struct opgap_stack_table *table = opgap_stack_table_read(&source, by, process);
  ck_assert_uint_eq(table->row_count, count);
  for (size_t i = 0; i < count; i++) {
    ck_assert_str_eq(table->rows[i].text, rows[i].text);
    ck_assert_uint_eq(table->rows[i].self_ns, rows[i].self_ns);
    ck_assert_uint_eq(table->rows[i].total_ns, rows[i].total_ns);
    ck_assert_uint_eq(table->rows[i].count, rows[i].count);
    ck_assert_uint_eq(table->rows[i].bytes, rows[i].bytes);
  }
  bool all = process == 0;
  ck_assert_uint_eq(table->ns, 1075 + (all ? 1003 : 0));
  ck_assert_uint_eq(table->stacks, 6 + (all ? 2 : 0));
  ck_assert_uint_eq(table->distinct, 5 + (all ? 2 : 0));
  ck_assert_uint_eq(table->skipped, 3);
  ck_assert_uint_eq(table->failed, 2);
  ck_assert_uint_eq(table->cost_ns, 99);
  opgap_stack_table_free(table);
}
#define CHECK_TABLE(by, process, ...)                                                                                  \
  do {                                                                                                                 \
    static const struct opgap_stack_row rows[] = {__VA_ARGS__};                                                        \
    check_table(by, process, rows, sizeof rows / sizeof *rows);                                                        \
  } while (0)

/* Recursion counts once; an address is that of the call, one before where it returns to. */
START_TEST(test_tables)
{
  setup();
  CHECK_TABLE(OPGAP_BY_FUNCTION, 100, {"libx.so+0x100", 600, 600, 2, 7}, {"forward", 405, 405, 2, 0},
              {"(no file)+0x5000", 70, 70, 2, 0}, {"main", 0, 905, 3, 0}, {"p;g+0x2000", 0, 100, 1, 7},
              {"p;g+0x3000", 0, 100, 1, 7});
  CHECK_TABLE(OPGAP_BY_LINE, 100, {"libx.so+0x100", 600, 600, 2, 7}, {"a dir/train.py:10 forward", 405, 405, 2, 0},
              {"(no file)+0x5000", 70, 70, 2, 0}, {"train.py:20 main", 0, 905, 3, 0}, {"p;g+0x2000", 0, 100, 1, 7},
              {"p;g+0x3000", 0, 100, 1, 7});
  CHECK_TABLE(OPGAP_BY_MODULE, 100, {"/none/libx.so", 600, 600, 2, 7}, {"a dir/train.py", 405, 405, 2, 0},
              {"(no file)", 70, 70, 2, 0}, {"train.py", 0, 905, 3, 0}, {"/none/p;g", 0, 100, 1, 7});
  CHECK_TABLE(OPGAP_BY_STACK, 100, {"main;libx.so+0x100", 500, 500, 1, 0}, {"main;forward", 405, 405, 2, 0},
              {"p g+0x3000;p g+0x2000;p g+0x2000;libx.so+0x100;read", 100, 100, 1, 7},
              {"(no file)+0x5000;write", 50, 50, 1, 0}, {"(no file)+0x5000;poll", 20, 20, 1, 0});
  CHECK_TABLE(OPGAP_BY_FUNCTION, 0, {"libx.so+0x100", 1600, 1600, 3, 8}, {"forward", 405, 405, 2, 0},
              {"(no file)+0x5000", 70, 70, 2, 0}, {"p;g+0x2000", 0, 1100, 2, 8}, {"p;g+0x3000", 0, 1100, 2, 8},
              {"main", 0, 905, 3, 0});
}
END_TEST

static char visited[256];

static void visit(void *context, const char *path, const char *build_id)
{
  char line[64];
  snprintf(line, sizeof line, "%s %s\n", path, build_id);
  strcat(context, line);
}

START_TEST(test_modules)
{
  setup();
  struct opgap_source source = fake_source();
  visited[0] = '\0';
  opgap_stack_modules(&source, visit, visited);
  ck_assert_str_eq(visited, "/none/libx.so ab\n/none/p;g ef\n/none/p;g 01\n");
}
END_TEST

START_TEST(test_places)
{
  setup();
  struct opgap_source source = fake_source();
  struct opgap_pool *pool = opgap_pool_new();
  struct opgap_stack_places *places = opgap_stack_places_new(&source, pool);
  for (unsigned process = 0; process < 2; process++)
    opgap_stack_places_module(
        places, process,
        &(struct opgap_record){.event = OPGAP_EV_MODULE,
                               .field = {fake_name(process, process ? "/none/b.so" : "/none/a.so"), 0}});
  const struct {
    const void *bytes;
    size_t length;
    const char *text;
  } expected[] = {{in_python, sizeof in_python, "a dir/train.py:10 forward"},
                  {in_both, sizeof in_both, "train.py:20 main"},
                  {in_nothing, sizeof in_nothing, "(no file)+0x5000"},
                  {in_read, sizeof in_read, "a.so+0x100"},
                  {cut, sizeof cut, ""},
                  {"", 0, ""},
                  {"text", 4, ""}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    ck_assert_str_eq(opgap_stack_place(places, 0, fake_bytes(p, expected[i].bytes, expected[i].length)),
                     expected[i].text);
  /* the processes in turns */
  for (unsigned turn = 0; turn < 4; turn++) {
    unsigned process = turn % 2;
    ck_assert_str_eq(opgap_stack_place(places, process, fake_bytes(process, in_read, 4)), /* its first frame alone */
                     process ? "b.so+0x100" : "a.so+0x100");
  }
  opgap_stack_places_free(places);
  opgap_pool_free(pool);
}
END_TEST

START_TEST(test_python_frames)
{
  static const uint8_t frames[] = {1, 2, 5, 0, 0x83, 1, 3, 9, 0, 8};
  uint64_t ids[2] = {0};
  const char *text = (const char *)frames;
  ck_assert_uint_eq(opgap_stack_python(text, sizeof frames, ids, 2), 2);
  ck_assert_uint_eq(ids[0], 0x41);
  ck_assert_uint_eq(ids[1], 4);
  ck_assert_uint_eq(opgap_stack_python(text, sizeof frames, ids, 1), 1);
  ck_assert_uint_eq(opgap_stack_python(text, sizeof frames - 1, ids, 2), 1); /* cut */
  ck_assert_uint_eq(opgap_stack_python(text, 0, ids, 2), 0);
  ck_assert_uint_eq(opgap_stack_python(text + 1, sizeof frames - 1, ids, 2), 0); /* no stack */
}
END_TEST

START_TEST(test_names_of_tables)
{
  for (int by = 0; by < OPGAP_BY_COUNT; by++)
    ck_assert_int_eq(opgap_stack_by_parse(opgap_stack_by_name((enum opgap_stack_by)by)), by);
  ck_assert_int_eq(opgap_stack_by_parse("file"), OPGAP_BY_COUNT);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("analysis_stacks");
  TCase *tests = new_case("stacks");
  tcase_add_test(tests, test_tables);
  tcase_add_test(tests, test_modules);
  tcase_add_test(tests, test_places);
  tcase_add_test(tests, test_python_frames);
  tcase_add_test(tests, test_names_of_tables);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
