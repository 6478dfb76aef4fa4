#include "output/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/summary.h"

#define ROOM_LEAST 16u /* a flexible column is never cut below this */
#define GAP 2u         /* blanks between columns */

static unsigned width_of(const char *text)
{
  unsigned width = 0;
  for (; *text; text++)
    width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

void table_begin(struct table *table, const struct table_column *columns, unsigned count)
{
  *table = (struct table){.columns = columns, .column_count = count};
}

static void add(struct table *table, char *text)
{
  table->cells = opgap_vec_grow(table->cells, table->cell_count, &table->room, sizeof *table->cells);
  table->cells[table->cell_count++] = text;
}

void table_cell(struct table *table, const char *text)
{
  add(table, text_clean(text));
}

void table_known(struct table *table, const char *text)
{
  table_cell(table, text[0] ? text : "-");
}

void table_format(struct table *table, const char *format, ...)
{
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    text = opgap_xcalloc(1, 1);
  va_end(args);
  table_cell(table, text);
  free(text);
}

static bool last_is_unknown(const struct table *table)
{
  for (size_t i = table->column_count - 1; i < table->cell_count; i += table->column_count)
    if (strcmp(table->cells[i], "-") != 0)
      return false;
  return true;
}

void table_drop_unknown(struct table *table, unsigned most)
{
  for (; most > 0 && last_is_unknown(table); most--) {
    size_t kept = 0;
    for (size_t i = 0; i < table->cell_count; i++)
      if (i % table->column_count == table->column_count - 1)
        free(table->cells[i]);
      else
        table->cells[kept++] = table->cells[i];
    table->cell_count = kept;
    table->column_count--;
  }
}

void table_time(struct table *table, uint64_t ns, bool estimated)
{
  char text[32];
  text_time(text, sizeof text, ns);
  table_format(table, "%s%s", estimated && ns != OPGAP_UNKNOWN ? "~" : "", text);
}

void table_average(struct table *table, uint64_t ns, uint64_t count, bool estimated)
{
  table_time(table, ns == OPGAP_UNKNOWN || count == 0 ? OPGAP_UNKNOWN : ns / count, estimated);
}

void table_bytes(struct table *table, uint64_t bytes)
{
  char text[32];
  text_bytes(text, sizeof text, bytes);
  table_cell(table, text);
}

void table_count(struct table *table, uint64_t count)
{
  if (count == OPGAP_UNKNOWN)
    table_cell(table, "-");
  else
    table_format(table, "%llu", (unsigned long long)count);
}

void table_share(struct table *table, uint64_t part, uint64_t whole)
{
  if (whole == 0 || part == OPGAP_UNKNOWN || whole == OPGAP_UNKNOWN)
    table_cell(table, "-");
  else
    table_format(table, "%.2f%%", 100.0 * (double)part / (double)whole);
}

void table_bar(struct table *table, uint64_t part, uint64_t whole)
{
  char bar[41] = "";
  if (whole > 0 && part <= whole)
    memset(bar, '#', (size_t)(40.0 * (double)part / (double)whole + 0.5));
  table_cell(table, bar);
}

void table_end(struct table *table)
{
  for (size_t i = 0; i < table->cell_count; i++)
    free(table->cells[i]);
  free(table->cells);
  *table = (struct table){0};
}

static size_t table_rows(const struct table *table)
{
  return table->cell_count / table->column_count;
}

static const char *cell(const struct table *table, size_t row, unsigned column)
{
  return table->cells[row * table->column_count + column];
}

struct layout {
  unsigned width[TABLE_COLUMNS];
  bool left_out[TABLE_COLUMNS];
};

static unsigned total_width(const struct table *table, const struct layout *l)
{
  unsigned total = 0;
  for (unsigned c = 0; c < table->column_count; c++)
    total += l->left_out[c] ? 0 : l->width[c] + GAP;
  return total > GAP ? total - GAP : 0;
}

static void natural_widths(const struct table *table, struct layout *l)
{
  for (unsigned c = 0; c < table->column_count; c++) {
    const struct table_column *column = &table->columns[c];
    l->width[c] = width_of(column->title);
    for (size_t row = 0; row < table_rows(table); row++) {
      unsigned width = width_of(cell(table, row, c));
      if (width > l->width[c])
        l->width[c] = width;
    }
    if (column->room > 0 && l->width[c] > column->room)
      l->width[c] = column->room;
  }
}

/* A flexible column keeps five ninths of its room until nothing else can be left out. */
static unsigned least(const struct table_column *column, bool hard)
{
  unsigned share = column->room * 5 / 9;
  return share > ROOM_LEAST && !hard ? share : ROOM_LEAST;
}

/* Takes `excess` columns away from the flexible columns, the widest first; returns what remains.  hard: when nothing
 * else can be left out. */
static unsigned shrink(const struct table *table, struct layout *l, unsigned excess, bool hard)
{
  while (excess > 0) {
    unsigned widest = TABLE_COLUMNS;
    for (unsigned c = 0; c < table->column_count; c++)
      if (table->columns[c].room > 0 && !l->left_out[c] && l->width[c] > least(&table->columns[c], hard) &&
          (widest == TABLE_COLUMNS || l->width[c] > l->width[widest]))
        widest = c;
    if (widest == TABLE_COLUMNS)
      return excess;
    l->width[widest]--;
    excess--;
  }
  return 0;
}

static bool leave_out_one(const struct table *table, struct layout *l)
{
  unsigned worst = TABLE_COLUMNS;
  for (unsigned c = 0; c < table->column_count; c++)
    if (!l->left_out[c] && table->columns[c].drop > 0 &&
        (worst == TABLE_COLUMNS || table->columns[c].drop > table->columns[worst].drop))
      worst = c;
  if (worst == TABLE_COLUMNS)
    return false;
  l->left_out[worst] = true;
  return true;
}

static struct layout lay_out(const struct table *table, unsigned width)
{
  struct layout l = {0};
  natural_widths(table, &l);
  if (width == 0)
    return l;
  for (;;) {
    struct layout fitted = l;
    unsigned total = total_width(table, &fitted);
    if (total <= width || shrink(table, &fitted, total - width, false) == 0)
      return fitted;
    if (!leave_out_one(table, &l)) {
      shrink(table, &fitted, total_width(table, &fitted) - width, true);
      return fitted;
    }
  }
}

/* Bytes of the first `width` characters. */
static size_t prefix_bytes(const char *text, unsigned width)
{
  const char *at = text;
  for (; *at && (width > 0 || ((unsigned char)*at & 0xc0) == 0x80); at++)
    if (((unsigned char)*at & 0xc0) != 0x80)
      width--;
  return (size_t)(at - text);
}

/* A text that is too wide loses its middle: names differ at both ends. */
static void put_cut(const char *text, unsigned have, unsigned width, FILE *file)
{
  unsigned head = (width - 3) / 2, tail = width - 3 - head;
  fwrite(text, 1, prefix_bytes(text, head), file);
  fputs("...", file);
  fputs(text + prefix_bytes(text, have - tail), file);
}

static void put(const char *text, unsigned width, bool left, bool last, FILE *file)
{
  unsigned have = width_of(text);
  unsigned pad = have < width ? width - have : 0;
  if (!left)
    fprintf(file, "%*s", (int)pad, "");
  if (have > width && width > 3)
    put_cut(text, have, width, file);
  else
    fputs(text, file);
  if (left && !last)
    fprintf(file, "%*s", (int)pad, "");
}

static void put_row(const struct table *table, const struct layout *l, const char *indent, size_t row, bool titles,
                    FILE *file)
{
  unsigned last = 0;
  for (unsigned c = 0; c < table->column_count; c++)
    if (!l->left_out[c])
      last = c;
  fputs(indent, file);
  for (unsigned c = 0, shown = 0; c < table->column_count; c++) {
    if (l->left_out[c])
      continue;
    if (shown++ > 0)
      fprintf(file, "%*s", (int)GAP, "");
    put(titles ? table->columns[c].title : cell(table, row, c), l->width[c], table->columns[c].left, c == last, file);
  }
}

void table_print(const struct table *table, unsigned width, const char *indent, bool colour, FILE *file)
{
  unsigned indented = (unsigned)strlen(indent);
  struct layout l = lay_out(table, width > indented ? width - indented : width);
  fputs(colour ? "\033[1m" : "", file);
  put_row(table, &l, indent, 0, true, file);
  fprintf(file, "%s\n%s", colour ? "\033[0m" : "", indent);
  for (unsigned i = total_width(table, &l); i > 0; i--)
    fputc('-', file);
  fputc('\n', file);
  for (size_t row = 0; row < table_rows(table); row++) {
    put_row(table, &l, indent, row, false, file);
    fputc('\n', file);
  }
}

char *table_markdown_text(const char *bytes)
{
  char *clean = text_clean(bytes), *text = opgap_xcalloc(strlen(clean) * 2 + 1, 1), *to = text;
  for (const char *at = clean; *at; at++) {
    if (strchr("|<>*_`\\&[]~", *at) != NULL)
      *to++ = '\\';
    *to++ = *at;
  }
  free(clean);
  return text;
}

void table_markdown(const struct table *table, FILE *file)
{
  for (unsigned c = 0; c < table->column_count; c++)
    fprintf(file, "| %s ", table->columns[c].title);
  fputs("|\n", file);
  for (unsigned c = 0; c < table->column_count; c++)
    fputs(table->columns[c].left ? "|:---" : "|---:", file);
  fputs("|\n", file);
  for (size_t row = 0; row < table_rows(table); row++) {
    for (unsigned c = 0; c < table->column_count; c++) {
      char *text = table_markdown_text(cell(table, row, c));
      fprintf(file, "| %s ", text);
      free(text);
    }
    fputs("|\n", file);
  }
  fputc('\n', file);
}
