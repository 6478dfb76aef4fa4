#include "threads.h"

#include "checker.h"
#include "record/internal.h"
#include "record/record.h"

unsigned locked_out;

void fill_segment(unsigned left)
{
  struct opgap_cell *cell = opgap_cell;
  for (;;) {
    unsigned room = (unsigned)(cell->limit - cell->write), words = room - left < 255 ? room - left : 255;
    if (cell->limit && words == 0)
      return;
    uint64_t *w = opgap_reserve(cell, words ? words : 4);
    w[0] = OPGAP_WORD0(EV_FILL, words ? words : 4, 0, 0);
    opgap_commit(cell, w + (words ? words : 4));
  }
}

void put_points(struct model_account *mine, unsigned count)
{
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL) {
    mine->lost = count;
    return;
  }
  mine->serial = thread->serial;
  for (unsigned i = 0; i < count; i++) {
    const uint64_t *before = opgap_cell->write;
    opgap_count(thread, 0, 10);
    opgap_point(thread, EV_POINT, mine->committed, mine->committed * 3, 0);
    if (opgap_cell->write != before)
      mine->committed++;
    else
      mine->lost++;
  }
}

void produce_2(void)
{
  put_points(&account[model_self()], 2);
}

void produce_3(void)
{
  put_points(&account[model_self()], 3);
}

void produce_1_and_end(void)
{
  put_points(&account[model_self()], 1);
  opgap_thread_dying();
}

void drain_once(void)
{
  if (!opgap_drain_enter(0)) {
    locked_out++;
    return;
  }
  opgap_drain_now(OPGAP_DRAIN_READY);
  opgap_drain_leave();
}

void drain_twice(void)
{
  drain_once();
  drain_once();
}
