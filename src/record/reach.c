#include "record/reach.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/recover.h"
#include "record/internal.h"
#include "record/raw.h"

extern char **environ;

/* Provided by the hooks when they are built in. */
__attribute__((weak)) void opgap_environment_without(char *const envp[], char **out, char *text);
__attribute__((weak)) size_t opgap_environment_size(char *const envp[], size_t *text_bytes);

static bool told;                  /* by this process or the one it was forked from */
static struct opgap_arena *origin; /* of the last session that began here, or where this process was forked from */
static char **own_environ, **environ_before;

void opgap_reach_begins(struct opgap_arena *arena)
{
  origin = arena;
}

/* ---- what is out of reach ---- */

/* Has the program taken itself where the paths of its start mean something else, as by chroot?  Where /proc is not
 * there, either, it has. */
static bool has_another_root(void)
{
  return opgap_config.root_folder != 0 && opgap_config.root_folder != opgap_root_folder();
}

static bool is_right_that_is_missing(long error)
{
  return error == -EACCES || error == -EPERM || error == -EROFS;
}

/* Why, in words; NULL: it is not out of reach. */
static const char *why_out_of_reach(long error)
{
  if (is_right_that_is_missing(error) || error == -EMFILE || error == -ENFILE)
    return opgap_error_words(error);
  return error == -ENOENT && has_another_root() ? "another root folder" : NULL;
}

/* Everything that this process records from now on, and what it starts. */
static void tell(const char *why)
{
  opgap_notice(&told,
               "cannot write to %s any more (%s): the rest stays in the ring, and opgap record or the next command of "
               "opgap adds it; processes that this one starts are not traced",
               opgap_config.folder, why);
}

bool opgap_reach_lost(long error)
{
  const char *why = opgap_state->arena->ring_file[0] != 0 ? why_out_of_reach(error) : NULL;
  if (why == NULL)
    return false;
  opgap_state->out_of_reach = true;
  tell(why);
  return true;
}

/* ---- who tells ---- */

/* Among the processes that come from one and cannot be traced.  Each is counted once. */
static bool is_first_sibling(void)
{
  static int counted;
  static bool first;
  int pid = opgap_raw_getpid();
  if (counted == pid)
    return first;
  counted = pid;
  first = origin == NULL || atomic_fetch_add(&origin->untraced_children, 1) == 0;
  return first;
}

bool opgap_reach_tells_start(long error)
{
  bool forked = opgap_raw_getpid() != opgap_config.loader_pid;
  if (__atomic_load_n(&told, __ATOMIC_RELAXED) || (forked && !is_first_sibling()))
    return false;
  if (why_out_of_reach(error) != NULL)
    __atomic_store_n(&told, true, __ATOMIC_RELAXED);
  return true;
}

/* The process itself is not traced.  The child of a vfork speaks for itself only, in its parent's memory. */
static void tell_for_image(const char *why)
{
  static bool said;
  bool is_vfork = opgap_cell == &opgap_tool_cell;
  if (!__atomic_load_n(&told, __ATOMIC_RELAXED) && is_first_sibling())
    opgap_notice(is_vfork ? &said : &told, "cannot write to %s (%s): what this process executes is not traced",
                 opgap_config.folder, why);
}

static bool noted; /* of this process's children */

/* For the reader, who may not see what was said. */
static void note(const char *text)
{
  if (!opgap_active || opgap_self() == NULL || __atomic_exchange_n(&noted, true, __ATOMIC_RELAXED))
    return;
  uint64_t name = opgap_intern(text, strlen(text));
  opgap_emit(OPGAP_EV_PROBE, 0, opgap_ticks(), 0, &name, 1);
}

/* ---- children ---- */

static unsigned leave_out(const char *why)
{
  if (!opgap_session_is_here()) {
    tell_for_image(why);
    return OPGAP_CHILD_OUT_OF_REACH;
  }
  if (!__atomic_load_n(&told, __ATOMIC_RELAXED)) {
    noted = true;
    tell(why);
  } else {
    note(
        "the program gave up what it takes to write to the trace: processes that it started afterwards are not traced");
  }
  opgap_reach_leave_environment();
  return OPGAP_CHILD_OUT_OF_REACH;
}

unsigned opgap_reach_of_children(void)
{
  if (opgap_confined) {
    if (opgap_session_is_here())
      note("the program gave itself a filter of system calls: processes that it started afterwards are not traced");
    return OPGAP_CHILD_CONFINED;
  }
  if (opgap_config.folder[0] == 0)
    return 0;
  long error = opgap_raw6(SYS_faccessat, AT_FDCWD, (long)opgap_config.folder, W_OK | X_OK, 0, 0, 0);
  const char *why = error < 0 ? why_out_of_reach(error) : NULL;
  return why != NULL ? leave_out(why) : 0;
}

/* ---- the environment ---- */

/* In new memory, which stays: another thread may read the old one.  Who has set a variable since has both. */
void opgap_reach_leave_environment(void)
{
  size_t bytes = 0, count;
  if (environ == NULL || environ == own_environ || !opgap_environment_size)
    return;
  count = opgap_environment_size(environ, &bytes) + 1;
  if (bytes == 0)
    return;
  char **out = opgap_raw_mmap(count * sizeof *out + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (out == NULL)
    return;
  opgap_environment_without(environ, out, (char *)(out + count));
  environ_before = environ;
  own_environ = out;
  __atomic_store_n(&environ, out, __ATOMIC_RELEASE);
}

void opgap_reach_enter_environment(void)
{
  if (own_environ != NULL && environ == own_environ)
    environ = environ_before;
  own_environ = NULL;
}
