"""Where a page stands in the site."""

from __future__ import annotations

from typing import Any

from markdown import Markdown


def site_root(md: Markdown) -> str:
    """The way from the page being rendered up to the root of the site: `..` for `flash-attention-1/index.md`.

    MkDocs leaves the page's file with its own tree processor. Where there is none, a page is taken to be
    `<page>/index.md`, as all with a player are.
    """
    if "relpath" not in md.treeprocessors:
        return ".."
    relpath: Any = md.treeprocessors["relpath"]
    depth = relpath.file.dest_uri.count("/")
    return "/".join([".."] * depth) or "."
