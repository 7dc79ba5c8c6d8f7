"""The verifier under attack: a right trace with one thing made wrong, and each wrong thing found where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernels
from kernels.layout import Compute
from kernels.registry import kernel_names
from kernels.trace import Step, Trace, Traffic

OUTPUT = {"fa1": "O", "fa2": "O", "flash_decoding": "O", "online_softmax": "y"}


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    return {name: kernels.record(name, None, backend="cpu") for name in kernel_names()}


def _output(trace: Trace, change: Callable[[Any], Any]) -> Trace:
    name = OUTPUT[trace.kernel]
    values = trace.outputs[name].copy()
    return replace(trace, outputs={**trace.outputs, name: np.asarray(change(values), np.float32)})


def _cell(value: float) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values.flat[3] = value
        return values

    return change


OUTPUTS: dict[str, Callable[[Any], Any]] = {
    "one NaN": _cell(np.nan),
    "one infinity": _cell(np.inf),
    "one cell never written": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 3, _poison(), a),
    "constant": np.zeros_like,
    "the mean everywhere": lambda a: np.full_like(a, a.mean()),
    "two heads exchanged": lambda a: a[::-1].copy(),
    "two columns exchanged": lambda a: a[..., ::-1].copy(),
    "off by a hundred-thousandth": lambda a: a * np.float32(1.00002),
    "another sign": lambda a: -a,
}


def _poison() -> Any:
    return np.array(0x7F85A110, np.uint32).view(np.float32)


@pytest.mark.parametrize("change", OUTPUTS.values(), ids=OUTPUTS.keys())
@pytest.mark.parametrize("kernel", kernel_names())
def test_a_wrong_output_is_found(kernel: str, change: Callable[[Any], Any], traces: dict[str, Trace]) -> None:
    report = kernels.verify(_output(traces[kernel], change))
    assert any(f"the output {OUTPUT[kernel]} of head" in finding.what for finding in report.findings)


def _steps(trace: Trace, change: Callable[[list[Step]], list[Step]]) -> Trace:
    return replace(trace, steps=tuple(replace(s, index=n) for n, s in enumerate(change(list(trace.steps)))))


@pytest.mark.parametrize("kernel", kernel_names())
def test_any_step_left_out_or_shown_twice_is_found(kernel: str, traces: dict[str, Trace]) -> None:
    trace = traces[kernel]
    first = {launch: block for launch, block in reversed(trace.blocks)}  # the other blocks are like it
    numbers = [step.index for step in trace.steps if step.block == first[step.launch]]
    for number in numbers:
        left_out = _steps(trace, lambda steps, n=number: steps[:n] + steps[n + 1 :])  # type: ignore[misc]
        assert not kernels.verify(left_out).ok, f"step {number} left out"
        twice = _steps(trace, lambda steps, n=number: [*steps[: n + 1], *steps[n:]])  # type: ignore[misc]
        assert not kernels.verify(twice).ok, f"step {number} twice"


@pytest.mark.parametrize("kernel", kernel_names())
def test_a_cell_of_any_slot_off_by_a_thousandth_is_found_at_its_step(
    kernel: str, traces: dict[str, Trace]
) -> None:
    trace = traces[kernel]
    step = trace.steps[-1]
    for slot, content in step.sram.items():
        if content is None or not np.isfinite(step.held(slot)).all():  # type: ignore[arg-type]
            continue
        wrong = content.copy()
        wrong.flat[0] += np.float32(0.001) * max(1, abs(wrong.flat[0]))
        steps = (*trace.steps[:-1], replace(step, sram={**step.sram, slot: wrong}))
        report = kernels.verify(replace(trace, steps=steps))
        assert any(finding.step == step.index and slot in finding.what for finding in report.findings), slot


def test_a_count_off_by_one_is_found(traces: dict[str, Trace]) -> None:
    step = traces["fa1"].steps[0]
    wrong = replace(step.traffic["K"], reads=step.traffic["K"].reads + 1)
    steps = (replace(step, traffic={**step.traffic, "K": wrong}), *traces["fa1"].steps[1:])
    report = kernels.verify(replace(traces["fa1"], steps=steps))
    assert any("the traffic of K" in finding.what for finding in report.findings)


@pytest.mark.parametrize("kernel", kernel_names())
def test_any_count_off_by_one_is_found_at_its_step_in_a_window_too(kernel: str) -> None:
    trace = kernels.record(kernel, None, backend="cpu", blocks=(1, 2), steps=(1, 10**6))
    for step in trace.steps:
        for name, traffic in step.traffic.items():
            way = "reads" if traffic.reads else "writes"
            wrong = replace(traffic, **{way: getattr(traffic, way) + 1})
            report = kernels.verify(_with_traffic(trace, {step.index: {name: wrong}}))
            assert [finding.step for finding in report.findings] == [step.index]
            assert f"{step.name} moved {getattr(wrong, way)} elements" in report.findings[0].what


def test_counts_that_are_wrong_in_two_steps_and_right_in_their_sum_are_found(
    traces: dict[str, Trace],
) -> None:
    first, second, *_ = (step for step in traces["fa1"].steps if step.name == "load_kv")
    wrong = {
        step.index: {"K": replace(step.traffic["K"], reads=step.traffic["K"].reads + more)}
        for step, more in ((first, 1), (second, -1))
    }
    report = kernels.verify(_with_traffic(traces["fa1"], wrong))
    assert [finding.step for finding in report.findings] == [first.index, second.index]


def test_a_tile_that_was_not_read_is_found() -> None:
    trace = kernels.record("fa1", None, backend="cpu", blocks=(0, 1))
    step = replace(trace.steps[0], traffic={"V": trace.steps[0].traffic["V"]})
    report = kernels.verify(replace(trace, steps=(step, *trace.steps[1:])))
    assert [finding.what for finding in report.findings] == ["load_kv moved nothing of K"]


def _with_traffic(trace: Trace, changes: dict[int, dict[str, Traffic]]) -> Trace:
    steps = [replace(step, traffic={**step.traffic, **changes.get(step.index, {})}) for step in trace.steps]
    return replace(trace, steps=tuple(steps))


def test_labels_that_are_not_the_declarations_are_found(traces: dict[str, Trace]) -> None:
    trace = traces["fa1"]
    launch = trace.layout.launches[0]
    kinds = tuple(
        replace(kind, actions=(Compute("Sij", rows="Qi", columns="Vj"),)) if kind.name == "compute" else kind
        for kind in launch.steps
    )
    layout = replace(trace.layout, launches=(replace(launch, steps=kinds),))
    report = kernels.verify(replace(trace, layout=layout))
    assert [finding.what for finding in report.findings] == [
        "its arrays, slots and steps are not those fa1 has with its parameters"
    ]
