/* The arena: the memory of one traced process that outlives it.
 *
 * Purpose   One shared, really allocated mapping per process holds rings, counters, open ops and names, so that what a
 *           thread committed is still there after SIGKILL.  The tracer writes it; the flusher drains it into the trace
 *           file; after a death `opgap` (or a sibling) drains the rest.  Because another program reads it, its
 *           layout is a format: offsets and sizes are versioned and asserted here.
 * Threads   Each field names its only writer; everything shared is an atomic with its partner beside it.
 * Ownership The process that created it; after its death whoever takes `recovery_lock`.
 *
 * Regions (byte offsets in the header; each is allocated from its front as it is needed, never sparse):
 *
 *   header | control page | slot blocks | name buckets | names ... | blocks ...
 *
 * A block is one segment, eight short segments, or four thread slots, and of segments it stays what it became.  So the
 * same memory serves a few busy threads, or thousands of quiet ones.  `slot blocks` lists the blocks of slots.
 *
 * A thread's ring is a chain of segments.  Positions are free-running byte counts since the thread began; a segment
 * holds the positions [base, base + data), data being its bytes without its header.
 *
 *        read_pos                        write_pos
 *           v                               v
 *   [ seg 3 | next=7 ] -> [ seg 7 | next=2 ] -> [ seg 2 | next=0 ]
 *     drained, freed        full                  being written
 *
 * Invariants
 *   1. Only the owning thread writes records, `write_pos`, counters and the op stack.
 *   2. read_pos <= write_pos; bytes in between are complete records.
 *   3. A segment is in exactly one chain, or in the free list of its kind, or not yet allocated.
 *   4. The consumer frees a segment only after write_pos has left it.
 *
 * Ordering
 *   A  write_pos: release by the thread after the record's bytes; acquire by the consumer before reading them.
 *   B  segment.next: release by the thread before its write_pos enters the next segment; acquire by the consumer.
 *   C  free_blocks, free_shorts: release by a push; acquire by a pop (tagged against ABA).
 *   D  slot.state: release by the side that hands the slot over; acquire by the side that takes it.
 *   N  slot blocks: a block's place comes before slots_ready (release), that before slots_high (acquire, release),
 *      which whoever looks for slots has acquired.
 *   E  name buckets: release by the thread that publishes an entry; acquire by lookups.
 *   M  `end` against guests' slot states, record/guest.h.
 *   Counters and the op stack are relaxed: each value is exact, no order between them is promised.
 *   tests/model runs small cases under every schedule and every death, and with A, C, D and the drain lock forgotten.
 *   B follows from A there: a consumer goes to a segment only below a write_pos that it has acquired.
 */
#ifndef OPGAP_FORMAT_ARENA_H
#define OPGAP_FORMAT_ARENA_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/control.h"

#define OPGAP_ARENA_MAGIC 0x474e525041475030ull /* "0PGAPRNG" */
/* To be raised with every change of layout: programs of several builds share /dev/shm. */
#define OPGAP_ARENA_VERSION 13u

#define OPGAP_SEGMENT_BYTES (32u * 1024u) /* and of a block */
#define OPGAP_SHORT_SEGMENT_BYTES (4u * 1024u)
#define OPGAP_SHORTS_IN_BLOCK (OPGAP_SEGMENT_BYTES / OPGAP_SHORT_SEGMENT_BYTES)
#define OPGAP_SEGMENT_HEADER 64u
#define OPGAP_SEGMENT_DATA (OPGAP_SEGMENT_BYTES - OPGAP_SEGMENT_HEADER)
#define OPGAP_NAME_BUCKETS 8192u
#define OPGAP_MAX_COUNTERS 64u
#define OPGAP_MAX_DEPTH 60u  /* open ops; those inside so many others are lost, and counted */
#define OPGAP_NAME_MAX 1024u /* longer names are cut */

/* A counted hook's totals on one thread.  Writer: the thread. */
struct opgap_counter {
  uint64_t calls, bytes; /* the pair a hook touches, in one cache line */
};
struct opgap_counter_detail {
  uint64_t failed, timed, time_ticks;
};

/* An op that is open on a thread, in one cache line.  Writer: the thread. */
struct opgap_open_op {
  _Alignas(64) uint64_t start; /* ticks */
  uint64_t tag;                /* the framework's handle, to find the op again at its end */
  uint32_t name, status;
  uint64_t allocs, alloc_bytes, frees; /* the thread's totals at the start */
  uint32_t stack, reserved;
};

/* TAKEN: its new owner fills it in; the consumer looks at it from LIVE on.
 * GUEST: the owner is a forked child that has no session of its own yet (record/guest.h), and alone writes the slot;
 * its pid stands above the state, so that one compare-and-swap takes the slot of this very child. */
enum opgap_slot_state {
  OPGAP_SLOT_FREE,
  OPGAP_SLOT_TAKEN,
  OPGAP_SLOT_LIVE,
  OPGAP_SLOT_DYING,
  OPGAP_SLOT_ENDED,
  OPGAP_SLOT_GUEST
};
#define OPGAP_SLOT_GUEST_OF(pid) (OPGAP_SLOT_GUEST | (uint32_t)(pid) << 8)
#define OPGAP_SLOT_IS_GUEST(state) (((state)&0xff) == OPGAP_SLOT_GUEST)
#define OPGAP_SLOT_GUEST_PID(state) ((int32_t)((state) >> 8))

/* One thread. */
struct opgap_thread {
  _Atomic uint32_t state; /* enum opgap_slot_state, and a guest's pid; ordering D */
  uint32_t serial;        /* stream serial in the trace file, unique in the process */
  _Atomic int32_t tid;    /* written when the slot is taken, while others look for theirs */
  int32_t creator_tid;
  union {
    uint64_t pthread;          /* pthread_self(); CUPTI names threads by it */
    uint64_t guest_start_time; /* of a guest that is about to begin its session: field 22 of /proc/PID/stat; else 0 */
  };
  char name[16];
  uint64_t lost_start;                     /* of a loss that is not announced yet (writer: the thread) */
  _Alignas(64) _Atomic uint64_t write_pos; /* ordering A */
  _Atomic uint32_t first_segment;          /* place of the first segment, 0: none yet; ordering B */
  uint32_t depth;                          /* open ops */
  _Atomic uint64_t lost;                   /* records that found no room (writer: the thread) */
  _Atomic uint64_t nested;                 /* calls passed through: a handler interrupted a hook (writer: the thread) */
  /* the blocking call that the thread is in; event 0: none */
  uint32_t call_event;
  uint32_t op_window; /* opgap_window() when the thread began its latest op, 0: none (writer: the thread) */
  uint64_t call_start, call_object;
  _Atomic uint64_t too_deep;              /* ops inside OPGAP_MAX_DEPTH others (writer: the thread) */
  _Alignas(64) _Atomic uint64_t read_pos; /* writer: the consumer */
  uint32_t consumer_segment;              /* place of the segment with read_pos; writer: the consumer */
  uint32_t kind;                          /* enum opgap_stream_kind; THREAD's times are ticks, the others' are ns */
  uint64_t written_changes[OPGAP_MAX_COUNTERS]; /* calls + failed + timed as last written; writer: the consumer */
  _Alignas(64) struct opgap_counter counters[OPGAP_MAX_COUNTERS];
  struct opgap_counter_detail details[OPGAP_MAX_COUNTERS];
  struct opgap_open_op ops[OPGAP_MAX_DEPTH];
};
#define OPGAP_SLOT_BYTES 8192u
#define OPGAP_SLOT_LIMIT 4096u /* the most that a ring of any size has */
#define OPGAP_SLOTS_IN_BLOCK (OPGAP_SEGMENT_BYTES / OPGAP_SLOT_BYTES)
#define OPGAP_SLOT_BLOCKS_BYTES (OPGAP_SLOT_LIMIT / OPGAP_SLOTS_IN_BLOCK * 4u)
static_assert(sizeof(struct opgap_thread) <= OPGAP_SLOT_BYTES, "thread slot");
static_assert(OPGAP_MAX_DEPTH <= UINT8_MAX, "a record's first word has a byte for the depth");

/* Segments are named by their place: 1 + the number of the short segment that begins where they do; 0: none. */
struct opgap_segment {
  _Atomic uint32_t next; /* place of the next segment of the chain or of the free list; ordering B, C */
  uint32_t serial;       /* of the owning thread */
  uint64_t base;         /* position of data[0] */
  uint32_t ticks_high;   /* upper half of the ticks of its short records */
  uint32_t bytes;        /* OPGAP_SEGMENT_BYTES or OPGAP_SHORT_SEGMENT_BYTES */
  uint8_t reserved[OPGAP_SEGMENT_HEADER - 24];
  uint64_t data[OPGAP_SEGMENT_DATA / 8]; /* of a short one its beginning */
};
static_assert(sizeof(struct opgap_segment) == OPGAP_SEGMENT_BYTES, "segment");

/* An interned name; its id is its offset in the name region divided by 8. */
struct opgap_name {
  uint32_t next; /* id of the next entry of the bucket */
  uint32_t hash;
  uint32_t length;
  char bytes[]; /* length bytes and a NUL */
};

/* (ticks, CLOCK_MONOTONIC ns) taken together */
struct opgap_anchor {
  uint64_t ticks, ns;
};

/* DOZES: it wakes by itself before long, so it is woken when much is waiting.  ASLEEP: it has no timer and takes no
 * samples, so it is woken at once.  AWAKE: also when it was woken and has not run yet. */
enum opgap_flusher_sleep { OPGAP_FLUSHER_AWAKE, OPGAP_FLUSHER_ASLEEP, OPGAP_FLUSHER_DOZES };

/* EXEC: about to execute, which may fail.  REPLACED: the next image has seen the ring; writer: that image. */
enum opgap_arena_end { OPGAP_ARENA_RUNNING, OPGAP_ARENA_CLEAN, OPGAP_ARENA_EXEC, OPGAP_ARENA_REPLACED };

struct opgap_arena {
  uint64_t magic;
  uint32_t version, header_bytes;
  uint64_t size; /* of the address range */
  uint32_t names_offset, names_size, buckets_offset, slot_blocks_offset, slot_limit, blocks_offset, block_limit;
  uint32_t crowd; /* slots in use from which on rings are made of short segments */
  int32_t pid;
  uint64_t pid_namespace; /* inode of /proc/self/ns/pid: pid means nothing in another one; 0: unknown */
  uint64_t root_folder;   /* opgap_root_folder: trace_file means nothing under another root or mounts; 0: unknown */
  uint32_t ticks_are_tsc; /* else ticks are CLOCK_MONOTONIC ns */
  uint64_t start_time;    /* field 22 of /proc/PID/stat */
  char boot_id[40];
  char trace_file[1024];                         /* absolute path of the process's trace file */
  char ring_file[256];                           /* absolute path of this arena's file; "" for private memory */
  struct opgap_anchor first_anchor, last_anchor; /* writer: the consumer */
  _Atomic uint32_t end;                          /* enum opgap_arena_end */
  uint64_t end_ticks; /* when the process said so, if it could not write it; 0: unknown.  Before `end` */
  int32_t exit_status;
  uint32_t counter_count;
  uint16_t counter_events[OPGAP_MAX_COUNTERS]; /* event id of each counter */
  _Atomic uint32_t recovery_lock;              /* pid of who drains after the death */
  _Atomic uint32_t next_serial;
  _Alignas(64) _Atomic uint64_t free_blocks; /* tag << 32 | place; ordering C */
  _Atomic uint64_t free_shorts;              /* likewise */
  _Atomic uint32_t blocks_used;              /* blocks ever taken from the front */
  _Atomic uint32_t blocks_ready;             /* blocks whose memory is allocated */
  _Atomic uint32_t slots_ready, slots_high;  /* slots allocated; slots ever used */
  _Atomic uint32_t names_used, names_ready;  /* bytes */
  _Atomic uint64_t names_lost;
  _Atomic uint64_t threads_lost; /* threads that found no slot */
  /* children that could not write to the trace, which their parent did not know; writer: each of them */
  _Atomic uint32_t untraced_children;
  _Atomic uint32_t threads_confined; /* of threads_lost those that began below a filter of system calls */
  _Atomic uint32_t dying;            /* slots to give back since the consumer last looked */
  _Atomic uint32_t flusher_sleeps;   /* enum opgap_flusher_sleep; futex, shared */
  /* the account of whoever drained: flusher_cpu_ns is the CPU time of all of them */
  uint64_t records, invalid_records, raw_bytes, stored_bytes, flusher_cpu_ns, chunk_sequence;
  /* lost records: all of the slots that were given back, and of these the ones by cause, as in the slot; and those that
   * were committed and found no room in the file */
  uint64_t ended_lost, ended_nested, ended_too_deep, unwritten;
  /* both clocks when a tool first found the process dead: later ones use it, too, so that all see the same times; ns 0:
   * none did.  Writer: who holds recovery_lock. */
  struct opgap_anchor death_anchor;
  uint64_t end_sequence; /* chunk_sequence when the end was written: a chunk after it makes it void */
  char stopped[64];      /* why the process stopped writing before its end; "": it did not */
};
#define OPGAP_ARENA_HEADER_BYTES 4096u
static_assert(sizeof(struct opgap_arena) <= OPGAP_ARENA_HEADER_BYTES, "arena header");

/* Ring records: 64-bit words.
 *   word 0   event (16) | words (8) | depth (8) | status (32)
 *   word 1   time in ticks (an instant) or start (a span)
 *   word 2   end (spans only)
 *   then the fields of the event in the order of its schema row.
 * Event 0 is padding up to the end of the segment; its status is the number of words skipped, itself included.
 *
 * A short record has two words for a hook's four or five, because what a record costs most is the ring's cache lines:
 *   word 0   event (16) | words = 2 (8) | depth (8) | lower half of its time in ticks (32)
 *   word 1   object (48) | value (16)
 * Status 0; a span's start and end are that time, whose upper half is the segment's.
 *
 * An op or a range that fits has struct opgap_short_op, half a cache line, for nine words. */
#define OPGAP_SHORT_WORDS 2u
#define OPGAP_SHORT_OBJECT_BITS 48
#define OPGAP_WORD0(event, words, depth, status)                                                                       \
  ((uint64_t)(event) | (uint64_t)(words) << 16 | (uint64_t)(depth) << 24 | (uint64_t)(status) << 32)

struct __attribute__((may_alias, aligned(8))) opgap_short_op {
  uint32_t head;   /* event, words = OPGAP_SHORT_OP_WORDS and depth, as in word 0 */
  uint32_t end;    /* in ticks, the lower half; the upper one is the segment's */
  uint32_t length; /* in ticks */
  uint32_t name;
  int32_t sequence;
  uint32_t stack;
  uint32_t alloc_bytes;
  uint32_t counts; /* allocs (14) | frees (14) | status (4) */
};
#define OPGAP_SHORT_OP_WORDS 4u
static_assert(sizeof(struct opgap_short_op) == 8 * OPGAP_SHORT_OP_WORDS, "a short op");
#define OPGAP_SHORT_COUNT_BITS 14
#define OPGAP_SHORT_STATUS_SHIFT (2 * OPGAP_SHORT_COUNT_BITS)
static inline uint32_t opgap_short_counts(uint64_t allocs, uint64_t frees, uint32_t status)
{
  return (uint32_t)allocs | (uint32_t)frees << OPGAP_SHORT_COUNT_BITS | status << OPGAP_SHORT_STATUS_SHIFT;
}
/* 0: it fits.  64-bit values, so that what is too large is seen. */
static inline uint64_t opgap_op_excess(uint64_t length, uint64_t alloc_bytes, uint64_t allocs, uint64_t frees,
                                       uint32_t status, uint64_t sequence)
{
  return (length | alloc_bytes) >> 32 | (allocs | frees) >> OPGAP_SHORT_COUNT_BITS |
         status >> (32 - OPGAP_SHORT_STATUS_SHIFT) | (sequence ^ (uint64_t)(int32_t)sequence);
}

static inline struct opgap_control *opgap_arena_control(struct opgap_arena *arena)
{
  return (struct opgap_control *)((char *)arena + OPGAP_ARENA_HEADER_BYTES);
}
static inline struct opgap_segment *opgap_arena_segment(struct opgap_arena *arena, uint32_t place)
{
  return (struct opgap_segment *)((char *)arena + arena->blocks_offset +
                                  (uint64_t)(place - 1) * OPGAP_SHORT_SEGMENT_BYTES);
}
/* Place of the block with the slots [4 n, 4 n + 4), 0: none yet.  Set once, before slots_ready counts them. */
static inline _Atomic uint32_t *opgap_arena_slot_block(struct opgap_arena *arena, uint32_t n)
{
  return (_Atomic uint32_t *)((char *)arena + arena->slot_blocks_offset) + n;
}
static inline struct opgap_thread *opgap_arena_slot(struct opgap_arena *arena, uint32_t index)
{
  uint32_t block =
      atomic_load_explicit(opgap_arena_slot_block(arena, index / OPGAP_SLOTS_IN_BLOCK), memory_order_relaxed);
  return (struct opgap_thread *)((char *)opgap_arena_segment(arena, block) +
                                 (uint64_t)(index % OPGAP_SLOTS_IN_BLOCK) * OPGAP_SLOT_BYTES);
}
/* Lets a block or a short segment, or a chain of them from `first` to `last`, go to the free list. */
static inline void opgap_arena_push(struct opgap_arena *arena, _Atomic uint64_t *list, uint32_t first, uint32_t last)
{
  uint64_t old = atomic_load_explicit(list, memory_order_relaxed), replacement;
  do {
    atomic_store_explicit(&opgap_arena_segment(arena, last)->next, (uint32_t)old, memory_order_relaxed);
    replacement = ((old >> 32) + 1) << 32 | first;
  } while (!atomic_compare_exchange_weak_explicit(list, &old, replacement, memory_order_release,
                                                  memory_order_relaxed)); /* C */
}
static inline struct opgap_name *opgap_arena_name(struct opgap_arena *arena, uint32_t id)
{
  return (struct opgap_name *)((char *)arena + arena->names_offset + (uint64_t)id * 8);
}

#endif
