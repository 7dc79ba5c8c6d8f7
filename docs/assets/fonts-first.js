// In the head: text with formulas is shown once their fonts are there (or after half a second), so that no line moves.

{
  const { classList } = document.documentElement;
  classList.add("fonts-wait");
  const fonts = ["1em KaTeX_Main", "italic 1em KaTeX_Math", "1em KaTeX_Size1", "1em KaTeX_Size2"];
  const loaded = Promise.all(fonts.map((font) => document.fonts.load(font)));
  const late = new Promise((resolve) => setTimeout(resolve, 500));
  Promise.race([loaded, late]).finally(() => classList.remove("fonts-wait"));
}
