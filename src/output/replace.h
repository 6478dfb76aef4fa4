/* A file that appears under its name only when it is whole: it is written under a temporary name beside it, and
 * renamed.  Where the name is a symbolic link, the file that it names is replaced.
 *
 * Threads   one file at a time in the process.
 */
#ifndef OPGAP_OUTPUT_REPLACE_H
#define OPGAP_OUTPUT_REPLACE_H

#include <stdbool.h>

/* Can a file of this name be made, or be written as it is where it is no plain file?  0, or the errno that it would
 * fail with; nothing is touched.  So that a wrong name is told before a long run of work, not behind it. */
int replace_check(const char *path);
/* A temporary name beside `path`, to be freed, registered so that replace_abandon removes it; NULL: errno says why. */
char *replace_begin(const char *path);
/* Renames it to `path`, or removes it when it is not `whole`; frees it.  Returns 0 or an errno. */
int replace_end(char *temporary, const char *path, bool whole);
/* Removes the temporary file in the making; may be called from a signal handler. */
void replace_abandon(void);

#endif
