/* chrome://tracing's JSON: every process, thread, GPU stream, flow and counter in one file (or several by time).
 *
 * Complete events of one row must nest there, so what overlaps gets rows of its own (tracks.h). */
#include <stdlib.h>
#include <string.h>

#include "output/export/json_events.h"
#include "output/export/tracks.h"

#define ROW_TID 1000000000 /* rows that are no thread: above every tid */

struct chrome {
  struct json_events out;
  struct opgap_export_job *job;
  struct tracks tracks;
  VEC(bool) processes; /* named in this file */
};

static bool begin_file(struct chrome *c)
{
  c->out.part++;
  free(c->out.path);
  c->out.path = c->out.part == 1 ? strdup(c->job->path) : json_part_name(c->job->path, "", c->out.part);
  c->out.sink = c->out.path ? export_open(c->job, c->out.path) : NULL;
  if (c->out.sink == NULL)
    return false;
  c->out.first = true;
  PUT(c->out.sink, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"opgap\": \"" OPGAP_VERSION "\"");
  json_key_signed(c->out.sink, "baseTimeNanoseconds", export_base_ns(c->job));
  PUT(c->out.sink, "},\n\"traceEvents\": [");
  for (size_t i = 0; i < c->tracks.rows.count; i++)
    c->tracks.rows.at[i]->announced = false;
  for (size_t i = 0; i < c->processes.count; i++)
    c->processes.at[i] = false;
  return true;
}

static bool end_file(struct chrome *c)
{
  struct sink *sink = c->out.sink;
  c->out.sink = NULL;
  PUT(sink, "\n]}\n");
  return export_finish(c->job, sink, c->out.path);
}

static int64_t tid_of(const struct track *track)
{
  return track->kind == TRACK_THREAD ? track->tid : ROW_TID + (int64_t)track->number;
}

static void announce(struct chrome *c, struct track *track)
{
  int64_t pid = tracks_pid(c->job, track->process);
  while (c->processes.count <= track->process)
    (void)VEC_PUSH(&c->processes);
  if (!c->processes.at[track->process]) {
    const struct opgap_process_info *info = opgap_spans_process_info(c->job->spans, track->process);
    json_metadata(&c->out, "process_name", pid, 0, "name", export_process_name(c->job, track->process), 0);
    json_metadata(&c->out, "process_labels", pid, 0, "labels", info->command, 0);
    json_metadata(&c->out, "process_sort_index", pid, 0, "sort_index", NULL, track->process);
    c->processes.at[track->process] = true;
  }
  json_metadata(&c->out, "thread_name", pid, tid_of(track), "name", tracks_name(c->job, track), 0);
  json_metadata(&c->out, "thread_sort_index", pid, tid_of(track), "sort_index", NULL,
                (int64_t)track->kind * ROW_TID + tid_of(track) % ROW_TID);
  track->announced = true;
}

static void put_place(struct chrome *c, const struct opgap_span *span, const struct track *track)
{
  json_key_signed(c->out.sink, "pid", tracks_pid(c->job, span->process));
  json_key_signed(c->out.sink, "tid", tid_of(track));
  PUT(c->out.sink, ", \"ts\": ");
  sink_us(c->out.sink, span->start_ns);
}

static void flow(struct chrome *c, const char *phase, const struct opgap_span *span, const struct track *track)
{
  json_event(&c->out, phase);
  PUT(c->out.sink, ", \"id\": ");
  sink_number(c->out.sink, (uint64_t)(span->process + 1) << 32 | span->correlation);
  PUT(c->out.sink, ", \"cat\": \"launch\", \"name\": \"launch\"");
  put_place(c, span, track);
  if (phase[0] == 'f')
    PUT(c->out.sink, ", \"bp\": \"e\"");
  sink_char(c->out.sink, '}');
}

static void put_slice(struct chrome *c, const struct opgap_span *span, const struct track *track)
{
  static const char *const skip[] = {"name", "thread", "device", "stream", "event", NULL};
  bool instant = span->end_ns == span->start_ns && (span->kind == OPGAP_SPAN_CALL || span->kind == OPGAP_SPAN_MARK);
  json_event(&c->out, instant ? "i" : "X");
  json_span_name(&c->out, span);
  PUT(c->out.sink, ", \"cat\": \"");
  sink_text(c->out.sink, span->event->category);
  sink_char(c->out.sink, '"');
  put_place(c, span, track);
  if (instant) {
    PUT(c->out.sink, ", \"s\": \"t\"");
  } else {
    PUT(c->out.sink, ", \"dur\": ");
    sink_us(c->out.sink, span->end_ns - span->start_ns);
  }
  PUT(c->out.sink, ", \"args\": {\"kind\": \"");
  sink_text(c->out.sink, opgap_span_kind_name(span->kind));
  sink_char(c->out.sink, '"');
  if (span->correlation != 0)
    json_key_number(c->out.sink, "correlation", span->correlation);
  if (span->unfinished)
    PUT(c->out.sink, ", \"unfinished\": 1");
  json_fields(&c->out, span, skip);
  PUT(c->out.sink, "}}");
  if (span->correlation != 0 && span->kind == OPGAP_SPAN_CUDA)
    flow(c, "s", span, track);
  else if (span->correlation != 0 && opgap_span_on_device(span->kind))
    flow(c, "f", span, track);
}

/* Resident memory alone: running totals say little as a counter row. */
static void put_memory(struct chrome *c, const struct opgap_span *span)
{
  uint64_t rss;
  if (!opgap_span_field(span, "rss_bytes", &rss))
    return;
  json_event(&c->out, "C");
  PUT(c->out.sink, ", \"name\": \"RSS\"");
  json_key_signed(c->out.sink, "pid", tracks_pid(c->job, span->process));
  PUT(c->out.sink, ", \"ts\": ");
  sink_us(c->out.sink, span->start_ns);
  PUT(c->out.sink, ", \"args\": {\"bytes\": ");
  sink_number(c->out.sink, rss);
  PUT(c->out.sink, "}}");
}

static bool write_spans(struct chrome *c)
{
  const struct opgap_span *span;
  if (!begin_file(c))
    return false;
  while ((span = export_next(c->job)) != NULL && c->out.sink->error == 0) {
    if (opgap_span_in_order(span->kind) && json_full(&c->out) && (!end_file(c) || !begin_file(c)))
      return false;
    if (span->kind == OPGAP_SPAN_SAMPLE) {
      put_memory(c, span);
      continue;
    }
    struct track *track = tracks_of(&c->tracks, span);
    if (!track->announced)
      announce(c, track);
    put_slice(c, span, track);
  }
  return end_file(c);
}

bool export_chrome(struct opgap_export_job *job)
{
  struct chrome c = {.out = {.job = job}, .job = job};
  tracks_open(&c.tracks);
  bool done = write_spans(&c);
  if (c.out.sink != NULL)
    sink_abandon(c.out.sink);
  tracks_close(&c.tracks);
  VEC_FREE(&c.processes);
  json_close(&c.out);
  return done;
}
