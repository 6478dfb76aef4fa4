#!/bin/sh
# Fuzzes every target for SECONDS each (default 300) and keeps a small corpus of what found something new.
#
#   cmake --preset fuzz && cmake --build --preset fuzz && tests/fuzz/run.sh [SECONDS] [TARGET...]
#
# A fault is left as crash-* in the current folder, with its report above; then the exit status is 1.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-300}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- trace chunk schema settings arena baseline summary export
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in "$@"; do
  engine=$root/build-fuzz/tests/fuzz/fuzz_${target}_engine
  corpus=$root/tests/fuzz/corpus/$target
  mkdir -p "$corpus" "$work/$target"
  echo "== $target"
  nice -n 10 "$engine" -max_total_time="$seconds" -rss_limit_mb=1024 -max_len=16384 -timeout=20 -print_final_stats=1 \
    "$work/$target" "$corpus" 2>"$work/log" || {
    tail -n 60 "$work/log"
    exit 1
  }
  grep -E 'DONE|number_of_executed_units|new_units_added|peak_rss' "$work/log"
  # what the corpus does not reach yet, smallest files first; large ones stay out
  find "$work/$target" -type f -size +7 -delete
  "$engine" -merge=1 "$corpus" "$work/$target" 2>"$work/log" || {
    tail -n 60 "$work/log"
    exit 1
  }
  echo "$(find "$corpus" -type f | wc -l) files in the corpus"
done
