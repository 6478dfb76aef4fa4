# The verdict is printed last: nothing is, when a file cannot be written.  A baseline is no configuration.
opgap record --log quiet --out t.opgap -- true
for svg in nowhere/x.svg x.svg; do
  opgap gate --baseline t.opgap --svg "$svg" t.opgap >out
  echo $?
  head -n 1 out
done
GITHUB_STEP_SUMMARY=nowhere/summary opgap gate --baseline t.opgap --format github t.opgap
echo $?
echo '{"format": "opgap-baseline", "schema": 1}' >b.json
opgap gate --config b.json t.opgap
echo $?
