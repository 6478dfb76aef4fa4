/* A file that appears under its name only when it is whole: it is written under a temporary name beside it, and
 * renamed.  Where the name is a symbolic link, the file that it names is replaced.
 *
 * Threads   one file at a time in the process.
 */
#ifndef OPGAP_OUTPUT_REPLACE_H
#define OPGAP_OUTPUT_REPLACE_H

#include <stdbool.h>

/* A temporary name beside `path`, to be freed, registered so that replace_abandon removes it; NULL: errno says why. */
char *replace_begin(const char *path);
/* Renames it to `path`, or removes it when it is not `whole`; frees it.  Returns 0 or an errno. */
int replace_end(char *temporary, const char *path, bool whole);
/* Removes the temporary file in the making; may be called from a signal handler. */
void replace_abandon(void);

#endif
