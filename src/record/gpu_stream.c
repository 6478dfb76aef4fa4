#include "record/gpu_stream.h"

#include <string.h>

#include "format/reader.h"
#include "record/internal.h"

static struct opgap_cell *gpu_cell(void)
{
  struct opgap_state *state = opgap_state;
  if (state->gpu_stream == NULL) {
    uint32_t index;
    state->gpu_stream = opgap_slot_take(OPGAP_STREAM_GPU, 0, &index);
    if (state->gpu_stream == NULL)
      return NULL;
    opgap_cells[index].thread = state->gpu_stream;
    state->gpu_cell = &opgap_cells[index];
  }
  return state->gpu_cell;
}

#define DEVICES 64u
#define DEVICE_WORDS 8u
static uint64_t devices[DEVICES][DEVICE_WORDS];
static unsigned device_count;
static int devices_of; /* pid: a forked child has none yet */

static void remember_device(const uint64_t *record, unsigned words)
{
  if (devices_of != opgap_state->pid)
    device_count = 0;
  devices_of = opgap_state->pid;
  if (device_count < DEVICES && words == DEVICE_WORDS)
    memcpy(devices[device_count++], record, sizeof devices[0]);
}

size_t opgap_gpu_devices(uint64_t *words, size_t room)
{
  size_t count = devices_of == opgap_state->pid ? device_count * (size_t)DEVICE_WORDS : 0;
  if (count > room)
    return 0;
  memcpy(words, devices, count * sizeof *words);
  return count;
}

void opgap_gpu_emit(unsigned event, uint32_t status, uint64_t start_ns, uint64_t end_ns, const uint64_t *fields,
                    unsigned count)
{
  struct opgap_cell *cell = gpu_cell();
  if (cell == NULL)
    return;
  struct opgap_thread *stream = cell->thread;
  /* we are the consumer: make room before the ring can be full */
  if (atomic_load_explicit(&stream->write_pos, memory_order_relaxed) -
          atomic_load_explicit(&stream->read_pos, memory_order_relaxed) >
      4 * OPGAP_SEGMENT_BYTES)
    opgap_consumer_drain(opgap_state->consumer, opgap_clock_anchor_for, OPGAP_DRAIN_READY);
  unsigned head = opgap_schema_is_span(event) ? 3 : 2;
  uint64_t *w = opgap_reserve(cell, head + count);
  if (w == NULL)
    return;
  w[0] = OPGAP_WORD0(event, head + count, 0, status);
  w[1] = start_ns;
  w[2] = end_ns; /* overwritten by the first field of an instant */
  memcpy(w + head, fields, count * sizeof *fields);
  if (event == OPGAP_EV_GPU_DEVICE)
    remember_device(w, head + count);
  opgap_commit(cell, w + head + count);
}
