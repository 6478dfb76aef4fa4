#!/bin/sh
# Builds opgap and prints what tracing adds to whole programs (programs.py): trainings with PyTorch 1.13 and 2, Python,
# git, a compiler, SQLite, Redis, beside torch.profiler, heaptrack and uftrace.
#
#     tests/bench/programs.sh [--install-peers] [--fast] [--rounds N] [--only TEXT|TEXT...] [--ways WAY,...] [--list] ...
#
# Takes over an hour, with --fast a quarter of one; the machine should have nothing else to do.  Without --install-peers
# missing peers are named.  All options: python3 tests/bench/programs.py --help.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
# shellcheck source=tools/packages.sh
. tools/packages.sh
case ${1-} in
--install-peers)
  shift
  install_packages heaptrack uftrace git sqlite3 redis-server python3-torch python3-sklearn python3-pil
  ;;
--help)
  sed -n 's/^# \{0,1\}//p' tests/bench/programs.sh | sed 1d
  exit 0
  ;;
esac
{ cmake --preset release && cmake --build --preset release; } >/dev/null
say "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
python3 tests/bench/programs.py --build build-release "$@"
