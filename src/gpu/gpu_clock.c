/* See gpu_clock.h. */
#include "gpu/gpu_clock.h"

#include <stdatomic.h>
#include <string.h>

#include "gpu/cupti_api.h"

#define PAIRS 64u
#define TRIES 5

static _Atomic bool own_clock;           /* CUPTI stamps with CLOCK_MONOTONIC */
static struct opgap_anchor first_pair;   /* of this connection; written before any of its buffers is sealed */
static struct opgap_anchor pairs[PAIRS]; /* ascending, of one connection; consumer only */
static unsigned pair_count;

static uint64_t now_callback(void)
{
  return opgap_clock_ns();
}

/* {0, 0} when CUPTI does not tell its time. */
static struct opgap_anchor read_both(void)
{
  struct opgap_anchor best = {0, 0};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    uint64_t cupti_ns, before = opgap_clock_ns();
    if (opgap_cupti_now(&cupti_ns) != CUPTI_OK)
      break;
    uint64_t width = opgap_clock_ns() - before;
    if (width < best_width) {
      best_width = width;
      best = (struct opgap_anchor){.ticks = cupti_ns, .ns = before + width / 2};
    }
  }
  return best;
}

void opgap_gpu_clock_start(void)
{
  bool taken = opgap_cupti_configure(now_callback);
  atomic_store_explicit(&own_clock, taken, memory_order_relaxed);
  first_pair = taken ? (struct opgap_anchor){0, 0} : read_both();
}

struct opgap_gpu_time opgap_gpu_clock_read(void)
{
  struct opgap_gpu_time time = {.converts = !atomic_load_explicit(&own_clock, memory_order_relaxed)};
  if (time.converts) {
    time.first = first_pair;
    time.now = read_both();
  }
  return time;
}

void opgap_gpu_clock_note(const struct opgap_gpu_time *time)
{
  if (!time->converts)
    return;
  if (pair_count == 0 || time->first.ns > pairs[0].ns) { /* a new connection: CUPTI's clock may be another one */
    pairs[0] = time->first;
    pair_count = time->first.ns != 0;
  }
  if (time->now.ns == 0 || (pair_count > 0 && time->now.ns <= pairs[pair_count - 1].ns))
    return;
  if (pair_count == PAIRS) { /* the first one stays: it names the connection */
    memmove(pairs + 1, pairs + 2, (PAIRS - 2) * sizeof *pairs);
    pair_count--;
  }
  pairs[pair_count++] = time->now;
}

/* The line through a and b at x; b may be a itself. */
static uint64_t on_line(struct opgap_anchor a, struct opgap_anchor b, uint64_t x)
{
  int64_t dx = (int64_t)(x - a.ticks), width = (int64_t)(b.ticks - a.ticks), rise = (int64_t)(b.ns - a.ns);
  if (width <= 0) /* the clock was set back between the two: keep the offset of the first */
    return a.ns + (uint64_t)dx;
  return a.ns + (uint64_t)(int64_t)((__int128)dx * rise / width);
}

uint64_t opgap_gpu_clock_convert(const struct opgap_gpu_time *time, uint64_t cupti_ns)
{
  if (!time->converts || pair_count == 0)
    return cupti_ns;
  if (pair_count == 1)
    return on_line(pairs[0], pairs[0], cupti_ns);
  unsigned i = pair_count - 2;
  while (i > 0 && cupti_ns < pairs[i].ticks)
    i--;
  return on_line(pairs[i], pairs[i + 1], cupti_ns);
}

void opgap_gpu_clock_reset(void)
{
  pair_count = 0;
  first_pair = (struct opgap_anchor){0, 0};
  atomic_store_explicit(&own_clock, false, memory_order_relaxed);
}
