/* See cuda_calls.h. */
#include "record/cuda_calls.h"

#include <pthread.h>

#include "record/internal.h"
#include "record/raw.h"

#define NOTES 1024u /* a change takes milliseconds at most */

_Atomic uint32_t opgap_cuda_reporter;

static struct note {
  _Atomic uint32_t state;
  struct opgap_cuda_call call;
} notes[NOTES];
enum note_state { NOTE_FREE, NOTE_WRITING, NOTE_WAITS };
static _Atomic uint32_t waiting;

/* When the reporter changed; the last ones. */
#define CHANGES 16u
static struct {
  _Atomic uint64_t from_ns, to_ns; /* to 0: under way */
} changes[CHANGES];
static _Atomic uint32_t change_count;

/* Calls that CUPTI reported across a change; consumer only. */
#define CLAIMS 1024u
static struct {
  uint32_t thread;
  uint64_t middle_ns;
} claims[CLAIMS];
static uint32_t claim_count; /* free-running */

/* By change and thread, the first call since; consumer only. */
#define FIRSTS 512u
#define FIRSTS_WITHIN_NS (2 * OPGAP_CUDA_PATIENCE_NS)
static struct {
  uint32_t change, thread;
  uint64_t start_ns;
} firsts[FIRSTS];
static uint32_t first_count; /* free-running */

static void note_change(bool begins)
{
  uint32_t count = atomic_load_explicit(&change_count, memory_order_relaxed);
  uint64_t now = opgap_clock_ns();
  if (begins) {
    atomic_store_explicit(&changes[count % CHANGES].from_ns, now, memory_order_relaxed);
    atomic_store_explicit(&changes[count % CHANGES].to_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&change_count, count + 1, memory_order_release);
  } else if (count > 0) {
    atomic_store_explicit(&changes[(count - 1) % CHANGES].to_ns, now, memory_order_release);
  }
}

void opgap_cuda_report_by(enum opgap_cuda_phase phase)
{
  uint32_t now = atomic_load_explicit(&opgap_cuda_reporter, memory_order_relaxed), before = now % OPGAP_CUDA_PHASES;
  uint32_t times = now / OPGAP_CUDA_PHASES + (phase == OPGAP_CUDA_BY_CUPTI && before != phase);
  if (before != OPGAP_CUDA_CHANGING && before != phase)
    note_change(true);
  atomic_store_explicit(&opgap_cuda_reporter, times * OPGAP_CUDA_PHASES + (uint32_t)phase, memory_order_seq_cst);
  if (phase != OPGAP_CUDA_CHANGING && before != phase)
    note_change(false);
}

/* How long ago `start` was; the consumer's exact way needs anchors around it. */
static uint64_t ns_since(uint64_t start, uint64_t now_ns)
{
  struct opgap_anchor first = opgap_state->arena->first_anchor;
  uint64_t now = opgap_ticks();
  if (now <= first.ticks || now <= start)
    return 0;
  return (uint64_t)((unsigned __int128)(now - start) * (now_ns - first.ns) / (now - first.ticks));
}

bool opgap_cuda_straddles(const char *name, uint64_t start, uint32_t status)
{
  for (unsigned i = 0; i < NOTES; i++) {
    uint32_t free = NOTE_FREE;
    if (!atomic_compare_exchange_strong_explicit(&notes[i].state, &free, NOTE_WRITING, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    uint64_t now = opgap_clock_ns();
    notes[i].call = (struct opgap_cuda_call){.name = name,
                                             .start_ns = now - ns_since(start, now),
                                             .end_ns = now,
                                             .status = status,
                                             .tid = (uint32_t)opgap_raw_gettid(),
                                             .pthread = (uint32_t)(uintptr_t)pthread_self()};
    atomic_store_explicit(&notes[i].state, NOTE_WAITS, memory_order_release);
    atomic_fetch_add_explicit(&waiting, 1, memory_order_release);
    return false;
  }
  return true;
}

#define CLOCK_ERROR_NS 1000000u /* of a CUPTI with a clock of its own */

/* The earliest call of its thread, so far, that ended after the change began.  What CUPTI reports of a call may begin a
 * good deal later than the hook did: CUDA starts in between. */
static bool first_since(uint32_t change, uint32_t thread, uint64_t start_ns)
{
  for (uint32_t i = first_count > FIRSTS ? first_count - FIRSTS : 0; i != first_count; i++)
    if (firsts[i % FIRSTS].thread == thread && firsts[i % FIRSTS].change == change) {
      bool earlier = start_ns < firsts[i % FIRSTS].start_ns;
      firsts[i % FIRSTS].start_ns = earlier ? start_ns : firsts[i % FIRSTS].start_ns;
      return earlier;
    }
  firsts[first_count % FIRSTS].thread = thread;
  firsts[first_count % FIRSTS].change = change;
  firsts[first_count++ % FIRSTS].start_ns = start_ns;
  return true;
}

/* Whether the call may be one that saw the reporter change. */
static bool near_a_change(uint32_t thread, uint64_t start_ns, uint64_t end_ns)
{
  uint32_t count = atomic_load_explicit(&change_count, memory_order_acquire);
  bool found = false;
  for (uint32_t i = count > CHANGES ? count - CHANGES : 0; i != count; i++) {
    uint64_t from = atomic_load_explicit(&changes[i % CHANGES].from_ns, memory_order_relaxed);
    uint64_t to = atomic_load_explicit(&changes[i % CHANGES].to_ns, memory_order_acquire);
    if (end_ns + CLOCK_ERROR_NS < from || start_ns > from + FIRSTS_WITHIN_NS)
      continue;
    bool during = to == 0 || start_ns <= to + CLOCK_ERROR_NS;
    found = first_since(i, thread, start_ns) || during || found;
  }
  return found;
}

/* A claim too many does no harm: it lies in no noted call. */
void opgap_cuda_claim(uint32_t thread, uint64_t start_ns, uint64_t end_ns)
{
  if (!near_a_change(thread, start_ns, end_ns))
    return;
  claims[claim_count % CLAIMS].thread = thread;
  claims[claim_count % CLAIMS].middle_ns = start_ns + (end_ns - start_ns) / 2;
  claim_count++;
}

/* Clocks may differ by some microseconds, but a thread's calls do not overlap: the middle decides. */
static bool is_claimed(const struct opgap_cuda_call *call)
{
  for (uint32_t i = claim_count > CLAIMS ? claim_count - CLAIMS : 0; i != claim_count; i++)
    if ((claims[i % CLAIMS].thread == call->tid || claims[i % CLAIMS].thread == call->pthread) &&
        claims[i % CLAIMS].middle_ns >= call->start_ns && claims[i % CLAIMS].middle_ns <= call->end_ns)
      return true;
  return false;
}

void opgap_cuda_settle(bool all, void (*record)(const struct opgap_cuda_call *call))
{
  uint64_t now = opgap_clock_ns();
  if (atomic_load_explicit(&waiting, memory_order_acquire) == 0)
    return;
  for (unsigned i = 0; i < NOTES; i++) {
    if (atomic_load_explicit(&notes[i].state, memory_order_acquire) != NOTE_WAITS ||
        (!all && now - notes[i].call.end_ns <= OPGAP_CUDA_PATIENCE_NS))
      continue;
    if (!is_claimed(&notes[i].call))
      record(&notes[i].call);
    atomic_store_explicit(&notes[i].state, NOTE_FREE, memory_order_release);
    atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
  }
}

void opgap_cuda_calls_reset(void)
{
  for (unsigned i = 0; i < NOTES; i++)
    atomic_store_explicit(&notes[i].state, NOTE_FREE, memory_order_relaxed);
  atomic_store_explicit(&waiting, 0, memory_order_relaxed);
  atomic_store_explicit(&change_count, 0, memory_order_relaxed);
  claim_count = first_count = 0;
  atomic_store_explicit(&opgap_cuda_reporter, 0, memory_order_relaxed);
}
