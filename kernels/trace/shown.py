"""Which variable an access lies in: where each stood, in SRAM or in a thread, and from when to when it was held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.listen.log import Kind
from kernels.trace.declared import Holds
from kernels.trace.model import Array
from kernels.trace.rows import Rows, number


@dataclass(frozen=True, eq=False)
class Piece:
    """Accesses, or what of them lies in one variable: `row`, where they begin and how many bytes they have.

    `variable` is -1 for what lies in none.
    """

    row: Array
    address: Array
    size: Array
    variable: Array


class Shown:
    """The variables of a launch: `place` of each, and the `address` it begins at."""

    place: Array
    address: Array

    def __init__(self, rows: Rows, holds: Holds) -> None:
        self._rows = rows
        self._last = len(rows.rows)
        blocks = len(rows.blocks)
        self._groups = blocks * (1 + rows.threads)
        group = self._group(holds.row, holds.registers)
        variable, first = number(group, holds.address, holds.size, holds.place, holds.hidden)
        self.place, self.address = holds.place[first], holds.address[first]
        self._size, self._hidden = holds.size[first], holds.hidden[first]
        self._spans(variable, holds)
        self._segments(group[first])
        self.turns = self._turns(holds)

    def find(self, row: Array, *, registers: bool) -> Piece:
        """The variables in which these accesses lie, all of SRAM or all of registers."""
        address = self._rows.rows["address"][row].astype(np.int64)
        size = self._rows.rows["size"][row].astype(np.int64)
        found = []
        while len(row):
            variable = self._variable(row, address, registers)
            end = address + size
            inside = variable >= 0
            end[inside] = (self.address + self._size)[variable[inside]]
            here = np.minimum(size, end - address)
            found.append(Piece(row, address, here, variable))
            more = size > here
            row, address, size = row[more], (address + here)[more], (size - here)[more]
        if not found:
            return Piece(row, address, size, row)
        if len(found) == 1:
            return found[0]
        columns = ((piece.row, piece.address, piece.size, piece.variable) for piece in found)
        parts = [np.concatenate(column) for column in zip(*columns, strict=True)]
        order = np.argsort(parts[0], kind="stable")
        return Piece(*(part[order] for part in parts))

    def _group(self, row: Array, registers: Array | bool) -> Array:
        """Who shares addresses: a block in SRAM, a thread in registers."""
        block = self._rows.block[row].astype(np.int64)
        return np.where(registers, len(self._rows.blocks) + self._rows.actor[row], block)

    def _spans(self, variable: Array, holds: Holds) -> None:
        """From which row to which each HOLD lasts, in the order variable, thread, row."""
        end = np.full(len(holds.row), self._last, np.int64)
        drops = np.flatnonzero(self._rows.of_kind(Kind.DROP))
        plain = np.flatnonzero(~holds.hidden)
        if len(drops) and len(plain):
            events = np.concatenate((holds.row[plain], drops))
            begins = np.arange(len(events)) < len(plain)
            where, _ = number(
                self._rows.actor[events],
                self._rows.rows["address"][events].astype(np.int64),
                self._rows.rows["space"][events],
            )
            order = np.lexsort((events, where))
            depth = np.cumsum(np.where(begins[order], 1, -1))
            starts = np.flatnonzero(np.concatenate(([True], np.diff(where[order]) > 0)))
            depth -= np.repeat(
                np.concatenate(([0], depth[starts[1:] - 1])), np.diff(np.append(starts, len(order)))
            )
            level = np.empty(len(order), np.int64)
            level[order] = depth + ~begins[order]
            order = np.lexsort((events, level, where))
            one, after = order[:-1], order[1:]
            ended = begins[one] & ~begins[after] & (where[one] == where[after]) & (level[one] == level[after])
            end[plain[one[ended]]] = events[after[ended]]
        pair = variable * self._rows.threads + self._rows.rows["thread"][holds.row]
        order = np.lexsort((holds.row, pair))
        self._pair, self._begin, self._end = pair[order], holds.row[order], end[order]
        self._key = self._pair * (self._last + 1) + self._begin
        self._hold_end = end

    def _segments(self, group: Array) -> None:
        """Each stretch of addresses between two bounds, with the variables that cover it."""
        base = np.zeros(self._groups, np.int64)
        order = np.lexsort((self.address, group))
        firsts = np.flatnonzero(np.concatenate(([True], np.diff(group[order]) > 0))) if len(order) else order
        base[group[order[firsts]]] = self.address[order[firsts]]
        self._base = base
        begin = self.address - base[group]
        end = begin + self._size
        self._bounds = np.unique(np.concatenate((begin, end)))
        low, high = np.searchsorted(self._bounds, begin), np.searchsorted(self._bounds, end)
        variable = np.repeat(np.arange(len(begin)), high - low)
        segment = (
            low[variable]
            + np.arange(len(variable))
            - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        )
        code = group[variable] * (len(self._bounds) + 1) + segment
        order = np.argsort(code, kind="stable")
        self._covering = variable[order]
        self._code, self._code_start, self._code_count = np.unique(
            code[order], return_index=True, return_counts=True
        )

    def _variable(self, row: Array, address: Array, registers: bool) -> Array:
        """The variable at each address: of those that are held then the last, a hidden one only if there is no other.

        A write to a thread's own variable before its HOLD (``float acc = 0; HOLD(acc);``) is one to that variable too.
        """
        best = np.full(len(row), -1, np.int64)
        if not len(self._code):
            return best
        group = self._group(row, registers)
        relative = address - self._base[group]
        segment = np.searchsorted(self._bounds, relative, "right") - 1
        code = group * (len(self._bounds) + 1) + segment
        at = np.minimum(np.searchsorted(self._code, code), len(self._code) - 1)
        hit = np.flatnonzero((segment >= 0) & (self._code[at] == code))
        score = np.full(len(row), -1, np.int64)
        soonest = np.full(len(row), self._last, np.int64)
        coming = np.full(len(row), -1, np.int64)
        thread = self._rows.rows["thread"][row].astype(np.int64)
        for n in range(int(self._code_count.max())):
            hit = hit[self._code_count[at[hit]] > n]
            variable = self._covering[self._code_start[at[hit]] + n]
            pair = variable * self._rows.threads + thread[hit]
            turn = np.searchsorted(self._key, pair * (self._last + 1) + row[hit], "right") - 1
            alive = (turn >= 0) & (self._pair[turn] == pair) & (row[hit] < self._end[turn])
            mine = self._begin[turn] + (self._last + 1) * ~self._hidden[variable]
            better = alive & (mine > score[hit])
            score[hit[better]], best[hit[better]] = mine[better], variable[better]
            if registers:
                after = np.minimum(turn + 1, len(self._pair) - 1)
                sooner = (turn + 1 < len(self._pair)) & (self._pair[after] == pair)
                sooner &= self._begin[after] < soonest[hit]
                soonest[hit[sooner]] = self._begin[after[sooner]]
                coming[hit[sooner]] = variable[sooner]
        if registers:
            early = (best < 0) & (self._rows.rows["kind"][row] == Kind.WRITE)
            best[early] = coming[early]
        return best

    def _turns(self, holds: Holds) -> Array:
        """Of each HOLD of registers but the first of a place and thread: its row, the row it counts from, the place."""
        own = np.flatnonzero(holds.registers)
        actor = self._rows.actor[holds.row[own]]
        order = np.lexsort((holds.row[own], actor, holds.place[own]))
        own, actor = own[order], actor[order]
        again = np.flatnonzero((actor[1:] == actor[:-1]) & (holds.place[own[1:]] == holds.place[own[:-1]]))
        this, before = own[again + 1], own[again]
        since = np.minimum(self._hold_end[before], holds.row[this])
        return np.stack((holds.row[this], since, holds.place[this]), axis=1)
