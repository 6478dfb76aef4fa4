# What a killed program left in its ring is in the trace when record returns, and no ring is left.
opgap record --out t.opgap -- sh -c 'echo $$ >pid; kill -KILL $$'
echo $?
opgap info t.opgap | grep -E 'ended  |records  |bytes  ' | sed 's/records   [1-9][0-9]*,/records   N,/; s/[0-9]* stored/N stored/'
ls /dev/shm | grep -c -- "-$(cat pid)-"
opgap info --records t.opgap | grep -c ' write [0-9]'
