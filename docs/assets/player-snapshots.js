// The snapshot and the traffic of a step: what every slot holds, what the step changed, what crossed HBM.

(() => {
  const DIGITS = 3;
  const LARGEST_TABLE = { rows: 8, columns: 8 }; // beyond it, a heat map
  const waiting = new Map();
  const asked = new Map();

  // Called by films/<recording>/snapshots.js.
  kernelPlayer.receive = (recording, data) => waiting.get(recording)(data);

  // The snapshots of a recording, loaded once: a script, since a page on file:// may not fetch.
  kernelPlayer.snapshots = (recording, address) => {
    if (!asked.has(recording)) {
      asked.set(
        recording,
        new Promise((resolve, reject) => {
          waiting.set(recording, resolve);
          const script = document.createElement("script");
          script.src = address;
          script.onerror = () => reject(new Error(`${address} cannot be loaded`));
          document.head.append(script);
        }),
      );
    }
    return asked.get(recording);
  };

  const decode = ([rows, columns, base64]) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    return { rows, columns, values: new Float32Array(bytes.buffer) };
  };

  // What each place held before and holds after the step `id`, and the traffic up to it.
  const stateAt = (data, ids, id) => {
    const state = { before: {}, after: {}, acted: new Set(), now: {}, sofar: {}, total: {} };
    let reached = false;
    for (const each of ids) {
      const step = data.steps[each];
      if (step && !reached) {
        state.before = step.fresh ? {} : { ...state.after };
        state.after = { ...state.before };
        for (const [name, held] of Object.entries({ ...step.sram, ...step.hbm }))
          state.after[name] = decode(held);
        state.acted = new Set([...Object.keys(step.sram), ...(step.fresh ? [] : Object.keys(step.hbm))]);
        state.now = step.traffic;
        add(state.sofar, step.traffic);
      } else if (!reached) {
        state.before = state.after;
        state.acted = new Set();
        state.now = {};
      }
      if (step) add(state.total, step.traffic);
      reached ||= each === id;
    }
    return state;
  };

  const add = (sums, traffic) => {
    for (const [name, [reads, writes]] of Object.entries(traffic)) {
      const sum = sums[name] ?? [0, 0];
      sums[name] = [sum[0] + reads, sum[1] + writes];
    }
  };

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const written = (value, digits) => {
    if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "NaN";
    const text = value.toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  };

  // The fewest decimals, at least one, that write all `values` as exactly as DIGITS decimals would.
  const digitsFor = (values) => {
    let digits = 1;
    for (const value of values) {
      while (
        digits < DIGITS &&
        Number.isFinite(value) &&
        !/^0*$/.test(value.toFixed(DIGITS).split(".")[1].slice(digits))
      ) {
        digits += 1;
      }
    }
    return digits;
  };

  const table = (before, after) => {
    const comparable = before && before.rows === after.rows && before.columns === after.columns;
    const digits = digitsFor(comparable ? [...before.values, ...after.values] : after.values);
    const body = make("tbody");
    for (let row = 0; row < after.rows; row++) {
      const cells = make("tr");
      for (let column = 0; column < after.columns; column++) {
        const at = row * after.columns + column;
        const cell = make("td", {}, make("span", { className: "value" }, written(after.values[at], digits)));
        if (before !== undefined && (!comparable || before.values[at] !== after.values[at])) {
          cell.classList.add("changed");
          if (comparable) cell.prepend(make("del", {}, written(before.values[at], digits)));
        }
        cells.append(cell);
      }
      body.append(cells);
    }
    return make("table", { className: "numbers" }, body);
  };

  // One pixel for each number: the slot's colour for what is above zero, gray for what is below, by size.
  const heatMap = ({ rows, columns, values }, name) => {
    const finite = [...values].filter(Number.isFinite);
    const largest = Math.max(...finite.map(Math.abs), 1e-30);
    const range = `${written(Math.min(...finite), DIGITS)} to ${written(Math.max(...finite), DIGITS)}`;
    const canvas = make("canvas", { width: columns, height: rows, role: "img" });
    canvas.setAttribute("aria-label", `${name}: ${rows} × ${columns} numbers, ${range}`);
    canvas.style.setProperty("--rows", rows);
    canvas.style.setProperty("--columns", columns);
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
      const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
      canvas.title = `row ${row}, column ${column}: ${written(values[row * columns + column], DIGITS)}`;
    });
    const paint = () => {
      const style = getComputedStyle(canvas);
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, columns, rows);
      values.forEach((value, at) => {
        if (!Number.isFinite(value)) return;
        context.globalAlpha = Math.abs(value) / largest;
        context.fillStyle = value < 0 ? style.getPropertyValue("--below-zero") : style.color;
        context.fillRect(at % columns, Math.floor(at / columns), 1, 1);
      });
    };
    requestAnimationFrame(paint); // once it stands in the page and has a colour
    return make("div", { className: "heat-map" }, canvas, make("small", {}, range));
  };

  const slot = (place, state) => {
    const after = state.after[place.name];
    const acted = state.acted.has(place.name);
    const card = make(
      "div",
      { className: `slot term-${place.symbol}` },
      make("p", { className: "name" }, place.name),
    );
    card.dataset.slot = place.name;
    if (acted) card.classList.add("acted");
    if (!after) {
      card.append(make("p", { className: "empty" }, "empty"));
    } else if (after.columns > LARGEST_TABLE.columns || after.rows > LARGEST_TABLE.rows) {
      card.append(heatMap(after, place.name));
    } else {
      card.append(table(acted ? (state.before[place.name] ?? null) : undefined, after));
    }
    return card;
  };

  const drawSnapshot = (panel, data, state) => {
    const group = (memory, says) => {
      const cards = data.places
        .filter((place) => place.memory === memory)
        .map((place) => [place, slot(place, state)]);
      const shown = cards
        .filter(([place]) => memory === "SRAM" || state.after[place.name])
        .map(([, card]) => card);
      const slots = make("div", { className: "slots" }, ...shown);
      return shown.length
        ? [make("p", { className: "title" }, memory, make("small", {}, ` ${says}`)), slots]
        : [];
    };
    panel.replaceChildren(
      ...group("SRAM", "after this step; ● filled or changed by it"),
      ...group("HBM", "what this block has left there; ● written by it"),
    );
  };

  const drawTraffic = (panel, data, state) => {
    const count = (number) => (number ? number.toLocaleString("en").replaceAll(",", "\u202f") : "·");
    const sum = (traffic, direction) =>
      Object.values(traffic).reduce((total, both) => total + both[direction], 0);
    const row = (name, now, sofar, total) => {
      const cells = [now[0], now[1], sofar[0], sofar[1], total[0], total[1]].map((number) =>
        make("td", {}, count(number)),
      );
      return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
    };
    const rows = data.places
      .filter((place) => place.memory === "HBM")
      .map(({ name, symbol }) => {
        const none = [0, 0];
        const line = row(name, state.now[name] ?? none, state.sofar[name] ?? none, state.total[name] ?? none);
        line.firstChild.className = `term-${symbol}`;
        if (state.now[name]) line.classList.add("acted");
        return line;
      });
    const both = (traffic) => [sum(traffic, 0), sum(traffic, 1)];
    rows.push(row("all", both(state.now), both(state.sofar), both(state.total)));
    const heads = ["this step", "so far", "whole block"].map((text) =>
      make("th", { colSpan: 2, scope: "colgroup" }, text),
    );
    const kinds = heads.flatMap(() => [
      make("th", { scope: "col" }, "read"),
      make("th", { scope: "col" }, "written"),
    ]);
    panel.replaceChildren(
      make(
        "p",
        { className: "title" },
        "Traffic",
        make("small", {}, " elements of 4 bytes across HBM, this block"),
      ),
      make(
        "table",
        { className: "numbers" },
        make("thead", {}, make("tr", {}, make("td"), ...heads), make("tr", {}, make("td"), ...kinds)),
        make("tbody", {}, ...rows),
      ),
    );
  };

  // Draw the step `id` of the film whose steps are `ids`, in order.
  kernelPlayer.drawStep = (snapshot, traffic, data, ids, id) => {
    const state = stateAt(data, ids, id);
    drawSnapshot(snapshot, data, state);
    drawTraffic(traffic, data, state);
  };
})();
