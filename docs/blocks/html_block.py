"""A Markdown block whose content is HTML made here, and how such a block becomes an extension."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.util import AtomicString
from pymdownx.blocks import BlocksExtension
from pymdownx.blocks.block import Block


class HtmlBlock(Block):
    """`/// NAME | ARGUMENT`: the element TAG, with `attributes()`, around `html()`."""

    ARGUMENT = True
    TAG = "div"

    @property
    def films(self) -> Path:
        """The folder of the films."""
        return Path(self.config["films"])

    @abstractmethod
    def attributes(self) -> dict[str, str]:
        """The attributes of the element."""

    @abstractmethod
    def html(self) -> str:
        """What the element holds."""

    def on_create(self, parent: Element) -> Element:
        """The element."""
        element = SubElement(parent, self.TAG, self.attributes())
        element.text = AtomicString(self.md.htmlStash.store(self.html()))
        return element

    def on_markdown(self) -> str:
        """Nothing inside the block is Markdown."""
        return "raw"


def wide_table(name: str, label: str) -> dict[str, str]:
    """The attributes of the frame of a table that may be wider than the window: it scrolls, by keyboard too."""
    return {"class": name, "tabindex": "0", "role": "group", "aria-label": label}


class HtmlBlockExtension(BlocksExtension):
    """Registers one block. Its option `films` is the folder of the films."""

    def __init__(self, block: type[HtmlBlock], **options: Any) -> None:
        self.block = block
        self.config = {"films": ["build/films", "the folder of the films"]}
        super().__init__(**options)

    def extendMarkdownBlocks(self, md: Markdown, block_mgr: Any) -> None:
        """Register the block."""
        block_mgr.register(self.block, self.getConfigs())
