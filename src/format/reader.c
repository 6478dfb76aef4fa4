/* A trace: the processes of a folder, or one, on one clock. */
#include "format/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/trace.h"

#define MAX_PROCESSES 65536u

static bool add_process(struct opgap_trace *trace, const char *path, char *error, size_t size)
{
  struct process **grown = realloc(trace->processes, (trace->count + 1) * sizeof *grown);
  if (grown == NULL) {
    snprintf(error, size, "%s: out of memory", path);
    return false;
  }
  trace->processes = grown;
  struct process *process = process_read(path, error, size);
  if (process == NULL)
    return false;
  trace->processes[trace->count++] = process;
  process_share_pages(process, trace->count);
  return true;
}

/* ---- clocks ---- */

static int64_t realtime_start(const struct process *process)
{
  return (int64_t)process->info.start_ns + process->info.realtime_offset_ns;
}

/* Without its description a process has no boot id, and its time of day is not known. */
static bool knows_clock(const struct process *process)
{
  return process->info.boot_id[0] != '\0';
}

/* CLOCK_MONOTONIC begins at each host's start: all processes are put on the clock of the one that started first.  Those
 * of which it is not known are taken to be on it.  from: the first process that is not yet. */
static void join_clocks(struct opgap_trace *trace, unsigned from)
{
  if (trace->clock_boot_id == NULL && trace->count > 0) {
    const struct process *first = trace->processes[0];
    for (unsigned i = 1; i < trace->count; i++)
      if (knows_clock(trace->processes[i]) &&
          (!knows_clock(first) || realtime_start(trace->processes[i]) < realtime_start(first)))
        first = trace->processes[i];
    trace->clock_boot_id = strdup(first->info.boot_id);
    trace->clock_offset_ns = first->info.realtime_offset_ns;
  }
  for (unsigned i = from; i < trace->count && trace->clock_boot_id != NULL; i++) {
    struct process *process = trace->processes[i];
    if (!knows_clock(process))
      process->info.realtime_offset_ns = trace->clock_offset_ns;
    else if (strcmp(process->info.boot_id, trace->clock_boot_id) != 0)
      process_shift_clock(process, process->info.realtime_offset_ns - trace->clock_offset_ns);
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

static int by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The paths of the processes that are there, sorted; NULL: no memory. */
static char **known_paths(const struct opgap_trace *trace)
{
  char **paths = calloc(trace->count + 1, sizeof *paths);
  for (unsigned i = 0; paths != NULL && i < trace->count; i++)
    paths[i] = trace->processes[i]->path;
  if (paths != NULL)
    qsort(paths, trace->count, sizeof *paths, by_text);
  return paths;
}

/* The images of a process that executes have its pid, but each began at a time of its own. */
static bool is_copy(const struct process *one, const struct process *other)
{
  const struct opgap_process_info *a = &one->info, *b = &other->info;
  return knows_clock(one) && a->start_ns == b->start_ns && a->pid == b->pid && strcmp(a->boot_id, b->boot_id) == 0 &&
         strcmp(a->host, b->host) == 0;
}

/* Has its file the name that the tracer gave it?  <host>-<pid>-<start>, and a count where there were several images. */
static bool has_own_name(const struct process *process)
{
  char own[512];
  const char *start = process_info(process, "start_time"), *name = strrchr(process->path, '/');
  name = name != NULL ? name + 1 : process->path;
  int length = snprintf(own, sizeof own, "%s-%d-%s", process->info.host, process->info.pid, start != NULL ? start : "");
  if (length >= (int)sizeof own || strncmp(name, own, (size_t)length) != 0)
    return false;
  name += length;
  if (*name == '-')
    name += 1 + strspn(name + 1, "0123456789");
  return strcmp(name, ".opgt") == 0;
}

/* Of two files of one process, which somebody copied, the one to read: that which was there before, holds more, or has
 * the name that the tracer gave it. */
static struct process *fuller(struct process *one, struct process *other, char **known, size_t known_count)
{
  bool knows_one = bsearch(&one->path, known, known_count, sizeof *known, by_text) != NULL;
  bool knows_other = bsearch(&other->path, known, known_count, sizeof *known, by_text) != NULL;
  if (knows_one != knows_other)
    return knows_one ? one : other;
  if (one->info.records != other->info.records)
    return one->info.records > other->info.records ? one : other;
  return has_own_name(other) && !has_own_name(one) ? other : one;
}

/* One file of each process stays.  The processes are sorted by start; known: paths of those that were there. */
static void leave_out_copies(struct opgap_trace *trace, char **known, size_t known_count)
{
  for (unsigned i = 1; i < trace->count; i++)
    for (unsigned k = i; k-- > 0 && trace->processes[k]->info.start_ns == trace->processes[i]->info.start_ns;) {
      struct process *one = trace->processes[k], *other = trace->processes[i];
      if (!is_copy(one, other))
        continue;
      struct process *stays = trace->processes[k] = fuller(one, other, known, known_count);
      other = stays == one ? other : one;
      damage_add(&trace->notes,
                 has_own_name(other) && !has_own_name(stays) ? "%s is left out: %s is a copy of it that holds more"
                                                             : "%s is left out: it is a copy of %s",
                 other->path, stays->path);
      process_free(other);
      trace->count--;
      memmove(&trace->processes[i], &trace->processes[i + 1], (trace->count - i) * sizeof *trace->processes);
      i--;
      break;
    }
}

/* Adds the processes of the folder that are not there yet.  False: the folder cannot be read. */
static bool scan_folder(struct opgap_trace *trace, char *error, size_t size)
{
  DIR *folder = opendir(trace->path);
  if (folder == NULL) {
    snprintf(error, size, "%s: %s", trace->path, strerror(errno));
    return false;
  }
  unsigned before = trace->count;
  char **known = known_paths(trace);
  if (known == NULL) {
    snprintf(error, size, "%s: out of memory", trace->path);
    closedir(folder);
    return false;
  }
  damage_cut(&trace->damage, 0);
  damage_cut(&trace->notes, 0);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL && trace->count < MAX_PROCESSES;) {
    char *file = NULL, why[512];
    if (!is_trace_name(entry->d_name) || asprintf(&file, "%s/%s", trace->path, entry->d_name) < 0)
      continue;
    if (bsearch(&file, known, before, sizeof *known, by_text) == NULL && !add_process(trace, file, why, sizeof why)) {
      damage_add(&trace->damage, "%s", why);
      snprintf(error, size, "%s", why);
    }
    free(file);
  }
  closedir(folder);
  join_clocks(trace, before);
  for (unsigned i = 0; i < trace->count; i++)
    process_share_pages(trace->processes[i], trace->count);
  qsort(trace->processes, trace->count, sizeof *trace->processes, by_start);
  leave_out_copies(trace, known, before);
  free(known);
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
    if (!process_refresh(&trace->processes[i], from_ns, error, size))
      return false;
  return !trace->folder || scan_folder(trace, error, size);
}

void opgap_trace_close(struct opgap_trace *trace)
{
  if (trace == NULL)
    return;
  for (unsigned i = 0; i < trace->count; i++)
    process_free(trace->processes[i]);
  damage_free(&trace->damage);
  damage_free(&trace->notes);
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
    damage_add(&p->damage, "%llu records cannot be decoded", (unsigned long long)undecoded);
  }
  return &p->info;
}

const struct opgap_event *opgap_trace_event(const struct opgap_trace *trace, unsigned process, unsigned event)
{
  return event < OPGAP_MAX_EVENTS ? trace->processes[process]->events[event] : NULL;
}

const char *opgap_trace_info(const struct opgap_trace *trace, unsigned process, const char *key)
{
  return process_info(trace->processes[process], key);
}

const char *opgap_trace_damage(const struct opgap_trace *trace, unsigned *at)
{
  if (*at < trace->damage.count)
    return trace->damage.parts[(*at)++].text;
  const char *line = NULL;
  while (line == NULL && *at - trace->damage.count < trace->count) {
    unsigned process = (*at)++ - trace->damage.count;
    opgap_trace_process(trace, process); /* what cursors could not decode so far */
    line = damage_line(&trace->processes[process]->damage, trace->processes[process]->path);
  }
  return line;
}

const char *opgap_trace_note(const struct opgap_trace *trace, unsigned *at)
{
  return *at < trace->notes.count ? trace->notes.parts[(*at)++].text : NULL;
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
