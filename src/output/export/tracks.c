#include "output/export/tracks.h"

#include <stdio.h>
#include <stdlib.h>

#define PID_STEP 10000000 /* above every pid */

void tracks_open(struct tracks *t)
{
  *t = (struct tracks){.pool = opgap_pool_new()};
}

void tracks_close(struct tracks *t)
{
  opgap_map_free(&t->index);
  VEC_FREE(&t->rows);
  opgap_pool_free(t->pool);
}

static enum track_kind kind_of(const struct opgap_span *span)
{
  switch (span->kind) {
  case OPGAP_SPAN_FREE_RANGE:
    return TRACK_RANGES;
  case OPGAP_SPAN_CUDA:
    return TRACK_CUDA;
  case OPGAP_SPAN_KERNEL:
  case OPGAP_SPAN_MEMCPY:
  case OPGAP_SPAN_MEMSET:
    return TRACK_STREAM;
  case OPGAP_SPAN_SYNC:
    return TRACK_SYNC;
  case OPGAP_SPAN_OVERHEAD:
  case OPGAP_SPAN_LOST:
    return TRACK_OTHER;
  default:
    return TRACK_THREAD;
  }
}

static struct track *make(struct tracks *t, const struct opgap_span *span, enum track_kind kind)
{
  struct track *track = opgap_pool_alloc(t->pool, sizeof *track);
  bool device = kind == TRACK_STREAM;
  *track = (struct track){.kind = kind,
                          .process = span->process,
                          .stream = device ? 0 : span->stream,
                          .tid = device ? 0 : span->tid,
                          .device = device ? span->device : OPGAP_NO_DEVICE,
                          .gpu_stream = device ? span->gpu_stream : OPGAP_NO_DEVICE};
  *VEC_PUSH(&t->rows) = track;
  track->number = (uint32_t)t->rows.count;
  return track;
}

struct track *tracks_of(struct tracks *t, const struct opgap_span *span)
{
  enum track_kind kind = kind_of(span);
  bool device = kind == TRACK_STREAM;
  uint64_t place = device ? (uint64_t)span->device << 32 | span->gpu_stream : span->stream;
  uint32_t *index = opgap_map_put(&t->index, (uint64_t)kind << 32 | span->process, place);
  if (*index == 0)
    *index = make(t, span, kind)->number;
  struct track *track = t->rows.at[*index - 1];
  if (kind == TRACK_THREAD)
    return track;
  while (track->end_ns > span->start_ns && track->next != NULL)
    track = track->next;
  if (track->end_ns > span->start_ns) {
    uint32_t lane = track->lane + 1;
    track = track->next = make(t, span, kind);
    track->lane = lane;
  }
  if (span->end_ns > track->end_ns)
    track->end_ns = span->end_ns;
  return track;
}

const char *tracks_name(const struct opgap_export_job *job, const struct track *track)
{
  static char text[128];
  static const char *const words[] = {"", " ranges", " CUDA calls", "", "synchronisation", "overhead and losses"};
  const struct opgap_process_info *info = opgap_spans_process_info(job->spans, track->process);
  int length;
  if (track->kind == TRACK_STREAM)
    length = snprintf(text, sizeof text, "GPU %u stream %u", track->device, track->gpu_stream);
  else if (track->kind >= TRACK_SYNC)
    length = snprintf(text, sizeof text, "%s", words[track->kind]);
  else if (track->tid == 0)
    length = snprintf(text, sizeof text, "process%s", words[track->kind]);
  else
    length = snprintf(text, sizeof text, "%s%s", info->streams[track->stream].name, words[track->kind]);
  if (track->lane > 0 && length > 0 && (size_t)length < sizeof text)
    snprintf(text + length, sizeof text - (size_t)length, " (%u)", track->lane + 1);
  return text;
}

int64_t tracks_pid(const struct opgap_export_job *job, uint32_t process)
{
  int32_t pid = opgap_spans_process_info(job->spans, process)->pid;
  int64_t same = 0;
  for (uint32_t i = 0; i < process; i++)
    same += opgap_spans_process_info(job->spans, i)->pid == pid;
  return pid + same * PID_STEP;
}
