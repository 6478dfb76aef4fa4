#include "analysis/spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ahead.h"
#include "analysis/demangle.h"
#include "analysis/ordered.h"
#include "analysis/pool.h"

#define NAMES_CACHED 4194304u /* ids of names; others are looked up each time */
#define NONE 0xffu            /* no such field */

const char *opgap_span_kind_name(enum opgap_span_kind kind)
{
  static const char *const names[OPGAP_SPAN_KINDS] = {"op",     "range",  "free range", "call", "cuda",
                                                      "kernel", "memcpy", "memset",     "sync", "overhead",
                                                      "mark",   "sample", "lost"};
  return names[kind];
}

/* What the records of an event become, told once from its schema. */
struct shape {
  const struct opgap_event *event; /* NULL: not in this trace */
  uint32_t name;                   /* + 1; 0: by field */
  uint8_t kind;                    /* enum opgap_span_kind */
  uint8_t name_field, bytes, device, context, stream, object;
  bool hook, file, nests, unfinished, correlated;
};

struct process {
  const struct opgap_process_info *info;
  const struct opgap_sum_process *row; /* NULL: not kept */
  struct shape shapes[OPGAP_MAX_EVENTS];
  VEC(uint32_t) names;      /* by name id: id + 1; 0: not asked yet */
  struct opgap_map callers; /* (thread as CUPTI names it, 0) -> stream + 1 */
};

/* What a reading thread works on. */
struct stream {
  unsigned process, index;
  bool thread;
  VEC(struct opgap_record) noted; /* in the first reading */
  struct ordered_stream ordered;
  struct opgap_record next;
  uint64_t key; /* latest start so far, as damage may bring times out of order */
};

struct opgap_spans {
  struct opgap_source source;
  const struct opgap_summary *summary;
  uint64_t from, to, min_duration;
  struct opgap_pool *pool;
  struct opgap_strings strings;
  struct process *processes;
  struct stream *streams;
  struct stream **heap; /* by key; the reading thread's, if there is one */
  size_t heap_count, stream_count;
  struct opgap_record record; /* likewise */
  struct ahead *ahead;
  const struct opgap_record *records; /* of from_stream, to be given out */
  size_t left, from_stream;
  uint64_t done;
  VEC(struct opgap_gpu_device) devices;
  struct opgap_map kernels, copies; /* name of a symbol, kinds of a copy -> name + 1 */
  opgap_demangler demangler;
  uint64_t total;
  struct opgap_span span;
};

/* ---- names ---- */

static uint32_t text_id(struct opgap_spans *s, const char *text)
{
  return opgap_strings_id(&s->strings, text, strlen(text));
}

static uint32_t name_id(struct opgap_spans *s, unsigned process, uint64_t id)
{
  struct process *p = &s->processes[process];
  size_t length = 0;
  if (id == 0)
    return 0;
  while (id >= p->names.count && id < NAMES_CACHED)
    (void)VEC_PUSH(&p->names);
  uint32_t *cached = id < p->names.count ? &p->names.at[id] : NULL;
  if (cached != NULL && *cached != 0)
    return *cached - 1;
  const char *text = s->source.name(s->source.context, process, id, &length);
  uint32_t name = opgap_strings_id(&s->strings, text, length);
  if (cached != NULL)
    *cached = name + 1;
  return name;
}

static uint32_t kernel_id(struct opgap_spans *s, uint32_t symbol)
{
  uint32_t *known = opgap_map_put(&s->kernels, symbol, 0);
  if (*known == 0) {
    if (s->demangler == NULL)
      s->demangler = opgap_demangler_find();
    char *name = opgap_demangle(s->demangler, opgap_strings_text(&s->strings, symbol));
    *known = (name != NULL ? text_id(s, name) : symbol) + 1;
    free(name);
  }
  return *known - 1;
}

/* CUPTI's kinds of copies, memory and synchronisation, in Kineto's words. */
static const char *pick(const char *const *names, size_t count, uint64_t kind)
{
  return kind < count ? names[kind] : names[0];
}
#define PICK(names, kind) pick(names, sizeof(names) / sizeof *(names), kind)

static const char *memory_name(uint64_t kind)
{
  static const char *const names[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                      "Array",   "Managed",  "Device Static", "Managed Static"};
  return PICK(names, kind);
}

static uint32_t copy_name(struct opgap_spans *s, const struct opgap_record *r)
{
  uint32_t *known = opgap_map_put(&s->copies, r->field[4] << 32 | r->field[5], r->field[6]);
  if (*known != 0)
    return *known - 1;
  static const char *const kinds[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  char text[96];
  snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", PICK(kinds, r->field[4]), memory_name(r->field[5]),
           memory_name(r->field[6]));
  *known = text_id(s, text) + 1;
  return *known - 1;
}

static uint32_t set_name(struct opgap_spans *s, const struct opgap_record *r)
{
  char text[48];
  snprintf(text, sizeof text, "Memset (%s)", memory_name(r->field[5]));
  return text_id(s, text);
}

static uint32_t sync_name(struct opgap_spans *s, const struct opgap_record *r)
{
  static const char *const names[] = {"Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return text_id(s, PICK(names, r->field[0]));
}

/* ---- shapes ---- */

static uint8_t field_index(const struct opgap_event *event, const char *name)
{
  for (uint8_t i = 0; i < event->field_count; i++)
    if (strcmp(event->fields[i].name, name) == 0)
      return i;
  return NONE;
}

static enum opgap_span_kind kind_of(const struct opgap_event *event)
{
  if (event->flags & OPGAP_EVENT_HOOK)
    return OPGAP_SPAN_CALL;
  switch (event->id) {
  case OPGAP_EV_OP:
  case OPGAP_EV_OPEN_OP:
    return OPGAP_SPAN_OP;
  case OPGAP_EV_OPEN_CALL:
    return OPGAP_SPAN_CALL;
  case OPGAP_EV_RANGE:
    return OPGAP_SPAN_RANGE;
  case OPGAP_EV_FREE_RANGE:
    return OPGAP_SPAN_FREE_RANGE;
  case OPGAP_EV_GPU_API:
    return OPGAP_SPAN_CUDA;
  case OPGAP_EV_KERNEL:
    return OPGAP_SPAN_KERNEL;
  case OPGAP_EV_GPU_MEMCPY:
    return OPGAP_SPAN_MEMCPY;
  case OPGAP_EV_GPU_MEMSET:
    return OPGAP_SPAN_MEMSET;
  case OPGAP_EV_GPU_SYNC:
    return OPGAP_SPAN_SYNC;
  case OPGAP_EV_GPU_OVERHEAD:
    return OPGAP_SPAN_OVERHEAD;
  case OPGAP_EV_LOST:
    return OPGAP_SPAN_LOST;
  default:
    return event->kind == OPGAP_SERIES ? OPGAP_SPAN_SAMPLE : OPGAP_SPAN_MARK;
  }
}

static void shape_event(struct opgap_spans *s, struct shape *shape, const struct opgap_event *event)
{
  bool hook = event->flags & OPGAP_EVENT_HOOK;
  enum opgap_span_kind kind = kind_of(event);
  *shape =
      (struct shape){.event = event,
                     .kind = (uint8_t)kind,
                     .hook = hook,
                     .file = hook && event->flags & OPGAP_EVENT_OBJECT_NAME,
                     .unfinished = event->id == OPGAP_EV_OPEN_OP || event->id == OPGAP_EV_OPEN_CALL,
                     .nests = kind == OPGAP_SPAN_OP || kind == OPGAP_SPAN_RANGE || kind == OPGAP_SPAN_CALL,
                     .correlated = kind == OPGAP_SPAN_CUDA || kind == OPGAP_SPAN_SYNC || opgap_span_on_device(kind)};
  shape->name_field = hook ? NONE : field_index(event, "name");
  shape->bytes = field_index(event, hook ? "value" : "bytes");
  if (hook && strcmp(event->category, "alloc") != 0 && strcmp(event->category, "copy") != 0 && !shape->file)
    shape->bytes = NONE; /* of locks, threads and processes the value is something else */
  shape->device = field_index(event, "device");
  shape->context = field_index(event, "context");
  shape->stream = field_index(event, "stream");
  shape->object = field_index(event, "object");
  if (shape->object == NONE)
    shape->object = field_index(event, "address");
  bool named = shape->name_field == NONE && kind != OPGAP_SPAN_MEMCPY && kind != OPGAP_SPAN_MEMSET &&
               kind != OPGAP_SPAN_SYNC && event->id != OPGAP_EV_OPEN_CALL;
  shape->name = named ? text_id(s, event->name) + 1 : 0;
}

static uint32_t span_name(struct opgap_spans *s, unsigned process, const struct shape *shape,
                          const struct opgap_record *r)
{
  if (shape->name != 0)
    return shape->name - 1;
  switch (shape->kind) {
  case OPGAP_SPAN_KERNEL:
    return kernel_id(s, name_id(s, process, r->field[shape->name_field]));
  case OPGAP_SPAN_MEMCPY:
    return copy_name(s, r);
  case OPGAP_SPAN_MEMSET:
    return set_name(s, r);
  case OPGAP_SPAN_SYNC:
    return sync_name(s, r);
  case OPGAP_SPAN_CALL: { /* an open one */
    const struct opgap_event *call =
        r->field[0] < OPGAP_MAX_EVENTS ? s->processes[process].shapes[r->field[0]].event : NULL;
    return text_id(s, call != NULL ? call->name : "?");
  }
  default:
    return name_id(s, process, r->field[shape->name_field]);
  }
}

/* ---- the first reading ---- */

static void add_device(struct opgap_spans *s, unsigned process, const struct opgap_record *r)
{
  for (size_t i = 0; i < s->devices.count; i++)
    if (s->devices.at[i].process == process && s->devices.at[i].device == r->status)
      return;
  *VEC_PUSH(&s->devices) =
      (struct opgap_gpu_device){.process = process,
                                .device = r->status,
                                .name = opgap_strings_text(&s->strings, name_id(s, process, r->field[0])),
                                .sm_count = r->field[1],
                                .capability = r->field[2],
                                .memory_bytes = r->field[3],
                                .clock_khz = r->field[4],
                                .max_threads_sm = r->field[5]};
}

static void note_record(void *context, const struct opgap_record *r)
{
  struct stream *st = context;
  if (r->event == OPGAP_EV_THREAD_START || r->event == OPGAP_EV_GPU_DEVICE)
    *VEC_PUSH(&st->noted) = *r;
}

static void scan_stream(void *context, size_t i)
{
  struct opgap_spans *s = context;
  struct stream *st = &s->streams[i];
  ordered_scan(&st->ordered, &s->source, st->process, st->index,
               s->processes[st->process].info->streams[st->index].kind == OPGAP_STREAM_GPU, note_record, st);
}

static void take_noted(struct opgap_spans *s, struct stream *st)
{
  struct process *p = &s->processes[st->process];
  for (size_t i = 0; i < st->noted.count; i++) {
    const struct opgap_record *r = &st->noted.at[i];
    if (r->event == OPGAP_EV_THREAD_START)
      *opgap_map_put(&p->callers, (uint32_t)r->field[0], 0) = st->index + 1;
    else
      add_device(s, st->process, r);
  }
  s->done += st->ordered.records_read;
  VEC_FREE(&st->noted);
}

/* ---- merging ---- */

static bool advance(struct stream *st)
{
  if (!ordered_next(&st->ordered, &st->next))
    return false;
  if (st->next.start_ns > st->key && !(st->thread && ordered_outside(st->next.event)))
    st->key = st->next.start_ns;
  return true;
}

static void sift(struct opgap_spans *s, size_t i)
{
  struct stream *moved = s->heap[i];
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= s->heap_count)
      break;
    if (child + 1 < s->heap_count && s->heap[child + 1]->key < s->heap[child]->key)
      child++;
    if (s->heap[child]->key >= moved->key)
      break;
    s->heap[i] = s->heap[child];
    i = child;
  }
  s->heap[i] = moved;
}

/* For ahead.h; the input is the index of the stream. */
static size_t next_record(void *context, size_t *input, const struct opgap_record **records)
{
  struct opgap_spans *s = context;
  if (s->heap_count == 0)
    return 0;
  struct stream *first = s->heap[0];
  s->record = first->next;
  *input = (size_t)(first - s->streams);
  *records = &s->record;
  if (!advance(first))
    s->heap[0] = s->heap[--s->heap_count];
  if (s->heap_count > 0)
    sift(s, 0);
  return 1;
}

/* ---- spans ---- */

static uint64_t since_start(const struct opgap_spans *s, uint64_t time)
{
  return time > s->summary->start_ns ? time - s->summary->start_ns : 0;
}

/* The thread that made a CUDA call, by the kernel's or the C library's id for it. */
static uint32_t caller_of(const struct process *p, const struct opgap_record *r, uint32_t recorded)
{
  uint32_t known = opgap_map_get(&p->callers, (uint32_t)r->field[1], 0);
  return known ? known - 1 : recorded;
}

static uint32_t id_of(const struct opgap_record *r, uint8_t field)
{
  return field == NONE ? OPGAP_NO_DEVICE : (uint32_t)r->field[field];
}

static void fill(struct opgap_spans *s, const struct stream *st, const struct shape *shape,
                 const struct opgap_record *r)
{
  const struct process *p = &s->processes[st->process];
  struct opgap_span *span = &s->span;
  *span = (struct opgap_span){.kind = (enum opgap_span_kind)shape->kind,
                              .unfinished = shape->unfinished,
                              .nests = shape->nests,
                              .depth = r->depth,
                              .process = st->process,
                              .stream = st->index,
                              .name = span_name(s, st->process, shape, r),
                              .start_ns = since_start(s, r->start_ns),
                              .end_ns = since_start(s, r->end_ns),
                              .device = id_of(r, shape->device),
                              .context = id_of(r, shape->context),
                              .gpu_stream = id_of(r, shape->stream),
                              .correlation = shape->correlated ? r->status : 0,
                              .bytes = shape->bytes == NONE ? OPGAP_UNKNOWN : r->field[shape->bytes],
                              .event = shape->event,
                              .record = r};
  if (shape->kind == OPGAP_SPAN_CUDA)
    span->stream = caller_of(p, r, st->index);
  span->tid = p->info->streams[span->stream].tid;
  span->text = opgap_strings_text(&s->strings, span->name);
  if (shape->file) {
    span->path_name = name_id(s, st->process, r->field[shape->object]);
    span->path = span->path_name ? opgap_strings_text(&s->strings, span->path_name) : NULL;
  } else if (shape->object != NONE) {
    span->address = r->field[shape->object];
  }
}

static bool kept(const struct opgap_spans *s, const struct shape *shape, const struct opgap_record *r)
{
  uint64_t start = since_start(s, r->start_ns), end = since_start(s, r->end_ns);
  if (start >= s->to || (start == end ? end < s->from : end <= s->from))
    return false;
  return shape->kind >= OPGAP_SPAN_MARK || end - start >= s->min_duration;
}

const struct opgap_span *opgap_spans_next(struct opgap_spans *s)
{
  for (;;) {
    if (s->left == 0 && (s->left = ahead_next(s->ahead, &s->from_stream, &s->records)) == 0)
      return NULL;
    const struct opgap_record *r = s->records++;
    const struct stream *from = &s->streams[s->from_stream];
    const struct shape *shape = &s->processes[from->process].shapes[r->event];
    s->left--;
    s->done++;
    if (shape->event == NULL || !kept(s, shape, r))
      continue;
    fill(s, from, shape, r);
    return &s->span;
  }
}

/* ---- life ---- */

static void open_process(struct opgap_spans *s, unsigned index)
{
  struct process *p = &s->processes[index];
  p->info = s->source.process(s->source.context, index);
  for (unsigned id = 0; id < OPGAP_MAX_EVENTS; id++) {
    const struct opgap_event *event = s->source.event(s->source.context, index, id);
    if (event != NULL)
      shape_event(s, &p->shapes[id], event);
  }
  for (unsigned i = 0; i < p->info->stream_count; i++)
    if (p->info->streams[i].tid != 0)
      *opgap_map_put(&p->callers, (uint32_t)p->info->streams[i].tid, 0) = i + 1;
}

static void open_streams(struct opgap_spans *s)
{
  for (unsigned i = 0; i < s->source.process_count; i++)
    if (s->processes[i].row != NULL) {
      s->stream_count += s->processes[i].info->stream_count;
      s->total += 2 * s->processes[i].info->records;
    }
  s->streams = opgap_xcalloc(s->stream_count, sizeof *s->streams);
  s->heap = opgap_xcalloc(s->stream_count, sizeof *s->heap);
  size_t count = 0;
  for (unsigned i = 0; i < s->source.process_count; i++)
    for (unsigned k = 0; s->processes[i].row != NULL && k < s->processes[i].info->stream_count; k++) {
      struct stream *st = &s->streams[count++];
      st->process = i;
      st->index = k;
      st->thread = s->processes[i].info->streams[k].kind == OPGAP_STREAM_THREAD;
    }
  ahead_divide(opgap_threads_for(s->source.threads, s->total / 2), s->stream_count, scan_stream, s);
  for (size_t i = 0; i < s->stream_count; i++)
    take_noted(s, &s->streams[i]);
  opgap_spans_select(s, OPGAP_ALL, OPGAP_ALL);
}

void opgap_spans_select(struct opgap_spans *s, uint32_t process, uint32_t stream)
{
  uint64_t records = 0;
  ahead_end(s->ahead);
  s->heap_count = s->left = 0;
  for (size_t i = 0; i < s->stream_count; i++) {
    struct stream *st = &s->streams[i];
    if ((process != OPGAP_ALL && st->process != process) || (stream != OPGAP_ALL && st->index != stream))
      continue;
    st->key = 0;
    records += s->processes[st->process].info->streams[st->index].records;
    ordered_begin(&st->ordered, st->process, st->index);
    if (advance(st))
      s->heap[s->heap_count++] = st;
  }
  for (size_t i = s->heap_count / 2; i-- > 0;)
    sift(s, i);
  s->ahead = ahead_begin(next_record, s, opgap_threads_for(s->source.threads, records));
}

static void set_window(struct opgap_spans *s, const struct opgap_spans_filter *filter)
{
  bool steps = s->summary->window_start_ns > 0 || s->summary->window_end_ns < s->summary->duration_ns;
  s->from = steps ? s->summary->window_start_ns : 0;
  s->to = steps ? s->summary->window_end_ns : UINT64_MAX;
  if (filter == NULL)
    return;
  s->min_duration = filter->min_duration_ns;
  if (filter->from_ns > s->from)
    s->from = filter->from_ns;
  if (filter->to_ns != 0 && filter->to_ns < s->to)
    s->to = filter->to_ns;
}

struct opgap_spans *opgap_spans_open(const struct opgap_source *source, const struct opgap_summary *summary,
                                     const struct opgap_spans_filter *filter)
{
  struct opgap_spans *s = opgap_xcalloc(1, sizeof *s);
  s->source = *source;
  s->summary = summary;
  s->pool = opgap_pool_new();
  opgap_strings_init(&s->strings, s->pool);
  text_id(s, "");
  set_window(s, filter);
  s->processes = opgap_xcalloc(source->process_count, sizeof *s->processes);
  for (size_t i = 0; i < summary->process_count; i++)
    s->processes[summary->processes[i].index].row = &summary->processes[i];
  for (unsigned i = 0; i < source->process_count; i++)
    open_process(s, i);
  open_streams(s);
  return s;
}

void opgap_spans_close(struct opgap_spans *s)
{
  if (s == NULL)
    return;
  ahead_end(s->ahead);
  for (size_t i = 0; i < s->stream_count; i++)
    ordered_free(&s->streams[i].ordered);
  for (unsigned i = 0; i < s->source.process_count; i++) {
    VEC_FREE(&s->processes[i].names);
    opgap_map_free(&s->processes[i].callers);
  }
  opgap_map_free(&s->kernels);
  opgap_map_free(&s->copies);
  VEC_FREE(&s->devices);
  opgap_strings_free(&s->strings);
  opgap_pool_free(s->pool);
  free(s->processes);
  free(s->streams);
  free(s->heap);
  free(s);
}

/* ---- questions ---- */

void opgap_spans_progress(const struct opgap_spans *s, uint64_t *done, uint64_t *total)
{
  *done = s->done;
  *total = s->total;
}

void opgap_spans_window(const struct opgap_spans *s, uint64_t *from_ns, uint64_t *to_ns)
{
  *from_ns = s->from;
  *to_ns = s->to;
}

uint32_t opgap_spans_name_count(const struct opgap_spans *s)
{
  return (uint32_t)s->strings.text.count;
}

const char *opgap_spans_name(const struct opgap_spans *s, uint32_t name)
{
  return opgap_strings_text(&s->strings, name);
}

const struct opgap_sum_process *opgap_spans_process(const struct opgap_spans *s, uint32_t process)
{
  return s->processes[process].row;
}

const struct opgap_process_info *opgap_spans_process_info(const struct opgap_spans *s, uint32_t process)
{
  return s->processes[process].info;
}

const struct opgap_gpu_device *opgap_spans_devices(const struct opgap_spans *s, size_t *count)
{
  *count = s->devices.count;
  return s->devices.at;
}

bool opgap_span_field(const struct opgap_span *span, const char *field, uint64_t *value)
{
  uint8_t index = field_index(span->event, field);
  if (index != NONE)
    *value = span->record->field[index];
  return index != NONE;
}

bool opgap_span_field_known(const struct opgap_span *span, unsigned field)
{
  uint64_t value = span->record->field[field];
  return value != 0 && !(value == UINT64_MAX && strcmp(span->event->fields[field].name, "sequence") == 0);
}

const char *opgap_span_field_name(const struct opgap_span *span, unsigned field)
{
  const char *name = span->event->fields[field].name;
  if (strcmp(name, "value") == 0 && span->bytes != OPGAP_UNKNOWN)
    return "bytes";
  if (strcmp(name, "object") != 0)
    return name;
  return span->path != NULL ? "path" : "address";
}

const char *opgap_span_status_name(const struct opgap_span *span)
{
  const char *name = span->event->status;
  if (span->record->status == 0 || name[0] == '\0' || span->correlation != 0)
    return NULL;
  return strchr(name, ' ') != NULL ? "status" : name; /* a list of values is no key */
}

const char *opgap_span_field_text(struct opgap_spans *s, const struct opgap_span *span, unsigned field)
{
  return opgap_strings_text(&s->strings, name_id(s, span->process, span->record->field[field]));
}
