"""Becomes the program opgap."""

import os
import sys

from . import PROGRAM


def main():
    os.execv(PROGRAM, ["opgap"] + sys.argv[1:])


if __name__ == "__main__":
    main()
