/* An old program: asks for the versions of functions that glibc keeps for it.  A condition variable of before 2.3.2 is
 * a pointer, the rest of its memory is not even set; posix_spawn of before 2.15 runs a script without #!; memcpy of
 * before 2.14 allows overlaps.  x86-64 only, the one system with such programs. */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OLD(name, version) __asm__(".symver " #name ", " #name "@" version)
OLD(pthread_cond_init, "GLIBC_2.2.5");
OLD(pthread_cond_destroy, "GLIBC_2.2.5");
OLD(pthread_cond_wait, "GLIBC_2.2.5");
OLD(pthread_cond_timedwait, "GLIBC_2.2.5");
OLD(pthread_cond_signal, "GLIBC_2.2.5");
OLD(pthread_cond_broadcast, "GLIBC_2.2.5");
OLD(posix_spawn, "GLIBC_2.2.5");
OLD(posix_spawnp, "GLIBC_2.2.5");
OLD(memcpy, "GLIBC_2.2.5");
OLD(quick_exit, "GLIBC_2.10");

enum { ROUNDS = 1000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t *cond;
static volatile int turn;
extern char **environ;

static void *other(void *argument)
{
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < ROUNDS; i++) {
    while (turn != 1)
      pthread_cond_wait(cond, &mutex);
    turn = 0;
    if (i % 2)
      pthread_cond_signal(cond);
    else
      pthread_cond_broadcast(cond);
  }
  pthread_mutex_unlock(&mutex);
  return argument;
}

static int conditions(void)
{
  cond = malloc(sizeof *cond);
  memset(cond, 0xa5, sizeof *cond);
  if (pthread_cond_init(cond, NULL) != 0)
    return 1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, other, NULL) != 0)
    return 2;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < ROUNDS; i++) {
    turn = 1;
    pthread_cond_signal(cond);
    while (turn != 0)
      pthread_cond_wait(cond, &mutex);
  }
  struct timespec past = {1, 0};
  int result = pthread_cond_timedwait(cond, &mutex, &past);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  if (result != ETIMEDOUT || pthread_cond_destroy(cond) != 0)
    return 3;
  free(cond);
  return 0;
}

static int script(int (*spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                               char *const[], char *const[]))
{
  char path[] = "/tmp/opgap-versions-XXXXXX";
  int fd = mkstemp(path), status = -1;
  char *const arguments[] = {path, NULL};
  pid_t pid;
  dprintf(fd, "exit 12\n");
  fchmod(fd, 0700);
  close(fd);
  if (spawn(&pid, path, NULL, NULL, arguments, environ) != 0 || waitpid(pid, &status, 0) != pid)
    status = -1;
  unlink(path);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
  int bad = conditions();
  if (bad)
    return bad;
  if (script(posix_spawn) != 12 || script(posix_spawnp) != 12)
    return 4;
  char text[64] = "0123456789abcdefghijklmnopqrstuvwxyz0123456789";
  memcpy(text + 1, text, 40);
  printf("%s\n", text);
  fflush(stdout);
  quick_exit(7);
}
