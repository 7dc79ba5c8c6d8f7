"""The parts of a step: what they come to is what the trace then holds."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.trace import Trace
from scenes.score import working_for
from scenes.story import Story, tell_all
from scenes.workings import Number, Working
from tests.scenes.shapes import FA2, MASKED, RAGGED, SOFTMAX, SPLITS, Shape, name_of, score_of, traced


def workings(trace: Trace) -> list[tuple[Story, int, Working]]:
    found = []
    for story in tell_all(trace):
        for n, picture in enumerate(story.pictures[1:], start=1):
            working = working_for(score_of(trace), story.pictures[n - 1], picture)
            if working:
                found.append((story, n, working))
    return found


def test_each_part_comes_to_what_the_trace_then_holds(trace: Trace) -> None:
    found = workings(trace)
    assert found
    for story, n, working in found:
        picture = story.pictures[n]
        assert picture.step is not None
        for part in working.parts:
            if part.changes is None:
                assert part.held is None
                continue
            held = picture.step.held(part.changes)
            assert held is not None
            value = held.reshape(len(held), -1)[working.row, 0]
            assert part.held == value
            assert part.outcome == pytest.approx(value, rel=2e-5, abs=2e-6)
            last = part.numbers[-1]
            assert isinstance(last, Number)
            assert last.value == part.outcome


def test_every_change_of_a_step_is_in_one_of_its_parts(trace: Trace) -> None:
    for story, n, working in workings(trace):
        changed = [event.slot for phase in story.pictures[n].phases for event in phase]
        assert [part.changes for part in working.parts if part.changes] == changed
        assert sum(len(parts) for parts in working.by_phase(story.pictures[n].phases)) == len(working.parts)


def test_all_exponentials_of_the_row_are_in_the_new_denominator() -> None:
    for _, _, working in workings(traced(RAGGED)):
        exponentials = next(part for part in working.parts if part.formula.startswith("$P_"))
        denominator = next(part for part in working.parts if part.changes == "li")
        added = denominator.numbers[denominator.numbers.index("+") + 1]
        assert isinstance(added, Number)
        assert added.value == pytest.approx(exponentials.outcome)


def test_a_row_that_has_seen_no_key_is_never_worked_out() -> None:
    for story, n, working in workings(traced(MASKED)):
        if story.pictures[n].step.name == "update":  # type: ignore[union-attr]
            content = story.pictures[n].slots["mi"]
            assert content is not None
            assert np.isfinite(content.values[working.row, 0])


@pytest.mark.parametrize("shape", [RAGGED, FA2, SPLITS, SOFTMAX], ids=name_of)
def test_the_summary_says_what_was_and_what_is(shape: Shape) -> None:
    story, n, working = next(found for found in workings(traced(shape)))
    numbers = [part.value for part in working.summary if isinstance(part, Number)]
    first = next(part.changes for part in working.parts if part.changes)
    before, after = story.pictures[n - 1].slots[first], story.pictures[n].slots[first]
    assert before is not None
    assert after is not None
    assert numbers[:2] == [before.values[working.row, 0], after.values[working.row, 0]]
