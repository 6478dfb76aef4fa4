#include "output/live.h"

#include <stdlib.h>
#include <string.h>

#include "output/sections.h"

static uint64_t sum_of(const uint64_t *buckets)
{
  uint64_t sum = 0;
  for (size_t b = 0; b < OPGAP_OVER_TIME_BUCKETS; b++)
    sum += buckets[b];
  return sum;
}

/* Share of the interval in percent; rounding of the parts may carry it a little beyond 100. */
static double share(uint64_t ns, uint64_t interval_ns)
{
  double percent = interval_ns > 0 ? 100.0 * (double)ns / (double)interval_ns : 0;
  return percent < 100 ? percent : 100;
}

static const struct opgap_sum_process_over_time *use_of(const struct opgap_summary *s, uint32_t index)
{
  for (size_t i = 0; i < s->over_time.process_count; i++)
    if (s->over_time.processes[i].index == index)
      return &s->over_time.processes[i];
  return NULL;
}

static bool runs(const struct opgap_sum_process *p)
{
  return strcmp(p->ended, "running") == 0;
}

static void print_job(const struct opgap_summary *s, const struct opgap_live *live, FILE *file)
{
  unsigned running = 0, threads = 0;
  for (size_t i = 0; i < s->process_count; i++)
    if (runs(&s->processes[i])) {
      running++;
      threads += s->processes[i].threads;
    }
  fprintf(file, "  job       %s, %.1f s: %u process%s running with %u thread%s, %zu ended\n",
          live->running ? "running" : "ended", (double)s->duration_ns / 1e9, running, running == 1 ? "" : "es", threads,
          threads == 1 ? "" : "s", s->process_count - running);
}

static void print_steps(const struct opgap_summary *s, const struct opgap_live *live, FILE *file)
{
  char median[32], last[32];
  text_time(median, sizeof median, live->median_ns);
  text_time(last, sizeof last, live->last_step_ns);
  if (live->since_step_ns == OPGAP_UNKNOWN) {
    fputs("  steps     none seen yet\n", file);
  } else if (live->steps == 0) {
    fprintf(file, "  steps     none ended; the last one ended %.1f s ago", (double)live->since_step_ns / 1e9);
    if (live->last_step_ns != OPGAP_UNKNOWN)
      fprintf(file, " and took %s", last);
    fprintf(file, "; %llu seen\n", (unsigned long long)live->all_steps);
  } else {
    fprintf(file, "  steps     %.2f a second by %s", (double)live->steps / ((double)live->interval_ns / 1e9),
            s->steps.source);
    if (live->median_ns != OPGAP_UNKNOWN)
      fprintf(file, ", median %s", median);
    fprintf(file, "; %llu seen\n", (unsigned long long)live->all_steps);
  }
}

static void print_use(const struct opgap_summary *s, const struct opgap_live *live, FILE *file)
{
  for (size_t i = 0; i < s->over_time.device_count; i++)
    fprintf(file, "  GPU %-5u %.1f %% busy\n", s->over_time.devices[i].device,
            share(sum_of(s->over_time.devices[i].busy_ns), live->interval_ns));
  bool sampled = false;
  for (size_t i = 0; i < s->gpu_count; i++)
    if (s->gpus[i].sampled_utilisation >= 0) {
      sampled = true;
      fprintf(file, "  GPU %-5u ~%.1f %% busy (of all processes, by NVML)\n", s->gpus[i].device,
              100 * s->gpus[i].sampled_utilisation);
    }
  if (s->over_time.device_count == 0 && !sampled)
    fprintf(file, "  GPU       no activity\n");
}

/* Ops of the trainer, or of whatever there is. */
static void print_ops(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  for (int role = 0; role < OPGAP_ROLE_COUNT; role++) {
    struct table table;
    if (!section_has_ops(s, (enum opgap_role)role, SECTION_OPS | SECTION_GPU))
      continue;
    fprintf(file, "\nHot ops: %s\n", opgap_role_name((enum opgap_role)role));
    section_ops(&table, s, o, (enum opgap_role)role, SECTION_OPS | SECTION_GPU);
    table_print(&table, o->width, "  ", o->colour, file);
    table_end(&table);
    return;
  }
  fputs("\nNo op ended.\n", file);
}

static void add_running(struct table *table, const struct opgap_summary *s, const struct opgap_live *live,
                        const struct opgap_sum_process *p)
{
  const struct opgap_sum_process_over_time *use = use_of(s, p->index);
  char since[32];
  table_cell(table, p->role_label);
  table_format(table, "%d", p->pid);
  table_format(table, "%.1f%%", use ? share(sum_of(use->blocked_ns), live->interval_ns) : 0);
  table_format(table, "%.1f%%", use ? share(sum_of(use->next_ns), live->interval_ns) : 0);
  table_bytes(table, p->rss_bytes);
  text_time(since, sizeof since, p->open_ns);
  if (p->open_call[0] != '\0')
    table_format(table, "%s%s%s for %s", p->open_op, p->open_op[0] ? ": " : "", p->open_call, since);
  else
    table_cell(table, p->open_op);
}

static void add_ended(struct table *table, const struct opgap_sum_process *p)
{
  table_cell(table, p->role_label);
  table_format(table, "%d", p->pid);
  table_format(table, "%.3fs", (double)(p->end_ns > p->start_ns ? p->end_ns - p->start_ns : 0) / 1e9);
  table_format(table, "ended (%s)", p->ended);
}

/* Those that run, or those that ended; *room: rows that may still be shown. */
static void print_processes_that(bool running, const struct opgap_summary *s, const struct opgap_live *live,
                                 const struct opgap_output_options *o, size_t *room, FILE *file)
{
  static const struct table_column columns[] = {{"Process", true, 24, 0},  {"Pid", false, 0, 1},
                                                {"Blocked", false, 0, 0},  {"Data wait", false, 0, 0},
                                                {"Resident", false, 0, 2}, {"Main thread is in", true, 50, 0}},
                                   ended_columns[] = {{"Process", true, 24, 0},
                                                      {"Pid", false, 0, 1},
                                                      {"Life", false, 0, 0},
                                                      {"End", true, 50, 0}};
  struct table table;
  size_t shown = 0, left_out = 0;
  if (running)
    table_begin(&table, columns, sizeof columns / sizeof *columns);
  else
    table_begin(&table, ended_columns, sizeof ended_columns / sizeof *ended_columns);
  for (size_t i = 0; i < s->process_count; i++) {
    if (runs(&s->processes[i]) != running)
      continue;
    if (o->limit > 0 && *room == 0) {
      left_out++;
      continue;
    }
    if (running)
      add_running(&table, s, live, &s->processes[i]);
    else
      add_ended(&table, &s->processes[i]);
    shown++;
    *room -= o->limit > 0;
  }
  if (shown > 0) {
    fputs(running ? "\nProcesses\n" : "\nEnded processes\n", file);
    table_print(&table, o->width, "  ", o->colour, file);
  }
  table_end(&table);
  if (left_out > 0)
    fprintf(file, "%s  ... and %zu more %s\n", shown > 0 ? "" : "\n", left_out, running ? "that run" : "that ended");
}

void opgap_output_live(const struct opgap_summary *s, const struct opgap_live *live,
                       const struct opgap_output_options *o, FILE *file)
{
  char *path = text_clean(s->path), size[32];
  text_bytes(size, sizeof size, s->stored_bytes);
  fprintf(file, "%sopgap top%s  %s, the last %.1f s\n", o->colour ? "\033[1m" : "", o->colour ? "\033[0m" : "", path,
          (double)live->interval_ns / 1e9);
  free(path);
  print_job(s, live, file);
  print_steps(s, live, file);
  print_use(s, live, file);
  fprintf(file, "  records   %llu, %llu lost", (unsigned long long)s->records, (unsigned long long)s->lost_records);
  if (live->new_records != OPGAP_UNKNOWN)
    fprintf(file, " (new: %llu, %llu lost)", (unsigned long long)live->new_records, (unsigned long long)live->new_lost);
  fprintf(file, "; %s on disk\n", size);
  print_ops(s, o, file);
  size_t room = o->limit;
  print_processes_that(true, s, live, o, &room, file);
  print_processes_that(false, s, live, o, &room, file);
}
