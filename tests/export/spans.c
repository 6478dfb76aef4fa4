/* Many nested ranges: spans COUNT [THREADS [wait]]
 *
 * One outer range a thread holds all others, in groups of four: a range of three levels and one alone, so that an
 * export must put the outer range first without holding what is inside it.  With "wait" it says so, in the outer range
 * of its only thread, and waits to be killed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opgap/opgap.h"

static unsigned long count;
static int wait_inside;

static void *work(void *unused)
{
  (void)unused;
  opgap_range_push("whole");
  for (unsigned long i = 0; i < count; i += 4) {
    opgap_range_push("outer");
    opgap_range_push("middle");
    opgap_range_push("inner");
    opgap_range_pop();
    opgap_range_pop();
    opgap_range_pop();
    opgap_range_push("alone");
    opgap_range_pop();
  }
  if (wait_inside) {
    puts("waiting");
    fflush(stdout);
    pause();
  }
  opgap_range_pop();
  return NULL;
}

int main(int argc, char **argv)
{
  pthread_t threads[16];
  long more = argc > 2 ? atol(argv[2]) - 1 : 0;
  count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
  wait_inside = argc > 3 && strcmp(argv[3], "wait") == 0;
  if (more < 0 || more > 16) {
    fputs("usage: spans COUNT [THREADS [wait]], at most 17 threads\n", stderr);
    return 2;
  }
  for (long i = 0; i < more; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0)
      return 1;
  work(NULL);
  for (long i = 0; i < more; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
