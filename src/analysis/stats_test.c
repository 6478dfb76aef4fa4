#include "analysis/stats_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"

static int compare(const void *left, const void *right)
{
  double l = *(const double *)left, r = *(const double *)right;
  return (l > r) - (l < r);
}

static void sort(double *values, size_t count)
{
  if (count > 1)
    qsort(values, count, sizeof *values, compare);
}

size_t stats_sample_total(const struct stats_sample *sample)
{
  size_t total = 0;
  for (size_t i = 0; i < sample->runs; i++)
    total += sample->counts[i];
  return total;
}

double stats_mean(const double *values, size_t count)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += values[i];
  return count ? sum / (double)count : NAN;
}

/* The value of rank k (from 0) if `values` were sorted; reorders them so that smaller ones stand before it. */
static double select_rank(double *values, size_t count, size_t k)
{
  size_t low = 0, high = count - 1;
  while (low < high) {
    double pivot = values[low + (high - low) / 2];
    size_t i = low, j = high;
    for (;;) {
      while (values[i] < pivot)
        i++;
      while (values[j] > pivot)
        j--;
      if (i >= j)
        break;
      double swapped = values[i];
      values[i++] = values[j];
      values[j--] = swapped;
    }
    if (k <= j)
      high = j;
    else
      low = j + 1;
  }
  return values[k];
}

static double quantile_in_place(double *values, size_t count, double share)
{
  if (count == 0)
    return NAN;
  double rank = share * (double)(count - 1);
  size_t below = (size_t)rank;
  double low = select_rank(values, count, below), part = rank - (double)below;
  if (part == 0 || below + 1 >= count)
    return low;
  double high = values[below + 1];
  for (size_t i = below + 2; i < count; i++)
    high = values[i] < high ? values[i] : high;
  return low + (high - low) * part;
}

double stats_quantile_of(const double *values, size_t count, double share)
{
  double *copy = opgap_xcalloc(count ? count : 1, sizeof *copy);
  if (count > 0)
    memcpy(copy, values, count * sizeof *copy);
  double result = quantile_in_place(copy, count, share);
  free(copy);
  return result;
}

double stats_median(const double *values, size_t count)
{
  return stats_quantile_of(values, count, 0.5);
}

/* ---- autocorrelation ---- */

static double autocovariance(const double *values, size_t count, double mean, size_t lag)
{
  double sum = 0;
  for (size_t i = 0; i + lag < count; i++)
    sum += (values[i] - mean) * (values[i + lag] - mean);
  return sum / (double)count;
}

double stats_effective_size(const double *values, size_t count)
{
  if (count < 4)
    return (double)count;
  double mean = stats_mean(values, count), variance = autocovariance(values, count, mean, 0), sum = 0;
  if (!(variance > 0))
    return (double)count;
  /* Geyer: sums of pairs of neighbouring lags are positive for a reversible chain; beyond the first that is not, only
   * noise would be added. */
  double before = INFINITY;
  for (size_t lag = 1; lag + 1 < count / 2; lag += 2) {
    double pair = (autocovariance(values, count, mean, lag) + autocovariance(values, count, mean, lag + 1)) / variance;
    if (pair <= 0)
      break;
    before = pair < before ? pair : before;
    sum += before;
  }
  double size = (double)count / (1 + 2 * sum);
  return size < 1 ? 1 : size;
}

/* ---- rank test ---- */

struct ranked {
  double value;
  bool second;
};

static int by_value(const void *left, const void *right)
{
  double l = ((const struct ranked *)left)->value, r = ((const struct ranked *)right)->value;
  return (l > r) - (l < r);
}

static double normal_above(double z)
{
  return 0.5 * erfc(z / sqrt(2.0));
}

/* `inflation` multiplies the variance of U. */
static struct stats_rank_test rank_test(struct ranked *all, size_t a_count, size_t b_count, double inflation)
{
  size_t count = a_count + b_count;
  struct stats_rank_test test = {.p_greater = 1, .p_less = 1};
  if (a_count == 0 || b_count == 0)
    return test;
  qsort(all, count, sizeof *all, by_value);
  double ranks = 0, ties = 0, n = (double)a_count, m = (double)b_count, total = (double)count;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    while (end < count && all[end].value == all[i].value)
      end++;
    double rank = ((double)i + 1 + (double)end) / 2, equal = (double)(end - i);
    ties += equal * equal * equal - equal;
    for (; i < end; i++)
      ranks += all[i].second ? rank : 0;
  }
  test.u = ranks - m * (m + 1) / 2;
  double variance = n * m / 12 * (total + 1 - ties / (total * (total - 1))) * inflation;
  if (!(variance > 0))
    return test;
  double distance = test.u - n * m / 2, deviation = sqrt(variance);
  test.z = distance / deviation;
  test.p_greater = normal_above((distance - 0.5) / deviation);
  test.p_less = normal_above((-distance - 0.5) / deviation);
  return test;
}

static struct ranked *rank_list(const struct stats_sample *a, const struct stats_sample *b)
{
  size_t count = stats_sample_total(a) + stats_sample_total(b), next = 0;
  struct ranked *all = opgap_xcalloc(count ? count : 1, sizeof *all);
  for (int side = 0; side < 2; side++) {
    const struct stats_sample *sample = side ? b : a;
    for (size_t r = 0; r < sample->runs; r++)
      for (size_t i = 0; i < sample->counts[r]; i++)
        all[next++] = (struct ranked){sample->at[r][i], side == 1};
  }
  return all;
}

static double effective_total(const struct stats_sample *sample)
{
  double size = 0;
  for (size_t r = 0; r < sample->runs; r++)
    size += stats_effective_size(sample->at[r], sample->counts[r]);
  return size;
}

/* The variance of U is about n m (n + m) / 12: with the effective sizes n', m' in place of n, m the distance from the
 * middle shrinks by n'm' / nm, which is the same as raising the variance of U by this factor. */
static double inflation_of(const struct stats_sample *a, const struct stats_sample *b)
{
  double n = (double)stats_sample_total(a), m = (double)stats_sample_total(b);
  double n_eff = effective_total(a), m_eff = effective_total(b);
  if (!(n_eff > 0) || !(m_eff > 0))
    return 1;
  return n * m / (n_eff * m_eff) * (n_eff + m_eff) / (n + m);
}

struct stats_rank_test stats_mann_whitney(const struct stats_sample *a, const struct stats_sample *b)
{
  struct ranked *all = rank_list(a, b);
  struct stats_rank_test test = rank_test(all, stats_sample_total(a), stats_sample_total(b), inflation_of(a, b));
  free(all);
  return test;
}

struct stats_rank_test stats_mann_whitney_plain(const double *a, size_t a_count, const double *b, size_t b_count)
{
  const struct stats_sample left = {&a, &a_count, 1}, right = {&b, &b_count, 1};
  struct ranked *all = rank_list(&left, &right);
  struct stats_rank_test test = rank_test(all, a_count, b_count, 1);
  free(all);
  return test;
}

/* ---- Welch ---- */

/* Continued fraction of the regularised incomplete beta function (Lentz's method). */
static double beta_fraction(double a, double b, double x)
{
  const double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (fabs(d) < tiny ? tiny : d);
  double result = d;
  for (int m = 1; m < 500; m++) {
    for (int odd = 0; odd < 2; odd++) {
      double k = (double)m;
      double term = odd ? -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
                        : k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k));
      d = 1 + term * d;
      d = 1 / (fabs(d) < tiny ? tiny : d);
      c = 1 + term / c;
      c = fabs(c) < tiny ? tiny : c;
      result *= c * d;
    }
    if (fabs(c * d - 1) < 1e-15)
      break;
  }
  return result;
}

static double incomplete_beta(double a, double b, double x)
{
  if (x <= 0)
    return 0;
  if (x >= 1)
    return 1;
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2))
    return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_t_above(double t, double df)
{
  double tail = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + t * t));
  return t > 0 ? tail : 1 - tail;
}

static double sample_variance(const double *values, size_t count, double mean)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (values[i] - mean) * (values[i] - mean);
  return sum / (double)(count - 1);
}

double stats_welch_greater(const double *a, size_t a_count, const double *b, size_t b_count)
{
  if (a_count < 2 || b_count < 2)
    return 1;
  double a_mean = stats_mean(a, a_count), b_mean = stats_mean(b, b_count);
  double va = sample_variance(a, a_count, a_mean) / (double)a_count;
  double vb = sample_variance(b, b_count, b_mean) / (double)b_count;
  if (!(va + vb > 0))
    return b_mean > a_mean ? 0 : 1;
  double t = (b_mean - a_mean) / sqrt(va + vb);
  double df = (va + vb) * (va + vb) / (va * va / (double)(a_count - 1) + vb * vb / (double)(b_count - 1));
  return stats_t_above(t, df);
}

/* ---- bootstrap ---- */

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

static size_t random_below(uint64_t *state, size_t limit)
{
  return (size_t)(((unsigned __int128)random_next(state) * limit) >> 64);
}

static double centre_in_place(double *values, size_t count, enum stats_centre centre)
{
  return centre == STATS_MEAN ? stats_mean(values, count)
                              : quantile_in_place(values, count, centre == STATS_MEDIAN ? 0.5 : 0.95);
}

/* All runs' samples one after the other, allocated. */
static double *joined(const struct stats_sample *sample)
{
  size_t total = stats_sample_total(sample), next = 0;
  double *all = opgap_xcalloc(total ? total : 1, sizeof *all);
  for (size_t r = 0; r < sample->runs; r++) {
    if (sample->counts[r] > 0)
      memcpy(all + next, sample->at[r], sample->counts[r] * sizeof *all);
    next += sample->counts[r];
  }
  return all;
}

double stats_centre_of(const struct stats_sample *sample, enum stats_centre centre)
{
  double *all = joined(sample), result = centre_in_place(all, stats_sample_total(sample), centre);
  free(all);
  return result;
}

struct side { /* what the bootstrap needs of one side */
  const struct stats_sample *sample;
  size_t *blocks; /* length of a block, by run */
  double *drawn;  /* room for one resample */
  size_t room;
};

/* A block must span the time over which steps resemble each other, and grow with the cube root of the sample. */
static size_t block_length(const double *values, size_t count)
{
  double correlation = (double)count / stats_effective_size(values, count);
  size_t length = (size_t)ceil(2 * correlation), root = (size_t)cbrt((double)count);
  length = length > root ? length : root;
  size_t most = count / 4 > 0 ? count / 4 : 1;
  return length > most ? most : length < 1 ? 1 : length;
}

static struct side side_open(const struct stats_sample *sample)
{
  struct side side = {.sample = sample};
  side.blocks = opgap_xcalloc(sample->runs, sizeof *side.blocks);
  size_t longest = 0;
  for (size_t r = 0; r < sample->runs; r++) {
    side.blocks[r] = block_length(sample->at[r], sample->counts[r]);
    longest = sample->counts[r] > longest ? sample->counts[r] : longest;
  }
  side.room = longest * sample->runs;
  side.drawn = opgap_xcalloc(side.room ? side.room : 1, sizeof *side.drawn);
  return side;
}

static void side_close(struct side *side)
{
  free(side->blocks);
  free(side->drawn);
}

static size_t draw_run(struct side *side, size_t run, size_t next, uint64_t *state)
{
  const double *values = side->sample->at[run];
  size_t count = side->sample->counts[run], block = side->blocks[run];
  for (size_t taken = 0; taken < count;) {
    size_t start = random_below(state, count), length = block < count - taken ? block : count - taken;
    for (size_t i = 0; i < length; i++) /* circular, so that the first and last steps come as often as others */
      side->drawn[next++] = values[start + i < count ? start + i : start + i - count];
    taken += length;
  }
  return next;
}

static double draw(struct side *side, enum stats_centre centre, uint64_t *state)
{
  size_t next = 0, runs = side->sample->runs;
  for (size_t i = 0; i < runs; i++)
    next = draw_run(side, runs == 1 ? 0 : random_below(state, runs), next, state);
  return centre_in_place(side->drawn, next, centre);
}

struct stats_interval stats_bootstrap_ratio(const struct stats_sample *a, const struct stats_sample *b,
                                            enum stats_centre centre, double confidence, unsigned resamples,
                                            uint64_t seed)
{
  struct stats_interval interval = {NAN, NAN};
  if (stats_sample_total(a) == 0 || stats_sample_total(b) == 0 || stats_centre_of(a, centre) == 0)
    return interval;
  struct side left = side_open(a), right = side_open(b);
  double *ratios = opgap_xcalloc(resamples, sizeof *ratios);
  for (unsigned i = 0; i < resamples; i++) {
    double below = draw(&left, centre, &seed), above = draw(&right, centre, &seed);
    ratios[i] = below > 0 ? above / below : INFINITY;
  }
  sort(ratios, resamples);
  double tail = (1 - confidence) / 2;
  interval.low = quantile_in_place(ratios, resamples, tail);
  interval.high = quantile_in_place(ratios, resamples, 1 - tail);
  free(ratios);
  side_close(&left);
  side_close(&right);
  return interval;
}

/* ---- runs as wholes ---- */

struct run_centres {    /* of one side, or their logarithms */
  double mean, squares; /* squares: sum of squared distances from the mean */
  double least, most;
  size_t count;
  bool known;
};

static struct run_centres centres_of(const struct stats_sample *sample, enum stats_centre centre, bool logarithms)
{
  struct run_centres centres = {.least = INFINITY, .most = -INFINITY, .known = true};
  double *values = opgap_xcalloc(sample->runs + 1, sizeof *values);
  for (size_t r = 0; r < sample->runs; r++) {
    if (sample->counts[r] == 0)
      continue;
    const struct stats_sample one = {&sample->at[r], &sample->counts[r], 1};
    double value = stats_centre_of(&one, centre);
    centres.known = centres.known && (value > 0 || !logarithms);
    values[centres.count++] = logarithms ? log(value) : value;
  }
  centres.mean = stats_mean(values, centres.count);
  for (size_t i = 0; i < centres.count; i++) {
    centres.squares += (values[i] - centres.mean) * (values[i] - centres.mean);
    centres.least = fmin(centres.least, values[i]);
    centres.most = fmax(centres.most, values[i]);
  }
  centres.known = centres.known && centres.count > 0;
  free(values);
  return centres;
}

double stats_least_centre(const struct stats_sample *sample, enum stats_centre centre)
{
  return centres_of(sample, centre, false).least;
}

/* The t that is exceeded with probability p, by halving. */
static double t_quantile(double p, double df)
{
  double low = 0, high = 1e6;
  for (int i = 0; i < 100; i++) {
    double middle = (low + high) / 2;
    if (stats_t_above(middle, df) > p)
      low = middle;
    else
      high = middle;
  }
  return high;
}

struct stats_run_test stats_between_runs(const struct stats_sample *a, const struct stats_sample *b,
                                         enum stats_centre centre, double confidence)
{
  struct stats_run_test test = {1, 1, {NAN, NAN}};
  struct run_centres left = centres_of(a, centre, true), right = centres_of(b, centre, true);
  if (!left.known || !right.known)
    return test;
  double n = (double)left.count, m = (double)right.count, df = STATS_RUN_WORTH + n + m - 2;
  double variance = (STATS_RUN_WORTH * STATS_RUN_SPREAD * STATS_RUN_SPREAD + left.squares + right.squares) / df;
  double error = sqrt(variance * (1 / n + 1 / m)), distance = right.mean - left.mean;
  test.p_greater = stats_t_above(distance / error, df);
  test.p_less = stats_t_above(-distance / error, df);
  double reach = t_quantile((1 - confidence) / 2, df) * error;
  test.ratio = (struct stats_interval){exp(distance - reach), exp(distance + reach)};
  return test;
}

/* Variance of the mean of a side's centres, with what is expected of any program. */
static double variance_at_zero(const struct run_centres *side, double floor)
{
  double expected = floor * floor + STATS_RUN_SPREAD * side->mean * STATS_RUN_SPREAD * side->mean;
  double df = STATS_RUN_WORTH + (double)side->count - 1;
  return (STATS_RUN_WORTH * expected + side->squares) / df / (double)side->count;
}

struct stats_run_test stats_between_runs_at_zero(const struct stats_sample *a, const struct stats_sample *b,
                                                 enum stats_centre centre, double confidence, double floor)
{
  struct stats_run_test test = {1, 1, {NAN, NAN}};
  struct run_centres left = centres_of(a, centre, false), right = centres_of(b, centre, false);
  if (!left.known || !right.known)
    return test;
  double va = variance_at_zero(&left, floor), vb = variance_at_zero(&right, floor), distance = right.mean - left.mean;
  double df =
      (va + vb) * (va + vb) /
      (va * va / (STATS_RUN_WORTH + (double)left.count - 1) + vb * vb / (STATS_RUN_WORTH + (double)right.count - 1));
  double error = sqrt(va + vb), reach = t_quantile((1 - confidence) / 2, df) * error;
  if (right.least > left.most)
    test.p_greater = stats_t_above(distance / error, df);
  if (right.most < left.least)
    test.p_less = stats_t_above(-distance / error, df);
  if (left.mean > 0)
    test.ratio =
        (struct stats_interval){fmax(0, 1 + (distance - reach) / left.mean), 1 + (distance + reach) / left.mean};
  return test;
}

/* ---- several metrics ---- */

void stats_holm(const double *p, size_t count, double *adjusted)
{
  size_t *order = opgap_xcalloc(count ? count : 1, sizeof *order);
  for (size_t i = 0; i < count; i++) { /* insertion: few metrics */
    size_t k = i;
    for (; k > 0 && p[order[k - 1]] > p[i]; k--)
      order[k] = order[k - 1];
    order[k] = i;
  }
  double *result = opgap_xcalloc(count ? count : 1, sizeof *result), highest = 0;
  for (size_t i = 0; i < count; i++) {
    double scaled = p[order[i]] * (double)(count - i);
    highest = scaled > highest ? scaled : highest;
    result[order[i]] = highest < 1 ? highest : 1;
  }
  memcpy(adjusted, result, count * sizeof *result);
  free(result);
  free(order);
}
