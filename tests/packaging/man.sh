# Each command has a man page, and each page names every option of the command's --help and every setting.
build=$1
. "$(dirname "$0")/common.sh"

[ -d "$build/packaging/generated/man1" ] || skip "no help2man when this was configured"
pages=$build/packaging/generated/man1
commands=$("$build/opgap" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  .*/\1/p')
same "pages" "$(for c in $commands; do echo "opgap-$c.1.gz"; done | sort | sed '$aopgap.1.gz')" \
  "$(ls "$pages" | sort)"

# As roff writes it: \- for -
words()
{
  sed 's/\\-/-/g; s/\\f.//g; s/\\\([/,]\)//g'
}

for command in $commands; do
  zcat "$pages/opgap-$command.1.gz" | words >page
  same "title of opgap-$command" "opgap-$command - $("$build/opgap" --help | sed -n "s/^  $command  *//p" | head -n 1)" \
    "$(sed -n '/^\.SH NAME/{n;p}' page)"
  "$build/opgap" "$command" --help | sed -n 's/^  *\(-[a-zA-Z], \)*\(--[a-z-]*\).*/\2/p' >options
  while read -r option; do
    grep -q -e "^\(-., \)*$option\( \|$\)" page || fail "opgap-$command: $option is not in the page"
  done <options
  grep -q '^.BR opgap (1)' page || fail "opgap-$command does not refer to opgap(1)"
done
"$build/opgap" doctor | sed -n 's/^  \(OPGAP_[A-Z_]*\) .*/\1/p' >settings || true
[ "$(wc -l <settings)" -ge 15 ] || fail "doctor lists $(wc -l <settings) settings"
zcat "$pages/opgap-record.1.gz" | words >page
while read -r setting; do
  grep -q "\[$setting\]" page || fail "$setting is not in opgap-record(1)"
done <settings
if command -v man >/dev/null; then
  for page in "$pages"/*.gz; do
    same "warnings of man about $page" "" "$(MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null)"
  done
else
  echo "left out: warnings of man (not installed)"
fi
