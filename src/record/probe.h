/* Trying something that may crash or hang, in a copy of the process.
 *
 * The copy is made by the raw clone system call: no atfork handlers, no exit signal, so neither SIGCHLD nor wait() of
 * the program ever sees it.  It has one thread and may meet a lock that another thread held at the clone: it then
 * hangs, which says nothing of what was tried.  Hence the time limit, kept by the caller.
 *
 * Context   The program's threads.  Blocks for as long as `body` runs, at most OPGAP_PROBE_LIMIT_NS.  Hooks pass
 * through in the copy; signal handlers of the program do not run in it; it leaves no core file and dies with its
 * parent.
 */
#ifndef OPGAP_RECORD_PROBE_H
#define OPGAP_RECORD_PROBE_H

#define OPGAP_PROBE_LIMIT_NS 2000000000ull

enum { OPGAP_PROBE_CRASHED = -1, OPGAP_PROBE_LATE = -2, OPGAP_PROBE_NONE = -3 /* no copy could be made */ };

/* What body(argument) returned in the copy (0 to 255), or one of the above. */
int opgap_probe(int (*body)(const void *argument), const void *argument);

#endif
