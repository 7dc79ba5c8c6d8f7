"""What the issue allows a page to weigh, to take and to ask for, measured in Chromium."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, Page
from starlette.requests import Request
from starlette.responses import Response

from docs.serve import app
from scenes.orders import Order
from tests.docs.conftest import ROOT, OpenPage
from tests.docs.reading import PAGES, come_near, film_of, player

pytestmark = pytest.mark.browser

KERNEL_PAGES = list(dict.fromkeys(PAGES.values()))


@pytest.mark.parametrize("path", ["index.html", *KERNEL_PAGES])
def test_a_first_load_weighs_less_than_300_kb_without_the_film(
    browser: Browser, site: Path, with_ranges: str, path: str
) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    asked: set[str] = set()
    page.on("response", lambda response: asked.add(urlsplit(response.url).path))
    page.goto(f"{with_ranges}/{path}")
    page.wait_for_load_state("networkidle")
    page.close()
    files = [site / unquote(address).lstrip("/") for address in asked]
    weights = {file.name: len(gzip.compress(file.read_bytes())) for file in files if file.suffix != ".mp4"}
    assert sum(weights.values()) < 300_000, weights
    assert not [file for file in files if file.suffix == ".mp4"], "a film far below was loaded"


def test_the_players_script_is_smaller_than_30_kb(site: Path) -> None:
    assert 0 < (site / "assets" / "vendor" / "player.js").stat().st_size < 30_000
    assert not list((site / "assets").glob("player*.js"))


def shifts(page: Page) -> float:
    """The layout shift of the page so far, what follows a reader's own act left out."""
    return page.evaluate(
        """new Promise(resolve => new PerformanceObserver(list => resolve(
            list.getEntries().filter(shift => !shift.hadRecentInput).reduce((sum, shift) => sum + shift.value, 0)
        )).observe({ type: 'layout-shift', buffered: true }) || setTimeout(() => resolve(0), 500))"""
    )


@pytest.mark.parametrize("path", KERNEL_PAGES)
def test_nothing_shifts_while_a_page_loads(open_page: OpenPage, with_ranges: str, path: str) -> None:
    page = open_page(f"{with_ranges}/{path}")
    come_near(page.locator(".kernel-player").first)
    assert shifts(page) < 0.02


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("path", KERNEL_PAGES)
def test_nothing_shifts_while_the_film_goes_from_step_to_step(
    open_page: OpenPage, with_ranges: str, path: str, width: int
) -> None:
    page = open_page(f"{with_ranges}/{path}", width=width, reduced_motion="reduce")
    figure = page.locator(".kernel-player").first
    come_near(figure)
    for step in range(1, 17):  # by script, which is no act of the reader
        figure.evaluate("(figure, n) => figure.querySelectorAll('button[data-step]')[n].click()", step)
        page.wait_for_timeout(60)
    assert shifts(page) < 0.02


def test_a_picked_step_shows_its_first_frame_within_200_ms(
    open_page: OpenPage, films: Path, with_ranges: str
) -> None:
    figure = player(open_page(f"{with_ranges}/{PAGES['fa1']}", reduced_motion="reduce"))
    come_near(figure)
    figure.page.wait_for_function("document.querySelector('video').readyState >= 2")
    took = []
    for step in film_of(films, "fa1")["steps"][1::4]:
        took.append(
            figure.evaluate(
                """(figure, id) => new Promise(resolve => {
                    const [video, start] = [figure.querySelector('video'), performance.now()];
                    video.requestVideoFrameCallback(() => resolve(performance.now() - start));
                    figure.querySelector(`button[data-step="${id}"]`).click();
                })""",
                step["id"],
            )
        )
    assert sorted(took)[len(took) // 2] < 200, took


@pytest.fixture(scope="module")
def under_policy(site: Path) -> Iterator[str]:
    """The site with a policy that allows no inline script but the theme's own."""
    server_app = app(site)

    async def with_policy(scope, receive, send):  # type: ignore[no-untyped-def]
        policy = policy_for(site, Request(scope).url.path) if scope["type"] == "http" else None

        async def sending(message):  # type: ignore[no-untyped-def]
            if policy and message["type"] == "http.response.start":
                response = Response(headers={"Content-Security-Policy": policy})
                message["headers"] = [
                    *message["headers"],
                    *[header for header in response.raw_headers if header[0] == b"content-security-policy"],
                ]
            await send(message)

        await server_app(scope, receive, sending)

    server = uvicorn.Server(uvicorn.Config(with_policy, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        threading.Event().wait(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def inline_scripts(html: str) -> list[str]:
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)


def policy_for(site: Path, path: str) -> str | None:
    if not path.endswith(".html"):
        return None
    scripts = inline_scripts((site / path.lstrip("/")).read_text(encoding="utf-8"))
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"script-src 'self' {allowed}; style-src 'self' 'unsafe-inline'; media-src 'self' blob:"


@pytest.mark.parametrize("path", [*KERNEL_PAGES, "index.html", "traffic/index.html", "reference.html"])
def test_a_page_runs_under_a_strict_policy(open_page: OpenPage, under_policy: str, path: str) -> None:
    page = open_page(f"{under_policy}/{path}", reduced_motion="reduce")
    if path in KERNEL_PAGES:
        come_near(page.locator(".kernel-player").first)
        page.locator("button[data-step]").nth(4).click()
        page.locator('button[data-step="s04"][aria-current]').wait_for()


def test_the_only_inline_scripts_are_the_themes(site: Path) -> None:
    theme = {re.sub(r'"[./]*"', '""', script) for script in inline_scripts((site / "404.html").read_text())}
    theme = {re.sub(r"new URL\([^)]*\)", "new URL", script) for script in theme}
    for page in site.rglob("index.html"):
        for script in inline_scripts(page.read_text(encoding="utf-8")):
            known = re.sub(r"new URL\([^)]*\)", "new URL", re.sub(r'"[./]*"', '""', script))
            assert known in theme, (page, script[:80])


def bytes_a_minute(films: Path, recording: str, theme: str) -> float:
    film = film_of(films, recording)
    return (films / recording / f"{theme}.mp4").stat().st_size / (film["frames"] / film["fps"] / 60)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("recording", PAGES)
def test_films_are_at_most_4_mb_a_minute(films: Path, recording: str, theme: str) -> None:
    assert bytes_a_minute(films, recording, theme) < 4_000_000


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("recording", PAGES)
def test_films_as_published_are_at_most_4_mb_a_minute(recording: str, theme: str) -> None:
    folder = ROOT / "build" / "films"
    trace = ROOT / "kernels" / "recordings" / f"{recording}.trace"
    order = Order(recording, trace, theme, "h", folder / recording)
    if not order.is_made(order.key()):
        pytest.skip(
            "build/films has no film of this recording as it would be rendered now; make site renders it"
        )
    assert bytes_a_minute(folder, recording, theme) < 4_000_000
