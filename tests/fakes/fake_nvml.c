/* libnvidia-ml.so.1: the state of the fake devices (nvml.h).  A device is asked for by the UUID that the fake CUPTI
 * gives.
 *
 * FAKE_NVML: words separated by commas
 *   init=N        result of nvmlInit_v2
 *   mhz=N         clock of the multiprocessors (1410, which is also the most)
 *   throttle=N    clocks event reasons (0), decimal
 *   power=N       watts used (250 of 400)
 *   use=N         percent of the time with a kernel running (37), memory half of it
 *   blind         power, temperature and reasons are not supported by the device
 *   stuck         the first question for a clock comes back when NVML is torn down, which waits for that
 */
#include "fake_gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static uint64_t option(const char *word, uint64_t otherwise)
{
  const char *all = getenv("FAKE_NVML");
  size_t length = strlen(word);
  for (const char *at = all; at != NULL && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, word, length) == 0)
      return at[length] == '=' ? strtoull(at + length + 1, NULL, 10) : 1;
  return otherwise;
}

static bool initialised;
static _Atomic bool torn_down; /* by its own exit handler: it has nothing of CUDA's */

static _Atomic enum { NOT_STUCK, STUCK, FREE_AGAIN } stuck;

static void wait_ms(long ms)
{
  syscall(SYS_nanosleep, &(struct timespec){0, ms * 1000000}, NULL);
}

static void tear_down(void)
{
  static const char text[] = "fake NVML: torn down amid a call\n";
  torn_down = true;
  if (stuck == NOT_STUCK || write(2, text, sizeof text - 1) < 0)
    return;
  while (stuck != FREE_AGAIN)
    wait_ms(1);
  wait_ms(300); /* for what its caller does next */
}

static char devices[8]; /* their addresses are the handles */

static int check(void *device)
{
  static const char text[] = "fake NVML: called after teardown\n";
  if (torn_down && write(2, text, sizeof text - 1) < 0)
    return UNINITIALIZED;
  if (!initialised)
    return UNINITIALIZED;
  return (char *)device >= devices && (char *)device < devices + fake_device_count() ? SUCCESS : INVALID_ARGUMENT;
}
#define CHECK(device)                                                                                                  \
  int result = check(device);                                                                                          \
  if (result != SUCCESS)                                                                                               \
  return result

FAKE_EXPORT int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
  int result = (int)option("init", SUCCESS);
  if (result == SUCCESS && !initialised)
    atexit(tear_down);
  initialised = result == SUCCESS;
  return result;
}
FAKE_EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length);
int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
  const char *set = getenv("FAKE_DRIVER_VERSION");
  int written = snprintf(version, length, "%s", set ? set : "580.65.06");
  return written >= 0 && (unsigned)written < length ? SUCCESS : INSUFFICIENT_SIZE;
}
FAKE_EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
  for (int i = 0; i < fake_device_count(); i++) {
    char text[48];
    snprintf(text, sizeof text, "GPU-%02x010203-0405-0607-0809-0a0b0c0d0e0f", (unsigned)i);
    if (strcmp(uuid, text) == 0) {
      *device = &devices[i];
      return initialised ? SUCCESS : UNINITIALIZED;
    }
  }
  return NOT_FOUND;
}
FAKE_EXPORT int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz)
{
  CHECK(device);
  if (option("stuck", 0) && stuck == NOT_STUCK) {
    stuck = STUCK;
    while (!torn_down)
      wait_ms(1);
    stuck = FREE_AGAIN;
  }
  *mhz = clock == 1 ? (unsigned)option("mhz", 1410) : 1593;
  return clock == 1 || clock == 2 ? SUCCESS : NOT_SUPPORTED;
}
FAKE_EXPORT int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz)
{
  CHECK(device);
  *mhz = clock == 1 ? 1410 : 1593;
  return clock == 1 || clock == 2 ? SUCCESS : NOT_SUPPORTED;
}
FAKE_EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
  CHECK(device);
  *milliwatts = (unsigned)option("power", 250) * 1000;
  return option("blind", 0) ? NOT_SUPPORTED : SUCCESS;
}
FAKE_EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
  CHECK(device);
  *milliwatts = 400000;
  return SUCCESS;
}
FAKE_EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
  CHECK(device);
  *celsius = 60;
  return sensor == 0 && !option("blind", 0) ? SUCCESS : NOT_SUPPORTED;
}
FAKE_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
  CHECK(device);
  *reasons = option("throttle", 0);
  return option("blind", 0) ? NOT_SUPPORTED : SUCCESS;
}
struct memory {
  unsigned long long total, free, used;
};
FAKE_EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
  CHECK(device);
  memory->total = 80ull << 30;
  memory->used = 12ull << 30;
  memory->free = memory->total - memory->used;
  return SUCCESS;
}
struct utilization {
  unsigned gpu, memory;
};
FAKE_EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct utilization *percent);
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *percent)
{
  CHECK(device);
  percent->gpu = (unsigned)option("use", 37);
  percent->memory = percent->gpu / 2;
  return option("blind", 0) ? NOT_SUPPORTED : SUCCESS;
}
FAKE_EXPORT int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
  CHECK(device);
  int written = snprintf(name, length, "%s", fake_device_name());
  return written >= 0 && (unsigned)written < length ? SUCCESS : INSUFFICIENT_SIZE;
}
