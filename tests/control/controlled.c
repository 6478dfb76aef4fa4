/* A program that does what it is told, so that a test knows exactly what ran while recording was on.
 *
 * Commands, one a line, from the named pipe argv[1]; each is answered by a line on standard output:
 *   m N     N pairs of malloc(10) and free
 *   t       creates a thread that sleeps for ever
 *   s N     N times opgap_step
 *   r N     N times read of one byte
 *   f PIPE  forks; the child takes commands from PIPE
 *   d PIPE  the same, and this process ends
 *   x PIPE  starts this program anew with PIPE
 *   q       ends
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <opgap/opgap.h>

static void *volatile block; /* keeps the pairs from being optimised away */

static void allocate(long count)
{
  for (long i = 0; i < count; i++) {
    block = malloc(10);
    free(block);
  }
}

static void *sleep_for_ever(void *unused)
{
  for (;;)
    pause();
  return unused;
}

static void read_bytes(long count)
{
  char byte;
  int fd = open("/dev/zero", O_RDONLY);
  for (long i = 0; i < count; i++)
    if (read(fd, &byte, 1) != 1)
      _exit(8);
  close(fd);
}

static void take_line(int fd, char *line, size_t size)
{
  size_t n = 0;
  while (n + 1 < size && read(fd, line + n, 1) == 1 && line[n] != '\n')
    n++;
  line[n] = '\0';
}

/* A number, or ok for 0; without allocations of its own. */
static void answer(int number)
{
  char line[32];
  int n = number ? snprintf(line, sizeof line, "%d\n", number) : snprintf(line, sizeof line, "ok\n");
  if (write(1, line, (size_t)n) != n)
    _exit(7);
}

static int open_pipe(const char *path)
{
  int fd = open(path, O_RDWR); /* never at its end */
  if (fd < 0)
    _exit(3);
  return fd;
}

int main(int argc, char **argv)
{
  char line[512];
  if (argc < 2)
    return 2;
  for (int fd = open_pipe(argv[1]);;) {
    take_line(fd, line, sizeof line);
    const char *rest = line[0] ? line + 2 : line;
    pthread_t thread;
    if (line[0] == 'm')
      allocate(strtol(rest, NULL, 10));
    else if (line[0] == 'r')
      read_bytes(strtol(rest, NULL, 10));
    else if (line[0] == 's')
      for (long i = strtol(rest, NULL, 10); i > 0; i--)
        opgap_step();
    else if (line[0] == 't' && pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0)
      return 4;
    else if (line[0] == 'f' || line[0] == 'd' || line[0] == 'x') {
      pid_t child = fork();
      if (child < 0)
        return 5;
      if (child > 0 && line[0] == 'd')
        _exit(0);
      if (child == 0 && line[0] == 'x') {
        execl(argv[0], argv[0], rest, (char *)NULL);
        _exit(6);
      }
      if (child == 0) {
        close(fd);
        fd = open_pipe(rest);
      }
      if (child > 0 || line[0] == 'd')
        answer(child > 0 ? (int)child : (int)getpid());
      continue;
    }
    answer(0);
    if (line[0] == 'q')
      return 0;
  }
}
