#!/usr/bin/env python3
"""Small PyTorch trainings, each with one planted bottleneck.

    train.py SCENARIO with|without FOLDER

`without` is the same training after the bottleneck was really removed.  FOLDER is for files; in it the runner feeds the
pipes slow0, slow1, ... 65536 bytes at a time, each after a delay (a slow disk), and fast holds the same bytes.
"""
import ctypes
import os
import subprocess
import sys
import threading
import time

import torch

NAME, PLANTED, FOLDER = sys.argv[1], sys.argv[2] == "with", sys.argv[3]
CHUNK = 65536
libc = ctypes.CDLL(None)


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Data(torch.utils.data.Dataset):
    """`make(item)` is what making a sample costs."""

    def __init__(self, count, make):
        self.count, self.make = count, make

    def __len__(self):
        return self.count

    def __getitem__(self, item):
        self.make(item)
        return torch.zeros(16), 0


def nothing(_):
    pass


files = {}


def read_chunk(path):
    if path not in files:
        files[path] = open(os.path.join(FOLDER, path), "rb", buffering=0)
    file = files[path]
    left = CHUNK
    while left > 0:
        block = file.read(left)
        if not block:
            file.seek(0)
        left -= len(block)


def worker_id():
    info = torch.utils.data.get_worker_info()
    return info.id if info else 0


def slow_disk(_):
    read_chunk("slow%d" % worker_id() if PLANTED else "fast")


def slow_disk_of_worker_1(_):
    read_chunk("slow1" if PLANTED and worker_id() == 1 else "fast")


def decode(_):
    burn(0.006 if PLANTED else 0.0002)


def pause(_):
    time.sleep(0.01)


LOCK = torch.multiprocessing.get_context("fork").Lock()


def locked(_):
    if PLANTED:
        with LOCK:
            time.sleep(0.004)
    else:
        time.sleep(0.004)


def parallel_augmentation(_):
    image = torch.zeros(500000)
    for _ in range(6):
        image = torch.exp(image) * 0.5


def threads_in_worker(_):
    torch.set_num_threads(8 if PLANTED else 1)


def open_index(_):
    """What a worker does once: 1.5 s."""
    time.sleep(1.5)


def loader(samples, make, workers, batch=4, **more):
    return torch.utils.data.DataLoader(Data(samples, make), batch_size=batch, num_workers=workers, **more)


MODEL = torch.nn.Linear(16, 16)
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.01)


def train(data, epochs=1, extra=None):
    for _ in range(epochs):
        for batch in data:
            OPTIMIZER.zero_grad()
            MODEL(batch[0]).sum().backward()
            if extra is not None:
                extra()
            OPTIMIZER.step()


def batches(steps):
    """They are there at once."""
    return [(torch.zeros(4, 16),)] * steps


def plain(extra, steps=40):
    train(batches(steps), extra=extra if PLANTED else None)


def gil():
    stop = []

    def spin():
        while not stop:
            burn(0.01)

    thread = threading.Thread(target=spin)
    if PLANTED:
        thread.start()
    train([(torch.zeros(4, 16),)] * 100, extra=lambda: [torch.zeros(64).sum().item() for _ in range(20)])
    stop.append(1)
    if PLANTED:
        thread.join()


def checkpoint():
    with open(os.path.join(FOLDER, "checkpoint"), "wb", buffering=0) as file:
        for _ in range(16):
            file.write(bytes(1 << 20))
        os.fsync(file.fileno())


def tiny_ops():
    value = torch.zeros(1)
    for _ in range(1500):
        value = torch.add(value, 1)


def matrix(size):
    left = torch.ones(size, size)
    return lambda: torch.mm(left, left)


def ranks():
    """Two ranks of gloo; the second one is late."""
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method="file://" + os.path.join(FOLDER, "meet"), rank=rank, world_size=2)
    gradient = torch.zeros(1000)

    def reduce():
        if rank == 1 and PLANTED:
            time.sleep(0.02)
        dist.all_reduce(gradient)

    train([(torch.zeros(4, 16),)] * 40, extra=reduce)
    dist.destroy_process_group()


SCENARIOS = {
    "slow_disk": lambda: train(loader(200, slow_disk, 2)),
    "slow_decode": lambda: train(loader(200, decode, 1)),
    "too_few_workers": lambda: train(loader(200, pause, 1 if PLANTED else 5), extra=lambda: burn(0.02)),
    "slow_worker": lambda: train(loader(240, slow_disk_of_worker_1, 2)),
    "worker_restart": lambda: train(loader(40, nothing, 2, worker_init_fn=open_index,
                                           persistent_workers=not PLANTED), epochs=5),
    "dataset_lock": lambda: train(loader(320, locked, 4)),
    "no_workers": lambda: train(loader(200, lambda _: burn(0.004), 0 if PLANTED else 2), extra=lambda: burn(0.004)),
    "omp_in_workers": lambda: train(loader(200, parallel_augmentation, 2, worker_init_fn=threads_in_worker)),
    "sleep": lambda: plain(lambda: time.sleep(0.02)),
    "checkpoint": lambda: plain(checkpoint),
    "read_in_loop": lambda: plain(lambda: read_chunk("slow0")),
    "gil": gil,
    "child_process": lambda: plain(lambda: subprocess.run(["sleep", "0.02"], check=True)),
    "tiny_ops": lambda: plain(tiny_ops),
    "python": lambda: plain(lambda: burn(0.02)),
    "compute": lambda: plain(matrix(600)),
    "slow_rank": ranks,
    "read_and_sleep": lambda: train(loader(200, slow_disk, 2), extra=lambda: time.sleep(0.1) if PLANTED else None),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    SCENARIOS[NAME]()
