# The first process of a pid namespace has a child by vfork that is the first of another: its pid is the parent's, but its
# end is not.
unshare -rpf true 2>/dev/null || { echo "skipped: no user namespaces here"; exit 77; }
cat >first.py <<'END'
import ctypes, os, subprocess
assert os.getpid() == 1 and ctypes.CDLL(None).unshare(0x20000000) == 0  # CLONE_NEWPID
try:
    subprocess.run(["/nowhere/at/all"])
except FileNotFoundError:
    print("the child ended")
for i in range(100):
    try:
        os.stat("/nowhere/else")
    except OSError:
        pass
END
tracer=$(dirname "$(command -v opgap)")/libopgap.so
OPGAP_OUT=first.opgap unshare -rpf env LD_PRELOAD="$tracer" /usr/bin/python3 first.py
opgap info first.opgap | grep -E '^ *ended  '
opgap info --records first.opgap | grep -c '/nowhere/else'
