"""The four kernels as plain CUDA: every step against the definition, and their actions against those declared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernels
from kernels.attention import attention
from kernels.conclude.races import races
from kernels.conclude.unwritten import unwritten
from kernels.declaration import Moment
from kernels.launch.record import record
from kernels.launch.request import Request
from kernels.layout import Action, Clear, Compute, Load, Store, Update
from kernels.registry import find_kernel
from kernels.trace.model import Step, Trace

from .gallery_runs import BACKENDS, DEFAULTS, FOUR, Told, backend, four, told
from .shapes import TILES, sweep

EPS = float(np.finfo(np.float32).eps)
RECORDINGS = [
    pytest.param(kernel, name, sizes, id=name)
    for kernel in FOUR
    for name, sizes in find_kernel(kernel).recordings.items()
]
FEW_BLOCKS = {"fa1-n64", "fa2-n64"}  # of which two blocks are enough: all do the same
# What a declaration leaves open: of a computation it names those slots alone that the film shows.
COMPUTED = {"Sij": {"Qi", "Kj"}, "Li": {"mi", "li"}, "yi": {"xi", "m", "d"}}


def _declared(actions: tuple[Action, ...]) -> Told:
    found = set()
    for action in actions:
        match action:
            case Load(array, slot):
                found.add(("load", slot, frozenset({array})))
            case Store(slot, array):
                found.add(("store", array, frozenset({slot})))
            case Update(slot, by):
                found.add(("update", slot, frozenset(by)))
            case Clear(slot):
                found.add(("clear", slot, frozenset()))
            case Compute(slot, rows, columns):
                assert {rows, columns} - {None} <= COMPUTED[slot]
                found.add(("compute", slot, frozenset(COMPUTED[slot])))
    return found


def _recording(kernel: str, name: str, sizes: dict[str, int]) -> Request:
    request = four(kernel, sizes, 32)
    for array, values in kernels.recorded(name).inputs.items():
        request.arrays[array][...] = values
    return replace(request, blocks=(0, 2)) if name in FEW_BLOCKS else request


def _traced(kernel: str, sizes: dict[str, int], threads: int, machine: str) -> Trace:
    return record(four(kernel, sizes, threads), backend(machine))[0]


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(("kernel", "name", "sizes"), RECORDINGS)
def test_the_actions_derived_are_the_actions_declared(
    kernel: str, name: str, sizes: dict[str, int], machine: str
) -> None:
    trace, _ = record(_recording(kernel, name, sizes), backend(machine))
    launches = find_kernel(kernel).layout(DEFAULTS[kernel] | sizes, 32).launches
    for step in trace.steps:
        assert told(trace, step) == _declared(launches[step.launch].step(step.name).actions), step
    seen = {(step.launch, step.name) for step in trace.steps}
    assert seen == {(n, kind.name) for n, launch in enumerate(launches) for kind in launch.steps}


def test_the_actions_compared_are_those_of_54_kinds_of_step() -> None:
    kinds = 0
    for recording in RECORDINGS:
        kernel, _, sizes = recording.values
        layout = find_kernel(str(kernel)).layout(DEFAULTS[str(kernel)] | dict(sizes), 32)  # type: ignore[call-overload]
        kinds += sum(len(launch.steps) for launch in layout.launches)
    assert kinds == 54


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize(("kernel", "name", "sizes"), RECORDINGS)
def test_the_steps_are_those_of_the_recording_and_hold_the_same_numbers(
    kernel: str, name: str, sizes: dict[str, int], machine: str
) -> None:
    recorded = kernels.recorded(name)
    trace, _ = record(_recording(kernel, name, sizes), backend(machine))
    blocks = recorded.blocks[:2] if name in FEW_BLOCKS else recorded.blocks
    steps = [step for step in recorded.steps if (step.launch, step.block) in blocks]
    assert len(trace.steps) == len(steps)
    for step, old in zip(trace.steps, steps, strict=True):
        assert (step.name, step.block, step.launch) == (old.name, old.block, old.launch)
        assert tuple(step.loop.values()) == tuple(old.loop.values())
        for slot, held in old.sram.items():
            content = step.slots[slot]
            if held is None:
                assert content is None, (step, slot)
                continue
            known = np.ascontiguousarray(held).view(np.uint32) != 0x7F85A110
            assert content is not None, (step, slot)
            np.testing.assert_array_equal(content.known, known)
            np.testing.assert_allclose(content.values[known], held[known], rtol=1e-5, atol=1e-5)
        for array, traffic in old.traffic.items():
            assert (step.traffic[array].reads, step.traffic[array].writes) == (traffic.reads, traffic.writes)
        assert set(step.traffic) == set(old.traffic)
    for array, total in recorded.traffic.items() if name not in FEW_BLOCKS else ():
        new = trace.traffic[array]
        assert (new.reads, new.writes, new.transfers) == (total.reads, total.writes, total.transfers)


def _judge(kernel: str, sizes: dict[str, int], trace: Trace) -> None:
    """Each slot, and each cell of HBM that a step moves, against the definition in float64."""
    declared = find_kernel(kernel)
    params = DEFAULTS[kernel] | sizes
    layout = declared.layout(params, 1)
    inputs = {array.name: trace.before[array.name] for array in declared.inputs}
    heads = layout.arrays[0].heads
    magnitudes = [declared.magnitudes(params, inputs, head) for head in range(heads)]
    largest = {name: max(found[name] for found in magnitudes) for name in magnitudes[0]}
    for step in trace.steps:
        kind = layout.launches[step.launch].step(step.name)
        loop = dict(
            zip(kind.loops, step.loop.values(), strict=True)
        )  # as they are declared: a pass is a loop
        moment = Moment(step.launch, step.name, loop, step.block)
        exact, plain = (declared.truth(params, inputs, moment, dtype) for dtype in (np.float64, np.float32))
        symbols = {slot.name: slot.symbol for slot in layout.launches[step.launch].slots}
        assert {slot for slot in step.slots if step.written[slot].any()} <= set(exact.sram), step
        for slot, values in exact.sram.items():
            content = step.slots[slot]
            assert content is not None, (step, slot)
            valid = tuple(slice(n) for n in values.shape)
            assert content.known[valid].all(), (step, slot)
            size = largest.get(slot, largest.get(symbols[slot], 0.0))
            _near(content.values[valid], values, plain.sram[slot], size, f"{step} {slot}")
        _moved(step, exact.tiles, layout)
        for action in kind.actions:
            if isinstance(action, Store):
                array = layout.array(action.array)
                head, rows = exact.tiles[action.array]
                cells = (array.heads, array.rows, array.columns)
                window = step.hbm[action.array].reshape(cells)[head, rows]
                due, rough = (truth.hbm[action.array].reshape(cells[1:])[rows] for truth in (exact, plain))
                assert not np.isnan(due).any(), step
                size = largest.get(array.name, largest.get(array.symbol, 0.0))
                _near(window, due, rough, size, f"{step} {array.name}")


@np.errstate(all="ignore")
def _near(got: Any, exact: Any, plain: Any, size: float, what: str) -> None:
    finite = np.isfinite(exact)
    assert np.array_equal(got[~finite], exact[~finite].astype(np.float32), equal_nan=True), what
    if finite.any():
        bound = 2 * np.abs(plain - exact)[finite].max() + 4 * EPS * size
        assert np.abs(got - exact)[finite].max() <= bound, what


def _moved(step: Step, tiles: Any, layout: Any) -> None:
    actions = layout.launches[step.launch].step(step.name).actions
    for action in actions:
        if not isinstance(action, Load | Store):
            continue
        array = layout.array(action.array)
        head, rows = tiles[action.array]
        due = np.zeros((array.heads, array.rows, array.columns), np.bool_)
        due[head, rows] = True
        touched = (step.read if isinstance(action, Load) else step.written)[action.array]
        np.testing.assert_array_equal(touched.reshape(due.shape), due, f"{step} {action}")


@np.errstate(all="ignore")
def _outputs(kernel: str, trace: Trace) -> None:
    if kernel == "online_softmax":
        return
    causal = next(a.value for a in trace.launches[0].arguments if a.name == "causal")
    exact = attention(*(trace.before[name] for name in "QKV"), bool(causal), np.float64)
    for name in {"O", "L", "l", "m"} & set(trace.outputs):
        np.testing.assert_allclose(trace.outputs[name], exact[name], rtol=1e-4, atol=1e-4)


def _sweep(kernel: str) -> list[tuple[dict[str, int], int]]:
    return [
        ({n: v for n, v in params.items() if n != "threads"}, params["threads"]) for params in sweep(kernel)
    ]


def _check(kernel: str, runs: list[tuple[dict[str, int], int]], machine: str) -> None:
    assert len(runs) >= 4
    for sizes, threads in runs:
        trace = _traced(kernel, sizes, threads, machine)
        _judge(kernel, sizes, trace)
        _outputs(kernel, trace)
        assert races(trace) == ()
        assert unwritten(trace) == ()


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("kernel", ["fa1", "fa2", "flash_decoding"])
def test_every_step_of_every_shape_is_right(kernel: str, tiles: tuple[int, int], machine: str) -> None:
    runs = [run for run in _sweep(kernel) if (run[0]["Br"], run[0]["Bc"]) == tiles]
    _check(kernel, runs[:: max(1, len(runs) // 4)], machine)


@pytest.mark.parametrize("machine", BACKENDS)
def test_every_step_of_every_online_softmax_is_right(machine: str) -> None:
    _check("online_softmax", _sweep("online_softmax")[::2], machine)


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("threads", [2, 7, 64, 200])
@pytest.mark.parametrize("kernel", FOUR)
def test_any_number_of_threads_gives_the_same_steps_and_races_with_none(
    kernel: str, threads: int, machine: str
) -> None:
    one, other = (_traced(kernel, {}, n, machine) for n in (1, threads))
    assert races(other) == ()
    assert unwritten(other) == ()
    for a, b in zip(one.steps, other.steps, strict=True):
        assert (a.name, dict(a.loop), a.block) == (b.name, dict(b.loop), b.block)
        assert a.traffic == b.traffic
        assert told(one, a) == told(other, b)
        for slot, held in a.slots.items():
            content = b.slots[slot]
            assert (held is None) == (content is None)
            if held is not None and content is not None:
                assert held.values.tobytes() == content.values.tobytes()
                assert held.known.tobytes() == content.known.tobytes()


@pytest.mark.parametrize("machine", BACKENDS)
@pytest.mark.parametrize("kernel", FOUR)
def test_an_untraced_run_gives_the_bits_of_the_traced_one(kernel: str, machine: str) -> None:
    request = four(kernel, {}, 32)
    trace, _ = record(request, backend(machine))
    after = backend(machine).run(request)
    assert {n: after[n].tobytes() for n in trace.outputs} == {
        n: v.tobytes() for n, v in trace.outputs.items()
    }


@pytest.mark.parametrize("kernel", FOUR)
def test_the_plain_source_leaves_the_outputs_of_the_kernel_before_it(kernel: str) -> None:
    request = four(kernel, {}, 4)
    after = backend("cpu").run(request)
    inputs = {array.name: request.arrays[array.name] for array in find_kernel(kernel).inputs}
    sizes = {n: v for n, v in DEFAULTS[kernel].items() if n in ("Br", "Bc", "b", "splits")}
    for name, values in kernels.run(kernel, inputs, backend="cpu", **sizes).items():
        np.testing.assert_array_equal(after[name].reshape(values.shape), values)
