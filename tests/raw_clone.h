/* A child by a system call that no library sees. */
#ifndef OPGAP_TESTS_RAW_CLONE_H
#define OPGAP_TESTS_RAW_CLONE_H

#include <signal.h>
#include <sys/syscall.h>

static inline long raw_clone_child(void)
{
#if defined(__x86_64__)
  register long r10 __asm__("r10") = 0;
  register long r8 __asm__("r8") = 0;
  long result = SYS_clone;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"((long)SIGCHLD), "S"(0L), "d"(0L), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = SIGCHLD;
  register long x1 __asm__("x1") = 0;
  register long x2 __asm__("x2") = 0;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#endif
}

#endif
