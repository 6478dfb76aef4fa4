/* C programs with steps (opgap_step), each with one planted bottleneck.
 *
 *   program SCENARIO with|without FOLDER
 *
 * FOLDER holds the slow pipe slow0 and the file fast, as for train.py.  Exit status 77: cannot be planted here. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "opgap/opgap.h"

#define CHUNK 65536
#define STEPS 40

static bool planted;
static const char *folder;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void burn(double seconds)
{
  double end = now() + seconds;
  while (now() < end)
    ;
}

/* A fixed amount of work, about 1 ms: unlike burn, it takes longer when the thread has to wait for a CPU. */
static void work(unsigned ms)
{
  static volatile unsigned sink;
  for (unsigned i = 0; i < ms * 500000u; i++)
    sink = sink + i;
}

static void pause_ms(long ms)
{
  struct timespec t = {0, ms * 1000000};
  nanosleep(&t, NULL);
}

/* The tracer samples from a thread that it starts with the program's first one, so every scenario has one. */
static void *wait_for_end(void *mutex)
{
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

static void must(bool ok, const char *what)
{
  if (!ok) {
    perror(what);
    exit(1);
  }
}

static void read_chunk(void)
{
  static int fd = -1;
  char block[CHUNK];
  if (fd < 0) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, planted ? "slow0" : "fast");
    fd = open(path, O_RDONLY);
    must(fd >= 0, path);
  }
  for (size_t left = CHUNK; left > 0;) {
    ssize_t n = read(fd, block, left);
    must(n >= 0, "read");
    if (n == 0)
      lseek(fd, 0, SEEK_SET);
    left -= (size_t)n;
  }
}

/* ---- what a step does besides 2 ms of computing ---- */

static void step_sleep(void)
{
  if (planted)
    pause_ms(20);
}

static void step_read(void)
{
  read_chunk();
}

static void step_child(void)
{
  if (!planted)
    return;
  pid_t pid = fork();
  must(pid >= 0, "fork");
  if (pid == 0) {
    pause_ms(20);
    _exit(0);
  }
  waitpid(pid, NULL, 0);
}

static void step_touch(void)
{
  static char *kept;
  size_t size = 48u << 20;
  char *block = planted || kept == NULL ? malloc(size) : kept;
  must(block != NULL, "malloc");
  for (size_t i = 0; i < size; i += 4096)
    block[i] = 1;
  if (planted)
    free(block);
  else
    kept = block;
}

static void step_work(void)
{
  work(8);
}

static void step_nothing(void)
{
}

/* A lock that another thread holds nearly always, asleep: whatever else runs here, that is why a step takes long. */
static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static volatile bool stop;

static void *holder(void *unused)
{
  while (!stop) {
    pthread_mutex_lock(&hot);
    pause_ms(20);
    pthread_mutex_unlock(&hot);
    sched_yield();
  }
  return unused;
}

static void step_lock(void)
{
  pthread_mutex_lock(&hot);
  pthread_mutex_unlock(&hot);
}

/* A loader thread that reads from the slow pipe, and a queue of one place. */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool full;

static void *producer(void *unused)
{
  while (!stop) {
    read_chunk();
    pthread_mutex_lock(&queue);
    while (full && !stop)
      pthread_cond_wait(&changed, &queue);
    full = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&queue);
  }
  return unused;
}

static void step_take(void)
{
  pthread_mutex_lock(&queue);
  while (!full)
    pthread_cond_wait(&changed, &queue);
  full = false;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&queue);
}

static void *spinner(void *unused)
{
  while (!stop)
    work(1);
  return unused;
}

static void one_cpu(int cpu)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

/* ---- held out: written before any rule saw them (docs/VERDICT.md) ---- */

static int new_file(const char *name)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  must(fd >= 0, path);
  return fd;
}

/* Another thread has 10 ms to do until both meet, or as much as this one. */
#define MEETINGS 60u
static pthread_barrier_t meeting;

static void *late_thread(void *unused)
{
  for (unsigned i = 0; i < MEETINGS; i++) {
    burn(planted ? 0.01 : 0);
    pthread_barrier_wait(&meeting);
  }
  return unused;
}

static void *equal_thread(void *unused)
{
  for (unsigned i = 0; i < MEETINGS; i++) {
    burn(0.002);
    pthread_barrier_wait(&meeting);
  }
  return unused;
}

static void step_meet(void)
{
  pthread_barrier_wait(&meeting);
}

/* Many short waits for a lock that others take all the time, on a CPU. */
static void *convoy(void *unused)
{
  while (!stop) {
    pthread_mutex_lock(&hot);
    burn(0.0004);
    pthread_mutex_unlock(&hot);
    burn(0.00002);
  }
  return unused;
}

static void step_convoy(void)
{
  for (int i = 0; i < 12; i++) {
    pthread_mutex_lock(&hot);
    burn(0.00005);
    pthread_mutex_unlock(&hot);
  }
}

static void log_line(int fd)
{
  static const char line[] = "step loss 0.6931 lr 0.001 grad_norm 1.25\n";
  must(write(fd, line, sizeof line - 1) == sizeof line - 1 && fsync(fd) == 0, "log");
}

static void step_log(void)
{
  static int fd = -1;
  if (fd < 0)
    fd = new_file("log");
  for (int i = 0; planted && i < 8; i++)
    log_line(fd);
}

/* Waits before it tries again, and writes what happened. */
static void step_retry(void)
{
  static int fd = -1;
  if (fd < 0)
    fd = new_file("retries");
  if (!planted)
    return;
  pause_ms(6);
  for (int i = 0; i < 3; i++)
    log_line(fd);
}

/* Samples of a mapped file in random order, from the disk or from the page cache. */
#define MAPPED_BYTES (256u << 20)
static volatile const char *mapped_file(void)
{
  static char block[1 << 20];
  int fd = new_file("mapped");
  for (unsigned i = 0; i < MAPPED_BYTES / sizeof block; i++)
    must(write(fd, block, sizeof block) == sizeof block, "write");
  must(fsync(fd) == 0, "fsync");
  must(posix_fadvise(fd, 0, 0, planted ? POSIX_FADV_DONTNEED : POSIX_FADV_WILLNEED) == 0, "posix_fadvise");
  char *at = mmap(NULL, MAPPED_BYTES, PROT_READ, MAP_SHARED | (planted ? 0 : MAP_POPULATE), fd, 0);
  must(at != MAP_FAILED && madvise(at, MAPPED_BYTES, MADV_RANDOM) == 0, "mmap");
  unsigned char there;
  must(mincore(at, 1, &there) == 0, "mincore");
  if (planted && there & 1) /* a file system in memory keeps it */
    exit(77);
  return at;
}

static void step_map(void)
{
  static volatile const char *at;
  static unsigned seed = 12345;
  unsigned sum = 0;
  if (at == NULL)
    at = mapped_file();
  for (int i = 0; i < 150; i++) {
    seed = seed * 1664525u + 1013904223u;
    sum += (unsigned char)at[(size_t)(seed >> 4) % MAPPED_BYTES];
  }
  must(sum == 0, "sum");
}

/* A pool that gives its memory back after each use. */
static void step_storm(void)
{
  static char *pool;
  size_t size = 24u << 20;
  if (pool == NULL)
    pool = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(pool != MAP_FAILED, "mmap");
  for (size_t i = 0; i < size; i += 4096)
    pool[i] = 1;
  if (planted)
    must(madvise(pool, size, MADV_DONTNEED) == 0, "madvise");
}

/* A decoder in a process of its own: a request through one pipe, the answer through another. */
static void decoder(int requests, int answers)
{
  char byte;
  while (read(requests, &byte, 1) == 1) {
    burn(planted ? 0.012 : 0);
    must(write(answers, &byte, 1) == 1, "answer");
  }
  _exit(0);
}

static void step_decoder(void)
{
  static int to[2], from[2];
  char byte = 0;
  if (to[1] == 0) {
    must(pipe(to) == 0 && pipe(from) == 0, "pipe");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
      close(to[1]);
      decoder(to[0], from[1]);
    }
    close(to[0]);
  }
  must(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1, "decoder");
}

/* ---- the second set held out ---- */

/* A table that is read in each step, and by three other threads all the time; a writer makes it new behind their backs.
 */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;

static void *table_writer(void *unused)
{
  while (!stop) {
    pthread_rwlock_wrlock(&table_lock);
    pause_ms(planted ? 12 : 0);
    pthread_rwlock_unlock(&table_lock);
    pause_ms(planted ? 1 : 13);
  }
  return unused;
}

static void step_look_up(void)
{
  for (int i = 0; i < 3; i++) {
    pthread_rwlock_rdlock(&table_lock);
    pthread_rwlock_unlock(&table_lock);
    burn(0.0005);
  }
}

/* A pool of three threads, each with a part of the step: one part is much larger than the others. */
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static unsigned round_of_parts, parts_done;

static void *part_worker(void *unused)
{
  static atomic_uint numbers;
  unsigned number = atomic_fetch_add(&numbers, 1), seen = 0;
  for (;;) {
    pthread_mutex_lock(&queue);
    while (round_of_parts == seen && !stop)
      pthread_cond_wait(&changed, &queue);
    seen = round_of_parts;
    pthread_mutex_unlock(&queue);
    if (stop)
      return unused;
    work(number == 0 && planted ? 15 : 1);
    pthread_mutex_lock(&queue);
    parts_done++;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&queue);
  }
}

static void step_parts(void)
{
  pthread_mutex_lock(&queue);
  parts_done = 0;
  round_of_parts++;
  pthread_cond_broadcast(&changed);
  while (parts_done < 3)
    pthread_cond_wait(&finished, &queue);
  pthread_mutex_unlock(&queue);
}

/* A worker takes a spin lock that yields, which another thread holds, asleep, nearly always. */
static atomic_flag spin = ATOMIC_FLAG_INIT;

static void spin_lock(void)
{
  while (atomic_flag_test_and_set(&spin))
    sched_yield();
}

static void *spin_holder(void *unused)
{
  while (planted && !stop) {
    spin_lock();
    pause_ms(20);
    atomic_flag_clear(&spin);
    pause_ms(1);
  }
  return unused;
}

static void *spin_worker(void *unused)
{
  unsigned seen = 0;
  for (;;) {
    pthread_mutex_lock(&queue);
    while (round_of_parts == seen && !stop)
      pthread_cond_wait(&changed, &queue);
    seen = round_of_parts;
    pthread_mutex_unlock(&queue);
    if (stop)
      return unused;
    spin_lock();
    atomic_flag_clear(&spin);
    pthread_mutex_lock(&queue);
    parts_done++;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&queue);
  }
}

static void *spin_thread(void *unused)
{
  static atomic_uint numbers;
  return atomic_fetch_add(&numbers, 1) == 0 ? spin_worker(unused) : spin_holder(unused);
}

static void step_spin(void)
{
  pthread_mutex_lock(&queue);
  parts_done = 0;
  round_of_parts++;
  pthread_cond_broadcast(&changed);
  while (parts_done < 1)
    pthread_cond_wait(&finished, &queue);
  pthread_mutex_unlock(&queue);
}

static const struct scenario {
  const char *name;
  void (*step)(void);
  void *(*other)(void *); /* other threads */
  unsigned threads;
  bool only_planted; /* the other threads are the bottleneck */
  bool pinned;
  unsigned steps;
} scenarios[] = {
    {"sleep", step_sleep, NULL, 0, false, false, STEPS},
    {"read", step_read, NULL, 0, false, false, STEPS},
    {"child", step_child, NULL, 0, false, false, STEPS},
    {"page_faults", step_touch, NULL, 0, false, false, STEPS},
    {"lock", step_lock, holder, 1, true, false, STEPS},
    {"loader_thread", step_take, producer, 1, false, false, STEPS},
    {"threads", step_work, spinner, 8, true, false, 3 * STEPS},
    {"neighbours", step_work, NULL, 0, false, true, 3 * STEPS},
    {"throttled", step_work, NULL, 0, false, false, STEPS},
    {"none", step_nothing, NULL, 0, false, false, 5 * STEPS},
    {"late_thread", step_meet, late_thread, 1, false, false, MEETINGS},
    {"equal_thread", step_meet, equal_thread, 1, false, false, MEETINGS},
    {"convoy", step_convoy, convoy, 2, true, false, STEPS},
    {"log", step_log, NULL, 0, false, false, STEPS},
    {"retry", step_retry, NULL, 0, false, false, STEPS},
    {"map", step_map, NULL, 0, false, false, STEPS},
    {"storm", step_storm, NULL, 0, false, false, STEPS},
    {"decoder", step_decoder, NULL, 0, false, false, STEPS},
    {"table", step_look_up, table_writer, 1, false, false, STEPS},
    {"parts", step_parts, part_worker, 3, false, false, STEPS},
    {"spin", step_spin, spin_thread, 2, false, false, STEPS},
};

int main(int count, char **arguments)
{
  const struct scenario *s = scenarios, *end = scenarios + sizeof scenarios / sizeof *scenarios;
  while (count == 4 && s < end && strcmp(s->name, arguments[1]) != 0)
    s++;
  if (count != 4 || s == end) {
    fprintf(stderr, "usage: program SCENARIO with|without FOLDER\n");
    return 2;
  }
  planted = strcmp(arguments[2], "with") == 0;
  folder = arguments[3];
  if (s->pinned)
    one_cpu(0);
  pthread_t waiter, others[8];
  pthread_mutex_t until_end = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&until_end);
  must(pthread_barrier_init(&meeting, NULL, 2) == 0, "pthread_barrier_init");
  must(pthread_create(&waiter, NULL, wait_for_end, &until_end) == 0, "pthread_create");
  unsigned threads = s->only_planted && !planted ? 0 : s->threads;
  for (unsigned i = 0; i < threads; i++)
    must(pthread_create(&others[i], NULL, s->other, NULL) == 0, "pthread_create");
  for (unsigned i = 0; i < s->steps; i++) {
    s->step();
    burn(0.002);
    opgap_step();
  }
  stop = true;
  pthread_mutex_lock(&queue);
  full = false;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&queue);
  for (unsigned i = 0; i < threads; i++)
    pthread_join(others[i], NULL);
  pthread_mutex_unlock(&until_end);
  pthread_join(waiter, NULL);
  return 0;
}
