/* Trace-event JSON, for Kineto and chrome://tracing: events as they come, files split by time.
 *
 * Threads   one at a time.
 */
#ifndef OPGAP_OUTPUT_EXPORT_JSON_EVENTS_H
#define OPGAP_OUTPUT_EXPORT_JSON_EVENTS_H

#include "analysis/pool.h"
#include "output/export/export.h"

struct json_text {
  char *bytes;
  size_t length;
};

struct json_events {
  struct opgap_export_job *job;
  struct sink *sink;           /* NULL: no file open */
  char *path;                  /* of the open file */
  unsigned part;               /* files begun */
  bool first;                  /* no event in this file yet */
  VEC(struct json_text) names; /* by name of the spans: quoted; bytes NULL: not yet */
};

/* A literal without its length being counted again. */
#define PUT(sink, literal) sink_bytes(sink, literal, sizeof(literal) - 1)

/* Begins an event, up to and without its name: {"ph": "X" and a comma before it where one is due. */
void json_event(struct json_events *events, const char *phase);
/* , "name": ... of a span, quoted once for all. */
void json_span_name(struct json_events *events, const struct opgap_span *span);
void json_key_number(struct sink *sink, const char *key, uint64_t value);
void json_key_signed(struct sink *sink, const char *key, int64_t value);
void json_key_text(struct sink *sink, const char *key, const char *text);
/* The fields of the span's schema as members of "args", but those named in `skip` (NULL-terminated) and, for figures,
 * zeros; a comma after each. */
void json_fields(struct json_events *events, const struct opgap_span *span, const char *const *skip);
/* A metadata event: what ("process_name", ...), pid, tid, and its argument, text or number (text NULL). */
void json_metadata(struct json_events *events, const char *what, int64_t pid, int64_t tid, const char *key,
                   const char *text, int64_t number);
/* Is the file as large as it may be? */
bool json_full(const struct json_events *events);
/* The name of part n (from 1) of a file: "trace.json.gz" -> "trace-2.json.gz"; to be freed. */
char *json_part_name(const char *path, const char *word, unsigned n);
void json_close(struct json_events *events);

#endif
