/* opgap diff: several runs side by side, one column each, and what changed. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/compare.h"
#include "analysis/json_text.h"
#include "analysis/stats_test.h"
#include "output/gate.h"
#include "output/table.h"
#include "opgap.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_COUNT };
static const char *const formats[FORMAT_COUNT] = {"text", "json", "markdown", "csv"};

#define SETS_MOST (TABLE_COLUMNS - 1)
#define PATHS_MOST 1000u
#define STEPLESS "not every run has steps: nothing is compared per step, only the totals of whole runs"

static void help(void)
{
  puts("Usage: opgap diff [options] A B [C...]\n"
       "\n"
       "Lays runs side by side, one column each, and shows how each differs from the first: time of a step, where it\n"
       "went, idle time by cause, counts and bytes per step, memory, and the ops that changed most.\n"
       "A, B, C are traces, baselines (opgap baseline), or repeats of one run: A1,A2,A3.  [NAME:] before it names the\n"
       "column: base:run1.opgap workers:run2.opgap\n"
       "A change is given as a difference, in %, and with the 98 % interval of the latter.  =: no change\n"
       "Times of steps are medians; where a median tells little about the whole time, a line of means follows.\n"
       "Where a run has no steps, only the totals of whole runs are compared, and a line says so.\n"
       "With four or more, the last is taken for all changes together: how far do the single gains add up?\n"
       "\n"
       "  --limit N         ops shown (default: 15; 0: all)\n"
       "  --format FORMAT   text, json, markdown or csv (default: text)\n"
       "  --help            this text\n"
       "\n"
       "Exit status: 0 done; 2 wrong usage or unreadable input; 4 printed, but bytes of a trace are damaged or "
       "missing.");
}

struct request {
  enum format format;
  size_t limit;
  bool stepless; /* a set has no steps: only figures of whole runs can be compared */
  size_t sets;
  char *names[SETS_MOST];
  const char *paths[SETS_MOST]; /* that the name is the end of; NULL: the user gave the name */
  struct opgap_runs *runs[SETS_MOST];
  struct opgap_comparison *with[SETS_MOST]; /* [0]: NULL */
};

/* One line of the result. */
struct line {
  const char *group; /* "step", "run", "op", ... */
  const char *name;
  enum opgap_unit unit;
  double value[SETS_MOST];                                                 /* NAN: unknown */
  double change[SETS_MOST], low[SETS_MOST], high[SETS_MOST], p[SETS_MOST]; /* against the first; NAN: unknown */
};

struct lines {
  struct opgap_pool *pool;
  VEC(struct line) v;
};

static struct line *new_line(struct lines *lines, const char *group, const char *name, enum opgap_unit unit)
{
  struct line *line = VEC_PUSH(&lines->v);
  line->group = group;
  line->name = name;
  line->unit = unit;
  for (size_t i = 0; i < SETS_MOST; i++)
    line->value[i] = line->change[i] = line->low[i] = line->high[i] = line->p[i] = NAN;
  return line;
}

static void set_changes(struct line *line, size_t sets)
{
  for (size_t i = 1; i < sets; i++)
    line->change[i] = line->value[0] > 0 ? line->value[i] / line->value[0] - 1 : line->value[i] == 0 ? 0 : NAN;
}

static const struct opgap_change *change_named(const struct opgap_comparison *c, const char *name)
{
  for (size_t i = 0; i < c->change_count; i++)
    if (strcmp(c->changes[i].name, name) == 0)
      return &c->changes[i];
  return NULL;
}

static bool line_named(const struct lines *lines, const char *name)
{
  for (size_t i = 0; i < lines->v.count; i++)
    if (strcmp(lines->v.at[i].name, name) == 0)
      return true;
  return false;
}

static void add_p95(struct lines *lines, const struct request *request)
{
  struct line *line = new_line(lines, "step", "step p95", OPGAP_UNIT_NS);
  for (size_t i = 1; i < request->sets; i++) {
    struct opgap_p95_change change;
    opgap_compare_p95(request->runs[0], request->runs[i], &change);
    line->value[0] = change.before;
    line->value[i] = change.now;
    line->low[i] = change.low;
    line->high[i] = change.high;
  }
  set_changes(line, request->sets);
}

static void add_change_line(struct lines *lines, const struct request *request, const struct opgap_change *first)
{
  bool any = false;
  struct line *line = new_line(lines, first->per_step ? "step" : "run", first->name, first->unit);
  for (size_t i = 1; i < request->sets; i++) {
    const struct opgap_change *change = change_named(request->with[i], first->name);
    if (change == NULL)
      continue;
    if (isfinite(change->before))
      line->value[0] = change->before;
    line->value[i] = change->now;
    line->change[i] = change->relative;
    line->low[i] = change->low;
    line->high[i] = change->high;
    line->p[i] = change->p;
    any = any || change->before > 0 || change->now > 0;
  }
  if (!any)
    lines->v.count--;
}

/* Where the median of a time tells little about the whole, in any column, the means as well. */
static void add_mean(struct lines *lines, const struct request *request, const struct opgap_change *first)
{
  bool blind = false;
  for (size_t i = 1; i < request->sets; i++) {
    const struct opgap_change *change = change_named(request->with[i], first->name);
    blind = blind || (change != NULL && change->blind);
  }
  if (!blind)
    return;
  struct line *line = new_line(lines, "step", opgap_pool_printf(lines->pool, "%s mean", first->name), OPGAP_UNIT_NS);
  for (size_t i = 1; i < request->sets; i++) {
    const struct opgap_change *change = change_named(request->with[i], first->name);
    if (change == NULL)
      continue;
    if (isfinite(change->mean_before))
      line->value[0] = change->mean_before;
    line->value[i] = change->mean_now;
    line->low[i] = change->mean_low;
    line->high[i] = change->mean_high;
    line->p[i] = change->mean_p;
  }
  set_changes(line, request->sets);
}

/* Figures of whole runs that are a mean over its steps. */
static bool is_mean_of_steps(const char *figure)
{
  return opgap_figure_idle(figure) != NULL || strncmp(figure, "breakdown.", strlen("breakdown.")) == 0;
}

static void add_changes(struct lines *lines, const struct request *request)
{
  for (size_t i = 1; i < request->sets; i++)
    for (size_t k = 0; k < request->with[i]->change_count; k++) {
      const struct opgap_change *change = &request->with[i]->changes[k];
      if (line_named(lines, change->name) ||
          (request->stepless && (change->per_step || is_mean_of_steps(change->name))))
        continue;
      add_change_line(lines, request, change);
      add_mean(lines, request, change);
      if (strcmp(change->name, "step") == 0)
        add_p95(lines, request);
    }
}

/* ---- ops ---- */

static const struct opgap_row *row_named(const struct opgap_runs *runs, const char *kind, const char *name)
{
  for (size_t i = 0; i < runs->row_count; i++)
    if (strcmp(runs->rows[i].kind, kind) == 0 && strcmp(runs->rows[i].name, name) == 0)
      return &runs->rows[i];
  return NULL;
}

static void add_row_line(struct lines *lines, const struct request *request, const char *kind, const char *name,
                         enum opgap_metric metric, const char *suffix)
{
  const char *text = opgap_pool_printf(lines->pool, "%s %s%s", kind, name, suffix);
  bool calls = suffix[0] && metric == OPGAP_METRIC_COUNT, differs = false;
  struct line *line = new_line(lines, kind, text, calls ? OPGAP_UNIT_COUNT : opgap_metric_info(metric)->unit);
  for (size_t i = 0; i < request->sets; i++) {
    const struct opgap_runs *runs = request->runs[i];
    const struct opgap_row *row = row_named(runs, kind, name);
    if (calls)
      line->value[i] = row && runs->steps ? (double)row->calls / (double)runs->steps : 0;
    else
      line->value[i] = opgap_row_per_step(runs, row, metric);
    differs = differs || line->value[i] != line->value[0];
  }
  set_changes(line, request->sets);
  if (!differs)
    lines->v.count--;
}

static void add_row_lines(struct lines *lines, const struct request *request, const char *kind, const char *name)
{
  bool file = strcmp(kind, "file") == 0, gpu = strcmp(kind, "kernel") == 0 || strcmp(kind, "copy") == 0;
  add_row_line(lines, request, kind, name,
               file  ? OPGAP_METRIC_FILE_TIME
               : gpu ? OPGAP_METRIC_GPU_BUSY
                     : OPGAP_METRIC_STEP,
               "");
  add_row_line(lines, request, kind, name, OPGAP_METRIC_COUNT, ", calls");
  if (file)
    add_row_line(lines, request, kind, name, OPGAP_METRIC_READ_BYTES, ", bytes read");
  else if (!gpu)
    add_row_line(lines, request, kind, name, OPGAP_METRIC_ALLOC_BYTES, ", bytes allocated");
}

/* The rows that changed most between the first set and any other. */
static void add_rows(struct lines *lines, const struct request *request)
{
  size_t each = request->limit ? (request->limit + request->sets - 2) / (request->sets - 1) : SIZE_MAX;
  for (size_t i = 1; i < request->sets; i++) {
    size_t count, added = 0;
    struct opgap_row_change *rows = opgap_compare_rows(request->runs[0], request->runs[i], &count);
    for (size_t k = 0; k < count && added < each; k++) {
      if (line_named(lines, opgap_pool_printf(lines->pool, "%s %s", rows[k].kind, rows[k].name)))
        continue;
      size_t before = lines->v.count;
      add_row_lines(lines, request, rows[k].kind, rows[k].name);
      added += lines->v.count > before;
    }
    free(rows);
  }
}

/* ---- how far single gains add up ---- */

struct gains {
  double single, together; /* ns saved a step: sum of the single changes, and the last one */
};

static bool gains_of(const struct lines *lines, size_t sets, struct gains *gains)
{
  if (sets < 4 || lines->v.count == 0 || strcmp(lines->v.at[0].name, "step") != 0)
    return false;
  const double *value = lines->v.at[0].value;
  gains->single = 0;
  for (size_t i = 1; i + 1 < sets; i++)
    gains->single += value[0] - value[i];
  gains->together = value[0] - value[sets - 1];
  return isfinite(gains->single) && isfinite(gains->together);
}

/* "+1.5 KB", "-12.3us": what came or went; `plus`: what stands before what came. */
static void signed_text(char *text, size_t size, enum opgap_unit unit, double value, const char *plus)
{
  char amount[32];
  opgap_unit_text(amount, sizeof amount, unit, fabs(value));
  snprintf(text, size, "%s%s", value < 0 ? "-" : plus, amount);
}

static void print_gains(const struct request *request, const struct lines *lines, FILE *file)
{
  struct gains gains;
  char single[40], together[40];
  if (!gains_of(lines, request->sets, &gains))
    return;
  signed_text(single, sizeof single, OPGAP_UNIT_NS, gains.single, "");
  signed_text(together, sizeof together, OPGAP_UNIT_NS, gains.together, "");
  fprintf(file, "\nSaved a step: %s by the single changes added up, %s by %s", single, together,
          request->names[request->sets - 1]);
  if (gains.single > 0)
    fprintf(file, ": %.0f %% of the sum", 100 * gains.together / gains.single);
  fputs("\n", file);
}

/* ---- output ---- */

static void cell_text(char *text, size_t size, const struct line *line, size_t set)
{
  char value[32], difference[40], interval[80] = "";
  opgap_unit_text(value, sizeof value, line->unit, line->value[set]);
  if (set == 0) {
    snprintf(text, size, "%s", value);
  } else if (line->value[0] == 0 && line->value[set] > 0) {
    snprintf(text, size, "%s new", value);
  } else if (!isfinite(line->change[set])) {
    snprintf(text, size, "%s", value);
  } else if (line->value[set] == line->value[0]) {
    snprintf(text, size, "%s =", value);
  } else {
    if (isfinite(line->low[set]) && isfinite(line->high[set]))
      snprintf(interval, sizeof interval, " (%+.1f..%+.1f %%)", line->low[set] * 100, line->high[set] * 100);
    signed_text(difference, sizeof difference, line->unit, line->value[set] - line->value[0], "+");
    snprintf(text, size, "%s %s %+.1f%%%s", value, difference, line->change[set] * 100, interval);
  }
}

static void build_table(const struct request *request, const struct lines *lines, struct table *table,
                        struct table_column *columns)
{
  columns[0] = (struct table_column){.title = request->stepless ? "Whole run" : "Per step", .left = true, .room = 60};
  for (size_t i = 0; i < request->sets; i++)
    columns[i + 1] = (struct table_column){.title = request->names[i]};
  table_begin(table, columns, (unsigned)request->sets + 1);
  for (size_t k = 0; k < lines->v.count; k++) {
    const struct line *line = &lines->v.at[k];
    bool run = strncmp(line->name, "run.", 4) == 0 || strncmp(line->name, "peak", 4) == 0 ||
               strcmp(line->name, "duration") == 0;
    table_format(table, "%s%s", line->name, run && strcmp(line->group, "run") == 0 ? " (run)" : "");
    for (size_t i = 0; i < request->sets; i++) {
      char text[160];
      cell_text(text, sizeof text, line, i);
      table_cell(table, text);
    }
  }
}

static void print_head(const struct request *request, const char *bullet)
{
  for (size_t i = 0; i < request->sets; i++) {
    char *label = text_clean(request->runs[i]->label);
    printf("%s%s: %s, %zu run%s, %llu steps (%s)\n", bullet, request->names[i], label, request->runs[i]->run_count,
           request->runs[i]->run_count == 1 ? "" : "s", (unsigned long long)request->runs[i]->steps,
           request->runs[i]->step_source);
    free(label);
  }
  for (size_t i = 1; i < request->sets; i++)
    for (size_t k = 0; k < request->with[i]->reason_count; k++) {
      char *clean = text_clean(request->with[i]->reasons[k]);
      printf("%snote, %s: %s\n", bullet, request->names[i], clean);
      free(clean);
    }
  if (request->stepless)
    printf("%s%s\n", bullet, STEPLESS);
  putchar('\n');
}

static void print_table(const struct request *request, const struct lines *lines)
{
  struct table table;
  struct table_column columns[TABLE_COLUMNS];
  bool markdown = request->format == FORMAT_MARKDOWN;
  print_head(request, markdown ? "- " : "");
  build_table(request, lines, &table, columns);
  if (markdown)
    table_markdown(&table, stdout);
  else
    table_print(&table, opgap_terminal_width(stdout), "", false, stdout);
  table_end(&table);
  print_gains(request, lines, stdout);
}

static json_t *real(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *line_json(const struct line *line, size_t sets)
{
  static const char *const units[] = {"ns", "bytes", "count", "share"};
  json_t *j = json_object(), *values = json_array();
  for (size_t i = 0; i < sets; i++) {
    json_t *v = json_object();
    json_object_set_new(v, "value", real(line->value[i]));
    json_object_set_new(v, "difference", i > 0 ? real(line->value[i] - line->value[0]) : json_null());
    json_object_set_new(v, "change", real(line->change[i]));
    json_object_set_new(v, "low", real(line->low[i]));
    json_object_set_new(v, "high", real(line->high[i]));
    json_object_set_new(v, "p", real(line->p[i]));
    json_array_append_new(values, v);
  }
  json_object_set_new(j, "group", json_string(line->group));
  json_object_set_new(j, "name", opgap_json_text(line->name));
  json_object_set_new(j, "unit", json_string(units[line->unit]));
  json_object_set_new(j, "runs", values);
  return j;
}

static bool print_json(const struct request *request, const struct lines *lines)
{
  json_t *root = json_object(), *runs = json_array(), *rows = json_array();
  for (size_t i = 0; i < request->sets; i++) {
    json_t *j = json_object();
    json_object_set_new(j, "name", opgap_json_text(request->names[i]));
    json_object_set_new(j, "label", opgap_json_text(request->runs[i]->label));
    json_object_set_new(j, "repeats", json_integer((json_int_t)request->runs[i]->run_count));
    json_object_set_new(j, "steps", json_integer((json_int_t)request->runs[i]->steps));
    json_t *notes = json_array();
    for (size_t k = 0; i > 0 && k < request->with[i]->reason_count; k++)
      json_array_append_new(notes, opgap_json_text(request->with[i]->reasons[k]));
    json_object_set_new(j, "notes", notes);
    json_array_append_new(runs, j);
  }
  for (size_t i = 0; i < lines->v.count; i++)
    json_array_append_new(rows, line_json(&lines->v.at[i], request->sets));
  json_object_set_new(root, "schema", json_integer(1));
  json_object_set_new(root, "runs", runs);
  json_object_set_new(root, "rows", rows);
  struct gains gains;
  bool have = gains_of(lines, request->sets, &gains);
  json_object_set_new(root, "saved_single_ns", have ? real(gains.single) : json_null());
  json_object_set_new(root, "saved_together_ns", have ? real(gains.together) : json_null());
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  json_decref(root);
  if (text == NULL)
    return false;
  puts(text);
  free(text);
  return true;
}

static void csv_field(const char *bytes)
{
  char *clean = text_clean(bytes);
  putchar('"');
  for (const char *c = clean; *c; c++) {
    if (*c == '"')
      putchar('"');
    putchar(*c);
  }
  putchar('"');
  free(clean);
}

static void csv_number(double value)
{
  putchar(',');
  if (isfinite(value))
    printf("%.10g", value);
}

static void print_csv(const struct request *request, const struct lines *lines)
{
  static const char *const units[] = {"ns", "bytes", "count", "share"};
  puts("group,name,unit,run,value,difference,change,low,high,p");
  for (size_t k = 0; k < lines->v.count; k++)
    for (size_t i = 0; i < request->sets; i++) {
      const struct line *line = &lines->v.at[k];
      printf("%s,", line->group);
      csv_field(line->name);
      printf(",%s,", units[line->unit]);
      csv_field(request->names[i]);
      csv_number(line->value[i]);
      csv_number(i > 0 ? line->value[i] - line->value[0] : NAN);
      csv_number(line->change[i]);
      csv_number(line->low[i]);
      csv_number(line->high[i]);
      csv_number(line->p[i]);
      putchar('\n');
    }
}

/* ---- reading ---- */

/* "name:a,b,c" without the name: the paths, in `text` itself. */
static size_t split_paths(char *text, const char **paths)
{
  size_t count = 0;
  char *next = text, *path;
  while ((path = strsep(&next, ",")) != NULL && count < PATHS_MOST)
    if (path[0] != '\0')
      paths[count++] = path;
  return count;
}

/* The last `parts` parts of a path, allocated; all of it when it has no more. */
static char *tail_of(const char *path, unsigned parts)
{
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/')
    end--;
  size_t start = end;
  for (; start > 0; start--)
    if (path[start - 1] == '/' && --parts == 0)
      break;
  return strndup(path + start, end - start);
}

static bool is_name_twice(const struct request *request, size_t set)
{
  for (size_t i = 0; i < request->sets; i++)
    if (i != set && strcmp(request->names[i], request->names[set]) == 0)
      return true;
  return false;
}

/* Columns of the same name get as much of their paths as tells them apart; then, for one path given twice, numbers. */
static void tell_apart(struct request *request)
{
  enum { PARTS_MOST = 64 };
  for (unsigned parts = 2; parts <= PARTS_MOST; parts++) {
    bool twice[SETS_MOST];
    for (size_t i = 0; i < request->sets; i++)
      twice[i] = request->paths[i] != NULL && is_name_twice(request, i);
    for (size_t i = 0; i < request->sets; i++)
      if (twice[i]) {
        free(request->names[i]);
        request->names[i] = tail_of(request->paths[i], parts);
      }
  }
  for (size_t i = 0; i < request->sets; i++)
    for (unsigned number = 2; is_name_twice(request, i); number++) {
      char *numbered = NULL;
      size_t later = i + 1;
      while (later < request->sets && strcmp(request->names[later], request->names[i]) != 0)
        later++;
      if (later == request->sets || asprintf(&numbered, "%s (%u)", request->names[i], number) < 0)
        break;
      free(request->names[later]);
      request->names[later] = numbered;
    }
}

/* A path may hold a colon or a comma: what exists as it stands is one path. */
static int open_set(struct request *request, const char *argument)
{
  char error[1024] = "";
  char *copy = strdup(argument), *at = copy, *colon = strchr(copy, ':');
  const char *paths[PATHS_MOST];
  size_t i = request->sets;
  bool whole = access(argument, F_OK) == 0;
  if (!whole && colon != NULL && colon != copy && memchr(copy, '/', (size_t)(colon - copy)) == NULL) {
    *colon = '\0';
    at = colon + 1;
    request->names[i] = strdup(copy);
  } else {
    request->paths[i] = argument;
    request->names[i] = tail_of(argument, 1);
  }
  size_t count = 1;
  paths[0] = at;
  if (access(at, F_OK) != 0)
    count = split_paths(at, paths);
  int code = OPGAP_EXIT_DONE;
  if (count == 0)
    code = opgap_usage_error("diff", "%s: which trace?", argument);
  else if ((request->runs[i] = opgap_runs_open(paths, count, 0, error, sizeof error)) == NULL)
    code = opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  request->sets++;
  free(copy);
  return code;
}

static int exit_code(const struct request *request)
{
  const char *first = NULL;
  size_t count = 0;
  for (size_t i = 0; i < request->sets; i++)
    for (size_t r = 0; r < request->runs[i]->run_count; r++) {
      const char *damage = request->runs[i]->runs[r].damage;
      count += damage != NULL;
      first = first != NULL ? first : damage;
    }
  return opgap_damage_exit(first, count);
}

static int diff(struct request *request)
{
  struct lines lines = {.pool = opgap_pool_new()};
  const struct opgap_compare_options options = {.judge = false};
  bool good = true;
  for (size_t i = 0; i < request->sets; i++)
    request->stepless = request->stepless || request->runs[i]->steps == 0;
  for (size_t i = 1; i < request->sets; i++)
    request->with[i] = opgap_compare(request->runs[0], request->runs[i], &options);
  add_changes(&lines, request);
  if (!request->stepless)
    add_rows(&lines, request);
  if (request->stepless && request->format == FORMAT_CSV)
    fputs("opgap: " STEPLESS "\n", stderr);
  if (request->format == FORMAT_JSON)
    good = print_json(request, &lines);
  else if (request->format == FORMAT_CSV)
    print_csv(request, &lines);
  else
    print_table(request, &lines);
  VEC_FREE(&lines.v);
  opgap_pool_free(lines.pool);
  if (!good || fflush(stdout) != 0 || ferror(stdout))
    return opgap_fail(OPGAP_EXIT_USAGE, "cannot write the output: %s", strerror(errno));
  return exit_code(request);
}

enum { OPT_FORMAT = 256, OPT_LIMIT };
static const struct option options_table[] = {{"format", required_argument, NULL, OPT_FORMAT},
                                              {"limit", required_argument, NULL, OPT_LIMIT},
                                              {"help", no_argument, NULL, 'h'},
                                              {NULL, 0, NULL, 0}};

static int set_option(void *context, int option, const char *value)
{
  struct request *request = context;
  if (option == OPT_LIMIT) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || value[0] == '-' || number > SIZE_MAX / 2)
      return opgap_usage_error("diff", "--limit %s: must be a number of ops, 0 for all", value);
    request->limit = (size_t)number;
    return OPGAP_EXIT_DONE;
  }
  int f = 0;
  while (f < FORMAT_COUNT && strcmp(value, formats[f]) != 0)
    f++;
  if (f == FORMAT_COUNT)
    return opgap_usage_error("diff", "--format %s: must be text, json, markdown or csv", value);
  request->format = (enum format)f;
  return OPGAP_EXIT_DONE;
}

static int parse(int argc, char **argv, struct request *request)
{
  int code = opgap_options("diff", argc, argv, ":h", options_table, help, set_option, request);
  if (code >= 0)
    return code;
  if (argc - optind < 2)
    return opgap_usage_error("diff", "give two runs or more");
  if ((size_t)(argc - optind) > SETS_MOST)
    return opgap_usage_error("diff", "at most %u columns; give repeats as A1,A2,A3", SETS_MOST);
  return -1;
}

int opgap_cmd_diff(int argc, char **argv)
{
  struct request request = {.limit = 15};
  int code = parse(argc, argv, &request);
  if (code >= 0)
    return code;
  code = OPGAP_EXIT_DONE;
  for (int i = optind; i < argc && code == OPGAP_EXIT_DONE; i++)
    code = open_set(&request, argv[i]);
  if (code == OPGAP_EXIT_DONE) {
    tell_apart(&request);
    code = diff(&request);
  }
  for (size_t i = 0; i < request.sets; i++) {
    opgap_comparison_free(request.with[i]);
    opgap_runs_free(request.runs[i]);
    free(request.names[i]);
  }
  return code;
}
