/* Rows of a timeline: where a span is drawn.  What may overlap without nesting gets as many lanes as it needs.
 *
 * Threads   one at a time.  Ownership: tracks live as long as their table.
 * Memory    bounded by threads, GPU streams and how much overlaps.
 */
#ifndef OPGAP_OUTPUT_EXPORT_TRACKS_H
#define OPGAP_OUTPUT_EXPORT_TRACKS_H

#include "analysis/pool.h"
#include "output/export/export.h"

enum track_kind {
  TRACK_THREAD, /* ops, ranges and calls: they nest */
  TRACK_RANGES, /* a thread's ranges that need not nest */
  TRACK_CUDA,   /* a thread's CUDA calls as CUPTI saw them */
  TRACK_STREAM, /* kernels, copies and sets of a stream of a device */
  TRACK_SYNC,   /* synchronisations seen by CUPTI */
  TRACK_OTHER,  /* CUPTI's own work, times of lost records */
};

struct track {
  enum track_kind kind;
  uint32_t process, stream; /* stream: of the trace, TRACK_STREAM: 0 */
  int32_t tid;
  uint32_t device, gpu_stream;
  uint32_t lane;   /* from 0 */
  uint32_t number; /* from 1, in order of appearance */
  bool announced;  /* for whoever writes it */
  uint64_t end_ns;
  struct track *next; /* lane */
};

struct tracks {
  struct opgap_pool *pool;
  VEC(struct track *) rows;
  struct opgap_map index; /* -> row + 1, of lane 0 */
};

void tracks_open(struct tracks *tracks);
void tracks_close(struct tracks *tracks);
struct track *tracks_of(struct tracks *tracks, const struct opgap_span *span);
/* "python3", "GPU 0 stream 7", "GPU 0 stream 7 (2)", ...; valid until the next call. */
const char *tracks_name(const struct opgap_export_job *job, const struct track *track);
/* A process id that no other process of the trace has: pids may meet again on another host or after exec. */
int64_t tracks_pid(const struct opgap_export_job *job, uint32_t process);

#endif
