# A program that removes the folder of its trace does not get it back, whatever it starts afterwards, and one line tells.
cat >program.sh <<'END'
rm -r d
cat /dev/null
(read -r line </dev/null)
/usr/bin/python3 -c 'import os
if os.fork() == 0:
    open("/dev/null").close()
    os._exit(0)
os.wait()'
echo ran
exit 3
END
mkdir d
opgap record --out d/t.opgap -- sh program.sh
echo $?
ls -d d 2>/dev/null

tracer=$(dirname "$(command -v opgap)")/libopgap.so
mkdir d
OPGAP_OUT=d/t.opgap LD_PRELOAD=$tracer sh program.sh
echo $?
ls -d d 2>/dev/null

# the same when it executes another program in its place, and where only the process's file is gone
mkdir d
OPGAP_OUT=d/t.opgap LD_PRELOAD=$tracer sh -c 'rm -r d; exec cat /dev/null'
ls -d d 2>/dev/null
OPGAP_OUT=t.opgap LD_PRELOAD=$tracer sh -c "rm t.opgap/*-\$\$-*; exit 3"
echo $?
# no ring of them is left; others may come and go
for ring in /dev/shm/opgap-*.ring; do
  head -c 8192 "$ring" 2>/dev/null | grep -qaF "$PWD/" && echo left
done
OPGAP_SESSION=$PWD/gone opgap doctor | grep '^[a-z]* *session'
