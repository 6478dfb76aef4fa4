#!/usr/bin/env python3
"""What each hook adds to its call: one table of ns, beside what it could be at best and what peers add.

Every program under test is the same (loops.c).  A round runs it plainly and then once with each way of looking at it;
what a way adds is the difference to the plain run of the same round and the same number of threads, and the table has
the median over the rounds.  "+-" is half the distance of the quartiles of what opgap adds: differences below it are
noise.  Timings decide nothing here; instructions.py has the figures that repeat.

--check makes a short run and exits 1 unless every row and column that this machine can give is there.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROWS = [  # loop, what a reader calls it, what peers can see of it
    ("malloc_free", "malloc+free 16-512 B", "alloc"),
    ("malloc_free_64k", "malloc+free 64 KiB", "alloc"),
    ("realloc", "realloc 64-576 B", "alloc"),
    ("mutex", "mutex lock+unlock, free", "sync"),
    ("mutex_contended", "mutex lock+unlock, contended", "sync"),
    ("rwlock_read", "rwlock rdlock+unlock", "other"),
    ("cond_signal", "cond signal, nobody waits", "other"),
    ("cond_wait", "cond wait+signal, by turns", "other"),
    ("read_1", "read 1 B", "io"),
    ("read_64k", "read 64 KiB", "io"),
    ("memcpy_8", "memcpy 8 B", "other"),
    ("memcpy_1k", "memcpy 1 KiB", "other"),
    ("memcpy_64k", "memcpy 64 KiB", "other"),
    ("memcpy_1m", "memcpy 1 MiB (a span)", "other"),
    ("torch_op", "framework op", "opgap"),
    ("range", "user range", "opgap"),
]
TWO_THREADS_ONLY = {"mutex_contended", "cond_wait"}
SEEN_BY = {"heaptrack": {"alloc"}, "lttng": {"alloc", "sync"}, "strace": {"io"},
           "uftrace": {"alloc", "sync", "io", "other"}, "forward": {"alloc", "sync", "io", "other"},
           "count": {"alloc", "sync", "io", "other"}, "stamp": {"alloc", "sync", "io", "other"},
           "opgap": {"alloc", "sync", "io", "other", "opgap"}, "events": {"alloc"}}
PEERS = ["heaptrack", "strace", "uftrace", "lttng"]
HEADINGS = {"forward": "nothing", "count": "count", "stamp": "stamp", "events": "events"}


class Way:
    """One way of running loops: a command prefix, an environment, and what it left on disk."""

    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments
        self.bytes = self.calls = self.lost = 0

    def loops(self, threads):
        return [loop for loop, _, seen in ROWS if seen in SEEN_BY[self.name]
                and (threads == 2 or loop not in TWO_THREADS_ONLY)]

    def run(self, folder, threads):
        command, environment = self.command(folder)
        return run_loops(self.arguments, command, environment, threads, self.loops(threads))

    def command(self, folder):
        raise NotImplementedError

    def account(self, folder, calls):
        """Adds up what the last run left in the folder; `calls` is how many calls it made."""


class Twin(Way):
    def command(self, folder):
        return [], {"LD_PRELOAD": os.path.join(self.arguments.bench, "libbench_twin_%s.so" % self.name)}


class Opgap(Way):
    def command(self, folder):
        return [], {"LD_PRELOAD": self.arguments.tracer, "OPGAP_OUT": os.path.join(folder, "trace.opgap"),
                    "OPGAP_ALLOC": "events" if self.name == "events" else "count"}

    def account(self, folder, calls):
        trace = os.path.join(folder, "trace.opgap")
        report = json.loads(subprocess.run([self.arguments.opgap, "report", "--format", "json", trace],
                                           stdout=subprocess.PIPE, check=True).stdout)
        self.bytes += folder_bytes(trace)
        self.lost += report["trace"]["lost_records"]
        self.calls += calls


class Heaptrack(Way):
    def command(self, folder):
        return ["heaptrack", "-o", os.path.join(folder, "heap")], {}


class Strace(Way):
    def command(self, folder):
        return ["strace", "-f", "--seccomp-bpf", "-e", "trace=read", "-o", os.path.join(folder, "strace")], {}


class Uftrace(Way):
    def command(self, folder):
        return ["uftrace", "record", "--force", "--no-pager", "-d", os.path.join(folder, "uftrace")], {}


class Lttng(Way):
    LIBRARIES = ["liblttng-ust-libc-wrapper.so", "liblttng-ust-pthread-wrapper.so"]

    def command(self, folder):
        run = lambda *words: subprocess.run(["lttng", *words], stdout=subprocess.DEVNULL, check=True)
        subprocess.run(["lttng", "destroy", "opgap-bench"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if subprocess.run(["pgrep", "-x", "-u", str(os.getuid()), "lttng-sessiond"], stdout=subprocess.DEVNULL).returncode:
            subprocess.run(["lttng-sessiond", "--daemonize", "--no-kernel"], check=True)
        run("create", "opgap-bench", "--output=" + os.path.join(folder, "lttng"))
        run("enable-channel", "-u", "channel", "--subbuf-size=4M", "--num-subbuf=8")
        run("enable-event", "-u", "-c", "channel", "lttng_ust_libc:*,lttng_ust_pthread:*")
        run("start")
        return [], {"LD_PRELOAD": " ".join(find_library(name) for name in self.LIBRARIES)}

    def account(self, folder, calls):
        said = subprocess.run(["lttng", "stop"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        for line in said.splitlines():
            words = line.replace(":", " ").split()
            if "discarded" in line:
                self.lost += sum(int(word) for word in words if word.isdigit())
        subprocess.run(["lttng", "destroy", "opgap-bench"], stdout=subprocess.DEVNULL)
        super().account(folder, calls)
        self.bytes += folder_bytes(os.path.join(folder, "lttng"))
        self.calls += calls


def peer_account(name):
    def account(self, folder, calls):
        self.bytes += folder_bytes(folder)
        self.calls += calls
    return account


for kind in (Heaptrack, Strace, Uftrace):
    kind.account = peer_account(kind.__name__)


def find_library(name):
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        for full in (name, name + ".1"):
            if os.path.exists(os.path.join(folder, full)):
                return os.path.join(folder, full)
    return None


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def run_loops(arguments, prefix, environment, threads, loops):
    """{loop: ns an iteration}"""
    command = prefix + [os.path.join(arguments.bench, "loops"), "--ms", str(arguments.ms), "--threads", str(threads),
                        "--torch", arguments.torch] + loops
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit("hooks.py: %s: status %d\n%s" % (" ".join(command), done.returncode, done.stderr))
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[0]: float(words[2]) for words in lines if len(words) == 3 and words[1] == str(threads)}


def missing_peers():
    tools = {name: shutil.which(name) is not None for name in ("heaptrack", "strace", "uftrace", "lttng")}
    tools["lttng"] = tools["lttng"] and all(find_library(name) for name in Lttng.LIBRARIES)
    return [name for name in PEERS if not tools[name]]


def count_calls(arguments, way, threads):
    """Bytes and losses of an exact number of calls."""
    count = 200 if way.name == "strace" else 20000
    loops = [loop for loop in way.loops(threads) if loop not in ("memcpy_1m", "memcpy_64k", "read_64k")]
    with tempfile.TemporaryDirectory() as folder:
        prefix, environment = way.command(folder)
        command = prefix + [os.path.join(arguments.bench, "loops"), "--count", str(count), "--threads", str(threads),
                            "--torch", arguments.torch] + loops
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                              env={**os.environ, **environment})
        lines = (line.split() for line in done.stdout.splitlines())
        way.account(folder, sum(int(words[2]) for words in lines if len(words) == 3 and words[2].isdigit()))


def measure(arguments, ways, threads):
    """{way: {loop: [ns a round]}}; way "plain" is the unhooked twin."""
    times = {way.name: {} for way in ways}
    times["plain"] = {}
    for _ in range(arguments.rounds):
        every = [loop for loop, _, _ in ROWS if threads == 2 or loop not in TWO_THREADS_ONLY]
        results = {"plain": run_loops(arguments, [], {}, threads, every)}
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                results[way.name] = way.run(folder, threads)
        for name, result in results.items():
            for loop, ns in result.items():
                times[name].setdefault(loop, []).append(ns)
    return times


def added(times, way, loop):
    """ns that a way adds, one figure a round"""
    return [ns - plain for ns, plain in zip(times[way].get(loop, []), times["plain"].get(loop, []))]


def half_quartiles(values):
    ordered = sorted(values)
    return (ordered[(3 * len(ordered) - 1) // 4] - ordered[len(ordered) // 4]) / 2


def cell(values):
    if not values:
        return "-"
    value = statistics.median(values)
    return "%.1f" % value if abs(value) < 1000 else "%.0f" % value


def print_table(names, times_by_threads):
    columns = ["call", "thr", "plain", "opgap", "+-", "events"] + ["nothing", "count", "stamp"] + names
    rows = []
    for loop, title, _ in ROWS:
        for threads, times in times_by_threads.items():
            if loop not in times["plain"]:
                continue
            spread = half_quartiles(added(times, "opgap", loop))
            rows.append([title, str(threads), cell(times["plain"][loop]), cell(added(times, "opgap", loop)),
                         "%.1f" % spread if spread < 1000 else "%.0f" % spread] +
                        [cell(added(times, way, loop)) for way in ["events", "forward", "count", "stamp"] + names])
    widths = [max(len(row[i]) for row in [columns] + rows) for i in range(len(columns))]
    for row in [columns] + rows:
        print("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                        for i, (text, width) in enumerate(zip(row, widths))).rstrip())
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ms", type=float, default=10, help="of one slice; a figure is the median of five")
    parser.add_argument("--peers", default=",".join(PEERS), help="which of them, comma-separated; empty: none")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    arguments.bench = os.path.join(build, "tests", "bench")
    arguments.tracer = os.path.join(build, "libopgap.so")
    arguments.opgap = os.path.join(build, "opgap")
    arguments.torch = os.path.join(build, "tests", "torch", "fake", "good", "libtorch_cpu.so")
    wanted = [name for name in arguments.peers.split(",") if name]
    missing = missing_peers()
    for name in missing:
        if name in wanted:
            print("missing peer: %s (run.sh --install-peers)" % name)
    kinds = {"heaptrack": Heaptrack, "strace": Strace, "uftrace": Uftrace, "lttng": Lttng}
    peers = [kinds[name](name, arguments) for name in PEERS if name in wanted and name not in missing]
    ways = [Opgap("opgap", arguments), Opgap("events", arguments)]
    ways += [Twin(name, arguments) for name in ("forward", "count", "stamp")] + peers
    times = {threads: measure(arguments, ways, threads) for threads in (1, 2)}
    print("ns a call, added to the plain one; median of %d rounds" % arguments.rounds)
    rows = print_table([peer.name for peer in peers], times)
    print()
    for way in ways[:2] + peers:
        count_calls(arguments, way, 2)
        print("%-9s  %9d calls  %6.2f bytes a call  %d lost" % (way.name, way.calls, way.bytes / way.calls, way.lost))
    if arguments.check:
        check(ways, times, rows)


def check(ways, times_by_threads, rows):
    """Every row that there must be, with a figure of every way that sees its calls."""
    expected = 2 * len(ROWS) - len(TWO_THREADS_ONLY)
    failures = [] if len(rows) == expected else ["%d rows instead of %d" % (len(rows), expected)]
    for threads, times in times_by_threads.items():
        for way in ways:
            failures += ["%s, %d threads: no figure of %s" % (way.name, threads, loop)
                         for loop in way.loops(threads) if loop not in times[way.name]]
    failures += ["%s: no bytes" % way.name for way in ways if not isinstance(way, Twin) and way.bytes == 0]
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
