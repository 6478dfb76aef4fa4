/* Start and stop from outside: the page of the arena that `opgap start`, `opgap stop` and the traced program share.
 *
 * Purpose   With OPGAP_CONTROL=on or idle this page of the ring file is mapped over the tracer's own opgap_active, the
 *           word that every hook tests.  So a store by the tool switches every thread of the program at once: without
 *           a signal, without a wake-up of a program that sleeps, at no cost for the hooks, and whether or not the
 *           program has a flusher.
 * Threads   Each field names its writers.  The tool holds flock(LOCK_EX) on the ring file while it writes.
 *
 * Ordering
 *   K  active follows from `wanted` and `open`.  Whoever changes one of the two computes it anew and looks at both
 *      again afterwards (seq_cst), so the last to store has seen the other's last value.
 *   L  switches: release by the tool after the entry; acquire by the consumer before it reads the entry.
 */
#ifndef OPGAP_FORMAT_CONTROL_H
#define OPGAP_FORMAT_CONTROL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#define OPGAP_CONTROL_BYTES 4096u
#define OPGAP_SWITCHES 64u /* not yet written to the trace; a program without a flusher writes them when it drains */
#define OPGAP_CONTROL_FILE "control" /* in the trace folder: "1" or "0", what processes that start later begin with */

/* Recording was switched at this time. */
struct opgap_switch {
  uint64_t ns; /* CLOCK_MONOTONIC */
  uint32_t on, reserved;
};

struct opgap_control {
  _Atomic uint32_t active;    /* opgap_active itself: the tool, the process; ordering K */
  _Atomic uint32_t wanted;    /* 1: record: the tool; the process at its start and after a failed exec; K */
  _Atomic uint32_t open;      /* opgap_active while wanted, 0 at the end: the process; ordering K */
  uint32_t always;            /* bits of opgap_active that stay while recording is off: the process at its start */
  _Atomic uint32_t available; /* 1: the tool may switch: the process, last */
  _Atomic uint32_t switches;  /* entries ever made: writers as of `wanted`; ordering L */
  _Atomic uint32_t switches_written; /* entries in the trace: the consumer */
  _Atomic uint32_t window; /* times that active got more bits: whoever changes it, roughly; who sees another number
                              than before knows that nothing may have been recorded in between */
  struct opgap_switch log[OPGAP_SWITCHES]; /* entry n is log[n % OPGAP_SWITCHES] */
};
static_assert(sizeof(struct opgap_control) <= OPGAP_CONTROL_BYTES, "control page");

/* Sets the word that the hooks test, and counts the windows; before it, so that who sees the word sees the number. */
static inline void opgap_control_switch(struct opgap_control *page, uint32_t active)
{
  if (active & ~atomic_load_explicit(&page->active, memory_order_relaxed))
    atomic_fetch_add_explicit(&page->window, 1, memory_order_relaxed);
  atomic_store(&page->active, active);
}

static inline void opgap_control_settle(struct opgap_control *control)
{
  uint32_t wanted, open;
  do {
    wanted = atomic_load(&control->wanted);
    open = atomic_load(&control->open);
    opgap_control_switch(control, wanted ? open : open & control->always);
  } while (wanted != atomic_load(&control->wanted) || open != atomic_load(&control->open)); /* K */
}

/* Notes a switch; 0 when the log is full. */
static inline int opgap_control_note(struct opgap_control *control, uint64_t ns, uint32_t on)
{
  uint32_t made = atomic_load_explicit(&control->switches, memory_order_relaxed);
  if (made - control->switches_written >= OPGAP_SWITCHES)
    return 0;
  control->log[made % OPGAP_SWITCHES] = (struct opgap_switch){.ns = ns, .on = on};
  atomic_store_explicit(&control->switches, made + 1, memory_order_release); /* L */
  return 1;
}

#endif
