/* One table of a summary as CSV (RFC 4180): raw figures, ns and bytes; an empty cell is an unknown figure.
 * Always UTF-8 and one line a row: other bytes of names are written as \xNN. */
#include <stdlib.h>
#include <string.h>

#include "analysis/text.h"
#include "output/output.h"

static const char *const table_names[OPGAP_CSV_COUNT] = {"ops",   "calls",     "files", "gaps",
                                                         "steps", "processes", "locks"};

enum opgap_csv_table opgap_csv_parse(const char *name)
{
  int i = 0;
  while (i < OPGAP_CSV_COUNT && strcmp(table_names[i], name) != 0)
    i++;
  return (enum opgap_csv_table)i;
}

static void quoted(const char *text, FILE *file)
{
  fputc('"', file);
  for (; *text; text++) {
    if (*text == '"')
      fputc('"', file);
    fputc(*text, file);
  }
  fputc('"', file);
}

void opgap_csv_text(const char *bytes, FILE *file)
{
  char *clean = text_clean(bytes);
  if (strpbrk(clean, ",\"") != NULL)
    quoted(clean, file);
  else
    fputs(clean, file);
  free(clean);
}

static void number(uint64_t value, FILE *file)
{
  fputc(',', file);
  if (value != OPGAP_UNKNOWN)
    fprintf(file, "%llu", (unsigned long long)value);
}

static void more_text(const char *bytes, FILE *file)
{
  fputc(',', file);
  opgap_csv_text(bytes, file);
}

static void ops_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("name,kind,role,calls,self_cpu_ns,total_cpu_ns,blocked_ns,self_gpu_ns,total_gpu_ns,alloc_count,alloc_bytes,"
        "estimated,source_location\r\n",
        file);
  opgap_sort_ops(s->ops, s->op_count, o->sort);
  for (size_t i = 0; i < opgap_shown(s->op_count, o); i++) {
    const struct opgap_sum_op *op = &s->ops[i];
    opgap_csv_text(op->name, file);
    more_text(opgap_op_kind_name(op->kind), file);
    more_text(opgap_role_name(op->role), file);
    number(op->calls, file);
    number(op->self_cpu_ns, file);
    number(op->total_cpu_ns, file);
    number(op->blocked_ns, file);
    number(op->self_gpu_ns, file);
    number(op->total_gpu_ns, file);
    number(op->alloc_count, file);
    number(op->alloc_bytes, file);
    number(op->estimated, file);
    more_text(op->source_location, file);
    fputs("\r\n", file);
  }
}

static void calls_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("name,category,role,calls,bytes,failed,time_ns,estimated,measured_calls,measured_ns\r\n", file);
  for (size_t i = 0; i < opgap_shown(s->call_count, o); i++) {
    const struct opgap_sum_call *call = &s->calls[i];
    opgap_csv_text(call->name, file);
    more_text(call->category, file);
    more_text(opgap_role_name(call->role), file);
    number(call->calls, file);
    number(call->bytes, file);
    number(call->failed, file);
    number(call->time_ns, file);
    number(call->estimated, file);
    number(call->measured, file);
    number(call->measured_ns, file);
    fputs("\r\n", file);
  }
}

static void files_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("path,operation,calls,bytes,time_ns,failed,processes\r\n", file);
  for (size_t i = 0; i < opgap_shown(s->file_count, o); i++) {
    const struct opgap_sum_file *f = &s->files[i];
    opgap_csv_text(f->path, file);
    more_text(f->operation, file);
    number(f->calls, file);
    number(f->bytes, file);
    number(f->time_ns, file);
    number(f->failed, file);
    number(f->processes, file);
    fputs("\r\n", file);
  }
}

struct gap_columns {
  const char *kind;
  uint64_t where, start, duration;
  const char *call, *op, *previous, *op_before, *op_after; /* "": not of this kind, or not known */
};

static void gap_row(const struct gap_columns *gap, const struct opgap_sum_cause *cause, FILE *file)
{
  opgap_csv_text(gap->kind, file);
  number(gap->where, file);
  number(gap->start, file);
  number(gap->duration, file);
  more_text(gap->call, file);
  more_text(opgap_cause_name(cause->cause), file);
  more_text(cause->detail, file);
  number(cause->ns, file);
  more_text(gap->op, file);
  more_text(gap->previous, file);
  more_text(gap->op_before, file);
  more_text(gap->op_after, file);
  fputs("\r\n", file);
}

static void gaps_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("kind,tid_or_device,start_ns,duration_ns,call,cause,detail,cause_ns,op,previous,op_before,op_after\r\n", file);
  for (size_t i = 0; i < opgap_shown(s->gaps.thread_listed, o); i++) {
    const struct opgap_sum_thread_gap *gap = &s->gaps.threads[i];
    const struct gap_columns columns = {
        "thread", (uint64_t)gap->tid, gap->start_ns, gap->duration_ns, gap->call, gap->op, "", "", ""};
    for (size_t k = 0; k < gap->cause_count; k++)
      gap_row(&columns, &gap->causes[k], file);
  }
  for (size_t i = 0; i < opgap_shown(s->gaps.gpu_listed, o); i++) {
    const struct opgap_sum_gpu_gap *gap = &s->gaps.gpus[i];
    const struct gap_columns columns = {"gpu", gap->device,   gap->start_ns,  gap->duration_ns, gap->next,
                                        "",    gap->previous, gap->op_before, gap->op_after};
    for (size_t k = 0; k < gap->cause_count; k++)
      gap_row(&columns, &gap->causes[k], file);
  }
}

static void steps_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("step,start_ns,duration_ns,warm_up\r\n", file);
  for (size_t i = 0; i < opgap_shown(s->steps.count, o); i++)
    fprintf(file, "%zu,%llu,%llu,%d\r\n", i, (unsigned long long)s->steps.start_ns[i],
            (unsigned long long)s->steps.durations_ns[i], i < s->steps.skipped);
}

static void processes_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("role,command,host,ended,pid,start_ns,end_ns,threads,op_ns,blocked_ns,file_ns,read_bytes,written_bytes,"
        "allocations,rss_bytes,records,lost_records\r\n",
        file);
  for (size_t i = 0; i < opgap_shown(s->process_count, o); i++) {
    const struct opgap_sum_process *p = &s->processes[i];
    opgap_csv_text(p->role_label, file);
    more_text(p->command, file);
    more_text(p->host, file);
    more_text(p->ended, file);
    number((uint64_t)p->pid, file);
    number(p->start_ns, file);
    number(p->end_ns, file);
    number(p->threads, file);
    number(p->op_ns, file);
    number(p->blocked_ns, file);
    number(p->file_ns, file);
    number(p->read_bytes, file);
    number(p->written_bytes, file);
    number(p->allocations, file);
    number(p->rss_bytes, file);
    number(p->records, file);
    number(p->lost_records, file);
    fputs("\r\n", file);
  }
}

static void locks_csv(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file)
{
  fputs("call,held_by,pid,object,waits,wait_ns,longest_ns,threads,symbol,block,source_location\r\n", file);
  for (size_t i = 0; i < opgap_shown(s->lock_count, o); i++) {
    const struct opgap_sum_lock *lock = &s->locks[i];
    opgap_csv_text(lock->call, file);
    more_text(lock->held_by, file);
    number((uint64_t)lock->pid, file);
    number(lock->object, file);
    number(lock->waits, file);
    number(lock->wait_ns, file);
    number(lock->longest_ns, file);
    number(lock->threads, file);
    more_text(lock->symbol, file);
    more_text(lock->block, file);
    more_text(lock->source_location, file);
    fputs("\r\n", file);
  }
}

void opgap_output_csv(const struct opgap_summary *summary, const struct opgap_output_options *options,
                      enum opgap_csv_table table, FILE *file)
{
  static void (*const writers[OPGAP_CSV_COUNT])(const struct opgap_summary *, const struct opgap_output_options *,
                                                FILE *) = {ops_csv,   calls_csv,     files_csv, gaps_csv,
                                                           steps_csv, processes_csv, locks_csv};
  writers[table](summary, options, file);
}
