#include "format/schema.h"

#define PLAIN OPGAP_PLAIN
#define DELTA OPGAP_DELTA
#define NAME OPGAP_NAME
#define SPAN OPGAP_SPAN
#define INSTANT OPGAP_INSTANT
#define SERIES OPGAP_SERIES
#define OPGAP_FIELD(field_name, field_coding)                                                                          \
  {                                                                                                                    \
    .name = field_name, .coding = field_coding                                                                         \
  }
#define OPGAP_EVENT(NAME_, event_id, event_name, event_category, event_kind, event_status, ...)                        \
  {.id = event_id,                                                                                                     \
   .kind = event_kind,                                                                                                 \
   .field_count = sizeof((struct opgap_field[]){__VA_ARGS__}) / sizeof(struct opgap_field),                            \
   .name = event_name,                                                                                                 \
   .category = event_category,                                                                                         \
   .status = event_status,                                                                                             \
   .fields = {__VA_ARGS__}},

static const struct opgap_event builtin[] = {
#include "format/events.def"
};

const struct opgap_event *opgap_schema_builtin(unsigned *count)
{
  *count = sizeof builtin / sizeof *builtin;
  return builtin;
}
