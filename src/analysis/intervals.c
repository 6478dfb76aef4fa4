/* Unions of time intervals that arrive in the order of their ends (as ops do: children before parents). */
#include "analysis/internal.h"

#include <string.h>

void intervals_append(struct intervals *iv, uint64_t start, uint64_t end)
{
  while (iv->v.count > 0 && iv->v.at[iv->v.count - 1].end >= start) {
    struct interval *last = &iv->v.at[iv->v.count - 1];
    if (last->start < start)
      start = last->start;
    if (last->end > end)
      end = last->end;
    iv->v.count--;
  }
  struct interval *added = VEC_PUSH(&iv->v);
  added->start = start;
  added->end = end;
}

void intervals_drop_before(struct intervals *iv, uint64_t time)
{
  size_t gone = 0;
  while (gone < iv->v.count && iv->v.at[gone].end <= time)
    gone++;
  if (gone == 0)
    return;
  memmove(iv->v.at, iv->v.at + gone, (iv->v.count - gone) * sizeof *iv->v.at);
  iv->v.count -= gone;
}
