#!/usr/bin/env python3
"""What `opgap` says and writes does not depend on how many threads read: the same bytes and the same exit status with
one, two and four, for whole traces of one process and of several ranks, damaged ones, and ones whose records cannot be
decoded though the checksums hold.  Reports and one export of all of them, every export of three, the gate's second
reading of those with steps, and tables of stacks."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib

RECORDS = 60000
PATIENCE = 40  # seconds for a report that takes a fraction of one
PROGRAM = """
import subprocess, threading
def work():
    for _ in range(50):
        open('/dev/null').close()
threads = [threading.Thread(target=work) for _ in range(20)]
for t in threads: t.start()
for t in threads: t.join()
subprocess.run(['/bin/echo'], stdout=subprocess.DEVNULL)
"""
HEADER = struct.Struct("<IHHIIIIIIQQQQiI16s12sI")  # struct opgap_chunk_header


def chunks(data):
    """Start and end of each chunk of records behind the first two, which describe the process."""
    at = struct.unpack_from("<I", data, 16)[0]
    while at < len(data):
        head = HEADER.unpack_from(data, at)
        end = at + head[2] + head[5]
        if head[1] == 3:
            yield at, end
        at = end


def replace_bytes(data, seed, seal):
    """Other bytes at five places of the chunks of records.  seal: with checksums that hold."""
    rand = random.Random(seed)
    places = list(chunks(data))
    data = bytearray(data)
    for start, end in rand.sample(places, min(5, len(places))):
        payload = start + HEADER.size
        at = rand.randrange(payload + 12, end - 8)  # behind the head of the compressed frame
        data[at:at + 4] = rand.randbytes(4)
        if seal:
            struct.pack_into("<I", data, start + 28, zlib.crc32(data[payload:end]))
            struct.pack_into("<I", data, start + HEADER.size - 4, zlib.crc32(data[start:start + HEADER.size - 4]))
    return bytes(data)


def generate(build, trace, mix, ranks):
    subprocess.run([os.path.join(build, "tests", "bench", "gen"), "--records", str(RECORDS), "--mix", mix, "--ranks",
                    str(ranks), trace], check=True, stdout=subprocess.DEVNULL)


def generated(build, folder, mix):
    ranks = os.path.join(folder, mix + "-ranks.opgap")
    generate(build, ranks, mix, 8)
    yield ranks, 0
    trace = os.path.join(folder, mix + ".opgap")
    generate(build, trace, mix, 1)
    yield trace, 0
    path = os.path.join(trace, os.listdir(trace)[0])
    with open(path, "rb") as file:
        data = file.read()
    variants = [("cut", data[:len(data) * 2 // 3], 4)]
    variants += [("damaged%d" % seed, replace_bytes(data, seed, False), 4) for seed in range(3)]
    variants += [("undecodable%d" % seed, replace_bytes(data, seed, True), None) for seed in range(8)]
    for name, other, status in variants:
        variant = os.path.join(folder, mix + "-" + name + ".opgap")
        os.mkdir(variant)
        with open(os.path.join(variant, os.path.basename(path)), "wb") as file:
            file.write(other)
        yield variant, status


def recorded(build, folder):
    trace = os.path.join(folder, "recorded.opgap")
    subprocess.run([os.path.join(build, "opgap"), "record", "--out", trace, "--stacks", "native", "--",
                    sys.executable, "-c", PROGRAM], check=True, stderr=subprocess.DEVNULL)
    yield trace, 0


WORKERS = """
import os
def work(pipe):
    for _ in range(200):
        os.write(pipe, open('/dev/zero', 'rb').read(4096))
    os._exit(0)
pipes = []
for _ in range(2):
    get, put = os.pipe()
    if os.fork() == 0:
        work(put)
    os.close(put)
    pipes.append(get)
for pipe in pipes:
    while os.read(pipe, 1000):
        pass
"""


def recorded_ranks(build, folder):
    """Two ranks at the same time, each a program with worker processes and one that computes on the fake GPU."""
    trace, fakes = os.path.join(folder, "ranks.opgap"), os.path.join(build, "tests", "fakes")
    programs = []
    for rank in "0", "1":
        for command in ([sys.executable, "-c", WORKERS], [os.path.join(fakes, "gpu_scenario"), "workers", "20"]):
            environment = dict(os.environ, RANK=rank, WORLD_SIZE="2", OPGAP_OUT=trace,
                               LD_PRELOAD=os.path.join(build, "libopgap.so"),
                               LD_LIBRARY_PATH=os.path.join(fakes, "cuda12"))
            programs.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    if any([program.wait() for program in programs]):
        sys.exit("a program to record failed")
    report = json.loads(subprocess.run([os.path.join(build, "opgap"), "report", "--format", "json", trace],
                                       stdout=subprocess.PIPE, check=True).stdout)
    ranks = [process["rank"] for process in report["processes"]]
    if not report["gpu"] or min(ranks.count(0), ranks.count(1)) < 4:
        sys.exit("no GPU or too few processes: %r, %r" % (ranks, report["gpu"]))
    yield trace, 0


def output(build, threads, what, options, trace):
    """Exit status and output; a reader that waits for one that has ended would wait for ever."""
    command = [os.path.join(build, "opgap"), what, "--threads", threads, *options, trace]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        sys.exit("%s: not over after %d s" % (" ".join(command), PATIENCE))
    return result.returncode, result.stdout, result.stderr


def commands(trace):
    """What is run on a trace; the first is the report as JSON."""
    name = os.path.basename(trace)
    yield "report", ["--format", "json"]
    yield "report", ["--steps", "2:5"]
    whole = name in ("ops-ranks.opgap", "recorded.opgap", "ranks.opgap")
    for export in ["csv", "perfetto", "chrome", "speedscope", "collapsed"][:None if whole else 1]:
        yield "export", ["--to", export, "-o", "-"]
    if name in ("ops-ranks.opgap", "ops.opgap", "alloc.opgap") or "undecodable" in name:
        yield "gate", ["--all", "--format", "json", "--baseline", trace]
    if name == "recorded.opgap":
        for by in "function", "stack":
            yield "report", ["--format", "json", "--by", by]


def main():
    build = os.path.abspath(sys.argv[1])
    failures, invalid, count = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        traces = [*generated(build, folder, "ops"), *generated(build, folder, "alloc"), *recorded(build, folder),
                  *recorded_ranks(build, folder)]
        for trace, status in traces:
            for number, (what, options) in enumerate(commands(trace)):
                said = [output(build, threads, what, options, trace) for threads in ("1", "2", "4")]
                count += 1
                if said[1:] != said[:1] * 2:
                    failures.append("%s %s %s: two or four threads say something else than one" %
                                    (what, " ".join(options), trace))
                if not said[0][1] and options[0] != "--steps":
                    failures.append("%s %s %s: no output" % (what, " ".join(options), trace))
                if number == 0:
                    undecoded = json.loads(said[0][1])["trace"]["invalid_records"] > 0
                    wanted = status if status is not None else 4 if undecoded else 0
                    if said[0][0] != wanted:
                        failures.append("%s: exit status %d, expected %d" % (trace, said[0][0], wanted))
                    invalid += undecoded
    print("%d outputs, %d traces with records that cannot be decoded" % (count, invalid))
    if invalid == 0:
        failures.append("no trace had records that cannot be decoded: the test is void")
    print("\n".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
