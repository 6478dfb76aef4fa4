#!/bin/sh
# Compiles abi_check.c against the real headers of many CUDA versions: each record, number and function of CUPTI, and of
# NVML, that opgap declares for itself.
#
#   abi_versions.sh             every version whose headers are in the cache (~/.cache/opgap/cuda-headers)
#   abi_versions.sh --fetch     fetches NVIDIA's wheels with these headers first (about 150 MB, once a machine)
#
# Prints one line a version.  Exit status: 0 all compile, 1 one does not, 77 there are no headers.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/opgap/cuda-headers
# the versions in which a record or function that opgap uses came or changed, and the newest of each
versions="11.8 12.0 12.4 12.6 12.8 12.9 13.0 13.1 13.2 13.3 13.4 13.5"

# download PACKAGE VERSION: the headers of a wheel into $1
download()
{
  "$cache/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$cache/wheels" "$2==$3.*" &&
    "$cache/venv/bin/python" - "$cache/wheels" "$1" <<'EOF'
import os, shutil, sys, zipfile
wheels, target = sys.argv[1:]
for name in os.listdir(wheels):
    with zipfile.ZipFile(os.path.join(wheels, name)) as wheel:
        for entry in wheel.namelist():
            if "/include/" in entry and not entry.endswith("/"):
                path = os.path.join(target, entry.split("/include/", 1)[1])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with wheel.open(entry) as source, open(path, "wb") as copy:
                    shutil.copyfileobj(source, copy)
shutil.rmtree(wheels)
EOF
}

fetch()
{
  [ -x "$cache/venv/bin/pip" ] || python3 -m venv "$cache/venv"
  [ -d "$cache/common" ] || download "$cache/common" nvidia-cuda-crt 13 || rm -rf "$cache/common"
  [ -d "$cache/common/nvml" ] || download "$cache/common/nvml" nvidia-nvml-dev 13 || true
  for version in $versions; do
    case $version in
    11.*) suffix=-cu11 ;;
    12.*) suffix=-cu12 ;;
    *) suffix= ;;
    esac
    [ -d "$cache/$version" ] && continue
    { download "$cache/$version" nvidia-cuda-cupti$suffix "$version" &&
      download "$cache/$version" nvidia-cuda-runtime$suffix "$version"; } || rm -rf "${cache:?}/$version"
  done
}

[ "${1-}" = --fetch ] && fetch

checked=0 failed=0
for version in $versions; do
  if [ ! -f "$cache/$version/cupti.h" ]; then
    echo "left out: CUDA $version (its headers are not in $cache)"
    continue
  fi
  checked=$((checked + 1))
  api=$(sed -n 's/^#define CUPTI_API_VERSION \([0-9]*\).*/\1/p' "$cache/$version/cupti_version.h")
  if ${CC:-cc} -std=gnu17 -Wall -Werror -fsyntax-only -isystem "$cache/$version" -isystem "$cache/common" -isystem "$cache/common/nvml" \
    -I"$root/src" "$root/tests/gpu/abi_check.c"; then
    echo "CUDA $version: the same layouts (CUPTI API version $api)"
  else
    echo "CUDA $version: DIFFERS (CUPTI API version $api)"
    failed=1
  fi
done
if [ "$checked" -eq 0 ]; then
  echo "skipped: no headers; fetch them with tests/gpu/abi_versions.sh --fetch"
  exit 77
fi
exit $failed
