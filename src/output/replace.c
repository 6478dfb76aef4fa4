#include "output/replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char pending[4096]; /* for the signal handler; "" none */

/* The file that a symbolic link names, so that the link stays; else the path.  NULL: out of memory. */
static char *target_of(const char *path)
{
  char *target = realpath(path, NULL);
  return target ? target : strdup(path);
}

int replace_check(const char *path)
{
  struct stat status;
  bool exists = stat(path, &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    return EISDIR;
  if (exists && !S_ISREG(status.st_mode))
    return access(path, W_OK) == 0 ? 0 : errno;
  char *target = target_of(path), *slash = target ? strrchr(target, '/') : NULL;
  if (target == NULL)
    return ENOMEM;
  const char *folder = slash == NULL ? "." : slash == target ? "/" : target;
  if (folder == target)
    *slash = '\0';
  int error = stat(folder, &status) != 0           ? errno
              : !S_ISDIR(status.st_mode)           ? ENOTDIR
              : access(folder, W_OK | X_OK) != 0   ? errno
              : slash != NULL && slash[1] == '\0'  ? EISDIR
              : target[0] == '\0' && slash == NULL ? ENOENT
                                                   : 0;
  free(target);
  return error;
}

char *replace_begin(const char *path)
{
  char *temporary, *target;
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return NULL;
  }
  target = target_of(path);
  int length = target ? asprintf(&temporary, "%s.%ld.part", target, (long)getpid()) : -1;
  free(target);
  if (length < 0) {
    errno = ENOMEM;
    return NULL;
  }
  if (strlen(temporary) < sizeof pending)
    strcpy(pending, temporary);
  return temporary;
}

int replace_end(char *temporary, const char *path, bool whole)
{
  int error = 0;
  char *target = target_of(path);
  if (whole && (target == NULL || rename(temporary, target) != 0)) {
    error = target ? errno : ENOMEM;
    whole = false;
  }
  free(target);
  if (!whole)
    unlink(temporary);
  pending[0] = '\0';
  free(temporary);
  return error;
}

void replace_abandon(void)
{
  if (pending[0] != '\0')
    unlink(pending);
}
