opgap record --log quiet --out t.opgap -- sh -c 'exit 3'
opgap info t.opgap | grep -E 'ended  |records  ' | sed 's/records   [1-9][0-9]*,/records   N,/'
opgap info | head -n 1
opgap info --schema t.opgap | grep "'op'"
file=$(ls t.opgap/*.opgt)
size=$(stat -c %s "$file")
truncate -s $((size - 10)) "$file"
opgap info t.opgap 2>/dev/null | grep -c incomplete
opgap info t.opgap >out 2>err
echo $? "$(wc -l <err)"
