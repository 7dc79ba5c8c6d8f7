"""Numbers in prose, `[=fa1.N]`, `[=fa1.read.K]`: figures of a recording, from its trace while the site is built."""

from __future__ import annotations

from re import Match
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

import kernels
from docs.numbers import counted
from docs.sizes import figure


class FromTrace(InlineProcessor):
    """Replaces `[=RECORDING.FIGURE]` by its value."""

    def handleMatch(self, m: Match[str], data: str) -> tuple[Element, int, int]:  # type: ignore[override]
        """The value, as text; FigureError if the recording has no such figure."""
        element = Element("span", {"class": "from-trace", "title": f"from the recording {m[1]}"})
        element.text = counted(figure(kernels.recorded(m[1]), m[2]))
        return element, m.start(), m.end()


class FromTraceExtension(Extension):
    """Registers the pattern."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Before links (160), which begin with a bracket too."""
        md.inlinePatterns.register(FromTrace(r"\[=([\w-]+)\.([\w.]+)\]", md), "from-trace", 185)


def makeExtension(**options: Any) -> FromTraceExtension:
    """What Markdown calls to load `docs.blocks.from_trace`."""
    return FromTraceExtension(**options)
