#!/usr/bin/env python3
"""What reading costs: `opgap report` on generated traces of two sizes, and beside the readers of other tools, each on
its own trace of the same loop or training.

CPU time is that of the reading process; "peak" is its resident memory.  A ratio is how much less CPU time opgap takes
for a record than the reader of that row."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hooks

RANKS = 64  # processes of the mix "ranks", with the records of "ops" in all
READERS = ["babeltrace2", "heaptrack_print", "uftrace", "torch.profiler"]
TRAINING = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch, mlp
from torch.profiler import ProfilerActivity, profile
torch.manual_seed(0)
steps, profiled = int(sys.argv[2]), sys.argv[3] == "profiler"
network = mlp.make_network()
optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(mlp.BATCH, mlp.WIDTH), torch.randn(mlp.BATCH, mlp.WIDTH)
def train():
    for _ in range(steps):
        mlp.step(network, optimizer, x, y)
if profiled:
    profiler = profile(activities=[ProfilerActivity.CPU])
    profiler.__enter__()
    train()
    start = time.process_time()
    profiler.__exit__(None, None, None)
    parsed = time.process_time()
    rows = profiler.key_averages()
    done = time.process_time()
    print("READ", sum(row.count for row in rows), parsed - start, done - parsed)
else:
    train()
"""


def read(command, want=0):
    """Runs a reader; (CPU seconds, wall seconds, peak MiB, what it printed)."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != want:
            sys.exit("reader.py: %s: status %d" % (" ".join(command), child.returncode))
        output.seek(0)
        cpu = max(usage.ru_utime + usage.ru_stime, 1e-6)  # some kernels count ticks
        return cpu, wall, usage.ru_maxrss / 1024, output.read().decode(errors="replace")


def report(arguments, trace, threads):
    return read([arguments.opgap, "report", "--threads", str(threads), "--format", "json", trace])


def expect_records(seen, least):
    """A figure a record is worth something only if all were read."""
    if seen < least:
        sys.exit("reader.py: opgap report read %d records of %d" % (seen, least))


def generated(arguments):
    print("%-6s %11s %8s   %-23s   %s" % ("", "", "", "one thread", "two threads"))
    print("%-6s %11s %8s   %6s %6s %9s   %6s %6s %9s %9s" % ("mix", "records", "file MB", "CPU s", "wall s", "M/CPU s",
                                                              "CPU s", "wall s", "M/wall s", "peak MiB"))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for mix, ranks in ("ops", 1), ("alloc", 1), ("ranks", RANKS):
            for records in arguments.records:
                trace = os.path.join(folder, "trace.opgap")
                said = subprocess.run([os.path.join(arguments.bench, "gen"), "--records", str(records), "--mix",
                                       "alloc" if mix == "alloc" else "ops", "--ranks", str(ranks), trace],
                                      stdout=subprocess.PIPE, check=True, text=True).stdout
                records = int(said.split()[0])
                size = hooks.folder_bytes(trace) / 1e6
                best = {}
                for _ in range(arguments.rounds):
                    for threads in 1, 2:
                        *result, said = report(arguments, trace, threads)
                        expect_records(json.loads(said)["trace"]["records"], records)
                        best[threads] = min(best.get(threads, result), result)
                print("%-6s %11d %8.1f   %6.2f %6.2f %9.1f   %6.2f %6.2f %9.1f %9.1f" %
                      (mix, records, size, *best[1][:2], records / best[1][0] / 1e6, *best[2][:2],
                       records / best[2][1] / 1e6, best[2][2]))
                sys.stdout.flush()
                shutil.rmtree(trace)


def record_loop(arguments, way, folder):
    """Leaves a trace of the loop in the folder; returns how many calls were made."""
    prefix, environment = way.command(folder)
    command = prefix + [os.path.join(arguments.bench, "loops"), "--count", str(arguments.calls), "malloc_free"]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True,
                          env={**os.environ, **environment}).stdout
    calls = next(int(words[2]) for words in (line.split() for line in said.splitlines())
                 if words[0:1] == ["malloc_free"])
    way.account(folder, calls)
    return calls


def read_babeltrace2(folder, way, calls):
    cpu, wall, peak, said = read(["babeltrace2", os.path.join(folder, "lttng"), "--component", "sink.utils.counter"])
    return int(re.findall(r"(\d+) Event messages?", said)[-1]), cpu, wall, peak  # it prints its count now and then


def read_heaptrack(folder, way, calls):
    path = next(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("heap"))
    return (calls, *read(["heaptrack_print", "-f", path])[:3])


def read_uftrace(folder, way, calls):
    return (calls, *read(["uftrace", "report", "--no-pager", "-d", os.path.join(folder, "uftrace")])[:3])


def read_opgap(arguments, trace):
    """The records it read, counted by opgap itself, and what that took with one thread."""
    cpu, wall, peak, said = report(arguments, trace, 1)
    return json.loads(said)["trace"]["records"], cpu, wall, peak


def print_reader(name, records, cpu, wall, peak, size, own):
    print("%-36s %10d %8.1f %8.2f %8.2f %9.3f %9.1f %8s" %
          (name, records, size, cpu, wall, records / cpu / 1e6, peak, "%.0f" % (cpu / records / own) if own else ""))
    sys.stdout.flush()


def header(what):
    print("\n%-36s %10s %8s %8s %8s %9s %9s %8s" % (what, "records", "MB", "CPU s", "wall s", "M/CPU s", "peak MiB",
                                                    "x opgap"))


def peers_of_the_loop(arguments, wanted):
    readers = {"babeltrace2": ("babeltrace2 sink.utils.counter", hooks.Lttng, "lttng", read_babeltrace2),
               "heaptrack_print": ("heaptrack_print", hooks.Heaptrack, "heaptrack", read_heaptrack),
               "uftrace": ("uftrace report", hooks.Uftrace, "uftrace", read_uftrace)}
    header("malloc and free, %d times" % arguments.calls)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        way = hooks.Opgap("events", arguments)
        calls = record_loop(arguments, way, folder)
        trace = os.path.join(folder, "trace.opgap")
        read_opgap(arguments, trace)  # the first reading also folds what the program left in its ring into the file
        figures = read_opgap(arguments, trace)
        expect_records(figures[0], calls - way.lost)
        print_reader("opgap report, one thread", *figures, hooks.folder_bytes(trace) / 1e6, None)
    own = figures[1] / figures[0]
    for name, (title, kind, peer, reader) in readers.items():
        if name not in wanted:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            way = kind(peer, arguments)
            calls = record_loop(arguments, way, folder)
            print_reader(title, *reader(folder, way, calls), hooks.folder_bytes(folder) / 1e6, own)
        if way.lost:
            print("  (%d of %d calls were lost when it recorded)" % (way.lost, calls))


def peer_of_the_training(arguments):
    header("an MLP's training, %d steps" % arguments.steps)
    train = [arguments.torch, "-c", TRAINING, os.path.dirname(os.path.abspath(__file__)), str(arguments.steps)]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        trace = os.path.join(folder, "trace.opgap")
        environment = {**os.environ, "LD_PRELOAD": arguments.tracer, "OPGAP_OUT": trace, "OMP_NUM_THREADS": "1"}
        subprocess.run([*train, "plain"], check=True, env=environment, stdout=subprocess.DEVNULL)
        figures = read_opgap(arguments, trace)
        print_reader("opgap report, one thread", *figures, hooks.folder_bytes(trace) / 1e6, None)
        said = json.loads(report(arguments, trace, 1)[3])
        ops = sum(row["calls"] for row in said["hot_ops"] if row["kind"] == "torch")
        print("  (%d of its records are ops)" % ops)
    _, _, peak, said = read([*train, "profiler"])
    words = next(line.split() for line in said.splitlines() if line.startswith("READ"))
    events, parse, average = int(words[1]), float(words[2]), float(words[3])
    own = figures[1] / ops  # all that opgap read, by the ops that both have
    print_reader("torch.profiler, end, key_averages()", events, parse + average, parse + average, peak, 0, own)
    print("  (its end %.2f s, key_averages() %.2f s; in memory, no file; peak: with the training; x opgap: for an op)" %
          (parse, average))


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def missing_readers(arguments):
    """What is missing and how to get it."""
    gone = hooks.missing_peers()
    install = "tests/bench/run.sh --install-peers"
    reasons = {}
    if shutil.which("babeltrace2") is None or "lttng" in gone:
        reasons["babeltrace2"] = install
    if shutil.which("heaptrack_print") is None or "heaptrack" in gone:
        reasons["heaptrack_print"] = install
    if "uftrace" in gone:
        reasons["uftrace"] = install
    if not has_torch(arguments.torch):
        reasons["torch.profiler"] = "%s has no torch: --torch PYTHON" % arguments.torch
    return reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--records", type=int, nargs="*", default=[10000000, 200000000], help="of generated traces")
    parser.add_argument("--rounds", type=int, default=3, help="readings of each; the one with the least CPU time counts")
    parser.add_argument("--calls", type=int, default=1000000, help="rounds of the loop that all tools record")
    parser.add_argument("--steps", type=int, default=300, help="of the training")
    parser.add_argument("--torch", default="/usr/bin/python3", help="a Python with torch")
    parser.add_argument("--peers", default=",".join(READERS), help="which of them, comma-separated; empty: none")
    parser.add_argument("--folder", help="for traces, half a gigabyte; default: that of temporary files")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    arguments.bench = os.path.join(build, "tests", "bench")
    arguments.tracer = os.path.join(build, "libopgap.so")
    arguments.opgap = os.path.join(build, "opgap")
    wanted = [name for name in arguments.peers.split(",") if name]
    unknown = [name for name in wanted if name not in READERS]
    if unknown:
        sys.exit("reader.py: --peers %s: must be of %s" % (",".join(unknown), ", ".join(READERS)))
    generated(arguments)
    missing = missing_readers(arguments)
    for name in wanted:
        if name in missing:
            print("missing peer: %s (%s)" % (name, missing[name]))
    wanted = [name for name in wanted if name not in missing]
    peers_of_the_loop(arguments, wanted)
    if "torch.profiler" in wanted:
        peer_of_the_training(arguments)


if __name__ == "__main__":
    main()
