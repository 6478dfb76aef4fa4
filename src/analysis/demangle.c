#include "analysis/demangle.h"

#include <dlfcn.h>
#include <string.h>

#ifdef OPGAP_STATIC /* a static program cannot load libraries */
extern char *__cxa_demangle(const char *symbol, char *buffer, size_t *size, int *status);

opgap_demangler opgap_demangler_find(void)
{
  return __cxa_demangle;
}
#else
opgap_demangler opgap_demangler_find(void)
{
  opgap_demangler found = NULL;
  void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
  if (runtime == NULL)
    runtime = dlopen("libc++abi.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (runtime != NULL)
    *(void **)&found = dlsym(runtime, "__cxa_demangle");
  return found;
}
#endif

char *opgap_demangle(opgap_demangler demangler, const char *symbol)
{
  int status = 0;
  if (demangler == NULL || strncmp(symbol, "_Z", 2) != 0)
    return NULL;
  return demangler(symbol, NULL, NULL, &status);
}
