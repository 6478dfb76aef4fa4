"""Ops on Python threads and on torch's own, with counts that the test knows."""
import threading
import time

import torch


def multiply():
    tensor = torch.zeros(3)
    for _ in range(100):
        tensor.mul_(2)


def backward():
    for _ in range(10):
        weight = torch.ones(3, requires_grad=True)
        (weight * weight).sum().backward()


@torch.jit.script
def forked(x):
    future = torch.jit.fork(torch.sigmoid, x)
    return torch.jit.wait(future)


for work in (multiply, backward):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
for _ in range(50):
    forked(torch.zeros(3))
# A pool thread ends the function's range, and drops its tensors, after wait() has returned.  If Python is being finalised
# when it does, torch aborts the process.
time.sleep(0.5)
torch.zeros(3).cos_()
