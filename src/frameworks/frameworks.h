/* Framework bindings: operators of PyTorch, the markers of opgap.h.  What the session, hooks and the flusher call.
 *
 * Threads   opgap_frameworks_session_started: the thread that starts a session.  opgap_torch_module_init: the thread
 *           that looks a Python extension's entry point up.  opgap_frameworks_poll: the flusher.
 * Context   None of these holds a lock while program code runs, changes errno, or takes the loader's lock for long.
 */
#ifndef OPGAP_FRAMEWORKS_FRAMEWORKS_H
#define OPGAP_FRAMEWORKS_FRAMEWORKS_H

/* A session has begun.  In the constructor: registers at once when the program is linked with libtorch, so that not
 * even its first op is missed.  In a forked child: nothing, it inherits what its parent has. */
void opgap_frameworks_session_started(void);

/* A symbol PyInit_* is being looked up: the extension and everything it needs are mapped and initialised.  Registers
 * with torch if it is among the loaded objects.  Cheap when nothing was loaded since the last call.  Keeps errno. */
void opgap_torch_module_init(const char *pyinit_name);

/* Finds a torch that came another way (dlopen from C++).  To be called some ten times a second while the program is
 * busy; costs one look at the loader's counter when nothing was loaded. */
void opgap_frameworks_poll(void);

/* Version of the torch whose ops are recorded, as its own version.py says; "" while none is, or if unknown. */
const char *opgap_torch_version(void);

#endif
