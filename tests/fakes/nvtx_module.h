/* NVTX for nvtx_client.c: the real header where it is installed, else the part that the client uses. */
#if __has_include(<nvtx3/nvToolsExt.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include <nvtx3/nvToolsExt.h>
#pragma GCC diagnostic pop
#else
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <wchar.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE 48
enum { NVTX_MESSAGE_UNKNOWN, NVTX_MESSAGE_TYPE_ASCII, NVTX_MESSAGE_TYPE_UNICODE, NVTX_MESSAGE_TYPE_REGISTERED };
typedef uint64_t nvtxRangeId_t;
typedef struct domain *nvtxDomainHandle_t;
typedef struct string *nvtxStringHandle_t;
typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  uint64_t payload;
  int32_t messageType;
  union {
    const char *ascii;
    const wchar_t *unicode;
    nvtxStringHandle_t registered;
  } message;
} nvtxEventAttributes_t;

typedef void (*nvtx_any)(void);
static nvtx_any nvtx_core[16], nvtx_core2[16];
static nvtx_any *nvtx_core_slots[16], *nvtx_core2_slots[16];

static int nvtx_get_module(int module, nvtx_any ***table, unsigned *count)
{
  if (module != 1 && module != 5)
    return 0;
  *table = module == 1 ? nvtx_core_slots : nvtx_core2_slots;
  *count = 16;
  return 1;
}
static const void *nvtx_get_table(uint32_t id)
{
  static struct {
    size_t size;
    int (*get_module)(int, nvtx_any ***, unsigned *);
  } callbacks = {sizeof callbacks, nvtx_get_module};
  return id == 1 ? &callbacks : NULL;
}
static void nvtx_initialise(void)
{
  static int done;
  const char *path = getenv("NVTX_INJECTION64_PATH");
  if (done++)
    return;
  for (int i = 0; i < 16; i++) {
    nvtx_core_slots[i] = &nvtx_core[i];
    nvtx_core2_slots[i] = &nvtx_core2[i];
  }
  void *handle = path ? dlopen(path, RTLD_LAZY) : NULL;
  int (*start)(const void *(*)(uint32_t)) =
      handle ? (int (*)(const void *(*)(uint32_t)))dlsym(handle, "InitializeInjectionNvtx2") : NULL;
  if (start != NULL)
    start(nvtx_get_table);
}
#define NVTX_CALL(table, index, type, otherwise, ...)                                                                  \
  (nvtx_initialise(), table[index] ? ((type)table[index])(__VA_ARGS__) : (otherwise))
#define NVTX_VOID(table, index, type, ...)                                                                             \
  (nvtx_initialise(), table[index] ? ((type)table[index])(__VA_ARGS__) : (void)0)
#define nvtxMarkA(m) NVTX_VOID(nvtx_core, 2, void (*)(const char *), m)
#define nvtxRangeStartA(m) NVTX_CALL(nvtx_core, 5, nvtxRangeId_t (*)(const char *), 0, m)
#define nvtxRangeEnd(id) NVTX_VOID(nvtx_core, 7, void (*)(nvtxRangeId_t), id)
#define nvtxRangePushEx(a) NVTX_CALL(nvtx_core, 8, int (*)(const nvtxEventAttributes_t *), -2, a)
#define nvtxRangePushA(m) NVTX_CALL(nvtx_core, 9, int (*)(const char *), -2, m)
#define nvtxRangePushW(m) NVTX_CALL(nvtx_core, 10, int (*)(const wchar_t *), -2, m)
#define nvtxRangePop() (nvtx_initialise(), nvtx_core[11] ? ((int (*)(void))nvtx_core[11])() : -2)
#define nvtxNameCategoryA(c, n) NVTX_VOID(nvtx_core, 12, void (*)(uint32_t, const char *), c, n)
#define nvtxDomainRangePushEx(d, a)                                                                                    \
  NVTX_CALL(nvtx_core2, 4, int (*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *), -2, d, a)
#define nvtxDomainRangePop(d) NVTX_CALL(nvtx_core2, 5, int (*)(nvtxDomainHandle_t), -2, d)
#define nvtxDomainRegisterStringA(d, s)                                                                                \
  NVTX_CALL(nvtx_core2, 10, nvtxStringHandle_t (*)(nvtxDomainHandle_t, const char *), NULL, d, s)
#define nvtxDomainCreateA(n) NVTX_CALL(nvtx_core2, 12, nvtxDomainHandle_t (*)(const char *), NULL, n)
#endif
