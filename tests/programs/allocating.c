/* 50 mallocs and frees, with whatever allocator is there. */
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
