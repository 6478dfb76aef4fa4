/* Page faults of ops: the thread's own count of them (getrusage), read where an op ends that took long.
 *
 * Purpose   An op or a range of at least OPGAP_FAULT_TICKS is followed by a FAULTS record on the same thread, if there
 *           were any since the reading before.  They are the op's own, since ops inside it that took long were read
 *           before it ended; its short ones count as its own.  Where more time lies between the reading before and the
 *           op's start than the op took, nobody knows whose they are: the record then names no event.
 * Cost      A system call, some 0.3 us, no more often than each half of OPGAP_FAULT_TICKS.
 * Threads   the thread itself, after its record.  A thread's first reading is only where the next one counts from.
 */
#ifndef OPGAP_RECORD_FAULTS_H
#define OPGAP_RECORD_FAULTS_H

#include <stdint.h>

#define OPGAP_FAULT_TICKS (UINT64_C(1) << 18) /* some 100 us; 262 us where the clock has no counter */

/* event: of the op that has just been recorded, which took `length` ticks up to `end`. */
void opgap_faults_note(unsigned event, uint64_t length, uint64_t end) __attribute__((noinline, cold));

#endif
