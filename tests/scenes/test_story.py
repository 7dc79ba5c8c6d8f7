"""What the story says is what the trace holds."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.trace import Trace
from scenes.errors import SceneError
from scenes.fa1 import FlashAttention1
from scenes.film import stories_for
from scenes.score import words_for
from scenes.story import Loaded, Stored, as_matrix, tell, tell_all
from tests.scenes.shapes import FA2, RAGGED, TINY, traced


def test_slots_hold_what_the_trace_holds_after_every_step(trace: Trace) -> None:
    for picture in tell(trace).pictures[1:]:
        if picture.step is None:  # turns that are skipped
            continue
        for name, content in picture.slots.items():
            held = picture.step.held(name)
            if held is None or held.size == 0:
                assert content is None
            else:
                assert content is not None
                np.testing.assert_array_equal(content.values, as_matrix(held))


def test_hbm_is_this_blocks_window_after_every_step(trace: Trace) -> None:
    for picture in tell(trace).pictures[1:]:
        if picture.step is None:  # turns that are skipped
            continue
        for name, window in picture.step.hbm.items():
            np.testing.assert_array_equal(picture.hbm[name], as_matrix(window))


def test_inputs_are_those_of_the_filmed_head(trace: Trace) -> None:
    for launch, block in trace.blocks:
        steps = trace.steps_of(block, launch)
        opening = tell(trace, block, launch).pictures[0]
        for name, whole in trace.inputs.items():
            if any(name in step.traffic for step in steps):
                head = {step.traffic[name].head for step in steps if name in step.traffic}.pop()
                np.testing.assert_array_equal(opening.hbm[name], as_matrix(whole[head]))


def test_every_transfer_of_the_trace_is_one_move(trace: Trace) -> None:
    for picture in tell(trace).pictures[1:]:
        if picture.step is None:  # turns that are skipped
            continue
        moved = [
            (event.array, type(event), event.rows, event.columns)
            for phase in picture.phases
            for event in phase
            if isinstance(event, Loaded | Stored)
        ]
        counted = [
            (name, kind, touched.rows, touched.columns)
            for name, touched in picture.step.traffic.items()
            for kind, elements in ((Loaded, touched.reads), (Stored, touched.writes))
            if elements
        ]
        assert sorted(moved, key=str) == sorted(counted, key=str)


def test_traffic_adds_up_to_the_traffic_of_the_block(trace: Trace) -> None:
    last = tell(trace).pictures[-1].traffic
    for name, crossed in last.items():
        steps = [step.traffic[name] for step in trace.steps_of((0, 0, 0)) if name in step.traffic]
        assert crossed.reads == sum(step.reads for step in steps)
        assert crossed.writes == sum(step.writes for step in steps)


def test_a_carry_counts_the_tiles_of_keys_folded_into_it() -> None:
    trace = traced(RAGGED)
    for picture in tell(trace).pictures[1:]:
        if picture.step is None:  # turns that are skipped
            continue
        if picture.step.name == "load_kv":
            continue
        folded = picture.step.loop["j"] + (picture.step.name in ("update", "write"))
        for name in ("mi", "li", "Oi"):
            content = picture.slots[name]
            assert content is not None
            assert content.folds == folded


def test_captions_name_the_tiles_that_move() -> None:
    story = tell(traced(RAGGED))
    words = [words_for(FlashAttention1.score, story, picture) for picture in story.pictures[1:]]
    assert words[0].label == "load K₀, V₀"
    assert words[1].caption == "Load $Q_(0),$ $m_(0),$ $l_(0),$ $O_(0)$"
    assert words[8].sentence == "Outer loop j = 0, inner loop i = 1: m₁, l₁, O₁ are copied back to HBM."


def test_a_block_that_is_not_there_is_refused(trace: Trace) -> None:
    with pytest.raises(SceneError, match=r"block \(99, 0, 0\) left no steps"):
        tell(trace, (99, 0, 0))


def test_a_trace_of_another_kernel_is_refused() -> None:
    from dataclasses import replace

    other = replace(traced(TINY), kernel="other")
    with pytest.raises(SceneError, match="this scene plays traces of 'fa1', and this is a trace of 'other'"):
        stories_for(FlashAttention1.score, other)


def test_a_window_shows_its_steps_and_what_was_held_before() -> None:
    trace = traced(FA2)
    whole = tell_all(trace)
    steps = [picture for story in whole for picture in story.pictures if picture.step]
    cut = tell_all(trace, window=(3, 15))
    shown = [picture.step.index for story in cut for picture in story.pictures if picture.step]
    assert shown == [picture.step.index for picture in steps[3:15] if picture.step]
    assert [story.block for story in cut] == [(0, 0, 0), (1, 0, 0)]
    assert cut[0].pictures[0].step is None
    for name, content in steps[2].slots.items():
        opening = cut[0].pictures[0].slots[name]
        assert (opening is None) == (content is None)
        if opening is not None and content is not None:
            np.testing.assert_array_equal(opening.values, content.values)
    assert set(cut[1].pictures[0].slots.values()) == {None}
    assert cut[1].pictures[-1] is not None
    assert cut[1].pictures[-1].traffic == steps[14].traffic


@pytest.mark.parametrize("window", [(36, 40), (5, 5), (7, 3)])
def test_a_window_without_steps_is_refused(window: tuple[int, int]) -> None:
    with pytest.raises(SceneError, match=r"3 blocks have 36 steps, and none of them is in --steps"):
        tell_all(traced(FA2), window=window)
