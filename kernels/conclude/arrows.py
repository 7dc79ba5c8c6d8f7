"""Arrows: the cells that each cell written in a step was made of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernels.conclude.bursts import bursts
from kernels.conclude.keys import Array, Integers, expanded, joined, union
from kernels.conclude.rows import index_of
from kernels.trace.model import Place, Step, Trace

Cell = tuple[str, tuple[int, ...]]  # a place's name and an index in it

_MOST_AT_ONCE = 1 << 22  # pairs


@dataclass(frozen=True)
class Arrows:
    """Target n, which was written, was made of the sources [start[n], start[n+1]).

    Places are indexes into `places`, cells are flat. Targets are in the order of place and cell, as each one's
    sources are. A target with no sources (a constant) is there too.
    """

    places: tuple[Place, ...] = field(repr=False)
    target_place: Array  # uint16 (targets)
    target_cell: Array  # uint64 (targets)
    start: Integers  # (targets + 1)
    source_place: Array  # uint16 (arrows)
    source_cell: Array  # uint64 (arrows)

    def of(self, place: str, index: tuple[int, ...]) -> tuple[Cell, ...]:
        """The cells that ``place[index]`` was made of; none if it was not written or is made of none."""
        sources: list[Cell] = []
        for number, candidate in enumerate(self.places):
            inside = len(index) == len(candidate.shape) and all(
                0 <= i < n for i, n in zip(index, candidate.shape, strict=True)
            )
            if candidate.name != place or not inside:
                continue
            cell = int(np.ravel_multi_index(index, candidate.shape)) if index else 0
            for n in np.flatnonzero((self.target_place == number) & (self.target_cell == cell)).tolist():
                for arrow in range(int(self.start[n]), int(self.start[n + 1])):
                    source = self.places[int(self.source_place[arrow])]
                    sources.append((source.name, index_of(source.shape, int(self.source_cell[arrow]))))
        return tuple(sources)


def arrows(trace: Trace, step: Step) -> Arrows:
    """For each cell that `step` wrote, the cells whose reads made up any of the values it was given there."""
    first, stop = trace.records[step.index].rows
    rows = trace.accesses[first:stop]
    written = np.flatnonzero(rows["write"] > 0)
    keys = joined(rows["place"][written], rows["cell"][written])
    _, targets, target_of = np.unique(keys, return_index=True, return_inverse=True)
    target_number = np.zeros(len(rows), np.int64)
    target_number[written] = target_of.reshape(-1)

    parts = [part for part in bursts(trace, step.index) if len(part.writes)]
    read = [part.read(union(part.low, part.high)) for part in parts]
    source_rows = np.unique(np.concatenate([np.zeros(0, np.int64), *read]))
    source_keys = joined(trace.accesses["place"][source_rows], trace.accesses["cell"][source_rows])
    _, sources, source_of = np.unique(source_keys, return_index=True, return_inverse=True)
    source_of = source_of.reshape(-1)

    found = [np.zeros(0, np.int64)]
    for part in parts:
        ends = np.cumsum(part.high - part.low)
        cuts = np.searchsorted(ends, np.arange(0, int(ends[-1]), _MOST_AT_ONCE))
        for low, high in zip(cuts, [*cuts[1:], len(ends)], strict=True):
            here = slice(int(low), int(high))
            counts = part.high[here] - part.low[here]
            target = np.repeat(target_number[part.writes[here] - first], counts)
            reads = part.read(expanded(part.low[here], part.high[here]))
            source = source_of[np.searchsorted(source_rows, reads)]
            found.append(np.unique(target * len(sources) + source))
    pairs = np.unique(np.concatenate(found))
    target, source = np.divmod(pairs, max(len(sources), 1))
    target_rows, arrow_rows = rows[written[targets]], trace.accesses[source_rows[sources[source]]]
    start = np.searchsorted(target, np.arange(len(targets) + 1))
    return Arrows(
        trace.places,
        target_rows["place"],
        target_rows["cell"],
        start,
        arrow_rows["place"],
        arrow_rows["cell"],
    )
