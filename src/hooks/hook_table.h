/* The hooks as data: what a trace, `opgap info --hooks` and docs/HOOKS.md need to know of them.  No code of the tracer.
 *
 * Threads: constant data; any context, but for opgap_hook_events: one thread at a time.  Ownership: none.
 *
 * What the records of hooks mean (beside schema.h):
 *   counted hooks   the counter holds every call, also those that have a span of their own.  `bytes` is what was asked
 *                   for by calls that succeeded; calls that failed are in `failed` too.
 *   allocations     with OPGAP_ALLOC=events each one is recorded (object: block, value: bytes), those below
 *                   OPGAP_MIN_ALLOC as a span of no length, and each free is an instant (object: block), written before
 *                   the block is given back.  realloc of a block writes two: first, of no length, (object: old block,
 *                   value: OPGAP_ALLOC_RELEASED), then as any allocation (object: new block, value: bytes), or, when it
 *                   failed, (object: old block, value: bytes asked for, status errno): the old block lives on with its
 *                   old size; realloc(block, 0), which frees, writes only the first.  Without events, blocks of at
 *                   least OPGAP_MIN_ALLOC bytes are spans.
 *   copies          of at least OPGAP_MIN_COPY bytes are recorded (object: where to, value: bytes): from 4 KiB on as a
 *                   span, smaller ones, which take about as long as two looks at the clock, as one of no length
 *   locks           a span is a contended lock; an instant of pthread_mutex_unlock is one that found a waiter
 */
#ifndef OPGAP_HOOKS_HOOK_TABLE_H
#define OPGAP_HOOKS_HOOK_TABLE_H

#include <stdint.h>

#include "format/schema.h"

enum opgap_hook_kind {
  OPGAP_HOOK_SPAN,    /* each call is a span */
  OPGAP_HOOK_POINT,   /* each call is an instant: a wake-up edge */
  OPGAP_HOOK_COUNTED, /* counted; the long ones are spans */
  OPGAP_HOOK_ALIAS,   /* recorded as another hook */
  OPGAP_HOOK_BODY     /* not recorded as a call */
};

struct opgap_hook_info {
  const char *name, *group;
  const char *base; /* of an alias: what it is recorded as; else "" */
  const char *doc;
  enum opgap_hook_kind kind;
};

/* The schema rows of all hooks with an event, ids OPGAP_FIRST_HOOK.. in order.  Made by each call, the same each time,
 * in memory that stays: a process that records nothing does not pay for them. */
const struct opgap_event *opgap_hook_events(unsigned *count);
/* The event ids of the counted hooks; index = counter. */
const uint16_t *opgap_hook_counters(unsigned *count);
/* The name of a function that the tracer binds (enum opgap_real_slot). */
const char *opgap_slot_name(unsigned slot);
/* Every exported hook. */
const struct opgap_hook_info *opgap_hook_infos(unsigned *count);

#endif
