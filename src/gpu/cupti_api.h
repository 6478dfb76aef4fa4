/* Finding the CUPTI library and binding its functions.
 *
 * Threads   opgap_cupti_bind on one thread at a time (the life lock of life.c); readers after it.
 * Ownership The library stays loaded for ever.
 */
#ifndef OPGAP_GPU_CUPTI_API_H
#define OPGAP_GPU_CUPTI_API_H

#include <stdbool.h>

#include "gpu/cupti_abi.h"

struct opgap_cupti {
#define X(required, name, parameters) int(*name) parameters;
  CUPTI_FUNCTIONS(X)
#undef X
  uint32_t version; /* as cuptiGetVersion: 13 for CUDA 11.0 ... 24 for 12.6, 130000 for 13.0 */
};

/* The bound functions; all NULL until opgap_cupti_bind succeeded. */
extern struct opgap_cupti opgap_cupti;

/* Takes the library that the process has loaded, else the one beside its CUDA runtime, of CUDA_HOME, of the loader's
 * path, of the usual places.  On a program's thread: loads a library, may allocate.  Returns NULL or the reason why
 * not (static text). */
const char *opgap_cupti_bind(void);

/* Whether a library whose file name begins so is loaded.  Takes the loader's lock. */
bool opgap_gpu_library_loaded(const char *library);

#endif
