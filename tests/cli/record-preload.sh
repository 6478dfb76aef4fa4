# The tracer comes before the user's own preloaded libraries, unless the user placed it; nothing is named twice.
LD_PRELOAD=libm.so.6 opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
tracer=$(dirname "$(command -v opgap)")/libopgap.so
LD_PRELOAD=$tracer opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
LD_PRELOAD=libm.so.6:$tracer opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
# An allocator that calls no other one: each of the program's 50 mallocs of 100,000 bytes is counted.
programs=$PROGRAMS/../programs/bin
LD_PRELOAD=$programs/liballocator.so opgap record --log quiet --out t.opgap -- "$programs/allocating"
opgap report --format csv --table calls t.opgap | grep '^malloc,' | cut -d, -f 1-6
