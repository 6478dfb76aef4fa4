/* The summary of a trace: the one result that every output, baseline and comparison is made from.
 *
 * Threads   plain data, no locks; one thread at a time.
 * Ownership A summary owns all memory that it points to; opgap_summary_free releases it.  Strings are any bytes
 *           (whoever prints them escapes them) and never NULL.
 * Units     times in ns (`_ns`), sizes in bytes (`_bytes`).  Points in time count from the trace's start_ns.
 * Unknown   A figure that is not known is OPGAP_UNKNOWN, never 0.
 *
 * Invariants
 *   1. Rows of a table are unique by the key named at the table.
 *   2. The causes of a gap add up to its duration; the rows of `by_cause` add up to the sum of all gaps counted.
 *   3. The classes of the step breakdown add up to the sum of the steps counted.
 */
#ifndef OPGAP_ANALYSIS_SUMMARY_H
#define OPGAP_ANALYSIS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/reader.h"

#define OPGAP_SUMMARY_SCHEMA 1
#define OPGAP_UNKNOWN UINT64_MAX

/* What kind of process did it: "program" when no process of the trace trains. */
enum opgap_role {
  OPGAP_ROLE_TRAINER,
  OPGAP_ROLE_WORKER, /* DataLoader worker */
  OPGAP_ROLE_OTHER,  /* helper of a training: resource tracker, fork server, shell, compiler; a launcher */
  OPGAP_ROLE_PROGRAM,
  OPGAP_ROLE_COUNT
};
#define OPGAP_LABEL_LAUNCHER "launcher" /* role labels of what led to a program that was executed in its place */
#define OPGAP_LABEL_LAUNCH_HELPER "launch helper"
/* "trainer", "DataLoader worker", "other", "program" */
const char *opgap_role_name(enum opgap_role role);

struct opgap_sum_process {
  uint32_t index; /* in the trace */
  int32_t pid, ppid;
  int32_t rank; /* -1: unknown */
  enum opgap_role role;
  int32_t worker;         /* index of a DataLoader worker in its loader, else -1 */
  const char *role_label; /* "trainer", "DataLoader worker 1", "resource tracker", ... */
  const char *host, *command;
  uint64_t start_ns, end_ns;
  const char *ended;   /* "clean", "exec", "killed", "running", "unknown" */
  int32_t exit_status; /* -1: unknown */
  bool complete, kill_safe;
  uint64_t records, lost_records, invalid_records;
  uint32_t threads;
  uint64_t op_ns;      /* time inside outermost ops and ranges, all threads */
  uint64_t blocked_ns; /* time in blocking calls, main thread */
  uint64_t read_bytes, written_bytes;
  uint64_t file_ns; /* time in calls on files */
  uint64_t allocations;
  uint64_t rss_bytes;              /* highest sample, OPGAP_UNKNOWN if none */
  const char *open_op, *open_call; /* where it stood when it died, "" otherwise */
  uint64_t open_ns;                /* how long it had stood there */
};

struct opgap_sum_untraced {
  int32_t pid;
  const char *command, *reason;
};

enum opgap_op_kind { OPGAP_OP_TORCH, OPGAP_OP_RANGE, OPGAP_OP_CALL, OPGAP_OP_KERNEL, OPGAP_OP_MEMCPY, OPGAP_OP_MEMSET };
/* "torch", "range", "call", "kernel", "memcpy", "memset" */
const char *opgap_op_kind_name(enum opgap_op_kind kind);

/* Key: role, kind, name.  Calls are exact. */
struct opgap_sum_op {
  const char *name;
  enum opgap_op_kind kind;
  enum opgap_role role;
  uint64_t calls;
  uint64_t self_cpu_ns, total_cpu_ns;
  uint64_t blocked_ns;                /* of total_cpu_ns, in blocking calls */
  uint64_t self_gpu_ns, total_gpu_ns; /* OPGAP_UNKNOWN without GPU activity */
  uint64_t alloc_count, alloc_bytes;  /* inside it, children included */
  /* Page faults where it took long (some 100 us), without those of long ops inside it; major: read from a disk. */
  uint64_t minor_faults, major_faults;
  bool estimated;              /* self and total: a counted call, timed one in N */
  const char *source_location; /* "FILE:LINE FUNCTION" with the most self time; "": not recorded */
  size_t source_locations;     /* how many places called it */
};

/* Hooked calls.  Key: role, name. */
struct opgap_sum_call {
  const char *name, *category;
  enum opgap_role role;
  bool blocking;
  uint64_t calls, bytes, failed, time_ns;
  bool estimated;                 /* time_ns */
  uint64_t measured, measured_ns; /* calls that have a time of their own, and what these took; also where time_ns is
                                   * not known */
};

/* Does it only wait for another process, so that its time is that one's? */
bool opgap_call_awaits_process(const struct opgap_sum_call *call);

/* The most that was alive at one time in a process. */
struct opgap_sum_peak {
  int32_t pid;
  uint64_t at_ns, bytes;
};

/* What lived at the peak of a process's live bytes, and what grows with its steps.  Key: pid, tid, op, source location.
 */
struct opgap_sum_lived {
  int32_t pid, tid;
  const char *thread; /* name, "" if none */
  const char *op;     /* innermost op that made the blocks, "" outside of ops */
  const char
      *source_location;   /* of that op, else of the stacks of large blocks: "FILE:LINE FUNCTION"; "": not recorded */
  uint64_t bytes, blocks; /* at the peak */
  /* Bytes a step, after the first 10 steps: slope of a straight line and its 95 % interval. */
  uint64_t growth_points; /* steps that it goes through; 0: too few, and the growth is not known */
  double growth_bytes, growth_low, growth_high;
};

/* A failed allocation and what its thread did before. */
struct opgap_sum_failure {
  int32_t pid, tid;
  const char *thread, *process; /* name, "" if none; role label */
  uint64_t at_ns;
  const char *call;
  uint64_t bytes;                 /* asked for; OPGAP_UNKNOWN: not recorded */
  int32_t error;                  /* errno; of CUDA calls its result */
  uint64_t live_bytes, rss_bytes; /* of the process then: exact, and newest sample; OPGAP_UNKNOWN */
  const char *op;                 /* innermost op around it, "" none */
  size_t last_count;
  const char **last; /* ops and calls that the thread ended before, the latest first, in words */
};

struct opgap_sum_memory {
  uint64_t allocations, frees, failed, bytes_allocated;
  uint64_t peak_bytes, live_bytes; /* OPGAP_UNKNOWN unless every allocation was recorded */
  uint64_t peak_rss_bytes;         /* sampled; OPGAP_UNKNOWN without samples */
  /* Of the process with the steps, after warm-up: a straight line through its memory by step. */
  const char *growth_of;          /* "live bytes" (exact), "resident memory" (sampled), "" unknown */
  double growth_bytes;            /* a step */
  double growth_low, growth_high; /* 95 % interval of growth_bytes, wider where neighbours deviate alike */
  double growth_fit;              /* how much of the variation the line explains (R squared), 0 to 1 */
  uint64_t growth_points;         /* that it goes through */
  /* Allocations a step of the same process: medians after warm-up. */
  const char *churn_of; /* "all allocations" (exact), "inside ops", "" unknown */
  uint64_t churn_count, churn_bytes, churn_steps;
  /* Of each process with OPGAP_ALLOC=events: what lived at its peak and what grows, largest at the peak first. */
  uint64_t device_retries; /* calls of CUDA's that found no memory, and had it when they were made again */
  size_t peak_count, lived_count, failure_count;
  struct opgap_sum_peak *peaks;
  struct opgap_sum_lived *lived;
  struct opgap_sum_failure *failures; /* by time */
};

/* Key: path, operation.  operation: the call's plain verb ("read", "write", "flush", "sync", "open", "close",
 * "stat", "other"). */
struct opgap_sum_file {
  const char *path, *operation;
  uint64_t calls, bytes, time_ns, failed;
  uint32_t processes;
};

/* Contended locks.  Key: process, object. */
struct opgap_sum_lock {
  int32_t pid;
  const char *call; /* what waited for it */
  uint64_t object;
  const char *symbol; /* "NAME in FILE", "FILE+0xOFFSET"; of a lock on a file its path, object is 0; "": no static data,
                         or modules were not recorded */
  uint64_t waits, wait_ns, longest_ns;
  uint32_t threads;    /* that waited */
  const char *held_by; /* thread that most of the wait was charged to, "" when unknown */
  const char *block;   /* what made the block of the heap around it: "96 bytes by THREAD in OP, FILE:LINE FUNCTION"; "":
                          none, or allocations were not recorded one by one */
  const char *source_location; /* "FILE:LINE FUNCTION" where most of the waiting was; "": no stacks */
};

/* Threads.  The scheduler's figures are of the time between its first and last sample; OPGAP_UNKNOWN without two. */
struct opgap_sum_thread {
  int32_t pid, tid;
  const char *name, *process; /* process: role label */
  uint64_t life_ns;
  uint64_t sampled_ns, run_ns, queue_ns; /* on a CPU; runnable, waiting for one (a cgroup's limit included) */
  uint64_t blocked_ns;                   /* in hooked blocking calls; of these: */
  uint64_t file_ns, lock_ns, sleep_ns;   /* lock: semaphores too */
};

/* DataLoader workers.  Of one of which nothing was recorded (a schedule) the times are OPGAP_UNKNOWN. */
struct opgap_sum_worker {
  int32_t pid, worker;
  const char *label;
  uint64_t start_ns;
  uint64_t batches; /* messages that it sent to the trainer */
  /* From its start until it asked for its first index; OPGAP_UNKNOWN where not all of that was recorded (OPGAP_DELAY,
   * opgap start, a window that begins later). */
  uint64_t startup_ns;
  uint64_t busy_ns, idle_ns;           /* after start-up, while it was recorded; idle: waiting for an index */
  uint64_t file_ns, lock_ns, sleep_ns; /* of busy, main thread */
  uint64_t network_ns, child_ns;       /* likewise: in sockets; for child processes and their output */
  uint64_t queue_ns;                   /* of busy, runnable without a CPU; OPGAP_UNKNOWN without samples */
  uint64_t read_bytes;
  uint64_t awaited_ns;         /* the trainer waited for it */
  const char *source_location; /* "FILE:LINE FUNCTION" of its Python code that most of its time in calls and outermost
                                  ops of 80 us or more was called from; "": no stacks */
  uint64_t source_ns;          /* that time */
};
/* Workers that were made at one time: an epoch, without persistent_workers. */
struct opgap_sum_epoch {
  uint64_t start_ns; /* of the first of them */
  unsigned workers;
  uint64_t startup_ns; /* of the slowest, until it asked for its first index */
  /* From start_ns until the trainer had the first batch, and its wait for that; OPGAP_UNKNOWN where the first fetch was
   * not recorded or is not in the window, as startup_ns. */
  uint64_t first_batch_ns, first_wait_ns;
  uint64_t fetches, await_ns; /* of all batches; await_ns: sum of the waits */
};
#define OPGAP_DEPTH_CHUNKS 30u
struct opgap_sum_loader {
  unsigned workers;                   /* at one time; 0: batches are made in the trainer, or no DataLoader */
  size_t worker_count;                /* processes, all epochs */
  struct opgap_sum_worker *worker;    /* by start */
  uint64_t fetches, fetch_ns;         /* __next__ of the trainer */
  uint64_t waited;                    /* fetches whose batch was not there (waited for at least the gap's minimum) */
  uint64_t await_ns, startup_wait_ns; /* sum of these waits; of it for workers that had not started */
  double depth;                       /* batches ready when the trainer asked, on average; negative: unknown */
  uint64_t depth_start_ns, depth_chunk_ns; /* over time; chunk 0: unknown */
  double depths[OPGAP_DEPTH_CHUNKS];       /* negative: none was fetched then */
  /* Of the trainer whose depth this is: */
  size_t epoch_count;
  struct opgap_sum_epoch *epochs; /* by their first fetches */
  unsigned pin_threads;           /* threads that pin memory, one for each row of `epochs`; 0: none */
  uint64_t pin_batches;           /* that they took from the workers */
  uint64_t pin_wait_ns;           /* they waited for workers */
  uint64_t pin_busy_ns;           /* in no blocking call: pinning, unpickling */
  double pinned_depth;            /* of `depth`, what they had done; negative: unknown */
};

struct opgap_sum_steps {
  const char *source; /* "Optimizer.step", "opgap_step", "ProfilerStep", "NVTX", "backward", "DataLoader", "none" */
  int32_t pid;        /* whose steps these are (the first trainer), 0 when none */
  size_t count;       /* all steps found */
  size_t skipped;     /* the first ones: warm-up, left out of every per-step figure */
  uint64_t *start_ns, *durations_ns;                   /* [count] */
  uint64_t median_ns, p95_ns, min_ns, max_ns, mean_ns; /* without warm-up; OPGAP_UNKNOWN when no step is left */
};

enum opgap_cause {
  OPGAP_CAUSE_DATA_LOADING,
  OPGAP_CAUSE_COMMUNICATION,
  OPGAP_CAUSE_SYNCHRONISATION,
  OPGAP_CAUSE_LOCK,
  OPGAP_CAUSE_FILE_IO,
  OPGAP_CAUSE_ALLOCATION,
  OPGAP_CAUSE_GIL,
  OPGAP_CAUSE_DISPATCH, /* framework ops */
  OPGAP_CAUSE_PYTHON,   /* the program's own code between ops */
  OPGAP_CAUSE_DEVICE,   /* device dependency or launch latency */
  OPGAP_CAUSE_RUN_QUEUE,
  OPGAP_CAUSE_THROTTLED,
  OPGAP_CAUSE_OUTSIDE_HOOKS,
  OPGAP_CAUSE_SLEEP,
  OPGAP_CAUSE_CHILD, /* waiting for a child process */
  OPGAP_CAUSE_STARTUP,
  OPGAP_CAUSE_UNKNOWN,
  OPGAP_CAUSE_COUNT
};
/* "data loading", "communication", ... */
const char *opgap_cause_name(enum opgap_cause cause);

/* Use and causes of idleness in equal parts of the whole trace, or of its end that is covered (analysis option
 * from_ns). Sums over all buckets are the sums of the tables. */
#define OPGAP_OVER_TIME_BUCKETS 240u
struct opgap_sum_device_over_time {
  uint32_t device;
  uint64_t busy_ns[OPGAP_OVER_TIME_BUCKETS];
  uint64_t cause_ns[OPGAP_OVER_TIME_BUCKETS][OPGAP_CAUSE_COUNT]; /* of gaps */
};
/* Of the main thread of a process; what is open at the end of the trace counts too. */
struct opgap_sum_process_over_time {
  uint32_t index; /* of the process in the trace: exec leaves the pid as it is */
  int32_t pid;
  uint64_t blocked_ns[OPGAP_OVER_TIME_BUCKETS]; /* in blocking calls */
  uint64_t next_ns[OPGAP_OVER_TIME_BUCKETS];    /* in a DataLoader's __next__ */
};
struct opgap_sum_over_time {
  uint64_t start_ns, bucket_ns;
  size_t device_count;
  struct opgap_sum_device_over_time *devices;     /* in the order of summary.gpus */
  uint64_t (*thread_cause_ns)[OPGAP_CAUSE_COUNT]; /* [OPGAP_OVER_TIME_BUCKETS], gaps of threads; NULL: none */
  size_t process_count;
  struct opgap_sum_process_over_time *processes; /* as summary.processes, in any order */
};

/* Resident memory of a process, sampled: where samples are many, the highest of each few. */
struct opgap_sum_memory_course {
  int32_t pid;
  size_t count;
  uint64_t *time_ns, *rss_bytes; /* [count] */
};

/* Call tree of ops and ranges; made when asked for (opgap_analysis_options).  A node's parent stands before it. */
#define OPGAP_FLAME_NODES 32768u
struct opgap_sum_flame_node {
  const char *name;
  enum opgap_op_kind kind;
  enum opgap_role role;
  uint32_t parent; /* UINT32_MAX: outermost */
  uint64_t calls, self_cpu_ns, total_cpu_ns, self_gpu_ns, total_gpu_ns;
};
struct opgap_sum_flame {
  size_t count;
  struct opgap_sum_flame_node *nodes;
  uint64_t left_out; /* ops of stacks beyond OPGAP_FLAME_NODES: in the totals of the ops around them only */
};

/* Every instant of a step belongs to the first class that matches. */
enum opgap_class {
  OPGAP_CLASS_KERNEL,
  OPGAP_CLASS_MEMCPY,
  OPGAP_CLASS_MEMSET,
  OPGAP_CLASS_COMMUNICATION,
  OPGAP_CLASS_RUNTIME,
  OPGAP_CLASS_DATALOADER,
  OPGAP_CLASS_CPU_EXEC,
  OPGAP_CLASS_OTHER,
  OPGAP_CLASS_COUNT
};
/* "kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other" */
const char *opgap_class_name(enum opgap_class class_);

#define OPGAP_BREAKDOWN_BUCKETS 2000u
struct opgap_sum_breakdown {
  size_t steps; /* steps summed: all but warm-up; 0: no breakdown */
  uint64_t class_ns[OPGAP_CLASS_COUNT];
  /* Parts of class_ns[OPGAP_CLASS_OTHER]: what the main thread waited for; the rest is its own code. */
  uint64_t other_wait_ns[OPGAP_CAUSE_COUNT];
  /* All waits of the main thread, those inside ops, CUDA calls and the DataLoader too. */
  uint64_t wait_ns[OPGAP_CAUSE_COUNT];
  /* Of the main thread's time outside hooked blocking calls, from samples: runnable without a CPU, throttled, off the
   * CPU for an unknown reason. */
  bool sampled;
  /* Collectives on the GPU: of class_ns[OPGAP_CLASS_KERNEL] what no other kernel ran beside, and all. */
  uint64_t exposed_collective_ns, collective_ns;
  uint64_t copy_calls_ns; /* of class_ns[OPGAP_CLASS_RUNTIME], in calls that copy */
  uint64_t queue_ns, throttled_ns, outside_ns;
  /* Of all step time: the main thread, its team or a thread that it waits for was runnable without a CPU.  0 with a
   * GPU: there its idle time counts. */
  uint64_t no_cpu_ns;
  uint64_t fault_ns; /* of outside_ns, at most: in page faults that read from a disk */
  /* Course: sums over every bucket_steps steps (1 while they are few), warm-up included, the last bucket maybe less. */
  size_t bucket_steps, bucket_count;
  uint64_t (*buckets)[OPGAP_CLASS_COUNT];
};

/* Detail: one phrase, for example "DataLoader worker 1 reading /data/12.png". */
struct opgap_sum_cause {
  enum opgap_cause cause;
  const char *detail;
  uint64_t ns, count; /* count: gaps it had a part in */
};

struct opgap_sum_thread_gap {
  int32_t pid, tid;
  const char *thread;  /* name, "" if none */
  const char *process; /* role label */
  uint64_t start_ns, duration_ns;
  const char *call; /* the blocking call, the longest of them when a wait consists of several */
  const char *op;   /* op it happened in, "" if none */
  size_t cause_count;
  struct opgap_sum_cause *causes; /* largest first */
};

struct opgap_sum_gpu_gap {
  uint32_t device;
  int32_t pid; /* whose work ended it */
  uint64_t start_ns, duration_ns;
  const char *previous, *next;      /* what ran last and what ended it: a kernel, "Memcpy HtoD", "Memset (Device)" */
  const char *op_before, *op_after; /* innermost ops or ranges that launched the two; "": none, or not known */
  size_t cause_count;
  struct opgap_sum_cause *causes;
};

struct opgap_sum_gaps {
  uint64_t thread_min_ns, gpu_min_ns;
  size_t thread_count, gpu_count;   /* gaps found */
  uint64_t thread_ns, gpu_ns;       /* their sum */
  size_t thread_listed, gpu_listed; /* rows: the longest */
  struct opgap_sum_thread_gap *threads;
  struct opgap_sum_gpu_gap *gpus;
  /* Sums over all gaps counted, not just those listed.  Key: cause, detail.  Largest first. */
  size_t thread_cause_count, gpu_cause_count;
  struct opgap_sum_cause *thread_by_cause, *gpu_by_cause;
  uint64_t host_wait_ns, kernel_wait_ns, other_wait_ns; /* HTA's classes of GPU gaps */
};

/* A kernel by name, all devices. */
struct opgap_sum_kernel {
  const char *name;
  uint64_t calls, total_ns, min_ns, max_ns;
  uint32_t grid[3], block[3]; /* of the first launch */
  bool one_shape;             /* every launch had it */
  uint64_t registers, shared_bytes;
  double occupancy; /* theoretical, mean over the time of all launches, 0..1; negative: unknown */
};
struct opgap_sum_copy {
  const char *direction;       /* "HtoD", ... */
  const char *source, *target; /* "pageable", "pinned", "device", ... */
  bool async;
  uint64_t calls, bytes, total_ns;
};
/* Calls that started kernels. */
struct opgap_sum_launches {
  uint64_t calls, kernels, short_kernels;   /* short: shorter than the call that launched it */
  uint64_t call_ns, queue_ns, queue_max_ns; /* queue: from the call's end to the first start */
  uint64_t slow_calls, slow_starts;         /* HTA's outliers: calls above 50 us, queues above 100 us */
  uint64_t unlaunched, unlaunched_ns;       /* kernels whose call was not recorded: they have no op and no place */
};
#define OPGAP_GPU_CHUNKS 30u
struct opgap_sum_gpu_use {
  uint32_t device;
  uint64_t chunk_ns;
  double share[OPGAP_GPU_CHUNKS]; /* busy share of each thirtieth of its first start to its last end */
};
/* Nsight Systems' rules, by its names (gpu_tables.h).  Key: rule, op, source location. */
enum opgap_gpu_finding {
  OPGAP_FINDING_MEMCPY_ASYNC,
  OPGAP_FINDING_MEMCPY_SYNC,
  OPGAP_FINDING_MEMSET_SYNC,
  OPGAP_FINDING_API_SYNC,
  OPGAP_FINDING_GAPS,
  OPGAP_FINDING_TIME_UTIL,
  OPGAP_FINDING_COUNT
};
const char *opgap_gpu_finding_name(enum opgap_gpu_finding finding); /* "cuda_memcpy_async", ... */
const char *opgap_gpu_finding_text(enum opgap_gpu_finding finding); /* what it means and what helps */
struct opgap_sum_finding {
  enum opgap_gpu_finding finding;
  const char *op;              /* innermost op or range around the calls; "" none */
  const char *source_location; /* "FILE:LINE FUNCTION" of the program that called it; "": not recorded */
  uint64_t count, ns, bytes;
};
struct opgap_sum_gpu_tables {
  size_t kernel_count, copy_count, use_count, finding_count;
  struct opgap_sum_kernel *kernels;   /* by total time, largest first */
  struct opgap_sum_copy *copies;      /* by bytes, largest first */
  struct opgap_sum_gpu_use *use;      /* one a device */
  struct opgap_sum_finding *findings; /* by rule, then time */
  struct opgap_sum_launches launches;
};

/* What holds the clocks of a device down, as NVML counts it. */
enum opgap_gpu_brake {
  OPGAP_BRAKE_POWER_CAP,
  OPGAP_BRAKE_HW_SLOWDOWN,
  OPGAP_BRAKE_SYNC_BOOST,
  OPGAP_BRAKE_SW_THERMAL,
  OPGAP_BRAKE_HW_THERMAL,
  OPGAP_BRAKE_POWER_BRAKE,
  OPGAP_BRAKE_BOARD_LIMIT,
  OPGAP_BRAKE_RELIABILITY,
  OPGAP_BRAKE_COUNT
};
/* "power cap", "hardware slowdown", ... */
const char *opgap_gpu_brake_name(enum opgap_gpu_brake brake);
/* Sampled while the device worked; each figure OPGAP_UNKNOWN when the device does not tell. */
struct opgap_sum_gpu_state {
  uint64_t samples;                     /* 0: none, and nothing below is known */
  uint64_t sm_mhz, sm_mhz_most;         /* mean; what the device can */
  uint64_t memory_mhz;                  /* mean */
  uint64_t milliwatts, milliwatts_most; /* mean; the limit */
  uint64_t celsius;                     /* highest */
  uint64_t used_bytes, total_bytes;     /* of all processes, highest; of the device */
  uint64_t braked;                      /* samples with any of these */
  uint64_t brakes[OPGAP_BRAKE_COUNT];   /* samples with each */
  const char *driver;                   /* version, "" unknown */
};

/* Key: host, device.  Without activity records (span_ns 0) nothing is known of what ran. */
struct opgap_sum_gpu {
  uint32_t device;
  const char *name, *host;
  uint64_t busy_ns, kernel_ns, memcpy_ns, memset_ns;   /* unions in time */
  uint64_t communication_ns, exposed_communication_ns; /* collectives; of these, not hidden by computation */
  uint64_t span_ns;                                    /* first start to last end, without what opgap stop left out */
  uint64_t kernels, memcpys, memsets;
  uint64_t h2d_bytes, d2h_bytes, d2d_bytes;
  uint64_t memory_bytes, sm_count; /* of the device; OPGAP_UNKNOWN */
  double utilisation;              /* busy / span, 0..1; negative: unknown */
  double sampled_utilisation;      /* where CUPTI told of no activity: NVML's, of all processes, 0..1; negative: none */
  struct opgap_sum_gpu_state state;
};

/* A collective that no rank leaves before all have come; times as everywhere in the summary. */
struct opgap_sum_collective {
  const char *name;
  uint64_t start_ns, end_ns;
};

/* Where a rank's step goes: classes, then the waits that are parts of "other", by cause. */
#define OPGAP_RANK_PARTS (OPGAP_CLASS_COUNT + OPGAP_CAUSE_COUNT)

/* Ranks of a distributed training.  Key: rank, pid.  Times a step without warm-up; OPGAP_UNKNOWN without steps. */
struct opgap_sum_rank {
  int32_t rank, pid; /* rank -1: unknown */
  const char *host, *boot_id;
  size_t steps;
  uint64_t step_median_ns, step_p95_ns, data_wait_ns, communication_ns;
  /* What ranks are compared by (opgap_ranks_compare). */
  uint64_t from_ns;                      /* start of its first step after warm-up */
  uint64_t part_ns[OPGAP_RANK_PARTS];    /* a step; without communication, which is the effect */
  const char *detail[OPGAP_CAUSE_COUNT]; /* what most of its waits of this cause were, in words; "" */
  size_t collective_count;
  uint64_t collectives_left_out; /* more than are kept */
  struct opgap_sum_collective *collectives;
  /* The result. */
  uint64_t collective_ns;  /* in matched collectives after warm-up */
  uint64_t waited_ns;      /* of that, until the last rank came */
  uint64_t caused_ns;      /* what the others waited for this one */
  uint64_t last;           /* collectives that it came last to */
  int64_t clock_offset_ns; /* its host's clock - the first rank's host's, after both were put on one time of day */
  uint64_t clock_error_ns; /* the offset is right within +- this; OPGAP_UNKNOWN: nothing bounds it */
};
struct opgap_sum_ranks {
  size_t count; /* one is no comparison */
  struct opgap_sum_rank *rows;
  uint64_t collectives, unmatched;               /* that all ranks took part in; others */
  size_t straggler;                              /* row that most of the waiting is for; SIZE_MAX: none */
  const char *straggler_part, *straggler_detail; /* where it spends more than the others: "sleep", ...; "": unknown */
  uint64_t straggler_extra_ns;                   /* how much more a step than the median of the others */
  bool told;                                     /* the verdict's first sentences are about it */
};

enum opgap_bound {
  OPGAP_BOUND_UNDECIDED,
  OPGAP_BOUND_DATA_LOADING,
  OPGAP_BOUND_COMMUNICATION,
  OPGAP_BOUND_KERNELS,
  OPGAP_BOUND_MEMORY,
  OPGAP_BOUND_CPU_DISPATCH,
  OPGAP_BOUND_CPU_COMPUTE, /* no GPU: the ops themselves */
  OPGAP_BOUND_COUNT
};
/* "undecided", "data loading", "communication", "kernels", "memory", "CPU dispatch", "CPU compute" */
const char *opgap_bound_name(enum opgap_bound bound);

/* What takes step time, and what a step gains at most when it is gone.  Key: kind. */
struct opgap_sum_bottleneck {
  const char *kind;    /* docs/VERDICT.md lists them */
  const char *text;    /* a sentence with its figures */
  const char *remedy;  /* the cheapest */
  uint64_t ns;         /* of the steps counted */
  uint64_t at_most_ns; /* upper bound of the gain over these steps; OPGAP_UNKNOWN: work that cannot be left out */
};

struct opgap_sum_verdict {
  enum opgap_bound bound_by;
  const char *confidence; /* "high", "medium", "low" */
  size_t evidence_count, remedy_count;
  const char **evidence, **remedies; /* sentences; the first remedy is the cheapest */
  uint64_t step_ns;                  /* time of the steps that the bottlenecks are parts of; 0 without steps */
  size_t bottleneck_count;
  struct opgap_sum_bottleneck *bottlenecks; /* largest first */
};

struct opgap_sum_overhead {
  uint64_t flusher_cpu_ns, raw_bytes, stored_bytes; /* OPGAP_UNKNOWN if not recorded */
  uint64_t hook_ns;                                 /* estimate: calls x cost of a call; OPGAP_UNKNOWN */
  uint64_t hooked_calls;                            /* spans, points and counted calls */
};

struct opgap_summary {
  /* head */
  const char *path;
  bool complete;
  uint64_t records, lost_records, invalid_records, stored_bytes;
  uint64_t lost_by[OPGAP_LOSS_COUNT]; /* adds up to lost_records */
  uint64_t lost_threads;              /* that found no room: nothing of them is in the figures */
  uint64_t start_ns;                  /* CLOCK_MONOTONIC of time 0 of this summary */
  int64_t start_realtime_ns;          /* the same moment, CLOCK_REALTIME */
  const char *boot_id;                /* whose CLOCK_MONOTONIC it is */
  uint64_t duration_ns;
  const char *process_filter;              /* --process; "" when all processes are covered */
  bool trainers_left_out;                  /* there are trainers, none of them is covered */
  uint64_t window_start_ns, window_end_ns; /* what the tables cover; the whole trace unless --steps */
  struct opgap_sum_overhead overhead;
  size_t damage_count, notice_count;
  const char **damage, **notices; /* notices: what the tracer said, each once, and more to know */
  const char *gpu_status;         /* "ok", "no device", "unavailable: reason" */
#define OPGAP_GPU_UNSEEN "unavailable: no use of CUDA was seen"
  bool has_gpu;

  size_t process_count, untraced_count, op_count, call_count, file_count, lock_count, gpu_count, thread_count;
  struct opgap_sum_process *processes; /* by start */
  struct opgap_sum_untraced *untraced;
  struct opgap_sum_op *ops;                        /* by self CPU, largest first */
  uint64_t other_minor_faults, other_major_faults; /* that no op is known of: of short ops, and of code between */
  uint64_t start_minor_faults, start_major_faults; /* of threads before their first op */
  uint64_t rest_minor_faults, rest_major_faults; /* what processes with ops had besides: in threads without long ops */
  struct opgap_sum_call *calls;                  /* by time, largest first */
  struct opgap_sum_file *files;                  /* by time, largest first */
  struct opgap_sum_lock *locks;                  /* by wait, largest first */
  struct opgap_sum_thread *threads;              /* by CPU wanted (running or waiting for one), largest first */
  struct opgap_sum_loader loader;
  struct opgap_sum_gpu *gpus;
  struct opgap_sum_gpu_tables gpu_tables;
  struct opgap_sum_memory memory;
  size_t memory_course_count;
  struct opgap_sum_memory_course *memory_courses; /* by process start; only those with samples */
  struct opgap_sum_over_time over_time;
  struct opgap_sum_flame flame;
  struct opgap_sum_steps steps;
  struct opgap_sum_breakdown breakdown;
  struct opgap_sum_gaps gaps;
  struct opgap_sum_ranks ranks;
  struct opgap_sum_verdict verdict;
  /* machine and settings, from the first process: "cpu", "kernel", "OPGAP_HOOKS", ...; may be empty */
  size_t info_count;
  const char **info_keys, **info_values;

  struct opgap_pool *pool; /* owns every string and table above */
};

void opgap_summary_free(struct opgap_summary *summary);

/* What was noted of the machine, or of the tracer's settings; NULL: it was not. */
const char *opgap_summary_info(const struct opgap_summary *summary, const char *key);

/* no_cpu_ns, of all step time; 0 without steps. */
double opgap_no_cpu_share(const struct opgap_sum_breakdown *breakdown);

/* Where half of the time or more, and a minute, lies between the end of all earlier processes and the start of all
 * later ones: that in words, else NULL.  Of a summary whose processes are listed.  The text is the pool's. */
struct opgap_pool;
const char *opgap_longest_pause(struct opgap_pool *pool, const struct opgap_summary *summary);

/* How many processes the idle gaps of main threads are of, and how long these lived, all together. */
size_t opgap_gap_processes(const struct opgap_summary *summary, uint64_t *lived_ns);

/* The process of the steps: of those with its pid (exec leaves the pid as it is), the last that began before them.
 * Without steps the first process, or what it became by exec; NULL without processes. */
const struct opgap_sum_process *opgap_step_process(const struct opgap_summary *summary);

/* The process whose program a spawned worker (text_is_spawned) runs: its parent, or the parent's where that one is a
 * worker or a fork server; `process` itself when it is none, or when none of them was traced. */
const struct opgap_sum_process *opgap_spawner(const struct opgap_summary *summary,
                                              const struct opgap_sum_process *process);
/* What two runs of one program have in common: the command, for a spawned worker its spawner's and TEXT_SPAWNED (its
 * own when that is unknown).  The text is the summary's or in the pool. */
struct opgap_pool;
const char *opgap_process_command(struct opgap_pool *pool, const struct opgap_summary *summary,
                                  const struct opgap_sum_process *process);

#endif
