"""Types lines on a terminal of bash and zsh, with a tab where "|" stands, and compares what the shell then runs.

In the shells `opgap` is a function that prints its words, so the completed line tells itself what it has become.
Runs in a folder with run.opgap/, folder/, train.py and perf.json; the installation is in ../usr.
"""

import os
import pty
import select
import shutil
import sys
import tempfile

# typed, what it becomes in bash, in zsh (which joins options and values, and takes the slash of a folder away)
LINES = [
    ("opgap repo|", "report", "report"),
    ("opgap report --form|js|", "report --format json", "report --format=json"),
    ("opgap report --sort=total_g|", "report --sort=total_gpu", "report --sort=total_gpu"),
    ("opgap record --stac|py| true", "record --stacks python true", "record --stacks=python true"),
    ("opgap record --hooks io,sy|", "record --hooks io,sync", "record --hooks io,sync"),
    ("opgap report r|", "report run.opgap/", "report run.opgap"),
    ("opgap record cat tr|", "record cat train.py", "record cat train.py"),
    ("opgap record -- cat tr|", "record -- cat train.py", "record -- cat train.py"),
    ("opgap help docto|", "help doctor", "help doctor"),
]

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "PS1='READY>'; bind 'set enable-bracketed-paste off'; . ../usr/share/bash-completion/completions/opgap"),
    "zsh": (["zsh", "-f", "-i"],
            "PS1='READY>'; fpath=($PWD/../usr/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D; "
            "unsetopt zle_bracketed_paste"),
}


class Terminal:
    def __init__(self, argv, environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, environment)
        self.seen = b""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, text, seconds=20):
        """Everything up to and with `text`; fails the test when it does not come."""
        while text.encode() not in self.seen:
            if not select.select([self.fd], [], [], seconds)[0]:
                sys.exit("waited for %r, got %r" % (text, self.seen))
            self.seen += os.read(self.fd, 65536)
        end = self.seen.index(text.encode()) + len(text)
        part, self.seen = self.seen[:end], self.seen[end:]
        return part.decode(errors="replace")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def run(shell):
    argv, start = SHELLS[shell]
    home = tempfile.mkdtemp()
    terminal = Terminal(argv, dict(os.environ, HOME=home, TERM="dumb", HISTFILE="", INPUTRC="/dev/null"))
    terminal.type(start + "; opgap() { printf '<%s' \"$@\"; echo '>END'; }; echo START'>'END\n")
    terminal.wait_for("START>END")
    bad = 0
    for typed, in_bash, in_zsh in LINES:
        expected = in_bash if shell == "bash" else in_zsh
        terminal.type(typed.replace("|", "\t") + "\n") # the shell takes key by key
        words = terminal.wait_for(">END").rsplit("\n", 1)[-1][1:-4].split("<")
        if words != expected.split():
            print("%s: %r became %r, expected %r" % (shell, typed, words, expected))
            bad += 1
    terminal.close()
    shutil.rmtree(home)
    return bad


failed = 0
for name in SHELLS:
    if shutil.which(name):
        failed += run(name)
    else:
        print("left out: keys typed into %s (not installed)" % name)
sys.exit(1 if failed else 0)
