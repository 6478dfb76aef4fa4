/* Hooks on small stacks, and on many: threads of PTHREAD_STACK_MIN bytes that use the hooks with the largest frames,
 * fibers of 16 KB that change threads, an alternate signal stack, and 5000 short threads in bounded memory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { FIBERS = 20, SWITCHES = 50, SHORT_THREADS = 5000 };
static int zero, null;

/* Each call that looks names up has buffers on the stack. */
static int busy(void)
{
  char byte;
  struct stat st;
  struct pollfd fd = {.fd = zero, .events = POLLIN};
  int relative = open("stacks-no-such-file", O_RDONLY), folder = open("/proc/self", O_RDONLY);
  int bad = relative >= 0 || folder < 0 || stat("no/such/file", &st) == 0;
  int inside = openat(folder, "status", O_RDONLY);
  bad |= inside < 0 || read(inside, &byte, 1) != 1 || close(inside) != 0 || close(folder) != 0;
  bad |= read(zero, &byte, 1) != 1 || write(null, &byte, 1) != 1 || poll(&fd, 1, 0) != 1;
  void *block = malloc(3000000);
  bad |= block == NULL;
  free(block);
  pthread_setname_np(pthread_self(), "small");
  return bad;
}

static void *on_small_stack(void *unused)
{
  (void)unused;
  return (void *)(intptr_t)busy();
}

static int small_stacks(void)
{
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  for (int i = 0; i < 20; i++) {
    pthread_t t;
    void *bad = NULL;
    if (pthread_create(&t, &attributes, on_small_stack, NULL) != 0 || pthread_join(t, &bad) != 0 || bad != NULL)
      return 1;
  }
  return 0;
}

/* ---- fibers ---- */

static struct fiber {
  ucontext_t own, *scheduler;
  int switches, done;
} fibers[FIBERS];
static int fiber_errors;

static void fiber_main(unsigned index)
{
  struct fiber *fiber = &fibers[index];
  while (fiber->switches < SWITCHES) {
    char byte;
    if (pread(zero, &byte, 1, index) != 1)
      fiber_errors++;
    free(malloc(100));
    fiber->switches++;
    swapcontext(&fiber->own, fiber->scheduler);
  }
  fiber->done = 1;
  swapcontext(&fiber->own, fiber->scheduler);
}

/* Runs every fiber a few times; the next caller may be another thread. */
static void *schedule(void *unused)
{
  ucontext_t scheduler;
  for (int round = 0; round < 7; round++)
    for (unsigned i = 0; i < FIBERS; i++)
      if (!fibers[i].done) {
        fibers[i].scheduler = &scheduler;
        swapcontext(&scheduler, &fibers[i].own);
      }
  return unused;
}

static int fiber_test(void)
{
  enum { STACK = 16 * 1024 };
  char *stacks = malloc((size_t)FIBERS * STACK);
  for (unsigned i = 0; i < FIBERS; i++) {
    getcontext(&fibers[i].own);
    fibers[i].own.uc_stack.ss_sp = stacks + (size_t)i * STACK;
    fibers[i].own.uc_stack.ss_size = STACK;
    makecontext(&fibers[i].own, (void (*)(void))fiber_main, 1, i);
  }
  for (int left = FIBERS; left > 0;) {
    pthread_t t;
    schedule(NULL);
    if (pthread_create(&t, NULL, schedule, NULL) != 0 || pthread_join(t, NULL) != 0)
      return 1;
    left = 0;
    for (int i = 0; i < FIBERS; i++)
      left += !fibers[i].done;
  }
  free(stacks);
  return fiber_errors;
}

/* ---- an alternate signal stack ---- */

static volatile sig_atomic_t handled;

static void on_signal(int signal)
{
  int saved = errno;
  (void)signal;
  handled += busy() == 0;
  errno = saved;
}

static int signal_stack(void)
{
  stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
    return 1;
  for (int i = 0; i < 50; i++)
    raise(SIGUSR1);
  return handled != 50;
}

/* ---- many ---- */

static void *short_thread(void *unused)
{
  char byte;
  return pread(zero, &byte, 1, 1000) == 1 ? unused : (void *)&zero;
}

static long resident_pages(void)
{
  long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2)
    resident = -1;
  fclose(file);
  return resident;
}

static int many_threads(void)
{
  long before = 0;
  for (int i = 0; i < SHORT_THREADS; i += 4) {
    pthread_t t[4];
    void *bad = NULL;
    for (int j = 0; j < 4; j++)
      if (pthread_create(&t[j], NULL, short_thread, NULL) != 0)
        return 1;
    for (int j = 0; j < 4; j++)
      if (pthread_join(t[j], &bad) != 0 || bad != NULL)
        return 2;
    if (i == SHORT_THREADS / 10)
      before = resident_pages();
    if (i % 100 == 0)
      usleep(2000); /* on a busy machine the tracer's thread gets its turn, too */
  }
  return resident_pages() - before < 64 * 256 ? 0 : 3; /* 64 MB: OPGAP_BUFFER */
}

int main(void)
{
  zero = open("/dev/zero", O_RDONLY);
  null = open("/dev/null", O_WRONLY);
  int result[] = {small_stacks(), fiber_test(), signal_stack(), many_threads()};
  printf("%d %d %d %d\n", result[0], result[1], result[2], result[3]);
  return 0;
}
