/* CPU bandwidth control of the process's own cgroup.
 *
 * Threads   the consumer only.  Context: flusher; system calls, no allocation, no lock.
 */
#ifndef OPGAP_RECORD_CGROUP_H
#define OPGAP_RECORD_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Totals since the cgroup was made: periods, periods in which it was throttled, time throttled in ns (summed over
 * CPUs), and its limit in thousandths of a CPU (0: none, or not known).  False when the cgroup has no limit of its own
 * or cannot be read; limits of its parents are not seen. */
bool opgap_cgroup_sample(uint64_t fields[4]);

#endif
