/* The wrappers that hooks.def describes completely: spans and wake-up edges.
 *
 * Context: any, see hooks.h.  Shape of each: one test, the thread's slot, the record, the real call in between. */
#include "hooks/hooks.h"

#include <sys/sendfile.h>

/* The prototypes, checked against the headers'. */
#define OPGAP_SPAN(group, flags, type, name, params, ...) type name params;
#define OPGAP_SPAN_AFTER(group, flags, type, name, params, ...) type name params;
#define OPGAP_POINT(group, flags, type, name, params, ...) type name params;
#define OPGAP_ALIAS(kind, base, group, type, name, params, ...) type name params;
#include "hooks/hooks.def"

/* Out of line, so that the wrappers stay small: the call while nothing is recorded. */
#define PASS(type, name, params, args)                                                                                 \
  static __attribute__((noinline)) type pass_##name params                                                             \
  {                                                                                                                    \
    if (!OPGAP_BOUND(name))                                                                                            \
      return OPGAP_MISSING(type);                                                                                      \
    return opgap_real.name args;                                                                                       \
  }

#define CALL_BEFORE(id, type, name, args, object, value, status)                                                       \
  const uint64_t object_ = (object);                                                                                   \
  const uint64_t start_ = opgap_call_begin(thread_, id, object_);                                                      \
  type result = opgap_real.name args;                                                                                  \
  const int error = errno;                                                                                             \
  (void)error;                                                                                                         \
  opgap_hook_end(thread_, id, start_, object_, (uint64_t)(value), (uint32_t)(status));                                 \
  return result;

#define CALL_AFTER(id, type, name, args, object, value, status)                                                        \
  const uint64_t start_ = opgap_call_begin(thread_, id, 0);                                                            \
  type result = opgap_real.name args;                                                                                  \
  const int error = errno;                                                                                             \
  const uint64_t end_ = opgap_ticks();                                                                                 \
  opgap_hook_end_at(thread_, id, start_, end_, (object), (uint64_t)(value), (uint32_t)(status));                       \
  return result;

/* A function of a library that comes later (CUDA, NCCL) can be called while its slot is still unbound. */
#define WRAPPER(call, id, group, type, name, params, args, object, value, status)                                      \
  PASS(type, name, params, args)                                                                                       \
  OPGAP_EXPORT type name params                                                                                        \
  {                                                                                                                    \
    struct opgap_thread *thread_ = OPGAP_ENTER(group);                                                                 \
    if (opgap_unlikely(thread_ == NULL || opgap_real.name == NULL))                                                    \
      return pass_##name args;                                                                                         \
    call(id, type, name, args, object, value, status)                                                                  \
  }

#define OPGAP_SPAN(group, flags, type, name, params, args, object, value, status, doc)                                 \
  WRAPPER(CALL_BEFORE, OPGAP_HOOK_ID_##name, group, type, name, params, args, object, value, status)
#define OPGAP_SPAN_AFTER(group, flags, type, name, params, args, object, value, status, doc)                           \
  WRAPPER(CALL_AFTER, OPGAP_HOOK_ID_##name, group, type, name, params, args, object, value, status)
#define CALL_OF_SPAN CALL_BEFORE
#define CALL_OF_SPAN_AFTER CALL_AFTER
#define OPGAP_ALIAS(kind, base, group, type, name, params, args, object, value, status)                                \
  WRAPPER(CALL_OF_##kind, OPGAP_HOOK_ID_##base, group, type, name, params, args, object, value, status)
#define OPGAP_POINT(group, flags, type, name, params, args, object, value, status, doc)                                \
  PASS(type, name, params, args)                                                                                       \
  OPGAP_EXPORT type name params                                                                                        \
  {                                                                                                                    \
    struct opgap_thread *thread_ = OPGAP_ENTER(group);                                                                 \
    if (opgap_unlikely(thread_ == NULL || opgap_real.name == NULL))                                                    \
      return pass_##name args;                                                                                         \
    opgap_point(thread_, OPGAP_HOOK_ID_##name, object, value, 0);                                                      \
    return opgap_real.name args;                                                                                       \
  }
#include "hooks/hooks.def"
