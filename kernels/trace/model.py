"""A trace of any kernel (version 3): the source that ran, its arguments, and every access of every step.

What a slot held, which cells were written, the traffic: all of it is replayed from the accesses, which are what was
seen. Nothing here is declared by anyone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from kernels.listen.log import Site
from kernels.trace.replay import Reel
from kernels.trace.version2 import Provenance, Window

Array = npt.NDArray[Any]
Dim3 = tuple[int, int, int]

# One access of one thread to one cell of one place. `cell` is the flat index (C order) into Place.shape. An access of a
# wide type (a float4, a half2) is one row for each cell, with the same `request`; so are the read and the write of an
# asynchronous copy. `write` is 0 for a read, 1 for a
# write, 2 for an atomic, which does both. `epoch` counts the barriers of the block that the thread has passed in its
# launch, `warp_epoch` those of its warp. `order` is where the row stood in its block's log: threads that run ahead of
# others do acts of a later step before acts of an earlier one.
ACCESS = np.dtype(
    [
        ("cell", "u8"),
        ("site", "u4"),
        ("request", "u4"),
        ("epoch", "u4"),
        ("warp_epoch", "u4"),
        ("order", "u4"),
        ("place", "u2"),
        ("thread", "u2"),
        ("write", "u1"),
    ]
)
# Before `order` in the log of the block of the record number `record`, a thread's variable in registers came into being
# anew: what it held there before is no longer known.
SCOPE = np.dtype([("record", "u4"), ("order", "u4"), ("place", "u2"), ("thread", "u2")])


@dataclass(frozen=True)
class Argument:
    """An argument of a launch: an array (`value` None; its dtype and shape) or a scalar.

    `origin` says where it came from.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: int | float | bool | None
    origin: str


@dataclass(frozen=True)
class Launch:
    """One launch: `kernel` a name expression such as ``gemm<16>``; `parameters` names of arguments, in order."""

    kernel: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Place:
    """Something with cells: an array in HBM, or a variable of a kernel in SRAM or in the threads' registers.

    Of registers, `shape` is the block's threads (z, y, x, leading ones left out) followed by the variable's own
    extents: one value a thread. `held` says whether a HOLD (or, without any, `__shared__`) shows it. `line` is that of
    its HOLD or declaration, 0 for an array. `launch` is None for an array, which all launches share.
    """

    name: str
    memory: Literal["HBM", "SRAM", "registers"]
    dtype: str
    shape: tuple[int, ...]
    held: bool
    launch: int | None
    line: int


@dataclass(frozen=True)
class StepRecord:
    """A step as it was logged. `rows` is the half-open range of Trace.accesses that it did.

    `name` is that of its SNAPSHOT, or ``line 14`` for a step that a barrier ended, or ``end`` for what came after the
    last of them.
    """

    name: str
    loop: Mapping[str, int]
    line: int
    launch: int
    block: Dim3
    rows: tuple[int, int]


Sites = tuple[tuple[Site, ...], ...]  # of each launch


def shape_of_registers(block: Dim3, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a block's threads hold together: (z, y, x) without leading ones, then `extents`."""
    threads = tuple(int(n) for n in block[::-1])
    while len(threads) > 1 and threads[0] == 1:
        threads = threads[1:]
    return threads + extents


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype called `name`, ``bfloat16`` among them."""
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def box_of(cells: Array, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """The half-open range of each axis of `shape` that the flat indices `cells` touch; None if there are none."""
    if not len(cells):
        return None
    axes = np.unravel_index(np.asarray(cells, np.int64), shape) if shape else ()
    return tuple((int(axis.min()), int(axis.max()) + 1) for axis in axes)


@dataclass(frozen=True, eq=False)
class Content:
    """What a slot holds: `values` in the place's shape and dtype, and which of them are `known` (zero where not)."""

    values: Array
    known: Array


@dataclass(frozen=True)
class Traffic:
    """Elements of one array that crossed HBM in one step, each as often as it was read or written; an atomic does both.

    The boxes are the half-open range of each axis that was touched, None if nothing was.
    """

    reads: int
    writes: int
    bytes_read: int
    bytes_written: int
    box_read: tuple[tuple[int, int], ...] | None
    box_written: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class TotalTraffic:
    """Elements and bytes of one array that crossed HBM in all steps of a trace.

    A transfer is one array moved in one direction in one step of one block.
    """

    reads: int
    writes: int
    bytes_read: int
    bytes_written: int
    transfers: int


_T = TypeVar("_T")


class _Lazy(Mapping[str, _T]):
    """Values by name, each made when it is asked for."""

    def __init__(self, numbers: Mapping[str, int], make: Callable[[int], _T]) -> None:
        self._numbers = numbers
        self._make = make

    def __getitem__(self, name: str) -> _T:
        return self._make(self._numbers[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"<{', '.join(self._numbers)}>"


@dataclass(frozen=True, eq=False)
class Step:
    """One step of one block: what its SNAPSHOT said, and what the accesses of it did.

    `index` counts the steps of the trace. Each mapping below makes its arrays, read-only, when they are asked for.
    """

    index: int
    name: str
    loop: Mapping[str, int]
    line: int
    block: Dim3
    launch: int
    trace: Trace = field(repr=False)

    @property
    def accesses(self) -> Array:
        """The rows (ACCESS) of this step."""
        begin, end = self.trace.records[self.index].rows
        return self.trace.accesses[begin:end]

    @property
    def slots(self) -> Mapping[str, Content | None]:
        """What each held place holds after this step; None while none of its cells is known."""
        numbers = self.trace.numbers(self.launch)
        return _Lazy({p.name: numbers[p.name] for p in self.trace.held_in(self.launch)}, self._content)

    @property
    def hbm(self) -> Mapping[str, Array]:
        """Each array of the launch as it was before the launch, with this block's own writes so far."""
        arrays = {argument.name for argument in self.trace.launches[self.launch].arguments}
        return _Lazy(
            {p.name: i for i, p in enumerate(self.trace.places) if p.memory == "HBM" and p.name in arrays},
            self._window,
        )

    @property
    def written(self) -> Mapping[str, Array]:
        """Of each place, which cells were written in this step."""
        return _Lazy(self.trace.numbers(self.launch), lambda number: self._touched(number, write=True))

    @property
    def read(self) -> Mapping[str, Array]:
        """Of each place, which cells were read in this step."""
        return _Lazy(self.trace.numbers(self.launch), lambda number: self._touched(number, write=False))

    @cached_property
    def traffic(self) -> Mapping[str, Traffic]:
        """What crossed HBM in this step, of each array touched."""
        rows = self.accesses
        result = {}
        for number, place in enumerate(self.trace.places):
            if place.memory != "HBM":
                continue
            mine = rows[rows["place"] == number]
            if not len(mine):
                continue
            read, written = mine["cell"][mine["write"] != 1], mine["cell"][mine["write"] > 0]
            size = dtype_of(place.dtype).itemsize
            result[place.name] = Traffic(
                reads=len(read),
                writes=len(written),
                bytes_read=size * len(read),
                bytes_written=size * len(written),
                box_read=box_of(read, place.shape),
                box_written=box_of(written, place.shape),
            )
        return result

    def content(self, place: str) -> Content | None:
        """What the place called `place`, in SRAM or registers, holds after this step, held or not.

        KeyError if the launch has no such place.
        """
        return self._content(self.trace.numbers(self.launch)[place])

    def _content(self, number: int) -> Content | None:
        place = self.trace.places[number]
        cells, values, known = self.trace.reel(self.index, number).at(self.index)
        if not known.any():
            return None
        content = np.zeros((math.prod(place.shape), values.shape[1]), np.uint8)
        content[cells[known]] = values[known]
        is_known = np.zeros(math.prod(place.shape), np.bool_)
        is_known[cells[known]] = True
        return Content(
            _frozen(content.view(dtype_of(place.dtype)).reshape(place.shape)),
            _frozen(is_known.reshape(place.shape)),
        )

    def _window(self, number: int) -> Array:
        place = self.trace.places[number]
        window = self.trace.before_launch(self.launch)[place.name].copy()
        cells, values, _ = self.trace.reel(self.index, number).at(self.index)
        window.reshape(-1).view(np.uint8).reshape(-1, window.dtype.itemsize)[cells] = values
        return _frozen(window)

    def _touched(self, number: int, *, write: bool) -> Array:
        rows = self.accesses
        did = (rows["write"] > 0) if write else (rows["write"] != 1)
        shape = self.trace.places[number].shape
        touched = np.zeros(math.prod(shape), np.bool_)
        touched[rows["cell"][did & (rows["place"] == number)].astype(np.int64)] = True
        return _frozen(touched.reshape(shape))


@dataclass(frozen=True, eq=False)
class Trace:
    """One run of one or more launches of plain kernels, step by step.

    `name` is the function of the first launch. `before` and `outputs` are whole arrays in their own dtype and shape:
    every array before the first launch, and each that a kernel wrote after the last. `later` has, for each launch after
    the first, the arrays that were not as before the launch before it. `accesses` (ACCESS) are in the order launch,
    block, step, log; with a window, the writes before a block's first step stand before its rows. `values` (uint8) are
    the bytes of each cell written, in the order of those rows whose `write` is not 0: zeros for a value that the same
    thread overwrote in the same step, unless another lane wrote there in the same instruction. Of `scopes` (SCOPE) see
    there. Blocks of a GPU run side by side, so between blocks there is no other order. With a `window` the steps are
    those of its blocks and steps alone, and so is the traffic.
    """

    name: str
    source_name: str
    source_text: str
    launches: tuple[Launch, ...]
    places: tuple[Place, ...]
    before: Mapping[str, Array]
    later: tuple[Mapping[str, Array], ...]
    outputs: Mapping[str, Array]
    sites: Sites
    accesses: Array
    values: Array
    scopes: Array
    records: tuple[StepRecord, ...]
    provenance: Provenance
    window: Window | None = None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in the order launch, block (x fastest), time."""
        return tuple(
            Step(index, r.name, r.loop, r.line, r.block, r.launch, self)
            for index, r in enumerate(self.records)
        )

    @cached_property
    def blocks(self) -> tuple[tuple[int, Dim3], ...]:
        """Each (launch, block) that left steps, in order."""
        return tuple(dict.fromkeys((record.launch, record.block) for record in self.records))

    def steps_of(self, block: Dim3, launch: int = 0) -> tuple[Step, ...]:
        """The steps of one block of one launch, in time order; empty if it left none."""
        return tuple(step for step in self.steps if step.block == block and step.launch == launch)

    @cached_property
    def inputs(self) -> Mapping[str, Array]:
        """Of the arrays before the first launch, those that are not only written."""
        read = set(np.unique(self.accesses["place"][self.accesses["write"] != 1]).tolist())
        reads = {self.places[number].name for number in read if self.places[number].memory == "HBM"}
        return {
            name: array for name, array in self.before.items() if name in reads or name not in self.outputs
        }

    @cached_property
    def held(self) -> tuple[Place, ...]:
        """The places that are shown, of all launches."""
        return tuple(place for place in self.places if place.held)

    def held_in(self, launch: int) -> tuple[Place, ...]:
        """The places that are shown, of one launch."""
        return tuple(place for place in self.held if place.launch == launch)

    def numbers(self, launch: int = 0) -> Mapping[str, int]:
        """Of each place that the launch number `launch` can touch, by name, its index into `places`."""
        return self._numbers[launch]

    def place(self, name: str, launch: int = 0) -> Place:
        """The place called `name` in a launch; KeyError if there is none."""
        return self.places[self._numbers[launch][name]]

    def before_launch(self, launch: int) -> Mapping[str, Array]:
        """What each array held before a launch (with a window, as far as is known)."""
        arrays = dict(self.before)
        for changed in self.later[:launch]:
            arrays |= changed
        return arrays

    @cached_property
    def traffic(self) -> Mapping[str, TotalTraffic]:
        """The sums over all steps, for each array in HBM."""
        rows = self.accesses
        counts = np.zeros((len(self.places), 2), np.int64)
        transfers = np.zeros((len(self.places), 2), np.int64)
        for record in self.records:
            part = rows[slice(*record.rows)]
            for way, did in enumerate((part["write"] != 1, part["write"] > 0)):
                count = np.bincount(part["place"][did], minlength=len(self.places))
                counts[:, way] += count
                transfers[:, way] += count > 0
        result = {}
        for place, (reads, writes), moved in zip(
            self.places, counts.tolist(), transfers.sum(1).tolist(), strict=True
        ):
            if place.memory == "HBM":
                size = dtype_of(place.dtype).itemsize
                result[place.name] = TotalTraffic(reads, writes, size * reads, size * writes, moved)
        return result

    def save(self, path: str | Path) -> None:
        """Write the trace to `path`, wholly or not at all; TraceError if the file cannot be written."""
        from kernels.trace.file import save

        save(self, Path(path))

    @cached_property
    def value_starts(self) -> Array:
        """Where in `values` the bytes of each row of `writes` begin, and where they all end."""
        sizes = np.array([dtype_of(place.dtype).itemsize for place in self.places] or [0], np.int64)
        return np.concatenate(([0], np.cumsum(sizes[self.accesses["place"][self.writes]])))

    @cached_property
    def writes(self) -> Array:
        """The indices of the rows of `accesses` whose `write` is not 0."""
        return np.flatnonzero(self.accesses["write"])

    def reel(self, step: int, place: int) -> Reel:
        """What the place number `place` holds in the block of the step number `step`, step after step."""
        first, end = self._ranges[step]
        if (first, place) not in self._reels:
            while len(self._reels) >= _MOST_REELS:
                del self._reels[next(iter(self._reels))]
            self._reels[first, place] = self._reel(first, end, place)
        return self._reels[first, place]

    def _reel(self, first: int, end: int, number: int) -> Reel:
        place = self.places[number]
        begin = self.records[first - 1].rows[1] if first else 0
        ends = [self.records[i].rows[1] for i in range(first, end)]
        low, high = np.searchsorted(self.writes, (begin, ends[-1]))
        mine = low + np.flatnonzero(self.accesses["place"][self.writes[low:high]] == number)
        rows = self.writes[mine]
        size = dtype_of(place.dtype).itemsize
        scopes = self.scopes
        scopes = scopes[(scopes["place"] == number) & (scopes["record"] >= first) & (scopes["record"] < end)]
        threads = math.prod(self.launches[self.records[first].launch].block)
        return Reel(
            cells=self.accesses["cell"][rows].astype(np.int64),
            orders=self.accesses["order"][rows].astype(np.int64),
            values=self.values[self.value_starts[mine][:, None] + np.arange(size)],
            ends=np.searchsorted(rows, ends),
            first=first,
            scopes=scopes,
            cells_of_thread=math.prod(place.shape) // threads if place.memory == "registers" else None,
        )

    @cached_property
    def _reels(self) -> dict[tuple[int, int], Reel]:
        return {}

    @cached_property
    def _ranges(self) -> tuple[tuple[int, int], ...]:
        """Of each step, the half-open range of the steps of its block."""
        ranges: list[tuple[int, int]] = []
        begin = 0
        for index, record in enumerate(self.records):
            after = self.records[index + 1] if index + 1 < len(self.records) else None
            if after is None or (after.launch, after.block) != (record.launch, record.block):
                ranges += [(begin, index + 1)] * (index + 1 - begin)
                begin = index + 1
        return tuple(ranges)

    @cached_property
    def _numbers(self) -> tuple[Mapping[str, int], ...]:
        return tuple(
            {p.name: i for i, p in enumerate(self.places) if p.launch is None or p.launch == launch}
            for launch in range(len(self.launches))
        )


_MOST_REELS = 256


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
