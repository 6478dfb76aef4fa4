/* opgap html: a trace as one page to look at. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "analysis/levels.h"
#include "analysis/pool.h"
#include "format/recover.h"
#include "opgap.h"
#include "output/html/html.h"

#define ROWS 2000u          /* of each table */
#define GAPS_DETAILED 8u    /* of threads and of devices, the longest */
#define RUN_SPANS 60000u    /* kept of the whole run */
#define WINDOW_SPANS 10000u /* of each gap and step */
#define DETAIL_SPANS 200000u
#define AROUND_NS 2000000u /* shown before and after a gap, at most the gap's length */

struct request {
  const char *trace, *output;
  size_t limit;
  struct opgap_analysis_options analysis;
  VEC(struct opgap_window) details;
};

static void help(void)
{
  puts("Usage: opgap html [options] [TRACE]\n"
       "\n"
       "Writes a trace as one page that opens from disk in any current browser and loads nothing: verdict, steps,\n"
       "GPU use, idle gaps, timeline, hot ops, flame graph, memory, files, locks and processes.\n"
       "TRACE is a folder NAME.opgap or one file of it; without it, the newest NAME.opgap of this\n"
       "folder, or this folder itself.\n"
       "\n"
       "  -o, --output FILE   where to write; - for the standard output (default: NAME.html in this folder)\n"
       "  --detail A:B        keep every call between these times since the start, for example 1.5s:1600ms;\n"
       "                      may be given several times.  The longest gaps, the median step and the p95 step\n"
       "                      are always kept in full\n"
       "  --limit N           rows of each table, 0 for all (default: 2000)\n"
       "  --process WHO       only the process with this pid, or those whose role holds this text (worker 1)\n"
       "  --steps A:B         only the time of steps A to B, counted from 0\n"
       "  --min-gap TIME      shortest GPU gap, for example 50us or 1ms (default: 20us)\n"
       "  --min-thread-gap TIME  shortest gap of a thread (default: 1ms)\n"
       "  --help              this text\n"
       "\n"
       "Exit status: 0 done; 2 wrong usage, unreadable trace, or the page could not be written; 4 written, but bytes\n"
       "of the trace are damaged or missing.");
}

enum { OPT_DETAIL = 256, OPT_LIMIT, OPT_PROCESS, OPT_STEPS, OPT_MIN_GAP, OPT_MIN_THREAD_GAP };

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"detail", required_argument, NULL, OPT_DETAIL},
                                        {"limit", required_argument, NULL, OPT_LIMIT},
                                        {"process", required_argument, NULL, OPT_PROCESS},
                                        {"steps", required_argument, NULL, OPT_STEPS},
                                        {"min-gap", required_argument, NULL, OPT_MIN_GAP},
                                        {"min-thread-gap", required_argument, NULL, OPT_MIN_THREAD_GAP},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static bool parse_detail(const char *text, struct request *request)
{
  char *copy = strdup(text), *colon = copy ? strchr(copy, ':') : NULL;
  struct opgap_window window = {.label = "--detail", .limit = DETAIL_SPANS};
  bool good = false;
  if (colon != NULL) {
    *colon = '\0';
    good = opgap_parse_time(copy, &window.from_ns) && opgap_parse_time(colon + 1, &window.to_ns) &&
           window.from_ns < window.to_ns;
  }
  if (good)
    *VEC_PUSH(&request->details) = window;
  free(copy);
  return good;
}

/* 0, or the exit code of a wrong value. */
static int set_option(void *context, int option, const char *value)
{
  struct request *request = context;
  struct opgap_analysis_options *analysis = &request->analysis;
  uint64_t number;
  switch (option) {
  case 'o':
    request->output = value;
    return 0;
  case OPT_DETAIL:
    if (!parse_detail(value, request))
      return opgap_usage_error("html", "--detail %s: must be A:B, two times such as 1.5s:1600ms", value);
    return 0;
  case OPT_LIMIT:
    if (!opgap_parse_number(value, &number))
      return opgap_usage_error("html", "--limit %s: must be a number of rows, 0 for all", value);
    request->limit = number;
    return 0;
  case OPT_PROCESS:
    analysis->process = value;
    return 0;
  case OPT_STEPS:
    return opgap_take_steps("html", value, analysis);
  case OPT_MIN_GAP:
    return opgap_take_min_gap("html", value, analysis);
  default:
    if (!opgap_parse_time(value, &analysis->thread_min_gap_ns) || analysis->thread_min_gap_ns == 0)
      return opgap_usage_error("html", "--min-thread-gap %s: must be a time such as 50us or 1ms", value);
    return 0;
  }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
  int code = opgap_options("html", argc, argv, ":ho:", options, help, set_option, request);
  if (code >= 0)
    return code;
  if (optind < argc)
    request->trace = argv[optind++];
  if (optind < argc)
    return opgap_usage_error("html", "one trace at a time: %s is too many", argv[optind]);
  return -1;
}

/* ---- what is kept in full ---- */

static void add_gap(struct request *request, const char *label, uint64_t start, uint64_t duration)
{
  uint64_t around = duration < AROUND_NS ? duration : AROUND_NS;
  *VEC_PUSH(&request->details) = (struct opgap_window){.from_ns = start > around ? start - around : 0,
                                                       .to_ns = start + duration + around,
                                                       .label = label,
                                                       .limit = WINDOW_SPANS};
}

/* The step after warm-up whose duration is nearest. */
static void add_step(struct request *request, const struct opgap_sum_steps *steps, const char *label, uint64_t duration)
{
  size_t nearest = SIZE_MAX;
  uint64_t best = UINT64_MAX;
  for (size_t i = steps->skipped; i < steps->count; i++) {
    uint64_t d = steps->durations_ns[i], off = d > duration ? d - duration : duration - d;
    if (off < best) {
      best = off;
      nearest = i;
    }
  }
  if (nearest == SIZE_MAX)
    return;
  *VEC_PUSH(&request->details) = (struct opgap_window){.from_ns = steps->start_ns[nearest],
                                                       .to_ns = steps->start_ns[nearest] + steps->durations_ns[nearest],
                                                       .label = label,
                                                       .limit = WINDOW_SPANS};
}

static void choose_windows(struct request *request, const struct opgap_summary *summary)
{
  const struct opgap_sum_gaps *gaps = &summary->gaps;
  add_step(request, &summary->steps, "median step", summary->steps.median_ns);
  add_step(request, &summary->steps, "p95 step", summary->steps.p95_ns);
  for (size_t i = 0; i < gaps->gpu_listed && i < GAPS_DETAILED; i++)
    add_gap(request, "GPU gap", gaps->gpus[i].start_ns, gaps->gpus[i].duration_ns);
  for (size_t i = 0; i < gaps->thread_listed && i < GAPS_DETAILED; i++)
    add_gap(request, "thread gap", gaps->threads[i].start_ns, gaps->threads[i].duration_ns);
}

/* ---- writing ---- */

static char *output_path(const struct request *request)
{
  if (request->output != NULL)
    return strdup(request->output);
  size_t length = strlen(request->trace);
  while (length > 1 && request->trace[length - 1] == '/')
    length--;
  const char *end = request->trace + length, *name = end;
  while (name > request->trace && name[-1] != '/')
    name--;
  if (end - name > 6 && strncmp(end - 6, ".opgap", 6) == 0)
    end -= 6;
  char *path;
  return asprintf(&path, "%.*s.html", (int)(end - name), name) < 0 ? NULL : path;
}

static bool write_page(void *html, FILE *file)
{
  opgap_output_html(html, file);
  return true;
}

static int write_html(struct opgap_source *source, struct request *request, struct opgap_summary *summary)
{
  struct opgap_progress progress;
  choose_windows(request, summary);
  opgap_progress_begin(&progress, "drawing the timeline");
  struct opgap_spans *spans = opgap_spans_open(source, summary, NULL);
  struct opgap_levels *levels = opgap_levels_make(spans, summary, request->details.at, request->details.count,
                                                  RUN_SPANS, opgap_progress_show, &progress);
  opgap_progress_end(&progress);
  struct opgap_html html = {.summary = summary, .levels = levels, .limit = request->limit};
  char *path = output_path(request);
  int code = path == NULL ? opgap_fail(OPGAP_EXIT_USAGE, "out of memory") : opgap_write_file(path, write_page, &html);
  if (code == OPGAP_EXIT_DONE) {
    if (strcmp(path, "-") != 0)
      fprintf(stderr, "opgap: wrote %s\n", opgap_printable(path));
    code = opgap_summary_exit(summary);
  }
  free(path);
  opgap_levels_free(levels);
  opgap_spans_close(spans);
  return code;
}

/* Before choose_windows adds its own. */
static bool details_within(const struct request *request, const struct opgap_summary *summary)
{
  for (size_t i = 0; i < request->details.count; i++)
    if (request->details.at[i].from_ns >= summary->duration_ns) {
      opgap_fail(OPGAP_EXIT_USAGE, "--detail %.3fs:%.3fs is after the end of the run, which took %.3fs",
                 (double)request->details.at[i].from_ns / 1e9, (double)request->details.at[i].to_ns / 1e9,
                 (double)summary->duration_ns / 1e9);
      return false;
    }
  return true;
}

/* Before the trace is read. */
static int check_output(const struct request *request)
{
  char *path = output_path(request);
  int code = opgap_check_output(path);
  free(path);
  return code;
}

static int html(struct opgap_trace *trace, struct request *request)
{
  char error[1024] = "";
  struct opgap_progress progress;
  struct opgap_source source = opgap_source_of_trace(trace, request->trace);
  opgap_progress_begin(&progress, "reading the trace");
  request->analysis.progress = opgap_progress_show;
  request->analysis.progress_context = &progress;
  request->analysis.flame = true;
  request->analysis.gaps_listed = request->limit ? request->limit : SIZE_MAX;
  struct opgap_summary *summary = opgap_analyse(&source, &request->analysis, error, sizeof error);
  opgap_progress_end(&progress);
  if (summary == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  int code = details_within(request, summary) ? write_html(&source, request, summary) : OPGAP_EXIT_USAGE;
  opgap_summary_free(summary);
  return code;
}

int opgap_cmd_html(int argc, char **argv)
{
  struct request request = {.limit = ROWS};
  char error[1024] = "", *newest = NULL;
  int code = parse(argc, argv, &request);
  if (code < 0) {
    if (request.trace == NULL)
      request.trace = newest = opgap_newest_trace(".");
    if (request.trace == NULL) {
      code =
          opgap_fail(OPGAP_EXIT_USAGE, "there is no trace (NAME.opgap) in this folder: give its path, or make one with "
                                       "opgap record -- PROGRAM");
    } else if ((code = check_output(&request)) == OPGAP_EXIT_DONE) {
      opgap_trace_recover(request.trace);
      struct opgap_trace *trace = opgap_trace_open(request.trace, error, sizeof error);
      code = trace == NULL ? opgap_fail(OPGAP_EXIT_USAGE, "%s", error) : html(trace, &request);
      opgap_trace_close(trace);
    }
  }
  VEC_FREE(&request.details);
  free(newest);
  return code;
}
