#include "format/schema.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PLAIN OPGAP_PLAIN
#define DELTA OPGAP_DELTA
#define NAME OPGAP_NAME
#define SPAN OPGAP_SPAN
#define INSTANT OPGAP_INSTANT
#define SERIES OPGAP_SERIES

/* The tracer carries no pointers to strings: the loader would have to relocate each of them in every process.  So a
 * row's strings stand behind one another, and the rows with pointers are made from them when somebody wants the
 * schema. */
static const struct texts {
#define OPGAP_FIELD(name, coding) "\0" name
#define OPGAP_EVENT(NAME_, id, name, category, kind, status, ...)                                                      \
  char NAME_[sizeof(name "\0" category "\0" status __VA_ARGS__)];
#include "format/events.def"
#undef OPGAP_EVENT
} texts = {
#define OPGAP_EVENT(NAME_, id, name, category, kind, status, ...) .NAME_ = name "\0" category "\0" status __VA_ARGS__,
#include "format/events.def"
#undef OPGAP_EVENT
#undef OPGAP_FIELD
};
static_assert(sizeof texts <= UINT16_MAX, "the texts' distances have 16 bits");

static const struct row {
  uint16_t text; /* name, category, status and the fields' names: distance from the first */
  uint8_t id, kind, field_count, coding[OPGAP_MAX_FIELDS];
} table[] = {
#define OPGAP_FIELD(name, coding) coding,
#define OPGAP_EVENT(NAME_, id_, name, category, kind_, status, ...)                                                    \
  {.text = offsetof(struct texts, NAME_),                                                                              \
   .id = id_,                                                                                                          \
   .kind = kind_,                                                                                                      \
   .field_count = sizeof((uint8_t[]){__VA_ARGS__}),                                                                    \
   .coding = {__VA_ARGS__}},
#include "format/events.def"
#undef OPGAP_EVENT
};
#define ROWS (sizeof table / sizeof *table)

static void make_event(struct opgap_event *event, const struct row *row)
{
  const char *text = (const char *)&texts + row->text;
  event->id = row->id;
  event->kind = row->kind;
  event->field_count = row->field_count;
  event->name = text;
  event->category = text += strlen(text) + 1;
  event->status = text += strlen(text) + 1;
  for (unsigned f = 0; f < row->field_count; f++)
    event->fields[f] = (struct opgap_field){.name = text += strlen(text) + 1, .coding = row->coding[f]};
}

/* Two threads that make the rows at once write the same values. */
const struct opgap_event *opgap_schema_builtin(unsigned *count)
{
  static struct opgap_event events[ROWS];
  static _Atomic bool made;
  if (!atomic_load_explicit(&made, memory_order_acquire)) {
    for (unsigned i = 0; i < ROWS; i++)
      make_event(&events[i], &table[i]);
    atomic_store_explicit(&made, true, memory_order_release);
  }
  *count = ROWS;
  return events;
}

bool opgap_schema_is_span(unsigned event)
{
  switch (event) {
#define OPGAP_EVENT(NAME_, id, name, category, kind, ...)                                                              \
  case id:                                                                                                             \
    return kind == OPGAP_SPAN;
#include "format/events.def"
  }
  return false;
}
