#!/usr/bin/env python3
"""How many instructions a hook adds to its call, exactly, against ceilings.

callgrind replaces no allocator, so the preloaded tracer's malloc is the one that runs, and its counts repeat to the
last digit.  loops.c runs each loop plainly and under the tracer, 1024 times and 2048 times: what the second half costs
more under the tracer is what the hooks add to 1024 calls, the one that is timed included, the first call on a thread
not.  The real function behind a hook runs in both.  The ceilings are what each compiler made of it and three
instructions, as one more test in a hot path takes two or three; so they hold for those compilers alone.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

COUNT = 1024
EVENTS = {"OPGAP_ALLOC": "events"}
COPIES = {"OPGAP_MIN_COPY": "0"}
OFF = {"OPGAP_OFF": "1"}  # as in every hook outside of a schedule's window, or whose group is not asked for
# Runs of loops.c: few enough records in each that the thread never has to drain its own ring.
RUNS = [
    ({}, ["malloc_free", "realloc", "mutex", "rwlock_read", "cond_signal", "memcpy_8", "read_1"]),
    ({}, ["range"]),
    ({}, ["torch_op"]),
    (EVENTS, ["malloc_free"]),
    (COPIES, ["memcpy_8"]),
    (OFF, ["malloc_free", "realloc", "mutex", "rwlock_read", "cond_signal", "memcpy_8", "read_1"]),
]
# Instructions added to an iteration, by processor, compiler and its major version; in the order of RUNS.  What follows
# read_1 has more room: the C library's string functions differ between processors (range, up to 14), and where the
# upper half of the time changes in a loop, once in two seconds, a segment ends (ops, and malloc_free as events).
CEILINGS = {
    ("x86_64", "GNU", "12"): [44, 33, 56, 40, 18, 20, 119, 386, 364, 130, 92,
                             30, 19, 24, 28, 11, 12, 38],
    ("x86_64", "Clang", "14"): [53, 36, 58, 41, 18, 24, 126, 398, 350, 140, 92,
                               35, 20, 25, 29, 11, 12, 44],
}
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
    parser.add_argument("--compiler", required=True, nargs=3, metavar=("PROCESSOR", "ID", "VERSION"),
                        help="that built it, in CMake's words")
    arguments = parser.parse_args()
    processor, compiler, version = arguments.compiler
    ceilings = CEILINGS.get((processor, compiler, version.split(".")[0]))
    if ceilings is None:
        print("skipped: there are ceilings for %s, not for %s %s on %s" %
              (", ".join("%s %s on %s" % (name, major, machine) for machine, name, major in CEILINGS), compiler, version,
               processor))
        sys.exit(SKIPPED)
    ceilings = iter(ceilings)
    build = os.path.abspath(arguments.build)
    arguments.bench = os.path.join(build, "tests", "bench")
    arguments.torch = os.path.join(build, "tests", "torch", "fake", "good", "libtorch_cpu.so")
    try:
        subprocess.run(["valgrind", "--version"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        print("skipped: valgrind is not installed")
        sys.exit(SKIPPED)
    failed = False
    for settings, loops in RUNS:
        counts = []
        for count in (COUNT, 2 * COUNT):
            with tempfile.TemporaryDirectory() as folder:
                traced = {"LD_PRELOAD": os.path.join(build, "libopgap.so"), "OPGAP_LOG": "quiet",
                          "OPGAP_OUT": os.path.join(folder, "trace.opgap"), **settings}
                counts.append(instructions(arguments, folder, {}, loops, count))
                counts.append(instructions(arguments, folder, traced, loops, count))
        plain1, traced1, plain2, traced2 = counts
        for loop in loops:
            ceiling = next(ceilings)
            added = ((traced2[loop] - plain2[loop]) - (traced1[loop] - plain1[loop])) / COUNT
            failed |= added > ceiling
            print("%-12s %-20s %7.2f instructions added, ceiling %d%s" %
                  (loop, " ".join("%s=%s" % pair for pair in settings.items()), added, ceiling,
                   "  too many" if added > ceiling else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
