/* A SQLite database: all spans, the tables of the report's JSON, views.  docs/EXPORT.md has its schema.
 *
 * Spans go in as one INSERT ... SELECT from a virtual table that reads them from the trace: SQLite then runs one
 * program for all rows, which is faster than a statement for each.  The file is made under a temporary name without
 * a journal: it is whole or it is removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "analysis/pool.h"
#include "analysis/text.h"
#include "output/export/export.h"
#include "output/export/sqlite_schema.h"
#include "output/output.h"
#include "output/replace.h"

struct database {
  struct opgap_export_job *job;
  sqlite3 *db;
  sqlite3_stmt *shape, *sample, *gpu, *unfinished;
  VEC(uint32_t) first_thread;    /* id of a process's first stream, by process */
  const struct opgap_span *span; /* being inserted; NULL: at the end */
  uint64_t row;
  bool failed;
};

static void fail(struct database *d)
{
  if (!d->failed) {
    /* a full disk, a file size limit: what the system said is clearer */
    int system_error = sqlite3_errcode(d->db) == SQLITE_FULL ? ENOSPC : sqlite3_system_errno(d->db);
    snprintf(d->job->error, sizeof d->job->error, "cannot write %s: %s", d->job->path,
             system_error != 0 ? strerror(system_error) : sqlite3_errmsg(d->db));
  }
  d->failed = true;
}

static bool run(struct database *d, const char *sql)
{
  if (!d->failed && sqlite3_exec(d->db, sql, NULL, NULL, NULL) != SQLITE_OK)
    fail(d);
  return !d->failed;
}

static sqlite3_stmt *prepare(struct database *d, const char *sql)
{
  sqlite3_stmt *statement = NULL;
  if (!d->failed && sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK)
    fail(d);
  return statement;
}

static void step(struct database *d, sqlite3_stmt *statement)
{
  if (d->failed)
    return;
  if (sqlite3_step(statement) != SQLITE_DONE)
    fail(d);
  sqlite3_reset(statement);
}

/* Any bytes as UTF-8; names may be broken. */
static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
  char *clean = text_clean(text);
  sqlite3_bind_text(statement, column, clean, -1, free);
}

/* ---- samples, and what few spans have, as they come by ---- */

static sqlite3_int64 thread_id(const struct database *d, const struct opgap_span *span)
{
  return (sqlite3_int64)d->first_thread.at[span->process] + span->stream;
}

static void put_sample(struct database *d, const struct opgap_span *span)
{
  const struct opgap_source *source = d->job->source;
  bool counter = span->event->id == OPGAP_EV_COUNTER && span->record->status < OPGAP_MAX_EVENTS;
  const struct opgap_event *call = counter ? source->event(source->context, span->process, span->record->status) : NULL;
  for (unsigned i = 0; i < span->event->field_count; i++) {
    sqlite3_bind_int64(d->sample, 1, thread_id(d, span));
    sqlite3_bind_int64(d->sample, 2, (sqlite3_int64)span->start_ns);
    sqlite3_bind_text(d->sample, 3, span->text, -1, SQLITE_STATIC);
    if (call != NULL)
      sqlite3_bind_text(d->sample, 4, call->name, -1, SQLITE_STATIC);
    else if (span->record->status != 0)
      sqlite3_bind_int64(d->sample, 4, span->record->status);
    else
      sqlite3_bind_null(d->sample, 4);
    sqlite3_bind_text(d->sample, 5, span->event->fields[i].name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(d->sample, 6, (sqlite3_int64)span->record->field[i]);
    step(d, d->sample);
  }
}

static void put_shape(struct database *d, const struct opgap_span *span)
{
  const uint64_t *f = span->record->field;
  uint32_t extents[6];
  opgap_extents(f[4], extents);
  opgap_extents(f[5], extents + 3);
  sqlite3_bind_int64(d->shape, 1, (sqlite3_int64)d->row);
  for (int i = 0; i < 6; i++) {
    if (extents[0] > 0)
      sqlite3_bind_int64(d->shape, 2 + i, extents[i]);
    else
      sqlite3_bind_null(d->shape, 2 + i); /* a whole graph has none */
  }
  for (int i = 0; i < 4; i++)
    sqlite3_bind_int64(d->shape, 8 + i, (sqlite3_int64)f[6 + i]);
  step(d, d->shape);
}

static void bind_id(sqlite3_stmt *statement, int column, uint32_t id)
{
  if (id != OPGAP_NO_DEVICE)
    sqlite3_bind_int64(statement, column, id);
  else
    sqlite3_bind_null(statement, column);
}

static void put_gpu(struct database *d, const struct opgap_span *span)
{
  sqlite3_bind_int64(d->gpu, 1, (sqlite3_int64)d->row);
  sqlite3_bind_int64(d->gpu, 2, span->process);
  bind_id(d->gpu, 3, span->device);
  bind_id(d->gpu, 4, span->context);
  bind_id(d->gpu, 5, span->gpu_stream);
  if (span->correlation != 0)
    sqlite3_bind_int64(d->gpu, 6, (sqlite3_int64)span->correlation);
  else
    sqlite3_bind_null(d->gpu, 6);
  step(d, d->gpu);
}

static void next_row(struct database *d)
{
  while ((d->span = export_next(d->job)) != NULL && d->span->kind == OPGAP_SPAN_SAMPLE && !d->failed)
    put_sample(d, d->span);
  if (d->failed)
    d->span = NULL;
  if (d->span == NULL)
    return;
  d->row++;
  if (d->span->kind == OPGAP_SPAN_KERNEL)
    put_shape(d, d->span);
  if (d->span->correlation != 0 || d->span->device != OPGAP_NO_DEVICE)
    put_gpu(d, d->span);
  if (d->span->unfinished) {
    sqlite3_bind_int64(d->unfinished, 1, (sqlite3_int64)d->row);
    step(d, d->unfinished);
  }
}

/* ---- the virtual table of spans ---- */

struct reader {
  sqlite3_vtab base;
  struct database *database;
};
struct position {
  sqlite3_vtab_cursor base;
};

static int reader_connect(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **table,
                          char **error)
{
  (void)argc, (void)argv, (void)error;
  int result = sqlite3_declare_vtab(
      db, "CREATE TABLE x (id, thread, kind, name, start_ns, duration_ns, depth, bytes, path, address, status)");
  struct reader *reader = opgap_xcalloc(1, sizeof *reader);
  reader->database = context;
  *table = &reader->base;
  return result;
}

static int reader_disconnect(sqlite3_vtab *table)
{
  free(table);
  return SQLITE_OK;
}

static int reader_plan(sqlite3_vtab *table, sqlite3_index_info *info)
{
  (void)table;
  info->estimatedCost = 1e9;
  return SQLITE_OK;
}

static int reader_open(sqlite3_vtab *table, sqlite3_vtab_cursor **cursor)
{
  (void)table;
  struct position *position = opgap_xcalloc(1, sizeof *position);
  *cursor = &position->base;
  return SQLITE_OK;
}

static int reader_close(sqlite3_vtab_cursor *cursor)
{
  free(cursor);
  return SQLITE_OK;
}

static struct database *database_of(sqlite3_vtab_cursor *cursor)
{
  return ((struct reader *)cursor->pVtab)->database;
}

static int reader_filter(sqlite3_vtab_cursor *cursor, int plan, const char *text, int argc, sqlite3_value **argv)
{
  (void)plan, (void)text, (void)argc, (void)argv;
  next_row(database_of(cursor));
  return SQLITE_OK;
}

static int reader_next(sqlite3_vtab_cursor *cursor)
{
  next_row(database_of(cursor));
  return SQLITE_OK;
}

static int reader_eof(sqlite3_vtab_cursor *cursor)
{
  return database_of(cursor)->span == NULL;
}

/* What is not known stays NULL. */
static int reader_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
  struct database *d = database_of(cursor);
  const struct opgap_span *span = d->span;
  switch (column) {
  case 0:
    sqlite3_result_int64(context, (sqlite3_int64)d->row);
    break;
  case 1:
    sqlite3_result_int64(context, thread_id(d, span));
    break;
  case 2:
    sqlite3_result_int(context, span->kind);
    break;
  case 3:
    sqlite3_result_int64(context, span->name);
    break;
  case 4:
    sqlite3_result_int64(context, (sqlite3_int64)span->start_ns);
    break;
  case 5:
    sqlite3_result_int64(context, (sqlite3_int64)(span->end_ns - span->start_ns));
    break;
  case 6:
    sqlite3_result_int(context, span->depth);
    break;
  case 7:
    if (span->bytes != OPGAP_UNKNOWN)
      sqlite3_result_int64(context, (sqlite3_int64)span->bytes);
    break;
  case 8:
    if (span->path != NULL)
      sqlite3_result_int64(context, span->path_name);
    break;
  case 9:
    if (span->address != 0)
      sqlite3_result_int64(context, (sqlite3_int64)span->address);
    break;
  default:
    sqlite3_result_int64(context, span->record->status);
  }
  return SQLITE_OK;
}

static int reader_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *row)
{
  *row = (sqlite3_int64)database_of(cursor)->row;
  return SQLITE_OK;
}

static const sqlite3_module reader_module = {.xConnect = reader_connect,
                                             .xBestIndex = reader_plan,
                                             .xDisconnect = reader_disconnect,
                                             .xDestroy = reader_disconnect,
                                             .xOpen = reader_open,
                                             .xClose = reader_close,
                                             .xFilter = reader_filter,
                                             .xNext = reader_next,
                                             .xEof = reader_eof,
                                             .xColumn = reader_column,
                                             .xRowid = reader_rowid};

static void put_spans(struct database *d)
{
  if (!d->failed && sqlite3_create_module(d->db, "trace_spans", &reader_module, d) != SQLITE_OK)
    fail(d);
  d->shape = prepare(d, "INSERT INTO kernel_shapes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  d->sample = prepare(d, "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)");
  d->gpu = prepare(d, "INSERT INTO gpu_work VALUES (?, ?, ?, ?, ?, ?)");
  d->unfinished = prepare(d, "INSERT INTO unfinished VALUES (?)");
  run(d, "INSERT INTO span SELECT * FROM trace_spans");
  sqlite3_finalize(d->shape);
  sqlite3_finalize(d->sample);
  sqlite3_finalize(d->gpu);
  sqlite3_finalize(d->unfinished);
}

/* ---- the small tables ---- */

static void put_names(struct database *d)
{
  sqlite3_stmt *statement = prepare(d, "INSERT INTO names VALUES (?, ?)");
  uint32_t count = opgap_spans_name_count(d->job->spans);
  for (uint32_t i = 0; i < count && !d->failed; i++) {
    sqlite3_bind_int64(statement, 1, i);
    bind_text(statement, 2, opgap_spans_name(d->job->spans, i));
    step(d, statement);
  }
  sqlite3_finalize(statement);
  statement = prepare(d, "INSERT INTO kinds VALUES (?, ?)");
  for (int i = 0; i < OPGAP_SPAN_KINDS && !d->failed; i++) {
    sqlite3_bind_int(statement, 1, i);
    sqlite3_bind_text(statement, 2, opgap_span_kind_name((enum opgap_span_kind)i), -1, SQLITE_STATIC);
    step(d, statement);
  }
  sqlite3_finalize(statement);
}

static void put_threads(struct database *d)
{
  static const char *const kinds[] = {"", "thread", "process", "gpu"};
  const struct opgap_summary *s = d->job->summary;
  sqlite3_stmt *statement = prepare(d, "INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?)");
  for (size_t i = 0; i < s->process_count && !d->failed; i++) {
    const struct opgap_process_info *info = opgap_spans_process_info(d->job->spans, s->processes[i].index);
    for (unsigned k = 0; k < info->stream_count; k++) {
      const struct opgap_stream_info *stream = &info->streams[k];
      sqlite3_bind_int64(statement, 1, d->first_thread.at[s->processes[i].index] + k);
      sqlite3_bind_int64(statement, 2, s->processes[i].index);
      sqlite3_bind_int(statement, 3, info->pid);
      if (stream->tid != 0)
        sqlite3_bind_int(statement, 4, stream->tid);
      else
        sqlite3_bind_null(statement, 4);
      bind_text(statement, 5, stream->name);
      sqlite3_bind_text(statement, 6, stream->kind < 4 ? kinds[stream->kind] : "", -1, SQLITE_STATIC);
      step(d, statement);
    }
  }
  sqlite3_finalize(statement);
}

/* Makes and fills a table from an array. */
static void fill_from_array(struct database *d, const struct sqlite_filling *f)
{
  sqlite3_str *text = sqlite3_str_new(d->db);
  sqlite3_str_appendf(text, "CREATE TABLE %s (%s%s);", f->table, f->numbered ? "id INTEGER PRIMARY KEY, " : "",
                      f->columns);
  sqlite3_str_appendf(text, "INSERT INTO %s SELECT %s", f->table, f->numbered ? "r.key, " : "");
  for (const char *at = f->columns; *at != '\0';) {
    size_t length = strcspn(at, ",");
    sqlite3_str_appendf(text, "%sjson_extract(r.value, '$.%.*s')", at == f->columns ? "" : ",", (int)length, at);
    at += length + strspn(at + length, ", ");
  }
  sqlite3_str_appendf(text, " FROM report, json_each(report.text, '%s') AS r;", f->path);
  char *sql = sqlite3_str_finish(text);
  if (sql == NULL)
    fail(d);
  run(d, sql);
  sqlite3_free(sql);
}

static void fill_from_report(struct database *d)
{
  for (const struct sqlite_filling *f = sqlite_from_report; f->sql != NULL || f->table != NULL; f++) {
    if (f->sql != NULL)
      run(d, f->sql);
    else
      fill_from_array(d, f);
  }
}

static void put_report(struct database *d)
{
  struct opgap_output_options options = {0};
  char *json = opgap_output_json(d->job->summary, &options);
  sqlite3_stmt *statement = prepare(d, "INSERT INTO report VALUES (?)");
  if (!d->failed) {
    sqlite3_bind_text(statement, 1, json, -1, SQLITE_STATIC);
    step(d, statement);
  }
  sqlite3_finalize(statement);
  free(json);
  fill_from_report(d);
  statement = prepare(d, "INSERT INTO meta VALUES ('opgap_version', '" OPGAP_VERSION "'), ('schema', 1), "
                         "('start_realtime_ns', ?), ('spans', ?)");
  if (!d->failed) {
    sqlite3_bind_int64(statement, 1, d->job->summary->start_realtime_ns);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)d->row);
    step(d, statement);
  }
  sqlite3_finalize(statement);
}

/* ---- the file ---- */

static void number_threads(struct database *d)
{
  uint32_t next = 0;
  for (unsigned i = 0; i < d->job->source->process_count; i++) {
    *VEC_PUSH(&d->first_thread) = next;
    next += opgap_spans_process_info(d->job->spans, i)->stream_count;
  }
}

static bool write_database(struct database *d, const char *path)
{
  if (sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
    fail(d);
  run(d, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
         "PRAGMA page_size = 65536; PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;");
  number_threads(d);
  run(d, "BEGIN");
  run(d, sqlite_tables);
  put_spans(d);
  put_names(d);
  put_threads(d);
  put_report(d);
  run(d, sqlite_views);
  run(d, "COMMIT");
  if (sqlite3_close(d->db) != SQLITE_OK)
    fail(d);
  VEC_FREE(&d->first_thread);
  return !d->failed;
}

bool export_sqlite(struct opgap_export_job *job)
{
  struct database d = {.job = job};
  struct stat status;
  int error = 0;
  if (stat(job->path, &status) == 0 && !S_ISREG(status.st_mode)) {
    snprintf(job->error, sizeof job->error, "cannot write %s: it is no regular file", job->path);
    return false;
  }
  char *temporary = replace_begin(job->path);
  if (temporary == NULL)
    error = errno;
  bool done = temporary != NULL && write_database(&d, temporary);
  if (temporary != NULL)
    error = replace_end(temporary, job->path, done);
  if (error != 0)
    snprintf(job->error, sizeof job->error, "cannot write %s: %s", job->path, strerror(error));
  job->files_written += done && error == 0;
  return done && error == 0;
}
