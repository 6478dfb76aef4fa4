/* A table of all spans, RFC 4180.  docs/EXPORT.md names the columns. */
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/text.h"
#include "output/export/export.h"

struct csv_text {
  char *bytes; /* NULL: not yet */
  size_t length;
};

struct csv {
  struct sink *sink;
  VEC(struct csv_text) names; /* by name of the spans: a whole cell */
};

/* A cell as RFC 4180 quotes it; control bytes and broken UTF-8 become \xNN, as in the report's CSV. */
static char *cell_of(const char *text)
{
  char *clean = text_clean(text);
  if (strpbrk(clean, ",\"") == NULL)
    return clean;
  char *cell = opgap_xcalloc(2 * strlen(clean) + 3, 1), *to = cell;
  *to++ = '"';
  for (const char *at = clean; *at != '\0'; at++) {
    if (*at == '"')
      *to++ = '"';
    *to++ = *at;
  }
  *to = '"';
  free(clean);
  return cell;
}

static void put_text(struct csv *c, uint32_t id, const char *text)
{
  while (c->names.count <= id)
    (void)VEC_PUSH(&c->names);
  struct csv_text *name = &c->names.at[id];
  if (name->bytes == NULL) {
    name->bytes = cell_of(text);
    name->length = strlen(name->bytes);
  }
  sink_bytes(c->sink, name->bytes, name->length);
}

/* An empty cell is "none". */
static void put_id(struct csv *c, uint32_t id)
{
  if (id != OPGAP_NO_DEVICE)
    sink_number(c->sink, id);
  sink_char(c->sink, ',');
}

static void put_span(struct csv *c, struct opgap_export_job *job, const struct opgap_span *span)
{
  struct sink *sink = c->sink;
  sink_signed(sink, opgap_spans_process_info(job->spans, span->process)->pid);
  sink_char(sink, ',');
  sink_signed(sink, span->tid);
  sink_char(sink, ',');
  sink_text(sink, opgap_span_kind_name(span->kind));
  sink_char(sink, ',');
  put_text(c, span->name, span->text);
  sink_char(sink, ',');
  sink_number(sink, span->start_ns);
  sink_char(sink, ',');
  sink_number(sink, span->end_ns - span->start_ns);
  sink_char(sink, ',');
  sink_number(sink, span->depth);
  sink_char(sink, ',');
  put_id(c, span->device);
  put_id(c, span->context);
  put_id(c, span->gpu_stream);
  if (span->correlation != 0)
    sink_number(sink, span->correlation);
  sink_char(sink, ',');
  if (span->bytes != OPGAP_UNKNOWN)
    sink_number(sink, span->bytes);
  sink_char(sink, ',');
  if (span->path != NULL)
    put_text(c, span->path_name, span->path);
  sink_char(sink, ',');
  if (span->address != 0)
    sink_number(sink, span->address);
  sink_char(sink, ',');
  sink_number(sink, span->record->status);
  sink_bytes(sink, span->unfinished ? ",1\r\n" : ",0\r\n", 4);
}

bool export_csv(struct opgap_export_job *job)
{
  const struct opgap_span *span;
  struct csv c = {.sink = export_open(job, job->path)};
  if (c.sink == NULL)
    return false;
  sink_text(c.sink, "pid,tid,kind,name,start_ns,duration_ns,depth,device,context,stream,correlation,bytes,path,address,"
                    "status,unfinished\r\n");
  while ((span = export_next(job)) != NULL && c.sink->error == 0)
    put_span(&c, job, span);
  for (size_t i = 0; i < c.names.count; i++)
    free(c.names.at[i].bytes);
  VEC_FREE(&c.names);
  return export_finish(job, c.sink, job->path);
}
