"""marker_test.py TRACER OPDUMP PROGRAM: the markers of opgap.h with the tracer and without it."""
import subprocess
import sys

from trace import Trace, check_equal, main, remove, run_traced

TRACER, OPDUMP, PROGRAM = sys.argv[1:4]


def markers():
    check_equal("exit status without the tracer", subprocess.run([PROGRAM]).returncode, 0)
    run = run_traced(TRACER, [PROGRAM])
    check_equal("exit status", run.status, 0)
    trace = Trace(OPDUMP, run.folder)
    remove(run)
    check_equal("ranges", dict(trace.calls(run.pid, "range")),
                {"load": 5, "decode": 5, "parity 0": 3, "parity 1": 2})
    depths = {name: op.depth for (kind, name, _), op in trace.ops[run.pid].items() if kind == "range"}
    check_equal("depths", depths, {"load": 0, "decode": 1, "parity 0": 0, "parity 1": 0})
    check_equal("steps", dict(trace.calls(run.pid, "step")), {"": 5})
    check_equal("invalid records", trace.processes[run.pid]["invalid"], 0)


def schedule():
    """Only the third and fourth of five steps are recorded; a pop never ends another range than its own."""
    run = run_traced(TRACER, [PROGRAM], {"OPGAP_SCHEDULE": "wait=1,warmup=1,active=2,repeat=1"})
    check_equal("exit status", run.status, 0)
    trace = Trace(OPDUMP, run.folder)
    remove(run)
    check_equal("ranges", dict(trace.calls(run.pid, "range")), {"load": 2, "decode": 2, "parity 0": 1, "parity 1": 1})
    check_equal("steps", dict(trace.calls(run.pid, "step")), {"": 2})


main({"markers": markers, "schedule": schedule}, sys.argv[4:])
