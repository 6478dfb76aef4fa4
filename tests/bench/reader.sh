#!/bin/sh
# Builds opgap and measures `opgap report` on generated traces of two sizes, and beside the readers of other tools
# (reader.py; what is missing is named and left out).
#
#     tests/bench/reader.sh [--install-peers] [SMALL [LARGE]]
#
# SMALL, LARGE: records; default 10,000,000 and 200,000,000, a gigabyte of disk.  OPGAP_TORCH2_PYTHON: a Python with torch.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
# shellcheck source=tools/packages.sh
. tools/packages.sh
if [ "${1-}" = --install-peers ]; then
  shift
  install_packages heaptrack uftrace lttng-tools liblttng-ust-dev babeltrace2
fi
{ cmake --preset release && cmake --build --preset release; } >/dev/null
say "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
exec python3 tests/bench/reader.py --build build-release --records "${1:-10000000}" "${2:-200000000}" \
  --torch "${OPGAP_TORCH2_PYTHON:-/usr/bin/python3}"
