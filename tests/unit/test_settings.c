/* Settings: the parser that the tracer and the tool share. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"
#include "record/settings.h"
#include "suite.h"

#define ALL_GROUPS                                                                                                     \
  (OPGAP_GROUP_alloc | OPGAP_GROUP_copy | OPGAP_GROUP_io | OPGAP_GROUP_net | OPGAP_GROUP_sync | OPGAP_GROUP_thread |   \
   OPGAP_GROUP_process | OPGAP_GROUP_cuda | OPGAP_GROUP_torch | OPGAP_GROUP_nvtx)

static struct opgap_settings settings;
static char message[OPGAP_SETTING_MESSAGE_MAX];

static int set(const char *name, const char *value)
{
  memset(message, 'x', sizeof message);
  return opgap_settings_set(&settings, name, value, message, sizeof message);
}

static void start(void)
{
  memset(&settings, 0xa5, sizeof settings);
  opgap_settings_default(&settings);
}

START_TEST(defaults)
{
  ck_assert_str_eq(settings.out, "");
  ck_assert_uint_eq(settings.hooks, ALL_GROUPS);
  ck_assert(!settings.alloc_events);
  ck_assert_uint_eq(settings.min_alloc, 1u << 20);
  ck_assert_uint_eq(settings.min_copy, 256u << 10);
  ck_assert_uint_eq(settings.stacks, OPGAP_STACKS_OFF);
  ck_assert_uint_eq(settings.schedule.active, 0);
  ck_assert_uint_eq(settings.delay_ns, 0);
  ck_assert_uint_eq(settings.duration_ns, 0);
  ck_assert_uint_eq(settings.children, OPGAP_CHILDREN_ALL);
  ck_assert_uint_eq(settings.buffer, 64u << 20);
  ck_assert_uint_eq(settings.max_size, 0);
  ck_assert_uint_eq(settings.log, OPGAP_LOG_WARN);
  ck_assert(!settings.off);
}
END_TEST

/* Every default in the table is a value that the parser takes: a wrong row shows here. */
START_TEST(table_is_sound)
{
  for (unsigned i = 0; i < opgap_setting_count; i++) {
    const struct opgap_setting *s = &opgap_setting_table[i];
    ck_assert_int_eq(strncmp(s->env, "OPGAP_", 6), 0);
    ck_assert_ptr_eq(opgap_setting_find(s->env, strlen(s->env)), s);
    if (*s->standard != '\0')
      ck_assert_int_eq(set(s->env, s->standard), 0);
  }
  ck_assert_ptr_null(opgap_setting_find("OPGAP_OU", 8));
  ck_assert_ptr_null(opgap_setting_find("OPGAP_OUTX", 10));
  ck_assert_ptr_null(opgap_setting_find("out", 3));
  ck_assert_ptr_null(opgap_setting_find("--", 2));
  ck_assert_str_eq(opgap_setting_find("--out=x", 5)->env, "OPGAP_OUT");
}
END_TEST

static const struct {
  const char *text;
  uint64_t bytes;
} sizes[] = {{"0", 0},
             {"1", 1},
             {"4096", 4096},
             {"3K", 3072},
             {"3k", 3072},
             {"2M", 2u << 20},
             {"5G", 5ull << 30},
             {"18446744073709551615", UINT64_MAX},
             {"17179869183G", 17179869183ull << 30}};

START_TEST(bytes)
{
  ck_assert_int_eq(set("OPGAP_MIN_ALLOC", sizes[_i].text), 0);
  ck_assert_uint_eq(settings.min_alloc, sizes[_i].bytes);
}
END_TEST

static const struct {
  const char *text;
  uint64_t ns;
} times[] = {{"0", 0},
             {"2", 2000000000},
             {"0.5", 500000000},
             {".5", 500000000},
             {"1.25", 1250000000},
             {"0.000000001", 1},
             {"0.0000000019", 1},
             {"1000000000", 1000000000ull * 1000000000}};

START_TEST(seconds)
{
  ck_assert_int_eq(set("--delay", times[_i].text), 0);
  ck_assert_uint_eq(settings.delay_ns, times[_i].ns);
}
END_TEST

static const struct {
  const char *text;
  uint32_t mask;
} lists[] = {{"all", ALL_GROUPS},
             {"io", OPGAP_GROUP_io | OPGAP_GROUP_process},
             {"io,net", OPGAP_GROUP_io | OPGAP_GROUP_net | OPGAP_GROUP_process},
             {"-copy", ALL_GROUPS & ~(uint32_t)OPGAP_GROUP_copy},
             {"all,-copy,-alloc", ALL_GROUPS & ~(uint32_t)(OPGAP_GROUP_copy | OPGAP_GROUP_alloc)},
             {"-all", OPGAP_GROUP_process},
             {"io,-io", OPGAP_GROUP_process},
             {"-all,torch", OPGAP_GROUP_torch | OPGAP_GROUP_process}};

START_TEST(groups)
{
  ck_assert_int_eq(set("OPGAP_HOOKS", lists[_i].text), 0);
  ck_assert_uint_eq(settings.hooks, lists[_i].mask);
}
END_TEST

START_TEST(words)
{
  ck_assert_int_eq(set("--alloc", "events"), 0);
  ck_assert(settings.alloc_events);
  ck_assert_int_eq(set("--alloc", "count"), 0);
  ck_assert(!settings.alloc_events);
  ck_assert_int_eq(set("--off", "1"), 0);
  ck_assert(settings.off);
  static const char *const stacks[] = {"off", "python", "native", "both"};
  for (unsigned i = 0; i < 4; i++) {
    ck_assert_int_eq(set("--stacks", stacks[i]), 0);
    ck_assert_uint_eq(settings.stacks, i);
  }
  ck_assert_int_eq(set("--children", "none"), 0);
  ck_assert_uint_eq(settings.children, OPGAP_CHILDREN_NONE);
  ck_assert_int_eq(set("--log", "quiet"), 0);
  ck_assert_uint_eq(settings.log, OPGAP_LOG_QUIET);
}
END_TEST

static const struct {
  const char *text;
  uint32_t mask;
} gpu_words[] = {{"graphs", 0},
                 {"nodes", OPGAP_GPU_NODES},
                 {"driver", OPGAP_GPU_DRIVER},
                 {"external", OPGAP_GPU_EXTERNAL},
                 {"external,nodes", OPGAP_GPU_NODES | OPGAP_GPU_EXTERNAL},
                 {"graphs,driver", OPGAP_GPU_DRIVER},
                 {"all", OPGAP_GPU_NODES | OPGAP_GPU_DRIVER | OPGAP_GPU_EXTERNAL}};

START_TEST(list_of_words)
{
  ck_assert_int_eq(set("OPGAP_GPU", gpu_words[_i].text), 0);
  ck_assert_uint_eq(settings.gpu, gpu_words[_i].mask);
}
END_TEST

START_TEST(bad_words)
{
  static const char *const bad[] = {"node",          "nodes,",       ",",
                                    "nodes,drivers", "nodes|driver", "nodes,driver,external|all"};
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    settings.gpu = 77;
    ck_assert_int_eq(set("OPGAP_GPU", bad[i]), 1);
    ck_assert_uint_eq(settings.gpu, 77);
    ck_assert_ptr_nonnull(strstr(message, "allowed: graphs|nodes,driver,external|all"));
  }
}
END_TEST

START_TEST(schedule)
{
  ck_assert_int_eq(set("OPGAP_SCHEDULE", "wait=1,warmup=2,active=5,repeat=3"), 0);
  ck_assert_uint_eq(settings.schedule.wait, 1);
  ck_assert_uint_eq(settings.schedule.warmup, 2);
  ck_assert_uint_eq(settings.schedule.active, 5);
  ck_assert_uint_eq(settings.schedule.repeat, 3);
  ck_assert_int_eq(set("OPGAP_SCHEDULE", "active=7"), 0);
  ck_assert_uint_eq(settings.schedule.wait, 0);
  ck_assert_uint_eq(settings.schedule.active, 7);
}
END_TEST

static const struct {
  const char *name, *value;
} bad[] = {{"OPGAP_MIN_ALLOC", ""},
           {"OPGAP_MIN_ALLOC", "K"},
           {"OPGAP_MIN_ALLOC", "1KB"},
           {"OPGAP_MIN_ALLOC", " 1"},
           {"OPGAP_MIN_ALLOC", "1 "},
           {"OPGAP_MIN_ALLOC", "+1"},
           {"OPGAP_MIN_ALLOC", "-1"},
           {"OPGAP_MIN_ALLOC", "0x10"},
           {"OPGAP_MIN_ALLOC", "18446744073709551616"},
           {"OPGAP_MIN_ALLOC", "17179869184G"},
           {"OPGAP_BUFFER", "1048575"},
           {"OPGAP_BUFFER", "17179869185"},
           {"OPGAP_DELAY", "."},
           {"OPGAP_DELAY", ".x"},
           {"OPGAP_DELAY", "1."},
           {"OPGAP_DELAY", "1.x"},
           {"OPGAP_DELAY", "1000000001"},
           {"OPGAP_DELAY", "nan"},
           {"OPGAP_HOOKS", ","},
           {"OPGAP_HOOKS", "io,"},
           {"OPGAP_HOOKS", "--io"},
           {"OPGAP_HOOKS", "IO"},
           {"OPGAP_HOOKS", "process"},
           {"OPGAP_HOOKS", "-"},
           {"OPGAP_ALLOC", "count|events"},
           {"OPGAP_ALLOC", "event"},
           {"OPGAP_ALLOC", "eventss"},
           {"OPGAP_OFF", "2"},
           {"OPGAP_SCHEDULE", "active=1,"},
           {"OPGAP_SCHEDULE", "active="},
           {"OPGAP_SCHEDULE", "active=1x"},
           {"OPGAP_SCHEDULE", "=1"},
           {"OPGAP_SCHEDULE", "active=1000000001"}};

/* A bad value changes nothing and is named. */
START_TEST(refused)
{
  struct opgap_settings before;
  memcpy(&before, &settings, sizeof before);
  ck_assert_int_eq(set(bad[_i].name, bad[_i].value), 1);
  ck_assert_int_eq(memcmp(&before, &settings, sizeof before), 0);
  ck_assert_ptr_nonnull(strstr(message, bad[_i].name));
  ck_assert_ptr_nonnull(strstr(message, bad[_i].value));
}
END_TEST

START_TEST(path_length)
{
  char path[OPGAP_SETTING_PATH_MAX + 1];
  memset(path, 'p', sizeof path);
  path[OPGAP_SETTING_PATH_MAX] = '\0';
  ck_assert_int_eq(set("OPGAP_OUT", path), 1);
  ck_assert_str_eq(settings.out, "");
  path[OPGAP_SETTING_PATH_MAX - 1] = '\0';
  ck_assert_int_eq(set("OPGAP_OUT", path), 0);
  ck_assert_str_eq(settings.out, path);
}
END_TEST

START_TEST(messages)
{
  ck_assert_int_eq(set("OPGAP_ALLOC", "evnts"), 1);
  ck_assert_str_eq(message, "OPGAP_ALLOC=evnts: unknown value; allowed: count|events");
  ck_assert_int_eq(set("--log", "a\nb\033\177"), 1);
  ck_assert_str_eq(message, "--log=a?b??: unknown value; allowed: quiet|warn|info");
  ck_assert_int_eq(set("OPGAP_NONE", "1"), 1);
  ck_assert_str_eq(message, "unknown setting OPGAP_NONE");
  char small[8] = "yyyyyyy";
  ck_assert_int_eq(opgap_settings_set(&settings, "OPGAP_ALLOC", "evnts", small, sizeof small), 1);
  ck_assert_str_eq(small, "OPGAP_A");
}
END_TEST

/* The environment of a parse: NAME=value pairs. */
static const char *look_up(const char *name, void *ctx)
{
  for (const char *const *pair = ctx; *pair != NULL; pair++) {
    size_t length = strlen(name);
    if (strncmp(*pair, name, length) == 0 && (*pair)[length] == '=')
      return *pair + length + 1;
  }
  return NULL;
}

START_TEST(parse)
{
  const char *pairs[] = {"OPGAP_ALLOC=nope",  "OPGAP_MIN_COPY=8K", "OPGAP_DELAY=x",
                         "OPGAP_OUT=a.opgap", "OPGAP_LOG=",        NULL};
  errno = 99;
  ck_assert_int_eq(opgap_settings_parse(&settings, look_up, pairs, message, sizeof message), 2);
  ck_assert_int_eq(errno, 99);
  ck_assert_str_eq(message, "OPGAP_ALLOC=nope: unknown value; allowed: count|events; other bad settings: 1");
  ck_assert(!settings.alloc_events);
  ck_assert_uint_eq(settings.min_copy, 8192);
  ck_assert_uint_eq(settings.delay_ns, 0);
  ck_assert_str_eq(settings.out, "a.opgap");
  ck_assert_uint_eq(settings.log, OPGAP_LOG_WARN);
  const char *none[] = {NULL};
  ck_assert_int_eq(opgap_settings_parse(&settings, look_up, none, message, sizeof message), 0);
  ck_assert_str_eq(message, "");
  ck_assert_str_eq(settings.out, "");
}
END_TEST

START_TEST(unknown_names)
{
  char *none[] = {"PATH=/bin", "OPGAP_OUT=x", "OPGAP_SESSION=/t", "OPGAP_TEST_ANYTHING=1", "MY_OPGAP_X=1", "=", NULL};
  char *one[] = {"OPGAP_OUT=x", "OPGAP_OUTS=x", "OPGAP_=1", NULL};
  char *session[] = {"OPGAP_SESSIONS=x", NULL};
  ck_assert_ptr_null(opgap_settings_unknown(none));
  ck_assert_str_eq(opgap_settings_unknown(one), "OPGAP_OUTS=x");
  ck_assert_str_eq(opgap_settings_unknown(session), "OPGAP_SESSIONS=x");
}
END_TEST

#define COUNT(array) (sizeof array / sizeof *array)

int main(void)
{
  Suite *suite = suite_create("settings");
  TCase *tests = new_case("settings");
  tcase_add_checked_fixture(tests, start, NULL);
  tcase_add_test(tests, defaults);
  tcase_add_test(tests, table_is_sound);
  tcase_add_loop_test(tests, bytes, 0, COUNT(sizes));
  tcase_add_loop_test(tests, seconds, 0, COUNT(times));
  tcase_add_loop_test(tests, groups, 0, COUNT(lists));
  tcase_add_test(tests, words);
  tcase_add_loop_test(tests, list_of_words, 0, COUNT(gpu_words));
  tcase_add_test(tests, bad_words);
  tcase_add_test(tests, schedule);
  tcase_add_loop_test(tests, refused, 0, COUNT(bad));
  tcase_add_test(tests, path_length);
  tcase_add_test(tests, messages);
  tcase_add_test(tests, parse);
  tcase_add_test(tests, unknown_names);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
