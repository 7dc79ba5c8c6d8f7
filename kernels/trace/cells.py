"""Accesses of any width as accesses to single cells, and the bytes that each cell written then held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from kernels.trace.model import Array, Place, dtype_of
from kernels.trace.rows import Rows, at, number


@dataclass(frozen=True, eq=False)
class Cells:
    """Accesses to single cells: the row each comes from, its place and cell, and which bytes of the cell it touches.

    `source` is where in the payload the cell's first byte would stand (outside the row's bytes, if touched in part).
    """

    row: Array
    place: Array
    cell: Array
    source: Array
    begin: Array
    end: Array

    def __getitem__(self, which: Array) -> Cells:
        return Cells(*(getattr(self, field.name)[which] for field in fields(self)))


def split(
    rows: Rows, row: Array, place: Array, offset: Array, size: Array, skipped: Array, item: Array
) -> Cells:
    """Accesses to the cells that `size` bytes at `offset` of a place touch.

    `item` is the bytes of a cell, `skipped` how many bytes of the row stand before these.
    """
    first = offset // item
    count = np.where(size > 0, (offset + size - 1) // item - first + 1, 0)
    source = rows.rows["value"][row].astype(np.int64) + skipped
    if np.all(count == 1):
        begin = offset - first * item
        return Cells(row, place, first, source - begin, begin, begin + size)
    which = np.repeat(np.arange(len(row)), count)
    cell = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    inside = cell * item[which] - offset[which]
    return Cells(
        row[which],
        place[which],
        cell,
        source[which] + inside,
        np.maximum(0, -inside),
        np.minimum(item[which], size[which] - inside),
    )


def together(parts: Sequence[Cells]) -> Cells:
    """These accesses, in the order of their rows."""
    whole = Cells(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Cells)))
    if np.any(np.diff(whole.row) < 0):
        whole = whole[np.argsort(whole.row, kind="stable")]
    return whole


def written_bytes(rows: Rows, cells: Cells, places: Sequence[Place], before: Mapping[str, Array]) -> Array:
    """The bytes of each of these cells, all of which are written, one after another.

    Of a cell written in part the rest is what its block had written there before, or what `before` has, or 0.
    """
    sizes = np.array([dtype_of(place.dtype).itemsize for place in places] or [0], np.int64)
    item = sizes[cells.place]
    ends = np.cumsum(item)
    values = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    in_part = (cells.begin > 0) | (cells.end < item)
    for size in np.unique(item).tolist():
        whole = np.flatnonzero((item == size) & ~in_part)
        _put(values, ends[whole] - size, at(rows.payload, cells.source[whole], _unsigned(size)))
        if in_part.any():
            mine = np.flatnonzero(item == size)
            key, _ = number(cells.place[mine], cells.cell[mine], rows.block[cells.row[mine]])
            mine = mine[np.isin(key, key[in_part[mine]])]
            if len(mine):
                _put(values, ends[mine] - size, _merged(rows, cells[mine], size, places, before))
    return values


def _merged(
    rows: Rows, cells: Cells, size: int, places: Sequence[Place], before: Mapping[str, Array]
) -> Array:
    """What each cell held after each write to some of its bytes, and to others by lanes of the same instruction."""
    block = rows.block[cells.row]
    key, firsts = number(cells.place, cells.cell, block)
    start = np.zeros((len(firsts), size), np.uint8)
    for n in np.unique(cells.place).tolist():
        if places[n].name in before and places[n].memory == "HBM":
            held = before[places[n].name].reshape(-1).view(np.uint8).reshape(-1, size)
            mine = cells.place[firsts] == n
            start[mine] = held[cells.cell[firsts[mine]]]
    order = np.lexsort((cells.row, key))
    group = key[order]
    begins = np.searchsorted(group, group)
    instruction, _ = number(key, rows.rows["request"][cells.row])
    merged = np.empty((len(order), size), np.uint8)
    for byte in range(size):
        wrote = (cells.begin <= byte) & (byte < cells.end)
        fresh = np.zeros(len(order), np.uint8)
        fresh[wrote] = rows.payload[cells.source[wrote] + byte]
        last = np.maximum.accumulate(np.where(wrote[order], np.arange(len(order)), -1))
        merged[order, byte] = np.where(last >= begins, fresh[order][last], start[group, byte])
        mine = np.flatnonzero(wrote)
        latest = np.full(int(instruction.max()) + 1, -1, np.int64)
        np.maximum.at(latest, instruction[mine], mine)
        others = np.flatnonzero(~wrote & (latest[instruction] >= 0))
        merged[others, byte] = fresh[latest[instruction[others]]]
    return merged.view(_unsigned(size)).reshape(-1)


def _unsigned(size: int) -> str:
    return f"u{size}"


def _put(values: Array, starts: Array, items: Array) -> None:
    """Write items of one dtype into bytes, each where it begins."""
    size = items.dtype.itemsize
    if not len(items):
        return
    if size * len(items) == len(values):
        values.view(items.dtype)[:] = items
        return
    room = np.ndarray((len(values) - size + 1,), items.dtype, values, 0, (1,))
    room[starts] = items
