#include "record/stderr.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "record/internal.h"
#include "record/raw.h"

#define STDERR 2
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static char waiting[OPGAP_STDERR_LINE]; /* writer: the flusher, while waiting_bytes is 0 */
static _Atomic uint32_t waiting_bytes;

/* ---- a write that does not disturb ---- */

static uint64_t bit_of(int signal)
{
  return UINT64_C(1) << (signal - 1);
}

/* Signals are blocked: what the write has raised is taken back, unless the same was pending before. */
static long write_without_signal(int fd, const char *line, size_t bytes)
{
  uint64_t signals = opgap_raw_block_signals(), before = 0;
  opgap_raw3(SYS_rt_sigpending, (long)&before, sizeof before, 0);
  long written = opgap_raw_write(fd, line, bytes);
  uint64_t raised = (written == -EPIPE ? bit_of(SIGPIPE) : written == -EFBIG ? bit_of(SIGXFSZ) : 0) & ~before;
  struct timespec at_once = {0, 0};
  if (raised)
    opgap_raw6(SYS_rt_sigtimedwait, (long)&raised, 0, (long)&at_once, sizeof raised, 0, 0);
  opgap_raw_restore_signals(signals);
  return written;
}

/* A pipe that is writable takes a whole line.  EINVAL: the program may open no file (RLIMIT_NOFILE), and nobody can be
 * asked. */
static bool write_now(int fd, const char *line, size_t bytes)
{
  struct pollfd end = {.fd = fd, .events = POLLOUT};
  struct timespec at_once = {0, 0};
  long ready = opgap_raw6(SYS_ppoll, (long)&end, 1, (long)&at_once, 0, 0, 0);
  bool may_write = ready == -EINVAL || (ready >= 0 && end.revents == POLLOUT);
  return may_write && write_without_signal(fd, line, bytes) > 0;
}

/* ---- the flusher ---- */

/* Does the program append to its standard error?  Field flags, octal, of /proc/PID/fdinfo/2. */
static bool is_appended(const char *process)
{
  char path[64], text[256];
  struct opgap_text name = {path, path + sizeof path - 1};
  opgap_text_string(&name, process);
  opgap_text_string(&name, "/fdinfo/2");
  opgap_raw_slurp(path, text, sizeof text);
  const char *at = strstr(text, "flags:");
  unsigned flags = 0;
  for (at = at ? at + 6 : ""; *at == '\t' || *at == ' '; at++)
    ;
  for (; *at >= '0' && *at <= '7'; at++)
    flags = flags * 8 + (unsigned)(*at - '0');
  return flags & O_APPEND;
}

/* Another open file of the same name, where that will do: not a file in whose middle the program writes, nor a socket,
 * which has no name. */
static int open_by_name(void)
{
  char process[32], path[64];
  struct stat status;
  struct opgap_text text = {process, process + sizeof process - 1}, name = {path, path + sizeof path - 1};
  opgap_text_string(&text, "/proc/");
  opgap_text_number(&text, (uint64_t)opgap_state->pid, 10);
  opgap_text_string(&name, process);
  opgap_text_string(&name, "/fd/2");
  if (opgap_raw6(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, 0, 0, 0) < 0 ||
      (S_ISREG(status.st_mode) && !is_appended(process)))
    return -1;
  return (int)opgap_raw_open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
}

/* The program's own, as it is now, in the flusher's table; -1: it cannot be had. */
static int borrow(void)
{
  long process = opgap_raw3(SYS_pidfd_open, opgap_state->pid, 0, 0);
  long fd = process >= 0 ? opgap_raw3(SYS_pidfd_getfd, process, STDERR, 0) : process;
  if (process >= 0)
    opgap_raw_close((int)process);
  /* EBADF: it is closed.  Else Linux before 5.6, a container that does not allow it, or the first thread has left. */
  return fd >= 0 || fd == -EBADF ? (int)fd : open_by_name();
}

static bool write_borrowed(const char *line, size_t bytes)
{
  int fd = borrow();
  bool written = fd >= 0 && write_now(fd, line, bytes);
  if (fd >= 0)
    opgap_raw_close(fd);
  return written;
}

void opgap_stderr_write(const char *line, size_t bytes)
{
  if (opgap_cell != &opgap_flusher_cell) {
    write_now(STDERR, line, bytes);
    return;
  }
  if (write_borrowed(line, bytes) || bytes > sizeof waiting ||
      atomic_load_explicit(&waiting_bytes, memory_order_acquire) != 0)
    return;
  memcpy(waiting, line, bytes);
  atomic_store_explicit(&waiting_bytes, (uint32_t)bytes, memory_order_release);
}

void opgap_stderr_end(void)
{
  uint32_t bytes = atomic_exchange_explicit(&waiting_bytes, 0, memory_order_acquire);
  if (bytes > 0 && opgap_cell == &opgap_flusher_cell)
    write_borrowed(waiting, bytes);
  else if (bytes > 0)
    write_now(STDERR, waiting, bytes);
}
