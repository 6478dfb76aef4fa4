"""The page of `opgap html` in a browser: what it draws is compared with `opgap report --format json`.

    page_test.py OPGAP FAKES SCENE CASE

OPGAP: the command; FAKES: folder of the fake GPU; SCENE: the program of scene.c.
"""
import json
import os
import sys
import tempfile

from browser import Page, need_browser, run

OPGAP, FAKES, SCENE, CASE = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
STEPS = 40  # of the GPU scenario


def equal(what, seen, wanted):
    if seen != wanted:
        raise AssertionError("%s: %.800s, expected %.800s" % (what, seen, wanted))


def same(what, seen, wanted):
    """Equal, leaf by leaf; JavaScript has integers above 2^53 (points in real time) to 16 digits."""
    if isinstance(wanted, dict):
        equal("keys of " + what, sorted(seen), sorted(wanted))
        for key in wanted:
            same("%s.%s" % (what, key), seen[key], wanted[key])
    elif isinstance(wanted, list):
        equal("length of " + what, len(seen), len(wanted))
        for index, value in enumerate(wanted):
            same("%s[%d]" % (what, index), seen[index], value)
    elif isinstance(wanted, int) and abs(wanted) > 2 ** 53:
        equal(what, float(seen), float(wanted))
    else:
        equal(what, seen, wanted)


def true(what, seen):
    if not seen:
        raise AssertionError(what)


def record(name, *command, **environment):
    run([OPGAP, "record", "--out", name + ".opgap", "--", *command], **environment)
    return name + ".opgap"


def gpu_trace():
    """Steps of 3 ms of kernels, and 0.5 ms from another thread, on the fake GPU: a gap of 2 ms after each."""
    return record("gpu", os.path.join(FAKES, "gpu_scenario"), "ranges", str(STEPS), PLANT_SLEEP="2000",
                  LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"))


def scene_trace(threads=2, steps=50, ops=20, name="scene", **settings):
    return record(name, SCENE, str(threads), str(steps), str(ops), "\"><script>window.hacked = 6</script>",
                  OPGAP_BUFFER="512M", **settings)


def report(trace, *options):
    return json.loads(run([OPGAP, "report", "--format", "json", "--limit", "2000", *options, trace]))


def make(trace, *options):
    run([OPGAP, "html", trace, "-o", "page.html", *options])
    true("the page is below 5 MB", os.path.getsize("page.html") < 5000000)
    return "page.html"


def quiet(page):
    """Nothing was said on the console, and nothing was loaded."""
    equal("the console", page.console(), [])
    equal("loaded resources", page.js("performance.getEntriesByType('resource').map(e => e.name)"), [])


def rows(page, table):
    """Cells of the drawn rows: the exact value of numbers, the text of others."""
    return page.js("[...document.querySelectorAll('#%s tbody tr')].map(tr => [...tr.cells].map(c => "
                   "c.dataset.value === undefined ? c.textContent : Number(c.dataset.value)))" % table)


def head(page, table, title):
    page.do("[...document.querySelectorAll('#%s th button')].find(b => b.textContent === %s).click()" % (table, json.dumps(title)))


def check_table(page, table, wanted, columns):
    """columns: index of the cell to the key of the report's row."""
    seen = rows(page, table)
    equal("rows of " + table, len(seen), min(20, len(wanted)))
    for row, expected in zip(seen, wanted):
        for index, key in columns.items():
            equal("%s, %s" % (table, key), row[index], "\u2013" if expected[key] is None else expected[key])


def drawn(page, selector):
    """Number of elements that have an extent."""
    return page.js("[...document.querySelectorAll(%s)].filter(e => { const b = e.getBoundingClientRect(); "
                   "return b.width > 0 && b.height > 0; }).length" % json.dumps(selector))


def attributes(page, selector, name):
    return page.js("[...document.querySelectorAll(%s)].map(e => e.getAttribute(%s))" % (json.dumps(selector), json.dumps(name)))


# ---- views ----

def check_steps(page, r):
    steps, breakdown = r["steps"], r["step_breakdown"]
    equal("points of the steps", [int(ns) for ns in attributes(page, "#chart-steps circle", "data-ns")], steps["durations_ns"])
    equal("hollow points", page.js("[...document.querySelectorAll('#chart-steps circle')].filter(c => "
                                   "c.getAttribute('fill') === opgap.css('--bg')).length"), steps["skipped"])
    classes = {key[:-3]: ns for key, ns in breakdown.items() if key.endswith("_ns") and ns}
    equal("classes", dict(zip(attributes(page, "#steps [data-class]", "data-class"),
                              map(int, attributes(page, "#steps [data-class]", "data-ns")))), classes)
    true("classes add up to the steps", sum(classes.values()) == sum(steps["durations_ns"][steps["skipped"]:]))
    course = {key[:-3] for key, values in breakdown["course"].items() if key.endswith("_ns") and any(values)}
    equal("layers of the breakdown", set(attributes(page, "#chart-breakdown path[data-key]", "data-key")), course)
    equal("layers with an extent", drawn(page, "#chart-breakdown path[data-key]"), len(course))


def check_gpu(page, r):
    device = r["over_time"]["gpu"][0]
    equal("busy time over time", sum(device["busy_ns"]), r["gpu"][0]["busy_ns"])
    sums = {"busy": sum(device["busy_ns"]), **{"idle: " + c: sum(ns) for c, ns in device["idle_ns"].items()}}
    legend = page.js("[...document.querySelectorAll('#gpu .legend li')].map(li => [li.querySelector('bdi').textContent, "
                     "Number(li.dataset.ns)])")
    equal("use and causes", dict(map(tuple, legend)), sums)
    equal("idle time over time", sum(sums.values()) - sums["busy"], r["idle_gaps"]["gpu_ns"])
    equal("layers of the GPU", set(attributes(page, "#chart-gpu-0 path[data-key]", "data-key")),
          {"busy", *device["idle_ns"]})
    check_table(page, "table-gpus", r["gpu"], {0: "device", 1: "name", 3: "busy_ns", 4: "kernel_ns", 9: "kernels"})
    check_table(page, "table-kernels", r["kernels"], {0: "name", 1: "calls", 2: "total_ns", 4: "min_ns", 5: "max_ns"})
    check_table(page, "table-gpu-gaps", r["idle_gaps"]["gpu"], {1: "start_ns", 2: "duration_ns", 5: "next", 6: "op_after", 7: "previous", 8: "op_before"})


def check_ops(page, r):
    ops = [row for row in r["hot_ops"] if row["kind"] in ("torch", "range")]
    check_table(page, "table-ops", ops, {3: "self_cpu_ns"})
    equal("pressed", page.js("document.querySelector('#ops-kinds [aria-pressed=true]').textContent"), "Ops and ranges")
    page.do("[...document.querySelectorAll('#ops-kinds button')].find(b => b.textContent === 'All').click()")
    by_name = sorted(r["hot_ops"], key=lambda row: row["calls"])
    head(page, "table-ops", "Calls")
    head(page, "table-ops", "Calls")
    calls = rows(page, "table-ops")
    column = page.js("[...document.querySelectorAll('#table-ops th')].findIndex(th => th.textContent === 'Calls')")
    equal("sorted upwards", [row[column] for row in calls], [row["calls"] for row in by_name][:len(calls)])
    equal("aria-sort", page.js("document.querySelectorAll('#table-ops th')[%d].getAttribute('aria-sort')" % column), "ascending")
    some = ops[0]["name"]
    page.type("#table-ops input", some.upper())
    matching = [row for row in r["hot_ops"] if some.lower() in row["name"].lower()]
    equal("filtered", len(rows(page, "table-ops")), min(20, len(matching)))
    equal("how many match", page.js("document.querySelector('#table-ops .count').textContent"),
          "%d of %d rows" % (len(matching), len(r["hot_ops"])))
    page.type("#table-ops input", "")


def flame_box(page, name):
    return page.js("(() => { const g = [...document.querySelectorAll('#flame-box g')].find(g => g.dataset.name === %s); "
                   "return g && [Number(g.dataset.ns), g.querySelector('rect').getBoundingClientRect().width]; })()" % json.dumps(name))


def check_flame(page, r, name):
    """The box of an op that is in one place of the tree has its total time; a click makes it as wide as the graph."""
    op = next(row for row in r["hot_ops"] if row["name"] == name and row["kind"] in ("torch", "range"))
    ns, wide = flame_box(page, name)
    equal("CPU time of " + name, ns, op["total_cpu_ns"])
    own = sum(row["self_cpu_ns"] for row in r["hot_ops"] if row["kind"] in ("torch", "range"))
    equal("CPU time of all", flame_box(page, "all")[0], own)
    whole = page.js("document.getElementById('flame-box').clientWidth")
    true("a box is as wide as its share", abs(wide / whole - ns / own) < 0.01)
    page.do("[...document.querySelectorAll('#flame-box g')].find(g => g.dataset.name === %s)"
            ".dispatchEvent(new MouseEvent('click'))" % json.dumps(name))
    equal("width after a click", round(flame_box(page, name)[1]), whole)
    true("its details", name in page.js("document.getElementById('flame-details').textContent"))
    page.press("#flame .tools button:last-child")
    equal("width of the whole graph", round(flame_box(page, name)[1]), round(wide))
    equal("one box takes the keyboard", page.js("document.querySelectorAll('#flame-box [tabindex=\"0\"]').length"), 1)
    page.do("document.querySelector('#flame-box [tabindex=\"0\"]').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.key(key)
    equal("arrow keys walk the tree", page.js("document.activeElement.getAttribute('data-name')"), r["processes"][0]["role_kind"])


def check_memory(page, r):
    samples = r["memory"]["samples"]
    true("there are samples", len(samples) > 0)
    equal("highest samples", sorted(map(int, attributes(page, "#memory [data-bytes]", "data-bytes"))),
          sorted(max(s["rss_bytes"]) for s in samples)[-8:])
    equal("lines", drawn(page, "#chart-memory path[data-key]") + drawn(page, "#chart-memory circle"), len(samples))


def check_alive(page, title, alive, key):
    """The table of what was alive, summed by what is chosen."""
    page.do("[...document.querySelectorAll('#alive-by button')].find(b => b.textContent === %s).click()" % json.dumps(title))
    sums = {}
    for row in alive:
        group = sums.setdefault(key(row), [0, 0])
        group[0] += row["bytes"]
        group[1] += row["blocks"]
    shown = rows(page, "table-alive")
    equal("rows " + title, len(shown), min(20, len(sums)))
    for name, size, _, blocks in shown:
        equal(title + " " + name, [size, blocks], sums[name])
    equal("largest first", [row[1] for row in shown], sorted((size for size, _ in sums.values()), reverse=True)[:20])


def case_memory():
    """What lived at the peak by op, thread and line, what grows, what failed: the report's figures."""
    trace = scene_trace(OPGAP_ALLOC="events")
    m = report(trace)["memory"]
    alive = [row for row in m["alive_at_peak"] if row["bytes"] > 0]
    grows = [row for row in alive if row["growth_low"] is not None and row["growth_low"] >= m["leak_least_bytes"]]
    equal("what grows", [(row["op"], row["growth_per_step"]) for row in grows], [("step", 4000)])
    equal("what failed", [(f["call"], f["bytes"], f["op"]) for f in m["failures"]], [("malloc", 1 << 50, "too <b>much</b>")])
    with Page(make(trace)) as page:
        check_alive(page, "By op", alive, lambda row: row["op"] or "(outside of ops)")
        check_alive(page, "By thread", alive, lambda row: "%s %d of pid %d" % (row["thread"] or "thread", row["tid"], row["pid"]))
        equal("no lines", page.js("document.querySelectorAll('#alive-by button').length"), 2)
        check_table(page, "table-growth", grows, {0: "op", 1: "growth_per_step", 3: "growth_points", 4: "bytes"})
        check_table(page, "table-failures", m["failures"], {0: "time_ns", 1: "call", 2: "bytes", 3: "op"})
        true("what came before", m["failures"][0]["last"][0] in page.js("document.querySelector('#table-failures tbody').textContent"))
        true("churn", "%d allocations" % m["churn"]["allocations"] in page.js("document.getElementById('memory').textContent"))
        quiet(page)
    trace = scene_trace(name="lines", OPGAP_ALLOC="events", OPGAP_STACKS="native", OPGAP_MIN_ALLOC="4000")
    alive = [row for row in report(trace)["memory"]["alive_at_peak"] if row["bytes"] > 0]
    with Page(make(trace)) as page:
        if any(row["source_location"] for row in alive):
            check_alive(page, "By line", alive, lambda row: row["source_location"] or "not recorded")
        else:
            print("left out: blocks by line (no stacks: libunwind or line numbers are missing)")
            equal("no lines", page.js("document.querySelectorAll('#alive-by button').length"), 2)
        quiet(page)


def case_views():
    trace = gpu_trace()
    r = report(trace)
    with Page(make(trace)) as page:
        same("report", page.js("opgap.data.report"), r)
        equal("bound", page.js("document.getElementById('bound').textContent"), "Bound by " + r["verdict"]["bound_by"]
              if r["verdict"]["bound_by"] != "undecided" else "Undecided: the figures do not name one bound")
        equal("evidence and remedies", page.js("[...document.querySelectorAll('.verdict li')].map(li => li.textContent)"),
              r["verdict"]["evidence"] + r["verdict"]["remedies"])
        equal("duration and median step", [int(ns) for ns in attributes(page, ".tile[data-ns]", "data-ns")],
              [r["trace"]["duration_ns"], r["steps"]["median_ns"]])
        check_table(page, "table-bottlenecks", r["verdict"]["bottlenecks"], {0: "kind", 1: "share", 2: "ns", 4: "text", 5: "remedy"})
        check_steps(page, r)
        check_gpu(page, r)
        check_ops(page, r)
        check_flame(page, r, "step")
        page.press("#flame-selfGpu")
        equal("GPU time of forward", flame_box(page, "forward")[0], STEPS * 1000000)
        equal("GPU time of step", flame_box(page, "step")[0], STEPS * 3000000)
        equal("GPU time of all", flame_box(page, "all")[0], STEPS * 3500000)
        check_table(page, "table-processes", r["processes"], {0: "pid", 1: "role", 2: "command", 3: "start_ns"})
        page.type("#table-kernels input", "no such kernel")
        equal("no kernel matches", rows(page, "table-kernels"), [])
        true("about", "opgap_version" in page.js("document.getElementById('about').textContent"))
        quiet(page)
    trace = scene_trace()
    r = report(trace)
    with Page(make(trace)) as page:
        same("report", page.js("opgap.data.report"), r)
        check_memory(page, r)
        check_table(page, "table-files", r["files"], {0: "path", 1: "operation", 2: "calls", 3: "bytes", 4: "time_ns"})
        check_table(page, "table-locks", r["locks"], {0: "pid", 1: "call", 3: "waits", 4: "wait_ns", 7: "held_by"})
        check_table(page, "table-calls", [c for c in r["calls"]], {4: "time_ns"} if all(c["time_ns"] is not None for c in r["calls"]) else {})
        check_table(page, "table-thread-gaps", r["idle_gaps"]["threads"], {1: "start_ns", 2: "duration_ns", 3: "process"})
        causes = page.js("[...document.querySelectorAll('#gaps [data-cause]')].map(li => [li.dataset.cause, Number(li.dataset.ns)])")
        sums = {}
        for cause in r["idle_gaps"]["by_cause"]:
            sums[cause["cause"]] = sums.get(cause["cause"], 0) + cause["ns"]
        equal("causes", dict(map(tuple, causes)), sums)
        equal("causes over time", {c: sum(ns) for c, ns in r["over_time"]["thread_gap_ns"].items()}, sums)
        check_table(page, "table-threads", sorted(r["threads"], key=lambda row: -(row["run_ns"] or -1)),
                    {5: "run_ns", 7: "blocked_ns"})
        true("no workers is explained", page.js("document.querySelector('#loader .empty') !== null"))
        true("no GPU is explained", "used no GPU" in page.js("document.querySelector('#gpu .empty').textContent"))
        quiet(page)


def case_loader():
    """Workers, the times that they were made, and the pin-memory thread: of made-up figures, each its own."""
    keys = ("startup_ns busy_ns idle_ns file_ns lock_ns sleep_ns network_ns child_ns run_queue_ns read_bytes awaited_ns").split()
    workers = [{"worker": w, "pid": 200 + w, "start_ns": 1000 * w, "batches": 10 + w, "source_location": None, "source_ns": 0,
                **{key: None if w == 1 and key == "startup_ns" else 1000000 * (i + 1) + w for i, key in enumerate(keys)}}
               for w in range(2)]
    epochs = [{"start_ns": 1000 * e, "workers": 2 + e, "startup_ns": 3000 + e, "first_batch_ns": 4000 + e, "first_wait_ns": 5000 + e,
               "fetches": 60 + e, "wait_ns": 7000 + e} for e in range(3)]
    loader = {"workers": 2, "fetches": 180, "fetch_ns": 9, "waited": 30, "wait_ns": 2000000, "startup_wait_ns": 1000000, "ready_batches": 1.5,
              "ready_start_ns": None, "ready_chunk_ns": None, "ready_over_time": [], "epochs": epochs, "processes": workers,
              "pin_memory": {"threads": 1, "batches": 177, "wait_ns": 3000000, "busy_ns": 4000000, "ready_batches": 0.5}}
    place = "document.getElementById('loader').replaceChildren(...opgap.loaderView({ report: { data_loader: %s } }).flat(3))"
    with Page(make(scene_trace())) as page:
        page.do(place % json.dumps(loader))
        check_table(page, "table-workers", workers, dict(enumerate(["worker", "pid", "start_ns", "batches", *keys])))
        titles = page.js("[...document.querySelectorAll('#table-workers th')].map(th => th.textContent.trim())")
        equal("what workers waited for", titles[8:13], ["Locks", "Sleep", "Network", "Child processes", "Waiting for a CPU"])
        check_table(page, "table-epochs", epochs, dict(enumerate(
            ["start_ns", "workers", "startup_ns", "first_batch_ns", "first_wait_ns", "fetches", "wait_ns"])))
        tiles = "[...document.querySelectorAll('#loader .tile')].map(t => t.textContent)"
        pinned = [text for text in page.js(tiles) if "Pin-memory" in text]
        equal("tiles of the pin-memory thread", len(pinned), 1)
        for words in ("177 batches", "of the ready ones 0.5 were pinned"):
            true("'%s' in %s" % (words, pinned), words in pinned[0])
        page.do(place % json.dumps({**loader, "pin_memory": None, "epochs": []}))
        equal("neither", [page.js(tiles + ".length"), page.js("document.getElementById('table-epochs')")], [4, None])
        quiet(page)


# ---- timeline ----

def state(page):
    return page.js("({ from: opgap.timelineApi.state.from, to: opgap.timelineApi.state.to })")


def spot(page, name, index=0):
    """Viewport coordinates of the middle of the index-th span with this name, its track's title, start and end."""
    return page.js("""(() => {
      const api = opgap.timelineApi, data = opgap.data, box = api.canvas.getBoundingClientRect();
      for (const group of api.groups)
        for (const row of group.tracks)
          for (const run of data.sets[0].runs)
            if (run.track === row.t) {
              const at = [...run.entry.keys()].filter(i => data.entries[run.entry[i]].name === %s);
              if (at.length > %d) {
                const i = at[%d], p = api.place(row, run.lane, (run.start[i] + run.end[i]) / 2);
                return { x: box.left + p.x, y: box.top + p.y, px: p.x, py: p.y, title: row.title, start: run.start[i], end: run.end[i],
                  count: at.length };
              }
            }
      return null; })()""" % (json.dumps(name), index, index))


def pixel(page, place):
    page.frame()
    return page.js("""(() => { const c = opgap.timelineApi.canvas, r = devicePixelRatio;
      return [...c.getContext("2d").getImageData(%f * r, (%f - 5) * r, 1, 1).data]; })()""" % (place["px"], place["py"]))


def details(page):
    return page.js("document.getElementById('timeline-details').textContent")


def show(page, selector="#timeline-canvas"):
    page.do("document.querySelector(%s).scrollIntoView({ block: 'center' })" % json.dumps(selector))
    page.frame()


def check_moving(page, duration):
    show(page)
    equal("at first", state(page), {"from": 0, "to": duration})
    page.press("#timeline-in")
    span = state(page)["to"] - state(page)["from"]
    equal("the button zooms in", round(span), round(duration * 0.6))
    page.press("#timeline-out")
    equal("and out", state(page), {"from": 0, "to": duration})
    show(page)
    box = page.js("(() => { const b = opgap.timelineApi.canvas.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
    middle = (box[0] + 190 + (box[2] - 190) / 2, box[1] + 60)
    page.mouse("mouseWheel", *middle, deltaX=0, deltaY=-200, modifiers=2)
    page.frame()
    zoomed = state(page)
    true("Ctrl and wheel zoom around the pointer", abs(zoomed["to"] + zoomed["from"] - duration) < duration * 0.02 and
         zoomed["to"] - zoomed["from"] < duration * 0.7)
    page.mouse("mousePressed", *middle, button="left", clickCount=1)
    page.mouse("mouseMoved", middle[0] - 100, middle[1], button="left")
    page.mouse("mouseReleased", middle[0] - 100, middle[1], button="left", clickCount=1)
    page.frame()
    moved = (state(page)["from"] - zoomed["from"]) / (zoomed["to"] - zoomed["from"])
    true("dragging moves by as much (%f)" % moved, abs(moved - 100 / (box[2] - 190)) < 0.002)
    before = state(page)
    page.key("ArrowRight")
    true("an arrow key moves", state(page)["from"] > before["from"])
    page.key("+", "Equal", "+")
    true("a key zooms", state(page)["to"] - state(page)["from"] < before["to"] - before["from"])
    page.key("0", "Digit0", "0")
    equal("a key shows all", state(page), {"from": 0, "to": duration})
    overview = page.js("(() => { const b = document.querySelector('#timeline-overview .overlay').getBoundingClientRect(); "
                       "return [b.left, b.top, b.width, b.height]; })()")
    y = overview[1] + overview[3] / 2
    page.do("opgap.timelineApi.view(0, opgap.data.duration / 10)")
    page.mouse("mousePressed", overview[0] + overview[2] * .5, y, button="left", clickCount=1)
    page.mouse("mouseMoved", overview[0] + overview[2] * .75, y, button="left")
    page.mouse("mouseReleased", overview[0] + overview[2] * .75, y, button="left", clickCount=1)
    page.frame()
    chosen = state(page)
    true("dragging in the overview chooses a part", abs(chosen["from"] / duration - .5) < .01 and abs(chosen["to"] / duration - .75) < .01)
    page.press("#timeline-all")


def check_clicks(page):
    show(page)
    kernel = spot(page, "spin(unsigned long long)", 20)
    equal("kernels of the default stream", kernel["count"], 3 * STEPS)
    equal("duration of a kernel", kernel["end"] - kernel["start"], 1000000)
    page.do("opgap.timelineApi.view(%d, %d)" % (kernel["start"] - 10000000, kernel["end"] + 10000000))  # wide on any machine
    page.frame()
    kernel = spot(page, "spin(unsigned long long)", 20)
    background = page.js("d3.rgb(opgap.css('--panel'))")
    colour = pixel(page, kernel)
    wanted = page.js("d3.rgb(opgap.shade(opgap.colours.span.kernel, 'spin(unsigned long long)'))")
    true("a kernel is drawn in its colour: %r, %r" % (colour, wanted),
         all(abs(colour[i] - wanted[c]) < 4 for i, c in enumerate("rgb")))
    true("which is not the background", any(abs(colour[i] - background[c]) > 30 for i, c in enumerate("rgb")))
    page.click(kernel["x"], kernel["y"])
    true("details of a kernel: " + details(page), all(text in details(page) for text in (
        "spin(unsigned long long)", "1.000 ms (1,000,000 ns)", kernel["title"], "kernel", format(int(kernel["start"]), ",") + " ns")))
    page.key("Enter")
    seen = state(page)
    true("Enter zooms to it", seen["from"] < kernel["start"] and seen["to"] > kernel["end"] and seen["to"] - seen["from"] < 1600000)
    page.press("#timeline-all")
    show(page)
    equal("one step each", spot(page, "step")["count"], STEPS)


def check_search(page):
    page.type("#timeline-search", "forward")
    equal("matches", page.js("document.getElementById('timeline-found').textContent"), "%d spans of 1 names" % STEPS)
    page.press("#timeline-next")
    page.press("#timeline-next")
    equal("second match", page.js("document.getElementById('timeline-found').textContent"), "2 of %d spans of 1 names" % STEPS)
    second = spot(page, "forward", 1)
    selected = page.js("({ start: opgap.timelineApi.state.selected.start, end: opgap.timelineApi.state.selected.end })")
    equal("it is selected", selected, {"start": second["start"], "end": second["end"]})
    true("and in view", state(page)["from"] <= second["start"] and state(page)["to"] >= second["end"])
    page.type("#timeline-search", "no such span")
    equal("no match", page.js("document.getElementById('timeline-found').textContent"), "0 spans of 0 names")
    page.type("#timeline-search", "")
    page.press("#timeline-all")


def check_jumps(page, r):
    true("gaps after the steps", len(r["idle_gaps"]["gpu"]) >= STEPS // 2)
    gap = r["idle_gaps"]["gpu"][1]
    page.press("#table-gpu-gaps tbody tr:nth-child(2) button")
    seen = state(page)
    true("a gap's row shows the gap", seen["from"] <= gap["start_ns"] and seen["to"] >= gap["start_ns"] + gap["duration_ns"] and
         seen["to"] - seen["from"] < gap["duration_ns"] * 1.6 + 200)
    equal("and marks it", page.js("[opgap.timelineApi.state.selected.start, opgap.timelineApi.state.selected.end]"),
          [gap["start_ns"], gap["start_ns"] + gap["duration_ns"]])
    true("the timeline is on the screen", page.js("document.getElementById('timeline').getBoundingClientRect().top") < 200)
    windows = page.js("opgap.data.sets.slice(1).map(s => [s.label, s.from, s.to])")
    true("median step, p95 step, the longest gaps", [w[0] for w in windows] ==
         ["median step", "p95 step"] + ["GPU gap"] * min(8, len(r["idle_gaps"]["gpu"])) +
         ["thread gap"] * min(8, len(r["idle_gaps"]["threads"])))
    page.do("const s = document.getElementById('timeline-places'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    median = windows[0]
    near = min(r["steps"]["durations_ns"][r["steps"]["skipped"]:], key=lambda ns: abs(ns - r["steps"]["median_ns"]))
    equal("the window of the median step", median[2] - median[1], near)
    true("choosing a window shows it", state(page)["from"] <= median[1] and state(page)["to"] >= median[2])


def case_timeline():
    trace = gpu_trace()
    r = report(trace)
    with Page(make(trace)) as page:
        check_moving(page, r["trace"]["duration_ns"])
        check_clicks(page)
        check_search(page)
        check_jumps(page, r)
        quiet(page)


# ---- names ----

def case_hostile():
    trace = scene_trace()
    r = report(trace)
    names = [row["name"] for row in r["hot_ops"] if row["kind"] == "range"]
    with Page(make(trace)) as page:
        page.do("document.querySelectorAll('.more-rows').forEach(b => b.click())")
        table = [row[0] for row in rows(page, "table-ops")]
        shown = {"</script><script>window.hacked = 1</script>", "\"><img src=x onerror=\"window.hacked = 2\">",
                 "{\"a\": \"]]>--><!--", "bell\\x07 escape\\x1b[31m\\x0d\\x0aline", "broken \\xff\\xc3 utf-8 \\xe2\\x82",
                 "right to left \\u202e override", "na\u00efve \U0001f600", "${window.hacked = 3} javascript:window.hacked=4"}
        equal("hostile names are shown as they are", shown - set(table), set())
        true("the long name is there", any(set(name) == {"x"} and len(name) > 200 for name in names))
        true("the file", "<img src=x onerror='window.hacked = 5'>" in page.js("document.getElementById('files').textContent"))
        true("the thread", "<b>holder</b>" in page.js("document.getElementById('locks').textContent"))
        true("the command", "<script>window.hacked = 6</script>" in page.js("document.getElementById('processes').textContent"))
        for name in ("</script>", "<img", "bell", "broken", "right"):
            page.type("#timeline-search", name)
            page.press("#timeline-next")
            true("found: " + name, name in details(page))
            page.type("#flame input", name)
        equal("nothing became markup", page.js("document.querySelectorAll('main img, main b, main script').length"), 0)
        equal("nothing ran", page.js("window.hacked === undefined"), True)
        quiet(page)
    with open("page.html", "rb") as file:
        true("no name is in the file as it is", b"window.hacked" not in file.read())


# ---- many spans ----

def case_merged():
    """More spans than are kept: bins for the whole run, all of a window; exact sums all the same."""
    threads, steps, ops = 4, 400, 100
    trace = scene_trace(threads, steps, ops)
    r = report(trace)
    first = r["steps"]["start_ns"][200] / 1e9
    with Page(make(trace, "--detail", "%.9fs:%.9fs" % (first, first + r["steps"]["durations_ns"][200] / 1e9))) as page:
        same("report", page.js("opgap.data.report"), r)
        ranges = sum(row["calls"] for row in r["hot_ops"] if row["kind"] == "range")
        equal("ranges", ranges, threads * steps * (ops + 1) + 10)
        counted = page.js("opgap.data.tracks.reduce((sum, track) => sum + track.spans, 0)")
        equal("spans of all tracks", counted, page.js("opgap.data.spans"))
        true("all ranges are among them", counted >= ranges)
        whole = page.js("(({ count, leftOut, min }) => ({ count, leftOut, min }))(opgap.data.sets[0])")
        equal("kept or left out", whole["count"] + whole["leftOut"], counted)
        true("some were merged", 0 < whole["count"] <= 60000 and whole["leftOut"] > 0)
        detail = page.js("opgap.data.sets.find(s => s.label === '--detail').leftOut")
        equal("a window has all", detail, 0)
        inside = page.js("""(() => { const set = opgap.data.sets.find(s => s.label === '--detail');
          return set.runs.filter(run => run.lane === 1).reduce((sum, run) => sum + [...run.entry].filter((e, i) =>
            /^op /.test(opgap.data.entries[e].name) && opgap.data.tracks[run.track].tid === opgap.data.report.processes[0].pid).length, 0); })()""")
        true("the ops of a step are in its window: %d" % inside, ops <= inside <= ops + 2)
        show(page)
        lit = page.js("""(() => { const a = opgap.timelineApi, c = a.canvas, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
          let n = 0; for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - d[i + 2]) > 25) n++; return n; })()""")
        true("coloured pixels: %d" % lit, lit > 2000)
        quiet(page)


def case_many_steps():
    """More steps than points: the slowest of each two."""
    count = 30000
    trace = scene_trace(1, count, 1)
    durations = report(trace)["steps"]["durations_ns"]
    with Page(make(trace)) as page:
        equal("steps", page.js("opgap.data.steps"), count)
        equal("steps of a point", page.js("opgap.data.stepsPerPoint"), 2)
        equal("points", page.js("opgap.data.report.steps.durations_ns"),
              [max(pair) for pair in zip(durations[::2], durations[1::2])])
        equal("buckets of the breakdown", page.js("opgap.data.report.step_breakdown.course.bucket_steps"), 15)
        equal("the chart's line", drawn(page, "#chart-steps path.line"), 1)
        true("the number of steps", "30,000 steps" in page.js("document.getElementById('steps').textContent"))
        quiet(page)


def case_gaps():
    """More gaps than a report lists: --limit holds for them, too."""
    trace = record("gaps", "python3", "-c", "import time\nfor i in range(70): time.sleep(0.002)")
    listed = json.loads(run([OPGAP, "report", "--format", "json", "--limit", "50", trace]))["idle_gaps"]["threads"]
    equal("gaps of the report", len(listed), 50)
    count = "opgap.data.report.idle_gaps.threads.length"
    with Page(make(trace)) as page:
        true("gaps of the page", page.js(count) >= 70)
        quiet(page)
    with Page(make(trace, "--limit", "60")) as page:
        equal("gaps with --limit 60", page.js(count), 60)


def case_ranks():
    rank = "RANK=%%d WORLD_SIZE=2 '%s' allreduce 20 &" % os.path.join(FAKES, "gpu_scenario")
    trace = record("ranks", "sh", "-c", rank % 0 + rank % 1 + " wait", LD_LIBRARY_PATH=os.path.join(FAKES, "cuda12"))
    r = report(trace)
    equal("ranks of the trace", [row["rank"] for row in r["ranks"]["table"]], [0, 1])
    with Page(make(trace)) as page:
        check_table(page, "table-ranks", r["ranks"]["table"], {0: "rank", 1: "pid", 2: "host", 3: "steps", 4: "step_median_ns",
                                                               5: "step_p95_ns", 8: "waited_ns", 9: "caused_ns"})
        true("the view's name", "Ranks" in page.js("document.getElementById('nav').textContent"))
        titles = page.js("opgap.timelineApi.groups.map(group => group.title)")
        for row in r["ranks"]["table"]:
            true("rank %d in the timeline: %r" % (row["rank"], titles),
                 any("rank %d" % row["rank"] in title and "pid %d" % row["pid"] in title for title in titles))
        quiet(page)


# ---- other places ----

def case_phone():
    for trace in (gpu_trace(), scene_trace()):
        with Page(make(trace), width=375, height=812, dark=True) as page:
            equal("no overflow", page.js("document.documentElement.scrollWidth"), 375)
            equal("theme of the system", page.js("document.documentElement.dataset.theme"), "dark")
            dark = page.js("getComputedStyle(document.body).backgroundColor")
            page.press("#theme")
            equal("the other theme", page.js("document.documentElement.dataset.theme"), "light")
            true("another background", page.js("getComputedStyle(document.body).backgroundColor") != dark)
            equal("every view has content", page.js("[...document.querySelectorAll('main > section')].filter(s => s.children.length < 2 "
                                                     "|| s.getBoundingClientRect().height < 50).map(s => s.id)"), [])
            before = state(page)
            show(page)
            x, y = page.js("(() => { const b = opgap.timelineApi.canvas.getBoundingClientRect(); return [b.left + 200, b.top + 60]; })()")
            for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 80), ("touchEnd", 0)):
                points = [] if kind == "touchEnd" else [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}]
                page.command("Input.dispatchTouchEvent", type=kind, touchPoints=points)
            page.frame()
            true("two fingers zoom", state(page)["to"] - state(page)["from"] < (before["to"] - before["from"]) * 0.7)
            quiet(page)


def case_paper():
    trace = gpu_trace()
    with Page(make(trace)) as page:
        page.command("Emulation.setEmulatedMedia", media="print")
        hidden = page.js("['nav', '#theme', '.tools'].map(s => getComputedStyle(document.querySelector(s)).display)")
        equal("what has no use on paper", hidden, ["none"] * 3)
        page.command("Emulation.setEmulatedMedia", media="")
        page.do("""addEventListener("beforeprint", () => { // after the page's own
          const c = opgap.timelineApi.canvas, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
          window.onPaper = 0; for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - d[i + 2]) > 25) window.onPaper++; })""")
        pdf = page.command("Page.printToPDF", printBackground=True)["data"]
        true("a PDF: %d bytes" % len(pdf), len(pdf) > 40000)
        true("the timeline is drawn on it: %d" % page.js("window.onPaper"), page.js("window.onPaper") > 2000)
        quiet(page)


def main():
    need_browser()
    with tempfile.TemporaryDirectory(prefix="opgap-html-") as folder:
        os.chdir(folder)
        globals()["case_" + CASE]()
        os.chdir("/")
    print("passed")


main()
