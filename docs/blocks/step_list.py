"""The step list of a player: one button for each step of the film, folded by the loops the step stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from docs.film import Film, FilmStep
from kernels.trace import Step, Trace


@dataclass(frozen=True)
class _Entry:
    """A step of the film, the folds it lies in (outermost first), its section of the code and its loop values."""

    step: FilmStep
    folds: tuple[str, ...]
    section: str
    loop: str


def step_list(film: Film, trace: Trace) -> str:
    """The steps of `film` as an `<ol class="steps">`."""
    blocks = {(step.launch, step.block) for _, step in shown_steps(film, trace)}
    several_launches = len({launch for launch, _ in blocks}) > 1
    entries = [_entry(step, trace, several_launches, len(blocks) > 1) for step in film.steps]
    return f'<ol class="steps">{_items(entries, film.recording, 0)}</ol>'


def shown_steps(film: Film, trace: Trace) -> list[tuple[FilmStep, Step]]:
    """The steps of `film` that show one of the trace, with it."""
    return [(step, trace.steps[step.trace_step]) for step in film.steps if step.trace_step is not None]


def loop_values(step: Step) -> str:
    """The loop values of a step: `j = 1, i = 0`."""
    return ", ".join(f"{name} = {value}" for name, value in step.loop.items())


def _entry(step: FilmStep, trace: Trace, several_launches: bool, several_blocks: bool) -> _Entry:
    if step.trace_step is None:
        return _Entry(step, (), "", "")
    traced = trace.steps[step.trace_step]
    folds = [f"{name} = {value}" for name, value in traced.loop.items()]
    if several_blocks:
        folds.insert(0, "block " + ", ".join(map(str, traced.block)))
    if several_launches:
        folds.insert(0, trace.launch_of(traced).function)
    return _Entry(step, tuple(folds), traced.name, loop_values(traced))


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
        "loop": entry.loop,
        "caption": step.caption,
    }
    attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in data.items())
    button = f'<button type="button" {attributes} disabled>{escape(step.label)}</button>'
    return f'<li id="{recording}-{step.id}">{button}</li>'
