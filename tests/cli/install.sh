# An installed opgap finds its tracer.
cmake --install "$(dirname "$(command -v opgap)")" --prefix "$PWD/usr" >log || cat log
find usr -type f | sed 's#lib/.*-linux-gnu/#lib/#' | sort
usr/bin/opgap record --log quiet --out t.opgap -- true
echo $?
ls t.opgap | wc -l
