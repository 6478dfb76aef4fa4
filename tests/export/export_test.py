#!/usr/bin/env python3
"""Exports of traces with a known truth, read by the programs that they are made for.

    export_test.py OPGAP LIBOPGAP FAKES SPANS TORCH_PYTHON DOCS TRAINING CASE

OPGAP, LIBOPGAP: the command and the tracer; FAKES: folder of the built fake GPU; SPANS: the built spans.c;
TORCH_PYTHON: an interpreter with PyTorch; DOCS: docs/EXPORT.md; TRAINING: where the case `training` leaves the trace of
a training for the others.  Exit status 1: the case failed; 77: skipped, with the reason said.
"""
import csv
import gzip
import json
import logging
import os
import pty
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zlib

OPGAP, LIBOPGAP, FAKES, SPANS, TORCH_PYTHON, DOCS, TRAINING = map(os.path.abspath, sys.argv[1:8])
HERE = os.path.dirname(os.path.abspath(__file__))
WORK = tempfile.mkdtemp(prefix="opgap-export-")


class Failure(Exception):
    pass


class Skipped(Exception):
    pass


def expect(seen, wanted, what):
    if seen != wanted:
        raise Failure("%s: %r, expected %r" % (what, seen, wanted))


def expect_near(seen, wanted, tolerance, what):
    if abs(seen - wanted) > tolerance:
        raise Failure("%s: %r, expected %r +- %r" % (what, seen, wanted, tolerance))


def run(command, exit_status=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    expect(done.returncode, exit_status, "exit status of %s: %s" % (" ".join(command), done.stderr[-2000:]))
    return done


def trace_of(name, command, **environment):
    path = os.path.join(WORK, name + ".opgap")
    env = {k: v for k, v in os.environ.items()
           if k not in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUDA_HOME", "CUDA_PATH")}
    env.update(LD_PRELOAD=LIBOPGAP, OPGAP_OUT=path, **environment)
    run(command, env=env)
    return path


def gpu_trace(scenario, *arguments):
    return trace_of(scenario, [os.path.join(FAKES, "gpu_scenario"), scenario, *map(str, arguments)],
                    LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"))


def training():
    if not os.path.isdir(TRAINING):
        raise Skipped("there is no trace of a training: see the case training")
    return TRAINING


def case_training():
    """Makes the trace of a training on the processor, with two DataLoader workers, for the other cases."""
    shutil.rmtree(TRAINING, ignore_errors=True)
    probe = [TORCH_PYTHON, "-c", "import torch"]
    if not os.path.exists(TORCH_PYTHON) or subprocess.run(probe, capture_output=True).returncode != 0:
        raise Skipped("%s has no PyTorch" % TORCH_PYTHON)
    made = trace_of("training", [TORCH_PYTHON, os.path.join(HERE, "..", "torch", "train.py")], WORKERS="2")
    shutil.copytree(made, TRAINING)


def export(trace, kind, name, *options):
    path = os.path.join(WORK, name)
    run([OPGAP, "export", "--to", kind, "-o", path, *options, trace])
    return path


def report(trace, *options):
    return json.loads(run([OPGAP, "report", "--format", "json", *options, trace]).stdout)


def load_json(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        return json.load(file)


def need(module):
    try:
        return __import__(module, fromlist=["x"])
    except ImportError as error:
        raise Skipped("%s cannot be imported here (%s): tools/test.sh makes an interpreter that has it" %
                      (module, error))


def quiet():
    """The readers' own notes on their libraries; what they say of a file stays."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def nested(slices, what):
    """(start, end) in order of start, longer first: each lies inside or behind those before it."""
    stack = []
    for start, end in sorted(slices, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and end > stack[-1]:
            raise Failure("%s: [%d, %d) crosses the end of the slice around it, %d" % (what, start, end, stack[-1]))
        stack.append(end)


# ---- Kineto: Holistic Trace Analysis ----

def only_device(path, device):
    """Leaves one device's rows in an exported file: HTA takes all of a file for one."""
    document = load_json(path)
    document["traceEvents"] = [e for e in document["traceEvents"]
                               if e.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset") or e["pid"] == device]
    with (gzip.open if path.endswith(".gz") else open)(path, "wt") as file:
        json.dump(document, file)


def hta_of(trace, *options, device=None):
    """HTA's four analyses of an exported trace: rows as dictionaries."""
    need("hta")
    quiet()
    from hta.trace_analysis import TraceAnalysis
    folder = tempfile.mkdtemp(prefix="hta-", dir=WORK)
    run([OPGAP, "export", "--to", "kineto", "-o", folder + "/", *options, trace])
    if device is not None:
        only_device(os.path.join(folder, *os.listdir(folder)), device)
    analysis = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
    temporal = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    idle = analysis.get_idle_time_breakdown(visualize=False)[0].to_dict("records")
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000, duration_ratio=1.0,
                                                       include_memory_kernels=True)
    overlap = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")
    return temporal, idle, kinds.to_dict("records"), kernels.to_dict("records"), overlap


def check_hta(scenario, *arguments):
    """Points in time are whole microseconds in the file, so a figure made from N of them may be N us off."""
    trace = gpu_trace(scenario, *arguments)
    truth = report(trace)
    gpu, = truth["gpu"]
    temporal, idle, kinds, kernels, overlap = hta_of(trace)
    count = gpu["kernels"] + gpu["memcpys"] + gpu["memsets"]
    row, = temporal
    expect_near(row["kernel_time(us)"], gpu["span_ns"] / 1e3, 2, "HTA: first start to last end")
    expect_near(row["idle_time(us)"], (gpu["span_ns"] - gpu["busy_ns"]) / 1e3, count + 2, "HTA: idle")
    expect_near(row["compute_time(us)"], gpu["kernel_ns"] / 1e3, count, "HTA: computation")
    seen = {k["name"]: (k["sum (us)"], k["max (us)"], k["min (us)"]) for k in kernels}
    for kernel in truth["kernels"]:
        total, most, least = seen[kernel["name"]]
        expect_near(total, kernel["total_ns"] / 1e3, 0.01, "HTA: total of " + kernel["name"])
        expect_near(most, kernel["max_ns"] / 1e3, 0.001, "HTA: longest " + kernel["name"])
        expect_near(least, kernel["min_ns"] / 1e3, 0.001, "HTA: shortest " + kernel["name"])
    return truth, gpu, count, idle, kinds, overlap


def case_hta_idle():
    for scenario, arguments in (("sleep", (20, 2000)), ("sync", (20,))):
        truth, gpu, count, idle, _, _ = check_hta(scenario, *arguments)
        gaps = truth["idle_gaps"]
        seen = {row["idle_category"]: row["idle_time"] for row in idle}
        expect(len({row["stream"] for row in idle}), 1, "streams")
        for category, key in (("host_wait", "host_wait_ns"), ("kernel_wait", "kernel_wait_ns"), ("other", "other_ns")):
            expect_near(seen.get(category, 0), gaps[key] / 1e3, count + 1, "HTA's %s in %s" % (category, scenario))


def case_hta_overlap():
    truth, gpu, count, _, kinds, overlap = check_hta("allreduce", 20)
    expect(gpu["communication_ns"] > 0, True, "collectives in the trace")
    hidden = gpu["communication_ns"] - gpu["exposed_communication_ns"]
    expect_near(overlap[0]["comp_comm_overlap_pctg"], 100 * hidden / gpu["communication_ns"],
                0.01 + 100 * 1000 * count / gpu["communication_ns"], "HTA: overlap")
    communication = sum(k["sum"] for k in kinds if "COMMUNICATION" in k["kernel_type"])
    expect_near(communication, gpu["communication_ns"] / 1e3, count, "HTA: communication")


def case_hta_streams():
    truth, gpu, count, idle, _, _ = check_hta("streams", 20)
    expect(gpu["memcpys"] > 0, True, "copies in the trace")
    expect(len({row["stream"] for row in idle}) >= 2, True, "several streams")


def case_hta_steps():
    """A run with steps: HTA keeps the GPU work whose launch lies in one."""
    check_hta("ranges", 10)


def case_hta_plan():
    """A time line of two devices that is known to the microsecond (tests/fakes/plan.c): HTA finds the same in the export.
    Its idle time is each stream's for itself; the report's is a device's, where one stream hides what another waits."""
    trace = trace_of("plan", [os.path.join(FAKES, "gpu_plan_12")], LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"),
                     FAKE_GPU_DEVICES="2")
    truth = report(trace)
    for device, (compute, hidden) in ((0, (397, 40)), (1, (2850, None))):
        gpu = truth["gpu"][device]
        (row,), idle, kinds, _, overlap = hta_of(trace, device=device)
        expect((row["kernel_time(us)"], row["idle_time(us)"], row["compute_time(us)"], row["non_compute_time(us)"]),
               (gpu["span_ns"] / 1e3, (gpu["span_ns"] - gpu["busy_ns"]) / 1e3, compute, gpu["busy_ns"] / 1e3 - compute),
               "HTA: times of device %d in us" % device)
        expect(gpu["kernel_ns"], compute * 1000, "computation of device %d" % device)
        seen = {}
        for one in idle:
            if one["idle_time"] > 0:
                seen.setdefault(one["stream"], {})[one["idle_category"]] = one["idle_time"]
        streams = [seen[stream] for stream in sorted(seen)]
        if device == 0:  # the default stream, A, B
            expect(streams, [{"host_wait": 18 + 16 + 15 + 36 + 17}, {"host_wait": 374 + 999999, "other": 92},
                             {"host_wait": 195 + 252, "kernel_wait": 15}], "HTA: idle us of the streams of device 0")
            expect(round(overlap[0]["comp_comm_overlap_pctg"], 2), round(100 * hidden / 60, 2), "HTA: overlap")
            expect(gpu["communication_ns"] - gpu["exposed_communication_ns"], hidden * 1000, "hidden communication")
            expect({k["kernel_type"]: k["sum"] for k in kinds},
                   {"COMPUTATION": 357, "COMPUTATION overlapping COMMUNICATION": hidden,
                    "COMMUNICATION": gpu["exposed_communication_ns"] / 1e3,
                    "MEMORY": (gpu["memcpy_ns"] + gpu["memset_ns"]) / 1e3}, "HTA: kinds of work")
        else:  # one stream: the same as the device's
            expect(streams, [{"host_wait": (gpu["span_ns"] - gpu["busy_ns"]) / 1e3}], "HTA: idle us of device 1")


def case_hta_ranks():
    """One file a rank; HTA finds the ranks by the text of the file."""
    need("hta")
    quiet()
    from hta.common.trace_file import create_rank_to_trace_dict_from_dir
    trace = os.path.join(WORK, "ranks.opgap")
    for rank in range(2):
        env = dict(os.environ, LD_PRELOAD=LIBOPGAP, OPGAP_OUT=trace, RANK=str(rank), WORLD_SIZE="2",
                   LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"))
        run([os.path.join(FAKES, "gpu_scenario"), "ranges", "5"], env=env)
    folder = export(trace, "kineto", "ranks/")
    found, files = create_rank_to_trace_dict_from_dir(folder)
    expect((found, sorted(files)), (True, [0, 1]), "ranks that HTA finds")
    done = run([OPGAP, "export", "--to", "kineto", "-o", "-", trace], exit_status=2)
    expect(done.stdout, "", "output of several ranks to stdout")
    expect(done.stderr.count("\n"), 1, "lines of the message: " + done.stderr)


# ---- Kineto: the TensorBoard plugin ----

def plugin_of(path):
    need("torch_tb_profiler")
    quiet()
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator
    data = RunProfileData.parse("worker0", None, path, WORK)
    return data, RunGenerator("worker0", None, data).generate_run_profile()


ROLES = ("kernel_ns", "memcpy_ns", "memset_ns", "communication_ns", "runtime_ns", "dataloader_ns", "cpu_exec_ns",
         "other_ns")


def case_plugin_training():
    """Steps, DataLoader time and ops of a training on the processor, as the plugin sees them."""
    trace = training()
    truth = report(trace)
    data, profile = plugin_of(export(trace, "kineto", "cpu.pt.trace.json.gz", "--for", "tensorboard"))
    steps = truth["steps"]
    expect(data.steps_names, [str(i) for i in range(steps["count"])], "the plugin's steps")
    for cost, duration in zip(data.steps_costs, steps["durations_ns"]):
        expect_near(cost.costs[8], duration / 1e3, 0.01, "the plugin's step time")
    skipped = steps["skipped"]
    seen = sum(cost.costs[5] for cost in data.steps_costs[skipped:])
    expect_near(seen, truth["step_breakdown"]["dataloader_ns"] / 1e3, 0.01 * steps["count"], "DataLoader time")
    ops = {op.name: op.calls for op in data.op_list_groupby_name}
    rows = {op["name"]: op["calls"] for op in truth["hot_ops"] if op["role"] == "trainer" and
            op["name"].startswith(("aten::", "autograd::", "torch::"))}
    expect(len(rows) > 20, True, "ops of the training")
    expect({name: ops.get(name) for name in rows}, rows, "calls of each op")
    share = truth["step_breakdown"]["dataloader_ns"] / sum(truth["step_breakdown"][r] for r in ROLES)
    advice = any("DataLoader" in text or "data loading" in text.lower() for text in data.recommendations)
    all_share = sum(c.costs[5] for c in data.steps_costs) / sum(c.costs[8] for c in data.steps_costs)
    if abs(all_share - 0.05) > 0.005:
        expect(advice, all_share > 0.05, "advice on the DataLoader (%.3f of the steps, %.3f without warm-up): %s" %
               (all_share, share, data.recommendations))
    expect([view.display_name for view in profile.views][:2], ["Overview", "Operator"], "the plugin's views")


def case_kineto_steps():
    """Of a part of the run only its steps are there, with their numbers."""
    trace = training()
    steps = report(trace)["steps"]

    def names(*options):
        events = load_json(export(trace, "kineto", "steps.json", *options))["traceEvents"]
        return [(e["name"], e["ts"]) for e in events if e["name"].startswith("ProfilerStep#")]
    wanted = [("ProfilerStep#%d" % i, start // 1000) for i, start in enumerate(steps["start_ns"])]
    expect(names(), wanted, "steps of the run")
    expect(names("--steps", "4:6"), wanted[4:7], "three steps")
    window = ("--from-time", "%dns" % steps["start_ns"][8], "--to-time", "%dns" % steps["start_ns"][10])
    expect(names(*window), wanted[8:10], "steps of a window")


def case_plugin_gpu():
    """Kernels joined to their launches and ops; steps stretched to the end of their kernels."""
    trace = gpu_trace("ranges", 20)
    truth = report(trace)
    gpu, = truth["gpu"]
    data, _ = plugin_of(export(trace, "kineto", "gpu.pt.trace.json", "--for", "tensorboard"))
    expect((data.has_runtime, data.has_kernel), (True, True), "runtime calls and kernels")
    expect(len(data.used_devices), 1, "devices")
    count = truth["steps"]["count"]
    expect(len(data.steps_costs), count, "the plugin's steps")
    # by the later steps: in the first ones another thread's kernels run on, and the plugin moves a step's end to theirs
    breakdown = report(trace, "--steps", "%d:%d" % (count // 2, count - 1))["step_breakdown"]
    seen = sum(cost.costs[0] for cost in data.steps_costs[count // 2:])
    expect_near(seen, breakdown["kernel_ns"] / 1e3, 0.01 * gpu["kernels"], "kernel time of the steps")
    kernels = data.kernel_stat
    expect(int(kernels["count"].sum()), gpu["kernels"], "kernels")
    expect_near(float(kernels["sum"].sum()), sum(k["total_ns"] for k in truth["kernels"]) / 1e3, 0.01, "their time")
    expect(any("low utilization" in text for text in data.recommendations),
           data.gpu_metrics_parser.gpu_utilization[data.used_devices[0]] < 0.5, "advice on GPU utilisation")


def case_plugin_roles():
    """Each of the eight classes of a step, by the plugin and by the report: the same, but that the plugin has a collective's
    kernel under communication, the report under kernels, because the device is busy."""
    if not os.path.exists(TORCH_PYTHON) or \
            subprocess.run([TORCH_PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        raise Skipped("%s has no PyTorch" % TORCH_PYTHON)
    trace = trace_of("roles", [TORCH_PYTHON, os.path.join(HERE, "roles.py")], OMP_NUM_THREADS="1",
                     LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"), FAKE_KERNEL_NS="300000")
    truth = report(trace)
    steps, ours = truth["steps"], truth["step_breakdown"]
    data, _ = plugin_of(export(trace, "kineto", "roles.pt.trace.json", "--for", "tensorboard"))
    expect((steps["source"], steps["count"], len(data.steps_costs)), ("ProfilerStep", 8, 8), "steps")
    counted = data.steps_costs[steps["skipped"]:]
    theirs = [sum(cost.costs[i] for cost in counted) for i in range(8)]
    wanted = [ours[role] / 1e3 for role in ROLES]
    expect([ours[role] for role in ROLES[:3]], [len(counted) * ns for ns in (330000, 43943, 4097)],
           "kernels, copies, sets")
    collectives = 30 * len(counted)
    wanted[0] -= collectives
    wanted[3] += collectives
    for role, seen, truly in list(zip(ROLES, theirs, wanted))[:6]:
        expect_near(seen, truly, 0.1, "the plugin's " + role)
    # the report's steps follow each other, the plugin's end with their range
    between = sum(steps["durations_ns"][steps["skipped"]:]) / 1e3 - sum(cost.costs[8] for cost in counted)
    expect(between >= 0, True, "between the plugin's steps: %r us" % between)
    for role, seen, truly in list(zip(ROLES, theirs, wanted))[6:]:
        expect(-0.1 <= truly - seen <= between + 0.1, True, "the plugin's %s: %r, %r" % (role, seen, truly))


def case_kineto_split():
    """Above a size a new file begins; together they hold every row once, each a window of time."""
    trace = trace_of("split", [SPANS, "40000"])
    whole = load_json(export(trace, "kineto", "whole.json", "--max-size", "0"))
    export(trace, "kineto", "split.pt.trace.json.gz", "--max-size", "2")
    names = sorted((n for n in os.listdir(WORK) if re.fullmatch(r"split(-\d+)?\.pt\.trace\.json\.gz", n)),
                   key=lambda n: int((re.search(r"-(\d+)", n) or [0, 1])[1]))
    expect(len(names) >= 3, True, "several files: %s" % names)
    parts = [load_json(os.path.join(WORK, name)) for name in names]
    rows, end = [], 0
    for part in parts:
        slices = [e for e in part["traceEvents"] if e["ph"] == "X"]
        expect(min(e["ts"] for e in slices) >= end, True, "parts follow each other")
        end = max(e["ts"] for e in slices)
        expect(part["distributedInfo"]["rank"], 0, "rank of a part")
        rows += slices
    expect(len(rows), 40001, "rows of all parts")
    expect([(e["name"], e["ts"]) for e in rows],
           [(e["name"], e["ts"]) for e in whole["traceEvents"] if e["ph"] == "X"], "rows of all parts")


# ---- Perfetto ----

def perfetto_packets(path):
    """Packets as the full schema reads them, and as protobuf's own parser finds nothing unknown in."""
    schema = need("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    from google.protobuf.unknown_fields import UnknownFieldSet

    def check(message):
        expect(len(UnknownFieldSet(message)), 0, "fields that Perfetto's schema does not have")
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                for one in value if field.is_repeated else [value]:
                    check(one)
    check(trace)
    return trace.packet


class Timeline:
    """Tracks, slices, flows and counters out of packets, as Perfetto's importer makes them."""

    def __init__(self, packets):
        self.tracks, self.slices, self.instants, self.counters = {}, [], [], {}
        self.begins, self.flows_out, self.flows_in = 0, {}, {}
        interned = {}
        stacks = {}
        order = sorted((p for p in packets if p.HasField("track_event")), key=lambda p: p.timestamp)
        for packet in packets:
            for kind in ("event_names", "event_categories", "debug_annotation_names"):
                for entry in getattr(packet.interned_data, kind):
                    expect((kind, entry.iid) in interned, False, "interned twice")
                    interned[kind, entry.iid] = entry.name
            for entry in packet.interned_data.debug_annotation_string_values:
                interned["values", entry.iid] = entry.str.decode()
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for packet in order:
            event = packet.track_event
            track = self.tracks[event.track_uuid]
            if event.type == event.TYPE_COUNTER:
                self.counters.setdefault(track.name, []).append((packet.timestamp, event.counter_value))
                continue
            stack = stacks.setdefault(event.track_uuid, [])
            if event.type == event.TYPE_SLICE_END:
                begun, at = stack.pop()
                self.slices.append(dict(begun, start=at, end=packet.timestamp, depth=len(stack)))
                continue
            about = {"name": interned["event_names", event.name_iid], "track": event.track_uuid,
                     "category": interned["event_categories", event.category_iids[0]],
                     "args": {interned["debug_annotation_names", a.name_iid]:
                              a.uint_value if a.HasField("uint_value") else interned["values", a.string_value_iid]
                              for a in event.debug_annotations}}
            if event.type == event.TYPE_INSTANT:
                self.instants.append(about)
                continue
            for flow in event.flow_ids:
                self.flows_out[flow] = (about, packet.timestamp)
            for flow in event.terminating_flow_ids:
                self.flows_in[flow] = (about, packet.timestamp)
            stack.append((about, packet.timestamp))
        expect([s for s in stacks.values() if s], [], "slices without an end")

    def name_of(self, uuid):
        track = self.tracks[uuid]
        return track.name or track.thread.thread_name


def case_perfetto_gpu():
    trace = gpu_trace("streams", 20)
    truth = report(trace)
    gpu, = truth["gpu"]
    timeline = Timeline(perfetto_packets(export(trace, "perfetto", "streams.pftrace")))
    device = [s for s in timeline.slices if s["category"] in ("kernel", "memcpy", "memset") and
              timeline.name_of(s["track"]).startswith("GPU ")]
    expect(len(device), gpu["kernels"] + gpu["memcpys"] + gpu["memsets"], "slices on the device")
    kernel_ns = sum(s["end"] - s["start"] for s in device if s["category"] == "kernel")
    expect(kernel_ns, sum(k["total_ns"] for k in truth["kernels"]), "their time, to the nanosecond")
    streams = {s["args"]["stream"] for s in device}
    expect({timeline.name_of(s["track"]) for s in device}, {"GPU 0 stream %d" % s for s in streams}, "tracks")
    for slice_ in device:
        expect(slice_["depth"], 0, "nothing on a stream's track lies inside another slice")
    expect(len(timeline.flows_in), len(device), "a flow ends at each piece of work")
    for flow, (work, start) in timeline.flows_in.items():
        launch, at = timeline.flows_out[flow]
        expect(at <= start, True, "the launch comes first")
        expect(launch["args"]["correlation"], work["args"]["correlation"], "correlation of launch and work")
        expect(timeline.name_of(launch["track"]).endswith(" CUDA calls"), True, "track of the launch")


def case_perfetto_overlap():
    """What overlaps without nesting has lanes: none of it is lost or cut."""
    trace = gpu_trace("graph", 20)
    truth = report(trace)
    timeline = Timeline(perfetto_packets(export(trace, "perfetto", "graph.pftrace")))
    kernels = [s for s in timeline.slices if s["category"] == "kernel"]
    expect(len(kernels), sum(k["calls"] for k in truth["kernels"]), "kernels")
    expect(sum(s["end"] - s["start"] for s in kernels), sum(k["total_ns"] for k in truth["kernels"]), "their time")


def case_perfetto_training():
    """Every process and thread, each op with its nesting, files by path, memory as a counter."""
    trace = training()
    truth = report(trace)
    timeline = Timeline(perfetto_packets(export(trace, "perfetto", "training.pftrace")))
    processes = {t.process.pid: t.process.process_name for t in timeline.tracks.values() if t.HasField("process")}
    expect(processes, {p["pid"]: p["role"] for p in truth["processes"]}, "processes")
    calls = {}
    for slice_ in timeline.slices:
        if slice_["category"] in ("op", "range"):
            calls[slice_["name"]] = calls.get(slice_["name"], 0) + 1
    for name in ("aten::addmm", "Optimizer.step#Adam.step", "forward"):
        expect(calls[name], sum(op["calls"] for op in truth["hot_ops"] if op["name"] == name), "slices of " + name)
    inner = [s for s in timeline.slices if s["name"] == "aten::addmm"]
    expect(min(s["depth"] for s in inner) >= 1, True, "aten::addmm lies inside other ops")
    expect(max(v for _, v in timeline.counters["memory rss_bytes"]) > 10 << 20, True, "resident memory")
    expect(any("path" in s["args"] for s in timeline.slices), True, "calls on files have paths")


# ---- chrome, speedscope, collapsed ----

def case_chrome():
    trace = training()
    truth = report(trace)
    events = load_json(export(trace, "chrome", "chrome.json.gz"))["traceEvents"]
    rows = {}
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            rows.setdefault((event["pid"], event["tid"]), []).append((start, start + round(event["dur"] * 1000)))
    for row, slices in rows.items():
        nested(slices, "row %d/%d" % row)
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    expect(set(rows) <= named, True, "every row has a name")
    count = sum(1 for e in events if e["ph"] == "X" and e["name"] == "aten::addmm")
    expect(count, sum(op["calls"] for op in truth["hot_ops"] if op["name"] == "aten::addmm"), "slices of aten::addmm")


def case_kineto_external():
    """The ids that a program pushes to CUPTI: at the launch and at its kernel, beside the op's own "External id"."""
    trace = trace_of("external", [os.path.join(FAKES, "gpu_other_tool"), "external"], OPGAP_GPU="external",
                     LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"))
    events = load_json(export(trace, "kineto", "external.json"))["traceEvents"]
    wanted = [given for i in range(6) for given in ({"External id (custom0)": 100 + i},
                                                    {"External id (custom0)": 200 + i, "External id (custom2)": (1 << 40) + i},
                                                    {"External id (custom0)": 100 + i}, {})]
    for what, rows in (("launch", [e for e in events if e.get("name") == "cudaLaunchKernel"]),
                       ("kernel", [e for e in events if e.get("cat") == "kernel"])):
        seen = [{k: v for k, v in e["args"].items() if k.startswith("External id (")}
                for e in sorted(rows, key=lambda e: e["args"]["correlation"])]
        expect(seen, wanted, "ids of each " + what)
        expect({e["args"]["External id"] for e in rows}, {0}, "no op is around them")
    expect([e for e in events if e.get("name") == "external correlation"], [], "rows of their own")


def case_chrome_gpu():
    trace = gpu_trace("streams", 20)
    gpu, = report(trace)["gpu"]
    events = load_json(export(trace, "chrome", "streams.json"))["traceEvents"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = [e for e in events if e["ph"] == "f"]
    expect(len(ends), gpu["kernels"] + gpu["memcpys"] + gpu["memsets"], "flows that end on the device")
    for end in ends:
        expect(starts[end["id"]]["ts"] <= end["ts"], True, "a flow goes forward")


def case_flames():
    """speedscope and collapsed stacks hold the same time as the table of spans."""
    trace = training()
    with open(export(trace, "csv", "flames.csv"), newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["kind"] in ("op", "range", "call") and int(r["duration_ns"]) > 0]
    own = {}
    by_thread = {}
    for row in rows:
        by_thread.setdefault((row["pid"], row["tid"]), []).append(
            (int(row["start_ns"]), int(row["start_ns"]) + int(row["duration_ns"]), row["name"]))
    for spans in by_thread.values():
        stack = []
        for start, end, name in spans:
            while stack and stack[-1][0] <= start:
                stack.pop()
            if stack:
                end = min(end, stack[-1][0])
                own[stack[-1][1]] -= end - start
            own[name] = own.get(name, 0) + end - start
            stack.append((end, name))
    folded = {}
    with open(export(trace, "collapsed", "flames.folded")) as file:
        for line in file:
            stack, ns = line.rstrip("\n").rsplit(" ", 1)
            if "[GPU" not in stack:
                folded[stack.split(";")[-1]] = folded.get(stack.split(";")[-1], 0) + int(ns)
    expect(folded, {name: ns for name, ns in own.items() if ns}, "time of each frame itself")
    scope = load_json(export(trace, "speedscope", "flames.json"))
    frames = [f["name"] for f in scope["shared"]["frames"]]
    seen = {}
    for profile in scope["profiles"]:
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            expect(event["at"] >= last, True, "events in order")
            name = frames[event["frame"]]
            if stack:
                seen[stack[-1]] = seen.get(stack[-1], 0) + event["at"] - last
            if event["type"] == "O":
                stack.append(name)
            else:
                expect(stack.pop(), name, "the frame that closes")
            last = event["at"]
        expect((stack, last), ([], profile["endValue"]), "end of a profile")
    expect({name: ns for name, ns in seen.items() if ns}, folded, "time of each frame in speedscope")


def case_counts():
    """Each format tells the same number of spans, and how many of them it has."""
    for trace in training(), gpu_trace("ranges", 10):
        with open(export(trace, "csv", "counts.csv"), newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["kind"] not in ("mark", "sample", "lost")]
        spans = len(rows)
        said = {}
        for name in ("kineto", "perfetto", "chrome", "speedscope", "collapsed", "csv", "sqlite"):
            path = os.path.join(WORK, "counts-" + name)
            line = run([OPGAP, "export", "--to", name, "-o", path, trace]).stderr
            told = re.search(r"opgap: (?:(\d+) of )?(\d+) spans in ", line)
            expect(int(told[2]), spans, "spans told by " + name)
            expect(told[1] is not None, "has no place for" in line, "why some are left out of " + name)
            said[name] = int(told[1] or told[2])
        expect([said[name] for name in ("perfetto", "chrome", "csv", "sqlite")], [spans] * 4, "formats that have all")
        pids = {event["pid"] for event in load_json(os.path.join(WORK, "counts-kineto"))["traceEvents"]}
        lasts = [row for row in rows if int(row["duration_ns"]) > 0]
        expect(said["kineto"], sum(int(row["pid"]) in pids and row["kind"] not in ("free range", "overhead") and
                                   (row["kind"] != "call" or int(row["duration_ns"]) > 0) for row in rows),
               "spans in Kineto's")
        expect(said["collapsed"], sum(row["kind"] in ("op", "range", "call") for row in lasts) +
               sum(row["kind"] in ("kernel", "memcpy", "memset") for row in rows), "spans in collapsed stacks")
        scope = load_json(os.path.join(WORK, "counts-speedscope"))
        expect(said["speedscope"], sum(event["type"] == "O" for profile in scope["profiles"]
                                       for event in profile["events"]), "spans in speedscope")


def case_collapsed_gpu():
    """GPU time under the op that launched it."""
    trace = gpu_trace("ranges", 10)
    truth = report(trace)
    with open(export(trace, "collapsed", "gpu.folded")) as file:
        lines = [line.rsplit(" ", 1) for line in file]
    gpu = {stack: int(ns) for stack, ns in lines if "[GPU 0]" in stack.split(";")[0]}
    expect(sum(gpu.values()), sum(op["self_gpu_ns"] for op in truth["hot_ops"]
                                  if op["kind"] in ("kernel", "memcpy", "memset")), "GPU time")
    expect(any(len(stack.split(";")) >= 3 for stack in gpu), True, "ops between device and kernel: %s" % gpu)


# ---- CSV, SQLite ----

def case_tables():
    """The table of spans and the database hold the same; the report's tables are in the database."""
    trace = training()
    truth = report(trace)
    with open(export(trace, "csv", "spans.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    db = sqlite3.connect(export(trace, "sqlite", "spans.sqlite"))
    fields = "pid, coalesce(tid, 0), kind, name, start_ns, duration_ns, depth, bytes, path"
    stored = db.execute("SELECT %s FROM spans ORDER BY id" % fields).fetchall()
    wanted = [(int(r["pid"]), int(r["tid"]), r["kind"], r["name"], int(r["start_ns"]), int(r["duration_ns"]),
               int(r["depth"]), int(r["bytes"]) if r["bytes"] else None, r["path"] or None)
              for r in rows if r["kind"] != "sample"]
    expect(len(stored), len(wanted), "spans")
    expect([(a, b) for a, b in zip(stored, wanted) if a != b][:3], [], "spans that differ")
    starts = [r[4] for r in stored]
    late = sum(b < a for a, b in zip(starts, starts[1:]))
    expect(late, 0, "spans out of order")
    for table, key in (("hot_ops", "hot_ops"), ("calls", "calls"), ("files", "files"), ("processes", "processes")):
        names = [c[1] for c in db.execute("PRAGMA table_info(%s)" % table)]
        got = [dict(zip(names, row)) for row in db.execute("SELECT * FROM %s" % table)]
        expect(got, [{n: r.get(n) for n in names} for r in truth[key]], "table " + table)
        expect(set(names) >= {k for r in truth[key] for k in r}, True, "columns of " + table)
    expect([r for r, in db.execute("SELECT duration_ns FROM steps ORDER BY step")], truth["steps"]["durations_ns"],
           "steps")
    expect(db.execute("SELECT value FROM figures WHERE section='verdict' AND key='bound_by'").fetchone()[0],
           truth["verdict"]["bound_by"], "verdict")
    expect(db.execute("SELECT sum(ns) FROM idle_by_cause WHERE gaps='thread'").fetchone()[0],
           truth["idle_gaps"]["thread_ns"], "idle time by cause")
    calls = {op["name"]: op["calls"] for op in truth["hot_ops"] if op["kind"] == "torch" and op["role"] == "trainer"}
    got, = db.execute("SELECT count(*) FROM spans WHERE name='aten::addmm' AND kind='op'").fetchone()
    expect(got, calls["aten::addmm"], "ops called aten::addmm")


def case_queries():
    """The queries of docs/EXPORT.md run, and each finds something in a training with GPU work or without."""
    with open(DOCS) as file:
        queries = re.findall(r"```sql\n(.*?)```", file.read(), re.S)
    expect(len(queries) >= 10, True, "queries in the documentation")
    databases = [sqlite3.connect(export(trace, "sqlite", name)) for trace, name in
                 ((training(), "training.sqlite"), (gpu_trace("streams", 20), "streams.sqlite"),
                  (gpu_trace("data", 10, 2000), "data.sqlite"))]
    for query in queries:
        found = [len(db.execute(query).fetchall()) for db in databases]
        expect(max(found) > 0, True, "rows of %s" % query)
    # "the same keys" as the report's JSON, but those of nested values; locks are in none of these traces
    for name in ("processes", "hot_ops", "calls", "files"):
        keys = sorted(key for key, value in report(training())[name][0].items() if not isinstance(value, (list, dict)))
        expect(sorted(row[1] for row in databases[0].execute("PRAGMA table_info(%s)" % name)), keys, "columns of " + name)
    expect(sorted(row[1] for row in databases[0].execute("PRAGMA table_info(locks)")),
           ["block", "call", "held_by", "longest_ns", "object", "pid", "source_location", "symbol", "threads", "wait_ns",
            "waits"], "columns of locks")


def case_filters():
    trace = training()
    steps = report(trace)["steps"]

    def same(seen, wanted, what):
        expect(len(seen), len(wanted), what)
        expect([(a, b) for a, b in zip(seen, wanted) if a != b][:2], [], what + " that differ")

    def rows(*options):
        path = export(trace, "csv", "filtered.csv", *options)
        with open(path, newline="") as file:
            return [r for r in csv.DictReader(file)]
    start = steps["start_ns"][2]
    end = steps["start_ns"][3] + steps["durations_ns"][3]
    everything = rows()
    inside = [r for r in everything if int(r["start_ns"]) < end and
              (int(r["start_ns"]) + int(r["duration_ns"]) > start or
               int(r["duration_ns"]) == 0 and int(r["start_ns"]) >= start)]
    same(rows("--steps", "2:3"), inside, "rows of two steps")
    same(rows("--from-time", "%dns" % start, "--to-time", "%dns" % end), inside, "rows of a window")
    long = [r for r in everything if r["kind"] in ("mark", "sample", "lost") or int(r["duration_ns"]) >= 50000]
    same(rows("--min-duration", "50us"), long, "long rows")
    workers = {p["pid"] for p in report(trace)["processes"] if p["role"] == "DataLoader worker 1"}
    one = [r for r in everything if int(r["pid"]) in workers]
    same(rows("--process", "worker 1"), one, "rows of a worker")
    for nothing in (("--process", "nobody"), ("--from-time", "%dns" % report(trace)["trace"]["duration_ns"]),
                    ("--steps", "2:3", "--from-time", "%dns" % end), ("--steps", "2:3", "--to-time", "%dns" % start)):
        done = run([OPGAP, "export", "--to", "csv", "-o", "nothing.csv", *nothing, trace], exit_status=2)
        expect(done.stderr.count("\n"), 1, "lines of the message: " + done.stderr)
        expect(os.path.exists("nothing.csv"), False, "a file")


# ---- names with any bytes ----

def case_names():
    """Quotes, line ends, commas, semicolons and broken UTF-8 in names stay readable in every format."""
    name = b"a \"quote\", a\nline; \\ and \xff\xfe \xe2\x82\xac"
    source = os.path.join(WORK, "names.c")
    with open(source, "w") as file:
        file.write('#include "opgap/opgap.h"\nint main(void) { opgap_range_push("%s"); opgap_range_pop(); return 0; }\n'
                   % "".join("\\x%02x\"\"" % b for b in name))
    program = os.path.join(WORK, "names")
    run(["cc", "-I", os.path.join(HERE, "..", "..", "include"), "-o", program, source])
    trace = trace_of("names", [program])
    clean = 'a "quote", a\nline; \\ and \\xff\\xfe \u20ac'
    one_line = clean.replace("\n", "\\x0a")
    events = load_json(export(trace, "kineto", "names.json"))["traceEvents"]
    expect(clean in [e["name"] for e in events] or one_line in [e["name"] for e in events], True, "name in Kineto")
    load_json(export(trace, "chrome", "names-chrome.json"))
    frames = load_json(export(trace, "speedscope", "names-scope.json"))["shared"]["frames"]
    expect(clean in [f["name"] for f in frames] or one_line in [f["name"] for f in frames], True, "name in speedscope")
    with open(export(trace, "csv", "names.csv"), newline="", encoding="utf-8") as file:
        expect(one_line in [r["name"] for r in csv.DictReader(file)], True, "name in CSV")
    with open(export(trace, "collapsed", "names.folded"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    expect([line.count(";") for line in lines if "quote" in line], [2], "frames of the stack")
    db = sqlite3.connect(export(trace, "sqlite", "names.sqlite"))
    expect(db.execute("SELECT count(*) FROM spans WHERE name = ?", (one_line,)).fetchone()[0], 1, "name in SQLite")
    try:
        packets = perfetto_packets(export(trace, "perfetto", "names.pftrace"))
    except Skipped as reason:
        print("left out: names in Perfetto (%s)" % reason)
        return
    expect(one_line in [n.name for p in packets for n in p.interned_data.event_names], True, "name in Perfetto")


# ---- when writing fails ----

FORMATS = ("kineto", "perfetto", "chrome", "speedscope", "collapsed", "csv", "sqlite")


def one_line(done, what):
    expect(done.stderr.count("\n"), 1, "%s: lines of the message: %r" % (what, done.stderr))
    expect(done.stderr.startswith("opgap: "), True, what + ": " + done.stderr)


def case_full_disk():
    """A file size limit stands for a full disk; nothing is left under the final name, or beside it."""
    trace = trace_of("full", [SPANS, "40000"])
    for kind in FORMATS:
        if kind == "collapsed":
            continue  # its file is smaller than the smallest limit: /dev/full tests it
        folder = os.path.join(WORK, "full-" + kind)
        os.mkdir(folder)
        target = os.path.join(folder, "out")
        with open(target, "w") as file:
            file.write("what was there before")
        done = run(["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", OPGAP, "export", "--to", kind, "-o", target, trace], exit_status=2)
        one_line(done, kind)
        expect(os.listdir(folder), ["out"], "what is left of " + kind)
        with open(target) as file:
            expect(file.read(), "what was there before", "the file that was there, " + kind)


def case_dev_full():
    trace = trace_of("devfull", [SPANS, "40000"])
    for kind in FORMATS:
        one_line(run([OPGAP, "export", "--to", kind, "-o", "/dev/full", trace], exit_status=2), kind + " to /dev/full")
    one_line(run([OPGAP, "export", "--to", "csv", "-o", os.path.join(WORK, "no", "such"), trace], exit_status=2),
             "a folder that is not there")
    one_line(run([OPGAP, "export", "--to", "csv", "-o", WORK, trace], exit_status=2), "a folder")


def case_small_disk():
    """A really full file system, where one can be mounted."""
    trace = trace_of("disk", [SPANS, "100000"])
    script = ('mkdir -p "$1" && mount -t tmpfs -o size=1m none "$1" 2>/dev/null || exit 99; shift; '
              'for kind in kineto perfetto csv sqlite; do "$0" export --to $kind -o "$1/out" "$2" 2>"$3.$kind"; '
              '[ $? = 2 ] || exit 98; [ -z "$(ls -A "$1")" ] || exit 97; done')
    folder = os.path.join(WORK, "tmpfs")
    log = os.path.join(WORK, "small.log")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, OPGAP, folder, folder, trace, log],
                          capture_output=True, text=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        raise Skipped("no file system can be mounted here: %s" % done.stderr.strip())
    expect(done.returncode, 0, "97: something was left, 98: not exit status 2: " + done.stderr)
    for kind in ("kineto", "perfetto", "csv", "sqlite"):
        with open("%s.%s" % (log, kind)) as file:
            message = file.read()
        expect((message.count("\n"), "No space left" in message), (1, True), "message of %s: %s" % (kind, message))


def case_closed_pipe():
    trace = trace_of("pipe", [SPANS, "400000"])
    for kind in ("kineto", "perfetto", "chrome", "speedscope", "csv"):
        writer = subprocess.Popen([OPGAP, "export", "--to", kind, "-o", "-", trace], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        writer.stdout.read(10)
        writer.stdout.close()
        message = writer.stderr.read().decode()
        expect((writer.wait(), message.count("\n"), "Broken pipe" in message), (2, 1, True), kind + ": " + message)
    done = run([OPGAP, "export", "--to", "sqlite", "-o", "-", trace], exit_status=2)
    expect(done.stdout, "", "a database on stdout")


def case_progress():
    """Shown on a terminal alone, and only when it takes a while: here because nobody reads the pipe."""
    trace = trace_of("progress", [SPANS, "400000"])
    master, slave = pty.openpty()
    writer = subprocess.Popen([OPGAP, "export", "--to", "csv", "-o", "-", trace], stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    time.sleep(2.5)
    while writer.stdout.read(1 << 16):
        pass
    expect(writer.wait(), 0, "exit status")
    shown = b""
    try:
        while piece := os.read(master, 4096):
            shown += piece
    except OSError:
        pass  # the terminal's other end is closed
    # a slow machine tells of the reading before as well
    expect(re.search(rb"(^|\r\x1b\[K)\ropgap: exporting: \d+ %", shown) is not None, True, "progress: %r" % shown)
    expect(shown.endswith(b"\r\x1b[K"), True, "the line is cleared: %r" % shown)


def case_damaged():
    """What can be read is exported, and the exit status says that something is missing."""
    trace = trace_of("damaged", [SPANS, "40000"])
    name, = os.listdir(trace)
    path = os.path.join(trace, name)
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xff]))
    target = os.path.join(WORK, "damaged.csv")
    run([OPGAP, "export", "--to", "csv", "-o", target, trace], exit_status=4)
    with open(target, newline="") as file:
        rows = sum(1 for r in csv.DictReader(file) if r["kind"] == "range")
    expect(0 < rows < 40001, True, "ranges that are left: %d" % rows)


def case_undecodable():
    """Records that cannot be decoded though every checksum is right: a chunk that claims more than it holds."""
    trace = trace_of("undecodable", [SPANS, "400"])
    name, = os.listdir(trace)
    path = os.path.join(trace, name)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    at = struct.unpack_from("<I", content, 16)[0]
    while True:  # the chunks' headers (docs/TRACE_FORMAT.md)
        kind, size, _, _, stored, _, records = struct.unpack_from("<HHIIIII", content, at + 4)
        if kind == 3 and records >= 400:
            break
        at += size + stored
    struct.pack_into("<I", content, at + 24, records + 7)
    struct.pack_into("<I", content, at + size - 4, zlib.crc32(content[at:at + size - 4]))
    with open(path, "wb") as file:
        file.write(content)
    seen = json.loads(run([OPGAP, "report", "--format", "json", trace], exit_status=4).stdout)["trace"]
    expect((seen["complete"], seen["invalid_records"]), (False, 7), "complete, records that cannot be decoded")
    expect(seen["damage"], [path + ": 7 records cannot be decoded"], "damage")
    run([OPGAP, "export", "--to", "csv", "-o", os.path.join(WORK, "undecodable.csv"), trace], exit_status=4)
    run([OPGAP, "html", "-o", os.path.join(WORK, "undecodable.html"), trace], exit_status=4)
    run([OPGAP, "diff", trace, trace], exit_status=4)
    expect(run([OPGAP, "info", "--records", trace], exit_status=4).stderr,
           "opgap: the trace is damaged: %s: 7 records cannot be decoded\n" % path, "info's word")


def case_killed():
    """What was open when the process died is there, marked, around what it held."""
    trace = os.path.join(WORK, "killed.opgap")
    env = dict(os.environ, LD_PRELOAD=LIBOPGAP, OPGAP_OUT=trace)
    program = subprocess.Popen([SPANS, "400", "1", "wait"], env=env, stdout=subprocess.PIPE)
    expect(program.stdout.readline(), b"waiting\n", "the program's word")
    program.kill()
    program.wait()
    with open(export(trace, "csv", "killed.csv"), newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["kind"] in ("op", "range")]
    expect((rows[0]["name"], rows[0]["unfinished"]), ("whole", "1"), "the outer range")
    expect([r["unfinished"] for r in rows[1:]], ["0"] * 400, "the ranges inside")
    events = load_json(export(trace, "kineto", "killed.json"))["traceEvents"]
    whole, = [e for e in events if e["name"] == "whole"]
    inside = [e for e in events if e["name"] == "outer"]
    expect(whole["args"]["unfinished"], 1, "mark of the outer range")
    expect(all(whole["ts"] <= e["ts"] and e["ts"] + e["dur"] <= whole["ts"] + whole["dur"] for e in inside), True,
           "the outer range holds the others")
    db = sqlite3.connect(export(trace, "sqlite", "killed.sqlite"))
    expect(db.execute("SELECT name FROM spans WHERE unfinished AND kind = 'op'").fetchall(), [("whole",)],
           "unfinished spans of the database")


def case_interrupted():
    """Ctrl-C leaves nothing behind."""
    trace = trace_of("interrupted", [SPANS, "2000000"])
    for kind in ("csv", "sqlite"):
        folder = os.path.join(WORK, "interrupted-" + kind)
        os.mkdir(folder)
        writer = subprocess.Popen([OPGAP, "export", "--to", kind, "-o", os.path.join(folder, "out"), trace],
                                  stderr=subprocess.PIPE)
        while not os.listdir(folder) and writer.poll() is None:
            pass
        writer.send_signal(signal.SIGINT)
        writer.communicate()
        expect((writer.returncode, os.listdir(folder)), (-signal.SIGINT, []), kind + " after SIGINT")


def case_stdout():
    """The same bytes through a pipe as in a file; compression by name."""
    trace = trace_of("stdout", [SPANS, "4000"])
    for kind in ("perfetto", "chrome", "csv", "collapsed"):
        path = export(trace, kind, "file." + kind)
        piped = subprocess.run([OPGAP, "export", "--to", kind, "-o", "-", trace], capture_output=True)
        with open(path, "rb") as file:
            expect(piped.stdout == file.read(), True, kind + " on stdout")
        expect((piped.returncode, piped.stderr), (0, b""), "messages beside it")
    with gzip.open(export(trace, "csv", "packed.csv.gz")) as packed, open(os.path.join(WORK, "file.csv"), "rb") as file:
        expect(packed.read() == file.read(), True, "gzip")
    if shutil.which("zstd"):
        packed = export(trace, "csv", "packed.csv.zst")
        with open(os.path.join(WORK, "file.csv"), "rb") as file:
            expect(subprocess.run(["zstd", "-dc", packed], capture_output=True).stdout == file.read(), True, "zstd")
    else:
        print("left out: zstd (the program is not installed)")


def peak_kib(command):
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    expect(os.waitstatus_to_exitcode(status), 0, "exit status of " + " ".join(command))
    return usage.ru_maxrss


def size_kib(folder):
    return sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder)) >> 10


def case_memory():
    """Ten times the spans, one range around all of them: no more memory but for the mapped file itself."""
    small, large = trace_of("small", [SPANS, "60000"]), trace_of("large", [SPANS, "600000"])
    mapped = size_kib(large) - size_kib(small)
    for kind in FORMATS:
        target = os.path.join(WORK, "memory." + kind)
        first, second = (peak_kib([OPGAP, "export", "--to", kind, "-o", target, trace]) for trace in (small, large))
        cache = 8192 if kind == "sqlite" else 0  # SQLite's page cache, which the small trace does not fill
        expect(second <= first + mapped + cache + 2048, True,
               "%s: peak of %d KiB, %d KiB for a tenth (the file is %d KiB larger)" % (kind, second, first, mapped))


def main():
    case = globals().get("case_" + sys.argv[8]) if len(sys.argv) > 8 else None
    if case is None:
        sys.exit("no such case: one of " + " ".join(n[5:] for n in globals() if n.startswith("case_")))
    try:
        case()
    except Skipped as reason:
        print("skipped: %s" % reason)
        return 77
    except Failure as failure:
        print("FAILED %s: %s" % (sys.argv[8], str(failure)[:4000]))
        return 1
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
