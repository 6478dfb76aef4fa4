/* Marks: empty files in the trace folder, by which one process tells others what it has found out about a library, so
 * that they need not find it out again: those of its trace, and those of traces that are written beside it later.
 *
 * A mark only saves work: whoever finds none goes on without.  One counts if it is an empty file of the process's own
 * user.  Outside of its trace folder the tracer leaves nothing behind, since a program may look at its files; it looks
 * at a few of the folders NAME.opgap beside it, so that a mark costs little where there are thousands.
 *
 * Threads   any; no hook runs inside.  errno stays.  Nothing is done once the program has confined itself (seccomp).
 */
#ifndef OPGAP_RECORD_MARKS_H
#define OPGAP_RECORD_MARKS_H

#include <stdbool.h>

#define OPGAP_MARK_NAME 160u /* bytes, with the NUL; longer names are cut */

bool opgap_mark_stands(const char *name);
/* Of a trace beside this one. */
bool opgap_mark_stands_beside(const char *name);
void opgap_mark_leave(const char *name);

#endif
