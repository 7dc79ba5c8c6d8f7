"""The built site: every address in it leads somewhere inside it."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import kernels
from docs.blocks.carries import update_at
from tests.docs.reading import PAGES, film_of

MEDIA = {"src", "poster", "href", "data-films"}


class Addresses(HTMLParser):
    """Collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in MEDIA and value:
                self.found.append((tag, value))
            if name == "id" and value:
                self.anchors.add(value)


@cache
def addresses(page: Path) -> Addresses:
    parser = Addresses()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def pages(site: Path) -> list[Path]:
    """All but 404.html, which stands for any depth and so has absolute addresses."""
    return [page for page in site.rglob("*.html") if page.name != "404.html"]


def test_every_address_on_every_page_exists(site: Path) -> None:
    for page in pages(site):
        for tag, address in addresses(page).found:
            parts = urlsplit(address)
            assert parts.scheme + parts.netloc == "", f"{page}: <{tag}> leads outside: {address}"
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page}: <{tag}> {address} is not there"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in addresses(target).anchors | {"__skip"}, f"{page}: {address}"


def test_every_film_is_published_whole(site: Path, films: Path) -> None:
    for recording in PAGES:
        names = {file.name for file in (site / "films" / recording).iterdir()}
        posters = {"poster-light.webp", "poster-dark.webp"}
        assert names == {"light.mp4", "dark.mp4", *posters, "snapshots.js", "stills"}
        stills = {file.stem for file in (site / "films" / recording / "stills").iterdir()}
        assert stills == {step["id"] for step in film_of(films, recording)["steps"]}


def test_no_python_is_published(site: Path) -> None:
    assert not [file for file in site.rglob("*") if file.suffix in (".py", ".cjs", ".pyc")]


def test_style_sheets_carry_their_fonts(site: Path) -> None:
    css = (site / "assets" / "vendor" / "katex.css").read_text()
    assert "data:font/woff2" in css
    assert not re.search(r"url\((?!data:)", css)


def test_formulas_use_only_the_fonts_carried(site: Path) -> None:
    html = "".join(page.read_text(encoding="utf-8") for page in pages(site))
    classes = {name for value in re.findall(r'class="([^"]*)"', html) for name in value.split()}
    others = "mathbf boldsymbol mathbb amsrm mathcal mathfrak mathtt mathscr mathsf textbf textit"
    assert not classes & set(others.split())


@pytest.mark.parametrize("recording", PAGES)
def test_the_page_says_where_the_trace_came_from(site: Path, recording: str) -> None:
    where = kernels.recorded(recording).provenance
    html = (site / PAGES[recording]).read_text(encoding="utf-8")
    figure = html.partition(f'data-recording="{recording}"')[2].partition("</figure>")[0]
    for said in (where.device, where.driver, where.recorded_at[:10], where.source_hash[:12]):
        assert said in figure
    assert ("not on a GPU" in figure) == (where.backend == "cpu")


def test_words_of_the_page_that_count_are_right() -> None:
    """It speaks of seven slots, of four tables, and of both tiles of Q."""
    layout = kernels.recorded("fa1").layout
    assert len(layout.launches[0].slots) == 7
    assert [loop.turns for loop in layout.launches[0].loops] == [2, 2]


def test_words_of_the_other_pages_that_count_are_right() -> None:
    """They speak of four slots and three tiles, of eight slots and two tiles, of two launches and three splits."""
    softmax, fa2, decoding = (kernels.recorded(name) for name in ("online-softmax", "fa2", "flash-decoding"))
    assert len(softmax.layout.launches[0].slots) == 4
    assert [loop.turns for loop in softmax.layout.launches[0].loops] == [2, 3]
    assert len(fa2.layout.launches[0].slots) == 8
    assert [loop.turns for loop in fa2.layout.launches[0].loops] == [2]
    assert [[loop.turns for loop in launch.loops] for launch in decoding.layout.launches] == [[6], [3]]
    assert decoding.params["splits"] == 3


def test_the_second_tile_of_online_softmax_moves_the_max() -> None:
    before, after = update_at(kernels.recorded("online-softmax"), {"pass": 0, "i": 1})
    assert after.held("m") > before.held("m")


def test_each_table_of_the_walk_leads_to_its_step(site: Path) -> None:
    html = (site / "flash-attention-1" / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<a href="#fa1-s\d+">Play this update</a>', html)) == 4
