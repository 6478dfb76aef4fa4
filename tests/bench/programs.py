#!/usr/bin/env python3
"""What tracing adds to whole programs: CPU time, wall time, peak memory, and the size of the trace.

A round runs a program plainly and then once with each way of looking at it; a percentage is the median over the rounds
of (this run / the plain run of the same round - 1), and "+-" half the distance of its quartiles.  CPU time is user and
system time of the program and of all its children; peak memory is the largest process's.  "trace" is what lies on disk
afterwards, "a step" that divided by the steps of a training.  torch.profiler's times hold the writing of its trace, as
opgap's do.  What runs now is said on stderr; a program's table is printed when its last round is over.
"""
import argparse
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIMIT_S, LIMIT_RATIO = 60, 40  # a run ends within the first, or within this many times the plain program's time


class Program:
    """command(folder): what runs.  A training has a `script`, which a way can wrap or give further arguments."""

    def __init__(self, name, command, ways, setup=None, environment=None, script=None):
        self.name, self.command, self.ways, self.script = name, command, ways, script
        self.setup, self.environment = setup or (lambda folder: None), environment or {}


class Way:
    """prefix: stands before the command; wrapper: before the script, behind the interpreter; extra: behind the command."""

    def __init__(self, name, prefix=(), environment=None, wrapper=(), extra=(), tool=None, slow=False):
        self.name, self.prefix, self.tool, self.slow = name, list(prefix), tool, slow
        self.environment, self.wrapper, self.extra = environment or {}, list(wrapper), list(extra)

    def available(self):
        return self.tool is None or shutil.which(self.tool) is not None


def make_ways(build):
    opgap = {"LD_PRELOAD": os.path.join(build, "libopgap.so"), "OPGAP_OUT": "{out}/trace.opgap"}
    detailed = {**opgap, "OPGAP_ALLOC": "events", "OPGAP_MIN_COPY": "0", "OPGAP_STACKS": "python"}
    return {
        "opgap": Way("opgap", environment=opgap),
        "detailed": Way("opgap, all details", environment=detailed),
        "observer": Way("torch, empty callbacks", extra=["--observer", build + "/tests/bench/libbench_twin_torch.so"]),
        "cpu": Way("torch.profiler, CPU", wrapper=[HERE + "/profiled.py", "--trace", "{out}/trace.json"], slow=True),
        "all": Way("torch.profiler, all", wrapper=[HERE + "/profiled.py", "--detail", "--trace", "{out}/trace.json"],
                   slow=True),
        "heaptrack": Way("heaptrack", ["heaptrack", "-o", "{out}/heap"], tool="heaptrack", slow=True),
        "uftrace": Way("uftrace", ["uftrace", "record", "--force", "--no-pager", "-d", "{out}/uftrace"], tool="uftrace",
                       slow=True),
    }


def find_tool(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def sqlite_script(folder):
    with open(os.path.join(folder, "insert.sql"), "w") as file:
        file.write("create table t(id integer primary key, name text, value real);\nbegin;\n")
        for i in range(150000):
            file.write("insert into t(name, value) values('name %d', %d.5);\n" % (i % 977, i))
        file.write("commit;\nselect count(*), sum(value) from t group by name limit 1;\n")


def make_programs(arguments):
    """Programs that this machine can run; what it cannot is named."""
    programs = []

    def add(needs, program):
        missing = [tool for tool in needs if find_tool(tool) is None]
        if missing:
            print("left out: %s (no %s)" % (program.name, ", ".join(missing)))
        else:
            programs.append(program)

    plain_ways = ["opgap", "detailed", "heaptrack"]
    add(["python3"], Program("python3, a loop", lambda folder: [
        "python3", "-c", "x = {}\nfor i in range(1500000): x[i & 1023] = str(i)"], plain_ways + ["uftrace"]))
    add(["git"], Program("git log -p", lambda folder: [
        "git", "-C", arguments.git, "--no-pager", "log", "-p", "--stat"], plain_ways))
    sources = [os.path.join(ROOT, "src", "analysis", name) for name in ("ops.c", "gaps.c", "gpu.c", "compare.c")]
    compile_each = "for f in %s; do cc -O2 -D_GNU_SOURCE -DOPGAP_VERSION='\"0\"' -I%s/src -I%s/include -c -o %s $f || exit 1; done"
    add(["cc"], Program("compile job", lambda folder: [
        "sh", "-c", compile_each % (" ".join(sources), ROOT, ROOT, folder + "/o.o")], plain_ways[:2]))
    add(["sqlite3"], Program("sqlite3, 150,000 inserts", lambda folder: [
        "sh", "-c", "rm -f %s/db; exec sqlite3 %s/db <%s/insert.sql" % (folder, folder, folder)],
        plain_ways, setup=sqlite_script))
    redis = ("redis-server --save '' --appendonly no --port 0 --unixsocket %s/redis --logfile %s/log & "
             "while ! redis-cli -s %s/redis ping >/dev/null 2>&1; do sleep 0.05; done; unset LD_PRELOAD; "
             "redis-benchmark -s %s/redis -q -n 150000 -c 20 -t set,get >&2; redis-cli -s %s/redis shutdown nosave; wait")
    add(["redis-server", "redis-benchmark"], Program("redis-server under redis-benchmark", lambda folder: [
        "sh", "-c", redis % ((folder,) * 5)], plain_ways[:2]))
    for name, python in (("1.13", arguments.torch1), ("2.x", arguments.torch2)):
        if subprocess.run([python, "-c", "import torch, sklearn, PIL"], stderr=subprocess.DEVNULL).returncode:
            print("left out: trainings with PyTorch %s (%s lacks it)" % (name, python))
            continue
        for threads in (1, 2):
            # the slowest peers once: the number of OpenMP's threads changes little for them
            peers = ["cpu", "all", "heaptrack", "uftrace"] if threads == 1 else ["cpu"] if arguments.fast else ["cpu", "all"]
            settings = {"environment": {"OMP_NUM_THREADS": str(threads)}}
            script = [HERE + "/mlp.py", "--steps", str(arguments.steps)]
            programs.append(Program("MLP, torch %s, OMP_NUM_THREADS=%d" % (name, threads),
                                    lambda folder, python=python: [python], ["opgap", "detailed", "observer"] + peers,
                                    script=script, **settings))
            for workers in (0, 2):
                script = [ROOT + "/tools/demo/train.py", "--data", arguments.data, "--epochs", str(arguments.epochs),
                          "--workers", str(workers)]
                programs.append(Program(
                    "demo's training, torch %s, OMP_NUM_THREADS=%d, num_workers=%d" % (name, threads, workers),
                    lambda folder, python=python: [python], ["opgap", "detailed"] + peers, script=script, **settings))
    return programs


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def run_once(program, way, folder, limit_s=900):
    """(CPU s, wall s, peak bytes, trace bytes, steps, steps/s), or why there are none: it failed, or did not end (heaptrack
    waits for ever where DataLoader workers were forked)."""
    out = tempfile.mkdtemp(dir=folder)
    fill = lambda text: text.replace("{out}", out)
    words = (way.prefix if way else []) + program.command(folder)
    if program.script:
        words += (way.wrapper if way else []) + program.script + (way.extra if way else [])
    command = [fill(word) for word in words]
    environment = {**os.environ, **program.environment}
    environment.update({key: fill(value) for key, value in (way.environment if way else {}).items()})
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(os.path.join(folder, "said"), "w+", errors="replace") as said:
        child = subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL, env=environment,
                                 start_new_session=True)
        limit = threading.Timer(limit_s, os.killpg, (child.pid, signal.SIGKILL))
        limit.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:  # Ctrl-C does not reach its session
            os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            limit.cancel()
        wall = time.perf_counter() - start
        child.returncode = status
        said.seek(0)
        text = said.read(1 << 20)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    traced = folder_bytes(out)
    shutil.rmtree(out)
    found = re.search(r"steps (\d+), ([\d.]+) steps/s", text) or re.search(r"(\d+) steps an epoch, (\d+) epochs", text)
    steps, rate = 0, 0.0
    if found and "epochs" in found.group(0):
        steps = int(found.group(1)) * int(found.group(2))
    elif found:
        steps, rate = int(found.group(1)), float(found.group(2))
    if status != 0:
        return "failed" if wall < limit_s else "no end in %d s" % limit_s
    return cpu, wall, usage.ru_maxrss * 1024, traced, steps, rate


def problem_of(runs):
    return next((run for run in runs if isinstance(run, str)), None)


def half_quartiles(values):
    ordered = sorted(values)
    return (ordered[(3 * len(ordered) - 1) // 4] - ordered[len(ordered) // 4]) / 2


def percent(runs, plain, field):
    ratios = [100 * (run[field] / base[field] - 1) for run, base in zip(runs, plain)]
    return "%+.1f %%" % statistics.median(ratios), "%.1f" % half_quartiles(ratios)


def size(count):
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return "%.3g %s" % (count, unit)
        count /= 1000
    return "%.3g GB" % count


def print_program(program, plain, results):
    """A way that ran in fewer rounds than the plain program is compared with those."""
    middle = lambda runs, field: statistics.median(run[field] for run in runs)
    rows = [["", "CPU s", "added", "+-", "wall s", "added", "+-", "peak MiB", "added", "trace", "a step", "steps/s"]]
    for name, runs in [("plain", plain)] + results:
        if problem := problem_of(runs):
            rows.append([name, problem] + [""] * 10)
            continue
        row = [name, "%.2f" % middle(runs, 0)]
        row += percent(runs, plain, 0) if runs is not plain else ("", "")
        row.append("%.2f" % middle(runs, 1))
        row += percent(runs, plain, 1) if runs is not plain else ("", "")
        row.append("%.1f" % (middle(runs, 2) / (1 << 20)))
        row.append("%+.1f" % (statistics.median(run[2] - base[2] for run, base in zip(runs, plain)) / (1 << 20))
                   if runs is not plain else "")
        steps, rate = runs[0][4], middle(runs, 5)
        row += [size(middle(runs, 3)) if runs is not plain else "",
                size(middle(runs, 3) / steps) if steps and runs is not plain else "", "%.0f" % rate if rate else ""]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print("\n" + program.name)
    for row in rows:
        print("  " + "  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                               for i, (text, width) in enumerate(zip(row, widths))).rstrip(), flush=True)


def run_program(program, ways, arguments, folder):
    """Returns the table's rows: (name, runs); the plain program's first."""
    def say(what):
        print("%s  %s: %s" % (time.strftime("%H:%M:%S"), program.name, what), file=sys.stderr, flush=True)

    program.setup(folder)
    say("caches")
    first = run_once(program, None, folder)  # fills caches, writes data sets
    if isinstance(first, str):
        sys.exit("%s without a tracer: %s" % (program.name, first))
    limit_s = max(LIMIT_S, LIMIT_RATIO * first[1])
    results = [("plain", [])] + [(way.name, []) for way in ways]
    for number in range(arguments.rounds):
        for way, (name, runs) in zip([None] + ways, results):
            if arguments.fast and number > 0 and way and way.slow:
                continue
            say("round %d of %d, %s" % (number + 1, arguments.rounds, name))
            if not problem_of(runs):
                runs.append(run_once(program, way, folder, limit_s))
    if problem := problem_of(results[0][1]):
        sys.exit("%s without a tracer: %s" % (program.name, problem))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--rounds", type=int, default=None, help="default: 5, with --fast 2")
    parser.add_argument("--fast", action="store_true",
                        help="short trainings, and the slow peers (heaptrack, uftrace, torch.profiler) in the first "
                        "round only")
    parser.add_argument("--only", default="", metavar="TEXT|TEXT...", help="programs whose name has one of these in it")
    parser.add_argument("--ways", default="", metavar="WAY,WAY...",
                        help="of opgap, detailed, observer, cpu, all, heaptrack, uftrace; default: all")
    parser.add_argument("--list", action="store_true", help="name the programs and ways of this machine, and end")
    parser.add_argument("--steps", type=int, default=None, help="of the MLP; default: 3000, with --fast 300")
    parser.add_argument("--epochs", type=int, default=None, help="of the demo's training; default: 3, with --fast 1")
    parser.add_argument("--git", default=ROOT, help="repository for git log")
    parser.add_argument("--torch1", default="/usr/bin/python3", help="interpreter with PyTorch 1.13")
    parser.add_argument("--torch2", default=os.path.expanduser("~/.cache/opgap/torch2/bin/python"))
    parser.add_argument("--check", action="store_true", help="fail unless every run gave every figure")
    arguments = parser.parse_args()
    for name, fast, usual in (("rounds", 2, 5), ("steps", 300, 3000), ("epochs", 1, 3)):
        if getattr(arguments, name) is None:
            setattr(arguments, name, fast if arguments.fast else usual)
    ways = make_ways(os.path.abspath(arguments.build))
    wanted = [name for name in arguments.ways.split(",") if name] or list(ways)
    if unknown := set(wanted) - set(ways):
        parser.error("no such way: " + ", ".join(sorted(unknown)))
    for name in wanted:
        if not ways[name].available():
            print("missing peer: %s (programs.sh --install-peers)" % name)
    with tempfile.TemporaryDirectory() as folder:
        arguments.data = os.path.join(folder, "digits")
        programs = [program for program in make_programs(arguments)
                    if any(text in program.name for text in arguments.only.split("|"))]
        for program in programs:
            chosen = [name for name in program.ways if name in wanted and ways[name].available()]
            if arguments.list:
                print("%s: %s" % (program.name, ", ".join(chosen)))
                continue
            results = run_program(program, [ways[name] for name in chosen], arguments, folder)
            print_program(program, results[0][1], results[1:])
            if arguments.check:
                check(program, results)
        if arguments.check and not programs:
            sys.exit("no program was run")


def check(program, results):
    for name, runs in results:
        if problem := problem_of(runs):
            sys.exit("%s, %s: %s" % (program.name, name, problem))
        for cpu, wall, peak, trace, steps, _ in runs:
            if min(cpu, wall, peak) <= 0 or (name not in ("plain", "torch, empty callbacks") and trace == 0):
                sys.exit("%s, %s: a figure is missing" % (program.name, name))
            if program.script and steps == 0:
                sys.exit("%s, %s: no steps were counted" % (program.name, name))


if __name__ == "__main__":
    main()
