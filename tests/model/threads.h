/* What the model's threads do.  Compiled like the sources under test. */
#ifndef OPGAP_TESTS_MODEL_THREADS_H
#define OPGAP_TESTS_MODEL_THREADS_H

#include <stdint.h>

#include "format/schema.h"

enum { EV_POINT = OPGAP_FIRST_HOOK, EV_FILL, EV_COUNTED };

/* What the producer on each model thread did in this run. */
struct model_account {
  uint32_t serial;
  uint64_t committed, lost;
};
extern struct model_account account[];
extern unsigned locked_out; /* consumers that found the drain lock taken, in this run */

/* Fills the rest of the calling thread's segment up to `left` words. */
void fill_segment(unsigned left);
/* Records numbered from 0, 4 words each; each try is counted as well. */
void put_points(struct model_account *mine, unsigned count);

void produce_2(void);
void produce_3(void);
void produce_1_and_end(void);
void drain_once(void);
void drain_twice(void);

#endif
