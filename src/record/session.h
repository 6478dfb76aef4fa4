/* A session: one process being traced, from its first hook to its end.
 *
 * Threads   start: the thread that runs the constructor, or the first hook of a forked child.  The rest: any thread.
 * Ownership The session is private memory that fork wipes; a child starts its own.
 *
 * Who drains the rings (one consumer at a time, `drain lock`): the flusher thread once the program has threads of its
 * own; before that the only thread itself, when its ring is half full; at exec and exit the thread that leaves.
 * The flusher has its own, empty descriptor table (unshare(CLONE_FILES)), so the program never sees the tracer's
 * descriptors and cannot close them; a thread that drains opens the file by name and closes it within the hook.
 */
#ifndef OPGAP_RECORD_SESSION_H
#define OPGAP_RECORD_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct opgap_event;

/* How many counters of hooks.def make up an op's allocations; its frees are the one behind them.  Another table works
 * as well, only slower. */
#define OPGAP_ALLOC_COUNTERS 9u

/* Reads the settings and starts tracing this process; true: it is traced.  hook_events: gives the schema rows of the
 * hooks, ids 64..., when the session begins.
 * program: argv[0], or NULL, for the process's life; counter_events: the event of each counter; those with
 * OPGAP_EVENT_ALLOC first, then those with OPGAP_EVENT_FREE. Called once by the constructor; sets opgap_active last.
 * The session may begin later, in the first hook. */
bool opgap_session_start(const char *program, const struct opgap_event *(*hook_events)(unsigned *count),
                         const uint16_t *counter_events, unsigned counter_count);
/* The program is about to create a thread: starts the flusher if it does not run.  Not async-signal-safe. */
void opgap_session_threads(void);
/* Something outside the rings waits for the consumer (a full GPU buffer): wakes the flusher if it sleeps.  Any thread;
 * one futex call at most. */
void opgap_session_wake(void);
/* Ends the flusher, if it runs, and waits for it: the program's last thread is about to end, and libc must find it the
 * last; or it is about to lose the system calls that this takes. */
void opgap_flusher_stop(void);
/* The calling thread asks for what the kernel refuses to a process of several threads (namespaces).  If it is the only
 * one that is recorded and the flusher runs, ends the flusher and waits until the kernel counts it no more, 0.1 s at
 * most.  True: it did so; opgap_session_threads brings it back. */
bool opgap_flusher_step_aside(void);
/* The calling thread's end is near (key destructor): its slot is given back once the kernel thread is gone.  True: it
 * was the last one that is recorded; the flusher has ended. */
bool opgap_thread_dying(void);
/* Are all other threads of the process, recorded or not, on their way out?  Waits for nothing; false if /proc does not
 * tell. */
bool opgap_thread_is_alone(void);
/* A child must not record (vfork), and back.  That of a fork needs no word: its wiped cell does the work. */
void opgap_vfork_enter(void);
void opgap_vfork_leave(void);
/* Around a fork that a hook sees, on the stack of who forks: a signal handler may fork amid the making of a record, and
 * return in the child, which then finishes that record.  The child gets its parent's cell, state and arena replaced by
 * private memory that takes these stores, before its own session begins; that has cells and a state of its own. */
struct opgap_fork {
  struct opgap_cell *cell; /* busy, NULL: none */
  struct opgap_thread *thread;
  struct opgap_arena *arena;
  const struct opgap_fork *outer;
  int pid; /* of the parent */
};
void opgap_fork_begin(struct opgap_fork *fork);
void opgap_fork_end(struct opgap_fork *fork);
/* Drains everything to the trace file, before exec.  True: the ring waits for the next image, which looks for it where
 * the value of OPGAP_SESSION ends with OPGAP_SESSION_EXECUTED. */
bool opgap_session_flush_exec(void);
#define OPGAP_SESSION_EXECUTED "/."
/* The same before a function of libc that ends the process without a handler of ours (daemon, in the parent).  The ring
 * is given up: if the function fails, what comes is still recorded, but would not outlive a kill. */
void opgap_session_flush_end(void);
/* After either: the process has not ended. */
void opgap_session_goes_on(void);
/* The calling thread, or all, is about to get a filter of system calls: what is recorded is written, and what comes is
 * left in the ring for whoever reads it.  False: it was so before. */
bool opgap_session_confine(bool all_threads);
/* There is no filter after all. */
void opgap_session_unconfine(void);
/* Does this process record, and is it not the child of a vfork or of a raw clone of the one that does? */
bool opgap_session_is_here(void);
/* From here on a thread of this process, or of a child, that reads a clock is killed (PR_TSC_SIGSEGV; the vDSO reads
 * the counter, too): the end is left to whoever reads the ring. */
void opgap_session_counter_gone(void);
void opgap_session_end(int exit_status);
/* The trace folder, as OPGAP_SESSION hands it down to programs that this one executes. */
const char *opgap_session_folder(void);
/* The pid as cached at the session's start; differs from getpid() in the child of a vfork. */
int opgap_session_pid(void);
/* Ids and flags that hooks need: thresholds (bytes) and whether allocations are recorded one by one. */
struct opgap_settings;
extern const struct opgap_settings *opgap_settings;

#endif
