"""Trains a small convolutional network on scikit-learn's handwritten digits, read from image files.

The digits (1,797 images, a real data set that ships inside scikit-learn) are first written to disk as PNG files.  The
training then does what trainings do: worker processes open, decode and augment each file, the main process computes.
"""

import argparse
import os
import random
import time

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

FILE_SIZE = 224  # pixels a side, as stored
INPUT_SIZE = 32  # pixels a side, as the network sees them
TEST_COUNT = 360


def write_images(folder):
    """Writes the data set as folder/train/LABEL/NUMBER.png and folder/test/..., once."""
    if os.path.exists(os.path.join(folder, "complete")):
        return
    digits = load_digits()
    order = np.random.RandomState(0).permutation(len(digits.images))
    for place, number in enumerate(order):
        part = "test" if place < TEST_COUNT else "train"
        where = os.path.join(folder, part, str(digits.target[number]))
        os.makedirs(where, exist_ok=True)
        image = Image.fromarray((digits.images[number] * 15.9).astype(np.uint8))
        image = image.resize((FILE_SIZE, FILE_SIZE), Image.BICUBIC)
        image.save(os.path.join(where, f"{number:04d}.png"))
    with open(os.path.join(folder, "complete"), "w"):
        pass


class DigitFiles(Dataset):
    """Image files by label.  Each access opens and decodes the file; `augment` also turns and shifts the image."""

    def __init__(self, folder, augment):
        self.augment = augment
        self.files = []
        for label in sorted(os.listdir(folder)):
            for name in sorted(os.listdir(os.path.join(folder, label))):
                self.files.append((os.path.join(folder, label, name), int(label)))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        with Image.open(path) as image:
            image = image.convert("L")
        if self.augment:
            angle, dx, dy = (torch.rand(3) * 2 - 1).tolist()
            image = image.rotate(angle * 15, Image.BICUBIC, translate=(int(dx * 16), int(dy * 16)))
        image = image.resize((INPUT_SIZE, INPUT_SIZE), Image.BICUBIC)
        pixels = torch.from_numpy(np.asarray(image, dtype=np.float32) / 255)
        return (pixels - 0.3).div(0.35).unsqueeze(0), label


def make_network():
    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(1, 16), *block(16, 32), *block(32, 64), nn.Flatten(), nn.Linear(64 * 16, 10))


def train_epoch(network, loader, optimizer):
    network.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def accuracy(network, loader):
    network.eval()
    right = count = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (network(images).argmax(1) == labels).sum().item()
            count += len(labels)
    return right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="digits", help="folder of the image files, written if it is not there")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    write_images(options.data)
    train_files = DigitFiles(os.path.join(options.data, "train"), augment=True)
    test_files = DigitFiles(os.path.join(options.data, "test"), augment=False)
    loader = DataLoader(train_files, options.batch, shuffle=True, num_workers=options.workers)
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    print(f"{len(train_files)} images, {len(loader)} steps an epoch, {options.epochs} epochs")
    for epoch in range(options.epochs):
        start = time.perf_counter()
        loss = train_epoch(network, loader, optimizer)
        print(f"epoch {epoch + 1}: loss {loss:.3f}, {time.perf_counter() - start:.1f} s", flush=True)
    print(f"test accuracy {accuracy(network, DataLoader(test_files, 60)):.3f}")


if __name__ == "__main__":
    main()
