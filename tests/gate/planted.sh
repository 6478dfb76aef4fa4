#!/bin/sh
# Changes planted in a program: the gate finds each, names the op or file that did it, and exits as it should; the same
# program passes.  Counts are exact, so these hold on a busy machine too; times are judged in quality.sh.
#
#   planted.sh OPGAP LIBOPGAP PROGRAM
set -eu
opgap=$1 tracer=$2 program=$3
# shellcheck source=tests/scratch.sh
. "$(dirname "$0")/../scratch.sh"
here=$(scratch gate)
trap 'rm -rf "$here"' EXIT
cp "$program" "$here/train"
cd "$here"
head -c 4096 /dev/zero >data.bin
failed=0

# record NAME [SETTING...]: a trace of the program, always by the same command
record()
{
  name=$1
  shift
  env "$@" OPGAP_OUT="$name.opgap" LD_PRELOAD="$tracer" ./train data.bin
}

# expect CODE TEXT COMMAND...: exit code and a text in the output (an extended regular expression, "" for any)
expect()
{
  code=$1 text=$2 got=0
  shift 2
  "$@" >out 2>&1 || got=$?
  if [ "$got" -ne "$code" ] || { [ -n "$text" ] && ! grep -Eq -e "$text" out; }; then
    echo "FAILED: $* : exit $got, expected $code with \"$text\""
    cat out
    failed=1
  fi
}

record base1
record base2
record same
record allocs GATE_ALLOCS=1
record reads GATE_READS=1
record ranges GATE_RANGES=1
record fewer GATE_RANGES=0 GATE_STEPS=40
record few GATE_STEPS=4
record none GATE_STEPS=0
record rare GATE_RARE=60
record slow GATE_SLOW=2000
counters="-m step=off" # the machine may be busy

# of 60 steps the first 1 to 10 are warm-up, by how long they took
expect 0 '^opgap: perf.json: 2 runs, (10[0-9]|11[0-8]) steps$' "$opgap" baseline -o perf.json base1.opgap base2.opgap
expect 0 '^PASS' "$opgap" gate -b perf.json $counters same.opgap
expect 0 '^PASS' "$opgap" gate -b perf.json $counters fewer.opgap
expect 0 'too few to tell from a rare event' "$opgap" gate -b perf.json $counters rare.opgap
expect 1 'range forward: .*100 % of the change' "$opgap" gate -b perf.json $counters allocs.opgap
expect 1 '^REGRESSION: .*allocations \+20.0%' "$opgap" gate -b perf.json $counters allocs.opgap
expect 1 'file .*/data.bin: 2 -> 3, 100 % of the change' "$opgap" gate -b perf.json $counters reads.opgap
expect 1 '^ops +3 +4 +\+33.3% +exact +regressed: in every step' "$opgap" gate -b perf.json $counters ranges.opgap
expect 0 '^PASS' "$opgap" gate -b perf.json $counters -m ops=1 -m allocations=off -m alloc_bytes=off \
  ranges.opgap
expect 1 '^run.allocations +300 +360 ' "$opgap" gate -b perf.json $counters -m run.allocations=0 allocs.opgap

# improvements: the command that updates the baseline
expect 0 '' "$opgap" baseline -o worse.json allocs.opgap
expect 0 '^PASS, improved: .*allocations -16.7%' "$opgap" gate -b worse.json $counters same.opgap
expect 0 "^To keep the improvement: opgap baseline -o 'worse.json' 'same.opgap'" "$opgap" gate -b worse.json $counters same.opgap

# what cannot be compared is no pass
expect 3 'too few steps' "$opgap" gate -b perf.json few.opgap
expect 3 'has no steps' "$opgap" gate -b perf.json none.opgap
expect 3 'has no steps after warm-up' "$opgap" baseline -o none.json none.opgap
expect 3 'another machine: cores' sh -c "sed 's/\"cores\":\"[0-9]*\"/\"cores\":\"999\"/' perf.json >other.json; $opgap gate -b other.json same.opgap"
expect 0 'only counters are compared' "$opgap" gate -b other.json --allow-other-machine same.opgap
expect 1 'reads' "$opgap" gate -b other.json --allow-other-machine reads.opgap
expect 3 'another command' sh -c "sed 's/train data.bin/train other.bin/' perf.json >command.json; $opgap gate -b command.json same.opgap"
expect 0 '' "$opgap" gate -b command.json --allow-other-command $counters same.opgap
expect 3 'gpu_idle .*neither side has it' "$opgap" gate -b perf.json -m gpu_idle=5% same.opgap
expect 3 'lost 7 records' sh -c "sed 's/\"lost_records\": 0/\"lost_records\": 7/' perf.json >lost.json; $opgap gate -b lost.json same.opgap"
cp -r same.opgap cut.opgap
for file in cut.opgap/*.opgt; do
  truncate -s -100 "$file"
done
expect 3 'damaged|missing' "$opgap" gate -b perf.json $counters cut.opgap

# usage and input that cannot be read
expect 2 'give --baseline' "$opgap" gate same.opgap
expect 2 'which runs' "$opgap" gate -b perf.json
expect 2 'unknown option' "$opgap" gate --nonsense
expect 2 'must be NAME=LIMIT' "$opgap" gate -b perf.json -m step same.opgap
expect 2 'there is no metric nonsense' "$opgap" gate -b perf.json -m nonsense=5% same.opgap
expect 2 'there is no metric gpu_idle.nonsense' "$opgap" gate -b perf.json -m gpu_idle.nonsense=5% same.opgap
expect 0 '^  peak_bytes$' "$opgap" gate --list-metrics
expect 2 'min-steps 2' "$opgap" gate -b perf.json --min-steps 2 same.opgap
expect 2 'absent.json' "$opgap" gate -b absent.json same.opgap
expect 2 'absent.opgap' "$opgap" gate -b perf.json absent.opgap
expect 2 'its schema is 9' sh -c "sed 's/\"schema\": 1/\"schema\": 9/' perf.json >schema.json; $opgap gate -b schema.json same.opgap"
expect 2 'not JSON' sh -c "head -c 1000 perf.json >short.json; $opgap gate -b short.json same.opgap"
expect 2 'is not a repeat|not a repeat' sh -c "cp train other; OPGAP_OUT=other.opgap LD_PRELOAD=$tracer ./other data.bin; $opgap baseline -o x.json base1.opgap other.opgap"

# the same run twice on one side
expect 2 '^opgap: base1.opgap/: the same run is given twice$' "$opgap" baseline -o x.json base1.opgap base2.opgap base1.opgap/
expect 2 'the same run is given twice' "$opgap" gate -b perf.json same.opgap same.opgap
expect 2 'the same run is given twice' "$opgap" diff base:base1.opgap,base1.opgap more:reads.opgap

# a report counts nothing twice: a trace again, or beside its summary
expect 0 '' "$opgap" report --summary-out base1.sum base1.opgap
"$opgap" report --format csv --table files base1.opgap >once.csv
for again in base1.opgap base1.sum; do
  "$opgap" report --format csv --table files base1.opgap "$again" >twice.csv
  cmp once.csv twice.csv || failed=1
  expect 0 "notice .*base1.opgap is given twice: it counts once" "$opgap" report base1.opgap "$again"
done
cp train other
OPGAP_OUT=another.opgap LD_PRELOAD=$tracer ./other data.bin
expect 0 'notice .*the parts are runs of different commands' "$opgap" report base1.opgap another.opgap

# the configuration file has the names of the flags, and flags win
cat >gate.json <<END
{"baseline": "perf.json", "metric": {"step": "off", "ops": 1, "allocations": "off", "alloc_bytes": "off"}, "min-steps": 10}
END
expect 0 '^PASS' "$opgap" gate -c gate.json ranges.opgap
expect 1 'ops' "$opgap" gate -c gate.json -m ops=0 ranges.opgap
expect 2 'no option "nonsense"' sh -c "echo '{\"nonsense\": 1}' >bad.json; $opgap gate -c bad.json same.opgap"

# a full disk (here: a limit of size): one line, and what was there before stays
kept()
{
  what=$1
  shift
  echo old >kept
  expect 2 '^opgap: cannot write kept: File too large$' sh -c 'ulimit -f 1; exec "$@"' sh "$opgap" "$@"
  if [ "$(cat kept)" != old ] || [ -n "$(find . -name 'kept.*')" ]; then
    echo "FAILED: $what destroyed an older file, or left another"
    failed=1
  fi
}
ln -s behind.json link.json
echo old >behind.json
expect 0 '' "$opgap" baseline -o link.json base1.opgap
if [ ! -L link.json ] || ! grep -q opgap-baseline behind.json; then
  echo "FAILED: the file that a symbolic link names was not replaced"
  failed=1
fi
kept baseline baseline -o kept base1.opgap
kept gate gate -b perf.json $counters --format json -o kept same.opgap
kept svg gate -b perf.json $counters -o /dev/null --svg kept same.opgap
kept summary report --summary-out kept base1.opgap
expect 2 '^opgap: cannot write to copy: File too large$' sh -c 'ulimit -f 1; exec "$@"' sh "$opgap" snapshot --out copy base1.opgap
if [ -e copy ]; then
  echo "FAILED: snapshot left a part of a copy"
  failed=1
fi

# formats
expect 1 '"verdict": "regressed"' "$opgap" gate -b perf.json $counters --format json reads.opgap
python3 -c 'import json, sys; r = json.load(open("out")); m = {x["metric"]: x for x in r["metrics"]}
assert m["reads"]["baseline"] == 2 and m["reads"]["now"] == 3 and m["reads"]["exact"], m["reads"]
assert m["reads"]["because"][0]["share"] == 1, m["reads"]' || failed=1
expect 1 '<failure message="reads regressed: in every step">' "$opgap" gate -b perf.json $counters --format junit reads.opgap
python3 -c 'import xml.etree.ElementTree as e; s = e.parse("out").getroot()
cases = s.findall(".//testcase"); failures = s.findall(".//failure")
assert int(s.get("tests")) == len(cases) and int(s.get("failures")) == len(failures) == 2, s.attrib' || failed=1
expect 1 '^\| reads ' "$opgap" gate -b perf.json $counters --format markdown reads.opgap
GITHUB_STEP_SUMMARY=$here/summary.md expect 1 '^::error title=opgap%3A reads regressed::2 -> 3 \(\+50.0%25, exact\)' \
  "$opgap" gate -b perf.json $counters --format github reads.opgap
grep -q '^### opgap: REGRESSION' summary.md || { echo "no step summary"; failed=1; }
expect 0 '' "$opgap" gate -b perf.json $counters --svg times.svg -o result.txt same.opgap
python3 -c 'import xml.etree.ElementTree as e; r = e.parse("times.svg").getroot()
assert len(r.findall("{http://www.w3.org/2000/svg}rect")) > 3' || failed=1
grep -q '^PASS' result.txt || { echo "no result.txt"; failed=1; }

# diff
expect 0 '^reads +2 +3 \+1 \+50.0%' "$opgap" diff base:base1.opgap,base2.opgap more:reads.opgap
expect 0 '^file .*data.bin, calls +4 +5 \+1 \+25.0%' "$opgap" diff perf.json reads.opgap
expect 0 '^Saved a step: ' "$opgap" diff base1.opgap reads.opgap ranges.opgap allocs.opgap
expect 0 '^step,"reads",count,"reads.opgap",3,1,0.5,,,' "$opgap" diff --format csv base1.opgap reads.opgap
# steps of twenty times the work: that they take twice the time is sure however busy the machine is, and then the mean is
# shown beside the median
expect 0 '^step mean +[0-9.]+[mu]?s +[0-9.]+[mu]?s ' "$opgap" diff base1.opgap slow.opgap
expect 0 '^step,"step mean",ns,"slow.opgap",[^,]+,[^,]+,[^,]+,[^,]+,[^,]+,[^,]+$' \
  "$opgap" diff --format csv base1.opgap slow.opgap
expect 2 'two runs or more' "$opgap" diff base1.opgap
expect 2 'absent' "$opgap" diff base1.opgap absent.opgap
[ $failed -eq 0 ] && echo "all as planted"
exit $failed
