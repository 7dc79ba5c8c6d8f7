"""The steps of a trace as films show them: slots as float32 with their valid part, windows of HBM, traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels.errors import TraceError
from kernels.job import POISON
from kernels.layout import ArrayLayout, Clear, Compute, LaunchLayout, Load, StepLayout
from kernels.trace import model
from kernels.trace.kinds import Kind, kind_of, slot_names
from kernels.trace.version2 import Patch, Step, Traffic, Windows

Matrix = npt.NDArray[np.float32]


def shown_steps(
    trace: model.Trace,
    arrays: tuple[ArrayLayout, ...],
    launches: tuple[LaunchLayout, ...],
    kinds: Sequence[Mapping[Kind, StepLayout]],
    words: Mapping[str, str],
) -> tuple[Step, ...]:
    """The steps, in the order launch, block, time; TraceError if a block works on two heads of an array."""
    return _Shown(trace, arrays, launches, kinds, words).steps()


def as_float(array: npt.NDArray[np.generic], shape: tuple[int, ...]) -> Matrix:
    """An array as float32 in another shape, read-only."""
    result = np.ascontiguousarray(array, np.float32).reshape(shape)
    result.flags.writeable = False
    return result


@dataclass
class _Now:
    """What a block's slots hold and how much of it is of the problem, and its windows of HBM."""

    held: dict[str, Matrix | None]
    valid: dict[str, tuple[int, ...]]
    start: dict[str, Matrix]
    patches: dict[str, tuple[Patch, ...]]


class _Shown:
    """A trace on its way to the steps of a film."""

    def __init__(
        self,
        trace: model.Trace,
        arrays: tuple[ArrayLayout, ...],
        launches: tuple[LaunchLayout, ...],
        kinds: Sequence[Mapping[Kind, StepLayout]],
        words: Mapping[str, str],
    ) -> None:
        self._trace, self._arrays, self._kinds, self._launches, self._words = (
            trace,
            arrays,
            kinds,
            launches,
            words,
        )
        self._steps: list[Step] = []

    def steps(self) -> tuple[Step, ...]:
        """The steps, in the order launch, block, time."""
        records = self._trace.records
        for launch, block in self._trace.blocks:
            mine = [n for n, r in enumerate(records) if (r.launch, r.block) == (launch, block)]
            self._block(launch, mine)
        return tuple(self._steps)

    def _block(self, launch: int, mine: list[int]) -> None:
        records, accesses = self._trace.records, self._trace.accesses
        begin = records[mine[0] - 1].rows[1] if mine[0] else 0
        heads = self._heads(launch, accesses[begin : records[mine[-1]].rows[1]], records[mine[0]].block)
        before = self._trace.before_launch(launch)
        start = {
            array.name: as_float(before[array.name], (array.heads, *array.shape[array.lead :]))[
                heads[array.name]
            ]
            for array in self._arrays
            if array.role == "output" and array.name in heads
        }
        slots = self._launches[launch].slots
        now = _Now(
            held=dict.fromkeys((slot.name for slot in slots), None),
            valid={slot.name: (0,) * len(slot.shape) for slot in slots},
            start=start,
            patches={name: () for name in start},
        )
        if begin < records[mine[0]].rows[0]:
            self._valid(launch, accesses[begin : records[mine[0]].rows[0]], now, None)
        for number in mine:
            self._step(number, accesses[begin : records[number].rows[1]], heads, now)
            begin = records[number].rows[1]

    def _step(self, number: int, since: model.Array, heads: Mapping[str, int], now: _Now) -> None:
        """Adds one step; `since` are the accesses since the one before it."""
        record, step = self._trace.records[number], self._trace.steps[number]
        kind = self._kinds[record.launch][kind_of(record, self._words)]
        self._hold(step, since, now)
        self._valid(record.launch, step.accesses, now, kind)
        self._patch(step, since, heads, now)
        self._steps.append(
            Step(
                index=number,
                name=record.name,
                loop=dict(zip(kind.loops, record.loop.values(), strict=True)),
                block=record.block,
                launch=record.launch,
                kind=kind,
                sram=dict(now.held),
                valid=dict(now.valid),
                hbm=Windows(now.start, dict(now.patches)),
                traffic=self._traffic(record.launch, step.accesses, heads),
            )
        )

    def _hold(self, step: model.Step, since: model.Array, now: _Now) -> None:
        """What slots hold after a step; one that kept its bits keeps its array."""
        wrote = set(np.unique(since["place"][since["write"] > 0]).tolist())
        numbers, names = self._trace.numbers(step.launch), slot_names(self._trace, step.launch)
        for place in self._trace.held_in(step.launch):
            if numbers[place.name] not in wrote and place.memory != "registers":
                continue
            content, slot = step.content(place.name), names[place.name]
            if content is None:
                now.held[slot] = None
                continue
            values = content.values.astype(np.float32).reshape(place.shape or (1,))
            values.view(np.uint32)[~content.known.reshape(values.shape)] = POISON
            values.flags.writeable = False
            last = now.held[slot]
            if last is None or last.tobytes() != values.tobytes():
                now.held[slot] = values

    def _valid(self, launch: int, rows: model.Array, now: _Now, kind: StepLayout | None) -> None:
        """How much of each slot is part of the problem: what filled it last, and what was updated since.

        Of what came before a window (`kind` None) the last fill is what was written since the last barrier before it.
        """
        afresh = {a.slot for a in kind.actions if isinstance(a, Load | Clear | Compute)} if kind else set()
        numbers, names = self._trace.numbers(launch), slot_names(self._trace, launch)
        rows = rows[rows["write"] > 0]
        for place in self._trace.held_in(launch):
            mine = rows[rows["place"] == numbers[place.name]]
            if not len(mine):
                continue
            if kind is None:
                mine = mine[mine["epoch"] == mine["epoch"].max()]
            box = model.box_of(mine["cell"], place.shape or (1,))
            assert box is not None
            slot, extent = names[place.name], tuple(end for _, end in box)
            if slot not in afresh:
                extent = tuple(map(max, extent, now.valid[slot]))
            now.valid[slot] = extent

    def _patch(self, step: model.Step, since: model.Array, heads: Mapping[str, int], now: _Now) -> None:
        numbers = self._trace.numbers(step.launch)
        for array in self._arrays:
            if array.name not in heads:
                continue
            wrote = since["cell"][(since["place"] == numbers[array.name]) & (since["write"] > 0)]
            box = model.box_of(wrote, (array.heads, array.rows, array.columns))
            if box is None:
                continue
            _, (row, row_end), (column, column_end) = box
            whole = step.hbm[array.name].reshape(array.heads, array.rows, array.columns)
            values = whole[heads[array.name], row:row_end, column:column_end].astype(np.float32)
            values.flags.writeable = False
            now.patches[array.name] = (*now.patches[array.name], Patch(row, column, values))

    def _traffic(self, launch: int, rows: model.Array, heads: Mapping[str, int]) -> dict[str, Traffic]:
        numbers = self._trace.numbers(launch)
        found = {}
        for array in self._arrays:
            if array.name not in heads:
                continue
            mine = rows[rows["place"] == numbers[array.name]]
            box = model.box_of(mine["cell"], (array.heads, array.rows, array.columns))
            if box is not None:
                reads, writes = (int((mine["write"] != other).sum()) for other in (1, 0))
                found[array.name] = Traffic(reads, writes, box[1], box[2], box[0][0])
        return found

    def _heads(self, launch: int, rows: model.Array, block: model.Dim3) -> dict[str, int]:
        """The head of each array that a block works on."""
        numbers = self._trace.numbers(launch)
        heads = {}
        for array in self._arrays:
            cells = rows["cell"][rows["place"] == numbers[array.name]]
            found = np.unique(cells // np.uint64(array.rows * array.columns)).tolist()
            if len(found) > 1:
                raise TraceError(
                    f"{self._trace.name} touches {len(found)} heads of {array.name} in block {block}: a film shows one "
                    "head for each block"
                )
            if found:
                heads[array.name] = found[0]
        return heads
