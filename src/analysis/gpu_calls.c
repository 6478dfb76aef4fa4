#include "analysis/gpu_calls.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"

#define BEFORE_NS 10000000000ull /* work may run in the window that was asked for before it */

struct gpu_calls {
  VEC(struct gpu_traced_call) all; /* as they came */
  struct opgap_map by_correlation; /* (correlation, 0) -> index in all, + 1 */
  struct gpu_traced_call **sorted;
  size_t sorted_count;
};

enum gpu_direction gpu_direction(uint64_t copy_kind)
{
  switch (copy_kind) {
  case 1: /* host to device, host to array */
  case 3:
    return GPU_H2D;
  case 2: /* device to host, array to host */
  case 4:
    return GPU_D2H;
  default:
    return GPU_D2D;
  }
}

const char *gpu_copy_name(uint64_t copy_kind)
{
  static const char *const names[] = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA",
                                      "Memcpy AtoH", "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA",
                                      "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
  return names[copy_kind < sizeof names / sizeof *names ? copy_kind : 0];
}

static struct gpu_traced_call *call_of(struct gpu_calls *calls, uint64_t correlation)
{
  uint32_t *index = opgap_map_put(&calls->by_correlation, correlation, 0);
  if (*index == 0) {
    (void)VEC_PUSH(&calls->all);
    *index = (uint32_t)calls->all.count;
  }
  return &calls->all.at[*index - 1];
}

static void add(struct gpu_calls *calls, const struct opgap_source *source, unsigned process,
                const struct opgap_record *r, uint64_t from, uint64_t to)
{
  if (r->event == OPGAP_EV_GPU_API && r->end_ns > from && r->end_ns <= to) {
    struct gpu_traced_call *call = call_of(calls, r->status);
    if (call->name != NULL && call->start_ns <= r->start_ns)
      return; /* the driver's call inside the runtime's: the outer one is what the program made */
    size_t length = 0;
    call->name = source->name(source->context, process, r->field[0], &length);
    call->start_ns = r->start_ns;
    call->end_ns = r->end_ns;
    call->thread = (uint32_t)r->field[1];
  } else if (r->event == OPGAP_EV_KERNEL && r->end_ns > from) {
    call_of(calls, r->status)->kernels++;
  } else if (r->event == OPGAP_EV_GPU_MEMCPY && r->end_ns > from) {
    call_of(calls, r->status)->copies_bytes[gpu_direction(r->field[4])] += r->field[0];
  }
}

static int by_thread_and_start(const void *left, const void *right)
{
  const struct gpu_traced_call *l = *(struct gpu_traced_call *const *)left,
                               *r = *(struct gpu_traced_call *const *)right;
  if (l->thread != r->thread)
    return l->thread < r->thread ? -1 : 1;
  return l->start_ns < r->start_ns ? -1 : l->start_ns > r->start_ns;
}

struct gpu_calls *gpu_calls_read(const struct opgap_source *source, unsigned process, uint64_t from, uint64_t to)
{
  struct gpu_calls *calls = opgap_xcalloc(1, sizeof *calls);
  from = from > BEFORE_NS ? from - BEFORE_NS : 0;
  const struct opgap_process_info *info = source->process(source->context, process);
  for (unsigned s = 0; s < info->stream_count; s++) {
    if (info->streams[s].kind != OPGAP_STREAM_GPU)
      continue;
    void *cursor = source->cursor_open(source->context, process, s);
    const struct opgap_record *records;
    size_t left;
    while (cursor != NULL && (left = source->cursor_batch(cursor, &records)) > 0)
      for (size_t i = 0; i < left; i++)
        add(calls, source, process, &records[i], from, to);
    if (cursor != NULL)
      source->cursor_close(cursor);
  }
  calls->sorted = opgap_xcalloc(calls->all.count + 1, sizeof *calls->sorted);
  for (size_t i = 0; i < calls->all.count; i++)
    if (calls->all.at[i].name != NULL)
      calls->sorted[calls->sorted_count++] = &calls->all.at[i];
  qsort(calls->sorted, calls->sorted_count, sizeof *calls->sorted, by_thread_and_start);
  return calls;
}

void gpu_calls_free(struct gpu_calls *calls)
{
  VEC_FREE(&calls->all);
  opgap_map_free(&calls->by_correlation);
  free(calls->sorted);
  free(calls);
}

size_t gpu_calls_count(const struct gpu_calls *calls)
{
  return calls->sorted_count;
}

struct gpu_traced_call *gpu_calls_at(struct gpu_calls *calls, size_t index)
{
  return calls->sorted[index];
}

const struct gpu_traced_call *gpu_calls_find(const struct gpu_calls *calls, uint64_t correlation)
{
  uint32_t index = opgap_map_get(&calls->by_correlation, correlation, 0);
  return index != 0 && calls->all.at[index - 1].name != NULL ? &calls->all.at[index - 1] : NULL;
}

/* The first call of the thread that began at `start` or later. */
static size_t first_of(const struct gpu_calls *calls, uint32_t thread, uint64_t start)
{
  size_t low = 0, high = calls->sorted_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct gpu_traced_call *call = calls->sorted[middle];
    if (call->thread < thread || (call->thread == thread && call->start_ns < start))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

size_t gpu_calls_inside(const struct gpu_calls *calls, uint32_t tid, uint32_t pthread, uint64_t start, uint64_t end,
                        size_t *first)
{
  uint32_t names[] = {tid, pthread};
  for (int i = 0; i < 2; i++) {
    size_t last = *first = first_of(calls, names[i], start);
    while (last < calls->sorted_count && calls->sorted[last]->thread == names[i] &&
           calls->sorted[last]->start_ns <= end)
      last++;
    if (last > *first)
      return last;
  }
  return *first;
}
