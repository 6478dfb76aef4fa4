/* A program that uses CUPTI itself, as torch.profiler does: kernels before, during and after its own session.
 *
 *   gpu_other_tool unsubscribe|finalize|keep|clock      keep: stays subscribed, clock: registers a clock of its own
 *   gpu_other_tool blocked                              a thread waits for the device as the session begins, and
 *                                                       as it ends
 *   gpu_other_tool blocked-fork                         the same, and a child is forked when the first wait is over
 *   gpu_other_tool long                                 its session lasts 2.5 s
 *   gpu_other_tool external                             no session: gives its launches external correlation ids, and
 *                                                       a call that only asks, which the tracer leaves out
 *   gpu_other_tool_13 share|share-graphs|share-first    the interface for several subscribers (CUDA 13.3); share-graphs
 *                                                       wants whole graphs, share-first subscribes before CUDA starts
 *
 * A second argument by-hand: the functions come from dlopen and dlsym, as profilers' plug-ins and Python's ctypes do
 * it.
 *
 * Prints how many kernels its session saw, how many of them at possible times of the clock that it should have, and how
 * many of its API records bear this thread as CUPTI names it by default.
 */
#include "cuda_subset.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                                                   \
  X(cuptiSubscribe, (void **subscriber, void (*callback)(void *, int, uint32_t, const void *), void *user))            \
  X(cuptiUnsubscribe, (void *subscriber))                                                                              \
  X(cuptiActivityEnable, (int kind))                                                                                   \
  X(cuptiActivityDisable, (int kind))                                                                                  \
  X(cuptiActivityRegisterCallbacks,                                                                                    \
    (void (*request)(uint8_t **, size_t *, size_t *), void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t)))  \
  X(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record))                                       \
  X(cuptiActivityFlushAll, (uint32_t flag))                                                                            \
  X(cuptiActivityRegisterTimestampCallback, (uint64_t(*now)(void)))                                                    \
  X(cuptiActivityPushExternalCorrelationId, (int kind, uint64_t id))                                                   \
  X(cuptiActivityPopExternalCorrelationId, (int kind, uint64_t *last))                                                 \
  X(cuptiFinalize, (void))
#ifdef SHARES
struct parameters { /* CUpti_SubscriberParams */
  size_t size;
  const char *name;
  char *old_name;
  size_t old_size;
  uint8_t allow_several, padding[7];
};
#define FUNCTIONS_V2(X)                                                                                                \
  X(cuptiSubscribe_v2, (void **subscriber, void (*callback)(void *, int, uint32_t, const void *), void *user,          \
                        struct parameters *parameters))                                                                \
  X(cuptiActivityEnable_v2, (void *subscriber, int kind, void *config))                                                \
  X(cuptiActivityDisable_v2, (void *subscriber, int kind, void *config))                                               \
  X(cuptiActivityRegisterCallbacks_v2, (void *subscriber, void (*request)(uint8_t **, size_t *, size_t *, void *),     \
                                        void (*complete)(uint8_t *, size_t, size_t, void *)))                          \
  X(cuptiActivitySetAttribute_v2, (void *subscriber, int attribute, size_t *size, void *value))
#else
#define FUNCTIONS_V2(X)
#endif
#define DECLARE(name, parameters) int name parameters;
FUNCTIONS(DECLARE)
FUNCTIONS_V2(DECLARE)
int cuptiGetVersion(uint32_t *version);

/* Linked, or from the library's handle. */
static struct {
#define MEMBER(name, parameters) int(*name) parameters;
  FUNCTIONS(MEMBER)
  FUNCTIONS_V2(MEMBER)
} cupti = {
#define LINKED(name, parameters) .name = name,
    FUNCTIONS(LINKED) FUNCTIONS_V2(LINKED)};

/* Prints how many of them could not be had, and of two functions that are not there how many were found. */
static void open_by_hand(void)
{
  Dl_info library;
  int missing = 0, invented = dlsym(dlopen("libc.so.6", RTLD_NOW), "cuptiSubscribe") != NULL;
  if (dladdr(dlsym(RTLD_DEFAULT, "cuptiGetVersion"), &library) == 0)
    exit(2);
  void *handle = dlopen(library.dli_fname, RTLD_NOW | RTLD_LOCAL);
#define BY_HAND(name, parameters)                                                                                      \
  *(void **)&cupti.name = dlsym(handle, #name);                                                                        \
  missing += cupti.name == NULL;
  FUNCTIONS(BY_HAND)
  FUNCTIONS_V2(BY_HAND)
#ifndef SHARES
  invented += dlsym(handle, "cuptiSubscribe_v2") != NULL;
#endif
  printf("missing %d\ninvented %d\n", missing, invented);
}

static unsigned seen, graphs_seen, in_time, calls_seen, own_calls;
static uint64_t session_start;

static uint64_t on_clock(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A clock that is nobody else's: CLOCK_MONOTONIC and a year. */
#define YEAR 31536000000000000u
static uint64_t (*session_clock)(void);
static uint64_t real_clock(void)
{
  return on_clock(CLOCK_REALTIME);
}
static uint64_t far_clock(void)
{
  return on_clock(CLOCK_MONOTONIC) + YEAR;
}

static pthread_t main_thread;

static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
  *size = 1 << 16;
  *buffer = aligned_alloc(8, *size);
  *max_records = 0;
}
static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
  void *record = NULL;
  (void)context, (void)stream, (void)size;
  while (valid > 0 && cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
    uint32_t kind, thread;
    uint64_t start;
    memcpy(&kind, record, sizeof kind);
    memcpy(&start, (uint8_t *)record + 16, sizeof start);
    memcpy(&thread, (uint8_t *)record + 28, sizeof thread);
    seen += kind == 10;
    graphs_seen += kind == 51;
    in_time += session_clock && kind == 10 && start >= session_start && start <= session_clock();
    calls_seen += kind == 5;
    own_calls += kind == 5 && thread == (uint32_t)(uintptr_t)main_thread;
  }
  free(buffer);
}
static void callback(void *user, int domain, uint32_t cbid, const void *data)
{
  (void)user, (void)domain, (void)cbid, (void)data;
}

/* A thread that waits for a long kernel of its own. */
static void *wait_long(void *ns)
{
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  launch_spin(*(uint64_t *)ns, stream);
  cudaStreamSynchronize(stream);
  return NULL;
}
static void start_waiting(pthread_t *thread, uint64_t *ns)
{
  struct timespec pause = {0, 200000000}; /* until it waits */
  pthread_create(thread, NULL, wait_long, ns);
  nanosleep(&pause, NULL);
}
static bool blocked;
static pthread_t blocked_to_the_end;

/* A child that does next to nothing and ends as a program does. */
static void fork_child(void)
{
  pid_t pid = fork();
  if (pid == 0) {
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    exit(0);
  }
  waitpid(pid, NULL, 0);
}

static void kernels(unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    launch_spin(200000, NULL);
  cudaDeviceSynchronize();
}

/* Six times: a launch with the id 100 + i of kind 3, one with 200 + i pushed over it and 2^40 + i of kind 5, one with
 * the first again and one with none. */
static void external(void)
{
  uint64_t last = 0;
  unsigned popped = 0;
  int device;
  for (unsigned i = 0; i < 6; i++) {
    cupti.cuptiActivityPushExternalCorrelationId(3, 100 + i);
    launch_spin(200000, NULL);
    cudaGetDevice(&device);
    cupti.cuptiActivityPushExternalCorrelationId(3, 200 + i);
    cupti.cuptiActivityPushExternalCorrelationId(5, (1ull << 40) + i);
    launch_spin(200000, NULL);
    popped += cupti.cuptiActivityPopExternalCorrelationId(5, &last) == 0 && last == (1ull << 40) + i;
    popped += cupti.cuptiActivityPopExternalCorrelationId(3, &last) == 0 && last == 200 + i;
    launch_spin(200000, NULL);
    popped += cupti.cuptiActivityPopExternalCorrelationId(3, &last) == 0 && last == 100 + i;
    launch_spin(200000, NULL);
  }
  cudaDeviceSynchronize();
  printf("popped %u\n", popped);
}

/* The interface of every CUPTI. */
static int session(const char *how)
{
  void *subscriber = NULL;
  pthread_t before;
  static uint64_t half_a_second = 500000000, until_retaken = 1700000000;
  blocked = strncmp(how, "blocked", 7) == 0;
  if (blocked)
    start_waiting(&before, &half_a_second);
  int result = cupti.cuptiSubscribe(&subscriber, callback, NULL);
  if (result != 0)
    return result;
  session_clock = strcmp(how, "clock") == 0 ? far_clock : real_clock;
  if (session_clock == far_clock)
    cupti.cuptiActivityRegisterTimestampCallback(far_clock);
  cupti.cuptiActivityRegisterCallbacks(request, complete);
  cupti.cuptiActivityEnable(10);
  cupti.cuptiActivityEnable(5);
  session_start = session_clock();
  kernels(7);
  if (strcmp(how, "long") == 0)
    nanosleep(&(struct timespec){2, 500000000}, NULL);
  if (blocked) {
    pthread_join(before, NULL);
    if (strcmp(how, "blocked-fork") == 0)
      fork_child();
    start_waiting(&blocked_to_the_end, &until_retaken);
  }
  cupti.cuptiActivityFlushAll(1);
  cupti.cuptiActivityDisable(5);
  cupti.cuptiActivityDisable(10);
  if (strcmp(how, "finalize") == 0)
    cupti.cuptiFinalize();
  else if (strcmp(how, "keep") != 0)
    cupti.cuptiUnsubscribe(subscriber);
  return 0;
}

#ifdef SHARES
static void *shared_subscriber;

static void request_v2(uint8_t **buffer, size_t *size, size_t *max_records, void *info)
{
  (void)info;
  request(buffer, size, max_records);
}
static void complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info)
{
  (void)info;
  complete(NULL, 0, buffer, size, valid);
}

static int subscribe_shared(void)
{
  struct parameters parameters = {.size = sizeof parameters, .name = "other tool", .allow_several = 1};
  return cupti.cuptiSubscribe_v2(&shared_subscriber, callback, NULL, &parameters);
}

static void run_graphs(unsigned count)
{
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, 0);
  for (int i = 0; i < 4; i++)
    launch_spin(50000, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  for (unsigned i = 0; i < count; i++)
    cudaGraphLaunch(executable, stream);
  cudaStreamSynchronize(stream);
}

/* Three kernels between the subscription and the first kind; then time for whoever wants to join. */
static int session_shared(const char *how)
{
  struct timespec pause = {0, 500000000};
  uint8_t whole = 1;
  size_t size = sizeof whole;
  int result = shared_subscriber ? 0 : subscribe_shared();
  if (result != 0)
    return result;
  kernels(3);
  session_clock = real_clock;
  if (strcmp(how, "share-graphs") == 0)
    result = cupti.cuptiActivitySetAttribute_v2(shared_subscriber, 20, &size, &whole);
  cupti.cuptiActivityRegisterCallbacks_v2(shared_subscriber, request_v2, complete_v2);
  cupti.cuptiActivityEnable_v2(shared_subscriber, 10, NULL);
  cupti.cuptiActivityEnable_v2(shared_subscriber, 5, NULL);
  if (whole && strcmp(how, "share-graphs") == 0)
    cupti.cuptiActivityEnable_v2(shared_subscriber, 51, NULL);
  nanosleep(&pause, NULL);
  session_start = session_clock();
  kernels(7);
  run_graphs(2);
  cupti.cuptiActivityFlushAll(1);
  cupti.cuptiActivityDisable_v2(shared_subscriber, 10, NULL);
  cupti.cuptiActivityDisable_v2(shared_subscriber, 5, NULL);
  cupti.cuptiUnsubscribe(shared_subscriber);
  return result;
}
#endif

int main(int argc, char **argv)
{
  struct timespec pause = {1, 500000000}; /* longer than opgap waits before it takes CUPTI back */
  const char *how = argc > 1 ? argv[1] : "";
  bool by_hand = argc > 2 && strcmp(argv[2], "by-hand") == 0;
  int result;
  main_thread = pthread_self();
  if (by_hand)
    open_by_hand();
  if (strcmp(how, "external") == 0) {
    external();
    return 0;
  }
#ifdef SHARES
  if (strcmp(how, "share-first") == 0)
    subscribe_shared();
  kernels(10);
  result = session_shared(how);
  (void)session;
#else
  kernels(10);
  result = session(how);
#endif
  nanosleep(&pause, NULL);
  kernels(5);
  if (blocked)
    pthread_join(blocked_to_the_end, NULL);
  printf("subscribe %d\nseen %u\nin_time %u\ngraphs %u\ncalls %u\nown_calls %u\n", result, seen, in_time, graphs_seen,
         calls_seen, own_calls);
  return 0;
}
