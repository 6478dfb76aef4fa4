/* Every allocating call a known number of times.  Argument "0": none of them, for the base. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int bad;
static volatile size_t half = SIZE_MAX / 2, quarter = SIZE_MAX / 4; /* the compiler must not know */

static void check(int ok)
{
  bad |= !ok;
}

/* malloc 100 x 40 bytes, 100 frees */
static void plain(void)
{
  for (int i = 0; i < 100; i++) {
    void *p = malloc(40);
    check(p != NULL);
    free(p);
  }
  free(NULL);
}

/* realloc: 4 calls, 1 of them fails; malloc 1, free 1 */
static void resized(void)
{
  void *p = realloc(NULL, 100); /* 100 bytes */
  memset(p, 7, 100);
  p = realloc(p, 300); /* 300 */
  check(((char *)p)[99] == 7);
  errno = 0;
  void *q = realloc(p, quarter);
  check(q == NULL && errno == ENOMEM && ((char *)p)[99] == 7);
  errno = 5;
  check(realloc(p, 0) == NULL && errno == 5); /* glibc frees */
  p = malloc(10);
  free(p);
}

/* reallocarray: 3 calls, 1 fails; free 1 */
static void arrays(void)
{
  void *p = reallocarray(NULL, 3, 7); /* 21 */
  p = reallocarray(p, 10, 7);         /* 70 */
  errno = 0;
  void *volatile same = p; /* gcc takes the block for freed, but a failing call keeps it */
  check(reallocarray(same, half, 3) == NULL && errno == ENOMEM);
  free(p);
}

/* calloc: 3 calls, 1 fails; free 2 */
static void zeroed(void)
{
  char *p = calloc(10, 10), *q = calloc(1, 0);
  for (int i = 0; i < 100; i++)
    check(p[i] == 0);
  errno = 0;
  check(calloc(half, 4) == NULL && errno == ENOMEM);
  free(p);
  free(q);
}

/* posix_memalign: 3 calls, 1 fails; the others 1 each; free 6 */
static void aligned(void)
{
  void *p = NULL, *q = NULL;
  check(posix_memalign(&p, 64, 100) == 0 && (uintptr_t)p % 64 == 0);
  check(posix_memalign(&q, 4096, 10) == 0 && (uintptr_t)q % 4096 == 0);
  void *kept = q;
  errno = 3;
  check(posix_memalign(&kept, 3, 10) == EINVAL && kept == q && errno == 3);
  void *a = aligned_alloc(128, 256), *b = memalign(32, 50), *c = valloc(60), *d = pvalloc(70);
  check((uintptr_t)a % 128 == 0 && (uintptr_t)b % 32 == 0 && (uintptr_t)c % 4096 == 0 && (uintptr_t)d % 4096 == 0);
  check(malloc_usable_size(b) >= 50);
  free(p);
  free(q);
  free(a);
  free(b);
  free(c);
  free(d);
}

/* one large block: a span with OPGAP_MIN_ALLOC below 2 MiB; malloc 1, free 1 */
static void large(void)
{
  void *p = malloc(2u << 20);
  check(p != NULL);
  free(p);
}

int main(int count, char **arguments)
{
  if (count > 1 && arguments[1][0] == '0')
    return 0;
  plain();
  resized();
  arrays();
  zeroed();
  aligned();
  large();
  return bad;
}
