#include "analysis/internal.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
  uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
  return l < r ? -1 : l > r;
}

void stats_sort(uint64_t *values, size_t count)
{
  if (count > 1)
    qsort(values, count, sizeof *values, compare);
}

/* Nearest rank: the smallest value that at least `share` of all values do not exceed; the median of an even number of
 * values is the mean of the middle two. */
uint64_t stats_percentile(const uint64_t *sorted, size_t count, double share)
{
  if (count == 0)
    return OPGAP_UNKNOWN;
  if (share == 0.5 && count % 2 == 0)
    return sorted[count / 2 - 1] + (sorted[count / 2] - sorted[count / 2 - 1]) / 2;
  double rank = share * (double)count;
  size_t index = (size_t)rank;
  if ((double)index == rank && index > 0)
    index--;
  return sorted[index < count ? index : count - 1];
}
