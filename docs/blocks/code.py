"""Code of a kernel under its true line numbers, `/// kernel-code | fa1`.

Shows the whole file, the `section` named, or all that stands before the section named by `until`.
"""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

from pymdownx.blocks.block import type_string

from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension
from docs.source import listing, source_of


class KernelCode(HtmlBlock):
    """`/// kernel-code | KERNEL`, with the options `section` and `until`."""

    NAME = "kernel-code"
    OPTIONS: ClassVar = {"section": ["", type_string], "until": ["", type_string]}

    def attributes(self) -> dict[str, str]:
        return {"class": "kernel-code highlight"}

    def html(self) -> str:
        """The listing and its place in the file; KeyError if the file has no such section."""
        source = source_of(self.argument)
        section, until = self.options["section"], self.options["until"]
        shown = range(1, source.lines[-1].number + 1)
        if section:
            shown = source.sections[section]
        if until:
            shown = range(1, source.sections[until].start - 1)
        place = f"{source.name}, lines {shown.start}–{shown.stop - 1}"
        return f'<p class="file">{escape(place)}</p>{listing(source, shown)}'


def makeExtension(**options: Any) -> HtmlBlockExtension:
    """What Markdown calls to load `docs.blocks.code`."""
    return HtmlBlockExtension(KernelCode, **options)
