"""The smallest box, axis by axis, around the cells that were touched in a place: ``A[0:16, 16:32]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels.conclude.keys import Array
from kernels.trace.model import Place, Step, Trace


@dataclass(frozen=True)
class Box:
    """Cells of a place: `ranges` holds a half-open range for each axis; `cells` of those in it were touched."""

    place: str
    memory: Literal["HBM", "SRAM", "registers"]
    ranges: tuple[tuple[int, int], ...]
    cells: int

    @property
    def full(self) -> bool:
        """Whether every cell of the box was touched."""
        return self.cells == int(np.prod([stop - start for start, stop in self.ranges], dtype=np.int64))

    @property
    def text(self) -> str:
        """Such as ``A[0:16, 16:32]``, ``A[3, 0:8]``, or ``part of A[0:64]`` where the box has holes."""
        if not self.ranges:
            return self.place
        axes = (f"{start}:{stop}" if stop - start > 1 else f"{start}" for start, stop in self.ranges)
        return f"{'' if self.full else 'part of '}{self.place}[{', '.join(axes)}]"


def box_around(place: Place, cells: Array) -> Box:
    """The box around flat `cells` (at least one, repeated ones count once) of `place`."""
    distinct = np.unique(cells)
    axes = np.unravel_index(distinct.astype(np.int64), place.shape) if place.shape else ()
    ranges = tuple((int(axis.min()), int(axis.max()) + 1) for axis in axes)
    return Box(place.name, place.memory, ranges, len(distinct))


def read_boxes(trace: Trace, step: Step) -> tuple[Box, ...]:
    """A box for each place whose cells the step read (by atomics too), in the order of the trace's places."""
    return _boxes(trace, step, writes=False)


def written_boxes(trace: Trace, step: Step) -> tuple[Box, ...]:
    """A box for each place whose cells the step wrote (by atomics too), in the order of the trace's places."""
    return _boxes(trace, step, writes=True)


def _boxes(trace: Trace, step: Step, writes: bool) -> tuple[Box, ...]:
    rows = trace.accesses[slice(*trace.records[step.index].rows)]
    rows = rows[rows["write"] > 0] if writes else rows[rows["write"] != 1]
    return tuple(
        box_around(trace.places[number], rows["cell"][rows["place"] == number])
        for number in np.unique(rows["place"]).tolist()
    )
