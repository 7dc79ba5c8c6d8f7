"""The guides: what they tell a reader to type is there, and their example kernel runs and verifies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kernels
from kernels.registry import find_kernel
from tests.docs.conftest import ROOT, run

EXAMPLE = ROOT / "docs" / "examples" / "twice.py"


def commands(guide: Path) -> set[str]:
    """The lines of the blocks that name no language."""
    blocks = guide.read_text(encoding="utf-8").split("```")[1::2]
    return {line for block in blocks if block.startswith("\n") for line in block.splitlines() if line}


COMMANDS = sorted(set().union(*map(commands, (ROOT / "docs" / "guides").glob("*.md"))))


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
