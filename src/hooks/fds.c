/* What descriptors are: one interned name id a descriptor, for the objects of I/O records.
 *
 * Threads   Any.  Entries are single words; a race between a close and a use of the same number is the program's own.
 * Ownership A private mapping, so a forked child has its own copy; its ids belong to the parent's name table, so the
 *           child clears it when its session starts.
 * Rules     A descriptor that the program opens by an absolute path has that name.  For all others (inherited,
 * received, pipes, sockets, relative paths, opened behind our back) the kernel is asked on first use, once. An id of 0
 * means not asked yet; UNKNOWN that the kernel had no answer.
 *
 * A wait for descriptors whose time is over is communication if a socket was among them, else a sleep; so entries also
 * tell sockets, but for the two ends of a socketpair, which connect threads of this process or it and its children.
 */
#include "hooks/hooks.h"

#include <sys/vfs.h>

#include "record/raw.h"

#define FD_LIMIT 65536u /* descriptors above are asked for each time */
#define ID 0x3fffffffu  /* of an entry; ids are offsets in a table of some MiB */
#define UNKNOWN ID
#define SOCKET (1u << 31)
#define TOLD                                                                                                           \
  (1u << 30) /* of a socket: an end of a socketpair; else an epoll instance, and all that it holds was seen */

static uint32_t *table; /* [FD_LIMIT], NULL until the first session; behind it: */
static uint16_t *held;  /* [FD_LIMIT], of an epoll instance the sockets that were added and not taken out */

/* The child of a vfork has descriptors of its own, but the parent's memory. */
static bool writable(int fd)
{
  return table != NULL && (unsigned)fd < FD_LIMIT && !opgap_in_vfork;
}

static void text_number(char *at, uint64_t number)
{
  char digits[24];
  int n = 0;
  do
    digits[n++] = (char)('0' + number % 10);
  while (number /= 10);
  while (n > 0)
    *at++ = digits[--n];
  *at = 0;
}

/* The name table of a process is limited, and a long run can open any number of files: once paths have filled their
 * share, a new one is recorded as its folder and a star. */
#define PATH_SHARE_BYTES (3u * 1024u * 1024u)
static bool share_spent;

static bool starts_with(const char *path, size_t length, const char *prefix)
{
  return length > opgap_length(prefix) && opgap_starts_with(path, prefix);
}

static uint32_t intern_folder(const char *path, size_t length)
{
  char folder[OPGAP_NAME_MAX + 2];
  while (length > 0 && path[length - 1] != '/')
    length--;
  if (length > OPGAP_NAME_MAX)
    length = OPGAP_NAME_MAX;
  memcpy(folder, path, length);
  folder[length] = '*';
  return opgap_intern(folder, length + 1);
}

static uint32_t intern_path(const char *path, size_t length)
{
  static const char torch[] = "/dev/shm/torch_*"; /* a tensor handed between processes has a file name of its own */
  if (starts_with(path, length, "/dev/shm/torch_"))
    return opgap_intern(torch, sizeof torch - 1);
  if (share_spent)
    return intern_folder(path, length);
  uint32_t id = opgap_intern(path, length);
  if (opgap_unlikely(id > PATH_SHARE_BYTES / 8)) /* an id is an offset in units of 8 bytes */
    share_spent = true;
  return id;
}

/* ---- ends of a socketpair ----
 *
 * By the numbers of their inodes, which descriptors are copied and handed on with, also to forked children.  A place
 * that another pair needs is given up: its ends are then named as any socket is. */
#define PAIR_ENDS 512u
static struct pair_end {
  uint64_t inode, other; /* inode 0: none, or just being written */
} pair_ends[PAIR_ENDS];

static void note_end(uint64_t inode, uint64_t other)
{
  struct pair_end *end = &pair_ends[inode % PAIR_ENDS];
  __atomic_store_n(&end->inode, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&end->other, other, __ATOMIC_SEQ_CST);
  __atomic_store_n(&end->inode, inode, __ATOMIC_SEQ_CST);
}

/* The inode of the other end; 0: this is none of a pair that is known. */
static uint64_t other_end(uint64_t inode)
{
  struct pair_end *end = &pair_ends[inode % PAIR_ENDS];
  if (inode == 0 || __atomic_load_n(&end->inode, __ATOMIC_SEQ_CST) != inode)
    return 0;
  uint64_t other = __atomic_load_n(&end->other, __ATOMIC_SEQ_CST);
  return __atomic_load_n(&end->inode, __ATOMIC_SEQ_CST) == inode ? other : 0;
}

#define SOCKET_NAME 64u

/* "socket:[n]", of an end of a pair "socketpair:[n,m]"; returns the length. */
static size_t socket_name(char name[SOCKET_NAME], uint64_t inode)
{
  uint64_t other = other_end(inode);
  const char *kind = other ? "socketpair:[" : "socket:[";
  size_t length = opgap_length(kind);
  memcpy(name, kind, length);
  text_number(name + length, inode);
  length += opgap_length(name + length);
  if (other) {
    name[length++] = ',';
    text_number(name + length, other);
    length += opgap_length(name + length);
  }
  name[length++] = ']';
  return length;
}

static uint32_t intern_socket(const char *name, size_t length)
{
  char own[SOCKET_NAME];
  uint64_t inode = 0;
  for (const char *at = name + opgap_length("socket:["); *at >= '0' && *at <= '9'; at++)
    inode = inode * 10 + (uint64_t)(*at - '0');
  if (other_end(inode) == 0)
    return opgap_intern(name, length) | SOCKET;
  return opgap_intern(own, socket_name(own, inode)) | SOCKET | TOLD;
}

/* What the kernel says; names of pipes, sockets and the like are no paths, and needed one by one. */
static uint32_t intern_kernel_name(const char *name, size_t length)
{
  static const char deleted[] = " (deleted)";
  if (starts_with(name, length, "socket:["))
    return intern_socket(name, length);
  if (name[0] != '/')
    return opgap_intern(name, length);
  if (length > sizeof deleted - 1 && opgap_starts_with(name + length - (sizeof deleted - 1), deleted))
    length -= sizeof deleted - 1;
  return intern_path(name, length);
}

static uint32_t intern_link(const char *link)
{
  char target[OPGAP_NAME_MAX + 1];
  long length = opgap_raw6(SYS_readlinkat, AT_FDCWD, (long)link, (long)target, sizeof target - 1, 0, 0);
  return length > 0 ? intern_kernel_name(target, (size_t)length) : 0;
}

bool opgap_sandboxed;

static uint32_t ask_kernel(int fd)
{
  if (opgap_sandboxed)
    return 0;
  char link[32] = "/proc/self/fd/";
  text_number(link + sizeof "/proc/self/fd/" - 1, (unsigned)fd);
  return intern_link(link);
}

/* With what is known of it besides its name. */
static uint32_t entry_of(int fd)
{
  if (opgap_unlikely(table == NULL || (unsigned)fd >= FD_LIMIT))
    return ask_kernel(fd);
  uint32_t entry = table[fd];
  if (opgap_unlikely((entry & ID) == 0)) {
    uint32_t answer = ask_kernel(fd);
    table[fd] = entry |= answer ? answer : UNKNOWN;
  }
  return entry;
}

static uint32_t id_of(uint32_t entry)
{
  return (entry & ID) == UNKNOWN ? 0 : entry & ID;
}

static bool is_network(uint32_t entry)
{
  return (entry & (SOCKET | TOLD)) == SOCKET;
}

static __attribute__((noinline)) uint32_t name_slow(int fd)
{
  return fd < 0 ? 0 : id_of(entry_of(fd));
}

uint32_t opgap_fd_name(int fd)
{
  uint32_t id = opgap_likely(table != NULL && (unsigned)fd < FD_LIMIT) ? table[fd] & ID : 0;
  return opgap_likely(id - 1 < UNKNOWN - 1) ? id : name_slow(fd); /* neither 0 nor UNKNOWN */
}

/* A pipe's or a socket's name is its inode's number, which costs less to ask for than the link in /proc. */
static uint32_t guest_inode_name(int fd)
{
  struct stat status;
  struct statfs system;
  if (opgap_sandboxed || opgap_raw3(SYS_fstat, fd, (long)&status, 0) < 0)
    return 0;
  bool is_socket = S_ISSOCK(status.st_mode);
  if (!is_socket && (!S_ISFIFO(status.st_mode) || opgap_raw3(SYS_fstatfs, fd, (long)&system, 0) < 0 ||
                     system.f_type != 0x50495045 /* PIPEFS_MAGIC */))
    return UNKNOWN;
  char name[SOCKET_NAME] = "pipe:[";
  if (is_socket)
    return opgap_guest_intern(name, socket_name(name, status.st_ino));
  text_number(name + opgap_length(name), status.st_ino);
  size_t length = opgap_length(name);
  name[length] = ']';
  return opgap_guest_intern(name, length + 1);
}

bool opgap_fd_guest_name(int fd, uint32_t *name)
{
  *name = table != NULL && (unsigned)fd < FD_LIMIT ? table[fd] & ID : 0;
  if (*name == 0 && fd >= 0) {
    *name = guest_inode_name(fd);
    return *name != UNKNOWN;
  }
  if (*name == UNKNOWN)
    *name = 0;
  return true;
}

void opgap_fd_new(int fd)
{
  if (writable(fd) && table[fd])
    table[fd] = 0;
}

static void note(int fd, uint32_t flags)
{
  if (fd < 0 || !writable(fd))
    return;
  table[fd] = flags;
  if (held[fd])
    held[fd] = 0;
}

void opgap_fd_socket(int fd)
{
  note(fd, SOCKET);
}

void opgap_fd_pair(const int fds[2])
{
  struct stat ends[2];
  if (opgap_active && !opgap_sandboxed && opgap_raw3(SYS_fstat, fds[0], (long)&ends[0], 0) == 0 &&
      opgap_raw3(SYS_fstat, fds[1], (long)&ends[1], 0) == 0) {
    note_end(ends[0].st_ino, ends[1].st_ino);
    note_end(ends[1].st_ino, ends[0].st_ino);
  }
  note(fds[0], SOCKET | TOLD);
  note(fds[1], SOCKET | TOLD);
}

void opgap_fd_epoll(int fd)
{
  note(fd, TOLD);
}

void opgap_fd_watched(int epoll, int fd, bool added)
{
  if (epoll < 0 || fd < 0 || !writable(epoll) || !is_network(entry_of(fd)))
    return;
  if (added)
    __atomic_fetch_add(&held[epoll], 1, __ATOMIC_RELAXED);
  else if (held[epoll] > 0)
    __atomic_fetch_sub(&held[epoll], 1, __ATOMIC_RELAXED);
}

void opgap_fd_copy(int from, int to)
{
  if (!writable(to))
    return;
  table[to] = (unsigned)from < FD_LIMIT ? table[from] : 0;
  if ((unsigned)from < FD_LIMIT && held[to] != held[from])
    held[to] = held[from];
}

void opgap_fd_range(unsigned first, unsigned last)
{
  for (unsigned fd = first; fd <= last && fd < FD_LIMIT; fd++)
    if (writable((int)fd) && table[fd])
      table[fd] = 0;
}

/* A relative path joined with its folder; for calls that failed or leave no descriptor. */
static uint32_t intern_joined(int dirfd, const char *path)
{
  char joined[OPGAP_NAME_MAX + 1];
  long length = 0;
  if (opgap_sandboxed) {
    ; /* the path as given */
  } else if (dirfd == AT_FDCWD) {
    length = opgap_raw3(SYS_getcwd, (long)joined, sizeof joined, 0) - 1; /* it counts the NUL */
  } else {
    char link[32] = "/proc/self/fd/";
    text_number(link + sizeof "/proc/self/fd/" - 1, (unsigned)dirfd);
    length = opgap_raw6(SYS_readlinkat, AT_FDCWD, (long)link, (long)joined, sizeof joined - 1, 0, 0);
  }
  if (length <= 0)
    return intern_path(path, opgap_real.strlen(path));
  size_t at = (size_t)length;
  if (path[0] == '.' && path[1] == 0)
    return intern_path(joined, at);
  if (joined[at - 1] != '/' && at < OPGAP_NAME_MAX)
    joined[at++] = '/';
  while (path[0] == '.' && path[1] == '/')
    path += 2;
  while (*path && at < OPGAP_NAME_MAX)
    joined[at++] = *path++;
  return intern_path(joined, at);
}

uint32_t opgap_path_name(int dirfd, const char *path, int error)
{
  if (path == NULL || error == EFAULT || error == EINVAL)
    return 0;
  if (path[0] == '/')
    return intern_path(path, opgap_real.strlen(path));
  if (path[0] == 0) /* AT_EMPTY_PATH: the descriptor itself; else ENOENT */
    return dirfd >= 0 ? opgap_fd_name(dirfd) : 0;
  return intern_joined(dirfd, path);
}

uint32_t opgap_fd_opened(int fd, int dirfd, const char *path, int error)
{
  if (fd < 0)
    return opgap_path_name(dirfd, path, error);
  opgap_fd_new(fd);
  if (path == NULL || path[0] != '/' || table == NULL || (unsigned)fd >= FD_LIMIT)
    return opgap_fd_name(fd);
  uint32_t id = intern_path(path, opgap_real.strlen(path));
  table[fd] = id;
  return id;
}

/* Of descriptors that were waited for in vain: the first socket, else the first that is none. */
struct vain {
  uint32_t socket, other;
};

static void add_vain(struct vain *vain, int fd)
{
  uint32_t entry = entry_of(fd);
  if (is_network(entry) && vain->socket == 0)
    vain->socket = id_of(entry);
  else if (!(entry & SOCKET) && vain->other == 0)
    vain->other = id_of(entry);
}

static uint32_t vain_name(const struct vain *vain)
{
  return vain->socket ? vain->socket : vain->other;
}

uint32_t opgap_polled_name(const struct pollfd *fds, nfds_t count, int result, int error)
{
  struct vain vain = {0};
  if (result < 0 && error != EINTR)
    return 0; /* perhaps EFAULT */
  for (nfds_t i = 0; i < count && vain.socket == 0; i++) {
    if (fds[i].fd < 0)
      continue;
    if (result <= 0)
      add_vain(&vain, fds[i].fd);
    else if (fds[i].revents)
      return opgap_fd_name(fds[i].fd);
  }
  return vain_name(&vain);
}

/* A caller's set lies in its frame as a rule: what is so close above ours can be read, whatever the program gave. */
#define CALLERS_BYTES 32768u

static bool in_callers_frame(const fd_set *set)
{
  uintptr_t here = (uintptr_t)__builtin_frame_address(0), at = (uintptr_t)set;
  return at > here && at - here < CALLERS_BYTES;
}

void opgap_select_before(struct opgap_selected *selected, int limit, const fd_set *readers, const fd_set *writers,
                         const fd_set *errors)
{
  const fd_set *sets[] = {readers, writers, errors};
  unsigned words = limit > 0 ? ((unsigned)limit + SELECT_BITS - 1) / SELECT_BITS : 0;
  selected->limit = limit < FD_SETSIZE ? limit : FD_SETSIZE;
  selected->all = true;
  selected->words = words < SELECT_WORDS ? words : SELECT_WORDS;
  for (unsigned w = 0; w < selected->words; w++)
    selected->bits[w] = 0;
  for (unsigned i = 0; i < sizeof sets / sizeof *sets && words > 0; i++) {
    if (sets[i] == NULL)
      continue;
    selected->all &= in_callers_frame(sets[i]);
    for (unsigned w = 0; w < selected->words && in_callers_frame(sets[i]); w++)
      selected->bits[w] |= (unsigned long)sets[i]->fds_bits[w];
  }
}

uint32_t opgap_selected_name(const struct opgap_selected *selected, const fd_set *readers, const fd_set *writers,
                             int result, int error)
{
  struct vain vain = {0};
  if (result < 0 && error != EINTR)
    return 0;
  for (int fd = 0; result > 0 && fd < selected->limit; fd++)
    if ((readers && FD_ISSET(fd, readers)) || (writers && FD_ISSET(fd, writers)))
      return opgap_fd_name(fd);
  if (result > 0)
    return 0;
  for (int fd = 0; fd < selected->limit && vain.socket == 0; fd++)
    if (selected->bits[(unsigned)fd / SELECT_BITS] >> ((unsigned)fd % SELECT_BITS) & 1)
      add_vain(&vain, fd);
  if (!selected->all && selected->limit > 0) /* sets that were not looked at: one holds the highest */
    add_vain(&vain, selected->limit - 1);
  return vain_name(&vain);
}

uint32_t opgap_epolled_name(int fd, int result)
{
  static const char sockets[] = "socket:[epoll]";
  uint32_t entry = fd < 0 ? 0 : entry_of(fd);
  if (result > 0 || !(entry & TOLD))
    return id_of(entry);
  return held[fd] > 0 ? opgap_intern(sockets, sizeof sockets - 1) : 0;
}

void opgap_hooks_session_started(void)
{
  size_t bytes = FD_LIMIT * (sizeof *table + sizeof *held);
  share_spent = false;
  if (table != NULL) {
    opgap_raw3(SYS_madvise, (long)table, (long)bytes, MADV_DONTNEED);
    return;
  }
  uint32_t *made = opgap_raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (made == NULL)
    return;
  held = (uint16_t *)(made + FD_LIMIT);
  __atomic_store_n(&table, made, __ATOMIC_RELEASE); /* who finds the one finds the other */
}
