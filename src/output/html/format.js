/* Figures as text, elements, colours, the hint beside the pointer. */
(function (opgap) {
  function digits(value) {
    return value >= 1000 ? value.toFixed(0) : value >= 100 ? value.toFixed(1) : value >= 10 ? value.toFixed(2) : value.toFixed(3);
  }

  opgap.time = function (ns) {
    if (ns === null || ns === undefined)
      return "–";
    if (ns === 0)
      return "0";
    if (ns < 1000)
      return Math.round(ns) + " ns";
    return ns < 1e6 ? digits(ns / 1e3) + " µs" : ns < 1e9 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
  };

  opgap.bytes = function (bytes) {
    if (bytes === null || bytes === undefined)
      return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++)
      bytes /= 1024;
    return unit ? digits(bytes) + " " + units[unit] : bytes + " B";
  };

  opgap.count = value => value === null || value === undefined ? "–" : value.toLocaleString("en-US");
  opgap.percent = share => share === null || share === undefined || !isFinite(share) ? "–" : (share * 100).toFixed(1) + " %";
  opgap.sum = list => list.reduce((sum, value) => sum + (value || 0), 0);

  /* An element; texts go in as text only.  Attributes: class, id, on (listeners), anything else. */
  opgap.el = function (tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "on")
        for (const [event, listener] of Object.entries(value))
          element.addEventListener(event, listener);
      else if (value !== null && value !== undefined && value !== false)
        element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
    return element;
  };

  /* Control characters and those that turn the direction of text, in the open. */
  opgap.clean = text => text.replace(/[\u0000-\u001f\u007f-\u009f]/g, c => "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0"))
    .replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, c => "\\u" + c.charCodeAt(0).toString(16));

  /* A name of the traced program: any text, kept apart from its surroundings. */
  opgap.name = text => opgap.el("bdi", {}, opgap.clean(text));

  /* Colours after Okabe and Ito, told apart with every kind of colour vision. */
  const ORANGE = "#e69f00", SKY = "#56b4e9", GREEN = "#009e73", YELLOW = "#f0e442", BLUE = "#0072b2",
    RED = "#d55e00", PINK = "#cc79a7", GREY = "#9aa3ab", DARK = "#6b7580";
  opgap.colours = {
    class_: { kernel: GREEN, memcpy: BLUE, memset: "#7fb8d8", communication: RED, runtime: YELLOW, dataloader: ORANGE,
      cpu_exec: SKY, other: GREY },
    cause: { "data loading": ORANGE, communication: RED, synchronisation: PINK, lock: "#8f3b76", "file I/O": "#b57b00",
      allocation: BLUE, GIL: "#4b0f6b", "framework ops": SKY, "code between ops": YELLOW,
      "device dependency or launch latency": "#66c2a5", "run queue": "#a6761d", "cgroup throttling": "#7a1f1f",
      "blocked outside hooks": DARK, sleep: "#b8c4ce", "child process": "#c2a5cf", "start-up": "#d9d9d9", unknown: GREY },
    span: { op: SKY, range: PINK, "free range": PINK, call: ORANGE, cuda: YELLOW, kernel: GREEN, memcpy: "#4f9fd6",
      memset: "#7fb8d8", sync: RED, overhead: GREY },
    flame: { torch: SKY, range: PINK, call: ORANGE, kernel: GREEN, memcpy: "#4f9fd6", memset: "#7fb8d8" },
    lines: [BLUE, RED, GREEN, ORANGE, PINK, SKY, "#8f3b76", "#b57b00"],
    rest: GREY,
  };

  /* The same colour a little lighter or darker by name, so that neighbours differ. */
  opgap.shade = function (colour, text) {
    let hash = 2166136261;
    for (let i = 0; i < text.length; i++)
      hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    const c = d3.lab(colour);
    c.l = Math.max(58, Math.min(90, c.l + ((hash >>> 8) % 21 - 10)));
    return c.toString();
  };

  opgap.css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /* ---- the hint ---- */
  opgap.tip = {
    show(event, title, lines) {
      const tip = document.getElementById("tip"), el = opgap.el;
      tip.replaceChildren(el("div", {}, el("strong", {}, opgap.name(title))),
        ...lines.map(([left, right]) => el("div", { class: "line" }, el("span", {}, left), el("span", {}, right))));
      tip.hidden = false;
      const box = tip.getBoundingClientRect();
      const x = Math.min(event.clientX + 14, innerWidth - box.width - 6);
      const y = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16;
      tip.style.left = Math.max(4, x) + "px";
      tip.style.top = Math.max(4, y) + "px";
    },
    hide() {
      document.getElementById("tip").hidden = true;
    },
  };

  /* Calls draw(width) now and whenever the element's width or the theme changes. */
  opgap.responsive = function (element, draw) {
    let last = 0;
    const again = () => {
      const width = element.clientWidth;
      if (width > 0)
        draw(last = width);
    };
    new ResizeObserver(() => {
      if (element.clientWidth !== last)
        again();
    }).observe(element);
    document.addEventListener("opgap-theme", again);
    again();
  };
})(window.opgap);
