#!/usr/bin/env python3
"""The checks of run.sh on a real GPU.  Prints one table: check, expected, seen, verdict.

A check that cannot be made is FAILED, or "skipped" with the reason when something that it needs is not installed.  The
last line counts the verdicts; a run without a single check that passed fails.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

BUILD, WORK, TORCH = os.environ["OPGAP_BUILD"], os.environ["OPGAP_WORK"], os.environ["OPGAP_TORCH_PYTHON"]
HERE = os.path.dirname(os.path.abspath(__file__))
LIBOPGAP, OPGAP = os.path.join(BUILD, "libopgap.so"), os.path.join(BUILD, "opgap")
KERNEL = "spin(unsigned long long)"
CELL = 58
rows = []


def row(check, expected, seen, verdict):
    rows.append((check, str(expected), str(seen), verdict))


def same(check, expected, seen):
    row(check, expected, seen, "ok" if expected == seen else "FAILED")


def same_counts(check, expected, seen):
    """Counts by name; the table shows totals, and the first name that differs."""
    differing = [name for name in sorted(expected.keys() | seen.keys()) if expected.get(name) != seen.get(name)]
    text = ["%d of %d names" % (sum(counts.values()), len(counts)) for counts in (expected, seen)]
    if differing:
        name = differing[0]
        text[1] += "; %s x %s, not %s" % (name[:24], seen.get(name, 0), expected.get(name, 0))
    row(check, text[0], text[1], "ok" if expected and not differing else "FAILED")


def within(check, expected, seen, share):
    good = expected > 0 and abs(seen - expected) <= expected * share
    row(check, "%.0f +- %g %%" % (expected, share * 100), "%.0f" % seen, "ok" if good else "FAILED")


def at_least(check, expected, seen):
    row(check, ">= %s" % expected, seen, "ok" if seen >= expected else "FAILED")


def figure(what, value):
    row(what, "", value, "measured")


def run(command, traced, exit_status=0, **environment):
    """Runs a program; returns its output and, when traced, the report and what it said on stderr."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPGAP_")}
    env.update(environment)
    trace = os.path.join(WORK, "run.opgap")
    shutil.rmtree(trace, ignore_errors=True)
    if traced:
        env.update(LD_PRELOAD=LIBOPGAP, OPGAP_OUT=trace)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != exit_status:
        raise RuntimeError("%s: exit status %d: %s" % (" ".join(command), done.returncode, done.stderr[-500:]))
    if not traced:
        return done.stdout, None, done.stderr
    report = subprocess.run([OPGAP, "report", "--format", "json", trace], capture_output=True, text=True)
    if report.returncode != 0:
        raise RuntimeError("opgap report: exit status %d: %s" % (report.returncode, report.stderr[-500:]))
    return done.stdout, json.loads(report.stdout), done.stderr


def said(output, word):
    for line in output.splitlines():
        if line.startswith(word + " "):
            return float(line.split()[1])
    raise RuntimeError("the program did not print " + word)


def kernels(report):
    return {k["name"]: k["calls"] for k in report["kernels"]}


def calls(report):
    return {c["name"]: c["calls"] for c in report["calls"]}


def cause_ns(report, cause):
    return sum(c["ns"] for c in report["idle_gaps"]["gpu_by_cause"] if c["cause"] == cause)


def check_scenarios(cudart):
    program = os.path.join(WORK, "scenario_" + cudart)

    def scenario(*arguments, **settings):
        return run([program, *map(str, arguments)], True, **settings)

    output, report, _ = scenario("sync", 50)
    same(cudart + ": gpu_status", "ok", report["gpu_status"])
    same_counts(cudart + ": kernels", {KERNEL: 50}, kernels(report))
    within(cudart + ": shortest kernel, ns", 1000000, report["kernels"][0]["min_ns"], 0.05)
    same(cudart + ": launches", 50, report["launches"]["calls"])
    for name, cause in (("sleep", "sleep"), ("lock", "lock"), ("data", "data loading")):
        output, report, _ = scenario(name, 50, 10000)
        within("%s: planted gap, %s, ns" % (cudart, name), said(output, "gap_ns"), cause_ns(report, cause), 0.01)
        gaps = report["idle_gaps"]
        same("%s: causes add up, %s" % (cudart, name), gaps["gpu_ns"], sum(c["ns"] for c in gaps["gpu_by_cause"]))
        same("%s: verdict is no other cause, %s" % (cudart, name), cause,
             max(gaps["gpu_by_cause"], key=lambda c: c["ns"])["cause"])
    output, report, _ = scenario("streams", 20)
    same_counts(cudart + ": kernels on two streams", {KERNEL: 40}, kernels(report))
    copies = {(c["direction"], c["source"], c["target"], c["async"]): (c["calls"], c["bytes"])
              for c in report["gpu_copies"]}
    same(cudart + ": pinned copies", (20, 20 << 20), copies.get(("HtoD", "pinned", "device", True)))
    same(cudart + ": pageable copies", (20, 20 << 19), copies.get(("HtoD", "pageable", "device", True)))
    same(cudart + ": copies to the host", (20, 20 << 18), copies.get(("DtoH", "device", "pageable", False)))
    findings = {}
    for f in report["gpu_findings"]:
        findings[f["rule"]] = findings.get(f["rule"], 0) + f["count"]
    same(cudart + ": planted pageable copies are found", 20, findings.get("cuda_memcpy_async", 0))
    same(cudart + ": planted blocking copies are found", 20, findings.get("cuda_memcpy_sync", 0))
    output, report, _ = scenario("graph", 20)
    graphs = {name: n for name, n in kernels(report).items() if name.startswith("CUDA graph")}
    same(cudart + ": graphs, whole", 20, sum(graphs.values()))
    output, report, _ = scenario("graph", 20, OPGAP_GPU="nodes")
    same_counts(cudart + ": graphs, kernel by kernel", {KERNEL: 80}, kernels(report))
    output, report, _ = scenario("burst", 20000)
    same_counts(cudart + ": kernels of a burst", {KERNEL: 20000}, kernels(report))
    same(cudart + ": lost records", 0, report["trace"]["lost_records"])
    output, report, _ = scenario("kill", 10, exit_status=-9)
    same_counts(cudart + ": kernels before a SIGKILL", {KERNEL: 10}, kernels(report))
    output, report, _ = scenario("leave", 10)
    same_counts(cudart + ": kernels before _exit", {KERNEL: 10}, kernels(report))
    output, report, _ = scenario("ranges", 5)
    ops = {o["name"]: o["self_gpu_ns"] for o in report["hot_ops"] if o["kind"] == "range"}
    within(cudart + ": kernels of a range, ns", 5e6, ops.get("forward", 0), 0.05)
    within(cudart + ": kernels of the range around it, ns", 10e6, ops.get("step", 0), 0.05)


def check_device():
    output = subprocess.run([os.path.join(WORK, "occupancy")], capture_output=True, text=True, check=True).stdout
    _, report, _ = run([os.path.join(WORK, "scenario_shared"), "sleep", "100", "10000"], True)
    within("theoretical occupancy, millionths", said(output, "occupancy") * 1e6,
           (report["kernels"][0]["occupancy"] or 0) * 1e6, 0.0001)
    gpu = report["gpu"][0]
    same("name of the device", output.split("device ", 1)[1].strip(), gpu["name"])
    smi = shutil.which("nvidia-smi")
    if gpu["state"] is None or smi is None:
        row("state by NVML", "", "nvidia-smi is not installed" if smi is None else "no samples",
            "skipped" if smi is None else "FAILED")
        return
    version = subprocess.run([smi, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                             text=True, check=True).stdout.split()[0]
    same("driver, by NVML", version, gpu["state"]["driver"])
    at_least("SM clock by NVML, MHz", 100, gpu["state"]["sm_mhz"] or 0)
    at_least("device memory in use by NVML, MB", 100, (gpu["state"]["used_bytes"] or 0) >> 20)


def check_other_tool():
    program = os.path.join(WORK, "other_tool")
    if not os.path.exists(program):
        row("another user of CUPTI", "", "could not be linked (libcupti)", "skipped")
        return
    plain, _, _ = run([program, "unsubscribe"], False)
    for how in ("unsubscribe", "keep", "clock"):
        output, report, _ = run([program, how], True)
        same("other tool, %s: kernels that it sees" % how, said(plain, "seen"), said(output, "seen"))
        same("other tool, %s: at times of its clock" % how, said(output, "seen"), said(output, "in_time"))
        same("other tool, %s: its thread ids" % how, said(output, "calls"), said(output, "own_calls"))
        same_counts("other tool, %s: kernels before and after" % how, {KERNEL: 15}, kernels(report))
    output, report, _ = run([program, "keep", "by-hand"], True)
    same("other tool, functions by dlsym: kernels that it sees", said(plain, "seen"), said(output, "seen"))
    same_counts("other tool, functions by dlsym: before and after", {KERNEL: 15}, kernels(report))
    output, report, _ = run([program, "external"], True, OPGAP_GPU="external")
    same("external ids: as the program pushed them", 18, said(output, "popped"))
    same_counts("external ids: kernels", {KERNEL: 24}, kernels(report))
    program = os.path.join(WORK, "other_tool-DSHARES")
    if not os.path.exists(program):
        row("several users of CUPTI", "", "this CUPTI has no such interface (CUDA 13.3)", "skipped")
        return
    plain, _, _ = run([program, "share"], False)
    if said(plain, "subscribe") != 0:
        row("several users of CUPTI", "", "this driver does not allow them (r610): %d" % said(plain, "subscribe"),
            "skipped")
        return
    output, report, _ = run([program, "share"], True)
    same("several users: kernels that the other sees", said(plain, "seen"), said(output, "seen"))
    same("several users: at times of its clock", said(plain, "in_time"), said(output, "in_time"))
    same_counts("several users: kernels in the trace", {KERNEL: 30}, kernels(report))


def check_costs():
    program = os.path.join(WORK, "scenario_shared")
    # graphs: fewer than a device queues, and short ones, so that the launches wait for nothing
    for what, arguments, settings, always in (
            ("launch", ["burst", "20000"], (("default", {}), ("driver calls", {"OPGAP_GPU": "driver"}),
                                            ("external ids", {"OPGAP_GPU": "external"})), {}),
            ("graph launch", ["graph", "500"], (("whole graphs", {}), ("graph nodes", {"OPGAP_GPU": "nodes"})),
             {"PLANT_NODE_NS": "1000"})):
        plain = statistics.median(said(run([program, *arguments], False, **always)[0], "launch_ns") for _ in range(5))
        figure(what + ", ns: plain", round(plain))
        for name, setting in settings:
            traced = statistics.median(said(run([program, *arguments], True, **setting, **always)[0], "launch_ns")
                                       for _ in range(5))
            figure("%s, ns: added by opgap, %s" % (what, name), round(traced - plain))


def has_torch():
    code = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
    try:
        return subprocess.run([TORCH, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def train(mode, traced):
    output, report, _ = run([TORCH, os.path.join(HERE, "train.py"), mode], traced)
    return json.loads(output.splitlines()[-1]), report


def check_training():
    if not has_torch():
        row("PyTorch training", "", "%s has no torch that sees a GPU" % TORCH, "skipped")
        return
    plain, _ = train("plain", False)
    profiled, _ = train("profiler", False)
    traced, report = train("plain", True)
    both, mixed = train("both", True)
    same_counts("training: kernels by name as torch.profiler's", profiled["kernels"], kernels(report))
    within("training: GPU time, ns, as torch.profiler's", profiled["kernel_ns"],
           sum(k["total_ns"] for k in report["kernels"]), 0.05)
    self_gpu = sum(o["self_gpu_ns"] or 0 for o in report["hot_ops"] if o["kind"] in ("torch", "range"))
    within("training: of that owned by ops, ns", sum(k["total_ns"] for k in report["kernels"]) +
           sum(c["total_ns"] for c in report["gpu_copies"]), self_gpu, 0.05)
    same_counts("training: torch.profiler inside the trace", profiled["kernels"], both["kernels"])
    same("training: its kernels at the right time", sum(both["kernels"].values()), both["in_time"])
    same_counts("training: kernels after torch.profiler's part", profiled["kernels"], kernels(mixed))
    same("training: steps", 50, report["steps"]["count"])
    figure("step, us: plain", round(plain["step_us"]))
    figure("step, us: with opgap", round(traced["step_us"]))
    figure("step, us: with torch.profiler", round(profiled["step_us"]))


def guarded(name, function, *arguments):
    try:
        function(*arguments)
    except Exception as error:  # one broken check must not hide the others
        row(name + ": could not be finished", "", " ".join(str(error).split()), "FAILED")


def main():
    probe = subprocess.run([os.path.join(WORK, "scenario_shared"), "check"], capture_output=True, text=True)
    if probe.returncode != 0:
        print("run.sh: no usable GPU here (%s)" % (probe.stdout + probe.stderr).strip())
        return 77
    for cudart in ("static", "shared"):
        guarded(cudart, check_scenarios, cudart)
    guarded("device", check_device)
    guarded("other tool", check_other_tool)
    guarded("costs", check_costs)
    guarded("training", check_training)
    widths = [min(max(len(r[i]) for r in rows), CELL) for i in range(4)]
    for r in rows:
        print("  ".join(cell[:CELL].ljust(width) for cell, width in zip(r, widths)).rstrip())
    count = {verdict: sum(r[3] == verdict for r in rows) for verdict in ("ok", "FAILED", "skipped", "measured")}
    print("%(ok)d ok, %(FAILED)d FAILED, %(skipped)d skipped, %(measured)d measured" % count)
    return 1 if count["FAILED"] or not count["ok"] else 0


sys.exit(main())
