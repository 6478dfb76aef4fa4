#!/bin/sh
# Builds opgap and measures `opgap report` on generated traces of two sizes: CPU time, records a second, peak memory.
#
#     tests/bench/reader.sh [SMALL [LARGE]]      (records; default 10,000,000 and 200,000,000, half a gigabyte of disk)
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
{ cmake --preset release && cmake --build --preset release; } >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for mix in ops alloc; do
  for records in "${1:-10000000}" "${2:-200000000}"; do
    build-release/tests/bench/gen --records "$records" --mix "$mix" "$folder/trace.opgap" >/dev/null
    python3 - "$mix" "$records" build-release/opgap "$folder/trace.opgap" <<'PYTHON'
import os, subprocess, sys, time
mix, records, opgap, trace = sys.argv[1:]
start = time.perf_counter()
child = subprocess.Popen([opgap, "report", "--format", "json", trace], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
wall, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
size = sum(os.path.getsize(os.path.join(trace, name)) for name in os.listdir(trace))
print("%-5s %11d records  %7.1f MB  CPU %6.2f s  wall %6.2f s  %5.1f M records/s of CPU time  peak %.1f MiB" %
      (mix, int(records), size / 1e6, cpu, wall, int(records) / cpu / 1e6, usage.ru_maxrss / 1024))
sys.exit(status != 0)
PYTHON
    rm -rf "$folder/trace.opgap"
  done
done
