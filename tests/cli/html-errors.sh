# Pages that cannot be written: one line, exit status 2, no half file, and an older page stays as it was.
opgap record --out t.opgap -- true 2>/dev/null
opgap html t.opgap
[ "$(stat -c %s t.html)" -gt 100000 ] && echo "a page"
try()
{
  "$@"
  echo "exit $?"
}
try opgap html t.opgap -o nowhere/t.html
try opgap html t.opgap -o /dev/full
try sh -c 'opgap html t.opgap -o - >/dev/full'
try bash -o pipefail -c 'opgap html t.opgap -o - | true'
echo old >t.html
try sh -c 'ulimit -f 100; opgap html t.opgap'
cat t.html
try opgap html t.opgap --detail 1s
try opgap html t.opgap --detail 2s:1s
try bash -o pipefail -c 'opgap html t.opgap --detail 500s:501s 2>&1 | sed "s/took .*/took TIME/"'
try opgap html t.opgap again
try opgap html missing.opgap
file=$(ls t.opgap/*.opgt)
truncate -s -40 "$file"
try bash -o pipefail -c 'opgap html t.opgap 2>&1 | sed "s/damaged: .*the end is missing.*/damaged: FILE .../"'
[ "$(stat -c %s t.html)" -gt 100000 ] && echo "a page of what is left"
ls
