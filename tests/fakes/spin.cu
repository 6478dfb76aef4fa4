// The kernel of the test programs, for nvcc: runs for the given number of ns, by the device's own clock.
#include <cstdint>

__global__ void spin(unsigned long long ns)
{
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}

extern "C" void launch_spin(uint64_t ns, cudaStream_t stream)
{
  spin<<<dim3(4, 2, 1), dim3(64, 1, 1), 0, stream>>>(ns);
}
