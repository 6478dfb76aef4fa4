"""A Python program on the fake GPU: CUDA calls inside ranges of torch, for the lines in the report.

Marks the lines that the report must name with "line: NAME".
"""
import ctypes
import time

import torch
from torch.profiler import record_function

cuda = ctypes.CDLL("libcudart.so.12")
host, device, pinned = (ctypes.c_char * 65536)(), ctypes.c_void_p(), ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(65536))
cuda.cudaMallocHost(ctypes.byref(pinned), ctypes.c_size_t(65536))


def upload():
    with record_function("upload"):  # line: upload
        cuda.cudaMemcpyAsync(device, host, ctypes.c_size_t(65536), 1, None)


def download():
    with record_function("download"):  # line: download
        cuda.cudaMemcpy(host, device, ctypes.c_size_t(65536), 2)


def clear():
    with record_function("clear"):  # line: clear
        cuda.cudaMemset(pinned, 0, ctypes.c_size_t(65536))


def step():
    upload()
    download()
    clear()
    with record_function("wait"):  # line: wait
        cuda.cudaDeviceSynchronize()


for _ in range(3):
    step()
time.sleep(0.6)
with record_function("after the gap"):  # line: gap
    cuda.cudaMemcpyAsync(device, host, ctypes.c_size_t(65536), 1, None)
cuda.cudaDeviceSynchronize()
print("done", torch.__version__)
