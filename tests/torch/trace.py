"""Running a program under the tracer and reading its trace with opdump; shared by the tests of this folder."""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
Op = collections.namedtuple("Op", "calls self_ns total_ns sequences allocs stacks twins depth")


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def check_equal(what, got, expected):
    check(got == expected, "%s: got %r, expected %r" % (what, got, expected))


class Trace:
    """What opdump printed: ops[pid][(kind, name, scope)], processes, notices, stacks."""

    def __init__(self, opdump, folder, stacks=False):
        command = [opdump] + (["-s"] if stacks else []) + [folder]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")
        self.ops, self.processes, self.notices, self.stacks = {}, {}, [], []
        for line in text.splitlines():
            kind, pid, *rest = line.split("\t")
            pid = int(pid)
            if kind in ("op", "range", "step"):
                self.ops.setdefault(pid, {})[(kind, rest[0], int(rest[1]))] = Op(*map(int, rest[2:]))
            elif kind == "process":
                self.processes[pid] = dict(zip(("ended", "lost", "invalid", "rank", "world"), map(int, rest)))
            elif kind == "notice":
                self.notices.append((pid, rest[0]))
            elif kind == "stack":
                self.stacks.append((pid, rest[0], rest[1]))

    def calls(self, pid, kind="op"):
        """Calls by name, over all scopes."""
        result = collections.Counter()
        for (what, name, _), op in self.ops.get(pid, {}).items():
            if what == kind:
                result[name] += op.calls
        return result

    def op(self, pid, name, scope, kind="op"):
        found = self.ops.get(pid, {}).get((kind, name, scope))
        check(found is not None, "no %s %r of scope %d in process %d; there are %r" %
              (kind, name, scope, pid, sorted(self.ops.get(pid, {}))))
        return found


class Run:
    """A program's end and its trace."""

    def __init__(self, pid, status, output, errors, folder):
        self.pid, self.status, self.output, self.errors, self.folder = pid, status, output, errors, folder


def run_traced(tracer, command, environment=None, limit=300, trace=None):
    """trace: the folder; by default one in a folder of its own, which remove() removes."""
    if trace is None:
        trace = os.path.join(tempfile.mkdtemp(prefix="opgap-test-"), "run.opgap")
    environment = dict(os.environ, **(environment or {}))
    for name in [n for n in environment if n.startswith("OPGAP_") and n not in (environment or {})]:
        del environment[name]
    environment.update(LD_PRELOAD=tracer, OPGAP_OUT=trace)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failure("%r did not end within %d s" % (command, limit))
    return Run(process.pid, process.returncode, output.decode(), errors.decode(), trace)


def main(cases, argv):
    """argv: ..., CASE, ARGUMENTS; cases: name -> function(*arguments)."""
    try:
        cases[argv[0]](*argv[1:])
    except Failure as failure:
        print("FAILED: %s" % failure)
        sys.exit(1)
    print("passed")


def needs_torch(python):
    """Its version; where that Python cannot import torch the test is skipped."""
    try:
        found = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    except OSError as error:
        print("skipped: %s" % error)
        sys.exit(SKIPPED)
    if found.returncode != 0:
        print("skipped: %s cannot import torch: %s" % (python, found.stderr.decode().strip().splitlines()[-1:]))
        sys.exit(SKIPPED)
    return found.stdout.decode().strip()


def remove(run):
    shutil.rmtree(os.path.dirname(run.folder), ignore_errors=True)
