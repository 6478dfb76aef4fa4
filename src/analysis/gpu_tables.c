/* See gpu_tables.h. */
#include "analysis/gpu_tables.h"
#include "analysis/order.h"
#include "analysis/spans.h"

#include <stdlib.h>
#include <string.h>

#define BINS 1920u               /* a multiple of OPGAP_GPU_CHUNKS */
#define FIRST_BIN_NS 1000ull     /* doubled whenever the bins do not reach */
#define LONG_GAP_NS 500000000ull /* nsys gpu_gaps */
#define LOW_USE 0.5              /* nsys gpu_time_util */
#define SLOW_CALL_NS 50000u      /* HTA: launch calls above 50 us, launch delays above 100 us */
#define SLOW_START_NS 100000u

struct bins {                  /* busy time of a device, by time */
  uint64_t origin, width, end; /* end: the last busy instant */
  uint64_t busy[BINS];
};

struct gpu_tables {
  VEC(struct opgap_sum_kernel) kernels;
  VEC(uint32_t) kernel_names; /* gid, by row */
  struct opgap_map kernel_index;
  VEC(struct opgap_sum_copy) copies;
  struct opgap_map copy_index; /* (direction, source, target, flags) */
  VEC(struct bins) devices;
  struct opgap_sum_launches launches;
  struct {
    uint64_t count, ns, bytes;
    uint32_t op, source;
    enum opgap_gpu_finding kind;
  } * findings;
  size_t finding_count, finding_room;
  struct opgap_map finding_index; /* (kind and op, source) */
};

struct gpu_tables *gpu_tables_new(void)
{
  return opgap_xcalloc(1, sizeof(struct gpu_tables));
}

void gpu_tables_free(struct gpu_tables *t)
{
  VEC_FREE(&t->kernels);
  VEC_FREE(&t->kernel_names);
  VEC_FREE(&t->copies);
  VEC_FREE(&t->devices);
  opgap_map_free(&t->kernel_index);
  opgap_map_free(&t->copy_index);
  opgap_map_free(&t->finding_index);
  free(t->findings);
  free(t);
}

/* ---- kernels and copies ---- */

void gpu_tables_kernel(struct gpu_tables *t, uint32_t name, const struct opgap_record *r,
                       const struct gpu_limits *limits)
{
  uint64_t ns = r->end_ns - r->start_ns;
  uint32_t grid[3], block[3], *index = opgap_map_put(&t->kernel_index, name, 0);
  opgap_extents(r->field[4], grid);
  opgap_extents(r->field[5], block);
  if (*index == 0) {
    struct opgap_sum_kernel *row = VEC_PUSH(&t->kernels);
    *VEC_PUSH(&t->kernel_names) = name;
    *index = (uint32_t)t->kernels.count;
    row->min_ns = ns;
    row->one_shape = grid[0] > 0; /* a whole graph has none */
    memcpy(row->grid, grid, sizeof grid);
    memcpy(row->block, block, sizeof block);
    row->registers = r->field[6];
    row->shared_bytes = r->field[7];
  }
  struct opgap_sum_kernel *row = &t->kernels.at[*index - 1];
  /* until the end `occupancy` holds the sum of occupancy x time */
  double occupancy =
      grid[0] > 0 ? gpu_occupancy(limits, (uint64_t)block[0] * block[1] * block[2], r->field[6], r->field[7]) : -1;
  row->occupancy = occupancy < 0 || row->occupancy < 0 ? -1 : row->occupancy + occupancy * (double)ns;
  row->calls++;
  row->total_ns += ns;
  row->min_ns = ns < row->min_ns ? ns : row->min_ns;
  row->max_ns = ns > row->max_ns ? ns : row->max_ns;
  if (memcmp(row->grid, grid, sizeof grid) != 0 || memcmp(row->block, block, sizeof block) != 0)
    row->one_shape = false;
}

static const char *direction_of(uint64_t kind)
{
  static const char *const names[] = {"?",    "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static const char *memory_of(uint64_t kind)
{
  static const char *const names[] = {"?", "pageable", "pinned", "device", "array", "managed", "device", "managed"};
  return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

void gpu_tables_copy(struct gpu_tables *t, const struct opgap_record *r)
{
  uint64_t key = r->field[4] << 24 | r->field[5] << 16 | r->field[6] << 8 | (r->field[7] & 1);
  uint32_t *index = opgap_map_put(&t->copy_index, key, 0);
  if (*index == 0) {
    *VEC_PUSH(&t->copies) = (struct opgap_sum_copy){.direction = direction_of(r->field[4]),
                                                    .source = memory_of(r->field[5]),
                                                    .target = memory_of(r->field[6]),
                                                    .async = r->field[7] & 1};
    *index = (uint32_t)t->copies.count;
  }
  struct opgap_sum_copy *row = &t->copies.at[*index - 1];
  row->calls++;
  row->bytes += r->field[0];
  row->total_ns += r->end_ns - r->start_ns;
}

/* ---- calls ---- */

/* Where a finding was made: an innermost op or range and a source line, each 0 when not known. */
struct place {
  uint32_t op, source;
};
static const struct place nowhere = {0, 0};

static void find(struct gpu_tables *t, enum opgap_gpu_finding kind, struct place place, uint64_t ns, uint64_t bytes)
{
  uint32_t *index = opgap_map_put(&t->finding_index, (uint64_t)kind << 32 | place.op, place.source);
  if (*index == 0) {
    t->findings = opgap_vec_grow(t->findings, t->finding_count, &t->finding_room, sizeof *t->findings);
    memset(&t->findings[t->finding_count], 0, sizeof *t->findings);
    t->findings[t->finding_count].kind = kind;
    t->findings[t->finding_count].op = place.op;
    t->findings[t->finding_count].source = place.source;
    *index = (uint32_t)++t->finding_count;
  }
  t->findings[*index - 1].count++;
  t->findings[*index - 1].ns += ns;
  t->findings[*index - 1].bytes += bytes;
}

static void add_blocking(struct gpu_tables *t, const char *name, const struct gpu_call *call)
{
  uint64_t ns = call->end - call->start;
  struct place place = {call->op, call->source};
  if (strstr(name, "Synchronize") != NULL && strstr(name, "Event") == NULL)
    find(t, OPGAP_FINDING_API_SYNC, place, ns, 0);
  if (!call->holds_host || strstr(name, "Async") != NULL)
    return;
  if (strstr(name, "Memcpy") != NULL)
    find(t, OPGAP_FINDING_MEMCPY_SYNC, place, ns, call->copy_bytes);
  else if (strstr(name, "Memset") != NULL)
    find(t, OPGAP_FINDING_MEMSET_SYNC, place, ns, call->copy_bytes);
}

void gpu_tables_call(struct analysis *a, struct gpu_tables *t, const struct gpu_call *call)
{
  struct opgap_sum_launches *l = &t->launches;
  uint64_t ns = call->end - call->start;
  add_blocking(t, analysis_text(a, call->name), call);
  if (call->pageable_async)
    find(t, OPGAP_FINDING_MEMCPY_ASYNC, (struct place){call->op, call->source}, call->copy_ns, call->copy_bytes);
  if (call->gap_ns > 0)
    find(t, OPGAP_FINDING_GAPS, (struct place){call->op, call->source}, call->gap_ns, 0);
  if (call->kernels == 0)
    return;
  l->calls++;
  l->kernels += call->kernels;
  l->short_kernels += call->short_kernels;
  l->call_ns += ns;
  l->slow_calls += ns > SLOW_CALL_NS;
  if (call->first_start > call->end) {
    uint64_t delay = call->first_start - call->end;
    l->queue_ns += delay;
    l->queue_max_ns = delay > l->queue_max_ns ? delay : l->queue_max_ns;
    l->slow_starts += delay > SLOW_START_NS;
  }
}

/* ---- use over time ---- */

static void widen(struct bins *b)
{
  for (unsigned i = 0; i < BINS / 2; i++)
    b->busy[i] = b->busy[2 * i] + b->busy[2 * i + 1];
  memset(b->busy + BINS / 2, 0, (BINS - BINS / 2) * sizeof *b->busy);
  b->width *= 2;
}

void gpu_tables_busy(struct gpu_tables *t, size_t device, uint64_t start, uint64_t end)
{
  while (t->devices.count <= device)
    VEC_PUSH(&t->devices)->width = FIRST_BIN_NS;
  struct bins *b = &t->devices.at[device];
  if (b->end == 0)
    b->origin = start;
  b->end = end;
  while (end - b->origin > b->width * BINS)
    widen(b);
  for (uint64_t at = start - b->origin, stop = end - b->origin; at < stop;) {
    uint64_t bin = at / b->width, next = (bin + 1) * b->width;
    uint64_t to = next < stop ? next : stop;
    b->busy[bin] += to - at;
    at = to;
  }
}

bool gpu_tables_is_long(uint64_t ns)
{
  return ns >= LONG_GAP_NS;
}

void gpu_tables_gap(struct gpu_tables *t, uint64_t ns)
{
  if (gpu_tables_is_long(ns))
    find(t, OPGAP_FINDING_GAPS, nowhere, ns, 0);
}

/* Shares the bins out among the chunks; a bin on a border goes to both in proportion. */
static void fill_use(const struct bins *b, struct opgap_sum_gpu_use *use)
{
  double chunk = (double)(b->end - b->origin) / OPGAP_GPU_CHUNKS;
  use->chunk_ns = (uint64_t)chunk;
  double last = (double)(b->end - b->origin);
  for (unsigned i = 0; i < BINS && (double)i * (double)b->width < last; i++) {
    double from = (double)i * (double)b->width, to = from + (double)b->width;
    to = to < last ? to : last;
    for (unsigned c = (unsigned)(from / chunk); c < OPGAP_GPU_CHUNKS && (double)c * chunk < to; c++) {
      double left = (double)c * chunk > from ? (double)c * chunk : from;
      double right = (double)(c + 1) * chunk < to ? (double)(c + 1) * chunk : to;
      if (right > left)
        use->share[c] += (double)b->busy[i] * (right - left) / (to - from) / chunk;
    }
  }
}

static void find_low_use(struct gpu_tables *t, const struct opgap_sum_gpu_use *use)
{
  for (unsigned c = 0; c < OPGAP_GPU_CHUNKS; c++)
    if (use->share[c] < LOW_USE)
      find(t, OPGAP_FINDING_TIME_UTIL, nowhere, use->chunk_ns, 0);
}

/* ---- into the summary ---- */

const char *opgap_gpu_finding_name(enum opgap_gpu_finding finding)
{
  static const char *const names[OPGAP_FINDING_COUNT] = {"cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync",
                                                         "cuda_api_sync",     "gpu_gaps",         "gpu_time_util"};
  return names[finding];
}

const char *opgap_gpu_finding_text(enum opgap_gpu_finding finding)
{
  static const char *const texts[OPGAP_FINDING_COUNT] = {
      "asynchronous copies of pageable memory: pin it (pin_memory=True), or they wait",
      "copies that block the host: use pinned memory and non_blocking=True",
      "sets of pinned or managed memory that block the host",
      "synchronisations that block the host: .item(), .cpu(), print of a tensor, synchronize()",
      "nothing on the device for 500 ms or more",
      "thirtieths of the time with the device used less than half"};
  return texts[finding];
}

static void *take(struct analysis *a, const void *rows, size_t count, size_t size)
{
  void *mine = opgap_pool_alloc(a->pool, count * size);
  if (count > 0)
    memcpy(mine, rows, count * size);
  return mine;
}

void gpu_tables_finish(struct analysis *a, struct gpu_tables *t, const uint32_t *device_ids)
{
  struct opgap_sum_gpu_tables *s = &a->summary->gpu_tables;
  s->use_count = t->devices.count;
  s->use = opgap_pool_alloc(a->pool, s->use_count * sizeof *s->use);
  for (size_t i = 0; i < t->devices.count; i++) {
    s->use[i].device = device_ids[i];
    if (t->devices.at[i].end > t->devices.at[i].origin) {
      fill_use(&t->devices.at[i], &s->use[i]);
      find_low_use(t, &s->use[i]);
    }
  }
  for (size_t i = 0; i < t->kernels.count; i++) {
    struct opgap_sum_kernel *row = &t->kernels.at[i];
    row->name = analysis_text(a, t->kernel_names.at[i]);
    row->occupancy = row->occupancy < 0 || row->total_ns == 0 ? -1 : row->occupancy / (double)row->total_ns;
  }
  s->kernel_count = t->kernels.count;
  s->kernels = take(a, t->kernels.at, t->kernels.count, sizeof *t->kernels.at);
  order_rows(s->kernels, s->kernel_count, sizeof *s->kernels, order_kernels);
  s->copy_count = t->copies.count;
  s->copies = take(a, t->copies.at, t->copies.count, sizeof *t->copies.at);
  order_rows(s->copies, s->copy_count, sizeof *s->copies, order_copies);
  s->launches = t->launches;
  s->finding_count = t->finding_count;
  s->findings = opgap_pool_alloc(a->pool, t->finding_count * sizeof *s->findings);
  for (size_t i = 0; i < t->finding_count; i++)
    s->findings[i] = (struct opgap_sum_finding){.finding = t->findings[i].kind,
                                                .op = analysis_text(a, t->findings[i].op),
                                                .source_location = analysis_text(a, t->findings[i].source),
                                                .count = t->findings[i].count,
                                                .ns = t->findings[i].ns,
                                                .bytes = t->findings[i].bytes};
  order_rows(s->findings, s->finding_count, sizeof *s->findings, order_findings);
}
