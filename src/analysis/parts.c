#include "analysis/parts.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/analysis.h"
#include "analysis/fields.h"
#include "analysis/json_text.h"
#include "analysis/order.h"
#include "analysis/ranks.h"
#include "analysis/text.h"

#define FORMAT_NAME "opgap-summary"
#define FILE_MOST (1024u << 20)

void opgap_parts_free(struct opgap_parts *parts)
{
  for (size_t i = 0; i < parts->v.count; i++)
    opgap_summary_free(parts->v.at[i]);
  VEC_FREE(&parts->v);
}

/* ---- access to fields ---- */

static size_t element_size(enum field_type type)
{
  switch (type) {
  case FIELD_I32:
  case FIELD_U32:
    return sizeof(uint32_t);
  case FIELD_BOOL:
    return sizeof(bool);
  default:
    return sizeof(uint64_t); /* numbers of 64 bits, size_t, double, pointers */
  }
}
_Static_assert(sizeof(size_t) == 8 && sizeof(double) == 8 && sizeof(void *) == 8, "element_size");

static size_t count_of(const struct field *f, const void *row)
{
  size_t count;
  memcpy(&count, (const char *)row + f->count, sizeof count);
  return count;
}

static void set_count(const struct field *f, void *row, size_t count)
{
  memcpy((char *)row + f->count, &count, sizeof count);
}

static void *pointer_of(const struct field *f, const void *row)
{
  void *pointer;
  memcpy(&pointer, (const char *)row + f->offset, sizeof pointer);
  return pointer;
}

static void set_pointer(const struct field *f, void *row, const void *pointer)
{
  memcpy((char *)row + f->offset, &pointer, sizeof pointer);
}

static uint64_t number_at(enum field_type type, const void *at)
{
  uint64_t value = 0;
  bool flag;
  uint32_t half;
  if (type == FIELD_BOOL) {
    memcpy(&flag, at, sizeof flag);
    return flag;
  }
  if (type == FIELD_U32) {
    memcpy(&half, at, sizeof half);
    return half;
  }
  memcpy(&value, at, sizeof value);
  return value;
}

static void set_number(enum field_type type, void *at, uint64_t value)
{
  bool flag = value != 0;
  uint32_t half = (uint32_t)value;
  if (type == FIELD_BOOL)
    memcpy(at, &flag, sizeof flag);
  else if (type == FIELD_U32)
    memcpy(at, &half, sizeof half);
  else
    memcpy(at, &value, sizeof value);
}

/* ---- writing ---- */

static json_t *row_json(const struct field_table *table, const void *row);

static json_t *element_json(const struct field *f, const void *at)
{
  uint64_t wide;
  int32_t half;
  double real;
  const char *text;
  switch (f->type) {
  case FIELD_TEXT:
    memcpy(&text, at, sizeof text);
    return opgap_json_text(text);
  case FIELD_REAL:
    memcpy(&real, at, sizeof real);
    return json_real(real);
  case FIELD_I32:
    memcpy(&half, at, sizeof half);
    return json_integer(half);
  case FIELD_BOOL:
    return json_boolean(number_at(f->type, at));
  case FIELD_U64:
    wide = number_at(f->type, at);
    return wide == OPGAP_UNKNOWN ? json_null() : json_integer((json_int_t)wide);
  default:
    return json_integer((json_int_t)number_at(f->type, at));
  }
}

static json_t *field_json(const struct field *f, const void *row)
{
  const char *at = (const char *)row + f->offset;
  if (f->type == FIELD_STRUCT)
    return row_json(f->table, at);
  json_t *array;
  if (f->type == FIELD_ROWS) {
    array = json_array();
    const char *rows = pointer_of(f, row);
    for (size_t i = 0; i < count_of(f, row); i++)
      json_array_append_new(array, row_json(f->table, rows + i * f->table->size));
    return array;
  }
  if (f->type == FIELD_TEXTS)
    return opgap_json_texts(pointer_of(f, row), count_of(f, row));
  if (f->type == FIELD_NUMBERS) {
    array = json_array();
    const uint64_t *numbers = pointer_of(f, row);
    for (size_t i = 0; i < count_of(f, row); i++)
      json_array_append_new(array, json_integer((json_int_t)numbers[i]));
    return array;
  }
  if (f->length == 1)
    return element_json(f, at);
  array = json_array();
  for (size_t i = 0; i < f->length; i++)
    json_array_append_new(array, element_json(f, at + i * element_size(f->type)));
  return array;
}

static json_t *row_json(const struct field_table *table, const void *row)
{
  json_t *object = json_object();
  for (size_t i = 0; i < table->count; i++)
    json_object_set_new(object, table->fields[i].name, field_json(&table->fields[i], row));
  return object;
}

bool opgap_parts_write(const struct opgap_parts *parts, FILE *file)
{
  json_t *root = json_object(), *array = json_array();
  json_object_set_new(root, "format", json_string(FORMAT_NAME));
  json_object_set_new(root, "schema", json_integer(OPGAP_PARTS_SCHEMA));
  json_object_set_new(root, "opgap_version", json_string(OPGAP_VERSION));
  for (size_t i = 0; i < parts->v.count; i++)
    json_array_append_new(array, row_json(&opgap_summary_fields, parts->v.at[i]));
  json_object_set_new(root, "parts", array);
  bool good = json_dumpf(root, file, JSON_COMPACT | JSON_PRESERVE_ORDER) == 0 && fputc('\n', file) != EOF;
  json_decref(root);
  return good;
}

/* ---- reading ---- */

struct parsing {
  struct opgap_pool *pool;
  char *error;
  size_t size;
  const char *path;
};

static bool bad(const struct parsing *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool bad(const struct parsing *p, const char *format, ...)
{
  va_list arguments;
  int at = snprintf(p->error, p->size, "%s: ", p->path);
  va_start(arguments, format);
  if (at >= 0 && (size_t)at < p->size)
    vsnprintf(p->error + at, p->size - (size_t)at, format, arguments);
  va_end(arguments);
  text_clean_line(p->error, p->size); /* it may quote what it read */
  return false;
}

static bool parse_row(const struct parsing *p, const struct field_table *table, const json_t *object, void *row);

static bool parse_integer(const struct parsing *p, const struct field *f, const json_t *value, void *at)
{
  json_int_t number = json_integer_value(value);
  int32_t half = (int32_t)number;
  bool is_half = f->type == FIELD_I32 || f->type == FIELD_U32, is_signed = f->type == FIELD_I32 || f->type == FIELD_I64;
  json_int_t most = f->type == FIELD_I32 ? INT32_MAX : (json_int_t)UINT32_MAX;
  if (!json_is_integer(value) || (!is_signed && number < 0) || (is_half && (number > most || number < INT32_MIN)))
    return bad(p, "\"%s\" is no such number", f->name);
  if (f->type == FIELD_I32)
    memcpy(at, &half, sizeof half);
  else
    set_number(f->type, at, (uint64_t)number);
  return true;
}

static bool parse_element(const struct parsing *p, const struct field *f, const json_t *value, void *at)
{
  if (f->type == FIELD_TEXT) {
    if (!json_is_string(value))
      return bad(p, "\"%s\" is no text", f->name);
    const char *text = opgap_pool_string(p->pool, json_string_value(value));
    memcpy(at, &text, sizeof text);
    return true;
  }
  if (f->type == FIELD_REAL) {
    double real = json_number_value(value);
    if (!json_is_number(value))
      return bad(p, "\"%s\" is no number", f->name);
    memcpy(at, &real, sizeof real);
    return true;
  }
  if (f->type == FIELD_BOOL) {
    if (!json_is_boolean(value))
      return bad(p, "\"%s\" is neither true nor false", f->name);
    set_number(FIELD_BOOL, at, json_is_true(value));
    return true;
  }
  if (f->type == FIELD_U64 && json_is_null(value)) {
    set_number(FIELD_U64, at, OPGAP_UNKNOWN);
    return true;
  }
  return parse_integer(p, f, value, at);
}

static bool parse_list(const struct parsing *p, const struct field *f, const json_t *value, void *row)
{
  static const struct field number = {"numbers", FIELD_U64, RULE_FIRST, 0, 1, 0, NULL};
  static const struct field text = {"texts", FIELD_TEXT, RULE_FIRST, 0, 1, 0, NULL};
  size_t count = json_array_size(value), size = f->type == FIELD_ROWS ? f->table->size : sizeof(uint64_t);
  if (!json_is_array(value))
    return bad(p, "\"%s\" is no list", f->name);
  char *rows = opgap_pool_alloc(p->pool, count * size);
  for (size_t i = 0; i < count; i++) {
    const json_t *element = json_array_get(value, i);
    bool good = f->type == FIELD_ROWS
                    ? parse_row(p, f->table, element, rows + i * size)
                    : parse_element(p, f->type == FIELD_TEXTS ? &text : &number, element, rows + i * size);
    if (!good)
      return false;
  }
  /* two lists may share one count: they must be of one length */
  if (pointer_of(f, row) == NULL && count_of(f, row) != 0 && count_of(f, row) != count)
    return bad(p, "\"%s\" has another length than the list that belongs to it", f->name);
  set_count(f, row, count);
  set_pointer(f, row, rows);
  return true;
}

static bool parse_field(const struct parsing *p, const struct field *f, const json_t *value, void *row)
{
  char *at = (char *)row + f->offset;
  if (value == NULL)
    return bad(p, "\"%s\" is missing", f->name);
  if (f->type == FIELD_STRUCT)
    return parse_row(p, f->table, value, at);
  if (f->type == FIELD_ROWS || f->type == FIELD_NUMBERS || f->type == FIELD_TEXTS)
    return parse_list(p, f, value, row);
  if (f->length == 1)
    return parse_element(p, f, value, at);
  if (!json_is_array(value) || json_array_size(value) != f->length)
    return bad(p, "\"%s\" must have %zu elements", f->name, f->length);
  for (size_t i = 0; i < f->length; i++)
    if (!parse_element(p, f, json_array_get(value, i), at + i * element_size(f->type)))
      return false;
  return true;
}

static bool parse_row(const struct parsing *p, const struct field_table *table, const json_t *object, void *row)
{
  if (!json_is_object(object))
    return bad(p, "a row is no object");
  for (size_t i = 0; i < table->count; i++)
    if (!parse_field(p, &table->fields[i], json_object_get(object, table->fields[i].name), row))
      return false;
  return true;
}

/* Enums index tables of names. */
static bool enums_ok(const struct opgap_summary *s)
{
  bool good = s->verdict.bound_by < OPGAP_BOUND_COUNT && s->steps.skipped <= s->steps.count;
  good = good && (!s->ranks.told || (s->verdict.evidence_count > 0 && s->verdict.remedy_count > 0));
  for (size_t i = 0; i < s->process_count; i++)
    good = good && s->processes[i].role < OPGAP_ROLE_COUNT;
  for (size_t i = 0; i < s->op_count; i++)
    good = good && s->ops[i].role < OPGAP_ROLE_COUNT && s->ops[i].kind <= OPGAP_OP_MEMSET;
  for (size_t i = 0; i < s->call_count; i++)
    good = good && s->calls[i].role < OPGAP_ROLE_COUNT;
  for (size_t i = 0; i < s->gpu_tables.finding_count; i++)
    good = good && s->gpu_tables.findings[i].finding < OPGAP_FINDING_COUNT;
  for (size_t i = 0; i < s->gaps.thread_cause_count; i++)
    good = good && s->gaps.thread_by_cause[i].cause < OPGAP_CAUSE_COUNT;
  for (size_t i = 0; i < s->gaps.gpu_cause_count; i++)
    good = good && s->gaps.gpu_by_cause[i].cause < OPGAP_CAUSE_COUNT;
  for (size_t i = 0; i < s->gaps.thread_listed; i++)
    for (size_t k = 0; k < s->gaps.threads[i].cause_count; k++)
      good = good && s->gaps.threads[i].causes[k].cause < OPGAP_CAUSE_COUNT;
  for (size_t i = 0; i < s->gaps.gpu_listed; i++)
    for (size_t k = 0; k < s->gaps.gpus[i].cause_count; k++)
      good = good && s->gaps.gpus[i].causes[k].cause < OPGAP_CAUSE_COUNT;
  return good;
}

static bool parse_part(struct opgap_parts *parts, struct parsing *p, const json_t *object)
{
  p->pool = opgap_pool_new();
  struct opgap_summary *s = opgap_pool_alloc(p->pool, sizeof *s);
  s->pool = p->pool;
  bool good = parse_row(p, &opgap_summary_fields, object, s);
  if (good && !enums_ok(s))
    good = bad(p, "a row names something that this opgap does not know");
  if (!good) {
    opgap_summary_free(s);
    return false;
  }
  opgap_ranks_compare(&s->ranks);
  *VEC_PUSH(&parts->v) = s;
  return true;
}

static bool parse_root(struct opgap_parts *parts, struct parsing *p, const json_t *root)
{
  const char *format = json_string_value(json_object_get(root, "format"));
  const json_t *schema = json_object_get(root, "schema"), *array = json_object_get(root, "parts");
  if (format == NULL || strcmp(format, FORMAT_NAME) != 0)
    return bad(p, "not a summary of opgap report --summary-out");
  if (json_integer_value(schema) != OPGAP_PARTS_SCHEMA)
    return bad(p, "its schema is %lld, this opgap reads %d: make it anew", (long long)json_integer_value(schema),
               OPGAP_PARTS_SCHEMA);
  if (!json_is_array(array) || json_array_size(array) == 0)
    return bad(p, "it holds no part");
  for (size_t i = 0; i < json_array_size(array); i++)
    if (!parse_part(parts, p, json_array_get(array, i)))
      return false;
  return true;
}

bool opgap_parts_is_file(const char *path)
{
  static const char begins[] = "{\"format\":\"" FORMAT_NAME "\"";
  char text[sizeof begins - 1];
  struct stat status;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
    return false;
  FILE *file = fopen(path, "r");
  bool same =
      file != NULL && fread(text, 1, sizeof text, file) == sizeof text && memcmp(text, begins, sizeof text) == 0;
  if (file != NULL)
    fclose(file);
  return same;
}

bool opgap_parts_parse(struct opgap_parts *parts, const char *text, size_t length, const char *path, char *error,
                       size_t size)
{
  struct parsing p = {.error = error, .size = size, .path = path};
  json_error_t why;
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
  if (root == NULL)
    return bad(&p, "not a whole summary: %s", why.text);
  bool good = parse_root(parts, &p, root);
  json_decref(root);
  return good;
}

bool opgap_parts_read(struct opgap_parts *parts, const char *path, char *error, size_t size)
{
  struct parsing p = {.error = error, .size = size, .path = path};
  struct stat status;
  FILE *file = fopen(path, "r");
  if (file == NULL || fstat(fileno(file), &status) != 0 || status.st_size > (off_t)FILE_MOST) {
    bad(&p, "%s", file == NULL ? strerror(errno) : "too large for a summary");
    if (file != NULL)
      fclose(file);
    return false;
  }
  char *text = opgap_xcalloc((size_t)status.st_size + 1, 1);
  size_t length = fread(text, 1, (size_t)status.st_size, file);
  fclose(file);
  bool good = opgap_parts_parse(parts, text, length, path, error, size);
  free(text);
  return good;
}

/* ---- merging ---- */

/* The parts of one struct: rows of one table, and how much later than the first each part began. */
struct sources {
  const void **rows;
  const uint64_t *shifts;
  size_t count;
};

static uint64_t combined(enum field_rule rule, enum field_type type, uint64_t left, uint64_t right)
{
  if (type == FIELD_U64 && (left == OPGAP_UNKNOWN || right == OPGAP_UNKNOWN))
    return left == OPGAP_UNKNOWN ? right : left;
  switch (rule) {
  case RULE_SUM:
    return left + right;
  case RULE_MAX:
    return left > right ? left : right;
  case RULE_MIN:
    return left < right ? left : right;
  case RULE_AND:
    return left && right;
  case RULE_OR:
    return left || right;
  default:
    return left;
  }
}

static void combine_element(const struct field *f, char *to, const char *from)
{
  const char *text;
  double left, right;
  if (f->type == FIELD_TEXT) {
    memcpy(&text, to, sizeof text);
    if (text[0] == '\0')
      memcpy(to, from, element_size(FIELD_TEXT));
  } else if (f->type == FIELD_REAL) {
    memcpy(&left, to, sizeof left);
    memcpy(&right, from, sizeof right);
    if (f->rule == RULE_MAX && right > left)
      memcpy(to, &right, sizeof right);
  } else if (f->rule != RULE_FIRST && f->rule != RULE_KEY && f->rule != RULE_TIME) {
    set_number(f->type, to, combined(f->rule, f->type, number_at(f->type, to), number_at(f->type, from)));
  }
}

/* Adds the plain fields of a row with the same key. */
static void combine(const struct field_table *table, char *to, const char *from)
{
  for (size_t i = 0; i < table->count; i++) {
    const struct field *f = &table->fields[i];
    if (f->type >= FIELD_STRUCT)
      continue;
    for (size_t k = 0; k < f->length; k++)
      combine_element(f, to + f->offset + k * element_size(f->type), from + f->offset + k * element_size(f->type));
  }
}

static const char *kept(struct opgap_pool *pool, const char *text)
{
  return text[0] ? opgap_pool_string(pool, text) : "";
}

static void copy_row(struct opgap_pool *pool, const struct field_table *table, char *to, const char *from,
                     uint64_t shift);

static void copy_list(struct opgap_pool *pool, const struct field *f, char *to, const char *from, uint64_t shift)
{
  size_t count = count_of(f, from), size = f->type == FIELD_ROWS ? f->table->size : sizeof(uint64_t);
  const char *old = pointer_of(f, from);
  char *rows = opgap_pool_alloc(pool, count * size);
  for (size_t i = 0; i < count; i++) {
    if (f->type == FIELD_ROWS)
      copy_row(pool, f->table, rows + i * size, old + i * size, shift);
    else if (f->type == FIELD_TEXTS)
      ((const char **)rows)[i] = kept(pool, ((const char *const *)old)[i]);
    else
      ((uint64_t *)rows)[i] = ((const uint64_t *)old)[i] + (f->rule == RULE_TIME ? shift : 0);
  }
  set_count(f, to, count);
  set_pointer(f, to, rows);
}

static void copy_row(struct opgap_pool *pool, const struct field_table *table, char *to, const char *from,
                     uint64_t shift)
{
  for (size_t i = 0; i < table->count; i++) {
    const struct field *f = &table->fields[i];
    char *at = to + f->offset;
    const char *source = from + f->offset;
    if (f->type == FIELD_STRUCT) {
      copy_row(pool, f->table, at, source, shift);
    } else if (f->type > FIELD_STRUCT) {
      copy_list(pool, f, to, from, shift);
    } else {
      memcpy(at, source, f->length * element_size(f->type));
      for (size_t k = 0; f->type == FIELD_TEXT && k < f->length; k++)
        ((const char **)at)[k] = kept(pool, ((const char *const *)source)[k]);
      if (f->rule == RULE_TIME)
        set_number(f->type, at, number_at(f->type, at) + shift);
    }
  }
}

static bool is_keyed(const struct field_table *table)
{
  for (size_t i = 0; i < table->count; i++)
    if (table->fields[i].rule == RULE_KEY)
      return true;
  return false;
}

/* The key fields one after the other as text, each with its length before it, so that no two keys read alike. */
static const char *key_of(const struct field_table *table, const char *row, char **key, size_t *room)
{
  size_t length = 0;
  for (size_t i = 0; i < table->count; i++) {
    const struct field *f = &table->fields[i];
    if (f->rule != RULE_KEY)
      continue;
    char number[24];
    const char *text = number;
    if (f->type == FIELD_TEXT)
      memcpy(&text, row + f->offset, sizeof text);
    else
      snprintf(number, sizeof number, "%llu", (unsigned long long)number_at(f->type, row + f->offset));
    size_t size = strlen(text) + 32;
    if (length + size > *room) {
      *room = 2 * (length + size);
      *key = opgap_xrealloc(*key, *room, 1);
    }
    length += (size_t)snprintf(*key + length, size, "%zu:%s;", strlen(text), text);
  }
  return *key;
}

static void merge_rows(struct opgap_pool *pool, const struct field *f, char *to, const struct sources *sources)
{
  size_t most = 0, count = 0, size = f->table->size, room = 0;
  for (size_t s = 0; s < sources->count; s++)
    most += count_of(f, sources->rows[s]);
  char *rows = opgap_pool_alloc(pool, most * size), *key = NULL;
  struct opgap_strings keys;
  struct opgap_pool *keys_pool = opgap_pool_new();
  bool keyed = is_keyed(f->table);
  opgap_strings_init(&keys, keys_pool);
  for (size_t s = 0; s < sources->count; s++) {
    const char *from = pointer_of(f, sources->rows[s]);
    for (size_t i = 0; i < count_of(f, sources->rows[s]); i++, from += size) {
      size_t row = count;
      if (keyed) { /* ids count from 1, in the order in which they come up */
        const char *text = key_of(f->table, from, &key, &room);
        row = opgap_strings_id(&keys, text, strlen(text)) - 1;
      }
      if (row < count)
        combine(f->table, rows + row * size, from);
      else
        copy_row(pool, f->table, rows + count++ * size, from, sources->shifts[s]);
    }
  }
  opgap_strings_free(&keys);
  opgap_pool_free(keys_pool);
  free(key);
  set_count(f, to, count);
  set_pointer(f, to, rows);
}

static void merge_texts(struct opgap_pool *pool, const struct field *f, char *to, const struct sources *sources)
{
  size_t most = 0, count = 0;
  for (size_t s = 0; s < sources->count; s++)
    most += count_of(f, sources->rows[s]);
  const char **texts = opgap_pool_alloc(pool, most * sizeof *texts);
  for (size_t s = 0; s < sources->count; s++) {
    const char *const *from = pointer_of(f, sources->rows[s]);
    for (size_t i = 0; i < count_of(f, sources->rows[s]); i++) {
      size_t same = 0;
      while (same < count && strcmp(texts[same], from[i]) != 0)
        same++;
      if (same == count)
        texts[count++] = kept(pool, from[i]);
    }
  }
  set_count(f, to, count);
  set_pointer(f, to, texts);
}

static void merge_struct(struct opgap_pool *pool, const struct field_table *table, char *to,
                         const struct sources *sources)
{
  copy_row(pool, table, to, sources->rows[0], sources->shifts[0]);
  for (size_t s = 1; s < sources->count; s++)
    combine(table, to, sources->rows[s]);
  for (size_t i = 0; i < table->count; i++) {
    const struct field *f = &table->fields[i];
    if (f->type == FIELD_STRUCT) {
      struct sources inside = {opgap_xcalloc(sources->count, sizeof *inside.rows), sources->shifts, sources->count};
      for (size_t s = 0; s < sources->count; s++)
        inside.rows[s] = (const char *)sources->rows[s] + f->offset;
      merge_struct(pool, f->table, to + f->offset, &inside);
      free(inside.rows);
    } else if (f->type == FIELD_ROWS && f->rule == RULE_ALL) {
      merge_rows(pool, f, to, sources);
    } else if (f->type == FIELD_TEXTS && f->rule == RULE_ALL) {
      merge_texts(pool, f, to, sources);
    }
  }
}

/* ---- order of parts and of rows ---- */

static int32_t rank_of(const struct opgap_summary *s)
{
  int32_t lowest = INT32_MAX;
  for (size_t i = 0; i < s->process_count; i++)
    if (s->processes[i].rank >= 0 && s->processes[i].rank < lowest)
      lowest = s->processes[i].rank;
  return lowest;
}

/* The part whose steps are shown comes first. */
static int by_importance(const void *left, const void *right)
{
  const struct opgap_summary *l = *(struct opgap_summary *const *)left, *r = *(struct opgap_summary *const *)right;
  if ((l->steps.count > 0) != (r->steps.count > 0))
    return l->steps.count > 0 ? -1 : 1;
  if (rank_of(l) != rank_of(r))
    return rank_of(l) < rank_of(r) ? -1 : 1;
  if (l->start_realtime_ns != r->start_realtime_ns)
    return l->start_realtime_ns < r->start_realtime_ns ? -1 : 1;
  return strcmp(l->path, r->path);
}

static void sort_tables(struct opgap_summary *s, size_t gaps_listed)
{
  order_rows(s->processes, s->process_count, sizeof *s->processes, order_processes);
  order_rows(s->threads, s->thread_count, sizeof *s->threads, order_threads);
  order_rows(s->ops, s->op_count, sizeof *s->ops, order_ops);
  order_rows(s->calls, s->call_count, sizeof *s->calls, order_calls);
  order_rows(s->files, s->file_count, sizeof *s->files, order_files);
  order_rows(s->locks, s->lock_count, sizeof *s->locks, order_locks);
  order_rows(s->gpu_tables.kernels, s->gpu_tables.kernel_count, sizeof *s->gpu_tables.kernels, order_kernels);
  order_rows(s->gpu_tables.copies, s->gpu_tables.copy_count, sizeof *s->gpu_tables.copies, order_copies);
  order_rows(s->gpu_tables.findings, s->gpu_tables.finding_count, sizeof *s->gpu_tables.findings, order_findings);
  order_rows(s->memory.lived, s->memory.lived_count, sizeof *s->memory.lived, order_lived);
  order_rows(s->memory.failures, s->memory.failure_count, sizeof *s->memory.failures, order_failures);
  order_rows(s->gaps.threads, s->gaps.thread_listed, sizeof *s->gaps.threads, order_thread_gaps);
  order_rows(s->gaps.gpus, s->gaps.gpu_listed, sizeof *s->gaps.gpus, order_gpu_gaps);
  order_rows(s->gaps.thread_by_cause, s->gaps.thread_cause_count, sizeof *s->gaps.thread_by_cause, order_causes);
  order_rows(s->gaps.gpu_by_cause, s->gaps.gpu_cause_count, sizeof *s->gaps.gpu_by_cause, order_causes);
  s->gaps.thread_listed = s->gaps.thread_listed < gaps_listed ? s->gaps.thread_listed : gaps_listed;
  s->gaps.gpu_listed = s->gaps.gpu_listed < gaps_listed ? s->gaps.gpu_listed : gaps_listed;
}

/* Where a part begins on the clock of the first: one host has one CLOCK_MONOTONIC, others only the time of day. */
static int64_t begins_at(const struct opgap_summary *first, const struct opgap_summary *s)
{
  if (strcmp(first->boot_id, s->boot_id) == 0)
    return (int64_t)s->start_ns;
  return (int64_t)first->start_ns + (s->start_realtime_ns - first->start_realtime_ns);
}

/* ---- what is there twice ---- */

const char *opgap_parts_process_key(struct opgap_pool *pool, const struct opgap_summary *part,
                                    const struct opgap_sum_process *process)
{
  bool has_boot = part->boot_id[0] != '\0';
  int64_t start = (has_boot ? (int64_t)part->start_ns : part->start_realtime_ns) + (int64_t)process->start_ns;
  return opgap_pool_printf(pool, "%s %s %d %lld", has_boot ? part->boot_id : "-", process->host, process->pid,
                           (long long)start);
}

/* What is most complete comes first: a snapshot has the processes of its trace and fewer records. */
struct indexed_part {
  size_t index, processes;
  uint64_t records;
};

static int most_first(const void *left, const void *right)
{
  const struct indexed_part *l = left, *r = right;
  if (l->processes != r->processes)
    return l->processes > r->processes ? -1 : 1;
  if (l->records != r->records)
    return l->records > r->records ? -1 : 1;
  return l->index < r->index ? -1 : 1;
}

static void add_notice(struct opgap_summary *s, const char *text)
{
  const char **notices = opgap_pool_alloc(s->pool, (s->notice_count + 1) * sizeof *notices);
  for (size_t i = 0; i < s->notice_count; i++)
    notices[i] = s->notices[i];
  notices[s->notice_count++] = text;
  s->notices = notices;
}

/* Of each process the part that it was first met in, by the id of its key. */
struct owners {
  struct opgap_pool *pool; /* of the keys */
  struct opgap_strings keys;
  VEC(size_t) parts; /* by id - 1 */
};

/* How many processes of a part another one has; *used is the first such part.  Its other processes become its own. */
static size_t claim(struct owners *owners, const struct opgap_summary *s, size_t index, size_t *used)
{
  size_t again = 0;
  for (size_t i = 0; i < s->process_count; i++) {
    const char *key = opgap_parts_process_key(owners->pool, s, &s->processes[i]);
    uint32_t id = opgap_strings_id(&owners->keys, key, strlen(key)); /* counts from 1, in the order of coming up */
    if (id > owners->parts.count)
      *VEC_PUSH(&owners->parts) = index;
    else if (owners->parts.at[id - 1] != index && again++ == 0)
      *used = owners->parts.at[id - 1];
  }
  return again;
}

/* Takes out the parts for which others are used; used[i] is i where a part stays. */
static void leave_out(struct opgap_parts *parts, const size_t *used)
{
  size_t count = 0;
  for (size_t i = 0; i < parts->v.count; i++) {
    struct opgap_summary *stays = parts->v.at[used[i]];
    if (used[i] != i && strcmp(parts->v.at[i]->path, stays->path) == 0)
      add_notice(stays, opgap_pool_printf(stays->pool, "%s is given twice: it counts once", stays->path));
    else if (used[i] != i)
      add_notice(stays, opgap_pool_printf(stays->pool, "%s has processes of %s: it is left out, %s is used",
                                          parts->v.at[i]->path, stays->path, stays->path));
  }
  for (size_t i = 0; i < parts->v.count; i++) {
    if (used[i] != i)
      opgap_summary_free(parts->v.at[i]);
    else
      parts->v.at[count++] = parts->v.at[i];
  }
  parts->v.count = count;
}

bool opgap_parts_leave_out_repeats(struct opgap_parts *parts, char *error, size_t size)
{
  size_t count = parts->v.count, *used = opgap_xcalloc(count, sizeof *used);
  struct indexed_part *order = opgap_xcalloc(count, sizeof *order);
  struct owners owners = {.pool = opgap_pool_new()};
  bool good = true;
  opgap_strings_init(&owners.keys, owners.pool);
  for (size_t i = 0; i < count; i++)
    order[i] = (struct indexed_part){i, parts->v.at[i]->process_count, parts->v.at[i]->records};
  order_rows(order, count, sizeof *order, most_first);
  for (size_t o = 0; o < count && good; o++) {
    size_t index = order[o].index, again = claim(&owners, parts->v.at[index], index, &used[index]);
    const struct opgap_summary *s = parts->v.at[index];
    if (again == 0)
      used[index] = index;
    good = again == 0 || again == s->process_count;
    if (!good)
      snprintf(error, size, "%s: %zu of its %zu processes are in another part as well: they would count twice", s->path,
               again, s->process_count);
  }
  if (good)
    leave_out(parts, used);
  VEC_FREE(&owners.parts);
  opgap_strings_free(&owners.keys);
  opgap_pool_free(owners.pool);
  free(used);
  free(order);
  return good;
}

/* Of the trainer, else of the process with the steps, or that came first. */
static const char *command_of(const struct opgap_summary *s)
{
  for (size_t i = 0; i < s->process_count; i++)
    if (s->processes[i].role == OPGAP_ROLE_TRAINER)
      return s->processes[i].command;
  const struct opgap_sum_process *first = opgap_step_process(s);
  return first ? first->command : "";
}

/* Ranks of one job may have commands of their own; other parts then are other programs. */
static bool other_commands(struct opgap_summary *const *parts, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    int32_t first = rank_of(parts[0]), rank = rank_of(parts[i]);
    bool ranks = first != INT32_MAX && rank != INT32_MAX && first != rank;
    if (!ranks && !text_same_command(command_of(parts[0]), command_of(parts[i])))
      return true;
  }
  return false;
}

struct opgap_summary *opgap_parts_merge(const struct opgap_parts *parts, size_t gaps_listed)
{
  size_t count = parts->v.count;
  struct opgap_summary **order = opgap_xcalloc(count, sizeof *order);
  memcpy(order, parts->v.at, count * sizeof *order);
  qsort(order, count, sizeof *order, by_importance);
  struct opgap_pool *pool = opgap_pool_new();
  struct opgap_summary *s = opgap_pool_alloc(pool, sizeof *s);
  uint64_t *shifts = opgap_xcalloc(count, sizeof *shifts), end = 0;
  int64_t start = INT64_MAX;
  for (size_t i = 0; i < count; i++) {
    int64_t begin = begins_at(order[0], order[i]);
    start = begin < start ? begin : start;
  }
  for (size_t i = 0; i < count; i++) {
    shifts[i] = (uint64_t)(begins_at(order[0], order[i]) - start);
    end = shifts[i] + order[i]->duration_ns > end ? shifts[i] + order[i]->duration_ns : end;
  }
  struct sources sources = {(const void **)order, shifts, count};
  merge_struct(pool, &opgap_summary_fields, (char *)s, &sources);
  s->pool = pool;
  s->start_ns = (uint64_t)start;
  s->start_realtime_ns = order[0]->start_realtime_ns - (int64_t)shifts[0];
  s->duration_ns = end;
  s->window_start_ns = 0;
  s->window_end_ns = end;
  if (count > 1)
    s->path = opgap_pool_printf(pool, "%s and %zu more", order[0]->path, count - 1);
  if (s->has_gpu)
    s->gpu_status = "ok";
  if (other_commands(order, count))
    add_notice(s, "the parts are runs of different commands");
  const char *pause = opgap_longest_pause(pool, s);
  if (pause != NULL)
    add_notice(s, pause);
  sort_tables(s, gaps_listed > 0 ? gaps_listed : OPGAP_GAPS_LISTED);
  opgap_ranks_compare(&s->ranks);
  opgap_verdict_straggler(s);
  free(shifts);
  free(order);
  return s;
}
