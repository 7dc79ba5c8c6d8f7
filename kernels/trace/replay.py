"""What a place held after each step of a block, replayed from the writes to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Reel:
    """What one place holds in one block, wound to any step of it; forward is cheap, back begins anew.

    Of writes to one cell the last in the order of the log stands, though a thread that ran ahead may have done it in a
    later step than another's. `ends` counts the writes up to the end of each step, the first of which is the record
    number `first`. A cell is known once it was written, in registers since the variable last came into being for its
    thread (`scopes`, of SCOPE).
    """

    def __init__(
        self,
        *,
        cells: Array,
        orders: Array,
        values: Array,
        ends: Array,
        first: int,
        scopes: Array,
        cells_of_thread: int | None,
    ) -> None:
        self._cells, which = np.unique(cells, return_inverse=True)
        self._which = which.reshape(-1)
        self._orders = orders
        self._values = values
        self._ends = ends
        self._first = first
        self._scopes = scopes
        self._thread = None if cells_of_thread is None else self._cells // max(1, cells_of_thread)
        self._rewind()

    def at(self, record: int) -> tuple[Array, Array, Array]:
        """The cells that the block ever writes, their bytes (cells × itemsize) after a step, and which are known."""
        end = int(self._ends[record - self._first])
        if end < self._wound:
            self._rewind()
        self._wind(end)
        known = self._last >= 0
        if self._thread is not None and len(self._scopes) and len(self._cells):
            begun = np.full(int(max(self._thread.max(), self._scopes["thread"].max())) + 1, -1, np.int64)
            past = self._scopes[self._scopes["record"] <= record]
            np.maximum.at(begun, past["thread"], past["order"].astype(np.int64))
            known &= self._last >= begun[self._thread]
        return self._cells, self._bytes, known

    def _rewind(self) -> None:
        self._wound = 0
        self._last = np.full(len(self._cells), -1, np.int64)
        self._bytes = np.zeros((len(self._cells), self._values.shape[1]), np.uint8)

    def _wind(self, end: int) -> None:
        rows = np.arange(self._wound, end)
        self._wound = end
        orders = self._orders[rows]
        if np.any(orders[1:] < orders[:-1]):
            rows = rows[np.argsort(orders, kind="stable")]
        rows = rows[self._orders[rows] >= self._last[self._which[rows]]]
        self._last[self._which[rows]] = self._orders[rows]
        self._bytes[self._which[rows]] = self._values[rows]
