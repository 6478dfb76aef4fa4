#!/bin/sh
# Runs one command-line test, or rewrites what it expects.
#
#   run.sh OPGAP PROGRAMS CASE            compare
#   run.sh --rewrite OPGAP PROGRAMS CASE  take the present output as expected: read the difference before committing it
#
# OPGAP: the executable.  PROGRAMS: folder of the test programs.  CASE: path of CASE.sh, beside which lie CASE.exit,
# CASE.stdout and CASE.stderr (a missing one: 0, empty, empty).  The script runs in an empty folder with `opgap` in PATH
# and $PROGRAMS set.  A script that exits 77 is skipped, the last line of its output says why.
# In the output, the folder becomes HERE, the build BUILD, dates and process ids of default names DATE and PID, as does
# the process that a line of the tracer names.
set -u

rewrite=no
if [ "$1" = --rewrite ]; then
  rewrite=yes
  shift
fi
build=$(cd "$(dirname "$1")" && pwd -P)
PROGRAMS=$(cd "$2" && pwd -P)
case_path=$(cd "$(dirname "$3")" && pwd -P)/$(basename "$3" .sh)
# shellcheck source=tests/scratch.sh
. "$(dirname "$0")/../scratch.sh"
here=$(scratch cli) || exit 1
here=$(cd "$here" && pwd -P)
mkdir "$here/work" "$here/result"
trap 'rm -rf "$here"' EXIT

normalise()
{
  sed -e "s#$here/work#HERE#g" -e "s#$build#BUILD#g" \
    -e 's#\(opgap-[A-Za-z0-9._-]*\)-[0-9]\{8\}-[0-9]\{6\}-[0-9]\{1,\}\.opgap#\1-DATE-PID.opgap#g' \
    -e 's/^\(opgap: [^ ]*\[\)[0-9]\{1,\}\]: /\1PID]: /' "$1"
}

for name in $(env | sed -n 's/^\(OPGAP_[A-Z_]*\)=.*/\1/p') LD_PRELOAD RANK SLURM_PROCID OMPI_COMM_WORLD_RANK; do
  unset "$name"
done
export PATH="$build:$PATH" PROGRAMS LC_ALL=C TZ=UTC
(cd "$here/work" && exec sh "$case_path.sh") >"$here/stdout" 2>"$here/stderr" </dev/null
code=$?
if [ $code -eq 77 ]; then
  tail -n 1 "$here/stdout"
  exit 77
fi
echo $code >"$here/result/exit"
normalise "$here/stdout" >"$here/result/stdout"
normalise "$here/stderr" >"$here/result/stderr"

failed=0
for what in exit stdout stderr; do
  expected=$case_path.$what
  if [ $rewrite = yes ]; then
    cp "$here/result/$what" "$expected"
    if [ ! -s "$expected" ] || { [ $what = exit ] && [ $code -eq 0 ]; }; then
      rm "$expected"
    fi
    continue
  fi
  if [ ! -f "$expected" ]; then
    expected=$here/default
    if [ $what = exit ]; then echo 0; else :; fi >"$expected"
  fi
  if ! diff -u --label "expected $what" --label "actual $what" "$expected" "$here/result/$what"; then
    failed=1
  fi
done
exit $failed
