/* See probe.h. */
#include "record/probe.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "record/clock.h"
#include "record/control.h"
#include "record/raw.h"
#include "record/record.h"

#define POLL_NS 200000

/* The probe process: no handler of the program may run in it, no core file, no life after its parent's. */
static _Noreturn void probe_process(int (*body)(const void *), const void *argument)
{
  opgap_active_halt(); /* hooks pass through, no session begins; the page of opgap_active may be our parent's */
  static const struct {
    unsigned long handler, flags, restorer, mask;
  } default_action; /* the kernel's struct sigaction; all zero is SIG_DFL */
  for (int signal_number = 1; signal_number <= 64; signal_number++)
    opgap_raw6(SYS_rt_sigaction, signal_number, (long)&default_action, 0, 8, 0, 0);
  opgap_raw6(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
  opgap_raw6(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
  int result = body(argument);
  for (;;)
    opgap_raw3(SYS_exit_group, result, 0, 0);
}

/* Waits for the probe; kills it at the time limit.  False: it did not end by itself. */
static bool wait_for_probe(long pid, int *status)
{
  uint64_t deadline = opgap_clock_ns() + OPGAP_PROBE_LIMIT_NS;
  const long pause[2] = {0, POLL_NS};
  for (;;) {
    bool late = opgap_clock_ns() > deadline;
    if (late)
      opgap_raw3(SYS_kill, pid, SIGKILL, 0);
    long waited = opgap_raw6(SYS_wait4, pid, (long)status, __WCLONE | (late ? 0 : WNOHANG), 0, 0, 0);
    if (waited == pid)
      return !late;
    if (waited < 0 && waited != -EINTR)
      return false;
    opgap_raw3(SYS_nanosleep, (long)pause, 0, 0);
  }
}

int opgap_probe(int (*body)(const void *argument), const void *argument)
{
  /* no flag and no exit signal: a copy of this process with this one thread */
  long pid = opgap_raw6(SYS_clone, 0, 0, 0, 0, 0, 0);
  if (pid == 0)
    probe_process(body, argument);
  if (pid < 0)
    return OPGAP_PROBE_NONE;
  int status = 0;
  if (!wait_for_probe(pid, &status))
    return OPGAP_PROBE_LATE;
  return WIFEXITED(status) ? WEXITSTATUS(status) : OPGAP_PROBE_CRASHED;
}
