/* This process's place in the lineage of its trace (format/lineage.h): whose steps open the windows of its schedule.
 *
 * Threads   join, leave: who begins or ends the session.  The rest: any thread, any context; no lock, no system call.
 * Where     /dev/shm, under a name that follows from the trace folder.  Without it (no room, no right, a limit of file
 *           sizes, another /dev/shm) a process goes by its own steps, as do those that it executes.
 */
#ifndef OPGAP_RECORD_LINEAGE_H
#define OPGAP_RECORD_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>

struct opgap_control;

/* Takes a place below the nearest ancestor that has one, and maps its page at `at`; recording is off in it.  NULL:
 * there is none to be had, and nothing has changed.  forked: from the process that called this before.  May open files.
 */
struct opgap_control *opgap_lineage_join(void *at, bool forked);
/* Gives the place back; its page is mapped no more. */
void opgap_lineage_leave(void);
/* This process has a place. */
bool opgap_lineage_has(void);
/* It has one and goes by its own steps. */
bool opgap_lineage_leads(void);
/* What this process's steps and times say: recorded or not.  Counts for it and others if it leads. */
void opgap_lineage_say(bool on);
/* It has ended a step.  True: from now on it goes by its own, and *was_on is what it recorded before. */
bool opgap_lineage_step(bool *was_on);

#endif
