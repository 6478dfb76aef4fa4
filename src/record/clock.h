/* Time stamps.
 *
 * Ticks are the time stamp counter where it is invariant, else CLOCK_MONOTONIC ns.  Records carry ticks; the consumer
 * turns them into CLOCK_MONOTONIC ns by interpolating between two anchors taken around them, so neither a measured
 * frequency nor NTP's slewing bends the time line.
 *
 * Threads: opgap_ticks anywhere; opgap_clock_select once at start-up, before the first tick.
 */
#ifndef OPGAP_RECORD_CLOCK_H
#define OPGAP_RECORD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "format/arena.h"

extern bool opgap_clock_tsc __attribute__((visibility("hidden"))); /* ticks come from the counter */

static inline uint64_t opgap_clock_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t); /* vDSO: no system call, never fails, leaves errno alone */
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Out of line, so that a hook needs no room for it on its stack. */
uint64_t opgap_ticks_of_clock(void) __attribute__((cold, visibility("hidden")));
/* Where opgap_clock_tsc is known to be set. */
static inline uint64_t opgap_ticks_of_counter(void)
{
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}
static inline uint64_t opgap_ticks(void)
{
  return __builtin_expect(opgap_clock_tsc, 1) ? opgap_ticks_of_counter() : opgap_ticks_of_clock();
}

/* Decides between counter and clock: the counter must be the kernel's own clock source, or invariant if it does not
 * say. force_clock: take the clock. */
void opgap_clock_select(bool force_clock);
/* Takes both clocks together; the best of a few tries. */
struct opgap_anchor opgap_clock_anchor(void);
/* The same, as the consumer's clock. */
struct opgap_anchor opgap_clock_anchor_for(const struct opgap_arena *unused);

#endif
