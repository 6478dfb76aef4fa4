/* Event ids, counter indices and slots of the hooks, from hooks.def.
 *
 * Threads: constants.  Two parts because only rows with a counter are numbered twice.
 */
#ifndef OPGAP_HOOKS_HOOK_IDS_H
#define OPGAP_HOOKS_HOOK_IDS_H

#include "format/schema.h"

/* OPGAP_HOOK_ID_name: event id */
enum opgap_hook_id {
  OPGAP_HOOK_ID_before_first = OPGAP_FIRST_HOOK - 1,
#define OPGAP_SPAN(group, flags, type, name, ...) OPGAP_HOOK_ID_##name,
#define OPGAP_SPAN_AFTER(group, flags, type, name, ...) OPGAP_HOOK_ID_##name,
#define OPGAP_POINT(group, flags, type, name, ...) OPGAP_HOOK_ID_##name,
#define OPGAP_COUNTED(group, flags, type, name, ...) OPGAP_HOOK_ID_##name,
#define OPGAP_CUSTOM(group, flags, type, name, ...) OPGAP_HOOK_ID_##name,
#include "hooks/hooks.def"
  OPGAP_HOOK_ID_end
};

/* OPGAP_COUNTER_name: index of the counter */
enum opgap_hook_counter {
#define OPGAP_COUNTED(group, flags, type, name, ...) OPGAP_COUNTER_##name,
#include "hooks/hooks.def"
  OPGAP_COUNTER_COUNT
};

/* OPGAP_SLOT_name: index of a real function */
enum opgap_real_slot {
#define OPGAP_FUNCTION(type, name, params) OPGAP_SLOT_##name,
#include "hooks/hooks.def"
  OPGAP_SLOT_COUNT
};

#endif
