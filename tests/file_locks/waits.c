/* Two processes and one lock on a file.
 *
 *   waits FILE HOW END
 *
 * The child takes the lock, the parent waits for it, and the child lets it go when it has seen the parent wait: END is
 * unlock, close, exit or thread (of a second thread's descriptor, in the parent, without a child).  HOW: flock, lockf,
 * fcntl, ofd, or try: the parent asks again and again, 2 ms apart, as Python's filelock does.  Exit status 77: the
 * kernel does not tell who waits (/proc/locks). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path, *how, *end;
static _Atomic int *refused; /* tries that failed; shared by the two processes */

static void die(const char *what)
{
  fprintf(stderr, "waits: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int by_range(int fd, int command, short type)
{
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
  return fcntl(fd, command, &lock);
}

static int take(int fd, int waits)
{
  if (strcmp(how, "lockf") == 0)
    return lockf(fd, waits ? F_LOCK : F_TLOCK, 0);
  if (strcmp(how, "fcntl") == 0)
    return by_range(fd, waits ? F_SETLKW : F_SETLK, F_WRLCK);
  if (strcmp(how, "ofd") == 0)
    return by_range(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, F_WRLCK);
  return flock(fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB);
}

static int let_go(int fd)
{
  if (strcmp(how, "lockf") == 0)
    return lockf(fd, F_ULOCK, 0);
  if (strcmp(how, "fcntl") == 0)
    return by_range(fd, F_SETLK, F_UNLCK);
  if (strcmp(how, "ofd") == 0)
    return by_range(fd, F_OFD_SETLK, F_UNLCK);
  return flock(fd, LOCK_UN);
}

/* Does the kernel show somebody who waits for a lock on this inode ("1: -> FLOCK ... 08:01:1234 0 EOF")?  -1: it shows
 * not even the lock itself. */
static int somebody_waits(ino_t inode)
{
  char line[256], wanted[32];
  int held = 0, waits = 0;
  FILE *locks = fopen("/proc/locks", "r");
  snprintf(wanted, sizeof wanted, ":%lu ", (unsigned long)inode);
  while (locks != NULL && fgets(line, sizeof line, locks) != NULL)
    if (strstr(line, wanted) != NULL) {
      held = 1;
      waits |= strstr(line, "->") != NULL;
    }
  if (locks != NULL)
    fclose(locks);
  return held ? waits : -1;
}

/* Holds the lock until somebody has waited for at least 5 ms; returns at once where that cannot be seen. */
static int hold(int fd)
{
  struct stat status;
  if (strcmp(how, "try") == 0) {
    while (*refused < 3)
      usleep(1000);
    return 1;
  }
  if (fstat(fd, &status) != 0)
    die("fstat");
  for (;;) {
    int waits = somebody_waits(status.st_ino);
    if (waits < 0)
      return 0;
    if (waits)
      break;
    usleep(1000);
  }
  usleep(5000);
  return 1;
}

static void *hold_in_thread(void *ready)
{
  int fd = open(path, O_RDWR);
  if (fd < 0 || take(fd, 1) != 0)
    die("cannot lock");
  if (write(*(int *)ready, "r", 1) != 1)
    die("write");
  if (!hold(fd))
    exit(77);
  let_go(fd);
  return NULL;
}

static _Noreturn void be_child(int ready)
{
  int fd = open(path, O_RDWR), seen;
  if (fd < 0 || take(fd, 1) != 0)
    die("cannot lock");
  if (write(ready, "r", 1) != 1)
    die("write");
  seen = hold(fd);
  if (strcmp(end, "unlock") == 0)
    let_go(fd);
  else if (strcmp(end, "close") == 0)
    close(fd);
  exit(seen ? 0 : 77);
}

int main(int count, char **arguments)
{
  int ready[2], status = 0;
  char byte;
  pthread_t thread;
  pid_t child = 0;
  if (count != 4)
    return 2;
  path = arguments[1];
  how = arguments[2];
  end = arguments[3];
  int threaded = strcmp(end, "thread") == 0;
  if (pipe(ready) != 0)
    die("pipe");
  refused = mmap(NULL, sizeof *refused, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (refused == MAP_FAILED)
    die("mmap");
  if (threaded && pthread_create(&thread, NULL, hold_in_thread, &ready[1]) != 0)
    die("pthread_create");
  if (!threaded && (child = fork()) == 0)
    be_child(ready[1]);
  int fd = open(path, O_RDWR);
  if (fd < 0 || read(ready[0], &byte, 1) != 1)
    die("the other one has no lock");
  if (strcmp(how, "try") == 0) {
    while (take(fd, 0) != 0) {
      ++*refused;
      usleep(2000);
    }
  } else if (take(fd, 1) != 0) {
    die("cannot lock");
  }
  let_go(fd);
  close(fd);
  if (threaded)
    pthread_join(thread, NULL);
  else if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return 1;
  if (WEXITSTATUS(status) == 77)
    printf("skipped: /proc/locks does not show the lock\n");
  return WEXITSTATUS(status);
}
