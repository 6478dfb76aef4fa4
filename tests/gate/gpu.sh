#!/bin/sh
# Changes planted in the GPU work of a program on the fake GPU: the gate finds one more launch, copy or synchronisation a
# step and names the op that made it; the same program passes.  With CUPTI, and without it (interposed calls).
#
#   gpu.sh OPGAP LIBOPGAP FAKES
set -eu
opgap=$1 tracer=$2 fakes=$3
# shellcheck source=tests/scratch.sh
. "$(dirname "$0")/../scratch.sh"
here=$(scratch gate)
trap 'rm -rf "$here"' EXIT
cd "$here"
failed=0

# record NAME [SETTING...]: a trace of 40 steps
record()
{
  name=$1
  shift
  env -u CUDA_INJECTION64_PATH "$@" LD_LIBRARY_PATH="$fakes/cuda12" OPGAP_OUT="$name.opgap" LD_PRELOAD="$tracer" \
    "$fakes/gpu_scenario" training 40 >/dev/null 2>log || { cat log; exit 1; }
}

# expect CODE TEXT COMMAND...: exit code and a text in the output (an extended regular expression)
expect()
{
  code=$1 text=$2 got=0
  shift 2
  "$@" >out 2>&1 || got=$?
  if [ "$got" -ne "$code" ] || ! grep -Eq -e "$text" out; then
    echo "FAILED: $* : exit $got, expected $code with \"$text\""
    cat out
    failed=1
  fi
}

# figures of one step: METRIC VALUE, as the baseline holds them
expect_value()
{
  expect 0 "\"$1\": *(\\[[ 0-9,]*)?\\b$2\\b" grep -E "\"$1\":" perf.json
}

record base
record same
record launch PLANT_LAUNCH=1
record copy PLANT_COPY=1
record sync PLANT_SYNC=1
# gate [FLAG...] TRACE: of the counts alone, the machine may be busy
# shellcheck disable=SC2317 # expect calls it
gate()
{
  "$opgap" gate -b perf.json -m step=off "$@"
}

expect 0 'perf.json: 1 run' "$opgap" baseline -o perf.json base.opgap
expect_value launches 5
expect_value kernels 5
expect_value syncs 0
expect_value gpu_copies 2
expect_value h2d_bytes 262144
expect_value d2h_bytes 4
expect 0 '^PASS' gate same.opgap

expect 1 '^launches +5 +6 +\+20.0% +exact +regressed: in every step' gate launch.opgap
expect 1 'range backward: 3 -> 4, 100 % of the change' gate launch.opgap
expect 1 'kernel _Z4spiny: 5 -> 6' gate launch.opgap
expect 1 '^gpu_copies +2 +3 +\+50.0% +exact +regressed: in every step' gate copy.opgap
expect 1 '^h2d_bytes +256.00 KB +260.00 KB ' gate copy.opgap
expect 1 'range forward: 0 -> 1, 100 % of the change' gate copy.opgap
expect 1 '^syncs +0 +1 +.*regressed: in every step' gate sync.opgap
expect 1 'range loss: 0 -> 1, 100 % of the change' gate sync.opgap
expect 0 '^PASS' gate -m launches=1 -m kernels=1 launch.opgap

# another driver or power limit is another machine; a GPU whose clocks are held down is noted
record long PLANT_SLEEP=10000
record driver PLANT_SLEEP=10000 FAKE_DRIVER_VERSION=999.9
record hot PLANT_SLEEP=10000 FAKE_NVML=throttle=32
expect 0 '' "$opgap" baseline -o perf.json long.opgap
expect 0 '"gpu_driver":"580.65.06"' grep gpu_driver perf.json
expect 0 '"gpu_power_limit":"400 W"' grep gpu_power_limit perf.json
expect 3 'another machine: gpu_driver was "580.65.06", is "999.9"' gate driver.opgap
expect 0 'clocks were held down in 100 % of the samples' gate hot.opgap

# without CUPTI the calls are seen by interposition: counts hold, directions and kernels are unknown
record base-hooks FAKE_CUPTI=enable=35
record launch-hooks FAKE_CUPTI=enable=35 PLANT_LAUNCH=1
expect 0 '' "$opgap" baseline -o perf.json base-hooks.opgap
expect_value launches 5
expect_value gpu_copies 2
expect 1 '^0$' grep -c '"kernels":' perf.json
expect 1 'range backward: 3 -> 4, 100 % of the change' gate launch-hooks.opgap
# NVML names the device all the same, so it is the same machine
expect 3 'kernels: missing in the baseline' gate base.opgap

exit $failed
