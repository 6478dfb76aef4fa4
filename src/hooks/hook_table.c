#include "hooks/hook_table.h"

#include <assert.h>
#include <stddef.h>

#include "format/arena.h"
#include "hooks/hook_ids.h"
#include "record/early.h"

static_assert(OPGAP_HOOK_ID_end <= OPGAP_MAX_EVENTS, "hooks.def has more rows than a trace has event ids");
static_assert(OPGAP_COUNTER_COUNT <= OPGAP_MAX_COUNTERS, "hooks.def has more counted rows than a thread has counters");

/* the letters of a row's flags */
enum {
  BLOCKING = OPGAP_EVENT_BLOCKING,
  EDGE = OPGAP_EVENT_EDGE,
  OBJECT_NAME = OPGAP_EVENT_OBJECT_NAME,
  ALLOC = OPGAP_EVENT_ALLOC,
  FREE = OPGAP_EVENT_FREE,
  WAITED = OPGAP_EVENT_WAITED
};

/* a row's group as users know it: cudart is the part of cuda that CUPTI can stand in for */
#define NAME_OF_alloc "alloc"
#define NAME_OF_copy "copy"
#define NAME_OF_io "io"
#define NAME_OF_net "net"
#define NAME_OF_sync "sync"
#define NAME_OF_thread "thread"
#define NAME_OF_process "process"
#define NAME_OF_cuda "cuda"
#define NAME_OF_cudart "cuda"

/* The tracer carries no pointers to strings: the loader would have to relocate each of them in every process.  So names
 * stand behind one another, found by their distance from the first, and the rows with pointers are made from them when
 * somebody wants the schema. */
static const struct names {
#define OPGAP_FUNCTION(type, name, params) char name[sizeof #name];
#include "hooks/hooks.def"
} names = {
#define OPGAP_FUNCTION(type, name, params) .name = #name,
#include "hooks/hooks.def"
};
static_assert(sizeof names <= UINT16_MAX, "the names' distances have 16 bits");

static const uint16_t name_at[OPGAP_SLOT_COUNT] = {
#define OPGAP_FUNCTION(type, name, params) offsetof(struct names, name),
#include "hooks/hooks.def"
};

const char *opgap_slot_name(unsigned slot)
{
  return (const char *)&names + name_at[slot];
}

/* A row of the schema without its strings. */
static const struct row {
  uint16_t slot;
  uint8_t kind, flags;
  char category[8];
} rows[] = {
#define ROW(group, flags_, name_, kind_, more)                                                                         \
  {.slot = OPGAP_SLOT_##name_,                                                                                         \
   .kind = kind_,                                                                                                      \
   .flags = OPGAP_EVENT_HOOK | (flags_) | (more),                                                                      \
   .category = NAME_OF_##group},
#define OPGAP_SPAN(group, flags, type, name, ...) ROW(group, flags, name, OPGAP_SPAN, 0)
#define OPGAP_SPAN_AFTER(group, flags, type, name, ...) ROW(group, flags, name, OPGAP_SPAN, 0)
#define OPGAP_POINT(group, flags, type, name, ...) ROW(group, flags, name, OPGAP_INSTANT, 0)
#define OPGAP_COUNTED(group, flags, type, name, ...)                                                                   \
  ROW(group, flags, name, ((flags) & (EDGE | FREE)) ? OPGAP_INSTANT : OPGAP_SPAN, OPGAP_EVENT_COUNTED)
#define OPGAP_CUSTOM(group, flags, type, name, ...) ROW(group, flags, name, OPGAP_SPAN, 0)
#include "hooks/hooks.def"
};
#define ROWS (sizeof rows / sizeof *rows)
static_assert(OPGAP_FIRST_HOOK + ROWS == OPGAP_HOOK_ID_end, "one row an event");

static const uint16_t counters[] = {
#define OPGAP_COUNTED(group, flags, type, name, ...) OPGAP_HOOK_ID_##name,
#include "hooks/hooks.def"
};

/* An X-macro row: name, group, base, kind, and the doc line, which comes last.  Aliases have none. */
#define INFO(name_, group_, base_, kind_, doc_)                                                                        \
  {.name = #name_, .group = NAME_OF_##group_, .base = base_, .doc = doc_, .kind = OPGAP_HOOK_##kind_},
static const struct opgap_hook_info infos[] = {
#define OPGAP_SPAN(group, flags, type, name, params, args, object, value, status, doc) INFO(name, group, "", SPAN, doc)
#define OPGAP_SPAN_AFTER(group, flags, type, name, params, args, object, value, status, doc)                           \
  INFO(name, group, "", SPAN, doc)
#define OPGAP_POINT(group, flags, type, name, params, args, object, value, status, doc)                                \
  INFO(name, group, "", POINT, doc)
#define OPGAP_COUNTED(group, flags, type, name, params, doc) INFO(name, group, "", COUNTED, doc)
#define OPGAP_CUSTOM(group, flags, type, name, params, doc) INFO(name, group, "", SPAN, doc)
#define OPGAP_ALIAS(kind, base, group, type, name, params, args, object, value, status)                                \
  INFO(name, group, #base, ALIAS, "")
#define OPGAP_CUSTOM_ALIAS(base, group, type, name, params) INFO(name, group, #base, ALIAS, "")
#define OPGAP_BODY(group, type, name, params, doc) INFO(name, group, "", BODY, doc)
#include "hooks/hooks.def"
};

const struct opgap_event *opgap_hook_events(unsigned *count)
{
  static struct opgap_event events[ROWS];
  for (unsigned i = 0; i < ROWS; i++)
    events[i] = (struct opgap_event){
        .id = (uint16_t)(OPGAP_FIRST_HOOK + i),
        .kind = rows[i].kind,
        .field_count = 2,
        .flags = rows[i].flags,
        .name = opgap_slot_name(rows[i].slot),
        .category = rows[i].category,
        .status = "errno",
        .fields = {{"object", rows[i].flags & OBJECT_NAME ? OPGAP_NAME : OPGAP_DELTA}, {"value", OPGAP_PLAIN}}};
  *count = ROWS;
  return events;
}

OPGAP_EARLY_CODE const uint16_t *opgap_hook_counters(unsigned *count)
{
  *count = OPGAP_COUNTER_COUNT;
  return counters;
}

const struct opgap_hook_info *opgap_hook_infos(unsigned *count)
{
  *count = sizeof infos / sizeof *infos;
  return infos;
}
