"""What a traced launch leaves in memory, word by word, and how a trace is read out of it.

The layout is that of ``instrument.cuh``: ``kim::Config``, ``kim::Tally`` and the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernels.errors import BackendError, ParameterError
from kernels.job import POISON, Job
from kernels.layout import ArrayLayout, Clear, Compute, LaunchLayout, Load, StepLayout
from kernels.source import step_names
from kernels.trace import Block, Patch, Step, Traffic, Window, Windows

Words = npt.NDArray[np.uint32]
Memory = Mapping[str, npt.NDArray[np.float32]]

_HEAD_WORDS, _TALLY_WORDS = 1 + 4, 5
_FLIPPED = 0x7FFFFFFF
_UNKNOWN = -1  # rows
_CONFIG_FIELDS = (
    "capacity",
    "first_block",
    "blocks",
    "first_step",
    "last_step",
    "record_words",
    "slot_words",
    "sram_words",
)
_ARRAY_FIELDS = ("size", "per_head", "columns", "patch", "magic", "shift")
FAULT = np.dtype(
    [("kind", "i4"), ("array", "i4"), ("step", "i4"), ("block", "i4"), ("index", "i8")], align=True
)


class Tally(NamedTuple):
    """What one step did to one array; ranges are first, and one past the last, or zeros."""

    reads: int
    writes: int
    head: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    written_rows: tuple[int, int]
    written_columns: tuple[int, int]


@dataclass(frozen=True)
class RecordShape:
    """What of a launch is recorded, and how large it is, in words unless said otherwise."""

    capacity: int  # steps of one block
    blocks: tuple[int, int]  # recorded: the first, and one past the last
    steps: tuple[int, int]
    tallies: int
    sram: int
    patches: tuple[int, ...]  # for each array

    @property
    def records(self) -> tuple[int, int, int]:
        """The shape of what is kept of every step up to the last: its name, loops, tallies and patches."""
        first, last = self.blocks
        return last - first, self.steps[1], _HEAD_WORDS + self.tallies + sum(self.patches)

    @property
    def slots(self) -> tuple[int, int, int]:
        """The shape of what is kept of the steps recorded: the SRAM, in whole units of 16 bytes."""
        first, last = self.blocks
        return last - first, self.steps[1] - self.steps[0], -(-self.sram // 4) * 4

    @property
    def bytes(self) -> int:
        """Bytes of all that the launch records."""
        return 4 * (math.prod(self.records) + math.prod(self.slots))


@dataclass(frozen=True)
class RawLaunch:
    """What one traced launch left: its records and slots, how many steps each block took, and HBM before it began."""

    records: Words
    slots: Words
    counts: npt.NDArray[np.int32]  # (blocks,)
    before: Memory


def record_shape(job: Job, launch: int) -> RecordShape:
    """What of a launch, by its number, is recorded, and how large it is."""
    layout, capacity = job.layout.launches[launch], job.kernel.most_steps(job.params, launch)
    window = job.window or Window()
    return RecordShape(
        capacity=capacity,
        blocks=_clipped(window.blocks, math.prod(layout.grid)),
        steps=_clipped(window.steps, capacity),
        tallies=2 * _TALLY_WORDS * len(job.layout.arrays),
        sram=job.shared_bytes(layout) // 4,
        patches=tuple(
            array.tile * array.columns if array.role == "output" else 0 for array in job.layout.arrays
        ),
    )


def _clipped(wanted: tuple[int, int] | None, count: int) -> tuple[int, int]:
    first, last = wanted or (0, count)
    return min(first, count), min(last, count)


def config(
    job: Job, shape: RecordShape, written: Sequence[int], bases: Mapping[str, int]
) -> npt.NDArray[Any]:
    """``kim::Config`` as one structured element.

    `written` are the addresses of the records, the slots, the steps and the fault, `bases` those of the arrays.
    """
    array = np.dtype([("base", "u8"), *((name, "u4") for name in _ARRAY_FIELDS)], align=True)
    pointers = [(name, "u8") for name in ("records", "slots", "steps", "fault")]
    numbers = [(name, "i4") for name in _CONFIG_FIELDS]
    result = np.zeros(
        1, np.dtype([*pointers, *numbers, ("array", array, len(job.layout.arrays))], align=True)
    )
    result[0] = (
        *written,
        *config_numbers(shape),
        [(bases[layout.name], *numbers) for layout, numbers in array_numbers(job, shape)],
    )
    return result


def config_numbers(shape: RecordShape) -> tuple[int, ...]:
    """What stands in ``kim::Config`` between its pointers and its arrays, in order."""
    first_block, last_block = shape.blocks
    sizes = shape.records[-1], shape.slots[-1], shape.sram
    return shape.capacity, first_block, last_block - first_block, *shape.steps, *sizes


def array_numbers(job: Job, shape: RecordShape) -> list[tuple[ArrayLayout, tuple[int, ...]]]:
    """What stands in ``kim::Array`` behind the pointer, in order, for each array."""
    result: list[tuple[ArrayLayout, tuple[int, ...]]] = []
    for layout, patch in zip(job.layout.arrays, shape.patches, strict=True):
        more = (layout.columns - 1).bit_length()
        division = -(-(1 << (31 + more)) // layout.columns), 31 + more
        sizes = math.prod(layout.shape), layout.rows * layout.columns, layout.columns, patch
        result.append((layout, (*sizes, *division)))
    return result


def check_fault(job: Job, fault: npt.NDArray[Any]) -> None:
    """Raises BackendError if the run met a fault, with the array, the element, the block and the step."""
    kind, array, step, block, index = (int(fault[0][name]) for name in FAULT.names or ())
    if not kind:
        return
    where = f"in block {block}, step {step} of the block"
    if kind == 4:
        raise BackendError(f"{job.kernel.name} left more steps than its declaration has, {where}")
    layout = job.layout.arrays[array]
    sentences = {
        1: f"touched {layout.name} at element {index}, outside its {math.prod(layout.shape)} elements, {where}",
        2: f"touched {layout.name} at element {index}, which is another head's than before, {where}",
        5: f"touched {layout.name} after its last SNAPSHOT, where nothing counts, in block {block}",
        3: f"wrote a box of {index} elements of {layout.name}, more than one tile of {layout.tile} rows, {where}",
    }
    raise BackendError(f"{job.kernel.name} {sentences[kind]}")


def check_size(job: Job, limit: int) -> None:
    """Raises ParameterError if what a job records takes more than `limit` bytes, or is nothing at all."""
    shapes = [record_shape(job, launch) for launch in range(len(job.layout.launches))]
    size = sum(shape.bytes for shape in shapes)
    if not any(math.prod(shape.slots) for shape in shapes):
        blocks = max(math.prod(launch.grid) for launch in job.layout.launches)
        steps = max(shape.capacity for shape in shapes)
        raise ParameterError(
            f"the window of {job.window} is empty: there are {blocks} blocks of at most {steps} steps"
        )
    if size > limit:
        raise ParameterError(
            f"a trace of this run takes {size:,} bytes; there is room for {limit:,}: "
            "record a window of it (--blocks 0:1, --steps 0:100), or choose smaller sizes"
        )


def read_steps(job: Job, raw: list[RawLaunch]) -> tuple[Step, ...]:
    """The steps of a run, in the order launch, block, time."""
    steps: list[Step] = []
    for number, launch in enumerate(raw):
        first = record_shape(job, number).blocks[0]
        for block in range(len(launch.counts)):
            steps += _block_steps(job, number, first + block, launch, block, len(steps))
    return tuple(steps)


def counted(job: Job, raw: list[RawLaunch]) -> dict[str, tuple[int, int]]:
    """Elements of each array read and written, over all steps recorded of all launches."""
    end = _HEAD_WORDS + 2 * _TALLY_WORDS * len(job.layout.arrays)
    totals = np.zeros((len(job.layout.arrays), 2), np.int64)
    for launch in raw:
        tallies = launch.records[..., _HEAD_WORDS:end].reshape(-1, len(totals), 2, _TALLY_WORDS)
        totals += tallies[..., 0].sum(axis=0, dtype=np.int64)
    return {
        array.name: (int(reads), int(writes))
        for array, (reads, writes) in zip(job.layout.arrays, totals, strict=True)
    }


def _block_index(layout: LaunchLayout, block: int) -> Block:
    x, y, _ = layout.grid
    return block % x, block // x % y, block // (x * y)


def _tallies(arrays: tuple[ArrayLayout, ...], record: Words) -> list[Tally]:
    words = record.view(np.int32).reshape(len(arrays), 2, _TALLY_WORDS).tolist()
    return [_tally(array, *both) for array, both in zip(arrays, words, strict=True)]


def _tally(array: ArrayLayout, reads: list[int], writes: list[int]) -> Tally:
    def elements(*tallies: list[int]) -> tuple[int, int]:
        return min(_FLIPPED - first for _, first, *_ in tallies), max(tally[2] for tally in tallies) - 1

    def rows(*tallies: list[int]) -> tuple[int, int]:
        first, last = (element // array.columns % array.rows for element in elements(*tallies))
        return first, last + 1

    def columns(*tallies: list[int]) -> tuple[int, int]:
        return min(_FLIPPED - tally[3] for tally in tallies), max(tally[4] for tally in tallies)

    touched = [tally for tally in (reads, writes) if tally[0]]
    if not touched:
        return Tally(0, 0, *[(0, 0)] * 5)
    first, last = (element // (array.rows * array.columns) for element in elements(*touched))
    written = (rows(writes), columns(writes)) if writes[0] else ((0, 0), (0, 0))
    return Tally(reads[0], writes[0], (first, last + 1), rows(*touched), columns(*touched), *written)


def _block_steps(
    job: Job, number: int, block_number: int, launch: RawLaunch, at: int, first_index: int
) -> list[Step]:
    """The steps recorded of one block, which is number `at` of those in the launch's records."""
    layout, arrays = job.layout.launches[number], job.layout.arrays
    shape = record_shape(job, number)
    names, block = step_names(job.kernel), _block_index(layout, block_number)
    records, slots = launch.records[at, : launch.counts[at]], launch.slots[at]
    patches_at = _HEAD_WORDS + shape.tallies
    tallies = [_tallies(arrays, record[_HEAD_WORDS:patches_at]) for record in records]
    start = _windows(job, block, arrays, tallies, launch.before)
    patches: dict[str, tuple[Patch, ...]] = {name: () for name in start}
    valid = {slot.name: (0,) * len(slot.shape) for slot in layout.slots}
    held: dict[str, npt.NDArray[np.float32] | None] = dict.fromkeys(valid)
    steps: list[Step] = []
    for time, (record, tally) in enumerate(zip(records, tallies, strict=True)):
        kind = _kind(job, layout, names[int(record[0]) - 1])
        loop = dict(zip(kind.loops, record[1:_HEAD_WORDS].view(np.int32).tolist(), strict=False))
        traffic = {
            array.name: Traffic(t.reads, t.writes, t.rows, t.columns, t.head[0])
            for array, t in zip(arrays, tally, strict=True)
            if t.reads or t.writes
        }
        recorded = time >= shape.steps[0]
        if recorded:
            held = _slots(layout, slots[time - shape.steps[0]], held)
        valid = _valid(kind, layout, valid, traffic, held if recorded else None)
        patches = _patched(patches, arrays, tally, record[patches_at:], shape.patches)
        if not recorded:
            continue
        steps.append(
            Step(
                index=first_index + len(steps),
                name=kind.name,
                loop=loop,
                block=block,
                launch=number,
                kind=kind,
                sram=held,
                valid=valid,
                hbm=Windows(start, patches),
                traffic=traffic,
            )
        )
    return steps


def _patched(
    patches: dict[str, tuple[Patch, ...]],
    arrays: tuple[ArrayLayout, ...],
    tallies: list[Tally],
    words: Words,
    sizes: tuple[int, ...],
) -> dict[str, tuple[Patch, ...]]:
    """The patches of each array with those that one step wrote behind them."""
    at = 0
    for array, tally, size in zip(arrays, tallies, sizes, strict=True):
        if tally.writes:
            (row, end), (column, column_end) = tally.written_rows, tally.written_columns
            values = words[at : at + (end - row) * (column_end - column)].view(np.float32)
            patch = Patch(row, column, values.reshape(end - row, column_end - column))
            patches = {**patches, array.name: (*patches[array.name], patch)}
        at += size
    return patches


def _kind(job: Job, layout: LaunchLayout, name: str) -> StepLayout:
    try:
        return layout.step(name)
    except KeyError:
        raise BackendError(
            f"{job.kernel.name} left a step {name!r} in {layout.function}, which declares none"
        ) from None


def _windows(
    job: Job, block: Block, arrays: tuple[ArrayLayout, ...], tallies: list[list[Tally]], before: Memory
) -> dict[str, npt.NDArray[np.float32]]:
    """For each output array the block touches, the matrix of its head before the launch."""
    windows = {}
    for n, array in enumerate(arrays):
        heads = {head for step in tallies for head in range(*step[n].head)}
        if len(heads) > 1:
            raise BackendError(
                f"{job.kernel.name} touched {len(heads)} heads of {array.name} in block {block}"
            )
        if heads and array.role == "output":
            matrices = before[array.name].reshape(array.heads, *array.shape[array.lead :])
            windows[array.name] = matrices[heads.pop()]
    return windows


def _slots(
    layout: LaunchLayout, words: Words, previous: Mapping[str, npt.NDArray[np.float32] | None]
) -> dict[str, npt.NDArray[np.float32] | None]:
    """What each slot holds; a slot that kept its bits keeps its array, so that a trace stores it once."""
    held: dict[str, npt.NDArray[np.float32] | None] = {}
    at = 0
    for slot in layout.slots:
        size = math.prod(slot.shape)
        content = words[at : at + size]
        at += size
        last = previous[slot.name]
        if last is not None and np.array_equal(last.view(np.uint32).ravel(), content):
            held[slot.name] = last
        else:
            held[slot.name] = (
                None if (content == POISON).all() else content.view(np.float32).reshape(slot.shape)
            )
    return held


def _valid(
    kind: StepLayout,
    layout: LaunchLayout,
    previous: Mapping[str, tuple[int, ...]],
    traffic: Mapping[str, Traffic],
    held: Mapping[str, npt.NDArray[np.float32] | None] | None,
) -> dict[str, tuple[int, ...]]:
    """How much of each slot is part of the problem: what was loaded into it, or what it was computed from.

    Before the window, where `held` is None, rows that only their content would tell are kept as `_UNKNOWN`.
    """
    valid = dict(previous)
    for action in kind.actions:
        whole = layout.slot(action.slot).shape
        if isinstance(action, Load) and action.array in traffic:
            touched = traffic[action.array]
            extent = tuple(last - first for first, last in (touched.rows, touched.columns))
            valid[action.slot] = extent[: len(whole)]
        elif isinstance(action, Clear | Compute):
            rows = _UNKNOWN if action.rows is None else valid[action.rows][0]
            columns = action.columns if isinstance(action, Compute) else None
            rest = whole[1:] if columns is None else (valid[columns][0],)
            valid[action.slot] = (rows, *rest)[: len(whole)]
    if held is not None:
        for slot, extent in valid.items():
            if extent[0] == _UNKNOWN:
                valid[slot] = (_rows_set(held[slot]), *extent[1:])
    return valid


def _rows_set(content: npt.NDArray[np.float32] | None) -> int:
    if content is None:
        return 0
    written = (content.view(np.uint32) != POISON).reshape(len(content), -1).any(axis=1)
    return int(np.flatnonzero(written).max(initial=-1)) + 1
