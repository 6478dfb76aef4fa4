# A process file that was copied within its folder counts once: that with the name that the tracer gave, or the fuller
# one where they differ.  Nothing is missing, so this is no damage.
opgap record --log quiet --out t.opgap -- /usr/bin/python3 "$(dirname "$0")/stats.py"
show() {
  opgap report --format json t.opgap >report.out 2>/dev/null
  echo $?
  /usr/bin/python3 -c '
import json, re
s = json.load(open("report.out"))
print(len(s["processes"]), sum(c["failed"] >= 20000 for c in s["calls"] if c["name"] == "stat"), len(s["trace"]["damage"]))
for line in s["trace"]["notices"]:
    print(re.sub(r"t.opgap/[^+~:]*opgt", "ORIGINAL", line).replace("t.opgap/", ""))'
}
original=$(echo t.opgap/*.opgt)
for name in +copy "~copy"; do
  cp "$original" "t.opgap/$name.opgt"
  show
  opgap info t.opgap | grep -c '^note  *t.opgap/.copy.opgt is left out'
  rm "t.opgap/$name.opgt"
done
for name in +cut "~cut"; do
  head -c $(($(wc -c <"$original") / 2)) "$original" >"t.opgap/$name.opgt"
  show
  rm "t.opgap/$name.opgt"
done
cp "$original" t.opgap/+whole.opgt
truncate -s $(($(wc -c <"$original") / 2)) "$original"
show
rm t.opgap/+whole.opgt
show
