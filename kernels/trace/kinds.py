"""The kinds of step of a launch, with what each does in the words of a layout: concluded from the accesses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.conclude.actions import actions
from kernels.conclude.arrows import Arrows, arrows
from kernels.layout import Action, Clear, Compute, Load, StepLayout, Store, Update
from kernels.trace.model import Array, Step, StepRecord, Trace

Kind = tuple[str, tuple[str, ...]]  # a step's name and its loops, outermost first
_WEAKEST = ("clear", "load", "compute", "update", "store")


@dataclass
class _Act:
    """What one kind of step does to one place: in any of its steps, as few as one."""

    kind: str
    place: str  # its name in the trace
    slots: dict[str, str] = field(
        default_factory=dict
    )  # slots that it is made of, and the names of their places
    arrays: dict[str, None] = field(default_factory=dict)  # in the order of their first read
    widest: tuple[int, Step] | None = None  # the step that wrote most cells
    rows: list[int] = field(default_factory=list)  # one past the last that each step wrote


def kind_of(record: StepRecord, words: Mapping[str, str]) -> Kind:
    """What kind of step a record is of; `words` may call its loops otherwise."""
    return record.name, tuple(words.get(loop, loop) for loop in record.loop)


def slot_names(trace: Trace, launch: int) -> Mapping[str, str]:
    """Of each place that a launch shows, what it is called: its name there, which another launch may have, too."""
    places = [place.name for place in trace.held_in(launch)]
    bare = [re.sub(r" \(line \d+(, \d+)?\)$", "", name) for name in places]
    return {name: word if bare.count(word) == 1 else name for name, word in zip(places, bare, strict=True)}


def kinds_of(trace: Trace, words: Mapping[str, str]) -> tuple[Mapping[Kind, StepLayout], ...]:
    """Of each launch the kinds of step that it left, in the order of their lines.

    Each is judged by the steps of the block that took most of them. A step does first what later acts of it, or of
    other steps, are made of; slots that are called the same in two launches are one in this.
    """
    found = []
    for launch in range(len(trace.launches)):
        names = slot_names(trace, launch)
        steps = _steps(trace, launch, words)
        found.append({kind: _acts(trace, some, names) for kind, some in steps.items()})
    slots = [name for launch in range(len(found)) for name in slot_names(trace, launch).values()]
    order = _order(list(dict.fromkeys(slots)), [acts for kinds in found for acts in kinds.values()])
    return tuple(
        {kind: StepLayout(*kind, _told(trace, acts, order)) for kind, acts in kinds.items()}
        for kinds in found
    )


def _steps(trace: Trace, launch: int, words: Mapping[str, str]) -> dict[Kind, list[Step]]:
    """Of each kind of step, those of the block that took most, in the order of their lines."""
    found: dict[Kind, dict[tuple[int, ...], list[Step]]] = {}
    for step, record in zip(trace.steps, trace.records, strict=True):
        if record.launch == launch:
            found.setdefault(kind_of(record, words), {}).setdefault(record.block, []).append(step)
    most = {kind: max(blocks.values(), key=len) for kind, blocks in found.items()}
    return dict(sorted(most.items(), key=lambda item: item[1][0].line))


def _acts(trace: Trace, steps: Sequence[Step], names: Mapping[str, str]) -> dict[str, _Act]:
    """What steps of one kind do to each slot and array, by its name; the most that any of them does.

    `names` gives the slots of places; other places in SRAM or registers are not told of.
    """
    found: dict[str, _Act] = {}
    for step in steps:
        for action in actions(trace, step):
            hbm = action.boxes[0].memory == "HBM"
            if not hbm and action.target not in names:
                continue
            name = action.target if hbm else names[action.target]
            act = found.setdefault(name, _Act(action.kind, action.target))
            act.kind = max(act.kind, action.kind, key=_WEAKEST.index)
            act.slots |= {names[source]: source for source in action.sources if source in names}
            act.arrays |= {box.place: None for box in action.boxes[1:] if box.memory == "HBM"}
            act.rows.append(action.boxes[0].ranges[0][1] if action.boxes[0].ranges else 1)
            cells = action.boxes[0].cells
            if act.widest is None or cells > act.widest[0]:
                act.widest = cells, step
    return found


def _order(slots: Sequence[str], found: Sequence[Mapping[str, _Act]]) -> list[str]:
    """The slots as values flow: each after those that it is made of, and these no sooner than one needs them."""
    made_of: dict[str, set[str]] = {}
    for acts in found:
        for slot, act in acts.items():
            if act.kind in ("compute", "update"):
                made_of.setdefault(slot, set()).update(set(act.slots) - {slot})
    order: list[str] = []
    waiting = [slot for slot in slots if slot in made_of]
    while waiting:
        # Of slots that are made of each other, the first.
        slot = next((slot for slot in waiting if not made_of[slot] & set(waiting)), waiting[0])
        waiting.remove(slot)
        order += [s for s in slots if s in made_of[slot] and s not in order and s not in waiting]
        order.append(slot)
    return [*order, *(slot for slot in slots if slot not in order)]


def _told(trace: Trace, acts: Mapping[str, _Act], order: Sequence[str]) -> tuple[Action, ...]:
    """The actions of one kind of step; `order` is that of the slots."""
    told: list[Action] = []
    for slot in (slot for slot in order if slot in acts and acts[slot].kind != "store"):
        act = acts[slot]
        match act.kind:
            case "load":
                told.append(Load(next(iter(act.arrays)), slot))
            case "clear":
                told.append(Clear(slot, _loaded_alike(acts, act.rows, order)))
            case "update":
                told.append(Update(slot, tuple(source for source in order if source in act.slots)))
            case _:
                told.append(Compute(slot, *_factors(trace, act, order)))
    for slot in order:
        stored = (name for name, act in acts.items() if act.kind == "store" and slot == _first(act, order))
        told += [Store(slot, array) for array in stored]
    return tuple(told)


def _first(act: _Act, order: Sequence[str]) -> str | None:
    return next((slot for slot in order if slot in act.slots), None)


def _loaded_alike(acts: Mapping[str, _Act], rows: Sequence[int], order: Sequence[str]) -> str | None:
    """The slot that is loaded in the same steps, as many `rows` of it."""
    return next((s for s in order if s in acts and acts[s].kind == "load" and acts[s].rows == rows), None)


def _factors(trace: Trace, act: _Act, order: Sequence[str]) -> tuple[str | None, str | None]:
    """Of the slots that a slot is computed from, the one whose rows go with its rows, and the one with its columns."""
    assert act.widest is not None
    step = act.widest[1]
    found = arrows(trace, step)
    axes = len(trace.place(act.place, step.launch).shape)
    factors: list[str | None] = [None, None]
    for axis in range(min(2, axes)):
        candidates = (s for s in order if s in act.slots and s not in factors)
        factors[axis] = next(
            (s for s in candidates if _goes_with(trace, found, step, act.place, axis, act.slots[s])), None
        )
    return factors[0], factors[1]


def _goes_with(trace: Trace, found: Arrows, step: Step, place: str, axis: int, source: str) -> bool:
    """Whether each cell of `place` is made of cells of `source` in the row that is its own index along `axis`."""
    target = np.repeat(np.arange(len(found.target_cell)), np.diff(found.start))
    numbers = trace.numbers(step.launch)
    here = (found.target_place[target] == numbers[place]) & (found.source_place == numbers[source])
    return bool(here.any()) and np.array_equal(
        _along(trace, numbers[place], found.target_cell[target[here]], axis),
        _along(trace, numbers[source], found.source_cell[here], 0),
    )


def _along(trace: Trace, number: int, cells: Array, axis: int) -> Array:
    shape = trace.places[number].shape or (1,)
    return np.unravel_index(cells.astype(np.int64), shape)[axis]
