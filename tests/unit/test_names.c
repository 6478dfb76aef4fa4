/* Names of a process that two threads add at the same time, as the cursors of two reading threads do. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "format/trace.h"
#include "suite.h"

#define IDS 200000u

static struct process *process;
static struct opgap_trace trace;
static pthread_barrier_t together;

struct adder {
  pthread_t thread;
  const char *bytes;     /* its own for every id */
  const char *seen[IDS]; /* what the name was right behind its own addition */
};

static void *add_all(void *context)
{
  struct adder *adder = context;
  pthread_barrier_wait(&together);
  for (uint64_t id = 1; id < IDS; id++) {
    name_add(process, id, (const uint8_t *)adder->bytes, strlen(adder->bytes));
    adder->seen[id] = opgap_trace_name(&trace, 0, id, NULL);
  }
  return NULL;
}

/* Whoever comes first has it, and what a thread has once read stays. */
START_TEST(test_two_threads)
{
  static struct adder adders[2] = {{.bytes = "left"}, {.bytes = "right, longer"}};
  process = calloc(1, sizeof *process);
  ck_assert_ptr_nonnull(process);
  pthread_mutex_init(&process->lock, NULL);
  pthread_barrier_init(&together, NULL, 2);
  trace = (struct opgap_trace){.processes = &process, .count = 1};
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_create(&adders[i].thread, NULL, add_all, &adders[i]), 0);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_join(adders[i].thread, NULL), 0);
  for (uint64_t id = 1; id < IDS; id++) {
    size_t length;
    const char *name = opgap_trace_name(&trace, 0, id, &length);
    EACH_ASSERT(adders[0].seen[id] == name && adders[1].seen[id] == name);
    EACH_ASSERT_UINT(length, ==, strlen(name));
    EACH_ASSERT(strcmp(name, adders[0].bytes) == 0 || strcmp(name, adders[1].bytes) == 0);
  }
  pthread_barrier_destroy(&together);
  process_free(process);
}
END_TEST

/* Ids that no name can have, and names without bytes, are not added; of an id that is not there nothing is known. */
START_TEST(test_not_added)
{
  size_t length;
  process = calloc(1, sizeof *process);
  ck_assert_ptr_nonnull(process);
  pthread_mutex_init(&process->lock, NULL);
  trace = (struct opgap_trace){.processes = &process, .count = 1};
  name_add(process, 0, (const uint8_t *)"zero", 4);
  name_add(process, (uint64_t)NAME_PAGE * NAME_PAGES, (const uint8_t *)"large", 5);
  name_add(process, 7, (const uint8_t *)"", 0);
  ck_assert_str_eq(opgap_trace_name(&trace, 0, 0, &length), "");
  ck_assert_uint_eq(length, 0);
  ck_assert_str_eq(opgap_trace_name(&trace, 0, (uint64_t)NAME_PAGE * NAME_PAGES, &length), "?");
  ck_assert_str_eq(opgap_trace_name(&trace, 0, 7, &length), "?");
  ck_assert_uint_eq(length, 1);
  name_add(process, 7, (const uint8_t *)"a\0b", 3);
  ck_assert_mem_eq(opgap_trace_name(&trace, 0, 7, &length), "a\0b", 4);
  ck_assert_uint_eq(length, 3);
  process_free(process);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("names");
  TCase *tests = new_case("names");
  tcase_add_test(tests, test_two_threads);
  tcase_add_test(tests, test_not_added);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
