"""Turns of a loop that a masked run leaves out: found by what no block of the trace did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.layout import LaunchLayout, Load
from kernels.trace import Step, Trace


@dataclass(frozen=True)
class Skipped:
    """Turns of one loop that left no steps: its name, their values, and the tiles nobody had to move for them."""

    loop: str
    turns: tuple[int, ...]
    tiles: tuple[tuple[str, int], ...]


def skips(trace: Trace, steps: Sequence[Step]) -> dict[int, Skipped]:
    """What a block skips, by the place in `steps` before which it does; empty for a trace without a mask.

    A turn counts as skipped if neither this block takes it nor another that works on the same tiles outside the loop:
    the turns of another split of the keys are not skipped, they are that block's.
    """
    if not trace.params.get("causal"):
        return {}
    launch = trace.layout.launches[steps[0].launch]
    found: dict[int, Skipped] = {}
    for depth, loop in enumerate(launch.loops):
        outer = [other.name for other in launch.loops[:depth]]
        contexts = dict.fromkeys(
            tuple(step.loop[name] for name in outer) for step in steps if _inside(step, outer)
        )
        for context in contexts:
            taken = _taken(trace, steps, loop.name, outer, context)
            turns = tuple(turn for turn in range(loop.turns) if turn not in taken)
            if turns:
                at = _place(launch, steps, loop.name, outer, context, turns[0])
                found[at] = Skipped(loop.name, turns, _tiles(trace, launch, loop.name, turns))
    return found


def _inside(step: Step, outer: Sequence[str]) -> bool:
    return all(name in step.loop for name in outer)


def _in_context(step: Step, outer: Sequence[str], context: tuple[int, ...]) -> bool:
    return _inside(step, outer) and tuple(step.loop[name] for name in outer) == context


def _signature(steps: Sequence[Step], loop: str) -> frozenset[tuple[str, tuple[int, int], int]]:
    """What a block loads outside a loop."""
    return frozenset(
        (name, moved.rows, moved.head)
        for step in steps
        if loop not in step.loop
        for name, moved in step.traffic.items()
        if moved.reads and not moved.writes
    )


def _taken(
    trace: Trace, steps: Sequence[Step], loop: str, outer: Sequence[str], context: tuple[int, ...]
) -> set[int]:
    own = _signature(steps, loop)
    together = list(steps)
    for launch, block in trace.blocks:
        if launch == steps[0].launch and block != steps[0].block:
            others = trace.steps_of(block, launch)
            if own and _signature(others, loop) == own:
                together += others
    return {step.loop[loop] for step in together if loop in step.loop and _in_context(step, outer, context)}


def _place(
    launch: LaunchLayout,
    steps: Sequence[Step],
    loop: str,
    outer: Sequence[str],
    context: tuple[int, ...],
    turn: int,
) -> int:
    """The place of the first step that comes after a turn that was left out."""
    kinds = [kind.name for kind in launch.steps]
    last_inside = max(n for n, kind in enumerate(launch.steps) if loop in kind.loops)
    begun = False
    for n, step in enumerate(steps):
        here = _in_context(step, outer, context)
        begun = begun or here
        if here and loop in step.loop and step.loop[loop] > turn:
            return n
        if begun and not here:
            return n
        if here and loop not in step.loop and kinds.index(step.name) > last_inside:
            return n
    return len(steps)


def _tiles(
    trace: Trace, launch: LaunchLayout, loop: str, turns: Sequence[int]
) -> tuple[tuple[str, int], ...]:
    """The tiles that are loaded in a loop, if in every turn taken it was the tile of the turn's own number."""
    names = [
        action.array
        for kind in launch.steps
        if kind.loops and kind.loops[-1] == loop
        for action in kind.actions
        if isinstance(action, Load)
    ]
    found = []
    for name in dict.fromkeys(names):
        tile = trace.layout.array(name).tile
        moved = [
            (step.traffic[name].rows[0] // tile, step.loop[loop])
            for step in trace.steps
            if loop in step.loop and name in step.traffic and step.traffic[name].reads
        ]
        if all(number == turn for number, turn in moved):
            found += [(name, turn) for turn in turns]
    return tuple(found)
