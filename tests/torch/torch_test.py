"""torch_test.py TRACER OPDUMP PYTHON CASE [ARGUMENTS]: the ops of a real PyTorch against torch.profiler.

Exit status 77 (skipped) when that PYTHON has no torch.
"""
import errno
import json
import os
import socket
import subprocess
import sys
import tempfile

from trace import Trace, check, check_equal, main, needs_torch, remove, run_traced

TRACER, OPDUMP, PYTHON = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "train.py")


VERSION = needs_torch(PYTHON)
MAJOR = int(VERSION.split(".")[0])


def read_profile(path):
    """name -> (raw events, key_averages' count, self time in us)"""
    result = {}
    with open(path) as lines:
        for line in lines:
            name, raw, count, self_us = line.rstrip("\n").split("\t")
            result[name] = (int(raw), int(count), float(self_us))
    return result


def profile(environment):
    """The same training under torch.profiler alone."""
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        done = subprocess.run([PYTHON, TRAIN], env=dict(os.environ, PROFILE=file.name, **environment),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(done.returncode == 0, "the profiled training failed: %s" % done.stderr.decode())
        return done.stdout.decode(), read_profile(file.name)


def train(environment):
    run = run_traced(TRACER, [PYTHON, TRAIN], environment)
    check(run.status == 0, "the traced training failed (%d): %s" % (run.status, run.errors))
    check_equal("what the tracer says", [l for l in run.errors.splitlines() if l.startswith("opgap")], [])
    trace = Trace(OPDUMP, run.folder)
    for pid, process in trace.processes.items():
        check_equal("lost and invalid records of process %d" % pid, (process["lost"], process["invalid"]), (0, 0))
    remove(run)
    return run, trace


def averaged(trace, pid):
    """Calls by name as key_averages counts them: a record's only child of the same name is dropped."""
    result = {}
    for (_, name, _), op in trace.ops[pid].items():
        result[name] = result.get(name, 0) + op.calls - op.twins
    return result


def calls(workers, optimizer, control="off"):
    """Every op has exactly the calls that torch.profiler counts, and tracing does not change the result."""
    environment = {"WORKERS": workers, "OPTIMIZER": optimizer}
    output, expected = profile(environment)
    run, trace = train(dict(environment, OPGAP_CONTROL=control))
    check_equal("the training's result", run.output, output)
    raw = {name: row[0] for name, row in expected.items()}
    check(len(raw) > 50, "torch.profiler saw %d names only" % len(raw))
    check_equal("calls", dict(trace.calls(run.pid)), raw)
    if MAJOR >= 2:  # torch 1 mis-assigns parents when times are equal in microseconds
        check_equal("calls as in key_averages", averaged(trace, run.pid), {n: row[1] for n, row in expected.items()})
    check_backward_sequences(trace, run.pid)


def check_backward_sequences(trace, pid):
    """Autograd nodes carry the sequence number of their forward op; other ops of no gradient carry none."""
    node = trace.op(pid, "AddmmBackward0", 1)
    check_equal("backward nodes with a sequence number", node.sequences, node.calls)
    check_equal("user ranges with a sequence number", trace.op(pid, "forward", 7).sequences, 0)


def workers(start, persistent=""):
    """DataLoader workers of every kind record what they run: one aten::mul and one aten::full a sample."""
    run, trace = train(dict({"WORKERS": "2", "START": start}, **({"PERSISTENT": "1"} if persistent else {})))
    others = [pid for pid in trace.processes if pid != run.pid and "aten::mul" in trace.calls(pid)]
    check_equal("worker processes (two an epoch, or two that stay)", len(others), 2 if persistent else 4)
    for name in ("aten::mul", "aten::full"):
        check_equal(name, sum(trace.calls(pid)[name] for pid in others), 640)
    check_equal("aten::full in the main process", trace.calls(run.pid)["aten::full"], 0)


def together():
    """Beside torch.profiler in one process: the same calls, and self times that agree in sum."""
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        run, trace = train({"PROFILE": file.name})
        expected = read_profile(file.name)
    ours = trace.calls(run.pid)
    different = {name: (ours[name], row[0]) for name, row in expected.items() if ours[name] != row[0]}
    check_equal("calls that differ", different, {})
    profiler_us = sum(row[2] for row in expected.values())
    self_us = sum(op.self_ns for (_, name, _), op in trace.ops[run.pid].items() if name in expected) / 1000
    print("self time: opgap %.0f us, torch.profiler %.0f us" % (self_us, profiler_us))
    check(0.6 < self_us / profiler_us < 1.6, "self times %.0f and %.0f us are too far apart" % (self_us, profiler_us))


def off():
    """OPGAP_HOOKS=all,-torch: no op is recorded."""
    run, trace = train({"OPGAP_HOOKS": "all,-torch"})
    check_equal("ops", dict(trace.calls(run.pid)), {})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def distributed(launcher=""):
    """Collectives begin on one thread and end on another: each is recorded once, and none stays open on its thread.
    Started by torch.distributed.run (torchrun), the processes carry their ranks."""
    script, port = os.path.join(HERE, "distributed.py"), free_port()
    arguments = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", port, script]
    run = run_traced(TRACER, [PYTHON] + (arguments if launcher else [script, port]))
    check(run.status == 0, "distributed.py failed (%d): %s" % (run.status, run.errors))
    trace = Trace(OPDUMP, run.folder)
    remove(run)
    if launcher:
        named = sorted((p["rank"], p["world"]) for p in trace.processes.values() if p["rank"] >= 0)
        check_equal("processes with a rank, and of how many", named, [(0, 2), (1, 2)])
    ranks = [pid for pid in trace.processes if "gloo:all_reduce" in trace.calls(pid)]
    check_equal("ranks", len(ranks), 2)
    for pid in ranks:
        ours = trace.calls(pid)
        check_equal("collectives", [ours[name] for name in ("gloo:all_reduce", "c10d::allreduce_")], [8, 8])
        check_equal("steps", ours["Optimizer.step#SGD.step"], 5)
        for name, scope in (("gloo:all_reduce", 7), ("Optimizer.step#SGD.step", 7), ("aten::sin_", 0)):
            check_equal("depth of " + name, trace.op(pid, name, scope).depth, 0)
        check_equal("invalid records", trace.processes[pid]["invalid"], 0)


def line_of(text):
    with open(TRAIN) as source:
        found = [number for number, line in enumerate(source, 1) if text in line]
    check_equal("lines with %r" % text, len(found), 1)
    return found[0]


def lines():
    """OPGAP_STACKS=python: ops carry the line of the training that ran them, in workers and backward too."""
    run = run_traced(TRACER, [PYTHON, TRAIN], {"OPGAP_STACKS": "python", "WORKERS": "2"})
    check(run.status == 0, "the traced training failed (%d): %s" % (run.status, run.errors))
    check_equal("what the tracer says", [l for l in run.errors.splitlines() if l.startswith("opgap")], [])
    trace = Trace(OPDUMP, run.folder, stacks=True)
    remove(run)
    places = {}
    for pid, name, place in trace.stacks:
        places.setdefault((pid == run.pid, name), set()).add(place)
    for in_main, name, text, function in (
            (True, "forward", 'record_function("forward")', "train"), (True, "aten::addmm", "model(samples)", "train"),
            (True, "AddmmBackward0", "loss.backward()", "train"), (True, "Optimizer.step#Adam.step",
                                                                    "optimizer.step()", "train"),
            (False, "aten::mul", ".mul(2.0)", "Doubling.__getitem__")):
        check_equal("places of " + name, places.get((in_main, name)),
                    {"%s:%d %s" % (TRAIN, line_of(text), function)})


def schedule():
    """OPGAP_SCHEDULE: of 20 steps exactly 5 to 9 and 15 to 19 are recorded, whole."""
    run, trace = train({"OPGAP_SCHEDULE": "wait=3,warmup=2,active=5,repeat=2"})
    ours = trace.calls(run.pid)
    names = ("Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad", "forward", "aten::addmm", "AddmmBackward0",
             "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    check_equal("calls", [ours[name] for name in names], [10, 10, 10, 20, 20, 10])


def threads():
    """Python threads, autograd inside a thread, TorchScript functions that are suspended and go on elsewhere."""
    run = run_traced(TRACER, [PYTHON, os.path.join(HERE, "threads.py")])
    check(run.status == 0, "threads.py failed (%d): %s" % (run.status, run.errors))
    trace = Trace(OPDUMP, run.folder)
    remove(run)
    ours = trace.calls(run.pid)
    check_equal("aten::mul_ in a thread", ours["aten::mul_"], 100)
    check_equal("aten::sigmoid in tasks", ours["aten::sigmoid"], 50)
    check_equal("MulBackward0 in a thread", ours["MulBackward0"], 10)
    check_equal("depth of the last op", trace.op(run.pid, "aten::cos_", 0).depth, 0)
    check_equal("invalid records", trace.processes[run.pid]["invalid"], 0)


OUT_OF_MEMORY = """
import torch
sum = torch.relu(torch.ones(300) + 1)
try:
    torch.empty(1 << 47, dtype=torch.int8)
except RuntimeError as error:
    raise SystemExit(0 if "allocate" in str(error) else str(error))
raise SystemExit("this much could be had")
"""


def out_of_memory(opgap):
    """What DefaultCPUAllocator cannot get: how much, in which op, and the ops before it, the latest first."""
    run = run_traced(TRACER, [PYTHON, "-c", OUT_OF_MEMORY])
    check(run.status == 0, "the program failed (%d): %s" % (run.status, run.errors))
    report = subprocess.run([opgap, "report", "--format", "json", run.folder], check=True, stdout=subprocess.PIPE).stdout
    remove(run)
    failures = json.loads(report)["memory"]["failures"]
    check_equal("failures", [(f["call"], f["bytes"], f["error"], f["op"]) for f in failures],
                [("posix_memalign", 1 << 47, errno.ENOMEM, "aten::empty")])
    ops = [last.split(",")[0] for last in failures[0]["last"] if last.startswith("aten::")]
    check_equal("ops before it", ops, ["aten::relu", "aten::add", "aten::ones"])


main({"calls": calls, "workers": workers, "together": together, "off": off, "threads": threads, "lines": lines,
      "schedule": schedule, "out_of_memory": out_of_memory, "distributed": distributed}, sys.argv[4:])
