/* Charts over steps and over time, drawn with d3 as SVG. */
(function (opgap) {
  const el = opgap.el;
  const MARGIN = { top: 24, right: 16, bottom: 34, left: 66 };

  /* Axis labels of numbers in one unit, chosen by the largest. */
  opgap.timeAxis = function (largest) {
    const [unit, name] = largest >= 2e9 ? [1e9, "s"] : largest >= 2e6 ? [1e6, "ms"] : largest >= 2e3 ? [1e3, "µs"] : [1, "ns"];
    return { name, unit, format: value => (+(value / unit).toPrecision(12)).toLocaleString("en-US", { maximumFractionDigits: 3 }) };
  };
  opgap.byteAxis = function (largest) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const power = Math.max(0, Math.min(4, Math.floor(Math.log2(Math.max(1, largest)) / 10)));
    return { name: units[power], format: value => (value / 1024 ** power).toLocaleString("en-US", { maximumFractionDigits: 2 }) };
  };
  /* Ticks at round numbers of the axis's unit. */
  function byteTicks(largest, count) {
    const power = 1024 ** Math.max(0, Math.min(4, Math.floor(Math.log2(Math.max(1, largest)) / 10)));
    return d3.ticks(0, largest / power, count).map(tick => tick * power);
  }

  /* An empty frame with axes.  x, y: domain, title, format (of ticks), ticks. */
  function frame(box, width, height, x, y, label) {
    const svg = d3.create("svg").attr("viewBox", [0, 0, width, height]).attr("height", height).attr("role", "img")
      .attr("aria-label", label);
    const xs = d3.scaleLinear(x.domain, [MARGIN.left, width - MARGIN.right]);
    const ys = d3.scaleLinear(y.domain, [height - MARGIN.bottom, MARGIN.top]);
    const xTicks = Math.max(2, Math.floor(width / 110));
    const yTicks = y.ticks ? y.ticks(4) : ys.ticks(4);
    svg.append("g").attr("class", "grid").selectAll("line").data(yTicks).join("line").attr("x1", MARGIN.left)
      .attr("x2", width - MARGIN.right).attr("y1", ys).attr("y2", ys);
    const xAxis = d3.axisBottom(xs).ticks(xTicks).tickSizeOuter(0).tickFormat(x.format);
    svg.append("g").attr("transform", `translate(0,${height - MARGIN.bottom})`)
      .call(x.whole ? xAxis.tickValues(xs.ticks(xTicks).filter(Number.isInteger)) : xAxis);
    svg.append("g").attr("transform", `translate(${MARGIN.left},0)`)
      .call(d3.axisLeft(ys).tickValues(yTicks).tickSizeOuter(0).tickFormat(y.format));
    svg.append("text").attr("x", width - MARGIN.right).attr("y", height - 3).attr("text-anchor", "end").text(x.title);
    svg.append("text").attr("x", 2).attr("y", 11).text(y.title);
    box.replaceChildren(svg.node());
    return { svg, xs, ys, width, height };
  }

  /* A line that follows the pointer; at(x) is told the place and returns what the hint shows, or null. */
  function follow(f, at, click) {
    const cursor = f.svg.append("line").attr("class", "cursor").attr("y1", MARGIN.top).attr("y2", f.height - MARGIN.bottom)
      .attr("visibility", "hidden");
    const svg = f.svg.node();
    const place = event => {
      const box = svg.getBoundingClientRect();
      return f.xs.invert((event.clientX - box.left) * f.width / box.width);
    };
    svg.addEventListener("pointermove", event => {
      const shown = at(place(event));
      cursor.attr("visibility", shown ? "visible" : "hidden");
      if (!shown)
        return opgap.tip.hide();
      cursor.attr("x1", f.xs(shown.x)).attr("x2", f.xs(shown.x));
      opgap.tip.show(event, shown.title, shown.lines);
    });
    svg.addEventListener("pointerleave", () => {
      cursor.attr("visibility", "hidden");
      opgap.tip.hide();
    });
    if (click) {
      svg.style.cursor = "pointer";
      svg.addEventListener("click", event => click(place(event)));
    }
  }

  function rule(f, y, text, colour, above) {
    const g = f.svg.append("g").attr("class", "rule");
    g.append("line").attr("x1", MARGIN.left).attr("x2", f.width - MARGIN.right).attr("y1", f.ys(y)).attr("y2", f.ys(y))
      .attr("stroke", colour).attr("stroke-dasharray", "5 4");
    g.append("text").attr("x", f.width - MARGIN.right - 4).attr("y", f.ys(y) + (above ? -5 : 14)).attr("text-anchor", "end")
      .attr("stroke", opgap.css("--bg")).attr("stroke-width", 4).attr("paint-order", "stroke").text(text);
  }

  opgap.legend = function (rows) {
    return el("ul", { class: "legend" }, rows.map(([colour, text, more, attributes]) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = colour;
      return el("li", attributes || {}, swatch, opgap.name(text), more ? el("span", { class: "note" }, more) : null);
    }));
  };

  /* Step times: a point each, warm-up hollow. */
  opgap.stepChart = function (data, select) {
    const steps = data.report.steps, box = el("div", { class: "chart", id: "chart-steps" });
    const each = data.stepsPerPoint, last = data.steps - 1, warm = Math.ceil(steps.skipped / each);
    opgap.responsive(box, width => {
      const largest = d3.max(steps.durations_ns) || 1;
      const body = d3.max(steps.durations_ns.slice(warm)) || largest;
      const top = Math.min(largest, body * 1.6) * 1.06, axis = opgap.timeAxis(top);
      const f = frame(box, width, 230, { domain: [0, Math.max(1, last)], title: "step", whole: true, format: d3.format(",d") },
        { domain: [0, top], title: `step time (${axis.name})`, format: axis.format },
        `Time of ${data.steps} steps, median ${opgap.time(steps.median_ns)}, p95 ${opgap.time(steps.p95_ns)}`);
      const y = ns => f.ys(Math.min(ns, top));
      if (steps.durations_ns.length > 1)
        f.svg.append("path").datum(steps.durations_ns).attr("class", "line").attr("fill", "none")
          .attr("stroke", opgap.css("--accent")).attr("stroke-opacity", .75).attr("stroke-width", 1.2)
          .attr("d", d3.line().x((d, i) => f.xs(i * each)).y(y));
      const dots = steps.durations_ns.length <= 600 ? steps.durations_ns : steps.durations_ns.slice(0, warm);
      f.svg.append("g").selectAll("circle").data(dots).join("circle").attr("cx", (d, i) => f.xs(i * each))
        .attr("cy", y).attr("r", 2.6).attr("data-ns", d => d).attr("stroke", opgap.css("--accent"))
        .attr("fill", (d, i) => i < warm ? opgap.css("--bg") : opgap.css("--accent"));
      if (steps.median_ns !== null) {
        rule(f, steps.p95_ns, "p95 " + opgap.time(steps.p95_ns), opgap.css("--mark"), true);
        rule(f, steps.median_ns, "median " + opgap.time(steps.median_ns), opgap.css("--soft"), false);
      }
      const index = x => Math.max(0, Math.min(steps.durations_ns.length - 1, Math.round(x / each)));
      follow(f, x => {
        const i = index(x), step = i * each;
        return { x: step, title: each > 1 ? `slowest of steps ${step} to ${Math.min(last, step + each - 1)}` : `step ${step}`,
          lines: [["time", opgap.time(steps.durations_ns[i])], ["began at", opgap.time(steps.start_ns[i])],
            ...(i < warm ? [["", "warm-up"]] : [])] };
      }, x => {
        const i = index(x);
        select(steps.start_ns[i], steps.start_ns[i] + steps.durations_ns[i]);
      });
    });
    return box;
  };

  /* Layers on top of each other.  rows: numbers by key; x(i): where row i begins (x(rows.length): the end). */
  function stacked(box, options) {
    const { rows, keys, colours, x, y, xAt, title, lines, label, click, height } = options;
    const layers = d3.stack().keys(keys)(rows);
    opgap.responsive(box, width => {
      const f = frame(box, width, height || 250, x, y, label);
      const shape = d3.area().curve(d3.curveStepAfter).x(d => f.xs(d.x)).y0(d => f.ys(d[0])).y1(d => f.ys(d[1]));
      f.svg.append("g").selectAll("path").data(layers).join("path").attr("data-key", layer => layer.key)
        .attr("fill", layer => colours[layer.key] || opgap.colours.rest).attr("d", layer => {
          const points = layer.map((d, i) => Object.assign([d[0], d[1]], { x: xAt(i) }));
          const end = layer[layer.length - 1];
          return shape([...points, Object.assign([end[0], end[1]], { x: xAt(rows.length) })]);
        });
      const index = at => {
        const i = Math.floor((at - xAt(0)) / (xAt(1) - xAt(0)));
        return Math.max(0, Math.min(rows.length - 1, i));
      };
      follow(f, at => {
        const i = index(at);
        return at < xAt(0) || at > xAt(rows.length) ? null : { x: (xAt(i) + xAt(i + 1)) / 2, title: title(i),
          lines: lines(i) };
      }, click && (at => click(index(at))));
    });
    return box;
  }

  const CLASSES = ["kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other"];
  opgap.CLASSES = CLASSES;
  opgap.className_ = { kernel: "Kernel", memcpy: "Memcpy", memset: "Memset", communication: "Communication",
    runtime: "CUDA runtime", dataloader: "DataLoader", cpu_exec: "CPU exec", other: "Other" };

  /* Where the time of each step went. */
  opgap.breakdownChart = function (data, select) {
    const course = data.report.step_breakdown.course, per = course.bucket_steps, count = course.kernel_ns.length;
    const keys = CLASSES.filter(key => opgap.sum(course[key + "_ns"]) > 0);
    const inBucket = i => Math.min(per, data.steps - i * per);
    const rows = d3.range(count).map(i => Object.fromEntries(keys.map(key => [key, course[key + "_ns"][i] / inBucket(i)])));
    const totals = rows.map(row => opgap.sum(Object.values(row)));
    const sorted = totals.slice().sort(d3.ascending);
    const top = Math.min(d3.max(totals), (d3.quantile(sorted, .98) || 1) * 1.6) * 1.05 || 1, axis = opgap.timeAxis(top);
    const box = el("div", { class: "chart", id: "chart-breakdown" });
    const steps = data.report.steps;
    return stacked(box, { rows: rows.map(row => {
      const total = opgap.sum(Object.values(row)); // one slow step must not flatten the others
      return total <= top ? row : Object.fromEntries(keys.map(key => [key, row[key] * top / total]));
    }), keys, colours: opgap.colours.class_, xAt: i => Math.min(data.steps, i * per),
      x: { domain: [0, data.steps], title: "step", whole: true, format: d3.format(",d") },
      y: { domain: [0, top], title: `time of a step (${axis.name})`, format: axis.format },
      title: i => per > 1 ? `steps ${i * per} to ${i * per + inBucket(i) - 1}, mean` : `step ${i}`,
      lines: i => [["all", opgap.time(totals[i])], ...keys.map(key => [opgap.className_[key], opgap.time(rows[i][key])])],
      label: "Step time by class, over all steps",
      click: i => {
        const point = Math.min(steps.start_ns.length - 1, Math.floor(i * per / data.stepsPerPoint));
        select(steps.start_ns[point], steps.start_ns[point] + steps.durations_ns[point]);
      } });
  };

  /* Shares of each part of the run; groups: key to array of ns. */
  opgap.shareChart = function (data, id, groups, colours, capacity, label, select) {
    const width_ns = data.report.over_time.bucket_ns, duration = data.duration;
    const keys = Object.keys(groups), count = keys.length ? groups[keys[0]].length : 0;
    const length = i => Math.max(1, Math.min(width_ns, duration - i * width_ns));
    const rows = d3.range(count).filter(i => i * width_ns < duration)
      .map(i => Object.fromEntries(keys.map(key => [key, groups[key][i] / length(i) / capacity])));
    const axis = opgap.timeAxis(duration), box = el("div", { class: "chart", id });
    const largest = d3.max(rows, row => opgap.sum(Object.values(row))) || 0;
    const most = "busy" in groups ? Math.max(1, largest) : Math.max(.05, Math.ceil(largest * 20) / 20);
    return stacked(box, { rows, keys, colours, height: 200, xAt: i => Math.min(duration, i * width_ns),
      x: { domain: [0, duration], title: `time since the start (${axis.name})`, format: axis.format },
      y: { domain: [0, most], title: "share of time", format: d3.format(".0%") },
      title: i => `${opgap.time(i * width_ns)} to ${opgap.time(Math.min(duration, (i + 1) * width_ns))}`,
      lines: i => keys.filter(key => groups[key][i] > 0).map(key => [key, opgap.percent(rows[i][key])]), label,
      click: i => select(i * width_ns, Math.min(duration, (i + 1) * width_ns)) });
  };

  /* Bars of equal width in time. */
  opgap.barChart = function (id, data, values, start, width_ns, title, label) {
    const box = el("div", { class: "chart", id }), axis = opgap.timeAxis(data.duration);
    opgap.responsive(box, width => {
      const f = frame(box, width, 170, { domain: [0, data.duration], title: `time since the start (${axis.name})`, format: axis.format },
        { domain: [0, (d3.max(values) || 1) * 1.1], title, format: d3.format(".1~f") }, label);
      f.svg.append("g").selectAll("rect").data(values).join("rect").attr("fill", opgap.colours.cause["data loading"])
        .attr("x", (value, i) => f.xs(start + i * width_ns) + .5).attr("y", value => f.ys(value || 0)).attr("data-value", value => value)
        .attr("width", Math.max(1, f.xs(width_ns) - f.xs(0) - 1)).attr("height", value => f.ys(0) - f.ys(value || 0));
      follow(f, at => {
        const i = Math.floor((at - start) / width_ns);
        return i < 0 || i >= values.length ? null : { x: start + (i + .5) * width_ns, title: opgap.time(start + i * width_ns),
          lines: [[title, values[i] === null ? "–" : values[i].toFixed(2)]] };
      });
    });
    return box;
  };

  /* Lines over time; rows: name, x, y, colour. */
  opgap.lineChart = function (data, id, rows, title, label) {
    const box = el("div", { class: "chart", id }), xAxis = opgap.timeAxis(data.duration);
    opgap.responsive(box, width => {
      const largest = (d3.max(rows, row => d3.max(row.y)) || 1) * 1.05, axis = opgap.byteAxis(largest);
      const f = frame(box, width, 240, { domain: [0, data.duration], title: `time since the start (${xAxis.name})`,
        format: xAxis.format }, { domain: [0, largest], title: `${title} (${axis.name})`, format: axis.format,
        ticks: count => byteTicks(largest, count) }, label);
      f.svg.append("g").selectAll("path").data(rows).join("path").attr("fill", "none").attr("data-key", row => row.name)
        .attr("stroke", row => row.colour).attr("stroke-width", row => row.colour === opgap.colours.rest ? 1 : 1.8)
        .attr("d", row => d3.line().x((value, i) => f.xs(row.x[i])).y(value => f.ys(value))(row.y));
      f.svg.append("g").selectAll("circle").data(rows.filter(row => row.y.length === 1)).join("circle").attr("r", 3)
        .attr("cx", row => f.xs(row.x[0])).attr("cy", row => f.ys(row.y[0])).attr("fill", row => row.colour);
      follow(f, at => {
        const near = rows.map(row => ({ row, i: Math.max(0, d3.bisect(row.x, at) - 1) }))
          .filter(({ row }) => row.x[0] <= at && row.x[row.x.length - 1] >= at);
        near.sort((a, b) => b.row.y[b.i] - a.row.y[a.i]);
        return near.length === 0 ? null : { x: at, title: opgap.time(at),
          lines: near.slice(0, 8).map(({ row, i }) => [row.name, opgap.bytes(row.y[i])]) };
      });
    });
    return box;
  };
})(window.opgap);
