/* See cupti_api.h. */
#include "gpu/cupti_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/buffers.h"
#include "record/probe.h"
#include "record/raw.h"

struct opgap_cupti opgap_cupti;

struct search {
  const char *library;
  char path[PATH_MAX];
};

static int match_library(struct dl_phdr_info *info, size_t size, void *data)
{
  (void)size;
  struct search *search = data;
  const char *slash = strrchr(info->dlpi_name, '/');
  const char *file = slash ? slash + 1 : info->dlpi_name;
  if (strncmp(file, search->library, strlen(search->library)) != 0 || strlen(info->dlpi_name) >= sizeof search->path)
    return 0;
  strcpy(search->path, info->dlpi_name);
  return 1;
}

/* The path of a loaded library by the beginning of its file name. */
static bool find_loaded(struct search *search, const char *library)
{
  search->library = library;
  return dl_iterate_phdr(match_library, search) == 1;
}

bool opgap_gpu_library_loaded(const char *library)
{
  struct search search;
  return find_loaded(&search, library);
}

static void *open_file(const char *folder, const char *middle, const char *file)
{
  char path[PATH_MAX];
  if (strlen(folder) + strlen(middle) + strlen(file) + 1 > sizeof path)
    return NULL;
  strcat(strcat(strcpy(path, folder), middle), file);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* CUPTI must not be older than the CUDA runtime in use, so the newest comes first. */
static const char *const file_names[] = {"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.11.8", "libcupti.so.11.7",
                                         "libcupti.so.11.6", "libcupti.so.11.3", "libcupti.so.11.2", "libcupti.so.11.1",
                                         "libcupti.so.11.0", "libcupti.so"};
#define FILE_NAMES (sizeof file_names / sizeof *file_names)

/* Folders relative to one that holds libcudart or is CUDA_HOME. */
static void *open_near(const char *folder, const char *const *middles, const char *version)
{
  for (const char *const *middle = middles; *middle != NULL; middle++)
    for (unsigned i = 0; i < FILE_NAMES; i++) {
      if (version != NULL && strcmp(file_names[i], version) != 0)
        continue;
      void *handle = open_file(folder, *middle, file_names[i]);
      if (handle != NULL)
        return handle;
    }
  return NULL;
}

/* Beside libcudart: the toolkit has extras/CUPTI, Python wheels nvidia/cuda_cupti next to nvidia/cuda_runtime. */
static void *open_beside_runtime(const char **version)
{
  static const char *const middles[] = {"/", "/../extras/CUPTI/lib64/", "/../../cuda_cupti/lib/", NULL};
  struct search search;
  if (!find_loaded(&search, "libcudart.so"))
    return NULL;
  char *slash = strrchr(search.path, '/');
  const char *file = slash ? slash + 1 : search.path;
  if (strncmp(file, "libcudart.so.12", 15) == 0)
    *version = "libcupti.so.12";
  else if (strncmp(file, "libcudart.so.13", 15) == 0)
    *version = "libcupti.so.13";
  if (slash == NULL)
    return NULL;
  *slash = 0;
  return open_near(search.path, middles, *version);
}

static void *open_cupti(void)
{
  static const char *const home_middles[] = {"/extras/CUPTI/lib64/", "/lib64/", "/lib/", NULL};
  struct search search;
  const char *version = NULL;
  if (find_loaded(&search, "libcupti.so"))
    return dlopen(search.path, RTLD_NOLOAD | RTLD_NOW);
  void *handle = open_beside_runtime(&version);
  if (handle == NULL && version != NULL)
    handle = dlopen(version, RTLD_NOW | RTLD_LOCAL); /* the loader's path, same major version */
  const char *home = getenv("CUDA_HOME");
  if (handle == NULL && home != NULL)
    handle = open_near(home, home_middles, NULL);
  home = getenv("CUDA_PATH");
  if (handle == NULL && home != NULL)
    handle = open_near(home, home_middles, NULL);
  for (unsigned i = 0; handle == NULL && i < FILE_NAMES; i++)
    handle = dlopen(file_names[i], RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL)
    handle = open_near("/usr/local/cuda", home_middles, NULL);
  if (handle == NULL)
    handle = open_near("/opt/cuda", home_middles, NULL);
  return handle;
}

bool opgap_cupti_device_node(void)
{
  static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"};
  for (unsigned i = 0; i < sizeof nodes / sizeof *nodes; i++)
    if (opgap_raw3(SYS_faccessat, AT_FDCWD, (long)nodes[i], 0) == 0)
      return true;
  return false;
}

static int try_version(const void *get_version)
{
  uint32_t version = 0;
  return ((int (*)(uint32_t *))(uintptr_t)get_version)(&version) != CUPTI_OK;
}

/* Some CUPTIs crash in the first call of all when they cannot initialise: 13.2 calls itself without end where the
 * driver is not one that it knows.  The program must not pay for that.  Beside NVIDIA's own driver it is not tried: a
 * copy of the process lacks the driver's mappings, so a crash there would say nothing. */
static bool survives_first_call(const struct opgap_cupti *bound)
{
  if (opgap_cupti_device_node())
    return true;
  const void *get_version = (const void *)(uintptr_t)bound->cuptiGetVersion;
  return opgap_probe(try_version, get_version) != OPGAP_PROBE_CRASHED;
}

const char *opgap_cupti_bind(void)
{
  void *handle = open_cupti();
  if (handle == NULL)
    return "unavailable: CUPTI is not installed (libcupti.so; set CUDA_HOME)";
  struct opgap_cupti bound = {.can_share = true};
#define X(required, name, parameters)                                                                                  \
  *(void **)&bound.name = dlsym(handle, #name);                                                                        \
  if (required && bound.name == NULL)                                                                                  \
    return "unavailable: CUPTI is older than CUDA 11 (no " #name ")";
  CUPTI_FUNCTIONS(X)
#undef X
#define X(required, name, parameters)                                                                                  \
  *(void **)&bound.name = dlsym(handle, #name);                                                                        \
  bound.can_share = bound.can_share && bound.name != NULL;
  CUPTI_SHARED_FUNCTIONS(X)
#undef X
  if (opgap_cupti.version == 0 && !survives_first_call(&bound))
    return "unavailable: CUPTI crashes when it starts (is the driver too old for it?)";
  if (bound.cuptiGetVersion(&bound.version) != CUPTI_OK)
    return "unavailable: CUPTI does not start (no working driver)";
  if (bound.version < 13)
    return "unavailable: CUPTI is older than CUDA 11";
  bound.can_share = bound.can_share && bound.version >= CUPTI_VERSION_SHARED;
  opgap_cupti = bound;
  return NULL;
}

/* ---- the subscription ---- */

static void *subscriber;                         /* of either interface */
static void *_Atomic shared;                     /* the same, when it is of the second; NULL otherwise */
static cupti_timestamp_fn _Atomic program_clock; /* NULL: CUPTI's own */
static int thread_ids_before = CUPTI_THREAD_ID_DEFAULT;

static void *shared_subscriber(void)
{
  return atomic_load_explicit(&shared, memory_order_acquire);
}

bool opgap_cupti_shared(void)
{
  return shared_subscriber() != NULL;
}

int opgap_cupti_subscribe(cupti_callback_fn callback)
{
  int result = opgap_cupti.cuptiSubscribe(&subscriber, callback, NULL);
  if (result == CUPTI_MULTIPLE_SUBSCRIBERS && opgap_cupti.can_share) {
    struct cupti_subscriber_params params = {.size = offsetof(struct cupti_subscriber_params, padding) +
                                                     sizeof params.padding,
                                             .name = "opgap",
                                             .allow_several = 1};
    if (opgap_cupti.cuptiSubscribe_v2(&subscriber, callback, NULL, &params) == CUPTI_OK) {
      atomic_store_explicit(&shared, subscriber, memory_order_release);
      result = CUPTI_OK;
    }
  }
  if (result != CUPTI_OK)
    subscriber = NULL;
  else
    opgap_cupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_CONTEXT_CREATED);
  return result;
}

void opgap_cupti_unsubscribe(void)
{
  if (subscriber != NULL)
    opgap_cupti.cuptiUnsubscribe(subscriber);
  subscriber = NULL;
  atomic_store_explicit(&shared, NULL, memory_order_release);
}

bool opgap_cupti_others_share(void)
{
  uint8_t state = 0;
  size_t size = sizeof state;
  return opgap_cupti.can_share &&
         opgap_cupti.cuptiActivityGetAttribute_v2(NULL, CUPTI_ATTRIBUTE_SUBSCRIBERS, &size, &state) == CUPTI_OK &&
         state == 1;
}

bool opgap_cupti_others_collect(void)
{
  uint32_t kinds = 0;
  return opgap_cupti.can_share && opgap_cupti.cuptiActivityGetEnabledKinds(NULL, NULL, NULL, &kinds) == CUPTI_OK &&
         kinds > 0;
}

static void request_shared(uint8_t **buffer, size_t *size, size_t *max_records, void *info)
{
  (void)info;
  opgap_gpu_buffer_request(buffer, size, max_records);
}

static void complete_shared(uint8_t *buffer, size_t size, size_t valid, void *info)
{
  (void)info;
  opgap_gpu_buffer_complete(NULL, 0, buffer, size, valid);
}

int opgap_cupti_register(void)
{
  void *own = shared_subscriber();
  return own ? opgap_cupti.cuptiActivityRegisterCallbacks_v2(own, request_shared, complete_shared)
             : opgap_cupti.cuptiActivityRegisterCallbacks(opgap_gpu_buffer_request, opgap_gpu_buffer_complete);
}

int opgap_cupti_enable(int kind)
{
  void *own = shared_subscriber();
  return own ? opgap_cupti.cuptiActivityEnable_v2(own, kind, NULL) : opgap_cupti.cuptiActivityEnable(kind);
}

int opgap_cupti_disable(int kind)
{
  void *own = shared_subscriber();
  return own ? opgap_cupti.cuptiActivityDisable_v2(own, kind, NULL) : opgap_cupti.cuptiActivityDisable(kind);
}

bool opgap_cupti_driver_call(uint32_t cbid, bool on)
{
  void *own = shared_subscriber();
  if (own != NULL)
    return opgap_cupti.cuptiActivityEnableDriverApi_v2(own, cbid, on) == CUPTI_OK;
  return opgap_cupti.cuptiActivityEnableDriverApi != NULL &&
         opgap_cupti.cuptiActivityEnableDriverApi(cbid, on) == CUPTI_OK;
}

bool opgap_cupti_runtime_call(uint32_t cbid, bool on)
{
  void *own = shared_subscriber();
  if (own != NULL)
    return opgap_cupti.cuptiActivityEnableRuntimeApi_v2(own, cbid, on) == CUPTI_OK;
  return opgap_cupti.cuptiActivityEnableRuntimeApi != NULL &&
         opgap_cupti.cuptiActivityEnableRuntimeApi(cbid, on) == CUPTI_OK;
}

bool opgap_cupti_graphs_whole(void)
{
  void *own = shared_subscriber();
  uint8_t whole = 0;
  size_t size = sizeof whole;
  return own == NULL ||
         (opgap_cupti.cuptiActivityGetAttribute_v2(own, CUPTI_ATTRIBUTE_GRAPH_TRACE, &size, &whole) == CUPTI_OK &&
          whole == 1);
}

/* A subscriber's own, so there is nothing to give back. */
static bool configure_shared(void *own, cupti_timestamp_fn now)
{
  int type = CUPTI_THREAD_ID_SYSTEM;
  size_t size = sizeof type;
  opgap_cupti.cuptiActivitySetAttribute_v2(own, CUPTI_ATTRIBUTE_THREAD_ID_TYPE, &size, &type);
  size = sizeof now;
  return opgap_cupti.cuptiActivitySetAttribute_v2(own, CUPTI_ATTRIBUTE_TIMESTAMP, &size, (void *)&now) == CUPTI_OK;
}

bool opgap_cupti_configure(cupti_timestamp_fn now)
{
  void *own = shared_subscriber();
  if (own != NULL)
    return configure_shared(own, now);
  if (opgap_cupti.cuptiSetThreadIdType != NULL) {
    if (opgap_cupti.cuptiGetThreadIdType == NULL || opgap_cupti.cuptiGetThreadIdType(&thread_ids_before) != CUPTI_OK)
      thread_ids_before = CUPTI_THREAD_ID_DEFAULT;
    opgap_cupti.cuptiSetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
  }
  return opgap_cupti.cuptiActivityRegisterTimestampCallback != NULL &&
         opgap_cupti.cuptiActivityRegisterTimestampCallback(now) == CUPTI_OK;
}

void opgap_cupti_program_clock(cupti_timestamp_fn now)
{
  atomic_store_explicit(&program_clock, now, memory_order_relaxed);
}

/* What CUPTI uses on Linux when nobody registers a clock, and on Windows' Linux (cupti_activity.h). */
static uint64_t default_clock(void)
{
  static _Atomic int clock_id; /* + 1 */
  int id = atomic_load_explicit(&clock_id, memory_order_relaxed);
  struct timespec now;
  if (id == 0) {
    id = 1 + (opgap_raw3(SYS_faccessat, AT_FDCWD, (long)"/dev/dxg", 0) == 0 ? CLOCK_MONOTONIC_RAW : CLOCK_REALTIME);
    atomic_store_explicit(&clock_id, id, memory_order_relaxed);
  }
  clock_gettime(id - 1, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void opgap_cupti_restore(void)
{
  if (opgap_cupti_shared())
    return;
  cupti_timestamp_fn clock = atomic_load_explicit(&program_clock, memory_order_relaxed);
  if (opgap_cupti.cuptiSetThreadIdType != NULL)
    opgap_cupti.cuptiSetThreadIdType(thread_ids_before);
  if (opgap_cupti.cuptiActivityRegisterTimestampCallback != NULL)
    opgap_cupti.cuptiActivityRegisterTimestampCallback(clock ? clock : default_clock); /* NULL is refused */
}

int opgap_cupti_now(uint64_t *timestamp)
{
  void *own = shared_subscriber();
  return own ? opgap_cupti.cuptiGetTimestamp_v2(own, timestamp) : opgap_cupti.cuptiGetTimestamp(timestamp);
}

int opgap_cupti_next_record(uint8_t *buffer, size_t valid, void **record)
{
  void *own = shared_subscriber();
  return own ? opgap_cupti.cuptiActivityGetNextRecord_v2(own, buffer, valid, record)
             : opgap_cupti.cuptiActivityGetNextRecord(buffer, valid, record);
}

size_t opgap_cupti_dropped(void)
{
  void *own = shared_subscriber();
  size_t dropped = 0;
  int result = own ? opgap_cupti.cuptiActivityGetNumDroppedRecords_v2(own, NULL, 0, &dropped)
                   : opgap_cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
  return result == CUPTI_OK ? dropped : 0;
}
