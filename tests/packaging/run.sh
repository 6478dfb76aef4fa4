# Runs one test of this folder in an empty folder: run.sh NAME BUILD SOURCE PYTHON
set -eu
name=$1
shift
tests=$(cd "$(dirname "$0")" && pwd)
for variable in $(env | sed -n 's/^\(OPGAP_[A-Z_]*\)=.*/\1/p') LD_PRELOAD DESTDIR; do
  unset "$variable"
done
export LC_ALL=C
# shellcheck source=tests/scratch.sh
. "$tests/../scratch.sh"
folder=$(scratch packaging)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
code=0
sh -eu "$tests/$name.sh" "$@" || code=$?
exit $code
