# A child that may map no more than half a MiB, which no ring fits, is not traced and says why, once; it runs, and its
# parent is traced.
opgap record --log warn --buffer 8M --out t.opgap -- /usr/bin/python3 - <<'END'
import os
import resource

soft, hard = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as file:
    mapped = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (1 << 19), hard))
if os.fork() == 0:
    os.write(1, b"the child runs\n")
    os._exit(0)
os.wait()
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
END
echo $?
opgap info t.opgap | grep -E 'ended  ' | sed 's/^ *//'
