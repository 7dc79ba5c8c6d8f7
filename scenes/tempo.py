"""How long things take: full length the first time, faster when they come round again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scenes.story import Cleared, Computed, Loaded, Picture, Stored, Story, Updated

TICK = 1 / 15  # a whole number of frames at 15, 30 and 60 frames a second
MOST_SECONDS = 78.0
_OPENING = 2.4
_SAY, _LOOK = 0.6, 0.8
_PHASE = {Loaded: 1.4, Stored: 1.4, Computed: 1.8, Cleared: 0.8, Updated: 1.5}
_QUICKER = 0.7
_LEAST = 0.12


@dataclass(frozen=True)
class Timing:
    """The seconds of one step: to read its caption, for each of its phases, and to look at the outcome."""

    say: float
    phases: tuple[float, ...]
    look: float

    @property
    def total(self) -> float:
        """All of the step."""
        return self.say + sum(self.phases) + self.look


def ticks(seconds: float) -> float:
    """A duration as a whole number of ticks, at least one."""
    return max(1, round(seconds / TICK)) * TICK


def timings(stories: Sequence[Story]) -> list[list[Timing]]:
    """The timing of each picture of each story of a film.

    A kind of step goes a little faster each time it comes round, down to a speed at which the film stays short.
    """
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
        and sum(t.total for film in _timed(stories, quickness, floor) for t in film) > MOST_SECONDS
    ):
        floor *= 0.95
    return _timed(stories, quickness, floor)


def _timed(stories: Sequence[Story], quickness: list[list[float]], floor: float) -> list[list[Timing]]:
    return [
        [_timing(picture, max(part, floor)) for picture, part in zip(story.pictures, parts, strict=True)]
        for story, parts in zip(stories, quickness, strict=True)
    ]


def _timing(picture: Picture, part: float) -> Timing:
    if picture.skipped:
        return Timing(ticks(_SAY), (), ticks(_LOOK))
    if picture.step is None:
        return Timing(ticks(_SAY * part), (ticks(_OPENING * part),), ticks(_LOOK * part))
    phases = tuple(ticks(_PHASE[type(phase[0])] * part) for phase in picture.phases)
    return Timing(ticks(_SAY * part), phases, ticks(_LOOK * part))
