#include "analysis/fields.h"

#include "analysis/summary.h"

#define PLAIN(type, rule, row, name)                                                                                   \
  {                                                                                                                    \
#name, FIELD_##type, RULE_##rule, offsetof(struct row, name), 1, 0, NULL                                           \
  }
#define ARRAY(type, rule, row, name, length)                                                                           \
  {                                                                                                                    \
#name, FIELD_##type, RULE_##rule, offsetof(struct row, name), length, 0, NULL                                      \
  }
#define STRUCT(rule, row, name, table)                                                                                 \
  {                                                                                                                    \
#name, FIELD_STRUCT, RULE_##rule, offsetof(struct row, name), 1, 0, &table##_table                                 \
  }
#define LIST(type, rule, row, name, count, table)                                                                      \
  {                                                                                                                    \
#name, FIELD_##type, RULE_##rule, offsetof(struct row, name), 1, offsetof(struct row, count), table                \
  }
#define ROWS(rule, row, name, count, table) LIST(ROWS, rule, row, name, count, &table##_table)
#define NUMBERS(rule, row, name, count) LIST(NUMBERS, rule, row, name, count, NULL)
#define TEXTS(rule, row, name, count) LIST(TEXTS, rule, row, name, count, NULL)
#define TABLE(name, type)                                                                                              \
  static const struct field_table name##_table = {sizeof(type), sizeof name##_fields / sizeof *name##_fields,          \
                                                  name##_fields}

static const struct field process_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_process, pid),
    PLAIN(I32, FIRST, opgap_sum_process, ppid),
    PLAIN(I32, FIRST, opgap_sum_process, rank),
    PLAIN(I32, FIRST, opgap_sum_process, worker),
    PLAIN(I32, FIRST, opgap_sum_process, exit_status),
    PLAIN(U32, FIRST, opgap_sum_process, role),
    PLAIN(TEXT, FIRST, opgap_sum_process, role_label),
    PLAIN(TEXT, FIRST, opgap_sum_process, host),
    PLAIN(TEXT, FIRST, opgap_sum_process, command),
    PLAIN(TEXT, FIRST, opgap_sum_process, ended),
    PLAIN(TEXT, FIRST, opgap_sum_process, open_op),
    PLAIN(TEXT, FIRST, opgap_sum_process, open_call),
    PLAIN(U64, TIME, opgap_sum_process, start_ns),
    PLAIN(U64, TIME, opgap_sum_process, end_ns),
    PLAIN(BOOL, FIRST, opgap_sum_process, complete),
    PLAIN(BOOL, FIRST, opgap_sum_process, kill_safe),
    PLAIN(U64, FIRST, opgap_sum_process, records),
    PLAIN(U64, FIRST, opgap_sum_process, lost_records),
    PLAIN(U64, FIRST, opgap_sum_process, invalid_records),
    PLAIN(U64, FIRST, opgap_sum_process, op_ns),
    PLAIN(U64, FIRST, opgap_sum_process, blocked_ns),
    PLAIN(U64, FIRST, opgap_sum_process, read_bytes),
    PLAIN(U64, FIRST, opgap_sum_process, written_bytes),
    PLAIN(U64, FIRST, opgap_sum_process, file_ns),
    PLAIN(U64, FIRST, opgap_sum_process, allocations),
    PLAIN(U64, FIRST, opgap_sum_process, rss_bytes),
    PLAIN(U64, FIRST, opgap_sum_process, open_ns),
    PLAIN(U32, FIRST, opgap_sum_process, threads),
};
TABLE(process, struct opgap_sum_process);

static const struct field untraced_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_untraced, pid),
    PLAIN(TEXT, FIRST, opgap_sum_untraced, command),
    PLAIN(TEXT, FIRST, opgap_sum_untraced, reason),
};
TABLE(untraced, struct opgap_sum_untraced);

static const struct field op_fields[] = {
    PLAIN(U32, KEY, opgap_sum_op, role),
    PLAIN(U32, KEY, opgap_sum_op, kind),
    PLAIN(TEXT, KEY, opgap_sum_op, name),
    PLAIN(U64, SUM, opgap_sum_op, calls),
    PLAIN(U64, SUM, opgap_sum_op, self_cpu_ns),
    PLAIN(U64, SUM, opgap_sum_op, total_cpu_ns),
    PLAIN(U64, SUM, opgap_sum_op, blocked_ns),
    PLAIN(U64, SUM, opgap_sum_op, self_gpu_ns),
    PLAIN(U64, SUM, opgap_sum_op, total_gpu_ns),
    PLAIN(U64, SUM, opgap_sum_op, alloc_count),
    PLAIN(U64, SUM, opgap_sum_op, alloc_bytes),
    PLAIN(U64, SUM, opgap_sum_op, minor_faults),
    PLAIN(U64, SUM, opgap_sum_op, major_faults),
    PLAIN(BOOL, OR, opgap_sum_op, estimated),
    PLAIN(TEXT, FIRST, opgap_sum_op, source_location),
    PLAIN(SIZE, MAX, opgap_sum_op, source_locations),
};
TABLE(op, struct opgap_sum_op);

static const struct field call_fields[] = {
    PLAIN(U32, KEY, opgap_sum_call, role),        PLAIN(TEXT, KEY, opgap_sum_call, name),
    PLAIN(TEXT, FIRST, opgap_sum_call, category), PLAIN(BOOL, OR, opgap_sum_call, blocking),
    PLAIN(BOOL, OR, opgap_sum_call, estimated),   PLAIN(U64, SUM, opgap_sum_call, calls),
    PLAIN(U64, SUM, opgap_sum_call, bytes),       PLAIN(U64, SUM, opgap_sum_call, failed),
    PLAIN(U64, SUM, opgap_sum_call, time_ns),     PLAIN(U64, SUM, opgap_sum_call, measured),
    PLAIN(U64, SUM, opgap_sum_call, measured_ns),
};
TABLE(call, struct opgap_sum_call);

static const struct field file_fields[] = {
    PLAIN(TEXT, KEY, opgap_sum_file, path),     PLAIN(TEXT, KEY, opgap_sum_file, operation),
    PLAIN(U64, SUM, opgap_sum_file, calls),     PLAIN(U64, SUM, opgap_sum_file, bytes),
    PLAIN(U64, SUM, opgap_sum_file, time_ns),   PLAIN(U64, SUM, opgap_sum_file, failed),
    PLAIN(U32, SUM, opgap_sum_file, processes),
};
TABLE(file, struct opgap_sum_file);

static const struct field lock_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_lock, pid),
    PLAIN(TEXT, FIRST, opgap_sum_lock, call),
    PLAIN(TEXT, FIRST, opgap_sum_lock, symbol),
    PLAIN(TEXT, FIRST, opgap_sum_lock, held_by),
    PLAIN(U64, FIRST, opgap_sum_lock, object),
    PLAIN(U64, FIRST, opgap_sum_lock, waits),
    PLAIN(U64, FIRST, opgap_sum_lock, wait_ns),
    PLAIN(U64, FIRST, opgap_sum_lock, longest_ns),
    PLAIN(U32, FIRST, opgap_sum_lock, threads),
    PLAIN(TEXT, FIRST, opgap_sum_lock, block),
    PLAIN(TEXT, FIRST, opgap_sum_lock, source_location),
};
TABLE(lock, struct opgap_sum_lock);

static const struct field gpu_state_fields[] = {
    PLAIN(U64, SUM, opgap_sum_gpu_state, samples),
    PLAIN(U64, SUM, opgap_sum_gpu_state, braked),
    ARRAY(U64, SUM, opgap_sum_gpu_state, brakes, OPGAP_BRAKE_COUNT),
    PLAIN(U64, FIRST, opgap_sum_gpu_state, sm_mhz),
    PLAIN(U64, FIRST, opgap_sum_gpu_state, sm_mhz_most),
    PLAIN(U64, FIRST, opgap_sum_gpu_state, memory_mhz),
    PLAIN(U64, FIRST, opgap_sum_gpu_state, milliwatts),
    PLAIN(U64, FIRST, opgap_sum_gpu_state, milliwatts_most),
    PLAIN(U64, MAX, opgap_sum_gpu_state, celsius),
    PLAIN(U64, MAX, opgap_sum_gpu_state, used_bytes),
    PLAIN(U64, MAX, opgap_sum_gpu_state, total_bytes),
    PLAIN(TEXT, FIRST, opgap_sum_gpu_state, driver),
};
TABLE(gpu_state, struct opgap_sum_gpu_state);

static const struct field thread_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_thread, pid),        PLAIN(I32, FIRST, opgap_sum_thread, tid),
    PLAIN(TEXT, FIRST, opgap_sum_thread, name),      PLAIN(TEXT, FIRST, opgap_sum_thread, process),
    PLAIN(U64, FIRST, opgap_sum_thread, life_ns),    PLAIN(U64, FIRST, opgap_sum_thread, sampled_ns),
    PLAIN(U64, FIRST, opgap_sum_thread, run_ns),     PLAIN(U64, FIRST, opgap_sum_thread, queue_ns),
    PLAIN(U64, FIRST, opgap_sum_thread, blocked_ns), PLAIN(U64, FIRST, opgap_sum_thread, file_ns),
    PLAIN(U64, FIRST, opgap_sum_thread, lock_ns),    PLAIN(U64, FIRST, opgap_sum_thread, sleep_ns),
};
TABLE(thread, struct opgap_sum_thread);

static const struct field worker_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_worker, pid),
    PLAIN(I32, FIRST, opgap_sum_worker, worker),
    PLAIN(TEXT, FIRST, opgap_sum_worker, label),
    PLAIN(U64, TIME, opgap_sum_worker, start_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, batches),
    PLAIN(U64, FIRST, opgap_sum_worker, startup_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, busy_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, idle_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, file_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, lock_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, sleep_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, network_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, child_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, queue_ns),
    PLAIN(U64, FIRST, opgap_sum_worker, read_bytes),
    PLAIN(U64, FIRST, opgap_sum_worker, awaited_ns),
    PLAIN(TEXT, FIRST, opgap_sum_worker, source_location),
    PLAIN(U64, FIRST, opgap_sum_worker, source_ns),
};
TABLE(worker, struct opgap_sum_worker);

static const struct field epoch_fields[] = {
    PLAIN(U64, TIME, opgap_sum_epoch, start_ns),       PLAIN(U32, FIRST, opgap_sum_epoch, workers),
    PLAIN(U64, FIRST, opgap_sum_epoch, startup_ns),    PLAIN(U64, FIRST, opgap_sum_epoch, first_batch_ns),
    PLAIN(U64, FIRST, opgap_sum_epoch, first_wait_ns), PLAIN(U64, FIRST, opgap_sum_epoch, fetches),
    PLAIN(U64, FIRST, opgap_sum_epoch, await_ns),
};
TABLE(epoch, struct opgap_sum_epoch);

static const struct field loader_fields[] = {
    PLAIN(U32, FIRST, opgap_sum_loader, workers),
    ROWS(FIRST, opgap_sum_loader, worker, worker_count, worker),
    PLAIN(U64, FIRST, opgap_sum_loader, fetches),
    PLAIN(U64, FIRST, opgap_sum_loader, fetch_ns),
    PLAIN(U64, FIRST, opgap_sum_loader, waited),
    PLAIN(U64, FIRST, opgap_sum_loader, await_ns),
    PLAIN(U64, FIRST, opgap_sum_loader, startup_wait_ns),
    PLAIN(U64, FIRST, opgap_sum_loader, depth_chunk_ns),
    PLAIN(U64, TIME, opgap_sum_loader, depth_start_ns),
    PLAIN(REAL, FIRST, opgap_sum_loader, depth),
    ARRAY(REAL, FIRST, opgap_sum_loader, depths, OPGAP_DEPTH_CHUNKS),
    ROWS(FIRST, opgap_sum_loader, epochs, epoch_count, epoch),
    PLAIN(U32, FIRST, opgap_sum_loader, pin_threads),
    PLAIN(U64, FIRST, opgap_sum_loader, pin_batches),
    PLAIN(U64, FIRST, opgap_sum_loader, pin_wait_ns),
    PLAIN(U64, FIRST, opgap_sum_loader, pin_busy_ns),
    PLAIN(REAL, FIRST, opgap_sum_loader, pinned_depth),
};
TABLE(loader, struct opgap_sum_loader);

static const struct field bottleneck_fields[] = {
    PLAIN(TEXT, FIRST, opgap_sum_bottleneck, kind),      PLAIN(TEXT, FIRST, opgap_sum_bottleneck, text),
    PLAIN(TEXT, FIRST, opgap_sum_bottleneck, remedy),    PLAIN(U64, FIRST, opgap_sum_bottleneck, ns),
    PLAIN(U64, FIRST, opgap_sum_bottleneck, at_most_ns),
};
TABLE(bottleneck, struct opgap_sum_bottleneck);

static const struct field gpu_fields[] = {
    PLAIN(U32, KEY, opgap_sum_gpu, device),
    PLAIN(TEXT, KEY, opgap_sum_gpu, host),
    PLAIN(TEXT, FIRST, opgap_sum_gpu, name),
    PLAIN(U64, SUM, opgap_sum_gpu, busy_ns),
    PLAIN(U64, SUM, opgap_sum_gpu, kernel_ns),
    PLAIN(U64, SUM, opgap_sum_gpu, memcpy_ns),
    PLAIN(U64, SUM, opgap_sum_gpu, memset_ns),
    PLAIN(U64, SUM, opgap_sum_gpu, communication_ns),
    PLAIN(U64, SUM, opgap_sum_gpu, exposed_communication_ns),
    PLAIN(U64, SUM, opgap_sum_gpu, kernels),
    PLAIN(U64, SUM, opgap_sum_gpu, memcpys),
    PLAIN(U64, SUM, opgap_sum_gpu, memsets),
    PLAIN(U64, SUM, opgap_sum_gpu, h2d_bytes),
    PLAIN(U64, SUM, opgap_sum_gpu, d2h_bytes),
    PLAIN(U64, SUM, opgap_sum_gpu, d2d_bytes),
    PLAIN(U64, MAX, opgap_sum_gpu, span_ns),
    PLAIN(U64, MAX, opgap_sum_gpu, memory_bytes),
    PLAIN(U64, MAX, opgap_sum_gpu, sm_count),
    PLAIN(REAL, MAX, opgap_sum_gpu, utilisation),
    PLAIN(REAL, MAX, opgap_sum_gpu, sampled_utilisation),
    STRUCT(FIRST, opgap_sum_gpu, state, gpu_state),
};
TABLE(gpu, struct opgap_sum_gpu);

static const struct field kernel_fields[] = {
    PLAIN(TEXT, KEY, opgap_sum_kernel, name),        PLAIN(U64, SUM, opgap_sum_kernel, calls),
    PLAIN(U64, SUM, opgap_sum_kernel, total_ns),     PLAIN(U64, MIN, opgap_sum_kernel, min_ns),
    PLAIN(U64, MAX, opgap_sum_kernel, max_ns),       PLAIN(U64, MAX, opgap_sum_kernel, registers),
    PLAIN(U64, MAX, opgap_sum_kernel, shared_bytes), ARRAY(U32, FIRST, opgap_sum_kernel, grid, 3),
    ARRAY(U32, FIRST, opgap_sum_kernel, block, 3),   PLAIN(BOOL, AND, opgap_sum_kernel, one_shape),
    PLAIN(REAL, FIRST, opgap_sum_kernel, occupancy),
};
TABLE(kernel, struct opgap_sum_kernel);

static const struct field copy_fields[] = {
    PLAIN(TEXT, KEY, opgap_sum_copy, direction), PLAIN(TEXT, KEY, opgap_sum_copy, source),
    PLAIN(TEXT, KEY, opgap_sum_copy, target),    PLAIN(BOOL, KEY, opgap_sum_copy, async),
    PLAIN(U64, SUM, opgap_sum_copy, calls),      PLAIN(U64, SUM, opgap_sum_copy, bytes),
    PLAIN(U64, SUM, opgap_sum_copy, total_ns),
};
TABLE(copy, struct opgap_sum_copy);

static const struct field use_fields[] = {
    PLAIN(U32, FIRST, opgap_sum_gpu_use, device),
    PLAIN(U64, FIRST, opgap_sum_gpu_use, chunk_ns),
    ARRAY(REAL, FIRST, opgap_sum_gpu_use, share, OPGAP_GPU_CHUNKS),
};
TABLE(use, struct opgap_sum_gpu_use);

static const struct field finding_fields[] = {
    PLAIN(U32, KEY, opgap_sum_finding, finding),
    PLAIN(TEXT, KEY, opgap_sum_finding, op),
    PLAIN(TEXT, KEY, opgap_sum_finding, source_location),
    PLAIN(U64, SUM, opgap_sum_finding, count),
    PLAIN(U64, SUM, opgap_sum_finding, ns),
    PLAIN(U64, SUM, opgap_sum_finding, bytes),
};
TABLE(finding, struct opgap_sum_finding);

static const struct field launches_fields[] = {
    PLAIN(U64, SUM, opgap_sum_launches, calls),         PLAIN(U64, SUM, opgap_sum_launches, kernels),
    PLAIN(U64, SUM, opgap_sum_launches, short_kernels), PLAIN(U64, SUM, opgap_sum_launches, call_ns),
    PLAIN(U64, SUM, opgap_sum_launches, queue_ns),      PLAIN(U64, SUM, opgap_sum_launches, slow_calls),
    PLAIN(U64, SUM, opgap_sum_launches, slow_starts),   PLAIN(U64, MAX, opgap_sum_launches, queue_max_ns),
    PLAIN(U64, SUM, opgap_sum_launches, unlaunched),    PLAIN(U64, SUM, opgap_sum_launches, unlaunched_ns),
};
TABLE(launches, struct opgap_sum_launches);

static const struct field gpu_tables_fields[] = {
    ROWS(ALL, opgap_sum_gpu_tables, kernels, kernel_count, kernel),
    ROWS(ALL, opgap_sum_gpu_tables, copies, copy_count, copy),
    ROWS(ALL, opgap_sum_gpu_tables, use, use_count, use),
    ROWS(ALL, opgap_sum_gpu_tables, findings, finding_count, finding),
    STRUCT(FIRST, opgap_sum_gpu_tables, launches, launches),
};
TABLE(gpu_tables, struct opgap_sum_gpu_tables);

static const struct field peak_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_peak, pid),
    PLAIN(U64, TIME, opgap_sum_peak, at_ns),
    PLAIN(U64, FIRST, opgap_sum_peak, bytes),
};
TABLE(peak, struct opgap_sum_peak);

static const struct field lived_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_lived, pid),
    PLAIN(I32, FIRST, opgap_sum_lived, tid),
    PLAIN(TEXT, FIRST, opgap_sum_lived, thread),
    PLAIN(TEXT, FIRST, opgap_sum_lived, op),
    PLAIN(TEXT, FIRST, opgap_sum_lived, source_location),
    PLAIN(U64, FIRST, opgap_sum_lived, bytes),
    PLAIN(U64, FIRST, opgap_sum_lived, blocks),
    PLAIN(U64, FIRST, opgap_sum_lived, growth_points),
    PLAIN(REAL, FIRST, opgap_sum_lived, growth_bytes),
    PLAIN(REAL, FIRST, opgap_sum_lived, growth_low),
    PLAIN(REAL, FIRST, opgap_sum_lived, growth_high),
};
TABLE(lived, struct opgap_sum_lived);

static const struct field failure_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_failure, pid),        PLAIN(I32, FIRST, opgap_sum_failure, tid),
    PLAIN(TEXT, FIRST, opgap_sum_failure, thread),    PLAIN(TEXT, FIRST, opgap_sum_failure, process),
    PLAIN(U64, TIME, opgap_sum_failure, at_ns),       PLAIN(TEXT, FIRST, opgap_sum_failure, call),
    PLAIN(U64, FIRST, opgap_sum_failure, bytes),      PLAIN(I32, FIRST, opgap_sum_failure, error),
    PLAIN(U64, FIRST, opgap_sum_failure, live_bytes), PLAIN(U64, FIRST, opgap_sum_failure, rss_bytes),
    PLAIN(TEXT, FIRST, opgap_sum_failure, op),        TEXTS(FIRST, opgap_sum_failure, last, last_count),
};
TABLE(failure, struct opgap_sum_failure);

static const struct field memory_fields[] = {
    PLAIN(U64, SUM, opgap_sum_memory, allocations),
    PLAIN(U64, SUM, opgap_sum_memory, frees),
    PLAIN(U64, SUM, opgap_sum_memory, failed),
    PLAIN(U64, SUM, opgap_sum_memory, bytes_allocated),
    PLAIN(U64, SUM, opgap_sum_memory, live_bytes),
    PLAIN(U64, MAX, opgap_sum_memory, peak_bytes),
    PLAIN(U64, MAX, opgap_sum_memory, peak_rss_bytes),
    PLAIN(TEXT, FIRST, opgap_sum_memory, growth_of),
    PLAIN(REAL, FIRST, opgap_sum_memory, growth_bytes),
    PLAIN(REAL, FIRST, opgap_sum_memory, growth_fit),
    PLAIN(U64, FIRST, opgap_sum_memory, growth_points),
    PLAIN(REAL, FIRST, opgap_sum_memory, growth_low),
    PLAIN(REAL, FIRST, opgap_sum_memory, growth_high),
    PLAIN(TEXT, FIRST, opgap_sum_memory, churn_of),
    PLAIN(U64, FIRST, opgap_sum_memory, churn_count),
    PLAIN(U64, FIRST, opgap_sum_memory, churn_bytes),
    PLAIN(U64, FIRST, opgap_sum_memory, churn_steps),
    PLAIN(U64, SUM, opgap_sum_memory, device_retries),
    ROWS(ALL, opgap_sum_memory, peaks, peak_count, peak),
    ROWS(ALL, opgap_sum_memory, lived, lived_count, lived),
    ROWS(ALL, opgap_sum_memory, failures, failure_count, failure),
};
TABLE(memory, struct opgap_sum_memory);

static const struct field memory_course_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_memory_course, pid),
    NUMBERS(TIME, opgap_sum_memory_course, time_ns, count),
    NUMBERS(FIRST, opgap_sum_memory_course, rss_bytes, count),
};
TABLE(memory_course, struct opgap_sum_memory_course);

static const struct field steps_fields[] = {
    PLAIN(TEXT, FIRST, opgap_sum_steps, source),          PLAIN(I32, FIRST, opgap_sum_steps, pid),
    PLAIN(SIZE, FIRST, opgap_sum_steps, skipped),         NUMBERS(TIME, opgap_sum_steps, start_ns, count),
    NUMBERS(FIRST, opgap_sum_steps, durations_ns, count), PLAIN(U64, FIRST, opgap_sum_steps, median_ns),
    PLAIN(U64, FIRST, opgap_sum_steps, p95_ns),           PLAIN(U64, FIRST, opgap_sum_steps, min_ns),
    PLAIN(U64, FIRST, opgap_sum_steps, max_ns),           PLAIN(U64, FIRST, opgap_sum_steps, mean_ns),
};
TABLE(steps, struct opgap_sum_steps);

static const struct field bucket_fields[] = {{"ns", FIELD_U64, RULE_FIRST, 0, OPGAP_CLASS_COUNT, 0, NULL}};
TABLE(bucket, uint64_t[OPGAP_CLASS_COUNT]);

static const struct field breakdown_fields[] = {
    PLAIN(SIZE, FIRST, opgap_sum_breakdown, steps),
    PLAIN(SIZE, FIRST, opgap_sum_breakdown, bucket_steps),
    ROWS(FIRST, opgap_sum_breakdown, buckets, bucket_count, bucket),
    ARRAY(U64, FIRST, opgap_sum_breakdown, class_ns, OPGAP_CLASS_COUNT),
    ARRAY(U64, FIRST, opgap_sum_breakdown, other_wait_ns, OPGAP_CAUSE_COUNT),
    ARRAY(U64, FIRST, opgap_sum_breakdown, wait_ns, OPGAP_CAUSE_COUNT),
    PLAIN(U64, FIRST, opgap_sum_breakdown, queue_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, no_cpu_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, throttled_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, outside_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, fault_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, copy_calls_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, exposed_collective_ns),
    PLAIN(U64, FIRST, opgap_sum_breakdown, collective_ns),
    PLAIN(BOOL, FIRST, opgap_sum_breakdown, sampled),
};
TABLE(breakdown, struct opgap_sum_breakdown);

static const struct field cause_fields[] = {
    PLAIN(U32, KEY, opgap_sum_cause, cause),
    PLAIN(TEXT, KEY, opgap_sum_cause, detail),
    PLAIN(U64, SUM, opgap_sum_cause, ns),
    PLAIN(U64, SUM, opgap_sum_cause, count),
};
TABLE(cause, struct opgap_sum_cause);

static const struct field thread_gap_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_thread_gap, pid),
    PLAIN(I32, FIRST, opgap_sum_thread_gap, tid),
    PLAIN(TEXT, FIRST, opgap_sum_thread_gap, thread),
    PLAIN(TEXT, FIRST, opgap_sum_thread_gap, process),
    PLAIN(TEXT, FIRST, opgap_sum_thread_gap, call),
    PLAIN(TEXT, FIRST, opgap_sum_thread_gap, op),
    PLAIN(U64, TIME, opgap_sum_thread_gap, start_ns),
    PLAIN(U64, FIRST, opgap_sum_thread_gap, duration_ns),
    ROWS(ALL, opgap_sum_thread_gap, causes, cause_count, cause),
};
TABLE(thread_gap, struct opgap_sum_thread_gap);

static const struct field gpu_gap_fields[] = {
    PLAIN(U32, FIRST, opgap_sum_gpu_gap, device),
    PLAIN(I32, FIRST, opgap_sum_gpu_gap, pid),
    PLAIN(TEXT, FIRST, opgap_sum_gpu_gap, previous),
    PLAIN(TEXT, FIRST, opgap_sum_gpu_gap, next),
    PLAIN(TEXT, FIRST, opgap_sum_gpu_gap, op_before),
    PLAIN(TEXT, FIRST, opgap_sum_gpu_gap, op_after),
    PLAIN(U64, TIME, opgap_sum_gpu_gap, start_ns),
    PLAIN(U64, FIRST, opgap_sum_gpu_gap, duration_ns),
    ROWS(ALL, opgap_sum_gpu_gap, causes, cause_count, cause),
};
TABLE(gpu_gap, struct opgap_sum_gpu_gap);

static const struct field gaps_fields[] = {
    PLAIN(U64, MAX, opgap_sum_gaps, thread_min_ns),
    PLAIN(U64, MAX, opgap_sum_gaps, gpu_min_ns),
    PLAIN(SIZE, SUM, opgap_sum_gaps, thread_count),
    PLAIN(SIZE, SUM, opgap_sum_gaps, gpu_count),
    PLAIN(U64, SUM, opgap_sum_gaps, thread_ns),
    PLAIN(U64, SUM, opgap_sum_gaps, gpu_ns),
    PLAIN(U64, SUM, opgap_sum_gaps, host_wait_ns),
    PLAIN(U64, SUM, opgap_sum_gaps, kernel_wait_ns),
    PLAIN(U64, SUM, opgap_sum_gaps, other_wait_ns),
    ROWS(ALL, opgap_sum_gaps, threads, thread_listed, thread_gap),
    ROWS(ALL, opgap_sum_gaps, gpus, gpu_listed, gpu_gap),
    ROWS(ALL, opgap_sum_gaps, thread_by_cause, thread_cause_count, cause),
    ROWS(ALL, opgap_sum_gaps, gpu_by_cause, gpu_cause_count, cause),
};
TABLE(gaps, struct opgap_sum_gaps);

static const struct field collective_fields[] = {
    PLAIN(TEXT, FIRST, opgap_sum_collective, name),
    PLAIN(U64, TIME, opgap_sum_collective, start_ns),
    PLAIN(U64, TIME, opgap_sum_collective, end_ns),
};
TABLE(collective, struct opgap_sum_collective);

static const struct field rank_fields[] = {
    PLAIN(I32, FIRST, opgap_sum_rank, rank),
    PLAIN(I32, FIRST, opgap_sum_rank, pid),
    PLAIN(TEXT, FIRST, opgap_sum_rank, host),
    PLAIN(TEXT, FIRST, opgap_sum_rank, boot_id),
    PLAIN(SIZE, FIRST, opgap_sum_rank, steps),
    PLAIN(U64, FIRST, opgap_sum_rank, step_median_ns),
    PLAIN(U64, FIRST, opgap_sum_rank, step_p95_ns),
    PLAIN(U64, FIRST, opgap_sum_rank, data_wait_ns),
    PLAIN(U64, FIRST, opgap_sum_rank, communication_ns),
    ARRAY(U64, FIRST, opgap_sum_rank, part_ns, OPGAP_RANK_PARTS),
    PLAIN(U64, FIRST, opgap_sum_rank, collectives_left_out),
    PLAIN(U64, TIME, opgap_sum_rank, from_ns),
    ARRAY(TEXT, FIRST, opgap_sum_rank, detail, OPGAP_CAUSE_COUNT),
    ROWS(ALL, opgap_sum_rank, collectives, collective_count, collective),
};
TABLE(rank, struct opgap_sum_rank);

static const struct field ranks_fields[] = {
    ROWS(ALL, opgap_sum_ranks, rows, count, rank),
    PLAIN(BOOL, FIRST, opgap_sum_ranks, told),
};
TABLE(ranks, struct opgap_sum_ranks);

static const struct field verdict_fields[] = {
    PLAIN(U32, FIRST, opgap_sum_verdict, bound_by),
    PLAIN(TEXT, FIRST, opgap_sum_verdict, confidence),
    TEXTS(FIRST, opgap_sum_verdict, evidence, evidence_count),
    TEXTS(FIRST, opgap_sum_verdict, remedies, remedy_count),
    PLAIN(U64, FIRST, opgap_sum_verdict, step_ns),
    ROWS(FIRST, opgap_sum_verdict, bottlenecks, bottleneck_count, bottleneck),
};
TABLE(verdict, struct opgap_sum_verdict);

static const struct field overhead_fields[] = {
    PLAIN(U64, SUM, opgap_sum_overhead, flusher_cpu_ns), PLAIN(U64, SUM, opgap_sum_overhead, raw_bytes),
    PLAIN(U64, SUM, opgap_sum_overhead, stored_bytes),   PLAIN(U64, SUM, opgap_sum_overhead, hook_ns),
    PLAIN(U64, SUM, opgap_sum_overhead, hooked_calls),
};
TABLE(overhead, struct opgap_sum_overhead);

static const struct field summary_fields[] = {
    PLAIN(TEXT, FIRST, opgap_summary, path),
    PLAIN(BOOL, AND, opgap_summary, complete),
    PLAIN(U64, SUM, opgap_summary, records),
    PLAIN(U64, SUM, opgap_summary, lost_records),
    ARRAY(U64, SUM, opgap_summary, lost_by, OPGAP_LOSS_COUNT),
    PLAIN(U64, SUM, opgap_summary, lost_threads),
    PLAIN(U64, SUM, opgap_summary, invalid_records),
    PLAIN(U64, SUM, opgap_summary, stored_bytes),
    PLAIN(U64, FIRST, opgap_summary, start_ns),
    PLAIN(I64, FIRST, opgap_summary, start_realtime_ns),
    PLAIN(U64, FIRST, opgap_summary, duration_ns),
    PLAIN(TEXT, FIRST, opgap_summary, boot_id),
    PLAIN(TEXT, FIRST, opgap_summary, process_filter),
    PLAIN(TEXT, FIRST, opgap_summary, gpu_status),
    PLAIN(BOOL, AND, opgap_summary, trainers_left_out),
    PLAIN(BOOL, OR, opgap_summary, has_gpu),
    PLAIN(U64, TIME, opgap_summary, window_start_ns),
    PLAIN(U64, TIME, opgap_summary, window_end_ns),
    STRUCT(FIRST, opgap_summary, overhead, overhead),
    STRUCT(FIRST, opgap_summary, gpu_tables, gpu_tables),
    STRUCT(FIRST, opgap_summary, memory, memory),
    STRUCT(FIRST, opgap_summary, steps, steps),
    STRUCT(FIRST, opgap_summary, breakdown, breakdown),
    STRUCT(FIRST, opgap_summary, gaps, gaps),
    STRUCT(FIRST, opgap_summary, ranks, ranks),
    STRUCT(FIRST, opgap_summary, loader, loader),
    STRUCT(FIRST, opgap_summary, verdict, verdict),
    TEXTS(ALL, opgap_summary, damage, damage_count),
    TEXTS(ALL, opgap_summary, notices, notice_count),
    TEXTS(FIRST, opgap_summary, info_keys, info_count),
    TEXTS(FIRST, opgap_summary, info_values, info_count),
    ROWS(ALL, opgap_summary, processes, process_count, process),
    ROWS(ALL, opgap_summary, untraced, untraced_count, untraced),
    ROWS(ALL, opgap_summary, ops, op_count, op),
    PLAIN(U64, SUM, opgap_summary, other_minor_faults),
    PLAIN(U64, SUM, opgap_summary, other_major_faults),
    PLAIN(U64, SUM, opgap_summary, start_minor_faults),
    PLAIN(U64, SUM, opgap_summary, start_major_faults),
    PLAIN(U64, SUM, opgap_summary, rest_minor_faults),
    PLAIN(U64, SUM, opgap_summary, rest_major_faults),
    ROWS(ALL, opgap_summary, calls, call_count, call),
    ROWS(ALL, opgap_summary, files, file_count, file),
    ROWS(ALL, opgap_summary, threads, thread_count, thread),
    ROWS(ALL, opgap_summary, locks, lock_count, lock),
    ROWS(ALL, opgap_summary, memory_courses, memory_course_count, memory_course),
    ROWS(ALL, opgap_summary, gpus, gpu_count, gpu),
};
const struct field_table opgap_summary_fields = {sizeof(struct opgap_summary),
                                                 sizeof summary_fields / sizeof *summary_fields, summary_fields};
