"""What one native call stack costs, beside the same program without stacks; and that each was taken.

captures.py BUILD
"""
import os
import subprocess
import sys
import tempfile

BUILD = sys.argv[1]
COUNT, ROUNDS = 200, 10


def run(kind, depth, folder):
    trace = os.path.join(folder, f"{kind}-{depth}.opgap")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPGAP_")}
    environment.update(LD_PRELOAD=os.path.join(BUILD, "libopgap.so"), OPGAP_OUT=trace, OPGAP_STACKS=kind,
                       # blocks of 2 MiB from the heap: no system call hides what is measured
                       MALLOC_MMAP_THRESHOLD_="100000000", MALLOC_TRIM_THRESHOLD_="100000000")
    done = subprocess.run([os.path.join(BUILD, "tests/bench/captures"), str(COUNT), str(depth)], env=environment,
                          capture_output=True, text=True, timeout=60, check=True)
    if "libunwind.so.8 cannot be loaded" in done.stderr:
        print("skipped: libunwind.so.8 is not installed")
        sys.exit(77)
    return float(done.stdout), trace


def stacks(trace):
    """Taken and left out, as the head of the table says."""
    words = subprocess.run([os.path.join(BUILD, "opgap"), "report", "--by", "module", trace], capture_output=True,
                           text=True, timeout=60, check=True).stdout.split()
    return int(words[0]), int(words[4])


with tempfile.TemporaryDirectory(prefix="opgap-captures-") as place:
    print("frames  without  with a stack  a stack (ns)")
    for depth_ in (4, 20, 45):
        plain, _ = run("off", depth_, place)
        with_stack, trace_ = run("native", depth_, place)
        taken, skipped = stacks(trace_)
        assert taken + skipped == COUNT * ROUNDS and taken > 0, (taken, skipped)
        print(f"{depth_ + 5:6} {plain:8.0f} {with_stack:13.0f} {with_stack - plain:13.0f}")
