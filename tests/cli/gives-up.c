/* A program that gives up its rights, its root or system calls in the middle: `cli-gives-up setuid`, `chroot FOLDER`,
 * `filter`.  With `children` behind it makes a child in every way, and looks whether each is as it would be without the
 * tracer: what it writes to standard error, and its environment. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define COMMAND "echo \"${OPGAP_SESSION-none} ${LD_PRELOAD-none}\" >&2"
#define EXPECTED "none none\n"

extern char **environ;
static char *const shell[] = {"sh", "-c", COMMAND, NULL};

static void look(int times)
{
  struct stat status;
  for (int i = 0; i < times; i++)
    stat("/", &status);
}

/* Kills who asks for its thread's number: the tracer does, in each image that it begins in. */
static int filter(void)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static int give_up(const char *how, const char *folder)
{
  if (strcmp(how, "chroot") == 0)
    return chroot(folder) == 0 && chdir("/") == 0;
  if (strcmp(how, "filter") == 0)
    return filter();
  return setgid(NOBODY) == 0 && setuid(NOBODY) == 0;
}

static void be_child(void)
{
  look(10);
  if (write(2, EXPECTED, sizeof EXPECTED - 1) < 0)
    _exit(1);
  _exit(0);
}

static void by_fork(void)
{
  if (fork() == 0)
    be_child();
}

static void by_exec(void)
{
  if (fork() == 0) {
    execv("/bin/sh", shell);
    _exit(1);
  }
}

static void by_vfork(void)
{
  if (vfork() == 0) {
    execve("/bin/sh", shell, environ);
    _exit(1);
  }
}

static void by_spawn(void)
{
  pid_t pid;
  posix_spawn(&pid, "/bin/sh", NULL, NULL, shell, environ);
}

static void by_system(void)
{
  if (system(COMMAND) != 0)
    perror("system");
}

static void by_popen(void)
{
  FILE *stream = popen(COMMAND, "r");
  if (stream == NULL || pclose(stream) != 0)
    perror("popen");
}

/* Does a child that is made so write what it should? */
static int is_as_without(void (*make)(void))
{
  char text[4096];
  size_t size = 0;
  int ends[2], error = dup(2);
  if (error < 0 || pipe(ends) != 0 || dup2(ends[1], 2) < 0)
    return 0;
  make();
  dup2(error, 2);
  close(error);
  close(ends[1]);
  for (ssize_t n; (n = read(ends[0], text + size, sizeof text - 1 - size)) > 0;)
    size += (size_t)n;
  close(ends[0]);
  while (wait(NULL) > 0)
    ;
  text[size] = 0;
  if (strcmp(text, EXPECTED) != 0)
    printf("not %s", text);
  return strcmp(text, EXPECTED) == 0;
}

int main(int argc, char **argv)
{
  void (*const ways[])(void) = {by_fork, by_exec, by_vfork, by_spawn, by_system, by_popen};
  int children = strcmp(argv[argc - 1], "children") == 0;
  look(2000);
  if (argc < 2 || !give_up(argv[1], argv[argc - 1]))
    return 2;
  if (children && fork() == 0) /* the cause is told before the first child */
    _exit(0);
  for (size_t i = 0; children && i < sizeof ways / sizeof *ways; i++)
    if (!is_as_without(ways[i]))
      printf("way %zu is not as without\n", i);
  look(500);
  puts("end");
  return 0;
}
