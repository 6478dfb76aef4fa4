#include "output/chart.h"

#include <string.h>

#define INDENT 2u
#define LEAST_ROOM 20u

size_t chart_room(unsigned width, size_t label)
{
  size_t taken = INDENT + label + 2, all = width > 0 ? width : 100;
  size_t room = all > taken + LEAST_ROOM ? all - taken : LEAST_ROOM;
  return room < CHART_COLUMNS ? room : CHART_COLUMNS;
}

bool chart_utf8(const char *all, const char *ctype, const char *lang)
{
  const char *name = all && all[0] ? all : ctype && ctype[0] ? ctype : lang ? lang : "";
  return strcasestr(name, "utf-8") != NULL || strcasestr(name, "utf8") != NULL;
}

/* What fills a cell, `eighths` of it from below. */
static const char *filled(unsigned eighths, bool utf8)
{
  static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char *const ascii[] = {" ", ".", ".", ".", ":", ":", ":", "#", "#"};
  return (utf8 ? blocks : ascii)[eighths];
}

/* Height in eighths of a line; what is not nothing is seen. */
static unsigned eighths_of(const struct chart *chart, double value)
{
  double all = 8.0 * chart->lines, height = value / chart->top * all;
  if (!(value > 0))
    return 0;
  return height >= all ? chart->lines * 8 : height < 1 ? 1 : (unsigned)(height + 0.5);
}

static void print_mark(const struct chart *chart, const char *mark, FILE *file)
{
  if (chart->colour)
    fprintf(file, "\033[31m%s\033[0m", mark);
  else
    fputs(mark, file);
}

/* line: from below, 0 on the axis */
static void print_cell(const struct chart *chart, const struct chart_column *column, unsigned line, FILE *file)
{
  unsigned bar = eighths_of(chart, column->bar), mark = eighths_of(chart, column->mark), below = line * 8;
  unsigned here = bar <= below ? 0 : bar - below < 8 ? bar - below : 8;
  if (column->mark > chart->top && line + 1 == chart->lines) {
    print_mark(chart, "^", file);
  } else if (here == 0 && mark > below && mark <= below + 8 && column->mark > column->bar) {
    print_mark(chart, chart->utf8 ? "·" : "'", file);
  } else {
    fputs(filled(here, chart->utf8), file);
  }
}

void chart_print(const struct chart *chart, FILE *file)
{
  size_t label = strlen(chart->high) > strlen(chart->low) ? strlen(chart->high) : strlen(chart->low);
  for (unsigned line = chart->lines; line-- > 0;) {
    const char *text = line + 1 == chart->lines ? chart->high : line == 0 ? chart->low : "";
    fprintf(file, "%*s%*s %s", (int)INDENT, "", (int)label, text, chart->utf8 ? "│" : "|");
    for (size_t i = 0; i < chart->count; i++)
      print_cell(chart, &chart->columns[i], line, file);
    fputc('\n', file);
  }
  fprintf(file, "%*s%s", (int)(INDENT + label + 1), "", chart->utf8 ? "└" : "+");
  for (size_t i = 0; i < chart->count; i++)
    fputs(chart->utf8 ? "─" : "-", file);
  int gap = (int)chart->count - (int)strlen(chart->first) - (int)strlen(chart->last);
  fprintf(file, "\n%*s%s%*s%s\n", (int)(INDENT + label + 2), "", chart->first, gap > 1 ? gap : 1, "", chart->last);
}
