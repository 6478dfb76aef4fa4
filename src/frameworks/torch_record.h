/* Torch's callbacks: from RecordFunction to op records.
 *
 * Threads   opgap_torch_record_start: once a process, before the callbacks are registered.  The callbacks run on every
 *           thread that runs operators.
 */
#ifndef OPGAP_FRAMEWORKS_TORCH_RECORD_H
#define OPGAP_FRAMEWORKS_TORCH_RECORD_H

#include <stdbool.h>

#include "frameworks/torch_api.h"

/* Registers one global callback a scope.  sequence_offset: from the self-check, 0 unknown.  late: ops may have run
 * before; the trace then says so. */
void opgap_torch_record_start(const struct opgap_torch_api *api, unsigned sequence_offset, bool late);

#endif
