"""A score: what a kernel's scene adds to its trace, the order of the matrices and the wording of the captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scenes.names import slot_math, tile_math, tile_plain
from scenes.skips import Skipped
from scenes.story import Cleared, Computed, Event, Loaded, Move, Picture, Stored, Story, Updated
from scenes.workings import Rule, Working, work_out


@dataclass(frozen=True)
class Wording:
    """The words for one kind of step.

    `label` is for a list of steps, `caption` is set on the canvas (mathematics between dollar signs), `sentence` says
    it in full. Each may name the step's loop values (``{j}``) and the tiles it moves (``{tiles}``).
    """

    label: str
    caption: str
    sentence: str


@dataclass(frozen=True)
class Score:
    """Which kernel is played, and how: each launch's arrays and slots from left to right, and the wording of steps.

    `workings` has the rule by which a kind of step is worked out in its parts.
    """

    kernel: str
    arrays: Sequence[Sequence[str]]
    slots: Sequence[Sequence[str]]
    wordings: Mapping[str, Wording] = field(default_factory=dict)
    workings: Mapping[str, Rule] = field(default_factory=dict)


def working_for(score: Score, before: Picture, picture: Picture) -> Working | None:
    """The step of `picture` in its parts; None if the score has no rule for it, or there is nothing to work out."""
    if picture.step is None or picture.step.name not in score.workings:
        return None
    return work_out(score.workings[picture.step.name], before, picture)


def words_for(score: Score, story: Story, picture: Picture) -> Wording:
    """The words for one step, filled in; those of the score, else made from what happens in the step."""
    if picture.skipped:
        return _words_for_skip(story, picture.skipped)
    step = picture.step
    assert step is not None
    events = [event for phase in picture.phases for event in phase]
    if step.name not in score.wordings:
        return _own_words(story, step.name, events)
    wording = score.wordings[step.name]
    moves = [event for event in events if isinstance(event, Move)]
    plain = ", ".join(tile_plain(event.array, event.tile) for event in moves)
    mathematics = _listed([tile_math(event.array, event.symbol, event.tile) for event in moves])
    return Wording(
        wording.label.format(tiles=plain, **step.loop),
        wording.caption.format(tiles=mathematics, **step.loop),
        wording.sentence.format(tiles=plain, **step.loop),
    )


def _words_for_skip(story: Story, skipped: Skipped) -> Wording:
    symbols = {array.name: array.symbol for array in story.trace.layout.arrays}
    turns = f"{skipped.loop} = {', '.join(map(str, skipped.turns))}"
    plain = ", ".join(tile_plain(name, tile) for name, tile in skipped.tiles)
    mathematics = _listed([tile_math(name, symbols[name], tile) for name, tile in skipped.tiles])
    return Wording(
        f"skip {turns}",
        f"Skip {mathematics or turns}: above the diagonal",
        f"{turns} is skipped: every score with {plain or 'these tiles'} lies above the diagonal and is masked, so "
        "nothing is loaded.",
    )


_VERBS = {Loaded: "load", Stored: "write", Computed: "compute", Cleared: "clear", Updated: "update"}


def _own_words(story: Story, name: str, events: Sequence[Event]) -> Wording:
    launch = story.trace.layout.launches[story.launch]
    if not events:
        plain = name.replace("_", " ")
        return Wording(plain, plain.capitalize(), f"{plain.capitalize()}: nothing moves and nothing changes.")
    plain_parts, math_parts = [], []
    for kind, verb in _VERBS.items():
        done = [event for event in events if type(event) is kind]
        if not done:
            continue
        plain_names = [
            tile_plain(event.array, event.tile) if isinstance(event, Move) else event.slot for event in done
        ]
        math_names = [
            tile_math(event.array, event.symbol, event.tile)
            if isinstance(event, Move)
            else slot_math(launch.slot(event.slot))
            for event in done
        ]
        plain_parts.append(f"{verb} {', '.join(plain_names)}")
        math_parts.append(f"{verb} {_listed(math_names)}")
    label, caption = "; ".join(plain_parts), " and ".join(math_parts)
    return Wording(label, caption[0].upper() + caption[1:], label[0].upper() + label[1:] + ".")


def _listed(words: Sequence[str]) -> str:
    """Words of mathematics with commas between them."""
    return " ".join([f"{word[:-1]},$" for word in words[:-1]] + list(words[-1:]))
