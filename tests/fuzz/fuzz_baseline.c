/* Fuzzes the baseline reader, the comparison and every output of it: any bytes give a baseline or one line that says
 * why not, and what was accepted can be compared, printed and read again.
 *
 * With an engine:  clang -fsanitize=fuzzer,address -DOPGAP_FUZZ_ENGINE ... (LLVMFuzzerTestOneInput)
 * Without:         fuzz_baseline SEED.json ITERATIONS replays the seed with deterministic changes, as a test.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
  fprintf(stderr, "fuzz_baseline: %s\n", what);
  abort();
}

static void print_all(const struct opgap_runs *runs, FILE *file)
{
  const struct opgap_compare_options options = {.judge = true, .resamples = 4};
  const struct opgap_gate_output output = {.update = "update", .all = true};
  struct opgap_comparison *c = opgap_compare(runs, runs, &options);
  if (c->verdict == OPGAP_REGRESSED || c->verdict == OPGAP_IMPROVED)
    fail("runs differ from themselves");
  opgap_gate_text(c, &output, file);
  opgap_gate_markdown(c, &output, file);
  opgap_gate_json(c, &output, file);
  opgap_gate_junit(c, &output, file);
  opgap_gate_github(c, &output, file);
  opgap_gate_svg(c, file);
  opgap_comparison_free(c);
}

/* What is written must be read again, as the same. */
static void write_again(const struct opgap_runs *runs)
{
  char *text[2] = {NULL, NULL}, error[512] = "";
  size_t size[2] = {0, 0};
  FILE *file = open_memstream(&text[0], &size[0]);
  if (file == NULL || !opgap_baseline_write(runs, file))
    fail("cannot write what was read");
  fclose(file);
  struct opgap_runs *again = opgap_baseline_parse(text[0], size[0], "again", error, sizeof error);
  if (again == NULL)
    fail(error);
  file = open_memstream(&text[1], &size[1]);
  if (file == NULL || !opgap_baseline_write(again, file))
    fail("cannot write it again");
  fclose(file);
  if (size[0] != size[1] || memcmp(text[0], text[1], size[0]) != 0)
    fail("written twice, it differs");
  opgap_runs_free(again);
  free(text[0]);
  free(text[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char error[512] = "";
  struct opgap_runs *runs = opgap_baseline_parse((const char *)data, size, "fuzz", error, sizeof error);
  if (runs == NULL) {
    if (error[0] == '\0' || strchr(error, '\n') != NULL)
      fail("refused without one line that says why");
    return 0;
  }
  char *text = NULL;
  size_t length = 0;
  FILE *file = open_memstream(&text, &length);
  if (file == NULL)
    fail("out of memory");
  print_all(runs, file);
  fclose(file);
  free(text);
  write_again(runs);
  opgap_runs_free(runs);
  return 0;
}

#ifndef OPGAP_FUZZ_ENGINE

static uint64_t state = 1;

static size_t below(size_t limit)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return limit ? (size_t)((state >> 33) % limit) : 0;
}

/* One change of `text`, which has room for 64 bytes more. */
static size_t change(char *text, size_t length)
{
  static const char *const tokens[] = {"0",
                                       "-1",
                                       "9007199254740992",
                                       "9007199254740993",
                                       "1e308",
                                       "null",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "true",
                                       "\\u0000",
                                       "\xff",
                                       "4096",
                                       "4097",
                                       ",",
                                       "\"",
                                       "1.5"};
  size_t at = below(length), end = at + below(length - at < 24 ? length - at : 24);
  const char *token = tokens[below(sizeof tokens / sizeof *tokens)];
  switch (below(5)) {
  case 0: /* a bit */
    text[at] = (char)(text[at] ^ 1 << below(8));
    return length;
  case 1: /* cut out */
    memmove(text + at, text + end, length - end);
    return length - (end - at);
  case 2: /* a number becomes another */
    while (at < length && (text[at] < '0' || text[at] > '9'))
      at++;
    for (end = at; end < length && text[end] >= '0' && text[end] <= '9';)
      end++;
    break;
  case 3: /* cut off */
    return below(4) == 0 ? at : length;
  default:
    end = at;
  }
  size_t size = strlen(token);
  if (at >= length || length - (end - at) + size > length + 64)
    return length;
  memmove(text + at + size, text + end, length - end);
  memcpy(text + at, token, size);
  return length - (end - at) + size;
}

int main(int argc, char **argv)
{
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  static char seed[1 << 16];
  size_t length = file ? fread(seed, 1, sizeof seed, file) : 0, accepted = 0;
  long iterations = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
  if (length == 0 || length == sizeof seed || iterations <= 0) {
    fprintf(stderr, "usage: fuzz_baseline SEED.json ITERATIONS\n");
    return 2;
  }
  fclose(file);
  for (long i = 0; i < iterations; i++) {
    char *text = malloc(length + 64 * 4), error[512];
    size_t size = length;
    memcpy(text, seed, length);
    for (size_t changes = i == 0 ? 0 : 1 + below(3); changes > 0 && size > 0; changes--)
      size = change(text, size);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
    struct opgap_runs *runs = opgap_baseline_parse(text, size, "fuzz", error, sizeof error);
    accepted += runs != NULL;
    opgap_runs_free(runs);
    free(text);
  }
  printf("%ld inputs, %zu accepted\n", iterations, accepted);
  return accepted == 0 || accepted == (size_t)iterations; /* then the changes test nothing */
}
#endif
