/* Hand-written hooks of files and descriptors: those that create, copy or close descriptors.
 *
 * Context: any, see hooks.h.  The table of descriptors is kept also while nothing is recorded, except before the first
 * session, because a stale name is worse than none. */
#include "hooks/hooks.h"

#include <stdarg.h>
#include <sys/eventfd.h>

#define OPGAP_CUSTOM(group, flags, type, name, params, ...) type name params;
#define OPGAP_CUSTOM_ALIAS(base, group, type, name, params, ...) type name params;
#define OPGAP_BODY(group, type, name, params, ...) type name params;
#include "hooks/hooks.def"

/* The mode of an open call, which is there only if a file may be created. */
#define OPEN_MODE(flags, last, mode)                                                                                   \
  mode_t mode = 0;                                                                                                     \
  if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) {                                                         \
    va_list list_;                                                                                                     \
    va_start(list_, last);                                                                                             \
    mode = va_arg(list_, mode_t);                                                                                      \
    va_end(list_);                                                                                                     \
  }

/* One open call: `call` is the real one. */
#define OPEN(id, dirfd, path, call)                                                                                    \
  struct opgap_thread *thread = OPGAP_ENTER(io);                                                                       \
  if (opgap_unlikely(thread == NULL)) {                                                                                \
    int fd = call;                                                                                                     \
    opgap_fd_new(fd);                                                                                                  \
    return fd;                                                                                                         \
  }                                                                                                                    \
  uint64_t start = opgap_call_begin(thread, id, 0);                                                                    \
  int fd = call;                                                                                                       \
  uint64_t end = opgap_ticks();                                                                                        \
  uint32_t error = fd < 0 ? (uint32_t)errno : 0;                                                                       \
  uint32_t name = opgap_fd_opened(fd, dirfd, path, (int)error);                                                        \
  opgap_hook_end_at(thread, id, start, end, name, fd < 0 ? 0 : (uint64_t)fd, error);                                   \
  return fd;

#define NEED(name)                                                                                                     \
  if (!OPGAP_BOUND(name))                                                                                              \
    return OPGAP_MISSING(int);

/* libunwind looks at files and asks about memory through a pipe: the numbers would be the program's. */
#define NEED_DESCRIPTOR(name)                                                                                          \
  NEED(name)                                                                                                           \
  if (opgap_unlikely(opgap_cell == &opgap_unwind_cell)) {                                                              \
    errno = EMFILE;                                                                                                    \
    return -1;                                                                                                         \
  }

#define OPEN_HOOK(name)                                                                                                \
  OPGAP_EXPORT int name(const char *path, int flags, ...)                                                              \
  {                                                                                                                    \
    OPEN_MODE(flags, flags, mode)                                                                                      \
    NEED_DESCRIPTOR(name)                                                                                              \
    OPEN(OPGAP_HOOK_ID_open, AT_FDCWD, path, opgap_real.name(path, flags, mode))                                       \
  }
OPEN_HOOK(open)
OPEN_HOOK(open64)

#define OPENAT_HOOK(name)                                                                                              \
  OPGAP_EXPORT int name(int dirfd, const char *path, int flags, ...)                                                   \
  {                                                                                                                    \
    OPEN_MODE(flags, flags, mode)                                                                                      \
    NEED(name)                                                                                                         \
    OPEN(OPGAP_HOOK_ID_openat, dirfd, path, opgap_real.name(dirfd, path, flags, mode))                                 \
  }
OPENAT_HOOK(openat)
OPENAT_HOOK(openat64)

#define OPEN_2_HOOK(name)                                                                                              \
  OPGAP_EXPORT int name(const char *path, int flags)                                                                   \
  {                                                                                                                    \
    NEED(name)                                                                                                         \
    OPEN(OPGAP_HOOK_ID_open, AT_FDCWD, path, opgap_real.name(path, flags))                                             \
  }
OPEN_2_HOOK(__open_2)
OPEN_2_HOOK(__open64_2)

#define OPENAT_2_HOOK(name)                                                                                            \
  OPGAP_EXPORT int name(int dirfd, const char *path, int flags)                                                        \
  {                                                                                                                    \
    NEED(name)                                                                                                         \
    OPEN(OPGAP_HOOK_ID_openat, dirfd, path, opgap_real.name(dirfd, path, flags))                                       \
  }
OPENAT_2_HOOK(__openat_2)
OPENAT_2_HOOK(__openat64_2)

#define CREAT_HOOK(name)                                                                                               \
  OPGAP_EXPORT int name(const char *path, mode_t mode)                                                                 \
  {                                                                                                                    \
    NEED(name)                                                                                                         \
    OPEN(OPGAP_HOOK_ID_creat, AT_FDCWD, path, opgap_real.name(path, mode))                                             \
  }
CREAT_HOOK(creat)
CREAT_HOOK(creat64)

/* In a forked child that has not yet begun its session: shells close descriptors there and execute.  False: it begins.
 */
OPGAP_COLD bool close_as_guest(int fd, int *result)
{
  uint32_t name;
  if (opgap_self_counting() == opgap_known_thread() || !opgap_fd_guest_name(fd, &name) || !opgap_guest_has_room())
    return false;
  opgap_fd_new(fd);
  uint64_t start = opgap_ticks();
  *result = opgap_real.close(fd);
  int error = errno;
  opgap_guest_span(OPGAP_HOOK_ID_close, start, opgap_ticks(), name, *result < 0 ? (uint32_t)error : 0);
  errno = error;
  return true;
}

OPGAP_EXPORT int close(int fd)
{
  NEED(close)
  struct opgap_thread *thread = OPGAP_ENTER_FAST(io);
  int closed;
  if (opgap_unlikely(thread == NULL && (opgap_active & OPGAP_GROUP_io))) {
    if (close_as_guest(fd, &closed))
      return closed;
    thread = opgap_self();
  }
  if (opgap_unlikely(thread == NULL)) {
    opgap_fd_new(fd); /* before the call: after it the number may be another thread's */
    return opgap_real.close(fd);
  }
  uint32_t name = opgap_fd_name(fd);
  opgap_fd_new(fd);
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_close, name);
  int result = opgap_real.close(fd);
  opgap_hook_end(thread, OPGAP_HOOK_ID_close, start, name, 0, result < 0 ? (uint32_t)errno : 0);
  return result;
}

/* ---- streams ---- */

/* One call that opens a stream; freopen gives `stream` another file, fopen has none. */
#define OPEN_STREAM(path, call)                                                                                        \
  struct opgap_thread *thread = OPGAP_ENTER(io);                                                                       \
  uint64_t start = thread ? opgap_call_begin(thread, OPGAP_HOOK_ID_fopen, 0) : 0;                                      \
  FILE *opened = call;                                                                                                 \
  int error = errno;                                                                                                   \
  int fd = opened ? opened->_fileno : -1;                                                                              \
  if (thread == NULL) {                                                                                                \
    opgap_fd_new(fd);                                                                                                  \
  } else {                                                                                                             \
    uint64_t end = opgap_ticks();                                                                                      \
    uint32_t name = opgap_fd_opened(fd, AT_FDCWD, path, opened ? 0 : error);                                           \
    opgap_hook_end_at(thread, OPGAP_HOOK_ID_fopen, start, end, name, fd < 0 ? 0 : (uint64_t)fd,                        \
                      opened ? 0 : (uint32_t)error);                                                                   \
  }                                                                                                                    \
  errno = error;                                                                                                       \
  return opened;

#define FOPEN_HOOK(name)                                                                                               \
  OPGAP_EXPORT FILE *name(const char *path, const char *mode)                                                          \
  {                                                                                                                    \
    if (!OPGAP_BOUND(name))                                                                                            \
      return OPGAP_MISSING(FILE *);                                                                                    \
    OPEN_STREAM(path, opgap_real.name(path, mode))                                                                     \
  }
FOPEN_HOOK(fopen)
FOPEN_HOOK(fopen64)

#define FREOPEN_HOOK(name)                                                                                             \
  OPGAP_EXPORT FILE *name(const char *path, const char *mode, FILE *stream)                                            \
  {                                                                                                                    \
    if (!OPGAP_BOUND(name))                                                                                            \
      return OPGAP_MISSING(FILE *);                                                                                    \
    OPEN_STREAM(path, opgap_real.name(path, mode, stream))                                                             \
  }
FREOPEN_HOOK(freopen)
FREOPEN_HOOK(freopen64)

OPGAP_EXPORT int fclose(FILE *stream)
{
  NEED(fclose)
  int error = errno;
  int fd = stream->_fileno;
  errno = error; /* a stream without a descriptor */
  struct opgap_thread *thread = OPGAP_ENTER(io);
  uint32_t name = thread && fd >= 0 ? opgap_fd_name(fd) : 0;
  opgap_fd_new(fd);
  if (opgap_unlikely(thread == NULL))
    return opgap_real.fclose(stream);
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_fclose, name);
  int result = opgap_real.fclose(stream);
  opgap_hook_end(thread, OPGAP_HOOK_ID_fclose, start, name, 0, result < 0 ? (uint32_t)errno : 0);
  return result;
}

OPGAP_EXPORT int closedir(DIR *folder)
{
  NEED(closedir)
  if (folder)
    opgap_fd_new(dirfd(folder));
  return opgap_real.closedir(folder);
}

/* ---- mapped files ---- */

static void *hooked_mmap(void *(*real)(void *, size_t, int, int, int, off_t), void *address, size_t length,
                         int protection, int flags, int fd, off_t offset)
{
  struct opgap_thread *thread;
  if ((flags & MAP_ANONYMOUS) || fd < 0 || (thread = OPGAP_ENTER(io)) == NULL)
    return real(address, length, protection, flags, fd, offset);
  uint32_t name = opgap_fd_name(fd);
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_mmap, name);
  void *result = real(address, length, protection, flags, fd, offset);
  uint32_t error = result == MAP_FAILED ? (uint32_t)errno : 0;
  opgap_hook_end(thread, OPGAP_HOOK_ID_mmap, start, name, error ? 0 : length, error);
  return result;
}

OPGAP_EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
  if (!OPGAP_BOUND(mmap))
    return errno = ENOSYS, MAP_FAILED;
  return hooked_mmap(opgap_real.mmap, address, length, protection, flags, fd, offset);
}

OPGAP_EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
  if (!OPGAP_BOUND(mmap64))
    return errno = ENOSYS, MAP_FAILED;
  return hooked_mmap(opgap_real.mmap64, address, length, protection, flags, fd, offset);
}

/* ---- copies of descriptors ---- */

OPGAP_EXPORT int dup(int fd)
{
  NEED(dup)
  int copy = opgap_real.dup(fd);
  opgap_fd_copy(fd, copy);
  return copy;
}

OPGAP_EXPORT int dup2(int fd, int to)
{
  NEED(dup2)
  int copy = opgap_real.dup2(fd, to);
  opgap_fd_copy(fd, copy);
  return copy;
}

OPGAP_EXPORT int dup3(int fd, int to, int flags)
{
  NEED(dup3)
  int copy = opgap_real.dup3(fd, to, flags);
  opgap_fd_copy(fd, copy);
  return copy;
}

static bool sets_lock(int command)
{
  return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

/* In flock's terms; the kernel has read the lock, unless it failed with another error than these. */
static unsigned lock_operation(int command, const struct flock *lock, int error)
{
  unsigned waits = command == F_SETLKW || command == F_OFD_SETLKW ? 0 : LOCK_NB;
  if (error != 0 && error != EAGAIN && error != EACCES && error != EDEADLK && error != EINTR)
    return 0;
  return lock->l_type == F_UNLCK ? LOCK_UN : (lock->l_type == F_RDLCK ? LOCK_SH : LOCK_EX) | waits;
}

OPGAP_COLD int set_lock(int (*real)(int, int, ...), int fd, int command, void *argument)
{
  struct opgap_thread *thread = OPGAP_ENTER(io);
  if (thread == NULL)
    return real(fd, command, argument);
  uint32_t name = opgap_fd_name(fd);
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_fcntl, name);
  int result = real(fd, command, argument);
  int error = result < 0 ? errno : 0;
  opgap_hook_end(thread, OPGAP_HOOK_ID_fcntl, start, name, lock_operation(command, argument, error), (uint32_t)error);
  return result;
}

/* Every command takes nothing, an int or a pointer: a pointer-sized argument passes them all on. */
#define FCNTL_HOOK(name)                                                                                               \
  OPGAP_EXPORT int name(int fd, int command, ...)                                                                      \
  {                                                                                                                    \
    va_list list;                                                                                                      \
    va_start(list, command);                                                                                           \
    void *argument = va_arg(list, void *);                                                                             \
    va_end(list);                                                                                                      \
    NEED(name)                                                                                                         \
    if (opgap_unlikely(sets_lock(command)))                                                                            \
      return set_lock(opgap_real.name, fd, command, argument);                                                         \
    int result = opgap_real.name(fd, command, argument);                                                               \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                                                              \
      opgap_fd_copy(fd, result);                                                                                       \
    return result;                                                                                                     \
  }
FCNTL_HOOK(fcntl)
FCNTL_HOOK(fcntl64)
FCNTL_HOOK(__fcntl)

/* ---- new descriptors ---- */

#define NEW_PAIR(call)                                                                                                 \
  int result = call;                                                                                                   \
  if (result == 0) {                                                                                                   \
    opgap_fd_new(fds[0]);                                                                                              \
    opgap_fd_new(fds[1]);                                                                                              \
  }                                                                                                                    \
  return result;
#define NEW_FD(call)                                                                                                   \
  int result = call;                                                                                                   \
  opgap_fd_new(result);                                                                                                \
  return result;

OPGAP_EXPORT int pipe(int fds[2]){NEED_DESCRIPTOR(pipe) NEW_PAIR(opgap_real.pipe(fds))}

OPGAP_EXPORT int pipe2(int fds[2], int flags){NEED_DESCRIPTOR(pipe2) NEW_PAIR(opgap_real.pipe2(fds, flags))}

OPGAP_EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
  NEED(socketpair)
  int result = opgap_real.socketpair(domain, type, protocol, fds);
  if (result == 0)
    opgap_fd_pair(fds);
  return result;
}

OPGAP_EXPORT int socket(int domain, int type, int protocol)
{
  NEED(socket)
  int result = opgap_real.socket(domain, type, protocol);
  opgap_fd_socket(result);
  return result;
}

#define NEW_EPOLL(call)                                                                                                \
  int result = call;                                                                                                   \
  opgap_fd_epoll(result);                                                                                              \
  return result;

OPGAP_EXPORT int epoll_create(int size){NEED(epoll_create) NEW_EPOLL(opgap_real.epoll_create(size))}

OPGAP_EXPORT int epoll_create1(int flags){NEED(epoll_create1) NEW_EPOLL(opgap_real.epoll_create1(flags))}

OPGAP_EXPORT int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
  NEED(epoll_ctl)
  int result = opgap_real.epoll_ctl(epoll, operation, fd, event);
  if (result == 0 && operation != EPOLL_CTL_MOD)
    opgap_fd_watched(epoll, fd, operation == EPOLL_CTL_ADD);
  return result;
}

OPGAP_EXPORT int eventfd(unsigned count, int flags){NEED(eventfd) NEW_FD(opgap_real.eventfd(count, flags))}

#define ACCEPT(call)                                                                                                   \
  struct opgap_thread *thread = OPGAP_ENTER(net);                                                                      \
  if (opgap_unlikely(thread == NULL)) {                                                                                \
    int fd_ = call;                                                                                                    \
    opgap_fd_socket(fd_);                                                                                              \
    return fd_;                                                                                                        \
  }                                                                                                                    \
  uint32_t name = opgap_fd_name(fd);                                                                                   \
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_accept, name);                                               \
  int result = call;                                                                                                   \
  uint32_t error = result < 0 ? (uint32_t)errno : 0;                                                                   \
  opgap_fd_socket(result);                                                                                             \
  opgap_hook_end(thread, OPGAP_HOOK_ID_accept, start, name, 0, error);                                                 \
  return result;

OPGAP_EXPORT int accept(int fd, struct sockaddr *from,
                        socklen_t *length){NEED(accept) ACCEPT(opgap_real.accept(fd, from, length))}

OPGAP_EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *length,
                         int flags){NEED(accept4) ACCEPT(opgap_real.accept4(fd, from, length, flags))}

/* ---- select: its sets are gone when its time is over ---- */

#define SELECT(name, call)                                                                                             \
  NEED(name)                                                                                                           \
  struct opgap_thread *thread = OPGAP_ENTER(net);                                                                      \
  if (opgap_unlikely(thread == NULL))                                                                                  \
    return call;                                                                                                       \
  struct opgap_selected selected;                                                                                      \
  opgap_select_before(&selected, limit, readers, writers, errors);                                                     \
  uint64_t start = opgap_call_begin(thread, OPGAP_HOOK_ID_##name, 0);                                                  \
  int result = call, error = errno;                                                                                    \
  uint64_t end = opgap_ticks();                                                                                        \
  uint32_t object = opgap_selected_name(&selected, readers, writers, result, error);                                   \
  opgap_hook_end_at(thread, OPGAP_HOOK_ID_##name, start, end, object, OPGAP_BYTES, OPGAP_ERRNO);                       \
  return result;

OPGAP_EXPORT int select(int limit, fd_set *readers, fd_set *writers, fd_set *errors, struct timeval *timeout){
    SELECT(select, opgap_real.select(limit, readers, writers, errors, timeout))}

OPGAP_EXPORT int pselect(int limit, fd_set *readers, fd_set *writers, fd_set *errors, const struct timespec *timeout,
                         const sigset_t *mask){
    SELECT(pselect, opgap_real.pselect(limit, readers, writers, errors, timeout, mask))}

/* ---- closing many ---- */

OPGAP_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
  NEED(close_range)
  if (!(flags & CLOSE_RANGE_CLOEXEC))
    opgap_fd_range(first, last);
  return opgap_real.close_range(first, last, flags);
}

OPGAP_EXPORT void closefrom(int first)
{
  if (!OPGAP_BOUND(closefrom))
    return;
  opgap_fd_range(first < 0 ? 0 : (unsigned)first, UINT32_MAX - 1);
  opgap_real.closefrom(first);
}
