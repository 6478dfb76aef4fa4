/* Perfetto's protobuf: every process, thread, GPU stream, flow and counter.
 *
 * One packet sequence.  Names, categories and texts of arguments are interned on it; a packet carries the ones that it
 * is the first to use.  Slices of a thread nest: a begin packet where a span begins, an end packet before the next span
 * that lies behind it.  What overlaps without nesting has lanes (tracks.h).  Times are CLOCK_MONOTONIC of the trace. */
#include <stdlib.h>
#include <string.h>

#include "analysis/text.h"
#include "output/export/export.h"
#include "output/export/tracks.h"
#include <perfetto.pb-c.h>

typedef Opgap__Perfetto__Trace Trace;
typedef Opgap__Perfetto__TracePacket Packet;
typedef Opgap__Perfetto__TrackEvent Event;
typedef Opgap__Perfetto__DebugAnnotation Annotation;
typedef Opgap__Perfetto__InternedName InternedName;
typedef Opgap__Perfetto__InternedText InternedText;

enum { CLOCK_REAL = 1, CLOCK_MONO = 3, CLOCK_BOOT = 6 };           /* BuiltinClock */
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 }; /* TrackEvent.Type */
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };                       /* TracePacket.SequenceFlags */
enum { UNIT_NS = 1, UNIT_COUNT = 2, UNIT_BYTES = 3 };
#define PROCESS_UUID (1ull << 56)
#define TRACK_UUID (2ull << 56)
#define COUNTER_UUID (3ull << 56)
#define ARGUMENTS (OPGAP_MAX_FIELDS + 4)

struct open_slices {
  VEC(uint64_t) ends;
};

struct perfetto {
  struct opgap_export_job *job;
  struct sink *sink;
  struct tracks tracks;
  VEC(struct open_slices) open; /* by number of the track */
  VEC(bool) processes;          /* announced */
  struct opgap_map counters;    /* (event and status, process, stream and field) -> number */
  VEC(bool) names;              /* interned, by name of the spans */
  struct opgap_pool *pool;
  struct opgap_strings texts; /* categories, names and values of arguments: one table, three kinds of use */
  VEC(uint8_t) known;         /* by text: bit of enum use, when its reader knows it */
  uint8_t *packed;
  size_t room;
  /* of the packet in the making */
  Opgap__Perfetto__InternedData interned;
  InternedName category, name, argument_names[ARGUMENTS], *category_at[1], *name_at[1], *argument_name_at[ARGUMENTS];
  InternedText values[ARGUMENTS], *value_at[ARGUMENTS];
  Annotation arguments[ARGUMENTS], *argument_at[ARGUMENTS];
};
enum use { USE_CATEGORY = 1, USE_ARGUMENT = 2, USE_VALUE = 4 };

/* ---- packets ---- */

static void put(struct perfetto *p, Packet *packet)
{
  Packet *at[1] = {packet};
  Trace trace = OPGAP__PERFETTO__TRACE__INIT;
  packet->has_trusted_packet_sequence_id = true;
  packet->trusted_packet_sequence_id = 1;
  trace.n_packet = 1;
  trace.packet = at;
  size_t size = protobuf_c_message_get_packed_size(&trace.base);
  if (size > p->room) {
    p->room = 2 * size;
    p->packed = opgap_xrealloc(p->packed, p->room, 1);
  }
  protobuf_c_message_pack(&trace.base, p->packed);
  sink_bytes(p->sink, p->packed, size);
}

static void put_clocks(struct perfetto *p)
{
  const struct opgap_summary *s = p->job->summary;
  Packet packet = OPGAP__PERFETTO__TRACE_PACKET__INIT;
  Opgap__Perfetto__ClockSnapshot snapshot = OPGAP__PERFETTO__CLOCK_SNAPSHOT__INIT;
  Opgap__Perfetto__TracePacketDefaults defaults = OPGAP__PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
  Opgap__Perfetto__ClockSnapshot__Clock clocks[3], *at[3];
  const uint32_t ids[3] = {CLOCK_MONO, CLOCK_BOOT, CLOCK_REAL};
  const uint64_t times[3] = {s->start_ns, s->start_ns, (uint64_t)s->start_realtime_ns};
  for (unsigned i = 0; i < 3; i++) {
    opgap__perfetto__clock_snapshot__clock__init(&clocks[i]);
    clocks[i].has_clock_id = clocks[i].has_timestamp = true;
    clocks[i].clock_id = ids[i];
    clocks[i].timestamp = times[i];
    at[i] = &clocks[i];
  }
  snapshot.n_clocks = 3;
  snapshot.clocks = at;
  snapshot.has_primary_trace_clock = true;
  snapshot.primary_trace_clock = CLOCK_MONO;
  defaults.has_timestamp_clock_id = true;
  defaults.timestamp_clock_id = CLOCK_MONO;
  packet.clock_snapshot = &snapshot;
  packet.trace_packet_defaults = &defaults;
  packet.has_sequence_flags = true;
  packet.sequence_flags = STATE_CLEARED;
  put(p, &packet);
}

static void put_descriptor(struct perfetto *p, Opgap__Perfetto__TrackDescriptor *descriptor, uint64_t uuid,
                           uint64_t parent)
{
  Packet packet = OPGAP__PERFETTO__TRACE_PACKET__INIT;
  descriptor->has_uuid = true;
  descriptor->uuid = uuid;
  descriptor->has_parent_uuid = parent != 0;
  descriptor->parent_uuid = parent;
  packet.track_descriptor = descriptor;
  put(p, &packet);
}

/* ---- interning ---- */

/* The id of a text; *is_new: its reader does not know it in this use. */
static uint64_t text_id(struct perfetto *p, const char *text, enum use use, bool *is_new)
{
  uint32_t id = opgap_strings_id(&p->texts, text, strlen(text));
  while (p->known.count <= id)
    (void)VEC_PUSH(&p->known);
  *is_new = !(p->known.at[id] & use);
  p->known.at[id] |= (uint8_t)use;
  return id + 1u;
}

/* Perfetto's strings are UTF-8; names of the program may be anything. */
static char *clean(struct perfetto *p, const char *text)
{
  char *copy = text_clean(text);
  const char *kept = opgap_pool_string(p->pool, copy);
  free(copy);
  return (char *)(uintptr_t)kept;
}

static void intern_name(InternedName *entry, uint64_t id, char *text, InternedName **list, size_t *count)
{
  opgap__perfetto__interned_name__init(entry);
  entry->has_iid = true;
  entry->iid = id;
  entry->name = text;
  list[(*count)++] = entry;
}

static uint64_t category_id(struct perfetto *p, const char *text)
{
  bool is_new;
  uint64_t id = text_id(p, text, USE_CATEGORY, &is_new);
  if (is_new)
    intern_name(&p->category, id, clean(p, text), p->category_at, &p->interned.n_event_categories);
  return id;
}

static uint64_t span_name_id(struct perfetto *p, const struct opgap_span *span)
{
  while (p->names.count <= span->name)
    (void)VEC_PUSH(&p->names);
  if (!p->names.at[span->name])
    intern_name(&p->name, span->name + 1u, clean(p, span->text), p->name_at, &p->interned.n_event_names);
  p->names.at[span->name] = true;
  return span->name + 1u;
}

/* ---- arguments ---- */

static Annotation *add_argument(struct perfetto *p, Event *event, const char *name)
{
  bool is_new;
  size_t n = event->n_debug_annotations++;
  Annotation *argument = p->argument_at[n] = &p->arguments[n];
  opgap__perfetto__debug_annotation__init(argument);
  argument->has_name_iid = true;
  argument->name_iid = text_id(p, name, USE_ARGUMENT, &is_new);
  if (is_new) {
    size_t i = p->interned.n_debug_annotation_names;
    intern_name(&p->argument_names[i], argument->name_iid, clean(p, name), p->argument_name_at,
                &p->interned.n_debug_annotation_names);
  }
  return argument;
}

static void add_number(struct perfetto *p, Event *event, const char *name, uint64_t value)
{
  Annotation *argument = add_argument(p, event, name);
  argument->has_uint_value = true;
  argument->uint_value = value;
}

static void add_text(struct perfetto *p, Event *event, const char *name, const char *value)
{
  bool is_new;
  Annotation *argument = add_argument(p, event, name);
  argument->has_string_value_iid = true;
  argument->string_value_iid = text_id(p, value, USE_VALUE, &is_new);
  if (!is_new)
    return;
  size_t i = p->interned.n_debug_annotation_string_values++;
  InternedText *entry = p->value_at[i] = &p->values[i];
  opgap__perfetto__interned_text__init(entry);
  entry->has_iid = entry->has_str = true;
  entry->iid = argument->string_value_iid;
  entry->str.data = (uint8_t *)clean(p, value);
  entry->str.len = strlen((char *)entry->str.data);
}

static bool shown(const struct opgap_span *span, unsigned i)
{
  const char *name = span->event->fields[i].name;
  return opgap_span_field_known(span, i) && strcmp(name, "name") != 0 && strcmp(name, "thread") != 0 &&
         strcmp(name, "event") != 0;
}

static void add_fields(struct perfetto *p, Event *event, const struct opgap_span *span)
{
  for (unsigned i = 0; i < span->event->field_count; i++) {
    if (!shown(span, i))
      continue;
    const char *name = opgap_span_field_name(span, i);
    if (i == 0 && span->path != NULL)
      add_text(p, event, name, span->path);
    else if (span->event->fields[i].coding == OPGAP_NAME)
      add_text(p, event, name, opgap_span_field_text(p->job->spans, span, i));
    else
      add_number(p, event, name, span->record->field[i]);
  }
  const char *status = opgap_span_status_name(span);
  if (status != NULL)
    add_number(p, event, status, span->record->status);
  if (span->correlation != 0)
    add_number(p, event, "correlation", span->correlation);
  if (span->unfinished)
    add_number(p, event, "unfinished", 1);
}

/* ---- tracks ---- */

static uint64_t process_track(struct perfetto *p, uint32_t process)
{
  uint64_t uuid = PROCESS_UUID | process;
  while (p->processes.count <= process)
    (void)VEC_PUSH(&p->processes);
  if (p->processes.at[process])
    return uuid;
  p->processes.at[process] = true;
  Opgap__Perfetto__TrackDescriptor descriptor = OPGAP__PERFETTO__TRACK_DESCRIPTOR__INIT;
  Opgap__Perfetto__ProcessDescriptor about = OPGAP__PERFETTO__PROCESS_DESCRIPTOR__INIT;
  char *command = clean(p, opgap_spans_process_info(p->job->spans, process)->command);
  about.has_pid = true;
  about.pid = (int32_t)tracks_pid(p->job, process);
  about.process_name = (char *)(uintptr_t)export_process_name(p->job, process);
  about.n_cmdline = 1;
  about.cmdline = &command;
  descriptor.process = &about;
  put_descriptor(p, &descriptor, uuid, 0);
  return uuid;
}

static void announce(struct perfetto *p, struct track *track)
{
  Opgap__Perfetto__TrackDescriptor descriptor = OPGAP__PERFETTO__TRACK_DESCRIPTOR__INIT;
  Opgap__Perfetto__ThreadDescriptor about = OPGAP__PERFETTO__THREAD_DESCRIPTOR__INIT;
  uint64_t parent = process_track(p, track->process);
  char *name = clean(p, tracks_name(p->job, track));
  if (track->kind == TRACK_THREAD && track->tid != 0) {
    about.has_pid = about.has_tid = true;
    about.pid = (int32_t)tracks_pid(p->job, track->process);
    about.tid = track->tid;
    about.thread_name = name;
    descriptor.thread = &about;
  } else {
    descriptor.name = name;
  }
  put_descriptor(p, &descriptor, TRACK_UUID | track->number, parent);
  track->announced = true;
}

/* ---- spans ---- */

static void put_end(struct perfetto *p, const struct track *track, uint64_t time)
{
  Packet packet = OPGAP__PERFETTO__TRACE_PACKET__INIT;
  Event event = OPGAP__PERFETTO__TRACK_EVENT__INIT;
  packet.has_timestamp = packet.has_sequence_flags = true;
  packet.timestamp = p->job->summary->start_ns + time;
  packet.sequence_flags = NEEDS_STATE;
  packet.track_event = &event;
  event.has_type = event.has_track_uuid = true;
  event.type = SLICE_END;
  event.track_uuid = TRACK_UUID | track->number;
  put(p, &packet);
}

/* Slices of the track that ended by `time`. */
static void end_slices(struct perfetto *p, const struct track *track, uint64_t time)
{
  while (p->open.count <= track->number)
    (void)VEC_PUSH(&p->open);
  struct open_slices *open = &p->open.at[track->number];
  while (open->ends.count > 0 && open->ends.at[open->ends.count - 1] <= time)
    put_end(p, track, open->ends.at[--open->ends.count]);
}

static void add_flow(struct perfetto *p, Event *event, const struct opgap_span *span, uint64_t *id)
{
  (void)p;
  if (span->correlation == 0)
    return;
  *id = (uint64_t)(span->process + 1) << 32 | span->correlation;
  if (span->kind == OPGAP_SPAN_CUDA) {
    event->n_flow_ids = 1;
    event->flow_ids = id;
  } else if (opgap_span_on_device(span->kind)) {
    event->n_terminating_flow_ids = 1;
    event->terminating_flow_ids = id;
  }
}

static void begin_interning(struct perfetto *p)
{
  opgap__perfetto__interned_data__init(&p->interned);
  p->interned.event_categories = p->category_at;
  p->interned.event_names = p->name_at;
  p->interned.debug_annotation_names = p->argument_name_at;
  p->interned.debug_annotation_string_values = p->value_at;
}

static bool any_interned(const struct perfetto *p)
{
  return p->interned.n_event_categories + p->interned.n_event_names + p->interned.n_debug_annotation_names +
             p->interned.n_debug_annotation_string_values >
         0;
}

static void put_slice(struct perfetto *p, const struct opgap_span *span, struct track *track)
{
  bool instant = span->end_ns == span->start_ns && (span->kind == OPGAP_SPAN_CALL || span->kind == OPGAP_SPAN_MARK);
  Packet packet = OPGAP__PERFETTO__TRACE_PACKET__INIT;
  Event event = OPGAP__PERFETTO__TRACK_EVENT__INIT;
  uint64_t category, flow;
  if (!track->announced)
    announce(p, track);
  end_slices(p, track, span->start_ns);
  begin_interning(p);
  event.has_type = event.has_track_uuid = event.has_name_iid = true;
  event.type = instant ? INSTANT : SLICE_BEGIN;
  event.track_uuid = TRACK_UUID | track->number;
  event.name_iid = span_name_id(p, span);
  category = category_id(p, span->event->category);
  event.n_category_iids = 1;
  event.category_iids = &category;
  event.debug_annotations = p->argument_at;
  add_fields(p, &event, span);
  add_flow(p, &event, span, &flow);
  packet.has_timestamp = packet.has_sequence_flags = true;
  packet.timestamp = p->job->summary->start_ns + span->start_ns;
  packet.sequence_flags = NEEDS_STATE;
  packet.track_event = &event;
  packet.interned_data = any_interned(p) ? &p->interned : NULL;
  put(p, &packet);
  if (instant)
    return;
  struct open_slices *open = &p->open.at[track->number];
  uint64_t outer = open->ends.count > 0 ? open->ends.at[open->ends.count - 1] : UINT64_MAX;
  *VEC_PUSH(&open->ends) = span->end_ns < outer ? span->end_ns : outer;
}

/* ---- counters ---- */

static int unit_of(const char *field)
{
  size_t length = strlen(field);
  if (length > 3 && strcmp(field + length - 3, "_ns") == 0)
    return UNIT_NS;
  return length >= 5 && strcmp(field + length - 5, "bytes") == 0 ? UNIT_BYTES : UNIT_COUNT;
}

/* A track for each field of each kind of sample: "memory rss_bytes" of a process, "malloc calls" of a thread. */
static uint64_t counter_track(struct perfetto *p, const struct opgap_span *span, unsigned field)
{
  uint64_t kind = (uint64_t)span->event->id << 32 | span->record->status;
  uint64_t place = (uint64_t)span->process << 32 | (uint64_t)span->stream << 8 | field;
  uint32_t *number = opgap_map_put(&p->counters, kind, place);
  if (*number != 0)
    return COUNTER_UUID | *number;
  *number = (uint32_t)p->counters.count;
  uint64_t uuid = COUNTER_UUID | *number;
  Opgap__Perfetto__TrackDescriptor descriptor = OPGAP__PERFETTO__TRACK_DESCRIPTOR__INIT;
  Opgap__Perfetto__CounterDescriptor counter = OPGAP__PERFETTO__COUNTER_DESCRIPTOR__INIT;
  const struct opgap_event *call =
      span->event->id == OPGAP_EV_COUNTER && span->record->status < OPGAP_MAX_EVENTS
          ? p->job->source->event(p->job->source->context, span->process, span->record->status)
          : NULL;
  const char *what = call != NULL ? call->name : span->text, *name = span->event->fields[field].name;
  if (call != NULL || span->record->status == 0)
    descriptor.name = (char *)(uintptr_t)opgap_pool_printf(p->pool, "%s %s", what, name);
  else
    descriptor.name = (char *)(uintptr_t)opgap_pool_printf(p->pool, "%s %s %u", what, name, span->record->status);
  counter.has_unit = true;
  counter.unit = unit_of(name);
  descriptor.counter = &counter;
  uint64_t parent = process_track(p, span->process);
  if (span->tid != 0) {
    struct track *track = tracks_of(&p->tracks, span);
    if (!track->announced)
      announce(p, track);
    parent = TRACK_UUID | track->number;
  }
  put_descriptor(p, &descriptor, uuid, parent);
  return uuid;
}

static void put_sample(struct perfetto *p, const struct opgap_span *span)
{
  unsigned fields = span->event->id == OPGAP_EV_COUNTER ? 2 : span->event->field_count; /* calls and bytes */
  for (unsigned i = 0; i < fields; i++) {
    Packet packet = OPGAP__PERFETTO__TRACE_PACKET__INIT;
    Event event = OPGAP__PERFETTO__TRACK_EVENT__INIT;
    event.has_type = event.has_track_uuid = event.has_counter_value = true;
    event.type = COUNTER;
    event.track_uuid = counter_track(p, span, i);
    event.counter_value = (int64_t)span->record->field[i];
    packet.has_timestamp = packet.has_sequence_flags = true;
    packet.timestamp = p->job->summary->start_ns + span->start_ns;
    packet.sequence_flags = NEEDS_STATE;
    packet.track_event = &event;
    put(p, &packet);
  }
}

/* ---- all ---- */

static void write_spans(struct perfetto *p)
{
  const struct opgap_span *span;
  put_clocks(p);
  while ((span = export_next(p->job)) != NULL && p->sink->error == 0) {
    if (span->kind == OPGAP_SPAN_SAMPLE)
      put_sample(p, span);
    else
      put_slice(p, span, tracks_of(&p->tracks, span));
  }
  for (size_t i = 0; i < p->tracks.rows.count; i++)
    end_slices(p, p->tracks.rows.at[i], UINT64_MAX);
}

bool export_perfetto(struct opgap_export_job *job)
{
  struct perfetto *p = opgap_xcalloc(1, sizeof *p);
  bool done = false;
  p->job = job;
  p->pool = opgap_pool_new();
  opgap_strings_init(&p->texts, p->pool);
  tracks_open(&p->tracks);
  p->sink = export_open(job, job->path);
  if (p->sink != NULL) {
    write_spans(p);
    done = export_finish(job, p->sink, job->path);
  }
  for (size_t i = 0; i < p->open.count; i++)
    VEC_FREE(&p->open.at[i].ends);
  VEC_FREE(&p->open);
  VEC_FREE(&p->processes);
  VEC_FREE(&p->names);
  VEC_FREE(&p->known);
  opgap_map_free(&p->counters);
  opgap_strings_free(&p->texts);
  opgap_pool_free(p->pool);
  tracks_close(&p->tracks);
  free(p->packed);
  free(p);
  return done;
}
