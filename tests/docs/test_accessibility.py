"""What axe finds on the pages, and what a small window or a large zoom must not lose."""

from __future__ import annotations

import pytest

from tests.docs.conftest import ROOT, OpenPage
from tests.docs.reading import PAGES, come_near, player

pytestmark = pytest.mark.browser

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

# The theme's own findings, by rule and the end of the selector, with the reason they stay.
KNOWN = {
    ("aria-dialog-name", ".md-search"): "Material's search dialog has no name; its field has one",
    (
        "scrollable-region-focusable",
        ".md-typeset__scrollwrap",
    ): "Material's frame of a wide table in the reference; Chromium lets the keyboard scroll it all the same",
}

GUIDES = [f"guides/{file.stem}.html" for file in sorted((ROOT / "docs" / "guides").glob("*.md"))]
ALL = [
    "index.html",
    "traffic/index.html",
    "speed/index.html",
    *dict.fromkeys(PAGES.values()),
    *GUIDES,
    "glossary.html",
    "reference.html",
    "404.html",
]


COLOURS = ["color-contrast", "link-in-text-block"]  # the dark theme differs in nothing else


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ALL)
def test_axe_finds_nothing(open_page: OpenPage, with_ranges: str, path: str, theme: str) -> None:
    page = open_page(f"{with_ranges}/{path}", color_scheme=theme, reduced_motion="reduce")
    if page.locator(".kernel-player").count():
        come_near(page.locator(".kernel-player").first)
        page.locator("button[data-step]").nth(5).click()
        page.mouse.move(0, 0)  # the theme's tooltips go
    page.evaluate(AXE.read_text())
    only = {} if theme == "light" else {"runOnly": COLOURS}
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)  # the theme lets the keyboard into code that now scrolls
        found = page.evaluate("only => axe.run({ resultTypes: ['violations'], ...only })", only)["violations"]
        findings = [
            (rule["id"], node["target"][0].split(" > ")[-1].partition(":")[0], node["failureSummary"])
            for rule in found
            for node in rule["nodes"]
        ]
        assert [finding for finding in findings if finding[:2] not in KNOWN] == [], width


@pytest.mark.parametrize("path", ALL)
def test_at_320_pixels_and_at_200_percent_nothing_is_lost(
    open_page: OpenPage, with_ranges: str, path: str
) -> None:
    page = open_page(f"{with_ranges}/{path}", width=320)
    for width in (320, 720):  # 720 is a window of 1440 at 200 %
        page.set_viewport_size({"width": width, "height": 450})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_targets_are_24_pixels_or_more(open_page: OpenPage, with_ranges: str) -> None:
    page = open_page(f"{with_ranges}/{PAGES['fa1']}")
    small = page.locator(".kernel-player").first.evaluate(
        """figure => [...figure.querySelectorAll('button, select, summary')]
            .map(target => [target.textContent.trim().slice(0, 20), target.getBoundingClientRect()])
            .filter(([, box]) => box.width && (box.width < 24 || box.height < 24))
            .map(([text, box]) => `${text}: ${box.width} × ${box.height}`)"""
    )
    assert small == []


def test_every_control_is_reached_by_tab(open_page: OpenPage, with_ranges: str) -> None:
    page = open_page(f"{with_ranges}/{PAGES['fa1']}", reduced_motion="reduce")
    figure = player(page)
    come_near(figure)
    controls = """figure => [...figure.querySelectorAll('button, select, summary, video, pre, [tabindex]')]
        .filter(control => control.checkVisibility())"""
    count = figure.evaluate(f"figure => ({controls})(figure).length")
    figure.focus()
    reached = set()
    for _ in range(count + 20):  # the browser's own controls of the film take some turns
        page.keyboard.press("Tab")
        reached.add(figure.evaluate(f"figure => ({controls})(figure).indexOf(document.activeElement)"))
    assert reached - {-1} == set(range(count))


def test_folds_open_and_close_by_keyboard(open_page: OpenPage, with_ranges: str) -> None:
    page = open_page(f"{with_ranges}/{PAGES['fa1']}", reduced_motion="reduce")
    figure = player(page)
    come_near(figure)
    fold = figure.locator(".list details").first
    for key, opened in (("Enter", False), (" ", True)):
        fold.locator("summary").first.focus()
        page.keyboard.press(key)
        assert fold.evaluate("fold => fold.open") == opened
