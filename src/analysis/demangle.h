/* Kernel symbols as their sources have them.
 *
 * Threads   one at a time per demangler.
 */
#ifndef OPGAP_ANALYSIS_DEMANGLE_H
#define OPGAP_ANALYSIS_DEMANGLE_H

#include <stddef.h>

/* NULL where the C++ runtime, which has the demangler, is not installed: kernels keep their symbols. */
typedef char *(*opgap_demangler)(const char *symbol, char *buffer, size_t *size, int *status);
opgap_demangler opgap_demangler_find(void);
/* The name of a mangled symbol, to be freed; NULL when it is none. */
char *opgap_demangle(opgap_demangler demangler, const char *symbol);

#endif
