/* I/O by file and operation: every call on a named object that is an absolute path. */
#include "analysis/internal.h"
#include "analysis/order.h"

#include <stdlib.h>
#include <string.h>

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
  case VERB_SYNC:
    return "sync";
  case VERB_STAT:
    return "stat";
  default:
    return "other";
  }
}

void files_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
               uint32_t path)
{
  struct process *p = &a->processes[t->process];
  bool moves = (hook->verb == VERB_READ || hook->verb == VERB_WRITE) && r->status == 0;
  uint64_t ns = r->end_ns - r->start_ns, bytes = moves ? r->field[1] : 0;
  p->file_ns += ns;
  if (t->main && steps_source(p) != STEPS_SOURCES) {
    bool writes = hook->verb == VERB_WRITE || hook->verb == VERB_SYNC;
    p->step_write_ns += writes ? ns : 0;
    p->step_read_ns += hook->verb == VERB_READ ? ns : 0; /* what opening and closing are for is told by these */
  }
  if (hook->verb == VERB_READ)
    p->read_bytes += bytes;
  else if (hook->verb == VERB_WRITE)
    p->written_bytes += bytes;
  if (a->files.count >= FILE_LIMIT)
    path = analysis_string(a, "(further files)");
  uint64_t key = (uint64_t)t->process << 8 | hook->verb;
  uint32_t *index = opgap_map_put(&a->file_index, key, path);
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
