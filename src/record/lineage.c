/* See lineage.h. */
#include "record/lineage.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "format/lineage.h"
#include "format/recover.h"
#include "record/internal.h"
#include "record/raw.h"

#define ANCESTORS 64 /* looked through for one that has a place: shells and launchers that are not traced */

static struct opgap_lineage *lineage;     /* mapped; a forked child has it from its parent */
static uint64_t lineage_file;             /* its inode */
static struct opgap_lineage_place *place; /* of the process own_pid */
/* Refs: its own, its parent's, and so on; 0: no more.  A forked child's parent may have gone before it has a place. */
static uint32_t line[8];
static _Atomic int own_pid; /* 0: none */

/* A child's state is wiped.  No system call: a program that confined itself goes on with its steps. */
bool opgap_lineage_has(void)
{
  int pid = atomic_load_explicit(&own_pid, memory_order_relaxed);
  return pid != 0 && pid == opgap_state->pid;
}

/* ---- the file ---- */

/* False: the trace folder is gone. */
static bool name_file(char *path, size_t size)
{
  struct stat folder;
  struct opgap_text text = {path, path + size - 1};
  if (opgap_raw6(SYS_newfstatat, AT_FDCWD, (long)opgap_config.folder, (long)&folder, 0, 0, 0) != 0)
    return false;
  opgap_text_string(&text, "/dev/shm/opgap-");
  opgap_text_number(&text, (uint64_t)opgap_raw3(SYS_getuid, 0, 0, 0), 10);
  opgap_text_string(&text, "-");
  opgap_text_number(&text, folder.st_dev, 16);
  opgap_text_string(&text, "-");
  opgap_text_number(&text, folder.st_ino, 16);
  opgap_text_string(&text, OPGAP_LINEAGE_SUFFIX);
  return true;
}

/* Opens the file, sized and of this user, and gives its inode; or -1. */
static int open_file(uint64_t *inode)
{
  char path[96];
  struct stat status;
  if (!name_file(path, sizeof path) || !opgap_within_file_limit(sizeof *lineage))
    return -1;
  int fd = (int)opgap_raw_open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return -1;
  if (opgap_raw3(SYS_fstat, fd, (long)&status, 0) == 0 && status.st_uid == opgap_raw3(SYS_getuid, 0, 0, 0) &&
      opgap_raw6(SYS_fallocate, fd, 0, 0, offsetof(struct opgap_lineage, places), 0, 0) == 0 &&
      opgap_raw3(SYS_ftruncate, fd, sizeof *lineage, 0) == 0) {
    *inode = status.st_ino;
    return fd;
  }
  opgap_raw_close(fd);
  return -1;
}

/* What a forked child has from its parent must be the same file. */
static bool map_file(int fd, uint64_t inode)
{
  if (lineage != NULL)
    return lineage_file == inode;
  if (!opgap_room_for(sizeof *lineage))
    return false;
  struct opgap_lineage *mapped = opgap_raw_mmap(sizeof *lineage, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  uint64_t none = 0;
  if (mapped == NULL)
    return false;
  if (!atomic_compare_exchange_strong(&mapped->magic, &none, OPGAP_LINEAGE_MAGIC) && none != OPGAP_LINEAGE_MAGIC) {
    opgap_raw_munmap(mapped, sizeof *lineage);
    return false;
  }
  lineage = mapped;
  lineage_file = inode;
  return true;
}

/* ---- places ---- */

/* Not while it is being filled in. */
static bool is_dead(struct opgap_lineage_place *at, uint64_t pid_namespace)
{
  int pid = atomic_load(&at->pid), parent;
  return pid != 0 && atomic_load(&at->ref) != 0 && atomic_load(&at->pid_namespace) == pid_namespace &&
         opgap_process_start_time(pid, &parent) != atomic_load(&at->start_time);
}

static struct opgap_lineage_place *find(int pid, uint64_t start_time, uint64_t pid_namespace)
{
  uint32_t used = atomic_load(&lineage->used);
  for (uint32_t i = 0; i < used; i++) {
    struct opgap_lineage_place *at = &lineage->places[i];
    if (atomic_load(&at->pid) == pid && atomic_load(&at->ref) != 0 && atomic_load(&at->start_time) == start_time &&
        atomic_load(&at->pid_namespace) == pid_namespace)
      return at;
  }
  return NULL;
}

/* The nearest ancestor that has a place, from this one on: its ref; 0: none. */
static uint32_t nearest(int ancestor, uint64_t pid_namespace)
{
  for (int i = 0; i < ANCESTORS && ancestor > 0; i++) {
    int next = 0;
    uint64_t start_time = opgap_process_start_time(ancestor, &next);
    struct opgap_lineage_place *at = start_time != 0 ? find(ancestor, start_time, pid_namespace) : NULL;
    if (at != NULL)
      return atomic_load(&at->ref);
    ancestor = next;
  }
  return 0;
}

static void note_line(const struct opgap_lineage_place *own)
{
  uint32_t ref = atomic_load(&own->ref);
  for (unsigned i = 0; i < sizeof line / sizeof *line; i++) {
    const struct opgap_lineage_place *at = opgap_lineage_at(lineage, ref);
    line[i] = ref;
    ref = at != NULL ? atomic_load(&at->parent) : 0;
  }
}

/* Of the line of the process that forked this one the nearest that is still there; 0: none. */
static uint32_t nearest_in_line(void)
{
  for (unsigned i = 0; i < sizeof line / sizeof *line; i++)
    if (opgap_lineage_at(lineage, line[i]) != NULL)
      return line[i];
  return 0;
}

static struct opgap_lineage_place *take_free(int pid)
{
  uint32_t used = atomic_load(&lineage->used);
  for (uint32_t i = 0; i < used; i++) {
    int nobody = 0;
    if (atomic_load(&lineage->places[i].pid) == 0 &&
        atomic_compare_exchange_strong(&lineage->places[i].pid, &nobody, pid))
      return &lineage->places[i];
  }
  return NULL;
}

/* Allocated for real before it is counted. */
static bool add_place(int fd)
{
  uint32_t used = atomic_load(&lineage->used);
  if (used >= OPGAP_LINEAGE_PLACES ||
      opgap_raw6(SYS_fallocate, fd, 0, (long)((char *)&lineage->places[used] - (char *)lineage),
                 sizeof lineage->places[0], 0, 0) != 0)
    return false;
  atomic_compare_exchange_strong(&lineage->used, &used, used + 1);
  return true;
}

static struct opgap_lineage_place *take_dead(int pid, uint64_t pid_namespace)
{
  uint32_t used = atomic_load(&lineage->used);
  for (uint32_t i = 0; i < used; i++) {
    struct opgap_lineage_place *at = &lineage->places[i];
    int dead = atomic_load(&at->pid);
    if (is_dead(at, pid_namespace) && atomic_compare_exchange_strong(&at->pid, &dead, pid))
      return at;
  }
  return NULL;
}

static struct opgap_lineage_place *take(int fd, int pid, uint64_t pid_namespace)
{
  struct opgap_lineage_place *at = take_free(pid);
  while (at == NULL && add_place(fd))
    at = take_free(pid);
  return at != NULL ? at : take_dead(pid, pid_namespace);
}

static bool map_page(void *to, int fd, const struct opgap_lineage_place *at)
{
  long mapped = opgap_raw6(SYS_mmap, (long)to, OPGAP_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                           (const char *)at - (const char *)lineage);
  return mapped == (long)to;
}

static struct opgap_control *join(int fd, void *to, bool forked)
{
  int parent_pid = 0, pid = opgap_raw_getpid();
  uint64_t pid_namespace = opgap_pid_namespace(), start_time = opgap_process_start_time(0, &parent_pid);
  struct opgap_lineage_place *at = find(pid, start_time, pid_namespace); /* of the program that executed this one */
  uint32_t parent = at != NULL ? atomic_load(&at->parent) : forked ? nearest_in_line() : 0;
  if (at == NULL && parent == 0)
    parent = nearest(parent_pid, pid_namespace);
  if (at == NULL)
    at = take(fd, pid, pid_namespace);
  if (at == NULL)
    return NULL;
  atomic_store(&at->page.open, 0);
  atomic_store(&at->page.active, 0);
  if (!map_page(to, fd, at)) {
    atomic_store(&at->ref, 0);
    atomic_store(&at->pid, 0);
    return NULL;
  }
  at->page.always = OPGAP_GROUP_process;
  atomic_store(&at->page.wanted, 0);
  atomic_store(&at->ends_steps, 0);
  atomic_store(&at->on, 0);
  atomic_store(&at->start_time, start_time);
  atomic_store(&at->pid_namespace, pid_namespace);
  atomic_store(&at->parent, parent);
  if (atomic_load(&at->ref) == 0)
    atomic_store(&at->ref, opgap_lineage_ref((unsigned)(at - lineage->places), ++at->times_taken));
  place = at;
  note_line(at);
  own_pid = pid;
  struct opgap_lineage_place *above = opgap_lineage_at(lineage, parent);
  if (above != NULL && opgap_lineage_leader(lineage, at) == NULL) /* as its parent, which has lost its own */
    atomic_store(&at->page.wanted, atomic_load(&above->page.wanted));
  opgap_lineage_settle(lineage, at);
  return &at->page;
}

struct opgap_control *opgap_lineage_join(void *at, bool forked)
{
  uint64_t inode;
  int fd = open_file(&inode);
  if (fd < 0)
    return NULL;
  struct opgap_control *page = map_file(fd, inode) ? join(fd, at, forked) : NULL;
  opgap_raw_close(fd);
  return page;
}

/* ---- the end ---- */

static bool is_last(uint64_t pid_namespace)
{
  uint32_t used = atomic_load(&lineage->used);
  for (uint32_t i = 0; i < used; i++)
    if (atomic_load(&lineage->places[i].pid) != 0 && !is_dead(&lineage->places[i], pid_namespace))
      return false;
  return true;
}

static void remove_file(void)
{
  char path[96];
  struct stat status;
  if (name_file(path, sizeof path) &&
      opgap_raw6(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, AT_SYMLINK_NOFOLLOW, 0, 0) == 0 &&
      status.st_ino == lineage_file)
    opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
}

/* Invariant 2. */
static void leave_children(void)
{
  uint32_t used = atomic_load(&lineage->used), parent = atomic_load(&place->parent);
  for (uint32_t i = 0; i < used; i++) {
    struct opgap_lineage_place *child = &lineage->places[i];
    uint32_t ref = line[0];
    if (atomic_load(&child->ref) != 0 && atomic_compare_exchange_strong(&child->parent, &ref, parent))
      opgap_lineage_settle(lineage, child);
  }
}

void opgap_lineage_leave(void)
{
  if (!opgap_lineage_has())
    return;
  own_pid = 0;
  if (!atomic_load(&place->ends_steps))
    leave_children();
  atomic_store(&place->ref, 0);
  atomic_store(&place->pid, 0);
  if (is_last(opgap_pid_namespace()))
    remove_file();
}

/* ---- windows ---- */

bool opgap_lineage_leads(void)
{
  return opgap_lineage_has() && opgap_lineage_leader(lineage, place) == place;
}

void opgap_lineage_say(bool on)
{
  if (!opgap_lineage_has())
    return;
  atomic_store(&place->on, on);
  opgap_lineage_settle_all(lineage, place);
}

bool opgap_lineage_step(bool *was_on)
{
  if (!opgap_lineage_has() || atomic_load(&place->ends_steps))
    return false;
  bool led = opgap_lineage_leads();
  *was_on = atomic_load(&place->page.wanted);
  return atomic_exchange(&place->ends_steps, 1) == 0 && !led;
}
