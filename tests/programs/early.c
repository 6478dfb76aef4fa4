/* A library whose IFUNC resolver copies, sets and allocates memory: it runs before the tracer is relocated, and long
 * before its constructor.  Its own constructor does the same, and asks dlsym. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile size_t size = 100;
static char *kept, *other; /* allocated before the tracer is relocated, given back after it is */

static int answer_42(void)
{
  return 42;
}

int early_answer(void);
static __attribute__((used)) int (*resolve(void))(void)
{
  char from[200], to[200];
  memset(from, 7, size);
  memcpy(to, from, size);
  memmove(to + 1, to, size);
  kept = calloc(1, size);
  other = realloc(malloc(10), 50);
  memset(other, 9, 50);
  free(malloc(10));
  return to[size] == 7 ? answer_42 : NULL;
}
int early_answer(void) __attribute__((ifunc("resolve")));

__attribute__((constructor)) static void construct(void)
{
  kept = realloc(kept, 1000);
  if (kept == NULL || kept[0] != 0 || kept[99] != 0 || malloc_usable_size(other) < 50 || other[49] != 9)
    abort();
  free(kept);
  free(other);
  void *block = malloc(size);
  block = realloc(block, 2 * size);
  free(block);
  char byte;
  if (read(-1, &byte, 1) != -1 || dlsym(RTLD_DEFAULT, "malloc") == NULL)
    abort();
}
