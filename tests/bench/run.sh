#!/bin/sh
# Builds opgap and prints what each hook adds to its call, beside its limit and beside peers (hooks.py).
#
#     tests/bench/run.sh [--install-peers] [--rounds N] [--ms N]
#
# --install-peers: installs heaptrack, strace, uftrace and LTTng from Debian first; without it, what is missing is named
# and left out.  A run of 7 rounds takes about three minutes; the machine should have nothing else to do.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
# shellcheck source=tools/packages.sh
. tools/packages.sh
case ${1-} in
--install-peers)
  shift
  install_packages heaptrack strace uftrace lttng-tools liblttng-ust-dev babeltrace2
  ;;
--help)
  sed -n 's/^# \{0,1\}//p' tests/bench/run.sh | sed 1d
  exit 0
  ;;
esac
{ cmake --preset release && cmake --build --preset release; } >/dev/null
say "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
python3 tests/bench/hooks.py --build build-release "$@"
