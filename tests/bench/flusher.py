#!/usr/bin/env python3
"""What becomes of records: bytes in the ring, coded, and compressed on disk; the flusher's CPU time; what is lost.

Each kind is made by one loop of loops.c on two threads, as fast as they can; the last row at about a third of the rate.
Figures are the report's own (trace.overhead).
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

KINDS = [  # title, loop, iterations, bytes of its records in the ring (of one iteration, records of one iteration)
    ("malloc, free as events", "malloc_free", 3000000, 32, 2),
    ("the same, a third of the rate", "malloc_free_third", 3000000, 32, 2),
    ("read", "read_1", 500000, 40, 1),
    ("framework op", "torch_op", 1000000, 32, 1),
    ("user range", "range", 1000000, 32, 1),
]


def run(arguments, loop, count):
    bench = os.path.join(arguments.build, "tests", "bench")
    torch = os.path.join(arguments.build, "tests", "torch", "fake", "good", "libtorch_cpu.so")
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.opgap")
        environment = {**os.environ, "LD_PRELOAD": os.path.join(arguments.build, "libopgap.so"), "OPGAP_OUT": trace,
                       "OPGAP_ALLOC": "events" if loop.startswith("malloc") else "count"}
        subprocess.run([os.path.join(bench, "loops"), "--count", str(count), "--threads", "2", "--torch", torch, loop],
                       env=environment, stdout=subprocess.DEVNULL, check=True)
        report = json.loads(subprocess.run([os.path.join(arguments.build, "opgap"), "report", "--format", "json", trace],
                                           stdout=subprocess.PIPE, check=True).stdout)["trace"]
    overhead, records = report["overhead"], report["records"]
    return (overhead["raw_bytes"] / records, overhead["stored_bytes"] / records, overhead["flusher_cpu_ns"] / records,
            records, 100 * report["lost_records"] / (records + report["lost_records"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    print("%-30s  %6s  %6s  %6s  %12s  %9s  %6s" % ("bytes a record", "ring", "coded", "disk", "flusher ns", "records",
                                                    "lost"))
    for title, loop, count, ring, made in KINDS:
        runs = [run(arguments, loop, count) for _ in range(arguments.rounds)]
        coded, disk, cpu, records, lost = (statistics.median(values) for values in zip(*runs))
        print("%-30s  %6.1f  %6.2f  %6.2f  %12.1f  %9d  %4.1f %%" % (title, ring / made, coded, disk, cpu, records, lost))


if __name__ == "__main__":
    main()
