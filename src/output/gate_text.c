#include "output/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/table.h"

static void percent(char *text, size_t size, double share)
{
  if (!isfinite(share))
    snprintf(text, size, "-");
  else if (fabs(share) >= 10)
    snprintf(text, size, "%+.0f%%", share * 100);
  else
    snprintf(text, size, "%+.1f%%", share * 100);
}

void opgap_change_text(char *text, size_t size, const struct opgap_change *change)
{
  if (change->before == 0 && change->now > 0)
    snprintf(text, size, "from 0");
  else
    percent(text, size, change->relative);
}

void opgap_interval_text(char *text, size_t size, const struct opgap_change *change)
{
  char low[32], high[32];
  if (change->exact) {
    snprintf(text, size, "exact");
  } else if (!isfinite(change->low) || !isfinite(change->high)) {
    snprintf(text, size, "-");
  } else {
    percent(low, sizeof low, change->low);
    percent(high, sizeof high, change->high);
    snprintf(text, size, "%s .. %s", low, high);
  }
}

bool opgap_change_is_shown(const struct opgap_change *change, bool all)
{
  return all || change->verdict != OPGAP_NOT_JUDGED;
}

void opgap_explanation_text(char *text, size_t size, const struct opgap_change *change,
                            const struct opgap_explanation *e)
{
  char before[32], now[32], *name = text_clean(e->name);
  opgap_unit_text(before, sizeof before, change->unit, e->before);
  opgap_unit_text(now, sizeof now, change->unit, e->now);
  snprintf(text, size, "%s %s: %s -> %s, %.0f %% of the change", e->kind, name, before, now, e->share * 100);
  free(name);
}

void opgap_gate_headline(const struct opgap_comparison *c, char *text, size_t size)
{
  static const char *const words[OPGAP_VERDICT_COUNT] = {"PASS", "PASS, improved", "REGRESSION", "NOT COMPARABLE", ""};
  size_t at = (size_t)snprintf(text, size, "%s", words[c->verdict]);
  if (c->verdict == OPGAP_INCOMPARABLE) {
    if (c->reason_count > 0)
      snprintf(text + at, size - at, ": %s", c->reasons[0]);
    return;
  }
  const char *before = ": ";
  for (size_t i = 0; i < c->change_count && at < size; i++) {
    const struct opgap_change *change = &c->changes[i];
    char relative[32];
    if (change->verdict != c->verdict || c->verdict == OPGAP_SAME)
      continue;
    opgap_change_text(relative, sizeof relative, change);
    at += (size_t)snprintf(text + at, size - at, "%s%s %s", before, change->name, relative);
    before = ", ";
  }
}

static const struct table_column columns[] = {
    {"Metric", true, 0, 0},  {"Baseline", false, 0, 0}, {"Now", false, 0, 0},
    {"Change", false, 0, 0}, {"Interval", false, 0, 2}, {"Verdict", true, 140, 0},
};

static void add_row(struct table *table, const struct opgap_change *change)
{
  char text[256];
  table_cell(table, change->name);
  opgap_unit_text(text, sizeof text, change->unit, change->before);
  table_cell(table, text);
  opgap_unit_text(text, sizeof text, change->unit, change->now);
  table_cell(table, text);
  opgap_change_text(text, sizeof text, change);
  table_cell(table, text);
  opgap_interval_text(text, sizeof text, change);
  table_cell(table, text);
  const char *verdict = opgap_change_verdict_name(change->verdict);
  if (change->reason[0])
    table_format(table, "%s: %s", verdict, change->reason);
  else
    table_cell(table, verdict);
}

static size_t build_table(const struct opgap_comparison *c, bool all, struct table *table)
{
  size_t rows = 0;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < c->change_count; i++) {
    if (!opgap_change_is_shown(&c->changes[i], all))
      continue;
    add_row(table, &c->changes[i]);
    rows++;
  }
  return rows;
}

/* Text that may hold names. */
static void print_plain(const char *before, const char *text, bool markdown, FILE *file)
{
  char *plain = markdown ? table_markdown_text(text) : text_clean(text);
  fprintf(file, "%s%s", before, plain);
  free(plain);
}

static void print_explanations(const struct opgap_comparison *c, bool markdown, FILE *file)
{
  char text[1024];
  for (size_t i = 0; i < c->change_count; i++) {
    const struct opgap_change *change = &c->changes[i];
    bool found = change->verdict == OPGAP_REGRESSED || change->verdict == OPGAP_IMPROVED;
    if (!found || change->explanation_count == 0)
      continue;
    print_plain("\n", change->name, markdown, file);
    fprintf(file, " %s%s:\n", opgap_change_verdict_name(change->verdict), change->per_step ? ", per step" : "");
    if (markdown) /* it needs an empty line before a list */
      fputc('\n', file);
    for (size_t k = 0; k < change->explanation_count; k++) {
      opgap_explanation_text(text, sizeof text, change, &change->explanations[k]);
      print_plain(markdown ? "- " : "  ", text, markdown, file);
      fputc('\n', file);
    }
  }
}

static bool improved(const struct opgap_comparison *c)
{
  for (size_t i = 0; i < c->change_count; i++)
    if (c->changes[i].verdict == OPGAP_IMPROVED)
      return true;
  return false;
}

static void print_sides(const struct opgap_comparison *c, const char *indent, FILE *file)
{
  char *before = text_clean(c->before->label), *now = text_clean(c->now->label);
  fprintf(file, "%sbaseline  %s (%zu run%s, %llu steps)\n", indent, before, c->before->run_count,
          c->before->run_count == 1 ? "" : "s", (unsigned long long)c->before->steps);
  fprintf(file, "%snow       %s (%zu run%s, %llu steps)\n", indent, now, c->now->run_count,
          c->now->run_count == 1 ? "" : "s", (unsigned long long)c->now->steps);
  free(before);
  free(now);
}

static void print_lines(const char *const *lines, size_t count, const char *before, bool markdown, FILE *file)
{
  for (size_t i = 0; i < count; i++) {
    print_plain(before, lines[i], markdown, file);
    fputc('\n', file);
  }
}

void opgap_gate_text(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file)
{
  char headline[1024];
  struct table table;
  opgap_gate_headline(c, headline, sizeof headline);
  print_plain("", headline, false, file);
  fputs("\n\n", file);
  print_sides(c, "", file);
  print_lines(c->reasons, c->reason_count, "reason    ", false, file);
  print_lines(c->notes, c->note_count, "note      ", false, file);
  if (build_table(c, options->all, &table) > 0) {
    fputc('\n', file);
    table_print(&table, options->width, "", options->colour, file);
  }
  table_end(&table);
  print_explanations(c, false, file);
  if (improved(c) && options->update != NULL)
    fprintf(file, "\nTo keep the improvement: %s\n", options->update);
}

void opgap_gate_markdown(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file)
{
  char headline[1024];
  struct table table;
  opgap_gate_headline(c, headline, sizeof headline);
  print_plain("### opgap: ", headline, true, file);
  fputs("\n\n", file);
  print_lines(c->reasons, c->reason_count, "- ", true, file);
  print_lines(c->notes, c->note_count, "- note: ", true, file);
  if (c->reason_count + c->note_count > 0)
    fputc('\n', file);
  if (build_table(c, options->all, &table) > 0)
    table_markdown(&table, file);
  table_end(&table);
  print_explanations(c, true, file);
  fputs("\n```text\n", file);
  print_sides(c, "", file);
  fputs("```\n", file);
  if (improved(c) && options->update != NULL)
    fprintf(file, "\nTo keep the improvement: `%s`\n", options->update);
}
