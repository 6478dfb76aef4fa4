/* Cancels a thread in every blocking call, both while it waits and before it calls; the thread ends as cancelled, its
 * clean-up handler runs once, and the next call of the process works.  Prints what came of each. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int empty[2], full[2], pair[2], full_pair[2], listener, epoll;
static char fifo[] = "/tmp/opgap-cancel-XXXXXX/fifo", large[1 << 20];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_t sleeper;
static pid_t child;
static sem_t sem;
static const struct timespec far = {2000000000, 0}, minute = {60, 0};
static struct iovec part = {large, sizeof large};
static volatile int cleaned;

static void by_read(void)
{
  read(empty[0], large, 1);
}
static void by_readv(void)
{
  readv(empty[0], &part, 1);
}
static void by_write(void)
{
  write(full[1], large, sizeof large);
}
static void by_writev(void)
{
  writev(full[1], &part, 1);
}
static void by_open(void)
{
  open(fifo, O_RDONLY);
}
static void by_openat(void)
{
  openat(AT_FDCWD, fifo, O_RDONLY);
}
static void by_recv(void)
{
  recv(pair[0], large, 1, 0);
}
static void by_recvfrom(void)
{
  recvfrom(pair[0], large, 1, 0, NULL, NULL);
}
static void by_recvmsg(void)
{
  recvmsg(pair[0], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, 0);
}
static void by_recvmmsg(void)
{
  struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
  recvmmsg(pair[0], &message, 1, 0, NULL);
}
static void by_send(void)
{
  send(full_pair[0], large, sizeof large, 0);
}
static void by_sendto(void)
{
  sendto(full_pair[0], large, sizeof large, 0, NULL, 0);
}
static void by_sendmsg(void)
{
  sendmsg(full_pair[0], &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, 0);
}
static void by_accept(void)
{
  accept(listener, NULL, NULL);
}
static void by_accept4(void)
{
  accept4(listener, NULL, NULL, 0);
}
static void by_poll(void)
{
  poll(&(struct pollfd){.fd = empty[0], .events = POLLIN}, 1, -1);
}
static void by_ppoll(void)
{
  ppoll(&(struct pollfd){.fd = empty[0], .events = POLLIN}, 1, NULL, NULL);
}
static void by_select(void)
{
  fd_set readers;
  FD_ZERO(&readers);
  FD_SET(empty[0], &readers);
  select(empty[0] + 1, &readers, NULL, NULL, NULL);
}
static void by_pselect(void)
{
  fd_set readers;
  FD_ZERO(&readers);
  FD_SET(empty[0], &readers);
  pselect(empty[0] + 1, &readers, NULL, NULL, NULL, NULL);
}
static void by_epoll_wait(void)
{
  epoll_wait(epoll, &(struct epoll_event){0}, 1, -1);
}
static void by_epoll_pwait(void)
{
  epoll_pwait(epoll, &(struct epoll_event){0}, 1, -1, NULL);
}
static void by_nanosleep(void)
{
  nanosleep(&minute, NULL);
}
static void by_clock_nanosleep(void)
{
  clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, NULL);
}
static void by_usleep(void)
{
  usleep(60000000);
}
static void by_sleep(void)
{
  sleep(60);
}
static void by_sem_wait(void)
{
  sem_wait(&sem);
}
static void by_sem_timedwait(void)
{
  sem_timedwait(&sem, &far);
}
static void by_join(void)
{
  pthread_join(sleeper, NULL);
}
static void by_timedjoin(void)
{
  pthread_timedjoin_np(sleeper, NULL, &far);
}
static void by_waitpid(void)
{
  waitpid(child, NULL, 0);
}
static void by_system(void)
{
  system("exec sleep 60");
}

static void unlock(void *unused)
{
  (void)unused;
  if (pthread_mutex_unlock(&mutex) == 0) /* a cancelled wait holds the mutex again */
    cleaned++;
}
static void by_cond_wait(void)
{
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock, NULL);
  for (;;)
    pthread_cond_wait(&cond, &mutex);
  pthread_cleanup_pop(1);
}
static void by_cond_timedwait(void)
{
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock, NULL);
  for (;;)
    pthread_cond_timedwait(&cond, &mutex, &far);
  pthread_cleanup_pop(1);
}

#define WAY(name)                                                                                                      \
  {                                                                                                                    \
#name, by_##name                                                                                                   \
  }
static const struct {
  const char *name;
  void (*call)(void);
} ways[] = {WAY(read),
            WAY(readv),
            WAY(write),
            WAY(writev),
            WAY(open),
            WAY(openat),
            WAY(recv),
            WAY(recvfrom),
            WAY(recvmsg),
            WAY(recvmmsg),
            WAY(send),
            WAY(sendto),
            WAY(sendmsg),
            WAY(accept),
            WAY(accept4),
            WAY(poll),
            WAY(ppoll),
            WAY(select),
            WAY(pselect),
            WAY(epoll_wait),
            WAY(epoll_pwait),
            WAY(nanosleep),
            WAY(clock_nanosleep),
            WAY(usleep),
            WAY(sleep),
            WAY(sem_wait),
            WAY(sem_timedwait),
            WAY(join),
            WAY(timedjoin),
            WAY(waitpid),
            WAY(system),
            WAY(cond_wait),
            WAY(cond_timedwait)};
enum { WAYS = sizeof ways / sizeof *ways };

static pthread_barrier_t barrier;

struct job {
  unsigned way;
  int before; /* cancelled before the call */
};

static void count(void *unused)
{
  (void)unused;
  cleaned++;
}

static void *victim(void *argument)
{
  const struct job *job = argument;
  pthread_cleanup_push(count, NULL);
  if (job->before)
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_barrier_wait(&barrier);
  if (job->before) {
    pthread_barrier_wait(&barrier); /* the request is there now */
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  }
  ways[job->way].call();
  pthread_cleanup_pop(0);
  return argument;
}

static void *sleeps(void *argument)
{
  nanosleep(&minute, NULL);
  return argument;
}

static int cancel(unsigned way, int before)
{
  pthread_t t;
  void *result = NULL;
  struct job job = {way, before};
  cleaned = 0;
  if (pthread_create(&t, NULL, victim, &job) != 0)
    return 0;
  pthread_barrier_wait(&barrier);
  if (!before)
    usleep(5000); /* most often it waits by now; if not, it is cancelled as it begins to */
  pthread_cancel(t);
  if (before)
    pthread_barrier_wait(&barrier);
  pthread_join(t, &result);
  return result == PTHREAD_CANCELED ? cleaned : -1;
}

int main(void)
{
  char *slash = strrchr(fifo, '/');
  *slash = 0;
  if (mkdtemp(fifo) == NULL)
    return 1;
  *slash = '/';
  if (mkfifo(fifo, 0600) != 0 || pipe(empty) != 0 || pipe(full) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, full_pair) != 0 ||
      (listener = socket(AF_INET, SOCK_STREAM, 0)) < 0 || listen(listener, 1) != 0 || (epoll = epoll_create1(0)) < 0)
    return 2;
  fcntl(full[1], F_SETFL, O_NONBLOCK);
  while (write(full[1], large, sizeof large) > 0)
    ;
  fcntl(full[1], F_SETFL, 0);
  while (send(full_pair[0], large, sizeof large, MSG_DONTWAIT) > 0)
    ;
  sem_init(&sem, 0, 0);
  pthread_barrier_init(&barrier, NULL, 2);
  child = fork();
  if (child == 0) {
    pause();
    _exit(1);
  }
  pthread_create(&sleeper, NULL, sleeps, NULL);
  for (unsigned way = 0; way < WAYS; way++)
    for (int before = 0; before < 2; before++)
      printf("%s %s: %d\n", ways[way].name, before ? "before" : "within", cancel(way, before));
  pthread_cancel(sleeper);
  pthread_join(sleeper, NULL);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  unlink(fifo);
  *slash = 0;
  rmdir(fifo);
  return pwrite(open("/dev/null", O_WRONLY), "abc", 3, 0) == 3 ? 0 : 3;
}
