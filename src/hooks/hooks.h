/* What the files of src/hooks share: real functions, groups, expressions of hooks.def.  Included first.
 *
 * Context   Hooks run on any thread of the program at any time: before main, before this library is relocated, inside
 *           an allocator's initialisation, in signal handlers, after key destructors, in the child of a vfork.
 * Rules     1. No hook allocates, locks, or calls a hooked function for itself (references from the rest of this
 * library go to the real functions, see real.c).
 *           2. errno after a hook is what the real function left.
 *           3. Nothing is held across the real call: it may not return (longjmp, exceptions, cancellation), or return
 *              in another process (fork in a signal handler).
 *           4. opgap_self gives no thread until all functions are bound, so code that has one needs no NULL test.
 */
#ifndef OPGAP_HOOKS_HOOKS_H
#define OPGAP_HOOKS_HOOKS_H

/* the headers' inline functions carry the names of our hooks */
#undef _FORTIFY_SOURCE
#undef __OPTIMIZE__
/* and their attributes would let the compiler drop our tests for NULL */
#define __nonnull(params)
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "hooks/cuda_types.h"
#include "hooks/hook_ids.h"
#include "hooks/hook_table.h"
#include "hooks/text.h"
#include "record/guest.h"
#include "record/record.h"
#include "record/session.h"
#include "record/settings.h"
#include "record/stacks.h"

#define OPGAP_HIDDEN __attribute__((visibility("hidden")))
#define OPGAP_EXPORT __attribute__((visibility("default")))

/* The real functions: what the next object after this library defines.  Written once each, by bind.c; NULL before that
 * and for functions that no loaded object defines.  memcpy's is memmove, because old programs overlap. */
union opgap_reals {
  struct {
#define OPGAP_FUNCTION(type, name, params) type(*name) params;
#include "hooks/hooks.def"
  };
  void *slot[OPGAP_SLOT_COUNT];
};
extern union opgap_reals opgap_real OPGAP_HIDDEN;
extern uint32_t opgap_active OPGAP_HIDDEN;

/* A hook's way out before start-up, while its group is off, or when its library was loaded later: binds the slot if
 * it is not.  False: the function does not exist, or this library is not relocated yet. */
bool opgap_bind_slot(unsigned slot) OPGAP_HIDDEN;
#define OPGAP_BOUND(name) (opgap_likely(opgap_real.name != NULL) || opgap_bind_slot(OPGAP_SLOT_##name))

/* The thread's slot if a hook of this group may record, else NULL. */
#define OPGAP_ENTER(group) (opgap_unlikely(!(opgap_active & OPGAP_GROUP_##group)) ? NULL : opgap_self())

/* The same for a hook that only counts while `small`: a forked child that does no more has no session (guest.h). */
#define OPGAP_ENTER_COUNTING(group, small)                                                                             \
  (opgap_unlikely(!(opgap_active & OPGAP_GROUP_##group)) ? NULL : (small) ? opgap_self_counting() : opgap_self())

/* Calls of realloc come to our hook: no allocator is loaded before us.  Set when the functions are bound. */
extern bool opgap_realloc_is_ours OPGAP_HIDDEN;

/* For the hottest hooks: the thread's slot without the slow way of opgap_self, so that the hook needs no stack frame;
 * on NULL they jump to a function that uses OPGAP_ENTER. */
static inline struct opgap_thread *opgap_known_thread(void)
{
  return opgap_cell->thread;
}
#define OPGAP_ENTER_FAST(group) (opgap_unlikely(!(opgap_active & OPGAP_GROUP_##group)) ? NULL : opgap_known_thread())
/* Nothing of the group is recorded.  The hottest hooks ask this first and go to the real function at once, if it is
 * bound, else the slow way: tracing that is off must not cost more than counting. */
#define OPGAP_IS_OFF(group) opgap_unlikely(!(opgap_active & OPGAP_GROUP_##group))
#define OPGAP_PASS(name, args) (opgap_likely(opgap_real.name != NULL) ? opgap_real.name args : name##_slow args)
/* They begin a cache line: where other code put them, lock and unlock took 0.3 ns more or less. */
#define OPGAP_HOT OPGAP_EXPORT __attribute__((aligned(64)))
#define OPGAP_COLD static __attribute__((noinline, cold))

/* Result when a function does not exist: NULL or -1, with ENOSYS. */
#define OPGAP_MISSING(type) (opgap_missing(), (type)(__builtin_classify_type((type)0) == 5 ? 0 : -1))
static inline void opgap_missing(void)
{
  errno = ENOSYS;
}

/* Old programs ask for versions of some functions that work on data of another layout or do something else.  A hook for
 * `name` would take their calls, too, so each such version has a hook of its own, exported as that version (which
 * exports-x86_64.map must know); it calls the real function of that version. */
#if defined(__x86_64__)
#define OPGAP_OLD_VERSIONS 1
#define OPGAP_OLD_VERSION(hook, name, version) __asm__(".symver " #hook ", " #name "@" version ", remove")
#endif

/* Records a span that ended at `end`, without its stack, unless the real call returned in a forked child, where the
 * slot is the parent's. */
static inline void opgap_hook_record(struct opgap_thread *thread, unsigned event, uint64_t start, uint64_t end,
                                     uint64_t object, uint64_t value, uint32_t status)
{
  struct opgap_cell *cell = opgap_cell;
  if (opgap_unlikely(cell->thread != thread))
    return;
  thread->call_event = 0;
  opgap_span(cell, event, start, end, object, value, status);
}
/* Ends a span at `end`, with its stack if it took long. */
static inline void opgap_hook_end_at(struct opgap_thread *thread, unsigned event, uint64_t start, uint64_t end,
                                     uint64_t object, uint64_t value, uint32_t status)
{
  opgap_hook_record(thread, event, start, end, object, value, status);
  if (opgap_unlikely(end - start >= opgap_stack_ticks))
    opgap_stack_note(event, end - start, 0);
}
static inline void opgap_hook_end(struct opgap_thread *thread, unsigned event, uint64_t start, uint64_t object,
                                  uint64_t value, uint32_t status)
{
  opgap_hook_end_at(thread, event, start, opgap_ticks(), object, value, status);
}

/* ---- fds.c: what descriptors are ---- */

/* The program confines itself (seccomp): its filter may kill it for a system call that it does not make itself, so the
 * kernel is asked for no more names. */
extern bool opgap_sandboxed OPGAP_HIDDEN;
/* Seccomp's strict mode: read, write, exit and no other system call. */
extern bool opgap_strict OPGAP_HIDDEN;
/* seccomp(2), seen. */
long opgap_seccomp(long operation, long flags, long argument) OPGAP_HIDDEN;
/* Name id of a descriptor: the path as opened, else what /proc/self/fd says ("pipe:[n]", "socket:[n]", ...),
 * of an end of a socketpair "socketpair:[n,m]", m being the other end's inode.
 * 0: unknown.  Keeps errno. */
uint32_t opgap_fd_name(int fd) OPGAP_HIDDEN;
/* The same for the record of a guest, in its parent's names.  False: only asking the kernel for a path would tell. */
bool opgap_fd_guest_name(int fd, uint32_t *name) OPGAP_HIDDEN;
/* A new descriptor: nothing is known of it yet.  Negative numbers are ignored. */
void opgap_fd_new(int fd) OPGAP_HIDDEN;
void opgap_fd_copy(int from, int to) OPGAP_HIDDEN;
void opgap_fd_range(unsigned first, unsigned last) OPGAP_HIDDEN;
/* Name id of a path that a call was given; 0 if it failed with EFAULT, or with EINVAL: then the kernel may not have
 * looked at the path.  Keeps errno. */
uint32_t opgap_path_name(int dirfd, const char *path, int error) OPGAP_HIDDEN;
/* Sees a descriptor opened by path; returns its name id. */
uint32_t opgap_fd_opened(int fd, int dirfd, const char *path, int error) OPGAP_HIDDEN;
/* The same of a socket, of the ends of a socketpair, of an epoll instance; and that one waits for fd, or no more. */
void opgap_fd_socket(int fd) OPGAP_HIDDEN;
void opgap_fd_pair(const int fds[2]) OPGAP_HIDDEN;
void opgap_fd_epoll(int fd) OPGAP_HIDDEN;
void opgap_fd_watched(int epoll, int fd, bool added) OPGAP_HIDDEN;
/* Objects of waits for descriptors: the first one ready.  Of a wait whose time was over, or that a signal interrupted,
 * a socket if it waited for one (no end of a socketpair), else the first descriptor that is none; 0: nothing of that.
 */
uint32_t opgap_polled_name(const struct pollfd *fds, nfds_t count, int result, int error) OPGAP_HIDDEN;
/* The sets of a select, which clears them: copied before the call, as far as they can be read without a fault. */
#define SELECT_BITS (8u * (unsigned)sizeof(unsigned long))
#define SELECT_WORDS (FD_SETSIZE / SELECT_BITS)
struct opgap_selected {
  unsigned long bits[SELECT_WORDS]; /* the first `words` */
  unsigned words;
  int limit;
  bool all; /* none was left out */
};
void opgap_select_before(struct opgap_selected *selected, int limit, const fd_set *readers, const fd_set *writers,
                         const fd_set *errors) OPGAP_HIDDEN;
uint32_t opgap_selected_name(const struct opgap_selected *selected, const fd_set *readers, const fd_set *writers,
                             int result, int error) OPGAP_HIDDEN;
/* Of an epoll instance that it is not known what it waits for: itself. */
uint32_t opgap_epolled_name(int fd, int result) OPGAP_HIDDEN;

/* ---- expressions of hooks.def ---- */

#define OPGAP_FD(fd) opgap_fd_name(fd)
#define OPGAP_PATH(dirfd, path) opgap_path_name(dirfd, path, OPGAP_FAILED(result) ? error : 0)
/* The second path of a call, which a call that failed for the first one need not have tested. */
#define OPGAP_NEW_PATH(dirfd, path) ((void)error, result == 0 ? opgap_path_name(dirfd, path, 0) : 0)
#define OPGAP_FAILED(result) (__builtin_classify_type(result) == 5 ? (intptr_t)(result) == 0 : (intptr_t)(result) < 0)
#define OPGAP_ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))
#define OPGAP_STREAM(stream) ((stream) ? opgap_fd_name((stream)->_fileno) : 0)
#define OPGAP_FOLDER(folder) ((folder) ? opgap_fd_name(dirfd(folder)) : 0)
#define OPGAP_POLLED(fds, count) opgap_polled_name(fds, count, result, error)
#define OPGAP_EPOLLED(fd) opgap_epolled_name(fd, result)
#define OPGAP_BYTES ((int64_t)result > 0 ? (uint64_t)result : 0)
/* lockf's command in flock's terms */
static inline unsigned opgap_lockf_operation(int command)
{
  return command == F_ULOCK ? LOCK_UN : command == F_LOCK ? LOCK_EX : command == F_TLOCK ? LOCK_EX | LOCK_NB : 0;
}
#define OPGAP_LENGTH(string) ((string) ? opgap_real.strlen(string) : 0)
/* read after the call, which has tested the pointer */
#define OPGAP_TIMESPEC(t)                                                                                              \
  (OPGAP_ERRNO_ANY == EFAULT || !(t) ? 0 : (uint64_t)(t)->tv_sec * 1000000000u + (uint64_t)(t)->tv_nsec)
#define OPGAP_ERRNO_ANY (result > 0 ? (int)result : result < 0 ? error : 0)
#define OPGAP_ERRNO (result < 0 ? (uint32_t)error : 0u)
#define OPGAP_ERRNO_NULL (result == NULL ? (uint32_t)error : 0u)
#define OPGAP_RESULT ((uint32_t)result)
/* C11 threads have results of their own */
#define OPGAP_THRD (result == thrd_success ? 0u : result == thrd_timedout ? (uint32_t)ETIMEDOUT : (uint32_t)EINVAL)

/* ---- alloc.c, copy.c: thresholds, constant after the session has begun ---- */

extern size_t opgap_alloc_threshold OPGAP_HIDDEN; /* 0: every allocation is recorded */
extern size_t opgap_alloc_large OPGAP_HIDDEN;     /* from here on each is a span */
extern size_t opgap_alloc_events OPGAP_HIDDEN;    /* that, where every allocation is recorded, else 0 */
#define OPGAP_TIMED_COPY 4096u /* bytes: less is copied about as fast as the clock is read, some 10 to 50 ns */
extern size_t opgap_copy_threshold OPGAP_HIDDEN; /* from here on each copy is recorded */
extern size_t opgap_copy_spans OPGAP_HIDDEN;     /* and from here on as a span */
/* The real functions, or byte loops before they are bound. */
void *opgap_real_memmove(void *to, const void *from, size_t size) OPGAP_HIDDEN;
void *opgap_real_memset(void *to, int byte, size_t size) OPGAP_HIDDEN;

/* ---- process.c, thread.c ---- */

/* True between vfork and exec in the child, and so on the thread of the parent, which does not run then. */
extern __thread bool opgap_in_vfork __attribute__((tls_model("initial-exec"))) OPGAP_HIDDEN;

/* The program has created a thread. */
extern bool opgap_threads OPGAP_HIDDEN;

void opgap_process_prepare(void) OPGAP_HIDDEN; /* constructor */
void opgap_thread_prepare(void) OPGAP_HIDDEN;  /* constructor */
/* Called by the core where each session begins, also in forked children.  begins: false if it cannot begin yet. */
bool opgap_hooks_session_begins(void);
void opgap_hooks_session_started(void);

#endif
