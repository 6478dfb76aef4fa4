"""ranks_test.py TRACER OPGAP PYTHON: two ranks on two hosts, of which one is late.

The second host is this one with another boot id, host name and clock (Linux namespaces): its CLOCK_MONOTONIC is 5000 s
ahead.  Without the right to make namespaces both ranks run on one host, which is said.
Exit status 77 (skipped) when that PYTHON has no torch.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

TRACER, OPGAP, PYTHON = sys.argv[1:4]
TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")
STEPS = 40
AHEAD = 5000
OTHER_HOST = ["unshare", "--time", "--monotonic", str(AHEAD), "--boottime", str(AHEAD), "--mount", "--uts", "--fork", "sh",
              "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && hostname second && exec "$@"']
BOOT_ID = "11111111-2222-3333-4444-555555555555"


def check(condition, message):
    if not condition:
        sys.exit("failed: %s" % message)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def start(folder, rank, port, host):
    environment = ["RANK=%d" % rank, "LOCAL_RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
                   "GLOO_SOCKET_IFNAME=lo", "OPGAP_OUT=" + os.path.join(folder, "t.opgap"), "LD_PRELOAD=" + TRACER]
    return subprocess.Popen(host + ["env"] + environment + [PYTHON, TRAIN], stderr=subprocess.PIPE)


def other_host(folder):
    boot_id = os.path.join(folder, "boot_id")
    with open(boot_id, "w") as file:
        file.write(BOOT_ID + "\n")
    command = OTHER_HOST + [boot_id]
    try:
        tried = subprocess.run(command + ["cat", "/proc/sys/kernel/random/boot_id"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    except OSError as error:
        print("left out: a second host (%s)" % error)
        return []
    if tried.returncode != 0 or tried.stdout.decode().strip() != BOOT_ID:
        print("left out: a second host (no namespaces here: %s)" % tried.stderr.decode().strip())
        return []
    return command


def main():
    if not os.path.exists(PYTHON) or subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: %s has no torch" % PYTHON)
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="opgap-ranks-")
    try:
        port, second = free_port(), other_host(folder)
        ranks = [start(folder, 0, port, []), start(folder, 1, port, second)]
        for rank, process in enumerate(ranks):
            errors = process.communicate(timeout=120)[1].decode("utf-8", "replace")
            check(process.returncode == 0, "rank %d: %d: %s" % (rank, process.returncode, errors))
        whole = report(os.path.join(folder, "t.opgap"))
        judge(whole, bool(second))
        judge_parts(folder, whole)
    finally:
        shutil.rmtree(folder)


def report(*paths):
    return json.loads(subprocess.run([OPGAP, "report", "--format", "json", *paths], stdout=subprocess.PIPE, check=True).stdout)


def judge_parts(folder, whole):
    """Each rank as a trace of its own: both traces, and both summaries, say what one trace says."""
    parts, summaries = [], []
    pids = [row["pid"] for row in whole["ranks"]["table"]]
    for file in sorted(name for name in os.listdir(os.path.join(folder, "t.opgap")) if name.endswith(".opgt")):
        pid = int(file.split("-")[-2] if file.count("-") < 3 else file.split("-")[1])
        part = os.path.join(folder, "part%d.opgap" % (pids.index(pid) if pid in pids else 0))
        os.makedirs(part, exist_ok=True)
        shutil.copy(os.path.join(folder, "t.opgap", file), part)
    for rank in range(2):
        parts.append(os.path.join(folder, "part%d.opgap" % rank))
        summaries.append(os.path.join(folder, "%d.json" % rank))
        subprocess.run([OPGAP, "report", "--summary-out", summaries[-1], parts[-1]], check=True)
    merged, by_summaries = report(*parts), report(*reversed(summaries))
    check(merged == by_summaries, "traces and summaries differ")
    for key in ("records", "stored_bytes", "lost_records"):
        check(merged["trace"][key] == whole["trace"][key], "%s: %r and %r" % (key, merged["trace"][key], whole["trace"][key]))
    check(sorted(row["pid"] for row in merged["processes"]) == sorted(row["pid"] for row in whole["processes"]), "processes")
    for table, key, figures in (("hot_ops", ("kind", "name"), ("calls", "self_cpu_ns", "total_cpu_ns", "alloc_bytes")),
                                ("calls", ("name",), ("calls", "bytes", "failed")),
                                ("files", ("path", "operation"), ("calls", "bytes", "time_ns"))):
        sums = [{}, {}]
        for result, source in zip(sums, (merged, whole)):
            for row in source[table]:
                figure = result.setdefault(tuple(row[k] for k in key), [0] * len(figures))
                # an estimated time is estimated for each part
                known = [0 if row.get("estimated") and f.endswith("_ns") else row[f] or 0 for f in figures]
                result[tuple(row[k] for k in key)] = [a + b for a, b in zip(figure, known)]
        check(sums[0] == sums[1], "%s differ: %r" % (table, [k for k in sums[0] if sums[0][k] != sums[1].get(k)][:5]))
    for key in ("collectives", "unmatched"):
        check(merged["ranks"][key] == whole["ranks"][key], "ranks: %r" % merged["ranks"])
    check(merged["ranks"]["straggler"] == whole["ranks"]["straggler"], "stragglers: %r and %r" %
          (merged["ranks"]["straggler"], whole["ranks"]["straggler"]))


def judge(report, two_hosts):
    check(report["trace"]["duration_ns"] < AHEAD / 2 * 1e9, "hosts are on different clocks: the trace lasts %d s" %
          (report["trace"]["duration_ns"] / 1e9))
    ranks = report["ranks"]
    rows = ranks["table"]
    check([row["rank"] for row in rows] == [0, 1], "ranks: %r" % rows)
    # the last one's thread may not have come to its end when the process left
    check(ranks["unmatched"] <= 1, "collectives not matched: %r" % ranks)
    check(STEPS - 10 <= ranks["collectives"] < STEPS, "one a step after warm-up, not collectives than steps: %r" % ranks)
    late = ranks["straggler"]
    check(late is not None and late["rank"] == 1 and late["part"] == "sleep", "straggler: %r" % late)
    check(28e6 < late["extra_ns"] < 90e6, "rank 1 sleeps 30 ms a step: %r" % late)
    check(rows[0]["waited_ns"] == rows[1]["caused_ns"] and rows[0]["waited_ns"] > ranks["collectives"] * 15e6, "waits: %r" % rows)
    check(report["verdict"]["remedies"][0].startswith("Make rank 1 as fast"), "remedies: %r" % report["verdict"])
    if two_hosts:
        # it is one clock in truth; reading both clocks at the start takes up to this long
        check(0 < rows[1]["clock_error_ns"] and abs(rows[1]["clock_offset_ns"]) <= rows[1]["clock_error_ns"] + 100000,
              "the clocks are one: %r" % rows[1])
        check([row["host"] == "second" for row in rows] == [False, True], "hosts: %r" % rows)
    else:
        check(all(row["clock_error_ns"] == 0 for row in rows), "one host has one clock: %r" % rows)


main()
