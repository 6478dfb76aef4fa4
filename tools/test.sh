#!/bin/sh
# Installs what is missing, builds opgap in several ways and runs every test.  Exits non-zero if anything failed.
#
#   1. the layout of the source (clang-format)
#   2. clang, warnings as errors, and the instructions of its hooks
#   3. the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   4. the rings and their consumer under ThreadSanitizer
#   5. gcc, warnings as errors, and all tests
set -eu

case ${1-} in
'') ;;
*)
  echo "usage: tools/test.sh" >&2
  [ "$1" = --help ] && exit 0
  exit 2
  ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
. tools/packages.sh
case $root in
*[[:space:]:]*) die "the tests preload libraries of this tree, and LD_PRELOAD separates its names by blanks and colons: \
check out to a path without them, not $root" ;;
esac
jobs=$(nproc)
logs=$root/build-logs
failed=""
mkdir -p "$logs"

fail()
{
  failed="$failed $1"
  printf '%s\n' "opgap: $1: FAILED ${2-}"
}

# Runs a step with its output in a log; on failure prints what sanitizers reported, and the log's end.
step()
{
  name=$1
  shift
  start=$(date +%s)
  rm -f "$logs/$name".report.*
  if "$@" >"$logs/$name.log" 2>&1; then
    say "$name: passed ($(($(date +%s) - start)) s)"
  else
    for report in "$logs/$name".report.*; do
      [ -e "$report" ] || continue
      say "$report:"
      head -n 120 "$report"
    done
    grep -E -A 20 'FAILED|error:|\*\*\*Failed|Error' "$logs/$name.log" | head -n 80
    fail "$name" "(all of its output: $logs/$name.log)"
  fi
}

# The tree is laid out by one version of clang-format; another one would differ in details.
LAYOUT_VERSION=14
check_layout()
{
  if ! clang-format --version | grep -q "version $LAYOUT_VERSION\."; then
    say "layout: skipped, the tree follows clang-format $LAYOUT_VERSION, here is $(clang-format --version)"
    return
  fi
  step layout layout_differences
}

# Names the files that clang-format would change.
layout_differences()
{
  differences=0
  for file in $(git ls-files '*.c' '*.h'); do
    if ! clang-format "$file" | cmp -s - "$file"; then
      echo "error: clang-format -i $file would change it"
      differences=1
    fi
  done
  return $differences
}

# Warnings are errors with the compilers that the tree is written against; a newer one may know new warnings.
werror=ON
case $(gcc -dumpversion 2>/dev/null) in
'' | 12 | 12.*) ;;
*) werror=OFF ;;
esac

# Configures and builds a preset; further arguments go to the configuration.
build()
{
  preset=$1
  shift
  cmake --preset "$preset" -DOPGAP_WERROR=$werror "$@" && cmake --build --preset "$preset" -j "$jobs"
}

# The unit tests alone, with the sanitizers' findings as failures.  Reports go to files of their own: a test that expects
# its child to fail throws the child's output away, and the flusher has closed it.
sanitized_tests()
{
  build asan && ASAN_OPTIONS=log_path=$logs/sanitized.report \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:log_path=$logs/sanitized.report ctest --preset asan -j "$jobs"
}

# What each compiler makes of a hook is counted; all other tests run the library that gcc made.
clang_tests()
{
  build clang && ctest --test-dir build-clang -R '^bench_instructions$' --output-on-failure --no-tests=error
}

# Rings, flusher, kills, and the reader's two threads under ThreadSanitizer.
race_tests()
{
  cmake --preset tsan -DOPGAP_WERROR=$werror && cmake --build --preset tsan -j "$jobs" --target test_record test_merge test_names &&
    TSAN_OPTIONS=log_path=$logs/races.report ctest --preset tsan -R '^unit-test_(record|merge|names)$'
}

# Sets torch2_python: an interpreter with a current PyTorch from PyPI, or nothing, with the reason said.
find_torch2()
{
  torch2_python=$CACHE/torch2/bin/python
  if [ -x "$torch2_python" ] && python_is_complete "$torch2_python"; then
    return
  fi
  say "installing a current PyTorch into $CACHE/torch2, once a machine (download: about 3 GB)"
  mkdir -p "$CACHE"
  if python3 -m venv --clear "$CACHE/torch2" >"$logs/torch2.log" 2>&1 &&
    timeout 1500 "$torch2_python" -m pip install --disable-pip-version-check torch numpy scikit-learn pillow \
      >>"$logs/torch2.log" 2>&1; then
    return
  fi
  say "torch2: skipped, it cannot be installed here: $(tail -n 1 "$logs/torch2.log")"
  torch2_python=""
}

# Sets newest_python: a CPython newer than the distribution's, for the test of its frames, or nothing, with the reason said.
NEWEST_PYTHON=3.14
find_newest_python()
{
  newest_python=$CACHE/python$NEWEST_PYTHON/usr/bin/python$NEWEST_PYTHON
  if "$newest_python" -c 'import ctypes' 2>/dev/null; then
    return
  fi
  if newest_python=$(command -v "python$NEWEST_PYTHON") && "$newest_python" -c 'import ctypes' 2>/dev/null; then
    return
  fi
  newest_python=$CACHE/python$NEWEST_PYTHON/usr/bin/python$NEWEST_PYTHON
  say "fetching Python $NEWEST_PYTHON into $CACHE, once a machine (download: about 30 MB)"
  if timeout 120 tests/torch/fetch_python.sh "$NEWEST_PYTHON" "$CACHE/python$NEWEST_PYTHON" >"$logs/newest_python.log" 2>&1 &&
    "$newest_python" -c 'import ctypes' >>"$logs/newest_python.log" 2>&1; then
    return
  fi
  say "python $NEWEST_PYTHON: skipped, it cannot be had here: $(tail -n 1 "$logs/newest_python.log")"
  newest_python=""
}

# The headers of the CUDA versions that the GPU half was written against: a test compares its declarations with them.
find_cuda_headers()
{
  if [ ! -d "$CACHE/cuda-headers/13.5" ]; then
    say "fetching NVIDIA's headers of CUDA 11.8 to 13.5, once a machine (download: about 150 MB)"
    timeout 900 tests/gpu/abi_versions.sh --fetch >"$logs/cuda-headers.log" 2>&1 ||
      say "cuda headers: some are not to be had here, and not compared: $(tail -n 1 "$logs/cuda-headers.log")"
  fi
}

# Makes the interpreter with the readers of exports: Holistic Trace Analysis, the TensorBoard plugin, Perfetto.
# HTA 0.5.0 fails with pandas 3.
find_readers()
{
  readers_python=$CACHE/exports/bin/python
  if [ -x "$readers_python" ] && "$readers_python" -c 'import hta, torch_tb_profiler, perfetto, pandas, sys
sys.exit(int(pandas.__version__.split(".")[0]) > 2)' 2>/dev/null; then
    return
  fi
  say "installing readers of exports into $CACHE/exports, once a machine (download: about 150 MB)"
  mkdir -p "$CACHE"
  if python3 -m venv --clear "$CACHE/exports" >"$logs/readers.log" 2>&1 &&
    timeout 900 "$readers_python" -m pip install --disable-pip-version-check HolisticTraceAnalysis torch-tb-profiler \
      perfetto protobuf 'pandas<3' 'setuptools<80' >>"$logs/readers.log" 2>&1; then
    return
  fi
  say "readers of exports: skipped, they cannot be installed here: $(tail -n 1 "$logs/readers.log")"
}

# A line a skipped test, with the reason that it gave, else its last line; and one for each part that a test which passed
# has left out, of which it says "left out: PART (REASON)".  $1: the log of ctest's run, which alone says what was
# skipped; what the tests printed is in ctest's own log of the last run.
print_skipped()
{
  awk '
    FNR == NR {
      if (/ Test +#[0-9]+: .*\*\*\*Skipped/) {
        sub(/^.* Test +#[0-9]+: /, "")
        sub(/ *\.*\*\*\*Skipped.*$/, "")
        skipped[$0] = 1
      }
      next
    }
    / Testing: / { name = $0; sub(/^.* Testing: /, "", name); reason = last = ""; output = 0; next }
    $0 == "Output:" { output = 1; next }
    $0 == "<end of output>" {
      output = 0
      if (name in skipped) {
        reason = reason != "" ? reason : last != "" ? last : "no reason given"
        sub(/^.*skipped:? */, "", reason)
        printf "skipped %s: %s\n", name, reason
      }
      next
    }
    output && !(name in skipped) && sub(/^left out: /, "") { printf "left out of %s: %s\n", name, $0 }
    output && reason == "" && /skipped/ { reason = $0 }
    output && /[^-[:space:]]/ { last = $0 }
  ' "$1" build-release/Testing/Temporary/LastTest.log
}

# One line a label, and one for tests without: how many passed, of the run whose log is given.
print_suites()
{
  ctest --test-dir build-release --print-labels | sed -n 's/^  //p' | while read -r label; do
    print_suite "$1" "$label" -L "^$label\$"
  done
  print_suite "$1" others -LE '.*'
}

# log, name of the suite, and what makes ctest choose its tests
print_suite()
{
  log=$1
  name=$2
  shift 2
  ctest --test-dir build-release -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p' >"$logs/suite"
  if [ -s "$logs/suite" ]; then
    awk -v label="$name" '
      NR == FNR { wanted[$0] = 1; next }
      /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
        name = $0
        sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, "", name)
        result = name ~ / Passed / ? "passed" : name ~ /Skipped/ ? "skipped" : "failed"
        sub(/ \.*[* ].*$/, "", name)
        if (name in wanted)
          count[result]++
      }
      END { printf "suite %s: %d passed, %d failed, %d skipped\n", label, count["passed"], count["failed"], count["skipped"] }
    ' "$logs/suite" "$log"
  fi
}

all_tests()
{
  say "running all tests"
  if ! ctest --test-dir build-release --output-on-failure --no-tests=error -j "$jobs" >"$logs/tests.log" 2>&1; then
    fail tests
    # what failed, with its output
    awk '/Test +#[0-9]+: .*Passed/ { next } /tests passed,.*tests failed/ { exit } { print }' "$logs/tests.log" |
      grep -v '^ *Start ' | tail -n 400
  fi
  print_suites "$logs/tests.log"
  print_skipped "$logs/tests.log"
  sed -n '/tests passed,.*tests failed/,$p' "$logs/tests.log"
}

# shellcheck disable=SC2086 # a list of words
install_packages $BUILD_PACKAGES libunwind8 binutils check clang clang-format git python3 python3-venv
(install_packages g++ sqlite3 perl busybox redis-server redis-tools xz-utils zstd libjemalloc2 libtcmalloc-minimal4 \
  libmimalloc2.0 python3-pytest) || say "programs: some are not installed; their tests are skipped"
(install_packages chromium chromium-driver python3-selenium) || say "html: no browser to test pages with; skipped"
(install_packages valgrind strace) || say "bench: instructions are not counted, strace is no peer"
(install_packages python3-torch python3-sklearn python3-pil) || say "torch1: skipped, this distribution has no PyTorch"
(install_packages patchelf debian-archive-keyring) || say "python $NEWEST_PYTHON: cannot be made to run beside this system"
(install_packages dpkg-dev lintian bash zsh fish man-db) || say "packaging: what is not installed is left out"
find_torch2
find_wheel_python "$logs/wheel.log" || say "wheel: skipped, its tools cannot be installed here: $wheel_problem"
find_newest_python
find_cuda_headers
find_readers
check_layout
step clang clang_tests
step sanitized sanitized_tests
step races race_tests
step gcc build release -DOPGAP_TORCH1_PYTHON=/usr/bin/python3 -DOPGAP_TORCH2_PYTHON="$torch2_python" \
  -DOPGAP_WHEEL_PYTHON="$wheel_python" ${newest_python:+-DOPGAP_PYTHON_3_14="$newest_python"}
case " $failed " in
*" gcc "*) ;;
*) all_tests ;;
esac
if [ -n "$failed" ]; then
  die "failed:$failed"
fi
