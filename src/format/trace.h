/* What the reader knows of a trace, shared by its parts:
 *
 *   reader.c    a trace: its folder, the clocks of its hosts, and what reader.h says of it
 *   process.c   a process file: mapping it, file and ring together, taking up what is new
 *   chunks.c    the chunks of a file or of what a ring gave: where each stream's records are
 *   ring.c      what the ring of a process adds that is alive or was killed, and taking that back
 *   names.c     names of a process
 *   cursor.c    decoding the records of a stream
 *
 * Threads     Opening, refreshing and closing: one, and no cursor is open.  Cursors on several threads share names,
 *             `invalid` and `touched`; all else is constant for them.
 * Ownership   A process owns all that hangs on it until process_free.
 * Errors      Functions with error[size] write one line there when they fail.  Damage is listed and passed over.
 */
#ifndef OPGAP_FORMAT_TRACE_H
#define OPGAP_FORMAT_TRACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "format/reader.h"
#include "format/trace_format.h"

#define NAME_PAGE 1024u
#define NAME_PAGES 4096u /* ids up to 4 M: an arena's name table cannot have more */

struct name {
  const char *bytes;
  uint32_t length;
};

struct stream {
  const uint8_t **chunks; /* payloads, each behind its header: a pointer is all that is kept of a chunk */
  size_t count, capacity;
  uint64_t position; /* in its ring, behind the last record that the file holds */
};

struct pair {
  char *key, *value;
};

struct block { /* memory that lives as long as its process */
  struct block *next;
  char bytes[];
};

/* A part of the file; the first one begins with the file, others where the one before became stale. */
struct mapping {
  struct mapping *next;
  uint8_t *bytes;
  uint64_t offset, size;
  uint64_t last_ns; /* of its chunks */
  int fd;           /* of the file while it is read, as only that tells of holes; else -1 */
};

/* What is damaged, in the order in which it was found. */
struct damage {
  struct damage_part {
    char *text;        /* NULL: bytes of a file: */
    uint64_t from, to; /* [from, to) */
    uint64_t holes;    /* of them nowhere on the disk */
  } * parts;
  unsigned count;
  char *told; /* all parts as one line; NULL: not asked since it changed */
};

/* What is known of a process from its file alone, so that what its ring added can be taken back. */
struct file_state {
  struct opgap_process_info info;
  struct opgap_stream_info *stream_infos; /* [info.stream_count] */
  size_t *chunk_counts;                   /* the same */
  size_t pair_count;
  unsigned damage_count;
  uint32_t last_sequence, missing_chunks;
  bool end_seen, goes_on;
};

struct process {
  struct opgap_process_info info;
  char *path;
  struct mapping *mappings; /* the newest first */
  struct mapping *older;    /* the part before the file; NULL: none */
  uid_t owner;              /* of the file */
  ino_t inode, older_inode;
  uint64_t file_size, older_size; /* when they were mapped last */
  uint64_t sound;                 /* offset behind the last chunk taken from the file */
  uint8_t *tail;                  /* chunks drained from the process's ring, in memory */
  size_t tail_size, tail_capacity;
  bool in_tail;    /* being read now */
  bool tells_loss; /* OPGAP_FILE_TELLS_LOSS */
  struct file_state file_state;
  struct pair *pairs;
  size_t pair_count;
  struct opgap_event rows[OPGAP_MAX_EVENTS];
  const struct opgap_event *events[OPGAP_MAX_EVENTS];
  unsigned row_count;
  struct stream *streams;
  struct opgap_stream_info *stream_infos;
  uint32_t last_sequence, missing_chunks;
  bool end_seen;
  uint64_t shift_ns; /* from its clock to the trace's */
  bool header_damaged;
  bool torn;     /* the process wrote to its file while file and ring were read */
  bool replaced; /* the path is another part's now */
  _Atomic(_Atomic(struct name *) *) names[NAME_PAGES];
  _Atomic uint64_t invalid;
  _Atomic uint64_t touched; /* bytes of the file read since its pages were last given back */
  uint64_t touched_most;    /* then they are given back */
  pthread_mutex_t lock;     /* blocks, and who adds a name */
  struct block *blocks, *tail_blocks;
  struct damage damage;
};

struct opgap_trace {
  char *path;
  bool folder;
  struct process **processes;
  unsigned count;
  char *clock_boot_id;     /* of the process on whose clock all times are; NULL: none yet */
  int64_t clock_offset_ns; /* its realtime_offset_ns */
  struct damage damage;    /* files that cannot be read at all */
  struct damage notes;     /* what is no damage, but to be told */
};

/* process.c */

/* Memory that lives as long as the process, or, while what its ring gave is read, until that is taken back.  NULL: none
 * left.  Any thread. */
void *process_keep(struct process *process, size_t size);
void process_free_blocks(struct block **list);
void damage_add(struct damage *damage, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void damage_add_bytes(struct damage *damage, uint64_t from, uint64_t to, uint64_t holes);
void damage_cut(struct damage *damage, unsigned count); /* to the first `count` parts */
/* One line about the file `path`, of all parts; NULL when there are none, or no memory.  Until the next change. */
const char *damage_line(struct damage *damage, const char *path);
void damage_free(struct damage *damage);
const char *process_info(const struct process *process, const char *key); /* NULL: absent */
/* Reads a file and its ring; NULL: error[size] says why. */
struct process *process_read(const char *path, char *error, size_t size);
void process_free(struct process *process);
/* Puts a process on another clock: all its times move. */
void process_shift_clock(struct process *process, int64_t shift);
/* Takes up what is new and gives up what ended before from_ns; *at is another process where its file was replaced.
 * False: error[size] says why. */
bool process_refresh(struct process **at, uint64_t from_ns, char *error, size_t size);

/* chunks.c */

struct visit {
  struct process *process;
  struct mapping *mapping; /* NULL: what the ring gave */
};
/* The header of a chunk of a stream. */
static inline struct opgap_chunk_header chunk_header(const uint8_t *payload)
{
  struct opgap_chunk_header header;
  memcpy(&header, payload - sizeof header, sizeof header);
  return header;
}
/* For opgap_walk_chunks; context: struct visit. */
void chunks_visit(void *context, const struct opgap_chunk_header *header, const uint8_t *payload);
void chunks_damaged(void *context, uint64_t from, uint64_t to);
void chunks_data(void *context, uint64_t *from, uint64_t *to);
/* Bytes of a mapping's file; file may be NULL, then its holes are not known. */
void process_damaged(struct process *process, const struct mapping *file, uint64_t from, uint64_t to);
/* That many bytes of the file were read.  Gives its pages back now and then, so that a large trace does not fill the
 * memory of whoever reads it: they are clean, and come again from the page cache where another cursor still needs one.
 * Any thread. */
void process_touched(struct process *process, size_t bytes);
/* So many processes share the memory for pages of files. */
void process_share_pages(struct process *process, unsigned processes);

/* ring.c */

/* Takes what the ring of a process still holds.  True when a ring was there. */
bool ring_take(struct process *process);
/* Notes what the file alone says; false: no memory. */
bool ring_save(struct process *process);
/* Takes back what the ring gave. */
void ring_give_back(struct process *process);

/* names.c: any thread */

void name_add(struct process *process, uint64_t id, const uint8_t *bytes, size_t length);

#endif
