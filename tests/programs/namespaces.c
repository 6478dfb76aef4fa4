/* Asks for what the kernel gives only to a process of one thread: the tracer's own thread must not be in the way, and
 * is there again afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 20

static int bad;

static void check(int ok, int line)
{
  if (!ok) {
    dprintf(1, "line %d: errno %d\n", line, errno);
    bad = 1;
  }
}
#define CHECK(x) check(x, __LINE__)

static void work(void)
{
  for (int i = 0; i < 10; i++)
    close(open("/dev/null", O_RDONLY));
}

/* A joined thread is on the kernel's list for a moment more. */
static int asked(long number, int flags)
{
  for (int i = 0; i < 5000; i++) {
    int result = number ? (int)syscall(number, flags) : unshare(flags);
    if (result == 0 || errno != EINVAL)
      return result;
    usleep(1000);
  }
  return -1;
}

static void *thread_works(void *unused)
{
  work();
  return unused;
}

static void *thread_asks(void *unused)
{
  CHECK(unshare(CLONE_THREAD) == -1 && errno == EINVAL);
  return unused;
}

static void run_thread(void *(*body)(void *))
{
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
  for (int i = 0; i < ROUNDS; i++) {
    run_thread(thread_works);
    CHECK(asked(0, CLONE_THREAD) == 0);
    work();
    run_thread(thread_works);
    CHECK(asked(SYS_unshare, CLONE_SIGHAND) == 0);
  }
  run_thread(thread_asks);
  int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  CHECK(setns(mounts, 0) == 0 || errno == EPERM);
  CHECK(syscall(SYS_setns, mounts, CLONE_NEWNS) == 0 || errno == EPERM);
  CHECK(setns(-1, 0) == -1 && errno == EBADF);
  close(mounts);
  CHECK(asked(0, CLONE_NEWUSER) == 0 || errno != EINVAL);
  work();
  return bad;
}
