# Names and arguments with control bytes, an 8-bit CSI among them, do not reach the terminal as such.
opgap record --log quiet --out t.opgap -- true
red=$(printf '\033[31m') csi=$(printf '\302\23331m')
opgap report "$red"
opgap report --process "$red$csi" t.opgap
opgap report --limit "$red" t.opgap
opgap gate --"$red"
opgap baseline -o b.json "$red"
opgap "$red"
opgap record --log quiet --out named.opgap -- sh -c ": $csi"
opgap info named.opgap | head -n 2 | tail -n 1 | sed 's/process [0-9]* (parent [0-9]*) on [^:]*/process/'
exit 0
