# Runs one test of this folder in an empty folder: run.sh NAME BUILD SOURCE PYTHON
set -eu
name=$1
shift
tests=$(cd "$(dirname "$0")" && pwd)
for variable in $(env | sed -n 's/^\(OPGAP_[A-Z_]*\)=.*/\1/p') LD_PRELOAD DESTDIR; do
  unset "$variable"
done
export LC_ALL=C
# LD_PRELOAD cannot name a file with a blank or a colon in its path, and here the tracer is installed below the folder
case ${TMPDIR:-/tmp} in
*[[:space:]:]*) TMPDIR=/tmp ;;
esac
folder=$(mktemp -d "${TMPDIR:-/tmp}/opgap-packaging-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
code=0
sh -eu "$tests/$name.sh" "$@" || code=$?
exit $code
