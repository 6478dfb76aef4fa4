/* The GPU side of the tracer, as the core and the hooks see it.
 *
 * Purpose   GPU kernels, copies, sets, synchronisations and CUDA API calls from CUPTI's activity interface, and ranges
 *           from NVTX.  See docs/GPU.md for the whole life of it.
 * Threads   Named at each function.  None of these functions ever initialises CUDA or creates a context, event or
 *           stream.  CUPTI itself is called on the program's threads and on one helper thread of ours, never on the
 *           flusher: the flusher has a descriptor table of its own, in which the driver's descriptors do not exist.
 * Ownership A process's GPU state belongs to that process; a forked child starts afresh (checked by pid).
 */
#ifndef OPGAP_GPU_GPU_H
#define OPGAP_GPU_GPU_H

/* Start-up, in the constructor and only when the library is preloaded: makes CUDA and NVTX call us when they initialise
 * (CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH; a value that is there already stays).  May allocate (setenv). */
void opgap_gpu_start(void);
/* Flusher, about 10 times a second while the program is busy: notices the beginning and end of a schedule's window.
 * Never calls CUPTI. */
void opgap_gpu_poll(void);
/* The thread whose step opens or closes a schedule's window: the same at once, when CUDA is up.  Never blocks. */
void opgap_gpu_window(void);
/* Consumer (drain lock held), on each drain: decodes the buffers that CUPTI has handed over since the last one. */
void opgap_gpu_drain(void);
/* The thread that calls exec, before the drain: takes what CUPTI holds; the process goes on if exec fails. */
void opgap_gpu_flush(void);
/* The thread that ends the process, before the last drain: collects what CUPTI still holds, if CUDA is still up. */
void opgap_gpu_end(void);
/* For the trace's "gpu_status": "ok", "no device" or "unavailable: reason".  Any context; static text. */
const char *opgap_gpu_status(void);

#endif
