#include "analysis/source.h"

static const struct opgap_process_info *trace_process(void *context, unsigned process)
{
  return opgap_trace_process(context, process);
}

static const struct opgap_event *trace_event(void *context, unsigned process, unsigned event)
{
  return opgap_trace_event(context, process, event);
}

static const char *trace_name(void *context, unsigned process, uint64_t name_id, size_t *length)
{
  return opgap_trace_name(context, process, name_id, length);
}

static const char *trace_info(void *context, unsigned process, const char *key)
{
  return opgap_trace_info(context, process, key);
}

static const char *trace_damage(void *context, unsigned *at)
{
  return opgap_trace_damage(context, at);
}

static const char *trace_note(void *context, unsigned *at)
{
  return opgap_trace_note(context, at);
}

static void *cursor_open(void *context, unsigned process, unsigned stream)
{
  return opgap_cursor_open(context, process, stream);
}

static size_t cursor_batch(void *cursor, const struct opgap_record **records)
{
  return opgap_cursor_batch(cursor, records);
}

static void cursor_close(void *cursor)
{
  opgap_cursor_close(cursor);
}

struct opgap_source opgap_source_of_trace(struct opgap_trace *trace, const char *path)
{
  return (struct opgap_source){
      .context = trace,
      .path = path,
      .process_count = opgap_trace_process_count(trace),
      .process = trace_process,
      .event = trace_event,
      .name = trace_name,
      .info = trace_info,
      .damage = trace_damage,
      .note = trace_note,
      .cursor_open = cursor_open,
      .cursor_batch = cursor_batch,
      .cursor_close = cursor_close,
  };
}
