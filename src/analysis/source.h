/* Where an analysis takes its records from: a trace on disk, or records that a test made up.
 *
 * The functions mean what their namesakes in format/reader.h mean; records of a stream come in record order.
 * Ownership: what they return belongs to the source and lives as long as it does; a batch lives until the next call on
 * its cursor.
 */
#ifndef OPGAP_ANALYSIS_SOURCE_H
#define OPGAP_ANALYSIS_SOURCE_H

#include "format/reader.h"

struct opgap_source {
  void *context;
  const char *path;
  unsigned process_count;
  unsigned threads; /* that may read it for exports, tables of stacks and the gate; 0: as many as help */
  const struct opgap_process_info *(*process)(void *context, unsigned process);
  const struct opgap_event *(*event)(void *context, unsigned process, unsigned event);
  const char *(*name)(void *context, unsigned process, uint64_t name_id, size_t *length); /* length: may be NULL */
  const char *(*info)(void *context, unsigned process, const char *key);                  /* NULL: absent */
  const char *(*damage)(void *context, unsigned *at);                                     /* reader.h */
  const char *(*note)(void *context, unsigned *at);                                       /* reader.h */
  void *(*cursor_open)(void *context, unsigned process, unsigned stream);
  size_t (*cursor_batch)(void *cursor, const struct opgap_record **records);
  void (*cursor_close)(void *cursor);
};

/* A source over an open trace, which must outlive it. */
struct opgap_source opgap_source_of_trace(struct opgap_trace *trace, const char *path);

#endif
