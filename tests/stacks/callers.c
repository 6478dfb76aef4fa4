/* Calls whose stacks a test knows: COUNT sleeps and COUNT large allocations, each from a place of its own. */
#include <stdlib.h>
#include <time.h>

static void *volatile block;

static inline __attribute__((always_inline)) void inlined(void)
{
  struct timespec pause = {0, 2000000};
  nanosleep(&pause, NULL); /* LINE inlined */
}

/* Names as compilers of C++ and Rust make them. */
void sleeper(int deep) __asm__("_ZN5outer7sleeperEi");
void allocator(int deep) __asm__("_RNvC7mycrate9allocator");

__attribute__((noinline)) void sleeper(int deep)
{
  if (deep > 0)
    sleeper(deep - 1); /* LINE recursion */
  else
    inlined(); /* LINE sleeper */
  __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void allocator(int deep)
{
  block = malloc((size_t)4 << 20); /* LINE allocator */
  free(block);
  __asm__ volatile("" ::"r"(deep) : "memory");
}

int main(int argc, char **argv)
{
  int count = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < count; i++) {
    sleeper(2);
    allocator(2);
  }
  return 0;
}
