/* Will the program that is about to be executed be traced?  Then its own trace tells of it.
 *
 * Context   any, also a signal handler; before exec.  Opens and closes the file.  Keeps errno. */
#ifndef OPGAP_HOOKS_NEXT_IMAGE_H
#define OPGAP_HOOKS_NEXT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* True only if it is certain: the environment still names this trace and this library (is_own says so of an entry of
 * LD_PRELOAD), and the program, or its interpreter (#!), is one that glibc's loader loads into, without privileges of
 * its own.  program: a path; a name without a slash is looked up by libc alone. */
__attribute__((visibility("hidden"))) bool opgap_stays_traced(const char *program, char *const envp[],
                                                              bool (*is_own)(const char *entry, size_t length));

/* False: the kernel would answer EFAULT (or does not get so far); nothing here may look at them.  A system call a page,
 * some 0.1 us. */
__attribute__((visibility("hidden"))) bool opgap_image_is_readable(const char *program, char *const envp[]);

#endif
