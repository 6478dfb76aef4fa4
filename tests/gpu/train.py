#!/usr/bin/env python3
"""A small training on the GPU, always the same; prints one line of JSON: step_us (median), and

    train.py plain       nothing more
    train.py profiler    torch.profiler's kernels, by name, with their time, over the whole training
    train.py both        the same; then, five seconds later, the training once more without torch.profiler

TRAIN_KIND=elementwise: no matrix products, for a simulated GPU without cuBLAS.
"""
import json
import os
import sys
import tempfile
import time

import torch

STEPS = 50


def train():
    torch.manual_seed(0)
    if os.environ.get("TRAIN_KIND") == "elementwise":
        model = torch.nn.Sequential(torch.nn.PReLU(256), torch.nn.ReLU()).cuda()
    else:
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(128, 256, device="cuda")
    target = torch.randint(0, 10, (128,), device="cuda")
    durations = []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        torch.cuda.synchronize()
        durations.append(time.perf_counter() - start)
    return sorted(durations)[len(durations) // 2] * 1e6


def profiled(result):
    """Kernels from the exported trace: its category tells a kernel from a copy and from an annotation."""
    from torch.profiler import ProfilerActivity, profile

    start = time.time_ns()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        time.sleep(1)  # on a busy machine Kineto takes what soon follows for older than its window, and drops it
        result["step_us"] = train()
    end = time.time_ns()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            trace = json.load(file)
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    base = trace.get("baseTimeNanoseconds", 0)
    result["kernels"], result["kernel_ns"] = {}, 0
    for event in kernels:
        result["kernels"][event["name"]] = result["kernels"].get(event["name"], 0) + 1
        result["kernel_ns"] += round(event["dur"] * 1000)
    # the profiler's clock is the time of day; a tracer beside it must not have changed that
    result["in_time"] = sum(start <= base + e["ts"] * 1000 <= end for e in kernels)


def main():
    result = {}
    torch.cuda.init()
    if sys.argv[1] == "plain":
        result["step_us"] = train()
    else:
        profiled(result)
    if sys.argv[1] == "both":
        time.sleep(5)  # opgap takes CUPTI again one second after it was given back
        train()
    print(json.dumps(result))


main()
