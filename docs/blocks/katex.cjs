// Renders formulas for docs/blocks/formulas.py: one JSON request a line in, one JSON answer a line out.
const readline = require("node:readline");
const katex = require(process.argv[2]);

// \m{m_i}, \l{d'_i}, \O{o'_i}, … : a term in the colour of its slot.
const terms = ["m", "l", "O", "S", "Q", "K", "V"];
const macros = Object.fromEntries(terms.map((term) => [`\\${term}`, `\\htmlClass{term-${term}}{#1}`]));
// For slots whose letters TeX or the terms above have already: \dd, \LL, \xx, \yy.
for (const term of ["d", "L", "x", "y"]) macros[`\\${term}${term}`] = `\\htmlClass{term-${term}}{#1}`;
// \step{update}{…} : what one kind of step computes, lit by the player while it runs.
macros["\\step"] = "\\htmlClass{of-#1}{#2}";

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { tex, display } = JSON.parse(line);
  let answer;
  try {
    const html = katex.renderToString(tex, {
      displayMode: display,
      macros: { ...macros },
      output: "htmlAndMathml",
      strict: (code) => (code === "htmlExtension" ? "ignore" : "error"),
      trust: ({ command }) => command === "\\htmlClass",
    });
    answer = { html };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
