#!/usr/bin/env python3
"""What the tracer adds to a process's start and end: CPU time, wall time, page faults, files left.

Ways: plain; the tracer loaded but off; a child of a traced program; a trace's first process.  Programs: /bin/true, which
makes no hooked call, and `cat /dev/null`, which reads.  Each figure is the median of interleaved runs.
"""
import argparse
import os
import statistics
import tempfile
import time


def run(command, environment):
    """(CPU ms, wall ms, page faults)"""
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    if status != 0:
        raise SystemExit("%s: status %d" % (command, status))
    return (usage.ru_utime + usage.ru_stime) * 1e3, wall * 1e3, usage.ru_minflt


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    base = {key: value for key, value in os.environ.items() if not key.startswith(("OPGAP_", "LD_PRELOAD"))}
    traced = {**base, "LD_PRELOAD": os.path.abspath(os.path.join(arguments.build, "libopgap.so"))}
    print("%-14s %-8s %7s %7s %7s %7s %7s %6s" % ("", "", "CPU ms", "added", "wall ms", "added", "faults", "files"))
    for command in (["/bin/true"], ["/bin/cat", "/dev/null"]):
        with tempfile.TemporaryDirectory() as folder:
            ways = {"plain": base, "off": {**traced, "OPGAP_OFF": "1"},
                    "child": {**traced, "OPGAP_SESSION": os.path.join(folder, "child")},
                    "first": {**traced, "OPGAP_SESSION": os.path.join(folder, "first") + "/"}}
            for name in ways:
                os.mkdir(os.path.join(folder, name))
            runs = {name: [] for name in ways}
            for _ in range(arguments.runs):
                for name, environment in ways.items():
                    runs[name].append(run(command, environment))
            middle = {name: [statistics.median(values) for values in zip(*results)] for name, results in runs.items()}
            for name, (cpu, wall, faults) in middle.items():
                plain = middle["plain"]
                print("%-14s %-8s %7.3f %7.3f %7.3f %7.3f %7d %6d" %
                      (" ".join(command), name, cpu, cpu - plain[0], wall, wall - plain[1], faults,
                       len(os.listdir(os.path.join(folder, name)))))


if __name__ == "__main__":
    main()
