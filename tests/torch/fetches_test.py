#!/usr/bin/env python3
"""fetches_test.py OPGAP PYTHON: each batch is one fetch, with real DataLoaders.

The __next__ that raises StopIteration is none, whether workers end with their epoch, stay, or make an IterableDataset's
batches, and whether an epoch is broken off.  Exit status 77 (skipped) when that PYTHON has no torch.
"""
import json
import os
import subprocess
import sys
import tempfile

from trace import needs_torch

BATCHES, BROKEN_OFF = 10, 6  # of an epoch


def letters(_):
    """A batch that is as long, pickled, as what tells the end of an IterableDataset."""
    return 88 * "x"


def train(kind):
    import torch

    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            return iter(torch.arange(worker.id, 4 * BATCHES, worker.num_workers).float())

    class Uneven(torch.utils.data.IterableDataset):
        def __iter__(self):  # the first worker has none, the last one all but two batches
            worker = torch.utils.data.get_worker_info()
            share = [0] * (worker.num_workers - 2) + [8, 4 * BATCHES - 8]
            return iter(torch.zeros(share[worker.id]))

    class Remainders(torch.utils.data.IterableDataset):
        def __iter__(self):  # each worker drops three
            return iter(torch.zeros(4 * BATCHES // torch.utils.data.get_worker_info().num_workers // 4 * 4 + 3))

    words = kind.split(" ")
    data = {"iterable": Numbers, "uneven": Uneven, "remainders": Remainders}.get(words[-1], lambda: torch.arange(4 * BATCHES).float())()
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=next((int(word) for word in words if word.isdigit()), 2),
                                         persistent_workers="persistent" in kind, drop_last="remainders" in kind,
                                         collate_fn=letters if "letters" in kind else None)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for epoch in range(2):
        for number, batch in enumerate(loader, 1):
            optimizer.zero_grad()
            model(torch.as_tensor(len(batch) * [1.0]).reshape(-1, 1)).sum().backward()
            optimizer.step()
            if "broken" in kind and epoch == 0 and number == BROKEN_OFF:
                break


def check(seen, wanted, what):
    if seen != wanted:
        sys.exit("wrong: %s: %r, not %r" % (what, seen, wanted))


def main(opgap, python):
    needs_torch(python)
    kinds = [("plain", [BATCHES, BATCHES]), ("persistent", [2 * BATCHES]), ("iterable", [BATCHES, BATCHES]),
             ("1 persistent iterable", [2 * BATCHES]), ("2 persistent iterable", [2 * BATCHES]),
             ("3 persistent uneven", [2 * BATCHES]), ("1 persistent remainders", [2 * BATCHES]),
             ("2 persistent remainders", [2 * BATCHES]), ("2 remainders", [BATCHES, BATCHES]),
             ("3 uneven", [BATCHES, BATCHES]), ("1 persistent letters", [2 * BATCHES]),
             ("1 persistent broken off iterable", [BROKEN_OFF + BATCHES]),
             ("2 persistent broken off iterable", [BROKEN_OFF + BATCHES]), ("broken off", [BROKEN_OFF, BATCHES]),
             ("persistent, broken off", [BROKEN_OFF + BATCHES])]
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "f.opgap")
        done = subprocess.run([opgap, "record", "--out", trace, "--", python, os.path.abspath(__file__), "train"] +
                              [kind for kind, _ in kinds], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(done.returncode, 0, done.stderr.decode())
        loader = json.loads(subprocess.run([opgap, "report", "--format", "json", trace], stdout=subprocess.PIPE,
                                           check=True).stdout)["data_loader"]
    seen = [epoch["fetches"] for epoch in loader["epochs"]]
    for kind, epochs in kinds:
        print(kind, seen[:len(epochs)])
        check(seen[:len(epochs)], epochs, "batches of each epoch, " + kind)
        del seen[:len(epochs)]
    check(seen, [], "further epochs")
    check(loader["fetches"], sum(sum(epochs) for _, epochs in kinds), "batches")
    check(loader["waited"] <= loader["fetches"], True, "no more waits than batches")


if __name__ == "__main__":
    if sys.argv[1] == "train":
        for each in sys.argv[2:]:
            train(each)
    else:
        main(*sys.argv[1:])
