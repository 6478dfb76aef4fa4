# Options that would change nothing are refused.
opgap record --out t.opgap -- true 2>/dev/null
try()
{
  opgap report "$@" t.opgap
  echo "exit $?"
}
try --table files
try --table files --format json
try --table files --format csv --by line
try --by line --sort name
try --table files --format csv | head -1
opgap report --summary-out t.json t.opgap
opgap report --by line t.json
echo "exit $?"
