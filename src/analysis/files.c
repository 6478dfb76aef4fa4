/* I/O by file and operation: every call on a named object that is an absolute path. */
#include "analysis/internal.h"
#include "analysis/order.h"

#include <stdlib.h>
#include <string.h>

/* Of what is made to be kept: data, or the name that it has in the end. */
static bool is_write(enum verb verb)
{
  return verb == VERB_WRITE || verb == VERB_FLUSH || verb == VERB_SYNC || verb == VERB_CHANGE;
}

const char *files_verb(enum verb verb)
{
  switch (verb) {
  case VERB_READ:
    return "read";
  case VERB_WRITE:
    return "write";
  case VERB_OPEN:
    return "open";
  case VERB_CLOSE:
    return "close";
  case VERB_FLUSH:
    return "flush";
  case VERB_SYNC:
    return "sync";
  case VERB_STAT:
    return "stat";
  case VERB_CHANGE:
    return "change";
  default:
    return "other";
  }
}

/* What was late before, because it polled, was before the first step. */
static void begin_steps(struct analysis *a, unsigned process)
{
  a->processes[process].steps_began = true;
  for (size_t i = 0; i < a->files.count; i++)
    if (a->files.at[i].process == process)
      a->files.at[i].late_bytes = a->files.at[i].late_ns = 0;
}

static uint64_t key_of(unsigned process, enum verb verb)
{
  return (uint64_t)process << 8 | verb;
}

void files_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r, uint64_t ns,
               uint32_t path)
{
  struct process *p = &a->processes[t->process];
  bool moves = (hook->verb == VERB_READ || hook->verb == VERB_WRITE) && r->status == 0;
  uint64_t bytes = moves ? r->field[1] : 0;
  p->file_ns += ns;
  bool in_steps = t->main && steps_source(p) != STEPS_SOURCES;
  if (in_steps && !p->steps_began)
    begin_steps(a, t->process);
  if (hook->verb == VERB_READ)
    p->read_bytes += bytes;
  else if (hook->verb == VERB_WRITE)
    p->written_bytes += bytes;
  if (hook->verb == VERB_MAP && r->status == 0) {
    p->mapped_all_bytes += r->field[1];
    if (r->field[1] > p->mapped_bytes) {
      p->mapped = path;
      p->mapped_bytes = r->field[1];
    }
  }
  if (a->files.count >= FILE_LIMIT)
    path = analysis_string(a, "(further files)");
  uint32_t *index = opgap_map_put(&a->file_index, key_of(t->process, (enum verb)hook->verb), path);
  if (*index == 0) {
    struct file_row *added = VEC_PUSH(&a->files);
    added->process = t->process;
    added->path = path;
    added->verb = hook->verb;
    *index = (uint32_t)a->files.count;
  }
  struct file_row *row = &a->files.at[*index - 1];
  row->calls++;
  row->bytes += bytes;
  row->ns += ns;
  row->failed += r->status != 0;
  if (in_steps || (t->main && t->first_poll_ns != 0)) {
    row->late_bytes += bytes;
    row->late_ns += ns;
  }
}

void files_next(struct analysis *a, const struct thread *t, const struct opgap_record *r)
{
  struct process *p = &a->processes[t->process];
  if (!t->main || steps_source(p) == STEPS_SOURCES || !analysis_in_window(a, r->end_ns))
    return;
  p->step_next_ns += r->end_ns - r->start_ns;
  for (size_t i = timeline_calls_from(t, r->start_ns); i < t->calls.count; i++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (!call->named || !(analysis_name_flags(a, (uint32_t)call->object) & NAME_FILE))
      continue;
    enum verb verb = (enum verb)p->hooks[call->event].verb;
    uint32_t index = opgap_map_get(&a->file_index, key_of(t->process, verb), (uint32_t)call->object);
    if (index == 0) /* beyond FILE_LIMIT */
      continue;
    a->files.at[index - 1].next_ns += call->end - call->start;
  }
}

/* The time of a process's calls on a row's path, of one verb. */
static uint64_t ns_of(const struct analysis *a, const struct file_row *row, enum verb verb)
{
  uint32_t index = opgap_map_get(&a->file_index, key_of(row->process, verb), row->path);
  return index ? a->files.at[index - 1].ns : 0;
}

/* Is what this row is about more written than read? */
static bool is_for_writing(const struct analysis *a, const struct file_row *row)
{
  return is_write((enum verb)row->verb) ||
         (row->verb != VERB_READ && ns_of(a, row, VERB_WRITE) > ns_of(a, row, VERB_READ));
}

/* Does a row count, and with how much of its time? */
static bool row_counts(const struct analysis *a, const struct file_row *row, enum files_whose whose, uint64_t *ns)
{
  const struct process *p = &a->processes[row->process];
  *ns = whose == FILES_ALL ? row->ns : row->late_ns;
  return whose == FILES_STEPS     ? row->process == steps_process(a)
         : whose == FILES_WORKERS ? p->included && p->role == OPGAP_ROLE_WORKER
                                  : p->included;
}

struct file_times files_times(const struct analysis *a, enum files_whose whose)
{
  struct file_times times = {0};
  for (size_t i = 0; i < a->files.count; i++) {
    const struct file_row *row = &a->files.at[i];
    uint64_t ns;
    if (!row_counts(a, row, whose, &ns))
      continue;
    bool moves = row->verb == VERB_READ || is_write((enum verb)row->verb);
    if (row->verb == VERB_CHANGE)
      times.changed += ns;
    if (is_for_writing(a, row))
      *(moves ? &times.written : &times.write_lookups) += ns;
    else
      *(moves ? &times.read : &times.read_lookups) += ns;
  }
  return times;
}

/* Calls and time of what looks up files, by what the calls do and by folder. */
struct lookup_sums {
  uint64_t calls[VERB_COUNT];
  struct opgap_strings folders;
  VEC(uint64_t) folder_ns; /* by id in `folders` */
};

static void add_lookups(struct lookup_sums *sums, const char *path, const struct file_row *row, uint64_t ns)
{
  const char *slash = strrchr(path, '/');
  sums->calls[row->verb] += row->calls;
  if (slash == NULL)
    return;
  uint32_t id = opgap_strings_id(&sums->folders, path, (size_t)(slash - path) + (slash == path));
  while (sums->folder_ns.count <= id)
    *VEC_PUSH(&sums->folder_ns) = 0;
  sums->folder_ns.at[id] += ns;
}

/* "60000 calls of open, 120000 of stat, in /data", the folder where it has at least half of the time. */
static const char *lookup_words(struct analysis *a, const struct lookup_sums *sums, uint64_t ns)
{
  const char *words = "";
  for (int verb = 0; verb < VERB_COUNT; verb++)
    if (sums->calls[verb] > 0)
      words = opgap_pool_printf(a->pool, "%s%s%llu %s%s", words, words[0] ? ", " : "",
                                (unsigned long long)sums->calls[verb],
                                words[0]                 ? "of "
                                : sums->calls[verb] == 1 ? "call of "
                                                         : "calls of ",
                                files_verb((enum verb)verb));
  for (size_t id = 0; id < sums->folder_ns.count; id++)
    if (2 * sums->folder_ns.at[id] >= ns && ns > 0)
      return opgap_pool_printf(a->pool, "%s, most of it in %s", words,
                               opgap_strings_text(&sums->folders, (uint32_t)id));
  return words;
}

struct file_lookups files_lookups(struct analysis *a, enum files_whose whose)
{
  struct file_lookups lookups = {.words = ""};
  struct lookup_sums sums = {0};
  opgap_strings_init(&sums.folders, a->pool);
  for (size_t i = 0; i < a->files.count; i++) {
    const struct file_row *row = &a->files.at[i];
    uint64_t ns;
    if (!row_counts(a, row, whose, &ns) || row->verb == VERB_READ || is_for_writing(a, row))
      continue;
    bool read = ns_of(a, row, VERB_READ) > 0 || ns_of(a, row, VERB_MAP) > 0;
    lookups.ns += ns;
    lookups.unread_ns += read ? 0 : ns;
    add_lookups(&sums, analysis_text(a, row->path), row, ns);
  }
  lookups.words = lookup_words(a, &sums, lookups.ns);
  VEC_FREE(&sums.folder_ns);
  opgap_strings_free(&sums.folders);
  return lookups;
}

static uint64_t part_of(const struct analysis *a, const struct file_row *row, enum file_part part)
{
  const struct process *p = &a->processes[row->process];
  enum verb verb = (enum verb)row->verb;
  bool steps = row->process == steps_process(a);
  switch (part) {
  case FILES_READ:
    return steps && verb == VERB_READ ? row->late_ns : 0;
  case FILES_WRITTEN:
    return steps && is_write(verb) ? row->late_ns : 0;
  case FILES_LOOKED_UP:
    return steps && verb != VERB_READ && !is_for_writing(a, row) ? row->late_ns : 0;
  case FILES_OF_FETCHES:
    return steps && !is_write(verb) ? row->next_ns : 0;
  case FILES_OF_WORKERS:
    return p->included && p->role == OPGAP_ROLE_WORKER && !is_write(verb) ? row->late_ns : 0;
  }
  return 0;
}

struct file_use files_most(struct analysis *a, enum file_part part)
{
  struct opgap_map index = {0};
  VEC(struct file_use) uses = {0};
  struct file_use most = {.path = ""};
  for (size_t i = 0; i < a->files.count; i++) {
    uint64_t ns = part_of(a, &a->files.at[i], part);
    if (ns == 0)
      continue;
    uint32_t *at = opgap_map_put(&index, a->files.at[i].path, 0);
    if (*at == 0) {
      VEC_PUSH(&uses)->path = analysis_text(a, a->files.at[i].path);
      *at = (uint32_t)uses.count;
    }
    struct file_use *use = &uses.at[*at - 1];
    use->ns += ns;
    use->bytes += a->files.at[i].late_bytes;
    use->all_ns += a->files.at[i].late_ns;
    if (use->ns > most.ns)
      most = *use;
  }
  opgap_map_free(&index);
  VEC_FREE(&uses);
  return most;
}

void files_finish(struct analysis *a)
{
  struct opgap_summary *s = a->summary;
  struct opgap_map index = {0};
  s->files = opgap_pool_alloc(a->pool, a->files.count * sizeof *s->files);
  for (size_t i = 0; i < a->files.count; i++) {
    const struct file_row *row = &a->files.at[i];
    if (!a->processes[row->process].included)
      continue;
    uint32_t *at = opgap_map_put(&index, row->verb, row->path);
    if (*at == 0) {
      s->files[s->file_count].path = analysis_text(a, row->path);
      s->files[s->file_count].operation = files_verb(row->verb);
      *at = (uint32_t)++s->file_count;
    }
    struct opgap_sum_file *file = &s->files[*at - 1];
    file->calls += row->calls;
    file->bytes += row->bytes;
    file->time_ns += row->ns;
    file->failed += row->failed;
    file->processes++;
  }
  order_rows(s->files, s->file_count, sizeof *s->files, order_files);
  opgap_map_free(&index);
}
