/* opgap report: reads a trace and prints what it says. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "output/output.h"
#include "opgap.h"
#include "format/recover.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_MARKDOWN, FORMAT_COUNT };
static const char *const formats[FORMAT_COUNT] = {"text", "json", "csv", "markdown"};

struct request {
  const char *trace;
  enum format format;
  enum opgap_csv_table table;
  bool limit_given;
  struct opgap_analysis_options analysis;
  struct opgap_output_options output;
};

static void help(void)
{
  puts("Usage: opgap report [options] [TRACE]\n"
       "\n"
       "Prints hot ops, idle gaps and their causes, files, memory, locks, steps and a verdict.\n"
       "TRACE is a folder NAME.opgap or one file of it; without it, the newest NAME.opgap of this folder.\n"
       "\n"
       "  --format FORMAT     text, json, csv or markdown (default: text)\n"
       "  --table TABLE       with csv: ops, calls, files, gaps, steps, processes or locks (default: ops)\n"
       "  --sort COLUMN       order of ops: self_cpu (default), total_cpu, avg, calls, blocked, allocs,\n"
       "                      alloc_bytes, self_gpu, total_gpu or name\n"
       "  --limit N           rows of each table, 0 for all (default: 15 for text and markdown, else all)\n"
       "  --process WHO       only the process with this pid, or those whose role holds this text (worker 1)\n"
       "  --steps A:B         only the time of steps A to B, counted from 0\n"
       "  --min-gap TIME      shortest GPU gap, for example 50us or 1ms (default: 20us)\n"
       "  --min-thread-gap TIME  shortest gap of a thread (default: 1ms)\n"
       "  --help              this text\n"
       "\n"
       "Exit status: 0 done; 2 wrong usage or unreadable trace; 4 printed, but bytes of the trace are damaged or "
       "missing.");
}

enum {
  OPT_FORMAT = 256,
  OPT_TABLE,
  OPT_SORT,
  OPT_LIMIT,
  OPT_PROCESS,
  OPT_STEPS,
  OPT_MIN_GAP,
  OPT_MIN_THREAD_GAP,
  OPT_HELP
};

static const struct option options[] = {{"format", required_argument, NULL, OPT_FORMAT},
                                        {"table", required_argument, NULL, OPT_TABLE},
                                        {"sort", required_argument, NULL, OPT_SORT},
                                        {"limit", required_argument, NULL, OPT_LIMIT},
                                        {"process", required_argument, NULL, OPT_PROCESS},
                                        {"steps", required_argument, NULL, OPT_STEPS},
                                        {"min-gap", required_argument, NULL, OPT_MIN_GAP},
                                        {"min-thread-gap", required_argument, NULL, OPT_MIN_THREAD_GAP},
                                        {"help", no_argument, NULL, OPT_HELP},
                                        {NULL, 0, NULL, 0}};

/* 0, or the exit code of a wrong value. */
static int set_option(struct request *request, int option, const char *value)
{
  uint64_t number;
  switch (option) {
  case OPT_FORMAT: {
    int f = 0;
    while (f < FORMAT_COUNT && strcmp(value, formats[f]) != 0)
      f++;
    if (f == FORMAT_COUNT)
      return opgap_usage_error("report", "--format %s: must be text, json, csv or markdown", value);
    request->format = (enum format)f;
    return 0;
  }
  case OPT_TABLE:
    request->table = opgap_csv_parse(value);
    if (request->table == OPGAP_CSV_COUNT)
      return opgap_usage_error("report", "--table %s: must be ops, calls, files, gaps, steps, processes or locks",
                               value);
    return 0;
  case OPT_SORT:
    request->output.sort = opgap_sort_parse(value);
    if (request->output.sort == OPGAP_SORT_COUNT)
      return opgap_usage_error("report", "--sort %s: must be one of %s", value, opgap_sort_names());
    return 0;
  case OPT_LIMIT:
    if (!opgap_parse_number(value, &number))
      return opgap_usage_error("report", "--limit %s: must be a number of rows, 0 for all", value);
    request->output.limit = number;
    request->limit_given = true;
    return 0;
  case OPT_PROCESS:
    request->analysis.process = value;
    return 0;
  case OPT_STEPS:
    request->analysis.steps_given =
        opgap_parse_steps(value, &request->analysis.first_step, &request->analysis.last_step);
    if (!request->analysis.steps_given)
      return opgap_usage_error("report", "--steps %s: must be A:B, the first and last step, counted from 0", value);
    return 0;
  case OPT_MIN_GAP:
    if (!opgap_parse_time(value, &request->analysis.gpu_min_gap_ns) || request->analysis.gpu_min_gap_ns == 0)
      return opgap_usage_error("report", "--min-gap %s: must be a time such as 50us or 1ms", value);
    return 0;
  case OPT_MIN_THREAD_GAP:
    if (!opgap_parse_time(value, &request->analysis.thread_min_gap_ns) || request->analysis.thread_min_gap_ns == 0)
      return opgap_usage_error("report", "--min-thread-gap %s: must be a time such as 50us or 1ms", value);
    return 0;
  default:
    return OPGAP_EXIT_USAGE;
  }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
  int option;
  optind = 0;
  opterr = 0;
  while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
    if (option == OPT_HELP || option == 'h') {
      help();
      return OPGAP_EXIT_DONE;
    }
    if (option == '?')
      return opgap_usage_error("report", "unknown option %s", argv[optind - 1]);
    if (option == ':')
      return opgap_usage_error("report", "%s needs a value", argv[optind - 1]);
    int code = set_option(request, option, optarg);
    if (code != 0)
      return code;
  }
  if (optind < argc)
    request->trace = argv[optind++];
  /* options may follow the trace */
  if (optind < argc && argv[optind][0] == '-') {
    argv[optind - 1] = argv[0];
    return parse(argc - optind + 1, argv + optind - 1, request);
  }
  if (optind < argc)
    return opgap_usage_error("report", "one trace at a time: %s is too many (opgap diff compares)", argv[optind]);
  return -1;
}

/* ---- output ---- */

static unsigned terminal_width(void)
{
  struct winsize size;
  if (!isatty(STDOUT_FILENO))
    return 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

static bool want_colour(void)
{
  const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && (no_colour == NULL || no_colour[0] == '\0') &&
         (term == NULL || strcmp(term, "dumb") != 0);
}

static int print(const struct opgap_summary *summary, struct request *request)
{
  struct opgap_output_options *output = &request->output;
  if (!request->limit_given && (request->format == FORMAT_TEXT || request->format == FORMAT_MARKDOWN))
    output->limit = 15;
  if (request->format == FORMAT_TEXT) {
    output->width = opgap_output_width(getenv("COLUMNS"), terminal_width());
    output->colour = want_colour();
    opgap_output_text(summary, output, stdout);
  } else if (request->format == FORMAT_MARKDOWN) {
    opgap_output_markdown(summary, output, stdout);
  } else if (request->format == FORMAT_CSV) {
    opgap_output_csv(summary, output, request->table, stdout);
  } else {
    char *text = opgap_output_json(summary, output);
    if (text == NULL)
      return opgap_fail(OPGAP_EXIT_USAGE, "out of memory");
    puts(text);
    free(text);
  }
  if (fflush(stdout) != 0 || ferror(stdout))
    return opgap_fail(OPGAP_EXIT_USAGE, "cannot write the report: %s", strerror(errno));
  return summary->complete ? OPGAP_EXIT_DONE : OPGAP_EXIT_DAMAGED;
}

static int report(struct opgap_trace *trace, struct request *request)
{
  char error[1024] = "";
  struct opgap_progress progress;
  struct opgap_source source = opgap_source_of_trace(trace, request->trace);
  opgap_progress_begin(&progress, "reading the trace");
  request->analysis.progress = opgap_progress_show;
  request->analysis.progress_context = &progress;
  struct opgap_summary *summary = opgap_analyse(&source, &request->analysis, error, sizeof error);
  opgap_progress_end(&progress);
  if (summary == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  int code = print(summary, request);
  opgap_summary_free(summary);
  return code;
}

int opgap_cmd_report(int argc, char **argv)
{
  struct request request = {0};
  char error[1024] = "", *newest = NULL;
  int code = parse(argc, argv, &request);
  if (code >= 0)
    return code;
  if (request.trace == NULL)
    request.trace = newest = opgap_newest_trace(".");
  if (request.trace == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE,
                      "there is no trace (NAME.opgap) in this folder: give its path, or make one with "
                      "opgap record -- PROGRAM");
  opgap_trace_recover(request.trace);
  struct opgap_trace *trace = opgap_trace_open(request.trace, error, sizeof error);
  if (trace == NULL) {
    code = opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  } else {
    code = report(trace, &request);
    opgap_trace_close(trace);
  }
  free(newest);
  return code;
}
