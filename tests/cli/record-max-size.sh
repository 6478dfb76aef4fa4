# A trace that reached its largest size says so, counts what it lost, and is incomplete; the program is not disturbed.
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
grep -c 'recording stopped early: OPGAP_MAX_SIZE is reached' report
opgap report --format json t.opgap >report.json 2>errors
sed 's/t.opgap[^:]*opgt/FILE/' errors
/usr/bin/python3 - <<'END'
import json
trace = json.load(open("report.json"))["trace"]
print(trace["complete"], trace["lost_records"] > 1000, trace["records"] > 1000, trace["stored_bytes"] <= 65536)
why = trace["lost_by"]
print(why["unwritten"] > 0, sum(why.values()) == trace["lost_records"], why["unknown"])
END
