/* The life of processes: fork, spawn, exec, exit.
 *
 * Context   any, see hooks.h; exec and _exit also in signal handlers and in the child of a vfork, where nothing may be
 *           recorded and only the program's own rules hold: no allocation, no lock.
 * A forked child needs nothing here, unless it was forked amid a record (session.h): its thread cell is wiped, so its
 * first hook starts a session of its own, or makes it a guest of its parent's (guest.h).
 *
 * OPGAP_CHILDREN=fork or none: programs that children execute must not be traced.  The session's first process takes
 * this library out of its own LD_PRELOAD at start-up, which covers every way to start a program; it is put back only
 * when that first process itself executes another program. */
#include "hooks/hooks.h"

#include <alloca.h>
#include <limits.h>
#include <stdarg.h>

#include "hooks/bind.h"
#include "hooks/next_image.h"
#include "record/control.h"
#include "record/early.h"
#include "record/raw.h"
#include "record/reach.h"

extern char **environ;

__thread bool opgap_in_vfork __attribute__((tls_model("initial-exec")));
OPGAP_EARLY_DATA static int first_pid; /* of the process that loaded this library */

#define OPGAP_BODY(group, type, name, params, ...) type name params;
#include "hooks/hooks.def"

enum { BY_FORK = 1, BY_VFORK, BY_SPAWN, BY_SYSTEM, BY_POPEN, BY_VFORK_ALONE };

/* What the child of a vfork executes, in the parent's names; 0: nothing. */
static __thread uint32_t vfork_program __attribute__((tls_model("initial-exec")));
static __thread unsigned vfork_left_out __attribute__((tls_model("initial-exec"))); /* why it is not traced */

/* The session belongs to this process: not so in the child of a vfork or of a raw clone. */
static bool may_record(void)
{
  return opgap_active && opgap_self() != NULL && !opgap_in_vfork && opgap_session_is_here();
}

static uint64_t intern_string(const char *string)
{
  return string ? opgap_intern(string, opgap_length(string)) : 0;
}

/* how: with why it is known not to be traced (schema.h). */
static void emit_child(unsigned how, int pid, uint64_t program)
{
  const uint64_t fields[] = {(uint64_t)(unsigned)pid, program};
  opgap_emit(OPGAP_EV_CHILD, how, opgap_ticks(), 0, fields, 2);
}

static void note_child(unsigned how, int pid, const char *program)
{
  if (may_record())
    emit_child(how, pid, intern_string(program));
}

static unsigned left_out(void)
{
  return opgap_session_folder()[0] != 0 && !opgap_strict ? opgap_reach_of_children() : 0;
}

/* ---- fork ---- */

/* While nothing else is recorded the child's messages do not tell that it is a DataLoader's worker. */
static uint64_t loader_line(void)
{
  return opgap_active & OPGAP_GROUP_io ? 0 : opgap_stack_of_loader();
}

static pid_t forked(struct opgap_fork *fork, pid_t pid, unsigned child)
{
  opgap_fork_end(fork);
  if (pid > 0 && may_record())
    emit_child(BY_FORK | child, pid, loader_line());
  else if (pid == 0 && (opgap_control_mapped() || opgap_control_follows()))
    opgap_self();
  return pid;
}

#define FORK_HOOK(name)                                                                                                \
  OPGAP_EXPORT pid_t name(void)                                                                                        \
  {                                                                                                                    \
    if (!OPGAP_BOUND(name))                                                                                            \
      return OPGAP_MISSING(pid_t);                                                                                     \
    unsigned child = left_out();                                                                                       \
    struct opgap_fork fork;                                                                                            \
    opgap_fork_begin(&fork);                                                                                           \
    return forked(&fork, opgap_real.name(), child);                                                                    \
  }
FORK_HOOK(fork)
FORK_HOOK(_Fork)

#ifdef SYS_fork
#define IS_FORK(number) ((number) == SYS_fork)
#else
#define IS_FORK(number) false
#endif

static void end_session(int status);

/* The thread ends without libc's knowledge.  The last one ends the process, so the tracer's own must be gone by then.
 */
static void thread_leaves(int status)
{
  if (!opgap_strict && opgap_session_pid() == opgap_raw_getpid())
    opgap_self(); /* the flusher may run before the program's thread has recorded anything */
  if (!opgap_strict && opgap_thread_dying() && opgap_thread_is_alone())
    end_session(status);
}

/* ---- namespaces ---- */

/* Some are refused to a process of several threads, and the tracer's own thread counts. */
static bool step_aside(void)
{
  return !opgap_in_vfork && !opgap_strict && opgap_flusher_step_aside();
}

/* In a new PID namespace the kernel makes no threads for a process that is not in it, whatever the program does. */
static void step_back(bool stepped_aside, bool new_pids)
{
  if (stepped_aside && !new_pids)
    opgap_session_threads();
}

static int unshare_seen(int flags)
{
  const int alone = CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  bool aside = (flags & alone) && step_aside();
  int result = (int)opgap_real.syscall(SYS_unshare, flags);
  step_back(aside, result == 0 && (flags & CLONE_NEWPID));
  return result;
}

static int setns_seen(int fd, int kind)
{
  bool aside = step_aside();
  int result = (int)opgap_real.syscall(SYS_setns, fd, kind);
  step_back(aside, result == 0 && (kind & CLONE_NEWPID));
  return result;
}

OPGAP_EXPORT int unshare(int flags)
{
  return OPGAP_BOUND(syscall) ? unshare_seen(flags) : OPGAP_MISSING(int);
}

OPGAP_EXPORT int setns(int fd, int kind)
{
  return OPGAP_BOUND(syscall) ? setns_seen(fd, kind) : OPGAP_MISSING(int);
}

/* The system calls of syscall(2) that stubs.S sends here: forks whose child returns as its parent does, seccomp,
 * namespaces, and the end of a thread or of the process. */
long opgap_syscall_seen(long number, long a, long b, long c, long d, long e, long f) OPGAP_HIDDEN;
long opgap_syscall_seen(long number, long a, long b, long c, long d, long e, long f)
{
  if (!OPGAP_BOUND(syscall))
    return OPGAP_MISSING(long);
  if (number == SYS_seccomp)
    return opgap_seccomp(a, b, c);
  if (number == SYS_unshare)
    return unshare_seen((int)a);
  if (number == SYS_setns)
    return setns_seen((int)a, (int)b);
  if (number == SYS_exit)
    thread_leaves((int)a);
  if (number == SYS_exit_group)
    end_session((int)a);
  if (number != SYS_clone && !IS_FORK(number))
    return opgap_real.syscall(number, a, b, c, d, e, f);
  unsigned child = left_out();
  struct opgap_fork fork;
  opgap_fork_begin(&fork);
  return forked(&fork, (pid_t)opgap_real.syscall(number, a, b, c, d, e, f), child);
}

/* For vfork, which is assembly: before and after in the parent. */
void opgap_vfork_begin(void) OPGAP_HIDDEN;
void opgap_vfork_begin(void)
{
  vfork_program = 0;
  may_record(); /* the session begins, to whose names the child adds */
  vfork_left_out = left_out();
  opgap_vfork_enter();
  opgap_in_vfork = true;
}
void opgap_vfork_end(long pid) OPGAP_HIDDEN;
void opgap_vfork_end(long pid)
{
  opgap_in_vfork = false;
  opgap_vfork_leave();
  if (pid > 0 && may_record())
    emit_child((vfork_program ? BY_VFORK : BY_VFORK_ALONE) | vfork_left_out, (int)pid, vfork_program);
}

/* ---- this library in the environment ---- */

#define PRELOAD "LD_PRELOAD="
#define SESSION "OPGAP_SESSION="

static char kept_preload[PATH_MAX + sizeof PRELOAD]; /* "LD_PRELOAD=us" and "OPGAP_SESSION=..." as they were */
static char kept_session[PATH_MAX + sizeof SESSION];

/* An entry of LD_PRELOAD is this library: the same file name, whatever the folder. */
static bool is_own_entry(const char *entry, size_t length)
{
  const char *own = opgap_file_name(opgap_own_path(), opgap_length(opgap_own_path()));
  size_t name = opgap_length(own);
  return length >= name && opgap_starts_with(entry + length - name, own) &&
         (length == name || entry[length - name - 1] == '/');
}

/* Takes this library's entry out of "LD_PRELOAD=...", in place; false if nothing is left.  kept: gets it, or NULL. */
static bool remove_own_entry(char *variable, char *kept)
{
  char *out = variable + (sizeof PRELOAD - 1), *at = out;
  while (*at) {
    size_t length = opgap_length_until(at, ": ");
    size_t whole = at[length] ? length + 1 : length;
    if (is_own_entry(at, length) && length + sizeof PRELOAD <= sizeof kept_preload) {
      if (kept != NULL) {
        memcpy(kept, PRELOAD, sizeof PRELOAD - 1);
        memcpy(kept + sizeof PRELOAD - 1, at, length);
      }
    } else {
      memmove(out, at, whole);
      out += whole;
    }
    at += whole;
  }
  while (out > variable + (sizeof PRELOAD - 1) && (out[-1] == ':' || out[-1] == ' '))
    out--;
  *out = 0;
  return out > variable + (sizeof PRELOAD - 1);
}

static void leave_environment(void)
{
  char **out = environ;
  for (char **at = environ; *at; at++) {
    if (opgap_starts_with(*at, SESSION)) {
      if (opgap_length(*at) < sizeof kept_session)
        memcpy(kept_session, *at, opgap_length(*at) + 1);
      continue;
    }
    if (opgap_starts_with(*at, PRELOAD) && !remove_own_entry(*at, kept_preload))
      continue;
    *out++ = *at;
  }
  *out = NULL;
}

/* The environment of the first process's next image: with us again.  out: room for count(envp) + 3 pointers,
 * preload: room for both values. */
static void enter_environment(char *const envp[], char **out, char *preload)
{
  size_t n = opgap_length(kept_preload);
  memcpy(preload, kept_preload, n + 1);
  for (; envp && *envp; envp++) {
    if (opgap_starts_with(*envp, PRELOAD)) {
      preload[n++] = ':';
      memcpy(preload + n, *envp + (sizeof PRELOAD - 1), opgap_length(*envp + (sizeof PRELOAD - 1)) + 1);
    } else {
      *out++ = *envp;
    }
  }
  *out++ = preload;
  if (kept_session[0])
    *out++ = kept_session;
  *out = NULL;
}

/* The environment of an image that finds a ring: its session's folder is marked.  out: room for count(envp) + 1
 * pointers, session: for the longest value. */
static char *const *mark_environment(char *const envp[], char **out, char *session)
{
  char **entry = out;
  for (; envp && *envp; envp++) {
    *entry = *envp;
    size_t length = opgap_length(*envp);
    if (opgap_starts_with(*envp, SESSION) && length < sizeof kept_session) {
      memcpy(session, *envp, length);
      memcpy(session + length, OPGAP_SESSION_EXECUTED, sizeof OPGAP_SESSION_EXECUTED);
      *entry = session;
    }
    entry++;
  }
  *entry = NULL;
  return out;
}

static size_t environment_size(char *const envp[], size_t *preload_bytes)
{
  size_t count = 0;
  *preload_bytes = sizeof kept_preload;
  for (; envp && envp[count]; count++)
    if (opgap_starts_with(envp[count], PRELOAD))
      *preload_bytes += opgap_length(envp[count]) + 1;
  return count;
}

static bool has_own_entry(const char *preload)
{
  for (size_t length; *preload; preload += length + (preload[length] != 0)) {
    length = opgap_length_until(preload, ": ");
    if (is_own_entry(preload, length))
      return true;
  }
  return false;
}

size_t opgap_environment_size(char *const envp[], size_t *text_bytes)
{
  size_t count = 0;
  bool has_us = false;
  *text_bytes = 1;
  for (; envp && envp[count]; count++) {
    bool preload = opgap_starts_with(envp[count], PRELOAD);
    if (preload)
      *text_bytes += opgap_length(envp[count]) + 1;
    has_us |= preload ? has_own_entry(envp[count] + (sizeof PRELOAD - 1)) : opgap_starts_with(envp[count], SESSION);
  }
  if (!has_us)
    *text_bytes = 0;
  return count;
}

void opgap_environment_without(char *const envp[], char **out, char *text)
{
  for (; envp && *envp; envp++) {
    if (opgap_starts_with(*envp, SESSION))
      continue;
    *out = *envp;
    if (opgap_starts_with(*envp, PRELOAD)) {
      size_t bytes = opgap_length(*envp) + 1;
      *out = memcpy(text, *envp, bytes);
      text += bytes;
      if (!remove_own_entry(*out, NULL))
        continue;
    }
    out++;
  }
  *out = NULL;
}

/* The program that gets `envp` runs without the tracer.  The new environment is on the caller's frame. */
#define LEAVE_OUT(envp)                                                                                                \
  do {                                                                                                                 \
    size_t text_bytes, entries = opgap_environment_size(envp, &text_bytes);                                            \
    if (text_bytes > 0) {                                                                                              \
      char **fresh = alloca((entries + 1) * sizeof *fresh);                                                            \
      opgap_environment_without(envp, fresh, alloca(text_bytes));                                                      \
      (envp) = fresh;                                                                                                  \
    }                                                                                                                  \
  } while (0)

/* ---- spawn ---- */

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const[], char *const[]);

static int spawn(spawn_function *real, pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
  pid_t child = 0;
  if (pid == NULL)
    pid = &child;
  unsigned why = left_out();
  if (opgap_unlikely(why))
    LEAVE_OUT(envp);
  int result = real(pid, program, actions, attributes, argv, envp);
  if (result == 0)
    note_child(BY_SPAWN | why, *pid, program);
  return result;
}

#define SPAWN_HOOK(hook, real)                                                                                         \
  OPGAP_EXPORT int hook(pid_t *pid, const char *program, const posix_spawn_file_actions_t *actions,                    \
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])                   \
  {                                                                                                                    \
    spawn_function *function = (real);                                                                                 \
    return function ? spawn(function, pid, program, actions, attributes, argv, envp) : ENOSYS;                         \
  }
SPAWN_HOOK(posix_spawn, OPGAP_BOUND(posix_spawn) ? opgap_real.posix_spawn : NULL)
SPAWN_HOOK(posix_spawnp, OPGAP_BOUND(posix_spawnp) ? opgap_real.posix_spawnp : NULL)

#ifdef OPGAP_OLD_VERSIONS
/* Until glibc 2.15 they run a file without #! by a shell. */
static void *_Atomic old_posix_spawn, *_Atomic old_posix_spawnp;
spawn_function opgap_posix_spawn_2_2_5, opgap_posix_spawnp_2_2_5;
OPGAP_OLD_VERSION(opgap_posix_spawn_2_2_5, posix_spawn, "GLIBC_2.2.5");
OPGAP_OLD_VERSION(opgap_posix_spawnp_2_2_5, posix_spawnp, "GLIBC_2.2.5");
SPAWN_HOOK(opgap_posix_spawn_2_2_5, opgap_find_version(&old_posix_spawn, "posix_spawn", "GLIBC_2.2.5"))
SPAWN_HOOK(opgap_posix_spawnp_2_2_5, opgap_find_version(&old_posix_spawnp, "posix_spawnp", "GLIBC_2.2.5"))
#endif

int system(const char *command);
OPGAP_EXPORT int system(const char *command)
{
  if (!OPGAP_BOUND(system))
    return OPGAP_MISSING(int);
  struct opgap_thread *thread = OPGAP_ENTER(process);
  if (thread == NULL || command == NULL || !may_record())
    return opgap_real.system(command);
  note_child(BY_SYSTEM | left_out(), 0, command);
  uint64_t name = intern_string(command);
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_system, name);
  int result = opgap_real.system(command);
  opgap_hook_end(thread, OPGAP_HOOK_ID_system, start, name, (uint64_t)(unsigned)result,
                 result == -1 ? (uint32_t)errno : 0);
  return result;
}

OPGAP_EXPORT FILE *popen(const char *command, const char *mode)
{
  if (!OPGAP_BOUND(popen))
    return OPGAP_MISSING(FILE *);
  unsigned child = left_out();
  FILE *stream = opgap_real.popen(command, mode);
  if (stream) {
    int error = errno;
    opgap_fd_new(stream->_fileno);
    note_child(BY_POPEN | child, 0, command);
    errno = error;
  }
  return stream;
}

int pclose(FILE *stream);
OPGAP_EXPORT int pclose(FILE *stream)
{
  if (!OPGAP_BOUND(pclose))
    return OPGAP_MISSING(int);
  struct opgap_thread *thread = OPGAP_ENTER(process);
  int fd = stream->_fileno;
  uint32_t name = thread ? opgap_fd_name(fd) : 0;
  opgap_fd_new(fd);
  if (thread == NULL)
    return opgap_real.pclose(stream);
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_pclose, name);
  int result = opgap_real.pclose(stream);
  opgap_hook_end(thread, OPGAP_HOOK_ID_pclose, start, name, (uint64_t)(unsigned)result,
                 result == -1 ? (uint32_t)errno : 0);
  return result;
}

/* ---- exec ---- */

static void note_exec(const char *program, int error)
{
  const uint64_t name = intern_string(program);
  opgap_emit(OPGAP_EV_EXEC, (uint32_t)error, opgap_ticks(), 0, &name, 1);
}

/* What there is of an exec before it: nothing, a record, a record and a ring for the next image to remove, or only the
 * thought of a record, by a guest (guest.h). */
enum exec_trace { EXEC_UNTRACED, EXEC_RECORDED, EXEC_LEAVES_RING, EXEC_BY_GUEST };

static enum exec_trace exec_begin(const char *program, char *const envp[])
{
  if (opgap_active && opgap_guest_is() && opgap_stays_traced(program, envp, is_own_entry) && opgap_guest_depart())
    return EXEC_BY_GUEST;
  if (may_record())
    note_exec(program, 0);
  else if (opgap_in_vfork) {
    vfork_program = (uint32_t)intern_string(program);
    return EXEC_UNTRACED;
  }
  return opgap_session_flush_exec() ? EXEC_LEAVES_RING : EXEC_RECORDED; /* also where recording has stopped early */
}

static int exec_failed(enum exec_trace trace, const char *program)
{
  int error = errno;
  vfork_program = 0;
  if (trace == EXEC_RECORDED || trace == EXEC_LEAVES_RING)
    opgap_session_goes_on();
  else if (trace == EXEC_BY_GUEST && may_record())
    note_exec(program, 0);
  if (trace != EXEC_UNTRACED && may_record())
    note_exec(program, error);
  errno = error;
  return -1;
}

/* `call` is the real exec with the environment `env`.  A frame of its own holds the new environment's memory. */
#define EXEC(program, envp, call)                                                                                      \
  char *const *env = (envp);                                                                                           \
  if (opgap_unlikely(!opgap_sandboxed && !opgap_image_is_readable(program, env)))                                      \
    return call;                                                                                                       \
  unsigned why = left_out();                                                                                           \
  if (opgap_unlikely(why)) {                                                                                           \
    LEAVE_OUT(env);                                                                                                    \
    vfork_left_out |= why;                                                                                             \
  } else if (opgap_unlikely(kept_preload[0] && opgap_raw_getpid() == first_pid)) {                                     \
    size_t bytes;                                                                                                      \
    char **fresh = alloca((environment_size(env, &bytes) + 3) * sizeof *fresh);                                        \
    enter_environment(env, fresh, alloca(bytes));                                                                      \
    env = fresh;                                                                                                       \
  }                                                                                                                    \
  enum exec_trace trace = exec_begin(program, env);                                                                    \
  if (trace == EXEC_LEAVES_RING) {                                                                                     \
    size_t bytes;                                                                                                      \
    char **fresh = alloca((environment_size(env, &bytes) + 1) * sizeof *fresh);                                        \
    env = mark_environment(env, fresh, alloca(sizeof kept_session + sizeof OPGAP_SESSION_EXECUTED));                   \
  }                                                                                                                    \
  call;                                                                                                                \
  return exec_failed(trace, program);

OPGAP_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
  if (!OPGAP_BOUND(execve))
    return OPGAP_MISSING(int);
  EXEC(path, envp, opgap_real.execve(path, argv, env))
}

OPGAP_EXPORT int execv(const char *path, char *const argv[])
{
  if (!OPGAP_BOUND(execve))
    return OPGAP_MISSING(int);
  EXEC(path, environ, opgap_real.execve(path, argv, env))
}

OPGAP_EXPORT int execvp(const char *file, char *const argv[])
{
  if (!OPGAP_BOUND(execvpe))
    return OPGAP_MISSING(int);
  EXEC(file, environ, opgap_real.execvpe(file, argv, env))
}

OPGAP_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
  if (!OPGAP_BOUND(execvpe))
    return OPGAP_MISSING(int);
  EXEC(file, envp, opgap_real.execvpe(file, argv, env))
}

/* The arguments of an execl call as an array on this frame; `envp` gets what follows the NULL. */
#define GATHER(argument, argv, list)                                                                                   \
  va_list list;                                                                                                        \
  size_t count = 1;                                                                                                    \
  va_start(list, argument);                                                                                            \
  if (argument)                                                                                                        \
    while (va_arg(list, const char *))                                                                                 \
      count++;                                                                                                         \
  va_end(list);                                                                                                        \
  char **argv = alloca((count + 1) * sizeof *argv);                                                                    \
  va_start(list, argument);                                                                                            \
  argv[0] = (char *)(uintptr_t)argument;                                                                               \
  for (size_t i = 1; argument && i <= count; i++)                                                                      \
    argv[i] = va_arg(list, char *);

OPGAP_EXPORT int execl(const char *path, const char *argument, ...)
{
  GATHER(argument, argv, list)
  va_end(list);
  return execv(path, argv);
}

OPGAP_EXPORT int execlp(const char *file, const char *argument, ...)
{
  GATHER(argument, argv, list)
  va_end(list);
  return execvp(file, argv);
}

OPGAP_EXPORT int execle(const char *path, const char *argument, ...)
{
  GATHER(argument, argv, list)
  char *const *envp = va_arg(list, char *const *);
  va_end(list);
  return execve(path, argv, envp);
}

OPGAP_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
  if (!OPGAP_BOUND(fexecve))
    return OPGAP_MISSING(int);
  EXEC("(descriptor)", envp, opgap_real.fexecve(fd, argv, env))
}

OPGAP_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
  if (!OPGAP_BOUND(execveat))
    return OPGAP_MISSING(int);
  EXEC(path, envp, opgap_real.execveat(dirfd, path, argv, env, flags))
}

/* ---- the end ---- */

/* The parent ends inside libc by an _exit that nobody sees. */
OPGAP_EXPORT int daemon(int stays_here, int keeps_output)
{
  if (!OPGAP_BOUND(daemon))
    return OPGAP_MISSING(int);
  bool recorded = may_record();
  if (recorded)
    opgap_session_flush_end();
  int result = opgap_real.daemon(stays_here, keeps_output);
  if (recorded && opgap_session_is_here())
    opgap_session_goes_on();
  return result;
}

static int quick_status;

OPGAP_EARLY_CODE static void end_session(int status)
{
  /* 0: there is no session, nor a guest; the child of a vfork may have its parent's, each the first of its namespace */
  if (opgap_session_pid() != 0 && !opgap_in_vfork)
    opgap_session_end(status);
}

static void end_quickly(void *unused)
{
  (void)unused;
  end_session(quick_status);
}

OPGAP_EARLY_CODE static void end_normally(int status, void *unused)
{
  (void)unused;
  end_session(status);
}

#define EXIT_HOOK(name)                                                                                                \
  OPGAP_EXPORT void name(int status)                                                                                   \
  {                                                                                                                    \
    end_session(status);                                                                                               \
    if (OPGAP_BOUND(name))                                                                                             \
      opgap_real.name(status);                                                                                         \
    for (;;)                                                                                                           \
      opgap_raw3(SYS_exit_group, status, 0, 0);                                                                        \
  }
EXIT_HOOK(_exit)
EXIT_HOOK(_Exit)

/* Our handler must come before the program's first one, to run last.  Not at start-up: most programs have none, and
 * libc's list of them is a page that nobody else writes. */
static void register_quick_end(void)
{
  static bool done;
  if (first_pid != 0 && OPGAP_BOUND(__cxa_at_quick_exit) && !__atomic_exchange_n(&done, true, __ATOMIC_RELAXED))
    opgap_real.__cxa_at_quick_exit(end_quickly, NULL);
}

/* What at_quick_exit calls. */
OPGAP_EXPORT int __cxa_at_quick_exit(void (*function)(void *), void *library)
{
  if (!OPGAP_BOUND(__cxa_at_quick_exit))
    return OPGAP_MISSING(int);
  register_quick_end();
  return opgap_real.__cxa_at_quick_exit(function, library);
}

static _Noreturn void leave_quickly(void (*real)(int), int status)
{
  register_quick_end();
  quick_status = status; /* the session ends in our own handler, after the program's */
  if (real)
    real(status);
  for (;;)
    opgap_raw3(SYS_exit_group, status, 0, 0);
}

OPGAP_EXPORT void quick_exit(int status)
{
  leave_quickly(OPGAP_BOUND(quick_exit) ? opgap_real.quick_exit : NULL, status);
}

#ifdef OPGAP_OLD_VERSIONS
/* Until glibc 2.24 it runs the destructors of thread-local objects. */
static void *_Atomic old_quick_exit;
void opgap_quick_exit_2_10(int status);
OPGAP_OLD_VERSION(opgap_quick_exit_2_10, quick_exit, "GLIBC_2.10");
OPGAP_EXPORT void opgap_quick_exit_2_10(int status)
{
  leave_quickly((void (*)(int))opgap_find_version(&old_quick_exit, "quick_exit", "GLIBC_2.10"), status);
}
#endif

OPGAP_EARLY_CODE void opgap_process_prepare(void)
{
  first_pid = opgap_raw_getpid();
  if (opgap_settings->children != OPGAP_CHILDREN_ALL && environ)
    leave_environment();
  /* Registered while the loader runs constructors, so they run after the program's own handlers and destructors. */
  on_exit(end_normally, NULL);
}
