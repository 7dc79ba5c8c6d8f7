// The form of the traffic page: what the formulas say of the shape a reader picks.

for (const form of document.querySelectorAll("form.traffic-form")) {
  const methods = JSON.parse(form.dataset.methods);
  const inputs = [...form.querySelectorAll("input")];

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const counted = (count) => count.toLocaleString("en").replaceAll(",", "\u202f");
  const product = (names, sizes) =>
    names ? names.reduce((so, name) => so * BigInt(sizes[name]), BigInt(sizes.heads)) : 0n;

  const sizesPicked = () => {
    const sizes = Object.fromEntries(inputs.map((input) => [input.name, input.valueAsNumber]));
    const tiles = { Tr: Math.ceil(sizes.Nq / sizes.Br), Tc: Math.ceil(sizes.Nk / sizes.Bc) };
    return { ...sizes, ...tiles, N: sizes.Nq };
  };

  const countsOf = (method, sizes) =>
    method.arrays.map(([array, symbol, read, written]) => ({
      array,
      symbol,
      read: product(read, sizes),
      written: product(written, sizes),
    }));

  const sum = (counts, direction) => counts.reduce((total, count) => total + count[direction], 0n);
  const cell = (text) => make("td", {}, text);

  const arraysTable = (found) => {
    const rows = found.flatMap(({ method, counts }) =>
      counts.map(({ array, symbol, read, written }, at) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, at ? "" : method.title),
          make("th", { className: `term-${symbol}` }, array),
          cell(read ? counted(read) : "·"),
          cell(written ? counted(written) : "·"),
        ),
      ),
    );
    const heads = ["method", "array", "elements read", "elements written"];
    return make(
      "table",
      { className: "numbers" },
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows),
    );
  };

  const update = () => {
    if (!form.checkValidity()) return;
    const sizes = sizesPicked();
    const square = sizes.Nq === sizes.Nk;
    const found = methods
      .filter((method) => square || !method.square)
      .map((method) => ({ method, counts: countsOf(method, sizes) }));
    const totals = found.map(({ counts }) => sum(counts, "read") + sum(counts, "written"));
    const share = (total) => (Number(total) / Number(totals[0])).toFixed(2);
    const rows = found.map(({ method, counts }, at) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, method.title),
        make("td", {}, make("b", {}, share(totals[at]))),
        cell(counted(4n * totals[at])),
        cell(counted(sum(counts, "read"))),
        cell(counted(sum(counts, "written"))),
      ),
    );
    form.querySelector(".result tbody").replaceChildren(...rows);
    const least = found.find((_, at) => totals.every((total) => totals[at] <= total)).method.title;
    const fa1 = found.findIndex(({ method }) => method.square);
    const verdict = !square
      ? "FlashAttention-1 takes as many rows of Q as of K and V: it has no line here."
      : totals[fa1] > totals[0]
        ? "At this shape FlashAttention-1 moves more than standard attention."
        : totals[fa1] < totals[0]
          ? "At this shape FlashAttention-1 moves less than standard attention."
          : "At this shape FlashAttention-1 moves just as much as standard attention.";
    form.querySelector(".says").textContent =
      `Tr = ${sizes.Tr}, Tc = ${sizes.Tc}. ${least} moves the least. ${verdict}`;
    form.querySelector(".arrays").replaceChildren(arraysTable(found));
  };

  for (const input of inputs) input.disabled = false;
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  update();
}
