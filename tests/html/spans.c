/* Many spans: `spans THREADS STEPS OPS` runs STEPS ranges on each thread with OPS ranges inside, 40 names in turn.
 * The main thread is one of them and marks its steps. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "opgap/opgap.h"

static unsigned long steps, ops;

static void run(int main_thread)
{
  char names[40][16];
  for (int i = 0; i < 40; i++)
    snprintf(names[i], sizeof names[i], "op %d", i);
  for (unsigned long s = 0; s < steps; s++) {
    opgap_range_push("step");
    for (unsigned long k = 0; k < ops; k++) {
      opgap_range_push(names[k % 40]);
      opgap_range_pop();
    }
    opgap_range_pop();
    if (main_thread)
      opgap_step();
  }
}

static void *thread(void *unused)
{
  run(0);
  return unused;
}

int main(int argc, char **argv)
{
  enum { MOST = 64 };
  pthread_t threads[MOST];
  if (argc != 4)
    return 2;
  unsigned long count = strtoul(argv[1], NULL, 10) - 1;
  steps = strtoul(argv[2], NULL, 10);
  ops = strtoul(argv[3], NULL, 10);
  for (unsigned long i = 0; i < count && i < MOST; i++)
    if (pthread_create(&threads[i], NULL, thread, NULL) != 0)
      return 1;
  run(1);
  for (unsigned long i = 0; i < count && i < MOST; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
