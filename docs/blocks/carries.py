"""The carries before and after one update, `/// carries | fa1` with `at: {j: 1, i: 0}`: a table from the trace.

`block: [1, 0, 0]` and `launch: 1` choose another block than the recording's first.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

from pymdownx.blocks.block import type_integer

import kernels
from docs.blocks.html_block import HtmlBlock, HtmlBlockExtension, wide_table
from docs.blocks.step_list import shown_steps
from docs.film import load_film
from docs.numbers import written
from docs.snapshots import first_rows
from kernels.layout import Update
from kernels.trace import Array, Block, Step, Trace


class Carries(HtmlBlock):
    """`/// carries | RECORDING`, with the options `at` (the loop values), `block` and `launch`."""

    NAME = "carries"
    OPTIONS: ClassVar = {"at": [{}, dict], "block": [[0, 0, 0], list], "launch": [0, type_integer]}

    def attributes(self) -> dict[str, str]:
        at = ", ".join(f"{name} = {value}" for name, value in self.options["at"].items())
        return wide_table("carries", f"Carries of {self.argument} {at or 'at the end'}")

    def html(self) -> str:
        """The table, and a link to its step in the player if the film shows that block."""
        trace, film = kernels.recorded(self.argument), load_film(self.argument, self.films)
        x, y, z = self.options["block"]
        before, after = update_at(trace, self.options["at"], (x, y, z), self.options["launch"])
        links = "".join(
            f'<p><a href="#{film.recording}-{shown.id}">Play this update</a></p>'
            for shown, step in shown_steps(film, trace)
            if step is after
        )
        return carries_table(trace, before, after) + links


def update_at(
    trace: Trace, loop: Mapping[str, int], block: Block = (0, 0, 0), launch: int = 0
) -> tuple[Step, Step]:
    """The step before the update at `loop` in a block, and the update; LookupError if there is none."""
    for before, step in pairwise(trace.steps_of(block, launch)):
        if dict(step.loop) == dict(loop) and updated(step):
            return before, step
    raise LookupError(f"the recording of {trace.kernel} has no update at {dict(loop)}")


def updated(step: Step) -> tuple[str, ...]:
    """The slots that `step` changes in place: the carries, in the order of the kernel."""
    return tuple(action.slot for action in step.kind.actions if isinstance(action, Update))


def carries_table(trace: Trace, before: Step, after: Step) -> str:
    """A row for each row of the tile, under its number in the matrix; what the step found of each carry, and left."""
    launch = trace.launch_of(after)
    names = updated(after)
    columns = {name: _matrix(after, name).shape[1] for name in names}
    head = "".join(
        f'<th colspan="{columns[name]}" class="start term-{launch.slot(name).symbol}" scope="colgroup">'
        f"{name} <small>{moment}</small></th>"
        for name in names
        for moment in ("before", "after")
    )
    rows = []
    first = _first_row(trace, after, names[0])
    for row in range(_matrix(after, names[0]).shape[0]):
        cells = "".join(_cells(before, after, name, row) for name in names)
        rows.append(f'<tr><th scope="row">{first + row}</th>{cells}</tr>')
    return (
        f'<table class="numbers"><thead><tr><th scope="col">row</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _first_row(trace: Trace, at: Step, slot: str) -> int:
    """The number, in the matrix of its head, of the first row that `slot` holds at the step `at`."""
    first = 0
    for step in trace.steps_of(at.block, at.launch):
        first = first_rows(trace, step).get(slot, first)
        if step is at:
            break
    return first


def _cells(earlier: Step, later: Step, name: str, row: int) -> str:
    old, new = _matrix(earlier, name)[row], _matrix(later, name)[row]
    found = [f'<td class="{_edge(at)}">{written(value)}</td>' for at, value in enumerate(old)]
    left = [
        f'<td class="{_edge(at)}{"changed" if before != after else ""}">{written(after)}</td>'
        for at, (before, after) in enumerate(zip(old, new, strict=True))
    ]
    return "".join(found + left)


def _edge(column: int) -> str:
    return "start " if column == 0 else ""


def _matrix(step: Step, name: str) -> Array:
    held = step.held(name)
    if held is None:
        raise LookupError(f"{name} is empty at {step.name} {dict(step.loop)}")
    return held.reshape(held.shape[0], -1)


def makeExtension(**options: Any) -> HtmlBlockExtension:
    """What Markdown calls to load `docs.blocks.carries`."""
    return HtmlBlockExtension(Carries, **options)
