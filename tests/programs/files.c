/* Files, streams, folders and descriptors; each call a known number of times in a folder of its own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int bad;
static char data[4096];
static volatile size_t ten = 10; /* of which the compiler of a fortified program knows nothing */

static void check(int ok, int line)
{
  if (!ok) {
    dprintf(1, "line %d: errno %d\n", line, errno); /* dprintf writes inside libc: no hook */
    bad = 1;
  }
}
#define CHECK(x) check(x, __LINE__)

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
int __open_2(const char *, int);
char *__fgets_chk(char *, size_t, int, FILE *);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
int __fcntl(int, int, ...);

/* open 5 (2 fail), write 1 = 1000, read 4 = 1000, 1 fails */
static void reading(void)
{
  errno = 77;
  int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0640);
  CHECK(fd >= 0 && errno == 77);
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0640);
  CHECK(write(fd, data, 1000) == 1000);
  CHECK(close(fd) == 0);
  CHECK(open("missing", O_RDONLY) == -1 && errno == ENOENT);
  fd = open64("a", O_RDONLY);
  CHECK(read(fd, data, 600) == 600);
  CHECK(__read_chk(fd, data, 600, sizeof data) == 400);
  CHECK(read(fd, data, 600) == 0);
  CHECK(read(-1, data, 10) == -1 && errno == EBADF);
  CHECK(close(fd) == 0);
  CHECK(close(-1) == -1 && errno == EBADF);
  fd = __open_2("a", O_RDONLY);
  CHECK(close(fd) == 0);
  CHECK(open((char *)8, O_RDONLY) == -1 && errno == EFAULT);
}

/* pread 4 = 40, preadv 2 = 40, readv 1 = 20, pwrite 2 = 20, pwritev 1 = 20, writev 1 = 20, preadv2 1 = 20 */
static void vectors(void)
{
  int fd = openat(AT_FDCWD, "b", O_RDWR | O_CREAT, 0600);
  struct iovec parts[2] = {{data, 10}, {data + 10, 10}};
  CHECK(pwrite(fd, data, 10, 0) == 10);
  CHECK(pwrite64(fd, data, 10, 10) == 10);
  CHECK(pwritev(fd, parts, 2, 20) == 20);
  CHECK(writev(fd, parts, 2) == 20);
  CHECK(pread(fd, data, ten, 0) == 10);
  CHECK(pread64(fd, data, 10, 0) == 10);
  CHECK(__pread_chk(fd, data, 10, 0, sizeof data) == 10);
  CHECK(__pread64_chk(fd, data, 10, 0, sizeof data) == 10);
  CHECK(preadv(fd, parts, 2, 0) == 20);
  CHECK(preadv64(fd, parts, 2, 0) == 20);
  CHECK(preadv2(fd, parts, 2, 0, 0) == 20);
  CHECK(readv(fd, parts, 2) == 20);
  CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
  void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(map != MAP_FAILED);
  munmap(map, 4096);
  map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(map, 4096);
  close(fd);
}

/* fopen 2 (1 fails), freopen 1, fwrite 1 = 40, fread 2 = 20, fgets 2 = 10, getline 1 = 5, getdelim 1 = 5; an optimised
 * getline is
 * __getdelim */
static ssize_t (*volatile call_getline)(char **, size_t *, FILE *) = getline;
static void streams(void)
{
  FILE *f = fopen("c", "w+");
  CHECK(fwrite("1234\n1234\n1234\n1234\n12345678901234567890", 1, 40, f) == 40);
  rewind(f);
  char line[100], *grown = NULL;
  size_t room = 0;
  CHECK(fgets(line, sizeof line, f) == line && __fgets_chk(line, sizeof line, sizeof line, f) == line);
  CHECK(call_getline(&grown, &room, f) == 5 && getdelim(&grown, &room, '\n', f) == 5);
  CHECK(fread(line, 2, 5, f) == 5 && __fread_chk(line, sizeof line, 5, 2, f) == 2);
  free(grown);
  CHECK((f = freopen("a", "r", f)) != NULL); /* named "a" from now on: the fclose is */
  CHECK(fclose(f) == 0);
  CHECK(fopen("missing", "r") == NULL && errno == ENOENT);
}

/* stat 3 (1 fails), lstat 1, fstatat 1; readdir until NULL: . .. a b c = 6; opendir 2 (1 fails) */
static void folders(void)
{
  struct stat st;
  struct stat64 st64;
  CHECK(stat("a", &st) == 0 && stat64("a", &st64) == 0 && stat("missing", &st) == -1 && errno == ENOENT);
  CHECK(lstat("a", &st) == 0 && fstatat(AT_FDCWD, "a", &st, 0) == 0);
  DIR *d = opendir(".");
  int n = 0;
  while (readdir(d))
    n++;
  CHECK(n == 5);
  CHECK(closedir(d) == 0);
  CHECK(opendir("missing") == NULL && errno == ENOENT);
}

/* the same file through four descriptors: 4 writes of 10 bytes named after it; then a pipe: 1 write, 1 read, 1 poll */
static void copies(void)
{
  int fd = creat("d", 0600);
  int copy = dup(fd), other = dup2(fd, 200), third = fcntl(fd, F_DUPFD_CLOEXEC, 100);
  CHECK(write(fd, data, 10) == 10 && write(copy, data, 10) == 10 && write(other, data, 10) == 10 &&
        write(third, data, 10) == 10);
  close(fd);
  close(copy);
  CHECK(close_range(100, 300, 0) == 0);
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(write(ends[1], "x", 1) == 1);
  struct pollfd p = {ends[0], POLLIN, 0};
  CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
  CHECK(read(ends[0], data, 10) == 1);
  close(ends[0]);
  close(ends[1]);
}

/* A checkpoint as it is often written, and the other calls on names: each once or twice, a failed one each of rename,
 * unlink, mkdir and truncate.  open 2, write 1 = 20 */
static void changes(void)
{
  int fd = open("e.tmp", O_RDWR | O_CREAT, 0600);
  CHECK(posix_fallocate(fd, 0, 4096) == 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 8192) == 0);
  CHECK(write(fd, data, 20) == 20 && ftruncate(fd, 4096) == 0 && ftruncate64(fd, 8192) == 0);
  char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  map[5000] = 'x';
  CHECK(msync(map, 8192, MS_SYNC) == 0 && syncfs(fd) == 0 && fsync(fd) == 0);
  munmap(map, 8192);
  close(fd);
  CHECK(rename("e.tmp", "e") == 0 && rename("e.tmp", "e") == -1 && errno == ENOENT);
  CHECK(renameat(AT_FDCWD, "e", AT_FDCWD, "f") == 0);
  CHECK(renameat2(AT_FDCWD, "f", AT_FDCWD, "e", 1 /* RENAME_NOREPLACE */) == 0);
  CHECK(truncate("e", 10) == 0 && truncate64("e", 20) == 0 && truncate("missing", 0) == -1 && errno == ENOENT);
  CHECK(mkdir("g", 0700) == 0 && mkdir("g", 0700) == -1 && errno == EEXIST);
  CHECK(mkdirat(AT_FDCWD, "h", 0700) == 0);
  CHECK(link("e", "g/e") == 0 && linkat(AT_FDCWD, "e", AT_FDCWD, "h/e", 0) == 0);
  CHECK(symlink("e", "i") == 0 && symlinkat("e", AT_FDCWD, "j") == 0);
  CHECK(unlink("g/e") == 0 && unlink("g/e") == -1 && errno == ENOENT);
  int folder = open("h", O_RDONLY | O_DIRECTORY);
  CHECK(unlinkat(folder, "e", 0) == 0 && unlinkat(AT_FDCWD, "h", AT_REMOVEDIR) == 0);
  close(folder);
  /* paths that the kernel does not look at */
  CHECK(link("missing", (char *)8) == -1 && errno == ENOENT && rename("missing/a", (char *)8) == -1);
  CHECK(symlink("", (char *)8) == -1 && errno == ENOENT);
  CHECK(unlinkat(AT_FDCWD, (char *)8, 0x7777) == -1 && errno == EINVAL && truncate((char *)8, -1) == -1);
  CHECK(rmdir("g") == 0 && remove("i") == 0 && remove("j") == 0 && remove("e") == 0);
}

/* flock 3 (1 fails) = 2 + 6 + 8, lockf 4 = 2 + 0 + 6 + 8, fcntl 7 (2 fail) = 2 + 5 + 8 + 6 + 8; its other commands are
 * not recorded.  open 2 */
static void locks(void)
{
  int fd = open("a", O_RDWR), other = open("a", O_RDWR);
  CHECK(flock(fd, LOCK_EX) == 0);
  CHECK(flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  CHECK(flock(fd, LOCK_UN) == 0);
  CHECK(lockf(fd, F_LOCK, 10) == 0 && lockf(fd, F_TEST, 10) == 0 && lockf64(fd, F_TLOCK, 20) == 0 &&
        lockf(fd, F_ULOCK, 0) == 0);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  CHECK(fcntl(fd, F_SETLKW, &lock) == 0);
  lock.l_type = F_RDLCK;
  CHECK(fcntl(fd, F_SETLK, &lock) == 0);
  lock.l_type = F_UNLCK;
  CHECK(fcntl64(fd, F_SETLK, &lock) == 0);
  lock.l_type = F_WRLCK;
  CHECK(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
  lock.l_type = F_WRLCK;
  lock.l_pid = 0;
  CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
  lock.l_type = F_UNLCK;
  CHECK(__fcntl(fd, F_OFD_SETLKW, &lock) == 0);
  CHECK(fcntl(fd, F_SETLK, (void *)8) == -1 && errno == EFAULT);
  CHECK(fcntl(-1, F_SETLKW, NULL) == -1 && errno == EBADF);
  CHECK(fcntl(fd, F_GETFD) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
  CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
  close(other);
  close(fd);
}

int main(int count, char **arguments)
{
  if (count > 1 && arguments[1][0] == '0')
    return 0;
  char folder[] = "/tmp/opgap-files-XXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0)
    return 2;
  reading();
  vectors();
  streams();
  folders();
  copies();
  locks();
  changes();
  unlink("a");
  unlink("b");
  unlink("c");
  unlink("d");
  if (chdir("/") != 0)
    return 2;
  rmdir(folder);
  return bad;
}
