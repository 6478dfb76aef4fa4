// Prints the theoretical occupancy of the kernel of the test programs, as the CUDA runtime gives it.
#include <cstdio>

__global__ void spin(unsigned long long ns);

int main()
{
  int blocks = 0;
  cudaDeviceProp device;
  if (cudaGetDeviceProperties(&device, 0) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin, 64, 0) != cudaSuccess)
    return 1;
  std::printf("occupancy %.6f\ndevice %s\n", blocks * 64.0 / device.maxThreadsPerMultiProcessor, device.name);
  return 0;
}
