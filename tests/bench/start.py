#!/usr/bin/env python3
"""What the tracer adds to a process's start and end: CPU time, wall time, page faults, files left.

Ways: plain; a preloaded library that does nothing (twin); the tracer loaded but off; a child of a traced program; a
trace's first process.  Programs: /bin/true, which makes no hooked call, and `cat /dev/null`, which reads.  Each figure is
the median of interleaved runs.  Then forked children (children.c), and shells that start 1000 programs one after the
other, as a whole: dash, which uses vfork, and bash, which forks.

--check compares what does not depend on the speed of the machine with ceilings: the relocations of the library, the
page faults and instructions (valgrind) that a program adds to what the twin adds, and the page faults and system calls
(strace) that a forked child adds.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# What it was when written (gcc 12 and clang 14, glibc 2.36, Linux 6.18), and room for other compilers and kernels.  A
# table of pointers has hundreds of relocations, a variable away from the others is a page fault, and binding all
# functions in the constructor was 180,000 instructions.
MOST_RELOCATIONS = 240         # 215 and 206
MOST_FAULTS = {"off": 7, "child": 7}  # 2 and 1
MOST_INSTRUCTIONS = 34000      # 21,800
# Of a forked child (children.c) up to its exec or end, less the twin's: (system calls, page faults).  A guest of its
# parent's session asks who it is and what the pipe is called, and looks at the program and at whether path and
# environment can be read; a session was 66 and 172.
MOST_OF_CHILD = {"executes": (21, 36), "records": (80, 160)}  # 18 and 20 to 24, 74 and 128 to 132
LOOPS = {"dash": ["dash", "-c", "i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done"],
         "bash": ["bash", "-c", "i=0; while ((i < %d)); do /bin/true && :; ((++i)); done"]}


def run(command, environment):
    """(CPU ms, wall ms, page faults)"""
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    if status != 0:
        raise SystemExit("%s: status %d" % (command, status))
    return (usage.ru_utime + usage.ru_stime) * 1e3, wall * 1e3, usage.ru_minflt


def ways_of(build, folder):
    """{way: environment}, each with a folder of its own for its traces"""
    tracer = os.path.join(build, "libopgap.so")
    base = {key: value for key, value in os.environ.items()
            if not key.startswith(("OPGAP_", "LD_", "CUDA_INJECTION", "NVTX_INJECTION"))}
    traced = {**base, "LD_PRELOAD": tracer}
    inherited = {"CUDA_INJECTION64_PATH": tracer, "NVTX_INJECTION64_PATH": tracer}
    ways = {"plain": base,
            "twin": {**base, "LD_PRELOAD": os.path.join(build, "tests", "bench", "libbench_twin_nothing.so")},
            "off": {**traced, "OPGAP_OFF": "1"},
            "child": {**traced, **inherited, "OPGAP_SESSION": os.path.join(folder, "child")},
            "first": {**traced, "OPGAP_SESSION": os.path.join(folder, "first") + "/"}}
    for name in ways:
        os.mkdir(os.path.join(folder, name))
    return ways


def measure(ways, command, runs):
    """{way: medians of run()}"""
    results = {name: [] for name in ways}
    for _ in range(runs):
        for name, environment in ways.items():
            results[name].append(run(command, environment))
    return {name: [statistics.median(values) for values in zip(*rows)] for name, rows in results.items()}


def print_table(build, runs):
    print("%-14s %-8s %7s %7s %7s %7s %7s %6s" % ("", "", "CPU ms", "added", "wall ms", "added", "faults", "files"))
    for command in (["/bin/true"], ["/bin/cat", "/dev/null"]):
        with tempfile.TemporaryDirectory() as folder:
            middle = measure(ways_of(build, folder), command, runs)
            plain = middle["plain"]
            for name, (cpu, wall, faults) in middle.items():
                print("%-14s %-8s %7.3f %7.3f %7.3f %7.3f %7d %6d" %
                      (" ".join(command), name, cpu, cpu - plain[0], wall, wall - plain[1], faults,
                       len(os.listdir(os.path.join(folder, name)))), flush=True)


def run_children(build, kind, count, environment):
    """Medians of one child: (CPU us, page faults)"""
    done = subprocess.run([os.path.join(build, "tests", "bench", "children"), kind, str(count)], env=environment,
                          stdout=subprocess.PIPE, text=True, check=True)
    return tuple(int(word) for word in done.stdout.split())


def print_children(build, rounds, count):
    """Medians of the rounds' medians."""
    print("\nforked child   %-8s %8s %8s %7s %6s" % ("", "CPU us", "added", "faults", "files"))
    for kind in ("executes", "exits", "records"):
        rows = {}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                ways = ways_of(build, folder)
                for name in ("plain", "twin", "first"):
                    row = run_children(build, kind, count, ways[name])
                    rows.setdefault(name, []).append(row + (len(os.listdir(os.path.join(folder, name))),))
        middle = {name: [statistics.median(values) for values in zip(*row)] for name, row in rows.items()}
        for name, (cpu, faults, files) in middle.items():
            print("%-14s %-8s %8d %+8d %7d %6d" % (kind, "traced" if name == "first" else name, cpu,
                                                 cpu - middle["plain"][0], faults, files), flush=True)


def print_loop(build, rounds, children, shell):
    """A shell and its children: the ratio to the plain run of the same round, its median and half its quartiles' distance."""
    command = LOOPS[shell][:-1] + [LOOPS[shell][-1] % children]
    times = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            ways = ways_of(build, folder)
            for name in ("plain", "twin", "first"):
                times.setdefault(name, []).append(run([shutil.which(command[0])] + command[1:], ways[name]))
    print("\n%s, %d children of /bin/true, one after the other" % (shell, children))
    for name, rows in times.items():
        for figure, unit in ((1, "wall"), (0, "CPU")):
            ratios = [row[figure] / plain[figure] for row, plain in zip(rows, times["plain"])]
            low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            print("%-8s %-4s %9.1f ms  %+6.1f %%  +-%.1f" % ("traced" if name == "first" else name, unit,
                                                       statistics.median(row[figure] for row in rows),
                                                       (statistics.median(ratios) - 1) * 100, (high - low) * 50))


def system_calls(build, kind, environment):
    """Of one forked child, up to its exec or end, both included."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "calls")
        child = os.path.join(build, "tests", "bench", "children")
        # not strace but its child loads the library
        settings = [word for key, value in environment.items() for word in ("-E", key + "=" + value)]
        subprocess.run(["strace", "-f", "-o", out] + settings + [child, kind, "1"], stdout=subprocess.DEVNULL, check=True,
                       env={key: value for key, value in os.environ.items() if not key.startswith(("OPGAP_", "LD_"))})
        with open(out) as file:
            lines = [line.split(maxsplit=1) for line in file]
    parent = lines[0][0]
    count = 0
    for pid, call in lines:
        if pid == parent or not re.match(r"[a-z_0-9]+\(", call):
            continue
        count += 1
        if call.startswith(("execve(", "exit_group(")):
            return count
    raise SystemExit("start.py: strace saw no child")


def relocations(library):
    text = subprocess.run(["readelf", "-rW", library], stdout=subprocess.PIPE, check=True, text=True).stdout
    return len(re.findall(r"^[0-9a-f]+ +[0-9a-f]+ R_", text, re.M))


def instructions(environment):
    """Of /bin/true as a whole, or None without valgrind."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(folder, "out"),
                                   "/bin/true"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True)
        except OSError:
            return None
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) if found else sys.exit("start.py: callgrind said\n" + done.stderr)


def check(build):
    failed = False

    def compare(what, value, most):
        nonlocal failed
        failed |= value > most
        print("%-60s %7d, ceiling %d%s" % (what, value, most, "  too many" if value > most else ""))

    compare("dynamic relocations", relocations(os.path.join(build, "libopgap.so")), MOST_RELOCATIONS)
    with tempfile.TemporaryDirectory() as folder:
        ways = ways_of(build, folder)
        # the environment's size counts: fixed
        ways = {name: {key: value for key, value in way.items() if key.startswith(("OPGAP_", "LD_", "CUDA_", "NVTX_"))}
                for name, way in ways.items()}
        middle = measure(ways, ["/bin/true"], 21)
        for name, most in MOST_FAULTS.items():
            compare("page faults of /bin/true, %s, less the twin's" % name, middle[name][2] - middle["twin"][2], most)
        compare("files left by a child that does nothing", len(os.listdir(os.path.join(folder, "child"))), 0)
        run(["/bin/cat", "/dev/null"], ways["child"])
        left = len(os.listdir(os.path.join(folder, "child")))
        print("%-60s %7d, expected 1" % ("files left by a child that reads", left))
        failed |= left != 1
        for kind, (most_calls, most_faults) in MOST_OF_CHILD.items():
            twin, first = (run_children(build, kind, 21, ways[name])[1] for name in ("twin", "first"))
            compare("page faults of a forked child that %s, less the twin's" % kind, first - twin, most_faults)
            if shutil.which("strace") is None:
                print("left out: system calls (strace is not installed)")
                continue
            twin, first = (system_calls(build, kind, ways[name]) for name in ("twin", "first"))
            compare("system calls of it, less the twin's", first - twin, most_calls)
        twin, child = instructions(ways["twin"]), instructions(ways["child"])
        if twin is None:
            print("left out: instructions (valgrind is not installed)")
        else:
            compare("instructions of /bin/true, child, less the twin's", child - twin, MOST_INSTRUCTIONS)
    sys.exit(1 if failed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--runs", type=int, default=1000, help="of each program and forked child in each way (default: 1000)")
    parser.add_argument("--rounds", type=int, default=7, help="of the shell with its children (default: 7)")
    parser.add_argument("--children", type=int, default=1000, help="of the shell (default: 1000)")
    parser.add_argument("--check", action="store_true", help="compare counts with ceilings, and nothing else")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    if arguments.check:
        check(build)
    print_table(build, arguments.runs)
    print_children(build, arguments.rounds, arguments.runs)
    for shell in LOOPS:
        print_loop(build, arguments.rounds, arguments.children, shell)


if __name__ == "__main__":
    main()
