"""From what listened to a run to its trace: rows become accesses to the cells of places, in steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.errors import BackendError, ParameterError
from kernels.listen.log import Fault, Kind, LaunchLog, Space
from kernels.trace import model
from kernels.trace.cells import Cells, split, together, written_bytes
from kernels.trace.declared import holds_of
from kernels.trace.ends import Ends, ends_of, thread_of
from kernels.trace.model import ACCESS, SCOPE, Array, Dim3, Place, StepRecord, Trace, dtype_of
from kernels.trace.outside import outside
from kernels.trace.rows import rows_of
from kernels.trace.shown import Shown
from kernels.trace.version2 import Provenance, Window

if TYPE_CHECKING:
    from kernels.launch.request import Launch, Request

_LOOSE = "shared memory"


def assemble(
    request: Request, logs: tuple[LaunchLog, ...], outputs: Mapping[str, Array], provenance: Provenance
) -> Trace:
    """The trace of a run.

    `logs` is what each launch of `request` left, `outputs` what every array held afterwards.

    Raises
    ------
    BackendError
        If an access lies outside every array, or threads of a block end a step under different names.
    ParameterError
        If the window of the request has no step.
    """
    source = request.source.name
    before = {name: _kept(array) for name, array in request.arrays.items()}
    places = [
        Place(name, "HBM", array.dtype.name, array.shape, held=False, launch=None, line=0)
        for name, array in before.items()
    ]
    parts: list[_Part] = []
    later: list[dict[str, Array]] = []
    now = dict(before)
    records = rows = 0
    for number, (launch, log) in enumerate(zip(request.launches, logs, strict=True)):
        if number:
            then = {**now, **(log.before or _after(parts[-1], places, now, request, number - 1))}
            later.append({name: _kept(then[name]) for name in now if not _same(then[name], now[name])})
            now |= later[-1]
        for fault in log.faults:
            raise outside(fault, before, log.arrays, source)
        parts.append(_Launch(request, number, launch, log, places, now).part(records, rows))
        places = parts[-1].places
        records += len(parts[-1].records)
        rows += len(parts[-1].accesses)
    if len(places) >= 2**16:
        raise BackendError(f"{source} holds {len(places):,} variables; a trace has room for {2**16 - 1:,}")
    if not records and (request.steps or request.blocks):
        window = Window(request.blocks, request.steps)
        raise ParameterError(f"no step of {source} lies in the window of {window}: give one that has steps")
    accesses = np.concatenate([part.accesses for part in parts]) if len(parts) != 1 else parts[0].accesses
    wrote = {places[n].name for n in np.unique(accesses["place"][accesses["write"] > 0]).tolist()}
    wrote |= {name for name in before if not _same(outputs[name], before[name])}
    return Trace(
        name=request.launches[0].kernel.split("<")[0],
        source_name=source,
        source_text=request.source.text,
        launches=tuple(_launch(launch, before) for launch in request.launches),
        places=tuple(places),
        before=before,
        later=tuple(later),
        outputs={name: _kept(outputs[name]) for name in before if name in wrote},
        sites=tuple(log.sites for log in logs),
        accesses=_frozen(accesses),
        values=_frozen(np.concatenate([part.values for part in parts])),
        scopes=_frozen(np.concatenate([part.scopes for part in parts])),
        records=tuple(record for part in parts for record in part.records),
        provenance=provenance,
        window=Window(request.blocks, request.steps) if request.blocks or request.steps else None,
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """What one launch adds to a trace; `places` are all so far."""

    places: list[Place]
    accesses: Array
    values: Array
    scopes: Array
    records: list[StepRecord]


class _Launch:
    """One launch on its way from a log to a part of a trace."""

    def __init__(
        self,
        request: Request,
        number: int,
        launch: Launch,
        log: LaunchLog,
        places: Sequence[Place],
        before: Mapping[str, Array],
    ) -> None:
        self._source = request.source.name
        self._window = request.steps or (0, 2**62)
        self._number, self._launch, self._log, self._before = number, launch, log, before
        self._rows = rows_of(log, launch.block)
        self._ends: Ends = ends_of(self._rows, log, launch.block, self._source)
        names = frozenset(place.name for place in places if place.launch is None)
        self._shared = len(places)
        holds, mine = holds_of(self._rows, log, number, launch.block, names)
        self._shown = Shown(self._rows, holds)
        self._places = [*places, *mine]

    def part(self, records: int, rows: int) -> _Part:
        """What the launch adds after so many records and rows."""
        cells = self._cells()
        step = self._ends.step[cells.row]
        block = self._rows.block[cells.row]
        begin, end = self._window
        counts = self._ends.counts.copy()
        is_end = step >= counts[block]
        counts += np.bincount(block[is_end], minlength=len(counts)) > 0
        kept = np.clip(np.minimum(counts, end) - begin, 0, None)
        first = np.concatenate(([0], np.cumsum(kept)))
        kind = self._rows.rows["kind"][cells.row]
        stays = (kept[block] > 0) & (step < end) & ((step >= begin) | (kind != Kind.READ))
        if not stays.all():
            cells, step, block, kind = cells[stays], step[stays], block[stays], kind[stays]
        key = (first[block] + np.maximum(step, begin) - begin) * 2 + (step >= begin)
        if np.any(key[1:] < key[:-1]):
            order = np.argsort(key, kind="stable")
            cells, key, kind = cells[order], key[order], kind[order]
        accesses = self._accesses(cells, kind)
        wrote = np.flatnonzero(accesses["write"])
        values = written_bytes(self._rows, cells[wrote], self._places, self._before)
        return _Part(
            self._places,
            accesses,
            values * np.repeat(_stands(accesses[wrote], key[wrote]), self._sizes(accesses[wrote]["place"])),
            self._scopes(first, kept, records),
            self._records(kept, key, accesses, rows),
        )

    def _sizes(self, place: Array) -> Array:
        items = np.array([dtype_of(p.dtype).itemsize for p in self._places] or [1], np.int64)
        return items[place]

    def _cells(self) -> Cells:
        """All accesses, each to one cell of one place."""
        space = self._rows.rows["space"]
        access = self._rows.of_kind(Kind.READ, Kind.WRITE, Kind.ATOMIC)
        parts = [
            self._of_arrays(np.flatnonzero(access & (space == Space.HBM))),
            self._of_variables(np.flatnonzero(access & (space == Space.REGISTERS)), registers=True),
            self._of_variables(np.flatnonzero(access & (space == Space.SRAM)), registers=False),
        ]
        return together(parts)

    def _of_arrays(self, row: Array) -> Cells:
        named = {
            place.name: n for n, place in enumerate(self._places[: self._shared]) if place.memory == "HBM"
        }
        at = sorted((begin, size, named[name]) for name, (begin, size) in self._log.arrays.items() if size)
        begins, sizes, places = np.array(at or [(2**62, 0, 0)], np.int64).T
        address = self._rows.rows["address"][row].astype(np.int64)
        size = self._rows.rows["size"][row].astype(np.int64)
        which = np.maximum(np.searchsorted(begins, address, "right") - 1, 0)
        offset = address - begins[which]
        missed = np.flatnonzero((offset < 0) | (offset + size > sizes[which]))
        if len(missed):
            raise self._outside(int(row[missed[0]]))
        return self._split(row, places[which], offset, size, np.zeros_like(offset))

    def _of_variables(self, row: Array, *, registers: bool) -> Cells:
        piece = self._shown.find(row, registers=registers)
        skipped = piece.address - self._rows.rows["address"][piece.row].astype(np.int64)
        inside = np.flatnonzero(piece.variable >= 0)
        variable = piece.variable[inside]
        place = self._shared + self._shown.place[variable]
        found = self._split(
            piece.row[inside],
            place,
            piece.address[inside] - self._shown.address[variable],
            piece.size[inside],
            skipped[inside],
        )
        if registers:
            each = np.array([math.prod(p.shape) // self._rows.threads for p in self._places], np.int64)
            own = self._rows.rows["thread"][found.row].astype(np.int64) * each[found.place]
            return Cells(found.row, found.place, found.cell + own, found.source, found.begin, found.end)
        loose = np.flatnonzero(piece.variable < 0)
        if not len(loose):
            return found
        return together(
            [found, self._loose(piece.row[loose], piece.address[loose], piece.size[loose], skipped[loose])]
        )

    def _loose(self, row: Array, address: Array, size: Array, skipped: Array) -> Cells:
        """Accesses to SRAM in no known variable: bytes, counted from the lowest address of the block that is seen."""
        seen = np.flatnonzero((self._rows.rows["space"] == Space.SRAM) & (self._rows.rows["size"] > 0))
        base = np.full(len(self._rows.blocks), 2**62, np.int64)
        np.minimum.at(base, self._rows.block[seen], self._rows.rows["address"][seen].astype(np.int64))
        offset = address - base[self._rows.block[row]]
        mine = self._places[self._shared :]
        name = _LOOSE if all(p.name != _LOOSE for p in self._places) else f"{_LOOSE} of launch {self._number}"
        shape = (int((offset + size).max()),)
        self._places.append(
            Place(
                name, "SRAM", "uint8", shape, held=not any(p.held for p in mine), launch=self._number, line=0
            )
        )
        return self._split(row, np.full(len(row), len(self._places) - 1), offset, size, skipped)

    def _split(self, row: Array, place: Array, offset: Array, size: Array, skipped: Array) -> Cells:
        return split(self._rows, row, place, offset, size, skipped, self._sizes(place))

    def _outside(self, row: int) -> BackendError:
        one = self._rows.rows[row]
        fault = Fault(
            address=int(one["address"]),
            size=int(one["size"]),
            line=self._log.sites[one["site"]].line,
            block=self._rows.blocks[self._rows.block[row]],
            thread=thread_of(int(one["thread"]), self._launch.block),
            writes=one["kind"] != Kind.READ,
        )
        return outside(fault, self._before, self._log.arrays, self._source)

    def _accesses(self, cells: Cells, kind: Array) -> Array:
        accesses = np.empty(len(cells.row), ACCESS)
        accesses["cell"] = cells.cell
        accesses["place"] = cells.place
        accesses["order"] = self._rows.order[cells.row]
        accesses["write"] = kind  # READ, WRITE and ATOMIC are 0, 1 and 2
        for name in ("site", "request", "thread"):
            accesses[name] = self._rows.rows[name][cells.row]
        for name, barrier in (("epoch", Kind.BARRIER), ("warp_epoch", Kind.WARP_BARRIER)):
            accesses[name] = self._rows.passed(self._rows.of_kind(barrier))[cells.row]
        return accesses

    def _scopes(self, first: Array, kept: Array, records: int) -> Array:
        row, since, place = self._shown.turns.T
        block = self._rows.block[row]
        begin, end = self._window
        stays = (kept[block] > 0) & (self._ends.step[row] < end)
        row, since, place, block = row[stays], since[stays], place[stays], block[stays]
        step = np.minimum(np.maximum(self._ends.step[row] - begin, 0), kept[block] - 1)
        scopes = np.empty(len(row), SCOPE)
        scopes["record"] = records + first[block] + step
        scopes["order"] = since - self._rows.starts[block]
        scopes["place"] = self._shared + place
        scopes["thread"] = self._rows.rows["thread"][row]
        return np.sort(scopes, order=["record", "order", "thread", "place"])

    def _records(self, kept: Array, key: Array, accesses: Array, rows: int) -> list[StepRecord]:
        number = np.arange(int(kept.sum())) * 2 + 1
        begins = np.searchsorted(key, number).tolist()
        ends = np.searchsorted(key, number + 1).tolist()
        said = np.concatenate(([0], np.cumsum(self._ends.counts))).tolist()
        lines = np.array([site.line for site in self._log.sites] or [0])
        records: list[StepRecord] = []
        for n, (block, count) in enumerate(zip(self._rows.blocks, kept.tolist(), strict=True)):
            for step in range(self._window[0], self._window[0] + count):
                begin, end = begins[len(records)], ends[len(records)]
                if said[n] + step < said[n + 1]:
                    name, loop, line = self._ends.names[said[n] + step]
                else:
                    touched = lines[accesses["site"][begin:end]]
                    name, loop, line = "end", {}, int(touched[touched > 0][-1]) if touched.any() else 0
                records.append(StepRecord(name, loop, line, self._number, block, (rows + begin, rows + end)))
        return records


def _stands(writes: Array, step: Array) -> Array:
    """Which writes their own thread did not overwrite in the same step: of the others no value is kept.

    What a step leaves behind is what it wrote last, and partial sums would be most of a trace. What several lanes wrote
    to a cell in one instruction is kept, for it may not be one value.
    """
    order = np.lexsort((writes["order"], writes["thread"], writes["cell"], writes["place"], step))
    one, after = writes[order[:-1]], writes[order[1:]]
    again = step[order[:-1]] == step[order[1:]]
    for name in ("place", "cell", "thread"):
        again &= one[name] == after[name]
    stands = np.ones(len(writes), np.uint8)
    stands[order[:-1][again]] = 0
    order = np.lexsort((writes["request"], writes["cell"], writes["place"], step))
    one, after = writes[order[:-1]], writes[order[1:]]
    shared = step[order[:-1]] == step[order[1:]]
    for name in ("place", "cell", "request"):
        shared &= one[name] == after[name]
    stands[order[:-1][shared]] = stands[order[1:][shared]] = 1
    return stands


def _after(
    part: _Part, places: Sequence[Place], before: Mapping[str, Array], request: Request, number: int
) -> dict[str, Array]:
    """What the arrays held after a launch: if all its blocks were recorded, its writes replayed; else as before it."""
    blocks = len({record.block for record in part.records})
    if request.blocks or request.steps or blocks == 0:
        return {}
    after = {}
    wrote = np.flatnonzero(part.accesses["write"])
    rows = part.accesses[wrote]
    sizes = np.array([dtype_of(place.dtype).itemsize for place in places], np.int64)[rows["place"]]
    starts = np.cumsum(sizes) - sizes
    block = np.searchsorted(_block_ends(part.records), wrote + (part.records[0].rows[0]), "right")
    for n, place in enumerate(places):
        mine = np.flatnonzero(rows["place"] == n)
        if place.memory != "HBM" or not len(mine):
            continue
        mine = mine[np.lexsort((rows["order"][mine], block[mine]))]
        array = before[place.name].copy()
        size = array.dtype.itemsize
        array.reshape(-1).view(np.uint8).reshape(-1, size)[rows["cell"][mine].astype(np.int64)] = part.values[
            starts[mine][:, None] + np.arange(size)
        ]
        after[place.name] = array
    return after


def _block_ends(records: Sequence[StepRecord]) -> list[int]:
    ends: dict[Dim3, int] = {}
    for record in records:
        ends[record.block] = record.rows[1]
    return list(ends.values())


def _launch(launch: Launch, arrays: Mapping[str, Array]) -> model.Launch:
    arguments = []
    for one in launch.arguments:
        if one.value is None:
            array = arrays[one.name]
            arguments.append(model.Argument(one.name, array.dtype.name, array.shape, None, one.origin))
        else:
            arguments.append(model.Argument(one.name, one.value.dtype.name, (), one.value.item(), one.origin))
    return model.Launch(launch.kernel, launch.grid, launch.block, launch.shared_bytes, tuple(arguments))


def _same(one: Array, other: Array) -> bool:
    """Whether two arrays of one dtype and shape have the same bytes."""
    return one is other or one.tobytes() == other.tobytes()


def _kept(array: Array) -> Array:
    return _frozen(np.array(array, order="C"))


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
