# An installation without its tracer, with a damaged one, and in a place that LD_PRELOAD cannot name.
mkdir bin 'with blank'
cp "$(command -v opgap)" bin
bin/opgap record -- echo must not run
echo $?
echo damaged >bin/libopgap.so
bin/opgap record -- sh -c 'exit 6' 2>err
echo $?
grep '^opgap' err
ls
cp "$(command -v opgap)" bin/libopgap.so 'with blank'
'with blank/opgap' record -- echo must not run
