"""How long films and their steps are."""

from __future__ import annotations

import itertools

import pytest

import kernels
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
@pytest.mark.parametrize("name", ["fa1-n64", "fa2-n64"])
def test_sixty_four_rows_in_tiles_of_sixteen_stay_under_ninety_seconds(name: str) -> None:
    trace = kernels.recorded(name)
    film = scene_for(trace.kernel)(trace=trace, theme=THEMES["light"])
    film.setup()
    steps = list(itertools.chain(*film.timings))
    assert len(steps) > 60
    assert sum(timing.total for timing in steps) < 90


def test_the_first_pass_is_the_slowest() -> None:
    story = tell(traced(LONG))
    lengths: dict[str, list[float]] = {}
    for picture, timing in zip(story.pictures, timings([story])[0], strict=True):
        lengths.setdefault(picture.step.name if picture.step else "", []).append(timing.total)
    for passes in lengths.values():
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(passes))
        assert len(passes) == 1 or passes[0] > 1.5 * passes[-1]
