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

struct name {
  const char *bytes;
  uint32_t length;
};

struct chunk {
  const uint8_t *payload;
  uint32_t stored_bytes, raw_bytes, records;
};

struct stream {
  struct chunk *chunks;
  size_t count, capacity;
};

struct pair {
  char *key, *value;
};

struct block { /* memory that lives as long as its process */
  struct block *next;
  char bytes[];
};

struct process {
  struct opgap_process_info info;
  char *path;
  uint8_t *bytes;       /* the mapped file */
  uint64_t size, sound; /* sound: up to the end of the last sound chunk */
  uid_t owner;          /* of the file */
  uint8_t *older;       /* the part before it, mapped; NULL: none */
  uint64_t older_size;
  ino_t inode, older_inode;
  uint8_t *tail; /* chunks drained from the process's ring, in memory */
  size_t tail_size, tail_capacity;
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
  _Atomic(_Atomic(struct name *) *) names[NAME_PAGES];
  _Atomic uint32_t name_limit;
  _Atomic uint64_t invalid;
  pthread_mutex_t lock; /* blocks, and who adds a name */
  struct block *blocks;
};

struct opgap_trace {
  struct process **processes;
  unsigned count;
  char **damage;
  unsigned damage_count;
};

/* A column: its bytes, and where the next value is. */
struct column {
  const uint8_t *at, *end;
  uint64_t previous;
};

struct decoder {
  struct column event, depth, end;
  uint16_t used[OPGAP_MAX_EVENTS]; /* events with columns in this chunk */
  unsigned used_count;
  struct column columns[OPGAP_MAX_EVENTS][OPGAP_COLUMN_FIELD + OPGAP_MAX_FIELDS];
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
  block->next = process->blocks;
  process->blocks = block;
  pthread_mutex_unlock(&process->lock);
  return block->bytes;
}

static void add_damage(struct opgap_trace *trace, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_damage(struct opgap_trace *trace, const char *fmt, ...)
{
  char **grown = realloc(trace->damage, (trace->damage_count + 1) * sizeof *grown);
  char *line = NULL;
  va_list arguments;
  if (grown == NULL)
    return;
  trace->damage = grown;
  va_start(arguments, fmt);
  if (vasprintf(&line, fmt, arguments) < 0)
    line = NULL;
  va_end(arguments);
  if (line)
    trace->damage[trace->damage_count++] = line;
}

static void forget_damage(struct opgap_trace *trace, unsigned count)
{
  while (trace->damage_count > count)
    free(trace->damage[--trace->damage_count]);
}

/* ---- the file's chunks ---- */

struct visit {
  struct opgap_trace *trace;
  struct process *process;
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
                                            .first_ns = header->first_ns,
                                            .last_ns = header->last_ns,
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
  stream->chunks[stream->count++] = (struct chunk){payload, header->stored_bytes, header->raw_bytes, header->records};
  struct opgap_stream_info *info = &process->stream_infos[stream - process->streams];
  if (header->first_ns < info->first_ns)
    info->first_ns = header->first_ns;
  if (header->last_ns > info->last_ns)
    info->last_ns = header->last_ns;
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
  if (header->sequence > process->last_sequence + 1)
    process->missing_chunks += header->sequence - process->last_sequence - 1;
  process->last_sequence = header->sequence;
  process->end_seen = header->type == OPGAP_CHUNK_END;
  if (header->last_ns > process->info.end_ns)
    process->info.end_ns = header->last_ns;
  if (header->type == OPGAP_CHUNK_RECORDS) {
    add_records(process, header, payload);
    return;
  }
  if (header->type != OPGAP_CHUNK_INFO && header->type != OPGAP_CHUNK_SCHEMA && header->type != OPGAP_CHUNK_END)
    return; /* of a later version */
  uint8_t *raw = decompress(payload, header);
  if (raw == NULL) {
    add_damage(visit->trace, "%s: a description cannot be decompressed", process->path);
    process->info.complete = false;
    return;
  }
  if (header->type == OPGAP_CHUNK_SCHEMA)
    read_schema(process, raw, header->raw_bytes);
  else
    read_pairs(process, raw, raw + header->raw_bytes);
  free(raw);
}

static void note_damage(void *context, uint64_t from, uint64_t to)
{
  struct visit *visit = context;
  struct process *process = visit->process;
  process->info.damaged_bytes += to - from;
  process->info.complete = false;
  add_damage(visit->trace, "%s: bytes %llu to %llu are damaged or cut off (%llu bytes)", process->path,
             (unsigned long long)from, (unsigned long long)to, (unsigned long long)(to - from));
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

static void visit_skip(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  (void)payload;
  if (header->type == OPGAP_CHUNK_RECORDS)
    opgap_consumer_skip(context, header->serial, header->position);
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
  opgap_walk_chunks(process->bytes, process->size, sizeof(struct opgap_file_header), visit_skip, NULL, consumer);
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
static bool take_ring(struct opgap_trace *trace, struct process *process)
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
    process->torn |= stat(process->path, &status) == 0 && (uint64_t)status.st_size > process->size;
    return false;
  }
  uint64_t written;
  bool alive = opgap_arena_alive(arena), taken = drain_arena(process, arena, alive);
  munmap(arena, mapped);
  process->torn |=
      alive && pread(fd, &written, sizeof written, offsetof(struct opgap_arena, chunk_sequence)) == sizeof written &&
      written > process->last_sequence;
  close(fd);
  struct visit visit = {trace, process};
  if (taken)
    opgap_walk_chunks(process->tail, process->tail_size, 0, visit_chunk, note_damage, &visit);
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

static void fill_info(struct opgap_trace *trace, struct process *process)
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
  info->realtime_offset_ns = info_number(process, "realtime_offset_ns", 0);
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
    add_damage(trace, "%s: %lld threads found no room and were not recorded", process->path, (long long)threads);
  }
  if ((text = info_of(process, "stopped")) != NULL) {
    info->complete = false;
    add_damage(trace, "%s: recording stopped early: %s", process->path, text);
  }
  if (process->missing_chunks) {
    info->complete = false;
    add_damage(trace, "%s: %u chunks are missing", process->path, process->missing_chunks);
  }
  if (!process->end_seen) {
    info->complete = false;
    add_damage(trace,
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
    if (bytes != MAP_FAILED) {
      process->older = bytes;
      process->older_size = (uint64_t)status.st_size;
      process->older_inode = status.st_ino;
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
  memcpy(&older, process->older, sizeof older);
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

static bool header_ok(const struct process *process, char *error, size_t error_size)
{
  struct opgap_file_header header;
  if (process->size < sizeof header) {
    snprintf(error, error_size, "%s: %s", process->path,
             process->size ? "too short for an opgap trace" : "the file is empty");
    return false;
  }
  memcpy(&header, process->bytes, sizeof header);
  if (memcmp(header.magic, OPGAP_TRACE_MAGIC, sizeof header.magic) != 0) {
    snprintf(error, error_size, "%s: not an opgap trace", process->path);
    return false;
  }
  if (header.min_version > OPGAP_TRACE_VERSION || header.header_bytes != sizeof header) {
    snprintf(error, error_size, "%s: written by a newer opgap (format %u, this one reads up to %u): update opgap",
             process->path, header.min_version, OPGAP_TRACE_VERSION);
    return false;
  }
  return true;
}

static bool map_trace_file(struct process *process, char *error, size_t size)
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
  process->size = (uint64_t)status.st_size;
  process->owner = status.st_uid;
  process->inode = status.st_ino;
  process->info.stored_bytes = process->size;
  if (process->size) {
    void *bytes = mmap(NULL, process->size, PROT_READ, MAP_PRIVATE, fd, 0);
    process->bytes = bytes == MAP_FAILED ? NULL : bytes;
  }
  close(fd);
  if (process->size && process->bytes == NULL) {
    snprintf(error, size, "%s: cannot be mapped: %s", process->path, strerror(errno));
    return false;
  }
  return true;
}

static void process_free(struct process *process)
{
  if (process == NULL)
    return;
  for (unsigned i = 0; i < process->info.stream_count; i++)
    free(process->streams[i].chunks);
  free(process->streams);
  free(process->stream_infos);
  free(process->pairs);
  free(process->tail);
  free(process->path);
  if (process->bytes)
    munmap(process->bytes, process->size);
  if (process->older)
    munmap(process->older, process->older_size);
  while (process->blocks) {
    struct block *block = process->blocks;
    process->blocks = block->next;
    free(block);
  }
  pthread_mutex_destroy(&process->lock);
  free(process);
}

/* The file is not the last word: there is no END, or one before an exec, which may have failed. */
static bool may_go_on(const struct process *process)
{
  const char *ended = process->end_seen ? info_of(process, "ended") : NULL;
  return ended == NULL || strcmp(ended, "exec") == 0;
}

/* NULL and one line, or a process that is not in the trace's list yet. */
static struct process *read_process(struct opgap_trace *trace, const char *path, char *error, size_t size)
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
  atomic_store(&process->name_limit, 1);
  map_older_part(process);
  if (!map_trace_file(process, error, size) || !header_ok(process, error, size)) {
    process_free(process);
    return NULL;
  }
  struct opgap_file_header header;
  memcpy(&header, process->bytes, sizeof header);
  process->info.pid = header.pid;
  process->info.start_ns = process->info.end_ns = header.start_ns;
  struct visit visit = {trace, process};
  if (older_part_fits(process, &header)) {
    struct opgap_file_header older;
    memcpy(&older, process->older, sizeof older);
    begin_part(process, &older);
    opgap_walk_chunks(process->older, process->older_size, sizeof older, visit_chunk, note_damage, &visit);
    process->info.stored_bytes += process->older_size;
  } else {
    if (process->older) /* not of this file, or the file itself */
      munmap(process->older, process->older_size);
    process->older = NULL;
    begin_part(process, &header);
  }
  unsigned damage_before = trace->damage_count;
  uint64_t sound = opgap_walk_chunks(process->bytes, process->size, sizeof header, visit_chunk, note_damage, &visit);
  process->sound = sound;
  bool cut_tail = sound < process->size;
  if (may_go_on(process) && take_ring(trace, process) && cut_tail &&
      process->info.damaged_bytes == process->size - sound) {
    /* the process died while it wrote this chunk; the ring still had its records */
    forget_damage(trace, damage_before);
    process->info.damaged_bytes = 0;
    process->info.complete = true;
  }
  struct stat status;
  process->torn |= stat(process->path, &status) == 0 && status.st_ino != process->inode; /* another part has begun */
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
  unsigned damage_before = trace->damage_count;
  struct process *process = read_process(trace, path, error, size);
  for (unsigned i = 1; process != NULL && process->torn && i < TORN_TRIES; i++) {
    forget_damage(trace, damage_before);
    process_free(process);
    process = read_process(trace, path, error, size);
  }
  if (process == NULL)
    return false;
  if (process->torn) {
    process->info.complete = false;
    add_damage(trace, "%s: written to all the time while it was read: its last records may be missing", process->path);
  }
  fill_info(trace, process);
  trace->processes[trace->count++] = process;
  return true;
}

/* ---- clocks ---- */

static bool same_clock(const struct process *x, const struct process *y)
{
  return strcmp(x->info.boot_id, y->info.boot_id) == 0;
}

static int64_t realtime_start(const struct process *process)
{
  return (int64_t)process->info.start_ns + process->info.realtime_offset_ns;
}

static void shift_clock(struct process *process, int64_t shift)
{
  process->shift_ns = (uint64_t)shift; /* added modulo 2^64, so that it may be negative */
  process->info.start_ns += process->shift_ns;
  process->info.end_ns += process->shift_ns;
  process->info.realtime_offset_ns -= shift;
  for (unsigned i = 0; i < process->info.stream_count; i++) {
    process->stream_infos[i].first_ns += process->shift_ns;
    process->stream_infos[i].last_ns += process->shift_ns;
  }
}

/* CLOCK_MONOTONIC begins at each host's start: all processes are put on the clock of the one that started first. */
static void join_clocks(struct opgap_trace *trace)
{
  const struct process *first = trace->processes[0];
  for (unsigned i = 1; i < trace->count; i++)
    if (realtime_start(trace->processes[i]) < realtime_start(first))
      first = trace->processes[i];
  for (unsigned i = 0; i < trace->count; i++) {
    struct process *process = trace->processes[i];
    if (!same_clock(process, first))
      shift_clock(process, process->info.realtime_offset_ns - first->info.realtime_offset_ns);
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

static bool open_folder(struct opgap_trace *trace, const char *path, char *error, size_t size)
{
  DIR *folder = opendir(path);
  if (folder == NULL) {
    snprintf(error, size, "%s: %s", path, strerror(errno));
    return false;
  }
  unsigned bad = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL && trace->count < MAX_PROCESSES;) {
    char *file = NULL, why[512];
    if (!is_trace_name(entry->d_name) || asprintf(&file, "%s/%s", path, entry->d_name) < 0)
      continue;
    if (!add_process(trace, file, why, sizeof why)) {
      add_damage(trace, "%s", why);
      snprintf(error, size, "%s", why);
      bad++;
    }
    free(file);
  }
  closedir(folder);
  if (trace->count == 0 && bad == 0)
    snprintf(error, size, "%s: no process files (*.opgt) in this folder: is it an opgap trace?", path);
  return trace->count > 0;
}

struct opgap_trace *opgap_trace_open(const char *path, char *error, size_t size)
{
  struct opgap_trace *trace = calloc(1, sizeof *trace);
  struct stat status;
  bool ok = false;
  if (trace == NULL)
    snprintf(error, size, "%s: out of memory", path);
  else if (stat(path, &status) != 0)
    snprintf(error, size, "%s: %s", path, strerror(errno));
  else if (S_ISDIR(status.st_mode))
    ok = open_folder(trace, path, error, size);
  else
    ok = add_process(trace, path, error, size);
  if (!ok) {
    opgap_trace_close(trace);
    return NULL;
  }
  join_clocks(trace);
  qsort(trace->processes, trace->count, sizeof *trace->processes, by_start);
  return trace;
}

void opgap_trace_close(struct opgap_trace *trace)
{
  if (trace == NULL)
    return;
  for (unsigned i = 0; i < trace->count; i++) {
    struct process *process = trace->processes[i];
    for (unsigned page = 0; page < NAME_PAGES; page++)
      free(atomic_load(&process->names[page]));
    process_free(process);
  }
  for (unsigned i = 0; i < trace->damage_count; i++)
    free(trace->damage[i]);
  free(trace->damage);
  free(trace->processes);
  free(trace);
}

unsigned opgap_trace_process_count(const struct opgap_trace *trace)
{
  return trace->count;
}

const struct opgap_process_info *opgap_trace_process(const struct opgap_trace *trace, unsigned process)
{
  struct process *p = trace->processes[process];
  p->info.invalid_records += atomic_exchange(&p->invalid, 0);
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
  return index < trace->damage_count ? trace->damage[index] : NULL;
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
  return p->older ? write_all(fd, p->older, p->older_size) : 1;
}

int opgap_trace_copy(const struct opgap_trace *trace, unsigned process, int fd)
{
  const struct process *p = trace->processes[process];
  return write_all(fd, p->bytes, p->sound) == 0 ? write_all(fd, p->tail, p->tail_size) : -1;
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

uint32_t opgap_trace_name_limit(const struct opgap_trace *trace, unsigned process)
{
  return atomic_load(&trace->processes[process]->name_limit);
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
  if (id >= atomic_load(&process->name_limit))
    atomic_store(&process->name_limit, (uint32_t)id + 1);
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

/* Sets up the columns.  Clears only what the last chunk used: the table is large and a chunk has few events. */
static bool read_directory(struct decoder *decoder, const uint8_t **at, const uint8_t *end, uint64_t count)
{
  if (count > (uint64_t)(end - *at) / sizeof(struct opgap_column_entry))
    return false;
  decoder->event = decoder->depth = decoder->end = (struct column){0};
  while (decoder->used_count > 0)
    memset(decoder->columns[decoder->used[--decoder->used_count]], 0, sizeof decoder->columns[0]);
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
    else if (entry.event < OPGAP_MAX_EVENTS && entry.field < OPGAP_COLUMN_FIELD + OPGAP_MAX_FIELDS) {
      if (decoder->used_count == 0 || decoder->used[decoder->used_count - 1] != entry.event) {
        if (decoder->used_count == OPGAP_MAX_EVENTS)
          return false;
        decoder->used[decoder->used_count++] = entry.event;
      }
      decoder->columns[entry.event][entry.field] = column;
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
    cursor->chunk_names[i] = (uint32_t)id;
    at += length;
  }
  *count = names;
  return true;
}

static inline bool decode_record(struct opgap_cursor *cursor, struct decoder *decoder, struct opgap_record *record)
{
  uint64_t event, depth, value;
  if (!next_value(&decoder->event, &event) || !next_value(&decoder->depth, &depth) ||
      !next_value(&decoder->end, &value) || event >= OPGAP_MAX_EVENTS)
    return false;
  const struct opgap_event *row = cursor->process->events[event];
  if (row == NULL)
    return false;
  decoder->end.previous += opgap_unzigzag(value);
  record->event = (uint16_t)event;
  record->depth = (uint8_t)depth;
  record->end_ns = record->start_ns = decoder->end.previous;
  struct column *columns = decoder->columns[event];
  if (row->kind == OPGAP_SPAN) {
    if (!next_value(&columns[OPGAP_COLUMN_DURATION], &value))
      return false;
    record->start_ns -= opgap_unzigzag(value);
  }
  if (!next_value(&columns[OPGAP_COLUMN_STATUS], &value))
    return false;
  record->status = (uint32_t)value;
  for (unsigned f = 0; f < row->field_count; f++) {
    struct column *column = &columns[OPGAP_COLUMN_FIELD + f];
    if (!next_value(column, &value))
      return false;
    if (row->fields[f].coding == OPGAP_DELTA)
      value = column->previous += opgap_unzigzag(value);
    else if (row->fields[f].coding == OPGAP_NAME)
      value = value && value <= cursor->chunk_name_count ? cursor->chunk_names[value - 1] : 0;
    record->field[f] = value;
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
  if (ZSTD_isError(size))
    return false;
  const uint8_t *at = cursor->raw, *end = cursor->raw + size;
  if (!opgap_get_varint(&at, end, &records) || !opgap_get_varint(&at, end, &columns) ||
      records > OPGAP_CHUNK_RECORDS_MAX || records > chunk->records)
    return false;
  if (!read_directory(decoder, &at, end, columns) || !read_names(cursor, at, end, &cursor->chunk_name_count))
    return false;
  decoder->end.previous = cursor->process->shift_ns;
  cursor->records_left = records;
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
