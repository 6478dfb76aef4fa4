/* See gpu_state.h. */
#include "gpu/gpu_state.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/nvml_abi.h"
#include "record/gpu_stream.h"
#include "record/raw.h"
#include "record/record.h"

#define DEVICES 16u
#define SAMPLES 64u
#define EVERY_NS 1000000000u
#define STOP_PATIENCE_NS 1000000000u /* NVML's initialisation may take seconds; exit does not wait for that */

struct sample {
  uint64_t at;
  uint32_t device;
  uint64_t fields[10]; /* as GPU_STATE's in events.def */
  bool has_use;
  uint64_t use[3]; /* as GPU_USE's */
};

static struct {
  _Atomic bool known; /* id and uuid are written */
  uint8_t uuid[16];
  void *handle; /* helper; NULL: not asked for yet, or NVML does not know it */
  bool asked;
  uint32_t name; /* interned; with use */
} devices[DEVICES];

static struct sample ring[SAMPLES];
static _Atomic uint32_t write_pos, read_pos; /* free-running; the helper's, the consumer's */
static _Atomic bool stopped, busy;

static struct { /* helper only */
#define X(name, parameters) int(*name) parameters;
  NVML_FUNCTIONS(X)
#undef X
  bool tried, works, with_use;
  uint32_t driver; /* interned */
  uint64_t next_at;
} nvml;

void opgap_gpu_state_device(uint32_t id, const uint8_t uuid[16])
{
  if (id >= DEVICES || atomic_load_explicit(&devices[id].known, memory_order_relaxed))
    return;
  memcpy(devices[id].uuid, uuid, sizeof devices[id].uuid);
  atomic_store_explicit(&devices[id].known, true, memory_order_release);
}

/* Of the driver's interface (cuda.h). */
enum { CUDA_OK = 0, CUDA_NOT_INITIALIZED = 3 };

static enum opgap_gpu_found ask_driver(void *driver)
{
  int (*get_count)(int *) = NULL, (*get)(int *, int) = NULL, (*get_uuid)(uint8_t *, int) = NULL;
  int count = 0, device;
  *(void **)&get_count = dlsym(driver, "cuDeviceGetCount");
  *(void **)&get = dlsym(driver, "cuDeviceGet");
  *(void **)&get_uuid = dlsym(driver, "cuDeviceGetUuid_v2"); /* of the part, where the device is one of MIG */
  if (get_uuid == NULL)
    *(void **)&get_uuid = dlsym(driver, "cuDeviceGetUuid");
  if (get_count == NULL || get == NULL || get_uuid == NULL)
    return OPGAP_GPU_NONE;
  int result = get_count(&count);
  if (result == CUDA_NOT_INITIALIZED)
    return OPGAP_GPU_NOT_YET;
  for (int i = 0; result == CUDA_OK && i < count; i++) {
    uint8_t uuid[16];
    if (get(&device, i) == CUDA_OK && get_uuid(uuid, device) == CUDA_OK)
      opgap_gpu_state_device((uint32_t)i, uuid);
  }
  nvml.with_use = true;
  return result == CUDA_OK && count > 0 ? OPGAP_GPU_FOUND : OPGAP_GPU_NONE;
}

enum opgap_gpu_found opgap_gpu_state_find(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == NULL)
    return OPGAP_GPU_NONE;
  enum opgap_gpu_found found = ask_driver(driver);
  dlclose(driver); /* the program's own reference keeps it */
  return found;
}

bool opgap_gpu_state_any(void)
{
  for (unsigned i = 0; i < DEVICES; i++)
    if (atomic_load_explicit(&devices[i].known, memory_order_acquire))
      return true;
  return false;
}

/* NVML's own clean-up at exit comes after our stop: exit handlers run in reverse order. */
static bool open_nvml(void)
{
  char version[NVML_DRIVER_VERSION_BYTES] = "";
  nvml.tried = true;
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    return false;
#define X(name, parameters) *(void **)&nvml.name = dlsym(library, #name);
  NVML_FUNCTIONS(X)
#undef X
  if (nvml.nvmlInit_v2 == NULL || nvml.nvmlDeviceGetHandleByUUID == NULL || nvml.nvmlSystemGetDriverVersion == NULL ||
      nvml.nvmlInit_v2() != NVML_OK)
    return false;
  atexit(opgap_gpu_state_stop);
  nvml.nvmlSystemGetDriverVersion(version, sizeof version);
  version[sizeof version - 1] = '\0';
  nvml.driver = opgap_intern(version, strlen(version));
  return true;
}

/* "GPU-" or "MIG-" and the UUID. */
static void *handle_of(const uint8_t *uuid)
{
  static const char *const kinds[] = {"GPU", "MIG"};
  for (unsigned k = 0; k < 2; k++) {
    char text[48];
    void *handle = NULL;
    int at = snprintf(text, sizeof text, "%s-", kinds[k]);
    for (int i = 0; i < 16; i++)
      at += snprintf(text + at, sizeof text - (size_t)at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                     uuid[i]);
    if (nvml.nvmlDeviceGetHandleByUUID(text, &handle) == NVML_OK)
      return handle;
  }
  return NULL;
}

/* Exit gave up waiting for this thread (it had no CPU, say): NVML may be torn down.  Pairs with stop. */
static bool too_late(void)
{
  return atomic_load_explicit(&stopped, memory_order_seq_cst);
}

/* A figure of the device, OPGAP_GPU_UNKNOWN when it does not tell. */
#define ASK(value, function, ...)                                                                                      \
  (nvml.function != NULL && !too_late() && nvml.function(__VA_ARGS__) == NVML_OK ? (uint64_t)(value)                   \
                                                                                 : OPGAP_GPU_UNKNOWN)

static void sample_use(struct sample *s, void *device)
{
  struct nvml_utilization percent = {0, 0};
  char name[NVML_NAME_BYTES] = "";
  if (devices[s->device].name == 0 && nvml.nvmlDeviceGetName != NULL && !too_late() &&
      nvml.nvmlDeviceGetName(device, name, sizeof name) == NVML_OK) {
    name[sizeof name - 1] = '\0';
    devices[s->device].name = opgap_intern(name, strlen(name));
  }
  s->use[0] = devices[s->device].name;
  s->use[1] = ASK(percent.gpu, nvmlDeviceGetUtilizationRates, device, &percent);
  s->use[2] = s->use[1] == OPGAP_GPU_UNKNOWN ? OPGAP_GPU_UNKNOWN : percent.memory;
}

static void sample_device(uint32_t id, void *device)
{
  uint32_t at = atomic_load_explicit(&write_pos, memory_order_relaxed);
  if (at - atomic_load_explicit(&read_pos, memory_order_acquire) >= SAMPLES)
    return;
  unsigned number = 0;
  unsigned long long reasons = 0;
  struct nvml_memory memory = {0, 0, 0};
  struct sample *s = &ring[at % SAMPLES];
  s->at = opgap_clock_ns();
  s->device = id;
  uint64_t *f = s->fields;
  f[0] = ASK(number, nvmlDeviceGetClockInfo, device, NVML_CLOCK_OF_SM, &number);
  f[1] = ASK(number, nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_OF_SM, &number);
  f[2] = ASK(number, nvmlDeviceGetClockInfo, device, NVML_CLOCK_OF_MEMORY, &number);
  f[3] = ASK(number, nvmlDeviceGetPowerUsage, device, &number);
  f[4] = ASK(number, nvmlDeviceGetEnforcedPowerLimit, device, &number);
  f[5] = ASK(number, nvmlDeviceGetTemperature, device, NVML_SENSOR_OF_GPU, &number);
  f[6] = ASK(reasons, nvmlDeviceGetCurrentClocksThrottleReasons, device, &reasons);
  f[7] = ASK(memory.used, nvmlDeviceGetMemoryInfo, device, &memory);
  f[8] = f[7] == OPGAP_GPU_UNKNOWN ? OPGAP_GPU_UNKNOWN : memory.total;
  f[9] = nvml.driver;
  s->has_use = nvml.with_use;
  if (s->has_use)
    sample_use(s, device);
  atomic_store_explicit(&write_pos, at + 1, memory_order_release);
}

static bool sample_all(void)
{
  bool any = false;
  if (!nvml.tried)
    nvml.works = open_nvml();
  for (uint32_t i = 0; nvml.works && i < DEVICES; i++) {
    if (!atomic_load_explicit(&devices[i].known, memory_order_acquire))
      continue;
    if (!devices[i].asked && !too_late())
      devices[i].handle = handle_of(devices[i].uuid);
    devices[i].asked = true;
    if (devices[i].handle != NULL && !too_late()) {
      sample_device(i, devices[i].handle);
      any = true;
    }
  }
  return any;
}

bool opgap_gpu_state_sample(uint64_t now_ns)
{
  bool any = false;
  if (now_ns < nvml.next_at || !opgap_gpu_state_any())
    return false;
  /* seq_cst pairs with stop: either it sees us busy, or we see that it has stopped us */
  atomic_store_explicit(&busy, true, memory_order_seq_cst);
  if (!too_late())
    any = sample_all();
  nvml.next_at = now_ns + EVERY_NS;
  atomic_store_explicit(&busy, false, memory_order_release);
  return any;
}

void opgap_gpu_state_drain(void)
{
  uint32_t at = atomic_load_explicit(&read_pos, memory_order_relaxed);
  for (; at != atomic_load_explicit(&write_pos, memory_order_acquire); at++) {
    const struct sample *s = &ring[at % SAMPLES];
    opgap_gpu_emit(OPGAP_EV_GPU_STATE, s->device, s->at, s->at, s->fields, 10);
    if (s->has_use)
      opgap_gpu_emit(OPGAP_EV_GPU_USE, s->device, s->at, s->at, s->use, 3);
    atomic_store_explicit(&read_pos, at + 1, memory_order_release);
  }
}

void opgap_gpu_state_stop(void)
{
  uint64_t give_up = opgap_clock_ns() + STOP_PATIENCE_NS;
  uint32_t never = 0;
  atomic_store_explicit(&stopped, true, memory_order_seq_cst);
  while (atomic_load_explicit(&busy, memory_order_seq_cst) && opgap_clock_ns() < give_up)
    opgap_raw_futex_wait(&never, 0, 1000000);
}

void opgap_gpu_state_reset(void)
{
  memset(devices, 0, sizeof devices);
  memset(&nvml, 0, sizeof nvml);
  atomic_store_explicit(&write_pos, 0, memory_order_relaxed);
  atomic_store_explicit(&read_pos, 0, memory_order_relaxed);
  atomic_store_explicit(&stopped, false, memory_order_relaxed);
  atomic_store_explicit(&busy, false, memory_order_relaxed);
}
