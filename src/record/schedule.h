/* When to record: by steps (OPGAP_SCHEDULE) and by time (OPGAP_DELAY, OPGAP_DURATION).
 *
 * Threads   start: the session's start.  step: any thread, at the end of a training step.  tick: the flusher.
 * Effect    Sets opgap_active, as far as it is not stopped from outside (control.h).  Outside the window only fork,
 * exec and exit are seen, and what counts the steps.
 * Children  Those that a process forks or executes follow its schedule until they end steps of their own (lineage.h).
 * The edges of the windows are in the trace of the process that they follow.
 */
#ifndef OPGAP_RECORD_SCHEDULE_H
#define OPGAP_RECORD_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* groups: what opgap_active is inside the window.  Returns true when time matters and the flusher must run. */
bool opgap_schedule_start(uint32_t groups);
/* A forked child's session has begun. */
void opgap_schedule_forked(void);
/* The trace says so of this process, whose children follow its schedule: it is outside of a window. */
bool opgap_schedule_waits(void);
/* A step has ended.  Cheap; no lock. */
void opgap_schedule_step(void);
/* Time goes by.  Returns how many ns later it wants to be called again, 0: never. */
uint64_t opgap_schedule_tick(uint64_t now_ns);
/* Pure: is the step with this number (from 0) recorded?  warmup steps are run through but not recorded. */
struct opgap_schedule;
bool opgap_schedule_has(const struct opgap_schedule *schedule, uint64_t step);

#endif
