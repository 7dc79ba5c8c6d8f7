"""How long films and their steps are."""

from __future__ import annotations

import itertools

import pytest

from kernels.trace import Trace
from scenes.make import scene_for
from scenes.story import tell
from scenes.tempo import TICK, timings
from scenes.theme import THEMES
from tests.scenes.shapes import LONG, traced


def test_every_duration_is_a_whole_number_of_ticks(trace: Trace) -> None:
    for timing in timings([tell(trace)])[0]:
        for seconds in (timing.say, *timing.phases, timing.look):
            assert seconds > 0
            assert seconds / TICK == pytest.approx(round(seconds / TICK))


@pytest.mark.usefixtures("manim_at_rest")
def test_a_long_run_stays_under_ninety_seconds() -> None:
    film = scene_for("fa1")(trace=traced(LONG), theme=THEMES["light"])
    film.setup()
    (steps,) = film.timings
    assert len(steps) == 1 + 68
    assert sum(timing.total for timing in steps) < 90


def test_the_first_pass_is_the_slowest() -> None:
    story = tell(traced(LONG))
    lengths: dict[str, list[float]] = {}
    for picture, timing in zip(story.pictures, timings([story])[0], strict=True):
        lengths.setdefault(picture.step.name if picture.step else "", []).append(timing.total)
    for passes in lengths.values():
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(passes))
        assert len(passes) == 1 or passes[0] > 1.5 * passes[-1]
