"""Films of several blocks and launches, and of masked runs: what comes when, and in what state."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from kernels.trace import Trace
from scenes import plan as places
from scenes.actions import Act, RunBlock
from scenes.figure import Figure
from scenes.film import Film
from scenes.make import scene_for
from scenes.score import words_for
from scenes.story import filmed_blocks, tell_all
from scenes.theme import THEMES
from tests.scenes.shapes import (
    FA2,
    MASKED,
    MASKED_SPLITS,
    SMALL,
    SOFTMAX,
    SPLITS,
    Shape,
    name_of,
    score_of,
    traced,
)


def film_of(trace: Trace) -> Film:
    film = scene_for(trace.kernel)(trace=trace, theme=THEMES["light"])
    film.setup()
    return film


def test_blocks_of_one_head_are_filmed_in_the_order_of_the_trace(trace: Trace) -> None:
    blocks = filmed_blocks(trace)
    assert [place for place in trace.blocks if place in blocks] == list(blocks)
    heads = {
        moved.head
        for launch, block in blocks
        for step in trace.steps_of(block, launch)
        for moved in step.traffic.values()
    }
    assert heads == {0}
    assert [(story.launch, story.block) for story in tell_all(trace)] == list(blocks)


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [(SMALL, 1), (SOFTMAX, 1), (FA2, 3), (SPLITS, 4 * 2 + 2)],
    ids=lambda value: str(value)[:24],
)
def test_as_many_blocks_are_filmed_as_work_on_one_head(shape: Shape, blocks: int) -> None:
    assert len(filmed_blocks(traced(shape))) == blocks


def test_hbm_and_traffic_go_on_from_block_to_block(trace: Trace) -> None:
    for before, after in itertools.pairwise(tell_all(trace)):
        last, opening = before.pictures[-1], after.pictures[0]
        assert opening.traffic == last.traffic
        for name, matrix in last.hbm.items():
            if before.launch == after.launch:
                np.testing.assert_array_equal(opening.hbm[name], matrix)


def test_in_the_end_hbm_holds_the_outputs_of_the_head(trace: Trace) -> None:
    last = tell_all(trace)[-1].pictures[-1]
    written = {name for step in trace.steps for name, moved in step.traffic.items() if moved.writes}
    for name in written:
        if trace.layout.array(name).role == "output":
            expected = trace.outputs[name][0].reshape(last.hbm[name].shape)
            np.testing.assert_array_equal(last.hbm[name], expected)


def test_all_traffic_of_the_filmed_blocks_is_counted(trace: Trace) -> None:
    last = tell_all(trace)[-1].pictures[-1].traffic
    steps = [step for launch, block in filmed_blocks(trace) for step in trace.steps_of(block, launch)]
    for name, crossed in last.items():
        moved = [step.traffic[name] for step in steps if name in step.traffic]
        assert (crossed.reads, crossed.writes) == (sum(m.reads for m in moved), sum(m.writes for m in moved))


def test_each_block_opens_with_empty_slots(trace: Trace) -> None:
    for story in tell_all(trace):
        opening = story.pictures[0]
        assert opening.step is None
        assert set(opening.slots.values()) == {None}


def test_skipped_turns_are_those_no_block_of_the_rows_takes() -> None:
    for shape, expected in (
        # Nq 9, Nk 6: row r sees keys up to r − 3, so rows 0–2 see none, 3–5 the first three
        (MASKED, {(0, 0): (0, 1, 2), (0, 1): (2,)}),
        # Nq 2, Nk 6: row 0 sees five keys, row 1 all six: no tile of two is wholly masked
        (MASKED_SPLITS, {}),
    ):
        trace = traced(shape)
        found = {
            (story.launch, story.block[0]): picture.skipped
            for story in tell_all(trace)
            for picture in story.pictures
            if picture.skipped
        }
        assert {place: skipped.turns for place, skipped in found.items()} == expected
        for skipped in found.values():
            assert skipped.loop == "j"
            assert set(skipped.tiles) == {(name, turn) for name in "KV" for turn in skipped.turns}


def test_nothing_is_skipped_without_a_mask() -> None:
    for shape in (FA2, SPLITS, SMALL):
        assert not any(picture.skipped for story in tell_all(traced(shape)) for picture in story.pictures)


def test_skips_are_said_in_words() -> None:
    story = tell_all(traced(MASKED))[1]
    picture = next(picture for picture in story.pictures if picture.skipped)
    words = words_for(score_of(story.trace), story, picture)
    assert words.label == "skip j = 2"
    assert "K₂, V₂" in words.sentence


@pytest.mark.parametrize("shape", [FA2, SPLITS], ids=name_of)
@pytest.mark.usefixtures("manim_at_rest")
def test_each_block_has_an_opening_and_zoom_lines_slide_from_the_block_before(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = film_of(traced(shape))
    opened = []

    def play(*acts: Act) -> None:
        for act in acts:
            act.begin()
            if isinstance(act, RunBlock):
                opened.append((act.index, act.zoom.lines.points[0][0], np.ptp(act.zoom.lines.points[:, 1])))
            act.finish()

    monkeypatch.setattr(film, "play", play)
    monkeypatch.setattr(film, "wait", lambda seconds: None)
    film.construct()
    for n, (story, (index, start, height)) in enumerate(zip(film.stories, opened, strict=True)):
        figure = Figure(story, film.score, THEMES["light"], film.stories)
        assert index == figure.grid.index(story.block)
        if n and film.stories[n - 1].launch == story.launch:
            before = figure.grid.square(figure.grid.index(film.stories[n - 1].block))
            assert start == pytest.approx(before.left)
            assert height > 0.2
        else:
            assert height == 0
    sections = [take.section for take in film.takes]
    openings = [n for n, take in enumerate(film.takes) if take.trace_step is None]
    assert len(openings) == len(film.stories)
    indices = [take.trace_step for take in film.takes if take.trace_step is not None]
    assert indices == [
        step.index
        for launch, block in filmed_blocks(traced(shape))
        for step in traced(shape).steps_of(block, launch)
    ]
    figure = film.figure
    square = figure.grid.square(figure.grid.index(film.stories[-1].block))
    assert figure.zoom.lines.points[0][0] == pytest.approx(square.left)
    assert figure.zoom.lines.points[3][0] == pytest.approx(places.SRAM.left)
    if shape == FA2:
        assert sections[0] == "block 1"
        assert sections[2] == "block 1, j = 0"
        assert sections[openings[1]] == "block 2"
    else:
        assert sections[0] == "flash decoding, block 1"
        assert sections[openings[8]] == "combine, block 1"
        assert sections[openings[8] + 2] == "combine, block 1, s = 0"
        assert film.takes[openings[8]].words.sentence.startswith("The first launch is over.")


@pytest.mark.usefixtures("manim_at_rest")
def test_a_skip_shows_no_numbers_of_the_step_before(monkeypatch: pytest.MonkeyPatch) -> None:
    film = film_of(traced(MASKED))
    shown: dict[str, object] = {}
    monkeypatch.setattr(film, "play", lambda *acts: [act.finish() for act in acts])
    monkeypatch.setattr(
        film, "wait", lambda seconds: shown.update({film.figure.caption.text: film.figure.worked.line})
    )
    film.construct()
    skips = {text: line for text, line in shown.items() if text.startswith("Skip")}
    assert skips
    assert set(skips.values()) == {()}


@pytest.mark.usefixtures("manim_at_rest")
def test_each_scene_plays_the_recording_of_its_kernel_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACE", "THEME", "BLOCK"):
        monkeypatch.delenv(name, raising=False)
    for kernel in ("fa1", "fa2", "flash_decoding", "online_softmax"):
        film = scene_for(kernel)()
        film.setup()
        assert film.stories[0].trace.kernel == kernel


def test_a_scene_for_each_kernel_says_what_each_step_does() -> None:
    for path in Path("scenes").glob("*.py"):
        assert path.read_text(encoding="utf-8").startswith('"""')
    for shape in (SMALL, FA2, SPLITS, SOFTMAX):
        trace = traced(shape)
        kinds = {step.name for step in trace.steps}
        assert kinds <= set(score_of(trace).wordings)
