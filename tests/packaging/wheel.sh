# The wheel: its platform tag holds, and from a fresh virtual environment `python -m opgap record` traces Python.
build=$1
source=$2
python=$3
. "$(dirname "$0")/common.sh"

"$python" -c 'import scikit_build_core, auditwheel, pip' 2>/dev/null ||
  skip "$python lacks pip, scikit-build-core or auditwheel"
"$python" -m venv venv 2>/dev/null || skip "no venv"
export CMAKE_C_COMPILER_LAUNCHER
command -v ccache >/dev/null && CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$source && export CCACHE_BASEDIR
OPGAP_PACKAGE_BUILD=$build/packaging/wheel PATH="$(dirname "$python"):$PATH" \
  sh "$source/tools/package.sh" --wheel packages >log 2>&1 || fail "$(cat log)"

version=$("$build/opgap" --version | cut -d' ' -f2)
wheel=opgap-$version-py3-none-manylinux_2_28_$(uname -m).whl
same "wheels" "$wheel" "$(ls packages)"
"$python" -m auditwheel show "packages/$wheel" >audit 2>&1
grep -qE 'platform tag:? *"manylinux_2_(1[0-9]|2[0-8])_' audit || fail "$(cat audit)"

venv/bin/python -m pip install -q --disable-pip-version-check --no-index "packages/$wheel"
site=$(venv/bin/python -c 'import opgap, os; print(os.path.dirname(opgap.__file__))')
same "needed libraries of the program" "" "$(readelf -d "$site/bin/opgap" | grep NEEDED || true)"
same "the command" "opgap $version" "$(venv/bin/opgap --version)"
check_installation "$site"

echo 'for i in range(3): open("/proc/self/stat").read()' >train.py
venv/bin/python -m opgap record --log quiet --out py.opgap -- venv/bin/python train.py 2>record.err
venv/bin/python -m opgap report --format csv --table files --limit 0 py.opgap >files.csv
same "opens of the file" 3 "$(awk -F, '$1 ~ /\/stat"?$/ && $2 ~ /open/ {print $3}' files.csv)"
venv/bin/python -m opgap record --log quiet --out status.opgap -- venv/bin/python -c 'raise SystemExit(5)' 2>record.err &&
  code=0 || code=$?
same "exit status" 5 "$code"
