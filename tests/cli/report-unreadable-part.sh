# One process file of a trace cannot be read: the rest is reported, the trace is incomplete, exit code 4.
opgap record --out t.opgap -- sh -c '/bin/true; /bin/echo done' 2>/dev/null
opgap report t.opgap >/dev/null
echo $?
for file in t.opgap/*; do part=$file; done
: >"$part"
opgap report t.opgap >report 2>errors
echo $?
sed 's/t.opgap[^:]*opgt/FILE/' errors
grep -c 'the file is empty' report
opgap report --format json t.opgap 2>errors | grep -c '"complete": *false'
echo 'something else, but long enough to be looked at as a header of a file of a trace' >"$part"
opgap report t.opgap 2>errors | grep -c 'not an opgap trace'
