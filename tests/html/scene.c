/* A program for the page of opgap html: hostile names, a contended lock, a file, and many spans.
 *
 *   scene THREADS STEPS OPS [ANYTHING]
 *
 * The main thread keeps a block of 4000 bytes of each of its first 50 steps, and one allocation fails.
 * Each thread runs STEPS ranges "step" with OPS ranges "op 0" to "op 39" in turn inside; the main thread is one of
 * them and marks its steps.  Names hold what must not become markup, script, a terminal's command or an end of text. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "opgap/opgap.h"

static const char *const hostile[] = {
    "</script><script>window.hacked = 1</script>",
    "\"><img src=x onerror=\"window.hacked = 2\">",
    "{\"a\": \"]]>--><!--",
    "bell\a escape\033[31m\r\nline",
    "broken \xff\xc3 utf-8 \xe2\x82",
    "right to left \xe2\x80\xae override",
    "na\xc3\xafve \xf0\x9f\x98\x80",
    "${window.hacked = 3} javascript:window.hacked=4",
};

static unsigned long steps, ops;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void sleep_ms(long ms)
{
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void *holder(void *unused)
{
  pthread_setname_np(pthread_self(), "<b>holder</b>");
  pthread_mutex_lock(&lock);
  sleep_ms(60);
  pthread_mutex_unlock(&lock);
  return unused;
}

static void wait_for_lock(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, holder, NULL) != 0)
    exit(1);
  sleep_ms(20);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  pthread_join(thread, NULL);
}

static void use_file(void)
{
  char buffer[4096] = "";
  int fd = open("<img src=x onerror='window.hacked = 5'>.dat", O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, buffer, sizeof buffer) != sizeof buffer || pread(fd, buffer, 100, 0) != 100)
    exit(1);
  close(fd);
}

static void *volatile kept[50];

static void fail(void)
{
  void *volatile got; /* compilers leave out a block that is only compared */
  opgap_range_push("too <b>much</b>");
  got = malloc((size_t)1 << 50);
  if (got != NULL)
    exit(1);
  opgap_range_pop();
}

static void run(int main_thread)
{
  char names[40][16];
  for (int i = 0; i < 40; i++)
    snprintf(names[i], sizeof names[i], "op %d", i);
  for (unsigned long s = 0; s < steps; s++) {
    opgap_range_push("step");
    if (main_thread && s < sizeof kept / sizeof *kept)
      kept[s] = malloc(4000);
    for (unsigned long k = 0; k < ops; k++) {
      opgap_range_push(names[k % 40]);
      opgap_range_pop();
    }
    opgap_range_pop();
    if (main_thread)
      opgap_step();
  }
}

static void *thread(void *unused)
{
  run(0);
  return unused;
}

int main(int argc, char **argv)
{
  enum { MOST = 64 };
  pthread_t threads[MOST];
  char long_name[5000];
  if (argc < 4)
    return 2;
  unsigned long count = strtoul(argv[1], NULL, 10) - 1;
  steps = strtoul(argv[2], NULL, 10);
  ops = strtoul(argv[3], NULL, 10);
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    opgap_range_push(hostile[i]);
    sleep_ms(5);
    opgap_range_pop();
  }
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  opgap_range_push(long_name);
  opgap_range_pop();
  use_file();
  wait_for_lock();
  fail();
  for (unsigned long i = 0; i < count && i < MOST; i++)
    if (pthread_create(&threads[i], NULL, thread, NULL) != 0)
      return 1;
  run(1);
  for (unsigned long i = 0; i < count && i < MOST; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
