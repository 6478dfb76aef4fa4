/* The ring of a process that is alive or was killed: what it holds beyond the file, in memory. */
#include "format/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/recover.h"

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
  opgap_consumer_set_guest_moved(consumer, opgap_guest_moved);
  arena->chunk_sequence = process->last_sequence;
  for (unsigned i = 0; i < process->info.stream_count; i++)
    opgap_consumer_skip(consumer, process->stream_infos[i].serial, process->streams[i].position);
  long records = opgap_consumer_drain(consumer, opgap_recover_anchor, OPGAP_DRAIN_DEAD);
  if (records >= 0)
    opgap_consumer_end(consumer, alive ? "running" : opgap_arena_ended(arena), arena->exit_status);
  free(scratch);
  return records >= 0;
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
  const char *start = process_info(process, "start_time");
  if (opgap_arena_check(arena, *mapped) != NULL || arena->pid != process->info.pid || start == NULL ||
      strtoull(start, NULL, 10) != arena->start_time) {
    munmap(arena, *mapped);
    return NULL;
  }
  return arena;
}

bool ring_take(struct process *process)
{
  const char *ring = process_info(process, "ring");
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
    opgap_walk_chunks(process->tail, process->tail_size, 0, chunks_visit, NULL, NULL, &visit);
  process->in_tail = false;
  return taken;
}

/* ---- taking it back ---- */

bool ring_save(struct process *process)
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

void ring_give_back(struct process *process)
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
  damage_cut(&process->damage, state->damage_count);
  process->last_sequence = state->last_sequence;
  process->missing_chunks = state->missing_chunks;
  process->end_seen = state->end_seen;
  process->tail_size = 0;
  process_free_blocks(&process->tail_blocks);
}
