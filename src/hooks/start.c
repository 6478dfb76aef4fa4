/* Start-up: starts the session and registers the ends, in the constructor, while the process has one thread.  What only
 * a process that records needs, waits for the session's beginning, which may be the program's first hooked call.  errno
 * is kept. */
#include "hooks/bind.h"

#include <assert.h>

#include "record/early.h"

static_assert((unsigned)OPGAP_COUNTER_free == OPGAP_ALLOC_COUNTERS, "op sums are unrolled for this many");

/* We link without the compiler's start files, whose code has nothing to do here: no destructors, no transactional
 * memory, and the library stays loaded.  libc_nonshared.a asks for this one symbol: whose exit handlers a dlclose would
 * run. */
extern void *const __dso_handle OPGAP_HIDDEN;
void *const __dso_handle = NULL;

OPGAP_EARLY_CODE __attribute__((constructor(101))) static void opgap_start(int count, char **arguments)
{
  int error = errno;
  unsigned counters;
  const uint16_t *counted = opgap_hook_counters(&counters);
  if (opgap_session_start(count > 0 ? arguments[0] : NULL, opgap_hook_events, counted, counters))
    opgap_process_prepare();
  errno = error;
}

bool opgap_hooks_session_begins(void)
{
  if (!opgap_bind_all())
    return false;
  opgap_alloc_threshold = opgap_settings->alloc_events ? 0 : opgap_settings->min_alloc;
  opgap_alloc_large = opgap_settings->min_alloc;
  opgap_alloc_events = opgap_settings->alloc_events ? opgap_settings->min_alloc : 0;
  opgap_copy_threshold = opgap_settings->min_copy;
  opgap_copy_spans = opgap_copy_threshold < OPGAP_TIMED_COPY ? OPGAP_TIMED_COPY : opgap_copy_threshold;
  opgap_thread_prepare();
  return true;
}
