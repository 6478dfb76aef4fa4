# A program that limits its files to less than its trace has already: not even the end can be written.  What was recorded
# is counted as lost, by record or, with LD_PRELOAD alone, by the report, and the reason is told.
tracer=$(dirname "$(command -v opgap)")/libopgap.so
cat >opens.py <<'END'
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for i in range(4000):
    open("/dev/null").close()
print("done")
END
opgap record --out t.opgap -- /usr/bin/python3 opens.py
LD_PRELOAD=$tracer OPGAP_OUT=preload.opgap /usr/bin/python3 opens.py
for trace in t.opgap preload.opgap; do
  opgap report "$trace" 2>/dev/null | grep -o "recording stopped early.*"
  opgap report --format json "$trace" 2>/dev/null | /usr/bin/python3 -c 'import json, sys
trace = json.load(sys.stdin)["trace"]
print(trace["lost_records"] >= 4000, trace["lost_by"]["unwritten"] == trace["lost_records"])'
  opgap info "$trace" 2>/dev/null | sed -n 's/^ *ended  */ended /p'
done
