/* C programs with steps (opgap_step), each with one planted bottleneck.
 *
 *   program SCENARIO with|without FOLDER
 *
 * FOLDER holds the slow pipe slow0 and the file fast, as for train.py. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
