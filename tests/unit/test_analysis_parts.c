/* Summaries of parts: what is written comes back, and merging is adding. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/parts.h"
#include "fake_source.h"
#include "output/output.h"
#include "suite.h"

static char path[] = "/tmp/opgap-parts-XXXXXX";

static void setup(void)
{
  fake_reset();
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

static void teardown(void)
{
  unlink(path);
  memcpy(path + strlen(path) - 6, "XXXXXX", 6);
}

/* A trainer of `rank` with steps, ops, reads of its own file and of a common one, an all-reduce a step. */
static struct opgap_summary *part(int rank, uint64_t at_us, unsigned steps)
{
  fake_reset();
  unsigned p = fake_process(100 + rank, 1, "python train.py \xff"), t = fake_thread(p, 100 + rank, "python");
  fake_thread(p, 200 + rank, "pt_gloo_runloop");
  fake_info(p)->rank = rank;
  fake_info(p)->start_ns = at_us * 1000;
  for (unsigned i = 0; i < steps; i++) {
    uint64_t step = at_us + 10000 * (uint64_t)i;
    fake_file_call(p, t, 0, FAKE_READ, step + 10, step + 2010, rank ? "/own/\xfe" : "/own/0", 100);
    fake_file_call(p, t, 0, FAKE_READ, step + 2010, step + 2020, "/common", 7);
    fake_op(p, t, 0, step + 3000, step + 3100 + (uint64_t)rank, "aten::mm", 2, 64);
    fake_range(p, t + 1, 0, step + 4000 + 1000 * (uint64_t)rank, step + 9000, "gloo:all_reduce");
    fake_step(p, t, step + 10000);
  }
  return fake_analyse(&(struct opgap_analysis_options){0});
}

static json_t *json_of(struct opgap_summary *s)
{
  char *text = opgap_output_json(s, &(struct opgap_output_options){0});
  json_t *root = json_loads(text, 0, NULL);
  free(text);
  ck_assert_ptr_nonnull(root);
  json_object_del(root, "over_time"); /* not kept */
  return root;
}

/* Names the first difference: whole reports are too long for a message. */
static void same_json(const json_t *left, const json_t *right, const char *where)
{
  const char *key;
  json_t *value;
  size_t i;
  if (json_is_object(left) && json_is_object(right)) {
    ck_assert_msg(json_object_size(left) == json_object_size(right), "%s: other keys", where);
    json_object_foreach((json_t *)left, key, value) same_json(value, json_object_get(right, key), key);
  } else if (json_is_array(left) && json_is_array(right)) {
    ck_assert_msg(json_array_size(left) == json_array_size(right), "%s: %zu and %zu", where, json_array_size(left),
                  json_array_size(right));
    json_array_foreach(left, i, value) same_json(value, json_array_get(right, i), where);
  } else {
    char *texts[2] = {json_dumps(left, JSON_ENCODE_ANY), json_dumps(right, JSON_ENCODE_ANY)};
    ck_assert_msg(json_equal(left, right), "%s: %s and %s", where, texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
  }
}

static void write_parts(const struct opgap_parts *parts)
{
  FILE *file = fopen(path, "w");
  ck_assert(opgap_parts_write(parts, file));
  ck_assert_int_eq(fclose(file), 0);
}

START_TEST(test_read_is_what_was_written)
{
  struct opgap_parts parts = {0}, back = {0};
  char error[512] = "";
  *VEC_PUSH(&parts.v) = part(1, 1000, 8);
  write_parts(&parts);
  ck_assert(opgap_parts_is_file(path));
  ck_assert_msg(opgap_parts_read(&back, path, error, sizeof error), "%s", error);
  ck_assert_uint_eq(back.v.count, 1);
  json_t *written = json_of(parts.v.at[0]), *read = json_of(back.v.at[0]);
  same_json(written, read, "report");
  struct opgap_summary *merged = opgap_parts_merge(&back, 0);
  json_t *alone = json_of(merged);
  same_json(written, alone, "report");
  json_decref(written);
  json_decref(read);
  json_decref(alone);
  opgap_summary_free(merged);
  opgap_parts_free(&parts);
  opgap_parts_free(&back);
}
END_TEST

static const struct opgap_sum_file *file_row(const struct opgap_summary *s, const char *name)
{
  for (size_t i = 0; i < s->file_count; i++)
    if (strcmp(s->files[i].path, name) == 0)
      return &s->files[i];
  ck_abort_msg("no file %s", name);
}

START_TEST(test_merge_adds)
{
  struct opgap_parts parts = {0};
  *VEC_PUSH(&parts.v) = part(1, 3000, 8); /* begins 2 ms later */
  *VEC_PUSH(&parts.v) = part(0, 1000, 8);
  struct opgap_summary *s = opgap_parts_merge(&parts, 0);
  ck_assert_uint_eq(s->records, parts.v.at[0]->records + parts.v.at[1]->records);
  ck_assert_uint_eq(s->start_ns, 1000000);
  ck_assert_uint_eq(s->duration_ns, parts.v.at[0]->duration_ns + 2000000);
  ck_assert_uint_eq(s->process_count, 2);
  ck_assert_int_eq(s->processes[0].rank, 0);
  ck_assert_uint_eq(s->processes[1].start_ns - s->processes[0].start_ns, 2000000);
  ck_assert_uint_eq(file_row(s, "/common")->calls, 16);
  ck_assert_uint_eq(file_row(s, "/common")->bytes, 112);
  ck_assert_uint_eq(file_row(s, "/common")->processes, 2);
  ck_assert_uint_eq(file_row(s, "/own/0")->calls, 8);
  ck_assert_uint_eq(file_row(s, "/own/\xfe")->time_ns, 8 * 2000000);
  unsigned rows = 0;
  for (size_t i = 0; i < s->op_count; i++)
    if (strcmp(s->ops[i].name, "aten::mm") == 0) {
      rows++;
      ck_assert_uint_eq(s->ops[i].calls, 16);
      ck_assert_uint_eq(s->ops[i].self_cpu_ns, 8 * 100000 + 8 * 101000);
      ck_assert_uint_eq(s->ops[i].alloc_count, 32);
    }
  ck_assert_uint_eq(rows, 1);
  ck_assert_uint_eq(s->gaps.thread_count, 16);
  ck_assert_uint_eq(s->gaps.thread_ns, 16 * 2000000);
  ck_assert_uint_eq(s->steps.count, 8); /* of the lowest rank */
  ck_assert_int_eq(s->steps.pid, 100);
  /* the second begins 2 ms late and comes 1 ms later in each step */
  ck_assert_uint_eq(s->ranks.count, 2);
  ck_assert_uint_eq(s->ranks.straggler, 1);
  ck_assert_uint_eq(s->ranks.collectives, 7); /* without the first step */
  ck_assert_uint_eq(s->ranks.unmatched, 0);
  opgap_summary_free(s);
  opgap_parts_free(&parts);
}
END_TEST

/* Locks of two ranks, by wait, however long each one's own list is. */
START_TEST(test_merge_orders_locks)
{
  static const uint64_t waits_ms[2][2] = {{5, 1}, {7, 3}};
  struct opgap_parts parts = {0};
  for (int rank = 0; rank < 2; rank++) {
    fake_reset();
    unsigned p = fake_process(100 + rank, 1, "python train.py"), t = fake_thread(p, 100 + rank, "python");
    fake_info(p)->rank = rank;
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, 1000, 1000 + 1000 * waits_ms[rank][0], 0xa, 0, 0);
    fake_call(p, t, 0, FAKE_MUTEX_LOCK, 10000, 10000 + 1000 * waits_ms[rank][1], 0xb, 0, 0);
    *VEC_PUSH(&parts.v) = fake_analyse(&(struct opgap_analysis_options){0});
  }
  struct opgap_summary *s = opgap_parts_merge(&parts, 0);
  static const uint64_t expected_ms[] = {7, 5, 3, 1};
  ck_assert_uint_eq(s->lock_count, 4);
  for (size_t i = 0; i < 4; i++)
    ck_assert_uint_eq(s->locks[i].wait_ns, expected_ms[i] * 1000000);
  opgap_summary_free(s);
  opgap_parts_free(&parts);
}
END_TEST

/* (a + b) + c as a + (b + c): through files, in any order. */
START_TEST(test_merge_in_any_order)
{
  struct opgap_parts parts = {0}, back = {0};
  char error[512] = "";
  for (int rank = 0; rank < 3; rank++)
    *VEC_PUSH(&parts.v) = part(rank, 1000, 6);
  struct opgap_summary *at_once = opgap_parts_merge(&parts, 0);
  struct opgap_parts two = {0}, one = {0};
  *VEC_PUSH(&two.v) = parts.v.at[2];
  *VEC_PUSH(&two.v) = parts.v.at[0];
  *VEC_PUSH(&one.v) = parts.v.at[1];
  write_parts(&one);
  ck_assert(opgap_parts_read(&back, path, error, sizeof error));
  write_parts(&two);
  ck_assert(opgap_parts_read(&back, path, error, sizeof error));
  ck_assert_uint_eq(back.v.count, 3);
  struct opgap_summary *by_files = opgap_parts_merge(&back, 0);
  json_t *left = json_of(at_once), *right = json_of(by_files);
  same_json(left, right, "report");
  json_decref(left);
  json_decref(right);
  opgap_summary_free(at_once);
  opgap_summary_free(by_files);
  VEC_FREE(&two.v);
  VEC_FREE(&one.v);
  opgap_parts_free(&parts);
  opgap_parts_free(&back);
}
END_TEST

/* What is given twice counts once, whether it comes first or last. */
START_TEST(test_repeats_are_left_out)
{
  struct opgap_parts parts = {0};
  char error[512] = "";
  *VEC_PUSH(&parts.v) = part(1, 1000, 8);
  *VEC_PUSH(&parts.v) = part(0, 1000, 8);
  *VEC_PUSH(&parts.v) = part(0, 2000, 8); /* another process: it started later */
  ck_assert_msg(opgap_parts_leave_out_repeats(&parts, error, sizeof error), "%s", error);
  ck_assert_uint_eq(parts.v.count, 3);
  write_parts(&parts);
  ck_assert(opgap_parts_read(&parts, path, error, sizeof error));
  ck_assert_uint_eq(parts.v.count, 6);
  ck_assert_msg(opgap_parts_leave_out_repeats(&parts, error, sizeof error), "%s", error);
  ck_assert_uint_eq(parts.v.count, 3);
  const struct opgap_summary *first = parts.v.at[0];
  ck_assert_uint_eq(first->notice_count, 1);
  char notice[256];
  snprintf(notice, sizeof notice, "%s is given twice: it counts once", first->path);
  ck_assert_str_eq(first->notices[0], notice);
  struct opgap_summary *s = opgap_parts_merge(&parts, 0);
  ck_assert_uint_eq(file_row(s, "/common")->calls, 24);
  opgap_summary_free(s);
  opgap_parts_free(&parts);
}
END_TEST

/* A snapshot of a trace that went on is given before it: what counts is the trace, which has more. */
START_TEST(test_the_fuller_copy_is_used)
{
  for (unsigned snapshot = 0; snapshot < 2; snapshot++) { /* at which place it is given */
    struct opgap_parts parts = {0};
    char error[512] = "";
    for (unsigned i = 0; i < 2; i++) {
      *VEC_PUSH(&parts.v) = part(0, 1000, i == snapshot ? 3 : 8);
      parts.v.at[i]->path = i == snapshot ? "snapshot.opgap" : "whole.opgap";
    }
    ck_assert_msg(opgap_parts_leave_out_repeats(&parts, error, sizeof error), "%s", error);
    ck_assert_uint_eq(parts.v.count, 1);
    ck_assert_str_eq(parts.v.at[0]->path, "whole.opgap");
    ck_assert_uint_eq(file_row(parts.v.at[0], "/common")->calls, 8);
    ck_assert_uint_eq(parts.v.at[0]->notice_count, 1);
    ck_assert_str_eq(parts.v.at[0]->notices[0],
                     "snapshot.opgap has processes of whole.opgap: it is left out, whole.opgap is used");
    opgap_parts_free(&parts);
  }
}
END_TEST

/* Of the gaps that the parts list, the longest, as many as asked for. */
START_TEST(test_merge_lists_gaps)
{
  struct opgap_parts parts = {0};
  for (int rank = 0; rank < 2; rank++)
    *VEC_PUSH(&parts.v) = part(rank, 1000, 40); /* a read of 2 ms a step */
  struct opgap_summary *usual = opgap_parts_merge(&parts, 0), *three = opgap_parts_merge(&parts, 3),
                       *all = opgap_parts_merge(&parts, SIZE_MAX);
  ck_assert_uint_eq(usual->gaps.thread_count, 80);
  ck_assert_uint_eq(usual->gaps.thread_listed, 50);
  ck_assert_uint_eq(three->gaps.thread_listed, 3);
  ck_assert_uint_eq(all->gaps.thread_listed, 80);
  opgap_summary_free(usual);
  opgap_summary_free(three);
  opgap_summary_free(all);
  opgap_parts_free(&parts);
}
END_TEST

/* A part is itself made of two processes, of which another has one: the one lies within, the two overlap. */
START_TEST(test_overlap_is_refused)
{
  struct opgap_parts parts = {0};
  char error[512] = "";
  for (int i = 0; i < 2; i++) {
    fake_reset();
    for (int pid = 100; pid < 102; pid++) {
      unsigned p = fake_process(pid + i, 1, "python train.py"), t = fake_thread(p, pid + i, "python");
      fake_info(p)->start_ns = 1000000;
      fake_op(p, t, 0, 3000, 3100, "aten::mm", 2, 64);
    }
    *VEC_PUSH(&parts.v) = fake_analyse(&(struct opgap_analysis_options){0}); /* 100 and 101, 101 and 102 */
  }
  ck_assert(!opgap_parts_leave_out_repeats(&parts, error, sizeof error));
  ck_assert_msg(strstr(error, ": 1 of its 2 processes are in another part as well") != NULL, "%s", error);
  ck_assert_uint_eq(parts.v.count, 2);
  opgap_parts_free(&parts);
}
END_TEST

static bool tells_other_commands(const char *left, const char *right, int rank)
{
  struct opgap_parts parts = {0};
  for (int i = 0; i < 2; i++) {
    fake_reset();
    unsigned p = fake_process(100 + i, 1, i ? right : left), t = fake_thread(p, 100 + i, "python");
    fake_info(p)->rank = rank < 0 ? -1 : rank + i;
    fake_op(p, t, 0, 3000, 3100, "aten::mm", 2, 64);
    *VEC_PUSH(&parts.v) = fake_analyse(&(struct opgap_analysis_options){0});
  }
  struct opgap_summary *s = opgap_parts_merge(&parts, 0);
  bool tells = false;
  for (size_t i = 0; i < s->notice_count; i++)
    tells = tells || strcmp(s->notices[i], "the parts are runs of different commands") == 0;
  opgap_summary_free(s);
  opgap_parts_free(&parts);
  return tells;
}

START_TEST(test_other_commands_are_told)
{
  ck_assert(tells_other_commands("python train.py", "python other.py", -1));
  ck_assert(!tells_other_commands("python train.py", "python train.py", -1));
  ck_assert(!tells_other_commands("python train.py --node 0", "python train.py --node 1", 0)); /* ranks of one job */
}
END_TEST

/* One change of a written file, and what must be said. */
static void refused(const char *from, const char *to, const char *says)
{
  struct opgap_parts parts = {0}, back = {0};
  char error[512] = "";
  *VEC_PUSH(&parts.v) = part(0, 1000, 3);
  write_parts(&parts);
  FILE *file = fopen(path, "r");
  static char text[1 << 20], changed[1 << 20];
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  char *at = strstr(text, from);
  ck_assert_msg(at != NULL, "no %s", from);
  snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  file = fopen(path, "w");
  fputs(changed, file);
  fclose(file);
  ck_assert_msg(!opgap_parts_read(&back, path, error, sizeof error), "%s -> %s was accepted", from, to);
  ck_assert_msg(strstr(error, says) != NULL, "%s -> %s: %s", from, to, error);
  ck_assert_msg(strchr(error, '\n') == NULL, "more than one line: %s", error);
  opgap_parts_free(&back);
  opgap_parts_free(&parts);
}

START_TEST(test_bad_files)
{
  refused("\"schema\":1", "\"schema\":2", "schema");
  refused("opgap-summary", "opgap-baseline", "not a summary");
  refused("\"role\":3", "\"role\":99", "does not know");
  refused("\"role\":3", "\"role\":-1", "no such number");
  refused("\"records\":", "\"recorded\":", "\"records\" is missing");
  refused("\"complete\":true", "\"complete\":1", "neither true nor false");
  refused("\"ops\":[", "\"ops\":[7,", "no object");
  refused("\"durations_ns\":[", "\"durations_ns\":[1,", "another length");
  refused("\"parts\":[", "\"parts\":[],\"others\":[", "no part");
  refused("}", "", "not a whole summary");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("parts");
  TCase *cases = new_case("parts");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_add_test(cases, test_read_is_what_was_written);
  tcase_add_test(cases, test_merge_adds);
  tcase_add_test(cases, test_merge_orders_locks);
  tcase_add_test(cases, test_merge_in_any_order);
  tcase_add_test(cases, test_repeats_are_left_out);
  tcase_add_test(cases, test_the_fuller_copy_is_used);
  tcase_add_test(cases, test_merge_lists_gaps);
  tcase_add_test(cases, test_overlap_is_refused);
  tcase_add_test(cases, test_other_commands_are_told);
  tcase_add_test(cases, test_bad_files);
  suite_add_tcase(suite, cases);
  return run_suite(suite);
}
