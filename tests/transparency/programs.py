"""A program that uses much of what Python has of the system; prints the same in every run."""

import asyncio
import concurrent.futures
import ctypes
import hashlib
import mmap
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading


def square(number):
    return number * number


def threads():
    found, lock, ready = [], threading.Lock(), threading.Condition()

    def work(number):
        with lock:
            found.append(number)
        with ready:
            ready.notify()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(200)]
    for worker in workers:
        worker.start()
    with ready:
        ready.wait_for(lambda: len(found) == 200)
    for worker in workers:
        worker.join()
    return sorted(found) == list(range(200))


async def talk():
    async def serve(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_unix_server(serve, "socket")
    replies = []
    for number in range(20):
        reader, writer = await asyncio.open_unix_connection("socket")
        writer.write(b"line %d\n" % number)
        replies.append(await reader.readline())
        writer.close()
    server.close()
    await server.wait_closed()
    os.unlink("socket")
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"x" * 200000)
    return replies, len(out), process.returncode


def main():
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, sum(pool.map(square, range(100))))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print(list(pool.map(square, range(5))))
    print(threads(), asyncio.run(talk()))
    with tempfile.TemporaryFile() as file:
        file.truncate(100000)
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[50000:50005] = b"hello"
            file.seek(50000)
            print(file.read(5))
    base = sqlite3.connect(":memory:")
    base.execute("create table t(a)")
    base.executemany("insert into t values(?)", ((n,) for n in range(1000)))
    print(base.execute("select sum(a) from t").fetchone())
    print(hashlib.sha256(b"abc" * 100000).hexdigest(), ctypes.CDLL(None).abs(-5))
    print(subprocess.run([sys.executable, "-c", "import os; os.abort()"], check=False).returncode)
    for code in (0, 3):
        pid = os.fork()
        if pid == 0:
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    alarms = []
    signal.signal(signal.SIGALRM, lambda *_: alarms.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # again and again: the first may come before the pause
    while not alarms:
        signal.pause()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("alarm")
    sys.exit(41)


if __name__ == "__main__":
    main()
