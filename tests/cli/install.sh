# An installed opgap finds its tracer.
cmake --install "$(dirname "$(command -v opgap)")" --prefix "$PWD/usr" >log || cat log
find usr -type f ! -name 'opgap-*.1.gz' | sed 's#lib/.*-linux-gnu/#lib/#' | sort
zcat usr/share/man/man1/opgap-record.1.gz | grep -c OPGAP_
usr/bin/opgap record --log quiet --out t.opgap -- true
echo $?
ls t.opgap | wc -l
