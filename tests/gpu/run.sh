#!/bin/sh
# Tests opgap on a machine with a GPU: programs with planted gaps, copies and graphs, another user of CUPTI, PyTorch
# training beside torch.profiler, costs.
#
#   tests/gpu/run.sh [BUILD]       BUILD: folder of a built opgap; made (build-gpu-machine) when not given
#
# Needs this repository, nvcc with CUPTI (the CUDA toolkit), and Python 3; for the training a Python with a CUDA build of
# torch: $PYTHON, else the one of an active virtual environment, else python3.  What is missing is a row that says so.
# Prints one table: check, expected, seen, verdict.
# Exit status: 0 all passed, 1 a check failed or could not be made, 2 opgap or the programs could not be built, 77 there is
# no usable GPU.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-}

die()
{
  echo "run.sh: $1" >&2
  exit "${2:-2}"
}

nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true)
[ -n "$nvcc" ] || die "nvcc is not installed (PATH, CUDA_HOME)" 77
CUDA_HOME=${CUDA_HOME:-$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)}
export CUDA_HOME
libraries=""
for folder in "$CUDA_HOME/lib64" "$CUDA_HOME/targets/$(uname -m)-linux/lib" "$CUDA_HOME/extras/CUPTI/lib64"; do
  [ ! -d "$folder" ] || libraries="$libraries -L$folder -Xlinker -rpath -Xlinker $folder"
done

if [ -z "$build" ]; then
  build=$root/build-gpu-machine
  if ! cmake -S "$root" -B "$build" -DBUILD_TESTING=OFF >"$build.log" 2>&1 ||
    ! cmake --build "$build" -j "$(nproc)" --target opgap opgap_tracer >>"$build.log" 2>&1; then
    tail -n 20 "$build.log" >&2
    die "opgap could not be built (all of the output: $build.log)"
  fi
fi
build=$(cd "$build" && pwd)
if [ ! -x "$build/opgap" ] || [ ! -e "$build/libopgap.so" ]; then
  die "$build holds no opgap and libopgap.so"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cc=${CC:-cc}
fakes=$root/tests/fakes
# code for the GPU that is here: a driver older than the toolkit does not translate the default, which is PTX
arch=-arch=native
$nvcc $arch -c "$fakes/spin.cu" -o "$work/spin.o" >/dev/null 2>&1 || arch=
$cc -O1 -DNO_NCCL -D_GNU_SOURCE -I"$root/include" -c "$fakes/scenario.c" -o "$work/scenario.o"
for cudart in static shared; do
  # shellcheck disable=SC2086 # a list of words
  $nvcc $arch -O1 -cudart $cudart "$fakes/spin.cu" "$work/scenario.o" -o "$work/scenario_$cudart" $libraries -lpthread
done
# shellcheck disable=SC2086
$nvcc $arch -O1 "$root/tests/gpu/occupancy.cu" "$fakes/spin.cu" -o "$work/occupancy"
# another user of CUPTI, by the interface of all versions, and by that for several subscribers (CUDA 13.3)
for interface in "" -DSHARES; do
  $cc -O1 $interface -D_GNU_SOURCE -c "$fakes/other_tool.c" -o "$work/other_tool.o"
  # shellcheck disable=SC2086
  $nvcc $arch -O1 -cudart shared "$fakes/spin.cu" "$work/other_tool.o" -o "$work/other_tool$interface" $libraries \
    -lcupti -lpthread -ldl \
    >"$work/link$interface.log" 2>&1 || true
done

python=${PYTHON:-${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}}
OPGAP_BUILD=$build OPGAP_WORK=$work OPGAP_TORCH_PYTHON=${python:-python3} python3 "$root/tests/gpu/machine.py"
