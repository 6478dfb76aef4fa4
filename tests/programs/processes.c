/* Life of processes, one way an argument.  write(2) to /dev/null marks who was traced: 7 bytes in the first process,
 * 11 in a child, 13 in an executed program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../raw_clone.h"

extern char **environ;
static int null;
static char *self;

static void mark(size_t bytes)
{
  if (write(null, "0123456789abcdef", bytes) != (ssize_t)bytes)
    _exit(99);
}

static int status_of(pid_t pid)
{
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void late(void)
{
  mark(3);
}

/* three children: exit, _exit, SIGKILL */
static int forks(void)
{
  int result = 0;
  for (int i = 0; i < 3; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      mark(11);
      if (i == 0)
        exit(1);
      if (i == 1)
        _exit(2);
      raise(SIGKILL);
    }
    result += status_of(pid);
  }
  return result == 1 + 2 + 1009 ? 0 : 1;
}

/* a child of a vfork that changes descriptors, fails to execute, then executes */
static int vforks(void)
{
  volatile int shared = 0;
  int fd = open("/dev/zero", O_RDONLY);
  pid_t pid = vfork();
  if (pid == 0) {
    shared = 1;
    close(fd);
    open("/dev/full", O_RDONLY);
    execl("/nowhere/at/all", "x", (char *)NULL);
    if (errno != ENOENT)
      _exit(9);
    execl(self, self, "executed", (char *)NULL);
    _exit(8);
  }
  if (pid < 0 || shared != 1 || status_of(pid) != 13)
    return 1;
  char byte;
  if (read(fd, &byte, 1) != 1)
    return 2;
  pid = vfork();
  if (pid == 0)
    _exit(5);
  return status_of(pid) == 5 ? 0 : 3;
}

static int exec_faults(const char *path, char *const *environment)
{
  char *const argv[] = {self, NULL};
  errno = 0;
  if (execve(path, argv, environment) != -1 || errno != EFAULT)
    return 3;
  pid_t pid = fork();
  if (pid == 0) {
    execve(path, argv, environment);
    _exit(errno);
  }
  if (status_of(pid) != EFAULT)
    return 4;
  pid = vfork();
  if (pid == 0) {
    execve(path, argv, environment);
    _exit(errno);
  }
  return status_of(pid) == EFAULT ? 0 : 5;
}

/* Pointers that lead nowhere: a path, an environment, its second string, and each of them cut off by a page that may
 * not be read.  Each must be EFAULT, in the process itself, a forked child and the child of a vfork. */
static int exec_of_nowhere(void)
{
  char *nowhere = (char *)16; /* NOLINT(performance-no-int-to-ptr) */
  char *const half[] = {self, nowhere, NULL};
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return 1;
  memset(pages, '/', page);
  char **last = (char **)(void *)(pages + 3 * page) - 1;
  char *cut = pages + page - 20;
  *last = self;
  if (mprotect(pages + page, page, PROT_NONE) != 0 || mprotect(pages + 3 * page, page, PROT_NONE) != 0)
    return 2;
  const struct {
    const char *path;
    char *const *environment;
  } ways[] = {{nowhere, environ}, {cut, environ}, {pages + page, environ}, {self, (char *const *)(void *)nowhere},
              {self, half},       {self, last}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    int result = exec_faults(ways[i].path, ways[i].environment);
    if (result != 0)
      return result;
  }
  mark(7);
  return 0;
}

/* fails, goes on, then executes */
static int execs(const char *how)
{
  char *const argv[] = {self, (char *)(uintptr_t) "executed", NULL};
  if (execv("/nowhere/at/all", argv) != -1 || errno != ENOENT)
    return 1;
  mark(7);
  if (strcmp(how, "execv") == 0)
    execv(self, argv);
  if (strcmp(how, "execve") == 0)
    execve(self, argv, environ);
  if (strcmp(how, "execvp") == 0)
    execvp(self, argv);
  if (strcmp(how, "execvpe") == 0)
    execvpe(self, argv, environ);
  if (strcmp(how, "execl") == 0)
    execl(self, self, "executed", (char *)NULL);
  if (strcmp(how, "execlp") == 0)
    execlp(self, self, "executed", (char *)NULL);
  if (strcmp(how, "execle") == 0)
    execle(self, self, "executed", (char *)NULL, environ);
  if (strcmp(how, "fexecve") == 0)
    fexecve(open(self, O_RDONLY), argv, environ);
  return 2;
}

static int spawns(void)
{
  pid_t pid = 0;
  char *const argv[] = {self, (char *)(uintptr_t) "executed", NULL};
  if (posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0 || status_of(pid) != 13)
    return 1;
  if (posix_spawn(&pid, "/nowhere/at/all", NULL, NULL, argv, environ) != ENOENT)
    return 2;
  if (posix_spawnp(NULL, self, NULL, NULL, argv, environ) != 0 || status_of(-1) != 13)
    return 3;
  return 0;
}

static int commands(void)
{
  char line[64] = "";
  if (system("exit 3") != 3 << 8 || system(NULL) == 0)
    return 1;
  FILE *f = popen("echo hello", "r");
  if (f == NULL || fgets(line, sizeof line, f) == NULL || strcmp(line, "hello\n") != 0)
    return 2;
  return pclose(f) == 0 ? 0 : 3;
}

/* a child by a raw system call: shares nothing, its libc knows nothing */
static int raw_clone(void)
{
  long pid = raw_clone_child();
  if (pid == 0) {
    mark(11);
    _exit(6);
  }
  mark(7);
  return status_of((pid_t)pid) == 6 ? 0 : 1;
}

/* libc forks and ends the parent by itself; the child is a daemon, with standard output still open */
static int daemonize(void)
{
  mark(7);
  if (daemon(0, 1) != 0)
    return 1;
  mark(11);
  return 0;
}

/* the child ends at once, its child is nobody's */
static int double_fork(void)
{
  int ends[2], status;
  char byte;
  if (pipe(ends) != 0)
    return 1;
  pid_t pid = fork();
  if (pid == 0) {
    pid_t parent = getpid();
    if (fork() == 0) {
      while (getppid() == parent)
        usleep(1000);
      mark(11);
      exit(0);
    }
    _exit(3);
  }
  close(ends[1]);
  status = status_of(pid);
  return read(ends[0], &byte, 1) == 0 && status == 3 ? 0 : 2; /* the grandchild has ended */
}

static int many(void)
{
  int result = 0;
  for (int i = 0; i < 1000; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      mark(11);
      _exit(i % 100);
    }
    result += status_of(pid);
  }
  return result == 1000 / 100 * (99 * 100 / 2) ? 0 : 1;
}

/* an environment without us */
static int empty_environment(void)
{
  char *const argv[] = {self, (char *)(uintptr_t) "executed", NULL}, *const none[] = {NULL};
  pid_t pid = fork();
  if (pid == 0) {
    execve(self, argv, none);
    _exit(8);
  }
  if (status_of(pid) != 13)
    return 1;
  return posix_spawn(&pid, self, NULL, NULL, argv, none) == 0 && status_of(pid) == 13 ? 0 : 2;
}

/* A child that at first only closes, copies descriptors and allocates, as a shell's does: its parent's guest. */
static int guest(const char *then, bool by_clone)
{
  int ends[2];
  char *const argv[] = {self, (char *)(uintptr_t) "executed", NULL};
  if (pipe(ends) != 0)
    return 1;
  pid_t pid = by_clone ? (pid_t)raw_clone_child() : fork();
  if (pid == 0) {
    dup2(ends[1], 9);
    if (strcmp(then, "nothing") == 0)
      _exit(0);
    close(ends[0]);
    close(-1);
    for (int i = 0; i < 5; i++)
      free(valloc(777));
    if (strcmp(then, "records") == 0)
      free(valloc(2000000));
    if (strcmp(then, "executes") == 0)
      execv(self, argv);
    if (strcmp(then, "closes") == 0) { /* a descriptor with a name, and another file under its number */
      close(null);
      syscall(SYS_dup2, ends[1], null);
      close(null);
    }
    if (strcmp(then, "vforks") == 0) {
      pid_t other = vfork();
      if (other == 0) {
        close(9);
        execv(self, argv);
      }
      _exit(other < 0 || status_of(other) != 13);
    }
    if (strcmp(then, "spawns") == 0) {
      pid_t other;
      _exit(posix_spawn(&other, self, NULL, NULL, argv, environ) != 0 || status_of(other) != 13);
    }
    if (strcmp(then, "fails") == 0)
      execv("/nowhere/at/all", argv);
    if (strcmp(then, "refused") == 0) { /* the program is a good one, the argument longer than the kernel's limit */
      static char much[256 * 1024];
      memset(much, 'x', sizeof much - 1);
      execv(self, (char *const[]){self, much, NULL});
      if (errno == E2BIG)
        execv(self, argv);
    }
    for (int i = 0; i < 600 && strcmp(then, "works") == 0; i++)
      free(valloc(777));
    if (strcmp(then, "killed") == 0 || strcmp(then, "works") == 0)
      raise(SIGKILL);
    if (strcmp(then, "forks") == 0 && fork() == 0) {
      free(valloc(777));
      _exit(0);
    }
    while (strcmp(then, "forks") == 0 && wait(NULL) < 0)
      ;
    _exit(0);
  }
  close(ends[0]);
  close(ends[1]);
  bool executed = strcmp(then, "executes") == 0 || strcmp(then, "refused") == 0;
  bool killed = strcmp(then, "killed") == 0 || strcmp(then, "works") == 0;
  return status_of(pid) == (executed ? 13 : killed ? 1000 + SIGKILL : 0) ? 0 : 2;
}

static void on_quick(void)
{
  mark(5);
}

int main(int count, char **arguments)
{
  self = arguments[0];
  const char *how = count > 1 ? arguments[1] : "";
  null = open("/dev/null", O_WRONLY);
  atexit(late);
  if (strcmp(how, "executed") == 0) {
    mark(13);
    return 13;
  }
  if (strcmp(how, "fork") == 0)
    return forks();
  if (strcmp(how, "vfork") == 0)
    return vforks();
  if (strcmp(how, "nowhere") == 0)
    return exec_of_nowhere();
  if (strncmp(how, "exec", 4) == 0 || strcmp(how, "fexecve") == 0)
    return execs(how);
  if (strcmp(how, "spawn") == 0)
    return spawns();
  if (strcmp(how, "command") == 0)
    return commands();
  if (strcmp(how, "clone") == 0)
    return raw_clone();
  if (strcmp(how, "daemon") == 0)
    return daemonize();
  if (strcmp(how, "double") == 0)
    return double_fork();
  if (strcmp(how, "many") == 0)
    return many();
  if (strcmp(how, "empty") == 0)
    return empty_environment();
  if (strcmp(how, "guest") == 0)
    return guest(arguments[2], count > 3 && strcmp(arguments[3], "clone") == 0);
  mark(7);
  if (strcmp(how, "replaced") == 0) /* by a program that makes no hooked call */
    execl("/bin/true", "true", (char *)NULL);
  if (strcmp(how, "quick") == 0) {
    at_quick_exit(on_quick);
    quick_exit(21);
  }
  if (strcmp(how, "_exit") == 0)
    _exit(22);
  if (strcmp(how, "_Exit") == 0)
    _Exit(23);
  if (strcmp(how, "abort") == 0)
    abort();
  if (strcmp(how, "failed") == 0) { /* dies after an exec that was none */
    execl("/nowhere/at/all", "x", (char *)NULL);
    raise(SIGKILL);
  }
  if (strcmp(how, "kill") == 0)
    raise(SIGKILL);
  return 24;
}
