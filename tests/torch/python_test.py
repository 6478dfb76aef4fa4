"""python_test.py TRACER OPDUMP LIBRARY PYTHON: source lines of ops against sys._getframe, on one interpreter.

Exit status 77 (skipped) when there is no such interpreter.
"""
import json
import os
import re
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
                ["opgap: %s[%d]: this Python is not understood: its version is not known; source lines are not recorded" %
                 (os.path.basename(PYTHON), run.pid)])


# OPS ops below 100 frames of a library, so that looking for the user's line costs several times what it may.
OPS = 300000
DEEP = """
import ctypes, os, sys, tempfile
library = ctypes.CDLL(sys.argv[1])
library.PyInit__fake
library.fake_begin.restype, library.fake_end.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
with tempfile.TemporaryDirectory() as place:
    folder = os.path.join(place, "lib", "python3", "site-packages")
    os.makedirs(folder)
    with open(os.path.join(folder, "below.py"), "w") as file:
        file.write('''def down(depth, begin, end, count):
    if depth > 0:
        return down(depth - 1, begin, end, count)
    for _ in range(count):
        end(begin(0, b"op", 1, 0))
''')
    sys.path.insert(0, folder)
    import below
    below.down(100, library.fake_begin, library.fake_end, int(sys.argv[2]))
"""


def budget(opgap):
    """Ops without a line, where lines cost a thread more than 2 % of its time, are counted, and one in 61 has one.  How
    many there are depends on what else the machine does; the budget itself is tested in tests/unit."""
    interpreter_version()
    run = run_traced(TRACER, [PYTHON, "-c", DEEP, LIBRARY, str(OPS)], {"OPGAP_STACKS": "python", "OPGAP_BUFFER": "256M"})
    check(run.status == 0, "the program failed (%d): %s" % (run.status, run.errors))
    trace = Trace(OPDUMP, run.folder, stacks=True)
    report = json.loads(subprocess.run([opgap, "report", "--format", "json", run.folder], check=True,
                                       stdout=subprocess.PIPE).stdout)
    remove(run)
    places = [place for _, name, place in trace.stacks if name == "op"]
    check_equal("ops", len(places), OPS)
    without = places.count("")
    print("%d of %d ops have no line" % (without, OPS))
    run_lengths = [len(part) for part in "".join("-" if place else "." for place in places).split("-")]
    check(all(length % 60 == 0 for length in run_lengths[:-1]), "lines are left out between two looks: %r" % run_lengths[:9])
    told = [re.match(r"(\d+) of %d ops have no source line" % OPS, notice) for notice in report["trace"]["notices"]]
    told = [int(match.group(1)) for match in told if match]
    check_equal("notices of it", len(told), 1 if without else 0)
    check(without == 0 or 0 <= told[0] - without <= 60, "%r are said to have no line, %d have none" % (told, without))


main({"lines": lines, "refused": refused, "budget": budget}, sys.argv[5:])
