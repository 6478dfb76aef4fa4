/* Page faults of ops: the thread's own count of them (getrusage), read where an op ends that took long.
 *
 * Purpose   An op or a range of at least OPGAP_FAULT_TICKS is followed by a FAULTS record on the same thread, if there
 *           were any since the reading before.  They are the op's own, since ops inside it that took long were read
 *           before it ended; its short ones count as its own.  Where more time lies between the reading before and the
 *           op's start than the op took, nobody knows whose they are: the record then names no event.
 *           Counting begins where a thread begins its first op, and its first one of each window of recording: what
 *           came before in the thread's life is a FAULTS record of its own, where it was recorded.  It ends with the
 *           thread, and for the thread that ends the session or a window, with that.  PROCESS_FAULTS tell the whole
 *           process's count where recording begins and ends, so what threads without ops add is known, too: for
 *           windows that this process opens and closes itself, not those of `opgap start` or of the process that it
 *           follows.
 * Cost      A system call, some 0.3 us, no more often than each half of OPGAP_FAULT_TICKS; one for the first op of a
 *           thread, two for each window of a process and one for each of its threads with ops at the end.
 * Threads   session, open, close: who begins or ends the session or a window.  The rest: the thread itself, outside of
 * records.
 */
#ifndef OPGAP_RECORD_FAULTS_H
#define OPGAP_RECORD_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#define OPGAP_FAULT_TICKS (UINT64_C(1) << 18) /* some 100 us; 262 us where the clock has no counter */

/* A session begins, and recording if it is on.  forked: with this process, whose counts are from its fork on. */
void opgap_faults_session(bool forked);
/* A window of recording has begun, if this is a new one.  begins: with the session. */
void opgap_faults_open(bool begins);
/* The calling thread begins an op in this window (opgap_window); reads if it has not begun one before. */
void opgap_faults_begin(uint32_t window);
/* event: of the op that has just been recorded, which took `length` ticks up to `end`. */
void opgap_faults_note(unsigned event, uint64_t length, uint64_t end) __attribute__((noinline, cold));
/* The calling thread ends: what came since its last reading is of no known op. */
void opgap_faults_leave(void);
/* Recording ends, or may: also tells the process's count, if it has run an op. */
void opgap_faults_close(void);

#endif
