"""What a traced launch leaves in memory, word by word, and how a trace is read out of it.

The layout is that of ``instrument.cuh``: ``kim::Config``, ``kim::Tally`` and the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernels.errors import BackendError, ParameterError
from kernels.job import POISON, Job
from kernels.layout import ArrayLayout, Clear, Compute, LaunchLayout, Load, StepLayout
from kernels.source import step_names
from kernels.trace import Block, Patch, Step, Traffic, Windows

Words = npt.NDArray[np.uint32]
Memory = Mapping[str, npt.NDArray[np.float32]]

_HEAD_WORDS = 1 + 4
_FLIPPED = 0x7FFFFFFF
FAULT = np.dtype(
    [("kind", "i4"), ("array", "i4"), ("step", "i4"), ("block", "i4"), ("index", "i8")], align=True
)


class Tally(NamedTuple):
    """``kim::Tally``: what one step did to one array; ranges are first, and one past the last, or zeros."""

    reads: int
    writes: int
    head: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    written_rows: tuple[int, int]
    written_columns: tuple[int, int]


@dataclass(frozen=True)
class RecordShape:
    """Sizes of a launch's records, in words unless said otherwise."""

    blocks: int
    capacity: int  # steps of one block
    tallies: int
    sram: int
    patches: tuple[int, ...]  # for each array

    @property
    def words(self) -> int:
        """Words of one record."""
        return _HEAD_WORDS + self.tallies + self.sram + sum(self.patches)

    @property
    def bytes(self) -> int:
        """Bytes of all records of the launch."""
        return 4 * self.blocks * self.capacity * self.words


@dataclass(frozen=True)
class RawLaunch:
    """What one traced launch left: its records, how many each block wrote, and all of HBM before it began."""

    records: Words  # (blocks, capacity, words)
    counts: npt.NDArray[np.int32]  # (blocks,)
    before: Memory


def record_shape(job: Job, launch: LaunchLayout) -> RecordShape:
    """How large the records of a launch are."""
    turns = {loop.name: loop.turns for loop in launch.loops}
    return RecordShape(
        blocks=math.prod(launch.grid),
        capacity=sum(math.prod(turns[name] for name in step.loops) for step in launch.steps),
        tallies=12 * len(job.layout.arrays),
        sram=job.shared_bytes(launch) // 4,
        patches=tuple(
            array.tile * array.columns if array.role == "output" else 0 for array in job.layout.arrays
        ),
    )


def config(
    job: Job, shape: RecordShape, records: int, steps: int, fault: int, bases: Mapping[str, int]
) -> npt.NDArray[Any]:
    """``kim::Config`` as one structured element, from the addresses of what it points to."""
    array = np.dtype(
        [("base", "u8"), ("size", "i4"), ("per_head", "i4"), ("columns", "i4"), ("patch", "i4")], align=True
    )
    fields = [("records", "u8"), ("steps", "u8"), ("fault", "u8")]
    fields += [(name, "i4") for name in ("capacity", "record_words", "sram_words", "arrays")]
    result = np.zeros(1, np.dtype([*fields, ("array", array, len(job.layout.arrays))], align=True))
    result["records"], result["steps"], result["fault"] = records, steps, fault
    result["capacity"], result["record_words"], result["sram_words"] = shape.capacity, shape.words, shape.sram
    result["arrays"] = len(job.layout.arrays)
    for n, (layout, patch) in enumerate(zip(job.layout.arrays, shape.patches, strict=True)):
        size = math.prod(layout.shape)
        result["array"][0, n] = bases[layout.name], size, layout.rows * layout.columns, layout.columns, patch
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
        3: f"wrote a box of {index} elements of {layout.name}, more than one tile of {layout.tile} rows, {where}",
    }
    raise BackendError(f"{job.kernel.name} {sentences[kind]}")


def check_size(job: Job, limit: int) -> None:
    """Raises ParameterError if the records of a job take more than `limit` bytes."""
    size = sum(record_shape(job, launch).bytes for launch in job.layout.launches)
    if size > limit:
        raise ParameterError(
            f"a trace of this run takes {size:,} bytes; at most {limit:,} are recorded: choose smaller sizes"
        )


def read_steps(job: Job, raw: list[RawLaunch]) -> tuple[Step, ...]:
    """The steps of a run, in the order launch, block, time."""
    steps: list[Step] = []
    for number, launch in enumerate(raw):
        layout = job.layout.launches[number]
        for block in range(math.prod(layout.grid)):
            records = launch.records[block, : launch.counts[block]]
            steps += _block_steps(
                job, number, _block_index(layout, block), records, launch.before, len(steps)
            )
    return tuple(steps)


def _block_index(layout: LaunchLayout, block: int) -> Block:
    x, y, _ = layout.grid
    return block % x, block // x % y, block // (x * y)


def _tallies(record: Words) -> list[Tally]:
    words = record.view(np.int32).reshape(-1, 12).tolist()

    def span(first: int, last: int) -> tuple[int, int]:
        return (_FLIPPED - first, last) if last else (0, 0)

    return [
        Tally(w[0], w[1], span(w[2], w[3]), span(*w[4:6]), span(*w[6:8]), span(*w[8:10]), span(*w[10:12]))
        for w in words
    ]


def _block_steps(
    job: Job, number: int, block: Block, records: Words, before: Memory, first_index: int
) -> list[Step]:
    layout, arrays = job.layout.launches[number], job.layout.arrays
    shape = record_shape(job, layout)
    names = step_names(job.kernel)
    sram_at = _HEAD_WORDS + shape.tallies
    tallies = [_tallies(record[_HEAD_WORDS:sram_at]) for record in records]
    start = _windows(job, block, arrays, tallies, before)
    patches: dict[str, tuple[Patch, ...]] = {name: () for name in start}
    valid = {slot.name: (0,) * len(slot.shape) for slot in layout.slots}
    held: dict[str, npt.NDArray[np.float32] | None] = dict.fromkeys(valid)
    steps: list[Step] = []
    for record, tally in zip(records, tallies, strict=True):
        kind = _kind(job, layout, names[int(record[0]) - 1])
        loop = dict(zip(kind.loops, record[1:_HEAD_WORDS].view(np.int32).tolist(), strict=False))
        traffic = {
            array.name: Traffic(t.reads, t.writes, t.rows, t.columns, t.head[0])
            for array, t in zip(arrays, tally, strict=True)
            if t.reads or t.writes
        }
        held = _slots(layout, record[sram_at : sram_at + shape.sram], held)
        valid = _valid(kind, layout, valid, traffic, held)
        at = sram_at + shape.sram
        for array, t, words in zip(arrays, tally, shape.patches, strict=True):
            if t.writes:
                rows, columns = (last - first for first, last in (t.written_rows, t.written_columns))
                values = record[at : at + rows * columns].view(np.float32).reshape(rows, columns)
                patch = Patch(t.written_rows[0], t.written_columns[0], values)
                patches = {**patches, array.name: (*patches[array.name], patch)}
            at += words
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
    held: Mapping[str, npt.NDArray[np.float32] | None],
) -> dict[str, tuple[int, ...]]:
    """How much of each slot is part of the problem: what was loaded into it, or what it was computed from."""
    valid = dict(previous)
    for action in kind.actions:
        whole = layout.slot(action.slot).shape
        if isinstance(action, Load) and action.array in traffic:
            touched = traffic[action.array]
            extent = tuple(last - first for first, last in (touched.rows, touched.columns))
            valid[action.slot] = extent[: len(whole)]
        elif isinstance(action, Clear | Compute):
            rows = _rows_set(held[action.slot]) if action.rows is None else valid[action.rows][0]
            columns = action.columns if isinstance(action, Compute) else None
            rest = whole[1:] if columns is None else (valid[columns][0],)
            valid[action.slot] = (rows, *rest)[: len(whole)]
    return valid


def _rows_set(content: npt.NDArray[np.float32] | None) -> int:
    if content is None:
        return 0
    written = (content.view(np.uint32) != POISON).reshape(len(content), -1).any(axis=1)
    return int(np.flatnonzero(written).max(initial=-1)) + 1
