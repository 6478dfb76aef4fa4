#include "output/sections.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/text.h"

bool section_has_ops(const struct opgap_summary *s, enum opgap_role role, unsigned kinds)
{
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].role == role && kinds & 1u << s->ops[i].kind)
      return true;
  return false;
}

uint64_t section_self_cpu(const struct opgap_summary *s, enum opgap_role role)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].role == role && SECTION_OPS & 1u << s->ops[i].kind)
      sum += s->ops[i].self_cpu_ns;
  return sum;
}

uint64_t section_self_gpu(const struct opgap_summary *s, enum opgap_role role)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].role == role && SECTION_GPU & 1u << s->ops[i].kind)
      sum += s->ops[i].self_gpu_ns;
  return sum;
}

/* Source locations were asked for, so they stay when the terminal is narrow. */
static const struct table_column cpu_columns[] = {
    {"Name", true, 60, 0},        {"Self CPU %", false, 0, 1},      {"Self CPU", false, 0, 0},
    {"CPU total %", false, 0, 5}, {"CPU total", false, 0, 2},       {"CPU time avg", false, 0, 4},
    {"Blocked", false, 0, 3},     {"Allocs", false, 0, 7},          {"Alloc bytes", false, 0, 6},
    {"# of Calls", false, 0, 0},  {"Source Location", true, 80, 0},
};
static const struct table_column gpu_columns[] = {
    {"Name", true, 60, 0},          {"Self CPU %", false, 0, 9},  {"Self CPU", false, 0, 0},
    {"CPU total %", false, 0, 10},  {"CPU total", false, 0, 4},   {"CPU time avg", false, 0, 6},
    {"Self CUDA", false, 0, 0},     {"Self CUDA %", false, 0, 2}, {"CUDA total", false, 0, 3},
    {"CUDA time avg", false, 0, 5}, {"Blocked", false, 0, 7},     {"Allocs", false, 0, 11},
    {"Alloc bytes", false, 0, 8},   {"# of Calls", false, 0, 1},  {"Source Location", true, 80, 0},
};

/* The last column is there only when stacks were recorded. */
static unsigned op_columns(const struct opgap_summary *s, bool places)
{
  size_t count = s->has_gpu ? sizeof gpu_columns / sizeof *gpu_columns : sizeof cpu_columns / sizeof *cpu_columns;
  return (unsigned)count - !places;
}

static bool any_place(const struct opgap_sum_op *rows, size_t count)
{
  size_t i = 0;
  while (i < count && rows[i].source_locations == 0)
    i++;
  return i < count;
}

static void place_cell(struct table *table, const struct opgap_sum_op *op)
{
  if (op->source_locations > 1)
    table_format(table, "%s +%zu more", op->source_location, op->source_locations - 1);
  else
    table_cell(table, op->source_location);
}

static void op_row(struct table *table, const struct opgap_sum_op *op, uint64_t self_cpu, uint64_t self_gpu, bool gpu,
                   bool places)
{
  table_cell(table, op->name);
  table_share(table, op->self_cpu_ns, self_cpu);
  table_time(table, op->self_cpu_ns, op->estimated);
  table_share(table, op->total_cpu_ns, self_cpu);
  table_time(table, op->total_cpu_ns, op->estimated);
  table_average(table, op->total_cpu_ns, op->calls, op->estimated);
  if (gpu) {
    table_time(table, op->self_gpu_ns, false);
    table_share(table, op->self_gpu_ns, self_gpu);
    table_time(table, op->total_gpu_ns, false);
    table_average(table, op->total_gpu_ns, op->calls, false);
  }
  table_time(table, op->blocked_ns, false);
  table_count(table, op->alloc_count);
  table_bytes(table, op->alloc_bytes);
  table_count(table, op->calls);
  if (places)
    place_cell(table, op);
}

size_t section_ops(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o,
                   enum opgap_role role, unsigned kinds)
{
  struct opgap_sum_op *rows = opgap_xcalloc(s->op_count, sizeof *rows);
  size_t count = 0;
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].role == role && kinds & 1u << s->ops[i].kind)
      rows[count++] = s->ops[i];
  opgap_sort_ops(rows, count, o->sort);
  bool places = any_place(rows, count);
  table_begin(table, s->has_gpu ? gpu_columns : cpu_columns, op_columns(s, places));
  for (size_t i = 0; i < opgap_shown(count, o); i++)
    op_row(table, &rows[i], section_self_cpu(s, role), section_self_gpu(s, role), s->has_gpu, places);
  free(rows);
  return count - opgap_shown(count, o);
}

/* ---- page faults ---- */

#define FEW_FAULTS 1000u /* take less than a millisecond in all */

static uint64_t all_faults(const struct opgap_summary *s)
{
  uint64_t sum = s->other_minor_faults + s->other_major_faults + s->start_minor_faults + s->start_major_faults +
                 s->rest_minor_faults + s->rest_major_faults;
  for (size_t i = 0; i < s->op_count; i++)
    sum += s->ops[i].minor_faults + s->ops[i].major_faults;
  return sum;
}

bool section_has_faults(const struct opgap_summary *s)
{
  return all_faults(s) >= FEW_FAULTS;
}

static int more_faults(const void *left, const void *right)
{
  const struct opgap_sum_op *l = left, *r = right;
  uint64_t left_sum = l->minor_faults + l->major_faults, right_sum = r->minor_faults + r->major_faults;
  int order = (left_sum < right_sum) - (left_sum > right_sum);
  return order != 0 ? order : strcmp(l->name, r->name);
}

size_t section_faults(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Op", true, 60, 0},    {"In", true, 20, 1},          {"Page faults", false, 0, 0},
      {"Share", false, 0, 0}, {"From a disk", false, 0, 2}, {"A call", false, 0, 3},
  };
  struct opgap_sum_op *rows = opgap_xcalloc(s->op_count + 3, sizeof *rows);
  size_t count = 0;
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].minor_faults + s->ops[i].major_faults > 0)
      rows[count++] = s->ops[i];
  const struct opgap_sum_op others[] = {
      {.name = "(short ops, and code between ops)",
       .minor_faults = s->other_minor_faults,
       .major_faults = s->other_major_faults},
      {.name = "(before the first op of a thread)",
       .minor_faults = s->start_minor_faults,
       .major_faults = s->start_major_faults},
      {.name = "(threads without ops)", .minor_faults = s->rest_minor_faults, .major_faults = s->rest_major_faults},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].minor_faults + others[i].major_faults > 0) {
      rows[count] = others[i];
      rows[count++].role = OPGAP_ROLE_COUNT;
    }
  qsort(rows, count, sizeof *rows, more_faults);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  uint64_t all = all_faults(s);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    const struct opgap_sum_op *op = &rows[i];
    table_cell(table, op->name);
    table_cell(table, op->role == OPGAP_ROLE_COUNT ? "" : opgap_role_name(op->role));
    table_count(table, op->minor_faults + op->major_faults);
    table_share(table, op->minor_faults + op->major_faults, all);
    table_count(table, op->major_faults);
    if (op->calls > 0)
      table_format(table, "%.1f", (double)(op->minor_faults + op->major_faults) / (double)op->calls);
    else
      table_cell(table, "-");
  }
  free(rows);
  return count - opgap_shown(count, o);
}

/* The row of a call in the table of ops, where its source location stands. */
static const struct opgap_sum_op *op_of_call(const struct opgap_summary *s, const struct opgap_sum_call *call)
{
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].kind == OPGAP_OP_CALL && s->ops[i].role == call->role && strcmp(s->ops[i].name, call->name) == 0)
      return &s->ops[i];
  return NULL;
}

static bool any_call_place(const struct opgap_summary *s)
{
  for (size_t i = 0; i < s->op_count; i++)
    if (s->ops[i].kind == OPGAP_OP_CALL && s->ops[i].source_locations > 0)
      return true;
  return false;
}

bool section_has_calls(const struct opgap_summary *s, bool awaiting)
{
  for (size_t i = 0; i < s->call_count; i++)
    if (opgap_call_awaits_process(&s->calls[i]) == awaiting)
      return true;
  return false;
}

/* Where the time of most is not known, that of those which were recorded each, and how many these are. */
static void call_times(struct table *table, const struct opgap_sum_call *call)
{
  char time[32];
  if (call->time_ns != OPGAP_UNKNOWN || call->measured == 0) {
    table_time(table, call->time_ns, call->estimated);
    table_average(table, call->time_ns, call->calls, call->estimated);
    return;
  }
  text_time(time, sizeof time, call->measured_ns);
  table_format(table, "%s of %llu", time, (unsigned long long)call->measured);
  table_average(table, call->measured_ns, call->measured, false);
}

size_t section_calls(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o,
                     bool awaiting)
{
  static const struct table_column columns[] = {
      {"Call", true, 28, 0},       {"In", true, 20, 1},    {"Time", false, 0, 0},   {"Time avg", false, 0, 4},
      {"# of Calls", false, 0, 0}, {"Bytes", false, 0, 3}, {"Failed", false, 0, 2}, {"Source Location", true, 60, 1},
  };
  bool places = any_call_place(s);
  size_t shown = 0, left_out = 0;
  table_begin(table, columns, sizeof columns / sizeof *columns - !places);
  for (size_t i = 0; i < s->call_count; i++) {
    const struct opgap_sum_call *call = &s->calls[i];
    if (opgap_call_awaits_process(call) != awaiting)
      continue;
    if (o->limit > 0 && shown == o->limit) {
      left_out++;
      continue;
    }
    shown++;
    table_cell(table, call->name);
    table_cell(table, opgap_role_name(call->role));
    call_times(table, call);
    table_count(table, call->calls);
    table_bytes(table, call->bytes);
    table_count(table, call->failed);
    const struct opgap_sum_op *op = places ? op_of_call(s, call) : NULL;
    if (op != NULL)
      place_cell(table, op);
    else if (places)
      table_cell(table, "");
  }
  return left_out;
}

size_t section_causes(struct table *table, const struct opgap_sum_cause *causes, size_t count, uint64_t total,
                      const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {{"Cause", true, 36, 0},
                                                {"What", true, 70, 0},
                                                {"Time", false, 0, 0},
                                                {"Share", false, 0, 0},
                                                {"Gaps", false, 0, 1}};
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    table_cell(table, opgap_cause_name(causes[i].cause));
    table_cell(table, causes[i].detail);
    table_time(table, causes[i].ns, false);
    table_share(table, causes[i].ns, total);
    table_count(table, causes[i].count);
  }
  return count - opgap_shown(count, o);
}

size_t section_cause_sums(struct table *table, const struct opgap_sum_cause *causes, size_t count, uint64_t total)
{
  static const struct table_column columns[] = {
      {"Cause", true, 36, 0}, {"Time", false, 0, 0}, {"Share", false, 0, 0}, {"", true, 0, 1}};
  uint64_t sums[OPGAP_CAUSE_COUNT] = {0};
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < count; i++)
    sums[causes[i].cause] += causes[i].ns;
  for (int shown_rows = 0; shown_rows < OPGAP_CAUSE_COUNT; shown_rows++) {
    int largest = 0;
    for (int c = 1; c < OPGAP_CAUSE_COUNT; c++)
      if (sums[c] > sums[largest])
        largest = c;
    if (sums[largest] == 0)
      break;
    table_cell(table, opgap_cause_name((enum opgap_cause)largest));
    table_time(table, sums[largest], false);
    table_share(table, sums[largest], total);
    table_bar(table, sums[largest], total);
    sums[largest] = 0;
  }
  return 0;
}

/* Cause, detail and share of the largest part of a gap. */
static void cause_cells(struct table *table, const struct opgap_sum_cause *causes, size_t count, uint64_t total)
{
  if (count == 0) {
    table_cell(table, "unknown");
    table_cell(table, "");
    return;
  }
  table_cell(table, opgap_cause_name(causes[0].cause));
  int percent = total ? (int)(100.0 * (double)causes[0].ns / (double)total + 0.5) : 100;
  if (percent < 100)
    table_format(table, "%d %% %s", percent, causes[0].detail);
  else
    table_cell(table, causes[0].detail);
}

/* Where a gap began: time and step. */
static void at_cells(struct table *table, const struct opgap_summary *s, uint64_t start_ns)
{
  size_t step = opgap_step_at(s, start_ns);
  table_format(table, "%.3fs", (double)start_ns / 1e9);
  if (step < s->steps.count)
    table_count(table, step);
  else
    table_cell(table, "-");
}

size_t section_thread_gaps(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"At", false, 0, 2},   {"Step", false, 0, 7}, {"Duration", false, 0, 0}, {"In", true, 0, 5},
      {"Call", true, 28, 1}, {"Op", true, 24, 6},   {"Cause", true, 36, 0},    {"What", true, 110, 0},
  };
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(s->gaps.thread_listed, o); i++) {
    const struct opgap_sum_thread_gap *gap = &s->gaps.threads[i];
    at_cells(table, s, gap->start_ns);
    table_time(table, gap->duration_ns, false);
    table_cell(table, gap->process);
    table_cell(table, gap->call);
    table_cell(table, gap->op);
    cause_cells(table, gap->causes, gap->cause_count, gap->duration_ns);
  }
  return s->gaps.thread_count - opgap_shown(s->gaps.thread_listed, o);
}

size_t section_gpu_gaps(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"At", false, 0, 1},    {"Step", false, 0, 5},  {"Duration", false, 0, 0}, {"GPU", false, 0, 3},
      {"After", true, 40, 7}, {"In op", true, 24, 8}, {"Ended by", true, 40, 2}, {"For op", true, 24, 4},
      {"Cause", true, 36, 0}, {"What", true, 90, 0},
  };
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(s->gaps.gpu_listed, o); i++) {
    const struct opgap_sum_gpu_gap *gap = &s->gaps.gpus[i];
    at_cells(table, s, gap->start_ns);
    table_time(table, gap->duration_ns, false);
    table_count(table, gap->device);
    table_cell(table, gap->previous);
    table_known(table, gap->op_before);
    table_cell(table, gap->next);
    table_known(table, gap->op_after);
    cause_cells(table, gap->causes, gap->cause_count, gap->duration_ns);
  }
  return s->gaps.gpu_count - opgap_shown(s->gaps.gpu_listed, o);
}

static bool moves_bytes(const char *operation)
{
  return strcmp(operation, "read") == 0 || strcmp(operation, "write") == 0;
}

/* Bytes and MB/s */
static void rate_cells(struct table *table, uint64_t bytes, uint64_t ns, bool moves)
{
  if (moves)
    table_bytes(table, bytes);
  else
    table_cell(table, "-");
  if (moves && bytes > 0 && ns > 0)
    table_format(table, "%.1f", (double)bytes / 1e6 / ((double)ns / 1e9));
  else
    table_cell(table, "-");
}

struct folder {
  const char *path; /* of a file in it */
  size_t length;    /* of the folder's part */
  uint64_t calls, bytes, time_ns, move_ns, files;
};

static int by_path(const void *left, const void *right)
{
  return strcmp((*(const struct opgap_sum_file *const *)left)->path,
                (*(const struct opgap_sum_file *const *)right)->path);
}

static int folders_by_time(const void *left, const void *right)
{
  const struct folder *l = left, *r = right;
  return l->time_ns < r->time_ns ? 1 : l->time_ns > r->time_ns ? -1 : 0;
}

static size_t folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
}

/* Folders of the files in path order: files of one folder need not be neighbours, so equal ones are looked for. */
static size_t gather_folders(struct folder *folders, const struct opgap_sum_file **files, size_t count)
{
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    const struct opgap_sum_file *f = files[i];
    size_t length = folder_length(f->path), k = found;
    while (k > 0 && (folders[k - 1].length != length || strncmp(folders[k - 1].path, f->path, length) != 0))
      k--;
    if (k == 0) {
      folders[found] = (struct folder){.path = f->path, .length = length};
      k = ++found;
    }
    struct folder *folder = &folders[k - 1];
    folder->files += i == 0 || strcmp(files[i - 1]->path, f->path) != 0;
    folder->calls += f->calls;
    folder->bytes += f->bytes;
    folder->time_ns += f->time_ns;
    folder->move_ns += moves_bytes(f->operation) ? f->time_ns : 0;
  }
  return found;
}

size_t section_folders(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Folder", true, 70, 0},     {"Time", false, 0, 0},  {"Files", false, 0, 1},
      {"# of Calls", false, 0, 0}, {"Bytes", false, 0, 0}, {"MB/s", false, 0, 2},
  };
  const struct opgap_sum_file **files = opgap_xcalloc(s->file_count, sizeof *files);
  struct folder *folders = opgap_xcalloc(s->file_count, sizeof *folders);
  for (size_t i = 0; i < s->file_count; i++)
    files[i] = &s->files[i];
  qsort(files, s->file_count, sizeof *files, by_path);
  size_t count = gather_folders(folders, files, s->file_count);
  qsort(folders, count, sizeof *folders, folders_by_time);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(count, o); i++) {
    table_format(table, "%.*s", (int)folders[i].length, folders[i].path);
    table_time(table, folders[i].time_ns, false);
    table_count(table, folders[i].files);
    table_count(table, folders[i].calls);
    rate_cells(table, folders[i].bytes, folders[i].move_ns, folders[i].bytes > 0);
  }
  free(files);
  free(folders);
  return count - opgap_shown(count, o);
}

size_t section_files(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"File", true, 70, 0},  {"Operation", true, 0, 0}, {"Time", false, 0, 0},   {"# of Calls", false, 0, 1},
      {"Bytes", false, 0, 0}, {"MB/s", false, 0, 2},     {"Failed", false, 0, 4}, {"Processes", false, 0, 3},
  };
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(s->file_count, o); i++) {
    const struct opgap_sum_file *file = &s->files[i];
    table_cell(table, file->path);
    table_cell(table, file->operation);
    table_time(table, file->time_ns, false);
    table_count(table, file->calls);
    rate_cells(table, file->bytes, file->time_ns, moves_bytes(file->operation));
    table_count(table, file->failed);
    table_count(table, file->processes);
  }
  return s->file_count - opgap_shown(s->file_count, o);
}

size_t section_locks(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Lock", true, 40, 0},           {"Waited in", true, 28, 0},  {"Wait", false, 0, 0},
      {"Longest", false, 0, 2},        {"# of Waits", false, 0, 0}, {"Threads", false, 0, 3},
      {"Mostly held by", true, 40, 1}, {"PID", false, 0, 4},        {"Waited at", true, 80, 5},
      {"Heap block", true, 60, 6},
  };
  size_t shown = opgap_shown(s->lock_count, o);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < shown; i++) {
    const struct opgap_sum_lock *lock = &s->locks[i];
    if (lock->symbol[0])
      table_cell(table, lock->symbol);
    else
      table_format(table, "0x%llx", (unsigned long long)lock->object);
    table_cell(table, lock->call);
    table_time(table, lock->wait_ns, false);
    table_time(table, lock->longest_ns, false);
    table_count(table, lock->waits);
    table_count(table, lock->threads);
    table_cell(table, lock->held_by[0] ? lock->held_by : "?");
    table_format(table, "%d", lock->pid);
    table_known(table, lock->source_location);
    table_known(table, lock->block);
  }
  table_drop_unknown(table, 2);
  return s->lock_count - shown;
}

static void ended_cell(struct table *table, const struct opgap_sum_process *p)
{
  if (strcmp(p->ended, "clean") == 0)
    table_format(table, p->exit_status > 0 ? "exit %d" : "clean", p->exit_status);
  else if (p->open_call[0] && strcmp(p->ended, "exec") != 0)
    table_format(table, "%s, in %s", p->ended, p->open_call);
  else
    table_cell(table, p->ended);
}

static void process_cells(struct table *table, const struct opgap_sum_process *p)
{
  char program[256];
  text_program(program, sizeof program, p->command);
  table_format(table, "%d", p->pid);
  table_cell(table, p->role_label);
  table_cell(table, program);
  table_format(table, "%.3fs", (double)(p->end_ns > p->start_ns ? p->end_ns - p->start_ns : 0) / 1e9);
  table_count(table, p->threads);
  table_time(table, p->op_ns, false);
  table_time(table, p->blocked_ns, false);
  table_time(table, p->file_ns, false);
  table_bytes(table, p->read_bytes);
  table_bytes(table, p->written_bytes);
  table_count(table, p->allocations);
  table_bytes(table, p->rss_bytes);
  table_count(table, p->records);
  table_count(table, p->lost_records);
  ended_cell(table, p);
}

size_t section_processes(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"PID", false, 0, 0},
      {"Role", true, 28, 0},
      {"Program", true, 20, 4},
      {"Life", false, 0, 1},
      {"Threads", false, 0, 5},
      {"In ops", false, 0, 3},
      {"Blocked (main)", false, 0, 2},
      {"File time", false, 0, 4},
      {"Read", false, 0, 6},
      {"Written", false, 0, 7},
      {"Allocations", false, 0, 8},
      {"RSS", false, 0, 9},
      {"Records", false, 0, 10},
      {"Lost", false, 0, 0},
      {"End", true, 36, 0},
  };
  table_begin(table, columns, sizeof columns / sizeof *columns);
  size_t shown = opgap_shown(s->process_count, o), count = 0;
  for (int helpers = 0; helpers < 2; helpers++) /* what they help comes first */
    for (size_t i = 0; i < s->process_count && count < shown; i++)
      if (helpers == (s->processes[i].role == OPGAP_ROLE_OTHER)) {
        process_cells(table, &s->processes[i]);
        count++;
      }
  return s->process_count - shown;
}

size_t section_gpus(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"GPU", false, 0, 0},     {"Name", true, 40, 0},        {"Busy", false, 0, 0},    {"Busy %", false, 0, 0},
      {"Kernels", false, 0, 0}, {"Collectives", false, 0, 3}, {"Exposed", false, 0, 4}, {"Memcpy", false, 0, 1},
      {"Memset", false, 0, 5},  {"# Kernels", false, 0, 2},   {"HtoD", false, 0, 3},    {"DtoH", false, 0, 3},
  };
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(s->gpu_count, o); i++) {
    const struct opgap_sum_gpu *gpu = &s->gpus[i];
    table_count(table, gpu->device);
    table_cell(table, gpu->name);
    table_time(table, gpu->busy_ns, false);
    table_share(table, gpu->busy_ns, gpu->span_ns);
    table_time(table, gpu->kernel_ns, false);
    table_time(table, gpu->communication_ns, false);
    table_time(table, gpu->exposed_communication_ns, false);
    table_time(table, gpu->memcpy_ns, false);
    table_time(table, gpu->memset_ns, false);
    table_count(table, gpu->kernels);
    table_bytes(table, gpu->h2d_bytes);
    table_bytes(table, gpu->d2h_bytes);
  }
  return s->gpu_count - opgap_shown(s->gpu_count, o);
}

size_t section_workers(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Worker", true, 28, 0},   {"PID", false, 0, 6},     {"Batches", false, 0, 0},         {"Start-up", false, 0, 2},
      {"Busy", false, 0, 0},     {"Busy %", false, 0, 1},  {"Files", false, 0, 0},           {"MB/s", false, 0, 3},
      {"Locks", false, 0, 4},    {"Sleep", false, 0, 5},   {"Network", false, 0, 4},         {"Children", false, 0, 5},
      {"CPU wait", false, 0, 3}, {"Awaited", false, 0, 0}, {"Source Location", true, 80, 0},
  };
  const struct opgap_sum_loader *l = &s->loader;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < opgap_shown(l->worker_count, o); i++) {
    const struct opgap_sum_worker *w = &l->worker[i];
    table_cell(table, w->label);
    table_format(table, "%d", w->pid);
    table_count(table, w->batches);
    table_time(table, w->startup_ns, false);
    table_time(table, w->busy_ns, false);
    table_share(table, w->busy_ns, w->busy_ns == OPGAP_UNKNOWN ? OPGAP_UNKNOWN : w->busy_ns + w->idle_ns);
    table_time(table, w->file_ns, false);
    if (w->read_bytes > 0 && w->file_ns > 0 && w->file_ns != OPGAP_UNKNOWN)
      table_format(table, "%.1f", (double)w->read_bytes / 1e6 / ((double)w->file_ns / 1e9));
    else
      table_cell(table, "-");
    table_time(table, w->lock_ns, false);
    table_time(table, w->sleep_ns, false);
    table_time(table, w->network_ns, false);
    table_time(table, w->child_ns, false);
    table_time(table, w->queue_ns, true);
    table_time(table, w->awaited_ns, false);
    table_known(table, w->source_location);
  }
  table_drop_unknown(table, 1);
  return l->worker_count - opgap_shown(l->worker_count, o);
}

size_t section_epochs(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Workers made at", true, 20, 0}, {"Workers", false, 0, 0},       {"Start-up", false, 0, 0},
      {"First batch", false, 0, 0},     {"Waited for it", false, 0, 0}, {"Fetches", false, 0, 0},
      {"All waits", false, 0, 0},
  };
  const struct opgap_sum_loader *l = &s->loader;
  size_t shown = opgap_shown(l->epoch_count, o);
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < shown; i++) {
    const struct opgap_sum_epoch *e = &l->epochs[i];
    table_format(table, "%.3f s", (double)e->start_ns / 1e9);
    table_format(table, "%u", e->workers);
    table_time(table, e->startup_ns, false);
    table_time(table, e->first_batch_ns, false);
    table_time(table, e->first_wait_ns, false);
    table_count(table, e->fetches);
    table_time(table, e->await_ns, false);
  }
  return l->epoch_count - shown;
}

void section_ready(char *text, size_t size, const struct opgap_sum_loader *loader)
{
  size_t at = 0;
  for (unsigned i = 0; i < OPGAP_DEPTH_CHUNKS && at + 1 < size; i++) {
    double ready = loader->depths[i];
    text[at++] = ready < 0 ? '.' : ready >= 8.5 ? '9' : (char)('0' + (int)(ready + 0.5));
  }
  text[at] = '\0';
}

/* Threads that neither ran nor waited for anything are no rows. */
static bool idle_thread(const struct opgap_sum_thread *t)
{
  return t->blocked_ns == 0 && (t->run_ns == OPGAP_UNKNOWN || t->run_ns + t->queue_ns == 0);
}

size_t section_threads(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Thread", true, 24, 0},   {"In", true, 24, 0},       {"TID", false, 0, 5},     {"On CPU", false, 0, 0},
      {"On CPU %", false, 0, 1}, {"CPU wait", false, 0, 0}, {"Blocked", false, 0, 0}, {"Files", false, 0, 3},
      {"Locks", false, 0, 2},    {"Sleep", false, 0, 4},
  };
  size_t rows = 0, left_out = 0;
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < s->thread_count; i++) {
    const struct opgap_sum_thread *t = &s->threads[i];
    if (idle_thread(t))
      continue;
    if (o->limit > 0 && rows == o->limit) {
      left_out++;
      continue;
    }
    rows++;
    table_cell(table, t->name);
    table_cell(table, t->process);
    table_format(table, "%d", t->tid);
    table_time(table, t->run_ns, false);
    if (t->run_ns == OPGAP_UNKNOWN)
      table_cell(table, "-");
    else
      table_share(table, t->run_ns, t->sampled_ns);
    table_time(table, t->queue_ns, false);
    table_time(table, t->blocked_ns, false);
    table_time(table, t->file_ns, false);
    table_time(table, t->lock_ns, false);
    table_time(table, t->sleep_ns, false);
  }
  return left_out;
}

static void breakdown_row(struct table *table, const char *name, uint64_t ns, size_t steps, uint64_t total)
{
  if (ns == 0)
    return;
  table_cell(table, name);
  table_time(table, ns / steps, false);
  table_share(table, ns, total);
  table_bar(table, ns, total);
}

/* A part of "other" that would read 0.00 % is no row.  Its time is in no other row: own code is what the verdict and
 * the JSON say, too. */
static bool shown_part(uint64_t ns, uint64_t total)
{
  return ns > 0 && ns >= total / 20000;
}

size_t section_breakdown(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o)
{
  static const struct table_column columns[] = {
      {"Part", true, 0, 0}, {"Per step", false, 0, 0}, {"Share", false, 0, 0}, {"", true, 0, 1}};
  static const char *const names[OPGAP_CLASS_OTHER] = {"GPU kernels", "GPU copies", "GPU memset",   "Communication",
                                                       "CUDA calls",  "DataLoader", "Framework ops"};
  const struct opgap_sum_breakdown *b = &s->breakdown;
  uint64_t total = 0, rest = b->class_ns[OPGAP_CLASS_OTHER];
  char name[64];
  (void)o;
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    total += b->class_ns[c];
  table_begin(table, columns, sizeof columns / sizeof *columns);
  for (int c = 0; c < OPGAP_CLASS_OTHER; c++) {
    uint64_t collectives = c == OPGAP_CLASS_KERNEL ? b->exposed_collective_ns : 0; /* kernels, to TensorBoard */
    breakdown_row(table, names[c], b->class_ns[c] - collectives, b->steps, total);
    breakdown_row(table, "GPU collectives", collectives, b->steps, total);
  }
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    rest -= b->other_wait_ns[c];
    if (!shown_part(b->other_wait_ns[c], total))
      continue;
    snprintf(name, sizeof name, "Other: waiting, %s", opgap_cause_name((enum opgap_cause)c));
    breakdown_row(table, name, b->other_wait_ns[c], b->steps, total);
  }
  const char *python = b->class_ns[OPGAP_CLASS_CPU_EXEC] > 0 ? " (Python)" : "";
  snprintf(name, sizeof name, "Other%s%s", rest == b->class_ns[OPGAP_CLASS_OTHER] && *python ? "" : ": own code",
           python);
  breakdown_row(table, name, rest, b->steps, total);
  return 0;
}
