/* The process's side of start and stop from outside (OPGAP_CONTROL); see format/control.h.
 *
 * Threads   attach, detach: the thread that starts a session.  The rest: any thread, any context.
 * Effect    Everything that sets opgap_active as a whole goes through here.
 */
#ifndef OPGAP_RECORD_CONTROL_H
#define OPGAP_RECORD_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Says in a new ring that this process can be switched, before the ring names its trace.  Nothing without the setting,
 * or when the ring is private memory. */
void opgap_control_offer(void);
/* Maps the control page over opgap_active and takes the state that the job is in: what `opgap start` or `opgap stop`
 * left in the trace folder, else what the setting says.  After the ring names its trace, so that either the tool finds
 * the ring or this call finds the tool's word. */
void opgap_control_attach(void);
/* After an exec that failed, when the ring is that of a running process again: while it was not, the tool passed it
 * over, and its word is in the trace folder. */
void opgap_control_again(void);
/* In a forked child: the page is the parent's.  Puts private memory with the same value in its place.  False: there is
 * no memory for that, and the page stays; nothing may be recorded, and the calls below leave it alone. */
bool opgap_control_detach(void);
/* The page is mapped: a forked child must start its own session at once, its parent's end would switch it off. */
bool opgap_control_mapped(void);

/* From here on opgap_active is set by this process's schedule for the children that it forks, too: DataLoader workers
 * have no steps of their own.  False: with OPGAP_CONTROL each process has a page of its own, or there is no memory. */
bool opgap_control_lead(void);
bool opgap_control_leads(void); /* it does */
/* It is set by the schedule of a process that forked this one.  Its session begins at once, too: when it began tells
 * the reader which windows it was there for. */
bool opgap_control_follows(void);
/* Recording is stopped from outside. */
bool opgap_control_stopped(void);

/* opgap_active is to be `open` (schedule, delay), or what remains of it while recording is stopped from outside. */
void opgap_active_open(uint32_t open);
/* Nothing is recorded any more, and no `opgap start` changes that.  Returns what opgap_active was.  In a copy of the
 * process only the copy's word is written; in a child that shares the memory none is, and 0 returned. */
uint32_t opgap_active_halt(void);
/* Takes a halt back. */
void opgap_active_resume(void);

#endif
