/* Proves, before it is used, that torch_api.h describes the library at hand.
 *
 * Threads   one caller at a time, any thread; the caller's session goes on recording.
 * Context   may take tens of milliseconds; changes neither signal handlers nor masks; errno may change.
 */
#ifndef OPGAP_FRAMEWORKS_TORCH_CHECK_H
#define OPGAP_FRAMEWORKS_TORCH_CHECK_H

#include <stddef.h>

#include "frameworks/torch_api.h"

enum opgap_check_result {
  OPGAP_CHECK_PASSED,
  OPGAP_CHECK_FAILED, /* another layout, for ever */
  OPGAP_CHECK_UNSURE, /* no answer in time, or no probe process: worth another try later */
};

/* Runs the check in a probe process, unless `proved` (this very library has passed it in another process), and then in
 * this one.  sequence_offset: where a RecordFunction keeps its sequence number, 0 when it was not found.  reason: why
 * it did not pass. */
enum opgap_check_result opgap_torch_check(const struct opgap_torch_api *api, bool proved, unsigned *sequence_offset,
                                          char *reason, size_t reason_size);

#endif
