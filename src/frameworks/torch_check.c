/* See torch_check.h.
 *
 * What is proved, with a thread-local observer and a RecordFunction of our own in a buffer filled with a pattern:
 *   the observer fires exactly once at start and at end, and not for a scope it did not ask for (callback struct);
 *   name() returns the name given (descriptor, RecordFunction); the context makes the round trip and is deleted once
 *   (hidden result, vtable); the object stays inside its buffer and below a bound; where it keeps the sequence number.
 *
 * A wrong guess may crash or hang, so the first run is in a copy of the process (record/probe.h), unless the same
 * library has passed in another process.  One that does not end says nothing about the layout: "unsure", and one more
 * try.
 */
#include "frameworks/torch_check.h"

#include <string.h>

#include "record/probe.h"
#include "record/raw.h"
#include "record/record.h"

#define OBJECT_LIMIT 1024u /* no RecordFunction is larger (544 bytes in torch 2.x) */
#define GUARD 4096u        /* untouched bytes on both sides */
#define PATTERN 0xa5
#define SENTINEL_SEQUENCE 0x5afec0de0badf00dll
/* longer than what std::string keeps inside itself, so that both representations are met */
static const char sentinel_name[] = "opgap self-check: longer than a small string";

enum finding {
  FOUND_GOOD,
  FOUND_NO_HANDLE,
  FOUND_NOT_ONCE,
  FOUND_SCOPE_IGNORED,
  FOUND_OTHER_NAME,
  FOUND_OTHER_CONTEXT,
  FOUND_TOO_LARGE,
  FOUND_COUNT,
};
static const char *const finding_texts[FOUND_COUNT] = {
    "good",
    "no callback handle",
    "the callback did not run exactly once",
    "the callback ran for a scope it did not ask for",
    "another name came back",
    "the observer context did not come back once",
    "the object is larger than expected",
};

/* State of the one check that runs. */
static struct {
  const struct opgap_torch_api *api;
  unsigned starts, ends, deletions;
  bool name_matched, context_matched;
  unsigned sequence_offset;
  struct opgap_torch_context context;
  _Alignas(64) unsigned char buffer[GUARD + OBJECT_LIMIT + GUARD];
} probe;

static void *probe_object(void)
{
  return probe.buffer + GUARD;
}

static void context_destroy(void *context)
{
  (void)context;
}
static void context_delete(void *context)
{
  if (context == &probe.context)
    probe.deletions++;
}
static const struct opgap_torch_vtable probe_vtable = {NULL, NULL, context_destroy, context_delete};

static void find_sequence(void)
{
  const int64_t *words = probe_object();
  for (unsigned i = 1; i < OBJECT_LIMIT / 8 && probe.sequence_offset == 0; i++)
    if (words[i] == SENTINEL_SEQUENCE)
      probe.sequence_offset = i * 8;
}

static void **probe_start(void **context, opgap_torch_function *function)
{
  *context = NULL;
  if (function == probe_object()) {
    probe.starts++;
    const char *name = probe.api->name(function);
    probe.name_matched = name != NULL && strcmp(name, sentinel_name) == 0;
    probe.context.vtable = &probe_vtable.destroy;
    *context = &probe.context;
    find_sequence();
  }
  return context;
}
static void probe_end(opgap_torch_function *function, void *context)
{
  if (function == probe_object()) {
    probe.ends++;
    probe.context_matched = context == &probe.context;
  }
}

static bool pattern_stands(size_t from, size_t to)
{
  for (size_t i = from; i < to; i++)
    if (probe.buffer[i] != PATTERN)
      return false;
  return true;
}

/* A user range from its beginning to its end, seen by an observer of `observed_scope` on this thread alone.
 * 0: torch gave no handle. */
static uint64_t run_range(uint8_t observed_scope)
{
  const struct opgap_torch_api *api = probe.api;
  memset(probe.buffer, PATTERN, sizeof probe.buffer);
  struct opgap_torch_callback callback = {.start = probe_start, .end = probe_end, .sampling_probability = 1.0};
  callback.scopes[observed_scope] = 1;
  uint64_t handle = api->add_thread_local_callback(callback);
  if (handle == 0)
    return 0;
  api->construct(probe_object(), OPGAP_SCOPE_USER);
  if (api->before_string)
    api->before_string(probe_object(), sentinel_name, SENTINEL_SEQUENCE);
  else
    api->before_view(probe_object(), (struct opgap_torch_descriptor){strlen(sentinel_name), sentinel_name, 0},
                     SENTINEL_SEQUENCE);
  api->destruct(probe_object());
  api->remove_callback(handle);
  return handle;
}

static enum finding run_check(const struct opgap_torch_api *api)
{
  memset(&probe, 0, sizeof probe);
  probe.api = api;
  if (run_range(OPGAP_SCOPE_USER) == 0)
    return FOUND_NO_HANDLE;
  if (probe.starts != 1 || probe.ends != 1)
    return FOUND_NOT_ONCE;
  if (!probe.name_matched)
    return FOUND_OTHER_NAME;
  if (!probe.context_matched || probe.deletions != 1)
    return FOUND_OTHER_CONTEXT;
  if (!pattern_stands(0, GUARD) || !pattern_stands(GUARD + OBJECT_LIMIT, sizeof probe.buffer))
    return FOUND_TOO_LARGE;
  if (run_range(OPGAP_SCOPE_FUNCTION) == 0)
    return FOUND_NO_HANDLE;
  return probe.starts == 1 && probe.ends == 1 ? FOUND_GOOD : FOUND_SCOPE_IGNORED;
}

static void say(char *reason, size_t size, const char *text)
{
  reason[0] = 0;
  strncat(reason, text, size - 1);
}

static int try_check(const void *api)
{
  return (int)run_check(api);
}

static enum opgap_check_result check_in_child(const struct opgap_torch_api *api, char *reason, size_t size)
{
  int found = opgap_probe(try_check, api);
  if (found == OPGAP_PROBE_NONE || found == OPGAP_PROBE_LATE) {
    say(reason, size,
        found == OPGAP_PROBE_NONE ? "no probe process could be made" : "the self-check did not end in time");
    return OPGAP_CHECK_UNSURE;
  }
  if (found == FOUND_GOOD)
    return OPGAP_CHECK_PASSED;
  say(reason, size, found > 0 && found < FOUND_COUNT ? finding_texts[found] : "the self-check crashed");
  return OPGAP_CHECK_FAILED;
}

enum opgap_check_result opgap_torch_check(const struct opgap_torch_api *api, bool proved, unsigned *sequence_offset,
                                          char *reason, size_t reason_size)
{
  enum opgap_check_result result = proved ? OPGAP_CHECK_PASSED : check_in_child(api, reason, reason_size);
  if (result == OPGAP_CHECK_UNSURE)
    result = check_in_child(api, reason, reason_size);
  if (result != OPGAP_CHECK_PASSED)
    return result;
  enum finding finding = run_check(api);
  *sequence_offset = probe.sequence_offset;
  if (finding == FOUND_GOOD)
    return OPGAP_CHECK_PASSED;
  say(reason, reason_size, finding_texts[finding]);
  return OPGAP_CHECK_FAILED;
}
