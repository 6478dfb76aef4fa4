# shellcheck shell=sh
# What the tests of this folder share.  Sourced, not run.

fail()
{
  echo "$*"
  exit 1
}

skip()
{
  echo "skipped: $*"
  exit 77
}

# what it is, expected, actual
same()
{
  if [ "$2" != "$3" ]; then
    printf '%s: expected\n%s\nis\n%s\n' "$1" "$2" "$3"
    exit 1
  fi
}

# Traces a program with the installation below $1, and reads the trace: the program is complete and has records.
check_installation()
{
  "$1/bin/opgap" record --log quiet --out works.opgap -- sh -c 'exit 3' 2>record.err && code=0 || code=$?
  same "record's exit status" 3 "$code"
  "$1/bin/opgap" report --format json works.opgap >works.json
  same "what the trace says" "complete:true lost_records:0 command:sh -c exit 3 ended:clean exit_status:3" \
    "$(sed -n 's/^  *"\(complete\|lost_records\|command\|ended\|exit_status\)": "*\([^",]*\)"*,$/\1:\2/p' works.json |
      awk '!seen[$0]++' | paste -sd ' ')"
  rm -rf works.opgap
}
