/* Names of a process: append-only, the first bytes for an id stay, so any thread may look one up while another adds. */
#include "format/trace.h"

#include <stdlib.h>
#include <string.h>

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

void name_add(struct process *process, uint64_t id, const uint8_t *bytes, size_t length)
{
  if (id == 0 || id >= (uint64_t)NAME_PAGE * NAME_PAGES || length == 0 || name_at(process, id))
    return;
  struct name *name = process_keep(process, sizeof *name + length + 1);
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
  /* another thread may have added it meanwhile */
  if (page && atomic_load_explicit(&page[id % NAME_PAGE], memory_order_relaxed) == NULL)
    atomic_store_explicit(&page[id % NAME_PAGE], name, memory_order_release);
  pthread_mutex_unlock(&process->lock);
}
