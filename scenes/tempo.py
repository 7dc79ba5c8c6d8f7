"""How long things take: full length the first time, faster when they come round again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scenes.story import Cleared, Computed, Loaded, Picture, Stored, Story, Updated
from scenes.workings import Working

TICK = 1 / 15  # a whole number of frames at 15, 30 and 60 frames a second
MOST_SECONDS = 84.0
_OPENING = 2.4
_SAY, _LOOK = 0.6, 0.8
_PHASE = {Loaded: 1.4, Stored: 1.4, Computed: 1.8, Cleared: 0.8, Updated: 1.5}
_PART = 32 * TICK
_QUICKER = 0.7
_LEAST = 0.12


Workings = Mapping[tuple[int, int], Working]
Told = Mapping[tuple[int, int], tuple[Working, float]]  # with the seconds of each of its parts


@dataclass(frozen=True)
class Timing:
    """The seconds of one step: to read its caption, for each of its phases, and to look at the outcome.

    With `in_parts` its phases are shown part by part, each with its formula.
    """

    say: float
    phases: tuple[float, ...]
    look: float
    in_parts: bool = False

    @property
    def total(self) -> float:
        """All of the step."""
        return self.say + sum(self.phases) + self.look


def ticks(seconds: float) -> float:
    """A duration as a whole number of ticks, at least one."""
    return max(1, round(seconds / TICK)) * TICK


def timings(stories: Sequence[Story], workings: Workings | None = None) -> list[list[Timing]]:
    """The timing of each picture of each story of a film.

    A kind of step goes a little faster each time it comes round, down to a speed at which the film stays short. Steps
    that `workings` has in parts are shown so the first time, and the first time that numbers are rescaled.
    """
    told = _first_of_each_kind(stories, workings or {})
    visits: Counter[tuple[int, str]] = Counter()
    quickness: list[list[float]] = []
    for story in stories:
        parts = []
        for picture in story.pictures:
            kind = story.launch, picture.step.name if picture.step else ""
            parts.append(_QUICKER ** visits[kind])
            visits[kind] += 1
        quickness.append(parts)
    floor = 0.6
    while (
        floor > _LEAST
        and sum(t.total for film in _timed(stories, told, quickness, floor) for t in film) > MOST_SECONDS
    ):
        floor *= 0.95
    return _timed(stories, told, quickness, floor)


def _first_of_each_kind(stories: Sequence[Story], workings: Workings) -> Told:
    chosen: dict[tuple[int, str, bool], tuple[int, int]] = {}
    for (s, n), working in workings.items():
        step = stories[s].pictures[n].step
        if step is not None:
            chosen.setdefault((step.launch, step.name, working.rescales), (s, n))
    seen: set[tuple[int, str]] = set()
    told: dict[tuple[int, int], tuple[Working, float]] = {}
    for (launch, name, _), place in chosen.items():
        told[place] = workings[place], ticks(_PART * _QUICKER) if (launch, name) in seen else _PART
        seen.add((launch, name))
    return told


def _timed(
    stories: Sequence[Story], told: Told, quickness: list[list[float]], floor: float
) -> list[list[Timing]]:
    return [
        [
            _timing(picture, max(part, floor), told.get((s, n)))
            for n, (picture, part) in enumerate(zip(story.pictures, parts, strict=True))
        ]
        for s, (story, parts) in enumerate(zip(stories, quickness, strict=True))
    ]


def _timing(picture: Picture, part: float, told: tuple[Working, float] | None) -> Timing:
    if picture.skipped:
        return Timing(ticks(_SAY), (), ticks(_LOOK))
    if picture.step is None:
        return Timing(ticks(_SAY * part), (ticks(_OPENING * part),), ticks(_LOOK * part))
    if told:
        working, seconds = told
        phases = tuple(seconds * len(parts) for parts in working.by_phase(picture.phases))
        return Timing(ticks(_SAY), phases, ticks(_LOOK), in_parts=True)
    phases = tuple(ticks(_PHASE[type(phase[0])] * part) for phase in picture.phases)
    return Timing(ticks(_SAY * part), phases, ticks(_LOOK * part))
