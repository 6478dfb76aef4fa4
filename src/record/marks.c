#include "record/marks.h"

#include <sys/stat.h>

#include "record/internal.h"
#include "record/raw.h"

struct path {
  char text[sizeof opgap_config.folder + OPGAP_MARK_NAME + 1];
};

static void make_path(struct path *path, const char *name)
{
  struct opgap_text text = {path->text, path->text + sizeof path->text - 1};
  opgap_text_string(&text, opgap_config.folder);
  opgap_text_string(&text, "/");
  opgap_text_string(&text, name);
}

bool opgap_mark_stands(const char *name)
{
  struct path path;
  struct stat status;
  if (opgap_confined)
    return false;
  make_path(&path, name);
  return opgap_raw6(SYS_newfstatat, AT_FDCWD, (long)path.text, (long)&status, AT_SYMLINK_NOFOLLOW, 0, 0) == 0 &&
         S_ISREG(status.st_mode) && status.st_size == 0 && status.st_uid == (uid_t)opgap_raw3(SYS_getuid, 0, 0, 0);
}

void opgap_mark_leave(const char *name)
{
  struct path path;
  if (opgap_confined)
    return;
  make_path(&path, name);
  int fd = (int)opgap_raw_open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0)
    opgap_raw_close(fd);
}
