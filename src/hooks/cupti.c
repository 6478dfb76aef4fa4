/* Another user of CUPTI in the same process (torch.profiler, PAPI): its process-wide calls come through here.
 *
 * CUPTI has one subscriber and one pair of buffer callbacks a process, so opgap lets go before such a call goes through
 * and takes CUPTI back when the other is done.  opgap's own calls use the library's addresses and never come here.
 *
 * Context: the program's threads.  Arguments and results are the real function's.
 */
#include "hooks/hooks.h"

/* Of src/gpu, when it is built in. */
__attribute__((weak)) void opgap_gpu_foreign_enter(void);
__attribute__((weak)) void opgap_gpu_foreign_leave(bool holds);
__attribute__((weak)) bool opgap_gpu_foreign_kind(int kind, bool on);
__attribute__((weak)) bool opgap_gpu_foreign_allows(const void *parameters);
__attribute__((weak)) bool opgap_gpu_foreign_disturbs(const void *parameters);
__attribute__((weak)) void opgap_gpu_foreign_shares(void);
__attribute__((weak)) void opgap_gpu_foreign_clock(uint64_t (*now)(void));

#define OPGAP_BODY(group, type, name, params, ...) type name params;
OPGAP_BODY(cuda, int, cuptiSubscribe, (void **subscriber, void *callback, void *user))
OPGAP_BODY(cuda, int, cuptiSubscribe_v2, (void **subscriber, void *callback, void *user, void *parameters))
OPGAP_BODY(cuda, int, cuptiUnsubscribe, (void *subscriber))
OPGAP_BODY(cuda, int, cuptiActivityRegisterCallbacks, (void *request, void *complete))
OPGAP_BODY(cuda, int, cuptiActivityRegisterTimestampCallback, (uint64_t(*now)(void)))
OPGAP_BODY(cuda, int, cuptiActivityEnable, (int kind))
OPGAP_BODY(cuda, int, cuptiActivityDisable, (int kind))
OPGAP_BODY(cuda, int, cuptiFinalize, (void))
#undef OPGAP_BODY

/* The real function must be there; `held`: whether the other holds CUPTI after the call. */
#define CALL(name, args, before)                                                                                       \
  if (!OPGAP_BOUND(name))                                                                                              \
    return 15; /* CUPTI_ERROR_NOT_INITIALIZED */                                                                       \
  if ((before) && opgap_gpu_foreign_enter)                                                                             \
    opgap_gpu_foreign_enter();                                                                                         \
  int result = opgap_real.name args
#define LEAVE(held)                                                                                                    \
  if (opgap_gpu_foreign_leave)                                                                                         \
    opgap_gpu_foreign_leave(held);                                                                                     \
  return result
#define GUARD(name, args, before, held)                                                                                \
  CALL(name, args, before);                                                                                            \
  LEAVE(held)

OPGAP_EXPORT int cuptiSubscribe(void **subscriber, void *callback, void *user)
{
  GUARD(cuptiSubscribe, (subscriber, callback, user), true, result == 0);
}

/* One that allows others beside it is joined. */
OPGAP_EXPORT int cuptiSubscribe_v2(void **subscriber, void *callback, void *user, void *parameters)
{
  bool disturbs = opgap_gpu_foreign_disturbs == NULL || opgap_gpu_foreign_disturbs(parameters);
  CALL(cuptiSubscribe_v2, (subscriber, callback, user, parameters), disturbs);
  if (opgap_gpu_foreign_leave)
    opgap_gpu_foreign_leave(result == 0);
  if (result == 0 && opgap_gpu_foreign_allows && opgap_gpu_foreign_allows(parameters))
    opgap_gpu_foreign_shares();
  return result;
}

OPGAP_EXPORT int cuptiUnsubscribe(void *subscriber)
{
  GUARD(cuptiUnsubscribe, (subscriber), false, result != 0);
}

OPGAP_EXPORT int cuptiActivityRegisterCallbacks(void *request, void *complete)
{
  GUARD(cuptiActivityRegisterCallbacks, (request, complete), true, true);
}

/* True while the other user collects any kind of activity. */
static bool collects(int kind, bool on)
{
  return opgap_gpu_foreign_kind == NULL || opgap_gpu_foreign_kind(kind, on);
}

/* A clock alone collects nothing (kind -1: none). */
OPGAP_EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
  CALL(cuptiActivityRegisterTimestampCallback, (now), true);
  if (result == 0 && opgap_gpu_foreign_clock)
    opgap_gpu_foreign_clock(now);
  LEAVE(collects(-1, true));
}

OPGAP_EXPORT int cuptiActivityEnable(int kind)
{
  GUARD(cuptiActivityEnable, (kind), true, collects(kind, result == 0));
}

/* torch.profiler disables its kinds when it stops, and stays subscribed. */
OPGAP_EXPORT int cuptiActivityDisable(int kind)
{
  GUARD(cuptiActivityDisable, (kind), false, collects(kind, false));
}

OPGAP_EXPORT int cuptiFinalize(void)
{
  GUARD(cuptiFinalize, (), true, false);
}
