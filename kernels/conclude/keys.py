"""Several columns of integers as one, runs of a sorted column, unions of ranges: what NumPy is fast at."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


def joined(*columns: Array) -> Integers:
    """One integer for each row of `columns` (integers ≥ 0): equal where the rows are, in the order that they are in."""
    total = np.zeros(len(columns[0]), np.int64)
    if not len(total):
        return total
    size = 1
    for column in columns:
        values = column.astype(np.int64)
        radix = int(values.max()) + 1
        if size * radix >= 2**62:  # int64 would overflow: number the rows that there are
            total, values = _numbered(total), _numbered(values)
            size, radix = int(total.max()) + 1, int(values.max()) + 1
        total = total * radix + values
        size *= radix
    return total


def _numbered(values: Integers) -> Integers:
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def run_starts(values: Array) -> Integers:
    """Where each run of equal numbers of `values` starts; none if it is empty."""
    if not len(values):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def expanded(low: Integers, high: Integers) -> Integers:
    """The numbers of each half-open range [low, high), one range after the other."""
    counts = np.maximum(high - low, 0)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Integers = np.arange(total) + np.repeat(low - (ends - counts), counts)
    return numbers


def union(low: Integers, high: Integers) -> Integers:
    """The numbers that lie in any of the half-open ranges [low, high), ascending, each once."""
    real = high > low
    order = np.argsort(low[real], kind="stable")
    low, high = low[real][order], high[real][order]
    reached = np.concatenate(([np.int64(0)], np.maximum.accumulate(high)[:-1])) if len(high) else high
    return expanded(np.maximum(low, reached), high)
