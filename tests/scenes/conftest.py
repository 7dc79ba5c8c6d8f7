"""A trace of each shape, and one pair of films that the tests share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kernels
from kernels.trace import Trace
from scenes.__main__ import main
from scenes.make import manim_settings
from tests.scenes.shapes import SHAPES, name_of, traced


@pytest.fixture(params=SHAPES, ids=name_of)
def trace(request: pytest.FixtureRequest) -> Trace:
    return traced(request.param)


@pytest.fixture(scope="session")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ragged trace with a short film: two tiles of keys, one of queries."""
    path = tmp_path_factory.mktemp("traces") / "small.trace"
    kernels.record("fa1", None, N=3, d=2, Br=3, Bc=2, batch_heads=2, backend="cpu").save(path)
    return path


@dataclass(frozen=True)
class Films:
    folder: Path
    trace: Trace

    def video(self, theme: str) -> Path:
        return self.folder / f"{theme}.mp4"

    @property
    def steps(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "steps.json").read_text(encoding="utf-8"))
        return content


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["render", *map(str, arguments)])


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory, small_trace: Path) -> Films:
    out = tmp_path_factory.mktemp("films")
    result = command("--trace", small_trace, "--quality", "l", "--out", out)
    assert result.exit_code == 0, result.output
    return Films(out / "small", kernels.load(small_trace))


@pytest.fixture
def manim_at_rest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Manim's settings with nothing written, its letters cached in one folder for all tests."""
    with manim_settings(tmp_path_factory.getbasetemp() / "letters", "l", dry_run=True):
        yield
