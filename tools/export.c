/* opgap export: a trace in another program's format. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "format/recover.h"
#include "opgap.h"
#include "output/export/export.h"
#include "output/export/sink.h"
#include "output/replace.h"

#define DEFAULT_MAX_BYTES (400ull << 20) /* chrome://tracing and TensorBoard fail around 500 MB */

struct request {
  const char *trace, *path;
  const struct opgap_export_format *format;
  struct opgap_analysis_options analysis;
  struct opgap_spans_filter filter;
  uint64_t max_bytes;
  bool for_tensorboard;
  const char *only_kineto, *only_json; /* options given that other formats do not know */
};

static const char *format_names(void)
{
  static char names[256];
  size_t used = 0;
  for (size_t i = 0; i < opgap_export_format_count; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                             i == 0                               ? ""
                             : i + 1 == opgap_export_format_count ? " or "
                                                                  : ", ",
                             opgap_export_formats[i].name);
  return names;
}

static void help(void)
{
  puts("Usage: opgap export --to FORMAT [options] [TRACE]\n"
       "\n"
       "Writes a trace for other programs.\n"
       "TRACE is a folder NAME.opgap or one file of it; without it, the newest NAME.opgap of this\n"
       "folder, or this folder itself.\n"
       "\n"
       "Formats:");
  for (size_t i = 0; i < opgap_export_format_count; i++)
    printf("  %-11s %s\n", opgap_export_formats[i].name, opgap_export_formats[i].what);
  printf("\n"
         "  --to FORMAT         one of these: %s\n",
         format_names());
  puts(
      "  -o, --output FILE   the file to write, - for stdout; .gz and .zst compress (default: the trace's name\n"
      "                      in this folder); kineto: FOLDER/ for one file a rank, named as torch.profiler does\n"
      "  --process WHO       only the process with this pid, or those whose role holds this text (worker 1)\n"
      "  --steps A:B         only the time of steps A to B, counted from 0\n"
      "  --from-time TIME    only what ends after this time since the start of the trace (1.5s, 20ms)\n"
      "  --to-time TIME      only what begins before this time\n"
      "  --min-duration TIME  only ops, calls and GPU work at least as long (10us)\n"
      "  --for hta|tensorboard  kineto: who reads it (default: hta); see docs/EXPORT.md\n"
      "  --max-size MB       kineto, chrome: begin a new file above so many megabytes before compression, 0 never\n"
      "                      (default: 400)\n"
      "  --threads N         CPUs to use (default: all); what is written is the same\n"
      "  --help              this text\n"
      "\n"
      "Exit status: 0 done; 2 wrong usage, unreadable trace, or the file cannot be written (nothing is left under its\n"
      "name then); 4 written, but bytes of the trace are damaged or missing.");
}

enum {
  OPT_TO = 256,
  OPT_PROCESS,
  OPT_STEPS,
  OPT_FROM_TIME,
  OPT_TO_TIME,
  OPT_MIN_DURATION,
  OPT_FOR,
  OPT_MAX_SIZE,
  OPT_THREADS,
};

static const struct option options[] = {{"to", required_argument, NULL, OPT_TO},
                                        {"output", required_argument, NULL, 'o'},
                                        {"process", required_argument, NULL, OPT_PROCESS},
                                        {"steps", required_argument, NULL, OPT_STEPS},
                                        {"from-time", required_argument, NULL, OPT_FROM_TIME},
                                        {"to-time", required_argument, NULL, OPT_TO_TIME},
                                        {"min-duration", required_argument, NULL, OPT_MIN_DURATION},
                                        {"for", required_argument, NULL, OPT_FOR},
                                        {"max-size", required_argument, NULL, OPT_MAX_SIZE},
                                        {"threads", required_argument, NULL, OPT_THREADS},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static int bad_time(const char *option, const char *value)
{
  return opgap_usage_error("export", "%s %s: must be a time such as 1.5s, 20ms or 10us", option, value);
}

/* 0, or the exit code of a wrong value. */
static int set_option(void *context, int option, const char *value)
{
  struct request *request = context;
  uint64_t number;
  switch (option) {
  case OPT_TO:
    request->format = opgap_export_find(value);
    if (request->format == NULL)
      return opgap_usage_error("export", "--to %s: must be %s", value, format_names());
    return 0;
  case 'o':
    if (value[0] == '\0')
      return opgap_usage_error("export", "-o needs the name of a file");
    request->path = value;
    return 0;
  case OPT_PROCESS:
    request->analysis.process = value;
    return 0;
  case OPT_STEPS:
    return opgap_take_steps("export", value, &request->analysis);
  case OPT_FROM_TIME:
    return opgap_parse_time(value, &request->filter.from_ns) ? 0 : bad_time("--from-time", value);
  case OPT_TO_TIME:
    return opgap_parse_time(value, &request->filter.to_ns) && request->filter.to_ns > 0 ? 0
                                                                                        : bad_time("--to-time", value);
  case OPT_MIN_DURATION:
    return opgap_parse_time(value, &request->filter.min_duration_ns) ? 0 : bad_time("--min-duration", value);
  case OPT_FOR:
    request->only_kineto = "--for";
    request->for_tensorboard = strcmp(value, "tensorboard") == 0;
    if (!request->for_tensorboard && strcmp(value, "hta") != 0)
      return opgap_usage_error("export", "--for %s: must be hta or tensorboard", value);
    return 0;
  case OPT_MAX_SIZE:
    if (!opgap_parse_number(value, &number) || number > UINT64_MAX >> 20)
      return opgap_usage_error("export", "--max-size %s: must be a number of megabytes, 0 for no limit", value);
    request->only_json = "--max-size";
    request->max_bytes = number << 20;
    return 0;
  case OPT_THREADS:
    return opgap_take_threads("export", value, &request->analysis.threads);
  default:
    return OPGAP_EXIT_USAGE;
  }
}

static int check(const struct request *request)
{
  if (request->format == NULL)
    return opgap_usage_error("export", "--to FORMAT is missing: %s", format_names());
  const char *format = request->format->name;
  bool kineto = strcmp(format, "kineto") == 0;
  if (request->only_kineto != NULL && !kineto)
    return opgap_usage_error("export", "%s is for --to kineto alone", request->only_kineto);
  if (request->only_json != NULL && !kineto && strcmp(format, "chrome") != 0)
    return opgap_usage_error("export", "%s is for --to kineto and --to chrome alone", request->only_json);
  if (request->filter.to_ns != 0 && request->filter.to_ns <= request->filter.from_ns)
    return opgap_usage_error("export", "--to-time must be later than --from-time");
  bool to_stdout = request->path != NULL && strcmp(request->path, "-") == 0;
  if (to_stdout && !request->format->to_stdout)
    return opgap_usage_error("export", "--to %s needs a file: it cannot be written to a pipe", format);
  if (to_stdout && request->max_bytes > 0 && request->only_json != NULL)
    return opgap_usage_error("export", "%s cannot divide what goes to stdout", request->only_json);
  if (request->path != NULL && !request->format->to_stdout && sink_compresses(request->path))
    return opgap_usage_error("export", "-o %s: --to %s is not compressed", request->path, format);
  return -1;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
  int code = opgap_options("export", argc, argv, ":ho:", options, help, set_option, request);
  if (code >= 0)
    return code;
  if (optind < argc)
    request->trace = argv[optind++];
  if (optind < argc)
    return opgap_usage_error("export", "one trace at a time: %s is too many", argv[optind]);
  return check(request);
}

/* ---- running ---- */

/* The trace's name without its folder and ending, with the format's ending. */
static char *default_path(const struct request *request)
{
  char *copy = strdup(request->trace), *path = NULL;
  size_t length = copy ? strlen(copy) : 0;
  while (length > 1 && copy[length - 1] == '/')
    copy[--length] = '\0';
  const char *slash = copy ? strrchr(copy, '/') : NULL;
  const char *name = slash != NULL ? slash + 1 : copy;
  const char *dot = name != NULL ? strrchr(name, '.') : NULL;
  int kept = dot != NULL && dot > name ? (int)(dot - name) : (int)(name ? strlen(name) : 0);
  if (name == NULL || asprintf(&path, "%.*s%s", kept, name, request->format->suffix) < 0)
    path = NULL;
  free(copy);
  return path;
}

/* Before the trace is read. */
static int check_path(const struct request *request)
{
  struct stat status;
  const char *path = request->path;
  size_t length = strlen(path);
  bool exists = stat(path, &status) == 0 && S_ISDIR(status.st_mode), made = length > 1 && path[length - 1] == '/';
  char *inside = NULL;
  if (!request->format->into_folder || !(exists || made))
    return opgap_check_output(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  if (asprintf(&inside, "%.*s%s%s", (int)length, path, exists ? "/NAME" : "", exists ? request->format->suffix : "") <
      0)
    return opgap_fail(OPGAP_EXIT_USAGE, "out of memory");
  int code = opgap_check_output(inside);
  free(inside);
  return code;
}

static void interrupted(int signal_number)
{
  replace_abandon();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static void watch_signals(void)
{
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = interrupted};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    sigaction(ends[i], &action, NULL);
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write() */
  signal(SIGXFSZ, SIG_IGN);
}

static int write_export(struct request *request, const struct opgap_source *source, const struct opgap_summary *summary)
{
  const char *path = request->path;
  struct opgap_progress progress;
  struct opgap_export_job job = {.source = source,
                                 .summary = summary,
                                 .path = path,
                                 .max_bytes = request->max_bytes,
                                 .first_step = request->analysis.steps_given ? request->analysis.first_step : 0,
                                 .for_tensorboard = request->for_tensorboard,
                                 .progress = opgap_progress_show,
                                 .progress_context = &progress};
  opgap_progress_begin(&progress, "exporting");
  job.spans = opgap_spans_open(source, summary, &request->filter);
  bool done = request->format->write(&job);
  opgap_progress_end(&progress);
  opgap_spans_close(job.spans);
  if (!done)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", job.error);
  if (strcmp(path, "-") == 0)
    return opgap_summary_exit(summary);
  char held[32] = "";
  if (job.left_out > 0)
    snprintf(held, sizeof held, "%llu of ", (unsigned long long)(job.span_count - job.left_out));
  fprintf(stderr, "opgap: %s%llu spans in %s%s", held, (unsigned long long)job.span_count, path,
          job.files_written > 1 ? " and more files" : "");
  if (job.left_out > 0)
    fprintf(stderr, ": the format has no place for %s", request->format->leaves_out);
  fputc('\n', stderr);
  return opgap_summary_exit(summary);
}

/* A window in which there can be nothing is a slip of the hand, not an empty export. */
static bool window_within(const struct request *request, const struct opgap_summary *summary)
{
  uint64_t from = request->filter.from_ns, to = request->filter.to_ns;
  if (from >= summary->duration_ns && from > 0)
    opgap_fail(OPGAP_EXIT_USAGE, "--from-time %.3fs is after the end of the run, which took %.3fs", (double)from / 1e9,
               (double)summary->duration_ns / 1e9);
  else if (request->analysis.steps_given && from >= summary->window_end_ns)
    opgap_fail(OPGAP_EXIT_USAGE, "--from-time %.3fs is after these --steps, which end at %.3fs", (double)from / 1e9,
               (double)summary->window_end_ns / 1e9);
  else if (request->analysis.steps_given && to != 0 && to <= summary->window_start_ns)
    opgap_fail(OPGAP_EXIT_USAGE, "--to-time %.3fs is before these --steps, which begin at %.3fs", (double)to / 1e9,
               (double)summary->window_start_ns / 1e9);
  else
    return true;
  return false;
}

static int export_trace(struct opgap_trace *trace, struct request *request)
{
  char error[1024] = "";
  struct opgap_progress progress;
  struct opgap_source source = opgap_source_of_trace(trace, request->trace);
  source.threads = request->analysis.threads;
  watch_signals();
  opgap_progress_begin(&progress, "reading the trace");
  request->analysis.progress = opgap_progress_show;
  request->analysis.progress_context = &progress;
  struct opgap_summary *summary = opgap_analyse(&source, &request->analysis, error, sizeof error);
  opgap_progress_end(&progress);
  int code = OPGAP_EXIT_USAGE;
  if (summary == NULL)
    opgap_fail(code, "%s", error);
  else if (window_within(request, summary))
    code = write_export(request, &source, summary);
  opgap_summary_free(summary);
  return code;
}

int opgap_cmd_export(int argc, char **argv)
{
  struct request request = {.max_bytes = DEFAULT_MAX_BYTES};
  char error[1024] = "", *newest = NULL, *named = NULL;
  int code = parse(argc, argv, &request);
  if (code >= 0)
    return code;
  if (request.trace == NULL)
    request.trace = newest = opgap_newest_trace(".");
  if (request.trace == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE,
                      "there is no trace (NAME.opgap) in this folder: give its path, or make one with "
                      "opgap record -- PROGRAM");
  if (request.path == NULL)
    request.path = named = default_path(&request);
  code = request.path ? check_path(&request) : opgap_fail(OPGAP_EXIT_USAGE, "out of memory");
  if (code == OPGAP_EXIT_DONE) {
    opgap_trace_recover(request.trace);
    struct opgap_trace *trace = opgap_trace_open(request.trace, error, sizeof error);
    code = trace == NULL ? opgap_fail(OPGAP_EXIT_USAGE, "%s", error) : export_trace(trace, &request);
    opgap_trace_close(trace);
  }
  free(named);
  free(newest);
  return code;
}
