/* A program whose trace reaches the size that was set for it, while its standard error is something special: `file` (as
 * it is; waits for the tracer's line), `late` (as it is), `socket`, `full` (a pipe that takes no more), `closed` (one
 * that nobody reads), `alone` (that, and no second thread).  `deny` in front: runs the rest of its arguments, where
 * pidfd_getfd is forbidden. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS 40000 /* more than 16 KiB of trace */

static int deny(char **program)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 438 /* pidfd_getfd */, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return 2;
  execvp(program[0], program);
  return 3;
}

static void open_often(int times)
{
  for (int i = 0; i < times; i++)
    close(open("/dev/null", O_RDONLY));
}

static atomic_int done;

static void *open_until_done(void *unused)
{
  while (!done)
    open_often(100);
  return unused;
}

static int say(const char *text)
{
  return write(2, text, strlen(text)) == (ssize_t)strlen(text);
}

static off_t size_of_stderr(void)
{
  struct stat status;
  return fstat(2, &status) == 0 ? status.st_size : -1;
}

static int fill(void)
{
  static const char page[4096];
  int ends[2];
  if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
    return 0;
  while (write(ends[1], page, sizeof page) > 0)
    ;
  return errno == EAGAIN && fcntl(ends[1], F_SETFL, 0) == 0 && dup2(ends[1], 2) == 2;
}

static int nobody_reads(void)
{
  int ends[2];
  return pipe(ends) == 0 && dup2(ends[1], 2) == 2 && close(ends[0]) == 0;
}

int main(int argc, char **argv)
{
  const char *how = argc > 1 ? argv[1] : "";
  pthread_t thread;
  int ends[2] = {-1, -1}, alone = strcmp(how, "alone") == 0;
  char line[4096] = "";
  if (strcmp(how, "deny") == 0)
    return deny(argv + 2);
  if ((strcmp(how, "full") == 0 && !fill()) || ((alone || strcmp(how, "closed") == 0) && !nobody_reads()))
    return 4;
  if (strcmp(how, "socket") == 0 && (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || dup2(ends[1], 2) != 2))
    return 4;
  if ((strcmp(how, "file") == 0 || strcmp(how, "late") == 0) && !say("first\n"))
    return 5;
  off_t size = size_of_stderr();
  if (!alone && pthread_create(&thread, NULL, open_until_done, NULL) != 0)
    return 6;
  if (strcmp(how, "file") == 0)
    while (size_of_stderr() == size)
      open_often(100);
  else if (strcmp(how, "socket") == 0)
    while (recv(ends[0], line, sizeof line - 1, MSG_DONTWAIT) < 0)
      open_often(100);
  else
    open_often(CALLS);
  done = 1;
  if (!alone && pthread_join(thread, NULL) != 0)
    return 7;
  if ((strcmp(how, "file") == 0 || strcmp(how, "late") == 0) && !say("second\n"))
    return 8;
  printf("%send\n", line);
  return 0;
}
