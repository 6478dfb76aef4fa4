"""file_locks_test.py TRACER OPGAP WAITS: one process waits for the lock that another one, or a thread, has on a file.

The holder lets go 5 ms after the kernel has shown that somebody waits (waits.c), so each wait is a gap on any machine.
Exit status 77 (skipped) where the kernel does not show it.
"""
import json
import os
import subprocess
import sys
import tempfile

TRACER, OPGAP, WAITS = sys.argv[1:4]
LEAST_NS = 5000000
LEAST_TRIED_NS = 4000000  # of three pauses of 2 ms the last may be behind the end of the lock
# (how, end, the call's name, calls of it: two of who waits, two or one of the holder)
CASES = [("flock", "unlock", "flock", 4), ("flock", "close", "flock", 3), ("flock", "exit", "flock", 3),
         ("flock", "thread", "flock", 4), ("lockf", "unlock", "lockf", 4), ("fcntl", "unlock", "fcntl", 4),
         ("fcntl", "close", "fcntl", 3), ("ofd", "unlock", "fcntl", 4), ("ofd", "thread", "fcntl", 4),
         ("try", "unlock", "flock", None), ("try", "exit", "flock", None)]


def check(condition, *message):
    if not condition:
        sys.exit("failed: %s" % (message,))


def record(folder, how, end):
    """(trace, path of the locked file)"""
    path, trace = os.path.join(folder, "locked"), os.path.join(folder, "t.opgap")
    with open(path, "w"):
        pass
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPGAP_")}
    environment.update(LD_PRELOAD=TRACER, OPGAP_OUT=trace)
    done = subprocess.run([WAITS, path, how, end], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=30)
    if done.returncode == 77:
        print(done.stdout.strip())
        sys.exit(77)
    check(done.returncode == 0, how, end, done.returncode, done.stdout, done.stderr)
    return trace, path


def read(trace, *options):
    done = subprocess.run([OPGAP, "report", "--format", "json", *options, trace], stdout=subprocess.PIPE, check=True,
                          text=True)
    return json.loads(done.stdout)


def judge(trace, path, how, end, call, calls):
    report = read(trace)
    parent = next(p["pid"] for p in report["processes"] if not any(p["ppid"] == o["pid"] for o in report["processes"]))
    children = [p["pid"] for p in report["processes"] if p["ppid"] == parent]
    check(len(children) == (0 if end == "thread" else 1), report["processes"])
    # a holder that lost its CPU in its own call for 1 ms seems to have waited, too
    locks = [row for row in report["locks"] if row["pid"] == parent]
    check(len(locks) == 1, report["locks"])
    lock = locks[0]
    check((lock["symbol"], lock["object"], lock["call"]) == (path, 0, call), lock)
    check(lock["waits"] == 1 or (end == "thread" and lock["waits"] == 2), lock)
    held_by = lock["held_by"] or ""
    check(("(pid %d)" % children[0] in held_by) if children else held_by.startswith("thread "), held_by)
    check(lock["wait_ns"] >= LEAST_NS, lock)
    causes = read(trace, "--process", str(parent))["idle_gaps"]["by_cause"]
    print(how, end, {c["detail"].replace(path, "FILE"): c["ns"] for c in causes if c["cause"] == "lock"}, flush=True)
    held = [c for c in causes if c["cause"] == "lock" and c["detail"].startswith("the lock on %s, held by " % path)]
    check(sum(c["ns"] for c in held) >= (LEAST_TRIED_NS if how == "try" else LEAST_NS), causes)
    check(all(path in c["detail"] for c in causes if c["cause"] == "lock"), causes)
    if how == "try":
        pauses = [c for c in causes if c["cause"] == "lock" and c["detail"].startswith("the lock on " + path)]
        check(sum(c["ns"] for c in pauses) == lock["wait_ns"], causes, lock)
        check(not any(c["cause"] == "sleep" for c in causes), causes)
    found = {c["name"]: c["calls"] for c in report["calls"]}
    check(calls is None or found.get(call) == calls, found)
    files = {f["operation"]: f["calls"] for f in report["files"] if f["path"] == path}
    check(set(files) <= {"open", "close", "stat"} and files["open"] == 2, files)


def main():
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="opgap-locks-") as folder:
            judge(*record(folder, *case[:2]), *case)


main()
