/* Is the trace in reach of this process, and of what it starts?  A program may give up its rights, its root folder or
 * its descriptors, or get a filter of system calls: its children, which could not write to the trace, are left out of
 * it.  They run without the tracer, and the cause is told once, by whoever meets it first.
 *
 * Threads   any of the program's, any context; the flusher and whoever drains for opgap_reach_lost.
 * Ownership What was told is inherited by fork; siblings share a count in the arena of the process they come from.
 */
#ifndef OPGAP_RECORD_REACH_H
#define OPGAP_RECORD_REACH_H

#include <stdbool.h>
#include <stddef.h>

struct opgap_arena;

/* Before a child is made or a program executed: which of OPGAP_CHILD_LEFT_OUT (schema.h) keep it out of the trace.
 * 0: none.  Tells the cause, and takes the tracer out of `environ`, the first time.  One system call, none where a
 * filter is. */
unsigned opgap_reach_of_children(void);

/* The trace file cannot be opened.  True: it is there, but out of this process's reach; the cause is told. */
bool opgap_reach_lost(long error);

/* A session that cannot begin has this error: may its process say so?  False: another one has, and it is counted. */
bool opgap_reach_tells_start(long error);

/* A session has begun: what its process starts belongs to this arena. */
void opgap_reach_begins(struct opgap_arena *arena);

/* `environ` without the tracer, before a filter forbids the call that this takes; and back, if it still is that one. */
void opgap_reach_leave_environment(void);
void opgap_reach_enter_environment(void);

/* Writes the environment without the tracer to out, which has room for count(envp) + 1 pointers; text: room for the
 * values of LD_PRELOAD in it.  Provided by the hooks, which know how the tracer was loaded. */
void opgap_environment_without(char *const envp[], char **out, char *text);
/* Their sizes: the number of entries; 0 bytes: the tracer is not in it. */
size_t opgap_environment_size(char *const envp[], size_t *text_bytes);

#endif
