/* Finding the CUPTI library, binding its functions, and the subscription to it.
 *
 * CUPTI has two interfaces that exclude each other in a process.  The first, of all versions, has one subscriber and
 * one set of kinds, buffers and clock a process.  The second ("_v2", CUDA 13.3) gives each of several subscribers its
 * own.  opgap uses the second only beside another user of it ("shared"), because there whoever comes first decides for
 * all whether graphs are seen whole, and that is not for a tracer to decide.
 *
 * Threads   bind, subscribe, unsubscribe, enable, disable: one thread at a time (the life lock of life.c); the others
 *           also on CUPTI's callbacks.
 * Ownership The library stays loaded for ever.
 */
#ifndef OPGAP_GPU_CUPTI_API_H
#define OPGAP_GPU_CUPTI_API_H

#include <stdbool.h>

#include "gpu/cupti_abi.h"

struct opgap_cupti {
#define X(required, name, parameters) int(*name) parameters;
  CUPTI_FUNCTIONS(X)
  CUPTI_SHARED_FUNCTIONS(X)
#undef X
  uint32_t version; /* as cuptiGetVersion: 13 for CUDA 11.0 ... 24 for 12.6, 130000 for 13.0 */
  bool can_share;   /* the second interface is complete */
};

/* Whether a device node of NVIDIA's kernel driver is there (also WSL's and Jetson's).  One to three system calls. */
bool opgap_cupti_device_node(void);

/* The bound functions; all NULL until opgap_cupti_bind succeeded. */
extern struct opgap_cupti opgap_cupti;

/* Takes the library that the process has loaded, else the one beside its CUDA runtime, of CUDA_HOME, of the loader's
 * path, of the usual places.  On a program's thread: loads a library, may allocate.  Returns NULL or the reason why
 * not (static text). */
const char *opgap_cupti_bind(void);

/* Subscribes by the first interface, else as one of several by the second, when others do, too; `callback` learns of
 * new contexts.  Results here and below are CUPTI's. */
int opgap_cupti_subscribe(cupti_callback_fn callback);
void opgap_cupti_unsubscribe(void);
/* Whether the subscription is one of several. */
bool opgap_cupti_shared(void);
/* Whether somebody subscribed by the second interface and allows others. */
bool opgap_cupti_others_share(void);
/* Whether a subscriber of the second interface collects anything: it has made its choices then. */
bool opgap_cupti_others_collect(void);

int opgap_cupti_register(void);
int opgap_cupti_enable(int kind);
int opgap_cupti_disable(int kind);
/* One call more or less than the kind gives; false where CUPTI cannot. */
bool opgap_cupti_driver_call(uint32_t cbid, bool on);
bool opgap_cupti_runtime_call(uint32_t cbid, bool on);
/* Whether a graph comes as one record, when the others decide that. */
bool opgap_cupti_graphs_whole(void);
/* Threads by gettid, and the clock `now`; false: CUPTI keeps its own clock. */
bool opgap_cupti_configure(cupti_timestamp_fn now);
/* Gives the next user of the first interface the thread ids and the clock that it would have found without us. */
void opgap_cupti_restore(void);
/* The clock that the program registered, for opgap_cupti_restore. */
void opgap_cupti_program_clock(cupti_timestamp_fn now);

int opgap_cupti_now(uint64_t *timestamp);
int opgap_cupti_next_record(uint8_t *buffer, size_t valid, void **record);
size_t opgap_cupti_dropped(void); /* since the last call */

/* Whether a library whose file name begins so is loaded.  Takes the loader's lock. */
bool opgap_gpu_library_loaded(const char *library);

#endif
