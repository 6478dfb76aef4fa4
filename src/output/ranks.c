/* The table of ranks, and the sentence about the one that the others wait for. */
#include <stdio.h>

#include "analysis/ranks.h"
#include "output/sections.h"

static bool several_hosts(const struct opgap_sum_ranks *ranks)
{
  for (size_t r = 0; r < ranks->count; r++)
    if (ranks->rows[r].clock_error_ns != 0)
      return true;
  return false;
}

static void clock_cell(struct table *table, const struct opgap_sum_rank *row)
{
  char offset[32], error[32];
  if (row->clock_error_ns == OPGAP_UNKNOWN) {
    table_cell(table, "-");
    return;
  }
  uint64_t distance = (uint64_t)(row->clock_offset_ns < 0 ? -row->clock_offset_ns : row->clock_offset_ns);
  text_time(offset, sizeof offset, distance);
  text_time(error, sizeof error, row->clock_error_ns);
  table_format(table, "%s%s +- %s", row->clock_offset_ns < 0 ? "-" : "+", offset, error);
}

size_t section_ranks(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Rank", false, 0, 0},          {"Host", true, 24, 3},
      {"Steps", false, 0, 6},         {"Step", false, 0, 0},
      {"p95", false, 0, 4},           {"Data wait", false, 0, 1},
      {"Collectives", false, 0, 2},   {"Waited for others", false, 0, 0},
      {"Others waited", false, 0, 0}, {"Came last", false, 0, 5},
      {"Clock", false, 0, 7},
  };
  const struct opgap_sum_ranks *ranks = &s->ranks;
  size_t rows = opgap_shown(ranks->count, o);
  table_begin(table, columns, sizeof columns / sizeof *columns - !several_hosts(ranks));
  for (size_t r = 0; r < rows; r++) {
    const struct opgap_sum_rank *row = &ranks->rows[r];
    if (row->rank < 0)
      table_format(table, "? (pid %d)", row->pid);
    else
      table_format(table, "%d", row->rank);
    table_cell(table, row->host);
    table_count(table, row->steps);
    table_time(table, row->step_median_ns, false);
    table_time(table, row->step_p95_ns, false);
    table_time(table, row->data_wait_ns, false);
    table_time(table, row->collective_ns, false);
    table_time(table, row->waited_ns, false);
    table_time(table, row->caused_ns, false);
    table_count(table, row->last);
    if (several_hosts(ranks))
      clock_cell(table, row);
  }
  return ranks->count - rows;
}

void section_straggler(char *text, size_t size, const struct opgap_sum_ranks *ranks)
{
  char extra[32], caused[32], name[32];
  if (ranks->straggler == SIZE_MAX) {
    snprintf(text, size, "no rank stands out: none causes more than half of the waiting");
    return;
  }
  const struct opgap_sum_rank *row = &ranks->rows[ranks->straggler];
  text_time(caused, sizeof caused, row->caused_ns);
  opgap_rank_name(name, sizeof name, row);
  int at = snprintf(text, size, "%s came last to %llu of %llu collectives; the others waited %s for it", name,
                    (unsigned long long)row->last, (unsigned long long)ranks->collectives, caused);
  if (ranks->straggler_part[0] && at > 0 && (size_t)at < size) {
    text_time(extra, sizeof extra, ranks->straggler_extra_ns);
    snprintf(text + at, size - (size_t)at, "; a step of it has %s more of: %s%s%s%s", extra, ranks->straggler_part,
             ranks->straggler_detail[0] ? " (" : "", ranks->straggler_detail, ranks->straggler_detail[0] ? ")" : "");
  }
}
