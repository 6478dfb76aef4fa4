#!/usr/bin/env python3
"""schedule_workers_test.py OPGAP PYTHON: workers that are forked while a schedule waits, and live on, are recorded in its window.

Exit status 77 (skipped) when that PYTHON has no torch.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from trace import needs_torch

WAIT, ACTIVE, WORKERS, BATCH, PAUSE_S = 6, 10, 2, 4, 0.005


class Slow:
    def __len__(self):
        return 20 * BATCH

    def __getitem__(self, index):
        time.sleep(PAUSE_S)
        return index


def train():
    import torch
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=WORKERS, persistent_workers=True)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            model(batch.float()[:, None]).sum().backward()
            optimizer.step()


def check(condition, *text):
    if not condition:
        sys.exit("wrong: %s" % (text,))


def main(opgap, python):
    needs_torch(python)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "s.opgap")
        subprocess.run([opgap, "record", "--schedule", "wait=%d,active=%d,repeat=1" % (WAIT, ACTIVE), "-o", trace, "--",
                        python, os.path.abspath(__file__), "train"], check=True)
        report = json.loads(subprocess.run([opgap, "report", "--format", "json", trace], stdout=subprocess.PIPE,
                                           check=True).stdout)
        records = subprocess.run([opgap, "info", "--records", trace], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
    trainer = next(p["pid"] for p in report["processes"] if p["role_kind"] == "trainer")
    edges = [line for line in records.splitlines() if re.match(r"%d \d+ recording " % trainer, line)]
    print("\n".join(edges))
    check([int(re.search(r" status=(\d+)", line).group(1)) for line in edges] == [0, 1, 0], edges)
    window_ns = int(edges[2].split()[3]) - int(edges[1].split()[3])
    loader = report["data_loader"]
    print(json.dumps(loader["processes"]))
    check(report["steps"]["count"] == ACTIVE and loader["fetches"] == ACTIVE, report["steps"]["count"], loader)
    check(len(loader["processes"]) == WORKERS, loader["processes"])
    # what the trainer fetches in the window its workers have sent in it, but for what was ready before and is behind
    sent = sum(w["batches"] for w in loader["processes"])
    check(abs(sent - ACTIVE) <= 2 * WORKERS, sent)
    for worker in loader["processes"]:
        # all but the batch that it was making as the window opened
        check(worker["sleep_ns"] >= (worker["batches"] - 1) * BATCH * PAUSE_S * 1e9, worker)
        check(worker["startup_ns"] is None, worker)
        check(0 < worker["busy_ns"] + worker["idle_ns"] <= window_ns, worker, window_ns)
    check(loader["startup_wait_ns"] == 0, loader)
    check(not any(b["kind"] == "unseen_workers" for b in report["verdict"]["bottlenecks"]), report["verdict"])


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else main(*sys.argv[1:3])
