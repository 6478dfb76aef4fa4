/* See steps.h. */
#include "frameworks/steps.h"

#include <stdatomic.h>
#include <string.h>

#include "record/schedule.h"

static _Atomic uint32_t best_source;
static _Atomic bool fresh = true;

static bool begins_with(const char *text, const char *prefix)
{
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum opgap_step_source opgap_step_source_of(const char *range_name)
{
  if (begins_with(range_name, "Optimizer.step#"))
    return OPGAP_STEP_OPTIMIZER;
  if (begins_with(range_name, "ProfilerStep#"))
    return OPGAP_STEP_PROFILER;
  if (begins_with(range_name, "enumerate(DataLoader)#"))
    opgap_step_fresh();
  return OPGAP_STEP_NONE;
}

void opgap_step_fresh(void)
{
  if (!atomic_load_explicit(&fresh, memory_order_relaxed)) /* the line stays shared between threads */
    atomic_store_explicit(&fresh, true, memory_order_relaxed);
}

void opgap_step_ended(enum opgap_step_source source)
{
  uint32_t best = atomic_load_explicit(&best_source, memory_order_relaxed);
  if (source < best)
    return;
  if (source > best)
    atomic_store_explicit(&best_source, source, memory_order_relaxed);
  bool was_fresh = atomic_exchange_explicit(&fresh, false, memory_order_relaxed);
  if (source == OPGAP_STEP_OPTIMIZER && !was_fresh)
    return;
  opgap_schedule_step();
}
