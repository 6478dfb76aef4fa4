/* The life of a session: from the constructor (or a forked child's first hook) to exit.  See session.h. */
#include "record/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/recover.h"
#include "record/control.h"
#include "record/cuda_calls.h"
#include "record/early.h"
#include "record/faults.h"
#include "record/guest.h"
#include "record/internal.h"
#include "record/keep.h"
#include "record/op.h"
#include "record/raw.h"
#include "record/reach.h"
#include "record/schedule.h"
#include "record/stacks.h"
#include "record/stderr.h"

#define FIRST_BLOCKS 2u /* of slots and of a segment: a short program's start costs what is allocated here */
#define CROWD 64u       /* threads, from which on a segment of 32 KiB is too much for each */
#define NAMES_FIRST (16u * 1024u)
#define NAMES_BYTES (8u * 1024u * 1024u)
#define SHM "/dev/shm"
/* not in every libc header */
#define WIPE_ON_FORK 18   /* MADV_WIPEONFORK */
#define KEEP_ON_FORK 19   /* MADV_KEEPONFORK */
#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE */

OPGAP_EARLY_DATA struct opgap_config opgap_config;
static struct opgap_state no_state OPGAP_READ_EARLY;
struct opgap_state *opgap_state = &no_state;
const struct opgap_settings *opgap_settings = &opgap_config.settings;

/* Provided by other parts when they are built in. */
__attribute__((weak)) bool opgap_hooks_session_begins(void);
__attribute__((weak)) void opgap_hooks_session_started(void);
__attribute__((weak)) void opgap_gpu_start(void);
__attribute__((weak)) void opgap_gpu_end(void);
__attribute__((weak)) void opgap_gpu_flush(void);
__attribute__((weak)) void opgap_frameworks_session_started(void);
__attribute__((weak)) const char *opgap_torch_version(void);
__attribute__((weak)) const char *opgap_gpu_status(void);
extern char **environ;

/* ---- text ---- */

OPGAP_EARLY_CODE void opgap_text_string(struct opgap_text *text, const char *string)
{
  while (*string && text->at < text->end)
    *text->at++ = *string++;
  *text->at = 0;
}

OPGAP_EARLY_CODE void opgap_text_number(struct opgap_text *text, uint64_t number, unsigned base)
{
  char digits[24];
  int n = 0;
  do
    digits[n++] = "0123456789abcdef"[number % base];
  while (number /= base);
  while (n > 0 && text->at < text->end)
    *text->at++ = digits[--n];
  *text->at = 0;
}

uint64_t opgap_take_number(const char **text)
{
  uint64_t n = 0;
  while (**text == ' ')
    ++*text;
  while (**text >= '0' && **text <= '9')
    n = n * 10 + (uint64_t)(*(*text)++ - '0');
  return n;
}

const char *opgap_error_words(long error)
{
  static const struct {
    int number;
    const char *words;
  } known[] = {
      {EPERM, "not permitted"},           {ENOENT, "no such folder"},
      {EIO, "input/output error"},        {ENOMEM, "out of memory"},
      {EACCES, "permission denied"},      {ENOTDIR, "not a folder"},
      {EMFILE, "too many open files"},    {ENFILE, "too many open files on this machine"},
      {EFBIG, "file too large"},          {ENOSPC, "no space left"},
      {EROFS, "read-only file system"},   {ENAMETOOLONG, "name too long"},
      {ELOOP, "too many symbolic links"}, {ESTALE, "stale file handle"},
      {EDQUOT, "disk quota exceeded"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].number == -error)
      return known[i].words;
  return "unexpected";
}

/* The program's name, as its first argument gives it, without what a terminal would take for a command. */
OPGAP_EARLY_CODE static void put_program(struct opgap_text *text)
{
  const char *name = opgap_config.program;
  for (const char *at = name; at && *at; at++)
    if (*at == '/')
      name = at + 1;
  for (; name && *name; name++) {
    char one[2] = {(*name > 0 && *name < ' ') || *name == 127 ? '_' : *name, 0};
    opgap_text_string(text, one);
  }
}

void opgap_notice(bool *said, const char *fmt, ...)
{
  if (__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
    return;
  char line[OPGAP_STDERR_LINE];
  struct opgap_text text = {line, line + sizeof line - 2};
  va_list arguments;
  opgap_text_string(&text, "opgap: ");
  put_program(&text);
  opgap_text_string(&text, "[");
  opgap_text_number(&text, (uint64_t)opgap_raw_getpid(), 10);
  opgap_text_string(&text, "]: ");
  const char *message = text.at;
  va_start(arguments, fmt);
  for (const char *p = fmt; *p; p++) {
    if (*p != '%') {
      char one[2] = {*p, 0};
      opgap_text_string(&text, one);
      continue;
    }
    bool is_long = p[1] == 'l';
    p += is_long ? 2 : 1;
    if (*p == 's') {
      opgap_text_string(&text, va_arg(arguments, const char *));
    } else if (*p == 'd') {
      long value = is_long ? va_arg(arguments, long) : va_arg(arguments, int);
      if (value < 0)
        opgap_text_string(&text, "-");
      opgap_text_number(&text, (uint64_t)(value < 0 ? -value : value), 10);
    } else if (*p == 'u' || *p == 'x') {
      uint64_t value = is_long ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned);
      opgap_text_number(&text, value, *p == 'x' ? 16 : 10);
    }
  }
  va_end(arguments);
  if (opgap_cell != &opgap_tool_cell && opgap_cell != &opgap_flusher_cell && opgap_cell != &opgap_unwind_cell &&
      atomic_load(&opgap_state->phase) == OPGAP_PHASE_RUNNING && opgap_active) {
    uint64_t name = opgap_intern(message, (size_t)(text.at - message)); /* in this process's trace */
    opgap_emit(OPGAP_EV_PROBE, 0, opgap_ticks(), 0, &name, 1);
  }
  *text.at++ = '\n'; /* its place is behind the text's end */
  if (opgap_config.settings.log == OPGAP_LOG_QUIET)
    return;
  opgap_stderr_write(line, (size_t)(text.at - line));
}

/* ---- memory ---- */

/* Before Linux 5.14 only the file's descriptor can allocate. */
static bool grow_by_file(const struct opgap_arena *arena, uint64_t offset, uint64_t bytes)
{
  struct opgap_state *state = opgap_state;
  int own = opgap_flusher_ring_fd(), fd = own;
  if (fd < 0) {
    if (atomic_load_explicit(&state->flusher, memory_order_relaxed) && opgap_cell != &opgap_flusher_cell &&
        opgap_cell != &opgap_tool_cell)
      return false; /* the flusher does it: another thread of the program must not see our descriptor */
    fd = (int)opgap_raw_open(arena->ring_file, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  }
  if (fd < 0)
    return false;
  long error = opgap_raw6(SYS_fallocate, fd, 0, (long)offset, (long)bytes, 0, 0);
  if (fd != own)
    opgap_raw_close(fd);
  return error == 0;
}

/* Populating allocates the pages for real, needs no descriptor, and fails where a write would raise SIGBUS. */
bool opgap_arena_grow(struct opgap_arena *arena, uint64_t offset, uint64_t bytes)
{
  uint64_t page = opgap_config.page_bytes, first = offset & ~(page - 1),
           end = (offset + bytes + page - 1) & ~(page - 1);
  if (offset + bytes > arena->size || (opgap_confined && opgap_cell != &opgap_flusher_cell))
    return false;
  if (end > arena->size) /* where pages are larger than the unit of its size, half a page can be left */
    end = arena->size;
  long error = opgap_raw3(SYS_madvise, (long)((char *)arena + first), (long)(end - first), POPULATE_WRITE);
  if (error == 0)
    return true;
  if (error != -22 /* EINVAL: an older kernel */)
    return false;
  return arena->ring_file[0] == 0 || grow_by_file(arena, first, end - first);
}

/* Makes up to `count` more blocks ready.  Allocating the same memory twice is harmless, so threads that grow at once
 * need no lock; the counter is raised after the memory is there. */
bool opgap_grow_blocks(struct opgap_arena *arena, uint32_t count)
{
  uint32_t ready = atomic_load_explicit(&arena->blocks_ready, memory_order_acquire);
  if (count > arena->block_limit - ready)
    count = arena->block_limit - ready;
  if (count == 0 || !opgap_arena_grow(arena, arena->blocks_offset + (uint64_t)ready * OPGAP_SEGMENT_BYTES,
                                      (uint64_t)count * OPGAP_SEGMENT_BYTES))
    return false;
  atomic_compare_exchange_strong_explicit(&arena->blocks_ready, &ready, ready + count, memory_order_release,
                                          memory_order_relaxed);
  return true;
}

bool opgap_grow_slots(struct opgap_arena *arena)
{
  uint32_t ready = atomic_load_explicit(&arena->slots_ready, memory_order_acquire);
  uint32_t place = ready < arena->slot_limit ? opgap_block_take(arena) : 0;
  if (place == 0)
    return false;
  struct opgap_segment *block = opgap_arena_segment(arena, place); /* may have been one */
  atomic_store_explicit(&block->next, 0, memory_order_relaxed);    /* who wanted to take it meanwhile may look at it */
  memset((char *)block + sizeof block->next, 0, sizeof *block - sizeof block->next);
  for (uint32_t n = ready / OPGAP_SLOTS_IN_BLOCK; n < arena->slot_limit / OPGAP_SLOTS_IN_BLOCK; n++) {
    uint32_t none = 0, end = (n + 1) * OPGAP_SLOTS_IN_BLOCK;
    if (!atomic_compare_exchange_strong_explicit(opgap_arena_slot_block(arena, n), &none, place, memory_order_release,
                                                 memory_order_acquire))
      continue; /* another thread's */
    while (ready < end && !atomic_compare_exchange_weak_explicit(&arena->slots_ready, &ready, end, memory_order_release,
                                                                 memory_order_relaxed))
      ;
    return true;
  }
  opgap_arena_push(arena, &arena->free_blocks, place, place);
  return false;
}

static void lay_out(struct opgap_arena *arena, uint64_t size)
{
  arena->magic = OPGAP_ARENA_MAGIC;
  arena->version = OPGAP_ARENA_VERSION;
  arena->header_bytes = OPGAP_ARENA_HEADER_BYTES;
  arena->size = size;
  arena->names_size = size / 8 < NAMES_BYTES ? (uint32_t)(size / 8) & ~(NAMES_FIRST - 1) : NAMES_BYTES;
  arena->slot_limit = OPGAP_SLOT_LIMIT;
  arena->slot_blocks_offset = OPGAP_ARENA_HEADER_BYTES + OPGAP_CONTROL_BYTES;
  arena->buckets_offset = arena->slot_blocks_offset + OPGAP_SLOT_BLOCKS_BYTES;
  arena->names_offset = arena->buckets_offset + OPGAP_NAME_BUCKETS * 4;
  arena->blocks_offset = arena->names_offset + arena->names_size;
  uint64_t blocks = (size - arena->blocks_offset) / OPGAP_SEGMENT_BYTES;
  arena->block_limit = blocks > 0xfffff ? 0xfffff : (uint32_t)blocks;
  arena->crowd = arena->block_limit / 16 < CROWD ? arena->block_limit / 16 : CROWD;
  atomic_store(&arena->names_used, 8); /* id 0 means none */
}

static bool first_memory(struct opgap_arena *arena)
{
  uint32_t names = arena->names_size < NAMES_FIRST ? arena->names_size : NAMES_FIRST;
  if (!opgap_arena_grow(arena, 0, (uint64_t)arena->names_offset + names))
    return false;
  atomic_store(&arena->names_ready, names);
  return opgap_grow_blocks(arena, FIRST_BLOCKS) && opgap_grow_slots(arena);
}

/* Size that a file system can give: at most a quarter of what is free, 0 when that is too little to be of use. */
static uint64_t size_for(const char *folder, uint64_t wanted, bool need_tmpfs)
{
  struct statfs fs;
  if (opgap_raw3(SYS_statfs, (long)folder, (long)&fs, 0) < 0 || (need_tmpfs && fs.f_type != 0x01021994 /* TMPFS */))
    return 0;
  uint64_t quarter = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / 4;
  uint64_t size = (wanted < quarter ? wanted : quarter) & ~(uint64_t)(OPGAP_SEGMENT_BYTES - 1);
  return size >= OPGAP_BUFFER_MIN ? size : 0;
}

/* The state's page and the cells. */
static size_t state_bytes(void)
{
  return opgap_config.page_bytes + OPGAP_SLOT_LIMIT * sizeof(struct opgap_cell);
}

/* How much more a limit lets this process have; UINT64_MAX: there is no limit.  used: pages, by /proc/self/statm. */
static uint64_t left_of_limit(int resource, unsigned field)
{
  struct {
    uint64_t current, maximum;
  } limit;
  char text[128];
  if (opgap_raw6(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0) < 0 || limit.current == UINT64_MAX)
    return UINT64_MAX;
  opgap_raw_slurp("/proc/self/statm", text, sizeof text);
  const char *at = text;
  uint64_t pages = opgap_take_number(&at);
  for (; field > 0; field--)
    pages = opgap_take_number(&at);
  uint64_t used = pages * opgap_config.page_bytes;
  return used < limit.current ? limit.current - used : 0;
}

static uint64_t address_space_left(void)
{
  return left_of_limit(9 /* RLIMIT_AS */, 0);
}

static uint64_t data_left(void)
{
  return left_of_limit(2 /* RLIMIT_DATA */, 5);
}

static void *consumer_memory; /* a forked child takes over its copy of the parent's */

/* What the tracer may map: a program within limits of memory has use for nearly all that they leave. */
#define SHARE_OF_LIMIT 16u

bool opgap_room_for(uint64_t bytes)
{
  return bytes <= address_space_left() / SHARE_OF_LIMIT;
}

/* The most that rings may have; 0: nothing.  data: in private memory. */
static uint64_t room_for_rings(bool data)
{
  uint64_t own = consumer_memory == NULL ? opgap_consumer_bytes() : 0;
  uint64_t space = address_space_left() / SHARE_OF_LIMIT, private = data_left() / SHARE_OF_LIMIT;
  if (space < own || private < own)
    return 0;
  space = data && private < space ? private : space;
  uint64_t room = space - own, wanted = opgap_config.settings.buffer;
  return (wanted < room ? wanted : room) & ~(uint64_t)(OPGAP_SEGMENT_BYTES - 1);
}

/* With its file, if it has one. */
static void give_up_arena(struct opgap_arena *arena)
{
  if (arena->ring_file[0])
    opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)arena->ring_file, 0);
  opgap_state->arena = NULL;
  opgap_raw_munmap(arena, arena->size);
}

/* What was mapped becomes the session's arena.  ring_file: "" for private memory.  NULL: there is no memory for what a
 * session begins with, and nothing is left. */
static struct opgap_arena *furnish(struct opgap_arena *arena, uint64_t size, const char *ring_file)
{
  lay_out(arena, size);
  struct opgap_text text = {arena->ring_file, arena->ring_file + sizeof arena->ring_file - 1};
  opgap_text_string(&text, ring_file);
  opgap_state->arena = arena;
  if (first_memory(arena))
    return arena;
  give_up_arena(arena);
  return NULL;
}

static struct opgap_arena *map_file(const char *path, uint64_t size)
{
  int fd = (int)opgap_raw_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return NULL;
  struct opgap_arena *arena = NULL;
  if (opgap_raw6(SYS_fallocate, fd, 0, 0, opgap_config.page_bytes, 0, 0) == 0 &&
      opgap_raw3(SYS_ftruncate, fd, (long)size, 0) == 0)
    arena = opgap_raw_mmap(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  opgap_raw_close(fd);
  if (arena == NULL) {
    opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
    return NULL;
  }
  return furnish(arena, size, path);
}

/* The ring's file name: user, pid, start time and a count for images of the same process (exec). */
static struct opgap_arena *try_folder(const char *folder, const char *stem, bool need_tmpfs)
{
  uint64_t size = size_for(folder, room_for_rings(false), need_tmpfs);
  while (size >= OPGAP_BUFFER_MIN && !opgap_within_file_limit(size))
    size = size / 2 & ~(uint64_t)(OPGAP_SEGMENT_BYTES - 1);
  if (size < OPGAP_BUFFER_MIN)
    return NULL;
  for (unsigned image = 0; image < 1000; image++) {
    char path[256];
    struct opgap_text text = {path, path + sizeof path - 1};
    opgap_text_string(&text, folder);
    opgap_text_string(&text, "/");
    opgap_text_string(&text, stem);
    opgap_text_string(&text, "-");
    opgap_text_number(&text, image, 10);
    opgap_text_string(&text, ".ring");
    if (text.at == text.end)
      return NULL;
    /* a file of this name is the ring of our own former image, before an exec that we did not see */
    if (opgap_raw6(SYS_faccessat, AT_FDCWD, (long)path, 0, 0, 0, 0) == 0 && opgap_recover_ring(path) != 0)
      continue;
    struct opgap_arena *arena = map_file(path, size);
    if (arena)
      return arena;
    size /= 2;
    if (size < OPGAP_BUFFER_MIN)
      break;
  }
  return NULL;
}

static struct opgap_arena *make_arena(const char *stem)
{
  struct opgap_arena *arena = try_folder(SHM, stem, true);
  if (arena == NULL)
    arena = try_folder(opgap_config.folder, stem, false);
  if (arena)
    return arena;
  uint64_t size = room_for_rings(true);
  if (size < OPGAP_BUFFER_MIN)
    return NULL;
  arena = opgap_raw_mmap(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  return arena == NULL ? NULL : furnish(arena, size, "");
}

/* ---- the process's description ---- */

/* Counted behind the last ')' because the name may hold anything. */
uint64_t opgap_process_start_time(int pid, int *parent)
{
  char path[40], text[1024];
  struct opgap_text name = {path, path + sizeof path - 1};
  opgap_text_string(&name, "/proc/");
  if (pid != 0)
    opgap_text_number(&name, (uint64_t)pid, 10);
  else
    opgap_text_string(&name, "self");
  opgap_text_string(&name, "/stat");
  size_t length = opgap_raw_slurp(path, text, sizeof text);
  const char *at = text + length;
  while (at > text && *at != ')')
    at--;
  if (at == text || at[1] == 0 || at[2] == 'Z' || at[2] == 'X')
    return 0;
  for (int field = 2; *at && field < 22;)
    if (*at++ == ' ' && ++field == 4)
      *parent = (int)opgap_take_number(&at);
  return opgap_take_number(&at);
}

struct pairs {
  uint8_t *at, *end;
};

static void pair(struct pairs *pairs, const char *key, const char *value)
{
  if (value && *value)
    pairs->at = opgap_encode_pair(pairs->at, pairs->end, key, value, strlen(value));
}

static void pair_number(struct pairs *pairs, const char *key, int64_t value)
{
  char digits[32];
  struct opgap_text text = {digits, digits + sizeof digits - 1};
  if (value < 0)
    opgap_text_string(&text, "-");
  opgap_text_number(&text, (uint64_t)(value < 0 ? -value : value), 10);
  pair(pairs, key, digits);
}

static void pair_environment(struct pairs *pairs, const char *key, const char *const *names)
{
  for (; *names; names++) {
    const char *value = getenv(*names);
    if (value && *value) {
      pair(pairs, key, value);
      return;
    }
  }
}

static void pair_command(struct pairs *pairs)
{
  static char text[8192]; /* one start at a time */
  size_t length = opgap_raw_slurp("/proc/self/cmdline", text, sizeof text);
  while (length > 0 && text[length - 1] == 0)
    length--;
  if (length == 0) { /* no /proc */
    struct opgap_text name = {text, text + sizeof text - 1};
    put_program(&name);
    length = (size_t)(name.at - text);
  }
  for (size_t i = 0; i < length; i++)
    if (text[i] == 0)
      text[i] = ' ';
  pairs->at = opgap_encode_pair(pairs->at, pairs->end, "command", text, length);
  long n = opgap_raw6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)text, sizeof text, 0, 0);
  if (n > 0)
    pairs->at = opgap_encode_pair(pairs->at, pairs->end, "exe", text, (size_t)n);
  n = opgap_raw3(SYS_getcwd, (long)text, sizeof text, 0);
  if (n > 0)
    pair(pairs, "cwd", text);
}

static void pair_machine(struct pairs *pairs)
{
  uint64_t mask[64] = {0};
  long bytes = opgap_raw3(SYS_sched_getaffinity, 0, sizeof mask, (long)mask);
  unsigned cores = 0;
  for (long i = 0; i < bytes / 8; i++)
    cores += (unsigned)__builtin_popcountll(mask[i]);
  pair_number(pairs, "cores", cores);
  pair(pairs, "kernel", opgap_config.kernel);
  pair(pairs, "cpu", opgap_config.cpu);
  pair(pairs, "clock", opgap_clock_tsc ? "tsc" : "monotonic");
}

static int64_t realtime_offset(void)
{
  struct timespec real, mono;
  clock_gettime(CLOCK_REALTIME, &real);
  clock_gettime(CLOCK_MONOTONIC, &mono);
  return (real.tv_sec - mono.tv_sec) * 1000000000 + real.tv_nsec - mono.tv_nsec;
}

static size_t describe(uint8_t *buffer, size_t size, int ppid, bool forked)
{
  struct opgap_arena *arena = opgap_state->arena;
  struct pairs pairs = {buffer, buffer + size};
  pair(&pairs, "opgap_version", OPGAP_VERSION);
  pair_number(&pairs, "pid", arena->pid);
  pair_number(&pairs, "ppid", ppid);
  pair_number(&pairs, "start_time", (int64_t)arena->start_time);
  pair(&pairs, "host", opgap_config.host);
  pair(&pairs, "boot_id", opgap_config.boot_id);
  pair_number(&pairs, "realtime_offset_ns", realtime_offset());
  pair_number(&pairs, "forked", forked);
  pair_number(&pairs, "kill_safe", arena->ring_file[0] != 0);
  pair(&pairs, "ring", arena->ring_file);
  pair_command(&pairs);
  pair_machine(&pairs);
  if (environ) {
    pair_environment(&pairs, "rank", (const char *const[]){"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", NULL});
    pair_environment(&pairs, "local_rank",
                     (const char *const[]){"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", NULL});
    pair_environment(&pairs, "world_size",
                     (const char *const[]){"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", NULL});
    for (unsigned i = 0; i < opgap_setting_count; i++)
      pair(&pairs, opgap_setting_table[i].env, getenv(opgap_setting_table[i].env));
  }
  return (size_t)(pairs.at - buffer);
}

/* ---- start ---- */

/* Creates <host>-<pid>-<start>.opgt, with a count behind it for further images of the same process.  0, or a negative
 * error number. */
static long create_trace_file(struct opgap_arena *arena)
{
  long fd = 0;
  for (unsigned image = 0; image < 1000; image++) {
    struct opgap_text text = {arena->trace_file, arena->trace_file + sizeof arena->trace_file - 1};
    opgap_text_string(&text, opgap_config.folder);
    opgap_text_string(&text, "/");
    opgap_text_string(&text, opgap_config.host);
    opgap_text_string(&text, "-");
    opgap_text_number(&text, (uint64_t)arena->pid, 10);
    opgap_text_string(&text, "-");
    opgap_text_number(&text, arena->start_time, 10);
    if (image) {
      opgap_text_string(&text, "-");
      opgap_text_number(&text, image, 10);
    }
    opgap_text_string(&text, ".opgt");
    if (text.at == text.end)
      return -ENAMETOOLONG;
    fd = opgap_raw_open(arena->trace_file, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
      opgap_state->first_fd = (int)fd + 1;
      opgap_state->file_created = true;
      return 0;
    }
    if (fd != -EEXIST)
      return fd;
  }
  return fd;
}

void opgap_state_leave(struct opgap_arena *arena)
{
  if (opgap_state == &no_state)
    return;
  opgap_state->arena = arena;
  opgap_raw3(SYS_madvise, (long)opgap_state, (long)state_bytes(), KEEP_ON_FORK); /* also for children of this one */
  no_state.arena = arena;
  atomic_store(&no_state.phase, OPGAP_PHASE_NONE);
  opgap_state = &no_state;
}

static struct opgap_state *new_state(void)
{
  /* In a forked child the old pages are there, wiped; they are used again. */
  if (opgap_state == &no_state) {
    size_t size = state_bytes();
    char *memory = opgap_raw_mmap(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory == NULL)
      return NULL;
    opgap_raw3(SYS_madvise, (long)memory, (long)size, WIPE_ON_FORK);
    opgap_cells = (struct opgap_cell *)(memory + opgap_config.page_bytes);
    return (struct opgap_state *)memory;
  }
  return opgap_state;
}

static bool process_is_gone(int pid)
{
  return opgap_raw3(SYS_kill, pid, 0, 0) == -3 /* ESRCH */;
}

static bool start_consumer(struct opgap_state *state)
{
  if (consumer_memory == NULL)
    consumer_memory = opgap_raw_mmap(opgap_consumer_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (consumer_memory == NULL)
    return false;
  state->consumer = opgap_consumer_init(consumer_memory, state->arena, opgap_config.hooks, opgap_config.hook_count,
                                        opgap_trace_append, state);
  opgap_consumer_set_gone(state->consumer, opgap_thread_is_gone);
  opgap_consumer_set_process_gone(state->consumer, process_is_gone);
  opgap_consumer_set_guest_moved(state->consumer, opgap_guest_moved);
  opgap_consumer_set_release(state->consumer, opgap_slot_release);
  return true;
}

/* 0, or the negative error number of what failed: -ENOMEM, or of the trace folder. */
static long begin(struct opgap_state *state, bool forked)
{
  static uint8_t description[32 * 1024]; /* one start at a time */
  int ppid = 0;
  uint64_t start_time = opgap_process_start_time(0, &ppid);
  char stem[128];
  struct opgap_text text = {stem, stem + sizeof stem - 1};
  opgap_text_string(&text, "opgap-");
  opgap_text_number(&text, (uint64_t)opgap_raw3(SYS_getuid, 0, 0, 0), 10);
  opgap_text_string(&text, "-");
  opgap_text_number(&text, (uint64_t)state->pid, 10);
  opgap_text_string(&text, "-");
  opgap_text_number(&text, start_time, 10);
  struct opgap_arena *arena = make_arena(stem);
  if (arena == NULL)
    return -ENOMEM;
  arena->pid = state->pid;
  arena->start_time = start_time;
  arena->pid_namespace = opgap_pid_namespace();
  arena->root_folder = opgap_root_folder();
  if (opgap_config.root_folder == 0)
    opgap_config.root_folder = arena->root_folder;
  arena->ticks_are_tsc = opgap_clock_tsc;
  memcpy(arena->boot_id, opgap_config.boot_id, sizeof arena->boot_id);
  arena->counter_count = opgap_config.counter_count;
  memcpy(arena->counter_events, opgap_config.counter_events, opgap_config.counter_count * sizeof(uint16_t));
  arena->first_anchor = arena->last_anchor = state->guest.from ? state->guest.anchor : opgap_clock_anchor();
  opgap_control_offer();
  opgap_guest_begins(start_time);
  if (!start_consumer(state))
    return -ENOMEM;
  size_t bytes = describe(description, sizeof description, ppid, forked); /* before: one descriptor is enough for all */
  long error = create_trace_file(arena);
  if (error < 0)
    return error;
  uint32_t index;
  state->process_stream = opgap_slot_take(OPGAP_STREAM_PROCESS, 0, &index);
  if (state->process_stream)
    opgap_cells[index].thread = state->process_stream;
  if (state->guest.from) /* before the file's schema: a kill finds it there or here, not twice */
    state->guest.moved = opgap_slot_take(OPGAP_STREAM_THREAD, opgap_raw_gettid(), &state->guest.moved_index);
  error = opgap_consumer_begin(state->consumer, description, bytes);
  opgap_raw_close(state->first_fd - 1);
  state->first_fd = 0;
  if (error < 0)
    return error;
  opgap_keep_begin(description, bytes);
  opgap_control_attach();
  opgap_guest_leave();
  static bool said;
  if (arena->ring_file[0] == '\0') /* said now: where nothing can be written at all, that alone is told */
    opgap_notice(&said, "%s: private memory, not kill-safe",
                 opgap_within_file_limit(OPGAP_BUFFER_MIN) ? "no room for the ring in /dev/shm or the trace folder"
                                                           : "a ring file exceeds the limit of file sizes, ulimit -f");
  return 0;
}

/* joined: another process has made the trace's folder, and tells if it was removed. */
static void say_untraced(long error, bool joined)
{
  static bool said;
  if ((error == -ENOENT && joined) || !opgap_reach_tells_start(error))
    return;
  if (error == -ENOMEM && (address_space_left() != UINT64_MAX || data_left() != UINT64_MAX))
    opgap_notice(&said,
                 "ulimit -v or -d leaves too little, of which the tracer takes a sixteenth at most: this process is "
                 "not traced");
  else if (error == -ENOMEM)
    opgap_notice(&said, "cannot get memory (rings of %lu MiB, see --buffer): this process is not traced",
                 (unsigned long)(opgap_config.settings.buffer >> 20));
  else
    opgap_notice(&said, "cannot write to %s (%s, error %d): this process is not traced", opgap_config.folder,
                 opgap_error_words(error), (int)-error);
}

/* Spares `opgap record` the guess why its program is not in the trace: the process has said why.  A folder, since it
 * takes neither a descriptor nor room in a file. */
static void leave_word(void)
{
  char path[sizeof opgap_config.folder + 32];
  struct opgap_text text = {path, path + sizeof path - 1};
  if (!opgap_config.first || opgap_config.made_folder)
    return;
  opgap_text_string(&text, opgap_config.folder);
  opgap_text_string(&text, "/" OPGAP_UNTRACED);
  opgap_text_number(&text, (uint64_t)opgap_raw_getpid(), 10);
  opgap_raw3(SYS_mkdirat, AT_FDCWD, (long)path, 0700);
}

static void find_host(void)
{
  struct utsname name;
  if (opgap_raw3(SYS_uname, (long)&name, 0, 0) < 0)
    strcpy(name.nodename, "host");
  struct opgap_text text = {opgap_config.host, opgap_config.host + sizeof opgap_config.host - 1};
  for (const char *p = name.nodename; *p; p++) {
    bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '.';
    char one[2] = {plain ? *p : '_', 0};
    opgap_text_string(&text, one);
  }
  if (text.at == opgap_config.host)
    opgap_text_string(&text, "host");
  struct opgap_text kernel = {opgap_config.kernel, opgap_config.kernel + sizeof opgap_config.kernel - 1};
  opgap_text_string(&kernel, name.release);
  size_t n = opgap_raw_slurp("/proc/sys/kernel/random/boot_id", opgap_config.boot_id, sizeof opgap_config.boot_id);
  while (n > 0 && opgap_config.boot_id[n - 1] == '\n')
    opgap_config.boot_id[--n] = 0;
}

/* End of the counters from `first` on whose hooks have a flag. */
static unsigned counters_end(unsigned first, unsigned flag)
{
  while (first < opgap_config.counter_count &&
         opgap_config.hooks[opgap_config.counter_events[first] - OPGAP_FIRST_HOOK].flags & flag)
    first++;
  return first;
}

/* What a session needs to know and a process without one does not.  A forked child has it from its parent. */
static void learn_surroundings(void)
{
  if (opgap_config.hooks)
    return;
  opgap_config.hooks = opgap_config.hook_events(&opgap_config.hook_count);
  opgap_config.alloc_end = counters_end(0, OPGAP_EVENT_ALLOC);
  opgap_config.free_end = counters_end(opgap_config.alloc_end, OPGAP_EVENT_FREE);
  opgap_clock_select(opgap_config.no_tsc);
  opgap_ops_usual = opgap_clock_tsc && opgap_config.alloc_end == OPGAP_ALLOC_COUNTERS &&
                    opgap_config.free_end == OPGAP_ALLOC_COUNTERS + 1;
  if (opgap_config.page_bytes == 0)
    opgap_config.page_bytes = (uint32_t)getauxval(AT_PAGESZ);
  find_host();
}

/* A session that cannot begin leaves nothing: the program may need the memory, and no file is better than one that
 * cannot be read. */
static void give_up_memory(struct opgap_state *state)
{
  struct opgap_arena *arena = state->arena;
  if (arena != NULL) {
    if (state->file_created)
      opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)arena->trace_file, 0);
    give_up_arena(arena);
  }
  if (consumer_memory != NULL)
    opgap_raw_munmap(consumer_memory, opgap_consumer_bytes());
  consumer_memory = NULL;
  state->consumer = NULL;
}

bool opgap_session_begin(void)
{
  struct opgap_state *before = opgap_state;
  uint32_t none = OPGAP_PHASE_NONE;
  if (!atomic_compare_exchange_strong(&before->phase, &none, OPGAP_PHASE_STARTING))
    return false;
  if (opgap_hooks_session_begins && !opgap_hooks_session_begins()) {
    atomic_store(&before->phase, OPGAP_PHASE_NONE);
    return false;
  }
  learn_surroundings();
  struct opgap_state *state = new_state();
  if (state == NULL) {
    opgap_active_halt();
    say_untraced(-ENOMEM, false);
    leave_word();
    return false;
  }
  bool forked = opgap_raw_getpid() != opgap_config.loader_pid;
  if (state != before)
    atomic_store(&state->phase, OPGAP_PHASE_STARTING);
  opgap_state = state;
  state->pid = opgap_raw_getpid();
  if (!opgap_control_begin(forked)) {
    state->pid = 0; /* opgap_active is the parent's */
    atomic_store(&state->phase, OPGAP_PHASE_FAILED);
    say_untraced(-ENOMEM, false);
    return false;
  }
  if (forked) {
    opgap_stacks_forked();
    opgap_cuda_calls_reset();
  }
  if (forked && opgap_config.settings.children == OPGAP_CHILDREN_NONE) {
    opgap_active_halt();
    opgap_control_leave();
    atomic_store(&state->phase, OPGAP_PHASE_FAILED);
    return false;
  }
  long error = begin(state, forked);
  if (error < 0) {
    opgap_active_halt();
    opgap_control_leave();
    give_up_memory(state);
    atomic_store(&state->phase, OPGAP_PHASE_FAILED);
    if (!state->write_failed)
      say_untraced(error, forked || !opgap_config.first);
    leave_word();
    opgap_guest_leave();
    return false;
  }
  atomic_store_explicit(&state->phase, OPGAP_PHASE_RUNNING, memory_order_release);
  opgap_faults_session(forked);
  opgap_guest_host(state->arena);
  if (forked)
    opgap_schedule_forked();
  opgap_reach_begins(state->arena);
  if (opgap_frameworks_session_started)
    opgap_frameworks_session_started();
  if (opgap_hooks_session_started)
    opgap_hooks_session_started();
  return true;
}

OPGAP_EARLY_CODE static const char *get_environment(const char *name, void *unused)
{
  (void)unused;
  return getenv(name);
}

/* Once a trace: cpuid leaves a virtual machine, for some ten microseconds each time. */
static void find_cpu(void)
{
#if defined(__x86_64__)
  unsigned brand[sizeof opgap_config.cpu / sizeof(unsigned)] = {0};
  for (unsigned i = 0; i < 3; i++)
    __asm__("cpuid"
            : "=a"(brand[i * 4]), "=b"(brand[i * 4 + 1]), "=c"(brand[i * 4 + 2]), "=d"(brand[i * 4 + 3])
            : "a"(0x80000002u + i), "c"(0));
  memcpy(opgap_config.cpu, brand, sizeof brand);
#endif
}

/* 0, or a negative error number. */
static long absolute(char *out, size_t size, const char *path)
{
  struct opgap_text text = {out, out + size - 1};
  if (path[0] != '/') {
    long length = opgap_raw3(SYS_getcwd, (long)out, (long)size, 0);
    if (length < 0 || out[0] != '/') /* removed, or not below the root folder */
      return length < 0 ? length : -ENOENT;
    text.at = out + strlen(out);
    opgap_text_string(&text, "/");
  }
  opgap_text_string(&text, path);
  return text.at < text.end ? 0 : -ENAMETOOLONG;
}

static void default_folder_name(char *name, size_t size)
{
  struct opgap_text text = {name, name + size - 1};
  struct timespec now;
  struct tm local;
  clock_gettime(CLOCK_REALTIME, &now);
  opgap_text_string(&text, "opgap-");
  const char *start = text.at;
  put_program(&text);
  if (text.at == start)
    opgap_text_string(&text, "program");
  opgap_text_string(&text, "-");
  /* UTC: localtime would read the zone file and keep state that belongs to the program */
  gmtime_r(&now.tv_sec, &local);
  uint64_t date =
      (uint64_t)(local.tm_year + 1900) * 10000 + (uint64_t)(local.tm_mon + 1) * 100 + (uint64_t)local.tm_mday;
  uint64_t clock = 1000000 + (uint64_t)local.tm_hour * 10000 + (uint64_t)local.tm_min * 100 + (uint64_t)local.tm_sec;
  opgap_text_number(&text, date, 10);
  opgap_text_string(&text, "-");
  char digits[16];
  struct opgap_text t = {digits, digits + sizeof digits - 1};
  opgap_text_number(&t, clock, 10);
  opgap_text_string(&text, digits + 1);
  opgap_text_string(&text, "-");
  opgap_text_number(&text, (uint64_t)opgap_raw_getpid(), 10);
  opgap_text_string(&text, ".opgap");
}

/* Makes the trace folder of the setting or of the default name, or takes it if it is there. */
static bool make_folder(void)
{
  static bool said;
  char name[256];
  default_folder_name(name, sizeof name);
  const char *wanted = opgap_config.settings.out[0] ? opgap_config.settings.out : name;
  long error = absolute(opgap_config.folder, sizeof opgap_config.folder, wanted);
  bool named = error == 0;
  if (named)
    error = opgap_raw3(SYS_mkdirat, AT_FDCWD, (long)opgap_config.folder, 0700);
  if (error == 0 || error == -EEXIST /* several ranks, and commands of one shell, share a folder */) {
    setenv("OPGAP_SESSION", opgap_config.folder, 1);
    opgap_config.made_folder = true;
    return true;
  }
  opgap_notice(&said, "cannot create the trace folder %s (%s, error %d): the program runs untraced",
               named ? opgap_config.folder : wanted, opgap_error_words(error), (int)-error);
  return false;
}

/* The folder of the trace: the one that a parent or `opgap record` hands down, or a new one.  One that was handed down
 * and is not there is not made again: the program may have removed it on purpose, and who made it tells.
 * opgap_config.first: as a slash behind the folder says when it comes from `opgap record`.  executed: the former image
 * of this process has left a ring.  Both marks are taken off, in place: a shell has a setenv of its own, which need not
 * change what it hands down. */
OPGAP_EARLY_CODE static bool find_folder(bool *executed)
{
  const size_t mark = sizeof OPGAP_SESSION_EXECUTED - 1;
  const char *session = getenv("OPGAP_SESSION");
  struct stat info;
  opgap_config.first = true;
  if (session == NULL || session[0] != '/' || strlen(session) >= sizeof opgap_config.folder)
    return make_folder();
  size_t length = strlen(session);
  for (; length > mark && memcmp(session + length - mark, OPGAP_SESSION_EXECUTED, mark) == 0; length -= mark)
    *executed = true; /* more than once if an image between was not traced */
  bool first = opgap_config.first = !*executed && length > 1 && session[length - 1] == '/';
  ((char *)(uintptr_t)session)[length - first] = 0;
  struct opgap_text text = {opgap_config.folder, opgap_config.folder + sizeof opgap_config.folder - 1};
  opgap_text_string(&text, session);
  return opgap_raw6(SYS_newfstatat, AT_FDCWD, (long)session, (long)&info, 0, 0, 0) == 0 && S_ISDIR(info.st_mode);
}

OPGAP_EARLY_CODE static bool read_settings(void)
{
  static bool said, said_unknown;
  char message[OPGAP_SETTING_MESSAGE_MAX];
  if (environ == NULL || !opgap_settings_any(environ)) {
    opgap_settings_default(&opgap_config.settings);
    return true;
  }
  if (opgap_settings_parse(&opgap_config.settings, get_environment, NULL, message, sizeof message) > 0)
    opgap_notice(&said, "%s", message);
  const char *unknown = opgap_settings_unknown(environ);
  if (unknown)
    opgap_notice(&said_unknown, "unknown setting %s: ignored", unknown);
  return !opgap_config.settings.off;
}

/* Many programs that a program starts are over before they do anything to be recorded (/bin/true).  They cost nothing,
 * and leave no file, because their session begins with their first hook, as a forked child's does; unless a setting
 * needs it earlier.  The trace's first process always has a session, so that there is a trace. */
OPGAP_EARLY_CODE bool opgap_session_can_wait(void)
{
  const struct opgap_settings *settings = &opgap_config.settings;
  return !settings->alloc_events && settings->schedule.active == 0 && settings->delay_ns == 0 &&
         settings->duration_ns == 0 && settings->control == OPGAP_CONTROL_OFF;
}

/* ---- exec ---- */

/* The ring of a process that executes takes this name, so that the next image, which may never record anything, finds
 * it by one look, and removes it. */
static void name_for_exec(char *path, size_t size)
{
  struct opgap_text text = {path, path + size - 1};
  opgap_text_string(&text, SHM "/opgap-");
  opgap_text_number(&text, (uint64_t)opgap_raw3(SYS_getuid, 0, 0, 0), 10);
  opgap_text_string(&text, "-");
  opgap_text_number(&text, (uint64_t)opgap_raw_getpid(), 10);
  opgap_text_string(&text, "-exec.ring");
}

static bool rename_ring(const char *to)
{
  struct opgap_arena *arena = opgap_state->arena;
  if (opgap_raw6(SYS_renameat2, AT_FDCWD, (long)arena->ring_file, AT_FDCWD, (long)to, 1 /* RENAME_NOREPLACE */, 0) < 0)
    return false; /* a process of this number in another container is about to execute as well */
  struct opgap_text text = {arena->ring_file, arena->ring_file + sizeof arena->ring_file - 1};
  opgap_text_string(&text, to);
  return true;
}

/* As a rule the file has everything and the ring can go, which needs no function of libc to be bound.  If a guest is
 * still there, the last one removes it. */
static void remove_former_image(const char *path)
{
  struct stat status;
  struct opgap_arena *arena = NULL;
  int fd = (int)opgap_raw_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  if (fd < 0)
    return;
  if (opgap_raw3(SYS_fstat, fd, (long)&status, 0) == 0 && status.st_size >= (off_t)OPGAP_ARENA_HEADER_BYTES)
    arena = opgap_raw_mmap((size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  opgap_raw_close(fd);
  if (arena == NULL)
    return;
  bool done = false;
  if (opgap_arena_check(arena, (uint64_t)status.st_size) == NULL) {
    uint32_t end = OPGAP_ARENA_EXEC;
    atomic_compare_exchange_strong(&arena->end, &end, OPGAP_ARENA_REPLACED);
    atomic_thread_fence(memory_order_seq_cst); /* M */
    done = opgap_arena_take_over(arena, opgap_raw_getpid());
  }
  opgap_raw_munmap(arena, (size_t)status.st_size);
  if (done)
    opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
  else
    opgap_recover_former_image(path);
}

static void take_former_image(void)
{
  char path[64];
  name_for_exec(path, sizeof path);
  remove_former_image(path);
}

OPGAP_EARLY_CODE bool opgap_session_start(const char *program,
                                          const struct opgap_event *(*hook_events)(unsigned *count),
                                          const uint16_t *counter_events, unsigned counter_count)
{
  struct opgap_cell *before = opgap_cell;
  opgap_cell = &opgap_tool_cell;
  opgap_config.program = program;
  opgap_config.hook_events = hook_events;
  opgap_config.counter_events = counter_events;
  opgap_config.counter_count = counter_count < OPGAP_MAX_COUNTERS ? counter_count : OPGAP_MAX_COUNTERS;
  opgap_config.stack_top = (char *)__builtin_frame_address(0);
  bool on = false, executed = false;
  if (getauxval(AT_SECURE) == 0 && read_settings()) {
    const char *clock = getenv("OPGAP_TEST_CLOCK");
    opgap_config.no_tsc = clock && strcmp(clock, "monotonic") == 0;
    on = find_folder(&executed);
    if (on && opgap_config.first)
      find_cpu();
  }
  opgap_config.loader_pid = opgap_raw_getpid();
  bool waits = on && !opgap_config.first && opgap_session_can_wait();
  if (executed)
    take_former_image();
  if (opgap_config.settings.stacks != OPGAP_STACKS_OFF)
    learn_surroundings(); /* below, the clock is measured */
  if (waits && opgap_frameworks_session_started)
    opgap_frameworks_session_started();
  if (on && (waits || opgap_session_begin())) {
    opgap_config.groups = opgap_config.settings.hooks | OPGAP_GROUP_process;
    opgap_stacks_start();
    if (opgap_gpu_start && (opgap_config.groups & (OPGAP_GROUP_cuda | OPGAP_GROUP_nvtx)))
      opgap_gpu_start();
    opgap_cell = before;
    /* a record per allocation is too much for the program's own thread to encode; time limits need somebody's clock */
    bool need_flusher = opgap_config.settings.alloc_events;
    need_flusher |= opgap_schedule_start(opgap_config.groups); /* last: from here on hooks record */
    if (need_flusher)
      opgap_session_threads();
    return true;
  }
  opgap_cell = before;
  return false;
}

const char *opgap_session_folder(void)
{
  return opgap_config.folder;
}

OPGAP_EARLY_CODE int opgap_session_pid(void)
{
  return opgap_state->pid;
}

/* ---- end ---- */

/* What only the end knows. */
static int describe_end(struct opgap_consumer *consumer)
{
  uint8_t buffer[512];
  struct pairs pairs = {buffer, buffer + sizeof buffer};
  if (opgap_torch_version)
    pair(&pairs, "torch", opgap_torch_version());
  if (opgap_gpu_status)
    pair(&pairs, "gpu", opgap_gpu_status());
  struct opgap_stack_counts stacks = opgap_stack_counts();
  if (stacks.lines_skipped > 0)
    pair_number(&pairs, "lines_skipped", (int64_t)stacks.lines_skipped);
  if (stacks.taken + stacks.skipped + stacks.failed > 0) {
    pair_number(&pairs, "stacks_taken", (int64_t)stacks.taken);
    pair_number(&pairs, "stacks_skipped", (int64_t)stacks.skipped);
    pair_number(&pairs, "stacks_failed", (int64_t)stacks.failed);
    pair_number(&pairs, "stacks_ns", (int64_t)stacks.ns);
  }
  return pairs.at > buffer ? opgap_consumer_info(consumer, buffer, (size_t)(pairs.at - buffer)) : 0;
}

/* Records that were committed and found no room in the file are lost, and counted as such. */
static void count_unwritten(struct opgap_state *state)
{
  struct opgap_arena *arena = state->arena;
  uint64_t records = arena->records, raw = arena->raw_bytes, stored = arena->stored_bytes;
  uint64_t sequence = arena->chunk_sequence;
  state->discard = true;
  opgap_consumer_drain(state->consumer, opgap_clock_anchor_for, OPGAP_DRAIN_ALL);
  state->discard = false;
  arena->unwritten += arena->records - records;
  arena->records = records;
  arena->raw_bytes = raw;
  arena->stored_bytes = stored;
  arena->chunk_sequence = sequence;
}

static bool try_last_words(const char *how, int status)
{
  return describe_end(opgap_state->consumer) == 0 && opgap_consumer_end(opgap_state->consumer, how, status) == 0;
}

/* The disk may be so full that not even these find room: then the last chunk of records makes some, and they are lost.
 */
static void say_last_words(const char *how, int status)
{
  struct opgap_state *state = opgap_state;
  struct opgap_arena *arena = state->arena;
  uint64_t file_bytes = state->file_bytes, sequence = arena->chunk_sequence;
  uint32_t chunk_bytes = state->last_chunk_bytes, records = state->last_chunk_records;
  state->last_words = true;
  if (!try_last_words(how, status) && chunk_bytes > 0 && opgap_trace_cut(file_bytes - chunk_bytes)) {
    arena->unwritten += records;
    arena->records -= records;
    arena->chunk_sequence = sequence - 1;
    try_last_words(how, status);
  }
  state->last_words = false;
}

static void drain_for_good(const char *how, int status, enum opgap_arena_end end)
{
  struct opgap_state *state = opgap_state;
  state->out_of_reach = false; /* the program may have its rights again */
  if (!state->write_failed)
    opgap_drain_now(OPGAP_DRAIN_ALL);
  if (state->write_failed)
    count_unwritten(state);
  if (!state->out_of_reach)
    say_last_words(how, status);
  else
    state->arena->end_ticks = opgap_ticks();
  state->arena->exit_status = status;
  atomic_store(&state->arena->end, end);
}

/* Is the file without its end, which another process may be able to write?  If it was removed, none is. */
static bool end_is_missing(const struct opgap_arena *arena)
{
  return opgap_state->out_of_reach ||
         (arena->end_sequence != arena->chunk_sequence &&
          opgap_raw6(SYS_faccessat, AT_FDCWD, (long)arena->trace_file, F_OK, 0, 0, 0) == 0);
}

/* The ring stays where the end could not be said.  Children that are still guests need the ring's name, too; the last
 * of them removes it. */
static void remove_ring(struct opgap_arena *arena)
{
  if (end_is_missing(arena))
    return;
  atomic_thread_fence(memory_order_seq_cst); /* M */
  if (arena->ring_file[0] && !opgap_arena_has_guest(arena, NULL))
    opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)arena->ring_file, 0);
}

/* ---- confined ---- */

#define CONFINED_BLOCKS 256u /* 8 MiB of rings that are ready beforehand, as far as there is room */

OPGAP_EARLY_DATA bool opgap_confined;

bool opgap_session_is_here(void)
{
  return opgap_confined ? atomic_load(&opgap_state->phase) == OPGAP_PHASE_RUNNING
                        : opgap_state->pid == opgap_raw_getpid();
}

bool opgap_session_confine(bool all_threads)
{
  static bool said;
  struct opgap_state *state = opgap_state;
  if (opgap_confined)
    return false;
  if (opgap_active)
    opgap_self(); /* the session begins while it may */
  if (atomic_load(&state->phase) == OPGAP_PHASE_RUNNING && state->pid == opgap_raw_getpid()) {
    if (state->arena->ring_file[0] == 0)
      opgap_notice(&said, "the program confines itself, and its ring is private memory: what comes is not recorded");
    struct opgap_cell *cell = opgap_cell;
    opgap_cell = &opgap_tool_cell;
    if (all_threads)
      opgap_flusher_stop();
    opgap_grow_blocks(state->arena, CONFINED_BLOCKS);
    if (opgap_drain_enter(UINT64_C(2000000000))) {
      opgap_drain_now(OPGAP_DRAIN_ALL);
      opgap_drain_leave();
    }
    opgap_cell = cell;
  }
  opgap_guest_refuse();
  opgap_reach_leave_environment();
  opgap_confined = true;
  return true;
}

void opgap_session_unconfine(void)
{
  opgap_confined = false;
  opgap_reach_enter_environment();
  if (atomic_load(&opgap_state->phase) == OPGAP_PHASE_RUNNING)
    opgap_guest_host(opgap_state->arena);
}

static bool counter_gone;

static uint64_t end_ticks(void)
{
  return counter_gone ? 0 : opgap_ticks();
}

/* How the process ends, for whoever drains its ring. */
static void leave_ring(enum opgap_arena_end end, int exit_status)
{
  if (atomic_load(&opgap_state->phase) != OPGAP_PHASE_RUNNING)
    return;
  opgap_state->arena->exit_status = exit_status;
  opgap_state->arena->end_ticks = end == OPGAP_ARENA_RUNNING ? 0 : end_ticks();
  atomic_store(&opgap_state->arena->end, end);
}

void opgap_session_counter_gone(void)
{
  counter_gone = true;
}

static void flush(const char *how, enum opgap_arena_end end)
{
  if (counter_gone || atomic_load(&opgap_state->phase) != OPGAP_PHASE_RUNNING || opgap_raw_getpid() != opgap_state->pid)
    return;
  opgap_faults_close();
  struct opgap_cell *cell = opgap_cell;
  opgap_cell = &opgap_tool_cell;
  if (opgap_gpu_flush)
    opgap_gpu_flush();
  if (opgap_drain_enter(UINT64_C(2000000000))) {
    drain_for_good(how, 0, end);
    opgap_drain_leave();
  }
  opgap_cell = cell;
}

bool opgap_session_flush_exec(void)
{
  struct opgap_state *state = opgap_state;
  char path[64];
  if (opgap_confined) {
    leave_ring(OPGAP_ARENA_EXEC, 0);
    return false;
  }
  flush("exec", OPGAP_ARENA_EXEC);
  if (atomic_load(&state->phase) != OPGAP_PHASE_RUNNING || atomic_load(&state->arena->end) != OPGAP_ARENA_EXEC ||
      opgap_raw_getpid() != state->pid || memcmp(state->arena->ring_file, SHM "/", sizeof SHM) != 0)
    return false;
  name_for_exec(path, sizeof path);
  memcpy(state->ring_name, state->arena->ring_file, sizeof state->ring_name);
  return rename_ring(path);
}

void opgap_session_flush_end(void)
{
  if (opgap_confined) {
    leave_ring(OPGAP_ARENA_CLEAN, 0);
    return;
  }
  flush("clean", OPGAP_ARENA_CLEAN);
  if (opgap_state->arena)
    remove_ring(opgap_state->arena);
}

void opgap_session_goes_on(void)
{
  struct opgap_state *state = opgap_state;
  if (opgap_confined) {
    leave_ring(OPGAP_ARENA_RUNNING, 0);
  } else if (atomic_load(&state->phase) == OPGAP_PHASE_RUNNING && opgap_raw_getpid() == state->pid) {
    if (state->ring_name[0])
      rename_ring(state->ring_name);
    state->ring_name[0] = 0;
    state->arena->end_ticks = 0;
    atomic_store(&state->arena->end, OPGAP_ARENA_RUNNING);
    opgap_control_again();
  }
}

OPGAP_EARLY_CODE void opgap_session_end(int exit_status)
{
  struct opgap_state *state = opgap_state;
  uint32_t running = OPGAP_PHASE_RUNNING;
  if (opgap_unlikely(opgap_confined)) {
    leave_ring(OPGAP_ARENA_CLEAN, exit_status & 0xff);
    return;
  }
  if (opgap_unlikely(state->guest.from != NULL))
    opgap_guest_end();
  if (atomic_load(&state->phase) != OPGAP_PHASE_RUNNING || opgap_raw_getpid() != state->pid)
    return;
  if (!counter_gone)
    opgap_faults_close();
  struct opgap_cell *cell = opgap_cell;
  bool by_flusher = cell == &opgap_flusher_cell; /* which has its own descriptors, and no right to call the GPU's */
  if (!by_flusher)
    opgap_cell = &opgap_tool_cell;
  if (opgap_gpu_end && !counter_gone && !by_flusher)
    opgap_gpu_end();
  if (!counter_gone && opgap_drain_enter(UINT64_C(2000000000))) {
    if (atomic_compare_exchange_strong(&state->phase, &running, OPGAP_PHASE_ENDED)) {
      opgap_active_halt();
      drain_for_good("clean", exit_status & 0xff, OPGAP_ARENA_CLEAN);
      remove_ring(state->arena);
    }
    opgap_drain_leave();
    opgap_stderr_end();
  } else { /* or the drain takes too long: the ring stays, the next reader takes the rest */
    state->arena->exit_status = exit_status & 0xff;
    state->arena->end_ticks = end_ticks();
    atomic_store(&state->arena->end, OPGAP_ARENA_CLEAN);
  }
  opgap_control_leave();
  opgap_cell = cell;
}
