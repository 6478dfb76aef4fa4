# The disk is full when a program is killed: what it recorded last stays in its ring, record says where, every report has
# it, with the same times, and the first command that finds room writes it down.
unshare -rm true 2>/dev/null || { echo "skipped: no user namespaces here"; exit 77; }
unshare -rm sh -c '
mkdir full && mount -t tmpfs -o size=256k none full || { echo "skipped: no tmpfs can be mounted"; exit 77; }
opgap record --out full/t.opgap --children none -- sh -c "
  i=0
  while [ \$i -lt 2000 ]; do i=\$((i + 1)); true 2>/dev/null <\"/no/such/file-\$i-\$((i * i * 7919 % 1000003))\"; done
  dd if=/dev/zero of=full/zeros bs=1k 2>/dev/null
  kill -9 \$\$" 2>err
echo "$?"
sed "s#/[^ ]*/opgap-[^ ]*\.ring#RING#" err
ring=$(grep -o "/[^ ]*/opgap-[^ ]*\.ring" err)
[ -f "$ring" ] && echo kept
unshare -m sh -c "umount full && opgap record --log quiet --out other.opgap -- true"
[ -f "$ring" ] && echo "kept by who does not see the trace"
for i in 1 2; do opgap report --format json full/t.opgap >report.$i; echo "$?"; done
cmp report.1 report.2 && echo same
grep -c "\"name\": *\"open\"" report.1
rm full/zeros
opgap report --format json full/t.opgap >report.3
for i in 1 3; do grep -v stored_bytes report.$i >figures.$i; done
cmp figures.1 figures.3 && echo same
[ -f "$ring" ] || echo written
'
