/* The part of NVTX 3's injection interface that opgap uses, in its own words (nvtx3/nvtxDetail/nvtxTypes.h and
 * nvToolsExt.h say the same; tests/gpu/abi_check.c compares where these are installed).  Declarations only. */
#ifndef OPGAP_GPU_NVTX_ABI_H
#define OPGAP_GPU_NVTX_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef const void *(*nvtx_export_fn)(uint32_t table);
typedef void (*nvtx_function)(void);

enum { NVTX_TABLE_CALLBACKS = 1 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

struct nvtx_callbacks {
  size_t size;
  /* gives an array of addresses of function pointers; index 0 is unused */
  int (*get_module)(int module, nvtx_function ***table, unsigned *count);
};

enum nvtx_core {
  NVTX_MARK_EX = 1,
  NVTX_MARK_A,
  NVTX_MARK_W,
  NVTX_RANGE_START_EX,
  NVTX_RANGE_START_A,
  NVTX_RANGE_START_W,
  NVTX_RANGE_END,
  NVTX_RANGE_PUSH_EX,
  NVTX_RANGE_PUSH_A,
  NVTX_RANGE_PUSH_W,
  NVTX_RANGE_POP,
  NVTX_NAME_CATEGORY_A,
  NVTX_NAME_CATEGORY_W,
  NVTX_NAME_THREAD_A,
  NVTX_NAME_THREAD_W,
};
enum nvtx_core2 {
  NVTX_DOMAIN_MARK_EX = 1,
  NVTX_DOMAIN_RANGE_START_EX,
  NVTX_DOMAIN_RANGE_END,
  NVTX_DOMAIN_RANGE_PUSH_EX,
  NVTX_DOMAIN_RANGE_POP,
  NVTX_DOMAIN_RESOURCE_CREATE,
  NVTX_DOMAIN_RESOURCE_DESTROY,
  NVTX_DOMAIN_NAME_CATEGORY_A,
  NVTX_DOMAIN_NAME_CATEGORY_W,
  NVTX_DOMAIN_REGISTER_STRING_A,
  NVTX_DOMAIN_REGISTER_STRING_W,
  NVTX_DOMAIN_CREATE_A,
  NVTX_DOMAIN_CREATE_W,
  NVTX_DOMAIN_DESTROY,
  NVTX_INITIALIZE,
};

enum { NVTX_MESSAGE_NONE, NVTX_MESSAGE_ASCII, NVTX_MESSAGE_WIDE, NVTX_MESSAGE_REGISTERED };
#define NVTX_NOT_TRACKED (-2) /* what push and pop return when no tool follows them */

/* nvtxEventAttributes_t, version 2 (version 1 ends behind message, too). */
struct nvtx_attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  union {
    const char *ascii;
    const wchar_t *wide;
    const void *registered;
  } message;
};
static_assert(offsetof(struct nvtx_attributes, message) == 40 && sizeof(struct nvtx_attributes) == 48, "attributes");

#endif
