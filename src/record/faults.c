/* See faults.h. */
#include "record/faults.h"

#include <sys/resource.h>

#include "record/internal.h"
#include "record/raw.h"

/* By cell.  A forked child has its parent's, so they say of which process and thread they are. */
static struct reading {
  int32_t pid;
  uint32_t serial;
  uint64_t at, minor, major;
} readings[OPGAP_SLOT_LIMIT];

void opgap_faults_note(unsigned event, uint64_t length, uint64_t end)
{
  struct opgap_cell *cell = opgap_cell;
  if (cell->thread == NULL || cell->busy || opgap_confined)
    return;
  struct reading *last = &readings[cell - opgap_cells];
  bool known = last->pid == opgap_state->pid && last->serial == cell->thread->serial;
  struct rusage usage;
  if ((known && end - last->at < OPGAP_FAULT_TICKS / 2) ||
      opgap_raw3(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0) < 0)
    return;
  struct reading now = {opgap_state->pid, cell->thread->serial, end, (uint64_t)usage.ru_minflt,
                        (uint64_t)usage.ru_majflt};
  const uint64_t fields[] = {now.minor - last->minor, now.major - last->major};
  bool of_op = end - last->at <= 2 * length;
  *last = now;
  if (known && (fields[0] | fields[1]) != 0)
    opgap_emit(OPGAP_EV_FAULTS, of_op ? event : 0, end, 0, fields, 2);
}
