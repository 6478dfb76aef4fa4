/* The self-description of a trace: which events there are and what their fields mean.
 *
 * Threads: any; the rows are constant once they are made, by the first call that asks for them.  Ownership: none.
 *
 * Two tables feed it: events.def (ids 1..63, stable) and hooks.def (ids 64.., numbered per build).  A trace carries
 * the whole table, so a reader trusts the table of the trace and never its own.
 */
#ifndef OPGAP_FORMAT_SCHEMA_H
#define OPGAP_FORMAT_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#define OPGAP_MAX_FIELDS 10
#define OPGAP_FIRST_HOOK 64   /* event id of the first row of hooks.def */
#define OPGAP_MAX_EVENTS 1024 /* ids are below this in every trace */

enum opgap_kind { OPGAP_SPAN = 1, OPGAP_INSTANT = 2, OPGAP_SERIES = 3 };
enum opgap_coding { OPGAP_PLAIN = 1, OPGAP_DELTA = 2, OPGAP_NAME = 3 };

struct opgap_field {
  const char *name;
  uint8_t coding; /* enum opgap_coding */
};

struct opgap_event {
  uint16_t id;
  uint8_t kind; /* enum opgap_kind */
  uint8_t field_count;
  uint8_t flags; /* OPGAP_EVENT_* */
  const char *name;
  const char *category; /* op, range, call, kernel, ...; a hook's category is its group: alloc, io, sync, ... */
  const char *status;   /* meaning of the status word, "" when unused */
  struct opgap_field fields[OPGAP_MAX_FIELDS];
};

#define OPGAP_EVENT_HOOK 1         /* a hooked call: fields object, value; status errno (0 = succeeded) */
#define OPGAP_EVENT_BLOCKING 2     /* the thread may sleep in it */
#define OPGAP_EVENT_COUNTED 4      /* usually only counted (COUNTER records); spans are the long ones */
#define OPGAP_EVENT_EDGE 8         /* a wake-up: it can end another thread's wait on the same object */
#define OPGAP_EVENT_OBJECT_NAME 16 /* the object is an interned name (a file, pipe, socket), not an address */
#define OPGAP_EVENT_ALLOC 32       /* value is bytes asked for */
#define OPGAP_EVENT_FREE 64
#define OPGAP_EVENT_WAITED 128 /* a wait for descriptors: its object is a socket if it waited for one in vain */

/* Value of an allocation event whose object was given back: a realloc of a block writes this first. */
#define OPGAP_ALLOC_RELEASED UINT64_MAX

/* The status of a CHILD record: how it was made, and why it is known to be untraced. */
#define OPGAP_CHILD_HOW 15u
#define OPGAP_CHILD_OUT_OF_REACH 16u /* the trace is, for its parent or itself */
#define OPGAP_CHILD_CONFINED 32u     /* by its parent's filter of system calls */
#define OPGAP_CHILD_LEFT_OUT (OPGAP_CHILD_OUT_OF_REACH | OPGAP_CHILD_CONFINED)

/* The sequence number of an op or range that has none, as in torch: -1. */
#define OPGAP_NO_SEQUENCE UINT64_MAX

/* A figure that the device does not tell. */
#define OPGAP_GPU_UNKNOWN UINT64_MAX

enum opgap_builtin {
#define OPGAP_FIELD(name, coding)
#define OPGAP_EVENT(NAME, id, name, category, kind, status, ...) OPGAP_EV_##NAME = id,
#include "format/events.def"
#undef OPGAP_EVENT
#undef OPGAP_FIELD
};

/* The built-in events (ids 1..63); *count receives the number of rows. */
const struct opgap_event *opgap_schema_builtin(unsigned *count);
/* Has a built-in event a start and an end?  Any context. */
bool opgap_schema_is_span(unsigned event);

#endif
