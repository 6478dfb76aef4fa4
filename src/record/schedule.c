#include "record/schedule.h"

#include "record/control.h"
#include "record/early.h"
#include "record/faults.h"
#include "record/internal.h"
#include "record/lineage.h"

/* Of src/gpu, when it is built in. */
__attribute__((weak)) void opgap_gpu_window(void);

OPGAP_EARLY_DATA static uint64_t opens_ns, closes_ns; /* CLOCK_MONOTONIC; 0: no such limit */
OPGAP_EARLY_DATA static _Atomic uint64_t steps;       /* ended so far in this process */
OPGAP_EARLY_DATA static _Atomic uint32_t time_open;   /* inside delay and duration */
static _Atomic int marked = -1;                       /* what the trace says last of a schedule's windows: on or off */

OPGAP_EARLY_CODE bool opgap_schedule_has(const struct opgap_schedule *schedule, uint64_t step)
{
  if (schedule->active == 0)
    return true;
  uint64_t cycle = (uint64_t)schedule->wait + schedule->warmup + schedule->active;
  if (schedule->repeat && step / cycle >= schedule->repeat)
    return false;
  return step % cycle >= (uint64_t)schedule->wait + schedule->warmup;
}

/* The reader of a follower's trace takes the edges of its windows from here.  Where too many are not written yet, one
 * is left out: the followers' windows are then taken to be longer, or not to be. */
static void mark(bool on)
{
  if (atomic_exchange(&marked, on) != on && opgap_state->arena != NULL)
    opgap_control_note(opgap_arena_control(opgap_state->arena), opgap_clock_ns(), on);
}

static bool is_on(void)
{
  return atomic_load(&time_open) && opgap_schedule_has(&opgap_config.settings.schedule, atomic_load(&steps));
}

OPGAP_EARLY_CODE static void apply(bool begins)
{
  bool on = is_on();
  bool own = on, recorded = atomic_load_explicit(&opgap_state->phase, memory_order_relaxed) == OPGAP_PHASE_RUNNING;
  if (recorded && !own)
    opgap_faults_close();
  if (opgap_config.settings.schedule.active != 0) {
    if (opgap_control_leads())
      mark(on);
    opgap_lineage_say(on);
    on |= opgap_lineage_has(); /* then the lineage tells when it is on */
  }
  opgap_active_open(on ? opgap_config.groups : (uint32_t)OPGAP_GROUP_process);
  if (recorded && own)
    opgap_faults_open(begins);
  if (opgap_gpu_window) /* at once: a step of the window may be shorter than the flusher's round */
    opgap_gpu_window();
}

OPGAP_EARLY_CODE bool opgap_schedule_start(uint32_t groups)
{
  const struct opgap_settings *settings = &opgap_config.settings;
  uint64_t now = settings->delay_ns || settings->duration_ns ? opgap_clock_ns() : 0;
  opgap_config.groups = groups;
  opens_ns = settings->delay_ns ? now + settings->delay_ns : 0;
  closes_ns = settings->duration_ns ? now + settings->delay_ns + settings->duration_ns : 0;
  atomic_store(&time_open, opens_ns == 0);
  if (settings->schedule.active != 0)
    opgap_control_lead();
  apply(true);
  return opens_ns || closes_ns;
}

void opgap_schedule_forked(void)
{
  atomic_store(&marked, -1);
  if (opgap_lineage_has())
    apply(false);
}

bool opgap_schedule_waits(void)
{
  return atomic_load(&marked) == 0;
}

void opgap_schedule_step(void)
{
  if (opgap_config.settings.schedule.active == 0 || opgap_active == 0)
    return;
  bool was_on;
  atomic_fetch_add(&steps, 1);
  if (opgap_lineage_step(&was_on)) /* it goes by its own steps from here on: the trace says from what */
    mark(was_on);
  else if (opgap_control_follows() && opgap_control_lead())
    atomic_store(&marked, -1);
  apply(false);
}

uint64_t opgap_schedule_tick(uint64_t now_ns)
{
  if (opens_ns && now_ns < opens_ns)
    return opens_ns - now_ns;
  if (closes_ns && now_ns >= closes_ns) {
    closes_ns = opens_ns = 0;
    atomic_store(&time_open, 0);
    apply(false);
    return 0;
  }
  if (opens_ns) {
    opens_ns = 0;
    atomic_store(&time_open, 1);
    apply(false);
  }
  return closes_ns ? closes_ns - now_ns : 0;
}
