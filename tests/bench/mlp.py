"""The most op-dense training that still is one: a small MLP whose every op is tiny, so that what is added to an op weighs
most.  772 ops a step with PyTorch 1.13 (forward, backward, SGD with momentum over 24 parameters).

Prints "steps N, S steps/s, O ops/step, P ops/s" for the steps behind a warm-up.
"""

import argparse
import ctypes
import os
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

LAYERS = 12
WIDTH = 16
BATCH = 8
WARM_UP = 20


def make_network():
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers)


def step(network, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(network(x), y)
    loss.backward()
    optimizer.step()
    return loss


def count_ops(network, optimizer, x, y):
    """Ops of one step, by torch.profiler's own count."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step(network, optimizer, x, y)
    return sum(event.count for event in profiler.key_averages())


def observe(library):
    """Has torch call the do-nothing callbacks of twin_torch.c."""
    torch_cpu = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    add = getattr(torch_cpu, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE")
    ctypes.CDLL(library).observe(ctypes.cast(add, ctypes.c_void_p))


def run(steps, network, optimizer, x, y):
    start = time.perf_counter()
    for _ in range(steps):
        step(network, optimizer, x, y)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--count-ops", action="store_true", help="count a step's ops first, with torch.profiler")
    parser.add_argument("--observer", metavar="LIBRARY", help="libbench_twin_torch.so: callbacks that do nothing")
    options = parser.parse_args()
    if options.observer:
        observe(options.observer)

    torch.manual_seed(0)
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
    run(WARM_UP, network, optimizer, x, y)
    ops = count_ops(network, optimizer, x, y) if options.count_ops else 0
    seconds = run(options.steps, network, optimizer, x, y)
    rate = options.steps / seconds
    print(f"steps {options.steps}, {rate:.1f} steps/s, {ops} ops/step, {rate * ops:.0f} ops/s")


if __name__ == "__main__":
    main()
