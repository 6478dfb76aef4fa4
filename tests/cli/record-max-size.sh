# A trace that reached the size that was set for it is no damaged one: the head says so and counts what it lost, a
# baseline refuses it; the program is not disturbed.
cat >opens.py <<'END'
for i in range(100000):
    open("/dev/null").close()
print("done")
END
opgap record --max-size 64K --out t.opgap -- /usr/bin/python3 opens.py
echo $?
opgap report t.opgap >report 2>errors
echo $?
sed 's/t.opgap[^:]*opgt/FILE/' errors
grep -c DAMAGED report
sed -n 's/^  notice *\(recording of process\) [0-9]* ended after [0-9.]* s of its [0-9.]* s/\1 N ended/p' report | tr '\n' ' ' |
  tr -s ' '
echo
sed -n 's/^  notice *records lost: [0-9]* /records lost: N /p' report
opgap baseline --output base t.opgap 2>refused
echo $?
sed 's/lost [0-9]*/lost N/' refused
opgap report --format json t.opgap >report.json 2>errors
sed 's/t.opgap[^:]*opgt/FILE/' errors
/usr/bin/python3 - <<'END'
import json
trace = json.load(open("report.json"))["trace"]
print(trace["complete"], trace["lost_records"] > 1000, trace["records"] > 1000, trace["stored_bytes"] <= 65536)
why = trace["lost_by"]
print(why["unwritten"] > 0, sum(why.values()) == trace["lost_records"], why["unknown"])
END
