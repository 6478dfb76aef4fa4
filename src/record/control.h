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
/* A session begins: opgap_active becomes this process's.  With a schedule, whose windows may be those of another
 * process, it gets a page that both can write (lineage.h).  False: there is no memory, and nothing may be recorded. */
bool opgap_control_begin(bool forked);
/* The session has ended, or cannot begin: nothing of this process is written by others any more. */
void opgap_control_leave(void);
/* In a forked child: the page is the parent's.  Puts private memory with the same value in its place.  False: there is
 * no memory for that, and the page stays; nothing may be recorded, and the calls below leave it alone. */
bool opgap_control_detach(void);
/* The page is mapped: a forked child must start its own session at once, its parent's end would switch it off. */
bool opgap_control_mapped(void);

/* Without a place in the lineage: from here on opgap_active is set by this process's schedule for the children that it
 * forks, too.  False: with OPGAP_CONTROL each process has a page of its own, or there is no memory. */
bool opgap_control_lead(void);
bool opgap_control_leads(void); /* this process goes by its own steps */
/* opgap_active is another process's, which forked this one. */
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
