/* A program that confines itself.  "strict": seccomp's strict mode, where anything but read, write and exit kills,
 * rdtsc too.  "counter": rdtsc alone.  "filter": a filter that kills for asking what a descriptor or the working folder
 * is.  "allow", "prctl", "threads": a filter that kills for all but what this program does from then on; set by
 * seccomp(2), prctl(2), or for all threads when there was a second one; "child": and a child of it does the same.
 * "refused": asks in each of these ways, and for the strict mode, in vain. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

static int use(void)
{
  char byte;
  for (int i = 0; i < 100; i++)
    if (write(ends[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1)
      return 3;
  return 4;
}

static int filter(void)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlinkat, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getcwd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  struct stat st;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    return 2;
  if (stat("no/such/file", &st) != -1 || errno != ENOENT)
    return 5;
  return use();
}

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void *nothing(void *unused)
{
  return unused;
}

static int allow(const char *how)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(read),
      ALLOW(write),
      ALLOW(exit_group),
      ALLOW(wait4),
      ALLOW(clone),
      ALLOW(set_robust_list), /* of libc's fork */
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  pthread_t thread;
  int all = strcmp(how, "threads") == 0, status = 0;
  if (all && (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0))
    return 1;
  int before = use();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return 2;
  if (strcmp(how, "prctl") == 0
          ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0
          : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program) != 0)
    return 2;
  if (strcmp(how, "child") == 0) {
    pid_t pid = fork();
    if (pid == 0)
      _exit(use());
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
      return 5;
  }
  return before == 4 && use() == 4 && (status == 0 || status == 4 << 8) ? 4 : 3;
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

/* More than a ring of 1 MiB holds, but not at once. */
static void *use_much(void *unused)
{
  pthread_mutex_lock(&held);
  for (int i = 0; i < 25; i++) {
    usleep(20000);
    for (int j = 0; j < 5; j++)
      if (use() != 4)
        _exit(8);
  }
  return unused;
}

static int refused(void)
{
  struct sock_fprog nothing_at_all = {0, NULL};
  pthread_t thread;
  if (pthread_mutex_lock(&held) != 0 || pthread_create(&thread, NULL, use_much, NULL) != 0)
    return 1;
  if (use() != 4 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nothing_at_all) != -1 || errno != EINVAL)
    return 2;
  if (use() != 4 || syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) != -1 || errno != EINVAL)
    return 2;
  if (use() != 4 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nothing_at_all) != -1 || errno != EINVAL)
    return 2;
  if (use() != 4 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &nothing_at_all) != -1 ||
      errno != EINVAL)
    return 2;
  if (pthread_mutex_unlock(&held) != 0 || pthread_join(thread, NULL) != 0)
    return 5;
  return use();
}

/* The counter goes; the program ends as any does. */
static int counter(void)
{
  int before = use();
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0)
    return 2;
  return before == 4 && use() == 4 ? 6 : 3;
}

int main(int count, char **arguments)
{
  if (count < 2 || pipe(ends) != 0)
    return 1;
  if (strcmp(arguments[1], "filter") == 0)
    return filter();
  if (strcmp(arguments[1], "counter") == 0)
    return counter();
  if (strcmp(arguments[1], "refused") == 0)
    return refused();
  if (strcmp(arguments[1], "strict") != 0)
    return allow(arguments[1]);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
    return 2;
  syscall(SYS_exit, use());
}
