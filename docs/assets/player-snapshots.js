// The snapshot and the traffic of a step: what every slot holds, what the step changed, what crossed HBM.

(() => {
  const DIGITS = 3;
  const LARGEST_TABLE = { rows: 12, columns: 8 }; // beyond it, a heat map
  const HEAT_MAP =
    "One cell for each number: in the slot's colour above zero, gray below, the stronger the further from zero. " +
    "Point at a cell to read it; copying gives them all.";
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

  const decode = ([rows, columns, base64], notWritten) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    return {
      rows,
      columns,
      values: new Float32Array(bytes.buffer),
      bits: new Uint32Array(bytes.buffer),
      notWritten,
    };
  };

  // For each step of the block that `id` belongs to: what every place held before and after it.
  const statesOf = (data, ids, id) => {
    let states = new Map();
    let state = { after: {}, launch: 0, rows: {} };
    for (const each of ids) {
      const step = data.steps[each] ?? {};
      if (step.launch !== undefined) {
        if (states.has(id)) break; // the next block
        states = new Map();
        state = { after: decoded(data, step.start), launch: step.launch, rows: {} };
      }
      const changes = { ...step.sram, ...step.hbm };
      state = {
        launch: state.launch,
        rows: { ...state.rows, ...step.rows },
        before: state.after,
        after: { ...state.after, ...decoded(data, changes) },
        acted: new Set(Object.keys(changes)),
      };
      states.set(each, state);
    }
    return states;
  };

  const decoded = (data, changes) =>
    Object.fromEntries(Object.entries(changes).map(([name, held]) => [name, decode(held, data.notWritten)]));

  // What crosses HBM in the step `id`, in the film up to it, and in the whole film; and how many blocks the film shows.
  const trafficAt = (data, ids, id) => {
    const traffic = (some) => {
      const sums = {};
      for (const each of some) {
        for (const [name, [reads, writes]] of Object.entries(data.steps[each]?.traffic ?? {})) {
          const [read, written] = sums[name] ?? [0, 0];
          sums[name] = [read + reads, written + writes];
        }
      }
      return sums;
    };
    const blocks = ids.filter((each) => data.steps[each]?.launch !== undefined).length;
    return {
      now: traffic([id]),
      sofar: traffic(ids.slice(0, ids.indexOf(id) + 1)),
      total: traffic(ids),
      blocks,
    };
  };

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // `held.values[at]`; "·" where nothing was written yet: those bits are what the run put there beforehand.
  const cellText = (held, at, digits) =>
    held.bits[at] === held.notWritten ? "·" : written(held.values[at], digits);

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
        const cell = make("td", {}, make("span", { className: "value" }, cellText(after, at, digits)));
        if (before !== undefined && (!comparable || before.bits[at] !== after.bits[at])) {
          cell.classList.add("changed");
          if (comparable) cell.prepend(make("del", {}, cellText(before, at, digits)));
        }
        cells.append(cell);
      }
      body.append(cells);
    }
    return make("table", { className: "numbers" }, body);
  };

  // The numbers as NumPy writes them, with the digits that tell two of them apart.
  const asNumpy = ({ rows, columns, values, bits, notWritten }) => {
    const text = (at) => {
      const value = values[at];
      if (bits[at] === notWritten || Number.isNaN(value)) return "np.nan";
      return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : value > 0 ? "np.inf" : "-np.inf";
    };
    const line = (row) =>
      Array.from({ length: columns }, (_, column) => text(row * columns + column)).join(", ");
    const lines = Array.from({ length: rows }, (_, row) => `[${line(row)}]`);
    return `np.array([${lines.join(", ")}], dtype=np.float32)`;
  };

  const copyButton = (held) => {
    const button = make("button", { type: "button", className: "copy" }, "copy as NumPy");
    button.addEventListener("click", async () => {
      const lines = Object.entries(held).map(([name, values]) => `${name} = ${asNumpy(values)}`);
      try {
        await navigator.clipboard.writeText(`${lines.join("\n")}\n`);
        button.textContent = "copied";
      } catch {
        button.textContent = "the browser does not allow it";
      }
    });
    return button;
  };

  // What a heat map holds: its smallest and largest number, and what its blank cells stand for.
  const rangeOf = ({ values, bits, notWritten }) => {
    const finite = [...values].filter(Number.isFinite);
    const parts = finite.length
      ? [`${written(Math.min(...finite), DIGITS)} to ${written(Math.max(...finite), DIGITS)}`]
      : [];
    if (values.includes(-Infinity)) parts.push("−∞ (blank)");
    if (bits.includes(notWritten))
      parts.push(finite.length ? "not written yet (blank)" : "nothing written yet");
    return parts.join(", ");
  };

  // One pixel for each number: the slot's colour for what is above zero, gray for what is below, by size.
  // `before` is what the slot held before the step, if the step acted on it.
  const heatMap = (before, held, name) => {
    const { rows, columns, values } = held;
    const comparable = before && before.rows === rows && before.columns === columns;
    const largest = values.reduce(
      (so, value) => (Number.isFinite(value) ? Math.max(so, Math.abs(value)) : so),
      1e-30,
    );
    const range = rangeOf(held);
    const canvas = make("canvas", { width: columns, height: rows, role: "img" });
    canvas.setAttribute("aria-label", `${name}: ${rows} × ${columns} numbers, ${range}`);
    canvas.style.setProperty("--rows", rows);
    canvas.style.setProperty("--columns", columns);
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
      const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
      const at = row * columns + column;
      canvas.title = `row ${row}, column ${column}: ${cellText(held, at, DIGITS)}`;
      if (comparable) canvas.title += `; before this step ${cellText(before, at, DIGITS)}`;
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
    const says = make("small", {}, range);
    if (comparable) {
      const changed = held.bits.filter((each, at) => each !== before.bits[at]).length;
      says.append(`; ${changed} of ${values.length} changed`);
    }
    return make("div", { className: "heat-map" }, canvas, says);
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
      card.append(heatMap(acted && state.before[place.name], after, place.name));
    } else {
      card.append(table(acted ? (state.before[place.name] ?? null) : undefined, after));
    }
    return card;
  };

  const drawSnapshot = (panel, data, state) => {
    const group = (memory, says, places) =>
      places.length
        ? [
            make("p", { className: "title" }, memory, make("small", {}, ` ${says}`)),
            make("div", { className: "slots" }, ...places.map((place) => slot(place, state))),
          ]
        : [];
    panel.replaceChildren(
      copyButton(state.after),
      ...group("SRAM", "after this step; ● filled or changed by it", data.slots[state.launch]),
      ...group(
        "HBM",
        "as this block sees it; ● written by this step; · not written by it yet",
        data.arrays.filter(({ name }) => state.after[name]),
      ),
    );
    if (panel.querySelector("canvas")) panel.append(make("p", { className: "key" }, HEAT_MAP));
  };

  const drawTraffic = (panel, data, state) => {
    const count = (number) => (number ? number.toLocaleString("en").replaceAll(",", "\u202f") : "·");
    const all = (traffic, direction) =>
      Object.values(traffic).reduce((total, both) => total + both[direction], 0);
    const row = (name, now, sofar, total) => {
      const cells = [now[0], now[1], sofar[0], sofar[1], total[0], total[1]].map((number) =>
        make("td", {}, count(number)),
      );
      return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
    };
    const rows = data.arrays
      .filter(({ name }) => state.total[name])
      .map(({ name, symbol }) => {
        const none = [0, 0];
        const line = row(name, state.now[name] ?? none, state.sofar[name] ?? none, state.total[name] ?? none);
        line.firstChild.className = `term-${symbol}`;
        if (state.now[name]) line.classList.add("acted");
        return line;
      });
    const both = (traffic) => [all(traffic, 0), all(traffic, 1)];
    rows.push(row("all", both(state.now), both(state.sofar), both(state.total)));
    const heads = ["this step", "so far", "in all"].map((text) =>
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
        make(
          "small",
          {},
          ` elements of 4 bytes across HBM, ${state.blocks > 1 ? `the ${state.blocks} blocks of the film` : "this block"}`,
        ),
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
  kernelPlayer.drawStep = (snapshot, traffic, row, data, ids, id) => {
    const states = statesOf(data, ids, id);
    const state = states.get(id);
    const steps = [...states.keys()];
    drawSnapshot(snapshot, data, state);
    drawTraffic(traffic, data, trafficAt(data, ids, id));
    kernelPlayer.drawRow(row, data, steps, id, states);
  };
})();
