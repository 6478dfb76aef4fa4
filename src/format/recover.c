#include "format/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "format/lineage.h"
#include "format/trace_format.h"

bool opgap_get_long_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      *value = v;
      return true;
    }
  }
  return false;
}

/* ---- chunks ---- */

static bool header_sound(const struct opgap_chunk_header *header)
{
  return header->magic == OPGAP_CHUNK_MAGIC && header->header_bytes == sizeof *header &&
         header->header_crc == opgap_crc32(0, header, offsetof(struct opgap_chunk_header, header_crc)) &&
         header->raw_bytes <= OPGAP_CHUNK_MAX && header->stored_bytes <= OPGAP_CHUNK_MAX;
}

static bool chunk_sound(const uint8_t *bytes, uint64_t size, uint64_t at, struct opgap_chunk_header *header)
{
  if (size - at < sizeof *header)
    return false;
  memcpy(header, bytes + at, sizeof *header);
  if (!header_sound(header) || size - at - sizeof *header < header->stored_bytes)
    return false;
  return header->payload_crc == opgap_crc32(0, bytes + at + sizeof *header, header->stored_bytes);
}

void opgap_find_data(int fd, uint64_t *from, uint64_t *to)
{
  off_t data = lseek(fd, (off_t)*from, SEEK_DATA);
  if (data < 0) {
    if (errno == ENXIO) /* a hole up to the end */
      *from = *to;
    return;
  }
  *from = (uint64_t)data < *to ? (uint64_t)data : *to;
  off_t hole = lseek(fd, data, SEEK_HOLE);
  if (hole > data && (uint64_t)hole < *to)
    *to = (uint64_t)hole;
}

/* Where the next chunk begins, maybe, at `at` or behind, at any offset: a damaged one costs only itself.  A magic that
 * lies across a hole's border has zeros in it and is none. */
static uint64_t next_magic(const uint8_t *bytes, uint64_t size, uint64_t at,
                           void (*data)(void *context, uint64_t *from, uint64_t *to), void *context)
{
  static const uint32_t magic = OPGAP_CHUNK_MAGIC;
  for (uint64_t to; at < size; at = to) {
    to = size;
    if (data)
      data(context, &at, &to);
    const uint8_t *next = memmem(bytes + at, to - at, &magic, sizeof magic);
    if (next)
      return (uint64_t)(next - bytes);
  }
  return size;
}

uint64_t opgap_walk_chunks(const uint8_t *bytes, uint64_t size, uint64_t from,
                           void (*visit)(void *context, const struct opgap_chunk_header *header,
                                         const uint8_t *payload),
                           void (*damaged)(void *context, uint64_t from, uint64_t to),
                           void (*data)(void *context, uint64_t *from, uint64_t *to), void *context)
{
  uint64_t at = from, sound_end = from;
  while (at < size) {
    struct opgap_chunk_header header;
    if (!chunk_sound(bytes, size, at, &header)) {
      at = next_magic(bytes, size, at + 1, data, context);
      continue;
    }
    if (at > sound_end && damaged)
      damaged(context, sound_end, at);
    visit(context, &header, bytes + at + sizeof header);
    at += sizeof header + header.stored_bytes;
    sound_end = at;
  }
  if (sound_end < size && damaged)
    damaged(context, sound_end, size);
  return sound_end;
}

/* ---- schema ---- */

static const char *get_text(const uint8_t **at, const uint8_t *end, char **text, const char *text_end)
{
  uint64_t length;
  if (!opgap_get_varint(at, end, &length) || length > (uint64_t)(end - *at) ||
      length + 1 > (uint64_t)(text_end - *text))
    return NULL;
  char *out = *text;
  memcpy(out, *at, length);
  out[length] = 0;
  *text += length + 1;
  *at += length;
  return out;
}

static bool get_row(const uint8_t **at, const uint8_t *end, struct opgap_event *row, char **text, const char *text_end)
{
  uint64_t id;
  memset(row, 0, sizeof *row);
  if (!opgap_get_varint(at, end, &id) || id == 0 || id >= OPGAP_MAX_EVENTS || end - *at < 2)
    return false;
  row->id = (uint16_t)id;
  row->kind = *(*at)++;
  row->flags = *(*at)++;
  row->name = get_text(at, end, text, text_end);
  row->category = get_text(at, end, text, text_end);
  row->status = get_text(at, end, text, text_end);
  if (!row->name || !row->category || !row->status || row->kind < OPGAP_SPAN || row->kind > OPGAP_SERIES ||
      *at == end || **at > OPGAP_MAX_FIELDS)
    return false;
  row->field_count = *(*at)++;
  for (unsigned f = 0; f < row->field_count; f++) {
    if (*at == end)
      return false;
    row->fields[f].coding = *(*at)++;
    row->fields[f].name = get_text(at, end, text, text_end);
    if (row->fields[f].name == NULL)
      return false;
  }
  return true;
}

unsigned opgap_schema_decode(const uint8_t *payload, size_t size, struct opgap_event *rows, unsigned max, char *text,
                             size_t text_size)
{
  const uint8_t *end = payload + size;
  const char *text_end = text + text_size;
  unsigned count = 0;
  while (payload < end && count < max && get_row(&payload, end, &rows[count], &text, text_end))
    count++;
  return count;
}

/* ---- arenas of others ---- */

static size_t slurp(const char *path, char *buffer, size_t size)
{
  size_t length = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t n;
    while (length + 1 < size && (n = read(fd, buffer + length, size - 1 - length)) > 0)
      length += (size_t)n;
    close(fd);
  }
  buffer[length] = 0;
  return length;
}

static bool same_boot(const struct opgap_arena *arena)
{
  char id[64];
  size_t n = slurp("/proc/sys/kernel/random/boot_id", id, sizeof id);
  while (n > 0 && id[n - 1] == '\n')
    id[--n] = 0;
  return n > 0 && strncmp(id, arena->boot_id, sizeof arena->boot_id) == 0;
}

static char *put_decimal(char *at, uint64_t number)
{
  char digits[24];
  int n = 0;
  do
    digits[n++] = (char)('0' + number % 10);
  while (number /= 10);
  while (n > 0)
    *at++ = digits[--n];
  return at;
}

/* Of a link such as pid:[4026531836]; 0: unknown. */
static uint64_t namespace_inode(const char *path)
{
  char link[64];
  ssize_t n = readlink(path, link, sizeof link - 1);
  uint64_t inode = 0;
  for (ssize_t i = 0; i < n; i++)
    if (link[i] >= '0' && link[i] <= '9')
      inode = inode * 10 + (uint64_t)(link[i] - '0');
  return inode;
}

uint64_t opgap_pid_namespace(void)
{
  return namespace_inode("/proc/self/ns/pid");
}

uint64_t opgap_root_folder(void)
{
  struct stat status = {0};
  uint64_t mounts = namespace_inode("/proc/self/ns/mnt");
  int fd = open("/", O_PATH | O_CLOEXEC);
  if (fd < 0)
    return 0;
  bool known = fstat(fd, &status) == 0 && mounts != 0;
  close(fd);
  return known ? ((uint64_t)status.st_ino * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)status.st_dev) + mounts : 0;
}

/* Whether the arena's paths mean the same here, so that a file that is not there is gone. */
static bool same_files(const struct opgap_arena *arena)
{
  return arena->root_folder != 0 && arena->root_folder == opgap_root_folder();
}

/* Its start time (field 22 of /proc/PID/stat); 0: there is no such process, or it has ended. */
static uint64_t start_of(int32_t pid)
{
  char path[64] = "/proc/", text[1024];
  strcpy(put_decimal(path + 6, (uint64_t)pid), "/stat");
  size_t length = slurp(path, text, sizeof text);
  const char *at = text + length;
  while (at > text && *at != ')')
    at--;
  if (at == text || at[1] == 0 || at[2] == 'Z' || at[2] == 'X')
    return 0;
  int field = 2;
  for (; *at && field < 22; at++)
    field += *at == ' ';
  uint64_t start = 0;
  for (; *at >= '0' && *at <= '9'; at++)
    start = start * 10 + (uint64_t)(*at - '0');
  return start;
}

bool opgap_arena_alive(const struct opgap_arena *arena)
{
  if (!same_boot(arena) || arena->pid <= 0)
    return false;
  if (arena->pid_namespace && arena->pid_namespace != opgap_pid_namespace())
    return true;
  uint64_t start = start_of(arena->pid);
  return start != 0 && start == arena->start_time;
}

static bool runs(int pid)
{
  return start_of(pid) != 0;
}

/* `now`, or, if the process has told when it ended, that time, by the rate of the clocks between its last anchor and
 * now. */
static struct opgap_anchor at_end(const struct opgap_arena *arena, struct opgap_anchor now)
{
  const struct opgap_anchor last = arena->last_anchor;
  uint64_t ticks = arena->end_ticks;
  if (ticks != 0 && !arena->ticks_are_tsc)
    return (struct opgap_anchor){ticks, ticks};
  if (ticks == 0 || last.ns >= now.ns || last.ticks >= now.ticks || ticks >= now.ticks)
    return now;
  if (ticks <= last.ticks)
    return last;
  double share = (double)(ticks - last.ticks) / (double)(now.ticks - last.ticks);
  return (struct opgap_anchor){.ticks = ticks, .ns = last.ns + (uint64_t)(share * (double)(now.ns - last.ns))};
}

struct opgap_anchor opgap_recover_anchor(const struct opgap_arena *arena)
{
  if (arena->death_anchor.ns != 0)
    return arena->death_anchor;
  if (!same_boot(arena))
    return arena->last_anchor;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  struct opgap_anchor now = {.ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
  now.ticks = now.ns;
#if defined(__x86_64__)
  if (arena->ticks_are_tsc)
    now.ticks = __builtin_ia32_rdtsc();
#endif
  return at_end(arena, now);
}

/* ---- folding a ring into its file ---- */

struct fold {
  struct opgap_consumer *consumer;
  struct opgap_event rows[OPGAP_MAX_EVENTS];
  unsigned row_count;
  uint32_t last_sequence;
  int fd;
  uint64_t end;
  char text[256 * 1024];
  uint8_t payload[1024 * 1024];
  _Alignas(64) uint8_t zstd[256 * 1024]; /* a decompression context: the traced program's heap is not ours */
};

static void find_data(void *context, uint64_t *from, uint64_t *to)
{
  opgap_find_data(((struct fold *)context)->fd, from, to);
}

static void visit_schema(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct fold *fold = context;
  fold->last_sequence = header->sequence;
  if (header->type != OPGAP_CHUNK_SCHEMA || header->raw_bytes > sizeof fold->payload)
    return;
  ZSTD_DCtx *zstd = ZSTD_initStaticDCtx(fold->zstd, sizeof fold->zstd);
  if (zstd == NULL)
    return;
  size_t size = ZSTD_decompressDCtx(zstd, fold->payload, sizeof fold->payload, payload, header->stored_bytes);
  if (!ZSTD_isError(size))
    fold->row_count =
        opgap_schema_decode(fold->payload, size, fold->rows, OPGAP_MAX_EVENTS, fold->text, sizeof fold->text);
}

static void visit_position(void *context, const struct opgap_chunk_header *header, const uint8_t *payload)
{
  struct fold *fold = context;
  (void)payload;
  if (header->type == OPGAP_CHUNK_RECORDS)
    opgap_consumer_skip(fold->consumer, header->serial, header->position);
}

bool opgap_within_file_limit(uint64_t end)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || end <= limit.rlim_cur;
}

static int fold_sink(void *context, const void *bytes, size_t size)
{
  struct fold *fold = context;
  const char *at = bytes;
  if (!opgap_within_file_limit(fold->end + size))
    return -EFBIG;
  for (size_t left = size; left > 0;) {
    ssize_t n = pwrite(fold->fd, at, left, (off_t)(fold->end + (size - left)));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      if (ftruncate(fold->fd, (off_t)fold->end) != 0)
        return -EIO;
      return -errno;
    }
    at += n;
    left -= (size_t)n;
  }
  fold->end += size;
  return 0;
}

static void *map_private(size_t bytes)
{
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static int write_end(struct opgap_arena *arena, struct fold *fold)
{
  return opgap_consumer_end(fold->consumer, opgap_arena_ended(arena), arena->exit_status) == 0 ? 0 : -1;
}

/* Between the clock of the trace and the time of day, if this is still the machine that it was made on. */
static uint8_t *put_realtime_offset(uint8_t *at, const uint8_t *end, const struct opgap_arena *arena)
{
  struct timespec day, run;
  char digits[24];
  if (!same_boot(arena) || clock_gettime(CLOCK_REALTIME, &day) != 0 || clock_gettime(CLOCK_MONOTONIC, &run) != 0)
    return at;
  int64_t ns = ((int64_t)day.tv_sec - run.tv_sec) * 1000000000 + (day.tv_nsec - run.tv_nsec);
  size_t length = ns > 0 ? (size_t)(put_decimal(digits, (uint64_t)ns) - digits) : 0;
  return length > 0 ? opgap_encode_pair(at, end, "realtime_offset_ns", digits, length) : at;
}

/* Killed before the tracer had written what a file begins with: its records would begin after that, so there are none,
 * and a guest's are still its parent's.
 * The file gets what is missing and the end. */
static int end_at_start(struct opgap_arena *arena, struct fold *fold, void *scratch)
{
  uint8_t pairs[256], *at = pairs, *last = pairs + sizeof pairs;
  fold->consumer = opgap_consumer_init(scratch, arena, NULL, 0, fold_sink, fold);
  bool described = fold->last_sequence > 0;
  fold->end = described ? fold->end : 0;
  arena->chunk_sequence = fold->last_sequence;
  if (ftruncate(fold->fd, (off_t)fold->end) != 0)
    return -1;
  at = opgap_encode_pair(at, last, "boot_id", arena->boot_id, strnlen(arena->boot_id, sizeof arena->boot_id));
  at = opgap_encode_pair(at, last, "kill_safe", "1", 1);
  at = put_realtime_offset(at, last, arena);
  int error = described ? opgap_consumer_schema(fold->consumer)
                        : opgap_consumer_begin(fold->consumer, pairs, (size_t)(at - pairs));
  return error == 0 ? write_end(arena, fold) : -1;
}

static int fold_arena(struct opgap_arena *arena, struct fold *fold, void *scratch)
{
  off_t size = lseek(fold->fd, 0, SEEK_END);
  bool began = arena->chunk_sequence >= 2; /* the description and the schema */
  if (size < (off_t)sizeof(struct opgap_file_header))
    return began || size < 0 ? -1 : end_at_start(arena, fold, scratch);
  uint8_t *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fold->fd, 0);
  if (bytes == MAP_FAILED)
    return -1;
  int result = -1;
  fold->end =
      opgap_walk_chunks(bytes, (uint64_t)size, sizeof(struct opgap_file_header), visit_schema, NULL, find_data, fold);
  if (fold->row_count == 0 && !began) {
    result = end_at_start(arena, fold, scratch);
  } else if (fold->row_count > 0) {
    fold->consumer = opgap_consumer_init(scratch, arena, fold->rows, fold->row_count, fold_sink, fold);
    opgap_consumer_set_guest_moved(fold->consumer, opgap_guest_moved);
    opgap_walk_chunks(bytes, (uint64_t)size, sizeof(struct opgap_file_header), visit_position, NULL, find_data, fold);
    arena->chunk_sequence = fold->last_sequence;
    if (ftruncate(fold->fd, (off_t)fold->end) == 0 &&
        opgap_consumer_drain(fold->consumer, opgap_recover_anchor, OPGAP_DRAIN_DEAD) >= 0)
      result = write_end(arena, fold);
  }
  munmap(bytes, (size_t)size);
  return result;
}

/* ---- what guests left ---- */

/* The trace file of another process of the same trace: FOLDER/HOST-PID-START.opgt; false: it has no such name. */
static bool file_beside(const struct opgap_arena *arena, int pid, uint64_t start_time, char *path)
{
  char own[48] = "-", *at = put_decimal(own + 1, (uint64_t)arena->pid);
  *at++ = '-';
  *put_decimal(at, arena->start_time) = 0;
  const char *end = memchr(arena->trace_file, 0, sizeof arena->trace_file), *name = NULL;
  for (const char *found = end ? strstr(arena->trace_file, own) : NULL; found; found = strstr(found + 1, own))
    name = found;
  if (name == NULL)
    return false;
  memcpy(path, arena->trace_file, (size_t)(name - arena->trace_file));
  at = path + (name - arena->trace_file);
  *at++ = '-';
  at = put_decimal(at, (uint64_t)pid);
  *at++ = '-';
  strcpy(put_decimal(at, start_time), ".opgt");
  return true;
}

bool opgap_guest_moved(const struct opgap_arena *host, int pid, uint64_t start_time)
{
  char path[sizeof host->trace_file + 64];
  int fd = file_beside(host, pid, start_time, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
  off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
  struct fold *fold = NULL;
  bool moved = false;
  if (size > (off_t)sizeof(struct opgap_file_header) && (fold = map_private(sizeof *fold)) != NULL) {
    uint8_t *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes != MAP_FAILED) {
      fold->fd = fd;
      opgap_walk_chunks(bytes, (uint64_t)size, sizeof(struct opgap_file_header), visit_schema, NULL, find_data, fold);
      munmap(bytes, (size_t)size);
    }
    for (unsigned i = 0; i < fold->row_count; i++)
      moved |= fold->rows[i].id >= OPGAP_FIRST_HOOK; /* else its recovery wrote the schema: end_at_start */
    munmap(fold, sizeof *fold);
  }
  if (fd >= 0)
    close(fd);
  return moved;
}

/* Anybody can lay a file into /dev/shm that names somebody else's trace, so the two must have the same owner. */
static bool same_owner(int fd, uid_t owner)
{
  struct stat status;
  return fstat(fd, &status) == 0 && status.st_uid == owner;
}

static int recover_mapped(struct opgap_arena *arena, const char *ring_path, uid_t owner)
{
  uint32_t nobody = 0;
  int result = -1;
  if (opgap_arena_has_guest(arena, runs)) /* for moments: a child that has not yet begun its session */
    return -1;
  if (strncmp(arena->ring_file, ring_path, sizeof arena->ring_file) != 0 ||
      memchr(arena->trace_file, 0, sizeof arena->trace_file) == NULL ||
      !atomic_compare_exchange_strong(&arena->recovery_lock, &nobody, (uint32_t)getpid()))
    return -1;
  if (arena->death_anchor.ns == 0)
    arena->death_anchor = opgap_recover_anchor(arena);
  struct fold *fold = map_private(sizeof *fold);
  size_t scratch_bytes = opgap_consumer_bytes();
  void *scratch = map_private(scratch_bytes);
  if (fold && scratch) {
    fold->fd = open(arena->trace_file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fold->fd >= 0) {
      if (same_owner(fold->fd, owner))
        result = fold_arena(arena, fold, scratch);
      close(fold->fd);
    } else if (errno == ENOENT && same_files(arena)) {
      result = 0; /* the trace was deleted: nothing to fold into */
    }
  }
  if (fold)
    munmap(fold, sizeof *fold);
  if (scratch)
    munmap(scratch, scratch_bytes);
  if (result == 0)
    unlink(ring_path);
  else
    atomic_store(&arena->recovery_lock, 0);
  return result;
}

static struct opgap_arena *map_ring_fd(int fd, uint64_t *size)
{
  off_t bytes = lseek(fd, 0, SEEK_END);
  struct opgap_arena *arena = MAP_FAILED;
  if (bytes >= (off_t)OPGAP_ARENA_HEADER_BYTES)
    arena = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (arena == MAP_FAILED)
    return NULL;
  if (opgap_arena_check(arena, (uint64_t)bytes) != NULL) {
    munmap(arena, (size_t)bytes);
    return NULL;
  }
  *size = (uint64_t)bytes;
  return arena;
}

/* Maps a ring file: its size, and who owns it. */
static struct opgap_arena *map_ring(const char *path, uint64_t *size, uid_t *owner)
{
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return NULL;
  struct stat status;
  struct opgap_arena *arena = fstat(fd, &status) == 0 ? map_ring_fd(fd, size) : NULL;
  *owner = status.st_uid;
  close(fd);
  return arena;
}

int opgap_recover_ring(const char *ring_path)
{
  uint64_t size;
  uid_t owner;
  struct opgap_arena *arena = map_ring(ring_path, &size, &owner);
  if (arena == NULL)
    return -1;
  int result = recover_mapped(arena, ring_path, owner);
  munmap(arena, size);
  return result;
}

int opgap_recover_former_image(const char *ring_path)
{
  uint64_t size;
  uid_t owner;
  int result = -1;
  struct opgap_arena *arena = map_ring(ring_path, &size, &owner);
  if (arena == NULL)
    return -1;
  if (arena->pid == getpid() && opgap_arena_alive(arena))
    result = recover_mapped(arena, ring_path, owner);
  munmap(arena, size);
  return result;
}

static bool ends_with(const char *name, const char *suffix)
{
  size_t n = strlen(name), s = strlen(suffix);
  return n >= s && strcmp(name + n - s, suffix) == 0;
}

static bool has_trace_file(const struct opgap_arena *arena)
{
  return arena->trace_file[0] == '/' && memchr(arena->trace_file, 0, sizeof arena->trace_file) != NULL;
}

static bool lies_in(const struct opgap_arena *arena, const char *folder)
{
  size_t n = strlen(folder);
  return has_trace_file(arena) && strncmp(arena->trace_file, folder, n) == 0 && arena->trace_file[n] == '/';
}

/* Its process was killed before it had a trace: there is nothing in it.  The boot's id is written behind what says
 * whose it is. */
static bool is_stillborn(const struct opgap_arena *arena)
{
  return arena->trace_file[0] == '\0' && same_boot(arena) && arena->pid > 0 && !opgap_arena_alive(arena);
}

/* Recovers path if it is the ring of a dead process whose trace lies in folder; removes it if its trace is gone. */
static int recover_orphan(const char *path, const char *folder, void *unused)
{
  (void)unused;
  uint64_t size;
  uid_t owner;
  struct opgap_arena *arena = map_ring(path, &size, &owner);
  if (arena == NULL)
    return 0;
  int result = -1;
  if (is_stillborn(arena) || (has_trace_file(arena) && access(arena->trace_file, F_OK) != 0 && errno == ENOENT &&
                              same_files(arena) && !opgap_arena_alive(arena))) {
    unlink(path);
    munmap(arena, size);
    return 0;
  }
  if (lies_in(arena, folder) && !opgap_arena_alive(arena))
    result = recover_mapped(arena, path, owner);
  munmap(arena, size);
  return result == 0;
}

/* Calls visit with the path of every file with this suffix where rings of this trace can be; the sum of what it
 * returns. */
static int each_file(const char *trace, const char *suffix,
                     int (*visit)(const char *path, const char *folder, void *context), void *context)
{
  char folder[PATH_MAX];
  if (realpath(trace, folder) == NULL) { /* if it was removed, there are rings to be removed */
    if (errno != ENOENT || strlen(trace) >= sizeof folder)
      return 0;
    strcpy(folder, trace);
  }
  const char *places[] = {"/dev/shm", folder};
  int count = 0;
  for (unsigned i = 0; i < 2; i++) {
    DIR *directory = opendir(places[i]);
    if (directory == NULL)
      continue;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
      char path[1400];
      size_t n = strlen(places[i]);
      if (strncmp(entry->d_name, "opgap-", 6) != 0 || !ends_with(entry->d_name, suffix) || n > 1024)
        continue;
      memcpy(path, places[i], n);
      path[n] = '/';
      strcpy(path + n + 1, entry->d_name);
      count += visit(path, folder, context);
    }
    closedir(directory);
  }
  return count;
}

static int each_ring(const char *trace, int (*visit)(const char *path, const char *folder, void *context),
                     void *context)
{
  return each_file(trace, ".ring", visit, context);
}

/* A process of another pid namespace cannot be judged, nor who is just taking a place. */
static bool has_living(struct opgap_lineage *lineage)
{
  uint64_t own = opgap_pid_namespace();
  for (uint32_t i = 0; i < atomic_load(&lineage->used) && i < OPGAP_LINEAGE_PLACES; i++) {
    struct opgap_lineage_place *place = &lineage->places[i];
    int32_t pid = atomic_load(&place->pid);
    if (pid != 0 && (atomic_load(&place->ref) == 0 || atomic_load(&place->pid_namespace) != own ||
                     start_of(pid) == atomic_load(&place->start_time)))
      return true;
  }
  return false;
}

/* Removes a lineage all of whose processes were killed, of whatever trace. */
static int remove_lineage(const char *path, const char *folder, void *unused)
{
  (void)folder, (void)unused;
  struct stat status;
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct opgap_lineage *lineage = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size == sizeof *lineage)
    lineage = mmap(NULL, sizeof *lineage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0)
    close(fd);
  if (lineage == MAP_FAILED)
    return 0;
  if (atomic_load(&lineage->magic) == OPGAP_LINEAGE_MAGIC && atomic_load(&lineage->used) > 0 && !has_living(lineage))
    unlink(path);
  munmap(lineage, sizeof *lineage);
  return 0;
}

int opgap_trace_recover(const char *trace)
{
  each_file(trace, OPGAP_LINEAGE_SUFFIX, remove_lineage, NULL);
  return each_ring(trace, recover_orphan, NULL);
}

struct left {
  char *path;
  size_t size;
};

static int visit_left(const char *path, const char *folder, void *context)
{
  const struct left *left = context;
  uint64_t size;
  uid_t owner;
  struct opgap_arena *arena = map_ring(path, &size, &owner);
  if (arena == NULL)
    return 0;
  bool found = lies_in(arena, folder) && !opgap_arena_alive(arena);
  if (found && left->path[0] == 0 && strlen(path) < left->size)
    strcpy(left->path, path);
  munmap(arena, size);
  return found;
}

int opgap_trace_left(const char *trace, char *path, size_t size)
{
  struct left left = {path, size};
  path[0] = 0;
  return each_ring(trace, visit_left, &left);
}

struct live_visit {
  void (*visit)(void *context, struct opgap_arena *arena, int fd);
  void *context;
};

static int visit_live(const char *path, const char *folder, void *context)
{
  const struct live_visit *live = context;
  uint64_t size;
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW), found = 0;
  struct opgap_arena *arena = fd >= 0 ? map_ring_fd(fd, &size) : NULL;
  if (arena != NULL) {
    if (lies_in(arena, folder) && atomic_load(&arena->end) == OPGAP_ARENA_RUNNING && opgap_arena_alive(arena)) {
      live->visit(live->context, arena, fd);
      found = 1;
    }
    munmap(arena, size);
  }
  if (fd >= 0)
    close(fd);
  return found;
}

int opgap_trace_each_ring(const char *trace, void (*visit)(void *context, struct opgap_arena *arena, int fd),
                          void *context)
{
  struct live_visit live = {visit, context};
  return each_ring(trace, visit_live, &live);
}
