# 20,000 calls of stat that fail, each of another path: a trace of some length.
import os

for i in range(20000):
    try:
        os.stat(f"/nowhere/{i * 7919 % 20011}")
    except OSError:
        pass
