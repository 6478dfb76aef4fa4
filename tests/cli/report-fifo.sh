# A program waits in open() for the other end of a FIFO, which comes 0.1 s or more after it was seen to sleep.
mkfifo fifo
opgap record --out t.opgap -- perl -e 'open(P, ">", "pid"); print P $$; close(P); rename("pid", "ready");
  open(F, "<", "fifo"); print <F>' 2>/dev/null &
while [ ! -e ready ]; do sleep 0.05; done
while [ "$(cut -d ' ' -f 3 "/proc/$(cat ready)/stat")" != S ]; do sleep 0.05; done
sleep 0.1
echo through >fifo
wait
opgap report --format json t.opgap | python3 -c '
import json, sys
report = json.load(sys.stdin)
gap = max((g for g in report["idle_gaps"]["threads"] if g["call"] == "open"), key=lambda g: g["duration_ns"])
print(gap["duration_ns"] > 50_000_000, [(c["cause"], c["detail"].endswith("/fifo")) for c in gap["causes"]])
files = sum(f["time_ns"] for f in report["files"])
threads, processes = (sum(row["file_ns"] for row in report[of]) for of in ("threads", "processes"))
print(threads == processes == files, report["threads"][0]["blocked_ns"] >= gap["duration_ns"])
'
