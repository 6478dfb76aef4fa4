"""opgap start, stop and snapshot on running jobs, OPGAP_KEEP: exact counts of what ran while recording was on.

control_test.py OPGAP TRACER PROGRAM CASE
"""
import glob
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

OPGAP, TRACER, PROGRAM, CASE = sys.argv[1:5]


def opgap(*arguments, code=0):
    """Standard output of a command that must end with this code, and its error output."""
    done = subprocess.run([OPGAP, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


JOBS = []


class Job:
    """The controlled program, traced into t.opgap of a new folder."""

    def __init__(self, folder, pipe="main", **settings):
        self.pipes = {}
        self.trace = os.path.join(folder, "t.opgap")
        self.folder = folder
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPGAP_")}
        environment.update(LD_PRELOAD=TRACER, OPGAP_OUT=self.trace, **settings)
        self.errors = os.path.join(folder, "errors")
        with open(self.errors, "w") as errors:
            self.program = subprocess.Popen([PROGRAM, self.pipe(pipe)], env=environment, stdout=subprocess.PIPE,
                                            stderr=errors, text=True, start_new_session=True)
        self.main = pipe
        JOBS.append(self)

    def pipe(self, name):
        path = os.path.join(self.folder, name)
        if name not in self.pipes:
            os.mkfifo(path)
            self.pipes[name] = os.open(path, os.O_RDWR)
        return path

    def tell(self, command, to=None):
        os.write(self.pipes[to or self.main], (command + "\n").encode())
        return self.program.stdout.readline().strip()

    def end(self, *pipes):
        for name in pipes or (self.main,):
            assert self.tell("q", name) == "ok"
        self.program.wait(timeout=30)


def records(trace, event):
    """(pid, line) of each record of an event."""
    lines = opgap("info", "--records", trace)[0].splitlines()
    return [(int(line.split()[0]), line) for line in lines if len(line.split()) > 2 and line.split()[2] == event]


def malloc_event(trace):
    for line in opgap("info", "--schema", trace)[0].splitlines():
        if re.match(r"event \d+ 'malloc' ", line):
            return int(line.split()[1])
    raise AssertionError("no malloc in the schema")


def mallocs(trace, bytes_each=10, of=None):
    """pid -> pairs of malloc(10): the last totals of each thread.  of: of this process alone."""
    event, last = malloc_event(trace), {}
    for line in opgap("info", "--records", trace)[0].splitlines():
        found = re.match(rf"(\d+) (\d+) counter .* status={event} calls=(\d+) bytes=(\d+)", line)
        if found and of in (None, int(found.group(1))):
            last[found.group(1, 2)] = (int(found.group(3)), int(found.group(4)))
    sums = {}
    for (pid, _), (calls, size) in last.items():
        sums[int(pid)] = sums.get(int(pid), 0) + calls
        assert size == calls * bytes_each, (pid, calls, size)
    return sums


def switches(trace, pid):
    return [int(line.rsplit("status=", 1)[1].split()[0]) for at, line in records(trace, "recording") if at == pid]


def single_thread(folder):
    """A program without threads: every switch is seen at once, and what runs in between leaves nothing."""
    job = Job(folder, OPGAP_CONTROL="idle")
    job.tell("m 100")
    assert opgap("start", job.trace)[0] == "recording started in 1 process\n"
    assert opgap("start", job.trace)[0] == "recording was on already in 1 process\n"
    job.tell("m 200")
    assert opgap("stop", job.trace)[0] == "recording stopped in 1 process\n"
    job.tell("m 400")
    assert opgap("stop", job.trace)[0] == "recording was off already in 1 process\n"
    assert opgap("start", job.trace)[0] == "recording started in 1 process\n"
    job.tell("m 800")
    pid = job.program.pid
    assert len(os.listdir(f"/proc/{pid}/task")) == 1, "the control made a thread"
    job.end()
    assert mallocs(job.trace) == {pid: 1000}, mallocs(job.trace)
    assert switches(job.trace, pid) == [0, 1, 0, 1]
    report = json.loads(opgap("report", "--format", "json", job.trace)[0])
    notices = [n for n in report["trace"]["notices"] if n.startswith("recording was off for ")]
    assert len(notices) == 1, report["trace"]["notices"]
    finished = opgap("start", job.trace, code=2)
    assert finished == ("", f"opgap: {job.trace}: no process of it runs any more on this machine\n"), finished


def remove_rings(pids):
    """Those that killed processes left: their trace goes with the test."""
    for pid in pids:
        for ring in rings_of(pid):
            os.unlink(ring)


def schedule(folder):
    """Forked children follow the windows of the steps of who forked them, until they end steps themselves."""
    job = Job(folder, OPGAP_SCHEDULE="wait=2,active=2,repeat=2")
    early, own = int(job.tell("f " + job.pipe("early"))), int(job.tell("f " + job.pipe("own")))
    job.tell("m 1000")
    job.tell("m 1000", "early")
    job.tell("s 1")
    job.tell("m 1000", "early")
    job.tell("s 1", "own")
    job.tell("m 1000", "own")
    job.tell("s 1", "own")
    job.tell("m 5", "own")
    job.tell("m 1000", "early")
    job.tell("s 1")
    job.tell("m 10")
    job.tell("m 20", "early")
    job.tell("s 2", "own")
    job.tell("m 1000", "own")
    late = int(job.tell("f " + job.pipe("late")))
    job.tell("m 100", "late")
    job.tell("s 2")
    for name in ("main", "early", "late"):
        job.tell("m 1000", name)
    job.tell("s 2")
    job.tell("m 40", "early")
    job.tell("m 200", "late")
    os.kill(late, signal.SIGKILL)
    job.tell("s 2")
    job.tell("m 1000", "early")
    pid = job.program.pid
    job.end("early", "own", "main")
    assert mallocs(job.trace) == {pid: 10, early: 60, own: 5, late: 300}, mallocs(job.trace)
    assert [switches(job.trace, p) for p in (pid, early, own, late)] == [[0, 1, 0, 1, 0], [], [0, 1, 0], []]
    report = json.loads(opgap("report", "--format", "json", job.trace)[0])
    assert not any("recording was off" in n for n in report["trace"]["notices"]), report["trace"]["notices"]
    remove_rings([late])


def lineages():
    return set(glob.glob("/dev/shm/opgap-*.lineage"))


def lineage_of(job):
    """The file that the processes of a job share (src/format/lineage.h)."""
    status = os.stat(job.trace)
    return f"/dev/shm/opgap-{os.getuid()}-{status.st_dev:x}-{status.st_ino:x}.lineage"


def schedule_executed(folder):
    """Programs that are executed follow the windows as forked children do, through processes of either kind; also those
    that start in the middle of a window."""
    job = Job(folder, OPGAP_SCHEDULE="wait=2,active=2,repeat=2")
    pid = job.program.pid
    early, forked = int(job.tell("x " + job.pipe("early"))), int(job.tell("f " + job.pipe("forked")))
    nested = int(job.tell("x " + job.pipe("nested"), "forked"))
    everybody = ["main", "early", "forked", "nested"]

    def nothing():
        for name in everybody:
            job.tell("m 1000", name)

    nothing()
    job.tell("s 1")
    nothing()
    job.tell("s 1")
    for name, count in (("main", 1), ("early", 2), ("forked", 3), ("nested", 4)):
        job.tell("m %d" % count, name)
    late, deep = int(job.tell("x " + job.pipe("late"))), int(job.tell("x " + job.pipe("deep"), "nested"))
    job.tell("m 5", "late")
    job.tell("m 6", "deep")
    everybody += ["late", "deep"]
    job.tell("s 2")
    nothing()
    assert os.path.exists(lineage_of(job)), lineages()
    assert job.tell("q", "forked") == "ok"  # nested's parent: it follows who is above
    everybody.remove("forked")
    between = int(job.tell("x " + job.pipe("between"), "deep"))
    everybody.append("between")
    nothing()
    job.tell("s 2")
    for name, count in (("main", 10), ("early", 20), ("nested", 30), ("late", 40), ("deep", 50), ("between", 60)):
        job.tell("m %d" % count, name)
    job.tell("s 2")
    nothing()
    job.end(*[name for name in everybody if name != "main"], "main")
    wanted = {pid: 11, early: 22, forked: 3, nested: 34, late: 45, deep: 56, between: 60}
    assert mallocs(job.trace) == wanted, (mallocs(job.trace), wanted)
    for at in wanted:
        assert switches(job.trace, at) == ([0, 1, 0, 1, 0] if at == pid else []), (at, switches(job.trace, at))
    assert not os.path.exists(lineage_of(job))


def schedule_owners(folder):
    """Each follows the nearest ancestor that has ended a step, also one that started before that one's first: two ranks
    of a launcher without steps, their workers, and one of these that has steps of its own."""
    job = Job(folder, OPGAP_SCHEDULE="wait=1,active=2,repeat=1")
    pid = job.program.pid
    rank = {name: int(job.tell("%s %s" % (how, job.pipe(name)))) for name, how in (("a", "x"), ("b", "f"))}
    worker = {name: int(job.tell("%s %s" % (how, job.pipe(name)), to))
              for name, how, to in (("ax", "x", "a"), ("af", "f", "a"), ("bx", "x", "b"), ("bf", "f", "b"))}
    counts = {"main": 0, "a": 0, "b": 0, "ax": 0, "af": 0, "bx": 0, "bf": 0}

    def all_but(*recorded):
        for i, name in enumerate(counts):
            job.tell("m %d" % (1 + i if name in recorded else 1000), name)
            counts[name] += 1 + i if name in recorded else 0

    all_but()
    job.tell("s 1", "a")
    all_but("a", "ax", "af")
    job.tell("s 1", "b")
    all_but("a", "ax", "af", "b", "bx", "bf")
    job.tell("s 2", "a")
    all_but("b", "bx", "bf")
    job.tell("s 1", "bx")
    all_but("b", "bx", "bf")
    job.tell("s 2", "b")
    all_but("bx")
    job.tell("s 2", "bx")
    all_but()
    job.end("ax", "af", "bx", "bf", "a", "b", "main")
    pids = {"main": pid, **rank, **worker}
    wanted = {pids[name]: count for name, count in counts.items() if count > 0}
    assert mallocs(job.trace) == wanted, (mallocs(job.trace), pids, counts)
    found = {name: switches(job.trace, at) for name, at in pids.items()}
    assert found == {"main": [0], "a": [0, 1, 0], "b": [0, 1, 0], "ax": [], "af": [], "bx": [1, 0], "bf": []}, found
    assert not os.path.exists(lineage_of(job))


def schedule_orphans(folder):
    """Whose leader is killed or ends goes on as it was; the files of killed processes go with the next command."""
    for kills in (True, False):
        for steps in (2, 4):
            place = os.path.join(folder, "%d%d" % (kills, steps))
            os.mkdir(place)
            job = Job(place, OPGAP_SCHEDULE="wait=2,active=2,repeat=2")
            pid = job.program.pid
            child = int(job.tell("x " + job.pipe("child")))
            job.tell("s %d" % steps)
            job.tell("m 1", "child")
            if kills:
                job.program.kill()
                job.program.wait(timeout=30)
            else:
                job.end()
            job.tell("m 2", "child")
            late = int(job.tell("x " + job.pipe("late"), "child"))
            job.tell("m 4", "late")
            assert os.path.exists(lineage_of(job))
            os.kill(late, signal.SIGKILL)
            if kills:
                os.kill(child, signal.SIGKILL)
            else:
                assert job.tell("q", "child") == "ok"
            deadline = time.monotonic() + 60
            while any(os.path.exists(f"/proc/{at}") and open(f"/proc/{at}/stat").read().rsplit(")", 1)[1][1] not in "ZX"
                      for at in (child, late)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            found, on = mallocs(job.trace), steps == 2
            assert (found.get(child, 0), found.get(late, 0)) == ((3, 4) if on else (0, 0)), (kills, steps, found)
            assert found.get(pid, 0) == 0
            assert not os.path.exists(lineage_of(job)), (kills, steps)
            remove_rings([late])


def schedule_tree(folder):
    """A tree of forked and executed processes that begin, end and are killed at any place while windows open and close:
    each has exactly what it did inside of them, and no file is left."""
    chance = random.Random(5)
    job = Job(folder, OPGAP_SCHEDULE="wait=1,active=1,repeat=0", OPGAP_BUFFER="2M")
    pids, wanted, alive, on = {}, {}, [], 0
    for i in range(100):
        if len(alive) < 6 and chance.random() < 0.4:
            name = "p%d" % i
            pids[name] = int(job.tell("%s %s" % (chance.choice("xf"), job.pipe(name)), chance.choice(["main"] + alive)))
            wanted[name] = 0
            alive.append(name)
        steps = chance.choice([1, 1, 2, 3])
        job.tell("s %d" % steps)
        on ^= steps % 2
        for name in alive:
            job.tell("m 3", name)
            wanted[name] += 3 * on
        if alive and chance.random() < 0.25:
            name = alive.pop(chance.randrange(len(alive)))
            if chance.random() < 0.5:
                os.kill(pids[name], signal.SIGKILL)
            else:
                job.tell("q", name)
    job.end(*alive, "main")
    found = mallocs(job.trace)
    wrong = {name: (found.get(pid, 0), wanted[name]) for name, pid in pids.items() if found.get(pid, 0) != wanted[name]}
    assert len(pids) > 20 and not wrong, (len(pids), wrong)
    opgap("report", job.trace)
    assert not os.path.exists(lineage_of(job))
    remove_rings(pids.values())


def schedule_namespace(folder):
    """A program in a pid namespace of its own follows, too, and so do those that it starts there."""
    job = Job(folder, OPGAP_SCHEDULE="wait=1,active=1,repeat=1")
    if job.tell("n " + job.pipe("first")) != "ok":
        job.end()
        print("skipped: no pid namespace can be made here")
        sys.exit(77)
    second = int(job.tell("x " + job.pipe("second"), "first"))
    for name in ("main", "first", "second"):
        job.tell("m 1000", name)
    job.tell("s 1")
    for name, count in (("main", 1), ("first", 2), ("second", 3)):
        job.tell("m %d" % count, name)
    job.tell("s 1")
    for name in ("main", "first", "second"):
        job.tell("m 1000", name)
    pid = job.program.pid
    job.end("second", "first", "main")
    assert mallocs(job.trace) == {pid: 1, 1: 2, second: 3}, (pid, second, mallocs(job.trace))
    # its namespace's end may kill `second` while it ends, which cannot be judged from outside: then the file stays
    if os.path.exists(lineage_of(job)):
        os.unlink(lineage_of(job))


def schedule_alone(folder):
    """Where no file can be shared, a limit of file sizes here, forked children follow and programs go by their own steps."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    job = Job(folder, OPGAP_SCHEDULE="wait=1,active=1,repeat=1")
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    forked, executed = int(job.tell("f " + job.pipe("forked"))), int(job.tell("x " + job.pipe("executed")))
    job.tell("s 1")
    for name, count in (("main", 1), ("forked", 2), ("executed", 1000)):
        job.tell("m %d" % count, name)
    assert not os.path.exists(lineage_of(job))
    job.tell("s 1", "executed")
    job.tell("m 4", "executed")
    job.tell("s 1")
    for name, count in (("main", 1000), ("forked", 1000), ("executed", 8)):
        job.tell("m %d" % count, name)
    pid = job.program.pid
    job.end("forked", "executed", "main")
    assert mallocs(job.trace) == {pid: 1, forked: 2, executed: 12}, mallocs(job.trace)


def schedule_children(folder):
    """No child's end, exec or kill, nor what it does to itself, reaches the page that a schedule shares with its children;
    each kind's own calls are counted in the window alone, where it can have a session."""
    for kind, allocations in CHILDREN.items():
        place = os.path.join(folder, kind)
        os.mkdir(place)
        job = Job(place, OPGAP_SCHEDULE="wait=2,active=2,repeat=2")
        for steps, count in ((2, 1000), (2, 100), (2, 1000), (2, 400)):
            assert job.tell("c " + kind) == "ok", kind
            job.tell("m %d" % count)
            job.tell("s %d" % steps)
        job.tell("m 1000")
        pid = job.program.pid
        job.end()
        assert mallocs(job.trace, of=pid) == {pid: 500}, (kind, mallocs(job.trace, of=pid))
        assert switches(job.trace, pid) == [0, 1, 0, 1, 0], (kind, switches(job.trace, pid))
        if kind != "system":  # a shell has more to say
            others = [count for at, count in mallocs(job.trace).items() if at != pid and count > 0]
            # a page of its own, which `poor` has no memory for, is needed at the end alone
            wanted = CHILDREN["exit"] if kind == "poor" else allocations
            assert others == [wanted] * (2 if wanted > 0 else 0), (kind, others)
        report = json.loads(opgap("report", "--format", "json", job.trace)[0])
        remove_rings(p["pid"] for p in report["processes"])


def on_at_first(folder):
    """OPGAP_CONTROL=on records from the start."""
    job = Job(folder, OPGAP_CONTROL="on")
    job.tell("m 100")
    opgap("stop", job.trace)
    job.tell("m 200")
    job.end()
    assert mallocs(job.trace) == {job.program.pid: 100}
    assert switches(job.trace, job.program.pid) == [0]


def processes(folder):
    """Threads, forked and executed children: all switch together; later ones begin as the job is."""
    job = Job(folder, OPGAP_CONTROL="idle")
    job.tell("t")
    forked = int(job.tell(f"f {job.pipe('forked')}"))
    executed = int(job.tell(f"x {job.pipe('executed')}"))
    for name in (None, "forked", "executed"):
        job.tell("m 100", name)
    assert opgap("start", job.trace)[0] == "recording started in 3 processes\n"
    late = int(job.tell(f"x {job.pipe('late')}"))
    grandchild = int(job.tell(f"f {job.pipe('grandchild')}", "forked"))
    for name in (None, "forked", "executed", "late", "grandchild"):
        job.tell("m 200", name)
    assert opgap("stop", job.trace)[0] == "recording stopped in 5 processes\n"
    for name in (None, "forked", "executed", "late", "grandchild"):
        job.tell("m 400", name)
    too_late = int(job.tell(f"x {job.pipe('too late')}"))
    job.tell("m 800", "too late")
    pid = job.program.pid
    job.end("grandchild", "forked", "executed", "late", "too late", "main")
    counts = mallocs(job.trace)
    assert counts == {pid: 200, forked: 200, executed: 200, late: 200, grandchild: 200}, counts
    assert switches(job.trace, too_late) == [0, 0]  # as the fork and as the program executed


GIVES_UP = "opgap: the program gives up its time stamp counter: tracing of it ends here\n"
UNTRACED = ("opgap: ulimit -v or -d leaves too little, of which the tracer takes a sixteenth at most: this process is "
            "not traced\n")
SAYS = {"counter": GIVES_UP * 2, "unseen_counter": GIVES_UP * 2, "poor": UNTRACED,
        "poor_counter": UNTRACED + GIVES_UP * 2}
CHILDREN = {"exit": 7, "_exit": 7, "_exit_at_once": 0, "quick_exit": 7, "killed": 7, "unseen_end": 7, "exec": 7,
            "failed_exec": 7, "counter": 7, "poor": 0, "poor_counter": 0, "unseen": 7, "unseen_exit": 0,
            "unseen_exec": 0, "unseen_counter": 0, "unseen_killed": 0, "vfork": 0, "vfork_exec": 0, "vfork_counter": 0,
            "spawn": 0, "system": 0}


def rings_of(pid):
    return set(glob.glob(f"/dev/shm/opgap-*-{pid}-*.ring"))


def children(folder):
    """No child's end, exec or kill, nor what it does to itself, reaches the page of its parent; each kind's own calls
    are counted where it can have a session."""
    for kind, allocations in CHILDREN.items():
        place = os.path.join(folder, kind)
        os.mkdir(place)
        before = rings_of("*")
        job = Job(place, OPGAP_CONTROL="on")
        job.tell("m 100")
        assert job.tell("c " + kind) == "ok", kind
        job.tell("m 200")
        assert opgap("stop", job.trace)[0] == "recording stopped in 1 process\n", kind
        job.tell("c " + kind)
        job.tell("m 400")
        assert opgap("start", job.trace)[0] == "recording started in 1 process\n", kind
        job.tell("m 800")
        pid = job.program.pid
        job.end()
        assert rings_of(pid) <= before, kind  # the parent has drained its own
        assert mallocs(job.trace, of=pid) == {pid: 1100}, (kind, mallocs(job.trace, of=pid))
        assert switches(job.trace, pid) == [0, 1], kind
        with open(job.errors) as errors:
            said = re.sub(r"^opgap: [^ ]*\[[0-9]+\]: ", "opgap: ", errors.read(), flags=re.M)
            assert said == SAYS.get(kind, ""), kind  # each of the two children, but why they are not traced the first
        if kind != "system":  # a shell has more to say
            others = [count for at, count in mallocs(job.trace).items() if at != pid and count > 0]
            assert others == [allocations] * (allocations > 0), (kind, others)


def busy(folder):
    """A job whose short children start and end meanwhile is switched as a whole, whatever they are just doing."""
    job = Job(folder, OPGAP_CONTROL="idle")
    child = int(job.tell("b " + job.pipe("orders")))
    for _ in range(20):
        os.write(job.pipes["orders"], b"12")  # 50 children each
        out, errors = opgap("start", job.trace)
        assert out.startswith("recording started in ") and errors == "", (out, errors)
        job.tell("m 100")
        out, errors = opgap("stop", job.trace)
        assert out.startswith("recording stopped in ") and errors == "", (out, errors)
        job.tell("m 1000")
    os.kill(child, signal.SIGKILL)
    job.end()
    assert mallocs(job.trace, of=job.program.pid) == {job.program.pid: 2000}
    assert switches(job.trace, job.program.pid) == [0] + [1, 0] * 20


def orphan(folder):
    """A child whose parent ended at once, as daemons do it, while nothing was recorded."""
    job = Job(folder, OPGAP_CONTROL="idle")
    os.write(job.pipes["main"], f"d {job.pipe('child')}\n".encode())
    child = int(job.program.stdout.readline())
    job.program.wait(timeout=30)
    job.tell("m 100", "child")
    assert opgap("start", job.trace)[0] == "recording started in 1 process\n"
    job.tell("m 200", "child")
    job.end("child")
    assert mallocs(job.trace) == {child: 200}, mallocs(job.trace)


def steps(folder):
    """Steps do not reach over what was left out; nor do they begin in it."""
    job = Job(folder, OPGAP_CONTROL="on")
    job.tell("s 5")
    opgap("stop", job.trace)
    job.tell("s 7")
    opgap("start", job.trace)
    job.tell("s 4")
    job.end()
    report = json.loads(opgap("report", "--format", "json", job.trace)[0])
    assert len(records(job.trace, "step")) == 9
    # 5 marks end 5 steps, the first of which began with the program; the first mark after the gap ends none
    assert report["steps"]["count"] == 8, report["steps"]


def not_controlled(folder):
    """Clear words for what cannot be switched."""
    job = Job(folder)
    job.tell("m 100")
    out, error = opgap("start", job.trace, code=2)
    assert out == "" and error == (
        f"opgap: process {job.program.pid} cannot be switched: it was started without OPGAP_CONTROL=on or idle\n"), error
    job.end()
    assert mallocs(job.trace) == {job.program.pid: 100}
    missing = os.path.join(folder, "missing.opgap")
    assert opgap("stop", missing, code=2) == ("", f"opgap: {missing}: No such file or directory\n")
    empty = os.path.join(folder, "empty.opgap")
    os.mkdir(empty)
    assert opgap("start", empty, code=2) == (
        "", f"opgap: {empty}: no process files (*.opgt) in this folder: is it an opgap trace?\n")
    assert os.listdir(empty) == []


def switch_count(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as status:
            total += sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return total


def quiet(folder):
    """An idle program with a flusher is not woken while it is stopped, nor while it is started."""
    job = Job(folder, OPGAP_CONTROL="idle")
    job.tell("t")
    for command in ("stop", "start"):
        opgap(command, job.trace)
        deadline = time.monotonic() + 20
        before, after = -1, switch_count(job.program.pid)
        while before != after:  # the flusher takes some periods of 100 ms to see that nothing happens
            assert time.monotonic() < deadline, "the program is woken for ever"
            time.sleep(1)
            before, after = after, switch_count(job.program.pid)
    job.end()


def stop(pid):
    """All threads of a process; a signal takes its time."""
    os.kill(pid, signal.SIGSTOP)
    for task in os.listdir(f"/proc/{pid}/task"):
        while True:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "T":
                    break
            time.sleep(0.001)


def snapshots(folder):
    """A copy of all up to now, of a program that is stopped by a signal and cannot help; the trace goes on."""
    job = Job(folder)
    job.tell("t")
    job.tell("m 100")
    pid = job.program.pid
    stop(pid)
    copy = os.path.join(folder, "t-snapshot-1.opgap")
    assert opgap("snapshot", job.trace)[0] == f"1 process, 1 of them running, copied to {copy}\n"
    os.kill(pid, signal.SIGCONT)
    job.tell("m 200")
    other = os.path.join(folder, "other")
    assert opgap("snapshot", "-o", other, job.trace)[0] == f"1 process, 1 of them running, copied to {other}\n"
    assert "cannot make the folder" in opgap("snapshot", "--out", other, job.trace, code=2)[1]
    job.end()
    assert mallocs(copy) == {pid: 100} and mallocs(other) == {pid: 300} and mallocs(job.trace) == {pid: 300}
    assert "ended     running" in opgap("info", copy)[0]
    report = json.loads(opgap("report", "--format", "json", copy)[0])
    assert report["trace"]["complete"] is True, report["trace"]


def sizes(trace):
    return {name: os.path.getsize(os.path.join(trace, name)) for name in os.listdir(trace)}


def older_parts(trace):
    return sum(name.endswith(".opgt.older") for name in os.listdir(trace))


def first_and_last(trace, event):
    lines = [line for _, line in records(trace, "counter") if f"status={event} " in line]
    return [int(re.search(r"calls=(\d+)", line).group(1)) for line in (lines[0], lines[-1])]


def recorder(folder):
    """The last seconds of a program that is killed; totals are those of what is kept."""
    keep = 1.0
    job = Job(folder, OPGAP_KEEP=str(keep))
    job.tell("t")
    pid, rounds = job.program.pid, 0
    begin = time.monotonic()
    while time.monotonic() - begin < 5 * keep:
        job.tell("r 2000")  # fills a segment now and then, so the flusher is awake
        job.tell("m 100")
        rounds += 1
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    job.program.wait(timeout=30)
    report = json.loads(opgap("report", "--format", "json", job.trace)[0])
    assert report["trace"]["complete"] is True and report["trace"]["lost_records"] == 0, report["trace"]
    assert len(sizes(job.trace)) == 2 and older_parts(job.trace) == 1
    kept = report["trace"]["duration_ns"] / 1e9
    assert keep <= kept < 4 * keep, kept  # 2 * keep, and the time that a busy machine takes to drain
    notice = [n for n in report["trace"]["notices"] if n.startswith("flight recorder: only the last ")]
    assert len(notice) == 1 and notice[0].endswith(f"(OPGAP_KEEP={keep})"), report["trace"]["notices"]
    base, total = first_and_last(job.trace, malloc_event(job.trace))
    assert total == 100 * rounds and 0 < base < total, (base, total, rounds)
    assert {c["name"]: c["calls"] for c in report["calls"]}["malloc"] == total - base
    reads = [line for _, line in records(job.trace, "read")]
    assert {c["name"]: c["calls"] for c in report["calls"]}["read"] == len(reads)


def recorder_killed(folder):
    """Killed at any moment, also while a part is begun: whole, and the totals are right."""
    for round_ in range(12):
        place = os.path.join(folder, str(round_))
        os.mkdir(place)
        job = Job(place, OPGAP_KEEP="0.02")
        job.tell("t")
        for _ in range(3):
            job.tell("r 3000")
            job.tell("m 100")
            time.sleep(0.01)
        os.write(job.pipes["main"], b"r 1000000\n")
        older, deadline = set(), time.monotonic() + 30
        while len(older) < 2:  # the first part is dropped when the second takes its place
            older |= {entry.inode() for entry in os.scandir(job.trace) if entry.name.endswith(".older")}
            assert time.monotonic() < deadline, "no part was dropped"
            time.sleep(0.002)
        time.sleep(0.011 * round_)
        os.kill(job.program.pid, signal.SIGKILL)
        job.program.wait(timeout=30)
        report = json.loads(opgap("report", "--format", "json", job.trace)[0])  # exit 0: nothing damaged or missing
        assert report["trace"]["lost_records"] == 0 and report["processes"][0]["ended"] == "killed"
        assert first_and_last(job.trace, malloc_event(job.trace))[1] == 300
        assert any("flight recorder" in notice for notice in report["trace"]["notices"]), report["trace"]["notices"]


def recorder_size(folder):
    """With OPGAP_MAX_SIZE the oldest goes when there is no more room, and writing never stops."""
    job = Job(folder, OPGAP_KEEP="1000", OPGAP_MAX_SIZE="300K")
    for _ in range(30):
        job.tell("r 20000")
        assert sum(sizes(job.trace).values()) <= 300 * 1024, sizes(job.trace)
    job.tell("m 100")
    job.end()
    report = json.loads(opgap("report", "--format", "json", job.trace)[0])
    assert report["trace"]["complete"] is True and report["trace"]["lost_records"] == 0, report["trace"]
    assert report["processes"][0]["ended"] == "clean"
    assert first_and_last(job.trace, malloc_event(job.trace))[1] == 100
    kept = {c["name"]: c["calls"] for c in report["calls"]}["read"]
    assert 0 < kept < 30 * 20000, kept


def recorder_snapshot(folder):
    """A snapshot keeps both parts of what the job soon forgets."""
    job = Job(folder, OPGAP_KEEP="0.2")
    job.tell("t")
    pid, deadline = job.program.pid, time.monotonic() + 30
    while True:
        job.tell("r 3000")
        stop(pid)
        if older_parts(job.trace) == 1 and not any(name.endswith(".new") for name in os.listdir(job.trace)):
            break  # with two parts, and not while the next one is begun
        assert time.monotonic() < deadline, "no part was begun"
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
    copy = opgap("snapshot", job.trace)[0].rstrip("\n").split(" copied to ")[1]
    assert older_parts(copy) == 1, sizes(copy)
    copied, here = (len(records(trace, "read")) for trace in (copy, job.trace))
    assert 0 < copied == here, (copied, here)
    os.kill(pid, signal.SIGCONT)
    job.end()


CASES = {f.__name__: f for f in (single_thread, on_at_first, processes, children, busy, orphan, steps, schedule,
                                schedule_executed, schedule_owners, schedule_orphans, schedule_alone,
                                schedule_namespace, schedule_tree,
                                schedule_children, not_controlled, quiet, snapshots, recorder, recorder_killed,
                                recorder_size, recorder_snapshot)}
with tempfile.TemporaryDirectory(prefix="opgap-control-") as place:
    try:
        CASES[CASE](os.path.realpath(place))
    finally:  # what a failed test left
        for left in JOBS:
            try:
                os.killpg(left.program.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
