# One process file of a trace cannot be read: the rest is reported, the trace is incomplete, exit code 4.
opgap record --out t.opgap -- sh -c '/bin/true; /bin/echo done' 2>/dev/null
opgap report t.opgap >/dev/null
echo $?
for file in t.opgap/*; do part=$file; done
: >"$part"
opgap report t.opgap >report
echo $?
grep -c 'the file is empty' report
opgap report --format json t.opgap | grep -c '"complete": *false'
echo 'something else, but long enough to be looked at as a header of a file of a trace' >"$part"
opgap report t.opgap | grep -c 'not an opgap trace'
