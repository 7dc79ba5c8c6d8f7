"""Several who make one film at a time do not spoil it, and a film with the lists of another counts as not made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import av
import pytest

import kernels
from scenes.orders import ROOT, Order


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.trace"
    kernels.record("fa1", None, backend="cpu", N=2, d=2, Br=2, Bc=1, batch_heads=1).save(path)
    return path


def _start(trace: Path, out: Path, steps: str) -> subprocess.Popen[str]:
    command = ["-m", "scenes", "render", "--theme", "light", "--quality", "l", "--force"]
    command += ["--trace", str(trace), "--out", str(out), "--steps", steps]
    return subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_whoever_is_last_leaves_a_whole_film(trace: Path, tmp_path: Path) -> None:
    windows = {"0:2": (0, 2), "1:2": (1, 2), "0:1": (0, 1)}
    processes = [_start(trace, tmp_path / "out", steps) for steps in windows]
    for process in processes:
        assert process.wait() == 0, process.stderr and process.stderr.read()

    folder = tmp_path / "out" / "tiny"
    orders = [Order("tiny", trace, "light", "l", folder, window) for window in windows.values()]
    assert sum(order.is_made(order.key()) for order in orders) == 1
    with av.open(str(folder / "light.mp4")) as film:
        frames = sum(1 for _ in film.decode(video=0))
    assert frames == json.loads((folder / "steps.json").read_bytes())["frames"]
    assert not list(folder.glob(".making-*"))


@pytest.mark.slow
def test_a_film_whose_lists_are_of_another_counts_as_not_made(trace: Path, tmp_path: Path) -> None:
    assert _start(trace, tmp_path / "out", "0:1").wait() == 0
    order = Order("tiny", trace, "light", "l", tmp_path / "out" / "tiny", (0, 1))
    assert order.is_made(order.key())
    for path in order.files:
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        assert not order.is_made(order.key()), path
        path.write_bytes(content)
    assert order.is_made(order.key())
