#!/usr/bin/env python3
"""Programs with planted bottlenecks: does the report name each one first, and does its upper bound hold?

    run.py [--runs N] [--compare OPGAP] [--figures FILE] OPGAP PROGRAM GPU FAKES PYTHON PYTHON1 FOLDER
           all|tuned|held-out|second|quick|NAME...

OPGAP: the command, with libopgap.so beside it; PROGRAM, GPU: the built program.c and gpu.c; FAKES: folder of the fake
GPU's libraries; PYTHON, PYTHON1: interpreters with torch 2 and torch 1; FOLDER: for files.  Each scenario runs twice,
with its bottleneck and after it was really removed, N times.  Prints the confusion table and the bounds; exit status 1
when a cause was not named first or a bound did not hold, 77 when nothing could run.  --compare: the bounds of another
build's report, of the same traces.  --figures: all figures of all runs, as JSON.

A plant whose removal wins less than half of a step, noise included, is not what takes most of it, and need not come
first: it must be named behind what takes more, with its bound, and the run is told as mild, not as named first.

Other programs that use the CPUs meanwhile are a bottleneck, too, and the report says so (run_queue): it is left out where
it was not planted, and shown.  The win is measured from the mean step time of both runs; what it cannot tell from noise
(twice the standard error of both means, 2 % of a step, and what other programs took) is no fault of a bound.  The quick
part judges neither bounds nor what is mild.
"""
import argparse
import functools
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser(usage=__doc__.strip().replace("%", "%%"))
parser.add_argument("--runs", type=int, default=1)
parser.add_argument("--compare")
parser.add_argument("--figures")
for argument in ("opgap", "program", "gpu", "fakes", "python", "python1", "folder"):
    parser.add_argument(argument)
parser.add_argument("names", nargs="+")
ARGUMENTS = parser.parse_args()
FOLDER = ARGUMENTS.folder
HERE = os.path.dirname(os.path.abspath(__file__))
CHUNK = bytes(65536)

# name: what runs it, its own name there, kinds of which one must come first, and what the runner does besides; line: the
# Python function that the slowest worker must be in, with its line (train.py is recorded with --stacks python then); says:
# what the main thread's gaps are explained by for the largest part, but for waits for a CPU
SCENARIOS = {
    "slow disk": ("torch", "slow_disk", {"slow_read"}, {"slow": {"slow0": 0.02, "slow1": 0.02}, "line": "read_chunk"}),
    "slow decode": ("torch", "slow_decode", {"slow_decode"}, {}),
    "too few workers": ("torch", "too_few_workers", {"too_few_workers"}, {}),
    "one slow worker": ("torch", "slow_worker", {"slow_worker"}, {"slow": {"slow1": 0.01}, "line": "read_chunk"}),
    "workers made again each epoch": ("torch", "worker_restart", {"worker_restart"}, {}),
    "lock in the dataset": ("torch", "dataset_lock", {"dataset_lock"}, {"line": "locked"}),
    "num_workers=0": ("torch", "no_workers", {"no_workers"}, {}),
    "OpenMP threads in workers": ("torch", "omp_in_workers", {"oversubscription"}, {}),
    "sleep in the loop": ("torch", "sleep", {"sleep"}, {}),
    "checkpoint in each step": ("torch", "checkpoint", {"file_write"}, {}),
    "reading in the loop": ("torch", "read_in_loop", {"file_read"}, {"slow": {"slow0": 0.02}}),
    "GIL": ("torch", "gil", {"gil"}, {}),
    "child process in each step": ("torch", "child_process", {"child_process"}, {}),
    "tiny ops": ("torch", "tiny_ops", {"dispatch"}, {}),
    "Python between ops": ("torch", "python", {"python"}, {}),
    "large ops (none)": ("torch", "compute", {"compute"}, {}),
    "one slow rank": ("ranks", "slow_rank", {"communication"}, {}),
    "slow disk and a sleep (mixture)": ("torch", "read_and_sleep", {"slow_read", "sleep"},
                                        {"slow": {"slow0": 0.02, "slow1": 0.02}}),
    "C: sleep": ("c", "sleep", {"sleep"}, {}),
    "C: reading in the loop": ("c", "read", {"file_read"}, {"slow": {"slow0": 0.02}}),
    "C: child process": ("c", "child", {"child_process"}, {}),
    "C: page faults": ("c", "page_faults", {"page_faults"}, {}),
    "C: lock held by another thread": ("c", "lock", {"lock"}, {}),
    "C: slow loader thread": ("c", "loader_thread", {"file_read"}, {"slow": {"slow0": 0.02}}),
    "C: too many threads": ("c", "threads", {"oversubscription"}, {}),
    "C: other programs on its CPU": ("c", "neighbours", {"run_queue"}, {"burners": 3}),
    "C: CPU limit of the cgroup": ("c", "throttled", {"cgroup_limit"}, {"cgroup": 0.05}),
    "C: own code (none)": ("c", "none", {"own_code"}, {}),
    "GPU: waiting after each kernel": ("gpu", "sync", {"gpu_sync"}, {}),
    "GPU: pageable copies": ("gpu", "pageable", {"pageable_copies"}, {}),
    "GPU: all-reduce not hidden": ("gpu", "allreduce", {"exposed_communication"}, {}),
    "GPU: small kernels": ("gpu", "launches", {"launch_bound"}, {"env": {"FAKE_LAUNCH_NS": "2000"}}),
    "GPU: sleep": ("gpu", "sleep", {"sleep"}, {}),
    "GPU: kernels (none)": ("gpu", "kernels", {"kernels"}, {}),
}
# Written after the rules, and run once before any of them was looked at: docs/VERDICT.md has what was named first then.
HELD_OUT = {
    "images decoded by Python": ("torch1", "image_decode", {"slow_decode"}, {}),
    "tokeniser with a lock": ("torch", "token_lock", {"dataset_lock"}, {}),
    "small files, slow to open": ("torch", "small_files", {"slow_read"},
                                  {"slow": {"small0": (0.004, 2048), "small1": (0.004, 2048)}}),
    "GAN with a slow loader": ("torch1", "gan", {"slow_read"}, {"slow": {"slow0": 0.012}}),
    "evaluation that reads slowly": ("torch1", "evaluation", {"no_workers", "file_read"}, {"slow": {"slow0": 0.01}}),
    "decode in a child process": ("torch", "child_decode", {"slow_decode"}, {}),
    "samples from the network": ("torch", "object_store", {"too_few_workers"}, {"server": 0.008}),
    "large samples in one worker": ("torch", "large_samples", {"slow_worker"}, {}),
    "workers spawned each epoch": ("torch1", "spawned", {"worker_restart"}, {}),
    "accumulation of tiny ops": ("torch", "accumulation", {"dispatch"}, {}),
    "checkpoint each fifth step": ("torch", "checkpoints", {"file_write"}, {}),
    "log that is synced": ("torch1", "log_fsync", {"file_write"}, {}),
    "garbage collection": ("torch", "garbage", {"python"}, {}),
    "metrics in Python": ("torch1", "metrics", {"python"}, {}),
    "OpenMP threads in the trainer": ("torch", "omp_trainer", {"oversubscription"},
                                      {"env": {"OMP_WAIT_POLICY": "ACTIVE"}}),
    "fresh buffers": ("torch1", "fresh_buffers", {"page_faults"}, {}),
    "thread that writes JSON": ("torch", "json_thread", {"gil"}, {}),
    "features from the network": ("torch1", "feature_store", {"communication"}, {"server": 0.015}),
    "balanced (none)": ("torch", "balanced", {"compute"}, {}),
    "C: late thread at a barrier": ("c", "late_thread", {"other_thread"}, {}),
    "C: equal threads (none)": ("c", "equal_thread", {"own_code"}, {}),
    "C: many short waits for a lock": ("c", "convoy", {"lock"}, {}),
    "C: log that is synced": ("c", "log", {"file_write"}, {}),
    "C: waits and a log (mixture)": ("c", "retry", {"sleep", "file_write"}, {}),
    "C: random reads of a mapped file": ("c", "map", {"mapped_file"}, {}),
    "C: page-fault storm": ("c", "storm", {"page_faults"}, {}),
    "C: decoder in another process": ("c", "decoder", {"other_thread"}, {}),
    "GPU: copies between kernels": ("gpu", "copies", {"gpu_copies"}, {}),
}
# Another set of the same kind, written when the first one was no longer held out.
SECOND_SET = {
    "tokenizer in the main thread": ("torch", "tokenizer", {"python"}, {}),
    "large dataset by pickle": ("torch", "pickled", {"worker_restart"}, {}),
    "validation after each epoch": ("torch1", "validation", {"compute"}, {}),
    "graphs that are kept": ("torch", "retained", {"dispatch"}, {}),
    "batches of one row": ("torch1", "tiny_batches", {"dispatch"}, {}),
    "deep copies of the model": ("torch", "deep_copies", {"compute", "page_faults"}, {}),
    "numbers read one by one": ("torch1", "items", {"dispatch"}, {}),
    "one rank writes its weights": ("ranks", "slow_rank_writes", {"communication"}, {}),
    "C: table that is made new": ("c", "table", {"lock"}, {}),
    "C: one large part of a pool": ("c", "parts", {"other_thread"}, {}),
    "C: spin lock that yields": ("c", "spin", {"other_thread"}, {"says": "another thread: ~spinning (sched_yield)"}),
}
# what a rerun of CI can afford: a scenario of each layer
QUICK = ["slow disk", "one slow worker", "num_workers=0", "sleep in the loop", "C: sleep", "C: reading in the loop",
         "C: lock held by another thread", "C: child process", "C: page faults", "C: slow loader thread",
         "C: spin lock that yields", "GPU: waiting after each kernel", "GPU: pageable copies", "GPU: sleep", "GPU: all-reduce not hidden"]


class Skip(Exception):
    pass


class SlowPipe(threading.Thread):
    """A slow disk: a named pipe that gives a chunk after each delay, as long as somebody reads."""

    def __init__(self, path, speed):
        super().__init__(daemon=True)
        self.delay, self.bytes = speed if isinstance(speed, tuple) else (speed, len(CHUNK))
        self.path, self.stop = path, False
        os.mkfifo(path)
        self.start()

    def run(self):
        while not self.stop:
            try:
                with open(self.path, "wb", buffering=0) as pipe:
                    while not self.stop:
                        time.sleep(self.delay)
                        pipe.write(CHUNK[:self.bytes])
            except BrokenPipeError:
                pass

    def end(self):
        self.stop = True
        os.close(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK))
        self.join()
        os.unlink(self.path)


class SlowServer(threading.Thread):
    """A slow network: answers each byte with a chunk after a delay, on as many connections as are made."""

    def __init__(self, delay):
        super().__init__(daemon=True)
        self.delay = delay
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        try:
            while True:
                threading.Thread(target=self.answer, args=(self.socket.accept()[0],), daemon=True).start()
        except OSError:
            pass

    def answer(self, connection):
        with connection:
            while connection.recv(1):
                time.sleep(self.delay)
                connection.sendall(CHUNK)

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.join()


class Cgroup:
    """A CPU limit, where this machine lets us set one (cgroup version 1 or 2)."""

    def __init__(self, cpus):
        for root, name, text in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "%d" % (100000 * cpus)),
                                 ("/sys/fs/cgroup", "cpu.max", "%d 100000" % (100000 * cpus))):
            self.path = os.path.join(root, "opgap-scenario-%d" % os.getpid())
            try:
                os.mkdir(self.path)
            except OSError:
                continue
            try:
                with open(os.path.join(self.path, name), "w") as file:
                    file.write(text)
                return
            except OSError:
                os.rmdir(self.path)
        raise Skip("no cgroup with a CPU limit can be made here")

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write("0")

    def end(self):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPGAP_") and k != "LD_PRELOAD"}
    env.update(more)
    return env


def record(command, trace, env, before=None, options=()):
    done = subprocess.run([ARGUMENTS.opgap, "record", *options, "--out", trace, "--", *command], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=before, timeout=120)
    if done.returncode == 77:
        raise Skip("it cannot be planted here")
    if done.returncode != 0:
        raise RuntimeError("%s: exit status %d\n%s" % (command, done.returncode, done.stderr.decode()))


def run_ranks(command, trace):
    meet = os.path.join(FOLDER, "meet")
    if os.path.exists(meet):
        os.unlink(meet)
    ranks = [subprocess.Popen([ARGUMENTS.opgap, "record", "--out", trace, "--", *command],
                              env=environment(RANK=str(rank), WORLD_SIZE="2"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) for rank in range(2)]
    for rank in ranks:
        errors = rank.communicate(timeout=120)[1]
        if rank.returncode != 0:
            raise RuntimeError("a rank failed:\n" + errors.decode())


@functools.lru_cache(maxsize=None)
def has_torch(python):
    return python != "" and os.path.exists(python) and subprocess.run(
        [python, "-c", "import torch"], env=environment(), stderr=subprocess.DEVNULL).returncode == 0


def report_of(opgap, trace):
    return json.loads(subprocess.run([opgap, "report", "--format", "json", trace], stdout=subprocess.PIPE,
                                     check=True).stdout)


def run(how, script, name, planted, extra):
    """The reports of one run: ours, and that of --compare or None."""
    word = "with" if planted else "without"
    trace = os.path.join(FOLDER, "%s-%s.opgap" % (name, word))
    shutil.rmtree(trace, ignore_errors=True)
    python = ARGUMENTS.python1 if how == "torch1" else ARGUMENTS.python
    if how in ("torch", "torch1", "ranks") and not has_torch(python):
        raise Skip("no PyTorch in '%s'" % python)
    command = {"c": [ARGUMENTS.program, name, word, FOLDER], "gpu": [ARGUMENTS.gpu, name, word]}.get(
        how, [python, os.path.join(HERE, script), name, word, FOLDER])
    env = environment(**extra.get("env", {}))
    if how == "gpu":
        env["LD_LIBRARY_PATH"] = ARGUMENTS.fakes
    pipes, burners, group, server = [], [], None, None
    try:
        if "server" in extra:
            server = SlowServer(extra["server"])
            env["SLOW_PORT"] = str(server.port)
        for pipe, delay in extra.get("slow", {}).items():
            pipes.append(SlowPipe(os.path.join(FOLDER, pipe), delay))
        if planted and "cgroup" in extra:
            group = Cgroup(extra["cgroup"])
        for _ in range(extra.get("burners", 0) if planted else 0):
            burners.append(subprocess.Popen(["taskset", "-c", "0", sys.executable, "-c", "while True: pass"]))
        if how == "ranks":
            run_ranks(command, trace)
        else:
            record(command, trace, env, group.enter if group else None,
                   ["--stacks", "python"] if "line" in extra else [])
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        for pipe in pipes:
            pipe.end()
        if server is not None:
            server.end()
        if group is not None:
            group.end()
    reports = report_of(ARGUMENTS.opgap, trace), ARGUMENTS.compare and report_of(ARGUMENTS.compare, trace)
    if "OPGAP_SCENARIOS_KEEP" not in os.environ:
        shutil.rmtree(trace)
    return reports


def counted_steps(report):
    return report["steps"]["durations_ns"][report["steps"]["skipped"]:]


def mean_and_error(values):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def is_planted(bottleneck, wanted):
    return bottleneck["kind"] in wanted and bottleneck["at_most_share"] is not None


def bound_of(report, wanted):
    return min(1, sum(b["at_most_share"] for b in report["verdict"]["bottlenecks"] if is_planted(b, wanted)))


def first_of(report, wanted):
    kinds = [b["kind"] for b in report["verdict"]["bottlenecks"] if b["kind"] != "run_queue" or "run_queue" in wanted]
    return kinds[0] if kinds else "nothing"


class Result:
    """What one run of a scenario showed."""

    def __init__(self, name, judge_bounds):
        script = "train.py" if name in SCENARIOS else "held_out.py" if name in HELD_OUT else "second_set.py"
        how, program, self.wanted, extra = {**SCENARIOS, **HELD_OUT, **SECOND_SET}[name]
        self.load = os.getloadavg()[0]
        report, other = run(how, script, program, True, extra)
        self.name, self.bottlenecks = name, report["verdict"]["bottlenecks"]
        self.first = first_of(report, self.wanted)
        self.other_first = other and first_of(other, self.wanted)
        self.busy = sum(b["share"] for b in self.bottlenecks if b["kind"] == "run_queue")
        self.bound = self.win = self.other_bound = None
        self.mild = False
        self.judge_bounds = judge_bounds
        self.faults = []
        # a program without a bottleneck has one where other programs take most of its time
        crowded = "(none)" in name and self.bottlenecks and self.bottlenecks[0]["kind"] == "run_queue" and self.busy >= 0.5
        if "line" in extra:
            self.check_line(report, extra["line"])
        said = max((cause for cause in report["idle_gaps"]["by_cause"] if cause["cause"] != "run queue"),
                   key=lambda cause: cause["ns"], default={"detail": "nothing"})
        if "says" in extra and said["detail"] != extra["says"]:
            self.faults.append("explained the gaps by %s, not by %s" % (said["detail"], extra["says"]))
        if any(is_planted(b, self.wanted) for b in self.bottlenecks) and "(none)" not in name:
            self.compare(report, run(how, script, program, False, extra)[0])
            self.other_bound = other and bound_of(other, self.wanted)
            self.mild = judge_bounds and self.first not in self.wanted and self.win + self.noise < 0.5
        if self.first not in self.wanted and not crowded and not self.mild:
            self.faults.append("named %s first, not %s" % (self.first, " or ".join(sorted(self.wanted))))

    def check_line(self, report, function):
        worker = max(report["data_loader"]["processes"], key=lambda worker: worker["source_ns"])
        line = worker["source_location"]
        if line is None or not line.startswith(os.path.join(HERE, "train.py") + ":") or line.split()[-1] != function:
            self.faults.append("the workers' time was called from %s, not from %s" % (line, function))

    def compare(self, report, without):
        (before, error), (after, other) = map(mean_and_error, map(counted_steps, (report, without)))
        self.bound = bound_of(report, self.wanted)
        self.win = 1 - after / before
        self.noise = 2 * math.hypot(error, other) / before + 0.02 + self.busy
        if self.judge_bounds and self.win - self.noise > self.bound:
            self.faults.append("won %.1f %%, more than the bound of %.1f %%" % (100 * self.win, 100 * self.bound))

    def __str__(self):
        figures = ["%.1f%%" % (100 * value) if value is not None else "-"
                   for value in (self.other_bound, self.bound, self.win)]
        figures.append("%.2f" % (self.win / self.bound) if self.bound else "-")
        said = "; ".join(self.faults) or ("ok, but mild: behind %s" % self.first if self.mild else "ok")
        if self.busy >= 0.1 and "run_queue" not in self.wanted:
            said += " (other programs took its CPU for %.0f %%)" % (100 * self.busy)
        return "%-34s %-18s %8s %8s %8s %9s %5.1f  %s" % (self.name, self.first, *figures, self.load, said)

    def figures(self):
        keys = ("name", "first", "other_first", "bound", "other_bound", "win", "busy", "load", "mild", "faults")
        return {key: getattr(self, key) for key in keys}


def spread(results):
    """Least, median and largest tightness of several runs."""
    values = sorted(r.win / r.bound for r in results if r.bound)
    if len(values) > 1:
        print("%-34s tightness %.2f to %.2f, median %.2f, in %d runs" % (
            results[0].name, values[0], values[-1], statistics.median(values), len(values)), flush=True)


def main():
    sets = {"all": [*SCENARIOS, *HELD_OUT, *SECOND_SET], "tuned": list(SCENARIOS), "held-out": list(HELD_OUT),
            "second": list(SECOND_SET), "quick": QUICK}
    judge_bounds = ARGUMENTS.names != ["quick"]
    chosen = [name for part in ARGUMENTS.names for name in sets.get(part, [part])]
    unknown = set(chosen) - set(sets["all"])
    if unknown:
        parser.error("no such scenario: %s" % ", ".join(sorted(unknown)))
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "fast"), "wb") as file:
        file.write(CHUNK)
    confusion, done, reasons = {}, [], {}
    print("%-34s %-18s %8s %8s %8s %9s %5s" % ("planted", "named first", "other", "at most", "won", "tightness",
                                               "load"))
    for name in chosen:
        try:
            results = []
            for _ in range(ARGUMENTS.runs):
                results.append(Result(name, judge_bounds))
                print(results[-1], flush=True)
                for bottleneck in results[-1].bottlenecks if results[-1].faults else []:
                    print("    %s (%.1f %%): %s" % (bottleneck["kind"], 100 * bottleneck["share"], bottleneck["text"]))
        except Skip as reason:
            print("left out: %s (%s)" % (name, reason))
            reasons[str(reason)] = None
        spread(results)
        done += results
    for result in done:
        key = (" or ".join(sorted(result.wanted)), result.first)
        confusion[key] = confusion.get(key, 0) + 1
    if ARGUMENTS.figures:
        with open(ARGUMENTS.figures, "w") as file:
            json.dump([result.figures() for result in done], file, indent=1)
    print("\n%-26s %-26s %s" % ("planted kind", "named first", "runs"))
    for (wanted, first), count in sorted(confusion.items()):
        print("%-26s %-26s %d" % (wanted, first, count))
    failed = sum(bool(result.faults) for result in done)
    print("%d runs, %d of them wrong, %d mild" % (len(done), failed, sum(result.mild for result in done)))
    if not done:
        print("skipped: " + "; ".join(reasons))
        sys.exit(77)
    sys.exit(1 if failed else 0)


main()
