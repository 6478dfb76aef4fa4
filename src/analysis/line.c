/* See line.h. */
#include "analysis/line.h"

#include <math.h>

void line_add_run(struct line *l, double x, double count, double y)
{
  if (count <= 0)
    return;
  if (l->n == 0) {
    l->x0 = x;
    l->y0 = y;
  }
  x -= l->x0;
  y -= l->y0;
  double last = count - 1, sum = count * x + count * last / 2; /* of all x; then of their squares */
  double squares = count * x * x + x * count * last + count * last * (2 * count - 1) / 6;
  l->n += count;
  l->x += sum;
  l->y += count * y;
  l->xx += squares;
  l->xy += sum * y;
  l->yy += count * y * y;
}

void line_add(struct line *l, double x, double y)
{
  line_add_run(l, x, 1, y);
}

bool line_fit(const struct line *l, struct line_fit *fit)
{
  double xx = l->xx - l->x * l->x / l->n, xy = l->xy - l->x * l->y / l->n, yy = l->yy - l->y * l->y / l->n;
  if (l->n < LINE_LEAST_POINTS || xx <= 0)
    return false;
  double slope = xy / xx, left = yy - slope * xy;
  *fit = (struct line_fit){.slope = slope,
                           .intercept = l->y0 + l->y / l->n - slope * (l->x0 + l->x / l->n),
                           .explained = yy > 0 ? xy * xy / (xx * yy) : 0,
                           .error = left > 0 ? sqrt(left / (l->n - 2) / xx) : 0};
  return true;
}

/* The 97.5 % quantile of Student's t by its expansion in 1 / degrees (Abramowitz and Stegun 26.7.5): 0.1 % too small at
 * 6 degrees, the fewest here. */
static double t_quantile(double degrees)
{
  const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

double line_half_width(const struct line *l, const struct line_fit *fit)
{
  return t_quantile(l->n - 2) * fit->error;
}
