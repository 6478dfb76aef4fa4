/* Loops of one hooked call each: what tests/bench/run.sh times and tests/bench/instructions.py counts.
 *
 *     loops [--ms N] [--threads N] [--count N] [--torch LIBRARY] [NAME ...]
 *
 * Prints "NAME THREADS NS" a loop: ns per iteration and thread, the median of five slices of N ms (default 10) each.
 * It is CPU time of the thread, which other programs on the machine disturb least; for loops that wait, wall time.
 * With --count each loop runs exactly N times instead and "NAME THREADS CALLS" is printed, the calls it made in all.
 * --threads: how many run it at the same time (1 or 2); loops that need two threads are left out with 1.
 * --torch: a library with the observer interface of torch's RecordFunction, for the loop torch_op.
 *
 * Each loop is a function loop_NAME of its own, called once a slice, so that callgrind's figures by function are the
 * loop's.  Compiled with -fno-builtin: every call is made.
 */
#include <opgap/opgap.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOP __attribute__((noinline)) static void
#define SLICES 5
#define LARGE 65536u
#define HUGE_COPY (1u << 20)

/* 16 to 512 bytes in no order that an allocator could like; 1024 of them, so that 1024 iterations use each once. */
static uint16_t sizes[1024];

static void keep(void *block)
{
  __asm__ volatile("" ::"r"(block) : "memory");
}

struct worker {
  pthread_mutex_t lock; /* this thread's */
  pthread_rwlock_t rwlock;
  pthread_cond_t condition;
  int zero; /* descriptor of /dev/zero */
  char *from, *to;
  unsigned index;
};

struct shared {
  pthread_mutex_t lock;
  pthread_cond_t turned;
  unsigned turn;
};
static struct shared shared = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

LOOP loop_malloc_free(struct worker *w, long count)
{
  (void)w;
  for (long i = 0; i < count; i++) {
    void *block = malloc(sizes[i & 1023]);
    keep(block);
    free(block);
  }
}

/* The same at about a third of the rate that the tracer's events allow: some 75 ns of multiplications in between. */
LOOP loop_malloc_free_third(struct worker *w, long count)
{
  (void)w;
  for (long i = 0; i < count; i++) {
    void *block = malloc(sizes[i & 1023]);
    keep(block);
    free(block);
    uint64_t x = (uint64_t)i;
    for (int k = 0; k < 112; k++) {
      x = x * x + 1;
      __asm__ volatile("" : "+r"(x));
    }
  }
}

LOOP loop_malloc_free_64k(struct worker *w, long count)
{
  (void)w;
  for (long i = 0; i < count; i++) {
    void *block = malloc(LARGE);
    keep(block);
    free(block);
  }
}

LOOP loop_realloc(struct worker *w, long count)
{
  (void)w;
  char *block = malloc(64);
  for (long i = 0; i < count; i++) {
    char *moved = realloc(block, 64 + (size_t)(i & 1) * 512);
    if (moved == NULL)
      abort();
    block = moved;
    keep(block);
  }
  free(block);
}

LOOP loop_mutex(struct worker *w, long count)
{
  for (long i = 0; i < count; i++) {
    pthread_mutex_lock(&w->lock);
    pthread_mutex_unlock(&w->lock);
  }
}

LOOP loop_mutex_contended(struct worker *w, long count)
{
  (void)w;
  for (long i = 0; i < count; i++) {
    pthread_mutex_lock(&shared.lock);
    shared.turn++;
    pthread_mutex_unlock(&shared.lock);
  }
}

LOOP loop_rwlock_read(struct worker *w, long count)
{
  for (long i = 0; i < count; i++) {
    pthread_rwlock_rdlock(&w->rwlock);
    pthread_rwlock_unlock(&w->rwlock);
  }
}

LOOP loop_cond_signal(struct worker *w, long count)
{
  for (long i = 0; i < count; i++)
    pthread_cond_signal(&w->condition);
}

/* One iteration: this thread's turn comes, and it hands the turn over. */
LOOP loop_cond_wait(struct worker *w, long count)
{
  for (long i = 0; i < count; i++) {
    pthread_mutex_lock(&shared.lock);
    while ((shared.turn & 1) != w->index)
      pthread_cond_wait(&shared.turned, &shared.lock);
    shared.turn++;
    pthread_cond_signal(&shared.turned);
    pthread_mutex_unlock(&shared.lock);
  }
}

static void read_exactly(int fd, void *to, size_t size)
{
  if (read(fd, to, size) != (ssize_t)size)
    abort();
}

LOOP loop_read_1(struct worker *w, long count)
{
  for (long i = 0; i < count; i++)
    read_exactly(w->zero, w->to, 1);
}

LOOP loop_read_64k(struct worker *w, long count)
{
  for (long i = 0; i < count; i++)
    read_exactly(w->zero, w->to, LARGE);
}

static void copy(struct worker *w, long count, size_t size)
{
  for (long i = 0; i < count; i++)
    keep(memcpy(w->to, w->from, size));
}

LOOP loop_memcpy_8(struct worker *w, long count)
{
  copy(w, count, 8);
}

LOOP loop_memcpy_1k(struct worker *w, long count)
{
  copy(w, count, 1024);
}

LOOP loop_memcpy_64k(struct worker *w, long count)
{
  copy(w, count, LARGE);
}

LOOP loop_memcpy_1m(struct worker *w, long count)
{
  copy(w, count, HUGE_COPY);
}

LOOP loop_range(struct worker *w, long count)
{
  (void)w;
  for (long i = 0; i < count; i++) {
    opgap_range_push("a range");
    opgap_range_pop();
  }
}

/* at::RecordFunction: constructor, before(name, sequence), destructor, as torch's dispatcher runs them for an op. */
static void (*torch_construct)(void *, uint8_t);
static void (*torch_before)(void *, const char *, int64_t);
static void (*torch_destruct)(void *);

LOOP loop_torch_op(struct worker *w, long count)
{
  (void)w;
  _Alignas(64) char function[1024];
  for (long i = 0; i < count; i++) {
    torch_construct(function, 0);
    torch_before(function, "aten::add", -1);
    torch_destruct(function);
  }
}

static const struct loop {
  const char *name;
  void (*run)(struct worker *, long);
  unsigned calls; /* hooked calls of one iteration */
  unsigned least_threads;
  bool waits; /* so its time is the clock's on the wall */
} loops[] = {
    {"malloc_free", loop_malloc_free, 2, 1, false},
    {"malloc_free_third", loop_malloc_free_third, 2, 1, false},
    {"malloc_free_64k", loop_malloc_free_64k, 2, 1, false},
    {"realloc", loop_realloc, 1, 1, false},
    {"mutex", loop_mutex, 2, 1, false},
    {"mutex_contended", loop_mutex_contended, 2, 2, true},
    {"rwlock_read", loop_rwlock_read, 2, 1, false},
    {"cond_signal", loop_cond_signal, 1, 1, false},
    {"cond_wait", loop_cond_wait, 4, 2, true},
    {"read_1", loop_read_1, 1, 1, false},
    {"read_64k", loop_read_64k, 1, 1, false},
    {"memcpy_8", loop_memcpy_8, 1, 1, false},
    {"memcpy_1k", loop_memcpy_1k, 1, 1, false},
    {"memcpy_64k", loop_memcpy_64k, 1, 1, false},
    {"memcpy_1m", loop_memcpy_1m, 1, 1, false},
    {"torch_op", loop_torch_op, 1, 1, false},
    {"range", loop_range, 1, 1, false},
};
#define LOOPS (sizeof loops / sizeof *loops)

static struct {
  unsigned threads;
  double slice_ns;
  long count; /* of iterations, 0: as many as fill a slice */
} options = {1, 10e6, 0};
static pthread_barrier_t barrier;
static double slice_results[2][SLICES];
static long agreed_count;

static double now_ns(const struct loop *loop)
{
  struct timespec t;
  clock_gettime(loop->waits ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double run_once(const struct loop *loop, struct worker *w, long count)
{
  if (options.threads > 1)
    pthread_barrier_wait(&barrier);
  double start = now_ns(loop);
  loop->run(w, count);
  return now_ns(loop) - start;
}

static struct job {
  const struct loop *loop;
  struct worker worker;
} jobs[2];

/* Both threads agree on a count by the first one's clock, so that loops which take turns come out even. */
static void *work(void *argument)
{
  struct job *job = argument;
  struct worker *w = &job->worker;
  if (options.count) {
    run_once(job->loop, w, options.count);
    return NULL;
  }
  for (long count = 16;; count *= 2) {
    double ns = run_once(job->loop, w, count);
    if (w->index == 0)
      agreed_count = ns < options.slice_ns / 4 && count < 1l << 40 ? 0 : (long)((double)count * options.slice_ns / ns);
    if (options.threads > 1)
      pthread_barrier_wait(&barrier);
    if (agreed_count)
      break;
  }
  long count = agreed_count;
  for (unsigned i = 0; i < SLICES; i++)
    slice_results[w->index][i] = run_once(job->loop, w, count) / (double)count;
  return NULL;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run_loop(const struct loop *loop)
{
  double sum = 0;
  pthread_t other;
  agreed_count = 0;
  shared.turn = 0;
  for (unsigned i = 0; i < options.threads; i++) {
    jobs[i].loop = loop;
    jobs[i].worker.index = i;
  }
  if (options.threads > 1 && pthread_create(&other, NULL, work, &jobs[1]) != 0)
    abort();
  work(&jobs[0]);
  if (options.threads > 1)
    pthread_join(other, NULL);
  if (options.count) {
    printf("%s %u %ld\n", loop->name, options.threads, options.count * (long)(loop->calls * options.threads));
    return;
  }
  for (unsigned i = 0; i < options.threads; i++) {
    qsort(slice_results[i], SLICES, sizeof(double), by_value);
    sum += slice_results[i][SLICES / 2];
  }
  printf("%s %u %.3f\n", loop->name, options.threads, sum / options.threads);
}

/* Made once before anything is timed: buffers are touched, the file is open. */
static void prepare(struct worker *w)
{
  pthread_mutex_init(&w->lock, NULL);
  pthread_rwlock_init(&w->rwlock, NULL);
  pthread_cond_init(&w->condition, NULL);
  w->zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  w->from = malloc(HUGE_COPY);
  w->to = malloc(HUGE_COPY);
  if (w->zero < 0 || w->from == NULL || w->to == NULL)
    abort();
  memset(w->from, 1, HUGE_COPY);
  memset(w->to, 2, HUGE_COPY);
}

static void find_torch(const char *path)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "loops: %s\n", dlerror());
    exit(2);
  }
  dlsym(library, "PyInit__fake"); /* as Python does: the tracer's cue */
  *(void **)&torch_construct = dlsym(library, "_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
  *(void **)&torch_before = dlsym(library, "_ZN2at14RecordFunction6beforeEPKcl");
  *(void **)&torch_destruct = dlsym(library, "_ZN2at14RecordFunctionD1Ev");
  if (torch_construct == NULL || torch_before == NULL || torch_destruct == NULL) {
    fprintf(stderr, "loops: %s lacks RecordFunction\n", path);
    exit(2);
  }
}

static void run_named(const char *name)
{
  for (size_t i = 0; i < LOOPS; i++) {
    if (name != NULL && strcmp(name, loops[i].name) != 0)
      continue;
    if (options.threads >= loops[i].least_threads && (loops[i].run != loop_torch_op || torch_construct != NULL))
      run_loop(&loops[i]);
    if (name != NULL)
      return;
  }
  if (name != NULL) {
    fprintf(stderr, "loops: no loop %s\n", name);
    exit(2);
  }
}

int main(int argc, char **argv)
{
  uint32_t x = 12345;
  for (size_t i = 0; i < 1024; i++) {
    x = x * 1664525u + 1013904223u;
    sizes[i] = (uint16_t)(16 + (x >> 8) % 497);
  }
  int first = 1;
  for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
    if (strcmp(argv[first], "--ms") == 0)
      options.slice_ns = strtod(argv[first + 1], NULL) * 1e6;
    else if (strcmp(argv[first], "--threads") == 0)
      options.threads = strcmp(argv[first + 1], "2") == 0 ? 2 : 1;
    else if (strcmp(argv[first], "--count") == 0)
      options.count = strtol(argv[first + 1], NULL, 10);
    else if (strcmp(argv[first], "--torch") == 0)
      find_torch(argv[first + 1]);
    else
      return 2;
  }
  pthread_barrier_init(&barrier, NULL, options.threads);
  for (unsigned i = 0; i < options.threads; i++)
    prepare(&jobs[i].worker);
  if (first == argc)
    run_named(NULL);
  for (int i = first; i < argc; i++)
    run_named(argv[i]);
  return 0;
}
