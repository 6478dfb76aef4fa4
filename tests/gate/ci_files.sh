#!/bin/sh
# Runs the commands of docs/ci/ as the CI would: every line of the workflow files' scripts, in a repository with a
# training (here: train.py starts the test program) and a baseline; once as committed, once with one read more a step.
#
#   ci_files.sh OPGAP LIBOPGAP PROGRAM
set -eu
opgap=$1 program=$3
docs=$(cd "$(dirname "$0")/../../docs/ci" && pwd)
here=$(mktemp -d "${TMPDIR:-/tmp}/opgap-ci-XXXXXX")
trap 'rm -rf "$here"' EXIT
# The interpreter itself, not a script before it (pyenv): its shells' signal handlers may interrupt a record in the making.
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))')
export PATH="${opgap%/*}:$python:$PATH"
cp "$program" "$here/train"
cd "$here"
head -c 4096 /dev/zero >data.bin
# The program takes the interpreter's place, as a training script would import its framework.
printf 'import os\nos.execv("./train", ["./train", "data.bin"])\n' >train.py
failed=0

# The `run` and `script` commands of a workflow file, one shell script.
commands()
{
  python3 - "$1" <<'END'
import sys
import re

lines = open(sys.argv[1]).read().split("\n")
script, block = [], None
for line in lines:
    indent = len(line) - len(line.lstrip())
    if block is not None and line.strip() and indent <= block:
        block = None
    if block is not None:
        script.append(line.strip())
    elif re.match(r"\s*run: \|$", line):
        block = indent
    elif re.match(r"\s*run: ", line):
        script.append(line.split("run: ", 1)[1])
    elif re.match(r"\s*- (for|opgap) ", line):
        script.append(line.strip()[2:])
print("set -e\n" + "\n".join(script))
END
}

# check CODE FILE: the commands of FILE end with CODE
check()
{
  code=$1 got=0
  rm -rf run?.opgap times.svg perf.xml
  commands "$docs/$2" >script.sh
  sh script.sh >out 2>&1 || got=$?
  if [ $got -ne "$code" ] || [ ! -s times.svg ]; then
    echo "FAILED: $2: exit $got, expected $code"
    cat script.sh out
    failed=1
  fi
}

for i in 1 2 3; do
  opgap record --out base$i.opgap -- python3 train.py
done
opgap baseline -o perf.json base1.opgap base2.opgap base3.opgap
# Time is not what is tested here, and this machine may be busy: another machine's times are not judged.
sed -i 's/"cores":"[0-9]*"/"cores":"999"/' perf.json

export GITHUB_STEP_SUMMARY="$here/summary.md"
check 0 github.yml
grep -q '^### opgap: PASS' summary.md || { echo "FAILED: no step summary"; failed=1; }
check 0 gitlab.yml
grep -q 'failures="0" errors="0"' perf.xml || { echo "FAILED: perf.xml"; failed=1; }
export GATE_READS=1
check 1 github.yml
grep -q '^::error title=opgap%3A reads regressed::2 -> 3' out || { echo "FAILED: no annotation"; cat out; failed=1; }
check 1 gitlab.yml
grep -q '<failure message="reads regressed' perf.xml || { echo "FAILED: perf.xml"; failed=1; }
unset GATE_READS

pytest=""
for python in python3 /usr/bin/python3; do
  [ -n "$pytest" ] || ! "$python" -c 'import pytest' 2>/dev/null || pytest=$python
done
if [ -n "$pytest" ]; then
  # the interpreter's path is part of the command: the baseline must have been made by the same
  cp "$docs/test_perf.py" .
  sed -i "s#sys.executable#\"python3\"#" test_perf.py
  "$pytest" -m pytest -q -p no:cacheprovider test_perf.py >out 2>&1 || { echo "FAILED: pytest"; cat out; failed=1; }
  got=0
  GATE_READS=1 "$pytest" -m pytest -q -p no:cacheprovider test_perf.py >out 2>&1 || got=$?
  if [ $got -ne 1 ] || ! grep -q '^E .*REGRESSION: reads +50.0%' out; then # 1: tests ran, and some failed
    echo "FAILED: pytest with one read more: exit $got"
    cat out
    failed=1
  fi
else
  echo "pytest is not installed (Debian: python3-pytest): its example was not run"
fi
[ $failed -eq 0 ] && echo "the workflow files work"
exit $failed
