/* Taking over what a dead process left in its arena.
 *
 * Threads   One caller an arena: `recovery_lock` of the arena holds the pid of the one that works.
 * Context   Offline tools; and the tracer's constructor for the former image of its own process (exec).  No allocation
 *           from the heap, no standard I/O.
 */
#ifndef OPGAP_FORMAT_RECOVER_H
#define OPGAP_FORMAT_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/drain.h"

/* Folds a ring file into its trace file and removes it.  The caller knows that its process is gone or has become the
 * caller (exec).  0 or -1: left alone (not a ring, not ours, taken by another, trace not writable). */
int opgap_recover_ring(const char *ring_path);

/* The same, if it is the ring that the caller's own process left when it executed this program. */
int opgap_recover_former_image(const char *ring_path);

/* Folds every orphan ring of a trace folder, and removes orphan rings whose trace is gone (judged
 * under the same root folder and mounts only); returns how many it folded.
 * What cannot be written is left alone: opgap_trace_open reads such rings in memory. */
int opgap_trace_recover(const char *trace);

/* How many rings of dead processes of a trace could not be folded; one of their paths goes to path[size]. */
int opgap_trace_left(const char *trace, char *path, size_t size);

/* Calls visit for each live process of a trace folder whose ring can be written: its arena, shared with the process,
 * and a descriptor of the ring file, both until visit returns.  Returns their number. */
int opgap_trace_each_ring(const char *trace, void (*visit)(void *context, struct opgap_arena *arena, int fd),
                          void *context);

/* Had a guest of host's, the process pid that began at start_time, begun its session before it died?  The schema chunk
 * of its file decides: what the guest had counted lies in the session's ring before that is written (session.c). */
bool opgap_guest_moved(const struct opgap_arena *host, int pid, uint64_t start_time);

/* Is the process of an arena alive?  Judged by its start time; a process of another pid namespace cannot be judged and
 * counts as alive. */
bool opgap_arena_alive(const struct opgap_arena *arena);
/* Inode of the caller's pid namespace, 0 when unknown. */
uint64_t opgap_pid_namespace(void);
/* What paths mean for the caller: a hash of the folder that "/" is (chroot, containers) and of its mount namespace
 * (unshare, PrivateTmp); 0 when unknown. */
uint64_t opgap_root_folder(void);

/* May a file of this process grow to so many bytes (RLIMIT_FSIZE)?  To be asked before a write: SIGXFSZ would kill the
 * program. */
bool opgap_within_file_limit(uint64_t end);

/* An anchor for draining an arena from outside: that of its process's death when a tool has seen it, else both clocks
 * now on the boot of the arena, else its last anchor. */
struct opgap_anchor opgap_recover_anchor(const struct opgap_arena *arena);

/* The walk over a trace file's bytes that reader and recovery share.  Calls visit for each sound chunk, in order;
 * payload has header->stored_bytes bytes.  Returns the offset behind the last sound chunk.  damaged, if not NULL, is
 * told each unreadable stretch [from, to).  data, if not NULL, narrows [*from, *to) to its first part that is not a
 * hole of the file: a chunk is looked for there alone. */
struct opgap_chunk_header;
uint64_t opgap_walk_chunks(const uint8_t *bytes, uint64_t size, uint64_t from,
                           void (*visit)(void *context, const struct opgap_chunk_header *header,
                                         const uint8_t *payload),
                           void (*damaged)(void *context, uint64_t from, uint64_t to),
                           void (*data)(void *context, uint64_t *from, uint64_t *to), void *context);
/* Narrows [*from, *to) of a file to its first part that is not a hole; *from becomes *to where all of it is one,
 * nothing changes where the file system does not tell. */
void opgap_find_data(int fd, uint64_t *from, uint64_t *to);

/* Decodes a SCHEMA payload into rows[max] by position; strings go to text[text_size].  Returns the number of rows; a
 * malformed table ends early. */
unsigned opgap_schema_decode(const uint8_t *payload, size_t size, struct opgap_event *rows, unsigned max, char *text,
                             size_t text_size);

bool opgap_get_long_varint(const uint8_t **at, const uint8_t *end, uint64_t *value);
/* Reads a varint; false at the end of the bytes or when it is longer than 64 bits. */
static inline bool opgap_get_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
  if (*at < end && **at < 128) { /* most have one byte */
    *value = *(*at)++;
    return true;
  }
  return opgap_get_long_varint(at, end, value);
}

#endif
