/* Unions of time intervals that arrive in the order of their ends (as ops do: children before parents). */
#include "analysis/internal.h"

#include <string.h>

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
