#!/usr/bin/env python3
"""Two threads that allocate as fast as they can with OPGAP_ALLOC=events: every call is a record or counted as lost.

With the ordinary buffer little or nothing may be lost, with the smallest one most is; either way, for each thread,
records + lost = calls + the records of its life, exactly, and the program makes all its calls.
"""
import os
import subprocess
import sys
import tempfile

COUNT = 400000
CALLS = 4 * COUNT  # of both threads: malloc and free


def run(build, buffer):
    bench = os.path.join(build, "tests", "bench")
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.opgap")
        environment = {**os.environ, "LD_PRELOAD": os.path.join(build, "libopgap.so"), "OPGAP_OUT": trace,
                       "OPGAP_ALLOC": "events", "OPGAP_HOOKS": "alloc", "OPGAP_BUFFER": buffer}
        said = subprocess.run([os.path.join(bench, "loops"), "--count", str(COUNT), "--threads", "2", "malloc_free"],
                              env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
        if said.split()[:3] != ["malloc_free", "2", str(CALLS)]:
            sys.exit("the program said: " + said)
        lines = subprocess.run([os.path.join(bench, "account"), trace], stdout=subprocess.PIPE, check=True,
                               text=True).stdout.splitlines()
    return [[int(word) for word in line.split() if word.isdigit()] for line in lines]


def main():
    build = os.path.abspath(sys.argv[1])
    failures = []
    for buffer in ("64M", "1M"):
        threads = run(build, buffer)
        lost = sum(thread[3] for thread in threads)
        for number, (tid, calls, records, thread_lost) in enumerate(threads):
            life = 1 if number else 0  # the start of the thread that the first one created
            print("buffer %s, thread %d: %d calls, %d records, %d lost" % (buffer, number, calls, records, thread_lost))
            if records + thread_lost != calls + life:
                failures.append("buffer %s: %d + %d is not %d + %d" % (buffer, records, thread_lost, calls, life))
        if len(threads) != 2 or sum(thread[1] for thread in threads) < CALLS:
            failures.append("buffer %s: not the calls of two threads: %s" % (buffer, threads))
        if buffer == "1M" and lost == 0:
            failures.append("nothing was lost: the test did not saturate anything")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
