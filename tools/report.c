/* opgap report: reads a trace and prints what it says. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/stacks.h"
#include "format/recover.h"
#include "output/output.h"
#include "output/stacks.h"
#include "opgap.h"
#include "parts.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_MARKDOWN, FORMAT_COLLAPSED, FORMAT_COUNT };
static const char *const formats[FORMAT_COUNT] = {"text", "json", "csv", "markdown", "collapsed"};

struct request {
  const char *const *paths; /* traces and summaries */
  size_t path_count;
  const char *summary_out;
  enum format format;
  enum opgap_csv_table table;
  enum opgap_stack_by by; /* OPGAP_BY_COUNT: the report */
  bool limit_given, table_given, sort_given;
  struct opgap_analysis_options analysis;
  struct opgap_output_options output;
};

static void help(void)
{
  puts("Usage: opgap report [options] [TRACE or SUMMARY]...\n"
       "\n"
       "Prints hot ops, idle gaps and their causes, files, memory, locks, steps and a verdict.\n"
       "TRACE is a folder NAME.opgap or one file of it; without it, the newest NAME.opgap of this\n"
       "folder, or this folder itself.\n"
       "Several traces, or summaries of them (--summary-out), are reported as one run, for example of several hosts.\n"
       "\n"
       "  --format FORMAT     text, json, csv or markdown (default: text); with --by stack also collapsed\n"
       "  --table TABLE       with csv: ops, calls, files, gaps, steps, processes or locks (default: ops)\n"
       "  --sort COLUMN       order of ops: self_cpu (default), total_cpu, avg, calls, blocked, allocs,\n"
       "                      alloc_bytes, self_gpu, total_gpu or name\n"
       "  --limit N           rows of each table, 0 for all (default: 15 for text and markdown, else all rows and the\n"
       "                      50 longest gaps)\n"
       "  --process WHO       only the process with this pid, or those whose role holds this text (worker 1)\n"
       "  --by WHAT           where what took long was called from, by function, line, module or stack: the stacks\n"
       "                      that OPGAP_STACKS recorded; with it --process takes a pid, and --steps does not go\n"
       "  --steps A:B         only the time of steps A to B, counted from 0\n"
       "  --min-gap TIME      shortest GPU gap, for example 50us or 1ms (default: 20us)\n"
       "  --min-thread-gap TIME  shortest gap of a thread (default: 1ms)\n"
       "  --threads N         CPUs to use: at most N traces at a time, or 1 or 2 for one trace (default: all)\n"
       "  --summary-out FILE  write a summary instead of a report, for a later opgap report FILE...\n"
       "  --plot              also charts of step times and of the use of GPU and main thread over time\n"
       "  --help              this text\n"
       "\n"
       "What each column of the tables is: docs/COLUMNS.md.\n"
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
  OPT_SUMMARY_OUT,
  OPT_PLOT,
  OPT_BY,
  OPT_THREADS,
};

static const struct option options[] = {{"format", required_argument, NULL, OPT_FORMAT},
                                        {"table", required_argument, NULL, OPT_TABLE},
                                        {"sort", required_argument, NULL, OPT_SORT},
                                        {"limit", required_argument, NULL, OPT_LIMIT},
                                        {"process", required_argument, NULL, OPT_PROCESS},
                                        {"steps", required_argument, NULL, OPT_STEPS},
                                        {"min-gap", required_argument, NULL, OPT_MIN_GAP},
                                        {"min-thread-gap", required_argument, NULL, OPT_MIN_THREAD_GAP},
                                        {"summary-out", required_argument, NULL, OPT_SUMMARY_OUT},
                                        {"plot", no_argument, NULL, OPT_PLOT},
                                        {"by", required_argument, NULL, OPT_BY},
                                        {"threads", required_argument, NULL, OPT_THREADS},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* 0, or the exit code of a wrong value. */
static int set_option(void *context, int option, const char *value)
{
  struct request *request = context;
  uint64_t number;
  switch (option) {
  case OPT_FORMAT: {
    int f = 0;
    while (f < FORMAT_COUNT && strcmp(value, formats[f]) != 0)
      f++;
    if (f == FORMAT_COUNT)
      return opgap_usage_error("report", "--format %s: must be text, json, csv, markdown or collapsed", value);
    request->format = (enum format)f;
    return 0;
  }
  case OPT_TABLE:
    request->table = opgap_csv_parse(value);
    if (request->table == OPGAP_CSV_COUNT)
      return opgap_usage_error("report", "--table %s: must be ops, calls, files, gaps, steps, processes or locks",
                               value);
    request->table_given = true;
    return 0;
  case OPT_SORT:
    request->output.sort = opgap_sort_parse(value);
    if (request->output.sort == OPGAP_SORT_COUNT)
      return opgap_usage_error("report", "--sort %s: must be one of %s", value, opgap_sort_names());
    request->sort_given = true;
    return 0;
  case OPT_LIMIT:
    if (!opgap_parse_number(value, &number))
      return opgap_usage_error("report", "--limit %s: must be a number of rows, 0 for all", value);
    request->output.limit = number;
    request->analysis.gaps_listed = number > 0 ? number : SIZE_MAX;
    request->limit_given = true;
    return 0;
  case OPT_SUMMARY_OUT:
    request->summary_out = value;
    return 0;
  case OPT_PROCESS:
    request->analysis.process = value;
    return 0;
  case OPT_STEPS:
    return opgap_take_steps("report", value, &request->analysis);
  case OPT_MIN_GAP:
    return opgap_take_min_gap("report", value, &request->analysis);
  case OPT_BY:
    request->by = opgap_stack_by_parse(value);
    if (request->by == OPGAP_BY_COUNT)
      return opgap_usage_error("report", "--by %s: must be function, line, module or stack", value);
    return 0;
  case OPT_MIN_THREAD_GAP:
    if (!opgap_parse_time(value, &request->analysis.thread_min_gap_ns) || request->analysis.thread_min_gap_ns == 0)
      return opgap_usage_error("report", "--min-thread-gap %s: must be a time such as 50us or 1ms", value);
    return 0;
  case OPT_THREADS:
    return opgap_take_threads("report", value, &request->analysis.threads);
  case OPT_PLOT:
    request->output.plot = true;
    return 0;
  default:
    return OPGAP_EXIT_USAGE;
  }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
  int code = opgap_options("report", argc, argv, ":h", options, help, set_option, request);
  if (code >= 0)
    return code;
  request->paths = (const char *const *)argv + optind;
  request->path_count = (size_t)(argc - optind);
  if (request->output.plot && request->format != FORMAT_TEXT)
    return opgap_usage_error("report", "--plot goes with --format text");
  if (request->table_given && (request->format != FORMAT_CSV || request->by != OPGAP_BY_COUNT))
    return opgap_usage_error("report", "--table goes with --format csv, and not with --by");
  if (request->sort_given && request->by != OPGAP_BY_COUNT)
    return opgap_usage_error("report", "--sort is for the table of ops: it does not go with --by");
  return -1;
}

/* ---- output ---- */

static int print(const struct opgap_summary *summary, struct request *request)
{
  struct opgap_output_options *output = &request->output;
  if (!request->limit_given && (request->format == FORMAT_TEXT || request->format == FORMAT_MARKDOWN))
    output->limit = 15;
  if (request->format == FORMAT_TEXT) {
    output->width = opgap_terminal_width(stdout);
    output->colour = opgap_terminal_colour();
    output->utf8 = opgap_terminal_utf8();
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
  return opgap_summary_exit(summary);
}

static bool write_parts(void *context, FILE *file)
{
  return opgap_parts_write(context, file);
}

static int write_summary(struct opgap_parts *parts, const char *path)
{
  int code = opgap_write_file(path, write_parts, parts);
  for (size_t i = 0; i < parts->v.count && code == OPGAP_EXIT_DONE; i++)
    code = opgap_summary_exit(parts->v.at[i]);
  return code;
}

static int print_stacks(struct opgap_trace *trace, const char *path, struct request *request)
{
  static const enum opgap_stack_format as[] = {OPGAP_STACKS_TEXT, OPGAP_STACKS_JSON, OPGAP_STACKS_CSV,
                                               OPGAP_STACKS_MARKDOWN, OPGAP_STACKS_COLLAPSED};
  struct opgap_output_options *output = &request->output;
  struct opgap_source source = opgap_source_of_trace(trace, path);
  source.threads = request->analysis.threads;
  int32_t process = request->analysis.process ? (int32_t)strtol(request->analysis.process, NULL, 10) : 0;
  struct opgap_stack_table *table = opgap_stack_table_read(&source, request->by, process);
  int code = OPGAP_EXIT_DONE;
  if (table->stacks == 0) {
    code = opgap_fail(OPGAP_EXIT_USAGE, "no stacks in %s: record with --stacks native, python or both", path);
  } else {
    if (!request->limit_given && (request->format == FORMAT_TEXT || request->format == FORMAT_MARKDOWN))
      output->limit = 15;
    output->width = opgap_terminal_width(stdout);
    output->colour = opgap_terminal_colour();
    opgap_output_stacks(table, request->by, as[request->format], output, stdout);
    code = opgap_trace_exit(trace);
  }
  opgap_stack_table_free(table);
  return code;
}

static int report_stacks(struct request *request)
{
  char error[1024] = "";
  if (request->path_count != 1)
    return opgap_usage_error("report", "--by takes one trace");
  if (opgap_parts_is_file(request->paths[0]))
    return opgap_fail(OPGAP_EXIT_USAGE, "%s is a summary, which has no stacks: give --by the trace that it was made of",
                      request->paths[0]);
  opgap_trace_recover(request->paths[0]);
  struct opgap_trace *trace = opgap_trace_open(request->paths[0], error, sizeof error);
  if (trace == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  int code = print_stacks(trace, request->paths[0], request);
  opgap_trace_close(trace);
  return code;
}

static int report(struct request *request)
{
  char error[1024] = "";
  struct opgap_progress progress;
  struct opgap_parts parts = {0};
  opgap_progress_begin(&progress, "reading the trace");
  if (request->path_count == 1) {
    request->analysis.progress = opgap_progress_show;
    request->analysis.progress_context = &progress;
  }
  bool good = opgap_read_parts(request->paths, request->path_count, &request->analysis, &parts, error, sizeof error);
  opgap_progress_end(&progress);
  if (!good)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  int code;
  if (request->summary_out != NULL) {
    code = write_summary(&parts, request->summary_out);
  } else if (parts.v.count == 1) {
    code = print(parts.v.at[0], request);
  } else {
    struct opgap_summary *whole = opgap_parts_merge(&parts, request->analysis.gaps_listed);
    code = print(whole, request);
    opgap_summary_free(whole);
  }
  opgap_parts_free(&parts);
  return code;
}

int opgap_cmd_report(int argc, char **argv)
{
  struct request request = {.by = OPGAP_BY_COUNT};
  char *newest = NULL;
  int code = parse(argc, argv, &request);
  if (code >= 0)
    return code;
  if (request.format == FORMAT_COLLAPSED && request.by != OPGAP_BY_STACK)
    return opgap_usage_error("report", "--format collapsed goes with --by stack");
  if (request.by != OPGAP_BY_COUNT && (request.analysis.steps_given || request.summary_out != NULL ||
                                       (request.analysis.process && strtol(request.analysis.process, NULL, 10) <= 0)))
    return opgap_usage_error("report", "--by takes --process with a pid, and neither --steps nor --summary-out");
  if (request.path_count == 0) {
    newest = opgap_newest_trace(".");
    request.paths = (const char *const *)&newest;
    request.path_count = 1;
    if (newest == NULL)
      return opgap_fail(OPGAP_EXIT_USAGE,
                        "there is no trace (NAME.opgap) in this folder: give its path, or make one with "
                        "opgap record -- PROGRAM");
  }
  code = opgap_check_output(request.summary_out);
  if (code == OPGAP_EXIT_DONE)
    code = request.by == OPGAP_BY_COUNT ? report(&request) : report_stacks(&request);
  free(newest);
  return code;
}
