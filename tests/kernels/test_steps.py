"""Every step of every kernel against the float64 definition, over a sweep of shapes, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernels
from kernels.job import Job, make_job
from kernels.registry import find_kernel, kernel_names
from kernels.run import record_job

from .planted import CPU
from .shapes import TILES, sweep


def _job(kernel: str, params: dict[str, int]) -> Job:
    sizes = {name: value for name, value in params.items() if name != "threads"}
    return make_job(find_kernel(kernel), None, sizes, threads=params["threads"], default_threads=1)


def _check(jobs: list[Job]) -> None:
    assert len(jobs) >= 4
    CPU.prepare(jobs, traced=True)  # type: ignore[attr-defined]
    for job in jobs:
        report = kernels.verify(record_job(job, CPU))
        assert report.ok, (job.params, report.findings[:5])


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("kernel", ["fa1", "fa2", "flash_decoding"])
def test_every_step_of_every_shape_is_right(kernel: str, tiles: tuple[int, int]) -> None:
    _check([_job(kernel, params) for params in sweep(kernel) if (params["Br"], params["Bc"]) == tiles])


def test_every_step_of_every_online_softmax_is_right() -> None:
    _check([_job("online_softmax", params) for params in sweep("online_softmax")])


@pytest.mark.parametrize("kernel", kernel_names())
def test_an_untraced_run_gives_the_bits_of_the_traced_one(kernel: str) -> None:
    trace = kernels.record(kernel, None, backend="cpu")
    sizes = {name: trace.params[name] for name in ("Br", "Bc", "b", "splits") if name in trace.params}
    outputs = kernels.run(kernel, trace.inputs, backend="cpu", **sizes)
    assert {name: values.tobytes() for name, values in outputs.items()} == {
        name: values.tobytes() for name, values in trace.outputs.items()
    }


@pytest.mark.parametrize("threads", [1, 2, 7, 64])
@pytest.mark.parametrize("kernel", kernel_names())
def test_any_number_of_threads_gives_the_same_trace(kernel: str, threads: int) -> None:
    one, other = (kernels.record(kernel, None, backend="cpu", threads=n) for n in (1, threads))
    for a, b in zip(one.steps, other.steps, strict=True):
        assert a.traffic == b.traffic
        for slot, held in a.sram.items():
            same: Any = b.sram[slot]
            assert held is None or held.tobytes() == same.tobytes()


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        ("fa1", {"N": 9, "d": 3}),
        ("fa2", {"Nq": 9, "Nk": 7}),
        ("flash_decoding", {"Nk": 50}),
        ("flash_decoding", {"Nk": 9, "splits": 7}),
        ("online_softmax", {"N": 10}),
    ],
)
def test_room_is_made_for_the_steps_of_the_longest_block_and_no_more(
    kernel: str, sizes: dict[str, int]
) -> None:
    trace = kernels.record(kernel, None, backend="cpu", **sizes)
    for launch in range(len(trace.layout.launches)):
        taken = [len(trace.steps_of(block, number)) for number, block in trace.blocks if number == launch]
        assert find_kernel(kernel).most_steps(trace.params, launch) == max(taken)


def _causal(kernel: str, **sizes: int) -> kernels.Trace:
    return kernels.record(kernel, None, backend="cpu", causal=True, **sizes)


@pytest.mark.parametrize("kernel", ["fa2", "flash_decoding"])
def test_a_row_that_sees_no_key_gives_zero_and_minus_infinity_never_nan(kernel: str) -> None:
    trace = _causal(kernel, Nq=5, Nk=2, Br=2, Bc=1)
    assert kernels.verify(trace).ok
    assert (trace.outputs["O"][:, :3] == 0).all()
    assert (trace.outputs["L"][:, :3] == -np.inf).all()
    assert not any(np.isnan(values).any() for values in trace.outputs.values())


def test_tiles_wholly_above_the_diagonal_are_skipped_and_no_others() -> None:
    loops = {
        "fa1": {
            (step.loop["j"], step.loop["i"])
            for step in _causal("fa1", N=12, batch_heads=1).steps
            if step.name == "compute"
        },
        "fa2": {
            (step.loop["j"], step.block[0])
            for step in _causal("fa2", Nq=12, Nk=12, batch_heads=1).steps
            if step.name == "compute"
        },
    }
    assert loops["fa1"] == loops["fa2"] == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}


def test_a_mask_aligned_bottom_right_lets_the_last_row_see_every_key() -> None:
    trace = _causal("fa2", Nq=3, Nk=6, Br=4, Bc=4, batch_heads=1)
    held = [step.held("Sij") for step in trace.steps if step.name == "compute"]
    scores = np.hstack([tile for tile in held if tile is not None])
    assert np.isfinite(scores).sum(axis=1).tolist() == [4, 5, 6]


def test_one_split_gives_the_bits_of_flash_attention_2() -> None:
    decoding = kernels.record("flash_decoding", None, backend="cpu", Nq=3, Nk=21, Br=2, splits=1)
    fa2 = kernels.run("fa2", decoding.inputs, backend="cpu", Br=2, Bc=4)
    assert all(fa2[name].tobytes() == decoding.outputs[name].tobytes() for name in ("O", "L"))


def test_a_split_past_the_last_tile_carries_nothing_and_changes_nothing() -> None:
    trace = kernels.record("flash_decoding", None, backend="cpu", Nk=9, splits=7, batch_heads=1)
    assert kernels.verify(trace).ok
    assert (trace.outputs["lp"][0, 6:] == 0).all()
    assert (trace.outputs["mp"][0, 6:] == -np.inf).all()
    assert len(trace.steps_of((5, 0, 0))) == 2  # it loads its tile of Q and writes its empty carries


def test_flash_decoding_leaves_two_launches_in_one_trace() -> None:
    trace = kernels.record("flash_decoding", None, backend="cpu")
    assert [launch.function for launch in trace.layout.launches] == ["flash_decoding", "combine"]
    assert {(launch, block[-1]) for launch, block in trace.blocks} >= {(0, 0), (1, 0)}
    assert [step.launch for step in trace.steps] == sorted(step.launch for step in trace.steps)
