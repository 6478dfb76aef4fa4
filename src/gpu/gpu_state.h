/* The state of the devices that the program uses (clocks, power, what holds the clocks down, memory), sampled by NVML.
 *
 * Purpose   A GPU that is hot or at its power limit is slower without any change of the program; the trace says so.
 *           libnvidia-ml.so.1 is found at run time; without it there is no state, which is no error.
 * Threads   device: any thread, lock-free.  sample: the helper thread of life.c, which shares the program's descriptors
 *           (NVML and the driver use some).  drain: the consumer.  stop: the thread that ends the process.
 * Ownership A ring of SAMPLES between the helper and the consumer; a full ring loses the newest, uncounted: samples are
 *           no events.
 */
#ifndef OPGAP_GPU_GPU_STATE_H
#define OPGAP_GPU_GPU_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* CUPTI named a device: its number for CUDA and its UUID. */
void opgap_gpu_state_device(uint32_t id, const uint8_t uuid[16]);
/* Whether any is known.  Any thread. */
bool opgap_gpu_state_any(void);
/* Where CUPTI names none: takes the devices that CUDA shows to the program (CUDA_VISIBLE_DEVICES) from the driver,
 * which makes no context for that.  Helper.  From then on their use is sampled, too. */
enum opgap_gpu_found { OPGAP_GPU_NONE, OPGAP_GPU_NOT_YET, OPGAP_GPU_FOUND }; /* not yet: cuInit has not returned */
enum opgap_gpu_found opgap_gpu_state_find(void);
/* At most once a second; true when there are samples for the consumer.  May load a library, may block in the driver. */
bool opgap_gpu_state_sample(uint64_t now_ns);
/* Writes the samples to the trace. */
void opgap_gpu_state_drain(void);
/* No NVML call is made after it, and none is under way, unless one hangs. */
void opgap_gpu_state_stop(void);
/* In a forked child. */
void opgap_gpu_state_reset(void);

#endif
