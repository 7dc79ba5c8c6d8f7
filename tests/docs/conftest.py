"""The site, built once from low-quality films, the three ways to open it, and Chromium."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from docs.serve import app

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def run(*command: str, **environment: str) -> str:
    """What a Python module writes; fails with it if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def films() -> Path:
    """Films in low quality; FILMS names ready ones."""
    if "FILMS" in os.environ:
        return Path(os.environ["FILMS"]).resolve()
    folder = ROOT / "build" / "test-films"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "test-films.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of pytest need the same films
        run("scenes", "render", "--theme", "both", "--quality", "l", "--out", str(folder))
    return folder


@pytest.fixture(scope="session")
def site(films: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The site, built strictly, with these films; once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    with (folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            docs = folder / "docs"
            ignored = shutil.ignore_patterns("films", "vendor", "__pycache__")
            shutil.copytree(ROOT / "docs", docs, ignore=ignored)
            run("docs.gather", "--films", str(films), "--into", str(docs))
            command = ("mkdocs", "build", "--strict", "-d", str(folder / "site"))
            assert "WARNING" not in run(*command, FILMS=str(films), DOCS=str(docs))
            (folder / "built").touch()
    return folder / "site"


class Quiet(SimpleHTTPRequestHandler):
    """Python's own server, which ignores Range, as `mkdocs serve` does."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def without_ranges(site: Path) -> Iterator[str]:
    """The address of a server that answers no Range request."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def with_ranges(site: Path) -> Iterator[str]:
    """The address of what `make serve` runs."""
    server = uvicorn.Server(uvicorn.Config(app(site), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def from_mkdocs_serve(site: Path, films: Path) -> Iterator[str]:
    """The address of `mkdocs serve` itself."""
    with socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    served = subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "serve", "--no-livereload", "-a", address.removeprefix("http://")],
        cwd=ROOT,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "FILMS": str(films),
            "DOCS": str(site.parent / "docs"),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            with socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert served.poll() is None, "mkdocs serve ended"
            time.sleep(0.1)
        yield address
    finally:
        served.terminate()
        served.wait()


@pytest.fixture(params=["file", "with_ranges", "without_ranges"])
def origin(request: pytest.FixtureRequest, site: Path) -> str:
    """Each way to open the site: from the disk, from `make serve`, from a server without Range."""
    return site.as_uri() if request.param == "file" else request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as chromium,
    ):
        yield chromium


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address in a new page; the test fails if it asks another host for anything, or reports an error."""
    contexts, findings = [], []

    def open_page(address: str, width: int = 1440, **options: object) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        home = address.split("/", 3)[:3]

        def check(url: str) -> None:
            if not url.startswith(("data:", "blob:")) and url.split("/", 3)[:3] != home:
                findings.append(f"asked another host: {url}")

        page.on("request", lambda request: check(request.url))
        page.on("pageerror", lambda error: findings.append(f"error: {error}"))
        page.on(
            "console",
            lambda said: findings.append(f"{said.type}: {said.text}") if said.type == "error" else None,
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert findings == []
