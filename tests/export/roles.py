"""Steps with each of TensorBoard's eight classes, on the fake GPU: PyTorch's ops on the processor, a batch that is waited
for, kernels, copies, sets and collectives of the fake CUDA, naps."""
import ctypes
import time

import torch
from torch.profiler import record_function

cuda, driver, nccl = (ctypes.CDLL(name) for name in ("libcudart.so.12", "libcuda.so.1", "libnccl.so.2"))
size = ctypes.c_size_t(1 << 20)
device, pinned, communicator = (ctypes.c_void_p() for _ in range(3))
cuda.cudaMalloc(ctypes.byref(device), size)
cuda.cudaMallocHost(ctypes.byref(pinned), size)
nccl.ncclCommInitAll(ctypes.byref(communicator), 1, (ctypes.c_int * 1)(0))
weights = torch.ones(100, 100)


def kernel():
    driver.cuLaunchKernel(b"_Z6kernelv", 4, 1, 1, 64, 1, 1, 0, None, None, None)


for number in range(8):
    with record_function("ProfilerStep#%d" % number):
        with record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            time.sleep(0.002)
        cuda.cudaMemcpyAsync(device, pinned, size, 1, None)
        kernel()
        weights @ weights
        cuda.cudaMemsetAsync(device, 0, size, None)
        with record_function("nccl:all_reduce"):
            nccl.ncclAllReduce(device, device, ctypes.c_size_t(50000), 7, 0, communicator, None)
            time.sleep(0.001)
        cuda.cudaDeviceSynchronize()
        time.sleep(0.001)
