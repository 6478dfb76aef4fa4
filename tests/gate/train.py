"""A small PyTorch training for quality.sh: a step is a fixed number of small matrix products, so work can be added in
percent.

GATE_STEPS    steps (default 60)
GATE_SLOW     the range "extra" holds that many percent of the step's products more
GATE_WORKERS  DataLoader workers (default 0)
"""

import os

import torch

PRODUCTS = 100
STEPS = int(os.environ.get("GATE_STEPS", "60"))
SLOW = int(os.environ.get("GATE_SLOW", "0"))
WORKERS = int(os.environ.get("GATE_WORKERS", "0"))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * 8

    def __getitem__(self, index):
        return torch.full((64,), float(index % 7))


def products(weight, count):
    result = weight
    for _ in range(count):
        result = torch.mm(weight, result)
    return result


def main():
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.eye(64) * 0.99)
    optimizer = torch.optim.SGD([weight], lr=1e-6)
    for batch in torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=WORKERS):
        optimizer.zero_grad()
        with torch.no_grad():
            products(weight, PRODUCTS)
            if SLOW:
                with torch.autograd.profiler.record_function("extra"):
                    products(weight, PRODUCTS * SLOW // 100)
        (batch @ weight).sum().backward()
        optimizer.step()


main()
