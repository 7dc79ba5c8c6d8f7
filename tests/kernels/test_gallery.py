"""Each kernel of the gallery traced: what it computes, what its steps do, which cells they touch, what slots hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kernels.conclude.arrows import arrows
from kernels.conclude.lines import lines
from kernels.conclude.races import races
from kernels.conclude.unwritten import unwritten
from kernels.errors import BackendError, ParameterError
from kernels.gallery import Example, find, names, words
from kernels.launch.record import record
from kernels.launch.source import read_source
from kernels.trace.model import Step, Trace

from .gallery_runs import (
    BACKENDS,
    GPU_ONLY,
    acts,
    arguments,
    backend,
    box,
    every_example,
    request_of,
    run,
    step_at,
    told,
)

Array = npt.NDArray[Any]
ANYWHERE = tuple(name for name in names() if name not in GPU_ONLY)

# What each step does, whatever the example.
ACTIONS = {
    "gemm": {
        "load": acts("load As A", "load Bs B"),
        "multiply": acts("update acc As Bs"),
        "store": acts("store C acc"),
    },
    "transpose": {"load": acts("load tile A"), "store": acts("store B tile"), "end": acts("store B A")},
    "reduce": {
        "gather": acts("compute sum x"),
        "fold_lanes": acts("update sum", "compute warps sum"),
        "fold_warps": acts("compute sum warps"),
        "store": acts("store sums sum"),
    },
    "convolve": {"load": acts("load tile x"), "store": acts("store y w tile")},
    "histogram": {
        "clear": acts("clear bins"),
        "count": acts("update bins"),
        "add": acts("store counts bins"),
    },
    "layer_norm": {
        "load": acts("load v x"),
        "centre": acts("compute warps v", "update v warps"),
        "scale": acts("compute warps v", "update v warps"),
        "store": acts("store y v weight bias"),
    },
    "axpy_half2": {"end": acts("store y x")},
    "pipeline": {
        "arrive": acts("load As A", "load xs x"),
        "multiply": acts("update acc As xs"),
        "store": acts("store y acc"),
    },
    "wmma_gemm": {
        "load": acts("load As A", "load Bs B"),
        "multiply": acts(),
        "leave": acts("compute Cs As Bs"),
        "store": acts("store C Cs"),
    },
    "bare_gemm": {
        "line 30": acts("load As A", "load Bs B"),
        "line 34": acts(),
        "end": acts("store C As Bs"),
    },
}

# What the first step of a block does besides: registers that were set before their HOLD.
AT_FIRST = {"gemm": acts("clear acc"), "pipeline": acts("clear acc")}

# The steps of one block of one example: (name, example, block) and their names and loop counters.
ORDER = {
    ("gemm", 1, (2, 1, 0)): "load t=0, multiply t=0, load t=1, multiply t=1, load t=2, multiply t=2, store",
    ("transpose", 0, (2, 1, 0)): "load, store",
    ("transpose", 5, (0, 1, 0)): "end",
    ("reduce", 0, (1, 0, 0)): "gather, fold_lanes, fold_warps, store",
    ("convolve", 1, (2, 0, 0)): "load, store",
    ("histogram", 1, (2, 0, 0)): "clear, count, add",
    ("layer_norm", 2, (1, 0, 0)): "load, centre, scale, store",
    ("axpy_half2", 1, (2, 0, 0)): "end",
    ("pipeline", 0, (1, 0, 0)): (
        "arrive t=0, multiply t=0, arrive t=1, multiply t=1, arrive t=2, multiply t=2, store"
    ),
    ("bare_gemm", 0, (1, 1, 0)): "line 30, line 34, line 30, line 34, end",
}


def _both(exhibits: tuple[str, ...]) -> Any:
    """Marks a test to run for every example on every backend that can run it."""
    return lambda test: pytest.mark.parametrize("machine", BACKENDS)(
        pytest.mark.parametrize(("name", "number"), every_example(exhibits))(test)
    )


def _trace(name: str, number: int, machine: str) -> Trace:
    if machine == "cpu" and name in GPU_ONLY:
        pytest.skip("tensor cores: there are none on a CPU")
    return run(name, number, machine)[1]


def _close(got: Array, exact: Array, terms: int = 64) -> None:
    """`got` is as near to `exact` as sums of so many terms of about its size can be asked to be."""
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, exact)
        return
    size = float(np.abs(exact).max(initial=1))
    np.testing.assert_allclose(
        got.astype(np.float64), exact, rtol=0, atol=terms * float(np.finfo(got.dtype).eps) * size
    )


def _said(step: Step) -> str:
    return " ".join([step.name, *(f"{name}={value}" for name, value in step.loop.items())])


@_both(names())
def test_the_outputs_are_what_the_truth_says(name: str, number: int, machine: str) -> None:
    trace = _trace(name, number, machine)
    request, _ = run(name, number, machine)
    exact = find(name).truth(**arguments(request))
    assert set(trace.outputs) == set(exact)
    for output, values in exact.items():
        got = trace.outputs[output]
        assert got.shape == values.shape
        _close(got, values, 4 if got.dtype == np.float16 else 64)


@_both(ANYWHERE)
def test_an_untraced_run_leaves_the_bits_of_the_traced_one(name: str, number: int, machine: str) -> None:
    request, trace = run(name, number, machine)
    after = backend(machine).run(request)
    assert {k: after[k].tobytes() for k in trace.outputs} == {
        k: v.tobytes() for k, v in trace.outputs.items()
    }


@_both(names())
def test_nothing_races_and_nothing_is_read_unwritten(name: str, number: int, machine: str) -> None:
    trace = _trace(name, number, machine)
    assert races(trace) == ()
    assert unwritten(trace) == ()


@_both(names())
def test_every_step_does_what_it_says(name: str, number: int, machine: str) -> None:
    trace = _trace(name, number, machine)
    assert {step.name for step in trace.steps} <= set(ACTIONS[name])
    for _, block in trace.blocks:
        first, *later = trace.steps_of(block)
        assert told(trace, first) == ACTIONS[name][first.name] | AT_FIRST.get(name, set()), _said(first)
        for step in later:
            assert told(trace, step) == ACTIONS[name][step.name], _said(step)


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(
    ("at", "expected"), ORDER.items(), ids=lambda x: x[0] if isinstance(x, tuple) else ""
)
def test_the_steps_are_those_of_the_source_in_order(
    at: tuple[str, int, tuple[int, int, int]], expected: str, machine: str
) -> None:
    name, number, block = at
    trace = _trace(name, number, machine)
    assert ", ".join(map(_said, trace.steps_of(block))) == expected
    grid = trace.launches[0].grid
    assert [b for _, b in trace.blocks] == [
        (x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])
    ]


# Cells: (name, example, block, step, loop) and for each place the box that is read or written, by hand.
CELLS = [
    ("gemm", 0, (1, 2, 0), "load", {"t": 3}, {
        "read A": [(32, 48), (48, 64)], "read B": [(48, 64), (16, 32)],
        "written As": [(0, 16), (0, 16)], "written Bs": [(0, 16), (0, 16)],
        "read acc": [], "written acc": [],
    }),
    ("gemm", 0, (1, 2, 0), "multiply", {"t": 3}, {
        "read A": [], "read As": [(0, 16), (0, 16)], "read Bs": [(0, 16), (0, 16)],
        "read acc": [(0, 16), (0, 16)], "written acc": [(0, 16), (0, 16)],
    }),
    ("gemm", 0, (1, 2, 0), "store", {}, {
        "read acc": [(0, 16), (0, 16)], "written C": [(32, 48), (16, 32)], "read As": [],
    }),
    ("gemm", 1, (2, 1, 0), "load", {"t": 2}, {  # 7 × 10 from 7 × 9 and 9 × 10: the corner, ragged in every way
        "read A": [(4, 7), (8, 9)], "read B": [(8, 9), (8, 10)],
        "written As": [(0, 4), (0, 4)], "written Bs": [(0, 4), (0, 4)],
    }),
    ("gemm", 1, (2, 1, 0), "store", {}, {"written C": [(4, 7), (8, 10)], "read acc": [(0, 3), (0, 2)]}),
    ("transpose", 0, (2, 1, 0), "load", {}, {
        "read A": [(32, 64), (64, 96)], "written tile": [(0, 32), (0, 32)], "written B": [],
    }),
    ("transpose", 1, (2, 1, 0), "store", {}, {  # the column of padding stays untouched
        "read tile": [(0, 32), (0, 32)], "written B": [(64, 96), (32, 64)],
    }),
    ("transpose", 2, (2, 1, 0), "load", {}, {"read A": [(32, 45), (64, 70)], "written tile": [(0, 13), (0, 6)]}),
    ("transpose", 2, (2, 1, 0), "store", {}, {"read tile": [(0, 13), (0, 6)], "written B": [(64, 70), (32, 45)]}),
    ("transpose", 5, (0, 1, 0), "end", {}, {"read A": [(16, 21), (0, 13)], "written B": [(0, 13), (16, 21)]}),
    ("reduce", 1, (2, 0, 0), "gather", {}, {
        "read x": [(2, 3), (0, 77)], "written sum": [(0, 64)], "written warps": [],
    }),
    ("reduce", 1, (2, 0, 0), "fold_lanes", {}, {
        "read sum": [(0, 64)], "written sum": [(0, 64)], "written warps": [(0, 2)],
    }),
    ("reduce", 1, (2, 0, 0), "fold_warps", {}, {"read warps": [(0, 2)], "written sum": [(0, 32)]}),
    ("reduce", 1, (2, 0, 0), "store", {}, {"read sum": [(0, 1)], "written sums": [(2, 3)]}),
    ("convolve", 0, (1, 0, 0), "load", {}, {"read x": [(61, 128)], "written tile": [(0, 70)], "read w": []}),
    ("convolve", 1, (2, 0, 0), "load", {}, {"read x": [(56, 77)], "written tile": [(0, 48)]}),
    ("convolve", 1, (2, 0, 0), "store", {}, {
        "read tile": [(0, 29)], "read w": [(0, 17)], "written y": [(64, 77)], "read x": [],
    }),
    ("convolve", 2, (1, 0, 0), "load", {}, {"read x": [(0, 10)], "written tile": [(0, 22)]}),
    ("histogram", 1, (2, 0, 0), "clear", {}, {"written bins": [(0, 10)], "read x": [], "read bins": []}),
    ("histogram", 1, (2, 0, 0), "add", {}, {
        "read bins": [(0, 10)], "read counts": [(0, 10)], "written counts": [(0, 10)],
    }),
    ("layer_norm", 2, (1, 0, 0), "load", {}, {"read x": [(1, 2), (0, 100)], "written v": [(0, 96), (0, 4)]}),
    ("layer_norm", 2, (1, 0, 0), "centre", {}, {
        "read v": [(0, 96), (0, 4)], "written v": [(0, 25), (0, 4)], "written warps": [(0, 3)],
        "read warps": [(0, 3)],
    }),
    ("layer_norm", 2, (1, 0, 0), "store", {}, {
        "read v": [(0, 25), (0, 4)], "read weight": [(0, 100)], "read bias": [(0, 100)],
        "written y": [(1, 2), (0, 100)],
    }),
    ("axpy_half2", 1, (2, 0, 0), "end", {}, {"read x": [(52, 77)], "read y": [(52, 77)], "written y": [(52, 77)]}),
    ("pipeline", 0, (1, 0, 0), "arrive", {"t": 1}, {  # what is sent for now arrives in the step after next
        "read A": [(32, 64), (32, 48)], "read x": [(32, 48)],
        "written As": [(1, 2), (0, 32), (0, 16)], "written xs": [(1, 2), (0, 16)],
    }),
    ("pipeline", 0, (1, 0, 0), "multiply", {"t": 2}, {
        "read As": [(0, 1), (0, 32), (0, 16)], "read xs": [(0, 1), (0, 16)], "written acc": [(0, 32)],
        "written As": [],
    }),
    ("pipeline", 1, (1, 0, 0), "arrive", {"t": 2}, {"read A": [(32, 45), (48, 52)], "read x": [(48, 52)]}),
    ("pipeline", 1, (1, 0, 0), "arrive", {"t": 3}, {
        "read A": [], "written As": [(1, 2), (0, 13), (0, 4)], "written xs": [(1, 2), (0, 4)],
    }),
    ("pipeline", 1, (1, 0, 0), "store", {}, {"written y": [(32, 45)], "read acc": [(0, 13)]}),
    ("bare_gemm", 0, (1, 0, 0), "end", {}, {"written C": [(0, 8), (8, 16)]}),
]  # fmt: skip


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(
    "expected", CELLS, ids=lambda e: "-".join(map(str, (e[0], e[1], e[3], *e[4].values())))
)
def test_a_step_touches_the_very_cells_that_it_must(expected: Any, machine: str) -> None:
    name, number, block, called, loop, boxes = expected
    trace = _trace(name, number, machine)
    step = step_at(trace, called, block, **loop)
    for what, ranges in boxes.items():
        verb, place = what.split()
        cells = getattr(step, verb)[place]
        none = np.zeros(cells.shape, np.bool_)
        np.testing.assert_array_equal(cells, box(cells.shape, *ranges) if ranges else none, what)


@pytest.mark.parametrize("machine", BACKENDS)
def test_the_tiles_of_a_gemm_hold_what_is_loaded_and_its_registers_the_sums_so_far(machine: str) -> None:
    request, trace = run("gemm", 1, machine)
    A, B = (np.pad(request.arrays[name], 4) for name in "AB")  # of zeros, 4 on each side
    exact = np.zeros((4, 4))
    for t in range(3):
        a, b = A[8:12, 4 + 4 * t :][:, :4], B[4 + 4 * t :, 12:16][:4]  # of block (2, 1)
        loaded = step_at(trace, "load", (2, 1, 0), t=t)
        for slot, tile in (("As", a), ("Bs", b)):
            content = loaded.slots[slot]
            assert content is not None
            assert content.known.all()
            np.testing.assert_array_equal(content.values, tile)
        exact += a.astype(np.float64) @ b.astype(np.float64)
        acc = step_at(trace, "multiply", (2, 1, 0), t=t).slots["acc"]
        assert acc is not None
        assert acc.values.shape == (4, 4)
        _close(acc.values, exact)


@pytest.mark.parametrize("machine", BACKENDS)
def test_a_padded_tile_holds_its_part_of_the_matrix_and_never_its_padding(machine: str) -> None:
    request, trace = run("transpose", 2, machine)
    content = step_at(trace, "load", (2, 1, 0)).slots["tile"]
    assert content is not None
    np.testing.assert_array_equal(content.values[:13, :6], request.arrays["A"][32:, 64:])
    np.testing.assert_array_equal(content.known, box((32, 33), (0, 13), (0, 6)))


@pytest.mark.parametrize("machine", BACKENDS)
def test_the_sums_of_a_reduction_are_those_of_threads_then_warps_then_the_row(machine: str) -> None:
    request, trace = run("reduce", 0, machine)
    row = request.arrays["x"][1].astype(np.float64)
    threads = np.array([row[t::128].sum() for t in range(128)])
    held = {step.name: step.slots for step in trace.steps_of((1, 0, 0))}
    gathered, warps, whole = held["gather"]["sum"], held["fold_lanes"]["warps"], held["fold_warps"]["sum"]
    assert gathered is not None
    assert warps is not None
    assert whole is not None
    _close(gathered.values, threads)
    _close(warps.values[:4], threads.reshape(4, 32).sum(axis=1))
    np.testing.assert_array_equal(warps.known, np.arange(32) < 4)
    _close(whole.values[:1], threads.sum(keepdims=True))
    assert held["gather"]["warps"] is None


@pytest.mark.parametrize("machine", BACKENDS)
def test_the_bins_of_a_histogram_count_what_the_block_saw(machine: str) -> None:
    request, trace = run("histogram", 1, machine)
    x = request.arrays["x"]
    seen = np.concatenate([x[first : first + 33] for first in range(2 * 33, len(x), 3 * 33)])  # of block 2
    expected = np.bincount(seen, minlength=13)[:10]
    counted = step_at(trace, "count", (2, 0, 0))
    bins = counted.slots["bins"]
    assert bins is not None
    np.testing.assert_array_equal(bins.values, expected)
    np.testing.assert_array_equal(counted.written["bins"], expected > 0)
    assert counted.traffic["x"].reads >= len(seen)


@pytest.mark.parametrize("machine", BACKENDS)
def test_a_layer_norm_centres_then_scales_the_numbers_in_its_registers(machine: str) -> None:
    request, trace = run("layer_norm", 2, machine)
    x = request.arrays["x"][1].astype(np.float64)
    centred = x - x.mean()
    held = {step.name: step.slots["v"] for step in trace.steps_of((1, 0, 0))}
    for name, exact in (("load", x), ("centre", centred), ("scale", centred / np.sqrt(x.var() + 1e-5))):
        v = held[name]
        assert v is not None
        assert v.values.shape == (96, 4)
        _close(v.values[:25].reshape(-1), exact)
        np.testing.assert_array_equal(v.values[25:], 0)


@pytest.mark.parametrize("machine", BACKENDS)
def test_two_buffers_hold_one_tile_each_as_it_arrives(machine: str) -> None:
    request, trace = run("pipeline", 0, machine)
    A, x = request.arrays["A"], request.arrays["x"]
    for t in range(3):
        slots = step_at(trace, "arrive", (1, 0, 0), t=t).slots
        As, xs = slots["As"], slots["xs"]
        assert As is not None
        assert xs is not None
        np.testing.assert_array_equal(As.values[t % 2], A[32:64, 16 * t : 16 * t + 16])
        np.testing.assert_array_equal(xs.values[t % 2], x[16 * t : 16 * t + 16])
        acc = step_at(trace, "multiply", (1, 0, 0), t=t).slots["acc"]
        assert acc is not None
        _close(acc.values, A[32:64, : 16 * t + 16].astype(np.float64) @ x[: 16 * t + 16])


@pytest.mark.parametrize("machine", BACKENDS)
def test_an_unchanged_kernel_shows_its_shared_tiles_after_each_barrier(machine: str) -> None:
    request, trace = run("bare_gemm", 0, machine)
    steps = trace.steps_of((1, 0, 0))
    assert [place.name for place in trace.held] == ["As", "Bs"]
    for t in range(2):
        As, Bs = steps[2 * t].slots["As"], steps[2 * t].slots["Bs"]
        assert As is not None
        assert Bs is not None
        np.testing.assert_array_equal(As.values, request.arrays["A"][:8, 8 * t : 8 * t + 8])
        np.testing.assert_array_equal(Bs.values, request.arrays["B"][8 * t : 8 * t + 8, 8:16])


def _of(place: str, *indices: tuple[int, ...]) -> set[tuple[str, tuple[int, ...]]]:
    return {(place, index) for index in indices}


# Arrows: (name, example, block, step, loop, cell) and the cells that it was made of, by hand.
ARROWS: list[Any] = [
    ("gemm", 1, (2, 1, 0), "load", {"t": 1}, ("As", (1, 2)), _of("A", (5, 6))),
    ("gemm", 1, (2, 1, 0), "load", {"t": 2}, ("As", (1, 2)), set()),  # beyond the edge: zero
    ("gemm", 1, (2, 1, 0), "multiply", {"t": 1}, ("acc", (1, 0)),
     _of("As", *((1, k) for k in range(4))) | _of("Bs", *((k, 0) for k in range(4))) | _of("acc", (1, 0))),
    ("gemm", 1, (2, 1, 0), "store", {}, ("C", (5, 8)), _of("acc", (1, 0))),
    ("transpose", 2, (2, 1, 0), "load", {}, ("tile", (3, 5)), _of("A", (35, 69))),
    ("transpose", 2, (2, 1, 0), "store", {}, ("B", (69, 35)), _of("tile", (3, 5))),
    ("transpose", 5, (0, 1, 0), "end", {}, ("B", (4, 17)), _of("A", (17, 4))),
    ("reduce", 1, (2, 0, 0), "gather", {}, ("sum", (5,)), _of("x", (2, 5), (2, 69)) | _of("sum", (5,))),
    ("reduce", 1, (2, 0, 0), "fold_lanes", {}, ("sum", (32,)), _of("sum", *((t,) for t in range(32, 64)))),
    ("reduce", 1, (2, 0, 0), "fold_lanes", {}, ("warps", (1,)), _of("sum", (32,))),
    ("convolve", 1, (2, 0, 0), "load", {}, ("tile", (1,)), _of("x", (57,))),
    ("convolve", 1, (2, 0, 0), "store", {}, ("y", (67,)),
     _of("w", *((k,) for k in range(17))) | _of("tile", *((k,) for k in range(3, 20)))),
    ("histogram", 1, (2, 0, 0), "clear", {}, ("bins", (3,)), set()),
    ("histogram", 1, (2, 0, 0), "count", {}, ("bins", (3,)), _of("bins", (3,))),
    ("histogram", 1, (2, 0, 0), "add", {}, ("counts", (3,)), _of("bins", (3,)) | _of("counts", (3,))),
    ("axpy_half2", 1, (2, 0, 0), "end", {}, ("y", (76,)), _of("x", (76,)) | _of("y", (76,))),
    ("pipeline", 1, (1, 0, 0), "arrive", {"t": 3}, ("As", (1, 2, 3)), _of("A", (34, 51))),
    ("pipeline", 1, (1, 0, 0), "multiply", {"t": 3}, ("acc", (2,)),
     _of("As", *((1, 2, k) for k in range(4))) | _of("xs", *((1, k) for k in range(4))) | _of("acc", (2,))),
    ("bare_gemm", 0, (1, 0, 0), "line 30", {}, ("As", (1, 2)), _of("A", (1, 2))),
]  # fmt: skip


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(
    "expected", ARROWS, ids=lambda e: "-".join(map(str, (e[0], e[3], *e[4].values(), e[5][0])))
)
def test_a_cell_is_made_of_the_cells_that_it_must_be(expected: Any, machine: str) -> None:
    name, number, block, called, loop, (place, index), sources = expected
    trace = _trace(name, number, machine)
    steps = [s for s in trace.steps_of(block) if s.name == called and dict(s.loop) == loop]
    assert set(arrows(trace, steps[0]).of(place, index)) == sources


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(("number", "ways"), [(0, 32), (1, 1)], ids=["bare", "padded"])
def test_a_column_of_a_tile_is_in_one_bank_unless_padded(number: int, ways: int, machine: str) -> None:
    trace = _trace("transpose", number, machine)
    uses = {(use.place, use.act): use for use in lines(trace) if use.place == "tile"}
    assert uses["tile", "write"].bank_ways == 1
    assert uses["tile", "read"].bank_ways == ways
    requests = 6 * 32  # tiles, and rows of each
    assert uses["tile", "read"].requests == requests
    assert uses["tile", "read"].bank_conflicts == requests * (ways - 1)
    assert uses["tile", "read"].elements == 64 * 96


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(("number", "times"), [(0, 1), (1, 1), (4, 8)], ids=["bare", "padded", "naive"])
def test_a_naive_transpose_needs_eight_times_the_sectors(number: int, times: int, machine: str) -> None:
    trace = _trace("transpose", number, machine)
    uses = {(use.place, use.act): use for use in lines(trace)}
    for place, act, sectors in (("A", "read", 1), ("B", "write", times)):
        use = uses[place, act]
        assert use.bytes == 4 * 64 * 96
        assert use.ideal_sectors == 4 * 64 * 96 // 32
        assert use.sectors == sectors * use.ideal_sectors


@pytest.mark.parametrize("machine", BACKENDS)
def test_a_float4_is_one_request_of_four_numbers_a_thread(machine: str) -> None:
    trace = _trace("layer_norm", 1, machine)
    [use] = [use for use in lines(trace) if use.place == "x"]
    assert (use.elements, use.requests, use.sectors, use.ideal_sectors) == (512, 4, 64, 64)


@pytest.mark.parametrize("machine", BACKENDS)
def test_the_traffic_of_a_gemm_is_that_of_its_tiles(machine: str) -> None:
    traffic = _trace("gemm", 0, machine).traffic
    counts = {name: (total.reads, total.writes) for name, total in traffic.items()}
    assert counts == {"A": (4 * 64 * 64, 0), "B": (4 * 64 * 64, 0), "C": (0, 64 * 64)}


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "number"), every_example(ANYWHERE))
def test_a_gpu_and_a_cpu_see_the_same_steps_and_cells(name: str, number: int) -> None:
    traces = [run(name, number, machine)[1] for machine in ("cpu", "cupy")]
    one, other = (
        [
            (_said(s), s.block, {p: (s.read[p].tobytes(), s.written[p].tobytes()) for p in s.read})
            for s in trace.steps
        ]
        for trace in traces
    )
    assert one == other


def test_a_kernel_on_tensor_cores_is_refused_on_the_cpu_in_one_sentence() -> None:
    exhibit = find("wmma_gemm")
    request = request_of(read_source(exhibit.source), exhibit.examples[0])
    with pytest.raises(BackendError, match=r"wmma_gemm\.cu.*(mma\.h|tensor)") as refused:
        backend("cpu").trace(request)
    assert "\n" not in str(refused.value)


def test_an_access_outside_an_array_names_the_array_the_line_and_the_index() -> None:
    exhibit = find("gemm")
    asked = exhibit.examples[0]
    tall = replace(asked, grid=(4, 5), arguments={**asked.arguments, "M": "65"})
    request = request_of(read_source(exhibit.source), tall)
    with pytest.raises(BackendError, match=r"A\b.*line 17|line 17.*A\b"):
        record(request, backend("cpu"))


def test_a_name_that_is_not_in_the_gallery_is_refused_with_those_that_are() -> None:
    with pytest.raises(ParameterError, match=r"no 'gem': choose one of axpy_half2, bare_gemm, .*wmma_gemm"):
        find("gem")


@pytest.mark.parametrize("name", names())
def test_every_kernel_has_examples_of_even_and_of_odd_sizes(name: str) -> None:
    examples = find(name).examples
    assert len(examples) >= 2
    numbers = [
        int(extent)
        for example in examples
        for word in example.arguments.values()
        if word.startswith("normal") or word.startswith("integers")
        for extent in word.split(":")[1].split(",")
    ]
    assert any(n % 32 == 0 or n % 4 == 0 for n in numbers)
    assert any(n % 2 for n in numbers)


def test_an_example_says_what_the_command_line_takes() -> None:
    example = Example("gemm<16>", (4, 4), (16, 16), words(A="normal:64,64", M="64"))
    assert (example.shared, list(example.arguments)) == (0, ["A", "M"])
