#include "output/replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char pending[4096]; /* for the signal handler; "" none */

char *replace_begin(const char *path)
{
  char *temporary;
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return NULL;
  }
  if (asprintf(&temporary, "%s.%ld.part", path, (long)getpid()) < 0) {
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
  if (whole && rename(temporary, path) != 0) {
    error = errno;
    whole = false;
  }
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
