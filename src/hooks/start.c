/* Start-up: binds the real functions, starts the session, registers the ends.  Runs once, in the constructor, while the
 * process has one thread.  errno is kept. */
#include "hooks/bind.h"

__attribute__((constructor(101))) static void opgap_start(void)
{
  int error = errno;
  if (opgap_bind_all()) {
    unsigned events, counters;
    const struct opgap_event *rows = opgap_hook_events(&events);
    const uint16_t *counted = opgap_hook_counters(&counters);
    opgap_thread_prepare();
    opgap_session_start(rows, events, counted, counters);
    opgap_alloc_threshold = opgap_settings->alloc_events ? 0 : opgap_settings->min_alloc;
    opgap_copy_threshold = opgap_settings->min_copy;
    opgap_process_prepare();
  }
  errno = error;
}
