/* speedscope's JSON: a flame chart of each thread.
 *
 * A profile is a list of opened and closed frames in order, so threads are read one after the other.  Frames stand
 * behind the profiles, when all names are known. */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/pool.h"
#include "output/export/export.h"

#define PUT(sink, literal) sink_bytes(sink, literal, sizeof(literal) - 1)

struct frame {
  uint64_t end_ns;
  uint32_t name;
};

struct speedscope {
  struct opgap_export_job *job;
  struct sink *sink;
  VEC(struct frame) open;
  unsigned profiles, events; /* events: of this profile */
  uint64_t last_ns;
};

static void begin_profile(struct speedscope *s, const struct opgap_span *span)
{
  const struct opgap_process_info *info = opgap_spans_process_info(s->job->spans, span->process);
  char *name;
  if (asprintf(&name, "%s (%d) %s %d", export_process_name(s->job, span->process), info->pid,
               info->streams[span->stream].name, span->tid) < 0)
    name = NULL;
  sink_text(s->sink, s->profiles++ > 0 ? ",\n" : "\n");
  PUT(s->sink, "{\"type\": \"evented\", \"unit\": \"nanoseconds\", \"name\": ");
  sink_json_string(s->sink, name != NULL ? name : "");
  PUT(s->sink, ", \"startValue\": ");
  sink_number(s->sink, span->start_ns);
  PUT(s->sink, ", \"events\": [");
  free(name);
}

static void put_event(struct speedscope *s, char type, uint32_t frame, uint64_t time)
{
  if (s->events++ > 0)
    sink_char(s->sink, ',');
  PUT(s->sink, "\n{\"type\": \"");
  sink_char(s->sink, type);
  PUT(s->sink, "\", \"frame\": ");
  sink_number(s->sink, frame);
  PUT(s->sink, ", \"at\": ");
  sink_number(s->sink, time);
  sink_char(s->sink, '}');
  s->last_ns = time;
}

static void close_frames(struct speedscope *s, uint64_t until)
{
  while (s->open.count > 0 && s->open.at[s->open.count - 1].end_ns <= until) {
    const struct frame *frame = &s->open.at[--s->open.count];
    put_event(s, 'C', frame->name, frame->end_ns);
  }
}

static void open_frame(struct speedscope *s, const struct opgap_span *span)
{
  uint64_t outer = s->open.count > 0 ? s->open.at[s->open.count - 1].end_ns : UINT64_MAX;
  uint64_t start = span->start_ns > s->last_ns ? span->start_ns : s->last_ns;
  uint64_t end = span->end_ns < outer ? span->end_ns : outer;
  put_event(s, 'O', span->name, start);
  *VEC_PUSH(&s->open) = (struct frame){end > start ? end : start, span->name};
}

static void write_thread(struct speedscope *s)
{
  const struct opgap_span *span;
  s->events = 0;
  s->last_ns = 0;
  while ((span = export_next(s->job)) != NULL && s->sink->error == 0) {
    if (!span->nests || span->end_ns == span->start_ns) {
      export_leave_out(s->job, span);
      continue;
    }
    if (s->events == 0)
      begin_profile(s, span);
    close_frames(s, span->start_ns);
    open_frame(s, span);
  }
  close_frames(s, UINT64_MAX);
  if (s->events == 0)
    return;
  PUT(s->sink, "], \"endValue\": ");
  sink_number(s->sink, s->last_ns);
  sink_char(s->sink, '}');
}

static void write_frames(struct speedscope *s)
{
  uint32_t count = opgap_spans_name_count(s->job->spans);
  PUT(s->sink, "\n],\n\"shared\": {\"frames\": [");
  for (uint32_t i = 0; i < count; i++) {
    sink_text(s->sink, i > 0 ? ",\n{\"name\": " : "\n{\"name\": ");
    sink_json_string(s->sink, opgap_spans_name(s->job->spans, i));
    sink_char(s->sink, '}');
  }
  PUT(s->sink, "\n]}\n}\n");
}

bool export_speedscope(struct opgap_export_job *job)
{
  const struct opgap_summary *summary = job->summary;
  struct speedscope s = {.job = job, .sink = export_open(job, job->path)};
  if (s.sink == NULL)
    return false;
  PUT(s.sink,
      "{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\", \"exporter\": \"opgap " OPGAP_VERSION
      "\", \"name\": ");
  sink_json_string(s.sink, summary->path);
  PUT(s.sink, ",\n\"profiles\": [");
  for (size_t i = 0; i < summary->process_count; i++) {
    uint32_t process = summary->processes[i].index;
    const struct opgap_process_info *info = opgap_spans_process_info(job->spans, process);
    for (unsigned k = 0; k < info->stream_count; k++) {
      opgap_spans_select(job->spans, process, k);
      if (info->streams[k].kind == OPGAP_STREAM_THREAD)
        write_thread(&s);
      else
        export_leave_out_all(job);
    }
  }
  write_frames(&s);
  VEC_FREE(&s.open);
  return export_finish(job, s.sink, job->path);
}
