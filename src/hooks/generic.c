/* The wrappers that hooks.def describes completely: spans and wake-up edges.
 *
 * Context: any, see hooks.h.  Shape of each: one test, the thread's slot, the record, the real call in between. */
#include "hooks/hooks.h"

#include "record/cuda_calls.h"

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

/* Known when it is compiled: CUPTI may record this call in our stead. */
#define MAY_BE_CUPTIS(group) (__builtin_strcmp(#group, "cudart") == 0)

#define CALL_BEFORE(base, group, type, name, args, object, value, status)                                              \
  const uint64_t object_ = (object);                                                                                   \
  const uint32_t reporter_ =                                                                                           \
      MAY_BE_CUPTIS(group) ? atomic_load_explicit(&opgap_cuda_reporter, memory_order_acquire) : 0;                     \
  const uint64_t start_ = opgap_call_begin(thread_, OPGAP_HOOK_ID_##base, object_);                                    \
  type result = opgap_real.name args;                                                                                  \
  const int error = errno;                                                                                             \
  (void)error;                                                                                                         \
  if (MAY_BE_CUPTIS(group) && !opgap_cuda_is_ours(thread_, reporter_, #base, start_, (uint32_t)(status)))              \
    return result;                                                                                                     \
  opgap_hook_end(thread_, OPGAP_HOOK_ID_##base, start_, object_, (uint64_t)(value), (uint32_t)(status));               \
  return result;

#define CALL_AFTER(base, group, type, name, args, object, value, status)                                               \
  const uint64_t start_ = opgap_call_begin(thread_, OPGAP_HOOK_ID_##base, 0);                                          \
  type result = opgap_real.name args;                                                                                  \
  const int error = errno;                                                                                             \
  const uint64_t end_ = opgap_ticks();                                                                                 \
  opgap_hook_end_at(thread_, OPGAP_HOOK_ID_##base, start_, end_, (object), (uint64_t)(value), (uint32_t)(status));     \
  return result;

/* A function of a library that comes later (CUDA, NCCL) can be called while its slot is still unbound. */
#define WRAPPER(call, base, group, type, name, params, args, object, value, status)                                    \
  PASS(type, name, params, args)                                                                                       \
  OPGAP_EXPORT type name params                                                                                        \
  {                                                                                                                    \
    struct opgap_thread *thread_ = OPGAP_ENTER(group);                                                                 \
    if (opgap_unlikely(thread_ == NULL || opgap_real.name == NULL))                                                    \
      return pass_##name args;                                                                                         \
    call(base, group, type, name, args, object, value, status)                                                         \
  }

#define OPGAP_SPAN(group, flags, type, name, params, args, object, value, status, doc)                                 \
  WRAPPER(CALL_BEFORE, name, group, type, name, params, args, object, value, status)
#define OPGAP_SPAN_AFTER(group, flags, type, name, params, args, object, value, status, doc)                           \
  WRAPPER(CALL_AFTER, name, group, type, name, params, args, object, value, status)
#define CALL_OF_SPAN CALL_BEFORE
#define CALL_OF_SPAN_AFTER CALL_AFTER
#define OPGAP_ALIAS(kind, base, group, type, name, params, args, object, value, status)                                \
  WRAPPER(CALL_OF_##kind, base, group, type, name, params, args, object, value, status)
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
