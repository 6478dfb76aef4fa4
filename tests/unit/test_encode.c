/* The encoder in a forked child: its copy was made at any moment of a chunk that another thread had in the making.  And
 * the checksum. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/arena.h"
#include "format/encode.h"
#include "suite.h"

#define FORKS 1000 /* without the order in encode.c one in some hundred sees it */

static struct opgap_encoder encoder;
static uint64_t words[OPGAP_ENCODE_MAX_WORDS]; /* a record of each builtin event */
static size_t word_count;
static uint8_t wanted[OPGAP_ENCODE_BUFFER], made[OPGAP_ENCODE_BUFFER];
static atomic_bool stop;

static void add_chunk(void)
{
  opgap_encode_begin(&encoder, NULL);
  opgap_encode_add(&encoder, words, word_count, 0, OPGAP_ENCODE_MAX_WORDS);
}

static void *add_chunks(void *unused)
{
  while (!atomic_load(&stop))
    add_chunk();
  return unused;
}

START_TEST(copy_of_a_forked_child)
{
  unsigned count;
  const struct opgap_event *events = opgap_schema_builtin(&count);
  opgap_encoder_init(&encoder, NULL, 0);
  for (unsigned i = 0; i < count; i++) {
    unsigned size = encoder.shapes[events[i].id].words;
    words[word_count] = OPGAP_WORD0(events[i].id, size, 0, 0);
    word_count += size;
  }
  add_chunk();
  struct opgap_encoded whole = opgap_encode_end(&encoder, wanted);
  ck_assert_uint_eq(whole.records, count);
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, add_chunks, NULL), 0);
  for (int i = 0; i < FORKS; i++) {
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
      opgap_encoder_init(&encoder, NULL, 0);
      add_chunk();
      struct opgap_encoded encoded = opgap_encode_end(&encoder, made);
      _exit(encoded.bytes != whole.bytes || memcmp(made, wanted, whole.bytes) != 0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
}
END_TEST

/* By the definition, bit by bit. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *p, size_t size)
{
  crc = ~crc;
  for (size_t i = 0; i < size; i++) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* The checksum's table, and what a CPU does that multiplies without carries, which is asked once much has been summed:
 * every length that these divide differently, and every way to split one. */
START_TEST(checksums)
{
  enum { BYTES = 400000, SHORT = 330 };
  static uint8_t bytes[BYTES];
  uint32_t random = 1;
  for (size_t i = 0; i < BYTES; i++)
    bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
  ck_assert_uint_eq(opgap_crc32(0, "123456789", 9), 0xcbf43926); /* the check value of CRC-32/ISO-HDLC */
  for (int often = 0; often < 2; often++) {
    for (size_t size = 0; size <= SHORT; size++)
      for (size_t at = 0; at < 16; at++)
        EACH_ASSERT_UINT(opgap_crc32((uint32_t)at, bytes + at, size), ==, slow_crc((uint32_t)at, bytes + at, size));
    for (size_t cut = 0; cut <= SHORT; cut++)
      EACH_ASSERT_UINT(opgap_crc32(opgap_crc32(0, bytes, cut), bytes + cut, SHORT - cut), ==,
                       slow_crc(0, bytes, SHORT));
    ck_assert_uint_eq(opgap_crc32(0, bytes, BYTES), slow_crc(0, bytes, BYTES));
    ck_assert_uint_eq(opgap_crc32(opgap_crc32(0, bytes, 1000), bytes + 1000, BYTES - 1000), slow_crc(0, bytes, BYTES));
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("encode");
  TCase *tests = new_case("encode");
  tcase_add_test(tests, copy_of_a_forked_child);
  tcase_add_test(tests, checksums);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
