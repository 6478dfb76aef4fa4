#!/usr/bin/env python3
"""pin_test.py OPGAP PYTHON: the pin-memory thread, and what making workers costs, with a real DataLoader.

Without a GPU PyTorch starts no such thread, so the training is told that there is one and pinning is a copy; the thread
runs PyTorch's own loop on its own queues.  Exit status 77 (skipped) when that PYTHON has no torch.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from trace import needs_torch

EPOCHS, WORKERS, BATCHES = 3, 2, 10
STARTUP_S, PIN_S = 0.3, 0.003  # asleep in each worker when it starts; on a CPU for each batch


def open_index(_):
    time.sleep(STARTUP_S)


def train():
    import torch

    def pin_memory(tensor, *_):
        end = time.thread_time() + PIN_S
        while time.thread_time() < end:
            pass
        return tensor.clone()

    torch.Tensor.pin_memory = pin_memory
    gpu = getattr(torch, "accelerator", torch.cuda)
    gpu.is_available = lambda: True
    gpu.current_accelerator = lambda *_: torch.device("cuda")
    gpu.current_device_index = gpu.current_device = lambda: 0
    gpu.set_device_index = gpu.set_device = lambda _: None
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(torch.zeros(4 * BATCHES, 4), batch_size=4, num_workers=WORKERS,
                                         pin_memory=True, worker_init_fn=open_index)
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()


def check(condition, text):
    if not condition:
        sys.exit("wrong: " + text)


def main(opgap, python):
    needs_torch(python)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "pin.opgap")
        done = subprocess.run([opgap, "record", "--out", trace, "--", python, os.path.abspath(__file__), "train"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(done.returncode == 0, done.stderr.decode())
        loader = json.loads(subprocess.run([opgap, "report", "--format", "json", trace], stdout=subprocess.PIPE,
                                           check=True).stdout)["data_loader"]
        text = subprocess.run([opgap, "report", trace], stdout=subprocess.PIPE, check=True).stdout.decode()
    pin, epochs = loader["pin_memory"], loader["epochs"]
    print(json.dumps(pin), json.dumps(epochs, indent=1), sep="\n")
    check(pin is not None and pin["threads"] == EPOCHS, "not one thread an epoch")
    check(pin["batches"] == EPOCHS * BATCHES, "not each batch once")
    # behind its last record, which is that of the last batch at the earliest, a thread may do anything
    check(pin["busy_ns"] >= EPOCHS * (BATCHES - 1) * PIN_S * 1e9, "less than it was on a CPU")
    check(0 <= pin["ready_batches"] <= loader["ready_batches"] <= 2 * WORKERS + 1, "more batches ready than there are")
    check("pin-memory thread: %d batches" % (EPOCHS * BATCHES) in text, "the report does not tell of it")
    check(loader["fetches"] == EPOCHS * BATCHES, "not one fetch a batch in all")
    check(len(epochs) == EPOCHS, "not one row an epoch")
    for epoch in epochs:
        check(epoch["workers"] == WORKERS, "workers of another epoch")
        check(epoch["fetches"] == BATCHES, "not one fetch a batch: the last one finds the end")
        check(min(epoch["startup_ns"], epoch["first_batch_ns"]) >= STARTUP_S * 1e9, "its workers slept longer")
        check(epoch["first_wait_ns"] <= epoch["first_batch_ns"], "waited for longer than workers were there")
        check(epoch["first_wait_ns"] <= epoch["wait_ns"], "one wait is more than all")


if __name__ == "__main__":
    if sys.argv[1:] == ["train"]:
        train()
    else:
        main(*sys.argv[1:])
