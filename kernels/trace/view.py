"""A trace of any kernel as films, pages and `verify` read it: a layout, and what SRAM and HBM held after each step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels.declaration import Kernel
from kernels.layout import (
    ArrayLayout,
    LaunchLayout,
    Layout,
    Loop,
    SlotLayout,
    StepLayout,
)
from kernels.trace import model, version2
from kernels.trace.kinds import Kind, kind_of, kinds_of, slot_names
from kernels.trace.sizes import sizes_of
from kernels.trace.view_steps import as_float, shown_steps


def view(
    trace: model.Trace, kernel: Kernel | None = None, words: Mapping[str, str] | None = None
) -> version2.Trace:
    """A trace as films show it, step for step, with numbers as float32.

    `kernel` gives what no run shows: the title, letters, which axes of an array choose a head, and its parameters,
    whose values are those that the launches were made with. Without it an array is one matrix, of as many rows as it
    has if its last axis is that of the columns, and has no parameters. `words` is what names in the source (of slots,
    and of loops) are called, such as ``{"Sij": "S"}``; by default the kernel's own.

    Raises TraceError if the launches are not those of `kernel`, or a block works on two heads of an array.
    """
    words = (words_of(kernel) if kernel else {}) if words is None else words
    params = sizes_of(trace, kernel) if kernel else {}
    kinds = kinds_of(trace, words)
    arrays = _arrays(trace, kernel, params)
    launches = tuple(_launch(trace, number, kinds[number], words) for number in range(len(trace.launches)))
    whole = {array.name: array for array in arrays}
    return version2.Trace(
        kernel=kernel.name if kernel else trace.name,
        title=kernel.title if kernel else trace.name,
        params={parameter.name: params[parameter.name] for parameter in kernel.parameters} if kernel else {},
        layout=Layout(arrays, launches),
        inputs={a.name: as_float(trace.before[a.name], a.shape) for a in arrays if a.role == "input"},
        outputs={
            name: as_float(trace.outputs.get(name, trace.before[name]), array.shape)
            for name, array in whole.items()
            if array.role == "output"
        },
        steps=shown_steps(trace, arrays, launches, kinds, words),
        provenance=trace.provenance,
        window=trace.window,
    )


def words_of(kernel: Kernel) -> Mapping[str, str]:
    """What a kernel calls its slots and loops."""
    found = {slot.name: slot.symbol for launch in kernel.launches for slot in launch.slots}
    return found | ({"0": "pass", "1": "pass"} if kernel.name == "online_softmax" else {})


def _arrays(trace: model.Trace, kernel: Kernel | None, sizes: Mapping[str, int]) -> tuple[ArrayLayout, ...]:
    """The arrays, each cut into tiles: of as many rows as is declared, or as the largest step moves."""
    if kernel:
        bare = [
            ArrayLayout(
                a.name,
                a.symbol or a.name,
                tuple(sizes[name] for name in a.shape),
                a.lead,
                sizes.get(a.tile, 0),
                a.role,
            )
            for a in kernel.arrays
        ]
    else:
        bare = [
            ArrayLayout(
                place.name,
                place.name,
                (1, math.prod(place.shape[:-1]), place.shape[-1])
                if len(place.shape) > 1
                else (1, *place.shape),
                1,
                0,
                "output" if place.name in trace.outputs else "input",
            )
            for place in trace.places
            if place.memory == "HBM"
        ]
    return tuple(array if array.tile else replace(array, tile=_tile(trace, array)) for array in bare)


def _tile(trace: model.Trace, array: ArrayLayout) -> int:
    """The most rows of a head that a step touches; all if none touches any."""
    begins, ends = np.array([record.rows for record in trace.records] or [(0, 0)], np.int64).T
    mine = np.flatnonzero(trace.accesses["place"] == trace.numbers()[array.name])
    step = np.searchsorted(ends, mine, "right")
    inside = mine >= begins[step]  # and not before the first step of a window
    mine, step = mine[inside], step[inside]
    if not len(mine):
        return array.rows
    row = trace.accesses["cell"][mine].astype(np.int64) // array.columns % array.rows
    first = np.flatnonzero(np.diff(step, prepend=-1))
    return int((np.maximum.reduceat(row, first) - np.minimum.reduceat(row, first)).max()) + 1


def _launch(
    trace: model.Trace, number: int, kinds: Mapping[Kind, StepLayout], words: Mapping[str, str]
) -> LaunchLayout:
    launch = trace.launches[number]
    names = slot_names(trace, number)
    turns: dict[str, int] = {}
    for kind in sorted(kinds, key=lambda kind: -len(kind[1])):
        turns |= {loop: 0 for loop in kind[1] if loop not in turns}
    for record in trace.records:
        if record.launch == number:
            for loop, count in zip(kind_of(record, words)[1], record.loop.values(), strict=True):
                turns[loop] = max(turns[loop], count + 1)
    return LaunchLayout(
        function=launch.kernel.split("<")[0],
        grid=launch.grid,
        threads=math.prod(launch.block),
        slots=tuple(
            SlotLayout(names[p.name], words.get(names[p.name], names[p.name]), p.shape or (1,))
            for p in trace.held_in(number)
        ),
        loops=tuple(Loop(name, count) for name, count in turns.items()),
        steps=tuple(kinds.values()),
    )
