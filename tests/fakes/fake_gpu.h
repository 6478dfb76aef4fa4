/* A simulated GPU: what the fake libraries share.
 *
 * Purpose   libcuda.so.1 (fake_cuda.c) holds the simulation; the fake libcudart, libnccl and libcupti call it through
 *           this header.  The programs under test see only the public CUDA, NCCL and CUPTI interfaces.
 * Model     A stream is a time until which it is busy.  Work starts when it was submitted (plus a launch latency), its
 *           stream is free and what it waits for is done; it ends after its duration.  No thread runs for it: whoever
 *           waits sleeps until the end.  Times are CLOCK_MONOTONIC ns.
 * Clock     CLOCK_MONOTONIC, until a program plans its time (fake_plan_begin): from then on time stands still but for
 *           what the program says, what calls take and what they wait for, so that each point in time is known
 *           beforehand.
 * Threads   Any; one spin lock inside.  Nothing here calls a function that a tracer would hook on a program's behalf
 *           (no pthread, no libc sleep, no libc allocation after start-up), as the real libraries' system calls are not
 *           seen either.
 *
 * Public sources: stream order and the legacy default stream's implicit synchronisation, pinned and pageable copies
 * (CUDA Runtime API: "Stream synchronization behavior", "API synchronization behavior"), correlation ids, streams and
 * flush rules (cupti_activity.h).
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct fake_stream {
  uint32_t id; /* as CUPTI numbers it */
  int device;
  bool non_blocking; /* does not synchronise with the default stream */
  uint64_t busy_until;
  struct fake_graph *capture; /* not NULL: work is recorded, not run */
  bool used;
};

struct fake_event {
  uint32_t id;
  uint64_t done_at; /* 0: never recorded */
};

enum fake_work_kind { FAKE_KERNEL, FAKE_MEMCPY, FAKE_MEMCPY_PEER, FAKE_MEMSET, FAKE_GRAPH };

/* Something that a device did. */
struct fake_work {
  enum fake_work_kind kind;
  const char *name;
  uint32_t device, context, stream, correlation;
  uint64_t start, end, duration;
  uint64_t bytes;
  uint8_t copy_kind, src_kind, dst_kind, flags; /* CUPTI's numbers */
  uint32_t value, peer_device;
  uint32_t grid[3], block[3], shared;
  uint32_t graph;
  uint64_t graph_node;
};

#define FAKE_GRAPH_NODES 256
struct fake_graph {
  uint32_t id;
  unsigned count;
  struct fake_work nodes[FAKE_GRAPH_NODES];
};

struct fake_api {
  int domain; /* 1 driver, 2 runtime */
  uint32_t cbid, thread, correlation, result;
  uint64_t start, end;
};

struct fake_sync {
  uint32_t type, correlation, stream, event, context; /* types as CUPTI's */
  uint64_t start, end;
};

struct fake_memory {
  uint32_t operation, kind, correlation, device, context, stream;
  uint64_t address, bytes, at;
};

struct fake_pool { /* a memory pool was made (1), destroyed (2) or trimmed (3) */
  uint32_t operation, correlation, device;
  uint64_t address, size, keep, threshold, used, at;
};

/* Whoever watches: the fake CUPTI. */
struct fake_tool {
  void (*api)(const struct fake_api *);
  void (*work)(const struct fake_work *);
  void (*sync)(const struct fake_sync *);
  void (*memory)(const struct fake_memory *);
  void (*pool)(const struct fake_pool *);
  bool (*whole_graphs)(void); /* graphs are reported whole */
  void (*context)(void);      /* a context was made */
};

/* A number from the environment variable, or `otherwise`. */
FAKE_EXPORT uint64_t fake_setting(const char *name, uint64_t otherwise);
FAKE_EXPORT uint64_t fake_now(void);
/* From now on fake_now() is the time of this call (a whole us) + the last fake_plan_at() + what passed by calls and
 * waits since: a call takes what fake_plan_calls() said, a wait lasts until what it waits for, and nothing else takes
 * time. For programs of one thread. */
FAKE_EXPORT void fake_plan_begin(void);
FAKE_EXPORT void fake_plan_at(uint64_t ns);
FAKE_EXPORT void fake_plan_calls(uint64_t ns);
/* Waits as a driver waits: by a system call that no libc hook sees, then spinning to be exact. */
FAKE_EXPORT void fake_sleep_until(uint64_t ns);
FAKE_EXPORT void fake_set_tool(const struct fake_tool *tool);
/* The names of functions that the fake CUPTI gives out. */
FAKE_EXPORT int fake_device_count(void);
FAKE_EXPORT const char *fake_device_name(void);

/* An API call: begin before, end after.  Calls nested in one (by a library) get the outer one's correlation id and are
 * not reported. */
struct fake_call {
  uint64_t start;
  uint32_t correlation;
  bool outer;
};
FAKE_EXPORT struct fake_call fake_call_begin(void);
FAKE_EXPORT int fake_call_end(struct fake_call *call, int domain, uint32_t cbid, int result);

FAKE_EXPORT struct fake_stream *fake_stream_of(void *handle, int device);
FAKE_EXPORT struct fake_stream *fake_stream_new(int device, bool non_blocking);
FAKE_EXPORT void fake_stream_free(struct fake_stream *stream);
/* Submits work; returns when it ends. */
FAKE_EXPORT uint64_t fake_submit(struct fake_stream *stream, struct fake_work *work, uint32_t correlation);
FAKE_EXPORT uint64_t fake_submit_graph(struct fake_stream *stream, const struct fake_graph *graph,
                                       uint32_t correlation);
FAKE_EXPORT void fake_stream_wait(struct fake_stream *stream, uint64_t until);
/* When everything submitted to the device is done. */
FAKE_EXPORT uint64_t fake_device_idle_at(int device);
FAKE_EXPORT void fake_report_sync(const struct fake_sync *sync);
FAKE_EXPORT void fake_report_memory(const struct fake_memory *memory);
FAKE_EXPORT void fake_report_pool(const struct fake_pool *pool);
/* The runtime makes a device's primary context at the first call that needs one. */
FAKE_EXPORT void fake_make_context(int device);

FAKE_EXPORT void *fake_memory_new(size_t bytes, bool pinned_host);
FAKE_EXPORT size_t fake_memory_free(void *at);
/* 0 pageable host, 1 pinned host, 2 device */
FAKE_EXPORT int fake_memory_kind(const void *at);
FAKE_EXPORT void fake_memory_pin(void *at, size_t bytes, bool pinned);
FAKE_EXPORT void fake_copy_bytes(void *to, const void *from, size_t bytes);

/* What is after exit handlers ran: any use counts as a use after teardown and is printed at once. */
FAKE_EXPORT bool fake_is_torn_down(void);

#endif
