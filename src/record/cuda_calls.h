/* Who records the program's CUDA calls, so that each appears once: the hooks, or CUPTI's API records.
 *
 * Purpose   A hook looks at opgap_cuda_reporter before and after the real call.  Unchanged, it says who records it.
 *           A call during which it changed may or may not be among CUPTI's records: in the first call of a process
 *           CUDA starts, and CUPTI with it; another user of CUPTI can begin while a thread waits for the device.
 *           Such a call is noted.  CUPTI's record of it, which may come before the note, claims it; what nobody
 *           claims is recorded from the note.
 * Threads   Reporter: written under the life lock of src/gpu; read by hooks.  Notes: made by hooks on any thread,
 *           lock-free; settled by the consumer, which also keeps the claims.
 * Ownership Static.  A forked child starts from nothing (opgap_cuda_calls_reset).
 *
 * Ordering  reporter: `changing` is stored before CUPTI is switched on or off, the new reporter after it; a hook that
 *           sees the same reporter twice therefore made its whole call under it.
 *           state of a note, to_ns of a change: release by the side that hands over, acquire by the side that takes.
 */
#ifndef OPGAP_RECORD_CUDA_CALLS_H
#define OPGAP_RECORD_CUDA_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"

enum opgap_cuda_phase { OPGAP_CUDA_BY_HOOKS, OPGAP_CUDA_CHANGING, OPGAP_CUDA_BY_CUPTI };
#define OPGAP_CUDA_PHASES 4u

/* enum opgap_cuda_phase + OPGAP_CUDA_PHASES * how often CUPTI has begun to record. */
extern _Atomic uint32_t opgap_cuda_reporter;
void opgap_cuda_report_by(enum opgap_cuda_phase phase);

/* Out of line: the reporter changed during the call.  Returns whether the hook must record it (no room for a note).
 * `name` is static text.  Keeps errno. */
bool opgap_cuda_straddles(const char *name, uint64_t start, uint32_t status);

/* After the real call: whether the hook records it.  `before`: the reporter before the call. */
static inline bool opgap_cuda_is_ours(struct opgap_thread *thread, uint32_t before, const char *name, uint64_t start,
                                      uint32_t status)
{
  uint32_t now = atomic_load_explicit(&opgap_cuda_reporter, memory_order_acquire), phase = now % OPGAP_CUDA_PHASES;
  if (opgap_likely(now == before && phase == OPGAP_CUDA_BY_HOOKS))
    return true;
  if ((now != before || phase == OPGAP_CUDA_CHANGING) && opgap_cuda_straddles(name, start, status))
    return true;
  if (opgap_cell->thread == thread) /* else the slot is a parent's */
    thread->call_event = 0;
  return false;
}

/* Consumer: CUPTI reports a call of the thread (kernel thread id, or the low half of pthread_self()). */
void opgap_cuda_claim(uint32_t thread, uint64_t start_ns, uint64_t end_ns);
/* Consumer: hands out the calls that no record has claimed in OPGAP_CUDA_PATIENCE_NS, or, with `all`, at all. */
#define OPGAP_CUDA_PATIENCE_NS 5000000000u
struct opgap_cuda_call {
  const char *name;
  uint64_t start_ns, end_ns;
  uint32_t status, tid, pthread;
};
void opgap_cuda_settle(bool all, void (*record)(const struct opgap_cuda_call *call));
void opgap_cuda_calls_reset(void);

#endif
