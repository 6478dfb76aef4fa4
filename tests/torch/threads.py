"""Ops on Python threads and on torch's own, with counts that the test knows."""
import threading

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
torch.zeros(3).cos_()
