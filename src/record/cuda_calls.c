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

void opgap_cuda_report_by(enum opgap_cuda_phase phase)
{
  uint32_t now = atomic_load_explicit(&opgap_cuda_reporter, memory_order_relaxed);
  uint32_t times = now / OPGAP_CUDA_PHASES + (phase == OPGAP_CUDA_BY_CUPTI && now % OPGAP_CUDA_PHASES != phase);
  atomic_store_explicit(&opgap_cuda_reporter, times * OPGAP_CUDA_PHASES + (uint32_t)phase, memory_order_seq_cst);
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

static void give_back(struct note *note)
{
  atomic_store_explicit(&note->state, NOTE_FREE, memory_order_release);
  atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
}

static bool waits(const struct note *note)
{
  return atomic_load_explicit(&note->state, memory_order_acquire) == NOTE_WAITS;
}

/* CUPTI's clock may be some microseconds off, but a thread's calls do not overlap: the middle decides. */
void opgap_cuda_claim(uint32_t thread, uint64_t start_ns, uint64_t end_ns)
{
  uint64_t middle = start_ns + (end_ns - start_ns) / 2;
  if (atomic_load_explicit(&waiting, memory_order_acquire) == 0)
    return;
  for (unsigned i = 0; i < NOTES; i++) {
    const struct opgap_cuda_call *call = &notes[i].call;
    if (waits(&notes[i]) && (call->tid == thread || call->pthread == thread) && middle >= call->start_ns &&
        middle <= call->end_ns)
      give_back(&notes[i]);
  }
}

void opgap_cuda_settle(bool all, void (*record)(const struct opgap_cuda_call *call))
{
  uint64_t now = opgap_clock_ns();
  if (atomic_load_explicit(&waiting, memory_order_acquire) == 0)
    return;
  for (unsigned i = 0; i < NOTES; i++)
    if (waits(&notes[i]) && (all || now - notes[i].call.end_ns > OPGAP_CUDA_PATIENCE_NS)) {
      record(&notes[i].call);
      give_back(&notes[i]);
    }
}

void opgap_cuda_calls_reset(void)
{
  for (unsigned i = 0; i < NOTES; i++)
    atomic_store_explicit(&notes[i].state, NOTE_FREE, memory_order_relaxed);
  atomic_store_explicit(&waiting, 0, memory_order_relaxed);
  atomic_store_explicit(&opgap_cuda_reporter, 0, memory_order_relaxed);
}
