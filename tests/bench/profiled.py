"""Runs a training under torch.profiler, the way its user would who wraps the whole script, and writes the trace.

    python profiled.py [--detail] --trace FILE SCRIPT [ARGUMENTS...]

CPU activity alone; --detail: with record_shapes, with_stack and profile_memory.
"""

import argparse
import runpy
import sys

from torch.profiler import ProfilerActivity, profile


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--detail", action="store_true")
    parser.add_argument("--trace", required=True)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    sys.argv = [options.script, *options.arguments]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=options.detail, with_stack=options.detail,
                 profile_memory=options.detail) as profiler:
        runpy.run_path(options.script, run_name="__main__")
    profiler.export_chrome_trace(options.trace)


if __name__ == "__main__":
    main()
