#!/usr/bin/env python3
"""The GPU side of the tracer on the fake GPU: programs with a known truth, one case an argument.

    test_fake.py LIBOPGAP FAKES TRACE_DUMP OPGAP [CASE]        without CASE: all of them

OPGAP_TEST_PYTHON: interpreters with torch, with colons between them, for the cases "where" and "real_cupti".

LIBOPGAP: libopgap.so; FAKES: folder of the built fakes; TRACE_DUMP: the record printer; OPGAP: the command.  Exit
status 1: a case failed.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIBOPGAP, FAKES, DUMP, OPGAP = map(os.path.abspath, sys.argv[1:5])
PYTHONS = [python for python in os.environ.get("OPGAP_TEST_PYTHON", "").split(":") if python]


# a machine that has one is never said to have none
REAL_GPU = any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu")))


class Record:
    def __init__(self, line):
        cells = line.rstrip("\n").split("\t")
        self.process, self.stream, self.tid, self.event = int(cells[0]), cells[1], int(cells[2]), cells[3]
        self.depth, self.status, self.start, self.end = map(int, cells[4:8])
        self.fields = dict(cell.split("=", 1) for cell in cells[8:])

    def number(self, name):
        return int(self.fields[name])


class Run:
    """A traced program and what its trace holds."""

    def __init__(self, command, generation=12, traced=True, exit_status=0, kill_at=None, **environment):
        """kill_at: (signal, N): the program waits at its end, and gets this signal once its trace holds N kernels."""
        folder = tempfile.mkdtemp(prefix="opgap-gpu-")
        env = dict(os.environ)
        for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH"):
            env.pop(name, None)
        env["LD_LIBRARY_PATH"] = os.path.join(FAKES, "cuda%d" % generation)
        env.update(environment)
        if traced:
            env["LD_PRELOAD"] = LIBOPGAP
            env["OPGAP_OUT"] = os.path.join(folder, "run.opgap")
        program = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if kill_at:
            self.wait_for_kernels(program, env["OPGAP_OUT"], kill_at[1])
            program.send_signal(kill_at[0])
        try:
            self.out, self.err = program.communicate(timeout=60)
        finally:
            program.kill()
        expect(program.returncode, exit_status, "exit status of " + " ".join(command) + ": " + self.err)
        expect("after teardown" in self.err, False, "CUPTI used after teardown: " + self.err)
        self.records, self.gpu_status = [], []
        if traced:
            self.read(env["OPGAP_OUT"])
            report = subprocess.run([OPGAP, "report", "--format", "json", env["OPGAP_OUT"]], capture_output=True,
                                    text=True, timeout=60)
            expect(report.returncode, 0, "the report: " + report.stderr)
            self.report = json.loads(report.stdout)
            self.text = subprocess.run([OPGAP, "report", env["OPGAP_OUT"]], capture_output=True, text=True,
                                       timeout=60).stdout
        shutil.rmtree(folder)

    def read(self, trace):
        self.records, self.gpu_status = [], []
        dump = subprocess.run([DUMP, trace], capture_output=True, text=True, timeout=60)
        expect(dump.returncode, 0, "reading the trace: " + dump.stderr)
        for line in dump.stdout.splitlines():
            if line.startswith("#"):
                self.gpu_status.append(line.split("gpu_status=", 1)[1])
            else:
                self.records.append(Record(line))

    def wait_for_kernels(self, program, trace, count):
        """The tracer writes them while the program does nothing, as soon as the machine lets it."""
        expect(program.stdout.readline(), "waiting\n", "the program's word")
        deadline = time.monotonic() + 50
        self.read(trace)
        while len(self.of("kernel")) < count and time.monotonic() < deadline:
            time.sleep(0.05)
            self.read(trace)

    def of(self, event):
        """The records of an event; memcpy and memset are the device's, not the hooked functions."""
        return [r for r in self.records if r.event == event and
                (event not in ("memcpy", "memset") or r.stream == "gpu")]

    def said(self, word):
        for line in self.out.splitlines():
            if line.split()[0] == word:
                return [int(x) for x in line.split()[1:]]
        raise Failure("the program did not print " + word)


class Failure(Exception):
    pass


def expect(seen, wanted, what):
    if seen != wanted:
        raise Failure("%s: %r, expected %r" % (what, seen, wanted))


def expect_within(seen, wanted, tolerance, what):
    if abs(seen - wanted) > tolerance:
        raise Failure("%s: %d, expected %d +- %d" % (what, seen, wanted, tolerance))


def scenario(name, *arguments, generation=12, **environment):
    program = {11: "gpu_scenario_11", 12: "gpu_scenario", 13: "gpu_scenario_13"}[generation]
    return Run([os.path.join(FAKES, program), name, *map(str, arguments)], generation, **environment)


def with_waits_for_cpu(seen_ns, without_cpu_ns, truth_ns):
    """A busy machine adds time without a processor: a part of it is in the program's own measure, and some is not."""
    return seen_ns if seen_ns >= truth_ns else min(truth_ns, seen_ns + without_cpu_ns)


def check_gaps(run, cause, truth_ns):
    """The gaps are what lies between the kernels, their causes add up, and `cause` has the known time within 1 %."""
    kernels = sorted(run.of("kernel"), key=lambda k: k.start)
    between = [b.start - a.end for a, b in zip(kernels, kernels[1:])]
    gaps = run.report["idle_gaps"]
    expect(gaps["gpu_ns"], sum(ns for ns in between if ns >= 20000), "sum of the gaps")
    expect(gaps["gpu_count"], sum(ns >= 20000 for ns in between), "number of gaps")
    by_cause = {}
    for row in gaps["gpu_by_cause"]:
        by_cause[row["cause"]] = by_cause.get(row["cause"], 0) + row["ns"]
    expect(sum(by_cause.values()), gaps["gpu_ns"], "the causes add up to the gaps")
    for gap in gaps["gpu"]:
        expect(sum(row["ns"] for row in gap["causes"]), gap["duration_ns"], "the causes of one gap add up to it")
    without_cpu = by_cause.pop("run queue", 0) + by_cause.pop("cgroup throttling", 0)
    seen = with_waits_for_cpu(by_cause.get(cause, 0), without_cpu, truth_ns)
    expect_within(seen, truth_ns, truth_ns // 100, "time of \"%s\" in %s" % (cause, by_cause))
    expect(max(by_cause, key=by_cause.get), cause, "the largest cause")
    return {(row["cause"], row["detail"]) for row in gaps["gpu_by_cause"]}


def lost(run, reason):
    return sum(r.number("count") for r in run.of("gpu lost") if r.status == reason)


def check_joined(run):
    """Each kernel has one launch, which began before it."""
    launches = {r.status: r for r in run.of("cuda api") if "Launch" in r.fields["name"]}
    for kernel in run.of("kernel"):
        launch = launches.get(kernel.status)
        expect(launch is not None, True, "a launch with correlation id %d" % kernel.status)
        expect(launch.start < kernel.start, True, "the kernel begins after its launch")


def case_kernels():
    run = scenario("sync", 20)
    kernels = run.of("kernel")
    expect(len(kernels), 20, "kernels")
    for k in kernels:
        expect(k.end - k.start, 1000000, "duration")
        expect(k.fields["name"], "_Z4spiny", "name")
        expect(k.number("grid"), 4 | (2 - 1) << 32, "grid")
        expect(k.number("block"), 64, "block")
        expect(k.number("registers"), 32, "registers")
    check_joined(run)
    names = [r.fields["name"] for r in run.of("cuda api")]
    expect(names.count("cudaLaunchKernel"), 20, "launches")
    expect(names.count("cudaDeviceSynchronize"), 20, "synchronisations")
    expect(len(run.of("synchronisation")), 20, "synchronisation records")
    expect(len(run.of("cudaLaunchKernel")), 0, "interposed launches while CUPTI reports them")
    tids = {r.number("thread") for r in run.of("cuda api")}
    expect(len(tids & {r.tid for r in run.records}) >= 0, True, "threads")
    device = run.of("gpu device")
    expect([d.fields["name"] for d in device], ["Fake GPU 80GB"], "device")
    expect(device[0].number("sm_count"), 108, "multiprocessors")
    expect(device[0].number("memory_bytes"), 80 << 30, "device memory")
    expect(device[0].number("capability"), 80, "compute capability")


def case_status():
    expect(scenario("sync", 1).gpu_status, ["ok"], "with a device")
    expect(scenario("sync", 1, FAKE_GPU_DEVICES="0").gpu_status,
           ["unavailable: CUPTI reported nothing" if REAL_GPU else "no device"], "without a device")
    expect(scenario("sync", 1, FAKE_CUPTI="enable=35").gpu_status,
           ["unavailable: no permission to profile the GPU (NVreg_RestrictProfilingToAdminUsers)"], "without permission")
    expect(scenario("sync", 1, FAKE_CUPTI="subscribe=39").gpu_status, ["unavailable: another tool holds CUPTI"],
           "beside another tool")
    expect(scenario("sync", 1, FAKE_CUPTI="enable=33").report["gpu_status"],
           "unavailable: CUPTI does not support this virtual GPU", "in the report")


def case_streams():
    run = scenario("streams", 3)
    copies = run.of("memcpy")
    expect(len(run.of("kernel")), 6, "kernels")
    expect(sorted(c.number("bytes") for c in copies), [1 << 18] * 3 + [1 << 19] * 3 + [1 << 20] * 3, "bytes copied")
    by_bytes = {c.number("bytes"): c for c in copies}
    seen = {b: (c.number("kind"), c.number("src_kind"), c.number("dst_kind"), c.number("flags") & 1)
            for b, c in by_bytes.items()}
    expect(seen, {1 << 20: (1, 2, 3, 1), 1 << 19: (1, 1, 3, 1), 1 << 18: (2, 3, 1, 0)},
           "direction, source, target, asynchronous")
    expect(by_bytes[1 << 20].end - by_bytes[1 << 20].start, 2000 + (1 << 20) * 1000000000 // 25000000000,
           "duration of a pinned copy")
    sets = run.of("memset")
    expect([(s.number("bytes"), s.number("memory_kind")) for s in sets], [(1 << 16, 3)] * 3, "sets")
    expect(len({r.number("stream") for r in run.of("kernel")}), 2, "streams")
    memory = [(m.number("operation"), m.number("kind"), m.number("bytes")) for m in run.of("gpu memory")]
    expect(memory, [(1, 3, 1 << 20), (1, 2, 1 << 20)], "device and pinned allocations")
    expect(len([s for s in run.of("synchronisation") if s.number("type") == 2]), 3, "stream waits")


def case_graph():
    run = scenario("graph", 6)
    kernels = run.of("kernel")
    expect(len(kernels), 6, "graphs, whole")
    expect({k.fields["name"] for k in kernels}, {"CUDA graph 2"}, "name")
    expect({k.end - k.start for k in kernels}, {1000000}, "duration of a graph of four kernels")
    check_joined(run)


def case_detail():
    run = scenario("graph", 6, OPGAP_GPU="nodes")
    expect(len(run.of("kernel")), 24, "kernels in graphs, one by one")
    expect({k.number("graph") for k in run.of("kernel")}, {2}, "graph")
    expect(len({k.number("graph_node") for k in run.of("kernel")}), 4, "nodes")
    check_joined(run)
    calls = {how: [r.fields["name"] for r in scenario("driver", 3, OPGAP_GPU=how).of("cuda api")]
             for how in ("graphs", "all")}
    expect((calls["graphs"].count("cuLaunchKernel"), calls["graphs"].count("cuCtxSynchronize")), (3, 0),
           "of the driver's calls launches only")
    expect((calls["all"].count("cuLaunchKernel"), calls["all"].count("cuCtxSynchronize")), (3, 3), "all driver calls")


def case_cupti11():
    """Older records, no timestamp callback: another clock with an offset and 50 ppm of drift."""
    run = scenario("sleep", 20, 20000, generation=11)
    kernels = run.of("kernel")
    expect(len(kernels), 20, "kernels")
    for k in kernels:
        expect_within(k.end - k.start, 1000000, 300, "duration on the tracer's clock")
    check_joined(run)
    # one time line: each nap, stamped by the tracer, lies between a synchronisation and the next launch, stamped by CUPTI
    naps = sorted(run.of("nanosleep"), key=lambda r: r.start)
    calls = sorted(run.of("cuda api"), key=lambda r: r.start)
    syncs = [r for r in calls if r.fields["name"] == "cudaDeviceSynchronize"]
    launches = [r for r in calls if r.fields["name"] == "cudaLaunchKernel"]
    expect((len(naps), len(syncs), len(launches)), (19, 20, 20), "naps, synchronisations, launches")
    for nap, sync, launch in zip(naps, syncs, launches[1:]):
        expect(sync.end <= nap.start + 20000, True, "the nap follows the synchronisation")
        expect(launch.start >= nap.end - 20000, True, "the launch follows the nap")
    graph = scenario("graph", 3, generation=11)
    expect(len(graph.of("kernel")), 12, "graphs by node")
    expect(len({k.number("graph_node") for k in graph.of("kernel")}), 4, "graph nodes")


def case_nvcc():
    """A program compiled by nvcc, unchanged, on the fake CUDA 13."""
    program = os.path.join(FAKES, "gpu_scenario_nvcc")
    if not os.path.exists(program):
        print("skipped: built without nvcc")
        sys.exit(77)
    run = Run([program, "sync", "8"], 13)
    expect(len(run.of("kernel")), 8, "kernels")
    expect({k.fields["name"] for k in run.of("kernel")}, {"_Z4spiny"}, "name")
    expect({k.end - k.start for k in run.of("kernel")}, {1000000}, "duration")
    check_joined(run)


def case_dropped():
    """Every tenth record is dropped; the rest is there and the loss is counted."""
    run = scenario("burst", 1000, FAKE_CUPTI="drop=10")
    delivered = sum(r.stream == "gpu" and r.event != "gpu lost" for r in run.records)
    # the device; 1000 launches and kernels; 2 synchronisations, each a call and a record
    expect(delivered + lost(run, 1), 1 + 2000 + 4, "records delivered and counted as dropped")
    expect(lost(run, 1), 200, "dropped")


def case_bad_times():
    run = scenario("burst", 1000, FAKE_CUPTI="bad=10")
    expect(len(run.of("kernel")), 900, "kernels with possible times")
    expect(lost(run, 2), 100, "impossible times")
    expect(all(k.end >= k.start for k in run.of("kernel")), True, "no kernel ends before it starts")


def case_unknown():
    run = scenario("burst", 1000, FAKE_CUPTI="unknown=10")
    expect(len(run.of("kernel")), 1000, "kernels")
    expect(lost(run, 3) > 100, True, "unknown kinds counted")


def case_late():
    run = scenario("sync", 10, FAKE_CUPTI="late=30")
    expect(len(run.of("kernel")), 10, "kernels that were reported 30 ms late, after the last call")
    run = scenario("burst", 500, FAKE_CUPTI="reorder")
    expect(len(run.of("kernel")), 500, "kernels delivered in reverse")
    check_joined(run)


def case_burst():
    run = scenario("burst", 20000)
    expect(len(run.of("kernel")), 20000, "kernels")
    expect(lost(run, 1), 0, "dropped")
    check_joined(run)


def case_no_privilege():
    run = scenario("sync", 5, FAKE_CUPTI="enable=35")
    expect(len(run.of("kernel")), 0, "kernels")
    expect(len(run.of("cudaLaunchKernel")), 5, "interposed launches, the one in which CUDA starts among them")
    expect(len(run.of("cudaDeviceSynchronize")), 5, "interposed synchronisations")
    expect(run.err.count("no permission to profile"), 1, "one line on stderr: " + run.err)


def needs_no_driver():
    if REAL_GPU:
        print("skipped: beside a real driver CUPTI is not tried in a copy of the process")
        sys.exit(77)


def case_crashing_cupti():
    """A CUPTI that crashes in its first call is left alone; the program, its child processes and exit are as ever."""
    needs_no_driver()
    for generation in (12, 13):
        run = scenario("sync", 5, FAKE_CUPTI="crash", generation=generation)
        expect(run.out.splitlines()[0], "kernels 5", "the program's output")
        expect(run.gpu_status, ["no device"], "status")
        expect(run.err.count("CUPTI crashes when it starts"), 1, "one line on stderr: " + run.err)
        expect((calls(run, "cudaLaunchKernel"), calls(run, "cudaDeviceSynchronize")), (5, 5), "interposed calls")
        expect({r.process for r in run.records}, {0}, "processes in the trace")


def case_real_cupti():
    """NVIDIA's CUPTI libraries, where Python packages brought them, on the fake driver: they cannot work with it, and one
    of them (13.2) crashes at its first call.  The program runs as without the tracer, which records its calls."""
    needs_no_driver()
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    found = []
    for python in PYTHONS:
        probe = subprocess.run([python, "-c", where], capture_output=True, text=True)
        found += glob.glob(os.path.join(probe.stdout.strip() or "/nonexistent", "**", "libcupti.so.1[23]"), recursive=True)
    if not found:
        print("skipped: no Python package of %s brings libcupti" % PYTHONS)
        sys.exit(77)
    for library in found:
        folder = tempfile.mkdtemp(prefix="opgap-cupti-")
        generation = int(library[-2:])
        os.symlink(library, os.path.join(folder, os.path.basename(library)))
        for name in ("libcuda.so.1", "libcudart.so.%d" % generation, "libnccl.so.2"):
            os.symlink(os.path.join(FAKES, "cuda%d" % generation, name), os.path.join(folder, name))
        run = scenario("sync", 5, generation=generation, LD_LIBRARY_PATH=folder)
        shutil.rmtree(folder)
        expect(run.out.splitlines()[0], "kernels 5", library + ": the program's output")
        expect(run.gpu_status[0] == "no device" or run.gpu_status[0].startswith("unavailable: CUPTI"), True,
               library + ": status: %s" % run.gpu_status)
        expect(run.err.count("no GPU activity: CUPTI"), 1, library + ": one line on stderr: " + run.err)
        expect((calls(run, "cudaLaunchKernel"), calls(run, "cudaDeviceSynchronize")), (5, 5), library + ": calls")
        print("        " + library.split("site-packages/")[-1] + ": " + run.err.strip())


def case_taken():
    run = scenario("sync", 5, FAKE_CUPTI="subscribe=39")
    expect(len(run.of("kernel")), 0, "kernels")
    expect(len(run.of("cudaLaunchKernel")), 5, "interposed launches")
    expect(run.err.count("another tool holds CUPTI"), 1, "one line on stderr: " + run.err)


def other_tool(*how):
    """CUPTI goes to the program's own session and comes back: 10 kernels before, 7 in it, 5 after.  The session finds
    the clock and the thread ids that it would have without the tracer."""
    run, what = Run([os.path.join(FAKES, "gpu_other_tool"), *how]), " ".join(how)
    expect(run.said("subscribe"), [0], what + ": the program's subscription")
    expect(run.said("seen"), [7], what + ": kernels that the program's session saw")
    expect(run.said("in_time"), [7], what + ": of these with times of the clock that the program expects")
    expect(run.said("own_calls"), run.said("calls"), what + ": calls with the thread as CUPTI names it by default")
    expect(len(run.of("kernel")), 15, what + ": kernels in the trace")
    expect(len(run.of("cudaLaunchKernel")), 7, what + ": interposed launches meanwhile")
    expect(run.err.count("another user of CUPTI"), 1, what + ": one line on stderr: " + run.err)
    check_joined(run)
    return run


def calls(run, name):
    """How often a CUDA call stands in the trace, whoever recorded it."""
    return len(run.of(name)) + sum(r.fields["name"] == name for r in run.of("cuda api"))


def case_once():
    """Each call once, in every order: CUDA starts inside the first call, soon or when the tracer has run for a while;
    CUPTI reports that call or not, at once or late, or is not allowed; another user of CUPTI begins and ends while a
    thread waits for the device."""
    for name, generation in (("sync", 11), ("sync", 12), ("late", 12)):
        for cupti in ("", "deaf=1", "late=300", "reorder,deaf=1", "enable=35", "subscribe=39"):
            run = scenario(name, 5, FAKE_CUPTI=cupti, generation=generation)
            expect((calls(run, "cudaLaunchKernel"), calls(run, "cudaDeviceSynchronize")),
                   (5, 5), "launches, synchronisations of %s with %r" % (name, cupti))
    for order in ({"FAKE_START_NS": "20000000"}, {"FAKE_HOLD_NS": "400000000"},
                  {"FAKE_START_NS": "20000000", "FAKE_HOLD_NS": "400000000", "FAKE_CUPTI": "reorder"}):
        run = scenario("late", 5, **order)  # the report of the first call begins late, and is read before the call ends
        expect((calls(run, "cudaLaunchKernel"), calls(run, "cudaDeviceSynchronize")), (5, 5), "calls with %s" % order)
    run = Run([os.path.join(FAKES, "gpu_other_tool"), "blocked"])
    expect((calls(run, "cudaLaunchKernel"), calls(run, "cudaDeviceSynchronize"), calls(run, "cudaStreamSynchronize")),
           (10 + 1 + 7 + 1 + 5, 3, 2), "launches, synchronisations across another user's session")
    forked = Run([os.path.join(FAKES, "gpu_other_tool"), "blocked-fork"])
    expect((calls(forked, "cudaStreamSynchronize"), {r.process for r in forked.of("cuda api")}), (2, {0}),
           "a child that is forked while a call waits for CUPTI's record of it does not record it, too")
    expect(forked.report["processes"][1]["ended"] if len(forked.report["processes"]) == 2 else None, "clean", "the child")

    def by_thread(name):
        return {r.number("thread") if r.event == "cuda api" else r.tid: r for r in run.records
                if name in (r.event, r.fields.get("name"))}
    launches = by_thread("cudaLaunchKernel")
    waits = sorted(by_thread("cudaStreamSynchronize").items(), key=lambda wait: wait[1].start)
    expect([wait.end - launches[thread].start >= ns for (thread, wait), ns in zip(waits, (500000000, 1700000000))],
           [True, True], "they last until the device is done")


def case_external():
    """Ids that the program pushes: with the call that they belong to, innermost first, and only when asked for."""
    run = Run([os.path.join(FAKES, "gpu_other_tool"), "external"], OPGAP_GPU="external")
    expect(run.said("popped"), [18], "ids that the program got back")
    launches = [r for r in run.of("cuda api") if r.fields["name"] == "cudaLaunchKernel"]
    ids = {}
    for r in run.of("external correlation"):
        ids.setdefault(r.number("correlation"), {})[r.status] = r.number("external_id")
    seen = [ids.get(launch.status, {}) for launch in sorted(launches, key=lambda r: r.start)]
    expect(seen, [{**given} for i in range(6)
                  for given in ({3: 100 + i}, {3: 200 + i, 5: (1 << 40) + i}, {3: 100 + i}, {})], "ids of the launches")
    starts = {launch.status: launch.start for launch in launches}
    expect(set(ids) - set(starts), set(), "ids of calls that are left out, or of none")
    expect({r.start - starts[r.number("correlation")] for r in run.of("external correlation")}, {0},
           "an id stands at the start of its call")
    expect(lost(run, 3), 0, "unknown kinds")
    check_joined(run)
    for setting in ("graphs", "nodes,driver"):
        run = Run([os.path.join(FAKES, "gpu_other_tool"), "external"], OPGAP_GPU=setting)
        expect((len(run.of("kernel")), len(run.of("external correlation"))), (24, 0), "not asked for")
    late = Run([os.path.join(FAKES, "gpu_other_tool"), "external"], OPGAP_GPU="external", FAKE_CUPTI="reorder")
    expect({(r.number("correlation"), r.status, r.number("external_id")) for r in late.of("external correlation")
            if r.number("correlation") in ids},
           {(c, kind, i) for c, kinds in ids.items() for kind, i in kinds.items()}, "delivered in reverse: the same ids")


def case_other_tool():
    for how in ("unsubscribe", "finalize", "keep", "clock"):
        other_tool(how)


def case_other_tool_by_hand():
    """The same with CUPTI's functions from dlopen and dlsym; functions that are not there are not found."""
    for how in ("unsubscribe", "keep", "clock"):
        run = other_tool(how, "by-hand")
        expect((run.said("missing"), run.said("invented")), ([0], [0]), "functions missing, and found where they are not")
    shared_cupti("share", 0, "by-hand")


def shared_cupti(how, graphs, *by_hand):
    run = Run([os.path.join(FAKES, "gpu_other_tool_13"), how, *by_hand], 13)
    expect(run.said("subscribe"), [0], how + ": the program's subscription")
    expect(run.said("seen"), [7 if graphs else 7 + 8], how + ": kernels that the program's session saw")
    expect(run.said("graphs"), [graphs], how + ": whole graphs that it saw")
    expect(run.said("in_time"), run.said("seen"), how + ": all at times of its clock")
    expect(run.said("own_calls"), run.said("calls"), how + ": threads as CUPTI names them by default")
    spins = [k for k in run.of("kernel") if k.fields["name"] == "_Z4spiny"]
    wholes = [k for k in run.of("kernel") if k.fields["name"].startswith("CUDA graph")]
    expect((len(spins), len(wholes)), (22 if graphs else 22 + 8, graphs), how + ": kernels and graphs in the trace")
    expect(len(run.of("cudaLaunchKernel")), 3, how + ": interposed launches before the program collects")
    check_joined(run)
    expect(run.gpu_status, ["ok"], how + ": status")
    return run


def case_shared_cupti():
    """Beside a user of the interface for several: 10 kernels before, 3 while it subscribes, 7 and 2 graphs of 4 in its
    session, 5 after.  opgap joins when the user collects; whether graphs come whole is the user's choice."""
    tool = os.path.join(FAKES, "gpu_other_tool_13")
    for how, graphs in (("share", 0), ("share-graphs", 2)):
        run = shared_cupti(how, graphs)
    plain = Run([tool, "share"], 13, traced=False)
    expect((plain.said("seen"), plain.said("calls")), ([15], run.said("calls")), "the program's session, untraced")
    run = Run([tool, "share-first"], 13)
    expect(run.said("seen"), [15], "the user that comes before CUDA starts")
    expect(len(run.of("kernel")), 7 + 8 + 5, "kernels since it collects")
    expect(len(run.of("cudaLaunchKernel")), 13, "interposed launches before")


def case_running():
    run = scenario("running", 10)
    expect(len(run.of("kernel")), 10, "kernels in flight at exit, waited for")
    run = scenario("running", 200)
    expect(len(run.of("kernel")) + lost(run, 2), 200, "kernels, finished or counted as without an end")
    expect(len(run.of("kernel")) > 20, True, "kernels that ended")


def case_killed():
    run = scenario("wait", 10, exit_status=-signal.SIGKILL, kill_at=(signal.SIGKILL, 10))
    expect(len(run.of("kernel")), 10, "kernels in the trace of a killed process")


def case_terminated():
    run = scenario("wait", 10, exit_status=-signal.SIGTERM, kill_at=(signal.SIGTERM, 10))
    expect(len(run.of("kernel")), 10, "kernels in the trace of a process that SIGTERM ended")


def case_schedule():
    """After the window CUPTI has nothing to do: it makes no records, and the calls are not interposed instead."""
    run = scenario("training", 80, PLANT_SLEEP="30000", OPGAP_SCHEDULE="wait=10,warmup=0,active=20,repeat=1",
                   FAKE_CUPTI="statistics")
    steps = [r for r in run.of("range") if r.fields["name"] == "backward"]
    kernels = run.of("kernel")
    expect(len(steps), 20, "steps of the window")
    inside = [k for k in kernels if steps[0].start <= k.start <= steps[-1].end]
    expect(len(inside) >= 5 * 18, True, "kernels of the window: %d" % len(inside))
    made = int(run.err.split("fake CUPTI: ")[1].split()[0])
    # 80 steps of about 16 records; turning on and off takes a few steps on a busy machine
    expect(made < 16 * 50, True, "records that CUPTI made: %d" % made)
    expect(len(run.of("cudaLaunchKernel")) < 5 * 20, True, "interposed launches: %d" % len(run.of("cudaLaunchKernel")))
    expect(len(run.of("gpu device")) <= 1, True, "devices")


class Told:
    """A program that runs as many kernels as it is told, traced with recording off at first."""

    def __init__(self, folder):
        env = {name: value for name, value in os.environ.items() if not name.startswith("OPGAP_")}
        self.trace = os.path.join(folder, "run.opgap")
        env.update(LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"), LD_PRELOAD=LIBOPGAP, OPGAP_OUT=self.trace,
                   OPGAP_CONTROL="idle")
        self.program = subprocess.Popen([os.path.join(FAKES, "gpu_scenario"), "told"], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def kernels(self, count):
        """Runs so many; when the last one was over."""
        self.program.stdin.write("%d\n" % count)
        self.program.stdin.flush()
        return int(self.program.stdout.readline().split()[1])

    def switch(self, command):
        done = subprocess.run([OPGAP, command, self.trace], capture_output=True, text=True, timeout=60)
        expect(done.returncode, 0, "opgap %s: %s" % (command, done.stderr))

    def seen(self):
        """The kernels in the trace, as far as it is written."""
        dump = subprocess.run([DUMP, self.trace], capture_output=True, text=True, timeout=60)
        expect(dump.returncode, 0, "reading the trace: " + dump.stderr)
        records = [Record(line) for line in dump.stdout.splitlines() if not line.startswith("#")]
        return sorted(r.start for r in records if r.event == "kernel")


def case_control():
    """opgap start and stop switch CUPTI on and off; each kernel in between is recorded, and none long after a stop."""
    with tempfile.TemporaryDirectory(prefix="opgap-gpu-") as folder:
        told = Told(folder)
        idle = told.kernels(20)
        told.switch("start")
        deadline, on = time.monotonic() + 50, told.kernels(1)
        while not told.seen() and time.monotonic() < deadline:  # the helper turns CUPTI on when it looks
            on = told.kernels(1)
            time.sleep(0.05)
        first = on  # CUPTI is on: what comes now is recorded
        last = told.kernels(20)
        told.switch("stop")
        after, deadline = [last], time.monotonic() + 50
        while after and time.monotonic() < deadline:  # nor off before
            quiet = told.kernels(1)
            off = told.kernels(20)
            time.sleep(0.5)  # what CUPTI made is in the trace after a tenth of that
            after = [k for k in told.seen() if quiet < k <= off]
        expect(after, [], "kernels long after the stop")
        told.program.stdin.close()
        expect(told.program.wait(timeout=60), 0, "exit status: " + told.program.stderr.read())
        kernels = told.seen()
        expect([k for k in kernels if k < idle], [], "kernels before the start")
        expect(len([k for k in kernels if first < k <= last]), 20, "kernels between start and stop")
        report = json.loads(subprocess.run([OPGAP, "report", "--format", "json", told.trace], capture_output=True,
                                           text=True, timeout=60).stdout)
        notices = [n for n in report["trace"]["notices"] if n.startswith("recording was off for ")]
        expect(len(notices), 1, "notices of the time off: %r" % report["trace"]["notices"])
        device = report["gpu"][0]
        expect(device["kernels"], len(kernels), "kernels of the device")
        expect(device["span_ns"] <= kernels[-1] - kernels[0] + 1100000, True, "span of the device")


def case_fork():
    run = scenario("fork", 4, 1000)
    kernels = run.of("kernel")
    expect(len(kernels), 4, "kernels of the child")
    expect(len({k.process for k in kernels}), 1, "processes with kernels")


def case_workers():
    run = scenario("workers", 3)
    kernels = run.of("kernel")
    expect(len(kernels), 7, "kernels")
    expect(len({k.process for k in kernels}), 1, "processes with kernels: forked children have none")
    expect(len(scenario("leave", 6).of("kernel")), 6, "kernels of a program that leaves by _exit")


def case_devices():
    run = scenario("sync", 3, FAKE_GPU_DEVICES="0")
    expect(len(run.of("kernel")), 0, "kernels without a device")
    run = scenario("sync", 3, FAKE_GPU_DEVICES="4")
    expect(len(run.of("gpu device")), 4, "devices")
    run = scenario("devices", 10, FAKE_GPU_DEVICES="2")
    expect([(g["device"], g["kernels"], g["kernel_ns"]) for g in run.report["gpu"]],
           [(0, 15, 15000000), (1, 5, 5000000)], "kernels of each device")
    expect([(c["direction"], c["calls"], c["bytes"]) for c in run.report["gpu_copies"]], [("PtoP", 10, 10 << 20)],
           "copies from device to device")
    expect(len(run.report["gpu_use"]), 2, "use of each device")


def case_off():
    run = scenario("sync", 3, OPGAP_HOOKS="-cuda")
    expect(len(run.of("kernel")) + len(run.of("cuda api")) + len(run.of("cudaLaunchKernel")), 0, "CUDA records")


def case_nccl():
    run = scenario("allreduce", 5)
    collectives = [k for k in run.of("kernel") if "AllReduce" in k.fields["name"]]
    expect(len(collectives), 5, "collective kernels")
    calls = run.of("ncclAllReduce")
    expect([c.number("value") for c in calls], [1 << 20] * 5, "bytes of the calls")
    expect(len(run.of("ncclCommInitAll")), 1, "communicators")
    check_joined(run)


def case_memory():
    """Allocations and frees, also stream-ordered ones; pools made, trimmed, destroyed; the same with every CUPTI."""
    for generation in (11, 12, 13):
        run = scenario("pools", generation=generation)
        memory = [(m.number("operation"), m.number("kind"), m.number("bytes")) for m in run.of("gpu memory")]
        expect(memory, [(1, 3, 1 << 20), (1, 3, 3 << 20), (2, 3, 3 << 20), (2, 3, 1 << 20)], "allocations, frees")
        pools = [(p.number("operation"), p.number("type"), p.number("keep_bytes"), p.number("used_bytes"))
                 for p in run.of("gpu memory pool")]
        used = 0 if generation == 11 else 3 << 20
        expect(pools, [(1, 1, 0, 0), (3, 1, 1 << 16, used), (2, 1, 0, used)], "pool made, trimmed, destroyed")
        expect(len({p.number("address") for p in run.of("gpu memory pool")}), 1, "pools")
        expect(lost(run, 3), 0, "unknown kinds")


def case_state():
    """NVML's samples: clocks, power, memory, what holds the clocks down, the driver; unknown is null."""
    run = scenario("sleep", 150, 10000)
    state = run.report["gpu"][0]["state"]
    samples = state.pop("samples")
    seconds = run.report["trace"]["duration_ns"] // 10 ** 9
    expect(1 <= samples <= seconds + 2, True, "about one sample a second: %d in %d" % (samples, seconds))
    expect(len(run.of("gpu state")), samples, "records")
    expect(set(state.pop("held_down_by").values()), {0}, "brakes")
    expect(state, {"sm_mhz": 1410, "sm_mhz_most": 1410, "memory_mhz": 1593, "milliwatts": 250000,
                   "milliwatts_most": 400000, "celsius": 60, "used_bytes": 12 << 30, "total_bytes": 80 << 30,
                   "held_down": 0, "driver": "580.65.06"}, "state")
    expect(any("clocks held down" in e for e in run.report["verdict"]["evidence"]), False, "no evidence of brakes")
    slow = scenario("sleep", 150, 10000, FAKE_NVML="mhz=900,throttle=36", FAKE_GPU_DEVICES="2")
    state = slow.report["gpu"][0]["state"]
    expect((state["sm_mhz"], state["held_down"] == state["samples"]), (900, True), "held down all the time")
    expect({name for name, count in state["held_down_by"].items() if count > 0},
           {"power cap", "temperature (by the driver)"}, "by what")
    expect([e for e in slow.report["verdict"]["evidence"] if "GPU 0 had its clocks held down in %d of %d samples" %
            (state["samples"], state["samples"]) in e and "900 of 1410 MHz" in e] != [], True, "evidence: %s" % slow.report["verdict"]["evidence"])
    expect({r.status for r in slow.of("gpu state")}, {0, 1}, "both devices are sampled")
    blind = scenario("sleep", 150, 10000, FAKE_NVML="blind").report["gpu"][0]["state"]
    expect((blind["milliwatts"], blind["celsius"], blind["held_down"], blind["held_down_by"]["power cap"],
            blind["sm_mhz"]), (None, None, None, None, 1410), "what the device does not tell")
    for setting in ({"FAKE_NVML": "init=9"}, {"OPGAP_HOOKS": "-cuda"}):
        run = scenario("sleep", 30, 10000, **setting)
        expect(len(run.of("gpu state")), 0, "samples with %s" % setting)
        expect([g["state"] for g in run.report["gpu"]], [None] * len(run.report["gpu"]), "state with %s" % setting)


def case_state_stuck():
    """A call of NVML's that does not come back in time is left alone at exit, and nothing is asked behind it."""
    run = scenario("sleep", 200, 10000, FAKE_NVML="stuck")
    expect(run.err, "fake NVML: torn down amid a call\n", "stderr")  # nothing of "called after teardown"
    expect(len(run.of("kernel")), 200, "kernels")


def case_sampled_use():
    """CUPTI is not allowed, or not there: how much the devices do is NVML's to tell, and what it cannot tell is null."""
    for cupti, why in (("enable=35", "unavailable: no permission to profile the GPU (NVreg_RestrictProfilingToAdminUsers)"),
                       ("subscribe=39", "unavailable: another tool holds CUPTI")):
        run = scenario("sleep", 50, 20000, FAKE_CUPTI=cupti, FAKE_NVML="use=62", FAKE_GPU_DEVICES="2")
        expect(run.report["gpu_status"], why, "status")
        expect([(g["device"], g["name"], g["sampled_utilisation"], g["utilisation"], g["busy_ns"], g["kernels"],
                 g["h2d_bytes"]) for g in run.report["gpu"]],
               [(i, "Fake GPU 80GB", 0.62, None, None, None, None) for i in (0, 1)], "use of the devices")
        samples = run.report["gpu"][0]["state"]["samples"]
        expect(1 <= samples <= 5, True, "about one sample a second: %d" % samples)
        expect({(r.status, r.number("busy_percent"), r.number("memory_percent")) for r in run.of("gpu use")},
               {(0, 62, 31), (1, 62, 31)}, "records")
        expect("~62.0 % of the time" in run.text, True, "the report's text: " + run.text)
    run = scenario("sleep", 50, 20000)
    expect(([g["sampled_utilisation"] for g in run.report["gpu"]], len(run.of("gpu use"))), ([None], 0), "with CUPTI")
    for setting in ({"FAKE_NVML": "init=9"}, {"OPGAP_HOOKS": "-cuda"}, {"FAKE_GPU_DEVICES": "0"}):
        run = scenario("sleep", 30, 10000, FAKE_CUPTI="enable=35", **setting)
        expect((run.report["gpu"], len(run.of("gpu use"))), ([], 0), "devices with %s" % setting)
    run = scenario("sleep", 50, 20000, FAKE_CUPTI="enable=35", FAKE_NVML="blind")
    expect([(g["sampled_utilisation"], g["state"]["sm_mhz"], g["busy_ns"]) for g in run.report["gpu"]],
           [(None, 1410, None)], "NVML is blind")


def case_state_beside():
    """Another user holds CUPTI: the state of the devices is sampled all the same, about once a second."""
    run = Run([os.path.join(FAKES, "gpu_other_tool"), "long"])
    launches = sorted(r.start for r in run.of("cudaLaunchKernel"))
    again = min(k.start for k in run.of("kernel") if k.start > launches[-1])  # CUPTI is opgap's again
    samples = [r.start for r in run.of("gpu state") if launches[-1] < r.start < again]
    most = (again - launches[-1]) // 10 ** 9 + 1
    expect(2 <= len(samples) <= most, True, "samples meanwhile: %d, at most %d" % (len(samples), most))


def case_nested():
    """The driver's calls inside the runtime's: reported by CUPTI for launches, and for all with OPGAP_GPU=driver.  The
    call is the runtime's, and its work and its wait are counted once."""
    figures = []
    for cupti, gpu in (("", "graphs"), ("nested", "graphs"), ("nested", "driver")):
        run = scenario("streams", 20, FAKE_CUPTI=cupti, OPGAP_GPU=gpu)
        report = run.report
        figures.append(([(f["rule"], f["count"], f["bytes"]) for f in report["gpu_findings"] if f["rule"] not in ("gpu_gaps", "gpu_time_util")],
                        report["launches"]["calls"], report["launches"]["kernels"], [k["calls"] for k in report["kernels"]]))
        expect([r.fields["name"] for r in run.of("cuda api")].count("cuLaunchKernel"), 40 if cupti else 0, "driver launches")
        expect([r.fields["name"] for r in run.of("cuda api")].count("cuStreamSynchronize"), 2 if gpu == "driver" else 0,
               "driver synchronisations")
    expect(figures[1:], [figures[0]] * 2, "findings, launches and kernels as without them")
    run = scenario("sync", 20, FAKE_LAUNCH_NS="2000000", FAKE_CUPTI="nested", OPGAP_GPU="driver")
    details = {row["detail"] for row in run.report["idle_gaps"]["gpu_by_cause"] if row["cause"] == "synchronisation"}
    expect(details, {"in cudaDeviceSynchronize"}, "what the gaps are charged to")


def case_records():
    """What the settings cost, in records that CUPTI makes: exact, because time on a fake says nothing."""
    def made(command, gpu, **settings):
        run = Run(command, OPGAP_GPU=gpu, FAKE_CUPTI="statistics" + settings.pop("cupti", ""))
        return int(run.err.split("fake CUPTI: ")[1].split()[0])
    program = os.path.join(FAKES, "gpu_scenario")
    burst, graph, driver = ([program, name, "100"] for name in ("burst", "graph", "driver"))
    tool = [os.path.join(FAKES, "gpu_other_tool"), "external"]
    # the device; a launch and a kernel each; two synchronisations, each a call and a record
    expect(made(burst, "graphs"), 1 + 2 * 100 + 2 * 2, "a launch: its call and its kernel")
    expect(made(burst, "nodes"), 1 + 2 * 100 + 2 * 2, "nodes adds nothing to launches without graphs")
    expect(made(burst, "graphs", cupti=",nested"), 1 + 3 * 100 + 2 * 2, "the driver's launch inside, where CUPTI tells it")
    expect(made(burst, "driver", cupti=",nested"), 1 + 3 * 100 + 2 * 3, "driver: every driver call inside")
    expect(made(graph, "nodes") - made(graph, "graphs"), 100 * (4 - 1), "nodes: a record a kernel instead of one a graph")
    expect(made(driver, "driver") - made(driver, "graphs"), 100, "driver: calls that are no launches")
    expect(made(tool, "external") - made(tool, "graphs"), 6 * (1 + 1 + 2 + 1), "external: one a call and kind of id")
    expect(made(tool, "all"), made(tool, "external"), "all, without graphs and driver calls")


def has_cpu_torch(python):
    """Says why not."""
    find = ("import importlib.util, os, runpy; spec = importlib.util.find_spec('torch'); "
            "print(runpy.run_path(os.path.join(spec.submodule_search_locations[0], 'version.py'))['cuda'])")
    probe = subprocess.run([python, "-c", find], capture_output=True, text=True)
    if probe.returncode == 0 and probe.stdout.strip() == "None":
        return True
    print("left out: %s (%s)" % (python, "it has no torch" if probe.returncode != 0 else
                                 "its torch brings the real CUPTI, which does not work with the fake driver"))
    return False


def case_where():
    """Nsight Systems' rules name the op and the Python line that made the calls."""
    script = os.path.join(os.path.dirname(__file__), "where.py")
    pythons = [python for python in PYTHONS if has_cpu_torch(python)]
    if not pythons:
        print("skipped: no Python with a torch that is no CUDA build")
        sys.exit(77)
    with open(script) as file:
        lines = {line.split("# line: ")[1].strip(): number for number, line in enumerate(file, 1) if "# line: " in line}
    for python in pythons:
        run = Run([python, script], OPGAP_STACKS="python")
        found = {(f["rule"], f["op"]): (f["count"], f["source_location"]) for f in run.report["gpu_findings"]}
        for rule, op, count, line, function in (("cuda_memcpy_async", "upload", 3, "upload", "upload"),
                                                ("cuda_memcpy_sync", "download", 3, "download", "download"),
                                                ("cuda_memset_sync", "clear", 3, "clear", "clear"),
                                                ("cuda_api_sync", "wait", 3, "wait", "step"),
                                                ("gpu_gaps", "after the gap", 1, "gap", "<module>")):
            seen = found.get((rule, op), (0, None))
            expect(seen, (count, "%s:%d %s" % (script, lines[line], function)), "%s in %s" % (rule, op))


def case_overhead():
    run = scenario("burst", 1000, FAKE_CUPTI="overhead=10")
    seen = run.of("gpu overhead")
    expect([(len(seen), {o.status for o in seen}, {o.end - o.start for o in seen})], [(100, {5 << 16}, {10000})],
           "CUPTI's own overhead: lazy loading")
    expect(len(run.of("kernel")), 1000, "kernels")


def case_gap_sleep():
    run = scenario("sleep", 20, 5000)
    details = check_gaps(run, "sleep", run.said("gap_ns")[0])
    expect(any(cause == "sleep" and "nanosleep" in detail for cause, detail in details), True, "which: %s" % details)


def case_gap_lock():
    run = scenario("lock", 20, 10000)
    details = check_gaps(run, "lock", run.said("gap_ns")[0])
    expect(any(cause == "lock" and "thread holder" in detail and "nanosleep" in detail for cause, detail in details),
           True, "who held the lock: %s" % details)


def case_gap_data():
    run = scenario("data", 20, 10000)
    check_gaps(run, "data loading", run.said("gap_ns")[0])


def case_gap_alloc():
    run = scenario("alloc", 20, FAKE_MALLOC_NS="5000000")
    details = check_gaps(run, "allocation", run.said("gap_ns")[0])
    expect(("allocation", "in cudaMalloc") in details, True, "which call: %s" % details)


def check_failures(run, sizes):
    """The second call for 2 MiB had them: no failure.  Neither of the two for 8 MiB had."""
    memory = run.report["memory"]
    expect(memory["device_retries"], 1, "calls that had memory when they were made again")
    expect([(f["call"], f["error"], f["bytes"]) for f in memory["failures"]], [("cudaMalloc", 2, b) for b in sizes],
           "failed allocations")
    first, second = ([line.split(",")[0] for line in f["last"]] for f in memory["failures"])
    expect("1 calls for device memory failed and had it" in " ".join(run.text.split()), True, run.text)
    return first, second


def case_oom():
    check_failures(scenario("oom", 3, FAKE_GPU_MEMORY=str(4 << 20)), [None, None])
    beside = scenario("oom", 3, FAKE_GPU_MEMORY=str(4 << 20), FAKE_CUPTI="subscribe=39")
    first, second = check_failures(beside, [8 << 20, 8 << 20])
    expect(first[:2], ["cudaDeviceSynchronize", "cudaLaunchKernel"], "before the first: %s" % first)
    expect(second[:2], ["cudaDeviceSynchronize", "cudaMalloc"], "before the second: %s" % second)
    expect(scenario("oom", 3).report["memory"]["device_retries"], 0, "with memory enough")


def case_gap_sync():
    """A synchronisation after each kernel bares the launch latency, here made 2 ms."""
    run = scenario("sync", 20, FAKE_LAUNCH_NS="2000000")
    kernels = sorted(run.of("kernel"), key=lambda k: k.start)
    bared = sum(b.start - a.end for a, b in zip(kernels, kernels[1:]))
    expect(bared >= 19 * 2000000, True, "the latency shows")
    check_gaps(run, "synchronisation", bared)


def case_gap_compute():
    run = scenario("compute", 20, 5000)
    rows = run.report["idle_gaps"]["gpu_by_cause"]
    own = sum(row["ns"] for row in rows if row["detail"] == "own code, no call")
    without_cpu = sum(row["ns"] for row in rows if row["cause"] in ("run queue", "cgroup throttling"))
    truth = run.said("gap_ns")[0]
    expect_within(with_waits_for_cpu(own, without_cpu, truth), truth, truth // 100, "time of the program's own code")


def case_gap_allreduce():
    """A collective that nothing hides keeps the device busy: exposed communication, no gap.  It takes long, so that what
    a busy machine adds between the steps does not decide."""
    run = scenario("allreduce", 20, FAKE_NCCL_NS="50000000")
    gpu = run.report["gpu"][0]
    expect(gpu["communication_ns"], 20 * 50000000, "collectives")
    expect(gpu["exposed_communication_ns"], 20 * 50000000, "exposed collectives")
    expect(gpu["busy_ns"], 20 * (50000000 + 1000000), "busy")
    expect(run.report["verdict"]["bound_by"], "communication", "verdict")


def case_gap_between():
    """Each gap has its step, and what ran before and after it, with their ops: here a sleep after each step's loss."""
    run = scenario("training", 10, PLANT_SLEEP="20000")
    gaps = sorted((g for g in run.report["idle_gaps"]["gpu"] if g["duration_ns"] >= 20000000), key=lambda g: g["start_ns"])
    expect([(g["step"], g["previous"], g["op_before"], g["next"], g["op_after"]) for g in gaps],
           [(i, "Memcpy DtoH", "loss", "Memcpy HtoD", "load") for i in range(9)], "gaps of 20 ms and more")
    threads = [g["step"] for g in run.report["idle_gaps"]["threads"] if g["duration_ns"] >= 20000000]
    expect(sorted(threads), list(range(10)), "steps of the thread's naps")


def case_gap_none():
    """Kernels queued behind each other leave no gap, however slow the host."""
    run = scenario("queued", 20)
    expect(len(run.of("kernel")), 20, "kernels")
    expect(run.report["idle_gaps"]["gpu_count"], 0, "gaps")


def case_tables():
    run = scenario("streams", 20)
    report = run.report
    expect([(k["name"], k["calls"], k["total_ns"], k["min_ns"], k["max_ns"], k["grid"], k["block"], k["one_shape"])
            for k in report["kernels"]],
           [("spin(unsigned long long)", 40, 30000000, 500000, 1000000, [4, 2, 1], [64, 1, 1], True)], "kernels")
    # two warps a block and at most 32 blocks of 64 possible warps, whatever registers and shared memory allow
    expect([k["occupancy"] for k in report["kernels"]], [1.0], "theoretical occupancy")
    copies = {(c["direction"], c["source"], c["target"], c["async"]): (c["calls"], c["bytes"], c["total_ns"])
              for c in report["gpu_copies"]}
    ns = {per_second: lambda size, rate=per_second: 2000 + size * 1000000000 // rate
          for per_second in (25000000000, 6000000000)}
    expect(copies, {
        ("HtoD", "pinned", "device", True): (20, 20 << 20, 20 * ns[25000000000](1 << 20)),
        ("HtoD", "pageable", "device", True): (20, 20 << 19, 20 * ns[6000000000](1 << 19)),
        ("DtoH", "device", "pageable", False): (20, 20 << 18, 20 * ns[6000000000](1 << 18))}, "copies")
    findings = {f["rule"]: (f["count"], f["bytes"]) for f in report["gpu_findings"]}
    expect(findings["cuda_memcpy_async"], (20, 20 << 19), "copies of pageable memory")
    expect(findings["cuda_memcpy_sync"], (20, 20 << 18), "blocking copies")
    expect(findings["cuda_api_sync"][0], 2, "blocking synchronisations")
    expect((report["launches"]["calls"], report["launches"]["kernels"]), (40, 40), "launches")
    gpu = report["gpu"][0]
    use = report["gpu_use"][0]
    expect_within(sum(use["share"]) * use["chunk_ns"], gpu["busy_ns"], gpu["busy_ns"] // 100, "use over time")


def case_plan():
    """Every figure of a time line that is known to the microsecond: tests/fakes/plan.c has it, in us, line by line."""
    us = 1000
    for generation in (12, 13):
        run = Run([os.path.join(FAKES, "gpu_plan_%d" % generation), "4"], generation, FAKE_GPU_DEVICES="2")
        report = run.report
        # device 0: A [5, 108) covers B, then 10, 20 + 4, 40, 20 and two of 100; copies of 10, 18, 22, 4, 5, 4, 4, 10; sets
        # of 3; collectives [75, 105), hidden, and [595, 625), hidden from 615 on
        device, other = report["gpu"]
        seen = {key: device[key + "_ns"] // us for key in ("span", "busy", "kernel", "memcpy", "memset", "communication",
                                                          "exposed_communication")}
        expect(seen, {"span": 1000884 - 5, "busy": 503, "kernel": 397, "memcpy": 77, "memset": 9, "communication": 60,
                      "exposed_communication": 20}, "times of device 0 in us")
        expect({device[key + "_ns"] % us for key in seen}, {0}, "whole microseconds")
        expect([device[key] for key in ("kernels", "memcpys", "memsets", "h2d_bytes", "d2h_bytes", "d2d_bytes")],
               [12, 8, 3, 421000, 320000, 1100000], "work of device 0")
        expect([other[key] for key in ("span_ns", "busy_ns", "kernels", "utilisation")], [3000 * us, 2850 * us, 4, 0.95],
               "device 1")
        expect(abs(device["utilisation"] - 503 / 1000879) < 1e-12, True, "use of device 0")
        expect([(k["name"].split("(")[0], k["calls"], k["total_ns"], k["min_ns"], k["max_ns"]) for k in report["kernels"]],
               [("spin", 14, 3307 * us, 3 * us, 2600 * us),
                ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2, 60 * us, 30 * us, 30 * us)], "kernels")
        copies = {(c["direction"], c["source"], c["target"], c["async"]): (c["calls"], c["bytes"], c["total_ns"] // us)
                  for c in report["gpu_copies"]}
        expect(copies, {("HtoD", "pinned", "device", True): (1, 200000, 10),
                        ("HtoD", "pageable", "device", True): (1, 96000, 18),
                        ("HtoD", "pinned", "device", False): (2, 125000, 9),
                        ("DtoH", "device", "pageable", False): (1, 120000, 22),
                        ("DtoH", "device", "pinned", True): (1, 200000, 10),
                        ("DtoD", "device", "device", False): (1, 1000000, 4),
                        ("PtoP", "device", "device", True): (1, 100000, 4)}, "copies")
        rates = [(line.split()[:4], line.split()[-1]) for line in run.text.splitlines()
                 if line.split()[:1] and line.split()[0] in ("HtoD", "DtoH", "DtoD", "PtoP")]
        expect(sorted((*words, rate) for words, rate in rates),
               [("DtoD", "device", "device", "no", "250.00"), ("DtoH", "device", "pageable", "no", "5.45"),
                ("DtoH", "device", "pinned", "yes", "20.00"), ("HtoD", "pageable", "device", "yes", "5.33"),
                ("HtoD", "pinned", "device", "no", "13.89"), ("HtoD", "pinned", "device", "yes", "20.00"),
                ("PtoP", "device", "device", "yes", "25.00")], "GB/s")
        # from the end of each call to its kernel: 1, 1, 51, 71, 1, 54, 46, 110, 100, 1, 1, 1, 1, 1; the last two start before
        expect(report["launches"], {"calls": 16, "kernels": 16, "short_kernels": 1, "call_ns": (14 * 4 + 50 + 51) * us,
                                    "queue_ns": 440 * us, "queue_max_ns": 110 * us, "slow_calls": 1, "slow_starts": 1,
                                    "unlaunched": 0, "unlaunched_ns": 0},
               "launches")
        expect("4.0 launches a step" in run.text, True, "launches a step: " + run.text)
        # of device 0: 12 us launched before; 70 us the same, but 30 us or more; all else launched later.  Of device 1: 150
        gaps = report["idle_gaps"]
        expect([gaps[key] // us for key in ("kernel_wait_ns", "other_ns", "host_wait_ns")],
               [12, 70, 1000376 - 12 - 70 + 150], "HTA's classes of idle time in us")
        expect([gaps[key] % us for key in ("kernel_wait_ns", "other_ns", "host_wait_ns")], [0] * 3, "whole microseconds")
        findings = {f["rule"]: (f["count"], f["time_ns"], f["bytes"]) for f in report["gpu_findings"]}
        expect(len(findings), len(report["gpu_findings"]), "rows of findings")
        thirtieth = 1000879000 // 30
        expect(findings, {"cuda_memcpy_async": (1, 18 * us, 96000),              # not of pinned memory
                          "cuda_memcpy_sync": (2, (31 + 14) * us, 195000),       # not 50,000 bytes down, not within a device
                          "cuda_memset_sync": (1, 12 * us, 500000),              # not of device memory
                          "cuda_api_sync": (3, (39 + 4 + 48) * us, 0),           # not of an event
                          "gpu_gaps": (1, 500000 * us, 0),                       # not of 499.999 ms
                          "gpu_time_util": (31, 30 * thirtieth + 100 * us, 0)},  # of device 1 only that of 49 %, not of 50 %
               "Nsight Systems' rules: times, ns, bytes")
        use, short = report["gpu_use"]
        expect(short["chunk_ns"], 100 * us, "a thirtieth of device 1")
        expect([round(share, 9) for share in short["share"]], [1, 0.51, 0.5, 0.49] + [1] * 26, "use of device 1 in 30 parts")
        expect(use["chunk_ns"], thirtieth, "a thirtieth of device 0")
        expect([i for i, share in enumerate(use["share"]) if share > 0][:1], [0], "the first thirtieth with work")
        expect(abs(use["share"][0] * 1000879 / 30 - 303) < 1e-6, True, "us of work in it: %r" % use["share"][0])
        expect(abs(sum(use["share"]) * 1000879 / 30 - 503) < 1e-6, True, "us of work in all of them")


def case_joined():
    """Kernels belong to the innermost range that launched them, on whichever thread."""
    run = scenario("ranges", 5)
    ops = {o["name"]: o for o in run.report["hot_ops"]}
    expect(ops["forward"]["self_gpu_ns"], 5 * 1000000, "self GPU time of a range")
    expect(ops["forward"]["total_gpu_ns"], 5 * 1000000, "GPU time of a range")
    expect(ops["step"]["self_gpu_ns"], 5 * 2000000, "self GPU time of the outer range")
    expect(ops["step"]["total_gpu_ns"], 5 * 3000000, "GPU time of the outer range")
    expect(ops["elsewhere"]["self_gpu_ns"], 5 * 500000, "GPU time of another thread's range")
    expect({(f["op"], f["source_location"]) for f in run.report["gpu_findings"] if f["rule"] == "cuda_api_sync"},
           {("step", None)}, "the range that synchronises")


def nvtx(program):
    run = Run([program])
    expect(run.out.splitlines(), ["levels 0 1 0 1", "pops 1 0 1 0 -2"], "what NVTX returned")
    ranges = [(r.fields["name"], r.depth, r.status) for r in run.of("range") if r.fields["name"] != "loop"]
    expect(ranges, [("loader: plain", 3, 2), ("loader: fetch", 2, 2), ("in\u00e9r \U0001f600", 1, 2), ("outer", 0, 2),
                    ("batches", 0, 2)], "ranges, depth, status")
    expect([(r.fields["name"], r.status) for r in run.of("free range")],
           [("first", 2), ("second", 2), ("crossing", 2)], "ranges that need not nest")
    expect(len([r for r in run.of("range") if r.fields["name"] == "loop"]), 1000, "ranges of the loop")
    expect([m.fields["name"] for m in run.of("mark")], ["here"], "marks")
    crossing = [r for r in run.of("free range") if r.fields["name"] == "crossing"][0]
    outer = [r for r in run.of("range") if r.fields["name"] == "outer"][0]
    expect(crossing.tid != outer.tid, True, "a range that another thread ended is that thread's")
    ops = {o["name"]: (o["calls"], o["total_cpu_ns"]) for o in run.report["hot_ops"] if o["kind"] == "range"}
    expect(ops["crossing"], (1, crossing.end - crossing.start), "its row in the report")


def case_nvtx():
    nvtx(os.path.join(FAKES, "gpu_nvtx"))


def case_nvtx_real():
    program = os.path.join(FAKES, "gpu_nvtx_real")
    if not os.path.exists(program):
        print("skipped: built without the CUDA toolkit's headers")
        sys.exit(77)
    nvtx(program)


def case_untouched():
    """Traced and untraced programs print the same and end the same."""
    for arguments in (["sync", "5"], ["graph", "3"], ["streams", "2"]):
        command = [os.path.join(FAKES, "gpu_scenario"), *arguments]
        traced, plain = Run(command), Run(command, traced=False)
        same = [[line for line in r.out.splitlines() if not line.startswith(("launch_ns", "gap_ns"))]
                for r in (traced, plain)]
        expect(same[0], same[1], "output")
        expect(traced.err, plain.err, "stderr")


def main():
    cases = {name[5:]: function for name, function in globals().items() if name.startswith("case_")}
    chosen = sys.argv[5:] or list(cases)
    failed = 0
    for name in chosen:
        try:
            cases[name]()
            print("ok      " + name)
        except Failure as failure:
            failed += 1
            print("FAILED  %s: %s" % (name, failure))
    return 1 if failed else 0


sys.exit(main())
