/* The consumer: moves what threads committed from an arena into chunks of a trace file.
 *
 * Context   The flusher, a thread that drains at its own exec or exit, a later program that recovers the arena of a
 *           dead process.  One consumer an arena at a time.  No allocation after init, no errno, no libc state.
 * Ownership Whoever maps the scratch memory: opgap_consumer_bytes() bytes, zeroed or used by a consumer before.
 *
 * Nothing twice: a chunk names the ring position behind its last record, and the ring's read_pos moves after the
 * chunk is written.  If the consumer dies in between, recovery skips what the file already holds.
 */
#ifndef OPGAP_FORMAT_DRAIN_H
#define OPGAP_FORMAT_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/arena.h"
#include "format/encode.h"

/* Appends bytes to the trace; 0 or -errno.  Must write all or leave the file as it was. */
typedef int (*opgap_sink)(void *context, const void *bytes, size_t size);

struct opgap_consumer;

size_t opgap_consumer_bytes(void);
/* Prepares scratch memory for an arena.  hooks: the hook rows of the schema. */
struct opgap_consumer *opgap_consumer_init(void *memory, struct opgap_arena *arena, const struct opgap_event *hooks,
                                           unsigned hook_count, opgap_sink sink, void *sink_context);

/* Writes the SCHEMA chunk alone: for a file whose tracer died before it did. */
int opgap_consumer_schema(struct opgap_consumer *consumer);
/* Writes the file header, the INFO and the SCHEMA chunk.  pairs: encoded by opgap_encode_pair. */
int opgap_consumer_begin(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes);

enum opgap_drain_mode {
  OPGAP_DRAIN_READY, /* what is there; counters of threads that have records or have ended */
  OPGAP_DRAIN_ALL,   /* also all counters */
  OPGAP_DRAIN_DEAD,  /* the process is dead: also what its threads were in the middle of */
};
/* Drains every thread up to what it had committed when the call began.  `clock` is asked for an anchor after that, so
 * every record lies between two anchors and the time line has no seams.  Returns the number of records written;
 * negative: the sink failed, nothing is lost from the rings. */
long opgap_consumer_drain(struct opgap_consumer *consumer, struct opgap_anchor (*clock)(const struct opgap_arena *),
                          enum opgap_drain_mode mode);
/* Begins another part of the trace, in place of the one so far: header, INFO and SCHEMA, then for each live stream a
 * chunk with its place in its ring, its start and its counters as of the last anchor, and what `more` puts into
 * words[room] (ring words; returns their number).  Right after a drain. */
int opgap_consumer_part(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes,
                        size_t (*more)(const struct opgap_thread *slot, uint64_t *words, size_t room));
/* What the arena's account of the trace is, and was: for a part that could not be written. */
struct opgap_account {
  uint64_t records, raw_bytes, stored_bytes, chunk_sequence;
};
struct opgap_account opgap_consumer_account(const struct opgap_arena *arena);
void opgap_consumer_restore(struct opgap_arena *arena, struct opgap_account account);
/* Appends a further INFO chunk: what is known only later.  pairs: encoded by opgap_encode_pair. */
int opgap_consumer_info(struct opgap_consumer *consumer, const uint8_t *pairs, size_t pairs_bytes);
/* Writes the END chunk. */
int opgap_consumer_end(struct opgap_consumer *consumer, const char *how, int exit_status);

/* Skips what the file holds already: the highest position of a stream's chunks.  Before the first drain. */
void opgap_consumer_skip(struct opgap_consumer *consumer, uint32_t serial, uint64_t position);
/* Is the kernel thread gone?  Set by the tracer; recovery knows that all are. */
void opgap_consumer_set_gone(struct opgap_consumer *consumer, bool (*gone)(int tid));
/* Is the process gone, so that what it left as a guest is this trace's?  Set by the tracer; without it guests are left
 * alone until the process of the arena is dead, too. */
void opgap_consumer_set_process_gone(struct opgap_consumer *consumer, bool (*gone)(int pid));
/* Had a guest that is gone begun its session, so that what it left is in that one's file?  Set by whoever can look. */
void opgap_consumer_set_guest_moved(struct opgap_consumer *consumer,
                                    bool (*moved)(const struct opgap_arena *host, int pid, uint64_t start_time));
/* Called with the slot index before the slot becomes free. */
void opgap_consumer_set_release(struct opgap_consumer *consumer, void (*release)(uint32_t slot));
/* Gives a slot and its segments back.  By the consumer, or by a guest. */
void opgap_slot_give_back(struct opgap_arena *arena, struct opgap_thread *slot);
/* Is a child a guest here for which alive(pid) holds?  NULL: any. */
bool opgap_arena_has_guest(struct opgap_arena *arena, bool (*alive)(int pid));
/* Of a process that has ended or executes: has everything been written that was committed, and the end last?  Not so if
 * a thread, or a signal handler, went on until then; what it committed may have been written behind the end. */
bool opgap_arena_is_drained(struct opgap_arena *arena);
/* May the ring be removed, by the process pid?  Yes for one caller, once the process has ended or executed another
 * program, its guests have gone and the file has everything.  Ordering M of record/guest.h: after a fence. */
bool opgap_arena_take_over(struct opgap_arena *arena, int pid);
/* How the process of an arena ended, in the END chunk's words. */
const char *opgap_arena_ended(struct opgap_arena *arena);
/* Checks an arena's header and regions against the size of its file; the reason or NULL. */
const char *opgap_arena_check(const struct opgap_arena *arena, uint64_t file_size);

#endif
