/* See buffers.h. */
#include "gpu/buffers.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/cupti_api.h"
#include "gpu/gpu_state.h"
#include "gpu/life.h"
#include "record/raw.h"
#include "record/record.h"
#include "record/session.h"

static struct opgap_gpu_buffer pool[OPGAP_GPU_BUFFERS];
static _Atomic uint32_t next_serial;
static _Atomic uint64_t dropped_records;
static _Atomic bool closed_pool;

static bool has_memory(struct opgap_gpu_buffer *b)
{
  if (b->bytes == NULL)
    b->bytes = opgap_raw_mmap(OPGAP_GPU_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  return b->bytes != NULL;
}

void opgap_gpu_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
  *buffer = NULL;
  *size = 0;
  *max_records = 0;
  if (atomic_load_explicit(&closed_pool, memory_order_relaxed))
    return;
  for (unsigned i = 0; i < OPGAP_GPU_BUFFERS; i++) {
    uint32_t free = OPGAP_GPU_BUFFER_FREE;
    if (!atomic_compare_exchange_strong_explicit(&pool[i].state, &free, OPGAP_GPU_BUFFER_FILLING, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    if (!has_memory(&pool[i])) {
      atomic_store_explicit(&pool[i].state, OPGAP_GPU_BUFFER_FREE, memory_order_release);
      return;
    }
    *buffer = pool[i].bytes;
    *size = OPGAP_GPU_BUFFER_BYTES;
    opgap_gpu_wake_helper();
    return;
  }
}

static uint32_t intern_name(const char *name)
{
  if (name == NULL)
    name = "(unnamed)";
  return opgap_intern(name, strlen(name));
}

/* Replaces a name's address by its id while the address is sure to be valid; notes devices. */
static void seal_name(void *record, uint32_t kind, size_t size)
{
  if ((kind == CUPTI_KIND_CONCURRENT_KERNEL || kind == CUPTI_KIND_KERNEL) && size >= CUPTI_KERNEL_MIN) {
    struct cupti_kernel *kernel = record;
    kernel->name = (const char *)(uintptr_t)intern_name(kernel->name);
  } else if (kind == CUPTI_KIND_DEVICE && size >= CUPTI_DEVICE_MIN) {
    struct cupti_device *device = record;
    opgap_gpu_state_device(device->id, device->uuid);
    device->name = (const char *)(uintptr_t)intern_name(device->name);
  }
}

static void seal_record(uint8_t *record, size_t size)
{
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  seal_name(record, kind, size);
  kind = (kind & 0xffffu) | (uint32_t)size << 16;
  memcpy(record, &kind, sizeof kind);
}

/* Walks the records once, with the library's own knowledge of their sizes.  A record is sealed when its successor is
 * known, because CUPTI reads the kind of the one to find the other.  Returns the bytes sealed. */
static size_t seal(uint8_t *bytes, size_t valid)
{
  void *record = NULL;
  uint8_t *previous = NULL;
  int result;
  while ((result = opgap_cupti_next_record(bytes, valid, &record)) == CUPTI_OK && record != NULL) {
    if (previous != NULL)
      seal_record(previous, (size_t)((uint8_t *)record - previous));
    previous = record;
  }
  if (previous == NULL)
    return 0;
  /* The last one ends where the valid bytes end; if the walk stopped at something CUPTI does not know, that is unknown,
   * and a too large size is harmless: the reader uses the prefix that it knows. */
  size_t rest = (size_t)(bytes + valid - previous);
  seal_record(previous, rest < 0xffffu ? rest : 0xfff8u);
  return valid;
}

void opgap_gpu_buffers_ask_dropped(void)
{
  size_t dropped = opgap_cupti_dropped();
  if (dropped > 0)
    atomic_fetch_add_explicit(&dropped_records, dropped, memory_order_relaxed);
}

static struct opgap_gpu_buffer *find(const uint8_t *bytes)
{
  for (unsigned i = 0; i < OPGAP_GPU_BUFFERS; i++)
    if (pool[i].bytes == bytes)
      return &pool[i];
  return NULL;
}

void opgap_gpu_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
  (void)context;
  (void)stream;
  (void)size;
  struct opgap_gpu_buffer *b = buffer ? find(buffer) : NULL;
  if (b == NULL)
    return;
  b->valid = valid ? seal(buffer, valid) : 0;
  opgap_gpu_buffers_ask_dropped();
  b->time = opgap_gpu_clock_read();
  b->serial = atomic_fetch_add_explicit(&next_serial, 1, memory_order_relaxed);
  atomic_store_explicit(&b->state, b->valid ? OPGAP_GPU_BUFFER_SEALED : OPGAP_GPU_BUFFER_FREE, memory_order_release);
  opgap_session_wake(); /* a sealed buffer is private memory: a SIGKILL would take it */
}

struct opgap_gpu_buffer *opgap_gpu_buffer_take(void)
{
  struct opgap_gpu_buffer *oldest = NULL;
  for (unsigned i = 0; i < OPGAP_GPU_BUFFERS; i++)
    if (atomic_load_explicit(&pool[i].state, memory_order_acquire) == OPGAP_GPU_BUFFER_SEALED &&
        (oldest == NULL || (int32_t)(pool[i].serial - oldest->serial) < 0))
      oldest = &pool[i];
  return oldest;
}

void opgap_gpu_buffer_release(struct opgap_gpu_buffer *buffer)
{
  atomic_store_explicit(&buffer->state, OPGAP_GPU_BUFFER_FREE, memory_order_release);
}

unsigned opgap_gpu_buffers_filling(void)
{
  unsigned filling = 0;
  for (unsigned i = 0; i < OPGAP_GPU_BUFFERS; i++)
    filling += atomic_load_explicit(&pool[i].state, memory_order_relaxed) == OPGAP_GPU_BUFFER_FILLING;
  return filling;
}

void opgap_gpu_buffers_close(bool closed)
{
  atomic_store_explicit(&closed_pool, closed, memory_order_relaxed);
}

void opgap_gpu_buffers_reset(void)
{
  for (unsigned i = 0; i < OPGAP_GPU_BUFFERS; i++)
    atomic_store_explicit(&pool[i].state, OPGAP_GPU_BUFFER_FREE, memory_order_relaxed);
  atomic_store_explicit(&dropped_records, 0, memory_order_relaxed);
  atomic_store_explicit(&closed_pool, false, memory_order_relaxed);
}

uint64_t opgap_gpu_buffers_dropped(void)
{
  return atomic_exchange_explicit(&dropped_records, 0, memory_order_relaxed);
}
