#!/bin/sh
# Installs what is missing, builds opgap, traces a real training, and prints the report.
set -eu

usage()
{
  cat <<'TEXT'
usage: tools/demo.sh [--minimal]

Traces the training of a small network with PyTorch (half a minute) and prints the report.
  --minimal  a training written in C instead, in seconds and without Python
TEXT
}

minimal=no
for argument; do
  case $argument in
  --minimal) minimal=yes ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    echo "demo.sh: unknown option '$argument' (see: tools/demo.sh --help)" >&2
    exit 2
    ;;
  esac
done

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-demo
. "$root/tools/packages.sh"

# Sets `python`: one that has PyTorch already, else the distribution's, else a virtual environment of our own.
find_python()
{
  for python in python3 /usr/bin/python3 "$CACHE/torch/bin/python"; do
    if command -v "$python" >/dev/null && python_is_complete "$python"; then
      return
    fi
  done
  python=/usr/bin/python3
  if command -v apt-get >/dev/null; then
    if (install_packages python3-torch python3-sklearn python3-pil) && python_is_complete "$python"; then
      return
    fi
    install_packages python3-venv
  fi
  make_environment
}

make_environment()
{
  say "installing PyTorch with pip into $CACHE/torch (download: about 3 GB)"
  mkdir -p "$CACHE"
  python3 -m venv "$CACHE/torch" || die "python3 cannot make a virtual environment; try: tools/demo.sh --minimal"
  python=$CACHE/torch/bin/python
  "$python" -m pip install --quiet --disable-pip-version-check torch numpy scikit-learn pillow ||
    die "pip could not install PyTorch; try: tools/demo.sh --minimal"
}

build_opgap()
{
  say "building in $build"
  {
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF && cmake --build "$build"
  } >"$build.log" 2>&1 || {
    tail -n 30 "$build.log" >&2
    die "the build failed; all of its output is in $build.log"
  }
}

# shellcheck disable=SC2086 # a list of words
install_packages $BUILD_PACKAGES
[ $minimal = yes ] || find_python
build_opgap

cd "$build"
rm -rf demo.opgap
if [ $minimal = yes ]; then
  cc -O2 -D_GNU_SOURCE -pthread -I"$root/include" "$root/tools/demo/minimal.c" -o minimal -lm
  set -- ./minimal shapes
else
  set -- "$python" "$root/tools/demo/train.py"
fi
say "running: opgap record --out demo.opgap -- $*"
./opgap record --out demo.opgap -- "$@"
say "running: opgap report $build/demo.opgap"
./opgap report demo.opgap
