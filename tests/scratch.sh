# shellcheck shell=sh
# Sourced.  scratch NAME: prints the path of a new folder.  LD_PRELOAD cannot name a file with a blank or a colon in its
# path, and some tests put a tracer into the folder; help2man does not take such a program either.
case ${TMPDIR:-/tmp} in
*[[:space:]:]*) export TMPDIR=/tmp ;;
esac
scratch()
{
  mktemp -d "${TMPDIR:-/tmp}/opgap-$1-XXXXXX"
}
