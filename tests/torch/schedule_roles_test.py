#!/usr/bin/env python3
"""schedule_roles_test.py OPGAP PYTHON: DataLoader workers are known as such where a schedule's windows hold none of their batches.

Windows of one step need not have a message of each worker, or of any; another child of the trainer's is no worker.
Exit status 77 (skipped) when that PYTHON has no torch.
"""
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

from trace import needs_torch

WORKERS, BATCH = 2, 4


class Slow:
    def __len__(self):
        return 10 * BATCH

    def __getitem__(self, index):
        time.sleep(0.002)
        return index


def train():
    import torch
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,), daemon=True)
    child.start()
    print(json.dumps({"child": child.pid}), flush=True)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=WORKERS, persistent_workers=True,
                                         multiprocessing_context="fork")
    for batch in loader:
        optimizer.zero_grad()
        model(batch.float()[:, None]).sum().backward()
        optimizer.step()


def check(condition, *text):
    if not condition:
        sys.exit("wrong: %s" % (text,))


def main(opgap, python):
    needs_torch(python)
    for schedule in ("warmup=1,active=1,repeat=3", "wait=6,active=1,repeat=1"):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "r.opgap")
            done = subprocess.run([opgap, "record", "--schedule", schedule, "-o", trace, "--", python,
                                   os.path.abspath(__file__), "train"], stdout=subprocess.PIPE, check=True)
            report = json.loads(subprocess.run([opgap, "report", "--format", "json", trace], stdout=subprocess.PIPE,
                                               check=True).stdout)
        seen = {p["pid"]: p["role"] for p in report["processes"]}
        print(schedule, seen)
        check(sorted(seen.values()) == ["DataLoader worker 0", "DataLoader worker 1", "child", "trainer"], seen)
        check(seen[json.loads(done.stdout)["child"]] == "child", done.stdout, seen)
        check(len(report["data_loader"]["processes"]) == WORKERS, report["data_loader"])


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else main(*sys.argv[1:3])
