/* Charts of text: bars side by side over an axis, in eighths of a line where the terminal shows UTF-8, else in ASCII.
 *
 * Threads: one at a time.  Ownership: nothing is kept. */
#ifndef OPGAP_OUTPUT_CHART_H
#define OPGAP_OUTPUT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CHART_COLUMNS 240u /* the most */

struct chart_column {
  double bar;  /* height; below 0: no value, the column stays empty */
  double mark; /* a mark at this height where it lies above the bar; 0: none.  Above the chart: ^ in the highest line */
};

struct chart {
  struct chart_column columns[CHART_COLUMNS];
  size_t count;
  unsigned lines;           /* height */
  double top;               /* value of the upper end; > 0 */
  const char *high, *low;   /* labels of the upper and the lower end */
  const char *first, *last; /* labels of the axis' ends */
  bool utf8, colour;
};

/* How many columns fit beside labels of this width; width 0 (no terminal) counts as 100. */
size_t chart_room(unsigned width, size_t label);
void chart_print(const struct chart *chart, FILE *file);

/* Whether text for a terminal may be UTF-8: the values of LC_ALL, LC_CTYPE and LANG, NULL or "" for unset. */
bool chart_utf8(const char *all, const char *ctype, const char *lang);

#endif
