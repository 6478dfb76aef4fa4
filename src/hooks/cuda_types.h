/* The CUDA and NCCL types that hooks.def's rows pass by value, and helpers for their values.  Declarations only. */
#ifndef OPGAP_HOOKS_CUDA_TYPES_H
#define OPGAP_HOOKS_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

struct opgap_dim3 { /* dim3 */
  unsigned x, y, z;
};
struct opgap_nccl_id { /* ncclUniqueId */
  char bytes[128];
};

/* Bytes of `count` elements of an ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double,
 * bfloat16, and two kinds of 8-bit float; 0 for types that came later. */
static inline uint64_t opgap_nccl_bytes(size_t count, int type)
{
  static const uint8_t size[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < (int)sizeof size ? (uint64_t)count * size[type] : 0;
}

#define OPGAP_CUDA_QUERY (result == 600 ? 0u : (uint32_t)result) /* "not ready" is an answer, not an error */

#endif
