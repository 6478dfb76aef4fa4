/* The chunks of a process: descriptions are read when they are met, records only found. */
#include "format/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <zstd.h>

#include "format/recover.h"

#define PAGES_OF_FILES (16u << 20) /* bytes that are kept, of all files */
#define PAGES_LEAST (256u << 10)   /* of one: less would be given back all the time */

void process_touched(struct process *process, size_t bytes)
{
  if (atomic_fetch_add_explicit(&process->touched, bytes, memory_order_relaxed) + bytes < process->touched_most)
    return;
  atomic_store_explicit(&process->touched, 0, memory_order_relaxed);
  for (const struct mapping *mapping = process->mappings; mapping != NULL; mapping = mapping->next)
    madvise(mapping->bytes, mapping->size, MADV_DONTNEED);
}

void process_share_pages(struct process *process, unsigned processes)
{
  process->touched_most = PAGES_OF_FILES / processes > PAGES_LEAST ? PAGES_OF_FILES / processes : PAGES_LEAST;
  process_touched(process, 0);
}

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
    char *copy = process_keep(process, key_length + length + 2);
    if (grown)
      process->pairs = grown;
    if (grown == NULL || copy == NULL)
      return;
    memcpy(copy, key, key_length);
    memcpy(copy + key_length + 1, at, length);
    process->pairs[process->pair_count++] = (struct pair){copy, copy + key_length + 1};
    if (process->header_damaged && strcmp(copy, "pid") == 0)
      process->info.pid = atoi(copy + key_length + 1);
    at += length;
  }
}

static void read_schema(struct process *process, const uint8_t *raw, size_t size)
{
  char *text = process_keep(process, size + OPGAP_MAX_EVENTS * (3 + OPGAP_MAX_FIELDS));
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
    const uint8_t **grown = realloc(stream->chunks, capacity * sizeof *grown);
    if (grown == NULL)
      return;
    stream->chunks = grown;
    stream->capacity = capacity;
  }
  uint64_t first_ns = header->first_ns + process->shift_ns, last_ns = header->last_ns + process->shift_ns;
  stream->chunks[stream->count++] = payload;
  if (!process->in_tail && header->position > stream->position)
    stream->position = header->position;
  struct opgap_stream_info *info = &process->stream_infos[stream - process->streams];
  if (first_ns < info->first_ns)
    info->first_ns = first_ns;
  if (last_ns > info->last_ns)
    info->last_ns = last_ns;
  info->records += header->records;
  info->lost = header->lost;
  info->interrupts = header->interrupts;
  info->too_deep = header->too_deep;
  size_t length = strnlen(header->name, sizeof header->name);
  if (length && (strlen(info->name) != length || memcmp(info->name, header->name, length) != 0)) {
    char *name = process_keep(process, length + 1);
    if (name) {
      memcpy(name, header->name, length);
      info->name = name;
    }
  }
  process->info.records += header->records;
}

void chunks_visit(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct visit *visit = context;
  struct process *process = visit->process;
  process_touched(process, header->stored_bytes);
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
    damage_add(&process->damage, "a description cannot be decompressed");
    process->info.complete = false;
    return;
  }
  if (header->type == OPGAP_CHUNK_SCHEMA)
    read_schema(process, raw, header->raw_bytes);
  else
    read_pairs(process, raw, raw + header->raw_bytes);
  free(raw);
}

static uint64_t hole_bytes(int fd, uint64_t from, uint64_t to)
{
  uint64_t holes = 0;
  for (uint64_t end; from < to; from = end) {
    uint64_t data = from;
    end = to;
    opgap_find_data(fd, &data, &end);
    holes += data - from;
  }
  return holes;
}

void process_damaged(struct process *process, const struct mapping *file, uint64_t from, uint64_t to)
{
  process->info.damaged_bytes += to - from;
  process->info.complete = false;
  damage_add_bytes(&process->damage, from, to, hole_bytes(file != NULL ? file->fd : -1, from, to));
}

/* The end of the file is judged when the ring has been asked: the process may be writing there. */
void chunks_damaged(void *context, uint64_t from, uint64_t to)
{
  struct visit *visit = context;
  const struct mapping *file = visit->mapping;
  if (to < file->size)
    process_damaged(visit->process, file, file->offset + from, file->offset + to);
}

/* A file that somebody made longer, or lost blocks of, may be mostly hole: gigabytes of it are not worth a search. */
void chunks_data(void *context, uint64_t *from, uint64_t *to)
{
  const struct mapping *file = ((struct visit *)context)->mapping;
  *from += file->offset;
  *to += file->offset;
  opgap_find_data(file->fd, from, to);
  *from -= file->offset;
  *to -= file->offset;
}
