#!/usr/bin/env python3
"""A second set of trainings that no rule of the verdict was tuned on (docs/VERDICT.md): each was written, with what must
be named, before the report of any of them was looked at.

    second_set.py SCENARIO with|without FOLDER

As train.py, whose parts it uses.
"""
import copy
import os
import re

import torch

from train import FOLDER, MODEL, NAME, PLANTED, batches, plain, train

WORDS = "the quick brown fox jumps over the lazy dog, it said: nothing! " * 400


def tokenizer():
    """Words of a text are looked up by the main thread, in each step, before the model sees them."""
    vocabulary = {}

    def tokenise():
        for word in re.findall(r"\w+|[^\w\s]", WORDS):
            vocabulary.setdefault(word, len(vocabulary))

    plain(lambda: [tokenise() for _ in range(4)], 60)


CATALOGUE = [{"path": "/data/%07d.jpg" % i, "label": i % 1000, "box": [i, i + 1, i + 2, i + 3]} for i in range(120000)] \
    if NAME == "pickled" else None


class Catalogue(torch.utils.data.Dataset):
    """All that is known of each sample is a list of dicts, which each worker gets by pickle."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 48

    def __getitem__(self, item):
        return torch.zeros(16), self.rows[item]["label"]


def pickled():
    rows = CATALOGUE if PLANTED else CATALOGUE[:48]
    train(torch.utils.data.DataLoader(Catalogue(rows), batch_size=4, num_workers=1, multiprocessing_context="spawn"),
          epochs=3)


def validation():
    """After each epoch of 10 batches the whole of the training data is looked at again, by a larger model."""
    wide = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
    held = [torch.zeros(64, 512)] * 30

    def validate():
        with torch.no_grad():
            for batch in held:
                wide(batch)

    for _ in range(5):
        train(batches(10))
        if PLANTED:
            validate()


def retained():
    """The loss is summed up as a tensor: its graph grows, and so does what is looked at in each step."""
    total = [torch.zeros(())]

    def summed():
        loss = MODEL(torch.ones(64, 16)).pow(2).mean()
        total[0] = total[0] + (loss if PLANTED else loss.detach())
        if PLANTED:
            torch.autograd.grad(total[0], MODEL.weight, retain_graph=True)

    train(batches(200), extra=summed)


def tiny_batches():
    """A batch of one row where 64 would do: 64 times the ops."""
    net = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(12)])
    data = torch.zeros(64, 8)

    def forward():
        for rows in data.split(1 if PLANTED else 64):
            net(rows)

    train(batches(40), extra=forward)


def deep_copies():
    """A copy of the model is kept in each step, as those that average weights do it by hand."""
    big = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
    plain(lambda: copy.deepcopy(big), 60)


def items():
    """Each number of a prediction is read by .item()."""
    scores = torch.rand(600)

    def read():
        if PLANTED:
            return sum(score.item() for score in scores)
        return scores.sum().item()

    train(batches(60), extra=read)


def slow_rank_writes():
    """Two ranks of gloo; the second one writes its own copy of the weights in each step."""
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method="file://" + os.path.join(FOLDER, "meet"), rank=rank, world_size=2)
    gradient = torch.zeros(1000)
    weights = bytes(4 << 20)

    def reduce():
        if rank == 1 and PLANTED:
            for part in range(4):
                with open(os.path.join(FOLDER, "rank1.%d" % part), "wb") as file:
                    file.write(weights)
                    os.fsync(file.fileno())
        dist.all_reduce(gradient)

    train(batches(40), extra=reduce)
    dist.destroy_process_group()


SCENARIOS = {
    "tokenizer": tokenizer,
    "pickled": pickled,
    "validation": validation,
    "retained": retained,
    "tiny_batches": tiny_batches,
    "deep_copies": deep_copies,
    "items": items,
    "slow_rank_writes": slow_rank_writes,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    SCENARIOS[NAME]()
