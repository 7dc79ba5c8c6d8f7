"""What axe finds on the pages, and what a small window or a large zoom must not lose."""

from __future__ import annotations

import pytest

from tests.docs.conftest import ROOT, OpenPage
from tests.docs.reading import PAGES, come_near

pytestmark = pytest.mark.browser

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

# The theme's own findings, by rule and selector, with the reason they stay.
KNOWN = {
    ("aria-dialog-name", ".md-search"): "Material's search dialog has no name; its field has one",
}

GUIDES = [
    "guides/instrument.html",
    "guides/record.html",
    "guides/scene.html",
    "glossary.html",
    "reference.html",
]
ALL = ["index.html", "traffic/index.html", "speed/index.html", *dict.fromkeys(PAGES.values()), *GUIDES]


@pytest.mark.parametrize(
    ("path", "theme"),
    [(path, theme) for path in ALL for theme in ("light", "dark") if theme == "light" or path in ALL[:4]],
)
def test_axe_finds_nothing(open_page: OpenPage, with_ranges: str, path: str, theme: str) -> None:
    page = open_page(f"{with_ranges}/{path}", color_scheme=theme, reduced_motion="reduce")
    if page.locator(".kernel-player").count():
        come_near(page.locator(".kernel-player").first)
        page.locator("button[data-step]").nth(5).click()
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    findings = [
        (rule["id"], node["target"][0], node["failureSummary"]) for rule in found for node in rule["nodes"]
    ]
    assert [finding for finding in findings if finding[:2] not in KNOWN] == []


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
