#!/usr/bin/env python3
"""Trainings that no rule of the verdict was tuned on (docs/VERDICT.md): each was written before the report of any of
them was looked at.

    held_out.py SCENARIO with|without FOLDER

As train.py, whose parts it uses.  Port SLOW_PORT answers each byte with 65536 bytes after a delay.
"""
import collections
import gc
import gzip
import json
import os
import socket
import subprocess
import threading
import time
import zlib

import torch

from train import CHUNK, FOLDER, MODEL, OPTIMIZER, PLANTED, NAME, batches, burn, loader, nothing, plain, read_chunk, \
    train, worker_id

IMAGE = bytes(range(256)) * 375  # 96000 bytes: 200 x 160 pixels of three colours


# ---- data loading ----

PACKED = zlib.compress(IMAGE, 6)


def decode_image(_):
    """As an image library in Python: unpacks, undoes the filter of each line, and makes it brighter."""
    if not PLANTED:
        return
    pixels = zlib.decompress(PACKED)
    above = [0] * 600
    for line in range(0, len(pixels), 600 * 8):
        above = [(a + b) & 255 for a, b in zip(above, pixels[line:line + 600])]
        bytes(min(255, value + 20) for value in above)


VOCABULARY = torch.multiprocessing.get_context("fork").Lock()
TEXT = "the quick brown fox jumps over the lazy dog " * 40


def tokenise():
    counts = collections.Counter(TEXT.split())
    return sorted(counts.items())


def collate_text(samples):
    """All workers share one table of words, and hold its lock while they look at a text."""
    for _ in samples:
        if PLANTED:
            with VOCABULARY:
                for _ in range(40):
                    tokenise()
        else:
            tokenise()
    return [torch.zeros(len(samples), 16)]


def small_files(_):
    """A sample of four files of 2 KiB, each opened for itself."""
    for _ in range(4):
        name = "small%d" % worker_id() if PLANTED else "fast"
        with open(os.path.join(FOLDER, name), "rb", buffering=0) as file:
            file.read(2048)


def gan():
    """Two optimizers in one round, and one worker that reads from a slow disk."""
    critic = torch.nn.Linear(16, 1)
    second = torch.optim.Adam(critic.parameters(), lr=0.01)
    for batch in loader(160, lambda _: read_chunk("slow0" if PLANTED else "fast"), 1, batch=4):
        for _ in range(2):
            second.zero_grad()
            critic(MODEL(batch[0]).detach()).sum().backward()
            second.step()
        OPTIMIZER.zero_grad()
        critic(MODEL(batch[0])).sum().backward()
        OPTIMIZER.step()


def evaluation():
    """After each epoch of 8 steps an evaluation whose data is read from the slow disk by the training process."""
    held = loader(8, lambda _: read_chunk("slow0" if PLANTED else "fast"), 0, batch=2)
    for _ in range(5):
        train(batches(8))
        with torch.no_grad():
            for batch in held:
                MODEL(batch[0])


def unpack_in_child(_):
    """Decodes by a program of its own, as trainings on video do."""
    path = os.path.join(FOLDER, "packed.gz")
    if PLANTED:
        subprocess.run(["gzip", "-dc", path], stdout=subprocess.PIPE, check=True)
    else:
        with open(path, "rb") as file:
            file.read()


def child_decode():
    with gzip.open(os.path.join(FOLDER, "packed.gz"), "wb") as file:
        file.write(IMAGE)
    train(loader(160, unpack_in_child, 2))


connections = {}


def ask_server(_):
    """A sample from an object store."""
    if os.getpid() not in connections:
        connections[os.getpid()] = socket.create_connection(("127.0.0.1", int(os.environ["SLOW_PORT"])))
    connection = connections[os.getpid()]
    connection.sendall(b"?")
    left = CHUNK
    while left > 0:
        left -= len(connection.recv(left))


def large_samples_of_worker_2(_):
    burn(0.012 if PLANTED and worker_id() == 2 else 0.0005)


# ---- the training process ----

def accumulation():
    """Four small batches to a step, each of hundreds of ops on 8 numbers; or of a few."""
    weight = torch.ones(8, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1e-6)
    for _ in range(25):
        optimizer.zero_grad()
        for _ in range(4):
            value = weight
            for _ in range(250 if PLANTED else 2):
                value = value * 0.999 + 0.001
            value.sum().backward()
        optimizer.step()


def checkpoints():
    """Every fifth step is saved, and reaches the disk."""
    state = {"weights": torch.zeros(6 << 20)}
    done = [0]

    def save():
        done[0] += 1
        if done[0] % 5 == 0 and PLANTED:
            with open(os.path.join(FOLDER, "model.pt"), "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())

    train(batches(60), extra=save)


def log_fsync():
    log = open(os.path.join(FOLDER, "train.log"), "w")

    def write():
        for name in ("loss", "accuracy", "rate", "norm"):
            log.write("%s %f\n" % (name, time.time()))
            log.flush()
            os.fsync(log.fileno())

    plain(write, 60)


def garbage():
    """A collection in each step, with many objects alive."""
    alive = [[[i], {"next": i}] for i in range(150000)]
    plain(gc.collect, 30)
    return alive


def metrics():
    """A table of errors made by Python, number by number."""
    labels = [i % 10 for i in range(20000)]
    plain(lambda: collections.Counter(zip(labels, reversed(labels))).most_common(5))


def omp_trainer():
    torch.set_num_threads(8 if PLANTED else 1)
    image = torch.zeros(60000)
    train(batches(60), extra=lambda: [torch.exp(image) for _ in range(40)])


def fresh_buffers():
    """A buffer of 48 MiB made new in each step, or kept."""
    kept = torch.zeros(12 << 20)
    train(batches(40), extra=lambda: (torch.empty(12 << 20) if PLANTED else kept).fill_(1))


def json_thread():
    """A thread that writes the state of the run as JSON all the time."""
    stop = []
    state = {str(i): list(range(20)) for i in range(4000)}

    def write():
        while not stop:
            json.dumps(state, indent=1)

    thread = threading.Thread(target=write)
    if PLANTED:
        thread.start()
    train(batches(100), extra=lambda: [torch.zeros(64).sum().item() for _ in range(20)])
    stop.append(1)
    if PLANTED:
        thread.join()


def balanced():
    left = torch.ones(500, 500)
    train(loader(160, nothing, 1), extra=lambda: torch.mm(left, left))


SCENARIOS = {
    "image_decode": lambda: train(loader(240, decode_image, 2, batch=8)),
    "token_lock": lambda: train(torch.utils.data.DataLoader(range(180), batch_size=6, num_workers=3,
                                                            collate_fn=collate_text)),
    "small_files": lambda: train(loader(160, small_files, 2)),
    "gan": gan,
    "evaluation": evaluation,
    "child_decode": child_decode,
    "object_store": lambda: train(loader(200, ask_server, 1 if PLANTED else 4), extra=lambda: burn(0.012)),
    "large_samples": lambda: train(loader(240, large_samples_of_worker_2, 3)),
    "spawned": lambda: train(loader(24, nothing, 2, multiprocessing_context="spawn", persistent_workers=not PLANTED),
                             epochs=4),
    "accumulation": accumulation,
    "checkpoints": checkpoints,
    "log_fsync": log_fsync,
    "garbage": garbage,
    "metrics": metrics,
    "omp_trainer": omp_trainer,
    "fresh_buffers": fresh_buffers,
    "json_thread": json_thread,
    "feature_store": lambda: plain(lambda: ask_server(0)),
    "balanced": balanced,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    SCENARIOS[NAME]()
