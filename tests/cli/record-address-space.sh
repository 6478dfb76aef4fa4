# Within limits of its address space a program does what it does without the tracer, traced where there is enough.
cat >program.py <<'END'
import mmap, os, resource, sys
limit = resource.getrlimit(resource.RLIMIT_AS)[0]
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
tracer = sum(int(end, 16) - int(start, 16) for start, end in
             (line.split()[0].split("-") for line in open("/proc/self/maps") if "libopgap" in line))
# all but a tenth of what the limit left this program, and the tracer's code
free = limit - int(sys.argv[1]) - tracer
try:
    mmap.mmap(-1, free * 9 // 10)
    print("has what it needs")
except OSError as error:
    print(error)
print(used, file=open("used", "w"))
END
prlimit --as=$((1 << 30)) /usr/bin/python3 program.py 0 >/dev/null
used=$(cat used)
for more in 20 400 1000; do
  prlimit --as=$((used + (more << 20))) opgap record --out $more.opgap -- /usr/bin/python3 program.py "$used" 2>err
  grep -o 'ulimit -v or -d .*' err
  opgap info $more.opgap 2>/dev/null | grep -c '^process'
done
