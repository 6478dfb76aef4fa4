/* Finds torch in the process and registers with it, once.
 *
 * When      1. with the session, for programs linked with libtorch; 2. when Python looks up an extension's PyInit_*:
 *           torch is mapped and initialised then, and no op has run; 3. by the flusher's polling, late.
 * Threads   `stage` lets one thread at a time in; the rest belongs to that thread.  A forked child inherits the
 *           registration with torch's own memory.
 */
#include "frameworks/frameworks.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "frameworks/torch_check.h"
#include "frameworks/torch_record.h"
#include "record/build_id.h"
#include "record/clock.h"
#include "record/early.h"
#include "record/marks.h"
#include "record/raw.h"
#include "record/record.h"
#include "record/session.h"
#include "record/settings.h"

#define LIBRARY "libtorch_cpu.so"
/* Polling meets libraries that are still being loaded.  It waits until torch has been there for this long and the
 * loader has been quiet for a while; a crash of the probe may then still mean "not relocated yet". */
#define POLL_AGE_NS 2000000000ull
#define POLL_QUIET_NS 500000000ull
#define POLL_TRIES 3u

enum stage { SEARCHING, BUSY, DECIDED };
OPGAP_EARLY_DATA static _Atomic uint32_t stage = SEARCHING;
OPGAP_EARLY_DATA static _Atomic uint64_t loaded_seen; /* the loader's counter at the last search that found nothing */
static char version[64];

const char *opgap_torch_version(void)
{
  return version;
}

/* .../torch/lib/libtorch_cpu.so -> .../torch/version.py, which has a line __version__ = '2.6.0+cpu' */
static void read_version(const char *library_path)
{
  char path[1100], text[2048];
  path[0] = 0;
  strncat(path, library_path, sizeof path - 32);
  for (int i = 0; i < 2; i++) {
    char *slash = strrchr(path, '/');
    if (slash == NULL)
      return;
    *slash = 0;
  }
  strcat(path, "/version.py");
  if (opgap_raw_slurp(path, text, sizeof text) == 0)
    return;
  const char *begin = strstr(text, "__version__ = '");
  if (begin == NULL)
    return;
  begin += strlen("__version__ = '");
  size_t length = strcspn(begin, "'\n");
  if (length < sizeof version)
    memcpy(version, begin, length);
}

static void say_off(const char *why, const char *what)
{
  static bool said;
  opgap_notice(&said, "this torch (%s) is not understood: %s%s; its ops are not recorded",
               version[0] ? version : "unknown version", why, what);
}

/* The mark of a library that has passed the check in a copy of some process: the copy costs 2 ms, and then a fault for
 * each page that the program writes again, 13,000 to 22,000 of them.  One with the same build id has the same code.  Of
 * this version of the tracer, since another may use torch otherwise.  False: the library has no build id. */
static bool name_mark(const struct opgap_loaded *library, char mark[OPGAP_MARK_NAME])
{
  static const char prefix[] = "torch-", suffix[] = "-" OPGAP_VERSION;
  char *at = mark + sizeof prefix - 1;
  static_assert(sizeof prefix + OPGAP_BUILD_ID_TEXT + sizeof suffix <= OPGAP_MARK_NAME, "name of a mark");
  memcpy(mark, prefix, sizeof prefix);
  size_t length = opgap_build_id(library->base, library->headers, library->header_count, at);
  memcpy(at + length, suffix, sizeof suffix);
  return length > 0;
}

/* Registers with this library; says why not.  True: decided for good. */
static bool register_with(const struct opgap_loaded *library, bool late, bool last_try)
{
  struct opgap_torch_api api;
  unsigned sequence_offset = 0;
  char reason[128];
  read_version(library->path);
  const char *missing = opgap_torch_api_load(library, &api);
  if (missing != NULL) {
    say_off("it lacks ", missing);
    return true;
  }
  char mark[OPGAP_MARK_NAME];
  bool markable = name_mark(library, mark), marked = markable && opgap_mark_stands(mark);
  /* a library that polling found may not be relocated yet, and then crashes although it is the one that passed */
  bool proved = !late && (marked || (markable && opgap_mark_stands_beside(mark)));
  enum opgap_check_result result = opgap_torch_check(&api, proved, &sequence_offset, reason, sizeof reason);
  if (result == OPGAP_CHECK_PASSED) {
    opgap_torch_record_start(&api, sequence_offset, late);
    if (markable && !marked)
      opgap_mark_leave(mark);
    return true;
  }
  if (last_try)
    say_off(reason, "");
  return last_try;
}

/* Ops are asked for, or steps, which torch's ranges tell. */
OPGAP_EARLY_CODE static bool needed(void)
{
  return (opgap_settings->hooks & OPGAP_GROUP_torch) || opgap_settings->schedule.active > 0;
}

OPGAP_EARLY_CODE static bool enter(void)
{
  uint32_t searching = SEARCHING;
  return atomic_load_explicit(&stage, memory_order_relaxed) == SEARCHING &&
         atomic_compare_exchange_strong(&stage, &searching, BUSY);
}
OPGAP_EARLY_CODE static void leave(bool decided)
{
  atomic_store(&stage, decided ? DECIDED : SEARCHING);
}

/* Looks among the loaded objects, at a moment when they are all initialised. */
OPGAP_EARLY_CODE static void search_now(void)
{
  if (!needed() || !enter())
    return;
  uint64_t loaded = opgap_loaded_count();
  bool decided = false;
  if (loaded != atomic_load_explicit(&loaded_seen, memory_order_relaxed)) {
    struct opgap_loaded library;
    if (opgap_loaded_find(LIBRARY, &library))
      decided = register_with(&library, false, true);
    else
      atomic_store_explicit(&loaded_seen, loaded, memory_order_relaxed);
  }
  leave(decided);
}

OPGAP_EARLY_CODE void opgap_frameworks_session_started(void)
{
  /* Not in a forked child: it may come from any hook there, and the loader's lock may have been held at the fork. */
  OPGAP_EARLY_DATA static bool constructor_done;
  if (constructor_done)
    return;
  constructor_done = true;
  int saved = errno;
  search_now();
  errno = saved;
}

void opgap_torch_module_init(const char *pyinit_name)
{
  (void)pyinit_name; /* any extension may bring torch: torch._C, functorch._C, a user's own */
  int saved = errno;
  search_now();
  errno = saved;
}

/* What polling remembers; the flusher's alone. */
static struct {
  uint64_t loaded, changed_ns; /* the loader's counter and when it last changed */
  uint64_t found_ns;           /* torch was first seen; 0: not yet */
  unsigned tries;
} polled;

static bool poll_found_torch(uint64_t now)
{
  struct opgap_loaded library;
  uint64_t loaded = opgap_loaded_count();
  if (loaded != polled.loaded) {
    polled.loaded = loaded;
    polled.changed_ns = now;
    if (polled.found_ns == 0 && opgap_loaded_find(LIBRARY, &library))
      polled.found_ns = now;
  }
  return polled.found_ns != 0 && now - polled.found_ns >= POLL_AGE_NS * (polled.tries + 1) &&
         now - polled.changed_ns >= POLL_QUIET_NS;
}

void opgap_frameworks_poll(void)
{
  if (atomic_load_explicit(&stage, memory_order_relaxed) != SEARCHING || !needed())
    return;
  int saved = errno;
  struct opgap_loaded library;
  if (poll_found_torch(opgap_clock_ns()) && enter()) {
    bool decided = false;
    if (opgap_loaded_find(LIBRARY, &library))
      decided = register_with(&library, true, ++polled.tries >= POLL_TRIES);
    leave(decided);
  }
  errno = saved;
}
