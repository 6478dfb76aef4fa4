/* The JSON contract of docs/REPORT_JSON.md. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/json_text.h"
#include "format/losses.h"
#include "output/output.h"
#include "output/table.h"

static json_t *number(uint64_t value)
{
  return value == OPGAP_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

static json_t *known_text(const char *text)
{
  return text[0] ? opgap_json_text(text) : json_null();
}

static json_t *known_real(double value) /* negative: unknown */
{
  return value < 0 ? json_null() : json_real(value);
}

static json_t *numbers(const uint64_t *values, size_t count)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, number(values[i]));
  return array;
}

#define PUT(object, key, value) json_object_set_new(object, key, value)

static json_t *trace_json(const struct opgap_summary *s)
{
  json_t *t = json_object(), *overhead = json_object(), *info = json_object(), *losses = json_object();
  PUT(overhead, "flusher_cpu_ns", number(s->overhead.flusher_cpu_ns));
  PUT(overhead, "hook_ns", number(s->overhead.hook_ns));
  PUT(overhead, "hooked_calls", number(s->overhead.hooked_calls));
  PUT(overhead, "raw_bytes", number(s->overhead.raw_bytes));
  PUT(overhead, "stored_bytes", number(s->overhead.stored_bytes));
  for (size_t i = 0; i < s->info_count; i++)
    PUT(info, s->info_keys[i], opgap_json_text(s->info_values[i]));
  PUT(t, "path", opgap_json_text(s->path));
  PUT(t, "complete", json_boolean(s->complete));
  PUT(t, "records", number(s->records));
  PUT(t, "lost_records", number(s->lost_records));
  for (unsigned loss = 0; loss < OPGAP_LOSS_COUNT; loss++)
    PUT(losses, opgap_loss_words((enum opgap_loss)loss)->key, number(s->lost_by[loss]));
  PUT(t, "lost_by", losses);
  PUT(t, "lost_threads", number(s->lost_threads));
  PUT(t, "invalid_records", number(s->invalid_records));
  PUT(t, "stored_bytes", number(s->stored_bytes));
  PUT(t, "start_realtime_ns", json_integer(s->start_realtime_ns));
  PUT(t, "duration_ns", number(s->duration_ns));
  PUT(t, "window_start_ns", number(s->window_start_ns));
  PUT(t, "window_end_ns", number(s->window_end_ns));
  PUT(t, "damage", opgap_json_texts(s->damage, s->damage_count));
  PUT(t, "notices", opgap_json_texts(s->notices, s->notice_count));
  PUT(t, "info", info);
  PUT(t, "overhead", overhead);
  return t;
}

static json_t *process_json(const struct opgap_sum_process *p)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(p->pid));
  PUT(j, "ppid", json_integer(p->ppid));
  PUT(j, "host", opgap_json_text(p->host));
  PUT(j, "rank", p->rank < 0 ? json_null() : json_integer(p->rank));
  PUT(j, "role", opgap_json_text(p->role_label));
  PUT(j, "role_kind", opgap_json_text(opgap_role_name(p->role)));
  PUT(j, "worker", p->worker < 0 ? json_null() : json_integer(p->worker));
  PUT(j, "command", opgap_json_text(p->command));
  PUT(j, "start_ns", number(p->start_ns));
  PUT(j, "end_ns", number(p->end_ns));
  PUT(j, "ended", opgap_json_text(p->ended));
  PUT(j, "exit_status", p->exit_status < 0 ? json_null() : json_integer(p->exit_status));
  PUT(j, "complete", json_boolean(p->complete));
  PUT(j, "kill_safe", json_boolean(p->kill_safe));
  PUT(j, "records", number(p->records));
  PUT(j, "lost_records", number(p->lost_records));
  PUT(j, "invalid_records", number(p->invalid_records));
  PUT(j, "threads", json_integer(p->threads));
  PUT(j, "op_ns", number(p->op_ns));
  PUT(j, "blocked_ns", number(p->blocked_ns));
  PUT(j, "file_ns", number(p->file_ns));
  PUT(j, "read_bytes", number(p->read_bytes));
  PUT(j, "written_bytes", number(p->written_bytes));
  PUT(j, "allocations", number(p->allocations));
  PUT(j, "rss_bytes", number(p->rss_bytes));
  PUT(j, "open_op", known_text(p->open_op));
  PUT(j, "open_call", known_text(p->open_call));
  PUT(j, "open_ns", p->open_call[0] ? number(p->open_ns) : json_null());
  return j;
}

static json_t *untraced_json(const struct opgap_summary *s)
{
  json_t *array = json_array();
  for (size_t i = 0; i < s->untraced_count; i++) {
    json_t *j = json_object();
    PUT(j, "pid", json_integer(s->untraced[i].pid));
    PUT(j, "command", opgap_json_text(s->untraced[i].command));
    PUT(j, "reason", opgap_json_text(s->untraced[i].reason));
    json_array_append_new(array, j);
  }
  return array;
}

static json_t *op_json(const struct opgap_sum_op *op)
{
  json_t *j = json_object();
  PUT(j, "name", opgap_json_text(op->name));
  PUT(j, "kind", opgap_json_text(opgap_op_kind_name(op->kind)));
  PUT(j, "role", opgap_json_text(opgap_role_name(op->role)));
  PUT(j, "calls", number(op->calls));
  PUT(j, "self_cpu_ns", number(op->self_cpu_ns));
  PUT(j, "total_cpu_ns", number(op->total_cpu_ns));
  PUT(j, "blocked_ns", number(op->blocked_ns));
  PUT(j, "self_gpu_ns", number(op->self_gpu_ns));
  PUT(j, "total_gpu_ns", number(op->total_gpu_ns));
  PUT(j, "alloc_count", number(op->alloc_count));
  PUT(j, "alloc_bytes", number(op->alloc_bytes));
  PUT(j, "minor_faults", number(op->minor_faults));
  PUT(j, "major_faults", number(op->major_faults));
  PUT(j, "estimated", json_boolean(op->estimated));
  PUT(j, "source_location", known_text(op->source_location));
  return j;
}

static json_t *call_json(const struct opgap_sum_call *call)
{
  json_t *j = json_object();
  PUT(j, "name", opgap_json_text(call->name));
  PUT(j, "category", opgap_json_text(call->category));
  PUT(j, "waits_for_process", json_boolean(opgap_call_awaits_process(call)));
  PUT(j, "role", opgap_json_text(opgap_role_name(call->role)));
  PUT(j, "calls", number(call->calls));
  PUT(j, "bytes", number(call->bytes));
  PUT(j, "failed", number(call->failed));
  PUT(j, "time_ns", number(call->time_ns));
  PUT(j, "estimated", json_boolean(call->estimated));
  PUT(j, "measured_calls", number(call->measured));
  PUT(j, "measured_ns", number(call->measured_ns));
  return j;
}

static json_t *course_json(const struct opgap_sum_memory_course *course)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(course->pid));
  PUT(j, "time_ns", numbers(course->time_ns, course->count));
  PUT(j, "rss_bytes", numbers(course->rss_bytes, course->count));
  return j;
}

static json_t *growth_json(const struct opgap_sum_memory *m)
{
  if (m->growth_of[0] == '\0')
    return json_null();
  json_t *j = json_object();
  PUT(j, "of", opgap_json_text(m->growth_of));
  PUT(j, "bytes_per_step", json_real(m->growth_bytes));
  PUT(j, "low", json_real(m->growth_low));
  PUT(j, "high", json_real(m->growth_high));
  PUT(j, "fit", json_real(m->growth_fit));
  PUT(j, "points", number(m->growth_points));
  return j;
}

static json_t *churn_json(const struct opgap_sum_memory *m)
{
  if (m->churn_of[0] == '\0')
    return json_null();
  json_t *j = json_object();
  PUT(j, "of", opgap_json_text(m->churn_of));
  PUT(j, "allocations", number(m->churn_count));
  PUT(j, "bytes", number(m->churn_bytes));
  PUT(j, "steps", number(m->churn_steps));
  return j;
}

static json_t *peak_json(const struct opgap_sum_peak *peak)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(peak->pid));
  PUT(j, "time_ns", number(peak->at_ns));
  PUT(j, "bytes", number(peak->bytes));
  return j;
}

static json_t *lived_json(const struct opgap_sum_lived *row)
{
  json_t *j = json_object();
  bool known = row->growth_points > 0;
  PUT(j, "pid", json_integer(row->pid));
  PUT(j, "tid", json_integer(row->tid));
  PUT(j, "thread", opgap_json_text(row->thread));
  PUT(j, "op", opgap_json_text(row->op));
  PUT(j, "source_location", known_text(row->source_location));
  PUT(j, "bytes", number(row->bytes));
  PUT(j, "blocks", number(row->blocks));
  PUT(j, "growth_per_step", known ? json_real(row->growth_bytes) : json_null());
  PUT(j, "growth_low", known ? json_real(row->growth_low) : json_null());
  PUT(j, "growth_high", known ? json_real(row->growth_high) : json_null());
  PUT(j, "growth_points", number(row->growth_points));
  return j;
}

static json_t *failure_json(const struct opgap_sum_failure *f)
{
  json_t *j = json_object(), *last = json_array();
  for (size_t i = 0; i < f->last_count; i++)
    json_array_append_new(last, opgap_json_text(f->last[i]));
  PUT(j, "pid", json_integer(f->pid));
  PUT(j, "tid", json_integer(f->tid));
  PUT(j, "thread", opgap_json_text(f->thread));
  PUT(j, "process", opgap_json_text(f->process));
  PUT(j, "time_ns", number(f->at_ns));
  PUT(j, "call", opgap_json_text(f->call));
  PUT(j, "bytes", number(f->bytes));
  PUT(j, "error", json_integer(f->error));
  PUT(j, "live_bytes", number(f->live_bytes));
  PUT(j, "rss_bytes", number(f->rss_bytes));
  PUT(j, "op", opgap_json_text(f->op));
  PUT(j, "last", last);
  return j;
}

static json_t *memory_json(const struct opgap_summary *s)
{
  const struct opgap_sum_memory *m = &s->memory;
  json_t *j = json_object(), *courses = json_array();
  for (size_t i = 0; i < s->memory_course_count; i++)
    json_array_append_new(courses, course_json(&s->memory_courses[i]));
  PUT(j, "allocations", number(m->allocations));
  PUT(j, "frees", number(m->frees));
  PUT(j, "failed", number(m->failed));
  PUT(j, "bytes_allocated", number(m->bytes_allocated));
  PUT(j, "peak_bytes", number(m->peak_bytes));
  PUT(j, "live_bytes", number(m->live_bytes));
  PUT(j, "peak_rss_bytes", number(m->peak_rss_bytes));
  PUT(j, "growth", growth_json(m));
  PUT(j, "churn", churn_json(m));
  json_t *peaks = json_array(), *lived = json_array(), *failures = json_array();
  for (size_t i = 0; i < m->peak_count; i++)
    json_array_append_new(peaks, peak_json(&m->peaks[i]));
  for (size_t i = 0; i < m->lived_count; i++)
    json_array_append_new(lived, lived_json(&m->lived[i]));
  for (size_t i = 0; i < m->failure_count; i++)
    json_array_append_new(failures, failure_json(&m->failures[i]));
  PUT(j, "peaks", peaks);
  PUT(j, "alive_at_peak", lived);
  PUT(j, "leak_least_bytes", json_real(OPGAP_LEAK_LEAST));
  PUT(j, "failures", failures);
  PUT(j, "device_retries", number(m->device_retries));
  PUT(j, "samples", courses);
  return j;
}

static json_t *file_json(const struct opgap_sum_file *file)
{
  json_t *j = json_object();
  PUT(j, "path", opgap_json_text(file->path));
  PUT(j, "operation", opgap_json_text(file->operation));
  PUT(j, "calls", number(file->calls));
  PUT(j, "bytes", number(file->bytes));
  PUT(j, "time_ns", number(file->time_ns));
  PUT(j, "failed", number(file->failed));
  PUT(j, "processes", json_integer(file->processes));
  return j;
}

static json_t *lock_json(const struct opgap_sum_lock *lock)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(lock->pid));
  PUT(j, "call", opgap_json_text(lock->call));
  PUT(j, "object", number(lock->object));
  PUT(j, "symbol", known_text(lock->symbol));
  PUT(j, "waits", number(lock->waits));
  PUT(j, "wait_ns", number(lock->wait_ns));
  PUT(j, "longest_ns", number(lock->longest_ns));
  PUT(j, "threads", json_integer(lock->threads));
  PUT(j, "held_by", known_text(lock->held_by));
  PUT(j, "block", known_text(lock->block));
  PUT(j, "source_location", known_text(lock->source_location));
  return j;
}

static json_t *thread_json(const struct opgap_sum_thread *t)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(t->pid));
  PUT(j, "tid", json_integer(t->tid));
  PUT(j, "name", opgap_json_text(t->name));
  PUT(j, "process", opgap_json_text(t->process));
  PUT(j, "life_ns", number(t->life_ns));
  PUT(j, "sampled_ns", number(t->sampled_ns));
  PUT(j, "run_ns", number(t->run_ns));
  PUT(j, "run_queue_ns", number(t->queue_ns));
  PUT(j, "blocked_ns", number(t->blocked_ns));
  PUT(j, "file_ns", number(t->file_ns));
  PUT(j, "lock_ns", number(t->lock_ns));
  PUT(j, "sleep_ns", number(t->sleep_ns));
  return j;
}

static json_t *worker_json(const struct opgap_sum_worker *w)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(w->pid));
  PUT(j, "worker", json_integer(w->worker));
  PUT(j, "start_ns", number(w->start_ns));
  PUT(j, "batches", number(w->batches));
  PUT(j, "startup_ns", number(w->startup_ns));
  PUT(j, "busy_ns", number(w->busy_ns));
  PUT(j, "idle_ns", number(w->idle_ns));
  PUT(j, "file_ns", number(w->file_ns));
  PUT(j, "lock_ns", number(w->lock_ns));
  PUT(j, "sleep_ns", number(w->sleep_ns));
  PUT(j, "network_ns", number(w->network_ns));
  PUT(j, "child_ns", number(w->child_ns));
  PUT(j, "run_queue_ns", number(w->queue_ns));
  PUT(j, "read_bytes", number(w->read_bytes));
  PUT(j, "awaited_ns", number(w->awaited_ns));
  PUT(j, "source_location", known_text(w->source_location));
  PUT(j, "source_ns", number(w->source_ns));
  return j;
}

static json_t *epoch_json(const struct opgap_sum_epoch *e)
{
  json_t *j = json_object();
  PUT(j, "start_ns", number(e->start_ns));
  PUT(j, "workers", json_integer(e->workers));
  PUT(j, "startup_ns", number(e->startup_ns));
  PUT(j, "first_batch_ns", number(e->first_batch_ns));
  PUT(j, "first_wait_ns", number(e->first_wait_ns));
  PUT(j, "fetches", number(e->fetches));
  PUT(j, "wait_ns", number(e->await_ns));
  return j;
}

static json_t *pin_json(const struct opgap_sum_loader *l)
{
  if (l->pin_threads == 0)
    return json_null();
  json_t *j = json_object();
  PUT(j, "threads", json_integer(l->pin_threads));
  PUT(j, "batches", number(l->pin_batches));
  PUT(j, "wait_ns", number(l->pin_wait_ns));
  PUT(j, "busy_ns", number(l->pin_busy_ns));
  PUT(j, "ready_batches", known_real(l->pinned_depth));
  return j;
}

static json_t *loader_json(const struct opgap_sum_loader *l)
{
  json_t *j = json_object(), *workers = json_array(), *depths = json_array(), *epochs = json_array();
  for (size_t i = 0; i < l->worker_count; i++)
    json_array_append_new(workers, worker_json(&l->worker[i]));
  for (size_t i = 0; i < l->epoch_count; i++)
    json_array_append_new(epochs, epoch_json(&l->epochs[i]));
  for (unsigned i = 0; l->depth_chunk_ns > 0 && i < OPGAP_DEPTH_CHUNKS; i++)
    json_array_append_new(depths, known_real(l->depths[i]));
  PUT(j, "workers", json_integer(l->workers));
  PUT(j, "fetches", number(l->fetches));
  PUT(j, "fetch_ns", number(l->fetch_ns));
  PUT(j, "waited", number(l->waited));
  PUT(j, "wait_ns", number(l->await_ns));
  PUT(j, "startup_wait_ns", number(l->startup_wait_ns));
  PUT(j, "ready_batches", known_real(l->depth));
  PUT(j, "ready_start_ns", l->depth_chunk_ns ? number(l->depth_start_ns) : json_null());
  PUT(j, "ready_chunk_ns", l->depth_chunk_ns ? number(l->depth_chunk_ns) : json_null());
  PUT(j, "ready_over_time", depths);
  PUT(j, "pin_memory", pin_json(l));
  PUT(j, "epochs", epochs);
  PUT(j, "processes", workers);
  return j;
}

static json_t *steps_json(const struct opgap_sum_steps *steps)
{
  json_t *j = json_object();
  PUT(j, "source", opgap_json_text(steps->source));
  PUT(j, "pid", steps->count ? json_integer(steps->pid) : json_null());
  PUT(j, "count", number(steps->count));
  PUT(j, "skipped", number(steps->skipped));
  PUT(j, "median_ns", number(steps->median_ns));
  PUT(j, "p95_ns", number(steps->p95_ns));
  PUT(j, "min_ns", number(steps->min_ns));
  PUT(j, "max_ns", number(steps->max_ns));
  PUT(j, "mean_ns", number(steps->mean_ns));
  PUT(j, "start_ns", numbers(steps->start_ns, steps->count));
  PUT(j, "durations_ns", numbers(steps->durations_ns, steps->count));
  return j;
}

/* Every `stride`th number. */
static json_t *column(const uint64_t *first, size_t count, size_t stride)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, number(first[i * stride]));
  return array;
}

static void put_part(json_t *array, const char *cause, uint64_t ns)
{
  if (ns > 0)
    json_array_append_new(array, json_pack("{s:s,s:I}", "cause", cause, "ns", (json_int_t)ns));
}

/* The parts of other_ns, and all waits of the main thread. */
static void put_waits(json_t *j, const struct opgap_sum_breakdown *b)
{
  json_t *parts = json_array(), *waits = json_array();
  uint64_t code = b->class_ns[OPGAP_CLASS_OTHER];
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    code -= b->other_wait_ns[c];
    put_part(parts, opgap_cause_name((enum opgap_cause)c), b->other_wait_ns[c]);
    put_part(waits, opgap_cause_name((enum opgap_cause)c), b->wait_ns[c]);
  }
  put_part(parts, "own code", code);
  PUT(j, "other", parts);
  PUT(j, "waits", waits);
}

static json_t *breakdown_json(const struct opgap_sum_breakdown *b)
{
  json_t *j = json_object(), *course = json_object(), *off_cpu = json_object(), *collectives = json_object();
  PUT(off_cpu, "run_queue_ns", b->sampled ? number(b->queue_ns) : json_null());
  PUT(off_cpu, "no_free_cpu_ns", b->sampled ? number(b->no_cpu_ns) : json_null());
  PUT(off_cpu, "throttled_ns", b->sampled ? number(b->throttled_ns) : json_null());
  PUT(off_cpu, "blocked_outside_ns", b->sampled ? number(b->outside_ns) : json_null());
  PUT(off_cpu, "page_fault_ns", b->sampled ? number(b->fault_ns) : json_null());
  PUT(j, "steps", number(b->steps));
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++) {
    char key[32];
    snprintf(key, sizeof key, "%s_ns", opgap_class_name((enum opgap_class)c));
    PUT(j, key, b->steps ? number(b->class_ns[c]) : json_null());
    PUT(course, key, column(b->bucket_count ? &b->buckets[0][c] : NULL, b->bucket_count, OPGAP_CLASS_COUNT));
  }
  PUT(course, "bucket_steps", number(b->bucket_steps));
  PUT(j, "course", course);
  put_waits(j, b);
  PUT(j, "off_cpu", off_cpu);
  PUT(collectives, "exposed_ns", b->steps ? number(b->exposed_collective_ns) : json_null());
  PUT(collectives, "overlapped_ns", b->steps ? number(b->collective_ns - b->exposed_collective_ns) : json_null());
  PUT(j, "collectives", collectives);
  return j;
}

static json_t *gpu_state_json(const struct opgap_sum_gpu_state *s)
{
  json_t *j = json_object(), *brakes = json_object();
  if (s->samples == 0) {
    json_decref(brakes);
    json_decref(j);
    return json_null();
  }
  for (int b = 0; b < OPGAP_BRAKE_COUNT; b++)
    PUT(brakes, opgap_gpu_brake_name((enum opgap_gpu_brake)b), number(s->brakes[b]));
  PUT(j, "samples", number(s->samples));
  PUT(j, "sm_mhz", number(s->sm_mhz));
  PUT(j, "sm_mhz_most", number(s->sm_mhz_most));
  PUT(j, "memory_mhz", number(s->memory_mhz));
  PUT(j, "milliwatts", number(s->milliwatts));
  PUT(j, "milliwatts_most", number(s->milliwatts_most));
  PUT(j, "celsius", number(s->celsius));
  PUT(j, "used_bytes", number(s->used_bytes));
  PUT(j, "total_bytes", number(s->total_bytes));
  PUT(j, "held_down", number(s->braked));
  PUT(j, "held_down_by", brakes);
  PUT(j, "driver", known_text(s->driver));
  return j;
}

/* A device that CUPTI neither described nor told any activity of: nothing is known of what ran. */
static json_t *traced_number(const struct opgap_sum_gpu *g, uint64_t value)
{
  return g->span_ns == 0 && g->sm_count == OPGAP_UNKNOWN ? json_null() : number(value);
}

static json_t *gpu_json(const struct opgap_sum_gpu *g)
{
  json_t *j = json_object();
  PUT(j, "device", json_integer(g->device));
  PUT(j, "name", opgap_json_text(g->name));
  PUT(j, "host", opgap_json_text(g->host));
  PUT(j, "busy_ns", traced_number(g, g->busy_ns));
  PUT(j, "utilisation", known_real(g->utilisation));
  PUT(j, "sampled_utilisation", known_real(g->sampled_utilisation));
  PUT(j, "span_ns", traced_number(g, g->span_ns));
  PUT(j, "kernel_ns", traced_number(g, g->kernel_ns));
  PUT(j, "memcpy_ns", traced_number(g, g->memcpy_ns));
  PUT(j, "memset_ns", traced_number(g, g->memset_ns));
  PUT(j, "communication_ns", traced_number(g, g->communication_ns));
  PUT(j, "exposed_communication_ns", traced_number(g, g->exposed_communication_ns));
  PUT(j, "kernels", traced_number(g, g->kernels));
  PUT(j, "memcpys", traced_number(g, g->memcpys));
  PUT(j, "memsets", traced_number(g, g->memsets));
  PUT(j, "h2d_bytes", traced_number(g, g->h2d_bytes));
  PUT(j, "d2h_bytes", traced_number(g, g->d2h_bytes));
  PUT(j, "d2d_bytes", traced_number(g, g->d2d_bytes));
  PUT(j, "memory_bytes", number(g->memory_bytes));
  PUT(j, "sm_count", number(g->sm_count));
  PUT(j, "state", gpu_state_json(&g->state));
  return j;
}

static json_t *extents(const uint32_t extent[3])
{
  return extent[0] == 0 ? json_null() : json_pack("[i,i,i]", (int)extent[0], (int)extent[1], (int)extent[2]);
}

static json_t *kernel_json(const struct opgap_sum_kernel *k)
{
  json_t *j = json_object();
  PUT(j, "name", opgap_json_text(k->name));
  PUT(j, "calls", number(k->calls));
  PUT(j, "total_ns", number(k->total_ns));
  PUT(j, "min_ns", number(k->min_ns));
  PUT(j, "max_ns", number(k->max_ns));
  PUT(j, "grid", extents(k->grid));
  PUT(j, "block", extents(k->block));
  PUT(j, "one_shape", json_boolean(k->one_shape));
  PUT(j, "registers", number(k->registers));
  PUT(j, "shared_bytes", number(k->shared_bytes));
  PUT(j, "occupancy", known_real(k->occupancy));
  return j;
}

static json_t *copy_json(const struct opgap_sum_copy *c)
{
  json_t *j = json_object();
  PUT(j, "direction", opgap_json_text(c->direction));
  PUT(j, "source", opgap_json_text(c->source));
  PUT(j, "target", opgap_json_text(c->target));
  PUT(j, "async", json_boolean(c->async));
  PUT(j, "calls", number(c->calls));
  PUT(j, "bytes", number(c->bytes));
  PUT(j, "total_ns", number(c->total_ns));
  return j;
}

static json_t *launches_json(const struct opgap_sum_launches *l)
{
  json_t *j = json_object();
  PUT(j, "calls", number(l->calls));
  PUT(j, "kernels", number(l->kernels));
  PUT(j, "short_kernels", number(l->short_kernels));
  PUT(j, "call_ns", number(l->call_ns));
  PUT(j, "queue_ns", number(l->queue_ns));
  PUT(j, "queue_max_ns", number(l->queue_max_ns));
  PUT(j, "slow_calls", number(l->slow_calls));
  PUT(j, "slow_starts", number(l->slow_starts));
  PUT(j, "unlaunched", number(l->unlaunched));
  PUT(j, "unlaunched_ns", number(l->unlaunched_ns));
  return j;
}

static json_t *use_json(const struct opgap_sum_gpu_use *use)
{
  json_t *j = json_object(), *shares = json_array();
  for (unsigned i = 0; i < OPGAP_GPU_CHUNKS; i++)
    json_array_append_new(shares, json_real(use->share[i]));
  PUT(j, "device", json_integer(use->device));
  PUT(j, "chunk_ns", number(use->chunk_ns));
  PUT(j, "share", shares);
  return j;
}

static json_t *finding_json(const struct opgap_sum_finding *f)
{
  json_t *j = json_object();
  PUT(j, "rule", opgap_json_text(opgap_gpu_finding_name(f->finding)));
  PUT(j, "op", opgap_json_text(f->op));
  PUT(j, "source_location", known_text(f->source_location));
  PUT(j, "count", number(f->count));
  PUT(j, "time_ns", number(f->ns));
  PUT(j, "bytes", number(f->bytes));
  return j;
}

static json_t *causes_json(const struct opgap_sum_cause *causes, size_t count, bool sums)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++) {
    json_t *j = json_object();
    PUT(j, "cause", opgap_json_text(opgap_cause_name(causes[i].cause)));
    PUT(j, "detail", opgap_json_text(causes[i].detail));
    PUT(j, "ns", number(causes[i].ns));
    if (sums)
      PUT(j, "gaps", number(causes[i].count));
    json_array_append_new(array, j);
  }
  return array;
}

static json_t *step_json(const struct opgap_summary *s, uint64_t ns)
{
  size_t step = opgap_step_at(s, ns);
  return step < s->steps.count ? json_integer((json_int_t)step) : json_null();
}

static json_t *thread_gap_json(const struct opgap_summary *s, const struct opgap_sum_thread_gap *gap)
{
  json_t *j = json_object();
  PUT(j, "pid", json_integer(gap->pid));
  PUT(j, "tid", json_integer(gap->tid));
  PUT(j, "thread", opgap_json_text(gap->thread));
  PUT(j, "process", opgap_json_text(gap->process));
  PUT(j, "start_ns", number(gap->start_ns));
  PUT(j, "duration_ns", number(gap->duration_ns));
  PUT(j, "step", step_json(s, gap->start_ns));
  PUT(j, "call", opgap_json_text(gap->call));
  PUT(j, "op", known_text(gap->op));
  PUT(j, "cause", opgap_json_text(gap->cause_count ? opgap_cause_name(gap->causes[0].cause) : "unknown"));
  PUT(j, "detail", opgap_json_text(gap->cause_count ? gap->causes[0].detail : ""));
  PUT(j, "causes", causes_json(gap->causes, gap->cause_count, false));
  return j;
}

static json_t *gpu_gap_json(const struct opgap_summary *s, const struct opgap_sum_gpu_gap *gap)
{
  json_t *j = json_object();
  PUT(j, "device", json_integer(gap->device));
  PUT(j, "pid", json_integer(gap->pid));
  PUT(j, "start_ns", number(gap->start_ns));
  PUT(j, "duration_ns", number(gap->duration_ns));
  PUT(j, "step", step_json(s, gap->start_ns));
  PUT(j, "previous", opgap_json_text(gap->previous));
  PUT(j, "next", opgap_json_text(gap->next));
  PUT(j, "op_before", known_text(gap->op_before));
  PUT(j, "op_after", known_text(gap->op_after));
  PUT(j, "causes", causes_json(gap->causes, gap->cause_count, false));
  return j;
}

static json_t *gaps_json(const struct opgap_summary *s, const struct opgap_output_options *o)
{
  const struct opgap_sum_gaps *g = &s->gaps;
  json_t *j = json_object(), *gpu = json_array(), *threads = json_array();
  for (size_t i = 0; i < opgap_shown(g->gpu_listed, o); i++)
    json_array_append_new(gpu, gpu_gap_json(s, &g->gpus[i]));
  for (size_t i = 0; i < opgap_shown(g->thread_listed, o); i++)
    json_array_append_new(threads, thread_gap_json(s, &g->threads[i]));
  PUT(j, "thread_min_ns", number(g->thread_min_ns));
  PUT(j, "thread_count", number(g->thread_count));
  PUT(j, "thread_ns", number(g->thread_ns));
  PUT(j, "threads", threads);
  PUT(j, "by_cause", causes_json(g->thread_by_cause, g->thread_cause_count, true));
  PUT(j, "gpu_min_ns", number(g->gpu_min_ns));
  PUT(j, "gpu_count", number(g->gpu_count));
  PUT(j, "gpu_ns", number(g->gpu_ns));
  PUT(j, "gpu", gpu);
  PUT(j, "gpu_by_cause", causes_json(g->gpu_by_cause, g->gpu_cause_count, true));
  PUT(j, "host_wait_ns", s->has_gpu ? number(g->host_wait_ns) : json_null());
  PUT(j, "kernel_wait_ns", s->has_gpu ? number(g->kernel_wait_ns) : json_null());
  PUT(j, "other_ns", s->has_gpu ? number(g->other_wait_ns) : json_null());
  return j;
}

static json_t *share_json(uint64_t part, uint64_t whole)
{
  return part == OPGAP_UNKNOWN || whole == 0 ? json_null() : json_real((double)part / (double)whole);
}

static json_t *verdict_json(const struct opgap_sum_verdict *v)
{
  json_t *j = json_object(), *bottlenecks = json_array();
  for (size_t i = 0; i < v->bottleneck_count; i++) {
    const struct opgap_sum_bottleneck *b = &v->bottlenecks[i];
    json_t *row = json_object();
    PUT(row, "kind", opgap_json_text(b->kind));
    PUT(row, "text", opgap_json_text(b->text));
    PUT(row, "remedy", opgap_json_text(b->remedy));
    PUT(row, "ns", number(b->ns));
    PUT(row, "share", share_json(b->ns, v->step_ns));
    PUT(row, "at_most_ns", number(b->at_most_ns));
    PUT(row, "at_most_share", share_json(b->at_most_ns, v->step_ns));
    json_array_append_new(bottlenecks, row);
  }
  PUT(j, "bound_by", opgap_json_text(opgap_bound_name(v->bound_by)));
  PUT(j, "confidence", opgap_json_text(v->confidence));
  PUT(j, "evidence", opgap_json_texts(v->evidence, v->evidence_count));
  PUT(j, "remedies", opgap_json_texts(v->remedies, v->remedy_count));
  PUT(j, "step_ns", v->step_ns ? number(v->step_ns) : json_null());
  PUT(j, "bottlenecks", bottlenecks);
  return j;
}

static json_t *rank_json(const struct opgap_sum_rank *r)
{
  json_t *j = json_object();
  PUT(j, "rank", r->rank < 0 ? json_null() : json_integer(r->rank));
  PUT(j, "pid", json_integer(r->pid));
  PUT(j, "host", opgap_json_text(r->host));
  PUT(j, "steps", number(r->steps));
  PUT(j, "step_median_ns", number(r->step_median_ns));
  PUT(j, "step_p95_ns", number(r->step_p95_ns));
  PUT(j, "data_wait_ns", number(r->data_wait_ns));
  PUT(j, "communication_ns", number(r->communication_ns));
  PUT(j, "collective_ns", number(r->collective_ns));
  PUT(j, "waited_ns", number(r->waited_ns));
  PUT(j, "caused_ns", number(r->caused_ns));
  PUT(j, "last", number(r->last));
  PUT(j, "clock_offset_ns", r->clock_error_ns == OPGAP_UNKNOWN ? json_null() : json_integer(r->clock_offset_ns));
  PUT(j, "clock_error_ns", number(r->clock_error_ns));
  return j;
}

static json_t *straggler_json(const struct opgap_sum_ranks *ranks)
{
  if (ranks->count < 2 || ranks->straggler == SIZE_MAX)
    return json_null();
  json_t *j = json_object();
  const struct opgap_sum_rank *r = &ranks->rows[ranks->straggler];
  PUT(j, "rank", r->rank < 0 ? json_null() : json_integer(r->rank));
  PUT(j, "pid", json_integer(r->pid));
  PUT(j, "part", known_text(ranks->straggler_part));
  PUT(j, "detail", known_text(ranks->straggler_detail));
  PUT(j, "extra_ns", ranks->straggler_part[0] ? number(ranks->straggler_extra_ns) : json_null());
  return j;
}

/* The causes that have any time. */
static json_t *cause_columns(uint64_t (*ns)[OPGAP_CAUSE_COUNT])
{
  json_t *j = json_object();
  for (int c = 0; ns != NULL && c < OPGAP_CAUSE_COUNT; c++) {
    uint64_t any = 0;
    for (size_t i = 0; i < OPGAP_OVER_TIME_BUCKETS; i++)
      any |= ns[i][c];
    if (any)
      PUT(j, opgap_cause_name((enum opgap_cause)c), column(&ns[0][c], OPGAP_OVER_TIME_BUCKETS, OPGAP_CAUSE_COUNT));
  }
  return j;
}

static json_t *over_time_json(const struct opgap_sum_over_time *o)
{
  json_t *j = json_object(), *devices = json_array();
  for (size_t i = 0; i < o->device_count; i++) {
    json_t *device = json_object();
    PUT(device, "device", json_integer(o->devices[i].device));
    PUT(device, "busy_ns", numbers(o->devices[i].busy_ns, OPGAP_OVER_TIME_BUCKETS));
    PUT(device, "idle_ns", cause_columns(o->devices[i].cause_ns));
    json_array_append_new(devices, device);
  }
  PUT(j, "bucket_ns", number(o->bucket_ns));
  PUT(j, "gpu", devices);
  PUT(j, "thread_gap_ns", cause_columns(o->thread_cause_ns));
  return j;
}

/* An array of the first rows of a table. */
#define ROWS(root, key, table, count, row_json)                                                                        \
  do {                                                                                                                 \
    json_t *array = json_array();                                                                                      \
    for (size_t i = 0; i < (count); i++)                                                                               \
      json_array_append_new(array, row_json(&(table)[i]));                                                             \
    PUT(root, key, array);                                                                                             \
  } while (0)

static json_t *faults_json(uint64_t minor, uint64_t major)
{
  json_t *faults = json_object();
  PUT(faults, "minor", number(minor));
  PUT(faults, "major", number(major));
  return faults;
}

static json_t *report_json(const struct opgap_summary *s, const struct opgap_output_options *o)
{
  json_t *root = json_object();
  PUT(root, "schema", json_integer(OPGAP_SUMMARY_SCHEMA));
  PUT(root, "trace", trace_json(s));
  ROWS(root, "processes", s->processes, s->process_count, process_json);
  PUT(root, "untraced", untraced_json(s));
  ROWS(root, "hot_ops", s->ops, opgap_shown(s->op_count, o), op_json);
  PUT(root, "other_faults", faults_json(s->other_minor_faults, s->other_major_faults));
  PUT(root, "start_faults", faults_json(s->start_minor_faults, s->start_major_faults));
  PUT(root, "rest_faults", faults_json(s->rest_minor_faults, s->rest_major_faults));
  ROWS(root, "calls", s->calls, opgap_shown(s->call_count, o), call_json);
  PUT(root, "memory", memory_json(s));
  ROWS(root, "files", s->files, opgap_shown(s->file_count, o), file_json);
  ROWS(root, "locks", s->locks, opgap_shown(s->lock_count, o), lock_json);
  ROWS(root, "threads", s->threads, opgap_shown(s->thread_count, o), thread_json);
  PUT(root, "data_loader", loader_json(&s->loader));
  PUT(root, "steps", steps_json(&s->steps));
  PUT(root, "step_breakdown", breakdown_json(&s->breakdown));
  json_t *ranks = json_object();
  PUT(ranks, "collectives", number(s->ranks.collectives));
  PUT(ranks, "unmatched", number(s->ranks.unmatched));
  PUT(ranks, "straggler", straggler_json(&s->ranks));
  ROWS(ranks, "table", s->ranks.rows, s->ranks.count > 1 ? s->ranks.count : 0, rank_json);
  PUT(root, "ranks", ranks);
  ROWS(root, "gpu", s->gpus, s->gpu_count, gpu_json);
  ROWS(root, "kernels", s->gpu_tables.kernels, s->gpu_tables.kernel_count, kernel_json);
  ROWS(root, "gpu_copies", s->gpu_tables.copies, s->gpu_tables.copy_count, copy_json);
  ROWS(root, "gpu_use", s->gpu_tables.use, s->gpu_tables.use_count, use_json);
  ROWS(root, "gpu_findings", s->gpu_tables.findings, s->gpu_tables.finding_count, finding_json);
  PUT(root, "launches", launches_json(&s->gpu_tables.launches));
  PUT(root, "gpu_status", opgap_json_text(s->gpu_status));
  PUT(root, "idle_gaps", gaps_json(s, o));
  PUT(root, "over_time", over_time_json(&s->over_time));
  PUT(root, "verdict", verdict_json(&s->verdict));
  return root;
}

char *opgap_output_json(const struct opgap_summary *summary, const struct opgap_output_options *options)
{
  if (summary->op_count > 0)
    opgap_sort_ops(summary->ops, summary->op_count, options->sort);
  json_t *root = report_json(summary, options);
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  json_decref(root);
  return text;
}
