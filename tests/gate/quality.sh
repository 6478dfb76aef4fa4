#!/bin/sh
# Measures the gate: false alarms of a program against itself, and slowdowns found.  Prints the table of docs/GATE.md.
#
#   quality.sh OPGAP LIBOPGAP PROGRAM GATE-QUALITY [COMPARISONS] [STEPS]
#
# COMPARISONS (default 300) for each number of repeats and each change; half of the runs have a busy second core, in
# stretches of 10 runs.  Runs needed: 2 x COMPARISONS x (1 + 3 + 5) without a change, COMPARISONS x 9 for each slowdown.
# With 300 and 100 steps of about half a millisecond: about an hour.  REPEATS="1 3" and SLOW="5 10" narrow it (SLOW="":
# false alarms only).
# COMMAND="python3 /path/of/train.py" measures that instead of PROGRAM (GATE_WORKERS=2: with DataLoader workers); OP is
# the op that has to be named first for a slowdown.
set -eu
opgap=$1 tracer=$2 program=$3 quality=$4 comparisons=${5:-300} steps=${6:-100}
command=${COMMAND:-./train data.bin} op=${OP:-backward}
repeats_list=${REPEATS:-"1 3 5"} slow_list=${SLOW-"3 5 10 30"}
here=$(mktemp -d "${TMPDIR:-/tmp}/opgap-quality-XXXXXX")
burner=
stop_burner()
{
  if [ -n "$burner" ]; then
    kill "$burner" 2>/dev/null || true
    wait "$burner" 2>/dev/null || true
    burner=
  fi
}
trap 'stop_burner; rm -rf "$here"' EXIT
cp "$program" "$here/train"
cd "$here"
head -c 4096 /dev/zero >data.bin

# one LIST SLOW: one run, as a baseline file of its own
run=0
one()
{
  run=$((run + 1))
  # shellcheck disable=SC2086 # a command of several words
  GATE_STEPS=$steps GATE_SLOW=$2 OPGAP_OUT=r.opgap LD_PRELOAD="$tracer" $command
  "$opgap" baseline -o "$run.json" r.opgap 2>/dev/null
  rm -rf r.opgap
  echo "$here/$run.json" >>"$1"
}
# load: the second core is busy in every other stretch of 10 runs
load()
{
  if [ $((run / 10 % 2)) -eq 1 ]; then
    [ -n "$burner" ] || { sh -c 'while :; do :; done' & burner=$!; }
  else
    stop_burner
  fi
}

# measure REPEATS SLOW
measure()
{
  rm -f before now [0-9]*.json
  needed=$((comparisons * $1)) made=0
  while [ $made -lt $needed ]; do
    # all repeats of a side together: a baseline is older than the runs it is compared with
    for _ in $(seq "$1"); do
      load
      one before 0
    done
    for _ in $(seq "$1"); do
      load
      one now "$2"
    done
    made=$((made + $1))
  done
  stop_burner
  # shellcheck disable=SC2046 # the counts are words
  set -- "$1" "$2" $("$quality" "$1" before now "$op" | tee log | tail -n 1)
  grep '^#' log || true
  printf '| %s %% | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$2" "$1" "$3" "$4" "$5" "$6" "$7" "$8" "$9"
}

echo "| planted | repeats | comparisons | not comparable | gate | op named first | plain 5 % | means | Welch |"
echo "|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
for repeats in $repeats_list; do
  for slow in 0 $slow_list; do
    measure "$repeats" "$slow"
  done
done
