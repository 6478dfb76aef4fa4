/* Call stacks of what took long: native frames by libunwind, Python's by frameworks/python.c (OPGAP_STACKS).
 *
 * Purpose   An op, a range or a hooked call that took at least OPGAP_STACK_THRESHOLD_NS, and a block of at least
 *           OPGAP_MIN_ALLOC, is followed by a STACK record on the same thread.  A stack is an interned name, so each
 *           distinct one is in the arena once; what its bytes mean is in docs/TRACE_FORMAT.md.
 * Cost      Unwinding takes microseconds, so a thread stops taking stacks while they have cost it more than
 *           1 / OPGAP_STACK_SHARE of its time; what is left out is counted.  The Python lines of ops, which cost tens
 *           of ns, have a budget of their own, as large.
 * Threads   start: the session's start.  note: the thread itself, after its record.  modules: the consumer.
 * Context   A hook's end, also in signal handlers and on small stacks: unwinding runs on a stack of the tracer's, with
 *           all signals blocked.  libunwind is loaded with dlopen(RTLD_LOCAL), so that its _Unwind_* take nobody's
 *           place.  While it works the thread's own hooks pass through, except those that would give it a descriptor:
 *           the numbers are the program's, so it gets none (opgap_unwind_cell); what reads memory for it is ours; and
 *           malloc, whose blocks would be freed by a call of the program's (alloc.c).  It may call dl_iterate_phdr,
 *           once for each function that it has not met.
 */
#ifndef OPGAP_RECORD_STACKS_H
#define OPGAP_RECORD_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPGAP_STACK_THRESHOLD_NS 80000u
#define OPGAP_STACK_SHARE 50u
#define OPGAP_STACK_FRAMES 64u

/* The cell of a thread in libunwind: hooks pass through, and give it no descriptor. */
struct opgap_cell;
extern struct opgap_cell opgap_unwind_cell __attribute__((visibility("hidden")));

/* Shortest span that gets a stack, in ticks; UINT64_MAX: none does. */
extern uint64_t opgap_stack_ticks;
/* Shortest op of which more is asked than its record, a stack or its page faults (faults.h). */
extern uint64_t opgap_long_op_ticks;

/* In the first session of a process, before it records; reads the setting.  In a forked child: gives stacks up if a
 * thread of the parent was unwinding at that moment, because libunwind's locks are held for ever then. */
void opgap_stacks_start(void);
void opgap_stacks_forked(void);
/* Records the calling thread's stack for what it just recorded: an event that took so many ticks, or so many bytes. */
void opgap_stack_note(unsigned event, uint64_t ticks, uint64_t bytes) __attribute__((noinline, cold));

/* What a thread has spent and since when, in ticks; zeroed memory is a thread that begins. */
struct opgap_stack_budget {
  uint64_t began, spent;
};
/* For what is too cheap to be timed each time: it took `ticks` once, at `now`.  True: it may be done `times` times
 * more, which is paid for here; else as often is left out, and counted.  The calling thread's budget; any context. */
bool opgap_stack_afford(struct opgap_stack_budget *budget, uint64_t now, uint64_t ticks, unsigned times);

/* libunwind keeps memory for each thread and gives it back at the thread's end, by the destructor of a key that it
 * makes in its first walk: what to use instead of it, so that its calls are not counted as the program's. */
void (*opgap_stacks_destructor(void (*destructor)(void *)))(void *);

/* The line of PyTorch's DataLoader that the calling thread is in, as Python's frames are told; 0: in none, or this
 * Python is not understood, which is said only where Python's stacks were asked for.  Whatever OPGAP_STACKS is. */
uint32_t opgap_stack_of_loader(void);
/* Python's frames were asked for. */
bool opgap_stacks_python(void);

/* The module of this address is wanted in the trace, whatever OPGAP_STACKS is: a lock that was waited for may lie in
 * its static data.  Any context; the flusher looks for it, since a thread that holds a lock of the program's must not
 * ask the loader.  There is room for about 256 addresses; a new one wakes the flusher. */
void opgap_module_want(uint64_t address);
bool opgap_modules_wanted(void);
/* The flusher, outside of the drain lock: looks for those wanted since the last time. */
void opgap_modules_look(void);
/* Modules known so far, and the fields of one's MODULE record. */
uint32_t opgap_module_count(void);
void opgap_module_fields(uint32_t index, uint64_t fields[5]);

/* MODULE and FRAME records of all that stacks refer to, as ring words; for a trace whose beginning is dropped. */
size_t opgap_stack_tables(uint64_t *words, size_t room, uint64_t ns);
/* Stacks taken, left out to save time, and failed, in this process; lines of ops left out; what all that cost. */
struct opgap_stack_counts {
  uint64_t taken, skipped, failed, lines_skipped, ns;
};
struct opgap_stack_counts opgap_stack_counts(void);

/* Python frames of the calling thread, whose slot this is; outermost last.  Each: the interned "FILE:LINE FUNCTION",
 * shifted left by one, and 1 for the last that its run of the interpreter's loop has.  Provided by the frameworks. */
unsigned opgap_python_frames(unsigned slot, uint32_t *frames, unsigned room) __attribute__((weak));

#endif
