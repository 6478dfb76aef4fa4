"""Tests opgap top and opgap report --plot on a pseudo-terminal: terminal_test.py TEST OPGAP JOB"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

OPGAP, PROGRAM = sys.argv[2], sys.argv[3]
OPEN, CLOSE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
LONG = "1000s"  # an interval that covers all of a job


def check(condition, what):
    if not condition:
        sys.exit("failed: %s" % (what,))


def same(what, expected, actual):
    check(expected == actual, "%s: expected %r, is %r" % (what, expected, actual))


class Job:
    """A traced job in ./run.opgap that has done its orders when order() returns."""

    def __init__(self):
        self.process = subprocess.Popen([OPGAP, "record", "--log", "quiet", "--out", "run.opgap", "--", PROGRAM],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def order(self, orders):
        for byte in orders.encode():
            os.write(self.process.stdin.fileno(), bytes([byte]))
            same("answer of the job", bytes([byte]), os.read(self.process.stdout.fileno(), 1))

    def end(self):
        self.order("e")
        same("exit status of the job", 4, self.process.wait())


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, arguments, lines=40, columns=100, **variables):
        self.master, self.slave = pty.openpty()
        self.resize(lines, columns)
        self.settings = termios.tcgetattr(self.slave)
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C", **variables}
        for name in ("COLUMNS", "NO_COLOR"):
            if name not in variables:
                environment.pop(name, None)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([OPGAP] + arguments, stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        env=environment, preexec_fn=own_terminal)
        self.all = ""

    def resize(self, lines, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_some(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.all += os.read(self.master, 65536).decode()
        return True

    def frame(self, condition):
        """The lines of the first drawing from now on for which condition(lines) holds."""
        start, end = len(self.all), time.monotonic() + 40
        while True:
            # a drawing is complete with its last code
            for drawing in re.findall(r"\x1b\[H(.*?)\x1b\[J", self.all[start:], re.S):
                lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawing).split("\r\n")
                if condition(lines):
                    return lines
            check(self.read_some(30) and time.monotonic() < end, "no drawing as awaited; the last is %r" % self.all[-2000:])

    def frame_with(self, text):
        return self.frame(lambda lines: any(text in line for line in lines))

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """The exit status; the terminal must be as it was."""
        status = self.process.wait()
        while self.read_some(0):
            pass
        same("settings of the terminal", self.settings, termios.tcgetattr(self.slave))
        return status


def row(lines, first):
    """The words of the line that begins with this word."""
    found = [line.split() for line in lines if line.split()[:1] == [first]]
    check(len(found) == 1, "%r in %r" % (first, lines))
    return found[0]


def test_top():
    job = Job()
    job.order("sssss")
    terminal = Terminal(["top", "--interval", "200ms", "run.opgap"])
    terminal.frame_with("running")
    check(terminal.all.startswith(OPEN), "the second screen is opened: %r" % terminal.all[:40])
    check(termios.tcgetattr(terminal.slave)[3] & (termios.ICANON | termios.ECHO) == 0, "keys come without Enter")
    # what is done is shown once it is done, and only then; all of it comes between two looks
    terminal.stop()
    job.order("sss")
    terminal.process.send_signal(signal.SIGCONT)
    # drawn anew, it shows the look with the first five once more
    lines = terminal.frame(lambda lines: any(" a second by opgap_step" in line for line in lines) and
                           row(lines, "work")[-1] != "5")
    same("hot op", ["work", "3"], [row(lines, "work")[0], row(lines, "work")[-1]])
    lines = terminal.frame_with("steps     none ended; the last one ended")
    check(any("No op ended." in line for line in lines), lines)
    same("records lost", "0", row(lines, "records")[2])
    same("GPU", ["GPU", "no", "activity"], row(lines, "GPU"))
    same("process", [str(find_pid()), "read"], [row(lines, "program")[1], row(lines, "program")[5]])
    # processes that come and go
    job.order("cc")
    lines = terminal.frame_with("1 process running with 1 thread, 2 ended")
    same("ended processes", 2, sum("ended (clean)" in line for line in lines))
    # fits what the terminal has become
    terminal.resize(9, 50)
    lines = terminal.frame(lambda lines: len(lines) == 9)
    terminal.resize(40, 60)
    lines = terminal.frame(lambda lines: len(lines) > 9)
    check("opgap top" in lines[0] and max(map(len, lines[6:])) <= 60, lines)
    # other keys do nothing, q ends it at once
    terminal.press("x")
    terminal.frame_with("running")
    terminal.press("q")
    same("exit status", 0, terminal.end())
    check(terminal.all.endswith(CLOSE), "the first screen is back: %r" % terminal.all[-40:])
    # the end of the job is the end
    terminal = Terminal(["top", "--interval", "200ms", "run.opgap"])
    terminal.frame_with("running")
    job.order("s")
    job.end()
    same("exit status", 0, terminal.end())
    last = terminal.all[terminal.all.rindex(CLOSE) + len(CLOSE):].replace("\r\n", "\n")
    check(last.endswith("\nThe job has ended.\n"), last)
    check(re.search(r"^  job       ended, [\d.]+ s: 0 processes running with 0 threads, 3 ended$",
                    re.sub(r"\x1b\[[\d;]*m", "", last), re.M), last)


def find_pid():
    text = subprocess.run([OPGAP, "info", "run.opgap"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return int(re.match(r"trace run.opgap: 1 process\nprocess (\d+) ", text).group(1))


def test_top_signals():
    job = Job()
    job.order("s")
    for name, keys, number, status in (("Ctrl-C", "\x03", None, 0), ("SIGTERM", None, signal.SIGTERM, -signal.SIGTERM),
                                       ("SIGHUP", None, signal.SIGHUP, -signal.SIGHUP)):
        terminal = Terminal(["top", "--interval", "60s", "run.opgap"])  # it does not wait for the interval
        terminal.frame_with("running")
        if keys:
            terminal.press(keys)
        else:
            terminal.process.send_signal(number)
        same("exit status after " + name, status, terminal.end())
        check(terminal.all.endswith(CLOSE), "%s: the first screen is back: %r" % (name, terminal.all[-40:]))
    # stopped and continued: the keys are taken over again, and it is drawn anew
    terminal = Terminal(["top", "--interval", "60s", "run.opgap"])
    terminal.frame_with("running")
    terminal.stop()
    termios.tcsetattr(terminal.slave, termios.TCSANOW, terminal.settings)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.frame_with("running")
    check(termios.tcgetattr(terminal.slave)[3] & (termios.ICANON | termios.ECHO) == 0, "keys come without Enter again")
    # a trace that goes away
    terminal.press("q")
    same("exit status", 0, terminal.end())
    terminal = Terminal(["top", "--interval", "200ms", "run.opgap"])
    terminal.frame_with("running")
    shutil.move("run.opgap", "gone.opgap")
    same("exit status", 2, terminal.end())
    message = terminal.all[terminal.all.rindex(CLOSE) + len(CLOSE):]
    check(re.fullmatch(r"opgap: run.opgap[^\n]*: No such file or directory\r\n", message), message)
    job.end()


def run(*arguments, **variables):
    environment = {**os.environ, "LC_ALL": "C", **variables}
    for name in ("COLUMNS", "NO_COLOR"):
        if name not in variables:
            environment.pop(name, None)
    done = subprocess.run([OPGAP] + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_top_pipe():
    job = Job()
    job.order("ssssss")
    code, out, err = run("top", "--once", "--interval", LONG, "run.opgap")
    same("--once", (0, ""), (code, err))
    check("\x1b" not in out, out)
    lines = out.split("\n")
    check(re.fullmatch(r"opgap top  run.opgap, the last \d+\.\d s", lines[0]), lines)
    check(re.fullmatch(r"  job       running, [\d.]+ s: 1 process running with 1 thread, 0 ended", lines[1]), lines)
    check(re.fullmatch(r"  steps     [\d.]+ a second by opgap_step, median [\d.]+[um]?s; 6 seen", lines[2]), lines)
    same("hot op", ["work", "6"], [row(lines, "work")[0], row(lines, "work")[-1]])
    # looks follow each other, and only what is new is told
    watch = subprocess.Popen([OPGAP, "top", "--interval", "300ms", "run.opgap"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, env=dict(os.environ, LC_ALL="C"))
    first = read_look(watch)
    check(not any("new:" in line for line in first), first)
    job.order("ssss")
    seen, ops = 0, 0
    while seen == 0:
        look = read_look(watch)
        steps = next(line for line in look if line.startswith("  steps"))
        if " a second by " in steps:
            ops += int(row(look, "work")[-1])
            seen = 4 if ops == 4 else 0
    job.end()
    rest = watch.stdout.read().decode()
    same("exit status", 0, watch.wait())
    check(rest.endswith("\n\nThe job has ended.\n"), rest)
    # a job that ended long ago
    code, out, err = run("top", "--interval", LONG, "run.opgap")
    same("an ended job", (0, ""), (code, err))
    check(out.count("opgap top") == 1 and out.endswith("\n\nThe job has ended.\n"), out)
    check(re.search(r"^  steps     [\d.]+ a second by opgap_step, median [\d.]+[um]?s; 10 seen$", out, re.M), out)
    check(re.search(r"^  records   (\d+), 0 lost; ", out, re.M), out)


def read_look(watch):
    lines = []
    while True:
        line = watch.stdout.readline().decode()
        check(line, lines)
        if line == "\n" and any("Main thread is in" in each for each in lines):
            return lines
        lines.append(line.rstrip("\n"))


def test_top_options():
    same("no trace", (2, "", "opgap: there is no trace (NAME.opgap) in this folder: give its path\n"), run("top"))
    same("no such trace", (2, "", "opgap: x.opgap: No such file or directory\n"), run("top", "x.opgap"))
    hint = " (see: opgap top --help)\n"
    same("interval", (2, "", "opgap top: --interval 5ms: must be a time such as 500ms or 2s, at least 100ms" + hint),
         run("top", "--interval", "5ms"))
    same("count", (2, "", "opgap top: --count 0: must be a number above 0" + hint), run("top", "--count", "0"))
    same("limit", (2, "", "opgap top: --limit x: must be a number of rows, 0 for all" + hint), run("top", "--limit", "x"))
    same("two", (2, "", "opgap top: one trace at a time: b is too many" + hint), run("top", "a", "b"))
    same("unknown", (2, "", "opgap top: unknown option --x" + hint), run("top", "--x"))
    job = Job()
    job.order("s")
    code, out, _ = run("top", "--count", "3", "--interval", "100ms", "run.opgap")
    same("three looks", (0, 3), (code, out.count("opgap top")))
    # a full disk
    with open("/dev/full", "w") as full:
        done = subprocess.run([OPGAP, "top", "--once", "run.opgap"], stdout=full, stderr=subprocess.PIPE)
    same("a full disk", (2, b"opgap: cannot write the output\n"), (done.returncode, done.stderr))
    job.end()


def test_plot():
    job = Job()
    job.order("s" * 30)
    job.end()
    code, out, err = run("report", "--plot", "run.opgap", COLUMNS="60")
    same("in a pipe", (0, ""), (code, err))
    check(out.isascii() and "\x1b" not in out, "only ASCII, no colour")
    chart = out[out.index("\nStep times\n"):out.index("\nHot ops")].split("\n")
    same("head", ["", "Step times", "  one bar a step (^ above the chart)"], chart[:3])
    bars = [line[line.index("|") + 1:] for line in chart[3:11]]
    same("eight lines of 30 steps", [30] * 8, [len(bar) for bar in bars])
    same("every step is seen", 30, sum(cell in ".:#" for cell in bars[7]))
    same("axis", "-" * 30, chart[11][chart[11].index("+") + 1:])
    same("its ends", ["step", "0", "29"], chart[12].split())
    same("next chart", ["", "Use over time"], chart[13:15])
    check(re.fullmatch(r"  program, main thread not blocked: [\d.]+ % of its time", chart[15]), chart[15])
    same("widths of the second", {60}, {len(line) for line in chart[16:20]})
    # the steps are the report's own
    steps = [int(line.split(",")[1]) for line in run("report", "--format", "csv", "--table", "steps", "run.opgap")[1]
             .split("\n")[1:] if line]
    same("steps", 30, len(steps))
    code, out, err = run("report", "--plot", "run.opgap", COLUMNS="60", LC_ALL="C.UTF-8")
    check("│" in out and "▁" in out and "└" in out and "|" not in out[out.index("\nStep times"):out.index("\nHot ops")],
          "UTF-8")
    same("not with json", (2, "", "opgap report: --plot goes with --format text (see: opgap report --help)\n"),
         run("report", "--plot", "--format", "json", "run.opgap"))
    # on a terminal: its width, and colour unless it is not wanted
    for variables, colour in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal(["report", "--plot", "run.opgap"], lines=24, columns=70, **variables)
        same("exit status", 0, terminal.end())
        # a slow machine may show how far it is, and take the line away with another code
        plain, codes = re.subn(r"\x1b\[[\d;]*m", "", terminal.all)
        same("colour", colour, codes > 0)
        use = plain[plain.index("Use over time"):].split("\r\n")
        same("width of the chart", 70, len(use[2]))


folder = tempfile.mkdtemp(prefix="opgap-terminal-")
os.chdir(folder)
try:
    globals()["test_" + sys.argv[1]]()
finally:
    os.chdir("/")
    shutil.rmtree(folder)
