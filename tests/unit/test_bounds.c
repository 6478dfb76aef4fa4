/* What an analysis holds does not grow with the records: bytes on the heap, counted at every allocation (the program is
 * linked with malloc and its like wrapped), for runs of different lengths whose records are made while they are read.
 */
#include <check.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "suite.h"

/* ---- counting ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);

static int64_t held, most_held; /* blocks that libc itself makes are seen when they are freed only: a few bytes */

static void *taken(void *block)
{
  held += (int64_t)malloc_usable_size(block);
  most_held = held > most_held ? held : most_held;
  return block;
}

void *__wrap_malloc(size_t size)
{
  return taken(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
  return taken(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
  held -= (int64_t)malloc_usable_size(block);
  return taken(__real_realloc(block, size));
}

void __wrap_free(void *block)
{
  held -= (int64_t)malloc_usable_size(block);
  __real_free(block);
}

/* ---- a run ----
 *
 * Ranks of two threads.  The main thread goes in rounds of 1 ms:
 *
 *   us      0   150  300  450  600   750     800..900            950
 *           OPS ops of 100 us each,  read,   wait, woken at 890  a mark, if there are marks
 *
 * and the other one has an op from 100 to 700 us and ends the wait. */

#define OPS 5u
#define RANKS_MOST 64u
#define ROUND_NS 1000000u
#define FIRST_NS 1000000000u
#define MAIN_RECORDS (2 * OPS + 3) /* of a round, with a mark */
#define OTHER_RECORDS 2u
#define OBJECT 0x7f1234560000u

enum { EV_READ = OPGAP_FIRST_HOOK, EV_WAIT, EV_SIGNAL, EV_END };

static const struct opgap_event hooks[] = {
    {EV_READ,
     OPGAP_SPAN,
     2,
     OPGAP_EVENT_HOOK | OPGAP_EVENT_BLOCKING | OPGAP_EVENT_OBJECT_NAME,
     "read",
     "io",
     "errno",
     {{"object", OPGAP_NAME}, {"value", OPGAP_PLAIN}}},
    {EV_WAIT,
     OPGAP_SPAN,
     2,
     OPGAP_EVENT_HOOK | OPGAP_EVENT_BLOCKING,
     "pthread_cond_wait",
     "sync",
     "errno",
     {{"object", OPGAP_PLAIN}, {"value", OPGAP_PLAIN}}},
    {EV_SIGNAL,
     OPGAP_INSTANT,
     2,
     OPGAP_EVENT_HOOK | OPGAP_EVENT_EDGE,
     "pthread_cond_signal",
     "sync",
     "errno",
     {{"object", OPGAP_PLAIN}, {"value", OPGAP_PLAIN}}},
};
static struct {
  unsigned ranks;
  uint64_t rounds;
  bool marks;
} run;

static const struct opgap_process_info *get_process(void *context, unsigned process)
{
  static struct opgap_process_info infos[RANKS_MOST];
  static struct opgap_stream_info streams[RANKS_MOST][2];
  uint64_t end = FIRST_NS + run.rounds * ROUND_NS;
  (void)context;
  for (unsigned s = 0; s < 2; s++)
    streams[process][s] = (struct opgap_stream_info){.serial = s + 1,
                                                     .kind = OPGAP_STREAM_THREAD,
                                                     .tid = (int32_t)(1000 + 2 * process + s),
                                                     .name = "",
                                                     .first_ns = FIRST_NS,
                                                     .last_ns = end,
                                                     .records = run.rounds * (s ? OTHER_RECORDS : MAIN_RECORDS)};
  infos[process] = (struct opgap_process_info){.path = "made.opgt",
                                               .pid = (int32_t)(1000 + 2 * process),
                                               .rank = run.ranks > 1 ? (int32_t)process : -1,
                                               .local_rank = -1,
                                               .world_size = -1,
                                               .host = "host",
                                               .command = "made",
                                               .boot_id = "boot",
                                               .ended = OPGAP_ENDED_CLEAN,
                                               .start_ns = FIRST_NS,
                                               .end_ns = end,
                                               .complete = true,
                                               .records = run.rounds * (MAIN_RECORDS + OTHER_RECORDS),
                                               .stream_count = 2,
                                               .streams = streams[process]};
  return &infos[process];
}

static const struct opgap_event *get_event(void *context, unsigned process, unsigned event)
{
  unsigned count;
  const struct opgap_event *builtin = opgap_schema_builtin(&count);
  (void)context, (void)process;
  for (unsigned i = 0; i < count; i++)
    if (builtin[i].id == event)
      return &builtin[i];
  return event >= EV_READ && event < EV_END ? &hooks[event - EV_READ] : NULL;
}

static const char *get_name(void *context, unsigned process, uint64_t name_id, size_t *length)
{
  static const char *const names[] = {"", "aten::a", "aten::b", "aten::c", "aten::d", "aten::e", "aten::in", "/data"};
  (void)context, (void)process;
  const char *text = name_id < sizeof names / sizeof *names ? names[name_id] : "?";
  if (length != NULL)
    *length = strlen(text);
  return text;
}
#define NAME_INSIDE (OPS + 1)
#define NAME_DATA (OPS + 2)

static const char *get_info(void *context, unsigned process, const char *key)
{
  (void)context, (void)process, (void)key;
  return NULL;
}

static const char *get_nothing(void *context, unsigned *at)
{
  (void)context, (void)at;
  return NULL;
}

struct made_cursor {
  unsigned stream;
  uint64_t round;
  struct opgap_record records[MAIN_RECORDS];
};

static void *open_cursor(void *context, unsigned process, unsigned stream)
{
  struct made_cursor *cursor = calloc(1, sizeof *cursor);
  (void)context, (void)process;
  ck_assert_ptr_nonnull(cursor);
  cursor->stream = stream;
  return cursor;
}

static struct opgap_record made(uint64_t round, unsigned event, unsigned depth, unsigned start_us, unsigned end_us,
                                uint64_t object, uint64_t value)
{
  uint64_t at = FIRST_NS + round * ROUND_NS;
  return (struct opgap_record){.event = (uint16_t)event,
                               .depth = (uint8_t)depth,
                               .start_ns = at + start_us * 1000u,
                               .end_ns = at + end_us * 1000u,
                               .field = {object, value}};
}

static size_t next_round(void *opaque, const struct opgap_record **records)
{
  struct made_cursor *cursor = opaque;
  struct opgap_record *r = cursor->records;
  uint64_t round = cursor->round++;
  *records = r;
  if (round == run.rounds)
    return 0;
  if (cursor->stream == 1) {
    *r++ = made(round, OPGAP_EV_OP, 0, 100, 700, NAME_INSIDE, UINT64_MAX);
    *r++ = made(round, EV_SIGNAL, 0, 890, 890, OBJECT, 0);
    return (size_t)(r - *records);
  }
  for (unsigned i = 0; i < OPS; i++) {
    *r++ = made(round, OPGAP_EV_OP, 1, i * 150 + 20, i * 150 + 80, NAME_INSIDE, UINT64_MAX);
    *r++ = made(round, OPGAP_EV_OP, 0, i * 150, i * 150 + 100, 1 + i, UINT64_MAX);
  }
  *r++ = made(round, EV_READ, 0, 750, 770, NAME_DATA, 4096);
  *r++ = made(round, EV_WAIT, 0, 800, 900, OBJECT, 0);
  if (run.marks)
    *r++ = made(round, OPGAP_EV_STEP, 0, 950, 950, 0, 0);
  return (size_t)(r - *records);
}

/* The summary of a run; *most: bytes that the analysis held at once, without what is left after it. */
static struct opgap_summary *analyse(unsigned ranks, uint64_t rounds, bool marks, int64_t *most)
{
  char error[256] = "";
  run.ranks = ranks;
  run.rounds = rounds;
  run.marks = marks;
  struct opgap_source source = {.path = "made.opgap",
                                .process_count = ranks,
                                .process = get_process,
                                .event = get_event,
                                .name = get_name,
                                .info = get_info,
                                .damage = get_nothing,
                                .note = get_nothing,
                                .cursor_open = open_cursor,
                                .cursor_batch = next_round,
                                .cursor_close = free};
  int64_t before = most_held = held;
  struct opgap_summary *s = opgap_analyse(&source, &(struct opgap_analysis_options){.threads = 1}, error, sizeof error);
  ck_assert_msg(s != NULL, "analysis failed: %s", error);
  *most = most_held - before;
  return s;
}

/* ---- tests ---- */

/* What a round of steps that follow each other takes by class; the read and the wait are in `other`. */
static void check_steps(const struct opgap_summary *s, uint64_t count)
{
  ck_assert_uint_eq(s->steps.count, count);
  ck_assert_uint_eq(s->steps.min_ns, ROUND_NS);
  ck_assert_uint_eq(s->steps.max_ns, ROUND_NS);
  uint64_t steps = count - s->steps.skipped;
  const struct opgap_sum_breakdown *b = &s->breakdown;
  ck_assert_uint_eq(b->steps, steps);
  ck_assert_uint_eq(b->class_ns[OPGAP_CLASS_CPU_EXEC], steps * OPS * 100000);
  ck_assert_uint_eq(b->class_ns[OPGAP_CLASS_OTHER], steps * (ROUND_NS - OPS * 100000));
  ck_assert_uint_eq(b->wait_ns[OPGAP_CAUSE_FILE_IO], steps * 20000);
  uint64_t waits = 0;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
    waits += b->wait_ns[c];
  ck_assert_uint_eq(waits, steps * 120000);
}

/* The rounds of a loop without marks are steps to the end of the run, and their classes are all there: 150,000
 * outermost ops, of which the first 65,536 tell the period. */
START_TEST(test_rounds_of_a_long_run)
{
  int64_t most;
  struct opgap_summary *s = analyse(1, 30000, false, &most);
  ck_assert_str_eq(s->steps.source, "periodicity");
  check_steps(s, 29999); /* a round ends where the next one begins */
  opgap_summary_free(s);
}
END_TEST

/* No more rounds than this are steps; the rest of the run adds nothing to them. */
START_TEST(test_rounds_are_bounded)
{
  int64_t most, longer;
  struct opgap_summary *s = analyse(1, 70000, false, &most);
  check_steps(s, 65536);
  opgap_summary_free(s);
  s = analyse(1, 350000, false, &longer);
  check_steps(s, 65536);
  opgap_summary_free(s);
  ck_assert_int_lt(longer, most + most / 20);
}
END_TEST

/* 64 ranks: what is kept of each is full after some 4,500 rounds. */
START_TEST(test_ranks_without_marks)
{
  int64_t most, longer;
  struct opgap_summary *s = analyse(RANKS_MOST, 4500, false, &most);
  check_steps(s, 4096);
  opgap_summary_free(s);
  s = analyse(RANKS_MOST, 22500, false, &longer);
  check_steps(s, 4096);
  opgap_summary_free(s);
  ck_assert_int_lt(longer, most + most / 10);
  ck_assert_int_lt(longer, 256 << 20);
}
END_TEST

/* With marks each step is kept: its start, end and allocations, and what of its classes and waits is not 0. */
START_TEST(test_ranks_with_marks)
{
  int64_t most, longer;
  uint64_t more = 15000, steps = more * RANKS_MOST;
  struct opgap_summary *s = analyse(RANKS_MOST, 5000, true, &most);
  ck_assert_uint_eq(s->steps.count, 5000);
  opgap_summary_free(s);
  s = analyse(RANKS_MOST, 5000 + more, true, &longer);
  check_steps(s, 5000 + more);
  opgap_summary_free(s);
  ck_assert_int_lt(longer - most, (int64_t)steps * 256);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("bounds");
  TCase *tests = new_case("bounds");
  tcase_add_test(tests, test_rounds_of_a_long_run);
  tcase_add_test(tests, test_rounds_are_bounded);
  tcase_add_test(tests, test_ranks_without_marks);
  tcase_add_test(tests, test_ranks_with_marks);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
