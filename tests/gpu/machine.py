#!/usr/bin/env python3
"""The checks of run.sh on a real GPU.  Prints one table: check, expected, seen, verdict."""
import json
import os
import statistics
import subprocess
import sys

BUILD, WORK = os.environ["OPGAP_BUILD"], os.environ["OPGAP_WORK"]
HERE = os.path.dirname(os.path.abspath(__file__))
LIBOPGAP, OPGAP = os.path.join(BUILD, "libopgap.so"), os.path.join(BUILD, "opgap")
KERNEL = "spin(unsigned long long)"
rows = []


def row(check, expected, seen, passed):
    rows.append((check, str(expected), str(seen), {True: "ok", False: "FAILED", None: "skipped"}[passed]))


def same(check, expected, seen):
    row(check, expected, seen, expected == seen)


def within(check, expected, seen, share):
    row(check, "%d +- %.0f %%" % (expected, share * 100), seen, abs(seen - expected) <= expected * share)


def run(command, traced, **environment):
    """Runs a program; returns its output and, when traced, the report."""
    env = dict(os.environ, **environment)
    trace = os.path.join(WORK, "run.opgap")
    subprocess.run(["rm", "-rf", trace], check=True)
    if traced:
        env.update(LD_PRELOAD=LIBOPGAP, OPGAP_OUT=trace)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError("%s: exit status %d: %s" % (" ".join(command), done.returncode, done.stderr[-500:]))
    report = None
    if traced:
        text = subprocess.run([OPGAP, "report", "--format", "json", trace], capture_output=True, text=True).stdout
        report = json.loads(text)
    return done.stdout, report


def said(output, word):
    for line in output.splitlines():
        if line.startswith(word + " "):
            return float(line.split()[1])
    raise RuntimeError("the program did not print " + word)


def kernels(report):
    return {k["name"]: k["calls"] for k in report["kernels"]}


def cause_ns(report, cause):
    return sum(c["ns"] for c in report["idle_gaps"]["gpu_by_cause"] if c["cause"] == cause)


def check_scenarios(cudart):
    program = os.path.join(WORK, "scenario_" + cudart)

    def scenario(*arguments):
        return run([program, *map(str, arguments)], True)

    output, report = scenario("sync", 50)
    same(cudart + ": gpu_status", "ok", report["gpu_status"])
    same(cudart + ": kernels", {KERNEL: 50}, kernels(report))
    within(cudart + ": shortest kernel, ns", 1000000, report["kernels"][0]["min_ns"], 0.05)
    for name, cause in (("sleep", "sleep"), ("lock", "lock"), ("data", "data loading")):
        output, report = scenario(name, 50, 10000)
        within("%s: planted gap, %s, ns" % (cudart, name), said(output, "gap_ns"), cause_ns(report, cause), 0.01)
        gaps = report["idle_gaps"]
        same("%s: causes add up, %s" % (cudart, name), gaps["gpu_ns"], sum(c["ns"] for c in gaps["gpu_by_cause"]))
    output, report = scenario("streams", 20)
    same(cudart + ": kernels on two streams", {KERNEL: 40}, kernels(report))
    copies = {(c["direction"], c["source"], c["target"]): (c["calls"], c["bytes"]) for c in report["gpu_copies"]}
    same(cudart + ": pinned copies", (20, 20 << 20), copies.get(("HtoD", "pinned", "device")))
    findings = {f["rule"]: f["count"] for f in report["gpu_findings"]}
    same(cudart + ": planted pageable copies", 20, findings.get("cuda_memcpy_async", 0))
    output, report = scenario("graph", 20)
    graphs = sum(calls for name, calls in kernels(report).items() if name.startswith("CUDA graph"))
    same(cudart + ": graph launches", 20, graphs)
    output, report = scenario("burst", 20000)
    same(cudart + ": kernels of a burst", {KERNEL: 20000}, kernels(report))
    same(cudart + ": lost records", 0, report["trace"]["lost_records"])


def check_launch_cost():
    program = [os.path.join(WORK, "scenario_shared"), "burst", "20000"]
    plain = statistics.median(said(run(program, False)[0], "launch_ns") for _ in range(5))
    traced = statistics.median(said(run(program, True)[0], "launch_ns") for _ in range(5))
    row("launch, ns: plain", "", round(plain), True)
    row("launch, ns: added by opgap", "", round(traced - plain), True)


def has_torch():
    code = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def train(mode, traced):
    output, report = run([sys.executable, os.path.join(HERE, "train.py"), mode], traced)
    return json.loads(output.splitlines()[-1]), report


def check_training():
    if not has_torch():
        row("PyTorch training", "", "torch with CUDA is not installed", None)
        return
    plain, _ = train("plain", False)
    profiled, _ = train("profiler", False)
    traced, report = train("plain", True)
    both, mixed = train("profiler", True)
    same("training: kernels by name as torch.profiler's", profiled["kernels"], kernels(report))
    same("training: the same with torch.profiler inside the trace", profiled["kernels"], both["kernels"])
    row("training: kernels outside torch.profiler's part are traced", "> 0", sum(kernels(mixed).values()),
        sum(kernels(mixed).values()) > 0)
    gpu_ns = sum(k["total_ns"] for k in report["kernels"])
    within("training: GPU time, ns, as torch.profiler's", profiled["kernel_ns"], gpu_ns, 0.05)
    row("step, us: plain", "", round(plain["step_us"]), True)
    row("step, us: with opgap", "", round(traced["step_us"]), True)
    row("step, us: with torch.profiler", "", round(profiled["step_us"]), True)


def guarded(name, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:  # one broken check must not hide the others
        row(name, "", error, False)


def main():
    probe = subprocess.run([os.path.join(WORK, "scenario_shared"), "check"], capture_output=True, text=True)
    if probe.returncode != 0:
        print("run.sh: no usable GPU here (%s)" % (probe.stdout + probe.stderr).strip())
        return 77
    for cudart in ("static", "shared"):
        guarded(cudart, check_scenarios, cudart)
    guarded("launch cost", check_launch_cost)
    guarded("training", check_training)
    widths = [max(len(r[i]) for r in rows) for i in range(4)]
    widths = [min(w, 60) for w in widths]
    for r in rows:
        print("  ".join(cell[:60].ljust(width) for cell, width in zip(r, widths)))
    return 1 if any(r[3] == "FAILED" for r in rows) else 0


sys.exit(main())
