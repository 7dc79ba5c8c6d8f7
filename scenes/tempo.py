"""How long things take: full length the first time, faster when they come round again."""

from __future__ import annotations

from collections import Counter
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


def timings(story: Story) -> list[Timing]:
    """The timing of each picture of a story.

    A kind of step goes a little faster each time it comes round, down to a speed at which the film stays short.
    """
    visits: Counter[str] = Counter()
    quickness = []
    for picture in story.pictures:
        name = picture.step.name if picture.step else ""
        quickness.append(_QUICKER ** visits[name])
        visits[name] += 1
    floor = 0.6
    while floor > _LEAST and _length(story, quickness, floor) > MOST_SECONDS:
        floor *= 0.95
    return [
        _timing(picture, max(part, floor)) for picture, part in zip(story.pictures, quickness, strict=True)
    ]


def _length(story: Story, quickness: list[float], floor: float) -> float:
    return sum(
        _timing(picture, max(part, floor)).total
        for picture, part in zip(story.pictures, quickness, strict=True)
    )


def _timing(picture: Picture, part: float) -> Timing:
    if picture.step is None:
        return Timing(ticks(_SAY), (ticks(_OPENING),), ticks(_LOOK))
    phases = tuple(ticks(_PHASE[type(phase[0])] * part) for phase in picture.phases)
    return Timing(ticks(_SAY * part), phases, ticks(_LOOK * part))
