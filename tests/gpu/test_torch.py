#!/usr/bin/env python3
"""A CUDA build of PyTorch, unchanged, on the fake GPU, under opgap and torch.profiler.

    test_torch.py LIBOPGAP FAKES OPGAP PYTHON CUDA_HEADERS

FAKES: folder of the built fakes; PYTHON: an interpreter with torch; CUDA_HEADERS: folder of cuda_runtime_api.h.  What
torch's libraries ask of CUDA and the fakes do not have becomes a function that reports "not supported".  Kernels do not
compute; what is compared is which ran, by whose record.  Exit status: 1 something differs, 77 it cannot be tried here.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBOPGAP, FAKES, OPGAP, PYTHON, HEADERS = map(os.path.abspath, sys.argv[1:6])
HERE = os.path.dirname(os.path.abspath(__file__))
GENERATION = "cuda13"
failed = 0


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def expect(seen, wanted, what):
    global failed
    if seen != wanted:
        failed = 1
        if isinstance(seen, dict) and isinstance(wanted, dict):
            seen, wanted = ({k: d[k] for k in sorted(d) if seen.get(k) != wanted.get(k)} for d in (seen, wanted))
        print("FAILED  %s: %.400r, expected %.400r" % (what, seen, wanted))
    else:
        print("ok      " + what)


def torch_folder():
    find = ("import importlib.util, os, runpy; spec = importlib.util.find_spec('torch'); "
            "folder = spec.submodule_search_locations[0]; "
            "print(folder, runpy.run_path(os.path.join(folder, 'version.py'))['cuda'])")
    done = subprocess.run([PYTHON, "-c", find], capture_output=True, text=True)
    if done.returncode != 0:
        skip("no torch in " + PYTHON)
    folder, version = done.stdout.split()
    if not version.startswith("13."):
        skip("torch for CUDA %s; the fakes have 13" % version)
    with open(os.path.join(HEADERS, "cuda_runtime_api.h")) as header:
        if not re.search(r"#define CUDART_VERSION\s+13", header.read()):
            skip("no headers of CUDA 13 in " + HEADERS)
    return folder


def symbols(library, defined):
    text = subprocess.run(["nm", "-D", "--defined-only" if defined else "--undefined-only", library],
                          capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines() if line.strip()}


def stubs(names, folder, file):
    path = os.path.join(folder, file)
    with open(path, "w") as source:
        for name in sorted(names):
            source.write("int %s(void); __attribute__((visibility(\"default\"))) int %s(void) { return 801; }\n"
                         % (name, name))
    return path


def build(work, torch):
    """The libraries that are loaded before torch's; returns them in this order."""
    cc = os.environ.get("CC", "cc")
    fakes = [os.path.join(FAKES, GENERATION, name) for name in ("libcudart.so.13", "libcupti.so.13")]
    shutil.copytree(os.path.join(FAKES, GENERATION), os.path.join(work, "lib"))
    libraries = glob.glob(torch + "/lib/*.so*") + glob.glob(os.path.join(torch, "../nvidia/**/*.so*"), recursive=True)
    libraries = [x for x in libraries if not re.search("libcudart|libcupti", x)]
    wanted, known = set(), set()
    for library in libraries:
        wanted |= {x for x in symbols(library, False) if re.match("(__)?cuda[A-Z]|cupti", x)}
    for library in fakes:
        known |= symbols(library, True)
    extra = os.path.join(work, "extra.o")
    source = os.path.join(HERE, "../fakes/fake_torch.c")
    flags = ["-w", "-fPIC", "-std=gnu17", "-I", HEADERS]
    subprocess.run([cc, *flags, "-c", source, "-o", extra], check=True)
    known |= {line.split()[-1] for line in
              subprocess.run(["nm", "--defined-only", extra], capture_output=True, text=True).stdout.splitlines()}
    more = os.path.join(work, "libextra.so")
    subprocess.run([cc, *flags, "-shared", "-o", more, extra, stubs(wanted - known, work, "stubs.c")], check=True)
    # torch takes the driver's functions from the library by name
    names = set()
    for library in ("libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so", "libtorch_cpu.so"):
        with open(os.path.join(torch, "lib", library), "rb") as file:
            names |= {x.decode() for x in re.findall(rb"\0(cu[A-Z][A-Za-z0-9]{3,}(?:_v[0-9])?)(?=\0)", file.read())}
    driver = os.path.join(work, "lib/libcuda.so.1")
    names -= symbols(driver, True) | known | {"cuDevicePrimaryCtxGetState"}
    subprocess.run([cc, *flags, "-D_GNU_SOURCE", "-shared", "-fvisibility=hidden", "-o", driver, "-Wl,-soname,libcuda.so.1",
                    os.path.join(HERE, "../fakes/fake_cuda.c"), extra, stubs(names, work, "driver.c"),
                    "-Wl,--unresolved-symbols=ignore-all"], check=True)
    return [more] + [os.path.join(work, "lib", os.path.basename(x)) for x in fakes]


def train(work, libraries, mode, traced):
    env = {k: v for k, v in os.environ.items() if k not in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")}
    trace = os.path.join(work, "run.opgap")
    shutil.rmtree(trace, ignore_errors=True)
    env.update(LD_LIBRARY_PATH=os.path.join(work, "lib"), TRAIN_KIND="elementwise", OPGAP_OUT=trace,
               LD_PRELOAD=" ".join(([LIBOPGAP] if traced else []) + libraries))
    for _ in range(3):
        done = subprocess.run([PYTHON, os.path.join(HERE, "train.py"), mode], env=env, capture_output=True, text=True,
                              timeout=280)
        # PyTorch's threads race with the end of the interpreter; its gloo aborts so without the tracer as well
        if done.returncode != -6 or "terminate called without an active exception" not in done.stderr:
            break
        print("again: train.py %s aborted at its end" % mode)
        shutil.rmtree(trace, ignore_errors=True)
    if done.returncode != 0:
        print("FAILED  train.py %s: exit status %d: %s" % (mode, done.returncode, done.stderr[-2000:]))
        sys.exit(1)
    expect("after teardown" in done.stderr, False, mode + ": nothing after CUDA's teardown")
    report = None
    if traced:
        text = subprocess.run([OPGAP, "report", "--format", "json", "--limit", "0", trace], capture_output=True, text=True,
                              check=True).stdout
        report = json.loads(text)
    return json.loads(done.stdout.splitlines()[-1]), report


def kernels(report):
    return {k["name"]: k["calls"] for k in report["kernels"]}


def main():
    torch = torch_folder()
    work = tempfile.mkdtemp(prefix="opgap-torch-")
    try:
        libraries = build(work, torch)
        profiled, _ = train(work, libraries, "profiler", False)
        expect(len(profiled["kernels"]) >= 10, True, "torch.profiler's kernels")
        _, report = train(work, libraries, "plain", True)
        expect(kernels(report), profiled["kernels"], "kernels by name, as torch.profiler's")
        work_ns = sum(k["total_ns"] for k in report["kernels"]) + sum(c["total_ns"] for c in report["gpu_copies"]) + \
            sum(g["memset_ns"] for g in report["gpu"])
        owned = sum(o["self_gpu_ns"] for o in report["hot_ops"] if o["kind"] in ("torch", "range"))
        expect(owned, work_ns, "GPU time owned by PyTorch's ops")
        expect(report["steps"]["count"], 50, "steps")
        both, report = train(work, libraries, "both", True)
        expect(both["kernels"], profiled["kernels"], "torch.profiler inside the trace: its kernels")
        expect(both["in_time"], sum(both["kernels"].values()), "torch.profiler inside the trace: its times")
        expect(kernels(report), profiled["kernels"], "kernels after torch.profiler's part")
    finally:
        shutil.rmtree(work)
    return failed


sys.exit(main())
