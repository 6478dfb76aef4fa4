/* Host memory: who made what lived at the peak, what grows with the steps, and allocations that failed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/order.h"
#include "analysis/pool.h"
#include "output/sections.h"

static int by_op(const void *left, const void *right)
{
  const struct opgap_sum_lived *l = left, *r = right;
  int order = strcmp(l->op, r->op);
  return order ? order : strcmp(l->source_location, r->source_location);
}

static int by_thread(const void *left, const void *right)
{
  const struct opgap_sum_lived *l = left, *r = right;
  if (l->pid != r->pid)
    return l->pid < r->pid ? -1 : 1;
  return l->tid < r->tid ? -1 : l->tid > r->tid;
}

/* Rows that are equal in this order become one with their sum; largest first, allocated. */
static struct opgap_sum_lived *joined(const struct opgap_summary *s, int (*order)(const void *, const void *),
                                      size_t *count)
{
  const struct opgap_sum_memory *m = &s->memory;
  struct opgap_sum_lived *rows = opgap_xcalloc(m->lived_count, sizeof *rows);
  *count = 0;
  if (m->lived_count)
    memcpy(rows, m->lived, m->lived_count * sizeof *rows);
  order_rows(rows, m->lived_count, sizeof *rows, order);
  for (size_t i = 0; i < m->lived_count; i++) {
    if (rows[i].bytes == 0)
      continue;
    if (*count > 0 && order(&rows[*count - 1], &rows[i]) == 0) {
      rows[*count - 1].bytes += rows[i].bytes;
      rows[*count - 1].blocks += rows[i].blocks;
    } else {
      rows[(*count)++] = rows[i];
    }
  }
  order_rows(rows, *count, sizeof *rows, order_lived);
  return rows;
}

static void op_cell(struct table *table, const char *op)
{
  table_cell(table, op[0] ? op : "(outside of ops)");
}

size_t section_peak_ops(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Op", true, 60, 0},     {"Bytes", false, 0, 0},           {"Of peak", false, 0, 2},
      {"Blocks", false, 0, 1}, {"Source Location", true, 80, 0},
  };
  size_t count;
  struct opgap_sum_lived *rows = joined(s, by_op, &count);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    op_cell(table, rows[i].op);
    table_bytes(table, rows[i].bytes);
    table_share(table, rows[i].bytes, s->memory.peak_bytes);
    table_count(table, rows[i].blocks);
    table_known(table, rows[i].source_location);
  }
  table_drop_unknown(table, 1);
  free(rows);
  return count - opgap_shown(count, o);
}

static int by_line(const void *left, const void *right)
{
  const struct opgap_sum_lived *l = left, *r = right;
  return strcmp(l->source_location, r->source_location);
}

bool section_has_peak_lines(const struct opgap_summary *s)
{
  size_t i = 0;
  while (i < s->memory.lived_count && (s->memory.lived[i].bytes == 0 || s->memory.lived[i].source_location[0] == '\0'))
    i++;
  return i < s->memory.lived_count;
}

size_t section_peak_lines(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Source Location", true, 100, 0}, {"Bytes", false, 0, 0}, {"Of peak", false, 0, 2}, {"Blocks", false, 0, 1}};
  size_t count;
  struct opgap_sum_lived *rows = joined(s, by_line, &count);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    table_cell(table, rows[i].source_location[0] ? rows[i].source_location : "(not recorded)");
    table_bytes(table, rows[i].bytes);
    table_share(table, rows[i].bytes, s->memory.peak_bytes);
    table_count(table, rows[i].blocks);
  }
  free(rows);
  return count - opgap_shown(count, o);
}

size_t section_peak_threads(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Thread", true, 24, 0}, {"TID", false, 0, 0},     {"PID", false, 0, 3},
      {"Bytes", false, 0, 0},  {"Of peak", false, 0, 2}, {"Blocks", false, 0, 1},
  };
  size_t count;
  struct opgap_sum_lived *rows = joined(s, by_thread, &count);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    table_cell(table, rows[i].thread[0] ? rows[i].thread : "?");
    table_format(table, "%d", rows[i].tid);
    table_format(table, "%d", rows[i].pid);
    table_bytes(table, rows[i].bytes);
    table_share(table, rows[i].bytes, s->memory.peak_bytes);
    table_count(table, rows[i].blocks);
  }
  free(rows);
  return count - opgap_shown(count, o);
}

static bool is_leak(const struct opgap_sum_lived *row)
{
  return row->growth_points > 0 && row->growth_low >= OPGAP_LEAK_LEAST;
}

static int fastest_first(const void *left, const void *right)
{
  const struct opgap_sum_lived *l = left, *r = right;
  if (l->growth_bytes != r->growth_bytes)
    return l->growth_bytes < r->growth_bytes ? 1 : -1;
  return order_lived(l, r);
}

bool section_has_leaks(const struct opgap_summary *s)
{
  size_t i = 0;
  while (i < s->memory.lived_count && !is_leak(&s->memory.lived[i]))
    i++;
  return i < s->memory.lived_count;
}

static void signed_bytes(char *text, size_t size, double bytes)
{
  char plain[32];
  text_bytes(plain, sizeof plain, (uint64_t)(bytes < 0 ? -bytes : bytes));
  snprintf(text, size, "%s%s", bytes < 0 ? "-" : "", plain);
}

size_t section_leaks(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Made in", true, 60, 0}, {"Grows a step", false, 0, 0},    {"95 % interval", false, 0, 5},
      {"Steps", false, 0, 2},   {"Thread", false, 0, 3},          {"PID", false, 0, 4},
      {"At peak", false, 0, 1}, {"Source Location", true, 80, 0},
  };
  const struct opgap_sum_memory *m = &s->memory;
  struct opgap_sum_lived *rows = opgap_xcalloc(m->lived_count, sizeof *rows);
  size_t count = 0;
  for (size_t i = 0; i < m->lived_count; i++) {
    if (!is_leak(&m->lived[i]))
      continue;
    rows[count++] = m->lived[i];
  }
  order_rows(rows, count, sizeof *rows, fastest_first);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    char slope[40], low[40], high[40];
    signed_bytes(slope, sizeof slope, rows[i].growth_bytes);
    signed_bytes(low, sizeof low, rows[i].growth_low);
    signed_bytes(high, sizeof high, rows[i].growth_high);
    op_cell(table, rows[i].op);
    table_cell(table, slope);
    table_format(table, "%s to %s", low, high);
    table_count(table, rows[i].growth_points);
    table_format(table, "%d", rows[i].tid);
    table_format(table, "%d", rows[i].pid);
    table_bytes(table, rows[i].bytes);
    table_known(table, rows[i].source_location);
  }
  table_drop_unknown(table, 1);
  free(rows);
  return count - opgap_shown(count, o);
}

/* Growth whose interval is within half of the slope, of at least a page a step, is worth a sentence. */
bool section_growth(char *text, size_t size, const struct opgap_sum_memory *m)
{
  char bytes[40], low[40], high[40];
  if (m->growth_of[0] == '\0' || m->growth_bytes < 4096 || m->growth_low < m->growth_bytes / 2)
    return false;
  signed_bytes(bytes, sizeof bytes, m->growth_bytes);
  signed_bytes(low, sizeof low, m->growth_low);
  signed_bytes(high, sizeof high, m->growth_high);
  snprintf(text, size,
           "a leak, or a cache that fills: %s by %s a step (95 %% interval %s to %s, %llu points, confidence: %s)",
           m->growth_of[0] == 'l' ? "live bytes grow" : "resident memory grows ~", bytes, low, high,
           (unsigned long long)m->growth_points, m->growth_low >= 0.9 * m->growth_bytes ? "high" : "medium");
  return true;
}

/* " of 1.00 GB"; "" when it is not known. */
static void known_bytes(char *text, size_t size, const char *before, uint64_t bytes)
{
  char amount[32];
  text[0] = '\0';
  if (bytes == OPGAP_UNKNOWN)
    return;
  text_bytes(amount, sizeof amount, bytes);
  snprintf(text, size, "%s%s", before, amount);
}

/* What failed: "malloc of 1.00 GB failed (Cannot allocate memory) in aten::empty, thread python 123, at 1.5 s". */
void section_failure(char *text, size_t size, const struct opgap_sum_failure *f)
{
  char bytes[48], rss[48], live[48], at[32];
  bool cuda = strncmp(f->call, "cu", 2) == 0;
  text_time(at, sizeof at, f->at_ns);
  known_bytes(bytes, sizeof bytes, " of ", f->bytes);
  known_bytes(live, sizeof live, ", live ", f->live_bytes);
  known_bytes(rss, sizeof rss, ", resident ~", f->rss_bytes);
  snprintf(text, size, "%s%s failed (%s)%s%s at %s%s%s, thread %d of %s %d", f->call, bytes,
           cuda ? "out of device memory" : strerror(f->error), f->op[0] ? " in " : "", f->op, at, live, rss, f->tid,
           f->process, f->pid);
}
