"""The source of a kernel as a page shows it: its lines under their own numbers, its named sections, its launch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from kernels.registry import find_kernel

MARKER = re.compile(r"^\s*//\s*--8<--\s*\[(start|end):(\w+)\]\s*$")
FUNCTION = re.compile(r"__global__\s+void\s+(\w+)\s*\(")
LEAVES = re.compile(r"\b(continue|break);")


@dataclass(frozen=True)
class Line:
    """One line of the file: its number there, and its text as highlighted HTML."""

    number: int
    html: str


@dataclass(frozen=True)
class Source:
    """A kernel's file without its section markers. `sections` maps a name to the numbers of its lines.

    `between` maps what happens outside the steps to its lines: `head:FUNCTION`, what runs before a function's first
    step, and `skip:FUNCTION`, what passes over a turn of a loop.
    """

    name: str
    lines: tuple[Line, ...]
    sections: dict[str, range]
    between: dict[str, range]


@cache
def source_of(kernel: str) -> Source:
    """The source of `kernel`; ParameterError if there is no such kernel."""
    file = find_kernel(kernel).source
    text = file.read_text(encoding="utf-8")
    sections: dict[str, range] = {}
    starts: dict[str, int] = {}
    markers = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if marker := MARKER.match(line):
            markers.add(number)
            edge, name = marker.groups()
            if edge == "start":
                starts[name] = number
            else:
                sections[name] = range(starts[name] + 1, number)
    code = highlight(text, get_lexer_by_name("cuda", stripnl=False), HtmlFormatter(nowrap=True))
    lines = (
        Line(number, html) for number, html in enumerate(code.splitlines(), start=1) if number not in markers
    )
    return Source(
        f"kernels/{file.name}", tuple(lines), sections, _between(text.splitlines(), sections.values())
    )


def _between(lines: Sequence[str], sections: Iterable[range]) -> dict[str, range]:
    """The lines outside the sections that run in a step of no name, by `head:FUNCTION` and `skip:FUNCTION`."""
    found: dict[str, range] = {}
    starts = [number for number, line in enumerate(lines, start=1) if FUNCTION.search(line)]
    for start, end in zip(starts, [*starts[1:], len(lines) + 1], strict=True):
        name = FUNCTION.findall(lines[start - 1])[0]
        inside = [section for section in sections if start < section.start < end]
        if not inside:
            continue
        templated = lines[start - 2].startswith("template")
        found[f"head:{name}"] = range(start - templated, min(section.start for section in inside) - 1)
        leaving = [
            number
            for number in range(start, end)
            if LEAVES.search(lines[number - 1]) and not any(number in section for section in inside)
        ]
        if len(leaving) == 1:
            found[f"skip:{name}"] = range(leaving[0], leaving[0] + 1)
    return found


def listing(source: Source, shown: range | None = None) -> str:
    """The lines of `source` with the numbers `shown`, or all, as HTML: each with its number and its sections."""
    lines = "".join(_line(source, line) for line in source.lines if shown is None or line.number in shown)
    return f'<pre tabindex="0" aria-label="{source.name}"><code>{lines}</code></pre>'


def _line(source: Source, line: Line) -> str:
    named = {**source.sections, **source.between}
    sections = " ".join(name for name, numbers in named.items() if line.number in numbers)
    return (
        f'<span class="line" data-line="{line.number}" data-sections="{sections}">'
        f'<span class="number" aria-hidden="true">{line.number}</span>{line.html}\n</span>'
    )


@cache
def host_listings(kernel: str) -> str:
    """The Python that launches `kernel`: what its declaration says of each launch, and the call that makes it."""
    declaration = find_kernel(kernel).source.with_suffix(".py")
    launches = [
        keyword
        for node in ast.walk(ast.parse(declaration.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Launch"
        for keyword in node.keywords
        if keyword.arg in ("function", "template", "grid", "arguments", "sram")
    ]
    declared = [number for k in launches for number in range(k.lineno, (k.value.end_lineno or k.lineno) + 1)]
    return _excerpt(declaration, declared) + _excerpt(BACKEND, _lines_of(BACKEND, "_launch"))


BACKEND = Path(__file__).parents[1] / "kernels" / "backend" / "cupy.py"


def _lines_of(file: Path, function: str) -> list[int]:
    """The numbers of the lines of a function or method."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return list(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    raise LookupError(f"{file} has no function {function}")


def _excerpt(file: Path, numbers: list[int]) -> str:
    """Lines of a Python file under their numbers."""
    name = str(file.relative_to(BACKEND.parents[2])) if file.is_relative_to(BACKEND.parents[2]) else file.name
    lexer = get_lexer_by_name("python", stripnl=False)
    code = highlight(file.read_text(encoding="utf-8"), lexer, HtmlFormatter(nowrap=True)).splitlines()
    lines = tuple(Line(number, code[number - 1]) for number in numbers)
    return f'<p class="file">{name}</p>{listing(Source(name, lines, {}, {}))}'
