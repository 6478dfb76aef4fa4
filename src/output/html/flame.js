/* The flame graph: call tree of ops, by their own CPU time or by the GPU time of what they launched. */
(function (opgap) {
  const el = opgap.el, ROW = 19, LEAST = 1.2; // pixels

  function tree(nodes, value) {
    const root = { name: "all", children: [], own: 0 }, made = [];
    const roles = new Map();
    nodes.forEach((node, i) => {
      const own = node[value];
      const item = { name: node.name, kind: node.kind, node, own, children: [] };
      made[i] = item;
      if (node.parent >= 0)
        return made[node.parent].children.push(item);
      if (!roles.has(node.role))
        roles.set(node.role, { name: node.role, children: [], own: 0 });
      roles.get(node.role).children.push(item);
    });
    root.children = [...roles.values()];
    return d3.hierarchy(root).sum(item => item.own).sort((a, b) => b.value - a.value);
  }

  opgap.flame = function (data, hotOps) {
    const nodes = data.flame.nodes, gpu = nodes.some(node => node.totalGpu > 0);
    const state = { value: "self", focus: null, text: "" };
    const svgBox = el("div", { id: "flame-box" }), details = el("div", { class: "details", id: "flame-details" },
      el("p", { class: "note" }, "Click a box to make it fill the width; click it again to go back."));
    const count = el("span", { class: "count", id: "flame-count", "aria-live": "polite" });
    const roots = {};
    const root = () => roots[state.value] || (roots[state.value] = d3.partition()(tree(nodes, state.value)));

    const button = (value, text) => el("button", { type: "button", id: "flame-" + value, "aria-pressed": String(value === state.value),
      on: { click: event => {
        state.value = value;
        state.focus = null;
        for (const other of event.target.parentNode.querySelectorAll("button[aria-pressed]"))
          other.setAttribute("aria-pressed", String(other === event.target));
        draw();
      } } }, text);
    const search = el("input", { type: "search", placeholder: "Find an op", "aria-label": "Find an op in the flame graph",
      on: { input: () => {
        state.text = search.value.toLowerCase();
        draw();
      } } });
    const reset = el("button", { type: "button", on: { click: () => focus(null) } }, "Whole graph");

    function focus(item) {
      state.focus = item;
      draw();
    }

    function about(item) {
      const node = item.data.node, share = item.value / root().value;
      const rows = [["name", opgap.name(item.data.name)],
        [state.value === "self" ? "CPU time" : "GPU time", `${opgap.time(item.value)} (${opgap.percent(share)} of all)`]];
      if (node)
        rows.push(["own CPU time", opgap.time(node.self)], ["total CPU time", opgap.time(node.total)],
          ["own GPU time", gpu ? opgap.time(node.selfGpu) : "–"], ["calls", opgap.count(node.calls)]);
      details.replaceChildren(el("dl", {}, rows.map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)])),
        node ? el("button", { type: "button", on: { click: () => hotOps(node.name) } }, "Show in hot ops") : "");
    }

    function draw() {
      const width = svgBox.clientWidth;
      if (width === 0)
        return;
      const top = root(), at = state.focus || top, span = at.x1 - at.x0 || 1;
      const shown = top.descendants().filter(item => item.value > 0 && item.x1 > at.x0 && item.x0 < at.x1 &&
        (item.depth <= at.depth ? item === at || at.ancestors().includes(item) : (item.x1 - item.x0) / span * width >= LEAST));
      const deepest = d3.max(shown, item => item.depth) || 0;
      const found = item => state.text !== "" && item.data.name.toLowerCase().includes(state.text);
      const svg = d3.create("svg").attr("width", width).attr("height", (deepest + 1) * ROW).attr("role", "tree")
        .attr("aria-label", "Flame graph");
      const x = value => Math.max(0, Math.min(width, (value - at.x0) / span * width));
      const g = svg.selectAll("g").data(shown).join("g").attr("transform", item => `translate(${x(item.x0)},${item.depth * ROW})`)
        .attr("tabindex", item => item === at ? 0 : -1).attr("role", "treeitem").attr("data-name", item => item.data.name)
        .attr("data-ns", item => item.value).attr("class", item => state.text && !found(item) ? "dim" : null)
        .attr("aria-label", item => `${item.data.name}, ${opgap.time(item.value)}`);
      const wide = item => x(item.x1) - x(item.x0);
      g.append("rect").attr("width", item => Math.max(.5, wide(item))).attr("height", ROW - 1).attr("rx", 1.5)
        .attr("fill", item => found(item) ? "#f0e442" : item.data.node
          ? opgap.shade(opgap.colours.flame[item.data.kind], item.data.name) : "#c3ccd4");
      g.filter(item => wide(item) > 34).append("text").attr("x", 4).attr("y", 13).text(item => {
        const room = Math.floor((wide(item) - 8) / 6.3), name = opgap.clean(item.data.name);
        return name.length <= room ? name : room > 3 ? name.slice(0, room - 1) + "…" : "";
      });
      g.each(function (item) {
        this.addEventListener("click", () => choose(item));
        this.addEventListener("keydown", event => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            choose(item);
          } else if (event.key.startsWith("Arrow")) {
            event.preventDefault();
            walk(item, event.key, shown, svg.node());
          }
        });
        this.addEventListener("pointermove", event => opgap.tip.show(event, item.data.name, [
          [state.value === "self" ? "CPU time" : "GPU time", opgap.time(item.value)],
          ["share of all", opgap.percent(item.value / top.value)],
          ...(item.data.node ? [["calls", opgap.count(item.data.node.calls)]] : [])]));
        this.addEventListener("pointerleave", opgap.tip.hide);
      });
      svgBox.replaceChildren(svg.node());
      count.textContent = state.text ? `${opgap.count(top.descendants().filter(found).length)} boxes match` : "";
    }

    /* Arrow keys: up and down the stack, left and right among the boxes of one height. */
    function walk(item, key, shown, svg) {
      const level = shown.filter(other => other.depth === item.depth).sort((a, b) => a.x0 - b.x0), place = level.indexOf(item);
      const next = key === "ArrowUp" ? item.parent : key === "ArrowDown" ? (item.children || []).find(child => shown.includes(child))
        : level[place + (key === "ArrowRight" ? 1 : -1)];
      if (next && shown.includes(next))
        svg.childNodes[shown.indexOf(next)].focus();
    }

    function choose(item) {
      about(item);
      focus(state.focus === item || item.depth === 0 ? null : item);
    }

    const box = el("div", {}, el("div", { class: "tools" }, button("self", "CPU"), gpu ? button("selfGpu", "GPU by op") : null,
      search, count, reset), svgBox, details);
    opgap.responsive(svgBox, draw);
    return box;
  };
})(window.opgap);
