/* Whose steps open the windows of a schedule for whom: the file that the processes of one trace on one machine share.
 *
 * Purpose   A schedule counts steps, which DataLoader workers and other helpers do not have.  Each process records by
 *           the steps of its nearest ancestor that has ended one, also across exec.  So each has a place here, with a
 *           page that is mapped over its opgap_active (control.h): whoever's steps end writes the pages of all that go
 *           by them.  Before any ancestor has ended a step, the topmost one's delay and its step 0 count.
 * Threads   Each field names its writers.  Everything shared is an atomic, seq_cst: edges of windows are rare.
 * Ownership A place belongs to the process `pid`, until that gives it back at its end, or has died and another takes
 *           it.  The file belongs to the user; the last process removes it, else `opgap record` or the next command.
 *
 * Invariants
 *   1. A name of a place (ref) is its number and how often it was taken: that of a place given back names nothing.
 *   2. A process that gives its place back without ever having ended a step leaves its children its own parent.
 *   3. `wanted` of a page follows from `on` of the place that it goes by.  Whoever changes what that follows from
 *      computes it anew and looks at it again afterwards, so the last to store has seen the last values (as ordering
 * K).
 *   4. Those whose leader has ended keep what they had.
 */
#ifndef OPGAP_FORMAT_LINEAGE_H
#define OPGAP_FORMAT_LINEAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/control.h"

#define OPGAP_LINEAGE_MAGIC 0x454e494c47504f31ull /* "1OPGLINE" */
#define OPGAP_LINEAGE_PLACES 1024u                /* processes at one time; others go by their own steps */
#define OPGAP_LINEAGE_SUFFIX ".lineage"

struct opgap_lineage_place {
  union {
    struct opgap_control page; /* wanted: whoever leads; open: the process itself */
    char bytes[OPGAP_CONTROL_BYTES / 2];
  };
  _Atomic int32_t pid;            /* of who has the place; 0: free */
  _Atomic uint32_t ref;           /* 0: not filled in, or free; the process */
  _Atomic uint32_t parent;        /* ref; 0: none.  The process at its start, its parent at that one's end */
  _Atomic uint32_t ends_steps;    /* 1: it has ended one: the process */
  _Atomic uint32_t on;            /* what its own steps and times say: the process */
  uint32_t times_taken;           /* by who has the place */
  _Atomic uint64_t start_time;    /* field 22 of /proc/PID/stat */
  _Atomic uint64_t pid_namespace; /* inode; pids mean nothing in another one */
  char reserved[OPGAP_CONTROL_BYTES / 2 - 40];
};
static_assert(sizeof(struct opgap_lineage_place) == OPGAP_CONTROL_BYTES, "a place is a page");

struct opgap_lineage {
  _Atomic uint64_t magic;
  _Atomic uint32_t used; /* places ever taken, from the front */
  char reserved[OPGAP_CONTROL_BYTES - 12];
  struct opgap_lineage_place places[OPGAP_LINEAGE_PLACES];
};
static_assert(offsetof(struct opgap_lineage, places) == OPGAP_CONTROL_BYTES, "the first page");

#define OPGAP_LINEAGE_REF_BITS 12
static_assert(OPGAP_LINEAGE_PLACES < 1u << OPGAP_LINEAGE_REF_BITS, "a number from 1 on");

static inline uint32_t opgap_lineage_ref(unsigned number, uint32_t times_taken)
{
  return times_taken << OPGAP_LINEAGE_REF_BITS | (number + 1);
}

/* The place of a ref; NULL: none, or given back. */
static inline struct opgap_lineage_place *opgap_lineage_at(struct opgap_lineage *lineage, uint32_t ref)
{
  unsigned number = (ref & ((1u << OPGAP_LINEAGE_REF_BITS) - 1)) - 1;
  if (ref == 0 || number >= OPGAP_LINEAGE_PLACES || atomic_load(&lineage->places[number].ref) != ref)
    return NULL;
  return &lineage->places[number];
}

/* By whose steps a process goes; NULL: that one has ended. */
static inline struct opgap_lineage_place *opgap_lineage_leader(struct opgap_lineage *lineage,
                                                               struct opgap_lineage_place *place)
{
  for (unsigned i = 0; place != NULL && i < OPGAP_LINEAGE_PLACES; i++) {
    uint32_t parent = atomic_load(&place->parent);
    if (parent == 0 || atomic_load(&place->ends_steps))
      return place;
    place = opgap_lineage_at(lineage, parent);
  }
  return NULL;
}

/* Invariant 3 for one process. */
static inline void opgap_lineage_settle(struct opgap_lineage *lineage, struct opgap_lineage_place *place)
{
  struct opgap_lineage_place *leader;
  uint32_t on;
  do {
    leader = opgap_lineage_leader(lineage, place);
    if (leader == NULL)
      return;
    on = atomic_load(&leader->on);
    atomic_store(&place->page.wanted, on);
    opgap_control_settle(&place->page);
  } while (opgap_lineage_leader(lineage, place) != leader || atomic_load(&leader->on) != on);
}

/* For all that may go by the steps of this one.  Ancestors of others are passed over in a few loads. */
static inline void opgap_lineage_settle_all(struct opgap_lineage *lineage, const struct opgap_lineage_place *of)
{
  uint32_t used = atomic_load(&lineage->used);
  for (uint32_t i = 0; i < used && i < OPGAP_LINEAGE_PLACES; i++) {
    struct opgap_lineage_place *place = &lineage->places[i];
    if (atomic_load(&place->ref) != 0 && opgap_lineage_leader(lineage, place) == of)
      opgap_lineage_settle(lineage, place);
  }
}

#endif
