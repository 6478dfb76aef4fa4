/* What the files of src/record share.  Not for hooks or bindings.
 *
 * Two kinds of state:
 *   opgap_config  set once by the constructor and the session's beginning, constant after, inherited by forked children
 *   opgap_state   one session; lies in memory that fork wipes, so a child finds phase NONE and starts its own
 */
#ifndef OPGAP_RECORD_INTERNAL_H
#define OPGAP_RECORD_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/arena.h"
#include "format/drain.h"
#include "record/record.h"
#include "record/session.h"
#include "record/settings.h"

enum opgap_phase { OPGAP_PHASE_NONE, OPGAP_PHASE_STARTING, OPGAP_PHASE_RUNNING, OPGAP_PHASE_ENDED, OPGAP_PHASE_FAILED };

enum opgap_flusher { OPGAP_FLUSHER_NONE, OPGAP_FLUSHER_RUNS, OPGAP_FLUSHER_STOPS };

/* What a process that records nothing writes comes first: record/early.h. */
struct opgap_config {
  const char *program; /* argv[0]; NULL: none.  The program may write there */
  const struct opgap_event *(*hook_events)(unsigned *count);
  const struct opgap_event *hooks; /* NULL until a session begins */
  unsigned hook_count;
  const uint16_t *counter_events;
  unsigned counter_count;
  /* counters [0, alloc_end) make up an op's allocations, [alloc_end, free_end) its frees */
  unsigned alloc_end, free_end;
  bool first;           /* of the trace's processes; its forked children have this from it, as the next */
  bool made_folder;     /* of the trace, not `opgap record` */
  bool no_tsc;          /* a test wants the other clock */
  uint32_t page_bytes;  /* of memory; a test may set another size before the session begins */
  char *stack_top;      /* an address near the bottom of the main thread's stack */
  uint32_t groups;      /* what opgap_active is while recording */
  int32_t loader_pid;   /* of the process that loaded the tracer; others are forked from it */
  uint64_t root_folder; /* opgap_root_folder when the first session of this image began; 0: none did, or unknown */
  char folder[1024];    /* absolute */
  struct opgap_settings settings;
  char host[65], boot_id[40], kernel[65];
  char cpu[52]; /* "" but in the trace's first process and its forked children */
};

/* This process as the guest of its parent's session (guest.h). */
struct opgap_guest {
  const struct opgap_thread *from; /* what it has counted: its slot, or a copy that it took along; NULL: nothing */
  struct opgap_thread *slot;       /* in the parent's arena, NULL: none */
  struct opgap_arena *arena;
  struct opgap_cell cell;     /* of its records */
  struct opgap_anchor anchor; /* when it came */
  uint32_t calls;
  uint32_t moved_index;
  struct opgap_thread *moved; /* its thread's slot in its own session, until the thread takes it; NULL: none */
};

struct opgap_state {
  _Atomic uint32_t phase;
  int32_t pid;
  struct opgap_arena *arena;
  struct opgap_consumer *consumer;
  struct opgap_thread *process_stream, *gpu_stream; /* written by the consumer only */
  struct opgap_cell *gpu_cell;
  _Atomic uint32_t drain_lock; /* tid of the consumer, 0: nobody; futex */
  _Atomic uint32_t flusher;    /* enum opgap_flusher */
  _Atomic uint32_t filled;     /* short segments, since the flusher's round began; ordering F of flusher.c */
  _Atomic uint32_t live;       /* threads with a slot that have not begun to end */
  uint64_t file_bytes;         /* of the trace, as we left it */
  uint32_t last_chunk_bytes;   /* of the file's last chunk if that holds records, else 0 */
  uint32_t last_chunk_records;
  uint32_t part; /* parts begun after the first (keep.h) */
  int part_file; /* descriptor + 1 of a part that is being begun, 0: none */
  bool file_created;
  int first_fd; /* + 1: of the trace while its head is written, within one hook; 0: none */
  /* By who has the drain lock; the flusher looks at them without it, to know whether it may sleep.
   * write_failed: writing has stopped for good: what is in the rings stays there until the end.
   * out_of_reach: the program may not, or cannot, open its file any more: the ring stays; asked anew at the end. */
  _Atomic uint32_t write_failed, out_of_reach; /* bool */
  bool discard;                                /* the sink counts what could not be written */
  bool last_words;                             /* the END chunk may use the room kept for it */
  char ring_name[256];                         /* of the ring file while it has another for exec; else "" */
  struct opgap_guest guest;
};

/* The program has given itself a filter of system calls (seccomp), which may kill it for one that it does not make
 * itself: the tracer makes none, but from its own threads.  A forked child inherits both. */
extern bool opgap_confined;

extern struct opgap_config opgap_config;
extern struct opgap_state *opgap_state;
extern struct opgap_cell opgap_tool_cell;    /* the cell of whoever works for the tracer: hooks pass through */
extern struct opgap_cell opgap_flusher_cell; /* the flusher's: likewise, and tells that its descriptors may be used */
extern struct opgap_cell *opgap_cells;       /* one a slot, wiped by fork */

/* Allocates memory of the arena for real: [offset, offset + bytes).  False: no room. */
bool opgap_arena_grow(struct opgap_arena *arena, uint64_t offset, uint64_t bytes);
bool opgap_grow_blocks(struct opgap_arena *arena, uint32_t count);
/* Makes slots of one more block. */
bool opgap_grow_slots(struct opgap_arena *arena);

/* opgap_intern in the arena of another process, which this one is a guest of. */
uint32_t opgap_intern_in(struct opgap_arena *arena, const char *bytes, size_t length);

/* Starts a session in this process, by one thread of it; true when it records.  In the constructor, or in the first
 * hook of a forked child or of a process whose session waits for one. */
bool opgap_session_begin(void);
/* In a forked child without a session: gives up the memory that fork wiped, with the state in it, to whoever holds
 * pointers there; the session begins in other memory.  arena: what the old state is to name. */
void opgap_state_leave(struct opgap_arena *arena);
/* Does nothing need the session at once, so that it may begin with what there is to record? */
bool opgap_session_can_wait(void);

/* Takes a free slot (state TAKEN), or NULL. */
struct opgap_thread *opgap_slot_claim(struct opgap_arena *arena, uint32_t *index);
/* Takes a block or a segment (first: the first one of its thread): its place; 0: there is no room. */
uint32_t opgap_block_take(struct opgap_arena *arena);
uint32_t opgap_segment_take(struct opgap_arena *arena, bool first);
/* Records go to this segment from now on; its base and bytes are set. */
static inline void opgap_cell_enter(struct opgap_cell *cell, struct opgap_segment *segment)
{
  cell->segment = segment;
  cell->write = segment->data;
  cell->limit = segment->data + (segment->bytes - OPGAP_SEGMENT_HEADER) / 8;
  cell->bias = segment->base - (uint64_t)(uintptr_t)segment->data;
}
/* Takes a free slot for a stream of this session. */
struct opgap_thread *opgap_slot_take(uint32_t kind, int tid, uint32_t *index);
void opgap_slot_release(uint32_t index);
bool opgap_thread_is_gone(int tid);
/* Is it on its way out, whatever keeps it there?  A thread that has been joined is, and is in /proc for a moment more;
 * the process's first one is there to the end. */
bool opgap_thread_is_leaving(int tid);

/* The drain lock: false when this very thread holds it (a handler interrupted a drain) or after `patience_ns`. */
bool opgap_drain_enter(uint64_t patience_ns);
void opgap_drain_leave(void);
/* Drains by the calling thread, which holds the lock. */
long opgap_drain_now(enum opgap_drain_mode mode);
/* A producer has filled a segment, as long as so many short ones, or found no other (0): wakes the flusher, or drains
 * itself when there is none, if enough is waiting. */
void opgap_segment_filled(struct opgap_thread *thread, uint32_t shorts);
/* Descriptors in the flusher's own table; -1 on any other thread, where the same numbers mean the program's files. */
int opgap_flusher_ring_fd(void);
int opgap_trace_append(void *context, const void *bytes, size_t size);
/* Shortens the trace file.  False: it cannot. */
bool opgap_trace_cut(uint64_t bytes);

/* Field 22 of /proc/PID/stat, and the parent's pid; 0: there is no such process, or it has ended.  pid 0: this one. */
uint64_t opgap_process_start_time(int pid, int *parent);
/* May the tracer map so many bytes more (RLIMIT_AS)? */
bool opgap_room_for(uint64_t bytes);

/* Text building without stdio.  A full buffer cuts. */
struct opgap_text {
  char *at, *end; /* end: last byte, kept for the NUL */
};
void opgap_text_string(struct opgap_text *text, const char *string);
void opgap_text_number(struct opgap_text *text, uint64_t number, unsigned base);
/* The other way: takes blanks and the decimal number behind them off a text; 0: there is none. */
uint64_t opgap_take_number(const char **text);

#endif
