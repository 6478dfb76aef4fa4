/* The timeline: one canvas over the visible tracks.  Far out a lane shows bins (height: share of time covered; colour:
 * what took most of it) and the spans that are long enough to be kept for the whole run; inside a window in full detail
 * it shows each span. */
(function (opgap) {
  const el = opgap.el, AXIS = 24, LANE = 15, HEAD = 20, GAP = 5;

  opgap.timeline = function (data, hotOps) {
    const processes = data.report.processes, overall = data.sets[0];
    const windows = data.sets.slice(1).sort((a, b) => a.from - b.from);
    const state = { from: 0, to: data.duration, selected: null, search: "", matches: null, hits: [], hit: -1 };
    const overview = el("div", { id: "timeline-overview" }), canvas = el("canvas", { id: "timeline-canvas", tabindex: "0",
      role: "application", "aria-label": "Timeline of threads and GPU streams; arrow keys move, plus and minus zoom" });
    const spacer = el("div", {}), scroll = el("div", { id: "timeline-scroll" }, canvas, spacer);
    const details = el("div", { class: "details", id: "timeline-details" });
    const found = el("span", { class: "count", id: "timeline-found", "aria-live": "polite" });
    const range = el("span", { class: "count", id: "timeline-range" });
    const context = canvas.getContext("2d");
    let brush = null, brushScale = null, width = 0, gutter = 190, pending = false, colours = [], theme = {};

    /* ---- tracks ---- */

    const runs = new Map(); // "set track lane" to run
    data.sets.forEach((set, s) => set.runs.forEach(run => runs.set(`${s} ${run.track} ${run.lane}`, run)));
    const runOf = (set, track, lane) => runs.get(`${set} ${track} ${lane}`);
    const setIndex = new Map(data.sets.map((set, s) => [set, s]));

    function trackTitle(track) {
      if (track.kind === "gpu")
        return `GPU ${track.device} stream ${track.stream}`;
      const process = processes[track.process];
      if (track.tid === 0)
        return "waits for the GPU";
      const what = track.tid === process.pid ? "main thread" : `${track.name || "thread"} ${track.tid}`;
      return track.kind === "ranges" ? `${what}: ranges` : what;
    }

    const order = { trainer: 0, "DataLoader worker": 1, program: 2, other: 3 };
    const groups = [];
    for (const [index, process] of processes.entries()) {
      const tracks = data.tracks.map((track, t) => ({ track, t })).filter(({ track }) => track.process === index);
      if (tracks.length === 0)
        continue;
      const rank = process.rank === null ? "" : `, rank ${process.rank}`;
      const many = processes.filter(other => other.role === process.role).length > 1;
      tracks.sort((a, b) => (a.track.kind === "gpu" ? 0 : a.track.tid === process.pid ? 1 : 2) -
        (b.track.kind === "gpu" ? 0 : b.track.tid === process.pid ? 1 : 2));
      groups.push({ title: `${process.role}${process.role.includes("rank") ? "" : rank}` + (many || rank ? `, pid ${process.pid}` : ""),
        order: order[process.role_kind] ?? 4, rank: process.rank ?? Infinity, start: process.start_ns, tracks: tracks.map(({ track, t }) => {
          const full = Math.max(1, track.lanes);
          const few = track.kind === "gpu" || track.tid === process.pid && process.role_kind !== "DataLoader worker" ? 8 : 2;
          return { track, t, title: trackTitle(track), full, few, lanes: Math.min(few, full) };
        }) });
    }
    groups.sort((a, b) => a.order - b.order || (a.rank === b.rank ? 0 : a.rank - b.rank) || a.start - b.start);

    let height = 0;
    function layout() {
      height = AXIS;
      for (const group of groups) {
        group.y = height;
        height += HEAD;
        for (const row of group.tracks) {
          row.y = height;
          height += row.lanes * LANE + GAP;
        }
      }
      const view = Math.min(height, Math.max(260, innerHeight * .66));
      scroll.style.height = view + "px";
      spacer.style.height = Math.max(0, height - view) + "px";
      size();
    }

    function size() {
      const ratio = devicePixelRatio || 1, tall = scroll.clientHeight;
      width = scroll.clientWidth;
      gutter = width < 640 ? 92 : 190;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(tall * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = tall + "px";
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawOverview();
      paint(); // at once: a page that is printed has no next frame
    }

    /* ---- drawing ---- */

    const x = time => gutter + (time - state.from) / (state.to - state.from) * (width - gutter);
    const timeAt = px => state.from + (px - gutter) / (width - gutter) * (state.to - state.from);

    function takeTheme() {
      theme = { ink: opgap.css("--ink"), soft: opgap.css("--soft"), line: opgap.css("--line"), bg: opgap.css("--panel"),
        shade: opgap.css("--shade"), mark: opgap.css("--mark"), accent: opgap.css("--accent") };
      colours = data.entries.map(entry => opgap.shade(opgap.colours.span[entry.kind] || opgap.colours.rest, entry.name));
    }

    function draw() {
      if (!pending) {
        pending = true;
        requestAnimationFrame(() => {
          pending = false;
          paint();
        });
      }
    }

    const dimmed = entry => state.matches !== null && !state.matches[entry];

    function levelFor(track) {
      const bin = data.duration / data.bins / (state.to - state.from) * (width - gutter); // pixels of the finest
      let level = 0;
      for (let px = bin; level < data.levels - 1 && px < 1; px *= 4)
        level++;
      return level;
    }

    function paintBins(lane, y, level, from, to) {
      const { share, entry } = lane[level], step = (Math.floor(data.duration / data.bins) + 1) * 4 ** level;
      const first = Math.max(0, Math.floor(from / step)), last = Math.min(share.length - 1, Math.floor(to / step));
      for (let i = first; i <= last; i++) {
        if (share[i] === 0)
          continue;
        let end = i; // equal neighbours at once
        while (end < last && entry[end + 1] === entry[i] && Math.abs(share[end + 1] - share[i]) < 8 && share[end + 1] > 0)
          end++;
        const left = Math.max(x(i * step), x(from)), right = Math.min(x((end + 1) * step), x(to));
        const tall = Math.max(1.5, share[i] / 255 * (LANE - 2));
        context.globalAlpha = dimmed(entry[i]) ? .15 : .8;
        context.fillStyle = colours[entry[i]];
        context.fillRect(left, y + LANE - 1 - tall, Math.max(.6, right - left), tall);
        i = end;
      }
      context.globalAlpha = 1;
    }

    function firstEndingAfter(run, time) {
      let low = 0, high = run.count;
      while (low < high) {
        const middle = low + high >> 1;
        if (run.end[middle] >= time)
          high = middle;
        else
          low = middle + 1;
      }
      return low;
    }

    function paintSpans(run, y, from, to) {
      const left = x(from), right = x(to);
      let done = -1;
      for (let i = firstEndingAfter(run, from); i < run.count && run.start[i] < to; i++) {
        const a = Math.max(left, x(run.start[i])), b = Math.min(right, x(run.end[i]));
        if (b <= done)
          continue;
        const wide = Math.max(1, b - a), entry = run.entry[i];
        done = a + wide - .5;
        context.globalAlpha = dimmed(entry) ? .18 : 1;
        context.fillStyle = colours[entry];
        context.fillRect(a, y + 1, wide > 3 ? wide - .6 : wide, LANE - 2);
        if (wide > 30) {
          const name = opgap.clean(data.entries[entry].name), room = Math.floor((wide - 6) / 6);
          context.fillStyle = "#14171b";
          context.fillText(name.length <= room ? name : name.slice(0, Math.max(1, room - 1)) + "…", Math.max(a, gutter) + 3, y + LANE - 4);
        }
        if (run.unfinished[i]) {
          context.fillStyle = theme.mark;
          context.fillRect(b - 2, y + 1, 2, LANE - 2);
        }
      }
      context.globalAlpha = 1;
    }

    /* Windows in full detail that are in view and wide enough to matter; a set that left nothing out needs none. */
    function windowsInView() {
      const seen = [];
      for (const set of windows)
        if (set.to > state.from && set.from < state.to && x(set.to) - x(set.from) >= 3)
          seen.push(set);
      return seen;
    }

    function paintLane(row, lane, y, seen, level) {
      const bins = row.track.bins[lane], run = runOf(0, row.t, lane);
      const exact = overall.leftOut === 0;
      if (bins && !exact)
        paintBins(bins, y, level, Math.max(0, state.from), Math.min(data.duration, state.to));
      if (run)
        paintSpans(run, y, state.from, state.to);
      if (exact)
        return;
      for (const set of seen) {
        const from = Math.max(set.from, state.from), to = Math.min(set.to, state.to);
        if (set.leftOut === 0) {
          context.fillStyle = theme.bg;
          context.fillRect(x(from), y, x(to) - x(from), LANE);
        }
        const inside = runOf(setIndex.get(set), row.t, lane);
        if (inside)
          paintSpans(inside, y, from, to);
      }
    }

    function paintAxis() {
      context.fillStyle = theme.bg;
      context.fillRect(0, 0, width, AXIS);
      const span = state.to - state.from, axis = opgap.timeAxis(state.to);
      const ticks = d3.ticks(state.from / axis.unit, state.to / axis.unit, Math.max(2, Math.floor((width - gutter) / 120)));
      const digits = ticks.length < 2 ? 3 : Math.max(0, Math.ceil(-Math.log10(ticks[1] - ticks[0]) - 1e-9));
      context.font = "11px system-ui, \"DejaVu Sans\", sans-serif";
      context.fillStyle = theme.soft;
      context.textAlign = "center";
      for (const tick of ticks) {
        const at = x(tick * axis.unit);
        context.fillRect(at, AXIS - 5, 1, 5);
        context.fillText(`${tick.toFixed(digits)} ${axis.name}`, Math.min(width - 36, Math.max(gutter + 32, at)), 13);
      }
      context.textAlign = "left";
      context.fillRect(gutter, AXIS - 1, width - gutter, 1);
      range.textContent = `${opgap.time(state.from)} to ${opgap.time(state.to)} (${opgap.time(span)})`;
    }

    function paintLabel(text, at, y, colour, bold, room) {
      context.font = `${bold ? "600 " : ""}12px system-ui, "DejaVu Sans", sans-serif`;
      context.fillStyle = colour;
      const most = Math.floor(room / (bold ? 7 : 6.6));
      text = opgap.clean(text);
      context.fillText(text.length <= most ? text : text.slice(0, most - 1) + "…", at, y);
    }

    function paint() {
      if (width === 0)
        return;
      const top = scroll.scrollTop, tall = scroll.clientHeight, seen = windowsInView(), level = levelFor();
      context.clearRect(0, 0, width, tall);
      context.fillStyle = theme.bg;
      context.fillRect(0, 0, width, tall);
      for (const set of seen) {
        context.fillStyle = theme.shade;
        context.fillRect(x(Math.max(set.from, state.from)), AXIS, x(Math.min(set.to, state.to)) - x(Math.max(set.from, state.from)), tall);
      }
      context.save();
      context.beginPath();
      context.rect(gutter, AXIS, width - gutter, tall);
      context.clip();
      context.font = "11px system-ui, \"DejaVu Sans\", sans-serif";
      for (const group of groups)
        for (const row of group.tracks) {
          const y = row.y - top;
          if (y > tall || y + row.lanes * LANE < AXIS)
            continue;
          for (let lane = 0; lane < row.lanes; lane++)
            paintLane(row, lane, y + lane * LANE, seen, level);
          context.fillStyle = theme.line;
          context.fillRect(gutter, y + row.lanes * LANE + 2, width - gutter, .7);
        }
      paintSelection(top);
      context.restore();
      paintGutter(top, tall);
      paintAxis();
    }

    function paintGutter(top, tall) {
      context.fillStyle = theme.bg;
      context.fillRect(0, AXIS, gutter - 1, tall);
      context.save();
      context.beginPath();
      context.rect(0, AXIS, width, tall);
      context.clip();
      for (const group of groups) {
        const y = group.y - top;
        if (y > -HEAD && y < tall) {
          context.fillStyle = theme.shade;
          context.fillRect(0, y, width, HEAD - 2);
          paintLabel(group.title, 6, y + 13, theme.ink, true, width - 12);
        }
        for (const row of group.tracks) {
          const at = row.y - top;
          if (at > tall || at + row.lanes * LANE < 0)
            continue;
          const sign = row.full > row.few ? row.lanes === row.full ? "▾ " : "▸ " : "";
          paintLabel(sign + row.title, 12, at + 12, theme.ink, false, gutter - 18);
        }
      }
      context.restore();
      context.fillStyle = theme.line;
      context.fillRect(gutter - 1, AXIS, 1, tall);
    }

    function paintSelection(top) {
      const s = state.selected;
      if (!s)
        return;
      const y = s.row ? s.row.y - top + s.lane * LANE : AXIS, tall = s.row ? LANE : scroll.clientHeight;
      context.strokeStyle = s.row ? theme.ink : theme.mark;
      context.lineWidth = 2;
      context.strokeRect(x(s.start) - 1, y, Math.max(3, x(s.end) - x(s.start) + 2), tall);
      context.lineWidth = 1;
    }

    /* ---- overview with the part in view ---- */

    function drawOverview() {
      const tall = 46, svg = d3.create("svg").attr("width", width).attr("height", tall).attr("role", "img")
        .attr("aria-label", "Whole run with the part in view; drag to choose another");
      brushScale = d3.scaleLinear([0, data.duration], [gutter, width - 1]);
      const bins = 200, step = data.duration / bins, busy = new Float64Array(bins);
      for (const track of data.tracks) {
        const lane = track.bins[0];
        if (!lane)
          continue;
        const share = lane[data.levels - 1].share;
        for (let i = 0; i < bins; i++)
          busy[i] += share[Math.min(share.length - 1, Math.floor(i / bins * share.length))];
      }
      const most = d3.max(busy) || 1;
      svg.append("path").attr("fill", theme.soft).attr("fill-opacity", .45).attr("d", d3.area().x((d, i) => brushScale(i * step))
        .y0(tall - 4).y1(d => tall - 4 - d / most * (tall - 14))(busy));
      svg.append("g").selectAll("rect").data(windows).join("rect").attr("x", set => brushScale(set.from)).attr("y", tall - 4)
        .attr("width", set => Math.max(2, brushScale(Math.min(data.duration, set.to)) - brushScale(set.from))).attr("height", 4)
        .attr("fill", theme.mark);
      svg.append("text").attr("x", 6).attr("y", 27).attr("fill", theme.soft).style("font-size", "12px").text("whole run");
      brush = d3.brushX().extent([[gutter, 0], [width - 1, tall]]).on("brush end", () => {
        const event = d3.event;
        if (!event.sourceEvent)
          return;
        if (event.selection)
          view(brushScale.invert(event.selection[0]), brushScale.invert(event.selection[1]), true);
        else if (event.type === "end")
          view(0, data.duration);
      });
      svg.append("g").attr("class", "brush").call(brush);
      overview.replaceChildren(svg.node());
      placeBrush();
    }

    function placeBrush() {
      const g = d3.select(overview).select(".brush");
      if (!g.empty()) {
        const a = brushScale(state.from), b = brushScale(state.to);
        g.call(brush.move, [a, Math.max(b, a + 2)]);
      }
    }

    /* ---- moving ---- */

    function view(from, to, brushed) {
      let span = Math.max(100, Math.min(data.duration, to - from));
      if (Math.abs(data.duration - span) < 1) // zooming in and out again rounds
        span = data.duration;
      const middle = (from + to) / 2;
      from = Math.max(0, Math.min(data.duration - span, middle - span / 2));
      state.from = from;
      state.to = from + span;
      if (!brushed)
        placeBrush();
      draw();
    }
    const zoom = (factor, at) => {
      const middle = at === undefined ? (state.from + state.to) / 2 : at;
      view(middle - (middle - state.from) * factor, middle + (state.to - middle) * factor);
    };
    const pan = share => {
      const by = (state.to - state.from) * share;
      const room = by < 0 ? Math.max(by, -state.from) : Math.min(by, data.duration - state.to);
      view(state.from + room, state.to + room);
    };

    /* What is at a point: a span, else a bin. */
    function pick(px, py) {
      const y = py + scroll.scrollTop, time = timeAt(px), near = (state.to - state.from) / (width - gutter) * 2;
      for (const group of groups)
        for (const row of group.tracks) {
          if (y < row.y || y >= row.y + row.lanes * LANE)
            continue;
          const lane = Math.floor((y - row.y) / LANE);
          return pickSpan(row, lane, time, near) || pickBin(row, lane, time);
        }
      return null;
    }

    function pickSpan(row, lane, time, near) {
      const sets = [...windowsInView().filter(set => set.from <= time && set.to >= time), overall];
      for (const set of sets) {
        const run = runOf(setIndex.get(set), row.t, lane);
        if (!run)
          continue;
        let i = firstEndingAfter(run, time), apart = i < run.count ? run.start[i] - time : Infinity; // below 0: inside
        if (apart > 0 && i > 0 && time - run.end[i - 1] < apart)
          apart = time - run.end[--i];
        if (apart <= near)
          return { row, lane, run, i, start: run.start[i], end: run.end[i], entry: run.entry[i] };
      }
      return null;
    }

    function pickBin(row, lane, time) {
      const bins = row.track.bins[lane];
      if (!bins || overall.leftOut === 0)
        return null;
      const level = levelFor(), step = (Math.floor(data.duration / data.bins) + 1) * 4 ** level, i = Math.floor(time / step);
      const { share, entry } = bins[level];
      if (i < 0 || i >= share.length || share[i] === 0)
        return null;
      return { row, lane, start: i * step, end: Math.min(data.duration, (i + 1) * step), entry: entry[i], share: share[i] / 255 };
    }

    function describe(item) {
      const entry = data.entries[item.entry], group = groups.find(g => g.tracks.includes(item.row));
      const rows = [];
      if (item.share !== undefined) {
        rows.push(["mostly", opgap.name(entry.name)], ["kind", entry.kind],
          ["part of the run", `${opgap.time(item.start)} to ${opgap.time(item.end)}, covered ${opgap.percent(item.share)}`],
          ["track", `${group.title}: ${item.row.title}`],
          ["", "Many short spans drawn as one: spans are kept singly from " + opgap.time(overall.min) +
            " on, and all of them inside the marked windows. opgap html --detail A:B keeps any other window."]);
      } else {
        rows.push(["name", el("span", { class: "name" }, opgap.name(entry.name))], ["kind", entry.kind],
          ["duration", `${opgap.time(item.end - item.start)} (${opgap.count(item.end - item.start)} ns)`],
          ["start", `${opgap.time(item.start)} (${opgap.count(item.start)} ns)`], ["track", `${group.title}: ${item.row.title}`]);
        if (item.run.bytes[item.i] > 0)
          rows.push(["bytes", opgap.bytes(item.run.bytes[item.i] - 1)]);
        if (item.run.path[item.i])
          rows.push(["file", opgap.name(data.texts[item.run.path[item.i]])]);
        if (item.run.unfinished[item.i])
          rows.push(["", "still open when the recording ended"]);
      }
      return { entry, rows };
    }

    function select(item) {
      state.selected = item;
      if (!item) {
        details.replaceChildren(el("p", { class: "note" }, "Click a span for its details."));
        return draw();
      }
      const { entry, rows } = describe(item);
      details.replaceChildren(el("dl", {}, rows.map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)])),
        el("div", { class: "tools" },
          el("button", { type: "button", on: { click: () => zoomTo(item.start, item.end) } }, "Zoom to it"),
          el("button", { type: "button", on: { click: () => hotOps(entry.name) } }, "Show in hot ops")));
      draw();
    }

    function zoomTo(start, end) {
      const around = Math.max(50, (end - start) * .25);
      view(start - around, end + around);
    }

    /* ---- search ---- */

    function find(text) {
      state.search = text.toLowerCase();
      state.hits = [];
      state.hit = -1;
      state.matches = null;
      if (state.search !== "") {
        state.matches = data.entries.map(entry => entry.name.toLowerCase().includes(state.search));
        const rows = new Map(groups.flatMap(group => group.tracks.map(row => [row.t, row])));
        const seen = new Set();
        for (const set of data.sets)
          for (const run of set.runs) {
            if (!rows.has(run.track))
              continue;
            for (let i = 0; i < run.count; i++)
              if (state.matches[run.entry[i]]) {
                const key = `${run.track} ${run.lane} ${run.start[i]}`;
                if (seen.has(key))
                  continue;
                seen.add(key);
                state.hits.push({ row: rows.get(run.track), lane: run.lane, run, i, start: run.start[i], end: run.end[i],
                  entry: run.entry[i] });
              }
          }
        state.hits.sort((a, b) => a.start - b.start);
      }
      report();
      draw();
    }

    function report() {
      if (state.matches === null) {
        found.textContent = "";
        return;
      }
      const names = state.matches.filter(Boolean).length;
      const place = state.hit >= 0 ? `${opgap.count(state.hit + 1)} of ` : "";
      found.textContent = `${place}${opgap.count(state.hits.length)} spans of ${opgap.count(names)} names`;
    }

    function step(by) {
      if (state.hits.length === 0)
        return;
      state.hit = (state.hit + by + state.hits.length) % state.hits.length;
      const hit = state.hits[state.hit];
      if (hit.lane >= hit.row.lanes) {
        hit.row.lanes = hit.row.full;
        layout();
      }
      const around = Math.max((state.to - state.from) / 2, (hit.end - hit.start) * 2);
      view(hit.start - around, hit.start + around);
      const y = hit.row.y + hit.lane * LANE;
      if (y < scroll.scrollTop + AXIS || y > scroll.scrollTop + scroll.clientHeight - LANE)
        scroll.scrollTop = y - scroll.clientHeight / 2;
      select(hit);
      report();
    }

    /* ---- input ---- */

    const pointers = new Map();
    let moved = 0, pinch = null;
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      moved = 0;
      pinch = null;
      canvas.classList.add("dragging");
    });
    canvas.addEventListener("pointermove", event => {
      const before = pointers.get(event.pointerId);
      if (!before)
        return hover(event);
      pointers.set(event.pointerId, event);
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()].map(p => p.offsetX);
        const apart = Math.max(10, Math.abs(a - b)), middle = timeAt((a + b) / 2);
        if (pinch !== null)
          zoom(pinch / apart, middle);
        pinch = apart;
        moved = 99;
        return;
      }
      const by = event.clientX - before.clientX;
      moved += Math.abs(by) + Math.abs(event.clientY - before.clientY);
      if (moved > 3) {
        pan(-by / (width - gutter));
        if (event.pointerType === "mouse")
          scroll.scrollTop -= event.clientY - before.clientY;
      }
    });
    const release = event => {
      if (pointers.delete(event.pointerId) && moved <= 3 && event.type === "pointerup")
        click(event);
      canvas.classList.toggle("dragging", pointers.size > 0);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", opgap.tip.hide);
    canvas.addEventListener("dblclick", event => zoom(.35, timeAt(event.offsetX)));
    canvas.addEventListener("wheel", event => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * .012), timeAt(event.offsetX));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan((event.deltaX || event.deltaY) / 900);
      }
    }, { passive: false });
    scroll.addEventListener("scroll", draw);

    function hover(event) {
      const item = event.offsetX > gutter && event.offsetY > AXIS ? pick(event.offsetX, event.offsetY) : null;
      canvas.style.cursor = item ? "pointer" : "";
      if (!item)
        return opgap.tip.hide();
      const entry = data.entries[item.entry];
      opgap.tip.show(event, entry.name, item.share === undefined
        ? [[entry.kind, opgap.time(item.end - item.start)], ["at", opgap.time(item.start)]]
        : [["most of", `${opgap.time(item.start)} – ${opgap.time(item.end)}`], ["covered", opgap.percent(item.share)]]);
    }

    function click(event) {
      canvas.focus({ preventScroll: true });
      if (event.offsetX < gutter) {
        const y = event.offsetY + scroll.scrollTop;
        for (const group of groups)
          for (const row of group.tracks)
            if (y >= row.y && y < row.y + row.lanes * LANE && row.full > row.few) {
              row.lanes = row.lanes === row.full ? row.few : row.full;
              return layout();
            }
        return;
      }
      select(pick(event.offsetX, event.offsetY));
    }

    const keys = { ArrowLeft: () => pan(-.2), a: () => pan(-.2), ArrowRight: () => pan(.2), d: () => pan(.2),
      "+": () => zoom(.6), "=": () => zoom(.6), w: () => zoom(.6), "-": () => zoom(1 / .6), s: () => zoom(1 / .6),
      Home: () => view(0, data.duration), 0: () => view(0, data.duration), n: () => step(1), N: () => step(-1),
      Escape: () => select(null), ArrowDown: () => { scroll.scrollTop += 60; }, ArrowUp: () => { scroll.scrollTop -= 60; },
      "/": () => search.focus(), Enter: () => state.selected && zoomTo(state.selected.start, state.selected.end) };
    canvas.addEventListener("keydown", event => {
      if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        keys[event.key]();
      }
    });

    const button = (text, title, act, id) => el("button", { type: "button", title, id, on: { click: act } }, text);
    const search = el("input", { type: "search", id: "timeline-search", placeholder: "Search spans", "aria-label": "Search spans by name",
      on: { input: () => find(search.value), keydown: event => {
        if (event.key === "Enter")
          step(event.shiftKey ? -1 : 1);
      } } });
    const places = el("select", { id: "timeline-places", "aria-label": "Windows in full detail", on: { change: () => {
      const set = data.sets[Number(places.value)];
      if (set)
        zoomTo(set.from, Math.min(data.duration, set.to));
      places.value = "";
    } } }, el("option", { value: "" }, "Full detail…"), windows.map(set => el("option", { value: setIndex.get(set) },
      `${set.label}: ${opgap.time(set.from)}, ${opgap.time(Math.min(data.duration, set.to) - set.from)}` +
      (set.leftOut ? ` (only from ${opgap.time(set.min)})` : ""))));

    const box = el("div", {}, el("div", { class: "tools" }, search, button("‹", "previous match (N)", () => step(-1), "timeline-previous"),
      button("›", "next match (n)", () => step(1), "timeline-next"), found),
      el("div", { class: "tools" }, button("−", "zoom out (-)", () => zoom(1 / .6), "timeline-out"), button("+", "zoom in (+)", () => zoom(.6), "timeline-in"),
        button("←", "left (arrow left)", () => pan(-.3)), button("→", "right (arrow right)", () => pan(.3)),
        button("Whole run", "whole run (0)", () => view(0, data.duration), "timeline-all"), windows.length ? places : null, range),
      el("div", { id: "timeline-box" }, overview, scroll), details);

    opgap.timelineApi = { view, paint, zoomTo, state, groups, canvas, scroll,
      /* Page coordinates of a span's middle, for tests and links. */
      place: (row, lane, time) => ({ x: x(time), y: row.y + lane * LANE + LANE / 2 - scroll.scrollTop }) };
    document.addEventListener("opgap-theme", () => {
      takeTheme();
      size();
    });
    new ResizeObserver(() => {
      if (scroll.clientWidth !== width)
        layout();
    }).observe(scroll);
    takeTheme();
    select(null);

    /* Shows a time and marks it. */
    box.show = (start, end) => {
      zoomTo(start, end);
      state.selected = { start, end };
      details.replaceChildren(el("p", {}, `Marked: ${opgap.time(start)} to ${opgap.time(end)}, ${opgap.time(end - start)}.`));
      document.getElementById("timeline").scrollIntoView();
      canvas.focus({ preventScroll: true });
      draw();
    };
    box.layout = layout;
    return box;
  };
})(window.opgap);
