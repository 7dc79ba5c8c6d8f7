"""What a film shows at each step, told by the trace alone: what moves, what fills, what changes, what is held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernels.layout import Action, Clear, Compute, Load, Store
from kernels.trace import Array, Block, Step, Trace
from scenes.errors import SceneError
from scenes.skips import Skipped, skips

MOST_STEPS = 500

Window = tuple[int, int]


@dataclass(frozen=True)
class Content:
    """What a slot holds: the valid part of its values as a matrix, in a slot of `shape` rows and columns.

    `symbol` is the letter of what it is; `array` and `tile` say which tile of which array it came from, None for what
    was computed. `folds` counts the updates it went through, `turn` how often the slot had been computed when it was
    filled.
    """

    values: Array
    shape: tuple[int, int]
    symbol: str
    array: str | None = None
    tile: int | None = None
    folds: int = 0
    turn: int = 0


@dataclass(frozen=True)
class Move:
    """A tile crosses HBM: rows and columns of `array`, in its tile number `tile`, to or from a slot."""

    array: str
    symbol: str
    tile: int
    slot: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    content: Content


@dataclass(frozen=True)
class Loaded(Move):
    """A tile was copied from HBM into a slot."""


@dataclass(frozen=True)
class Stored(Move):
    """A slot was copied back to its tile in HBM."""


@dataclass(frozen=True)
class Computed:
    """A slot was filled afresh, cell by cell, each from a row of `rows` and one of `columns` (slots, or None)."""

    slot: str
    content: Content
    rows: str | None
    columns: str | None


@dataclass(frozen=True)
class Cleared:
    """A carry was set to its starting value."""

    slot: str
    content: Content


@dataclass(frozen=True)
class Updated:
    """A carry changed in place."""

    slot: str
    content: Content


Event = Loaded | Stored | Computed | Cleared | Updated


@dataclass(frozen=True)
class Crossed:
    """Elements of one array this block has moved so far."""

    reads: int = 0
    writes: int = 0


@dataclass(frozen=True)
class Picture:
    """All that is on the canvas once a step is over.

    `step` is None for the opening, and where turns of a loop were `skipped`. `phases` are what happened in the step,
    one after another; the events of a phase happen at once. `slots` has None for an empty slot. `hbm` has each array
    as the matrix of this block's head, and `folds` how often each of its tiles was folded into.
    """

    step: Step | None
    phases: tuple[tuple[Event, ...], ...]
    skipped: Skipped | None
    slots: Mapping[str, Content | None]
    hbm: Mapping[str, Array]
    folds: Mapping[str, tuple[int, ...]]
    traffic: Mapping[str, Crossed]


@dataclass(frozen=True)
class Story:
    """The pictures of one block of one launch, the opening first."""

    trace: Trace
    block: Block
    launch: int
    pictures: tuple[Picture, ...]

    @property
    def turns(self) -> Mapping[str, frozenset[int]]:
        """The values that each loop takes in this block."""
        names = [loop.name for loop in self.trace.layout.launches[self.launch].loops]
        steps = [picture.step for picture in self.pictures if picture.step]
        return {name: frozenset(step.loop[name] for step in steps if name in step.loop) for name in names}

    @property
    def events(self) -> Iterable[Event]:
        """Everything that happens, in order."""
        return (event for picture in self.pictures for phase in picture.phases for event in phase)


def most_folds(stories: Sequence[Story]) -> int:
    """The greatest number of updates anything on the canvas goes through."""
    pictures = (picture for story in stories for picture in story.pictures)
    return max(
        (content.folds for picture in pictures for content in picture.slots.values() if content), default=0
    )


def carries(stories: Sequence[Story]) -> frozenset[str]:
    """The letters of what is updated in place."""
    return frozenset(
        event.content.symbol for story in stories for event in story.events if isinstance(event, Updated)
    )


def values_of(stories: Sequence[Story], symbol: str) -> Array:
    """The different values a letter takes on the canvas, in HBM or SRAM, in ascending order."""
    arrays = [array.name for array in stories[0].trace.layout.arrays if array.symbol == symbol]
    pictures = [picture for story in stories for picture in story.pictures]
    seen = {id(picture.hbm[name]): picture.hbm[name] for name in arrays for picture in pictures}
    for picture in pictures:
        for content in picture.slots.values():
            if content and content.symbol == symbol:
                seen[id(content.values)] = content.values
    values = [np.zeros(0, np.float32), *(matrix.ravel() for matrix in seen.values())]
    return np.unique(np.concatenate(values))


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """A slot's shape as rows and columns; a vector is one column."""
    return (math.prod(shape[:-1]), shape[-1]) if len(shape) > 1 else (math.prod(shape), 1)


def as_matrix(values: Array) -> Array:
    """Values as rows and columns; a vector is one column."""
    return values.reshape(matrix_shape(values.shape))


def head_of(steps: Sequence[Step], array: str) -> int:
    """Which head's matrix of an array a block works on: that of its first transfer, of any array if not of this."""
    touched = [step.traffic for step in steps if step.traffic]
    own = [traffic[array].head for traffic in touched if array in traffic]
    return next(iter(own or [moved.head for traffic in touched for moved in traffic.values()]), 0)


def tell(trace: Trace, block: Block | None = None, launch: int = 0, before: Story | None = None) -> Story:
    """The story of one block, by default the first of the trace.

    It finds HBM and the traffic as the story `before` left them, if there is one. Raises SceneError for a block that
    left no steps.
    """
    if block is None:
        block = next((place for turn, place in trace.blocks if turn == launch), (0, 0, 0))
    steps = trace.steps_of(block, launch)
    if not steps:
        known = ", ".join(str(place) for turn, place in trace.blocks if turn == launch)
        raise SceneError(f"block {block} left no steps in this trace: choose one of {known}")
    hbm = _hbm_before(trace, steps, before)
    folds = {array.name: (0,) * array.tiles for array in trace.layout.arrays}
    traffic = {array.name: Crossed() for array in trace.layout.arrays}
    if before:
        folds, traffic = dict(before.pictures[-1].folds), dict(before.pictures[-1].traffic)
    slots: dict[str, Content | None] = {slot.name: None for slot in trace.layout.launches[launch].slots}
    left_out = skips(trace, steps)
    pictures = [Picture(None, (), None, dict(slots), dict(hbm), dict(folds), dict(traffic))]
    for n, step in enumerate(steps):
        if n in left_out:
            pictures.append(
                Picture(None, (), left_out[n], dict(slots), dict(hbm), dict(folds), dict(traffic))
            )
        phases: list[list[Event]] = []
        for action in step.kind.actions:
            event = _event(trace, step, action, hbm, folds, slots)
            if event is None:
                continue
            if phases and type(phases[-1][0]) is type(event):
                phases[-1].append(event)
            else:
                phases.append([event])
            if isinstance(event, Stored):
                hbm[event.array] = _stored(hbm[event.array], step, event)
                tile = trace.layout.array(event.array).tile
                touched = range(event.rows[0] // tile, math.ceil(event.rows[1] / tile))
                folds[event.array] = tuple(
                    event.content.folds if n in touched else count
                    for n, count in enumerate(folds[event.array])
                )
            else:
                slots[event.slot] = event.content
        for name, moved in step.traffic.items():
            so_far = traffic[name]
            traffic[name] = Crossed(so_far.reads + moved.reads, so_far.writes + moved.writes)
        pictures.append(
            Picture(step, tuple(map(tuple, phases)), None, dict(slots), dict(hbm), dict(folds), dict(traffic))
        )
    if len(steps) in left_out:
        last = left_out[len(steps)]
        pictures.append(Picture(None, (), last, dict(slots), dict(hbm), dict(folds), dict(traffic)))
    return Story(trace, block, launch, tuple(pictures))


def filmed_blocks(trace: Trace) -> tuple[tuple[int, Block], ...]:
    """The blocks a film plays one after another: those of each launch that work on the head of the first block."""
    heads = {place: head_of(trace.steps_of(place[1], place[0]), "") for place in trace.blocks}
    return tuple(place for place in trace.blocks if heads[place] == heads[trace.blocks[0]])


def tell_all(trace: Trace, block: Block | None = None, window: Window | None = None) -> tuple[Story, ...]:
    """The stories of a film, one after another: of one block of the first launch, or of all that a film plays.

    With a `window` only of the steps in it, counted over the blocks. Raises SceneError for a block that left no steps,
    for a window without steps, or if there are more steps than a film can show.
    """
    check_length(trace, block, window)
    if block is not None:
        stories = [tell(trace, block)]
    else:
        stories = []
        for launch, place in filmed_blocks(trace):
            stories.append(tell(trace, place, launch, stories[-1] if stories else None))
    return tuple(stories) if window is None else _cut(stories, window)


def check_length(trace: Trace, block: Block | None = None, window: Window | None = None) -> None:
    """Raise SceneError if there are no steps to play, or more than a film can show."""
    blocks = filmed_blocks(trace) if block is None else ((0, block),)
    steps = sum(len(trace.steps_of(place, launch)) for launch, place in blocks)
    who = f"block {blocks[0][1]} has" if len(blocks) == 1 else f"{len(blocks)} blocks have"
    if window is not None:
        first, end = window
        if not 0 <= first < min(end, steps):
            raise SceneError(
                f"{who} {steps} steps, and none of them is in --steps {first}:{end}: choose others"
            )
        steps = min(end, steps) - first
        who = f"--steps {first}:{end} asks for"
    if steps > MOST_STEPS:
        raise SceneError(
            f"{who} {steps} steps and a film shows at most {MOST_STEPS}: choose some with --steps 0:{MOST_STEPS}, "
            "or record fewer rows or larger tiles"
        )


def _cut(stories: Sequence[Story], window: Window) -> tuple[Story, ...]:
    """The part of the stories in a window; a block that is cut into opens with what it holds by then."""
    found, count = [], 0
    for story in stories:
        kept: list[Picture] = []
        for n, picture in enumerate(story.pictures):
            inside = window[0] <= count < window[1]
            if inside and not kept and n:
                kept.append(replace(story.pictures[n - 1], step=None, phases=(), skipped=None))
            if inside:
                kept.append(picture)
            count += picture.step is not None
        if any(picture.step for picture in kept):
            found.append(replace(story, pictures=tuple(kept)))
    return tuple(found)


def _hbm_before(trace: Trace, steps: tuple[Step, ...], before: Story | None) -> dict[str, Array]:
    """Each array as this block finds it, NaN where nobody has written it yet."""
    found = {}
    last = before.pictures[-1].hbm if before else {}
    same_launch = before is not None and before.launch == steps[0].launch
    for array in trace.layout.arrays:
        if array.name in last and (same_launch or array.name not in steps[0].hbm):
            matrix = last[array.name]
        elif array.name in steps[0].hbm:
            matrix = steps[0].hbm.start[array.name].reshape(array.rows, array.columns)
        elif array.role == "input":
            heads = trace.inputs[array.name].reshape(array.heads, array.rows, array.columns)
            matrix = heads[min(head_of(steps, array.name), array.heads - 1)]
        else:
            matrix = np.full((array.rows, array.columns), np.nan, np.float32)
        found[array.name] = matrix
    return found


def _stored(matrix: Array, step: Step, event: Stored) -> Array:
    after = matrix.copy()
    box = slice(*event.rows), slice(*event.columns)
    after[box] = step.hbm[event.array].reshape(matrix.shape)[box]
    return after


def _event(
    trace: Trace,
    step: Step,
    action: Action,
    hbm: Mapping[str, Array],
    folds: Mapping[str, tuple[int, ...]],
    slots: Mapping[str, Content | None],
) -> Event | None:
    slot = trace.launch_of(step).slot(action.slot)
    before = slots[action.slot]
    if isinstance(action, Load | Store):
        touched = step.traffic.get(action.array)
        array = trace.layout.array(action.array)
        if touched is None:
            return None
        tile = touched.rows[0] // array.tile
        where = action.array, array.symbol, tile, action.slot, touched.rows, touched.columns
        if isinstance(action, Load) and touched.reads:
            values = hbm[action.array][slice(*touched.rows), slice(*touched.columns)]
            return Loaded(
                *where,
                Content(
                    values,
                    matrix_shape(slot.shape),
                    array.symbol,
                    array.name,
                    tile,
                    folds[action.array][tile],
                ),
            )
        if isinstance(action, Store) and touched.writes and before is not None:
            return Stored(*where, before)
        return None
    held = step.held(action.slot)
    if held is None:
        return None
    values = as_matrix(held)
    if isinstance(action, Compute):
        turn = before.turn + 1 if before else 1
        content = Content(values, matrix_shape(slot.shape), slot.symbol, turn=turn)
        return Computed(action.slot, content, action.rows, action.columns)
    if isinstance(action, Clear):
        return Cleared(action.slot, Content(values, matrix_shape(slot.shape), slot.symbol))
    if before is None:
        return Updated(action.slot, Content(values, matrix_shape(slot.shape), slot.symbol, folds=1))
    return Updated(action.slot, replace(before, values=values, folds=before.folds + 1))
