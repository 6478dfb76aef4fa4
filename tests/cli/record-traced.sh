opgap record --out t.opgap -- sh -c 'echo out; echo err >&2; exit 3'
echo $?
stat -c %a t.opgap
opgap record -- true
ls -d *true*.opgap | sed 's/-[0-9]*-[0-9]*-[0-9]*\.opgap/-DATE-PID.opgap/'
