"""The built site: every address in it leads somewhere inside it."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
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
            if tag == "a" and parts.scheme == "https":
                continue  # asked for by nobody but a reader who follows it
            assert parts.scheme + parts.netloc == "", f"{page}: <{tag}> leads outside: {address}"
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page}: <{tag}> {address} is not there"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in addresses(target).anchors | {"__skip"}, f"{page}: {address}"


def test_every_film_is_published_whole(site: Path, films: Path) -> None:
    for recording in PAGES:
        names = {file.name for file in (site / "films" / recording).iterdir()}
        posters = {f"{size}poster-{theme}.webp" for size in ("", "small-") for theme in ("light", "dark")}
        assert names == {"light.mp4", "dark.mp4", *posters, "snapshots.js", "stills"}
        stills = {file.stem for file in (site / "films" / recording / "stills").iterdir()}
        assert stills == {step["id"] for step in film_of(films, recording)["steps"]}


def test_a_search_finds_a_formula_once_and_without_its_source(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    text = "".join(document["text"] for document in index["docs"])
    assert "denominator" in text
    assert "\\frac" not in text
    assert "\\m{" not in text


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


def rows_whose_max_moves(recording: str, loop: dict[str, int]) -> list[int]:
    """The rows of a first tile of Q whose running max is another after the update at `loop`."""
    before, after = update_at(kernels.recorded(recording), loop)
    return np.flatnonzero(before.held("mi") != after.held("mi")).tolist()


def test_the_rows_that_the_walks_point_at_are_those() -> None:
    assert rows_whose_max_moves("fa1", {"j": 1, "i": 0}) == [1, 2]
    assert rows_whose_max_moves("fa2", {"j": 1}) == [0, 1, 2]


def test_the_sum_of_flashattention_2_grows_beyond_v() -> None:
    trace = kernels.recorded("fa2")
    _, sum_ = update_at(trace, {"j": 1})
    _, divided = update_at(trace, {})
    largest = np.abs(trace.inputs["V"][0]).max()
    assert np.abs(sum_.held("Oi")).max() > largest >= np.abs(divided.held("Oi")).max()


def test_the_first_causal_block_meets_one_tile_and_the_last_meets_all() -> None:
    trace = kernels.recorded("fa2-causal")
    met = [{step.loop["j"] for step in trace.steps_of((x, 0, 0)) if "j" in step.loop} for x in (0, 2)]
    assert met == [{0}, {0, 1, 2}]


def test_each_table_of_the_walk_leads_to_its_step(site: Path) -> None:
    html = (site / "flash-attention-1" / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<a href="#fa1-s\d+">Play this update</a>', html)) == 4
