"""Sleeps from a place that the test knows, through a C function that calls back into Python."""
import time


class Loader:
    def fetch(self):
        time.sleep(0.002)  # LINE fetch


def inner(loader):
    loader.fetch()  # LINE inner


def step(loader):
    list(map(lambda _: inner(loader), [1]))  # LINE step


def main():
    loader = Loader()
    for _ in range(20):
        step(loader)  # LINE main


main()  # LINE module
