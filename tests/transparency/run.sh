#!/bin/bash
# Runs real programs without and with the tracer and compares what they did: output, files, exit status.
#
#   tests/transparency/run.sh [OPTION...] [NAME...]
#
#   NAME             programs of programs.sh, or quick, long, all (default: quick)
#   --tracer LIB     default: libopgap.so of build-release
#   --opgap PROGRAM  default: opgap of build-release
#   --before LIB     preload LIB before the tracer, and in the run without it, too; --after LIB: behind it
#   --allocators     every NAME again with each of jemalloc, tcmalloc and mimalloc before and behind the tracer
#   --keep           keep the runs' folders
#   --list           print the names
#
# Prints a row a program: whether it did the same, how many records the trace holds, how many were lost, and the CPU
# time of both runs.  What differs is run again in both ways: a difference counts when both traced runs show it and
# neither of the others does.  Programs whose results change by themselves are called unsteady.
#
# Exit status: 0 all the same, 1 something differs, was lost or damaged, 2 wrong usage, 77 all were skipped.
set -u
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tracer=$root/build-release/libopgap.so
opgap=$root/build-release/opgap
before="" after="" keep="" allocators=""
names=()

die()
{
  echo "transparency: $*" >&2
  exit 2
}

# shellcheck source=tests/transparency/programs.sh
. "$here/programs.sh"

while [ $# -gt 0 ]; do
  case $1 in
  --tracer | --opgap | --before | --after)
    [ $# -gt 1 ] || die "$1 needs a value"
    declare "${1#--}=$2"
    shift
    ;;
  --allocators) allocators=1 ;;
  --keep) keep=1 ;;
  --list)
    printf 'quick %s\n' "${QUICK[@]}"
    printf 'long %s\n' "${LONG[@]}"
    exit 0
    ;;
  --help)
    sed -n '2,/^set -u/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  quick) names+=("${QUICK[@]}") ;;
  long) names+=("${LONG[@]}") ;;
  all) names+=("${QUICK[@]}" "${LONG[@]}") ;;
  -*) die "unknown option $1" ;;
  *)
    declare -F "run_${1%%:*}" >/dev/null || die "unknown program $1 (--list shows them)"
    names+=("$1")
    ;;
  esac
  shift
done
[ ${#names[@]} -gt 0 ] || names=("${QUICK[@]}")
tracer=$(realpath -e "$tracer") && opgap=$(realpath -e "$opgap") || exit 2

work=$(mktemp -d "${TMPDIR:-/tmp}/opgap-transparency-XXXXXX")
[ -n "$keep" ] || trap 'rm -rf "$work"' EXIT

# What a run left behind, a line a thing: its exit status, and either the results that results_NAME prints, or its
# output and the files in its folder by their checksums.
look()
{
  local side=$1
  {
    echo "exit status $(cat "$side/status")"
    if declare -F "results_$program" >/dev/null; then
      (cd "$side/files" && "results_$program")
    else
      (cd "$side" && sha256sum stdout stderr)
      (cd "$side/files" && find . -type f -exec sha256sum {} + && find . -type l -printf '%p -> %l\n')
    fi
  } | sort
}

# One run of $program $argument in $work/run, whose path is the same for all runs; its results go to $work/$1.
# $1: its name; $2: the trace, or nothing
run()
{
  local side=$work/$1 preload
  rm -rf "$side" "$work/run"
  mkdir -p "$work/run" "$side"
  preload=$before:${2:+$tracer}:$after
  preload=$(sed 's/::*/:/g;s/^://;s/:$//' <<<"$preload")
  (
    cd "$work/run" || exit 2
    TIMEFORMAT='%U %S'
    [ -z "$2" ] || export OPGAP_OUT=$2
    # the preload is for the program's commands, not for this shell's redirections and its timing
    time (
      [ -z "$preload" ] || export LD_PRELOAD=$preload
      "run_$program" "$argument" </dev/null >"$side/stdout" 2>"$side/stderr"
    )
    echo $? >"$side/status"
  ) 2>"$side/time"
  mv "$work/run" "$side/files"
  look "$side" >"$side/seen"
}

cpu()
{
  awk '{ print $1 + $2 }' "$work/$1/time"
}

# The lines of both traced runs that neither plain run has, or the other way round.
confirmed()
{
  comm -23 <(comm -12 "$work/traced/seen" "$work/traced2/seen") <(sort -u "$work/plain/seen" "$work/plain2/seen") |
    sed 's/^/traced: /'
  comm -23 <(comm -12 "$work/plain/seen" "$work/plain2/seen") <(sort -u "$work/traced/seen" "$work/traced2/seen") |
    sed 's/^/plain:  /'
}

failed=0 done=0 reasons=""

# label, reason
leave_out()
{
  echo "left out: $1 ($2)"
  reasons="${reasons:+$reasons; }$1: $2"
}

compare()
{
  local entry=$1 label=$2 missing="" need result records lost cost
  program=${entry%%:*}
  argument=${entry#"$program"}
  argument=${argument#:}
  local needs="needs_$program"
  for need in ${!needs-}; do
    command -v "$need" >/dev/null || missing="$missing $need"
  done
  if [ -n "$missing" ]; then
    leave_out "$label" "not installed:$missing"
    return
  fi
  if declare -F "prepare_$program" >/dev/null && ! "prepare_$program" >"$work/prepare.log" 2>&1; then
    leave_out "$label" "$(tail -n 1 "$work/prepare.log")"
    return
  fi
  done=1
  rm -rf "$work"/trace*
  run plain ""
  if grep -q '^no results' "$work/plain/seen"; then
    leave_out "$label" "without the tracer there are $(grep '^no results' "$work/plain/seen")"
    return
  fi
  run traced "$work/trace.opgap"
  result=same
  if ! cmp -s "$work/plain/seen" "$work/traced/seen"; then
    run plain2 ""
    run traced2 "$work/trace2.opgap"
    confirmed >"$work/differences"
    result=unsteady
    [ ! -s "$work/differences" ] || result=differs
  fi
  "$opgap" info "$work/trace.opgap" >"$work/info" 2>&1
  read -r processes records lost damaged <<<"$(awk '
    $1 == "records" { gsub(",", ""); n++; records += $2; lost += $4; invalid += $6 }
    $1 == "bytes" { damaged += $4 }
    END { print n + 0, records + 0, lost + 0, damaged + invalid + 0 }' "$work/info")"
  cost=$(awk -v a="$(cpu plain)" -v b="$(cpu traced)" 'BEGIN { printf "%.2f s -> %.2f s", a, b }')
  printf '%-42s %-9s %5d processes %9d records %6d lost  %s\n' "$label" "$result" "$processes" "$records" "$lost" "$cost"
  case $result in
  differs)
    failed=1
    sed 's/^/    /' "$work/differences"
    for stream in stdout stderr; do
      declare -F "results_$program" >/dev/null ||
        diff "$work/plain/$stream" "$work/traced/$stream" | head -n 20 | sed "s/^/    $stream /"
    done
    ;;
  unsteady)
    comm -3 "$work/plain/seen" "$work/traced/seen" | sed 's/^\t/traced: /;t;s/^/plain:  /' | sed 's/^/    (&/;s/$/)/' |
      head -n 20
    ;;
  esac
  if [ "$processes" -eq 0 ] || [ "$records" -eq 0 ] || [ "$damaged" -ne 0 ]; then
    failed=1
    echo "    the trace is not sound ($damaged bytes or records damaged): $(head -n 1 "$work/info")"
  fi
}

if [ -n "$allocators" ]; then
  for library in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2; do
    path=$(ldconfig -p | awk -v name="$library" '$1 == name { print $NF; exit }')
    for place in before after; do
      for name in "${names[@]}"; do
        if [ -z "$path" ]; then
          leave_out "$name" "$library is not installed"
          continue
        fi
        before="" after=""
        declare "$place=$path"
        compare "$name" "$name, ${library%%.*} $place"
      done
    done
  done
else
  for name in "${names[@]}"; do
    compare "$name" "$name"
  done
fi
[ "$failed" -eq 0 ] || exit 1
[ "$done" -eq 1 ] || {
  echo "skipped: $reasons"
  exit 77
}
