/* Tables: sorted by a click on a column's head, filtered by text, cut to the first rows until more are asked for. */
(function (opgap) {
  const el = opgap.el, FIRST = 20;

  /* Columns: title, value(row) for sorting and filtering, text(value, row), and optionally: number, name (a name of the
   * program), meter (a bar behind the largest), cell(row) (an element), attribute (exact value kept as data-value). */
  opgap.table = function (options) {
    const { id, columns, rows, filter, total } = options;
    const state = { column: options.sort || 0, ascending: !!options.ascending, text: "", shown: FIRST };
    const head = el("tr", {}), body = el("tbody", {}), count = el("span", { class: "count", "aria-live": "polite" });
    const more = el("button", { type: "button", class: "more-rows", on: { click: () => show(state.shown * 5) } });
    const input = el("input", { type: "search", placeholder: filter, "aria-label": filter, on: { input: () => {
      state.text = input.value.toLowerCase();
      draw();
    } } });

    function show(shown) {
      state.shown = shown;
      draw();
    }

    function compare(left, right) {
      const column = columns[state.column], a = column.value(left), b = column.value(right);
      const order = typeof a === "string" || typeof b === "string" ? String(a ?? "").localeCompare(String(b ?? ""))
        : (a ?? -1) - (b ?? -1);
      return state.ascending ? order : -order;
    }

    function matches(row) {
      return columns.some(column => (column.name || column.search) && String(column.value(row) ?? "").toLowerCase().includes(state.text));
    }

    function drawHead() {
      head.replaceChildren(...columns.map((column, index) => {
        const sorted = index === state.column;
        const attributes = { class: column.number ? "number" : null, scope: "col",
          "aria-sort": sorted ? (state.ascending ? "ascending" : "descending") : null };
        if (column.plain)
          return el("th", attributes, column.title);
        return el("th", attributes, el("button", { type: "button", title: column.help, on: { click: () => {
          state.ascending = sorted ? !state.ascending : !column.number;
          state.column = index;
          draw();
          head.children[index].querySelector("button").focus();
        } } }, column.title));
      }));
    }

    function cell(column, row, largest) {
      if (column.cell)
        return el("td", { class: column.plain ? "row-action" : column.class }, column.cell(row));
      const value = column.value(row), text = column.text ? column.text(value, row) : value ?? "–";
      const kind = [column.number && "number", column.name && "name", column.meter && "meter", column.class];
      const td = el("td", { class: kind.filter(Boolean).join(" ") || null, "data-value": column.number ? value : null },
        column.name ? opgap.name(String(text)) : String(text));
      if (column.meter && largest > 0)
        td.style.setProperty("--share", Math.max(0, (value || 0) / largest * 100) + "%");
      return td;
    }

    function draw() {
      const found = state.text ? rows.filter(matches) : rows.slice();
      found.sort(compare);
      const largest = columns.map(column => column.meter ? Math.max(...rows.map(row => column.value(row) || 0), 0) : 0);
      drawHead();
      body.replaceChildren(...found.slice(0, state.shown).map(row => {
        const tr = el("tr", {}, columns.map((column, index) => cell(column, row, largest[index])));
        if (options.attributes)
          for (const [key, value] of Object.entries(options.attributes(row)))
            tr.setAttribute(key, value);
        return tr;
      }));
      const all = total > rows.length ? `the first ${opgap.count(rows.length)} of ${opgap.count(total)} rows are in this page` : "";
      count.textContent = [state.text ? `${opgap.count(found.length)} of ${opgap.count(rows.length)} rows` : "", all]
        .filter(Boolean).join("; ");
      more.hidden = found.length <= state.shown;
      more.textContent = `Show more (${opgap.count(found.length - state.shown)} left)`;
    }

    draw();
    const box = el("div", { class: "table", id }, filter ? el("div", { class: "tools" }, input, count) : null,
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.label || filter || id },
        el("table", {}, el("thead", {}, head), body)), more);
    box.filterBy = text => {
      input.value = text;
      state.text = text.toLowerCase();
      draw();
    };
    return box;
  };
})(window.opgap);
