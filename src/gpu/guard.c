/* Another user of CUPTI in the same process (torch.profiler, nsys, PAPI): its process-wide calls come through here.
 *
 * CUPTI has one subscriber and one pair of buffer callbacks a process, so opgap lets go before such a call goes through
 * and takes CUPTI back when the other is done.  opgap's own calls use the library's addresses and never come here.
 *
 * Threads: the program's.  Arguments and results are the real function's.
 */
#include "gpu/cupti_api.h"
#include "gpu/life.h"

#define EXPORT __attribute__((visibility("default")))
#define NOT_INITIALIZED CUPTI_NOT_INITIALIZED /* as CUPTI without a driver says */

EXPORT int cuptiSubscribe(void **subscriber, cupti_callback_fn callback, void *user);
EXPORT int cuptiSubscribe_v2(void **subscriber, cupti_callback_fn callback, void *user, void *parameters);
EXPORT int cuptiUnsubscribe(void *subscriber);
EXPORT int cuptiActivityRegisterCallbacks(cupti_request_fn request, cupti_complete_fn complete);
EXPORT int cuptiFinalize(void);

/* Looked up on each call: these are rare, and the library may have been loaded anywhere since the last one. */
#define REAL(name) ((__typeof__(&(name)))opgap_gpu_find_symbol("libcupti.so", #name))

int cuptiSubscribe(void **subscriber, cupti_callback_fn callback, void *user)
{
  __typeof__(&cuptiSubscribe) real = REAL(cuptiSubscribe);
  if (real == NULL)
    return NOT_INITIALIZED;
  opgap_gpu_foreign_enter();
  int result = real(subscriber, callback, user);
  opgap_gpu_foreign_leave(result == CUPTI_OK);
  return result;
}

int cuptiSubscribe_v2(void **subscriber, cupti_callback_fn callback, void *user, void *parameters)
{
  __typeof__(&cuptiSubscribe_v2) real = REAL(cuptiSubscribe_v2);
  if (real == NULL)
    return NOT_INITIALIZED;
  opgap_gpu_foreign_enter();
  int result = real(subscriber, callback, user, parameters);
  opgap_gpu_foreign_leave(result == CUPTI_OK);
  return result;
}

int cuptiUnsubscribe(void *subscriber)
{
  __typeof__(&cuptiUnsubscribe) real = REAL(cuptiUnsubscribe);
  if (real == NULL)
    return NOT_INITIALIZED;
  int result = real(subscriber);
  opgap_gpu_foreign_leave(result != CUPTI_OK);
  return result;
}

int cuptiActivityRegisterCallbacks(cupti_request_fn request, cupti_complete_fn complete)
{
  __typeof__(&cuptiActivityRegisterCallbacks) real = REAL(cuptiActivityRegisterCallbacks);
  if (real == NULL)
    return NOT_INITIALIZED;
  opgap_gpu_foreign_enter();
  int result = real(request, complete);
  opgap_gpu_foreign_leave(true);
  return result;
}

int cuptiFinalize(void)
{
  __typeof__(&cuptiFinalize) real = REAL(cuptiFinalize);
  if (real == NULL)
    return NOT_INITIALIZED;
  opgap_gpu_foreign_enter();
  int result = real();
  opgap_gpu_foreign_leave(false);
  return result;
}
