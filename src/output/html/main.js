/* The views, one section each. */
(function (opgap) {
  const el = opgap.el, time = opgap.time, bytes = opgap.bytes, count = opgap.count, percent = opgap.percent;
  const empty = text => el("p", { class: "empty" }, text);
  const note = text => el("p", { class: "note" }, text);

  /* Columns of tables. */
  const nameOf = (title, key) => ({ title, value: row => row[key], name: true });
  const text = (title, key, more) => ({ title, value: row => row[key], ...more });
  const timeOf = (title, key, more) => ({ title, value: row => row[key], text: value => time(value), number: true, ...more });
  const countOf = (title, key, more) => ({ title, value: row => row[key], text: value => count(value), number: true, ...more });
  const bytesOf = (title, key, more) => ({ title, value: row => row[key], text: value => bytes(value), number: true, ...more });
  const estimated = more => ({ ...more, text: (value, row) => (row.estimated && value !== null ? "~" : "") + time(value) });

  function head(data) {
    const trace = data.report.trace, info = trace.info;
    const when = new Date(trace.start_realtime_ns / 1e6).toISOString().replace("T", " ").slice(0, 16) + " UTC";
    document.getElementById("what").append(opgap.name(trace.path), ` · ${when} · ${time(trace.duration_ns)}`,
      info.cpu ? ` · ${info.cpu}` : "");
    document.title = "opgap: " + trace.path;
  }

  function warnings(data) {
    const trace = data.report.trace, lines = [];
    if (trace.lost_threads > 0)
      lines.push(`${count(trace.lost_threads)} threads were not recorded: nothing of them is here.`);
    if (trace.lost_records > 0)
      lines.push(`${count(trace.lost_records)} records were lost: figures are too low by what they held.`);
    if (trace.invalid_records > 0)
      lines.push(`${count(trace.invalid_records)} records were invalid and are left out.`);
    if (!trace.complete)
      lines.push("Bytes of the trace are damaged or missing; this page shows what could be read.");
    lines.push(...trace.damage, ...trace.notices);
    const shown = trace.window_end_ns - trace.window_start_ns;
    if (shown < trace.duration_ns)
      lines.push(`Tables cover ${time(trace.window_start_ns)} to ${time(trace.window_end_ns)} of the run.`);
    return lines.length ? el("div", { class: "warnings" }, lines.map(line => el("p", {}, opgap.name(line)))) : null;
  }

  function tile(title, value, more, attributes) {
    return el("div", { class: "tile", ...attributes }, el("div", { class: "title" }, title), el("div", { class: "value" }, value),
      more ? el("div", { class: "more" }, more) : null);
  }

  function verdict(data) {
    const r = data.report, v = r.verdict, trace = r.trace;
    const list = (tag, items) => el(tag, {}, items.map(item => el("li", {}, opgap.name(item))));
    const bound = v.bound_by === "undecided" ? "Undecided: the figures do not name one bound" : `Bound by ${v.bound_by}`;
    const tiles = [tile("Duration", time(trace.duration_ns), `${count(trace.records)} records`, { "data-ns": trace.duration_ns })];
    if (r.steps.count > 0)
      tiles.push(tile("Steps", count(data.steps), `by ${r.steps.source}, ${count(r.steps.skipped)} warm-up`),
        tile("Median step", time(r.steps.median_ns), `p95 ${time(r.steps.p95_ns)}`, { "data-ns": r.steps.median_ns }));
    for (const gpu of r.gpu.slice(0, 4))
      tiles.push(gpu.busy_ns !== null ? tile(`GPU ${gpu.device} busy`, percent(gpu.utilisation), `${time(gpu.busy_ns)} of ${time(gpu.span_ns)}`)
        : tile(`GPU ${gpu.device} busy`, sampledUse(gpu), "of all processes, by NVML"));
    tiles.push(tile("Waits of threads", time(r.idle_gaps.thread_ns), `${count(r.idle_gaps.thread_count)} gaps`),
      tile("Memory", r.memory.peak_rss_bytes === null ? "–" : "~" + bytes(r.memory.peak_rss_bytes), "peak resident, sampled"),
      tile("Processes", count(r.processes.length), r.untraced.length ? `${count(r.untraced.length)} not traced` : "all traced"),
      tile("Cost of tracing", trace.overhead.hook_ns === null ? "–" : "~" + time(trace.overhead.hook_ns),
        `in hooks; flusher ${time(trace.overhead.flusher_cpu_ns)}`));
    return [el("div", { class: "verdict" }, el("div", { class: "bound", id: "bound" }, bound),
      el("div", { class: "note" }, `Confidence: ${v.confidence}`),
      el("div", { class: "columns" }, el("div", {}, el("h3", {}, "Evidence"), v.evidence.length ? list("ul", v.evidence) : note("None.")),
        el("div", {}, el("h3", {}, "What helps, the cheapest first"), v.remedies.length ? list("ol", v.remedies) : note("Nothing known.")))),
      warnings(data), el("div", { class: "tiles" }, tiles), bottlenecks(v)];
  }

  function bottlenecks(v) {
    if (v.bottlenecks.length === 0)
      return null;
    return [el("h3", {}, "Bottlenecks, by the step time that each may cost"), opgap.table({ id: "table-bottlenecks", label: "Bottlenecks",
      rows: v.bottlenecks, sort: 1, columns: [text("Kind", "kind", { class: "nowrap" }),
        { title: "Share of steps", value: row => row.share, text: percent, number: true, meter: true }, timeOf("Time", "ns"),
        { title: "At most", value: row => row.at_most_share, text: percent, number: true, help: "the share that it cannot exceed" },
        nameOf("What", "text"), nameOf("What helps", "remedy")] })];
  }

  /* What the class Other consists of, and how long the main thread could not run. */
  function stepNotes(b) {
    const parts = b.other.slice().sort((a, c) => c.ns - a.ns).filter(part => part.ns > b.other_ns / 100);
    return [parts.length ? "Other is " + parts.map(part => `${part.cause} ${time(part.ns / b.steps)}`).join(", ") + "." : "",
      b.off_cpu && b.off_cpu.run_queue_ns > 0 ? `For ${time(b.off_cpu.run_queue_ns / b.steps)} a step the main thread waited for a free CPU.` : ""]
      .filter(Boolean).join(" ");
  }

  function steps(data, go) {
    const r = data.report, b = r.step_breakdown;
    if (data.steps === 0)
      return [empty("No steps were found. Steps come from Optimizer.step, ProfilerStep or NVTX ranges, from opgap_step(), " +
        "or from repeated backward passes.")];
    const total = opgap.sum(opgap.CLASSES.map(key => b[key + "_ns"]));
    const rows = opgap.CLASSES.filter(key => b[key + "_ns"] > 0);
    const bar = el("div", { class: "bar", role: "img", "aria-label": "Share of each class of step time" }, rows.map(key => {
      const part = el("span", { title: `${opgap.className_[key]} ${percent(b[key + "_ns"] / total)}` });
      part.style.cssText = `width:${b[key + "_ns"] / total * 100}%;background:${opgap.colours.class_[key]}`;
      return part;
    }));
    return [note(`${count(data.steps)} steps by ${r.steps.source} of pid ${r.steps.pid}; the first ${count(r.steps.skipped)} are warm-up ` +
      "(hollow) and left out of the figures. Click a step to see it in the timeline."), opgap.stepChart(data, go),
      el("h3", {}, "Where the time of a step goes"),
      b.steps > 0 ? [bar, opgap.legend(rows.map(key => [opgap.colours.class_[key], opgap.className_[key],
        `${time(b[key + "_ns"] / b.steps)} a step, ${percent(b[key + "_ns"] / total)}`, { "data-class": key, "data-ns": b[key + "_ns"] }]))] : null,
      b.steps > 0 ? note(stepNotes(b)) : null,
      b.course.kernel_ns.length ? opgap.breakdownChart(data, go) : null];
  }

  /* What NVML told, in words. */
  function deviceState(s) {
    const words = [];
    if (s.sm_mhz !== null)
      words.push(`multiprocessors at ${count(Math.round(s.sm_mhz))} MHz` + (s.sm_mhz_most ? ` of ${count(s.sm_mhz_most)}` : ""));
    if (s.milliwatts !== null)
      words.push(`${(s.milliwatts / 1000).toFixed(0)} W` + (s.milliwatts_most ? ` of ${(s.milliwatts_most / 1000).toFixed(0)}` : ""));
    if (s.celsius !== null)
      words.push(`at most ${s.celsius} °C`);
    if (s.used_bytes !== null)
      words.push(`${bytes(s.used_bytes)} of ${bytes(s.total_bytes)} in use at most`);
    if (s.held_down > 0)
      words.push(`clocks held down in ${percent(s.held_down / s.samples)} of ${count(s.samples)} samples: ` + Object.keys(s.held_down_by || {}).join(", "));
    return words.join(", ") || `${count(s.samples)} samples, none with figures`;
  }

  function sampledUse(gpu) {
    return gpu.sampled_utilisation === null ? "–" : "~" + percent(gpu.sampled_utilisation);
  }

  function gpus(data, go) {
    const r = data.report;
    if (r.gpu.length === 0)
      return [empty(r.gpu_status === "no device" ? "This run used no GPU, so there is nothing to show here."
        : `No GPU activity was recorded: ${r.gpu_status}.`)];
    if (r.gpu.every(gpu => gpu.busy_ns === null))
      return [empty(`No GPU activity was recorded: ${r.gpu_status}.`),
        ...r.gpu.map(gpu => note(`GPU ${gpu.device} ran kernels for ${sampledUse(gpu)} of the time, of all processes, as NVML samples it` +
          (gpu.state ? `; ${deviceState(gpu.state)}.` : ".")))];
    const parts = [opgap.table({ id: "table-gpus", label: "Devices", rows: r.gpu, sort: 0, ascending: true, columns: [
      text("Device", "device", { number: true }), nameOf("Name", "name"), { title: "Busy", value: row => row.utilisation, text: percent, number: true },
      timeOf("Busy time", "busy_ns"), timeOf("Kernels", "kernel_ns"), timeOf("Copies", "memcpy_ns"), timeOf("Sets", "memset_ns"),
      timeOf("Collectives", "communication_ns"), timeOf("of them exposed", "exposed_communication_ns"), countOf("Launched", "kernels"),
      bytesOf("To device", "h2d_bytes"), bytesOf("To host", "d2h_bytes")] })];
    for (const gpu of r.gpu)
      if (gpu.state)
        parts.push(note(`GPU ${gpu.device} while it worked: ${deviceState(gpu.state)}.`));
    r.over_time.gpu.forEach((device, i) => {
      if (i >= 8)
        return;
      const groups = { busy: device.busy_ns, ...device.idle_ns }, colours = { busy: opgap.colours.span.kernel, ...opgap.colours.cause };
      parts.push(el("h3", {}, `GPU ${device.device}: busy and why idle, over time`),
        opgap.legend(Object.keys(groups).map(key => [colours[key], key === "busy" ? "busy" : `idle: ${key}`, time(opgap.sum(groups[key])),
          { "data-ns": opgap.sum(groups[key]) }])),
        opgap.shareChart(data, `chart-gpu-${device.device}`, groups, colours, 1,
          `Use of GPU ${device.device} and causes of its idleness over time`, go));
    });
    parts.push(el("h3", {}, "Kernels"), r.kernels.length ? opgap.table({ id: "table-kernels", filter: "Filter kernels", rows: r.kernels,
      sort: 2, columns: [nameOf("Kernel", "name"), countOf("Calls", "calls"), timeOf("Time", "total_ns", { meter: true }),
        { title: "Mean", value: row => row.total_ns / row.calls, text: value => time(value), number: true }, timeOf("Shortest", "min_ns"),
        timeOf("Longest", "max_ns"), { title: "Occupancy", value: row => row.occupancy, text: percent, number: true, help: "theoretical" },
        { title: "Grid", value: row => row.grid ? row.grid.join("×") : "–", class: "nowrap" },
        { title: "Block", value: row => row.block ? row.block.join("×") : "–", class: "nowrap" }] }) : note("No kernels ran."));
    if (r.gpu_copies.length)
      parts.push(el("h3", {}, "Copies"), opgap.table({ id: "table-copies", label: "Copies", rows: r.gpu_copies, sort: 5, columns: [
        text("Direction", "direction"), text("From", "source"), text("To", "target"),
        { title: "Async", value: row => row.async ? "yes" : "no" }, countOf("Calls", "calls"), bytesOf("Bytes", "bytes", { meter: true }),
        timeOf("Time", "total_ns")] }));
    if (r.gpu_findings.length)
      parts.push(el("h3", {}, "Findings"), opgap.table({ id: "table-findings", label: "Findings", rows: r.gpu_findings, sort: 3, columns: [
        text("Rule", "rule", { class: "nowrap" }), nameOf("Inside", "op"), countOf("Count", "count"), timeOf("Time", "time_ns"),
        bytesOf("Bytes", "bytes")] }));
    return parts;
  }

  opgap.loaderView = function (data) {
    const l = data.report.data_loader;
    if (!l || l.processes.length === 0)
      return [empty("No DataLoader workers were seen in this run.")];
    const parts = [el("div", { class: "tiles" }, [tile("Batches", count(l.fetches), `${count(l.waited)} were not ready`),
      tile("Waited", time(l.wait_ns), `and ${time(l.startup_wait_ns)} for workers to start`),
      tile("Ready on average", l.ready_batches === null ? "–" : l.ready_batches.toFixed(1), "batches at each fetch"),
      tile("Workers", count(l.workers), `${count(l.processes.length)} processes in all`),
      l.pin_memory && tile("Pin-memory thread", `${count(l.pin_memory.batches)} batches`, `${time(l.pin_memory.busy_ns)} in no blocking call, ` +
        `${time(l.pin_memory.wait_ns)} waiting for workers` +
        (l.pin_memory.ready_batches === null ? "" : `; of the ready ones ${l.pin_memory.ready_batches.toFixed(1)} were pinned`))].filter(Boolean))];
    if (l.ready_over_time && l.ready_over_time.length)
      parts.push(el("h3", {}, "Batches that were ready when one was fetched"), opgap.barChart("chart-ready", data, l.ready_over_time,
        l.ready_start_ns, l.ready_chunk_ns, "batches ready", "Batches ready at each fetch, over time"));
    parts.push(el("h3", {}, "Workers"), opgap.table({ id: "table-workers", filter: "Filter workers", rows: l.processes, sort: 2, ascending: true,
      columns: [text("Worker", "worker", { number: true }), text("pid", "pid", { number: true, search: true }), timeOf("Start", "start_ns"),
        countOf("Batches", "batches"), timeOf("Start-up", "startup_ns"), timeOf("Busy", "busy_ns", { meter: true }), timeOf("Idle", "idle_ns"),
        timeOf("On files", "file_ns"), timeOf("Locks", "lock_ns"), timeOf("Sleep", "sleep_ns"), timeOf("Network", "network_ns"), timeOf("Child processes", "child_ns"),
        timeOf("Waiting for a CPU", "run_queue_ns"),
        bytesOf("Read", "read_bytes"), timeOf("Awaited", "awaited_ns", { meter: true, help: "what the trainer waited for its batches" })] }));
    if (l.epochs.length > 0)
      parts.push(el("h3", {}, "Each time workers were made"), opgap.table({ id: "table-epochs", label: "Each time workers were made", rows: l.epochs,
        sort: 0, ascending: true, columns: [timeOf("Made at", "start_ns"), countOf("Workers", "workers"),
          timeOf("Start-up", "startup_ns", { meter: true, help: "the slowest one's, until it asked for its first index" }),
          timeOf("First batch", "first_batch_ns"), timeOf("Waited for it", "first_wait_ns"), countOf("Fetches", "fetches"),
          timeOf("All waits", "wait_ns", { meter: true })] }));
    return parts;
  };

  /* One row a cause; its parts by detail are in the table. */
  function causeBar(rows, total) {
    const sums = d3.nest().key(row => row.cause).rollup(list => d3.sum(list, row => row.ns)).entries(rows)
      .sort((a, b) => b.value - a.value);
    const bar = el("div", { class: "bar", role: "img", "aria-label": "Share of each cause" }, sums.map(sum => {
      const part = el("span", { title: `${sum.key} ${percent(sum.value / total)}` });
      part.style.cssText = `width:${sum.value / total * 100}%;background:${opgap.colours.cause[sum.key]}`;
      return part;
    }));
    return [bar, opgap.legend(sums.map(sum => [opgap.colours.cause[sum.key], sum.key,
      `${time(sum.value)}, ${percent(sum.value / total)}`, { "data-cause": sum.key, "data-ns": sum.value }]))];
  }

  function gaps(data, go) {
    const g = data.report.idle_gaps, parts = [];
    const jump = { title: "", plain: true, value: () => "", cell: row => el("button", { type: "button", on: {
      click: () => go(row.start_ns, row.start_ns + row.duration_ns) } }, "Show") };
    const causes = { title: "Causes", name: true, value: row => row.causes.map(c => `${c.cause}: ${c.detail}`).join("; "),
      cell: row => row.causes.slice(0, 3).map(c => el("div", {}, opgap.name(`${percent(c.ns / row.duration_ns)} ${c.cause}` +
        (c.detail ? `: ${c.detail}` : "")))), class: "name" };
    if (data.report.gpu.length > 0) {
      parts.push(el("h3", {}, `GPU idle: ${time(g.gpu_ns)} in ${count(g.gpu_count)} gaps of at least ${time(g.gpu_min_ns)}`));
      if (g.gpu_count === 0)
        parts.push(note("No device was idle for that long."));
      else
        parts.push(causeBar(g.gpu_by_cause, g.gpu_ns), opgap.table({ id: "table-gpu-gaps", filter: "Filter GPU gaps", rows: g.gpu, sort: 2,
          total: g.gpu_count, columns: [jump, timeOf("Start", "start_ns"), timeOf("Duration", "duration_ns", { meter: true }),
            text("Device", "device", { number: true }), causes, nameOf("Ended by", "next"),
            nameOf("For op", "op_after"), nameOf("After", "previous"), nameOf("In op", "op_before"),
            text("Step", "step", { number: true })] }));
    }
    parts.push(el("h3", {}, `Threads: ${time(g.thread_ns)} in ${count(g.thread_count)} waits of at least ${time(g.thread_min_ns)}`));
    if (g.thread_count === 0)
      return [...parts, note("No main thread of interest waited that long.")];
    parts.push(causeBar(g.by_cause, g.thread_ns));
    if (Object.keys(data.report.over_time.thread_gap_ns).length)
      parts.push(opgap.shareChart(data, "chart-thread-gaps", data.report.over_time.thread_gap_ns, opgap.colours.cause, 1,
        "Waits of threads by cause over time", go));
    parts.push(opgap.table({ id: "table-thread-gaps", filter: "Filter waits", rows: g.threads, sort: 2, total: g.thread_count, columns: [
      jump, timeOf("Start", "start_ns"), timeOf("Duration", "duration_ns", { meter: true }), text("Process", "process", { search: true, class: "nowrap" }),
      text("Call", "call", { search: true, class: "nowrap" }), causes, nameOf("In op", "op")] }));
    return parts;
  }

  const KINDS = [["Ops and ranges", ["torch", "range"]], ["Calls", ["call"]], ["GPU work", ["kernel", "memcpy", "memset"]],
    ["All", null]];

  /* One table for each choice of kinds; shares are of what is shown. */
  function ops(data) {
    const gpu = data.report.gpu.length > 0, all = data.report.hot_ops;
    if (all.length === 0)
      return [empty("No ops, ranges or calls were recorded.")];
    const place = el("div", {}), choices = KINDS.map(([title, kinds]) => [title, kinds ? all.filter(row => kinds.includes(row.kind)) : all])
      .filter(([, rows]) => rows.length > 0);
    const tools = el("div", { class: "tools", id: "ops-kinds", role: "group", "aria-label": "Kinds of rows" });
    let table;

    function choose(title) {
      const rows = choices.find(choice => choice[0] === title)[1], device = title === "GPU work";
      const key = device ? "self_gpu_ns" : "self_cpu_ns", sum = opgap.sum(rows.map(row => row[key]));
      const share = { title: device ? "Self GPU %" : "Self CPU %", value: row => row[key] === null || sum === 0 ? null : row[key] / sum,
        text: percent, number: true, help: "share of the rows shown" };
      const columns = [nameOf("Name", "name"), text("Kind", "kind", { class: "nowrap", search: true }),
        text("Process", "role", { class: "nowrap", search: true }), estimated(timeOf("Self CPU", "self_cpu_ns", { meter: !device })), share,
        estimated(timeOf("CPU total", "total_cpu_ns")),
        { title: "CPU mean", value: row => row.total_cpu_ns === null ? null : row.total_cpu_ns / row.calls, text: value => time(value), number: true },
        ...(gpu ? [timeOf("Self GPU", "self_gpu_ns", { meter: device }), timeOf("GPU total", "total_gpu_ns")] : []),
        countOf("Calls", "calls"), timeOf("Blocked", "blocked_ns"), countOf("Allocs", "alloc_count"), bytesOf("Alloc bytes", "alloc_bytes")];
      if (rows.some(row => row.source_location))
        columns.push(nameOf("Source", "source_location"));
      tools.querySelectorAll("button").forEach(button => button.setAttribute("aria-pressed", String(button.textContent === title)));
      table = opgap.table({ id: "table-ops", filter: "Filter by name, kind or process", rows, sort: columns.findIndex(column => column.meter),
        total: all.length < data.counts.hot_ops ? data.counts.hot_ops : 0, columns });
      place.replaceChildren(table);
    }

    tools.append(...choices.map(([title]) => el("button", { type: "button", on: { click: () => choose(title) } }, title)));
    choose(choices[0][0]);
    opgap.showOp = name => {
      choose("All");
      table.filterBy(name);
      document.getElementById("ops").scrollIntoView();
    };
    return [note("Self: without the ops directly inside; hooked calls have rows of their own. ~ is an estimate."), tools, place];
  }

  const where = key => row => row[key] || (key === "op" ? "(outside of ops)" : "not recorded");
  const signed = value => value === null ? "–" : (value < 0 ? "-" : "") + bytes(Math.round(Math.abs(value)));
  const threadOf = row => `${row.thread || "thread"} ${row.tid} of pid ${row.pid}`;

  /* What lived at the peaks: one table, its rows summed by what is chosen. */
  function alive(m) {
    const lived = m.alive_at_peak.filter(row => row.bytes > 0), peak = opgap.sum(m.peaks.map(row => row.bytes));
    if (lived.length === 0)
      return [];
    const keys = [["By op", "Op", where("op")], ["By thread", "Thread", threadOf],
      ...(lived.some(row => row.source_location) ? [["By line", "Source", where("source_location")]] : [])];
    const place = el("div", {}), tools = el("div", { class: "tools", id: "alive-by", role: "group", "aria-label": "Rows of the table" });

    function choose(title) {
      const [, head, key] = keys.find(choice => choice[0] === title), groups = new Map();
      for (const row of lived) {
        const name = key(row), group = groups.get(name) || { name, bytes: 0, blocks: 0 };
        groups.set(name, { name, bytes: group.bytes + row.bytes, blocks: group.blocks + row.blocks });
      }
      tools.querySelectorAll("button").forEach(button => button.setAttribute("aria-pressed", String(button.textContent === title)));
      place.replaceChildren(opgap.table({ id: "table-alive", filter: "Filter what was alive", rows: [...groups.values()], sort: 1, columns: [
        nameOf(head, "name"), bytesOf("Bytes", "bytes", { meter: true }),
        { title: "Of peak", value: row => row.bytes / peak, text: percent, number: true }, countOf("Blocks", "blocks")] }));
    }

    tools.append(...keys.map(([title]) => el("button", { type: "button", on: { click: () => choose(title) } }, title)));
    choose(keys[0][0]);
    return [el("h3", {}, m.peaks.length > 1 ? "Alive at the peak of each process" : "Alive at the peak"), tools, place];
  }

  function growth(m) {
    const rows = m.alive_at_peak.filter(row => row.growth_low !== null && row.growth_low >= m.leak_least_bytes), parts = [];
    if (m.churn)
      parts.push(note(`A step makes ${count(m.churn.allocations)} allocations of ${bytes(m.churn.bytes)} in all (median of ` +
        `${count(m.churn.steps)} steps, ${m.churn.of}).`));
    if (m.growth)
      parts.push(note(`${m.growth.of}: ${signed(m.growth.bytes_per_step)} a step (95 % interval ${signed(m.growth.low)} to ` +
        `${signed(m.growth.high)}, ${count(m.growth.points)} points, R² ${m.growth.fit.toFixed(2)}).`));
    if (rows.length > 0)
      parts.push(opgap.table({ id: "table-growth", filter: "Filter what grows", rows, sort: 1, columns: [
        { title: "Made in", value: where("op"), name: true },
        { title: "Grows a step", value: row => row.growth_per_step, text: signed, number: true, meter: true },
        { title: "95 % interval", value: row => row.growth_low, text: (value, row) => `${signed(value)} to ${signed(row.growth_high)}`, number: true },
        countOf("Steps", "growth_points"), bytesOf("At peak", "bytes"), { title: "Thread", value: threadOf, name: true },
        ...(rows.some(row => row.source_location) ? [{ title: "Source", value: where("source_location"), name: true }] : [])] }));
    return parts.length > 0 ? [el("h3", {}, "Growth and churn of each step"), ...parts] : [];
  }

  function failures(m) {
    if (m.failures.length === 0)
      return [];
    return [el("h3", {}, "Allocations that failed"), opgap.table({ id: "table-failures", filter: "Filter failures", rows: m.failures,
      sort: 0, ascending: true, columns: [timeOf("When", "time_ns"), nameOf("Call", "call"), bytesOf("Asked for", "bytes"),
        { title: "In op", value: row => row.op || "–", name: true }, bytesOf("Live", "live_bytes"),
        { title: "Resident", value: row => row.rss_bytes, text: value => (value === null ? "" : "~") + bytes(value), number: true },
        { title: "Thread", value: threadOf, name: true }, { title: "Before it, the latest first", value: row => row.last.join("; "), name: true }] })];
  }

  function memory(data) {
    const r = data.report, m = r.memory, parts = [el("div", { class: "tiles" }, [tile("Allocations", count(m.allocations), `${count(m.failed)} failed`),
      tile("Allocated", bytes(m.bytes_allocated), "sum over the run"), tile("Frees", count(m.frees)),
      tile("Peak resident", m.peak_rss_bytes === null ? "–" : "~" + bytes(m.peak_rss_bytes), "all processes together, sampled"),
      ...(m.peak_bytes === null ? [] : [tile("Peak live", bytes(m.peak_bytes)), tile("Live at the end", bytes(m.live_bytes))])])];
    parts.push(...failures(m), ...alive(m), ...growth(m));
    const samples = m.samples.slice().sort((a, b) => d3.max(b.rss_bytes) - d3.max(a.rss_bytes));
    if (samples.length === 0)
      return [...parts, empty("No memory samples: the run was shorter than the time between two of them.")];
    const processes = new Map(r.processes.map(process => [process.pid, process]));
    const rows = samples.map((sample, i) => ({ name: `${processes.get(sample.pid)?.role ?? "process"}, pid ${sample.pid}`, x: sample.time_ns,
      y: sample.rss_bytes, colour: opgap.colours.lines[i] || opgap.colours.rest }));
    parts.push(el("h3", {}, "Resident memory of each process"), opgap.legend([...rows.slice(0, 8).map(row => [row.colour, row.name,
      "~" + bytes(d3.max(row.y)), { "data-bytes": d3.max(row.y) }]), ...(rows.length > 8 ? [[opgap.colours.rest, `${rows.length - 8} more`]] : [])]),
      opgap.lineChart(data, "chart-memory", rows.reverse(), "resident", "Resident memory of each process over time"));
    return parts;
  }

  function files(data) {
    const rows = data.report.files;
    if (rows.length === 0)
      return [empty("No calls on files were recorded (OPGAP_HOOKS without io, or none were made).")];
    return [opgap.table({ id: "table-files", filter: "Filter by path or operation", rows, sort: 4, total: data.counts.files, columns: [
      nameOf("Path", "path"), text("Operation", "operation", { search: true, class: "nowrap" }), countOf("Calls", "calls"), bytesOf("Bytes", "bytes"),
      timeOf("Time", "time_ns", { meter: true }), countOf("Failed", "failed"), countOf("Processes", "processes")] })];
  }

  function locks(data) {
    const rows = data.report.locks;
    if (rows.length === 0)
      return [empty("No thread waited for a lock.")];
    const known = (title, key) => rows.some(row => row[key] !== null) ? [nameOf(title, key)] : [];
    return [opgap.table({ id: "table-locks", filter: "Filter locks", rows, sort: 4, total: data.counts.locks, columns: [
      text("pid", "pid", { number: true }), nameOf("Call", "call"), { title: "Lock", name: true, value: row => row.symbol ?? "0x" + row.object.toString(16) },
      countOf("Waits", "waits"), timeOf("Waited", "wait_ns", { meter: true }), timeOf("Longest", "longest_ns"), countOf("Threads", "threads"),
      { title: "Mostly held by", value: row => row.held_by ?? "unknown", name: true }, ...known("Heap block", "block"),
      ...known("Waited at", "source_location")] })];
  }

  function processes(data) {
    const r = data.report, parts = [], ranks = r.ranks.table;
    if (ranks.length > 0) {
      const s = r.ranks.straggler;
      parts.push(note(s === null ? "No rank causes more than half of the waiting."
        : `${s.rank === null ? `The process with pid ${s.pid}` : `Rank ${s.rank} (pid ${s.pid})`} makes the others wait` + (s.part ? `: ${time(s.extra_ns)} more a step in ${s.part}` +
          (s.detail ? ` (${s.detail})` : "") : "") + "."));
      parts.push(opgap.table({ id: "table-ranks", label: "Ranks", rows: ranks, sort: 0, ascending: true, columns: [
        text("Rank", "rank", { number: true }), text("pid", "pid", { number: true }), nameOf("Host", "host"), countOf("Steps", "steps"),
        timeOf("Median step", "step_median_ns"), timeOf("p95 step", "step_p95_ns"), timeOf("Data wait", "data_wait_ns"),
        timeOf("Communication", "communication_ns"), timeOf("Waited", "waited_ns", { meter: true }), timeOf("Caused", "caused_ns", { meter: true }),
        countOf("Came last", "last")] }), el("h3", {}, "Processes"));
    }
    const ended = row => row.ended === "clean" ? `exit ${row.exit_status ?? "?"}` : row.open_call ? `${row.ended} in ${row.open_call}` : row.ended;
    parts.push(opgap.table({ id: "table-processes", filter: "Filter processes", rows: r.processes, sort: 3, ascending: true, columns: [
      text("pid", "pid", { number: true }), text("Role", "role", { search: true, class: "nowrap" }), nameOf("Command", "command"), timeOf("Start", "start_ns"),
      { title: "Ran for", value: row => row.end_ns - row.start_ns, text: value => time(value), number: true }, { title: "Ended", value: ended, class: "nowrap" },
      timeOf("In ops", "op_ns"), timeOf("Blocked", "blocked_ns"), timeOf("On files", "file_ns"), bytesOf("Read", "read_bytes"),
      bytesOf("Written", "written_bytes"), { title: "Resident", value: row => row.rss_bytes, text: value => (value === null ? "" : "~") + bytes(value), number: true },
      countOf("Threads", "threads"), countOf("Lost", "lost_records")] }));
    if (r.threads.length)
      parts.push(el("h3", {}, "Threads"), opgap.table({ id: "table-threads", filter: "Filter threads", rows: r.threads, sort: 5, columns: [
        text("pid", "pid", { number: true, search: true }), text("tid", "tid", { number: true, search: true }), nameOf("Name", "name"),
        text("Process", "process", { search: true, class: "nowrap" }), timeOf("Lived", "life_ns"), timeOf("On a CPU", "run_ns", { meter: true }),
        timeOf("Waiting for a CPU", "run_queue_ns", { meter: true }), timeOf("Blocked", "blocked_ns"), timeOf("On files", "file_ns"),
        timeOf("Locks", "lock_ns"), timeOf("Sleep", "sleep_ns")] }));
    if (r.untraced.length)
      parts.push(el("h3", {}, "Not traced"), opgap.table({ id: "table-untraced", label: "Not traced", rows: r.untraced, sort: 0, ascending: true,
        columns: [text("pid", "pid", { number: true }), nameOf("Command", "command"), nameOf("Reason", "reason")] }));
    return parts;
  }

  function calls(data) {
    const rows = data.report.calls;
    return rows.length === 0 ? [empty("No hooked calls were recorded.")] : [opgap.table({ id: "table-calls", filter: "Filter calls", rows, sort: 4,
      total: data.counts.calls, columns: [nameOf("Call", "name"), text("Group", "category", { search: true }), text("Process", "role", { search: true, class: "nowrap" }),
        countOf("Calls", "calls"), estimated(timeOf("Time", "time_ns", { meter: true })), bytesOf("Bytes", "bytes"), countOf("Failed", "failed")] })];
  }

  function about(data) {
    const info = data.report.trace.info;
    const cut = [["Spans in the timeline", `${count(data.spans)} of the run are in its levels of detail; ${count(data.sets[0].count)} are kept singly, ` +
      (data.sets[0].leftOut ? `all from ${time(data.sets[0].min)} on` : "which is all of them")]];
    if (data.tracksLeftOut)
      cut.push(["Threads left out", `${count(data.tracksLeftOut)} with the least activity`]);
    if (data.tooDeep)
      cut.push(["Too deep to draw", `${count(data.tooDeep)} spans`]);
    if (data.flame.leftOut)
      cut.push(["Flame graph", `${count(data.flame.leftOut)} calls of rare stacks are left out`]);
    return [el("div", { class: "details" }, el("dl", {}, [["Page made by", `opgap ${data.version}`], ...cut, ...Object.entries(info)]
      .map(([key, value]) => [el("dt", {}, opgap.name(key)), el("dd", {}, opgap.name(value))]))),
      el("details", { class: "about" }, el("summary", {}, "Licence of the charting library"),
        el("pre", {}, document.getElementById("licence").textContent))];
  }

  /* ---- the page ---- */

  const THEMES = { light: "dark", dark: "light" };
  function theme(name) {
    document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = name === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new Event("opgap-theme"));
  }

  function startTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    theme(dark.matches ? "dark" : "light");
    dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
    document.getElementById("theme").addEventListener("click", () => theme(THEMES[document.documentElement.dataset.theme]));
    let before = null; // paper is white
    addEventListener("beforeprint", () => {
      before = document.documentElement.dataset.theme;
      theme("light");
    });
    addEventListener("afterprint", () => before && theme(before));
  }

  function followSections() {
    const links = new Map([...document.querySelectorAll("nav a")].map(a => [a.hash.slice(1), a]));
    const observer = new IntersectionObserver(entries => {
      for (const entry of entries)
        links.get(entry.target.id).classList.toggle("here", entry.isIntersecting);
    }, { rootMargin: "-45% 0px -50% 0px" });
    document.querySelectorAll("main > section").forEach(section => observer.observe(section));
  }

  function build(data) {
    const views = document.getElementById("views"), nav = document.getElementById("nav");
    const lookUp = name => opgap.showOp && opgap.showOp(name);
    const table = data.tracks.length ? opgap.timeline(data, lookUp) : null;
    const go = (start, end) => table && table.show(start, end);
    const keys = el("p", { class: "note" }, "Drag to move, ", el("kbd", {}, "Ctrl"), " + wheel or ", el("kbd", {}, "+"), " ", el("kbd", {}, "−"),
      " to zoom, arrow keys to move, ", el("kbd", {}, "0"), " for the whole run, ", el("kbd", {}, "/"), " to search, ", el("kbd", {}, "n"),
      " for the next match. Click a track's name to see all its levels. Marked windows hold every span to the nanosecond.");
    const sections = [
      ["verdict", "Verdict", () => verdict(data)],
      ["steps", "Steps", () => steps(data, go)],
      ["gpu", "GPU", () => gpus(data, go)],
      ["gaps", "Idle gaps", () => gaps(data, go)],
      ["loader", "Data loading", () => opgap.loaderView(data)],
      ["timeline", "Timeline", () => table ? [keys, table] : [empty("No spans were recorded.")]],
      ["ops", "Hot ops", () => ops(data)],
      ["flame", "Flame graph", () => data.flame.nodes.length ? [opgap.flame(data, lookUp)]
        : [empty("No ops or ranges were recorded, so there is no call tree. Hooked calls are in the tables.")]],
      ["memory", "Memory", () => memory(data)],
      ["files", "Files", () => files(data)],
      ["locks", "Locks", () => locks(data)],
      ["calls", "Calls", () => calls(data)],
      ["processes", data.report.ranks.table.length ? "Ranks" : "Processes", () => processes(data)],
      ["about", "About", () => about(data)],
    ];
    views.replaceChildren(...sections.map(([id, title]) => el("section", { id, "aria-labelledby": id + "-title" }, el("h2", { id: id + "-title" }, title))));
    nav.replaceChildren(...sections.map(([id, title]) => el("a", { href: "#" + id }, title)));
    for (const [id, , make] of sections)
      document.getElementById(id).append(...make().flat(3).filter(Boolean));
    if (table)
      table.layout();
    followSections();
  }

  async function start() {
    startTheme();
    const block = document.getElementById("data");
    try {
      opgap.data = await opgap.decode(block.textContent);
      block.remove();
      head(opgap.data);
      build(opgap.data);
      document.documentElement.dataset.ready = "yes";
    } catch (error) {
      document.getElementById("views").replaceChildren(empty(typeof DecompressionStream === "undefined"
        ? "This browser is too old for this page: it lacks DecompressionStream (Chrome and Edge 80, Safari 16.4, Firefox 113)."
        : `This page could not be read: ${error}`));
      throw error;
    }
  }
  start();
})(window.opgap);
