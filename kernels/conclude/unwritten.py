"""Reads of what nobody had written: cells of SRAM and of registers that hold whatever was there before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.conclude.keys import Array, Integers, joined, run_starts
from kernels.conclude.rows import index_of, lines_of, span_numbers, spans, step_of
from kernels.trace.model import Dim3, Trace


@dataclass(frozen=True)
class Unwritten:
    """A line that read a cell of `place` before anyone wrote it: where it was first seen, and at how many cells.

    `thread` counts x fastest, `step` is the index of the step; `cells` counts those of all blocks.
    """

    place: str
    index: tuple[int, ...]
    launch: int
    block: Dim3
    step: int
    line: int
    thread: int
    cells: int

    @property
    def text(self) -> str:
        """The find in one sentence."""
        where = f"{self.place}[{', '.join(map(str, self.index))}]" if self.index else self.place
        return (
            f"Thread {self.thread} reads {where} on line {self.line}, and nothing was written there before."
        )


def unwritten(trace: Trace) -> tuple[Unwritten, ...]:
    """Each line that read cells of SRAM or registers that the block had not written, the first such read first.

    A variable in registers is unwritten again whenever it comes into being anew (Trace.scopes). Arrays in HBM are
    exempt: each was given with its values.
    """
    of_block = np.array([place.memory != "HBM" for place in trace.places] or [False])
    chosen = np.flatnonzero(of_block[trace.accesses["place"]])
    rows, blocks = trace.accesses[chosen], span_numbers(trace)[chosen]
    all_spans = spans(trace)
    if not len(rows):
        return ()
    # In the order of each cell's life. An atomic's read comes before its write.
    scope = _scopes(trace, rows, blocks)
    life = joined(blocks, rows["place"], rows["cell"], scope)
    order = np.lexsort((rows["order"], life))
    starts = run_starts(life[order])
    writes = np.flatnonzero(rows["write"][order] > 0)
    at = np.searchsorted(writes, starts)
    first_write = np.append(writes, len(order))[at]
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    place_in_order = np.arange(len(order))
    read = rows["write"][order] != 1
    found = order[read & (place_in_order <= first_write[run])]
    found = np.sort(found)
    if not len(found):
        return ()

    rows, blocks, chosen = rows[found], blocks[found], chosen[found]
    launches = np.array([span.launch for span in all_spans], np.int64)[blocks]
    lines = lines_of(trace, rows, launches)
    _, examples, sort = np.unique(
        joined(launches, rows["place"], lines), return_index=True, return_inverse=True
    )
    sort = sort.reshape(-1)
    distinct = np.unique(joined(sort, blocks, rows["cell"]), return_index=True)[1]
    cells = np.bincount(sort[distinct], minlength=len(examples))
    result = []
    for n, count in sorted(zip(examples.tolist(), cells.tolist(), strict=True)):
        place, span = trace.places[int(rows["place"][n])], all_spans[int(blocks[n])]
        result.append(
            Unwritten(
                place.name,
                index_of(place.shape, int(rows["cell"][n])),
                span.launch,
                span.block,
                step_of(trace, int(chosen[n])),
                int(lines[n]),
                int(rows["thread"][n]),
                count,
            )
        )
    return tuple(result)


def _scopes(trace: Trace, rows: Array, blocks: Integers) -> Integers:
    """For each row, how often its thread's variable had come into being before it; 0 for SRAM."""
    scopes = trace.scopes
    if not len(scopes):
        return np.zeros(len(rows), np.int64)
    starts = np.array([record.rows[0] for record in trace.records], np.int64)
    ends = np.array([span.rows[1] for span in spans(trace)], np.int64)
    of_record = np.searchsorted(ends, starts, side="right")
    whose = joined(
        np.concatenate((of_record[scopes["record"]], blocks)),
        np.concatenate((scopes["place"], rows["place"])),
        np.concatenate((scopes["thread"], rows["thread"])),
    )
    order = np.concatenate((scopes["order"], rows["order"]))
    is_scope = np.arange(len(whose)) < len(scopes)
    sorted_ = np.lexsort((~is_scope, order, whose))  # a scope begins before the row of its own order
    begun = np.empty(len(whose), np.int64)
    begun[sorted_] = np.cumsum(is_scope[sorted_])
    return begun[len(scopes) :]
