"""What bad input gets: one line, status 2, and nothing written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels
from scenes import make as making
from tests.scenes.conftest import command

ROOT = Path(__file__).parents[2]


def refused(out: Path, *arguments: object) -> str:
    """The one line on stderr of a command that must be refused, having written nothing to `out`."""
    result = command(*arguments, "--out", out)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert not out.exists()
    (line,) = result.stderr.splitlines()
    return line


def test_an_unknown_recording(tmp_path: Path) -> None:
    assert "there is no recording 'fa9'" in refused(tmp_path / "films", "fa9")


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "no.trace"
    path.write_text("not a trace")
    assert str(path) in refused(tmp_path / "films", "--trace", path)


def test_a_trace_that_is_cut_short(small_trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.trace"
    path.write_bytes(small_trace.read_bytes()[:-100])
    assert str(path) in refused(tmp_path / "films", "--trace", path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "nowhere.trace" in refused(tmp_path / "films", "--trace", tmp_path / "nowhere.trace")


def test_a_trace_of_a_kernel_without_a_scene(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(kernels.load(small_trace), kernel="mine")
    monkeypatch.setattr(kernels, "load", lambda path: other)
    assert "there is no scene for traces of 'mine'" in refused(tmp_path / "films", "--trace", small_trace)


def test_a_trace_too_long_for_a_film(tmp_path: Path) -> None:
    path = tmp_path / "long.trace"
    kernels.record("fa1", None, N=24, d=1, Br=2, Bc=2, batch_heads=1, backend="cpu").save(path)
    line = refused(tmp_path / "films", "--trace", path)
    assert (
        "block (0, 0, 0) has 588 steps and a film shows at most 500: choose some with --steps 0:500" in line
    )
    part = (
        "--trace",
        path,
        "--steps",
        "580:600",
        "--step",
        "s08",
        "--still",
        "--theme",
        "light",
        "--quality",
        "l",
    )
    assert command(*part, "--out", tmp_path / "stills").exit_code == 0
    assert (tmp_path / "stills" / "long" / "s08-light.png").is_file()


def test_steps_that_are_no_range(small_trace: Path, tmp_path: Path) -> None:
    line = refused(tmp_path / "films", "--trace", small_trace, "--steps", "5")
    assert "5 is no range of steps: write it as 100:200" in line


def test_two_wishes_at_once(small_trace: Path, tmp_path: Path) -> None:
    assert "name one" in refused(tmp_path / "films", "fa1", "--trace", small_trace)


def test_a_step_that_is_not_there(small_trace: Path, tmp_path: Path) -> None:
    result = command("--trace", small_trace, "--step", "s99", "--still", "--out", tmp_path, "--quality", "l")
    assert result.exit_code == 2
    assert "there is no step 's99' in this film: choose one of s00 to s" in result.stderr
    assert not list(tmp_path.rglob("*.png"))


def test_a_step_without_a_still(small_trace: Path, tmp_path: Path) -> None:
    assert "--step and --still go together" in refused(
        tmp_path / "films", "--trace", small_trace, "--step", "s01"
    )


def test_an_output_folder_that_cannot_be_written(small_trace: Path, tmp_path: Path) -> None:
    (tmp_path / "films").write_text("a file")
    result = command(
        "--trace", small_trace, "--out", tmp_path / "films", "--quality", "l", "--theme", "light"
    )
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "films cannot be written to" in line
    assert "choose another --out" in line


def test_a_disk_that_fills_up(small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(making.os, "replace", full)
    result = command("--trace", small_trace, "--out", tmp_path, "--quality", "l", "--theme", "light")
    assert result.exit_code == 2
    assert "no space is left for films in" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TRACE": "fa9"}, "there is no recording 'fa9'"),
        ({"TRACE": "nowhere.trace"}, "nowhere.trace"),
        ({"THEME": "sepia"}, "there is no theme 'sepia'"),
        ({"BLOCK": "x"}, "BLOCK=x is not a block"),
    ],
)
def test_manim_render_says_the_same(
    environment: dict[str, str], said: str, small_trace: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "manim",
            "render",
            "-ql",
            "--media_dir",
            tmp_path,
            "scenes/fa1.py",
            "FlashAttention1",
        ],
        cwd=ROOT,
        env={**os.environ, "TRACE": str(small_trace), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "Traceback" not in done.stdout
    assert not list(tmp_path.rglob("*.mp4"))


def test_a_trace_of_a_plain_kernel_is_refused_in_a_sentence(tmp_path: Path) -> None:
    source = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }"
    trace = kernels.RawKernel(source, "twice", backend="cpu")((1,), (4,), (np.ones(4, np.float32),))
    trace.save(tmp_path / "plain.trace")
    line = refused(tmp_path / "out", "--trace", tmp_path / "plain.trace")
    assert "is a trace of the plain kernel 'twice', which cannot be filmed yet" in line
