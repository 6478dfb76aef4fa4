#!/usr/bin/env python3
"""A small training on the GPU, always the same; prints one line of JSON.

    train.py plain       step time
    train.py profiler    and torch.profiler's kernels, by name, over the whole run
"""
import json
import sys
import time

import torch

STEPS = 50


def build():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def steps(model, optimizer, data, target):
    durations = []
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        torch.cuda.synchronize()
        durations.append(time.perf_counter() - start)
    return sorted(durations)[len(durations) // 2] * 1e6


def main():
    torch.cuda.init()
    result = {}
    if sys.argv[1] == "profiler":
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            result["step_us"] = whole_run()
        events = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA
                  and not e.name.startswith(("Memcpy", "Memset")) and "#" not in e.name]
        result["kernels"] = {}
        for event in events:
            result["kernels"][event.name] = result["kernels"].get(event.name, 0) + 1
        result["kernel_ns"] = int(sum(e.time_range.elapsed_us() for e in events) * 1000)
    else:
        result["step_us"] = whole_run()
    print(json.dumps(result))


def whole_run():
    model, optimizer = build()
    data = torch.randn(128, 256, device="cuda")
    target = torch.randint(0, 10, (128,), device="cuda")
    return steps(model, optimizer, data, target)


main()
