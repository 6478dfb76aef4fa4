"""Data-parallel training over gloo; rank 1 sleeps 30 ms in each of 40 steps."""
import os
import time

import torch
import torch.distributed as dist

STEPS = 40

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    optimizer.zero_grad()
    if dist.get_rank() == 1:
        time.sleep(0.03)
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
os._exit(0)  # the end of gloo's threads is a race that aborts now and then, traced or not
