#!/bin/sh
# Tests opgap on a machine with a GPU: programs with planted gaps, copies and graphs, PyTorch training, costs.
#
#   tests/gpu/run.sh [BUILD]       BUILD: folder of a built opgap; made (build-gpu-machine) when not given
#
# Needs this repository, nvcc, Python 3, and for the training torch with CUDA; what is missing is skipped and said.
# Prints one table.  Exit status: 0 all passed, 1 a check failed, 77 there is no usable GPU.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-}
if [ -z "$build" ]; then
  build=$root/build-gpu-machine
  cmake -S "$root" -B "$build" -DBUILD_TESTING=OFF >"$root/build-gpu-machine.log" 2>&1 &&
    cmake --build "$build" --target opgap opgap_tracer >>"$root/build-gpu-machine.log" 2>&1 || {
    tail -n 20 "$root/build-gpu-machine.log" >&2
    echo "run.sh: opgap could not be built" >&2
    exit 1
  }
fi
build=$(cd "$build" && pwd)

nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true)
if [ -z "$nvcc" ]; then
  echo "run.sh: nvcc is not installed (PATH, CUDA_HOME)" >&2
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cc=${CC:-cc}
$cc -O1 -DNO_NCCL -D_GNU_SOURCE -I"$root/include" -c "$root/tests/fakes/scenario.c" -o "$work/scenario.o"
for cudart in static shared; do
  $nvcc -O1 -cudart $cudart "$root/tests/fakes/spin.cu" "$work/scenario.o" -o "$work/scenario_$cudart" -lpthread
done

OPGAP_BUILD=$build OPGAP_WORK=$work python3 "$root/tests/gpu/machine.py"
