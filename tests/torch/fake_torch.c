/* A stand-in for libtorch_cpu.so with the observer interface of at::RecordFunction, and wrong variants of it.
 *
 * The right one follows ATen/record_function.h of PyTorch 1.12 and later: RecordFunctionCallback (start, end, sampling
 * probability, scopes[10], needs_inputs, needs_outputs, needs_ids; passed by value), RecordFunction (virtual
 * destructor; sequence number at 200), ObserverContext (deleted through its virtual destructor after the end callback),
 * and the mangled names of the Itanium C++ ABI.  FAKE_* macros make the variants:
 *
 *   FAKE_SHIFT=N      scopes lie N bytes further
 *   FAKE_SWAPPED      end comes before start in the callback
 *   FAKE_SILENT       callbacks are never run
 *   FAKE_DEAF         every callback runs, whatever its scopes
 *   FAKE_OTHER_NAME   name() returns something else
 *   FAKE_NO_DELETE    contexts are not deleted
 *   FAKE_LARGE        RecordFunction has 4 KiB
 *   FAKE_CRASH        the constructor ends in SIGSEGV
 *   FAKE_HANG         the constructor never returns
 *   FAKE_HANG_ONCE    the same, the first time that the file named in FAKE_MARK does not exist
 *   FAKE_COUNT        the constructor adds a byte to the file named in FAKE_MARK if it runs in a copy of the process
 *   FAKE_OLD          at::getStepCallbacks is missing, as before torch 1.12
 */
#include "fake_torch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef FAKE_SHIFT
#define FAKE_SHIFT 0
#endif

typedef void **start_function(void **context, const void *function);
typedef void end_function(const void *function, void *context);

struct callback { /* 40 bytes as in torch, or more when shifted */
#ifdef FAKE_SWAPPED
  end_function *end;
  start_function *start;
#else
  start_function *start;
  end_function *end;
#endif
  double probability;
#if FAKE_SHIFT
  uint8_t shift[FAKE_SHIFT];
#endif
  uint8_t scopes[10];
  uint8_t needs_inputs, needs_outputs, needs_ids;
};

struct context {
  void (*const *vtable)(void *); /* destructor, deleting destructor */
};

#define MAX_CALLBACKS 64
struct fake_function {
  const void *vtable;
  uint64_t unused[11];
  uint8_t scope; /* at 96 */
  uint8_t asynchronous;
  uint16_t count;
  uint32_t handles[23];
  int64_t sequence; /* at 200 */
  char name[128];
  struct {
    const struct callback *callback;
    void *context;
  } running[12];
#ifdef FAKE_LARGE
  uint8_t large[4096];
#endif
};

static struct callback global_callbacks[MAX_CALLBACKS];
static int global_count;
static __thread struct callback local_callback;
static __thread bool local_set;

#define NAMED(symbol) __asm__(symbol)
uint64_t add_global(struct callback callback) NAMED("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
uint64_t add_local(struct callback callback) NAMED("_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE");
void remove_callback(uint64_t handle) NAMED("_ZN2at14removeCallbackEm");
const char *function_name(const struct fake_function *f) NAMED("_ZNK2at14RecordFunction4nameEv");
bool function_is_async(const struct fake_function *f) NAMED("_ZNK2at14RecordFunction7isAsyncEv");
void function_construct(struct fake_function *f, uint8_t scope) NAMED("_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
void function_destruct(struct fake_function *f) NAMED("_ZN2at14RecordFunctionD1Ev");
void function_before(struct fake_function *f, const char *name, int64_t sequence)
    NAMED("_ZN2at14RecordFunction6beforeEPKcl");
#ifndef FAKE_OLD
void step_callbacks(void) NAMED("_ZN2at16getStepCallbacksENS_11RecordScopeE");
void step_callbacks(void)
{
}
#endif
void *PyInit__fake(void);
void *PyInit__fake(void)
{
  return NULL;
}

uint64_t add_global(struct callback callback)
{
  global_callbacks[global_count] = callback;
  return (uint64_t)++global_count;
}

uint64_t add_local(struct callback callback)
{
  local_callback = callback;
  local_set = true;
  return 1000;
}

void remove_callback(uint64_t handle)
{
  if (handle == 1000)
    local_set = false;
}

int fake_callback_count(void)
{
  return global_count;
}

const char *function_name(const struct fake_function *f)
{
#ifdef FAKE_OTHER_NAME
  (void)f;
  return "something else";
#else
  return f->name;
#endif
}

bool function_is_async(const struct fake_function *f)
{
  return f->asynchronous;
}

#ifdef FAKE_COUNT
static pid_t loader; /* the process that has loaded this library */
static __attribute__((constructor)) void remember_loader(void)
{
  loader = getpid();
}
#endif

static void misbehave_if_asked(void)
{
#if defined(FAKE_CRASH)
  raise(SIGSEGV);
#elif defined(FAKE_HANG)
  for (;;)
    pause();
#elif defined(FAKE_HANG_ONCE)
  const char *mark = getenv("FAKE_MARK");
  if (mark != NULL && open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0)
    for (;;)
      pause();
#elif defined(FAKE_COUNT)
  if (getpid() == loader)
    return;
  int fd = open(getenv("FAKE_MARK"), O_CREAT | O_APPEND | O_WRONLY, 0600);
  if (fd < 0 || write(fd, "c", 1) != 1)
    raise(SIGSEGV); /* the copy did not have what it takes to count: not passed in silence */
  close(fd);
#endif
}

void function_construct(struct fake_function *f, uint8_t scope)
{
  misbehave_if_asked();
  memset(f, 0, sizeof *f);
  f->scope = scope;
  f->sequence = -1;
}

static void start_one(struct fake_function *f, const struct callback *callback)
{
#ifdef FAKE_DEAF
  bool runs = true;
#else
  bool runs = callback->scopes[f->scope];
#endif
#ifdef FAKE_SILENT
  runs = false;
#endif
  if (!runs || callback->probability < 1.0 || f->count == sizeof f->running / sizeof *f->running)
    return;
  f->running[f->count].callback = callback;
  callback->start(&f->running[f->count].context, f);
  f->count++;
}

void function_before(struct fake_function *f, const char *name, int64_t sequence)
{
  strncpy(f->name, name, sizeof f->name - 1);
  f->sequence = sequence;
  for (int i = 0; i < global_count; i++)
    start_one(f, &global_callbacks[i]);
  if (local_set)
    start_one(f, &local_callback);
}

void function_destruct(struct fake_function *f)
{
  for (int i = 0; i < f->count; i++) {
    struct context *context = f->running[i].context;
    f->running[i].callback->end(f, context);
#ifndef FAKE_NO_DELETE
    if (context != NULL)
      context->vtable[1](context);
#endif
  }
}

struct fake_function *fake_begin(unsigned char scope, const char *name, long sequence, int asynchronous)
{
  struct fake_function *f = malloc(sizeof *f);
  if (f == NULL)
    abort();
  function_construct(f, scope);
  f->asynchronous = asynchronous != 0;
  function_before(f, name, sequence);
  return f;
}

void fake_end(struct fake_function *f)
{
  function_destruct(f);
  free(f);
}
