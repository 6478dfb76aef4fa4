/* opgap top: follows a running job.
 *
 * The trace stays open and is refreshed, so each look costs what was written since the one before, however long the job
 * has run.  A look covers the time since the one before.
 */
#include "opgap.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "analysis/pool.h"
#include "output/live.h"
#include "screen.h"

#define NAME "top"
#define SHORTEST_NS 100000000u
#define GRACE 2u /* looks without a running process until the job counts as ended: exec leaves a moment without */

struct options {
  const char *trace;
  uint64_t interval_ns, count, limit;
  bool count_given;
};

struct watch {
  const struct options *options;
  struct opgap_trace *trace;
  bool terminal;
  uint64_t looks, looked_ns; /* the last look, on the trace's clock */
  uint64_t records, lost;
  uint64_t steps, last_end_ns, last_step_ns; /* 0, 0, OPGAP_UNKNOWN: no step was seen */
  unsigned quiet;                            /* looks without a running process */
};

static void print_help(void)
{
  puts("Usage: opgap top [OPTIONS] [TRACE]\n"
       "\n"
       "Follows a running job: steps a second, use of GPUs, wait for data, hot ops of the last interval, processes,\n"
       "lost records.  TRACE is a folder NAME.opgap or one file of it; without it, the newest NAME.opgap of this\n"
       "folder, or this folder itself.  It ends with the job; q and Ctrl-C end it before.  The job is not touched.\n"
       "\n"
       "  --interval TIME   time between two looks, for example 500ms (default: 2s; at least 100ms)\n"
       "  --count N         print N looks one after the other, as where stdout is no terminal, and end\n"
       "  --once            the same as --count 1\n"
       "  --limit N         ops and processes shown, 0 for all (default: 10)\n"
       "  --help            this text\n"
       "\n"
       "Exit status: 0 done, or the job has ended; 2 wrong usage or unreadable trace; 4 the same as 0, but bytes of "
       "the\n"
       "trace are damaged or missing.");
}

enum { OPT_INTERVAL = 256, OPT_COUNT, OPT_ONCE, OPT_LIMIT };
static const struct option long_options[] = {{"interval", required_argument, NULL, OPT_INTERVAL},
                                             {"count", required_argument, NULL, OPT_COUNT},
                                             {"once", no_argument, NULL, OPT_ONCE},
                                             {"limit", required_argument, NULL, OPT_LIMIT},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static int set_option(void *context, int option, const char *value)
{
  struct options *options = context;
  switch (option) {
  case OPT_INTERVAL:
    if (!opgap_parse_time(value, &options->interval_ns) || options->interval_ns < SHORTEST_NS)
      return opgap_usage_error(NAME, "--interval %s: must be a time such as 500ms or 2s, at least 100ms", value);
    break;
  case OPT_COUNT:
    if (!opgap_parse_number(value, &options->count) || options->count == 0)
      return opgap_usage_error(NAME, "--count %s: must be a number above 0", value);
    options->count_given = true;
    break;
  case OPT_LIMIT:
    if (!opgap_parse_number(value, &options->limit))
      return opgap_usage_error(NAME, "--limit %s: must be a number of rows, 0 for all", value);
    break;
  default:
    options->count = 1;
    options->count_given = true;
  }
  return 0;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct options *options)
{
  int code = opgap_options(NAME, argc, argv, ":h", long_options, print_help, set_option, options);
  if (code >= 0)
    return code;
  if (argc - optind > 1)
    return opgap_usage_error(NAME, "one trace at a time: %s is too many", argv[optind + 1]);
  options->trace = argv[optind];
  return -1;
}

/* ---- the state of the job ---- */

/* A process whose ring cannot be read (private memory, another host) cannot be judged by it: it runs while it writes.
 */
static bool runs(const struct opgap_process_info *p, uint64_t now_ns)
{
  return p->ended == OPGAP_ENDED_RUNNING ||
         (p->ended == OPGAP_ENDED_UNKNOWN && p->end_ns + 10000000000u > now_ns && kill(p->pid, 0) == 0);
}

static bool job_runs(const struct watch *watch, uint64_t now_ns)
{
  for (unsigned i = 0; i < opgap_trace_process_count(watch->trace); i++)
    if (runs(opgap_trace_process(watch->trace, i), now_ns))
      return true;
  return false;
}

/* The last time that the trace knows: now, while a process runs. */
static uint64_t latest(const struct opgap_trace *trace)
{
  uint64_t latest_ns = 0;
  for (unsigned i = 0; i < opgap_trace_process_count(trace); i++)
    if (opgap_trace_process(trace, i)->end_ns > latest_ns)
      latest_ns = opgap_trace_process(trace, i)->end_ns;
  return latest_ns;
}

static int by_value(const void *left, const void *right)
{
  uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
  return l < r ? -1 : l > r;
}

/* The summary knows steps from the kept part of the trace only, so a step's start comes from the end of the one before,
 * which may have been seen at the last look. */
static void count_steps(struct watch *watch, const struct opgap_summary *s, struct opgap_live *live)
{
  uint64_t *durations = opgap_xcalloc(s->steps.count + 1, sizeof *durations);
  size_t known = 0;
  for (size_t i = 0; i < s->steps.count; i++) {
    uint64_t end = s->start_ns + s->steps.start_ns[i] + s->steps.durations_ns[i];
    if (end <= watch->last_end_ns)
      continue;
    if (watch->last_end_ns > 0)
      durations[known++] = watch->last_step_ns = end - watch->last_end_ns;
    watch->last_end_ns = end;
    watch->steps++;
    live->steps++;
  }
  qsort(durations, known, sizeof *durations, by_value);
  live->median_ns = known > 0 ? durations[(known - 1) / 2] : OPGAP_UNKNOWN;
  live->all_steps = watch->steps;
  live->last_step_ns = watch->last_step_ns;
  live->since_step_ns = watch->last_end_ns > 0 ? watch->looked_ns - watch->last_end_ns : OPGAP_UNKNOWN;
  free(durations);
}

static void count_records(struct watch *watch, const struct opgap_summary *s, struct opgap_live *live)
{
  live->new_records = watch->looks > 0 ? s->records - watch->records : OPGAP_UNKNOWN;
  live->new_lost = watch->looks > 0 ? s->lost_records - watch->lost : OPGAP_UNKNOWN;
  watch->records = s->records;
  watch->lost = s->lost_records;
}

/* ---- looking ---- */

/* Analyses the time since the last look.  NULL: error[size] says why. */
static struct opgap_summary *look(struct watch *watch, struct opgap_live *live, char *error, size_t size)
{
  const struct options *options = watch->options;
  uint64_t from_ns = watch->looked_ns;
  /* chunks of one interval more: what began before, such as the first step, is then known in full */
  uint64_t keep_ns = from_ns > options->interval_ns ? from_ns - options->interval_ns : 0;
  if (watch->looks > 0 && !opgap_trace_refresh(watch->trace, keep_ns, error, size))
    return NULL;
  watch->looked_ns = latest(watch->trace);
  if (watch->looks == 0)
    from_ns = watch->looked_ns > options->interval_ns ? watch->looked_ns - options->interval_ns : 0;
  live->interval_ns = watch->looked_ns > from_ns ? watch->looked_ns - from_ns : 0;
  struct opgap_analysis_options analysis = {.from_ns = from_ns};
  struct opgap_source source = opgap_source_of_trace(watch->trace, options->trace);
  struct opgap_summary *summary = opgap_analyse(&source, &analysis, error, size);
  if (summary == NULL)
    return NULL;
  count_steps(watch, summary, live);
  count_records(watch, summary, live);
  watch->quiet = job_runs(watch, watch->looked_ns) ? 0 : watch->quiet + 1;
  live->running = watch->quiet == 0;
  watch->looks++;
  return summary;
}

static void print_look(const struct watch *watch, const struct opgap_summary *summary, const struct opgap_live *live,
                       FILE *file)
{
  struct opgap_output_options output = {.limit = watch->options->limit,
                                        .width = opgap_terminal_width(stdout),
                                        .colour = watch->terminal && opgap_terminal_colour()};
  opgap_output_live(summary, live, &output, file);
}

static void draw(const struct watch *watch, const struct opgap_summary *summary, const struct opgap_live *live)
{
  char *text = NULL;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  if (memory == NULL)
    return;
  print_look(watch, summary, live, memory);
  fclose(memory);
  if (text != NULL)
    screen_draw(text);
  free(text);
}

static bool done(const struct watch *watch)
{
  /* a trace that nobody wrote at the first look ended long ago */
  return watch->quiet >= (watch->quiet == watch->looks ? 1 : GRACE) ||
         (watch->options->count_given && watch->looks >= watch->options->count);
}

/* Shows a look until it is time for the next.  False: the user wants to end. */
static bool show(const struct watch *watch, const struct opgap_summary *summary, const struct opgap_live *live,
                 uint64_t until_ns)
{
  enum screen_event event;
  if (!watch->terminal) {
    if (watch->looks > 1)
      putchar('\n');
    print_look(watch, summary, live, stdout);
    fflush(stdout);
  }
  do {
    if (watch->terminal)
      draw(watch, summary, live);
    event = done(watch) ? SCREEN_TIME : screen_wait(until_ns);
  } while (event == SCREEN_RESIZED);
  return event == SCREEN_TIME;
}

static int follow(struct watch *watch)
{
  char error[1024] = "";
  uint64_t next_ns = opgap_monotonic_ns();
  for (;;) {
    struct opgap_live live = {0};
    struct opgap_summary *summary = look(watch, &live, error, sizeof error);
    if (summary == NULL) {
      screen_close();
      return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
    }
    next_ns += watch->options->interval_ns;
    if (next_ns < opgap_monotonic_ns()) /* a look that took longer than the interval */
      next_ns = opgap_monotonic_ns();
    /* the look that only confirms the end has nothing to show */
    bool confirms = watch->quiet >= GRACE && live.new_records == 0;
    bool go_on = confirms || show(watch, summary, &live, next_ns);
    if (!go_on || done(watch)) {
      screen_close();
      if (go_on && watch->terminal) /* the last look stays on the screen */
        print_look(watch, summary, &live, stdout);
      if (go_on && watch->quiet > 0)
        puts("\nThe job has ended.");
      int code = opgap_summary_exit(summary);
      opgap_summary_free(summary);
      return code;
    }
    opgap_summary_free(summary);
    if (ferror(stdout)) {
      screen_close();
      return opgap_fail(OPGAP_EXIT_USAGE, "cannot write the output: %s", strerror(errno));
    }
  }
}

int opgap_cmd_top(int argc, char **argv)
{
  struct options options = {.interval_ns = 2000000000u, .limit = 10};
  char error[1024] = "", *newest = NULL;
  int code = parse(argc, argv, &options);
  if (code >= 0)
    return code;
  if (options.trace == NULL)
    options.trace = newest = opgap_newest_trace(".");
  if (options.trace == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "there is no trace (NAME.opgap) in this folder: give its path");
  const char *term = getenv("TERM");
  struct watch watch = {.options = &options, .last_step_ns = OPGAP_UNKNOWN};
  watch.terminal = !options.count_given && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term != NULL &&
                   strcmp(term, "dumb") != 0;
  watch.trace = opgap_trace_open(options.trace, error, sizeof error);
  if (watch.trace == NULL) {
    code = opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  } else {
    screen_open(watch.terminal);
    code = follow(&watch);
    opgap_trace_close(watch.trace);
  }
  free(newest);
  return code;
}
