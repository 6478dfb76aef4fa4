#include "output/export/json_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_event(struct json_events *e, const char *phase)
{
  if (e->first)
    PUT(e->sink, "\n{\"ph\": \"");
  else
    PUT(e->sink, ",\n{\"ph\": \"");
  e->first = false;
  sink_text(e->sink, phase);
  sink_char(e->sink, '"');
}

void json_span_name(struct json_events *e, const struct opgap_span *span)
{
  while (e->names.count <= span->name)
    (void)VEC_PUSH(&e->names);
  struct json_text *name = &e->names.at[span->name];
  if (name->bytes == NULL) {
    name->bytes = sink_quoted(span->text);
    name->length = name->bytes ? strlen(name->bytes) : 0;
  }
  PUT(e->sink, ", \"name\": ");
  sink_bytes(e->sink, name->bytes, name->length);
}

static void key(struct sink *sink, const char *name)
{
  PUT(sink, ", \"");
  sink_text(sink, name);
  PUT(sink, "\": ");
}

void json_key_number(struct sink *sink, const char *name, uint64_t value)
{
  key(sink, name);
  sink_number(sink, value);
}

void json_key_signed(struct sink *sink, const char *name, int64_t value)
{
  key(sink, name);
  sink_signed(sink, value);
}

void json_key_text(struct sink *sink, const char *name, const char *text)
{
  key(sink, name);
  sink_json_string(sink, text);
}

static bool listed(const char *const *names, const char *name)
{
  for (; *names != NULL; names++)
    if (strcmp(*names, name) == 0)
      return true;
  return false;
}

void json_fields(struct json_events *e, const struct opgap_span *span, const char *const *skip)
{
  for (unsigned i = 0; i < span->event->field_count; i++) {
    const struct opgap_field *field = &span->event->fields[i];
    const char *name = opgap_span_field_name(span, i);
    if (listed(skip, field->name) || !opgap_span_field_known(span, i))
      continue;
    if (i == 0 && span->path != NULL)
      json_key_text(e->sink, name, span->path);
    else if (field->coding == OPGAP_NAME)
      json_key_text(e->sink, name, opgap_span_field_text(e->job->spans, span, i));
    else
      json_key_number(e->sink, name, span->record->field[i]);
  }
  const char *status = opgap_span_status_name(span);
  if (status != NULL)
    json_key_number(e->sink, status, span->record->status);
}

void json_metadata(struct json_events *e, const char *what, int64_t pid, int64_t tid, const char *name,
                   const char *text, int64_t number)
{
  json_event(e, "M");
  json_key_text(e->sink, "name", what);
  json_key_signed(e->sink, "pid", pid);
  json_key_signed(e->sink, "tid", tid);
  PUT(e->sink, ", \"ts\": 0, \"args\": {\"");
  sink_text(e->sink, name);
  PUT(e->sink, "\": ");
  if (text != NULL)
    sink_json_string(e->sink, text);
  else
    sink_signed(e->sink, number);
  PUT(e->sink, "}}");
}

bool json_full(const struct json_events *e)
{
  return e->job->max_bytes > 0 && sink_written(e->sink) >= e->job->max_bytes;
}

char *json_part_name(const char *path, const char *word, unsigned n)
{
  static const char *const ends[] = {".pt.trace.json.gz", ".pt.trace.json.zst", ".pt.trace.json",
                                     ".json.gz",          ".json.zst",          ".json"};
  size_t length = strlen(path), cut = length;
  char *name;
  for (size_t i = 0; i < sizeof ends / sizeof *ends && cut == length; i++) {
    size_t end = strlen(ends[i]);
    if (length > end && strcmp(path + length - end, ends[i]) == 0)
      cut = length - end;
  }
  return asprintf(&name, "%.*s-%s%u%s", (int)cut, path, word, n, path + cut) < 0 ? NULL : name;
}

void json_close(struct json_events *e)
{
  for (size_t i = 0; i < e->names.count; i++)
    free(e->names.at[i].bytes);
  VEC_FREE(&e->names);
  free(e->path);
}
