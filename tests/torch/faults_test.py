#!/usr/bin/env python3
"""faults_test.py OPGAP PYTHON: the table of page faults has those of the first op, too, and those of a team's threads.

The program tells what the kernel counted around its ops.  No time decides: where others had the CPU between two ops the
table calls their faults nobody's, so that row counts as theirs.  Exit status 77 (skipped) without torch or OpenMP.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

from trace import needs_torch


def fill(threads):
    import torch
    torch.set_num_threads(threads)
    own = everyone = 0
    first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        tensor = torch.empty(20 << 20)
        before = [resource.getrusage(who).ru_minflt for who in (resource.RUSAGE_THREAD, resource.RUSAGE_SELF)]
        tensor.fill_(1.0)
        own += resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before[0]
        everyone += resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before[1]
        del tensor
    last = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    print(json.dumps({"own": own, "everyone": everyone, "all": last - first, "omp": torch.backends.openmp.is_available()}))


def check(right, *what):
    if not right:
        sys.exit("wrong: %s" % " ".join(map(str, what)))


def main(opgap, python):
    needs_torch(python)
    with tempfile.TemporaryDirectory() as folder:
        for threads in (1, 2):
            trace = os.path.join(folder, "%d.opgap" % threads)
            children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            done = subprocess.run([opgap, "record", "--out", trace, "--", python, os.path.abspath(__file__), "fill", str(threads)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - children
            check(done.returncode == 0, done.stderr.decode())
            said = json.loads(done.stdout)
            report = json.loads(subprocess.run([opgap, "report", "--limit", "0", "--format", "json", trace],
                                               stdout=subprocess.PIPE, check=True).stdout)
            ops = {op["name"]: op["minor_faults"] for op in report["hot_ops"]}
            other, rest = report["other_faults"]["minor"], report["rest_faults"]["minor"]
            whole = sum(ops.values()) + other + rest + report["start_faults"]["minor"]
            print(threads, "threads:", said, "fill_", ops["aten::fill_"], "other", other, "rest", rest, "all", whole, "of",
                  children)
            check(ops["aten::fill_"] + other >= said["own"], "faults of the thread that runs ops")
            check(rest >= said["everyone"] - said["own"], "faults of the others")
            check(said["all"] <= whole <= children, "all faults")
            if not said["omp"]:
                print("skipped: this torch has no OpenMP")
                sys.exit(77)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "fill":
        fill(int(sys.argv[2]))
    else:
        main(*sys.argv[1:])
