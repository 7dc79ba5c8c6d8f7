// One row followed through: what each carry held in it after every step of the block, as small charts.

kernelPlayer.drawRow = (panel, data, ids, id, states) => {
  const [WIDTH, HEIGHT, EDGE] = [240, 120, 6];
  const make = (name, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const slots = data.slots[states.get(id).launch].filter((slot) => slot.carry);
  // Which rows of the head pass through the carries of this block, and what a carry holds of one of them.
  const shown = new Set();
  for (const { after, rows } of states.values()) {
    for (const { name } of slots)
      for (let row = 0; row < (after[name]?.rows ?? 0); row++) shown.add(row + (rows[name] ?? 0));
  }
  const select = panel.querySelector("select") ?? document.createElement("select");
  const picked = shown.has(Number(select.value)) && select.value ? Number(select.value) : Math.min(...shown);
  select.replaceChildren(...[...shown].sort((a, b) => a - b).map((row) => new Option(`row ${row}`, row)));
  select.value = picked;
  select.setAttribute("aria-label", "The row to follow");
  select.onchange = () => kernelPlayer.drawRow(panel, data, ids, id, states);

  const chart = ({ name, symbol }) => {
    const held = ids.map((each) => {
      const { after, rows } = states.get(each);
      const [values, row] = [after[name], picked - (rows[name] ?? 0)];
      return values && row >= 0 && row < values.rows
        ? values.values.subarray(row * values.columns, (row + 1) * values.columns)
        : [];
    });
    const columns = Math.max(...held.map((values) => values.length));
    const numbers = (column) => held.map((values) => values[column] ?? NaN);
    const lines = Array.from({ length: columns }, (_, column) => numbers(column));
    const finite = lines.flat().filter(Number.isFinite);
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const x = (at) => EDGE + (at / Math.max(1, ids.length - 1)) * (WIDTH - 2 * EDGE);
    const y = (value) =>
      HEIGHT - EDGE - (high > low ? (value - low) / (high - low) : 0.5) * (HEIGHT - 2 * EDGE);
    const now = ids.indexOf(id);
    const drawn = lines.flatMap((values) => {
      // What a step leaves stays until the next changes it, so a line runs level and then jumps.
      let path = "";
      values.forEach((value, at) => {
        if (Number.isFinite(value)) path += path ? `H${x(at)}V${y(value)}` : `M${x(at)} ${y(value)}`;
      });
      const dot = Number.isFinite(values[now])
        ? [make("circle", { cx: x(now), cy: y(values[now]), r: 2.5 })]
        : [];
      return [make("path", { d: path || "M0 0" }), ...dot];
    });
    const text = finite.length
      ? `${low.toFixed(2)} to ${high.toFixed(2)}`.replaceAll(/-(?!0\.00)/g, "−").replaceAll("-", "")
      : "no number yet";
    const says = `${name}, row ${picked}, over the steps of this block: ${text}`;
    const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": says });
    svg.append(make("path", { class: "now", d: `M${x(now)} 0V${HEIGHT}` }), ...drawn);
    const figure = Object.assign(document.createElement("div"), { className: `line term-${symbol}` });
    const label = Object.assign(document.createElement("p"), { textContent: name });
    label.append(Object.assign(document.createElement("small"), { textContent: ` ${text}` }));
    figure.append(label, svg);
    return figure;
  };

  const title = Object.assign(document.createElement("p"), { className: "title", textContent: "Follow " });
  const axis = " over the steps of this block; dashed: this one";
  title.append(select, Object.assign(document.createElement("small"), { textContent: axis }));
  const lines = Object.assign(document.createElement("div"), { className: "lines" });
  lines.append(...slots.map(chart));
  panel.replaceChildren(...(shown.size ? [title, lines] : []));
};
