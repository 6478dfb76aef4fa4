/* System calls without libc: they touch neither errno nor thread-local storage nor a hook.
 *
 * Every system call of the tracer goes through here, so this is also the list of what a seccomp filter must allow that
 * stands when a program starts (one that comes later: opgap_session_confine):
 * openat, close, read, write, fallocate, ftruncate, fstat, newfstatat, mmap, munmap, madvise, futex, futex_waitv (may
 * be refused), gettid, getpid, getppid, kill (0), tgkill (0), mkdirat, unlinkat, linkat, renameat, renameat2, getuid,
 * getcwd, uname, faccessat, readlinkat, getdents64, lseek, statfs, fstatfs, fgetxattr, flock, unshare (CLONE_FILES),
 * close_range, rt_sigprocmask, sigaltstack, prctl (PR_GET_NAME, PR_SET_NAME, PR_GET_TID_ADDRESS), exit, prlimit64,
 * sched_getaffinity, clock_gettime; for a line on standard error rt_sigpending, rt_sigtimedwait, ppoll, pidfd_open,
 * pidfd_getfd (the last two may be refused).
 *
 * Results are the kernel's: -errno on failure.  Any thread, any context.
 */
#ifndef OPGAP_RECORD_RAW_H
#define OPGAP_RECORD_RAW_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define OPGAP_O_RDONLY O_RDONLY
#define OPGAP_O_CLOEXEC O_CLOEXEC

#if defined(__x86_64__)
static inline long opgap_raw6(long n, long a, long b, long c, long d, long e, long f)
{
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long opgap_raw6(long n, long a, long b, long c, long d, long e, long f)
{
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#error "opgap: this architecture has no raw system call yet"
#endif

static inline long opgap_raw3(long n, long a, long b, long c)
{
  return opgap_raw6(n, a, b, c, 0, 0, 0);
}
/* No signal handler runs on this thread until the mask that this returns is restored. */
static inline uint64_t opgap_raw_block_signals(void)
{
  uint64_t all = UINT64_MAX, before = 0;
  opgap_raw6(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&all, (long)&before, sizeof all, 0, 0);
  return before;
}
static inline void opgap_raw_restore_signals(uint64_t before)
{
  opgap_raw6(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&before, 0, sizeof before, 0, 0);
}
static inline long opgap_raw_open(const char *path, int flags, int mode)
{
  return opgap_raw6(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0, 0);
}
static inline long opgap_raw_close(int fd)
{
  return opgap_raw3(SYS_close, fd, 0, 0);
}
static inline long opgap_raw_read(int fd, void *buffer, size_t size)
{
  return opgap_raw3(SYS_read, fd, (long)buffer, (long)size);
}
static inline long opgap_raw_write(int fd, const void *buffer, size_t size)
{
  return opgap_raw3(SYS_write, fd, (long)buffer, (long)size);
}
static inline void *opgap_raw_mmap(size_t size, int protection, int flags, int fd)
{
  long r = opgap_raw6(SYS_mmap, 0, (long)size, protection, flags, fd, 0);
  return r < 0 && r > -4096 ? NULL : (void *)r;
}
static inline long opgap_raw_munmap(void *at, size_t size)
{
  return opgap_raw3(SYS_munmap, (long)at, (long)size, 0);
}
/* ns: relative time-out, 0 none. */
static inline long opgap_raw_futex_wait_op(int operation, void *word, uint32_t value, uint64_t ns)
{
  long timeout[2] = {(long)(ns / 1000000000u), (long)(ns % 1000000000u)};
  return opgap_raw6(SYS_futex, (long)word, operation, value, ns ? (long)timeout : 0, 0, 0);
}
/* The futex is shared with no other process. */
static inline long opgap_raw_futex_wait(void *word, uint32_t value, uint64_t ns)
{
  return opgap_raw_futex_wait_op(128 /* FUTEX_WAIT_PRIVATE */, word, value, ns);
}
static inline long opgap_raw_futex_wake(void *word)
{
  return opgap_raw6(SYS_futex, (long)word, 129 /* FUTEX_WAKE_PRIVATE */, 0x7fffffff, 0, 0, 0);
}
/* Of the arena: `opgap start` wakes it, too. */
static inline long opgap_raw_futex_wait_shared(void *word, uint32_t value, uint64_t ns)
{
  return opgap_raw_futex_wait_op(0 /* FUTEX_WAIT */, word, value, ns);
}
static inline long opgap_raw_futex_wake_shared(void *word)
{
  return opgap_raw6(SYS_futex, (long)word, 1 /* FUTEX_WAKE */, 0x7fffffff, 0, 0, 0);
}
static inline int opgap_raw_gettid(void)
{
  return (int)opgap_raw3(SYS_gettid, 0, 0, 0);
}
static inline int opgap_raw_getpid(void)
{
  return (int)opgap_raw3(SYS_getpid, 0, 0, 0);
}

/* Reads a small file whole; returns the length, at most size - 1, and terminates it; 0 on failure. */
size_t opgap_raw_slurp(const char *path, char *buffer, size_t size);

#endif
