# The first process executes another program, which stays traced with --children fork, with a long LD_PRELOAD of its own.
opgap record --log quiet --children fork --out t.opgap -- /usr/bin/python3 -c '
import os
words = "libm.so.6:" * 2000
os.execve("/usr/bin/python3", ["python3", "-c", """
import os
print(os.environ["LD_PRELOAD"].rstrip(":") == os.environ["WORDS"].rstrip(":"))  # the tracer has left it again
"""], dict(os.environ, LD_PRELOAD=words, WORDS=words))'
echo $?
opgap info t.opgap | grep -E '^ *ended  '
