#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  char byte;
  int zero = open("/dev/zero", O_RDONLY);
  printf("%d", (int)read(zero, &byte, 1));
  printf(" %d", (int)read(-7, &byte, 1));
  printf(" %d\n", (int)read(-8, &byte, 1));
  for (int i = 0; i < 20480; i++) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
