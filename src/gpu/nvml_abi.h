/* The part of NVML's binary interface that opgap uses, in its own words: nvml.h, the same from driver 450 on.
 *
 * tests/gpu/abi_check.c compares it with the real header.  Threads, ownership: declarations only.
 */
#ifndef OPGAP_GPU_NVML_ABI_H
#define OPGAP_GPU_NVML_ABI_H

#include <stdint.h>

enum opgap_nvml { NVML_OK = 0, NVML_CLOCK_OF_SM = 1, NVML_CLOCK_OF_MEMORY = 2, NVML_SENSOR_OF_GPU = 0 };
#define NVML_DRIVER_VERSION_BYTES 80u
#define NVML_NAME_BYTES 96u

struct nvml_memory { /* nvmlMemory_t */
  unsigned long long total, free, used;
};

/* nvmlUtilization_t: percent of the last sample period (1/6 s to 1 s) with a kernel running. */
struct nvml_utilization {
  unsigned gpu, memory;
};

/* The functions: X(name, parameters).  Each may be missing but the first three. */
#define NVML_FUNCTIONS(X)                                                                                              \
  X(nvmlInit_v2, (void))                                                                                               \
  X(nvmlDeviceGetHandleByUUID, (const char *uuid, void **device))                                                      \
  X(nvmlSystemGetDriverVersion, (char *version, unsigned length))                                                      \
  X(nvmlDeviceGetClockInfo, (void *device, int clock, unsigned *mhz))                                                  \
  X(nvmlDeviceGetMaxClockInfo, (void *device, int clock, unsigned *mhz))                                               \
  X(nvmlDeviceGetPowerUsage, (void *device, unsigned *milliwatts))                                                     \
  X(nvmlDeviceGetEnforcedPowerLimit, (void *device, unsigned *milliwatts))                                             \
  X(nvmlDeviceGetTemperature, (void *device, int sensor, unsigned *celsius))                                           \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (void *device, unsigned long long *reasons))                            \
  X(nvmlDeviceGetMemoryInfo, (void *device, struct nvml_memory *memory))                                               \
  X(nvmlDeviceGetUtilizationRates, (void *device, struct nvml_utilization *percent))                                   \
  X(nvmlDeviceGetName, (void *device, char *name, unsigned length))

#endif
