/* What the dlsym hook does before it jumps on to the real dlsym (see stubs.S).
 *
 * Context: any thread; the program's call of dlsym.  Keeps errno. */
#include "hooks/bind.h"

/* Of src/frameworks, when it is built in. */
__attribute__((weak)) void opgap_torch_module_init(const char *name);

/* For the stub: where the real function stands. */
extern void *(**const opgap_real_dlsym)(void *, const char *)OPGAP_HIDDEN;
void *(**const opgap_real_dlsym)(void *, const char *) = &opgap_real.dlsym;

void *opgap_dlsym_notice(void *handle, const char *name) OPGAP_HIDDEN;

/* Returns the handle to search.  A hook whose real function does not exist must not be found in this library: where a
 * search of the global scope would find it, libc alone is searched, which does not have it either. */
void *opgap_dlsym_notice(void *handle, const char *name)
{
  int error = errno;
  (void)OPGAP_BOUND(dlsym);
  if (name != NULL) {
    if (opgap_torch_module_init && opgap_active && strncmp(name, "PyInit_", 7) == 0)
      opgap_torch_module_init(name);
    int slot = opgap_is_global_handle(handle) ? opgap_slot_of(name) : -1;
    if (slot >= 0 && opgap_real.slot[slot] == NULL && !opgap_bind_slot((unsigned)slot)) {
      void *libc = opgap_libc_handle();
      if (libc)
        handle = libc;
    }
  }
  errno = error;
  return handle;
}
