/* See faults.h. */
#include "record/faults.h"

#include <sys/resource.h>

#include "record/control.h"
#include "record/internal.h"
#include "record/raw.h"

/* By cell.  A forked child has its parent's, so they say of which process and thread they are. */
static struct reading {
  int32_t pid;
  uint32_t serial, window;
  uint64_t at, minor, major;
} readings[OPGAP_SLOT_LIMIT];

/* The process's count where the window began.  Two threads may open one: the first to claim it writes, then publishes.
 */
static struct opening {
  int32_t pid;
  bool life; /* the session's beginning: threads with ops began after it, or with the process */
  _Atomic uint32_t claimed, window, told;
  uint64_t minor, major;
} opening;

static bool read_usage(int who, uint64_t fields[2])
{
  struct rusage usage;
  if (opgap_raw3(SYS_getrusage, who, (long)&usage, 0) < 0)
    return false;
  fields[0] = (uint64_t)usage.ru_minflt;
  fields[1] = (uint64_t)usage.ru_majflt;
  return true;
}

static bool is_on(void)
{
  return __atomic_load_n(&opgap_active, __ATOMIC_RELAXED) == opgap_config.groups;
}

/* Nobody else opens and closes them. */
static bool windows_are_own(void)
{
  return opgap_config.settings.schedule.active == 0 ? !opgap_control_follows() : opgap_control_leads();
}

static void open_window(bool life, bool forked)
{
  uint32_t window = opgap_window(), claimed = atomic_load(&opening.claimed);
  uint64_t fields[2] = {0, 0};
  if (!is_on() || !windows_are_own() || opgap_confined || claimed == window ||
      !atomic_compare_exchange_strong(&opening.claimed, &claimed, window) ||
      (!forked && !read_usage(RUSAGE_SELF, fields)))
    return;
  opening.life = life;
  opening.minor = fields[0];
  opening.major = fields[1];
  atomic_store(&opening.told, 0);
  atomic_store_explicit(&opening.window, window, memory_order_release);
}

void opgap_faults_session(bool forked)
{
  opening.pid = opgap_state->pid;
  atomic_store(&opening.claimed, 0);
  atomic_store(&opening.window, 0);
  atomic_store(&opening.told, 0);
  open_window(true, forked);
}

void opgap_faults_open(bool begins)
{
  open_window(begins, false);
}

/* The window is this process's own, and its count at the beginning is known. */
static bool opened(uint32_t window)
{
  return atomic_load_explicit(&opening.window, memory_order_acquire) == window && opening.pid == opgap_state->pid;
}

static struct reading *reading_of(const struct opgap_cell *cell)
{
  return cell->thread == NULL || cell->busy || opgap_confined ? NULL : &readings[cell - opgap_cells];
}

static bool is_of(const struct reading *last, const struct opgap_cell *cell)
{
  return last->pid == opgap_state->pid && last->serial == cell->thread->serial;
}

/* Where the ring is full, what is lost is to be the program's: these are not counted as such. */
static void emit(unsigned event, uint32_t status, uint64_t now, const uint64_t fields[2])
{
  if (opgap_cell->lost_since == 0)
    opgap_emit(event, status, now, 0, fields, 2);
}

void opgap_faults_begin(uint32_t window)
{
  struct opgap_cell *cell = opgap_cell;
  struct reading *last = reading_of(cell);
  uint64_t count[2];
  if (last == NULL || (is_of(last, cell) && last->window == window) || !read_usage(RUSAGE_THREAD, count))
    return;
  bool first = !is_of(last, cell);
  uint64_t now = opgap_ticks();
  *last = (struct reading){opgap_state->pid, cell->thread->serial, window, now, count[0], count[1]};
  if (!opened(window))
    return;
  const uint64_t from[2] = {opening.minor, opening.major};
  if (atomic_exchange(&opening.told, 1) == 0)
    emit(OPGAP_EV_PROCESS_FAULTS, 0, now, from);
  if (!first || !opening.life)
    return;
  /* The first thread's count is the process's at its beginning, another one's began with the thread. */
  bool begins_at_zero = cell->thread->tid != opgap_state->pid;
  for (unsigned i = 0; i < 2 && !begins_at_zero; i++)
    count[i] -= from[i] < count[i] ? from[i] : count[i];
  if ((count[0] | count[1]) != 0)
    emit(OPGAP_EV_FAULTS, OPGAP_EV_THREAD_START, now, count);
}

/* Records what came since the last reading; length: of the op at whose end this is, 0: of none. */
static void read_on(struct opgap_cell *cell, struct reading *last, unsigned event, uint64_t length, uint64_t end)
{
  uint64_t count[2];
  if (!read_usage(RUSAGE_THREAD, count))
    return;
  const uint64_t fields[] = {count[0] - last->minor, count[1] - last->major};
  bool known = is_of(last, cell) && last->window == opgap_window(), of_op = end - last->at <= 2 * length;
  *last = (struct reading){opgap_state->pid, cell->thread->serial, opgap_window(), end, count[0], count[1]};
  if (known && (fields[0] | fields[1]) != 0)
    emit(OPGAP_EV_FAULTS, of_op ? event : 0, end, fields);
}

void opgap_faults_note(unsigned event, uint64_t length, uint64_t end)
{
  struct opgap_cell *cell = opgap_cell;
  struct reading *last = reading_of(cell);
  if (last != NULL && (!is_of(last, cell) || end - last->at >= OPGAP_FAULT_TICKS / 2))
    read_on(cell, last, event, length, end);
}

void opgap_faults_leave(void)
{
  struct opgap_cell *cell = opgap_cell;
  struct reading *last = reading_of(cell);
  if (last != NULL && is_of(last, cell) && last->window == opgap_window())
    read_on(cell, last, 0, 0, opgap_ticks());
}

void opgap_faults_close(void)
{
  uint64_t count[2];
  if (atomic_load(&opening.told) == 0 || !opened(opgap_window()) || !is_on())
    return;
  opgap_faults_leave();
  if (reading_of(opgap_cell) != NULL && read_usage(RUSAGE_SELF, count))
    emit(OPGAP_EV_PROCESS_FAULTS, 1, opgap_ticks(), count);
}
