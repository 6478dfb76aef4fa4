/* Programs with a known truth: kernels of 1 ms with gaps of a known length and cause.
 *
 *   gpu_scenario NAME [COUNT] [GAP_US]
 *
 * Prints what it did: "kernels N", "gap_ns TOTAL" (between the end of each kernel and the launch of the next, measured
 * on the same clock), so that a test can compare the report with the truth.
 */
#include "cuda_subset.h"
#include "opgap/opgap.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_NS 1000000u

static unsigned count = 20;
static uint64_t gap_ns = 5000000;
static uint64_t total_gap_ns, cause_ns; /* cause: of it, what the scenario is about, where that is less */
static unsigned launched;

static uint64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
  struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  nanosleep(&t, NULL);
}

static void compute_ns(uint64_t ns)
{
  uint64_t end = now() + ns;
  while (now() < end)
    ;
}

/* One kernel, waited for; `between` makes the gap before the next. */
static void run_kernels(void (*between)(void))
{
  for (unsigned i = 0; i < count; i++) {
    launch_spin(KERNEL_NS, NULL);
    launched++;
    cudaDeviceSynchronize();
    if (i + 1 == count)
      break;
    uint64_t start = now();
    between();
    total_gap_ns += now() - start;
  }
}

static void between_sleep(void)
{
  sleep_ns(gap_ns);
}
static void between_compute(void)
{
  compute_ns(gap_ns);
}
static void between_nothing(void)
{
}

/* cudaMalloc that is slow (FAKE_MALLOC_NS). */
static void between_alloc(void)
{
  void *at = NULL;
  uint64_t start = now();
  cudaMalloc(&at, 1 << 20);
  cause_ns += now() - start;
  start = now();
  cudaFree(at);
  cause_ns += now() - start;
}

/* ---- another thread holds a lock ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t take, taken;
static bool stop;

static void *holder(void *unused)
{
  prctl(PR_SET_NAME, "holder");
  while (sem_wait(&take) == 0 && !stop) {
    pthread_mutex_lock(&mutex);
    sem_post(&taken);
    sleep_ns(gap_ns);
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}
static void between_lock(void)
{
  sem_post(&take);
  sem_wait(&taken);
  uint64_t start = now();
  pthread_mutex_lock(&mutex);
  cause_ns += now() - start;
  pthread_mutex_unlock(&mutex);
}

/* ---- a reader thread that fills a queue slowly ---- */

static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER, queue_empty = PTHREAD_COND_INITIALIZER;
static int queue_length, pipe_ends[2];

static void *reader(void *unused)
{
  char batch[4096];
  prctl(PR_SET_NAME, "reader");
  for (;;) {
    pthread_mutex_lock(&queue_mutex);
    while (queue_length > 0 && !stop)
      pthread_cond_wait(&queue_empty, &queue_mutex);
    pthread_mutex_unlock(&queue_mutex);
    if (stop || read(pipe_ends[0], batch, sizeof batch) <= 0) /* the storage: another process, slow */
      return unused;
    pthread_mutex_lock(&queue_mutex);
    queue_length++;
    pthread_cond_signal(&queue_filled);
    pthread_mutex_unlock(&queue_mutex);
  }
}
/* The wait for a batch bears the name that PyTorch gives it. */
static void between_data(void)
{
  opgap_range_push("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  pthread_mutex_lock(&queue_mutex);
  queue_length = 0;
  pthread_cond_signal(&queue_empty);
  while (queue_length == 0)
    pthread_cond_wait(&queue_filled, &queue_mutex);
  pthread_mutex_unlock(&queue_mutex);
  opgap_range_pop();
}
static pid_t start_storage(void)
{
  if (pipe(pipe_ends) != 0)
    exit(2);
  pid_t pid = fork();
  if (pid == 0) {
    char batch[4096] = {0};
    for (;;) {
      sleep_ns(gap_ns);
      if (write(pipe_ends[1], batch, sizeof batch) < 0)
        _exit(0);
    }
  }
  close(pipe_ends[1]);
  return pid;
}

/* ---- scenarios ---- */

static void with_thread(void *(*body)(void *), void (*between)(void))
{
  pthread_t thread;
  pthread_create(&thread, NULL, body, NULL);
  run_kernels(between);
  stop = true;
  sem_post(&take);
  pthread_mutex_lock(&queue_mutex);
  queue_length = 0;
  pthread_cond_signal(&queue_empty);
  pthread_mutex_unlock(&queue_mutex);
  pthread_join(thread, NULL);
}

static void scenario_lock(void)
{
  sem_init(&take, 0, 0);
  sem_init(&taken, 0, 0);
  with_thread(holder, between_lock);
}
static void scenario_data(void)
{
  pid_t storage = start_storage();
  with_thread(reader, between_data);
  kill(storage, SIGKILL);
  waitpid(storage, NULL, 0);
}
static void scenario_sleep(void)
{
  run_kernels(between_sleep);
}
static void scenario_compute(void)
{
  run_kernels(between_compute);
}
static void scenario_sync(void)
{
  run_kernels(between_nothing);
}
static void scenario_alloc(void)
{
  run_kernels(between_alloc);
}

#ifndef NO_NCCL
/* Back-propagation, then an all-reduce that nothing hides. */
static void scenario_allreduce(void)
{
  ncclComm_t communicator;
  void *gradients = NULL;
  int device = 0;
  cudaMalloc(&gradients, 1 << 20);
  ncclCommInitAll(&communicator, 1, &device);
  for (unsigned i = 0; i < count; i++) {
    launch_spin(KERNEL_NS, NULL);
    launched++;
    ncclAllReduce(gradients, gradients, 1 << 18, 7 /* ncclFloat32 */, 0 /* ncclSum */, communicator, NULL);
    cudaDeviceSynchronize();
  }
}

#endif

/* Two streams that overlap by half a kernel, copies of every kind, an event between the streams. */
static void scenario_streams(void)
{
  cudaStream_t a, b;
  cudaEvent_t event;
  void *device, *pinned, *pageable = malloc(1 << 20);
  cudaStreamCreate(&a);
  cudaStreamCreate(&b);
  cudaEventCreate(&event);
  cudaMalloc(&device, 1 << 20);
  cudaHostAlloc(&pinned, 1 << 20, 0);
  memset(pageable, 1, 1 << 20);
  for (unsigned i = 0; i < count; i++) {
    cudaMemcpyAsync(device, pinned, 1 << 20, cudaMemcpyHostToDevice, a);
    launch_spin(KERNEL_NS, a);
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    launch_spin(KERNEL_NS / 2, b);
    cudaMemcpyAsync(device, pageable, 1 << 19, cudaMemcpyHostToDevice, b);
    cudaMemcpy(pageable, device, 1 << 18, cudaMemcpyDeviceToHost);
    cudaMemsetAsync(device, 0, 1 << 16, a);
    launched += 2;
  }
  cudaStreamSynchronize(a);
  cudaStreamSynchronize(b);
  free(pageable);
}

static unsigned planted(const char *name)
{
  const char *value = getenv(name);
  return value ? (unsigned)atoi(value) : 0;
}

/* Graphs of four kernels; PLANT_NODE_NS: how long each runs. */
static void scenario_graph(void)
{
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaStreamCreate(&stream);
  unsigned node_ns = planted("PLANT_NODE_NS");
  cudaStreamBeginCapture(stream, 0);
  for (int i = 0; i < 4; i++)
    launch_spin(node_ns ? node_ns : KERNEL_NS / 4, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  uint64_t start = now();
  for (unsigned i = 0; i < count; i++) {
    cudaGraphLaunch(executable, stream);
    launched += 4;
  }
  printf("launch_ns %.0f\n", (double)(now() - start) / count);
  cudaStreamSynchronize(stream);
}

/* Kernels in nested ranges, and on another thread. */
static void *elsewhere(void *unused)
{
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  for (unsigned i = 0; i < count; i++) {
    opgap_range_push("elsewhere");
    launch_spin(KERNEL_NS / 2, stream);
    opgap_range_pop();
  }
  return unused;
}
static void scenario_ranges(void)
{
  unsigned sleep_us = planted("PLANT_SLEEP");
  pthread_t thread;
  pthread_create(&thread, NULL, elsewhere, NULL);
  pthread_join(thread, NULL); /* its kernels run beside those of the first sixth of the steps, on any machine */
  for (unsigned i = 0; i < count; i++) {
    opgap_range_push("step");
    launch_spin(KERNEL_NS, NULL);
    opgap_range_push("forward");
    launch_spin(KERNEL_NS, NULL);
    opgap_range_pop();
    launch_spin(KERNEL_NS, NULL);
    cudaDeviceSynchronize();
    opgap_range_pop();
    usleep(sleep_us);
  }
  launched = 4 * count;
}

/* Steps of a training with known work: a batch goes to the device, forward and backward launch two and three kernels,
 * the loss comes back.  PLANT_LAUNCH, PLANT_COPY, PLANT_SYNC: so many more in each step, in backward, forward, loss;
 * PLANT_SLEEP: microseconds of sleep after each. */
static void scenario_training(void)
{
  unsigned more_launches = planted("PLANT_LAUNCH"), more_copies = planted("PLANT_COPY");
  unsigned more_syncs = planted("PLANT_SYNC");
  void *device, *batch;
  float loss;
  cudaMalloc(&device, 1 << 20);
  cudaHostAlloc(&batch, 1 << 20, 0);
  for (unsigned i = 0; i < count; i++) {
    opgap_range_push("load");
    cudaMemcpyAsync(device, batch, 1 << 18, cudaMemcpyHostToDevice, NULL);
    opgap_range_pop();
    opgap_range_push("forward");
    for (unsigned k = 0; k < 2; k++)
      launch_spin(20000, NULL);
    for (unsigned k = 0; k < more_copies; k++)
      cudaMemcpyAsync(device, batch, 1 << 12, cudaMemcpyHostToDevice, NULL);
    opgap_range_pop();
    opgap_range_push("backward");
    for (unsigned k = 0; k < 3 + more_launches; k++)
      launch_spin(20000, NULL);
    opgap_range_pop();
    opgap_range_push("loss");
    cudaMemcpy(&loss, device, sizeof loss, cudaMemcpyDeviceToHost);
    for (unsigned k = 0; k < more_syncs; k++)
      cudaStreamSynchronize(NULL);
    opgap_range_pop();
    launched += 5 + more_launches;
    sleep_ns(1000ull * planted("PLANT_SLEEP"));
    opgap_step();
  }
}

/* Many short kernels without waiting: rates and buffers.  Prints what a launch costs its caller. */
static void scenario_burst(void)
{
  launch_spin(1000, NULL); /* starts CUDA */
  cudaDeviceSynchronize();
  uint64_t start = now();
  for (unsigned i = 1; i < count; i++)
    launch_spin(1000, NULL);
  printf("launch_ns %.0f\n", (double)(now() - start) / (count > 1 ? count - 1 : 1));
  launched = count;
  cudaDeviceSynchronize();
}

/* Kernels queued behind one that takes a second: the device is busy from the first to the last, however slow the host.
 */
static void scenario_queued(void)
{
  launch_spin(1000 * KERNEL_NS, NULL);
  for (unsigned i = 1; i < count; i++)
    launch_spin(KERNEL_NS, NULL);
  launched = count;
  cudaDeviceSynchronize();
}

/* Ends with kernels still running. */
static void scenario_running(void)
{
  for (unsigned i = 0; i < count; i++)
    launch_spin(KERNEL_NS, NULL);
  launched = count;
}

#ifndef NO_NCCL /* a fake function is its kernel's name */
static void scenario_driver(void)
{
  void *at = NULL;
  cudaMalloc(&at, 1);
  for (unsigned i = 0; i < count; i++) {
    cuLaunchKernel("by_driver", 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    cuCtxSynchronize();
  }
  launched = count;
}
#endif

#ifndef NO_NCCL /* the fake pool needs no properties */
/* Stream-ordered memory, from the device's pool and from one of our own. */
static void scenario_pools(void)
{
  cudaMemPool_t pool;
  void *mine, *others;
  cudaMemPoolCreate(&pool, NULL);
  cudaMallocAsync(&others, 1 << 20, NULL);
  cudaMallocFromPoolAsync(&mine, 3 << 20, pool, NULL);
  cudaFreeAsync(mine, NULL);
  cudaFreeAsync(others, NULL);
  cudaMemPoolTrimTo(pool, 1 << 16);
  cudaMemPoolDestroy(pool);
  launch_spin(KERNEL_NS, NULL);
  cudaDeviceSynchronize();
  launched = 1;
}
#endif

/* CUDA starts when the tracer has been running for a while, beside another thread. */
static void *idle(void *unused)
{
  sem_wait(&take);
  return unused;
}
static void scenario_late(void)
{
  pthread_t thread;
  sem_init(&take, 0, 0);
  pthread_create(&thread, NULL, idle, NULL);
  sleep_ns(500000000);
  run_kernels(between_nothing);
  sem_post(&take);
  pthread_join(thread, NULL);
}

/* Does CUDA work at all?  The exit status says so. */
static void scenario_check(void)
{
  void *at = NULL;
  int error = cudaMalloc(&at, 1);
  if (error != 0) {
    printf("cudaMalloc: error %d\n", error);
    exit(1);
  }
}

/* With FAKE_GPU_MEMORY of 4 MiB.  A caching allocator as PyTorch's: what finds no room frees what is cached and asks
 * again, the first time with success; the second time both find none. */
static void *caching_malloc(size_t bytes, void **cached)
{
  void *at = NULL;
  if (cudaMalloc(&at, bytes) == 0)
    return at;
  cudaDeviceSynchronize();
  if (*cached != NULL)
    cudaFree(*cached);
  *cached = NULL;
  at = NULL;
  return cudaMalloc(&at, bytes) == 0 ? at : NULL;
}

static void scenario_oom(void)
{
  void *cached = NULL;
  cudaMalloc(&cached, 3 << 20);
  run_kernels(between_nothing);
  void *had = caching_malloc(2 << 20, &cached);
  run_kernels(between_nothing);
  void *had_not = caching_malloc(8 << 20, &cached);
  printf("had %d, %d\n", had != NULL, had_not != NULL);
}

/* Long enough idle for what is finished to be written by a machine with a real GPU (tests/gpu/run.sh), then killed. */
static void scenario_kill(void)
{
  run_kernels(between_nothing);
  sleep_ns(500000000);
  raise(SIGKILL);
}

/* Does nothing more until a signal ends it. */
static void scenario_wait(void)
{
  run_kernels(between_nothing);
  puts("waiting");
  fflush(stdout);
  for (;;)
    pause();
}

/* Kernels one at a time, as many as each line of the input says; says when they are done. */
static void scenario_told(void)
{
  unsigned wanted;
  while (scanf("%u", &wanted) == 1) {
    for (unsigned i = 0; i < wanted; i++) {
      launch_spin(KERNEL_NS, NULL);
      cudaDeviceSynchronize();
    }
    launched += wanted;
    printf("done %llu\n", (unsigned long long)now());
    fflush(stdout);
  }
}

/* A child that is forked when CUDA is up, as DataLoader workers are, and ends by exit. */
static void scenario_workers(void)
{
  run_kernels(between_nothing);
  for (int i = 0; i < 4; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      sleep_ns(1000000);
      exit(0);
    }
    waitpid(pid, NULL, 0);
    launch_spin(KERNEL_NS, NULL);
    cudaDeviceSynchronize();
    launched++;
  }
}

/* Two devices: the second has half the kernels, and gets a copy from the first. */
static void scenario_devices(void)
{
  void *first = NULL, *second = NULL;
  cudaMalloc(&first, 1 << 20);
  cudaSetDevice(1);
  cudaMalloc(&second, 1 << 20);
  for (unsigned i = 0; i < count; i++) {
    cudaSetDevice(0);
    launch_spin(KERNEL_NS, NULL);
    cudaMemcpyPeerAsync(second, 1, first, 0, 1 << 20, NULL);
    cudaSetDevice((int)(i % 2));
    launch_spin(KERNEL_NS, NULL);
    cudaDeviceSynchronize();
  }
  launched = 2 * count;
}

/* Leaves by _exit, which runs no exit handler. */
static void scenario_leave(void)
{
  run_kernels(between_nothing);
  _exit(0);
}

static void scenario_fork(void)
{
  pid_t pid = fork(); /* CUDA starts in the child only */
  if (pid == 0) {
    run_kernels(between_sleep);
    exit(0);
  }
  waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*run)(void);
  } scenarios[] = {
#ifndef NO_NCCL
      {"allreduce", scenario_allreduce}, {"driver", scenario_driver},   {"pools", scenario_pools},
#endif
      {"sleep", scenario_sleep},         {"compute", scenario_compute}, {"sync", scenario_sync},
      {"alloc", scenario_alloc},         {"lock", scenario_lock},       {"data", scenario_data},
      {"graph", scenario_graph},         {"streams", scenario_streams}, {"running", scenario_running},
      {"wait", scenario_wait},           {"kill", scenario_kill},       {"burst", scenario_burst},
      {"fork", scenario_fork},           {"ranges", scenario_ranges},   {"check", scenario_check},
      {"workers", scenario_workers},     {"leave", scenario_leave},     {"devices", scenario_devices},
      {"training", scenario_training},   {"queued", scenario_queued},   {"late", scenario_late},
      {"told", scenario_told},           {"oom", scenario_oom},
  };
  if (argc > 2)
    count = (unsigned)strtoul(argv[2], NULL, 10);
  if (argc > 3)
    gap_ns = strtoull(argv[3], NULL, 10) * 1000;
  for (unsigned i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (argc > 1 && strcmp(argv[1], scenarios[i].name) == 0) {
      scenarios[i].run();
      printf("kernels %u\ngap_ns %llu\n", launched, (unsigned long long)(cause_ns ? cause_ns : total_gap_ns));
      return 0;
    }
  fprintf(stderr, "usage: gpu_scenario NAME [COUNT] [GAP_US]\n");
  return 2;
}
