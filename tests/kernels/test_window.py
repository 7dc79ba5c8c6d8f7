"""A window of a large run: some blocks, some steps, and every one of them as the whole run has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels
from kernels.job import make_job
from kernels.registry import kernel_names
from kernels.run import record_job
from kernels.trace import Window

from .planted import CPU, job_of, planted

SIZES: dict[str, dict[str, Any]] = {
    "fa1": {"N": 9, "d": 3},
    "fa2": {"Nq": 9, "Nk": 7, "causal": True},
    "flash_decoding": {"Nk": 50},
    "online_softmax": {},
}


@pytest.mark.parametrize(
    "window",
    [
        {"blocks": (1, 3)},
        {"steps": (2, 3)},
        {"steps": (5, 9), "blocks": (0, 1)},
        {"steps": (1, 10**9)},
    ],
    ids=str,
)
@pytest.mark.parametrize("kernel", kernel_names())
def test_a_window_holds_what_the_whole_run_holds_there(kernel: str, window: dict[str, Any]) -> None:
    whole = kernels.record(kernel, None, backend="cpu", **SIZES[kernel])
    part = kernels.record(kernel, None, backend="cpu", **window, **SIZES[kernel])
    first, end = window.get("steps", (0, 10**9))
    expected = []
    for launch, block in whole.blocks:
        x, y, _ = whole.layout.launches[launch].grid
        number = block[0] + x * (block[1] + y * block[2])
        if number in range(*window.get("blocks", (0, 10**9))):
            expected += whole.steps_of(block, launch)[first:end]
    assert len(part.steps) == len(expected) > 0
    for a, b in zip(part.steps, expected, strict=True):
        assert (a.name, a.loop, a.block, a.launch, a.valid, a.traffic) == (
            *(b.name, b.loop, b.block, b.launch, b.valid, b.traffic),
        )
        for one, other in ((a.sram, b.sram), (a.hbm, b.hbm)):
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
    report = kernels.verify(part)
    assert report.ok, report.findings


def test_a_window_is_kept_in_the_file(tmp_path: Path) -> None:
    part = kernels.record("fa1", None, backend="cpu", blocks=(2, 3), steps=(1, 4))
    part.save(tmp_path / "x")
    assert kernels.load(tmp_path / "x").window == Window((2, 3), (1, 4))
    assert kernels.load(tmp_path / "x").steps[0].hbm["O"].shape == (8, 4)


def test_a_wrong_slot_in_a_window_is_found() -> None:
    part = kernels.record("fa1", None, backend="cpu", steps=(2, 3), batch_heads=1)
    held = part.steps[0].sram["Sij"]
    assert held is not None
    held[1, 1] += 0.01
    assert not kernels.verify(part).ok


def test_a_write_left_out_of_a_window_is_found() -> None:
    part = kernels.record("fa1", None, backend="cpu", blocks=(0, 1), steps=(1, 9))
    assert part.steps[3].name == "write"
    steps = tuple(replace(step, index=n) for n, step in enumerate((*part.steps[:3], *part.steps[4:])))
    assert not kernels.verify(replace(part, steps=steps)).ok


def test_a_tile_read_twice_is_found_in_a_window(tmp_path: Path) -> None:
    fetch = "= K[j * Bc * d + x];"
    kernel = planted(tmp_path, fetch, f"{fetch} Kj[x / d][x % d] += 0 * K[j * Bc * d + x];")
    part = record_job(replace(job_of(kernel, batch_heads=1), window=Window(steps=(9, 10))), CPU)
    assert [finding.what for finding in kernels.verify(part, kernel).findings] == [
        "load_kv moved 32 elements in rows 4:8 of head 0 of K, must move 16 elements in rows 4:8 of head 0"
    ]


def test_another_tile_is_found_though_all_tiles_are_alike(tmp_path: Path) -> None:
    kernel = planted(tmp_path, "= K[j * Bc * d + x];", "= K[(Tc - 1 - j) * Bc * d + x];")
    alike = {name: np.ones((1, 8, 4), np.float32) for name in "QKV"}
    job = make_job(kernel, alike, {}, threads=3, default_threads=3, window=Window(steps=(0, 1)))
    assert [finding.what for finding in kernels.verify(record_job(job, CPU), kernel).findings] == [
        "load_kv moved 16 elements in rows 4:8 of head 0 of K, must move 16 elements in rows 0:4 of head 0"
    ]


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ({"blocks": (6, 7)}, "the window of blocks 6:7 is empty: there are 6 blocks of at most 18 steps"),
        ({"steps": (18, 20)}, "the window of steps 18:20 is empty: there are 6 blocks of at most 18 steps"),
        ({"steps": (3, 3)}, "steps=3:3: must be FIRST:END with FIRST below END"),
        ({"blocks": (-1, 3)}, "blocks=-1: must be a whole number of at least 0"),
    ],
)
def test_a_window_with_nothing_in_it_is_refused(window: dict[str, Any], says: str) -> None:
    with pytest.raises(kernels.ParameterError) as caught:
        kernels.record("fa1", None, backend="cpu", **window)
    assert str(caught.value) == says
