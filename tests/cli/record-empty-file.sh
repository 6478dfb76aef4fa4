# A process file without content is no traced process.
opgap record --out t.opgap -- sh -c ': >t.opgap/vm-1-1.opgt'
# A full disk: nothing was recorded, and why.
unshare -rm true 2>/dev/null || { echo "skipped: no user namespaces here"; exit 77; }
unshare -rm sh -c 'mkdir full && mount -t tmpfs -o size=64k none full && dd if=/dev/zero of=full/zeros 2>/dev/null
  opgap record --out full/t.opgap -- true' 2>err
grep -c 'processes* traced' err
grep -o 'nothing could be written to .*: no space is left there' err
