/* Unions of time intervals that arrive in the order of their ends (as ops do: children before parents). */
#include "analysis/internal.h"

#include <string.h>

void intervals_append(struct intervals *iv, uint64_t start, uint64_t end)
{
  while (iv->v.count > iv->first && iv->v.at[iv->v.count - 1].end >= start) {
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

size_t intervals_from(const struct intervals *iv, uint64_t time)
{
  size_t low = iv->first, high = iv->v.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (iv->v.at[middle].end > time)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void intervals_drop_before(struct intervals *iv, uint64_t time)
{
  iv->first = intervals_from(iv, time);
  if (iv->first <= iv->v.count / 2)
    return; /* moved up only when at least as many were dropped as are left */
  memmove(iv->v.at, iv->v.at + iv->first, (iv->v.count - iv->first) * sizeof *iv->v.at);
  iv->v.count -= iv->first;
  iv->first = 0;
}
