"""Actions: what a step did to each place it wrote: a load, a computation, an update, a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernels.conclude.boxes import Box, box_around
from kernels.conclude.bursts import bursts
from kernels.conclude.keys import Array, Integers, union
from kernels.trace.model import Step, Trace

Kind = Literal["load", "compute", "update", "store", "clear"]


@dataclass(frozen=True)
class Action:
    """What happened to the place named `target`; `sources` are the places whose values went into it, without itself.

    ``load``: a slot from arrays in HBM alone. ``store``: an array in HBM. ``update``: a slot from what it held before
    the step, too. ``compute``: a slot from other slots, or from what it was given earlier in the step. ``clear``: a
    slot from nothing. `sources` are in the order of their first read; `boxes` are the target's cells, then those of
    each source.
    """

    kind: Kind
    target: str
    sources: tuple[str, ...]
    boxes: tuple[Box, ...]


def actions(trace: Trace, step: Step) -> tuple[Action, ...]:
    """One action for each place that `step` wrote, in the order of its first write, held or not."""
    first, stop = trace.records[step.index].rows
    rows = trace.accesses[first:stop]
    written = rows["write"] > 0
    read: dict[int, list[Integers]] = {}
    for part in bursts(trace, step.index):
        places = trace.accesses["place"][part.writes]
        for place in np.unique(places).tolist():
            here = places == place
            read.setdefault(place, []).append(part.read(union(part.low[here], part.high[here])))
    targets, firsts = np.unique(rows["place"][written], return_index=True)
    found = []
    for target in targets[np.argsort(firsts)].tolist():
        cells = rows["cell"][written & (rows["place"] == target)]
        sources = np.unique(np.concatenate(read.get(target, [np.zeros(0, np.int64)])))
        found.append(_action(trace, target, cells, sources, first, stop))
    return tuple(found)


def _action(trace: Trace, target: int, cells: Array, read: Integers, first: int, stop: int) -> Action:
    places = trace.accesses["place"][read]
    numbers, firsts = np.unique(places, return_index=True)
    ordered = numbers[np.argsort(firsts)].tolist()
    others = [n for n in ordered if n != target]
    place = trace.places[target]
    kind: Kind
    if place.memory == "HBM":
        kind = "store"
    elif not ordered:
        kind = "clear"
    elif target in ordered:
        kind = "update" if _carried(trace, target, read[places == target], first, stop) else "compute"
    else:
        kind = "load" if all(trace.places[n].memory == "HBM" for n in others) else "compute"
    from_cells = [box_around(trace.places[n], trace.accesses["cell"][read[places == n]]) for n in others]
    names = tuple(trace.places[n].name for n in others)
    return Action(kind, place.name, names, (box_around(place, cells), *from_cells))


def _carried(trace: Trace, target: int, read: Integers, first: int, stop: int) -> bool:
    """Whether any of the reads `read` of `target` found what a cell held before the step: no write of it came first."""
    if (read < first).any():
        return True
    rows, here = trace.accesses[first:stop], trace.accesses[read]
    written = rows[(rows["write"] > 0) & (rows["place"] == target)]
    written = written[np.argsort(written["order"], kind="stable")]
    cells, firsts = np.unique(written["cell"], return_index=True)
    at = np.minimum(np.searchsorted(cells, here["cell"]), len(cells) - 1)
    # An atomic that is a cell's first write reads what was there before.
    return bool(((cells[at] != here["cell"]) | (written["order"][firsts[at]] >= here["order"])).any())


def sentence(action: Action) -> str:
    """A caption, such as ``load As ← A[0:16, 16:32]``, ``update acc with As, Bs`` or ``clear acc``."""
    target, *sources = (box.text if box.memory == "HBM" else box.place for box in action.boxes)
    word = {"load": "←", "store": "←", "update": "with", "compute": "from", "clear": ""}[action.kind]
    return " ".join([action.kind, target] + ([word, ", ".join(sources)] if sources else []))
