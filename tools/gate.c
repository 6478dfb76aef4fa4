/* opgap gate: compares runs with a baseline, for CI. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output/gate.h"
#include "opgap.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_MARKDOWN, FORMAT_JUNIT, FORMAT_GITHUB, FORMAT_COUNT };
static const char *const formats[FORMAT_COUNT] = {"text", "json", "markdown", "junit", "github"};

#define RULES_MOST 4096u

struct request {
  const char *baseline, *output, *svg;
  enum format format;
  bool all, list;
  unsigned threads;        /* 0: all CPUs */
  struct opgap_pool *pool; /* of rules and texts from the configuration */
  struct opgap_rule *rules;
  struct opgap_compare_options compare;
};

static void help(void)
{
  puts("Usage: opgap gate --baseline FILE [options] RUN...\n"
       "\n"
       "Compares runs (traces, repeats of one another) with a baseline: exit 1 when a metric got worse, and which op,\n"
       "file or gap did it.  Exact counters are compared exactly, times with thresholds and statistics.\n"
       "\n"
       "  -b, --baseline FILE      made by opgap baseline (or a trace)\n"
       "  -m, --metric NAME=LIMIT  judge this metric with this limit; may be given several times:\n"
       "                           step=5%   step=5%,100us (both must be passed)   read_bytes=1M   launches=0   "
       "ops=off\n"
       "  -c, --config FILE        options from a JSON file: {\"baseline\": \"perf.json\", \"metric\": {\"step\": "
       "\"5%\"},\n"
       "                           \"min-steps\": 20, ...}; flags win over it\n"
       "      --min-steps N        steps needed for judging times (default: 20)\n"
       "      --alpha P            chance allowed for a false alarm of one comparison (default: 0.01)\n"
       "      --allow-other-machine  compare counters only when the machine differs\n"
       "      --allow-other-command  compare although the command differs\n"
       "      --all                show metrics that are not judged as well\n"
       "      --format FORMAT      text, json, markdown, junit or github (default: text)\n"
       "  -o, --output FILE        write there instead of standard output\n"
       "      --svg FILE           write the distributions of step times\n"
       "      --threads N          CPUs to use (default: all); the result is the same\n"
       "      --list-metrics       names, units and defaults\n"
       "      --help               this text\n"
       "\n"
       "With --format github the step summary is appended to $GITHUB_STEP_SUMMARY.\n"
       "\n"
       "Exit status: 0 pass; 1 a metric regressed; 2 wrong usage or unreadable input; 3 not comparable.");
}

static int list_metrics(void)
{
  printf("%-16s %-8s %-10s %s\n", "metric", "unit", "default", "what one step of it is");
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++) {
    const struct opgap_metric_info *info = opgap_metric_info((enum opgap_metric)m);
    static const char *const units[] = {"time", "bytes", "count", "share"};
    printf("%-16s %-8s %-10s %s\n", info->name, units[info->unit], info->judged ? "judged" : "on request", info->text);
  }
  puts("\nOn request, of the whole run and all its processes (totals need two repeats of the baseline):");
  const char *name;
  for (size_t f = 0; (name = opgap_figure_listed(f)) != NULL; f++)
    printf("  %s\n", name);
  puts("and per step: gpu_idle, thread_idle, gpu_idle.CAUSE, thread_idle.CAUSE, breakdown.CLASS, as in opgap report.");
  return OPGAP_EXIT_DONE;
}

/* ---- options: flags and the configuration file set them by the same names ---- */

enum {
  OPT_MIN_STEPS = 256,
  OPT_ALPHA,
  OPT_OTHER_MACHINE,
  OPT_OTHER_COMMAND,
  OPT_ALL,
  OPT_FORMAT,
  OPT_SVG,
  OPT_LIST,
  OPT_THREADS
};

static const struct option options[] = {{"baseline", required_argument, NULL, 'b'},
                                        {"metric", required_argument, NULL, 'm'},
                                        {"config", required_argument, NULL, 'c'},
                                        {"min-steps", required_argument, NULL, OPT_MIN_STEPS},
                                        {"alpha", required_argument, NULL, OPT_ALPHA},
                                        {"allow-other-machine", no_argument, NULL, OPT_OTHER_MACHINE},
                                        {"allow-other-command", no_argument, NULL, OPT_OTHER_COMMAND},
                                        {"all", no_argument, NULL, OPT_ALL},
                                        {"format", required_argument, NULL, OPT_FORMAT},
                                        {"output", required_argument, NULL, 'o'},
                                        {"svg", required_argument, NULL, OPT_SVG},
                                        {"list-metrics", no_argument, NULL, OPT_LIST},
                                        {"threads", required_argument, NULL, OPT_THREADS},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static int add_rule(struct request *request, const char *text)
{
  char error[512];
  if (request->compare.rule_count >= RULES_MOST)
    return opgap_usage_error("gate", "more than %u metrics", RULES_MOST);
  struct opgap_rule *rule = &request->rules[request->compare.rule_count];
  if (!opgap_rule_parse(request->pool, text, rule, error, sizeof error))
    return opgap_usage_error("gate", "--metric %s", error);
  if (opgap_metric_find(rule->name) == OPGAP_METRIC_COUNT && !opgap_figure_exists(rule->name))
    return opgap_usage_error("gate", "there is no metric %s, see --list-metrics", rule->name);
  request->compare.rule_count++;
  return OPGAP_EXIT_DONE;
}

static int set_format(struct request *request, const char *value)
{
  int f = 0;
  while (f < FORMAT_COUNT && strcmp(value, formats[f]) != 0)
    f++;
  if (f == FORMAT_COUNT)
    return opgap_usage_error("gate", "--format %s: must be text, json, markdown, junit or github", value);
  request->format = (enum format)f;
  return OPGAP_EXIT_DONE;
}

static int set_number(struct request *request, int option, const char *value)
{
  char *end;
  double number = strtod(value, &end);
  bool good = end != value && *end == '\0' && isfinite(number);
  if (option == OPT_MIN_STEPS) {
    if (!good || number < 3 || number > OPGAP_RUNS_STEPS || number != floor(number))
      return opgap_usage_error("gate", "--min-steps %s: must be a whole number from 3 to %u", value, OPGAP_RUNS_STEPS);
    request->compare.min_steps = (size_t)number;
  } else {
    if (!good || !(number > 0) || number > 0.5)
      return opgap_usage_error("gate", "--alpha %s: must be above 0 and at most 0.5", value);
    request->compare.alpha = number;
  }
  return OPGAP_EXIT_DONE;
}

static int set_option(struct request *request, int option, const char *value)
{
  switch (option) {
  case 'b':
    request->baseline = value;
    return OPGAP_EXIT_DONE;
  case 'm':
    return add_rule(request, value);
  case 'o':
    request->output = value;
    return OPGAP_EXIT_DONE;
  case OPT_SVG:
    request->svg = value;
    return OPGAP_EXIT_DONE;
  case OPT_MIN_STEPS:
  case OPT_ALPHA:
    return set_number(request, option, value);
  case OPT_OTHER_MACHINE:
    request->compare.allow_other_machine = true;
    return OPGAP_EXIT_DONE;
  case OPT_OTHER_COMMAND:
    request->compare.allow_other_command = true;
    return OPGAP_EXIT_DONE;
  case OPT_ALL:
    request->all = true;
    return OPGAP_EXIT_DONE;
  case OPT_THREADS:
    return opgap_take_threads("gate", value, &request->threads);
  case OPT_LIST:
    request->list = true;
    return OPGAP_EXIT_DONE;
  case OPT_FORMAT:
    return set_format(request, value);
  default:
    return OPGAP_EXIT_USAGE;
  }
}

/* ---- the configuration file ---- */

/* A value as the flag's text; NULL when it is neither text nor number. */
static const char *value_text(struct request *request, const json_t *value)
{
  if (json_is_string(value))
    return opgap_pool_string(request->pool, json_string_value(value));
  if (json_is_integer(value))
    return opgap_pool_printf(request->pool, "%lld", (long long)json_integer_value(value));
  if (json_is_real(value))
    return opgap_pool_printf(request->pool, "%.17g", json_real_value(value));
  return NULL;
}

static int config_metrics(struct request *request, const char *path, json_t *metrics)
{
  const char *name;
  json_t *value;
  if (!json_is_object(metrics))
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: \"metric\" must be an object: {\"step\": \"5%%\"}", path);
  json_object_foreach(metrics, name, value)
  {
    const char *limit = value_text(request, value);
    if (limit == NULL)
      return opgap_fail(OPGAP_EXIT_USAGE, "%s: metric \"%s\" must be a text or a number", path, name);
    int code = add_rule(request, opgap_pool_printf(request->pool, "%s=%s", name, limit));
    if (code != OPGAP_EXIT_DONE)
      return code;
  }
  return OPGAP_EXIT_DONE;
}

static int config_member(struct request *request, const char *path, const char *name, json_t *value)
{
  if (strcmp(name, "metric") == 0)
    return config_metrics(request, path, value);
  for (const struct option *o = options; o->name != NULL; o++) {
    if (strcmp(o->name, name) != 0 || o->val == 'c' || o->val == 'h' || o->val == OPT_LIST)
      continue;
    if (o->has_arg == no_argument) {
      if (!json_is_boolean(value))
        return opgap_fail(OPGAP_EXIT_USAGE, "%s: \"%s\" must be true or false", path, name);
      return json_is_true(value) ? set_option(request, o->val, NULL) : OPGAP_EXIT_DONE;
    }
    const char *text = value_text(request, value);
    if (text == NULL)
      return opgap_fail(OPGAP_EXIT_USAGE, "%s: \"%s\" must be a text or a number", path, name);
    return set_option(request, o->val, text);
  }
  return opgap_fail(OPGAP_EXIT_USAGE, "%s: there is no option \"%s\"", path, name);
}

static bool is_baseline(const json_t *root)
{
  const char *format = json_string_value(json_object_get(root, "format"));
  return format != NULL && strcmp(format, OPGAP_BASELINE_FORMAT) == 0;
}

static int read_config(struct request *request, const char *path)
{
  json_error_t error;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *value;
  int open_error = errno;
  const char *name;
  int code = OPGAP_EXIT_DONE;
  if (root == NULL && json_error_code(&error) == json_error_cannot_open_file)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: cannot be opened: %s", path, strerror(open_error));
  if (root == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: line %d: %s", path, error.line, error.text);
  if (!json_is_object(root))
    code = opgap_fail(OPGAP_EXIT_USAGE, "%s: must be a JSON object", path);
  else if (is_baseline(root))
    code = opgap_fail(OPGAP_EXIT_USAGE, "%s is a baseline, not a config: give it with --baseline", path);
  else
    json_object_foreach(root, name, value)
    {
      if (code == OPGAP_EXIT_DONE)
        code = config_member(request, path, name, value);
    }
  json_decref(root);
  return code;
}

/* The configuration comes first, so that flags win. */
static int take_config(void *request, int option, const char *value)
{
  return option == 'c' ? read_config(request, value) : OPGAP_EXIT_DONE;
}

static int take_flag(void *request, int option, const char *value)
{
  return option == 'c' ? OPGAP_EXIT_DONE : set_option(request, option, value);
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct request *request)
{
  static const char letters[] = ":b:m:c:o:h";
  int code = opgap_options("gate", argc, argv, letters, options, help, take_config, request);
  if (code < 0)
    code = opgap_options("gate", argc, argv, letters, options, help, take_flag, request);
  if (code >= 0)
    return code;
  if (request->list)
    return list_metrics();
  if (request->baseline == NULL)
    return opgap_usage_error("gate", "compare with what? give --baseline FILE");
  if (optind == argc)
    return opgap_usage_error("gate", "which runs? give one trace or more");
  return -1;
}

/* ---- output ---- */

struct result {
  const struct opgap_comparison *comparison;
  const struct request *request;
  struct opgap_gate_output *output;
};

static bool print(void *context, FILE *file)
{
  const struct result *result = context;
  const struct opgap_comparison *c = result->comparison;
  struct opgap_gate_output *output = result->output;
  switch (result->request->format) {
  case FORMAT_JSON:
    return opgap_gate_json(c, output, file);
  case FORMAT_MARKDOWN:
    opgap_gate_markdown(c, output, file);
    break;
  case FORMAT_JUNIT:
    opgap_gate_junit(c, output, file);
    break;
  case FORMAT_GITHUB:
    opgap_gate_github(c, output, file);
    break;
  default:
    output->width = opgap_terminal_width(file);
    opgap_gate_text(c, output, file);
  }
  return true;
}

static bool print_svg(void *context, FILE *file)
{
  const struct result *result = context;
  opgap_gate_svg(result->comparison, file);
  return true;
}

/* Behind what other steps of the job wrote. */
static int append_summary(const struct result *result, const char *path)
{
  FILE *file = fopen(path, "a");
  if (file == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "cannot write %s: %s", path, strerror(errno));
  opgap_gate_markdown(result->comparison, result->output, file);
  bool good = fflush(file) == 0 && !ferror(file);
  if (fclose(file) != 0 || !good)
    return opgap_fail(OPGAP_EXIT_USAGE, "cannot write %s: %s", path, strerror(errno));
  return OPGAP_EXIT_DONE;
}

/* 0, or the exit code of a file that could not be written.  The verdict comes last: whoever reads PASS has all of it.
 */
static int write_outputs(const struct opgap_comparison *c, const struct request *request,
                         struct opgap_gate_output *output)
{
  struct result result = {c, request, output};
  const char *summary = getenv("GITHUB_STEP_SUMMARY");
  int code = OPGAP_EXIT_DONE;
  if (request->svg != NULL)
    code = opgap_write_file(request->svg, print_svg, &result);
  if (code == OPGAP_EXIT_DONE && request->format == FORMAT_GITHUB && summary != NULL && summary[0])
    code = append_summary(&result, summary);
  if (code == OPGAP_EXIT_DONE)
    code = opgap_write_file(request->output ? request->output : "-", print, &result);
  return code;
}

static int exit_code(enum opgap_change_verdict verdict)
{
  switch (verdict) {
  case OPGAP_REGRESSED:
    return OPGAP_EXIT_REGRESSION;
  case OPGAP_INCOMPARABLE:
    return OPGAP_EXIT_INCOMPARABLE;
  default:
    return OPGAP_EXIT_DONE;
  }
}

/* The command that makes these runs the baseline, quoted for a shell. */
static const char *update_command(struct request *request, const char *const *paths, size_t count)
{
  const char *text = opgap_pool_printf(request->pool, "opgap baseline -o '%s'", request->baseline);
  for (size_t i = 0; i < count; i++)
    text = opgap_pool_printf(request->pool, "%s '%s'", text, paths[i]);
  return text;
}

static int gate(struct request *request, const char *const *paths, size_t count)
{
  char error[1024] = "";
  int writable = opgap_check_output(request->svg);
  if (writable == OPGAP_EXIT_DONE)
    writable = opgap_check_output(request->output);
  if (writable != OPGAP_EXIT_DONE)
    return writable;
  struct opgap_runs *before = opgap_runs_open(&request->baseline, 1, request->threads, error, sizeof error),
                    *now = NULL;
  if (before != NULL)
    now = opgap_runs_open(paths, count, request->threads, error, sizeof error);
  if (now == NULL) {
    opgap_runs_free(before);
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  }
  struct opgap_comparison *c = opgap_compare(before, now, &request->compare);
  struct opgap_gate_output output = {.update = update_command(request, paths, count), .all = request->all};
  int code = write_outputs(c, request, &output);
  if (code == OPGAP_EXIT_DONE)
    code = exit_code(c->verdict);
  opgap_comparison_free(c);
  opgap_runs_free(before);
  opgap_runs_free(now);
  return code;
}

int opgap_cmd_gate(int argc, char **argv)
{
  struct request request = {.compare = {.judge = true}, .pool = opgap_pool_new()};
  request.rules = opgap_pool_alloc(request.pool, RULES_MOST * sizeof *request.rules);
  request.compare.rules = request.rules;
  int code = parse(argc, argv, &request);
  if (code < 0)
    code = gate(&request, (const char *const *)argv + optind, (size_t)(argc - optind));
  opgap_pool_free(request.pool);
  return code;
}
