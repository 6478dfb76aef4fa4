"""A small training with a fixed seed.  WORKERS, OPTIMIZER, START (fork, spawn or forkserver), PERSISTENT, THREADS from the environment.

With PROFILE=PATH it runs under torch.profiler and writes what the profiler counted, one line an event name:
NAME, raw events, key_averages' count, key_averages' self CPU time in microseconds.
"""
import collections
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Doubling(torch.utils.data.Dataset):
    """Runs one operator a sample, in whichever process loads it."""

    def __len__(self):
        return 320

    def __getitem__(self, index):
        return torch.full((32,), float(index)).mul(2.0), index % 10


def train():
    torch.manual_seed(0)
    workers = int(os.environ.get("WORKERS", "0"))
    loader = DataLoader(Doubling(), batch_size=32, shuffle=True, num_workers=workers,
                        multiprocessing_context=os.environ.get("START", "fork") if workers else None,
                        persistent_workers="PERSISTENT" in os.environ)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    if os.environ.get("OPTIMIZER", "adam") == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_function, total = nn.CrossEntropyLoss(), 0.0
    for _ in range(2):
        for samples, labels in loader:
            optimizer.zero_grad()
            with torch.autograd.profiler.record_function("forward"):
                loss = loss_function(model(samples), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total


def profiled(path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        result = train()
    raw = collections.Counter(event.name() for event in profiler.profiler.kineto_results.events())
    averages = {event.key: event for event in profiler.key_averages()}
    with open(path, "w") as out:
        for name in sorted(set(raw) | set(averages)):
            average = averages.get(name)
            out.write("%s\t%d\t%d\t%.3f\n" % (name, raw[name], average.count if average else 0,
                                              average.self_cpu_time_total if average else 0.0))
    return result


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    path = os.environ.get("PROFILE")
    print("result %.6f" % (profiled(path) if path else train()))
    sys.stdout.flush()
