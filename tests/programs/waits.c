/* Waits for descriptors whose time is over: only what waits for a socket that leads out of the process and its children
 * is named after one.  Each call a known number of times; times of 1 ms. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int bad, pipe_ends[2], pair[2], network;

static void check(int ok, int line)
{
  if (!ok) {
    dprintf(1, "line %d: errno %d\n", line, errno); /* dprintf writes inside libc: no hook */
    bad = 1;
  }
}
#define CHECK(x) check(x, __LINE__)

/* poll: 2 on the pipe, 2 on the socket, 2 on nothing */
static void polls(void)
{
  struct pollfd both[] = {{.fd = pipe_ends[0], .events = POLLIN}, {.fd = network, .events = POLLIN}};
  struct pollfd inside[] = {{.fd = pair[0], .events = POLLIN}, {.fd = pipe_ends[0], .events = POLLIN}};
  struct pollfd none = {.fd = -1};
  CHECK(poll(both, 1, 1) == 0);
  CHECK(poll(inside, 2, 1) == 0);
  CHECK(poll(both, 2, 1) == 0);
  CHECK(poll(both + 1, 1, 1) == 0);
  CHECK(poll(inside, 1, 1) == 0);
  CHECK(poll(&none, 1, 1) == 0);
}

static int select_of(fd_set *set, int fd, int other)
{
  struct timeval time = {.tv_usec = 1000};
  FD_ZERO(set);
  FD_SET(fd, set);
  if (other >= 0)
    FD_SET(other, set);
  return select((fd > other ? fd : other) + 1, set, NULL, NULL, &time);
}

/* select: 2 on the pipe, 3 on the socket, 2 on nothing; pselect: 1 on the socket.  Sets that are not in the caller's
 * frame are not looked at, but their highest descriptor is known; nor may bad ones be touched. */
static void selects(void)
{
  static fd_set elsewhere;
  fd_set set;
  struct timeval time = {.tv_usec = 1000};
  CHECK(select_of(&set, pipe_ends[0], -1) == 0);
  CHECK(select_of(&set, network, pipe_ends[0]) == 0);
  CHECK(select_of(&set, network, -1) == 0);
  CHECK(select_of(&set, pair[0], -1) == 0);
  CHECK(select_of(&elsewhere, pipe_ends[0], -1) == 0);
  CHECK(select_of(&elsewhere, network, -1) == 0);
  CHECK(select(0, NULL, NULL, NULL, &time) == 0);
  FD_ZERO(&set);
  FD_SET(network, &set);
  CHECK(pselect(network + 1, NULL, NULL, &set, &(struct timespec){.tv_nsec = 1000000}, NULL) == 0);
  void *unmapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(unmapped != MAP_FAILED && select(1, unmapped, NULL, NULL, &time) == -1 && errno == EFAULT);
}

/* epoll_wait: 1 on the socket, 3 on nothing, 1 with the pipe ready, named after the instance */
static void epolls(void)
{
  struct epoll_event event = {.events = EPOLLIN}, seen;
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_ends[0], &event) == 0);
  CHECK(epoll_wait(epoll, &seen, 1, 1) == 0);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
  CHECK(epoll_wait(epoll, &seen, 1, 1) == 0);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, network, &event) == 0);
  CHECK(epoll_wait(epoll, &seen, 1, 1) == 0);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, network, NULL) == 0);
  CHECK(epoll_wait(epoll, &seen, 1, 1) == 0);
  CHECK(write(pipe_ends[1], "x", 1) == 1 && epoll_wait(epoll, &seen, 1, 1) == 1);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, -1, &event) == -1 && errno == EBADF);
}

int main(void)
{
  network = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(network >= 0 && pipe(pipe_ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  polls();
  selects();
  epolls();
  return bad;
}
