#!/usr/bin/env python3
"""Programs with planted bottlenecks: does the report name each one first, and does its upper bound hold?

    run.py OPGAP PROGRAM GPU FAKES PYTHON FOLDER all|quick|NAME...

OPGAP: the command, with libopgap.so beside it; PROGRAM, GPU: the built program.c and gpu.c; FAKES: folder of the fake
GPU's libraries; PYTHON: an interpreter with torch; FOLDER: for files.  Each scenario runs twice, with its bottleneck and
after it was really removed.  Prints the confusion table and the bounds; exit status 1 when a cause was not named first
or a bound did not hold, 77 when nothing could run.

Other programs that use the CPUs meanwhile are a bottleneck, too, and the report says so (run_queue): it is left out where
it was not planted, and shown.  The win is measured from the mean step time of both runs; what it cannot tell from noise (twice the standard error of
both means, 2 % of a step, and what other programs took) is no fault of a bound.  The quick part does not judge bounds.
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

OPGAP, PROGRAM, GPU, FAKES, PYTHON, FOLDER = sys.argv[1:7]
HERE = os.path.dirname(os.path.abspath(__file__))
CHUNK = bytes(65536)

# name: what runs it, its own name there, kinds of which one must come first, and what the runner does besides; line: the
# Python function that the slowest worker must be in, with its line (train.py is recorded with --stacks python then)
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
# what a rerun of CI can afford: a scenario of each layer
QUICK = ["slow disk", "one slow worker", "num_workers=0", "sleep in the loop", "C: sleep", "C: reading in the loop",
         "C: lock held by another thread", "C: child process", "C: page faults", "C: slow loader thread",
         "GPU: waiting after each kernel", "GPU: pageable copies", "GPU: sleep", "GPU: all-reduce not hidden"]


class Skip(Exception):
    pass


class SlowPipe(threading.Thread):
    """A slow disk: a named pipe that gives a chunk after each delay, as long as somebody reads."""

    def __init__(self, path, delay):
        super().__init__(daemon=True)
        self.path, self.delay, self.stop = path, delay, False
        os.mkfifo(path)
        self.start()

    def run(self):
        while not self.stop:
            try:
                with open(self.path, "wb", buffering=0) as pipe:
                    while not self.stop:
                        time.sleep(self.delay)
                        pipe.write(CHUNK)
            except BrokenPipeError:
                pass

    def end(self):
        self.stop = True
        os.close(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK))
        self.join()
        os.unlink(self.path)


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
    done = subprocess.run([OPGAP, "record", *options, "--out", trace, "--", *command], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=before, timeout=120)
    if done.returncode != 0:
        raise RuntimeError("%s: exit status %d\n%s" % (command, done.returncode, done.stderr.decode()))


def run_ranks(command, trace):
    meet = os.path.join(FOLDER, "meet")
    if os.path.exists(meet):
        os.unlink(meet)
    ranks = [subprocess.Popen([OPGAP, "record", "--out", trace, "--", *command],
                              env=environment(RANK=str(rank), WORLD_SIZE="2"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) for rank in range(2)]
    for rank in ranks:
        errors = rank.communicate(timeout=120)[1]
        if rank.returncode != 0:
            raise RuntimeError("a rank failed:\n" + errors.decode())


def has_torch():
    if not hasattr(has_torch, "answer"):
        has_torch.answer = PYTHON != "" and os.path.exists(PYTHON) and subprocess.run(
            [PYTHON, "-c", "import torch"], env=environment(), stderr=subprocess.DEVNULL).returncode == 0
    return has_torch.answer


def run(how, name, planted, extra):
    """The report of one run."""
    word = "with" if planted else "without"
    trace = os.path.join(FOLDER, "%s-%s.opgap" % (name, word))
    shutil.rmtree(trace, ignore_errors=True)
    if how in ("torch", "ranks") and not has_torch():
        raise Skip("no PyTorch in '%s'" % PYTHON)
    command = {"c": [PROGRAM, name, word, FOLDER], "gpu": [GPU, name, word],
               "torch": [PYTHON, os.path.join(HERE, "train.py"), name, word, FOLDER]}[
                   "torch" if how == "ranks" else how]
    env = environment(**extra.get("env", {}))
    if how == "gpu":
        env["LD_LIBRARY_PATH"] = FAKES
    pipes, burners, group = [], [], None
    try:
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
        if group is not None:
            group.end()
    text = subprocess.run([OPGAP, "report", "--format", "json", trace], stdout=subprocess.PIPE, check=True).stdout
    if "OPGAP_SCENARIOS_KEEP" not in os.environ:
        shutil.rmtree(trace)
    return json.loads(text)


def counted_steps(report):
    return report["steps"]["durations_ns"][report["steps"]["skipped"]:]


def mean_and_error(values):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return mean, math.sqrt(variance / len(values))


class Result:
    """What one scenario showed."""

    def __init__(self, name, judge_bounds):
        how, program, self.wanted, extra = SCENARIOS[name]
        report = run(how, program, True, extra)
        self.name, self.bottlenecks = name, report["verdict"]["bottlenecks"]
        kinds = [b["kind"] for b in self.bottlenecks if b["kind"] != "run_queue" or "run_queue" in self.wanted]
        self.first = kinds[0] if kinds else "nothing"
        self.busy = sum(b["share"] for b in self.bottlenecks if b["kind"] == "run_queue")
        self.bound = self.win = None
        self.judge_bounds = judge_bounds
        self.faults = []
        if self.first not in self.wanted:
            self.faults.append("named %s first, not %s" % (self.first, " or ".join(sorted(self.wanted))))
        if "line" in extra:
            self.check_line(report, extra["line"])
        planted = [b for b in self.bottlenecks if b["kind"] in self.wanted and b["at_most_share"] is not None]
        if planted and "(none)" not in name:
            self.compare(report, run(how, program, False, extra), planted)

    def check_line(self, report, function):
        worker = max(report["data_loader"]["processes"], key=lambda worker: worker["source_ns"])
        line = worker["source_location"]
        if line is None or not line.startswith(os.path.join(HERE, "train.py") + ":") or line.split()[-1] != function:
            self.faults.append("the workers' time was called from %s, not from %s" % (line, function))

    def compare(self, report, without, planted):
        (before, error), (after, other) = map(mean_and_error, map(counted_steps, (report, without)))
        self.bound = min(1, sum(b["at_most_share"] for b in planted))
        self.win = 1 - after / before
        noise = 2 * math.hypot(error, other) / before + 0.02 + self.busy
        if self.judge_bounds and self.win - noise > self.bound:
            self.faults.append("won %.1f %%, more than the bound of %.1f %%" % (100 * self.win, 100 * self.bound))

    def __str__(self):
        if self.bound is None:
            figures = "%8s %8s %9s" % ("-", "-", "-")
        else:
            figures = "%7.1f%% %7.1f%% %9.2f" % (100 * self.bound, 100 * self.win, self.win / self.bound)
        said = "; ".join(self.faults) or "ok"
        if self.busy >= 0.1 and "run_queue" not in self.wanted:
            said += " (other programs took its CPU for %.0f %%)" % (100 * self.busy)
        return "%-34s %-23s %s  %s" % (self.name, self.first, figures, said)


def main():
    chosen = sys.argv[7:]
    judge_bounds = chosen != ["quick"]
    chosen = list(SCENARIOS) if chosen == ["all"] else QUICK if chosen == ["quick"] else chosen
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "fast"), "wb") as file:
        file.write(CHUNK)
    failed, confusion, done = 0, {}, 0
    print("%-34s %-23s %8s %8s %9s" % ("planted", "named first", "at most", "won", "tightness"))
    for name in chosen:
        try:
            result = Result(name, judge_bounds)
        except Skip as reason:
            print("%-34s skipped: %s" % (name, reason))
            continue
        print(result, flush=True)
        if result.faults:
            for bottleneck in result.bottlenecks:
                print("    %s (%.1f %%): %s" % (bottleneck["kind"], 100 * bottleneck["share"], bottleneck["text"]))
        done += 1
        failed += bool(result.faults)
        key = (" or ".join(sorted(result.wanted)), result.first)
        confusion[key] = confusion.get(key, 0) + 1
    print("\n%-26s %-26s %s" % ("planted kind", "named first", "scenarios"))
    for (wanted, first), count in sorted(confusion.items()):
        print("%-26s %-26s %d" % (wanted, first, count))
    print("%d scenarios, %d of them wrong" % (done, failed))
    sys.exit(1 if failed else 0 if done else 77)


main()
