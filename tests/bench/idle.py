#!/usr/bin/env python3
"""A program that does nothing is not woken: the flusher's context switches stand still while its program waits."""
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = "import sys, threading; t = threading.Thread(target=sys.stdin.read); t.start(); t.join()"
SECONDS = 3


def flusher(pid):
    """Task folder of the flusher thread, None while there is none."""
    for tid in os.listdir("/proc/%d/task" % pid):
        folder = "/proc/%d/task/%s" % (pid, tid)
        with open(folder + "/comm") as file:
            if file.read().strip() == "opgap":
                return folder
    return None


def switches(folder):
    with open(folder + "/status") as file:
        return sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LD_PRELOAD": os.path.join(build, "libopgap.so"),
                       "OPGAP_OUT": os.path.join(folder, "trace.opgap")}
        child = subprocess.Popen([sys.executable, "-S", "-c", PROGRAM], stdin=subprocess.PIPE, env=environment)
        try:
            deadline = time.monotonic() + 60
            task = None
            while task is None and time.monotonic() < deadline:
                time.sleep(0.1)
                task = flusher(child.pid)
            if task is None:
                sys.exit("no flusher thread")
            before = -1
            while before != switches(task) and time.monotonic() < deadline:  # until it has gone to sleep
                before = switches(task)
                time.sleep(1)
            before = switches(task)
            time.sleep(SECONDS)
            woken = switches(task) - before
        finally:
            child.communicate()
        print("%d context switches of the flusher in %d idle seconds; %d before" % (woken, SECONDS, before))
        if child.returncode != 0 or before <= 0 or woken != 0:
            sys.exit(1)


if __name__ == "__main__":
    main()
