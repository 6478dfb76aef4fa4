#include "format/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "format/recover.h"
#include "format/trace_format.h"

#define NAME_PAGE 1024u
#define NAME_PAGES 4096u /* ids up to 4 M: an arena's name table cannot have more */
#define MAX_PROCESSES 65536u
#define TORN_TRIES 20u
#define NAME_LOST UINT32_MAX /* id of a name that a chunk uses and could not carry */

struct name {
  const char *bytes;
  uint32_t length;
};

struct chunk {
  const uint8_t *payload;
  uint32_t stored_bytes, raw_bytes, records;
  uint64_t last_ns;
};

struct stream {
  struct chunk *chunks;
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
};

struct damage {
  char **lines;
  unsigned count;
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
  bool in_tail; /* being read now */
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
  bool torn;         /* the process wrote to its file while file and ring were read */
  bool replaced;     /* the path is another part's now */
  _Atomic(_Atomic(struct name *) *) names[NAME_PAGES];
  _Atomic uint64_t invalid;
  _Atomic uint64_t touched; /* bytes of the file read since its pages were last given back */
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
};

/* A column: its bytes, and where the next value is. */
struct column {
  const uint8_t *at, *end;
  uint64_t previous;
};

#define COLUMNS (OPGAP_COLUMN_FIELD + OPGAP_MAX_FIELDS)

/* How the records of one event are decoded in a chunk.  Columns that repeat one byte, as many do, are not read: their
 * value is in `record` from the start. */
struct plan {
  struct column columns[COLUMNS]; /* by enum opgap_event_column */
  struct opgap_record record;     /* the event, what does not vary, and zeros */
  uint64_t left;                  /* records for which the columns that are not read have values */
  unsigned varying_count;
  struct varying {
    struct column column;
    uint8_t index, coding; /* coding: enum opgap_coding, of fields */
  } varying[COLUMNS];
};

struct decoder {
  struct column event, depth, end;
  uint16_t used[OPGAP_MAX_EVENTS]; /* events with columns in this chunk */
  unsigned used_count;
  bool in_use[OPGAP_MAX_EVENTS];
  struct plan plans[OPGAP_MAX_EVENTS];
};

struct opgap_cursor {
  struct process *process;
  const struct stream *stream;
  size_t next_chunk;
  struct opgap_record *records; /* DECODE_AT_ONCE */
  size_t record_count, record_at;
  uint64_t records_left; /* of the chunk, not decoded yet */
  uint8_t *raw;
  size_t raw_capacity;
  uint32_t *chunk_names;
  size_t chunk_name_count, chunk_name_capacity;
  ZSTD_DCtx *zstd;
  struct decoder decoder;
};

/* So few that the records are still in the first-level cache when they are looked at; a chunk's are not. */
#define DECODE_AT_ONCE 128u

/* ---- memory ---- */

static void *keep(struct process *process, size_t size)
{
  struct block *block = calloc(1, sizeof *block + size);
  if (block == NULL)
    return NULL;
  pthread_mutex_lock(&process->lock);
  struct block **list = process->in_tail ? &process->tail_blocks : &process->blocks;
  block->next = *list;
  *list = block;
  pthread_mutex_unlock(&process->lock);
  return block->bytes;
}

static void free_blocks(struct block **list)
{
  while (*list) {
    struct block *block = *list;
    *list = block->next;
    free(block);
  }
}

static void add_damage(struct damage *damage, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_damage(struct damage *damage, const char *fmt, ...)
{
  char **grown = realloc(damage->lines, (damage->count + 1) * sizeof *grown);
  char *line = NULL;
  va_list arguments;
  if (grown == NULL)
    return;
  damage->lines = grown;
  va_start(arguments, fmt);
  if (vasprintf(&line, fmt, arguments) < 0)
    line = NULL;
  va_end(arguments);
  if (line)
    damage->lines[damage->count++] = line;
}

static void cut_damage(struct damage *damage, unsigned count)
{
  while (damage->count > count)
    free(damage->lines[--damage->count]);
}

static void free_damage(struct damage *damage)
{
  cut_damage(damage, 0);
  free(damage->lines);
}

/* ---- the file's chunks ---- */

#define MAPPED_AT_ONCE (16u << 20) /* bytes of a file whose pages are kept */

/* Gives the file's pages back now and then, so that a large trace does not fill the memory of whoever reads it.  They
 * are clean, and come again from the page cache where another cursor still needs one. */
static void note_touched(struct process *process, size_t bytes)
{
  if (atomic_fetch_add_explicit(&process->touched, bytes, memory_order_relaxed) + bytes < MAPPED_AT_ONCE)
    return;
  atomic_store_explicit(&process->touched, 0, memory_order_relaxed);
  for (const struct mapping *mapping = process->mappings; mapping != NULL; mapping = mapping->next)
    madvise(mapping->bytes, mapping->size, MADV_DONTNEED);
}

struct visit {
  struct process *process;
  struct mapping *mapping; /* NULL: the tail */
};

static uint8_t *decompress(const uint8_t *payload, const struct opgap_chunk_header *header)
{
  uint8_t *raw = malloc(header->raw_bytes + 1u);
  if (raw == NULL)
    return NULL;
  size_t size = ZSTD_decompress(raw, header->raw_bytes, payload, header->stored_bytes);
  if (ZSTD_isError(size) || size != header->raw_bytes) {
    free(raw);
    return NULL;
  }
  return raw;
}

static void read_pairs(struct process *process, const uint8_t *at, const uint8_t *end)
{
  uint64_t length;
  while (at < end && opgap_get_varint(&at, end, &length) && length <= (uint64_t)(end - at)) {
    const uint8_t *key = at;
    uint64_t key_length = length;
    at += length;
    if (!opgap_get_varint(&at, end, &length) || length > (uint64_t)(end - at))
      return;
    struct pair *grown = realloc(process->pairs, (process->pair_count + 1) * sizeof *grown);
    char *copy = keep(process, key_length + length + 2);
    if (grown)
      process->pairs = grown;
    if (grown == NULL || copy == NULL)
      return;
    memcpy(copy, key, key_length);
    memcpy(copy + key_length + 1, at, length);
    process->pairs[process->pair_count++] = (struct pair){copy, copy + key_length + 1};
    at += length;
  }
}

static void read_schema(struct process *process, const uint8_t *raw, size_t size)
{
  char *text = keep(process, size + OPGAP_MAX_EVENTS * (3 + OPGAP_MAX_FIELDS));
  if (text == NULL || process->row_count)
    return;
  process->row_count = opgap_schema_decode(raw, size, process->rows, OPGAP_MAX_EVENTS, text,
                                           size + OPGAP_MAX_EVENTS * (3 + OPGAP_MAX_FIELDS));
  for (unsigned i = 0; i < process->row_count; i++)
    process->events[process->rows[i].id] = &process->rows[i];
}

static struct stream *stream_of(struct process *process, const struct opgap_chunk_header *header)
{
  unsigned count = process->info.stream_count;
  for (unsigned i = count; i-- > 0;) /* the newest streams are the likely ones */
    if (process->stream_infos[i].serial == header->serial)
      return &process->streams[i];
  struct stream *streams = realloc(process->streams, (count + 1) * sizeof *streams);
  if (streams)
    process->streams = streams;
  struct opgap_stream_info *infos = realloc(process->stream_infos, (count + 1) * sizeof *infos);
  if (infos)
    process->stream_infos = infos;
  if (streams == NULL || infos == NULL)
    return NULL;
  memset(&streams[count], 0, sizeof *streams);
  infos[count] = (struct opgap_stream_info){.serial = header->serial,
                                            .kind = (uint8_t)header->kind,
                                            .tid = header->tid,
                                            .first_ns = header->first_ns + process->shift_ns,
                                            .last_ns = header->last_ns + process->shift_ns,
                                            .name = ""};
  process->info.stream_count++;
  process->info.streams = infos;
  return &streams[count];
}

static void add_records(struct process *process, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct stream *stream = stream_of(process, header);
  if (stream == NULL)
    return;
  if (stream->count == stream->capacity) {
    size_t capacity = stream->capacity ? stream->capacity * 2 : 8;
    struct chunk *grown = realloc(stream->chunks, capacity * sizeof *grown);
    if (grown == NULL)
      return;
    stream->chunks = grown;
    stream->capacity = capacity;
  }
  uint64_t first_ns = header->first_ns + process->shift_ns, last_ns = header->last_ns + process->shift_ns;
  stream->chunks[stream->count++] =
      (struct chunk){payload, header->stored_bytes, header->raw_bytes, header->records, last_ns};
  if (!process->in_tail && header->position > stream->position)
    stream->position = header->position;
  struct opgap_stream_info *info = &process->stream_infos[stream - process->streams];
  if (first_ns < info->first_ns)
    info->first_ns = first_ns;
  if (last_ns > info->last_ns)
    info->last_ns = last_ns;
  info->records += header->records;
  info->lost = header->lost;
  size_t length = strnlen(header->name, sizeof header->name);
  if (length && (strlen(info->name) != length || memcmp(info->name, header->name, length) != 0)) {
    char *name = keep(process, length + 1);
    if (name) {
      memcpy(name, header->name, length);
      info->name = name;
    }
  }
  process->info.records += header->records;
}

static void visit_chunk(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct visit *visit = context;
  struct process *process = visit->process;
  note_touched(process, header->stored_bytes);
  if (header->sequence > process->last_sequence + 1)
    process->missing_chunks += header->sequence - process->last_sequence - 1;
  process->last_sequence = header->sequence;
  process->end_seen = header->type == OPGAP_CHUNK_END;
  uint64_t last_ns = header->last_ns + process->shift_ns;
  if (last_ns > process->info.end_ns)
    process->info.end_ns = last_ns;
  if (visit->mapping != NULL && last_ns > visit->mapping->last_ns)
    visit->mapping->last_ns = last_ns;
  if (header->type == OPGAP_CHUNK_RECORDS) {
    add_records(process, header, payload);
    return;
  }
  if (header->type != OPGAP_CHUNK_INFO && header->type != OPGAP_CHUNK_SCHEMA && header->type != OPGAP_CHUNK_END)
    return; /* of a later version */
  uint8_t *raw = decompress(payload, header);
  if (raw == NULL) {
    add_damage(&process->damage, "%s: a description cannot be decompressed", process->path);
    process->info.complete = false;
    return;
  }
  if (header->type == OPGAP_CHUNK_SCHEMA)
    read_schema(process, raw, header->raw_bytes);
  else
    read_pairs(process, raw, raw + header->raw_bytes);
  free(raw);
}

static void note_damage(struct process *process, uint64_t from, uint64_t to)
{
  process->info.damaged_bytes += to - from;
  process->info.complete = false;
  add_damage(&process->damage, "%s: bytes %llu to %llu are damaged or cut off (%llu bytes)", process->path,
             (unsigned long long)from, (unsigned long long)to, (unsigned long long)(to - from));
}

/* The end of the file is judged when the ring has been asked: the process may be writing there. */
static void note_hole(void *context, uint64_t from, uint64_t to)
{
  struct visit *visit = context;
  if (to < visit->mapping->size)
    note_damage(visit->process, visit->mapping->offset + from, visit->mapping->offset + to);
}

/* ---- the ring of a process that is alive or was killed ---- */

static int tail_sink(void *context, const void *bytes, size_t size)
{
  struct process *process = context;
  if (process->tail_size + size > process->tail_capacity) {
    size_t capacity = (process->tail_size + size) * 2;
    uint8_t *grown = realloc(process->tail, capacity);
    if (grown == NULL)
      return -ENOMEM;
    process->tail = grown;
    process->tail_capacity = capacity;
  }
  memcpy(process->tail + process->tail_size, bytes, size);
  process->tail_size += size;
  return 0;
}

/* Drains a private copy of the arena: what we write into it is seen by nobody. */
static bool drain_arena(struct process *process, struct opgap_arena *arena, bool alive)
{
  void *scratch = calloc(1, opgap_consumer_bytes());
  if (scratch == NULL)
    return false;
  struct opgap_consumer *consumer =
      opgap_consumer_init(scratch, arena, process->rows, process->row_count, tail_sink, process);
  arena->chunk_sequence = process->last_sequence;
  for (unsigned i = 0; i < process->info.stream_count; i++)
    opgap_consumer_skip(consumer, process->stream_infos[i].serial, process->streams[i].position);
  long records = opgap_consumer_drain(consumer, opgap_recover_anchor, OPGAP_DRAIN_DEAD);
  uint32_t end = atomic_load(&arena->end);
  const char *how = alive                      ? "running"
                    : end == OPGAP_ARENA_CLEAN ? "clean"
                    : end == OPGAP_ARENA_EXEC  ? "exec"
                                               : "killed";
  if (records >= 0)
    opgap_consumer_end(consumer, how, arena->exit_status);
  free(scratch);
  return records >= 0;
}

static const char *info_of(const struct process *process, const char *key)
{
  for (size_t i = process->pair_count; i-- > 0;) /* the last one said counts: END comes after INFO */
    if (strcmp(process->pairs[i].key, key) == 0)
      return process->pairs[i].value;
  return NULL;
}

/* A private mapping of the whole address range of the arena.  A ring of another owner than the trace's is a fake. */
static struct opgap_arena *map_ring(const struct process *process, int fd, size_t *mapped)
{
  struct stat status;
  struct opgap_arena *arena = MAP_FAILED;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == process->owner &&
      status.st_size >= (off_t)OPGAP_ARENA_HEADER_BYTES) {
    *mapped = (size_t)status.st_size;
    arena = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  }
  if (arena == MAP_FAILED)
    return NULL;
  const char *start = info_of(process, "start_time");
  if (opgap_arena_check(arena, *mapped) != NULL || arena->pid != process->info.pid || start == NULL ||
      strtoull(start, NULL, 10) != arena->start_time) {
    munmap(arena, *mapped);
    return NULL;
  }
  return arena;
}

/* Takes what the rings still hold.  True when a ring was there. */
static bool take_ring(struct process *process)
{
  const char *ring = info_of(process, "ring");
  size_t mapped = 0;
  if (ring == NULL || process->row_count == 0)
    return false;
  int fd = open(ring, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct opgap_arena *arena = fd >= 0 ? map_ring(process, fd, &mapped) : NULL;
  if (arena == NULL) {
    struct stat status;
    if (fd >= 0)
      close(fd);
    process->torn |= stat(process->path, &status) == 0 && (uint64_t)status.st_size > process->file_size;
    return false;
  }
  uint64_t written;
  bool alive = opgap_arena_alive(arena), taken = drain_arena(process, arena, alive);
  munmap(arena, mapped);
  process->torn |=
      alive && pread(fd, &written, sizeof written, offsetof(struct opgap_arena, chunk_sequence)) == sizeof written &&
      written > process->last_sequence;
  close(fd);
  struct visit visit = {process, NULL};
  process->in_tail = true;
  if (taken)
    opgap_walk_chunks(process->tail, process->tail_size, 0, visit_chunk, NULL, &visit);
  process->in_tail = false;
  return taken;
}

/* ---- processes ---- */

static int64_t info_number(const struct process *process, const char *key, int64_t missing)
{
  const char *value = info_of(process, key);
  char *end;
  if (value == NULL || *value == 0)
    return missing;
  long long n = strtoll(value, &end, 10);
  return *end ? missing : n;
}

static void fill_info(struct process *process)
{
  struct opgap_process_info *info = &process->info;
  const char *text;
  info->ppid = (int32_t)info_number(process, "ppid", 0);
  info->rank = (int32_t)info_number(process, "rank", -1);
  info->local_rank = (int32_t)info_number(process, "local_rank", -1);
  info->world_size = (int32_t)info_number(process, "world_size", -1);
  info->host = (text = info_of(process, "host")) ? text : "";
  info->command = (text = info_of(process, "command")) ? text : "";
  info->boot_id = (text = info_of(process, "boot_id")) ? text : "";
  info->realtime_offset_ns = info_number(process, "realtime_offset_ns", 0) - (int64_t)process->shift_ns;
  info->forked = info_number(process, "forked", 0) != 0;
  info->kill_safe = info_number(process, "kill_safe", 0) != 0;
  info->exit_status = (int32_t)info_number(process, "exit_status", 0);
  info->invalid_records = (uint64_t)info_number(process, "invalid_records", 0);
  text = process->end_seen ? info_of(process, "ended") : NULL;
  info->ended = text == NULL                   ? OPGAP_ENDED_UNKNOWN
                : strcmp(text, "clean") == 0   ? OPGAP_ENDED_CLEAN
                : strcmp(text, "exec") == 0    ? OPGAP_ENDED_EXEC
                : strcmp(text, "killed") == 0  ? OPGAP_ENDED_KILLED
                : strcmp(text, "running") == 0 ? OPGAP_ENDED_RUNNING
                                               : OPGAP_ENDED_UNKNOWN;
  for (unsigned i = 0; i < info->stream_count; i++)
    info->lost_records += info->streams[i].lost;
  uint64_t told = (uint64_t)info_number(process, "lost_records", 0);
  if (told > info->lost_records)
    info->lost_records = told;
  int64_t threads = info_number(process, "lost_threads", 0);
  if (threads > 0) {
    info->complete = false;
    add_damage(&process->damage, "%s: %lld threads found no room and were not recorded", process->path,
               (long long)threads);
  }
  if ((text = info_of(process, "stopped")) != NULL) {
    info->complete = false;
    add_damage(&process->damage, "%s: recording stopped early: %s", process->path, text);
  }
  if (process->missing_chunks) {
    info->complete = false;
    add_damage(&process->damage, "%s: %u chunks are missing", process->path, process->missing_chunks);
  }
  if (!process->end_seen) {
    info->complete = false;
    add_damage(&process->damage,
               "%s: the end is missing: writing stopped early (full disk, size limit), or the process was killed and "
               "its ring is gone",
               process->path);
  }
}

/* Maps the part before the file, if one was written.  Before the file itself, which a new part may replace meanwhile.
 */
static void map_older_part(struct process *process)
{
  char path[PATH_MAX];
  struct stat status;
  if (snprintf(path, sizeof path, "%s" OPGAP_OLDER_PART, process->path) >= (int)sizeof path)
    return;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size >= (off_t)sizeof(struct opgap_file_header)) {
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED && (process->older = calloc(1, sizeof *process->older)) != NULL) {
      *process->older = (struct mapping){.bytes = bytes, .size = (uint64_t)status.st_size};
      process->older_inode = status.st_ino;
    } else if (bytes != MAP_FAILED) {
      munmap(bytes, (size_t)status.st_size);
    }
  }
  if (fd >= 0)
    close(fd);
}

/* Is it the part right before the file?  It may be the file itself, if the process died while it began a part. */
static bool older_part_fits(const struct process *process, const struct opgap_file_header *header)
{
  struct opgap_file_header older;
  if (process->older == NULL || process->older_inode == process->inode)
    return false;
  memcpy(&older, process->older->bytes, sizeof older);
  return memcmp(older.magic, header->magic, sizeof older.magic) == 0 && older.pid == header->pid &&
         older.start_ns == header->start_ns && older.kept_from_ns < header->kept_from_ns &&
         older.header_bytes == sizeof older;
}

static void begin_part(struct process *process, const struct opgap_file_header *header)
{
  process->last_sequence = header->first_sequence ? header->first_sequence - 1 : 0;
  process->info.kept_from_ns = header->kept_from_ns;
  if (header->kept_from_ns > header->start_ns)
    process->info.start_ns = process->info.end_ns = header->kept_from_ns;
}

static bool header_ok(const struct process *process, const struct mapping *file, char *error, size_t error_size)
{
  struct opgap_file_header header;
  if (file == NULL || file->size < sizeof header) {
    snprintf(error, error_size, "%s: %s", process->path,
             file != NULL ? "too short for an opgap trace" : "the file is empty");
    return false;
  }
  memcpy(&header, file->bytes, sizeof header);
  if (memcmp(header.magic, OPGAP_TRACE_MAGIC, sizeof header.magic) != 0) {
    bool page = memcmp(file->bytes, "<!DOCTYPE html>", 15) == 0;
    snprintf(error, error_size, "%s: not an opgap trace%s", process->path,
             page ? ", but a web page: where it is one of opgap html, give the trace that it was made from" : "");
    return false;
  }
  if (header.min_version > OPGAP_TRACE_VERSION || header.header_bytes != sizeof header) {
    snprintf(error, error_size, "%s: written by a newer opgap (format %u, this one reads up to %u): update opgap",
             process->path, header.min_version, OPGAP_TRACE_VERSION);
    return false;
  }
  return true;
}

/* Maps the file from the page of an offset to its present end; does nothing when nothing lies behind the offset. */
static bool map_file(struct process *process, uint64_t from, char *error, size_t size)
{
  int fd = open(process->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) {
    snprintf(error, size, "%s: %s", process->path, strerror(errno));
    if (fd >= 0)
      close(fd);
    return false;
  }
  if (!S_ISREG(status.st_mode)) {
    snprintf(error, size, "%s: not a regular file", process->path);
    close(fd);
    return false;
  }
  uint64_t file_size = (uint64_t)status.st_size, page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (from > 0 && status.st_ino != process->inode) { /* another part: seen by take_once */
    close(fd);
    return true;
  }
  process->file_size = file_size;
  process->owner = status.st_uid;
  process->inode = status.st_ino;
  if (file_size <= from) {
    close(fd);
    return true;
  }
  struct mapping *mapping = calloc(1, sizeof *mapping);
  void *bytes = MAP_FAILED;
  if (mapping != NULL) {
    mapping->offset = from / page * page;
    mapping->size = file_size - mapping->offset;
    bytes = mmap(NULL, mapping->size, PROT_READ, MAP_PRIVATE, fd, (off_t)mapping->offset);
  }
  close(fd);
  if (bytes == MAP_FAILED) {
    snprintf(error, size, "%s: cannot be mapped: %s", process->path, strerror(errno));
    free(mapping);
    return false;
  }
  mapping->bytes = bytes;
  mapping->next = process->mappings;
  process->mappings = mapping;
  return true;
}

static void unmap(struct mapping *mapping)
{
  munmap(mapping->bytes, mapping->size);
  free(mapping);
}

/* ---- what the ring adds, and taking it back ---- */

static bool save_file_state(struct process *process)
{
  struct file_state *state = &process->file_state;
  unsigned count = process->info.stream_count;
  struct opgap_stream_info *infos = realloc(state->stream_infos, (count + 1) * sizeof *infos);
  if (infos != NULL)
    state->stream_infos = infos;
  size_t *counts = realloc(state->chunk_counts, (count + 1) * sizeof *counts);
  if (counts != NULL)
    state->chunk_counts = counts;
  if (infos == NULL || counts == NULL)
    return false;
  for (unsigned i = 0; i < count; i++) {
    infos[i] = process->stream_infos[i];
    counts[i] = process->streams[i].count;
  }
  state->info = process->info;
  state->pair_count = process->pair_count;
  state->damage_count = process->damage.count;
  state->last_sequence = process->last_sequence;
  state->missing_chunks = process->missing_chunks;
  state->end_seen = process->end_seen;
  return true;
}

static void restore_file_state(struct process *process)
{
  const struct file_state *state = &process->file_state;
  for (unsigned i = state->info.stream_count; i < process->info.stream_count; i++)
    free(process->streams[i].chunks);
  for (unsigned i = 0; i < state->info.stream_count; i++) {
    process->stream_infos[i] = state->stream_infos[i];
    process->streams[i].count = state->chunk_counts[i];
  }
  process->info = state->info;
  process->info.streams = process->stream_infos;
  process->pair_count = state->pair_count;
  cut_damage(&process->damage, state->damage_count);
  process->last_sequence = state->last_sequence;
  process->missing_chunks = state->missing_chunks;
  process->end_seen = state->end_seen;
  process->tail_size = 0;
  free_blocks(&process->tail_blocks);
}

/* The file is not the last word: there is no END, or one before an exec, which may have failed. */
static bool may_go_on(const struct process *process)
{
  const char *ended = process->end_seen ? info_of(process, "ended") : NULL;
  return ended == NULL || strcmp(ended, "exec") == 0;
}

/* Takes the chunks of the newest mapping, then what the ring holds beyond them.  False: error[size] says why. */
static bool take_once(struct process *process, bool *taken, char *error, size_t size)
{
  struct mapping *file = process->mappings;
  struct visit visit = {process, file};
  struct stat status;
  process->info.stored_bytes = process->older_size + process->file_size;
  if (file != NULL && file->offset + file->size > process->sound)
    process->sound = file->offset + opgap_walk_chunks(file->bytes, file->size, process->sound - file->offset,
                                                      visit_chunk, note_hole, &visit);
  process->file_state.goes_on = may_go_on(process);
  if (!save_file_state(process)) {
    snprintf(error, size, "%s: out of memory", process->path);
    return false;
  }
  process->torn = false;
  *taken = process->file_state.goes_on && take_ring(process);
  process->replaced = stat(process->path, &status) == 0 && status.st_ino != process->inode;
  return true;
}

/* Where the process wrote meanwhile, once more from where the file had been read to.  Where it began another part
 * (replaced), all must be read anew by the caller. */
static bool take_all(struct process *process, char *error, size_t size)
{
  bool taken;
  if (!take_once(process, &taken, error, size))
    return false;
  for (unsigned i = 1; process->torn && !process->replaced && i < TORN_TRIES; i++) {
    restore_file_state(process);
    if (!map_file(process, process->sound, error, size) || !take_once(process, &taken, error, size))
      return false;
  }
  /* a chunk cut short at the end of the file is no damage where the ring still has its records */
  if (!taken && process->sound < process->file_size)
    note_damage(process, process->sound, process->file_size);
  if (process->torn || process->replaced) {
    process->info.complete = false;
    add_damage(&process->damage, "%s: written to all the time while it was read: its last records may be missing",
               process->path);
  }
  fill_info(process);
  return true;
}

/* The part before the file is not written to any more. */
static void take_older_part(struct process *process)
{
  struct opgap_file_header header;
  struct visit visit = {process, process->older};
  memcpy(&header, process->older->bytes, sizeof header);
  begin_part(process, &header);
  uint64_t sound =
      opgap_walk_chunks(process->older->bytes, process->older->size, sizeof header, visit_chunk, note_hole, &visit);
  if (sound < process->older->size)
    note_damage(process, sound, process->older->size);
  process->older_size = process->older->size;
}

/* ---- processes ---- */

static void process_free(struct process *process)
{
  if (process == NULL)
    return;
  for (unsigned i = 0; i < process->info.stream_count; i++)
    free(process->streams[i].chunks);
  for (unsigned page = 0; page < NAME_PAGES; page++)
    free(atomic_load(&process->names[page]));
  free(process->streams);
  free(process->stream_infos);
  free(process->file_state.stream_infos);
  free(process->file_state.chunk_counts);
  free(process->pairs);
  free(process->tail);
  free(process->path);
  while (process->mappings != NULL) {
    struct mapping *mapping = process->mappings;
    process->mappings = mapping->next;
    unmap(mapping);
  }
  if (process->older != NULL)
    unmap(process->older);
  free_blocks(&process->blocks);
  free_blocks(&process->tail_blocks);
  free_damage(&process->damage);
  pthread_mutex_destroy(&process->lock);
  free(process);
}

/* NULL and one line, or a process that is not in the trace's list yet. */
static struct process *read_process(const char *path, char *error, size_t size)
{
  struct process *process = calloc(1, sizeof *process);
  if (process == NULL || (process->path = strdup(path)) == NULL) {
    snprintf(error, size, "%s: out of memory", path);
    free(process);
    return NULL;
  }
  pthread_mutex_init(&process->lock, NULL);
  process->info.path = process->path;
  process->info.complete = true;
  map_older_part(process);
  if (!map_file(process, 0, error, size) || !header_ok(process, process->mappings, error, size)) {
    process_free(process);
    return NULL;
  }
  struct opgap_file_header header;
  memcpy(&header, process->mappings->bytes, sizeof header);
  process->info.pid = header.pid;
  process->info.start_ns = process->info.end_ns = header.start_ns;
  if (older_part_fits(process, &header)) {
    take_older_part(process);
  } else {
    if (process->older != NULL) /* not of this file, or the file itself */
      unmap(process->older);
    process->older = NULL;
    begin_part(process, &header);
  }
  process->sound = sizeof header;
  if (!take_all(process, error, size)) {
    process_free(process);
    return NULL;
  }
  return process;
}

/* As read_process, until no other part has begun meanwhile. */
static struct process *read_settled(const char *path, char *error, size_t size)
{
  struct process *process = read_process(path, error, size);
  for (unsigned i = 1; process != NULL && process->replaced && i < TORN_TRIES; i++) {
    process_free(process);
    process = read_process(path, error, size);
  }
  return process;
}

static bool add_process(struct opgap_trace *trace, const char *path, char *error, size_t size)
{
  struct process **grown = realloc(trace->processes, (trace->count + 1) * sizeof *grown);
  if (grown == NULL) {
    snprintf(error, size, "%s: out of memory", path);
    return false;
  }
  trace->processes = grown;
  struct process *process = read_settled(path, error, size);
  if (process == NULL)
    return false;
  trace->processes[trace->count++] = process;
  return true;
}

/* Puts a process on another clock: all its times move. */
static void shift_clock(struct process *process, int64_t shift)
{
  process->shift_ns = (uint64_t)shift; /* added modulo 2^64, so that it may be negative */
  process->info.start_ns += process->shift_ns;
  process->info.end_ns += process->shift_ns;
  process->info.realtime_offset_ns -= shift;
  for (unsigned i = 0; i < process->info.stream_count; i++) {
    process->stream_infos[i].first_ns += process->shift_ns;
    process->stream_infos[i].last_ns += process->shift_ns;
    for (size_t k = 0; k < process->streams[i].count; k++)
      process->streams[i].chunks[k].last_ns += process->shift_ns;
  }
  for (struct mapping *mapping = process->mappings; mapping != NULL; mapping = mapping->next)
    mapping->last_ns += process->shift_ns;
  if (process->older != NULL)
    process->older->last_ns += process->shift_ns;
  /* the state without the ring moves along */
  struct file_state *state = &process->file_state;
  state->info.start_ns += process->shift_ns;
  state->info.end_ns += process->shift_ns;
  for (unsigned i = 0; i < state->info.stream_count; i++) {
    state->stream_infos[i].first_ns += process->shift_ns;
    state->stream_infos[i].last_ns += process->shift_ns;
  }
}

/* Drops the chunks that ended before a time, and the parts of the file that hold none of the others. */
static void forget(struct process *process, uint64_t before_ns)
{
  for (unsigned i = 0; i < process->info.stream_count; i++) {
    struct stream *stream = &process->streams[i];
    size_t old = 0;
    while (old < stream->count && stream->chunks[old].last_ns < before_ns)
      old++;
    if (old > 0)
      memmove(stream->chunks, stream->chunks + old, (stream->count - old) * sizeof *stream->chunks);
    stream->count -= old;
  }
  if (process->older != NULL && process->older->last_ns < before_ns) {
    unmap(process->older);
    process->older = NULL;
  }
  for (struct mapping **at = &process->mappings; *at != NULL;) {
    struct mapping *mapping = *at;
    if (mapping->last_ns >= before_ns) {
      at = &mapping->next;
      continue;
    }
    *at = mapping->next;
    unmap(mapping);
  }
}

/* False: error[size] says why.  The process is another one where its file was replaced. */
static bool refresh_process(struct process **at, uint64_t from_ns, char *error, size_t size)
{
  struct process *process = *at;
  struct stat status;
  bool grown = stat(process->path, &status) == 0 && (uint64_t)status.st_size > process->sound;
  if (!process->file_state.goes_on && !grown) {
    forget(process, from_ns);
    return true;
  }
  restore_file_state(process);
  forget(process, from_ns);
  if (!map_file(process, process->sound, error, size) || !take_all(process, error, size))
    return false;
  if (!process->replaced)
    return true;
  struct process *anew = read_settled(process->path, error, size);
  if (anew == NULL)
    return false;
  if (process->shift_ns != 0)
    shift_clock(anew, (int64_t)process->shift_ns);
  process_free(process);
  *at = anew;
  forget(anew, from_ns);
  return true;
}

/* ---- clocks ---- */

static int64_t realtime_start(const struct process *process)
{
  return (int64_t)process->info.start_ns + process->info.realtime_offset_ns;
}

/* CLOCK_MONOTONIC begins at each host's start: all processes are put on the clock of the one that started first.
 * from: the first process that is not yet. */
static void join_clocks(struct opgap_trace *trace, unsigned from)
{
  if (trace->clock_boot_id == NULL && trace->count > 0) {
    const struct process *first = trace->processes[0];
    for (unsigned i = 1; i < trace->count; i++)
      if (realtime_start(trace->processes[i]) < realtime_start(first))
        first = trace->processes[i];
    trace->clock_boot_id = strdup(first->info.boot_id);
    trace->clock_offset_ns = first->info.realtime_offset_ns;
  }
  for (unsigned i = from; i < trace->count && trace->clock_boot_id != NULL; i++) {
    struct process *process = trace->processes[i];
    if (strcmp(process->info.boot_id, trace->clock_boot_id) != 0)
      shift_clock(process, process->info.realtime_offset_ns - trace->clock_offset_ns);
  }
}

/* ---- opening ---- */

static bool is_trace_name(const char *name)
{
  size_t n = strlen(name);
  return n > 5 && strcmp(name + n - 5, ".opgt") == 0;
}

static int by_start(const void *a, const void *b)
{
  const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;
  if (x->info.start_ns != y->info.start_ns)
    return x->info.start_ns < y->info.start_ns ? -1 : 1;
  return strcmp(x->path, y->path);
}

static bool is_known(const struct opgap_trace *trace, const char *path)
{
  for (unsigned i = 0; i < trace->count; i++)
    if (strcmp(trace->processes[i]->path, path) == 0)
      return true;
  return false;
}

/* Adds the processes of the folder that are not there yet.  False: the folder cannot be read. */
static bool scan_folder(struct opgap_trace *trace, char *error, size_t size)
{
  DIR *folder = opendir(trace->path);
  if (folder == NULL) {
    snprintf(error, size, "%s: %s", trace->path, strerror(errno));
    return false;
  }
  cut_damage(&trace->damage, 0);
  unsigned before = trace->count;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL && trace->count < MAX_PROCESSES;) {
    char *file = NULL, why[512];
    if (!is_trace_name(entry->d_name) || asprintf(&file, "%s/%s", trace->path, entry->d_name) < 0)
      continue;
    if (!is_known(trace, file) && !add_process(trace, file, why, sizeof why)) {
      add_damage(&trace->damage, "%s", why);
      snprintf(error, size, "%s", why);
    }
    free(file);
  }
  closedir(folder);
  join_clocks(trace, before);
  qsort(trace->processes, trace->count, sizeof *trace->processes, by_start);
  return true;
}

static bool open_file(struct opgap_trace *trace, char *error, size_t size)
{
  if (!add_process(trace, trace->path, error, size))
    return false;
  join_clocks(trace, 0);
  return true;
}

static bool open_folder(struct opgap_trace *trace, char *error, size_t size)
{
  trace->folder = true;
  if (!scan_folder(trace, error, size))
    return false;
  if (trace->count == 0 && trace->damage.count == 0)
    snprintf(error, size, "%s: no process files (*.opgt) in this folder: is it an opgap trace?", trace->path);
  return trace->count > 0;
}

struct opgap_trace *opgap_trace_open(const char *path, char *error, size_t size)
{
  struct opgap_trace *trace = calloc(1, sizeof *trace);
  struct stat status;
  bool ok = false;
  if (trace == NULL || (trace->path = strdup(path)) == NULL)
    snprintf(error, size, "%s: out of memory", path);
  else if (stat(path, &status) != 0)
    snprintf(error, size, "%s: %s", path, strerror(errno));
  else
    ok = S_ISDIR(status.st_mode) ? open_folder(trace, error, size) : open_file(trace, error, size);
  if (!ok) {
    opgap_trace_close(trace);
    return NULL;
  }
  return trace;
}

bool opgap_trace_refresh(struct opgap_trace *trace, uint64_t from_ns, char *error, size_t size)
{
  for (unsigned i = 0; i < trace->count; i++)
    if (!refresh_process(&trace->processes[i], from_ns, error, size))
      return false;
  return !trace->folder || scan_folder(trace, error, size);
}

void opgap_trace_close(struct opgap_trace *trace)
{
  if (trace == NULL)
    return;
  for (unsigned i = 0; i < trace->count; i++)
    process_free(trace->processes[i]);
  free_damage(&trace->damage);
  free(trace->clock_boot_id);
  free(trace->processes);
  free(trace->path);
  free(trace);
}

unsigned opgap_trace_process_count(const struct opgap_trace *trace)
{
  return trace->count;
}

const struct opgap_process_info *opgap_trace_process(const struct opgap_trace *trace, unsigned process)
{
  struct process *p = trace->processes[process];
  uint64_t undecoded = atomic_exchange(&p->invalid, 0);
  if (undecoded > 0) {
    p->info.invalid_records += undecoded;
    p->info.complete = false;
    add_damage(&p->damage, "%s: %llu records cannot be decoded", p->path, (unsigned long long)undecoded);
  }
  return &p->info;
}

const struct opgap_event *opgap_trace_event(const struct opgap_trace *trace, unsigned process, unsigned event)
{
  return event < OPGAP_MAX_EVENTS ? trace->processes[process]->events[event] : NULL;
}

const char *opgap_trace_info(const struct opgap_trace *trace, unsigned process, const char *key)
{
  return info_of(trace->processes[process], key);
}

const char *opgap_trace_damage(const struct opgap_trace *trace, unsigned index)
{
  for (unsigned i = 0; i < trace->count; i++)
    opgap_trace_process(trace, i); /* what cursors could not decode so far */
  if (index < trace->damage.count)
    return trace->damage.lines[index];
  index -= trace->damage.count;
  for (unsigned i = 0; i < trace->count; i++) {
    const struct damage *damage = &trace->processes[i]->damage;
    if (index < damage->count)
      return damage->lines[index];
    index -= damage->count;
  }
  return NULL;
}

static int write_all(int fd, const uint8_t *bytes, uint64_t size)
{
  while (size > 0) {
    ssize_t n = write(fd, bytes, size < (1u << 30) ? size : 1u << 30);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return -1;
    bytes += n;
    size -= (uint64_t)n;
  }
  return 0;
}

int opgap_trace_copy_older(const struct opgap_trace *trace, unsigned process, int fd)
{
  const struct process *p = trace->processes[process];
  return p->older ? write_all(fd, p->older->bytes, p->older->size) : 1;
}

/* The parts of the file in order, each up to where the next one begins; the list has the newest first. */
static int copy_mappings(const struct mapping *mapping, uint64_t end, int fd)
{
  if (mapping->next != NULL && copy_mappings(mapping->next, mapping->offset, fd) != 0)
    return -1;
  if (mapping->next == NULL && mapping->offset > 0) {
    errno = ENODATA;
    return -1;
  }
  return end > mapping->offset ? write_all(fd, mapping->bytes, end - mapping->offset) : 0;
}

int opgap_trace_copy(const struct opgap_trace *trace, unsigned process, int fd)
{
  const struct process *p = trace->processes[process];
  if (p->mappings == NULL) {
    errno = ENODATA;
    return -1;
  }
  return copy_mappings(p->mappings, p->sound, fd) == 0 ? write_all(fd, p->tail, p->tail_size) : -1;
}

/* ---- names ---- */

static struct name *name_at(const struct process *process, uint64_t id)
{
  if (id == 0 || id >= (uint64_t)NAME_PAGE * NAME_PAGES)
    return NULL;
  _Atomic(struct name *) *page = atomic_load_explicit(&process->names[id / NAME_PAGE], memory_order_acquire);
  return page ? atomic_load_explicit(&page[id % NAME_PAGE], memory_order_acquire) : NULL;
}

const char *opgap_trace_name(const struct opgap_trace *trace, unsigned process, uint64_t name_id, size_t *length)
{
  const struct name *name = name_at(trace->processes[process], name_id);
  if (length)
    *length = name ? name->length : name_id ? 1 : 0;
  return name ? name->bytes : name_id ? "?" : "";
}

static void add_name(struct process *process, uint64_t id, const uint8_t *bytes, size_t length)
{
  if (id == 0 || id >= (uint64_t)NAME_PAGE * NAME_PAGES || length == 0 || name_at(process, id))
    return;
  struct name *name = keep(process, sizeof *name + length + 1);
  if (name == NULL)
    return;
  char *copy = (char *)(name + 1);
  memcpy(copy, bytes, length);
  name->bytes = copy;
  name->length = (uint32_t)length;
  pthread_mutex_lock(&process->lock);
  _Atomic(struct name *) *page = atomic_load(&process->names[id / NAME_PAGE]);
  if (page == NULL) {
    page = calloc(NAME_PAGE, sizeof *page);
    if (page)
      atomic_store_explicit(&process->names[id / NAME_PAGE], page, memory_order_release);
  }
  if (page)
    atomic_store_explicit(&page[id % NAME_PAGE], name, memory_order_release);
  pthread_mutex_unlock(&process->lock);
}

/* ---- cursors ---- */

struct opgap_cursor *opgap_cursor_open(const struct opgap_trace *trace, unsigned process, unsigned stream)
{
  struct opgap_cursor *cursor = calloc(1, sizeof *cursor);
  if (cursor == NULL)
    return NULL;
  cursor->process = trace->processes[process];
  cursor->stream = &cursor->process->streams[stream];
  cursor->zstd = ZSTD_createDCtx();
  cursor->records = calloc(DECODE_AT_ONCE, sizeof *cursor->records);
  if (cursor->zstd == NULL || cursor->records == NULL) {
    opgap_cursor_close(cursor);
    return NULL;
  }
  return cursor;
}

void opgap_cursor_close(struct opgap_cursor *cursor)
{
  if (cursor == NULL)
    return;
  ZSTD_freeDCtx(cursor->zstd);
  free(cursor->records);
  free(cursor->raw);
  free(cursor->chunk_names);
  free(cursor);
}

static bool reserve(void **memory, size_t *capacity, size_t wanted, size_t unit)
{
  if (wanted <= *capacity && *memory)
    return true;
  void *grown = realloc(*memory, (wanted ? wanted : 1) * unit);
  if (grown == NULL)
    return false;
  *memory = grown;
  *capacity = wanted;
  return true;
}

/* The next value of a column.  Most have one byte, times two; where ten bytes are left no step needs a test. */
static inline __attribute__((always_inline)) bool next_value(struct column *column, uint64_t *value)
{
  const uint8_t *at = column->at;
  if (__builtin_expect(column->end - at < 10, 0))
    return opgap_get_varint(&column->at, column->end, value);
  uint64_t v = *at++;
  if (v >= 128) {
    uint64_t byte = *at++;
    v = (v & 127) | (byte & 127) << 7;
    for (unsigned shift = 14; __builtin_expect(byte >= 128, 0); shift += 7) {
      if (shift > 63)
        return false;
      byte = *at++;
      v |= (byte & 127) << shift;
    }
  }
  *value = v;
  column->at = at;
  return true;
}

/* Sets up the columns.  Forgets only what the last chunk used: the table is large and a chunk has few events. */
static bool read_directory(struct decoder *decoder, const uint8_t **at, const uint8_t *end, uint64_t count)
{
  if (count > (uint64_t)(end - *at) / sizeof(struct opgap_column_entry))
    return false;
  decoder->event = decoder->depth = decoder->end = (struct column){0};
  while (decoder->used_count > 0)
    decoder->in_use[decoder->used[--decoder->used_count]] = false;
  const uint8_t *entry_at = *at, *data = *at + count * sizeof(struct opgap_column_entry);
  for (uint64_t i = 0; i < count; i++, entry_at += sizeof(struct opgap_column_entry)) {
    struct opgap_column_entry entry;
    memcpy(&entry, entry_at, sizeof entry);
    if (entry.bytes > (uint64_t)(end - data))
      return false;
    struct column column = {data, data + entry.bytes, 0};
    data += entry.bytes;
    if (entry.event == 0 && entry.field == OPGAP_COLUMN_EVENT)
      decoder->event = column;
    else if (entry.event == 0 && entry.field == OPGAP_COLUMN_DEPTH)
      decoder->depth = column;
    else if (entry.event == 0 && entry.field == OPGAP_COLUMN_END)
      decoder->end = column;
    else if (entry.event < OPGAP_MAX_EVENTS && entry.field < COLUMNS) {
      if (!decoder->in_use[entry.event]) {
        decoder->in_use[entry.event] = true;
        decoder->used[decoder->used_count++] = entry.event;
        memset(decoder->plans[entry.event].columns, 0, sizeof decoder->plans[0].columns);
      }
      decoder->plans[entry.event].columns[entry.field] = column;
    }
  }
  *at = data;
  return true;
}

static bool read_names(struct opgap_cursor *cursor, const uint8_t *at, const uint8_t *end, size_t *count)
{
  uint64_t names;
  if (!opgap_get_varint(&at, end, &names) || names > (uint64_t)(end - at) / 2 ||
      !reserve((void **)&cursor->chunk_names, &cursor->chunk_name_capacity, names, sizeof *cursor->chunk_names))
    return false;
  for (uint64_t i = 0; i < names; i++) {
    uint64_t id, length;
    if (!opgap_get_varint(&at, end, &id) || !opgap_get_varint(&at, end, &length) || length > (uint64_t)(end - at))
      return false;
    add_name(cursor->process, id, at, length);
    cursor->chunk_names[i] = length && id <= UINT32_MAX ? (uint32_t)id : NAME_LOST;
    at += length;
  }
  *count = names;
  return true;
}

static uint64_t name_of_chunk(const struct opgap_cursor *cursor, uint64_t index)
{
  return index && index <= cursor->chunk_name_count ? cursor->chunk_names[index - 1] : 0;
}

/* Whether a column repeats one value, which is then stored.  Not so a column of deltas unless it stays at 0. */
static bool is_constant(const struct opgap_cursor *cursor, const struct column *column, uint8_t coding, uint64_t *value)
{
  size_t size = (size_t)(column->end - column->at);
  if (size == 0 || column->at[0] >= 128 || memcmp(column->at, column->at + 1, size - 1) != 0)
    return false;
  *value = coding == OPGAP_NAME ? name_of_chunk(cursor, column->at[0]) : column->at[0];
  return coding != OPGAP_DELTA || *value == 0;
}

static void make_plan(const struct opgap_cursor *cursor, struct plan *plan, const struct opgap_event *row)
{
  plan->record = (struct opgap_record){.event = row->id};
  plan->left = UINT64_MAX;
  plan->varying_count = 0;
  unsigned columns = OPGAP_COLUMN_FIELD + row->field_count;
  for (unsigned i = row->kind == OPGAP_SPAN ? 0 : 1; i < columns; i++) {
    const struct column *column = &plan->columns[i];
    uint8_t coding = i < OPGAP_COLUMN_FIELD ? OPGAP_PLAIN : row->fields[i - OPGAP_COLUMN_FIELD].coding;
    uint64_t value;
    if (i == OPGAP_COLUMN_DURATION || !is_constant(cursor, column, coding, &value)) {
      plan->varying[plan->varying_count++] = (struct varying){*column, (uint8_t)i, coding};
      continue;
    }
    if (i == OPGAP_COLUMN_STATUS)
      plan->record.status = (uint32_t)value;
    else
      plan->record.field[i - OPGAP_COLUMN_FIELD] = value;
    if ((size_t)(column->end - column->at) < plan->left)
      plan->left = (size_t)(column->end - column->at);
  }
}

static inline bool decode_record(struct opgap_cursor *cursor, struct decoder *decoder, struct opgap_record *record)
{
  uint64_t event, depth, value;
  if (!next_value(&decoder->event, &event) || !next_value(&decoder->depth, &depth) ||
      !next_value(&decoder->end, &value) || event >= OPGAP_MAX_EVENTS || !decoder->in_use[event])
    return false;
  struct plan *plan = &decoder->plans[event];
  if (plan->left-- == 0)
    return false;
  *record = plan->record;
  decoder->end.previous += opgap_unzigzag(value);
  record->depth = (uint8_t)depth;
  record->end_ns = record->start_ns = decoder->end.previous;
  struct varying *varying = plan->varying, *end = varying + plan->varying_count;
  for (; varying < end; varying++) {
    if (!next_value(&varying->column, &value))
      return false;
    if (varying->index == OPGAP_COLUMN_DURATION) {
      record->start_ns -= opgap_unzigzag(value);
      continue;
    }
    if (varying->index == OPGAP_COLUMN_STATUS) {
      record->status = (uint32_t)value;
      continue;
    }
    if (varying->coding == OPGAP_DELTA)
      value = varying->column.previous += opgap_unzigzag(value);
    else if (varying->coding == OPGAP_NAME)
      value = name_of_chunk(cursor, value);
    record->field[varying->index - OPGAP_COLUMN_FIELD] = value;
  }
  return true;
}

/* Opens a chunk: its columns and names; its records come in decode_some. */
static bool open_chunk(struct opgap_cursor *cursor, const struct chunk *chunk)
{
  struct decoder *decoder = &cursor->decoder;
  uint64_t records, columns;
  if (!reserve((void **)&cursor->raw, &cursor->raw_capacity, chunk->raw_bytes, 1))
    return false;
  size_t size = ZSTD_decompressDCtx(cursor->zstd, cursor->raw, chunk->raw_bytes, chunk->payload, chunk->stored_bytes);
  note_touched(cursor->process, chunk->stored_bytes);
  if (ZSTD_isError(size))
    return false;
  const uint8_t *at = cursor->raw, *end = cursor->raw + size;
  if (!opgap_get_varint(&at, end, &records) || !opgap_get_varint(&at, end, &columns) ||
      records > OPGAP_CHUNK_RECORDS_MAX || records > chunk->records)
    return false;
  if (!read_directory(decoder, &at, end, columns) || !read_names(cursor, at, end, &cursor->chunk_name_count))
    return false;
  for (unsigned i = 0; i < decoder->used_count; i++) {
    const struct opgap_event *row = cursor->process->events[decoder->used[i]];
    decoder->in_use[decoder->used[i]] = row != NULL; /* an event that is not described is not decoded */
    if (row != NULL)
      make_plan(cursor, &decoder->plans[row->id], row);
  }
  decoder->end.previous = cursor->process->shift_ns;
  cursor->records_left = records;
  atomic_fetch_add(&cursor->process->invalid, chunk->records - records); /* that only the header claims */
  return true;
}

static void decode_some(struct opgap_cursor *cursor)
{
  cursor->record_at = cursor->record_count = 0;
  while (cursor->records_left > 0 && cursor->record_count < DECODE_AT_ONCE) {
    if (!decode_record(cursor, &cursor->decoder, &cursor->records[cursor->record_count])) {
      atomic_fetch_add(&cursor->process->invalid, cursor->records_left);
      cursor->records_left = 0;
      return;
    }
    cursor->record_count++;
    cursor->records_left--;
  }
}

size_t opgap_cursor_batch(struct opgap_cursor *cursor, const struct opgap_record **records)
{
  while (cursor->record_at == cursor->record_count) {
    if (cursor->records_left == 0) {
      if (cursor->next_chunk == cursor->stream->count)
        return 0;
      const struct chunk *chunk = &cursor->stream->chunks[cursor->next_chunk++];
      if (!open_chunk(cursor, chunk))
        atomic_fetch_add(&cursor->process->invalid, chunk->records);
    }
    decode_some(cursor);
  }
  size_t count = cursor->record_count - cursor->record_at;
  *records = cursor->records + cursor->record_at;
  cursor->record_at = cursor->record_count;
  return count;
}

const struct opgap_record *opgap_cursor_next(struct opgap_cursor *cursor)
{
  if (cursor->record_at == cursor->record_count) {
    const struct opgap_record *unused;
    if (opgap_cursor_batch(cursor, &unused) == 0)
      return NULL;
    cursor->record_at = 0;
  }
  return &cursor->records[cursor->record_at++];
}
