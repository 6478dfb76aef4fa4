/* The kernel "spin(unsigned long long)" as nvcc would register and launch it (crt/host_runtime.h); there is no device
 * code, so it runs on the fake runtime only.  spin.cu is the same for nvcc and a real device. */
#include "cuda_subset.h"

struct dim3 {
  unsigned x, y, z;
};
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp);
cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream);

static void spin_stub(void)
{
}

__attribute__((constructor)) static void register_spin(void)
{
  static char nothing[24];
  void **handle = __cudaRegisterFatBinary(nothing);
  __cudaRegisterFunction(handle, (const char *)(uintptr_t)spin_stub, nothing, "_Z4spiny", -1, NULL, NULL, NULL, NULL,
                         NULL);
  __cudaRegisterFatBinaryEnd(handle);
}

void launch_spin(uint64_t ns, cudaStream_t stream)
{
  struct dim3 grid = {4, 2, 1}, block = {64, 1, 1};
  void *arguments[] = {&ns};
  cudaLaunchKernel((const void *)(uintptr_t)spin_stub, grid, block, arguments, 0, stream);
}
