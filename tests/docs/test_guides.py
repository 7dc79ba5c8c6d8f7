"""The guides: what they tell a reader to type is there, and their example kernel runs and verifies."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Literal

import pytest

import kernels
from kernels.registry import find_kernel
from scenes import vocabulary
from tests.docs.conftest import ROOT, OpenPage, run

EXAMPLE = ROOT / "docs" / "examples" / "twice.py"


def commands(guide: Path) -> set[str]:
    """The lines of the blocks that name no language."""
    blocks = guide.read_text(encoding="utf-8").split("```")[1::2]
    return {line for block in blocks if block.startswith("\n") for line in block.splitlines() if line}


PAGES = [*(ROOT / "docs" / "guides").glob("*.md"), ROOT / "docs" / "speed" / "index.md"]
COMMANDS = sorted(set().union(*map(commands, PAGES)))


@pytest.mark.parametrize("N", [4, 6, 7])
def test_the_example_of_the_guide_runs_and_verifies(N: int) -> None:
    trace = kernels.record(str(EXAMPLE), None, N=N, backend="cpu")
    report = kernels.verify(trace, find_kernel(str(EXAMPLE)))
    assert report.ok, report.findings


@pytest.mark.parametrize(
    "command", [line for line in COMMANDS if "-m kernels" in line or "-m scenes" in line]
)
def test_a_command_of_a_guide_is_one_there_is(command: str) -> None:
    module, verb, *words = command.split("-m ")[1].split()
    options = {word for word in words if word.startswith("-")} - {"--help"}
    kernel = (
        [words[0]]
        if module == "kernels" and verb in ("record", "verify") and ".trace" not in words[0]
        else []
    )
    if kernel and kernel[0].endswith(".py"):
        kernel = [str(EXAMPLE)] if kernel[0].startswith("path/") else [str(ROOT / kernel[0])]
    help_text = run(module, verb, *kernel, "--help")
    for option in options:
        assert re.search(rf"(^|\s){option}\b", help_text), (option, command)


def test_make_targets_of_the_guides_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in COMMANDS:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE), command


def test_files_the_guides_name_exist() -> None:
    for guide in (ROOT / "docs" / "guides").glob("*.md"):
        for name in re.findall(r"`((?:kernels|scenes|docs)/[\w/.]*)`", guide.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), (guide.name, name)


def test_words_with_a_meaning_have_it_as_a_tooltip(site: Path) -> None:
    html = (site / "online-softmax" / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<abbr title="High-bandwidth memory[^"]*">HBM</abbr>', html)


def test_a_wrong_address_finds_a_page_that_says_so(site: Path) -> None:
    html = (site / "404.html").read_text(encoding="utf-8")
    assert "This page is not here" in html
    assert "flash-attention-1/index.html" in html


def test_the_words_of_the_scene_guide_are_the_vocabulary() -> None:
    text = (ROOT / "docs" / "guides" / "scene.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert {word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])} <= set(
        vocabulary.__all__
    )


def test_the_scene_of_the_guide_is_shown_whole_and_is_there(site: Path) -> None:
    source = (ROOT / "scenes" / "examples" / "tiled_product.py").read_text(encoding="utf-8")
    html = (site / "guides" / "scene.html").read_text(encoding="utf-8")
    shown = unescape(re.sub("<.*?>", "", html))
    assert source.strip() in shown
    for line in commands(ROOT / "docs" / "guides" / "scene.md"):
        *_, file, name = line.split()
        assert f"class {name}(Scene)" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_scene_of_the_guide_has_a_film_in_the_readers_theme(
    open_page: OpenPage, site: Path, theme: Literal["light", "dark"]
) -> None:
    page = open_page(f"{site.as_uri()}/guides/scene.html", color_scheme=theme)
    (film,) = page.locator(".film-in-theme video:visible").all()
    assert film.get_attribute("src") == f"../films/tiled-product/{theme}.mp4"
    assert page.evaluate("document.querySelector('.film-in-theme').getBoundingClientRect().height") > 100


def test_every_file_a_guide_includes_is_shown(site: Path) -> None:
    """The marker of an inclusion stands on no page: a formatter once broke one."""
    text = (ROOT / "docs" / "guides" / "instrument.md").read_text(encoding="utf-8")
    assert text.count('--8<-- "docs/examples/twice') == 2
    shown = unescape(re.sub("<.*?>", "", (site / "guides" / "instrument.html").read_text(encoding="utf-8")))
    for name in ("twice.cu", "twice.py"):
        lines = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8").splitlines()
        assert all(line.strip() in shown for line in lines if "--8<--" not in line)


def test_the_reference_shows_what_kernels_offers(site: Path) -> None:
    html = (site / "reference.html").read_text(encoding="utf-8")
    headings = {unescape(name).split(".")[-1] for name in re.findall(r'<h3 id="([^"]+)"', html)}
    assert set(kernels.__all__) <= headings
