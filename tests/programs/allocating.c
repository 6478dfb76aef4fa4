/* 50 mallocs and frees and 4 reallocarrays, with whatever allocator is there.  libc's reallocarray, which most
 * allocators do not replace, must end in the allocator that frees the block. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *unused)
{
  (void)unused;
  for (int i = 0; i < 25; i++) {
    char *p = malloc(100000);
    memset(p, 1, 100000);
    free(p);
  }
  char *array = reallocarray(NULL, 10, 1000);
  array = reallocarray(array, 30, 1000);
  if (array)
    array[29999] = 1;
  free(array);
  return NULL;
}

int main(void)
{
  pthread_t t;
  work(NULL);
  if (pthread_create(&t, NULL, work, NULL) != 0)
    return 1;
  return pthread_join(t, NULL);
}
