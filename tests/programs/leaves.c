/* The last thread of a program leaves without libc's knowledge: by a system call, after another thread, or as the only
 * one; before a thread that is left; or in seccomp's strict mode, which allows no other end.  "unseen": by an
 * instruction of its own, which no hook sees; "unseen_first": another thread has left so, and the last one by
 * pthread_exit. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/seccomp.h>

static void *reads(void *nothing)
{
  char byte;
  FILE *file = fopen("/dev/zero", "r");
  if (file != NULL && fread(&byte, 1, 1, file) == 1)
    fclose(file);
  return nothing;
}

static atomic_int main_lives = 1; /* the kernel clears it: whose status is the program's depends on who is the last */

static void *reads_later(void *nothing)
{
  while (atomic_load(&main_lives))
    usleep(1000);
  return reads(nothing);
}

static void leave_unseen(long status)
{
#if defined(__x86_64__)
  __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(status) : "rcx", "r11", "memory");
#else
  register long x8 __asm__("x8") = SYS_exit;
  register long x0 __asm__("x0") = status;
  __asm__ volatile("svc 0" : : "r"(x8), "r"(x0) : "memory");
#endif
}

static void *reads_and_leaves(void *nothing)
{
  reads(nothing);
  leave_unseen(0);
  return nothing;
}

/* The tracer notices such an end by a system call of Linux 5.16, which a container may refuse. */
static int can_be_noticed(void)
{
  return syscall(449 /* futex_waitv */, NULL, 0, 0, NULL, 0) >= 0 || (errno != ENOSYS && errno != EPERM);
}

static int unseen(int first)
{
  pthread_t thread;
  if (!can_be_noticed()) {
    puts("futex_waitv is not there");
    return 77;
  }
  if (pthread_create(&thread, NULL, first ? reads_and_leaves : reads, NULL) != 0 || pthread_join(thread, NULL) != 0)
    return 1;
  if (first)
    pthread_exit(NULL);
  leave_unseen(21);
  return 4;
}

int main(int count, char **arguments)
{
  const char *how = count > 1 ? arguments[1] : "";
  pthread_t thread;
  if (strncmp(how, "unseen", strlen("unseen")) == 0)
    return unseen(strcmp(how, "unseen_first") == 0);
  if (strcmp(how, "group") == 0 && reads(NULL) == NULL)
    syscall(SYS_exit_group, 21);
  if (strcmp(how, "single") == 0) /* has had no other, and called nothing */
    syscall(SYS_exit, 21);
  if (pthread_create(&thread, NULL, reads, NULL) != 0 || pthread_join(thread, NULL) != 0)
    return 1;
  if (strcmp(how, "before") == 0 &&
      (syscall(SYS_set_tid_address, &main_lives) < 0 || pthread_create(&thread, NULL, reads_later, NULL) != 0 ||
       pthread_detach(thread) != 0))
    return 2;
  if (strcmp(how, "strict") == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0)
    return 3;
  syscall(SYS_exit, 21);
  return 4;
}
