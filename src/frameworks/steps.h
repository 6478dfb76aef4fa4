/* Steps of the training, as the schedule counts them while the program runs.
 *
 * Purpose   OPGAP_SCHEDULE opens and closes recording by steps.  A step ends where the best source says so:
 *           opgap_step() before a profiler's ProfilerStep#N range before an optimizer's Optimizer.step#X range.
 *           Once a better source has spoken, weaker ones are not counted.
 * Threads   Any; hot only while there is a schedule.
 */
#ifndef OPGAP_FRAMEWORKS_STEPS_H
#define OPGAP_FRAMEWORKS_STEPS_H

#include <stdbool.h>
#include <stdint.h>

enum opgap_step_source {
  OPGAP_STEP_NONE,
  OPGAP_STEP_OPTIMIZER,
  OPGAP_STEP_PROFILER,
  OPGAP_STEP_MARKER,
};

/* What the end of a range of this name means. */
enum opgap_step_source opgap_step_source_of(const char *range_name);
/* The training did something that begins a new step: it fetched data or ran backward.  Two optimizers that step with
 * none of that between them are one step. */
void opgap_step_fresh(void);
/* A range or marker of this source has ended; tells the schedule when that ends a step. */
void opgap_step_ended(enum opgap_step_source source);

#endif
