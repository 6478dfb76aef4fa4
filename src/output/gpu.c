/* The tables of kernels, copies and findings. */
#include <stdio.h>

#include "output/sections.h"

static void extent_cell(struct table *table, const struct opgap_sum_kernel *kernel, const uint32_t extent[3])
{
  if (extent[0] == 0)
    table_cell(table, "-");
  else
    table_format(table, "%u,%u,%u%s", extent[0], extent[1], extent[2], kernel->one_shape ? "" : " ...");
}

size_t section_kernels(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Kernel", true, 60, 0}, {"Time %", false, 0, 0},    {"Total", false, 0, 0},  {"# of Calls", false, 0, 0},
      {"Avg", false, 0, 1},    {"Min", false, 0, 2},       {"Max", false, 0, 3},    {"Grid", false, 0, 4},
      {"Block", false, 0, 5},  {"Registers", false, 0, 7}, {"Shared", false, 0, 6}, {"Occupancy", false, 0, 5},
  };
  const struct opgap_sum_gpu_tables *t = &s->gpu_tables;
  uint64_t total = 0;
  for (size_t i = 0; i < t->kernel_count; i++)
    total += t->kernels[i].total_ns;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(t->kernel_count, o); i++) {
    const struct opgap_sum_kernel *k = &t->kernels[i];
    table_cell(table, k->name);
    table_share(table, k->total_ns, total);
    table_time(table, k->total_ns, false);
    table_count(table, k->calls);
    table_average(table, k->total_ns, k->calls, false);
    table_time(table, k->min_ns, false);
    table_time(table, k->max_ns, false);
    extent_cell(table, k, k->grid);
    extent_cell(table, k, k->block);
    table_count(table, k->registers);
    table_bytes(table, k->shared_bytes);
    if (k->occupancy >= 0)
      table_format(table, "%.1f%%", 100 * k->occupancy);
    else
      table_cell(table, "-");
  }
  return t->kernel_count - opgap_shown(t->kernel_count, o);
}

static void unit_cell(struct table *table, uint64_t value, double divisor, const char *unit)
{
  if (value == OPGAP_UNKNOWN)
    table_cell(table, "-");
  else
    table_format(table, "%.0f %s", (double)value / divisor, unit);
}

/* "60 % power cap", the brake that was on most. */
static void brake_cell(struct table *table, const struct opgap_sum_gpu_state *state)
{
  int most = 0;
  for (int b = 1; b < OPGAP_BRAKE_COUNT; b++)
    if (state->brakes[b] > state->brakes[most])
      most = b;
  if (state->braked == OPGAP_UNKNOWN)
    table_cell(table, "-");
  else if (state->braked == 0)
    table_cell(table, "no");
  else
    table_format(table, "%.0f %%, %s", 100.0 * (double)state->braked / (double)state->samples,
                 opgap_gpu_brake_name((enum opgap_gpu_brake)most));
}

size_t section_gpu_state(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"GPU", false, 0, 0},   {"SM clock", false, 0, 0}, {"of", false, 0, 0},    {"Memory clock", false, 0, 6},
      {"Power", false, 0, 2}, {"of", false, 0, 2},       {"Heat", false, 0, 3},  {"In use", false, 0, 4},
      {"of", false, 0, 4},    {"Held down", true, 0, 0}, {"Driver", true, 0, 5},
  };
  (void)o;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < s->gpu_count; i++) {
    const struct opgap_sum_gpu_state *state = &s->gpus[i].state;
    if (state->samples == 0)
      continue;
    table_count(table, s->gpus[i].device);
    unit_cell(table, state->sm_mhz, 1, "MHz");
    unit_cell(table, state->sm_mhz_most, 1, "MHz");
    unit_cell(table, state->memory_mhz, 1, "MHz");
    unit_cell(table, state->milliwatts, 1e3, "W");
    unit_cell(table, state->milliwatts_most, 1e3, "W");
    unit_cell(table, state->celsius, 1, "C");
    table_bytes(table, state->used_bytes);
    table_bytes(table, state->total_bytes);
    brake_cell(table, state);
    table_cell(table, state->driver);
  }
  return 0;
}

size_t section_copies(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Copy", true, 0, 0},        {"From", true, 0, 0},   {"To", true, 0, 0},    {"Async", true, 0, 3},
      {"# of Calls", false, 0, 2}, {"Bytes", false, 0, 0}, {"Time", false, 0, 0}, {"GB/s", false, 0, 1},
  };
  const struct opgap_sum_gpu_tables *t = &s->gpu_tables;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(t->copy_count, o); i++) {
    const struct opgap_sum_copy *c = &t->copies[i];
    table_cell(table, c->direction);
    table_cell(table, c->source);
    table_cell(table, c->target);
    table_cell(table, c->async ? "yes" : "no");
    table_count(table, c->calls);
    table_bytes(table, c->bytes);
    table_time(table, c->total_ns, false);
    if (c->total_ns > 0)
      table_format(table, "%.2f", (double)c->bytes / (double)c->total_ns);
    else
      table_cell(table, "-");
  }
  return t->copy_count - opgap_shown(t->copy_count, o);
}

size_t section_findings(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Rule", true, 28, 0},  {"In", true, 40, 1},      {"Times", false, 0, 0},           {"Time", false, 0, 0},
      {"Bytes", false, 0, 2}, {"Meaning", true, 90, 3}, {"Source Location", true, 80, 0},
  };
  const struct opgap_sum_gpu_tables *t = &s->gpu_tables;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(t->finding_count, o); i++) {
    const struct opgap_sum_finding *f = &t->findings[i];
    table_cell(table, opgap_gpu_finding_name(f->finding));
    table_cell(table, f->op);
    table_count(table, f->count);
    table_time(table, f->ns, false);
    table_bytes(table, f->bytes);
    table_cell(table, opgap_gpu_finding_text(f->finding));
    table_known(table, f->source_location);
  }
  table_drop_unknown(table, 1);
  return t->finding_count - opgap_shown(t->finding_count, o);
}

/* A digit for each thirtieth: 9 is 90 % or more. */
void section_gpu_use(char *text, size_t size, const struct opgap_sum_gpu_use *use)
{
  size_t i = 0;
  for (; i < OPGAP_GPU_CHUNKS && i + 1 < size; i++) {
    int tenth = (int)(use->share[i] * 10);
    text[i] = (char)('0' + (tenth > 9 ? 9 : tenth < 0 ? 0 : tenth));
  }
  text[i] = '\0';
}
