/* A forked child before its session: the guest of its parent's.
 *
 * Purpose   Shells fork for every program that they run.  Such a child closes and copies descriptors, allocates a
 *           little and executes; a session, some 0.5 ms, would be all for nothing.  So a child begins its session with
 *           the first call that is more than that.  Until then it counts in a slot of its parent's arena, which it
 *           shares, and writes its closes into a segment there: what it did is as safe from a kill as anything else.
 * Ends      1. The session begins: slot and records move there (opgap_guest_move), times and all, before its file has
 *              a schema; then the guest's slot is given back.  A kill in between leaves both: the file decides
 *              (opgap_guest_moved), so nothing is missing and nothing twice.
 *           2. It executes a program that will be traced: what it had is dropped, as a vfork child's is.  If that
 *              fails, it goes on with a copy of it.
 *           3. It exits: what it counted is worth a session; nothing leaves nothing.
 *           4. It has counted for long: what works on, wants the short way of counting, and to be seen.
 *           5. It is killed: the parent's consumer takes the slot over as a stream of the parent (drain.c).
 *           The parent's ring is not removed while it has guests.
 * Threads   A guest's only thread.  Who is a guest has no cell: every hook but those of opgap_self_counting takes the
 *           slow path and begins the session.
 * Ordering  D of arena.h hands the slot over.  M: the parent, or its next image, stores `end`, then looks for guests; a
 *           guest takes its slot or gives it back, then looks at `end` (seq_cst): one of the two sees the other.  So
 *           none stays in a ring that has been removed, and the last one removes a ring that was left for it.
 */
#ifndef OPGAP_RECORD_GUEST_H
#define OPGAP_RECORD_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opgap_arena;
struct opgap_cell;
struct opgap_thread;

/* So many calls of opgap_self_counting make a guest. */
#define OPGAP_GUEST_CALLS 512u

/* A session has begun in this process: children may be its guests. */
void opgap_guest_host(struct opgap_arena *arena);
/* This process, a child, is nobody's guest. */
void opgap_guest_refuse(void);
/* The guest's slot; NULL: this process is none, and cannot become one. */
struct opgap_thread *opgap_guest_begin(void);
/* The same, but that none is taken. */
struct opgap_thread *opgap_guest_slot(void);
/* Is this process one, or could it be: has it done nothing yet that begins a session? */
bool opgap_guest_is(void);
/* Interns in the parent's arena, for the object of a record; 0: no room, or not a guest. */
uint32_t opgap_guest_intern(const char *bytes, size_t length);
/* Is there room for a record of a span? */
bool opgap_guest_has_room(void);
void opgap_guest_span(unsigned event, uint64_t start, uint64_t end, uint64_t object, uint32_t status);
/* The session begins, with a file that is not there yet. */
void opgap_guest_begins(uint64_t start_time);
/* The slot that the guest's thread has in its own session, for that thread to take; NULL: none. */
struct opgap_thread *opgap_guest_moved_to(int tid, uint32_t *index);
/* Moves what a guest has into a slot of its own session that is not live yet, and records into the cell's ring. */
void opgap_guest_move(struct opgap_thread *slot, struct opgap_cell *cell);
/* Gives the slot back. */
void opgap_guest_leave(void);
/* Before exec: gives the slot back and keeps a copy.  False: there is too much for one; the guest stays. */
bool opgap_guest_depart(void);
/* The process ends: if it has counted anything its session begins, else the slot is given back. */
void opgap_guest_end(void);

#endif
