#include "record/clock.h"

#include "record/raw.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool opgap_clock_tsc;

#if defined(__x86_64__)
static bool counter_is_invariant(void)
{
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
}

/* The kernel takes the counter as its clock source only while it has found it to be invariant and synchronous on all
 * CPUs.  Its word is asked for first: in a virtual machine a cpuid costs more than that. */
static bool counter_is_good(void)
{
  char text[16];
  int fd = (int)opgap_raw_open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                               OPGAP_O_RDONLY | OPGAP_O_CLOEXEC, 0);
  if (fd < 0)
    return counter_is_invariant(); /* a container without /sys */
  long n = opgap_raw_read(fd, text, sizeof text);
  opgap_raw_close(fd);
  return n >= 3 && text[0] == 't' && text[1] == 's' && text[2] == 'c';
}
#endif

uint64_t opgap_ticks_of_clock(void)
{
  return opgap_clock_ns();
}

void opgap_clock_select(bool force_clock)
{
#if defined(__x86_64__)
  opgap_clock_tsc = !force_clock && counter_is_good();
#else
  (void)force_clock;
#endif
}

struct opgap_anchor opgap_clock_anchor(void)
{
  struct opgap_anchor best = {0, 0};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = opgap_ticks();
    uint64_t ns = opgap_clock_ns();
    uint64_t width = opgap_ticks() - before;
    if (width < best_width) {
      best_width = width;
      best = (struct opgap_anchor){.ticks = before + width / 2, .ns = ns};
    }
  }
  if (!opgap_clock_tsc)
    best.ticks = best.ns;
  return best;
}

struct opgap_anchor opgap_clock_anchor_for(const struct opgap_arena *unused)
{
  (void)unused;
  return opgap_clock_anchor();
}
