/* A trace reduced to what a page can draw: levels of detail of the whole run, and windows in full detail.
 *
 * Tracks    one for each thread, for each GPU stream, and for the ranges of a thread that need not nest.  A track has
 *           lanes: spans of a lane do not overlap; what lies inside another span has a higher lane.
 * Levels    For each track and lane: OPGAP_LEVELS grids of bins over the whole run, each a quarter as fine as the one
 *           before.  A bin has the time covered, exactly, and the entry (kind and name) that took most of it: exact
 *           when at most OPGAP_BIN_ENTRIES of them share the bin, else an entry with more than a quarter of it is
 *           certain to win over those with less.
 * Sets      Spans kept as they are.  The first set is the whole run; the others are the windows asked for.  A set holds
 *           every span that touches it and is at least min_ns long; min_ns is 0, and rises when there are more than the
 *           set's limit.
 * Memory    bounded by the number of tracks and names, whatever the number of spans.
 * Units     ns since the trace's start.  Ownership: everything lives until opgap_levels_free; texts belong to `spans`.
 */
#ifndef OPGAP_ANALYSIS_LEVELS_H
#define OPGAP_ANALYSIS_LEVELS_H

#include "analysis/spans.h"

#define OPGAP_LEVELS 3u
#define OPGAP_BIN_ENTRIES 3u
#define OPGAP_BIN_LANES 4u      /* deeper lanes have no bins */
#define OPGAP_LANES_LIMIT 48u   /* what is deeper than this is not drawn */
#define OPGAP_TRACKS_LIMIT 240u /* the busiest */

struct opgap_window {
  uint64_t from_ns, to_ns;
  const char *label; /* what it shows */
  size_t limit;      /* spans kept at most */
};

/* Kind and name: what a span is drawn as. */
struct opgap_level_entry {
  enum opgap_span_kind kind;
  const char *text;
};

enum opgap_track_kind { OPGAP_TRACK_THREAD, OPGAP_TRACK_RANGES, OPGAP_TRACK_GPU };
struct opgap_level_bin {
  uint64_t ns;                        /* covered */
  uint32_t entry[OPGAP_BIN_ENTRIES];  /* candidates for the largest; the first one is it */
  uint32_t weight[OPGAP_BIN_ENTRIES]; /* in units of the run's length / 2^31; 0: free */
};
struct opgap_level_track {
  enum opgap_track_kind kind;
  uint32_t process, stream;             /* as in a span */
  int32_t tid;                          /* threads and ranges */
  const char *name;                     /* of the thread, "" if none */
  uint32_t device, context, gpu_stream; /* GPU */
  uint32_t lanes;
  uint64_t ns, spans;                            /* covered in lane 0; number of spans in all lanes */
  struct opgap_level_bin *bins[OPGAP_BIN_LANES]; /* [bin_count] of the finest level; NULL: nothing in this lane */
};

struct opgap_level_span {
  uint32_t track, entry;
  uint16_t lane;
  bool unfinished;
  uint64_t start_ns, end_ns, bytes; /* bytes: OPGAP_UNKNOWN none */
  const char *path;                 /* NULL: none */
};
struct opgap_level_set {
  uint64_t from_ns, to_ns;
  const char *label;
  uint64_t min_ns, left_out; /* shorter spans were left out: how many */
  size_t count;
  struct opgap_level_span *spans; /* by track, lane, start */
};

struct opgap_levels {
  uint64_t duration_ns, spans; /* spans: drawn or merged */
  uint64_t too_deep;           /* beyond OPGAP_LANES_LIMIT: not drawn */
  size_t track_count, tracks_left_out;
  struct opgap_level_track *tracks; /* by process, threads before GPU streams */
  uint32_t bin_count;               /* of the finest level */
  size_t entry_count;
  struct opgap_level_entry *entries;
  size_t set_count;
  struct opgap_level_set *sets;
};

/* Reads all spans.  `progress` as in opgap_analysis_options; may be NULL. */
struct opgap_levels *opgap_levels_make(struct opgap_spans *spans, const struct opgap_summary *summary,
                                       const struct opgap_window *windows, size_t window_count, size_t spans_limit,
                                       void (*progress)(void *context, uint64_t done, uint64_t total), void *context);
void opgap_levels_free(struct opgap_levels *levels);
/* Adds the second bin to the first. */
void opgap_level_bin_merge(struct opgap_level_bin *into, const struct opgap_level_bin *bin);

#endif
