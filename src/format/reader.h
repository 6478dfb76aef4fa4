/* Reading a trace: a folder NAME.opgap/ or one file of it, live, finished, killed or damaged.
 *
 * Threads: a trace may be read by several threads as long as each cursor stays on one; the trace itself changes in
 * opgap_trace_refresh only.  Ownership: everything belongs to the trace and lives until opgap_trace_close, except what
 * a cursor hands out, which lives until its next call. Memory: bounded by the number of processes, streams, chunks (8
 * bytes each) and names, never by records or by what a file claims.
 *
 * A process file holds streams.  A stream is one thread, or the process itself (samples, GPU activity).  Records of a
 * stream come in record order, which is the order in which they ended (post-order): a record adopts as children all
 * not yet adopted earlier records of its stream with a larger depth.  A GPU stream's records are in order of delivery.
 */
#ifndef OPGAP_FORMAT_READER_H
#define OPGAP_FORMAT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/schema.h"

struct opgap_trace;
struct opgap_cursor;

enum opgap_stream_kind { OPGAP_STREAM_THREAD = 1, OPGAP_STREAM_PROCESS = 2, OPGAP_STREAM_GPU = 3 };
enum opgap_ended { OPGAP_ENDED_UNKNOWN, OPGAP_ENDED_CLEAN, OPGAP_ENDED_EXEC, OPGAP_ENDED_KILLED, OPGAP_ENDED_RUNNING };

/* "clean", "exec", "killed", "running" or "unknown", as in a process file. */
const char *opgap_ended_name(enum opgap_ended ended);

/* Why records are lost. */
enum opgap_loss {
  OPGAP_LOSS_NO_ROOM,   /* the rings were full */
  OPGAP_LOSS_INTERRUPT, /* calls of a signal handler that interrupted the making of a record */
  OPGAP_LOSS_TOO_DEEP,  /* ops inside OPGAP_MAX_DEPTH others */
  OPGAP_LOSS_UNWRITTEN, /* committed, when the file could not be written any more */
  OPGAP_LOSS_GPU,       /* activities that CUPTI had no buffer for; not told by the reader, but by its records */
  OPGAP_LOSS_UNKNOWN,   /* of traces that do not tell */
  OPGAP_LOSS_COUNT
};

struct opgap_stream_info {
  uint32_t serial;            /* unique in its process file */
  uint8_t kind;               /* enum opgap_stream_kind */
  int32_t tid;                /* kernel thread id; 0 for process streams */
  const char *name;           /* thread name last seen, or "" */
  uint64_t first_ns, last_ns; /* CLOCK_MONOTONIC; over its chunks */
  uint64_t records;
  uint64_t lost;                 /* records that are not in it, by its last header; of them: */
  uint64_t interrupts, too_deep; /* OPGAP_LOSS_INTERRUPT, OPGAP_LOSS_TOO_DEEP */
};

struct opgap_process_info {
  const char *path; /* of the process file */
  int32_t pid, ppid;
  int32_t rank, local_rank, world_size; /* -1: unknown */
  const char *host, *command;           /* command: arguments joined by blanks, escaped for display by the caller */
  const char *boot_id;
  uint64_t start_ns, end_ns;  /* CLOCK_MONOTONIC; end = last time known */
  int64_t realtime_offset_ns; /* CLOCK_REALTIME = CLOCK_MONOTONIC + this */
  uint64_t kept_from_ns; /* what was recorded before it was dropped (OPGAP_KEEP) and start_ns is this; 0: nothing was */
  enum opgap_ended ended;
  int32_t exit_status; /* valid when clean */
  bool forked;         /* began by fork without exec */
  bool kill_safe;      /* its rings outlive it */
  bool complete;       /* no byte damaged or missing */
  bool size_reached;   /* its recording ended at the size that was set for it: no damage */
  uint64_t records, invalid_records, damaged_bytes;
  uint64_t lost_records;              /* of the program and its GPUs; the tracer's own samples are none of them */
  uint64_t lost_threads;              /* that found no slot: nothing of them is recorded */
  uint64_t lost_threads_confined;     /* of these those that began below a filter of system calls */
  uint64_t lost_by[OPGAP_LOSS_COUNT]; /* adds up to lost_records */
  uint64_t stored_bytes;
  unsigned stream_count;
  const struct opgap_stream_info *streams;
};

/* One decoded record.  Times are CLOCK_MONOTONIC ns; an instant has start == end. */
struct opgap_record {
  uint16_t event; /* index for opgap_trace_event of the same process */
  uint8_t depth;
  uint32_t status;
  uint64_t start_ns, end_ns;
  uint64_t field[OPGAP_MAX_FIELDS]; /* NAME fields: name id of the process, see opgap_trace_name; 0 = none */
};

/* Opens a trace.  On failure returns NULL and writes one line (what, where, what to do) into error[size].
 * Orphan rings of killed processes and rings of live ones are read in memory; nothing on disk changes. */
struct opgap_trace *opgap_trace_open(const char *path, char *error, size_t size);
void opgap_trace_close(struct opgap_trace *trace);
/* Takes up what was written and what processes came since the trace was opened or refreshed, and gives up the chunks
 * that ended before `from_ns` (the figures of processes and streams still cover them): the work is bounded by what is
 * new and by the rings, not by the length of the run.  No cursor may be open; what the trace handed out before is void,
 * and processes may be numbered anew.  False with one line in error[size]: the trace can no longer be read. */
bool opgap_trace_refresh(struct opgap_trace *trace, uint64_t from_ns, char *error, size_t size);

unsigned opgap_trace_process_count(const struct opgap_trace *trace);
const struct opgap_process_info *opgap_trace_process(const struct opgap_trace *trace, unsigned process);
/* The event of a record, as this process file describes it; NULL for an unknown id. */
const struct opgap_event *opgap_trace_event(const struct opgap_trace *trace, unsigned process, unsigned event);
/* Bytes of a name (any bytes, NUL-terminated as well); "" for 0, "?" when the name was lost. */
const char *opgap_trace_name(const struct opgap_trace *trace, unsigned process, uint64_t name_id, size_t *length);
/* A key of the process description (settings, machine, versions: see docs/TRACE_FORMAT.md); NULL if absent. */
const char *opgap_trace_info(const struct opgap_trace *trace, unsigned process, const char *key);
/* What is damaged or missing, one line a file: the next one, from `*at` on, which is 0 for the first and then stands
 * behind what was told; NULL after the last.  A line is valid until the trace is refreshed or read on.
 * Records that cannot be decoded are known only when they were read: here, and in the figures of opgap_trace_process,
 * asked for again. */
const char *opgap_trace_damage(const struct opgap_trace *trace, unsigned *at);
/* The same of what is no damage, but to be told: files that are left out as copies of others. */
const char *opgap_trace_note(const struct opgap_trace *trace, unsigned *at);

/* Writes a process file as it was when the trace was opened, with what its ring then held behind it: a trace file that
 * ended `running`.  0, or -1 and errno (ENODATA: a refresh gave parts of it up).  Damaged bytes are copied as they are,
 * a cut tail is not. */
int opgap_trace_copy(const struct opgap_trace *trace, unsigned process, int fd);
/* Likewise the part before it (OPGAP_OLDER_PART); 1: there is none. */
int opgap_trace_copy_older(const struct opgap_trace *trace, unsigned process, int fd);

/* Reads a stream from its beginning.  A cursor holds one decompressed chunk at a time. */
struct opgap_cursor *opgap_cursor_open(const struct opgap_trace *trace, unsigned process, unsigned stream);
/* Next record or NULL at the end.  The record lives until the next call. */
const struct opgap_record *opgap_cursor_next(struct opgap_cursor *cursor);
/* The next few records, which lie side by side: the fast way.  Returns how many, 0 at the end. */
size_t opgap_cursor_batch(struct opgap_cursor *cursor, const struct opgap_record **records);
void opgap_cursor_close(struct opgap_cursor *cursor);

#endif
