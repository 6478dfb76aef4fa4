"""OPGAP_STACKS: what was called from where, with exact counts, names and lines.

stacks_test.py OPGAP CALLERS SOURCES CASE [PYTHON]
"""
import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

OPGAP, CALLERS, SOURCES, CASE = sys.argv[1:5]
COUNT = 20


def run(*command, code=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=60, check=False,
                          **more)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def record(folder, kind, *program, options=()):
    trace = os.path.join(folder, f"{kind}.opgap")
    _, errors = run(OPGAP, "record", "--stacks", kind, *options, "--out", trace, "--", *program)
    if "libunwind.so.8 cannot be loaded" in errors:
        skip("libunwind.so.8 is not installed")
    return trace


def table(trace, by):
    text, _ = run(OPGAP, "report", "--by", by, "--format", "csv", trace)
    return {row["name"]: {k: int(v) for k, v in row.items() if k != "name"} for row in csv.DictReader(io.StringIO(text))}


def lines_of(trace):
    """The table by line; files by name alone, since a compiler may write its path relative to where it ran."""
    return {os.path.basename(name): row for name, row in table(trace, "line").items()}


def line_of(source, label):
    with open(source, encoding="utf-8") as lines:
        return next(i for i, line in enumerate(lines, 1) if line.rstrip().rstrip("*/").rstrip().endswith("LINE " + label))


def durations(trace, call):
    lines = run(OPGAP, "info", "--records", trace)[0].splitlines()
    return [int(line.split()[4]) for line in lines if len(line.split()) > 4 and line.split()[2] == call]


def native(folder):
    """Functions, inlined ones, recursion, names of C++ and Rust, lines, large allocations."""
    trace = record(folder, "native", CALLERS, str(COUNT))
    source = os.path.join(SOURCES, "callers.c")
    functions = table(trace, "function")
    assert functions["inlined"] == {**functions["inlined"], "count": COUNT, "bytes": 0}, functions
    assert functions["inlined"]["self_ns"] == functions["inlined"]["total_ns"] > COUNT * 2000000
    slept = sum(durations(trace, "nanosleep"))
    # the stack is taken after the call, so a busy machine may stand between the two times
    assert abs(functions["inlined"]["self_ns"] - slept) < slept / 2, (functions["inlined"], slept)
    assert functions["outer::sleeper"]["count"] == COUNT, "a recursive function counts once"
    assert functions["outer::sleeper"]["total_ns"] == functions["inlined"]["total_ns"]
    assert functions["outer::sleeper"]["self_ns"] == 0
    assert functions["mycrate::allocator"]["count"] == COUNT, functions
    assert functions["mycrate::allocator"]["bytes"] == COUNT * (4 << 20)
    assert functions["main"]["count"] == 2 * COUNT and functions["main"]["self_ns"] == 0
    lines = lines_of(trace)
    for label, function, count in (("inlined", "inlined", COUNT), ("sleeper", "outer::sleeper", COUNT),
                                   ("recursion", "outer::sleeper", COUNT), ("allocator", "mycrate::allocator", COUNT)):
        key = f"callers.c:{line_of(source, label)} {function}"
        assert lines.get(key, {}).get("count") == count, (key, sorted(lines))
    modules = table(trace, "module")
    assert modules[CALLERS]["count"] == 2 * COUNT and modules[CALLERS]["self_ns"] == sum(
        row["self_ns"] for row in functions.values())
    stacks = table(trace, "stack")
    tails = {";".join(name.split(";")[-6:]): row["count"] for name, row in stacks.items()}
    three = "outer::sleeper;" * 3
    assert tails == {f"main;{three}inlined;nanosleep": COUNT,
                     next(t for t in tails if t.endswith(";malloc")): COUNT}, tails
    assert any(name.endswith("main;mycrate::allocator;malloc") for name in stacks)
    collapsed = run(OPGAP, "report", "--by", "stack", "--format", "collapsed", trace)[0].splitlines()
    assert {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in collapsed} == {
        name: row["self_ns"] for name, row in stacks.items()}
    # the tables of ops and of hooked calls name the innermost line
    text, _ = run(OPGAP, "report", "--format", "csv", trace)
    places = {row["name"]: row["source_location"] for row in csv.DictReader(io.StringIO(text))}
    expected = {"nanosleep": f"callers.c:{line_of(source, 'inlined')} inlined",
                "malloc": f"callers.c:{line_of(source, 'allocator')} mycrate::allocator", "free": ""}
    assert {name: os.path.basename(places[name]) for name in expected} == expected, places
    calls = run(OPGAP, "report", trace, env={**os.environ, "COLUMNS": "300"})[0].split("\nHooked calls")[1]
    assert f"callers.c:{line_of(source, 'inlined')} inlined\n" in calls.split("\n\n")[0], calls
    # each distinct stack is one name
    names = re.findall(r" stack .*stack='(.*)' ns=", run(OPGAP, "info", "--records", trace)[0])
    assert len(names) == 2 * COUNT and len(set(names)) == 2
    assert run(OPGAP, "report", "--by", "line", trace)[0].startswith(
        f"{2 * COUNT} stacks, 2 different; 0 left out to save time, 0 failed; ")


def record_stripped(folder):
    """A copy of the program, its debug information in a file of its own beside it, and a trace of it."""
    if not shutil.which("objcopy"):
        skip("objcopy is not installed")
    program = os.path.join(folder, "program")
    run("objcopy", "--only-keep-debug", CALLERS, program + ".debug")
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={program}.debug", CALLERS, program)
    return program, record(folder, "native", program, str(COUNT))


def separate(folder):
    """Debug information in a file of its own, found by its link; a file that was built anew gives no wrong names."""
    program, trace = record_stripped(folder)
    assert table(trace, "function")["inlined"]["count"] == COUNT
    os.unlink(program)
    shutil.copy("/bin/true", program)
    functions = table(trace, "function")
    assert "inlined" not in functions and any(name.startswith("program+0x") for name in functions), functions
    assert "1 files are other builds now" in run(OPGAP, "report", "--by", "function", trace)[0]


def archive(folder):
    """A copy of the trace gives the same names and lines where neither the program nor its debug file is."""
    program, trace = record_stripped(folder)
    before = table(trace, "line")
    copy = os.path.join(folder, "copy.opgap")
    said, _ = run(OPGAP, "info", "--archive", copy, trace)
    assert re.match(rf"1 process copied to {copy}; of the native stacks \d+ files, \d+ with debug information apart, 0 "
                    r"left out\n$", said), said
    assert "cannot make the folder" in run(OPGAP, "info", "--archive", copy, trace, code=2)[1]
    os.unlink(program)
    os.unlink(program + ".debug")
    assert table(copy, "line") == before
    assert not any("callers.c" in line for line in table(trace, "line")), "the program is still found"
    files = [os.path.join(path, name) for path, _, names in os.walk(os.path.join(copy, ".build-id")) for name in names]
    assert sum(name.endswith(".debug") for name in files) >= 1 and len(files) >= 3, files
    # what cannot be had is named, an archive can be archived, and a failed one leaves nothing
    again, late = os.path.join(folder, "again.opgap"), os.path.join(folder, "late.opgap")
    run(OPGAP, "info", "--archive", again, copy)
    assert table(again, "line") == before
    said, errors = run(OPGAP, "info", "--archive", late, trace)
    assert said.endswith(" 1 left out\n") and f"{program} is left out: it is not there any more" in errors, errors
    full = os.path.join(folder, "full.opgap")
    run("sh", "-c", f"ulimit -f 8; exec '{OPGAP}' info --archive '{full}' '{copy}'", code=2)
    assert not os.path.exists(full)


def signals(folder):
    """A signal that comes in a hooked call: the tracer's own frames are no part of the stack, the call goes on."""
    trace = record(folder, "native", CALLERS, str(COUNT), "signals")
    source = os.path.join(SOURCES, "callers.c")
    stacks = {name: row["count"] for name, row in table(trace, "stack").items() if name.endswith(";nanosleep")}
    assert len(stacks) == 1 and sum(stacks.values()) == COUNT, stacks
    frames = next(iter(stacks)).split(";")
    main = frames.index("main")
    assert frames[main:main + 3] == ["main", "with_signals", "interrupted"] or frames[main:main + 2] == [
        "main", "interrupted"], frames
    assert frames[-3:] == ["<signal handler called>", "handler", "nanosleep"], frames
    assert len(frames) - frames.index("interrupted") == 5 and not any("opgap" in name for name in frames), frames
    lines = lines_of(trace)
    for label in ("handler", "interrupted"):
        key = f"callers.c:{line_of(source, label)} {label}"
        assert lines.get(key, {}).get("count", 0) >= COUNT, (key, sorted(lines))
    assert not any("libopgap" in module for module in table(trace, "module"))


def threads(folder):
    """What libunwind does for itself, at the ends of threads too, is in no figure of the program's."""
    counts = {}
    for kind in ("off", "native"):
        trace = record(folder, kind, CALLERS, str(COUNT), "threads")
        text, _ = run(OPGAP, "report", "--table", "calls", "--format", "csv", trace)
        counts[kind] = {row["name"]: row["calls"] for row in csv.DictReader(io.StringIO(text))}
    assert counts["native"] == counts["off"] and counts["off"]["nanosleep"] == str(COUNT), counts
    stacks = [name for name in table(trace, "stack") if name.endswith("inlined;nanosleep")]
    assert len(stacks) == 1 and "opgap" not in stacks[0] and "sleep_once;outer::sleeper;inlined" in stacks[0], stacks


def locks(folder):
    """Locks in static data have the names of their symbols, one on the heap who made its block, each where it was waited
    for."""
    waited_at = f"callers.c:{line_of(os.path.join(SOURCES, 'callers.c'), 'waiter')} lock_once"
    for kind in ("count", "events"):
        place = os.path.join(folder, kind)
        os.mkdir(place)
        trace = record(place, "native", CALLERS, str(COUNT), "locks", options=["--alloc", kind])
        report = json.loads(run(OPGAP, "report", "--format", "json", trace)[0])
        found, pid = report["locks"], report["processes"][0]["pid"]
        named = {lock["symbol"]: lock for lock in found}
        assert len(found) == 3 and named.keys() == {"plain in callers", "guarded+8 in callers", None}, found
        assert all(lock["waits"] == COUNT and lock["threads"] == COUNT for lock in found), found
        blocks = {symbol: lock["block"] for symbol, lock in named.items()}
        # a thread is named after its program
        size = 40 if struct.calcsize("P") == 8 and os.uname().machine == "x86_64" else 48  # sizeof(pthread_mutex_t)
        made = f"{size} bytes by thread {pid} (callers)" if kind == "events" else None
        assert blocks == {"plain in callers": None, "guarded+8 in callers": None, None: made}, blocks
        assert [os.path.basename(lock["source_location"] or "") for lock in found] == [waited_at] * 3, found
        text = run(OPGAP, "report", trace, env={**os.environ, "COLUMNS": "300"})[0]
        assert "  guarded+8 in callers " in text and f"  {named[None]['object']:#x} " in text, text
        assert ("Heap block" in text) == (kind == "events"), text
        rows = list(csv.DictReader(io.StringIO(run(OPGAP, "report", "--table", "locks", "--format", "csv", trace)[0])))
        assert [[row["symbol"] or None, row["block"] or None, row["source_location"]] for row in rows] == [
            [lock["symbol"], lock["block"], lock["source_location"]] for lock in found], rows


def static_locks(folder):
    """Without any stacks: locks in static data of a program, position-independent or not, and of a library have the names
    of their symbols; of stripped files, the place in the file."""
    pie, fixed, library = (shutil.copy(program, folder) for program in sys.argv[5:8])
    env = {**os.environ, "LD_LIBRARY_PATH": folder}
    table_of = lambda path: {name: int(value, 16) for value, _, name in (
        line.split() for line in run("nm", "--defined-only", path)[0].splitlines() if len(line.split()) == 3)}
    places = {path: table_of(path) for path in (pie, fixed, library)}
    assert places[pie]["big_lock"] < 0x400000 <= places[fixed]["big_lock"], places
    for stripped in (False, True):
        if stripped:
            run("strip", "--strip-all", pie, fixed, library)
        for program in (pie, fixed):
            file = os.path.basename(program)
            own = f"{file}+{places[program]['big_lock']:#x}" if stripped else f"big_lock in {file}"
            names = {own, f"library_lock in {os.path.basename(library)}"} # the library's is a dynamic symbol, too
            place = os.path.join(folder, f"{os.path.basename(program)}-{stripped}")
            os.mkdir(place)
            trace = os.path.join(place, "t.opgap")
            run(OPGAP, "record", "--out", trace, "--", program, str(COUNT), env=env)
            found = json.loads(run(OPGAP, "report", "--format", "json", trace)[0])["locks"]
            assert {lock["symbol"] for lock in found} == names and len(found) == 2, (found, names)
            assert all(lock["waits"] == COUNT for lock in found), found


def resizes(folder):
    """Large blocks by realloc have times and stacks as malloc's do, however recorded; one that failed adds no bytes."""
    few = 5  # 10 stacks in no time at all: within the allowance on a slow machine as well
    for kind in ("count", "events"):
        place = os.path.join(folder, kind)
        os.mkdir(place)
        trace = record(place, "native", CALLERS, str(few), "resizes", options=["--alloc", kind])
        stacks = table(trace, "stack")
        found = {name.rsplit(";", 1)[1]: row for name, row in stacks.items()}
        assert found.keys() == {"realloc", "malloc"} and len(stacks) == 2, (kind, stacks)
        assert (found["realloc"]["count"], found["realloc"]["bytes"]) == (few, few * (4 << 20)), (kind, found)
        assert (found["malloc"]["count"], found["malloc"]["bytes"]) == (few, 0), (kind, found)
        # large ones have the time that they took; as events each follows a record of no length that gives the block back
        took = durations(trace, "realloc")
        assert sum(ns > 0 for ns in took) == few and len(took) == few * (2 if kind == "events" else 1), (kind, took)


def peaks(folder):
    """What lived at the peak by the lines that made large blocks; a small one has no stack."""
    trace = record(folder, "native", CALLERS, "3", "peaks", options=["--alloc", "events"])
    report = json.loads(run(OPGAP, "report", "--format", "json", trace)[0])
    alive = {}
    for row in report["memory"]["alive_at_peak"]:
        place = os.path.basename(row["source_location"] or "")
        alive[place] = [sum(pair) for pair in zip(alive.get(place, [0, 0]), (row["bytes"], row["blocks"]))]
    source = os.path.join(SOURCES, "callers.c")
    first, second = (f"callers.c:{line_of(source, label)} keep_blocks" for label in ("first kept", "second kept"))
    assert alive[first] == [3 << 20, 3] and alive[second] == [3 << 21, 3] and alive[""][1] >= 3, alive
    assert alive.keys() == {first, second, ""}, alive
    assert sum(size for size, _ in alive.values()) == report["memory"]["peak_bytes"], report["memory"]
    text = run(OPGAP, "report", trace, env={**os.environ, "COLUMNS": "200"})[0].split("Alive at the peak")[1]
    lines = {os.path.basename(line.split("  ")[1]): line for line in text.splitlines()
             if re.match(r"  \S*callers\.c:", line)}
    assert lines.keys() == {first, second} and "3.00 MB" in lines[first] and "6.00 MB" in lines[second], text


MANY = 300000  # calls, each of which would get a stack


def budget(folder):
    """However often something takes a stack, they cost a thread 2 % of its time, 5 ms of allowance and the last one,
    which may hold a switch to another thread: 60 ms for both (without a limit they took half a second)."""
    null_read = f"import os\nf = os.open('/dev/null', os.O_RDONLY)\nfor _ in range({MANY}):\n    os.read(f, 70000)"
    for kind, program in (("native", [CALLERS, str(MANY), "blocks"]), ("python", [sys.executable, "-S", "-c", null_read])):
        trace = record(folder, kind, *program, options=["--min-alloc", "70000"])
        told = json.loads(run(OPGAP, "report", "--by", "function", "--format", "json", trace)[0])
        life = json.loads(run(OPGAP, "report", "--format", "json", trace)[0])["processes"][0]
        assert told["failed"] == 0 and MANY <= told["stacks"] + told["skipped"] < MANY * 1.01, (kind, told)
        assert kind == "python" or told["stacks"] + told["skipped"] == MANY, told
        assert told["stacks"] > 0, (kind, told)  # and all, where 2 % of a late machine's time are enough for all
        most = (life["end_ns"] - life["start_ns"]) / 50 + 60000000
        assert 0 < told["cost_ns"] < most, (kind, told["cost_ns"], most)


def python(folder):
    """Python's frames alone, and in the place of the interpreter's loop."""
    interpreter, source = sys.argv[5], os.path.join(SOURCES, "callers.py")
    if shutil.which(interpreter) is None:
        skip(f"{interpreter} is not here")
    version = run(interpreter, "-c", "import sys; print(sys.version_info[1])")[0].strip()
    qualified = int(version) >= 11  # code objects have no qualified name before
    names = ["<module>", "main", "step", "step.<locals>.<lambda>" if qualified else "<lambda>", "inner",
             "Loader.fetch" if qualified else "fetch"]
    labels = ["module", "main", "step", "step", "inner", "fetch"]
    trace = record(folder, "python", interpreter, source)
    stacks = [name for name, row in table(trace, "stack").items() if ";".join(names) in name]
    assert len(stacks) == 1 and stacks[0].split(";")[:-1] == names, (stacks, names)
    lines = table(trace, "line")
    for name, label in zip(names, labels):
        key = f"{source}:{line_of(source, label)} {name}"
        assert lines[key]["count"] == COUNT, (key, sorted(lines))
    for kind in ("python", "both"):
        text, _ = run(OPGAP, "report", "--format", "csv",
                      trace if kind == "python" else record(folder, kind, interpreter, source))
        places = {row["name"]: row["source_location"] for row in csv.DictReader(io.StringIO(text))}
        key = f"{source}:{line_of(source, 'fetch')} {names[-1]}"
        assert key in places.values(), (key, places)
    both = os.path.join(folder, "both.opgap")
    counts = {tuple(name.split(";")): row["count"] for name, row in table(both, "stack").items()}
    mine = [stack for stack in counts if "step" in stack]
    assert sum(counts[stack] for stack in mine) == COUNT, counts
    for stack in mine:
        assert [name for name in stack if name in names][-len(names):] == names, stack
        # the C functions of map() stand between the frame that called it and the one that it calls
        step, call_back = stack.index("step"), stack.index(names[3])
        assert call_back - step > 1 and not any("_PyEval_EvalFrameDefault" in name for name in stack), stack


CASES = {f.__name__: f for f in (native, separate, archive, signals, threads, locks, resizes, peaks, budget, python, static_locks)}
with tempfile.TemporaryDirectory(prefix="opgap-stacks-") as place:
    CASES[CASE](os.path.realpath(place))
