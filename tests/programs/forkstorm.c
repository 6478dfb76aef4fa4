/* 60 forks while four threads allocate, lock and write: no child hangs, each has a trace of its own.  A child writes 11
 * bytes and allocates one block of 777777 bytes, in its only thread and in one of its own. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int null;
static volatile int stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *hammer(void *unused)
{
  (void)unused;
  while (!stop) {
    for (int i = 0; i < 100; i++)
      free(malloc((size_t)(100 + i)));
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    if (pwrite(null, "x", 1, 0) != 1)
      _exit(9);
  }
  return NULL;
}

static void *in_child(void *unused)
{
  (void)unused;
  free(malloc(777777));
  return NULL;
}

static void child(void)
{
  pthread_t t;
  alarm(20); /* a hang is a failure */
  if (write(null, "0123456789a", 11) != 11)
    _exit(2);
  free(malloc(777777));
  if (pthread_create(&t, NULL, in_child, NULL) != 0 || pthread_join(t, NULL) != 0)
    _exit(3);
  exit(0);
}

int main(void)
{
  pthread_t t[4];
  int bad = 0;
  null = open("/dev/null", O_WRONLY);
  for (int i = 0; i < 4; i++)
    bad |= pthread_create(&t[i], NULL, hammer, NULL);
  for (int i = 0; i < 60; i++) {
    pid_t pid = fork();
    if (pid == 0)
      child();
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
      bad = 1;
  }
  stop = 1;
  for (int i = 0; i < 4; i++)
    pthread_join(t[i], NULL);
  return bad;
}
