/* Threads that live at one time: crowd THREADS CALLS.  Each allocates once with realloc, meets all others, reads CALLS
 * times a byte, and meets them again.  Exits with 77 where so many threads cannot be made, or thousands cannot be
 * recorded, because the ring takes a quarter of what is free in /dev/shm at most. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FREE_BYTES (4 * 64ull << 20)
static pthread_barrier_t all;
static int calls, zero;

static void *member(void *unused)
{
  char byte;
  void *volatile block = realloc(NULL, 100);
  pthread_barrier_wait(&all);
  for (int i = 0; i < calls; i++)
    if (read(zero, &byte, 1) != 1)
      _exit(2);
  pthread_barrier_wait(&all);
  free(block);
  return unused;
}

static void skip(const char *why)
{
  puts(why);
  fflush(stdout);
  _exit(77);
}

int main(int argc, char **argv)
{
  struct statvfs shm;
  static pthread_t threads[5000];
  int count = argc > 2 ? atoi(argv[1]) : 0;
  pthread_attr_t small;
  if (count < 1 || count > (int)(sizeof threads / sizeof *threads))
    return 2;
  if (count > 1000 && (statvfs("/dev/shm", &shm) != 0 || (uint64_t)shm.f_bavail * shm.f_frsize < FREE_BYTES))
    skip("less than 256 MiB are free in /dev/shm");
  calls = atoi(argv[2]);
  zero = open("/dev/zero", O_RDONLY);
  pthread_barrier_init(&all, NULL, (unsigned)count);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], &small, member, NULL) != 0)
      skip("so many threads cannot be made here");
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
