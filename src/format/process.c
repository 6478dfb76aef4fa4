/* A process file, from opening to refreshing: mapped, its chunks taken, and what the ring holds beyond them. */
#include "format/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/recover.h"

#define TORN_TRIES 20u

/* ---- memory ---- */

void *process_keep(struct process *process, size_t size)
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

void process_free_blocks(struct block **list)
{
  while (*list) {
    struct block *block = *list;
    *list = block->next;
    free(block);
  }
}

static struct damage_part *damage_part(struct damage *damage)
{
  struct damage_part *grown = realloc(damage->parts, (damage->count + 1) * sizeof *grown);
  if (grown == NULL)
    return NULL;
  damage->parts = grown;
  free(damage->told);
  damage->told = NULL;
  return &grown[damage->count];
}

void damage_add(struct damage *damage, const char *fmt, ...)
{
  struct damage_part *part = damage_part(damage);
  va_list arguments;
  if (part == NULL)
    return;
  *part = (struct damage_part){0};
  va_start(arguments, fmt);
  if (vasprintf(&part->text, fmt, arguments) < 0)
    part->text = NULL;
  va_end(arguments);
  damage->count += part->text != NULL;
}

void damage_add_bytes(struct damage *damage, uint64_t from, uint64_t to, uint64_t holes)
{
  struct damage_part *part = damage_part(damage);
  if (part == NULL)
    return;
  *part = (struct damage_part){.from = from, .to = to, .holes = holes};
  damage->count++;
}

void damage_cut(struct damage *damage, unsigned count)
{
  while (damage->count > count)
    free(damage->parts[--damage->count].text);
  free(damage->told);
  damage->told = NULL;
}

/* All bytes that are damaged, wherever. */
static void print_bytes(const struct damage *damage, FILE *line)
{
  const struct damage_part *first = NULL;
  unsigned places = 0;
  uint64_t bytes = 0, holes = 0;
  for (unsigned i = 0; i < damage->count; i++) {
    const struct damage_part *part = &damage->parts[i];
    if (part->text != NULL)
      continue;
    first = first ? first : part;
    places++;
    bytes += part->to - part->from;
    holes += part->holes;
  }
  if (first == NULL)
    return;
  fprintf(line, "bytes %llu to %llu", (unsigned long long)first->from, (unsigned long long)first->to);
  if (places > 1)
    fprintf(line, " and %u more %s", places - 1, places > 2 ? "places" : "place");
  fprintf(line, " are damaged or cut off (%llu bytes%s", (unsigned long long)bytes, places > 1 ? " in all" : "");
  if (holes > 0)
    fprintf(line, ", of which %llu are holes of the file and were skipped", (unsigned long long)holes);
  fputc(')', line);
}

const char *damage_line(struct damage *damage, const char *path)
{
  size_t size;
  FILE *line = damage->count > 0 && damage->told == NULL ? open_memstream(&damage->told, &size) : NULL;
  if (line == NULL)
    return damage->told;
  bool bytes_told = false;
  for (unsigned i = 0; i < damage->count; i++) {
    const char *text = damage->parts[i].text;
    if (text == NULL && bytes_told)
      continue;
    if (i > 0)
      fputs("; ", line);
    else if (text == NULL || strncmp(text, path, strlen(path)) != 0)
      fprintf(line, "%s: ", path);
    if (text == NULL)
      print_bytes(damage, line);
    else
      fputs(text, line);
    bytes_told |= text == NULL;
  }
  if (fclose(line) != 0) {
    free(damage->told);
    damage->told = NULL;
  }
  return damage->told;
}

void damage_free(struct damage *damage)
{
  damage_cut(damage, 0);
  free(damage->parts);
}

/* ---- what it says of itself ---- */

const char *process_info(const struct process *process, const char *key)
{
  for (size_t i = process->pair_count; i-- > 0;) /* the last one said counts: END comes after INFO */
    if (strcmp(process->pairs[i].key, key) == 0)
      return process->pairs[i].value;
  return NULL;
}

static int64_t info_number(const struct process *process, const char *key, int64_t missing)
{
  const char *value = process_info(process, key);
  char *end;
  if (value == NULL || *value == 0)
    return missing;
  long long n = strtoll(value, &end, 10);
  return *end ? missing : n;
}

static const char *const ended_names[] = {[OPGAP_ENDED_UNKNOWN] = "unknown",
                                          [OPGAP_ENDED_CLEAN] = "clean",
                                          [OPGAP_ENDED_EXEC] = "exec",
                                          [OPGAP_ENDED_KILLED] = "killed",
                                          [OPGAP_ENDED_RUNNING] = "running"};

const char *opgap_ended_name(enum opgap_ended ended)
{
  return ended_names[ended];
}

static enum opgap_ended ended_by_name(const char *name)
{
  unsigned ended = sizeof ended_names / sizeof *ended_names;
  while (name != NULL && ended-- > 0)
    if (strcmp(ended_names[ended], name) == 0)
      return (enum opgap_ended)ended;
  return OPGAP_ENDED_UNKNOWN;
}

/* What streams say, or the end, which knows of threads that had no chunk after their losses. */
static uint64_t lost_by(const struct process *process, uint64_t streams, const char *key)
{
  uint64_t told = (uint64_t)info_number(process, key, 0);
  return told > streams ? told : streams;
}

static void fill_losses(struct process *process)
{
  struct opgap_process_info *info = &process->info;
  uint64_t all = 0, interrupts = 0, too_deep = 0;
  for (unsigned i = 0; i < info->stream_count; i++) {
    if (info->streams[i].kind == OPGAP_STREAM_PROCESS) /* the tracer's own records */
      continue;
    all += info->streams[i].lost;
    interrupts += info->streams[i].interrupts;
    too_deep += info->streams[i].too_deep;
  }
  info->lost_records = lost_by(process, all, "lost_records");
  const struct {
    enum opgap_loss loss;
    uint64_t count;
  } told[] = {{OPGAP_LOSS_INTERRUPT, lost_by(process, interrupts, "lost_interrupts")},
              {OPGAP_LOSS_TOO_DEEP, lost_by(process, too_deep, "lost_too_deep")},
              {OPGAP_LOSS_UNWRITTEN, lost_by(process, 0, "lost_unwritten")}};
  uint64_t rest = info->lost_records;
  for (unsigned i = 0; i < sizeof told / sizeof *told; i++) {
    uint64_t count = told[i].count < rest ? told[i].count : rest;
    info->lost_by[told[i].loss] = count;
    rest -= count;
  }
  info->lost_by[process->tells_loss ? OPGAP_LOSS_NO_ROOM : OPGAP_LOSS_UNKNOWN] = rest;
}

static void fill_info(struct process *process)
{
  struct opgap_process_info *info = &process->info;
  const char *text;
  info->ppid = (int32_t)info_number(process, "ppid", 0);
  info->rank = (int32_t)info_number(process, "rank", -1);
  info->local_rank = (int32_t)info_number(process, "local_rank", -1);
  info->world_size = (int32_t)info_number(process, "world_size", -1);
  info->host = (text = process_info(process, "host")) ? text : "";
  info->command = (text = process_info(process, "command")) ? text : "";
  info->boot_id = (text = process_info(process, "boot_id")) ? text : "";
  info->realtime_offset_ns = info_number(process, "realtime_offset_ns", 0) - (int64_t)process->shift_ns;
  info->forked = info_number(process, "forked", 0) != 0;
  info->kill_safe = info_number(process, "kill_safe", 0) != 0;
  info->exit_status = (int32_t)info_number(process, "exit_status", 0);
  info->invalid_records = (uint64_t)info_number(process, "invalid_records", 0);
  text = process->end_seen ? process_info(process, "ended") : NULL;
  info->ended = ended_by_name(text);
  fill_losses(process);
  info->lost_threads = (uint64_t)info_number(process, "lost_threads", 0);
  info->lost_threads_confined = (uint64_t)info_number(process, "lost_threads_confined", 0);
  text = process_info(process, "stopped");
  info->size_reached = text != NULL && strcmp(text, OPGAP_SIZE_REACHED) == 0;
  if (text != NULL && !info->size_reached) {
    info->complete = false;
    damage_add(&process->damage, "recording stopped early: %s", text);
  }
  if (process->missing_chunks) {
    info->complete = false;
    damage_add(&process->damage, process->missing_chunks == 1 ? "%u chunk is missing" : "%u chunks are missing",
               process->missing_chunks);
  }
  if (!process->end_seen) {
    info->complete = false;
    damage_add(&process->damage,
               "the end is missing: writing stopped early (full disk, size limit), or the process was killed and its "
               "ring is gone");
  }
}

/* ---- its file ---- */

/* Version 1 began without a checksum. */
static bool header_sound(const struct opgap_file_header *header)
{
  return (header->version == 1 && (header->features & OPGAP_FILE_HAS_CRC) == 0) ||
         header->header_crc == opgap_crc32(0, header, offsetof(struct opgap_file_header, header_crc));
}

static void older_part_damaged(struct process *process, uint64_t bytes)
{
  process->info.complete = false;
  process->info.damaged_bytes += bytes;
  damage_add(&process->damage, "%s" OPGAP_OLDER_PART ": its header is damaged or cut off: the part is left out",
             process->path);
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
  bool regular = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && status.st_size < (off_t)sizeof(struct opgap_file_header))
    older_part_damaged(process, (uint64_t)status.st_size);
  if (regular && status.st_size >= (off_t)sizeof(struct opgap_file_header)) {
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED && (process->older = calloc(1, sizeof *process->older)) != NULL) {
      *process->older = (struct mapping){.bytes = bytes, .size = (uint64_t)status.st_size, .fd = fd};
      process->older_inode = status.st_ino;
      return;
    } else if (bytes != MAP_FAILED) {
      munmap(bytes, (size_t)status.st_size);
    }
  }
  if (fd >= 0)
    close(fd);
}

/* Is it the part right before the file?  It may be the file itself, if the process died while it began a part. */
static bool older_part_fits(struct process *process, const struct opgap_file_header *header)
{
  struct opgap_file_header older;
  if (process->older == NULL || process->older_inode == process->inode)
    return false;
  memcpy(&older, process->older->bytes, sizeof older);
  if (!header_sound(&older)) {
    older_part_damaged(process, process->older->size);
    return false;
  }
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
  bool sound = header_sound(&header);
  if (header.min_version > OPGAP_TRACE_VERSION || (sound && header.header_bytes != sizeof header)) {
    snprintf(error, error_size, "%s: %swritten by a newer opgap (format %u, this one reads up to %u): update opgap",
             process->path, sound ? "" : "its header is damaged, or it was ", header.min_version, OPGAP_TRACE_VERSION);
    return false;
  }
  return true;
}

static void keep_first(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct opgap_chunk_header *first = context;
  (void)payload;
  if (first->magic == 0)
    *first = *header;
}

/* The header, with what its first chunk says where it is damaged; then the description says the pid. */
static struct opgap_file_header get_header(struct process *process, const struct mapping *file)
{
  struct opgap_file_header header;
  struct opgap_chunk_header first = {0};
  uint64_t most = sizeof header + sizeof first + OPGAP_CHUNK_MAX;
  memcpy(&header, file->bytes, sizeof header);
  if (header_sound(&header))
    return header;
  process->header_damaged = true;
  process_damaged(process, file, 0, sizeof header);
  opgap_walk_chunks(file->bytes, file->size < most ? file->size : most, sizeof header, keep_first, NULL, NULL, &first);
  if (first.magic != 0) {
    header.start_ns = first.first_ns;
    header.first_sequence = first.sequence;
    header.kept_from_ns = 0;
  }
  header.features = 0;
  return header;
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
  if (bytes == MAP_FAILED) {
    snprintf(error, size, "%s: cannot be mapped: %s", process->path, strerror(errno));
    close(fd);
    free(mapping);
    return false;
  }
  mapping->bytes = bytes;
  mapping->fd = fd;
  mapping->next = process->mappings;
  process->mappings = mapping;
  return true;
}

static void close_file(struct mapping *mapping)
{
  if (mapping->fd >= 0)
    close(mapping->fd);
  mapping->fd = -1;
}

static void unmap(struct mapping *mapping)
{
  close_file(mapping);
  munmap(mapping->bytes, mapping->size);
  free(mapping);
}

/* ---- file and ring together ---- */

/* The file is not the last word: there is no END, or one before an exec, which may have failed. */
static bool may_go_on(const struct process *process)
{
  const char *ended = process->end_seen ? process_info(process, "ended") : NULL;
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
                                                      chunks_visit, chunks_damaged, chunks_data, &visit);
  process->file_state.goes_on = may_go_on(process);
  if (!ring_save(process)) {
    snprintf(error, size, "%s: out of memory", process->path);
    return false;
  }
  process->torn = false;
  *taken = process->file_state.goes_on && ring_take(process);
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
    ring_give_back(process);
    if (!map_file(process, process->sound, error, size) || !take_once(process, &taken, error, size))
      return false;
  }
  /* a chunk cut short at the end of the file is no damage where the ring still has its records */
  if (!taken && process->sound < process->file_size)
    process_damaged(process, process->mappings, process->sound, process->file_size);
  for (struct mapping *file = process->mappings; file != NULL; file = file->next)
    close_file(file);
  if (process->torn || process->replaced) {
    process->info.complete = false;
    damage_add(&process->damage, "written to all the time while it was read: its last records may be missing");
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
  uint64_t sound = opgap_walk_chunks(process->older->bytes, process->older->size, sizeof header, chunks_visit,
                                     chunks_damaged, chunks_data, &visit);
  if (sound < process->older->size)
    process_damaged(process, process->older, sound, process->older->size);
  close_file(process->older);
  process->older_size = process->older->size;
}

/* ---- life ---- */

void process_free(struct process *process)
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
  process_free_blocks(&process->blocks);
  process_free_blocks(&process->tail_blocks);
  damage_free(&process->damage);
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
  process_share_pages(process, 1);
  process->info.complete = true;
  map_older_part(process);
  if (!map_file(process, 0, error, size) || !header_ok(process, process->mappings, error, size)) {
    process_free(process);
    return NULL;
  }
  struct opgap_file_header header = get_header(process, process->mappings);
  process->info.pid = header.pid;
  process->tells_loss = header.features & OPGAP_FILE_TELLS_LOSS;
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
struct process *process_read(const char *path, char *error, size_t size)
{
  struct process *process = read_process(path, error, size);
  for (unsigned i = 1; process != NULL && process->replaced && i < TORN_TRIES; i++) {
    process_free(process);
    process = read_process(path, error, size);
  }
  return process;
}

void process_shift_clock(struct process *process, int64_t shift)
{
  process->shift_ns = (uint64_t)shift; /* added modulo 2^64, so that it may be negative */
  process->info.start_ns += process->shift_ns;
  process->info.end_ns += process->shift_ns;
  process->info.realtime_offset_ns -= shift;
  for (unsigned i = 0; i < process->info.stream_count; i++) {
    process->stream_infos[i].first_ns += process->shift_ns;
    process->stream_infos[i].last_ns += process->shift_ns;
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
    while (old < stream->count && chunk_header(stream->chunks[old]).last_ns + process->shift_ns < before_ns)
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

bool process_refresh(struct process **at, uint64_t from_ns, char *error, size_t size)
{
  struct process *process = *at;
  struct stat status;
  bool grown = stat(process->path, &status) == 0 && (uint64_t)status.st_size > process->sound;
  if (!process->file_state.goes_on && !grown) {
    forget(process, from_ns);
    return true;
  }
  ring_give_back(process);
  forget(process, from_ns);
  if (!map_file(process, process->sound, error, size) || !take_all(process, error, size))
    return false;
  if (!process->replaced)
    return true;
  struct process *anew = process_read(process->path, error, size);
  if (anew == NULL)
    return false;
  if (process->shift_ns != 0)
    process_shift_clock(anew, (int64_t)process->shift_ns);
  process_free(process);
  *at = anew;
  forget(anew, from_ns);
  return true;
}
