"""FlashAttention-1 on the CPU: every step of every shape against the float64 definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kernels
from kernels.job import make_job
from kernels.registry import find_kernel
from kernels.run import record_job

from .planted import CPU

TILES = [(1, 1), (2, 3), (3, 2), (4, 4), (5, 8), (16, 16)]
WIDTHS = [1, 3, 4, 17]
ROWS = [1, 2, 3, 5, 8, 13, 16, 31]


def _jobs() -> list[Any]:
    kernel = find_kernel("fa1")
    return [
        make_job(
            kernel,
            None,
            {"N": N, "d": d, "Br": Br, "Bc": Bc, "batch_heads": 2, "causal": (N + Br) % 2},
            threads=threads,
            default_threads=1,
        )
        for (Br, Bc), d, (N, threads) in itertools.product(
            TILES, WIDTHS, zip(ROWS, itertools.cycle([1, 2, 5]), strict=False)
        )
        if 150 * Br * Bc >= N * N
    ]


@pytest.fixture(scope="module")
def jobs() -> list[Any]:
    """All jobs of the sweep, compiled together."""
    found = _jobs()
    CPU.prepare(found, traced=True)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("tiles", TILES, ids=str)
def test_every_step_of_every_shape_is_right(jobs: list[Any], tiles: tuple[int, int]) -> None:
    mine = [job for job in jobs if (job.params["Br"], job.params["Bc"]) == tiles]
    assert len(mine) >= len(WIDTHS) * 5
    for job in mine:
        report = kernels.verify(record_job(job, CPU))
        assert report.ok, (job.params, report.findings[:5])


def test_the_default_run_has_eighteen_steps_in_each_of_six_blocks() -> None:
    trace = kernels.recorded("fa1")
    assert trace.blocks == tuple((0, (head, 0, 0)) for head in range(6))
    names = ["load_kv", *["load_q", "compute", "update", "write"] * 2] * 2
    for launch, block in trace.blocks:
        steps = trace.steps_of(block, launch)
        assert [step.name for step in steps] == names
        assert [step.loop for step in steps[:6]] == [{"j": 0}, *[{"j": 0, "i": 0}] * 4, {"j": 0, "i": 1}]


def test_the_running_max_moves_in_some_rows_of_the_filmed_block_and_not_in_others() -> None:
    steps = kernels.recorded("fa1").steps_of((0, 0, 0))
    first, last = (step.hbm["m"] for step in (steps[8], steps[-1]))
    moved = first != last
    assert moved.any()
    assert not moved.all()


def test_each_head_has_inputs_of_its_own() -> None:
    for values in kernels.recorded("fa1").inputs.values():
        assert len({head.tobytes() for head in values}) == 6


def test_an_untraced_run_gives_the_bits_of_the_traced_one() -> None:
    trace = kernels.record("fa1", None, backend="cpu", N=13, d=3, Br=4, Bc=3)
    outputs = kernels.run("fa1", trace.inputs, backend="cpu", Br=4, Bc=3)
    assert {name: values.tobytes() for name, values in outputs.items()} == {
        name: values.tobytes() for name, values in trace.outputs.items()
    }


@pytest.mark.parametrize("threads", [1, 2, 7, 64])
def test_any_number_of_threads_gives_the_same_trace(threads: int) -> None:
    one = kernels.record("fa1", None, backend="cpu", N=9, d=5, Br=4, Bc=3, threads=1)
    other = kernels.record("fa1", None, backend="cpu", N=9, d=5, Br=4, Bc=3, threads=threads)
    for a, b in zip(one.steps, other.steps, strict=True):
        assert a.traffic == b.traffic
        for slot in a.sram:
            np.testing.assert_array_equal(a.sram[slot], b.sram[slot])
