#!/bin/sh
# Makes the packages: opgap and opgap-dev as .deb, the .tar.gz that runs on any Linux of this processor, and the wheel.
# usage: tools/package.sh [--deb] [--archive] [--wheel] [FOLDER]    default: all three, into packages/
#
# OPGAP_PACKAGE_BUILD=FOLDER keeps the build of the wheel there, for the next time.
#
# The .deb needs dpkg-dev; the wheel needs pip, scikit-build-core and auditwheel for python3 (they are put into a
# virtual environment of their own where they are missing).
set -eu

# The tag of the wheel and the floor that tests/elf/floor.sh holds the tracer to.
GLIBC_FLOOR=2_28

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/packages.sh"
kinds=""
folder=packages
for argument; do
  case $argument in
  --deb | --archive | --wheel) kinds="$kinds ${argument#--}" ;;
  -*)
    echo "usage: tools/package.sh [--deb] [--archive] [--wheel] [FOLDER]" >&2
    [ "$argument" = --help ] && exit 0
    exit 2
    ;;
  *) folder=$argument ;;
  esac
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Builds with the given options and packs: generator, options
pack()
{
  generator=$1
  shift
  cmake -S "$root" -B "$work/$generator" -G Ninja -DCMAKE_BUILD_TYPE=Release -DOPGAP_LTO=ON -DBUILD_TESTING=OFF "$@"
  cmake --build "$work/$generator"
  (cd "$work/$generator" && cpack -G "$generator" -B "$work/$generator/packages")
}

make_deb()
{
  pack DEB
  cp "$work"/DEB/packages/*.deb "$folder"
}

make_archive()
{
  pack TGZ -DOPGAP_STATIC=ON
  cp "$work"/TGZ/packages/*.tar.gz "$folder"
}

make_wheel()
{
  python=python3
  if ! python3 -c 'import scikit_build_core, auditwheel, pip' 2>/dev/null; then
    find_wheel_python "$work/python.log" || die "the tools that make a wheel cannot be installed: $wheel_problem"
    python=$wheel_python
  fi
  PATH="$(dirname "$(command -v "$python")"):$PATH"
  export PATH
  "$python" -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps \
    --config-settings "build-dir=${OPGAP_PACKAGE_BUILD:-$work/wheel-build}" -w "$work/wheel" "$root"
  # checks what the files inside ask for, and puts the tag into the name
  "$python" -m auditwheel repair --plat "manylinux_${GLIBC_FLOOR}_$(uname -m)" --only-plat -w "$folder" "$work"/wheel/*.whl
}

for kind in ${kinds:-deb archive wheel}; do
  "make_$kind"
done
say "packages in $folder:"
ls "$folder"
