#include "record/marks.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "record/internal.h"
#include "record/raw.h"

/* How much is looked at beside the trace: of the folder's list, and traces. */
#define LIST_BYTES 4096u
#define LIST_READS 8u
#define TRACES 16u

struct path {
  char text[sizeof opgap_config.folder + OPGAP_MARK_NAME + 1];
};

static void make_path(struct path *path, const char *folder, const char *name)
{
  struct opgap_text text = {path->text, path->text + sizeof path->text - 1};
  opgap_text_string(&text, folder);
  opgap_text_string(&text, "/");
  opgap_text_string(&text, name);
}

static bool is_own(int folder, const char *path, mode_t type, struct stat *status)
{
  return opgap_raw6(SYS_newfstatat, folder, (long)path, (long)status, AT_SYMLINK_NOFOLLOW, 0, 0) == 0 &&
         (status->st_mode & S_IFMT) == type && status->st_uid == (uid_t)opgap_raw3(SYS_getuid, 0, 0, 0);
}

static bool is_mark(int folder, const char *path)
{
  struct stat status;
  return is_own(folder, path, S_IFREG, &status) && status.st_size == 0;
}

bool opgap_mark_stands(const char *name)
{
  struct path path;
  if (opgap_confined)
    return false;
  make_path(&path, opgap_config.folder, name);
  return is_mark(AT_FDCWD, path.text);
}

static bool is_trace(const char *name)
{
  static const char ending[] = ".opgap";
  size_t length = strlen(name);
  return length >= sizeof ending && strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

/* In one of the traces among the entries of a folder; *left: how many may still be looked at. */
static bool stands_in(int folder, const char *entries, long length, const char *name, unsigned *left)
{
  for (long next = 0; next<length && * left> 0;) {
    const struct dirent64 *entry = (const void *)(entries + next);
    struct path path;
    struct stat status;
    next += entry->d_reclen;
    if (!is_trace(entry->d_name))
      continue;
    --*left;
    make_path(&path, entry->d_name, name);
    if (is_own(folder, entry->d_name, S_IFDIR, &status) && is_mark(folder, path.text))
      return true;
  }
  return false;
}

bool opgap_mark_stands_beside(const char *name)
{
  _Alignas(struct dirent64) char entries[LIST_BYTES];
  struct path path;
  unsigned left = TRACES;
  bool found = false;
  if (opgap_confined)
    return false;
  make_path(&path, opgap_config.folder, "..");
  int folder = (int)opgap_raw_open(path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0)
    return false;
  for (unsigned i = 0; i < LIST_READS && !found && left > 0; i++) {
    long length = opgap_raw3(SYS_getdents64, folder, (long)entries, sizeof entries);
    if (length <= 0)
      break;
    found = stands_in(folder, entries, length, name, &left);
  }
  opgap_raw_close(folder);
  return found;
}

void opgap_mark_leave(const char *name)
{
  struct path path;
  if (opgap_confined)
    return;
  make_path(&path, opgap_config.folder, name);
  int fd = (int)opgap_raw_open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0)
    opgap_raw_close(fd);
}
