/* What a call stack costs: large blocks, each of which gets one, allocated DEPTH calls deep.
 *
 *   captures COUNT DEPTH   prints the time of a malloc and free, in ns: the least of ten rounds
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void *allocate(int deeper)
{
  void *volatile block = deeper > 0 ? allocate(deeper - 1) : malloc(2 << 20);
  return block;
}

int main(int argc, char **argv)
{
  int count = argc > 1 ? atoi(argv[1]) : 100, depth = argc > 2 ? atoi(argv[2]) : 10;
  double least = 1e18;
  for (int round = 0; round < 10; round++) {
    double begin = now_ns();
    for (int i = 0; i < count; i++)
      free(allocate(depth));
    double each = (now_ns() - begin) / count;
    least = each < least ? each : least;
  }
  printf("%.1f\n", least);
  return 0;
}
