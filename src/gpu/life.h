/* The life of the CUPTI connection, as the other files of src/gpu see it.  States and rules: life.c. */
#ifndef OPGAP_GPU_LIFE_H
#define OPGAP_GPU_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* A buffer went out: the helper must flush from now on.  Any thread. */
void opgap_gpu_wake_helper(void);

/* Another user of CUPTI calls one of its process-wide functions (src/hooks/cupti.c).  enter: before the real call;
 * hands CUPTI over. leave: after it; `holds` tells whether that user holds CUPTI now.  The program's threads. */
void opgap_gpu_foreign_enter(void);
void opgap_gpu_foreign_leave(bool holds);
/* What it subscribes with (CUpti_SubscriberParams or NULL): whether it allows others beside it. */
bool opgap_gpu_foreign_allows(const void *parameters);
/* Whether opgap must let go before such a subscription. */
bool opgap_gpu_foreign_disturbs(const void *parameters);
/* Such a subscription is made: opgap joins it as soon as it collects. */
void opgap_gpu_foreign_shares(void);
/* The other user registered its clock. */
void opgap_gpu_foreign_clock(uint64_t (*now)(void));
/* The other user enabled or disabled a kind; returns whether it has any enabled. */
bool opgap_gpu_foreign_kind(int kind, bool on);

#endif
