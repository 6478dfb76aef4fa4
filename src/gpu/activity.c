/* See activity.h. */
#include "gpu/activity.h"

#include <stdio.h>
#include <string.h>

#include "gpu/cupti_api.h"
#include "record/gpu_stream.h"
#include "record/record.h"

enum lost_reason { LOST_DROPPED = 1, LOST_INVALID_TIME = 2, LOST_UNKNOWN_KIND = 3 };

/* An id that waits for the call that it belongs to, which comes right behind it. */
#define EXTERNALS 8u
struct external {
  uint32_t kind, correlation;
  uint64_t id;
};

struct tally { /* of one buffer */
  const struct opgap_gpu_time *time;
  uint64_t invalid, unknown;
  struct external externals[EXTERNALS];
  unsigned external_count;
};

/* Three extents in one number that is small when the launch is one-dimensional: x | (y-1) << 32 | (z-1) << 48.
 * CUDA's limits (x below 2^31, y and z at most 65535) make it fit. */
static uint64_t pack_extents(const int32_t extent[3])
{
  uint64_t y = extent[1] > 0 ? (uint64_t)extent[1] - 1 : 0, z = extent[2] > 0 ? (uint64_t)extent[2] - 1 : 0;
  return (uint32_t)extent[0] | (y & 0xffffu) << 32 | (z & 0xffffu) << 48;
}

/* From CUPTI's clock to the tracer's; false: the times are impossible, which is counted. */
static bool convert(struct tally *tally, uint64_t *start, uint64_t *end)
{
  if (*start == 0 || *end < *start) { /* CUPTI says 0 where it could not measure */
    tally->invalid++;
    return false;
  }
  *start = opgap_gpu_clock_convert(tally->time, *start);
  *end = opgap_gpu_clock_convert(tally->time, *end);
  return true;
}

static void emit(struct tally *tally, unsigned event, uint32_t status, uint64_t start, uint64_t end,
                 const uint64_t *fields, unsigned count)
{
  if (convert(tally, &start, &end))
    opgap_gpu_emit(event, status, start, end, fields, count);
}
#define EMIT(tally, event, status, start, end, ...)                                                                    \
  emit(tally, event, status, start, end, (const uint64_t[]){__VA_ARGS__},                                              \
       sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void decode_kernel(const struct cupti_kernel *k, size_t size, struct tally *tally)
{
  bool in_graph = size >= 160;
  int64_t shared = (int64_t)k->static_shared + k->dynamic_shared;
  EMIT(tally, OPGAP_EV_KERNEL, k->correlation, k->start, k->end, (uintptr_t)k->name, k->device, k->context, k->stream,
       pack_extents(k->grid), pack_extents(k->block), k->registers, shared > 0 ? (uint64_t)shared : 0,
       in_graph ? k->graph : 0, in_graph ? k->graph_node : 0);
}

static void decode_memcpy(const struct cupti_memcpy *c, size_t size, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_MEMCPY, c->correlation, c->start, c->end, c->bytes, c->device, c->context, c->stream,
       c->copy_kind, c->src_kind, c->dst_kind, c->flags, size >= 80 ? c->graph : 0, size >= 72 ? c->graph_node : 0);
}

static void decode_memcpy_peer(const struct cupti_memcpy_peer *c, size_t size, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_MEMCPY, c->correlation, c->start, c->end, c->bytes, c->device, c->context, c->stream,
       c->copy_kind, c->src_kind, c->dst_kind, c->flags, size >= 88 ? c->graph : 0, size >= 80 ? c->graph_node : 0);
}

static void decode_memset(const struct cupti_memset *s, size_t size, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_MEMSET, s->correlation, s->start, s->end, s->bytes, s->device, s->context, s->stream,
       s->value, s->memory_kind, size >= 80 ? s->graph : 0, size >= 72 ? s->graph_node : 0);
}

static void decode_sync(const struct cupti_sync *s, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_SYNC, s->correlation, s->start, s->end, s->type, s->context, s->stream, s->event);
}

static void decode_memory(const struct cupti_memory *m, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_MEMORY, m->correlation, m->timestamp, m->timestamp, m->address, m->bytes, m->operation,
       m->device, m->memory_kind, m->context, m->stream);
}

static void decode_pool(const struct cupti_pool *p, size_t size, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_POOL, p->correlation, p->timestamp, p->timestamp, p->address, p->bytes,
       size >= sizeof *p ? p->used : 0, p->operation, p->device, p->type, p->keep, p->threshold);
}

static void decode_overhead(const struct cupti_overhead *o, struct tally *tally)
{
  EMIT(tally, OPGAP_EV_GPU_OVERHEAD, o->overhead_kind, o->start, o->end, o->object_kind);
}

/* A whole graph as one kernel: CUPTI's cheap way, and the graph keeps the device busy all the same. */
static void decode_graph(const struct cupti_graph *g, struct tally *tally)
{
  static const char prefix[] = "CUDA graph ";
  char name[sizeof prefix + 10];
  int length = snprintf(name, sizeof name, "%s%u", prefix, g->graph);
  EMIT(tally, OPGAP_EV_KERNEL, g->correlation, g->start, g->end, opgap_intern(name, (size_t)length), g->device,
       g->context, g->stream, 0, 0, 0, 0, g->graph, 0);
}

static void decode_device(const struct cupti_device *d)
{
  uint64_t fields[] = {(uintptr_t)d->name,    d->sm_count,         d->major * 10u + d->minor,
                       d->memory_bytes,       d->clock_khz,        (uint64_t)d->max_warps_sm * d->warp_threads,
                       d->max_blocks_sm,      d->max_registers_sm, d->max_shared_sm,
                       d->max_registers_block};
  uint64_t now = opgap_clock_ns();
  opgap_gpu_emit(OPGAP_EV_GPU_DEVICE, d->id, now, now, fields, sizeof fields / sizeof *fields);
}

/* "cudaLaunchKernel_ptsz_v7000" -> "cudaLaunchKernel": the version is CUPTI's, and the variant (per-thread default
 * stream) is the same call to whoever wrote it. */
static size_t plain_length(const char *name)
{
  size_t length = strlen(name);
  for (size_t i = length; i > 2 && name[i - 1] >= '0' && name[i - 1] <= '9'; i--)
    if (name[i - 2] == 'v' && name[i - 3] == '_') {
      length = i - 3;
      break;
    }
  if (length > 5 && (memcmp(name + length - 5, "_ptsz", 5) == 0 || memcmp(name + length - 5, "_ptds", 5) == 0))
    length -= 5;
  return length;
}

#define CBID_NAMES 1024u
static uint32_t cbid_names[2][CBID_NAMES]; /* by domain - 1; 0: not looked up yet */

static uint32_t api_name(int domain, uint32_t cbid)
{
  uint32_t *cached = cbid < CBID_NAMES ? &cbid_names[domain - 1][cbid] : NULL;
  if (cached != NULL && *cached != 0)
    return *cached;
  const char *name = NULL;
  if (opgap_cupti.cuptiGetCallbackName(domain, cbid, &name) != CUPTI_OK || name == NULL)
    name = domain == CUPTI_DOMAIN_RUNTIME ? "cuda (unnamed)" : "cu (unnamed)";
  uint32_t id = opgap_intern(name, plain_length(name));
  if (cached != NULL)
    *cached = id;
  return id;
}

static bool is_quiet(uint32_t cbid)
{
  switch (cbid) {
#define X(id, name) case id:
    CUPTI_QUIET_RUNTIME_CALLS(X)
#undef X
    return true;
  }
  return false;
}

static void emit_external(const struct external *e, uint64_t at)
{
  opgap_gpu_emit(OPGAP_EV_GPU_EXTERNAL, e->kind, at, at, (const uint64_t[]){e->correlation, e->id}, 2);
}

/* Writes the ids that wait for the call, at its start; they are dropped with a call that is left out. */
static void settle_externals(struct tally *tally, uint32_t correlation, bool left_out, uint64_t start)
{
  unsigned kept = 0;
  for (unsigned i = 0; i < tally->external_count; i++) {
    const struct external *e = &tally->externals[i];
    if (e->correlation != correlation)
      tally->externals[kept++] = *e;
    else if (!left_out)
      emit_external(e, start);
  }
  tally->external_count = kept;
}

/* Those whose call is in no record of this buffer: now. */
static void flush_externals(struct tally *tally)
{
  uint64_t now = opgap_clock_ns();
  for (unsigned i = 0; i < tally->external_count; i++)
    emit_external(&tally->externals[i], now);
  tally->external_count = 0;
}

static void decode_external(const struct cupti_external *e, struct tally *tally)
{
  if (tally->external_count == EXTERNALS)
    flush_externals(tally);
  tally->externals[tally->external_count++] = (struct external){e->external_kind, e->correlation, e->id};
}

static void decode_api(const struct cupti_api *a, int domain, struct tally *tally)
{
  uint64_t start = a->start, end = a->end;
  bool left_out = (domain == CUPTI_DOMAIN_RUNTIME && is_quiet(a->cbid)) || !convert(tally, &start, &end);
  settle_externals(tally, a->correlation, left_out, start);
  if (left_out)
    return;
  uint64_t fields[] = {api_name(domain, a->cbid), a->thread, a->result};
  opgap_cuda_claim(a->thread, start, end);
  opgap_gpu_emit(OPGAP_EV_GPU_API, a->correlation, start, end, fields, sizeof fields / sizeof *fields);
}

void opgap_gpu_emit_call(const struct opgap_cuda_call *call)
{
  static uint32_t correlation = UINT32_MAX; /* CUPTI counts from 1 */
  uint64_t fields[] = {opgap_intern(call->name, plain_length(call->name)), call->tid, call->status};
  opgap_gpu_emit(OPGAP_EV_GPU_API, correlation--, call->start_ns, call->end_ns, fields, 3);
}

/* One record.  CUPTI aligns records to 8 bytes, buffers to pages. */
static void decode_record(const void *at, uint32_t kind, size_t size, struct tally *tally)
{
  switch (kind) {
#define CASE(KIND, minimum, call)                                                                                      \
  case KIND:                                                                                                           \
    if (size < (minimum))                                                                                              \
      break;                                                                                                           \
    call;                                                                                                              \
    return;
    CASE(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KERNEL_MIN, decode_kernel(at, size, tally))
    CASE(CUPTI_KIND_KERNEL, CUPTI_KERNEL_MIN, decode_kernel(at, size, tally))
    CASE(CUPTI_KIND_MEMCPY, CUPTI_MEMCPY_MIN, decode_memcpy(at, size, tally))
    CASE(CUPTI_KIND_MEMCPY2, CUPTI_MEMCPY_PEER_MIN, decode_memcpy_peer(at, size, tally))
    CASE(CUPTI_KIND_MEMSET, CUPTI_MEMSET_MIN, decode_memset(at, size, tally))
    CASE(CUPTI_KIND_SYNCHRONIZATION, CUPTI_SYNC_MIN, decode_sync(at, tally))
    CASE(CUPTI_KIND_EXTERNAL, CUPTI_EXTERNAL_MIN, decode_external(at, tally))
    CASE(CUPTI_KIND_RUNTIME, CUPTI_API_MIN, decode_api(at, CUPTI_DOMAIN_RUNTIME, tally))
    CASE(CUPTI_KIND_DRIVER, CUPTI_API_MIN, decode_api(at, CUPTI_DOMAIN_DRIVER, tally))
    CASE(CUPTI_KIND_MEMORY2, CUPTI_MEMORY_MIN, decode_memory(at, tally))
    CASE(CUPTI_KIND_MEMORY_POOL, CUPTI_POOL_MIN, decode_pool(at, size, tally))
    CASE(CUPTI_KIND_OVERHEAD, CUPTI_OVERHEAD_MIN, decode_overhead(at, tally))
    CASE(CUPTI_KIND_GRAPH_TRACE, CUPTI_GRAPH_MIN, decode_graph(at, tally))
    CASE(CUPTI_KIND_DEVICE, CUPTI_DEVICE_MIN, decode_device(at))
#undef CASE
  }
  tally->unknown++;
}

void opgap_gpu_emit_lost(uint32_t reason, uint64_t count)
{
  uint64_t now = opgap_clock_ns();
  if (count > 0)
    opgap_gpu_emit(OPGAP_EV_GPU_LOST, reason, now, now, &count, 1);
}

void opgap_gpu_decode(const struct opgap_gpu_buffer *buffer)
{
  struct tally tally = {.time = &buffer->time};
  opgap_gpu_clock_note(&buffer->time);
  for (size_t at = 0; at + sizeof(uint32_t) <= buffer->valid;) {
    uint32_t word;
    memcpy(&word, buffer->bytes + at, sizeof word);
    size_t size = OPGAP_GPU_SEALED_SIZE(word);
    if (size < 8 || size > buffer->valid - at)
      break;
    decode_record(buffer->bytes + at, OPGAP_GPU_SEALED_KIND(word), size, &tally);
    at += size;
  }
  flush_externals(&tally);
  opgap_gpu_emit_lost(LOST_INVALID_TIME, tally.invalid);
  opgap_gpu_emit_lost(LOST_UNKNOWN_KIND, tally.unknown);
}

void opgap_gpu_decode_reset(void)
{
  memset(cbid_names, 0, sizeof cbid_names);
}
