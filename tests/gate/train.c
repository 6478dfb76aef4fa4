/* A program of steps whose work is known, with changes to plant.  The command is always the same, as the gate wants:
 *
 *   GATE_STEPS=N     steps (default 60)
 *   GATE_SLOW=P      the op "backward" takes P % of the whole step's work more
 *   GATE_ALLOCS=N    allocations more a step, in "forward"
 *   GATE_READS=N     reads of 100 bytes more a step, in "load"
 *   GATE_RANGES=N    calls of "forward" more a step
 *   GATE_RARE=N      one read more in every Nth step
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <opgap/opgap.h>

#define STEP_WORK 400000u /* rounds of work() in a step: about half a millisecond */

static long setting(const char *name, long otherwise)
{
  const char *text = getenv(name);
  return text && text[0] ? strtol(text, NULL, 10) : otherwise;
}

static uint64_t work(uint64_t state, unsigned long rounds)
{
  for (unsigned long i = 0; i < rounds; i++)
    state = (state ^ state >> 7) * 0x9e3779b97f4a7c15ull;
  return state;
}

static void *volatile kept; /* so that no allocation is optimised away */

static void allocate(long count)
{
  for (long i = 0; i < count; i++) {
    kept = malloc(64);
    free(kept);
  }
}

static void read_file(const char *path, long count)
{
  char buffer[100];
  int fd = open(path, O_RDONLY);
  for (long i = 0; i < count; i++) {
    if (pread(fd, buffer, sizeof buffer, 0) != (ssize_t)sizeof buffer)
      exit(3);
  }
  close(fd);
}

int main(int argc, char **argv)
{
  long steps = setting("GATE_STEPS", 60), slow = setting("GATE_SLOW", 0), allocs = setting("GATE_ALLOCS", 0);
  long reads = setting("GATE_READS", 0), ranges = setting("GATE_RANGES", 0), rare = setting("GATE_RARE", 0);
  uint64_t state = 1;
  const char *data = argc > 1 ? argv[1] : argv[0];
  for (long step = 0; step < steps; step++) {
    opgap_range_push("load");
    read_file(data, 2 + reads + (rare > 0 && step % rare == rare - 1));
    opgap_range_pop();
    for (long i = 0; i < 1 + ranges; i++) {
      opgap_range_push("forward");
      allocate(5 + (i == 0 ? allocs : 0));
      state = work(state, STEP_WORK / 3 / (unsigned long)(1 + ranges));
      opgap_range_pop();
    }
    opgap_range_push("backward");
    state = work(state, STEP_WORK / 3 * 2 + STEP_WORK * (unsigned long)slow / 100);
    opgap_range_pop();
    opgap_step();
  }
  return state == 0; /* never: the work must not be optimised away */
}
