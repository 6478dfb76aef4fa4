/* opgap baseline: makes the file that opgap gate compares with. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/baseline.h"
#include "opgap.h"

static void help(void)
{
  puts("Usage: opgap baseline -o FILE RUN...\n"
       "\n"
       "Makes a baseline from the traces of one program, run any number of times: per-step samples, exact counters,\n"
       "the machine and the command.  FILE is JSON, to be committed to a repository and given to opgap gate.\n"
       "\n"
       "  -o, --output FILE   where to write; - is standard output\n"
       "  --help              this text\n"
       "\n"
       "Exit status: 0 done; 2 wrong usage, unreadable trace or runs that are not repeats of each other;\n"
       "3 a run cannot serve as a baseline: no steps, lost records or a damaged trace.");
}

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

/* A baseline that every gate would refuse must not be written. */
static int check(const struct opgap_runs *runs)
{
  for (size_t i = 0; i < runs->run_count; i++) {
    const struct opgap_run *run = &runs->runs[i];
    if (run->damage != NULL)
      return opgap_fail(OPGAP_EXIT_INCOMPARABLE, "the trace is damaged: %s", run->damage);
    if (run->lost_records > 0)
      return opgap_fail(OPGAP_EXIT_INCOMPARABLE, "%s lost %llu records: its counts are not exact", run->path,
                        (unsigned long long)run->lost_records);
    if (run->lost_threads > 0)
      return opgap_fail(OPGAP_EXIT_INCOMPARABLE, "%s lost %llu threads: its counts are not exact", run->path,
                        (unsigned long long)run->lost_threads);
    if (run->size_reached)
      return opgap_fail(OPGAP_EXIT_INCOMPARABLE, "%s was recorded only up to the size that OPGAP_MAX_SIZE allows",
                        run->path);
    if (run->steps == 0)
      return opgap_fail(OPGAP_EXIT_INCOMPARABLE, "%s has no steps after warm-up: nothing to compare per step",
                        run->path);
  }
  return OPGAP_EXIT_DONE;
}

static bool write_runs(void *runs, FILE *file)
{
  return opgap_baseline_write(runs, file);
}

static int baseline(const char *const *paths, size_t count, const char *output)
{
  char error[1024] = "";
  int code = opgap_check_output(output);
  if (code != OPGAP_EXIT_DONE)
    return code;
  struct opgap_runs *runs = opgap_runs_open(paths, count, 0, error, sizeof error);
  if (runs == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  code = check(runs);
  if (code == OPGAP_EXIT_DONE)
    code = opgap_write_file(output, write_runs, runs);
  if (code == OPGAP_EXIT_DONE && strcmp(output, "-") != 0)
    fprintf(stderr, "opgap: %s: %zu run%s, %llu steps\n", output, runs->run_count, runs->run_count == 1 ? "" : "s",
            (unsigned long long)runs->steps);
  opgap_runs_free(runs);
  return code;
}

int opgap_cmd_baseline(int argc, char **argv)
{
  const char *output = NULL;
  int code = opgap_options("baseline", argc, argv, ":o:h", options, help, opgap_take_text, &output);
  if (code >= 0)
    return code;
  if (output == NULL)
    return opgap_usage_error("baseline", "where to? give -o FILE");
  if (optind == argc)
    return opgap_usage_error("baseline", "which runs? give one trace or more");
  return baseline((const char *const *)argv + optind, (size_t)(argc - optind), output);
}
