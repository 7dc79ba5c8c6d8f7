"""Holding a trace against the definition: every step, every slot, every output, every count.

A number passes if it is finite where the definition is, and no further from the float64 definition than twice what
the same definition in float32 is off on the same inputs, plus a floor of a few units in the last place of the terms
it is summed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.declaration import Expected, Kernel, Moment
from kernels.errors import KernelsError
from kernels.job import POISON
from kernels.layout import Load, Store
from kernels.registry import find_kernel
from kernels.trace import Step, Trace

FLOOR = 4  # units in the last place, of the magnitude of the terms


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it must be; `step` is its index in the trace, None for the run as a whole."""

    step: int | None
    what: str


@dataclass(frozen=True)
class Report:
    """What `verify` found: how many `checks` it made, the `findings`, and the `worst` error over its bound."""

    checks: int
    findings: tuple[Finding, ...]
    worst: float

    @property
    def ok(self) -> bool:
        """Whether there are checks and no findings."""
        return self.checks > 0 and not self.findings


_whatever = np.errstate(all="ignore")  # the numbers are judged by what is found, not by how they came about


@_whatever
def verify(trace: Trace, kernel: Kernel | None = None) -> Report:
    """Check a trace against its kernel's definition; raises nothing, whatever the trace holds.

    `kernel` is found by the trace's own name if it is not given.
    """
    tally = _Tally()
    try:
        declared = kernel or find_kernel(trace.kernel)
        tally.checks += 1
        if trace.layout != declared.layout(trace.params, trace.layout.launches[0].threads):
            tally.find(
                None, f"its arrays, slots and steps are not those {declared.name} has with its parameters"
            )
            return Report(tally.checks, tuple(tally.findings), tally.worst)
        _check_outputs(declared, trace.params, trace.inputs, trace.outputs, tally)
        if trace.window is None:
            _check_traffic(trace, declared, tally)
        for launch, block in trace.blocks:
            _check_block(trace, declared, trace.steps_of(block, launch), tally)
    except (
        KernelsError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        StopIteration,
        MemoryError,
    ) as error:
        tally.find(None, f"the trace contradicts itself: {type(error).__name__}: {error}")
    return Report(tally.checks, tuple(tally.findings), tally.worst)


@_whatever
def verify_outputs(kernel: Kernel, params: Mapping[str, int], inputs: Expected, outputs: Expected) -> Report:
    """Check what a run without tracing gave, by the same measure: every head of every output."""
    tally = _Tally()
    _check_outputs(kernel, params, inputs, outputs, tally)
    return Report(tally.checks, tuple(tally.findings), tally.worst)


class _Tally:
    def __init__(self) -> None:
        self.checks = 0
        self.findings: list[Finding] = []
        self.worst = 0.0

    def find(self, step: int | None, what: str) -> None:
        self.findings.append(Finding(step, what))

    def same(self, step: int | None, what: str, got: object, expected: object) -> None:
        self.checks += 1
        if got != expected:
            self.find(step, f"{what} is {got}, must be {expected}")

    def close(
        self,
        step: int | None,
        what: str,
        got: npt.NDArray[np.float32] | None,
        exact: npt.NDArray[np.float64],
        plain: npt.NDArray[np.float32],
        magnitude: float,
    ) -> None:
        self.checks += 1
        if got is None:
            return self.find(step, f"{what} is empty")
        if got.shape != exact.shape:
            return self.find(step, f"{what} has shape {got.shape}, must be {exact.shape}")
        if (np.ascontiguousarray(got).view(np.uint32) == POISON).any():
            return self.find(step, f"{what} has cells that were never written")
        infinite = ~np.isfinite(exact)
        right = np.where(infinite, got == exact, np.isfinite(got))
        if not right.all():
            cell = tuple(int(n) for n in np.argwhere(~right)[0])
            return self.find(step, f"{what}{list(cell)} is {got[cell]}, must be {exact[cell]:.7g}")
        if infinite.all():
            return None
        error = np.abs(got[~infinite] - exact[~infinite])
        plain_error = np.abs(plain[~infinite] - exact[~infinite])
        bound = 2 * float(plain_error.max()) + FLOOR * float(np.finfo(np.float32).eps) * magnitude
        self.worst = max(self.worst, float(error.max()) / max(bound, float(np.finfo(np.float32).tiny)))
        if error.max() > bound:
            cell = tuple(int(n) for n in np.argwhere(~infinite)[error.argmax()])
            self.find(
                step,
                f"{what}{list(cell)} is {got[cell]:.9g}, must be {exact[cell]:.9g}: off by more than {bound:.2g}",
            )
        return None


def _check_outputs(
    kernel: Kernel, params: Mapping[str, int], inputs: Expected, outputs: Expected, tally: _Tally
) -> None:
    exact = kernel.outputs(params, inputs, np.float64)
    plain = kernel.outputs(params, inputs, np.float32)
    arrays = {array.name: array for array in kernel.layout(params, threads=1).arrays}
    for name in exact:
        layout = arrays[name]
        got = outputs[name].reshape(layout.heads, -1)
        for head, (values, rough) in enumerate(
            zip(exact[name].reshape(layout.heads, -1), plain[name].reshape(layout.heads, -1), strict=True)
        ):
            magnitude = _magnitude(kernel.magnitudes(params, inputs, head), name, layout.symbol)
            tally.close(None, f"the output {name} of head {head}", got[head], values, rough, magnitude)


def _check_traffic(trace: Trace, kernel: Kernel, tally: _Tally) -> None:
    formula = kernel.traffic(trace.params)
    for array in trace.layout.arrays:
        total = trace.traffic[array.name]
        counts = total.reads, total.writes
        tally.same(None, f"the traffic of {array.name} (reads, writes)", counts, formula[array.name])


def _check_block(trace: Trace, kernel: Kernel, steps: tuple[Step, ...], tally: _Tally) -> None:
    magnitudes = _magnitudes(trace, kernel, steps)
    symbols = {slot.name: slot.symbol for slot in trace.launch_of(steps[0]).slots}
    moments = {(step.name, *step.loop.values()) for step in steps}
    tally.same(steps[0].index, "how many of its steps differ in name or loops", len(moments), len(steps))
    previous: Step | None = None
    for step in steps:
        moment = Moment(step.launch, step.name, step.loop, step.block)
        exact = kernel.truth(trace.params, trace.inputs, moment, np.float64)
        plain = kernel.truth(trace.params, trace.inputs, moment, np.float32)
        for slot, values in exact.sram.items():
            magnitude = _magnitude(magnitudes, slot, symbols[slot])
            tally.close(step.index, slot, step.held(slot), values, plain.sram[slot], magnitude)
        for name, values in exact.hbm.items():
            if trace.window and name not in step.hbm:
                continue  # the block has written it only after the last step recorded
            _check_window(trace, step, name, values, plain.hbm[name], magnitudes, tally)
        for problem in _contradictions(trace, step, exact.tiles, tally):
            tally.find(step.index, problem)
        if previous or not trace.window:
            for problem in _trespasses(step, previous, tally):
                tally.find(step.index, problem)
        previous = step


def _magnitudes(trace: Trace, kernel: Kernel, steps: tuple[Step, ...]) -> Mapping[str, float]:
    """Of the head that a block works on: any of them, where its steps (those in a window) touch no HBM."""
    touched = [traffic.head for step in steps for traffic in step.traffic.values()]
    heads = touched[:1] or range(trace.layout.arrays[0].heads)
    found = [kernel.magnitudes(trace.params, trace.inputs, head) for head in heads]
    return {name: max(magnitudes[name] for magnitudes in found) for name in found[0]}


def _check_window(
    trace: Trace,
    step: Step,
    name: str,
    exact: npt.NDArray[Any],
    plain: npt.NDArray[Any],
    magnitudes: Mapping[str, float],
    tally: _Tally,
) -> None:
    window, start = step.hbm[name], step.hbm.start[name]
    written = ~np.isnan(exact)
    if not _equal(window[~written], start[~written]):
        tally.find(step.index, f"{name} in HBM changed where {step.name} has no business")
    if written.any():
        magnitude = _magnitude(magnitudes, name, trace.layout.array(name).symbol)
        what = f"{name} in HBM"
        tally.close(step.index, what, window[written], exact[written], plain[written], magnitude)


def _magnitude(magnitudes: Mapping[str, float], name: str, symbol: str) -> float:
    """Of the terms of one slot or array: under its own name, or else its symbol's; 0 for an input, which is copied."""
    return magnitudes.get(name, magnitudes.get(symbol, 0.0))


def _trespasses(step: Step, previous: Step | None, tally: _Tally) -> Iterator[str]:
    """Where a step changed a slot or array that is none of its business, or of a slot that is, more than is valid."""
    stored = {action.array for action in step.kind.actions if isinstance(action, Store)}
    for name, patches in step.hbm.patches.items():
        tally.checks += 1
        writes = len(patches) - (0 if previous is None else len(previous.hbm.patches.get(name, ())))
        if writes != (name in stored):
            must = "once" if name in stored else "never"
            yield f"{name} in HBM was written {writes} times since the step before, and {step.name} writes it {must}"
    changed = {action.slot for action in step.kind.actions if not isinstance(action, Store)}
    for slot, content in step.sram.items():
        tally.checks += 1
        before = None if previous is None else previous.sram[slot]
        if slot not in changed:
            if not _equal(content, before):
                yield f"{slot} changed, and {step.name} must leave it alone"
        elif content is not None:
            padding = np.ones(content.shape, bool)
            padding[tuple(slice(n) for n in step.valid[slot])] = False
            old = POISON if before is None else before.view(np.uint32)[padding]
            if (np.ascontiguousarray(content).view(np.uint32)[padding] != old).any():
                yield f"{step.name} changed {slot} outside its valid part {step.valid[slot]}"


def _contradictions(
    trace: Trace, step: Step, tiles: Mapping[str, tuple[int, slice]], tally: _Tally
) -> Iterator[str]:
    """Where a step moved something other than its declared actions say: these tiles, each element once."""
    loaded = {action.array for action in step.kind.actions if isinstance(action, Load)}
    stored = {action.array for action in step.kind.actions if isinstance(action, Store)}
    for name, traffic in step.traffic.items():
        tally.checks += 1
        if (traffic.reads and name not in loaded) or (traffic.writes and name not in stored):
            counts = f"{traffic.reads} reads, {traffic.writes} writes"
            yield f"{step.name} touched {name} ({counts}), which is none of its actions"
    for action in step.kind.actions:
        if not isinstance(action, Load | Store):
            continue
        tally.checks += 2
        if action.array not in step.traffic:
            yield f"{step.name} moved nothing of {action.array}"
            continue
        traffic, (head, rows) = step.traffic[action.array], tiles[action.array]
        first, last = traffic.columns
        counted = traffic.reads if isinstance(action, Load) else traffic.writes
        moved = _elements(counted, traffic.head, slice(*traffic.rows))
        due = _elements((rows.stop - rows.start) * (last - first), head, rows)
        if moved != due:
            yield f"{step.name} moved {moved} of {action.array}, must move {due}"
        if not _equal(step.held(action.slot), _box(trace, step, action.array)):
            yield f"{action.slot} does not hold the tile of {action.array} that {step.name} moved"


def _elements(count: int, head: int, rows: slice) -> str:
    return f"{count} elements in rows {rows.start}:{rows.stop} of head {head}"


def _box(trace: Trace, step: Step, name: str) -> npt.NDArray[np.float32]:
    """What the box of `name` touched in a step holds after it."""
    traffic = step.traffic[name]
    layout = trace.layout.array(name)
    if name in step.hbm:
        matrix = step.hbm[name]
    else:
        heads = trace.inputs[name].reshape(layout.heads, *layout.shape[layout.lead :])
        matrix = heads[traffic.head]
    rows, columns = slice(*traffic.rows), slice(*traffic.columns)
    return matrix[rows] if matrix.ndim == 1 else matrix.reshape(layout.rows, layout.columns)[rows, columns]


def _equal(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or (a.shape == b.shape and a.tobytes() == b.tobytes())
