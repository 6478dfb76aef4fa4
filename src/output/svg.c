/* Two histograms of step times over one axis, the baseline above, now below; the median is a line.  Steps beyond
 * 1.5 times the 95th percentile, or 3 times the median where that is less, of the slower side are counted in the last
 * bar, so that outliers do not flatten the rest. */
#include <stdlib.h>

#include "analysis/stats_test.h"
#include "output/gate.h"

#define BARS 60u
#define WIDTH 720.0
#define HEIGHT 110.0
#define LEFT 20.0

struct times {
  double *at;
  size_t count;
};

static struct times times_of(const struct opgap_runs *runs)
{
  struct times t = {opgap_xcalloc((size_t)runs->steps + 1, sizeof(double)), 0};
  for (size_t r = 0; r < runs->run_count; r++)
    for (size_t i = 0; i < runs->runs[r].steps && t.count < runs->steps; i++)
      t.at[t.count++] = (double)runs->runs[r].samples[OPGAP_METRIC_STEP][i];
  return t;
}

static double larger(double a, double b)
{
  return a > b ? a : b;
}

static void histogram(const struct times *t, double low, double high, double top, const char *title, const char *colour,
                      FILE *file)
{
  size_t bars[BARS] = {0}, most = 1;
  char median[32];
  for (size_t i = 0; i < t->count; i++) {
    double place = (t->at[i] - low) / (high - low) * BARS;
    size_t bar = place < 0 ? 0 : place >= BARS ? BARS - 1 : (size_t)place;
    most = ++bars[bar] > most ? bars[bar] : most;
  }
  opgap_unit_text(median, sizeof median, OPGAP_UNIT_NS, stats_median(t->at, t->count));
  fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%s: %zu steps, median %s</text>\n", LEFT, top + 12, title, t->count,
          median);
  for (size_t i = 0; i < BARS; i++)
    if (bars[i] > 0) {
      double tall = (HEIGHT - 20) * (double)bars[i] / (double)most;
      fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
              LEFT + WIDTH * (double)i / BARS, top + HEIGHT - tall, WIDTH / BARS - 1, tall, colour);
    }
  double x = LEFT + WIDTH * (stats_median(t->at, t->count) - low) / (high - low);
  if (t->count > 0)
    fprintf(file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#222\" stroke-dasharray=\"4 3\"/>\n",
            x, x, top + 18, top + HEIGHT);
}

void opgap_gate_svg(const struct opgap_comparison *c, FILE *file)
{
  struct times before = times_of(c->before), now = times_of(c->now);
  double low = 0, high = 1;
  char text[32];
  for (int side = 0; side < 2; side++) {
    const struct times *t = side ? &now : &before;
    if (t->count == 0)
      continue;
    double least = stats_quantile_of(t->at, t->count, 0);
    low = low == 0 || least < low ? least : low;
    double most = 1.5 * stats_quantile_of(t->at, t->count, 0.95), much = 3 * stats_median(t->at, t->count);
    high = larger(high, most < much ? most : much);
  }
  high = high > low ? high : low + 1;
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
          "font-size=\"12\">\n<title>Step times</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          WIDTH + 2 * LEFT, 2 * HEIGHT + 50);
  histogram(&before, low, high, 5, "baseline", "#7a8aa0", file);
  histogram(&now, low, high, HEIGHT + 15, "now", "#d08a2e", file);
  opgap_unit_text(text, sizeof text, OPGAP_UNIT_NS, low);
  fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%s</text>\n", LEFT, 2 * HEIGHT + 35, text);
  opgap_unit_text(text, sizeof text, OPGAP_UNIT_NS, high);
  fprintf(file, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%s or more</text>\n</svg>\n", LEFT + WIDTH,
          2 * HEIGHT + 35, text);
  free(before.at);
  free(now.at);
}
