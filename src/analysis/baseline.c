/* The baseline file: JSON, versioned, described in docs/GATE.md.
 *
 * A per-step list in which all values are equal is written as that one value; so an exact counter is one short line. */
#include "analysis/baseline.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/analysis.h"
#include "analysis/json_text.h"
#include "analysis/parts.h"
#include "analysis/text.h"
#include "format/recover.h"

#define FILE_MOST (64u << 20)
#define NUMBER_MOST (1ll << 53) /* exact in every JSON reader */

static const char *const unit_names[] = {"ns", "bytes", "count", "share"};
#define UNITS (sizeof unit_names / sizeof *unit_names)

/* ---- writing ---- */

static json_t *samples_json(const uint64_t *samples, size_t count)
{
  bool equal = count > 0;
  for (size_t i = 1; i < count; i++)
    equal = equal && samples[i] == samples[0];
  if (equal)
    return json_integer((json_int_t)samples[0]);
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, json_integer((json_int_t)samples[i]));
  return array;
}

static json_t *figure_json(const struct opgap_figure *figure)
{
  json_t *j = json_object();
  bool whole = figure->value == floor(figure->value) && fabs(figure->value) < (double)NUMBER_MOST;
  json_object_set_new(j, "name", opgap_json_text(figure->name));
  json_object_set_new(j, "unit", json_string(unit_names[figure->unit]));
  if (figure->counter)
    json_object_set_new(j, "counter", json_true());
  json_object_set_new(j, "value", whole ? json_integer((json_int_t)figure->value) : json_real(figure->value));
  return j;
}

static json_t *row_json(const struct opgap_row *row)
{
  json_t *j = json_object();
  json_object_set_new(j, "kind", json_string(row->kind));
  json_object_set_new(j, "name", opgap_json_text(row->name));
  json_object_set_new(j, "calls", json_integer((json_int_t)row->calls));
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    if (row->sum[m] > 0)
      json_object_set_new(j, opgap_metric_info((enum opgap_metric)m)->name, json_integer((json_int_t)row->sum[m]));
  return j;
}

/* One line: indent, key, value, comma unless it is the last. */
static bool put(FILE *file, unsigned indent, const char *key, json_t *value, bool last)
{
  char *text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY) : NULL;
  json_decref(value);
  if (text == NULL)
    return false;
  fprintf(file, "%*s", (int)indent, "");
  if (key != NULL)
    fprintf(file, "\"%s\": ", key);
  fprintf(file, "%s%s\n", text, last ? "" : ",");
  free(text);
  return true;
}

static bool write_run(const struct opgap_run *run, FILE *file, bool last)
{
  bool good = true;
  int metrics = 0, written = 0;
  fputs("  {\n", file);
  good &= put(file, 3, "path", opgap_json_text(run->path), false);
  good &= put(file, 3, "steps_found", json_integer((json_int_t)run->steps_found), false);
  good &= put(file, 3, "skipped", json_integer((json_int_t)run->skipped), false);
  good &= put(file, 3, "steps", json_integer((json_int_t)run->steps), false);
  good &= put(file, 3, "typical_steps", json_integer((json_int_t)run->typical_steps), false);
  good &= put(file, 3, "lost_records", json_integer((json_int_t)run->lost_records), false);
  good &= put(file, 3, "invalid_records", json_integer((json_int_t)run->invalid_records), false);
  good &= put(file, 3, "damage", run->damage ? opgap_json_text(run->damage) : json_null(), false);
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    metrics += run->samples[m] != NULL;
  fputs("   \"samples\": {\n", file);
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++)
    if (run->samples[m] != NULL)
      good &= put(file, 4, opgap_metric_info((enum opgap_metric)m)->name, samples_json(run->samples[m], run->steps),
                  ++written == metrics);
  fputs("   },\n   \"figures\": [\n", file);
  for (size_t i = 0; i < run->figure_count; i++)
    good &= put(file, 4, NULL, figure_json(&run->figures[i]), i + 1 == run->figure_count);
  fprintf(file, "   ]\n  }%s\n", last ? "" : ",");
  return good;
}

static int by_name(const void *left, const void *right)
{
  const struct opgap_row *l = left, *r = right;
  int order = strcmp(l->kind, r->kind);
  return order ? order : strcmp(l->name, r->name);
}

bool opgap_baseline_write(const struct opgap_runs *runs, FILE *file)
{
  bool good = true;
  json_t *info = json_object();
  for (size_t i = 0; i < runs->info_count; i++)
    json_object_set_new(info, runs->info_keys[i], opgap_json_text(runs->info_values[i]));
  if (runs->row_count > 0) /* by name: a new op is one new line */
    qsort(runs->rows, runs->row_count, sizeof *runs->rows, by_name);
  fputs("{\n", file);
  good &= put(file, 1, "format", json_string(OPGAP_BASELINE_FORMAT), false);
  good &= put(file, 1, "schema", json_integer(OPGAP_BASELINE_SCHEMA), false);
  good &= put(file, 1, "command", opgap_json_text(runs->command), false);
  good &= put(file, 1, "step_source", opgap_json_text(runs->step_source), false);
  good &= put(file, 1, "machine", info, false);
  good &= put(file, 1, "rows_left_out", json_boolean(runs->rows_left_out), false);
  fputs(" \"runs\": [\n", file);
  for (size_t i = 0; i < runs->run_count; i++)
    good &= write_run(&runs->runs[i], file, i + 1 == runs->run_count);
  fputs(" ],\n \"rows\": [\n", file);
  for (size_t i = 0; i < runs->row_count; i++)
    good &= put(file, 2, NULL, row_json(&runs->rows[i]), i + 1 == runs->row_count);
  fputs(" ]\n}\n", file);
  return good && !ferror(file);
}

/* ---- reading ---- */

struct parsing {
  struct opgap_runs *runs;
  const char *path;
  char *error;
  size_t size;
};

static bool bad(struct parsing *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool bad(struct parsing *p, const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(p->error, p->size, "%s: %s; make it again with opgap baseline", p->path, text);
  text_clean_line(p->error, p->size); /* it may quote what it read */
  return false;
}

static bool get_text(struct parsing *p, const json_t *object, const char *key, const char **text)
{
  const json_t *value = json_object_get(object, key);
  if (!json_is_string(value))
    return bad(p, "\"%s\" must be a text", key);
  *text = opgap_pool_string(p->runs->pool, json_string_value(value));
  return true;
}

static bool is_count(const json_t *value)
{
  return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= NUMBER_MOST;
}

static bool get_count(struct parsing *p, const json_t *object, const char *key, uint64_t *number)
{
  const json_t *value = json_object_get(object, key);
  if (!is_count(value))
    return bad(p, "\"%s\" must be a whole number from 0 to 2^53", key);
  *number = (uint64_t)json_integer_value(value);
  return true;
}

static bool get_size(struct parsing *p, const json_t *object, const char *key, size_t *number)
{
  uint64_t value = 0;
  if (!get_count(p, object, key, &value))
    return false;
  *number = value;
  return true;
}

static bool parse_samples(struct parsing *p, struct opgap_run *run, const char *name, const json_t *value)
{
  enum opgap_metric metric = opgap_metric_find(name);
  bool one = is_count(value);
  if (metric == OPGAP_METRIC_COUNT)
    return bad(p, "there is no metric \"%.100s\"", name);
  if (!one && (!json_is_array(value) || json_array_size(value) != run->steps))
    return bad(p, "\"%s\" must be one number, or a list of as many as \"steps\" (%zu)", name, run->steps);
  uint64_t *samples = opgap_pool_alloc(p->runs->pool, run->steps * sizeof *samples);
  for (size_t i = 0; i < run->steps; i++) {
    const json_t *sample = one ? value : json_array_get(value, i);
    if (!is_count(sample))
      return bad(p, "\"%s\": value %zu must be a whole number from 0 to 2^53", name, i);
    samples[i] = (uint64_t)json_integer_value(sample);
  }
  run->samples[metric] = samples;
  return true;
}

static bool parse_figure(struct parsing *p, struct opgap_figure *figure, const json_t *j)
{
  const char *unit = "";
  size_t u = 0;
  if (!json_is_object(j))
    return bad(p, "a figure must be an object");
  if (!get_text(p, j, "name", &figure->name) || !get_text(p, j, "unit", &unit))
    return false;
  while (u < UNITS && strcmp(unit, unit_names[u]) != 0)
    u++;
  if (u == UNITS)
    return bad(p, "figure \"%.100s\": there is no unit \"%.100s\"", figure->name, unit);
  const json_t *value = json_object_get(j, "value");
  if (!json_is_number(value) || !isfinite(json_number_value(value)) || json_number_value(value) < 0)
    return bad(p, "figure \"%.100s\": \"value\" must be a number of at least 0", figure->name);
  figure->unit = (enum opgap_unit)u;
  figure->counter = json_is_true(json_object_get(j, "counter"));
  figure->value = json_number_value(value);
  return true;
}

static bool parse_figures(struct parsing *p, struct opgap_run *run, const json_t *array)
{
  if (!json_is_array(array))
    return bad(p, "\"figures\" must be a list");
  run->figures = opgap_pool_alloc(p->runs->pool, json_array_size(array) * sizeof *run->figures);
  for (size_t i = 0; i < json_array_size(array); i++)
    if (!parse_figure(p, &run->figures[run->figure_count++], json_array_get(array, i)))
      return false;
  return true;
}

static bool parse_run(struct parsing *p, struct opgap_run *run, const json_t *j)
{
  if (!json_is_object(j))
    return bad(p, "a run must be an object");
  if (!get_text(p, j, "path", &run->path) || !get_size(p, j, "steps_found", &run->steps_found) ||
      !get_size(p, j, "skipped", &run->skipped) || !get_size(p, j, "steps", &run->steps) ||
      !get_size(p, j, "typical_steps", &run->typical_steps) || !get_count(p, j, "lost_records", &run->lost_records) ||
      !get_count(p, j, "invalid_records", &run->invalid_records))
    return false;
  if (run->steps > OPGAP_RUNS_STEPS)
    return bad(p, "a run of %zu steps: there are at most %u", run->steps, OPGAP_RUNS_STEPS);
  if (run->typical_steps > run->steps)
    return bad(p, "more typical steps (%zu) than steps (%zu)", run->typical_steps, run->steps);
  const json_t *damage = json_object_get(j, "damage"), *samples = json_object_get(j, "samples");
  if (json_is_string(damage))
    run->damage = opgap_pool_string(p->runs->pool, json_string_value(damage));
  else if (!json_is_null(damage))
    return bad(p, "\"damage\" must be a text or null");
  if (!json_is_object(samples))
    return bad(p, "\"samples\" must be an object");
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)samples, name, value)
  {
    if (!parse_samples(p, run, name, value))
      return false;
  }
  if (run->steps > 0 && run->samples[OPGAP_METRIC_STEP] == NULL)
    return bad(p, "a run has no times of steps (\"step\")");
  return parse_figures(p, run, json_object_get(j, "figures"));
}

static bool parse_row(struct parsing *p, struct opgap_row *row, const json_t *j)
{
  if (!json_is_object(j))
    return bad(p, "a row must be an object");
  if (!get_text(p, j, "kind", &row->kind) || !get_text(p, j, "name", &row->name) ||
      !get_count(p, j, "calls", &row->calls))
    return false;
  for (int m = 0; m < OPGAP_METRIC_COUNT; m++) {
    const char *name = opgap_metric_info((enum opgap_metric)m)->name;
    if (json_object_get(j, name) != NULL && !get_count(p, j, name, &row->sum[m]))
      return false;
  }
  return true;
}

static bool parse_rows(struct parsing *p, const json_t *array)
{
  struct opgap_runs *runs = p->runs;
  if (!json_is_array(array) || json_array_size(array) > OPGAP_RUNS_ROWS)
    return bad(p, "\"rows\" must be a list of at most %u rows", OPGAP_RUNS_ROWS);
  runs->rows = opgap_pool_alloc(runs->pool, json_array_size(array) * sizeof *runs->rows);
  for (size_t i = 0; i < json_array_size(array); i++)
    if (!parse_row(p, &runs->rows[runs->row_count++], json_array_get(array, i)))
      return false;
  return true;
}

static bool parse_machine(struct parsing *p, const json_t *machine)
{
  struct opgap_runs *runs = p->runs;
  if (!json_is_object(machine))
    return bad(p, "\"machine\" must be an object");
  size_t count = json_object_size(machine);
  runs->info_keys = opgap_pool_alloc(runs->pool, count * sizeof *runs->info_keys);
  runs->info_values = opgap_pool_alloc(runs->pool, count * sizeof *runs->info_values);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)machine, key, value)
  {
    if (!json_is_string(value))
      return bad(p, "\"machine\": \"%.100s\" must be a text", key);
    runs->info_keys[runs->info_count] = opgap_pool_string(runs->pool, key);
    runs->info_values[runs->info_count++] = opgap_pool_string(runs->pool, json_string_value(value));
  }
  return true;
}

static bool parse_root(struct parsing *p, const json_t *root)
{
  struct opgap_runs *runs = p->runs;
  const json_t *format = json_object_get(root, "format"), *schema = json_object_get(root, "schema");
  if (!json_is_object(root) || !json_is_string(format) || strcmp(json_string_value(format), OPGAP_BASELINE_FORMAT) != 0)
    return bad(p, "this is not a baseline (\"format\" is not \"" OPGAP_BASELINE_FORMAT "\")");
  if (!json_is_integer(schema) || json_integer_value(schema) != OPGAP_BASELINE_SCHEMA)
    return bad(p, "its schema is %lld, this opgap reads %d",
               json_is_integer(schema) ? (long long)json_integer_value(schema) : -1LL, OPGAP_BASELINE_SCHEMA);
  const json_t *array = json_object_get(root, "runs");
  if (!get_text(p, root, "command", &runs->command) || !get_text(p, root, "step_source", &runs->step_source) ||
      !parse_machine(p, json_object_get(root, "machine")))
    return false;
  runs->rows_left_out = json_is_true(json_object_get(root, "rows_left_out"));
  if (!json_is_array(array) || json_array_size(array) == 0 || json_array_size(array) > OPGAP_RUNS_MOST)
    return bad(p, "\"runs\" must be a list of 1 to %u runs", OPGAP_RUNS_MOST);
  for (size_t i = 0; i < json_array_size(array); i++) {
    struct opgap_run *run = &runs->runs[runs->run_count++];
    if (!parse_run(p, run, json_array_get(array, i)))
      return false;
    runs->steps += run->steps;
    runs->typical_steps += run->typical_steps;
  }
  return parse_rows(p, json_object_get(root, "rows"));
}

struct opgap_runs *opgap_baseline_parse(const char *text, size_t length, const char *path, char *error, size_t size)
{
  json_error_t where;
  struct parsing p = {.path = path, .error = error, .size = size};
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
  if (root == NULL) {
    bad(&p, "not JSON: line %d: %s", where.line, where.text);
    return NULL;
  }
  p.runs = opgap_runs_new();
  p.runs->label = opgap_pool_string(p.runs->pool, path);
  bool good = parse_root(&p, root);
  json_decref(root);
  if (good)
    return p.runs;
  opgap_runs_free(p.runs);
  return NULL;
}

struct opgap_runs *opgap_baseline_read(const char *path, char *error, size_t size)
{
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    snprintf(error, size, "cannot open %s: %s", path, strerror(errno));
    return NULL;
  }
  size_t room = 1 << 16, length = 0, got;
  char *text = opgap_xrealloc(NULL, room, 1);
  while ((got = fread(text + length, 1, room - length, file)) > 0 && length + got <= FILE_MOST) {
    length += got;
    if (length == room)
      text = opgap_xrealloc(text, room *= 2, 1);
  }
  bool failed = ferror(file);
  int reason = errno;
  fclose(file);
  struct opgap_runs *runs = NULL;
  if (failed)
    snprintf(error, size, "cannot read %s: %s", path, strerror(reason));
  else if (got > 0)
    snprintf(error, size, "%s: larger than %u MiB: this is not a baseline", path, FILE_MOST >> 20);
  else
    runs = opgap_baseline_parse(text, length, path, error, size);
  free(text);
  return runs;
}

/* ---- traces or files ---- */

/* A run that is there twice would make the scatter between runs look smaller than it is. */
static bool is_new(struct opgap_runs *runs, struct opgap_strings *processes, const struct opgap_summary *summary)
{
  uint32_t before = (uint32_t)processes->text.count - 1; /* id 0 is "" */
  for (size_t i = 0; i < summary->process_count; i++) {
    const char *key = opgap_parts_process_key(runs->pool, summary, &summary->processes[i]);
    if (opgap_strings_id(processes, key, strlen(key)) <= before)
      return false;
  }
  return true;
}

static bool add_trace(struct opgap_runs *runs, struct opgap_strings *processes, const char *path, unsigned threads,
                      char *error, size_t size)
{
  const struct opgap_analysis_options options = {.threads = threads};
  opgap_trace_recover(path);
  struct opgap_trace *trace = opgap_trace_open(path, error, size);
  if (trace == NULL)
    return false;
  struct opgap_source source = opgap_source_of_trace(trace, path);
  source.threads = threads;
  struct opgap_summary *summary = opgap_analyse(&source, &options, error, size);
  bool good = summary != NULL && is_new(runs, processes, summary);
  if (summary != NULL && !good)
    snprintf(error, size, "%s: the same run is given twice", path);
  good = good && opgap_runs_add_trace(runs, &source, summary, error, size);
  opgap_summary_free(summary);
  opgap_trace_close(trace);
  return good;
}

/* A trace is a folder, or a file that does not begin as JSON does. */
static bool is_baseline(const char *path)
{
  struct stat st;
  if (stat(path, &st) != 0 || S_ISDIR(st.st_mode))
    return false;
  FILE *file = fopen(path, "rb");
  int first = file ? fgetc(file) : EOF;
  while (first == ' ' || first == '\n' || first == '\r' || first == '\t')
    first = fgetc(file);
  if (file != NULL)
    fclose(file);
  size_t length = strlen(path);
  return first == '{' || (length > 5 && strcmp(path + length - 5, ".json") == 0);
}

struct opgap_runs *opgap_runs_open(const char *const *paths, size_t count, unsigned threads, char *error, size_t size)
{
  if (count == 1 && is_baseline(paths[0]))
    return opgap_baseline_read(paths[0], error, size);
  struct opgap_runs *runs = opgap_runs_new();
  struct opgap_strings processes;
  opgap_strings_init(&processes, runs->pool);
  for (size_t i = 0; i < count; i++) {
    bool baseline = is_baseline(paths[i]);
    if (baseline)
      snprintf(error, size, "%s: a baseline is one side of its own: give it alone, not among traces", paths[i]);
    if (baseline || !add_trace(runs, &processes, paths[i], threads, error, size)) {
      opgap_strings_free(&processes);
      opgap_runs_free(runs);
      return NULL;
    }
    runs->label = i ? opgap_pool_printf(runs->pool, "%s,%s", runs->label, paths[i]) : paths[i];
  }
  opgap_strings_free(&processes);
  runs->label = opgap_pool_string(runs->pool, runs->label);
  return runs;
}
