# A process file that was copied within its folder counts once, and of two that differ the fuller one.
opgap record --log quiet --out t.opgap -- /usr/bin/python3 -c 'import os
for i in range(20000):
    try:
        os.stat(f"/nowhere/{i * 7919 % 20011}")
    except OSError:
        pass'
show() {
  opgap report --format json t.opgap >report.out 2>/dev/null
  echo $?
  /usr/bin/python3 -c '
import json, re
s = json.load(open("report.out"))
print(len(s["processes"]), sum(c["failed"] >= 20000 for c in s["calls"] if c["name"] == "stat"))
for line in s["trace"]["damage"]:
    print(re.sub(r"t.opgap/[^+~]\S*", "ORIGINAL", line).replace("t.opgap/", ""))' | grep -v ' bytes '
}
original=$(echo t.opgap/*.opgt)
cp "$original" t.opgap/+copy.opgt
show
rm t.opgap/+copy.opgt
for name in +cut "~cut"; do
  head -c $(($(wc -c <"$original") / 2)) "$original" >"t.opgap/$name.opgt"
  show
  rm "t.opgap/$name.opgt"
done
show
