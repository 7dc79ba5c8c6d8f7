"""The step list of a player: one button for each step of the film, folded by its block and its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from docs.film import Film, FilmStep, traced_step
from kernels.trace import Step, Trace


@dataclass(frozen=True)
class _Entry:
    """A step of the film, the folds it lies in (outermost first), its lines of the code and where it stands."""

    step: FilmStep
    folds: tuple[str, ...]
    section: str
    block: str
    loop: str


def step_list(film: Film, trace: Trace) -> str:
    """The steps of `film` as an `<ol class="steps">`."""
    blocks = {(step.launch, step.block) for _, step in shown_steps(film, trace)}
    entries = [_entry(film, step, trace, len(blocks) > 1) for step in film.steps]
    return f'<ol class="steps">{_items(entries, film.recording, 0)}</ol>'


def shown_steps(film: Film, trace: Trace) -> list[tuple[FilmStep, Step]]:
    """The steps of `film` that show one of the trace, with it."""
    return [(step, trace.steps[step.trace_step]) for step in film.steps if step.trace_step is not None]


def loop_values(step: Step) -> str:
    """The loop values of a step: `j = 1, i = 0`."""
    return ", ".join(f"{name} = {value}" for name, value in step.loop.items())


def block_name(trace: Trace, step: Step) -> str:
    """Which block a step belongs to: `block 2 of 6`, with its launch if there are several, and its `blockIdx`."""
    launch = trace.launch_of(step)
    (x, y, z), (width, height, depth) = step.block, launch.grid
    count, number = width * height * depth, x + width * (y + height * z)
    axes = max((axis for axis, size in enumerate(launch.grid, start=1) if size > 1), default=1)
    index = ", ".join(map(str, step.block[:axes]))
    where = f"{launch.function}: " if len(trace.layout.launches) > 1 else ""
    return f"{where}block {number + 1} of {count}, blockIdx ({index})"


def opens_block(film: Film, trace: Trace, shown: FilmStep) -> bool:
    """Whether `shown`, which shows no step of the trace, opens its block; else a turn of a loop is skipped in it."""
    at = film.steps.index(shown)
    step, before = (traced_step(film, trace, each) for each in (shown, film.steps[at - 1]))
    if at == 0 or step is None or before is None:
        return at == 0
    return (before.launch, before.block) != (step.launch, step.block)


def _entry(film: Film, shown: FilmStep, trace: Trace, several_blocks: bool) -> _Entry:
    step = traced_step(film, trace, shown)
    if step is None:
        return _Entry(shown, (), "", "", "")
    block = block_name(trace, step) if several_blocks else ""
    folds = (block,) if block else ()
    if shown.trace_step is None:
        kind = "head" if opens_block(film, trace, shown) else "skip"
        return _Entry(shown, folds, f"{kind}:{trace.launch_of(step).function}", block, "")
    loops = tuple(f"{name} = {value}" for name, value in step.loop.items())
    return _Entry(shown, folds + loops, step.name, block, loop_values(step))


def _items(entries: Sequence[_Entry], recording: str, depth: int) -> str:
    """The entries as `<li>`: those that share the fold at `depth` inside one open `<details>`."""
    items = []
    for fold, group in groupby(
        entries, key=lambda entry: entry.folds[depth] if depth < len(entry.folds) else None
    ):
        if fold is None:
            items += [_button(entry, recording) for entry in group]
        else:
            inner = _items(list(group), recording, depth + 1)
            items.append(
                f"<li><details open><summary>{escape(fold)}</summary><ol>{inner}</ol></details></li>"
            )
    return "".join(items)


def _button(entry: _Entry, recording: str) -> str:
    step = entry.step
    data = {
        "step": step.id,
        "first-frame": step.first_frame,
        "frames": step.frames,
        "section": entry.section,
        "block": entry.block,
        "loop": entry.loop,
        "caption": step.caption,
    }
    attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in data.items())
    button = f'<button type="button" {attributes} disabled>{escape(step.label)}</button>'
    return f'<li id="{recording}-{step.id}">{button}</li>'
