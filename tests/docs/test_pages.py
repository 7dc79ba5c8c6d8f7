"""The pages in Chromium, around the player: scripts or none, tracks, fonts, search, width."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.conftest import OpenPage
from tests.docs.reading import PAGE, PAGES, film_of, player

pytestmark = pytest.mark.browser


def test_without_javascript_film_steps_and_code_are_there(
    open_page: OpenPage, films: Path, with_ranges: str
) -> None:
    figure = player(open_page(f"{with_ranges}/{PAGE}", java_script_enabled=False))
    assert figure.locator("video").get_attribute("controls") is not None
    assert figure.locator("video").get_attribute("src") == "../films/fa1/light.mp4"
    labels = [step["label"] for step in film_of(films, "fa1")["steps"]]
    assert figure.locator("button[data-step]").all_text_contents() == labels
    assert figure.locator(".code [data-line]").count() > 50


def test_captions_and_chapters_are_tracks(open_page: OpenPage, films: Path, origin: str) -> None:
    film = film_of(films, "fa1")
    tracks = (
        player(open_page(f"{origin}/{PAGE}"))
        .locator("video")
        .evaluate(
            """video => [...video.textTracks].map(track =>
            [track.kind, [...track.cues].map(cue => [cue.text, cue.startTime])])"""
        )
    )
    assert [kind for kind, _ in tracks] == ["captions", "chapters"]
    for name, (_, cues) in zip(("caption", "label"), tracks, strict=True):
        expected = [[step[name], pytest.approx(step["first_frame"] / film["fps"])] for step in film["steps"]]
        assert cues == expected


def test_formulas_have_their_fonts(open_page: OpenPage, origin: str) -> None:
    page = open_page(f"{origin}/{PAGE}")
    fonts = page.evaluate(
        "document.fonts.ready.then(fonts => [...fonts].map(font => [font.family, font.status]))"
    )
    assert {"KaTeX_Main", "KaTeX_Math"} <= {family for family, status in fonts if status == "loaded"}
    assert not [family for family, status in fonts if status == "error"]


def test_search_finds_a_word(open_page: OpenPage, origin: str) -> None:
    page = open_page(f"{origin}/index.html")
    page.locator("input.md-search__input").click()
    page.keyboard.type("denominator")
    results = page.locator(".md-search-result__item a")
    results.first.wait_for()
    found = results.evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert any("flash-attention-1/index.html" in address for address in found)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize(
    "path",
    [
        "index.html",
        "traffic/index.html",
        "speed/index.html",
        "reference.html",
        *dict.fromkeys(PAGES.values()),
    ],
)
def test_no_page_is_wider_than_the_window(
    open_page: OpenPage, with_ranges: str, path: str, width: int, theme: str
) -> None:
    page = open_page(f"{with_ranges}/{path}", width=width, color_scheme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
