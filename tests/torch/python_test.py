"""python_test.py TRACER OPDUMP LIBRARY PYTHON: source lines of ops against sys._getframe, on one interpreter.

Exit status 77 (skipped) when there is no such interpreter.
"""
import os
import subprocess
import sys
import tempfile

from trace import SKIPPED, Trace, check, check_equal, main, remove, run_traced

TRACER, OPDUMP, LIBRARY, PYTHON = sys.argv[1:5]
LINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lines.py")
UNDERSTOOD = [(3, minor) for minor in range(9, 15)]


def interpreter_version():
    if PYTHON.endswith("-NOTFOUND"):  # as CMake says that it found none: OPGAP_PYTHON_3_14-NOTFOUND
        print("skipped: no python%s here" % PYTHON[:-len("-NOTFOUND")].split("_", 2)[-1].replace("_", "."))
        sys.exit(SKIPPED)
    try:
        found = subprocess.run([PYTHON, "-c", "import sys, ctypes; print(*sys.version_info[:2])"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        print("skipped: %s" % error)
        sys.exit(SKIPPED)
    check(found.returncode == 0, "%s does not work: %s" % (PYTHON, found.stderr.decode()))
    return tuple(map(int, found.stdout.split()))


def lines():
    """Each op's line and function are what Python itself says."""
    version = interpreter_version()
    check(version in UNDERSTOOD, "Python %d.%d is none of those with source lines" % version)
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        run = run_traced(TRACER, [PYTHON, LINES, LIBRARY, file.name], {"OPGAP_STACKS": "python"})
        check(run.status == 0, "lines.py failed (%d): %s" % (run.status, run.errors))
        expected = [line.rstrip("\n").split("\t") for line in open(file.name, encoding="utf-8")]
    check_equal("what the tracer says", [l for l in run.errors.splitlines() if l.startswith("opgap")], [])
    trace = Trace(OPDUMP, run.folder, stacks=True)
    remove(run)
    got = {name: place for _, name, place in trace.stacks}
    check(len(expected) >= 50, "%d ops only" % len(expected))
    check_equal("ops", sorted(got), sorted(name for name, _ in expected))
    wrong = ["%s: got %s, expected %s" % (name, got[name], place) for name, place in expected if got[name] != place]
    check(not wrong, "%d of %d places are wrong:\n  %s" % (len(wrong), len(expected), "\n  ".join(wrong[:10])))
    print("%d places are right" % len(expected))


def refused():
    """A version that is not known: one line, no source lines, and the program runs."""
    version = interpreter_version()
    check(version not in UNDERSTOOD, "Python %d.%d has source lines" % version)
    script = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); library.PyInit__fake; "
              "library.fake_begin.restype = ctypes.c_void_p; library.fake_end.argtypes = (ctypes.c_void_p,); "
              "library.fake_end(library.fake_begin(0, b'op', 1, 0))")
    run = run_traced(TRACER, [PYTHON, "-c", script, LIBRARY], {"OPGAP_STACKS": "python"})
    check(run.status == 0, "the program failed (%d): %s" % (run.status, run.errors))
    trace = Trace(OPDUMP, run.folder, stacks=True)
    remove(run)
    check_equal("places", [(name, place) for _, name, place in trace.stacks], [("op", "")])
    check_equal("what the tracer says", [l for l in run.errors.splitlines() if l.startswith("opgap")],
                ["opgap: this Python is not understood: its version is not known; source lines are not recorded"])


main({"lines": lines, "refused": refused}, sys.argv[5:])
