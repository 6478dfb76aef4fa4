"""fake_test.py TRACER OPDUMP HOST LIBRARY CASE [ARGUMENTS]: the tracer on a stand-in for torch, right and wrong."""
import os
import shutil
import sys
import tempfile

from trace import Trace, check, check_equal, main, remove, run_traced

TRACER, OPDUMP, HOST, LIBRARY = sys.argv[1:5]


def run_host(mode, environment=None):
    run = run_traced(TRACER, [HOST, LIBRARY, mode], environment, limit=60)
    check_equal("the program's exit status", run.status, 0)
    trace = Trace(OPDUMP, run.folder)
    remove(run)
    said = [line for line in run.errors.splitlines() if line.startswith("opgap")]
    return run, trace, said


def expect_ops(run, trace):
    check_equal("callbacks", run.output, "callbacks 10\n")
    check_equal("ops", dict(trace.calls(run.pid)), {"range": 1, "outer": 1, "inner": 1, "last": 1})
    depths = {name: op.depth for (_, name, _), op in trace.ops[run.pid].items()}
    check_equal("depths", depths, {"range": 0, "outer": 1, "inner": 2, "last": 1})
    check_equal("ops with a sequence number", trace.op(run.pid, "last", 0).sequences, 1)
    check_equal("ops with a sequence number", trace.op(run.pid, "outer", 0).sequences, 0)


def understood(control="off"):
    """The layout that torch has is accepted, without a word; the copy of the process that tries it leaves the page of
    OPGAP_CONTROL alone."""
    run, trace, said = run_host("ops", {"OPGAP_CONTROL": control})
    check_equal("what the tracer says", said, [])
    expect_ops(run, trace)


def refused(mode, reason):
    """Another layout: one line that gives the reason, no callback, and the program runs as if untraced."""
    run, trace, said = run_host(mode)
    check_equal("callbacks", run.output, "callbacks 0\n")
    check_equal("ops", dict(trace.calls(run.pid)), {})
    line = "this torch (unknown version) is not understood: %s; its ops are not recorded" % reason
    check_equal("what the tracer says", said, ["opgap: %s[%d]: %s" % (os.path.basename(HOST), run.pid, line)])
    check_equal("notices in the trace", trace.notices, [(run.pid, line)])


def retried():
    """A probe that hangs once is tried again."""
    with tempfile.TemporaryDirectory() as folder:
        mark = os.path.join(folder, "mark")
        run, trace, said = run_host("ops", {"FAKE_MARK": mark})
        check(os.path.exists(mark), "the first probe did not hang")
    check_equal("what the tracer says", said, [])
    expect_ops(run, trace)


def run_counting(script, mode, trace=None):
    """A shell that runs the program as "$0" "$1" "$2", perhaps several times, all in one trace.  How many copies of its
    processes tried the library; each makes two ranges."""
    with tempfile.TemporaryDirectory() as folder:
        count = os.path.join(folder, "count")
        run = run_traced(TRACER, ["sh", "-c", script, HOST, LIBRARY, mode], {"FAKE_MARK": count}, limit=60, trace=trace)
        check_equal("the shell's exit status", run.status, 0)
        copies, odd = divmod(os.path.getsize(count) if os.path.exists(count) else 0, 2)
    check_equal("ranges of a copy that did not end", odd, 0)
    check_equal("what the tracer says", [line for line in run.errors.splitlines() if line.startswith("opgap")], [])
    found = Trace(OPDUMP, run.folder)
    if trace is None:
        remove(run)
    programs = [pid for pid in found.ops if found.calls(pid)]
    check_equal("callbacks", run.output, "callbacks 10\n" * len(programs))
    for pid in programs:
        check_equal("ops", dict(found.calls(pid)), {"range": 1, "outer": 1, "inner": 1, "last": 1})
    return len(programs), copies


def copies(mode, expected):
    """What one process has proved about a library, the others of its trace take; but not where polling has found the
    library, nor where nothing tells that it is the same one."""
    check_equal("programs, copies", run_counting('"$0" "$1" "$2" && "$0" "$1" "$2" && "$0" "$1" "$2"', mode),
                (3, int(expected)))


def forged():
    """A mark that is no empty file of this user's own is none."""
    forgeries = ["echo x >$m", "rm $m && : >$m.other && ln -s $m.other $m", "rm $m && mkdir $m"]
    if os.geteuid() == 0:
        forgeries += ["rmdir $m && : >$m && chown 1 $m"]
    script = '"$0" "$1" "$2" && m=$(echo $OPGAP_OUT/torch-*)'
    for forgery in forgeries:
        script += ' && %s && "$0" "$1" "$2"' % forgery
    count = 1 + len(forgeries)
    check_equal("programs, copies", run_counting(script, "ops"), (count, count))


def beside():
    """What a trace has proved, those that are written beside it take, also when that one is gone; but not if it is
    somebody else's folder, or called otherwise."""
    once = '"$0" "$1" "$2"'
    with tempfile.TemporaryDirectory() as folder:
        def trace(name):
            return os.path.join(folder, name)

        check_equal("programs, copies of the first", run_counting(once, "ops", trace("first.opgap")), (1, 1))
        check_equal("the second", run_counting(once, "ops", trace("second.opgap")), (1, 0))
        shutil.rmtree(trace("first.opgap"))
        check_equal("one when the first is gone", run_counting(once, "ops", trace("third.opgap")), (1, 0))
        check_equal("one that polling tells", run_counting(once, "late", trace("late.opgap")), (1, 1))
        shutil.rmtree(trace("late.opgap"))
        shutil.rmtree(trace("second.opgap"))
        os.rename(trace("third.opgap"), trace("third"))
        check_equal("one beside no NAME.opgap", run_counting(once, "ops", trace("fourth.opgap")), (1, 1))
        os.rename(trace("fourth.opgap"), trace("fourth"))
        os.symlink("fourth", trace("fourth.opgap"))
        check_equal("one beside a link", run_counting(once, "ops", trace("fifth.opgap")), (1, 1))
        if os.geteuid() == 0:
            os.chown(trace("fifth.opgap"), 1, -1)
            check_equal("one beside another user's", run_counting(once, "ops", trace("sixth.opgap")), (1, 1))


def threads():
    """Ranges that end elsewhere are recorded once and leave no stale op behind."""
    run, trace, _ = run_host("threads")
    expected = {"script": 1, "inside script": 1, "after script": 1, "collective": 2, "beside collective": 1,
                "after collective": 1}
    check_equal("ops", dict(trace.calls(run.pid)), expected)
    for name, depth in (("inside script", 1), ("after script", 0), ("beside collective", 0), ("after collective", 0)):
        check_equal("depth of " + name, trace.op(run.pid, name, 0).depth, depth)
    check_equal("invalid records", trace.processes[run.pid]["invalid"], 0)


def crowd():
    """Each of many threads is told that its range has ended elsewhere."""
    run, trace, _ = run_host("crowd")
    check_equal("ops", dict(trace.calls(run.pid)), {"script": 250, "after script": 250})
    check_equal("largest depth of what comes after", trace.op(run.pid, "after script", 0).depth, 0)


def forks():
    """A range that is open across a fork belongs to the parent; the child's ops are its own."""
    run, trace, _ = run_host("fork")
    children = [pid for pid in trace.processes if pid != run.pid]
    check_equal("child processes", len(children), 1)
    check_equal("the parent's ops", dict(trace.calls(run.pid)), {"across": 1})
    check_equal("the child's ops", dict(trace.calls(children[0])), {"in child": 1})
    check_equal("depth in the child", trace.op(children[0], "in child", 0).depth, 0)


def late():
    """A library that no PyInit_* look-up announced is found by polling, and the trace says that ops may be missing."""
    run, trace, said = run_host("late")
    check_equal("what the tracer says", said, [])
    expect_ops(run, trace)
    check_equal("notices in the trace", trace.notices,
                [(run.pid, "torch was noticed late: ops before this moment are missing")])


main({"understood": understood, "refused": refused, "retried": retried, "threads": threads, "crowd": crowd, "forks": forks,
      "late": late, "copies": copies, "forged": forged, "beside": beside}, sys.argv[5:])
