#!/usr/bin/env python3
"""How many instructions a hook adds to its call, exactly, against ceilings.

callgrind replaces no allocator, so the preloaded tracer's malloc is the one that runs, and its counts repeat to the
last digit.  loops.c runs each loop plainly and under the tracer, 1024 times and 2048 times: what the second half costs
more under the tracer is what the hooks add to 1024 calls, the one that is timed included, the first call on a thread
not.  The real function behind a hook runs in both.  The ceilings are what gcc 12 and clang 14 made of it and a small
margin for other compilers: one more test in a hot path would stay below it, a lost fast path or a loop would not.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

COUNT = 1024
EVENTS = {"OPGAP_ALLOC": "events"}
# Runs of loops.c (few enough records in each that the thread never has to drain its own ring), and a ceiling for each
# loop: instructions added to an iteration.
RUNS = [
    ({}, {"malloc_free": 54, "realloc": 34, "mutex": 62, "rwlock_read": 44, "cond_signal": 17, "memcpy_8": 26,
          "read_1": 160}),
    ({}, {"range": 510}),
    ({}, {"torch_op": 560}),
    (EVENTS, {"malloc_free": 185}),
]
SKIPPED = 77


def instructions(arguments, folder, environment, loops, count):
    """{loop: instructions of `count` iterations}"""
    out = os.path.join(folder, "callgrind.out")
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, os.path.join(arguments.bench, "loops"),
               "--count", str(count), "--torch", arguments.torch] + loops
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit("instructions.py: status %d\n%s" % (done.returncode, done.stdout))
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out],
                          stdout=subprocess.PIPE, check=True, text=True).stdout
    counts = {}
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+)\s.*:loop_(\w+)", line)
        if found:
            counts[found.group(2)] = int(found.group(1).replace(",", ""))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    arguments.bench = os.path.join(build, "tests", "bench")
    arguments.torch = os.path.join(build, "tests", "torch", "fake", "good", "libtorch_cpu.so")
    try:
        subprocess.run(["valgrind", "--version"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        print("skipped: valgrind is not installed")
        sys.exit(SKIPPED)
    failed = False
    for settings, ceilings in RUNS:
        counts = []
        for count in (COUNT, 2 * COUNT):
            with tempfile.TemporaryDirectory() as folder:
                traced = {"LD_PRELOAD": os.path.join(build, "libopgap.so"), "OPGAP_LOG": "quiet",
                          "OPGAP_OUT": os.path.join(folder, "trace.opgap"), **settings}
                counts.append(instructions(arguments, folder, {}, list(ceilings), count))
                counts.append(instructions(arguments, folder, traced, list(ceilings), count))
        plain1, traced1, plain2, traced2 = counts
        for loop, ceiling in ceilings.items():
            added = ((traced2[loop] - plain2[loop]) - (traced1[loop] - plain1[loop])) / COUNT
            failed |= added > ceiling
            print("%-12s %-20s %7.2f instructions added, ceiling %d%s" %
                  (loop, " ".join("%s=%s" % pair for pair in settings.items()), added, ceiling,
                   "  too many" if added > ceiling else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
