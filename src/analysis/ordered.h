/* One stream of records, by start instead of by end: parents before what they contain.
 *
 * Threads streams come in post-order (format/reader.h).  A first reading (ordered_scan) finds the records that adopt
 * more than ORDERED_WINDOW others; the second one holds back at most so many, and puts those large ones where they
 * began.  GPU streams come in order of delivery and are sorted within a window.  Samples, losses and ranges that need
 * not nest are no part of the tree (ordered_outside) and come as they are read.
 *
 * Memory    At most ORDERED_WINDOW records a thread stream and ORDERED_GPU_WINDOW a GPU stream, taken as they are
 *           needed, plus the large ones.
 * Threads   One at a time.
 */
#ifndef OPGAP_ANALYSIS_ORDERED_H
#define OPGAP_ANALYSIS_ORDERED_H

#include "analysis/pool.h"
#include "analysis/source.h"

#define ORDERED_WINDOW 16384u
#define ORDERED_GPU_WINDOW 65536u

struct ordered_node {
  struct opgap_record record;
  struct ordered_node *next;
};

struct ordered_level { /* subtrees that wait for a parent, each in pre-order */
  struct ordered_node *first, *last;
};

struct ordered_stream {
  const struct opgap_source *source;
  void *cursor; /* NULL: read to its end */
  const struct opgap_record *records;
  size_t left;
  bool gpu;
  VEC(struct opgap_record) large; /* in pre-order */
  size_t next_large;
  struct ordered_level levels[256];
  unsigned deepest; /* levels above it are empty */
  size_t held;
  struct ordered_node *spare;
  VEC(struct opgap_record) heap; /* GPU: by start */
  uint64_t records_read;
};

/* Whether records of this event are no part of a thread's tree: what the consumer wrote, not the thread. */
bool ordered_outside(unsigned event);
/* Reads the stream once and keeps its large records; `visit` sees every record. */
void ordered_scan(struct ordered_stream *stream, const struct opgap_source *source, unsigned process, unsigned index,
                  bool gpu, void (*visit)(void *context, const struct opgap_record *record), void *context);
/* Begins the second reading, or another one. */
void ordered_begin(struct ordered_stream *stream, unsigned process, unsigned index);
/* Next record, copied to *record; false at the end. */
bool ordered_next(struct ordered_stream *stream, struct opgap_record *record);
void ordered_free(struct ordered_stream *stream);

#endif
