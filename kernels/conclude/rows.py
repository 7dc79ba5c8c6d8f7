"""Which rows of a trace are whose: the blocks of its launches, the step and the source line of a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.conclude.keys import Array, Integers
from kernels.trace.model import Dim3, Trace

WARP = 32  # threads, on every CUDA device so far


@dataclass(frozen=True)
class Span:
    """A block of a launch: the half-open range of rows of Trace.accesses that are its own, before its window too."""

    launch: int
    block: Dim3
    rows: tuple[int, int]


def spans(trace: Trace) -> tuple[Span, ...]:
    """Each recorded block of each launch, in the order of the trace."""
    found: list[Span] = []
    for record in trace.records:
        if found and (found[-1].launch, found[-1].block) == (record.launch, record.block):
            found[-1] = Span(record.launch, record.block, (found[-1].rows[0], record.rows[1]))
        else:
            before = found[-1].rows[1] if found else 0
            found.append(Span(record.launch, record.block, (before, record.rows[1])))
    return tuple(found)


def span_of(trace: Trace, step: int) -> Span:
    """The block that did the step numbered `step`."""
    row = trace.records[step].rows[0]
    record = trace.records[step]
    return next(
        span
        for span in spans(trace)
        if (span.launch, span.block) == (record.launch, record.block) and span.rows[0] <= row <= span.rows[1]
    )


def span_numbers(trace: Trace) -> Integers:
    """For each row, the number of its block in `spans`; the last for rows after every step."""
    ends = np.array([span.rows[1] for span in spans(trace)], np.int64)
    numbers = np.searchsorted(ends, np.arange(len(trace.accesses)), side="right")
    return np.minimum(numbers, max(len(ends) - 1, 0)).astype(np.int64)


def step_of(trace: Trace, row: int) -> int:
    """The number of the step that did `row`; of a row before a window, the step after it."""
    ends = np.array([record.rows[1] for record in trace.records], np.int64)
    return min(int(np.searchsorted(ends, row, side="right")), len(ends) - 1)


def lines_of(trace: Trace, rows: Array, launches: Array) -> Integers:
    """The source line of each of `rows` (of ACCESS), which are of `launches`; 0 where it is unknown."""
    found = np.zeros(len(rows), np.int64)
    for launch in range(len(trace.launches)):
        of_site = np.array([site.line for site in trace.sites[launch]] or [0], np.int64)
        here = launches == launch
        found[here] = of_site[rows["site"][here]]
    return found


def index_of(shape: tuple[int, ...], cell: int) -> tuple[int, ...]:
    """The index of a flat cell of `shape`, as plain integers."""
    return tuple(int(n) for n in np.unravel_index(cell, shape)) if shape else ()
