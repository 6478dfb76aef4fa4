/* The state of an analysis, shared by its parts.
 *
 * How it works: all thread streams are merged by the time their records ended (merge.c) and each record is handed
 * once to the parts: ops.c, calls.c, files.c, locks.c, memory.c, steps.c, roles.c, timeline.c.  What happened on one
 * thread is explained by what others did, so a gap is not explained when it ends but SETTLE_NS later, out of the
 * threads' recent history (timeline.c, blame.c, gaps.c).  GPU streams are read ahead of the threads (gpu.c), because
 * an op must know its kernels when it ends.
 *
 * Bounds: per thread RING_LIMIT calls and ops of history, RING_LEAST where all together fill HISTORY_BYTES;
 * SHARED_LIMIT outermost ops, intervals and waits of processes without steps; per process OBJECT_LIMIT objects with
 * their last edges; the last FILE_TENURES of FILE_LOCK_LIMIT files that were locked; PENDING_LIMIT gaps waiting to be
 * explained; GPU_WINDOW launches and activities; CAUSE_LIMIT and FILE_LIMIT rows, after which details are summed
 * without their name.
 *
 * Names: a `gid` is an id in analysis.strings, the same for all processes; a name id of a record is valid in its
 * process only.
 */
#ifndef OPGAP_ANALYSIS_INTERNAL_H
#define OPGAP_ANALYSIS_INTERNAL_H

#include "analysis/analysis.h"
#include "analysis/live.h"
#include "analysis/pool.h"

#include <limits.h>

#define SETTLE_NS 200000000ull
#define RING_LIMIT 16384u
#define RING_LEAST 4096u
#define HISTORY_BYTES (64ull << 20) /* of the rings of all threads: half of it full ones, those of 32 threads */
#define SHARED_LIMIT 1048576u       /* of each kind of what processes without steps keep: divided among all processes */
#define SHARED_STEPS 262144u        /* of steps that were found by their period */
#define SHARED_LEAST 4096u          /* for each of many processes */
#define OBJECT_LIMIT 65536u
#define PENDING_LIMIT 8192u
#define GPU_WINDOW 1048576u
#define CAUSE_LIMIT 65536u
#define FILE_LIMIT 1000000u
#define LOCK_LIMIT 65536u
#define PERIOD_LIMIT 65536u
#define SAMPLE_LIMIT 512u
#define NAME_LIMIT 4194304u /* ids of names that are cached; others are looked up each time */

/* What a hooked call does, told from its name and category. */
enum verb {
  VERB_OTHER,
  VERB_READ,
  VERB_WRITE,
  VERB_OPEN,
  VERB_CLOSE,
  VERB_SYNC,
  VERB_FLUSH, /* of a stream's buffer */
  VERB_STAT,
  VERB_POLL,
  VERB_CONNECT,
  VERB_YIELD,
  VERB_MUTEX,
  VERB_RWLOCK,
  VERB_COND,
  VERB_SEM,
  VERB_BARRIER,
  VERB_JOIN,
  VERB_SLEEP,
  VERB_CHILD,
  VERB_WAKE, /* signal, broadcast, post, unlock */
  VERB_MAP,
  VERB_CHANGE,    /* which files there are, and how large: rename, unlink, mkdir, truncate, ... */
  VERB_FILE_LOCK, /* flock, lockf, fcntl */
  VERB_ALLOC,
  VERB_FREE,
  VERB_COPY,
  VERB_CUDA,
  VERB_COUNT
};

struct hook {
  uint32_t name, category; /* gid; 0: not a hook */
  uint8_t verb, flags;     /* enum verb; OPGAP_EVENT_* */
  bool span;
};

enum name_flag {
  NAME_STEP = 1,     /* Optimizer.step# */
  NAME_NEXT = 2,     /* enumerate(DataLoader)#...__next__ */
  NAME_PROFILER = 4, /* ProfilerStep#N */
  NAME_BACKWARD = 8,
  NAME_COMM = 16,
  NAME_PIPE = 32,       /* pipe:[..], socket:[..], socketpair:[..], anon_inode: what a write of another can wake */
  NAME_FILE = 64,       /* an absolute path */
  NAME_MULTI = 128,     /* the multi-process DataLoader's __next__ */
  NAME_NVTX_STEP = 256, /* a range called "step" or "step N" */
  NAME_SOCKET = 512,    /* of NAME_PIPE, socket:[..] and socketpair:[..] */
};

#define TIMED_OUT 110u /* ETIMEDOUT, the status of a call with a time limit */

/* What a call locks a file for, in flock's terms. */
#define FILE_LOCK_SHARES 1u  /* LOCK_SH */
#define FILE_LOCK_TRIES 4u   /* LOCK_NB: it does not wait */
#define FILE_LOCK_UNLOCKS 8u /* LOCK_UN */
/* The status of a try whose lock is held: EAGAIN, EACCES. */
#define HELD_AGAIN 11u
#define HELD_ACCESS 13u

/* Does a call only look for a file, or hold it: open, close, stat, map? */
static inline bool verb_looks_up(enum verb verb)
{
  return verb == VERB_OPEN || verb == VERB_CLOSE || verb == VERB_STAT || verb == VERB_MAP;
}

/* May a thread sleep in a call with these flags (OPGAP_EVENT_*), told by what it is on?  All calls on files may, also
 * those that only look for one: a file server (NFS, Lustre, FUSE) answers them, a FIFO waits for its other end.  On
 * pipes and sockets those return at once. */
static inline bool hooks_block(unsigned flags, enum verb verb, bool on_file)
{
  return on_file || (flags & OPGAP_EVENT_BLOCKING && !verb_looks_up(verb));
}

/* A call in a thread's recent past. */
struct past_call {
  uint64_t start, end, object; /* object: gid when named, else an address */
  uint64_t woken;              /* when the thread `waker` ended this wait on an address */
  uint32_t waker;              /* + 1; 0: not known */
  uint32_t file_lock; /* gid of the file whose lock it waits for, by itself or as the pause between tries; 0: none */
  uint16_t event;
  uint8_t depth;
  bool named;
  bool shared;    /* with file_lock: others may share it */
  bool blocks;    /* the thread may have slept in it */
  bool timed_out; /* its time was over, and nothing had come: if nobody was seen to end it, it was a sleep */
  bool message;   /* it read the length of one of multiprocessing's messages */
  bool reaped;    /* it saw a child's end, itself or by a fork server's word; a look whether it lives sees none */
  bool no_more;   /* it read one that is as long as what tells the end of an IterableDataset */
};
/* An outermost framework op, or a DataLoader's __next__. */
struct past_op {
  uint64_t start, end;
  uint32_t name;
};
/* A thread's totals since it began, from the scheduler. */
struct past_sample {
  uint64_t end;        /* when it was taken */
  uint64_t run, queue; /* on a CPU; runnable without one */
  uint64_t throttled;  /* of the process's cgroup */
  uint64_t majors;     /* of the process: page faults that were read from a disk */
  uint64_t blocked;    /* since the sample before, in hooked blocking calls; OPGAP_UNKNOWN: not yet asked */
  uint64_t outside; /* since then, off the CPU in no hooked call, no more than it was; OPGAP_UNKNOWN: not yet asked */
  uint64_t slack;   /* with `outside`: how much older the totals may have become since; up to the scheduler's tick */
};
/* Between two counts of a thread's calls that yield the CPU, how long they took, by those that were timed. */
struct past_yields {
  uint64_t start, end, ns;
};
#define RING(T)                                                                                                        \
  struct {                                                                                                             \
    T *at;                                                                                                             \
    size_t first, count, room;                                                                                         \
    uint64_t forgotten; /* end of the newest entry given up */                                                         \
  }
#define RING_AT(r, i) (&(r)->at[((r)->first + (i)) & ((r)->room - 1)])

/* What lies directly inside the op that will end next at the level above. */
struct level {
  uint64_t first_start, last_start, last_end; /* of the ops in it */
  uint64_t child_ns, blocked_ns;
  uint32_t children, last_child; /* last_child: its row + 1; then what it added to that row */
  uint64_t last_ns, last_blocked_ns, last_gpu_ns, last_allocs, last_alloc_bytes;
};

/* A hook's totals on one thread. */
struct thread_hook {
  uint16_t event;
  bool counted;                           /* a COUNTER record was seen */
  uint64_t calls, bytes, failed, time_ns; /* of its spans and points, in the window */
  uint64_t spans, span_ns;                /* whole trace up to now, to subtract timed spans */
  uint64_t base[5], last[5];              /* COUNTER fields: before the window, at its end */
};

struct off_cpu {
  uint64_t queue, throttled, outside;
  uint64_t faults; /* of `outside`, in page faults that read from a disk, at most */
};
/* What a thread off the CPU in no hooked call waited for, if it was the other threads of its process: for those while
 * they had no CPU, and while they ran. */
struct team_wait {
  uint64_t queue, run;
};

/* Blocking calls of a thread by what they waited for, in the window. */
struct thread_waits {
  uint64_t all, file, lock, sleep; /* lock: semaphores too, unless their time was over */
  uint64_t network, child;         /* sockets; child processes and the pipes that they write to */
  uint64_t idle;                   /* other polls and pipes: what it is given to do */
  uint64_t read_bytes;             /* from files */
};

struct thread {
  unsigned process, stream;
  int32_t tid;
  uint32_t name;     /* gid */
  uint32_t namesake; /* not the main thread: the first such one of its process that has the same words in a report */
  bool main, used;
  bool watched;                      /* it is its process's main_thread */
  uint64_t pthread, born_ns, end_ns; /* end_ns: 0 while it lives */
  uint64_t last_ns;                  /* end of its last record */
  uint64_t latest_end_ns;            /* of its records so far; damage may bring times out of order */
  int32_t creator_tid;               /* 0: unknown */
  struct level levels[257];
  unsigned deepest;  /* levels above this are empty */
  uint32_t last_row; /* index + 1 of the row of the op whose record came last */
  uint32_t last_op;  /* the same if its place is not known, else 0 */
  uint64_t last_op_self_ns;
  VEC(struct thread_hook) hooks;
  uint16_t hook_index[OPGAP_MAX_EVENTS]; /* into hooks, + 1 */
  RING(struct past_call) calls;
  bool nests; /* some of them lie inside others */
  RING(struct past_op) ops, nexts;
  RING(struct past_sample) samples;
  RING(struct past_yields) yields; /* of a thread that waits in a loop; others have none */
  struct {
    uint64_t calls, at;
  } yielded;                   /* as counted last */
  uint64_t first_poll_ns;      /* 0: never polled.  A DataLoader worker's first one ends its start-up */
  struct live_waiting waiting; /* owners of blocks */
  struct {
    uint64_t address, bytes;
  } resized;                                    /* the block that a realloc gave back: it lives on if the call fails */
  struct thread_waits waits, waits_before_poll; /* before first_poll_ns */
  uint64_t polled_ns;                           /* of `waits`, in polls whose read has not come */
  uint32_t work_pipe; /* gid + 1 of the first pipe read after a poll: it is given work there */
  uint64_t messages;  /* read from it: each begins with a read of its length, 4 bytes */
  uint64_t ends;      /* of these, as long as an end of an IterableDataset */
  bool header;        /* the last read was of a length */
  uint32_t first_op;  /* gid of the first op: 0 before it */
  uint64_t first_op_ns, op_ns, blocked_ns;
  struct {
    uint32_t path;             /* gid; 0: none */
    uint64_t since, waited_ns; /* end of the latest try; between its tries so far */
    bool shared;
  } refused; /* a lock on a file that it tried to take, and somebody had */
};

struct edge {
  uint64_t start, end;
  uint32_t thread; /* index into analysis.threads */
};
/* A lock on a file, as one thread had it. */
struct tenure {
  uint64_t taken, released; /* taken 0: before its process was recorded; released UINT64_MAX: it still has it */
  uint32_t thread;
  bool shared;
};
#define FILE_TENURES 64u
#define FILE_LOCK_LIMIT 4096u
struct file_lock { /* the last ones, a ring */
  struct tenure at[FILE_TENURES];
  uint32_t next;
};
#define OBJECT_EDGES 8u /* asked when the wait's record comes */
#define PIPE_EDGES 64u  /* asked SETTLE_NS later: the write may end after the read that it woke */
struct edges {          /* the last ones on an object, a ring */
  struct edge *at;
  uint32_t next, room;
};
struct edge_table {       /* by object */
  struct opgap_map index; /* (object, 0) -> rows + 1 */
  VEC(struct edges) rows;
};

/* An optimizer update that ended a step. */
struct update {
  uint64_t signature; /* of its optimizer and backward pass */
  bool fetched;       /* a batch was fetched since the one before */
};

/* A file that was mapped (MODULE); its address in memory is that in the file + bias. */
struct mapped_module {
  uint32_t path, build_id; /* gid */
  uint64_t bias;
};

/* Allocations, all of them when every one is recorded, else those inside ops. */
struct churn {
  uint64_t count, bytes;
};

/* An allocation that failed. */
struct failure {
  uint32_t thread, call, op; /* call, op: gid; op: the innermost around it, 0: not known (yet) */
  unsigned depth;            /* FAILURE_BY_TIME: CUPTI told of it, and the op is the innermost around `at` */
  uint32_t correlation;      /* CUPTI's id of the call, 0: a hook told of it */
  bool told;                 /* `last` is made */
  int32_t error;
  uint64_t at, bytes, live, rss; /* bytes asked for; live, rss: of the process then, or OPGAP_UNKNOWN */
  VEC(const char *) last;        /* what the thread did before, the latest first */
};
#define FAILURE_BY_TIME UINT32_MAX
#define FAILURE_LIMIT 16u /* of a process: the first half, and the latest */

struct step_list {
  VEC(uint64_t) live;       /* live bytes at each end, when every allocation is recorded */
  VEC(struct churn) churn;  /* until each end */
  VEC(uint64_t) start, end; /* of each step */
  uint64_t first_start;     /* where the first step began */
  uint64_t marks, last_end; /* steps that ended, also those whose start was not recorded; the end of the last */
};

enum step_source {
  STEPS_API,
  STEPS_PROFILER,
  STEPS_OPTIMIZER,
  STEPS_NVTX,
  STEPS_BACKWARD,
  STEPS_DATALOADER,
  STEPS_PERIOD, /* the rounds of a loop without any mark, found from its first outermost ops */
  STEPS_SOURCES
};

/* The op that begins each round of a loop without marks. */
struct period {
  bool sought;
  uint32_t name, length; /* gid; in outermost ops, 0: none was found */
  uint64_t position;     /* outermost ops so far */
  uint64_t last;         /* position of the latest such op, + 1; 0: none */
  uint64_t last_start;
};

/* What is known of a name of a process; 0: not yet asked. */
struct name_cache {
  uint32_t gid;    /* + 1 */
  uint32_t flags;  /* enum name_flag */
  uint32_t row[2]; /* of ops, + 1; [0] OP, [1] RANGE */
};

/* A sample, or the highest of several that followed each other. */
struct memory_sample {
  uint64_t time, rss;
};

struct interval {
  uint64_t start, end;
};

/* Batches that a trainer took from its worker processes. */
struct depth {
  uint64_t at;
  uint32_t ready, epoch; /* epoch: its place in the list */
};
/* What a trainer fetched from the workers that were made at one time: they write to one pipe. */
struct epoch {
  uint32_t pipe;                        /* gid */
  uint64_t first_end_ns, first_wait_ns; /* of its first fetch */
  uint64_t last_end_ns;                 /* of its last fetch */
  uint64_t count, waited_ns;            /* of its fetches in the window */
};
/* A fetch that read nothing, but its batch may have been read out of its turn before the recording began; or nothing
 * but messages as long as an end, which batches may be, too. */
struct doubtful_fetch {
  uint64_t at, end; /* at: its start, 0: there is none */
  uint64_t waited_ns, sent;
  uint64_t steps; /* seen by then */
  bool ends;      /* it read such messages */
};

struct fetches {
  uint32_t pipe;                         /* gid of the result pipe; 0: not seen */
  uint64_t taken;                        /* of what was sent through it */
  uint64_t left;                         /* messages that were read and no batch was given for yet */
  uint64_t read, seen;                   /* messages that the main thread read; the same at the last fetch */
  uint64_t pin_messages, pin_ends;       /* that the pin-memory thread had read at the last fetch */
  bool ended;                            /* the last fetch found the end */
  bool alike;                            /* batches are as long */
  struct doubtful_fetch doubtful;        /* the last fetch, if it found the end only because of what it did not read */
  uint64_t count, ns, waited, waited_ns; /* count, waited: of fetches that gave a batch */
  VEC(struct depth) depths;              /* one a fetch */
  VEC(struct epoch) epochs;              /* in the order of their first fetches */
  uint64_t pinned;                       /* batches that the pin-memory thread had done, summed over fetches with one */
  uint64_t pinned_fetches;
};

/* Totals of a process, sampled. */
struct usage {
  uint64_t at; /* 0: no sample */
  uint64_t faults, majors, user_ns, system_ns;
};

struct fault_count {
  uint64_t minor, major;
};
/* Page faults of a process. */
struct fault_counts {
  struct fault_count of_ops, other, start; /* sums of FAULTS records: of ops; of any, or none; before a first op */
  struct fault_count all, counted_from;    /* by PROCESS_FAULTS and samples; the last of these */
  bool known, counting;                    /* all is known; what samples tell is recorded */
};

/* A process that this one forked in the code of a DataLoader. */
struct loader_fork {
  unsigned parent;
  int32_t pid;
};

/* When the switches in a process's own trace had it off (windows.c). */
struct switches {
  bool read, any; /* any: such switches are there */
  uint64_t first_ns;
  VEC(struct interval) off; /* ascending, the last may have no end */
};

struct process {
  const struct opgap_process_info *info;
  struct switches switches;
  VEC(struct interval) off;     /* when it was not recorded (windows.c); ascending, the last may have no end */
  VEC(uint64_t) opened;         /* when windows of its schedule opened, where it goes by its own steps; ascending */
  uint64_t opens_ns, closes_ns; /* it was recorded from here, and until here, by OPGAP_DELAY and OPGAP_DURATION */
  struct hook hooks[OPGAP_MAX_EVENTS];
  struct name_cache *names; /* by name id; grows as names come up */
  uint32_t name_room;
  struct name_cache uncached; /* the latest name whose id is too large for `names` */
  unsigned main_thread;       /* index into threads, UINT32_MAX if none */
  unsigned thread_count;
  bool launcher, launch_helper; /* it made way for the program that it executed; it was there for such a one only */
  bool python;                  /* its program is Python's interpreter */
  struct fault_counts faults;
  bool networks;                           /* it connected, or read, wrote or polled a socket, so far */
  uint64_t made_way_ns;                    /* a launcher's program began then, or its helper ended */
  struct edge_table objects;               /* by address */
  VEC(struct mapped_module) modules;       /* with OPGAP_STACKS=native */
  struct opgap_map pthreads;               /* (low half of the pthread_t, 0) -> thread + 1 */
  struct opgap_map tids;                   /* (tid, 0) -> thread + 1, the latest */
  uint64_t throttled_ns;                   /* of its cgroup, newest sample */
  uint64_t cpu_limit;                      /* likewise, in thousandths of a CPU; 0: none, or not known */
  uint32_t mapped;                         /* gid of the file of which most was mapped at a time; 0: none */
  uint64_t mapped_bytes, mapped_all_bytes; /* of it; of all mappings of files */
  uint64_t gil[4];                         /* condition variables that look like the GIL's */
  unsigned gil_count;
  uint64_t steps_seen, backwards, ops;
  bool scheduled;        /* OPGAP_SCHEDULE is set */
  uint64_t window_steps; /* steps of each window of OPGAP_SCHEDULE; 0: windows follow each other without a gap */
  struct step_list steps[STEPS_SOURCES];
  VEC(struct past_op) outermost; /* of its main thread, until their period is looked for; no better steps till then */
  struct period period;
  uint64_t last_forward_ns, last_backward_ns; /* ends of outermost ops: a backward pass begins a burst */
  VEC(struct update) updates;                 /* one a step of STEPS_OPTIMIZER, before they are joined to rounds */
  uint64_t told;                              /* backward ops before the newest update */
  bool fetched;                               /* a batch since then */
  double updates_a_step;                      /* 0: they were not joined */
  uint64_t last_split_ns;                     /* last __next__ or backward: splits optimizer steps */
  bool uses_gpu;                              /* CUDA calls were seen */
  uint64_t step_next_ns;                      /* its main thread since its first step ended, in __next__ */
  bool steps_began;                           /* a call on a file came in its steps */
  struct fetches fetches;
  uint32_t pin_thread; /* the latest thread but the main one that reads messages from a pipe, + 1; 0: none */
  struct usage first_usage, last_usage;
  struct usage steps_usage; /* the first since its first step ended; at 0: none */
  enum opgap_role role;
  int32_t worker;
  uint32_t result_pipe; /* of a worker: gid */
  const char *label;
  bool included;
  uint64_t *blocked_over_time, *next_over_time; /* [OPGAP_OVER_TIME_BUCKETS]; NULL: never */
  uint64_t end_ns;                              /* known when all records are read */
  uint64_t last_ns;                             /* end of its last record that was written as it happened */
  VEC(struct memory_sample) samples;            /* at most SAMPLE_LIMIT */
  uint64_t rss, open_ns, read_bytes, written_bytes, file_ns, first_op_ns;
  uint32_t open_op, open_call;
  uint32_t executed;             /* gid of the program that it executed last */
  uint64_t no_room;              /* records that its LOST records announce */
  struct live live;              /* when every allocation is recorded */
  struct opgap_map stack_places; /* (name id of a large block's stack, 0) -> gid of its place + 1 */
  uint64_t points;
  bool alloc_events;
  struct churn churn; /* so far */
  VEC(struct failure) failures;
  uint64_t device_retries; /* failed calls of CUDA's that had memory when they were made again */
  uint64_t overhead[5];
  bool has_overhead;
  uint64_t gpu_invalid, gpu_lost;
};

struct op_row {
  uint32_t process, name;
  enum opgap_op_kind kind;
  uint64_t calls, self_ns, total_ns, blocked_ns, self_gpu_ns, total_gpu_ns, allocs, alloc_bytes;
  uint64_t minor_faults, major_faults;
};

/* Self time of a row of ops by source location ("FILE:LINE FUNCTION"); only with recorded stacks. */
struct op_place {
  uint32_t row, text; /* text: gid */
  uint64_t ns;
};
struct op_places {
  struct opgap_map index; /* (row, text) -> at + 1 */
  VEC(struct op_place) rows;
};

/* The same by recorded call stack, whose place is looked up at the end. */
struct op_stack {
  uint32_t row;
  uint64_t stack, ns; /* stack: name id */
};
struct op_stacks {
  struct opgap_map index; /* (row, stack) -> at + 1 */
  VEC(struct op_stack) rows;
};

struct file_row {
  uint32_t process, path;
  uint8_t verb;
  uint64_t calls, bytes, ns, failed;
  /* Of the main thread: since the first step ended, else, in a process without steps, since its first poll (what a
   * DataLoader worker does before is start-up); of the time, inside a __next__. */
  uint64_t late_bytes, late_ns, next_ns;
};

struct lock_row {
  uint32_t process;
  uint64_t object;
  uint32_t path; /* gid of the locked file; 0: a lock in memory */
  uint32_t call;
  uint64_t waits, ns, longest;
  uint32_t threads;
  uint32_t holder; /* thread + 1, by majority of time */
  uint64_t holder_ns;
  uint32_t owner; /* of the block that it lies in (live.h), + 1; 0: not known */
  uint64_t block_bytes;
};

/* How a piece of a gap was spent; printed by cause_text (blame.c). */
enum doing {
  DOING_NOTHING, /* no words */
  DOING_READ,
  DOING_WRITE,
  DOING_OPEN,
  DOING_FSYNC,
  DOING_CLOSE,
  DOING_STAT,
  DOING_MAP,
  DOING_CHANGE,   /* renaming, removing, making or resizing one: the call is `name` */
  DOING_FILE,     /* other calls on files */
  DOING_OP,       /* inside an op: name */
  DOING_CODE,     /* its own code, outside ops */
  DOING_WAIT,     /* blocked in a call (name) that nobody was seen to end */
  DOING_HELD,     /* blocked until the lock on a file came, by whom it was held is not known */
  DOING_RETRY,    /* asleep between two tries, while nobody was seen to have the lock on the file */
  DOING_HANDOVER, /* between the wake-up and the return of the wait, of a lock or condition: it may be held */
  DOING_WAKING,   /* the same of other waits: no CPU */
  DOING_SLEEP,
  DOING_ALLOC,
  DOING_SOCKET,
  DOING_GPU,
  DOING_LATENCY,   /* launch to start */
  DOING_QUEUE,     /* runnable, no CPU free */
  DOING_THROTTLED, /* runnable, its cgroup's time is used up */
  DOING_OUTSIDE,   /* off the CPU, in no call that is hooked */
  DOING_FAULT,     /* the same, in page faults that read from a disk */
  DOING_SPIN,      /* in sched_yield again and again */
  DOING_START,     /* a worker that did not run yet, or imports; a thread that did not run yet */
  DOING_BEGIN,     /* another process, until it was there */
  DOING_END,       /* a process that was waited for to end */
  DOING_OUTPUT,    /* a process whose output was waited for */
  DOING_FORGOTTEN,
};
struct cause_key {
  uint8_t cause, doing;
  uint32_t process;   /* UINT32_MAX: the gap's own process */
  uint32_t thread;    /* namesake + 1 when it is not the main thread of that process; 0 otherwise */
  uint32_t name;      /* gid of an op or a call */
  uint32_t file_lock; /* gid of the file whose lock's holder did it; 0: none */
};
/* Is it what another thread did than the main thread of the gap's process? */
static inline bool cause_of_others(const struct cause_key *key)
{
  return key->process != UINT32_MAX || key->thread != 0;
}
/* A row also remembers the file that took most of it, as an example: pieces of one file come one after the other. */
struct cause_row {
  struct cause_key key;
  uint32_t example, latest; /* gid; 0: none */
  uint32_t examples;        /* how often it was another file than the one before */
  uint64_t ns, count, example_ns, latest_ns;
  uint64_t last_change; /* sums: the gap counted last */
};
/* Causes of one gap while it is being explained. */
#define GAP_CAUSES 48u
struct causes {
  struct cause_row at[GAP_CAUSES];
  unsigned count;
  bool data_loading;   /* inside __next__: all is data loading */
  unsigned lock_depth; /* > 0: what the holder of a lock did; all is that lock */
  uint32_t file_lock;  /* of these the innermost that is on a file: gid; 0: none */
};

struct gap {
  uint64_t start, end;
  struct past_call own;    /* thread gaps: the call that is the gap; end 0: several calls, or a GPU gap */
  uint32_t thread;         /* thread gaps */
  uint32_t device;         /* GPU gaps: index into gpus */
  uint32_t call, op, next; /* gid; op: of a GPU gap, that of `next` */
  uint32_t process;
  uint16_t event;
  uint8_t depth;
  bool gpu, data_loading, whole;     /* whole: one __next__ wait, charged to who ended it */
  uint64_t launch_start, launch_end; /* GPU gaps; 0: unknown */
  uint32_t previous, op_before;      /* GPU gaps: gids of what ran last and of its op */
  uint32_t before, after;            /* GPU gaps: serials of the launches of the two, + 1; 0: unknown */
  struct cause_row *causes;
  unsigned cause_count;
};

/* Gaps that were explained a short while ago. */
#define SETTLED_LIMIT 256u
struct settled {
  struct settled_gap {
    struct gap gap; /* end 0: none */
    struct causes causes;
  } * at; /* [SETTLED_LIMIT], a ring */
  uint64_t next;
};

/* Sums and longest gaps of one process or device. */
struct gap_table {
  uint64_t count, ns, changes;              /* changes: gaps added and taken back so far */
  uint64_t (*over_time)[OPGAP_CAUSE_COUNT]; /* [OPGAP_OVER_TIME_BUCKETS]; NULL before the first gap */
  VEC(struct cause_row) rows;
  struct opgap_map index;
  VEC(struct gap) longest; /* a min-heap by duration */
};

struct intervals { /* disjoint, ascending; those before `first` were dropped */
  VEC(struct interval) v;
  size_t first;
};

struct analysis {
  const struct opgap_source *source;
  struct opgap_analysis_options options;
  struct opgap_summary *summary;
  struct opgap_pool *pool;
  struct opgap_strings strings;
  uint32_t *name_flags; /* by gid */
  size_t name_flags_room;
  struct process *processes;
  struct thread *threads;
  unsigned process_count, thread_count;
  /* Set by bottlenecks.c for verdict.c: the bottleneck that is the DataLoader's workers (NULL: none), and where these
   * wait for CPUs that other programs use, which part of their busy time and what to do (0, NULL: they do not). */
  const char *loader_kind, *loader_remedy, *loader_cpus;
  double loader_starved;
  /* Likewise, of a DataLoader without workers: the dataset sleeps for most of the time that its batches take; and what
   * its batches need first of all. */
  bool loader_sleeps;
  const char *own_batches_remedy;
  unsigned cpus_have, cpus_free; /* cpus.c: in the steps counted */
  /* Worker processes whose batches were fetched, and how many of them it takes where each loader keeps its own. */
  unsigned workers_made, workers_kept;
  uint64_t loader_making_ns; /* the main thread's waits for workers to start outside of __next__, told with these */
  double others_sleep; /* of the main thread's waits for a sleep in steps, which part for that of another thread */
  double on_cpu;       /* of the main thread's time in steps, in no wait, which part it had a CPU for; without a GPU */
  uint64_t start_ns, end_ns;         /* of the trace */
  uint64_t origin_ns, bucket_ns;     /* start and length of the first part of what is summed over time */
  uint64_t window_start, window_end; /* records that ended in (start, end] are summed */
  uint64_t now;
  uint64_t history_bytes; /* of all threads' rings */
  bool steps_only;        /* first pass of --steps */
  bool ranks_apart;       /* records of ranks are in order to MERGE_SLICE_NS only */
  bool launches;          /* some were seen, so that ops may hold some */

  VEC(struct op_row) ops;
  struct opgap_map op_index; /* (process << 8 | kind, name) */
  struct op_places op_places;
  struct op_stacks op_stacks;
  struct opgap_stack_places *stack_places; /* NULL until a stack or a module comes */
  struct op_places called_from; /* row: process; time of outermost ops and calls of main threads with stacks */
  VEC(struct file_row) files;
  struct opgap_map file_index; /* (process << 8 | verb, path) */
  VEC(struct lock_row) locks;
  struct op_stacks lock_stacks; /* row: of locks */
  struct opgap_map lock_index, lock_threads;
  VEC(struct file_lock) file_locks;
  struct opgap_map file_lock_index; /* (path, 0) -> file_locks + 1 */
  struct opgap_map pipe_writers;    /* (pipe, process) -> writes */
  struct opgap_map window_writes;   /* the same, of the window alone */
  VEC(struct loader_fork) loader_forks;
  struct opgap_map next_pipes;    /* (pipe, process) that a __next__ of process reads */
  struct opgap_map pipe_readers;  /* (pipe, process) */
  struct edge_table pipes;        /* writes, by gid; of the ends of a socketpair by that of "socket:[n]" */
  struct opgap_map plain_sockets; /* (gid of "socketpair:[n,m]", 0) -> gid of "socket:[n]" + 1 */
  struct opgap_map socket_others; /* (gid of "socket:[n]", 0) -> gid of "socket:[m]", its other end, + 1 */
  VEC(struct gap) pending;
  struct settled settled;
  struct gap_table *thread_gaps;           /* by process: gaps of its main thread */
  VEC(struct opgap_sum_untraced) children; /* every child announced */
  VEC(uint32_t) notices;
  struct gpu_state *gpu;
  struct breakdown_state *breakdown;
  struct ranks_state *ranks;
  struct flame_state *flame;          /* NULL unless asked for */
  uint64_t hooked_calls, done, total; /* done, total: records read, of all */
  uint64_t events;                    /* records of counted calls without a duration */
};

/* analyse.c */
/* What was lost for each reason; returns how many. */
struct loss_part {
  uint64_t count;
  const struct opgap_loss_words *words;
};
#define LOSS_PARTS (OPGAP_LOSS_COUNT + 1u) /* what is unwritten has two */
unsigned analysis_losses(const struct opgap_source *source, const struct opgap_summary *summary,
                         struct loss_part parts[LOSS_PARTS]);
bool analysis_same_host(const struct process *left, const struct process *right);
struct thread *analysis_pthread(struct analysis *a, unsigned process, uint64_t pthread); /* NULL: unknown */
struct name_cache *analysis_new_name(struct analysis *a, unsigned process, uint64_t name_id);
/* Of a name of a record; lives until the next call. */
static inline struct name_cache *analysis_name(struct analysis *a, unsigned process, uint64_t name_id)
{
  const struct process *p = &a->processes[process];
  if (name_id < p->name_room && p->names[name_id].gid != 0)
    return &p->names[name_id];
  return analysis_new_name(a, process, name_id);
}
static inline uint32_t analysis_gid(struct analysis *a, unsigned process, uint64_t name_id)
{
  return analysis_name(a, process, name_id)->gid - 1;
}
uint32_t analysis_string(struct analysis *a, const char *text);
static inline uint32_t analysis_name_flags(const struct analysis *a, uint32_t gid)
{
  return a->name_flags[gid];
}
static inline const char *analysis_text(const struct analysis *a, uint32_t gid)
{
  return opgap_strings_text(&a->strings, gid);
}
/* Reads when a process was not recorded; before any other record is looked at. */
void windows_open(struct analysis *a, unsigned process);
/* When the last of its schedule's windows opened in [start, end]; 0: none did. */
uint64_t windows_opened(const struct process *p, uint64_t start, uint64_t end);
bool windows_off_within(const struct process *p, uint64_t start, uint64_t end);
uint64_t windows_off_between(const struct process *p, uint64_t start, uint64_t end);
uint64_t windows_off_ns(const struct process *p);
/* Of [start, end), how long it was recorded (a schedule is not known here). */
uint64_t windows_on_between(const struct process *p, uint64_t start, uint64_t end);

/* How many of a kind each process may keep: its part of `all`, at most `most`. */
static inline uint32_t analysis_share(const struct analysis *a, uint32_t all, uint32_t most)
{
  uint32_t share = all / (a->process_count ? a->process_count : 1);
  share = share < SHARED_LEAST ? SHARED_LEAST : share;
  return share < most ? share : most;
}

static inline bool analysis_in_window(const struct analysis *a, uint64_t end_ns)
{
  return end_ns > a->window_start && end_ns <= a->window_end;
}

/* hooks.c: what a hook of this process does */
enum verb hooks_verb(const struct opgap_event *event);
void hooks_classify(struct analysis *a, unsigned process);

/* ops.c */
/* Index + 1 of the row of an op or range with this name of a process. */
uint32_t ops_row_of(struct analysis *a, unsigned process, bool range, struct name_cache *name);
void ops_add(struct analysis *a, struct thread *t, uint32_t row, const struct opgap_record *r);
void ops_add_free(struct analysis *a, struct thread *t, const struct opgap_record *r);
void ops_add_blocked(struct thread *t, unsigned depth, uint64_t ns);
struct op_row *ops_row(struct analysis *a, unsigned process, enum opgap_op_kind kind, uint32_t name);
void ops_finish(struct analysis *a);
/* FAULTS, STACK and MODULE records. */
void ops_faults(struct analysis *a, const struct thread *t, const struct opgap_record *r);
/* The process has come to this count.  opens: what it had before is not recorded. */
void ops_process_faults(struct process *p, struct fault_count count, bool opens);
void ops_stack(struct analysis *a, struct thread *t, const struct opgap_record *r);
void ops_module(struct analysis *a, const struct thread *t, const struct opgap_record *r);
void ops_free(struct analysis *a);
void ops_place_add(struct op_places *places, uint32_t row, uint32_t text, uint64_t ns);
void ops_stack_add(struct op_stacks *stacks, uint32_t row, uint64_t stack, uint64_t ns);
/* NULL: of this trace no places are looked up. */
struct opgap_stack_places *ops_stack_places(struct analysis *a);
/* Looks up the places of stacks; process_of: whose a row is. */
void ops_stacks_resolve(struct analysis *a, const struct op_stacks *stacks, struct op_places *places,
                        uint32_t (*process_of)(const struct analysis *a, uint32_t row));
void ops_stacks_free(struct op_stacks *stacks);
void ops_places_free(struct op_places *places);

/* calls.c */
void calls_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r);
void calls_counter(struct analysis *a, struct thread *t, const struct opgap_record *r);
void calls_finish(struct analysis *a);

/* files.c */
void files_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r, uint64_t ns,
               uint32_t path); /* ns: without calls inside it */
/* A __next__ on the main thread has ended. */
void files_next(struct analysis *a, const struct thread *t, const struct opgap_record *r);
enum file_part {
  FILES_READ,       /* by the main thread with the steps, in these, as the rest */
  FILES_WRITTEN,    /* or synced */
  FILES_LOOKED_UP,  /* opened, closed, looked up or mapped, and not written */
  FILES_OF_FETCHES, /* all but writes, inside __next__ */
  FILES_OF_WORKERS, /* all but writes, of the DataLoader's workers after their start-up */
};
struct file_use {
  const char *path;
  uint64_t ns;            /* of the part */
  uint64_t bytes, all_ns; /* and of these operations in the part's steps, inside __next__ or not */
};
/* The file that took most of this time; ns 0: there is none. */
struct file_use files_most(struct analysis *a, enum file_part part);
enum files_whose {
  FILES_STEPS,   /* of the main thread with the steps, in these */
  FILES_WORKERS, /* of the DataLoader's workers after their start-up */
  FILES_ALL,     /* of all processes that are included */
};
/* Time in calls on files, ns: what opening, closing, looking up and mapping is for is told by whether the file is read
 * or written. */
struct file_times {
  uint64_t read, read_lookups; /* in calls that move data, and in the others */
  uint64_t written, write_lookups;
  uint64_t changed; /* of `written`, in calls that make, rename, remove or resize a file */
};
struct file_times files_times(const struct analysis *a, enum files_whose whose);
static inline bool files_mostly_written(const struct file_times *times)
{
  return times->written + times->write_lookups > times->read + times->read_lookups;
}
/* Of what is not written, is more opened and looked up than read? */
static inline bool files_mostly_looked_up(const struct file_times *times)
{
  return times->read_lookups > times->read;
}
/* Of files that are not written: what opens, closes and looks them up. */
struct file_lookups {
  uint64_t ns, unread_ns; /* in these calls; on files that nobody read or mapped */
  const char *words; /* the calls of the whole run and the folder, "" without any: "9 calls of open, ..., in /data" */
};
struct file_lookups files_lookups(struct analysis *a, enum files_whose whose);
/* Most of it is on files that nobody reads: no data is waited for. */
static inline bool files_only_metadata(const struct file_lookups *lookups)
{
  return 2 * lookups->unread_ns > lookups->ns;
}
void files_finish(struct analysis *a);
const char *files_verb(enum verb verb);

/* locks.c */
void locks_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r);
/* The call on the lock of a file that timeline_call has just seen. */
void locks_add_file(struct analysis *a, struct thread *t, const struct hook *hook);
/* A pause between two tries; `more`: not the first one, waited_ns: all of them so far. */
void locks_add_pause(struct analysis *a, struct thread *t, const struct hook *hook, const struct past_call *pause,
                     bool more, uint64_t waited_ns);
/* The file whose lock most of the waits of these processes for locks were for, if that is at least half of them. */
struct lock_use {
  const char *path;   /* NULL: there is none */
  const char *holder; /* "": not known */
};
struct lock_use locks_file(struct analysis *a, bool workers); /* of the process with the steps, or of workers */
void locks_module(struct analysis *a, unsigned process, const struct opgap_record *r);
/* The stack of what thread t has just recorded. */
void locks_stack(struct analysis *a, const struct thread *t, const struct opgap_record *r);
void locks_finish(struct analysis *a);

/* memory.c */
void memory_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                 bool point);
/* Failures inside an op get its name; also of an op that was open when its process died. */
void memory_op_around(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t name);
/* Blocks that were made inside an op get its name. */
void memory_blocks_of(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t name);
/* The stack of what thread t has just recorded. */
void memory_stack(struct analysis *a, struct thread *t, const struct opgap_record *r);
/* An op has ended; before steps_op. */
static inline void memory_op(struct analysis *a, struct process *p, struct thread *t, const struct opgap_record *r,
                             uint32_t name)
{
  if (!p->alloc_events && r->depth == 0) {
    p->churn.count += r->field[2];
    p->churn.bytes += r->field[3];
  }
  if (t->waiting.deepest > r->depth)
    memory_blocks_of(a, t, r, name);
  if (p->failures.count > 0)
    memory_op_around(a, t, r, name);
}
/* A call that allocates, of the host or a device, has failed. */
void memory_failed(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r);
/* A call of CUDA's had what it asked for, by a hook. */
void memory_had(struct analysis *a, const struct thread *t, const struct hook *hook, const struct opgap_record *r);
/* A call of CUDA's, by CUPTI, on a thread. */
void memory_cuda_call(struct analysis *a, struct thread *t, uint32_t call, const struct opgap_record *r);
void memory_sample(struct analysis *a, unsigned process, const struct opgap_record *r);
void memory_finish(struct analysis *a);

/* steps.c */
void steps_open(struct analysis *a, unsigned process);
void steps_marking_op(struct analysis *a, struct thread *t, uint32_t name, uint32_t flags, bool framework,
                      const struct opgap_record *r);
static inline void steps_op(struct analysis *a, const struct process *p, struct thread *t, uint32_t name,
                            uint32_t flags, bool framework, const struct opgap_record *r)
{
  uint64_t first = p->first_op_ns;
  if (flags != 0 || r->depth == 0 || first == 0 || r->start_ns < first) /* most ops are none of it */
    steps_marking_op(a, t, name, flags, framework, r);
}
void steps_mark(struct analysis *a, struct thread *t, const struct opgap_record *r);
void steps_find_period(struct analysis *a); /* when all records are read: of processes that had too few to be asked */
/* Further rounds of its period will be steps. */
static inline bool steps_period_room(const struct analysis *a, const struct process *p)
{
  return p->steps[STEPS_PERIOD].end.count < analysis_share(a, SHARED_STEPS, PERIOD_LIMIT);
}
/* Which of a process's lists is its steps; STEPS_SOURCES when none. */
enum step_source steps_source(const struct process *p);
unsigned steps_process(const struct analysis *a); /* whose steps are shown; UINT32_MAX: none */
bool steps_window(struct analysis *a, char *error, size_t size);
/* The steps of a process in the window; UINT32_MAX: none. */
void steps_list(struct analysis *a, unsigned process, struct opgap_sum_steps *steps);
void steps_finish(struct analysis *a);
/* From the start of the first step counted to the end of the last, after steps_finish; false: none. */
bool steps_counted(const struct analysis *a, uint64_t *start, uint64_t *end);

/* rounds.c: joins updates of several optimizers in one round of the loop to one step */
void rounds_update(struct process *p, uint32_t name);
void rounds_find(struct analysis *a); /* when all records are read */

/* roles.c */
void roles_assign(struct analysis *a);
bool roles_include(struct analysis *a, char *error, size_t size);
void roles_finish(struct analysis *a);

/* timeline.c */
void timeline_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                   uint64_t object, bool named, uint32_t flags); /* flags: of the name */
/* One that had not ended when its process did: r is its OPEN_CALL. */
void timeline_open_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r);
/* Of the call just handed to timeline_call, the time of blocking calls inside it: a signal handler's. */
uint64_t timeline_inside(struct thread *t, const struct opgap_record *r);
void timeline_op(struct analysis *a, struct thread *t, uint32_t name, uint32_t flags, bool framework,
                 const struct opgap_record *r);
/* First entry of a ring that ends after `time`; count when none. */
size_t timeline_calls_from(const struct thread *t, uint64_t time);
size_t timeline_ops_from(const struct thread *t, uint64_t time);
void timeline_sample(struct analysis *a, struct thread *t, struct past_sample sample);
void timeline_yields(struct analysis *a, struct thread *t, struct past_yields yields);
size_t timeline_samples_from(const struct thread *t, uint64_t time);
/* The samples around [start, end), one behind each end where there is one; false: not two of them. */
bool timeline_samples_around(const struct thread *t, uint64_t start, uint64_t end, const struct past_sample **from,
                             const struct past_sample **to);
uint64_t timeline_writes(const struct analysis *a, uint32_t pipe); /* so far */
/* Did others wait in this barrier when t came, which ended their wait?  Asked when nobody came after it. */
bool timeline_came_last(const struct analysis *a, const struct thread *t, const struct past_call *call);
/* Who ended the wait `call` of thread t: fills *edge, or returns false. */
bool timeline_waker(struct analysis *a, const struct thread *t, const struct past_call *call, struct edge *edge);
/* Of the threads that had the lock on a file in [start, end) while t waited for it by `call`, the last one; released:
 * no later than `end`. */
bool timeline_file_holder(const struct analysis *a, const struct thread *t, const struct past_call *call,
                          uint64_t start, uint64_t end, struct tenure *tenure);
/* A name "socketpair:[n,m]" has come up: the end n of a pair, whose other end is m, and which processes that got it in
 * another way call "socket:[n]". */
#define PAIR_NAME "socketpair:["
void timeline_pair(struct analysis *a, uint32_t gid);
#define EVENTPOLL "anon_inode:[eventpoll]" /* what the kernel calls an epoll instance */
/* object: of a wait for descriptors, a gid. */
bool timeline_polls_sockets(const struct analysis *a, const struct process *p, const struct hook *hook,
                            uint64_t object);
void timeline_free(struct thread *t);
void timeline_free_edges(struct edge_table *table);

/* threads.c: scheduler samples, and what each thread's blocking calls waited for */
/* ns: its time without calls inside it; flags: of the name of its object, which is `name`. */
void threads_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
                  uint64_t ns, uint32_t name, uint32_t flags);
/* A pause of t that was told as a sleep or poll was a wait for the lock on a file. */
void threads_pause_for_lock(struct thread *t, enum verb verb, uint64_t ns);
void threads_begin(struct analysis *a, struct thread *t, uint64_t at); /* its totals are 0 there */
void threads_sample(struct analysis *a, unsigned process, const struct opgap_record *r);
struct thread *threads_of_tid(struct analysis *a, unsigned process, uint64_t tid); /* NULL: unknown */
/* Of a stretch of t, outside of hooked blocking calls: how long it was runnable without a CPU, throttled, and off the
 * CPU for an unknown reason.  An estimate; false: not sampled. */
/* A count of calls that yield the CPU. */
void threads_yields(struct analysis *a, struct thread *t, const struct opgap_record *r);
/* How long t was in such calls in [start, end), at most all of it: an estimate from counts and timed calls. */
uint64_t threads_yield_ns(const struct thread *t, uint64_t start, uint64_t end);
bool threads_off_cpu(const struct analysis *a, struct thread *t, uint64_t start, uint64_t end, struct off_cpu *off);
/* Of `outside` ns of [start, end) that t was off the CPU in no hooked call: how much of it the other threads of its
 * process account for that are hardly ever in hooked blocking calls, as a team of OpenMP's. */
struct team_wait threads_team_wait(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end,
                                   uint64_t outside);
/* No less than t was on a CPU in [start, end), or waited for one; when all records are read. */
uint64_t threads_ran_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
/* No more than it was on a CPU there, from samples. */
uint64_t threads_ran_at_least(const struct thread *t, uint64_t start, uint64_t end);
/* Did other threads of its process run that may be a team with it, which waits (maybe spinning) outside of hooks? */
bool threads_has_team(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
uint64_t threads_queued_at_most(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
void threads_finish(struct analysis *a);

/* loader.c: DataLoader workers, over the whole run */
/* A message of Python's multiprocessing is its length in 4 bytes, then as many. */
#define MESSAGE_HEADER 4u
#define FORK_SERVER_STATUS 8u /* bytes by which multiprocessing's fork server tells how a child ended */
/* By its length, with which a worker tells that its IterableDataset has no more: the pickled pair of a number and
 * _IterableDatasetStopIteration(worker), as long as these numbers make it, in PyTorch 1.8 to 2.15.  The shortest
 * tensor's has 241 bytes. */
static inline bool message_is_end(uint64_t length)
{
  return length >= 104 && length <= 109;
}
/* What a __next__ did with its workers' pipes. */
struct next_calls {
  uint32_t pipe;     /* gid of the last one that it read from; 0: none */
  unsigned messages; /* that it read from pipes; where lengths were not told, 1 for all */
  unsigned ends;     /* of these, as long as an end */
  bool reaped;       /* it waited for workers' ends, and for no batch any more */
};
/* A __next__ on worker processes: how long it waited (0: its batch was ready). */
void loader_fetch(struct analysis *a, struct thread *t, const struct opgap_record *r, struct next_calls calls,
                  uint64_t waited_ns);
/* The stack of what thread t has just recorded. */
void loader_stack(struct analysis *a, struct thread *t, const struct opgap_record *r);
void loader_finish(struct analysis *a);

#define SLEEP_OUT "Take the sleep out of the dataset."
/* cpus.c: CPU time during the steps counted */
struct cpu_use {
  /* Of all threads, from samples: running; running, or runnable without a CPU; and what they would have run for if each
   * had found a free CPU whenever it wanted one. */
  uint64_t ran_ns, runnable_ns;
  double alone_ns;
  uint64_t others_ns; /* running, of all but the main thread of the steps; no less than it was */
  uint64_t queued_ns; /* that thread's waits for a CPU; no less */
  uint64_t span_ns;   /* from the first of these steps to the end of the last */
  /* Running, of the main threads that the steps are made by, whoever else runs; no more than it was: of the steps'
   * process, and of DataLoader workers.  Not of processes with teams: these may have spun. */
  uint64_t main_ns, workers_ns;
  unsigned cpus; /* that the run may use, or used; 0: not known */
  unsigned have; /* that the process of the steps may use: its affinity, and its cgroup's limit; 0: not known */
};
struct cpu_use cpus_used(struct analysis *a);
/* How many CPUs all threads together wanted on average; 0: not sampled.  Those that had most of the CPUs kept each
 * other waiting: how many were runnable at a time.  Else it was others that kept them waiting, and what counts is what
 * each ran for between its waits for a CPU (less than it wanted, if it waited for one of these). */
double cpus_wanted(const struct cpu_use *use);
/* Whether the run's own threads are more than the CPUs: else it is other programs that it waits for. */
bool cpus_oversubscribed(const struct cpu_use *use);
/* How many more threads would have found a CPU, to the nearest; 0: none, CPUS_UNKNOWN: not sampled.  starved: threads
 * of the run were kept waiting for CPUs, whoever had them. */
#define CPUS_UNKNOWN UINT_MAX
unsigned cpus_free(const struct cpu_use *use, bool starved);
/* bottlenecks.c: also sets loader_kind and what follows it, which verdict_finish reads */
void bottlenecks_finish(struct analysis *a);
/* Against waits of the main thread for a cause, of files: for those that are written.  NULL: there is none. */
extern const char opgap_open_less[], opgap_look_up_less[], opgap_write_less[]; /* remedies */
const char *bottlenecks_wait_remedy(struct analysis *a, enum opgap_cause cause);
/* Against code between ops that takes more than the ops. */
const char *bottlenecks_python_remedy(const struct analysis *a);
/* What to advise: `compiled` to a program whose ops tell that it uses torch.compile already. */
const char *bottlenecks_unless_compiled(const struct opgap_summary *s, const char *remedy, const char *compiled);

/* blame.c: explains [start, end) of thread t as a part of a gap of thread `own` */
void blame_thread(struct analysis *a, const struct thread *own, struct thread *t, uint64_t start, uint64_t end,
                  struct causes *causes);
/* Explains `call` of thread t as a gap of its own, also when the ring has given the call up meanwhile. */
void blame_call(struct analysis *a, struct thread *t, const struct past_call *call, struct causes *causes);
void blame_add(struct causes *causes, struct cause_key key, uint64_t ns);
const char *blame_text(struct analysis *a, const struct cause_row *row, uint32_t own_process);

/* gaps.c */
/* inside_ns: of its time, in blocking calls inside it. */
void gaps_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
               uint64_t inside_ns);
/* A call of t that timeline.c has now: gaps that were explained by t while it was in there are explained once more. */
void gaps_late_call(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
void gaps_next(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t name);
void gaps_push(struct analysis *a, struct gap gap);
void gaps_settle(struct analysis *a, uint64_t until);
void gaps_table_add(struct analysis *a, struct gap_table *table, struct gap *gap, const struct causes *causes);
void gaps_table_free(struct gap_table *table);
/* Time in calls on files in the gaps of a process's main thread (UINT32_MAX: of all that are included); `others`: only
 * those of threads that it waited for.  What is opened is told apart as all of the run's. */
struct file_times gaps_files(const struct analysis *a, unsigned process, bool others);
/* What most of the time of this cause in the main thread's gaps was, in words; "" when there is none. */
const char *gaps_detail(struct analysis *a, unsigned process, enum opgap_cause cause);
void gaps_finish(struct analysis *a);
bool gaps_of(const struct analysis *a, unsigned process); /* whether its gaps count */

/* gpu.c */
void gpu_open(struct analysis *a);
void gpu_advance(struct analysis *a, uint64_t now); /* now = UINT64_MAX: to the end */
/* A record of a built-in GPU event, from any stream. */
void gpu_record(struct analysis *a, unsigned process, const struct opgap_record *r);
/* Only with launches.  GPU time of what thread t launched in an op: its own (not yet taken by an op inside) and all. */
struct gpu_time {
  uint64_t self_ns, total_ns;
};
struct gpu_time gpu_op(struct analysis *a, struct thread *t, const struct opgap_record *r);
/* GPU time of what thread t launched in an interval. */
uint64_t gpu_launched(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
void gpu_finish(struct analysis *a);
void gpu_close(struct analysis *a);
size_t gpu_device_count(const struct analysis *a);
struct gap_table *gpu_gap_table(struct analysis *a, size_t device, uint32_t *id);
const uint64_t *gpu_busy_over_time(const struct analysis *a, size_t device); /* NULL: never busy */
void gpu_explain(struct analysis *a, struct gap *gap);

/* breakdown.c: classes of step time on the trainer's main thread */
void breakdown_op(struct analysis *a, struct thread *t, uint32_t flags, bool framework, const struct opgap_record *r);
void breakdown_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r);
/* A wait of a main thread and its causes, once they are known; waits may come out of order. */
void breakdown_wait(struct analysis *a, unsigned process, uint64_t start, const struct causes *causes);
/* Forgets the waits of [start, end], where the step that they lie in was not summed yet. */
void breakdown_take_back(struct analysis *a, unsigned process, uint64_t start, uint64_t end);
/* name: gid */
void breakdown_cuda_call(struct analysis *a, unsigned process, uint32_t name, uint64_t start, uint64_t end);
void breakdown_gpu(struct analysis *a, unsigned process, enum opgap_class class_, uint64_t start, uint64_t end);
void breakdown_step(struct analysis *a, unsigned process);
/* Adds the steps of a process in the window, but the first `skip`, to *sum. */
void breakdown_sums(struct analysis *a, unsigned process, size_t skip, struct opgap_sum_breakdown *sum);
/* Sums all steps, when all records are read; before their list changes. */
void breakdown_all(struct analysis *a, unsigned process);
/* Joins the steps [from, to) to one, ascending; breakdown_joined: those are all that is left. */
void breakdown_join(struct analysis *a, unsigned process, size_t from, size_t to);
void breakdown_joined(struct analysis *a, unsigned process);
/* What may go together with the waits of a cause when they are really removed. */
struct around {
  uint64_t code_ns[OPGAP_CAUSE_COUNT]; /* the thread's own code between the same ops */
  uint64_t tail_ns[OPGAP_CAUSE_COUNT]; /* of the same waits, runnable without a CPU or woken and not yet running */
  /* What the work behind a wait takes longer because others used the caches meanwhile: as long as the wait, as what it
   * cost to put something else there, and no longer than filling the caches takes.  DATA_LOADING: behind a __next__. */
  uint64_t refill_ns[OPGAP_CAUSE_COUNT];
  uint64_t own_refill_ns;                /* likewise behind its own code, of each stretch between ops */
  uint64_t others_ns[OPGAP_CAUSE_COUNT]; /* of the waits, what another thread did that was waited for */
};
/* Of the steps in the window but the first `skip`, after breakdown_finish. */
struct around breakdown_around(struct analysis *a, unsigned process, size_t skip);
void breakdown_finish(struct analysis *a);
void breakdown_close(struct analysis *a);

/* ranks.c: collectives of all ranks; gpu: a kernel, else an op or call of the host */
void ranks_collective(struct analysis *a, unsigned process, uint32_t name, bool gpu, uint64_t start, uint64_t end);
void ranks_finish(struct analysis *a);
void ranks_close(struct analysis *a);
bool ranks_any(const struct analysis *a); /* were there collectives? */

/* over_time.c: [start, end) added to the buckets that it touches, `stride` numbers apart */
void over_time_add(const struct analysis *a, uint64_t *buckets, size_t stride, uint64_t start, uint64_t end);
/* sign -1: takes out again what was put in before */
void over_time_gap(const struct analysis *a, struct gap_table *table, uint64_t start, const struct causes *causes,
                   int sign);
/* Of main threads: blocked in a call, inside a DataLoader's __next__. */
void over_time_blocked(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
void over_time_next(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);
void over_time_finish(struct analysis *a);

/* flame.c: the call tree */
void flame_open(struct analysis *a);
void flame_op(struct analysis *a, const struct thread *t, const struct opgap_record *r, enum opgap_op_kind kind,
              uint64_t self_ns, uint64_t self_gpu_ns);
void flame_finish(struct analysis *a);
void flame_close(struct analysis *a);

/* intervals.c */
static inline void intervals_append(struct intervals *iv, uint64_t start,
                                    uint64_t end) /* end not before the last end */
{
  size_t count = iv->v.count;
  for (; count > iv->first && iv->v.at[count - 1].end >= start; count--) {
    const struct interval *last = &iv->v.at[count - 1];
    if (last->start < start)
      start = last->start;
    if (last->end > end)
      end = last->end;
  }
  iv->v.count = count;
  VEC_ROOM(&iv->v);
  iv->v.at[count] = (struct interval){start, end};
  iv->v.count = count + 1;
}
size_t intervals_from(const struct intervals *iv, uint64_t time); /* index of the first that ends later */
void intervals_drop_before(struct intervals *iv, uint64_t time);

/* verdict.c */
void verdict_finish(struct analysis *a);
/* Average self time of a framework op in trainers; 0 without ops. */
uint64_t verdict_mean_op(const struct opgap_summary *s);

/* stats.c */
uint64_t stats_percentile(const uint64_t *sorted, size_t count, double share);
void stats_sort(uint64_t *values, size_t count);

#endif
