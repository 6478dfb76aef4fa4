/* Both ends of a socketpair, also copies of them and in a forked child: 5 calls of send and 5 of recv, of one byte. */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(int fd)
{
  char byte;
  for (int i = 0; i < 4; i++)
    if (recv(fd, &byte, 1, 0) != 1)
      return 1;
  return send(fd, &byte, 1, 0) == 1 ? 0 : 2;
}

int main(void)
{
  int pair[2], status = 0;
  char byte = 'x';
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
    return 1;
  int copy = dup(pair[0]);
  pid_t pid = fork();
  if (pid == 0)
    _exit(child(pair[1]));
  for (int i = 0; i < 4; i++)
    if (send(i % 2 ? copy : pair[0], &byte, 1, 0) != 1)
      return 2;
  if (recv(copy, &byte, 1, 0) != 1 || waitpid(pid, &status, 0) != pid)
    return 3;
  return status != 0;
}
