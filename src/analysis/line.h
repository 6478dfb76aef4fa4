/* A least-squares straight line through points, in one pass about the first.
 *
 * Threads: pure functions. */
#ifndef OPGAP_ANALYSIS_LINE_H
#define OPGAP_ANALYSIS_LINE_H

#include <stdbool.h>

struct line {
  double n, x0, y0, x, y, xx, xy, yy;
};

#define LINE_LEAST_POINTS 8

void line_add(struct line *l, double x, double y);
/* As line_add of (x, y), (x + 1, y), ... (x + count - 1, y). */
void line_add_run(struct line *l, double x, double count, double y);

struct line_fit {
  double slope, intercept;
  double explained; /* R squared, 0 to 1; 0 where nothing varies */
  double error;     /* standard error of the slope, with independent deviations */
};
/* False: fewer than LINE_LEAST_POINTS points, or all of one x. */
bool line_fit(const struct line *l, struct line_fit *fit);
/* Half the width of the 95 % interval of the slope (Student's t, n - 2 degrees of freedom). */
double line_half_width(const struct line *l, const struct line_fit *fit);

#endif
