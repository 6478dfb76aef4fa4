#!/usr/bin/env python3
"""schedule_workers_test.py OPGAP PYTHON CONTEXT: DataLoader workers made in this way are recorded in a schedule's window.

fork, spawn and forkserver: while the schedule waits, and live on.  spawn_again and forkserver_again: one pair before the
window, which none of is recorded, and one for the epoch that the window is in.
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


def train(how):
    import torch
    context, _, again = how.partition("_")
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=WORKERS, persistent_workers=not again,
                                         multiprocessing_context=context)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            model(batch.float()[:, None]).sum().backward()
            optimizer.step()


def check(condition, *text):
    if not condition:
        sys.exit("wrong: %s" % (text,))


def main(opgap, python, how):
    needs_torch(python)
    wait = WAIT + (len(Slow()) // BATCH if how.endswith("_again") else 0)
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "s.opgap")
        subprocess.run([opgap, "record", "--schedule", "wait=%d,active=%d,repeat=1" % (wait, ACTIVE), "-o", trace, "--",
                        python, os.path.abspath(__file__), "train", how], check=True)
        report = json.loads(subprocess.run([opgap, "report", "--format", "json", trace], stdout=subprocess.PIPE,
                                           check=True).stdout)
        records = subprocess.run([opgap, "info", "--records", trace], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
    trainer = next(p["pid"] for p in report["processes"] if p["role_kind"] == "trainer")
    edges = [line for line in records.splitlines() if re.match(r"%d \d+ recording " % trainer, line)]
    print("\n".join(edges))
    check([int(re.search(r" status=(\d+)", line).group(1)) for line in edges] == [0, 1, 0], edges)
    # nobody slept where it was recorded before the window; two clocks are read for that: 1 ms is more than they differ by
    sleeps = [line.split() for line in records.splitlines() if line.split()[2:3] == ["clock_nanosleep"]]
    check(all(int(at[3]) >= int(edges[1].split()[3]) - 1000000 for at in sleeps), edges, sleeps)
    window_ns = int(edges[2].split()[3]) - int(edges[1].split()[3])
    loader = report["data_loader"]
    print(json.dumps(loader["processes"]))
    # a batch that came out of turn was taken before the window, which its fetch then is not seen to have done
    check(report["steps"]["count"] == ACTIVE and 0 <= ACTIVE - loader["fetches"] <= WORKERS, report["steps"]["count"],
          loader)
    early = [w for w in loader["processes"] if w["batches"] == 0]
    for worker in early:
        check(worker["busy_ns"] is None and worker["sleep_ns"] is None, worker)
    loader["processes"] = [w for w in loader["processes"] if w not in early]
    check(len(loader["processes"]) == WORKERS and len(early) <= (WORKERS if how.endswith("_again") else 0), early, loader)
    # what the trainer fetches in the window its workers have sent in it, but for what was ready before and is behind
    sent = sum(w["batches"] for w in loader["processes"])
    check(abs(sent - ACTIVE) <= 2 * WORKERS, sent)
    check({int(at[0]) for at in sleeps} == {w["pid"] for w in loader["processes"]}, sleeps, loader)
    for worker in loader["processes"]:
        # all but the batch that it was making as the window opened
        check(worker["sleep_ns"] >= (worker["batches"] - 1) * BATCH * PAUSE_S * 1e9, worker)
        check(worker["startup_ns"] is None, worker)
        check(0 < worker["busy_ns"] + worker["idle_ns"] <= window_ns, worker, window_ns)
    check(loader["startup_wait_ns"] == 0, loader)
    check(not any(b["kind"] == "unseen_workers" for b in report["verdict"]["bottlenecks"]), report["verdict"])


if __name__ == "__main__":
    train(sys.argv[2]) if sys.argv[1] == "train" else main(*sys.argv[1:4])
