/* A trace as one stream of spans with their names, for exports and timelines.
 *
 * Order     By start.  Spans of one thread come parents first, in the order in which they began; where two began in
 *           the same nanosecond the outer one still comes first.  GPU activity is put in order within a window of
 *           65,536 records.  Samples, losses and ranges that need not nest come when they are read: about when
 *           they end.
 * Memory    Bounded by processes, streams and names, plus one open record for each 16,384 records inside it.  A
 *           trace is read twice: first for spans with more inside than that, and for devices and threads.
 * Threads   One at a time.
 * Ownership A span lives until the next call, its texts as long as the stream.
 * Times     ns since the trace's start, as in the summary.
 */
#ifndef OPGAP_ANALYSIS_SPANS_H
#define OPGAP_ANALYSIS_SPANS_H

#include "analysis/source.h"
#include "analysis/summary.h"

enum opgap_span_kind {
  OPGAP_SPAN_OP,         /* framework op */
  OPGAP_SPAN_RANGE,      /* user range; nests with the ops of its thread */
  OPGAP_SPAN_FREE_RANGE, /* user range that need not nest */
  OPGAP_SPAN_CALL,       /* hooked call; an instant where only its time is recorded */
  OPGAP_SPAN_CUDA,       /* CUDA call seen by CUPTI; its thread is the one that called, where that is known */
  OPGAP_SPAN_KERNEL,
  OPGAP_SPAN_MEMCPY,
  OPGAP_SPAN_MEMSET,
  OPGAP_SPAN_SYNC,     /* synchronisation seen by CUPTI */
  OPGAP_SPAN_OVERHEAD, /* CUPTI's own */
  OPGAP_SPAN_MARK,     /* instant: user mark, step, thread and process life, notice, GPU memory */
  OPGAP_SPAN_SAMPLE,   /* instant: sampled or cumulative values, see the fields */
  OPGAP_SPAN_LOST,     /* records lost in this time */
  OPGAP_SPAN_KINDS
};
/* "op", "range", "free range", "call", "cuda", "kernel", "memcpy", "memset", "sync", "overhead", "mark", "sample",
 * "lost" */
const char *opgap_span_kind_name(enum opgap_span_kind kind);
static inline bool opgap_span_on_device(enum opgap_span_kind kind)
{
  return kind == OPGAP_SPAN_KERNEL || kind == OPGAP_SPAN_MEMCPY || kind == OPGAP_SPAN_MEMSET;
}

/* Whether a span came in order of its start. */
static inline bool opgap_span_in_order(enum opgap_span_kind kind)
{
  return kind != OPGAP_SPAN_SAMPLE && kind != OPGAP_SPAN_LOST && kind != OPGAP_SPAN_FREE_RANGE;
}

#define OPGAP_NO_DEVICE UINT32_MAX

struct opgap_span {
  enum opgap_span_kind kind;
  bool unfinished; /* still open when the recording ended; end_ns is the last time known */
  bool nests;      /* part of the tree of its thread: `depth` ops are open around it */
  uint8_t depth;
  uint32_t process; /* index in the trace */
  uint32_t stream;  /* index in the process: the thread, or the stream that recorded it */
  int32_t tid;      /* 0: no thread */
  uint32_t name;    /* id of `text`, small and dense: spans with one text have one id */
  const char *text; /* any bytes */
  uint64_t start_ns, end_ns;
  uint32_t device, context, gpu_stream; /* OPGAP_NO_DEVICE: none */
  uint64_t correlation;                 /* joins a CUDA call with its GPU activity, by process; 0: none */
  uint64_t bytes;                       /* of the call, copy, set or allocation; OPGAP_UNKNOWN: none */
  const char *path;                     /* file, pipe or socket of a call; NULL: none */
  uint32_t path_name;                   /* id of `path`; 0: none */
  uint64_t address;                     /* object of a call that is no file; 0: none */
  const struct opgap_event *event;      /* schema: names and coding of the fields */
  const struct opgap_record *record;    /* raw fields and status */
};

struct opgap_spans_filter {
  uint64_t from_ns, to_ns;  /* spans that touch [from, to) are kept whole; to 0: to the end */
  uint64_t min_duration_ns; /* shorter spans and calls are left out; marks, samples and losses stay */
};

struct opgap_gpu_device {
  uint32_t process, device;
  const char *name;
  uint64_t sm_count, capability, memory_bytes, clock_khz, max_threads_sm; /* capability: 10 x major + minor */
};

struct opgap_spans;

/* `summary` is of the same source: its processes are those that are kept, its window (--steps) is what is kept, and its
 * names are the labels of processes.  `filter` may be NULL. */
struct opgap_spans *opgap_spans_open(const struct opgap_source *source, const struct opgap_summary *summary,
                                     const struct opgap_spans_filter *filter);
const struct opgap_span *opgap_spans_next(struct opgap_spans *spans); /* NULL at the end */
void opgap_spans_close(struct opgap_spans *spans);
/* Begins again, with the streams of one process, or one stream of it, alone; OPGAP_ALL: all. */
#define OPGAP_ALL UINT32_MAX
void opgap_spans_select(struct opgap_spans *spans, uint32_t process, uint32_t stream);

/* What is kept: [from, to), to UINT64_MAX where nothing bounds it. */
void opgap_spans_window(const struct opgap_spans *spans, uint64_t *from_ns, uint64_t *to_ns);
/* How far the reading is, in records. */
void opgap_spans_progress(const struct opgap_spans *spans, uint64_t *done, uint64_t *total);
/* Number of names so far: ids are below it.  The text of one. */
uint32_t opgap_spans_name_count(const struct opgap_spans *spans);
const char *opgap_spans_name(const struct opgap_spans *spans, uint32_t name);
/* A process of the trace as the summary has it; NULL: not kept. */
const struct opgap_sum_process *opgap_spans_process(const struct opgap_spans *spans, uint32_t process);
const struct opgap_process_info *opgap_spans_process_info(const struct opgap_spans *spans, uint32_t process);
/* Devices described in the trace, known from the start. */
const struct opgap_gpu_device *opgap_spans_devices(const struct opgap_spans *spans, size_t *count);

/* Grid or block of a kernel as the trace packs it: x, y, z; x is 0 for a whole graph. */
static inline void opgap_extents(uint64_t packed, uint32_t extent[3])
{
  extent[0] = (uint32_t)packed;
  extent[1] = (uint32_t)(packed >> 32 & 0xffff) + 1;
  extent[2] = (uint32_t)(packed >> 48) + 1;
}

/* The field of this schema name; false when the event has none. */
bool opgap_span_field(const struct opgap_span *span, const char *field, uint64_t *value);
/* Whether a field says something: 0 is "none", and so is the sequence number of an op without autograd. */
bool opgap_span_field_known(const struct opgap_span *span, unsigned field);
/* What the span calls it: "bytes" for a call's value where it is that, "address" for its object, else the schema's. */
const char *opgap_span_field_name(const struct opgap_span *span, unsigned field);
/* What the status word of the span says, as a key ("errno", "RecordScope"); NULL: nothing to tell. */
const char *opgap_span_status_name(const struct opgap_span *span);
/* The text of a field that is a name; "" for none. */
const char *opgap_span_field_text(struct opgap_spans *spans, const struct opgap_span *span, unsigned field);

#endif
