# A file of version 1, made by the `gen --records 2000 --mix alloc` of its day, says what one made today says.  A file
# that asks for a reader that is yet to come is refused.
mkdir old
cp "$(dirname "$0")/version-1.opgt" old/gen-1000-1.opgt
"$PROGRAMS/../bench/gen" --records 2000 --mix alloc new
for trace in old new; do
  od -A n -t u4 -j 8 -N 8 $trace/gen-1000-1.opgt
  opgap export --to csv -o $trace.csv $trace 2>/dev/null
  opgap report --format json $trace | grep -v '"path"\|stored_bytes' >$trace.json
done
cmp old.csv new.csv && wc -l <new.csv
cmp old.json new.json && [ -s new.json ] && echo the same report
printf '\003' | dd of=new/gen-1000-1.opgt bs=1 seek=12 conv=notrunc 2>/dev/null
opgap report new
