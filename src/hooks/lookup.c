/* What the dlsym hook does before it jumps on to the real dlsym (see stubs.S).
 *
 * Context: any thread; the program's call of dlsym.  Keeps errno. */
#include "hooks/bind.h"

/* Of src/frameworks, when it is built in. */
__attribute__((weak)) void opgap_torch_module_init(const char *name);

/* For the stub: where the real function stands. */
extern void *(**const opgap_real_dlsym)(void *, const char *)OPGAP_HIDDEN;
void *(**const opgap_real_dlsym)(void *, const char *) = &opgap_real.dlsym;
extern long (**const opgap_real_syscall)(long, ...) OPGAP_HIDDEN;
long (**const opgap_real_syscall)(long, ...) = &opgap_real.syscall;

void *opgap_dlsym_notice(void *handle, const char *name) OPGAP_HIDDEN;

/* Searches of the global scope find our hooks by themselves.  A hook whose real function does not exist must not be
 * found in this library: libc alone is searched, which does not have it either. */
static void *global_handle(void *handle, const char *name)
{
  int slot = opgap_slot_of(name);
  if (slot < 0 || opgap_real.slot[slot] != NULL || opgap_bind_slot((unsigned)slot))
    return handle;
  void *libc = opgap_libc_handle();
  return libc ? libc : handle;
}

/* CUPTI and NCCL are often opened by hand (ctypes, profilers' plug-ins), and their functions taken from the library's
 * own handle.  Where that would find the function that our hook calls, the hook is found instead. */
static void *library_handle(void *handle, const char *name)
{
  if (!opgap_starts_with(name, "cupti") && !opgap_starts_with(name, "nccl"))
    return handle;
  int slot = opgap_slot_of(name);
  if (slot < 0 || !OPGAP_BOUND(dlsym))
    return handle;
  void *found = opgap_real.dlsym(handle, name);
  if (found == NULL || !opgap_bind_slot((unsigned)slot) || found != opgap_real.slot[slot])
    return handle;
  void *own = opgap_own_handle();
  return own ? own : handle;
}

/* Returns the handle to search. */
void *opgap_dlsym_notice(void *handle, const char *name)
{
  int error = errno;
  (void)OPGAP_BOUND(dlsym);
  if (name != NULL) {
    if (opgap_torch_module_init && opgap_active && opgap_starts_with(name, "PyInit_"))
      opgap_torch_module_init(name);
    handle = opgap_is_global_handle(handle) ? global_handle(handle, name) : library_handle(handle, name);
  }
  errno = error;
  return handle;
}
