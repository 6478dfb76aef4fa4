"""Traces one of the demo's trainings and checks the report against what the training is known to do.

usage: demo_test.py OPGAP minimal PROGRAM          the C training, by `opgap record`
       demo_test.py OPGAP record PYTHON TRAIN      the PyTorch training, by `opgap record`
       demo_test.py OPGAP preload PYTHON TRAIN     the same with LD_PRELOAD alone
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

OPGAP = sys.argv[1]
TRACER = os.path.join(os.path.dirname(OPGAP), "libopgap.so")


def check(what, actual, expected):
    if actual != expected:
        sys.exit(f"{what}: {actual!r}, expected {expected!r}")


def clean_environment(**more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPGAP_") and k != "LD_PRELOAD"}
    environment.update(more)
    return environment


def run(arguments, **more):
    result = subprocess.run(arguments, env=clean_environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode != 0:
        sys.exit(f"{arguments}: exit status {result.returncode}\n{result.stdout.decode()}{result.stderr.decode()}")
    return result


def report(*options):
    return json.loads(run([OPGAP, "report", "--format", "json", "--limit", "0", *options]).stdout)


def check_head(summary, roles):
    trace = summary["trace"]
    check("complete", trace["complete"], True)
    check("lost records", trace["lost_records"], 0)
    check("invalid records", trace["invalid_records"], 0)
    check("damage", trace["damage"], [])
    processes = summary["processes"]
    check("roles", collections.Counter(p["role"] for p in processes), collections.Counter(roles))
    check("ends", {p["ended"] for p in processes}, {"clean"})
    check("records", sum(p["records"] for p in processes), trace["records"])


def calls(summary, name, role):
    found = [c["calls"] for c in summary["calls"] if c["name"] == name and c["role"] == role]
    return sum(found)


def check_minimal(program):
    """1280 files, written once, and read once an epoch."""
    epochs = 3
    plain = run([program, "plain", str(epochs)])
    traced = run([OPGAP, "record", "--out", "t.opgap", "--", program, "shapes", str(epochs)])
    check("the program's output", traced.stdout, plain.stdout)
    summary = report("t.opgap")
    check_head(summary, ["program"])
    check("untraced", summary["untraced"], [])
    check("threads", summary["processes"][0]["threads"], 2)
    for name, count in (("fopen", 1280 * (epochs + 1)), ("fclose", 1280 * (epochs + 1)), ("fread", 1280 * epochs),
                        ("fwrite", 1280), ("pthread_create", 1), ("pthread_join", 1)):
        check(name, calls(summary, name, "program"), count)
    pixels = 128 * 128
    files = [f for f in summary["files"] if f["path"].endswith(".pgm")]
    check("bytes read", {f["bytes"] for f in files if f["operation"] == "read"}, {pixels * epochs})
    check("bytes written", {f["bytes"] for f in files if f["operation"] == "write"}, {pixels})
    check("files", len({f["path"] for f in files}), 1280)


def check_gaps(summary):
    gaps = summary["idle_gaps"]
    check("causes add up to all gaps", sum(cause["ns"] for cause in gaps["by_cause"]), gaps["thread_ns"])
    for gap in gaps["threads"]:
        check("causes of a gap add up", sum(cause["ns"] for cause in gap["causes"]), gap["duration_ns"])
    sums = collections.Counter()
    for cause in gaps["by_cause"]:
        sums[cause["cause"]] += cause["ns"]
    course = summary["over_time"]["thread_gap_ns"]
    check("causes over time add up to all gaps", {cause: sum(ns) for cause, ns in course.items()}, dict(+sums))
    most = max(map(sum, zip(*course.values())), default=0)
    check("no more gaps than time on one main thread", most <= summary["over_time"]["bucket_ns"], True)
    loading = sum(cause["ns"] for cause in gaps["by_cause"] if cause["cause"] == "data loading")
    check("some time is lost to data loading", loading > 0, True)


def check_training(how, python, script):
    """1437 training images in 45 batches of 32 and one of fewer, read by two workers; 360 test images in 6 batches."""
    epochs = 2
    if not python or not os.path.exists(python) or subprocess.run([python, "-c", "import torch, sklearn, PIL"],
                                                                  env=clean_environment()).returncode != 0:
        print(f"skipped: no PyTorch with scikit-learn and Pillow in '{python}'")
        sys.exit(77)
    command = [python, script, "--epochs", str(epochs)]
    run([python, script, "--epochs", "0"])  # writes the images
    if how == "record":
        run([OPGAP, "record", "--out", "t.opgap", "--", *command])
    else:
        run(command, LD_PRELOAD=TRACER, OPGAP_OUT="t.opgap")
    summary = report("t.opgap")
    check_head(summary, ["trainer"] + ["DataLoader worker 0", "DataLoader worker 1"] * epochs)

    ops = {o["name"]: o["calls"] for o in summary["hot_ops"] if o["kind"] == "torch" and o["role"] == "trainer"}
    check("steps", (summary["steps"]["source"], summary["steps"]["count"]), ("Optimizer.step", 45 * epochs))
    check("Optimizer.step", ops["Optimizer.step#SGD.step"], 45 * epochs)
    check("zero_grad", ops["Optimizer.zero_grad#SGD.zero_grad"], 45 * epochs)
    check("batches", ops["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"], 46 * epochs)
    check("test batches", ops["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"], 7)
    forward = 45 * epochs + 6
    check("aten::conv2d", ops["aten::conv2d"], 3 * forward)
    check("aten::linear", ops["aten::linear"], forward)
    check("aten::cross_entropy_loss", ops["aten::cross_entropy_loss"], 45 * epochs)
    check("aten::convolution_backward", ops["aten::convolution_backward"], 3 * 45 * epochs)

    opened = {f["path"]: f["calls"] for f in summary["files"]
              if f["operation"] == "open" and f["path"].endswith(".png") and "/train/" in f["path"]}
    check("training images", len(opened), 1437)
    check("each is opened once an epoch", set(opened.values()), {epochs})
    check_gaps(summary)
    check("verdict is given", summary["verdict"]["bound_by"] is not None, True)


def main():
    with tempfile.TemporaryDirectory(prefix="opgap-demo-") as folder:
        os.chdir(folder)
        if sys.argv[2] == "minimal":
            check_minimal(sys.argv[3])
        else:
            check_training(sys.argv[2], sys.argv[3], sys.argv[4])
        os.chdir("/")
    print("passed")


main()
