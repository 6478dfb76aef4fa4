/* Blocks alive, when every allocation is recorded (OPGAP_ALLOC=events), and who made them: op, source line, thread.
 *
 * Threads   one at a time.  Ownership: struct live owns all its memory until live_free.
 * Bounds    a cell for each distinct address, and for each owner (thread, op, place) one row; owners that wait for the
 * end of their op are reused when their last block is given back.
 *
 * An op's record comes when it ends, after those of the blocks it made.  So a block of depth d first belongs to an
 * owner of its thread and depth, and the first op that ends below d gives this owner its name.  A large block whose own
 * stack was recorded goes to one of that place; the op's place, where it is known, is used instead.
 *
 * What lived at the peak is not copied at each new peak: an owner notes its bytes when they first change after a peak.
 * The same holds for its bytes at the end of each step, which a straight line is put through. */
#ifndef OPGAP_ANALYSIS_LIVE_H
#define OPGAP_ANALYSIS_LIVE_H

#include "analysis/line.h"
#include "analysis/pool.h"

struct live_cell {
  uint64_t address; /* 0: empty */
  uint64_t bytes;   /* 0: given back; the address will come again */
  uint32_t owner;
};

struct live_owner {
  uint32_t thread, op, place; /* gid; op 0: outside of ops, or not yet known */
  uint32_t site;              /* + 1: the owner that this one was joined to; 0: none */
  uint32_t next;              /* + 1: another one that waits for the same op; 0: none */
  uint32_t blocks;            /* alive, of this owner's cells */
  uint64_t bytes, count;      /* alive, those of joined owners too */
  uint64_t peak_bytes, peak_count;
  uint64_t peaks, steps; /* numbers of peaks and steps that are noted */
  struct line growth;    /* bytes by step, after the first LIVE_WARM_UP */
};

#define LIVE_WARM_UP 10u /* as many steps as can be warm-up */

struct live {
  struct live_cell *cells;
  size_t used, size;
  VEC(struct live_owner) owners;
  VEC(uint32_t) spare;
  struct opgap_map index; /* (thread << 32 | op, place) -> owners + 1 */
  uint64_t bytes, peak_bytes, peak_ns, peaks, steps;
  unsigned source; /* of the steps */
};

/* Owners of the blocks that a thread made inside ops which have not ended, by depth: the first, + 1, 0: none. */
#define LIVE_DEPTHS 257u
struct live_waiting {
  uint32_t *at; /* [LIVE_DEPTHS]; NULL before the first */
  unsigned deepest;
  uint64_t made, peaks; /* the thread's latest block, and the number of peaks before it */
};

void live_add(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint64_t address, uint64_t bytes,
              uint64_t at_ns);
/* The place (gid) of the block of this size that the thread has just made at this depth is known after all. */
void live_placed(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint64_t bytes,
                 uint32_t place);
uint64_t live_release(struct live *l, uint64_t address); /* its bytes; 0: it was not alive */
/* Owner + 1 of the block that an address lies in, at most LIVE_REACH behind its start, and the block's bytes; 0: none.
 * The owner stays valid until live_free; what it was made in stands in the one that live_owner_of gives at the end. */
#define LIVE_REACH 16384u
uint32_t live_hold(struct live *l, uint64_t address, uint64_t *bytes);
const struct live_owner *live_owner_of(const struct live *l, uint32_t owner);
/* An op of this depth has ended; to be called when w->deepest > depth. */
void live_op_ended(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint32_t op,
                   uint32_t place);
/* A step of this kind of marks has ended; once another kind counts, the steps of the former one are forgotten. */
void live_step_ended(struct live *l, unsigned source);
/* Brings all owners up to date, and joins to their threads those whose op never ended. */
void live_finish(struct live *l);
void live_free(struct live *l);

#endif
