/* A stateless model checker for code compiled with -fsanitize=thread: it takes the place of that sanitizer's run-time
 * library, so the code under test is the shipped source, unmodified, with every access and its memory order visible.
 *
 * Threads   Fibers of the one real thread; a switch is possible before every atomic access.  All schedules with at most
 *           `preemptions` switches away from a thread that could go on are run, depth first, each from the same state.
 * Memory    C11 atomics as views: a location is the list of its stores; a load may take any store that is not older
 *           than the newest one that its thread knows of, an acquire learns what a release knew, a read-modify-write
 *           takes the newest store and continues its release sequence.  At most `stale` loads of a run take an older
 *           store than the newest.  Plain accesses are checked for data races by vector clocks.  New stores go to the
 *           end of their location's list, seq_cst accesses are as strong as fences, weak compare-exchanges do not fail
 *           spuriously: behaviour that only these would show is not explored.
 * Death     With `kill` every run is also ended before each atomic access, each plain store to a watched region and
 *           each model_point(): SIGKILL of the process.  What is in memory then is the newest store of everything.
 */
#ifndef OPGAP_TESTS_MODEL_CHECKER_H
#define OPGAP_TESTS_MODEL_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_THREADS 3

struct model_case {
  const char *name;
  void (*threads[MODEL_THREADS])(void);
  unsigned preemptions, stale;
  bool kill, torn;             /* torn: also in the middle of a memset, which is done from front to back */
  void (*start)(void);         /* before each run, outside the model: what is not in a watched region */
  void (*finish)(bool killed); /* after each run, outside the model: checks by model_fail */
  void (*switched)(int to);    /* a fiber goes on: thread-local variables */
};

/* Accesses to be treated as relaxed, as if their order had been forgotten in the source. */
struct model_mutation {
  const void *at, *end; /* the location; NULL: none */
  bool stores, loads;
};

struct model_result {
  uint64_t runs, kills;
  bool failed;
  char what[256];
};

/* Memory that each run begins with as it is now, and where plain accesses are checked. */
void model_watch(void *at, size_t bytes);
/* Memory whose plain accesses are meant as relaxed ones: no races there. */
void model_relaxed(const void *at, size_t bytes);
/* Runs every schedule until one fails. */
struct model_result model_explore(const struct model_case *model, struct model_mutation mutation);

/* For the threads: the running one; has another ended (and is what it did known now, as after a join)? */
int model_self(void);
bool model_ended(int thread);
/* A moment at which the process may be killed. */
void model_point(void);
/* Ends the run as failed; from a thread or from finish. */
void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
