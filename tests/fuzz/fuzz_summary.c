/* Fuzzes the summaries of parts: any bytes give parts or one line that says why not; what was accepted can be merged,
 * with itself too, printed in every format, and written and read again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/parts.h"
#include "output/output.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
  fprintf(stderr, "fuzz_summary: %s\n", what);
  abort();
}

static void print_all(struct opgap_summary *s, FILE *file)
{
  const struct opgap_output_options options = {.width = 100};
  opgap_output_text(s, &options, file);
  opgap_output_markdown(s, &options, file);
  for (int table = 0; table < OPGAP_CSV_COUNT; table++)
    opgap_output_csv(s, &options, (enum opgap_csv_table)table, file);
  char *text = opgap_output_json(s, &options);
  if (text == NULL)
    fail("no JSON");
  free(text);
}

static void read_again(struct opgap_parts *parts)
{
  char *text = NULL, error[512] = "";
  size_t size = 0, count = parts->v.count;
  FILE *file = open_memstream(&text, &size);
  if (file == NULL || !opgap_parts_write(parts, file))
    fail("cannot write what was read");
  fclose(file);
  if (!opgap_parts_parse(parts, text, size, "again", error, sizeof error) || parts->v.count != 2 * count)
    fail(error);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static FILE *sink;
  struct opgap_parts parts = {0};
  char error[512] = "";
  if (sink == NULL)
    sink = fopen("/dev/null", "w");
  bool good = opgap_parts_parse(&parts, (const char *)data, size, "input", error, sizeof error);
  if (!good && (error[0] == '\0' || strchr(error, '\n') != NULL))
    fail("not one line about what is wrong");
  if (good) {
    read_again(&parts);
    struct opgap_summary *s = opgap_parts_merge(&parts, 0);
    print_all(s, sink);
    opgap_summary_free(s);
  }
  opgap_parts_free(&parts);
  return 0;
}
