#include "output/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "output/table.h"

static size_t shown(const struct opgap_stack_table *table, size_t limit)
{
  return limit > 0 && table->row_count > limit ? limit : table->row_count;
}

static const char *title(enum opgap_stack_by by)
{
  static const char *const titles[] = {"Function", "Source line", "Module", "Stack"};
  return titles[by];
}

static void fill(struct table *out, const struct opgap_stack_table *table, size_t rows)
{
  for (size_t i = 0; i < rows; i++) {
    const struct opgap_stack_row *row = &table->rows[i];
    table_cell(out, row->text);
    table_share(out, row->self_ns, table->ns);
    table_time(out, row->self_ns, false);
    table_time(out, row->total_ns, false);
    table_count(out, row->count);
    table_bytes(out, row->bytes);
  }
}

static void head(const struct opgap_stack_table *table, FILE *file)
{
  char cost[32];
  text_time(cost, sizeof cost, table->cost_ns);
  fprintf(file,
          "%" PRIu64 " stacks, %" PRIu64 " different; %" PRIu64 " left out to save time, %" PRIu64 " failed%s%s\n",
          table->stacks, table->distinct, table->skipped, table->failed,
          table->cost_ns > 0 ? "; taking them cost " : "", table->cost_ns > 0 ? cost : "");
  if (table->changed_modules > 0)
    fprintf(file, "%u files are other builds now than when this was recorded: no names from them\n",
            table->changed_modules);
}

static void print_json(const struct opgap_stack_table *table, enum opgap_stack_by by, size_t rows, FILE *file)
{
  json_t *list = json_array();
  for (size_t i = 0; i < rows; i++) {
    const struct opgap_stack_row *row = &table->rows[i];
    char *name = text_clean(row->text);
    json_array_append_new(list, json_pack("{ss, sI, sI, sI, sI}", "name", name, "self_ns", (json_int_t)row->self_ns,
                                          "total_ns", (json_int_t)row->total_ns, "count", (json_int_t)row->count,
                                          "bytes", (json_int_t)row->bytes));
    free(name);
  }
  json_t *all =
      json_pack("{si, ss, sI, sI, sI, sI, sI, sI, si, so}", "schema", 1, "by", opgap_stack_by_name(by), "ns",
                (json_int_t)table->ns, "stacks", (json_int_t)table->stacks, "distinct", (json_int_t)table->distinct,
                "skipped", (json_int_t)table->skipped, "failed", (json_int_t)table->failed, "cost_ns",
                (json_int_t)table->cost_ns, "changed_modules", (int)table->changed_modules, "rows", list);
  if (all != NULL)
    json_dumpf(all, file, JSON_INDENT(2));
  json_decref(all);
  fputc('\n', file);
}

void opgap_output_stacks(const struct opgap_stack_table *table, enum opgap_stack_by by, enum opgap_stack_format format,
                         const struct opgap_output_options *options, FILE *file)
{
  size_t rows = shown(table, options->limit);
  if (format == OPGAP_STACKS_CSV) {
    fputs("name,self_ns,total_ns,count,bytes\r\n", file);
    for (size_t i = 0; i < rows; i++) {
      const struct opgap_stack_row *row = &table->rows[i];
      opgap_csv_text(row->text, file);
      fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\r\n", row->self_ns, row->total_ns, row->count,
              row->bytes);
    }
    return;
  }
  if (format == OPGAP_STACKS_JSON) {
    print_json(table, by, rows, file);
    return;
  }
  if (format == OPGAP_STACKS_COLLAPSED) {
    for (size_t i = 0; i < rows; i++)
      fprintf(file, "%s %" PRIu64 "\n", table->rows[i].text, table->rows[i].self_ns);
    return;
  }
  const struct table_column columns[] = {{title(by), true, 90, 0},     {"Self %", false, 0, 1},
                                         {"Self", false, 0, 0},        {"Total", false, 0, 2},
                                         {"# of Stacks", false, 0, 3}, {"Alloc bytes", false, 0, 4}};
  struct table out;
  head(table, file);
  fputc('\n', file);
  table_begin(&out, columns, sizeof columns / sizeof *columns);
  fill(&out, table, rows);
  if (format == OPGAP_STACKS_MARKDOWN)
    table_markdown(&out, file);
  else
    table_print(&out, options->width, "  ", options->colour, file);
  table_end(&out);
  if (rows < table->row_count)
    fprintf(file, "  ... and %zu more rows (--limit 0 shows all)\n", table->row_count - rows);
}
